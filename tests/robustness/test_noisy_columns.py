"""Bad input around columns with noise: the term, the two numbers and the remedy are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

NOISES: dict[str, Any] = {
    "laplace": pr.LaplaceNoise(0.5),
    "geometric": pr.GeometricNoise(0.5),
    "gaussian": pr.GaussianNoise(0.5),
    "uniform": pr.UniformNoise(1.0),
}


@pytest.fixture
def data(rng: np.random.Generator) -> pd.DataFrame:
    n = 400
    z, x = np.round(rng.normal(size=n) * 2), rng.normal(size=n)
    frame = pd.DataFrame({"z": z, "x": x, "y": 1 + 0.5 * z + x + rng.normal(size=n)})
    frame["b"] = (rng.random(n) < 1 / (1 + np.exp(-0.4 * z))).astype(int)
    frame["c"] = rng.poisson(np.exp(0.3 * z))
    return frame


def noisy(data: pd.DataFrame, noise: Any) -> tuple[pd.DataFrame, pr.Mechanism]:
    mechanism = pr.Mechanism({"z": noise})
    with pytest.warns(UserWarning, match="not secure"):
        return mechanism.perturb(data, seed=5), mechanism


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ log(z)", r"term 'log\(z\)' transforms the column 'z', which holds noise.*added to the logarithm itself"),
        ("y ~ np.sqrt(z)", r"term 'np.sqrt\(z\)' transforms"),
        ("y ~ np.exp(z)", r"term 'np.exp\(z\)' transforms"),
        ("y ~ I(1 / z)", r"term 'I\(1 / z\)' transforms"),
        ("y ~ I(z ** 0.5)", r"term 'I\(z \*\* 0.5\)' transforms"),
        ("y ~ C(z)", r"term 'C\(z\)' transforms"),
        ("y ~ bs(z, df=4)", r"applies bs\(\) to the perturbed column 'z'"),
        ("y ~ scale(z)", r"applies scale\(\)"),
        ("log(z) ~ x", r"term 'log\(z\)' transforms"),
        ("y ~ x + offset(np.exp(z))", r"term 'np.exp\(z\)' transforms"),
        ("y ~ I(z ** 4)", r"degree 4, and noise is undone up to degree 3"),
        ("I(z ** 7) ~ x", r"degree 7 in 'z', above 6"),
    ],
)
def test_transforms_that_no_noise_allows(data: pd.DataFrame, name: str, formula: str, message: str) -> None:
    frame, mechanism = noisy(data, NOISES[name])
    with pytest.raises(pr.FormulaError, match=message):
        pr.fit(formula, frame, mechanism)


def test_comparisons_are_for_a_grid(data: pd.DataFrame) -> None:
    frame, mechanism = noisy(data, NOISES["geometric"])
    assert np.isfinite(pr.fit("y ~ I(z > 1)", frame, mechanism).estimate).all()
    assert np.isfinite(pr.fit("y ~ x", frame, mechanism, subset="z > 0").estimate).all()
    for name in ("laplace", "gaussian", "uniform"):
        frame, mechanism = noisy(data, NOISES[name])
        with pytest.raises(pr.FormulaError, match=r"term 'I\(z > 1\)' transforms the column 'z'"):
            pr.fit("y ~ I(z > 1)", frame, mechanism)
        with pytest.raises(pr.FormulaError, match=r"subset.*'z', which holds noise.*GeometricNoise"):
            pr.fit("y ~ x", frame, mechanism, subset="z > 0")


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(
    "what",
    [
        pr.median("z"),
        pr.share("z", 0, 1),
        pr.quantile("z", 0.9),
        pr.gini("z"),
        pr.proportions("z"),
        pr.mean("y", by="z"),
    ],
)
def test_quantiles_and_shares_are_refused_with_what_to_do(data: pd.DataFrame, name: str, what: Any) -> None:
    frame, mechanism = noisy(data, NOISES[name])
    with pytest.raises(pr.DataError, match=r"'z' has no levels.*at the usual rate; use mean\('z'\).*clamped\(\)"):
        pr.fit(what, frame, mechanism)


def test_a_quantile_regression_on_laplace_noise_is_refused(data: pd.DataFrame) -> None:
    frame, mechanism = noisy(data, NOISES["laplace"])
    with pytest.raises(pr.FormulaError, match=r"not a smooth function of 'z'.*LaplaceNoise"):
        pr.fit(pr.quantile_regression("y ~ z", 0.5), frame, mechanism)
    step = pr.from_callable(lambda b, z: ((z <= b[0]) - 0.5)[:, None], ["median"], smooth=False)
    with pytest.raises(pr.FormulaError, match=r"'median' is not a smooth function of 'z'"):
        pr.fit(step, frame, mechanism)


def test_values_off_the_grid(data: pd.DataFrame) -> None:
    mechanism = pr.Mechanism({"z": pr.GeometricNoise(1.0)})
    off = data.assign(z=data["z"] + np.where(np.arange(len(data)) == 7, 0.25, 0.0))
    for formula in ("y ~ z", "y ~ I(z ** 2)", "b ~ z"):
        with pytest.raises(
            pr.DataError, match=r"1 of 400 released values are no multiples of the step 1, first in row 7"
        ):
            pr.fit(formula, off, mechanism)


@pytest.mark.parametrize("noise", [pr.GeometricNoise(2.0, bounds=(-4, 4)), pr.LaplaceNoise(2.0, bounds=(-4, 4))])
def test_values_clipped_after_the_noise(data: pd.DataFrame, noise: Any) -> None:
    frame, mechanism = noisy(data, noise)
    assert np.isfinite(pr.fit("y ~ z", frame, mechanism).estimate).all()
    with pytest.raises(pr.DataError, match=r"lie at the bound -4 and none beyond it.*clipped, or records left out"):
        pr.fit("y ~ z", frame.assign(z=frame["z"].clip(-4, 4)), mechanism)


@pytest.mark.parametrize("noise", [pr.LaplaceNoise(0.9), pr.GeometricNoise(0.9)])
def test_a_coefficient_too_large_for_the_noise_names_both_numbers(data: pd.DataFrame, noise: Any) -> None:
    frame, mechanism = noisy(data, noise)
    found, ones = equation(frame, mechanism, "c ~ z", "poisson"), np.ones(len(frame))
    assert np.isfinite(found.clean_outer(np.array([0.0, 0.5]), ones)).all()
    message = r"the coefficient of 'z' is 0\.7 and its noise has a scale of 0.9.*below 1.*it is 1\.26"
    with pytest.raises(pr.SolveError, match=message):
        found.clean_outer(np.array([0.0, 0.7]), ones)


def test_normal_noise_beyond_the_reach_of_the_logit(data: pd.DataFrame) -> None:
    frame, mechanism = noisy(data, NOISES["gaussian"])
    with pytest.raises(pr.SolveError, match=r"standard deviation of 2 on the scale.*below 1.25.*conditional-score"):
        equation(frame, mechanism, "b ~ z").clean_outer(np.array([0.0, 4.0]), np.ones(len(frame)))
    joint = pr.Mechanism({("z", "x"): pr.JointGaussianNoise([[0.75, 0.3], [0.3, 0.75]])})
    with pytest.raises(
        pr.SolveError, match=r"noise of 'z', 'x' has a standard deviation of 1.45 on the scale.*below 1.25"
    ):
        equation(data, joint, "b ~ z + x").clean_outer(np.array([0.0, 1.0, 1.0]), np.ones(len(data)))
    frame, mechanism = noisy(data, pr.DiscreteGaussianNoise(1.0))
    with pytest.raises(pr.SolveError, match=r"moves by 0.5 within one step of 'z'.*finer step"):
        equation(frame, mechanism, "b ~ z").clean_outer(np.array([0.0, 0.5]), np.ones(len(frame)))


def equation(frame: pd.DataFrame, mechanism: pr.Mechanism, formula: str, family: str = "binomial") -> Any:
    from pramana.estimators import Reversion
    from pramana.frames import read

    table = read(frame)
    function = pr.glm(formula, family).prepare(table, mechanism.schema)
    return Reversion().bind(function, mechanism, table, np.ones(table.n)).equation


@pytest.mark.parametrize(
    ("name", "formula", "options", "error"),
    [
        ("uniform", "b ~ z", {"family": "binomial", "link": "probit"}, pr.MechanismError),
        ("uniform", "b ~ z + I(z ** 2)", {"family": "binomial"}, pr.MechanismError),
        ("gaussian", "b ~ z + I(z ** 2)", {"family": "binomial"}, pr.MechanismError),
        ("gaussian", "b ~ z", {"family": "binomial", "link": "probit"}, pr.MechanismError),
        ("laplace", "b ~ z", {"family": "binomial", "link": "cloglog"}, pr.FormulaError),
        ("laplace", "c ~ z + I(z ** 2)", {"family": "poisson"}, pr.FormulaError),
        ("geometric", "c ~ z + I(z ** 2)", {"family": "poisson"}, pr.FormulaError),
    ],
)
def test_families_that_a_noise_does_not_allow(
    data: pd.DataFrame, name: str, formula: str, options: Any, error: Any
) -> None:
    frame, mechanism = noisy(data, NOISES[name])
    with pytest.raises(error, match=r"UniformNoise|GaussianNoise|LaplaceNoise|GeometricNoise"):
        pr.fit(formula, frame, mechanism, **options)


def test_a_noisy_response_may_lie_where_no_true_one_can(data: pd.DataFrame) -> None:
    """U is linear in the response: a count with noise, some of it negative, keeps its regression."""
    mechanism = pr.Mechanism({"c": pr.GeometricNoise(1.0)})
    with pytest.warns(UserWarning, match="not secure"):
        frame = mechanism.perturb(data, seed=2)
    assert (frame["c"] < 0).any()
    found, clean = (pr.fit("c ~ z", f, m, family="poisson") for f, m in ((frame, mechanism), (data, None)))
    np.testing.assert_array_less(np.abs(found.estimate - clean.estimate), 4 * found.standard_errors)


def test_likelihoods_ask_for_levels(data: pd.DataFrame) -> None:
    frame, mechanism = noisy(data, NOISES["geometric"])
    for method in ("likelihood", "model-dependent"):
        with pytest.raises(pr.MechanismError, match=r"needs levels"):
            pr.fit("y ~ z", frame, mechanism, method=method)


@pytest.mark.parametrize("name", ["laplace", "geometric"])
def test_exponentials_whose_domain_is_not_checked_are_refused(data: pd.DataFrame, name: str) -> None:
    frame, mechanism = noisy(data, NOISES[name])
    for what in (pr.margins("c ~ z", family="poisson"), pr.average_treatment_effect("y", "b", "z")):
        with pytest.raises(pr.FormulaError, match=r"needs averages of exponentials of 'z'"):
            pr.fit(what, frame, mechanism)
    assert np.isfinite(pr.fit(pr.margins("b ~ z", family="binomial"), frame, mechanism).estimate).all()


def test_noise_that_drowns_the_signal_is_remarked_on_with_the_ratio(data: pd.DataFrame) -> None:
    frame, mechanism = noisy(data, pr.LaplaceNoise(30.0))
    found = pr.fit("y ~ z + x", frame, mechanism)
    message = next(d.message for d in found.diagnostics if d.code == "noise-outweighs-signal")
    assert "the noise of 'z' has a standard deviation of 42.43" in message
    healthy = pr.fit("y ~ z + x", *noisy(data, pr.LaplaceNoise(1.0)))
    assert "noise-outweighs-signal" not in {d.code for d in healthy.diagnostics}


def own(what: Any, **said: Any) -> Any:
    return pr.from_callable(lambda beta, z: (what(z) - beta[0])[:, None], ["m"], **said)


@pytest.mark.parametrize(
    ("noise", "function", "error", "message"),
    [
        ("gaussian", own(np.sin), pr.MechanismError, r"GaussianNoise is undone in polynomials.*degree={column: degree}, or entire=\[column\]"),
        ("uniform", own(np.sin), pr.MechanismError, r"UniformNoise is undone.*degree={column: degree}\), or have"),
        ("gaussian", own(np.abs, entire="z"), pr.FormulaError, r"real numbers for complex values of 'z'.*leave the column out of entire="),
        ("gaussian", own(lambda z: 1 / (1 + z**2), entire="z"), pr.SolveError, r"at 'z' \+ i·noise differs by .* 1e-06 is allowed"),
        ("gaussian", own(np.sin, degree={"z": 2}), pr.FormulaError, r"no polynomial of degree 2 in 'z'.*order 3 are not zero"),
        ("gaussian", own(lambda z: z**7, degree={"z": 7}), pr.FormulaError, r"degree 7 in 'z' \(GaussianNoise\).*up to degree 6"),
        ("laplace", own(np.sin, second={"z": lambda beta, z: np.sin(z + 0 * beta[0])[:, None]}), pr.FormulaError, r"second\['z'\] is not the second derivative"),
        ("laplace", own(np.sin, second={"z": lambda beta, z: z + beta[0]}), pr.FormulaError, r"second\['z'\] returned shape \(50,\)"),
    ],
)  # fmt: skip
def test_functions_of_ones_own_that_a_noise_does_not_allow(
    data: pd.DataFrame, noise: str, function: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        pr.fit(function, *noisy(data, NOISES[noise]))


def test_derivatives_of_several_columns(data: pd.DataFrame) -> None:
    mechanism = pr.Mechanism({name: pr.LaplaceNoise(0.3) for name in ("z", "x", "y")})

    def u(beta: Any, z: Any, x: Any, y: Any) -> Any:
        return (np.sin(z) * np.cos(x) * y - beta[0])[:, None]

    with pytest.raises(pr.FormulaError, match=r"second={\('z', 'x'\): function}, or write u in jax.numpy"):
        pr.fit(pr.from_callable(u, ["m"], second={"z": u, "x": u}), data, mechanism)
    with pytest.raises(pr.FormulaError, match=r"3 columns with Laplace noise \('z', 'x', 'y'\).*at most 2"):
        pr.fit(pr.from_callable(u, ["m"], second={"z": u, "x": u, "y": u}), data, mechanism)
    with pytest.raises(pr.DataError, match=r"noise of 'z', 'x', 'y' would be undone by weights so large that 0.07"):
        pr.fit(pr.from_callable(u, ["m"]), data, mechanism)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"second": {"w": np.sin}}, "'w' is no column of u: it takes 'z'"),
        ({"degree": {"w": 1}}, "'w' is no column of u"),
        ({"entire": ["z", "w"]}, "'w' is no column of u"),
        ({"second": {"z": 3}}, "second holds a int"),
        ({"degree": {"z": 1.5}}, r"degree\['z'\]=1.5 must be a whole number"),
    ],
)
def test_what_is_said_of_columns_is_checked(said: Any, message: str) -> None:
    with pytest.raises(pr.FormulaError, match=message):
        own(np.sin, **said)


def test_joint_noise_is_refused_by_its_own_name(data: pd.DataFrame) -> None:
    """Also where one of its columns alone is read."""
    mechanism = pr.Mechanism({("z", "x"): pr.JointGaussianNoise([[0.25, 0.1], [0.1, 0.25]])})
    for formula in ("b ~ z + I(z ** 2)", "b ~ z + x + I(z ** 2)"):
        with pytest.raises(pr.MechanismError, match=r"^JointGaussianNoise is undone in polynomials"):
            pr.fit(formula, data, mechanism, family="binomial")
    with pytest.raises(pr.FormulaError, match=r"degree 4"):
        pr.fit("y ~ I(z ** 4)", data, mechanism)


def test_of_kept_numbers_quantiles_alone_are_estimated(data: pd.DataFrame) -> None:
    frame, mechanism = noisy(data, pr.KeepOrNoise(0.6, pr.LaplaceNoise(0.5)))
    for options in (
        {},
        {"subset": "x > 0"},
        {"clusters": np.arange(400) // 10},
        {"inference": pr.Resampling(20, seed=1)},
    ):
        assert np.isfinite(pr.fit(pr.median("z"), frame, mechanism, **options).estimate).all()
    for what in (pr.gini("z"), pr.poverty_rate("z")):
        with pytest.raises(pr.DataError, match=r"'z' is perturbed, and .* needs the amounts themselves"):
            pr.fit(what, frame, mechanism)
    for what in (pr.proportions("z"), pr.mean("y", by="z")):
        with pytest.raises(pr.DataError, match=r"'z' has no levels"):
            pr.fit(what, frame, mechanism)
    with pytest.raises(pr.FormulaError, match=r"whether a record is inside cannot be undone"):
        pr.fit(pr.median("y"), frame, mechanism, subset="z > 0")


def test_noise_beyond_a_logit_is_named_with_its_limit(data: pd.DataFrame) -> None:
    """Where no root is found: the standard deviation of the noise, and how large a coefficient may be beside it."""
    frame, mechanism = noisy(data, pr.GaussianNoise(4.0))
    with pytest.raises(
        pr.SolveError,
        match=r"'z' has a standard deviation of 4, and its coefficient must stay below 0.312.*conditional-score",
    ):
        pr.fit("b ~ z", frame, mechanism, family="binomial")


@pytest.mark.parametrize(
    "noise", [pr.GaussianNoise(1.0), pr.UniformNoise(1.0), pr.KeepOrNoise(0.5, pr.LaplaceNoise(1.0))]
)
def test_other_clamped_noise_is_refused_in_words(noise: Any) -> None:
    with pytest.raises(
        pr.MechanismError,
        match=rf"{type(noise).__name__} releases cannot be undone once it is clamped: use LaplaceNoise",
    ):
        noise.clamped()


@pytest.mark.parametrize("name", NOISES)
def test_what_is_said_of_an_offset_and_of_a_link_can_be_done(data: pd.DataFrame, name: str) -> None:
    """An offset was told to be linear, which it was, and a binomial family to be binomial."""
    frame, mechanism = noisy(data, NOISES[name])
    with pytest.raises(pr.FormulaError, match=r"the offset reads 'z' \(\w+\).*make 'z' a term, whose coefficient"):
        pr.fit("c ~ x + offset(z)", frame, mechanism, family="poisson")
    assert np.isfinite(pr.fit("c ~ x + z", frame, mechanism, family="poisson").estimate).all()
    with pytest.raises(pr.FormulaError, match=r"'cloglog'.*or 'binomial' with link 'logit' or 'probit'"):
        pr.fit("b ~ z", frame, mechanism, family="binomial", link="cloglog")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "noise",
    [
        pr.LaplaceNoise(0.5, bounds=(-8, 8)),
        pr.GeometricNoise(0.5, bounds=(-8, 8)),
        pr.GaussianNoise(0.5, bounds=(-8, 8)),
        pr.UniformNoise(1.0, bounds=(-8, 8)),
        pr.KeepOrNoise(0.6, pr.LaplaceNoise(0.5, bounds=(-8, 8))),
        pr.Stratified("g", {0: pr.LaplaceNoise(0.5, bounds=(-8, 8)), 1: pr.LaplaceNoise(0.8, bounds=(-8, 8))}),
    ],
)
def test_values_that_the_noise_cannot_have_made(data: pd.DataFrame, noise: Any) -> None:
    """A column in other units, or with another description, was fitted without a word."""
    mechanism = pr.Mechanism({"z": noise})
    frame = mechanism.perturb(data.assign(g=data["b"]), seed=5)
    assert np.isfinite(pr.fit("y ~ z", frame, mechanism).estimate).all()
    assert np.isfinite(pr.fit("y ~ z", frame.assign(z=frame["z"].round()), mechanism).estimate).all()
    for what in ("y ~ z", "mean(z)"):
        with pytest.raises(
            pr.DataError, match=r"released values lie more than .* beyond the bounds -8 and 8, first in row \d"
        ):
            pr.fit(what, frame.assign(z=frame["z"] * 100), mechanism)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("noise", [pr.LaplaceNoise(5.0), pr.GeometricNoise(5.0)])
def test_a_search_beyond_the_reach_of_a_log_link_names_both_numbers(noise: Any) -> None:
    """2 · 5 · 0.15 is above 1; before, nothing was said but that no root was found."""
    rng = np.random.default_rng(1)
    mechanism, z = pr.Mechanism({"z": noise}), rng.integers(0, 20, 400)
    frame = mechanism.perturb({"z": z, "c": rng.poisson(np.exp(0.15 * z))}, seed=1)
    with pytest.raises(
        pr.SolveError, match=r"'z' has a scale of 5, and its coefficient must stay below 0\.1\. Use less noise"
    ):
        pr.fit("c ~ z", frame, mechanism, family="poisson")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bounds", [(0, 20), (-3, 16), (0.5, 19.5)])
def test_uniform_noise_that_was_clipped_is_refused(bounds: tuple[float, float]) -> None:
    """Uniform noise ends somewhere, so that none beyond a bound says nothing by itself: the fit gave 0.316 ± 0.001 for 0.3 without a word."""
    rng = np.random.default_rng(1)
    z = rng.integers(0, 21, 4000)
    mechanism = pr.Mechanism({"z": pr.UniformNoise(8.0, bounds=bounds)})
    frame = mechanism.perturb(pd.DataFrame({"z": z, "y": 0.3 * z + rng.normal(size=4000)}), seed=1)
    for kept in (frame, frame.assign(z=frame["z"].round()), frame.assign(z=frame["z"].round(1))):
        assert np.isfinite(pr.fit("y ~ z", kept, mechanism).estimate).all()
    with pytest.raises(pr.DataError, match=r"released values lie at the bound \S+ and none beyond it"):
        pr.fit("y ~ z", frame.assign(z=frame["z"].clip(*bounds)), mechanism)

"""From an equation to its root, or to a clear statement that there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.engines import LocalEngine
from pramana.inference.solve import Root, solve
from randomizations import bound

NOISY = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.8, 0.8)})
STRONG = pr.Mechanism({"x": pr.GaussianNoise(1.02)})


def root_of(formula: str, columns: dict[str, Any], mechanism: Any = None, start: Any = None, **family: Any) -> Root:
    equation = bound(pr.glm(formula, **family), columns, mechanism)
    return solve(LocalEngine.of(equation), start=None if start is None else np.asarray(start, dtype=float))


@pytest.fixture
def grouped(rng: np.random.Generator) -> dict[str, Any]:
    """Everyone in group 1 says yes: quasi-separated in g."""
    g = np.repeat([0, 1], [40, 20])
    return {"g": g, "z": rng.normal(size=60), "y": np.where(g == 1, 1, np.arange(60) % 2)}


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_separable_data_have_no_root(link: str) -> None:
    x = np.arange(10.0) - 4.5
    with pytest.raises(pr.SolveError, match=r"no (finite )?root"):
        root_of("y ~ x", {"x": x, "y": (x > 0).astype(int)}, family="binomial", link=link)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_quasi_separable_data_have_no_root(link: str, grouped: dict[str, Any]) -> None:
    with pytest.raises(pr.SolveError, match="'g'"):
        root_of("y ~ g + z", grouped, family="binomial", link=link)


@pytest.mark.parametrize("family", ["poisson", "gamma", "inverse-gaussian"])
def test_groups_far_from_the_mean_of_all_are_reached(family: str) -> None:
    """The saturated fit is the logarithm of each group's mean; the smallest is a thousandth of the overall one."""
    means = np.array([0.01, 1.0, 30.0])
    data = {"g": np.repeat(["a", "b", "c"], 40), "y": np.outer(means, np.tile([0.5, 1.5], 20)).ravel()}
    found = root_of("y ~ 0 + g", data, family=family)
    np.testing.assert_allclose(found.beta, np.log(means), atol=1e-8)


def test_the_certificate_names_the_direction_alone(grouped: dict[str, Any]) -> None:
    with pytest.raises(pr.SolveError, match="no finite root exists") as caught:
        root_of("y ~ g + z", grouped, family="binomial")
    assert "'g'" in str(caught.value)
    assert "'z'" not in str(caught.value)


def test_overlapping_data_have_a_root(grouped: dict[str, Any]) -> None:
    """One record less separated, and the same fit works: the certificate is not raised too easily."""
    overlapping = {**grouped, "y": np.where(np.arange(60) == 59, 0, grouped["y"])}
    root = root_of("y ~ g + z", overlapping, family="binomial")
    assert (root.path, root.norm < 1e-10) == ("concave", True)


@pytest.mark.parametrize(("ones", "rooted"), [(79, True), (81, False), (21, True), (19, False)])
def test_a_reverted_share_outside_the_unit_interval_has_no_logit(ones: int, rooted: bool) -> None:
    """The reverted share is (λ − 0.2)/0.6, inside (0, 1) when 0.2 < λ < 0.8."""
    columns = {"y": np.repeat([1, 0], [ones, 100 - ones])}
    if rooted:
        share = (ones / 100 - 0.2) / 0.6
        root = root_of("y ~ 1", columns, NOISY, family="binomial")
        assert root.beta[0] == pytest.approx(np.log(share / (1 - share)), rel=1e-8)
    else:
        with pytest.raises(pr.SolveError, match="no finite root exists"):
            root_of("y ~ 1", columns, NOISY, family="binomial")


def test_a_reverted_group_share_outside_the_unit_interval_is_certified(grouped: dict[str, Any]) -> None:
    with pytest.raises(pr.SolveError, match="no finite root exists"):
        root_of("y ~ g", grouped, NOISY, family="binomial")


def test_a_poisson_group_without_events_has_no_root(grouped: dict[str, Any]) -> None:
    with pytest.raises(pr.SolveError, match="'g'"):
        root_of("y ~ g", {**grouped, "y": 1 - grouped["y"]}, family="poisson")


def test_rows_of_weight_zero_do_not_trouble_the_certificate(grouped: dict[str, Any]) -> None:
    weights = np.where(np.arange(60) < 30, 0.0, 1.0)
    result = pr.fit("y ~ z", {**grouped, "y": np.arange(60) % 3}, None, family="poisson", weights=weights)
    half = {k: v[30:] for k, v in {**grouped, "y": np.arange(60) % 3}.items()}
    np.testing.assert_allclose(result.estimate, pr.fit("y ~ z", half, None, family="poisson").estimate, rtol=1e-9)


@pytest.fixture
def hidden(rng: np.random.Generator) -> tuple[dict[str, Any], pr.Mechanism]:
    """A logistic model with a perturbed covariate: some node weights are negative, so nothing is concave."""
    n, keep = 500, 0.8
    g, x = rng.integers(0, 2, n), rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(0.5 - g - 0.5 * x))).astype(int)
    released = np.where(rng.random(n) < keep, g, 1 - g)
    return {"g": released, "x": x, "y": y}, pr.Mechanism({"g": pr.TransitionMatrix.binary(keep, keep)})


def test_a_perturbed_covariate_takes_newton(hidden: tuple[Any, Any]) -> None:
    assert root_of("y ~ g + x", *hidden, family="binomial").path == "newton"


def test_continuation_finds_the_root_that_newton_misses(hidden: tuple[Any, Any]) -> None:
    """From 30 logits away every fitted mean of one group is 0 or 1, and the slope is numerically singular."""
    expected = root_of("y ~ g + x", *hidden, family="binomial")
    root = root_of("y ~ g + x", *hidden, start=[0, 30, 0], family="binomial")
    assert root.path == "continuation"
    np.testing.assert_allclose(root.beta, expected.beta, rtol=1e-8)


def test_continuation_is_reported_with_the_result(hidden: tuple[Any, Any]) -> None:
    result = pr.fit("y ~ g + x", *hidden, family="binomial", start=[0, 30, 0])
    assert "continuation" in [d.code for d in result.diagnostics]


@pytest.mark.parametrize("family", ["poisson", "binomial"])
@pytest.mark.parametrize("start", [[0, 30, 0], [3, 3, 3], [-6, 10, 4]])
def test_a_far_start_never_gives_a_number_that_is_no_root(
    family: str, start: list[float], hidden: tuple[Any, Any]
) -> None:
    """A score that is tiny next to the one at a far start is still judged by its own standard deviation."""
    equation = bound(pr.glm("y ~ g + x", family), *hidden)
    root = solve(LocalEngine.of(equation), start=np.asarray(start, dtype=float))
    phi = equation.influence(root.beta)
    assert np.abs(phi.sum(axis=0) / np.sqrt((phi**2).sum(axis=0))).max() < 1e-6


def test_a_far_start_of_a_concave_objective_reaches_the_same_root(rng: np.random.Generator) -> None:
    columns = {"x": rng.normal(size=200), "y": rng.poisson(2, 200)}
    near, far = (root_of("y ~ x", columns, start=s, family="poisson") for s in (None, [12.0, -3.0]))
    np.testing.assert_allclose(far.beta, near.beta, rtol=0, atol=1e-6)  # the step that may be left at a root


def test_a_perfect_linear_fit_is_a_root() -> None:
    """Every residual is rounding, so the score has no standard deviation of its own to be judged by."""
    x = np.arange(20.0)
    np.testing.assert_allclose(root_of("y ~ x", {"x": x, "y": 3 - 2 * x}).beta, [3, -2], rtol=1e-10)


def test_a_root_that_was_not_found_is_an_error_with_norm_steps_and_remedy() -> None:
    what = pr.from_callable(lambda beta, y: (1 + y**2 + beta[0] ** 2)[:, None], ["b"])
    with pytest.raises(pr.SolveError, match=r"'b': after \d+ steps .* standard deviations from zero .* Try start="):
        pr.fit(what, {"y": np.arange(5.0)}, None)


def test_a_reverted_variance_that_is_negative_is_an_error_in_the_diagnostics() -> None:
    """g is released 1 in 12 % of the records though specificity alone gives 40 %: p − p² reverts to below zero."""
    g = np.repeat([0, 1], [88, 12])
    data = {"g": g, "y": g + np.sin(np.arange(100.0))}
    result = pr.fit("y ~ g", data, pr.Mechanism({"g": pr.TransitionMatrix.binary(0.6, 0.6)}))
    assert ("not-identified", "error") in [(d.code, d.severity) for d in result.diagnostics]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("seed", "conditional"), [(1441, 0.983), (1775, 0.969)])
def test_a_root_where_one_mixture_gives_way_to_the_next(seed: int, conditional: float) -> None:
    """Between 0.98 and 1 on the scale of the linear predictor four components become three, and the score falls twice as fast as its
    slope says: Newton jumped from one side of the root to the other, and the fit was refused."""
    rng = np.random.default_rng(np.random.SeedSequence(115, spawn_key=(seed,)))
    g, x = rng.integers(0, 2, 4000), 1.5 * rng.normal(size=4000)
    y = (rng.random(4000) < 1 / (1 + np.exp(-(-0.2 + x + 0.5 * g)))).astype(int)
    released = STRONG.perturb({"y": y, "x": x, "g": g}, seed=int(rng.integers(2**63)))
    equation = bound(pr.glm("y ~ x + g", family="binomial"), released, STRONG)
    found = solve(LocalEngine.of(equation))
    assert 0.98 < 1.02 * found.beta[1] < 0.9975
    assert abs(found.beta[1] - conditional) < 0.02  # the conditional score
    below, above = (equation.influence(found.beta + step).sum(axis=0)[1] for step in np.outer([-1e-6, 1e-6], [0, 1, 0]))
    assert below > 0 > above

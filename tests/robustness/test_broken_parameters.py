"""Parameters by name meet bad input: a clear error or a diagnostic, never a silent number."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pramana as pr

LEVELS = ["low", "mid", "high"]
DRAWS = pr.Resampling(draws=20, seed=1)


@pytest.fixture
def data(rng: np.random.Generator) -> pd.DataFrame:
    n = 300
    return pd.DataFrame(
        {
            "edu": rng.choice(LEVELS, n),
            "x": rng.normal(size=n),
            "z": rng.normal(size=n),
            "t": rng.integers(0, 2, n),
            "y": rng.normal(size=n),
            "income": rng.exponential(size=n),
            "name": rng.choice(["ann", "bob"], n),
        }
    )


@pytest.fixture
def strong(rng: np.random.Generator) -> pr.Mechanism:
    """So strong that a level without members gets a negative share in about every second sample."""
    return pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.4, kind="ordinal")})


@pytest.fixture
def ordered() -> pr.Mechanism:
    return pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.85, kind="ordinal")})


def refused(what: Any, data: Any, mechanism: pr.Mechanism | None = None, **options: Any) -> str:
    with pytest.raises(pr.PramanaError) as caught:
        pr.fit(what, data, mechanism, **options)
    return str(caught.value)


def lopsided(n: int = 300) -> pd.DataFrame:
    """Released data in which "high" is rarer than noise alone would make it."""
    edu = ["low"] * (n // 2) + ["mid"] * (n // 2 - 20) + ["high"] * 20
    return pd.DataFrame({"edu": edu, "x": np.sin(np.arange(n)), "income": 1.0 + np.arange(n) % 17})


@pytest.mark.parametrize(
    "plan", [pr.median("income", by="edu"), pr.gini("income", "edu"), pr.poverty_rate("income", by="edu")]
)
def test_a_domain_that_vanishes_is_named_with_its_share(plan: Any, strong: pr.Mechanism) -> None:
    message = refused(plan, lopsided(), strong)
    assert "edu=high" in message
    assert "not positive" in message


def test_a_faint_domain_is_a_diagnostic(data: pd.DataFrame, strong: pr.Mechanism) -> None:
    result = pr.fit(pr.gini("income", by="edu"), data, strong)
    assert any(d.code == "faint-domain" for d in result.diagnostics)


def test_resamples_without_a_domain_are_counted(data: pd.DataFrame, strong: pr.Mechanism) -> None:
    result = pr.fit(pr.median("income", by="edu"), data, strong, inference=pr.Resampling(draws=200, seed=1))
    assert result.draws is not None
    assert result.draws.rootless > 0
    assert any(d.code == "rootless" for d in result.diagnostics)


def test_several_medians_are_reported(data: pd.DataFrame) -> None:
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.55)})
    result = pr.fit(pr.median("income", by="edu", bandwidth=0.01), data, mechanism, inference=DRAWS)
    assert any(d.code == "rearranged" for d in result.diagnostics)


@pytest.mark.parametrize("q", [0, 1, -0.2, 1.5, True, "half", float("nan")])
def test_an_impossible_level_of_a_quantile(q: Any) -> None:
    for make in (lambda: pr.quantile("income", q), lambda: pr.quantile_regression("y ~ x", q)):
        with pytest.raises(pr.FormulaError, match="between 0 and 1"):
            make()


@pytest.mark.parametrize("bandwidth", [0, -1.0, float("inf")])
def test_an_impossible_bandwidth(bandwidth: float) -> None:
    for make in (pr.median, pr.poverty_rate):
        with pytest.raises(pr.FormulaError, match="bandwidth"):
            make("income", bandwidth=bandwidth)
    with pytest.raises(pr.FormulaError, match="bandwidth"):
        pr.quantile_regression("y ~ x", 0.5, bandwidth=bandwidth)


def test_text_and_continuous_columns_have_no_quantile(data: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    assert "text" in refused(pr.median("name"), data)
    assert "not numbers" in refused(pr.median("edu"), data, mechanism)


def test_a_quantile_beyond_the_data_is_reported(rng: np.random.Generator, ordered: pr.Mechanism) -> None:
    n = 3000
    data = {"income": rng.exponential(size=n), "edu": rng.choice(LEVELS, n)}
    extreme, usual = (pr.fit(pr.quantile("income", q, by="edu"), data, ordered, inference=DRAWS) for q in (0.9999, 0.9))
    found = [d for d in extreme.diagnostics if d.code == "extreme-quantile"]
    assert "quantile(income, 0.9999)[edu=low] (0." in found[0].message
    assert "extreme-quantile" not in [d.code for d in usual.diagnostics]


@pytest.mark.parametrize(("count", "reported"), [(149, True), (151, False)])
def test_records_beyond_a_quantile_are_counted_by_frequency(count: int, reported: bool) -> None:
    data = {"y": [1.0, 2.0, 3.0], "f": [count, 0, count]}
    result = pr.fit(pr.quantile("y", 0.05), data, None, frequencies="f", inference=DRAWS)
    assert ("extreme-quantile" in [d.code for d in result.diagnostics]) == reported


@pytest.mark.parametrize(
    ("n", "share", "keep", "q", "flagged"),
    [
        (
            2000,
            0.1,
            0.8,
            0.9,
            False,
        ),  # twenty records of the level lie beyond, and errors are right although it is faint
        (1000, 0.2, 0.7, 0.8, False),
        (1000, 0.2, 0.7, 0.2, False),
        (2000, 0.5, 0.8, 0.99, True),  # ten of them: errors are too small
        (400, 0.5, 0.8, 0.97, True),
    ],
)
def test_noise_alone_makes_no_quantile_extreme(n: int, share: float, keep: float, q: float, flagged: bool) -> None:
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(keep, keep)})
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        z = (rng.random(n) < share).astype(int)
        data = {"y": np.exp(0.5 * rng.normal(size=n)) * (1 + z), "z": np.where(rng.random(n) < keep, z, 1 - z)}
        result = pr.fit(pr.quantile("y", q, by="z"), data, mechanism, inference=pr.Resampling(20, seed=1))
        messages = [d.message for d in result.diagnostics if d.code == "extreme-quantile"]
        found += any("[z=1]" in message for message in messages)
    assert found >= 18 if flagged else found <= 2


def test_a_poverty_line_needs_a_positive_median(data: pd.DataFrame) -> None:
    assert "not positive" in refused(pr.poverty_rate("y"), data.assign(y=data["y"] - 5), inference=DRAWS)


def test_inequality_needs_amounts_that_are_clean_and_not_negative(data: pd.DataFrame) -> None:
    levels = pr.Mechanism({"t": pr.TransitionMatrix.binary(0.9, 0.9)})
    for plan in (pr.gini("t"), pr.poverty_rate("t")):
        assert "is perturbed" in refused(plan, data, levels)
    assert "negative" in refused(pr.gini("y"), data)
    with pytest.raises(pr.FormulaError, match="threshold"):
        pr.poverty_rate("income", 0)


@pytest.mark.parametrize("plan", [pr.multinomial("t ~ x"), pr.ordinal("t ~ x")])
def test_two_classes_are_a_matter_for_the_binomial(plan: Any, data: pd.DataFrame) -> None:
    assert "binomial" in refused(plan, data)


@pytest.mark.parametrize("make", [pr.multinomial, pr.ordinal])
def test_classes_come_from_a_plain_column(make: Any, data: pd.DataFrame) -> None:
    assert "not an expression" in refused(make("np.log(income) ~ x"), data)
    assert "both sides" in refused(make("edu ~ x + edu"), data)
    assert "levels" in refused(make("income ~ x"), data)
    assert "offset" in refused(make("edu ~ x + offset(z)"), data)


def test_thresholds_out_of_order(strong: pr.Mechanism) -> None:
    assert "out of order" in refused(pr.ordinal("edu ~ x"), lopsided(), strong)


def test_starting_thresholds_out_of_order(data: pd.DataFrame, ordered: pr.Mechanism) -> None:
    message = refused(pr.ordinal("edu ~ x"), data, ordered, start=[1.0, -1.0, 0.0])
    assert "low|mid = 1" in message
    assert "out of order" in message


def test_an_ordinal_formula_keeps_its_intercept_and_has_terms(data: pd.DataFrame, ordered: pr.Mechanism) -> None:
    assert "thresholds" in refused(pr.ordinal("edu ~ 0 + x"), data, ordered)
    assert "no term" in refused(pr.ordinal("edu ~ 1"), data, ordered)


def test_an_ordinal_response_has_a_stated_order(data: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    """Text has no order of its own, perturbed or not, and an unordered category or shuffled numbers state none."""
    shuffled = pr.Mechanism({"k": pr.TransitionMatrix.randomized_response([2, 0, 1], keep=0.9, kind="numeric")})
    numbered = data.assign(k=np.arange(len(data)) % 3)
    for given, known, response in (
        (data, None, "edu"),
        (data, mechanism, "edu"),
        (data.assign(edu=pd.Categorical(data["edu"], categories=LEVELS)), None, "edu"),
        (pl.DataFrame(data.to_dict("list"), schema_overrides={"edu": pl.Categorical}), None, "edu"),
        (numbered, shuffled, "k"),
    ):
        message = refused(pr.ordinal(f"{response} ~ x"), given, known)
        assert "needs ordered levels" in message
        assert "kind='ordinal'" in message
        assert "ordered=True" in message


def test_stated_orders_agree(data: pd.DataFrame) -> None:
    category = data.assign(edu=pd.Categorical(data["edu"], categories=LEVELS, ordered=True))
    enum = pl.DataFrame(data.to_dict("list"), schema_overrides={"edu": pl.Enum(LEVELS)})
    numbers = data.assign(edu=data["edu"].map(LEVELS.index))
    results = [pr.fit(pr.ordinal("edu ~ x"), given, None) for given in (category, enum, numbers)]
    assert results[0].parameters == results[1].parameters == ("low|mid", "mid|high", "x")
    for other in results[1:]:
        np.testing.assert_allclose(results[0].estimate, other.estimate, rtol=1e-9)


def test_a_class_without_root_is_certified(strong: pr.Mechanism) -> None:
    """The reverted share of "high" is negative: the objective rises for ever."""
    assert "no finite root" in refused(pr.multinomial("edu ~ x"), lopsided(), strong)


@pytest.mark.parametrize(
    ("formula", "part"),
    [
        ("y ~ x", "one '|'"),
        ("y ~ x | z | t", "one '|'"),
        ("y ~ x | y ~ z", "one '~'"),
        ("y ~ x + t | z", "at least as many"),
        ("y ~ x | x", "also an instrument"),
        ("y ~ x | unknown", "unknown"),
    ],
)
def test_broken_instruments(formula: str, part: str, data: pd.DataFrame) -> None:
    assert part in refused(pr.two_stage_least_squares(formula), data)


def test_an_instrument_without_force(data: pd.DataFrame) -> None:
    """A constant instrument leaves nothing to project on."""
    assert refused(pr.two_stage_least_squares("y ~ x | one"), data.assign(one=1.0))


def test_weak_instruments_are_a_diagnostic(data: pd.DataFrame) -> None:
    weak = pr.fit(pr.two_stage_least_squares("y ~ x | z"), data, None)
    assert next(d.code for d in weak.diagnostics) == "weak-instruments"
    strong = pr.fit(pr.two_stage_least_squares("y ~ x | z"), data.assign(x=data["x"] + data["z"]), None)
    assert strong.diagnostics == ()


def test_an_instrument_perturbed_in_secret_shows_as_a_weak_one(rng: np.random.Generator) -> None:
    """Nothing tells that it was perturbed; the estimate stays consistent, and the instrument has lost its force."""
    z = rng.integers(0, 2, 2000)
    x = z + rng.normal(size=2000)
    secret = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.52, 0.52)})
    with pytest.warns(UserWarning, match="seed"):
        released = secret.perturb(pd.DataFrame({"z": z, "x": x, "y": x + rng.normal(size=2000)}), seed=1)
    plan = pr.two_stage_least_squares("y ~ x | z")
    assert [d.code for d in pr.fit(plan, released, None).diagnostics] == ["weak-instruments"]
    assert pr.fit(plan, released.assign(z=z), None).diagnostics == ()


def test_a_treatment_must_be_binary(data: pd.DataFrame) -> None:
    assert "0 or 1" in refused(pr.average_treatment_effect("y", "x", ["z"]), data)
    assert "levels" in refused(pr.average_treatment_effect("y", "edu", ["z"]), data)


def test_broken_treatment_effects(data: pd.DataFrame) -> None:
    assert "both" in refused(pr.average_treatment_effect("t", "t", ["x"]), data)
    assert "covariate" in refused(pr.average_treatment_effect("y", "t", ["x", "t"]), data)
    assert "unknown" in refused(pr.average_treatment_effect("y", "t", ["unknown"]), data)
    with pytest.raises(pr.FormulaError, match="aipw"):
        pr.average_treatment_effect("y", "t", ["x"], "aipww")  # type: ignore[arg-type]


def test_extreme_propensities_are_reported(data: pd.DataFrame, rng: np.random.Generator) -> None:
    t = (rng.random(len(data)) < 1 / (1 + np.exp(-4 * data["x"]))).astype(int)
    result = pr.fit(pr.average_treatment_effect("y", "t", ["x"]), data.assign(t=t), None)
    assert any(d.code == "extreme-propensity" for d in result.diagnostics)


def test_a_quantile_regression_that_fits_exactly(data: pd.DataFrame) -> None:
    assert "exactly" in refused(pr.quantile_regression("y ~ x"), data.assign(y=2 * data["x"] + 1))


def test_margins_of_a_variable_outside_the_formula(data: pd.DataFrame) -> None:
    assert "no covariate" in refused(pr.margins("t ~ x", "z", "binomial"), data)
    assert "offset" in refused(pr.margins("t ~ x + offset(z)", "z", "poisson"), data)


def test_margins_of_a_result_need_what_the_fit_was_given(data: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    weights = 1.0 + np.arange(len(data)) % 3
    weighed = data.assign(w=weights)
    by_name = pr.fit("y ~ x + edu", weighed, mechanism, weights="w")
    by_array = pr.fit("y ~ x + edu", data, mechanism, weights=weights)
    expected = pr.fit(pr.margins("y ~ x + edu", "edu"), weighed, mechanism, weights="w").estimate
    for found in (by_name.margins(weighed, "edu"), by_array.margins(data, "edu", weights=weights)):
        np.testing.assert_allclose(found.estimate, expected, rtol=1e-12)
    kept = pickle.loads(pickle.dumps(by_array))
    np.testing.assert_allclose(kept.margins(data, "edu", weights=weights).estimate, expected, rtol=1e-12)
    twice = pr.fit("y ~ x + edu", pd.concat([data, data]), mechanism, weights=np.tile(weights, 2))
    assert abs(len(pickle.dumps(twice)) - len(pickle.dumps(by_array))) < 100, "a result holds no records"
    for call, part in [
        (lambda: by_array.margins(data), "weights= again"),
        (lambda: by_name.margins(weighed, clusters="x"), "no part of this fit"),
        (lambda: by_name.margins(weighed, "z"), "no covariate"),
        (lambda: pr.fit(pr.mean("y"), data, mechanism).margins(data), "formula"),
    ]:
        with pytest.raises(pr.PramanaError, match=part):
            call()


def test_predictions_refuse_what_the_fit_never_saw(data: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit("y ~ x + edu + name", data, mechanism)
    new = data.head(3)
    for broken, part in [
        (new.assign(name="eve"), "'eve'"),
        (new.assign(edu="none"), "'none'"),
        (new.drop(columns="x"), "'x'"),
        (new.assign(x=np.nan), "missing"),
    ]:
        with pytest.raises(pr.DataError, match=part):
            result.predict(broken)
    with pytest.raises(pr.PramanaError, match="level"):
        result.predict(new, level=2)


@pytest.mark.parametrize("plan", [pr.ordinal("edu ~ x"), pr.gini("income", by="edu"), pr.margins("y ~ x + edu", "edu")])
def test_systems_have_no_score_intervals(plan: Any, data: pd.DataFrame, ordered: pr.Mechanism) -> None:
    assert "score intervals" in refused(plan, data, ordered, inference=pr.Sandwich(interval="score"))


def test_only_formulas_predict(data: pd.DataFrame) -> None:
    with pytest.raises(pr.PramanaError, match="formula"):
        pr.fit(pr.mean("y"), data, None).predict(data)


def test_a_result_that_predicts_holds_no_rows(data: pd.DataFrame) -> None:
    import pickle

    few, many = (pr.fit("y ~ x + name", pd.concat([data] * k), None) for k in (1, 40))
    assert len(pickle.dumps(many)) < 1.2 * len(pickle.dumps(few))


def test_a_negative_binomial_without_overdispersion_points_to_poisson() -> None:
    """Also where the counts vary more than their overall mean, but not around their means given x."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    for y in (np.arange(2000) % 2, rng.binomial(20, 1 / (1 + np.exp(2 - x)))):
        with pytest.raises(pr.SolveError, match=r"vary more around its mean than Poisson .* use family='poisson'"):
            pr.fit("y ~ x", {"x": x, "y": y}, None, family="negative-binomial")


def test_a_dispersion_near_zero_is_reported() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=2000)
    for dispersion, told in ((0.5, False), (0.002, True)):
        y = rng.poisson(np.exp(0.3 + 0.4 * x) * rng.gamma(1 / dispersion, dispersion, 2000))
        result = pr.fit("y ~ x", {"x": x, "y": y}, None, family="negative-binomial")
        assert any(d.code == "weak-dispersion" for d in result.diagnostics) == told


def test_the_likelihood_of_a_negative_binomial_asks_for_its_dispersion(
    data: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    counted = data.assign(visits=np.arange(len(data)) % 7)
    for ask in (
        lambda: pr.fit("visits ~ edu", counted, mechanism, family="negative-binomial", method="likelihood"),
        lambda: pr.specification_test("visits ~ edu", counted, mechanism, family="negative-binomial"),
    ):
        with pytest.raises(pr.FormulaError, match="needs its dispersion"):
            ask()


def test_a_variable_that_enters_by_jumps_has_no_slope(data: pd.DataFrame) -> None:
    for term in ("np.floor(x)", "I(x > 0)", "I(np.where(x > 0, x, 0))"):
        assert "jumps" in refused(pr.margins(f"y ~ {term}", "x"), data)


def test_only_logarithms_are_exponentiated(data: pd.DataFrame) -> None:
    for what, options in ((pr.mean("y"), {}), ("y ~ x", {}), ("t ~ x", {"family": "binomial", "link": "probit"})):
        result = pr.fit(what, data, None, **options)
        with pytest.raises(pr.PramanaError, match="makes ratios of logarithms"):
            result.to_frame(exponentiate=True)
    for what, options in (("np.log(income) ~ x", {}), ("t ~ x", {"family": "binomial"})):
        assert pr.fit(what, data, None, **options).to_dicts(exponentiate=True)


def test_treatment_effects_take_columns_whose_names_are_no_words(data: pd.DataFrame) -> None:
    odd = data.rename(columns={"y": "y (count)", "x": "group 1"})
    found = pr.fit(pr.average_treatment_effect("y (count)", "t", ["group 1"]), odd, None)
    assert found.parameters == ("effect(t on y (count))",)
    plain = pr.fit(pr.average_treatment_effect("y", "t", ["x"]), data, None)
    assert found.estimate[0] == plain.estimate[0]


def test_a_square_root_at_zero_has_no_slope(data: pd.DataFrame) -> None:
    zeros = data.assign(u=np.maximum(data["x"], 0.0))
    assert "no finite derivative" in refused(pr.margins("y ~ np.sqrt(u)", "u"), zeros)


def test_more_equations_than_the_variance_has_directions(data: pd.DataFrame) -> None:
    fitted = pr.fit("y ~ x + t + z", data, None, clusters=np.arange(len(data)) % 3, inference=pr.Jackknife())
    assert fitted.test("x = 0, t = 0").denominator == pytest.approx(2, abs=0.1)
    for result in (fitted, pr.fit("y ~ x + t + z", data, None, clusters=np.arange(len(data)) % 3)):
        with pytest.raises(pr.FormulaError, match="too few directions"):
            result.test("x = 0, t = 0, z = 0")
    with pytest.raises(pr.FormulaError, match="not independent"):
        fitted.test("x = 0, 2 * x = 0")


def test_an_exponentiated_dispersion_is_called_so() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=500)
    y = rng.poisson(np.exp(0.3 + 0.4 * x) * rng.gamma(2.0, 0.5, 500))
    result = pr.fit("y ~ x", {"x": x, "y": y}, None, family="negative-binomial")
    assert [row["term"] for row in result.to_dicts(exponentiate=True)] == ["Intercept", "x", "dispersion"]

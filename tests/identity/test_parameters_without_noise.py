"""With P = I, parameters by name are the textbook's: statsmodels, NumPy or a few lines of algebra must agree."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.regression.quantile_regression import QuantReg
from statsmodels.sandbox.regression.gmm import IV2SLS

import pramana as pr

LEVELS = ["none", "some", "much", "all"]
DRAWS = pr.Resampling(draws=20, seed=1)


def no_noise(**levels: list[Any]) -> pr.Mechanism:
    kinds: dict[str, Any] = {name: "ordinal" if isinstance(given[0], str) else None for name, given in levels.items()}
    channels = {k: pr.TransitionMatrix(given, np.eye(len(given)), kind=kinds[k]) for k, given in levels.items()}
    return pr.Mechanism(channels)


@pytest.fixture
def people(rng: np.random.Generator) -> pd.DataFrame:
    n = 601  # odd, so that the median is a record
    frame = pd.DataFrame({"x": rng.normal(size=n), "g": rng.integers(0, 2, n), "z": rng.normal(size=n)})
    hidden = 0.8 * frame["x"] - 0.5 * frame["g"] + rng.logistic(size=n)
    frame["use"] = np.array(LEVELS)[np.digitize(hidden, [-1, 0, 1.2])]
    frame["sick"] = (rng.random(n) < 1 / (1 + np.exp(-frame["x"] + 0.5 * frame["g"]))).astype(int)
    frame["income"] = np.exp(0.5 * frame["x"] + 0.4 * frame["g"] + 0.3 * rng.normal(size=n))
    frame["dose"] = 0.7 * frame["z"] + frame["x"] + rng.normal(size=n)
    return frame


def constant(frame: pd.DataFrame, *names: str) -> np.ndarray:
    return sm.add_constant(frame[list(names)].to_numpy(dtype=float))


@pytest.mark.parametrize("mechanism", [no_noise(use=LEVELS), no_noise(use=LEVELS, g=[0, 1])])
def test_multinomial_logit_is_statsmodels(people: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit(pr.multinomial("use ~ x + g"), people, mechanism, inference=pr.Sandwich("HC0"))
    codes = pd.Categorical(people["use"], categories=LEVELS).codes
    theirs = sm.MNLogit(codes, constant(people, "x", "g")).fit(disp=0, tol=1e-12, cov_type="HC0")
    np.testing.assert_allclose(result.estimate, theirs.params.T.ravel(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(result.standard_errors, theirs.bse.T.ravel(), rtol=1e-7)
    assert result.parameters[:2] == ("some:Intercept", "some:x")


@pytest.mark.parametrize("mechanism", [no_noise(use=LEVELS), no_noise(use=LEVELS, g=[0, 1])])
def test_ordinal_logit_is_statsmodels(people: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit(pr.ordinal("use ~ x + g"), people, mechanism, inference=pr.Sandwich("HC0"))
    codes = pd.Categorical(people["use"], categories=LEVELS).codes
    model = OrderedModel(codes, people[["x", "g"]], distr="logit")
    theirs = model.fit(method="newton", disp=0, maxiter=100, tol=1e-12, cov_type="HC0")
    thresholds = model.transform_threshold_params(theirs.params)[1:-1]
    # Their Newton stops at a gradient near 1e-8.
    np.testing.assert_allclose(result.estimate, [*thresholds, *theirs.params[:2]], rtol=1e-6)
    # They take derivatives by differences.
    np.testing.assert_allclose(result.standard_errors[3:], theirs.bse[:2], rtol=1e-4)
    assert result.parameters == ("none|some", "some|much", "much|all", "x", "g")


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_quantiles_are_numpys_within_a_bandwidth(people: pd.DataFrame, q: float) -> None:
    result = pr.fit(pr.quantile("income", q, by="g"), people, no_noise(g=[0, 1]), inference=DRAWS)
    expected = [np.quantile(people.loc[people["g"] == k, "income"], q) for k in (0, 1)]
    bandwidth = float(result.facts["Bandwidth"].split(",")[0])
    assert bandwidth < people["income"].std() / 8
    np.testing.assert_allclose(result.estimate, expected, atol=bandwidth)


@pytest.mark.parametrize("q", [0.25, 0.5, 0.8])
def test_a_quantile_of_levels_is_the_inverse_distribution_function(q: float, rng: np.random.Generator) -> None:
    levels = [0, 10, 20, 30]
    data = {"z": rng.choice(levels, 501)}
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix(levels, np.eye(4), kind="numeric")})
    result = pr.fit(pr.quantile("z", q), data, mechanism, inference=DRAWS)
    assert result.estimate[0] == np.quantile(data["z"], q, method="inverted_cdf")


def test_a_narrow_bandwidth_gives_the_sample_quantile(people: pd.DataFrame) -> None:
    income = people["income"].to_numpy()
    result = pr.fit(pr.median("income", bandwidth=1e-7), people, None, inference=DRAWS)
    assert result.estimate[0] == pytest.approx(np.quantile(income, 0.5, method="inverted_cdf"), abs=2e-7)


def test_gini_is_the_mean_difference(people: pd.DataFrame) -> None:
    result = pr.fit(pr.gini("income", by="g"), people, no_noise(g=[0, 1]))
    for k in (0, 1):
        y = people.loc[people["g"] == k, "income"].to_numpy()
        assert result.estimate[k] == pytest.approx(np.abs(y[:, None] - y).mean() / (2 * y.mean()), rel=1e-12)


def test_the_standard_error_of_gini_is_the_jackknifes(people: pd.DataFrame) -> None:
    y = people["income"].to_numpy()
    n = len(y)

    def coefficient(v: np.ndarray) -> float:
        rank = np.arange(1, len(v) + 1)
        return float(np.sum((2 * rank - len(v) - 1) * np.sort(v)) / (len(v) * v.sum()))

    deleted = np.array([coefficient(np.delete(y, i)) for i in range(n)])
    jackknife = np.sqrt((n - 1) / n * np.sum((deleted - deleted.mean()) ** 2))
    # The two differ by terms of order 1/n.
    assert pr.fit(pr.gini("income"), people, None).standard_errors[0] == pytest.approx(jackknife, rel=0.01)


def test_sampling_weights_reach_the_linearisation_of_gini(people: pd.DataFrame) -> None:
    """A weight of two is a record twice, in the estimate and in Resampling's law of the pairs."""
    doubled = pd.concat([people, people[people["g"] == 1]])
    weighted = pr.fit(pr.gini("income"), people, None, weights=1.0 + people["g"].to_numpy())
    clusters = np.concatenate([np.arange(len(people)), np.flatnonzero(people["g"] == 1)])
    twice = pr.fit(pr.gini("income"), doubled, None, clusters=clusters)
    np.testing.assert_allclose(weighted.estimate, twice.estimate, rtol=1e-12)
    np.testing.assert_allclose(weighted.standard_errors, twice.standard_errors, rtol=1e-9)


def test_the_poverty_rate_counts_below_the_line(people: pd.DataFrame) -> None:
    result = pr.fit(pr.poverty_rate("income", 0.6, by="g", bandwidth=1e-7), people, no_noise(g=[0, 1]), inference=DRAWS)
    middle = np.quantile(people["income"], 0.5, method="inverted_cdf")
    assert result["median(income)"].estimate == pytest.approx(middle, abs=2e-7)
    rates = (people["income"] < 0.6 * middle).groupby(people["g"]).mean()
    np.testing.assert_allclose(result.estimate[1:], rates, atol=1e-12)


@pytest.mark.parametrize("formula", ["income ~ dose + x | z + x", "income ~ dose + x | z + g + x"])
def test_two_stage_least_squares_is_statsmodels(people: pd.DataFrame, formula: str) -> None:
    result = pr.fit(pr.two_stage_least_squares(formula), people, no_noise(g=[0, 1]))
    extra = ("g",) if "g" in formula else ()
    x, z = constant(people, "dose", "x"), constant(people, "z", *extra, "x")
    theirs = IV2SLS(people["income"].to_numpy(), x, z).fit()
    np.testing.assert_allclose(result.estimate, theirs.params, rtol=1e-8, atol=1e-10)
    assert result.parameters == ("Intercept", "dose", "x")


def test_errors_of_exactly_identified_instruments_are_the_textbooks(people: pd.DataFrame) -> None:
    result = pr.fit(pr.two_stage_least_squares("income ~ dose | z"), people, None, inference=pr.Sandwich("HC0"))
    x, z = constant(people, "dose"), constant(people, "z")
    residual = people["income"].to_numpy() - x @ result.estimate
    bread = np.linalg.inv(z.T @ x)
    covariance = bread @ (z * residual[:, None] ** 2).T @ z @ bread.T
    np.testing.assert_allclose(result.covariance, covariance, rtol=1e-8)


@pytest.mark.parametrize("estimator", ["ipw", "aipw"])
def test_treatment_effects_are_the_textbooks(people: pd.DataFrame, estimator: Literal["ipw", "aipw"]) -> None:
    plan = pr.average_treatment_effect("income", "g", ["x", "z"], estimator)
    result = pr.fit(plan, people, no_noise(g=[0, 1]), inference=pr.Sandwich("HC0"))
    x, t, y = constant(people, "x", "z"), people["g"].to_numpy(), people["income"].to_numpy()
    e = sm.Logit(t, x).fit(disp=0, tol=1e-12).predict()
    if estimator == "ipw":
        expected = np.average(y, weights=t / e) - np.average(y, weights=(1 - t) / (1 - e))
    else:
        m1, m0 = (sm.OLS(y[t == k], x[t == k]).fit().predict(x) for k in (1, 0))
        expected = np.mean(m1 - m0 + t * (y - m1) / e - (1 - t) * (y - m0) / (1 - e))
    assert result.estimate[0] == pytest.approx(expected, rel=1e-9)
    assert result.parameters == ("effect(g on income)",)


@pytest.mark.parametrize("q", [0.25, 0.5, 0.9])
def test_quantile_regression_is_statsmodels_within_its_smoothing(people: pd.DataFrame, q: float) -> None:
    result = pr.fit(pr.quantile_regression("dose ~ x + g", q), people, no_noise(g=[0, 1]))
    theirs = QuantReg(people["dose"].to_numpy(), constant(people, "x", "g")).fit(q=q)
    # Smoothing moves an estimate by a fraction of its standard error, as another sample of the order 1/n would.
    np.testing.assert_allclose(result.estimate, theirs.params, atol=0.5 * float(theirs.bse.max()))
    narrow = pr.fit(pr.quantile_regression("dose ~ x + g", q, bandwidth=0.01), people, None)
    np.testing.assert_allclose(narrow.estimate, theirs.params, atol=0.02)


def test_negative_binomial_regression_is_statsmodels(people: pd.DataFrame) -> None:
    rng = np.random.default_rng(5)
    visits = rng.poisson(np.exp(0.2 + 0.3 * people["x"]) * rng.gamma(2.0, 0.5, len(people)))
    model = sm.NegativeBinomial(visits, constant(people, "x", "g"))
    theirs = model.fit(disp=0, maxiter=200, method="newton", tol=1e-12)
    result = pr.fit(
        "visits ~ x + g",
        people.assign(visits=visits),
        no_noise(g=[0, 1]),
        family="negative-binomial",
        inference=pr.Sandwich("HC0"),
    )
    assert result.parameters == ("Intercept", "x", "g", "log(dispersion)")
    np.testing.assert_allclose(result.estimate[:3], theirs.params[:3], rtol=1e-6)
    assert np.exp(result.estimate[3]) == pytest.approx(theirs.params[3], rel=1e-6)
    robust = model.fit(disp=0, maxiter=200, method="newton", tol=1e-12, cov_type="HC0").bse
    np.testing.assert_allclose(result.standard_errors[:3], robust[:3], rtol=1e-5)
    new = people.head(3)
    np.testing.assert_allclose(result.predict(new)["prediction"], theirs.predict(constant(new, "x", "g")), rtol=1e-6)


def test_marginal_effects_are_statsmodels(people: pd.DataFrame) -> None:
    theirs = sm.Logit(people["sick"], constant(people, "x", "g")).fit(disp=0).get_margeff(dummy=True).margeff
    for variable, expected in zip(("x", "g"), theirs, strict=True):
        result = pr.fit(pr.margins("sick ~ x + g", variable, "binomial"), people, no_noise(g=[0, 1]))
        assert result.estimate[0] == pytest.approx(expected, rel=1e-7)


def test_margins_of_a_result_are_statsmodels_for_all_covariates(people: pd.DataFrame) -> None:
    theirs = sm.Logit(people["sick"], constant(people, "x", "g")).fit(disp=0).get_margeff(dummy=True)
    fitted = pr.fit("sick ~ x + g", people, no_noise(g=[0, 1]), family="binomial", inference=pr.Sandwich("HC0"))
    both = fitted.margins(people)
    assert both.parameters == ("effect(x)", "effect(g: 1 against 0)")
    np.testing.assert_allclose(both.estimate, theirs.margeff, rtol=1e-7)
    # Theirs are errors for covariates held fixed and a model that holds; ours let both vary.
    np.testing.assert_allclose(both.standard_errors, theirs.margeff_se, rtol=0.1)
    np.testing.assert_allclose(fitted.margins(people, "g").covariance, both.covariance[1:, 1:], rtol=1e-8)


def test_a_marginal_effect_follows_transformed_and_interacting_terms(people: pd.DataFrame) -> None:
    """In a linear model the average effect of x is β₁ + 2 β₂ mean(x) + β₃ mean(g)."""
    formula = "dose ~ x + I(x**2) + x:g + g"
    effect = pr.fit(pr.margins(formula, "x"), people, None).estimate[0]
    fitted = pr.fit(formula, people, None)
    value = {t: fitted[t].estimate for t in fitted.parameters}
    expected = value["x"] + 2 * value["I(x ** 2)"] * people["x"].mean() + value["x:g"] * people["g"].mean()
    assert effect == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_predictions_are_statsmodels(people: pd.DataFrame, family: str) -> None:
    mechanism = no_noise(use=LEVELS)
    result = pr.fit("sick ~ x + use", people, mechanism, family=family, inference=pr.Sandwich("HC0"))
    new = people.head(5)
    dummies = pd.get_dummies(pd.Categorical(people["use"], categories=LEVELS), drop_first=True, dtype=float)
    x = sm.add_constant(np.column_stack([people["x"], dummies]))
    kind = sm.families.Binomial() if family == "binomial" else sm.families.Gaussian()
    theirs = sm.GLM(people["sick"], x, family=kind).fit(cov_type="HC0").get_prediction(x[:5]).summary_frame()
    found = result.predict(new)
    np.testing.assert_allclose(found.to_numpy(), theirs.to_numpy(), rtol=1e-6)


def test_margins_of_a_coded_number_are_differences_of_level_means(people: pd.DataFrame) -> None:
    """In a saturated model the effects are differences of group means."""
    rng = np.random.default_rng(6)
    rooms = rng.integers(1, 5, len(people))
    data = people.assign(rooms=rooms, visits=rng.poisson(0.5 * rooms))
    fitted = pr.fit("visits ~ C(rooms)", data, None, family="poisson")
    means = data.groupby("rooms")["visits"].mean()
    found = fitted.margins(data)
    assert found.parameters == tuple(f"effect(rooms: {k} against 1)" for k in (2, 3, 4))
    np.testing.assert_allclose(found.estimate, means.to_numpy()[1:] - means.iloc[0], rtol=1e-8)


def test_margins_of_a_spline_stay_within_its_knots(people: pd.DataFrame) -> None:
    """A spline that holds a straight line has its slope as average effect."""
    wobble = np.tile([-0.01, 0.01], len(people))[: len(people)]
    data = people.assign(line=2.0 + 3.0 * people["x"] + wobble)
    found = pr.fit("line ~ bs(x, df=5)", data, None).margins(data)
    assert found.estimate[0] == pytest.approx(3.0, abs=4 * float(found.standard_errors[0]))
    assert found.standard_errors[0] < 0.05


def test_margins_of_a_negative_binomial_fit_are_those_of_its_dispersion(people: pd.DataFrame) -> None:
    rng = np.random.default_rng(5)
    data = people.assign(visits=rng.poisson(np.exp(0.2 + 0.3 * people["x"]) * rng.gamma(2.0, 0.5, len(people))))
    fitted = pr.fit("visits ~ x", data, None, family="negative-binomial", inference=pr.Sandwich("HC0"))
    predicted = np.asarray(fitted.predict(data)["prediction"])
    found = fitted.margins(data)
    assert found.estimate[0] == pytest.approx(fitted["x"].estimate * predicted.mean(), rel=1e-6)


@pytest.mark.parametrize(("term", "slope"), [("np.log1p(gain)", lambda v: 1 / (1 + v)), ("np.sin(gain)", np.cos)])
def test_margins_of_a_skewed_number(term: str, slope: Any, people: pd.DataFrame) -> None:
    """Most values are zero, the smallest there is, and some are far out."""
    rng = np.random.default_rng(7)
    gain = np.where(rng.random(len(people)) < 0.9, 0.0, np.round(np.exp(rng.normal(8.5, 1.0, len(people)))))
    data = people.assign(gain=gain)
    fitted = pr.fit(f"dose ~ {term}", data, None)
    expected = fitted.estimate[1] * slope(gain).mean()
    assert fitted.margins(data).estimate[0] == pytest.approx(expected, rel=1e-4)

"""Intervals that invert the score test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from scipy.stats import t as student

import pramana as pr

SCORE = pr.Sandwich(interval="score")
LARGE = pr.Sandwich("HC0", interval="score")


def test_the_interval_of_a_mean_solves_its_quadratic() -> None:
    """(ȳ − b)² n = c (s² + (ȳ − b)²) with s² the variance: the score statistic of a mean in closed form."""
    y = np.array([1.0, 2.0, 4.0, 7.0, 11.0, 3.0])
    reach = np.sqrt(chi2.ppf(0.95, 1) * y.var() / (y.size - chi2.ppf(0.95, 1)))
    low, high = pr.fit(pr.mean("y"), {"y": y}, None, inference=LARGE).interval()[0]
    assert low == pytest.approx(y.mean() - reach, abs=1e-6)
    assert high == pytest.approx(y.mean() + reach, abs=1e-6)


def test_the_interval_of_a_mean_of_few_records_is_students() -> None:
    y = np.array([1.0, 2.0, 4.0, 7.0, 11.0, 3.0])
    reach = student.ppf(0.975, 5) * y.std(ddof=1) / np.sqrt(y.size)
    expected = [y.mean() - reach, y.mean() + reach]
    for inference in (SCORE, pr.Sandwich()):
        assert pr.fit(pr.mean("y"), {"y": y}, None, inference=inference).interval()[0] == pytest.approx(expected)


@pytest.mark.parametrize(("formula", "family"), [("income ~ age + edu", "gaussian"), ("employed ~ age", "binomial")])
def test_the_interval_contains_the_estimate(
    formula: str, family: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    result = pr.fit(formula, survey, mechanism, family=family, inference=SCORE)
    limits = result.interval()
    assert np.all(limits[:, 0] < result.estimate)
    assert np.all(result.estimate < limits[:, 1])


def test_it_is_walds_interval_in_a_large_sample(rng: np.random.Generator) -> None:
    """Their ends differ by O(1/n): less than 1 % of a standard error at n = 20 000 and mild noise."""
    n = 20_000
    g = rng.integers(0, 2, n)
    data = {"g": np.where(rng.random(n) < 0.9, g, 1 - g), "y": g + rng.normal(size=n)}
    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.binary(0.9, 0.9)})
    score, wald = (pr.fit("y ~ g", data, mechanism, inference=i) for i in (SCORE, pr.Sandwich()))
    gap = np.abs(score.interval() - wald.interval()) / wald.standard_errors[:, None]
    assert gap.max() < 0.05
    assert gap.max() > 0  # they are not the same computation


def test_a_higher_level_gives_a_wider_interval(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    narrow, wide = (
        pr.fit("income ~ edu", survey, mechanism, inference=pr.Sandwich(interval="score", level=p)).interval(p)
        for p in (0.8, 0.99)
    )
    assert np.all(wide[:, 0] < narrow[:, 0])
    assert np.all(wide[:, 1] > narrow[:, 1])


def test_another_level_than_the_fitted_one_is_refused(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit("income ~ edu", survey, mechanism, inference=SCORE)
    with pytest.raises(pr.PramanaError, match=r"0\.95"):
        result.interval(0.9)


@pytest.fixture
def unidentified(rng: np.random.Generator) -> pr.Result:
    """The released g is a coin that says almost nothing, and the outcome does not depend on it."""
    n = 200
    data = {"g": rng.integers(0, 2, n), "y": rng.normal(size=n)}
    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.binary(0.52, 0.52)})
    return pr.fit("y ~ g", data, mechanism, inference=SCORE)


def test_an_unidentified_parameter_has_no_finite_bounds(unidentified: pr.Result) -> None:
    """The accepted values are two half-lines here, as Fieller's can be; a bounded interval would leave one out."""
    low, high = unidentified.interval()[1]
    assert (low, high) == (-np.inf, np.inf)


def test_infinite_bounds_are_null_in_json(unidentified: pr.Result) -> None:
    assert '"conf_low": null' in unidentified.summary("json")


def test_the_ends_are_where_the_test_just_rejects(survey: pd.DataFrame) -> None:
    """At an end of the interval the score statistic of a clean linear slope equals the critical value."""
    x, y = survey["age"].to_numpy(), survey["income"].to_numpy()
    end = pr.fit("income ~ age", survey, None, inference=LARGE).interval()[1, 1]
    intercept = np.mean(y - end * x)
    residual = y - intercept - end * x
    efficient = (x - x.mean()) * residual
    statistic = efficient.sum() ** 2 / np.sum(efficient**2)
    assert statistic == pytest.approx(chi2.ppf(0.95, 1), rel=1e-5)

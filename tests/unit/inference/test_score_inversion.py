"""Intervals that invert the score test."""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from scipy.stats import t as student

import pramana as pr
from pramana.analysis.question import question
from pramana.analysis.sampling import SamplingArguments
from pramana.analysis.task import Options, Task
from pramana.engines import Engine
from pramana.estimators.reversion import Reversion
from pramana.inference.score_intervals import FAR, _met, _Point, _Profile, _Walk, score_intervals

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


LEVELS = (0.8, 0.9, 0.95, 0.99)


def behind_a_coin(seed: int) -> pd.DataFrame:
    """A yes or no that depends on x, released as it is with probability 0.6: the paper's Simulation A1 under strong noise."""
    rng = np.random.default_rng(1000 + seed)
    x = rng.normal(0.5, 1.0, 1000)
    y = (rng.random(1000) < 1 / (1 + np.exp(1 - 1.5 * x))).astype(int)
    return pd.DataFrame({"x": x, "y": np.where(rng.random(1000) < 0.6, y, 1 - y)})


def counts_behind_a_coin(seed: int) -> pd.DataFrame:
    """Counts that depend on a covariate which is released as it is with probability 0.6: an equation with several roots."""
    rng = np.random.default_rng(1000 + seed)
    x, g = rng.normal(size=400), rng.integers(0, 2, 400)
    y = rng.poisson(np.exp(0.3 + 0.3 * x + 0.5 * g))
    return pd.DataFrame({"x": x, "g": np.where(rng.random(400) < 0.6, g, 1 - g), "y": y})


def scored(data: pd.DataFrame, *levels: float) -> tuple[dict[float, np.ndarray], np.ndarray, pr.Result]:
    """Score limits at each level, the statistics of zero, and a fit; all of one walk."""
    column, formula, family = ("g", "y ~ x + g", "poisson") if "g" in data else ("y", "y ~ x", "binomial")
    mechanism = pr.Mechanism({column: pr.TransitionMatrix.binary(0.6, 0.6)})
    result = pr.fit(formula, data, mechanism, family=family, inference=pr.Sandwich("HC0", interval="wald"))
    engine = engine_of(formula, family, data, mechanism)
    critical = np.stack([np.full(engine.d, chi2.ppf(level, 1)) for level in levels])
    limits, zeros = score_intervals(engine, result.estimate, result.standard_errors, critical)
    return dict(zip(levels, limits, strict=True)), zeros, result


def engine_of(formula: str, family: str, data: pd.DataFrame, mechanism: pr.Mechanism) -> Engine:
    task = Task.read(question(formula, family, None, None), data, mechanism, SamplingArguments(), Options())
    binding = Reversion().bind(task.function, task.mechanism, task.table, task.sampling.row_weights)
    return task.engine(binding.equation).learned()


@pytest.mark.parametrize("data", [*map(behind_a_coin, range(4)), counts_behind_a_coin(0)])
def test_intervals_are_nested_and_do_not_depend_on_the_other_levels(data: pd.DataFrame) -> None:
    together, zeros, result = scored(data, *LEVELS)
    for narrow, wide in pairwise(LEVELS):
        assert np.all(together[wide][:, 0] <= together[narrow][:, 0])
        assert np.all(together[narrow][:, 1] <= together[wide][:, 1])
    scale = result.standard_errors[:, None]
    for level in LEVELS:
        alone = scored(data, level)[0][level]
        finite = np.isfinite(alone)
        assert np.array_equal(finite, np.isfinite(together[level]))
        assert np.all(np.abs(alone[finite] - together[level][finite]) <= (1e-6 * (scale + np.abs(alone)))[finite])
        holds = (together[level][:, 0] <= 0) & (together[level][:, 1] >= 0)
        assert np.array_equal(zeros <= chi2.ppf(level, 1), holds)  # the test of zero agrees with the interval


@pytest.mark.parametrize("data", [behind_a_coin(1), behind_a_coin(58), counts_behind_a_coin(0)])
def test_the_ends_are_the_first_that_a_walk_in_small_steps_meets(data: pd.DataFrame) -> None:
    limits, _, result = scored(data, 0.9)
    column, formula, family = ("g", "y ~ x + g", "poisson") if "g" in data else ("y", "y ~ x", "binomial")
    engine = engine_of(formula, family, data, pr.Mechanism({column: pr.TransitionMatrix.binary(0.6, 0.6)}))
    small = 0.02
    for j, side in itertools.product(range(engine.d), (0, 1)):
        profile = _Profile(engine, result.estimate, result.standard_errors, j)
        point, error = profile.start, result.standard_errors[j]
        for k in range(1, 300):
            near, point = point, profile.at(result.estimate[j] + (2 * side - 1) * small * k * error, point)
            if point.root**2 > chi2.ppf(0.9, 1) or not profile.follows(near, point):
                break
        walked = result.estimate[j] + (2 * side - 1) * small * k * error
        found = limits[0.9][j, side]
        assert abs(found - walked) <= 1.01 * small * error or (k == 299 and abs(found) > abs(walked))


def walked_and_halved(profile: _Profile, step: float, limit: float) -> float:
    """The slow obvious version: small steps out from the estimate until the limit is crossed, and halves of the last one; NaN where the other
    parameters end before that, or nothing is crossed."""

    def followed(value: float, near: _Point) -> _Point:
        point = profile.at(value, near)
        return point if profile.follows(near, point) else _Point(np.inf, near.beta, near.tangent)

    inside, low = profile.start, float(profile.beta[profile.index])
    for _ in range(400):
        point = followed(low + step, inside)
        if point.root > limit:
            break
        inside, low = point, low + step
    else:
        return np.nan
    if np.isinf(point.root):
        return np.nan
    high = low + step
    for _ in range(60):
        middle = (low + high) / 2
        beyond = followed(middle, inside).root > limit
        low, high = (low, middle) if beyond else (middle, high)
    return high


@pytest.mark.parametrize("data", [behind_a_coin(1), behind_a_coin(3), counts_behind_a_coin(0)])
def test_the_ends_are_those_of_small_steps_and_halves(data: pd.DataFrame) -> None:
    limits, _, result = scored(data, *LEVELS)
    column, formula, family = ("g", "y ~ x + g", "poisson") if "g" in data else ("y", "y ~ x", "binomial")
    engine = engine_of(formula, family, data, pr.Mechanism({column: pr.TransitionMatrix.binary(0.6, 0.6)}))
    compared = 0
    for j, side, level in itertools.product(range(engine.d), (0, 1), (0.8, 0.95)):
        profile, error = _Profile(engine, result.estimate, result.standard_errors, j), result.standard_errors[j]
        slow = walked_and_halved(profile, (2 * side - 1) * 0.05 * error, float(np.sqrt(chi2.ppf(level, 1))))
        found = limits[level][j, side]
        if np.isfinite(slow) and np.isfinite(found):
            compared += 1
            assert abs(found - slow) <= 1e-9 * (error + abs(slow))
    assert compared >= 3


def test_a_curve_of_distance_by_root_goes_through_its_points() -> None:
    """A polynomial of degree three is its own curve through four points, and through five."""
    roots = [0.0, 0.7, 1.5, 2.0, 3.1]
    points = [(root, 1 + 2 * root - 0.3 * root**3) for root in roots]
    for few in (points[:4], points):
        assert _met(1.2, few) == pytest.approx(1 + 2 * 1.2 - 0.3 * 1.2**3, rel=1e-12)
    assert _met(1.2, points[:3]) != pytest.approx(1 + 2 * 1.2 - 0.3 * 1.2**3, rel=1e-3)


@pytest.mark.parametrize(("family", "leaps"), [("gaussian", True), ("binomial", False)])
def test_one_leap_leads_far_out_only_where_the_other_parameters_move_along_a_line(family: str, leaps: bool) -> None:
    """Newton may also end at a place where a saturated score vanishes, or not, as rounding has it."""
    data = behind_a_coin(1)
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.6, 0.6)})
    result = pr.fit("y ~ x", data, mechanism, family=family, inference=pr.Sandwich("HC0", interval="wald"))
    profile = _Profile(engine_of("y ~ x", family, data, mechanism), result.estimate, result.standard_errors, 1)
    assert (_Walk(profile, 1.0)._far.distance == FAR) is leaps


def test_an_end_is_infinite_where_numbers_run_out_far_behind_values_that_are_not_rejected() -> None:
    """A probit's score is no number from 3000 on; the statistic has stayed below the limit from 16 standard errors on."""
    rng = np.random.default_rng(4)
    x = rng.normal(0.5, 1.0, 300)
    y = (rng.random(300) < 1 / (1 + np.exp(1 - 1.5 * x))).astype(int)
    data = pd.DataFrame({"x": x, "y": np.where(rng.random(300) < 0.6, y, 1 - y)})
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.6, 0.6)})
    result = pr.fit("y ~ x", data, mechanism, family="binomial", link="probit", inference=SCORE)
    assert result.interval()[0, 0] == -np.inf
    assert np.isfinite(result.interval()[0, 1])

"""Score intervals of functions of means: shares of domains, ratios, differences, correlations."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import pramana as pr
from pramana.inference.restricted import Estimated, Released, ScoreTest, ends

SCORE, WALD = pr.Sandwich(interval="score"), pr.Sandwich(interval="wald")
CELLS = {"z": [1, 1, 0, 0], "b": [1, 0, 1, 0], "n": [30, 20, 25, 75]}
NOISY = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})


# The nuisance risk is profiled by a bounded search: Mee's interval of a difference, Koopman's of a ratio, Cornfield's of an odds ratio.
OTHER_RISK = {
    "diff": (lambda p, v: p + v, lambda v: (max(0, -v), min(1, 1 - v))),
    "ratio": (lambda p, v: p * v, lambda v: (0, min(1, 1 / v))),
    "odds": (lambda p, v: v * p / (1 - p + v * p), lambda _: (0, 1)),
}


def slow_statistic(kind, counts, value):
    a, b, c, d = counts
    other, bounds = OTHER_RISK[kind]

    def loss(p):
        q = other(p, value)
        return -(a * np.log(q) + b * np.log(1 - q) + c * np.log(p) + d * np.log(1 - p))

    low, high = bounds(value)
    p = minimize_scalar(loss, bounds=(low + 1e-11, high - 1e-11), method="bounded", options={"xatol": 1e-12}).x
    q = other(p, value)
    return (a - (a + b) * q) ** 2 / ((a + b) * q * (1 - q)) + (c - (c + d) * p) ** 2 / ((c + d) * p * (1 - p))


@pytest.mark.parametrize(
    ("question", "kind"), [(pr.risk_difference, "diff"), (pr.risk_ratio, "ratio"), (pr.odds_ratio, "odds")]
)
@pytest.mark.parametrize("counts", [(30, 20, 25, 75), (4, 6, 1, 19), (9, 1, 3, 7)])
def test_without_noise_they_are_those_of_miettinen_and_nurminen(question, kind, counts):
    result = pr.fit(question("z", "b"), {**CELLS, "n": counts}, None, frequencies="n", inference=SCORE)
    for limit in result.interval()[0] if kind == "diff" else np.exp(result.interval()[0]):
        assert slow_statistic(kind, counts, limit) == pytest.approx(1.959964**2, rel=1e-5)


def test_a_perturbed_domain_equals_a_general_optimiser():
    """Pearson's distance from the likeliest chances, which a general optimiser finds."""
    result = pr.fit(pr.mean("b", by="z"), CELLS, NOISY, frequencies="n", inference=SCORE)
    counts, undo = np.array([30, 20, 25, 75.0]), np.linalg.inv([[0.8, 0.2], [0.2, 0.8]])  # rows: true 1, 0

    def mean_in_ones(chance):  # cells (z, b) = 11, 10, 01, 00
        with_b, without = undo[0] @ [chance[0], chance[2]], undo[0] @ [chance[1], chance[3]]
        return with_b / (with_b + without)

    def distance(value):
        found = minimize(
            lambda c: -np.sum(counts * np.log(c)),
            counts / counts.sum(),
            method="SLSQP",
            bounds=[(1e-9, 1)] * 4,
            constraints=[
                {"type": "eq", "fun": lambda c: c.sum() - 1},
                {"type": "eq", "fun": lambda c: mean_in_ones(c) - value},
            ],
            options={"ftol": 1e-13, "maxiter": 400},
        )
        expected = counts.sum() * found.x
        return np.sum((counts - expected) ** 2 / expected)

    for limit in result.interval()[1]:
        assert distance(limit) == pytest.approx(1.959964**2, rel=2e-3)


def test_a_quotient_of_normal_means_is_fiellers():
    mean, covariance = np.array([2.0, 1.0]), np.array([[0.09, 0.02], [0.02, 0.04]])
    test = ScoreTest(Estimated(mean, covariance), lambda mu, value: mu[0] - value * mu[1])
    critical = np.array([1.96**2])
    low, high = (ends(test.statistics, np.array([2.0]), np.array([s]), critical)[0] for s in (-0.1, 0.1))
    a = mean[1] ** 2 - 1.96**2 * 0.04
    b = -2 * (mean[0] * mean[1] - 1.96**2 * 0.02)
    c = mean[0] ** 2 - 1.96**2 * 0.09
    np.testing.assert_allclose([low, high], np.sort(np.roots([a, b, c])), rtol=1e-7)


def test_a_denominator_that_may_vanish_leaves_an_end_open():
    mean, covariance = np.array([2.0, 0.3]), np.diag([0.09, 0.04])
    test = ScoreTest(Estimated(mean, covariance), lambda mu, value: mu[0] - value * mu[1])
    assert np.isinf(ends(test.statistics, np.array([2 / 0.3]), np.array([1.0]), np.array([1.96**2])))[0]


def test_counts_and_normal_means_agree_in_large_samples():
    large = {**CELLS, "n": [30_000, 20_000, 25_000, 75_000]}
    for question in (
        pr.odds_ratio("z", "b"),
        pr.risk_ratio("z", "b"),
        pr.risk_difference("z", "b"),
        pr.correlation("z", "b"),
    ):
        score, wald = (pr.fit(question, large, NOISY, frequencies="n", inference=i) for i in (SCORE, WALD))
        assert np.abs(score.interval() - wald.interval()).max() < 0.35 * wald.standard_errors[0]
        assert np.any(score.interval() != wald.interval())


QUESTIONS = [
    pr.odds_ratio("z", "b"),
    pr.risk_ratio("z", "b"),
    pr.risk_difference("z", "b"),
    pr.correlation("z", "b"),
    pr.correlation("z", "b", "kendall"),
    pr.correlation("z", "x"),
    pr.mean("b", by="z"),
    pr.mean("x", by="z"),
    pr.proportions("b", by="z"),
    pr.crosstab("z", "b"),
    pr.risk_difference("z", "b", strata="s"),
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "sampling", [{}, {"weights": "w"}, {"clusters": "c"}, {"design": pr.SurveyDesign(clusters="c")}]
)
def test_score_intervals_exist_for_every_function_of_means(question, sampling):
    rng = np.random.default_rng(5)
    n = 240
    z, s, c = rng.integers(0, 2, n), rng.integers(0, 2, n), np.repeat(np.arange(40), 6)
    b = (rng.random(n) < 0.3 + 0.3 * z).astype(int)
    released = np.where(rng.random(n) < 0.8, z, 1 - z)
    data = {"z": released, "b": b, "x": z + rng.normal(size=n), "s": s, "c": c, "w": rng.uniform(1, 2, n)}
    score = pr.fit(question, data, NOISY, inference=SCORE, **sampling)
    wald = pr.fit(question, data, NOISY, inference=WALD, **sampling)
    low, high = score.interval().T
    assert np.all((low < score.estimate) & (score.estimate < high))
    ratio = (high - low) / np.diff(wald.interval(), axis=1).ravel()
    assert np.all((ratio > 0.8) & (ratio < 1.6))
    assert "score" in score.inference
    assert not np.array_equal(score.interval(), wald.interval())


def test_a_subset_by_a_perturbed_column_is_a_domain():
    rng = np.random.default_rng(6)
    n = 400
    z, e, b = rng.integers(0, 2, (3, n))
    data = {"z": z, "e": e, "b": b}
    result = pr.fit(pr.risk_difference("e", "b"), data, NOISY, subset="z == 1", inference=SCORE)
    wald = pr.fit(pr.risk_difference("e", "b"), data, NOISY, subset="z == 1", inference=WALD)
    assert np.abs(result.interval() - wald.interval()).max() < 0.5 * wald.standard_errors[0]
    share = pr.fit(pr.mean("b"), data, NOISY, subset="z == 1", inference=SCORE).interval()[0]
    domain = pr.fit(pr.mean("b", by="z"), data, NOISY, inference=SCORE).interval()[1]
    np.testing.assert_allclose(share, domain, rtol=1e-6)


def test_restricted_means_are_those_of_the_chances():
    """With one constraint on the chances themselves: the first is held at a half, the others share what is left as they were."""
    found, statistic = Released(np.array([2.0, 3.0, 5.0]), np.eye(3)).restricted(-0.5, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(found, [0.5, 0.5 * 3 / 8, 0.5 * 5 / 8])
    assert statistic == pytest.approx((0.2 - 0.5) ** 2 / (0.25 / 10))

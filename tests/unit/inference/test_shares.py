"""Intervals of shares: coverage by enumeration of all outcomes, and the same limits found the slow way."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

import pramana as pr
from pramana.errors import PramanaError
from pramana.inference.restricted import QuotientLimits, restricted_statistics
from pramana.inference.shares import SMALL, BinomialLimits, exact, mid_p

NOISE = [(0.8, 0.99), (0.9, 0.7), (0.6, 0.6), (0.8, 0.8), (0.95, 0.95), (1.0, 1.0)]


def chances(sensitivity, specificity, points=601):
    """What P can release, on a fine grid of true shares."""
    return (1 - specificity) + np.linspace(0, 1, points) * (sensitivity + specificity - 1)


def coverage(limits, n, chance):
    """Of λ (m,), by enumeration: the chance of all counts whose interval holds it."""
    probability = binom.pmf(np.arange(n + 1), n, chance[:, None])
    held = (limits[:, 0] <= chance[:, None] + 1e-12) & (chance[:, None] <= limits[:, 1] + 1e-12)
    return (probability * held).sum(axis=1)


@cache
def limits_of(kind, n, level=0.95):
    """All counts of n, as the fit has them: λ itself is the share."""
    count, ones = np.arange(n + 1.0), np.ones(n + 1)
    below = {"mid-p": 0.0, "auto": SMALL, "exact": np.inf}[kind]
    name = "exact" if kind == "exact" else "mid-p"
    return BinomialLimits(name, level, count, n * ones, 0 * ones, ones, np.inf * ones, below).at(level)


@pytest.mark.parametrize(("sensitivity", "specificity"), NOISE)
def test_coverage_of_shares_by_enumeration(sensitivity, specificity):
    chance = chances(sensitivity, specificity)
    exactly, usual = [], []
    for n in range(5, 61):
        exactly.append(coverage(limits_of("exact", n), n, chance))
        usual.append(coverage(limits_of("auto", n), n, chance))
    exactly, usual = np.array(exactly), np.array(usual)
    assert exactly.min() >= 0.95 - 1e-9
    assert exactly.mean() <= 0.975
    assert usual.min() >= 0.92
    assert 0.945 <= usual.mean() <= 0.97


def test_wald_intervals_would_fail_that():
    n, chance = 40, chances(0.8, 0.99)
    count = np.arange(n + 1) / n
    reach = 1.96 * np.sqrt(count * (1 - count) / n)
    assert coverage(np.column_stack([count - reach, count + reach]), n, chance).min() < 0.5


def slow_blaker(n, level, grid):
    """Values of λ that the test does not reject: outcomes with no larger a smaller tail are at least as extreme."""
    mass = binom.pmf(np.arange(n + 1), n, grid[:, None])
    tail = np.minimum(np.cumsum(mass, axis=1), np.cumsum(mass[:, ::-1], axis=1)[:, ::-1])
    out = []
    for x in range(n + 1):
        p_value = np.where(tail <= tail[:, [x]] * (1 + 1e-9), mass, 0.0).sum(axis=1)
        kept = grid[p_value >= 1 - level]
        out.append((kept.min(), kept.max()))
    return np.array(out)


@pytest.mark.parametrize("n", [1, 2, 5, 12, 31])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_blaker_equals_a_search_over_a_grid(n, level):
    grid = np.linspace(0, 1, 10001)
    found = exact(np.arange(n + 1.0), np.full(n + 1, float(n)), level)
    assert np.abs(found - slow_blaker(n, level, grid)).max() <= 1.01e-4


def test_blaker_lies_within_clopper_and_pearson():
    from scipy.stats import beta

    count, n = np.arange(1.0, 40), 40.0
    found = exact(count, np.full(39, n), 0.95)
    assert np.all(found[:, 0] >= beta.ppf(0.025, count, n - count + 1) - 1e-12)
    assert np.all(found[:, 1] <= beta.ppf(0.975, count + 1, n - count) + 1e-12)


def test_mid_p_leaves_half_the_count_out_of_each_tail():
    count, n = np.arange(1.0, 20), np.full(19, 20.0)
    low, high = mid_p(count, n, 0.9).T
    assert binom.sf(count, n, low) + binom.pmf(count, n, low) / 2 == pytest.approx(0.05)
    assert binom.cdf(count - 1, n, high) + binom.pmf(count, n, high) / 2 == pytest.approx(0.05)


def slow_statistic(counts, contrasts):
    """Pearson's distance from the likeliest chances with mean contrast 0, by a general optimiser."""
    n, size = counts.sum(), len(counts)

    def loss(chance):
        return -np.sum(counts * np.log(np.maximum(chance, 1e-300)))

    best = None
    for seed in range(4):
        start = np.random.default_rng(seed).dirichlet(np.ones(size))
        found = minimize(
            loss,
            start,
            method="SLSQP",
            bounds=[(1e-12, 1)] * size,
            constraints=[
                {"type": "eq", "fun": lambda c: c.sum() - 1},
                {"type": "eq", "fun": lambda c: c @ contrasts},
            ],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        if found.success and (best is None or found.fun < best.fun - 1e-9):
            best = found
    assert best is not None
    expected = n * best.x
    return np.sum((counts - expected) ** 2 / np.maximum(expected, 1e-9))


@pytest.mark.parametrize(
    ("counts", "contrasts"),
    [
        ([3, 7], [-0.5, 0.5]),
        ([12, 5, 3], [0.9, -0.3, -0.2]),
        ([12, 5, 0], [0.9, -0.3, -0.8]),
        ([0, 5, 8], [-1.5, 0.2, 0.4]),  # no seen outcome balances the others: an unseen one has to
        ([0, 0, 9, 4], [-2.0, -1.0, 0.3, 0.6]),
    ],
)
def test_the_restricted_statistic_equals_a_general_optimiser(counts, contrasts):
    counts, contrasts = np.array(counts, dtype=float), np.array(contrasts)
    found = restricted_statistics(counts[None], contrasts[None])[0]
    assert found == pytest.approx(slow_statistic(counts, contrasts), rel=2e-4)


def test_an_impossible_value_is_rejected():
    assert np.isinf(restricted_statistics(np.array([[3.0, 7.0]]), np.array([[0.1, 0.5]])))[0]


def multinomial_outcomes(n, size):
    from itertools import combinations

    bars = np.array(list(combinations(range(n + size - 1), size - 1)))
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), n + size - 1)])
    return (np.diff(edges, axis=1) - 1).astype(float)


GENERAL = [
    [[0.7, 0.1, 0.15], [0.2, 0.8, 0.25], [0.1, 0.1, 0.6]],
    [[0.9, 0.05, 0.0], [0.1, 0.9, 0.1], [0.0, 0.05, 0.9]],
    [[0.5, 0.3, 0.2], [0.25, 0.5, 0.3], [0.25, 0.2, 0.5]],
]


@pytest.mark.parametrize("n", [6, 20])
@pytest.mark.parametrize("matrix", GENERAL)
def test_coverage_of_more_levels_by_enumeration(matrix, n):
    from scipy.special import gammaln

    matrix = np.array(matrix)
    counts, truth = multinomial_outcomes(n, 3), multinomial_outcomes(20, 3) / 20
    ways = gammaln(n + 1) - gammaln(counts + 1).sum(axis=1)
    probability = np.exp(ways + np.log(np.maximum(truth @ matrix.T, 1e-300)) @ counts.T)
    ones = np.ones(len(counts))
    covered, wald = [], []
    for level, terms in enumerate(np.linalg.inv(matrix)):
        estimate = counts @ terms / n
        above = np.repeat(terms[:, None], len(counts), axis=1)
        low, high = QuotientLimits(0.95, estimate, counts.T, above, np.ones_like(above), np.inf * ones).at(0.95).T
        share = truth[:, [level]]
        covered.append((probability * ((low <= share + 1e-9) & (share - 1e-9 <= high))).sum(axis=1))
        reach = 1.96 * np.sqrt(np.maximum(counts @ terms**2 / n - estimate**2, 0) / n)
        wald.append((probability * (np.abs(estimate - share) <= reach)).sum(axis=1))
    assert np.min(covered) >= 0.90
    assert 0.945 <= np.mean(covered) <= 0.97
    assert np.min(wald) < 0.92  # and on the same grid Wald's do not reach that


BINARY = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.8, specificity=0.99)})
THREE = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response(["a", "b", "c"], keep=0.8)})
KINDS = [None, pr.Sandwich("HC1"), pr.Sandwich(interval="wald"), pr.Jackknife(), pr.Resampling(seed=1)]


@pytest.mark.parametrize("inference", KINDS, ids=str)
@pytest.mark.parametrize(
    "question", [pr.mean("y"), pr.total("y"), pr.proportions("y"), pr.counts("y"), pr.counts("y", size=900)]
)
def test_forty_zeros_have_an_interval(question, inference):
    result = pr.fit(question, {"y": [0] * 40}, BINARY, inference=inference)
    low, high = result.interval()[-1]
    size = float(result.facts.get("Population size", 40 if question.sums else 1))
    assert result.estimate[-1] == pytest.approx(-0.01 / 0.79 * size)
    assert low == pytest.approx(-0.01 / 0.79 * size)
    assert high == pytest.approx((1 - 0.05 ** (1 / 40) - 0.01) / 0.79 * size)
    row = result.to_dicts()[-1]
    assert row["std_error"] == pytest.approx((high - low) / (2 * 1.959964), rel=1e-6)
    assert 0.3 < row["p_value"] < 0.9
    assert "no-variation" in result.flags
    assert row["p_value"] == pytest.approx(0.99**40)  # mid-P: twice half the chance of forty zeros
    assert result.test(f"{result.parameters[-1]} = 0").p_value == row["p_value"]


@pytest.mark.parametrize("inference", KINDS, ids=str)
@pytest.mark.parametrize(
    "question", [pr.proportions("y"), pr.counts("y"), pr.crosstab("y"), pr.proportions("y", by="g")]
)
def test_a_level_that_was_never_released_has_an_interval(question, inference):
    data = {"y": ["a", "b", "a", "b"] * 15, "g": [0, 0, 0, 1] * 15}
    result = pr.fit(question, data, THREE, inference=inference)
    widths = np.diff(result.interval(), axis=1).ravel()
    assert np.all(widths > 0.01)
    assert np.all(result.standard_errors > 0)
    assert "no-variation" in result.flags
    assert not any(row["p_value"] == 0 and row["std_error"] == 0 for row in result.to_dicts())


def test_widths_are_those_of_the_weighted_and_clustered_sample():
    data = {"y": [0] * 40, "w": np.linspace(1, 3, 40), "c": np.repeat(np.arange(8), 5)}
    plain = pr.fit(pr.mean("y"), data, BINARY).interval()[0]
    weighted = pr.fit(pr.mean("y"), data, BINARY, weights="w").interval()[0]
    clustered = pr.fit(pr.mean("y"), data, BINARY, clusters="c").interval()[0]
    assert plain[0] == pytest.approx(weighted[0]) == pytest.approx(clustered[0])
    assert plain[1] < weighted[1] < clustered[1]
    assert clustered[1] == pytest.approx((exact(np.zeros(1), np.array([8.0]), 0.95)[0, 1] - 0.01) / 0.79)


def test_equal_weights_and_counts_change_nothing():
    data = {"y": [1] * 12 + [0] * 48, "w": np.full(60, 2.0)}
    plain = pr.fit(pr.mean("y"), data, BINARY).interval()
    cells = pr.fit(pr.mean("y"), {"y": [1, 0], "n": [12, 48]}, BINARY, frequencies="n").interval()
    assert cells == pytest.approx(plain)
    assert pr.fit(pr.mean("y"), data, BINARY, weights="w").interval() == pytest.approx(plain)
    exactly = pr.fit(pr.mean("y"), data, BINARY, inference=pr.Sandwich(interval="exact")).interval()
    assert exactly[0, 0] < plain[0, 0] and exactly[0, 1] > plain[0, 1]  # noqa: PT018


def test_shares_and_counts_have_the_same_limits():
    data = {"y": ["a"] * 30 + ["b"] * 25 + ["c"] * 3}
    shares, counts = (pr.fit(q, data, THREE).interval() for q in (pr.proportions("y"), pr.counts("y")))
    assert counts == pytest.approx(58 * shares)
    known = pr.fit(pr.counts("y", size=1000), data, THREE).interval()
    assert known == pytest.approx(1000 * shares)


def test_a_clean_domain_is_a_sample_of_its_own():
    data = {"y": [1] * 3 + [0] * 17 + [1] * 9 + [0] * 21, "g": ["u"] * 20 + ["v"] * 30}
    within = pr.fit(pr.mean("y", by="g"), data, BINARY).interval()
    for j, group in enumerate("uv"):
        alone = {"y": [y for y, g in zip(data["y"], data["g"], strict=True) if g == group]}
        assert within[j] == pytest.approx(pr.fit(pr.mean("y"), alone, BINARY).interval()[0])


def test_any_level_without_the_data():
    result = pr.fit(pr.mean("y"), {"y": [1] * 3 + [0] * 37}, BINARY)
    widths = [np.diff(result.interval(level))[0, 0] for level in (0.5, 0.8, 0.95, 0.99)]
    assert np.all(np.diff(widths) > 0)
    assert result.to_dicts(level=0.8)[0]["conf_low"] == result.interval(0.8)[0, 0]


def test_kinds_that_do_not_exist_are_refused():
    cells = {"y": ["a", "b", "c"] * 10, "x": np.arange(30.0), "w": np.ones(30)}
    ask = lambda question, kind, **more: pr.fit(question, cells, THREE, inference=pr.Sandwich(interval=kind), **more)  # noqa: E731
    for kind in ("exact", "mid-p"):
        with pytest.raises(PramanaError, match="are for shares and counts whose records"):
            ask(pr.mean("x"), kind)
        with pytest.raises(PramanaError, match="are for shares and counts whose records"):
            ask(pr.mean("x", by="y"), kind)
        with pytest.raises(PramanaError, match="are for shares and counts whose records"):
            ask("x ~ y", kind)
    with pytest.raises(PramanaError, match="count records of equal weight"):
        ask(pr.proportions("y"), "exact", weights="w")
    with pytest.raises(PramanaError, match="has Wald intervals"):
        pr.fit("x ~ y", cells, THREE, method="likelihood", inference=pr.Sandwich(interval="exact"))


def test_an_interval_without_a_possible_value_is_flagged():
    result = pr.fit(pr.proportions("y"), {"y": ["a", "b"] * 40}, THREE)
    assert result.interval()[2, 1] < 0  # never released in 80 records, where a tenth of everybody should have been
    assert "interval-outside" in result.flags
    assert "interval-outside" not in pr.fit(pr.mean("y"), {"y": [0] * 40}, BINARY).flags


def test_a_constant_clean_column_has_nothing_to_test():
    row = pr.fit(pr.mean("x"), {"x": [5.0] * 10}, None).to_dicts()[0]
    assert row["std_error"] == 0
    assert np.isnan(row["p_value"])


def test_nothing_is_random_around_the_file_where_nothing_was_perturbed():
    design = pr.SurveyDesign(clusters="c", target="file")
    result = pr.fit(pr.mean("y"), {"y": [0] * 39 + [1], "c": np.arange(40)}, None, design=design)
    assert result.standard_errors[0] == 0
    assert result.flags == "no-randomisation"
    assert np.isnan(result.to_dicts()[0]["p_value"])


LEVELS3 = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response(["a", "b", "c"], 0.9)})
UNEVEN3 = pr.Mechanism({"y": pr.TransitionMatrix(["a", "b", "c"], [[0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.1, 0.2, 0.7]])})
ASKED: dict[str, tuple[Any, pr.Mechanism, dict[str, Any]]] = {
    "mid-P": (pr.proportions("y"), LEVELS3, {}),
    "counts": (pr.counts("y"), LEVELS3, {}),
    "clusters": (pr.proportions("y"), LEVELS3, {"clusters": "c"}),
    "exact": (pr.proportions("y"), LEVELS3, {"inference": pr.Sandwich(interval="exact")}),
    "multinomial score": (pr.proportions("y"), UNEVEN3, {}),
    "functions of means": (pr.risk_difference("b", "d"), LEVELS3, {"inference": pr.Sandwich(interval="score")}),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_share_is_called_zero_where_its_interval_holds_zero(name: str) -> None:
    """p below 0.05 exactly where the 95 % interval leaves 0 out; Wald's p would disagree with it near the boundary."""
    what, mechanism, options = ASKED[name]
    rng, seen = np.random.default_rng(5), set()
    for _ in range(5 if name in ("exact", "functions of means") else 10):
        y = rng.choice(["a", "b", "c"], 40, p=[0.7, 0.18, 0.12])
        data = {"y": y, "b": rng.integers(0, 2, 40), "d": rng.integers(0, 2, 40), "c": np.arange(40) // 4}
        data["d"] = np.where(rng.random(40) < 0.4, data["b"], data["d"])
        found = pr.fit(what, data, mechanism, **options)
        for row in found.to_dicts():
            inside = row["conf_low"] < 0 < row["conf_high"]
            assert inside == (row["p_value"] > 0.05), row
            seen.add(inside)
    assert seen == {True, False}


@pytest.mark.parametrize("interval", ["auto", "exact", "score", "lang-reiczigel"])
def test_a_share_that_cannot_be_zero_is_not_called_so(interval):
    """With a specificity of 1 one positive record is proof; and Lang and Reiczigel's interval has a p-value too."""
    measured = pr.TransitionMatrix.from_validation(sensitivity=(26, 30), specificity=(27, 30))
    sure = pr.TransitionMatrix.binary(sensitivity=0.8, specificity=1.0)
    own = interval == "lang-reiczigel"
    data = {"a": [1] * 62 + [0] * 238} if own else {"a": [1] * 3 + [0] * 17}
    mechanism = pr.Mechanism({"a": measured if own else sure})
    [row] = pr.fit(pr.mean("a"), data, mechanism, inference=pr.Sandwich(interval=interval)).to_dicts()
    assert (row["conf_low"] <= 0) == (row["p_value"] > 0.05) == own


def test_which_shares_have_limits_is_known_without_them():
    trials = np.array([40.0, np.nan, 9.0])
    limits = BinomialLimits(
        "mid-p", 0.95, np.array([3.0, np.nan, 0.0]), trials, np.zeros(3), np.ones(3), np.full(3, np.inf)
    )
    assert limits.limited.tolist() == [True, False, True]
    assert np.array_equal(limits.limited, ~np.isnan(limits.at(0.95)).any(axis=1))

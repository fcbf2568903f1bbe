"""A share that is exactly zero is zero in whatever order its signed terms were added up.

The reference is exact: with fractions, the reverted share of z = 1 is (share released as 1 − (1 − specificity)) over
(sensitivity + specificity − 1), and every file below is made such that this is 0.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.estimating.rounding import ROUNDING, gradient, settled, settled_values

CHANNELS = [(0.8, 0.8), (0.9, 0.7), (0.55, 0.6), (0.501, 0.5)]
MEASURES = {
    "mean": pr.mean("b", by="z"),
    "proportions": pr.proportions("b", by="z"),
    "two domains": pr.mean("y", by=["z", "s"]),
    "risk ratio": pr.risk_ratio("z", "b"),
    "risk difference": pr.risk_difference("z", "b"),
    "odds ratio": pr.odds_ratio("z", "b"),
    "odds ratio by stratum": pr.odds_ratio("s", "b", strata="z"),
    "risk ratio by stratum": pr.risk_ratio("s", "b", strata="z"),
    "risk difference by stratum": pr.risk_difference("s", "b", strata="z"),
    "Mantel-Haenszel difference": pr.risk_difference("z", "b", strata="s"),
    "Mantel-Haenszel ratio": pr.risk_ratio("z", "b", strata="s"),
    "Pearson": pr.correlation("z", "y"),
    "Cramér": pr.correlation("z", "b", "cramer"),
    "Kendall": pr.correlation("z", "b", "kendall"),
    "Gini": pr.gini("y", by="z"),
    "median": pr.median("y", by="z"),
    "quantile": pr.quantile("y", 0.2, by="z"),
    "quantile of levels": pr.quantile("k", 0.2, by="z"),
    "poverty": pr.poverty_rate("y", by="z"),
}


def files(specificity: float, seed: int) -> tuple[dict[str, Any], Fraction]:
    """Records whose reverted share of z = 1 is zero in each half s, in random order."""
    rng = np.random.default_rng(seed)
    half = 500
    ones = round(half * (1 - specificity))
    n = 2 * half
    data: dict[str, Any] = {"z": np.tile(np.repeat([1, 0], [ones, half - ones]), 2), "s": np.repeat([0, 1], half)}
    data |= {"b": rng.integers(0, 2, n), "k": rng.integers(0, 3, n), "y": rng.lognormal(size=n)}
    order = rng.permutation(n)
    share = Fraction(ones, half) - (1 - Fraction(str(specificity)))
    return {name: values[order] for name, values in data.items()}, share


@pytest.mark.parametrize(("sensitivity", "specificity"), CHANNELS)
@pytest.mark.parametrize("name", MEASURES)
def test_a_quotient_over_a_share_of_zero_is_refused_in_every_order(
    name: str, sensitivity: float, specificity: float
) -> None:
    levels = pr.TransitionMatrix.randomized_response([0, 1, 2], keep=0.8)
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(sensitivity, specificity), "k": levels})
    for seed in range(6):
        data, share = files(specificity, seed)
        assert share == 0
        with pytest.raises(pr.SolveError, match=r"not positive|does not exist|needs positive shares"):
            pr.fit(MEASURES[name], data, mechanism)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1), (0, 2, 1, 3), (3, 1, 0, 2)])
@pytest.mark.parametrize("name", ["mean", "proportions", "risk ratio", "risk difference", "odds ratio", "Cramér"])
def test_the_same_with_frequencies(name: str, order: tuple[int, ...]) -> None:
    rows = list(order)
    table = {"z": [1, 1, 0, 0], "b": [1, 0, 1, 0], "f": [80, 120, 240, 560]}
    table = {column: np.array(values)[rows] for column, values in table.items()}
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})
    with pytest.raises(pr.SolveError, match=r"not positive|needs positive shares"):
        pr.fit(MEASURES[name], table, mechanism, frequencies="f")


@pytest.mark.parametrize("what", ["y ~ z", "b ~ z", "y ~ z + s", "y ~ 0 + z"])
def test_a_regression_on_a_column_without_reverted_variance_is_refused_or_an_error(what: str) -> None:
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})
    for seed in range(8):
        data, _ = files(0.8, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pr.PramanaWarning)
            with pytest.raises((pr.SolveError, pr.PramanaWarning)):
                pr.fit(what, data, mechanism)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial", "negative-binomial"])
def test_a_slope_of_zero_up_to_rounding_has_no_answer(family: str) -> None:
    """Not even for the intercept, whose standard error would be off by a factor of six."""
    data = {"z": [1, 1, 0, 0], "b": [1, 0, 1, 0], "f": [80, 120, 240, 560]}
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})
    message = "variance along 'z' is zero up to rounding" if family == "gaussian" else "no root|more than 0"
    with pytest.raises(pr.SolveError, match=message):
        pr.fit("b ~ z", data, mechanism, frequencies="f", family=family)


def test_a_share_of_zero_is_inside_its_range() -> None:
    """Rounding below 0 is no sign that noise outweighs the data."""
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})
    for seed in range(8):
        data, _ = files(0.8, seed)
        for what in (pr.mean("z"), pr.proportions("z")):
            result = pr.fit(what, data, mechanism)
            assert np.abs(result.estimate).min() < 1e-12
            assert result.flags == ""


def test_rare_domains_of_one_sign_are_kept() -> None:
    """A clean domain of 1e-12 of all the weight is small, and no rounding."""
    data = {"z": [1, 1, 1, 0, 0, 0], "b": [1, 0, 0, 1, 0, 0], "w": [1e-12, 2e-12, 1e-12, 1.0, 2.0, 1.0]}
    result = pr.fit(pr.mean("b", by="z"), data, None, weights="w")
    np.testing.assert_allclose(result.estimate, [0.25, 0.25], rtol=1e-12)
    ratio = pr.fit(pr.risk_difference("z", "b"), data, None, weights="w")
    np.testing.assert_allclose(ratio.estimate, [0.0], atol=1e-12)
    medians = pr.fit(pr.median("b", by="z"), data, None, weights="w", inference=pr.Resampling(20, seed=1))
    assert np.isfinite(medians.estimate).all()


def test_one_record_more_than_zero_is_answered() -> None:
    """The smallest share above zero that a file of 1000 records can have is far above rounding."""
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.8, 0.8)})
    data, _ = files(0.8, 0)
    data["z"] = data["z"].copy()
    data["z"][np.flatnonzero(data["z"] == 0)[0]] = 1
    share = (Fraction(201, 1000) - Fraction(1, 5)) / Fraction(3, 5)
    result = pr.fit(pr.mean("z"), data, mechanism)
    np.testing.assert_allclose(result.estimate[0], float(share), rtol=1e-9)
    assert np.isfinite(pr.fit(pr.mean("b", by="z"), data, mechanism).estimate).all()


def test_what_is_settled_is_what_first_order_errors_can_reach() -> None:
    def variance(m: Any) -> Any:
        return np.stack([m[1] - m[0] ** 2, m[0] - m[1]])

    mu, sizes = np.array([0.3, 0.09 + 1e-12]), np.array([2.0, 1.0])
    slow = variance(mu).copy()
    reach = ROUNDING * np.array([2 * 0.3 * 2.0 + 1.0, 2.0 + 1.0])
    slow[np.abs(slow) <= reach] = 0.0
    np.testing.assert_allclose(gradient(variance, mu), [[-0.6, 1.0], [1.0, -1.0]], rtol=1e-12)
    np.testing.assert_array_equal(settled_values(variance, mu, sizes), slow)
    assert slow[0] == 0 != slow[1]
    np.testing.assert_array_equal(settled(np.array([1e-11, -1e-9]), np.array([1.0, 1.0])), [0.0, -1e-9])

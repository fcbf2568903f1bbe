"""Intervals near a boundary: shares of clustered and weighted samples, and score tests of ratios through P."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from montecarlo import BOUND, COVERAGE_ALLOWANCE, gather

import pramana as pr
from pramana.estimating.cells import Factor
from pramana.inference.restricted import Released, ScoreTest
from pramana.parameters.correlation import Pearson
from pramana.parameters.ratios import ODDS_RATIO, RISK_DIFFERENCE, RISK_RATIO, RatioTarget

Log = Callable[[str, object], None]
CRITICAL = 1.959964**2
FACTORS = (Factor("z", (0, 1)), Factor("b", (0, 1)))


def within(share: float, replicates: int, low: float = 0.95, high: float = 0.95) -> bool:
    error = BOUND * np.sqrt(0.95 * 0.05 / replicates) + COVERAGE_ALLOWANCE
    return low - error < share < high + error


# --- Functions of a 2 × 2 table whose exposure is perturbed: is the truth accepted? ---------------------------------


def released_terms(keep: float) -> np.ndarray:
    """Reverted cells (released cell, true cell) of z (perturbed) × b (clean)."""
    matrix = np.array([[keep, 1 - keep], [1 - keep, keep]])
    return np.kron(np.linalg.inv(matrix), np.eye(2))


def correlation_terms(keep: float) -> np.ndarray:
    """Means of z, b, z², b² and zb, for 0 and 1."""
    z, b = np.array([0, 0, 1, 1.0]), np.array([0, 1, 0, 1.0])
    return released_terms(keep) @ np.column_stack([z, b, z**2, b**2, z * b])


def truths(exposed: float, risks: tuple[float, float]) -> dict[str, float]:
    (low, high), overall = risks, exposed * risks[1] + (1 - exposed) * risks[0]
    spread = np.sqrt(exposed * (1 - exposed) * overall * (1 - overall))
    return {
        "risk difference": high - low,
        "log risk ratio": np.log(high / low),
        "log odds ratio": np.log(high / (1 - high) / low * (1 - low)),
        "correlation": exposed * (high - overall) / spread,
    }


def score_test(name: str, counts: np.ndarray, keep: float) -> ScoreTest:
    if name == "correlation":
        target: Any = Pearson("z", "b", (0.0, 0.0), (1.0, 1.0))
        return ScoreTest(Released(counts, correlation_terms(keep)), partial(target.gap, place=0))
    measure = {"risk difference": RISK_DIFFERENCE, "log risk ratio": RISK_RATIO, "log odds ratio": ODDS_RATIO}[name]
    return ScoreTest(Released(counts, released_terms(keep)), partial(RatioTarget(measure, FACTORS).gap, place=0))


TABLES = {
    "keep 0.8, n = 200": (0.8, 200, 0.3, (0.2, 0.5)),
    "keep 0.7, n = 300": (0.7, 300, 0.2, (0.1, 0.4)),
    "keep 0.9, n = 60": (0.9, 60, 0.3, (0.1, 0.6)),
}


@pytest.mark.parametrize("replicates", [80, pytest.param(2000, marks=pytest.mark.verify)])
@pytest.mark.parametrize("name", ["risk difference", "log risk ratio", "log odds ratio", "correlation"])
@pytest.mark.parametrize("table", TABLES)
def test_score_tests_of_a_perturbed_table_accept_the_truth(
    table: str, name: str, replicates: int, record_property: Log
) -> None:
    keep, n, exposed, risks = TABLES[table]
    true = np.array(
        [(1 - exposed) * (1 - risks[0]), (1 - exposed) * risks[0], exposed * (1 - risks[1]), exposed * risks[1]]
    )
    matrix = np.kron([[keep, 1 - keep], [1 - keep, keep]], np.eye(2))
    samples = np.random.default_rng(811).multinomial(n, matrix @ true, replicates).astype(float)
    truth = truths(exposed, risks)[name]
    accepted = np.mean([score_test(name, counts, keep).statistic(truth) <= CRITICAL for counts in samples])
    row = {"inference": "score test", "replicates": replicates, "coverage": accepted}
    record_property("rows", [row])
    assert within(accepted, replicates)
    if replicates >= 1000 and name != "correlation":  # and a wrong P is seen
        wrong = np.mean([score_test(name, counts, keep + 0.08).statistic(truth) <= CRITICAL for counts in samples])
        assert wrong < accepted - 0.01


# --- Shares of samples that are not simple --------------------------------------------------------------------------


def clustered(rng: np.random.Generator, groups: int, size: int, share: float, keep: float) -> dict[str, Any]:
    """Intraclass correlation 0.1."""
    chance = rng.beta(9 * share, 9 * (1 - share), groups)
    y = (rng.random((groups, size)) < chance[:, None]).ravel().astype(int)
    return {"y": np.where(rng.random(y.size) < keep, y, 1 - y), "c": np.repeat(np.arange(groups), size)}


def weighted(rng: np.random.Generator, n: int, share: float, keep: float) -> dict[str, Any]:
    y = (rng.random(n) < share).astype(int)
    return {"y": np.where(rng.random(n) < keep, y, 1 - y), "w": rng.lognormal(0, 0.7, n)}


SAMPLES: dict[str, tuple[Callable[..., dict[str, Any]], tuple[int, ...], dict[str, Any]]] = {
    "40 clusters of 5": (clustered, (40, 5), {"clusters": "c"}),
    "12 sampling units of 8": (clustered, (12, 8), {"design": pr.SurveyDesign(clusters="c")}),
    "100 unequal weights": (weighted, (100,), {"weights": "w"}),
    "100 records": (weighted, (100,), {}),
}


@pytest.mark.parametrize("replicates", [40, pytest.param(2000, marks=pytest.mark.verify)])
@pytest.mark.parametrize("share", [0.03, 0.3])
@pytest.mark.parametrize("sample", SAMPLES)
def test_shares_of_any_sample_are_covered(sample: str, share: float, replicates: int, record_property: Log) -> None:
    draw, sizes, options = SAMPLES[sample]
    keep, rng = 0.95, np.random.default_rng(812)
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response([0, 1], keep)})
    fits = [pr.fit(pr.mean("y"), draw(rng, *sizes, share, keep), mechanism, **options) for _ in range(replicates)]
    found = gather(fits, (share,))
    wald = np.mean(np.abs(found.estimates - share) <= 1.96 * found.errors)
    record_property("rows", [{**found.interval_rows()[0], "Wald coverage": wald}])
    assert within(found.coverage[0], replicates, 0.93, 0.985)

"""Where a reverted variance is hardly positive, score intervals keep the coverage that Wald's can lose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import settings
from montecarlo import BOUND, COVERAGE_ALLOWANCE, Setting, samples
from scipy.special import ndtri

import pramana as pr

Log = Callable[[str, object], None]


def coverages(setting: Setting, replicates: int, seed: int) -> dict[str, np.ndarray]:
    """Shares of samples (d,), over those with a root: a reverted variance of exactly zero has none."""
    truth = np.asarray(setting.truth)
    score, wald, unbounded, negative = [], [], [], []
    for _, released in samples(setting, replicates, seed):
        try:
            result = setting.fit(released, inference=pr.Sandwich(interval="score"))
        except pr.SolveError:
            continue
        limits = result.interval()
        score.append((limits[:, 0] <= truth) & (truth <= limits[:, 1]))
        wald.append(np.abs(result.estimate - truth) <= ndtri(0.975) * result.standard_errors)
        unbounded.append(np.isinf(limits).any(axis=1))
        negative.append([any(d.code == "not-identified" for d in result.diagnostics)] * truth.size)
    shares = {"score coverage": score, "Wald coverage": wald, "unbounded": unbounded, "negative variance": negative}
    rootless = np.full(truth.size, 1 - len(score) / replicates)
    return {**{k: np.mean(v, axis=0) for k, v in shares.items()}, "no root": rootless}


def rows(found: dict[str, np.ndarray], replicates: int) -> list[dict[str, object]]:
    error = np.sqrt(0.95 * 0.05 / replicates)
    return [
        {"parameter": name, "replicates": replicates, **{k: v[j] for k, v in found.items()}, "MC error": error}
        for j, name in enumerate(("Intercept", "x"))
    ]


def within(share: float, expected: float, replicates: int) -> bool:
    error = np.sqrt(expected * (1 - expected) / replicates)
    return bool(abs(share - expected) < BOUND * error + COVERAGE_ALLOWANCE)


@pytest.mark.parametrize("replicates", [40, pytest.param(2000, marks=pytest.mark.verify)])
@pytest.mark.parametrize("effect", [1.0, 2.5], ids=lambda effect: f"effect {effect}")
def test_score_intervals_cover_where_the_reverted_variance_is_near_zero(
    effect: float, replicates: int, record_property: Log
) -> None:
    """Whether Wald's intervals fail depends on the effect: they hold at 1 and lose about 0.06 at 2.5.

    2.5 was picked from a scan of effects from 0.5 to 5 for a clear failure; it is an example, not a typical case.
    """
    found = coverages(settings.rare_covariate(effect), replicates, 401)
    record_property("rows", rows(found, replicates))
    assert all(within(share, 0.95, replicates) for share in found["score coverage"])
    # Computed independently, and free of the effect: not positive in 10.7 % of samples.
    assert within(found["negative variance"][1] + found["no root"][1], 0.107, replicates)
    if replicates >= 1000:
        fails = found["Wald coverage"][1] < 0.95 - BOUND * np.sqrt(0.95 * 0.05 / replicates)
        assert fails == (effect == 2.5)


@pytest.mark.parametrize("replicates", [40, pytest.param(2000, marks=pytest.mark.verify)])
def test_score_intervals_cover_in_simulation_a1(replicates: int, record_property: Log) -> None:
    found = coverages(settings.simulation_a1(0.75, 1000), replicates, 402)
    record_property("rows", rows(found, replicates))
    assert all(within(share, 0.95, replicates) for share in found["score coverage"])
    assert all(within(share, 0.95, replicates) for share in found["Wald coverage"])

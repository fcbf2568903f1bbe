"""The share of a variance that the randomisation costs, estimated from released data alone, is the true one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import settings
from montecarlo import BOUND, CLEAR, Setting, samples

Log = Callable[[str, object], None]
ALLOWANCE = 0.01
"""Absolute, for the ratio of two estimated variances at finite n."""

CASES = {
    "three-level mean": lambda: settings.three_levels("mean"),
    "three-level proportions": lambda: settings.three_levels("proportions"),
    "four-level covariate": lambda: settings.four_level_covariate("gaussian", 2000),
    "response and covariate": settings.response_and_covariate,
    "clusters": settings.clustered,
    "sampling weights": settings.weighted,
    "one draw a person": settings.panel,
}


def shares(setting: Setting, replicates: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """Estimated shares, proposed and oracle estimates, each (R, d)."""
    estimated, proposed, oracle, names = [], [], [], ()
    for true, released in samples(setting, replicates, seed):
        result = setting.fit(released)
        names = result.parameters
        estimated.append(np.diag(result.privacy) / np.diag(result.sampling))
        proposed.append(result.estimate)
        oracle.append(setting.fit(true, method="naive").estimate)
    return np.array(estimated), np.array(proposed), np.array(oracle), names


@pytest.mark.parametrize("replicates", [50, pytest.param(1000, marks=pytest.mark.verify)])
@pytest.mark.parametrize("case", CASES)
def test_the_privacy_share_is_what_the_true_data_save(case: str, replicates: int, record_property: Log) -> None:
    estimated, proposed, oracle, names = shares(CASES[case](), replicates, 201)
    ratio = oracle.var(axis=0) / proposed.var(axis=0)
    influence = estimated + ratio * (_relative_squares(oracle) - _relative_squares(proposed))
    gap = estimated.mean(axis=0) - (1 - ratio)
    error = influence.std(axis=0, ddof=1) / np.sqrt(replicates)
    columns = [names, [replicates] * len(names), estimated.mean(axis=0), 1 - ratio, error, gap / error]
    titles = ("parameter", "replicates", "estimated share", "true share", "MC error", "z")
    record_property("rows", [dict(zip(titles, row, strict=True)) for row in zip(*columns, strict=True)])
    assert np.all(np.abs(gap) < BOUND * error + ALLOWANCE)


def test_a_share_that_forgets_the_clusters_would_be_seen() -> None:
    setting = settings.clustered()
    right, _, _, _ = shares(setting, 40, 202)
    wrong = [
        np.diag(r.privacy) / np.diag(r.sampling)
        for r in (setting.fit(released, clusters=None) for _, released in samples(setting, 40, 202))
    ]
    gap = np.mean(wrong, axis=0) - right.mean(axis=0)
    assert np.max(np.abs(gap) / (right.std(axis=0, ddof=1) / np.sqrt(40))) > CLEAR


def test_a_share_that_forgets_the_shared_draws_would_be_seen() -> None:
    """Record by record it is about 0.1 for the hidden group, where the truth is about 0.4."""
    setting = settings.panel()
    right, _, _, _ = shares(setting, 40, 203)
    alone = setting.mechanism.with_unit(None)
    wrong = [
        np.diag(r.privacy) / np.diag(r.sampling)
        for r in (setting.fit(released, alone, clusters="person") for _, released in samples(setting, 40, 203))
    ]
    assert np.mean(wrong, axis=0)[2] < 0.15 < 0.35 < right.mean(axis=0)[2]


def _relative_squares(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) ** 2 / values.var(axis=0)

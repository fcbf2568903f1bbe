"""Reports are drawn with the chances that their channel states, and a wrong channel is found out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import pramana as pr
from pramana.mechanism.draws.keystream import SeededKeystream

LEVELS = ["a", "b", "c", "d"]
N = 60_000
CHANNELS: dict[str, tuple[Any, Any]] = {
    "unary": (pr.UnaryEncoding.optimized(LEVELS, 1.0), pr.UnaryEncoding.optimized(LEVELS, 1.2)),
    "subset": (pr.SubsetSelection(LEVELS, 1.0, 2), pr.SubsetSelection(LEVELS, 1.2, 2)),
    "hadamard": (pr.HadamardResponse(LEVELS, 1.0), pr.HadamardResponse(LEVELS, 1.2)),
    "rectangular": (
        pr.RectangularMatrix(["a", "b"], [[0.5, 0.2], [0.2, 0.5], [0.3, 0.3]], released=["a", "b", "?"]),
        pr.RectangularMatrix(["a", "b"], [[0.53, 0.2], [0.2, 0.5], [0.27, 0.3]], released=["a", "b", "?"]),
    ),
}


def statistic(channel: Any, reports: Any, level: int) -> tuple[float, int]:
    """Pearson's, of the distinct reports of one level, against the channel's own chances made to sum to 1."""
    column = channel.written(reports)[0]
    values, counts = np.unique(column, return_counts=True)
    read = channel.read([values], ["x"])
    chances = channel.likelihood(read, {})[:, level]
    if isinstance(channel, pr.UnaryEncoding):  # the factor of the report's own
        p, q = channel.p, channel.q
        own = np.where(np.arange(len(LEVELS)) == level, p, q)
        chances = np.prod(np.where(read, own, 1 - own), axis=1)
    chances = chances / chances.sum()
    return float(np.sum((counts - N * chances) ** 2 / (N * chances))), len(values) - 1


@pytest.mark.parametrize("name", CHANNELS)
def test_the_draws_have_the_stated_law(name: str) -> None:
    right, wrong = CHANNELS[name]
    for level in range(len(right.levels)):
        reports = right.perturb(np.full(N, level), {}, SeededKeystream(11, level))
        value, df = statistic(right, reports, level)
        assert chi2.sf(value, df) > 1e-5
    value, df = statistic(wrong, right.perturb(np.zeros(N, dtype=np.int64), {}, SeededKeystream(12)), 0)
    assert chi2.sf(value, df) < 1e-5


def test_hashed_reports_have_the_stated_law() -> None:
    """Supports of the true level and of the others, with binomial errors."""
    right, wrong = (pr.LocalHashing(LEVELS, epsilon, buckets=4) for epsilon in (1.0, 1.2))
    for level in range(4):
        drawn = right.perturb(np.full(N, level), {}, SeededKeystream(13, level))
        assert drawn[:, 0].max() < 2**32
        support = right.read(list(drawn.T), ["seed", "value"]).mean(axis=0)
        expected = np.where(np.arange(4) == level, right.hit, right.false_hit)
        error = np.sqrt(expected * (1 - expected) / N)
        assert np.all(np.abs(support - expected) < 4.5 * error)
        assert abs(support[level] - wrong.hit) > 6 * error[level]


def test_bits_of_one_report_are_independent() -> None:
    channel = pr.UnaryEncoding.symmetric(LEVELS, 1.0)
    bits = channel.perturb(np.zeros(N, dtype=np.int64), {}, SeededKeystream(5)).astype(float)
    correlations = np.corrcoef(bits.T)[np.triu_indices(4, 1)]
    assert np.all(np.abs(correlations) < 4.5 / np.sqrt(N))

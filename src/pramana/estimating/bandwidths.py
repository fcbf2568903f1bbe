"""How wide a kernel is, learned from data in which rows may stand for several records, or for none."""

from __future__ import annotations

import numpy as np

from pramana.arrays import Float

QUARTILE_WIDTH = 0.02
"""Quartiles are averaged over levels this far to either side, so that rounding in the weights cannot make them jump."""


def default_bandwidth(spread: float, size: float) -> float:
    """n^(−1/3) robust standard deviations: its square is small next to a standard error."""
    return spread * size ** (-1 / 3)


def robust_spread(values: Float, weights: Float, floor: float = 0.0) -> float | None:
    """The smaller of standard deviation and interquartile range over 1.349 under the weights; None where both are ≤ floor.

    A row with weight 3 counts like three rows, one with weight 0 like none, and a factor of all weights changes nothing.

    >>> values = np.array([1.0, 2.0, 4.0, 900.0])
    >>> robust_spread(values, np.array([3.0, 2.0, 2.0, 0.0])) == robust_spread(np.repeat(values, [3, 2, 2, 0]), np.ones(7))
    True
    """
    counted = weights > 0
    values, shares = values[counted], weights[counted] / weights[counted].sum()
    deviation = float(np.sqrt(shares @ (values - shares @ values) ** 2))
    between = _averaged_quantile(values, shares, 0.75) - _averaged_quantile(values, shares, 0.25)
    return min((s for s in (deviation, between / 1.349) if s > floor), default=None)


def _averaged_quantile(values: Float, shares: Float, q: float) -> float:
    """The mean of the quantiles at levels around q."""
    order = np.argsort(values, kind="stable")
    edges = np.concatenate([[0.0], np.cumsum(shares[order])])
    inside = np.diff(np.clip(edges, q - QUARTILE_WIDTH, q + QUARTILE_WIDTH))
    return float(inside @ values[order] / inside.sum())

"""Released frequencies: the true shares that they revert to, and how far noise alone can carry those."""

from __future__ import annotations

import math

import numpy as np

from pramana.arrays import Float, Int
from pramana.mechanism.channels.transition import TransitionMatrix


def reverted_shares(matrix: TransitionMatrix, counts: Float | Int, alpha: float) -> tuple[Float, Float]:
    """Reverted shares (K,), and how far below the truth each can fall by chance: Bernstein's bound, which no sample size breaks.

    A share below minus its slack was not made by this matrix, or not all that it made is there.

    Parameters
    ----------
    counts : records of each released level (K,).
    alpha : the chance that a level falls further.

    >>> P = TransitionMatrix.randomized_response(["low", "high"], keep=0.8)
    >>> shares, slack = reverted_shares(P, np.array([900.0, 0.0]), 1e-4)
    >>> shares.round(3), bool(shares[1] < -slack[1])
    (array([ 1.333, -0.333]), True)
    """
    return weighed_shares(matrix.inverse.T, np.ptp(matrix.inverse, axis=1), counts, alpha)


def weighed_shares(weights: Float, reach: Float, counts: Float | Int, alpha: float) -> tuple[Float, Float]:
    """The same for any channel.

    Parameters
    ----------
    weights : signed weights of the levels (R, K), by row of a reversion's table.
    reach : largest difference of two weights of a level (K,), over all that can be released.
    counts : records of each row (R,).
    """
    n = float(counts.sum())
    shares: Float = weights.T @ (counts / n)
    variance: Float = (weights**2).T @ (counts / n)
    tail = math.log(1 / alpha)
    slack = (tail * reach / 3 + np.sqrt((tail * reach / 3) ** 2 + 2 * n * tail * variance)) / n
    return shares, slack

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
    n = float(counts.sum())
    released = counts / n
    inverse = matrix.inverse
    shares: Float = inverse @ released
    variance: Float = inverse**2 @ released
    reach: Float = np.ptp(inverse, axis=1)
    tail = math.log(1 / alpha)
    slack = (tail * reach / 3 + np.sqrt((tail * reach / 3) ** 2 + 2 * n * tail * variance)) / n
    return shares, slack

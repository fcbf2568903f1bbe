"""What the randomisation costs an analyst who wants the share of a level."""

from __future__ import annotations

import numpy as np

from pramana.arrays import Float, Int
from pramana.mechanism import TransitionMatrix


def reverted_shares(matrix: TransitionMatrix, counts: Int) -> tuple[Float, Float]:
    """Estimated true shares (K,) from released counts, and their standard errors.

    `π̂ = Q r̂` has variance `(Q diag(r) Qᵀ − π πᵀ) / n` when every record is drawn anew.
    """
    n = max(int(counts.sum()), 1)
    released = counts / n
    shares = matrix.inverse @ released
    variance = np.maximum(matrix.inverse**2 @ released - shares**2, 0) / n
    return shares, np.sqrt(variance)


def share_inflation(matrix: TransitionMatrix, counts: Int) -> Float:
    """How many times the variance of each level's share (K,) is that of clean data; from released counts alone.

    >>> P = TransitionMatrix.binary(0.75, 0.75)
    >>> share_inflation(P, np.array([500, 500])).round(6)
    array([4., 4.])
    """
    n = max(int(counts.sum()), 1)
    shares = (
        np.clip(matrix.inverse @ (counts / n), 1 / n, 1 - 1 / n) if n > 2 else np.full(len(matrix), 1 / len(matrix))
    )
    shares = shares / shares.sum()
    released = matrix.matrix @ shares
    noisy: Float = matrix.inverse**2 @ released - shares**2
    return noisy / (shares * (1 - shares))

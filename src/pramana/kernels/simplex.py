"""Projection onto the simplex: the nearest probabilities to numbers that add up to 1 but may be negative."""

from __future__ import annotations

import numpy as np

from pramana.arrays import Float


def onto_simplex(values: Float) -> Float:
    """Rows (n, C) that sum to 1, each moved to the nearest row without negative entries (Euclidean).

    A row is shifted by a constant and cut at zero; rows that lie in the simplex stay as they are, to the last bit.

    >>> onto_simplex(np.array([[1.2, -0.2, 0.0], [0.3, 0.3, 0.4]]))
    array([[1. , 0. , 0. ],
           [0.3, 0.3, 0.4]])
    """
    beyond = values.min(axis=1) < 0
    if not beyond.any():
        return values
    out = values.copy()
    if values.shape[1] == 2:
        out[beyond] = values[beyond] > 0
        return out
    ordered = -np.sort(-values[beyond], axis=1)
    shifts = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, values.shape[1] + 1)
    last = np.sum(ordered > shifts, axis=1) - 1
    out[beyond] = np.clip(values[beyond] - np.take_along_axis(shifts, last[:, None], axis=1), 0.0, None)
    return out

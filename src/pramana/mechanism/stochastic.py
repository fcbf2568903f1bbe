"""Checks of an array that should be a transition matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pramana.arrays import Float
from pramana.errors import MechanismError

TOLERANCE = 1e-8


def checked_array(matrix: npt.ArrayLike, size: int) -> Float:
    """A square array of probabilities."""
    try:
        dense = np.array(matrix, dtype=float)
    except (TypeError, ValueError):
        raise MechanismError("the transition matrix must be a rectangular array of numbers") from None
    if dense.shape != (size, size):
        raise MechanismError(
            f"the transition matrix has shape {dense.shape} but there are {size} levels: give {size} × {size}"
        )
    if not np.all(np.isfinite(dense)):
        i, j = np.argwhere(~np.isfinite(dense))[0]
        raise MechanismError(
            f"entry [{i}, {j}] of the transition matrix is {dense[i, j]}: every entry must be a probability"
        )
    if dense.min() < 0 or dense.max() > 1 + TOLERANCE:
        i, j = np.argwhere((dense < 0) | (dense > 1 + TOLERANCE))[0]
        raise MechanismError(
            f"entry [{i}, {j}] of the transition matrix is {dense[i, j]:.6g}: probabilities lie between 0 and 1"
        )
    return dense


def stochastic(dense: Float, axis: int) -> bool:
    """Whether the sums along an axis are 1."""
    return bool(np.all(np.abs(dense.sum(axis=axis) - 1) < TOLERANCE))


def refuse_wrong_orientation(dense: Float) -> None:
    """Columns must sum to 1, and rows must not leave a doubt about which is which."""
    columns, rows = stochastic(dense, 0), stochastic(dense, 1)
    if columns and rows and not np.allclose(dense, dense.T, rtol=0, atol=TOLERANCE):
        raise MechanismError(
            "both rows and columns of the transition matrix sum to 1 and it is not symmetric, so its orientation is "
            "ambiguous: use TransitionMatrix.from_columns (entry [i, j] = Pr(released i | true j)) or "
            "TransitionMatrix.from_rows (entry [i, j] = Pr(released j | true i))"
        )
    if not columns:
        refuse_sums(dense.sum(axis=0), "column", "from_rows" if rows else None)


def refuse_sums(sums: Float, what: str, instead: str | None) -> None:
    """An error for the first sum that is not 1, naming the constructor that fits instead."""
    bad = np.flatnonzero(np.abs(sums - 1) >= TOLERANCE)
    if not bad.size:
        return
    said = f"{what} {bad[0]} of the transition matrix sums to {sums[bad[0]]:.10g}, not 1 (tolerance {TOLERANCE:.0e})"
    if instead:
        other = "rows" if instead == "from_rows" else "columns"
        raise MechanismError(f"{said}, but its {other} do: use TransitionMatrix.{instead}")
    raise MechanismError(f"{said}: {what}s are conditional distributions; give them with full precision")

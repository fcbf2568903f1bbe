"""The numbers a person gives for a transition matrix, checked once: arrays, frequencies, keep probabilities, epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pramana.arrays import Float
from pramana.errors import MechanismError, listing, quoted
from pramana.frames import Level
from pramana.frames.levels import is_number

Keep: TypeAlias = "float | Sequence[float] | npt.NDArray[np.float64] | Mapping[Any, float]"
Frequencies: TypeAlias = "npt.ArrayLike | Mapping[Any, float]"
SUM_TOLERANCE = 1e-9
TOLERANCE = 1e-8


def numbers_of(matrix: npt.ArrayLike) -> Float:
    """A rectangular array of numbers."""
    try:
        dense = np.array(matrix, dtype=float)
    except (TypeError, ValueError):
        raise MechanismError("the transition matrix must be a rectangular array of numbers") from None
    return dense


def checked_array(matrix: npt.ArrayLike, size: int) -> Float:
    """A square array of probabilities."""
    dense = numbers_of(matrix)
    if dense.shape != (size, size):
        more = dense.ndim == 2 and size in dense.shape and max(dense.shape) > size
        instead = (
            ", or RectangularMatrix(levels, matrix, released=[...]) where there are more released labels than levels"
        )
        raise MechanismError(
            f"the transition matrix has shape {dense.shape} but there are {size} levels: give {size} × {size}{instead if more else ''}"
        )
    check_entries(dense)
    return dense


def check_entries(dense: Float) -> None:
    """Refuse the first entry that is no probability."""
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


def checked_diagonals(diagonals: npt.ArrayLike, width: int, size: int) -> Float:
    """The diagonals of a band of probabilities, whose columns sum to 1 and stay within the levels."""
    try:
        band = np.array(diagonals, dtype=float)
    except (TypeError, ValueError):
        raise MechanismError("the diagonals of a band must be lists of numbers of equal length") from None
    if not 1 <= width < size - 1 or band.shape != (2 * width + 1, size):
        raise MechanismError(
            f"the diagonals of a band of width {width} over {size} levels have shape {band.shape}: give {2 * width + 1} × {size}, the width "
            f"being from 1 to {size - 2}"
        )
    if not np.all((band >= 0) & (band <= 1 + TOLERANCE)):
        raise MechanismError("the diagonals of a band hold a number outside [0, 1]: probabilities lie between 0 and 1")
    released = np.arange(size) + np.arange(-width, width + 1)[:, None]
    if np.any(band[(released < 0) | (released >= size)] != 0):
        raise MechanismError(
            f"the band moves a level beyond the first or the last of its {size} levels: such moves are 0"
        )
    refuse_sums(band.sum(axis=0), "column", None)
    return band


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


def checked_frequencies(frequencies: Frequencies, levels: Sequence[Level]) -> Float:
    """Positive frequencies in the order of the levels, summing to one; what rounding left is shared out (K,)."""
    values = _in_order(frequencies, levels, "frequencies")
    if values.min() <= 0:
        level = levels[int(np.argmin(values))]
        raise MechanismError(
            f"the frequency of level {quoted(repr(level))} is {values.min():.6g}: frequencies must be positive; leave out a level that never "
            "occurs, or give it a small share"
        )
    if abs(values.sum() - 1) > SUM_TOLERANCE:
        raise MechanismError(
            f"the frequencies sum to {values.sum():.10g}, not 1 (tolerance {SUM_TOLERANCE:.0e}): divide counts by their total"
        )
    return values / values.sum()


def checked_keep(keep: Keep, levels: Sequence[Level]) -> Float:
    """Keep probabilities in the order of the levels, one number standing for all (K,)."""
    if is_number(keep):
        keep = np.full(len(levels), keep)
    values = _in_order(keep, levels, "keep probabilities")
    outside = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if outside.size:
        raise MechanismError(
            f"keep={values[outside[0]]:.6g} of level {quoted(repr(levels[outside[0]]))} must be a probability: probabilities lie between 0 and 1"
        )
    return values


def checked_floor(keep: object) -> float:
    """One keep probability for all levels."""
    if not (is_number(keep) and 0 < keep <= 1):  # type: ignore[operator]
        raise MechanismError(f"keep={keep!r} must be one probability, above 0 and at most 1")
    return float(keep)  # type: ignore[arg-type]


def checked_epsilon(epsilon: object) -> float:
    if not (is_number(epsilon) and 0 < epsilon < 700):  # type: ignore[operator]
        raise MechanismError(f"epsilon={epsilon!r} must be positive and below 700")
    return float(epsilon)  # type: ignore[arg-type]


def check_probabilities(**named: object) -> None:
    """Refuse the first that is no probability, by its name."""
    for name, value in named.items():
        if not (is_number(value) and 0 <= value <= 1):  # type: ignore[operator]
            raise MechanismError(f"{name}={value!r} must be a probability: probabilities lie between 0 and 1")


def _in_order(values: Any, levels: Sequence[Level], what: str) -> Float:
    if isinstance(values, Mapping):
        absent = [level for level in levels if level not in values]
        known = set(levels)
        unknown = [level for level in values if level not in known]
        if absent or unknown:
            problem = (
                f"lack level(s) {quoted(listing(absent))}"
                if absent
                else f"name {listing(unknown)}, which are no levels"
            )
            raise MechanismError(f"the {what} {problem}: give one for each of {quoted(listing(levels, 10))}")
        values = [values[level] for level in levels]
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise MechanismError(f"the {what} must be numbers, one a level in the order of the levels") from None
    if array.shape != (len(levels),):
        raise MechanismError(
            f"there are {array.size} {what} for {len(levels)} levels: give one a level, in their order"
        )
    if not np.all(np.isfinite(array)):
        raise MechanismError(f"one of the {what} is not a finite number: give a probability for every level")
    return array

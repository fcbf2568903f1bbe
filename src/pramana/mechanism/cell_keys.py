"""Published tables whose counts carry cell-key noise: what their sums are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pramana.arrays import Float, Int
from pramana.errors import DataError, MechanismError, quoted, released
from pramana.frames import read
from pramana.frames.levels import is_number
from pramana.frames.table import require_columns
from pramana.mechanism.channels.rectangular import RectangularMatrix

TOLERANCE = 1e-4
"""Of sums and means of chances, which come from an optimiser and are printed with few digits."""


LARGEST = 1_000
"""Largest count of a perturbation table: they end where counts are moved alike, at a few dozen."""


@dataclass(frozen=True)
class CellSum:
    """A sum of published counts with given weights.

    Attributes
    ----------
    standard_error : of the noise alone, at most; the counts themselves are taken as they are.
    reach : the largest error that the noise can make.
    """

    estimate: float
    standard_error: float
    reach: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Normal limits, and no farther away than noise can reach."""
        from scipy.special import ndtri

        if not (is_number(level) and 0 < level < 1):
            raise MechanismError(f"level={level!r} must lie between 0 and 1: for 95 % intervals give 0.95")
        half = min(float(ndtri((1 + level) / 2)) * self.standard_error, self.reach)
        return self.estimate - half, self.estimate + half


@dataclass(frozen=True, eq=False, repr=False)
class CellKeys:
    """The noise of a cell-key method for counts: each count of a table is moved with chances that depend on it, by 0 on average.

    Attributes
    ----------
    chances : (counts, targets), the chance that count i is published as j; the last row holds for larger counts too, moved along.
    """

    chances: Float

    @classmethod
    def of(cls, table: Any) -> CellKeys:
        """From a frame with the columns i, j (or v, which is j − i) and p: count, published count, and chance."""
        data = read(table)
        moved = "j" not in data.names and "v" in data.names
        require_columns(data, ["i", "v" if moved else "j", "p"], "a perturbation table")
        i, j, p = (_numbers(data.column(name)) for name in ("i", "v" if moved else "j", "p"))
        j = i + j if moved else j
        with np.errstate(invalid="ignore"):
            whole = (i >= 0) & (j >= 0) & (i % 1 == 0) & (j % 1 == 0) & (np.maximum(i, j) <= LARGEST)
        if not (i.size and np.all(np.isfinite(p)) and np.all(whole)):
            raise MechanismError(
                f"i and j of a perturbation table must be whole numbers from 0, and p numbers; a table ends at {LARGEST} or before"
            )
        chances = np.zeros((int(i.max()) + 1, int(j.max()) + 1))
        np.add.at(chances, (i.astype(int), j.astype(int)), p)
        _check(chances)
        return cls(chances / chances.sum(axis=1, keepdims=True))

    @property
    def largest(self) -> int:
        """The count from which on all are moved alike."""
        return len(self.chances) - 1

    @property
    def variances(self) -> Float:
        """Of the noise, by count."""
        moves = np.arange(self.chances.shape[1]) - np.arange(len(self.chances))[:, None]
        return np.asarray((self.chances * moves**2).sum(axis=1))

    @property
    def most(self) -> int:
        """The farthest that a count is moved."""
        moves = np.abs(np.arange(self.chances.shape[1]) - np.arange(len(self.chances))[:, None])
        return int(moves[self.chances > 0].max())

    @property
    def blocked(self) -> tuple[int, ...]:
        """Counts that are never published."""
        return tuple(np.flatnonzero(self._up_to(self.largest + self.most)[:, : self.largest].max(axis=0) == 0).tolist())

    def __repr__(self) -> str:
        never = f", {', '.join(map(str, self.blocked))} never published" if self.blocked else ""
        return f"CellKeys(counts moved by at most {self.most}, variance {self.variances[-1]:.4g}{never})"

    def _up_to(self, largest: int) -> Float:
        """Chances (counts, targets) of all counts up to one."""
        size = max(largest, self.largest)
        out = np.zeros((size + 1, size + self.most + 1))
        out[: len(self.chances), : self.chances.shape[1]] = self.chances
        for count in range(self.largest + 1, size + 1):
            shift = count - self.largest
            out[count, shift : shift + self.chances.shape[1]] = self.chances[-1]
        return out[: largest + 1, : largest + self.most + 1]

    @released
    def total(self, counts: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> CellSum:
        """Σ a c of published counts: each is right on average, and their errors are independent, so that variances add.

        The variance of a cell is the largest among counts that can have been published as this one: that of all but the smallest. Cells that are
        known to be empty must be left out, and no cell may be given twice, for it has the same noise again.
        """
        found = _numbers(counts).ravel()
        own = np.ones(found.size) if weights is None else _numbers(weights).ravel()
        if own.size != found.size or not found.size or not np.all(np.isfinite(own)):
            raise DataError(f"there are {found.size} counts and {own.size} weights: give one number a count")
        variances = self._at_most()
        variance = variances[np.minimum(self._checked(found), len(variances) - 1)]
        return CellSum(float(own @ found), float(np.sqrt(own**2 @ variance)), float(np.abs(own).sum() * self.most))

    def _at_most(self) -> Float:
        """By published count, the largest variance that a count behind it can have; the last holds for all larger ones."""
        last = self.largest + self.most + 1  # behind which there are only counts that are moved alike
        chances = self._up_to(last + self.most)[:, : last + 1]
        own = np.append(self.variances, np.full(len(chances) - len(self.variances), self.variances[-1]))
        return np.asarray(np.where(chances > 0, own[:, None], 0.0).max(axis=0))

    def _checked(self, counts: Float) -> Int:
        with np.errstate(invalid="ignore"):
            whole = np.isfinite(counts) & (counts >= 0) & (counts % 1 == 0)
        wrong = ~whole | np.isin(counts, self.blocked)
        if wrong.any():
            row = int(np.argmax(wrong))
            never = (
                f" and none of {', '.join(map(str, self.blocked))}, which are never published" if self.blocked else ""
            )
            raise DataError(
                f"count {quoted(f'{counts[row]:g}')} in place {row}: published counts are whole numbers from 0{never}"
            )
        return counts.astype(np.int64)

    def matrix(self, largest: int, frequencies: Sequence[float] | None = None) -> RectangularMatrix:
        """The channel of a column of such counts, none of which is above `largest`, for other functions of them than sums.

        It is undone by a left inverse. Where small counts are blocked there is none that would hold for all counts: its weights grow without
        bound as `largest` does.
        """
        if self.blocked:
            raise MechanismError(
                f"counts {', '.join(map(str, self.blocked))} are never published, so that no left inverse of the noise holds for all counts, and other "
                "functions of them than sums cannot be undone: use total(counts, weights)"
            )
        if isinstance(largest, bool) or not (isinstance(largest, int | np.integer) and largest >= 1):
            raise MechanismError(f"largest={largest!r} must be a whole number from 1")
        chances = self._up_to(largest)
        labels = np.flatnonzero(chances.max(axis=0) > 0)
        return RectangularMatrix.from_rows(
            list(range(largest + 1)),
            chances[:, labels],
            released=labels.tolist(),
            frequencies=frequencies,
            kind="numeric",
        )


def _numbers(values: Any) -> Float:
    """As numbers; what is none becomes no number."""
    try:
        found = np.asarray(values)
        return found.astype(float) if found.dtype.kind in "iufO" else np.full(found.shape, np.nan)
    except (TypeError, ValueError):
        return np.full(np.shape(np.asarray(values, dtype=object)), np.nan)


def _check(chances: Float) -> None:
    """Distributions by count, of which none is moved on average."""
    if chances.min() < 0 or chances.max() > 1 + TOLERANCE:
        raise MechanismError(
            f"p of a perturbation table is {chances.min() if chances.min() < 0 else chances.max():g}: chances lie between 0 and 1"
        )
    sums = chances.sum(axis=1)
    wrong = np.abs(sums - 1) > TOLERANCE
    if wrong.any():
        row = int(np.argmax(wrong))
        raise MechanismError(
            f"the chances of count {row} sum to {sums[row]:.6g}, not 1: give all rows of the perturbation table"
        )
    means = chances @ np.arange(chances.shape[1]) / sums - np.arange(len(chances))
    wrong = np.abs(means) > TOLERANCE
    if wrong.any():
        row = int(np.argmax(wrong))
        raise MechanismError(
            f"count {row} is moved by {means[row]:.4g} on average (the limit is {TOLERANCE:g}): sums of such counts are not right on average; use "
            "a table whose noise has mean zero"
        )

"""What the randomisation costs: changes of tables, the variance of the analyses, and of a level's share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pramana.arrays import Float, Int
from pramana.disclosure.true_records import Counted, CountedBy, groups_of, strata_of, touched
from pramana.disclosure.utility.expected_variance import ExpectedVariance
from pramana.frames import Table
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix
from pramana.mechanism.channels.matrix_forms import Form
from pramana.mechanism.draws.perturbation import cells_in


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


MARGIN_LIMIT = 50
"""Most values of a clear column that is crossed with a perturbed one."""
CELLS_LIMIT = 5_000_000
"""Most cells of a table of two perturbed columns."""


@dataclass(frozen=True)
class TableChange:
    """A table of counts, true against released as it stands (an analyst who reverts does not see this change).

    Attributes
    ----------
    moved : expected absolute change, summed over cells and halved, as a share of the records (normal approximation).
    chi_square : expected Σ (released − true)² / true over cells with records, exact.
    realised_moved, realised_chi_square : the same in the file that was released.
    """

    columns: tuple[str, ...]
    cells: int
    moved: float
    chi_square: float
    realised_moved: float | None = None
    realised_chi_square: float | None = None


@dataclass(frozen=True)
class AnalysisCost:
    """An analysis and the variance to expect of it; `left_out` are records with a missing value, of which it has no use, `sampled` parts of
    its formula that were learned from some of the records."""

    label: str
    variance: ExpectedVariance
    left_out: int = 0
    sampled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Utility:
    """Tables and analyses."""

    tables: tuple[TableChange, ...]
    analyses: tuple[AnalysisCost, ...]


Side: TypeAlias = Assignment | str
"""What a table goes by: perturbed columns, or a clear one."""


def table_sides(mechanism: Mechanism, crossed: Sequence[str]) -> Iterator[tuple[Side, ...]]:
    """One-way tables of the perturbed columns with levels, and two-way tables with each other and with clear columns."""
    perturbed = [a for a in mechanism.assignments if not a.numeric]
    clear = [name for name in crossed if name not in mechanism.columns]
    yield from ((a,) for a in perturbed)
    for i, a in enumerate(perturbed):
        yield from ((a, b) for b in perturbed[i + 1 :])
        yield from ((a, name) for name in clear)


def columns_of(sides: Sequence[Side]) -> tuple[str, ...]:
    """The columns that a table is made of."""
    return tuple(dict.fromkeys(c for side in sides for c in ((side,) if isinstance(side, str) else touched(side))))


def table_changes(margins: CountedBy, mechanism: Mechanism, crossed: Sequence[str]) -> list[TableChange]:
    """Of every table that is not too large; `crossed` are clear columns to tabulate with the perturbed ones."""
    axis_of: dict[tuple[str, ...], _Axis] = {}
    last, found = None, []
    for sides in table_sides(mechanism, crossed):
        records = margins(columns_of(sides))
        if records is None:  # a clear column with many values
            continue
        axis_of, last = axis_of if records is last else {}, records  # which records in memory share
        for side in sides:
            if columns_of((side,)) not in axis_of:
                axis_of[columns_of((side,))] = _axis(side, records)
        axes = [axis_of[columns_of((side,))] for side in sides]
        clear = [axis.size for axis in axes if not axis.forms]
        if len(axes) == 1 or (max(clear, default=0) <= MARGIN_LIMIT and axes[0].size * axes[1].size <= CELLS_LIMIT):
            found.append(_change(axes, records.counts))
    return found


@dataclass(frozen=True)
class _Axis:
    """One column of a table: codes, the last of which stands for a missing value, and the transition matrix of each stratum (none where the column is clear)."""

    columns: tuple[str, ...]
    size: int
    codes: Int
    seen: Int | None
    strata: Int
    forms: tuple[Form, ...] = ()

    def moved(self, stratum: int, counts: Float, axis: int, *, squares: bool) -> Float:
        """Expected counts along an axis of the table, or the sums of squared chances; a missing value stays."""
        if not self.forms:
            return counts
        first = np.moveaxis(counts, axis, 0)
        flat = first.reshape(self.size, -1)
        form = self.forms[stratum]
        move = form.moved_squares if squares else form.moved
        out = np.concatenate([move(flat[: form.size]), flat[form.size :]]).reshape(first.shape)
        return np.moveaxis(out, 0, axis)


def _axis(side: Side, records: Counted) -> _Axis:
    return _clear_axis(side, records.table) if isinstance(side, str) else _perturbed_axis(side, records)


def _perturbed_axis(assignment: Assignment, records: Counted) -> _Axis:
    cells, released = cells_in(records.table, assignment), records.released
    forms = tuple(matrix.form for matrix in assignment.matrices.values())
    size = forms[0].size
    seen = None if released is None else np.where(cells.present, cells_in(released, assignment).codes, size)
    codes = np.where(cells.present, cells.codes, size)
    gap = 0 if cells.present.all() else 1
    return _Axis(assignment.columns, size + gap, codes, seen, strata_of(assignment, cells), forms)


def _clear_axis(name: str, table: Table) -> _Axis:
    codes = groups_of(table.column(name))
    return _Axis((name,), int(codes.max()) + 1, codes, codes, np.zeros_like(codes))


def _change(axes: Sequence[_Axis], counts: Int) -> TableChange:
    true, n = _counts(axes, [a.codes for a in axes], counts), int(counts.sum())
    mean, squares = np.zeros_like(true), np.zeros_like(true)
    for key in {tuple(row) for row in np.column_stack([a.strata for a in axes]).tolist()}:
        rows = np.logical_and.reduce([a.strata == s for a, s in zip(axes, key, strict=True)])
        part = _counts(axes, [a.codes[rows] for a in axes], counts[rows])
        mean += _moved(axes, key, part, squares=False)
        squares += _moved(axes, key, part, squares=True)
    drift, variance = mean - true, np.maximum(mean - squares, 0.0)
    columns = tuple(c for a in axes for c in a.columns)
    moved = float(_mean_absolute(drift, variance).sum() / (2 * n))
    expected = TableChange(columns, int(np.sum(true > 0)), moved, _chi_square(drift**2 + variance, true))
    codes = [a.seen for a in axes if a.seen is not None]
    if len(codes) < len(axes):
        return expected
    gap = _counts(axes, codes, counts) - true
    realised = float(np.abs(gap).sum() / (2 * n))
    return TableChange(columns, expected.cells, moved, expected.chi_square, realised, _chi_square(gap**2, true))


def _counts(axes: Sequence[_Axis], codes: Sequence[Int], counts: Int) -> Float:
    sizes = tuple(a.size for a in axes)
    flat = np.ravel_multi_index(tuple(codes), sizes)
    return np.bincount(flat, counts, int(np.prod(sizes))).reshape(sizes).astype(float)


def _moved(axes: Sequence[_Axis], strata: Sequence[int], counts: Float, *, squares: bool) -> Float:
    """Both sides of the table moved, one after the other."""
    for place, (axis, stratum) in enumerate(zip(axes, strata, strict=True)):
        counts = axis.moved(stratum, counts, place, squares=squares)
    return counts


def _chi_square(squares: Float, true: Float) -> float:
    return float(np.sum(squares[true > 0] / true[true > 0]))


def _mean_absolute(mean: Float, variance: Float) -> Float:
    """E|X| of a normal variable."""
    from scipy.special import ndtr

    sd = np.sqrt(variance)
    safe = np.where(sd > 0, sd, 1.0)
    ratio = mean / safe
    folded = safe * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2) + mean * (2 * ndtr(ratio) - 1)
    return np.where(sd > 0, folded, np.abs(mean))


def rows_of_analysis(cost: AnalysisCost) -> list[dict[str, Any]]:
    """One row a parameter."""
    v = cost.variance
    columns = zip(v.parameters, v.clean_errors, v.standard_errors, v.inflation, v.effective_n, strict=True)
    names = ("term", "clean_std_error", "expected_std_error", "variance_inflation", "effective_n")
    return [{"analysis": cost.label, **dict(zip(names, (t, *map(float, rest)), strict=True))} for t, *rest in columns]

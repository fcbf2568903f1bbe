"""What a released file holds: levels, frequencies that P can have produced, and transitions that follow P."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from pramana.arrays import Bool, Column, Float, Int
from pramana.disclosure.audit.auditing import Finding, verdict
from pramana.disclosure.audit.noise import DrawnNoise, ReleasedNumbers, ReleasedTogether, step_codes
from pramana.disclosure.release.streaming import Coding, Tally, cells_of, component
from pramana.errors import DataError
from pramana.frames import Level
from pramana.frames.blocks.stream import MISSING, UNKNOWN, Block
from pramana.frames.dialects import DataFile
from pramana.frames.files import NULLS
from pramana.frames.folders import open_files
from pramana.frames.levels import is_number
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix
from pramana.mechanism.description.document import PramModel
from pramana.mechanism.frequencies import reverted_shares

ALPHA = 1e-6
INVERTED = 2000
"""Levels up to which frequencies are reverted: beyond, each has so few records that nothing would be found impossible."""


def check_contents(files: Sequence[DataFile], mechanism: Mechanism, body: PramModel) -> list[Finding]:
    """One pass over the file, or over several that stand for one: rows, levels and frequencies (of one row a unit, where rows share their draws)."""
    rows = 0
    unknown: dict[str, int] = {}
    apart = mechanism.by_column
    tallies = [ReleasedNumbers(a) if a.numeric else Tally(a) for a in apart.assignments]
    together = [ReleasedTogether(a) for a in mechanism.assignments if len(a.columns) > 1 and a.numeric]
    draws = [_Draws() for _ in tallies]
    try:
        for block in open_files(files, mechanism.columns).blocks():
            rows += block.rows
            new = _unknown(block, mechanism)
            unknown = {name: unknown.get(name, 0) + count for name, count in new.items()} | {
                name: count for name, count in unknown.items() if name not in new
            }
            if not unknown:
                units = _units_of(block, mechanism)
                for tally, drawn, assignment in zip(tallies, draws, apart.assignments, strict=True):
                    cells = cells_of(assignment, block)
                    codes = step_codes(assignment, cells, true=False)[0] if assignment.numeric else cells.codes
                    tally.add(cells.codes, replace(cells, present=drawn.first(units, codes, cells.present)))
                for shared in together if units is None else ():
                    shared.add(cells_of(shared.assignment, block))
    except DataError as error:
        return [Finding("levels", "error", str(error))]
    findings = _check_rows(rows, body)
    if unknown:
        return findings + [
            Finding("levels", "error", f"column {name!r} has {count} value(s) that are not levels of the description")
            for name, count in unknown.items()
        ]
    findings.append(Finding("levels", "ok", "every value is a level of the description or missing"))
    findings += _check_units(apart, draws)
    numbers = [tally for tally in tallies if isinstance(tally, ReleasedNumbers)]
    problems = [problem for column in numbers for problem in column.problems()]
    problems += [problem for shared in together for problem in shared.problems()]
    told = (
        f"{len(numbers)} column(s) hold numbers that the noise can have made, as far as they show without the original"
    )
    findings += verdict("noise", problems, told) if numbers else []
    counted = {a.columns: t for a, t in zip(apart.assignments, tallies, strict=True) if isinstance(t, Tally)}
    return findings + (_check_possible(mechanism, counted) if counted else [])


def _check_rows(rows: int, body: PramModel) -> list[Finding]:
    if body.rows is None:
        return [Finding("rows", "warning", "the description does not count the records")]
    if body.rows != rows:
        return [Finding("rows", "error", f"the file has {rows} records, the description says {body.rows}")]
    return [Finding("rows", "ok", f"{rows} records as described")]


def _unknown(block: Block, mechanism: Mechanism) -> dict[str, int]:
    out = {}
    for assignment in (a for a in mechanism.assignments if not a.numeric):
        for place, name in enumerate(assignment.columns):
            count = int(np.sum(block.codes(name, component(assignment, place)) == UNKNOWN))
            if count:
                out[name] = count
    return out


def _check_units(mechanism: Mechanism, draws: Sequence[_Draws]) -> list[Finding]:
    """One released value a unit where the description says that its rows share one draw; missing values apart."""
    unit = mechanism.unit
    if unit is None or unit.varies:
        return []
    text = (
        "{} record(s) of {} have another released value than the first of their {!r}, whose rows share one draw by the description: its "
        "epsilon and the analysts' standard errors do not hold; release the file anew with its unit"
    )
    problems = [
        Finding("units", "error", text.format(drawn.apart, " × ".join(assignment.columns), unit.column))
        for drawn, assignment in zip(draws, mechanism.assignments, strict=True)
        if drawn.apart
    ]
    return verdict("units", problems, f"the rows of each {unit.column!r} have one released value")


def _check_possible(mechanism: Mechanism, tallies: Mapping[tuple[str, ...], Tally]) -> list[Finding]:
    """Reverted frequencies lie in the simplex, up to noise."""
    problems, tested = [], 0
    pairs = [
        (a, s, m, tallies[a.columns][s])
        for a in mechanism.assignments
        if a.columns in tallies
        for s, m in a.matrices.items()
    ]
    cells = sum(len(m) for *_, m, _ in pairs)
    for assignment, stratum, matrix, counts in pairs:
        if not counts.sum() or len(matrix) > INVERTED:
            continue
        tested += 1
        shares, slack = reverted_shares(matrix, counts, ALPHA / max(cells, 1))
        worst = int(np.argmin(shares + slack))
        if shares[worst] < -slack[worst]:
            where = " × ".join(assignment.columns) + (f" (stratum {stratum!r})" if stratum is not None else "")
            problems.append(
                Finding(
                    "frequencies",
                    "error",
                    f"{where}: level {matrix.levels[worst]!r} would have the true share {shares[worst]:.4f}, and noise explains no less than "
                    f"{-slack[worst]:.4f} (size {ALPHA:g}): these values were not made with this matrix",
                )
            )
    return verdict("frequencies", problems, f"possible under P in {tested} table(s)")


class _Draws:
    """The draws of units, each as its first row shows it: the others repeat it and say nothing new."""

    def __init__(self) -> None:
        self._drawn = pd.Series(dtype=np.int64)
        self.apart = 0
        """Rows with another value than the first of their unit."""

    def first(self, units: Int | None, codes: Int, present: Bool) -> Bool:
        """Of the rows of the next block that are present (n,), those whose unit did not come before; all where there are no units."""
        if units is None:
            return present
        rows = np.flatnonzero(present & ~np.isin(units, self._drawn.index.to_numpy()))
        fresh, first = np.unique(units[rows], return_index=True)
        self._drawn = pd.concat([self._drawn, pd.Series(codes[rows[first]], index=fresh)])
        if present.any():
            self.apart += int(np.sum(self._drawn.reindex(units[present]).to_numpy() != codes[present]))
        new = np.zeros(present.size, dtype=bool)
        new[rows[first]] = True
        return new


def _units_of(block: Block, mechanism: Mechanism) -> Int | None:
    """A number for each record's unit (n,), equal for equal units; None where records have draws of their own."""
    from pandas.util import hash_array

    if mechanism.unit is None:
        return None
    values = block.values(mechanism.unit.column)
    if values.dtype.kind == "f":  # whole numbers, in a block that has gaps
        values = np.array([int(v) if np.isfinite(v) and v == int(v) else v for v in values], dtype=object)
    return hash_array(np.array([str(v) for v in values], dtype=object)).view(np.int64)


UNTOLD = -3
"""Code of a true value whose level the description does not tell; such records are not compared."""
FEWEST = 5.0
"""Expected count below which cells are pooled."""
SINGLY, GROUPS = 200, 50
"""Levels up to which each is tested by itself, and how many groups more of them are tested in at most."""


def check_transitions(pairs: Iterator[Pair], mechanism: Mechanism) -> list[Finding]:
    """Pearson's test of every column (and stratum) at size 1e-6, with its p-value, at any number of levels."""
    counts = [_Transitions(assignment) for assignment in mechanism.assignments]
    try:
        for released, true in pairs:
            for count, new, old in zip(counts, released, true, strict=True):
                count.add(new, old, mechanism.unit is not None)
    except DataError as error:
        return [Finding("transitions", "error", f"the two files cannot be compared: {error}")]
    return [finding for count in counts for finding in (*count.judged(), *count.conditional())]


class _Transitions:
    """How often each true level became each released one, by stratum: only pairs that occur are kept."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._draws = _Draws()
        none = np.empty(0, dtype=np.int64)
        self._noise = DrawnNoise(assignment) if assignment.numeric else None
        matrices = () if assignment.numeric else assignment.matrices
        self._counts = dict.fromkeys(matrices, _Counts(none, none, none))

    def add(self, new: Int, old: Int, units: bool) -> None:
        """Rows of `new` and `old` are those of `Pair`."""
        new, old = new[:, old[0] != UNTOLD], old[:, old[0] != UNTOLD]
        if np.any((new[0] < 0) != (old[0] < 0)):
            raise DataError(f"{self._name()} is missing in other records than in the original")
        if np.any((new[1] != old[1]) & (new[0] >= 0)):
            raise DataError(
                f"column {self._assignment.channel.context[0]!r}, which decides the matrix, differs between them"
            )
        present = new[0] >= 0
        if units:
            present = self._one_draw(new, old, present)
        if self._noise is not None:
            self._noise.add(new, old, present)
        for position, stratum in enumerate(self._counts):
            rows = present & (new[1] == position)
            size = len(self._assignment.matrices[stratum])
            self._counts[stratum] = self._counts[stratum].added(old[0, rows], new[0, rows], size)

    def _one_draw(self, new: Int, old: Int, present: Bool) -> Bool:
        """The first row of every unit and true level; the others must have its released value."""
        secret = new[2] ^ ((_one_code(old) + 1) * np.int64(0x9E3779B97F4A7C15 >> 1))
        first = self._draws.first(secret, _one_code(new), present)
        if self._draws.apart:
            raise DataError(
                f"{self._draws.apart} record(s) of {self._name()} have another released value than the first of their unit and true "
                "level: the rows of a unit do not share one draw"
            )
        return first

    def _name(self, stratum: object = None) -> str:
        return " × ".join(self._assignment.columns) + (f" (stratum {stratum!r})" if stratum is not None else "")

    def judged(self) -> list[Finding]:
        if self._noise is not None:
            return self._noise.judged()
        matrices = self._assignment.matrices
        return [_judged(self._name(stratum), counts, matrices[stratum]) for stratum, counts in self._counts.items()]

    def conditional(self) -> list[Finding]:
        """Matrices made from the original's frequencies whose description does not say so."""
        matrices = {} if self._noise is not None else self._assignment.matrices
        lost = [self._name(s) for s, counts in self._counts.items() if _made_from(counts, matrices[s])]
        return [
            Finding(
                "conditional",
                "error",
                f"{name}: the matrix leaves the frequencies of the original exactly as they are, so it was made from them, but the "
                "description does not say that epsilon holds only given them: describe it as conditional",
            )
            for name in lost
        ]


def _one_code(rows: Int) -> Int:
    """One number a record (n,) for its codes: equal where all of them are, and almost surely only there."""
    with np.errstate(over="ignore"):
        return reduce(lambda seen, own: seen * np.int64(0x9E3779B97F4A7C15 >> 3) + own, rows[3:], rows[0])


def _made_from(counts: _Counts, matrix: TransitionMatrix) -> bool:
    """P keeps the true shares to the last digit, and they are neither equal nor whole per cents, which can be chance or choice."""
    totals = counts.totals(len(matrix))
    if matrix.conditional or len(matrix) > INVERTED or not totals.sum() or np.ptp(totals) == 0:
        return False
    shares = totals / totals.sum()
    chosen = np.allclose(100 * shares, np.round(100 * shares), atol=1e-7)
    return not chosen and bool(np.abs(matrix.matrix @ shares - shares).max() < 1e-9)


@dataclass(frozen=True)
class _Counts:
    """Pairs of levels that occur, each with how often it does; all (m,)."""

    true: Int
    released: Int
    count: Int

    def added(self, true: Int, released: Int, size: int) -> _Counts:
        """With more records."""
        pairs = np.concatenate([self.true * size + self.released, true * size + released])
        held, place = np.unique(pairs, return_inverse=True)
        count = np.bincount(place, np.concatenate([self.count, np.ones_like(true)]), held.size)
        return _Counts(*np.divmod(held, size), count.astype(np.int64))

    def totals(self, size: int) -> Float:
        """Records of each true level (size,)."""
        return np.bincount(self.true, self.count, size).astype(float)


def _judged(name: str, counts: _Counts, matrix: TransitionMatrix) -> Finding:
    impossible = int(counts.count[matrix.form.entries(counts.released, counts.true) == 0].sum())
    if impossible:
        return Finding("transitions", "error", f"{name}: {impossible} transition(s) that P makes impossible")
    p, freedom = _tested_singly(counts, matrix) if len(matrix) <= SINGLY else _tested_in_groups(counts, matrix)
    if freedom == 0:
        return Finding("transitions", "ok", f"{name}: too few records to test")
    severity: Any = "error" if p < ALPHA else "ok"
    said = "do not follow P" if p < ALPHA else "follow P"
    how = "chi-square test" if len(matrix) <= SINGLY else f"chi-square test of {len(matrix)} levels in groups"
    return Finding("transitions", severity, f"{name}: transitions {said} ({how}, {freedom} df, p = {p:.3g})")


def _tested_singly(counts: _Counts, matrix: TransitionMatrix) -> tuple[float, int]:
    """Pearson's test of every level."""
    size = len(matrix)
    found = np.bincount(counts.released * size + counts.true, counts.count, size * size).reshape(size, size)
    return chi_square(found, matrix.matrix * counts.totals(size))


def _tested_in_groups(counts: _Counts, matrix: TransitionMatrix) -> tuple[float, int]:
    """The same of groups of levels with about as many records each, kept values being a cell of their own; and of all that were kept."""
    totals = counts.totals(len(matrix))
    moved = float(totals @ (1 - matrix.diagonal))
    groups = int(np.clip(np.sqrt(moved / (2 * FEWEST)), 1, GROUPS))  # so that cells of moved values are large enough
    group = np.minimum(((np.cumsum(totals) - totals / 2) * groups / max(totals.sum(), 1)).astype(np.int64), groups - 1)
    row = np.where(counts.released == counts.true, groups, group[counts.released])
    found = np.bincount(row * groups + group[counts.true], counts.count, (groups + 1) * groups)
    p, freedom = chi_square(found.reshape(groups + 1, groups), _expected(matrix, totals, group, groups))
    return min(1.0, 2 * min(p, _kept(found[groups * groups :].sum(), matrix.diagonal, totals))), freedom


def _kept(count: float, chances: Float, totals: Float) -> float:
    """p-value of how many records kept their level, by the normal approximation of a sum of unequal coins."""
    from scipy.special import ndtr

    spread = math.sqrt(max(float(totals @ (chances * (1 - chances))), 1e-12))
    away = max(abs(float(count - totals @ chances)) - 0.5, 0.0)
    return float(2 * ndtr(-away / spread))


def _expected(matrix: TransitionMatrix, totals: Float, group: Int, groups: int) -> Float:
    """Expected counts (groups + 1, groups) by the group of the released level, or kept, and of the true one."""
    kept = np.bincount(group, matrix.diagonal * totals, groups)
    into = matrix.form.gathered(group, groups)
    moved = np.stack([np.bincount(group, row * totals, groups) for row in into])
    return np.concatenate([np.maximum(moved - np.diag(kept), 0.0), kept[None]])


def chi_square(counts: Column, expected: Float) -> tuple[float, int]:
    """p-value and degrees of freedom for counts by released (row) and true level (column); rare cells are pooled.

    Where columns are groups of levels their counts vary less than the test takes them to, so that its size is at most the stated one.
    """
    from scipy.special import chdtrc

    statistic, freedom = 0.0, 0
    for found, mean in zip(counts.T, expected.T, strict=True):
        large = mean >= FEWEST
        rest = (found[~large].sum(), mean[~large].sum())
        cells = list(zip(found[large], mean[large], strict=True)) + ([rest] if rest[1] >= FEWEST else [])
        if rest[1] < FEWEST and cells:  # too few for a cell of their own: into the smallest one
            small = min(range(len(cells)), key=lambda k: cells[k][1])
            cells[small] = (cells[small][0] + rest[0], cells[small][1] + rest[1])
        statistic += sum((o - e) ** 2 / e for o, e in cells)
        freedom += max(len(cells) - 1, 0)
    return float(chdtrc(freedom, statistic)) if freedom else 1.0, freedom


Pair: TypeAlias = tuple[list[Int], list[Int]]
"""Some consecutive released records and their originals: for every assignment code (-1 where missing), stratum and unit (3, n), then
the codes of the other columns where several share a noise."""


@dataclass(frozen=True)
class _TrueCoding(Coding):
    """Values of the original as the release took them: what is no level was merged, or was declared a mark of missing values."""

    merging: bool = False
    into: Level | None = None

    def codes(self, block: Block, name: str, levels: Sequence[Level]) -> Int:
        codes = block.codes(name, levels)
        unknown = codes == UNKNOWN
        if self.merging and unknown.any():
            codes = np.where(unknown, self._merged(block, name, levels), codes)
        codes = np.where(codes == UNKNOWN, MISSING, codes)
        return codes if self.missing is None else np.where(codes == MISSING, levels.index(self.missing), codes)

    def _merged(self, block: Block, name: str, levels: Sequence[Level]) -> Column:
        """The level that a rare value was merged with: on a scale of numbers the nearest, on one of words only the design knows."""
        if self.into is not None:
            return np.full(block.rows, levels.index(self.into))
        if not is_number(levels[0]):
            return np.full(block.rows, UNTOLD)
        scale = np.asarray(levels, dtype=float)
        values = pd.to_numeric(pd.Series(block.values(name)), errors="coerce").fillna(0.0).to_numpy(dtype=float)
        return np.abs(values[:, None] - scale).argmin(axis=1)


def _codings(mechanism: Mechanism, body: PramModel) -> dict[str, Coding]:
    out: dict[str, Coding] = {}
    for variable in mechanism.schema.variables.values():
        merged = (body.merged or {}).get(variable.name)
        missing = (body.missing_level or {}).get(variable.name)
        into = None if merged is None else merged.into
        out[variable.name] = _TrueCoding(missing=missing, merging=merged is not None, into=into)
    return out


def side_by_side(
    files: Sequence[DataFile],
    original: Sequence[DataFile],
    mechanism: Mechanism,
    body: PramModel,
    link: Int | None,
) -> Iterator[Pair]:
    """Released records beside their originals; `link` names the original row of each where the rows were moved."""
    marks = (*NULLS, *(body.missing_marks or ()))
    true = _codes(original, mechanism, _codings(mechanism, body), marks)
    if link is not None:
        whole = [np.concatenate(parts, axis=1) for parts in zip(*true, strict=True)]
        rows = whole[0].shape[1] if whole else 0
        if rows != link.size:
            raise DataError(f"the original has {rows} records, the release and its link file {link.size}")
        true = iter([[part[:, link] for part in whole]] if rows else [])
    return _paired(_codes(files, mechanism, {}), true)


def _codes(
    files: Sequence[DataFile],
    mechanism: Mechanism,
    codings: Mapping[str, Coding],
    marks: Sequence[str] | None = None,
) -> Iterator[list[Int]]:
    """Of the released file, or of the original, whose values have codings and marks of missing ones."""
    for block in open_files(files, mechanism.columns, marks).blocks():
        units = None if codings else _units_of(block, mechanism)
        unit = np.zeros(block.rows, dtype=np.int64) if units is None else units
        out = []
        for assignment in mechanism.assignments:
            cells = cells_of(assignment, block, codings)
            if assignment.numeric:
                codes = step_codes(assignment, cells, true=bool(codings))
            else:
                codes = np.where(cells.present, cells.codes, MISSING)[None]
            strata = _strata(assignment, cells.context, block.rows)
            out.append(np.concatenate([codes[:1], strata[None], unit[None], codes[1:]]))
        yield out


def _strata(assignment: Assignment, context: Any, rows: int) -> Column:
    if not assignment.channel.context:
        return np.zeros(rows, dtype=np.int64)
    values = context[assignment.channel.context[0]]
    return np.sum([position * (values == s) for position, s in enumerate(assignment.channel.parts)], axis=0)


def _paired(left: Iterator[list[Int]], right: Iterator[list[Int]]) -> Iterator[Pair]:
    """Two streams cut at the same rows, whatever their blocks."""
    a: list[Int] | None = next(left, None)
    b: list[Int] | None = next(right, None)
    while a is not None and b is not None:
        size = min(a[0].shape[1], b[0].shape[1])
        yield [x[:, :size] for x in a], [x[:, :size] for x in b]
        a, b = [x[:, size:] for x in a], [x[:, size:] for x in b]
        a = a if a[0].shape[1] else next(left, None)
        b = b if b[0].shape[1] else next(right, None)
    if a is not None or b is not None:
        raise DataError("they do not have the same number of records")

"""What a released file holds: levels, frequencies that P can have produced, and transitions that follow P."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pramana.arrays import Column, Float, Int
from pramana.disclosure.audit.auditing import Finding, verdict
from pramana.disclosure.release.card import LARGEST
from pramana.disclosure.release.streaming import Tally, cells_of, component
from pramana.errors import DataError
from pramana.frames.blocks.stream import UNKNOWN, Block, open_reader
from pramana.frames.dialects import DataFile
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix
from pramana.mechanism.description.document import PramModel

ALPHA = 1e-6


def check_contents(path: Path, mechanism: Mechanism, body: PramModel) -> list[Finding]:
    """One pass over the file: rows, levels and frequencies."""
    rows = 0
    unknown: dict[str, int] = {}
    tallies = [Tally(assignment) for assignment in mechanism.assignments]
    try:
        for block in open_reader(path, mechanism.columns).blocks():
            rows += block.rows
            new = _unknown(block, mechanism)
            unknown = {name: unknown.get(name, 0) + count for name, count in new.items()} | {
                name: count for name, count in unknown.items() if name not in new
            }
            if not unknown:
                for tally, assignment in zip(tallies, mechanism.assignments, strict=True):
                    cells = cells_of(assignment, block)
                    tally.add(cells.codes, cells)
    except DataError as error:
        return [Finding("levels", "error", str(error))]
    findings = _check_rows(rows, body)
    if unknown:
        return findings + [
            Finding("levels", "error", f"column {name!r} has {count} value(s) that are not levels of the description")
            for name, count in unknown.items()
        ]
    findings.append(Finding("levels", "ok", "every value is a level of the description or missing"))
    return findings + _check_possible(mechanism, tallies)


def _check_rows(rows: int, body: PramModel) -> list[Finding]:
    if body.rows is None:
        return [Finding("rows", "warning", "the description does not count the records")]
    if body.rows != rows:
        return [Finding("rows", "error", f"the file has {rows} records, the description says {body.rows}")]
    return [Finding("rows", "ok", f"{rows} records as described")]


def _unknown(block: Block, mechanism: Mechanism) -> dict[str, int]:
    out = {}
    for assignment in mechanism.assignments:
        for place, name in enumerate(assignment.columns):
            count = int(np.sum(block.codes(name, component(assignment, place)) == UNKNOWN))
            if count:
                out[name] = count
    return out


def _check_possible(mechanism: Mechanism, tallies: list[Tally]) -> list[Finding]:
    """Reverted frequencies lie in the simplex, up to noise."""
    problems, tested = [], 0
    pairs = [
        (a, s, m, t[s]) for a, t in zip(mechanism.assignments, tallies, strict=True) for s, m in a.matrices.items()
    ]
    cells = sum(len(m) for *_, m, _ in pairs)
    for assignment, stratum, matrix, counts in pairs:
        if not counts.sum() or len(matrix) > LARGEST * 10:
            continue
        tested += 1
        shares, slack = _shares(matrix, counts, ALPHA / max(cells, 1))
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


def _shares(matrix: TransitionMatrix, counts: Int, alpha: float) -> tuple[Float, Float]:
    """Reverted shares, and how far below the truth each can fall by chance: Bernstein's bound, which no sample size breaks."""
    n = int(counts.sum())
    released = counts / n
    inverse = matrix.inverse
    shares: Float = inverse @ released
    variance: Float = inverse**2 @ released
    reach: Float = np.ptp(inverse, axis=1)
    tail = math.log(1 / alpha)
    slack = (tail * reach / 3 + np.sqrt((tail * reach / 3) ** 2 + 2 * n * tail * variance)) / n
    return shares, slack


FEWEST = 5.0
"""Expected count below which cells are pooled."""


def check_transitions(path: Path, original: DataFile, mechanism: Mechanism) -> list[Finding]:
    """Pearson's test of every column (and stratum) at size 1e-6, with its p-value."""
    try:
        tables = _tables(path, original, mechanism)
    except DataError as error:
        return [Finding("transitions", "error", f"the two files cannot be compared: {error}")]
    findings = []
    for assignment, found in zip(mechanism.assignments, tables, strict=True):
        for stratum, matrix in assignment.matrices.items():
            name = " × ".join(assignment.columns) + (f" (stratum {stratum!r})" if stratum is not None else "")
            if len(matrix) > LARGEST:
                findings.append(
                    Finding("transitions", "warning", f"{name}: not tested, {len(matrix)} levels are above {LARGEST}")
                )
                continue
            findings.append(_judged(name, found[stratum], matrix.matrix))
    return findings


def _judged(name: str, counts: Int, matrix: Float) -> Finding:
    impossible = int(counts[matrix == 0].sum())
    if impossible:
        return Finding("transitions", "error", f"{name}: {impossible} transition(s) that P makes impossible")
    p, freedom = chi_square(counts, matrix)
    if freedom == 0:
        return Finding("transitions", "ok", f"{name}: too few records to test")
    severity: Any = "error" if p < ALPHA else "ok"
    said = "do not follow P" if p < ALPHA else "follow P"
    return Finding("transitions", severity, f"{name}: transitions {said} (chi-square test, {freedom} df, p = {p:.3g})")


def chi_square(counts: Int, matrix: Float) -> tuple[float, int]:
    """p-value and degrees of freedom for counts by released (row) and true level (column); rare cells are pooled."""
    from scipy.stats import chi2

    statistic, freedom = 0.0, 0
    for observed, chances in zip(counts.T, matrix.T, strict=True):
        expected = chances * observed.sum()
        large = expected >= FEWEST
        rest = (observed[~large].sum(), expected[~large].sum())
        cells = list(zip(observed[large], expected[large], strict=True)) + ([rest] if rest[1] >= FEWEST else [])
        if rest[1] < FEWEST and cells:  # too few for a cell of their own: into the smallest one
            small = min(range(len(cells)), key=lambda k: cells[k][1])
            cells[small] = (cells[small][0] + rest[0], cells[small][1] + rest[1])
        statistic += sum((o - e) ** 2 / e for o, e in cells)
        freedom += max(len(cells) - 1, 0)
    return float(chi2.sf(statistic, freedom)) if freedom else 1.0, freedom


def _tables(path: Path, original: DataFile, mechanism: Mechanism) -> list[dict[object, Int]]:
    """Counts by released and true level, for every assignment and stratum."""
    tables = [
        {s: np.zeros((len(m), len(m)), dtype=np.int64) for s, m in a.matrices.items() if len(m) <= LARGEST}
        for a in mechanism.assignments
    ]
    for released, true in _paired(_codes(path, mechanism), _codes(original, mechanism)):
        for table, assignment, new, old in zip(tables, mechanism.assignments, released, true, strict=True):
            _count(table, assignment, new, old)
    return tables


def _count(table: dict[object, Int], assignment: Assignment, new: Int, old: Int) -> None:
    """Rows of `new` and `old` hold code (negative where missing) and stratum."""
    if np.any((new[0] < 0) != (old[0] < 0)):
        raise DataError(f"{' × '.join(assignment.columns)} is missing in other records than in the original")
    if np.any((new[1] != old[1]) & (new[0] >= 0)):
        raise DataError(f"column {assignment.channel.context[0]!r}, which decides the matrix, differs between them")
    for position, counts in enumerate(table.values()):
        rows = (new[0] >= 0) & (new[1] == position)
        size = len(counts)
        counts += np.bincount(new[0, rows] * size + old[0, rows], minlength=size * size).reshape(size, size)


def _codes(path: DataFile, mechanism: Mechanism) -> Iterator[list[Int]]:
    for block in open_reader(path, mechanism.columns).blocks():
        out = []
        for assignment in mechanism.assignments:
            cells = cells_of(assignment, block)
            out.append(
                np.stack([np.where(cells.present, cells.codes, -1), _strata(assignment, cells.context, block.rows)])
            )
        yield out


def _strata(assignment: Assignment, context: Any, rows: int) -> Column:
    if not assignment.channel.context:
        return np.zeros(rows, dtype=np.int64)
    values = context[assignment.channel.context[0]]
    return np.sum([position * (values == s) for position, s in enumerate(assignment.channel.parts)], axis=0)


def _paired(left: Iterator[list[Int]], right: Iterator[list[Int]]) -> Iterator[tuple[list[Int], list[Int]]]:
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

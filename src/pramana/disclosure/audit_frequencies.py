"""What a released file holds: records, levels, and frequencies that P can have produced."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from pramana.arrays import Float, Int
from pramana.disclosure.blocks import UNKNOWN, Block, open_reader
from pramana.disclosure.card import LARGEST, matrices
from pramana.disclosure.findings import Finding, verdict
from pramana.disclosure.streaming import Tally, cells_of, component
from pramana.errors import DataError
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.mechanism.document import PramModel

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
        (a, s, m, t[s]) for a, t in zip(mechanism.assignments, tallies, strict=True) for s, m in matrices(a.channel)
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

"""What a released file cannot be by chance: filtered on a perturbed column, or with a clean column computed from one.

Both make a confident wrong answer: P describes how a released value comes from the true one in *all* records, and a column
computed from released values carries their noise without anybody knowing. Each test has a bound on its chance of a false
alarm that holds for every file, however small; together they stay below `LEVEL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from pramana.arrays import Bool, Column, Float, Int
from pramana.diagnostic import Diagnostic
from pramana.frames import Table
from pramana.frames.levels import level_positions
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix
from pramana.mechanism.channels.additive_noise import AdditiveNoise, characteristic
from pramana.mechanism.channels.reports import ReportChannel
from pramana.mechanism.frequencies import reverted_shares, weighed_shares

if TYPE_CHECKING:
    from pramana.mechanism.description.document import PramModel

LEVEL = 1e-4
"""Chance that a healthy file is called tampered with."""
RECORDS = 10_000
"""Records looked at: of larger files every so many-th, which is plenty for what is looked for."""
LEVELS, VALUES, PAIRED = 300, 200, 100
"""Most levels of a column, distinct values of a clean column, and pairs of levels of two columns that are tested."""
FEWEST, FARTHEST = 50, 4.0
"""Numbers that are tested at all, and the distance z in the test of noise: exp(−16) is 1e-7."""
CODES = ("filtered-on-perturbed", "derived-from-perturbed", "other-records")


@dataclass(frozen=True)
class _Released:
    """A perturbed column (or several drawn together) as released: codes (n,), where they are present, and P by stratum."""

    name: str
    codes: Int
    present: Bool
    stratum: Int
    strata: tuple[object, ...]
    matrices: tuple[TransitionMatrix, ...]


def tampered(
    table: Table, mechanism: Mechanism, clean: Mapping[str, Column], frequencies: Column | None = None
) -> tuple[Diagnostic, ...]:
    """Warnings for released frequencies that P cannot have made, and for clean columns that follow a released one.

    Parameters
    ----------
    clean : the unperturbed columns (n,) that the analysis uses.
    frequencies : how many equal records each one stands for, or None.
    """
    unit = mechanism.unit
    if unit is not None and unit.column not in table.names:
        return ()
    step = -(-table.n // RECORDS)
    reporting = [a for a in mechanism.assignments if isinstance(a.channel, ReportChannel)]
    reports = [c for a in reporting for c in a.reports]
    some = _every(
        table, step, [*mechanism.columns, *reports, *mechanism.context, *([] if unit is None else [unit.column])]
    )
    counts = np.ones(some.n) if frequencies is None else np.nan_to_num(np.asarray(frequencies[::step], dtype=float))
    if unit is not None:  # the other rows of a unit repeat its draw, and say nothing new
        counts = np.where(_repeated(some.column(unit.column)), 0.0, counts)
    released = [found for a in mechanism.assignments if (found := _released(a, some)) is not None]
    filtered = dict(_impossible(released, counts))
    whole = [column for column in released if column.name not in filtered]  # to a level left alone all columns are tied
    cut = {name: values[::step] for name, values in clean.items()}
    noisy = [margin for a in mechanism.assignments if a.channel.levels is None for margin in a.margins]
    chosen = (*_chosen_reports(reporting, some, counts), *_chosen_numbers(noisy, some, counts))
    return (*filtered.values(), *chosen, *_derived(whole, cut, counts))


def _every(table: Table, step: int, names: Sequence[str]) -> Table:
    if step <= 1:
        return table
    return Table(table.frame.select(*names).gather_every(step).to_native(), table.kind, table.source)


def _repeated(values: Column) -> Bool:
    import pandas as pd

    return np.asarray(pd.Series(values).duplicated())


def _released(assignment: Assignment, table: Table) -> _Released | None:
    """None for what is not tested: noise without levels, and very many levels."""
    channel = assignment.channel
    matrices = tuple(part for part in channel.parts.values() if isinstance(part, TransitionMatrix))
    if channel.levels is None or len(channel.levels) > LEVELS or len(matrices) < len(channel.parts):
        return None
    codes, by = _codes(assignment, table), next(iter(channel.context), None)
    strata = tuple(channel.parts)
    place = np.zeros(table.n, dtype=np.int64) if by is None else table.positions(by, strata)
    return _Released(" × ".join(assignment.columns), codes, codes >= 0, place, strata, matrices)


def _codes(assignment: Assignment, table: Table) -> Int:
    """Codes of the released values (n,), −1 where they are missing or no level; whatever a fit uses is checked elsewhere."""
    parts = [assignment.component(k) or () for k in range(len(assignment.columns))]
    places = [table.positions(name, part) for name, part in zip(assignment.columns, parts, strict=True)]
    if len(parts) == 1:
        return places[0]
    sizes = [len(part) + 1 for part in parts]  # the last for what is missing
    code = np.full(sizes, -1)
    for position, level in enumerate(assignment.channel.levels or ()):
        code[tuple(part.index(level[k]) for k, part in enumerate(parts))] = position  # type: ignore[index]
    return np.asarray(code[tuple(places)])


def _impossible(released: Sequence[_Released], counts: Float) -> Iterator[tuple[str, Diagnostic]]:
    """Columns with a reverted share below zero by more than noise explains, in any stratum."""
    cells = sum(len(matrix) for column in released for matrix in column.matrices)
    for column in released:
        for position, matrix in enumerate(column.matrices):
            rows = column.present & (column.stratum == position)
            held = np.bincount(column.codes[rows], counts[rows], len(matrix)).astype(float)
            if not held.sum():
                continue
            shares, slack = reverted_shares(matrix, held, LEVEL / 2 / cells)
            worst = int(np.argmin(shares + slack))
            if shares[worst] < -slack[worst]:
                yield column.name, _filtered(column, position, worst, shares[worst], slack[worst])
                break


def _filtered(column: _Released, position: int, level: int, share: float, slack: float) -> Diagnostic:
    stratum = column.strata[position]
    where = f"{column.name!r}" + ("" if stratum is None else f" (where its matrix is that of {stratum!r})")
    return _unlikely(where, column.name.split(" × ")[0], column.matrices[position].levels[level], share, slack)


def _unlikely(where: str, name: str, level: object, share: float, slack: float) -> Diagnostic:
    message = (
        f"the released values of {where} are not all that its matrix makes: level {level!r} "
        f"would have the true share {share:.3g}, and noise explains no less than {-slack:.2g}. Records were chosen by their "
        "released value, or the mechanism is another one, and estimates from them are wrong: give all records, and choose by "
        f'subset= (subset="{name} == ...") or by=, which undo the noise of the choice'
    )
    return Diagnostic("filtered-on-perturbed", "warning", message)


def _chosen_reports(assignments: Sequence[Assignment], table: Table, counts: Float) -> Iterator[Diagnostic]:
    """Reports whose reverted shares fall below zero by more than noise explains."""
    for assignment in assignments:
        channel = assignment.channel
        rows = ~table.missing(assignment.reports) & (counts > 0)
        if not isinstance(channel, ReportChannel) or not rows.any():
            continue
        columns = [table.column(name)[rows] for name in assignment.reports]
        nodes = channel.revert(channel.read(columns, assignment.reported_in), {})
        held = np.bincount(nodes.row, counts[rows], len(nodes.table))
        alpha = LEVEL / 2 / sum(len(a.channel.levels or ()) for a in assignments)
        shares, slack = weighed_shares(nodes.table, channel.reach, held, alpha)
        worst = int(np.argmin(shares + slack))
        if shares[worst] < -slack[worst]:
            name = assignment.columns[0]
            yield _unlikely(repr(name), name, channel.levels[worst], float(shares[worst]), float(slack[worst]))


def _chosen_numbers(assignments: Sequence[Assignment], table: Table, counts: Float) -> Iterator[Diagnostic]:
    """Numbers that no truth plus the noise has made: |E e^{iu(Z + V)}| is at most |E e^{iuV}|, and the mean of n such values is
    farther than z/√n from what it estimates with a chance of about exp(−z²)."""
    for assignment in assignments:
        name, channel = assignment.columns[0], assignment.channel
        by = next(iter(channel.context), None)
        rows = ~table.missing([name, *channel.context]) & (counts > 0)
        try:
            values = np.asarray(table.column(name)[rows], dtype=float)
        except (TypeError, ValueError):  # no numbers: refused where they are used
            continue
        place = np.zeros(values.size, dtype=np.int64)
        if by is not None:
            place = level_positions(table.column(by)[rows], tuple(channel.parts))
        for k, part in enumerate(channel.parts.values()):
            own = (place == k) & np.isfinite(values)
            if (
                isinstance(part, AdditiveNoise)
                and own.sum() >= FEWEST
                and _sharper(values[own], counts[rows][own], part)
            ):
                yield _clipped(name)
                break


def _sharper(values: Float, counts: Float, noise: AdditiveNoise) -> bool:
    u, most = characteristic(noise)
    n = counts.sum()
    turn, whole = np.exp(1j * u[0] * values), np.ones(values.size, dtype=complex)
    found = np.array([abs((whole := whole * turn) @ counts) for _ in u]) / n  # arguments are multiples of the first
    return bool(np.any(found > np.abs(most) + FARTHEST / np.sqrt(n)))


def _clipped(name: str) -> Diagnostic:
    message = (
        f"the released values of {name!r} vary less than its noise alone makes numbers vary: they were clipped or records were left out by "
        "them after the noise was added, or the noise was smaller than stated. Estimates from them are wrong: use the "
        f"numbers and the records as released, and {name!r} in the formula"
    )
    return Diagnostic(CODES[0], "warning", message)


def _derived(released: Sequence[_Released], clean: Mapping[str, Column], counts: Float) -> Iterator[Diagnostic]:
    """Clean columns that follow a released one, or two of them, more closely than P lets any column do.

    Given the true values, a clean column equals f(released) in record i with a chance of at most max_z P(f(Z*) = x_i | z),
    independently of the others. So the share of records in which it does exceeds the mean of these bounds rarely
    (Hoeffding), whatever the data are, also if f is the best of all functions (the sum over them). A constant has the bound 1.
    """
    sources = [(column.name, _alone(column)) for column in released]
    sources += [(f"{a.name} and {b.name}", found) for a, b in combinations(released, 2) if (found := _both(a, b))]
    tests = max(2 * len(sources) * len(clean), 1)
    for name, values in clean.items():
        for codes, size in _codings(values):
            best = next((s for s in sources if _follows(codes, size, s[1], counts, LEVEL / 2 / tests)), None)
            if best is not None:
                yield _computed(name, best[0])
                break


@dataclass(frozen=True)
class _Source:
    """Released codes (n,), −1 where they are missing, and the matrices of all strata."""

    codes: Int
    matrices: tuple[Float, ...]


def _alone(column: _Released) -> _Source:
    return _Source(np.where(column.present, column.codes, -1), tuple(matrix.matrix for matrix in column.matrices))


def _both(left: _Released, right: _Released) -> _Source | None:
    size = len(right.matrices[0])
    if len(left.matrices[0]) * size > PAIRED or len(left.matrices) * len(right.matrices) > PAIRED:
        return None
    pairs = product(left.matrices, right.matrices)
    codes = np.where(left.present & right.present, left.codes * size + right.codes, -1)
    return _Source(codes, tuple(np.asarray(np.kron(a.matrix, b.matrix)) for a, b in pairs))


def _codings(values: Column) -> Iterator[tuple[Int, int]]:
    """The column's values as codes (−1 where missing) where they are few, and whether a record has the commonest of them, which
    a product such as age × 1{released} shows by its zeros."""
    import pandas as pd

    if values.dtype.kind == "f":
        ordered = np.sort(values)
        if (ordered[1:] != ordered[:-1]).all():
            return  # no value occurs twice
    codes, distinct = pd.factorize(values)
    if len(distinct) < 2:
        return
    if len(distinct) <= VALUES:
        yield codes, len(distinct)
    if len(distinct) > 2:
        held = np.bincount(codes[codes >= 0])
        common = int(held.argmax())
        if held[common] > 1:
            yield np.where(codes < 0, -1, codes == common), 2


def _follows(codes: Int, size: int, source: _Source, counts: Float, alpha: float) -> bool:
    """Whether the coded column is a function of the released one in more records than P allows."""
    rows = (codes >= 0) & (source.codes >= 0)
    levels = len(source.matrices[0])
    held = np.bincount(source.codes[rows] * size + codes[rows], counts[rows], levels * size).reshape(levels, size)
    n, seen = held.sum(), held.any(axis=1)
    if not n:
        return False
    matched = held.max(axis=1).sum() / n
    function = np.zeros((size, levels))
    function[held.argmax(axis=1)[seen], np.flatnonzero(seen)] = 1.0
    reach = np.max([(function @ matrix).max(axis=1) for matrix in source.matrices], axis=0)
    bound = min(float(held.sum(axis=0) @ reach / n), 1.0)
    if matched <= bound:
        return False
    functions = levels * math.log(size + 1)  # a level that was not seen has no value, which is one more
    return bool(-n * _divergence(matched, bound) + functions < math.log(alpha))


def _divergence(p: float, q: float) -> float:
    """Kullback and Leibler's, of two coins."""
    heads = p * math.log(p / q) if p > 0 else 0.0
    return heads + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


def _computed(name: str, source: str) -> Diagnostic:
    message = (
        f"{name!r} follows the released values of {source} more closely than P lets any other column do, so it was "
        f"computed from them: it carries their noise and is taken for clean, so that estimates with it are wrong. Compute it in the formula from "
        f"{source}, as in isin({source.split(' ')[0]}, [...]), or choose by subset= or by="
    )
    return Diagnostic("derived-from-perturbed", "warning", message)


def level_counts(table: Table, mechanism: Mechanism, counts: Column | None = None) -> list[Float]:
    """Records of every released level, by assignment; rows stand for `counts` (n,) records each."""
    out = []
    for assignment in mechanism.assignments:
        codes = _codes(assignment, table)
        each = None if counts is None else counts[codes >= 0]
        out.append(np.bincount(codes[codes >= 0], each, len(assignment.channel.levels or ())).astype(float))
    return out


def other_records(
    rows: int, held: Sequence[Float], mechanism: Mechanism, told: PramModel | None
) -> tuple[Diagnostic, ...]:
    """What is said where data hold other records than the released file that was described: so many, and these of every level."""
    if told is None or told.rows is None or told.rows == rows:
        return ()
    parts, uneven = [], False
    for assignment, own, counts in zip(
        mechanism.assignments, held, told.released or (), strict=False
    ):  # none in older ones
        if own.size == len(counts):
            differs, text = _kept(assignment, own, np.asarray(counts))
            uneven |= differs
            parts += [text] if differs else []
    message = f"the data hold {rows} records, and the released file that was described {told.rows}"
    if not uneven:
        more = ": a selection by clean columns, or at random, is fine; one by a released value is not"
        return (Diagnostic("other-records", "info", message + more),)
    more = (
        f"; {'; '.join(parts)}. If records were chosen by clean columns this is as it may be; if by the released value, "
        "estimates are wrong: give all records, and choose by subset= or by="
    )
    return (Diagnostic("other-records", "warning", message + more),)


def _kept(assignment: Assignment, held: Float, told: Int) -> tuple[bool, str]:
    """Whether levels were kept at different rates, and at which the most and the least."""
    from scipy.stats import chi2

    known = told > 0
    rate = held[known].sum() / max(told.sum(), 1)
    beyond = bool(np.any(held > told))
    expected, spread = told[known] * rate, max(rate * (1 - rate), 1e-12)
    statistic = float(np.sum((held[known] - expected) ** 2 / (told[known] * spread)))
    uneven = beyond or (known.sum() > 1 and 0 < rate < 1 and chi2.sf(statistic, known.sum() - 1) < LEVEL)
    rates = held / np.maximum(told, 1)
    order = np.argsort(np.where(known, rates, np.inf))[: known.sum()]
    levels = assignment.channel.levels or ()
    ends = [f"{levels[k]!r} {held[k]:.0f} of {told[k]}" for k in (order[[0, -1]] if order.size > 1 else order)]
    return bool(uneven), f"of {' × '.join(assignment.columns)}, {' but '.join(ends)}"

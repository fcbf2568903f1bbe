"""What a released value says about the true one: Bayes' rule by level, epsilon, and what structural zeros reveal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pramana.arrays import Bool, Float, Int
from pramana.disclosure.risk.joint_noise import Vectors
from pramana.disclosure.risk.noise import Guess, Numbers
from pramana.disclosure.true_records import Counted, strata_of
from pramana.errors import DataError, listing
from pramana.frames import Level
from pramana.frames.table import is_missing
from pramana.mechanism import Assignment, JointGaussianNoise, TransitionMatrix
from pramana.mechanism.channels.matrix_forms import Banded, Mixture
from pramana.mechanism.channels.transition import told_given
from pramana.mechanism.designs import epsilon_within
from pramana.mechanism.draws.perturbation import Cells, cells_in

BLOCK = 2_000_000
"""Entries of P looked at in one go."""


@dataclass(frozen=True)
class LevelRisk:
    """One released level of a column: how often it is released, and the true level that it exposes most.

    Attributes
    ----------
    share : expected share of the released records.
    exposed : the true level whose posterior is largest.
    odds_factor : largest factor by which the release changes the odds of any true level against the others.
    bound : what that factor can be at most, whatever the prior: the largest ratio of two entries of the row of P.
    ruled_out : number of true levels that this released level excludes.
    """

    released: Level
    stratum: Level | None
    share: float
    exposed: Level
    prior: float
    posterior: float
    odds_factor: float
    bound: float
    ruled_out: int


@dataclass(frozen=True)
class Exposure:
    """The posterior of each record's own true value: expected over the draws, and for the worst draw.

    `row` is the record whose expected posterior is largest, `alike` the number of records that share it.
    """

    mean: float
    expected: float
    largest: float
    row: int
    alike: int


@dataclass(frozen=True)
class ColumnRisk:
    """One column, or several that are perturbed together; `conditional`: epsilon holds only given what `condition` says.

    Attributes
    ----------
    missing : records with a missing value, which are published as they are; posteriors are over the others.
    bare : those among them of which other columns of the group have a value, published unperturbed.
    guess : of a number with noise, how well it can be told; None for a column with levels.
    """

    columns: tuple[str, ...]
    epsilon: float
    conditional: bool
    epsilon_within: float
    blocks: tuple[tuple[Level, ...], ...]
    levels: tuple[LevelRisk, ...]
    exposure: Exposure
    realised: float | None = None
    missing: int = 0
    bare: int = 0
    condition: str = ""
    guess: Guess | None = None

    @property
    def name(self) -> str:
        return " × ".join(self.columns)

    @property
    def posterior(self) -> float:
        return max(level.posterior for level in self.levels)

    @property
    def zeros(self) -> str | None:
        """What structural zeros tell whoever reads the released file."""
        if np.isfinite(self.epsilon) or self.guess is not None:
            return None
        ruled = max(level.ruled_out for level in self.levels)
        parts = [
            f"{self.name}: zeros in P make epsilon infinite; among levels that stay possible it is {self.epsilon_within:.3g}"
        ]
        if len(self.blocks) > 1:
            shown = "; ".join(listing(block, 4) for block in self.blocks[:4])
            parts.append(f"the release shows for certain which of {len(self.blocks)} blocks a record is in ({shown})")
        parts.append(f"a released level rules out up to {ruled} of the {sum(map(len, self.blocks))} true levels")
        return ", ".join(parts)


def column_risks(
    assignment: Assignment, records: Counted, prior: Mapping[Any, float] | Sequence[float] | None
) -> list[ColumnRisk]:
    """One for the columns that a matrix covers together, and one for each of those that share a noise."""
    if isinstance(assignment.channel, JointGaussianNoise):
        return _joint_noise_risks(assignment, assignment.channel, records, prior)
    return [column_risk(assignment, records, prior)]


def column_risk(
    assignment: Assignment, records: Counted, prior: Mapping[Any, float] | Sequence[float] | None
) -> ColumnRisk:
    """Posterior and privacy loss of one channel on the custodian's file, over the records that have a value."""
    table, counts = records.table, records.counts
    cells = _present(assignment, records)
    if assignment.numeric:
        return _noise_risk(assignment, records, cells, prior)
    codes, strata = cells.codes, strata_of(assignment, cells)
    seen = None if records.released is None else cells_in(records.released, assignment).codes
    named = list(assignment.matrices.items())
    matrices = {int(s): named[s][1] for s in np.unique(strata[cells.present])}
    levels: list[LevelRisk] = []
    expected, largest, realised = np.zeros(table.n), np.zeros(table.n), np.zeros(table.n)
    for position, matrix in matrices.items():
        rows = np.flatnonzero((strata == position) & cells.present)
        shares = _prior(prior, matrix, np.bincount(codes[rows], counts[rows], len(matrix)), assignment)
        found = _sweep(matrix, shares, named[position][0], counts[rows].sum() / records.n)
        levels += found.levels
        expected[rows], largest[rows] = found.expected[codes[rows]], found.largest[codes[rows]]
        if seen is not None:
            realised[rows] = _realised(matrix, shares, codes[rows], seen[rows])
    some = ~np.all([is_missing(table.column(name)) for name in assignment.columns], axis=0)
    return ColumnRisk(
        assignment.columns,
        assignment.channel.epsilon,
        assignment.channel.conditional,
        max(epsilon_within(m) for m in matrices.values()),
        _blocks(list(matrices.values())),
        tuple(levels),
        _exposure(records, expected, largest, cells.present),
        None if seen is None else float(realised.max()),
        int(counts[~cells.present].sum()),
        int(counts[~cells.present & some].sum()),
        told_given(assignment.channel),
    )


def _present(assignment: Assignment, records: Counted) -> Cells:
    cells = cells_in(records.table, assignment)
    if not cells.present.any():
        raise DataError(
            f"{listing(assignment.columns)} has no value in any of {records.n} records: leave it out of the mechanism"
        )
    return cells


def _joint_noise_risks(
    assignment: Assignment, noise: JointGaussianNoise, records: Counted, prior: Any
) -> list[ColumnRisk]:
    """Of each column that shares a noise, to those who see all of them; its table is of what its own released value tells."""
    cells = _present(assignment, records)
    rows = np.flatnonzero(cells.present)
    vectors, again = Vectors.of(noise, cells.codes[rows], prior, assignment.columns, records.counts[rows])
    seen = None if records.released is None else cells_in(records.released, assignment).codes[rows]
    alone = replace(records, released=None).where(cells.present)
    realised = None if seen is None else vectors.realised(again, seen)
    before, after = (np.sqrt(errors) for errors in vectors.guesses())
    found = []
    for place, margin in enumerate(assignment.margins):
        expected, largest = np.zeros(records.table.n), np.zeros(records.table.n)
        expected[rows], largest[rows] = vectors.told.expected[again, place], vectors.told.largest[again, place]
        own = column_risk(margin, alone, prior and vectors.margin(place))
        guess = Guess(
            noise.law, float(vectors.steps[place]), float(before[place]), float(after[place]), assignment.columns
        )
        found.append(
            replace(
                own,
                exposure=_exposure(records, expected, largest, cells.present),
                realised=None if realised is None else float(realised[:, place].max()),
                missing=int(records.counts[~cells.present].sum()),
                bare=0,
                guess=guess,
            )
        )
    return found


def _noise_risk(assignment: Assignment, records: Counted, cells: Cells, prior: Any) -> ColumnRisk:
    """The same of numbers with noise, whose levels are the true values that occur."""
    strata, counts = strata_of(assignment, cells), records.counts
    seen = None if records.released is None else cells_in(records.released, assignment).codes
    levels: list[LevelRisk] = []
    expected, largest, realised = (np.zeros(counts.size) for _ in range(3))
    errors, step = np.zeros(2), 0.0
    for position, (stratum, noise) in enumerate(assignment.noises.items()):
        rows = np.flatnonzero((strata == position) & cells.present)
        if not rows.size:
            continue
        numbers, size = (
            Numbers.of(noise, cells.codes[rows], prior, assignment.columns, counts[rows]),
            int(counts[rows].sum()),
        )
        weight, places = size / records.n, numbers.places(cells.codes[rows])
        distinct, again = np.unique(places, return_inverse=True)
        mean, most = numbers.own(distinct)
        expected[rows], largest[rows] = mean[again], most[again]
        if seen is not None:
            realised[rows] = numbers.realised(places, seen[rows])
        bound = float(np.exp(min(noise.epsilon, 700.0))) if np.isfinite(noise.epsilon) else np.inf
        for value, share, exposed, known, after, factor, ruled in numbers.telling(size):
            levels.append(LevelRisk(value, stratum, share * weight, exposed, known, after, factor, bound, ruled))
        errors, step = errors + size * np.array(numbers.guess()), max(step, numbers.step)
    before, after = np.sqrt(errors / int(counts[cells.present].sum())).tolist()
    law = "; ".join(dict.fromkeys(noise.law for noise in assignment.noises.values()))
    return ColumnRisk(
        assignment.columns,
        assignment.channel.epsilon,
        False,
        assignment.channel.epsilon,
        (),
        tuple(levels),
        _exposure(records, expected, largest, cells.present),
        None if seen is None else float(realised.max()),
        int(counts[~cells.present].sum()),
        guess=Guess(law, step, before, after),
    )


def _exposure(records: Counted, expected: Float, largest: Float, present: Bool) -> Exposure:
    worst, counts = records.first_of_most(expected), records.counts[present]
    alike = int(counts[np.isclose(expected[present], expected[worst], rtol=1e-12)].sum())
    mean = float(np.average(expected[present], weights=counts))
    return Exposure(mean, float(expected[worst]), float(largest[worst]), int(records.rows[worst]), alike)


def _prior(given: Any, matrix: TransitionMatrix, counts: Any, assignment: Assignment) -> Float:
    """Frequencies an attacker is taken to know: those of the file, whose records of each level these are (K,), unless others are given."""
    if given is None:
        return np.asarray(counts / counts.sum(), dtype=float)
    values = [given.get(level, 0.0) for level in matrix.levels] if isinstance(given, Mapping) else list(given)
    shares = np.asarray(values, dtype=float)
    if shares.shape != (len(matrix),) or np.any(~(shares >= 0)) or abs(shares.sum() - 1) > 1e-8:
        raise DataError(
            f"the prior frequencies of {listing(assignment.columns)} are {shares.size} number(s) that sum to {shares.sum():.6g}: give "
            f"{len(matrix)}, none negative, that sum to 1"
        )
    return shares


@dataclass(frozen=True)
class _Swept:
    levels: list[LevelRisk]
    expected: Float
    largest: Float


def _row_blocks(matrix: TransitionMatrix) -> Iterator[tuple[Int, slice, Float]]:
    """P a few rows at a time, with the columns in which they are not zero: many levels never need all of it at once."""
    form, size = matrix.form, len(matrix)
    reach = form.width if isinstance(form, Banded) else size
    step = max(int(np.sqrt(BLOCK)), reach) if isinstance(form, Banded) else max(BLOCK // size, 1)
    for start in range(0, size, step):
        rows = np.arange(start, min(start + step, size))
        columns = slice(max(start - reach, 0), min(int(rows[-1]) + reach + 1, size))
        yield rows, columns, form.rows(rows, columns)


def _sweep(matrix: TransitionMatrix, prior: Float, name: Level | None, weight: float) -> _Swept:
    """Every released level once: its own row of the table, and its part in the records' posteriors."""
    if isinstance(matrix.form, Mixture):
        return _mixture_sweep(matrix.levels, matrix.form, prior, name, weight)
    levels: list[LevelRisk] = []
    expected, largest = np.zeros(len(matrix)), np.zeros(len(matrix))
    for rows, near, part in _row_blocks(matrix):
        own = prior[near]
        released = part @ own
        posterior = posterior_of(part, own)
        expected[near] += np.sum(part * posterior, axis=0)
        largest[near] = np.maximum(largest[near], np.max(np.where(part > 0, posterior, 0.0), axis=0))
        factor = odds_factors(part, own)
        possible = np.count_nonzero(part, axis=1)
        for k in np.flatnonzero(released > 0):
            best = int(np.argmax(posterior[k]))
            levels.append(
                LevelRisk(
                    matrix.levels[rows[k]],
                    name,
                    float(released[k] * weight),
                    matrix.levels[near.start + best],
                    float(own[best]),
                    float(posterior[k, best]),
                    float(factor[k].max()),
                    float(part[k].max() / part[k].min()) if possible[k] == len(matrix) else float("inf"),
                    len(matrix) - int(possible[k]),
                )
            )
    return _Swept(levels, expected, largest)


def _mixture_sweep(names: Sequence[Level], form: Mixture, prior: Float, stratum: Level | None, weight: float) -> _Swept:
    """The same for `P[i, j] = a 1{i = j} + b_i` in O(K): a released level points to itself, or to the most frequent other one."""
    keep, drawn, size = 1 - form.refill, form.refill * form.frequencies, form.size
    diagonal = keep + drawn
    released = keep * prior + drawn
    shown = released > 0
    top, second = np.argsort(-prior, kind="stable")[:2]
    other = np.where(np.arange(size) == top, second, top)
    itself = diagonal * prior >= drawn * prior[other]
    exposed = np.where(itself, np.arange(size), other)
    chance = np.where(itself, diagonal * prior, drawn * prior[other]) / np.where(shown, released, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(drawn > 0, diagonal / drawn, np.inf)
        lifted = np.where(shown, drawn / released, 0.0)  # posterior over prior of every other level
        expected = prior * (np.sum(drawn * lifted) + np.where(shown, (diagonal**2 - drawn**2) / released, 0.0))
        largest = np.where(shown, diagonal * prior / released, 0.0)
    factor = np.where((prior > 0) & (prior < 1), bound, 1.0)
    first, *rest = np.argsort(-lifted, kind="stable")[:2]
    largest = np.maximum(largest, prior * np.where(np.arange(size) == first, lifted[rest[0]], lifted[first]))
    columns = (released * weight, prior[exposed], chance, factor, bound)
    numbers = [column.tolist() for column in columns]
    levels = [
        LevelRisk(
            names[k], stratum, share, names[exposed[k]], known, after, times, most, 0 if drawn[k] > 0 else size - 1
        )
        for k, (share, known, after, times, most) in enumerate(zip(*numbers, strict=True))
        if shown[k]
    ]
    return _Swept(levels, expected, largest)


def posterior_of(part: Float, prior: Float) -> Float:
    """Pr(true | released) for rows of P (m, K); zeros where the released level never occurs."""
    joint = part * prior
    total = joint.sum(axis=1, keepdims=True)
    return np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)


def odds_factors(part: Float, prior: Float) -> Float:
    """Posterior odds over prior odds of each true level against the others (m, K); infinite for certainty.

    Levels that a prior of 0 or 1 decides already have the factor 1.
    """
    joint = part * prior
    others = joint.sum(axis=1, keepdims=True) - joint
    others = np.where(others <= 1e-15 * joint.sum(axis=1, keepdims=True), 0.0, others)
    open_ = (prior > 0) & (prior < 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = part * (1 - prior) / others
    return np.where(open_ & (part > 0), factor, np.where(open_, 0.0, 1.0))


def _realised(matrix: TransitionMatrix, prior: Float, codes: Int, seen: Int) -> Float:
    """Posterior of the true value given what was released, record by record (n,)."""
    joint = matrix.form.entries(seen, codes) * prior[codes]
    total = matrix.form.moved(prior)[seen]
    return np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)


def _blocks(matrices: Sequence[TransitionMatrix]) -> tuple[tuple[Level, ...], ...]:
    """True levels joined when some released level can come from both, in any stratum."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    levels = matrices[0].levels
    linked = [_first_alike(matrix.form.groups()) for matrix in matrices]
    ends = np.concatenate(linked), np.tile(np.arange(len(levels)), len(linked))
    graph = coo_array((np.ones(ends[0].size), ends), shape=(len(levels),) * 2)
    member = connected_components(graph, directed=False)[1]
    order = np.argsort(member, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(member[order])) + 1)
    return tuple(tuple(levels[k] for k in part) for part in parts)


def _first_alike(groups: Int) -> Int:
    """For each level the first one of its group."""
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    return first[place]

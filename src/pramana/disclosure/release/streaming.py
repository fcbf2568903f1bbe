"""One block at a time through the mechanism. The data are confidential: errors name column, row and count, never a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pramana.arrays import Bool, Column, Columns, Float, Int
from pramana.errors import DataError
from pramana.frames import Level, decode
from pramana.frames.blocks.stream import MISSING, UNKNOWN, Block, Replacement
from pramana.mechanism import Assignment, Mechanism
from pramana.mechanism.draws.perturbation import Cells, Perturbation, Randomness, Seen


@dataclass(frozen=True)
class Coding:
    """How values that are not levels become levels before they are perturbed.

    Attributes
    ----------
    merged : from a rare value to the level that it is merged with; never published.
    missing : the level that stands for a missing value, or None where gaps stay gaps.
    """

    merged: Mapping[Any, Level] = field(default_factory=dict)
    missing: Level | None = None

    def codes(self, block: Block, name: str, levels: Sequence[Level]) -> Int:
        codes = block.codes(name, [*levels, *self.merged])
        if self.merged:
            code = {level: place for place, level in enumerate(levels)}
            places = [code[level] for level in self.merged.values()]
            codes = np.where(codes >= len(levels), np.append(np.arange(len(levels)), places)[codes], codes)
        return codes if self.missing is None else np.where(codes == MISSING, levels.index(self.missing), codes)


PLAIN = Coding()


def cells_of(assignment: Assignment, block: Block, codings: Mapping[str, Coding] | None = None) -> Cells:
    """The true codes of an assignment; an unknown value, combination or stratum is an error."""
    if assignment.numeric:
        return _numbers_of(assignment, block)
    known = codings or {}
    parts = [
        known.get(name, PLAIN).codes(block, name, component(assignment, place))
        for place, name in enumerate(assignment.columns)
    ]
    for name, codes in zip(assignment.columns, parts, strict=True):
        refuse_unknown(codes == UNKNOWN, name, block.first_row)
    present = np.all([codes != MISSING for codes in parts], axis=0)
    joined = parts[0] if len(parts) == 1 else _joined(assignment, parts, present, block.first_row)
    return Cells(np.where(present, joined, 0), present, _context(assignment, block, present))


def _numbers_of(assignment: Assignment, block: Block) -> Cells:
    """The true numbers of a column that gets noise (n,), or of several that share it (n, q); stand-ins where one is missing."""
    columns = np.column_stack([block.numbers(name) for name in assignment.columns])
    present: Bool = np.all(~np.isnan(columns), axis=1)
    values = np.where(present[:, None], columns, 0.0)
    return Cells(values if len(assignment.columns) > 1 else values[:, 0], present, _context(assignment, block, present))


def component(assignment: Assignment, place: int) -> Sequence[Level]:
    """Levels of one of an assignment's columns."""
    levels = assignment.component(place)
    assert levels is not None, "a number with noise has no levels"
    return levels


def released_type(assignment: Assignment, place: int) -> Sequence[Level]:
    """Values of the type that a column is released with: its levels, or a number such as noise makes."""
    if not assignment.numeric:
        return component(assignment, place)
    noises = assignment.margins[place].noises
    return (0,) if all(noise.whole for noise in noises.values()) else (0.5,)


def components(assignment: Assignment) -> list[Int]:
    """For every column, from the assignment's code to the column's own; nothing for numbers with noise."""
    tables: list[Int] = []
    if assignment.numeric:
        return tables
    for place in range(len(assignment.columns)):
        own = {level: code for code, level in enumerate(component(assignment, place))}
        levels = assignment.channel.levels or ()
        single = len(assignment.columns) == 1
        tables.append(np.array([own[level if single else level[place]] for level in levels]))  # type: ignore[index]
    return tables


def refuse_unknown(unknown: Bool, name: str, first_row: int) -> None:
    """The count is that of the block: the rest of the file was not read."""
    rows = np.flatnonzero(unknown)
    if rows.size:
        raise DataError(
            f"column {name!r} has at least {rows.size} value(s) that are not levels of the mechanism, first in row "
            f"{first_row + rows[0]}: add the missing level to the mechanism, recode the column, or declare the mark of a missing "
            "value (missing=)"
        )


def _joined(assignment: Assignment, parts: Sequence[Int], present: Bool, first_row: int) -> Int:
    """Codes of joint levels; a combination that the mechanism does not list is an error."""
    sizes = [len(component(assignment, place)) for place in range(len(parts))]
    listed = np.ravel_multi_index(components(assignment), sizes)
    order = np.argsort(listed)
    flat = np.ravel_multi_index([np.where(present, codes, 0) for codes in parts], sizes)
    place = np.minimum(np.searchsorted(listed[order], flat), listed.size - 1)
    refuse_unknown(present & (listed[order][place] != flat), " × ".join(assignment.columns), first_row)
    return order[place]


def _context(assignment: Assignment, block: Block, present: Bool) -> Columns:
    channel = assignment.channel
    if not channel.context:
        return {}
    by, strata = channel.context[0], list(channel.parts)
    codes = block.codes(by, strata)
    for code, what in ((UNKNOWN, "that are not strata of the mechanism"), (MISSING, "that are missing")):
        rows = np.flatnonzero((codes == code) & present)
        if rows.size:
            raise DataError(
                f"column {by!r} has at least {rows.size} value(s) {what}, first in row {block.first_row + rows[0]}, and "
                "decides which transition matrix applies: give every record a stratum"
            )
    return {by: decode(np.maximum(codes, 0), strata)}


@dataclass(frozen=True)
class Moments:
    """Count, mean, and sums of the second, third and fourth powers of distances from it; those of two blocks add."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    cubes: float = 0.0
    fourths: float = 0.0

    @staticmethod
    def of(values: Float) -> Moments:
        if not values.size:
            return Moments()
        mean = float(values.mean())
        apart = values - mean
        return Moments(values.size, mean, *(float(np.sum(apart**p)) for p in (2, 3, 4)))

    def __add__(self, other: Moments) -> Moments:
        n = self.count + other.count
        if not (self.count and other.count):
            return self if self.count else other
        mean = (self.count * self.mean + other.count * other.mean) / n
        a, b = self._around(mean), other._around(mean)
        return Moments(n, mean, *(x + y for x, y in zip(a, b, strict=True)))

    def _around(self, place: float) -> tuple[float, float, float]:
        d, n = self.mean - place, self.count
        return (
            self.squares + n * d**2,
            self.cubes + 3 * d * self.squares + n * d**3,
            self.fourths + 4 * d * self.cubes + 6 * d**2 * self.squares + n * d**4,
        )

    @property
    def variance(self) -> float:
        return self.squares / max(self.count - 1, 1)


class Spread(dict[object, Moments]):
    """What stands for the true numbers of a column with noise, summed up by stratum (None where there is one noise).

    Attributes
    ----------
    added : what the noise adds to the variance, likewise.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._by, self._noises = next(iter(assignment.channel.context), None), assignment.noises
        super().__init__(dict.fromkeys(self._noises, Moments()))
        self.added: dict[object, Moments] = dict.fromkeys(self._noises, Moments())

    def add(self, values: Column, cells: Cells) -> None:
        for stratum, noise in self._noises.items():
            rows = cells.present if self._by is None else cells.present & (cells.context[self._by] == stratum)
            standing, added = noise.unbiased(np.asarray(values, dtype=float)[rows])
            self[stratum] += Moments.of(standing)
            self.added[stratum] += Moments.of(added)

    def join(self, other: Spread) -> None:
        """Go on with the records of another file."""
        for stratum in self:
            self[stratum] += other[stratum]
            self.added[stratum] += other.added[stratum]

    @property
    def released(self) -> list[int]:
        """How many records have each level: noise has none."""
        return []


class Tally(dict[object, Int]):
    """Released codes of an assignment, counted by stratum (None where there is one matrix)."""

    def __init__(self, assignment: Assignment) -> None:
        self._by = next(iter(assignment.channel.context), None)
        channel = assignment.channel
        super().__init__({s: np.zeros(len(channel.levels or ()), dtype=np.int64) for s in channel.parts})

    def add(self, codes: Int, cells: Cells) -> None:
        for stratum, total in self.items():
            rows = cells.present if self._by is None else cells.present & (cells.context[self._by] == stratum)
            total += np.bincount(codes[rows], minlength=total.size)

    def join(self, other: Tally) -> None:
        """Go on with the records of another file."""
        for stratum in self:
            self[stratum] += other[stratum]

    @property
    def released(self) -> list[int]:
        """How many records have each level."""
        found: list[int] = np.sum(list(self.values()), axis=0).tolist()
        return found


def tally_of(assignment: Assignment) -> Tally | Spread:
    return Spread(assignment) if assignment.numeric else Tally(assignment)


UNITS = (10_000.0, 1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)
"""Distances that true numbers may keep, whose multiples are read off where noise is small next to them."""


MOSTLY = 0.9
"""The share of numbers that must keep a distance: a few odd ones (a mark such as -9 among thousands) protect nobody else."""


@dataclass(frozen=True)
class Distances:
    """How many numbers so far are multiples of each of `UNITS`, how many there are and how many beyond the bounds, and their range."""

    multiples: tuple[int, ...] = (0,) * len(UNITS)
    count: int = 0
    beyond: int = 0
    lowest: float = np.inf
    highest: float = -np.inf

    def joined(self, assignment: Assignment, cells: Cells) -> Distances:
        """With the true numbers of one more block."""
        values = cells.codes[cells.present]
        if not values.size:
            return self
        multiples = tuple(m + _multiples(values, unit) for m, unit in zip(self.multiples, UNITS, strict=True))
        beyond = self.beyond + _beyond(assignment, cells)
        lowest, highest = min(self.lowest, float(values.min())), max(self.highest, float(values.max()))
        return Distances(multiples, self.count + values.size, beyond, lowest, highest)

    def __add__(self, other: Distances) -> Distances:
        return Distances(
            tuple(a + b for a, b in zip(self.multiples, other.multiples, strict=True)),
            self.count + other.count,
            self.beyond + other.beyond,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
        )

    @property
    def apart(self) -> float:
        """How far most numbers lie apart; 0 where nothing is known. One number alone keeps no distance, and counts as a whole number at most."""
        unit = next((u for m, u in zip(self.multiples, UNITS, strict=True) if m >= MOSTLY * max(self.count, 1)), 0.0)
        return unit if self.lowest < self.highest else min(unit, 1.0)


def _multiples(values: Float, unit: float) -> int:
    places = values / unit
    return int(np.sum(np.abs(places - np.rint(places)) <= 1e-9 * np.maximum(np.abs(places), 1.0)))


def _beyond(assignment: Assignment, cells: Cells) -> int:
    """Numbers that are not within the bounds of their noise."""
    by, found = next(iter(assignment.channel.context), None), 0
    for stratum, noise in assignment.noises.items():
        if noise.bounds is not None:
            rows = cells.present if by is None else cells.present & (cells.context[by] == stratum)
            found += int(np.sum((cells.codes[rows] < noise.bounds[0]) | (cells.codes[rows] > noise.bounds[1])))
    return found


class ReleaseTotals:
    """What the blocks of a file add up to, and the files of a folder.

    Attributes
    ----------
    rows : records so far.
    missing : records without a released value, by column.
    held : how many records hold each true level, by assignment; how many units, after `finish`.
    distances : that numbers which get noise keep from each other, by column.
    seen : identifiers and units.
    """

    def __init__(self, mechanism: Mechanism, seen: Seen) -> None:
        self.rows = 0
        self.missing = dict.fromkeys(mechanism.columns, 0)
        self.held = [np.zeros(len(a.channel.levels or ()), dtype=np.int64) for a in mechanism.assignments]
        self.distances = dict.fromkeys(mechanism.noisy, Distances())
        self.seen = seen
        self.tallies = [[tally_of(margin) for margin in a.margins] for a in mechanism.assignments]

    def join(self, other: ReleaseTotals) -> None:
        """Go on with the records of another file."""
        self.rows += other.rows
        self.missing = {name: count + other.missing[name] for name, count in self.missing.items()}
        self.held = [mine + theirs for mine, theirs in zip(self.held, other.held, strict=True)]
        self.distances = {name: found + other.distances[name] for name, found in self.distances.items()}
        self.seen.join(other.seen)
        for mine, theirs in zip(self.counts, other.counts, strict=True):
            mine.join(theirs)  # type: ignore[arg-type]

    @property
    def counts(self) -> list[Tally | Spread]:
        """Released codes of every assignment, by stratum; those of joint noise column by column, as in `Mechanism.by_column`."""
        return [tally for tallies in self.tallies for tally in tallies]

    @property
    def released(self) -> list[list[int]]:
        """How many records have each released level, by assignment."""
        return [tallies[0].released for tallies in self.tallies]

    @property
    def gaps(self) -> dict[str, int]:
        """Columns that have records without a released value, and how many."""
        return {name: count for name, count in self.missing.items() if count}

    @property
    def sketch(self) -> str:
        """The smallest digests of the identifiers, by which the custodian's ledger knows the records again."""
        return self.seen.least.text()

    def finish(self, place: Callable[[int], str] = "row {}".format) -> None:
        """Refuse identifiers that occurred twice, and units whose records differ; count units instead of records."""
        self.seen.check(place)
        units = self.seen.units_by_level()
        self.held = self.held if units is None else units


class FilePerturbation:
    """The mechanism applied to the blocks of a file, with what they add up to in `totals`."""

    def __init__(
        self,
        mechanism: Mechanism,
        source: Randomness,
        identifier: str | None,
        codings: Mapping[str, Coding] | None = None,
    ) -> None:
        self._identifier = identifier
        self._codings = codings
        self._loop = Perturbation(mechanism, source, identifier or "id")
        self._tables = [components(assignment) for assignment in mechanism.assignments]
        self.totals = ReleaseTotals(mechanism, self._loop.seen)

    def drawn(self, block: Block) -> dict[str, Replacement]:
        """Drawn values of every perturbed column of the next block."""
        identifiers = None if self._identifier is None else block.values(self._identifier)
        out: dict[str, Replacement] = {}
        totals = self.totals
        totals.rows += block.rows
        loop = self._loop.drawn(lambda a: cells_of(a, block, self._codings), identifiers, block.first_row)
        for position, (assignment, cells, drawn) in enumerate(loop):
            for place, tally in enumerate(totals.tallies[position]):
                tally.add(assignment.values(place, drawn) if assignment.numeric else drawn, cells)
            if assignment.numeric:
                for place, (name, margin) in enumerate(zip(assignment.columns, assignment.margins, strict=True)):
                    totals.distances[name] = totals.distances[name].joined(margin, cells.column(place))
                    out[name] = Replacement.of_numbers(assignment.values(place, drawn), cells.present)
                    totals.missing[name] += block.rows - int(cells.present.sum())
                continue
            totals.held[position] += np.bincount(cells.codes[cells.present], minlength=totals.held[position].size)
            for place, name in enumerate(assignment.columns):
                codes = np.where(cells.present, self._tables[position][place][drawn], MISSING)
                out[name] = Replacement(codes, component(assignment, place))
                totals.missing[name] += block.rows - int(cells.present.sum())
        return out

"""One block at a time through the mechanism. The data are confidential: errors name column, row and count, never a value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Bool, Columns, Int, Words
from pramana.errors import DataError, MechanismError
from pramana.frames import Level, decode
from pramana.frames.blocks.stream import MISSING, UNKNOWN, Block, Replacement
from pramana.mechanism import Assignment, Mechanism, Stratified
from pramana.mechanism.draws.keyed import Repeats
from pramana.mechanism.draws.sources import Keyed, Source


@dataclass(frozen=True)
class Cells:
    """Codes of one assignment in a block; where `present` is false a column was missing and the code means nothing."""

    codes: Int
    present: Bool
    context: Columns


def cells_of(assignment: Assignment, block: Block) -> Cells:
    """The true codes of an assignment; an unknown value, combination or stratum is an error."""
    parts = [block.codes(name, component(assignment, place)) for place, name in enumerate(assignment.columns)]
    for name, codes in zip(assignment.columns, parts, strict=True):
        refuse_unknown(codes == UNKNOWN, name, block.first_row)
    present = np.all([codes != MISSING for codes in parts], axis=0)
    joined = parts[0] if len(parts) == 1 else _joined(assignment, parts, present, block.first_row)
    return Cells(np.where(present, joined, 0), present, _context(assignment, block, present))


def component(assignment: Assignment, place: int) -> Sequence[Level]:
    """Levels of one of an assignment's columns."""
    levels = assignment.component(place)
    if levels is None:
        raise MechanismError(
            f"column {assignment.columns[place]!r} passes a channel without levels: releases are of transition matrices"
        )
    return levels


def components(assignment: Assignment) -> list[Int]:
    """For every column, from the assignment's code to the column's own."""
    tables = []
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
            f"{first_row + rows[0]}: add the missing level to the mechanism or recode the column"
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
    if not isinstance(channel, Stratified):
        return {}
    strata = list(channel.strata)
    codes = block.codes(channel.by, strata)
    for code, what in ((UNKNOWN, "that are not strata of the mechanism"), (MISSING, "that are missing")):
        rows = np.flatnonzero((codes == code) & present)
        if rows.size:
            raise DataError(
                f"column {channel.by!r} has at least {rows.size} value(s) {what}, first in row {block.first_row + rows[0]}, and "
                "decides which transition matrix applies: give every record a stratum"
            )
    return {channel.by: decode(np.maximum(codes, 0), strata)}


class Tally(dict[object, Int]):
    """Released codes of an assignment, counted by stratum (None where there is one matrix)."""

    def __init__(self, assignment: Assignment) -> None:
        self._by = next(iter(assignment.channel.context), None)
        channel = assignment.channel
        strata: Iterable[object] = channel.strata if isinstance(channel, Stratified) else [None]
        super().__init__({s: np.zeros(len(channel.levels or ()), dtype=np.int64) for s in strata})

    def add(self, codes: Int, cells: Cells) -> None:
        for stratum, total in self.items():
            rows = cells.present if self._by is None else cells.present & (cells.context[self._by] == stratum)
            total += np.bincount(codes[rows], minlength=total.size)


class Perturbation:
    """The state that goes along a file: the source of randomness and the identifiers seen so far."""

    def __init__(self, mechanism: Mechanism, source: Source, identifier: str | None) -> None:
        self._mechanism = mechanism
        self._source = source
        self._identifier = identifier
        self._repeats = Repeats(identifier) if identifier is not None else None
        self._tables = [components(assignment) for assignment in mechanism.assignments]
        self.counts = [Tally(assignment) for assignment in mechanism.assignments]

    def released(self, block: Block) -> dict[str, Replacement]:
        """Drawn values of every perturbed column of the next block."""
        digests = self._digests(block)
        out: dict[str, Replacement] = {}
        for position, assignment in enumerate(self._mechanism.assignments):
            cells = cells_of(assignment, block)
            stream = self._source.stream(position, cells.codes, digests)
            drawn = assignment.channel.perturb(cells.codes, cells.context, stream)
            self.counts[position].add(drawn, cells)
            for place, name in enumerate(assignment.columns):
                codes = np.where(cells.present, self._tables[position][place][drawn], MISSING)
                out[name] = Replacement(codes, component(assignment, place))
        return out

    def _digests(self, block: Block) -> Words | None:
        if not isinstance(self._source, Keyed) or self._identifier is None or self._repeats is None:
            return None
        digests = self._source.digests(block.values(self._identifier), self._identifier, block.first_row)
        self._repeats.add(digests)
        return digests

    def finish(self) -> None:
        """Refuse identifiers that occurred twice."""
        if self._repeats is not None:
            self._repeats.check()

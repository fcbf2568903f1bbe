"""Encode, draw, decode: one loop for a frame in memory, the blocks of a file and the replicates of a study."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pramana.arrays import Bool, Column, Columns, Int, Words
from pramana.errors import DataError, MechanismError
from pramana.frames import Table, encode
from pramana.frames.table import is_missing
from pramana.mechanism.draws.keyed import Key, KeyedColumn, KeyedRecords, Least, OneValue, Repeats, key_of, secrets_of
from pramana.mechanism.draws.keystream import FreshKeystream, Keystream, RandomnessKind, SeededKeystream, SeededLanes
from pramana.mechanism.mechanism import Assignment, Mechanism


class Randomness(ABC):
    """Where the words of a perturbation come from: a fresh key, a kept one, or a seed."""

    kind: RandomnessKind

    @abstractmethod
    def stream(self, position: int, codes: Column, digests: Words | None, strata: Int | None) -> Keystream:
        """Words for the next block of true codes of the assignment at `position`, whose strata decide the matrix."""

    def digests(self, identifiers: Column | None, name: str, first_row: int) -> Words | None:  # noqa: ARG002
        """What the draws take from the records' identifiers; nothing, unless they are keyed."""
        return None


@dataclass(frozen=True)
class OneStream(Randomness):
    """One keystream for everything: no two draws share a word."""

    kind: RandomnessKind
    keystream: Keystream

    def stream(self, position: int, codes: Column, digests: Words | None, strata: Int | None) -> Keystream:  # noqa: ARG002
        return self.keystream


class SeededBlocks(Randomness):
    """Repeatable draws of a file that is read in blocks; the blocks change nothing."""

    kind = "seeded (insecure)"

    def __init__(self, seed: int, assignments: int, *file: int) -> None:
        """`file` is the place of the file among several, none of which shares its words with another."""
        self._lanes = [SeededLanes(seed, position, *file) for position in range(assignments)]

    def stream(self, position: int, codes: Column, digests: Words | None, strata: Int | None) -> Keystream:  # noqa: ARG002
        return self._lanes[position].block(len(codes))


class Keyed(Randomness):
    """Draws that belong to a record and its true level."""

    def __init__(self, key: Key, mechanism: Mechanism, kind: RandomnessKind = "keyed") -> None:
        self.key = key
        self.kind = kind
        self._records = KeyedRecords(key)
        self._columns = [KeyedColumn(key, a.columns, a.channel) for a in mechanism.assignments]

    def digests(self, identifiers: Column | None, name: str, first_row: int) -> Words:
        assert identifiers is not None
        return self._records.digests(identifiers, name, first_row)

    def stream(self, position: int, codes: Column, digests: Words | None, strata: Int | None) -> Keystream:
        assert digests is not None
        return self._columns[position].words(digests, codes, strata)


def randomness_of(
    mechanism: Mechanism, *, key: Key | bytes | str | Path | None, named: bool, seed: int | None, blocks: bool = False
) -> Randomness:
    """The source asked for; `named` says whether the records' identifier was given, `blocks` that a file is read in parts."""
    if key is not None and seed is not None:
        raise MechanismError("key and seed exclude each other: a key is for releases, a seed for tests")
    if mechanism.unit is not None and named:
        raise MechanismError(f"the draws go by the unit {mechanism.unit.column!r}: leave out id")
    if mechanism.unit is None and named != (key is not None):
        lacking = (
            "key draws need id, the column that identifies the records"
            if not named
            else "id is for keyed draws: give a key"
        )
        raise MechanismError(f"{lacking}, or leave out both for fresh draws")
    if seed is not None and not (isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0):
        raise MechanismError(f"seed={seed!r} must be a whole number of at least 0")
    if key is not None:
        return Keyed(key_of(key), mechanism)
    if mechanism.unit is not None:  # a key that is never stored, so that a unit's records meet the same words
        secret = secrets.token_bytes(32) if seed is None else SeededKeystream(seed).words(4).tobytes()
        return Keyed(Key(secret), mechanism, "fresh" if seed is None else "seeded (insecure)")
    if seed is None:
        return OneStream("fresh", FreshKeystream())
    if blocks:
        return SeededBlocks(seed, len(mechanism.assignments))
    return OneStream("seeded (insecure)", SeededKeystream(seed))


@dataclass(frozen=True)
class Cells:
    """Codes of one assignment in a block of records; where `present` is false a column was missing and the code means nothing."""

    codes: Column
    present: Bool
    context: Columns

    def column(self, place: int) -> Cells:
        """Of one of the columns that share a noise; all of them where there is one."""
        return self if self.codes.ndim == 1 else Cells(self.codes[:, place], self.present, self.context)


class Seen:
    """Identifiers of the records so far, and which true values their units hold; those of several files join."""

    def __init__(self, mechanism: Mechanism, identifier: str) -> None:
        self._mechanism = mechanism
        self.repeats = Repeats(identifier)
        self.one_value = OneValue(identifier)
        self.least = Least()

    def join(self, other: Seen) -> None:
        """Go on with the records of another file."""
        self.repeats.join(other.repeats)
        self.one_value.join(other.one_value)
        self.least.join(other.least)

    def check(self, place: Callable[[int], str] = "row {}".format) -> None:
        """Refuse identifiers that occurred twice, and units whose records differ; `place` names a record by its number."""
        self.repeats.check(place)
        if self._mechanism.unit is not None and not self._mechanism.unit.varies:
            self.one_value.check()

    def units_by_level(self) -> list[Int] | None:
        """How many units hold each true level, by assignment; None where every record is its own unit."""
        if self._mechanism.unit is None:
            return None
        out = []
        for a in self._mechanism.assignments:
            levels, strata = len(a.channel.levels or ()), len(a.channel.parts)
            if not levels:
                out.append(np.zeros(0, dtype=np.int64))
                continue
            out.append(self.one_value.counts(a.columns, levels * strata).reshape(levels, strata).sum(axis=1))
        return out


class Perturbation:
    """The loop over blocks and assignments, with what goes along it: source of randomness and identifiers seen so far.

    Parameters
    ----------
    identifier : with keyed draws, what the column that identifies the records is called.
    """

    def __init__(self, mechanism: Mechanism, source: Randomness, identifier: str = "id") -> None:
        self.mechanism = mechanism
        self._source = source
        self._identifier = identifier
        self.seen = Seen(mechanism, identifier)

    def drawn(
        self, read: Callable[[Assignment], Cells], identifiers: Column | None = None, first_row: int = 0
    ) -> Iterator[tuple[Assignment, Cells, Column]]:
        """True cells of the next block and the codes released for them, assignment by assignment.

        Parameters
        ----------
        read : from an assignment to its cells in the block; unknown values are its errors, which quote none.
        identifiers : with keyed draws, the identifier of every record of the block.
        """
        digests = self._source.digests(identifiers, self._identifier, first_row)
        unit = self.mechanism.unit
        if digests is not None:
            self.seen.least.add(digests)
        if digests is not None and unit is None:
            self.seen.repeats.add(digests)
        for position, assignment in enumerate(self.mechanism.assignments):
            cells = read(assignment)
            if digests is not None and unit is not None:
                self.seen.one_value.add(
                    assignment.columns, digests[cells.present], _secret(assignment, cells)[cells.present]
                )
            strata = _strata(assignment, cells) if digests is not None else None
            stream = self._source.stream(position, cells.codes, digests, strata)
            codes = cells.codes
            if cells.present.any():
                codes = assignment.channel.perturb(codes, cells.context, stream)
            yield assignment, cells, codes


def _secret(assignment: Assignment, cells: Cells) -> Int:
    """What must be the same in all records of a unit that have a value: the true code and the stratum."""
    strata = _strata(assignment, cells)
    values = secrets_of(assignment.channel, cells.codes, strata)
    return values if strata is None else values * len(assignment.channel.parts) + strata


def _strata(assignment: Assignment, cells: Cells) -> Int | None:
    """Position of each record's stratum; None where there are none."""
    if not assignment.channel.context or not cells.present.any():
        return None
    by = assignment.channel.context[0]
    return encode(cells.context[by], list(assignment.channel.parts), column=by)


def perturbed(mechanism: Mechanism, table: Table, source: Randomness, identifiers: Any = None) -> dict[str, Column]:
    """New values of every perturbed column; rows with a missing value keep what they had."""
    name = identifiers if isinstance(identifiers, str) else "id"
    values = None if identifiers is None else _identifiers(mechanism, table, identifiers)
    perturbation = Perturbation(mechanism, source, name)
    out = {}
    for assignment, cells, codes in perturbation.drawn(lambda a: cells_in(table, a), values):
        for column, values in assignment.released(codes).items():
            out[column] = _with_gaps(_original(table, assignment, column), cells.present, values)
    perturbation.seen.check()
    return out


def _original(table: Table, assignment: Assignment, column: str) -> Column:
    """What stood in a released column before; nothing, where it is a new one for reports."""
    if column in assignment.columns:
        return table.column(column)
    if column in table.names:
        raise DataError(f"the data have a column {column!r}, in which the reports are to lie: rename one of the two")
    return np.full(table.n, None, dtype=object)


def _identifiers(mechanism: Mechanism, table: Table, given: Any) -> Column:
    if isinstance(given, str) and given in mechanism.columns:
        raise DataError(f"the identifier {given!r} is perturbed itself: use an unperturbed column")
    values = table.column(given) if isinstance(given, str) else np.asarray(given)
    if values.shape != (table.n,):
        raise DataError(f"id has shape {values.shape} but the data have {table.n} records: give one value a record")
    return values


def cells_in(table: Table, assignment: Assignment) -> Cells:
    """The true codes of an assignment in a table; errors name column, row and count."""
    present = ~table.missing(assignment.columns)
    if not present.any():
        return Cells(np.zeros(table.n, dtype=np.int64), present, {})
    for name in assignment.channel.context:
        _refuse_unknown_stratum(table, name, present)
    context = {name: _filled(values, present) for name, values in assignment.context(table).items()}
    columns = [
        _filled(table.column(name), present, _stand_in(assignment, place))
        for place, name in enumerate(assignment.columns)
    ]
    return Cells(assignment.channel.encode(columns, assignment.columns), present, context)


def _refuse_unknown_stratum(table: Table, name: str, present: Bool) -> None:
    """Without its stratum a record cannot be perturbed, and it must not be released as it is."""
    rows = np.flatnonzero(table.missing([name]) & present)
    if rows.size:
        raise DataError(
            f"column {name!r} has {rows.size} missing value(s), first in row {rows[0]}, and decides which transition matrix "
            "applies: fill them in, or give them a stratum of their own"
        )


def _stand_in(assignment: Assignment, place: int) -> object:
    """A value that the channel knows, or None for a continuous one."""
    levels = assignment.component(place)
    return None if levels is None else levels[0]


def _filled(values: Column, present: Bool, stand_in: object = None) -> Column:
    """Gaps filled, so that row numbers stay true; what is drawn for them is not used."""
    if present.all():
        return values
    out = values.copy()
    out[~present] = values[np.argmax(present)] if stand_in is None else stand_in
    return out


def _with_gaps(original: Column, present: Bool, values: Column) -> Column:
    if present.all():
        return values
    out = original.astype(object)
    out[present] = values[present]
    out[~present & ~is_missing(original)] = None  # another column of the same draw is missing: the truth must not show
    return out

"""Where the draws of a release come from: a fresh key, a kept one, or a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pramana.arrays import Column, Int, Words
from pramana.errors import MechanismError
from pramana.mechanism.draws.keyed import Key, KeyedColumn, KeyedRecords, key_of
from pramana.mechanism.draws.keystream import FreshKeystream, Keystream, RandomnessKind, SeededKeystream, SeededLanes
from pramana.mechanism.mechanism import Mechanism


class Source(Protocol):
    """A stream for every block of true codes."""

    @property
    def kind(self) -> RandomnessKind: ...

    def stream(self, position: int, codes: Int, digests: Words | None) -> Keystream:
        """Words for the next block of the assignment at `position`."""


class Fresh:
    """One keystream for everything: no two draws share a word."""

    kind: RandomnessKind = "fresh"

    def __init__(self) -> None:
        self._keystream = FreshKeystream()

    def stream(self, position: int, codes: Int, digests: Words | None) -> Keystream:  # noqa: ARG002
        return self._keystream


class Seeded:
    """Repeatable draws of a frame that is perturbed as a whole."""

    kind: RandomnessKind = "seeded (insecure)"

    def __init__(self, seed: int) -> None:
        self._keystream = SeededKeystream(seed)

    def stream(self, position: int, codes: Int, digests: Words | None) -> Keystream:  # noqa: ARG002
        return self._keystream


class SeededBlocks:
    """Repeatable draws of a file that is read in blocks; the blocks change nothing."""

    kind: RandomnessKind = "seeded (insecure)"

    def __init__(self, seed: int, assignments: int) -> None:
        self._lanes = [SeededLanes(seed, position) for position in range(assignments)]

    def stream(self, position: int, codes: Int, digests: Words | None) -> Keystream:  # noqa: ARG002
        return self._lanes[position].block(codes.size)


class Keyed:
    """Draws that belong to a record and its true level."""

    kind: RandomnessKind = "keyed"

    def __init__(self, key: Key, mechanism: Mechanism) -> None:
        self.key = key
        self._records = KeyedRecords(key)
        self._columns = [KeyedColumn(key, a.columns, a.channel) for a in mechanism.assignments]

    def digests(self, identifiers: Column, name: str, first_row: int = 0) -> Words:
        return self._records.digests(identifiers, name, first_row)

    def stream(self, position: int, codes: Int, digests: Words | None) -> Keystream:
        assert digests is not None
        return self._columns[position].words(digests, codes)


def source_of(
    mechanism: Mechanism, *, key: Key | bytes | str | Path | None, named: bool, seed: int | None, blocks: bool = False
) -> Source:
    """The source asked for; `named` says whether the records' identifier was given."""
    if key is not None and seed is not None:
        raise MechanismError("key and seed exclude each other: a key is for releases, a seed for tests")
    if named != (key is not None):
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
    if seed is None:
        return Fresh()
    return SeededBlocks(seed, len(mechanism.assignments)) if blocks else Seeded(seed)

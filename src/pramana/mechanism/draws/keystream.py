"""Keystreams: where the randomness of a perturbation comes from."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from pramana.arrays import Int, Words

BLOCK = 65_536
"""Words made at a time: half a megabyte, which stays in the second-level cache until it is used."""

_APART = 0x5052414D

RandomnessKind: TypeAlias = Literal["fresh", "keyed", "seeded (insecure)"]


class Keystream(ABC):
    """Independent uniform 64-bit words."""

    repeatable: bool = True
    """Whether anyone can draw the same words again, so that how many a cell takes is part of the answer."""

    @abstractmethod
    def words(self, count: int) -> Words:
        """The next words (count,), one a record."""

    def blocks(self, count: int, lanes: int) -> Iterator[tuple[slice, list[Words]]]:
        """Rows, and `lanes` words for each of them; all rows at once unless a stream does better."""
        yield slice(0, count), [self.words(count) for _ in range(lanes)]

    def at(self, rows: Int) -> Keystream:  # noqa: ARG002
        """The stream for some of the records: a plain stream just goes on, words that belong to records are picked."""
        return self


class FreshKeystream(Keystream):
    """AES-256 in counter mode under a key drawn here and never stored."""

    repeatable = False

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        cipher = Cipher(algorithms.AES256(secrets.token_bytes(32)), modes.CTR(secrets.token_bytes(16)))
        self._encryptor = cipher.encryptor()

    def words(self, count: int) -> Words:
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype="<u8")

    def blocks(self, count: int, lanes: int) -> Iterator[tuple[slice, list[Words]]]:
        """Block by block; the memory is used again for the next block."""
        zeros = memoryview(bytes(8 * min(count, BLOCK)))
        memory = [bytearray(len(zeros) + 15) for _ in range(lanes)]
        for low in range(0, count, BLOCK):
            size = min(BLOCK, count - low)
            for lane in memory:
                self._encryptor.update_into(zeros[: 8 * size], lane)
            yield slice(low, low + size), [np.frombuffer(lane, "<u8", size) for lane in memory]


class SeededKeystream(Keystream):
    """Reproducible words for tests and examples: anyone who knows the seed can undo the perturbation."""

    def __init__(self, seed: int, *path: int) -> None:
        # Set apart from default_rng(seed), which may have made the data: draws must not be tied to the truth.
        self._bits = np.random.PCG64(np.random.SeedSequence([_APART, seed, *path]))

    def words(self, count: int) -> Words:
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64).reshape(count)


@dataclass
class RowWords(Keystream):
    """Words that belong to rows: the k-th request gets every row's k-th word, whatever was asked for before.

    Attributes
    ----------
    lane : from k to the k-th words of all rows of the block.
    rows : the rows meant, or None for all.
    """

    lane: Callable[[int], Words]
    rows: Int | None = None
    _next: int = field(default=0, init=False)

    def words(self, count: int) -> Words:
        found = self.lane(self._next)
        self._next += 1
        found = found if self.rows is None else found[self.rows]
        if found.size != count:
            raise ValueError(f"{count} words asked for {found.size} rows")
        return found

    def at(self, rows: Int) -> RowWords:
        return RowWords(self.lane, rows if self.rows is None else self.rows[rows])


class SeededLanes:
    """One column's reproducible words, the same however its rows are cut into blocks."""

    def __init__(self, seed: int, column: int, *file: int) -> None:
        self._path = (seed, column, *file)
        self._lanes: list[SeededKeystream] = []

    def block(self, count: int) -> RowWords:
        """Words of the next `count` rows."""
        made: dict[int, Words] = {}

        def lane(k: int) -> Words:
            while len(self._lanes) <= k:
                self._lanes.append(SeededKeystream(*self._path, len(self._lanes)))
            if k not in made:
                made[k] = self._lanes[k].words(count)
            return made[k]

        # Every lane moves on with every block, used or not, so that lanes stay level with the rows.
        for k in range(2):
            lane(k)
        return RowWords(lane)

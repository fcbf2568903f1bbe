"""Local hashing: a person hashes the level by a function of their own and reports its value after a randomised response."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pramana.arrays import Bool, Column, Columns, Int
from pramana.errors import DataError, MechanismError
from pramana.frames import Kind, Level
from pramana.mechanism.channel import Document
from pramana.mechanism.channels.checks import checked_epsilon
from pramana.mechanism.channels.encodings.encoding import EncodingOfLoss, refuse_no_text
from pramana.mechanism.channels.matrix_forms import Mixture
from pramana.mechanism.channels.reports import refuse_report, whole_numbers
from pramana.mechanism.draws.keystream import Keystream

SEEDS = 1 << 63
"""Seeds are below it; xxh32 takes their last 32 bits."""
SHARED = 10
"""So many people a seed, on average, are too many for people who drew their own."""
NUMBER = re.compile("[0-9]{1,19}")
REPORT = re.compile(f"{NUMBER.pattern}:{NUMBER.pattern}")
Hash = npt.NDArray[np.uint32]


@dataclass(frozen=True, init=False, repr=False)
class LocalHashing(EncodingOfLoss):
    """The level's number (from 0) hashed to one of g values by xxh32 with the person's seed, which goes through a randomised response.

    OLH of Wang and others (2017); the hash is that of multi-freq-ldpy, `xxh32(str(number), seed) % g`. A report is a seed and a value: text
    "seed:value" in a column with the variable's name, or two columns. It is unbiased over the hash functions, not given one of them:
    seeds must have been drawn independently for each person, and a file in which many reports share theirs is refused.

    Parameters
    ----------
    buckets : g; by default round(e^ε) + 1, which gives rare levels the smallest variance. 2 is binary local hashing.
    columns : the columns of a released file with seed and value; left out where reports are text in one column.

    >>> LocalHashing(range(100), epsilon=2.0, kind="nominal")
    LocalHashing(100 levels: 0, 1, 2, 3 and 96 more; nominal; epsilon 2, p 0.5135, q 0.125)
    """

    loss: float
    buckets: int
    levels: tuple[Level, ...] = ()
    kind: Kind | None = None
    reported: tuple[str, ...] = ()

    def __init__(
        self,
        levels: Sequence[Level],
        epsilon: float,
        buckets: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> None:
        loss = checked_epsilon(epsilon)
        if loss > 20 and buckets is None:
            raise MechanismError(
                f"epsilon={epsilon!r} would need {math.exp(loss):.1e} buckets: state buckets=, or use a TransitionMatrix"
            )
        chosen = round(math.exp(loss)) + 1 if buckets is None else buckets
        if not (isinstance(chosen, int) and not isinstance(chosen, bool) and 2 <= chosen < 1 << 31):
            raise MechanismError(f"buckets={buckets!r} must be a whole number from 2 to 2³¹ − 1")
        self._fill(levels, kind, columns, [2], loss=loss, buckets=chosen)

    @property
    def hit(self) -> float:
        return 1 / (1 + (self.buckets - 1) * math.exp(-self.loss))

    @property
    def false_hit(self) -> float:
        """Another level's hash is even over the buckets, whatever the value reported."""
        return 1 / self.buckets

    @property
    def texts(self) -> tuple[str, ...]:
        return () if self.reported else ("0:0",)

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Int:  # noqa: ARG002
        """Seeds and values (n, 2)."""
        seeds = stream.words(len(encoded)) >> np.uint64(32)
        hashed = np.empty(len(encoded), dtype=np.int64)
        for k in range(len(self.levels)):
            rows = np.flatnonzero(encoded == k)
            hashed[rows] = xxh32(k, seeds[rows].astype(np.uint32)) % self.buckets
        even = np.full(self.buckets, 1 / self.buckets)
        refill = (1 - self.hit) * self.buckets / (self.buckets - 1)
        return np.column_stack([seeds.astype(np.int64), Mixture(refill, even).draw(hashed, stream)])

    def read(self, columns: Sequence[Column], names: Sequence[str]) -> Bool:
        seeds, values = self._pairs(columns, names)
        short = (seeds & 0xFFFFFFFF).astype(np.uint32)
        out = np.empty((len(seeds), len(self.levels)), dtype=bool)
        for k in range(len(self.levels)):
            out[:, k] = xxh32(k, short) % self.buckets == values
        return out

    def check_together(self, columns: Sequence[Column], names: Sequence[str], people: int) -> None:
        """A few shared seeds are an accident; many mean that one function's collisions are everybody's."""
        distinct = len(np.unique(self._pairs(columns, names)[0]))
        if people > 1 and (distinct == 1 or SHARED * distinct < people):
            raise DataError(
                f"column {names[0]!r} holds {distinct} seed(s) for {people} reports: levels that one seed's hash takes for each other stay so "
                "however many share it, and estimates are biased. Each person must draw a seed of their own, and the file must hold it; "
                "where records of one person repeat a report, name the unit (mechanism.with_unit)"
            )

    def _pairs(self, columns: Sequence[Column], names: Sequence[str]) -> tuple[Int, Int]:
        pairs = columns if len(names) > 1 else self._parted(columns[0], names[0])
        seed_name, value_name = names if len(names) > 1 else (names[0], names[0])
        whole = "a seed is a whole number from 0 to 2⁶³ − 1"
        seeds = whole_numbers(pairs[0], seed_name, SEEDS, f"a seed and a value; {whole}", "give each person's own seed")
        told = f"a seed and a value; a value is a whole number from 0 to {self.buckets - 1}"
        values = whole_numbers(pairs[1], value_name, self.buckets, told, "state the number of values (buckets=...)")
        return seeds, values

    def _parted(self, values: Column, name: str) -> tuple[Column, Column]:
        expected = "text 'seed:value', two whole numbers"
        texts = refuse_no_text(values, name, expected)
        whole = "\n".join(texts)
        if NUMBER.sub("0", whole) != "\n".join(["0:0"] * len(texts)):  # much faster than one text after the other
            bad = [i for i, text in enumerate(texts) if not REPORT.fullmatch(text)]
            refuse_report(
                values, np.array(bad, dtype=np.int64), name, expected, "or name the two columns (columns=[seed, value])"
            )
        numbers = np.fromstring(whole.replace(":", " "), dtype=np.uint64, sep=" ").reshape(-1, 2)
        return numbers[:, 0], numbers[:, 1]

    def written(self, drawn: Column) -> list[Column]:
        if self.reported:
            return list(drawn.T)
        out = np.empty(len(drawn), dtype=object)
        out[:] = [f"{seed}:{value}" for seed, value in drawn.tolist()]
        return [out]

    def document(self) -> Document:
        return self._document("local_hashing", epsilon=self.loss, buckets=self.buckets, hash="xxh32")


_P1, _P2, _P3, _P4, _P5 = (np.uint32(v) for v in (2654435761, 2246822519, 3266489917, 668265263, 374761393))


def xxh32(number: int, seeds: Hash) -> npt.NDArray[np.int64]:
    """The hash of a number's decimal digits (fewer than 16 of them) under many seeds; Collet's specification, version 0.1.1.

    >>> xxh32(12, np.array([0, 1], dtype=np.uint32)).tolist()
    [3560278447, 3742249769]
    """
    data = str(number).encode()
    with np.errstate(over="ignore"):
        h = seeds + _P5 + np.uint32(len(data))
        whole = len(data) // 4 * 4
        for word in np.frombuffer(data[:whole], dtype="<u4"):
            h = _rotated(h + word * _P3, 17) * _P4
        for byte in data[whole:]:
            h = _rotated(h + np.uint32(byte) * _P5, 11) * _P1
        h = (h ^ (h >> np.uint32(15))) * _P2
        h = (h ^ (h >> np.uint32(13))) * _P3
        return (h ^ (h >> np.uint32(16))).astype(np.int64)


def _rotated(h: Hash, by: int) -> Hash:
    return (h << np.uint32(by)) | (h >> np.uint32(32 - by))

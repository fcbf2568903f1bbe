"""Records with few distinct combinations of values, collapsed to cells: each combination once, with the number of its records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pramana.arrays import Int
from pramana.frames.metadata import in_an_order
from pramana.frames.sources import Source
from pramana.frames.workers import SourcePart, Threads, Workers, batches_of
from pramana.progress import bar

LEVELS = 10_000
"""Distinct values of a column above which its records are not collapsed."""
CELLS = 100_000
"""Distinct combinations above which they are not."""
SAVING = 8
"""Records that a cell must stand for on average, to be worth it."""
ROWS = 100_000
"""Records from which on a collapse is tried."""
NEAR = 256
"""Range of whole numbers below which they are told apart without a look-up."""
_DENSE = 1 << 20
_WAITING = 1 << 16
"""Cells of batches that wait to be put together, at least."""


def cells(source: Source, columns: Sequence[str], workers: Workers | None = None) -> tuple[pa.Table, Int] | None:
    """Every combination of values once, in the order of the values, and how many records have it.

    None where the combinations are too many, or the records too few. Neither that nor the order depends on the batches that the
    records come in. Missing values are values here.
    """
    known = Values()
    found = Combinations(tuple(columns), known)
    workers, done, listed = workers or Threads(), 0, dict[str, list[Any]]()
    with bar(f"Counting combinations in {source.label}", unit="rows") as tell:
        for parts in workers.answers(partial(_counted, tuple(columns)), workers.parts(source, columns)):
            if parts is None:
                return None
            for part in parts:
                listed = listed or dict(zip(columns, (v[:-1] for v in part.values), strict=True))
                found.add(part, done)
                done += int(part.counts.sum())
                if known.most(columns) > LEVELS or (len(found) > CELLS and found.size > CELLS):
                    return None
            tell(done, source.rows or 0)
    if found.size > CELLS or done < ROWS or found.size * SAVING > done:
        return None
    order = found.by_value()
    return _in_their_orders(found.table(source.schema, order), source.schema, listed), found.counts[order]


def _in_their_orders(table: pa.Table, schema: pa.Schema, listed: Mapping[str, list[Any]]) -> pa.Table:
    """Columns whose categories have an order as the dictionaries that list them, values that a later batch had at the end."""
    table = table.replace_schema_metadata(schema.metadata)
    for place, name in enumerate(table.column_names):
        if not in_an_order(schema, name, listed[name]):
            continue
        told = schema.field(name).type
        kind = pa.dictionary(pa.int32(), told.value_type, ordered=told.ordered)
        whole = pa.array(
            dict.fromkeys([*listed[name], *table.column(place).drop_null().unique().to_pylist()]), kind.value_type
        )
        codes = pc.index_in(table.column(place).combine_chunks(), whole)
        table = table.set_column(
            place, pa.field(name, kind), pa.DictionaryArray.from_arrays(codes, whole, ordered=kind.ordered)
        )
    return table


def ordered_among(schema: pa.Schema, columns: Iterable[str]) -> bool:
    """Whether one of the columns has categories in an order of their own."""
    kinds = [schema.field(name).type for name in columns]
    return any(pa.types.is_dictionary(kind) and kind.ordered for kind in kinds)


@dataclass(frozen=True)
class Coded:
    """One column of a batch: values, a gap as None, and the place of every record's among them (n,)."""

    values: list[Any]
    places: Int

    @classmethod
    def of(cls, array: pa.Array) -> Coded:
        return cls._near_each_other(array) or cls._listed(array)

    @classmethod
    def _near_each_other(cls, array: pa.Array) -> Coded | None:
        """Whole numbers of a small range, whose places need no look-up; None of anything else."""
        kind = array.type
        if not pa.types.is_integer(kind) or kind.bit_width > 32 or array.null_count or not len(array):
            return None
        low, high = pc.min_max(array).as_py().values()
        if high - low >= NEAR:
            return None
        places = np.subtract(array.to_numpy(), low, dtype=np.int32 if kind.bit_width <= 16 else np.int64)
        if high - low < 2:  # both ends occur
            return cls([*range(low, high + 1), None], places)
        seen = np.flatnonzero(np.bincount(places, minlength=high - low + 1))
        place = np.zeros(high - low + 1, dtype=np.int32)
        place[seen] = np.arange(seen.size)
        return cls([*(low + seen).tolist(), None], place[places])

    @classmethod
    def _listed(cls, array: pa.Array) -> Coded:
        listed = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array, null_encoding="encode")
        own = listed.dictionary.to_pylist()
        return cls([*own, None], listed.indices.fill_null(len(own)).to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class CellPart:
    """The combinations of one batch: values of each column, codes of the combinations (m,) among them, their counts (m,) and the
    places of the first record of each (m,), which ascend."""

    values: list[list[Any]]
    codes: list[Int]
    counts: Int
    first: Int

    @classmethod
    def of(cls, columns: Sequence[Coded]) -> CellPart:
        """Of records with these columns."""
        values, codes = [c.values for c in columns], [c.places for c in columns]
        place, counts = grouped(codes, [len(v) for v in values])
        order = np.argsort(place)
        place = place[order]
        return cls(values, [c[place] for c in codes], counts[order], place)

    def of_columns(self, which: Sequence[int]) -> CellPart:
        """The combinations of some of the columns, by their numbers."""
        return CellPart(
            [self.values[k] for k in which], [self.codes[k] for k in which], self.counts, self.first
        ).collapsed()

    def collapsed(self) -> CellPart:
        """With each combination once."""
        place, counts = grouped(self.codes, [len(v) for v in self.values], self.counts)
        order = np.argsort(self.first[place], kind="stable")
        place = place[order]
        return CellPart(self.values, [c[place] for c in self.codes], counts[order], self.first[place])


def grouped(codes: Sequence[Int], sizes: Sequence[int], counts: Int | None = None) -> tuple[Int, Int]:
    """Of every combination of codes that occurs the place at which it does first (m,), and the sum of its counts (m,), each 1 by default."""
    key, radix = _key(codes, sizes)
    if radix > max(_DENSE, 4 * key.size):
        first, place = np.unique(key, return_index=True, return_inverse=True)[1:]
        return first, np.bincount(place.ravel(), counts, first.size).astype(np.int64)
    first = np.full(radix, -1)
    first[key[::-1]] = np.arange(key.size)[::-1]  # the last one that is written stays
    held = np.flatnonzero(first >= 0)
    return first[held], np.bincount(key, counts, radix)[held].astype(np.int64)


def _key(codes: Sequence[Int], sizes: Sequence[int]) -> tuple[Int, int]:
    """One number for each combination (n,), and how many there could be. In place, and in half the bytes where these suffice: fresh arrays of this
    size cost twenty times the arithmetic."""
    key: Any = np.array(codes[0], dtype=np.int32 if prod(sizes) < 1 << 31 else np.int64)
    radix = sizes[0]
    for own, size in zip(codes[1:], sizes[1:], strict=True):
        if radix * size > 1 << 62:
            seen, key = np.unique(key, return_inverse=True)
            radix = seen.size
        key *= size
        np.add(key, own, out=key, casting="unsafe")
        radix *= size
    return key, radix


def _counted(columns: Sequence[str], part: SourcePart) -> list[CellPart] | None:
    """The combinations of every batch of a part; None where a column has too many values."""
    found: list[CellPart] = []
    for batch in batches_of(part, columns):
        coded = coded_columns(batch.columns, LEVELS)
        if coded is None:
            return None
        found.append(CellPart.of(coded))
    return found


def coded_columns(arrays: Iterable[pa.Array], most: int) -> list[Coded] | None:
    """The columns of a batch; None where one of them has more values."""
    found = []
    for array in arrays:
        coded = None if varied(array, most) else Coded.of(array)
        if coded is None or len(coded.values) > most + 1:
            return None
        found.append(coded)
    return found


def varied(array: pa.Array, most: int) -> bool:
    """Whether the first of many numbers alone are too many different ones, which would take long to list."""
    number = pa.types.is_floating(array.type) or pa.types.is_integer(array.type)
    return number and pc.count_distinct(array.slice(0, 2 * most)).as_py() > most


@dataclass
class Values:
    """Distinct values of columns in all batches so far, by column: each with its code. NaN is missing, and −0.0 is 0.0."""

    known: dict[str, dict[Any, int]] = field(default_factory=dict)

    def codes(self, column: str, values: Sequence[Any], used: Int) -> Int:
        """The codes of those among the values of a batch that are in use, by their places; others have none."""
        known = self.known.setdefault(column, {})
        codes = np.zeros(len(values), dtype=np.int64)
        for place in np.unique(used).tolist():
            value = values[place]
            key = None if value is None or value != value else value
            codes[place] = known.setdefault(key, len(known))
        return codes

    def most(self, columns: Iterable[str]) -> int:
        """Values of the column that has the most of them."""
        return max((len(self.known.get(name, ())) for name in columns), default=0)


@dataclass
class Combinations:
    """The cells of all batches so far, which come in the order of the records."""

    columns: tuple[str, ...]
    values: Values
    _codes: list[list[Int]] = field(default_factory=list)
    _counts: list[Int] = field(default_factory=list)
    _first: list[Int] = field(default_factory=list)
    _settled: bool = True

    def __len__(self) -> int:
        """Cells, some of which may still be counted more than once."""
        return sum(len(counts) for counts in self._counts)

    def add(self, part: CellPart, first: int) -> None:
        """The cells of one more batch, whose first record has this place among all."""
        before = len(self._counts[0]) if self._counts else 0
        pairs = zip(self.columns, part.values, part.codes, strict=True)
        self._codes.append([self.values.codes(name, values, codes)[codes] for name, values, codes in pairs])
        self._counts.append(part.counts)
        self._first.append(part.first + first)
        self._settled = False
        if len(self) > max(2 * before, _WAITING):
            self._together()

    def _together(self) -> None:
        """Each combination once, with its first record: that of the batch that came first."""
        if self._settled:
            return
        self._settled = True
        whole = [np.concatenate(parts) for parts in zip(*self._codes, strict=True)]
        sizes = [len(self.values.known[name]) for name in self.columns]
        place, counts = grouped(whole, sizes, np.concatenate(self._counts))
        first = np.concatenate(self._first)[place]
        self._codes, self._counts, self._first = [[c[place] for c in whole]], [counts], [first]

    @property
    def size(self) -> int:
        """Distinct combinations."""
        self._together()
        return len(self)

    @property
    def counts(self) -> Int:
        """Records of each (m,)."""
        self._together()
        return self._counts[0] if self._counts else np.zeros(0, dtype=np.int64)

    @property
    def first(self) -> Int:
        """The place of the first record of each among all (m,)."""
        self._together()
        return self._first[0] if self._first else np.zeros(0, dtype=np.int64)

    def by_value(self) -> Int:
        """The order of the combinations by their values, missing ones last."""
        self._together()
        ranks = []
        for name, codes in zip(self.columns, self._codes[0], strict=True):
            known = self.values.known[name]
            by_value = sorted(known, key=lambda v: (v is None, 0 if v is None else v))
            rank = np.empty(len(known), dtype=np.int64)
            rank[[known[v] for v in by_value]] = np.arange(len(known))
            ranks.append(rank[codes])
        return np.lexsort(ranks[::-1])

    def table(self, schema: pa.Schema, order: Int, names: Collection[str] | None = None) -> pa.Table:
        """The values of the combinations, one in a row, in an order; all columns, or some."""
        self._together()
        arrays = {}
        codes = self._codes[0] if self._codes else [np.zeros(0, dtype=np.int64)] * len(self.columns)
        for name, own in zip(self.columns, codes, strict=True):
            if names is None or name in names:
                kind = schema.field(name).type
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                arrays[name] = pa.array([*self.values.known.get(name, ())], kind).take(pa.array(own[order]))
        return pa.table(arrays)

"""Records with few distinct combinations of values, collapsed to cells: each combination once, with the number of its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pramana.arrays import Int
from pramana.frames.sources import Source
from pramana.frames.workers import Part, Threads, Workers, batches_of
from pramana.progress import bar

LEVELS = 10_000
"""Distinct values of a column above which its records are not collapsed."""
CELLS = 100_000
"""Distinct combinations above which they are not."""
SAVING = 8
"""Records that a cell must stand for on average, to be worth it."""
ROWS = 100_000
"""Records from which on a collapse is tried."""
_DENSE = 1 << 20


def cells(source: Source, columns: Sequence[str], workers: Workers | None = None) -> tuple[pa.Table, Int] | None:
    """Every combination of values once, in the order of the values, and how many records have it.

    None where the combinations are too many, or the records too few. Neither that nor the order depends on the batches that the
    records come in. Missing values are values here.
    """
    if any(
        pa.types.is_dictionary(source.schema.field(c).type) and source.schema.field(c).type.ordered for c in columns
    ):
        return None  # whose order a collapsed column would lose
    found = _Combinations(list(columns))
    workers, done = workers or Threads(), 0
    with bar(f"Counting combinations in {source.label}", unit="rows") as tell:
        for parts in workers.answers(partial(_counted, tuple(columns)), workers.parts(source, columns)):
            if parts is None or not all(map(found.add, parts)):
                return None
            done += sum(int(part.counts.sum()) for part in parts)
            tell(done, source.rows or 0)
    total = int(sum(found.counts))
    if total < ROWS or len(found.counts) * SAVING > total:
        return None
    order, codes = found.sorted()
    return found.table(source.schema, codes), np.asarray(found.counts, dtype=np.int64)[order]


@dataclass(frozen=True)
class _Part:
    """The combinations of one batch: values of each column, codes of the combinations (m,) among them, and their counts (m,)."""

    values: list[list[Any]]
    codes: list[Int]
    counts: Int


def _counted(columns: Sequence[str], part: Part) -> list[_Part] | None:
    """The combinations of every batch of a part; None where a column has too many values."""
    found: list[_Part] = []
    for batch in batches_of(part, columns):
        own = _combinations(batch)
        if own is None:
            return None
        found.append(own)
    return found


def _combinations(batch: pa.RecordBatch) -> _Part | None:
    """None where a column has too many values."""
    values: list[list[Any]] = []
    codes: list[Int] = []
    if any(map(_varied, batch.columns)):
        return None
    for array in batch.columns:
        listed = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array, null_encoding="encode")
        if len(listed.dictionary) > LEVELS:
            return None
        own = listed.dictionary.to_pylist()
        places = listed.indices.fill_null(len(own)).to_numpy(zero_copy_only=False)
        values.append([*own, None])
        codes.append(places)
    sizes = [len(v) for v in values]
    if float(np.prod([float(s) for s in sizes])) > 2.0**62:
        return None
    key = np.zeros(batch.num_rows, dtype=np.int64)
    for size, place in zip(sizes, codes, strict=True):
        key = key * size + place
    whole = int(np.prod(sizes))
    if whole <= _DENSE:
        counts = np.bincount(key, minlength=whole)
        distinct = np.flatnonzero(counts)
        counts = counts[distinct]
    else:
        distinct, counts = np.unique(key, return_counts=True)
    out: list[Int] = []
    for size in reversed(sizes):
        distinct, place = np.divmod(distinct, size)
        out.append(place)
    return _Part(values, out[::-1], counts)


def _varied(array: pa.Array) -> bool:
    """Whether the first of many numbers alone are too many different ones, which would take long to list."""
    number = pa.types.is_floating(array.type) or pa.types.is_integer(array.type)
    return number and pc.count_distinct(array.slice(0, 2 * LEVELS)).as_py() > LEVELS


@dataclass
class _Combinations:
    """Those of all batches so far."""

    columns: list[str]
    known: list[dict[Any, int]] = field(default_factory=list)
    places: dict[tuple[int, ...], int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)

    def add(self, part: _Part) -> bool:
        """False where there are too many."""
        self.known = self.known or [{} for _ in self.columns]
        mapped: list[Int] = []
        for known, values, codes in zip(self.known, part.values, part.codes, strict=True):
            used = np.unique(codes)
            place = np.zeros(len(values), dtype=np.int64)
            for k in used.tolist():
                value = values[k]
                key = None if value is None or value != value else value  # NaN is missing
                place[k] = known.setdefault(key, len(known))
            if len(known) > LEVELS:
                return False
            mapped.append(place[codes])
        for combination, count in zip(
            zip(*(m.tolist() for m in mapped), strict=True), part.counts.tolist(), strict=True
        ):
            place_of = self.places.setdefault(combination, len(self.counts))
            if place_of == len(self.counts):
                self.counts.append(0)
            self.counts[place_of] += count
        return len(self.counts) <= CELLS

    def sorted(self) -> tuple[Int, Int]:
        """The order of the combinations by their values, missing ones last, and their codes (m, columns) in that order."""
        codes = np.array(list(self.places), dtype=np.int64).reshape(len(self.places), len(self.columns))
        ranks = []
        for k, known in enumerate(self.known):
            by_value = sorted(known, key=lambda v: (v is None, 0 if v is None else v))
            rank = np.empty(len(known), dtype=np.int64)
            rank[[known[v] for v in by_value]] = np.arange(len(known))
            ranks.append(rank[codes[:, k]])
        order = np.lexsort(ranks[::-1])
        return order, codes[order]

    def table(self, schema: pa.Schema, codes: Int) -> pa.Table:
        arrays = []
        for k, (name, known) in enumerate(zip(self.columns, self.known, strict=True)):
            kind = schema.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            arrays.append(pa.array([*known], kind).take(pa.array(codes[:, k])))
        return pa.table(dict(zip(self.columns, arrays, strict=True)))

"""A source of batches becomes an analysis: collapsed to cells, read into memory, or learned in one pass and summed block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from pramana.analysis.distinct import RECORDS, Distinct, value_counts
from pramana.analysis.reading import Reading, Stream, UnitCodes, block_weights, numbered_units, unit_names
from pramana.analysis.sampling import gaps_in_words, record_keys, refuse_twice
from pramana.analysis.tampering import level_counts
from pramana.arrays import Bool, Column, Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines.sampling import SampledSums, Sampling, StreamedSampling
from pramana.errors import DataError
from pramana.frames import Table
from pramana.frames.cells import cells
from pramana.frames.sources import Source, takeable
from pramana.frames.table import is_missing
from pramana.frames.workers import SourcePart, Workers, batches_of
from pramana.kernels.streams import keys, uniforms_of
from pramana.mechanism import Mechanism
from pramana.progress import bar

PILOT, SHARE, LARGEST = 200_000, 20, 1_000_000
"""Records of the random sample on which everything is learned that is no sum, and a first root is found: a twentieth of those
that there are, where that is known, between the two numbers. The nearer the first root, the fewer passes."""
ROOM = 6
"""Bytes that a fit in memory takes for each byte of the columns it uses."""
WHOLE, TEXTS = 1000, 10_000
"""Distinct values of a column of whole numbers, and of text, that are all learned."""
KEYS = 1 << 22
"""Identifiers that are held to see whether one occurs twice: all of so many records, of more a random share, with all records of each."""
RUN = 1 << 14
"""Records whose luck is drawn at once, within a cache."""
_SALT, _KEY_SALT = 0x5EED, 0x1DE5
_LOW, _HIGH = object(), object()
"""The ends of a range, which no level of a column equals."""


@dataclass(frozen=True)
class TakenRecords:
    """Records that could be taken into memory: all of them, or every combination of values once with its count (n,)."""

    table: Table
    counts: Int | None


def taken(
    source: Source, columns: Sequence[str], memory: float, workers: Workers, *, collapsed: bool
) -> TakenRecords | None:
    """The records in memory where they fit, as cells where they are few and may be `collapsed`; None where they do not fit."""
    source.require(columns)
    rows = source.rows  # asked before any batch: a database answers one question at a time
    if collapsed and columns and (rows is None or rows > 0):
        found = cells(source, columns, workers.suited(source))
        if found is not None:
            return TakenRecords(source.table(found[0]), found[1])
    held: list[pa.RecordBatch] = []
    size = 0.0
    for batch in source.batches(columns):
        held.append(batch)
        size += batch.nbytes
        whole = size if rows is None or len(held) > 1 else size * rows / batch.num_rows
        if whole * ROOM > memory:
            return None
    schema = held[0].schema if held else pa.schema([source.schema.field(c) for c in columns])
    return TakenRecords(source.table(pa.Table.from_batches(held, schema)), None)


@dataclass(frozen=True)
class Learned:
    """What was learned in one pass over a source.

    Attributes
    ----------
    table : a random sample of the records, and records that show every level and the range of every number.
    shown : how many of the last records of the table are there to show a level or an end of a range.
    few : how the records of the table were sampled.
    sampling : sums over all records.
    levels : records of every released level, by assignment, where that was asked.
    agreements : for some columns the combinations of their values that occur; None where records of one label differ and no more was asked.
    """

    stream: Stream
    table: Table
    few: Sampling
    sampling: StreamedSampling
    notes: tuple[Diagnostic, ...]
    rows: int
    levels: tuple[Float, ...]
    agreements: dict[tuple[str, ...], Any]
    shown: int


def learn(source: Source, reading: Reading, missing: str, workers: Workers, asked: Checks | None = None) -> Learned:
    """One pass: how many records there are, what their weights add up to, which units and levels occur, and a random sample."""
    names, asked = unit_names(reading.beside), asked or Checks()
    total = _Pass(_Look(reading, names, asked), pairs={names: Distinct() for names in asked.pairs})
    total.run(source, workers)
    gaps, rows = total.gaps, total.rows
    if not rows:
        raise DataError(f"{source.label} has no records")
    notes = gaps_in_words(total.incomplete, rows, gaps, missing)
    total.refuse_twice()
    if not total.sums.rows:
        raise DataError(f"no record of {source.label} is in the subset: nothing is left to fit")
    if not total.sums.total > 0:
        raise DataError("weights are zero throughout: at least one must be positive")
    units = numbered_units(names, total.units.together(), reading.beside)
    stream = Stream(source, reading, tuple(total.sizes), units, workers)
    sample, shown = total.sample()
    table = reading.table(sample)
    arrays = reading.arrays(table)
    weights, counts = (block_weights(arrays.get(name), name) for name in ("weights", "frequencies"))
    live = None if units.count is None else total.live(units)
    replicates = sum(name.startswith("replicate_weights") for name in arrays)
    sampling = StreamedSampling(
        total.sums.rows,
        strata=units.strata,
        replicate_scale=None if reading.beside.design is None else reading.beside.design.replicate_scale,
        sums=total.sums,
        given=frozenset(arrays),
        units=units.count,
        live_units=live,
        published=replicates,
    )
    agreements = {names: total.agreement(names) for names in asked.pairs}
    few = Sampling(table.n, weights, counts)
    return Learned(stream, table, few, sampling, notes, rows, tuple(total.levels), agreements, shown)


@dataclass(frozen=True)
class Checks:
    """What a pass is asked for beside all else.

    Attributes
    ----------
    levels : the mechanism whose released levels are counted, or None.
    pairs : columns, a label first, whose combinations are found; False: only as long as all records of a label agree.
    """

    levels: Mechanism | None = None
    pairs: Mapping[tuple[str, ...], bool] = field(default_factory=dict)


@dataclass
class _Pass:
    """The learning pass: what each batch tells, put together in their order."""

    look: _Look
    rows: int = 0
    incomplete: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    sums: SampledSums = field(default_factory=SampledSums)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    units: Distinct = field(default_factory=Distinct)
    weighing: Distinct = field(default_factory=Distinct)
    pairs: dict[tuple[str, ...], Distinct | None] = field(default_factory=dict)
    levels: list[Float] = field(default_factory=list)
    seen: dict[str, set[Any]] = field(default_factory=dict)
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)
    shown: dict[tuple[str, Any], tuple[int, int, int]] = field(default_factory=dict)
    """For each level and end of a range, a record that has it: its place among all, and its batch and row in `held`."""
    held: list[pa.RecordBatch] = field(default_factory=list)
    sampled: list[tuple[Float, pa.RecordBatch]] = field(default_factory=list)
    threshold: float = 1.0
    wanted: int = PILOT
    identified: list[Int] = field(default_factory=list)
    share: float = 1.0
    """Of the identifiers that are held."""

    def run(self, source: Source, workers: Workers) -> None:
        known = source.rows or 0
        self.wanted = min(max(PILOT, known // SHARE), LARGEST)
        self.threshold = min(1.0, 1.2 * self.wanted / known) if known else 1.0
        self.share = min(1.0, KEYS / known) if known else 1.0
        with bar(f"Learning from {source.label}", unit="rows") as tell:
            for told in workers.answers(self.look, self._seats(source, workers)):
                for batch in told:
                    self._add(batch)
                self.sizes.append((sum(batch.sums.rows for batch in told), sum(batch.rows for batch in told)))
                tell(self.rows, known)

    def _seats(self, source: Source, workers: Workers) -> Iterator[_PartPlace]:
        """All parts with their places: a record's luck goes by its own, whoever reads it."""
        first = 0
        for part, rows in _sized(workers.parts(source, self.look.reading.columns), workers):
            yield _PartPlace(part, first, self.threshold, self.share)
            first += rows

    def _add(self, told: _Told) -> None:
        self.rows += told.rows
        self.incomplete += told.incomplete
        for name, found in told.gaps.items():
            self.gaps[name] = self.gaps.get(name, 0) + found
        self.sums = self.sums + told.sums
        self.units.add(told.units)
        self.weighing.add(told.weighing)
        self.levels = [a + b for a, b in zip(self.levels, told.levels, strict=True)] if self.levels else told.levels
        for names, found in told.pairs.items():
            self._agree(names, found)
        self._identify(told.identified)
        self.sampled.append((told.luck, told.sample))
        if sum(len(luck) for luck, _ in self.sampled) > 4 * self.wanted:
            self._thin()
        self._show(told)

    def _agree(self, names: tuple[str, ...], found: Any) -> None:
        """Combinations of one more batch. Where it does not matter how records of a label differ, one that does ends the search, and
        labels that occur once say nothing."""
        known, matters = self.pairs[names], self.look.asked.pairs[names]
        if known is None:
            return
        if not matters and _differs(found, names):
            self.pairs[names] = None
        elif matters or found[RECORDS].max() > 1:
            known.add(found)

    def _identify(self, found: Int) -> None:
        self.identified.append(found)
        if sum(map(len, self.identified)) > 2 * KEYS:
            self.share /= 2
            self.identified = [_some(held, self.share) for held in self.identified]

    def refuse_twice(self) -> None:
        """Refuse identifiers of records that occur in several batches; within one they were refused already."""
        held = [_some(held, self.share) for held in self.identified]
        refuse_twice(np.concatenate([*held, np.zeros(0, dtype=np.int64)]), self.look.reading.beside.id, "at least ")

    def agreement(self, names: tuple[str, ...]) -> Any:
        """The combinations of all batches; None where records of a label differ and it does not matter how."""
        known = self.pairs[names]
        whole = None if known is None else known.together()
        return None if whole is None or (_differs(whole, names) and not self.look.asked.pairs[names]) else whole

    def _thin(self) -> None:
        """Keep the luckiest, whatever batch they came in."""
        luck = np.concatenate([luck for luck, _ in self.sampled])
        if len(luck) <= self.wanted:
            return
        self.threshold = min(self.threshold, float(np.partition(luck, self.wanted)[self.wanted]))
        kept = [np.flatnonzero(luck < self.threshold) for luck, _ in self.sampled]
        self.sampled = [(luck[k], batch.take(pa.array(k))) for (luck, batch), k in zip(self.sampled, kept, strict=True)]

    def _show(self, told: _Told) -> None:
        """The first record of every level, and those at the ends of every range, whatever batches they came in."""
        new: dict[tuple[str, Any], int] = {}
        for name, found in told.columns.items():
            if isinstance(found, _Range):
                low, high = self.ends.get(name, (np.inf, -np.inf))
                new |= {(name, _LOW): found.first} if found.low < low else {}
                new |= {(name, _HIGH): found.last} if found.high > high else {}
                self.ends[name] = (min(low, found.low), max(high, found.high))
                continue
            seen = self.seen.setdefault(name, set())
            new |= {(name, value): row for value, row in found.items() if value not in seen}
            seen.update(found)
            if len(seen) > TEXTS:
                raise DataError(
                    f"column {name!r} holds text with more than {TEXTS} distinct values: convert it to numbers, or merge values"
                )
        self.shown |= {key: (int(told.places[row]), len(self.held), row) for key, row in new.items()}
        if new:
            self.held.append(told.shown)

    def sample(self) -> tuple[pa.Table, int]:
        """The records of the sample, and how many stand after them to show levels and ends."""
        self._thin()
        some = [batch for _, batch in self.sampled]
        whole = sum(batch.num_rows for batch in some) == self.sums.rows
        shown = [] if whole else list(self._shown())
        return pa.Table.from_batches([*some, *shown]), sum(batch.num_rows for batch in shown)

    def _shown(self) -> Iterator[pa.RecordBatch]:
        """In the order of the records, each of them once."""
        for number, found in groupby(sorted(set(self.shown.values())), key=lambda place: place[1]):
            yield self.held[number].take(pa.array([row for _, _, row in found]))

    def live(self, units: UnitCodes) -> Bool:
        """Units with a record of positive weight (G,)."""
        present = np.zeros(units.count or 0, dtype=bool)
        codes = units.codes({name: np.asarray(self.weighing.together()[name]) for name in units.names})
        assert codes is not None
        present[codes] = True
        return present


def _sized(parts: Iterator[SourcePart], workers: Workers) -> Iterator[tuple[SourcePart, int]]:
    """Parts with the number of their records, which workers count where files do not tell."""
    for part in parts:
        if isinstance(part, pa.RecordBatch):
            yield part, part.num_rows
        elif part.rows is not None:
            yield part, part.rows
        else:
            rest = [part, *parts]
            yield from zip(rest, workers.answers(Source.counted, rest), strict=True)


@dataclass(frozen=True)
class _PartPlace:
    """A part of the source and where it stands: the place of its first record among all, the random number below which a record is taken into
    the sample, and the share of identifiers that are reported."""

    part: SourcePart
    first: int
    threshold: float
    share: float


@dataclass(frozen=True)
class _Look:
    """What the batches of a part tell. It travels to whoever reads them."""

    reading: Reading
    unit_names: tuple[str, ...]
    asked: Checks

    def __call__(self, seat: _PartPlace) -> list[_Told]:
        found: list[_Told] = []
        first = seat.first
        for batch in batches_of(seat.part, self.reading.columns):
            found.append(self._told(batch, first, seat.threshold, seat.share))
            first += batch.num_rows
        return found

    def _told(self, batch: pa.RecordBatch, first: int, threshold: float, share: float) -> _Told:
        reading = self.reading
        batch = takeable(batch)
        table = reading.table(batch)
        arrays = reading.arrays(table)
        gaps = reading.gaps(table, arrays)
        complete = ~np.logical_or.reduce([*gaps.values(), np.zeros(table.n, dtype=bool)])
        keep = reading.keep(table, gaps)
        kept = {name: values[keep] for name, values in arrays.items()}
        weights, counts = (block_weights(kept.get(name), name) for name in ("weights", "frequencies"))
        sampling = Sampling(int(keep.sum()), weights, counts)
        picked, luck = _lucky(first, keep, threshold)
        rows = np.flatnonzero(keep)
        columns = {name: values for name in self._clean if (values := _told_of(table.column(name), rows)) is not None}
        shown = np.array(sorted({row for found in columns.values() for row in _rows_of(found)}), dtype=np.int64)
        return _Told(
            batch.num_rows,
            {name: int(rows.sum()) for name, rows in gaps.items()},
            int((~complete).sum()),
            SampledSums.of(sampling),
            self._labels(arrays, self._sampled(arrays) if reading.beside.design is not None else keep),
            self._labels(kept, sampling.row_weights > 0),
            luck,
            batch.take(pa.array(picked)),
            {name: _renumbered(found, shown) for name, found in columns.items()},
            batch.take(pa.array(shown)),
            first + shown,
            [] if self.asked.levels is None else level_counts(table, self.asked.levels),
            {names: self._pairs(table, names, keep) for names in self.asked.pairs},
            _some(record_keys(kept.get("id"), reading.beside.id), share),
        )

    def _pairs(self, table: Table, names: tuple[str, ...], keep: Bool) -> Any:
        """Combinations of the records in use whose label is known."""
        rows = keep & ~is_missing(table.column(names[0]))
        return value_counts({name: table.column(name)[rows] for name in names})

    @property
    def _clean(self) -> list[str]:
        known = self.reading.mechanism
        return [name for name in self.reading.used if known is None or name not in known.columns]

    def _sampled(self, arrays: Mapping[str, Column]) -> Bool:
        """Records (n,) whose unit is known: those with gaps elsewhere were sampled too."""
        return ~np.logical_or.reduce([is_missing(arrays[name]) for name in self.unit_names])

    def _labels(self, arrays: Mapping[str, Column], rows: Bool) -> Any:
        """Combinations of unit labels that occur."""
        return value_counts({name: arrays[name][rows] for name in self.unit_names}) if self.unit_names else None


@dataclass(frozen=True)
class _Told:
    """What one batch tells; `columns` name rows of `shown`, the few records with a level or an end of a range, at these `places`."""

    rows: int
    gaps: dict[str, int]
    incomplete: int
    sums: SampledSums
    units: Any
    weighing: Any
    luck: Float
    sample: pa.RecordBatch
    columns: dict[str, Any]
    shown: pa.RecordBatch
    places: Int
    levels: list[Float]
    pairs: dict[tuple[str, ...], Any]
    identified: Int


@dataclass(frozen=True)
class _Range:
    """The smallest and the largest number of a column, and the records that have them."""

    low: float
    high: float
    first: int
    last: int

    @classmethod
    def of(cls, values: Column, rows: Int) -> _Range:
        first, last = int(np.argmin(values)), int(np.argmax(values))
        return cls(float(values[first]), float(values[last]), int(rows[first]), int(rows[last]))


def _lucky(first: int, keep: Bool, threshold: float) -> tuple[Int, Float]:
    """Records (m,) of a batch that are taken into the sample, and their luck (m,), by the place of the first one among all."""
    start, found = keys(_SALT, np.zeros(1, dtype=np.int64)), []
    for low in range(0, len(keep), RUN):
        luck = uniforms_of(start, np.arange(first + low, first + min(low + RUN, len(keep))))[0]
        picked = np.flatnonzero(keep[low : low + RUN] & (luck < threshold))
        found.append((low + picked, luck[picked]))
    places, lucks = zip(*found, strict=True)
    return np.concatenate(places), np.concatenate(lucks)


def _some(found: Int | None, share: float) -> Int:
    """Some of the keys of records, chosen by the key, so that equal ones stay together."""
    if found is None:
        return np.zeros(0, dtype=np.int64)
    return found if share == 1 else found[uniforms_of(keys(_KEY_SALT, np.zeros(1, dtype=np.int64)), found)[0] < share]


def _told_of(values: Column, rows: Int) -> _Range | dict[Any, int] | None:
    """Levels with the first record of each, or the range of numbers, among the records in use, which are these rows."""
    import pandas as pd

    if not rows.size:
        return None
    kept = values if rows.size == len(values) else values[rows]
    whole = values.dtype.kind in "iu"
    if values.dtype.kind == "f" or (whole and len(np.unique(kept[:2000])) > WHOLE // 2):
        return _Range.of(kept, rows)
    codes, labels = pd.factorize(kept)
    if whole and len(labels) > WHOLE:
        return _Range.of(kept, rows)
    place = np.full(len(labels), len(kept))
    np.minimum.at(place, codes, np.arange(len(kept)))
    return dict(zip(labels.tolist(), rows[place].tolist(), strict=True))


def _differs(combinations: Any, names: tuple[str, ...]) -> bool:
    """Whether a label occurs with several values."""
    return bool(combinations[names[0]].duplicated().any())


def _rows_of(found: _Range | dict[Any, int]) -> list[int]:
    return [found.first, found.last] if isinstance(found, _Range) else list(found.values())


def _renumbered(found: _Range | dict[Any, int], rows: Int) -> _Range | dict[Any, int]:
    """With the places among these rows."""
    places = np.searchsorted(rows, _rows_of(found)).tolist()
    if isinstance(found, _Range):
        return replace(found, first=places[0], last=places[1])
    return dict(zip(found, places, strict=True))

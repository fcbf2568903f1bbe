"""A source of batches becomes an analysis: collapsed to cells, read into memory, or learned in one pass and summed block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby
from typing import Any

import numpy as np
import pyarrow as pa

from pramana.analysis.sampling import Beside, checked_weights, gaps_in_words
from pramana.arrays import Bool, Column, Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines.local import SampledBlock
from pramana.engines.sampling import SampledSums, Sampling, Stratification, StreamedSampling
from pramana.errors import DataError, PramanaError
from pramana.estimating import Equation
from pramana.estimating.collinearity import unjudged
from pramana.formulas.subset import Subset
from pramana.frames import Table
from pramana.frames.cells import cells
from pramana.frames.sources import Source, table_of
from pramana.frames.table import FrameKind, is_missing
from pramana.frames.workers import Part, Workers, batches_of
from pramana.inference.survey import stratified
from pramana.kernels.streams import uniforms
from pramana.mechanism import Mechanism
from pramana.progress import bar

PILOT, SHARE, LARGEST = 200_000, 20, 500_000
"""Records of the random sample on which everything is learned that is no sum, and a first root is found: a twentieth of those
that there are, where that is known, between the two numbers. The nearer the first root, the fewer passes."""
ROOM = 6
"""Bytes that a fit in memory takes for each byte of the columns it uses."""
WHOLE, TEXTS = 1000, 10_000
"""Distinct values of a column of whole numbers, and of text, that are all learned."""
_SALT = 0x5EED
_LOW, _HIGH = object(), object()
"""The ends of a range, which no level of a column equals."""

Bind = Callable[[Table, Float], Equation]
"""A table of records and their row weights ↦ the equation bound to them."""


@dataclass(frozen=True)
class Taken:
    """Records that could be taken into memory: all of them, or every combination of values once with its count (n,)."""

    table: Table
    counts: Int | None


def taken(source: Source, columns: Sequence[str], memory: float, workers: Workers, *, collapsed: bool) -> Taken | None:
    """The records in memory where they fit, as cells where they are few and may be `collapsed`; None where they do not fit."""
    source.require(columns)
    rows = source.rows  # asked before any batch: a database answers one question at a time
    if collapsed and columns and (rows is None or rows > 0):
        found = cells(source, columns, workers.suited(source))
        if found is not None:
            return Taken(source.table(found[0]), found[1])
    held: list[pa.RecordBatch] = []
    size = 0.0
    for batch in source.batches(columns):
        held.append(batch)
        size += batch.nbytes
        whole = size if rows is None or len(held) > 1 else size * rows / batch.num_rows
        if whole * ROOM > memory:
            return None
    schema = held[0].schema if held else pa.schema([source.schema.field(c) for c in columns])
    return Taken(source.table(pa.Table.from_batches(held, schema)), None)


@dataclass(frozen=True)
class Reading:
    """How a batch becomes records in use.

    Attributes
    ----------
    label : what messages call the source.
    columns : what is read.
    used : columns in which no value may be missing.
    chosen : the conditions on clean columns that leave records out, or None.
    """

    label: str
    kind: FrameKind
    columns: tuple[str, ...]
    mechanism: Mechanism | None
    used: tuple[str, ...]
    beside: Beside
    chosen: Subset | None

    def table(self, batch: pa.RecordBatch | pa.Table) -> Table:
        found = table_of(batch, self.kind, self.label)
        return found if self.mechanism is None else self.mechanism.received(found)

    def arrays(self, table: Table) -> dict[str, Column]:
        return self.beside.arrays(table, self.mechanism)

    def gaps(self, table: Table, arrays: Mapping[str, Column]) -> dict[str, Bool]:
        """Rows with a missing value (n,), by column."""
        own = {name: rows for name in self.used if (rows := table.gaps(name)) is not None}
        return own | {name: rows for name, values in arrays.items() if (rows := is_missing(values)).any()}

    def keep(self, table: Table, gaps: Mapping[str, Bool]) -> Bool:
        """Records in use (n,)."""
        keep = ~np.logical_or.reduce([*gaps.values(), np.zeros(table.n, dtype=bool)])
        if self.chosen is not None and keep.any():
            columns = {name: table.column(name)[keep] for name in self.chosen.variables}
            keep[keep] = self.chosen.inside(columns, int(keep.sum()))
        return keep


@dataclass(frozen=True)
class Stream:
    """All records, part by part.

    Attributes
    ----------
    sizes : records of each part that are in use, and records that it has.
    units : labels of clusters, or of units of a design.
    """

    source: Source
    reading: Reading
    sizes: tuple[tuple[int, int], ...]
    units: Units
    workers: Workers
    passes: Iterator[int] = field(default_factory=lambda: count(1), repr=False, compare=False)

    def jobs(self) -> Iterator[Job]:
        """Parts whose records are to be bound, in their order."""
        first, rows = 0, sum(kept for kept, _ in self.sizes)
        parts = self.workers.parts(self.source, self.reading.columns)
        with bar(f"Pass {next(self.passes)} over {self.source.label}", unit="rows") as tell:
            for (kept, size), part in zip(self.sizes, _as_learned(parts, self.sizes), strict=True):
                yield Job(part, first, kept, size)
                first += kept
                tell(first, rows)

    def blocks(self, bind: Bind) -> Binder:
        return Binder(self.reading, self.units, bind)


@dataclass(frozen=True)
class Job:
    """Some records to be bound: the place of the first one in use among all, how many are in use, and how many there are."""

    part: Part
    first: int
    kept: int
    rows: int


@dataclass(frozen=True)
class Binder:
    """Binds the records of a job, batch by batch. It travels to whoever reads them, and holds none."""

    reading: Reading
    units: Units
    bind: Bind

    def __call__(self, job: Job) -> Iterator[SampledBlock]:
        first, rows = job.first, 0
        for batch in batches_of(job.part, self.reading.columns) if job.kept else ():
            table = self.reading.table(batch)
            arrays = self.reading.arrays(table)
            keep = self.reading.keep(table, self.reading.gaps(table, arrays))
            if keep.any():
                yield self._block(table if keep.all() else table.where(keep), self.sampling(arrays, keep), first)
            first, rows = first + int(keep.sum()), rows + batch.num_rows
        if job.kept and (first - job.first, rows) != (job.kept, job.rows):
            raise DataError(
                f"{self.reading.label} gave other records than in the first pass, or in other batches: did it change? Fit again"
            )

    def _block(self, table: Table, sampling: Sampling, first: int) -> SampledBlock:
        with unjudged() as ranks:
            equation = self.bind(table, sampling.row_weights)
        return SampledBlock(equation, sampling, first, tuple(ranks))

    def sampling(self, arrays: Mapping[str, Column], keep: Bool) -> Sampling:
        """Of the records of a block that are in use."""
        kept = {name: values[keep] for name, values in arrays.items()}
        replicates = [_weights(v, k) for k, v in kept.items() if k.startswith("replicate_weights")]
        return Sampling(
            int(keep.sum()),
            _weights(kept.get("weights"), "weights"),
            _weights(kept.get("frequencies"), "frequencies"),
            self.units.codes(kept),
            self.units.strata,
            np.stack(replicates) if replicates else None,  # type: ignore[arg-type]
            None if self.reading.beside.design is None else self.reading.beside.design.replicate_scale,
        )


def _as_learned(parts: Iterator[Part], sizes: Sequence[tuple[int, int]]) -> Iterator[Part]:
    number = 0
    for number, part in enumerate(parts, 1):
        if number > len(sizes):
            raise DataError(
                "the source has more records than in the first pass: wait until it is complete, and fit again"
            )
        yield part
    if number < len(sizes):
        raise DataError("the source has fewer records than in the first pass: wait until it is complete, and fit again")


def _weights(values: Column | None, name: str) -> Float | None:
    """Checked weights of a block, which may all be zero where other blocks have others."""
    if values is not None and not np.any(np.asarray(values)):
        return np.zeros(len(values))
    return checked_weights(values, name)


# Units: clusters by their label, or sampling units of a design by stratum and label.


@dataclass(frozen=True)
class Units:
    """Codes of clusters or sampling units, by their labels.

    Attributes
    ----------
    names : the columns that tell units apart; none where records are independent.
    labels : each combination that occurs, in the order of first appearance; `code` is the unit of each.
    """

    names: tuple[str, ...] = ()
    labels: Any = None
    code: Int | None = None
    strata: Stratification | None = None

    def codes(self, arrays: Mapping[str, Column]) -> Int | None:
        """(n,) of the records whose columns these are."""
        if not self.names or self.code is None:
            return None
        return np.asarray(self.code[self.labels.get_indexer(_index([arrays[n] for n in self.names]))])

    @property
    def count(self) -> int | None:
        return (
            None if self.code is None else int(self.code.max()) + 1 if self.strata is None else len(self.strata.stratum)
        )


def _index(columns: Sequence[Column]) -> Any:
    import pandas as pd

    return pd.Index(columns[0]) if len(columns) == 1 else pd.MultiIndex.from_arrays(list(columns))


def _unit_names(beside: Beside) -> tuple[str, ...]:
    if beside.design is None or len(beside.design.replicate_weights):
        return ("clusters",) if beside.clusters is not None or (beside.design and beside.design.clusters) else ()
    given = {"strata": beside.design.strata, "clusters": beside.design.clusters, "fpc": beside.design.fpc}
    if given["clusters"] is None:
        raise PramanaError(
            "a design without clusters= makes every record a sampling unit, whose totals do not fit into memory: raise memory=, or "
            "leave out the design and give weights="
        )
    return tuple(name for name, column in given.items() if column is not None)


def _units(names: tuple[str, ...], found: Any, beside: Beside) -> Units:
    """Units from the combinations that occur, in the order of first appearance."""
    if not names:
        return Units()
    index = _index([np.asarray(found[name]) for name in names])
    if beside.design is None or len(beside.design.replicate_weights):
        if len(index) < 2:
            raise DataError(f"clusters have {len(index)} distinct value(s): a cluster-robust variance needs at least 2")
        return Units(names, index, np.arange(len(index)))
    columns = {name: np.asarray(found[name]) for name in names}
    code, strata = stratified(
        columns.get("strata"), columns.get("clusters"), columns.get("fpc"), beside.design.target, len(index)
    )
    return Units(names, index, code, strata)


# Learning.


@dataclass(frozen=True)
class Learned:
    """What one pass over a source told.

    Attributes
    ----------
    table : a random sample of the records, and records that show every level and the range of every number.
    few : how the records of the table were sampled.
    sampling : sums over all records.
    """

    stream: Stream
    table: Table
    few: Sampling
    sampling: StreamedSampling
    notes: tuple[Diagnostic, ...]
    rows: int


def learn(source: Source, reading: Reading, missing: str, workers: Workers) -> Learned:
    """One pass: how many records there are, what their weights add up to, which units and levels occur, and a random sample."""
    names = _unit_names(reading.beside)
    total = _Pass(_Look(reading, names))
    total.run(source, workers)
    gaps, rows = total.gaps, total.rows
    if not rows:
        raise DataError(f"{source.label} has no records")
    notes = gaps_in_words(total.incomplete, rows, gaps, missing)
    if not total.sums.rows:
        raise DataError(f"no record of {source.label} is in the subset: nothing is left to fit")
    if not total.sums.total > 0:
        raise DataError("weights are zero throughout: at least one must be positive")
    units = _units(names, total.units, reading.beside)
    stream = Stream(source, reading, tuple(total.sizes), units, workers)
    table = reading.table(total.sample())
    arrays = reading.arrays(table)
    weights, counts = (_weights(arrays.get(name), name) for name in ("weights", "frequencies"))
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
    return Learned(stream, table, Sampling(table.n, weights, counts), sampling, notes, rows)


@dataclass
class _Pass:
    """The learning pass: what each batch tells, put together in their order."""

    look: _Look
    rows: int = 0
    incomplete: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    sums: SampledSums = field(default_factory=SampledSums)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    units: Any = None
    weighing: Any = None
    seen: dict[str, set[Any]] = field(default_factory=dict)
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)
    shown: dict[tuple[str, Any], tuple[int, int, int]] = field(default_factory=dict)
    """For each level and end of a range, a record that has it: its place among all, and its batch and row in `held`."""
    held: list[pa.RecordBatch] = field(default_factory=list)
    sampled: list[tuple[Float, pa.RecordBatch]] = field(default_factory=list)
    threshold: float = 1.0
    wanted: int = PILOT

    def run(self, source: Source, workers: Workers) -> None:
        known = source.rows or 0
        self.wanted = min(max(PILOT, known // SHARE), LARGEST)
        self.threshold = min(1.0, 1.2 * self.wanted / known) if known else 1.0
        with bar(f"Learning from {source.label}", unit="rows") as tell:
            for told in workers.answers(self.look, self._seats(source, workers)):
                for batch in told:
                    self._add(batch)
                self.sizes.append((sum(batch.sums.rows for batch in told), sum(batch.rows for batch in told)))
                tell(self.rows, known)

    def _seats(self, source: Source, workers: Workers) -> Iterator[_Seat]:
        """All parts with their places: a record's luck goes by its own, whoever reads it."""
        first = 0
        for part, rows in _sized(workers.parts(source, self.look.reading.columns), workers):
            yield _Seat(part, first, self.threshold)
            first += rows

    def _add(self, told: _Told) -> None:
        self.rows += told.rows
        self.incomplete += told.incomplete
        for name, found in told.gaps.items():
            self.gaps[name] = self.gaps.get(name, 0) + found
        self.sums = self.sums + told.sums
        self.units, self.weighing = _joined(self.units, told.units), _joined(self.weighing, told.weighing)
        self.sampled.append((told.luck, told.sample))
        if sum(len(luck) for luck, _ in self.sampled) > 4 * self.wanted:
            self._thin()
        self._show(told)

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

    def sample(self) -> pa.Table:
        self._thin()
        some = [batch for _, batch in self.sampled]
        whole = sum(batch.num_rows for batch in some) == self.sums.rows
        return pa.Table.from_batches(some if whole else [*some, *self._shown()])

    def _shown(self) -> Iterator[pa.RecordBatch]:
        """In the order of the records, each of them once."""
        for number, found in groupby(sorted(set(self.shown.values())), key=lambda place: place[1]):
            yield self.held[number].take(pa.array([row for _, _, row in found]))

    def live(self, units: Units) -> Bool:
        """Units with a record of positive weight (G,)."""
        present = np.zeros(units.count or 0, dtype=bool)
        codes = units.codes({name: np.asarray(self.weighing[name]) for name in units.names})
        assert codes is not None
        present[codes] = True
        return present


def _sized(parts: Iterator[Part], workers: Workers) -> Iterator[tuple[Part, int]]:
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
class _Seat:
    """A part, the place of its first record among all, and the luck below which a record is taken into the sample."""

    part: Part
    first: int
    threshold: float


@dataclass(frozen=True)
class _Look:
    """What the batches of a part tell. It travels to whoever reads them."""

    reading: Reading
    unit_names: tuple[str, ...]

    def __call__(self, seat: _Seat) -> list[_Told]:
        found: list[_Told] = []
        first = seat.first
        for batch in batches_of(seat.part, self.reading.columns):
            found.append(self._told(batch, first, seat.threshold))
            first += batch.num_rows
        return found

    def _told(self, batch: pa.RecordBatch, first: int, threshold: float) -> _Told:
        reading = self.reading
        table = reading.table(batch)
        arrays = reading.arrays(table)
        gaps = reading.gaps(table, arrays)
        complete = ~np.logical_or.reduce([*gaps.values(), np.zeros(table.n, dtype=bool)])
        keep = reading.keep(table, gaps)
        kept = {name: values[keep] for name, values in arrays.items()}
        weights, counts = (_weights(kept.get(name), name) for name in ("weights", "frequencies"))
        sampling = Sampling(int(keep.sum()), weights, counts)
        luck = uniforms(_SALT, np.zeros(1, dtype=np.int64), np.arange(first, first + table.n))[0]
        picked = np.flatnonzero(keep & (luck < threshold))
        columns = {name: values for name in self._clean if (values := _told_of(table.column(name), keep)) is not None}
        shown = np.array(sorted({row for found in columns.values() for row in _rows_of(found)}), dtype=np.int64)
        return _Told(
            batch.num_rows,
            {name: int(rows.sum()) for name, rows in gaps.items()},
            int((~complete).sum()),
            SampledSums.of(sampling),
            self._labels(arrays, self._sampled(arrays) if reading.beside.design is not None else keep),
            self._labels(kept, sampling.row_weights > 0),
            luck[picked],
            batch.take(pa.array(picked)),
            {name: _renumbered(found, shown) for name, found in columns.items()},
            batch.take(pa.array(shown)),
            first + shown,
        )

    @property
    def _clean(self) -> list[str]:
        known = self.reading.mechanism
        return [name for name in self.reading.used if known is None or name not in known.columns]

    def _sampled(self, arrays: Mapping[str, Column]) -> Bool:
        """Records (n,) whose unit is known: those with gaps elsewhere were sampled too."""
        return ~np.logical_or.reduce([is_missing(arrays[name]) for name in self.unit_names])

    def _labels(self, arrays: Mapping[str, Column], rows: Bool) -> Any:
        """Combinations of unit labels that occur."""
        import pandas as pd

        if not self.unit_names:
            return None
        return pd.DataFrame({name: arrays[name][rows] for name in self.unit_names}).drop_duplicates()


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


def _told_of(values: Column, keep: Bool) -> _Range | dict[Any, int] | None:
    """Levels with the first record of each, or the range of numbers, among the records in use."""
    import pandas as pd

    rows = np.flatnonzero(keep)
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


def _rows_of(found: _Range | dict[Any, int]) -> list[int]:
    return [found.first, found.last] if isinstance(found, _Range) else list(found.values())


def _renumbered(found: _Range | dict[Any, int], rows: Int) -> _Range | dict[Any, int]:
    """With the places among these rows."""
    places = np.searchsorted(rows, _rows_of(found)).tolist()
    if isinstance(found, _Range):
        return replace(found, first=places[0], last=places[1])
    return dict(zip(found, places, strict=True))


def _joined(before: Any, after: Any) -> Any:
    import pandas as pd

    return after if before is None else before if after is None else pd.concat([before, after]).drop_duplicates()

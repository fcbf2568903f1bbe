"""A source of batches becomes an analysis: collapsed to cells, read into memory, or learned in one pass and summed block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import numpy as np
import pyarrow as pa

from pramana.analysis.sampling import Beside, checked_weights, gaps_in_words
from pramana.arrays import Bool, Column, Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines.local import Block
from pramana.engines.sampling import SampledSums, Sampling, Stratification, StreamedSampling
from pramana.engines.streaming import MakeBlock
from pramana.errors import DataError, PramanaError
from pramana.estimating import Equation
from pramana.estimating.collinearity import unjudged
from pramana.formulas.subset import Subset
from pramana.frames import Table
from pramana.frames.cells import cells
from pramana.frames.sources import Source
from pramana.frames.table import is_missing
from pramana.inference.survey import stratified
from pramana.kernels.streams import uniforms
from pramana.mechanism import Mechanism
from pramana.progress import bar

PILOT, SHARE, LARGEST = 200_000, 20, 1_000_000
"""Records of the random sample on which everything is learned that is no sum, and a first root is found: a twentieth of those
that there are, where that is known, between the two numbers. The nearer the first root, the fewer passes."""
ROOM = 6
"""Bytes that a fit in memory takes for each byte of the columns it uses."""
WHOLE, TEXTS = 1000, 10_000
"""Distinct values of a column of whole numbers, and of text, that are all learned."""
_SALT = 0x5EED

Bind = Callable[[Table, Float], Equation]
"""A table of records and their row weights ↦ the equation bound to them."""


@dataclass(frozen=True)
class Taken:
    """Records that could be taken into memory: all of them, or every combination of values once with its count (n,)."""

    table: Table
    counts: Int | None


def taken(source: Source, columns: Sequence[str], memory: float, *, collapsed: bool) -> Taken | None:
    """The records in memory where they fit, as cells where they are few and may be `collapsed`; None where they do not fit."""
    source.require(columns)
    if collapsed and columns and (source.rows is None or source.rows > 0):
        found = cells(source, columns, os.cpu_count() or 1)
        if found is not None:
            return Taken(source.table(found[0]), found[1])
    held: list[pa.RecordBatch] = []
    size = 0.0
    for batch in source.batches(columns):
        held.append(batch)
        size += batch.nbytes
        whole = size if source.rows is None or len(held) > 1 else size * source.rows / batch.num_rows
        if whole * ROOM > memory:
            return None
    schema = held[0].schema if held else pa.schema([source.schema.field(c) for c in columns])
    return Taken(source.table(pa.Table.from_batches(held, schema)), None)


@dataclass(frozen=True)
class Reading:
    """How a batch becomes records in use.

    Attributes
    ----------
    columns : what is read.
    used : columns in which no value may be missing.
    chosen : the conditions on clean columns that leave records out, or None.
    """

    source: Source
    columns: tuple[str, ...]
    mechanism: Mechanism | None
    used: tuple[str, ...]
    beside: Beside
    chosen: Subset | None

    def table(self, batch: pa.RecordBatch | pa.Table) -> Table:
        found = self.source.table(batch)
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
    """All records, block by block.

    Attributes
    ----------
    sizes : records of each batch that are in use, and records that it has.
    units : labels of clusters, or of units of a design.
    """

    reading: Reading
    sizes: tuple[tuple[int, int], ...]
    units: Units
    passes: Iterator[int] = field(default_factory=lambda: count(1), repr=False, compare=False)

    def blocks(self, bind: Bind) -> Iterator[MakeBlock]:
        """Blocks to be bound, in the order of their records."""
        source, first, rows = self.reading.source, 0, sum(kept for kept, _ in self.sizes)
        batches = source.batches(self.reading.columns)
        with bar(f"Pass {next(self.passes)} over {source.label}", unit="rows") as tell:
            for (kept, size), batch in zip(self.sizes, _as_learned(batches, self.sizes), strict=True):
                if batch.num_rows != size:
                    raise _moved(source)
                yield _Maker(self, batch, first, kept, bind)
                first += kept
                tell(first, rows)

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


def _as_learned(batches: Iterator[pa.RecordBatch], sizes: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
    number = 0
    for number, batch in enumerate(batches, 1):
        if number > len(sizes):
            raise DataError(
                "the source has more records than in the first pass: wait until it is complete, and fit again"
            )
        yield batch
    if number < len(sizes):
        raise DataError("the source has fewer records than in the first pass: wait until it is complete, and fit again")


def _moved(source: Source) -> DataError:
    return DataError(
        f"{source.label} gave its records in other batches than in the first pass: did it change? Fit again"
    )


@dataclass(frozen=True)
class _Maker:
    """Binds the records of one batch."""

    stream: Stream
    batch: pa.RecordBatch
    first: int
    kept: int
    bind: Bind

    def __call__(self) -> Block | None:
        if not self.kept:
            return None
        reading = self.stream.reading
        table = reading.table(self.batch)
        arrays = reading.arrays(table)
        keep = reading.keep(table, reading.gaps(table, arrays))
        if int(keep.sum()) != self.kept:
            raise _moved(reading.source)
        sampling = self.stream.sampling(arrays, keep)
        table = table if keep.all() else table.where(keep)
        with unjudged() as ranks:
            equation = self.bind(table, sampling.row_weights)
        return Block(equation, sampling, self.first, tuple(ranks))


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


def learn(reading: Reading, missing: str) -> Learned:
    """One pass: how many records there are, what their weights add up to, which units and levels occur, and a random sample."""
    names = _unit_names(reading.beside)
    total = _Pass(reading, names)
    total.run()
    gaps, rows = total.gaps, total.rows
    if not rows:
        raise DataError(f"{reading.source.label} has no records")
    notes = gaps_in_words(total.incomplete, rows, gaps, missing)
    if not total.sums.rows:
        raise DataError(f"no record of {reading.source.label} is in the subset: nothing is left to fit")
    if not total.sums.total > 0:
        raise DataError("weights are zero throughout: at least one must be positive")
    units = _units(names, total.units, reading.beside)
    stream = Stream(reading, tuple(total.sizes), units)
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

    reading: Reading
    unit_names: tuple[str, ...]
    rows: int = 0
    incomplete: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    sums: SampledSums = field(default_factory=SampledSums)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    units: Any = None
    weighing: Any = None
    seen: dict[str, set[Any]] = field(default_factory=dict)
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)
    shown: list[pa.RecordBatch] = field(default_factory=list)
    sampled: list[tuple[Float, pa.RecordBatch]] = field(default_factory=list)
    threshold: float = 1.0
    wanted: int = PILOT

    def run(self) -> None:
        known = self.reading.source.rows or 0
        self.wanted = min(max(PILOT, known // SHARE), LARGEST)
        self.threshold = min(1.0, 1.2 * self.wanted / known) if known else 1.0
        workers = os.cpu_count() or 1
        batches = self.reading.source.batches(self.reading.columns)
        with (
            bar(f"Learning from {self.reading.source.label}", unit="rows") as tell,
            ThreadPoolExecutor(workers) as pool,
        ):
            first = 0
            while group := list(islice(batches, 2 * workers)):
                starts = np.cumsum([first, *(b.num_rows for b in group)])
                for found in pool.map(self._told, group, starts[:-1].tolist()):
                    self._add(found)
                first = int(starts[-1])
                tell(first, known)

    def _told(self, batch: pa.RecordBatch, first: int) -> _Told:
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
        picked = np.flatnonzero(keep & (luck < self.threshold))
        return _Told(
            batch,
            {name: int(rows.sum()) for name, rows in gaps.items()},
            int((~complete).sum()),
            SampledSums.of(sampling),
            self._labels(arrays, complete if reading.beside.design is not None else keep),
            self._labels(kept, sampling.row_weights > 0),
            luck[picked],
            batch.take(pa.array(picked)),
            {name: values for name in self._clean if (values := _told_of(table.column(name), keep)) is not None},
        )

    @property
    def _clean(self) -> list[str]:
        known = self.reading.mechanism
        return [name for name in self.reading.used if known is None or name not in known.columns]

    def _labels(self, arrays: Mapping[str, Column], rows: Bool) -> Any:
        """Combinations of unit labels that occur."""
        import pandas as pd

        if not self.unit_names:
            return None
        return pd.DataFrame({name: arrays[name][rows] for name in self.unit_names}).drop_duplicates()

    def _add(self, told: _Told) -> None:
        self.rows += told.batch.num_rows
        self.incomplete += told.incomplete
        for name, found in told.gaps.items():
            self.gaps[name] = self.gaps.get(name, 0) + found
        self.sums = self.sums + told.sums
        self.sizes.append((told.sums.rows, told.batch.num_rows))
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
        """Records with a level, or an end of a range, that was not seen before."""
        rows: list[int] = []
        for name, found in told.columns.items():
            if isinstance(found, _Range):
                low, high = self.ends.get(name, (np.inf, -np.inf))
                rows += [found.first] * (found.low < low) + [found.last] * (found.high > high)
                self.ends[name] = (min(low, found.low), max(high, found.high))
                continue
            seen = self.seen.setdefault(name, set())
            new = [row for value, row in found.items() if value not in seen]
            seen.update(found)
            if len(seen) > TEXTS:
                raise DataError(
                    f"column {name!r} holds text with more than {TEXTS} distinct values: convert it to numbers, or merge values"
                )
            rows += new
        if rows:
            self.shown.append(told.batch.take(pa.array(sorted(set(rows)))))

    def sample(self) -> pa.Table:
        self._thin()
        some = [batch for _, batch in self.sampled]
        whole = sum(batch.num_rows for batch in some) == self.sums.rows
        return pa.Table.from_batches(some if whole else [*some, *self.shown])

    def live(self, units: Units) -> Bool:
        """Units with a record of positive weight (G,)."""
        present = np.zeros(units.count or 0, dtype=bool)
        codes = units.codes({name: np.asarray(self.weighing[name]) for name in units.names})
        assert codes is not None
        present[codes] = True
        return present


@dataclass(frozen=True)
class _Told:
    """What one batch tells."""

    batch: pa.RecordBatch
    gaps: dict[str, int]
    incomplete: int
    sums: SampledSums
    units: Any
    weighing: Any
    luck: Float
    sample: pa.RecordBatch
    columns: dict[str, Any]


@dataclass(frozen=True)
class _Range:
    """The smallest and the largest number of a column, and the records that have them."""

    low: float
    high: float
    first: int
    last: int


def _told_of(values: Column, keep: Bool) -> _Range | dict[Any, int] | None:
    """Levels with the first record of each, or the range of numbers, among the records in use."""
    import pandas as pd

    rows = np.flatnonzero(keep)
    if not rows.size:
        return None
    kept = values if rows.size == len(values) else values[rows]
    if values.dtype.kind == "f" or (values.dtype.kind in "iu" and len(np.unique(kept[:2000])) > WHOLE // 2):
        first, last = int(np.argmin(kept)), int(np.argmax(kept))
        return _Range(float(kept[first]), float(kept[last]), int(rows[first]), int(rows[last]))
    codes, labels = pd.factorize(kept)
    if values.dtype.kind in "iu" and len(labels) > WHOLE:
        first, last = int(np.argmin(kept)), int(np.argmax(kept))
        return _Range(float(kept[first]), float(kept[last]), int(rows[first]), int(rows[last]))
    place = np.full(len(labels), len(kept))
    np.minimum.at(place, codes, np.arange(len(kept)))
    return dict(zip(labels.tolist(), rows[place].tolist(), strict=True))


def _joined(before: Any, after: Any) -> Any:
    import pandas as pd

    return after if before is None else before if after is None else pd.concat([before, after]).drop_duplicates()

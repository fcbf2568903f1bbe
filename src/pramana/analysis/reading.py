"""How batches become records in use, in every pass anew: which are kept, how they were sampled, and the blocks that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pramana.analysis.sampling import SamplingArguments, checked_weights, record_keys
from pramana.arrays import Bool, Column, Float, Int
from pramana.engines.local import SampledBlock, added
from pramana.engines.sampling import Sampling, Stratification
from pramana.errors import DataError, PramanaError
from pramana.estimating import Equation
from pramana.estimating.collinearity import unjudged
from pramana.formulas.subset import Subset
from pramana.frames import Table
from pramana.frames.sources import Source, table_of
from pramana.frames.table import FrameKind, is_missing
from pramana.frames.workers import SourcePart, Workers, batches_of
from pramana.inference.survey import stratified
from pramana.mechanism import Mechanism
from pramana.progress import bar

T = TypeVar("T")
Bind = Callable[[Table, Float], Equation]
"""A table of records and their row weights ↦ the equation bound to them."""


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
    beside: SamplingArguments
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
    units: UnitCodes
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
        return Binder(self.rows, bind)

    @property
    def rows(self) -> Rows:
        return Rows(self.reading, self.units)

    def summed(self, part: Callable[[Table, Sampling], T | None]) -> T:
        """The sum over all batches of whatever adds; None adds nothing."""
        rows = self.rows

        def work(job: Job) -> T | None:
            return added(part(table, sampling) for table, sampling, _ in rows(job))

        return added(self.workers.answers(work, self.jobs()))


@dataclass(frozen=True)
class Job:
    """Some records to be bound: the place of the first one in use among all, how many are in use, and how many there are."""

    part: SourcePart
    first: int
    kept: int
    rows: int


@dataclass(frozen=True)
class Rows:
    """The records of a job that are in use, batch by batch, with how they were sampled and the place of the first among all. It travels
    to whoever reads them, and holds none."""

    reading: Reading
    units: UnitCodes

    def __call__(self, job: Job) -> Iterator[tuple[Table, Sampling, int]]:
        first, rows = job.first, 0
        for batch in batches_of(job.part, self.reading.columns) if job.kept else ():
            table = self.reading.table(batch)
            arrays = self.reading.arrays(table)
            keep = self.reading.keep(table, self.reading.gaps(table, arrays))
            if keep.any():
                yield table if keep.all() else table.where(keep), self.sampling(arrays, keep), first
            first, rows = first + int(keep.sum()), rows + batch.num_rows
        if job.kept and (first - job.first, rows) != (job.kept, job.rows):
            raise DataError(
                f"{self.reading.label} gave other records than in the first pass, or in other batches: did it change? Fit again"
            )

    def sampling(self, arrays: Mapping[str, Column], keep: Bool) -> Sampling:
        """Of the records of a block that are in use."""
        kept = {name: values[keep] for name, values in arrays.items()}
        replicates = [block_weights(v, k) for k, v in kept.items() if k.startswith("replicate_weights")]
        return Sampling(
            int(keep.sum()),
            block_weights(kept.get("weights"), "weights"),
            block_weights(kept.get("frequencies"), "frequencies"),
            self.units.codes(kept),
            self.units.strata,
            np.stack(replicates) if replicates else None,  # type: ignore[arg-type]
            None if self.reading.beside.design is None else self.reading.beside.design.replicate_scale,
            keys=record_keys(kept.get("id"), self.reading.beside.id),
        )


@dataclass(frozen=True)
class Binder:
    """Binds the records of a job, batch by batch."""

    rows: Rows
    bind: Bind

    def __call__(self, job: Job) -> Iterator[SampledBlock]:
        for table, sampling, first in self.rows(job):
            with unjudged() as ranks:
                equation = self.bind(table, sampling.row_weights)
            yield SampledBlock(equation, sampling, first, tuple(ranks), table)


def _as_learned(parts: Iterator[SourcePart], sizes: Sequence[tuple[int, int]]) -> Iterator[SourcePart]:
    number = 0
    for number, part in enumerate(parts, 1):
        if number > len(sizes):
            raise DataError(
                "the source has more records than in the first pass: wait until it is complete, and fit again"
            )
        yield part
    if number < len(sizes):
        raise DataError("the source has fewer records than in the first pass: wait until it is complete, and fit again")


def block_weights(values: Column | None, name: str) -> Float | None:
    """Checked weights of a block, which may all be zero where other blocks have others."""
    if values is not None and not np.any(np.asarray(values)):
        return np.zeros(len(values))
    return checked_weights(values, name)


# Units: clusters by their label, or sampling units of a design by stratum and label.


@dataclass(frozen=True)
class UnitCodes:
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


def unit_names(beside: SamplingArguments) -> tuple[str, ...]:
    if beside.design is None or len(beside.design.replicate_weights):
        return ("clusters",) if beside.clusters is not None or (beside.design and beside.design.clusters) else ()
    given = {"strata": beside.design.strata, "clusters": beside.design.clusters, "fpc": beside.design.fpc}
    if given["clusters"] is None:
        raise PramanaError(
            "a design without clusters= makes every record a sampling unit, whose totals do not fit into memory: raise memory=, or "
            "leave out the design and give weights="
        )
    return tuple(name for name, column in given.items() if column is not None)


def numbered_units(names: tuple[str, ...], found: Any, beside: SamplingArguments) -> UnitCodes:
    """Units from the combinations that occur, in the order of first appearance."""
    if not names:
        return UnitCodes()
    index = _index([np.asarray(found[name]) for name in names])
    if beside.design is None or len(beside.design.replicate_weights):
        if len(index) < 2:
            raise DataError(f"clusters have {len(index)} distinct value(s): a cluster-robust variance needs at least 2")
        return UnitCodes(names, index, np.arange(len(index)))
    columns = {name: np.asarray(found[name]) for name in names}
    code, strata = stratified(
        columns.get("strata"), columns.get("clusters"), columns.get("fpc"), beside.design.target, len(index)
    )
    return UnitCodes(names, index, code, strata)

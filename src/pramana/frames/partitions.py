"""Frames whose partitions lie with a cluster: those of Dask and of Spark, read one partition after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import Any

import pyarrow as pa

from pramana.errors import DataError
from pramana.frames.sources import BATCH, Source, each, even
from pramana.frames.table import FrameKind

_PLANNING = Lock()
"""Held while a Dask frame says how it is computed: two threads of a worker that ask at once wait for each other's cached properties, for good."""


@dataclass(frozen=True)
class DaskSource(Source):
    """A Dask frame. Its pieces are its partitions, which a worker computes by itself."""

    frame: Any
    label: str = "the Dask frame"
    kind: FrameKind = "pandas"
    alone: bool = False
    """A partition that whoever has it computes in its own thread."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Of its columns; categories that are not known before all partitions are, are text."""
        meta = self.frame._meta
        known = pa.Schema.from_pandas(meta, preserve_index=False)
        unknown = [c for c in meta.columns if str(meta[c].dtype) == "category" and not self.frame[c].cat.known]
        fields = [pa.field(f.name, pa.string()) if f.name in unknown else f for f in known]
        return pa.schema(
            [pa.field(f.name, pa.string()) if pa.types.is_null(f.type) else f for f in fields], known.metadata
        )

    def pieces(self) -> list[Source]:
        return [
            DaskSource(self.frame.partitions[k], f"partition {k} of {self.label}", alone=True)
            for k in range(self.frame.npartitions)
        ]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _PLANNING:
            wanted = pa.schema([self.schema.field(name) for name in columns], self.schema.metadata)
            parts = self.asked(self.frame[list(columns)].to_delayed)
        how = {"scheduler": "synchronous"} if self.alone else {}
        for part in parts:
            found = self.asked(partial(part.compute, **how))
            yield from self.asked(partial(_batches, found, wanted))


def _batches(part: Any, wanted: pa.Schema) -> list[pa.RecordBatch]:
    """The records of a partition; none of an empty one."""
    whole = pa.Table.from_pandas(part, wanted, preserve_index=False).replace_schema_metadata(wanted.metadata)
    return whole.combine_chunks().to_batches(max_chunksize=BATCH)


@dataclass(frozen=True)
class SparkSource(Source):
    """A Spark frame. Its query runs once for every pass, and its partitions come here one by one, as Arrow has them."""

    frame: Any
    label: str = "the Spark frame"
    kind: FrameKind = "pyarrow"

    @cached_property
    def schema(self) -> pa.Schema:
        found: pa.Schema = self.asked(lambda: self.frame.limit(0).toArrow().schema)
        decimals = [f.name for f in found if pa.types.is_decimal(f.type)]
        if decimals:
            raise DataError(
                f"column {decimals[0]!r} of {self.label} holds decimals: cast it to double, and give the frame again"
            )
        return found

    @cached_property
    def rows(self) -> int | None:
        return int(self.asked(self.frame.count))

    @property
    def ordered(self) -> bool:
        return False

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # A partition is a row of bytes for every batch of it, so that no more than one partition is here at a time.
        sent = self.asked(lambda: self.frame.select(*map(_quoted, columns)).mapInArrow(_written, "content binary"))
        rows = each(self.asked(lambda: iter(sent.toLocalIterator(prefetchPartitions=True))), self.asked)
        yield from even(b for row in rows for b in pa.ipc.open_stream(bytes(row["content"])) if b.num_rows)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches as bytes. It travels to Spark's workers, and needs no more than Arrow there."""
    import pyarrow as arrow

    for batch in batches:
        sink = arrow.BufferOutputStream()
        with arrow.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield arrow.RecordBatch.from_pydict(
            {"content": [sink.getvalue().to_pybytes()]}, arrow.schema([("content", arrow.binary())])
        )

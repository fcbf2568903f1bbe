"""Sums over Parquet files that DuckDB reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pramana.errors import DataError, PramanaError
from pramana.frames.metadata import as_labels, may_be_in_an_order
from pramana.frames.sources import FileSource, RelationSource, Source
from pramana.frames.workers import SourcePart, Threads


@dataclass(frozen=True)
class DuckDBEngine(Threads):
    """DuckDB reads the files, the threads of this process add up. Relations and queries of DuckDB are read by it anyway, and files that it would
    take for other records by Arrow."""

    def parts(self, source: Source, columns: Sequence[str]) -> Iterator[SourcePart]:
        if not isinstance(source, FileSource) or not _as_they_are(source):
            return super().parts(source, columns)
        if may_be_in_an_order(source.schema, columns):
            return super().parts(source, columns)  # DuckDB reads categories as text, and loses their order
        try:
            import duckdb
        except ImportError:
            raise PramanaError("engine='duckdb' needs the package duckdb: pip install 'pramana[duckdb]'") from None
        return self._read(source, duckdb.connect(), columns)

    def _read(self, source: FileSource, connection: Any, columns: Sequence[str]) -> Iterator[SourcePart]:
        source.refuse_changed()
        try:
            relation = source.asked(lambda: connection.read_parquet([str(path) for path in source.files]))
            for batch in RelationSource(relation, source.label).batches(columns):
                yield as_labels(batch, source.labels)
        except DataError:
            for _ in source.batches(columns):
                pass  # Arrow stumbles over the same place, and tells the file and the row group
            raise
        source.refuse_changed()


def _as_they_are(source: FileSource) -> bool:
    """Whether DuckDB finds the same records in the files. It takes marks in their names for patterns, does not tell large letters in names of
    columns from small ones, refuses whole numbers beyond the type of the first file, and knows no columns that folders name."""
    if source.format != "parquet" or any(mark in str(path) for path in source.files for mark in "*?[~"):
        return False
    files = [fragment.physical_schema for fragment in source.dataset.get_fragments()]
    return all(
        set(source.names) <= set(own.names)
        and len({name.casefold() for name in own.names}) == len(own)
        and all(own.field(name).type == files[0].field(name).type for name in source.names if _is_whole(own, name))
        for own in files
    )


def _is_whole(schema: pa.Schema, name: str) -> bool:
    return bool(pa.types.is_integer(schema.field(name).type))

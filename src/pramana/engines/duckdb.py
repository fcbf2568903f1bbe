"""Sums over Parquet files that DuckDB reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pramana.errors import DataError, PramanaError
from pramana.frames.metadata import as_labels, may_be_in_an_order
from pramana.frames.sources import FileSource, RelationSource, Source
from pramana.frames.workers import Part, Threads


@dataclass(frozen=True)
class DuckDBEngine(Threads):
    """DuckDB reads the files, the threads of this process add up. Relations and queries of DuckDB are read by it anyway."""

    def parts(self, source: Source, columns: Sequence[str]) -> Iterator[Part]:
        if not isinstance(source, FileSource) or source.format != "parquet":
            return super().parts(source, columns)
        if may_be_in_an_order(source.schema, columns):
            return super().parts(source, columns)  # DuckDB reads categories as text, and loses their order
        try:
            import duckdb
        except ImportError:
            raise PramanaError("engine='duckdb' needs the package duckdb: pip install 'pramana[duckdb]'") from None
        return self._read(source, duckdb.connect().read_parquet([str(path) for path in source.files]), columns)

    def _read(self, source: FileSource, relation: object, columns: Sequence[str]) -> Iterator[Part]:
        source.refuse_changed()
        try:
            for batch in RelationSource(relation, source.label).batches(columns):
                yield as_labels(batch, source.labels)
        except DataError:
            for _ in source.batches(columns):
                pass  # Arrow stumbles over the same place, and tells the file and the row group
            raise
        source.refuse_changed()

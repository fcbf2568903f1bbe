"""Sums over Parquet files that DuckDB reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pramana.errors import DataError, PramanaError
from pramana.frames.metadata import as_labels
from pramana.frames.sources import FileSource, RelationSource, Source
from pramana.frames.workers import SourcePart, Threads


@dataclass(frozen=True)
class DuckDBEngine(Threads):
    """DuckDB reads the files, the threads of this process add up. Relations and queries of DuckDB are read by it anyway."""

    def parts(self, source: Source, columns: Sequence[str]) -> Iterator[SourcePart]:
        if not isinstance(source, FileSource) or source.format != "parquet":
            return super().parts(source, columns)
        try:
            import duckdb
        except ImportError:
            raise PramanaError("engine='duckdb' needs the package duckdb: pip install 'pramana[duckdb]'") from None
        return self._read(source, duckdb.connect().read_parquet([str(path) for path in source.files]), columns)

    def _read(self, source: FileSource, relation: object, columns: Sequence[str]) -> Iterator[SourcePart]:
        source.refuse_changed()
        try:
            for batch in RelationSource(relation, source.label).batches(columns):
                yield as_labels(batch, source.labels)
        except DataError:
            for _ in source.batches(columns):
                pass  # Arrow stumbles over the same place, and tells the file and the row group
            raise
        source.refuse_changed()

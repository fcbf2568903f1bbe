"""Tables and queries of databases, read anew for every pass: DuckDB files, and PostgreSQL through ADBC."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from pramana.errors import DataError, PramanaError, quoted
from pramana.frames.sources import RelationSource, Source, column_list, each, even, said
from pramana.frames.table import FrameKind


@dataclass(frozen=True)
class DuckDB(Source):
    """A table or a query of a DuckDB database file, which is opened for reading only.

    Attributes
    ----------
    path : the file.
    query : the name of a table, or a query. Records come in the order of the table; the records of a join or a union have none unless
        the query says `order by`, and draws of `Resampling` go by a record's place.
    """

    path: str | Path
    query: str
    kind: FrameKind = field(default="pyarrow", init=False)

    def __post_init__(self) -> None:
        _refuse_other_than_text(self.query)
        if not isinstance(self.path, str | os.PathLike):
            raise DataError(f"path={self.path!r} must be the path of a DuckDB database")

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"the query of {str(self.path)!r}"

    @cached_property
    def _relation(self) -> RelationSource:
        try:
            import duckdb
        except ImportError:
            raise PramanaError("a DuckDB file needs the package duckdb: pip install 'pramana[duckdb]'") from None
        if not Path(self.path).is_file():
            raise DataError(f"there is no file {str(self.path)!r}: give the path of a DuckDB database")
        try:
            connection = duckdb.connect(str(self.path), read_only=True)
            if self.query.replace("_", "a").isalnum():
                return RelationSource(connection.table(self.query), self.label)
            kinds = [statement.type.name for statement in duckdb.extract_statements(self.query)]
            if kinds not in (
                ["SELECT"],
                ["MULTI"],
            ):  # a pivot is several; whatever else runs at once, and may write files
                raise DataError(
                    f"{self.label} is no single question ({', '.join(kinds) or 'empty'}): give the name of a table, or one query that starts with "
                    "'select'"
                )
            return RelationSource(connection.sql(self.query), self.label)
        except duckdb.Error as error:
            raise DataError(f"{self.label} could not be read: {quoted(said(error))}") from None

    @property
    def schema(self) -> pa.Schema:
        return self._relation.schema

    @property
    def rows(self) -> int | None:
        return self._relation.rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._relation.batches(columns)


@dataclass(frozen=True)
class PostgreSQL(Source):
    """A table or a query of a PostgreSQL server, as Arrow data through ADBC.

    All passes see the database as it was when it was first asked, whatever others write in the meantime: one transaction, which lasts
    as long as this object.

    Attributes
    ----------
    uri : "postgresql://user:password@host:5432/database"; what the uri does not say, libpq looks up.
    query : the name of a table, or a query. Cast `numeric` columns, which have no Arrow type, to `double precision`.
    order_by : columns that put the records into one order, such as the key of the table: the server gives them in any, and draws of
        `Resampling` go by a record's place.
    timeout : seconds until a server must have answered.
    """

    uri: str = field(repr=False)
    query: str
    order_by: str | Sequence[str]
    timeout: int = 30
    label: str = field(default="the PostgreSQL query", init=False)
    kind: FrameKind = field(default="pyarrow", init=False)

    def __post_init__(self) -> None:
        _refuse_other_than_text(self.query)
        if not isinstance(self.uri, str) or not self.uri.startswith(("postgresql://", "postgres://")):
            raise DataError('uri must be text such as "postgresql://user:password@host:5432/database"')
        columns = self._columns
        if not isinstance(columns, list | tuple) or not columns or not all(isinstance(one, str) for one in columns):
            raise DataError(
                f"order_by={self.order_by!r} must name one or more columns, such as the key of the table: the server gives records in any order"
            )

    @property
    def _columns(self) -> Sequence[str]:
        """The columns that the records are ordered by."""
        return [self.order_by] if isinstance(self.order_by, str) else self.order_by

    @cached_property
    def _connection(self) -> Any:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise PramanaError(
                "PostgreSQL needs the package adbc-driver-postgresql: pip install 'pramana[postgresql]'"
            ) from None
        within = (
            "" if "connect_timeout" in self.uri else f"{'&' if '?' in self.uri else '?'}connect_timeout={self.timeout}"
        )
        wrong = ""
        try:
            connection = dbapi.connect(self.uri + within)
        except Exception as error:
            wrong = self._without_password(said(error))
        if wrong:  # outside the handler, or Python would chain what was caught
            raise DataError(f"no PostgreSQL server answered: {quoted(wrong)}")
        with closing(connection.cursor()) as cursor:
            self.asked(lambda: cursor.execute("set transaction isolation level repeatable read read only"))
        return connection

    def _without_password(self, text: str) -> str:
        """What libpq says of a uri that it cannot read, which is a part of it, and of the password where a mark in that is not encoded."""
        _, _, password = self.uri.partition("://")[2].rpartition("@")[0].partition(":")
        if any(part and part in text for part in re.split("[/?#@:]", password)):
            return "its text is withheld, for it may quote the password, in which other marks than letters must be percent-encoded"
        return text

    @cached_property
    def schema(self) -> pa.Schema:
        return self._table(f"select * from ({self._text}) as records {self._ordered} limit 0").schema

    @cached_property
    def rows(self) -> int | None:
        return int(self._table(f"select count(*) from ({self._text}) as records")[0][0].as_py())

    def _table(self, text: str) -> pa.Table:
        with closing(self._connection.cursor()) as cursor:
            self.asked(lambda: cursor.execute(text))
            return self.asked(cursor.fetch_arrow_table)

    @property
    def _text(self) -> str:
        plain = self.query.replace("_", "a").replace(".", "a").isalnum()
        return f"select * from {self.query}" if plain else self.query.rstrip("; \n")

    @property
    def _ordered(self) -> str:
        return f"order by {column_list(self._columns)}"

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        text = f"select {column_list(columns)} from ({self._text}) as records {self._ordered}"
        with closing(self._connection.cursor()) as cursor:
            self.asked(lambda: cursor.execute(text))
            reader = self.asked(lambda: iter(cursor.fetch_record_batch()))
            yield from even(each(reader, self.asked))


def _refuse_other_than_text(query: object) -> None:
    if not isinstance(query, str):
        raise DataError(f"query must be text, the name of a table or a query, not {type(query).__name__}")

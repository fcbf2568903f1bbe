"""CSV read as Arrow columns with types, for a copy in Parquet: a first pass finds the types, a second yields the blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pramana.arrays import Column, Float, Int
from pramana.errors import DataError, MechanismError
from pramana.frames.blocks.csv_files import CsvBlock, CsvReader
from pramana.frames.blocks.parquet_files import ParquetBlock
from pramana.frames.dialects import Dialect
from pramana.frames.levels import Level

_PATTERNS = {
    pa.bool_(): r"^(true|false|True|False|TRUE|FALSE)$",
    pa.int64(): r"^(0|-?[1-9][0-9]{0,18})$",
    # Not 007, +1 or 1E5: these are codes, and programs write numbers otherwise.
    pa.float64(): r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-][0-9]{2,})?$",
    pa.date32(): r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
}
"""The types that a column can have beside text: the first that every field reads as is the column's."""
_SAFE = 15
"""Decimal digits that a double holds, whichever they are."""


class TypedCsvReader:
    """A CSV file as blocks that a Parquet writer takes.

    A perturbed column has the type of its levels. Another is of the first of true and false, whole number, number, date and
    text that every field of it reads as without losing anything: "007", whole numbers beyond 64 bits and numbers with more
    digits than a double has are text. A mark of a missing value is one without quotation marks around it.

    Parameters
    ----------
    levels : those of the perturbed columns.
    text : other columns that are text, whatever they look like.
    """

    codec = "snappy"
    dialect = None

    def __init__(
        self,
        path: Path,
        dialect: Dialect,
        levels: Mapping[str, Sequence[Level]],
        text: Collection[str] = (),
        missing: Sequence[str] = ("",),
    ) -> None:
        self.path = path
        self._dialect, self._levels, self._text, self._missing = dialect, levels, text, missing
        self._reader = CsvReader(path, dialect, missing)
        self.names = self._reader.names

    @cached_property
    def _learned(self) -> tuple[pa.Schema, int]:
        """The types, and the number of records: the first pass."""
        drawn = {name: _type_of(levels) for name, levels in self._levels.items()}
        left = {name: [] if name in self._text else list(_PATTERNS) for name in self.names if name not in drawn}
        filled: set[str] = set()
        rows = 0
        for block in CsvReader(self.path, self._dialect, self._missing).blocks():
            for name in (name for name, kinds in left.items() if kinds):
                fields = _texts(block, name)
                filled |= {name} if fields.null_count < len(fields) else set()
                left[name] = [kind for kind in left[name] if _reads_as(fields, kind, block.dialect.decimal)]
            rows += block.rows
        found = {name: next(iter(kinds), pa.string()) for name, kinds in left.items()}
        found |= {name: pa.string() for name in left if name not in filled}
        return pa.schema([(name, (found | drawn)[name]) for name in self.names]), rows

    @property
    def schema(self) -> pa.Schema:
        return self._learned[0]

    @property
    def rows(self) -> int:
        return self._learned[1]

    @property
    def types(self) -> dict[str, str]:
        return {column.name: str(column.type) for column in self.schema}

    @property
    def size(self) -> int:
        return max(3 * self._reader.size, 8 * self.rows * len(self.names))

    @property
    def progress(self) -> tuple[int, int]:
        return self._reader.progress

    def blocks(self) -> Iterator[TypedBlock]:
        for block in self._reader.blocks():
            arrays = [self._array(block, column) for column in self.schema]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            yield TypedBlock(batch, self.schema, block.first_row, _no_categories, source=block)

    def _array(self, block: CsvBlock, column: Any) -> Any:
        """A column as Arrow has it; of a perturbed one, whose values are all to be replaced, nothing."""
        if column.name in self._levels:
            return pa.nulls(block.rows, column.type)
        try:
            return _pointed(_texts(block, column.name), column.type, block.dialect.decimal).cast(column.type)
        except pa.ArrowInvalid:
            raise DataError(
                f"column {column.name!r} of {self.path.name!r} changed while it was read: do it again"
            ) from None


def _no_categories(name: str) -> Any:
    raise TypeError(f"column {name!r} of a text file has no categories")


@dataclass(frozen=True)
class TypedBlock(ParquetBlock):
    """Arrow columns of some CSV records; levels and identifiers are read from the text, as in a release to CSV."""

    source: CsvBlock = field(kw_only=True)

    def codes(self, name: str, levels: Sequence[Level]) -> Int:
        return self.source.codes(name, levels)

    def numbers(self, name: str) -> Float:
        return self.source.numbers(name)

    def values(self, name: str) -> Column:
        return self.source.values(name)


def _type_of(levels: Sequence[Level]) -> Any:
    for wider in (None, pa.uint64()):
        with suppress(pa.ArrowException, OverflowError):
            return pa.array(list(levels), wider).type
    raise MechanismError("whole numbers beyond 64 bits cannot be levels in Parquet: write them as text")


def _texts(block: CsvBlock, name: str) -> Any:
    """The fields of a column without quotation marks, null where they are missing."""
    raw = block.fields(name).cast(pa.large_string())
    texts = pc.if_else(pc.is_in(raw, pa.array(block.missing, pa.large_string())), None, raw)
    mark = block.dialect.quote
    marked = pc.starts_with(texts, mark)
    if not pc.any(marked).as_py():
        return texts
    inner = pc.replace_substring(pc.utf8_slice_codeunits(texts, 1, -1), 2 * mark, mark)
    return pc.if_else(marked, inner, texts)


def _pointed(texts: Any, kind: Any, decimal: str) -> Any:
    """The fields as a cast to the type takes them: a number has a point."""
    if kind != pa.float64() or decimal == ".":
        return texts
    return pc.replace_substring(pc.replace_substring(texts, ".", "#"), decimal, ".")


def _reads_as(texts: Any, kind: Any, decimal: str) -> bool:
    """Whether every field that is not missing reads as the type, and nothing of it would be lost."""
    texts = _pointed(texts, kind, decimal)
    if not pc.all(pc.match_substring_regex(texts, _PATTERNS[kind]), min_count=0).as_py():
        return False
    try:
        read = texts.cast(kind)
    except pa.ArrowInvalid:  # beyond 64 bits, or no day of the calendar
        return False
    return kind != pa.float64() or _exact(texts, read)


def _exact(texts: Any, numbers: Any) -> bool:
    """Whether doubles hold all digits of the numbers that they were read from."""
    doubtful = pc.or_(pc.greater(pc.utf8_length(texts), _SAFE), pc.match_substring(texts, "e", ignore_case=True))
    doubtful = pc.and_(doubtful, pc.not_equal(texts, numbers.cast(pa.large_string())))
    rest = pc.filter(texts, doubtful, null_selection_behavior="drop").to_pylist()
    return all(Decimal(repr(float(text))) == Decimal(text) for text in rest)

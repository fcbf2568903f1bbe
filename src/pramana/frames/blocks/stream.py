"""A file as a stream of blocks whose columns are level codes, or numbers, whatever its format."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pramana.arrays import Bool, Column, Float, Int
from pramana.errors import DataError
from pramana.frames.dialects import DataFile, Dialect, dialect_of
from pramana.frames.files import NULLS, existing, require_names
from pramana.frames.levels import Level

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = -1
UNKNOWN = -2


@dataclass(frozen=True)
class CopyLayout:
    """The columns of a copy: those of the source that are kept, in their order.

    Attributes
    ----------
    names : the columns of the copy.
    identifier : the column that gets new text for every record; one that the source lacks comes first.
    """

    names: tuple[str, ...]
    identifier: str | None = None

    @staticmethod
    def of(names: Sequence[str], dropped: Sequence[str] = (), identifier: str | None = None) -> CopyLayout:
        """The source's columns without some of them, and with one that identifies the records anew."""
        kept = tuple(name for name in names if name not in dropped)
        return CopyLayout(kept if identifier is None or identifier in kept else (identifier, *kept), identifier)

    def types(self, reader: Reader) -> dict[str, str]:
        """Arrow's names of the columns' types, where the source says them."""
        types = reader.types
        known = {name: types.get(name, "") for name in self.names}
        return known if self.identifier is None else {**known, self.identifier: "string"}


@dataclass(frozen=True)
class Replacement:
    """New values of a column: levels by code; a negative code is a gap."""

    codes: Int
    levels: Sequence[Level]

    @staticmethod
    def of_numbers(values: Column, present: Bool) -> Replacement:
        """Numbers (n,), each a level of its own; where one is not present (n,) is a gap."""
        distinct, codes = np.unique(values, return_inverse=True)
        return Replacement(np.where(present, codes, MISSING), distinct.tolist() or [0])


class Block(Protocol):
    """Some rows of a file."""

    @property
    def first_row(self) -> int: ...

    @property
    def rows(self) -> int: ...

    def codes(self, name: str, levels: Sequence[Level]) -> Int:
        """Position of every value among the levels, MISSING or UNKNOWN."""

    def numbers(self, name: str) -> Float:
        """The column as numbers (n,), NaN where missing; one that is none is an error by row and count."""

    def values(self, name: str) -> Column:
        """The values themselves: numbers, text, or None and NaN where missing."""

    def released(self, drawn: Mapping[str, Replacement], layout: CopyLayout, identifiers: Any = None) -> pa.RecordBatch:
        """The block as its format's writer takes it, a row a record: columns kept, drawn (a negative code is
        published as a gap), and the new identifiers (an Arrow array of text) where the layout has them."""


class Reader(Protocol):
    """A file opened for reading block by block."""

    @property
    def path(self) -> Path: ...

    @property
    def names(self) -> list[str]: ...

    @property
    def types(self) -> dict[str, str]:
        """Arrow's names of the columns' types; of a text file, which says nothing of them, none."""

    @property
    def dialect(self) -> Dialect | None:
        """How the text of a copy is written; None in a format that is not text."""

    @property
    def rows(self) -> int | None:
        """Records, where the format says so without reading them."""

    @property
    def size(self) -> int:
        """Bytes that its records take in memory, about."""

    @property
    def progress(self) -> tuple[int, int]:
        """How much was read, and of how much."""

    def blocks(self) -> Iterator[Block]: ...


class Writer(Protocol):
    """A file being written block by block."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def open_reader(
    file: DataFile,
    text: Sequence[str] = (),
    missing: Sequence[str] | None = None,
    typed: Mapping[str, Sequence[Level]] | None = None,
) -> Reader:
    """The file as a stream.

    Parameters
    ----------
    text : the columns that will be asked for by level.
    missing : what stands for a missing value beside an empty field or a null; None takes the usual marks of CSV files, as a
        program that reads them would. A mark that is a level is a level.
    typed : values of the type that columns have in a copy of the file, where that is not their own.
    """
    path = Path(file)
    if existing(path) == "csv":
        from pramana.frames.blocks.csv_files import CsvReader

        return CsvReader(path, dialect_of(file), NULLS if missing is None else ("", *missing))
    from pramana.frames.blocks.parquet_files import ParquetReader

    return ParquetReader(path, text, missing or (), typed)


def open_typed(
    file: DataFile, levels: Mapping[str, Sequence[Level]], text: Collection[str] = (), missing: Sequence[str] = ()
) -> Reader:
    """A CSV file as a stream whose blocks a Parquet writer takes: perturbed columns have the type of their levels (of noise, of any
    released number), those in `text` stay text."""
    from pramana.frames.blocks.typed_csv import TypedCsvReader

    return TypedCsvReader(Path(file), dialect_of(file), levels, text, ("", *missing))


def refuse_no_numbers(wrong: Bool, name: str, first_row: int) -> None:
    """The count is that of the block: the rest of the file was not read."""
    rows = np.flatnonzero(wrong)
    if rows.size:
        raise DataError(
            f"column {name!r} has at least {rows.size} value(s) that are no finite numbers, first in row {first_row + rows[0]}: noise is added "
            "to numbers alone; recode them, or declare the mark of a missing value (missing=)"
        )


def require(reader: Reader, names: Sequence[str], why: str) -> None:
    """Refuse a file that lacks columns, naming all of them at once."""
    require_names(names, reader.names, why, f"{reader.path.name!r} lacks")

"""Parquet, a batch of rows at a time, with every type kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from pramana.arrays import Column, Float, Int
from pramana.errors import DataError
from pramana.frames.blocks.stream import MISSING, UNKNOWN, CopyLayout, Replacement, refuse_no_numbers
from pramana.frames.files import CHECKED, check_header, unreadable
from pramana.frames.levels import Level, is_number
from pramana.frames.metadata import is_text, pandas_block, published_field

CELLS = 1 << 21
LONGEST = 1 << 18
BUFFER = 1 << 20
"""Bytes of a column read at a time: without it a whole row group would be held, however long it is."""
_CODECS = ("snappy", "gzip", "brotli", "lz4", "zstd")


class ParquetReader:
    """Batches of at most 2¹⁸ rows, fewer for wide files."""

    dialect = None

    def __init__(
        self,
        path: Path,
        text: Sequence[str] = (),
        missing: Sequence[str] = (),
        typed: Mapping[str, Sequence[Level]] | None = None,
    ) -> None:
        self.path = path
        self._missing = missing
        try:
            plain = parquet.ParquetFile(path)
            self.schema: pa.Schema = plain.schema_arrow
            options = {"read_dictionary": self._texts(text), "buffer_size": BUFFER, "pre_buffer": False} | CHECKED
            self._file = parquet.ParquetFile(path, **options)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise unreadable(path, error) from None
        for name in (name for name in typed or () if name in self.schema.names):
            kind = pa.array(list((typed or {})[name])).type
            self.schema = self.schema.set(self.schema.names.index(name), self.schema.field(name).with_type(kind))
        self.metadata = plain.metadata
        self._done = 0
        self._listed: dict[str, Any] = {}
        check_header(self.names, path)

    def _texts(self, names: Sequence[str]) -> list[str]:
        """Text columns that are read as codes straight from the pages."""
        return [n for n in names if n in self.schema.names and is_text(self.schema.field(n).type)]

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def types(self) -> dict[str, str]:
        return {field.name: str(field.type) for field in self.schema}

    @property
    def rows(self) -> int:
        return int(self.metadata.num_rows)

    @property
    def size(self) -> int:
        groups = [self.metadata.row_group(k).total_byte_size for k in range(self.metadata.num_row_groups)]
        return max(3 * sum(groups), 8 * self.rows * len(self.names))

    @property
    def progress(self) -> tuple[int, int]:
        return self._done, self.rows

    @property
    def codec(self) -> str:
        """The compression of the first column, for the copy."""
        if not self.metadata.num_row_groups or not self.metadata.num_columns:
            return "snappy"
        found = self.metadata.row_group(0).column(0).compression.lower()
        return found if found in _CODECS else "none" if found == "uncompressed" else "snappy"

    def blocks(self) -> Iterator[ParquetBlock]:
        size = max(1024, min(LONGEST, CELLS // max(1, len(self.names))))
        try:
            for batch in self._file.iter_batches(batch_size=size):
                yield ParquetBlock(batch, self.schema, self._done, self._occurring, self._missing)
                self._done += batch.num_rows
        except (pa.ArrowException, OSError) as error:  # Arrow's word for a damaged page is an OSError
            raise unreadable(self.path, error, f" after row {self._done}") from None

    def _occurring(self, name: str) -> Any:
        """The values of a dictionary column that occur in the file; read once more, before the first block is released."""
        if name not in self._listed:
            file = parquet.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False, **CHECKED)
            try:
                self._listed[name] = _occurring(file, name, self.schema.field(name).type)
            except (pa.ArrowException, OSError) as error:
                raise unreadable(self.path, error) from None
        return self._listed[name]


def _occurring(file: Any, name: str, dictionary: Any) -> Any:
    """Of the values that dictionaries list, those of some record: others may be of records long deleted.

    Their order is declared where the type is ordered. Elsewhere it may be that of the first appearance, which would undo a shuffle:
    there they are sorted.
    """
    listed = used = pa.array([], dictionary.value_type)
    for batch in file.iter_batches(batch_size=LONGEST, columns=[name]):
        column = batch.column(name)
        if not listed.equals(column.dictionary):
            listed = pc.unique(pa.concat_arrays([listed, column.dictionary]))
        held = column.dictionary.take(pc.drop_null(pc.unique(column.indices)))
        used = pc.unique(pa.concat_arrays([used, held]))
    kept = listed.filter(pc.is_in(listed, value_set=pc.drop_null(used)))
    return kept if dictionary.ordered else kept.take(pc.array_sort_indices(kept))


class ParquetWriter:
    """A batch becomes a row group. Of the source's schema only names and types are kept, and what of them pandas must know."""

    def __init__(
        self, file: BinaryIO, reader: ParquetReader, layout: CopyLayout, metadata: Mapping[bytes, bytes]
    ) -> None:
        new = pa.field(layout.identifier or "", pa.string())
        old = reader.schema
        fields = [new if n == layout.identifier else published_field(old.field(n), stored=True) for n in layout.names]
        self.schema = pa.schema(fields, {**pandas_block(old, fields), **metadata})
        self._file = file
        self._writer = parquet.ParquetWriter(file, self.schema, compression=reader.codec)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_table(pa.Table.from_batches([batch]).cast(self.schema))

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            self._file.close()


@dataclass(frozen=True)
class ParquetBlock:
    """A record batch; text columns may come as dictionaries though the schema says text."""

    batch: pa.RecordBatch
    schema: pa.Schema
    first_row: int
    occurring: Callable[[str], Any]
    missing: Sequence[str] = ()

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    def codes(self, name: str, levels: Sequence[Level]) -> Int:
        codes = array_codes(self.batch.column(name), levels, name)
        unknown = np.flatnonzero(codes == UNKNOWN)
        if self.missing and unknown.size:
            found = pc.cast(self.batch.column(name).take(pa.array(unknown)), pa.string(), safe=False).to_pylist()
            codes[unknown[[_is_mark(text, self.missing) for text in found]]] = MISSING
        return codes

    def numbers(self, name: str) -> Float:
        array = self.batch.column(name)
        array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        kind = array.type
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if not (number or pa.types.is_null(kind)):
            raise DataError(f"column {name!r} holds no numbers, to which noise could be added: convert it first")
        gaps = pc.is_null(array, nan_is_null=pa.types.is_floating(kind)).to_numpy(zero_copy_only=False).copy()
        if self.missing:
            marks = [*self.missing, *(f"{mark}.0" for mark in self.missing)]
            texts = pc.cast(array, pa.string(), safe=False)
            gaps |= pc.is_in(texts, pa.array(marks, pa.string())).to_numpy(zero_copy_only=False)
        values = np.array(pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=float)
        values[gaps] = np.nan
        refuse_no_numbers(np.isinf(values), name, self.first_row)
        return values

    def values(self, name: str) -> Column:
        column = self.batch.column(name)
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def released(self, drawn: Mapping[str, Replacement], layout: CopyLayout, identifiers: Any = None) -> pa.RecordBatch:
        arrays = []
        for name in layout.names:
            if name == layout.identifier:
                arrays.append(identifiers)
            elif name in drawn:
                arrays.append(_released(self.batch.column(name), drawn[name], self.schema.field(name), name))
            else:
                arrays.append(self._clear(name))
        return pa.RecordBatch.from_arrays(arrays, names=list(layout.names))

    def _clear(self, name: str) -> Any:
        """A column as it is; its dictionary, where it has one, lists what occurs in the file and nothing else."""
        column = self.batch.column(name)
        if not pa.types.is_dictionary(self.schema.field(name).type):
            return column
        listed = self.occurring(name)
        places = pc.index_in(column.dictionary, value_set=listed).take(column.indices)
        return pa.DictionaryArray.from_arrays(places.cast(column.type.index_type), listed, ordered=column.type.ordered)


def _is_mark(text: str, marks: Sequence[str]) -> bool:
    """Whether a value, as text, is one of the marks; -8.0 is the mark -8."""
    return text in marks or text.removesuffix(".0") in marks


def array_codes(array: Any, levels: Sequence[Level], name: str) -> Int:
    """Position of every value among the levels; a dictionary is looked up once, not row by row."""
    if pa.types.is_dictionary(array.type):
        inside = array_codes(array.dictionary, levels, name)
        places = pc.fill_null(array.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        return np.append(inside, MISSING)[places]
    if pa.types.is_null(array.type):
        return np.full(len(array), MISSING, dtype=np.int64)
    if pa.types.is_string_view(array.type):  # which Arrow can neither look up nor take from
        array = array.cast(pa.large_string())
    found = pc.index_in(array, value_set=fitting(levels, array.type, name))
    codes = pc.fill_null(found, UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64)
    gaps = pc.is_null(array, nan_is_null=True)
    codes[gaps.to_numpy(zero_copy_only=False)] = MISSING
    return codes


def fitting(levels: Sequence[Level], kind: Any, name: str) -> Any:
    """The levels as an Arrow array of the column's type, exactly, or an error."""
    _refuse_type_mismatch(levels, kind, name)
    try:
        if pa.types.is_decimal(kind):  # a cast of whole numbers would ask for room for all of them
            cast = pa.array([Decimal(repr(level)) for level in levels], kind)
            exact = [float(v) for v in cast.to_pylist()] == list(levels)
        else:
            made = _arrow(levels)
            cast = made.cast(kind)
            exact = cast.cast(made.type).equals(made)
    except (pa.ArrowException, OverflowError):
        exact = False
    if not exact:
        raise DataError(
            f"column {name!r} of type {kind} cannot hold every level of the mechanism: cast it to a wider type or to text"
        )
    return cast


def _arrow(levels: Sequence[Level]) -> Any:
    """Levels in the type that Arrow gives them; whole numbers from 2⁶³ on fit only without a sign."""
    try:
        return pa.array(list(levels))
    except OverflowError:
        return pa.array(list(levels), pa.uint64())


def _refuse_type_mismatch(levels: Sequence[Level], kind: Any, name: str) -> None:
    """`1` is not `"1"`: both types are named so that the user sees which side to change."""
    what = "numbers" if is_number(levels[0]) else "true and false" if isinstance(levels[0], bool) else "text"
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    text = is_text(kind) or pa.types.is_string_view(kind)
    shown = kind if not pa.types.is_nested(kind) else "nested"  # the fields of a nested type can be values
    held = "numbers" if number else "text" if text else "true and false" if pa.types.is_boolean(kind) else str(shown)
    if held != what:
        raise DataError(
            f"column {name!r} holds {held} ({shown}) but the mechanism's levels are {what}: convert the column, or build the "
            "mechanism with levels of the column's type"
        )


def _released(old: Any, new: Replacement, field: Any, name: str) -> Any:
    """Levels by code in the field's type."""
    gaps = new.codes < 0
    kind = field.type
    if pa.types.is_null(kind):
        return old
    if pa.types.is_dictionary(kind):
        order = _order(old, new.levels, kind, name)
        levels = fitting([new.levels[code] for code in order], kind.value_type, name)
        try:
            places = pa.array(np.argsort(order)[new.codes], mask=gaps).cast(kind.index_type)
        except pa.ArrowException:
            raise DataError(
                f"column {name!r} of type {kind} cannot number every level of the mechanism: cast its indices to a wider type"
            ) from None
        return pa.DictionaryArray.from_arrays(places, levels, ordered=kind.ordered)
    if pa.types.is_string_view(kind):
        return fitting(new.levels, pa.large_string(), name).take(pa.array(new.codes, mask=gaps)).cast(kind)
    drawn = fitting(new.levels, kind, name).take(pa.array(new.codes, mask=gaps))
    if not pa.types.is_floating(kind) or not gaps.any():
        return drawn
    return pc.if_else(pc.fill_null(pc.and_(pa.array(gaps), pc.is_nan(old)), False), old, drawn)  # NaN stays NaN


def _order(old: Any, levels: Sequence[Level], kind: Any, name: str) -> Int:
    """The new dictionary: the mechanism's levels in its order, since the old order may tell which true value came first.

    In an ordered type the order was declared and means something, so there the old one is kept where the two differ.
    """
    plain = np.arange(len(levels))
    if not kind.ordered:
        return plain
    held = array_codes(old.dictionary, levels, name)
    held = held[held >= 0]
    if np.all(np.diff(held) > 0):
        return plain
    if held.size < len(levels):
        raise DataError(
            f"column {name!r} is ordered, otherwise than the mechanism's levels and without some of them: order the levels as the "
            "column is, or drop its order"
        )
    return held

"""CSV, a few megabytes of whole records at a time; all bytes but those of the replaced fields are kept."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pramana.arrays import Bool, Column, Float, Int
from pramana.errors import DataError, quoted
from pramana.frames.blocks.stream import MISSING, UNKNOWN, CopyLayout, Replacement, refuse_no_numbers
from pramana.frames.dialects import Dialect, Transcoded, as_it_is
from pramana.frames.files import NULLS, check_header, ragged, undecodable
from pramana.frames.levels import Level, is_number

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def unquoted(text: str, quote: str = '"') -> str:
    """A field without its quotation marks.

    >>> unquoted('"a ""b"" c"'), unquoted("plain"), unquoted("'it''s'", "'")
    ('a "b" c', 'plain', "it's")
    """
    return text[1:-1].replace(2 * quote, quote) if len(text) > 1 and text[0] == text[-1] == quote else text


def field_code(raw: bytes, known: Mapping[Level, int], example: Level, missing: Sequence[str], dialect: Dialect) -> int:
    """The level that a field's text stands for, in the type of the levels; marks of missing values are gaps unless levels."""
    field = raw.decode("utf-8")
    text = unquoted(field, dialect.quote)
    if isinstance(example, bool):
        code = known.get({"true": True, "false": False}.get(text.strip().lower()), UNKNOWN)
    elif is_number(example):
        text = with_point(text, dialect.decimal)
        code = known.get(_number(text), UNKNOWN) if _NUMBER.fullmatch(text) else UNKNOWN
    else:
        code = known.get(text, UNKNOWN)
    return MISSING if code == UNKNOWN and field in missing else code


def with_point(text: str, decimal: str) -> str:
    """A number with a decimal point; where the mark is a comma, a text with a point is no number.

    >>> with_point("3,5", ","), with_point("1.000", ","), with_point("3.5", ".")
    ('3.5', '1#000', '3.5')
    """
    return text if decimal == "." else text.replace(".", "#").replace(decimal, ".")


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def level_text(level: Level, dialect: Dialect) -> str:
    """A level as a field that reads back as that level."""
    if isinstance(level, bool):
        return "true" if level else "false"
    text = repr(level).replace(".", dialect.decimal) if is_number(level) else str(level)
    marks = f"{dialect.delimiter}{dialect.quote}\n\r"
    if text not in NULLS and text == text.strip() and not any(mark in text for mark in marks):
        return text
    return dialect.quote + text.replace(dialect.quote, 2 * dialect.quote) + dialect.quote


SIZE = 1 << 22
LONGEST = 1 << 26
_FEED, _RETURN = b"\n\r"
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_BOM = b"\xef\xbb\xbf"


class CsvReader:
    """Whole records of about four megabytes a block, as UTF-8 whatever the file's encoding; `dialect` is that of the blocks."""

    def __init__(self, path: Path, dialect: Dialect, missing: Sequence[str] = NULLS) -> None:
        self.path = path
        self.dialect = dialect.published
        self._missing = missing
        self.rows: int | None = None
        self.types: dict[str, str] = {}
        self._size = path.stat().st_size
        self._raw = path.open("rb")
        self._file: Any = gzip.GzipFile(fileobj=self._raw) if path.suffix.lower() == ".gz" else self._raw
        self._packed = self._file is not self._raw
        self._encoding = dialect.encoding
        if not as_it_is(dialect):
            self._file = Transcoded(self._file, dialect)
        self._rest = b""
        self.header = self._first_record()
        self.line_end = b"\r\n" if self.header.endswith(b"\r\n") else b"\n"
        self.names = self._named()

    @property
    def size(self) -> int:
        return 8 * self._size if self._packed else self._size

    @property
    def progress(self) -> tuple[int, int]:
        return min(self._raw.tell(), self._size), self._size

    def blocks(self) -> Iterator[CsvBlock]:
        row = 0
        while True:
            part = self._whole_records(row)
            if not part:
                break
            block = CsvBlock.cut(part, self.names, row, self.line_end, self.dialect, self._missing)
            block.refuse_undecodable(self._encoding)
            row += block.rows
            yield block
        self._raw.close()

    def _more(self) -> bytes:
        try:
            return bytes(self._file.read(SIZE))
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise DataError(f"file {str(self.path)!r} is not a complete gzip file") from None
        except UnicodeError:
            raise undecodable(f"file {str(self.path)!r}", self._encoding) from None

    def _whole_records(self, row: int) -> bytes:
        """Bytes up to the last line feed that ends a record; what follows waits for the next block."""
        while True:
            more = self._more()
            part, self._rest = self._rest + more, b""
            if not more:
                return part
            ends = np.flatnonzero(_outside(part, _FEED, self.dialect))
            if ends.size:
                self._rest = part[ends[-1] + 1 :]
                return part[: ends[-1] + 1]
            if len(part) > LONGEST:
                raise DataError(f"row {row} of {self.path.name!r} has no end: a quotation mark in it is not closed")
            self._rest = part

    def _first_record(self) -> bytes:
        # Without the mark of its encoding, which other readers of the copy would take for a part of the first name.
        part = self._whole_records(0).removeprefix(_BOM)
        ends = np.flatnonzero(_outside(part, _FEED, self.dialect))
        cut = int(ends[0]) + 1 if ends.size else len(part)
        self._rest = part[cut:] + self._rest
        return part[:cut]

    def _named(self) -> list[str]:
        """The columns' names."""
        path = self.path
        try:
            text = self.header.decode("utf-8")
        except UnicodeDecodeError:
            raise undecodable(f"the header of {str(path)!r}", self._encoding) from None
        lines = io.StringIO(text, newline="")
        try:
            records = list(csv.reader(lines, delimiter=self.dialect.delimiter, quotechar=self.dialect.quote))
        except csv.Error:
            raise DataError(
                f"a column name of {str(path)!r} is longer than any name: is the first line a header?"
            ) from None
        if len(records) > 1:
            raise DataError(
                f"the lines of {str(path)!r} do not end with a line feed: save the file with such line ends"
            )
        names = records[0] if records else []
        if "\0" in text:
            raise DataError(
                f"the header of {str(path)!r} holds zero bytes: is it UTF-16 without its mark (pr.Dialect(encoding='utf-16-le'))?"
            )
        if not names:
            raise DataError(f"file {str(path)!r} has no header: its first line must name the columns")
        check_header(names, path)
        return names


def _outside(data: bytes, mark: int, dialect: Dialect) -> Bool:
    """Where a byte occurs outside quotation marks: an even number of them lies before it."""
    values = np.frombuffer(data, dtype=np.uint8)
    found = values == mark
    if dialect.quote.encode() in data:
        found &= (np.cumsum(values == ord(dialect.quote), dtype=np.uint8) & 1) == 0
    return np.asarray(found, dtype=bool)


class CsvWriter:
    """The header of the source, then whole records as bytes."""

    def __init__(self, file: BinaryIO, reader: CsvReader, layout: CopyLayout, *, compressed: bool) -> None:
        self._raw = file
        # Neither a name nor a time inside: the same release gives the same bytes.
        self._file: Any = gzip.GzipFile("", "wb", 6, self._raw, mtime=0) if compressed else self._raw
        header = CsvBlock.cut(reader.header, reader.names, 0, reader.line_end, reader.dialect)
        self.write(header.released({}, layout, pa.array([level_text(layout.identifier or "", reader.dialect)])))

    def write(self, batch: pa.RecordBatch) -> None:
        records = batch.column(0)
        edges = np.frombuffer(records.buffers()[1], dtype=np.int64)[records.offset : records.offset + len(records) + 1]
        if len(records):
            self._file.write(records.buffers()[2][edges[0] : edges[-1]])

    def close(self) -> None:
        try:
            self._file.close()
        finally:
            self._raw.close()


@dataclass(frozen=True)
class CsvBlock:
    """Whole records; `ends[first[r] + j]` is where field j of record r ends."""

    data: bytes
    names: Sequence[str]
    first_row: int
    ends: Int
    first: Int
    line_end: bytes
    dialect: Dialect
    missing: Sequence[str]

    @classmethod
    def cut(
        cls,
        data: bytes,
        names: Sequence[str],
        first_row: int,
        line_end: bytes,
        dialect: Dialect,
        missing: Sequence[str] = NULLS,
    ) -> CsvBlock:
        _refuse_stray_marks(data, first_row, dialect)
        data = data if not data or data.endswith(b"\n") else data + line_end
        values = np.frombuffer(data, dtype=np.uint8)
        feeds = _outside(data, _FEED, dialect)
        ends = np.flatnonzero(_outside(data, ord(dialect.delimiter), dialect) | feeds)
        last = np.flatnonzero(feeds[ends])
        first = np.append(0, last[:-1] + 1)
        length = np.append(ends[0] if ends.size else 0, np.diff(ends) - 1)[last]
        carriage = (ends[last] > 0) & (values[np.maximum(ends[last] - 1, 0)] == _RETURN)
        blank = (last == first) & (length - carriage <= 0)
        _refuse_ragged((last - first + 1)[~blank], len(names), first_row)
        ends[last] -= carriage & (length > 0)
        block = cls(data, names, first_row, ends, first[~blank], line_end, dialect, missing)
        if not blank.any() and np.all(carriage == line_end.startswith(b"\r")):
            return block
        return cls.cut(block._evenly_ended(), names, first_row, line_end, dialect, missing)

    def _evenly_ended(self) -> bytes:
        """The records with one line end for all and no blank lines: which record has which could tell something."""
        starts, ends = self._spans(0)[0], self.ends[self.first + len(self.names) - 1]
        return b"".join(self.data[a:b] + self.line_end for a, b in zip(starts.tolist(), ends.tolist(), strict=True))

    def refuse_undecodable(self, encoding: str) -> None:
        """What is no text in the file's encoding must not be published as if it were."""
        if self.data.isascii():
            return
        try:
            self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            field = int(np.searchsorted(self.ends, error.start))
            row = max(int(np.searchsorted(self.first, field, side="right")) - 1, 0)
            column = min(field - int(self.first[row]), len(self.names) - 1)
            name = quoted(repr(self.names[column]))  # that of a file without a header is a value
            raise undecodable(f"row {self.first_row + row}, column {column + 1} ({name})", encoding) from None

    @property
    def rows(self) -> int:
        return int(self.first.size)

    def _spans(self, column: int) -> tuple[Int, Int]:
        """Where a column's fields begin and end."""
        place = self.first + column
        before = np.where(place > 0, self.ends[place - 1], -1)
        return self._skip(before), self.ends[place]

    def _skip(self, ends: Int) -> Int:
        """The byte after a separator: past the comma, or past the line end with its carriage return."""
        values = np.frombuffer(self.data, dtype=np.uint8)
        returns = (ends >= 0) & (values[np.clip(ends, 0, len(self.data) - 1)] == _RETURN)
        return ends + 1 + returns

    def fields(self, name: str) -> Any:
        """The raw texts of a column, quotes and all."""
        starts, ends = self._spans(list(self.names).index(name))
        offsets = np.stack([starts, ends], axis=1).ravel()
        pieces = _pieces(self.data, np.append(np.append(0, offsets), len(self.data)))
        return pieces.take(pa.array(np.arange(self.rows) * 2 + 1))

    def codes(self, name: str, levels: Sequence[Level]) -> Int:
        fields = self.fields(name).dictionary_encode()
        known = {level: code for code, level in enumerate(levels)}
        distinct = fields.dictionary.to_pylist()
        inside = np.array([field_code(raw, known, levels[0], self.missing, self.dialect) for raw in distinct], np.int64)
        return inside[fields.indices.to_numpy()] if self.rows else np.empty(0, dtype=np.int64)

    def numbers(self, name: str) -> Float:
        fields = self.fields(name).dictionary_encode()
        distinct = np.array([self._as_number(raw.decode("utf-8")) for raw in fields.dictionary.to_pylist()], float)
        values = distinct[fields.indices.to_numpy()] if self.rows else np.empty(0)
        refuse_no_numbers(np.isinf(values), name, self.first_row)
        return values

    def _as_number(self, field: str) -> float:
        """NaN for a mark of a missing value, infinite for what is no number."""
        if field in self.missing:
            return np.nan
        text = with_point(unquoted(field, self.dialect.quote), self.dialect.decimal)
        return float(text) if _NUMBER.fullmatch(text) else np.inf

    def values(self, name: str) -> Column:
        """Whole numbers where a field is written as one, else text: "007" is text, "7" a number, and "7.0" the same number."""
        text = self.fields(name).cast(pa.large_string())
        if pc.all(pc.match_substring_regex(text, _WHOLE)).as_py():
            return np.asarray(text.cast(pa.int64()).to_numpy())
        whole = re.compile(_WHOLE)
        out = np.empty(self.rows, dtype=object)
        plain = [None if raw in self.missing else unquoted(raw, self.dialect.quote) for raw in text.to_pylist()]
        pointed = re.compile(_WHOLE[:-1] + rf"{re.escape(self.dialect.decimal)}0+$")
        short = [v if v is None or not pointed.match(v) else v.partition(self.dialect.decimal)[0] for v in plain]
        out[:] = [int(v) if v is not None and whole.match(v) else v for v in short]
        return out

    def released(self, drawn: Mapping[str, Replacement], layout: CopyLayout, identifiers: Any = None) -> pa.RecordBatch:
        """One column, the whole records with their line ends; all bytes but those of new fields are the source's.

        Every change is a span of bytes in each record and what stands there instead: a level, an identifier, or nothing for a
        dropped field and one of its commas.
        """
        changes = [self._drawn(name, drawn[name]) for name in self.names if name in drawn]
        kept = frozenset(layout.names)
        changes += [self._dropped(name, layout) for name in self.names if name not in kept]
        if layout.identifier is not None:
            changes.append(self._identified(layout.identifier, identifiers))
        changes.sort(key=lambda change: change.place)
        edges, data = self._changed(changes)
        buffers = [None, pa.py_buffer(edges), data]
        return pa.RecordBatch.from_arrays(
            [pa.LargeBinaryArray.from_buffers(pa.large_binary(), self.rows, buffers)], names=["record"]
        )

    def _drawn(self, name: str, new: Replacement) -> _Change:
        place = list(self.names).index(name)
        texts = [*(level_text(level, self.dialect).encode() for level in new.levels), b""]
        return _Change(place, *self._spans(place), pa.array(texts, pa.large_binary()), new.codes % len(texts))

    def _dropped(self, name: str, layout: CopyLayout) -> _Change:
        """The field with the comma before it; the fields before the first one that is kept go with the comma after them."""
        place = list(self.names).index(name)
        leading = not any(kept in layout.names for kept in self.names[:place])
        start, end = self._spans(place)
        nothing = pa.array([b""], pa.large_binary())
        codes = np.zeros(self.rows, dtype=np.int64)
        return _Change(place, start - (not leading), end + leading, nothing, codes)

    def _identified(self, name: str, texts: Any) -> _Change:
        codes = np.arange(self.rows)
        if name in self.names:
            place = list(self.names).index(name)
            return _Change(place, *self._spans(place), texts.cast(pa.large_binary()), codes)
        start, _ = self._spans(0)
        between = self.dialect.delimiter.encode()
        fields = [text + between for text in texts.cast(pa.large_binary()).to_pylist()]
        return _Change(-1, start, start, pa.array(fields, pa.large_binary()), codes)

    def _changed(self, changes: Sequence[_Change]) -> tuple[Int, Any]:
        """Where the new records begin (and the last one ends), and their bytes."""
        starts = np.append(self._spans(0)[0], len(self.data)) if self.rows else np.zeros(1, dtype=np.int64)
        starts[0] = 0
        if not changes or not self.rows:
            return starts, pa.py_buffer(self.data)
        offsets = np.stack([edge for c in changes for edge in (c.start, c.end)], axis=1).ravel()
        known = [_pieces(self.data, np.concatenate([[0], offsets, [len(self.data)]]))]
        places = np.arange(len(known[0]))
        growth = np.zeros(self.rows, dtype=np.int64)
        for position, change in enumerate(changes):
            field = places[1 + 2 * position : -1 : 2 * len(changes)]
            growth += pc.binary_length(change.texts).to_numpy()[change.codes] - (change.end - change.start)
            field[:] = sum(map(len, known)) + change.codes
            known.append(change.texts)
        starts[1:] += np.cumsum(growth)
        return starts, pa.concat_arrays(known).take(pa.array(places)).buffers()[2]


@dataclass(frozen=True)
class _Change:
    """New texts for a span of bytes in every record, by code."""

    place: int
    start: Int
    end: Int
    texts: Any
    codes: Int


def _pieces(data: bytes, offsets: Int) -> Any:
    """The bytes cut at the offsets, without copying them."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), offsets.size - 1, buffers)


def _refuse_stray_marks(data: bytes, first_row: int, dialect: Dialect) -> None:
    """What would move a boundary must stop the release: behind a wrong one, true values would pass unseen."""
    values = np.frombuffer(data, dtype=np.uint8)
    mark = ord(dialect.quote)
    quotes = np.flatnonzero(values == mark)
    if quotes.size % 2:
        what = (
            "a quotation mark that is not closed: close it, or say pr.Dialect(quote='none') where such marks are text"
        )
        raise _stray(data, int(quotes[-1]), first_row, what, dialect)
    before = values[np.maximum(quotes[::2] - 1, 0)]
    inside = quotes[::2][(quotes[::2] > 0) & ~np.isin(before, (ord(dialect.delimiter), _FEED, mark))]
    if inside.size:
        what = (
            "a quotation mark inside a field that is not quoted: quote the field and double the mark, or say pr.Dialect(quote='none') "
            "where such marks are text"
        )
        raise _stray(data, int(inside[0]), first_row, what, dialect)
    if b"\r" in data:
        returns = np.flatnonzero(_outside(data, _RETURN, dialect))
        alone = returns[np.append(values, 0)[returns + 1] != _FEED]
        if alone.size:
            what = "a carriage return without a line feed: end lines with a line feed"
            raise _stray(data, int(alone[0]), first_row, what, dialect)


def _stray(data: bytes, place: int, first_row: int, what: str, dialect: Dialect) -> DataError:
    row = first_row + int(np.sum(_outside(data[:place], _FEED, dialect)))
    return DataError(f"row {row} has {what}")


def _refuse_ragged(fields: Int, expected: int, first_row: int) -> None:
    wrong = np.flatnonzero(fields != expected)
    if wrong.size:
        raise ragged(first_row + int(wrong[0]), int(fields[wrong[0]]), expected)

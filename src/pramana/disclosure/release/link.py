"""Which record is which after a release: new identifiers in place of the old ones, which can tell where and when a record was made,
and the custodian's link file, which is never to be published.

A shuffled or re-keyed release cannot be compared with its original row by row; the link file, which only its owner can read,
makes it possible. It is Parquet or CSV with one line a released record, in the order of the release, and the column
`original_row`, counted from 0.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pramana.arrays import Int, Words
from pramana.errors import DataError, PramanaError
from pramana.frames import read
from pramana.frames.blocks.stream import Block
from pramana.frames.files import format_of
from pramana.mechanism.draws.keyed import Key, KeyedRecords
from pramana.mechanism.draws.keystream import Keystream

_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)


class NewIdentifiers:
    """Sixteen letters and digits (80 bits) for every record.

    Parameters
    ----------
    column : the old identifier: records that shared it share the new one. None: every record gets one of its own.
    key : under which old identifiers are turned into new ones; a kept key gives a person the same one in every release.
    stream : random words, where there is no old identifier.
    """

    def __init__(self, column: str | None, key: Key, stream: Keystream) -> None:
        self._column = column
        self._records = KeyedRecords(Key(key.derived("new identifier")))
        self._stream = stream

    def texts(self, block: Block) -> Any:
        """An Arrow array of text for the next block."""
        import pyarrow as pa

        if self._column is None:
            words = self._stream.words(2 * block.rows).reshape(-1, 2)
        else:
            words = self._records.digests(block.values(self._column), self._column, block.first_row)
        letters = np.ascontiguousarray(_spelled(words))
        edges = pa.py_buffer(np.arange(block.rows + 1, dtype=np.int32) * 16)
        return pa.StringArray.from_buffers(block.rows, edges, pa.py_buffer(letters))


def _spelled(words: Words) -> Any:
    """Five bits a letter: twelve from the first word, four from the second."""
    shifts = np.arange(12, dtype=np.uint64) * np.uint64(5)
    first = (words[:, :1] >> shifts) & np.uint64(31)
    second = (words[:, 1:] >> shifts[:4]) & np.uint64(31)
    return _LETTERS[np.concatenate([first, second], axis=1).astype(np.int64)]


ROW = "original_row"


def read_link(path: Path, rows: int) -> Int:
    """The original row of every released record (n,): a rearrangement of 0 … rows - 1, or the file is not this release's."""
    table = read(path)
    if ROW not in table.names:
        raise DataError(f"{path.name!r} is no link file: it has no column {ROW!r}")
    found = table.column(ROW)
    if found.size != rows:
        raise DataError(f"link file {path.name!r} has {found.size} records, the release {rows}: it belongs to another")
    whole = found.dtype.kind in "iu" and (rows == 0 or (found.min() >= 0 and found.max() < rows))
    if not whole or np.bincount(found, minlength=rows).max(initial=1) > 1:
        raise DataError(f"link file {path.name!r} does not name every row of the original once: restore it")
    return found.astype(np.int64)


class LinkWriter:
    """A link file written a batch at a time."""

    def __init__(self, file: BinaryIO, target: Path) -> None:
        import pyarrow as pa
        from pyarrow import csv, parquet

        self._schema = pa.schema([(ROW, pa.int64())])
        make = parquet.ParquetWriter if format_of(target) == "parquet" else csv.CSVWriter
        self._file, self._writer = file, make(file, self._schema)

    def write(self, rows: Int) -> None:
        import pyarrow as pa

        self._writer.write_batch(pa.record_batch([pa.array(rows)], self._schema))

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            self._file.close()


def refuse_ending(link: Path) -> None:
    if format_of(link) == "csv" and link.suffix.lower() != ".csv":
        raise PramanaError(f"link file {link.name!r} has an ending that is not written: use .parquet or .csv")


def refuse_beside(own: Path, target: Path, what: str, why: str) -> None:
    """What is the custodian's own never lies beside the release or below it, where it would be published with it."""
    if lies_below(own, target.parent):
        raise PramanaError(
            f"{what} {own.name!r} would lie beside the release, or in a folder below: it {why}; keep it in a folder that is not "
            "published"
        )


def lies_below(path: Path, folder: Path) -> bool:
    """Whether a file is in a folder or below it, by the name it is given or, through links, by where it is."""
    named, base = (Path(os.path.normpath(p.absolute())) for p in (path, folder))
    places = (path.parent.resolve(), path.resolve())
    return named.is_relative_to(base) or any(place.is_relative_to(folder.resolve()) for place in places)

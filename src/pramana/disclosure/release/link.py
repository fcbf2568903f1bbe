"""The custodian's link file: which record of the original each released record is. Never to be published.

A shuffled or re-keyed release cannot be compared with its original row by row; this file, which only its owner can read,
makes it possible. It is Parquet or CSV with one line a released record, in the order of the release, and the column
`original_row`, counted from 0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pramana.arrays import Int
from pramana.errors import DataError
from pramana.frames import read

ROW = "original_row"


def read_link(path: Path, rows: int) -> Int:
    """The original row of every released record (n,): a rearrangement of 0 … rows - 1, or the file is not this release's."""
    table = read(path)
    if ROW not in table.names:
        raise DataError(f"{path.name!r} is no link file: it has no column {ROW!r}")
    found = table.column(ROW)
    if found.size != rows:
        raise DataError(f"link file {path.name!r} has {found.size} records, the release {rows}: it belongs to another")
    if found.dtype.kind not in "iu" or not np.array_equal(np.sort(found), np.arange(rows)):
        raise DataError(f"link file {path.name!r} does not name every row of the original once: restore it")
    return found.astype(np.int64)

"""Marks of missing values in a column that is to be perturbed: only declared ones count, for an undeclared one may be a value.

A country coded `NA` is no gap. In such columns the empty field and the null are missing, and what the custodian declares.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pramana.errors import DataError
from pramana.frames.dialects import DataFile, data_file
from pramana.frames.files import NULLS, format_of
from pramana.frames.table import Table


def refuse_undeclared(data: Any, columns: Mapping[str, Collection[object]], declared: Sequence[str]) -> None:
    """Fields of CSV files that a reader takes for gaps though nobody declared them, and which are no levels either."""
    from pramana.frames.folders import files_of

    alone = (data_file(data),) if isinstance(data, str | os.PathLike) else ()
    for file in files_of(data) or alone:
        if format_of(Path(file)) == "csv":
            _refuse_undeclared(file, columns, declared)


def _refuse_undeclared(file: DataFile, columns: Mapping[str, Collection[object]], declared: Sequence[str]) -> None:
    from pramana.frames.blocks.csv_files import CsvReader
    from pramana.frames.blocks.stream import open_reader

    reader = open_reader(file, missing=declared)
    assert isinstance(reader, CsvReader)
    odd = {
        name: {m.encode() for m in NULLS if m and m not in declared and m not in levels}
        for name, levels in columns.items()
    }
    for block in reader.blocks():
        for name in [name for name in columns if name in reader.names]:
            fields = block.fields(name).dictionary_encode()
            found = np.array([raw in odd[name] for raw in fields.dictionary.to_pylist()], dtype=bool)
            rows = np.flatnonzero(found[fields.indices.to_numpy()]) if found.any() else np.empty(0)
            if rows.size:
                raise DataError(
                    f"column {name!r} has at least {rows.size} field(s) that programs take for a missing value, first in row "
                    f"{block.first_row + rows[0]}, and nobody declared them: declare the mark (missing=), or list it as "
                    "a level"
                )


def with_gaps(table: Table, columns: Collection[str], declared: Sequence[str]) -> Table:
    """The table with declared marks as missing values in some of its columns; -8.0 is the mark -8."""
    for name in columns if declared else ():
        values = table.column(name).tolist()
        gaps = [v is not None and (str(v) in declared or str(v).removesuffix(".0") in declared) for v in values]
        if any(gaps):
            table = table.replaced(name, [None if gap or v != v else v for v, gap in zip(values, gaps, strict=True)])
    return table

"""Files that stand for one: a folder, a pattern or a list of them, in the order of their names, with the same columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pramana.arrays import Bool
from pramana.errors import DataError
from pramana.frames.blocks.stream import Block, Reader, open_reader
from pramana.frames.dialects import DataFile, data_file
from pramana.frames.files import format_of
from pramana.frames.sources import paths_of, table_of
from pramana.frames.table import Table, read


def files_of(data: Any) -> tuple[DataFile, ...]:
    """The files that a folder, a pattern or a list stands for, each under a name of its own; none for anything else."""
    found = paths_of(data)
    if not found:
        return ()
    files = sorted(map(data_file, data if isinstance(data, list | tuple) else found), key=lambda file: file.name)
    if not isinstance(data, list | tuple) and Path(data).is_dir() and any(p.parent != Path(data) for p in found):
        raise DataError(
            f"folder {str(data)!r} holds data files in folders of its own: take the folders one by one, or a pattern such as "
            "'folder/*.parquet'"
        )
    _refuse_confusion(files)
    return tuple(files)


def _refuse_confusion(files: Sequence[DataFile]) -> None:
    """Files of one format, and no two with one name or in one place of the disk."""
    kinds = sorted({format_of(Path(file)) for file in files})
    if len(kinds) > 1:
        raise DataError(f"the files are of several formats ({', '.join(kinds)}): give those of one of them")
    names: dict[str, DataFile] = {}
    places: dict[tuple[int, int], DataFile] = {}
    for file in files:
        found = Path(file).stat()
        known = names.get(file.name.casefold()) or places.get((found.st_dev, found.st_ino))
        if known is not None:
            raise DataError(
                f"{str(known)!r} and {str(file)!r} are one file, or have one name: its records would count twice, or one hide the other; "
                "leave out or rename one of them"
            )
        names[file.name.casefold()] = places[found.st_dev, found.st_ino] = file


def read_files(
    files: Sequence[DataFile],
    text: Mapping[str, Collection[object]],
    columns: Collection[str] | None = None,
    chosen: Bool | None = None,
) -> Table:
    """Records in one table, all or those that are chosen (n,), with some of the columns: one file is read after the other, and no more than that is
    held. Of CSV, where each file was read with types of its own, a column is text if it is so in one of them."""

    def kept(known: Mapping[str, Collection[object]]) -> Iterator[Any]:
        first = 0
        for file in files:
            found = read(file, text=known).native
            rows = slice(first, first + found.num_rows)
            first = rows.stop
            some = found if columns is None else found.select([n for n in found.column_names if n in columns])
            yield some if chosen is None or chosen[rows].all() else some.filter(pa.array(chosen[rows]))

    tables = list(kept(text))
    refuse_other_columns([(file.name, table.column_names) for file, table in zip(files, tables, strict=True)])
    mixed = [
        name for name in tables[0].column_names if not _one_type([table.schema.field(name).type for table in tables])
    ]
    if mixed and format_of(Path(files[0])) == "csv":
        both = {**dict.fromkeys(mixed, ()), **text}
        tables = list(kept(both))
    elif mixed:
        raise DataError(
            f"column {mixed[0]!r} is not of one type in the {len(files)} files: convert it, the same way in all of them"
        )
    whole = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()
    return table_of(whole, "pyarrow", f"the {len(files)} files")


def _one_type(kinds: Sequence[Any]) -> bool:
    """Types between which nothing is lost: the same, numbers, or nothing but gaps."""
    known = {kind for kind in kinds if not pa.types.is_null(kind)}
    return len(known) < 2 or all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in known)


def refuse_other_columns(files: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Every file, by name, has the columns of the first in their order."""
    first, names = files[0]
    for other, columns in files[1:]:
        if list(columns) != list(names):
            at = next((k for k, pair in enumerate(zip(names, columns, strict=False)) if pair[0] != pair[1]), len(names))
            raise DataError(
                f"{other!r} has {len(columns)} column(s) and {first!r} {len(names)}, and they differ from column {at + 1} on: give all files "
                "the same columns in the same order"
            )


def open_files(files: Sequence[DataFile], text: Sequence[str] = (), missing: Sequence[str] | None = None) -> Reader:
    """One file, or several one after the other, as a stream of blocks; options as in `open_reader`."""
    first = open_reader(files[0], text, missing)
    return first if len(files) == 1 else Chained(first, files[1:], text, missing)


class Chained:
    """Several files read one after the other, one open at a time, whose rows are numbered as those of one."""

    def __init__(
        self, first: Reader, others: Sequence[DataFile], text: Sequence[str], missing: Sequence[str] | None
    ) -> None:
        self._first, self._others, self._options = first, others, (text, missing)
        self.path, self.names, self.types, self.dialect = first.path, first.names, first.types, first.dialect
        self.rows: int | None = None
        self.size = first.size
        self.progress = (0, 0)

    def readers(self) -> Iterator[Reader]:
        """Each file, opened."""
        yield self._first
        for file in self._others:
            reader = open_reader(file, *self._options)
            refuse_other_columns([(self.path.name, self.names), (file.name, reader.names)])
            yield reader

    def blocks(self) -> Iterator[Block]:
        first = rows = 0
        for reader in self.readers():
            first += rows
            rows = 0
            for block in reader.blocks():
                rows += block.rows
                yield replace(block, first_row=first + block.first_row)  # type: ignore[type-var]

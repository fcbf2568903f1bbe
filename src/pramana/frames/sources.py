"""Records that come in batches: folders of files, Arrow datasets, lazy frames, relations of a database. Each is read anew for every pass."""

from __future__ import annotations

import os
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from glob import glob
from pathlib import Path
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

import narwhals as nw
import pyarrow as pa
from pyarrow import parquet

from pramana.errors import DataError, quoted, suggestion
from pramana.frames.dialects import CsvFile, dialect_of
from pramana.frames.files import CHECKED, NULLS, check_header, existing, format_of, unreadable
from pramana.frames.inputs import absence, note_input
from pramana.frames.levels import is_unsigned
from pramana.frames.metadata import as_labels, enums_ordered, is_text, labels_in, with_labels
from pramana.frames.table import FrameKind, Table, is_frame_of

BATCH = 1 << 18
"""Records of a batch."""
BUFFER = 1 << 20
"""Bytes of a column of Parquet read at a time."""
PIECE = 1 << 20
"""Records of a piece that a worker reads by itself, where row groups allow."""
SPREAD = 10
"""Bytes that a byte of a file may take in memory, as numbers and objects."""
_GLOB = "*?["

T = TypeVar("T")


class Source(ABC):
    """Batches of records in an order of their own, the same in every pass.

    Attributes
    ----------
    label : what messages call it.
    kind : the kind of frame that answers come in.
    """

    label: str
    kind: FrameKind

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def rows(self) -> int | None:
        """How many records there are, where that is known without reading them."""
        return None

    @property
    def ordered(self) -> bool:
        """Whether the records come in the same order in every pass, so that a record is known by its place."""
        return True

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records, with these columns."""

    def held(self, memory: float) -> pa.Table:
        """All records and columns at once, as far as memory goes."""
        batches = _limited(self.batches(self.names), memory, f"the records of {self.label}")
        return pa.Table.from_batches(batches, None if batches else self.schema)

    def pieces(self) -> list[Source] | None:
        """The same records in the same order as sources that travel, each to be read by whoever has it; None where none can."""
        return None

    def counted(self) -> int:
        """How many records there are, read where need be."""
        rows = self.rows
        return sum(batch.num_rows for batch in self.batches(self.names[:1])) if rows is None else rows

    def asked(self, question: Callable[[], T], wrong: str = "") -> T:
        """An answer of another library; what it finds wrong with a query is the user's to mend."""
        try:
            return question()
        except Exception as error:
            raise DataError(f"{wrong or f'{self.label} could not be read'}: {quoted(said(error))}") from None

    def place(self, row: int) -> str:
        """A record, by its number among all, in words."""
        return f"row {row} of {self.label}"

    def widened(self, error: NarrowTypeError) -> Source:
        """The same records with a column read as a type in which all of its fields can be written."""
        raise error

    def require(self, columns: Collection[str]) -> None:
        """Refuse names that no column has."""
        for name in columns:
            if name not in self.names:
                raise DataError(f"column {name!r} is not in {self.label}: {suggestion(name, self.names, quoted)}")
            if self.names.count(name) > 1:
                raise DataError(
                    f"two columns of {self.label} have the same name, {quoted(repr(name))}: rename or drop one of them"
                )
            kind = self.schema.field(name).type
            if pa.types.is_nested(kind):
                raise DataError(
                    f"column {name!r} of {self.label} is of type {_in_words(kind)} and cannot be used: give numbers, text or true and false"
                )
            if isinstance(kind, pa.BaseExtensionType):
                named = kind.type_name if isinstance(kind, pa.OpaqueType) else kind.extension_name
                raise DataError(
                    f"column {name!r} of {self.label} is of type {named}, with which Arrow does not compute: cast it, numeric of a database to "
                    "double precision and others to text"
                )

    def table(self, batch: pa.RecordBatch | pa.Table) -> Table:
        """Some records as a table."""
        return table_of(batch, self.kind, self.label)


def table_of(batch: pa.RecordBatch | pa.Table, kind: FrameKind, label: str) -> Table:
    """Some records as a table."""
    whole = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
    return Table(whole, kind, label)


def takeable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same records, with text of which Arrow can take some rows; of views it cannot."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    if not any(kind in plain for kind in batch.schema.types):
        return batch
    return batch.cast(pa.schema([field.with_type(plain.get(field.type, field.type)) for field in batch.schema]))


class NarrowTypeError(DataError):
    """Fields further down a text file do not read as the type that the first ones have: `column` and that type are named."""

    column: str = ""
    kind: str = ""


def _wider(kind: str) -> Any:
    """The next type in which everything of a type can be written."""
    return {"null": pa.int64(), "int64": pa.float64()}.get(kind, pa.string())


@dataclass(frozen=True)
class FileSource(Source):
    """Files of one format and the same columns, one after the other in the order of their names."""

    dataset: Any
    files: tuple[Path, ...]
    label: str
    stamps: tuple[tuple[int, int], ...]
    """Size and time of every file when it was first looked at."""
    kind: FrameKind = "pyarrow"
    text: Mapping[str, Collection[object]] = field(default_factory=dict)
    """Columns of text files that are left as text, with their levels."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Of columns of text files whose first fields have a narrower one."""

    @classmethod
    def open(
        cls,
        paths: Sequence[Path],
        label: str,
        text: Mapping[str, Collection[object]],
        types: Mapping[str, pa.DataType] | None = None,
    ) -> FileSource:
        from pyarrow import dataset as ds

        for path in paths:
            note_input(path, "data")
        _refuse_twice(paths)
        kinds = {_format(path): path.name for path in reversed(paths)}
        if len(kinds) > 1:
            named = "; ".join(f"{kind}: {name!r}" for kind, name in sorted(kinds.items()))
            raise DataError(f"{label} holds files of several formats ({named}): give those of one of them")
        kind = next(iter(kinds))
        form = (
            _csv_format(paths[0], text, types or {})
            if kind == "csv"
            else "ipc"
            if kind == "ipc"
            else _parquet_format(paths[0])
        )
        try:
            stamps = tuple(map(_stamp, paths))
            found = ds.dataset([str(path) for path in paths], format=form, partitioning=_by_folder(paths, form))
            names = found.schema.names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            _blame(paths, form)
            raise _broken(paths[0] if len(paths) == 1 else Path(label), error) from None
        check_header(names, paths[0])
        source = cls(found, tuple(paths), label, stamps, text=text, types=types or {})
        return source._agreeing(kind)

    def _agreeing(self, kind: str) -> FileSource:
        """A column must have one type in all files, whole numbers the widest of theirs; Arrow would fill a missing one with gaps, and refuse
        numbers that the first file's type does not hold."""
        if kind == "csv":
            self._refuse_other_headers()
            return self
        known = schema = self.dataset.schema
        for path, fragment in zip(self.files, self.dataset.get_fragments(), strict=True):
            try:
                own = fragment.physical_schema
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise _broken(path, error) from None
            check_header(own.names, path)
            self._refuse_other_labels(path, own)
            types = {field.name: field.type for field in own}
            for place, column in enumerate(schema):
                if column.name not in types:
                    self._refuse_lacking(path, column.name)
                    continue
                wider = _common(types[column.name], column.type)
                if wider is None:
                    raise DataError(
                        f"column {column.name!r} is of type {_in_words(types[column.name])} in {str(path)!r} and of type {_in_words(column.type)} in "
                        f"{str(self.files[0])!r}: convert it to one type"
                    )
                schema = schema if wider == column.type else schema.set(place, column.with_type(wider))
        return self if schema is known else replace(self, dataset=_with_schema(self.dataset, schema))

    def _refuse_other_labels(self, path: Path, own: pa.Schema) -> None:
        """Numbers that are categories in one file and amounts in another would be what the first file says."""
        differing = set(self.labels) ^ set(labels_in(own))
        for name in (n for n in own.names if n in differing):
            raise DataError(
                f"column {name!r} holds categories in one of {str(self.files[0])!r} and {str(path)!r}, and plain values in the other: convert it "
                "to one type"
            )

    def _refuse_other_headers(self) -> None:
        """Text files must have the columns of the first; their types are those in which all fields can be written."""
        from pyarrow import dataset as ds

        form = _csv_format(self.files[0], dict.fromkeys(self.names, ()), {}) if len(self.files) > 1 else None
        for path in self.files[1:]:
            try:
                names = set(ds.dataset(str(path), format=form).schema.names)
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                _check_csv_header(path)
                raise _broken(path, error) from None
            for name in self.names:
                if name not in names:
                    self._refuse_lacking(path, name, ", or separates its fields in another way than the first")

    def _refuse_lacking(self, path: Path, name: str, other: str = "") -> None:
        if f"/{name}=" not in str(path):
            raise DataError(f"file {str(path)!r} lacks column {name!r}, which other files of {self.label} have{other}")

    @cached_property
    def schema(self) -> pa.Schema:
        return with_labels(self.dataset.schema)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Columns of categories that the files hold as plain values, as the first file says."""
        return labels_in(self.dataset.schema)

    def place(self, row: int) -> str:
        """By its number in its own file."""
        for path, fragment, _ in self._looked_at():
            size = _rows(fragment)
            if row < size:
                return f"row {row} of {str(path)!r}"
            row -= size
        return super().place(row)

    @cached_property
    def rows(self) -> int | None:
        if self.format == "csv":
            return None
        total = 0
        for path, fragment, stamp in self._looked_at():
            with self._told_apart(path, stamp):
                total += _rows(fragment)
        return total

    def pieces(self) -> list[Source]:
        return self._pieces

    @cached_property
    def _pieces(self) -> list[Source]:
        """Row groups of Parquet files, or whole files of another kind."""
        out: list[Source] = []
        for path, fragment, stamp in self._looked_at():
            place = path.absolute()  # of which a worker elsewhere makes the same
            with self._told_apart(path, stamp):
                parts = list(_split(fragment, place, self.dataset.schema))
            out += [FileSource(part, (place,), str(path), (stamp,)) for part in parts]
        return out

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        whole = self.dataset.schema
        wanted = pa.schema([whole.field(name) for name in columns], whole.metadata)
        for path, fragment, stamp in self._looked_at():
            yield from self._batches(path, fragment, stamp, wanted)

    def _batches(
        self, path: Path, fragment: Any, stamp: tuple[int, int], wanted: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        self._refuse_changed(path, stamp)
        done = 0
        with self._told_apart(path, stamp, lambda: _place(fragment, wanted.names, done)):
            for batch in self._read(path, fragment, wanted):
                self._refuse_changed(path, stamp)  # before anybody takes what is half old and half new for records
                if batch.num_rows:
                    known = batch if batch.schema.equals(wanted) else batch.cast(wanted)
                    yield as_labels(known.replace_schema_metadata(wanted.metadata), self.labels)
                done += batch.num_rows
        self._refuse_changed(path, stamp)

    def _looked_at(self) -> Iterator[tuple[Path, Any, tuple[int, int]]]:
        """Every file with what Arrow knows of it, and its stamp."""
        return zip(self.files, self.dataset.get_fragments(), self.stamps, strict=True)

    @contextmanager
    def _told_apart(self, path: Path, stamp: tuple[int, int], place: Callable[[], str] = str) -> Iterator[None]:
        """Files that changed, over which Arrow stumbles in any way, and broken ones."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            self._refuse_changed(path, stamp)
            raise self._failed(path, error, place()) from None

    def _failed(self, path: Path, error: Exception, after: str) -> DataError:
        """What Arrow stumbled over; of a text file also the column and the type that its first fields have."""
        broken = _broken(path, error, after)
        found = re.search(r"In CSV column #(\d+).* conversion error to (\w+)", str(error))
        if found is None or self.format != "csv":
            return broken
        narrow = NarrowTypeError(broken.marked)
        alone = FileSource.open([path], str(path), self.text)  # whose columns are those of the file, in its order
        narrow.column, narrow.kind = alone.names[int(found[1])], found[2]
        return narrow

    def widened(self, error: NarrowTypeError) -> FileSource:
        if error.column not in self.names or error.column in self.text or self.types.get(error.column) == pa.string():
            raise error
        return FileSource.open(self.files, self.label, self.text, {**self.types, error.column: _wider(error.kind)})

    @property
    def format(self) -> str:
        """The format of the files: parquet, csv or ipc."""
        return _format(self.files[0])

    def refuse_changed(self) -> None:
        """Refuse files that are not those that were first looked at."""
        for path, stamp in zip(self.files, self.stamps, strict=True):
            self._refuse_changed(path, stamp)

    def _read(self, path: Path, fragment: Any, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Parquet a page at a time, where every column is in the file, so that no row group is held whole."""
        if _format(path) != "parquet" or not set(wanted.names) <= set(fragment.physical_schema.names):
            scanner = fragment.scanner(
                schema=self.dataset.schema, columns=wanted.names, batch_size=BATCH, batch_readahead=1
            )
            for batch in scanner.to_batches():
                if _format(path) == "ipc":
                    batch.validate(
                        full=True
                    )  # Arrow takes what it finds for lengths and places, and would end the process
                yield batch
            return
        texts = [field.name for field in wanted if pa.types.is_dictionary(field.type)]
        options = {"read_dictionary": texts, "buffer_size": BUFFER, "pre_buffer": False} | CHECKED
        # The footer is parsed once, not with each piece.
        with parquet.ParquetFile(path, metadata=fragment.metadata, **options) as file:
            yield from file.iter_batches(BATCH, row_groups=[g.id for g in fragment.row_groups], columns=wanted.names)

    def _refuse_changed(self, path: Path, stamp: tuple[int, int]) -> None:
        if not path.exists():
            raise DataError(
                f"file {str(path)!r} vanished while it was read: restore it, and fit again (workers on other machines must see it under "
                "the same name)"
            )
        if _stamp(path) != stamp:
            raise DataError(f"file {str(path)!r} changed while it was read: wait until it is complete, and fit again")


@dataclass(frozen=True)
class DatasetSource(Source):
    """A `pyarrow.dataset.Dataset` of the user's own."""

    dataset: Any
    label: str = "the dataset"
    kind: FrameKind = "pyarrow"

    @cached_property
    def schema(self) -> pa.Schema:
        return with_labels(self.dataset.schema)

    @cached_property
    def rows(self) -> int | None:
        return self.asked(lambda: int(self.dataset.count_rows()))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        labels = labels_in(self.dataset.schema)
        try:
            for batch in self.dataset.to_batches(columns=list(columns), batch_size=BATCH):
                if batch.num_rows:
                    yield as_labels(batch.replace_schema_metadata(self.dataset.schema.metadata), labels)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.label} could not be read: {quoted(said(error))}") from None


@dataclass(frozen=True)
class LazySource(Source):
    """A polars LazyFrame, collected a batch at a time."""

    frame: Any
    label: str = "the lazy frame"
    kind: FrameKind = "polars"

    @cached_property
    def schema(self) -> pa.Schema:
        return self.asked(lambda: self.frame.head(0).collect().to_arrow().schema)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # `collect_batches` would end early, and say nothing, where a reader of polars panics.
        parts = each(_handed_over(partial(self._query, list(columns))), self.asked)
        yield from even(batch for frame in parts for batch in frame.to_arrow().to_batches())

    def _query(self, columns: list[str], take: Callable[[Any], bool]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # polars calls it unstable
            sink = self.frame.select(columns).sink_batches(take, chunk_size=BATCH, lazy=True)
        sink.collect(engine="streaming")


class _PanicError(RuntimeError):
    """What a thread broke off with that is no `Exception`."""


@dataclass(frozen=True)
class _End:
    """Of what a query hands over: whatever went wrong."""

    error: BaseException | None = None


def _handed_over(query: Callable[[Callable[[Any], bool]], None]) -> Iterator[Any]:
    """What a query hands to a function that says when no more is wanted, one after the other: it runs in a thread, a little ahead."""
    waiting: Queue[Any] = Queue(2)
    unwanted = Event()

    def take(part: Any) -> bool:
        while not unwanted.is_set():
            with suppress(Full):
                waiting.put(part, timeout=0.1)
                return False
        return True

    def work() -> None:
        try:
            query(take)
        except BaseException as error:
            take(_End(error))
        else:
            take(_End())

    Thread(target=work, daemon=True).start()
    try:
        while not isinstance(found := waiting.get(), _End):
            yield found
    finally:
        unwanted.set()
    if found.error is not None:
        raise found.error if isinstance(found.error, Exception) else _PanicError(str(found.error)) from None


@dataclass(frozen=True)
class RelationSource(Source):
    """A relation of DuckDB, whose query runs once for every pass."""

    relation: Any
    label: str = "the relation"
    kind: FrameKind = "pyarrow"

    @cached_property
    def schema(self) -> pa.Schema:
        return self.asked(lambda: enums_ordered(self.relation.limit(0).to_arrow_table()).schema)

    @cached_property
    def rows(self) -> int | None:
        return int(self.asked(lambda: self.relation.aggregate("count(*)").to_arrow_table()[0][0].as_py()))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        reader = self.asked(lambda: iter(self.relation.project(column_list(columns)).to_arrow_reader(BATCH)))
        yield from even(map(enums_ordered, each(reader, self.asked)))


def column_list(columns: Sequence[str]) -> str:
    """Names as SQL has them."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in columns)


def source_of(data: Any, text: Mapping[str, Collection[object]], memory: float) -> Source | None:
    """The source behind what a user gave; None for a frame, or a file that is read at once.

    Parameters
    ----------
    text : columns that a CSV reader must leave as text, as in `read`.
    memory : bytes that a file may take to be read at once.
    """
    from pyarrow import dataset as ds

    if isinstance(data, Source):
        return data
    if is_frame_of("pandas", data) or is_frame_of("polars", data):
        return None
    if isinstance(data, list | tuple) and any(isinstance(file, CsvFile) for file in data):
        raise DataError(
            "several files are read in the dialect that is found of the first, and these have one that is stated: save them as Parquet, or read "
            "and join them first"
        )
    paths = _paths(data) or _large(data, memory)
    if paths is not None:
        return FileSource.open(paths, _named(data), text)
    if isinstance(data, ds.Dataset):
        return DatasetSource(data)
    if isinstance(data, pa.RecordBatchReader):
        return HeldSource.read(data, memory)
    if nw.dependencies.is_polars_lazyframe(data):
        return LazySource(data)
    module = type(data).__module__.partition(".")[0]
    if module in ("duckdb", "_duckdb") and type(data).__name__ == "DuckDBPyRelation":
        return RelationSource(data)
    return _partitioned(data)


def _partitioned(data: Any) -> Source | None:
    """The source behind a frame of Dask or Spark."""
    dask, known = nw.dependencies.is_dask_dataframe(data), nw.dependencies
    if not dask and not known.is_pyspark_dataframe(data) and not known.is_pyspark_connect_dataframe(data):
        return None
    from pramana.frames.partitions import DaskSource, SparkSource

    return DaskSource(data) if dask else SparkSource(data)


def kept(data: Any, memory: float) -> Any:
    """Data that can be read more than once: a reader gives its batches once, so they are held."""
    return HeldSource.read(data, memory) if isinstance(data, pa.RecordBatchReader) else data


@dataclass(frozen=True)
class HeldSource(Source):
    """Batches that can be read once, as those of a `RecordBatchReader`: they are held, as far as memory goes."""

    whole: pa.Table
    label: str = "the reader"
    kind: FrameKind = "pyarrow"

    @classmethod
    def read(cls, reader: Any, memory: float) -> HeldSource:
        why = "the reader gives its records once, and they"
        try:
            whole = pa.Table.from_batches(_limited(reader, memory, why), reader.schema)
            whole.validate(full=True)
        except DataError:
            raise
        except Exception as error:  # of whoever makes the batches
            raise DataError(f"the reader could not be read: {quoted(said(error))} ({type(error).__name__})") from None
        return cls(whole)

    @property
    def schema(self) -> pa.Schema:
        return self.whole.schema

    @property
    def rows(self) -> int | None:
        return int(self.whole.num_rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self.whole.select(list(columns)).to_batches(max_chunksize=BATCH)


def _limited(batches: Iterable[Any], memory: float, what: str) -> list[Any]:
    """Batches, as far as memory goes."""
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > memory:
            raise DataError(
                f"{what} take more than memory={memory / 1e9:g} GB: write them to Parquet files, and give these"
            )
    return held


def _split(fragment: Any, path: Path, schema: pa.Schema) -> Iterator[Any]:
    """A file as datasets of a few row groups each; which ones depends on nothing but the file."""
    from pyarrow import dataset as ds

    given = (str(path), fragment.filesystem, fragment.partition_expression)
    if isinstance(fragment, ds.ParquetFileFragment):
        parts = [fragment.format.make_fragment(*given, row_groups=ids) for ids in _neighbours(fragment.row_groups)]
    else:
        parts = [fragment.format.make_fragment(*given)]
    for part in parts:
        yield ds.FileSystemDataset([part], schema, fragment.format, fragment.filesystem)


def _neighbours(groups: Sequence[Any]) -> list[list[int]]:
    """Numbers of row groups that are read together."""
    out: list[list[int]] = []
    size = 0
    for group in groups:
        if not out or size + group.num_rows > PIECE:
            out, size = [*out, []], 0
        out[-1].append(group.id)
        size += group.num_rows
    return out


def _rows(fragment: Any) -> int:
    from pyarrow import dataset as ds

    if isinstance(fragment, ds.ParquetFileFragment):  # some of its row groups, of which Arrow would count all
        return sum(group.num_rows for group in fragment.row_groups)
    return int(fragment.count_rows())


def _place(fragment: Any, columns: Sequence[str], done: int) -> str:
    """Where reading broke off, in words: row groups are read ahead, so that each is tried by itself."""
    from pyarrow import dataset as ds

    if not isinstance(fragment, ds.ParquetFileFragment):
        return f" after row {done}"
    known = [name for name in columns if name in fragment.physical_schema.names]
    for group in fragment.row_groups:
        try:
            for _ in fragment.subset(row_group_ids=[group.id]).to_batches(columns=known):
                pass
        except (pa.ArrowException, OSError):
            return f", in row group {group.id}"
    return ""


def each(parts: Iterator[Any], asked: Callable[[Callable[[], Any]], Any]) -> Iterator[Any]:
    """Every part of an answer, asked for in a way that says what is wrong."""
    while (part := asked(lambda: next(parts, None))) is not None:
        yield part


def even(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same records in batches of one size, whatever pieces a query happened to give them in."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.num_rows
        while size >= BATCH:
            whole = pa.Table.from_batches(held)
            yield whole.slice(0, BATCH).combine_chunks().to_batches()[0]
            held, size = whole.slice(BATCH).to_batches(), size - BATCH
    if size:
        yield pa.Table.from_batches(held).combine_chunks().to_batches()[0]


def paths_of(data: Any) -> tuple[Path, ...]:
    """The files that a folder, a pattern or a list of files stands for; none for anything else."""
    return tuple(_paths(data) or ())


def _paths(data: Any) -> list[Path] | None:
    """In the order of their names."""
    if isinstance(data, list | tuple) and data and all(isinstance(p, str | os.PathLike) for p in data):
        paths = [Path(p) for p in data]
        for path in paths:
            if not path.is_file():
                raise DataError(f"file {str(path)!r} {absence(path)}")
            _format(path)  # one that is known
        return paths
    if not isinstance(data, str | os.PathLike):
        return None
    if not os.fspath(data):
        raise DataError("the name of the file is empty: give the path of a CSV or Parquet file, or of a folder")
    path = Path(data)
    if path.is_dir():
        found = _there(p for p in path.rglob("*") if _usable(p.relative_to(path)))
        if not found:
            raise DataError(f"folder {str(path)!r} holds no data files: they end in .parquet, .csv, .arrow or the like")
        return found
    if path.is_file() and path.name.lower().endswith((".arrow", ".feather", ".ipc")):
        return [path]
    if path.exists() or not any(mark in str(data) for mark in _GLOB):
        return None
    found = _there(Path(p) for p in glob(str(path), recursive=True))  # noqa: PTH207
    if not found:
        raise DataError(f"no file matches {str(data)!r}")
    return found


def _there(paths: Iterable[Path]) -> list[Path]:
    """Files in the order of their names. A link to what is not there is a file that was lost, as on a disk that is not mounted."""
    found = sorted(paths)
    for path in found:
        if path.is_symlink() and not path.exists():
            raise DataError(
                f"{str(path)!r} is a link to a file that is not there: restore the file, or remove the link"
            )
    return [path for path in found if path.is_file()]


def _large(data: Any, memory: float) -> list[Path] | None:
    """A single file that takes much memory."""
    if not isinstance(data, str | os.PathLike) or isinstance(data, CsvFile) or not Path(data).is_file():
        return None
    path = Path(data)
    return [path] if SPREAD * path.stat().st_size > memory and existing(path) else None


def _usable(path: Path) -> bool:
    """Hidden files and marks of other programs are no data."""
    if any(part.startswith((".", "_")) for part in path.parts):
        return False
    try:
        _format(path)
    except DataError:
        return False
    return True


def _format(path: Path) -> str:
    return "ipc" if path.name.lower().endswith((".arrow", ".feather", ".ipc")) else format_of(path)


def _named(data: Any) -> str:
    return f"the {len(data)} files" if isinstance(data, list | tuple) else str(data)


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _in_words(kind: Any) -> str:
    """A type in a message; names of the fields of a nested one may be values."""
    return quoted(str(kind)) if pa.types.is_nested(kind) else str(kind)


def _family(kind: Any) -> Any:
    """Types that are one to a fit: text in any form, and numbers of any width."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return "text" if is_text(kind) else "whole" if pa.types.is_integer(kind) else kind


def _with_schema(files: Any, schema: pa.Schema) -> Any:
    """The same files, read as these types."""
    from pyarrow import dataset as ds

    return ds.FileSystemDataset(list(files.get_fragments()), schema, files.format, files.filesystem)


def _common(own: Any, known: Any) -> Any:
    """The type for values of both, as the first file has them or wider; None where a fit takes them for different things."""
    if _family(own) != _family(known):
        return None
    if own == known or not (pa.types.is_integer(own) and pa.types.is_integer(known)):
        return known
    signs = {pa.types.is_signed_integer(kind) for kind in (own, known)}
    if len(signs) == 1:
        return max(own, known, key=lambda kind: kind.bit_width)
    return None if pa.uint64() in (own, known) else pa.int64()


def _parquet_format(path: Path) -> Any:
    """Text comes as codes straight from the pages."""
    from pyarrow import dataset as ds

    try:
        schema = parquet.read_schema(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _broken(path, error) from None
    return ds.ParquetFileFormat(
        dictionary_columns=[field.name for field in schema if is_text(field.type)],
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(**CHECKED),
    )


def _csv_format(path: Path, text: Mapping[str, Collection[object]], types: Mapping[str, pa.DataType]) -> Any:
    from pyarrow import csv
    from pyarrow import dataset as ds

    dialect = dialect_of(path)
    return ds.CsvFileFormat(
        csv.ParseOptions(delimiter=dialect.delimiter, quote_char=dialect.quote or False),
        convert_options=csv.ConvertOptions(
            column_types={n: pa.uint64() if is_unsigned(levels) else pa.string() for n, levels in text.items()}
            | dict(types),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[v for v in NULLS if not any(v in levels for levels in text.values())],
            decimal_point=dialect.decimal,
        ),
        read_options=csv.ReadOptions(encoding="utf8" if dialect.encoding == "utf-8-sig" else dialect.encoding),
    )


def _refuse_twice(paths: Sequence[Path]) -> None:
    """A file under two names, as a link that leads back makes many, would have its records counted as often."""
    places: dict[tuple[int, int], Path] = {}
    for path in paths:
        with suppress(OSError):  # whoever reads it says so
            found = path.stat()
            known = places.setdefault((found.st_dev, found.st_ino), path)
            if known is not path:
                raise DataError(
                    f"{str(known)!r} and {str(path)!r} are one file: its records would count twice; leave out one of them"
                )


def _by_folder(paths: Sequence[Path], form: Any) -> Any:
    """Columns that the names of folders tell, as "year=2026" does; of one that the files have themselves, theirs are the values."""
    from pyarrow import dataset as ds

    told: dict[str, list[str]] = {}
    for part in (part for path in paths for part in path.parts[:-1] if "=" in part):
        name, _, value = part.partition("=")
        told.setdefault(name, []).append(value)
    own = set(ds.dataset(str(paths[0]), format=form).schema.names) if told else set()
    if not told or own.isdisjoint(told):
        return ds.partitioning(flavor="hive") if told else None
    whole = re.compile(r"-?\d{1,9}", re.ASCII)
    kinds = {n: pa.int32() if all(map(whole.fullmatch, told[n])) else pa.string() for n in told if n not in own}
    return ds.partitioning(pa.schema(kinds.items()), flavor="hive") if kinds else None


def _blame(paths: Sequence[Path], form: Any) -> None:
    """Name the one of several files that cannot be opened, or has two columns of one name."""
    from pyarrow import dataset as ds

    for path in paths:
        try:
            names = ds.dataset(str(path), format=form).schema.names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            _check_csv_header(path)
            raise _broken(path, error) from None
        check_header(names, path)


def _check_csv_header(path: Path) -> None:
    """Arrow's dataset of a text file with two columns of one name does not say which; its plain reader knows them."""
    from pyarrow import csv

    if _format(path) != "csv":
        return
    with suppress(pa.ArrowException, OSError, UnicodeDecodeError):  # whoever asked says what else is wrong
        dialect = dialect_of(path)
        options = csv.ParseOptions(delimiter=dialect.delimiter, quote_char=dialect.quote or False)
        check_header(csv.open_csv(path, csv.ReadOptions(encoding=dialect.encoding), options).schema.names, path)


def _broken(path: Path, error: Exception, after: str = "") -> DataError:
    if path.suffix and _usable(Path(path.name)) and _format(path) != "ipc":
        return unreadable(path, error, after)
    return DataError(f"{str(path)!r} could not be read{after}: {quoted(said(error))} ({type(error).__name__})")


def said(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__

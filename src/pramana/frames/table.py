"""One table type for every kind of frame and file."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

import narwhals as nw
import numpy as np

from pramana.arrays import Bool, Column, Int
from pramana.errors import DataError, quoted, suggestion
from pramana.frames.dialects import DataFile, Dialect, data_file, dialect_of
from pramana.frames.files import CHECKED, NULLS, check_header, existing, require_names, undecodable, unreadable
from pramana.frames.levels import EXACT, Level, is_unsigned, lacks_half, level_positions, refuse_halved_names
from pramana.frames.metadata import as_labels, in_an_order, is_text, labels_in, may_be_in_an_order

FrameKind: TypeAlias = Literal["pandas", "polars", "pyarrow", "dict"]
NESTED = (list, tuple, dict, set, np.ndarray)
"""Kinds of values that are no numbers, text or true and false, but hold some."""


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, read lazily into NumPy, with the kind of frame they came from."""

    native: Any
    """The frame itself."""
    kind: FrameKind
    source: str = "data"
    learned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    """Of a sample: what functions of a formula learnt from all records, by the call as it is written."""
    stands_for: float | None = None
    """Records that the rows stand for, where they are cells or a sample."""
    _cache: dict[str, Column] = field(default_factory=dict, repr=False, compare=False)
    _plain: dict[str, Column | None] = field(default_factory=dict, repr=False, compare=False)
    _found: dict[str, tuple[nw.Series[Any], nw.dtypes.DType]] = field(default_factory=dict, repr=False, compare=False)
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _places: dict[tuple[str, tuple[Level, ...]], Int] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def frame(self) -> nw.DataFrame[Any]:
        """The frame behind narwhals, made when it is asked for: a small fit takes no longer than that."""
        return nw.from_native(self.native, eager_only=True)

    @cached_property
    def names(self) -> list[str]:
        own = is_frame_of("pandas", self.native) or is_frame_of("polars", self.native)
        return list(self.native.columns if own else self.frame.columns)

    @cached_property
    def n(self) -> int:
        return len(self.native)

    @property
    def records(self) -> float:
        """Those that the rows are, or stand for."""
        return self.n if self.stands_for is None else self.stands_for

    def column(self, name: str) -> Column:
        """The values of one column; text as objects, numbers in their own type."""
        if name not in self._cache:
            if name not in self.names:
                raise DataError(f"column {name!r} is not in the data: {suggestion(name, self.names, quoted)}")
            plain = self._numbers(name)
            plain = _text(self._own_series(name)) if plain is None else plain
            self._cache[name] = _values(*self._series(name)) if plain is None else plain
        return self._cache[name]

    def _numbers(self, name: str) -> Column | None:
        """A column of pandas or polars that is an array of numbers already; None for any other."""
        if name not in self._plain:
            self._plain[name] = _array(self._own_series(name))
        return self._plain[name]

    def _own_series(self, name: str) -> Any:
        """A column of pandas or polars as they keep it, None of any other frame; pandas takes a while to find it."""
        if name not in self._kept:
            own = is_frame_of("pandas", self.native) or is_frame_of("polars", self.native)
            self._kept[name] = self.native[name] if own else None
        return self._kept[name]

    def _series(self, name: str) -> tuple[nw.Series[Any], nw.dtypes.DType]:
        """A column with its type, which takes narwhals a while to tell."""
        if name not in self._found:
            series = self.frame.get_column(name)
            self._found[name] = series, series.dtype
        return self._found[name]

    def positions(self, name: str, levels: Sequence[Level]) -> Int:
        """The place of every value among the levels, −1 where it is none of them; looked up once."""
        key = name, tuple(levels)
        if key not in self._places:
            self._places[key] = level_positions(self.column(name), levels)
        return self._places[key]

    def codes(self, name: str, levels: Sequence[Level]) -> Int | None:
        """The place of every value among the levels, of text that was looked up before, or from a dictionary of text that Arrow keeps, so that
        no text is looked at; None where there is neither, or a value is no level."""
        found = self._places.get((name, tuple(levels)))
        if found is not None and self.column(name).dtype == object:
            return found if found.min(initial=0) >= 0 else None
        listed = self._listed(name)
        if listed is None:
            return None
        place = {level: k for k, level in enumerate(levels)}
        known = np.array([place.get(text, -1) for text in listed[0]], dtype=np.int64)
        codes = known[listed[1]]
        return codes if codes.min(initial=0) >= 0 else None

    def _listed(self, name: str) -> tuple[Column, Int] | None:
        """As `_texts`; None where there is no dictionary of text."""
        if name not in self.names or not _is_arrow(self.native):
            return None
        native = self.frame.get_column(name).to_native()
        return _texts(native) if _is_dictionary_of_text(native.type) else None

    def gaps(self, name: str) -> Bool | None:
        """Rows whose value is missing (n,); None where there are none."""
        if name in self.names and _is_arrow(self.native):
            native = self.frame.get_column(name).to_native()
            if native.null_count == 0 and not _may_be_nan(native.type):
                return None
        values = self.column(name)
        if values.dtype == object and is_frame_of("polars", self.native):
            series, kind = self._series(name)
            if kind == nw.String and not series.null_count():
                return None
        rows = is_missing(values)
        return rows if rows.any() else None

    def categories(self, name: str) -> list[Any] | None:
        """Categories in an order the user chose (pandas Categorical, also where Arrow or Parquet keeps it, polars Enum, ordered Arrow dictionary), those
        that occur; numbers that Arrow keeps in a dictionary are labels too, in the order of the numbers; else None."""
        if self._numbers(name) is not None:
            return None
        series, kind = self._series(name)
        if kind in (nw.Categorical, nw.Enum) and series.implementation.is_pandas_like():
            chosen = series.to_native().cat.categories.tolist()
        elif (listed := self._chosen(name, series)) is not None:
            chosen = listed
        elif series.implementation.is_pyarrow() and _is_dictionary_of_others(series.to_native().type):
            values = self.column(name)
            return sorted(set(values[~is_missing(values)].tolist()))
        elif kind == nw.Enum:
            chosen = list(cast(Any, kind).categories)
        else:
            return None
        present = set(self.column(name).tolist())
        return [c for c in chosen if c in present]

    def _chosen(self, name: str, series: nw.Series[Any]) -> list[Any] | None:
        """The values that a dictionary of Arrow lists, where their order was chosen; None elsewhere."""
        if not series.implementation.is_pyarrow() or not may_be_in_an_order(self.native.schema, [name]):
            return None
        # The blocks of a file may each have their own dictionary; unified, they keep the order.
        chunks = series.to_native().unify_dictionaries().chunks
        found = chunks[0].dictionary.to_pylist() if chunks else []
        return found if in_an_order(self.native.schema, name, found) else None

    def ordered(self, name: str) -> bool:
        """The user's categories are in an order that means something: ordered in pandas or Arrow, or a polars Enum."""
        series = self.frame.get_column(name)
        if series.implementation.is_pandas_like():
            return bool(getattr(series.to_native().dtype, "ordered", False))
        if series.implementation.is_pyarrow():
            return _is_ordered_dictionary(series.to_native().type)
        return series.dtype == nw.Enum

    def levels(self, name: str) -> list[Any]:
        """Distinct values without missing ones: in the order of the user's categories, else sorted; 1.0 is the level 1."""
        chosen = self.categories(name)
        if chosen is not None:
            return chosen
        values = self.column(name)
        found = {_whole(v) for v in set(values[~is_missing(values)].tolist())}
        try:
            return sorted(found)
        except TypeError:
            raise DataError(f"column {name!r} mixes types, such as text and numbers: convert it to one type") from None

    def missing(self, names: Collection[str]) -> Bool:
        """Rows with a missing (null or NaN) value in any of the named columns."""
        rows = np.zeros(self.n, dtype=bool)
        for name in names:
            rows |= is_missing(self.column(name))
        return rows

    def where(self, rows: Bool) -> Table:
        """The table restricted to the given rows."""
        return Table(self.frame.filter(rows.tolist()).to_native(), self.kind, self.source, stands_for=self.stands_for)

    def replaced(self, name: str, values: Sequence[object]) -> Table:
        """The table with other values in one column."""
        series = nw.new_series(name, values, backend=self.frame.implementation)
        return Table(self.frame.with_columns(series).to_native(), self.kind, self.source)

    def like_first(self, name: str, count: int) -> Table:
        """The records whose value of a column is one of the first `count` records'; nothing else is read into NumPy."""
        series = self.frame.get_column(name)
        alike = series.is_in(series.head(count).drop_nulls().unique().to_list())
        return self.take(np.flatnonzero(alike.fill_null(value=False).to_numpy()))

    def take(self, order: Int) -> Table:
        """The table with its rows in another order."""
        return Table(self.frame[order.tolist()].to_native(), self.kind, self.source)


def is_frame_of(library: str, native: object) -> bool:
    """Whether it is a frame of pandas or polars; whoever has one has loaded the library."""
    module = sys.modules.get(library)
    return module is not None and isinstance(native, module.DataFrame)


def _is_arrow(native: object) -> bool:
    module = sys.modules.get("pyarrow")
    return module is not None and isinstance(native, module.Table)


def _array(series: Any) -> Column | None:
    """A column that pandas or polars keep as an array of numbers, without gaps that have no number; None for any other."""
    if series is None:
        return None
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series.to_numpy()) if series.dtype.kind in "iufb" else None
    if not _is_of_polars(series) or not series.dtype.is_numeric() or series.null_count():
        return None
    values = np.asarray(series.to_numpy())
    return values if values.dtype.kind in "iuf" else None  # decimals are none of NumPy's numbers


def _text(series: Any) -> Column | None:
    """A column that pandas or polars keep as text, which holds nothing else and whole characters alone; None for any other."""
    if series is None:
        return None
    import pandas as pd

    plain = str(series.dtype) == "String" if _is_of_polars(series) else isinstance(series.dtype, pd.StringDtype)
    return np.asarray(series.to_numpy()) if plain else None


def _is_of_polars(series: object) -> bool:
    module = sys.modules.get("polars")
    return module is not None and isinstance(series, module.Series)


def _is_dictionary_of_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_dictionary(kind)
        and (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type))
    )


def _may_be_nan(kind: Any) -> bool:
    import pyarrow as pa

    return not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or is_text(kind) or _is_dictionary_of_text(kind))


def _texts(native: Any) -> tuple[Column, Int]:
    """Distinct texts of a dictionary column of Arrow, as objects, and the place of each value among them; the last is None, for gaps."""
    whole = native.unify_dictionaries().combine_chunks()
    texts = np.empty(len(whole.dictionary) + 1, dtype=object)
    texts[:-1] = whole.dictionary.to_pylist()
    return texts, whole.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)


def _is_dictionary_of_others(kind: Any) -> bool:
    """Of numbers, dates or truth values."""
    import pyarrow as pa

    types = pa.types
    text = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary)
    return bool(types.is_dictionary(kind) and not any(is_kind(kind.value_type) for is_kind in text))


def _is_ordered_dictionary(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(kind) and kind.ordered)


def _whole(value: Any) -> Any:
    """A missing value turns a column of whole numbers into floats; 0.0 and -0.0 are one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_missing(values: Column) -> Bool:
    """Null, NaN or not-a-time."""
    if values.dtype.kind in "iub":
        return np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "f":
        return np.isnan(values)
    import pandas as pd

    return np.asarray(pd.isna(values), dtype=bool)


MEMORY = 4e9
"""Bytes that a lazy frame or the like may take where its records are needed all at once."""


def read(data: object, *, text: Mapping[str, Collection[object]] = MappingProxyType({})) -> Table:
    """A table from a frame, a dictionary of arrays, or a CSV or Parquet file: its path, or a `CsvFile`; or from several files that stand
    for one: a folder, a pattern or a list of them. What comes in batches, such as a polars LazyFrame or a DuckDB relation, is collected.

    Parameters
    ----------
    text : columns that a CSV reader must leave as text ("01" stays "01"), each with its levels, which are never
        taken for a missing value ("NA" can be a level); or as whole numbers, where they are beyond 2⁶³.
    """
    if isinstance(data, Table):
        return data
    if isinstance(data, str | os.PathLike | list | tuple):
        from pramana.frames.folders import files_of, read_files

        if files := files_of(data):
            return read_files(files, text)
    if isinstance(data, str | os.PathLike):
        return _from_file(data_file(data), text)
    if isinstance(data, Mapping):
        return _from_mapping(data)
    try:
        return _framed(data)
    except TypeError:
        return _framed(_held(data))


def _held(data: object) -> Any:
    """What comes in batches (lazy frames, relations, datasets, readers, partitions), as one table in memory."""
    from pramana.frames.sources import source_of

    source = source_of(data, {}, np.inf)
    if source is None:
        raise DataError(
            f"data of type {type(data).__name__} cannot be read: give a pandas, polars or Arrow table, a polars LazyFrame, a DuckDB relation, "
            "a dictionary of arrays, or the path of a CSV or Parquet file"
        )
    found = source.held(MEMORY)
    if source.kind != "polars":
        return found
    import polars

    return polars.from_arrow(found)


def _framed(native: object, kind: FrameKind | None = None, source: str = "data") -> Table:
    """A frame of a kind that narwhals knows, with plain and distinct column names."""
    if not _distinct(native):
        try:
            native = nw.from_native(_whole_table(native), eager_only=True).to_native()
        except nw.exceptions.DuplicateError as error:
            what = " ".join(str(error).split())  # it names columns alone
            raise DataError(f"two columns have the same name ({what}): rename or drop one of them") from None
    table = Table(native, _kind(native) if kind is None else kind, source)
    nested = [name for name in table.names if isinstance(name, tuple)]
    if nested:
        raise DataError(f"the columns have several header rows, as in {nested[0]!r}: flatten them to plain names")
    refuse_halved_names(table.names)
    return table


def _distinct(native: Any) -> bool:
    """A frame of pandas or polars, which narwhals takes as it is, unless two columns have one name."""
    return is_frame_of("polars", native) or (is_frame_of("pandas", native) and native.columns.is_unique)


def _whole_table(native: Any) -> Any:
    """A batch of Arrow as a table; everything else as it is."""
    arrow = sys.modules.get("pyarrow")  # whoever has a batch has loaded it
    return arrow.Table.from_batches([native]) if arrow is not None and isinstance(native, arrow.RecordBatch) else native


def build(columns: Mapping[str, Sequence[object] | Column], kind: FrameKind) -> Any:
    """A native frame of the given kind."""
    if kind == "dict":
        return {name: np.asarray(values) for name, values in columns.items()}
    ready = {k: v.tolist() if isinstance(v, np.ndarray) else list(v) for k, v in columns.items()}
    return nw.from_dict(ready, backend=kind).to_native()


def _kind(native: object) -> FrameKind:
    if is_frame_of("polars", native):
        return "polars"
    return "pyarrow" if _is_arrow(native) else "pandas"


def _values(series: nw.Series[Any], kind: nw.dtypes.DType) -> Column:
    if series.implementation.is_pyarrow() and _is_dictionary_of_text(series.to_native().type):
        texts, places = _texts(series.to_native())
        return texts[places]
    if series.implementation.is_pyarrow() and _is_dictionary_of_others(series.to_native().type):
        plain = series.to_native()
        series = nw.from_native(plain.cast(plain.type.value_type), series_only=True).alias(series.name)
        kind = series.dtype
    if kind in (nw.Categorical, nw.Enum) and not series.implementation.is_pandas_like():
        series = series.cast(nw.String)
    try:
        values = np.asarray(series.to_numpy())
    except ValueError:  # of Arrow, such as times of day with nanoseconds
        raise _unusable(series.name, str(kind)) from None
    if kind.is_integer() and values.dtype.kind == "f" and np.nanmax(np.abs(values), initial=0) >= EXACT:
        return np.array(series.to_list(), dtype=object)  # with gaps; as floats, different whole numbers would be one
    if values.dtype.kind == "c" or kind in (nw.List, nw.Struct, nw.Array):
        raise _unusable(series.name, type(kind).__name__)
    if values.dtype.kind == "O":
        nested = next((t for t in set(map(type, values.tolist())) if issubclass(t, NESTED)), None)
        if nested is not None:  # a map of Arrow, or a column of Python objects
            raise _unusable(series.name, nested.__name__)
        if series.implementation.is_pandas_like() and series.to_native().dtype == object:  # other strings are whole
            _refuse_halves(series.name, values)
        return _numbers_in_disguise(values)
    if values.dtype.kind in "mM":
        return _in_microseconds(values)
    return values.astype(object) if values.dtype.kind in "US" else values


def _in_microseconds(values: Column) -> Column:
    """Dates and durations in the unit in which Python has them, where nothing is lost: NumPy lists nanoseconds as plain numbers, which equal no date."""
    unit, _ = np.datetime_data(values.dtype)
    whole = values.astype(f"{values.dtype.kind}8[us]") if unit == "ns" else values
    return whole if np.array_equal(whole.astype(values.dtype), values, equal_nan=True) else values


def _unusable(name: str, kind: str) -> DataError:
    return DataError(f"column {name!r} of type {kind} cannot be used: give numbers, text or true and false")


def _numbers_in_disguise(values: Column) -> Column:
    """Decimals, and numbers in a column of Python objects, are numbers, not categories."""
    from pandas.api.types import infer_dtype

    kind = infer_dtype(values, skipna=True)
    if kind == "complex":
        raise DataError("complex numbers cannot be used: give their real part")
    return values.astype(float) if kind in ("integer", "floating", "mixed-integer-float", "decimal") else values


def _refuse_halves(name: str, values: Column) -> None:
    """Text that a wrong decoding broke; Arrow would fail on it somewhere below."""
    texts = values.tolist()
    if any(map(lacks_half, {v for v in texts if isinstance(v, str)})):
        raise DataError(
            f"column {name!r} holds text with half a character (a lone surrogate) in {sum(map(lacks_half, texts))} record(s), which no file "
            "can hold: decode the text again, with its right encoding"
        )


def _from_mapping(data: Mapping[Any, Any]) -> Table:
    import pandas as pd

    try:
        columns = {
            str(k): pd.Categorical(v) if isinstance(getattr(v, "dtype", None), pd.CategoricalDtype) else np.asarray(v)
            for k, v in data.items()
        }
    except ValueError as error:
        raise DataError(f"the columns must be one-dimensional and of equal length: {quoted(str(error))}") from None
    lengths = {k: v.shape for k, v in columns.items()}
    if len(set(lengths.values())) > 1 or any(len(s) != 1 for s in lengths.values()):
        raise DataError(f"the columns must be one-dimensional and of equal length; their shapes are {lengths}")
    try:
        return _framed(pd.DataFrame(columns), "dict")
    except UnicodeEncodeError:
        refuse_halved_names(columns)
        for name, values in columns.items():
            _refuse_halves(name, np.asarray(values))
        raise


def _from_file(file: DataFile, text: Mapping[str, Collection[object]]) -> Table:
    path = Path(file)
    table = _read_csv(path, text, dialect_of(file)) if existing(path) == "csv" else _read_parquet(path)
    try:
        check_header(table.column_names, path)
    except UnicodeDecodeError:
        raise undecodable(f"the header of {str(path)!r}", "UTF-8") from None
    return _framed(table, "pyarrow", str(path))


def _read_csv(path: Path, text: Mapping[str, Collection[object]], dialect: Dialect) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ConvertOptions(
        column_types={n: pa.uint64() if is_unsigned(levels) else pa.string() for n, levels in text.items()},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[v for v in NULLS if not any(v in levels for levels in text.values())],
        decimal_point=dialect.decimal,
    )
    reading = csv.ReadOptions(encoding="utf8" if dialect.encoding == "utf-8-sig" else dialect.encoding)
    parsing = csv.ParseOptions(delimiter=dialect.delimiter, quote_char=dialect.quote or False)
    failures = (pa.ArrowInvalid, pa.ArrowKeyError, OSError, UnicodeError)
    try:
        table = csv.read_csv(path, reading, parsing, options)
    except failures:
        _blame(path, dialect)
        parsing.newlines_in_values = (
            True  # slower, and seldom needed: a field that runs over the edge of Arrow's blocks
        )
        try:
            table = csv.read_csv(path, reading, parsing, options)
        except failures as error:
            raise unreadable(path, error) from None
    if any(pa.types.is_binary(field.type) for field in table.schema):  # Arrow's way to say that it is no UTF-8
        _blame(path, dialect)
    return table


def _blame(path: Path, dialect: Dialect) -> None:
    """Read a file that Arrow could not read in blocks, which say at which row it fails."""
    from pramana.frames.blocks.csv_files import CsvReader

    if path.stat().st_size:
        for _ in CsvReader(path, dialect).blocks():
            pass


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path, **CHECKED)
        return as_labels(table, labels_in(table.schema))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None


def require_columns(table: Table, names: Collection[str], why: str) -> None:
    """Refuse early when columns are absent, naming all of them at once."""
    require_names(names, table.names, why, "the data lack")

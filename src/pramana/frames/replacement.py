"""Columns put back into the frame they came from, with its kind and types kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from pramana.arrays import Column
from pramana.errors import DataError
from pramana.frames import Table
from pramana.frames.table import is_missing


def replace_columns(
    native: Any,
    table: Table,
    columns: Mapping[str, Column],
    *,
    fresh: Collection[str] = (),
    dropped: Collection[str] = (),
    noisy: Collection[str] = (),
) -> Any:
    """The native frame with some columns replaced, every type kept, and none of the notes that a frame can carry.

    Parameters
    ----------
    fresh : columns that take the type of their values, whatever was there before.
    dropped : columns that are taken out.
    noisy : columns whose whole numbers become fractions where the values have some.
    """
    wide = [k for k, v in columns.items() if k in noisy and v.dtype.kind == "f" and table.column(k).dtype.kind in "iu"]
    if wide:
        import narwhals as nw

        table = Table(table.frame.with_columns(nw.col(*wide).cast(nw.Float64)).to_native(), table.kind, table.source)
        native = {**native, **{k: columns[k] for k in wide}} if table.kind == "dict" else native
    if table.kind == "dict":
        made = {k: v if k in fresh else _like_array(k, v, np.asarray(native[k])) for k, v in columns.items()}
        return {k: v for k, v in {**native, **made}.items() if k not in dropped}
    if table.kind == "pandas":
        frame = table.frame.to_native()
        values = {k: _new_pandas(v, frame) if k in fresh else _like_pandas(k, v, frame[k]) for k, v in columns.items()}
        made = frame.assign(**values).drop(columns=list(dropped))
        made.attrs = {}
        return made
    import narwhals as nw

    series = [_new_series(nw, k, v, table) if k in fresh else _like_series(nw, k, v, table) for k, v in columns.items()]
    made = table.frame.with_columns(*series).drop(list(dropped)).to_native()
    return _without_remarks(made) if table.kind == "pyarrow" else made


def _new_pandas(values: Column, frame: Any) -> Any:
    import pandas as pd

    return pd.Series(values.tolist(), index=frame.index)


def _new_series(nw: Any, name: str, values: Column, table: Table) -> Any:
    return nw.new_series(name, values.tolist(), backend=table.frame.implementation)


def _without_remarks(table: Any) -> Any:
    """An Arrow table with names and types of its own and nobody's metadata."""
    import pyarrow as pa

    from pramana.frames.metadata import pandas_block, published_field

    fields = [published_field(field, stored=False) for field in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, pandas_block(table.schema, fields)))


def _like_array(name: str, values: Column, original: Column) -> Column:
    if original.dtype.kind == "O":
        return np.where(is_missing(values) & is_missing(original), original, values.astype(object))
    if original.dtype.kind in "US":
        return np.asarray(values.tolist())
    cast = values.astype(original.dtype)
    if not np.array_equal(cast.astype(float), values.astype(float), equal_nan=True):
        raise _too_narrow(name, original.dtype)
    return cast


def _too_narrow(name: str, dtype: object) -> DataError:
    return DataError(
        f"column {name!r} of type {dtype} cannot hold every level of the mechanism: cast it to a wider type or to text, or "
        "extend its categories"
    )


def _like_pandas(name: str, values: Column, original: Any) -> Any:
    import pandas as pd

    dtype = original.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        extra = [v for v in dict.fromkeys(values.tolist()) if v not in dtype.categories and v is not None and v == v]
        dtype = pd.CategoricalDtype([*dtype.categories, *extra], dtype.ordered)
    try:
        return pd.Series(values.tolist(), index=original.index, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        raise _too_narrow(name, dtype) from None


def _like_series(nw: Any, name: str, values: Column, table: Table) -> Any:
    dtype = table.frame.get_column(name).dtype
    plain = [None if v is None or v != v else v for v in values.tolist()]
    if table.kind == "pyarrow":
        import pyarrow as pa

        kind = table.frame.to_native().schema.field(name).type
        try:
            array = _arrow_array(pa, plain, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            raise _too_narrow(name, kind) from None
        return nw.from_native(pa.chunked_array([array]), series_only=True).alias(name)
    try:
        return nw.new_series(name, plain, dtype=dtype, backend=table.frame.implementation)
    except Exception:
        raise _too_narrow(name, type(dtype).__name__) from None  # an Enum would list its categories


def _arrow_array(pa: Any, values: list[object], kind: Any) -> Any:
    if pa.types.is_uint64(kind):
        return pa.array(values, kind)  # Arrow reads numbers beyond 2⁶³ only where it is told their type
    if not pa.types.is_dictionary(kind):
        return pa.array(values).cast(kind)  # a cast refuses what the type cannot hold; `type=` would cut it off
    return pa.array(values).cast(kind.value_type).dictionary_encode().cast(kind)

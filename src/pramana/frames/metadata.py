"""What a copy of a table says of itself: the names and types of its columns, and which of them are pandas' index.

Arrow and Parquet let anybody write anything beside the data: notes on a file, a column or a field within it, the attributes of a
pandas frame, the parameters of an extension type. Of confidential data none of that may travel.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


CHOSEN = 1000
"""Categories up to which their order may be somebody's choice, and Parquet surely keeps it: it does in one page."""


def categories_in(schema: pa.Schema) -> dict[str, int | None]:
    """Columns that were categories of pandas, and how many each had, as far as it says."""
    try:
        known = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("columns", [])
        found = {str(c["field_name"]): c.get("metadata") for c in known if c["pandas_type"] == "categorical"}
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):  # anybody can write anything there
        return {}
    return {name: told.get("num_categories") if isinstance(told, dict) else None for name, told in found.items()}


def labels_in(schema: pa.Schema) -> tuple[str, ...]:
    """Columns that were categories of pandas and that Parquet keeps as numbers, dates or the like: labels, and no amounts."""
    plain = {f.name for f in schema if not pa.types.is_dictionary(f.type) and not is_text(f.type)}
    return tuple(name for name in categories_in(schema) if name in plain)


def in_an_order(schema: pa.Schema, name: str, categories: Sequence[Any]) -> bool:
    """Whether a dictionary of text lists its values in an order that somebody chose: it is ordered, or all the categories of a column of pandas."""
    kind = schema.field(name).type
    if not pa.types.is_dictionary(kind):
        return False
    return bool(kind.ordered) or (
        is_text(kind.value_type) and len(categories) <= CHOSEN and categories_in(schema).get(name) == len(categories)
    )


def may_be_in_an_order(schema: pa.Schema, columns: Collection[str]) -> bool:
    """Whether `in_an_order` may be true of one of the columns."""
    kinds = {name: schema.field(name).type for name in columns}
    known = categories_in(schema)
    return any(pa.types.is_dictionary(kind) and (kind.ordered or name in known) for name, kind in kinds.items())


def enums_ordered(records: Any) -> Any:
    """A table or batch of DuckDB, whose dictionaries are its enums, which have an order."""
    for place, field in enumerate(records.schema):
        if pa.types.is_dictionary(field.type) and not field.type.ordered:
            column = records.column(place)
            kind = pa.dictionary(field.type.index_type, field.type.value_type, ordered=True)
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            made = [pa.DictionaryArray.from_arrays(c.indices, c.dictionary, ordered=True) for c in chunks]
            whole = pa.chunked_array(made, kind) if isinstance(column, pa.ChunkedArray) else made[0]
            records = records.set_column(place, pa.field(field.name, kind), whole)
    return records


def with_labels(schema: pa.Schema) -> pa.Schema:
    """The types of the records with `labels_in` as categories again."""
    names = labels_in(schema)
    kinds = [f.with_type(pa.dictionary(pa.int32(), f.type)) if f.name in names else f for f in schema]
    return pa.schema(kinds, schema.metadata)


def as_labels(records: Any, names: Collection[str]) -> Any:
    """A table or batch in which these columns are categories again."""
    for place, field in enumerate(records.schema):
        if field.name in names:
            records = records.set_column(place, field.name, records.column(place).dictionary_encode())
    return records


_PLAIN = ("arrow.bool8", "arrow.json", "arrow.uuid")
"""Extension types without parameters, which therefore say nothing."""
_DTYPES = {
    **{f"{sign}nt{bits}": pa.types.is_integer for sign in ("I", "UI") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("Float32", "Float64"), pa.types.is_floating),
    **dict.fromkeys(("str", "string", "string[python]", "string[pyarrow]"), is_text),
    "boolean": pa.types.is_boolean,
}
"""Types of pandas that Arrow's do not tell, and the Arrow types that they go with."""


_LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)


def published_field(field: pa.Field, *, stored: bool) -> pa.Field:
    """A column by its name and type; `stored`: as a file holds it, so that an extension type becomes what it stores."""
    kind = field.type
    if stored and isinstance(kind, pa.BaseExtensionType) and kind.extension_name not in _PLAIN:
        kind = _without_dictionaries(kind.storage_type)
    return pa.field(field.name, _published(kind, stored), field.nullable)


def _inner(field: pa.Field, stored: bool) -> pa.Field:
    """A field within a type. Only the dictionary of a whole column can be cleared of values that do not occur."""
    made = published_field(field, stored=stored)
    return made.with_type(_without_dictionaries(made.type)) if stored else made


def _without_dictionaries(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _published(kind: pa.DataType, stored: bool) -> pa.DataType:
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([_inner(kind.field(place), stored) for place in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(_inner(kind.key_field, stored), _inner(kind.item_field, stored), keys_sorted=kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(_inner(kind.value_field, stored), kind.list_size)
    made = [make for is_kind, make in _LISTS if is_kind(kind)]
    return made[0](_inner(kind.value_field, stored)) if made else kind


def pandas_block(schema: pa.Schema, fields: list[pa.Field]) -> dict[bytes, bytes]:
    """What pandas needs of its own metadata to give the same frame back: index and types, and none of a frame's attributes.

    Only names of columns and known names of types are taken from it; without such a block there is none. An index that merely
    counts the rows of the original file is not kept.
    """
    given = _given(schema)
    if given is None:
        return {}
    kept = [field.name for field in fields]
    index = [name for name in given.get("index_columns", []) if isinstance(name, str) and name in kept]
    known = {str(c.get("field_name")): c for c in given.get("columns", []) if isinstance(c, dict)}
    columns = [_column(field, known.get(field.name, {}), field.name in index) for field in fields]
    ordered = [c for c in columns if c["field_name"] not in index] + [c for c in columns if c["field_name"] in index]
    block = {"index_columns": index, "column_indexes": [], "columns": ordered}
    return {b"pandas": json.dumps(block).encode()}


def _given(schema: pa.Schema) -> dict[str, Any] | None:
    """The block as it stands there, for its known parts to be picked; one that is broken counts as none."""
    try:
        found = json.loads((schema.metadata or {}).get(b"pandas", b"null"))
    except (ValueError, RecursionError):
        return None
    parts = [found.get(key, []) for key in ("index_columns", "columns")] if isinstance(found, dict) else [None]
    return found if all(isinstance(part, list) for part in parts) else None


def _column(field: pa.Field, known: dict[str, Any], index: bool) -> dict[str, Any]:
    dtype, nameless = str(known.get("numpy_type")), index and known.get("name") is None
    return {
        "name": None if nameless else field.name,
        "field_name": field.name,
        "pandas_type": "unicode" if is_text(field.type) else "object",
        "numpy_type": dtype if dtype in _DTYPES and _DTYPES[dtype](field.type) else "object",
        "metadata": None,
    }

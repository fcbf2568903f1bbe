"""Parts of nested columns: what a struct, a list or a map holds is searched like columns of their own.

Searched are every field of a struct, the length and the first 8 elements of a list, and the values of the 16 commonest keys of a
map, four levels deep, and of one column at most 32 such parts. What a nested column holds beyond that is warned of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DEPTH, PARTS, ELEMENTS, KEYS = 4, 32, 8, 16


@dataclass(frozen=True)
class Parts:
    """The parts of a column by name, and whether these are all that it has."""

    arrays: dict[str, pa.ChunkedArray]
    all: bool = True


def parts(name: str, array: pa.ChunkedArray) -> Parts:
    """The parts of a nested column, those nearest to its surface first; none of any other."""
    held: dict[str, pa.ChunkedArray] = {}
    waiting, complete = deque([(name, plain_type(array), 0)]), True
    while waiting:
        label, inner, depth = waiting.popleft()
        if not pa.types.is_nested(inner.type):
            continue
        room = PARTS - len(held) if depth < DEPTH else 0
        new = list(islice(_inside(label, inner), room + 1))
        complete &= len(new) <= room and _whole(inner)
        for key, part in new[:room]:
            held[key] = plain_type(part)
            waiting.append((key, held[key], depth + 1))
    return Parts(held, complete)


def plain_type(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values in a type that says nothing of how they are stored."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(pa.chunked_array([chunk.storage for chunk in array.chunks], kind.storage_type))
    if pa.types.is_dictionary(kind):
        return plain_type(array.cast(kind.value_type))
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return array.cast(pa.large_binary())
    return array


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _inside(label: str, array: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """What is directly inside."""
    kind = array.type
    if pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield f"{label}.{kind.field(place).name}", pc.struct_field(array, [place])
    elif pa.types.is_map(kind):
        yield f"the length of {label}", _length(array)
        for key in _keys(array)[:KEYS]:
            yield f"{label}[{key.as_py()!r}]", pc.map_lookup(array, key, "first")
    elif _is_list(kind):
        yield f"the length of {label}", _length(array)
        for place in range(min(ELEMENTS, _longest(array))):
            yield f"{label}[{place}]", _element(array, place)


def _whole(array: pa.ChunkedArray) -> bool:
    """Whether all that is directly inside can be searched."""
    if pa.types.is_struct(array.type):
        return True
    if pa.types.is_map(array.type):
        return len(_keys(array)) <= KEYS
    return _is_list(array.type) and _longest(array) <= ELEMENTS


def _keys(array: pa.ChunkedArray) -> list[pa.Scalar]:
    """The keys of a map, the commonest first."""
    keys = pa.chunked_array([chunk.keys for chunk in array.chunks], array.type.key_type)
    counted = pc.value_counts(keys)
    order = pc.sort_indices(counted.field("counts"), sort_keys=[("", "descending")])
    return list(counted.field("values").take(order))


def _length(array: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_map(array.type):
        return pc.list_value_length(array).cast(pa.int64())
    offsets = [np.diff(chunk.offsets.to_numpy()) for chunk in array.chunks]
    lengths = np.concatenate([np.empty(0, dtype=np.int64), *offsets])
    return pa.chunked_array([pa.array(lengths, pa.int64(), mask=array.is_null().to_numpy())])


def _longest(array: pa.ChunkedArray) -> int:
    return int(pc.max(_length(array)).as_py() or 0)


def _element(array: pa.ChunkedArray, place: int) -> pa.ChunkedArray:
    """The elements at a place, null where a list is shorter."""
    there = pc.fill_null(pc.greater(_length(array), place), False).to_numpy()
    found = pc.list_element(array.filter(pa.array(there)), place)
    return found.take(pa.array(np.cumsum(there) - 1, mask=~there))

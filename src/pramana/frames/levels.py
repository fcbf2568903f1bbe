"""Columns with levels: their kinds, the codes that stand for them, and what is known of each column beforehand."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from pramana.arrays import Column, Int
from pramana.errors import DataError, MechanismError, PramanaError, listing, quoted

Level: TypeAlias = Hashable
EXACT = 1 << 53
"""Whole numbers up to it are exact as floats."""
SMALL = 1024
"""Whole numbers below it are looked up in a list."""
FEW = 10_000
"""Texts up to which a dictionary of Python is quicker than an index of pandas."""
Kind: TypeAlias = Literal["nominal", "ordinal", "numeric"]
_SURROGATE = re.compile("[\ud800-\udfff]")


def is_number(value: object) -> bool:
    """True for integers and floats, not for booleans."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_)


def all_numbers(values: Iterable[object]) -> bool:
    """Whether all values are integers and floats; a million of them have few types.

    >>> all_numbers([1, 2.5]), all_numbers([1, True]), all_numbers([1, "1"])
    (True, False, False)
    """
    return all(
        issubclass(kind, int | float | np.integer | np.floating) and not issubclass(kind, bool | np.bool_)
        for kind in set(map(type, values))
    )


def is_unsigned(levels: Collection[object]) -> bool:
    """Whole numbers of which some are beyond 2⁶³, so that only an unsigned column holds them; a CSV reader would take floats."""
    whole = [v for v in levels if isinstance(v, int)]
    return len(whole) == len(levels) > 0 and min(whole) >= 0 and max(whole) >= 1 << 63


def infer_kind(levels: Sequence[Level]) -> Kind | None:
    """Text is nominal, two numbers are numeric, and more than two numbers are undecided (None).

    >>> infer_kind(["low", "high"]), infer_kind([0, 1]), infer_kind([1, 2, 3])
    ('nominal', 'numeric', None)
    """
    if not all_numbers(levels):
        return "nominal"
    return "numeric" if len(levels) == 2 else None


def lacks_half(value: object) -> bool:
    """Text with half a character (a lone surrogate), as a wrong decoding leaves it; no file can hold it.

    >>> lacks_half("caf\\udce9"), lacks_half(("a", "caf\\udce9")), lacks_half("café")
    (True, True, False)
    """
    if isinstance(value, tuple):
        return any(map(lacks_half, value))
    return isinstance(value, str) and _SURROGATE.search(value) is not None


def refuse_halved_names(names: Iterable[str], error: type[PramanaError] = DataError) -> None:
    """Names of columns with half a character."""
    halved = [name for name in names if lacks_half(name)]
    if halved:
        raise error(f"the column name {halved[0]!r} holds half a character (a lone surrogate): rename the column")


def checked_levels(levels: Sequence[Level]) -> tuple[Level, ...]:
    """The levels of a mechanism as a tuple of plain values: at least two, distinct, of one type, none missing."""
    alone = isinstance(levels, np.ndarray) and levels.ndim == 0
    if isinstance(levels, set | frozenset) or alone or not isinstance(levels, Iterable):
        raise MechanismError(f"levels of type {type(levels).__name__}: give an ordered list such as ['no', 'yes']")
    plain = tuple(v.item() if isinstance(v, np.generic) else v for v in levels)
    if len(plain) < 2:
        raise MechanismError(f"a transition matrix needs at least 2 levels, not {len(plain)}")
    if any(_lacks_value(v) for v in plain if not isinstance(v, str | int)):
        raise MechanismError("a missing value cannot be a level: recode it to a value such as 'missing' first")
    broken = [v for v in plain if lacks_half(v)]
    if broken:
        raise MechanismError(
            f"level {quoted(repr(broken[0]))} holds half a character (a lone surrogate), which no file can hold: decode the text again, "
            "with its right encoding"
        )
    kinds = {type(v): v for v in plain}.values()
    types = {"text" if isinstance(v, str) else "number" if is_number(v) else type(v).__name__ for v in kinds}
    if types & {"list", "dict", "set", "ndarray"}:
        raise MechanismError(
            f"level {quoted(repr(plain[0]))} is a {type(plain[0]).__name__}: use a tuple for a joint level"
        )
    if len(set(plain)) < len(plain):
        seen: set[Level] = set()
        twice = [v for v in plain if v in seen or seen.add(v)]  # type: ignore[func-returns-value]
        raise MechanismError(
            f"levels {quoted(listing(dict.fromkeys(twice)))} appear more than once: each level must be listed once"
        )
    if len(types) > 1:
        raise MechanismError(f"levels {quoted(listing(plain))} mix {' and '.join(sorted(types))}: use one type")
    return plain


def _lacks_value(level: object) -> bool:
    if isinstance(level, tuple):
        return any(_lacks_value(part) for part in level)
    return level is None or level is pd.NA or level is pd.NaT or (isinstance(level, float) and not np.isfinite(level))


def unknown_levels(column: str, levels: Sequence[Level], unseen: Collection[Any], count: int, where: str) -> DataError:
    """The error of released values that are no levels."""
    error = DataError(
        f"column {column!r} has {count} value(s) that are not levels of the mechanism, first in {where}: "
        f"{quoted(listing(unseen))}. The levels are {listing(levels, 10)}: recode the column, or add the level to the "
        "mechanism if it is yours"
    )
    error.column, error.levels = column, tuple(levels)
    return error


def encode(values: Column, levels: Sequence[Level], *, column: str) -> Int:
    """Position of every value among `levels`; an unknown value is an error.

    >>> encode(np.array(["b", "a"]), ["a", "b"], column="x")
    array([1, 0])
    """
    _refuse_type_mismatch(values, levels, column)
    codes = level_positions(values, levels)
    unknown = np.flatnonzero(codes < 0) if codes.min(initial=0) < 0 else np.empty(0, dtype=np.int64)
    if unknown.size:
        unseen = list(dict.fromkeys(values[unknown].tolist()))
        raise unknown_levels(column, levels, unseen, unknown.size, f"row {unknown[0]}")
    return codes.astype(np.int64, copy=False)


def level_positions(values: Column, levels: Sequence[Level]) -> Int:
    """The position of every value among the levels, -1 where it is none of them; small whole numbers are looked up in a list."""
    whole = values.dtype.kind in "iu" and values.size and all(type(v) is int and 0 <= v < SMALL for v in levels)
    if whole and list(levels) == list(range(len(levels))) and values.min() >= 0 and values.max() < len(levels):
        return values.astype(np.int64)
    if whole and values.size > SMALL:
        listed = np.full(SMALL + 1, -1, dtype=np.int64)
        listed[np.asarray(levels, dtype=np.int64)] = np.arange(len(levels))
        inside = (values >= 0) & (values < SMALL)
        return listed[
            values if inside.all() else np.where(inside, values.astype(np.int64), SMALL)
        ]  # an int8 holds no SMALL
    given = _comparable(values, levels)
    if given.dtype == object and given.size <= FEW:
        place = {level: k for k, level in enumerate(levels)}
        return np.fromiter(map(place.get, given.tolist(), repeat(-1)), dtype=np.int64, count=given.size)
    kind = (
        object if given.dtype == object else None
    )  # without it pandas would infer the kind of text, which takes longer
    index = pd.Index(list(levels), dtype=kind, tupleize_cols=False)
    return np.asarray(index.get_indexer(pd.Index(given, dtype=kind, tupleize_cols=False)))


def decode(codes: Int, levels: Sequence[Level]) -> Column:
    """The level of every code, in the natural NumPy type of the levels."""
    return _natural(levels)[codes]


def _natural(levels: Sequence[Level]) -> Column:
    if all(isinstance(v, bool | np.bool_) for v in levels) or all_numbers(levels):
        return np.asarray(levels, dtype=np.uint64 if is_unsigned(levels) else None)
    out = np.empty(len(levels), dtype=object)
    out[:] = list(levels)
    return out


def _comparable(values: Column, levels: Sequence[Level]) -> Any:
    numeric = all_numbers(levels)
    return values if numeric or values.dtype == object else values.astype(object)


def _refuse_type_mismatch(values: Column, levels: Sequence[Level], column: str) -> None:
    """`1` is not `"1"`: both are named so that the user sees which side to change."""
    if values.size == 0:
        return
    level = levels[0]
    value = next((v for v in values[:100] if v is not None), None)
    text_data, text_levels = isinstance(value, str), isinstance(level, str)
    number_data, number_levels = is_number(value), is_number(level)
    if (text_data and number_levels) or (number_data and text_levels):
        data_type, level_type = type(value).__name__, type(level).__name__
        raise DataError(
            f"column {column!r} holds {'text' if text_data else 'numbers'} ({data_type}) but the mechanism's levels are "
            f"{'text' if text_levels else 'numbers'}, such as {quoted(repr(level))} ({level_type}): {quoted(_pair(level))} differ. "
            f"Convert the column, or build the mechanism with levels of the column's type"
        )
    if values.dtype.kind == "f" and any(isinstance(v, int) and abs(v) > EXACT for v in levels):
        raise DataError(
            f"column {column!r} holds decimal numbers (float), and levels of the mechanism are whole numbers beyond 2⁵³, which decimals "
            "take for each other: read the column as whole numbers or as text"
        )


def _pair(level: Level) -> str:
    other = repr(str(level)) if is_number(level) else f"{level} as a number"
    return f"{level!r} and {other}"


@dataclass(frozen=True)
class Variable:
    """A column with levels and kind fixed by the mechanism (kind None: numbers whose meaning was not stated).

    Attributes
    ----------
    levels : None for numbers with noise.
    smooth_only : only smooth functions of it can be reverted.
    keeps : a number with noise, of which so many are as they were that its quantiles can be estimated.
    lattice : the same of numbers on a grid: its step, and how far the numbers lie that stand for a released one; None elsewhere.
    """

    name: str
    kind: Kind | None
    levels: tuple[Level, ...] | None
    perturbed: bool = True
    smooth_only: bool = False
    keeps: bool = False
    lattice: tuple[float, float] | None = None


@dataclass(frozen=True)
class Schema:
    """The variables whose kind and levels come from the mechanism; every other column speaks for itself."""

    variables: Mapping[str, Variable] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __getitem__(self, name: str) -> Variable:
        return self.variables[name]

    def perturbed(self, name: str) -> bool:
        return name in self.variables and self.variables[name].perturbed

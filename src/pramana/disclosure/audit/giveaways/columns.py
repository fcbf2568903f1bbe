"""A clear column as the search sees it: codes of equal values, its numbers and its text, whatever type it has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pramana.arrays import Bool, Column, Float, Int
from pramana.disclosure.audit.giveaways.nesting import plain_type
from pramana.disclosure.audit.giveaways.spelling import in_memory

FEWEST = 4
"""Records a value must have, on average, for a clue to be learned."""
PLACES = 20
"""Decimals that are searched."""
UNIQUE = 0.9
"""Share of distinct values from which on a column can be an identifier."""
CERTAIN = 14.0
"""Expected number of equal pairs from which on having none is no chance: exp(−14) < 1e-6."""


@dataclass(frozen=True, eq=False)
class ClearColumn:
    """One clear column of the released file.

    Attributes
    ----------
    codes : 0, 1, … for equal values (n,), and -1 where the value is missing.
    values : the distinct values (d,), in the order of their codes; None for nested types, which have no order.
    ticks : how many of their units make a second where the values are dates or times, as whole numbers; 0 for all others.
    near_unique : nearly every record has a value of its own.
    assigned : whole numbers of which no two are equal, though measurements so densely spread would have been.
    spelled : how each value is written (n,), by aspect: codes, and -1 where the aspect does not apply.
    """

    name: str
    codes: Int
    values: Column | None
    ticks: int = 0
    near_unique: bool = False
    assigned: bool = False
    spelled: Mapping[str, Int] = field(default_factory=dict)

    @staticmethod
    def of(name: str, array: pa.ChunkedArray, spelled: Mapping[str, Int] | None = None) -> ClearColumn:
        """From Arrow; text that reads as numbers or times (a CSV file) keeps its text, and gets its numbers in `numbers`."""
        array = plain_type(array)
        made = _of(name, array)
        return replace(made, spelled=in_memory(array) if spelled is None else spelled)

    @property
    def stamp(self) -> bool:
        return self.ticks > 0

    @property
    def n(self) -> int:
        return self.codes.size

    @cached_property
    def missing(self) -> Bool:
        return np.asarray(self.codes < 0, dtype=bool)

    @property
    def distinct(self) -> int:
        return int(self.codes.max(initial=-1)) + 1

    @cached_property
    def text(self) -> list[str]:
        """The distinct values as they are written; none of a nested column."""
        if self.values is None or self.stamp or self.values.dtype.kind == "b":
            return []
        if self.values.dtype.kind == "f":
            return [] if self.whole is None else [str(int(v)) for v in self.whole]
        return [str(v) for v in self.values]

    @cached_property
    def numbers(self) -> Float | None:
        """The distinct values as numbers where they are numbers, or text that reads as such."""
        if self.values is None:
            return None
        if self.values.dtype.kind in "iufb":
            return self.values.astype(float)
        read = pd.to_numeric(pd.Series(self.values), errors="coerce").to_numpy(dtype=float, na_value=np.nan)
        return None if np.isnan(read).any() or not read.size else read

    @cached_property
    def whole(self) -> Column | None:
        """The distinct values as whole numbers, exactly, where all are."""
        if self.values is None or self.numbers is None or self.stamp:
            return None
        if self.values.dtype.kind in "iu":
            return self.values
        fits = np.all(np.isfinite(self.numbers)) and np.all(np.abs(self.numbers) < 2**53)
        return self.numbers.astype(np.int64) if fits and np.all(self.numbers == np.round(self.numbers)) else None

    @cached_property
    def digits(self) -> list[str]:
        """All digits of the distinct numbers, with equally many decimals (an amount in cents); none where they are no numbers.

        Numbers in memory have 15 digits that count, those of a text all that are written.
        """
        if self.numbers is None or self.values is None or self.stamp or self.values.dtype.kind == "b":
            return []
        parts = [t.partition(".") for t in map(_written, self.values)]
        places = min(PLACES, max((len(decimals.rstrip("0")) for *_, decimals in parts), default=0))
        return [whole + decimals[:places].ljust(places, "0") for whole, _, decimals in parts]

    @cached_property
    def last_bits(self) -> Int | None:
        """The last four bits of distinct numbers that are not whole; None of any others."""
        if self.values is None or self.values.dtype.kind != "f" or self.whole is not None:
            return None
        return (self.values.view(f"u{self.values.dtype.itemsize}") & 15).astype(np.int64)

    @property
    def sparse(self) -> bool:
        """So many values that too few records have each of them to learn from."""
        return self.near_unique or FEWEST * self.distinct > self.n - int(self.missing.sum())

    @property
    def measured(self) -> bool:
        """Numbers that stand for an amount: any that are not whole, and whole ones that equal each other as often as chance has it."""
        if self.numbers is None:
            return False
        return self.whole is None or not self.assigned

    @property
    def identifier(self) -> bool:
        """Nearly unique text or whole numbers. (Amounts in whole units too: their last digits are searched, not their size.)"""
        named = bool(self.text) and (self.numbers is None or self.whole is not None)
        return self.near_unique and not self.stamp and named

    @property
    def joinable(self) -> bool:
        """Content that can be put in groups: no identifier, and no nested column with hardly any value twice."""
        return (self.measured or not self.identifier) and not (self.values is None and self.sparse)

    def at(self, rows: Int) -> ClearColumn:
        """The same column for some of the records, with the values that they have."""
        codes = self.codes[rows]
        held, place = np.unique(codes[codes >= 0], return_inverse=True)
        new = np.full(codes.size, -1, dtype=np.int64)
        new[codes >= 0] = place
        values = None if self.values is None else self.values[held]
        spelled = {aspect: codes[rows] for aspect, codes in self.spelled.items()}
        return ClearColumn(self.name, new, values, self.ticks, self.near_unique, self.assigned, spelled)

    def groups(self, most: int) -> Int:
        """At most `most` groups of neighbouring values, about equally many records in each; -1 where missing."""
        order = self._rank
        counts = np.bincount(self.codes[~self.missing], minlength=self.distinct)[np.argsort(order)]
        before = np.cumsum(counts) - counts / 2
        of_rank = np.minimum((before * most / max(int(counts.sum()), 1)).astype(np.int64), most - 1)
        return self.spread(of_rank[order])

    @cached_property
    def _rank(self) -> Int:
        """Place of every distinct value among all, by size or by the alphabet."""
        size = self.numbers if self.numbers is not None else self.values
        if size is None:
            return np.arange(self.distinct)
        by_text = size.dtype.kind == "O"
        order = np.argsort(np.array([str(v) for v in size], dtype=object) if by_text else size, kind="stable")
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        return rank

    def spread(self, of_value: Int) -> Int:
        """What holds of the distinct values, for every record; -1 where missing."""
        return np.where(self.missing, -1, np.append(of_value, -1)[self.codes])


def _of(name: str, array: pa.ChunkedArray) -> ClearColumn:
    array = _times(array)
    kind = array.type
    if pa.types.is_duration(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _factorized(name, _series(array.cast(pa.int64())), 10**9 if kind.unit == "ns" else 10**6)
    elif pa.types.is_decimal(kind):
        array = array.cast(pa.string())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _factorized(name, pd.Series([None if v is None else v.hex() for v in array.to_pylist()], dtype=object))
    elif pa.types.is_nested(kind) or pa.types.is_interval(kind):
        shown = pd.Series([None if v is None else repr(v) for v in array.to_pylist()], dtype=object)
        return replace(_factorized(name, shown), values=None)
    return _factorized(name, _series(array))


def _written(value: Any) -> str:
    """The digits of a number and its decimal point, without sign and exponent."""
    text = f"{value:.15g}" if isinstance(value, np.floating) else str(value)
    if "e" in text.lower():
        text = np.format_float_positional(float(text), trim="-")
    return text if text.isascii() and text.isdecimal() else re.sub("[^0-9.]", "", text)


def _factorized(name: str, values: Any, ticks: int = 0) -> ClearColumn:
    codes, distinct = pd.factorize(values, use_na_sentinel=True)
    held = np.asarray(distinct.to_numpy() if isinstance(distinct, pd.api.extensions.ExtensionArray) else distinct)
    made = ClearColumn(name, np.asarray(codes, dtype=np.int64), held, ticks)
    present = made.n - int(made.missing.sum())
    unique = present >= 20 and made.distinct >= UNIQUE * present
    return replace(made, near_unique=unique, assigned=unique and made.distinct == present and _dense(made))


def _dense(column: ClearColumn) -> bool:
    """Whole numbers spread so densely that of as many measurements some would be equal."""
    if column.whole is None or column.numbers is None:
        return False
    ordered = np.sort(column.numbers)
    parts = [p for p in np.array_split(ordered, min(20, max(1, ordered.size // 10))) if p.size > 1]
    return bool(sum(p.size * (p.size - 1) / 2 / max(p[-1] - p[0], 1.0) for p in parts) >= CERTAIN)


def _times(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times in micro- or nanoseconds, also those that a CSV file holds as text; other columns as they are."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        some = next((v for v in array[:100].to_pylist() if v is not None), "")
        if not re.match(r"\d{4}-\d\d-\d\d", some):
            return array
        for unit in ("us", "ns"):
            with suppress(pa.ArrowInvalid):
                return array.cast(pa.timestamp(unit))
        return array
    if not (pa.types.is_time(kind) or pa.types.is_timestamp(kind)):
        return array.cast(pa.timestamp("us")) if pa.types.is_date(kind) else array
    if kind.unit == "ns":
        return array
    return array.cast(pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us", kind.tz), safe=False)


def _series(array: pa.ChunkedArray) -> pd.Series:
    """Whole numbers stay whole beside missing ones; NaN is missing."""
    if pa.types.is_integer(array.type) and array.null_count:
        kind = pd.UInt64Dtype() if pa.types.is_unsigned_integer(array.type) else pd.Int64Dtype()
        return pd.Series(pc.fill_null(array, 0).to_numpy()).astype(kind).mask(array.is_null().to_numpy())
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return pd.Series(array.to_numpy(), dtype=object)
    return pd.Series(array.to_numpy())

"""How values are written, where one value can be written in several ways.

In a CSV file: with quotation marks or without, with a plus sign, leading zeros or an exponent, with which decimals, in which form a
date, and with which mark where the value is missing. In any file: odd blanks and composed letters of a text, null or NaN, and the
sign of zero. What a column writes in one way throughout (all amounts with two decimals, all codes with five digits) is no spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pramana.arrays import Bool, Int
from pramana.frames.files import NULLS

_STRANGE = r"\t\n\v\f\r\x{85}\x{a0}\x{1680}\x{2000}-\x{200f}\x{2028}-\x{202f}\x{205f}-\x{2064}\x{3000}\x{feff}"
_ODD = (f"^[ {_STRANGE}]", f"[ {_STRANGE}]$", f"  |[{_STRANGE}]")
_NUMBER = r"^\s*(?P<sign>[+-]?)(?P<whole>[0-9]*)(?P<decimals>(?:\.[0-9]*)?)(?:(?P<e>[eE])[+-]?[0-9]+)?\s*$"
_DATE = r"^\d{4}-\d\d?-\d\d?"
_WIDTH, _DECIMALS, _TAIL = "width", "decimals", "tail"
Aspects = dict[str, Int]
"""Codes (n,) by aspect of the spelling, and -1 where it does not apply."""


def in_memory(array: pa.ChunkedArray) -> Aspects:
    """The spelling of a column that is not text of a CSV file."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return whole([aspects_of(array)])
    if not pa.types.is_floating(kind):
        return {}
    values, null = array.to_numpy(), array.is_null().to_numpy()
    zero = np.where(values == 0, np.signbit(values).astype(np.int64), -1)
    return {"null or NaN": np.where(null, 0, np.where(np.isnan(values), 1, -1)), "the sign of zero": zero}


def aspects_of(fields: pa.ChunkedArray | pa.Array, delimiter: str = "", quote: str = "", decimal: str = ".") -> Aspects:
    """The spelling of some fields: raw ones of a CSV file with these marks, or text."""
    fields = fields.cast(pa.large_string())
    missing = _codes(pc.index_in(fields, pa.array(NULLS, pa.large_string())))
    text, quoted = _unquoted(fields, delimiter, quote) if quote else (fields, np.full(len(fields), -1))
    out = {"the quotation marks": quoted, "the mark of missing values": missing if quote else quoted}
    before, after, inside = (_flags(pc.match_substring_regex(text, odd)) for odd in _ODD)
    out["odd blanks"] = before + 2 * after + 4 * inside
    out["the composed letters"] = _flags(pc.not_equal(pc.utf8_normalize(text, "NFC"), text))
    form = 4 * _codes(pc.utf8_length(text)) + 2 * _flags(pc.match_substring(text, "T"))
    form += _flags(pc.ends_with(text, "Z"))
    out["the form of the date"] = np.where(_flags(pc.match_substring_regex(text, _DATE)) == 1, form, -1)
    return out | _number(text if decimal == "." else pc.replace_substring(text, decimal, "."), missing < 0)


def _unquoted(fields: pa.Array, delimiter: str, quote: str) -> tuple[pa.Array, Int]:
    """Fields without their quotation marks, and whether they had some; -1 where they needed them."""
    marked = pc.starts_with(fields, quote)
    text = pc.if_else(marked, pc.utf8_slice_codeunits(fields, 1, -1), fields)
    needed = [_flags(pc.match_substring(text, mark)) == 1 for mark in (delimiter, quote, "\n", "\r")]
    return text, np.where(np.logical_or.reduce(needed), -1, _flags(marked))


def _number(text: pa.Array, there: Bool) -> Aspects:
    found = pc.extract_regex(text, _NUMBER)
    sign, first, decimals, e = (pc.struct_field(found, [k]) for k in range(4))
    width, behind = _codes(pc.utf8_length(first)), _codes(pc.utf8_length(decimals)) - 1
    number = there & (width + np.maximum(behind, 0) > 0)
    zero = _flags(pc.match_substring_regex(text, r"^[+-]?0*\.?0*$")) == 1
    minus, plus = _flags(pc.equal(sign, "-")), _flags(pc.equal(sign, "+"))
    aspects = {
        "the sign of zero": np.where(zero, minus, -1),
        "the plus sign": np.where(minus == 1, -1, plus),
        "the exponent": 1 + _codes(pc.index_in(e, pa.array(["e", "E"], pa.large_string()))),
        "leading zeros": np.where(width == 0, 2, _flags(pc.match_substring_regex(first, "^0[0-9]"))),
        _WIDTH: width,
        _DECIMALS: behind,
        _TAIL: _codes(pc.utf8_length(decimals)) - _codes(pc.utf8_length(pc.utf8_rtrim(decimals, "0"))),
    }
    return {aspect: np.where(number, codes, -2 if aspect == _DECIMALS else -1) for aspect, codes in aspects.items()}


def whole(parts: Iterable[Mapping[str, Int]]) -> Aspects:
    """The spelling of a column, from that of its parts. Leading zeros and decimals count only where the column has no one format."""
    held = list(parts)
    if not held:
        return {}
    out = {aspect: np.concatenate([part[aspect] for part in held]) for aspect in held[0]}
    width, decimals, tail = (out.pop(aspect) for aspect in (_WIDTH, _DECIMALS, _TAIL))
    number = decimals > -2
    if np.unique(width[number]).size <= 1:
        del out["leading zeros"]
    if not _one_format(decimals[number & (out["the exponent"] == 0)], tail[number & (out["the exponent"] == 0)]):
        out["the decimals"] = np.where(number, 10 * np.minimum(decimals + 1, 10) + np.minimum(tail, 9), -1)
    return {aspect: codes for aspect, codes in out.items() if varies(codes)}


def varies(codes: Int) -> bool:
    """Whether an aspect has two codes where it applies."""
    here = codes[codes >= 0]
    return here.size > 0 and bool(np.ptp(here) > 0)


def _one_format(decimals: Int, tail: Int) -> bool:
    """Equally many decimals, or no more than needed, or these but for whole numbers as 34.0."""
    shortest = np.all(tail == 0) and not np.any(decimals == 0)
    pointed = np.all((decimals >= 1) & ((tail == 0) | ((tail == 1) & (decimals == 1))))
    return bool(np.unique(decimals).size <= 1 or shortest or pointed)


def _codes(array: pa.Array) -> Int:
    """Whole numbers, and -1 for null."""
    return np.asarray(pc.fill_null(array.cast(pa.int64()), -1).to_numpy(), dtype=np.int64)


def _flags(array: pa.Array) -> Int:
    """1 where true, and 0 also for null."""
    return np.asarray(pc.fill_null(array, False).cast(pa.int64()).to_numpy(), dtype=np.int64)

"""The draws of `drawing`, compiled with numba: serial, without the GIL, cached on disk. Imported only by `drawing`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_LAST = np.uint64(2**64 - 2)
_SCANNED = 32


@njit(inline="always", nogil=True, cache=True)
def _position(cuts: Any, word: Any) -> Any:
    """How many cut points lie at or below the word: counted without a branch when few, else by halving."""
    if cuts.size < _SCANNED:
        count = 0
        for k in range(cuts.size):
            count += cuts[k] <= word
        return count
    low, high = 0, cuts.size
    while low < high:
        middle = (low + high) >> 1
        if cuts[middle] <= word:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def dense(codes: Any, words: Any, cuts: Any, out: Any) -> None:
    """Released codes; `cuts` (K, K − 1) holds the cut points of each true level."""
    for i in range(codes.size):
        out[i] = _position(cuts[codes[i]], min(words[i], _LAST))


@njit(nogil=True, cache=True)
def mixture(codes: Any, words: Any, others: Any, keep: Any, cuts: Any, out: Any) -> None:
    """Released codes; the truth where the first word lies below `keep`, else the level of the second word."""
    if cuts.size < _SCANNED:
        for i in range(codes.size):
            drawn = _position(cuts, min(others[i], _LAST))
            out[i] = codes[i] if min(words[i], _LAST) < keep else drawn
    else:
        for i in range(codes.size):
            out[i] = codes[i] if min(words[i], _LAST) < keep else _position(cuts, min(others[i], _LAST))

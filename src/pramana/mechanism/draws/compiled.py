"""The draws of `drawing`, compiled with numba: serial, without the GIL, cached on disk. Imported only by `drawing`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

_LAST = np.uint64(2**64 - 2)
_SCANNED = 32
_UNROLLED = 12


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


def dense(codes: Any, words: Any, cuts: Any, out: Any) -> None:
    """Released codes; `cuts` (K, K − 1) holds the cut points of each true level."""
    size = cuts.shape[1]
    kernel = _unrolled(size) if size <= _UNROLLED else _dense
    kernel(codes, words, cuts, out)


@njit(nogil=True, cache=True)
def _dense(codes: Any, words: Any, cuts: Any, out: Any) -> None:
    for i in range(codes.size):
        out[i] = _position(cuts[codes[i]], min(words[i], _LAST))


@cache
def _unrolled(size: int) -> Callable[..., None]:
    """`_dense` for a number of cut points that the compiler knows, so that it has no inner loop."""

    @njit(nogil=True, cache=True, boundscheck=False)
    def kernel(codes: Any, words: Any, cuts: Any, out: Any) -> None:
        flat = cuts.ravel()
        for i in range(codes.size):
            word = min(words[i], _LAST)
            first = codes[i] * size
            count = 0
            for k in range(size):
                count += flat[first + k] <= word
            out[i] = count

    return kernel


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

"""Released codes from true codes and 64-bit words: compiled where numba is installed, NumPy otherwise, the same codes.

A word w stands for the uniform number w / 2⁶⁴. Cut points are 64-bit integers, a deterministic function of the published
doubles, and level i is drawn when exactly i of them lie at or below the word.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from pramana.arrays import Float, Int, Words
from pramana.mechanism.draws.keystream import Keystream

WORTHWHILE = 50_000
"""Cells from which loading the compiled draws pays."""

_LAST = np.uint64(2**64 - 2)


def thresholds(matrix: Float) -> list[Words]:
    """64-bit cut points (K − 1) a column, a deterministic function of the doubles; zeros are never drawn."""
    cuts = []
    for column in matrix.T:
        last = int(np.flatnonzero(column > 0)[-1])
        sums = [min(int(s * 2.0**64), 2**64 - 1) for s in np.cumsum(column[:-1])]
        cuts.append(np.array([s if i < last else 2**64 - 1 for i, s in enumerate(sums)], dtype=np.uint64))
    return cuts


def pick(cuts: Words, words: Words) -> Int:
    """The level whose interval holds each word; the last word is taken for its neighbour, so a cut there is never passed."""
    return np.searchsorted(cuts, np.minimum(words, _LAST), side="right").astype(np.int64)


def draw_dense(codes: Int, cuts: Words, stream: Keystream) -> Int:
    """One word a cell; `cuts` is (K, K − 1), a row for each true level."""
    kernel = _kernels(codes.size)
    dense = dense_numpy if kernel is None else kernel.dense
    out = np.empty_like(codes)
    for rows, (words,) in stream.blocks(codes.size, 1):
        dense(codes[rows], words, cuts, out[rows])
    return out


def draw_mixture(codes: Int, keep: np.uint64, cuts: Words, stream: Keystream) -> Int:
    """Two words a cell: the truth where the first lies below `keep`, else the level of the second."""
    kernel = _kernels(codes.size)
    mixture = mixture_numpy if kernel is None else kernel.mixture
    out = np.empty_like(codes)
    for rows, (words, others) in stream.blocks(codes.size, 2):
        mixture(codes[rows], words, others, keep, cuts, out[rows])
    return out


def dense_numpy(codes: Int, words: Words, cuts: Words, out: Int) -> None:
    """The compiled `dense`, in NumPy."""
    for level in range(len(cuts)):
        rows = np.flatnonzero(codes == level)
        out[rows] = pick(cuts[level], words[rows])


def mixture_numpy(codes: Int, words: Words, others: Words, keep: np.uint64, cuts: Words, out: Int) -> None:
    """The compiled `mixture`, in NumPy."""
    out[:] = codes
    rows = np.flatnonzero(np.minimum(words, _LAST) >= keep)
    out[rows] = pick(cuts, others[rows])


def _kernels(cells: int) -> Any | None:
    return _compiled() if cells >= WORTHWHILE else None


@cache
def _compiled() -> Any | None:
    """The compiled draws, or None without numba (extra `fast`)."""
    try:
        from pramana.mechanism.draws import compiled
    except ImportError:
        return None
    return compiled

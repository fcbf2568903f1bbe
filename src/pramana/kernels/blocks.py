"""Sums over records in blocks that stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pramana.arrays import Float, Int

EVERY = slice(None)
SIZE = 4096


def runs(n: int) -> Iterator[slice]:
    """The records 0 … n − 1 in runs."""
    return (slice(low, low + SIZE) for low in range(0, n, SIZE))


def gram(a: Float, weights: Float) -> Float:
    """Σ w a aᵀ for rows a (n, d), without a weighted copy of them."""
    out = np.zeros((a.shape[1], a.shape[1]))
    for rows in runs(len(a)):
        part = a[rows]
        out += (part * weights[rows, None]).T @ part
    return out


def add_by_group(sums: Float, values: Float, codes: Int) -> None:
    """Add rows of values (n, …) to the sums (G, …) of their codes, of which a few rows touch few."""
    order = np.argsort(codes, kind="stable")
    found, first = np.unique(codes[order], return_index=True)
    sums[found] += np.add.reduceat(values[order], first, axis=0)


def by_group(values: Float, codes: Int, groups: int) -> Float:
    """Sums (G, d) of the rows of values (n, d) that share a code."""
    return np.stack([np.bincount(codes, weights=column, minlength=groups) for column in values.T], axis=1)

"""Records in memory with few distinct combinations of values: each combination once, with the number of its records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pramana.arrays import Column, Int
from pramana.engines import Sampling
from pramana.frames import Table
from pramana.frames.cells import CELLS, ROWS, SAVING

HEAD, MANY = 2000, 1000
"""Records at the beginning that show whether a column has many values, and how many that is."""


def collapsed(table: Table, columns: Sequence[str], sampling: Sampling) -> tuple[Table, Sampling]:
    """The records of each combination of the columns, weights and clusters as one, in the order of the values; as they are where
    combinations are many, records few, or records have more to themselves.

    Whether and how they are collapsed depends on the records alone, so that draws are the same from whatever source.
    """
    if (
        sampling.n < ROWS
        or sampling.strata is not None
        or sampling.replicates is not None
        or sampling.sharing is not None
        or sampling.crossed is not None
    ):
        return table, sampling
    keys = [table.column(name) for name in columns]
    keys += [key for key in (sampling.weights, sampling.clusters) if key is not None]
    found = _combinations(keys, min(CELLS, sampling.n / SAVING))
    if found is None:
        return table, sampling
    first, cell = found
    counts = np.bincount(cell, weights=sampling.frequencies, minlength=len(first)).astype(float)
    weights, clusters = (None if v is None else v[first] for v in (sampling.weights, sampling.clusters))
    return table.take(first), Sampling(len(first), weights, counts, clusters)  # type: ignore[arg-type]


def _combinations(keys: Sequence[Column], most: float) -> tuple[Int, Int] | None:
    """A record of each combination, in the order of the values, and the combination of every record (n,); None above `most`."""
    import pandas as pd

    if any(len(pd.unique(key[:HEAD])) > MANY for key in keys):
        return None
    cell = np.zeros(len(keys[0]) if keys else 0, dtype=np.int64)
    for key in keys:
        try:
            code, values = pd.factorize(key, sort=True)
        except TypeError:  # values of several types, which have no order
            return None
        cell, seen = pd.factorize(cell * len(values) + code, sort=True)
        if len(seen) > most:
            return None
    if not len(cell):
        return None
    first = np.full(int(cell.max()) + 1, len(cell))
    np.minimum.at(first, cell, np.arange(len(cell)))
    return first, cell

"""Distinct combinations of values, and how many records have each: of batches one after the other, and of records in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pramana.arrays import Column, Int
from pramana.engines import Sampling
from pramana.frames import Table
from pramana.frames.cells import CELLS, ROWS, SAVING

FEW = 1 << 16
"""Combinations that wait before they are put together with those that are known."""
RECORDS = "records"


def value_counts(columns: Mapping[str, Column]) -> Any:
    """The combinations of some records, in the order in which they appear first, with the number of records of each."""
    import pandas as pd

    return pd.DataFrame(dict(columns)).groupby(list(columns), sort=False, dropna=False).size().reset_index(name=RECORDS)


@dataclass
class Distinct:
    """Combinations of all batches, in the order in which they appear first. They are put together when as many are waiting as
    are known, so that the work grows with the batches and not with their number times what is known."""

    known: Any = None
    waiting: list[Any] = field(default_factory=list)

    def add(self, found: Any) -> None:
        """Those of one more batch; None where it tells none."""
        if found is None:
            return
        self.waiting.append(found)
        if sum(map(len, self.waiting)) > max(FEW, 0 if self.known is None else len(self.known)):
            self.together()

    def together(self) -> Any:
        """All of them; None where no batch told any."""
        import pandas as pd

        if self.waiting:
            whole = pd.concat([*([] if self.known is None else [self.known]), *self.waiting])
            names = [name for name in whole.columns if name != RECORDS]
            self.known = whole.groupby(names, sort=False, dropna=False)[RECORDS].sum().reset_index()
            self.waiting = []
        return self.known


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

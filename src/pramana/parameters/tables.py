"""Cross tables: the share, or the count, of every cell of two or more columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError
from pramana.estimating.cells import Factor, cell_labels, distinct, factors_of, names_of, reverted_cells
from pramana.estimating.equation import Records
from pramana.estimating.moments import QuotientEquation, Remark, SumEquation
from pramana.frames import Schema, Table


@dataclass(frozen=True)
class CrossTable:
    """Plan of `crosstab(row, column, ...)`."""

    columns: tuple[str, ...]
    counts: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        return self.columns

    def prepare(self, table: Table, schema: Schema) -> CrossTableFunction:
        return CrossTableFunction(factors_of(self.columns, table, schema), self.counts)


def crosstab(row: str | Sequence[str], *columns: str, counts: bool = False) -> CrossTable:
    """The joint distribution of columns, any of them perturbed: U = 1{cell = k} − β_k.

    Parameters
    ----------
    counts : the sum of the weights in every cell (the number of records without weights) in place of its share; see
        `counts()` for what the standard errors then mean.

    A cell can come out negative when the noise outweighs the data: the estimate is left as it is, since it is unbiased,
    and reported; `table_em` gives the maximum-likelihood table, which cannot be negative.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"smokes": pr.TransitionMatrix.binary(0.9, 0.8, levels=("no", "yes"))})
    >>> cells = {"smokes": ["no", "no", "yes", "yes"], "ill": ["no", "yes", "no", "yes"], "n": [520, 60, 300, 120]}
    >>> result = pr.fit(pr.crosstab("smokes", "ill"), cells, mechanism, frequencies="n")
    >>> result.parameters
    ('smokes[no]:ill[no]', 'smokes[no]:ill[yes]', 'smokes[yes]:ill[no]', 'smokes[yes]:ill[yes]')
    >>> result.estimate.round(4)
    array([0.6257, 0.06  , 0.1943, 0.12  ])
    """
    names = distinct(*names_of(row, "row"), *columns)
    if not names:
        raise FormulaError("a table needs at least one column: name it, as in crosstab('edu', 'sex')")
    return CrossTable(names, counts)


@dataclass(frozen=True)
class CrossTableFunction:
    """The last column's levels run fastest."""

    factors: tuple[Factor, ...]
    counts: bool = False
    smooth: bool = True
    response: str | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        parts = [[f"{f.name}[{level}]" for level in f.levels] for f in self.factors]
        names = [":".join(cell) for cell in product(*parts)]
        return tuple(f"count({name})" if self.counts else name for name in names)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.factors)

    def response_values(self, values: Any) -> Float:
        raise NotImplementedError("a table keeps the nodes of its columns")

    def equation(self, records: Records) -> QuotientEquation | SumEquation:
        cells = reverted_cells(records, self.factors)
        if self.counts:
            return SumEquation(self, records, cells, cells, self._remarks)

        def products(w: Float) -> tuple[Float, Float, Float]:
            """Cells do not overlap."""
            inside = w @ cells
            return np.diag(inside), np.outer(inside, np.ones_like(inside)), np.full((inside.size,) * 2, w.sum())

        return QuotientEquation(self, records, cells, np.ones_like(cells), products, remarks=self._remarks)

    def _remarks(self, shares: Float) -> list[Remark]:
        return negative_cells(shares, cell_labels(self.factors))


def negative_cells(shares: Float, labels: Sequence[str]) -> list[Remark]:
    """Negative shares are reported, with the remedy, and left as they are."""
    below = [f"{label} ({share:.4g})" for label, share in zip(labels, shares, strict=True) if share < -1e-12]
    if not below:
        return []
    more = f" and {len(below) - 5} more" if len(below) > 5 else ""
    message = (
        f"the reverted share of {', '.join(below[:5])}{more} is negative: noise outweighs the data there. The estimate is "
        "unbiased as it stands; table_em() gives the maximum-likelihood table, which cannot be negative"
    )
    return [("reverted-negative", "warning", message)]

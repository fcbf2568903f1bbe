"""Cross tables: the share, or the count, of every cell of two or more columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError
from pramana.estimating.cells import Factor, cell_labels, distinct, factors_of, names_of, reverted_cells
from pramana.estimating.equation import Note
from pramana.estimating.function import EstimatingFunction, Question
from pramana.estimating.moments import MomentSums, QuotientEquation, SumEquation
from pramana.estimating.records import Records
from pramana.frames import Schema, Table


@dataclass(frozen=True)
class CrossTable(Question):
    """Question of `crosstab(row, column, ...)`."""

    columns: tuple[str, ...]
    counts: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        return self.columns

    @property
    def sums(self) -> bool:
        return self.counts

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
class CrossTableFunction(EstimatingFunction):
    """The last column's levels run fastest."""

    factors: tuple[Factor, ...]
    counts: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        parts = [[f"{f.name}[{level}]" for level in f.levels] for f in self.factors]
        names = [":".join(cell) for cell in product(*parts)]
        return tuple(f"count({name})" if self.counts else name for name in names)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.factors)

    @property
    def grid(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((f.name, tuple(map(str, f.levels))) for f in self.factors)

    def equation(self, records: Records) -> QuotientEquation | SumEquation:
        cells = reverted_cells(records, self.factors)
        judged = partial(negative_cells, labels=cell_labels(self.factors))
        if self.counts:
            return SumEquation(self, records, cells, cells, cells.shape[1], judged)
        return shares_equation(self, records, cells, judged=judged)


def shares_equation(function: EstimatingFunction, records: Records, cells: Float, **options: Any) -> QuotientEquation:
    """Shares of cells that do not overlap, from their reverted indicators (n, K)."""
    member, size = records.membership, cells.shape[1]
    if member is None:
        return QuotientEquation(function, records, cells, None, None, _cells, tables=size, **options)
    below, names = np.repeat(member[:, None], size, axis=1), ("the subset",) * size
    return QuotientEquation(function, records, cells, below, None, _cells_within, names, tables=size, **options)


def _cells(sums: MomentSums) -> tuple[Float, Float, Float]:
    """An indicator is its own square."""
    inside = sums.numerator
    return np.diag(inside), np.outer(inside, np.ones_like(inside)), np.full((inside.size,) * 2, sums.total)


def _cells_within(sums: MomentSums) -> tuple[Float, Float, Float]:
    """The same within a domain, which every cell is in."""
    inside = sums.numerator
    return np.diag(inside), np.outer(inside, np.ones_like(inside)), np.tile(sums.denominator, (inside.size, 1))


def negative_cells(shares: Float, labels: Sequence[str]) -> list[Note]:
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

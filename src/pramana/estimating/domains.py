"""Means, totals, proportions and counts within domains, which may be perturbed themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pramana.arrays import Column, Float
from pramana.estimating.cells import Factor, cell_labels, count_cells, factors_of, reverted_cells
from pramana.estimating.equation import Records, broadcast
from pramana.estimating.generalized_linear import as_numbers
from pramana.estimating.quotients import QuotientEquation, Remark
from pramana.estimating.sums import SumEquation
from pramana.estimating.tables import negative_cells
from pramana.frames import Schema, Table
from pramana.frames.levels import is_number


@dataclass(frozen=True)
class DomainMean:
    """Plan of `mean(column, by)` and `total(column, by)`."""

    column: str
    by: tuple[str, ...]
    kind: Literal["mean", "total"] = "mean"
    size: float | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column, *self.by)

    def prepare(self, table: Table, schema: Schema) -> DomainMeanFunction:
        if self.column not in schema:
            table.column(self.column)
        factors = factors_of(self.by, table, schema)
        return DomainMeanFunction(self.column, factors, self.kind, value_range(schema, self.column), self.size)


def value_range(schema: Schema, column: str) -> tuple[float, float] | None:
    """A mean cannot lie outside its levels."""
    levels = schema[column].levels if column in schema else None
    if levels is None or not all(is_number(v) for v in levels):
        return None
    numbers = np.asarray(levels, dtype=float)
    return float(numbers.min()), float(numbers.max())


@dataclass(frozen=True)
class DomainMeanFunction:
    """U_k = 1{g = k} (y − β_k) for a mean; the sum of 1{g = k} y, or size times its mean, for a total: linear in y."""

    column: str
    by: tuple[Factor, ...]
    kind: Literal["mean", "total"]
    limits: tuple[float, float] | None = None
    size: float | None = None
    smooth: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        name = f"{self.kind}({self.column})"
        return tuple(f"{name}[{label}]" for label in cell_labels(self.by)) if self.by else (name,)

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column, *(f.name for f in self.by))

    @property
    def response(self) -> str | None:
        return self.column

    def response_values(self, values: Any) -> Float:
        return as_numbers(values, self.column)

    def equation(self, records: Records) -> QuotientEquation | SumEquation:
        cells = reverted_cells(records, self.by)
        first, second = self._powers(records, cells)
        if self.kind == "total":
            return total_equation(self, records, first, second, self.size)

        def products(w: Float) -> tuple[Float, Float, Float]:
            """Domains do not overlap."""
            return np.diag(w @ second), np.diag(w @ first), np.diag(w @ cells)

        names = tuple(cell_labels(self.by))
        return QuotientEquation(self, records, first, cells, products, names, self.limits)

    def _powers(self, records: Records, cells: Float) -> tuple[Float, Float]:
        """(1{g = k} y)* and (1{g = k} y²)*, each (n, K)."""
        moments = records.response
        if moments is not None:
            return cells * moments.first[:, None], cells * moments.second[:, None]
        values = [self._numbers(records, k) for k in range(len(records.nodes))]
        return reverted_cells(records, self.by, values), reverted_cells(records, self.by, [v**2 for v in values])

    def _numbers(self, records: Records, node: int) -> Column:
        return as_numbers(broadcast(records.at(node)[self.column], records.n), self.column)


def total_equation(
    function: Any,
    records: Records,
    terms: Float,
    squares: Float,
    size: float | None,
    remarks: Callable[[Float], list[Remark]] | None = None,
) -> QuotientEquation | SumEquation:
    """Σ w a; with a known size, size times the mean of a. The components of a never overlap: a aᵀ is diagonal."""
    if size is None:
        return SumEquation(function, records, terms, squares, remarks)

    def products(w: Float) -> tuple[Float, Float, Float]:
        d = terms.shape[1]
        return np.diag(w @ squares), np.outer(w @ terms, np.ones(d)), np.full((d, d), w.sum())

    return QuotientEquation(function, records, terms, np.ones_like(terms), products, size=size, remarks=remarks)


@dataclass(frozen=True)
class DomainShares:
    """Plan of `proportions(column, by)` (U = 1{g = k} (1{y = j} − β_kj)) and `counts(column, by)`."""

    column: str
    by: tuple[str, ...]
    kind: Literal["proportions", "counts"] = "proportions"
    size: float | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column, *self.by)

    def prepare(self, table: Table, schema: Schema) -> DomainSharesFunction:
        column, *by = factors_of(self.variables, table, schema)
        return DomainSharesFunction(column, tuple(by), self.kind, self.size)


@dataclass(frozen=True)
class DomainSharesFunction:
    """Levels of the column run fastest."""

    column: Factor
    by: tuple[Factor, ...]
    kind: Literal["proportions", "counts"]
    size: float | None = None
    smooth: bool = True
    response: str | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        domains = [f" | {label}" for label in cell_labels(self.by)] if self.by else [""]
        names = [f"{self.column.name}[{level}{domain}]" for domain in domains for level in self.column.levels]
        return tuple(f"count({name})" if self.kind == "counts" else name for name in names)

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column.name, *(f.name for f in self.by))

    def response_values(self, values: Any) -> Float:
        raise NotImplementedError("shares keep the nodes of their column")

    def equation(self, records: Records) -> QuotientEquation | SumEquation:
        cells = reverted_cells(records, (*self.by, self.column))
        if self.kind == "counts":
            labels = cell_labels((*self.by, self.column))
            return total_equation(self, records, cells, cells, self.size, lambda shares: negative_cells(shares, labels))
        size = len(self.column.levels)
        domains = np.repeat(reverted_cells(records, self.by), size, axis=1)
        same = np.kron(np.eye(count_cells(self.by)), np.ones((size, size)))

        def products(w: Float) -> tuple[Float, Float, Float]:
            inside = w @ cells
            return np.diag(inside), inside[:, None] * same, (w @ domains)[:, None] * same

        names = tuple(label for label in cell_labels(self.by) for _ in range(size))
        return QuotientEquation(self, records, cells, domains, products, names, (0.0, 1.0))

"""Means, totals, proportions and counts, of everybody or within domains, which may be perturbed themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from pramana.arrays import Column, Float
from pramana.estimating.cells import (
    Factor,
    cell_labels,
    count_cells,
    distinct,
    factors_of,
    names_of,
    reverted_cells,
)
from pramana.estimating.equation import Note
from pramana.estimating.families import FAMILIES
from pramana.estimating.function import ColumnQuestion, EstimatingFunction, Question
from pramana.estimating.generalized_linear import GeneralizedLinear, NumericResponse, as_numbers
from pramana.estimating.moments import MomentSums, QuotientEquation, SumEquation, checked_size
from pramana.estimating.records import Records, broadcast
from pramana.frames import Schema, Table
from pramana.frames.levels import all_numbers
from pramana.parameters.tables import negative_cells, shares_equation


@dataclass(frozen=True)
class DomainQuestion(ColumnQuestion):
    """A mean or shares of a column, or their sums, within the cells of others."""

    column: str
    by: tuple[str, ...]
    kind: Literal["mean", "total", "proportions", "counts"]
    size: float | None = None

    @property
    def sums(self) -> bool:
        return self.kind in ("total", "counts")


@dataclass(frozen=True)
class DomainMean(DomainQuestion):
    """Question of `mean(column, by)` and `total(column, by)`."""

    kind: Literal["mean", "total"] = "mean"

    def prepare(self, table: Table, schema: Schema) -> DomainMeanFunction:
        if self.column not in schema:
            table.column(self.column)
        factors = factors_of(self.by, table, schema)
        return DomainMeanFunction(self.column, factors, self.kind, value_range(schema, self.column), self.size)


def value_range(schema: Schema, column: str) -> tuple[float, float] | None:
    """A mean cannot lie outside its levels."""
    levels = schema[column].levels if column in schema else None
    if levels is None or not all_numbers(levels):
        return None
    numbers = np.asarray(levels, dtype=float)
    return float(numbers.min()), float(numbers.max())


@dataclass(frozen=True)
class DomainMeanFunction(EstimatingFunction):
    """U_k = 1{g = k} (y − β_k) for a mean; the sum of 1{g = k} y, or size times its mean, for a total: linear in y."""

    column: str
    by: tuple[Factor, ...]
    kind: Literal["mean", "total"]
    limits: tuple[float, float] | None = None
    size: float | None = None

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
        names = tuple(cell_labels(self.by))
        return QuotientEquation(self, records, first, cells, second, _apart, names, self.limits)

    def _powers(self, records: Records, cells: Float) -> tuple[Float, Float]:
        """(1{g = k} y)* and (1{g = k} y²)*, each (n, K)."""
        moments = records.response
        if moments is not None:
            return cells * moments.first[:, None], cells * moments.second[:, None]
        values = [self._numbers(records, k) for k in range(len(records.nodes))]
        return reverted_cells(records, self.by, values), reverted_cells(records, self.by, [v**2 for v in values])

    def _numbers(self, records: Records, node: int) -> Column:
        return as_numbers(broadcast(records.at(node)[self.column], records.n), self.column)


def _apart(sums: MomentSums) -> tuple[Float, Float, Float]:
    """Domains do not overlap."""
    return np.diag(sums.squares), np.diag(sums.numerator), np.diag(sums.denominator)


def total_equation(
    function: EstimatingFunction,
    records: Records,
    terms: Float,
    squares: Float,
    size: float | None,
    tables: int | None = None,
    judged: Callable[[Float], list[Note]] | None = None,
) -> QuotientEquation | SumEquation:
    """Σ w a; with a known size, size times the mean of a. The components of a never overlap: a aᵀ is diagonal."""
    if size is None:
        return SumEquation(function, records, terms, squares, tables, judged)
    return QuotientEquation(
        function, records, terms, None, squares, _of_everyone, size=size, tables=tables, judged=judged
    )


def _of_everyone(sums: MomentSums) -> tuple[Float, Float, Float]:
    """Components that do not overlap, over the constant 1."""
    d = sums.numerator.size
    return np.diag(sums.squares), np.outer(sums.numerator, np.ones(d)), np.full((d, d), sums.total)


@dataclass(frozen=True)
class DomainShares(DomainQuestion):
    """Question of `proportions(column, by)` (U = 1{g = k} (1{y = j} − β_kj)) and `counts(column, by)`."""

    kind: Literal["proportions", "counts"] = "proportions"

    def prepare(self, table: Table, schema: Schema) -> DomainSharesFunction:
        column, *by = factors_of(self.variables, table, schema)
        return DomainSharesFunction(column, tuple(by), self.kind, self.size)


@dataclass(frozen=True)
class DomainSharesFunction(EstimatingFunction):
    """Levels of the column run fastest."""

    column: Factor
    by: tuple[Factor, ...]
    kind: Literal["proportions", "counts"]
    size: float | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        domains = [f" | {label}" for label in cell_labels(self.by)] if self.by else [""]
        names = [f"{self.column.name}[{level}{domain}]" for domain in domains for level in self.column.levels]
        return tuple(f"count({name})" if self.kind == "counts" else name for name in names)

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column.name, *(f.name for f in self.by))

    def equation(self, records: Records) -> QuotientEquation | SumEquation:
        cells = reverted_cells(records, (*self.by, self.column))
        if self.kind == "counts":
            labels, tables = cell_labels((*self.by, self.column)), cells.shape[1]
            judged = partial(negative_cells, labels=labels)
            return total_equation(self, records, cells, cells, self.size, tables, judged)
        size = len(self.column.levels)
        domains = np.repeat(reverted_cells(records, self.by), size, axis=1)
        same = np.kron(np.eye(count_cells(self.by)), np.ones((size, size)))

        def products(sums: MomentSums) -> tuple[Float, Float, Float]:
            inside = sums.numerator
            return np.diag(inside), inside[:, None] * same, sums.denominator[:, None] * same

        names = tuple(label for label in cell_labels(self.by) for _ in range(size))
        return QuotientEquation(self, records, cells, domains, None, products, names, (0.0, 1.0), tables=size)


@dataclass(frozen=True)
class Mean(Question):
    """Question of `mean(column)`."""

    column: str

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column,)

    def prepare(self, table: Table, schema: Schema) -> GeneralizedLinear:
        if self.column not in schema:
            table.column(self.column)
        return GeneralizedLinear(
            plausible=value_range(schema, self.column),
            parameters=(f"mean({self.column})",),
            variables=(self.column,),
            response=self.column,
            family=FAMILIES["gaussian", "identity"],
            design_of=_ones,
            response_of=NumericResponse(self.column),
            response_reads=frozenset({self.column}),
            label=self.column,
            average=True,
        )


def _ones(columns: Mapping[str, object], n: int) -> Float:  # noqa: ARG001
    return np.ones((n, 1))


def mean(column: str, by: str | Sequence[str] | None = None) -> Mean | DomainMean:
    """The mean of a column: U = y − β; in domains, U_k = 1{g = k} (y − β_k).

    Parameters
    ----------
    by : one or several columns, perturbed or not, whose levels are the domains. A domain whose reverted share is not
        positive, or zero up to rounding, is an error; one that is hardly there is a diagnostic.

    >>> mean("income")
    Mean(column='income')
    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "high"], keep=0.8)})
    >>> data = {"edu": ["low"] * 6 + ["high"] * 4, "y": [1, 2, 1, 2, 1, 2, 3, 4, 3, 4]}
    >>> result = pr.fit(mean("y", by="edu"), data, mechanism)
    >>> result.parameters, result.estimate.round(4)
    (('mean(y)[edu=low]', 'mean(y)[edu=high]'), array([1.1, 4.7]))
    """
    domains = distinct(column, *names_of(by, "by"))[1:]
    return DomainMean(column, domains) if domains else Mean(column)


def total(column: str, by: str | Sequence[str] | None = None, *, size: float | None = None) -> DomainMean:
    """The total Σ w y of a column, over all records or in domains.

    Its standard error is that of a sum whose weights were drawn with the records, as in R's `svytotal`: the number of
    sampled units is fixed (records; clusters; units within strata under a design), what they add up to is not. Without
    weights and clusters that is n times the mean with its error: the total of a file of so many records, around what
    such a file holds on average. The error around the confidential file's own total is in `result.privacy`.

    Parameters
    ----------
    by : one or several columns, perturbed or not, whose levels are the domains.
    size : the known size N of the population: the total is then N times the mean Σ w y / Σ w, whose error
        leaves out how the sum of the weights varies from sample to sample.

    >>> import pramana as pr
    >>> data = {"y": [1, 0, 1, 1], "w": [10, 10, 20, 10]}
    >>> result = pr.fit(pr.total("y"), data, None, weights="w")
    >>> result.parameters, float(result.estimate[0]), float(result.standard_errors[0].round(2))
    (('total(y)',), 40.0, 16.33)
    >>> known = pr.fit(pr.total("y", size=60), data, None, weights="w")
    >>> float(known.estimate[0]), float(known.standard_errors[0].round(2))
    (48.0, 12.96)
    """
    return DomainMean(column, distinct(column, *names_of(by, "by"))[1:], "total", checked_size(size))


@dataclass(frozen=True)
class Proportions(Question):
    """Question of `proportions(column)`."""

    column: str

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column,)

    def prepare(self, table: Table, schema: Schema) -> ProportionsFunction:
        return ProportionsFunction(*factors_of(self.variables, table, schema))


def proportions(column: str, by: str | Sequence[str] | None = None) -> Proportions | DomainShares:
    """The share of every level of a column, U_k = 1{y = k} − β_k; in domains, the shares within each.

    >>> proportions("edu")
    Proportions(column='edu')
    >>> import pramana as pr
    >>> data = {"sex": ["f", "f", "f", "f", "m", "m"], "edu": ["low", "high", "high", "high", "low", "high"]}
    >>> result = pr.fit(proportions("edu", by="sex"), data, None)
    >>> dict(zip(result.parameters, result.estimate.tolist()))
    {'edu[high | sex=f]': 0.75, 'edu[low | sex=f]': 0.25, 'edu[high | sex=m]': 0.5, 'edu[low | sex=m]': 0.5}
    """
    domains = distinct(column, *names_of(by, "by"))[1:]
    return DomainShares(column, domains) if domains else Proportions(column)


def counts(column: str, by: str | Sequence[str] | None = None, *, size: float | None = None) -> DomainShares:
    """How many records have each level, or the sum of their weights: the unbiased moment estimator of Gouweleeuw et al.
    (1998).

    A count is the total of an indicator, with the standard errors of `total` (the file is a sample); `size`, the known
    size of the population, turns it into size times the share. `result.privacy` is Gouweleeuw's covariance,
    conditional on the confidential file, and its diagonal the squared error around that file's own counts.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)})
    >>> result = pr.fit(pr.counts("y"), {"y": [0] * 60 + [1] * 40}, mechanism)
    >>> result.parameters, result.estimate.round(2)
    (('count(y[0])', 'count(y[1])'), array([71.43, 28.57]))
    >>> (result.privacy.diagonal() ** 0.5).round(2), result.standard_errors.round(2)
    (array([5.35, 5.35]), array([7.03, 7.03]))
    """
    return DomainShares(column, distinct(column, *names_of(by, "by"))[1:], "counts", checked_size(size))


@dataclass(frozen=True)
class ProportionsFunction(EstimatingFunction):
    """U = indicator(y) − β, linear in the indicator."""

    column: Factor

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(f"{self.column.name}[{level}]" for level in self.column.levels)

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column.name,)

    def equation(self, records: Records) -> QuotientEquation:
        return shares_equation(self, records, reverted_cells(records, (self.column,)), plausible=(0.0, 1.0))

"""Means, totals, proportions and counts by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import DataError
from pramana.estimating.cells import CELL_LIMIT, distinct, factor_of, names_of
from pramana.estimating.domains import DomainMean, DomainShares, value_range
from pramana.estimating.equation import OfFunction, Records
from pramana.estimating.families import FAMILIES
from pramana.estimating.generalized_linear import GeneralizedLinear, numeric_response
from pramana.estimating.sums import checked_size
from pramana.frames import Level, Schema, Table, encode


@dataclass(frozen=True)
class Mean:
    """Plan of `mean(column)`."""

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
            design_of=lambda _columns, n: np.ones((n, 1)),
            response_of=numeric_response(self.column),
            label=self.column,
        )


def mean(column: str, by: str | Sequence[str] | None = None) -> Mean | DomainMean:
    """The mean of a column: U = y − β; in domains, U_k = 1{g = k} (y − β_k).

    Parameters
    ----------
    by : one or several columns, perturbed or not, whose levels are the domains. A domain whose reverted share is not
        positive is an error; one that is hardly there is a diagnostic.

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
    (('total(y)',), 40.0, 14.14)
    >>> known = pr.fit(pr.total("y", size=60), data, None, weights="w")
    >>> float(known.estimate[0]), float(known.standard_errors[0].round(2))
    (48.0, 11.26)
    """
    return DomainMean(column, distinct(column, *names_of(by, "by"))[1:], "total", checked_size(size))


@dataclass(frozen=True)
class Proportions:
    """Plan of `proportions(column)`."""

    column: str

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column,)

    def prepare(self, table: Table, schema: Schema) -> ProportionsFunction:
        levels = factor_of(self.column, table, schema).levels
        if len(levels) > CELL_LIMIT:
            raise DataError(
                f"column {self.column!r} has {len(levels)} levels, above the limit of {CELL_LIMIT} for proportions "
                "(their covariance has that many rows): merge levels"
            )
        return ProportionsFunction(self.column, levels)


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
    (array([5.35, 5.35]), array([7., 7.]))
    """
    return DomainShares(column, distinct(column, *names_of(by, "by"))[1:], "counts", checked_size(size))


@dataclass(frozen=True)
class ProportionsFunction:
    """U = indicator(y) − β, linear in the indicator."""

    column: str
    levels: tuple[Level, ...]
    smooth: bool = True
    response: str | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(f"{self.column}[{level}]" for level in self.levels)

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column,)

    def response_values(self, values: Any) -> Float:
        raise NotImplementedError("proportions keep the nodes of their column")

    def equation(self, records: Records) -> ProportionsEquation:
        return ProportionsEquation(self, records, self._indicators(records))

    def _indicators(self, records: Records) -> Float:
        """Reverted indicators (n, K): the node weights in the order of the levels."""
        out = np.zeros((records.n, len(self.levels)))
        rows = np.arange(records.n)
        for k, weight in enumerate(records.weights.T):
            value = records.nodes[k].get(self.column)
            if value is None:
                codes = encode(records.columns[self.column], self.levels, column=self.column)
                np.add.at(out, (rows, codes), weight)
            else:
                out[:, self.levels.index(value)] += weight
        return out


@dataclass(frozen=True)
class ProportionsEquation(OfFunction):
    """φ_i = q_i − β, with q_i the reverted indicators."""

    function: ProportionsFunction
    records: Records
    indicators: Float
    plausible: tuple[float, float] = (0.0, 1.0)

    @property
    def smooth(self) -> bool:
        return True

    @property
    def start(self) -> Float:
        start: Float = self.indicators.mean(axis=0)
        return start

    def score(self, betas: Float, weights: Float) -> Float:
        score: Float = weights @ self.indicators - weights.sum(axis=1, keepdims=True) * betas
        return score

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        slope = -weights.sum(axis=1)[:, None, None] * np.eye(len(self.parameters))
        return self.score(betas, weights), slope

    def influence(self, beta: Float) -> Float:
        return self.indicators - beta

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        """An indicator is its own square: (UUᵀ)* = diag(q) − qβᵀ − βqᵀ + ββᵀ."""
        q = weights @ self.indicators
        out: Float = np.diag(q) - np.outer(q, beta) - np.outer(beta, q) + weights.sum() * np.outer(beta, beta)
        return out

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:  # noqa: ARG002
        return np.full(self.n, -float(left @ right))

    def under(self, records: Records) -> ProportionsEquation:
        return self.function.equation(records)

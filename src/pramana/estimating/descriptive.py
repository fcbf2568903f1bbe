"""Means and proportions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import DataError
from pramana.estimating.equation import Records
from pramana.estimating.families import FAMILIES
from pramana.estimating.generalized_linear import GeneralizedLinear, numeric_response
from pramana.frames import Level, Schema, Table, encode
from pramana.frames.levels import is_number

PROPORTIONS_LIMIT = 5000


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
            plausible=_range(schema, self.column),
            parameters=(f"mean({self.column})",),
            variables=(self.column,),
            response=self.column,
            family=FAMILIES["gaussian", "identity"],
            design_of=lambda _columns, n: np.ones((n, 1)),
            response_of=numeric_response(self.column),
            label=self.column,
        )


def _range(schema: Schema, column: str) -> tuple[float, float] | None:
    """A mean cannot lie outside its levels."""
    levels = schema[column].levels if column in schema else None
    if levels is None or not all(is_number(v) for v in levels):
        return None
    numbers = np.asarray(levels, dtype=float)
    return float(numbers.min()), float(numbers.max())


def mean(column: str) -> Mean:
    """The mean of a column: U = y − β.

    >>> mean("income")
    Mean(column='income')
    """
    return Mean(column)


@dataclass(frozen=True)
class Proportions:
    """Plan of `proportions(column)`."""

    column: str

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column,)

    def prepare(self, table: Table, schema: Schema) -> ProportionsFunction:
        if self.column in schema:
            levels = schema[self.column].levels
            if levels is None:
                raise DataError(
                    f"column {self.column!r} has no levels: its noise is continuous; use mean({self.column!r})"
                )
        else:
            values = table.column(self.column)
            levels = tuple(sorted(set(values.tolist()), key=lambda v: (str(type(v)), v)))
        if len(levels) > PROPORTIONS_LIMIT:
            raise DataError(
                f"column {self.column!r} has {len(levels)} levels, above the limit of {PROPORTIONS_LIMIT} for proportions "
                "(their covariance has that many rows): merge levels"
            )
        return ProportionsFunction(self.column, tuple(levels))


def proportions(column: str) -> Proportions:
    """The share of every level of a column: U_k = 1{y = k} − β_k.

    >>> proportions("edu")
    Proportions(column='edu')
    """
    return Proportions(column)


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
class ProportionsEquation:
    """φ_i = q_i − β, with q_i the reverted indicators."""

    function: ProportionsFunction
    records: Records
    indicators: Float
    plausible: tuple[float, float] = (0.0, 1.0)

    @property
    def n(self) -> int:
        return self.records.n

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.function.parameters

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

"""An estimating function bound to records: what the solver and the inference see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from pramana.arrays import Column, Columns, Float, Int


@dataclass(frozen=True)
class ResponseMoments:
    """A response summed out beforehand, for functions linear in it: its first and second reverted moments (n,)."""

    first: Float
    second: Float
    released: Float


@dataclass(frozen=True)
class Records:
    """n records, each spread over C nodes (candidate true values) with signed weights.

    Attributes
    ----------
    columns : values that are what they seem, one array (n,) a variable.
    nodes : for each node, the values of the other variables: a level, or an array (n,).
    weights : (n, C), rows sum to 1.
    released : (n,), the node that stands for the released values.
    response : moments of a response that was summed out, or None.
    """

    n: int
    columns: Columns
    nodes: tuple[Mapping[str, object], ...]
    weights: Float
    released: Int
    response: ResponseMoments | None = None

    @classmethod
    def clean(cls, n: int, columns: Columns) -> Records:
        """Records whose values are taken as true."""
        return cls(n, columns, ({},), np.ones((n, 1)), np.zeros(n, dtype=np.int64))

    def at(self, node: int) -> dict[str, object]:
        """All columns with the given node's values filled in; a level stands for a whole column of itself."""
        return {**self.columns, **self.nodes[node]}

    def rows(self, rows: slice) -> Records:
        """Some of the records."""
        size = len(range(*rows.indices(self.n)))
        nodes = tuple({k: _cut(v, rows) for k, v in node.items()} for node in self.nodes)
        columns = {k: v[rows] for k, v in self.columns.items()}
        response = self.response
        if response is not None:
            response = ResponseMoments(response.first[rows], response.second[rows], response.released[rows])
        return Records(size, columns, nodes, self.weights[rows], self.released[rows], response)

    def softened(self, t: float) -> Records:
        """The records with a share t of the noise undone: t = 0 is naive, t = 1 the full reversion."""
        naive = np.zeros_like(self.weights)
        naive[np.arange(self.n), self.released] = 1.0
        response = self.response
        if response is not None:
            first = (1 - t) * response.released + t * response.first
            response = replace(response, first=first, second=(1 - t) * response.released**2 + t * response.second)
        return replace(self, weights=(1 - t) * naive + t * self.weights, response=response)

    def reweighted(self, weights: Float) -> Records:
        """The same nodes under another measure."""
        return replace(self, weights=weights)


def _cut(value: object, rows: slice) -> object:
    return value[rows] if isinstance(value, np.ndarray) else value


def broadcast(value: object, n: int) -> Column:
    """A node's value as a column."""
    if isinstance(value, np.ndarray) and value.shape == (n,):
        return value
    if isinstance(value, str):
        column = np.empty(n, dtype=object)
        column[:] = value
        return column
    return np.full(n, value)


class OfFunction:
    """What an equation says of itself through its `function` and its `records`. To be inherited."""

    function: Any
    records: Any

    @property
    def n(self) -> int:
        return int(self.records.n)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.function.parameters)


class OneByOne:
    """Scores and slopes of several parameter values, one after the other. To be inherited."""

    def influence(self, beta: Float) -> Float:
        raise NotImplementedError

    def _slope(self, beta: Float, weights: Float) -> Float:
        raise NotImplementedError

    def score(self, betas: Float, weights: Float) -> Float:
        return np.stack([w @ self.influence(b) for b, w in zip(betas, weights, strict=True)])

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        slopes = [self._slope(b, w) for b, w in zip(betas, weights, strict=True)]
        return self.score(betas, weights), np.stack(slopes)


class Equation(Protocol):
    """Σ_i w_i φ_i(β) and what inference needs of it. B is the number of resamples solved at once."""

    @property
    def n(self) -> int: ...
    @property
    def parameters(self) -> tuple[str, ...]: ...
    @property
    def smooth(self) -> bool: ...
    @property
    def start(self) -> Float: ...
    @property
    def records(self) -> Any:
        """`Records`, or another measure over nodes that can be softened."""

    def score(self, betas: Float, weights: Float) -> Float:
        """(B, d) for betas (B, d) and row weights (B, n)."""

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        """(B, d) and (B, d, d)."""

    def influence(self, beta: Float) -> Float:
        """φ (n, d)."""

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        """Reverted Σ w U Uᵀ (d, d)."""

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:
        """leftᵀ (∂φ_i/∂β) right (n,)."""

    def under(self, records: Any) -> Equation:
        """The equation for the same nodes under another measure."""


class Concave(Protocol):
    """An equation that is the gradient of a concave objective."""

    def objective(self, betas: Float, weights: Float) -> Float:
        """(B,)."""

    def recedes(self, direction: Float, weights: Float) -> bool:
        """True when the objective never falls along the direction, so that no finite root exists."""

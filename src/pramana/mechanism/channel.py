"""The protocol that every randomisation follows: perturb, revert, document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from pramana.arrays import Column, Columns, Float, Int
from pramana.frames import Kind, Level
from pramana.mechanism.draws.keystream import Keystream

Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Nodes:
    """The reversion of one released column, as a signed measure over true values.

    For every function u, `u*(z*_i) = Σ_k weights[i, k] · u(values[k])`, where a value is a level shared by all
    records or one number a record. Channels on different columns compose by multiplying their measures.

    Attributes
    ----------
    values : one entry a node; a level, or an array (n,).
    weights : (n, nodes), rows sum to 1, entries may be negative.
    released : (n,), the node that stands for the released value itself.
    """

    values: tuple[object, ...]
    weights: Float
    released: Int


@runtime_checkable
class Channel(Protocol):
    """A known randomisation of one column (or of several columns at once)."""

    @property
    def kind(self) -> Kind | None: ...

    @property
    def levels(self) -> tuple[Level, ...] | None:
        """Ordered levels (tuples for a joint channel), or None for a continuous column."""

    @property
    def context(self) -> tuple[str, ...]:
        """Unperturbed columns on which the randomisation depends."""

    @property
    def epsilon(self) -> float: ...

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Column:
        """Codes of the columns' values (or the numbers themselves); unknown values are an error."""

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Column:
        """Draw released codes (or numbers) for true ones."""

    def revert(self, encoded: Column, context: Columns) -> Nodes:
        """The signed measure whose expectation over the channel is a point mass at the truth."""

    def revert_function(self, function: Callable[[Column], Float], encoded: Column, context: Columns) -> Float:
        """Reversion (n, m) of a function from true values (k,) to (k, m)."""

    def document(self) -> Document:
        """What a reader needs to rebuild the channel; JSON types only."""


def revert_through_nodes(nodes: Nodes, function: Callable[[Column], Float]) -> Float:
    """Reversion of a function of the column alone, for channels with no faster way."""
    total: Float | None = None
    for value, weight in zip(nodes.values, nodes.weights.T, strict=True):
        column = value if isinstance(value, np.ndarray) else _singleton(value)
        term = weight[:, None] * function(column)
        total = term if total is None else total + term
    assert total is not None
    return total


def _singleton(value: object) -> Column:
    column = np.empty(1, dtype=object)
    column[0] = value
    return column if isinstance(value, str) else np.asarray([value])

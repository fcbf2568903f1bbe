"""What every randomisation can do (`Channel`), and the signed measure by which it is undone (`Nodes`)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from pramana.arrays import Column, Columns, Float, Int
from pramana.errors import MechanismError
from pramana.frames import Kind, Level
from pramana.kernels.additive import Displacement
from pramana.mechanism.channels.uncertainty import Uncertainty
from pramana.mechanism.draws.keystream import Keystream

Document: TypeAlias = dict[str, Any]
Conditional: TypeAlias = bool | Sequence[str]
CONDITIONS = {"frequencies": "the frequencies", "levels": "the list of levels"}
"""What a matrix can take from the confidential data, and so tell of them whatever epsilon is."""


@dataclass(frozen=True)
class Nodes:
    """The reversion of one released column: every record is spread over candidate true values with signed weights.

    For every function u, `u*(z*_i) = Σ_c table[row_i, c] · u(values[c])`. Records that share their weights share a row of
    the table: a transition matrix has one row a released level, additive noise one row for everybody. Channels on
    different columns compose by multiplying their weights.

    Attributes
    ----------
    values : one entry a node; a level shared by all records, or an array (n,) with a number for each record.
    table : (R, nodes), rows sum to 1, entries may be negative.
    row : (n,), the row of the table that holds for each record.
    released : (R,), the node that stands for the released value itself, by row of the table.

    >>> nodes = Nodes(("no", "yes"), np.array([[1.25, -0.25], [-0.25, 1.25]]), np.array([1, 1, 0]), np.array([0, 1]))
    >>> nodes.weights
    array([[-0.25,  1.25],
           [-0.25,  1.25],
           [ 1.25, -0.25]])
    >>> nodes.softened(0.5).table
    array([[ 1.125, -0.125],
           [-0.125,  1.125]])
    """

    values: tuple[object, ...]
    table: Float
    row: Int
    released: Int

    @staticmethod
    def by_record(values: tuple[object, ...], weights: Float, released: Int) -> Nodes:
        """Weights (n, nodes) of each record's own, where no two records share them."""
        return Nodes(values, weights, np.arange(len(weights)), released)

    @property
    def n(self) -> int:
        return self.row.size

    @property
    def weights(self) -> Float:
        """Weights of every record (n, nodes), written out."""
        return self.table[self.row]

    def block(self, rows: slice) -> Nodes:
        """The same for some of the records; a table that they share is not copied."""
        values = tuple(v[rows] if isinstance(v, np.ndarray) else v for v in self.values)
        row = self.row[rows]
        if len(self.table) < self.n:
            return Nodes(values, self.table, row, self.released)
        return Nodes.by_record(values, self.table[row], self.released[row])

    def softened(self, t: float) -> Nodes:
        """A share t of the noise undone: 0 takes the released values for the truth, 1 is the reversion."""
        naive = np.zeros_like(self.table)
        naive[np.arange(len(naive)), self.released] = 1.0
        return replace(self, table=(1 - t) * naive + t * self.table)

    def reverted(self, function: Callable[[Column], Float]) -> Float:
        """Reversion (n, m) of a function from values (k,) to (k, m)."""
        total: Float | None = None
        for value, weight in zip(self.values, self.table.T, strict=True):
            column = value if isinstance(value, np.ndarray) else _singleton(value)
            term = weight[self.row, None] * function(column)
            total = term if total is None else total + term
        assert total is not None
        return total


def _singleton(value: object) -> Column:
    column = np.empty(1, dtype=object)
    column[0] = value
    return column if isinstance(value, str) else np.asarray([value])


class Channel(ABC):
    """A known randomisation of one column, or of several columns at once."""

    @property
    @abstractmethod
    def kind(self) -> Kind | None:
        """Scale of the column: "nominal", "ordinal", "numeric", or None where it was not stated."""

    @property
    @abstractmethod
    def levels(self) -> tuple[Level, ...] | None:
        """Ordered levels (tuples for a joint channel), or None for a continuous column."""

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """Privacy loss: the largest log ratio of the chances of one released value under two true ones."""

    @property
    def title(self) -> str:
        """What its users call it."""
        return type(self).__name__

    @property
    def rho(self) -> float:
        """Privacy loss as concentrated differential privacy, in which Gaussian noise is finite; of an epsilon, ε tanh(ε/2)."""
        return self.epsilon * math.tanh(self.epsilon / 2)

    @property
    def delta(self) -> float:
        """Probability with which noise of bounded support tells two true values apart, where epsilon is infinite for that reason
        alone; 0 for every other channel."""
        return 0.0

    @property
    def smooth_only(self) -> bool:
        """Whether the functions that can be reverted must be smooth."""
        return False

    @property
    def keeps(self) -> bool:
        """Whether so many numbers with noise are as they were that quantiles can be estimated."""
        return False

    @property
    def lattice(self) -> tuple[float, float] | None:
        """Of such numbers on a grid: its step, and how far from a released value those are that stand for it; None elsewhere."""
        return None

    @property
    def bounded(self) -> bool:
        """Whether numbers with noise are released within bounds, so that every function of them has an average over the noise."""
        return False

    @property
    def context(self) -> tuple[str, ...]:
        """Unperturbed columns on which the randomisation depends."""
        return ()

    @property
    def parts(self) -> Mapping[Level | None, Channel]:
        """The channel of every stratum of the column in `context`; one without strata is its own, under None."""
        return {None: self}

    @property
    def given(self) -> tuple[str, ...]:
        """What of the confidential data epsilon is conditional on: some of `CONDITIONS`, or nothing."""
        return ()

    @property
    def conditional(self) -> bool:
        """Whether epsilon holds only given something that comes from the confidential data."""
        return bool(self.given)

    @property
    def uncertainty(self) -> Uncertainty | None:
        """How well the channel's probabilities are known where they were measured; None where they were chosen."""
        return None

    @abstractmethod
    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Column:
        """Codes of the columns' values (or the numbers themselves); unknown values are an error."""

    @abstractmethod
    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Column:
        """Draw released codes (or numbers) for true ones."""

    @abstractmethod
    def revert(self, encoded: Column, context: Columns) -> Nodes:
        """The signed measure whose expectation over the channel is a point mass at the truth."""

    def revert_polynomial(self, encoded: Column, context: Columns, degree: int) -> Nodes:  # noqa: ARG002
        """The same for polynomials up to a degree, where that asks for less."""
        return self.revert(encoded, context)

    def revert_bounded(self, encoded: Column, context: Columns) -> Nodes:
        """The same for smooth functions that grow no faster than a square, where that asks for less."""
        return self.revert(encoded, context)

    def revert_lattice(self, encoded: Column, context: Columns) -> Nodes:
        """The same for few released values, however many stand for each, where there is a `lattice`."""
        return self.revert(encoded, context)

    def arranged(self, order: Sequence[int], levels: Sequence[Level], kind: Kind | None) -> Channel:  # noqa: ARG002
        """The same randomisation with its levels in another order (places of the present ones) and under other names."""
        raise MechanismError(
            f"the levels of a {type(self).__name__} keep their names and their order: rename the terms of the result"
        )

    @property
    def dimension(self) -> int:
        """How many columns a channel without levels covers."""
        return 1

    def margin(self, places: Sequence[int]) -> Channel:  # noqa: ARG002
        """The channel of some of the columns that it covers; joint levels stay together."""
        return self

    def noise(self, context: Columns) -> Displacement | None:  # noqa: ARG002
        """What undoes additive noise in exponentials and other functions without nodes; None for every other channel."""
        return None

    def check_released(self, encoded: Column, context: Columns) -> None:
        """Refuse released values that the channel cannot have given, where `encode` does not see it."""
        del encoded, context

    def secrets(self, encoded: Column) -> Int:
        """A whole number for each true value (n,), by which keyed draws tell true values apart: a code, unless a channel has none."""
        return encoded

    def revert_function(self, function: Callable[[Column], Float], encoded: Column, context: Columns) -> Float:
        """Reversion (n, m) of a function from true values (k,) to (k, m)."""
        return self.revert(encoded, context).reverted(function)

    def likelihood(self, encoded: Column, context: Columns) -> Float:  # noqa: ARG002
        """Pr(released | true) for every true level, as rows (n, K)."""
        raise MechanismError(
            f"{type(self).__name__} gives no probability of a released value for each true level, which this method "
            "needs: use method='reversion'"
        )

    @abstractmethod
    def document(self) -> Document:
        """What a reader needs to rebuild the channel; JSON types only."""

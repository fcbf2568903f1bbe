"""Transition matrices with more released labels than levels: `P[i, j] = Pr(released = labels[i] | true = levels[j])`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pramana.arrays import Column, Columns, Float, Int, Words
from pramana.errors import MechanismError, listing, quoted
from pramana.frames import Kind, Level, checked_levels, decode, encode
from pramana.mechanism.channel import Document, Nodes
from pramana.mechanism.channels.checks import (
    Frequencies,
    check_entries,
    checked_frequencies,
    numbers_of,
    refuse_sums,
    stochastic,
)
from pramana.mechanism.channels.matrix_forms import Dense
from pramana.mechanism.channels.reports import ReportChannel, measure
from pramana.mechanism.channels.transition import CONDITION_LIMIT, checked_kind
from pramana.mechanism.draws.drawing import draw_dense, thresholds
from pramana.mechanism.draws.keystream import Keystream


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RectangularMatrix(ReportChannel):
    """`P[i, j] = Pr(released = labels[i] | true = levels[j])` with at least as many released labels as levels; columns sum to 1.

    Reverted by `Q = (PᵀD⁻¹P)⁻¹PᵀD⁻¹`, D = diag(Pπ): of all matrices with QP = I it has the smallest variance where the levels have
    the frequencies π, and its columns sum to 1 (because PᵀD⁻¹Pπ = 1). It is right whatever the frequencies are.

    Parameters
    ----------
    levels : the true values, in order.
    matrix : (labels, levels), in the paper's orientation. See `from_rows` for the other one.
    released : the labels that can be released, in the order of the matrix; some may be levels.
    frequencies : π, one a level; equal ones by default. They are published with the matrix: take public ones, or estimates from the
        released file.
    kind : of the levels, as in `TransitionMatrix`.

    >>> P = RectangularMatrix(["no", "yes"], [[0.7, 0.1], [0.1, 0.6], [0.2, 0.3]], released=["no", "yes", "not said"])
    >>> P.inverse.round(3)
    array([[ 1.407, -0.364,  0.258],
           [-0.407,  1.364,  0.742]])
    >>> (P.inverse @ P.matrix).round(12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """

    matrix: Float
    released: tuple[Level, ...]
    frequencies: Float
    levels: tuple[Level, ...] = ()
    kind: Kind | None = None
    reported: tuple[str, ...] = ()

    def __init__(
        self,
        levels: Sequence[Level],
        matrix: npt.ArrayLike,
        *,
        released: Sequence[Level],
        frequencies: Frequencies | None = None,
        kind: Kind | None = None,
    ) -> None:
        levels, labels = checked_levels(levels), checked_levels(released)
        dense = _checked(numbers_of(matrix), levels, labels)
        equal = np.full(len(levels), 1 / len(levels))
        found = {
            "levels": levels,
            "released": labels,
            "matrix": dense,
            "kind": checked_kind(kind, levels),
            "frequencies": equal if frequencies is None else checked_frequencies(frequencies, levels),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_rows(
        cls,
        levels: Sequence[Level],
        matrix: npt.ArrayLike,
        *,
        released: Sequence[Level],
        frequencies: Frequencies | None = None,
        kind: Kind | None = None,
    ) -> RectangularMatrix:
        """From `matrix[j, i] = Pr(labels[i] | levels[j])`: rows sum to 1."""
        return cls(levels, numbers_of(matrix).T, released=released, frequencies=frequencies, kind=kind)

    def optimal_for(self, frequencies: Frequencies) -> RectangularMatrix:
        """The same channel, reverted with the smallest variance where the levels have these frequencies."""
        return RectangularMatrix(
            self.levels, self.matrix, released=self.released, frequencies=frequencies, kind=self.kind
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RectangularMatrix) and self.document() == other.document()

    def __hash__(self) -> int:
        return hash((self.levels, self.released))

    def __repr__(self) -> str:
        return (
            f"RectangularMatrix({len(self.levels)} levels: {listing(self.levels, 4)}; {len(self.released)} released labels: "
            f"{listing(self.released, 4)}; {self.kind or 'kind not stated'}; epsilon {self.epsilon:.3g})"
        )

    @property
    def epsilon(self) -> float:
        """Largest log ratio of two entries in one row of P; infinite with a zero beside a non-zero."""
        return Dense(self.matrix).epsilon

    @cached_property
    def inverse(self) -> Float:
        """Q (levels, labels), with QP = I and columns that sum to 1."""
        scaled = self.matrix / (self.matrix @ self.frequencies)[:, None]
        return np.asarray(np.linalg.solve(scaled.T @ self.matrix, scaled.T))

    @property
    def reach(self) -> Float:
        return np.asarray(np.ptp(self.inverse, axis=1))

    @cached_property
    def cuts(self) -> Words:
        """Cut points (levels, labels − 1) of the draws."""
        return np.array(thresholds(self.matrix), dtype=np.uint64)

    def read(self, columns: Sequence[Column], names: Sequence[str]) -> Int:
        return encode(columns[0], self.released, column=names[0])

    def written(self, drawn: Column) -> list[Column]:
        return [decode(drawn, self.released)]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(label for label in self.released if isinstance(label, str))

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Int:  # noqa: ARG002
        return draw_dense(encoded, self.cuts, stream)

    def revert(self, encoded: Column, context: Columns) -> Nodes:  # noqa: ARG002
        return measure(self.levels, np.ascontiguousarray(self.inverse.T), encoded)

    def likelihood(self, encoded: Column, context: Columns) -> Float:  # noqa: ARG002
        return self.matrix[encoded]

    def document(self) -> Document:
        equal = np.all(self.frequencies == 1 / len(self.levels))
        return {
            "channel": "rectangular_matrix",
            "kind": self.kind,
            "levels": list(self.levels),
            "released": list(self.released),
            "orientation": "columns",
            "matrix": self.matrix.tolist(),
            **({} if equal else {"frequencies": self.frequencies.tolist()}),
        }


def _checked(dense: Float, levels: tuple[Level, ...], labels: tuple[Level, ...]) -> Float:
    """Conditional distributions of the labels, from which every frequency of the levels can be told."""
    if dense.shape != (len(labels), len(levels)):
        turned = " (it would fit the other way round: use RectangularMatrix.from_rows)"
        raise MechanismError(
            f"the transition matrix has shape {dense.shape} but there are {len(labels)} released labels and {len(levels)} levels: give "
            f"{len(labels)} × {len(levels)}{turned if dense.shape == (len(levels), len(labels)) else ''}"
        )
    check_entries(dense)
    refuse_sums(dense.sum(axis=0), "column", "from_rows" if stochastic(dense, 1) else None)
    never = np.flatnonzero(dense.max(axis=1) == 0)
    if never.size:
        raise MechanismError(
            f"the label {quoted(repr(labels[never[0]]))} is never released (its row of the matrix is 0): leave it out"
        )
    values = np.linalg.svd(dense, compute_uv=False)
    if len(labels) < len(levels) or values[-1] * CONDITION_LIMIT < values[0]:
        smallest = 0.0 if len(labels) < len(levels) else values[-1]
        raise MechanismError(
            f"the transition matrix of {len(levels)} levels and {len(labels)} released labels has not full column rank (smallest singular "
            f"value {smallest:.1e}, the limit is {values[0] / CONDITION_LIMIT:.1e}), so that nothing undoes it: merge levels whose columns are "
            "alike, or release more labels"
        )
    return dense

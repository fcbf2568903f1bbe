"""The two forms in which a transition matrix is held: any P as an array, or a mixture whose arithmetic costs O(K).

Orientation throughout: `P[i, j] = Pr(released = i | true = j)`, columns sum to 1, and `Q = P⁻¹`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from pramana.arrays import Float, Int, Words
from pramana.mechanism.draws.drawing import draw_dense, draw_mixture, thresholds
from pramana.mechanism.draws.keystream import Keystream

_FEW = 32


class Form(Protocol):
    """How a transition matrix is held, and what the rest of the package computes with it."""

    @property
    def size(self) -> int:
        """Number of levels K."""

    @property
    def matrix(self) -> Float:
        """P (K, K)."""

    @property
    def inverse(self) -> Float:
        """Q = P⁻¹ (K, K)."""

    @property
    def diagonal(self) -> Float:
        """Probability that each level is released as it is (K,)."""

    @property
    def epsilon(self) -> float:
        """Largest log ratio of two entries in one row of P; infinite with a zero beside a non-zero."""

    @property
    def condition_number(self) -> float:
        """Ratio of the extreme singular values of P."""

    def entries(self, released: Int, true: Int) -> Float:
        """Single entries of P (n,)."""

    def gathered(self, group: Int, groups: int) -> Float:
        """P with its rows added by group (groups, K): the chance of being released as any level of a group."""

    def revert_table(self, table: Float) -> Float:
        """`Qᵀ table` (K, m): row i is the reversion, at released level i, of the function tabulated by true level."""

    def revert_rows(self, codes: Int) -> Float:
        """Columns of Q for the released codes, as rows (n, K)."""

    def draw(self, codes: Int, stream: Keystream) -> Int:
        """Released codes for true ones."""


@dataclass(frozen=True)
class Dense:
    """Any transition matrix, held as a K×K array."""

    matrix: Float

    @property
    def size(self) -> int:
        return len(self.matrix)

    @property
    def diagonal(self) -> Float:
        return self.matrix.diagonal().copy()

    @cached_property
    def inverse(self) -> Float:
        from scipy.linalg import lu_factor, lu_solve

        return np.ascontiguousarray(lu_solve(lu_factor(self.matrix), np.eye(self.size)))

    @property
    def condition_number(self) -> float:
        return float(np.linalg.cond(self.matrix))

    @property
    def epsilon(self) -> float:
        smallest, largest = self.matrix.min(axis=1), self.matrix.max(axis=1)
        if np.any((smallest == 0) & (largest > 0)):
            return float("inf")
        possible = largest > 0
        return float(np.max(np.log(largest[possible] / smallest[possible])))

    def entries(self, released: Int, true: Int) -> Float:
        return self.matrix[released, true]

    def gathered(self, group: Int, groups: int) -> Float:
        total = np.zeros((groups, self.size))
        np.add.at(total, group, self.matrix)
        return total

    def revert_table(self, table: Float) -> Float:
        return self.inverse.T @ table

    def revert_rows(self, codes: Int) -> Float:
        return self.inverse.T[codes]

    @cached_property
    def cuts(self) -> Words:
        """Cut points (K, K − 1) of the draws, a row for each true level."""
        return np.array(thresholds(self.matrix), dtype=np.uint64).reshape(self.size, self.size - 1)

    def draw(self, codes: Int, stream: Keystream) -> Int:
        return draw_dense(codes, self.cuts, stream)


@dataclass(frozen=True)
class Mixture:
    """`P = (1 − λ) I + λ π 1ᵀ`: keep the truth with probability 1 − λ, else draw a level from π.

    Its inverse `(I − λ π 1ᵀ) / (1 − λ)` costs O(K); with π uniform this is K-ary randomised response.
    """

    refill: float
    frequencies: Float

    @property
    def size(self) -> int:
        return self.frequencies.size

    @property
    def matrix(self) -> Float:
        return (1 - self.refill) * np.eye(self.size) + self.refill * self.frequencies[:, None]

    @property
    def inverse(self) -> Float:
        return (np.eye(self.size) - self.refill * self.frequencies[:, None]) / (1 - self.refill)

    @property
    def diagonal(self) -> Float:
        return 1 - self.refill * (1 - self.frequencies)

    @property
    def condition_number(self) -> float:
        """Singular values are 1 − λ off the span of (1, π), and those of a 2×2 matrix on it."""
        if self.size == 1:
            return 1.0
        basis, _ = np.linalg.qr(np.column_stack([np.ones(self.size), self.frequencies + self._nudge()]))
        inner = (1 - self.refill) * np.eye(2) + self.refill * np.outer(basis.T @ self.frequencies, basis.sum(axis=0))
        values = np.append(np.linalg.svd(inner, compute_uv=False), abs(1 - self.refill))
        return float(values.max() / values.min()) if values.min() > 0 else float("inf")

    def _nudge(self) -> Float:
        """A second direction when π is uniform, so that the basis has rank two; it changes no singular value."""
        unit = np.zeros(self.size)
        unit[0] = 1.0 if np.ptp(self.frequencies) < 1e-12 else 0.0
        return unit

    @property
    def epsilon(self) -> float:
        smallest = float(self.refill * self.frequencies.min())
        if self.refill == 0 or smallest == 0:
            return float("inf")
        return float(np.log1p((1 - self.refill) / smallest))

    def entries(self, released: Int, true: Int) -> Float:
        return (1 - self.refill) * (released == true) + self.refill * self.frequencies[released]

    def gathered(self, group: Int, groups: int) -> Float:
        kept = (1 - self.refill) * (group == np.arange(groups)[:, None])
        return np.asarray(kept + self.refill * np.bincount(group, self.frequencies, groups)[:, None])

    def revert_table(self, table: Float) -> Float:
        shift: Float = self.refill * (self.frequencies @ table)
        return (table - shift) / (1 - self.refill)

    def revert_rows(self, codes: Int) -> Float:
        rows = np.tile(-self.refill * self.frequencies / (1 - self.refill), (codes.size, 1))
        rows[np.arange(codes.size), codes] += 1 / (1 - self.refill)
        return rows

    @cached_property
    def cuts(self) -> tuple[np.uint64, Words]:
        """The word from which the truth is replaced, and the cut points (K − 1) of the level drawn then."""
        keep = thresholds(np.array([[1 - self.refill], [self.refill]]))[0][0]
        return keep, thresholds(self.frequencies[:, None])[0]

    @cached_property
    def dense_cuts(self) -> Words:
        """Cut points (K, K − 1) of the same law from one word."""
        return np.array(thresholds(self.matrix), dtype=np.uint64).reshape(self.size, self.size - 1)

    def draw(self, codes: Int, stream: Keystream) -> Int:
        """Two words a cell; with few levels one is enough, which matters where nobody will repeat the draws."""
        if not stream.repeatable and self.size <= _FEW:
            return draw_dense(codes, self.dense_cuts, stream)
        return draw_mixture(codes, *self.cuts, stream)

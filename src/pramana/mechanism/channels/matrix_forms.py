"""The forms in which a transition matrix is held: any P as an array, or a mixture or a band, whose arithmetic costs O(K).

Orientation throughout: `P[i, j] = Pr(released = i | true = j)`, columns sum to 1, and `Q = P⁻¹`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pramana.arrays import Float, Int, Words
from pramana.mechanism.draws.drawing import draw_dense, draw_mixture, thresholds
from pramana.mechanism.draws.keystream import Keystream

_FEW = 32
WHOLE = slice(None)


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
    def largest(self) -> Float:
        """Probability of the likeliest released level, by true level (K,)."""

    @property
    def epsilon(self) -> float:
        """Largest log ratio of two entries in one row of P; infinite with a zero beside a non-zero."""

    @property
    def condition_number(self) -> float:
        """Ratio of the extreme singular values of P."""

    @property
    def epsilon_within(self) -> float:
        """The same among the true levels that a released level leaves possible: over the non-zero entries of a row."""

    def groups(self) -> Int:
        """The group of every true level (K,): two levels are in one when some released level can come from both."""

    def entries(self, released: Int, true: Int) -> Float:
        """`P[released, true]`, pair by pair."""

    def rows(self, codes: Int, columns: slice = WHOLE) -> Float:
        """Rows of P for the released codes (n, K), or some of their columns."""

    def moved(self, table: Float) -> Float:
        """`P table` (K, m): counts by true level to expected counts by released level."""

    def moved_squares(self, table: Float) -> Float:
        """`(P ∘ P) table` (K, m), for the variance of such counts."""

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

    @property
    def largest(self) -> Float:
        return np.asarray(self.matrix.max(axis=0))

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

    @property
    def epsilon_within(self) -> float:
        return _largest_log_ratio(self.matrix)

    def groups(self) -> Int:
        from scipy.sparse import csr_array

        return _linked(csr_array(self.matrix > 0))

    def entries(self, released: Int, true: Int) -> Float:
        return self.matrix[released, true]

    def rows(self, codes: Int, columns: slice = WHOLE) -> Float:
        return np.take(self.matrix, codes, axis=0) if columns == WHOLE else self.matrix[codes, columns]

    def moved(self, table: Float) -> Float:
        return self.matrix @ table

    def moved_squares(self, table: Float) -> Float:
        return self.matrix**2 @ table

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
    def largest(self) -> Float:
        return np.maximum(self.diagonal, self.refill * self.frequencies.max())

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

    @property
    def epsilon_within(self) -> float:
        possible = self.refill * self.frequencies[self.refill * self.frequencies > 0]
        return float(np.log1p((1 - self.refill) / possible.min())) if possible.size else 0.0

    def groups(self) -> Int:
        """A level that everybody may be released as leaves nobody apart."""
        return np.arange(self.size) * (self.refill == 0)

    def entries(self, released: Int, true: Int) -> Float:
        return self.refill * self.frequencies[released] + (1 - self.refill) * (released == true)

    def rows(self, codes: Int, columns: slice = WHOLE) -> Float:
        rows = np.tile((self.refill * self.frequencies[codes])[:, None], (1, self.size))
        rows[np.arange(codes.size), codes] += 1 - self.refill
        return rows[:, columns]

    def moved(self, table: Float) -> Float:
        drawn = np.multiply.outer(self.refill * self.frequencies, table.sum(axis=0))
        return np.asarray((1 - self.refill) * table + drawn)

    def moved_squares(self, table: Float) -> Float:
        squares = (self.refill * self.frequencies) ** 2
        own = self.diagonal**2 - squares
        shape = (-1,) + (1,) * (table.ndim - 1)
        return np.asarray(own.reshape(shape) * table + np.multiply.outer(squares, table.sum(axis=0)))

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


@dataclass(frozen=True)
class Banded:
    """Moves of at most `width` steps along a scale: `diagonals[width + i − j, j] = P[i, j]`, (2 width + 1, K).

    Every operation costs O(K · width) or the size of what it returns. Entries that would lie outside P are 0.
    """

    diagonals: Float

    @property
    def size(self) -> int:
        return self.diagonals.shape[1]

    @property
    def width(self) -> int:
        return self.diagonals.shape[0] // 2

    @cached_property
    def _sparse(self) -> Any:
        from scipy.sparse import dia_array

        steps = self.width - np.arange(len(self.diagonals))
        sparse = dia_array((self.diagonals, steps), shape=(self.size, self.size)).tocsr()
        sparse.eliminate_zeros()
        return sparse

    @cached_property
    def _factors(self) -> Any:
        from scipy.sparse.linalg import splu

        return splu(self._sparse.tocsc(), permc_spec="NATURAL")

    @property
    def matrix(self) -> Float:
        return np.asarray(self._sparse.toarray())

    @property
    def inverse(self) -> Float:
        return np.asarray(self._factors.solve(np.eye(self.size)))

    @property
    def diagonal(self) -> Float:
        return self.diagonals[self.width].copy()

    @property
    def largest(self) -> Float:
        return np.asarray(self.diagonals.max(axis=0))

    @property
    def epsilon(self) -> float:
        """A level beyond the band is ruled out."""
        return float("inf") if self.width < self.size - 1 else self.epsilon_within

    @property
    def epsilon_within(self) -> float:
        data, first = self._sparse.data, self._sparse.indptr[:-1]
        return float(np.max(np.log(np.maximum.reduceat(data, first) / np.minimum.reduceat(data, first))))

    @cached_property
    def condition_number(self) -> float:
        """To three digits: the largest eigenvalues of PᵀP and of its inverse, by Lanczos' method from fixed starts."""
        try:
            factors = self._factors
        except RuntimeError:  # exactly singular
            return float("inf")
        even = np.ones(self.size)  # close to the largest: rows sum to about 1
        largest = self._eigenvalue(lambda v: self._sparse.T @ (self._sparse @ v), even)
        mixed = np.random.default_rng(1).normal(size=self.size)
        inverse = self._eigenvalue(lambda v: factors.solve(factors.solve(v, trans="T")), mixed)
        return float(np.sqrt(largest * inverse))

    def _eigenvalue(self, product: Callable[[Float], Float], start: Float) -> float:
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator((self.size, self.size), matvec=product, dtype=float)
        return float(eigsh(operator, k=1, which="LA", tol=1e-3, v0=start, return_eigenvectors=False)[0])

    def groups(self) -> Int:
        return _linked(self._sparse)

    def entries(self, released: Int, true: Int) -> Float:
        place = self.width + released - true
        inside = (place >= 0) & (place < len(self.diagonals))
        return np.where(inside, self.diagonals[np.where(inside, place, 0), true], 0.0)

    def rows(self, codes: Int, columns: slice = WHOLE) -> Float:
        return np.asarray(self._sparse[codes][:, columns].toarray())

    def moved(self, table: Float) -> Float:
        return np.asarray(self._sparse @ table)

    def moved_squares(self, table: Float) -> Float:
        return np.asarray(self._sparse.power(2) @ table)

    def gathered(self, group: Int, groups: int) -> Float:
        from scipy.sparse import csr_array

        adding = csr_array((np.ones(self.size), (group, np.arange(self.size))), shape=(groups, self.size))
        return np.asarray((adding @ self._sparse).toarray())

    def revert_table(self, table: Float) -> Float:
        return np.asarray(self._factors.solve(np.asarray(table, dtype=float), trans="T"))

    def revert_rows(self, codes: Int) -> Float:
        units = np.zeros((self.size, codes.size))
        units[codes, np.arange(codes.size)] = 1.0
        return np.ascontiguousarray(self._factors.solve(units).T)

    @cached_property
    def cuts(self) -> Words:
        """Cut points (K, 2 width) of the draws: those of the whole column without the ones where nothing lies between."""
        return np.array(thresholds(self.diagonals), dtype=np.uint64)

    def draw(self, codes: Int, stream: Keystream) -> Int:
        """Word for word what the same matrix held as an array would draw."""
        return codes - self.width + draw_dense(codes, self.cuts, stream)


def _largest_log_ratio(rows: Float) -> float:
    """Over the non-zero entries of each row."""
    smallest = np.where(rows > 0, rows, np.inf).min(axis=1)
    possible = np.isfinite(smallest)
    return float(np.max(np.log(rows.max(axis=1)[possible] / smallest[possible])))


def _linked(possible: Any) -> Int:
    """Groups of the columns (K,) of a sparse matrix: columns with an entry in one row are linked."""
    from scipy.sparse import block_array
    from scipy.sparse.csgraph import connected_components

    both = block_array([[None, possible], [possible.T, None]])
    return np.asarray(connected_components(both, directed=False)[1][possible.shape[0] :], dtype=np.int64)

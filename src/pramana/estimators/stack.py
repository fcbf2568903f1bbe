"""A question's equation with that of a nuisance on which its reversion depends: one stack, and its sandwich.

Records in one cell (released value, group, true level where it is known) have the same weights over the levels k of a perturbed column, which depend
on the nuisance parameters ν: φ = Σ_k T[cell, k](ν) U(k; β), where U(k) takes level k for everybody's truth. The equations of ν depend on the cell
alone. A question may be asked several times with other weights, each time with parameters of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pramana.arrays import Float, Int
from pramana.errors import PramanaError, listing, quoted
from pramana.estimating import Equation
from pramana.estimating.equation import About, FirstStage, Note, paired
from pramana.kernels.blocks import by_group


class StackCells(ABC):
    """What a stack needs to know of a record's cell."""

    @property
    def copies(self) -> tuple[str, ...]:
        """What is added to the names of the parameters, each time that the question is asked."""
        return ("",)

    @property
    def free(self) -> tuple[str, ...]:
        """Nuisance parameters that a result lists; they come first."""
        return ()

    @property
    @abstractmethod
    def hidden(self) -> tuple[str, ...]:
        """The others."""

    @property
    @abstractmethod
    def start(self) -> Float:
        """Values of the nuisance parameters (s,) to start from."""

    @property
    @abstractmethod
    def naive(self) -> Float:
        """Weights (copies, cells, K) that take released values for true ones."""

    @abstractmethod
    def tables(self, nuisance: Float) -> tuple[Float, Float]:
        """Weights of the levels (copies, cells, K), and their derivatives (s, copies, cells, K)."""

    @abstractmethod
    def equations(self, nuisance: Float) -> tuple[Float, Float]:
        """The equations of the nuisance parameters by cell (cells, s), and their slopes (cells, s, s)."""

    def remarks(self, nuisance: Float, errors: Float) -> list[Note]:  # noqa: ARG002
        """What the analyst should know of estimates and their standard errors (s,)."""
        return []


@dataclass(frozen=True)
class StackRecords:
    """So many records, of which a share of the noise is undone."""

    n: int
    combinations: int
    undone: float = 1.0

    def softened(self, t: float) -> StackRecords:
        return replace(self, undone=t)


@dataclass(frozen=True)
class Stack(Equation):
    """The stack of the module's docstring.

    Attributes
    ----------
    inner : the question's equation, reverted where the search starts.
    pinned : the same with the k-th level for everybody's truth, one for each level.
    cell : (n,), of each record.
    alone : no other column of the question is perturbed.
    """

    records: StackRecords
    inner: Equation
    pinned: tuple[Equation, ...]
    cell: Int
    cells: StackCells
    alone: bool

    @classmethod
    def of(cls, inner: Equation, pinned: Sequence[Equation], cell: Int, cells: StackCells, *, alone: bool) -> Stack:
        return cls(StackRecords(inner.n, inner.records.combinations), inner, tuple(pinned), cell, cells, alone)

    @property
    def about(self) -> About:
        own, cells = self.inner.about, self.cells
        known = own.shown or own.parameters
        blocks = [slice(*block.indices(self.inner.d)) for block in own.curvatures if block is not None]
        moved = [slice(b.start + m, b.stop + m) for m in self._places for b in blocks]
        return About(
            (*(f"{name}{copy}" for copy in cells.copies for name in own.parameters), *cells.free, *cells.hidden),
            shown=(*(f"{name}{copy}" for copy in cells.copies for name in known), *cells.free),
            profiled=False,
            curvatures=tuple(moved),
            rising=own.rising,
            fades=own.fades,
            nodes=own.nodes * len(self.pinned),
            whole=own.whole,
            exponentials=own.exponentials and (*own.exponentials * len(cells.copies), *cells.free),
            free=cells.free,
            facts=own.facts,
        )

    @property
    def _places(self) -> list[int]:
        """Where the parameters of each copy begin."""
        return [m * self.inner.d for m in range(len(self.cells.copies))]

    def rows(self, rows: slice) -> Stack:
        cell = self.cell[rows]
        return replace(
            self,
            records=replace(self.records, n=cell.size),
            inner=self.inner.rows(rows),
            pinned=tuple(part.rows(rows) for part in self.pinned),
            cell=cell,
        )

    def under(self, records: StackRecords) -> Stack:
        return replace(self, records=records)

    def learned(self, weights: Float, size: float) -> Stack:
        inner, *pinned = (part.learned(weights, size) for part in (self.inner, *self.pinned))
        return replace(self, inner=inner, pinned=tuple(pinned))

    @property
    def first(self) -> FirstStage:
        return FirstStage(self.inner, completed=lambda own, _: self.started(own), needed=True)

    def started(self, own: Float) -> Float:
        """A starting value of the whole stack (d,) from one for the parameters of the question."""
        return np.concatenate([np.tile(own, len(self.cells.copies)), self.cells.start])

    def split(self, beta: Float) -> tuple[Float, Float]:
        """Parameters of each copy (copies, p), and of the nuisance."""
        own, nuisance = np.split(beta, [len(self.cells.copies) * self.inner.d])
        return own.reshape(-1, self.inner.d), nuisance

    def _tables(self, nuisance: Float) -> tuple[Float, Float]:
        """Weights of the levels by cell, and their derivatives, with a share of the noise undone."""
        (tables, change), undone = self.cells.tables(nuisance), self.records.undone
        return (1 - undone) * self.cells.naive + undone * tables, undone * change

    def influence(self, beta: Float) -> Float:
        own, nuisance = self.split(beta)
        parts = [self._phi(b, table[self.cell]) for b, table in zip(own, self._tables(nuisance)[0], strict=True)]
        return np.hstack([*parts, self.cells.equations(nuisance)[0][self.cell]])

    def _phi(self, beta: Float, weights: Float) -> Float:
        """Σ_k T_k U(k) (n, p) under weights of the levels (n, K)."""
        terms = (w[:, None] * part.influence(beta) for w, part in zip(weights.T, self.pinned, strict=True))
        return np.asarray(sum(terms))

    def score_and_slope(self, betas: Float, weights: Float, rows: Int | None = None) -> tuple[Float, Float]:
        betas, weights = paired(betas, weights, rows)
        with np.errstate(all="ignore"):
            found = [self._score_and_slope(b, w) for b, w in zip(betas, weights, strict=True)]
        scores, slopes = zip(*found, strict=True)
        return np.stack(scores), np.stack(slopes)

    def slope(self, beta: Float, weights: Float) -> Float:
        return self._score_and_slope(beta, weights)[1]

    def _score_and_slope(self, beta: Float, weights: Float) -> tuple[Float, Float]:
        own, nuisance = self.split(beta)
        (tables, change), (others, bends) = self._tables(nuisance), self.cells.equations(nuisance)
        counts = np.bincount(self.cell, weights=weights, minlength=len(others))
        score, slope = np.empty(beta.size), np.zeros((beta.size, beta.size))
        for m, place in enumerate(self._places):
            here = slice(place, place + self.inner.d)
            for k, part in enumerate(self.pinned):
                level = weights * tables[m, self.cell, k]
                slope[here, here] += part.score_and_slope(own[m][None], level[None])[1][0]
            sums = self._sums(own[m], weights)
            score[here] = np.einsum("ck,ckp->p", tables[m], sums)
            slope[here, own.size :] = np.einsum("sck,ckp->ps", change[:, m], sums)
        score[own.size :] = counts @ others
        slope[own.size :, own.size :] = np.einsum("c,cab->ab", counts, bends)
        return score, slope

    def _sums(self, beta: Float, weights: Float) -> Float:
        """Σ w U(k) of every cell (cells, K, p)."""
        count = self.cells.naive.shape[1]
        parts = [by_group(part.influence(beta) * weights[:, None], self.cell, count) for part in self.pinned]
        return np.stack(parts, axis=1)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        """With true values there would be no nuisance: all of its variance is the randomisation's. Of one copy."""
        own, nuisance = self.split(beta)
        table, out = self._tables(nuisance)[0][0, self.cell], np.zeros((beta.size, beta.size))
        for k, part in enumerate(self.pinned):  # without other perturbed columns nothing of a part is left to revert
            outer = part.outer if self.alone else part.clean_outer
            out[: self.inner.d, : self.inner.d] += outer(own[0], weights * table[:, k])
        return out

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:
        own, nuisance = self.split(beta)
        p, errors = self.inner.d, np.sqrt(np.diag(covariance)[own.size :])
        return [
            *self.inner.remarks(own[0], weights, covariance[:p, :p], squares),
            *self.cells.remarks(nuisance, errors),
        ]


def refuse_unsuited(stack: Stack, weights: Float, why: str) -> None:
    """Only smooth equations whose φ is a sum over the levels are stacked."""
    about = stack.inner.about
    kind = "sum" if about.sums else "step function"
    if about.smooth and not about.sums and about.sharp is None and about.averaged is None:
        tuned = stack.learned(weights, float(stack.n))
        beta, table = np.linspace(0.1, 0.2, stack.inner.d), stack.cells.tables(stack.cells.start)[0][0, stack.cell]
        with np.errstate(all="ignore"):
            whole, total = tuned.inner.influence(beta), tuned._phi(beta, table)
        if np.allclose(whole, total, rtol=1e-6, atol=1e-8 * max(float(np.abs(whole).max(initial=0)), 1.0)):
            return
        kind = "function of moments"
    raise PramanaError(f"{quoted(listing(about.parameters, 3))} is a {kind}, which is not {why}")

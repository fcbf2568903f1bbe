"""Sums over records in memory: blocks of them, on threads, added in the order of the blocks."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from pramana.arrays import Float, Int
from pramana.engines.engine import Engine
from pramana.engines.sampling import Sampling
from pramana.engines.totals import Totals
from pramana.estimating.equation import Equation, Note, Solve
from pramana.kernels.blocks import by_group, gram

BLOCK_ENTRIES = 2_000_000
"""Numbers that a block of records takes while its sums are formed."""
SMALLEST = 8192
"""Records below which a block is not cut further."""
PILOT = 25_000
"""Records of a first fit, where there are at least four times as many."""

T = TypeVar("T")


@dataclass(frozen=True)
class HeldWeights:
    """Row weights of several draws (B, n)."""

    values: Float

    def __len__(self) -> int:
        return len(self.values)

    def draw(self, position: int) -> HeldWeights:
        """One of the draws."""
        return HeldWeights(self.values[position : position + 1])

    @property
    def average(self) -> float:
        return float(self.values.mean())


@dataclass(frozen=True)
class LocalEngine(Engine):
    """Records in memory.

    Blocks depend on the number of records and the width of the equation, never on the number of threads, and are added in
    their order: the same sums come out whatever the machine.
    """

    equation: Equation
    sampling: Sampling
    threads: int | None = None

    @classmethod
    def of(cls, equation: Equation, **sampling: Any) -> LocalEngine:
        """An engine for records that were sampled so; see `Sampling`."""
        return cls(equation, Sampling(equation.n, **sampling))

    def over(self, equation: Equation) -> LocalEngine:
        return replace(self, equation=equation)

    def learned(self) -> LocalEngine:
        return self.over(self.equation.learned(self.sampling.row_weights, self.sampling.effective_n))

    def refitted(self, rebind: Callable[[Float], Equation], weights: HeldWeights) -> LocalEngine:
        return self.over(rebind(weights.values[0])).learned()

    # Weights: the sample's own, drawn ones, those that leave units out, published ones.

    @cached_property
    def own(self) -> HeldWeights:
        return HeldWeights(self.sampling.row_weights[None])

    def drawn(self, law: str, seed: int, draws: Int) -> HeldWeights:
        return HeldWeights(self.sampling.drawn(law, seed, draws, sums=self.about.sums))

    def without(self, deleted: Int) -> HeldWeights:
        return HeldWeights(self.sampling.deletions(sums=self.about.sums).weights(deleted))

    def replicated(self) -> HeldWeights:
        assert self.sampling.replicates is not None
        return HeldWeights(self.sampling.replicates)

    # Sums.

    def score(self, betas: Float, weights: HeldWeights) -> Float:
        return self._added(lambda e, rows: e.score(betas, _shared(weights.values[:, rows], len(betas))))

    def score_and_slope(self, betas: Float, weights: HeldWeights, draws: Int | None = None) -> tuple[Float, Float]:
        return self._added(lambda e, rows: _Pair(*e.score_and_slope(betas, weights.values[:, rows], draws))).both

    def slopes_at(self, betas: Float, weight: float) -> Float:
        alike = np.zeros(len(betas), dtype=np.int64)
        return self._added(lambda e, _rows: e.score_and_slope(betas, np.full((1, e.n), weight), alike)[1])

    def objective(self, betas: Float, weights: HeldWeights) -> Float:
        return self._added(lambda e, rows: _ascent(e).objective(betas, weights.values[:, rows]))

    def recedes(self, direction: Float, weights: HeldWeights) -> bool:
        reach = self._added(lambda e, _rows: _Largest(_ascent(e).reach(direction))).value
        gain, loss, size, moved = self._added(
            lambda e, rows: _ascent(e).recession(direction, weights.values[0, rows], reach)
        )
        return bool(gain - loss >= -1e-9 * size and moved > 0)

    def spread(self, beta: Float, weights: HeldWeights) -> Float:
        return np.sqrt(np.diag(self.outer(beta, weights)))

    def outer(self, beta: Float, weights: HeldWeights) -> Float:
        return self._added(lambda e, rows: e.outer(beta, weights.values[0, rows] ** 2))

    def totals(self, beta: Float, slope: Float | None = None) -> Totals:
        """Everything that a variance is made of, at one value; a slope that had to be estimated is given."""
        s = self.sampling
        w, w2 = s.row_weights, s.square_weights
        fraction = None
        if s.strata is not None and s.strata.target == "finite" and s.clusters is not None:
            fraction = s.strata.fraction[s.strata.stratum[s.clusters]]
        kept = None if fraction is None or s.sharing is not None else w2 * fraction

        def part(e: Equation, rows: slice) -> Totals:
            score, bend, outer, clean = e.sums(beta, w[rows], w2[rows])
            retained = None
            if kept is not None:
                retained = e.outer(beta, kept[rows]) - e.clean_outer(beta, kept[rows])
            clusters = None
            if s.clusters is not None and s.groups is not None:
                clusters = by_group(e.influence(beta) * w[rows, None], s.clusters[rows], s.groups)
            return Totals(0.0, score, bend, outer, clean, clusters, s.strata, retained, self.about.sums)

        found = self._added(part)
        slope = -np.eye(self.d) if self.about.sums else found.slope if slope is None else slope
        found = replace(found, n=s.n, slope=slope)
        if s.sharing is None or s.strata is None or s.strata.target == "superpopulation":
            return found
        retained = None if fraction is None else self.privacy_by_unit(beta, fraction)
        return replace(found, shared=self.privacy_by_unit(beta), retained=retained)

    def privacy_by_unit(self, beta: Float, shares: Float | None = None) -> Float:
        """One combination of hidden values after the other, so that no more than the sums of all units (G, d) is held."""
        s, records = self.sampling, self.equation.records
        codes, weights = s.sharing, s.row_weights
        assert codes is not None
        first = np.unique(codes, return_index=True)[1]
        groups, share = len(first), np.ones(len(first)) if shares is None else shares[first]

        def sums(k: int) -> Float:
            return self._added(lambda e, rows: by_group(e.at_node(beta, k) * weights[rows, None], codes[rows], groups))

        phi, clean = np.zeros((groups, self.d)), np.zeros((self.d, self.d))
        for k in range(records.combinations):
            u, mass = sums(k), records.mass(k, first)
            phi += mass[:, None] * u
            clean += gram(u, mass * share)
        return gram(phi, share) - clean

    def scores_by(self, influence: Callable[[Equation, slice], Float], codes: Int, groups: int) -> Float:
        w = self.sampling.row_weights
        return self._added(lambda e, rows: by_group(influence(e, rows) * w[rows, None], codes[rows], groups))

    def absolute_slopes(self, beta: Float) -> Float:
        weights = self.sampling.row_weights
        return self._added(lambda e, rows: e.absolute_slopes(beta, weights[rows]))

    def slope_error(self, beta: Float, left: Float, right: Float, total: float) -> float:
        """Standard error of `total` = leftᵀ (Σ w ∂φ) right; a row with a count stands for so many equal records."""
        s = self.sampling
        if s.clusters is not None:
            groups, weights, codes = s.groups or 0, s.row_weights, s.clusters
            sums = self._added(
                lambda e, rows: np.bincount(
                    codes[rows], weights=e.record_slope(beta, left, right) * weights[rows], minlength=groups
                )
            )
            # What one cluster carries, as a fixed effect of clusters does, has no spread between clusters: its records tell.
            if 2 * np.abs(sums).max() <= np.abs(sums).sum():
                return float(np.sqrt(np.sum((sums - sums.mean()) ** 2)))
        middle = total / s.n

        def part(e: Equation, rows: slice) -> Any:
            slopes = e.record_slope(beta, left, right)
            away = (slopes if s.weights is None else slopes * s.weights[rows]) - middle
            return np.sum(away**2) if s.frequencies is None else s.frequencies[rows] @ away**2

        return float(np.sqrt(self._added(part)))

    # Roots, starts and remarks.

    def direct(self, weights: HeldWeights) -> Float | None:
        return None if self.equation.direct is None else self.equation.direct.solution(self._moments(weights))

    def refusal(self, weights: HeldWeights) -> str:
        assert self.equation.direct is not None
        return self.equation.direct.refusal(self._moments(weights)[0])

    def _moments(self, weights: HeldWeights) -> Float:
        def part(e: Equation, rows: slice) -> Float:
            assert e.direct is not None
            return e.direct.moments(weights.values[:, rows])

        return self._added(part)

    def start(self, weights: HeldWeights, solve: Callable[[Engine], Float]) -> Float:
        easier: Solve = lambda equation: solve(self.over(equation))  # noqa: E731
        return self.equation.start(weights.values[0], easier)

    def pilot(self) -> LocalEngine | None:
        """Every so many-th record, on which a first root is found when there are very many; None elsewhere."""
        step = self.sampling.rows // PILOT
        if step < 4 or not self.about.thinned:
            return None
        return replace(self, equation=self.equation.rows(slice(None, None, step)), sampling=self.sampling.thinned(step))

    def remarks(self, beta: Float, covariance: Float) -> list[Note]:
        return self.equation.remarks(beta, self.sampling.row_weights, covariance)

    # Blocks.

    @cached_property
    def _blocks(self) -> list[tuple[Equation, slice]]:
        n = self.equation.n
        size = max(SMALLEST, BLOCK_ENTRIES // max(self.d * self.about.nodes, 1))
        if self.about.whole or n <= size:
            return [(self.equation, slice(None))]
        cuts = [slice(low, min(low + size, n)) for low in range(0, n, size)]
        return [(self.equation.rows(cut), cut) for cut in cuts]

    def _added(self, part: Callable[[Equation, slice], T]) -> T:
        """The sum of the parts of all blocks, in their order."""
        blocks = self._blocks
        if len(blocks) == 1:
            return part(*blocks[0])
        workers = min(self.threads or os.cpu_count() or 1, len(blocks))
        if workers == 1:
            return _sum(map(part, *zip(*blocks, strict=True)))
        with ThreadPoolExecutor(workers) as pool:
            return _sum(pool.map(part, *zip(*blocks, strict=True)))


@dataclass(frozen=True)
class _Pair:
    """Two arrays that are added together."""

    first: Float
    second: Float

    def __add__(self, other: _Pair) -> _Pair:
        return _Pair(self.first + other.first, self.second + other.second)

    @property
    def both(self) -> tuple[Float, Float]:
        return self.first, self.second


@dataclass(frozen=True)
class _Largest:
    """A number of which the larger one is kept."""

    value: float

    def __add__(self, other: _Largest) -> _Largest:
        return _Largest(max(self.value, other.value))


def _sum(parts: Any) -> Any:
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total


def _shared(weights: Float, count: int) -> Float:
    return np.broadcast_to(weights, (count, weights.shape[1])) if len(weights) == 1 else weights


def _ascent(equation: Equation) -> Any:
    assert equation.ascent is not None
    return equation.ascent

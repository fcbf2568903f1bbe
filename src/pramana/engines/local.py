"""Sums over records in memory: blocks of them, on threads, added in the order of the blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from pramana.arrays import Float, Int
from pramana.blas import one_blas_thread
from pramana.engines.engine import Engine
from pramana.engines.sampling import Sampling
from pramana.engines.totals import Totals
from pramana.estimating.collinearity import Rank
from pramana.estimating.equation import Equation, Note, Solve
from pramana.frames import Table
from pramana.kernels.blocks import by_group, gram
from pramana.kernels.leverage import Frame, Leverages, leverages, size_of_one

BLOCK_ENTRIES = 2_000_000
"""Numbers that a block of records takes while its sums are formed."""
SMALLEST = 8192
"""Records below which a block is not cut further."""
MATRIX_ENTRIES = 500_000
"""Numbers that matrices of single records take, of one kind."""
PILOT = 25_000
"""Records of a first fit, where there are at least four times as many."""
RUNS = 32
"""Runs of records that a sketch is made of."""

T = TypeVar("T")


@dataclass(frozen=True)
class SampledBlock:
    """Some of the records: their equation, how they were sampled, the place of the first one among all, the ranks of their
    designs, where those are judged together with others, and, where they are not in memory otherwise, their columns."""

    equation: Equation
    sampling: Sampling
    first: int = 0
    ranks: tuple[Callable[[], Rank], ...] = ()
    table: Table | None = None

    @property
    def n(self) -> int:
        return self.equation.n

    @property
    def rows(self) -> slice:
        """The places of the records among all."""
        return slice(self.first, self.first + self.n)

    def cut(self, size: int) -> Iterator[SampledBlock]:
        """Smaller blocks of at most so many records."""
        if self.n <= size:
            yield self
            return
        for low in range(0, self.n, size):
            rows = slice(low, min(low + size, self.n))
            table = None if self.table is None else self.table.take(np.arange(rows.start, rows.stop))
            yield SampledBlock(self.equation.rows(rows), self.sampling.cut(rows), self.first + low, table=table)


@dataclass(frozen=True)
class HeldWeights:
    """Row weights of several draws (B, n)."""

    values: Float

    def of(self, block: SampledBlock) -> Float:
        """Those of a block's records (B, m)."""
        return self.values[:, block.rows]

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
    runs: tuple[slice, ...] = ()
    """The records that sums are limited to, where they are."""

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
        return self._added(lambda b: b.equation.score(betas, _shared(weights.of(b), len(betas))), len(weights))

    def score_and_slope(self, betas: Float, weights: HeldWeights, draws: Int | None = None) -> tuple[Float, Float]:
        def part(b: SampledBlock) -> _Pair:
            return _Pair(*b.equation.score_and_slope(betas, weights.of(b), draws))

        return self._added(part, len(weights)).both

    def left_slopes(self, betas: Float, lefts: Float) -> Float:
        return self._added(lambda b: b.equation.left_slopes(betas, lefts, b.sampling.row_weights))

    def slopes_at(self, betas: Float, weight: float) -> Float:
        alike = np.zeros(len(betas), dtype=np.int64)
        return self._added(lambda b: b.equation.score_and_slope(betas, np.full((1, b.n), weight), alike)[1])

    def objective(self, betas: Float, weights: HeldWeights) -> Float:
        return self._added(lambda b: _ascent(b).objective(betas, weights.of(b)), len(weights))

    def recedes(self, direction: Float, weights: HeldWeights) -> bool:
        reach = self._added(lambda b: _Largest(_ascent(b).reach(direction))).value
        gain, loss, size, moved = self._added(lambda b: _ascent(b).recession(direction, weights.of(b)[0], reach))
        return bool(gain - loss >= -1e-9 * size and moved > 0)

    def spread(self, beta: Float, weights: HeldWeights) -> Float:
        return np.sqrt(np.diag(self.outer(beta, weights)))

    def outer(self, beta: Float, weights: HeldWeights) -> Float:
        return self._added(lambda b: b.equation.outer(beta, weights.of(b)[0] ** 2))

    def totals(self, beta: Float, slope: Float | None = None) -> Totals:
        """Everything that a variance is made of, at one value; a slope that had to be estimated is given."""
        whole = self.sampling
        groups, strata = whole.groups, whole.strata
        finite, sums = strata is not None and strata.target == "finite" and groups is not None, self.about.sums

        def part(b: SampledBlock) -> Totals:
            e, s = b.equation, b.sampling
            w, w2 = s.row_weights, s.square_weights
            score, bend, outer, clean, fourth = e.sums(beta, w, w2)
            if s.frequencies is not None:  # equal records, each with a square of its own
                each = np.divide(w2, s.frequencies, out=np.zeros(e.n), where=s.frequencies > 0)
                fourth = s.frequencies @ (e.influence(beta) ** 2 * each[:, None]) ** 2
            retained = None
            if finite and s.sharing is None:
                kept = w2 * s.fractions
                retained = e.outer(beta, kept) - e.clean_outer(beta, kept)
            clusters = None
            if s.clusters is not None and groups is not None:
                clusters = by_group(e.influence(beta) * w[:, None], s.clusters, groups)
            return Totals(s.n, score, bend, outer, clean, clusters, strata, retained, sums, None, fourth)

        found = self._added(part)
        slope = -np.eye(self.d) if sums else found.slope if slope is None else slope
        if found.n != whole.n or found.slope is not slope:
            found = replace(found, n=whole.n, slope=slope)
        if whole.sharing is None or strata is None or strata.target == "superpopulation":
            return found
        retained = self.privacy_by_unit(beta, whole.fractions) if finite else None
        return replace(found, shared=self.privacy_by_unit(beta), retained=retained)

    def leverages(self, beta: Float, frame: Frame) -> Leverages:
        def part(b: SampledBlock) -> Leverages:
            e, s = b.equation, b.sampling
            w, copies = (np.ones(b.n) if v is None else v for v in (s.weights, s.frequencies))
            scores = frame.scores(e.influence(beta) * w[:, None])
            if not frame.sloped:
                squares = scores[:, :, None] * scores[:, None, :]
                return leverages(scores, squares, squares, copies, frame)
            shares = frame.shares(e.record_slopes(beta) * w[:, None, None])
            return leverages(scores, shares, size_of_one(shares) * w[:, None, None], copies, frame)

        return self._in_small_blocks(part)

    def shares_by_unit(self, beta: Float, frame: Frame) -> tuple[Float, Float]:
        groups = self.sampling.groups or 0

        def part(b: SampledBlock) -> _Pair:
            s = b.sampling
            assert s.clusters is not None
            shares = frame.shares(b.equation.record_slopes(beta) * s.row_weights[:, None, None]).reshape(b.n, -1)
            grouped = by_group(shares, s.clusters, groups)
            if s.weights is None:
                return _Pair(grouped, grouped)
            return _Pair(grouped, by_group(shares * s.weights[:, None], s.clusters, groups))

        first, second = self._in_small_blocks(part).both
        return first.reshape(groups, self.d, self.d), second.reshape(groups, self.d, self.d)

    def squares_by_unit(self, beta: Float, frame: Frame) -> Float:
        groups = self.sampling.groups or 0

        def part(b: SampledBlock) -> Float:
            assert b.sampling.clusters is not None
            scores = frame.scores(b.equation.influence(beta))
            products = scores[:, :, None] * scores[:, None, :] * b.sampling.square_weights[:, None, None]
            return by_group(products.reshape(b.n, -1), b.sampling.clusters, groups)

        return self._in_small_blocks(part).reshape(groups, len(frame.into), len(frame.into))

    def square_weights_by_unit(self) -> Float:
        groups = self.sampling.groups or 0

        def part(b: SampledBlock) -> Float:
            s = b.sampling
            assert s.clusters is not None
            return np.asarray(np.bincount(s.clusters, weights=s.square_weights, minlength=groups))

        return self._added(part)

    def replicate_products(self) -> Float:
        def part(b: SampledBlock) -> Float:
            assert b.sampling.replicates is not None
            return np.asarray(b.sampling.replicates @ b.sampling.replicates.T)

        return self._added(part)

    def _in_small_blocks(self, part: Callable[[SampledBlock], T]) -> T:
        """Sums for which a (d, d) matrix of every record of a block is held."""
        size = max(1, MATRIX_ENTRIES // self.d**2)
        if self.about.whole:
            return self._added(part)
        return self._added(lambda b: cast(T, added(map(part, b.cut(size)))))

    def privacy_by_unit(self, beta: Float, shares: Float | None = None) -> Float:
        """One combination of hidden values after the other, so that no more than the sums of all units (G, d) is held."""
        codes, records = self.sampling.sharing, self.equation.records
        assert codes is not None
        first = np.unique(codes, return_index=True)[1]
        groups, share = len(first), np.ones(len(first)) if shares is None else shares[first]

        def sums(k: int) -> Float:
            def part(b: SampledBlock) -> Float:
                return by_group(b.equation.at_node(beta, k) * b.sampling.row_weights[:, None], codes[b.rows], groups)

            return self._added(part)

        phi, clean = np.zeros((groups, self.d)), np.zeros((self.d, self.d))
        for k in range(records.combinations):
            u, mass = sums(k), records.mass(k, first)
            phi += mass[:, None] * u
            clean += gram(u, mass * share)
        return gram(phi, share) - clean

    def scores_by(self, influence: Callable[[Equation, slice], Float], codes: Int, groups: int) -> Float:
        def part(b: SampledBlock) -> Float:
            return by_group(influence(b.equation, b.rows) * b.sampling.row_weights[:, None], codes[b.rows], groups)

        return self._added(part)

    def counted_by(self, codes: Callable[[Equation], Int], groups: int) -> Float:
        def part(b: SampledBlock) -> Float:
            counts = np.bincount(codes(b.equation), weights=b.sampling.row_weights, minlength=groups)
            return np.asarray(counts, dtype=float)

        return self._added(part)

    def membership(self) -> tuple[float, float]:
        def part(b: SampledBlock) -> Float:
            weights, member = b.sampling.row_weights, b.equation.records.membership
            squares = weights**2
            return np.array([weights.sum(), weights @ member, squares.sum(), squares @ member, squares @ member**2])

        total, held, *squares = self._added(part).tolist()
        share = held / total
        spread = squares[2] - 2 * share * squares[1] + share**2 * squares[0]
        return share, float(np.sqrt(max(spread, 0.0))) / total

    def slope_moments(self, beta: Float, lefts: Float, rights: Float) -> Float:
        def part(b: SampledBlock) -> Float:
            e, s = b.equation, b.sampling
            weights, counts = (np.ones(b.n) if v is None else v for v in (s.weights, s.frequencies))
            slopes = e.record_slopes_along(beta, lefts, rights) * weights
            along = (e.influence(beta) @ lefts.T).T * weights
            size = np.full(len(slopes), counts.sum())
            return np.stack([slopes**2 @ counts, (slopes * along) @ counts, slopes @ counts, size])

        squares, products, total, size = self._added(part)
        return np.stack([np.clip(squares - total**2 / size, 0.0, None), products])

    # Roots, starts and remarks.

    def direct(self, weights: HeldWeights) -> Float | None:
        return None if self.equation.direct is None else self.equation.direct.solution(self._moments(weights))

    def refusal(self, weights: HeldWeights) -> str:
        assert self.equation.direct is not None
        return self.equation.direct.refusal(self._moments(weights)[0])

    def _moments(self, weights: HeldWeights) -> Float:
        def part(b: SampledBlock) -> Float:
            assert b.equation.direct is not None
            return b.equation.direct.moments(weights.of(b))

        return self._added(part, len(weights))

    def inverted(self, scores: Float) -> Float:
        assert self.equation.direct is not None
        return self.equation.direct.inverted(scores, self._moments(self.own)[0])

    def start(self, weights: HeldWeights, solve: Callable[[Engine, Any], Float]) -> Float:
        easier: Solve = lambda equation: solve(self.over(equation), weights)  # noqa: E731
        return self.equation.start(weights.values[0], easier)

    def pilot(self) -> LocalEngine | None:
        """Every so many-th record, on which a first root is found when there are very many; None elsewhere."""
        step = self.sampling.rows // PILOT
        if step < 4 or not self.about.thinned:
            return None
        return replace(self, equation=self.equation.rows(slice(None, None, step)), sampling=self.sampling.thinned(step))

    def sketch(self) -> tuple[Engine, float]:
        """Every so many-th record; short runs of them all over the file where an equation knows no others."""
        pilot, rows = self.pilot(), self.sampling.rows
        if pilot is not None:
            return pilot, rows / pilot.sampling.rows
        if rows < 4 * PILOT or self.about.whole:
            return self, 1.0
        length = PILOT // RUNS
        first = np.linspace(0, rows - length, RUNS).astype(int)
        return replace(self, runs=tuple(slice(k, k + length) for k in first.tolist())), rows / (length * RUNS)

    def remarks(self, beta: Float, covariance: Float) -> list[Note]:
        return self.equation.remarks(beta, self.sampling.row_weights, covariance)

    # Blocks.

    @cached_property
    def _blocks(self) -> list[SampledBlock]:
        whole = SampledBlock(self.equation, self.sampling)
        if self.runs:
            return [SampledBlock(self.equation.rows(cut), self.sampling.cut(cut), cut.start) for cut in self.runs]
        size = max(SMALLEST, BLOCK_ENTRIES // max(self.d * self.about.nodes, 1))
        return [whole] if self.about.whole else list(whole.cut(size))

    def _added(self, part: Callable[[SampledBlock], T], draws: int = 1) -> T:  # noqa: ARG002 - weights of all draws are held
        """The sum of the parts of all blocks, in their order, under so many weight draws. A part may travel to other processes: it
        holds parameter values and weights, and never the engine with its records."""
        blocks = self._blocks
        if len(blocks) == 1:
            return part(blocks[0])
        workers = min(self.threads or os.cpu_count() or 1, len(blocks))
        if workers == 1:
            return added(map(part, blocks))
        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            return added(pool.map(part, blocks))


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


def added(parts: Any) -> Any:
    """The sum of whatever adds, of which None adds nothing; None of nothing."""
    total = None
    for part in parts:
        total = part if total is None else total if part is None else total + part
    return total


def _shared(weights: Float, count: int) -> Float:
    return np.broadcast_to(weights, (count, weights.shape[1])) if len(weights) == 1 else weights


def _ascent(block: SampledBlock) -> Any:
    ascent = block.equation.ascent
    assert ascent is not None
    return ascent

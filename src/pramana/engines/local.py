"""Sums over records in memory: blocks of them, on threads, added in the order of the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import numpy as np

from pramana.arrays import Float, Int
from pramana.blas import cores, one_blas_thread
from pramana.engines.engine import Engine
from pramana.engines.sampling import Sampling, Stratification
from pramana.engines.totals import Totals
from pramana.errors import SolveError
from pramana.estimating.collinearity import Rank
from pramana.estimating.equation import Equation, Note
from pramana.frames import Table
from pramana.kernels.blocks import add_by_group, by_group, gram
from pramana.kernels.leverage import (
    Frame,
    Leverages,
    Units,
    in_directions,
    leverages,
    leverages_of,
    size_of_many,
    size_of_one,
    units_of_clusters,
)

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
U = TypeVar("U")


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
class _Summing:
    """What a block has to know of all records to add up its totals. It travels to whoever reads them."""

    groups: int | None
    strata: Stratification | None
    finite: bool
    sums: bool

    def of(self, beta: Float, b: SampledBlock) -> Totals:
        e, s = b.equation, b.sampling
        w, w2 = s.row_weights, s.square_weights
        score, bend, outer, clean, fourth = e.sums(beta, w, w2)
        if s.frequencies is not None:  # equal records, each with a square of its own
            each = np.divide(w2, s.frequencies, out=np.zeros(e.n), where=s.frequencies > 0)
            fourth = s.frequencies @ (e.influence(beta) ** 2 * each[:, None]) ** 2
        retained = None
        if self.finite and s.sharing is None:
            kept = w2 * s.fractions
            retained = e.outer(beta, kept) - e.clean_outer(beta, kept)
        clusters = None
        if s.clusters is not None and self.groups is not None:
            clusters = by_group(e.influence(beta) * w[:, None], s.clusters, self.groups)
        return Totals(s.n, score, bend, outer, clean, clusters, self.strata, retained, self.sums, None, fourth)

    def at(self, betas: Sequence[Float], b: SampledBlock) -> Several[Totals | SolveError]:
        return Several.of(lambda beta: self.of(beta, b), betas)


@dataclass(frozen=True)
class Several(Generic[T]):
    """Sums of several kinds, or at several parameter values, where one may have none, and an error says why; those of two blocks add."""

    values: tuple[T, ...]

    @classmethod
    def of(cls, ask: Callable[[Float], U], betas: Sequence[Float]) -> Several[U | SolveError]:
        found: list[U | SolveError] = []
        for beta in betas:
            try:
                with np.errstate(all="ignore"):  # far out anything may overflow
                    found.append(ask(beta))
            except SolveError as error:
                found.append(error)
        return Several(tuple(found))

    def __add__(self, other: Several[T]) -> Several[T]:
        return Several(tuple(map(_sum_or_error, self.values, other.values)))


def _sum_or_error(one: Any, other: Any) -> Any:
    return one if isinstance(one, SolveError) else other if isinstance(other, SolveError) else one + other


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
        return self._finished(self._added(partial(self._summing.of, beta)), beta, slope)

    @property
    def _summing(self) -> _Summing:
        strata, groups = self.sampling.strata, self.sampling.groups
        finite = strata is not None and strata.target == "finite" and groups is not None
        return _Summing(groups, strata, finite, self.about.sums)

    def _finished(self, found: Totals, beta: Float, slope: Float | None = None) -> Totals:
        """The sums of all blocks, with what is known of the records as a whole."""
        whole, strata = self.sampling, self.sampling.strata
        finite = self._summing.finite
        slope = -np.eye(self.d) if self.about.sums else found.slope if slope is None else slope
        if found.n != whole.n or found.slope is not slope:
            found = replace(found, n=whole.n, slope=slope)
        if whole.sharing is None or strata is None or strata.target == "superpopulation":
            return found
        retained = self.privacy_by_unit(beta, whole.fractions) if finite else None
        return replace(found, shared=self.privacy_by_unit(beta), retained=retained)

    def leverages(self, beta: Float, frame: Frame) -> Leverages:
        most = self.sampling.rows if self.about.whole else max(1, MATRIX_ENTRIES // self.d**2)
        units = partial(_units, beta=beta, frame=frame, most=most)
        if self.resident and self.sampling.rows * self.d**2 <= MATRIX_ENTRIES:
            return leverages_of([one for block in self._blocks for one in units(block)])
        return leverages(lambda part: self._added(lambda b: added(map(part, units(b)))), self.sampling.rows)

    def clusters(self, beta: Float, frame: Frame, sums: Float) -> Sequence[Units]:
        return list(self._clusters(beta, frame, frame.scores(sums)))

    def _clusters(self, beta: Float, frame: Frame, sums: Float) -> Iterator[Units]:
        """By the directions of their records where those are few, and no others."""
        e, s, r = self.equation, self.sampling, len(frame.into)
        one = _directions(e.rows(slice(0, 1)), beta, frame) if self.resident and not self.about.whole else None
        if one is not None and s.rows * one[0].shape[1] < len(sums) * r:
            found = [_directions(b.equation, beta, frame) for b in self._blocks]
            vectors, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
            weights = (s.row_weights if frame.sloped else s.square_weights)[:, None]
            squared = values * weights * (1.0 if s.weights is None or not frame.sloped else s.weights[:, None])
            assert s.clusters is not None
            yield from units_of_clusters(frame, sums, vectors, values * weights, squared, s.clusters)
            return
        if frame.sloped:
            shares, squared = self._shares_by_cluster(beta, frame)
        else:
            shares = squared = self._squares_by_cluster(beta, frame)
        step = max(1, MATRIX_ENTRIES // r**2)
        for some in (np.arange(k, min(k + step, len(sums))) for k in range(0, len(sums), step)):
            own = shares[some]
            working = size_of_many(squared[some]) if frame.sloped else own
            yield Units(frame, sums[some], own, working, np.ones(len(some)), places=some)

    def _shares_by_cluster(self, beta: Float, frame: Frame) -> tuple[Float, Float]:
        def matrices(b: SampledBlock) -> Float:
            s = b.sampling
            shares = frame.shares(b.equation.record_slopes(beta) * s.row_weights[:, None, None])
            return (
                shares[:, None] if s.weights is None else np.stack([shares, shares * s.weights[:, None, None]], axis=1)
            )

        found = self._by_cluster(matrices)
        return found[:, 0], found[:, -1]

    def _squares_by_cluster(self, beta: Float, frame: Frame) -> Float:
        def matrices(b: SampledBlock) -> Float:
            scores = frame.scores(b.equation.influence(beta))
            return (scores[:, :, None] * scores[:, None, :] * b.sampling.square_weights[:, None, None])[:, None]

        return self._by_cluster(matrices)[:, 0]

    def _by_cluster(self, matrices: Callable[[SampledBlock], Float]) -> Float:
        """Sums of matrices (m, …) of the records of each cluster (G, …), of some records at a time."""
        groups, most = self.sampling.groups or 0, max(1, MATRIX_ENTRIES // self.d**2)
        whole = self.about.whole

        def part(block: SampledBlock) -> Float:
            out = None
            for b in [block] if whole else block.cut(most):
                assert b.sampling.clusters is not None
                found = matrices(b)
                out = np.zeros((groups, *found.shape[1:])) if out is None else out
                add_by_group(out, found, b.sampling.clusters)
            assert out is not None
            return out

        return self._added(part)

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
            squares = b.sampling.square_weights
            return np.array([weights.sum(), weights @ member, squares.sum(), squares @ member, squares @ member**2])

        total, held, *squares = self._added(part).tolist()
        share = held / total
        spread = squares[2] - 2 * share * squares[1] + share**2 * squares[0]
        return share, float(np.sqrt(max(spread, 0.0))) / total

    def slope_moments(self, beta: Float, lefts: Float, rights: Float) -> Float:
        return _around_mean(self._added(lambda b: _slope_moments(b, beta, lefts, rights)))

    def slope_turns(self, beta: Float, moved: Float, lefts: Float, rights: Float) -> tuple[Float, Float]:
        def part(b: SampledBlock) -> _Pair:
            turned = b.equation.left_slopes(moved, lefts, b.sampling.row_weights)
            return _Pair(turned, _slope_moments(b, beta, lefts, rights))

        turned, moments = self._added(part).both
        return turned, _around_mean(moments)

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
        first, own = self.equation.first, weights.values[0]
        if first is None:
            return self.equation.start(own)
        try:
            found = solve(self.over(first.equation), weights)
        except SolveError:
            if first.needed:
                raise
            return self.equation.start(own)
        return first.completed(found, np.empty(0) if first.sums is None else first.sums(found, own))

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
        if rows < 4 * PILOT or self.about.whole or self.runs:
            return self, 1.0
        length = PILOT // RUNS
        first = np.linspace(0, rows - length, RUNS).astype(int)
        return replace(self, runs=tuple(slice(k, k + length) for k in first.tolist())), rows / (length * RUNS)

    def remarks(self, beta: Float, covariance: Float) -> list[Note]:
        return self.equation.remarks(beta, self.sampling.row_weights, covariance, self.sampling.square_weights)

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
        workers = min(self.threads or cores(), len(blocks))
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


def _slope_moments(b: SampledBlock, beta: Float, lefts: Float, rights: Float) -> Float:
    """Σ w² s² and Σ w² s (lᵀφ), Σ w s and the number of records (4, k)."""
    e, s = b.equation, b.sampling
    weights, counts = (np.ones(b.n) if v is None else v for v in (s.weights, s.frequencies))
    slopes = e.record_slopes_along(beta, lefts, rights) * weights
    along = (e.influence(beta) @ lefts.T).T * weights
    size = np.full(len(slopes), counts.sum())
    return np.stack([slopes**2 @ counts, (slopes * along) @ counts, slopes @ counts, size])


def _around_mean(moments: Float) -> Float:
    squares, products, total, size = moments
    return np.stack([np.clip(squares - total**2 / size, 0.0, None), products])


def _directions(equation: Equation, beta: Float, frame: Frame) -> tuple[Float, Float] | None:
    """Vectors in the frame (m, q, r) and values (m, q) that make up the records' shares; None where those have no low rank."""
    if not frame.sloped:
        return frame.scores(equation.influence(beta))[:, None], np.ones((equation.n, 1))
    parts = equation.slope_parts(beta)
    return None if parts is None else (parts[0] @ frame.into.T, frame.sign * parts[1])


def _units(block: SampledBlock, beta: Float, frame: Frame, most: int) -> Iterator[Units]:
    """Records as units, of no more than so many at a time where each has a (d, d) matrix."""
    found = _directions(block.equation, beta, frame)
    low = not frame.sloped or (found is not None and found[0].shape[1] < len(frame.into))
    for b in [block] if low else block.cut(most):
        w, copies = (np.ones(b.n) if v is None else v for v in (b.sampling.weights, b.sampling.frequencies))
        scores = frame.scores(b.equation.influence(beta) * w[:, None])
        if found is not None and low:
            basis, shares, _ = in_directions(found[0], found[1] * (w if frame.sloped else w**2)[:, None])
        else:
            basis, shares = None, frame.shares(b.equation.record_slopes(beta) * w[:, None, None])
        yield Units(
            frame, scores, shares, size_of_one(shares) * w[:, None, None] if frame.sloped else shares, copies, basis
        )


def _shared(weights: Float, count: int) -> Float:
    return np.broadcast_to(weights, (count, weights.shape[1])) if len(weights) == 1 else weights


def _ascent(block: SampledBlock) -> Any:
    ascent = block.equation.ascent
    assert ascent is not None
    return ascent

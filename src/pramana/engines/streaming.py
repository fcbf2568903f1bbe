"""Sums over records that are not held: blocks are read anew for every pass, on threads or by workers, and added in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from pramana.arrays import Float, Int
from pramana.engines.engine import WEIGHT_ENTRIES, Engine
from pramana.engines.local import LocalEngine, SampledBlock, added
from pramana.engines.totals import Totals
from pramana.errors import PramanaError, SolveError, quoted_terms
from pramana.estimating.collinearity import Rank
from pramana.estimating.equation import Equation, FirstStage, LearnedScale, Regression
from pramana.estimating.least_squares import spread_of_residuals
from pramana.frames.workers import Threads, Workers
from pramana.kernels.streams import multipliers

MOST_DRAWS = 500
"""Weight draws that one pass serves."""
TOTALS = 20_000_000
"""Numbers in the totals at several values that one pass adds up: 160 MB."""
PART = 4.0
"""Records that each of a sample stands for, from which on the root of the sample is not taken for that of all records."""
CARRIED = 1e-9
"""Error of a covariance, in standard errors squared, up to which a change of it is taken from a sample: half of what its two halves tell apart."""

T = TypeVar("T")
Change = Callable[[Equation], Equation]


@dataclass(frozen=True)
class OwnWeights:
    """The sample's own weights, one draw."""

    average: float

    def of(self, block: SampledBlock) -> Float:
        return block.sampling.row_weights[None]

    def __len__(self) -> int:
        return 1

    def draw(self, position: int) -> OwnWeights:  # noqa: ARG002
        return self


@dataclass(frozen=True)
class DrawnWeights:
    """Random weights, made where they are used: a record's depend on the seed, the draw and its place among all records, or its own key.

    Attributes
    ----------
    shared : the records of a cluster share one, which goes by the cluster's code.
    by_unit : of the sampling units of a design (B, G); None elsewhere.
    scale : what makes the mean of a draw 1 (B, 1), where it must be.
    """

    law: str
    seed: int
    draws: Int
    average: float
    shared: bool = False
    by_unit: Float | None = None
    scale: Float | None = None

    def of(self, block: SampledBlock) -> Float:
        s = block.sampling
        if self.by_unit is not None:
            assert s.clusters is not None
            return self.by_unit[:, s.clusters] * s.row_weights
        drawn = self._of_clusters(block) if self.shared else self.multipliers(block)
        drawn = drawn if self.scale is None else drawn * self.scale
        if self.shared:
            return drawn * s.row_weights
        return drawn if s.weights is None else drawn * s.weights

    def _of_clusters(self, block: SampledBlock) -> Float:
        assert block.sampling.clusters is not None
        units, place = np.unique(block.sampling.clusters, return_inverse=True)
        return multipliers(self.law, self.seed, self.draws, units)[:, place]

    def multipliers(self, block: SampledBlock) -> Float:
        counts, keys = block.sampling.frequencies, block.sampling.keys
        places = np.arange(block.first, block.first + block.n) if keys is None else keys
        most = None if counts is None else np.maximum(counts, 1)
        drawn = multipliers(self.law, self.seed, self.draws, places, most)
        return drawn if counts is None else np.where(counts > 0, drawn, 0.0)  # a sum over no records

    def __len__(self) -> int:
        return len(self.draws)

    def draw(self, position: int) -> DrawnWeights:
        return self.some(slice(position, position + 1))

    def some(self, which: slice) -> DrawnWeights:
        by_unit, scale = (None if v is None else v[which] for v in (self.by_unit, self.scale))
        return replace(self, draws=self.draws[which], by_unit=by_unit, scale=scale)


@dataclass(frozen=True)
class PublishedWeights:
    """Replicate weights that the records carry."""

    which: Int
    average: float

    def of(self, block: SampledBlock) -> Float:
        assert block.sampling.replicates is not None
        return block.sampling.replicates[self.which]

    def __len__(self) -> int:
        return len(self.which)

    def draw(self, position: int) -> PublishedWeights:
        return self.some(slice(position, position + 1))

    def some(self, which: slice) -> PublishedWeights:
        return replace(self, which=self.which[which])


@dataclass
class LastPass:
    """Of the last pass over the records, the parameter value (d,) and the totals there: most often those of the root, which are asked for
    again. `begun` once there was a pass."""

    begun: bool = False
    beta: Float | None = None
    totals: Totals | None = None

    def keep(self, beta: Float, totals: Totals) -> Totals:
        self.beta, self.totals = beta.copy(), totals
        return totals


@dataclass(frozen=True)
class StreamEngine(LocalEngine):
    """Records that are read in blocks.

    Attributes
    ----------
    equation : of some records, on which everything is learned and a first root is found.
    few : those records as an engine of their own.
    jobs : all records in parts; a pass asks for them anew.
    blocks : a part with its records bound to their equations.
    changes : what is done to the equation of every block.
    sampled : facts about the equation that only the sample told.
    """

    few: LocalEngine | None = None
    jobs: Callable[[], Iterator[Any]] = iter  # type: ignore[assignment]
    blocks: Callable[[Any], Iterator[SampledBlock]] = iter
    changes: tuple[Change, ...] = ()
    workers: Workers = field(default_factory=Threads)
    sampled: frozenset[str] = frozenset()
    kept: LastPass = field(default_factory=LastPass, repr=False, compare=False)

    def over(self, equation: Equation) -> NoReturn:
        raise PramanaError(
            f"{type(equation).__name__} is a second equation over the same records, which are not in memory: raise memory=, or "
            "fit a sample of the records"
        )

    def _changed(self, change: Change) -> StreamEngine:
        assert self.few is not None
        few = self.few.over(change(self.few.equation))
        return replace(self, equation=few.equation, few=few, changes=(*self.changes, change), kept=LastPass())

    def softened(self, t: float) -> StreamEngine:
        return self._changed(lambda equation: equation.softened(t))

    def sharp(self) -> StreamEngine:
        return self if self.about.sharp is None else self._changed(lambda e: e.about.sharp or e)

    def judge(self) -> StreamEngine:
        return self if self.about.judge is None else self._changed(lambda e: e.about.judge or e)

    def learned(self) -> StreamEngine:
        """With what the equation learns of the sample at the size of all records."""
        few = self.few
        assert few is not None
        if self.about.whole or self.about.free:
            raise PramanaError(
                f"{quoted_terms(self.about.parameters[:3])} cannot be added up over blocks of records, and these do not fit into memory: "
                "raise memory=, or fit a sample of the records"
            )
        learned = self.equation.learned(few.sampling.row_weights, self.sampling.effective_n)
        if learned is self.equation:
            return self
        told = {name: text for name, text in learned.about.facts.items() if self.about.facts.get(name) != text}
        if learned.about.scale is not None:
            learned, told = self._scaled(learned.about.scale, few.sampling.row_weights), {}
        lesson = learned.rows(slice(0, 1))  # what travels holds no sample
        return replace(self._changed(lambda e: e.taught(lesson)), sampled=frozenset(told))

    def _scaled(self, scale: LearnedScale, weights: Float) -> Equation:
        """With the scale that all records tell, and not those of the sample, with their weights, alone."""
        sample = scale.regression(weights)
        spread, weight = spread_of_residuals(lambda part: self._added(partial(_of_regression, part)), sample)
        return scale.told(spread, self.sampling.effective_n * weight / self.sampling.total)

    @property
    def facts(self) -> Mapping[str, str]:
        """Those that the sample told say so."""
        assert self.few is not None
        told = f"; of a random sample of {self.few.sampling.rows} records"
        return {name: text + told * (name in self.sampled) for name, text in self.about.facts.items()}

    def averaged(self, covariance: Float) -> StreamEngine:
        return self._changed(lambda e: e.about.averaged(covariance))  # type: ignore[misc]

    def refuse_collinear(self) -> None:
        """Judge the designs of all records, of which some alone had a deficient rank."""
        for rank in self._added(lambda b: _Together(tuple(rank() for rank in b.ranks))).ranks:
            rank.judge()

    # Weights are made where they are used.

    @cached_property
    def own(self) -> Any:
        return OwnWeights(self._average)

    @property
    def _average(self) -> float:
        return self.sampling.total / max(self.sampling.rows, 1)

    def drawn(self, law: str, seed: int, draws: Int) -> Any:
        s = self.sampling
        found = DrawnWeights(law, seed, draws, self._average, s.groups is not None)
        if s.strata is not None:
            return replace(found, by_unit=s.strata.rao_wu(seed, draws))
        if not self.about.sums:
            return found
        if s.groups is not None:
            return replace(found, scale=_mean_one(added(self._drawn_sums(found, s.groups)), s.groups))
        sums = self._added(lambda b: found.multipliers(b).sum(axis=1, keepdims=True), len(draws))
        return replace(found, scale=_mean_one(sums, s.n))

    def _drawn_sums(self, found: DrawnWeights, groups: int) -> Iterator[Float]:
        """Sums over runs of clusters (B, 1)."""
        size = max(1, WEIGHT_ENTRIES // len(found))
        for low in range(0, groups, size):
            units = np.arange(low, min(low + size, groups))
            yield multipliers(found.law, found.seed, found.draws, units).sum(axis=1, keepdims=True)

    def without(self, deleted: Int) -> NoReturn:  # noqa: ARG002
        raise PramanaError(
            "the jackknife leaves out one unit after the other, a pass over all records each: use Sandwich() or Resampling()"
        )

    def replicated(self) -> Any:
        return PublishedWeights(np.arange(self.sampling.replications), self._average)

    @property
    def resident(self) -> bool:
        return False

    @property
    def draws_at_once(self) -> int:
        return MOST_DRAWS

    # A pass costs more to read than to add up: whatever may be asked at a parameter value is added up together, but for the first one, which is
    # the root of a sample and not that of all records.

    def score_and_slope(self, betas: Float, weights: Any, draws: Int | None = None) -> tuple[Float, Float]:
        if len(betas) > 1 or weights is not self.own:
            return super().score_and_slope(betas, weights, draws)
        if not self.kept.begun and self.sketch()[1] > PART:
            self.kept.begun = True
            return super().score_and_slope(betas, weights, draws)
        found = self.totals(betas[0])
        return found.score[None], found.slope[None]

    def totals(self, beta: Float, slope: Float | None = None) -> Totals:
        found = self.kept.totals
        if found is None or not np.array_equal(beta, self.kept.beta):  # type: ignore[arg-type]
            found = self.kept.keep(beta, self._carried(beta) or super().totals(beta))
        return found if slope is None else replace(found, slope=slope)

    def totals_at(self, betas: Sequence[Float]) -> list[Totals | SolveError]:
        """As many in a pass as are held at a time."""
        each = self.d * max(self.sampling.groups or 0, 3 * self.d)
        size, found = max(1, TOTALS // each), list[Totals | SolveError]()
        for some in (betas[low : low + size] for low in range(0, len(betas), size)):
            parts = self._added(partial(self._summing.at, some)).values
            found += [
                t if isinstance(t, SolveError) else self._finished(t, b) for b, t in zip(some, parts, strict=True)
            ]
        return found

    def _carried(self, beta: Float) -> Totals | None:
        """Those of the last value, with what changes on the way to this one taken from the sample; None where its halves do not agree on it, or
        it does not tell."""
        known, last = self.kept.totals, self.kept.beta
        if self.few is None or known is None or last is None or known.clusters is not None or known.sums:
            return None
        middle, each = self.few.sampling.rows // 2, self.sketch()[1]
        halves = [replace(self.few, runs=(half,)) for half in (slice(0, middle), slice(middle, None))]
        ends = [(half.totals(last), half.totals(beta)) for half in halves]
        found = known.moved(ends[0][0] + ends[1][0], ends[0][1] + ends[1][1], beta - last, each)
        with (
            np.errstate(all="ignore"),
            suppress(np.linalg.LinAlgError),
        ):  # far out a slope may vanish, and a variance overflow
            apart = np.subtract(*(known.moved(*pair, beta - last, 2 * each).covariance for pair in ends))
            errors = np.sqrt(np.diag(found.covariance))
            agree = 0.5 * np.abs(apart / np.outer(errors, errors)).max() <= CARRIED
            return found if agree and found.stands_out(known) else None
        return None

    def spread(self, beta: Float, weights: Any) -> Float:  # noqa: ARG002 - the scale on which a score is zero
        few, each = self.sketch()
        return few.spread(beta, few.own) * np.sqrt(each)

    # Remarks come from some of the records, and so do starts, but for what a first stage over all of them tells.

    def start(self, weights: Any, solve: Callable[[Engine, Any], Float]) -> Float:
        assert self.few is not None
        first = self.equation.first
        if first is None or first.sums is None or weights is not self.own:
            return self.few.start(self.few.own, solve)
        whole = self._changed(lambda equation: _first(equation).equation)
        try:
            found = solve(whole, whole.own)
        except SolveError:
            return self.few.start(self.few.own, solve)
        return first.completed(found, self.summed(lambda b: _sums_at_first(b, found)))

    def pilot(self) -> LocalEngine | None:
        return self.few

    def sketch(self) -> tuple[Engine, float]:
        assert self.few is not None
        return self.few, self.sampling.rows / self.few.sampling.rows

    def remarks(self, beta: Float, covariance: Float) -> list[Any]:
        """Of the sample, at the weight of all records."""
        assert self.few is not None
        own, squares = self.few.sampling.row_weights, self.few.sampling.square_weights
        each = self.sampling.total / own.sum()
        return self.equation.remarks(beta, each * own, covariance, each * squares)

    def privacy_by_unit(self, beta: Float, shares: Float | None = None) -> NoReturn:  # noqa: ARG002
        raise PramanaError(
            "records that share a draw are split by unit in memory alone: raise memory=, or use target='superpopulation'"
        )

    def scores_by(self, influence: Any, codes: Int, groups: int) -> NoReturn:  # noqa: ARG002
        raise PramanaError("codes of all records are in memory alone: ask blocks, which know their own")

    # Blocks.

    def summed(self, part: Callable[[SampledBlock], T]) -> T:
        """The sum over all blocks of whatever adds."""
        return self._added(part)

    def _added(self, part: Callable[[SampledBlock], T], draws: int = 1) -> T:
        work = _Answer(part, self.blocks, self.changes, max(1, WEIGHT_ENTRIES // draws))
        return added(self.workers.answers(work, self.jobs()))


def _of_regression(part: Callable[[Regression], Any], block: SampledBlock) -> Any:
    scale = block.equation.about.scale
    assert scale is not None
    return part(scale.regression(block.sampling.row_weights))


@dataclass(frozen=True)
class _Answer(Generic[T]):
    """The sum over the blocks of a job, of no more than so many records each; None where none of its records is in use.

    It travels to the workers, and holds no records.
    """

    part: Callable[[SampledBlock], T]
    blocks: Callable[[Any], Iterator[SampledBlock]]
    changes: tuple[Change, ...]
    size: int

    def __call__(self, job: Any) -> T | None:
        return added(self.part(cut) for block in self.blocks(job) for cut in self._changed(block).cut(self.size))

    def _changed(self, block: SampledBlock) -> SampledBlock:
        for change in self.changes:
            block = replace(block, equation=change(block.equation))
        return block


@dataclass(frozen=True)
class _Together:
    """Ranks of the same designs in several blocks."""

    ranks: tuple[Rank, ...]

    def __add__(self, other: _Together) -> _Together:
        return _Together(tuple(a + b for a, b in zip(self.ranks, other.ranks, strict=True)))


def _first(equation: Equation) -> FirstStage:
    assert equation.first is not None
    return equation.first


def _sums_at_first(block: SampledBlock, root: Float) -> Float:
    sums = _first(block.equation).sums
    assert sums is not None
    return sums(root, block.sampling.row_weights)


def _mean_one(sums: Float, units: float) -> Float:
    """What makes the mean of so many units 1, by the sum of their weights (B, 1)."""
    return np.divide(units, sums, out=np.full_like(sums, np.nan), where=sums > 0)

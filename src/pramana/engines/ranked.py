"""Quantiles of records that are not held: a pass of sums in bins, then the records near every crossing, and nothing else of them.

Under weight draws the same: sums of fewer bins for every draw, then the records near the crossing of any of them with their weights, so that
a batch of draws takes two passes, and each draw's quantile is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pramana.arrays import Bool, Float
from pramana.engines.local import SampledBlock
from pramana.engines.streaming import MOST_DRAWS, OwnWeights, StreamEngine
from pramana.errors import PramanaError, quoted_terms
from pramana.estimating.binned import Binned, Bins, BinSums, DrawnPoints, DrawnSums, Points
from pramana.estimating.distribution import Distribution, DistributionEquation, default_bandwidth
from pramana.estimating.equation import Note

MOST = 4_000_000
"""Records near the quantiles that are held, times domains."""
DRAWN_BINS = 2048
"""Bins whose sums are held for every draw."""
DRAWN_ENTRIES = 2_000_000
"""Sums of bins under draws that one part of a pass holds: a batch has as many draws as fit."""
DRAWN_POINTS = 20_000_000
"""Weights of the records near the quantiles, under draws, that are held at a time."""
REACH = 5.0
"""Standard errors around a quantile whose records are asked for at once: most intervals end there."""


@dataclass(frozen=True)
class RankedEngine(StreamEngine):
    """Records that are read in blocks, for quantiles of them.

    Attributes
    ----------
    known : what is known of their distribution so far; the last one is the most.
    """

    known: list[Binned] = field(default_factory=list, repr=False, compare=False)

    def learned(self) -> RankedEngine:
        """With the bandwidth that all released values give."""
        few, size = self.few, self.sampling.effective_n
        assert few is not None
        sample = self._own.learned(few.sampling.row_weights, size)
        bins, centre = Bins.around(sample.measure.values), float(sample.measure.values.mean())
        sums = self._added(lambda b: BinSums.of(bins, centre, *_told(b), b.sampling.square_weights))
        engine = replace(self, known=[Binned.of(bins, centre, sums)])
        engine._know(engine._guessed(sample, engine.known[-1]) | engine.known[-1].quartered())
        spread, learning = engine.known[-1].spread(), float(sums.masses.weight.sum())
        size = size * learning / sums.overall.total
        window = default_bandwidth(1.0 if spread is None else spread, size)
        lesson = replace(sample, measure=replace(sample.measure, size=size, given=window)).rows(slice(0, 1))
        return engine._changed(lambda e: e.taught(lesson))  # type: ignore[return-value]

    def direct(self, weights: Any) -> Float:
        if not isinstance(weights, OwnWeights):
            return self._under(weights)
        standing = self._standing(np.zeros((1, self.d)))
        return standing.solution(np.ones((1, len(standing.measure.values))))

    @property
    def draws_at_once(self) -> int:
        return int(np.clip(DRAWN_ENTRIES // (len(self._drawn_bins) * self._own.measure.count), 1, MOST_DRAWS))

    @cached_property
    def _drawn_bins(self) -> Bins:
        """Fine where the quantiles of draws will lie, and coarse elsewhere."""
        known = self.known[-1]
        fine = self._guessed(self._own, replace(known, exact=np.zeros(len(known.bins), dtype=bool)))
        return known.bins.coarser(fine, DRAWN_BINS)

    def _under(self, weights: Any) -> Float:
        """The quantiles (B, d) under weight draws; their kernel is that of the sample's own weights."""
        bins, own = self._drawn_bins, self._own
        sums = self._added(lambda b: DrawnSums.of(bins, _told(b)[0], weights.of(b)), len(weights))
        drawn = [sums.binned(bins, m) for m in range(len(weights))]
        wanted = _any(self._crossed(binned) for binned in drawn)
        count = float(sums.count[wanted].sum())
        self._refuse_many(count)
        out, size = np.empty((len(weights), self.d)), max(1, int(DRAWN_POINTS // max(count, 1)))
        for low in range(0, len(weights), size):
            some = weights.some(slice(low, low + size))
            points = self._added(_points_of(bins, wanted, some), len(some)) if wanted.any() else None
            for m in range(len(some)):
                binned = drawn[low + m] if points is None else drawn[low + m].refined(wanted, points.under(m))
                standing = binned.standing(own.measure.domains, own.measure.size, own.measure.window)
                out[low + m] = replace(own, measure=standing).solution(np.ones((1, len(standing.values))))[0]
        return out

    def _crossed(self, binned: Binned) -> Bool:
        """The bins whose records decide the quantiles."""
        functional, domains = self._own.function.functional, len(binned.totals)
        levels, h = functional.levels(np.zeros((1, self.d)), binned.totals)[0], functional.width(self._own.measure)
        inside = [(j % domains, q) for j, q in enumerate(levels.tolist()) if 0 < q < 1]
        return _any([binned.doubtful(domain, q, q, h) for domain, q in inside])

    def inverted(self, scores: Float) -> Float:
        standing = self._standing(scores)
        return standing.inverted(scores, np.ones(len(standing.measure.values)))

    def refusal(self, weights: Any) -> str:  # noqa: ARG002
        standing = replace(self._own, measure=self._support)
        return standing.refusal(np.ones(len(standing.measure.values)))

    def remarks(self, beta: Float, covariance: Float) -> list[Note]:
        standing = self._standing(np.zeros((1, self.d)))
        ones = np.ones(len(standing.measure.values))
        return standing.remarks(beta, ones, covariance, ones)

    @property
    def _own(self) -> DistributionEquation:
        assert isinstance(self.equation, DistributionEquation)
        return self.equation

    @property
    def _support(self) -> Distribution:
        own = self._own.measure
        return self.known[-1].standing(own.domains, own.size, own.window)

    def _standing(self, scores: Float) -> DistributionEquation:
        """The equation of values that stand for all records where the scores (k, d) of the quantiles take these values."""
        functional, totals = self._own.function.functional, self.known[-1].totals
        domains = len(totals)  # of every quantile, in turn
        levels, h = functional.levels(scores, totals), functional.width(self._own.measure)
        self._know(
            _any(
                self.known[-1].doubtful(j % domains, level, level, h)
                for j in range(self.d)
                for level in np.unique(levels[:, j])
                if 0 < level < 1
            )
        )
        return replace(self._own, measure=self._support)

    def _guessed(self, sample: DistributionEquation, known: Binned) -> Bool:
        """Bins around the quantiles of the sample, as far as intervals will reach."""
        few, functional = self.few, sample.function.functional
        assert few is not None
        weights, h = few.sampling.row_weights, 1.1 * functional.width(sample.measure)
        beta = sample.solution(weights[None])[0]
        if not np.all(np.isfinite(beta)):
            return np.zeros(len(known.bins), dtype=bool)
        times = self.sampling.rows / few.sampling.rows
        moves = REACH * np.sqrt(np.diag(sample.outer(beta, weights**2)) * times)
        ends = functional.levels(np.stack([moves, -moves]), known.totals)
        domains = len(known.totals)
        return _any(known.doubtful(j % domains, low, high, h) for j, (low, high) in enumerate(ends.T.tolist()))

    def _know(self, wanted: Bool) -> None:
        """Ask for the records of bins."""
        if not wanted.any():
            return
        known = self.known[-1]
        self._refuse_many(float(known.sums.masses.count[wanted].sum()))
        bins, centre = known.bins, known.centre
        self.known[:] = [known.refined(wanted, self._added(lambda b: Points.of(bins, wanted, centre, *_told(b))))]

    def _refuse_many(self, count: float) -> None:
        if count * self.d > MOST:
            raise PramanaError(
                f"{count:.3g} records lie so near to {quoted_terms(self.about.parameters[:3])} that the kernel needs them one by one, above the limit of "
                f"{MOST / self.d:.3g}: give a smaller bandwidth=, raise memory=, or fit a sample of the records"
            )


def _points_of(bins: Bins, wanted: Bool, weights: Any) -> Callable[[SampledBlock], DrawnPoints]:
    return lambda b: DrawnPoints.of(bins, wanted, _told(b)[0], weights.of(b))


def _told(block: SampledBlock) -> tuple[Distribution, Float, Float]:
    """The distribution of a block, its row weights, and those of released values that a bandwidth is learned from."""
    equation, weights = block.equation, block.sampling.row_weights
    assert isinstance(equation, DistributionEquation)
    inside = equation.records.inside
    return equation.measure, weights, weights if inside is None else weights * inside


def _any(parts: Any) -> Bool:
    return np.logical_or.reduce(list(parts))

"""The climb to the maximum of a likelihood of records that are read in blocks: sums of all records, pass by pass.

Each climb is a generator: it asks for the sums at some parameter values, is given them, and asks on or returns where it ended. Several climbs
are asked in the same passes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

import numpy as np

from pramana.analysis.reading import Stream
from pramana.arrays import Float, Int
from pramana.engines.local import Several, added
from pramana.engines.sampling import Sampling, StreamedSampling
from pramana.errors import SolveError
from pramana.estimating import EstimatingFunction
from pramana.estimating.collinearity import unjudged
from pramana.estimators.likelihood.covariate_model import ABSENT, CovariatePlan, torn
from pramana.estimators.likelihood.hidden_data import entries_of_record, hidden_data
from pramana.estimators.likelihood.maximization import (
    DECREMENT,
    Maximum,
    Reached,
    newton_step,
    runs_away,
    small_step,
    stalled,
)
from pramana.estimators.likelihood.observed import ObservedLikelihood, State, Theta
from pramana.estimators.likelihood.starts import (
    REACH,
    SCREENING,
    SWAP_ROUNDS,
    SWAPS,
    ChannelCounts,
    Where,
    channel_counts,
    differ,
    is_clear,
    promising,
    relabelings,
)
from pramana.estimators.likelihood.variance import FaceValue, ScoreSums, score_sums
from pramana.frames import Table
from pramana.kernels.leverage import Frame
from pramana.mechanism import Mechanism

STEPS = 40
"""Steps after which a climb is given up; each is a pass, or two where a full step leads down."""
SIZES = (0.5, 0.25, 0.125, 1 / 16, 1 / 64, 1 / 256)
"""Parts of a step that are tried together where the full one leads down."""
BLENDS = (0.03, 0.1, 0.3, 1.0)
"""Shares of the complete information in the metric of a step where the observed one is not positive definite."""
FARTHEST = 3.0
"""Largest change of a logit, or of the logarithm of a dispersion, in one step."""
ENTRIES = 1 << 21
"""Numbers in the largest array of records that are worked on at once."""
CLOSE = 0.1
"""Log-likelihood below a maximum at which a climb with its coefficients is taken to end there, and rise of a climb in a pass that counts."""
CRAWLING = 5
"""Passes without such a rise after which a climb that is far lower than a maximum is left behind."""
OPENED = (-2.0, -4.0, -6.0, -8.0, -10.0)
"""Logits at which an entry of a table that was held at zero is tried."""
BEYOND, CALLED = 20.0, 16
"""Size of a coefficient of a logit at which a probability is so small that no record pulls at it, and how many such are tried nearer."""
OPENINGS = 3
"""Times that a climb lets such entries go: one whose maximum is all but zero would be held and let go for ever."""


@dataclass(frozen=True)
class SumsAsked:
    """What sums are of: values of the parameter, and whether scores are summed for a robust covariance, by so many clusters."""

    thetas: tuple[Theta, ...]
    robust: bool
    groups: int


@dataclass(frozen=True)
class LikelihoodSums:
    """Of some records at one parameter value; those of two parts add.

    Attributes
    ----------
    complete : the information were nothing hidden (q, q).
    entries : Σ w of each cell (Q, 1), and of the posterior of each combination in it (Q, M); None where the covariates have no table.
    pull : of a logit (Q, M), as in `CovariateModel.pull`; None where the covariates have none.
    outer, clusters : as in `ScoreSums`; None where they were not asked for.
    """

    value: float
    score: Float
    information: Float
    complete: Float
    face: FaceValue
    entries: tuple[Float, Float] | None
    pull: Float | None
    outer: Float | None
    clusters: Float | None

    @classmethod
    def of(cls, model: ObservedLikelihood, state: State, scores: ScoreSums | None) -> LikelihoodSums:
        covariates = model.covariates
        entries, pull = None, None
        if model.data.hides_covariates:
            posterior = model.gathered(state.posterior)
            if covariates.saturated:
                size = covariates.design.T @ model.weights
                entries = size[:, None], covariates.design.T @ (posterior * model.weights[:, None])
            else:
                pull = covariates.pull(np.exp(state.prior), posterior, model.weights)
        return cls(
            state.value,
            *model.score_and_information(state),
            model.complete_information(state),
            FaceValue.of(model, state),
            entries,
            pull,
            None if scores is None else scores.outer,
            None if scores is None else scores.clusters,
        )

    def __add__(self, other: LikelihoodSums) -> LikelihoodSums:
        return LikelihoodSums(
            self.value + other.value,
            self.score + other.score,
            self.information + other.information,
            self.complete + other.complete,
            self.face + other.face,
            None if self.entries is None or other.entries is None else _pairwise(self.entries, other.entries),
            None if self.pull is None or other.pull is None else self.pull + other.pull,
            None if self.outer is None or other.outer is None else self.outer + other.outer,
            None if self.clusters is None or other.clusters is None else self.clusters + other.clusters,
        )

    def growth(self, theta: Theta) -> Float:
        """By how much a step of EM would multiply each entry of the table (Q, M): below 1 at zero where zero is the maximum."""
        assert self.entries is not None
        size, after = self.entries
        return np.asarray(after / (size * _shares(theta.gamma)))


def _pairwise(one: tuple[Float, Float], other: tuple[Float, Float]) -> tuple[Float, Float]:
    return one[0] + other[0], one[1] + other[1]


def _shares(gamma: Float) -> Float:
    """Probabilities (Q, M) of a table of logits."""
    weight = np.exp(gamma - gamma.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class BlockLikelihood:
    """The likelihood of whichever records. It travels to whoever reads them, and holds none.

    Attributes
    ----------
    also : perturbed columns outside the formula that are part of the likelihood.
    records : that there are in all.
    """

    function: EstimatingFunction
    mechanism: Mechanism | None
    plan: CovariatePlan
    also: tuple[str, ...]
    records: float

    def models(self, table: Table, sampling: Sampling) -> Iterator[tuple[ObservedLikelihood, Table, Sampling]]:
        """Of the records with a positive weight, some at a time, and these."""
        live = np.flatnonzero(sampling.row_weights > 0)
        widest = max(entries_of_record(self.function, self.mechanism, self.also), self.plan.coefficients)
        size = max(1, ENTRIES // widest)
        for low in range(0, live.size, size):
            rows = live[low : low + size]
            whole = rows.size == table.n
            some = sampling if whole else _of_rows(sampling, rows)
            part = table if whole else table.take(rows)
            yield self._model(part, some.row_weights), part, some

    def _model(self, table: Table, weights: Float) -> ObservedLikelihood:
        with unjudged():  # the design of the sample has full rank
            data = hidden_data(self.function, self.mechanism, table, self.also, self.records)
            return ObservedLikelihood(data, self.plan.of(table), weights)

    def channel_counts(self, table: Table, sampling: Sampling) -> Several[ChannelCounts] | None:
        found: Several[ChannelCounts] | None = added(
            Several(tuple(column.merged() for column in channel_counts(model)))
            for model, _, _ in self.models(table, sampling)
        )
        return found

    def sums(self, asked: SumsAsked, table: Table, sampling: Sampling) -> Several[LikelihoodSums] | None:
        found: Several[LikelihoodSums] | None = added(
            Several(tuple(_sums_at(model, some, theta, asked) for theta in asked.thetas))
            for model, _, some in self.models(table, sampling)
        )
        return found

    def shares(self, theta: Theta, groups: int, frame: Frame, table: Table, sampling: Sampling) -> Float | None:
        """Σ w² s sᵀ by cluster (G, q, q), in a frame."""
        found: Float | None = added(
            score_sums(model, model.evaluate(theta), some, groups).shares(frame)
            for model, _, some in self.models(table, sampling)
        )
        return found


def _sums_at(model: ObservedLikelihood, sampling: Sampling, theta: Theta, asked: SumsAsked) -> LikelihoodSums:
    state = model.evaluate(theta)
    return LikelihoodSums.of(model, state, score_sums(model, state, sampling, asked.groups) if asked.robust else None)


def _of_rows(sampling: Sampling, rows: Int) -> Sampling:
    """What the likelihood needs to know of some records."""
    weights, counts = (None if v is None else v[rows] for v in (sampling.weights, sampling.frequencies))
    return Sampling(rows.size, weights, counts, None if sampling.clusters is None else sampling.clusters[rows])


Climb: TypeAlias = Generator[list[Theta], Sequence[LikelihoodSums], "Top | Reached"]
TrialSteps: TypeAlias = Generator[list[Theta], Sequence[LikelihoodSums], "Place | None"]
Ends: TypeAlias = tuple[list["Top"], list[Reached]]
"""The maxima that were found, and where climbs ended that found none."""


@dataclass(frozen=True)
class Place:
    """A parameter value with the sums there, and whether nothing was left to be done after the step to it."""

    theta: Theta
    sums: LikelihoodSums
    settled: bool = False


@dataclass(frozen=True)
class Top:
    """A maximum of all records."""

    theta: Theta
    sums: LikelihoodSums

    @property
    def value(self) -> float:
        return self.sums.value

    @property
    def information(self) -> Float:
        return self.sums.information

    @property
    def maximum(self) -> Maximum:
        return Maximum(self.theta, self.value, self.information)


@dataclass
class _Climbing:
    """A climb under way.

    Attributes
    ----------
    asked : the values at which it asks for sums.
    theta, value : the highest place so far, and the log-likelihood there.
    information : there.
    slow : passes since it rose by what counts.
    """

    climb: Climb
    asked: list[Theta]
    theta: Theta
    value: float = -np.inf
    information: Float = field(default_factory=lambda: np.zeros((0, 0)))
    slow: int = 0

    @classmethod
    def begun(cls, climb: Climb) -> _Climbing:
        asked = next(climb)
        return cls(climb, asked, asked[0])

    def told(self, sums: Sequence[LikelihoodSums]) -> Top | Reached | None:
        """Go on with the sums that were asked for; where it ended, or None."""
        best = int(np.argmax([s.value for s in sums]))
        self.slow = 0 if sums[best].value > self.value + CLOSE else self.slow + 1
        if sums[best].value > self.value:
            self.theta, self.value, self.information = self.asked[best], sums[best].value, sums[best].information
        try:
            self.asked = self.climb.send(sums)
        except StopIteration as end:
            found: Top | Reached = end.value
            return found
        return None

    def follows(self, other: Top | _Climbing) -> bool:
        """Whether this climb seems to end where another one does."""
        return abs(other.value - self.value) <= CLOSE and not differ(self, other, other.information)


@dataclass
class Climber:
    """All records, and the likelihood of a sample of them, of which it asks what does not depend on the records.

    Attributes
    ----------
    places : of the sample's cells among those of all records.
    robust : whether scores are summed on the way for a robust covariance.
    passes : over all records, so far.
    followers : climbs that were left because they led where others did.
    """

    sample: ObservedLikelihood
    places: Int
    block: BlockLikelihood
    stream: Stream
    sampling: StreamedSampling
    robust: bool
    passes: int = field(default=0, init=False)
    followers: list[Reached] = field(default_factory=list, init=False)

    def is_clear(self) -> bool:
        """Whether the noise leaves no doubt over all records: a pass."""
        self.passes += 1
        counts = self.stream.summed(self.block.channel_counts).values
        return is_clear(counts, self._worth)

    @property
    def _worth(self) -> float:
        """Records that a unit of weight stands for."""
        return self.sampling.effective_n / self.sampling.total

    def climbed(self, starts: Sequence[Theta]) -> Ends:
        """The maxima to which starts of the sample lead, and where climbs ended that found none; after `SCREENING` passes, only the promising
        climbs go on."""
        return self._climbed([self._filled(theta) for theta in starts], [])

    def searched(self, starts: Sequence[Theta]) -> Ends:
        """The same, then from exchanges of the labels of the best maximum, as long as they lead higher."""
        tops, ends = self.climbed(starts)
        for _ in range(SWAP_ROUNDS if tops else 0):
            best = max(tops, key=_height)
            swaps = sorted(relabelings(self.sample, best.theta), key=self._height_in_sample, reverse=True)[:SWAPS]
            if not swaps:
                break
            tops, lost = self._climbed(swaps, tops)
            ends = [*ends, *lost]
            if max(map(_height, tops)) <= best.value + 1e-6:
                break
        return tops, ends

    def _filled(self, theta: Theta) -> Theta:
        """With all cells, of which the sample may lack some."""
        sizes = self.sample.weights @ self.sample.covariates.design
        return replace(theta, gamma=self.block.plan.filled(theta.gamma, sizes, self.places))

    def _height_in_sample(self, theta: Theta) -> float:
        return self.sample.evaluate(replace(theta, gamma=theta.gamma[self.places])).value

    def _climbed(self, starts: Sequence[Theta], known: Sequence[Top]) -> Ends:
        """Maxima beside those that are known, and these."""
        climbs = [_Climbing.begun(self._climb(theta)) for theta in starts]
        tops, ends, passed = list(known), list[Reached](), 0
        while climbs:
            if passed == SCREENING:
                climbs = promising(self._distinct(climbs), self.sample.data.design.std(axis=(0, 1)))
            passed += 1
            sums = iter(self._sums([theta for climb in climbs for theta in climb.asked]))
            found = [climb.told(list(islice(sums, len(climb.asked)))) for climb in climbs]
            climbs = [climb for climb, end in zip(climbs, found, strict=True) if end is None]
            tops += [end for end in found if isinstance(end, Top)]
            ends += [end for end in found if isinstance(end, Reached)]
            climbs = self._apart(climbs, tops)
            climbs = [climb for climb in climbs if not any(self._crawls(climb, top) for top in tops)]
        return tops, ends

    def _apart(self, climbs: Sequence[_Climbing], others: Sequence[Top | _Climbing]) -> list[_Climbing]:
        """Those that do not follow others."""
        follows = [any(climb.follows(other) for other in others) for climb in climbs]
        self.followers += [Reached(climb.theta, climb.value) for climb, one in zip(climbs, follows, strict=True) if one]
        return [climb for climb, one in zip(climbs, follows, strict=True) if not one]

    def _distinct(self, climbs: Sequence[_Climbing]) -> list[_Climbing]:
        """Those that follow no higher one."""
        out: list[_Climbing] = []
        for climb in sorted(climbs, key=_height, reverse=True):
            out += self._apart([climb], out)
        return out

    def _crawls(self, climb: _Climbing, top: Top) -> bool:
        """Whether a climb hardly rises, where no rival of a maximum will be."""
        return climb.slow >= CRAWLING and (top.value - climb.value) * self._worth > REACH

    def finished(self, top: Top) -> Top:
        """With what a robust covariance needs, where the last pass was shared with other climbs."""
        if not self.robust or top.sums.outer is not None:
            return top
        return replace(top, sums=self._sums([top.theta])[0])

    def refusal(self, highest: Reached) -> SolveError:
        effort = f"{self.passes} passes over all records"
        return SolveError(stalled(self.sample, highest.theta.beta, effort))

    def _sums(self, thetas: Sequence[Theta]) -> tuple[LikelihoodSums, ...]:
        """At several values in one pass; scores are summed where there is one value."""
        self.passes += 1
        asked, block = SumsAsked(tuple(thetas), self.robust and len(thetas) == 1, self.sampling.groups or 0), self.block
        return self.stream.summed(lambda table, sampling: block.sums(asked, table, sampling)).values

    def _climb(self, theta: Theta) -> Climb:
        """Newton steps, in a metric that is blended with that of EM where the likelihood is not concave, from which entries of a table
        that were held at zero are let go where the records ask for it."""
        (sums,) = yield [theta]
        here, openings = Place(theta, sums), 0
        for _ in range(STEPS):
            there = yield from self._step(here)
            if there is None or runs_away(self.sample, there.theta.beta, there.sums.value - here.sums.value):
                break
            here = there
            if not here.settled:
                continue
            opened = (yield from self._opened(here)) if openings < OPENINGS else None
            if opened is None and _torn(here):
                break
            if opened is None:
                return Top(here.theta, here.sums)
            here, openings = opened, openings + 1
        return Reached(here.theta, here.sums.value)

    def _step(self, here: Place) -> TrialSteps:
        """A step that raises the likelihood; None where there is none."""
        sums = here.sums
        for metric, observed in _metrics(sums):
            step = _cautious(newton_step(metric, sums.score), len(here.theta.beta))
            if step is None or not (gain := float(sums.score @ step)) >= 0:
                continue
            done = observed and gain <= DECREMENT * max(1.0, abs(sums.value) * 1e-3) and small_step(here.theta, step)
            full = self._moved(here, step)
            (there,) = yield [full]
            if done or _rises(sums, there, gain):  # the gain of the last step is below rounding
                return Place(full, there, done)
            parts = [self._moved(here, size * step) for size in SIZES]
            found = yield parts
            for size, theta, there in zip(SIZES, parts, found, strict=True):
                if _rises(sums, there, size * gain):
                    return Place(theta, there)
        return None

    def _moved(self, here: Place, step: Float) -> Theta:
        """θ + step; entries of a table that shrink towards zero are set there, as in `CovariateModel.without_absent`."""
        theta = self.sample.moved(here.theta, step)
        if here.sums.entries is None:
            return theta
        fading = (_shares(theta.gamma) < 1e-5) & (here.sums.growth(here.theta) < 1)
        return replace(theta, gamma=np.where(fading, ABSENT, theta.gamma))

    def _opened(self, here: Place) -> TrialSteps:
        """Entries of a table that are held at zero, where a sample has none of them, and would grow: at the logit that raises the likelihood
        most; None where there are none."""
        if here.sums.entries is None:
            return (yield from self._called_back(here))
        held = (here.theta.gamma <= ABSENT) & (here.sums.growth(here.theta) > 1 + 1e-6)
        if not held.any():
            return None
        tried = [
            replace(
                here.theta, gamma=np.where(held, here.theta.gamma.max(axis=1, keepdims=True) + logit, here.theta.gamma)
            )
            for logit in OPENED
        ]
        found = yield tried
        best = int(np.argmax([sums.value for sums in found]))
        return Place(tried[best], found[best]) if found[best].value > here.sums.value else None

    def _called_back(self, here: Place) -> TrialSteps:
        """Coefficients of a logit that ran off in a sample, as those of a level of which it has a record or two, to where no record pulls at them any
        more: each is tried nearer, and stays where it raises the likelihood; None where none does."""
        gamma = here.theta.gamma
        off = np.argwhere(np.abs(gamma) > BEYOND)[:CALLED].tolist()
        tried = [self._at(here.theta, [(row, column)], [logit]) for row, column in off for logit in OPENED]
        if not tried:
            return None
        found = yield tried
        values = np.array([sums.value for sums in found]).reshape(len(off), len(OPENED))
        back = [k for k, value in enumerate(values.max(axis=1)) if value > here.sums.value]
        if not back:
            return None
        theta = self._at(here.theta, [off[k] for k in back], [OPENED[int(np.argmax(values[k]))] for k in back])
        (sums,) = yield [theta]
        return Place(theta, sums) if sums.value > here.sums.value else None

    @staticmethod
    def _at(theta: Theta, places: Sequence[Sequence[int]], logits: Sequence[float]) -> Theta:
        """With these coefficients as large as these logits, of the sign that they have."""
        gamma = theta.gamma.copy()
        for (row, column), logit in zip(places, logits, strict=True):
            gamma[row, column] = np.copysign(logit, gamma[row, column])
        return replace(theta, gamma=gamma)

    def score_sums(self, top: Top) -> ScoreSums:
        """Of the clusters with a record that weighs something; under a design of all units."""
        stream, sampling, block = self.stream, self.sampling, self.block
        live = slice(None) if sampling.live_units is None or sampling.strata is not None else sampling.live_units
        groups, theta = sampling.groups or 0, top.theta

        def shares(frame: Frame) -> Float:
            return stream.summed(lambda table, part: block.shares(theta, groups, frame, table, part))[live]

        assert top.sums.outer is not None
        return ScoreSums(top.sums.outer, None if top.sums.clusters is None else top.sums.clusters[live], shares)


def _height(place: Where) -> float:
    return place.value


def _metrics(sums: LikelihoodSums) -> Iterator[tuple[Float, bool]]:
    """The observed information, then blends of it with the complete one, and whether it is the observed one alone."""
    yield sums.information, True
    for share in BLENDS:
        yield (1 - share) * sums.information + share * sums.complete, False


def _torn(here: Place) -> bool:
    return here.sums.pull is not None and torn(here.theta.gamma, here.sums.pull, here.sums.face.weight)


def _cautious(step: Float | None, d: int) -> Float | None:
    """With no parameter after the first d that jumps to where it could not be told from infinity."""
    return None if step is None else np.concatenate([step[:d], np.clip(step[d:], -FARTHEST, FARTHEST)])


def _rises(here: LikelihoodSums, there: LikelihoodSums, gain: float) -> bool:
    return bool(np.isfinite(there.value)) and there.value >= here.value + 1e-4 * gain - 1e-12 * abs(here.value)

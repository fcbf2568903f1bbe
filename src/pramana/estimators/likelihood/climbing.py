"""The climb to the maximum of a likelihood of records that are read in blocks: a pass of sums for every Newton step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pramana.analysis.reading import Stream
from pramana.arrays import Float
from pramana.engines.sampling import Sampling, StreamedSampling
from pramana.errors import SolveError
from pramana.estimating import EstimatingFunction
from pramana.estimating.collinearity import unjudged
from pramana.estimators.likelihood.covariate_model import CovariateModel
from pramana.estimators.likelihood.hidden_data import hidden_data
from pramana.estimators.likelihood.maximization import DECREMENT, newton_step, settled
from pramana.estimators.likelihood.observed import ObservedLikelihood, State, Theta
from pramana.estimators.likelihood.variance import FaceValue, ScoreSums, score_sums
from pramana.frames import Table
from pramana.kernels.leverage import Frame
from pramana.mechanism import Mechanism

PASSES, HALVINGS = 30, 10
"""Newton steps, and halvings of each, after which the climb is given up."""


@dataclass(frozen=True)
class LikelihoodSums:
    """Of some records at one parameter value; those of two parts add.

    Attributes
    ----------
    outer, clusters : as in `ScoreSums`.
    """

    value: float
    score: Float
    information: Float
    outer: Float
    clusters: Float | None
    face: FaceValue

    def __add__(self, other: LikelihoodSums) -> LikelihoodSums:
        return LikelihoodSums(
            self.value + other.value,
            self.score + other.score,
            self.information + other.information,
            self.outer + other.outer,
            None if self.clusters is None or other.clusters is None else self.clusters + other.clusters,
            self.face + other.face,
        )


@dataclass(frozen=True)
class AtTheta:
    """The likelihood of whichever records at one parameter value. It travels to whoever reads them, and holds none."""

    function: EstimatingFunction
    mechanism: Mechanism | None
    covariates: CovariateModel
    theta: Theta
    groups: int

    def __call__(self, table: Table, sampling: Sampling) -> LikelihoodSums | None:
        found = self.bound(table, sampling)
        if found is None:
            return None
        model, state, own = found
        return LikelihoodSums(
            state.value, *model.score_and_information(state), own.outer, own.clusters, FaceValue.of(model, state)
        )

    def bound(self, table: Table, sampling: Sampling) -> tuple[ObservedLikelihood, State, ScoreSums] | None:
        """The likelihood of the records with a positive weight, and sums of their scores; None where there are none."""
        live = sampling.row_weights > 0
        if not live.any():
            return None
        if not live.all():
            weights, counts = (None if v is None else v[live] for v in (sampling.weights, sampling.frequencies))
            clusters = None if sampling.clusters is None else sampling.clusters[live]
            table, sampling = table.where(live), Sampling(int(live.sum()), weights, counts, clusters)
        with unjudged():  # the design of the sample has full rank
            data = hidden_data(self.function, self.mechanism, table)
        model = ObservedLikelihood(data, self.covariates, sampling.row_weights)
        state = model.evaluate(self.theta)
        return model, state, score_sums(model, state, sampling, self.groups)


@dataclass(frozen=True)
class Climber:
    """All records, and the likelihood of a sample of them."""

    model: ObservedLikelihood
    function: EstimatingFunction
    mechanism: Mechanism | None
    stream: Stream
    sampling: StreamedSampling

    def climbed(self, theta: Theta) -> tuple[Theta, LikelihoodSums]:
        """The maximum of all records, from that of the sample."""
        here = self._sums(theta)
        for _ in range(PASSES):
            step = newton_step(here.information, here.score)
            if step is None:
                break
            gain = float(here.score @ step)
            done = gain <= DECREMENT * max(1.0, abs(here.value) * 1e-3) and settled(theta, step)
            found = self._moved(theta, here, step, gain)
            if found is None:
                break
            theta, here = found
            if done:
                return theta, here
        raise SolveError(
            "the likelihood of all records has no maximum next to that of the sample: try start=, fewer terms or method='reversion'"
        )

    def _moved(
        self, theta: Theta, here: LikelihoodSums, step: Float, gain: float
    ) -> tuple[Theta, LikelihoodSums] | None:
        """A step that raises the likelihood; None where there is none."""
        size = 1.0
        for _ in range(HALVINGS):
            trial = self.model.moved(theta, size * step)
            there = self._sums(trial)
            if np.isfinite(there.value) and there.value >= here.value + 1e-4 * size * gain - 1e-12 * abs(here.value):
                return trial, there
            size /= 2
        return None

    def _sums(self, theta: Theta) -> LikelihoodSums:
        return self.stream.summed(self._at(theta))

    def _at(self, theta: Theta) -> AtTheta:
        empty = replace(
            self.model.covariates, design=self.model.covariates.design[:0]
        )  # of which a likelihood without hidden ones asks nothing
        return AtTheta(self.function, self.mechanism, empty, theta, self.sampling.groups or 0)

    def score_sums(self, theta: Theta, sums: LikelihoodSums) -> ScoreSums:
        """Of the clusters with a record that weighs something; under a design of all units."""
        at, stream, sampling = self._at(theta), self.stream, self.sampling
        live = slice(None) if sampling.live_units is None or sampling.strata is not None else sampling.live_units

        def shares(frame: Frame) -> Float:
            def part(table: Table, sampling: Sampling) -> Float | None:
                found = at.bound(table, sampling)
                return None if found is None else found[2].shares(frame)

            return stream.summed(part)[live]

        return ScoreSums(sums.outer, None if sums.clusters is None else sums.clusters[live], shares)

"""Variances of a maximum likelihood fit, and how much the released data say about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines import Sampling, Stratification
from pramana.errors import PramanaError, SolveError, too_few
from pramana.estimators.likelihood.observed import ObservedLikelihood, State
from pramana.estimators.remarks import few_clusters, too_few_clusters
from pramana.estimators.uncertainty import freedom
from pramana.inference import Resampling, Sandwich
from pramana.inference.few_units import ENOUGH, SmallSample, of_clusters, of_strata
from pramana.inference.survey import refuse_correction
from pramana.kernels.blocks import add_by_group, by_group, gram
from pramana.kernels.leverage import Frame, Units, units_of_clusters
from pramana.mechanism import Assignment

WEAK = 4.0
"""Root of the number of records without noise below which a fit is reported, and the limit for σ √n of a channel."""
PRODUCTS = 500_000
"""Products of scores that are held at once."""
LARGEST = 500
"""Levels beyond which no singular values are computed."""


def weak_directions(names: Sequence[str], face: Float, variance: Float, records: float) -> list[Diagnostic]:
    """A diagnostic where the information along some coefficients is worth too few records; `face` is that of the released values at face value.

    The weakest direction is the one whose variance, the inverse of the observed information (d, d), exceeds that of the
    released values at face value most. Reversion asks for a share of √m standard errors from zero, m the records that
    carry it: the same limit here asks for m = 16.
    """
    half = np.linalg.cholesky(face)
    values, vectors = np.linalg.eigh(half.T @ variance @ half)
    worth = records / float(values[-1])
    if worth >= WEAK**2:
        return []
    loading = np.abs(np.linalg.solve(half.T, vectors[:, -1])) * np.linalg.norm(half, axis=1)
    named = ", ".join(repr(p) for p, v in zip(names, loading / np.linalg.norm(loading), strict=True) if v > 0.3)
    remedy = "merge levels, use more records or fewer terms"
    if worth < 1:
        message = (
            f"the released data say next to nothing about {named} (as much as {worth:.1g} records without noise): estimate and "
            f"standard errors mean nothing; {remedy}"
        )
        return [Diagnostic("not-identified", "error", message)]
    message = (
        f"too noisy to trust this interval of {named} (the released data say as much as {worth:.1f} records without noise, want "
        f"{WEAK**2:g}): {remedy}"
    )
    return [Diagnostic("weakly-identified", "warning", message)]


def faint_channels(model: ObservedLikelihood, assignments: Sequence[Assignment], records: float) -> list[Diagnostic]:
    """A diagnostic where a covariate's channel lets through too little: the likelihood is then a mixture with several
    maxima, each as sharply curved as if it were the right one.

    Shares of the levels have standard errors of about 1/(σ √n), σ the smallest singular value of P.
    """
    hidden = set(model.data.combinations[0])
    found = []
    for assignment in assignments:
        levels = assignment.channel.levels
        if (
            levels is None
            or assignment.channel.context
            or assignment.reports
            or len(levels) > LARGEST
            or not hidden.intersection(assignment.columns)
        ):
            continue
        matrix = assignment.channel.likelihood(np.arange(len(levels)), {})
        signal = float(np.linalg.svd(matrix, compute_uv=False)[-1] * np.sqrt(records))
        if signal < WEAK:
            message = (
                f"hardly anything of {' × '.join(assignment.columns)!r} is left after the noise (smallest singular value of P times √n is "
                f"{signal:.1f}, limit {WEAK:g}): the likelihood may have several maxima, of which the best found is shown; use more records, or "
                "merge levels"
            )
            found.append(Diagnostic("weakly-identified", "warning", message))
    return found


@dataclass(frozen=True)
class FaceValue:
    """What the records would say if the channel alone, and no model, told of their hidden values: Σ w, the precision of responses summed over
    records, and Σ w x xᵀ over the nodes; parts add."""

    weight: float
    precision: float
    curvature: Float

    @classmethod
    def of(cls, model: ObservedLikelihood, state: State) -> FaceValue:
        data, share = model.data, state.posterior * model.weights[:, None]
        alone = data.channel / data.channel.sum(axis=1, keepdims=True) * model.weights[:, None]
        precision = -float(np.sum(share * model.expected_bend(state)))
        return cls(float(model.weights.sum()), precision, model.curvature(alone))

    def __add__(self, other: FaceValue) -> FaceValue:
        return FaceValue(self.weight + other.weight, self.precision + other.precision, self.curvature + other.curvature)

    @property
    def information(self) -> Float:
        """Σ w x xᵀ (d, d) times the average precision of a response."""
        return np.asarray(self.precision / self.weight * self.curvature)


def robust_of(options: object, sampling: Sampling) -> Sandwich | None:
    if isinstance(options, Resampling):
        raise PramanaError("maximum likelihood takes no resampling: leave inference out, or use inference=Sandwich()")
    if sampling.strata is not None:
        _refuse_target(sampling.strata)
    if options is None:
        return Sandwich() if sampling.pseudo else None
    if isinstance(options, Sandwich) and options.interval not in ("auto", "wald"):
        raise PramanaError(
            "maximum likelihood has Wald intervals: use Sandwich(interval='wald'), or method='reversion'"
        )
    if not isinstance(options, Sandwich):
        raise PramanaError(f"inference of type {type(options).__name__} does not suit maximum likelihood")
    if sampling.strata is not None:
        refuse_correction(options)
    return options


def _refuse_target(design: Stratification) -> None:
    """Sampling and randomisation cannot be told apart in the score of released data."""
    if design.target != "superpopulation":
        raise PramanaError(
            f"target={design.target!r} needs the randomisation's own part of the variance, which a likelihood of the released "
            "data does not separate from sampling: use target='superpopulation', or method='reversion'"
        )


def refuse_few(sampling: Sampling, d: int) -> None:
    if sampling.present <= d:
        raise too_few(sampling.present, d)


def inverse_information(information: Float) -> Float:
    scale = np.sqrt(np.diag(information))
    scaled = information / np.outer(scale, scale)
    condition = float(np.linalg.cond(scaled))
    if not condition < 1e12:
        raise SolveError(
            f"the observed information cannot be inverted (condition number {condition:.1e}, limit 1e+12): merge levels, "
            "drop terms, or give a smaller covariate_model"
        )
    return np.asarray(np.linalg.inv(scaled) / np.outer(scale, scale))


@dataclass(frozen=True)
class Robust:
    """A robust covariance (p, p), and what few units changed in it, or None."""

    covariance: Float
    small: SmallSample | None

    def degrees_of_freedom(self, sampling: Sampling, d: int) -> float | Float | None:
        """Of the first d parameters."""
        return sampling.degrees_of_freedom if self.small is None else self.small.df[:d]


@dataclass(frozen=True)
class ScoreSums:
    """What a robust covariance needs of the records' scores s.

    Attributes
    ----------
    outer : Σ w² s sᵀ (q, q); counts are so many equal records.
    clusters : Σ w s by cluster (G, q), or None.
    shares : the same as outer by cluster (G, q, q), in a frame.
    records : scores (n, q), w² and codes of clusters (n,), where they are in memory.
    """

    outer: Float
    clusters: Float | None
    shares: Callable[[Frame], Float]
    records: tuple[Float, Float, Int] | None = None

    def units(self, frame: Frame) -> list[Units]:
        """The clusters, by the scores of their records where those are few."""
        assert self.clusters is not None
        own, r = frame.scores(self.clusters), len(frame.into)
        if self.records is not None and len(self.records[0]) < len(own) * r:
            scores, square, codes = self.records
            values = square[:, None]
            return list(units_of_clusters(frame, own, frame.scores(scores)[:, None], values, values, codes))
        shares = self.shares(frame)
        return [Units(frame, own, shares, shares, np.ones(len(own)), places=np.arange(len(own)))]


def score_sums(model: ObservedLikelihood, state: State, sampling: Sampling, groups: int) -> ScoreSums:
    """Of records in memory, in so many clusters."""
    scores = model.scores(state)
    square = model.weights if sampling.weights is None else model.weights * sampling.weights
    clusters = sampling.clusters
    own = None if clusters is None else by_group(scores * model.weights[:, None], clusters, groups)
    return ScoreSums(
        gram(scores, square),
        own,
        lambda frame: _shares_by_cluster(frame, scores, square, clusters, groups),
        None if clusters is None else (scores, square, clusters),
    )


def _shares_by_cluster(frame: Frame, scores: Float, square: Float, clusters: Int | None, groups: int) -> Float:
    """Σ w² s sᵀ of each cluster (G, q, q), in the frame."""
    assert clusters is not None
    r = len(frame.into)
    out, step = np.zeros((groups, r, r)), max(1, PRODUCTS // r**2)
    for rows in (slice(k, k + step) for k in range(0, len(scores), step)):
        own = frame.scores(scores[rows])
        add_by_group(out, own[:, :, None] * own[:, None, :] * square[rows, None, None], clusters[rows])
    return out


def robust_covariance(sums: ScoreSums, inverse: Float, sampling: Sampling, robust: Sandwich, d: int) -> Robust:
    """I⁻¹ (Σ w² s sᵀ) I⁻¹ with sums over clusters where there are any, centred within strata under a design."""
    n, outer = sampling.n, sums.outer
    factor = n / (n - d)
    if sums.clusters is None:
        covariance = inverse @ outer @ inverse
        small = _records(covariance, sampling, robust)
        if small is not None:
            return Robust(small.covariance, small)
        return Robust(covariance * (factor if robust.correction == "HC1" else 1.0), None)
    groups, by_cluster = sampling.groups or 0, sums.clusters
    meat = by_cluster.T @ by_cluster if sampling.strata is None else sampling.strata.between(by_cluster)
    covariance = inverse @ meat @ inverse
    if not robust.small_sample or groups >= ENOUGH * (len(inverse) + 1):
        factor = groups / (groups - 1) * (n - 1) / (n - d)
        return Robust(covariance * (factor if robust.correction == "HC1" else 1.0), None)
    frame = Frame.of_scores(inverse, outer)
    if sampling.strata is None:
        small = of_clusters(frame, sums.units(frame), covariance)
    else:
        small = of_strata(frame, sums.units(frame), by_cluster, sampling.strata, covariance)
    return Robust(small.covariance, small)


def _records(covariance: Float, sampling: Sampling, robust: Sandwich) -> SmallSample | None:
    """Records that are worth few equal ones, of which each parameter takes one."""
    records, size = sampling.effective_n, len(covariance)
    if not robust.small_sample or records >= ENOUGH * size or records <= size + 1:
        return None
    return SmallSample.scaled(covariance, np.full(size, records / (records - size)), np.full(size, records - size))


def cluster_remarks(sampling: Sampling, robust: Sandwich | None) -> list[Diagnostic]:
    if not sampling.clustered or sampling.strata is not None:
        return []
    if robust is None or robust.small_sample:
        return too_few_clusters(sampling.groups)
    return few_clusters(sampling.groups, "use inference=pr.Sandwich(), whose intervals are those of t")


def kind_of_errors(robust: Sandwich | None, sampling: Sampling, small: SmallSample | None, d: int) -> str:
    if robust is None:
        return "observed information, wald intervals"
    if sampling.strata is not None:
        units = f"{len(sampling.strata.fraction)} strata, {(sampling.groups or 0)} sampling units"
        return f"pseudo-likelihood, linearised for the design ({units}; around the superpopulation), wald intervals"
    by = f", {(sampling.groups or 0)} clusters" if sampling.clustered else ""
    name = (robust.correction or ("HC0" if small is None else "HC2")).replace("HC", "CR" if by else "HC")
    t = "" if small is None else f", t with {freedom(small.df[:d])}"
    return f"robust sandwich of the likelihood ({name}{by}{t}), wald intervals"

"""Is the model of the likelihood right? Reversion needs less of it, so the two must agree."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pramana.analysis.task import Task
from pramana.arrays import Columns, Float, Int
from pramana.engines import Sampling
from pramana.engines.local import added
from pramana.errors import FormulaError, MechanismError, PramanaError
from pramana.estimating import EstimatingFunction
from pramana.estimators.likelihood.hidden_data import checked_model
from pramana.estimators.likelihood.maximum import Likelihood, climbed, observed_likelihood, sampled, searched
from pramana.estimators.likelihood.observed import ObservedLikelihood, Theta
from pramana.estimators.model_dependent import reversion_at
from pramana.frames import Table
from pramana.inference.hypotheses import SpecificationTest
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix
from pramana.mechanism.mechanism import refuse_measured
from pramana.models.generalized_linear import Glm

ENOUGH = 2.0
"""Directions are tested in which records × the share of the reversion score's variance that the likelihood leaves
unexplained exceeds this. Below, the linear parts of the two scores cancel, and the curvature that is left is no chi-square."""


@dataclass(frozen=True)
class ScoreMoments:
    """Weighted sums over records of what the model implies of the reversion score φ (d) and the likelihood score s (q).

    Attributes
    ----------
    score : S = Σ w φ at the maximum, (d,).
    variance : E φφᵀ, (d, d).
    cross : E φ sᵀ, (d, q): minus the slope of the reversion score in the parameters.
    information : E s sᵀ, (q, q).
    """

    score: Float
    variance: Float
    cross: Float
    information: Float

    def __add__(self, other: ScoreMoments) -> ScoreMoments:
        return ScoreMoments(
            self.score + other.score,
            self.variance + other.variance,
            self.cross + other.cross,
            self.information + other.information,
        )


@dataclass(frozen=True)
class _Both:
    """Sums with the weights, and with their squares where they are sampling weights."""

    plain: ScoreMoments
    squared: ScoreMoments

    @classmethod
    def of(
        cls, model: ObservedLikelihood, theta: Theta, used: list[Assignment], table: Table, sampling: Sampling
    ) -> _Both:
        rows, weights = sampling.row_weights, sampling.weights
        plain = moments(model, theta, used, table, rows)
        return cls(plain, plain if weights is None else moments(model, theta, used, table, rows * weights))

    def __add__(self, other: _Both) -> _Both:
        return _Both(self.plain + other.plain, self.squared + other.squared)


def specification(method: Likelihood, task: Task) -> SpecificationTest:
    """Sᵀ (A − H I⁻¹ Hᵀ)⁻¹ S, with S the reversion score at the maximum likelihood estimate.

    The score form: the difference of the two covariance matrices of Hausman's form need not be positive definite.
    """
    table, mechanism = task.table, task.mechanism
    model_of, answers = checked_model(_checked(task))
    used = mechanism.used_by(model_of.variables) if mechanism is not None else []
    if mechanism is None or not used:
        raise MechanismError(
            "the specification test compares two ways to undo noise: no column of the formula is perturbed"
        )
    for assignment in used:
        assignment.refuse_reports("the specification test averages over all released levels")
    refuse_measured(mechanism, "the specification test takes it as known")
    if len(answers) != 1:
        raise FormulaError(f"the specification test needs a response of one column, not {model_of.label!r}")
    known = mechanism
    if model_of.family.name == "binomial":
        if answers[0] not in mechanism.columns:
            values = model_of.response_of({answers[0]: table.column(answers[0])}, table.n)
            model_of.family.check_response(values, answers[0])
        known = _with_response(mechanism, used, answers[0], table)
    both = _summed(method, replace(task, mechanism=known), known.used_by(model_of.variables))
    return judged(both.plain, both.squared, task.sampling.n)


def _summed(method: Likelihood, task: Task, used: list[Assignment]) -> _Both:
    """At the maximum, over all records."""
    if task.learned is None:
        model = observed_likelihood(method, task)
        return _Both.of(model, searched(model, task).best.theta, used, task.table, task.sampling)
    climber, search, _ = climbed(method, task, sampled(method, task), robust=False)
    block, theta = climber.block, search.best.theta

    def part(table: Table, sampling: Sampling) -> _Both | None:
        found: _Both | None = added(
            _Both.of(model, theta, used, some, own) for model, some, own in block.models(table, sampling)
        )
        return found

    return climber.stream.summed(part)


def _checked(task: Task) -> EstimatingFunction:
    """The function of a formula with a likelihood, whose records are independent."""
    if task.sampling.clustered or task.sampling.strata is not None or task.sampling.replications:
        given = "design" if task.beside.design is not None else "clusters"
        raise PramanaError(f"it takes records as independent, and {given}= was given")
    if not isinstance(task.plan.likelihood, Glm):
        raise FormulaError(
            f"the specification test compares reversion with the likelihood of a generalised linear model, and {task.plan.label!r} is not "
            "asked as one: give a formula such as 'y ~ x' with a family"
        )
    return task.function


def _with_response(mechanism: Mechanism, used: list[Assignment], answer: str, table: Table) -> Mechanism:
    """A clean binary response counts as one that passed the identity matrix, so that its outcomes are averaged over too."""
    channels = {a.columns if len(a.columns) > 1 else a.columns[0]: a.channel for a in used}
    if answer not in mechanism.columns:
        levels = sorted(set(table.column(answer).tolist()))
        channels[answer] = TransitionMatrix(levels, np.eye(len(levels)))
    return Mechanism(channels)


def moments(
    model: ObservedLikelihood, theta: Theta, used: list[Assignment], table: Table, weights: Float
) -> ScoreMoments:
    """Sums over records of expectations over everything that could have been released of them.

    The expectation is given what is not hidden: a clean response that has no list of outcomes enters as it is.
    """
    d, state = len(theta.beta), model.evaluate(theta)
    force = model.force(state)
    log = model.log_complete(theta, state.curve[0], state.prior)
    complete = np.exp(log - log.max(axis=1, keepdims=True))
    complete /= complete.sum(axis=1, keepdims=True)
    contexts = [a.context(table) for a in used]
    released = _released(used, table)
    q = model.size(theta)
    score, variance, cross, information = np.zeros(d), np.zeros((d, d)), np.zeros((d, q)), np.zeros((q, q))
    for outcome in range(complete.shape[1]):
        joint = _channel_at(used, contexts, outcome, table.n) * complete
        chance = joint.sum(axis=1)
        posterior = joint / np.maximum(chance, 1e-300)[:, None]
        s = model.scores(replace(state, posterior=posterior))
        phi = model.regression_scores(reversion_at(used, contexts, outcome, table.n) * force)
        seen, share = released == outcome, (chance * weights)[:, None]
        score += weights[seen] @ phi[seen]
        variance += (phi * share).T @ phi
        cross += (phi * share).T @ s
        information += (s * share).T @ s
    return ScoreMoments(score, variance, cross, information)


def _released(used: list[Assignment], table: Table) -> Int:
    codes = [a.encoded(table) for a in used]
    sizes = [len(a.channel.levels or ()) for a in used]
    return np.asarray(np.ravel_multi_index(codes, sizes))


def _channel_at(used: list[Assignment], contexts: list[Columns], outcome: int, n: int) -> Float:
    """Pr(outcome | node) as rows (n, C)."""
    codes = np.unravel_index(outcome, [len(a.channel.levels or ()) for a in used])
    out = np.ones((n, 1))
    for assignment, context, code in zip(used, contexts, codes, strict=True):
        part = assignment.channel.likelihood(np.full(n, code), context)
        out = (out[:, :, None] * part[:, None, :]).reshape(n, -1)
    return out


def judged(plain: ScoreMoments, squared: ScoreMoments, n: float) -> SpecificationTest:
    """The statistic in the directions that the likelihood leaves free.

    Parameters
    ----------
    plain, squared : sums with the weights, and with their squares where they are sampling weights.
    """
    from scipy.stats import chi2

    half = np.linalg.inv(np.linalg.cholesky(squared.variance))
    shares, directions = np.linalg.eigh(half @ _unexplained(plain, squared) @ half.T)
    kept = n * shares > ENOUGH
    if not kept.any():
        raise FormulaError(
            "nothing is left to test, because reversion and maximum likelihood coincide: the model is saturated, its fitted "
            "probabilities hardly vary, or the randomisation changes nothing"
        )
    parts = (directions.T @ (half @ plain.score))[kept]
    statistic, df = float(np.sum(parts**2 / shares[kept])), int(kept.sum())
    p = float(chi2.sf(statistic, df))
    return SpecificationTest(statistic, df, p, _advice(p))


def _unexplained(plain: ScoreMoments, squared: ScoreMoments) -> Float:
    """Variance of Σ w (φ − H I⁻¹ s), which is A − H I⁻¹ Hᵀ when all weights are one."""
    slope = np.linalg.solve(plain.information, plain.cross.T).T
    both = slope @ squared.cross.T
    return np.asarray(squared.variance - both - both.T + slope @ squared.information @ slope.T)


def _advice(p: float) -> str:
    if p < 0.05:
        return (
            "The released data contradict the model: prefer method='reversion', or enrich the formula and test again."
        )
    return "No sign against the model: method='likelihood' is the more precise, method='reversion' the safer choice."

"""The climb from a start to a maximum of an observed likelihood: EM, finished by Newton."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import SolveError
from pramana.estimators.likelihood.covariate_model import torn
from pramana.estimators.likelihood.observed import ObservedLikelihood, State, Theta

ROUNDS = 30
EM_STEPS = (2, 10, 25, 50, 100)
"""EM steps before each attempt at Newton; the last number is repeated."""
STILL = 3
"""Rounds in a row without a rise above rounding after which a climb is given up."""
NEWTON_STEPS = 30
SETTLED = 1e-6
"""Largest Newton step, relative to the parameter, that may be left."""
DECREMENT = 1e-12
"""Largest gain in the log-likelihood that one more Newton step could promise."""


@dataclass(frozen=True)
class Reached:
    """Where a climb ended, and the log-likelihood there."""

    theta: Theta
    value: float


@dataclass(frozen=True)
class Maximum(Reached):
    """A maximum with its observed information (q, q)."""

    information: Float


class StalledError(SolveError):
    """A climb that ended without a maximum, and where."""

    def __init__(self, message: str, reached: Reached) -> None:
        super().__init__(message)
        self.reached = reached


def climb(model: ObservedLikelihood, state: State) -> Maximum:
    """Climb by EM (one scoring step an M step, after Lange 1995) until Newton converges.

    EM never descends but crawls; Newton is quick once the information is positive definite. They take turns until
    Newton has settled: its step, not its score alone, must be small, because under separation the score fades as well.
    """
    climbed = stepped = still = 0
    for turn in range(ROUNDS):
        before = state.value
        for _ in range(EM_STEPS[min(turn, len(EM_STEPS) - 1)]):
            here, state = state, em_step(model, state)
            climbed += 1
            if state is here:  # as every further step would be
                break
        state, information, steps = _newton(model, state)
        stepped += steps
        if information is not None and not _torn(model, state):
            return Maximum(state.theta, state.value, information)
        still = still + 1 if state.value - before <= 1e-12 * max(1.0, abs(state.value)) else 0
        if information is not None or still == STILL or runs_away(model, state.theta.beta, state.value - before):
            break
    effort = f"{climbed} EM and {stepped} Newton steps"
    raise StalledError(stalled(model, state.theta.beta, effort), Reached(state.theta, state.value))


def at_face_value(model: ObservedLikelihood, beta: Float | None = None) -> Theta:
    """A start from the released values at face value: posterior weights from the channel alone, and a constant mean."""
    data, given = model.data, beta is not None
    share = data.channel / data.channel.sum(axis=1, keepdims=True) * model.weights[:, None]
    mean = float(np.sum(share * data.responses) / model.weights.sum())
    if beta is None:
        flat = data.design.reshape(-1, data.design.shape[2])
        target = np.full(len(flat), data.function.family.start(mean))
        target = target if data.offset is None else target - data.offset.ravel()
        beta = np.linalg.solve(flat.T @ flat, flat.T @ target)
    posterior = share / np.maximum(model.weights[:, None], 1e-300)
    gamma = model.covariates.start()
    if data.hides_covariates:
        gamma = model.covariates.fitted(model.gathered(posterior), model.weights, gamma)
    log_dispersion = 0.0
    if data.density.dispersion is not None:
        log_dispersion = float(np.log(_dispersion(model, beta, share)))
    return Theta(beta, nearest_dispersion(model, beta, log_dispersion) if given else log_dispersion, gamma)


def nearest_dispersion(model: ObservedLikelihood, beta: Float, wide: float) -> float:
    """Log dispersion if every record were at the node that suits its response best, so that the climb stays near β.

    The dispersion around the released values, `wide` in logarithms, would first take every start back to them.
    """
    if not model.data.density.dispersed:
        return wide
    with np.errstate(all="ignore"):
        log = model.data.density.log(model.data.responses, model.means(beta), float(np.exp(wide)))
        share = (log == log.max(axis=1, keepdims=True)) * model.weights[:, None]
        try:
            return float(np.log(_dispersion(model, beta, share)))
        except SolveError:  # means that the family cannot have, or no residual
            return wide


def _dispersion(model: ObservedLikelihood, beta: Float, share: Float) -> float:
    assert model.data.density.dispersion is not None
    found = model.data.density.dispersion(model.data.responses, model.means(beta), share)
    if not found > 0:
        raise SolveError(
            "the fit leaves no residual: the dispersion is zero and the likelihood has no maximum; use fewer terms"
        )
    return found


def em_step(model: ObservedLikelihood, state: State) -> State:
    """One EM step; its scoring step for the coefficients is halved until the likelihood does not fall."""
    theta = state.theta
    share = state.posterior * model.weights[:, None]
    gamma = theta.gamma
    if model.data.hides_covariates:
        posterior = model.gathered(state.posterior)
        gamma = model.covariates.fitted(posterior, model.weights, gamma)
        gamma = model.covariates.without_absent(posterior, model.weights, gamma)
    step, size = _scoring_step(model, state, share), 1.0
    for _ in range(30):
        beta: Float = theta.beta + size * step
        blend = gamma if size == 1.0 else theta.gamma + size * (gamma - theta.gamma)
        trial = Theta(beta, _updated_dispersion(model, beta, share, theta), blend)
        there = model.evaluate(trial)
        if there.value >= state.value - 1e-12 * abs(state.value):
            return there
        size /= 2
    return state


def _scoring_step(model: ObservedLikelihood, state: State, share: Float) -> Float:
    """(Σ share x xᵀ μ′²/V)⁻¹ Σ share x a (y − μ): an ascent direction for non-negative shares."""
    flat = model.data.design.reshape(-1, len(state.theta.beta))
    score = flat.T @ model.gathered(share * model.force(state)).ravel()
    try:
        step = np.linalg.solve(-model.curvature(share * model.expected_bend(state)), score)
    except np.linalg.LinAlgError:
        return np.zeros_like(score)
    return np.asarray(step if np.all(np.isfinite(step)) else np.zeros_like(score))


def _updated_dispersion(model: ObservedLikelihood, beta: Float, share: Float, theta: Theta) -> float:
    if model.data.density.dispersion is None:
        return 0.0
    with np.errstate(all="ignore"):
        found = _dispersion(model, beta, share)
    return float(np.log(found)) if np.isfinite(found) else theta.log_dispersion


def _newton(model: ObservedLikelihood, state: State) -> tuple[State, Float | None, int]:
    """Damped Newton while the information is positive definite; the information is returned when it has settled."""
    for steps in range(NEWTON_STEPS):
        score, information = model.score_and_information(state)
        step = newton_step(information, score)
        if step is None:
            return state, None, steps
        gain = float(score @ step)
        if gain <= DECREMENT * max(1.0, abs(state.value) * 1e-3) and small_step(state.theta, step):
            last = model.evaluate(model.moved(state.theta, step))
            return last, model.score_and_information(last)[1], steps + 1
        moved = _ascent(model, state, step, gain)
        if moved is None:
            return state, None, steps
        state = moved
    return state, None, NEWTON_STEPS


def newton_step(information: Float, score: Float) -> Float | None:
    """I⁻¹ s, or None where the information is not positive definite."""
    if not np.all(np.isfinite(information)):
        return None
    scale = np.sqrt(np.abs(np.diag(information)))
    if not np.all(scale > 0):
        return None
    try:
        factor = np.linalg.cholesky(information / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return None
    half = np.linalg.solve(factor, score / scale)
    return np.asarray(np.linalg.solve(factor.T, half) / scale)


def small_step(theta: Theta, step: Float) -> bool:
    """A step so small that nothing is left to be done after it."""
    limit = np.full(step.shape, 10 * SETTLED)
    limit[: len(theta.beta)] = SETTLED * (1 + np.abs(theta.beta))
    return bool(np.all(np.abs(step) <= limit))


def _ascent(model: ObservedLikelihood, state: State, step: Float, gain: float) -> State | None:
    size = 1.0
    for _ in range(20):
        trial = model.evaluate(model.moved(state.theta, size * step))
        if trial.value >= state.value + 1e-4 * size * gain - 1e-13 * abs(state.value):
            return trial
        size /= 2
    return None


def _torn(model: ObservedLikelihood, state: State) -> bool:
    covariates, gamma = model.covariates, state.theta.gamma
    if not model.data.hides_covariates or covariates.saturated:
        return False
    pull = covariates.pull(np.exp(state.prior), model.gathered(state.posterior), model.weights)
    return torn(gamma, pull, float(model.weights.sum()))


def runs_away(model: ObservedLikelihood, beta: Float, gain: float) -> bool:
    """Linear predictors far out, where nothing is gained any more: the likelihood rises for ever, towards a limit."""
    reach = float(np.abs(model.predictor(beta)).max())
    return model.data.density.discrete and (reach > 200 or (reach > 30 and gain < 1e-6))


def far_out(model: ObservedLikelihood, beta: Float) -> list[str]:
    """Coefficients of a discrete response that have grown so far that they seem to have no end."""
    names = model.data.function.parameters
    reach = np.abs(model.data.design).reshape(-1, len(names)).max(axis=0) * np.abs(beta)
    return [repr(p) for p, r in zip(names, reach, strict=True) if r > 10 and model.data.density.discrete]


def stalled(model: ObservedLikelihood, beta: Float, effort: str) -> str:
    """Why so much effort found no maximum, and what to do."""
    far = far_out(model, beta)
    start = f"the likelihood has no maximum that could be found after {effort}"
    if far:
        return (
            f"{start}: it rises as {', '.join(far)} grow without bound (perfect separation, or too few records for this much "
            "noise). Drop or merge the terms involved, or use more data"
        )
    if model.data.hides_covariates:
        return (
            f"{start}: some combination of perturbed levels may be absent or not identified. Merge levels, or give a "
            "smaller covariate_model"
        )
    return f"{start}: try start=, fewer terms or more data"

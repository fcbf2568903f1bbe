"""Newton's method for a batch of estimating equations, damped on the norm of the score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pramana.arrays import Bool, Float, Int

TOLERANCE = 1e-10
"""On the score in units of its own standard deviation, so a root is exact to 1e-10 standard errors."""
ROUNDING = 1e-7
"""Accepted where rounding stops any further descent."""

SETTLED = 1e-6
"""Largest Newton step, relative to the parameter, that may be left at a root."""

SINGULAR = 1e-15
"""Determinant of two unknowns, relative to the product of the diagonal, that is none."""

Evaluate: TypeAlias = Callable[[Float, Int], tuple[Float, Float]]
"""(betas (b, d), positions (b,) in the batch) ↦ score (b, d), slope (b, d, d)."""


@dataclass(frozen=True)
class Roots:
    """What Newton reached: coefficients (B, d), scaled norms of the score (B,), steps taken (B,)."""

    beta: Float
    norm: Float
    steps: Int

    @property
    def converged(self) -> Bool:
        return self.norm <= ROUNDING


def newton(
    evaluate: Evaluate,
    start: Float,
    scale: Float,
    *,
    max_steps: int = 50,
    max_halvings: int = 25,
) -> Roots:
    """Solve every equation of the batch, halving a step until the score falls.

    Parameters
    ----------
    start : (B, d).
    scale : (d,) or (B, d), inverse standard deviations of the score's components.
    """
    beta, steps = start.copy(), np.zeros(len(start), dtype=np.int64)
    scale = np.broadcast_to(scale, start.shape)
    active = np.arange(len(start))
    score, slope = evaluate(beta, active)
    norm = _norm(score, scale)
    before = np.full(len(start), np.inf)
    for _ in range(max_steps):
        moving = norm[active] > TOLERANCE
        active, score, slope = active[moving], score[moving], slope[moving]
        last = _predicted_each(norm[active], before[active]) < 0.1 * TOLERANCE
        _finish(beta, norm, steps, active[last], score[last], slope[last])
        active, score, slope = active[~last], score[~last], slope[~last]
        if not active.size:
            break
        before[active] = norm[active]
        moved, score, slope = _step(evaluate, beta, norm, active, score, slope, scale, max_halvings)
        steps[active] += 1
        active, score, slope = active[moved], score[moved], slope[moved]
    return Roots(beta, norm, steps)


def newton_alone(
    evaluate: Callable[[Float], tuple[Float, Float]],
    start: Float,
    scale: Float,
    *,
    max_steps: int = 50,
    max_halvings: int = 25,
    ahead: Callable[[list[Float]], None] | None = None,
) -> Roots:
    """The same for a batch of one, to the last bit, without the bookkeeping of a batch, which costs more than a small sample's sums.

    Parameters
    ----------
    evaluate : β (d,) ↦ score (1, d), slope (1, d, d).
    start, scale : (d,).
    ahead : is told of all steps that are left to try once a whole one did not do, so that they can be evaluated together.
    """
    with np.errstate(all="ignore"):
        beta, steps, before = start, 0, np.inf
        score, slope = evaluate(beta)
        norm = _size(score, scale)
        while norm > TOLERANCE and steps < max_steps:
            direction = solve_one(slope[0], score[0])
            steps += 1
            if not np.isfinite(direction).all():
                break
            if predicted(norm, before) < 0.1 * TOLERANCE:
                beta, norm = beta - direction, 0.01 * TOLERANCE
                break
            before, size = norm, 1.0
            for _ in range(max_halvings):
                trial = beta - size * direction
                score, slope = evaluate(trial)
                there = _size(score, scale)
                if there <= (1 - 1e-4 * size) * before:
                    beta, norm = trial, there
                    break
                if ahead is not None and size == 1.0:
                    ahead([beta - 0.5**k * direction for k in range(1, max_halvings)])
                size /= 2
            else:
                break
    return Roots(beta[None], np.array([norm]), np.array([steps]))


def norm_of(score: Float, scale: Float) -> float:
    """Of one score (1, d); infinite where it is no number."""
    with np.errstate(all="ignore"):
        return _size(score, scale)


def _size(score: Float, scale: Float) -> float:
    norm = float(np.abs(score * scale).max())
    return norm if norm < np.inf else np.inf


def fading(evaluate: Evaluate, roots: Roots) -> Bool:
    """Equations whose score vanishes towards infinity, where a full Newton step is still left: they have no root.

    Such a march takes many steps, so that an equation solved in a few needs no second look.
    """
    found = np.zeros(len(roots.beta), dtype=bool)
    slow = np.flatnonzero(roots.converged & (roots.steps > 4))
    if slow.size:
        score, slope = evaluate(roots.beta[slow], slow)
        found[slow] = ~(np.abs(solve_each(slope, score)) <= SETTLED * (1 + np.abs(roots.beta[slow]))).all(axis=1)
    return found


def predicted(norm: float, before: float) -> float:
    """The norm after one more step: convergence is quadratic, with the constant that the last step showed; infinite where it is not near."""
    if not (norm < 1e-3 and norm < 0.1 * before):
        return np.inf
    return norm**2 * (norm / before**2 if before < np.inf else 1.0)


def _predicted_each(norm: Float, before: Float) -> Float:
    with np.errstate(all="ignore"):
        constant = np.where(np.isfinite(before), norm / before**2, 1.0)
        return np.where((norm < 1e-3) & (norm < 0.1 * before), constant * norm**2, np.inf)


def _finish(beta: Float, norm: Float, steps: Int, rows: Int, score: Float, slope: Float) -> None:
    """A last step that is known to land, taken without evaluating the score again."""
    if not rows.size:
        return
    move = solve_each(slope, score)
    beta[rows] -= move
    norm[rows] = np.where(np.isfinite(move).all(axis=1), 0.01 * TOLERANCE, norm[rows])
    steps[rows] += 1


def _step(
    evaluate: Evaluate,
    beta: Float,
    norm: Float,
    active: Int,
    score: Float,
    slope: Float,
    scale: Float,
    max_halvings: int,
) -> tuple[Bool, Float, Float]:
    """One damped step of the active equations, written into `beta` and `norm`; tells which of them moved."""
    direction = solve_each(slope, score)
    moved = np.zeros(active.size, dtype=bool)
    score, slope = score.copy(), slope.copy()
    pending, size = np.flatnonzero(np.isfinite(direction).all(axis=1)), 1.0
    for _ in range(max_halvings):
        if not pending.size:
            break
        rows = active[pending]
        trial = beta[rows] - size * direction[pending]
        new_score, new_slope = evaluate(trial, rows)
        new_norm = _norm(new_score, scale[rows])
        better = new_norm <= (1 - 1e-4 * size) * norm[rows]
        done = pending[better]
        beta[rows[better]], norm[rows[better]] = trial[better], new_norm[better]
        score[done], slope[done], moved[done] = new_score[better], new_slope[better], True
        pending, size = pending[~better], size / 2
    return moved, score, slope


def _norm(score: Float, scale: Float) -> Float:
    with np.errstate(all="ignore"):
        norm = np.max(np.abs(score * scale), axis=1)
    return np.where(np.isfinite(norm), norm, np.inf)


def solve_each(slope: Float, score: Float) -> Float:
    """slope⁻¹ score for every equation; NaN where a slope is singular."""
    if score.shape[1] == 1:
        with np.errstate(all="ignore"):
            return np.asarray(score / np.where(slope[:, 0] == 0, np.nan, slope[:, 0]))
    if score.shape[1] == 2:
        return _solve_pairs(slope, score)
    try:
        with np.errstate(all="ignore"):
            return np.asarray(np.linalg.solve(slope, score[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        if len(slope) == 1:
            return np.full_like(score, np.nan)
        return np.concatenate([solve_each(slope[i : i + 1], score[i : i + 1]) for i in range(len(slope))])


def _solve_pairs(slope: Float, score: Float) -> Float:
    """Two unknowns written out: a batched factorisation costs more than all the rest of a step."""
    (a, b), (c, d) = slope.transpose(1, 2, 0)
    with np.errstate(all="ignore"):
        determinant = a * d - b * c
        determinant = np.where(np.abs(determinant) > SINGULAR * np.abs(a * d), determinant, np.nan)
        first = (d * score[:, 0] - b * score[:, 1]) / determinant
        second = (a * score[:, 1] - c * score[:, 0]) / determinant
    return np.stack([first, second], axis=1)


def solve_one(slope: Float, score: Float) -> Float:
    """slope⁻¹ score (d,) of one equation, the same to the last bit: of one or two unknowns in plain numbers, for which arrays take ten times as long."""
    if len(score) > 2:
        return solve_each(slope[None], score[None])[0]
    if len(score) == 1:
        (a,), (one,) = slope.ravel().tolist(), score.tolist()
        return np.array([one / a if a else np.nan])
    (a, b, c, d), (one, two) = slope.ravel().tolist(), score.tolist()
    determinant = a * d - b * c
    if not abs(determinant) > SINGULAR * abs(a * d):
        return np.array([np.nan, np.nan])
    return np.array([(d * one - b * two) / determinant, (a * two - c * one) / determinant])


def inverse_one(slope: Float) -> Float | None:
    """slope⁻¹ (d, d) of one equation; None where it is singular."""
    if len(slope) == 1:
        return 1 / slope if slope[0, 0] != 0 else None
    try:
        return np.asarray(np.linalg.inv(slope))
    except np.linalg.LinAlgError:
        return None

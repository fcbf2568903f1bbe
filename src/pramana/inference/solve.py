"""From an equation to its root: Newton, the concave line search, continuation in the noise, or no derivative at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import SolveError, quoted_terms
from pramana.estimating import Equation
from pramana.inference.derivative_free import solve_steps
from pramana.kernels.newton import ROUNDING, SETTLED, TOLERANCE, Roots, newton, solve_each

FLAT = 1e-6
"""Share of its usual slope below which a score has not crossed zero but faded away; its square for one parameter alone."""


@dataclass(frozen=True)
class Root:
    """A parameter value at which the score vanishes, and the way it was found.

    `slope` is set where it had to be estimated (step functions), else None.
    """

    beta: Float
    norm: float
    steps: int
    path: str
    slope: Float | None = None


def solve(equation: Equation, weights: Float, start: Float | None = None) -> Root:
    """The root of Σ w φ(β), or a SolveError that says what was tried.

    Parameters
    ----------
    weights : (n,).
    start : (d,); the equation's own starting value by default.
    """
    if hasattr(equation, "roots"):  # solved in closed form
        beta = equation.roots(weights[None])[0]
        if not np.all(np.isfinite(beta)) and hasattr(equation, "refusal"):
            raise SolveError(equation.refusal(weights))
        return Root(beta, 0.0, 0, "direct", equation.score_and_slope(beta[None], weights[None])[1][0])
    beta = _start(equation, weights) if start is None else np.asarray(start, dtype=float)
    if start is not None and hasattr(equation, "refuse"):
        equation.refuse(beta)
    scale = score_scale(equation, beta, weights)
    if not equation.smooth:
        found = solve_steps(equation, weights, beta, scale)
        return Root(found.beta, found.norm, found.steps, "derivative-free", found.slope)
    if getattr(equation, "concave", False):
        return _ascend(equation, weights, beta, scale)
    roots = _newton(equation, weights, beta, scale)
    if roots.converged[0]:
        _refuse_flat(equation, weights, roots.beta[0])
        return Root(roots.beta[0], float(roots.norm[0]), int(roots.steps[0]), "newton")
    return _continue(equation, weights, beta, roots)


def _start(equation: Equation, weights: Float) -> Float:
    """The equation's own starting value, or one found from the root of an easier equation."""
    easier = getattr(equation, "easier", None)
    if easier is None:
        return equation.start
    try:
        found = solve(easier, weights).beta
    except SolveError:
        return equation.start
    return equation.lifted(found, weights) if hasattr(equation, "lifted") else found


def _refuse_flat(equation: Equation, weights: Float, beta: Float) -> None:
    """A generalised linear score also vanishes at infinity, where its slope does: that is no root."""
    if not hasattr(equation, "recedes"):
        return
    with np.errstate(all="ignore"):
        here = equation.score_and_slope(beta[None], weights[None])[1][0]
        usual = equation.score_and_slope(equation.start[None], weights[None])[1][0]
        share = np.abs(np.diag(here) / np.diag(usual))
    if np.all(share < FLAT) or np.any(share < FLAT**2):
        raise SolveError(_no_root(equation, beta))


def score_scale(equation: Equation, beta: Float, weights: Float) -> Float:
    """Inverse standard deviation of each component of the score."""
    with np.errstate(all="ignore"):
        spread = np.sqrt(np.sum((equation.influence(beta) * weights[:, None]) ** 2, axis=0))
    floor = np.nanmax(spread, initial=0.0) * 1e-12
    return 1 / np.where(np.isfinite(spread) & (spread > floor), spread, 1.0)


def _newton(equation: Equation, weights: Float, start: Float, scale: Float) -> Roots:
    """Newton, resumed where the score is small next to that of a far start, or fades towards infinity, but is no root."""
    steps = np.zeros(1, dtype=np.int64)
    for _ in range(5):
        roots = newton(lambda b, _rows: equation.score_and_slope(b, weights[None]), start[None], scale)
        start, steps = roots.beta[0], steps + roots.steps
        if not roots.converged[0] or _settled(equation, weights, start):
            return Roots(roots.beta, roots.norm, steps)
        scale = score_scale(equation, start, weights)
    return Roots(roots.beta, np.full(1, np.inf), steps)


def _settled(equation: Equation, weights: Float, beta: Float) -> bool:
    score, slope = equation.score_and_slope(beta[None], weights[None])
    return _small(solve_each(slope, score)[0], beta)


def _small(step: Float, beta: Float) -> bool:
    return bool(np.all(np.abs(step) <= SETTLED * (1 + np.abs(beta))))


def _ascend(equation: Any, weights: Float, beta: Float, scale: Float) -> Root:
    """Newton with a line search on the concave objective; certifies the absence of a root where there is none."""
    row = weights[None]
    for step in range(200):
        score, slope = equation.score_and_slope(beta[None], row)
        norm = float(np.max(np.abs(score * scale)))
        direction = -solve_each(slope, score)[0]
        if norm <= TOLERANCE and _small(direction, beta):
            return Root(beta, norm, step, "concave")
        for ray in (beta, direction):
            if np.all(np.isfinite(ray)) and equation.recedes(ray, weights):
                raise SolveError(_no_root(equation, ray))
        moved = _line_search(equation, row, beta, direction, float(score[0] @ direction))
        if moved is None:
            if norm <= ROUNDING:
                return Root(beta, norm, step, "concave")
            break
        beta = moved
    raise SolveError(_gave_up(equation, norm, step, "the concave line search"))


def _line_search(equation: Any, row: Float, beta: Float, direction: Float, rise: float) -> Float | None:
    if not np.all(np.isfinite(direction)):
        return None
    here, size = equation.objective(beta[None], row)[0], 1.0
    for _ in range(40):
        trial: Float = beta + size * direction
        there = equation.objective(trial[None], row)[0]
        if (
            np.isfinite(there)
            and there >= here + 1e-4 * size * rise - 1e-14 * abs(here)
            and not np.array_equal(trial, beta)
        ):
            return trial
        size /= 2
    return None


def _continue(equation: Equation, weights: Float, beta: Float, failed: Roots) -> Root:
    """Follow the root from the naive equation (t = 0) to the reverted one (t = 1)."""
    t, step, steps = 0.0, 0.25, int(failed.steps[0])
    here = _naive_root(equation, weights, beta, failed)
    while t < 1:
        target = min(1.0, t + step)
        softened = equation.under(equation.records.softened(target)) if target < 1 else equation
        roots = _newton(softened, weights, here, score_scale(softened, here, weights))
        steps += int(roots.steps[0])
        if roots.converged[0]:
            t, here, step = target, roots.beta[0], 1.5 * step
        elif (step := step / 2) < 1 / 256:
            norm = float(failed.norm[0])
            raise SolveError(
                _gave_up(equation, norm, steps, f"Newton and a continuation that reached {t:.0%} of the noise")
            )
    return Root(here, float(roots.norm[0]), steps, "continuation")


def _naive_root(equation: Equation, weights: Float, beta: Float, failed: Roots) -> Float:
    naive = equation.under(equation.records.softened(0.0))
    scale = score_scale(naive, beta, weights)
    if getattr(naive, "concave", False):
        return _ascend(naive, weights, beta, scale).beta
    roots = _newton(naive, weights, beta, scale)
    if not roots.converged[0]:
        raise SolveError(
            _gave_up(equation, float(failed.norm[0]), int(failed.steps[0]), "Newton, from the naive root too")
        )
    return roots.beta[0]


def _no_root(equation: Equation, direction: Float) -> str:
    share = np.abs(direction) / np.abs(direction).max()
    names = [p for p, s in zip(equation.parameters, share, strict=True) if s > 1e-3]
    return (
        f"no finite root exists: the fit improves for ever as {quoted_terms(names)} grow without bound (perfect separation, or "
        "too few records for this much noise). Drop or merge the terms involved, or use more data"
    )


def _gave_up(equation: Equation, norm: float, steps: int, how: str) -> str:
    left = f"is {norm:.2g} standard deviations from zero (limit {ROUNDING:.0e})"
    if not np.isfinite(norm):
        left = "fades away without crossing zero (perfect separation, or too few records for this much noise)"
    return (
        f"no root was found for {quoted_terms(equation.parameters)}: after {steps} steps of {how}, the score {left}. "
        "Try start=, fewer terms, merged levels or more data"
    )

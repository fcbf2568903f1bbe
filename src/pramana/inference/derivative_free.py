"""Roots of step functions, whose score jumps over zero: no derivative is asked of the user."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

import numpy as np

from pramana.arrays import Float
from pramana.engines import Engine, Weights
from pramana.errors import SolveError, quoted_terms
from pramana.kernels.newton import solve_each

T = TypeVar("T")
ScoreSearch: TypeAlias = Generator[Float, Float, T]
"""Asks for the scores of parameter values (d,), one after the other, and returns what it finds."""


@dataclass(frozen=True)
class StepRoot:
    """A crossing of zero, with the slope of the score averaged over about a standard error around it."""

    beta: Float
    norm: float
    steps: int
    slope: Float


def solve_steps(engine: Engine, weights: Weights, start: Float, scale: Float) -> StepRoot:
    """Secant steps with a widened slope, until no jump of single records could bring the score nearer to zero."""
    beta, width = start, 0.5 * np.maximum(np.abs(start), 1.0)
    best = StepRoot(beta, np.inf, 0, np.zeros((beta.size, beta.size)))
    for step in range(60):
        slope = wide_slope(engine, weights, beta, width)
        score = engine.score(beta[None], weights)[0]
        norm = float(np.max(np.abs(score * scale)))
        if norm < best.norm:
            best = StepRoot(beta, norm, step, slope)
        spread = _standard_error(slope, engine.outer(beta, weights))
        move = solve_each(slope[None], score[None])[0]
        if not np.all(np.isfinite(move)):
            width = 2 * width
            continue
        if np.all(np.abs(move) < 1e-3 * spread) and np.all(width <= 2 * spread):
            break
        beta = beta - _shortened(engine, weights, beta, move, norm, scale)
        width = np.clip(spread, width / 10, width)
    polished = _polish(engine, weights, best, scale)
    if polished.norm > 0.5:
        raise SolveError(
            f"no crossing of zero was found for {quoted_terms(engine.about.parameters)}: the score stays "
            f"{polished.norm:.2g} standard deviations away (limit 0.5). Give start= near the answer"
        )
    return polished


def resolve_steps(engine: Engine, weights: Weights, root: StepRoot, scale: Float) -> list[tuple[Float, float]]:
    """The roots under other weights, by chord steps with the slope at hand; each with its scaled norm. All draws ask for a score together, so
    that records are read no more often than for one of them."""
    searches = [_resolved(root, scale) for _ in range(len(weights))]
    asked = np.stack([next(search) for search in searches])
    found: dict[int, tuple[Float, float]] = {}
    while len(found) < len(searches):
        scores = engine.score(asked, weights)
        for m, search in enumerate(searches):
            if m not in found:
                try:
                    asked[m] = search.send(scores[m])
                except StopIteration as end:
                    found[m] = end.value
    return [found[m] for m in range(len(searches))]


def _resolved(root: StepRoot, scale: Float) -> ScoreSearch[tuple[Float, float]]:
    beta, best, norm = root.beta, root.beta, np.inf
    for _ in range(30):
        score = yield beta
        here = float(np.max(np.abs(score * scale)))
        if here < norm:
            best, norm = beta, here
        elif here > 4 * norm:
            break
        beta = beta - solve_each(root.slope[None], score[None])[0]
    if best.size == 1:
        best = yield from _bisect(best, abs(float(root.slope[0, 0])), norm / float(scale[0]))
        norm = 0.0 if np.isfinite(best[0]) else np.inf
    return best, norm


def _alone(search: ScoreSearch[T], score: Callable[[Float], Float]) -> T:
    """What a search finds that asks for the scores (d,) of one draw."""
    asked = next(search)
    while True:
        try:
            asked = search.send(score(asked))
        except StopIteration as end:
            return cast(T, end.value)


def wide_slope(engine: Engine, weights: Weights, beta: Float, width: Float) -> Float:
    """Central differences over a stated width, which averages over the jumps."""
    columns = []
    for j in range(beta.size):
        move = np.zeros_like(beta)
        move[j] = width[j]
        pair = engine.score(np.stack([beta + move, beta - move]), weights)
        columns.append((pair[0] - pair[1]) / (2 * width[j]))
    return np.stack(columns, axis=1)


def _standard_error(slope: Float, outer: Float) -> Float:
    try:
        bread = np.linalg.inv(slope)
    except np.linalg.LinAlgError:
        return np.full(len(slope), np.inf)
    return np.sqrt(np.diag(bread @ outer @ bread.T))


def _shortened(engine: Engine, weights: Weights, beta: Float, move: Float, norm: float, scale: Float) -> Float:
    for size in (1.0, 0.5, 0.25, 0.1):
        score = engine.score((beta - size * move)[None], weights)[0]
        if np.max(np.abs(score * scale)) < norm:
            return size * move
    return 0.05 * move


def _polish(engine: Engine, weights: Weights, root: StepRoot, scale: Float) -> StepRoot:
    """Bisection for a single parameter; a simplex search on the norm otherwise."""
    if root.beta.size == 1:
        gap = root.norm / float(scale[0])
        search = _bisect(root.beta, abs(float(root.slope[0, 0])), gap)
        beta = _alone(search, lambda value: engine.score(value[None], weights)[0])
        found = float(np.abs(engine.score(beta[None], weights)[0, 0]) * scale[0]) if np.isfinite(beta[0]) else np.inf
        return StepRoot(beta, min(found, root.norm), root.steps, root.slope) if np.isfinite(beta[0]) else root
    from scipy.optimize import minimize

    def merit(beta: Float) -> float:
        return float(np.sum((engine.score(beta[None], weights)[0] * scale) ** 2))

    result = minimize(merit, root.beta, method="Nelder-Mead", options={"maxiter": 200 * root.beta.size, "xatol": 1e-10})
    better = float(np.sqrt(result.fun)) < root.norm
    return StepRoot(result.x, float(np.sqrt(result.fun)), root.steps, root.slope) if better else root


def _bisect(near: Float, slope: float, gap: float) -> ScoreSearch[Float]:
    """The crossing of a one-dimensional score, bracketed from a nearby point; NaN where there is none."""
    centre = float(near[0])
    here = yield from _sign(centre)
    if here == 0:
        return near
    reach = max(2 * gap / slope, 1e-6 * max(abs(centre), 1.0)) if slope > 0 else max(abs(centre), 1.0)
    for _ in range(60):
        for end in (centre - reach, centre + reach):
            if (yield from _sign(end)) == -here:
                return np.array([(yield from _halve(centre, end, here))])
        reach *= 2
    return np.array([np.nan])


def _halve(a: float, b: float, sign_a: float) -> ScoreSearch[float]:
    for _ in range(200):
        middle = 0.5 * (a + b)
        if middle in (a, b):
            break
        here = yield from _sign(middle)
        if here == 0:
            return middle
        a, b = (middle, b) if here == sign_a else (a, middle)
    return 0.5 * (a + b)


def _sign(value: float) -> ScoreSearch[float]:
    score = yield np.array([value])
    return float(np.sign(score[0]))

"""Random-weight resampling: the distribution of the estimator without a formula for its variance."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pramana.arrays import Float, Int
from pramana.blas import one_blas_thread
from pramana.engines import Engine, Weights
from pramana.engines.device import on_device
from pramana.errors import SolveError
from pramana.inference.derivative_free import StepRoot, resolve_steps
from pramana.inference.options import Resampling
from pramana.inference.solve import Root, score_scale, solve
from pramana.kernels.newton import fading, newton, solve_each
from pramana.kernels.streams import STREAM_VERSION

NORMAL_IQR = 1.3489795003921634
"""Interquartile range of a standard normal."""


@dataclass(frozen=True)
class Draws:
    """Resampled parameter values (draws with a root, d), how many had none, and how to repeat them."""

    values: Float
    rootless: int
    seed: int
    law: str
    stream_version: int = STREAM_VERSION

    def widened(self, centre: Float, factor: Float) -> Draws:
        """Draws of few units are too near to each other: their distances from the estimate times a factor (d,)."""
        return replace(self, values=centre + (self.values - centre) * factor)


EngineUnder: TypeAlias = Callable[[Weights], Engine]
"""Row weights ↦ engine, for estimators with a nuisance fit that must be re-weighted too."""


def resample(engine: Engine, root: Root, options: Resampling, rebind: EngineUnder | None = None) -> Draws:
    """Solve again under random weights."""
    if options.device != "cpu":
        engine = on_device(engine)
    seed = secrets.randbits(63) if options.seed is None else options.seed
    share = -(-options.draws // options.threads)
    size = max(1, min(share, engine.draws_at_once))

    def block(first: int) -> Float:
        indices = np.arange(first, min(first + size, options.draws))
        return solve_draws(engine, root, engine.drawn(options.weights, seed, indices), rebind)

    starts = range(0, options.draws, size)
    if options.threads > 1:
        with one_blas_thread(), ThreadPoolExecutor(options.threads) as pool:
            found = list(pool.map(block, starts))
    else:
        found = [block(first) for first in starts]
    values = np.concatenate(found)
    rooted = np.isfinite(values).all(axis=1)
    if rooted.sum() < 10:
        raise SolveError(
            f"only {int(rooted.sum())} of {options.draws} resamples have a root: the parameter is too weakly identified for "
            "resampling; use Sandwich(interval='score')"
        )
    law = options.weights if engine.sampling.strata is None else "rao-wu"
    return Draws(values[rooted], int(np.sum(~rooted)), seed, law)


def solve_draws(engine: Engine, root: Root, weights: Weights, rebind: EngineUnder | None = None) -> Float:
    """Roots (B, d) under several weight draws, from the full sample's root; NaN where there is none."""
    if rebind is not None:
        each = (weights.draw(m) for m in range(len(weights)))
        return np.stack([solve_draw(rebind, draw, root.beta) for draw in each])
    direct = engine.direct(weights)
    if direct is not None:
        return direct
    scale = score_scale(engine, root.beta, engine.own)
    if root.slope is not None:
        return _solve_steps(engine, root, weights, scale)

    def evaluate(betas: Float, draws: Int) -> tuple[Float, Float]:
        return engine.score_and_slope(betas, weights, draws)

    roots = newton(evaluate, _near_start(engine, root.beta, weights), scale)
    beta = roots.beta
    for m in np.flatnonzero(~roots.converged | fading(evaluate, roots)):
        reached = beta[m] if engine.concave else root.beta
        beta[m] = solve_draw(lambda _w: engine, weights.draw(int(m)), reached)
    return beta


def _near_start(engine: Engine, beta: Float, weights: Weights) -> Float:
    """A start (B, d) near each draw's root: all draws share the full sample's root, where one evaluation serves them all.

    A Newton step with the curvature of the score added: one full evaluation saved for every draw. The curvature is that of
    the unweighted score; the draws' own differs by the order that the step neglects anyway.
    """
    start = np.tile(beta, (len(weights), 1))
    if not engine.about.curved:
        return start
    score, slope = engine.score_and_slope(beta[None], weights)
    d = beta.size
    width = 1e-4 * np.maximum(np.abs(beta), 0.1)
    shifts = np.diag(width)
    slopes = engine.slopes_at(np.concatenate([beta + shifts, beta - shifts]), weights.average)
    curvature = (slopes[:d] - slopes[d:]) / (2 * width[:, None, None])
    step = solve_each(slope, score)
    with np.errstate(all="ignore"):
        bent = solve_each(slope, np.einsum("kij,bj,bk->bi", curvature, step, step))
        size = np.abs(bent).max(axis=1) / np.maximum(np.abs(step).max(axis=1), 1e-300)
    moved = start - step - 0.5 * np.where(size < 1, 1.0, 0.0)[:, None] * bent
    return np.where(np.isfinite(moved), moved, start)


def _solve_steps(engine: Engine, root: Root, weights: Weights, scale: Float) -> Float:
    assert root.slope is not None
    known = StepRoot(root.beta, root.norm, root.steps, root.slope)
    pairs = resolve_steps(engine, weights, known, scale)
    return np.stack([beta if norm <= 0.5 else np.full_like(beta, np.nan) for beta, norm in pairs])


def solve_draw(rebind: EngineUnder, weights: Weights, start: Float) -> Float:
    """One draw by the careful solver; NaN where no root exists."""
    try:
        return solve(rebind(weights), weights, start).beta
    except SolveError:
        return np.full_like(start, np.nan)


def spread(values: Float, scale: str) -> Float:
    """Standard errors (d,): the interquartile range over that of a normal, or the standard deviation."""
    if scale == "sd":
        return np.asarray(values.std(axis=0, ddof=1))
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return np.asarray((high - low) / NORMAL_IQR)


def draws_covariance(values: Float, scale: str) -> Float:
    """Covariance with the chosen scale on its diagonal; correlations from draws cut off at four scales from the median."""
    errors = spread(values, scale)
    if scale == "sd":
        return np.atleast_2d(np.cov(values, rowvar=False))
    centred = values - np.median(values, axis=0)
    trimmed = np.clip(centred, -4 * errors, 4 * errors)
    sd = trimmed.std(axis=0)
    safe = np.where(sd > 0, sd, 1.0)
    correlation = (trimmed.T @ trimmed / len(trimmed) - np.outer(trimmed.mean(0), trimmed.mean(0))) / np.outer(
        safe, safe
    )
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation * np.outer(errors, errors))

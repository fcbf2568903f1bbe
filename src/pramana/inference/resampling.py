"""Random-weight resampling: the distribution of the estimator without a formula for its variance."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float, Int
from pramana.errors import SolveError
from pramana.estimating import Equation
from pramana.inference.derivative_free import StepRoot, resolve_steps
from pramana.inference.options import Resampling
from pramana.inference.sample import Sample
from pramana.inference.solve import Root, score_scale, solve
from pramana.inference.survey import rao_wu
from pramana.kernels.newton import fading, newton, solve_each
from pramana.kernels.streams import STREAM_VERSION, multipliers

BLOCK_ENTRIES = 4_000_000
"""Weights held at once (draws × rows): 32 MB."""

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


def resample(
    sample: Sample, root: Root, options: Resampling, rebind: Callable[[Float], Equation] | None = None
) -> Draws:
    """Solve again under random weights.

    Parameters
    ----------
    rebind : row weights ↦ equation, for estimators with a nuisance fit that must be re-weighted too.
    """
    seed = secrets.randbits(63) if options.seed is None else options.seed
    share = -(-options.draws // options.threads)
    size = max(1, min(share, BLOCK_ENTRIES // max(sample.rows, 1)))

    def block(first: int) -> Float:
        indices = np.arange(first, min(first + size, options.draws))
        return _solve_block(sample, root, draw_weights(sample, options, seed, indices), rebind)

    starts = range(0, options.draws, size)
    if options.threads > 1:
        with ThreadPoolExecutor(options.threads) as pool:
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
    law = options.weights if sample.design is None else "rao-wu"
    return Draws(values[rooted], int(np.sum(~rooted)), seed, law)


def draw_weights(sample: Sample, options: Resampling, seed: int, indices: Int) -> Float:
    """Row weights (draws, rows): one multiplier a record, or one a cluster; counts draw the law of their sum.

    Multipliers of sums have mean 1 in every draw: the number of sampled units is fixed.
    """
    if sample.clusters is not None and sample.design is not None:
        return rao_wu(sample.design, seed, indices)[:, sample.clusters] * sample.row_weights
    if sample.clusters is not None:
        by_cluster = multipliers(options.weights, seed, indices, np.arange(sample.groups or 0))
        if sample.sums:
            by_cluster = _mean_one(by_cluster, by_cluster.shape[1])
        return by_cluster[:, sample.clusters] * sample.row_weights
    counts = sample.frequencies
    law = multipliers(
        options.weights, seed, indices, np.arange(sample.rows), None if counts is None else np.maximum(counts, 1)
    )
    if counts is not None:
        law = np.where(counts > 0, law, 0.0)  # a sum over no records
    if sample.sums:
        law = _mean_one(law, sample.n)
    return law if sample.weights is None else law * sample.weights


def _mean_one(law: Float, units: float) -> Float:
    """Multipliers whose sum over the units is their number; NaN where all were zero, a draw without a root."""
    sums = law.sum(axis=1, keepdims=True)
    return law * np.divide(units, sums, out=np.full_like(sums, np.nan), where=sums > 0)


def _solve_block(sample: Sample, root: Root, weights: Float, rebind: Callable[[Float], Equation] | None) -> Float:
    if rebind is not None:
        return np.stack([solve_draw(rebind, w, root.beta) for w in weights])
    equation = sample.equation
    if hasattr(equation, "roots"):
        return np.asarray(equation.roots(weights))
    scale = score_scale(equation, root.beta, sample.row_weights)
    if root.slope is not None:
        return _solve_step_block(equation, root, weights, scale)

    some = getattr(equation, "score_and_slope_of", None)

    def evaluate(betas: Float, rows: Int) -> tuple[Float, Float]:
        return some(betas, weights, rows) if some is not None else equation.score_and_slope(betas, weights[rows])

    roots = newton(evaluate, _near_start(equation, root.beta, weights), scale)
    beta = roots.beta
    for m in np.flatnonzero(~roots.converged | fading(evaluate, roots)):
        reached = beta[m] if getattr(equation, "concave", False) else root.beta
        beta[m] = solve_draw(lambda _w: equation, weights[m], reached)
    return beta


def solve_weighted(sample: Sample, root: Root, weights: Float) -> Float:
    """Roots (R, d) under given row weights (R, n), from the full sample's root; NaN where there is none."""
    return _solve_block(sample, root, weights, None)


def _near_start(equation: Equation, beta: Float, weights: Float) -> Float:
    """A start (B, d) near each draw's root: all draws share the full sample's root, where one evaluation serves them all."""
    shared = getattr(equation, "score_and_slope_from_one", None)
    start = np.tile(beta, (len(weights), 1))
    if shared is None:
        return start
    score, slope = shared(beta, weights)
    return _second_order(equation, start, score, slope, float(weights.mean()))


def _second_order(equation: Equation, start: Float, score: Float, slope: Float, weight: float) -> Float:
    """A Newton step with the curvature of the score added: one full evaluation saved for every draw.

    The curvature is that of the unweighted score; the draws' own differs by the order that the step neglects anyway.
    """
    d, beta = start.shape[1], start[0]
    width = 1e-4 * np.maximum(np.abs(beta), 0.1)
    shifts = np.diag(width)
    ends = np.concatenate([beta + shifts, beta - shifts])
    slopes = equation.score_and_slope(ends, np.full((2 * d, equation.n), weight))[1]
    curvature = (slopes[:d] - slopes[d:]) / (2 * width[:, None, None])
    step = solve_each(slope, score)
    with np.errstate(all="ignore"):
        bent = solve_each(slope, np.einsum("kij,bj,bk->bi", curvature, step, step))
        size = np.abs(bent).max(axis=1) / np.maximum(np.abs(step).max(axis=1), 1e-300)
    moved = start - step - 0.5 * np.where(size < 1, 1.0, 0.0)[:, None] * bent
    return np.where(np.isfinite(moved), moved, start)


def _solve_step_block(equation: Equation, root: Root, weights: Float, scale: Float) -> Float:
    assert root.slope is not None
    known = StepRoot(root.beta, root.norm, root.steps, root.slope)
    pairs = [resolve_steps(equation, w, known, scale) for w in weights]
    return np.stack([beta if norm <= 0.5 else np.full_like(beta, np.nan) for beta, norm in pairs])


def solve_draw(rebind: Callable[[Float], Equation], weights: Float, start: Float) -> Float:
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


def covariance(values: Float, scale: str) -> Float:
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

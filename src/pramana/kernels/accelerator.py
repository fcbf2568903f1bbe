"""The same resampled roots through JAX, for a GPU: all draws of many data sets at once.

Nothing here changes JAX's global settings: 64-bit arithmetic is switched on for these calls alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pramana.arrays import Bool, Float, Words
from pramana.errors import PramanaError
from pramana.kernels.newton import ROUNDING, TOLERANCE
from pramana.kernels.predictor import IDENTITY, LOGIT, NEGATIVE_BINOMIAL, POWER, Curve, Packed

_WEYL, _MIX1, _MIX2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ONE = 0x3FF0000000000000
BATCH_ENTRIES = 200_000_000
"""Draws × rows in one launch: 1.6 GB of weights."""
FIRST_STEPS, LAST_STEPS = 5, 60
NEAR = 1e-6
"""Score, in its standard deviations, from which one more Newton step lands within rounding."""
STRAGGLERS = 1024


def wide() -> Any:
    """64-bit mode as a context, whatever the version of JAX calls it."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax import experimental

    return experimental.enable_x64()  # type: ignore[attr-defined]


def devices(kind: str) -> list[Any]:
    """Devices of a kind; an error that says what there is when there is none."""
    found = [d for d in jax.devices() if d.platform == kind or (kind == "gpu" and d.platform in ("cuda", "rocm"))]
    if not found:
        raise PramanaError(f"device {kind!r} is not available to JAX, which sees {jax.devices()}: use --device cpu")
    return found


def resampled_roots(packed: Packed, curve: Curve, start: Float, keys: Words, scale: Float) -> tuple[Float, Bool, Float]:
    """Roots (G, M, d) under exponential weights, which of them were found, and the first Newton steps' spread (G, d).

    Parameters
    ----------
    packed : arrays of G data sets, as for the compiled kernels.
    start, scale : (G, d).
    keys : (G, M), the streams' starting words.
    """
    groups, draws = keys.shape
    beta = np.empty((groups, draws, start.shape[1]))
    found, first = np.empty((groups, draws), dtype=bool), np.empty_like(start)
    known = {"code": curve.code, "shape": curve.shape}
    with wide():
        launched = []
        for rows in _batches(groups, draws * packed[1].shape[2]):
            arrays = _padded(jax.device_put(tuple(a[rows] if a.size else a for a in packed)))
            device = (*arrays, *jax.device_put((start[rows], keys[rows], scale[rows])))
            launched.append((rows, device, _newton(*device, steps=FIRST_STEPS, **known)))
        for rows, device, (roots, norm, spread) in launched:
            values, left = np.array(roots), np.array(norm)
            _chase(device, known, values, left)
            beta[rows], found[rows], first[rows] = values, left <= ROUNDING, np.asarray(spread)
    return beta, found, first


def _batches(groups: int, entries: int) -> list[slice]:
    """Data sets by launch, all of one size so that one program serves them; the last may overlap the one before."""
    count = -(-groups * entries // BATCH_ENTRIES)
    size = -(-groups // count)
    starts = [min(low, groups - size) for low in range(0, groups, size)]
    return [slice(low, low + size) for low in starts]


@jax.jit
def _padded(arrays: Any) -> Any:
    """Records up to a multiple of 512, the added ones without weight: Newton is compiled for few shapes."""
    missing = -arrays[1].shape[2] % 512
    return tuple(jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, missing)]) if a.size else a for a in arrays)


def _chase(device: Any, known: Any, values: Float, left: Float) -> None:
    """The stragglers by themselves, so that nobody else waits for them; written into `values` and `left`."""
    slow = np.argwhere(left > TOLERANCE)
    for low in range(0, len(slow), STRAGGLERS):
        part = slow[low : low + STRAGGLERS]
        group, draw = part[np.resize(np.arange(len(part)), STRAGGLERS)].T
        beta, norm = _newton_of_some(*device, group, draw, steps=LAST_STEPS, **known)
        values[group, draw], left[group, draw] = np.asarray(beta), np.asarray(norm)


def sandwich_errors_on_device(packed: Packed, curve: Curve, beta: Float) -> tuple[Float, Float]:
    """HC0 standard errors (G, d), and the inverse standard deviations of the scores (G, d)."""
    with wide():
        errors, spread = _sandwich(
            *(jnp.asarray(a) for a in packed), jnp.asarray(beta), code=curve.code, shape=curve.shape
        )
        return np.asarray(errors), 1 / np.asarray(spread)


@partial(jax.jit, static_argnames=("code", "shape"))
def _sandwich(
    design: Any, weight: Any, first: Any, offset: Any, beta: Any, *, code: int, shape: float
) -> tuple[Any, Any]:
    eta = jnp.einsum("gcdn,gd->gcn", design, beta) + (offset if offset.size else 0.0)
    force, bend = _curve(eta, weight, first, code, shape)
    phi = jnp.einsum("gcn,gcdn->gdn", force, design)
    outer = jnp.einsum("gdn,gen->gde", phi, phi)
    bread = jnp.linalg.inv(jnp.einsum("gcn,gcdn,gcen->gde", bend, design, design))
    covariance = bread @ outer @ jnp.swapaxes(bread, 1, 2)
    return jnp.sqrt(jnp.diagonal(covariance, axis1=1, axis2=2)), jnp.sqrt(jnp.diagonal(outer, axis1=1, axis2=2))


def statistics(values: Float) -> tuple[Float, Float]:
    """Quantiles (4, G, d) at 0.25, 0.75, 0.025 and 0.975 and standard deviations (G, d) of draws (G, M, d)."""
    with wide():
        quantiles, spread = _statistics(jnp.asarray(values))
        return np.array(quantiles), np.array(spread)


@jax.jit
def _statistics(values: Any) -> tuple[Any, Any]:
    return jnp.quantile(values, jnp.array([0.25, 0.75, 0.025, 0.975]), axis=1), jnp.std(values, axis=1, ddof=1)


_STATIC = ("code", "shape", "steps")


@partial(jax.jit, static_argnames=_STATIC)
def _newton_of_some(
    design: Any,
    weight: Any,
    first: Any,
    offset: Any,
    start: Any,
    keys: Any,
    scale: Any,
    group: Any,
    draw: Any,
    **known: Any,
) -> tuple[Any, Any]:
    """Single draws of some data sets, each with a copy of its data."""
    chosen = tuple(a[group] if a.size else a for a in (design, weight, first, offset, start))
    beta, norm, _ = _newton(*chosen, keys[group, draw][:, None], scale[group], **known)
    return beta[:, 0], norm[:, 0]


@partial(jax.jit, static_argnames=_STATIC)
def _newton(
    design: Any,
    weight: Any,
    first: Any,
    offset: Any,
    start: Any,
    keys: Any,
    scale: Any,
    *,
    code: int,
    shape: float,
    steps: int,
) -> tuple[Any, Any, Any]:
    """Damped Newton: a step that does not lower the score is halved at the next turn, draw by draw.

    Turns end when the score is so near to zero that one more step, taken without looking, squares the distance away.
    """
    multipliers = _exponentials(keys, weight.shape[2])
    evaluate = partial(_totals, design, weight, first, offset, multipliers, code=code, shape=shape)

    def norm_of(score: Any) -> Any:
        size = jnp.max(jnp.abs(score * scale[:, None, :]), axis=-1)
        return jnp.where(jnp.isfinite(size), size, jnp.inf)

    def turn(state: Any) -> Any:
        beta, score, slope, norm, length, count = state
        trial = beta - length[..., None] * _eliminate(slope, score)
        new_score, new_slope = evaluate(trial)
        new_norm = norm_of(new_score)
        better = new_norm <= (1 - 1e-4 * length) * norm
        b1, b2 = better[..., None], better[..., None, None]
        kept = (jnp.where(b1, trial, beta), jnp.where(b1, new_score, score), jnp.where(b2, new_slope, slope))
        return *kept, jnp.where(better, new_norm, norm), jnp.where(better, 1.0, length / 2), count + 1

    def going(state: Any) -> Any:
        return (state[5] < steps) & jnp.any((state[3] > NEAR) & (state[4] > 2.0**-25))

    begin = jnp.broadcast_to(start[:, None, :], (*keys.shape, start.shape[1]))
    score, slope = evaluate(begin)
    spread = jnp.nanstd(_eliminate(slope, score), axis=1, ddof=1)
    state = (begin, score, slope, norm_of(score), jnp.ones(begin.shape[:-1]), 0)
    beta, score, slope, norm, _, _ = jax.lax.while_loop(going, turn, state)
    near = norm <= NEAR
    beta = jnp.where(near[..., None], beta - _eliminate(slope, score), beta)
    return beta, jnp.where(near, jnp.minimum(norm, 0.01 * TOLERANCE), norm), spread


def _exponentials(keys: Any, n: int) -> Any:
    """The streams of `streams.uniforms`, bit for bit, then −log."""
    rows = jnp.arange(1, n + 1, dtype=jnp.uint64)
    words = keys[..., None] + rows * jnp.uint64(_WEYL)
    words = (words ^ (words >> jnp.uint64(30))) * jnp.uint64(_MIX1)
    words = (words ^ (words >> jnp.uint64(27))) * jnp.uint64(_MIX2)
    words = words ^ (words >> jnp.uint64(31))
    bits = (words >> jnp.uint64(12)) | jnp.uint64(_ONE)
    return -jnp.log(jax.lax.bitcast_convert_type(bits, jnp.float64) - (1.0 - 2.0**-53))


def _totals(
    design: Any, weight: Any, first: Any, offset: Any, multipliers: Any, betas: Any, *, code: int, shape: float
) -> tuple[Any, Any]:
    """Score (G, M, d) and slope (G, M, d, d); all sums over records in one pass."""
    d, nodes = design.shape[2], design.shape[1]
    pairs = [(j, k) for j in range(d) for k in range(j, d)]
    sums: list[Any] = [0.0] * (d + len(pairs))
    for c in range(nodes):
        x = [design[:, None, c, j, :] for j in range(d)]
        eta = sum(betas[..., j, None] * x[j] for j in range(d))
        if offset.size:
            eta = eta + offset[:, None, c, :]
        force, bend = _curve(eta, weight[:, None, c, :], first[:, None, c, :], code, shape)
        force, bend = force * multipliers, bend * multipliers
        terms = [force * x[j] for j in range(d)] + [bend * (x[j] * x[k]) for j, k in pairs]
        sums = [total + part for total, part in zip(sums, _sum_together(terms), strict=True)]
    slope = dict(zip(pairs, sums[d:], strict=True))
    rows = [jnp.stack([slope[min(j, k), max(j, k)] for k in range(d)], axis=-1) for j in range(d)]
    return jnp.stack(sums[:d], axis=-1), jnp.stack(rows, axis=-2)


def _sum_together(terms: list[Any]) -> Any:
    """Sums over the last axis in one pass, so that what the terms share is computed once."""
    zeros = [jnp.zeros((), term.dtype) for term in terms]
    return jax.lax.reduce(terms, zeros, lambda a, b: [x + y for x, y in zip(a, b, strict=True)], (terms[0].ndim - 1,))


def _curve(eta: Any, weight: Any, first: Any, code: int, shape: float) -> tuple[Any, Any]:
    if code == IDENTITY:
        return first - weight * eta, -weight * jnp.ones_like(eta)
    if code == LOGIT:
        mu = jax.nn.sigmoid(eta)
        return first - weight * mu, -weight * mu * (1 - mu)
    mu = jnp.exp(eta)
    if code == POWER:
        a = jnp.exp((1 - shape) * eta)
        return a * (first - weight * mu), a * ((1 - shape) * (first - weight * mu) - mu * weight)
    assert code == NEGATIVE_BINOMIAL
    a = 1 / (1 + shape * mu)
    residual = first - weight * mu
    return a * residual, -a * mu * (shape * a * residual + weight)


def _eliminate(slope: Any, score: Any) -> Any:
    """slope⁻¹ score by elimination written out: d is small, and a batched factorisation is slow on a GPU."""
    d = score.shape[-1]
    rows = [[slope[..., j, k] for k in range(d)] + [score[..., j]] for j in range(d)]
    for p in range(d):
        for j in range(p + 1, d):
            factor = rows[j][p] / rows[p][p]
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[p], strict=True)]
    solution: list[Any] = [None] * d
    for p in reversed(range(d)):
        rest = sum((rows[p][k] * solution[k] for k in range(p + 1, d)), start=0.0)
        solution[p] = (rows[p][d] - rest) / rows[p][p]
    return jnp.stack(solution, axis=-1)

"""Many data sets of one size on a device, through JAX: all their roots at once, and all the roots of their resamples.

Nothing here changes JAX's global settings: 64-bit arithmetic is switched on for these calls alone. The slow versions that
these must equal are `newton` with the kernels of `predictor`, and `resample`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pramana.arrays import Bool, Float, Words
from pramana.errors import PramanaError
from pramana.kernels.newton import ROUNDING, SETTLED, TOLERANCE
from pramana.kernels.predictor import IDENTITY, LOGIT, NEGATIVE_BINOMIAL, POWER
from pramana.kernels.products import Products
from pramana.kernels.streams import fractions, words_of

BATCH_ENTRIES, BATCH_SHARE = 200_000_000, 0.1
"""Draws × rows in one launch, 1.6 GB of weights; on a device that says how large its memory is, what fills a share of it."""
FIRST_STEPS, MORE_STEPS = 2, (6, 60)
"""Evaluations of all draws together after a rough one, and of those that are left, in rounds: in the last one few run to their end."""
ROUGH = 0.3
"""Score, in its standard deviations, up to which a step by sums in single precision is taken: it lands within 1e-5 of the root or so."""
SHORTEST = 2.0**-12
"""Share of a Newton step below which the careful solver takes over."""
NEAR = 1e-6
"""Score, in its standard deviations, from which one more Newton step lands within rounding."""
STRAGGLERS = (1024, 8192)
"""Draws that are solved by themselves in one launch: as few as hold them all, so that few sizes are compiled."""
TILES = (4, 5, 2, 1)
"""Draws that are summed together, so that a record is read once for all of them."""
SHIFT = 1e-4
"""Relative distance over which the slope's own slope is measured."""
FILLED = 128
"""Records of a data set are filled up to a multiple."""


def wide() -> Any:
    """64-bit mode as a context, whatever the version of JAX calls it."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax import experimental

    return experimental.enable_x64()  # type: ignore[attr-defined]


def devices(kind: str) -> list[Any]:
    """Devices of a kind; an error that says what there is when there is none."""
    try:
        seen = jax.devices()
    except RuntimeError as error:  # of a plugin that cannot start
        raise PramanaError(
            f"device {kind!r} is not available to JAX, which says: {str(error).splitlines()[0]}; use device='cpu'"
        ) from None
    found = [d for d in seen if d.platform == kind or (kind == "gpu" and d.platform in ("cuda", "rocm"))]
    if not found:
        raise PramanaError(f"device {kind!r} is not available to JAX, which sees {seen}: use device='cpu'")
    return found


class Layout(NamedTuple):
    """What is alike in all data sets, known when a program is compiled.

    Attributes
    ----------
    place : (d), the varying clean part of each design column, −1 where it is the same for all records.
    node : (C, d), what that part is multiplied with, or the whole column.
    mass : (C), the weights of the nodes, where all records have the same ones; else empty.
    """

    place: tuple[int, ...]
    node: tuple[tuple[float, ...], ...]
    mass: tuple[float, ...]
    code: int
    shape: float

    @classmethod
    def of(cls, p: Products) -> tuple[Layout, Float]:
        """With the clean parts that vary."""
        assert p.curve.code is not None
        alike = np.array([row[0] == row[-1] and bool((row == row[0]).all()) for row in p.clean])
        column = np.where(alike, -1, np.cumsum(~alike) - 1)
        node = p.node * np.where(alike, p.clean[:, 0], 1.0)[p.place]
        mass = tuple(p.table[0].tolist()) if len(p.table) == 1 else ()
        layout = cls(
            tuple(column[p.place].tolist()), tuple(map(tuple, node.tolist())), mass, p.curve.code, p.curve.shape
        )
        return layout, p.clean if not alike.any() else p.clean[~alike]

    @property
    def d(self) -> int:
        return len(self.place)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [(j, k) for j in range(self.d) for k in range(j, self.d)]


class Arrays(NamedTuple):
    """G data sets of n records, those beyond `size` filled up with zeros so that programs are compiled for few shapes.

    Attributes
    ----------
    clean : (G, p, n), the clean parts that vary.
    weight, first, offset : (G, C, n), weights of the nodes, their products with the response, and offsets; weight and offset
        are empty, (G, 0, 0), where there are none.
    size : records of a data set.
    """

    clean: Any
    weight: Any
    first: Any
    offset: Any
    size: Any

    def at(self, index: Any) -> Arrays:
        """Some of the data sets, or all with an axis more."""
        return Arrays(self.clean[index], self.weight[index], self.first[index], self.offset[index], self.size)

    @property
    def present(self) -> Any:
        """1 for a record, 0 for what was filled up (n,)."""
        return (jnp.arange(self.first.shape[2]) < self.size).astype(self.first.dtype)


@dataclass(frozen=True)
class DeviceSets:
    """Data sets of equal size on the device."""

    arrays: Arrays
    layout: Layout

    @classmethod
    def of(cls, p: Products, groups: int) -> DeviceSets:
        """The records lie one data set after the other."""
        layout, clean = Layout.of(p)
        with wide():
            rows = np.empty(0, dtype=np.int32) if layout.mass else p.row.astype(np.int32)
            parts = jax.device_put((clean, p.table, rows, p.y1, p.offset))
            return cls(_spread_out(*parts, groups=groups), layout)

    def roots(self, start: Float) -> tuple[Float, Bool]:
        """Roots (G, d) from a common start (d,), and which of them were found."""
        with wide():
            begin = jnp.broadcast_to(jnp.asarray(start), (len(self.arrays.first), self.layout.d))
            beta, norm = _roots(self.arrays, begin, layout=self.layout)
            return np.array(beta), np.asarray(norm) <= ROUNDING

    def fitted(self, betas: Float) -> Any:
        """Fitted means (G, n, C) at one value a data set (G, d), on the device."""
        with wide():
            return _means(self.arrays, jnp.asarray(betas), layout=self.layout)

    def means(self, betas: Float) -> Float:
        """Fitted means (n, C) of all records at one value a data set (G, d)."""
        found = self.fitted(betas)
        return np.asarray(found[:, : int(self.arrays.size)]).reshape(-1, found.shape[2])

    def sandwich(self, beta: Float) -> tuple[Float, Float]:
        """HC0 standard errors (G, d), and the inverse standard deviations of the scores (G, d)."""
        with wide():
            errors, spread = _sandwich(self.arrays, jnp.asarray(beta), layout=self.layout)
            return np.asarray(errors), 1 / np.asarray(spread)

    def resampled(self, beta: Float, keys: Words, scale: Float) -> Resampled:
        """The roots under exponential weights.

        Parameters
        ----------
        beta, scale : (G, d).
        keys : (G, M), the streams' starting words.
        """
        out = Resampled(np.empty((4, *beta.shape)), np.empty_like(beta), np.empty_like(beta), {})
        with wide():
            parts = _batches(len(keys), keys.shape[1] * self.arrays.first.shape[2], _entries())
            launched = [(rows, self._launched(beta[rows], keys[rows], scale[rows], rows)) for rows in parts]
            for rows, (arguments, found) in launched:
                self._finished(arguments, found, out, rows)
        return out

    def _launched(self, beta: Float, keys: Words, scale: Float, rows: slice) -> tuple[Any, Any]:
        whole = rows.stop - rows.start == len(self.arrays.first)
        arguments = (self.arrays if whole else self.arrays.at(rows), *jax.device_put((beta, keys, scale)))
        return arguments, _resampled(*arguments, layout=self.layout)

    def _finished(self, arguments: Any, found: Any, out: Resampled, rows: slice) -> None:
        """Stragglers by themselves, so that nobody else waits for them; then what all draws say."""
        values, norm, first = found
        left = np.array(norm)
        for steps in MORE_STEPS:
            slow = np.argwhere(left > TOLERANCE)
            size = next((k for k in STRAGGLERS if k >= len(slow)), STRAGGLERS[-1])
            for low in range(0, len(slow), size):
                part = slow[low : low + size]
                group, draw = part[np.resize(np.arange(len(part)), size)].T
                values, late = _chased(*arguments, values, group, draw, layout=self.layout, steps=steps)
                left[group, draw] = np.asarray(late)
        quantiles, spread = _statistics(values)
        out.quantiles[:, rows], out.spread[rows], out.first[rows] = quantiles, spread, first
        rooted = left <= ROUNDING
        some = np.flatnonzero(~rooted.all(axis=1))
        host = np.array(values) if some.size else np.empty(0)
        out.open.update({rows.start + int(g): (host[g], rooted[g]) for g in some})


@dataclass(frozen=True)
class Resampled:
    """What the draws of G data sets say.

    Attributes
    ----------
    quantiles : (4, G, d), at 0.25, 0.75, 0.025 and 0.975.
    spread, first : (G, d), standard deviations of the draws, and of their first Newton steps.
    open : by data set where Newton did not find all: the draws (M, d), and which of them were found (M,).
    """

    quantiles: Float
    spread: Float
    first: Float
    open: dict[int, tuple[Float, Bool]]


def memory() -> int | None:
    """Bytes of the device, where it says."""
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    return None if limit is None else int(limit)


def _entries() -> int:
    limit = memory()
    return BATCH_ENTRIES if limit is None else int(BATCH_SHARE * limit / 8)


def _batches(groups: int, entries: int, most: int) -> list[slice]:
    """Data sets by launch, all of one size so that one program serves them; the last may overlap the one before."""
    count = -(-groups * entries // most)
    size = -(-groups // count)
    starts = [min(low, groups - size) for low in range(0, groups, size)]
    return [slice(low, low + size) for low in starts]


@partial(jax.jit, static_argnames=("groups",))
def _spread_out(clean: Any, table: Any, row: Any, y1: Any, offset: Any, *, groups: int) -> Arrays:
    """The arrays of data sets from those of `Products`."""
    size = y1.shape[1] // groups

    def by_set(values: Any) -> Any:
        """(·, n) as (G, ·, n/G and what is filled up)."""
        cut = values.reshape(values.shape[0], groups, size).swapaxes(0, 1)
        return jnp.pad(cut, [(0, 0), (0, 0), (0, -size % FILLED)])

    none = jnp.zeros((groups, 0, 0))
    weight = by_set(table[row].T) if row.size else none
    first = by_set(y1) * (weight if row.size else table.reshape(1, -1, 1))
    moved = jnp.broadcast_to(by_set(offset), first.shape) if len(offset) else none
    return Arrays(by_set(clean), weight, first, moved, jnp.asarray(size))


_program = partial(jax.jit, static_argnames=("layout",))


@_program
def _means(arrays: Arrays, beta: Any, *, layout: Layout) -> Any:
    """(G, n, C)."""
    etas = [_eta(arrays, layout, c, beta.T[:, :, None]) for c in range(len(layout.node))]
    return jnp.stack([mean_at(eta, layout.code) for eta in etas], axis=-1)


@_program
def _sandwich(arrays: Arrays, beta: Any, *, layout: Layout) -> tuple[Any, Any]:
    phi, bend = _by_record(arrays, beta, layout)
    outer = jnp.einsum("gdn,gen->gde", phi, phi)
    bread = jnp.linalg.inv(_squared(jnp.sum(bend, axis=-1), layout))
    covariance = bread @ outer @ jnp.swapaxes(bread, 1, 2)
    return jnp.sqrt(jnp.diagonal(covariance, axis1=1, axis2=2)), jnp.sqrt(jnp.diagonal(outer, axis1=1, axis2=2))


@jax.jit
def _statistics(values: Any) -> tuple[Any, Any]:
    return jnp.quantile(values, jnp.array([0.25, 0.75, 0.025, 0.975]), axis=1), jnp.std(values, axis=1, ddof=1)


@_program
def _roots(arrays: Arrays, start: Any, *, layout: Layout) -> tuple[Any, Any]:
    """One root of each data set (G, d), and the norm that was left (G,), infinite for a score that fades away."""
    scale = 1 / jnp.sqrt(jnp.sum(_by_record(arrays, start, layout)[0] ** 2, axis=-1))
    evaluate = partial(_totals, arrays, layout, arrays.present[None, None])
    beta, norm = _descend(evaluate, start[:, None], scale, MORE_STEPS[-1])
    return beta[:, 0], _settled(evaluate, beta, norm)[:, 0]


@_program
def _resampled(arrays: Arrays, start: Any, keys: Any, scale: Any, *, layout: Layout) -> tuple[Any, Any, Any]:
    """Draws (G, M, d), the norms that were left (G, M), and the spread of first Newton steps (G, d)."""
    multipliers = exponentials(keys, arrays.first.shape[2]) * arrays.present
    begin, step = _near(arrays, layout, start, multipliers)
    begin = _roughly(arrays, layout, multipliers, begin, scale)
    beta, norm = _descend(partial(_totals, arrays, layout, multipliers), begin, scale, FIRST_STEPS)
    return beta, norm, jnp.nanstd(step, axis=1, ddof=1)


@partial(jax.jit, static_argnames=("layout", "steps"), donate_argnames=("values",))
def _chased(
    arrays: Arrays, start: Any, keys: Any, scale: Any, values: Any, group: Any, draw: Any, *, layout: Layout, steps: int
) -> tuple[Any, Any]:
    """Single draws of some data sets, each with a copy of its data, from where they have come to; put back into the values."""
    chosen, reached = arrays.at(group), values[group, draw]
    begin = jnp.where(jnp.isfinite(reached).all(axis=-1, keepdims=True), reached, start[group])
    multipliers = exponentials(keys[group, draw][:, None], arrays.first.shape[2]) * arrays.present
    evaluate = partial(_totals, chosen, layout, multipliers)
    beta, norm = _descend(evaluate, begin[:, None], scale[group], steps)
    return values.at[group, draw].set(beta[:, 0]), _settled(evaluate, beta, norm)[:, 0]


def _settled(evaluate: Any, beta: Any, norm: Any) -> Any:
    """The norms (G, M), infinite where a full Newton step is still left: a score that vanishes towards infinity."""
    score, slope = evaluate(beta)
    left = jnp.abs(_eliminate(slope, score)) <= SETTLED * (1 + jnp.abs(beta))
    return jnp.where(left.all(axis=-1), norm, jnp.inf)


def _near(arrays: Arrays, layout: Layout, beta: Any, multipliers: Any) -> tuple[Any, Any]:
    """A start (G, M, d) near each draw's root, and the Newton step that each draw takes from the common value (G, d).

    As in `resampling`: there the curve is evaluated once for all draws, and the curvature of the score is added.
    """
    d = layout.d
    phi, bend = _by_record(arrays, beta, layout)
    sums = jnp.einsum("gmn,gkn->gmk", multipliers, jnp.concatenate([phi, bend], axis=1))
    score, slope = sums[..., :d], _squared(sums[..., d:], layout)
    step = _eliminate(slope, score)
    width = SHIFT * jnp.maximum(jnp.abs(beta), 0.1)
    slopes = [
        _squared(jnp.sum(_by_record(arrays, beta + sign * width * jnp.eye(d)[k], layout)[1], axis=-1), layout)
        for sign in (1.0, -1.0)
        for k in range(d)
    ]
    curvature = (jnp.stack(slopes[:d], axis=1) - jnp.stack(slopes[d:], axis=1)) / (2 * width[:, :, None, None])
    bent = _eliminate(slope, jnp.einsum("gkij,gmj,gmk->gmi", curvature, step, step))
    size = jnp.max(jnp.abs(bent), axis=-1) / jnp.maximum(jnp.max(jnp.abs(step), axis=-1), 1e-300)
    begin = beta[:, None] - step - 0.5 * jnp.where(size < 1, 1.0, 0.0)[..., None] * bent
    return jnp.where(jnp.isfinite(begin), begin, beta[:, None]), step


def _roughly(arrays: Arrays, layout: Layout, multipliers: Any, begin: Any, scale: Any) -> Any:
    """One Newton step (G, M, d) by sums in single precision, which cost a fraction; the steps after it are exact ones."""
    single: Any = Arrays(*(part.astype(jnp.float32) for part in arrays))
    score, slope = _totals(single, layout, multipliers.astype(jnp.float32), begin.astype(jnp.float32))
    step = _eliminate(slope.astype(jnp.float64), score.astype(jnp.float64))
    small = jnp.max(jnp.abs(score * scale[:, None, :]), axis=-1, keepdims=True) < ROUGH
    return jnp.where(small & jnp.isfinite(step).all(axis=-1, keepdims=True), begin - step, begin)


def _descend(evaluate: Any, begin: Any, scale: Any, steps: int) -> tuple[Any, Any]:
    """Damped Newton (G, M, d): a step that does not lower the score is halved at the next turn, draw by draw.

    Turns end when the score is so near to zero that one more step, taken without looking, squares the distance away.
    """

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
        return (state[5] < steps) & jnp.any((state[3] > NEAR) & (state[4] > SHORTEST))

    score, slope = evaluate(begin)
    state = (begin, score, slope, norm_of(score), jnp.ones(begin.shape[:-1]), 1)
    beta, score, slope, norm, _, _ = jax.lax.while_loop(going, turn, state)
    near = norm <= NEAR
    beta = jnp.where(near[..., None], beta - _eliminate(slope, score), beta)
    return beta, jnp.where(near, jnp.minimum(norm, 0.01 * TOLERANCE), norm)


def exponentials(keys: Any, n: int, low: Any = 0) -> Any:
    """The streams of `streams.uniforms` for n rows from `low` on, bit for bit, then −log."""
    rows: Any = jnp.arange(n, dtype=jnp.uint64) + jnp.asarray(low, dtype=jnp.uint64)
    return -jnp.log(fractions(words_of(keys, rows)))


def _squared(sums: Any, layout: Layout) -> Any:
    """Symmetric matrices (…, d, d) from their upper triangles (…, d(d+1)/2)."""
    place = {pair: i for i, pair in enumerate(layout.pairs)}
    index = np.array([[place[min(j, k), max(j, k)] for k in range(layout.d)] for j in range(layout.d)])
    return sums[..., index]


def _columns(arrays: Arrays, layout: Layout, c: int) -> list[Any]:
    """The design at one node: columns (G, n), or a number where all records have the same."""
    pairs = zip(layout.node[c], layout.place, strict=True)
    return [factor if place < 0 else factor * arrays.clean[:, place] for factor, place in pairs]


def _eta(arrays: Arrays, layout: Layout, c: int, coefficients: Any) -> Any:
    """Linear predictors at one node, coefficients (d, …) broadcast against columns (G, n)."""
    columns = _columns(arrays, layout, c)
    eta = sum(coefficients[j] * columns[j] for j in range(layout.d)) * jnp.ones_like(arrays.first[:, c])
    return eta + arrays.offset[:, c] if arrays.offset.size else eta


def _curve_of(arrays: Arrays, layout: Layout, c: int, eta: Any) -> tuple[Any, Any]:
    weight = layout.mass[c] if layout.mass else arrays.weight[:, c]
    return curve_at(eta, weight, arrays.first[:, c], layout.code, layout.shape)


def _by_record(arrays: Arrays, beta: Any, layout: Layout) -> tuple[Any, Any]:
    """φ (G, d, n) and the upper triangles of ∂φ (G, d(d+1)/2, n) at one value a data set (G, d)."""
    parts = []
    for c in range(len(layout.node)):
        x = _columns(arrays, layout, c)
        force, bend = _curve_of(arrays, layout, c, _eta(arrays, layout, c, beta.T[:, :, None]))
        terms = [force * x[j] for j in range(layout.d)] + [bend * (x[j] * x[k]) for j, k in layout.pairs]
        parts.append(jnp.stack(terms, axis=1) * arrays.present)
    both = sum(parts[1:], start=parts[0])
    return both[:, : layout.d], both[:, layout.d :]


def _totals(arrays: Arrays, layout: Layout, multipliers: Any, betas: Any) -> tuple[Any, Any]:
    """Score (G, M, d) and slope (G, M, d, d); all sums over records in one pass, of some draws together."""
    groups, draws, d = betas.shape
    tile = next(k for k in TILES if draws % k == 0)
    own = betas.reshape(groups, -1, tile, d)
    weights = multipliers.reshape(*multipliers.shape[:1], -1, tile, multipliers.shape[2]) if tile > 1 else multipliers
    sets = arrays.at((slice(None), slice(None), None))
    sums: list[Any] = [0.0] * (tile * (d + len(layout.pairs)))
    for c in range(len(layout.node)):
        x, terms = _columns(sets, layout, c), []
        for t in range(tile):
            w = weights[:, :, t] if tile > 1 else weights
            force, bend = _curve_of(sets, layout, c, _eta(sets, layout, c, own[:, :, t].transpose(2, 0, 1)[..., None]))
            terms += [w * force * x[j] for j in range(d)] + [w * bend * (x[j] * x[k]) for j, k in layout.pairs]
        sums = [total + part for total, part in zip(sums, _sum_together(terms), strict=True)]
    found = jnp.stack(sums, axis=-1).reshape(groups, draws, -1)
    return found[..., :d], _squared(found[..., d:], layout)


def _sum_together(terms: list[Any]) -> Any:
    """Sums over the last axis in one pass, so that what the terms share is computed once."""
    zeros = [jnp.zeros((), term.dtype) for term in terms]
    return jax.lax.reduce(terms, zeros, lambda a, b: [x + y for x, y in zip(a, b, strict=True)], (terms[0].ndim - 1,))


def mean_at(eta: Any, code: int) -> Any:
    """μ at the linear predictor."""
    return eta if code == IDENTITY else jax.nn.sigmoid(eta) if code == LOGIT else jnp.exp(eta)


def factor_at(eta: Any, code: int, shape: float) -> Any:
    """a = μ′ / V(μ) at the linear predictor."""
    if code == POWER:
        return jnp.exp((1 - shape) * eta)
    return 1 / (1 + shape * jnp.exp(eta)) if code == NEGATIVE_BINOMIAL else 1.0


def curve_at(eta: Any, weight: Any, first: Any, code: int, shape: float) -> tuple[Any, Any]:
    """Force a (S − W μ) and its derivative by the linear predictor."""
    if code == IDENTITY:
        return first - weight * eta, -weight * jnp.ones_like(eta)
    if code == LOGIT:
        mu = mean_at(eta, code)
        return first - weight * mu, -weight * mu * (1 - mu)
    mu = mean_at(eta, code)
    a = factor_at(eta, code, shape)
    if code == POWER:
        return a * (first - weight * mu), a * ((1 - shape) * (first - weight * mu) - mu * weight)
    assert code == NEGATIVE_BINOMIAL
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

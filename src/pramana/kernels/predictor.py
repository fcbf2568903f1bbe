"""Totals of `U = x a(η) (y − μ(η))`, η = xᵀβ, over records spread on nodes with signed weights.

A record i with nodes c contributes `φ_i = Σ_c x_ic a(η_ic) (S_ic − W_ic μ(η_ic))`, where W are the reversion weights
and S the reverted first moment of the response. Leading axes batch resamples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pramana.arrays import Float, Int
from pramana.kernels import backend
from pramana.kernels.blocks import gram

if TYPE_CHECKING:
    from pramana.kernels.products import Products

Packed: TypeAlias = tuple[Float, Float, Float, Float]
CurveValues: TypeAlias = tuple[Float, Float, Float | float, Float | float]
PAIRS_LIMIT = 8
"""Coefficients up to which products of design columns are kept for the compiled kernels."""
PAIRS_ENTRIES = 50_000
"""Numbers up to which they are kept for single slopes too: a sum of what is at hand takes a fifth of the time of products made anew. Larger
arrays are given back to the system after every fit, and taking their pages anew costs more than that."""
IDENTITY, LOGIT, POWER, NEGATIVE_BINOMIAL = range(4)
"""Curves that the compiled kernels know."""


@dataclass(frozen=True)
class Curve:
    """η ↦ (μ, μ′, a, a′) with a = μ′ / V(μ); `code` and `shape` name it to the compiled kernels, None where they lack it."""

    function: Callable[[Float], CurveValues]
    code: int | None = None
    shape: float = 0.0

    def __call__(self, eta: Float) -> CurveValues:
        return self.function(eta)


@dataclass(frozen=True)
class Predictor:
    """Arrays of n records with C nodes each and d coefficients.

    Attributes
    ----------
    design : (n·C, d), node within record running fastest; best column by column in memory.
    weight, first, second : (n, C), the signed measure and its products with y and y².
    offset : (n, C) or None.
    """

    design: Float
    weight: Float
    first: Float
    second: Float
    offset: Float | None
    curve: Curve
    _last: dict[bytes, Spot] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n(self) -> int:
        return self.weight.shape[0]

    @property
    def d(self) -> int:
        return self.design.shape[1]

    @cached_property
    def pairs(self) -> Float:
        """Products of design columns (n·C, d(d+1)/2), so that batched slopes are one matrix product."""
        rows, cols = _triangle(self.d)
        columns = self.design.T
        return (columns[rows] * columns[cols]).T

    @cached_property
    def keeps_pairs(self) -> bool:
        return self.d <= PAIRS_LIMIT and len(self.design) * self.d * (self.d + 1) <= 2 * PAIRS_ENTRIES

    def rows(self, rows: slice) -> Predictor:
        """Some of the records."""
        nodes = self.weight.shape[1]
        low, high, _ = rows.indices(self.n)
        offset = None if self.offset is None else self.offset[rows]
        design = self.design[low * nodes : high * nodes]
        return Predictor(design, self.weight[rows], self.first[rows], self.second[rows], offset, self.curve)

    @cached_property
    def packed(self) -> Packed:
        return self.packed_in(1)

    @cached_property
    def packed_pairs(self) -> Float:
        """Products of the packed design's columns (1, C, d(d+1)/2, n) where they are few, else empty."""
        if self.d > PAIRS_LIMIT:
            return np.empty((0, 0, 0, 0))
        rows, cols = _triangle(self.d)
        design = self.packed[0]
        return np.ascontiguousarray(design[:, :, rows] * design[:, :, cols])

    def packed_in(self, groups: int) -> Packed:
        """Design (G, C, d, n), weight and first (G, C, n) and offset, contiguous along records for the compiled kernels."""
        size, nodes = self.n // groups, self.weight.shape[1]
        design = self.design.reshape(groups, size, nodes, self.d).transpose(0, 2, 3, 1)
        offset = np.empty((0, 0, 0)) if self.offset is None else _by_group(self.offset, groups)
        parts = (design, _by_group(self.weight, groups), _by_group(self.first, groups), offset)
        return tuple(np.require(part, requirements=["C", "W"]) for part in parts)  # type: ignore[return-value]

    def eta(self, betas: Float) -> Float:
        """(B, n, C)."""
        eta = (betas @ self.design.T).reshape(len(betas), *self.weight.shape)
        return eta if self.offset is None else eta + self.offset

    def at(self, beta: Float) -> Spot:
        """The curve at one value (d,); that of the last value asked for is kept, since several sums are taken at a start and at a root."""
        key = beta.tobytes()
        if key not in self._last:
            self._last.clear()
            self._last[key] = Spot.of(self, beta)
        return self._last[key]


@dataclass(frozen=True)
class Spot:
    """What all sums at one parameter value are made of, evaluated once: the curve's mean and a(η) (n, C), the forces a (S − W μ), and their derivatives by η."""

    mu: Float
    a: Float | float
    force: Float
    bend: Float

    @classmethod
    def of(cls, p: Predictor, beta: Float) -> Spot:
        """To be called where overflow is ignored."""
        eta = (p.design @ beta).reshape(p.weight.shape)
        mu, dmu, a, da = p.curve(eta if p.offset is None else eta + p.offset)
        residual = p.first - p.weight * mu
        if _is_one(a):  # a canonical link
            return cls(mu, a, residual, -dmu * p.weight)
        return cls(mu, a, a * residual, da * residual - a * dmu * p.weight)


def _is_one(a: Float | float) -> bool:
    return isinstance(a, float) and a == 1.0


def _by_group(values: Float, groups: int) -> Float:
    """(n, C) as (G, C, n/G)."""
    return values.reshape(groups, -1, values.shape[1]).transpose(0, 2, 1)


def score_and_slope(p: Predictor, betas: Float, weights: Float, rows: Int | None = None) -> tuple[Float, Float]:
    """Score (B, d) and its derivative (B, d, d); `rows` picks rows of the weights, which compiled kernels need not copy."""
    if p.curve.code is not None and backend.worthwhile(len(betas), p.weight.size):
        fast = backend.compiled()
        if fast is not None:
            return _compiled_totals(fast, p, betas, weights, np.arange(len(betas)) if rows is None else rows)
    weights = weights if rows is None else weights[rows]
    if len(betas) == 1:
        with np.errstate(all="ignore"):
            spot, own = p.at(betas[0]), weights[0][:, None]
            return (spot.force * own).reshape(1, -1) @ p.design, _slope(p, spot.bend * own)[None]
    with np.errstate(all="ignore"):
        mu, dmu, a, da = p.curve(p.eta(betas))
        residual = p.first - p.weight * mu
        bend = (da * residual - a * dmu * p.weight) * weights[:, :, None]
        force = a * residual * weights[:, :, None]
        flat = (len(betas), -1)
        return force.reshape(flat) @ p.design, _unpacked(bend.reshape(flat) @ p.pairs, p.d)


def _compiled_totals(fast: Any, p: Predictor, betas: Float, weights: Float, row: Int) -> tuple[Float, Float]:
    """All equations of the batch over the same records, each with its own row of the weights."""
    score, slope = np.empty_like(betas), np.empty((*betas.shape, p.d))
    contiguous = (np.ascontiguousarray(betas), np.zeros(len(betas), dtype=np.int64), np.ascontiguousarray(weights), row)
    fast.totals(*p.packed, p.packed_pairs, p.curve.code, p.curve.shape, *contiguous, score, slope)
    return score, slope


@dataclass(frozen=True)
class Grouped:
    """Data sets of equal size that lie one after the other; all records weigh the same.

    Attributes
    ----------
    made : gives the arrays of all of them, once they are asked for.
    groups : how many there are.
    products : the same records as design columns that are products, for kernels on a device; None where those do not know the equation.
    """

    made: Callable[[], Predictor]
    groups: int
    products: Products | None = None

    @cached_property
    def arrays(self) -> Predictor:
        return self.made()

    @cached_property
    def packed(self) -> Packed:
        return self.arrays.packed_in(self.groups)

    @property
    def curve(self) -> Curve:
        return self.arrays.curve

    def eta(self, betas: Float) -> Float:
        """Linear predictors (n, C) at one value a data set (G, d)."""
        p = self.arrays
        eta = (p.design.reshape(self.groups, -1, p.d) @ betas[:, :, None]).reshape(p.weight.shape)
        return eta if p.offset is None else eta + p.offset

    def means(self, betas: Float) -> Float:
        """Fitted means (n, C) at one value a data set (G, d)."""
        return self.curve(self.eta(betas))[0]

    def spread(self, betas: Float) -> Float:
        """Root of Σ φ_j² in every data set (G, d), at one value a data set."""
        p = self.arrays
        with np.errstate(all="ignore"):
            phi = _summed_over_nodes(p, self.eta(betas))
            return np.sqrt((phi**2).reshape(self.groups, -1, p.d).sum(axis=1))

    def score_and_slope(self, betas: Float, group: Int) -> tuple[Float, Float]:
        """(B, d) and (B, d, d); `group` (B,) names the data set that each equation uses."""
        p, size = self.arrays, self.arrays.n // self.groups
        fast = backend.compiled() if self.curve.code is not None else None
        ones = np.ones((1, size))
        if fast is None:
            sets = [p.rows(slice(g * size, (g + 1) * size)) for g in group]
            parts = [score_and_slope(part, b[None], ones) for part, b in zip(sets, betas, strict=True)]
            return np.concatenate([s for s, _ in parts]), np.concatenate([j for _, j in parts])
        score, slope = np.empty_like(betas), np.empty((*betas.shape, p.d))
        arguments = (
            np.ascontiguousarray(betas),
            np.ascontiguousarray(group),
            ones,
            np.zeros(len(betas), dtype=np.int64),
        )
        pairs = np.empty((0, 0, 0, 0))
        fast.totals(*self.packed, pairs, self.curve.code, self.curve.shape, *arguments, score, slope)
        return score, slope


def score_and_slope_from_one(p: Predictor, beta: Float, weights: Float) -> tuple[Float, Float]:
    """The batch at one common value (d,): the curve is evaluated once, and the sums are one matrix product."""
    with np.errstate(all="ignore"):
        mu, dmu, a, da = p.curve(p.eta(beta[None])[0])
        residual = p.first - p.weight * mu
        design = p.design.reshape(*p.weight.shape, p.d)
        force = np.einsum("nc,ncd->nd", a * residual, design)
        bend = np.einsum("nc,ncp->np", da * residual - a * dmu * p.weight, p.pairs.reshape(*p.weight.shape, -1))
        sums = weights @ np.column_stack([force, bend])
    return sums[:, : p.d], _unpacked(sums[:, p.d :], p.d)


def _unpacked(pairs: Float, d: int) -> Float:
    """Symmetric matrices (B, d, d) from their upper triangles (B, d(d+1)/2)."""
    return pairs[:, _square(d)]


@cache
def _triangle(d: int) -> tuple[Int, Int]:
    """Rows and columns of the upper triangle of a (d, d) matrix."""
    return np.triu_indices(d)


@cache
def _square(d: int) -> Int:
    """(d, d): where a symmetric matrix's entries are in its upper triangle."""
    out = np.empty((d, d), dtype=np.int64)
    rows, cols = _triangle(d)
    out[rows, cols] = out[cols, rows] = np.arange(len(rows))
    return out


def _slope(p: Predictor, values: Float) -> Float:
    """Σ v x xᵀ (d, d) for values (n, C)."""
    if p.keeps_pairs:
        return np.asarray(values.reshape(-1) @ p.pairs)[_square(p.d)]
    return np.asarray((p.design * values.reshape(-1, 1)).T @ p.design)


def influence(p: Predictor, beta: Float) -> Float:
    """φ (n, d): the sum over a record's nodes, taken before any outer product."""
    with np.errstate(all="ignore"):
        return _over_nodes(p, p.at(beta).force)


def _summed_over_nodes(p: Predictor, eta: Float) -> Float:
    """φ (n, d) at linear predictors (n, C)."""
    mu, _, a, _ = p.curve(eta)
    return _over_nodes(p, a * (p.first - p.weight * mu))


def _over_nodes(p: Predictor, values: Float) -> Float:
    """Σ_c v x (n, d) for values (n, C)."""
    if values.shape[1] == 1:
        return values * p.design
    return np.einsum("nc,ncd->nd", values, p.design.reshape(*p.weight.shape, p.d))


def sums(p: Predictor, beta: Float, weights: Float, squares: Float) -> tuple[Float, Float, Float, Float, Float]:
    """Everything at one value (d,) with one evaluation of the curve, as `products.sums`."""
    with np.errstate(all="ignore"):
        spot = p.at(beta)
        phi = _over_nodes(p, spot.force)
        slope, clean = (_slope(p, v) for v in (spot.bend * weights[:, None], _squares(p, spot, squares)))
        alone = spot.force.shape[1] == 1  # φφᵀ is then a multiple of xxᵀ
        outer = _slope(p, spot.force**2 * squares[:, None]) if alone else gram(phi, squares)
        each = phi**2 * squares[:, None]
        return weights @ phi, slope, outer, clean, np.einsum("nd,nd->d", each, each)


def _squares(p: Predictor, spot: Spot, weights: Float) -> Float:
    """Reverted squares of the residuals (n, C), times a²."""
    squares = p.second - spot.mu * (2 * p.first - spot.mu * p.weight)
    return (squares if _is_one(spot.a) else spot.a**2 * squares) * weights[:, None]


def clean_outer(p: Predictor, beta: Float, weights: Float) -> Float:
    """Reverted `Σ w U Uᵀ` (d, d)."""
    with np.errstate(all="ignore"):
        return _slope(p, _squares(p, p.at(beta), weights))


def record_slopes_along(p: Predictor, beta: Float, lefts: Float, rights: Float) -> Float:
    """`leftᵀ (∂φ_i/∂β) right` (k, n) for directions (k, d)."""
    with np.errstate(all="ignore"):
        bend = p.at(beta).bend
        along = (lefts @ p.design.T) * (rights @ p.design.T)  # (k, n·C)
        terms = along.reshape(len(lefts), *bend.shape) * bend
        # Node by node: NumPy's own sum over a short last axis takes ten times as long.
        return reduce(np.add, (terms[:, :, c] for c in range(bend.shape[1])))


def left_slopes(p: Predictor, betas: Float, lefts: Float, weights: Float) -> Float:
    """`Σ w leftᵀ ∂φ/∂β` (B, d) at several values, each with a direction of its own (B, d)."""
    with np.errstate(all="ignore"):
        return np.stack(
            [
                ((Spot.of(p, beta).bend * weights[:, None]).ravel() * (p.design @ left)) @ p.design
                for beta, left in zip(betas, lefts, strict=True)
            ]
        )

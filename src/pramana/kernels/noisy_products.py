"""Sums of generalised linear scores with noise in covariates, compiled, in one pass.

With a design x(t) = x + Σ_j x_j t_j, t_j the distance of a true from a released value, score, slope and square are sums of
A x xᵀ + Σ_j B_j (x x_jᵀ + x_j xᵀ) + Σ_jk C_jk x_j x_kᵀ, where A, B_j and C_jk are the reversions of g, t_j g and t_j t_k g for functions g of the
linear predictor η. The slow version that these must equal is `NoisyLinear` with `noisy_curves`, in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.kernels.additive import ByRecord, Operator
from pramana.kernels.logistic import KNOTS, STEEPNESS, TERMS, mixture_derivatives
from pramana.kernels.predictor import IDENTITY, LOGIT, POWER
from pramana.kernels.products import Products, ProductSums

EDGE = 36.0
"""Of a linear predictor beyond which H, with normal noise undone, is 0 or 1 to the last bit: its flattest part is Φ(0.238 η)."""
FINEST = 64 * KNOTS
"""Knots within a unit of η from which no table is made: the noise is then at the end of what can be undone."""


@dataclass(frozen=True)
class Terms:
    """What the kernel knows of the reversions of g, t_j g and t_j t_k g, F of them for q noises.

    Attributes
    ----------
    ones : (F,), of g = 1.
    coefficients : (F, R), of the derivatives of g, with powers of the slopes c unless `slopes` (n, C) has them.
    kind : 0, 1 or 2, where a logit's H comes from: itself, a table, or a mixture for each record.
    highest : derivatives that are needed of it.
    table, finer : of H with normal noise undone: (knots, orders).
    variance : of the normal noise of a record with c = 1.
    factors : (5, F), what multiplies the exponentials of a log link.
    """

    ones: Float
    coefficients: Float
    slopes: Float
    kind: int = 0
    highest: int = 3
    table: Float = field(default_factory=lambda: np.zeros((0, 0)))
    finer: float = 1.0
    variance: float = 0.0
    factors: Float = field(default_factory=lambda: np.zeros((5, 0)))


def terms_of(code: int | None, shape: float, operators: Sequence[Operator], slopes: Float, nodes: int) -> Terms | None:
    """For slopes of η by q noises (q, records × nodes), or (q, 1) where all share them; None where the compiled kernels do not know the
    noise, or more than one that moves records differently."""
    alike = slopes[:, 0] if slopes.shape[1] == 1 else None
    known = 0 < len(operators) <= 2 and not any(isinstance(o, ByRecord) for o in operators)
    if not known or code not in (LOGIT, IDENTITY, POWER) or (alike is None and (code == POWER or len(operators) > 1)):
        return None
    moments = np.array([float(o.moments(2)[2]) for o in operators])
    pairs = np.diag(moments).ravel()
    ones = np.concatenate([[1.0], np.zeros(len(operators)), pairs])
    own = np.zeros((0, 0)) if alike is not None else slopes[0].reshape(-1, nodes)
    if code == POWER:
        assert alike is not None
        return Terms(ones, np.zeros((ones.size, 0)), own, factors=_factors(shape, operators, alike))
    if code == LOGIT and not all(o.differential for o in operators):
        return None
    sets = [_in_derivatives(o) if code == LOGIT else _in_moments(o) for o in operators]
    at = np.ones(len(operators)) if alike is None else alike
    coefficients = np.stack([_of_powers(sets, at, powers) for powers in _powers(len(operators))])
    plain = Terms(ones, coefficients, own, highest=coefficients.shape[1])
    return plain if code == IDENTITY else _with_normal(plain, operators, alike)


def _with_normal(plain: Terms, operators: Sequence[Operator], alike: Float | None) -> Terms | None:
    """The same with the ladder of H that normal noise needs, where there is any."""
    variances = np.array([float(o.variance) for o in operators])
    if not variances.any():
        return plain
    if alike is None:
        return replace(plain, kind=2, variance=float(variances[0]))
    found = _tabulated(float(variances @ alike**2), plain.highest)
    return None if found is None else replace(plain, kind=1, table=found[0], finer=found[1])


def _powers(q: int) -> list[tuple[int, ...]]:
    """How often t_1, …, t_q occur: nowhere, once each, and in pairs."""
    unit = np.eye(q, dtype=int)
    once = [tuple(row) for row in unit.tolist()]
    return [(0,) * q, *once, *(tuple((unit[j] + unit[k]).tolist()) for j, k in product(range(q), repeat=2))]


def _in_derivatives(operator: Operator) -> Float:
    """(3, 3): polynomials in cD for g, t g and t² g, after normal noise is undone."""
    found = operator.in_derivatives(np.ones(()))
    assert found is not None
    return np.array([[*(float(v) for v in part), 0.0, 0.0][:3] for part in found])


def _in_moments(operator: Operator) -> Float:
    """(3, 3): the same as a power series, as far as a quadratic function needs it."""
    _, two, four = (float(v) for v in operator.series()[:3])
    return np.array([[1.0, 0.0, two], [0.0, 2 * two, 0.0], [2 * two, 0.0, 12 * four]])


def _of_powers(sets: Sequence[Float], slopes: Float, powers: tuple[int, ...]) -> Float:
    parts = [own[power] * c ** np.arange(3) for own, c, power in zip(sets, slopes, powers, strict=True)]
    return np.asarray(reduce(np.convolve, parts))


def _factors(shape: float, operators: Sequence[Operator], slopes: Float) -> Float:
    """Of e^{kη} for the k of a, aμ, a², a²μ and a²μ²."""
    out = []
    for k in (1 - shape, 2 - shape, 2 - 2 * shape, 3 - 2 * shape, 4 - 2 * shape):
        sets = [[float(v) for v in o.inverse(np.asarray(k * c))] for o, c in zip(operators, slopes, strict=True)]
        rows = [np.prod([own[power] for own, power in zip(sets, powers, strict=True)]) for powers in _powers(len(sets))]
        out.append(rows)
    return np.array(out)


@lru_cache(maxsize=4)
def _tabulated(variance: float, highest: int) -> tuple[Float, float] | None:
    left = float(1 - STEEPNESS.max() ** 2 * variance)
    if not left > 0:
        return np.full((1, highest + TERMS + 1), np.nan), 1.0
    finer = float(np.ceil(KNOTS * max(1.0, STEEPNESS.max() / np.sqrt(left) / 2)))
    if finer > FINEST:
        return None
    half = int(np.ceil(EDGE * finer))
    knots = np.arange(-half, half + 1) / finer
    return np.ascontiguousarray(np.stack(mixture_derivatives(knots, np.array([variance]), highest + TERMS)).T), finer


def sums(
    fast: Any,
    p: Products,
    terms: Terms,
    columns: Sequence[Int],
    tilts: Float,
    beta: Float,
    weights: Float,
    squares: Float | None,
) -> ProductSums:
    """Everything at one parameter value; outer products where `squares`, their row weights, are given."""
    column = np.concatenate(columns).astype(np.int64)
    noise = np.repeat(np.arange(len(columns)), [len(own) for own in columns])
    d, tilted = len(p.place), column.size
    score, fourth, outer = np.zeros(d), np.zeros(d), np.zeros((d, d))
    slope, clean = ((np.zeros((d, d)), np.zeros((tilted, d)), np.zeros((tilted, tilted))) for _ in range(2))
    own = np.ascontiguousarray(weights, dtype=float)
    fast.noisy_sums(
        p.begin,
        p.end,
        p.clean,
        p.place,
        p.node,
        p.table,
        p.row,
        p.y1,
        p.y2,
        p.offset,
        p.curve.code,
        p.curve.shape,
        np.ascontiguousarray(beta, dtype=float),
        len(columns),
        column,
        noise,
        tilts,
        terms.slopes,
        terms.kind,
        terms.highest,
        terms.table,
        terms.finer,
        terms.variance,
        terms.ones,
        terms.coefficients,
        terms.factors,
        own,
        own if squares is None else np.ascontiguousarray(squares, dtype=float),
        squares is not None,
        score,
        *slope,
        *clean,
        outer,
        fourth,
    )
    return ProductSums(score, _whole(column, *slope), _upper(outer), _whole(column, *clean), fourth)


def _upper(sums: Float) -> Float:
    return np.asarray(np.triu(sums) + np.triu(sums, 1).T)


def _whole(column: Int, plain: Float, side: Float, pair: Float) -> Float:
    """(d, d) from the sums of x xᵀ, of x_j xᵀ and of x_j x_kᵀ."""
    out = _upper(plain)
    np.add.at(out, column, side)
    np.add.at(out.T, column, side)
    np.add.at(out, (column[:, None], column), pair)
    return out

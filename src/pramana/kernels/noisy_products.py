"""Sums of generalised linear scores with noise in covariates, compiled, in one pass.

With a design x(t) = x + Σ_j x_j t_j, t_j the distance of a true from a released value, score, slope and square are sums of
A x xᵀ + Σ_j B_j (x x_jᵀ + x_j xᵀ) + Σ_jk C_jk x_j x_kᵀ, where A, B_j and C_jk are the reversions of g, t_j g and t_j t_k g for functions g of the
linear predictor η. The slow version that these must equal is `NoisyLinear` with `noisy_curves`, in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.kernels.additive import ByRecord, Operator
from pramana.kernels.logistic import EIGHT, KNOTS, TERMS, mixture_derivatives, steepest
from pramana.kernels.predictor import IDENTITY, LOGIT, POWER
from pramana.kernels.products import Products, ProductSums

EDGE = 36.0
"""Of a linear predictor beyond which H, with normal noise undone, is 0 or 1 to the last bit: its flattest part is Φ(0.207 η)."""
FINEST = 128 * KNOTS
"""Knots within a unit of η from which no table is made: the noise is then at the end of what can be undone."""


@dataclass(frozen=True)
class KernelTerms:
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


@dataclass(frozen=True)
class Noises:
    """What is known of q noises before any parameter value is.

    Attributes
    ----------
    ones : (F,), reversions of 1, t_j and t_j t_k. sets : (q, 3, 3), polynomials in cD for g, t g and t² g; None with a log link.
    variances : (q,), of normal noise. powers : F times how often each t_j occurs.
    column, noise : (T,), the design columns that noise moves, and which of them.
    """

    code: int
    shape: float
    operators: tuple[Operator, ...]
    ones: Float
    sets: Float | None
    variances: Float
    powers: list[tuple[int, ...]]
    column: Int
    noise: Int

    @classmethod
    def of(
        cls, code: int | None, shape: float, operators: tuple[Operator, ...], columns: Sequence[Int]
    ) -> Noises | None:
        """None where the compiled kernels do not know the noise."""
        q = len(operators)
        if not 0 < q <= 2 or code not in (LOGIT, IDENTITY, POWER) or any(isinstance(o, ByRecord) for o in operators):
            return None
        if code == LOGIT and not all(o.differential for o in operators):
            return None
        pairs = np.diag([float(o.moments(2)[2]) for o in operators]).ravel()
        sets = [_in_derivatives(o) if code == LOGIT else _in_moments(o) for o in operators] if code != POWER else None
        return cls(
            code,
            shape,
            operators,
            np.concatenate([[1.0], np.zeros(q), pairs]),
            None if sets is None else np.array(sets),
            np.array([float(o.variance) for o in operators]),
            powers_of(q),
            np.concatenate(columns).astype(np.int64),
            np.repeat(np.arange(q), [len(own) for own in columns]),
        )

    def terms(self, slopes: Float, nodes: int) -> KernelTerms | None:
        """For slopes of η by the noises (q, records × nodes), or (q, 1) where all share them; None where two noises move records differently, where
        a table would be too fine, and where records of their own are beyond the eight components."""
        alike = slopes[:, 0] if slopes.shape[1] == 1 else None
        if alike is None and (self.sets is None or len(self.operators) > 1):
            return None
        if self.sets is None:
            factors = _factors(self.shape, self.operators, slopes[:, 0])
            return KernelTerms(self.ones, np.zeros((self.ones.size, 0)), np.zeros((0, 0)), factors=factors)
        own = np.zeros((0, 0)) if alike is not None else slopes[0].reshape(-1, nodes)
        parts = self.sets if alike is None else self.sets * alike[:, None, None] ** np.arange(3)
        if len(parts) == 1:
            coefficients = parts[0][[0, 1, 2]]
        else:
            coefficients = np.stack([np.convolve(parts[0, j], parts[1, k]) for j, k in self.powers])
        plain = KernelTerms(self.ones, coefficients, own, highest=coefficients.shape[1])
        if self.code == IDENTITY or not self.variances.any():
            return plain
        if alike is None and not float(self.variances[0]) * float(np.max(slopes[0] ** 2)) <= EIGHT.alone**2:
            return None
        if alike is None:
            return replace(plain, kind=2, variance=float(self.variances[0]))
        found = _tabulated(float(self.variances @ alike**2), plain.highest)
        return None if found is None else replace(plain, kind=1, table=found[0], finer=found[1])


@lru_cache(maxsize=16)
def powers_of(q: int) -> list[tuple[int, ...]]:
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


def _factors(shape: float, operators: Sequence[Operator], slopes: Float) -> Float:
    """Of e^{kη} for the k of a, aμ, a², a²μ and a²μ²."""
    out = []
    for k in (1 - shape, 2 - shape, 2 - 2 * shape, 3 - 2 * shape, 4 - 2 * shape):
        sets = [[float(v) for v in o.inverse(np.asarray(k * c))] for o, c in zip(operators, slopes, strict=True)]
        rows = [
            np.prod([own[power] for own, power in zip(sets, powers, strict=True)]) for powers in powers_of(len(sets))
        ]
        out.append(rows)
    return np.array(out)


@lru_cache(maxsize=4)
def _tabulated(variance: float, highest: int) -> tuple[Float, float] | None:
    steep = steepest(variance)
    if not steep > 0:
        return np.full((1, highest + TERMS + 1), np.nan), 1.0
    finer = float(np.ceil(KNOTS * max(1.0, steep / 2)))
    if finer > FINEST:
        return None
    half = int(np.ceil(EDGE * finer))
    right = np.stack(mixture_derivatives(np.arange(half + 1) / finer, np.array([variance]), highest + TERMS)).T
    left = right[:0:-1] * np.where(np.arange(right.shape[1]) % 2, 1.0, -1.0)  # H(−η) = 1 − H(η), and so on
    left[:, 0] += 1
    return np.ascontiguousarray(np.concatenate([left, right])), finer


def sums(
    fast: Any,
    p: Products,
    noises: Noises,
    terms: KernelTerms,
    tilts: Float,
    beta: Float,
    weights: Float,
    squares: Float | None,
) -> ProductSums:
    """Everything at one parameter value; outer products where `squares`, their row weights, are given."""
    column, d, tilted = noises.column, len(p.place), noises.column.size
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
        np.array(beta, dtype=float),  # one that is only to be read would be another type, compiled for anew
        len(noises.operators),
        column,
        noises.noise,
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
    place = (column[:, None] == np.arange(d)).astype(float)
    if squares is None:
        return ProductSums(score, _whole(place, *slope), outer, outer, fourth)
    return ProductSums(score, _whole(place, *slope), _upper(outer), _whole(place, *clean), fourth)


def _upper(sums: Float) -> Float:
    """A symmetric matrix from its upper triangle, below which there are zeros."""
    out = sums + sums.T
    np.fill_diagonal(out, np.diagonal(sums))
    return out


def _whole(place: Float, plain: Float, side: Float, pair: Float) -> Float:
    """(d, d) from the sums of x xᵀ, of x_j xᵀ and of x_j x_kᵀ; `place` (T, d) marks the column that each noise moves."""
    beside = place.T @ side
    return np.asarray(_upper(plain) + beside + beside.T + place.T @ pair @ place)

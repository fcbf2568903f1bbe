"""Sums of generalised linear scores with noise in covariates, compiled with numba: everything that a pass needs of a block of records, while
it is in the first-level cache. Imported only through `backend`; `noisy_products` says what is summed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from scipy.special import erfcx

from pramana.kernels.compiled import _OPTIONS, BLOCK, _add_multiple, _dot, _dot3, _exp, _fourth, _gathered
from pramana.kernels.logistic import EIGHT
from pramana.kernels.predictor import LOGIT, POWER

PLAIN, TABLE, MIXTURE = 0, 1, 2
"""Where H and its derivatives come from: itself, a table of what normal noise has left of it, or the mixture for each record."""
_MIDDLE, _DEGREE = 3.75, 18


def _tail_coefficients() -> Any:
    """Of (1 + 2x) e^{x²} erfc(x) for x ≥ 0 as a polynomial in (x − k)/(x + k), which Shepherd and Laframboise (1981) take: right to 2e-14. From the
    highest."""
    places = _MIDDLE * (1 + (s := np.cos(np.pi * (np.arange(200) + 0.5) / 200))) / (1 - s)
    fitted = np.polynomial.chebyshev.chebfit(s, (1 + 2 * places) * erfcx(places), _DEGREE)
    return np.polynomial.chebyshev.cheb2poly(fitted)[::-1].copy()


_TAIL = _tail_coefficients()
SHARES, STEEPNESS = EIGHT.shares, EIGHT.steepness
_INVERSE = 1 / np.maximum(np.arange(32.0), 1.0)
_ROOT2 = math.sqrt(2.0)
_DENSITY = 1 / math.sqrt(2 * math.pi)


@njit(**_OPTIONS)
def _logistic_ladder(eta: Any, highest: int, out: Any) -> None:
    """H and its derivatives up to the fifth."""
    for i in range(eta.size):
        h = 1.0 / (1.0 + _exp(-eta[i]))
        u = h * (1.0 - h)
        out[0, i] = h
        out[1, i] = u
        out[2, i] = u * (1.0 - 2.0 * h)
        out[3, i] = u * (1.0 - 6.0 * u)
    if highest > 3:
        for i in range(eta.size):
            h, u = out[0, i], out[1, i]
            out[4, i] = u * (1.0 - 2.0 * h) * (1.0 - 12.0 * u)
            out[5, i] = u * (1.0 + u * (120.0 * u - 30.0))


@njit(**_OPTIONS)
def _tabled_ladder(eta: Any, highest: int, table: Any, finer: float, out: Any) -> None:
    """Taylor's series around the nearest knot; `table` (knots, orders) has derivatives, and 0 in its middle."""
    middle, terms = table.shape[0] // 2, table.shape[1] - 1 - highest
    edge = middle / finer
    for i in range(eta.size):
        x = eta[i]
        x = -edge if x < -edge else x
        x = edge if x > edge else x
        place = middle
        if x == x:  # not so where a search has left the numbers
            place = math.floor(finer * x + 0.5) + middle
        apart = x - (place - middle) / finer
        for order in range(highest + 1):
            value = table[place, order + terms] * _INVERSE[terms]
            for k in range(terms - 1, 0, -1):
                value = (table[place, order + k] + value * apart) * _INVERSE[k]
            out[order, i] = table[place, order] + value * apart


@njit(**_OPTIONS)
def _mixed_ladder(eta: Any, variance: Any, out: Any) -> None:
    """The mixture of normal distribution functions, each reverted by the record's own variance, with three derivatives."""
    out[:4, : eta.size] = 0.0
    for k in range(SHARES.size):
        share, steep = SHARES[k], STEEPNESS[k]
        for i in range(eta.size):
            v = steep / math.sqrt(1.0 - steep * steep * variance[i])
            t = v * eta[i]
            x = abs(t) / _ROOT2
            s = (x - _MIDDLE) / (x + _MIDDLE)
            p = _TAIL[0]
            for m in range(1, _DEGREE + 1):
                p = p * s + _TAIL[m]
            bell = _exp(-0.5 * t * t)
            tail = 0.5 * bell * p / (1.0 + 2.0 * x)
            density = share * _DENSITY * v * bell
            out[0, i] += share * (tail if t < 0.0 else 1.0 - tail)
            out[1, i] += density
            out[2, i] -= v * t * density
            out[3, i] += v * v * (t * t - 1.0) * density


@njit(**_OPTIONS)
def _combined(coefficients: Any, powers: Any, ladder: Any, shift: int, out: Any) -> None:
    """Σ_r coefficients[r] c^r ladder[shift + r]; no powers of c where they are in the coefficients."""
    out[:] = 0.0
    for r in range(coefficients.size):
        if coefficients[r] != 0.0 and shift + r < ladder.shape[0]:
            if powers.shape[0] and r:
                for i in range(out.size):
                    out[i] += coefficients[r] * powers[r, i] * ladder[shift + r, i]
            else:
                _add_multiple(coefficients[r], ladder[shift + r, : out.size], out)


@njit(**_OPTIONS)
def _sided(
    v: Any, firsts: Any, seconds: Any, noise: Any, x: Any, tilt: Any, m: int, out: Any, side: Any, pair: Any
) -> None:
    """Σ of v x xᵀ (upper triangle), of first tilt xᵀ and of second tilt tiltᵀ."""
    for j in range(x.shape[0]):
        for k in range(j, x.shape[0]):
            out[j, k] += _dot3(v, x[j, :m], x[k, :m])
    for t in range(tilt.shape[0]):
        for k in range(x.shape[0]):
            side[t, k] += _dot3(firsts[noise[t], :m], tilt[t, :m], x[k, :m])
        for u in range(tilt.shape[0]):
            pair[t, u] += _dot3(seconds[noise[t] * firsts.shape[0] + noise[u], :m], tilt[t, :m], tilt[u, :m])


@njit(**_OPTIONS)
def noisy_sums(
    begin: int,
    end: int,
    clean: Any,
    place: Any,
    node: Any,
    table: Any,
    row: Any,
    y1: Any,
    y2: Any,
    offset: Any,
    code: int,
    shape: float,
    beta: Any,
    noises: int,
    column: Any,
    noise: Any,
    tilts: Any,
    slopes: Any,
    ladder_kind: int,
    highest: int,
    knots: Any,
    finer: float,
    variance: float,
    ones: Any,
    coefficients: Any,
    factors: Any,
    weights: Any,
    squares: Any,
    full: bool,
    score: Any,
    slope: Any,
    side: Any,
    pair: Any,
    clean_outer: Any,
    clean_side: Any,
    clean_pair: Any,
    outer: Any,
    fourth: Any,
) -> None:
    """Sums over the records begin … end − 1.

    Parameters
    ----------
    clean : (p, n), place : (d,), node : (C, d), table : (R, C), row : (n,), y1, y2 : (1 or C, n), offset : (0, 1 or C, n), as in `Products`.
    column, noise : (T,), the design columns that noise moves, and which of them.
    tilts : (1 or m, 1 or C, T), their derivatives, of the m = end − begin records. slopes : (m, C), c of the records, or empty.
    ladder_kind, highest : where H comes from, and how many derivatives of it. knots, finer, variance : the table, or the variance of c = 1.
    ones, coefficients, factors : (F,), (F, R) and (5, F), for g, t_j g and t_j t_k g.
    score : (d,); slope, clean_outer, outer : (d, d), upper triangles; side : (T, d); pair : (T, T); fourth : (d,).
    """
    d, nodes, terms, tilted = place.size, table.shape[1], ones.size, column.size
    eta_, q_, s_, t_ = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    work, ladder, square_ladder = np.empty((2, BLOCK)), np.zeros((6, BLOCK)), np.zeros((3, BLOCK))
    powers = np.empty((3 if slopes.size else 0, BLOCK))
    mean, rise, high_square = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    force, bend, square = np.empty((terms, BLOCK)), np.empty((terms, BLOCK)), np.empty((terms, BLOCK))
    x, tilt, phi = np.empty((d, BLOCK)), np.empty((tilted, BLOCK)), np.empty((d, BLOCK))
    for low in range(begin, end, BLOCK):
        high = min(low + BLOCK, end)
        m, first = high - low, low - begin
        eta, q, s, t = eta_[:m], q_[:m], s_[:m], t_[:m]
        w, w2 = weights[first : first + m], squares[first : first + m]
        phi[:, :m] = 0.0
        for c in range(nodes):
            eta[:] = 0.0
            for j in range(d):
                for i in range(m):
                    x[j, i] = clean[place[j], low + i] * node[c, j]
                _add_multiple(beta[j], x[j, :m], eta)
            if offset.shape[0]:
                _add_multiple(1.0, offset[min(c, offset.shape[0] - 1), low:high], eta)
            for k in range(tilted):
                for i in range(m):
                    tilt[k, i] = tilts[min(first + i, tilts.shape[0] - 1), min(c, tilts.shape[1] - 1), k]
            y = min(c, y1.shape[0] - 1)
            _gathered(table, row[low:high], c, y1[y, low:high], y2[y, low:high], q, s, t)
            if slopes.size:
                for i in range(m):
                    own = slopes[first + i, c]
                    powers[0, i], powers[1, i], powers[2, i] = 1.0, own, own * own
            if code == POWER:
                for i in range(m):
                    work[0, i] = _exp((1.0 - shape) * eta[i])
                    work[1, i] = _exp((2.0 - shape) * eta[i])
                for f in range(terms):
                    for i in range(m):
                        a, b = work[0, i], work[1, i]
                        one, other = factors[0, f] * a * s[i], factors[1, f] * b * q[i]
                        force[f, i] = one - other
                        bend[f, i] = w[i] * ((1.0 - shape) * one - (2.0 - shape) * other)
                        square[f, i] = w2[i] * (
                            factors[2, f] * a * a * t[i]
                            - 2.0 * factors[3, f] * a * b * s[i]
                            + factors[4, f] * b * b * q[i]
                        )
            else:
                if code != LOGIT:
                    for i in range(m):
                        ladder[0, i], ladder[1, i] = eta[i], 1.0
                        square_ladder[0, i], square_ladder[1, i], square_ladder[2, i] = (
                            eta[i] * eta[i],
                            2.0 * eta[i],
                            2.0,
                        )
                elif ladder_kind == PLAIN:
                    _logistic_ladder(eta, highest, ladder)
                elif ladder_kind == TABLE:
                    _tabled_ladder(eta, highest, knots, finer, ladder)
                else:
                    for i in range(m):
                        work[0, i] = variance * powers[2, i]
                    _mixed_ladder(eta, work[0, :m], ladder)
                for f in range(terms):
                    _combined(coefficients[f], powers, ladder, 0, mean[:m])
                    _combined(coefficients[f], powers, ladder, 1, rise[:m])
                    if code != LOGIT and full:
                        _combined(coefficients[f], powers, square_ladder, 0, high_square[:m])
                    for i in range(m):
                        force[f, i] = ones[f] * s[i] - mean[i] * q[i]
                        bend[f, i] = -w[i] * rise[i] * q[i]
                    if full:
                        for i in range(m):  # H² = H − H′
                            second = mean[i] - rise[i] if code == LOGIT else high_square[i]
                            square[f, i] = w2[i] * (ones[f] * t[i] - 2.0 * mean[i] * s[i] + second * q[i])
            for j in range(d):
                for i in range(m):
                    phi[j, i] += force[0, i] * x[j, i]
            for k in range(tilted):
                for i in range(m):
                    phi[column[k], i] += force[1 + noise[k], i] * tilt[k, i]
            firsts, seconds = bend[1 : 1 + noises], bend[1 + noises :]
            _sided(bend[0, :m], firsts, seconds, noise, x, tilt, m, slope, side, pair)
            if full:
                firsts, seconds = square[1 : 1 + noises], square[1 + noises :]
                _sided(square[0, :m], firsts, seconds, noise, x, tilt, m, clean_outer, clean_side, clean_pair)
        for j in range(d):
            score[j] += _dot(w, phi[j, :m])
            if full:
                fourth[j] += _fourth(w2, phi[j, :m])
                for k in range(j, d):
                    outer[j, k] += _dot3(w2, phi[j, :m], phi[k, :m])

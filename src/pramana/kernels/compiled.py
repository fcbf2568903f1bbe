"""The kernels of `predictor` and `streams`, compiled with numba: serial, without the GIL, cached on disk.

Rows are visited in blocks that stay in the first-level cache, in inner loops that the compiler turns into vector
instructions; the exponential and the logarithm are polynomials for the same reason. Imported only through `backend`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from pramana.kernels.predictor import IDENTITY, LOGIT, POWER

BLOCK = 512

# Sums may be reordered; NaN and infinity keep their meaning, because divergence is recognised by them.
_OPTIONS: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(0x3FF0000000000000)
_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_LN2 = 0.6931471805599453
_SHIFTER = 6755399441055744.0  # 1.5 · 2⁵²: adding it leaves the integer part in the low bits


@intrinsic
def _as_float(_context: Any, word: Any) -> Any:  # noqa: ARG001
    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def _as_word(_context: Any, number: Any) -> Any:  # noqa: ARG001
    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


@njit(inline="always", **_OPTIONS)
def _exp(x: float) -> float:
    """Within 4e-16 of e^x for |x| ≤ 708; clamped beyond."""
    x = -708.0 if x < -708.0 else x
    x = 708.0 if x > 708.0 else x
    k = math.floor(x * _LOG2E + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1 / 479001600.0
    p = p * r + 1 / 39916800.0
    p = p * r + 1 / 3628800.0
    p = p * r + 1 / 362880.0
    p = p * r + 1 / 40320.0
    p = p * r + 1 / 5040.0
    p = p * r + 1 / 720.0
    p = p * r + 1 / 120.0
    p = p * r + 1 / 24.0
    p = p * r + 1 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _as_float((_as_word(k + _SHIFTER) + 1023) << 52)


@njit(inline="always", **_OPTIONS)
def _log(u: float) -> float:
    """Within 5e-16 of log u for normal positive u: exponent, then the series of 2 artanh((m − 1)/(m + 1))."""
    word = _as_word(u)
    k = float((word >> 52) - 1023)
    m = _as_float((word & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    big = m > 1.4142135623730951
    m = 0.5 * m if big else m
    k = k + 1.0 if big else k
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 1 / 19.0
    p = p * z + 1 / 17.0
    p = p * z + 1 / 15.0
    p = p * z + 1 / 13.0
    p = p * z + 1 / 11.0
    p = p * z + 1 / 9.0
    p = p * z + 1 / 7.0
    p = p * z + 1 / 5.0
    p = p * z + 1 / 3.0
    return k * _LN2 + 2 * s * (1 + z * p)


@njit(**_OPTIONS)
def _exponential_row(key: Any, rows: Any, out: Any) -> None:
    for i in range(rows.size):
        word = key + (rows[i] + np.uint64(1)) * _WEYL
        word = (word ^ (word >> np.uint64(30))) * _MIX1
        word = (word ^ (word >> np.uint64(27))) * _MIX2
        word = word ^ (word >> np.uint64(31))
        u = _as_float(np.int64((word >> np.uint64(12)) | _ONE)) - (1.0 - 2.0**-53)
        out[i] = -_log(u)


@njit(**_OPTIONS)
def exponentials(keys: Any, rows: Any, out: Any) -> None:
    """Unit exponentials (draws, rows) from the counter-based stream."""
    for b in range(keys.size):
        _exponential_row(keys[b], rows, out[b])


@njit(**_OPTIONS)
def _add_multiple(a: float, x: Any, y: Any) -> None:
    for i in range(x.size):
        y[i] += a * x[i]


@njit(**_OPTIONS)
def _set_multiple(a: float, x: Any, y: Any) -> None:
    for i in range(x.size):
        y[i] = a * x[i]


@njit(**_OPTIONS)
def _sums_of_two(force: Any, bend: Any, x: Any, z: Any) -> tuple[float, float, float, float, float]:
    """Everything two coefficients need, in one pass."""
    s0, s1, h00, h01, h11 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(x.size):
        s0 += force[i] * x[i]
        s1 += force[i] * z[i]
        h00 += bend[i] * x[i] * x[i]
        h01 += bend[i] * x[i] * z[i]
        h11 += bend[i] * z[i] * z[i]
    return s0, s1, h00, h01, h11


@njit(**_OPTIONS)
def _dot(x: Any, y: Any) -> float:
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@njit(**_OPTIONS)
def _dot3(x: Any, y: Any, z: Any) -> float:
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i] * z[i]
    return total


@njit(**_OPTIONS)
def _fourth(w: Any, x: Any) -> float:
    total = 0.0
    for i in range(x.size):
        square = w[i] * x[i] * x[i]
        total += square * square
    return total


@njit(**_OPTIONS)
def _logit_curve(eta: Any, w: Any, weight: Any, first: Any, force: Any, bend: Any) -> None:
    for i in range(eta.size):
        mu = 1.0 / (1.0 + _exp(-eta[i]))
        force[i] = w[i] * (first[i] - weight[i] * mu)
        bend[i] = -w[i] * weight[i] * mu * (1.0 - mu)


@njit(**_OPTIONS)
def _identity_curve(eta: Any, w: Any, weight: Any, first: Any, force: Any, bend: Any) -> None:
    for i in range(eta.size):
        force[i] = w[i] * (first[i] - weight[i] * eta[i])
        bend[i] = -w[i] * weight[i]


@njit(**_OPTIONS)
def _power_curve(power: float, eta: Any, w: Any, weight: Any, first: Any, force: Any, bend: Any) -> None:
    """Log link, V(μ) = μ^power: a = e^((1 − power) η)."""
    for i in range(eta.size):
        mu = _exp(eta[i])
        a = _exp((1.0 - power) * eta[i])
        residual = first[i] - weight[i] * mu
        force[i] = w[i] * a * residual
        bend[i] = w[i] * a * ((1.0 - power) * residual - mu * weight[i])


@njit(**_OPTIONS)
def _negative_binomial_curve(
    dispersion: float, eta: Any, w: Any, weight: Any, first: Any, force: Any, bend: Any
) -> None:
    for i in range(eta.size):
        mu = _exp(eta[i])
        a = 1.0 / (1.0 + dispersion * mu)
        residual = first[i] - weight[i] * mu
        force[i] = w[i] * a * residual
        bend[i] = -w[i] * a * mu * (dispersion * a * residual + weight[i])


@njit(**_OPTIONS)
def totals(
    design: Any,
    weight: Any,
    first: Any,
    offset: Any,
    pairs: Any,
    code: int,
    shape: float,
    betas: Any,
    group: Any,
    row_weights: Any,
    row: Any,
    score: Any,
    slope: Any,
) -> None:
    """Score (B, d) and slope (B, d, d) of a batch.

    Parameters
    ----------
    design : (G, C, d, n), weight, first : (G, C, n), offset : (G, C, n) or empty; G data sets of one size.
    pairs : (G, C, d(d+1)/2, n), products of design columns; or empty, and they are formed on the way.
    group, row : (B,), the data set and the row of `row_weights` that each equation of the batch uses.
    """
    d, n, nodes = betas.shape[1], weight.shape[2], weight.shape[1]
    eta_, force_, bend_ = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for b in range(betas.shape[0]):
        g, r = group[b], row[b]
        score[b] = 0.0
        slope[b] = 0.0
        for c in range(nodes):
            for low in range(0, n, BLOCK):
                high = min(low + BLOCK, n)
                eta, force, bend = eta_[: high - low], force_[: high - low], bend_[: high - low]
                _set_multiple(betas[b, 0], design[g, c, 0, low:high], eta)
                for j in range(1, d):
                    _add_multiple(betas[b, j], design[g, c, j, low:high], eta)
                if offset.size:
                    _add_multiple(1.0, offset[g, c, low:high], eta)
                w, q, y = row_weights[r, low:high], weight[g, c, low:high], first[g, c, low:high]
                if code == LOGIT:
                    _logit_curve(eta, w, q, y, force, bend)
                elif code == IDENTITY:
                    _identity_curve(eta, w, q, y, force, bend)
                elif code == POWER:
                    _power_curve(shape, eta, w, q, y, force, bend)
                else:
                    _negative_binomial_curve(shape, eta, w, q, y, force, bend)
                if d == 2:
                    sums = _sums_of_two(force, bend, design[g, c, 0, low:high], design[g, c, 1, low:high])
                    score[b, 0] += sums[0]
                    score[b, 1] += sums[1]
                    slope[b, 0, 0] += sums[2]
                    slope[b, 0, 1] += sums[3]
                    slope[b, 1, 1] += sums[4]
                    continue
                place = 0
                for j in range(d):
                    x = design[g, c, j, low:high]
                    score[b, j] += _dot(force, x)
                    for k in range(j, d):
                        if pairs.size:
                            slope[b, j, k] += _dot(bend, pairs[g, c, place, low:high])
                        else:
                            slope[b, j, k] += _dot3(bend, x, design[g, c, k, low:high])
                        place += 1
        for j in range(d):
            for k in range(j):
                slope[b, j, k] = slope[b, k, j]


@njit(**_OPTIONS)
def _curve(
    code: int, shape: float, eta: Any, w: Any, weight: Any, first: Any, second: Any, force: Any, bend: Any, square: Any
) -> None:
    """At one node: force w·a(S − Wμ), bend w·∂force/∂η, and square a²(S₂ − 2μS + μ²W), where W, S, S₂ are weight, first, second."""
    if code == LOGIT:
        for i in range(eta.size):
            mu = 1.0 / (1.0 + _exp(-eta[i]))
            force[i] = w[i] * (first[i] - weight[i] * mu)
            bend[i] = -w[i] * weight[i] * mu * (1.0 - mu)
            square[i] = second[i] - 2.0 * mu * first[i] + mu * mu * weight[i]
    elif code == IDENTITY:
        for i in range(eta.size):
            mu = eta[i]
            force[i] = w[i] * (first[i] - weight[i] * mu)
            bend[i] = -w[i] * weight[i]
            square[i] = second[i] - 2.0 * mu * first[i] + mu * mu * weight[i]
    elif code == POWER:
        for i in range(eta.size):
            mu = _exp(eta[i])
            a = _exp((1.0 - shape) * eta[i])
            residual = first[i] - weight[i] * mu
            force[i] = w[i] * a * residual
            bend[i] = w[i] * a * ((1.0 - shape) * residual - mu * weight[i])
            square[i] = a * a * (second[i] - 2.0 * mu * first[i] + mu * mu * weight[i])
    else:
        for i in range(eta.size):
            mu = _exp(eta[i])
            a = 1.0 / (1.0 + shape * mu)
            residual = first[i] - weight[i] * mu
            force[i] = w[i] * a * residual
            bend[i] = -w[i] * a * mu * (shape * a * residual + weight[i])
            square[i] = a * a * (second[i] - 2.0 * mu * first[i] + mu * mu * weight[i])


@njit(**_OPTIONS)
def _gathered(table: Any, row: Any, c: int, y1: Any, y2: Any, weight: Any, first: Any, second: Any) -> None:
    """Signed weights of node c, times 1, y and y²; a table of one row is that of all records."""
    if table.shape[0] == 1:
        q = table[0, c]
        for i in range(weight.size):
            weight[i] = q
            first[i] = q * y1[i]
            second[i] = q * y2[i]
        return
    for i in range(row.size):
        q = table[row[i], c]
        weight[i] = q
        first[i] = q * y1[i]
        second[i] = q * y2[i]


@njit(**_OPTIONS)
def _predicted(clean: Any, gamma: Any, c: int, rows: Any, low: int, high: int, eta: Any) -> None:
    """Add Σ_r gamma[c, r] clean[r] over some clean parts."""
    for k in range(rows.size):
        r = rows[k]
        if gamma[c, r] != 0.0:
            _add_multiple(gamma[c, r], clean[r, low:high], eta)


@njit(**_OPTIONS)
def _pair_sums(clean: Any, v: Any, rows: Any, others: Any, same: bool, low: int, high: int, out: Any) -> None:
    """out[r, s] += Σ v clean_r clean_s for r in rows, s in others; where the two lists are the same, once for each pair."""
    for k in range(rows.size):
        x = clean[rows[k], low:high]
        for m in range(k if same else 0, others.size):
            out[rows[k], others[m]] += _dot3(v, x, clean[others[m], low:high])


@njit(**_OPTIONS)
def _pair_sums_of_three(
    clean: Any, u: Any, v: Any, w: Any, rows: Any, low: int, high: int, of_u: Any, of_v: Any, of_w: Any, room: Any
) -> None:
    """The upper triangles of `_pair_sums` for three weights at once, with room (3, m) for products."""
    xu, xv, xw = room[0, : high - low], room[1, : high - low], room[2, : high - low]
    for k in range(rows.size):
        x = clean[rows[k], low:high]
        for i in range(x.size):
            xu[i] = u[i] * x[i]
            xv[i] = v[i] * x[i]
            xw[i] = w[i] * x[i]
        for m in range(k, rows.size):
            y = clean[rows[m], low:high]
            su, sv, sw = 0.0, 0.0, 0.0
            for i in range(y.size):
                su += xu[i] * y[i]
                sv += xv[i] * y[i]
                sw += xw[i] * y[i]
            of_u[rows[k], rows[m]] += su
            of_v[rows[k], rows[m]] += sv
            of_w[rows[k], rows[m]] += sw


@njit(**_OPTIONS)
def product_sums(
    begin: int,
    end: int,
    clean: Any,
    table: Any,
    row: Any,
    y1: Any,
    y2: Any,
    offset: Any,
    code: int,
    shape: float,
    gamma: Any,
    steady: Any,
    moving: Any,
    weights: Any,
    squares: Any,
    pattern: Any,
    place: Any,
    patterns: Any,
    full: bool,
    score: Any,
    slope: Any,
    clean_outer: Any,
    steady_outer: Any,
    outer: Any,
    fourth: Any,
) -> None:
    """Sums over the records begin … end − 1, whose design columns are products, in one pass.

    Parameters
    ----------
    clean : (p, n); table : (R, C), row : (n,); y1, y2 : (1 or C, n); offset : (0, 1 or C, n).
    gamma : (C, p), coefficients of the clean parts at each node.
    steady, moving : clean parts that only columns without a node's part use, and the others.
    weights, squares : (end − begin,), of the sums and of the outer products.
    pattern, place : (d,), row of `patterns` and of `clean` of each column; patterns : (G, C), distinct node's parts.
    full : whether outer products are wanted.
    score : (C, p); slope, clean_outer : (C, p, p), by node; what concerns steady parts alone is summed over nodes into
        node 0. Upper triangles within steady and within moving parts, and moving × steady.
    steady_outer : (p, p), Σ squares φφᵀ of steady parts, upper triangle; outer : (d, d), that of all other pairs of columns;
        fourth : (d,), Σ (squares φ²)².
    """
    nodes, d = table.shape[1], place.size
    eta0_, eta_ = np.empty(BLOCK), np.empty(BLOCK)
    q_, s_, t_ = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    force_, bend_, square_ = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    all_force_, all_bend_, all_square_ = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    by_pattern = np.empty((patterns.shape[0], BLOCK))
    phi = np.empty((d if moving.size else 0, BLOCK))
    whole_, own_square_, room = np.empty(BLOCK), np.empty(BLOCK), np.empty((3, BLOCK))
    ones = np.ones(BLOCK)
    settled = np.zeros(clean.shape[0], dtype=np.bool_)
    for k in range(steady.size):
        settled[steady[k]] = True
    for low in range(begin, end, BLOCK):
        high = min(low + BLOCK, end)
        m = high - low
        whole, own_square = whole_[:m], own_square_[:m]
        whole[:] = 0.0
        eta0, eta = eta0_[:m], eta_[:m]
        q, s, t, force, bend, square = q_[:m], s_[:m], t_[:m], force_[:m], bend_[:m], square_[:m]
        all_force, all_bend, all_square = all_force_[:m], all_bend_[:m], all_square_[:m]
        all_force[:] = 0.0
        all_bend[:] = 0.0
        all_square[:] = 0.0
        by_pattern[:, :m] = 0.0
        eta0[:] = 0.0
        _predicted(clean, gamma, 0, steady, low, high, eta0)
        w, w2 = weights[low - begin : high - begin], squares[low - begin : high - begin]
        for c in range(nodes):
            eta[:] = eta0
            _predicted(clean, gamma, c, moving, low, high, eta)
            if offset.shape[0]:
                _add_multiple(1.0, offset[min(c, offset.shape[0] - 1), low:high], eta)
            y = min(c, y1.shape[0] - 1)
            _gathered(table, row[low:high], c, y1[y, low:high], y2[y, low:high], q, s, t)
            _curve(code, shape, eta, ones[:m], q, s, t, force, bend, square)
            if full:
                _add_multiple(1.0, force, whole)
                for g in range(patterns.shape[0] if moving.size else 0):
                    if patterns[g, c] != 0.0:
                        _add_multiple(patterns[g, c], force, by_pattern[g, :m])
                for i in range(m):
                    square[i] *= w2[i]
                    all_square[i] += square[i]
                _pair_sums(clean, square, moving, moving, True, low, high, clean_outer[c])
                _pair_sums(clean, square, moving, steady, False, low, high, clean_outer[c])
            for i in range(m):
                force[i] *= w[i]
                bend[i] *= w[i]
                all_force[i] += force[i]
                all_bend[i] += bend[i]
            for k in range(moving.size):
                score[c, moving[k]] += _dot(force, clean[moving[k], low:high])
            _pair_sums(clean, bend, moving, moving, True, low, high, slope[c])
            _pair_sums(clean, bend, moving, steady, False, low, high, slope[c])
        for k in range(steady.size):
            score[0, steady[k]] += _dot(all_force, clean[steady[k], low:high])
        if not full:
            _pair_sums(clean, all_bend, steady, steady, True, low, high, slope[0])
            continue
        for i in range(m):
            own_square[i] = w2[i] * whole[i] * whole[i]
        _pair_sums_of_three(
            clean, all_bend, all_square, own_square, steady, low, high, slope[0], clean_outer[0], steady_outer, room
        )
        for j in range(d):
            if settled[place[j]]:
                fourth[j] += _fourth(own_square, clean[place[j], low:high])
        for j in range(d if moving.size else 0):
            for i in range(m):
                phi[j, i] = clean[place[j], low + i] * by_pattern[pattern[j], i]
            if not settled[place[j]]:
                fourth[j] += _fourth(w2, phi[j, :m])
            for k in range(j + 1):
                if not (settled[place[j]] and settled[place[k]]):
                    outer[k, j] += _dot3(w2, phi[j, :m], phi[k, :m])


@njit(**_OPTIONS)
def product_bends(
    begin: int,
    end: int,
    clean: Any,
    table: Any,
    row: Any,
    y1: Any,
    offset: Any,
    code: int,
    shape: float,
    gamma: Any,
    patterns: Any,
    out: Any,
) -> None:
    """Σ_c patterns[g, c] ∂force_c/∂η of the records begin … end − 1 (G, end − begin), row weights left out."""
    nodes = table.shape[1]
    eta_, q_, s_ = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    force_, bend_, square_, ones = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.ones(BLOCK)
    everything = np.arange(clean.shape[0])
    for low in range(begin, end, BLOCK):
        high = min(low + BLOCK, end)
        m = high - low
        eta, q, s, force, bend, square = eta_[:m], q_[:m], s_[:m], force_[:m], bend_[:m], square_[:m]
        out[:, low - begin : high - begin] = 0.0
        for c in range(nodes):
            eta[:] = 0.0
            _predicted(clean, gamma, c, everything, low, high, eta)
            if offset.shape[0]:
                _add_multiple(1.0, offset[min(c, offset.shape[0] - 1), low:high], eta)
            y = y1[min(c, y1.shape[0] - 1), low:high]
            _gathered(table, row[low:high], c, y, y, q, s, s)
            _curve(code, shape, eta, ones[:m], q, s, s, force, bend, square)
            for g in range(patterns.shape[0]):
                if patterns[g, c] != 0.0:
                    _add_multiple(patterns[g, c], bend, out[g, low - begin : high - begin])

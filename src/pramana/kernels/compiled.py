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

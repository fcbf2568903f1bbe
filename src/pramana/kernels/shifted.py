"""Reversions in a logit that shift its argument: of uniform noise, and of noise that is added now and then.

A ladder gives H, or what normal noise has left of it, with its derivatives; all but H itself vanish at both ends. With c the slope
of η by the noisy column, g(η + ct) is reverted by F(cD) g, where F = 1/M, t g(η + ct) by F′(cD) g and t² g(η + ct) by
F″(cD) g, and e^{sD} g(η) = g(η + s).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import factorial

import numpy as np

from pramana.arrays import Bool, Float
from pramana.kernels.logistic import expanded

Ladder = Callable[[Float, int], list[Float]]
"""From arguments (…, N) to a function and its derivatives up to an order."""
FAR = 40.0
"""Where H is 0 or 1 to the last bit."""
SHORT = 0.15
"""Half a width of the noise, on the scale of η, up to which a power series of twelve terms in d/dη is right to 2e-10."""
LONGEST = 10_000
"""Shifts that a sum may have; beyond, in the middle of a search, the answer is no number."""
MOST_POINTS = 20_000
"""That stand for a noise; beyond, likewise, the answer is no number."""
BLOCK = 1 << 16
"""Numbers that are looked at together."""
KNOTS = 16
"""Places within a unit of η at which sums are tabulated, more where the ladder is steep."""
STRETCH, POINTS = 4.0, 12
"""Length of a panel on the scale of η, or of the noise, and the points that stand for it: right to 1e-12."""


def uniform(ladder: Ladder, eta: Float, half: Float, highest: int, steepness: float = 1.0) -> Float:
    """φ(aD), φ′(aD) and φ″(aD) of the ladder, φ(x) = x/sinh x, for half-widths a (N,), or (1,) for all: (3, highest + 1, N).

    1/sinh x = 2 Σ e^{−(2k+1)x} shifts to the left, and −2 Σ e^{(2k+1)x} to the right, for functions that vanish there. Either sum is a
    reversion; their mean is one that treats the two outcomes alike. For a short noise it agrees with the power series to the last bit.
    """
    with np.errstate(invalid="ignore"):
        short = half * steepness <= SHORT
    if np.all(short):
        return _series(ladder, eta, half, highest)
    if half.size == 1:
        return expanded(lambda points, order: _summed(ladder, points, half, order), eta, highest, KNOTS * steepness)
    out = np.empty((3, highest + 1, eta.size))
    for rows, way in ((short, _series), (~short, _summed)):
        out[:, :, rows] = way(of_rows(ladder, rows), eta[rows], half[rows], highest)
    return out


def of_rows(ladder: Ladder, rows: Bool) -> Ladder:
    """The ladder of some records, each of which may have its own."""

    def some(eta: Float, highest: int) -> list[Float]:
        whole = np.zeros((*eta.shape[:-1], rows.size))
        whole[..., rows] = eta
        return [part[..., rows] for part in ladder(whole, highest)]

    return some


def _series(ladder: Ladder, eta: Float, half: Float, highest: int) -> Float:
    steps = ladder(eta, highest + COEFFICIENTS.size - 1)
    out = np.zeros((3, highest + 1, eta.size))
    for n, coefficient in enumerate(COEFFICIENTS):
        for power in range(min(n, 2) + 1):
            factor = coefficient * factorial(n) / factorial(n - power) * half ** (n - power)
            if coefficient:
                for order in range(highest + 1):
                    out[power, order] += factor * steps[order + n - power]
    return out


def _summed(ladder: Ladder, eta: Float, half: Float, highest: int) -> Float:
    out = np.zeros((3, highest + 1, eta.size))
    if not eta.size:
        return out
    count = (float(np.abs(eta).max()) + FAR) / float(half.min()) / 2 + 1
    if not count < LONGEST:
        return out + np.nan
    for odd in _some(np.arange(1.0, 2 * int(count) + 1, 2), eta.size):
        below, above = ladder(eta - odd[:, None] * half, highest + 1), ladder(eta + odd[:, None] * half, highest + 1)
        above[0] = above[0] - 1
        for order in range(highest + 1):
            rise, fall = below[order + 1] + above[order + 1], below[order + 1] - above[order + 1]
            out[0, order] += half * fall.sum(axis=0)
            out[1, order] += (below[order] - above[order]).sum(axis=0) - half * (odd @ rise)
            out[2, order] += half * (odd**2 @ fall) - 2 * (odd @ (below[order] + above[order]))
    out[0, 0] += 1 / 2
    out[2, 0] -= 1 / 6
    return out


def _some(values: Float, n: int) -> list[Float]:
    """Few enough at a time for arrays of n records each."""
    return np.array_split(values, max(1, -(-values.size * n // BLOCK)))


def _coefficients(count: int) -> Float:
    """Of x/sinh x, up to x^count."""
    powers = [1 / factorial(2 * k + 1) for k in range(count // 2 + 1)]
    out = [1.0]
    for k in range(1, len(powers)):
        out.append(-sum(powers[j] * out[k - j] for j in range(1, k + 1)))
    return np.array([out[n // 2] if n % 2 == 0 else 0.0 for n in range(count + 1)])


COEFFICIENTS = _coefficients(12)


def occasional(
    ladder: Ladder, eta: Float, c: Float, highest: int, keep: float, points: tuple[Float, Float], steepness: float = 1.0
) -> Float:
    """[g − (1 − keep) E g(η + cV)]/keep, and −(1 − keep)/keep E V^p g(η + cV) for p = 1 and 2, by points and weights of V: (3, highest + 1, N)."""

    def averaged(eta: Float, order: int) -> Float:
        out = np.zeros((3, order + 1, eta.size))
        for places, weights in zip(*(_some(part, eta.size) for part in points), strict=True):
            factors = -(1 - keep) / keep * weights * places ** np.arange(3)[:, None]
            for k, values in enumerate(ladder(eta + places[:, None] * c, order)):
                out[:, k] += factors @ values
        out[0] += np.stack(ladder(eta, order)) / keep
        return out

    return expanded(averaged, eta, highest, KNOTS * steepness) if c.size == 1 else averaged(eta, highest)


def laplace_points(scale: float, slope: float, *, bounded: bool = False) -> tuple[Float, Float]:
    """Points and weights of a Laplace noise, for functions of η = slope · V: panels of Gauss and Legendre on both sides. For functions that grow
    no faster than V², fewer points far out, by as many digits as the density has fallen there: right to 1e-10. No numbers where there
    would be too many."""
    length = STRETCH / max(1 / scale, slope)
    if not 2 * POINTS * FAR * scale / length <= MOST_POINTS:
        return np.full(1, np.nan), np.full(1, np.nan)
    starts = np.arange(np.ceil(FAR * scale / length)) * length
    sizes = np.full(starts.size, POINTS)
    if bounded:
        far = starts / scale
        sizes = POINTS - 2 - np.maximum(far * np.log10(np.e) - np.log10(1 + far**2), 0).astype(np.int64)
    rules = [(start, *_legendre(size)) for start, size in zip(starts, sizes.tolist(), strict=True) if size > 0]
    v = np.concatenate([start + length / 2 * (places + 1) for start, places, _ in rules])
    mass = np.concatenate([weights for _, _, weights in rules]) * length / 2 * np.exp(-v / scale) / (2 * scale)
    return np.concatenate([-v[::-1], v]), np.concatenate([mass[::-1], mass])


@lru_cache(maxsize=POINTS)
def _legendre(size: int) -> tuple[Float, Float]:
    return np.polynomial.legendre.leggauss(size)


def geometric_points(decay: float, step: float, slope: float) -> tuple[Float, Float]:
    """The same for Pr(V = k · step) = tanh(decay/2) e^{−decay |k|}: a sum over a stretch of whole numbers has the rule of Gauss for equal
    masses, from the recursion of Gram's polynomials, and is written out where it is short."""
    length = max(1, int(STRETCH / max(decay, slope * step)))
    size = min(length, POINTS)
    n = np.arange(1, size)
    beside = np.sqrt(n**2 * (length**2 - n**2) / (4 * (4 * n**2 - 1)))
    places, vectors = np.linalg.eigh(
        np.diag(np.full(size, (length - 1) / 2)) + np.diag(beside, 1) + np.diag(beside, -1)
    )
    starts = 1 + np.arange(np.ceil(FAR / decay / length)) * length
    k = (starts[:, None] + places).ravel()
    mass = np.tile(length * vectors[0] ** 2, starts.size) * np.tanh(decay / 2) * np.exp(-decay * k)
    return step * np.concatenate([-k[::-1], [0.0], k]), np.concatenate([mass[::-1], [np.tanh(decay / 2)], mass])

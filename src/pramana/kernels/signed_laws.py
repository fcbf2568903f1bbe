"""The law that undoes noise V which was added with a probability p, and what its distribution function is.

u* = [u − p ∫ u(w + v) κ(dv)]/(1 − p). For Laplace noise κ is another Laplace law, whatever p is. For other noises, with p < ½, it is signed:
κ = Σ_{k≥1} (−r)^{k−1} L(V₁ + … + V_k)/(1 − p) with r = p/(1 − p), of mass 1; averaging over the channel leaves u, for the sums
telescope. Its characteristic function is φ/(1 − p + pφ), φ that of V, so that no term of the series is left out: κ comes from a sum over
frequencies, the first terms of the series apart where φ falls off too slowly for that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, factorial

import numpy as np

from pramana.arrays import Float, Int
from pramana.kernels.logistic import taylor

CELLS = 16
"""Cells within a unit in which Taylor's series is used, from their middles: right to 1e-14."""
HIGHEST = 3
"""Derivatives of ∫∫G that are asked for: ∫G, G and the density."""
NORMAL_REACH, NORMAL_FAR = 24.0, 9.0
"""Standard deviations beyond which κ of normal noise is below 1e-18 for p < ½ (it falls off as e^{−1.77 x} or faster: the zeros of 1 + re^{−t²/2} have an
imaginary part of at least √π), and the frequency beyond which φ is below 3e-18."""
UNIFORM_REACH, UNIFORM_FAR, SPLINES = 19.0, 40.0, 8
"""The same of uniform noise, in half-widths (e^{−2.25 x}, from the zeros of 1 + r sin(t)/t), where the first eight terms of the series are splines and φ⁹
is below 1e-14 at the frequency 40."""
NEAR_ZERO = 1e-15
"""Of the largest density: where it stays below, points are left out."""
FINE = 3.0
"""Steps in a standard deviation from which sums of normal noise on a grid are those of continuous noise at its points, to 1e-38."""
SMOOTH, STEEP = 0.5, 0.7
"""Distance of the points of a trapezoidal rule, over the standard deviation, and over the width of the function that is averaged: right to 1e-14
for a normal density and 1e-11 for H."""


class Law(ABC):
    """A symmetric law of mass 1 on the line, in units of its own: ∫∫G, ∫G, G and the density, from the left."""

    @abstractmethod
    def at(self, x: Float, order: int) -> Float:
        """The derivative of ∫∫G of an order from 0 to 3 (…)."""


@dataclass(frozen=True)
class LaplaceLaw(Law):
    """e^{−|x|}/2."""

    def at(self, x: Float, order: int) -> Float:
        tail = np.exp(-np.abs(x)) / 2
        if order == 0:
            return np.where(x < 0, tail, x**2 / 2 + 1 - tail)
        if order == 1:
            return np.maximum(x, 0.0) + tail
        return np.where(x < 0, tail, 1 - tail) if order == 2 else tail


@dataclass(frozen=True)
class SignedLaw(Law):
    """κ of normal noise of standard deviation 1, or of uniform noise between −1 and 1, added with probability 1 − keep."""

    keep: float
    uniform: bool

    @property
    def odds(self) -> float:
        return (1 - self.keep) / self.keep

    @property
    def reach(self) -> float:
        return UNIFORM_REACH if self.uniform else NORMAL_REACH

    @property
    def variance(self) -> float:
        """Of κ: keep times that of the noise."""
        return self.keep * (1 / 3 if self.uniform else 1.0)

    @cached_property
    def _waves(self) -> tuple[Float, Float]:
        """Frequencies, as many as let κ and its nearest images lie twice the reach apart, and what they have of κ beside the splines."""
        apart = np.pi / self.reach
        t: Float = np.asarray(
            np.arange(0.5, (UNIFORM_FAR if self.uniform else NORMAL_FAR) / apart) * apart, dtype=float
        )
        phi = np.sinc(t / np.pi) if self.uniform else np.exp(-(t**2) / 2)
        terms = SPLINES if self.uniform else 0
        return t, apart / np.pi * (-self.odds) ** terms * phi ** (terms + 1) / (self.keep + (1 - self.keep) * phi)

    def derivatives(self, x: Float, highest: int) -> Float:
        """Of ∫∫G, from the order 0 on (highest + 1, N); those of an x above 0 from its mirror image, where all terms are small."""
        left = np.maximum(-np.abs(x), -self.reach)
        out = self._from_waves(left, highest) + (self._from_splines(left, highest) if self.uniform else 0.0)
        whole = [x**2 / 2 + self.variance / 2, x, np.ones_like(x)]  # what ∫∫G, ∫G and G are with their mirror images
        for order in range(highest + 1):
            sign = 1.0 if order % 2 else -1.0
            out[order] = np.where(x > 0, (whole[order] if order < 3 else 0.0) + sign * out[order], out[order])
        return np.where(np.abs(x) < self.reach, out, np.stack(np.broadcast_arrays(*self._far(x, highest))))

    def _far(self, x: Float, highest: int) -> list[Float]:
        above = x > 0
        far: list[Float] = [above * (x**2 / 2 + self.variance / 2), above * x, above.astype(float)]
        return [*far, *[np.zeros_like(x)] * highest][: highest + 1]

    def _from_waves(self, x: Float, highest: int) -> Float:
        t, share = self._waves
        mass = float((-self.odds) ** SPLINES) if self.uniform else 1.0
        cycle = (lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin, np.cos)
        out = np.stack([cycle[n % 4](x[:, None] * t) @ (share * t ** float(n - 3)) for n in range(highest + 1)])
        # ∫G and ∫∫G begin with 0 at the left end.
        end = -self.reach
        first = mass * -end / 2 - float(-np.cos(end * t) @ (share / t**2))
        zeroth = -float(-np.sin(end * t) @ (share / t**3)) - first * end - mass * end**2 / 4
        for order, part in enumerate((zeroth + first * x + mass * x**2 / 4, first + mass * x / 2, mass / 2)):
            if order <= highest:
                out[order] += part
        return out

    def _from_splines(self, x: Float, highest: int) -> Float:
        """Sums of k uniform numbers: Σ_j (−1)^j binom(k, j) (x + k − 2j)₊^{k−1} / (2^k (k − 1)!)."""
        out = np.zeros((highest + 1, x.size))
        for k in range(1, SPLINES + 1):
            share = (-self.odds) ** (k - 1) / self.keep / 2**k
            for j in range(k // 2 + 1):
                up = np.maximum(x + k - 2 * j, 0.0)
                for order in range(min(highest, k + 2) + 1):
                    power = k + 2 - order
                    value = up**power if power else (up > 0).astype(float)
                    out[order] += share * (-1) ** j * comb(k, j) / factorial(power) * value
        return out

    @cached_property
    def _table(self) -> Float:
        """Derivatives in the middles of cells, none of which holds a place where splines meet."""
        middles = (np.arange(2 * int(self.reach) * CELLS) + 0.5) / CELLS - int(self.reach)
        return self.derivatives(middles, HIGHEST + 7)

    def at(self, x: Float, order: int) -> Float:
        edge = float(int(self.reach))
        inside = np.abs(x) < edge
        own = np.where(inside, x, 0.0)
        place: Int = np.floor((own + edge) * CELLS).astype(np.int64)
        apart = own - ((place + 0.5) / CELLS - edge)
        found = taylor(self._table[order : order + 8], place.ravel(), apart.ravel(), 0)[0].reshape(x.shape)
        return np.where(inside, found, self._far(x, HIGHEST)[order])

    def density(self, x: Float) -> Float:
        return self.derivatives(x, 3)[3]


@lru_cache(maxsize=64)
def signed_law(keep: float, uniform: bool) -> SignedLaw:
    return SignedLaw(keep, uniform)


def normal_points(sd: float, keep: float, slope: float, most: int) -> tuple[Float, Float]:
    """Points and weights of κ for functions of slope · V, by the trapezoidal rule; no numbers where there would be more than so many."""
    step = min(SMOOTH * sd, STEEP / slope if slope else np.inf)
    half = NORMAL_REACH * sd / step
    if not 2 * half <= most:
        return np.full(1, np.nan), np.full(1, np.nan)
    v: Float = np.asarray(np.arange(0.5 - int(half), int(half)) * step, dtype=float)
    return _cut(v, signed_law(keep, uniform=False).density(v / sd) * step / sd)


def uniform_points(half: float, keep: float, slope: float, most: int, size: int) -> tuple[Float, Float]:
    """The same for uniform noise between −half and half: panels of Gauss and Legendre, which end where splines meet."""
    parts = max(1.0, np.ceil(slope * half / 4))
    if not 2 * UNIFORM_REACH * parts * size <= most:
        return np.full(1, np.nan), np.full(1, np.nan)
    places, weights = np.polynomial.legendre.leggauss(size)
    starts = np.arange(-UNIFORM_REACH, UNIFORM_REACH, 1 / parts)
    x = (starts[:, None] + (places + 1) / (2 * parts)).ravel()
    mass = signed_law(keep, uniform=True).density(x) * np.tile(weights / (2 * parts), starts.size)
    return _cut(half * x, mass)


def lattice_points(masses: Float, sd: float, step: float, keep: float, slope: float) -> tuple[Float, Float]:
    """The same for normal noise on a grid, by its probabilities at 0, 1, … steps: every point of it, or every so many where that gives the same sums."""
    half = int(np.ceil(NORMAL_REACH * sd / step))
    if sd < FINE * step:  # by all frequencies that a grid has
        size = 2 * half + 1
        t = 2 * np.pi * np.arange(half + 1) / size
        phi = masses[0] + 2 * np.cos(np.outer(t, np.arange(1, masses.size))) @ masses[1:]
        found = np.fft.irfft(phi / (keep + (1 - keep) * phi), size)
        return _cut(step * np.arange(-half, half + 1.0), np.concatenate([found[half + 1 :], found[: half + 1]]))
    stride = max(1, int(min(SMOOTH * sd, STEEP / slope if slope else np.inf) / step))
    v: Float = np.arange(-(half // stride), half // stride + 1.0) * stride * step
    return _cut(v, signed_law(keep, uniform=False).density(v / sd) * stride * step / sd)


def _cut(points: Float, weights: Float) -> tuple[Float, Float]:
    """Without the ends that weigh nothing, as many on both sides."""
    some = np.flatnonzero(np.abs(weights) > NEAR_ZERO * np.abs(weights).max())
    off = min(some[0], points.size - 1 - some[-1])
    inside = slice(int(off), int(points.size - off))
    return points[inside], weights[inside]

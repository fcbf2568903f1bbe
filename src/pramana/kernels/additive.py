"""What undoes additive noise: u* = (1/M)(D) u, where M is the noise's moment generating function and D the derivative by the column.

E e^{s(z + V)} = M(s) e^{sz}, so that e^{sz} is the average of e^{sw}/M(s); polynomials follow by derivatives in s at 0, products
with e^{sz} by derivatives elsewhere, and where 1/M is a polynomial every smooth function does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import comb, factorial
from typing import TypeAlias

import numpy as np

from pramana.arrays import Float, Int
from pramana.kernels.shifted import (
    MOST_POINTS,
    POINTS,
    Ladder,
    geometric_points,
    laplace_points,
    occasional,
    of_rows,
    uniform,
)
from pramana.kernels.signed_laws import LaplaceLaw, Law, lattice_points, normal_points, signed_law, uniform_points

Number: TypeAlias = Float | float
Polynomial: TypeAlias = list[Number]
"""A polynomial in the derivative by the linear predictor: coefficients from the lowest, one for all records or one a record."""
HIGHEST = 12
"""Degree of the polynomials that nodes revert: the squared score of a cubic in a linear model."""
STENCIL = 128
"""Nodes within one scale of a Laplace noise, where no closed form is known: truncation (b/128)⁴/90 · b² u⁽⁶⁾, 4e-11 for a function
that varies on the scale of the noise, and rounding 5 · 128² · 2⁻⁵³ = 1e-11."""


@dataclass(frozen=True)
class NoiseMixture:
    """u* = [u − (1 − keep) E u(w + sV)]/keep, where V has one of several laws.

    Attributes
    ----------
    keep, scale : numbers, or one a record; s is the scale.
    place : which of the laws, likewise.
    """

    keep: Number
    scale: Number
    laws: tuple[Law, ...]
    place: Int | int = 0


class Operator(ABC):
    """The reversion of one additive noise."""

    @property
    @abstractmethod
    def spread(self) -> Number:
        """Standard deviation of the noise."""

    @property
    def reach(self) -> Number:
        """|s| below which M(s) is finite, so that e^{sz} can be reverted."""
        return np.inf

    @abstractmethod
    def series(self) -> list[Number]:
        """Coefficients of s⁰, s², s⁴, … of 1/M, up to s^HIGHEST; odd ones are zero, for the noise is symmetric."""

    @abstractmethod
    def inverse(self, s: Float) -> tuple[Float, Float, Float]:
        """1/M(s) with its first and second derivative; not a number beyond `reach`."""

    @property
    def differential(self) -> bool:
        """Whether `in_derivatives` says anything."""
        return False

    def in_derivatives(self, c: Float) -> tuple[Polynomial, Polynomial, Polynomial] | None:
        """What reverts g, t·g and t²·g for g(η + ct), t the distance from the released value, as polynomials in d/dη that are
        applied to g, after the normal convolution is undone (see `variance`); None where 1/M is no polynomial."""
        del c
        return None

    @property
    def shifts(self) -> bool:
        """Whether `shifted` says anything."""
        return False

    @property
    def by_nodes(self) -> bool:
        """Whether a noise that is undone by shifts has nodes as well."""
        return False

    def shifted(self, ladder: Ladder, eta: Float, c: Float, highest: int, steepness: float) -> Float:
        """Reversions of g, t·g and t²·g for g(η + ct), for H and its derivatives as the ladder has them: (3, highest + 1, N)."""
        raise NotImplementedError

    def within(self, keep: float, slope: float, *, bounded: bool = False) -> tuple[Float, Float]:
        """Points and weights of the law that undoes this noise where it was added with probability 1 − keep, for functions of slope · V; fewer, right to
        1e-10, for those that are `bounded` by a square."""
        raise NotImplementedError

    def law(self, keep: float) -> tuple[Law, Number] | None:
        """The same law where it has a density, and the unit of length in which that is told; None elsewhere."""
        del keep
        return None

    @property
    def mixture(self) -> NoiseMixture | None:
        """How noise on a continuum that was added now and then is undone, in step functions too; None for others."""
        return None

    @property
    def variance(self) -> Number:
        """Of a normal noise, whose reversion no polynomial in derivatives is; 0 for others."""
        return 0.0

    @property
    def coarseness(self) -> Number:
        """Step of the grid on which a noise lies that is undone as a continuous one; 0 elsewhere."""
        return 0.0

    def mapped(self, change: Callable[[Int], Int]) -> Operator:  # noqa: ARG002
        """For other records, where each has an operator of its own among several."""
        return self

    def moments(self, degree: int) -> list[Number]:
        """(t^k)* at t = 0 for k = 0, …, degree: what stands for powers of the distance from the released value."""
        even = self.series()
        return [factorial(k) * even[k // 2] if k % 2 == 0 else 0.0 for k in range(degree + 1)]


@dataclass(frozen=True)
class Laplace(Operator):
    """1/M = 1 − b²s²."""

    scale: Number

    @property
    def differential(self) -> bool:
        return True

    @property
    def spread(self) -> Number:
        return np.sqrt(2) * self.scale

    @property
    def reach(self) -> Number:
        return 1 / self.scale

    def series(self) -> list[Number]:
        return [1.0, -(self.scale**2)] + [0.0] * (HIGHEST // 2 - 1)

    def inverse(self, s: Float) -> tuple[Float, Float, Float]:
        square = np.where(np.abs(s) * self.scale < 1, np.asarray(self.scale) ** 2, np.nan)
        return 1 - square * s**2, -2 * square * s, -2 * square

    def within(self, keep: float, slope: float, *, bounded: bool = False) -> tuple[Float, Float]:
        """Of a Laplace noise of scale b√keep."""
        return laplace_points(float(self.scale) * np.sqrt(keep), slope, bounded=bounded)

    def law(self, keep: float) -> tuple[Law, Number]:
        return LaplaceLaw(), self.scale * np.sqrt(keep)

    def in_derivatives(self, c: Float) -> tuple[Polynomial, Polynomial, Polynomial]:
        square = self.scale**2
        return [1.0, 0.0, -square * c**2], [0.0, -2 * square * c], [-2 * square]


@dataclass(frozen=True)
class Geometric(Operator):
    """1/M = 1 − α/(1 − α)² · (e^{hs} − 2 + e^{−hs}), α = exp(−h/b)."""

    scale: Number
    step: Number

    @property
    def _size(self) -> Number:
        """α/(1 − α)²."""
        return 1 / (4 * np.sinh(self.step / self.scale / 2) ** 2)

    @property
    def spread(self) -> Number:
        return self.step * np.sqrt(2 * self._size)

    @property
    def reach(self) -> Number:
        return 1 / self.scale

    def within(self, keep: float, slope: float, *, bounded: bool = False) -> tuple[Float, Float]:  # noqa: ARG002
        """Of a geometric noise with α′/(1 − α′)² = keep · α/(1 − α)², where (1 − α)²/α = 4 sinh²(h/2b)."""
        ratio = float(self.step / self.scale)
        return geometric_points(2 * np.arcsinh(np.sinh(ratio / 2) / np.sqrt(keep)), float(self.step), slope)

    def series(self) -> list[Number]:
        terms = [self.step ** (2 * k) / factorial(2 * k) for k in range(1, HIGHEST // 2 + 1)]
        return [1.0, *(-2 * self._size * term for term in terms)]

    def inverse(self, s: Float) -> tuple[Float, Float, Float]:
        size = np.where(np.abs(s) * self.scale < 1, self._size, np.nan)
        half, whole = np.sinh(self.step * s / 2), self.step * s
        return 1 - 4 * size * half**2, -2 * size * self.step * np.sinh(whole), -2 * size * self.step**2 * np.cosh(whole)


@dataclass(frozen=True)
class Gaussian(Operator):
    """1/M = exp(−σ²s²/2)."""

    sd: Number

    @property
    def differential(self) -> bool:
        return True

    @property
    def spread(self) -> Number:
        return self.sd

    @property
    def variance(self) -> Number:
        return self.sd**2

    def series(self) -> list[Number]:
        return [(-(self.sd**2) / 2) ** k / factorial(k) for k in range(HIGHEST // 2 + 1)]

    def inverse(self, s: Float) -> tuple[Float, Float, Float]:
        square = self.sd**2
        value = np.exp(-square * s**2 / 2)
        return value, -square * s * value, (square**2 * s**2 - square) * value

    def in_derivatives(self, c: Float) -> tuple[Polynomial, Polynomial, Polynomial]:
        square = self.sd**2
        return [1.0], [0.0, -square * c], [-square, 0.0, square**2 * c**2]

    def within(self, keep: float, slope: float, *, bounded: bool = False) -> tuple[Float, Float]:  # noqa: ARG002
        return normal_points(float(self.sd), keep, slope, MOST_POINTS)

    def law(self, keep: float) -> tuple[Law, Number]:
        return signed_law(keep, uniform=False), self.sd


@dataclass(frozen=True)
class Uniform(Operator):
    """1/M = (sa)/sinh(sa) with the half-width a."""

    width: Number

    @property
    def spread(self) -> Number:
        return self.width / np.sqrt(12)

    @property
    def shifts(self) -> bool:
        return True

    def shifted(self, ladder: Ladder, eta: Float, c: Float, highest: int, steepness: float) -> Float:
        half = np.asarray(self.width, dtype=float) / 2
        found = uniform(ladder, eta, np.abs(c) * half, highest, steepness)
        found[1] *= half * np.sign(c)
        found[2] *= half**2
        return found

    def within(self, keep: float, slope: float, *, bounded: bool = False) -> tuple[Float, Float]:
        return uniform_points(float(self.width) / 2, keep, slope, MOST_POINTS, POINTS - 4 * bounded)

    def law(self, keep: float) -> tuple[Law, Number]:
        return signed_law(keep, uniform=True), self.width / 2

    def series(self) -> list[Number]:
        powers = [(self.width / 2) ** (2 * k) / factorial(2 * k + 1) for k in range(HIGHEST // 2 + 1)]
        return reciprocal(powers)

    def inverse(self, s: Float) -> tuple[Float, Float, Float]:
        half: Float = np.asarray(self.width, dtype=float) / 2
        x: Float = np.abs(np.asarray(s, dtype=float)) * half
        far = np.maximum(x, 0.03)
        value, slope = far / np.sinh(far), 1 / np.tanh(far)
        first = value * (1 / far - slope)
        second = value * (1 / far - slope) ** 2 + value * (-1 / far**2 + slope**2 - 1)
        near = (  # x / sinh x = 1 − x²/6 + 7x⁴/360 − 31x⁶/15120 + …, right to 1e-16 below 0.03
            1 - x**2 / 6 + 7 * x**4 / 360 - 31 * x**6 / 15120,
            -x / 3 + 7 * x**3 / 90 - 31 * x**5 / 2520,
            -1 / 3 + 7 * x**2 / 30 - 31 * x**4 / 504,
        )
        pairs = zip(near, (value, first, second), strict=True)
        v, v1, v2 = (np.asarray(np.where(x < 0.03, a, b), dtype=np.float64) for a, b in pairs)
        return v, np.asarray(v1 * half * np.sign(s), dtype=np.float64), v2 * half**2


@dataclass(frozen=True)
class Lattice(Operator):
    """Noise on whole multiples of a step, by its probabilities at 0, 1, 2, … steps to either side."""

    step: float
    masses: Float

    @property
    def _steps(self) -> Float:
        return np.arange(1.0, len(self.masses)) * self.step

    @property
    def spread(self) -> Number:
        return float(np.sqrt(2 * np.sum(self.masses[1:] * self._steps**2)))

    def series(self) -> list[Number]:
        powers = [float(2 * self.masses[1:] @ self._steps ** (2 * k)) for k in range(1, HIGHEST // 2 + 1)]
        return reciprocal([1.0, *(power / factorial(2 * k) for k, power in enumerate(powers, 1))])

    def inverse(self, s: Float) -> tuple[Float, Float, Float]:
        s = np.asarray(s, dtype=float)
        value, first, second = np.zeros(s.shape) + self.masses[0], np.zeros(s.shape), np.zeros(s.shape)
        for mass, step in zip(self.masses[1:], self._steps, strict=True):
            up, down = mass * np.exp(s * step), mass * np.exp(-s * step)
            value += up + down
            first += step * (up - down)
            second += step**2 * (up + down)
        return 1 / value, -first / value**2, 2 * first**2 / value**3 - second / value**2


@dataclass(frozen=True)
class LatticeGaussian(Lattice):
    """Normal noise on a grid. Where no moment generating function helps it is undone as a continuous one, which is right as far as
    the function has no frequencies beyond π/h."""

    sd: float

    @property
    def differential(self) -> bool:
        return True

    @property
    def coarseness(self) -> Number:
        return self.step

    @property
    def variance(self) -> Number:
        return self.sd**2

    def in_derivatives(self, c: Float) -> tuple[Polynomial, Polynomial, Polynomial]:
        return Gaussian(self.sd).in_derivatives(c)

    def within(self, keep: float, slope: float, *, bounded: bool = False) -> tuple[Float, Float]:  # noqa: ARG002
        return lattice_points(self.masses, self.sd, self.step, keep, slope)


@dataclass(frozen=True)
class OccasionalNoise(Operator):
    """Noise that is added with probability 1 − keep: M = keep + (1 − keep) M_V, which is positive, whatever keep is."""

    keep: float
    noise: Operator

    @property
    def spread(self) -> Number:
        return np.sqrt(1 - self.keep) * self.noise.spread

    @property
    def shifts(self) -> bool:
        return True

    def shifted(self, ladder: Ladder, eta: Float, c: Float, highest: int, steepness: float) -> Float:
        points = self.noise.within(self.keep, float(np.nanmax(np.abs(c), initial=0.0)) * steepness)
        if points[0].size > MOST_POINTS:
            return np.full((3, highest + 1, eta.size), np.nan)
        return occasional(ladder, eta, c, highest, self.keep, points, steepness)

    @property
    def by_nodes(self) -> bool:
        return True

    @property
    def mixture(self) -> NoiseMixture | None:
        found = self.noise.law(self.keep)
        return None if found is None else NoiseMixture(self.keep, found[1], (found[0],))

    @property
    def reach(self) -> Number:
        return self.noise.reach

    def series(self) -> list[Number]:
        whole = reciprocal(self.noise.series())
        return reciprocal([self.keep + (1 - self.keep) * whole[0], *((1 - self.keep) * term for term in whole[1:])])

    def inverse(self, s: Float) -> tuple[Float, Float, Float]:
        """With v = 1/M_V, 1/M = v/(keep v + 1 − keep), which is a number where M_V is beyond all."""
        v, first, second = self.noise.inverse(s)
        p, whole = 1 - self.keep, self.keep * v + 1 - self.keep
        return v / whole, p * first / whole**2, p * (second * whole - 2 * self.keep * first**2) / whole**3


@dataclass(frozen=True)
class ByRecord(Operator):
    """For each record its own of several operators, whose position is in `place` (n,)."""

    operators: tuple[Operator, ...]
    place: Int

    def _picked(self, values: Sequence[Number]) -> Float:
        return np.asarray(values, dtype=float)[self.place]

    @property
    def spread(self) -> Number:
        return self._picked([o.spread for o in self.operators])

    @property
    def reach(self) -> Number:
        return self._picked([o.reach for o in self.operators])

    @property
    def variance(self) -> Number:
        return self._picked([o.variance for o in self.operators])

    @property
    def by_nodes(self) -> bool:
        return all(o.by_nodes for o in self.operators)

    @property
    def mixture(self) -> NoiseMixture | None:
        found = [own for o in self.operators if (own := o.mixture) is not None]
        if len(found) < len(self.operators):
            return None
        laws = tuple(own.laws[0] for own in found)
        return NoiseMixture(
            self._picked([own.keep for own in found]), self._picked([own.scale for own in found]), laws, self.place
        )

    @property
    def coarseness(self) -> Number:
        return self._picked([o.coarseness for o in self.operators])

    @property
    def differential(self) -> bool:
        return all(o.differential for o in self.operators)

    @property
    def shifts(self) -> bool:
        return all(o.shifts for o in self.operators)

    def shifted(self, ladder: Ladder, eta: Float, c: Float, highest: int, steepness: float) -> Float:
        c, out = np.broadcast_to(c, self.place.shape), np.empty((3, highest + 1, eta.size))
        for position, operator in enumerate(self.operators):
            rows = self.place == position
            own = of_rows(ladder, rows)
            out[:, :, rows] = operator.shifted(own, eta[rows], c[rows], highest, steepness)
        return out

    def mapped(self, change: Callable[[Int], Int]) -> ByRecord:
        return replace(self, place=change(self.place))

    def series(self) -> list[Number]:
        return [self._picked(terms) for terms in zip(*(o.series() for o in self.operators), strict=True)]

    def inverse(self, s: Float) -> tuple[Float, Float, Float]:
        s = np.broadcast_to(s, self.place.shape)
        out = np.empty((3, s.size))
        for position, operator in enumerate(self.operators):
            rows = self.place == position
            out[:, rows] = np.stack(np.broadcast_arrays(*operator.inverse(s[rows])))
        return out[0], out[1], out[2]

    def in_derivatives(self, c: Float) -> tuple[Polynomial, Polynomial, Polynomial] | None:
        found = [own for o in self.operators if (own := o.in_derivatives(c)) is not None]
        if len(found) < len(self.operators):
            return None
        one, first, second = (self._spliced([own[power] for own in found], self.place.size) for power in range(3))
        return one, first, second

    def _spliced(self, parts: list[Polynomial], n: int) -> Polynomial:
        """Polynomials of the operators' records as one with coefficients (n,)."""
        out = np.zeros((max(map(len, parts)), n))
        for position, part in enumerate(parts):
            rows = self.place == position
            for k, coefficient in enumerate(part):
                out[k, rows] = np.broadcast_to(coefficient, n)[rows]
        return list(out)


@dataclass(frozen=True)
class Displacement:
    """How far the released values of q columns lie from the true ones: `mixing` (q, q) times q independent noises.

    Attributes
    ----------
    operators : what undoes each of the independent noises.
    """

    operators: tuple[Operator, ...]
    mixing: Float

    @classmethod
    def alone(cls, operator: Operator) -> Displacement:
        """Of one column."""
        return cls((operator,), np.eye(1))

    @classmethod
    def together(cls, parts: Sequence[Displacement]) -> Displacement:
        """Of all columns of several channels."""
        operators = tuple(o for part in parts for o in part.operators)
        mixing, first = np.zeros((len(operators), len(operators))), 0
        for part in parts:
            last = first + len(part.operators)
            mixing[first:last, first:last], first = part.mixing, last
        return cls(operators, mixing)


def reciprocal(series: list[Number]) -> list[Number]:
    """Coefficients of 1/f of a power series f with f(0) = 1."""
    out: list[Number] = [1.0]
    for k in range(1, len(series)):
        out.append(-sum(series[j] * out[k - j] for j in range(1, k + 1)))
    return out


def moment_nodes(operator: Operator, degree: int) -> tuple[list[Number], Float]:
    """Offsets (C) from the released value, and weights (R, C), that revert every polynomial up to `degree`.

    Offsets are whole multiples of twice the noise's spread, and Σ_c w_c t_c^k = (t^k)*. R is 1 where the parameters are
    numbers; with arrays, one row a record.
    """
    if degree > HIGHEST:
        raise ValueError(f"degree {degree} is above {HIGHEST}")
    half = (degree + 1) // 2
    unit = 2 * operator.spread
    even = operator.moments(2 * half)[::2]
    scaled = np.stack([np.atleast_1d(np.asarray(m / unit ** (2 * k), dtype=float)) for k, m in enumerate(even)])
    places = np.arange(half + 1, dtype=float)
    powers = places[None] ** (2 * np.arange(half + 1)[:, None])
    sides = np.linalg.solve(powers, scaled).T  # the weight of both ±j together
    weights = np.concatenate([sides[:, :0:-1] / 2, sides[:, :1], sides[:, 1:] / 2], axis=1)
    return [j * unit for j in range(-half, half + 1)], weights


def stencil_weights(order: int) -> Float:
    """Weights of the central second derivative at −k, …, k steps, k = order / 2, exact for polynomials up to order + 1."""
    half = order // 2
    one = [2 * (-1) ** (j + 1) * comb(2 * half, half - j) / (j**2 * comb(2 * half, half)) for j in range(1, half + 1)]
    return np.array([*reversed(one), -2 * sum(one), *one])


def laplace_stencil() -> tuple[Float, Float]:
    """Offsets (5,) in scales of a Laplace noise and weights (5,) that undo it in smooth functions: 1 − b² times a central second derivative."""
    weights = -float(STENCIL**2) * stencil_weights(4)
    weights[2] += 1
    return np.arange(-2, 3) / STENCIL, weights

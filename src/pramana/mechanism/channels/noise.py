"""Laplace, geometric, Gaussian and uniform noise, and noise that is added now and then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pramana.arrays import Column, Columns, Float, Words
from pramana.errors import MechanismError
from pramana.frames.levels import is_number
from pramana.kernels.additive import (
    Gaussian,
    Geometric,
    Laplace,
    LatticeGaussian,
    OccasionalNoise,
    Operator,
    Uniform,
    laplace_stencil,
)
from pramana.mechanism.channel import Document, Nodes
from pramana.mechanism.channels.additive_noise import OFF_GRID, AdditiveNoise, shared_nodes
from pramana.mechanism.channels.clamped_noise import ClampedLaplaceNoise
from pramana.mechanism.channels.transition import TransitionMatrix
from pramana.mechanism.draws.integer_noise import (
    LONGEST,
    draw_integers,
    gaussian_cuts,
    geometric_cuts,
    uniform_cuts,
)
from pramana.mechanism.draws.keystream import Keystream

FINE = 4096
"""Grid points within one scale of a noise that stands for a continuous one: its moments are right to 5e-9."""
SMALLEST, LARGEST = 1e-12, 1e12
"""Of scales, steps and widths: so that what is released, in steps of a grid, can be counted."""
COARSEST = 40
"""Scales in a step from which a geometric noise is never drawn: α is below 2⁻⁵⁷."""
NODES = 400
"""Most values that may stand for one released value."""
CLAMPED = 5_000
"""Most grid points between the bounds of a noise that becomes a transition matrix: 200 MB, and a minute for its condition number."""


@dataclass(frozen=True)
class LaplaceNoise(AdditiveNoise):
    """Laplace noise of a scale b: density exp(−|v|/b)/(2b), variance 2b². Undone by u − b² u″.

    Drawn as geometric noise on a grid of b/4096, so that released numbers have no telling low bits.

    Parameters
    ----------
    scale : b.
    bounds : (lowest, highest): true values are clamped to them first. Epsilon is their distance over b, and infinite without.

    >>> LaplaceNoise(2.0, bounds=(18, 98)).epsilon
    40.0
    """

    scale: float
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_positive("scale", self.scale))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    @property
    def grid(self) -> float:
        return power_of_two(self.scale / FINE)

    @property
    def law(self) -> str:
        return f"Laplace noise of scale {self.scale:g}"

    @property
    def cuts(self) -> Words:
        return geometric_cuts(-self.grid / self.scale)

    @property
    def operator(self) -> Laplace:
        return Laplace(self.scale)

    @property
    def epsilon(self) -> float:
        return self.span / self.scale

    def revert(self, encoded: Column, context: Columns) -> Nodes:
        """By a central stencil: for smooth functions whose second derivative nobody wrote down."""
        self.check_released(encoded, context)
        values, (offsets, weights) = np.asarray(encoded, dtype=float), laplace_stencil()
        return shared_nodes(tuple(values + self.scale * v for v in offsets), weights[None], values.size)

    def clamped(self) -> ClampedLaplaceNoise:
        """The channel of a release that was clamped to the bounds once more, after the noise.

        >>> LaplaceNoise(3.0, bounds=(0, 10)).clamped().ends
        (0.0, 10.0)
        """
        return ClampedLaplaceNoise(self)

    def stronger(self, times: float) -> LaplaceNoise:
        return LaplaceNoise(self.scale * times, self.bounds)

    def document(self) -> Document:
        return {"channel": "laplace_noise", "scale": self.scale, **self._bounds_document()}


@dataclass(frozen=True, init=False)
class GeometricNoise(AdditiveNoise):
    """Whole steps of noise with Pr(V = kh) ∝ α^|k|, the Laplace noise of a grid. Undone exactly, for every function of the grid, by
    u(w) − α/(1 − α)² · (u(w + h) − 2u(w) + u(w − h)).

    Parameters
    ----------
    scale : b = h / ln(1/α).
    alpha : given in place of the scale.
    step : h, the distance of grid points, to which true values are rounded.
    bounds : (lowest, highest), multiples of the step: true values are clamped to them first. Epsilon is their distance over b.

    >>> noise = GeometricNoise(alpha=0.5, bounds=(0, 10))
    >>> round(noise.epsilon, 4), round(noise.scale, 4)
    (6.9315, 1.4427)
    """

    scale: float
    step: float
    bounds: tuple[float, float] | None

    def __init__(
        self,
        scale: float | None = None,
        *,
        alpha: float | None = None,
        step: float = 1.0,
        bounds: Sequence[float] | None = None,
    ) -> None:
        if (scale is None) == (alpha is None):
            raise MechanismError("GeometricNoise takes either a scale or alpha, which is exp(-step / scale)")
        object.__setattr__(self, "step", checked_positive("step", step))
        if alpha is not None and not (is_number(alpha) and 0 < alpha < 1):
            raise MechanismError(f"alpha={alpha!r} must lie between 0 and 1")
        found = -self.step / np.log(alpha) if alpha is not None else checked_positive("scale", scale)
        object.__setattr__(self, "scale", float(found))
        object.__setattr__(self, "bounds", checked_bounds(bounds, self.step))
        if self.step > COARSEST * self.scale:
            raise MechanismError(
                f"scale={self.scale:g} is so small beside a step of {self.step:g} that no value would ever change: use "
                f"{self.step / COARSEST:.2g} or more, or a finer step"
            )
        if 64 * np.log(2) * self.scale / self.step > LONGEST:
            limit = 64 * np.log(2) * self.scale / LONGEST
            raise MechanismError(
                f"step={self.step:g} is too fine for a scale of {self.scale:g}: use {limit:.2g} or more"
            )

    @property
    def alpha(self) -> float:
        """Ratio of the chances of neighbouring values."""
        return float(np.exp(-self.step / self.scale))

    @property
    def grid(self) -> float:
        return self.step

    @property
    def smooth_only(self) -> bool:
        return False

    @property
    def on_grid(self) -> bool:
        return True

    @property
    def law(self) -> str:
        return f"geometric noise of scale {self.scale:g}: k steps of {self.step:g} with a probability in proportion to {self.alpha:.4g}^|k|"

    @property
    def cuts(self) -> Words:
        return geometric_cuts(-self.step / self.scale)

    @property
    def operator(self) -> Geometric:
        return Geometric(self.scale, self.step)

    @property
    def masses(self) -> Float:
        """Probabilities of 0, 1, 2, … steps, as far as they count."""
        ratio = self.step / self.scale
        count = int(min(np.ceil(64 * np.log(2) / ratio), LONGEST)) + 1
        return -np.expm1(-ratio) / (1 + np.exp(-ratio)) * np.exp(-ratio * np.arange(count))

    @property
    def epsilon(self) -> float:
        return self.span / self.scale

    def revert(self, encoded: Column, context: Columns) -> Nodes:
        self.check_released(encoded, context)
        values, ratio = np.asarray(encoded, dtype=float), self.step / self.scale
        side = -1 / (4 * np.sinh(ratio / 2) ** 2)  # −α/(1 − α)²
        weights = np.array([[side, 1 - 2 * side, side]])
        return shared_nodes((values - self.step, values, values + self.step), weights, values.size)

    def revert_polynomial(self, encoded: Column, context: Columns, degree: int) -> Nodes:  # noqa: ARG002
        return self.revert(encoded, context)

    def clamped(self) -> TransitionMatrix:
        """The transition matrix of a release that was clamped to the bounds once more, after the noise.

        >>> GeometricNoise(alpha=0.5, bounds=(0, 2)).clamped().matrix.round(3)
        array([[0.667, 0.333, 0.167],
               [0.167, 0.333, 0.167],
               [0.167, 0.333, 0.667]])
        """
        return _clamped(self, self.masses)

    def stronger(self, times: float) -> GeometricNoise:
        return GeometricNoise(self.scale * times, step=self.step, bounds=self.bounds)

    @property
    def strengths(self) -> tuple[float, float]:
        return self.step / (0.99 * COARSEST) / self.scale, 0.99 * LONGEST * self.step / (64 * np.log(2)) / self.scale

    def document(self) -> Document:
        return {"channel": "geometric_noise", "scale": self.scale, "step": self.step, **self._bounds_document()}


@dataclass(frozen=True)
class GaussianNoise(AdditiveNoise):
    """Normal noise with standard deviation σ, undone by exp(−σ²/2 · d²/dz²): exact in polynomials and exponentials.

    Drawn as discrete Gaussian noise on a grid of about σ/4096.

    Parameters
    ----------
    sd : σ.
    bounds : (lowest, highest): true values are clamped to them first. Epsilon is infinite; ρ = range²/(2σ²), see `rho`.

    >>> GaussianNoise(10.0, bounds=(0, 20)).rho
    2.0
    """

    sd: float
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sd", checked_positive("sd", self.sd))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    @property
    def grid(self) -> float:
        return power_of_two(self.sd / FINE)

    @property
    def law(self) -> str:
        return f"normal noise of standard deviation {self.sd:g}"

    @property
    def cuts(self) -> Words:
        return gaussian_cuts(self.sd / self.grid)

    @property
    def operator(self) -> Operator:
        return Gaussian(self.sd)

    @property
    def rho(self) -> float:
        return self.span**2 / (2 * self.sd**2)

    def stronger(self, times: float) -> GaussianNoise:
        return GaussianNoise(self.sd * times, self.bounds)

    def document(self) -> Document:
        return {"channel": "gaussian_noise", "sd": self.sd, **self._bounds_document()}


@dataclass(frozen=True)
class DiscreteGaussianNoise(AdditiveNoise):
    """Whole steps of noise with Pr(V = kh) ∝ exp(−k²h²/(2σ²)). Undone in polynomials and exponentials, exactly, by its own moments.

    Parameters
    ----------
    sd : σ, at least one step: below that the noise is almost none.
    step : h, the distance of grid points, to which true values are rounded.
    bounds : (lowest, highest), multiples of the step: true values are clamped to them first. Epsilon is infinite; ρ =
        range²/(2σ²), see `rho`.
    """

    sd: float
    step: float = 1.0
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sd", checked_positive("sd", self.sd))
        object.__setattr__(self, "step", checked_positive("step", self.step))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds, self.step))
        if self.sd < self.step:
            raise MechanismError(f"sd={self.sd:g} is below the step of {self.step:g}: use a finer step, or more noise")
        if 10 * self.sd / self.step > LONGEST:
            limit = 10 * self.sd / LONGEST
            raise MechanismError(f"step={self.step:g} is too fine for an sd of {self.sd:g}: use {limit:.2g} or more")

    @property
    def grid(self) -> float:
        return self.step

    @property
    def on_grid(self) -> bool:
        return True

    @property
    def law(self) -> str:
        return f"normal noise of standard deviation {self.sd:g} in whole steps of {self.step:g}"

    @property
    def cuts(self) -> Words:
        return gaussian_cuts(self.sd / self.step)

    @cached_property
    def masses(self) -> Float:
        """Probabilities of 0, 1, 2, … steps, as far as they count."""
        steps = np.arange(int(np.ceil(10 * self.sd / self.step)) + 1)
        relative = np.exp(-((steps * self.step / self.sd) ** 2) / 2)
        return np.asarray(relative / (2 * relative.sum() - 1))

    @property
    def operator(self) -> Operator:
        return LatticeGaussian(self.step, self.masses, self.sd)

    @property
    def rho(self) -> float:
        return self.span**2 / (2 * self.sd**2)

    def clamped(self) -> TransitionMatrix:
        """The transition matrix of a release that was clamped to the bounds once more, after the noise."""
        return _clamped(self, self.masses)

    def stronger(self, times: float) -> DiscreteGaussianNoise:
        return DiscreteGaussianNoise(self.sd * times, self.step, self.bounds)

    @property
    def strengths(self) -> tuple[float, float]:
        return self.step / self.sd, 0.99 * LONGEST * self.step / 10 / self.sd

    def document(self) -> Document:
        return {"channel": "discrete_gaussian_noise", "sd": self.sd, "step": self.step, **self._bounds_document()}


@dataclass(frozen=True)
class UniformNoise(AdditiveNoise):
    """Noise between −width/2 and width/2, all values alike. Undone in polynomials and exponentials.

    It has no epsilon: a released value excludes true ones farther than half the width away. With bounds, two true values are told
    apart with a probability of at most δ = range/width.

    >>> UniformNoise(50.0, bounds=(0, 20)).delta
    0.4
    """

    width: float
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", checked_positive("width", self.width))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    @property
    def grid(self) -> float:
        return self.width / (8 * FINE + 1)

    @property
    def law(self) -> str:
        return f"uniform noise between {-self.width / 2:g} and {self.width / 2:g}"

    @property
    def cuts(self) -> Words:
        return uniform_cuts(4 * FINE)

    @property
    def operator(self) -> Operator:
        return Uniform(self.width)

    @property
    def delta(self) -> float:
        return min(1.0, self.span / self.width)

    def stronger(self, times: float) -> UniformNoise:
        return UniformNoise(self.width * times, self.bounds)

    def document(self) -> Document:
        return {"channel": "uniform_noise", "width": self.width, **self._bounds_document()}


@dataclass(frozen=True)
class KeepOrNoise(AdditiveNoise):
    """The value stays with probability `keep`, else noise is added: the sibling of a randomised response for numbers.

    Undone by [u − p E u(w + V′)]/(1 − p), where p = 1 − keep: weights that are bounded, and no differences of u. For geometric noise V′ is geometric
    with α′/(1 − α′)² = (1 − p) α/(1 − α)², for Laplace noise it is Laplace with scale b√(1 − p). For normal and uniform noise E u(w + V′) is
    Σ_{k≥1} (−p/(1 − p))^{k−1} E u(w + V₁ + … + V_k)/(1 − p), and p must be below ½. On a grid every function is undone, elsewhere smooth ones,
    quantiles and shares.

    Parameters
    ----------
    keep : the probability with which a value stays, above ½ for normal and uniform noise.
    inner : the noise that is added otherwise.

    >>> noise = KeepOrNoise(0.6, GeometricNoise(2.0, bounds=(0, 10)))
    >>> round(noise.epsilon, 3)
    6.964
    """

    keep: float
    inner: LaplaceNoise | GeometricNoise | GaussianNoise | DiscreteGaussianNoise | UniformNoise

    def __post_init__(self) -> None:
        if not (is_number(self.keep) and 0 < self.keep < 1):
            raise MechanismError(f"keep={self.keep!r} must lie between 0 and 1")
        if isinstance(self.inner, KeepOrNoise) or not isinstance(self.inner, AdditiveNoise):
            raise MechanismError(
                f"KeepOrNoise takes a LaplaceNoise, GeometricNoise, GaussianNoise, DiscreteGaussianNoise or UniformNoise, not a {type(self.inner).__name__}"
            )
        if self.keep <= 0.5 and not isinstance(self.inner, GeometricNoise | LaplaceNoise):
            raise MechanismError(
                f"keep={self.keep:g} is not above 0.5: {self.inner.title} that is added with a probability of {1 - self.keep:g} is undone by a series that "
                "converges below one half; keep more values, or use LaplaceNoise or GeometricNoise, which take every keep"
            )

    @property
    def bounds(self) -> tuple[float, float] | None:  # type: ignore[override]
        return self.inner.bounds

    @property
    def grid(self) -> float:
        return self.inner.grid

    @property
    def smooth_only(self) -> bool:
        return not self.on_grid

    @property
    def on_grid(self) -> bool:
        return self.inner.on_grid

    @property
    def keeps(self) -> bool:
        return not self.on_grid

    @property
    def lattice(self) -> tuple[float, float] | None:
        return (self.grid, float(self.operator.noise.within(self.keep, np.inf)[0].max())) if self.on_grid else None

    @property
    def law(self) -> str:
        return f"with probability {1 - self.keep:g} {self.inner.law}, else nothing"

    @property
    def cuts(self) -> Words:
        return self.inner.cuts

    @property
    def chances(self) -> Float:
        out = (1 - self.keep) * self.inner.chances
        out[out.size // 2] += self.keep
        return out

    @property
    def operator(self) -> OccasionalNoise:
        return OccasionalNoise(self.keep, self.inner.operator)

    @property
    def epsilon(self) -> float:
        """Of the largest against the smallest chance: a value that stayed, against noise over the whole range. It is finite because
        what is released lies on a grid, also that of b/4096 of a Laplace noise; normal and uniform noise have none of their own."""
        return float(self._staying + self.inner.epsilon)

    @property
    def _staying(self) -> float:
        """Log ratio of a value that stayed to the likeliest noise, which is no step of the grid."""
        inner = self.inner
        if isinstance(inner, GeometricNoise | LaplaceNoise):  # sooner than from the table of its draws
            likeliest = float(np.tanh(inner.grid / inner.scale / 2))
        else:
            likeliest = inner.surest
        changed = (1 - self.keep) * likeliest
        return float(np.log((self.keep + changed) / changed))

    @property
    def rho(self) -> float:
        """Of normal noise ρ₀ = range²/(2σ²): a power a > 1 of the chances of a value z that stays or gets noise is at most the mean of two powers (Jensen),
        and those of another value are at least those of its noise, so that Rényi's divergence is at most −ln p + max(ρ₀ − ln c, aρ₀), c the chance of no
        step; over a, that is at most ρ₀ − ln(pc)."""
        if math.isfinite(self.epsilon) or not math.isfinite(self.inner.rho):
            return super().rho
        return float(self.inner.rho - math.log((1 - self.keep) * self.inner.surest))

    @property
    def delta(self) -> float:
        """Of uniform noise: a value that stayed is told apart as well."""
        return min(1.0, self.keep + (1 - self.keep) * self.inner.delta) if self.inner.delta else 0.0

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Column:  # noqa: ARG002
        steps = self.true_steps(encoded)
        stays = stream.words(steps.size) < np.uint64(min(int(self.keep * 2.0**64), 2**64 - 1))
        released = steps + np.where(stays, 0, draw_integers(self.cuts, steps.size, stream))
        return released * int(self.grid) if self.whole else released * self.grid

    def revert(self, encoded: Column, context: Columns) -> Nodes:
        return self._by_points(encoded, context, bounded=False)

    def revert_bounded(self, encoded: Column, context: Columns) -> Nodes:
        return self._by_points(encoded, context, bounded=True)

    def revert_lattice(self, encoded: Column, context: Columns) -> Nodes:
        return self._by_points(encoded, context, bounded=False, most=np.inf)

    def _by_points(self, encoded: Column, context: Columns, *, bounded: bool, most: float = NODES) -> Nodes:
        self.check_released(encoded, context)
        values = np.asarray(encoded, dtype=float)
        # On a grid every point counts; on a continuum functions are taken to vary on the scale of the noise, or more slowly.
        offsets, chances = self.operator.noise.within(self.keep, np.inf if self.on_grid else 0.0, bounded=bounded)
        if offsets.size > most:
            raise MechanismError(
                f"{offsets.size} values stand for one released value of a noise with a standard deviation of {self.inner.spread / self.grid:.3g} steps, above "
                f"the limit of {NODES}: ask for a linear model, a log link or a logit with terms that are linear in the column, or have the column "
                "released with a coarser step"
            )
        weights = -(1 - self.keep) * chances
        if not self.on_grid:
            offsets, weights = (np.insert(part, offsets.size // 2, 0.0) for part in (offsets, weights))
        weights[weights.size // 2] += 1
        return shared_nodes(tuple(values + v for v in offsets), weights[None] / self.keep, values.size)

    def stronger(self, times: float) -> KeepOrNoise:
        return KeepOrNoise(self.keep, self.inner.stronger(times))

    @property
    def strengths(self) -> tuple[float, float]:
        return self.inner.strengths

    def document(self) -> Document:
        inner = self.inner.document()
        del inner["channel"]
        return {"channel": "keep_or_noise", "keep": self.keep, **inner}


def checked_positive(name: str, value: Any) -> float:
    """A number above zero that can be counted in steps."""
    if not (is_number(value) and np.isfinite(value) and value > 0):
        raise MechanismError(f"{name}={value!r} must be a positive number")
    if not SMALLEST <= value <= LARGEST:
        raise MechanismError(f"{name}={value!r} must lie between {SMALLEST:g} and {LARGEST:g}: use other units")
    return float(value)


def checked_bounds(bounds: Sequence[float] | None, step: float | None = None) -> tuple[float, float] | None:
    """Two numbers, on the grid of the step where there is one; None for none."""
    if bounds is None:
        return None
    found = tuple(bounds) if isinstance(bounds, Sequence) else ()
    if len(found) != 2 or not all(is_number(v) and np.isfinite(v) for v in found) or not found[0] < found[1]:
        raise MechanismError(f"bounds={bounds!r} must be two numbers, the lower one first")
    low, high = (float(v) for v in found)
    if step is not None and any(abs(v / step - np.rint(v / step)) > OFF_GRID for v in (low, high)):
        raise MechanismError(f"bounds={bounds!r} are no multiples of the step {step:g}: round them to the grid")
    return low, high


def power_of_two(value: float) -> float:
    """The largest that is not above a value."""
    return float(2.0 ** np.floor(np.log2(value)))


def _clamped(noise: GeometricNoise | DiscreteGaussianNoise, masses: Float) -> TransitionMatrix:
    if noise.bounds is None:
        raise MechanismError(f"{type(noise).__name__} has no bounds to clamp to: give bounds=(lowest, highest)")
    low, high = (int(np.rint(b / noise.step)) for b in noise.bounds)
    size = high - low + 1
    if size > CLAMPED:
        raise MechanismError(
            f"bounds={noise.bounds!r} hold {size} multiples of the step {noise.step:g}, and a transition matrix of noise has at most {CLAMPED} "
            f"levels: use a step of {(high - low) * noise.step / (CLAMPED - 1):.2g} or more, or narrower bounds"
        )
    # Pr(V ≥ k steps), from the far end so that small ones stay exact.
    tails = np.concatenate([np.cumsum(masses[::-1])[::-1], np.zeros(size)])
    apart = np.subtract.outer(np.arange(size), np.arange(size))
    matrix = np.concatenate([masses, np.zeros(size)])[np.abs(apart)]
    matrix[0], matrix[-1] = tails[np.arange(size)], tails[np.arange(size)[::-1]]
    whole = noise.step.is_integer()
    levels = [k * int(noise.step) if whole else k * noise.step for k in range(low, high + 1)]
    return TransitionMatrix.from_columns(levels, matrix / matrix.sum(axis=0), kind="numeric")

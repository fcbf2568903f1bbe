"""What every additive noise shares: released = true + V.

True values are clamped to the bounds and rounded to a grid before V is drawn on the same grid, in whole numbers: the low bits of a
released number say nothing. What is estimated is a property of the clamped and rounded variable.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pramana.arrays import Bool, Column, Columns, Float, Int, Words
from pramana.errors import DataError, MechanismError, quoted
from pramana.frames import Kind
from pramana.frames.levels import EXACT, is_number
from pramana.kernels.additive import Displacement, Operator, moment_nodes
from pramana.mechanism.channel import Channel, Document, Nodes
from pramana.mechanism.draws.integer_noise import draw_integers
from pramana.mechanism.draws.keystream import Keystream

ARGUMENTS = np.arange(1, 13) / 2
"""Over the standard deviation of the noise: where released numbers are compared with it."""
OFF_GRID = 1e-6
"""Of a step: farther than that from the grid is no rounding."""
RARE = 1e-9
"""Probability of a noise that is not reckoned with: tables of whole numbers are rough below 2⁻⁶⁴."""
CLIPPED = 1e-9
"""Probability below which released values that pile up at a bound were clipped there."""
PILE, RARELY = 30, 0.01
"""Values on a bound from which a pile of them is looked at, and the largest chance of a single released value with which it tells anything."""


class NumberNoise(Channel):
    """Noise that is added to numbers, of one column or of several: no pure epsilon unless a noise says otherwise."""

    @property
    def kind(self) -> Kind:
        return "numeric"

    @property
    def levels(self) -> None:
        return None

    @property
    def smooth_only(self) -> bool:
        return True

    @property
    def epsilon(self) -> float:
        return np.inf


class GridNoise(NumberNoise):
    """Noise of one column that is drawn on a grid, after true values were clamped and rounded to it: what a release, an audit and a risk know of it.

    Attributes
    ----------
    bounds : true values are clamped to them before the noise is added, which makes the privacy loss finite; None for none.
    grid : what is released is a whole multiple of it.
    """

    bounds: tuple[float, float] | None

    @property
    @abstractmethod
    def grid(self) -> float: ...

    @property
    @abstractmethod
    def cuts(self) -> Words:
        """Cut points of the noise in steps of the grid."""

    @property
    @abstractmethod
    def law(self) -> str:
        """The noise in words, for those who read about a release."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """Standard deviation of what is added."""

    @property
    def clamps(self) -> bool:
        """Whether what is released was clamped to the bounds as well."""
        return False

    @property
    def chances(self) -> Float:
        """Probabilities (2K + 1,) of −K, …, K steps of the grid, to the last bit those of the draws."""
        cuts = self.cuts
        parts = np.concatenate([cuts[:1], np.diff(cuts), np.uint64(0) - cuts[-1:]])
        return np.asarray(parts.astype(float) / 2.0**64)

    @property
    def values(self) -> Float:
        """Of the noise (2K + 1,), whose probabilities are `chances`."""
        half = self.chances.size // 2
        return np.asarray(np.arange(-half, half + 1) * self.grid, dtype=float)

    @property
    def stays(self) -> float:
        """Probability that a true value, clamped and rounded, is released as it is."""
        chances = self.chances
        return float(chances[chances.size // 2])

    @property
    def surest(self) -> float:
        """The largest probability with which a true value becomes one and the same released value."""
        return float(self.chances.max())

    @property
    def drawn_on(self) -> float:
        """The grid of released values."""
        return self.grid

    @property
    def whole(self) -> bool:
        """Whether released values are whole numbers."""
        return float(self.grid).is_integer()

    @property
    def on_grid(self) -> bool:
        """Whether released values must lie on the grid: it is part of what was stated, and no device of drawing."""
        return False

    @property
    def span(self) -> float:
        """How far two true values can lie apart; infinite without bounds."""
        return np.inf if self.bounds is None else self.bounds[1] - self.bounds[0]

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Float:
        return numbers_in(columns[0], names[0])

    def released_steps(self, encoded: Column) -> Int:
        """Released values (n,) in whole steps of the grid, the nearest where they lie off it."""
        return np.rint(np.asarray(encoded, dtype=float) / self.grid).astype(np.int64)

    def off_grid(self, encoded: Column) -> Bool:
        """Which released values (n,) are no multiples of the grid, beyond rounding."""
        places = np.asarray(encoded, dtype=float) / self.drawn_on
        return np.asarray(np.abs(places - np.rint(places)) > OFF_GRID)

    def true_steps(self, encoded: Column) -> Int:
        """True values (n,) clamped, and rounded to whole steps of the grid."""
        return steps_of(np.asarray(encoded, dtype=float), self.bounds, self.grid)

    def secrets(self, encoded: Column) -> Int:
        return self.true_steps(encoded)

    def unbiased(self, released: Float) -> tuple[Float, Float]:
        """What stands for the true value in a mean (n,), and what the noise adds to the variance of that (n,)."""
        return released, np.full(released.size, self.spread**2)

    def at_bounds(self, values: Float) -> Int:  # noqa: ARG002
        """Released values beyond, at, and within a standard deviation of the lower and the upper bound (2, 3), which add over blocks; zeros where
        they say nothing."""
        return np.zeros((2, 3), dtype=np.int64)

    def clipped(self, held: Int) -> tuple[float, int, float] | None:  # noqa: ARG002
        """A bound, values at most so far from it, and that distance, where chance hardly leaves so many near and none beyond: they
        were clipped or filtered after the noise, which takes at least a known share of them beyond. None elsewhere."""
        return None

    def _bounds_document(self) -> Document:
        return {} if self.bounds is None else {"bounds": list(self.bounds)}


class AdditiveNoise(GridNoise):
    """A number plus noise that does not depend on it."""

    @property
    @abstractmethod
    def operator(self) -> Operator:
        """What undoes the noise."""

    @abstractmethod
    def stronger(self, times: float) -> AdditiveNoise:
        """The same noise, so many times as strong."""

    @property
    def strengths(self) -> tuple[float, float]:
        """How many times as strong the noise may be, at least and at most: a grid bounds both."""
        return 0.0, np.inf

    @property
    def spread(self) -> float:
        return float(self.operator.spread)

    def clamped(self) -> Channel:
        """The channel of a release that was clamped to the bounds once more, after the noise; an error where that cannot be undone."""
        raise MechanismError(
            f"what {self.title} releases cannot be undone once it is clamped: use LaplaceNoise(scale, bounds=...).clamped(), or on a grid the transition "
            "matrix of GeometricNoise(...).clamped() or DiscreteGaussianNoise(...).clamped()"
        )

    def noise(self, context: Columns) -> Displacement:  # noqa: ARG002
        return Displacement.alone(self.operator)

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Column:  # noqa: ARG002
        steps = self.true_steps(encoded)
        released = steps + draw_integers(self.cuts, steps.size, stream)
        return released * int(self.grid) if self.whole else released * self.grid

    def revert(self, encoded: Column, context: Columns) -> Nodes:  # noqa: ARG002
        raise undone_elsewhere(self, self.operator)

    def revert_polynomial(self, encoded: Column, context: Columns, degree: int) -> Nodes:
        self.check_released(encoded, context)
        values = np.asarray(encoded, dtype=float)
        offsets, weights = moment_nodes(self.operator, degree)
        return shared_nodes(tuple(values + offset for offset in offsets), weights, values.size)

    def check_released(self, encoded: Column, context: Columns) -> None:  # noqa: ARG002
        values = np.asarray(encoded, dtype=float)
        if self.on_grid:
            _refuse_off_grid(values, self.off_grid(values), self.grid)
        self._refuse_far(values)
        found = self.clipped(self.at_bounds(values)) or self._piled(values)
        if found is not None:
            bound, near, within = found
            where = f"within {within:.4g} of" if within else "at"
            raise DataError(
                f"{near} released values lie {where} the bound {bound:g} and none beyond it, which has a probability below {CLIPPED:g} under "
                "this noise: the values were clipped, or records left out by them, after the noise was added, which it does not say. Use "
                "the file as it was before that; values clipped to the bounds are described by LaplaceNoise(...).clamped(), or on a grid by the "
                "matrix of GeometricNoise(...).clamped()"
            )

    def _piled(self, values: Float) -> tuple[float, int, float] | None:
        """A bound with far more values on it than on any other place nearby, and none beyond: also noise that ends, as a uniform one, takes a
        value to the next place as often as to the bound. None elsewhere, and where values stay as they are now and then."""
        from scipy.special import bdtrc

        for bound, sign in zip(self.bounds or (), (1.0, -1.0), strict=False):
            inwards = sign * (values - bound)
            here = int(np.count_nonzero(inwards == 0))
            if here < PILE or inwards.min() < 0 or self.surest > RARELY:
                continue
            near = inwards[(inwards > 0) & (inwards <= self.spread)]
            most = int(np.unique(near, return_counts=True)[1].max(initial=0))
            if bdtrc(here - 1, here + most, 0.5) < CLIPPED:
                return float(bound), here, 0.0
        return None

    def _refuse_far(self, values: Float) -> None:
        """Values that the noise cannot have taken there from within the bounds, as in other units."""
        if self.bounds is None or not values.size:
            return
        low, high = self.bounds
        reach = farthest(self)
        if low - reach <= values.min() and values.max() <= high + reach:
            return
        far = np.flatnonzero((values < low - reach) | (values > high + reach))
        raise DataError(
            f"{far.size} of {values.size} released values lie more than {reach:.4g} beyond the bounds {low:g} and {high:g}, first in row {far[0]} "
            f"({quoted(f'{values[far[0]]:.10g}')}), where this noise does not take them: use the file as it was released, in the units of the bounds, "
            "with its own description"
        )

    def at_bounds(self, values: Float) -> Int:
        if self.bounds is None:
            return super().at_bounds(values)
        inwards = np.stack([values - self.bounds[0], self.bounds[1] - values])
        near = [np.count_nonzero(inwards <= steps * self.grid, axis=1) for steps, _ in continuing(self)]
        return np.stack([np.count_nonzero(inwards < 0, axis=1), *near], axis=1)

    def clipped(self, held: Int) -> tuple[float, int, float] | None:
        for bound, (beyond, *counts) in zip(self.bounds or (), held.tolist(), strict=False):
            for near, (steps, on) in zip(counts, continuing(self), strict=True):
                if not beyond and near * np.log1p(-on) < np.log(CLIPPED):
                    return bound, near, steps * self.grid
        return None


@lru_cache(maxsize=64)
def characteristic(noise: AdditiveNoise) -> tuple[Float, Float]:
    """Arguments u (k,), on the scale of the noise, and E e^{iuV} (k,), which is real: the noise is symmetric."""
    chances, values, u = noise.chances, noise.values, ARGUMENTS / noise.operator.spread
    return u, np.array([chances @ np.cos(a * values) for a in u])


@lru_cache(maxsize=64)
def continuing(noise: AdditiveNoise) -> tuple[tuple[int, float], ...]:
    """For 0 steps, and for a standard deviation in steps: least of Pr(V > k + steps | V ≥ k) for noise that comes near a bound from
    anywhere within; 0 where it has an end there."""
    chances = noise.chances
    tails = np.cumsum(chances[::-1])[::-1][chances.size // 2 :]  # of 0, 1, … steps or more
    apart = int(min(noise.span / noise.grid, float(np.count_nonzero(tails > RARE) - 1))) + 1
    found = []
    for steps in (0, int(float(noise.operator.spread) / noise.grid)):
        beyond = np.append(tails[steps + 1 :], np.zeros(steps + 1))
        found.append((steps, float((beyond / tails)[:apart].min())))
    return tuple(found)


@lru_cache(maxsize=64)
def farthest(noise: AdditiveNoise) -> float:
    """The largest draw, and a standard deviation more, for numbers that were rounded afterwards."""
    return float(noise.values[-1]) + noise.spread


def undone_elsewhere(channel: Channel, operator: Operator) -> MechanismError:
    """That no nodes undo a noise in every smooth function, and where it is undone."""
    logit = ("'binomial' (logit)",) * operator.differential + (
        "'binomial' (logit, of one such column)",
    ) * operator.shifts
    families = ", ".join((*logit, "'poisson', 'gamma' and 'inverse-gaussian'"))
    entire = ", or entire=[column]" if np.any(operator.variance) else ""
    return MechanismError(
        f"{channel.title} is undone in polynomials (means, correlations, family 'gaussian') and where terms are linear in the "
        f"column, in families {families}, which this is not: ask for one of those, say of a function of your own what it is (from_callable with "
        f"degree={{column: degree}}{entire}), or have the column released with GeometricNoise or LaplaceNoise"
    )


def shared_nodes(values: tuple[object, ...], weights: Float, n: int) -> Nodes:
    """Nodes of n records with one row of the table for everybody; the released value is the one in the middle."""
    return Nodes(values, weights, np.zeros(n, dtype=np.int64), np.array([len(values) // 2]))


def steps_of(values: Float, bounds: tuple[float, float] | None, grid: float) -> Int:
    """Numbers (n,) clamped, and rounded to whole steps of a grid."""
    if bounds is not None:
        values = np.clip(values, *bounds)
    steps = np.rint(values / grid)
    if np.abs(steps).max(initial=0.0) > EXACT:
        raise DataError(
            f"values more than {EXACT:.0e} steps of {grid:.3g} away from 0 cannot be told apart: choose a coarser step or a "
            "larger scale, or give bounds"
        )
    if bounds is not None:  # a bound between two grid points is not exceeded by rounding
        steps = np.clip(steps, np.ceil(bounds[0] / grid), np.floor(bounds[1] / grid))
    return steps.astype(np.int64)


def numbers_in(column: Column, name: str) -> Float:
    """A column as finite numbers; text is no number."""
    values = np.asarray(column)
    if values.dtype.kind == "O" and all(is_number(v) for v in values.tolist()):
        values = values.astype(float)
    if values.dtype.kind not in "iuf":
        raise DataError(f"column {name!r} holds no numbers, to which noise could be added: convert it first")
    values = values.astype(float)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise DataError(
            f"column {name!r} has {wrong.size} missing or infinite value(s), first in row {wrong[0]}: noise needs numbers; set "
            "them to missing, or leave their records out"
        )
    return values


def _refuse_off_grid(values: Float, astray: Bool, step: float) -> None:
    off = np.flatnonzero(astray)
    if off.size:
        raise DataError(
            f"{off.size} of {values.size} released values are no multiples of the step {step:g}, first in row {off[0]} "
            f"({quoted(f'{values[off[0]]:.10g}')}): they did not pass this channel, or were changed afterwards; use the file as it was "
            "released, with its own description"
        )

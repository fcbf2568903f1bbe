"""Distributions of numbers to which noise was added now and then: step functions of them are reverted in closed form.

u* = [u − p E u(w + V)]/(1 − p), where V is Laplace of scale s = b√(1 − p), or has a signed law (`kernels.signed_laws`), is bounded. For the share below t,
E u(w + V) = G(t − w), G the distribution function of V, and for a share that is smoothed over t ± h the mean of G over that stretch, which ∫G gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial

import numpy as np

from pramana.arrays import Complex, Float, Int
from pramana.estimating.distribution import Distribution, DistributionFunction, Knots, kernel
from pramana.estimating.noisy import NoisyRecords
from pramana.estimating.records import Records
from pramana.kernels.signed_laws import LaplaceLaw, Law

FAR = 300.0
"""Scales over which exponentials are summed together: e^300 is still a number."""
NARROW = 1e-3
"""Of a scale: over a narrower stretch G is its value in the middle, right to 2e-7."""
FINE, LONGEST = 256, 1 << 19
"""Places within a scale of a table of sums: an F̂ of n records is right to 1e-6, and where uniform noise ends to 2e-4/n; and how many it has at most."""


@dataclass(frozen=True)
class KeptDistribution(Distribution):
    """A distribution of released numbers of which some are true.

    Attributes
    ----------
    gain, loss : u* = gain · u − loss · E u(w + V) of every record (n,); gain − loss = 1.
    scale : of V (n,).
    laws, place : those that V/scale can have, and which of them every record has (n,).
    """

    gain: Float = field(default_factory=lambda: np.ones(0))
    loss: Float = field(default_factory=lambda: np.ones(0))
    scale: Float = field(default_factory=lambda: np.ones(0))
    laws: tuple[Law, ...] = ()
    place: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def among(cls, measure: Distribution, records: NoisyRecords) -> KeptDistribution:
        """The distribution of the released values, with the noise of the records."""
        mixture = records.operators[0].mixture
        assert mixture is not None
        keep, scale = (np.broadcast_to(part, records.n).astype(float) for part in (mixture.keep, mixture.scale))
        loss = records.share * (1 - keep) / keep
        place = np.broadcast_to(mixture.place, records.n)
        plain = {f.name: vars(measure)[f.name] for f in fields(measure)}
        return cls(**plain, gain=1 + loss, loss=loss, scale=scale, laws=mixture.laws, place=place)

    def rows(self, rows: slice) -> KeptDistribution:
        own = {name: vars(self)[name][rows] for name in ("values", "cells", "gain", "loss", "scale", "place")}
        return replace(self, **own, learning=None if self.learning is None else self.learning[rows])

    def below(self, t: float, h: float) -> Float:
        x = t - self.values
        return self.gain * kernel(x, h) - self.loss * self._over(averaged, x, h)

    def both_below(self, s: float, t: float, h: float) -> Float:
        x, apart = min(s, t) - self.values, abs(t - s)
        both = kernel(x, h) * kernel(x + apart, h)
        return self.gain * both - self.loss * self._over(partial(_averaged_product, apart), x, h)

    def near(self, t: float, h: float) -> Float:
        x = t - self.values
        return self.gain * (np.abs(x) <= h) - self.loss * self._over(_within, x, h)

    def _over(self, function: Callable[[Law, Float, float, Float], Float], x: Float, h: float) -> Float:
        """A function of each record's law, distance (n,) and scale."""
        if len(self.laws) == 1:
            return function(self.laws[0], x, h, self.scale)
        out = np.empty_like(x)
        for position, law in enumerate(self.laws):
            rows = self.place == position
            out[rows] = function(law, x[rows], h, self.scale[rows])
        return out

    def knots(self, h: float) -> KeptKnots:
        plain = Knots.of(self.values, h)
        return KeptKnots(plain.points, plain.order, h, self)


def averaged(law: Law, x: Float, h: float, s: Float) -> Float:
    """E K((x − V)/h): the mean of G over x ± h."""
    if h < NARROW * s.min(initial=np.inf):
        return law.at(x / s, 2)
    return np.asarray(s * (law.at((x + h) / s, 1) - law.at((x - h) / s, 1)) / (2 * h))


def _averaged_product(apart: float, law: Law, x: Float, h: float, s: Float) -> Float:
    """E K((x − V)/h) K((y − V)/h) for y = x + apart: where the second kernel is 1, the mean of G; where both rise, ∫ (x + y + 2h − 2v) G(v) dv / 4h²."""
    if apart >= 2 * h or h < NARROW * s.min(initial=np.inf):
        return averaged(law, x, h, s)
    low, high = (x + apart - h) / s, (x + h) / s  # both rise there
    integrated = s * law.at(low, 1)
    alone = (integrated - s * law.at((x - h) / s, 1)) / (2 * h)
    rise = s**2 * (law.at(high, 0) - law.at(low, 0))
    ends = apart * s * law.at(high, 1) - (4 * h - apart) * integrated
    return np.asarray(alone + (ends + 2 * rise) / (4 * h**2))


def _within(law: Law, x: Float, h: float, s: Float) -> Float:
    return law.at((x + h) / s, 2) - law.at((x - h) / s, 2)


@dataclass(frozen=True)
class KeptKnots(Knots):
    """The reverted distribution function at the released values, its knots, and a straight line between two of them: what it bends there
    is no more than the law G that undoes the noise bends from one value to the next."""

    measure: KeptDistribution

    def function(self, masses: Float) -> Float:
        total = masses.sum(axis=1, keepdims=True)
        total = np.where(total > 0, total, np.nan)
        out = self.summed(masses * self.measure.gain, total)
        for part in self._parts:
            out -= part.summed(masses[:, part.rows] * self.measure.loss[part.rows]) / total
        return np.asarray(out)

    @cached_property
    def _parts(self) -> tuple[Convolution | TabulatedConvolution, ...]:
        """One for each law and scale."""
        measure, found = self.measure, list[Convolution | TabulatedConvolution]()
        for position, law in enumerate(measure.laws):
            own = measure.place == position
            for s in np.unique(measure.scale[own]):
                rows = np.flatnonzero(own & (measure.scale == s))
                if isinstance(law, LaplaceLaw):
                    found.append(Convolution.of(rows, measure.values, self.points, self.h, float(s)))
                else:
                    found.append(TabulatedConvolution.of(rows, measure.values, self.points, self.h, float(s), law))
        return tuple(found)


@dataclass(frozen=True)
class Convolution:
    """Σ m_i E K((t − w_i − V)/h) at points t, for masses m of some records and Laplace noise V of one scale.

    With L = Σ m e^{−(t−w)/s} over w ≤ t and R = Σ m e^{−(w−t)/s} over the others, Σ m G(t − w) is Σ_{w≤t} m − L/2 + R/2, and its integral
    Σ_{w≤t} m (t − w) + s (L + R)/2. L and R go from one value to the next.

    Attributes
    ----------
    rows : the records, by rising value.
    values : theirs, around 0.
    """

    rows: Int
    values: Float
    points: Float
    h: float
    scale: float

    @classmethod
    def of(cls, rows: Int, values: Float, points: Float, h: float, scale: float) -> Convolution:
        rows = rows[np.argsort(values[rows], kind="stable")]
        middle = float(np.median(values[rows]))
        return cls(rows, values[rows] - middle, points - middle, h, scale)

    def summed(self, masses: Float) -> Float:
        """At the points (B, T), for masses (B, m) of the rows."""
        before = _decayed(masses, self.values, self.scale)
        after = _decayed(masses[:, ::-1], -self.values[::-1], self.scale)[:, ::-1]
        none = np.zeros((len(masses), 1))
        sides = np.concatenate([none, before], axis=1), np.concatenate([after, none], axis=1)
        counted = np.concatenate([none, np.cumsum(masses, axis=1)], axis=1)
        if self.h < NARROW * self.scale:
            below, left, right = self._at(self.points, counted, *sides)
            return np.asarray(below - left / 2 + right / 2)
        moments = np.concatenate([none, np.cumsum(masses * self.values, axis=1)], axis=1)

        def integrated(points: Float) -> Float:
            below, left, right = self._at(points, counted, *sides)
            (amount,) = self._at(points, moments)
            return points * below - amount + self.scale / 2 * (left + right)

        return (integrated(self.points + self.h) - integrated(self.points - self.h)) / (2 * self.h)

    def _at(self, points: Float, below: Float, *sides: Float) -> list[Float]:
        """Sums over values up to each point, and what has decayed from its neighbours on either side."""
        place = np.searchsorted(self.values, points, side="right")
        found = [below[:, place]]
        padded = np.concatenate([[-np.inf], self.values, [np.inf]])
        for side, neighbour, sign in zip(sides, (place, place + 1), (1, -1), strict=False):
            with np.errstate(invalid="ignore"):
                found.append(side[:, place] * np.exp(-sign * (points - padded[neighbour]) / self.scale))
        return found


def _decayed(masses: Float, values: Float, scale: float) -> Float:
    """Σ_{j ≤ i} m_j e^{−(v_i − v_j)/scale} at rising values (B, m): in stretches over which exponentials are numbers."""
    stretch = np.floor((values - values[0]) / (FAR * scale))
    starts = np.flatnonzero(np.diff(stretch, prepend=-1.0))
    out = np.empty_like(masses)
    carried, at = np.zeros(len(masses)), float(values[0])
    for first, last in zip(starts, [*starts[1:], values.size], strict=True):
        own = (values[first:last] - values[first]) / scale
        brought = carried * np.exp(-(values[first] - at) / scale)
        out[:, first:last] = (np.cumsum(masses[:, first:last] * np.exp(own), axis=1) + brought[:, None]) * np.exp(-own)
        carried, at = out[:, last - 1], float(values[last - 1])
    return out


@dataclass(frozen=True)
class TabulatedConvolution:
    """The same for a law of which no sum goes from one value to the next: masses are shared between the two nearest places of a fine table, which is
    convolved with E K, and the sum is linear in between. Both are right to the square of a place's width.

    Attributes
    ----------
    place, share : the lower neighbour of each row's value in the table, and how much of its mass the upper one gets.
    at : where the points lie in the table, in its steps. response : E K at differences of places, transformed.
    """

    rows: Int
    place: Int
    share: Float
    at: Float
    size: int
    response: Complex

    @classmethod
    def of(cls, rows: Int, values: Float, points: Float, h: float, scale: float, law: Law) -> TabulatedConvolution:
        low, high = float(points.min()), float(points.max())
        step = max(scale / FINE, (high - low) / LONGEST)
        size = int((high - low) / step) + 2
        at = (values[rows] - low) / step
        place = np.minimum(at.astype(np.int64), size - 2)
        apart: Float = np.arange(1.0 - size, size) * step
        response = np.fft.rfft(averaged(law, apart, h, np.full(1, scale)), 1 << (3 * size).bit_length())
        return cls(rows, place, at - place, (points - low) / step, size, response)

    def summed(self, masses: Float) -> Float:
        """At the points (B, T), for masses (B, m) of the rows."""
        out = np.empty((len(masses), self.at.size))
        for row, own in enumerate(masses):
            held = np.bincount(self.place, own * (1 - self.share), self.size)
            held[1:] += np.bincount(self.place, own * self.share, self.size)[: self.size - 1]
            length = 2 * (self.response.size - 1)
            found = np.fft.irfft(np.fft.rfft(held, length) * self.response, length)[self.size - 1 : 2 * self.size - 1]
            out[row] = np.interp(self.at, np.arange(self.size), found)
        return out


@dataclass(frozen=True)
class KeptFunction(DistributionFunction):
    """A functional of the distribution of a column of which some numbers are as they were."""

    @classmethod
    def of(cls, function: DistributionFunction) -> KeptFunction:
        return cls(**vars(function))

    def measured(self, records: Records) -> Distribution:
        plain = super().measured(records)
        return KeptDistribution.among(plain, records) if isinstance(records, NoisyRecords) else plain

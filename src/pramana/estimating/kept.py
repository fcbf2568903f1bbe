"""Distributions of numbers to which Laplace noise was added now and then: step functions of them are reverted in closed form.

u* = [u − p E u(w + V)]/(1 − p) with V Laplace of scale s = b√(1 − p) is bounded. For the share below t, E u(w + V) = G(t − w), G the
distribution function of V, and for a share that is smoothed over t ± h the mean of G over that stretch, which ∫G gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from pramana.arrays import Float, Int
from pramana.estimating.distribution import Distribution, DistributionFunction, Knots, kernel
from pramana.estimating.noisy import NoisyRecords
from pramana.estimating.records import Records

FAR = 300.0
"""Scales over which exponentials are summed together: e^300 is still a number."""
NARROW = 1e-3
"""Of a scale: over a narrower stretch G is its value in the middle, right to 2e-7."""


@dataclass(frozen=True)
class KeptDistribution(Distribution):
    """A distribution of released numbers of which some are true.

    Attributes
    ----------
    gain, loss : u* = gain · u − loss · E u(w + V) of every record (n,); gain − loss = 1.
    scale : of V (n,).
    """

    gain: Float = field(default_factory=lambda: np.ones(0))
    loss: Float = field(default_factory=lambda: np.ones(0))
    scale: Float = field(default_factory=lambda: np.ones(0))

    @classmethod
    def among(cls, measure: Distribution, records: NoisyRecords) -> KeptDistribution:
        """The distribution of the released values, with the noise of the records."""
        mixture = records.operators[0].mixture
        assert mixture is not None
        keep, scale = (np.broadcast_to(part, records.n).astype(float) for part in mixture)
        loss = records.share * (1 - keep) / keep
        return cls(**{f.name: vars(measure)[f.name] for f in fields(measure)}, gain=1 + loss, loss=loss, scale=scale)

    def rows(self, rows: slice) -> KeptDistribution:
        own = {name: vars(self)[name][rows] for name in ("values", "cells", "gain", "loss", "scale")}
        return replace(self, **own, learning=None if self.learning is None else self.learning[rows])

    def below(self, t: float, h: float) -> Float:
        x = t - self.values
        return self.gain * kernel(x, h) - self.loss * _averaged(x, h, self.scale)

    def squared_below(self, t: float, h: float) -> Float:
        x = t - self.values
        return self.gain * kernel(x, h) ** 2 - self.loss * _averaged_square(x, h, self.scale)

    def near(self, t: float, h: float) -> Float:
        x = t - self.values
        averaged = _cumulated(x + h, self.scale) - _cumulated(x - h, self.scale)
        return self.gain * (np.abs(x) <= h) - self.loss * averaged

    def knots(self, h: float) -> KeptKnots:
        plain = Knots.of(self.values, h)
        return KeptKnots(plain.points, plain.order, h, self)


def _cumulated(x: Float, s: Float | float) -> Float:
    """G: the distribution function of Laplace noise."""
    tail = np.exp(-np.abs(x) / s) / 2
    return np.where(x < 0, tail, 1 - tail)


def _integrated(x: Float, s: Float | float) -> Float:
    """∫G up to x."""
    return np.maximum(x, 0.0) + s / 2 * np.exp(-np.abs(x) / s)


def _twice_integrated(x: Float, s: Float | float) -> Float:
    tail = s**2 / 2 * np.exp(-np.abs(x) / s)
    return np.where(x < 0, tail, x**2 / 2 + s**2 - tail)


def _averaged(x: Float, h: float, s: Float) -> Float:
    """E K((x − V)/h): the mean of G over x ± h."""
    if h < NARROW * s.min():
        return _cumulated(x, s)
    return np.asarray((_integrated(x + h, s) - _integrated(x - h, s)) / (2 * h))


def _averaged_square(x: Float, h: float, s: Float) -> Float:
    """E K²((x − V)/h) = ∫ (x + h − v) G(v) dv / 2h² over x ± h."""
    if h < NARROW * s.min():
        return _cumulated(x, s)
    rise = _twice_integrated(x + h, s) - _twice_integrated(x - h, s)
    return np.asarray((rise - 2 * h * _integrated(x - h, s)) / (2 * h**2))


@dataclass(frozen=True)
class KeptKnots(Knots):
    """F̂ at the knots of the released values; taken as linear in between, where it bends by as much as G does from one value to the next."""

    measure: KeptDistribution

    def function(self, masses: Float) -> Float:
        total = masses.sum(axis=1, keepdims=True)
        total = np.where(total > 0, total, np.nan)
        out = self.summed(masses * self.measure.gain, total)
        for part in self._parts:
            out -= part.summed(masses[:, part.rows] * self.measure.loss[part.rows]) / total
        return np.asarray(out)

    @cached_property
    def _parts(self) -> tuple[Convolution, ...]:
        """One for each scale."""
        measure = self.measure
        return tuple(
            Convolution.of(np.flatnonzero(measure.scale == s), measure.values, self.points, self.h, float(s))
            for s in np.unique(measure.scale)
        )


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
class KeptFunction(DistributionFunction):
    """A functional of the distribution of a column of which some numbers are as they were."""

    @classmethod
    def of(cls, function: DistributionFunction) -> KeptFunction:
        return cls(**vars(function))

    def measured(self, records: Records) -> Distribution:
        plain = super().measured(records)
        return KeptDistribution.among(plain, records) if isinstance(records, NoisyRecords) else plain

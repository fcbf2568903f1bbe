"""The interval: the hull of those around estimate and one step, with reversion's sandwich error, which may grow outwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pramana.arrays import Float
from pramana.errors import SolveError
from pramana.estimators.stabilized.plug_in import PlugIn
from pramana.inference import Sandwich
from pramana.inference.few_units import small_sample
from pramana.inference.limits import Limits, on_t
from pramana.inference.sandwich import Linear, bread, sandwich_covariance

OUT = 2.0
"""Standard errors from the estimate to where they are computed anew, about the ends of an interval of 95 %."""


@dataclass(frozen=True)
class Hull(Limits):
    """The shortest interval that holds two others, each of which runs t e + c t² to either side of its estimate; e is its standard error.

    Attributes
    ----------
    centers, errors, df : of both (2, d).
    growth : c (2, 2, d), of each the one of its lower and of its upper end: half of what the error grows by on a standard error's way, and never negative.
    """

    centers: Float
    errors: Float
    df: Float
    growth: Float
    level: float = 0.95
    kind: str = "hull"

    def at(self, level: float) -> Float:
        from scipy.special import stdtrit

        t = stdtrit(self.df, (1 + level) / 2)
        reach = t[:, None] * (self.errors[:, None] + self.growth * t[:, None])
        return np.column_stack([(self.centers - reach[:, 0]).min(axis=0), (self.centers + reach[:, 1]).max(axis=0)])

    def zero(self, df: Float) -> Float:
        """By the larger of the two p-values, each that of the level at which an end is 0; 1 where 0 lies between the estimates."""
        from scipy.special import stdtr

        away = np.abs(self.centers)
        growth = np.where(self.centers > 0, self.growth[:, 0], self.growth[:, 1])
        with np.errstate(all="ignore"):
            t = 2 * away / (self.errors + np.sqrt(self.errors**2 + 4 * growth * away))
            p = 2 * stdtr(self.df, -t)
        return on_t(np.where(np.prod(self.centers, axis=0) > 0, p.max(axis=0), 1.0), df)

    def of(self, kept: Sequence[int]) -> Self:
        return self._with(lambda values: values[..., list(kept)])

    def alone(self, place: int) -> Self:
        """One of the two."""
        return self._with(lambda values: values[place : place + 1])

    def times(self, size: float) -> Self:
        return replace(self, centers=self.centers * size, errors=self.errors * size, growth=self.growth * size)

    def _with(self, part: Callable[[Float], Float]) -> Self:
        whole = (self.centers, self.errors, self.df, self.growth)
        centers, errors, df, growth = (part(values) for values in whole)
        return replace(self, centers=centers, errors=errors, df=df, growth=growth)


@dataclass(frozen=True)
class ErrorAt:
    """Reversion's sandwich at some value: covariance (d, d) and degrees of freedom (d,)."""

    covariance: Float
    df: Float
    corrected: bool

    @property
    def errors(self) -> Float:
        return np.sqrt(np.clip(np.diag(self.covariance), 0.0, None))


def _linear_at(plugged: PlugIn, beta: Float) -> Linear:
    """With the bread of p, which is well conditioned where reversion's own is not."""
    totals = plugged.reverted.totals(beta, plugged.slope(beta))
    return Linear(totals, bread(totals, plugged.reverted.about.parameters))


def _error_at(plugged: PlugIn, beta: Float, options: Sandwich) -> ErrorAt:
    engine, linear = plugged.reverted, _linear_at(plugged, beta)
    small = small_sample(engine, beta, linear, always=options.correction == "HC2") if options.small_sample else None
    design = engine.sampling.degrees_of_freedom
    if small is not None:
        return ErrorAt(small.blanked(small.covariance), small.df, True)
    df = np.full(engine.d, np.inf if design is None else design)
    return ErrorAt(sandwich_covariance(linear.totals, linear.inverse, engine, options), df, False)


def error_near(plugged: PlugIn, beta: Float, options: Sandwich) -> ErrorAt:
    """The error at a value, or at the plug-in where a long step has led to one at which U has no slope, as for thresholds out of order."""
    with suppress(SolveError, np.linalg.LinAlgError):
        found = _error_at(plugged, beta, options)
        if np.any(np.isfinite(found.errors)):
            return found
    return _error_at(plugged, plugged.m, options)


def growth_around(plugged: PlugIn, beta: Float, errors: Float) -> Float:
    """Half of what a standard error (d,) grows by on the way of one of them, downwards and upwards (2, d); 0 where it does not grow.

    An estimate that happens to be small can have an error that is too small to reach back. With an error that depends on the parameter the end of an
    interval is where ∫ dβ/se = t: to second order that is t times the mean of the errors here and there. The other parameters move along as they do
    by chance.
    """
    part, out = plugged.sketch, np.zeros((2, len(beta)))
    if part.reverted.about.sums:
        return out
    with suppress(SolveError, np.linalg.LinAlgError):
        covariance = _linear_at(part, beta).covariance
        for j in np.flatnonzero(np.diag(covariance) > 0).tolist():
            move = OUT * errors[j] * covariance[:, j] / covariance[j, j]
            grown = [_grown(part, beta + sign * move, j, covariance[j, j]) for sign in (-1.0, 1.0)]
            out[:, j] = np.array(grown) * errors[j] / (2 * OUT)
    return out


def _grown(plugged: PlugIn, beta: Float, j: int, variance: float) -> float:
    """By which share the error of a parameter is larger at another value than the root of a variance; 0 where it is not, or has no value."""
    with suppress(SolveError, np.linalg.LinAlgError):
        ratio = float(_linear_at(plugged, beta).covariance[j, j]) / variance
        return max(np.sqrt(ratio) - 1, 0.0) if np.isfinite(ratio) and ratio > 0 else 0.0
    return 0.0

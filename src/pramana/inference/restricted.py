"""Score intervals of functions of means: each value is tested with everything else at its best.

Where a record can be released in R ways, the counts are multinomial and the means that a parameter is a function of are linear in the
chances λ (R,). A value of the parameter is tested by Rao's score: the chances of largest likelihood among those that give the
value, and how far they are from the counts, (Σ N c)² / Σ N̂ c², where c is 0 on average at that value. For two ways that is Wilson's
interval, for a difference of shares Miettinen and Nurminen's. Elsewhere the means are taken for normal with their estimated
covariance, which for a quotient is Fieller's interval. Both need no division by something that may vanish.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from pramana.arrays import Float
from pramana.estimating.equation import Constraint
from pramana.estimating.rounding import gradient
from pramana.inference.limits import Limits, on_t

FAR = 2.0**24
"""Standard errors from the estimate beyond which an end is infinite."""
HALVINGS = 48
TILTS = 60
ROUNDS = 80
WHOLE_ROUNDS = 8


def restricted_statistics(counts: Float, contrasts: Float) -> Float:
    """Rao's score statistics (m,) of Σ λ c = 0 for multinomial counts (m, R) and contrasts c (m, R).

    The likeliest chances are N / (n (1 + t c)), t solved for; where that would need chances that no count speaks for, the
    rest is put on the way of release which is farthest out. Infinite where no chances have mean zero.

    >>> restricted_statistics(np.array([[3.0, 7.0]]), np.array([[-0.5, 0.5]]))  # 7 of 10 for a chance of one half
    array([1.6])
    """
    tilt, mass, feasible = _tilt(counts, contrasts)
    seen = counts > 0
    with np.errstate(all="ignore"):
        spread = np.where(seen, counts * contrasts**2 / np.where(seen, 1 + tilt[:, None] * contrasts, 1.0), 0.0)
    statistic = tilt**2 * spread.sum(axis=1) + mass
    return np.where(feasible, statistic, np.inf)


def _tilt(counts: Float, contrasts: Float) -> tuple[Float, Float, Any]:
    """t (m,), the count put on unseen ways of release (m,), and whether any chances have mean zero (m,)."""
    low, high = contrasts.min(axis=1), contrasts.max(axis=1)
    seen = counts > 0
    flat = ~np.any(seen & (contrasts != 0), axis=1)
    feasible = flat | ((low < 0) & (high > 0))
    with np.errstate(all="ignore"):
        left, right = np.where(high > 0, -1 / high, -1.0), np.where(low < 0, -1 / low, 1.0)
    solved = (feasible & ~flat)[:, None]
    tilt = _likeliest(np.where(solved, counts, 0.0), np.where(seen & solved, contrasts, 0.0), left, right)
    with np.errstate(all="ignore"):
        held = np.where(seen, counts / np.where(seen, 1 + tilt[:, None] * contrasts, 1.0), 0.0).sum(axis=1)
    mass = np.maximum(counts.sum(axis=1) - held, 0.0)
    return np.where(flat, 0.0, tilt), np.where(flat, 0.0, mass), feasible


def _likeliest(counts: Float, contrasts: Float, low: Float, high: Float) -> Float:
    """Where Σ N c / (1 + t c), which falls with t, crosses zero within (low, high); the end where it does not.

    Newton's steps, and halves of what is left of the bracket where a step leaves it.
    """
    tilt = np.clip(0.0, low, high) if np.all((low < 0) & (high > 0)) else (low + high) / 2
    for _ in range(TILTS):
        with np.errstate(all="ignore"):
            terms = contrasts / (1 + tilt[:, None] * contrasts)
            pull, bend = (counts * terms).sum(axis=1), (counts * terms**2).sum(axis=1)
            low, high = np.where(pull > 0, tilt, low), np.where(pull < 0, tilt, high)
            moved = tilt + pull / bend
        moved = np.where((moved > low) & (moved < high), moved, (low + high) / 2)
        if np.all(np.abs(moved - tilt) <= 1e-13 * (high - low) + 4e-16 * np.abs(tilt)):
            return moved
        tilt = moved
    return tilt


class Means(ABC):
    """Means that were estimated, and how far others are from them."""

    @property
    @abstractmethod
    def centre(self) -> Float:
        """The estimates (m,)."""

    @abstractmethod
    def restricted(self, constant: float, slope: Float) -> tuple[Float, float]:
        """The likeliest means μ (m,) with constant + slope · μ = 0, and the score statistic; NaN and infinity where there are none."""

    @abstractmethod
    def error(self, slope: Float) -> float:
        """Standard error of slope · μ."""


@dataclass(frozen=True)
class Released(Means):
    """Means of terms (R, m) of the ways in which a record can be released, seen so many times (R,)."""

    counts: Float
    terms: Float

    @property
    def centre(self) -> Float:
        return np.asarray(self.counts @ self.terms / self.counts.sum())

    def restricted(self, constant: float, slope: Float) -> tuple[Float, float]:
        contrast = constant + self.terms @ slope
        tilt, mass, feasible = (v[0] for v in _tilt(self.counts[None], contrast[None]))
        if not feasible:
            return np.full(slope.size, np.nan), np.inf
        seen = self.counts > 0
        chances = np.where(seen, self.counts / np.where(seen, 1 + tilt * contrast, 1.0), 0.0)
        chances[np.argmax(-tilt * contrast)] += mass
        return chances @ self.terms / chances.sum(), float((self.counts @ contrast) ** 2 / (chances @ contrast**2))

    def error(self, slope: Float) -> float:
        total, values = self.counts.sum(), (self.terms - self.centre) @ slope
        return float(np.sqrt(self.counts @ values**2) / total)


@dataclass(frozen=True)
class Estimated(Means):
    """Means with an estimated covariance, taken for normal."""

    mean: Float
    covariance: Float

    @property
    def centre(self) -> Float:
        return self.mean

    def restricted(self, constant: float, slope: Float) -> tuple[Float, float]:
        gap, along = constant + float(slope @ self.centre), self.covariance @ slope
        variance = float(slope @ along)
        if variance <= 0:
            return np.full(slope.size, np.nan), np.inf
        return self.centre - along * gap / variance, gap**2 / variance

    def error(self, slope: Float) -> float:
        return float(np.sqrt(max(float(slope @ self.covariance @ slope), 0.0)))


@dataclass(frozen=True)
class ScoreTest:
    """The score statistic of the values of one parameter."""

    means: Means
    constraint: Constraint

    def statistics(self, values: Float) -> Float:
        """Of each value (m,)."""
        return np.array([self.statistic(float(value)) for value in values])

    def statistic(self, value: float) -> float:
        """The constraint is put straight at the last means, until they stay; infinite where no means give the value."""
        near, statistic = self.means.centre, np.inf
        with np.errstate(all="ignore"):
            for round_ in range(ROUNDS):
                at = float(np.real(self.constraint(near, value)))
                slope = gradient(lambda mu: np.stack([self.constraint(mu, value)]), near)[0]
                if not (np.isfinite(at) and np.all(np.isfinite(slope))):
                    return np.inf
                before, (found, statistic) = statistic, self.means.restricted(at - float(slope @ near), slope)
                if not np.isfinite(statistic):
                    return np.inf
                # Whole steps converge fast, or circle around the solution: half of each then leads there.
                near = found if round_ < WHOLE_ROUNDS else (near + found) / 2
                if abs(statistic - before) <= 1e-9 * (1 + statistic):
                    return statistic
        return np.inf


def ends(statistics: Callable[[Float], Float], centre: Float, step: Float, critical: Float) -> Float:
    """Where the tests of parameters (d,) begin to reject, walking out from the estimates by steps (d,); infinite where they do not.

    Double the distance until the test rejects, then close in on the crossing.
    """

    def excess(distance: Float) -> Float:
        return np.sqrt(statistics(centre + step * distance)) - np.sqrt(critical)

    endless = excess(np.full_like(step, FAR)) <= 0
    inside, outside = np.zeros_like(step), np.ones_like(step)
    below, above = -np.sqrt(critical), excess(outside)
    while np.any(growing := (above <= 0) & ~endless & (outside < FAR)):
        inside, below = np.where(growing, outside, inside), np.where(growing, above, below)
        outside = np.where(growing, 2 * outside, outside)
        above = excess(outside)
    found = _crossing(excess, inside, outside, below, above)
    return np.where(above <= 0, np.sign(step) * np.inf, centre + step * found)


def _crossing(excess: Callable[[Float], Float], inside: Float, outside: Float, below: Float, above: Float) -> Float:
    """Where `excess` turns positive between inside and outside, where it is below and above zero: false position (Illinois), and
    halving where it is infinite."""
    again = np.zeros_like(inside)
    for _ in range(HALVINGS):
        with np.errstate(all="ignore"):
            share = np.where(np.isfinite(above), below / (below - above), 0.5)
        middle = inside + (outside - inside) * share
        found = excess(middle)
        kept = found <= 0
        inside, below = np.where(kept, middle, inside), np.where(kept, found, np.where(again < 0, below / 2, below))
        outside, above = np.where(kept, outside, middle), np.where(kept, np.where(again > 0, above / 2, above), found)
        again = np.where(kept, 1.0, -1.0)
        if np.all((np.abs(found) <= 1e-10) | (outside - inside <= 1e-10 * outside)):
            break
    return middle


def standard_error(means: Means, constraint: Constraint, value: float) -> float:
    """Of a parameter whose estimate is the value: the error of the constraint over its slope in the value."""
    slope = gradient(lambda mu: np.stack([constraint(mu, value)]), means.centre)[0]
    near = 1e-6 * max(abs(value), 1.0)
    moved = constraint(means.centre, value + near) - constraint(means.centre, value - near)
    return means.error(slope) / max(abs(float(moved)) / (2 * near), 1e-300)


def critical_value(level: float, df: Float | float) -> Any:
    """The square of the quantile of t, or of the normal."""
    from scipy.special import stdtrit

    return stdtrit(df, (1 + level) / 2) ** 2


def _on_t(statistics: Float, own: Float, df: Float) -> Float:
    """Roots of score statistics, which have degrees of freedom of their own."""
    from scipy.special import stdtr

    return on_t(2 * stdtr(own, -np.sqrt(statistics)), df)


@dataclass(frozen=True)
class FunctionLimits(Limits):
    """Score limits of smooth functions of means, at any level.

    Attributes
    ----------
    estimate : (d,).
    tested : means and constraint of each parameter; None for one whose limits are Wald's.
    df : degrees of freedom (d,).
    factor : what the parameters were multiplied by.
    """

    level: float
    estimate: Float
    tested: tuple[tuple[Means, Constraint] | None, ...]
    df: Float
    factor: float = 1.0
    kind: str = "score"
    _found: dict[float, Float] = field(default_factory=dict, repr=False, compare=False)

    def at(self, level: float) -> Float:
        if level not in self._found:
            rows = zip(self.tested, self.estimate, critical_value(level, self.df), strict=True)
            self._found[level] = np.array([self._row(*row) for row in rows])
        return self._found[level] * self.factor

    def _row(self, tested: tuple[Means, Constraint] | None, centre: float, critical: float) -> tuple[float, float]:
        if tested is None:
            return np.nan, np.nan
        step = np.array([standard_error(*tested, centre)])
        low, high = (
            float(ends(ScoreTest(*tested).statistics, np.array([centre]), sign * step, np.array([critical]))[0])
            for sign in (-1.0, 1.0)
        )
        return low, high

    def zero(self, df: Float) -> Float:
        found = [np.nan if tested is None else ScoreTest(*tested).statistic(0.0) for tested in self.tested]
        return _on_t(np.array(found), self.df, df)

    def of(self, kept: Sequence[int]) -> Self:
        rows = list(kept)
        tested = tuple(self.tested[k] for k in rows)
        return replace(self, estimate=self.estimate[rows], tested=tested, df=self.df[rows], _found={})

    def times(self, size: float) -> Self:
        return replace(self, factor=self.factor * size)


@dataclass(frozen=True)
class QuotientLimits(Limits):
    """Score limits of quotients Σ a / Σ b from the counts of all ways of release, at any level.

    Attributes
    ----------
    estimate : (d,).
    counts : (R, d), scaled to what the sample is worth for each parameter.
    above, below : a and b of every way of release (R, d).
    df : degrees of freedom of the variance that the scale came from (d,); infinite where the records were counted.
    """

    level: float
    estimate: Float
    counts: Float
    above: Float
    below: Float
    df: Float
    factor: float = 1.0
    kind: str = "score"
    _found: dict[float, Float] = field(default_factory=dict, repr=False, compare=False)

    def at(self, level: float) -> Float:
        if level not in self._found:
            critical, step = critical_value(level, self.df), self._step
            low, high = (ends(self._statistics, self.estimate, sign * step, critical) for sign in (-1.0, 1.0))
            self._found[level] = np.column_stack([low, high])
        return self._found[level] * self.factor

    def zero(self, df: Float) -> Float:
        return _on_t(self._statistics(np.zeros(self.estimate.size)), self.df, df)

    def _statistics(self, values: Float) -> Float:
        contrasts = self.above - values * self.below
        # Rounding must not make a contrast of what is 0 at the end of the possible values.
        contrasts = np.where(np.abs(contrasts) <= 1e-14 * np.abs(self.above).max(axis=0), 0.0, contrasts)
        return restricted_statistics(self.counts.T, contrasts.T)

    @property
    def _step(self) -> Float:
        """Standard errors (d,), or those of one record of the other kind where all were alike."""
        contrasts = self.above - self.estimate * self.below
        size = np.abs((self.counts * self.below).sum(axis=0))
        spread = np.sqrt((self.counts * contrasts**2).sum(axis=0))
        return np.asarray(np.maximum(spread, np.abs(contrasts).max(axis=0)) / np.maximum(size, 1e-300))

    def of(self, kept: Sequence[int]) -> Self:
        rows = list(kept)
        return replace(
            self,
            estimate=self.estimate[rows],
            counts=self.counts[:, rows],
            above=self.above[:, rows],
            below=self.below[:, rows],
            df=self.df[rows],
            _found={},
        )

    def times(self, size: float) -> Self:
        return replace(self, factor=self.factor * size)

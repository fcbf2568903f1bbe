"""Intervals of shares whose records were released in one of two ways: a binomial count, seen through P.

The number of records released in the first way is binomial with chance λ, and the share is a linear function of λ, low + span λ: an
interval for λ maps through P. It is not cut off at 0 and 1, where the share would have to stay and the estimate need not.
Where sensitivity and specificity were measured, the interval is that of Lang and Reiczigel (2014).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from pramana.arrays import Bool, Float
from pramana.inference.limits import Limits, largest_rate, on_t

STEPS = 60
"""Halvings of an interval within [0, 1], to the last digit."""

SMALL = 15.0
"""Records below which mid-P intervals can cover less than 0.92 (0.912 at worst, with 6, 13 or 14 records)."""


def mid_p(count: Float, trials: Float, level: float) -> Float:
    """Limits (d, 2) of the chance λ behind `count` successes in `trials`, whole numbers or not.

    Half the chance of the count itself is left out of each tail, which takes back what exact intervals cover too much.

    >>> mid_p(np.array([0.0, 4.0]), np.array([40.0, 10.0]), 0.95).round(4)
    array([[0.    , 0.0722],
           [0.1423, 0.7089]])
    """
    tail = (1 - level) / 2

    def lower(x: Float, n: Float) -> Float:
        above = _above_mid(x, n)
        return _halved(lambda chance: above(chance) < tail, x.shape)

    return _both_sides(lower, count, trials)


def exact(count: Float, trials: Float, level: Float | float) -> Float:
    """Blaker's limits (d, 2) of the chance λ behind a whole `count` in whole `trials` (Blaker, 2000); levels may differ (d,).

    They cover at least the level whatever λ is, and lie within those of Clopper and Pearson.

    >>> exact(np.array([0.0, 4.0]), np.array([40.0, 10.0]), 0.95).round(4)
    array([[0.    , 0.0795],
           [0.15  , 0.7171]])
    """
    alpha = np.tile(np.broadcast_to(1 - level, count.shape), 2)
    return _both_sides(lambda x, n: _blaker_lower(x, n, alpha), count, trials)


def _both_sides(lower: Callable[[Float, Float], Float], count: Float, trials: Float) -> Float:
    """Lower limits, and the upper ones as lower limits of the failures, found together."""
    both = np.concatenate([count, trials - count])
    low, high = np.where(both > 0, lower(np.maximum(both, 1e-300), np.tile(trials, 2)), 0.0).reshape(2, -1)
    return np.column_stack([low, 1 - high])


def _halved(below: Callable[[Float], Bool], shape: tuple[int, ...]) -> Float:
    """The chance at which `below` turns false, by halving [0, 1]."""
    low, high = np.zeros(shape), np.ones(shape)
    for _ in range(STEPS):
        middle = (low + high) / 2
        under = below(middle)
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return (low + high) / 2


def _above(x: Float, n: Float) -> Callable[[Float], Float]:
    """Pr(X ≥ x) as a function of the chance, with which it rises; 1 for x = 0 and 0 beyond n."""
    from scipy.special import betainc

    inside = (x > 0) & (x < n + 1)
    a, b, outside = np.where(inside, x, 1.0), np.where(inside, n - x + 1, 1.0), np.where(x <= 0, 1.0, 0.0)
    return lambda chance: np.where(inside, betainc(a, b, chance), outside)


def _above_mid(x: Float, n: Float) -> Callable[[Float], Float]:
    """Pr(X > x) + ½ Pr(X = x) as a function of the chance."""
    both = _above(np.stack([x, x + 1]), n)
    return lambda chance: both(chance).sum(axis=0) / 2


def _at_least(x: Float, n: Float, chance: Float) -> Float:
    return _above(x, n)(chance)


def _at_most(x: Float, n: Float, chance: Float) -> Float:
    """Pr(X ≤ x), for whole x; 0 below 0."""
    return 1 - _at_least(x + 1, n, chance)


def _blaker_lower(x: Float, n: Float, alpha: Float) -> Float:
    """The smallest chance that Blaker's test does not reject.

    Its p-value below the estimate is S(x) + F(y), with S(x) = Pr(X ≥ x), F(y) = Pr(X ≤ y) and y the largest number with
    F(y) ≤ S(x): it leaps up to 2 S(x) wherever y grows by one. Start at Clopper and Pearson's limit, where S(x) = α/2, and let y + 1
    be the next to join: the p-value reaches α on the way to that leap or at it.
    """
    above = _above(x, n)
    start = _halved(lambda chance: above(chance) < alpha / 2, x.shape)
    joins = _first_count(n, start, alpha / 2)
    joined, before = _above(joins + 1, n), _above(joins, n)
    leap = _halved(lambda chance: 1 - joined(chance) > above(chance), x.shape)

    def p_value(chance: Float) -> Float:
        return above(chance) + (1 - before(chance))

    reached = _halved(lambda chance: (chance < start) | ((chance < leap) & (p_value(chance) < alpha)), x.shape)
    return np.minimum(reached, leap)


def _first_count(n: Float, chance: Float, tail: Float) -> Float:
    """The smallest y with Pr(X ≤ y) ≥ tail, by halving."""
    low, high = np.full_like(n, -1.0), n.copy()
    while np.any(high - low > 1):
        middle = np.maximum(np.floor((low + high) / 2), 0.0)
        enough = _at_most(middle, n, chance) >= tail
        low, high = np.where(enough, np.minimum(low, middle - 1), middle), np.where(enough, middle, high)
    return high


@dataclass(frozen=True)
class BinomialLimits(Limits):
    """Limits low + span λ of shares, at any level.

    Attributes
    ----------
    kind : "mid-p" or "exact".
    exact_below : trials from which on mid-P limits hold what they promise; with fewer, limits are the exact ones.
    count, trials : successes and records, or what the sample is worth where it was weighted or clustered (d,); NaN where a
        parameter is no such share.
    low, span : the share is low + span λ (d,).
    df : degrees of freedom of the variance that `trials` came from (d,); infinite where the records were counted. With few, the
        effective size shrinks as the square of the quantiles of normal and t (Korn and Graubard, 1998).
    """

    kind: Literal["mid-p", "exact"]
    level: float
    count: Float
    trials: Float
    low: Float
    span: Float
    df: Float
    exact_below: float = SMALL

    @property
    def limited(self) -> Bool:
        return np.isfinite(self.trials)

    def at(self, level: float) -> Float:
        out, held = np.full((self.count.size, 2), np.nan), self.limited
        if not held.any():
            return out
        count, trials = self._worth(held, np.array(1 - level))
        chance = mid_p(count, trials, level)
        few = self._few(count, trials)
        if few.any():
            chance[few] = exact(count[few], trials[few], level)
        out[held] = np.sort(self.low[held, None] + self.span[held, None] * chance, axis=1)
        return out

    def _worth(self, held: Bool, alpha: Float) -> tuple[Float, Float]:
        """Successes and trials of the shares held (k,) at error rates alpha (k,) or ()."""
        from scipy.special import ndtri, stdtrit

        df = self.df[held]
        with np.errstate(all="ignore"):
            shrink = np.where(np.isinf(df), 1.0, (ndtri(alpha / 2) / stdtrit(df, alpha / 2)) ** 2)
        return self.count[held] * shrink, self.trials[held] * shrink

    def _few(self, count: Float, trials: Float) -> Bool:
        return (trials < self.exact_below) & (count % 1 == 0) & (trials % 1 == 0)

    def zero(self, df: Float) -> Float:
        """By the largest error rate whose interval holds 0, where a share can be 0."""
        out = np.full(self.count.size, np.nan)
        with np.errstate(all="ignore"):
            chance = -self.low / self.span
        held = np.isfinite(self.trials) & (chance >= 0) & (chance <= 1)
        if held.any():
            rates = largest_rate(lambda alpha: self._holds(chance[held], held, alpha), int(held.sum()))
            out[held] = on_t(rates, df[held])
        return out

    def _holds(self, chance: Float, held: Bool, alpha: Float) -> Bool:
        """Whether the intervals at error rates alpha (k,) hold the chances (k,)."""
        count, trials = self._worth(held, alpha)
        above = _above_mid(count, trials)(chance)
        found = 2 * np.minimum(above, 1 - above) >= alpha
        few = self._few(count, trials)
        if few.any():
            low, high = exact(count[few], trials[few], 1 - alpha[few]).T
            found[few] = (low <= chance[few]) & (chance[few] <= high)
        return found

    def of(self, kept: Sequence[int]) -> Self:
        rows = list(kept)
        return replace(
            self,
            count=self.count[rows],
            trials=self.trials[rows],
            low=self.low[rows],
            span=self.span[rows],
            df=self.df[rows],
        )

    def times(self, size: float) -> Self:
        return replace(self, low=self.low * size, span=self.span * size)


@dataclass(frozen=True)
class Screened:
    """A share of test positives among `records`, with sensitivity and specificity from so many people (infinite where known)."""

    positive: float
    records: float
    sensitivity: tuple[float, float]
    specificity: tuple[float, float]


def lang_reiczigel(test: Screened, level: float) -> Float:
    """Limits (2,) of the true share.

    Wald's after counts were added, z²/2 positive and negative records and a person of each result to both studies, and moved by
    the skewness of a quotient. They keep their level near 0 and 1 and with studies of a few dozen people.

    >>> found = lang_reiczigel(Screened(680 / 950, 950, (204 / 242, 242), (71 / 89, 89)), 0.95)
    >>> found.round(4)
    array([0.7238, 0.8807])
    """
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    size, share = test.records + z**2, (test.records * test.positive + z**2 / 2) / (test.records + z**2)
    (found, found_variance), (right, right_variance) = (
        _added(*study) for study in (test.sensitivity, test.specificity)
    )
    true = (share + right - 1) / (found + right - 1)
    shift = 2 * z**2 * (true * found_variance - (1 - true) * right_variance)
    variance = share * (1 - share) / size + true**2 * found_variance + (1 - true) ** 2 * right_variance
    reach = z * np.sqrt(variance) / abs(found + right - 1)
    return np.clip([true + shift - reach, true + shift + reach], 0.0, 1.0)


def _added(chance: float, people: float) -> tuple[float, float]:
    """A proportion with a person of each result more, and its variance."""
    if np.isinf(people):
        return chance, 0.0
    more = (people * chance + 1) / (people + 2)
    return more, more * (1 - more) / (people + 2)


@dataclass(frozen=True)
class PrevalenceLimits(Limits):
    """Limits low + span · share of parameters (d,) that depend on one share alone, at any level."""

    level: float
    test: Screened
    low: Float
    span: Float
    kind: str = "lang-reiczigel"

    def at(self, level: float) -> Float:
        return np.sort(self.low[:, None] + self.span[:, None] * lang_reiczigel(self.test, level), axis=1)

    def zero(self, df: Float) -> Float:
        def holds(alpha: Float) -> Bool:
            limits = np.array([self.at(1 - float(a))[j] for j, a in enumerate(alpha)])
            return (limits[:, 0] <= 0) & (limits[:, 1] >= 0)

        return on_t(largest_rate(holds, self.low.size), df)

    def of(self, kept: Sequence[int]) -> Self:
        return replace(self, low=self.low[list(kept)], span=self.span[list(kept)])

    def times(self, size: float) -> Self:
        return replace(self, low=self.low * size, span=self.span * size)

"""Intervals of a share seen through a measured test: those of Lang and Reiczigel (2014)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pramana.arrays import Bool, Float
from pramana.inference.limits import Limits, largest_rate, on_t


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

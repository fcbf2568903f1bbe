"""Confidence limits of their own, which are not an estimate plus and minus multiples of its standard error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pramana.arrays import Bool, Float

FAINTEST = 1e-12
"""Least p-value that is told apart from 0."""
RATE_STEPS = 30
"""Halvings of the logarithm of a p-value, to seven digits."""


def on_t(p: Float, df: Float) -> Float:
    """|t| that has the p-value; infinite where that is next to nothing, as where a parameter cannot be 0."""
    from scipy.special import stdtrit

    with np.errstate(all="ignore"):
        return np.asarray(np.where(p <= FAINTEST, np.inf, -stdtrit(df, p / 2)))


def shown_t(own: Float, wald: Float, df: Float) -> Float:
    """The statistics of a table: |t| (d,) by the tests behind the limits, else Wald's; Wald's too where nobody doubts, if it is as large."""
    from scipy.special import stdtrit

    least = -np.asarray(stdtrit(df, FAINTEST / 2))
    found = np.where(np.isinf(own), np.fmax(np.abs(wald), least), own)
    return np.where(np.isnan(own), wald, np.copysign(found, wald))


def largest_rate(holds: Callable[[Float], Bool], size: int) -> Float:
    """The largest error rate (k,) at which an interval still holds a value, by halving on the scale of logarithms."""
    low, high = np.full(size, np.log(FAINTEST / 2)), np.zeros(size)
    for _ in range(RATE_STEPS):
        middle = (low + high) / 2
        held = holds(np.exp(middle))
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return np.asarray(np.exp(low))


class Limits(ABC):
    """Limits of every parameter, kept with a result, which holds no records.

    Attributes
    ----------
    kind : what they are called.
    level : the level shown unless another is asked for.
    """

    kind: str
    level: float

    @property
    def limited(self) -> Bool:
        """Which parameters have limits (d,)."""
        return np.asarray(~np.isnan(self.at(self.level)).any(axis=1))

    def zero(self, df: Float) -> Float:  # noqa: ARG002
        """|t| (d,) of the hypothesis that a parameter is 0, by the test that gave the limits, on the scale of t with so many degrees
        of freedom (d,); NaN where that is Wald's."""
        return np.full(len(self.at(self.level)), np.nan)

    @abstractmethod
    def at(self, level: float) -> Float:
        """(d, 2) at any level that can be had without the data; NaN for a parameter whose limits are Wald's."""

    @abstractmethod
    def of(self, kept: Sequence[int]) -> Self:
        """Of some of the parameters."""

    @abstractmethod
    def times(self, size: float) -> Self:
        """Of the parameters times a known positive number."""


@dataclass(frozen=True)
class SomeLimits(Limits):
    """Limits of some parameters; the others have Wald's."""

    limits: Limits
    held: Bool

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.limits.kind

    @property
    def level(self) -> float:  # type: ignore[override]
        return self.limits.level

    def at(self, level: float) -> Float:
        return np.where(self.held[:, None], self.limits.at(level), np.nan)

    def zero(self, df: Float) -> Float:
        return np.where(self.held, self.limits.zero(df), np.nan)

    def of(self, kept: Sequence[int]) -> Self:
        return replace(self, limits=self.limits.of(kept), held=self.held[list(kept)])

    def times(self, size: float) -> Self:
        return replace(self, limits=self.limits.times(size))


@dataclass(frozen=True)
class JoinedLimits(Limits):
    """Limits of several kinds: the first that has any, parameter by parameter."""

    parts: tuple[Limits, ...]

    @property
    def kind(self) -> str:  # type: ignore[override]
        return " and ".join(dict.fromkeys(part.kind for part in self.parts))

    @property
    def level(self) -> float:  # type: ignore[override]
        return self.parts[0].level

    def at(self, level: float) -> Float:
        return self._first(lambda part: part.at(level))

    def zero(self, df: Float) -> Float:
        return self._first(lambda part: part.zero(df))

    def _first(self, of: Callable[[Limits], Float]) -> Float:
        out = of(self.parts[0])
        for part in self.parts[1:]:
            out = np.where(np.isnan(out), of(part), out) if np.isnan(out).any() else out
        return out

    def of(self, kept: Sequence[int]) -> Self:
        return replace(self, parts=tuple(part.of(kept) for part in self.parts))

    def times(self, size: float) -> Self:
        return replace(self, parts=tuple(part.times(size) for part in self.parts))

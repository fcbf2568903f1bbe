"""Confidence limits of their own, which are not an estimate plus and minus multiples of its standard error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pramana.arrays import Bool, Float
from pramana.errors import PramanaError

FAINTEST = 1e-12
"""A p-value below which tests agree that a parameter is not 0, and Wald's is shown."""


def on_t(p: Float, df: Float) -> Float:
    """|t| that has the p-value; NaN where nobody doubts."""
    from scipy.special import stdtrit

    with np.errstate(all="ignore"):
        return np.asarray(np.where(p > FAINTEST, -stdtrit(df, p / 2), np.nan))


class Limits(ABC):
    """Limits of every parameter, kept with a result, which holds no records.

    Attributes
    ----------
    kind : what they are called.
    level : the level shown unless another is asked for.
    """

    kind: str
    level: float

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
class Computed(Limits):
    """Limits (d, 2) that were computed with the fit, at one level, because they need the data."""

    kind: str
    level: float
    values: Float

    def at(self, level: float) -> Float:
        if level != self.level:
            raise PramanaError(
                f"{self.kind} intervals were computed at level {self.level} and need the data for {level}: "
                f"fit again with Sandwich(interval={self.kind!r}, level={level})"
            )
        return self.values

    def of(self, kept: Sequence[int]) -> Self:
        return replace(self, values=self.values[list(kept)])

    def times(self, size: float) -> Self:
        return replace(self, values=self.values * size)


@dataclass(frozen=True)
class Only(Limits):
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
class Together(Limits):
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

"""Confidence limits of their own, which are not an estimate plus and minus multiples of its standard error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from pramana.arrays import Float
from pramana.errors import PramanaError


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
    def statistics(self) -> Float | None:
        """z or t (d,) of the hypothesis that a parameter is 0, NaN where that is Wald's; None where all are."""
        return None

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

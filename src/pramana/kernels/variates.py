"""Random variables of simulated records: from counter-based bits, alike on the CPU and on a device, or from a generator that runs forward.

A number is a function of (data set, stream, record) through an inverse distribution function, one word each, so every record has a
place of its own in every stream and nothing depends on what else is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pramana.arrays import Float, Words
from pramana.kernels.streams import fractions, keys_from, words_of


class Variates(ABC):
    """One random variable after another, each independent of those before and with a number for every record.

    What comes back takes arithmetic and comparisons, whether it lies in this computer's memory or on a device; other functions of it
    must be those given here.
    """

    @abstractmethod
    def uniform(self) -> Any:
        """Between 0 and 1."""

    @abstractmethod
    def normal(self) -> Any:
        """With mean 0 and variance 1."""

    @abstractmethod
    def expit(self, eta: Any) -> Any:
        """1 / (1 + e^−η)."""

    def coin(self, chance: Any) -> Any:
        """1 with the given chance, else 0."""
        return (self.uniform() < chance).astype(np.int64)


@dataclass
class CountedVariates(Variates):
    """From counter-based bits.

    Attributes
    ----------
    starts : (G,), the starting words of the data sets.
    rows : (n,), the places of the records, as words.
    functions : `scipy.special`, or `jax.scipy.special` for arrays of JAX, whose inverse normal may differ in the last bits.
    """

    starts: Any
    rows: Any
    functions: Any
    _used: int = field(default=0, init=False)

    @classmethod
    def of(cls, starts: Words, n: int) -> CountedVariates:
        """Of n records on the CPU."""
        from scipy import special

        return cls(starts, np.arange(n, dtype=np.uint64), special)

    def words(self, stream: int) -> Any:
        """64 bits a record (G, n) of one stream."""
        return words_of(keys_from(self.starts, np.array([stream])), self.rows)

    def uniform(self) -> Any:
        """(G, n); streams are numbered in the order in which they are asked for."""
        self._used += 1
        return fractions(self.words(self._used - 1))

    def normal(self) -> Any:
        return self.functions.ndtri(self.uniform())

    def expit(self, eta: Any) -> Any:
        return self.functions.expit(eta)


def perturbing(position: int, lane: int) -> int:
    """The stream of a channel's words, apart from those of the true records: of its place in the mechanism, and of whether the
    first or the next word of a record is meant."""
    return (position + 1) << 32 | lane


@dataclass(frozen=True)
class GeneratorVariates(Variates):
    """From a generator that runs forward, for n records."""

    generator: np.random.Generator
    n: int

    def uniform(self) -> Float:
        return self.generator.random(self.n)

    def normal(self) -> Float:
        return self.generator.normal(size=self.n)

    def expit(self, eta: Float) -> Float:
        from scipy.special import expit

        return np.asarray(expit(eta))

"""Scenario: how data arise, how they are perturbed, and what is estimated from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pramana.analysis.question import question
from pramana.arrays import Float, Int, Words
from pramana.errors import PramanaError
from pramana.estimating import Family
from pramana.estimating.function import Question
from pramana.frames import Table, read
from pramana.frames.replacement import replace_columns
from pramana.mechanism import Mechanism
from pramana.mechanism.draws.keystream import Keystream
from pramana.mechanism.draws.perturbation import OneStream, perturbed


@dataclass(frozen=True)
class Scenario:
    """A population, a mechanism and an estimand.

    Parameters
    ----------
    generate : (generator, n) ↦ columns of n true records.
    mechanism : what is done to them before release.
    what : a formula (with `family`), or an estimating function.
    truth : the parameter values, in the order of the estimates.
    n : records in a data set.
    label : what distinguishes this scenario from others of the same study, such as {"p": 0.75}.
    """

    generate: Callable[[np.random.Generator, int], Mapping[str, Any]]
    mechanism: Mechanism
    what: Any
    truth: Sequence[float]
    n: int
    family: str | Family | None = None
    link: str | None = None
    label: Mapping[str, object] = field(default_factory=dict)

    @property
    def plan(self) -> Question:
        return question(self.what, self.family, self.link)

    @property
    def key(self) -> str:
        """A name for files and seeds."""
        parts = [f"{k}={v}" for k, v in self.label.items()] or ["scenario"]
        return f"{'_'.join(parts)}_n={self.n}"

    def data(self, seed: int, replicates: Sequence[int]) -> tuple[Table, Table]:
        """True and released tables of some replicates, one below the other.

        Every replicate has a generator of its own, keyed by seed, scenario and index.
        """
        streams = [np.random.default_rng(_sequence(seed, self.key, r)) for r in replicates]
        parts = [self.generate(stream, self.n) for stream in streams]
        columns = {name: np.concatenate([np.asarray(p[name]) for p in parts]) for name in parts[0]}
        truth = read(columns)
        if truth.n != self.n * len(streams):
            raise PramanaError(f"generate() gave {truth.n // len(streams)} records where n={self.n} were asked for")
        words = _Generators(streams, np.repeat(np.arange(len(streams)), self.n))
        released = perturbed(self.mechanism, truth, OneStream("seeded (insecure)", words))
        return truth, read(replace_columns(columns, truth, released, self.mechanism.noisy))

    def draw_seed(self, seed: int, replicate: int) -> int:
        """The seed of a replicate's resampling draws."""
        return int(_sequence(seed, self.key, replicate).generate_state(2, np.uint64)[1] >> np.uint64(1))


def _sequence(seed: int, key: str, replicate: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, *key.encode(), replicate])


@dataclass(frozen=True)
class _Generators(Keystream):
    """The generators of several replicates as one keystream: every record gets words of its own replicate's.

    Attributes
    ----------
    owner : (n,), the replicate of each record; records of a replicate stand together, in the order of the generators.
    """

    generators: Sequence[np.random.Generator]
    owner: Int

    def words(self, count: int) -> Words:
        assert count == self.owner.size
        sizes = np.bincount(self.owner, minlength=len(self.generators))
        drawn = [
            generator.integers(0, 2**64 - 1, size=size, dtype=np.uint64, endpoint=True)
            for generator, size in zip(self.generators, sizes, strict=True)
        ]
        return np.concatenate(drawn)

    def at(self, rows: Int) -> _Generators:
        return _Generators(self.generators, self.owner[rows])


def truth_of(scenario: Scenario, parameters: Sequence[str]) -> Float:
    """The true values, checked against the number of estimates."""
    values = np.asarray(scenario.truth, dtype=float)
    if values.shape != (len(parameters),):
        raise PramanaError(f"truth has {values.size} values but the estimates are {', '.join(parameters)}")
    return values

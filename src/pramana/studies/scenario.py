"""Scenario: how data arise, how they are perturbed, and what is estimated from them; Analyst: who is given a release of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from pramana.analysis.question import question
from pramana.arrays import Column, Float, Int, Words
from pramana.errors import PramanaError
from pramana.estimating import Family
from pramana.estimating.function import Question
from pramana.estimators import Method
from pramana.frames import Table, read
from pramana.kernels.streams import keys_from, starts_of
from pramana.kernels.variates import CountedVariates, GeneratorVariates, Variates, perturbing
from pramana.mechanism import Mechanism
from pramana.mechanism.channel import Channel
from pramana.mechanism.draws.keystream import Keystream, RandomnessKind, RowWords
from pramana.mechanism.draws.perturbation import OneStream, Randomness, perturbed
from pramana.mechanism.mechanism import refuse_measured

Generate: TypeAlias = Callable[[np.random.Generator, int], Mapping[str, Any]]
"""(generator, n) ↦ columns of n true records."""


@dataclass(frozen=True)
class Population:
    """True records as functions of counter-based bits, so that a record is the same wherever it is made, also on a device.

    Attributes
    ----------
    columns : random variables ↦ columns, in arithmetic and the functions of `Variates` alone.
    """

    columns: Callable[[Variates], Mapping[str, Any]]

    def running(self, rng: np.random.Generator, n: int) -> Mapping[str, Any]:
        """The same law from a generator that runs forward: a `Generate`."""
        return self.columns(GeneratorVariates(rng, n))


@dataclass(frozen=True)
class Scenario:
    """A population, a mechanism and an estimand.

    Parameters
    ----------
    generate : (generator, n) ↦ columns of n true records; or a `Population`, which a device can make.
    mechanism : what is done to them before release.
    what : a formula (with `family`), or an estimating function.
    truth : the parameter values, in the order of the estimates.
    n : records in a data set.
    label : what distinguishes this scenario from others of the same study, such as {"p": 0.75}.
    """

    generate: Generate | Population
    mechanism: Mechanism
    what: Any
    truth: Sequence[float]
    n: int
    family: str | Family | None = None
    link: str | None = None
    label: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_measured(self.mechanism, "a simulation perturbs with probabilities that are known")

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

        Every replicate has bits of its own, keyed by seed, scenario and index.
        """
        if isinstance(self.generate, Population):
            parts, words = self._counted(self.generate, self.starts(seed, replicates))
        else:
            parts, words = self._run(self.generate, [_sequence(seed, self.key, r) for r in replicates])
        columns = {name: np.concatenate([np.asarray(p[name]) for p in parts]) for name in parts[0]}
        truth = read(columns)
        if truth.n != self.n * len(parts):
            raise PramanaError(f"generate() gave {truth.n // len(parts)} records where n={self.n} were asked for")
        released = perturbed(self.mechanism, truth, words)
        return truth, self.mechanism.received(read(self.mechanism.replaced(columns, truth, released)))

    def _counted(self, population: Population, starts: Words) -> tuple[list[Mapping[str, Any]], Randomness]:
        """One replicate after the other, whose numbers stay in the processor's cache."""
        each = [CountedVariates.of(start, self.n) for start in starts[:, None]]
        parts: list[Mapping[str, Any]] = [
            {name: v[0] for name, v in population.columns(variates).items()} for variates in each
        ]
        return parts, _CountedWords(each)

    def _run(
        self, generate: Generate, sequences: Sequence[np.random.SeedSequence]
    ) -> tuple[list[Mapping[str, Any]], Randomness]:
        streams = [np.random.default_rng(sequence) for sequence in sequences]
        words = _Generators(streams, np.repeat(np.arange(len(streams)), self.n))
        return [generate(stream, self.n) for stream in streams], OneStream("seeded (insecure)", words)

    def starts(self, seed: int, replicates: Sequence[int]) -> Words:
        """The starting words (R,) of replicates that are made of counter-based bits."""
        word = np.random.SeedSequence([seed, *self.key.encode()]).generate_state(1, np.uint64)
        return keys_from(starts_of(word.tolist()), np.asarray(replicates, dtype=np.int64))

    def draw_seed(self, seed: int, replicate: int) -> int:
        """The seed of a replicate's resampling draws."""
        return int(_sequence(seed, self.key, replicate).generate_state(2, np.uint64)[1] >> np.uint64(1))


def _sequence(seed: int, key: str, replicate: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, *key.encode(), replicate])


@dataclass(frozen=True)
class _CountedWords(Randomness):
    """Words of the records of several replicates, which lie one below the other."""

    each: Sequence[CountedVariates]
    kind: RandomnessKind = "seeded (insecure)"

    def stream(self, position: int, codes: Column, digests: Words | None, strata: Int | None) -> Keystream:  # noqa: ARG002
        def lane(k: int) -> Words:
            return np.concatenate([variates.words(perturbing(position, k))[0] for variates in self.each])

        return RowWords(lane)


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


@dataclass(frozen=True)
class Analyst:
    """One way to analyse the data sets of a scenario, beside the names and methods of `fit`.

    Parameters
    ----------
    label : its name in tables.
    columns : those that are perturbed in this analyst's release, and no others; None for all that the scenario perturbs.
    believes : scenario ↦ what is taken for its mechanism; by default the mechanism itself.
    measures : (scenario, generator) ↦ the same with a mechanism that was measured anew beside every data set; only with `fit`.
    by : "fit" gives each data set to `fit`, for the estimates and intervals that a user gets; "wald" solves many of them together
        and adds sandwich errors; "point" leaves these out.
    method : of `fit`; the other ways are reversion's.
    """

    label: str
    columns: Collection[str] | None = None
    believes: Callable[[Scenario], Mechanism] | None = None
    measures: Callable[[Scenario, np.random.Generator], Mechanism] | None = None
    by: Literal["fit", "wald", "point"] = "fit"
    method: str | Method = "reversion"

    def __post_init__(self) -> None:
        if self.measures is not None and (self.by != "fit" or self.believes is not None):
            raise PramanaError(
                f"analyst {self.label!r} measures a mechanism for every data set, which by={self.by!r} solves together, or believes "
                "another one: leave out by= and believes="
            )

    def given(self, scenario: Scenario) -> Scenario:
        """The scenario with only this analyst's columns perturbed."""
        if self.columns is None:
            return scenario
        mechanism = scenario.mechanism
        kept = [a for a in mechanism.assignments if set(a.columns) <= set(self.columns)]
        parts: dict[str | tuple[str, ...], Channel] = {a.columns: a.channel for a in kept}
        return replace(scenario, mechanism=Mechanism(parts, mechanism.unit))

    def idea(self, scenario: Scenario, seed: int) -> Mechanism:
        """What this analyst takes for the mechanism of the data set whose draws have the seed."""
        if self.measures is not None:
            return self.measures(scenario, np.random.default_rng(seed))
        return scenario.mechanism if self.believes is None else self.believes(scenario)

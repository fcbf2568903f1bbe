"""Analyst: somebody who is given a release, and has an idea of how it was made."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pramana.errors import PramanaError
from pramana.estimators import Method
from pramana.mechanism import Mechanism
from pramana.mechanism.channel import Channel
from pramana.studies.scenario import Scenario


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

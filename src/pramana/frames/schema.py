"""What is known of each column before any row is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pramana.frames.levels import Kind, Level


@dataclass(frozen=True)
class Variable:
    """A column with levels and kind fixed by the mechanism (kind None: numbers whose meaning was not stated)."""

    name: str
    kind: Kind | None
    levels: tuple[Level, ...] | None
    perturbed: bool = True


@dataclass(frozen=True)
class Schema:
    """The variables whose kind and levels come from the mechanism; every other column speaks for itself."""

    variables: Mapping[str, Variable] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __getitem__(self, name: str) -> Variable:
        return self.variables[name]

    def perturbed(self, name: str) -> bool:
        return name in self.variables and self.variables[name].perturbed

"""The columns of a design as products of numbers and of indicators of levels: what formulaic has decided once, applied to any records.

formulaic takes milliseconds for a matrix however few its rows, and the rows of a design are asked for with every block of records and every
value that may lie behind a released one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from formulaic.parser.types import Factor
from formulaic.transforms.contrasts import TreatmentContrasts
from formulaic.utils.sentinels import UNSET

from pramana.arrays import Column, Float


@dataclass(frozen=True)
class CodedColumn:
    """A column of a design: a constant, times numbers, times one where every category has its level.

    Attributes
    ----------
    numbers : factors, in the order in which they are multiplied.
    levels : factors with the place of the level among their levels.
    """

    scale: float
    numbers: tuple[str, ...]
    levels: tuple[tuple[str, int], ...]

    def fill(self, out: Float, values: Mapping[str, Column]) -> None:
        """Write the column (n,)."""
        out[:] = values[self.numbers[0]] if self.numbers else 1.0
        for name in self.numbers[1:]:
            out *= values[name]
        for name, place in self.levels:
            out *= values[name] == place
        if self.scale != 1:
            out *= self.scale


@dataclass(frozen=True)
class DesignCoding:
    """All columns, and the levels of the factors that are categories.

    >>> coding = DesignCoding((CodedColumn(1.0, (), ()), CodedColumn(1.0, ("x",), (("edu", 1),))), {"edu": ("low", "high")})
    >>> coding.of({"x": np.array([2.0, 3.0]), "edu": np.array([0, 1])}, 2)
    array([[1., 0.],
           [1., 3.]])
    """

    columns: tuple[CodedColumn, ...]
    categories: Mapping[str, tuple[Any, ...]]

    def of(self, values: Mapping[str, Column], n: int) -> Float:
        """The design (n, p), given the numbers of the factors, and the places of the levels of those that are categories."""
        rows = np.empty((len(self.columns), n))
        for row, column in zip(rows, self.columns, strict=True):
            column.fill(row, values)
        return np.ascontiguousarray(rows.T)


def learned_coding(spec: Any) -> DesignCoding | None:
    """How formulaic codes a formula; None where it is not known here, as for contrasts of the user's own."""
    known = {text: _levels(kind, state) for text, (kind, state) in spec.encoder_state.items()}
    used = {f.factor.expr for term in spec.structure for scoped in term.scoped_terms for f in scoped.factors}
    if any(known.get(text) is None for text in used):
        return None
    categories = {text: known[text] or () for text in used if known[text]}
    columns: list[CodedColumn] = []
    for term in spec.structure:
        own = [pair for scoped in term.scoped_terms for pair in _columns(scoped, categories)]
        if [name for name, _ in own] != list(term.columns):  # another order, or columns of another kind
            return None
        columns += [column for _, column in own]
    return DesignCoding(tuple(columns), categories)


def _levels(kind: Any, state: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The levels of a factor that is a category with the first of them as reference, none of a number, None of whatever else."""
    if kind is Factor.Kind.NUMERICAL:
        return () if not state else None
    if kind is not Factor.Kind.CATEGORICAL or "contrasts" not in state:
        return None
    contrasts = state["contrasts"].contrasts
    plain = type(contrasts) is TreatmentContrasts and contrasts.base is UNSET
    return tuple(state["categories"]) if plain else None


def _columns(scoped: Any, categories: Mapping[str, tuple[Any, ...]]) -> Iterator[tuple[str, CodedColumn]]:
    """The columns of a term with formulaic's names, in its order: the places of the first factor run first."""
    coded = [f.factor.expr for f in scoped.factors if f.factor.expr in categories]
    numbers = tuple(f.factor.expr for f in scoped.factors if f.factor.expr not in categories)
    reduced = {f.factor.expr: bool(f.reduced) for f in scoped.factors}
    for places in product(*(range(reduced[text], len(categories[text])) for text in reversed(coded))):
        at = dict(zip(coded, reversed(places), strict=True))
        parts = [
            f"{text}[{'T.' if reduced[text] else ''}{categories[text][at[text]]}]" if text in at else text
            for text in reduced
        ]
        yield ":".join(parts) or "Intercept", CodedColumn(float(scoped.scale), numbers, tuple(at.items()))

"""A response with classes: the question of it, its levels in order, and codes for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.errors import DataError, FormulaError, listing, quoted
from pramana.estimating.function import Question
from pramana.estimating.records import broadcast
from pramana.formulas.design import FormulaDesign, regressors
from pramana.formulas.functions import Own
from pramana.formulas.parsed import FormulaQuestion, ParsedFormula, parse_plain
from pramana.formulas.response import own_levels
from pramana.frames import Level, Schema, Table, encode

CLASS_LIMIT = 100


@dataclass(frozen=True)
class ClassQuestion(FormulaQuestion):
    """A model of the chances of classes, asked by a formula."""

    formula: str
    functions: Own = ()

    @property
    def log_scale(self) -> bool:
        return True

    def margins(self, variables: Sequence[str], estimate: Float, at: Mapping[str, Any] | None = None) -> Question:  # noqa: ARG002
        from pramana.models.marginal import margins_of

        return margins_of(self, variables, at)

    def learned(self, table: Table, schema: Schema) -> tuple[Classes, FormulaDesign]:
        """The classes, and the design of the regressors."""
        parsed = parse_plain(self.formula, self.functions)
        classes = Classes.of(parsed, table, schema)
        return classes, regressors(parsed, table, schema)


@dataclass(frozen=True)
class Classes:
    """A column and its ordered levels: the mechanism's, the categories the user chose, or the sorted values."""

    column: str
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, parsed: ParsedFormula, table: Table, schema: Schema) -> Classes:
        name = parsed.label
        if parsed.response_variables != (name,):
            raise FormulaError(
                f"the response {name!r} must be a column with levels, not an expression: recode it first"
            )
        if name in parsed.covariates:
            raise FormulaError(f"column {name!r} is on both sides of the formula: drop it from the right")
        levels = _levels(name, table, schema)
        if not 2 < len(levels) <= CLASS_LIMIT:
            raise DataError(
                f"response {name!r} has {len(levels)} levels ({quoted(listing(levels))}): 3 to {CLASS_LIMIT} are needed; "
                "use family='binomial' for two, and a linear model for amounts"
            )
        return cls(name, levels)

    def codes(self, columns: Mapping[str, object], n: int) -> Int:
        """Positions (n,) of a node's values among the levels."""
        value = columns[self.column]
        if isinstance(value, np.ndarray):
            return encode(broadcast(value, n), self.levels, column=self.column)
        return np.full(n, self.levels.index(value), dtype=np.int64)


def _levels(name: str, table: Table, schema: Schema) -> tuple[Level, ...]:
    if name in schema:
        levels = schema[name].levels
        if levels is None:
            raise DataError(f"column {name!r} has continuous noise and no levels: it cannot be a response with classes")
        return levels
    return own_levels(name, table)

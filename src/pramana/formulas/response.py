"""The left-hand side of a formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import DataError, FormulaError, listing, quoted
from pramana.estimating import Family
from pramana.estimating.generalized_linear import as_numbers
from pramana.estimating.records import broadcast
from pramana.formulas.evaluation import one_number
from pramana.formulas.functions import Own
from pramana.formulas.parsed import ParsedFormula
from pramana.formulas.tree import Node
from pramana.frames import Level, Schema, Table, decode, encode


@dataclass(frozen=True)
class Response:
    """The left-hand side as numbers; a two-level text response counts its second level as the success."""

    expression: str
    variables: tuple[str, ...]
    levels: tuple[Level, ...] | None
    tree: Node
    own: Own = ()

    @classmethod
    def fit(cls, parsed: ParsedFormula, table: Table, schema: Schema, family: Family) -> Response:
        expression = parsed.label
        levels = _text_levels(expression, table, schema)
        if levels is not None and (family.name != "binomial" or len(levels) != 2):
            need = "two levels" if family.name == "binomial" else "numbers"
            raise DataError(
                f"response {expression!r} has the levels {quoted(listing(levels))} but family {family.name!r} needs {need}: "
                f"use proportions({expression!r}), family='binomial' with two levels, or numeric levels"
            )
        response = cls(expression, parsed.response_variables, levels, parsed.response, parsed.own)
        response._refuse_coupled(schema)
        return response

    @property
    def column(self) -> str | None:
        """The column of numbers that it is, as it stands; None for levels and expressions."""
        return self.expression if self.levels is None and self.variables == (self.expression,) else None

    def _refuse_coupled(self, schema: Schema) -> None:
        """An expression of a perturbed response is a function of each level alone."""
        hidden = [schema[v].levels for v in self.variables if schema.perturbed(v)]
        if len(self.variables) > 1 or self.variables == (self.expression,) or not hidden or hidden[0] is None:
            return
        levels = decode(np.arange(len(hidden[0])), hidden[0])
        together = self({self.variables[0]: levels}, len(levels))[[0, -1]]
        alone = [self({self.variables[0]: levels[[k]]}, 1)[0] for k in (0, -1)]
        if not np.allclose(together, alone, rtol=1e-9, atol=1e-12):
            raise FormulaError(
                f"response {self.expression!r} mixes the values of different records of a perturbed column (a mean, a rank or "
                "the like), but its true values are not in the data: use constants instead"
            )

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        values = {v: broadcast(columns[v], n) for v in self.variables}
        if self.levels is not None:
            return encode(values[self.expression], self.levels, column=self.expression).astype(float)
        if self.column is not None:
            return as_numbers(values[self.expression], self.expression)
        import pandas as pd

        return one_number(self.tree, pd.DataFrame(values), n, "response", {}, self.own)


def _text_levels(name: str, table: Table, schema: Schema) -> tuple[Level, ...] | None:
    """Ordered levels of a response that is not numeric; None for numbers and expressions."""
    if name in schema:
        variable = schema[name]
        return variable.levels if variable.kind in ("nominal", "ordinal") else None
    if name not in table.names or table.column(name).dtype.kind in "iufb":
        return None
    values = table.column(name)
    if values.dtype.kind in "mM":
        raise DataError(f"response {name!r} holds dates: turn them into numbers (such as days since a date) first")
    return own_levels(name, table)


def own_levels(name: str, table: Table) -> tuple[Level, ...]:
    """The levels of a clean response: the categories that the user chose, or its sorted values, of which none may be of another type."""
    chosen, values = table.categories(name), table.column(name).tolist()
    types = sorted({type(v).__name__ for v in values})
    if chosen is None and len(types) > 1:
        raise DataError(f"response {name!r} mixes values of type {' and '.join(types)}: use one type")
    return tuple(sorted(set(values)) if chosen is None else chosen)

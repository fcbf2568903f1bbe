"""Negative binomial regression whose dispersion is estimated along."""

from __future__ import annotations

from dataclasses import dataclass

from pramana.errors import FormulaError
from pramana.estimating.families import negative_binomial
from pramana.estimating.negative_binomial import NegativeBinomialSystem
from pramana.estimating.stacked import StackedFunction
from pramana.formulas.generalized_linear import Glm
from pramana.frames import Schema, Table


@dataclass(frozen=True)
class NegativeBinomial:
    """Plan of `fit(formula, ..., family="negative-binomial")`."""

    formula: str

    @property
    def variables(self) -> tuple[str, ...]:
        return self._mean.variables

    @property
    def _mean(self) -> Glm:
        return Glm(self.formula, negative_binomial(1.0))  # for its mean and range alone

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        return StackedFunction(NegativeBinomialSystem(self._mean.prepare(table, schema)), self.variables)


def negative_binomial_plan(formula: str, link: str | None) -> NegativeBinomial:
    """The link is the logarithm."""
    if link not in (None, "log"):
        raise FormulaError(f"the negative binomial has link 'log', not {link!r}: leave link= out")
    return NegativeBinomial(formula)

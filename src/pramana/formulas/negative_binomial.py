"""Negative binomial regression whose dispersion is estimated along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pramana.errors import FormulaError
from pramana.estimating.families import negative_binomial
from pramana.estimating.negative_binomial import NegativeBinomialSystem
from pramana.estimating.stacked import StackedFunction
from pramana.formulas.generalized_linear import Glm
from pramana.frames import Schema, Table

NO_LIKELIHOOD = (
    "the likelihood of a negative binomial needs its dispersion: estimate it with method='reversion', then give "
    "family=pramana.negative_binomial(dispersion)"
)


@dataclass(frozen=True)
class NegativeBinomial:
    """Plan of `fit(formula, ..., family="negative-binomial")`."""

    formula: str
    log_scale: ClassVar[bool] = True

    @property
    def variables(self) -> tuple[str, ...]:
        return self.at(1.0).variables

    def at(self, dispersion: float) -> Glm:
        """The same regression with a known dispersion, which estimates the same coefficients."""
        return Glm(self.formula, negative_binomial(dispersion))

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        return StackedFunction(NegativeBinomialSystem(self.at(1.0).prepare(table, schema)), self.variables)


def negative_binomial_plan(formula: str, link: str | None) -> NegativeBinomial:
    """The link is the logarithm."""
    if link not in (None, "log"):
        raise FormulaError(f"the negative binomial has link 'log', not {link!r}: leave link= out")
    return NegativeBinomial(formula)

"""The question of a linear model with effects of groups that are not shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pramana.errors import FormulaError
from pramana.estimating import GeneralizedLinear
from pramana.estimating.function import Question
from pramana.formulas.parsed import INTERCEPT
from pramana.frames import Schema, Table
from pramana.models.generalized_linear import Glm


@dataclass(frozen=True)
class Absorbed(Question):
    """A linear model with an effect for every value of a clean column.

    Attributes
    ----------
    inside : the model around the means of the groups, once these are known.
    """

    model: Glm
    by: str
    inside: GeneralizedLinear | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        return (*self.model.variables, self.by)

    @property
    def label(self) -> str:
        return self.model.label

    @property
    def facts(self) -> dict[str, str]:
        return self.model.facts

    @property
    def formulas(self) -> tuple[Any, ...]:
        return self.model.formulas

    @property
    def log_scale(self) -> bool:
        return self.model.log_scale

    def prepare(self, table: Table, schema: Schema) -> GeneralizedLinear:
        if self.by in schema:
            raise FormulaError(
                f"absorb={self.by!r} is a perturbed column, whose groups nobody knows: put it into the formula, where it is reverted"
            )
        return self.inside or self.model.prepare(table, schema)


def absorbing(plan: Question, by: object) -> Absorbed:
    """The question with the effects of a column absorbed."""
    if not isinstance(by, str):
        raise FormulaError(f"absorb={by!r} must be the name of one clean column, as in absorb='firm'")
    if not isinstance(plan, Glm) or (plan.family.name, plan.family.link) != ("gaussian", "identity"):
        shown = f"{plan.family.name}, {plan.family.link} link" if isinstance(plan, Glm) else type(plan).__name__
        raise FormulaError(
            f"absorb= takes a linear model, where the effects of groups are means: not {shown}; write C({by}) into the formula"
        )
    if by in plan.variables:
        raise FormulaError(f"absorb={by!r} is in the formula too: drop it from one of them")
    if INTERCEPT not in plan.parsed.terms:
        raise FormulaError(f"{plan.formula!r} drops the intercept, whose place the absorbed effects take: leave it in")
    return Absorbed(plan, by)

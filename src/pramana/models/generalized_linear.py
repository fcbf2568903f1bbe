"""Formulas of generalised linear models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pramana.arrays import Float
from pramana.estimating import Family, GeneralizedLinear, family_of
from pramana.estimating.families import plain_name
from pramana.estimating.function import Question
from pramana.formulas.design import FormulaDesign, Offset, refuse_constant, refuse_unusable
from pramana.formulas.functions import Functions, Own, own_functions
from pramana.formulas.parsed import FormulaQuestion
from pramana.formulas.polynomials import degrees
from pramana.formulas.response import Response
from pramana.frames import Schema, Table


@dataclass(frozen=True)
class Glm(FormulaQuestion):
    """Question of a generalised linear model; see `glm`."""

    formula: str
    family: Family
    functions: Own = ()

    @property
    def facts(self) -> dict[str, str]:
        return {"Formula": self.formula, "Family": f"{self.family.name}, {self.family.link} link"}

    def margins(self, variables: Sequence[str], estimate: Float, at: Mapping[str, Any] | None = None) -> Question:  # noqa: ARG002
        from pramana.models.marginal import margins_of

        return margins_of(self, variables, at)

    @property
    def log_scale(self) -> bool:
        """Whether coefficients are logarithms, of odds, hazards or means."""
        logged = self.parsed.label.startswith(("log(", "np.log("))
        return self.family.link in ("logit", "log", "cloglog") or (self.family.link == "identity" and logged)

    def prepare(self, table: Table, schema: Schema) -> GeneralizedLinear:
        parsed = self.parsed
        for name in parsed.variables:
            if name not in schema:
                table.column(name)
        refuse_unusable(parsed, schema)
        refuse_constant(parsed, table, schema)
        design = FormulaDesign.fit(parsed, table, schema)
        sources = parsed.response_variables
        response_of = Response.fit(parsed, table, schema, self.family)
        alone = len(sources) == 1 and sources[0] not in parsed.covariates
        return GeneralizedLinear(
            parameters=design.names,
            variables=self.variables,
            response=sources[0] if alone else None,
            family=self.family,
            design_of=design,
            response_of=response_of,
            offset_of=Offset(design) if parsed.offsets else None,
            label=parsed.label,
            parts=design.parts,
            response_reads=frozenset(sources),
            offset_reads=frozenset(parsed.offset_variables),
            degrees=degrees(parsed, schema),
        )


def glm(
    formula: str,
    family: str | Family = "gaussian",
    link: str | None = None,
    *,
    functions: Functions | None = None,
) -> FormulaQuestion:
    """A generalised linear model as an estimating function.

    Parameters
    ----------
    family : a name, or `negative_binomial(dispersion)`; "negative-binomial" has its dispersion estimated with the rest.
    functions : functions of your own that the formula may call, by name: columns in, one number a record out.

    >>> glm("employed ~ age + edu", family="binomial").facts["Family"]
    'binomial, logit link'
    """
    if isinstance(family, str) and plain_name(family) == "negative-binomial":
        from pramana.models.negative_binomial import negative_binomial_plan

        return negative_binomial_plan(formula, link, own_functions(functions))
    return Glm(formula, family_of(family, link), own_functions(functions))

"""Average treatment effects by name: outcome, treatment and covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pramana.arrays import Float
from pramana.errors import DataError, FormulaError, listing, suggestion
from pramana.estimating import Family, family_of
from pramana.estimating.effects import AugmentedEffect, WeightedEffect
from pramana.estimating.stacked import StackedFunction
from pramana.formulas.parsed import ParsedFormula, as_term
from pramana.formulas.regressors import parse_plain, regressors, variables_in
from pramana.formulas.response import Response
from pramana.frames import Schema, Table

ESTIMATORS = {"ipw": WeightedEffect, "aipw": AugmentedEffect}


@dataclass(frozen=True)
class AverageTreatmentEffect:
    """Plan of `average_treatment_effect`."""

    outcome: str
    treatment: str
    covariates: str
    estimator: str
    family: Family

    @property
    def variables(self) -> tuple[str, ...]:
        outcome, treatment = self._parsed()
        return tuple(dict.fromkeys((*variables_in(outcome), *treatment.response_variables)))

    def _parsed(self) -> tuple[ParsedFormula, ParsedFormula]:
        sides = (as_term(self.outcome), as_term(self.treatment))
        return tuple(parse_plain(f"{left} ~ {self.covariates}") for left in sides)  # type: ignore[return-value]

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        outcome, treatment = self._parsed()
        _refuse_overlap(self, outcome)
        design = regressors(treatment, table, schema)
        effect = ESTIMATORS[self.estimator](
            f"effect({self.treatment} on {self.outcome})",
            design.names,
            design,
            Treatment(Response.fit(treatment, table, schema, family_of("binomial", None)), self.treatment),
            Response.fit(outcome, table, schema, self.family),
            self.family,
        )
        return StackedFunction(effect, self.variables)


def average_treatment_effect(
    outcome: str,
    treatment: str,
    covariates: str | Sequence[str],
    estimator: Literal["ipw", "aipw"] = "aipw",
    *,
    family: Literal["gaussian", "binomial"] = "gaussian",
) -> AverageTreatmentEffect:
    """E{Y(1)} − E{Y(0)}, when the covariates are all that confounds treatment and outcome.

    Outcome, treatment and covariates may be perturbed. The propensity is a logistic regression of the treatment on the
    covariates; its uncertainty, and that of the outcome regressions, is part of the standard error. The result shows the
    effect alone.

    Parameters
    ----------
    treatment : 0/1, or two levels, of which the second is the treated.
    covariates : a list of column names, or the right-hand side of a formula such as "age + C(region)".
    estimator : "aipw", augmented and doubly robust, or "ipw", inverse probability weights that add up to one.
    family : of the outcome regressions of "aipw"; "binomial" for an outcome with two levels.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"smoker": pr.TransitionMatrix.binary(0.9, 0.95)})
    >>> data = {"smoker": [0, 1, 0, 1] * 50, "age": [30, 40, 50, 60, 35] * 40, "pressure": [120, 131, 125, 133] * 50}
    >>> result = pr.fit(pr.average_treatment_effect("pressure", "smoker", ["age"]), data, mechanism)
    >>> result.parameters
    ('effect(smoker on pressure)',)
    """
    if estimator not in ESTIMATORS:
        raise FormulaError(f"estimator {estimator!r} is unknown: {suggestion(str(estimator), ESTIMATORS)}")
    if family not in ("gaussian", "binomial"):
        raise FormulaError(f"family {family!r} is unknown here: {suggestion(str(family), ['gaussian', 'binomial'])}")
    side = covariates if isinstance(covariates, str) else " + ".join(map(as_term, covariates))
    return AverageTreatmentEffect(outcome, treatment, side or "1", estimator, family_of(family, None))


@dataclass(frozen=True)
class Treatment:
    """The treatment as 0 and 1."""

    response: Response
    name: str

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        values = self.response(columns, n)
        other = values[(values != 0) & (values != 1)]
        if other.size:
            raise DataError(
                f"treatment {self.name!r} has values such as {listing(dict.fromkeys(np.unique(other).tolist()), 3)}: it must be "
                "0 or 1, or have two levels"
            )
        return values


def _refuse_overlap(plan: AverageTreatmentEffect, outcome: ParsedFormula) -> None:
    if plan.outcome == plan.treatment:
        raise FormulaError(f"outcome and treatment are both {plan.outcome!r}: give two columns")
    for name in (plan.outcome, plan.treatment):
        if name in outcome.covariates:
            raise FormulaError(f"column {name!r} cannot be a covariate as well: drop it from the covariates")

"""Average treatment effects: propensity, outcome regressions and effect in one system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from pramana.arrays import Float
from pramana.errors import DataError, FormulaError, listing, quoted, suggestion
from pramana.estimating import Family, family_of
from pramana.estimating.equation import Note
from pramana.estimating.function import Question
from pramana.estimating.products import FromColumns
from pramana.estimating.system import Later, StackedFunction, System
from pramana.formulas.design import regressors
from pramana.formulas.functions import Functions, Own, own_functions
from pramana.formulas.parsed import ParsedFormula, as_term, parse_plain
from pramana.formulas.response import Response
from pramana.frames import Schema, Table

NEAR = 0.01
"""Propensities closer than this to 0 or 1 are reported."""


@dataclass(frozen=True)
class EffectSystem(System):
    """Shared by both estimators: the logistic propensity e(x) = Pr(T = 1 | x), solved first.

    Attributes
    ----------
    name : of the effect.
    terms : names of the design's columns (q).
    family : mean of the outcome given the covariates; the inverse-probability estimator does not use it.
    """

    name: str
    terms: tuple[str, ...]
    design_of: FromColumns
    treatment_of: FromColumns
    outcome_of: FromColumns
    family: Family

    @property
    def grows(self) -> bool:
        """Inverse probabilities do."""
        return True

    @property
    def shown(self) -> tuple[str, ...]:
        return (self.name,)

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        return {
            "x": self.design_of(columns, n),
            "t": self.treatment_of(columns, n),
            "y": self.outcome_of(columns, n),
        }

    @property
    def designs(self) -> dict[str, tuple[str, ...]]:
        return {"x": self.terms}

    def _named(self, prefix: str) -> tuple[str, ...]:
        return tuple(f"{prefix}:{term}" for term in self.terms)

    def _propensity(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        return np.asarray(expit(arrays["x"] @ beta[: len(self.terms)]))

    def remarks(self, beta: Float, arrays: Mapping[str, Float], weights: Float, covariance: Later) -> list[Note]:  # noqa: ARG002
        e = self._propensity(beta, arrays)
        extreme = float(np.average((e < NEAR) | (e > 1 - NEAR), weights=weights))
        if extreme == 0:
            return []
        text = (
            f"{extreme:.1%} of the fitted propensities lie within {NEAR} of 0 or 1, where few records carry the effect: "
            "restrict the population or drop covariates"
        )
        return [("extreme-propensity", "warning", text)]


@dataclass(frozen=True)
class WeightedEffect(EffectSystem):
    """Inverse probability weights that add up to one: U = x(T − e), T/e (y − μ₁), (1 − T)/(1 − e) (y − μ₀), μ₁ − μ₀ − τ."""

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self._named("propensity"), "mean treated", "mean untreated", self.name)

    @property
    def curvatures(self) -> tuple[slice, ...]:
        q = len(self.terms)
        return (slice(q), slice(q, q + 1), slice(q + 1, q + 2))

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        middle = float(weights @ arrays["y"] / weights.sum())
        return np.concatenate([np.zeros(len(self.terms)), [middle, middle, 0.0]])

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        e, t, y = self._propensity(beta, arrays), arrays["t"], arrays["y"]
        treated, untreated, effect = beta[-3:]
        return np.column_stack(
            [
                arrays["x"] * (t - e)[:, None],
                t / e * (y - treated),
                (1 - t) / (1 - e) * (y - untreated),
                np.full(len(t), treated - untreated - effect),
            ]
        )

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        e, t, y, x = self._propensity(beta, arrays), arrays["t"], arrays["y"], arrays["x"]
        treated, untreated, _ = beta[-3:]
        q, total = len(self.terms), weights.sum()
        out = np.zeros((q + 3, q + 3))
        out[:q, :q] = -(x * (weights * e * (1 - e))[:, None]).T @ x
        out[q, :q] = -(weights * t * (1 - e) / e * (y - treated)) @ x
        out[q + 1, :q] = (weights * (1 - t) * e / (1 - e) * (y - untreated)) @ x
        out[q, q] = -(weights @ (t / e))
        out[q + 1, q + 1] = -(weights @ ((1 - t) / (1 - e)))
        out[q + 2, q:] = total, -total, -total
        return out


@dataclass(frozen=True)
class AugmentedEffect(EffectSystem):
    """Doubly robust: U = x(T − e), T x(y − m₁), (1 − T) x(y − m₀), m₁ − m₀ + T(y − m₁)/e − (1 − T)(y − m₀)/(1 − e) − τ."""

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self._named("propensity"), *self._named("treated"), *self._named("untreated"), self.name)

    @property
    def curvatures(self) -> tuple[slice, ...]:
        q = len(self.terms)
        return (slice(q), slice(q, 2 * q), slice(2 * q, 3 * q))

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Outcome regressions that are about constant at the mean outcome."""
        x = arrays["x"]
        level = self.family.start(float(weights @ arrays["y"] / weights.sum()))
        flat = np.linalg.lstsq(x, np.full(len(x), level), rcond=None)[0]
        return np.concatenate([np.zeros(len(self.terms)), flat, flat, [0.0]])

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        e, t, y, x = self._propensity(beta, arrays), arrays["t"], arrays["y"], arrays["x"]
        (m1, _), (m0, _) = self._means(beta, x)
        first, second = t * (y - m1), (1 - t) * (y - m0)
        effect = m1 - m0 + first / e - second / (1 - e) - beta[-1]
        return np.column_stack([x * (t - e)[:, None], x * first[:, None], x * second[:, None], effect])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        e, t, y, x = self._propensity(beta, arrays), arrays["t"], arrays["y"], arrays["x"]
        (m1, d1), (m0, d0) = self._means(beta, x)
        q = len(self.terms)
        out = np.zeros((beta.size, beta.size))
        bends = (e * (1 - e), t * d1, (1 - t) * d0)
        for k, bend in enumerate(bends):
            block = slice(k * q, (k + 1) * q)
            out[block, block] = -(x * (weights * bend)[:, None]).T @ x
        odds = -t * (y - m1) * (1 - e) / e - (1 - t) * (y - m0) * e / (1 - e)
        sides = (odds, d1 * (1 - t / e), -d0 * (1 - (1 - t) / (1 - e)))
        out[-1, :-1] = np.concatenate([(weights * side) @ x for side in sides])
        out[-1, -1] = -weights.sum()
        return out

    def _means(self, beta: Float, x: Float) -> tuple[tuple[Float, Float], tuple[Float, Float]]:
        """Fitted outcomes with their derivatives, treated and untreated."""
        q = len(self.terms)
        treated, untreated = self.family.curve(x @ beta[q : 2 * q]), self.family.curve(x @ beta[2 * q : 3 * q])
        return (treated[0], treated[1]), (untreated[0], untreated[1])


ESTIMATORS = {"ipw": WeightedEffect, "aipw": AugmentedEffect}


@dataclass(frozen=True)
class AverageTreatmentEffect(Question):
    """Question of `average_treatment_effect`."""

    outcome: str
    treatment: str
    covariates: str
    estimator: str
    family: Family
    functions: Own = ()

    @property
    def variables(self) -> tuple[str, ...]:
        outcome, treatment = self._parsed()
        return tuple(dict.fromkeys((*outcome.variables, *treatment.response_variables)))

    @property
    def formulas(self) -> tuple[ParsedFormula, ...]:
        return self._parsed()

    def _parsed(self) -> tuple[ParsedFormula, ParsedFormula]:
        sides = (as_term(self.outcome), as_term(self.treatment))
        return tuple(parse_plain(f"{left} ~ {self.covariates}", self.functions) for left in sides)  # type: ignore[return-value]

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
    functions: Functions | None = None,
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
    own = own_functions(functions)
    return AverageTreatmentEffect(outcome, treatment, side or "1", estimator, family_of(family, None), own)


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
                f"treatment {self.name!r} has values such as {quoted(listing(dict.fromkeys(np.unique(other).tolist()), 3))}: it must be "
                "0 or 1, or have two levels"
            )
        return values


def _refuse_overlap(plan: AverageTreatmentEffect, outcome: ParsedFormula) -> None:
    if plan.outcome == plan.treatment:
        raise FormulaError(f"outcome and treatment are both {plan.outcome!r}: give two columns")
    for name in (plan.outcome, plan.treatment):
        if name in outcome.covariates:
            raise FormulaError(f"column {name!r} cannot be a covariate as well: drop it from the covariates")

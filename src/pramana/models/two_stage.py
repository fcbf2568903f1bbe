"""Two-stage least squares as one system: first stages, then the equation of interest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError, quoted_terms
from pramana.estimating import family_of
from pramana.estimating.equation import Note
from pramana.estimating.products import FromColumns
from pramana.estimating.rounding import ROUNDING
from pramana.estimating.system import Later, StackedFunction, System
from pramana.formulas.design import regressors
from pramana.formulas.functions import Functions, Own, own_functions
from pramana.formulas.parsed import FormulaQuestion, ParsedFormula, parse_parts
from pramana.formulas.response import Response
from pramana.frames import Schema, Table

WEAK = 10.0
"""The usual limit of a first stage's F statistic."""


@dataclass(frozen=True)
class TwoStageSystem(System):
    """U₁ = z (x_j − zᵀπ_j) for every endogenous column j, U₂ = x̂ (y − xᵀβ) with x̂ = (zᵀπ_j, exogenous columns).

    Products of x, z and y within a record are what is reverted, so that any of them may be perturbed.

    Attributes
    ----------
    terms, instruments : names of the columns of x and of z; a name in both is exogenous.
    """

    terms: tuple[str, ...]
    instruments: tuple[str, ...]
    design_of: FromColumns
    instruments_of: FromColumns
    response_of: FromColumns

    @property
    def endogenous(self) -> list[int]:
        return [j for j, name in enumerate(self.terms) if name not in self.instruments]

    @property
    def parameters(self) -> tuple[str, ...]:
        first = tuple(f"{self.terms[j]} ~ {z}" for j in self.endogenous for z in self.instruments)
        return (*first, *self.terms)

    @property
    def shown(self) -> tuple[str, ...]:
        return self.terms

    @property
    def curvatures(self) -> tuple[slice, ...]:
        """One first stage; they share their moments of the instruments. `remarks` look at their strength."""
        return (slice(len(self.instruments)),)

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        return {
            "x": self.design_of(columns, n),
            "z": self.instruments_of(columns, n),
            "y": self.response_of(columns, n),
        }

    @property
    def designs(self) -> dict[str, tuple[str, ...]]:
        return {"x": self.terms, "z": self.instruments}

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """The root itself, in closed form, where the reverted moments allow; least squares of the nodes otherwise."""
        found = self._closed(arrays, weights)
        return found if np.all(np.isfinite(found)) else self._closed(arrays, np.ones_like(weights))

    def _closed(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        x, z, y = arrays["x"], arrays["z"], arrays["y"]
        weighted = z * weights[:, None]
        try:
            pi = np.linalg.solve(weighted.T @ z, weighted.T @ x)
            fitted = pi.T @ weighted.T
            beta = np.linalg.solve(fitted @ x, fitted @ y)
        except np.linalg.LinAlgError:
            return np.full(len(self.parameters), np.nan)
        return np.concatenate([pi[:, self.endogenous].T.ravel(), beta])

    def _parts(self, beta: Float, arrays: Mapping[str, Float]) -> tuple[Float, Float, Float, Float]:
        """π (k, endogenous), x̂, first-stage and second-stage residuals."""
        x, z, moving = arrays["x"], arrays["z"], self.endogenous
        pi = beta[: -len(self.terms)].reshape(len(moving), -1).T
        projected = x.copy()
        projected[:, moving] = z @ pi
        first = x[:, moving] - projected[:, moving]
        return pi, projected, first, arrays["y"] - x @ beta[-len(self.terms) :]

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        _, projected, first, second = self._parts(beta, arrays)
        stage = (first[:, :, None] * arrays["z"][:, None, :]).reshape(len(first), -1)
        return np.column_stack([stage, projected * second[:, None]])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        _, projected, _, second = self._parts(beta, arrays)
        x, z, d = arrays["x"], arrays["z"], beta.size
        k, p = z.shape[1], x.shape[1]
        out = np.zeros((d, d))
        gram = (z * weights[:, None]).T @ z
        for place, j in enumerate(self.endogenous):
            block = slice(place * k, (place + 1) * k)
            out[block, block] = -gram
            out[d - p + j, block] = (weights * second) @ z
        out[d - p :, d - p :] = -(projected * weights[:, None]).T @ x
        return out

    def remarks(self, beta: Float, arrays: Mapping[str, Float], weights: Float, covariance: Later) -> list[Note]:  # noqa: ARG002
        """The F statistic of the excluded instruments in each first stage, robust and with the noise in it."""
        full, k = covariance(), len(self.instruments)
        excluded = [i for i, name in enumerate(self.instruments) if name not in self.terms]
        faint = []
        for place, j in enumerate(self.endogenous):
            rows = [place * k + i for i in excluded]
            own, spread = beta[rows], full[np.ix_(rows, rows)]
            if np.sqrt(np.abs(spread).max()) <= ROUNDING * np.abs(own).max():
                continue  # the instruments hold the term itself
            force = own @ np.linalg.solve(spread, own) / len(rows)
            if force < WEAK:
                faint.append(f"{self.terms[j]} (F = {force:.1f})")
        if not faint:
            return []
        text = (
            f"the instruments of {', '.join(faint)} are weak (limit F = {WEAK:g}): estimates lean towards least squares"
        )
        return [("weak-instruments", "warning", text)]

    def facts(self) -> dict[str, str]:
        excluded = [z for z in self.instruments if z not in self.terms]
        endogenous = [self.terms[j] for j in self.endogenous]
        return {"Endogenous": ", ".join(endogenous), "Instruments": ", ".join(excluded)}


@dataclass(frozen=True)
class TwoStageLeastSquares(FormulaQuestion):
    """Question of `two_stage_least_squares(formula)`."""

    formula: str
    functions: Own = ()

    @property
    def variables(self) -> tuple[str, ...]:
        main, first = _parts(self.formula, self.functions)
        return tuple(dict.fromkeys((*main.variables, *first.covariates)))

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        main, first = _parts(self.formula, self.functions)
        design, instruments = regressors(main, table, schema), regressors(first, table, schema)
        response = Response.fit(main, table, schema, family_of("gaussian", None))
        _refuse_few(self.formula, design.names, instruments.names)
        system = TwoStageSystem(design.names, instruments.names, design, instruments, response)
        return StackedFunction(system, self.variables)


def two_stage_least_squares(formula: str, *, functions: Functions | None = None) -> TwoStageLeastSquares:
    """Linear regression with instruments: "y ~ x + w | z + w", where x is endogenous, z its instrument and w exogenous.

    Response, endogenous, exogenous columns and instruments may be perturbed. An exogenous term is repeated on both sides of
    "|"; both sides have an intercept. First stages are solved along with the equation, so that standard errors hold also when
    the instruments disagree. An instrument that was perturbed outside the mechanism cannot be noticed: its noise is
    independent of the error, which keeps the estimate consistent but makes the instrument weaker.

    >>> import pramana as pr
    >>> data = {"wage": [2.0, 3, 4, 7, 8, 9], "school": [8, 9, 10, 12, 12, 16], "near": [0, 0, 0, 1, 1, 1]}
    >>> result = pr.fit(pr.two_stage_least_squares("wage ~ school | near"), data, None)
    >>> [(p, round(float(b), 4)) for p, b in zip(result.parameters, result.estimate)]
    [('Intercept', -7.3846), ('school', 1.1538)]
    """
    return TwoStageLeastSquares(formula, own_functions(functions))


def _parts(formula: str, functions: Own) -> tuple[ParsedFormula, ParsedFormula]:
    parts = parse_parts(formula, functions)
    if len(parts) != 2:
        raise FormulaError(f"formula {formula!r} needs one '|' before the instruments: write it as 'y ~ x + w | z + w'")
    if any(part.offsets for part in parts):
        raise FormulaError(
            f"formula {formula!r} has an offset, which only generalised linear models take: leave it out"
        )
    return parts[0], parts[1]


def _refuse_few(formula: str, terms: tuple[str, ...], instruments: tuple[str, ...]) -> None:
    endogenous = [t for t in terms if t not in instruments]
    excluded = [z for z in instruments if z not in terms]
    if not endogenous:
        raise FormulaError(f"every term of {formula!r} is also an instrument: use the plain formula")
    if len(excluded) < len(endogenous):
        raise FormulaError(
            f"formula {formula!r} has {len(excluded)} instrument(s) for the {len(endogenous)} endogenous term(s) "
            f"{quoted_terms(endogenous)}: give at least as many"
        )

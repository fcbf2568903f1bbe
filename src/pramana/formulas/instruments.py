"""Formulas with instruments: "y ~ x + w | z + w"."""

from __future__ import annotations

from dataclasses import dataclass

from pramana.errors import FormulaError
from pramana.estimating import family_of
from pramana.estimating.instruments import TwoStageSystem
from pramana.estimating.stacked import StackedFunction
from pramana.formulas.parsed import ParsedFormula
from pramana.formulas.regressors import parse_plain, regressors, variables_in
from pramana.formulas.response import Response
from pramana.frames import Schema, Table


@dataclass(frozen=True)
class TwoStageLeastSquares:
    """Plan of `two_stage_least_squares(formula)`."""

    formula: str

    @property
    def variables(self) -> tuple[str, ...]:
        main, first = _parts(self.formula)
        return tuple(dict.fromkeys((*variables_in(main), *first.covariates)))

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        main, first = _parts(self.formula)
        design, instruments = regressors(main, table, schema), regressors(first, table, schema)
        response = Response.fit(main, table, schema, family_of("gaussian", None))
        _refuse_few(self.formula, design.names, instruments.names)
        system = TwoStageSystem(design.names, instruments.names, design, instruments, response)
        return StackedFunction(system, self.variables)


def two_stage_least_squares(formula: str) -> TwoStageLeastSquares:
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
    return TwoStageLeastSquares(formula)


def _parts(formula: str) -> tuple[ParsedFormula, ParsedFormula]:
    if not isinstance(formula, str) or formula.count("|") != 1 or "~" not in formula:
        raise FormulaError(f"formula {formula!r} needs one '|' before the instruments: write it as 'y ~ x + w | z + w'")
    main, first = formula.split("|")
    response = main.split("~")[0]
    if "~" in first:
        raise FormulaError(f"formula {formula!r} has '~' after '|': list the instruments alone")
    return parse_plain(main.strip()), parse_plain(f"{response}~ {first.strip()}")


def _refuse_few(formula: str, terms: tuple[str, ...], instruments: tuple[str, ...]) -> None:
    endogenous = [t for t in terms if t not in instruments]
    excluded = [z for z in instruments if z not in terms]
    if not endogenous:
        raise FormulaError(f"every term of {formula!r} is also an instrument: use the plain formula")
    if len(excluded) < len(endogenous):
        raise FormulaError(
            f"formula {formula!r} has {len(excluded)} instrument(s) for the {len(endogenous)} endogenous term(s) "
            f"{', '.join(endogenous)}: give at least as many"
        )

"""One right-hand side, checked and ready to be computed for any node."""

from __future__ import annotations

from pramana.errors import FormulaError
from pramana.formulas.generalized_linear import Design, _refuse_constant, _refuse_unusable
from pramana.formulas.parsed import ParsedFormula, parse
from pramana.frames import Schema, Table


def regressors(parsed: ParsedFormula, table: Table, schema: Schema) -> Design:
    """The design of a formula whose columns exist and can be used."""
    for name in (*parsed.response_variables, *parsed.covariates):
        if name not in schema:
            table.column(name)
    _refuse_unusable(parsed, schema)
    _refuse_constant(parsed, table, schema)
    return Design.fit(parsed, table, schema)


def parse_plain(text: str) -> ParsedFormula:
    """A formula without offsets."""
    parsed = parse(text)
    if parsed.offsets:
        raise FormulaError(f"formula {text!r} has an offset, which only generalised linear models take: leave it out")
    return parsed


def variables_in(parsed: ParsedFormula) -> tuple[str, ...]:
    """Every column of the formula, once."""
    return tuple(dict.fromkeys((*parsed.response_variables, *parsed.covariates)))

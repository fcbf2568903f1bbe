"""Formulas of generalised linear models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import DataError, FormulaError, listing
from pramana.estimating import Family, GeneralizedLinear, family_of
from pramana.estimating.equation import broadcast
from pramana.estimating.generalized_linear import as_numbers
from pramana.formulas.parsed import ParsedFormula, calls_in, names_in, parse, stateful, variables_of
from pramana.frames import Level, Schema, Table, Variable, encode
from pramana.frames.levels import is_number


@dataclass(frozen=True)
class Glm:
    """Plan of a generalised linear model; see `glm`."""

    formula: str
    family: Family

    @property
    def variables(self) -> tuple[str, ...]:
        parsed = parse(self.formula)
        return tuple(dict.fromkeys((*parsed.response_variables, *parsed.covariates)))

    def prepare(self, table: Table, schema: Schema) -> GeneralizedLinear:
        parsed = parse(self.formula)
        for name in (*parsed.response_variables, *parsed.covariates):
            if name not in schema:
                table.column(name)
        _refuse_unusable(parsed, schema)
        design = Design.fit(parsed, table, schema)
        sources = parsed.response_variables
        alone = len(sources) == 1 and sources[0] not in parsed.covariates
        return GeneralizedLinear(
            parameters=design.names,
            variables=self.variables,
            response=sources[0] if alone else None,
            family=self.family,
            design_of=design,
            response_of=Response.fit(parsed, table, schema, self.family),
            offset_of=Offset(parsed.offsets, design) if parsed.offsets else None,
            label=parsed.response.expr,
        )


def glm(formula: str, family: str | Family = "gaussian", link: str | None = None) -> Glm:
    """A generalised linear model as an estimating function.

    >>> glm("employed ~ age + edu", family="binomial").family.link
    'logit'
    """
    return Glm(formula, family_of(family, link))


def _refuse_unusable(parsed: ParsedFormula, schema: Schema) -> None:
    """A perturbed column cannot feed a transform that learns from data, and its kind must be known."""
    for factor in (*parsed.factors, parsed.response):
        hidden = [v for v in variables_of(factor) if schema.perturbed(v)]
        learning = [c for c in calls_in(factor) if stateful(c)]
        if hidden and learning:
            raise FormulaError(
                f"{factor.expr!r} applies {learning[0]}() to the perturbed column {hidden[0]!r}: its true values are not in "
                f"the data, so nothing can be learnt from them; transform with constants instead, as in I({hidden[0]} - 40)"
            )
        undecided = [v for v in hidden if schema[v].kind is None and "C" not in calls_in(factor)]
        if undecided:
            name = undecided[0]
            raise FormulaError(
                f"the levels of {name!r} are the numbers {listing(schema[name].levels or (), 4)}, which may be amounts or codes: "
                f"build its transition matrix with kind='numeric' or kind='nominal', or write C({name})"
            )


class Design:
    """Columns ↦ design matrix, with the state of every transform fixed by the whole table."""

    def __init__(self, spec: Any, base: Any, variables: Mapping[str, Variable | None], categorical: set[str]) -> None:
        self._spec = spec
        self._base = base
        self._variables = variables
        self._categorical = categorical

    @classmethod
    def fit(cls, parsed: ParsedFormula, table: Table, schema: Schema) -> Design:
        import pandas as pd

        variables = {name: schema.variables.get(name) for name in parsed.covariates}
        wrapped = {v for f in parsed.factors if "C" in calls_in(f) for v in variables_of(f)}
        clean = {n: _clean_column(table, n) for n, v in variables.items() if v is None}
        base = pd.DataFrame(clean, index=pd.RangeIndex(table.n))
        design = cls(None, base, variables, wrapped)
        design._spec = design._learn(parsed, table.n)
        return design

    def _learn(self, parsed: ParsedFormula, n: int) -> Any:
        """Show formulaic every level once, so that no level is ever unseen."""
        pilot = {
            name: np.resize(np.array([*v.levels], dtype=None if is_number(v.levels[0]) else object), n)
            if v.levels
            else np.linspace(0.0, 1.0, n)
            for name, v in self._variables.items()
            if v is not None
        }
        frame = self.frame(pilot, n)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return parsed.terms.get_model_matrix(
                    frame, output="numpy", na_action="raise", context={"np": np}
                ).model_spec
        except Exception as error:
            raise FormulaError(f"formula {parsed.text!r} could not be evaluated: {_reason(error)}") from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._spec.column_names)

    def frame(self, columns: Mapping[str, object], n: int) -> Any:
        """A pandas frame in which every column has its levels."""
        hidden = {name: v for name, v in self._variables.items() if v is not None}
        return self._base.assign(**{name: self._typed(columns[name], v, n) for name, v in hidden.items()})

    def _typed(self, value: object, variable: Variable, n: int) -> Any:
        import pandas as pd

        as_category = variable.kind in ("nominal", "ordinal") or (
            variable.kind is None and variable.name in self._categorical
        )
        if not as_category or variable.levels is None:
            return broadcast(value, n)
        levels = list(variable.levels)
        if isinstance(value, np.ndarray):
            codes = encode(value, levels, column=variable.name)
        else:
            codes = np.full(n, levels.index(value))
        return pd.Categorical.from_codes(codes, categories=pd.Index(levels))

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        matrix = self._spec.get_model_matrix(self.frame(columns, n), context={"np": np})
        return np.ascontiguousarray(np.asarray(matrix, dtype=float).reshape(n, len(self.names)))


def _clean_column(table: Table, name: str) -> Any:
    """An unperturbed column; categories keep the order the user gave them, numbers must be finite."""
    import pandas as pd

    values = table.column(name)
    categories = table.categories(name)
    if categories is not None:
        return pd.Categorical(values, categories=categories)
    if values.dtype.kind in "iuf":
        as_numbers(values, name)
    return values


@dataclass(frozen=True)
class Offset:
    """The sum of the offset expressions."""

    expressions: tuple[str, ...]
    design: Design

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        frame = self.design.frame(columns, n)
        total = np.zeros(n)
        for expression in self.expressions:
            total += _evaluate(expression, frame, n, "offset")
        return total


def _evaluate(expression: str, frame: Any, n: int, what: str) -> Float:
    from formulaic import model_matrix

    names = names_in(expression)
    text = f"0 + {expression}" if expression in frame.columns else f"0 + {{{expression}}}"
    try:
        value = np.asarray(
            model_matrix(text, frame, output="numpy", na_action="ignore", context={"np": np}), dtype=float
        )
    except Exception as error:
        raise FormulaError(f"{what} {expression!r} could not be evaluated: {_reason(error)}") from None
    if value.shape != (n, 1):
        raise FormulaError(
            f"{what} {expression!r} must be one number a record; {listing(names)} gave shape {value.shape}"
        )
    if not np.all(np.isfinite(value)):
        count = int(np.sum(~np.isfinite(value)))
        raise DataError(f"{what} {expression!r} is missing or infinite for {count} record(s): clean the data")
    return value[:, 0]


@dataclass(frozen=True)
class Response:
    """The left-hand side as numbers; a two-level text response counts its second level as the success."""

    expression: str
    variables: tuple[str, ...]
    levels: tuple[Level, ...] | None

    @classmethod
    def fit(cls, parsed: ParsedFormula, table: Table, schema: Schema, family: Family) -> Response:
        expression = parsed.response.expr
        levels = _text_levels(expression, table, schema)
        if levels is not None and (family.name != "binomial" or len(levels) != 2):
            need = "two levels" if family.name == "binomial" else "numbers"
            raise DataError(
                f"response {expression!r} has the levels {listing(levels)} but family {family.name!r} needs {need}: "
                f"use proportions({expression!r}), family='binomial' with two levels, or numeric levels"
            )
        return cls(expression, parsed.response_variables, levels)

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        values = {v: broadcast(columns[v], n) for v in self.variables}
        if self.levels is not None:
            return encode(values[self.expression], self.levels, column=self.expression).astype(float)
        if self.variables == (self.expression,):
            return as_numbers(values[self.expression], self.expression)
        import pandas as pd

        return _evaluate(self.expression, pd.DataFrame(values), n, "response")


def _text_levels(name: str, table: Table, schema: Schema) -> tuple[Level, ...] | None:
    """Ordered levels of a response that is not numeric; None for numbers and expressions."""
    if name in schema:
        variable = schema[name]
        return variable.levels if variable.kind in ("nominal", "ordinal") else None
    if name not in table.names or table.column(name).dtype.kind in "iufb":
        return None
    return tuple(table.categories(name) or sorted(set(table.column(name).tolist())))


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error
    return str(cause).splitlines()[0][:200] if str(cause) else type(cause).__name__

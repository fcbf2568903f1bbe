"""The design of a formula: which columns it needs, what its transforms learn, and its rows for any values of the perturbed columns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Column, Columns, Float
from pramana.errors import DataError, FormulaError, listing
from pramana.estimating.generalized_linear import as_numbers
from pramana.estimating.products import Part
from pramana.estimating.records import broadcast
from pramana.formulas.parsed import ParsedFormula, calls_in, calls_of, names_in, stateful, variables_of
from pramana.formulas.response import evaluate, reason
from pramana.frames import Schema, Table, Variable, decode, encode


def _refuse_unusable(parsed: ParsedFormula, schema: Schema) -> None:
    """A perturbed column cannot feed a transform that learns from data, and its kind must be known."""
    for expression in parsed.offsets:
        _refuse_learning(expression, names_in(expression), calls_of(expression), schema)
    for factor in (*parsed.factors, parsed.response):
        hidden = [v for v in variables_of(factor) if schema.perturbed(v)]
        _refuse_learning(factor.expr, hidden, calls_in(factor), schema)
        undecided = [v for v in hidden if schema[v].kind is None and "C" not in calls_in(factor)]
        if undecided:
            name = undecided[0]
            raise FormulaError(
                f"the levels of {name!r} are the numbers {listing(schema[name].levels or (), 4)}, which may be amounts or codes: "
                f"build its transition matrix with kind='numeric' or kind='nominal', or write C({name})"
            )


def _refuse_learning(expression: str, names: Sequence[str], calls: set[str], schema: Schema) -> None:
    hidden = [v for v in names if schema.perturbed(v)]
    learning = sorted(c for c in calls if stateful(c))
    if hidden and learning:
        raise FormulaError(
            f"{expression!r} applies {learning[0]}() to the perturbed column {hidden[0]!r}: its true values are not in "
            f"the data, so nothing can be learnt from them; transform with constants instead, as in I({hidden[0]} - 40)"
        )


def _refuse_constant(parsed: ParsedFormula, table: Table, schema: Schema) -> None:
    """A column with one value has no effect to estimate; formulaic would drop its term without a word."""
    for name in parsed.covariates:
        values = table.column(name)
        counted = schema[name].levels is not None if name in schema else values.dtype.kind not in "iufb"
        if counted and bool(np.all(values == values[0])):
            raise FormulaError(
                f"column {name!r} is constant, {values[:1].tolist()[0]!r} in all {table.n} records: drop it from the formula"
            )


class Design:
    """Columns ↦ design matrix, with the state of every transform fixed by the table it was learned from; it holds no records.

    Attributes
    ----------
    variables : the columns that it reads.
    """

    def __init__(
        self,
        spec: Any,
        variables: Mapping[str, Variable | None],
        categories: Mapping[str, list[Any] | None],
        categorical: set[str],
    ) -> None:
        self._spec = spec
        self._variables = variables
        self._categories = categories
        self._categorical = categorical

    @classmethod
    def fit(cls, parsed: ParsedFormula, table: Table, schema: Schema) -> Design:
        variables = {name: schema.variables.get(name) for name in parsed.covariates}
        wrapped = {v for f in parsed.factors if "C" in calls_in(f) for v in variables_of(f)}
        clean = {name: _checked_column(table, name) for name, v in variables.items() if v is None}
        design = cls(None, variables, {name: table.categories(name) for name in clean}, wrapped)
        design._spec = design._learn(parsed, clean, table.n)
        _refuse_repeated(design.names)
        computed = [f for f in parsed.factors if f.eval_method.value == "python"]
        if any(variables[v] is not None for f in computed for v in variables_of(f)):
            some = min(table.n, 2 * max([50, *(len(v.levels or ()) for v in variables.values() if v is not None)]))
            design._refuse_coupled(parsed.text, {name: values[:some] for name, values in clean.items()}, some)
        return design

    def _refuse_coupled(self, text: str, clean: Columns, n: int) -> None:
        """A row may not depend on other rows' hidden values, as a mean of a perturbed column would make it."""
        pilot = self._pilot(n)
        varied = self({**clean, **pilot}, n)
        deepest = max(len(v.levels or ()) for v in self._variables.values() if v is not None)
        for row in (0, min(max(deepest, 2), n) - 1):
            level = {name: values[row : row + 1].tolist()[0] for name, values in pilot.items()}
            same = self({**clean, **level}, n)
            apart = ~np.isclose(varied[row], same[row], rtol=1e-9, atol=1e-12, equal_nan=True)
            if not apart.any():
                continue
            raise FormulaError(
                f"term {self.names[int(np.argmax(apart))]!r} of formula {text!r} mixes the values of different records of a perturbed column (a mean, a "
                "rank or the like), but its true values are not in the data: use constants instead"
            )

    def _learn(self, parsed: ParsedFormula, clean: Columns, n: int) -> Any:
        """Show formulaic every level once, so that no level is ever unseen; all records only where a transform learns."""
        learning = any(
            f.eval_method.value == "python" or self._categories[v] is not None or clean[v].dtype.kind not in "iuf"
            for f in parsed.factors
            for v in variables_of(f)
            if v in clean
        )
        levels = [len(v.levels or ()) for v in self._variables.values() if v is not None]
        count = n if learning else min(n, max([50, *levels]))
        frame = self.frame({**{k: v[:count] for k, v in clean.items()}, **self._pilot(count)}, count)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return parsed.terms.get_model_matrix(
                    frame, output="numpy", na_action="raise", context={"np": np}
                ).model_spec
        except Exception as error:
            raise FormulaError(f"formula {parsed.text!r} could not be evaluated: {reason(error)}") from None

    def _pilot(self, n: int) -> dict[str, Column]:
        """Every perturbed column running through its levels, the first one first."""
        return {
            name: np.resize(decode(np.arange(len(v.levels)), v.levels), n) if v.levels else np.linspace(0.0, 1.0, n)
            for name, v in self._variables.items()
            if v is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._spec.column_names)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(self._variables)

    def parts(self) -> tuple[Part, ...]:
        """What each column is made of."""
        out: list[Part] = []
        for term in self._spec.structure:
            factors = tuple(frozenset(variables_of(factor)) for factor in term.term.factors)
            plain = all(f.eval_method.value == "lookup" for f in term.term.factors) and len(term.columns) == 1
            out += [Part(factors, plain)] * len(term.columns)
        return tuple(out)

    def frame(self, columns: Mapping[str, object], n: int) -> Any:
        """A pandas frame in which every column has its levels."""
        import pandas as pd

        typed = {name: self._typed(name, columns[name], n) for name in self._variables}
        return pd.DataFrame(typed, index=pd.RangeIndex(n), copy=False)

    def _typed(self, name: str, value: object, n: int) -> Any:
        import pandas as pd

        variable = self._variables[name]
        if variable is None:
            categories = self._categories[name]
            values = broadcast(value, n)
            return values if categories is None else pd.Categorical(values, categories=categories)
        as_category = variable.kind in ("nominal", "ordinal") or (variable.kind is None and name in self._categorical)
        if not as_category or variable.levels is None:
            return broadcast(value, n)
        levels = list(variable.levels)
        one = not isinstance(value, np.ndarray)
        codes = np.full(n, levels.index(value)) if one else encode(np.asarray(value), levels, column=name)
        return pd.Categorical.from_codes(codes, categories=pd.Index(levels))

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        matrix = self._spec.get_model_matrix(self.frame(columns, n), context={"np": np})
        return np.ascontiguousarray(np.asarray(matrix, dtype=float).reshape(n, len(self.names)))


def _checked_column(table: Table, name: str) -> Column:
    """An unperturbed column that a formula can use: its numbers are finite, its text has few distinct values."""
    values = table.column(name)
    if table.categories(name) is not None:
        return values
    if values.dtype.kind in "mM":
        raise DataError(
            f"column {name!r} holds dates: turn them into numbers (such as days since a date) or text first"
        )
    if values.dtype.kind in "iuf":
        as_numbers(values, name)
    if values.dtype.kind == "O" and len(distinct := set(values.tolist())) > max(50, len(values) // 2):
        raise DataError(
            f"column {name!r} holds text with {len(distinct)} distinct values in {len(values)} records: convert it to numbers, or "
            "merge values"
        )
    return values


def _refuse_repeated(names: tuple[str, ...]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise FormulaError(f"two terms of the formula are called {twice[0]!r}: rename the column of that name")


@dataclass(frozen=True)
class Offset:
    """The sum of the offset expressions."""

    expressions: tuple[str, ...]
    design: Design

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        frame = self.design.frame(columns, n)
        total = np.zeros(n)
        for expression in self.expressions:
            total += evaluate(expression, frame, n, "offset")
        return total


def regressors(parsed: ParsedFormula, table: Table, schema: Schema) -> Design:
    """The design of a formula whose columns exist and can be used."""
    for name in (*parsed.response_variables, *parsed.covariates):
        if name not in schema:
            table.column(name)
    _refuse_unusable(parsed, schema)
    _refuse_constant(parsed, table, schema)
    return Design.fit(parsed, table, schema)

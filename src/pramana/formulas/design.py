"""The design of a formula: which columns it needs, what its transforms learn, and its rows for any values of the perturbed columns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Column, Float
from pramana.errors import DataError, FormulaError, listing, quoted, quoted_terms
from pramana.estimating.equation import broadcast
from pramana.estimating.generalized_linear import as_numbers
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
                f"the levels of {name!r} are the numbers {quoted(listing(schema[name].levels or (), 4))}, which may be amounts or codes: "
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
                f"column {name!r} is constant, {quoted(repr(values[:1].tolist()[0]))} in all {table.n} records: drop it from the formula"
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
        _refuse_repeated(design.names)
        computed = [f for f in parsed.factors if f.eval_method.value == "python"]
        if any(variables[v] is not None for f in computed for v in variables_of(f)):
            design._refuse_coupled(parsed.text, table.n)
        return design

    def _refuse_coupled(self, text: str, n: int) -> None:
        """A row may not depend on other rows' hidden values, as a mean of a perturbed column would make it."""
        pilot = self._pilot(n)
        varied = self(pilot, n)
        deepest = max(len(v.levels or ()) for v in self._variables.values() if v is not None)
        for row in (0, min(max(deepest, 2), n) - 1):
            same = self({name: values[row : row + 1].tolist()[0] for name, values in pilot.items()}, n)
            apart = ~np.isclose(varied[row], same[row], rtol=1e-9, atol=1e-12, equal_nan=True)
            if not apart.any():
                continue
            raise FormulaError(
                f"term {quoted_terms([self.names[int(np.argmax(apart))]])} of formula {text!r} mixes the values of different records of a perturbed column (a mean, a "
                "rank or the like), but its true values are not in the data: use constants instead"
            )

    def _learn(self, parsed: ParsedFormula, n: int) -> Any:
        """Show formulaic every level once, so that no level is ever unseen; all records only where a transform learns."""
        learning = any(
            f.eval_method.value == "python" or self._base[v].dtype.kind not in "iuf"
            for f in parsed.factors
            for v in variables_of(f)
            if v in self._base
        )
        levels = [len(v.levels or ()) for v in self._variables.values() if v is not None]
        count = n if learning else min(n, max([50, *levels]))
        frame = self._assigned(self._base.iloc[:count], self._pilot(count), count)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return parsed.terms.get_model_matrix(
                    frame, output="numpy", na_action="raise", context={"np": np}
                ).model_spec
        except Exception as error:
            raise FormulaError(f"formula {parsed.text!r} could not be evaluated: {quoted(reason(error))}") from None

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

    def emptied(self) -> Design:
        """The design without the records it was learnt from."""
        return Design(self._spec, self._base.iloc[:0].copy(), self._variables, self._categorical)

    def refilled(self, table: Table) -> Design:
        """The design for other records, with the transforms and levels learnt before."""
        import pandas as pd

        clean = {n: _clean_column(table, n) for n, v in self._variables.items() if v is None}
        base = pd.DataFrame(clean, index=pd.RangeIndex(table.n))
        return Design(self._spec, base, self._variables, self._categorical)

    def replacing(self, name: str, values: Any) -> Design:
        """The design with another value, or other values (n,), in an unperturbed column."""
        return Design(self._spec, self._base.assign(**{name: values}), self._variables, self._categorical)

    def reads(self) -> tuple[frozenset[str], ...]:
        """The variables behind each column."""
        out: list[frozenset[str]] = []
        for part in self._spec.structure:
            names = frozenset(v for factor in part.term.factors for v in variables_of(factor))
            out += [names] * len(part.columns)
        return tuple(out)

    def at_levels(self, settings: Sequence[Mapping[str, object]]) -> Float:
        """Design rows for settings of some perturbed variables, everything else as in the first record and level."""
        count = len(settings)
        hidden = {name: v for name, v in self._variables.items() if v is not None}
        first = {name: (v.levels or (0.0,))[0] for name, v in hidden.items()}
        base = self._base.iloc[np.zeros(count, dtype=int)].reset_index(drop=True)
        columns = {name: [s.get(name, first[name]) for s in settings] for name in hidden}
        frame = self._assigned(base, {name: as_column(values) for name, values in columns.items()}, count)
        matrix = self._spec.get_model_matrix(frame, context={"np": np})
        return np.asarray(matrix, dtype=float).reshape(count, len(self.names))

    def frame(self, columns: Mapping[str, object], n: int) -> Any:
        """A pandas frame in which every column has its levels."""
        return self._assigned(self._base, columns, n)

    def _assigned(self, base: Any, columns: Mapping[str, object], n: int) -> Any:
        """Some records of the base with the perturbed columns filled in."""
        hidden = {name: v for name, v in self._variables.items() if v is not None}
        return base.assign(**{name: self._typed(columns[name], v, n) for name, v in hidden.items()})

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


def as_column(values: Sequence[object]) -> Column:
    """A column of levels, text as objects."""
    return decode(np.arange(len(values)), values)


def _clean_column(table: Table, name: str) -> Any:
    """An unperturbed column; categories keep the order the user gave them, numbers must be finite."""
    import pandas as pd

    values = table.column(name)
    categories = table.categories(name)
    if categories is not None:
        return pd.Categorical(values, categories=categories)
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
        raise FormulaError(
            f"two terms of the formula are called {quoted_terms(twice[:1])}: rename the column of that name"
        )


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

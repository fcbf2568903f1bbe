"""The design of a formula: which columns it needs, what its transforms learn, and its rows for any values of the perturbed columns."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, combinations
from typing import Any, TypeVar

import numpy as np
from formulaic import Formula
from formulaic.materializers.types import FactorValues
from formulaic.parser.types import Factor, Term

from pramana.arrays import Column, Columns, Float, Int
from pramana.errors import CROWD, DataError, FormulaError, listing, quoted, quoted_terms, refuse_crowd
from pramana.estimating.generalized_linear import as_numbers
from pramana.estimating.products import Part
from pramana.estimating.records import broadcast
from pramana.formulas.coding import DesignCoding, learned_coding
from pramana.formulas.evaluation import LearnedStates, one_number, reason, value_of
from pramana.formulas.functions import FUNCTIONS
from pramana.formulas.parsed import ParsedFormula
from pramana.formulas.polynomials import refuse_transformed
from pramana.formulas.tree import Call, Literal, Name, Node, calls, learning, names, walk, written
from pramana.frames import Schema, Table, Variable, decode, encode
from pramana.frames.levels import level_positions

KEPT, KEPT_RECORDS = 64, 256
"""Rows that are kept for the next fit: so many sets, each of so few records."""
T = TypeVar("T")

TRIES = 10
"""Times that formulaic is asked again where threads disturbed each other."""
COLUMNS = 5_000
"""Most columns of a design: what a person can read, and far more than records can tell apart."""


def refuse_unusable(parsed: ParsedFormula, schema: Schema) -> None:
    """A perturbed column cannot feed a transform that learns from data, and its kind must be known."""
    for factor in (*parsed.factors.values(), parsed.response, *parsed.offsets):
        hidden = [v for v in names(factor) if schema.perturbed(v)]
        if hidden and learning(factor):
            raise FormulaError(
                f"{written(factor)!r} applies {learning(factor)[0]}() to the perturbed column {hidden[0]!r}: its true values are not "
                f"in the data, so nothing can be learnt from them; transform with constants instead, as in I({hidden[0]} - 40)"
            )
        undecided = [v for v in hidden if schema[v].kind is None and "C" not in calls(factor)]
        if undecided and factor not in parsed.offsets:
            name = undecided[0]
            raise FormulaError(
                f"the levels of {name!r} are the numbers {quoted(listing(schema[name].levels or (), 4))}, which may be amounts or codes: "
                f"build its transition matrix with kind='numeric' or kind='nominal', or write C({name})"
            )
    refuse_transformed(parsed, schema)


def refuse_constant(parsed: ParsedFormula, table: Table, schema: Schema) -> None:
    """A column with one value has no effect to estimate; formulaic would drop its term without a word."""
    for name in parsed.covariates:
        values = table.column(name)
        counted = schema[name].levels is not None if name in schema else values.dtype.kind not in "iufb"
        if counted and bool(np.all(values == values[0])):
            raise FormulaError(
                f"column {name!r} is constant, {quoted(repr(values[:1].tolist()[0]))} in all {table.n} records: drop it from the formula"
            )


@dataclass(frozen=True, eq=False)
class FormulaDesign:
    """Columns ↦ design matrix, with the state of every transform fixed by the table it was learned from; it holds no records.

    Attributes
    ----------
    parsed : the formula, whose factors are evaluated here; formulaic codes levels and multiplies columns.
    spec : formulaic's record of levels and columns.
    described : every column, with the mechanism's description of a perturbed one.
    categories : the user's own order of the categories of an unperturbed column, or None.
    categorical : columns inside of C().
    state : what transforms learnt.
    """

    parsed: ParsedFormula
    spec: Any
    described: Mapping[str, Variable | None]
    categories: Mapping[str, list[Any] | None]
    categorical: frozenset[str]
    state: LearnedStates

    @classmethod
    def fit(cls, parsed: ParsedFormula, table: Table, schema: Schema) -> FormulaDesign:
        described = {name: schema.variables.get(name) for name in parsed.covariates}
        clean = {name: _checked_column(table, name) for name, v in described.items() if v is None}
        categories = {name: table.categories(name) for name in clean}
        _refuse_crowds(parsed, clean, categories, table)
        known = {name: _levels_of(values, categories[name]) for name, values in clean.items()}
        if parsed.own or any(map(learning, parsed.offsets)) or None in known.values() or _learns(parsed, clean):
            state = {call: dict(found) for call, found in table.learned.items()}
            design = cls._learned(parsed, described, categories, clean, table.n, state)
        else:
            kinds = tuple(type(level) for v in described.values() if v is not None for level in v.levels or ())
            coded = frozenset(name for name, found in categories.items() if found is not None)
            design = _of_levels(parsed, tuple(described.items()), kinds, tuple(known.items()), coded)
        _refuse_more_columns(parsed, design.names, table.n)
        return design

    @classmethod
    def _learned(
        cls,
        parsed: ParsedFormula,
        described: Mapping[str, Variable | None],
        categories: Mapping[str, list[Any] | None],
        clean: Columns,
        n: int,
        state: LearnedStates,
    ) -> FormulaDesign:
        """From the clean columns (n,); the perturbed ones run through their levels."""
        factors = parsed.factors.values()
        wrapped = frozenset(v for f in factors if "C" in calls(f) for v in names(f))
        design = cls(parsed, None, described, categories, wrapped, state)
        design = replace(design, spec=design._spec_of({**clean, **design._pilot(n)}, n))
        for node in filter(learning, parsed.offsets):  # once; such an offset reads no perturbed column
            design.offset(node, design.frame({**clean, **design._pilot(n)}, n), n)
        _refuse_repeated(design.names)
        computed = [f for f in factors if not isinstance(f, Name) and not _coding(f)]
        if any(described[v] is not None for f in computed for v in names(f)):
            some = min(n, 2 * _enough(described.values()))
            design._refuse_coupled({name: values[:some] for name, values in clean.items()}, some)
        return design

    def _refuse_coupled(self, clean: Columns, n: int) -> None:
        """A row may not depend on other rows' hidden values, as a mean of a perturbed column would make it."""
        pilot = self._pilot(n)
        varied = self({**clean, **pilot}, n)
        deepest = max(len(v.levels or ()) for v in self.described.values() if v is not None)
        for row in (0, min(max(deepest, 2), n) - 1):
            level = {name: values[row : row + 1].tolist()[0] for name, values in pilot.items()}
            same = self({**clean, **level}, n)
            apart = ~np.isclose(varied[row], same[row], rtol=1e-9, atol=1e-12, equal_nan=True)
            if not apart.any():
                continue
            raise FormulaError(
                f"term {quoted_terms([self.names[int(np.argmax(apart))]])} of formula {self.parsed.text!r} mixes the values of different records of a perturbed column (a mean, a "
                "rank or the like), but its true values are not in the data: use constants instead"
            )

    def _spec_of(self, columns: Columns, n: int) -> Any:
        """What formulaic learns from columns in which every level is seen, so that none is ever new."""
        import pandas as pd

        factors = self.parsed.factors
        frame = self.frame(columns, n)
        methods = {text: "literal" if isinstance(f, Literal) else "lookup" for text, f in factors.items()}
        terms = Formula([Term([Factor(f, eval_method=methods[f]) for f in term]) for term in self.parsed.terms])
        values = self._values(frame)
        _refuse_wide(self.parsed, values)
        for call in (c for f in factors.values() for c in walk(f) if isinstance(c, Call) and c.function == "C"):
            _refuse_other_levels(call, pd.Series(value_of(call.arguments[0], frame, self.state, self.parsed.own)))
        with self._evaluated(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            options: dict[str, Any] = {"output": "numpy", "na_action": "raise", "context": values}
            return _undisturbed(lambda: terms.get_model_matrix(frame[[]], **options)).model_spec

    def _values(self, frame: Any) -> dict[str, Any]:
        """The factors of the formula for the records of a frame, by their spelling."""
        factors = {text: f for text, f in self.parsed.factors.items() if not isinstance(f, Literal)}
        with np.errstate(all="ignore"):
            return {text: self._value(f, frame) for text, f in factors.items()}

    def _value(self, factor: Node, frame: Any) -> Any:
        try:
            value = value_of(factor, frame, self.state, self.parsed.own)
        except FormulaError:
            raise
        except Exception as error:
            text = f"{written(factor)!r} of formula {self.parsed.text!r}"
            raise FormulaError(f"{text} could not be evaluated: {quoted(reason(error))}") from None
        if not isinstance(factor, Name):
            _refuse_strange(value, len(frame), f"{written(factor)!r} of formula {self.parsed.text!r}")
        return value

    def _matrix(self, frame: Any) -> Float:
        values = self._values(frame)
        with self._evaluated():
            matrix = _undisturbed(lambda: self.spec.get_model_matrix(frame[[]], context=values))
            return np.ascontiguousarray(np.asarray(matrix, dtype=float).reshape(len(frame), len(self.names)))

    @contextmanager
    def _evaluated(self) -> Iterator[None]:
        """What formulaic finds wrong is told as the formula's fault."""
        try:
            yield
        except Warning:  # made an error by whoever predicts, who has a word for it
            raise
        except Exception as error:
            raise FormulaError(
                f"formula {self.parsed.text!r} could not be evaluated: {quoted(reason(error))}"
            ) from None

    def _pilot(self, n: int) -> dict[str, Column]:
        """Every perturbed column running through its levels, the first one first."""
        return {
            name: np.resize(decode(np.arange(len(v.levels)), v.levels), n) if v.levels else np.linspace(0.0, 1.0, n)
            for name, v in self.described.items()
            if v is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.spec.column_names)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(self.described)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What each column is made of."""
        out: list[Part] = []
        for term in self.spec.structure:
            factors = [self.parsed.factors[factor.expr] for factor in term.term.factors]
            reads = tuple(frozenset(names(factor)) for factor in factors)
            plain = tuple(isinstance(factor, Name) and self._numeric(names(factor)[0]) for factor in factors)
            out += [Part(reads, plain)] * len(term.columns)
        return tuple(out)

    def _numeric(self, name: str) -> bool:
        """A column without levels that may be numbers, clean or with noise: categories never are, whatever their labels."""
        variable = self.described[name]
        return (variable is None or variable.levels is None) and not self._coded(name)

    def frame(self, columns: Mapping[str, object], n: int) -> Any:
        """A pandas frame in which every column has its levels."""
        import pandas as pd

        typed = {name: self._typed(name, columns[name], n) for name in self.described}
        return pd.DataFrame(typed, index=pd.RangeIndex(n), copy=False)

    def _coded(self, name: str) -> bool:
        """Whether a column has categories, which may be numbers, in place of amounts."""
        variable = self.described[name]
        if variable is None:
            return self.categories[name] is not None
        return variable.kind in ("nominal", "ordinal") or (variable.kind is None and name in self.categorical)

    def _typed(self, name: str, value: object, n: int) -> Any:
        import pandas as pd

        variable = self.described[name]
        if variable is None:
            categories, values = self.categories[name], broadcast(value, n)
            if categories is not None:
                return pd.Categorical(values, categories=categories)
            whole = values.dtype.kind in "iu" and name not in self.categorical
            return values.astype(float) if whole else values  # products of whole numbers would overflow without a word
        if not self._coded(name) or variable.levels is None:
            return broadcast(value, n)
        return pd.Categorical.from_codes(
            _codes(name, value, n, variable.levels), categories=pd.Index(list(variable.levels))
        )

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        values = self._factors(self.coding, columns, n) if self.coding is not None else None
        if self.coding is None or values is None:
            return self._matrix(self.frame(columns, n))
        return self.coding.of(values, n)

    @cached_property
    def coding(self) -> DesignCoding | None:
        """The columns where every factor is a number, or a column of the data or C() of one whose levels are known beforehand."""
        coding = learned_coding(self.spec)
        for text, levels in coding.categories.items() if coding is not None else ():
            factor = self.parsed.factors[text]
            plain = isinstance(factor, Name) or (_coding(factor) and len(factor.parts) == 1)
            if not plain or not self._has_levels(names(factor)[0], levels):
                return None
        return coding

    def _has_levels(self, name: str, levels: tuple[Any, ...]) -> bool:
        """Whether a column has these levels, in this order, or its values are looked up among them."""
        variable = self.described[name]
        own = self.categories[name] if variable is None else (variable.levels or ()) if self._coded(name) else ()
        if own is None:
            return {type(level) for level in levels} in ({str}, {int})
        return [(type(level), level) for level in own] == [(type(level), level) for level in levels]

    def _factors(self, coding: DesignCoding, columns: Mapping[str, object], n: int) -> dict[str, Column] | None:
        """The numbers of every factor, or the places of its levels; None where formulaic must be asked, which also has words for what is amiss."""
        factors = {text: f for text, f in self.parsed.factors.items() if not isinstance(f, Literal)}
        plain = all(isinstance(f, Name) or text in coding.categories for text, f in factors.items())
        frame = None if plain else self.frame(columns, n)
        out: dict[str, Column] = {}
        found: Column | None
        for text, factor in factors.items():
            if text in coding.categories:
                name = names(factor)[0]
                found = self._places(name, columns[name], n, coding.categories[text])
            elif isinstance(factor, Name):
                found = _numbers(broadcast(columns[factor.name], n))
            else:
                with np.errstate(all="ignore"):
                    found = _numbers(self._value(factor, frame))
            if found is None:
                return None
            out[text] = found
        return out

    def _places(self, name: str, value: object, n: int, levels: Sequence[Any]) -> Int | None:
        """The place of every value of a column among its levels; None where one is none of them."""
        if self.described[name] is not None:
            return _codes(name, value, n, levels)
        values = broadcast(value, n)
        alike = values.dtype.kind in ("OU" if isinstance(levels[0], str) else "iu")
        places = level_positions(values, levels) if alike else None
        return None if places is None or places.min(initial=0) < 0 else places

    def offset(self, node: Node, frame: Any, n: int) -> Float:
        """One offset expression (n,) for the records of a frame; its transforms keep what they learnt."""
        return one_number(node, frame, n, "offset", self.state, self.parsed.own)


class NumbersDesign(FormulaDesign):
    """Clean columns are numbers, used as they are, and so may be noisy ones: a row is a product of them and of what the hidden levels give, which is kept."""

    @cached_property
    def _kept(self) -> dict[tuple[Any, ...], Float]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """What is kept is quick to make again, and does not travel to workers."""
        return {name: value for name, value in vars(self).items() if name != "_kept"}

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        hidden = [name for name, v in self.described.items() if v is not None and v.levels is not None]
        numbers = {name: broadcast(columns[name], n) for name in self.described if name not in hidden}
        plain = n <= KEPT_RECORDS and all(values.dtype.kind in "iuf" for values in numbers.values())
        if not plain or self._computed:
            return super().__call__(columns, n)
        at = {name: broadcast(columns[name], n) for name in hidden}
        key = (n, *(tuple(values.tolist()) for values in at.values()))
        if key not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            ones = dict.fromkeys(numbers, np.ones(n))
            self._kept[key] = super().__call__({**ones, **at}, n)
        out = self._kept[key].copy()
        for j, part in enumerate(self.parts):
            for name in part.reads.difference(at):
                out[:, j] *= numbers[name]
        return out

    @cached_property
    def _computed(self) -> bool:
        """Whether a column with noise is transformed; clean ones are not, or the design would depend on them."""
        noisy = {name for name, v in self.described.items() if v is not None and v.levels is None}
        return any(
            noisy & factor
            for part in self.parts
            for factor, plain in zip(part.factors, part.plain, strict=True)
            if not plain
        )


@lru_cache(maxsize=64)
def _of_levels(
    parsed: ParsedFormula,
    described: tuple[tuple[str, Variable | None], ...],
    kinds: tuple[type, ...],  # noqa: ARG001  # 1, 1.0 and True are equal
    known: tuple[tuple[str, tuple[str, ...] | None], ...],
    coded: frozenset[str],
) -> FormulaDesign:
    """The design whose clean columns are used as they are: the same for whatever records have these levels, or numbers, in them."""
    n = max(_enough(v for _, v in described), *(len(levels or ()) for _, levels in known), 0)
    clean: Columns = {
        name: np.resize(np.array(levels, dtype=object), n) if levels else np.linspace(0.0, 1.0, n)
        for name, levels in known
    }
    categories = {name: list(levels or ()) if name in coded else None for name, levels in known}
    kind = FormulaDesign if any(levels for _, levels in known) else NumbersDesign
    return kind._learned(parsed, dict(described), categories, clean, n, {})


def _undisturbed(ask: Callable[[], T]) -> T:
    """An answer of formulaic, which parses the names of columns: two threads that parse at once can trip over a count of Python's own that they
    share (its "AST constructor recursion depth mismatch"), though nothing is wrong with either tree."""
    for _ in range(TRIES):
        try:
            return ask()
        except Exception as error:  # a SystemError, which formulaic may have put into one of its own
            if "AST constructor recursion depth" not in str(error):
                raise
    return ask()


def _learns(parsed: ParsedFormula, clean: Columns) -> bool:
    """Whether a transform sees clean columns, of which it may learn."""
    computed = [f for f in parsed.factors.values() if not isinstance(f, Name)]
    return any(v in clean for f in computed for v in names(f))


def _levels_of(values: Column, categories: Sequence[Any] | None) -> tuple[str, ...] | None:
    """The levels of a clean column of text, none of numbers; None of anything else, and where they are many."""
    if categories is None and values.dtype.kind in "iuf":
        return ()
    if categories is None and values.dtype.kind not in "OU":
        return None
    levels = set(values.tolist()) if categories is None else categories
    if not 0 < len(levels) <= KEPT_RECORDS or any(type(level) is not str for level in levels):
        return None
    return tuple(sorted(levels) if categories is None else levels)


def _enough(described: Iterable[Variable | None]) -> int:
    """Records in which every perturbed column can run through its levels."""
    return max([50, *(len(v.levels or ()) for v in described if v is not None)])


def _codes(name: str, value: object, n: int, levels: Sequence[Any]) -> Int:
    """The places of the values of a perturbed column, or of one value for all records, among its levels."""
    if isinstance(value, np.ndarray):
        return encode(value, levels, column=name)
    return np.full(n, list(levels).index(value))


def _numbers(value: Any) -> Float | None:
    """One number a record, without gaps; None of anything else, and of those whose products formulaic would round to fewer digits."""
    bare = value.__wrapped__ if isinstance(value, FactorValues) else value
    values = None if isinstance(bare, dict) else np.asarray(bare)
    if values is None or values.ndim != 1 or not (values.dtype.kind in "iub" or values.dtype == np.float64):
        return None
    return None if np.isnan(values).any() else values.astype(float, copy=False)


def _coding(factor: Node) -> bool:
    """Whether a factor is C() of a column, which has its levels beforehand: no row of it depends on other rows."""
    return isinstance(factor, Call) and factor.function == "C" and isinstance(factor.arguments[0], Name)


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


def _refuse_crowds(
    parsed: ParsedFormula, clean: Columns, categories: Mapping[str, list[Any] | None], table: Table
) -> None:
    """A column of identifiers, as it is or in C(), would make a dummy for every record; what is computed of one has values of its own."""
    factors = parsed.factors.values()
    plain = {factor.name for factor in factors if isinstance(factor, Name)}
    inside = [factor.parts[0] for factor in factors if isinstance(factor, Call) and factor.function == "C"]
    wrapped = {column.name for column in inside if isinstance(column, Name)}
    for name, values in clean.items():
        labels = values.dtype.kind == "O" or categories[name] is not None
        if len(values) > CROWD and (name in wrapped or (labels and name in plain)):
            remedy = "merge its values, take it as numbers if that is what it holds, or in a linear model absorb it (absorb=)"
            refuse_crowd(f"column {name!r}, taken as categories,", len(set(values.tolist())), table.records, remedy)


def _refuse_strange(value: Any, n: int, what: str) -> None:
    """A user's function may give anything: what has no record axis, or is neither number nor text, would be dropped or fail far away."""
    import pandas as pd

    bare = value.__wrapped__ if isinstance(value, FactorValues) else value
    for part in bare.values() if isinstance(bare, dict) else (bare,):
        found = part if isinstance(part, pd.Series) else np.asarray(part)  # categories stay codes
        if found.shape[:1] != (n,):
            raise FormulaError(f"{what} gives {found.size} value(s) for {n} records: it must give one a record")
        if found.ndim > 2 or found.dtype.kind not in "iufbOU":
            kind = f"an array of {found.dtype} of shape {found.shape}"
            raise FormulaError(f"{what} gives {kind}: it must give one number or one text a record")
        missing = int(np.isnan(np.asarray(found)).reshape(n, -1).any(axis=1).sum()) if found.dtype.kind == "f" else 0
        if missing:
            raise DataError(
                f"{what} is missing for {missing} of {n} records, as the logarithm of a negative number or 0 / 0 is: clean the data, or "
                "change the term"
            )


def _refuse_other_levels(call: Call, values: Any) -> None:
    """C() with levels of its own must list every value, or formulaic would count the others as the reference level."""
    given = _argument(call, "levels")
    found = values.cat.categories if values.dtype == "category" else values.dropna().unique()
    listed = list(found) if given is None else given if isinstance(given, list) else [given]
    left_out = [value for value in values.dropna().unique() if value not in listed]
    if left_out:
        raise FormulaError(
            f"{written(call)!r} leaves out {quoted(listing(left_out))}, which would count as the reference level: list every level, or "
            "merge levels first"
        )
    contrasts = [p for p in call.parts[1:] if isinstance(p, Call)]  # the only calls that C() takes after its column
    base = _argument(contrasts[0], "base", "reference") if contrasts else None
    if base is not None and base not in listed:
        raise FormulaError(
            f"{written(call)!r} has the reference {base!r}, which is no level: the levels are {quoted(listing(listed, 10))}"
        )


def _argument(call: Call, *wanted: str) -> Any:
    """The value of the argument of one of these names, however it is given; None without one."""
    given = {**dict(zip(FUNCTIONS[call.function].parameters, call.arguments, strict=False)), **dict(call.keywords)}
    return next((value_of(given[name], {}, {}) for name in wanted if name in given), None)


def _refuse_repeated(names: tuple[str, ...]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FormulaError(
            f"two terms of the formula are called {quoted_terms(twice[:1])}: rename the column of that name"
        )


def _refuse_more_columns(parsed: ParsedFormula, names: tuple[str, ...], n: int) -> None:
    """More columns than records are collinear; to find out in which of them takes long where they are many."""
    if len(names) > n:
        raise FormulaError(
            f"formula {parsed.text!r} has {len(names)} columns for {n} record(s), which cannot tell them apart: leave out terms, or "
            "merge levels"
        )


def _refuse_wide(parsed: ParsedFormula, values: Mapping[str, Any]) -> None:
    """Interactions of columns with many levels would fill the memory: count the columns first.

    A term spans the interactions of some of its categories with all of its numbers; each is coded once, with one column less
    than a category has levels.
    """
    widths = {text: _width(value) for text, value in values.items()}
    spanned = {
        (frozenset(f for f in term if f in widths and not widths[f][1]), frozenset(part))
        for term in parsed.terms
        for part in _subsets([f for f in term if f in widths and widths[f][1]])
    }
    count = sum(
        int(np.prod([widths[f][0] - (f in part) for f in (*rest, *part)], dtype=float)) for rest, part in spanned
    )
    if count > COLUMNS:
        raise FormulaError(
            f"formula {parsed.text!r} has {count} columns (the limit is {COLUMNS}): leave out interactions, or merge levels"
        )


def _subsets(factors: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(factors, k) for k in range(len(factors) + 1))


def _width(value: Any) -> tuple[int, bool]:
    """How many columns or levels a factor has, and whether they are levels."""
    import pandas as pd

    wrapped = isinstance(value, FactorValues)
    bare = value.__wrapped__ if wrapped else value
    if isinstance(bare, dict):
        return len(bare), False
    values = np.asarray(bare)
    coded = wrapped and value.__formulaic_metadata__.kind is Factor.Kind.CATEGORICAL  # C() of numbers
    if values.dtype.kind in "iufb" and not coded:
        return int(values.shape[1]) if values.ndim == 2 else 1, False
    return len(pd.unique(pd.Series(values.ravel()))), True


@dataclass(frozen=True)
class Offset:
    """The sum of the offset expressions."""

    design: FormulaDesign

    @property
    def expressions(self) -> tuple[str, ...]:
        return tuple(written(node) for node in self.design.parsed.offsets)

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        frame, total = self.design.frame(columns, n), np.zeros(n)
        for node in self.design.parsed.offsets:
            total += self.design.offset(node, frame, n)
        return total


def regressors(parsed: ParsedFormula, table: Table, schema: Schema) -> FormulaDesign:
    """The design of a formula whose columns exist and can be used."""
    for name in (*parsed.response_variables, *parsed.covariates):
        if name not in schema:
            table.column(name)
    refuse_unusable(parsed, schema)
    refuse_constant(parsed, table, schema)
    return FormulaDesign.fit(parsed, table, schema)

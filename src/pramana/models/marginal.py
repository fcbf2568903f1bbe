"""Average marginal effects: a regression and the average of its effects in one system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError, quoted, suggestion
from pramana.estimating import Family, family_of
from pramana.estimating.cells import factor_of
from pramana.estimating.function import EstimatingFunction
from pramana.estimating.generalized_linear import GeneralizedLinear
from pramana.estimating.products import FromColumns
from pramana.estimating.records import broadcast
from pramana.estimating.system import StackedFunction, System
from pramana.formulas.design import FormulaDesign
from pramana.formulas.functions import JUMPS, Functions, Own, own_functions
from pramana.formulas.parsed import FormulaQuestion, ParsedFormula
from pramana.formulas.tree import COMPARISONS, Node, Operation, calls, names, walk, written
from pramana.frames import Level, Schema, Table
from pramana.models.classes import ClassQuestion
from pramana.models.generalized_linear import Glm
from pramana.models.multinomial import Multinomial, MultinomialFunction, by_class
from pramana.models.ordinal import Ordinal, OrdinalSystem, Slopes
from pramana.models.prediction import ClassPrediction, Expected, ExpectedMean


@dataclass(frozen=True)
class Slope:
    """The effect of a number v: ∂μ/∂v.

    Attributes
    ----------
    designs_of : columns ↦ ∂x/∂v (n, q); where other columns are held at values, also columns ↦ x with them (n, q).
    """

    names: tuple[str, ...]
    designs_of: tuple[FromColumns, ...]

    def values(self, at: ExpectedAt, own: Sequence[Float]) -> Float:
        tilt, x = own[0], own[-1] if len(own) > 1 else at.x
        return np.einsum("mkl,ml->mk", at.expected.rise(at.eta(x)), at.expected.predictors(tilt, at.coefficients))

    def gradients(self, at: ExpectedAt, own: Sequence[Float], weights: Float) -> Float:
        tilt, x = own[0], own[-1] if len(own) > 1 else at.x
        eta, along = at.eta(x), at.expected.predictors(tilt, at.coefficients)
        return at.summed(at.expected.rise(eta), tilt, weights) + at.summed(at.expected.bend(eta, along), x, weights)


@dataclass(frozen=True)
class Contrasts:
    """The effects of levels: μ(η at the level) − μ(η at the first).

    Attributes
    ----------
    designs_of : columns ↦ design with the variable set to each of its levels (n, q).
    """

    names: tuple[str, ...]
    designs_of: tuple[FromColumns, ...]

    def values(self, at: ExpectedAt, own: Sequence[Float]) -> Float:
        means = [at.expected.means(at.eta(x)) for x in own]
        return np.column_stack([m - means[0] for m in means[1:]])

    def gradients(self, at: ExpectedAt, own: Sequence[Float], weights: Float) -> Float:
        sums = [at.summed(at.expected.rise(at.eta(x)), x, weights) for x in own]
        return np.concatenate([s - sums[0] for s in sums[1:]])


@dataclass(frozen=True)
class ExpectedAt:
    """What a model expects at some coefficients, for records with design x (m, q) and an offset (m,)."""

    expected: Expected
    coefficients: Float
    x: Float
    offset: Float

    def eta(self, x: Float) -> Float:
        return self.expected.predictors(x, self.coefficients) + self.offset[:, None]

    def summed(self, parts: Float, x: Float, weights: Float) -> Float:
        """Σ w ∂(parts η)/∂β (K, q)."""
        return np.asarray(np.einsum("m,mkq->kq", weights, self.expected.gradients(parts, x)))


class AveragedModel(ABC):
    """A regression whose effects are averaged: its score, and what it expects of a record.

    Attributes
    ----------
    function : by which it is solved alone.
    """

    if TYPE_CHECKING:  # to be read; a subclass has a field

        @property
        def function(self) -> EstimatingFunction: ...

    @property
    @abstractmethod
    def expected(self) -> Expected: ...

    @property
    @abstractmethod
    def design(self) -> FormulaDesign: ...

    @abstractmethod
    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        """x (n, q), y (n,) and offset (n,)."""

    @abstractmethod
    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Coefficients by which all records expect about the same."""

    @abstractmethod
    def score(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        """(m, q)."""

    @abstractmethod
    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Σ w ∂score/∂β (q, q)."""

    @property
    def rising(self) -> slice | None:
        return None

    @property
    def grows(self) -> bool:
        return False


@dataclass(frozen=True)
class MeanModel(AveragedModel):
    """A generalised linear model, score a(η) x (y − μ)."""

    function: GeneralizedLinear

    @property
    def expected(self) -> ExpectedMean:
        return ExpectedMean(self.function.family)

    @property
    def design(self) -> FormulaDesign:
        return cast(FormulaDesign, self.function.design_of)

    @property
    def grows(self) -> bool:
        return self.function.family.link in ("log", "cloglog")

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        out = {"x": self.function.design_of(columns, n), "y": self.function.response_of(columns, n)}
        self.function.family.check_response(out["y"], self.function.label)
        out["offset"] = np.zeros(n) if self.function.offset_of is None else self.function.offset_of(columns, n)
        return out

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        level = self.function.family.start(float(weights @ arrays["y"] / weights.sum()))
        return np.asarray(np.linalg.lstsq(arrays["x"], level - arrays["offset"], rcond=None)[0])

    def score(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        mu, _, a, _ = self.function.family.curve(arrays["x"] @ beta + arrays["offset"])
        return np.asarray(arrays["x"] * (a * (arrays["y"] - mu))[:, None])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        x = arrays["x"]
        mu, rise, a, bend = self.function.family.curve(x @ beta + arrays["offset"])
        return np.asarray((x * (weights * (bend * (arrays["y"] - mu) - a * rise))[:, None]).T @ x)


@dataclass(frozen=True)
class ClassModel(AveragedModel):
    """Multinomial logit, score (1{y = k} − p_k) ⊗ x."""

    function: MultinomialFunction

    @property
    def expected(self) -> Expected:
        return self.function.prediction.expected

    @property
    def design(self) -> FormulaDesign:
        return self.function.design

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        codes = self.function.classes.codes(columns, n).astype(float)
        return {"x": self.design(columns, n), "y": codes, "offset": np.zeros(n)}

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:  # noqa: ARG002
        return np.zeros(len(self.function.parameters))

    def score(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        p = self.expected.means(self.expected.predictors(arrays["x"], beta))
        left = (arrays["y"][:, None] == np.arange(p.shape[1])) - p
        return np.asarray((left[:, 1:, None] * arrays["x"][:, None, :]).reshape(len(p), -1))

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        rise = self.expected.rise(self.expected.predictors(arrays["x"], beta))
        return by_class(arrays["x"], rise.shape[2], lambda j, k: -weights * rise[:, j + 1, k])


@dataclass(frozen=True)
class OrderedModel(AveragedModel):
    """Proportional odds, with the score of `OrdinalSystem`."""

    function: StackedFunction

    @property
    def _ordinal(self) -> OrdinalSystem:
        return cast(OrdinalSystem, self.function.system)

    @property
    def expected(self) -> Expected:
        return cast(ClassPrediction, self._ordinal.prediction).expected

    @property
    def design(self) -> FormulaDesign:
        return cast(Slopes, self._ordinal.design_of).design

    @property
    def rising(self) -> slice:
        return self._ordinal.rising

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        codes = self._ordinal.code_of(columns, n).astype(float)
        return {"x": self.design(columns, n), "y": codes, "offset": np.zeros(n)}

    def _own(self, arrays: Mapping[str, Float]) -> dict[str, Float]:
        kept = list(cast(Slopes, self._ordinal.design_of).kept)
        return {"design": arrays["x"][:, kept], "code": arrays["y"]}

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        return self._ordinal.start(self._own(arrays), weights)

    def score(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        return self._ordinal.u(beta, self._own(arrays))

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        return self._ordinal.slope(beta, self._own(arrays), weights)


@dataclass(frozen=True)
class MarginsSystem(System):
    """U = (score of the model, effect_k(x; β) − α_k).

    Attributes
    ----------
    parts : the variables whose effects are averaged.
    """

    model: AveragedModel
    parts: tuple[Slope | Contrasts, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*(f"coefficient:{p}" for p in self.model.function.parameters), *self.shown)

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names)

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return (slice(self._size),)

    @property
    def rising(self) -> slice | None:
        return self.model.rising

    @property
    def grows(self) -> bool:
        return self.model.grows

    @property
    def _size(self) -> int:
        return len(self.model.function.parameters)

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        out = self.model.arrays(columns, n)
        for j, part in enumerate(self.parts):
            out |= {f"{j}:{k}": design(columns, n) for k, design in enumerate(part.designs_of)}
        return out

    @property
    def first(self) -> EstimatingFunction:
        return self.model.function

    def first_sums(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Σ w times the effects, and Σ w."""
        at = self._at(beta, arrays)
        effects = np.column_stack([part.values(at, own) for part, own in self._own(arrays)])
        return np.append(weights @ effects, weights.sum())

    def completed(self, beta: Float, sums: Float) -> Float:
        """The averages follow from the coefficients."""
        return np.concatenate([beta, sums[:-1] / sums[-1]])

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """No effect."""
        return np.concatenate([self.model.start(arrays, weights), np.zeros(len(self.shown))])

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        at, q = self._at(beta, arrays), self._size
        effects = np.column_stack([part.values(at, own) for part, own in self._own(arrays)])
        return np.column_stack([self.model.score(beta[:q], arrays), effects - beta[q:]])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        at, q = self._at(beta, arrays), self._size
        out = np.zeros((beta.size, beta.size))
        out[:q, :q] = self.model.slope(beta[:q], arrays, weights)
        out[q:, :q] = np.concatenate([part.gradients(at, own, weights) for part, own in self._own(arrays)])
        out[q:, q:] = -weights.sum() * np.eye(beta.size - q)
        return out

    def _at(self, beta: Float, arrays: Mapping[str, Float]) -> ExpectedAt:
        return ExpectedAt(self.model.expected, beta[: self._size], arrays["x"], arrays["offset"])

    def _own(self, arrays: Mapping[str, Float]) -> Iterator[tuple[Slope | Contrasts, list[Float]]]:
        for j, part in enumerate(self.parts):
            yield part, [arrays[f"{j}:{k}"] for k in range(len(part.designs_of))]


STEP = 1e-5
"""Of differences, relative to the variable."""


@dataclass(frozen=True)
class Margins(FormulaQuestion):
    """Question of `margins(formula, variable, family, link)`.

    Attributes
    ----------
    model : the regression whose effects are asked for.
    of : covariates, all of them where there is none.
    held : columns that are set to values for everyone, one setting after the other.
    """

    model: Glm | ClassQuestion
    of: tuple[str, ...]
    held: tuple[Held, ...] = ((),)

    @property
    def formula(self) -> str:
        return self.model.formula

    @property
    def functions(self) -> Own:
        return self.model.functions

    @property
    def facts(self) -> dict[str, str]:
        return self.model.facts

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        parsed = self.parsed
        offsets = parsed.offset_variables
        for name in (*self.of, *(name for name, _ in self.held[0])):
            _refuse_unfit(self.formula, name, parsed.covariates, offsets)
        chosen = self.of or tuple(name for name in parsed.covariates if name not in offsets)
        if not chosen:
            raise FormulaError(f"{self.formula!r} has no covariate whose effect could be averaged: add one")
        model = _model_of(self.model, table, schema)
        for held in self.held:
            for name, value in held:
                _refuse_unknown(parsed, name, value, table, schema)
        parts = [
            _part(parsed, model, name, held, table, schema)
            for held in self.held
            for name in chosen
            if name in self.of or not _decided(parsed, name, held, table, schema)
        ]
        return StackedFunction(MarginsSystem(model, tuple(parts)), self.variables)


Held: TypeAlias = tuple[tuple[str, Level], ...]
"""Columns and the values at which they are held."""


def margins(
    formula: str,
    variable: str | Sequence[str] | None = None,
    family: str | Family = "gaussian",
    link: str | None = None,
    *,
    at: Mapping[str, Any] | None = None,
    functions: Functions | None = None,
) -> Margins:
    """Average marginal effects on the mean response, over the population of the other variables.

    For a number, the average of ∂μ/∂v; for levels (text, a mechanism's nominal levels, or numbers with two values), the
    average of μ(level) − μ(first level). The model and the averages are one system: coefficients are estimated along with
    them, and perturbed columns, the variable itself too, are reverted in both. Of "multinomial" and "ordinal" families, the
    effects on the chance of every class.

    Parameters
    ----------
    variable : one covariate or several; all of them by default.
    at : covariates that are set to true values for everyone, as {"age": 40} or {"age": [30, 50], "sex": "f"}, every
        combination of them in turn; the others are averaged over.

    >>> import pramana as pr
    >>> data = {"ill": [0, 1, 0, 1, 1, 0, 1, 1] * 20, "age": range(160), "smokes": ["no", "no", "yes", "yes"] * 40}
    >>> mechanism = pr.Mechanism({"smokes": pr.TransitionMatrix.randomized_response(["no", "yes"], keep=0.9)})
    >>> result = pr.fit(pr.margins("ill ~ age + smokes", "smokes", "binomial"), data, mechanism)
    >>> result.parameters
    ('effect(smokes: yes against no)',)
    >>> pr.fit(pr.margins("ill ~ age + smokes", family="binomial"), data, mechanism).parameters
    ('effect(age)', 'effect(smokes: yes against no)')
    >>> pr.fit(pr.margins("ill ~ age + smokes", "age", "binomial", at={"smokes": ["no", "yes"]}), data, mechanism).parameters
    ('effect(age), smokes = no', 'effect(age), smokes = yes')
    """
    own = own_functions(functions)
    if family in CLASSES and link is not None:
        raise FormulaError(f"margins of family {family!r} have no link to choose: leave link= out")
    model = CLASSES[family](formula, own) if family in CLASSES else Glm(formula, family_of(family, link), own)
    return margins_of(model, variable, at)


CLASSES: dict[Any, type[Multinomial] | type[Ordinal]] = {"multinomial": Multinomial, "ordinal": Ordinal}


def margins_of(
    model: Glm | ClassQuestion, variable: str | Sequence[str] | None, at: Mapping[str, Any] | None
) -> Margins:
    """The effects of a model's covariates."""
    chosen = (variable,) if isinstance(variable, str) else tuple(dict.fromkeys(variable or ()))
    if at is not None and not isinstance(at, Mapping):
        raise FormulaError(f"at={at!r} must map covariates to values, as in at={{'age': 40}}")
    values = {name: _listed(name, given) for name, given in (at or {}).items()}
    held = tuple(tuple(zip(values, each, strict=True)) for each in product(*values.values()))
    return Margins(model, chosen, held)


def _listed(name: str, given: Any) -> list[Level]:
    values = np.asarray(given).ravel().tolist() if not isinstance(given, str) else [given]
    if not values or len(set(map(str, values))) < len(values):
        raise FormulaError(f"at={{{name!r}: {given!r}}} holds no value, or one twice: give each value once")
    return values


def _model_of(asked: Glm | ClassQuestion, table: Table, schema: Schema) -> AveragedModel:
    if isinstance(asked, Glm):
        return MeanModel(asked.prepare(table, schema))
    if isinstance(asked, Multinomial):
        return ClassModel(asked.prepare(table, schema))
    assert isinstance(asked, Ordinal)
    return OrderedModel(asked.prepare(table, schema))


def _part(
    parsed: ParsedFormula, model: AveragedModel, name: str, held: Held, table: Table, schema: Schema
) -> Slope | Contrasts:
    factors = _factors(parsed, name)
    levels = _levels(name, table, schema, coded=_coded(factors))
    if levels is None:
        for factor in factors:
            _refuse_steps(factor, name)
        tilt = cast(FromColumns, DesignDerivative.of(model.design, name, table, schema))
        designs = (HeldDesign(tilt, held), HeldDesign(model.design, held)) if held else (tilt,)
        return Slope(_named(model, [f"effect({name})"], held), designs)
    if name in dict(held):
        raise FormulaError(
            f"the effect of {name!r} compares its levels, so that at= cannot hold it at one: leave it out of at="
        )
    labels = [f"effect({name}: {level} against {levels[0]})" for level in levels[1:]]
    settings = tuple(HeldDesign(model.design, (*held, (name, level))) for level in levels)
    return Contrasts(_named(model, labels, held), settings)


def _factors(parsed: ParsedFormula, name: str) -> list[Node]:
    return [f for f in parsed.factors.values() if name in names(f)]


def _coded(factors: Sequence[Node]) -> bool:
    return any("C" in calls(f) for f in factors)


def _decided(parsed: ParsedFormula, name: str, held: Held, table: Table, schema: Schema) -> bool:
    """Levels that are held at one of them, which leaves no effect."""
    coded = _coded(_factors(parsed, name))
    return name in dict(held) and _levels(name, table, schema, coded=coded) is not None


def _named(model: AveragedModel, labels: Sequence[str], held: Held) -> tuple[str, ...]:
    """The names of a variable's effects, one for every label and outcome."""
    where = "".join(f", {name} = {value}" for name, value in held)
    outcomes = [f"{outcome}:" if outcome else "" for outcome in model.expected.outcomes]
    return tuple(f"{outcome}{label}{where}" for label in labels for outcome in outcomes)


def _refuse_unknown(parsed: ParsedFormula, name: str, value: Level, table: Table, schema: Schema) -> None:
    """A level that nobody has, or something else than a number."""
    levels = _levels(name, table, schema, coded=_coded(_factors(parsed, name)))
    if levels is not None and value not in levels:
        known = suggestion(str(value), tuple(map(str, levels)))
        raise FormulaError(f"at: {value!r} is no level of {name!r}: {quoted(known)}")
    if levels is None and not (isinstance(value, int | float) and np.isfinite(value)):
        raise FormulaError(
            f"at: {value!r} is no number, and {name!r} holds numbers: give one, as in at={{{name!r}: 40}}"
        )


@dataclass(frozen=True)
class HeldDesign:
    """A design with some columns set to one value for everyone."""

    design: FromColumns
    held: Held

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        return self.design({**columns, **dict(self.held)}, n)


@dataclass(frozen=True)
class DesignDerivative:
    """∂x/∂v by differences of second order that stay between the smallest and the largest value, beyond which a spline is
    not known.

    Attributes
    ----------
    least : the size of v below which steps stop shrinking with it.
    limits : smallest and largest value.
    """

    design: FormulaDesign
    variable: str
    least: float
    limits: tuple[float, float]

    @classmethod
    def of(cls, design: FormulaDesign, name: str, table: Table, schema: Schema) -> DesignDerivative:
        levels = schema[name].levels if name in schema else None
        values = np.asarray(table.column(name) if levels is None else levels, dtype=float)
        sizes = np.abs(values[values != 0])
        least = float(np.quantile(sizes, 0.01)) if sizes.size else 1.0
        return cls(design, name, least, (float(values.min()), float(values.max())))

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        values = broadcast(columns[self.variable], n).astype(float)
        step = STEP * np.maximum(np.abs(values), self.least)
        size = np.abs(self.design({**columns, self.variable: values}, n)).max(axis=0)
        for _ in range(4):
            slopes, finer = (self._differences(columns, values, h) for h in (step, step / 2))
            limit = 1e-4 * np.abs(slopes).max(axis=0) + 1e-11 * size / step[:, None]
            rough = np.any(np.abs(slopes - finer) > limit, axis=1)
            if not rough.any():
                return finer
            step = np.where(rough, step / 100, step)
        raise FormulaError(
            f"a term of {self.variable!r} has no finite derivative at some value of it, such as that of a square root at 0: give the "
            "variable another transform, or make it a column of levels"
        )

    def _differences(self, columns: Mapping[str, object], values: Float, step: Float) -> Float:
        """(f(v + h) − f(v − h))/2h; at the ends (−3f(v) + 4f(v + h) − f(v + 2h))/2h and its mirror image."""
        low, high = self.limits
        side = np.where(values - step < low, 1.0, np.where(values + step > high, -1.0, 0.0))
        inside = side == 0
        places = (np.where(inside, -1.0, 0.0), np.where(inside, 1.0, side), np.where(inside, 0.0, 2 * side))
        factors = (np.where(inside, -1.0, -3 * side), np.where(inside, 1.0, 4 * side), np.where(inside, 0.0, -side))
        total: Float = np.zeros((len(values), len(self.design.names)))
        for place, factor in zip(places, factors, strict=True):
            moved = {**columns, self.variable: values + place * step}
            total = total + self.design(moved, len(values)) * (factor / (2 * step))[:, None]
        return total


def _levels(name: str, table: Table, schema: Schema, *, coded: bool) -> tuple[Level, ...] | None:
    """Levels to compare, or None for a number; a number that the formula takes as levels, by C(), is none."""
    if name in schema:
        variable = schema[name]
        counted = variable.levels is not None and (coded or variable.kind != "numeric" or len(variable.levels) == 2)
        return variable.levels if counted else None
    values = table.column(name)
    if not coded and values.dtype.kind in "iuf" and len(np.unique(values)) != 2:
        return None
    return factor_of(name, table, schema).levels


def _refuse_steps(factor: Node, name: str) -> None:
    """A function with jumps has no derivative to average."""
    compares = any(isinstance(n, Operation) and n.mark in COMPARISONS for n in walk(factor))
    steps = sorted(calls(factor).intersection(JUMPS)) or ["a comparison"] * compares
    if steps:
        raise FormulaError(
            f"{written(factor)!r} jumps ({steps[0]}), so that {name!r} has no derivative to average: make it a column of levels"
        )


def _refuse_unfit(formula: str, name: str, covariates: tuple[str, ...], offsets: tuple[str, ...]) -> None:
    if name not in covariates:
        raise FormulaError(f"{name!r} is no covariate of {formula!r}: {suggestion(name, covariates)}")
    if name in offsets:
        raise FormulaError(f"{name!r} is part of an offset, which has no effect to average")

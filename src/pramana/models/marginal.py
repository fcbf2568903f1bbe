"""Average marginal effects: a generalised linear model and the average of its effects in one system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError, suggestion
from pramana.estimating import Family, family_of
from pramana.estimating.cells import factor_of
from pramana.estimating.generalized_linear import GeneralizedLinear
from pramana.estimating.products import FromColumns
from pramana.estimating.records import broadcast
from pramana.estimating.system import StackedFunction, System
from pramana.formulas.design import FormulaDesign
from pramana.formulas.functions import JUMPS, Functions, Own, own_functions
from pramana.formulas.parsed import FormulaQuestion, ParsedFormula
from pramana.formulas.tree import COMPARISONS, Node, Operation, calls, names, walk, written
from pramana.frames import Level, Schema, Table
from pramana.models.generalized_linear import Glm


@dataclass(frozen=True)
class Slope:
    """The effect of a number v: μ′(η) ∂η/∂v.

    Attributes
    ----------
    designs_of : the one function columns ↦ ∂x/∂v (n, q).
    """

    names: tuple[str]
    designs_of: tuple[FromColumns]

    def values(self, at: At, own: Sequence[Float]) -> Float:
        return np.asarray((at.rise(at.x) * (own[0] @ at.coefficients))[:, None])

    def gradients(self, at: At, own: Sequence[Float], weights: Float) -> Float:
        tilt = own[0]
        both = (weights * at.bend() * (tilt @ at.coefficients)) @ at.x + (weights * at.rise(at.x)) @ tilt
        return np.asarray(both[None])


@dataclass(frozen=True)
class Contrasts:
    """The effects of levels: μ(η at the level) − μ(η at the first).

    Attributes
    ----------
    designs_of : columns ↦ design with the variable set to each of its levels (n, q).
    """

    names: tuple[str, ...]
    designs_of: tuple[FromColumns, ...]

    def values(self, at: At, own: Sequence[Float]) -> Float:
        means = [at.mean(x) for x in own]
        return np.stack([m - means[0] for m in means[1:]], axis=1)

    def gradients(self, at: At, own: Sequence[Float], weights: Float) -> Float:
        sums = [(weights * at.rise(x)) @ x for x in own]
        return np.stack([s - sums[0] for s in sums[1:]])


@dataclass(frozen=True)
class At:
    """The model at some coefficients, for records with design x (m, q) and an offset (m,)."""

    family: Family
    coefficients: Float
    x: Float
    offset: Float

    def mean(self, x: Float) -> Float:
        return np.asarray(self.family.curve(x @ self.coefficients + self.offset)[0])

    def rise(self, x: Float, step: float = 0.0) -> Float:
        """μ′ at η + step."""
        return np.asarray(self.family.curve(x @ self.coefficients + self.offset + step)[1])

    def bend(self, step: float = 1e-5) -> Float:
        """μ″ by central differences."""
        return (self.rise(self.x, step) - self.rise(self.x, -step)) / (2 * step)


@dataclass(frozen=True)
class MarginsSystem(System):
    """U = (a(η) x (y − μ), effect_k(x; β) − α_k).

    Attributes
    ----------
    parts : the variables whose effects are averaged.
    """

    model: GeneralizedLinear
    parts: tuple[Slope | Contrasts, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*(f"coefficient:{p}" for p in self.model.parameters), *self.shown)

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names)

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return (slice(len(self.model.parameters)),)

    @property
    def family(self) -> Family:
        return self.model.family

    @property
    def grows(self) -> bool:
        return self.family.link in ("log", "cloglog")

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        out = {"x": self.model.design_of(columns, n), "y": self.model.response_of(columns, n)}
        self.family.check_response(out["y"], self.model.label)
        out["offset"] = np.zeros(n) if self.model.offset_of is None else self.model.offset_of(columns, n)
        for j, part in enumerate(self.parts):
            out |= {f"{j}:{k}": design(columns, n) for k, design in enumerate(part.designs_of)}
        return out

    @property
    def first(self) -> GeneralizedLinear:
        return self.model

    def completed(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """The averages follow from the coefficients."""
        at = At(self.family, beta, arrays["x"], arrays["offset"])
        effects = np.column_stack([part.values(at, own) for part, own in self._own(arrays)])
        return np.concatenate([beta, weights @ effects / weights.sum()])

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Coefficients that are about constant at the mean response, and no effect."""
        x = arrays["x"]
        level = self.family.start(float(weights @ arrays["y"] / weights.sum()))
        flat = np.linalg.lstsq(x, level - arrays["offset"], rcond=None)[0]
        return np.concatenate([flat, np.zeros(len(self.shown))])

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        at, averages = self._at(beta, arrays)
        mu, _, a, _ = self.family.curve(at.x @ at.coefficients + at.offset)
        score = at.x * (a * (arrays["y"] - mu))[:, None]
        effects = [part.values(at, own) for part, own in self._own(arrays)]
        return np.column_stack([score, np.column_stack(effects) - averages])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        at, averages = self._at(beta, arrays)
        x, q = at.x, len(at.coefficients)
        mu, rise, a, bend = self.family.curve(x @ at.coefficients + at.offset)
        out = np.zeros((beta.size, beta.size))
        out[:q, :q] = (x * (weights * (bend * (arrays["y"] - mu) - a * rise))[:, None]).T @ x
        out[q:, :q] = np.concatenate([part.gradients(at, own, weights) for part, own in self._own(arrays)])
        out[q:, q:] = -weights.sum() * np.eye(len(averages))
        return out

    def _at(self, beta: Float, arrays: Mapping[str, Float]) -> tuple[At, Float]:
        q = len(self.model.parameters)
        return At(self.family, beta[:q], arrays["x"], arrays["offset"]), beta[q:]

    def _own(self, arrays: Mapping[str, Float]) -> Iterator[tuple[Slope | Contrasts, list[Float]]]:
        for j, part in enumerate(self.parts):
            yield part, [arrays[f"{j}:{k}"] for k in range(len(part.designs_of))]


STEP = 1e-5
"""Of differences, relative to the variable."""


@dataclass(frozen=True)
class Margins(FormulaQuestion):
    """Question of `margins(formula, variable, family, link)`."""

    formula: str
    of: tuple[str, ...]
    family: Family
    functions: Own = ()

    @property
    def facts(self) -> dict[str, str]:
        return self._model.facts

    @property
    def _model(self) -> Glm:
        return Glm(self.formula, self.family, self.functions)

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        parsed = self.parsed
        offsets = parsed.offset_variables
        for name in self.of:
            _refuse_unfit(self.formula, name, parsed.covariates, offsets)
        chosen = self.of or tuple(name for name in parsed.covariates if name not in offsets)
        if not chosen:
            raise FormulaError(f"{self.formula!r} has no covariate whose effect could be averaged: add one")
        model = self._model.prepare(table, schema)
        design = cast(FormulaDesign, model.design_of)
        parts = tuple(_part(parsed, design, name, table, schema) for name in chosen)
        return StackedFunction(MarginsSystem(model, parts), self.variables)


def margins(
    formula: str,
    variable: str | Sequence[str] | None = None,
    family: str | Family = "gaussian",
    link: str | None = None,
    *,
    functions: Functions | None = None,
) -> Margins:
    """Average marginal effects on the mean response, over the population of the other variables.

    For a number, the average of ∂μ/∂v; for levels (text, a mechanism's nominal levels, or numbers with two values), the
    average of μ(level) − μ(first level). The model and the averages are one system: coefficients are estimated along with
    them, and perturbed columns, the variable itself too, are reverted in both.

    Parameters
    ----------
    variable : one covariate or several; all of them by default.

    >>> import pramana as pr
    >>> data = {"ill": [0, 1, 0, 1, 1, 0, 1, 1] * 20, "age": range(160), "smokes": ["no", "no", "yes", "yes"] * 40}
    >>> mechanism = pr.Mechanism({"smokes": pr.TransitionMatrix.randomized_response(["no", "yes"], keep=0.9)})
    >>> result = pr.fit(pr.margins("ill ~ age + smokes", "smokes", "binomial"), data, mechanism)
    >>> result.parameters
    ('effect(smokes: yes against no)',)
    >>> pr.fit(pr.margins("ill ~ age + smokes", family="binomial"), data, mechanism).parameters
    ('effect(age)', 'effect(smokes: yes against no)')
    """
    chosen = (variable,) if isinstance(variable, str) else tuple(dict.fromkeys(variable or ()))
    return Margins(formula, chosen, family_of(family, link), own_functions(functions))


def _part(parsed: ParsedFormula, design: FormulaDesign, name: str, table: Table, schema: Schema) -> Slope | Contrasts:
    factors = [f for f in parsed.factors.values() if name in names(f)]
    levels = _levels(name, table, schema, coded=any("C" in calls(f) for f in factors))
    if levels is None:
        for factor in factors:
            _refuse_steps(factor, name)
        tilt = cast(FromColumns, Tilt.of(design, name, table, schema))
        return Slope((f"effect({name})",), (tilt,))
    labels = tuple(f"effect({name}: {level} against {levels[0]})" for level in levels[1:])
    return Contrasts(labels, tuple(cast(FromColumns, Setting(design, name, level)) for level in levels))


@dataclass(frozen=True)
class Setting:
    """The design with the variable set to one value for everyone."""

    design: FormulaDesign
    variable: str
    value: Level

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        return self.design({**columns, self.variable: self.value}, n)


@dataclass(frozen=True)
class Tilt:
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
    def of(cls, design: FormulaDesign, name: str, table: Table, schema: Schema) -> Tilt:
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

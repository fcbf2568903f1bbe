"""Effects of groups that are absorbed: `y ~ x`, with an intercept for every firm that is not shown.

The linear score of such a dummy is Σ_g w (y − xᵀβ − α_g) = 0, whose reversion is linear in α_g: α_g = ȳ_g − x̄_gᵀβ with ȳ_g and x̄_g the means in the
group of the *reverted* response and terms. Put into the other scores it leaves x̃ (ỹ − x̃ᵀβ), with x̃ = x − x̄_g for every node of a record and ỹ = y − ȳ_g:
the same root, the same influence function and the same reverted squares as with the dummies, whatever is perturbed. A score that is not linear has no such
means, so other families and links are refused. A reverted y and the reverted terms are read off the score of the intercept, y* − x*ᵀβ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pramana.analysis.task import Task
from pramana.arrays import Float, Int
from pramana.errors import FormulaError, PramanaError, quoted_terms
from pramana.estimating import Equation, GeneralizedLinear
from pramana.estimating.products import FromColumns
from pramana.estimating.records import broadcast
from pramana.estimators.method import EquationMethod, Method
from pramana.estimators.naive import Naive
from pramana.estimators.reversion import Reversion
from pramana.inference import Sandwich
from pramana.models.absorbed import Absorbed
from pramana.result import Result

FLAT = 1e-10
"""Of a term's size: what varies less within all groups does not vary."""


def answered(method: Method, task: Task) -> Result:
    """The method's answer, with the effects of groups absorbed where the question asks for that."""
    if not isinstance(task.plan, Absorbed):
        return method.estimate(task)
    asked = _refused(method, task)
    assert isinstance(method, EquationMethod)
    groups, count = _groups(task)
    inner = _within(method, task, groups, count)
    options = replace(task.options, inference=replace(asked, correction="HC0"))
    found = method.estimate(replace(inner, options=options))
    factor, df = 1.0, None
    if asked.correction != "HC0":
        factor, df = _factor(task, found, count)
    return replace(
        found,
        covariance=found.covariance * factor,
        df=df,
        inference=found.inference.replace("HC0", "HC1").replace("CR0", "CR1") if df is not None else found.inference,
        facts={**found.facts, "Absorbed": f"{count} effects of {task.plan.by}"},
        model=None,
        again=None,
    )


def _refused(method: Method, task: Task) -> Sandwich:
    """The inference; an error where the effects cannot be absorbed."""
    asked = task.options.inference
    if not isinstance(method, Reversion | Naive):
        raise PramanaError(
            f"absorb= is exact for linear scores, by method 'reversion' or 'naive'; method {method.label!r} has others: write C(...) into the formula"
        )
    if task.learned is not None:
        raise PramanaError(
            "absorb= takes the records in memory, since every group has a mean: raise memory=, or write C(...) into the formula"
        )
    if asked is not None and not isinstance(asked, Sandwich):
        raise PramanaError(
            f"{type(asked).__name__} would need the means of groups anew under all of its weights: use Sandwich() with absorb=, or write C(...) into the formula"
        )
    asked = asked or Sandwich()
    if asked.correction == "HC2":
        raise PramanaError(
            "HC2 corrects by each record's share of the fit, of which absorbed effects leave a part unknown: use Sandwich() or Sandwich('HC1'), which count them"
        )
    return asked


def _factor(task: Task, found: Result, count: int) -> tuple[float, float]:
    """HC1 with the absorbed effects among the parameters, as with dummies, and its degrees of freedom."""
    units, d = task.sampling.counted, len(found.parameters) + count
    left = units - d
    if left <= 0:
        raise PramanaError(
            f"{units:g} records leave nothing to estimate the error of {d} parameters from, {count} of them absorbed: absorb a coarser column"
        )
    groups = task.sampling.groups
    if groups is None:
        return units / left, float(left)
    return groups / (groups - 1) * (units - 1) / left, float(groups - 1)


def _groups(task: Task) -> tuple[Int, int]:
    import pandas as pd

    assert isinstance(task.plan, Absorbed)
    codes, labels = pd.factorize(task.table.column(task.plan.by))
    return np.asarray(codes, dtype=np.int64), len(labels)


def _within(method: EquationMethod, task: Task, groups: Int, count: int) -> Task:
    """The task of terms and response around the means of their groups, which go with the records as columns."""
    function = task.function
    assert isinstance(function, GeneralizedLinear)
    weights = task.sampling.row_weights
    binding = method.bind(function, task.mechanism, task.table, weights)
    if binding.started is not None:
        raise PramanaError("absorb= takes a mechanism without free parameters: write C(...) into the formula")
    place = function.parameters.index("Intercept")
    y, x = _reverted(binding.equation, place)
    sizes = np.bincount(groups, weights * x[:, place], count)
    if np.any(sizes <= 0):
        raise PramanaError(
            f"{int(np.sum(sizes <= 0))} of the {count} groups have no weight left, so that they have no mean: absorb a coarser column"
        )

    def means(values: Float) -> Float:
        return np.asarray(np.bincount(groups, weights * values, count) / sizes)[groups]

    kept = [j for j in range(len(function.parameters)) if j != place]
    centres = np.column_stack([means(x[:, j]) for j in kept])
    _refuse_flat([function.parameters[j] for j in kept], x[:, kept], centres)
    names = tuple(f"mean of {function.parameters[j]} by group" for j in kept)
    response = "mean of the response by group"
    table = task.table
    for name, column in zip((*names, response), (*centres.T, means(y)), strict=True):
        table = table.replaced(name, column)
    inside = replace(
        function,
        parameters=tuple(function.parameters[j] for j in kept),
        variables=(*function.variables, *names, response),
        design_of=WithinDesign(function.design_of, tuple(kept), names),
        offset_of=WithinOffset(function.offset_of, response),
        parts=None,
    )
    return replace(task, table=table, plan=replace(task.plan, inside=inside))  # type: ignore[type-var]


def _reverted(equation: Equation, place: int) -> tuple[Float, Float]:
    """The reverted response (n,), offsets taken off, and terms (n, d), from the score of the intercept."""
    d = len(equation.about.parameters)
    y = equation.influence(np.zeros(d))[:, place]
    x = np.column_stack([y - equation.influence(unit)[:, place] for unit in np.eye(d)])
    return y, x


def _refuse_flat(names: list[str], x: Float, centres: Float) -> None:
    spread = np.abs(x - centres).max(axis=0, initial=0.0)
    flat = [n for n, s, size in zip(names, spread, np.abs(x).max(axis=0, initial=0.0), strict=True) if s <= FLAT * size]
    if flat:
        raise FormulaError(
            f"{quoted_terms(flat)} do not vary within the absorbed groups, whose effects take their place: drop them, or leave out absorb="
        )


@dataclass(frozen=True)
class WithinDesign:
    """Terms less the means of their groups."""

    design_of: FromColumns
    kept: tuple[int, ...]
    means: tuple[str, ...]

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        means = np.column_stack([broadcast(columns[name], n) for name in self.means])
        return np.asarray(self.design_of(columns, n)[:, list(self.kept)] - means)


@dataclass(frozen=True)
class WithinOffset:
    """The mean of the response in the group, taken off like an offset, on top of the formula's own."""

    offset_of: FromColumns | None
    mean: str

    def __call__(self, columns: Mapping[str, object], n: int) -> Float:
        own = 0.0 if self.offset_of is None else self.offset_of(columns, n)
        return np.asarray(broadcast(columns[self.mean], n) + own)

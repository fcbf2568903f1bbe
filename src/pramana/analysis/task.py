"""One fit: data and question, checked at the door and handed to a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pramana.analysis.sampling import ColumnLike, array_of, checked_start, checked_weights, cluster_codes, complete
from pramana.arrays import Column, Float, Int
from pramana.errors import DataError, FormulaError, PramanaError
from pramana.estimating import Family
from pramana.estimating.families import plain_name
from pramana.estimators import Likelihood, Method
from pramana.estimators.estimate import estimate
from pramana.formulas.text import is_call, parameter
from pramana.frames import Schema, Table, read
from pramana.frames.table import is_missing, require_columns
from pramana.inference import Jackknife, Resampling, Sample, Sandwich, SurveyDesign
from pramana.inference.sample import multiplied
from pramana.inference.survey import Stratification, stratified
from pramana.mechanism import Mechanism
from pramana.mechanism.description.argument import resolve_mechanism
from pramana.models.generalized_linear import glm
from pramana.models.negative_binomial import NO_LIKELIHOOD, NegativeBinomial, negative_binomial_plan
from pramana.models.prediction import Prediction
from pramana.result import Diagnostic, Result


@dataclass(frozen=True)
class Job:
    """Data and question, checked once at the door."""

    plan: Any
    table: Table
    mechanism: Mechanism | None
    weights: Float | None
    frequencies: Float | None
    clusters: Int | None
    notes: tuple[Diagnostic, ...]
    strata: Stratification | None = None
    replicates: Float | None = None
    replicate_scale: float | Sequence[float] | None = None

    @classmethod
    def read(
        cls,
        what: Any,
        data: Any,
        mechanism: Mechanism | str | Path | None,
        family: str | Family | None,
        link: str | None,
        weights: ColumnLike,
        frequencies: ColumnLike,
        clusters: ColumnLike,
        missing: str,
        design: SurveyDesign | None = None,
    ) -> Job:
        plan = _plan_of(what, family, link)
        known = resolve_mechanism(mechanism, data)
        table = read(data, text=_text_columns(known))
        if table.n == 0:
            raise DataError(f"{table.source} has no records")
        if known is not None:
            require_columns(table, known.columns, "the mechanism")
        given = {"weights": weights, "frequencies": frequencies, "clusters": clusters}
        extra = _designed(given, design)
        arrays = {k: array_of(k, v, table, known) for k, v in extra.items() if v is not None}
        keep, notes = complete(table, _columns_used(plan, known), arrays, missing)
        units, strata = _sampling_units(arrays, design, keep)
        if not keep.all():
            table, arrays = table.where(keep), {k: v[keep] for k, v in arrays.items()}
        replicates = [checked_weights(v, k) for k, v in arrays.items() if k.startswith("replicate_weights")]
        return cls(
            plan,
            table,
            known,
            checked_weights(arrays.get("weights"), "weights"),
            checked_weights(arrays.get("frequencies"), "frequencies"),
            units,
            notes,
            strata,
            np.stack(replicates) if replicates else None,  # type: ignore[arg-type]
            None if design is None else design.replicate_scale,
        )

    def run(
        self, method: Method, options: Sandwich | Resampling | Jackknife | None, start: Sequence[float] | None
    ) -> Result:
        if isinstance(method, Likelihood):
            return self._weighing()._maximized(method, options, start)
        function = self._function()
        binding = method.bind(function, self.mechanism, self.table, self.row_weights)
        own = (self.weights, self.frequencies, self.clusters, self.strata, self.replicates, self.replicate_scale)
        sample = Sample(binding.equation, *own)
        result = estimate(
            sample,
            binding.rebind,
            options,
            start=checked_start(start, sample.d),
            method=method.label,
            reverts=method.reverts,
            facts={**self._facts(), **binding.facts},
            notes=self.notes,
            frame_kind=self.table.kind,
        )
        return replace(result, model=Prediction.of(function), log_scale=self._log_scale)

    def _function(self) -> Any:
        return self.plan.prepare(self.table, self.mechanism.schema if self.mechanism is not None else Schema())

    @property
    def row_weights(self) -> Float:
        return multiplied(self.table.n, self.weights, self.frequencies)

    def _maximized(
        self,
        method: Likelihood,
        options: Sandwich | Resampling | Jackknife | None,
        start: Sequence[float] | None,
    ) -> Result:
        function = self._function()
        if isinstance(self.plan, NegativeBinomial):
            raise FormulaError(NO_LIKELIHOOD)
        if isinstance(options, Jackknife) or self.replicates is not None:
            raise PramanaError("the likelihood knows no jackknife and no replicate weights: use method='reversion'")
        found = method.maximize(function, self, options, checked_start(start, len(function.parameters)), self._facts())
        return replace(found, model=Prediction.of(function), log_scale=self._log_scale)

    def _weighing(self) -> Job:
        """The records with a positive weight; all of them under a design, whose units count without records too."""
        live = self.row_weights > 0
        if live.all() or self.strata is not None:
            return self
        weights, counts = (None if v is None else v[live] for v in (self.weights, self.frequencies))
        clusters = None if self.clusters is None else np.unique(self.clusters[live], return_inverse=True)[1]
        return replace(self, table=self.table.where(live), weights=weights, frequencies=counts, clusters=clusters)

    @property
    def _log_scale(self) -> bool:
        return bool(getattr(self.plan, "log_scale", False))

    def _facts(self) -> dict[str, str]:
        formula, family = getattr(self.plan, "formula", None), getattr(self.plan, "family", None)
        named = {"Formula": formula} if formula else {"Parameter": ", ".join(self.plan.variables)}
        return named | (
            {"Family": f"{family.name}, {family.link} link"} if formula and isinstance(family, Family) else {}
        )


def _plan_of(what: Any, family: str | Family | None, link: str | None) -> Any:
    if isinstance(what, str) and is_call(what):
        what = parameter(what)
    if isinstance(what, str):
        if isinstance(family, str) and plain_name(family) == "negative-binomial":
            return negative_binomial_plan(what, link)
        return glm(what, "gaussian" if family is None else family, link)
    if not hasattr(what, "prepare"):
        raise FormulaError(
            f"cannot estimate a {type(what).__name__}: give a formula such as 'y ~ x', or an estimating function such as mean('y')"
        )
    if family is not None or link is not None:
        raise FormulaError("family and link belong to a formula: leave them out when giving an estimating function")
    return what


def _text_columns(mechanism: Mechanism | None) -> dict[str, tuple[Any, ...]]:
    """Columns whose levels are text, so that a CSV reader leaves "01" alone."""
    if mechanism is None:
        return {}
    variables = mechanism.schema.variables.values()
    return {v.name: v.levels for v in variables if v.levels and isinstance(v.levels[0], str)}


def _columns_used(plan: Any, mechanism: Mechanism | None) -> list[str]:
    used = list(plan.variables)
    if mechanism is not None:
        for assignment in mechanism.used_by(used):
            used += [*assignment.columns, *assignment.channel.context]
    return list(dict.fromkeys(used))


def _designed(given: dict[str, ColumnLike], design: SurveyDesign | None) -> dict[str, ColumnLike]:
    """Columns of the design among the others; nothing may be said twice."""
    if design is None:
        return given
    if not isinstance(design, SurveyDesign):
        raise PramanaError(
            f"design={design!r} must be a SurveyDesign, such as SurveyDesign(weights='w', strata='region')"
        )
    for name in ("weights", "clusters"):
        if given[name] is not None:
            raise PramanaError(f"{name}= and design= both speak of {name}: put them into SurveyDesign(...)")
    if given["frequencies"] is not None:
        raise PramanaError("frequencies= cannot go with design=: a sampled record stands for itself")
    own = {"weights": design.weights, "strata": design.strata, "clusters": design.clusters, "fpc": design.fpc}
    return own | {f"replicate_weights[{k}]": column for k, column in enumerate(design.replicate_weights)}


def _sampling_units(
    arrays: Mapping[str, Column], design: SurveyDesign | None, keep: Any
) -> tuple[Int | None, Stratification | None]:
    """Units of the records kept; those of a design are counted before records with gaps go, which were sampled too."""
    if design is None or len(design.replicate_weights):
        clusters = arrays.get("clusters")
        return cluster_codes(None if clusters is None else clusters[keep]), None
    own = {name: arrays[name] for name in ("strata", "clusters", "fpc") if name in arrays}
    known = ~np.logical_or.reduce([is_missing(v) for v in own.values()] + [np.zeros(len(keep), dtype=bool)])
    columns = {name: v[known] for name, v in own.items()}
    units, strata = stratified(
        columns.get("strata"), columns.get("clusters"), columns.get("fpc"), design.target, int(known.sum())
    )
    return units[keep[known]], strata

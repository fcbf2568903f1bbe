"""fit and compare: read → revert → total → solve → infer → result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pramana.arrays import Column, Float, Int
from pramana.errors import DataError, FormulaError, MechanismError, PramanaError, suggestion
from pramana.estimating import Family
from pramana.estimators import ForwardCorrection, Likelihood, Method, Naive, method_of
from pramana.estimators.estimate import estimate
from pramana.formulas import Glm, glm
from pramana.formulas.prediction import Prediction
from pramana.frames import Schema, Table, read
from pramana.frames.table import is_missing, require_columns
from pramana.inference import Jackknife, Resampling, Sample, Sandwich, SurveyDesign
from pramana.inference.survey import Stratification, stratified
from pramana.mechanism import Mechanism
from pramana.result import Comparison, Diagnostic, Result

ColumnLike = str | Sequence[Any] | Column | None


def fit(
    what: Any,
    data: Any,
    mechanism: Mechanism | str | Path | None,
    *,
    family: str | Family | None = None,
    link: str | None = None,
    method: str | Method = "reversion",
    inference: Sandwich | Resampling | Jackknife | str | None = None,
    weights: ColumnLike = None,
    frequencies: ColumnLike = None,
    clusters: ColumnLike = None,
    design: SurveyDesign | None = None,
    missing: Literal["error", "drop"] = "error",
    start: Sequence[float] | None = None,
) -> Result:
    """Estimate parameters from released data.

    Parameters
    ----------
    what : a formula, or an estimating function such as `mean("income")` (then family and link do not apply).
    data : pandas, polars or Arrow table, dictionary of arrays, or the path of a CSV or Parquet file.
    mechanism : a Mechanism, the path of its description, "auto" (the description beside or inside the data file), or an
        explicit None for data that were not perturbed.
    method : "reversion" (default), "naive", "model-dependent", "likelihood", "forward", "backward", or a method object.
    inference : `Sandwich(...)` or `Resampling(...)`, or their names; by default Sandwich for smooth functions.
    weights : sampling weights, a column name or an array; `frequencies` are counts and are never merged with them.
    clusters : labels of records that depend on each other.
    design : a `SurveyDesign` in place of weights and clusters: strata, sampling units, finite populations, replicate weights.
    missing : "error" refuses missing values with their count, "drop" leaves those records out and says so.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.3, specificity=0.96)})
    >>> data = {"y": [1] * 26 + [0] * 174}
    >>> round(float(pr.fit(pr.mean("y"), data, mechanism).estimate[0]), 7)
    0.3461538
    """
    chosen, options = method_of(method), _inference_of(inference)
    job = Job.read(what, data, mechanism, family, link, weights, frequencies, clusters, missing, design)
    return job.run(chosen, options, start)


def compare(
    what: Any,
    data: Any,
    mechanism: Mechanism | str | Path | None,
    methods: Sequence[str | Method] = ("reversion", "naive"),
    *,
    truth: Any = None,
    **options: Any,
) -> Comparison:
    """Fit several estimators to the same data; with `truth`, the unperturbed file, the oracle too. Options as in `fit`."""
    methods = (methods,) if isinstance(methods, str) else methods
    if not methods:
        raise PramanaError("methods is empty: name at least one estimator, such as 'reversion'")
    results: dict[str, Result] = {}
    if truth is not None:
        results["oracle"] = _oracle(what, truth, data, mechanism, options)
    for method in methods:
        chosen = method_of(method)
        results[chosen.label] = fit(what, data, mechanism, method=chosen, **_suited(chosen, options))
    return Comparison(results)


def _suited(method: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """A nuisance fit has no sandwich: such a method resamples whatever the others do. A likelihood has its own errors."""
    chosen = _inference_of(options.get("inference"))
    if isinstance(method, Likelihood):
        return {**options, "inference": None}
    needs_draws = not method.reverts and not isinstance(method, Naive | ForwardCorrection)
    if needs_draws and isinstance(chosen, Sandwich):
        return {**options, "inference": Resampling()}
    return dict(options)


def _oracle(what: Any, truth: Any, data: Any, mechanism: Any, options: Mapping[str, Any]) -> Result:
    """The naive estimator on the true file, so that levels and names match."""
    found = resolve_mechanism(mechanism, data)
    result = fit(what, truth, found, method=Naive(), **options)
    return replace(result, method="oracle")


def resolve_mechanism(mechanism: Mechanism | str | Path | None, data: Any) -> Mechanism | None:
    """The mechanism that was meant; a file that carries a description cannot be fitted as if it were clean."""
    if isinstance(mechanism, Mechanism):
        return mechanism
    path = Path(data) if isinstance(data, str | Path) else None
    if mechanism is None:
        _refuse_forgotten(path, data)
        return None
    if isinstance(mechanism, str | Path):
        if str(mechanism) != "auto":
            return Mechanism.load(mechanism)
        if path is None:
            raise MechanismError(
                "mechanism='auto' reads the description of a data file: give the file's path, or a Mechanism"
            )
        if not path.is_file():
            raise DataError(f"file {str(path)!r} does not exist")
        return Mechanism.load(path)
    raise MechanismError(
        f"mechanism of type {type(mechanism).__name__}: give a Mechanism, its path, 'auto', or None for unperturbed data"
    )


def _refuse_forgotten(path: Path | None, data: Any) -> None:
    from pramana.mechanism.document import find_description, inside_metadata

    metadata = getattr(getattr(data, "schema", None), "metadata", None)
    inside = inside_metadata(metadata, "the table") if isinstance(metadata, dict) else None
    if inside is not None or (path is not None and path.is_file() and find_description(path) is not None):
        raise MechanismError(
            f"{repr(str(path)) if path else 'the table'} carries a description of how it was perturbed, but mechanism=None says that it is clean: "
            "use mechanism='auto' (or method='naive' to ignore the noise on purpose)"
        )


def _inference_of(
    inference: Sandwich | Resampling | Jackknife | str | None,
) -> Sandwich | Resampling | Jackknife | None:
    if inference is None or isinstance(inference, Sandwich | Resampling | Jackknife):
        return inference
    known: dict[str, Callable[[], Sandwich | Resampling | Jackknife]] = {
        "sandwich": Sandwich,
        "resampling": Resampling,
        "jackknife": Jackknife,
    }
    if str(inference).lower() not in known:
        raise PramanaError(f"inference {inference!r} is unknown: {suggestion(str(inference), known)}")
    return known[str(inference).lower()]()


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
    replicate_scale: float | None = None

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
        arrays = {k: _array_of(k, v, table, known) for k, v in extra.items() if v is not None}
        keep, notes = _complete(table, _columns_used(plan, known), arrays, missing)
        if not keep.all():
            table, arrays = table.where(keep), {k: v[keep] for k, v in arrays.items()}
        units, strata = _sampling_units(arrays, design, table.n)
        replicates = [_checked_weights(v, "replicate weights") for k, v in arrays.items() if k.startswith("replicate")]
        return cls(
            plan,
            table,
            known,
            _checked_weights(arrays.get("weights"), "weights"),
            _checked_weights(arrays.get("frequencies"), "frequencies"),
            units,
            notes,
            strata,
            np.stack(replicates) if replicates else None,  # type: ignore[arg-type]
            None if design is None else design.replicate_scale,
        )

    def run(
        self, method: Method, options: Sandwich | Resampling | Jackknife | None, start: Sequence[float] | None
    ) -> Result:
        schema = self.mechanism.schema if self.mechanism is not None else Schema()
        function = self.plan.prepare(self.table, schema)
        if isinstance(method, Likelihood):
            if isinstance(options, Jackknife) or self.strata is not None or self.replicates is not None:
                raise PramanaError("the likelihood knows no survey design and no jackknife: use method='reversion'")
            found = method.maximize(
                function, self, options, _checked_start(start, len(function.parameters)), self._facts()
            )
            return replace(found, model=Prediction.of(function))
        row_weights = np.ones(self.table.n)
        for part in (self.weights, self.frequencies):
            row_weights = row_weights if part is None else row_weights * part
        binding = method.bind(function, self.mechanism, self.table, row_weights)
        own = (self.weights, self.frequencies, self.clusters, self.strata, self.replicates, self.replicate_scale)
        sample = Sample(binding.equation, *own)
        result = estimate(
            sample,
            binding.rebind,
            options,
            start=_checked_start(start, sample.d),
            method=method.label,
            reverts=method.reverts,
            facts=self._facts(),
            notes=self.notes,
            frame_kind=self.table.kind,
        )
        return replace(result, model=Prediction.of(function))

    def _facts(self) -> dict[str, str]:
        if isinstance(self.plan, Glm):
            return {"Formula": self.plan.formula, "Family": f"{self.plan.family.name}, {self.plan.family.link} link"}
        return {"Parameter": ", ".join(self.plan.variables)}


def _plan_of(what: Any, family: str | Family | None, link: str | None) -> Any:
    if isinstance(what, str):
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
    for name in ("weights", "clusters"):
        if given[name] is not None:
            raise PramanaError(f"{name}= and design= both speak of {name}: put them into SurveyDesign(...)")
    if given["frequencies"] is not None:
        raise PramanaError("frequencies= cannot go with design=: a sampled record stands for itself")
    own = {"weights": design.weights, "strata": design.strata, "clusters": design.clusters, "fpc": design.fpc}
    return own | {f"replicate {k}": column for k, column in enumerate(design.replicate_weights)}


def _sampling_units(
    arrays: Mapping[str, Column], design: SurveyDesign | None, n: int
) -> tuple[Int | None, Stratification | None]:
    if design is None or design.replicate_weights:
        return _cluster_codes(arrays.get("clusters")), None
    return stratified(arrays.get("strata"), arrays.get("clusters"), arrays.get("fpc"), design.target, n)


def _array_of(name: str, given: ColumnLike, table: Table, mechanism: Mechanism | None) -> Column:
    if isinstance(given, str):
        if mechanism is not None and given in mechanism.columns:
            raise DataError(f"{name}={given!r} is a perturbed column: {name} must be unperturbed")
        return table.column(given)
    values = np.asarray(given)
    if values.shape != (table.n,):
        raise DataError(
            f"{name} have shape {values.shape} but the data have {table.n} records: give one value a record"
        )
    return values


def _complete(
    table: Table, columns: Sequence[str], arrays: Mapping[str, Column], missing: str
) -> tuple[Any, tuple[Diagnostic, ...]]:
    """Rows without gaps in anything that is used."""
    if missing not in ("error", "drop"):
        raise PramanaError(f"missing={missing!r} is unknown: {suggestion(missing, ['error', 'drop'])}")
    gaps = {name: is_missing(table.column(name)) for name in columns} | {k: is_missing(v) for k, v in arrays.items()}
    rows = np.logical_or.reduce([*gaps.values(), np.zeros(table.n, dtype=bool)])
    count = int(rows.sum())
    if not count:
        return ~rows, ()
    where = ", ".join(f"{name!r} ({int(v.sum())})" for name, v in gaps.items() if v.any())
    if missing == "error":
        raise DataError(
            f"{count} of {table.n} records have missing values, in {where}: use missing='drop' to leave them out, "
            "or recode them as a level of their own"
        )
    if count == table.n:
        raise DataError(f"every one of the {table.n} records has a missing value, in {where}: nothing is left to fit")
    note = f"{count} of {table.n} records left out for missing values, in {where}"
    return ~rows, (Diagnostic("missing-dropped", "info", note),)


def _checked_weights(values: Column | None, name: str) -> Float | None:
    if values is None:
        return None
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be numbers, not {values.tolist()[0]!r}: give a numeric column or array") from None
    if not np.all(np.isfinite(numbers)):
        count = int(np.sum(~np.isfinite(numbers)))
        raise DataError(f"{name} hold {count} infinite or missing value(s): every one must be a finite number")
    if np.any(numbers < 0):
        raise DataError(
            f"{name} hold {int(np.sum(numbers < 0))} negative value(s), the smallest {numbers.min():g}: the limit is 0"
        )
    if not np.any(numbers > 0):
        raise DataError(f"{name} are zero throughout: at least one must be positive")
    if not 1e-100 < numbers.max() < 1e100:
        raise DataError(
            f"the largest of the {name} is {numbers.max():g}: rescale them to lie between 1e-100 and 1e+100"
        )
    broken = np.flatnonzero(numbers != np.round(numbers))
    if name == "frequencies" and broken.size:
        raise DataError(
            f"frequencies hold {broken.size} value(s) such as {numbers[broken[0]]:g}; they are counts of equal records and must be whole numbers: use weights= for sampling weights"
        )
    return numbers


def _cluster_codes(values: Column | None) -> Int | None:
    if values is None:
        return None
    import pandas as pd

    codes, labels = pd.factorize(pd.Series(values))
    if len(labels) < 2:
        raise DataError(f"clusters have {len(labels)} distinct value(s): a cluster-robust variance needs at least 2")
    return np.asarray(codes, dtype=np.int64)


def _checked_start(start: Sequence[float] | None, d: int) -> Float | None:
    if start is None:
        return None
    try:
        values = np.asarray(start, dtype=float)
    except (TypeError, ValueError):
        raise PramanaError(f"start must hold {d} finite numbers, one a parameter, not {start!r}") from None
    if values.shape != (d,) or not np.all(np.isfinite(values)):
        raise PramanaError(f"start must hold {d} finite numbers, one a parameter; it has shape {values.shape}")
    return values

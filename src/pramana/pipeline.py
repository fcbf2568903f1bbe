"""fit, compare and specification_test: a question and data become a task, and a method answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pramana.analysis import tampering
from pramana.analysis.question import question
from pramana.analysis.sampling import ColumnLike, SamplingArguments
from pramana.analysis.task import Options, Task, bytes_of, checked_passes, inference_of
from pramana.comparison import Comparison
from pramana.engines import MakeEngine, engine_on
from pramana.errors import PramanaError, confidential, released
from pramana.estimating import Family
from pramana.estimators import Likelihood, Method, Naive, method_of
from pramana.estimators.measured import taken_as_known
from pramana.estimators.two_way import estimated
from pramana.formulas.functions import Functions, own_functions
from pramana.formulas.subset import Subset
from pramana.frames.sources import kept
from pramana.frames.workers import Workers
from pramana.inference import Jackknife, Resampling, Sandwich, SurveyDesign, Woodruff
from pramana.inference.hypotheses import SpecificationTest
from pramana.mechanism import Mechanism
from pramana.mechanism.description.argument import resolve_mechanism
from pramana.models.absorbed import absorbing
from pramana.progress import bar
from pramana.result import Result, warned


@released
def fit(
    what: Any,
    data: Any,
    mechanism: Mechanism | str | Path | None,
    *,
    family: str | Family | None = None,
    link: str | None = None,
    method: str | Method = "reversion",
    inference: Sandwich | Resampling | Jackknife | Woodruff | str | None = None,
    weights: ColumnLike = None,
    frequencies: ColumnLike = None,
    clusters: ColumnLike = None,
    design: SurveyDesign | None = None,
    absorb: str | None = None,
    subset: str | None = None,
    missing: Literal["error", "drop"] = "error",
    start: Sequence[float] | None = None,
    functions: Functions | None = None,
    engine: str | MakeEngine | Workers | Executor | None = None,
    device: str = "cpu",
    verify: bool = True,
    memory: float | str | None = None,
    passes: int | None = None,
) -> Result:
    """Estimate parameters from released data.

    Parameters
    ----------
    what : a formula, or an estimating function such as `mean("income")` (then family and link do not apply), which can also be
        written as text, "mean(income, by=edu)".
    data : pandas, polars or Arrow table, dictionary of arrays, or the path of a CSV or Parquet file; a folder, a pattern such as
        "part-*.parquet" or a list of such files; a `pyarrow.dataset`, `RecordBatchReader`, polars LazyFrame, DuckDB relation, Dask or Spark
        frame.
    mechanism : a Mechanism, the path of its description, "auto" (the description beside or inside the data file), or an
        explicit None for data that were not perturbed. A description must be of the data file given: its columns, rows,
        size and hash are checked. A Mechanism is believed.
    method : "reversion" (default), "naive", "stabilized", "model-dependent", "likelihood", "forward", "backward", "conditional-score", or a method object.
    inference : `Sandwich(...)` or `Resampling(...)`, or their names; by default Sandwich for smooth functions, Woodruff for
        quantiles.
    weights : sampling weights, a column name or an array; `frequencies` are counts and are never merged with them.
    clusters : labels of records that depend on each other; two columns, as ("firm", "year"), for two-way clusters, V1 + V2 - V12.
    design : a `SurveyDesign` in place of weights and clusters: strata, sampling units, finite populations, replicate weights.
    absorb : a clean column whose values have an effect each, as dummies C(firm) would, which is not shown; for linear models, fast with many values.
    subset : a condition on the records, in the language of formulas: "edu == 'Graduate' and age > 30". On clean columns it
        selects records; on perturbed ones, whose true values are hidden, the noise of the choice is undone. Sampling units
        without a record in the subset still count in a design.
    missing : "error" refuses missing values with their count, "drop" leaves those records out and says so.
    functions : functions of your own that the formula may call, by name: columns in, one value a record out.
    engine : who adds up the sums over records: "local" (threads of this process) or an engine of your own; for files that do not fit
        into memory also "dask", "spark" or an executor of `concurrent.futures`, whose workers read the files by themselves.
    device : "cpu", or "gpu" to hold the records of a generalised linear model in the memory of a GPU and add them up there,
        through JAX; what it does not know is added up on the CPU. Same answers, to 1e-8.
    verify : False leaves out the hash of a described file, and nothing else.
    memory : what records read from files, lazy frames and databases may take, as bytes or a text such as "500 MB" (1 GB by default).
        Where they do not fit they are read block by block, once for every pass, with the same answers; what does not add up over
        blocks is refused.
    passes : 1 for the one-step estimator of smooth equations where records are read block by block: the root of a random sample of m
        records, moved by one Newton step over all n of them, with the sandwich of that pass. It is as good as the root where m is much larger
        than √n; the result says both, and prints the step in standard errors. What sums solve without a step is exact all the same; quantiles, the
        likelihood and inference that solves again are refused. By default as many passes as the root takes.

    A diagnostic of severity "error" says that the numbers mean nothing: it raises a `PramanaWarning` too, which
    `warnings.simplefilter("error", pr.PramanaWarning)` turns into an exception.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.3, specificity=0.96)})
    >>> data = {"y": [1] * 26 + [0] * 174}
    >>> round(float(pr.fit(pr.mean("y"), data, mechanism).estimate[0]), 7)
    0.3461538
    """
    beside = SamplingArguments(weights, frequencies, clusters, design)
    chosen = _subset(subset, what, functions)
    way = method_of(method)
    options = Options(
        inference_of(inference),
        start,
        missing,
        engine_on(device, engine),
        verify,
        chosen,
        bytes_of(memory),
        way.by_blocks,
        checked_passes(passes),
        way.streams,
        way.formulas,
        way.columns,
    )
    plan = question(what, family, link, functions)
    plan = plan if absorb is None else absorbing(plan, absorb)
    with bar("Fitting", unless_within=True):
        task = Task.read(plan, data, mechanism, beside, options)
        suited = _suited(way, task)
        with task.placing():
            return warned(taken_as_known(estimated(suited, task), suited, task))


def _subset(text: str | None, what: Any, functions: Functions | None) -> Subset | None:
    return None if text is None else Subset.read(text, own_functions(functions) if isinstance(what, str) else ())


def _suited(method: Method, task: Task) -> Method:
    """The method for the task's subset."""
    return method if task.domain is None else method.within(task.domain)


@released
def compare(
    what: Any,
    data: Any,
    mechanism: Mechanism | str | Path | None,
    methods: Sequence[str | Method] = ("reversion", "naive"),
    *,
    truth: Any = None,
    **options: Any,
) -> Comparison:
    """Fit several estimators to the same data; with `truth`, the unperturbed file, that one too, as "true data". Options as in `fit`.

    Where "reversion" and "likelihood" are both among the methods, `specification_test` says which of them to trust.
    """
    methods = (methods,) if isinstance(methods, str) else methods
    if not methods:
        raise PramanaError("methods is empty: name at least one estimator, such as 'reversion'")
    data = kept(data, bytes_of(options.get("memory")))
    results: dict[str, Result] = {}
    if truth is not None:
        results["true data"] = _of_truth(what, truth, data, mechanism, options)
    asked = inference_of(options.pop("inference", None))
    chosen = [method_of(method) for method in methods]
    for method in chosen:
        again = sum(name.partition(" (again")[0] == method.label for name in results)
        label = method.label if not again else f"{method.label} (again, {again + 1})"
        results[label] = fit(what, data, mechanism, method=method, inference=method.suited(asked), **options)
    assuming = next((method for method in chosen if method.has_model), None)
    if assuming is None or not any(method.reverts for method in chosen):
        return Comparison(results)
    try:
        return Comparison(results, specification=_tested(assuming, what, data, mechanism, **options))
    except PramanaError as reason:
        reason.show()
        return Comparison(results, untested=str(reason))


def _tested(
    method: Method,
    what: Any,
    data: Any,
    mechanism: Any,
    *,
    family: Any = None,
    link: str | None = None,
    functions: Functions | None = None,
    missing: str = "error",
    verify: bool = True,
    subset: str | None = None,
    absorb: str | None = None,
    start: object = None,  # noqa: ARG001 - a test starts where it likes,
    engine: object = None,  # noqa: ARG001 - and the likelihood adds up by itself
    device: object = None,  # noqa: ARG001
    memory: float | str | None = None,
    passes: object = None,  # noqa: ARG001
    **beside: Any,
) -> SpecificationTest:
    """The test of a method's model on the same analysis."""
    if absorb is not None:
        raise PramanaError(f"the specification test knows no absorbed effects: write C({absorb}) into the formula")
    plan = question(what, family, link, functions)
    chosen = _subset(subset, what, functions)
    options = _of_test(method, missing, verify, memory, chosen)
    task = Task.read(plan, data, mechanism, SamplingArguments(**beside), options)
    if task.sampling.crossed is not None:
        raise PramanaError("the specification test knows one column of clusters, not two")
    return _suited(method, task).specification(task)


def _of_test(
    method: Method, missing: str, verify: bool, memory: float | str | None, subset: Subset | None = None
) -> Options:
    """How the records of a specification test are read."""
    read = {"streams": method.streams, "formulas": method.formulas, "columns": method.columns}
    return Options(missing=missing, verify=verify, subset=subset, memory=bytes_of(memory), **read)  # type: ignore[arg-type]


@confidential
def _of_truth(what: Any, truth: Any, data: Any, mechanism: Any, options: Mapping[str, Any]) -> Result:
    """The naive estimator on the true file, so that levels and names match."""
    found = resolve_mechanism(mechanism, data, verify=options.get("verify", True)).mechanism
    found = None if found is None else found.of_truth
    result = fit(what, truth, found, method=Naive(), **options)
    notes = tuple(note for note in result.diagnostics if note.code not in tampering.CODES)  # nothing was released yet
    return replace(result, method="true data", diagnostics=notes)


@released
def specification_test(
    formula: str,
    data: Any,
    mechanism: Mechanism | str | Path | None,
    *,
    family: str | Family | None = None,
    link: str | None = None,
    covariate_model: str | None = None,
    weights: ColumnLike = None,
    frequencies: ColumnLike = None,
    missing: Literal["error", "drop"] = "error",
    functions: Functions | None = None,
    verify: bool = True,
    memory: float | str | None = None,
) -> SpecificationTest:
    """Test the model of `method="likelihood"` against reversion, which does not need it.

    Where the model holds, the reversion score at the maximum likelihood estimate is zero up to noise of known size.
    For every family with a likelihood, with perturbed response, covariates or both; refused where the model is
    saturated, because both estimators then coincide. The likelihood's whole model is tested, its error law and
    `covariate_model` included. Other arguments as in `fit` and `Likelihood`, the family too: gaussian unless another is named.

    >>> import numpy as np, pramana as pr
    >>> k = np.arange(2000)
    >>> x = -2 + 0.002 * k
    >>> y = (k * 0.618 % 1 < 1 / (1 + np.exp(1 - x - 0.5 * x**2))).astype(int)
    >>> released = np.where(k * 0.377 % 1 < 0.15, 1 - y, y)
    >>> mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.85, specificity=0.85)})
    >>> print(pr.specification_test("y ~ x", {"x": x, "y": released}, mechanism, family="binomial"))
    Specification test: chi2(2) = 52, p < 0.0001
    The released data contradict the model: prefer method='reversion', or enrich the formula and test again.
    >>> pr.specification_test("y ~ x + I(x**2)", {"x": x, "y": released}, mechanism, family="binomial").p_value > 0.05
    True
    """
    beside = SamplingArguments(weights, frequencies)
    plan = question(formula, family, link, functions)
    method = Likelihood(covariate_model=covariate_model)
    return method.specification(Task.read(plan, data, mechanism, beside, _of_test(method, missing, verify, memory)))

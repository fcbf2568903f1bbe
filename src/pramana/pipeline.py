"""fit and compare: read → revert → total → solve → infer → result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pramana.analysis.again import Refit
from pramana.analysis.sampling import ColumnLike
from pramana.analysis.task import Job
from pramana.comparison import Comparison
from pramana.errors import PramanaError, confidential, released, suggestion
from pramana.estimating import Family
from pramana.estimators import ForwardCorrection, Likelihood, Method, Naive, Reversion, method_of
from pramana.guidance import specification_test
from pramana.inference import Jackknife, Resampling, Sandwich, SurveyDesign
from pramana.inference.hypotheses import SpecificationTest
from pramana.mechanism import Mechanism
from pramana.mechanism.description.argument import resolve_mechanism
from pramana.models.generalized_linear import Glm
from pramana.models.negative_binomial import NegativeBinomial
from pramana.result import Result


@released
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
    what : a formula, or an estimating function such as `mean("income")` (then family and link do not apply), which can also be
        written as text, "mean(income, by=edu)".
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
    result = job.run(chosen, options, start)
    if not isinstance(job.plan, Glm | NegativeBinomial) or not isinstance(chosen, Reversion | Naive):
        return result
    beside = {"weights": weights, "frequencies": frequencies, "clusters": clusters, "design": design}
    model = job.plan if isinstance(job.plan, Glm) else job.plan.at(float(np.exp(result.estimate[-1])))
    return replace(result, again=Refit.of(model, job.mechanism, chosen, options, beside, missing))


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
    """Fit several estimators to the same data; with `truth`, the unperturbed file, the oracle too. Options as in `fit`.

    Where "reversion" and "likelihood" are both among the methods, `specification_test` says which of them to trust.
    """
    methods = (methods,) if isinstance(methods, str) else methods
    if not methods:
        raise PramanaError("methods is empty: name at least one estimator, such as 'reversion'")
    results: dict[str, Result] = {}
    if truth is not None:
        results["oracle"] = _oracle(what, truth, data, mechanism, options)
    chosen = [method_of(method) for method in methods]
    for method in chosen:
        results[method.label] = fit(what, data, mechanism, method=method, **_suited(method, options))
    likelihood = next((method for method in chosen if isinstance(method, Likelihood)), None)
    if likelihood is None or not isinstance(what, str) or not any(method.reverts for method in chosen):
        return Comparison(results)
    try:
        return Comparison(results, specification=_tested(what, data, mechanism, likelihood, options))
    except PramanaError as reason:
        return Comparison(results, untested=str(reason))


def _tested(
    what: str, data: Any, mechanism: Any, likelihood: Likelihood, options: Mapping[str, Any]
) -> SpecificationTest:
    """The specification test of the same analysis."""
    beside = [name for name in ("clusters", "design") if options.get(name) is not None]
    if beside:
        raise PramanaError(f"it takes records as independent, and {beside[0]}= was given")
    known = ("family", "link", "weights", "frequencies", "missing")
    given = {"family": "gaussian"} | {name: options[name] for name in known if options.get(name) is not None}
    return specification_test(what, data, mechanism, covariate_model=likelihood.covariate_model, **given)


def _suited(method: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """A nuisance fit has no sandwich: such a method resamples whatever the others do. A likelihood has its own errors."""
    chosen = _inference_of(options.get("inference"))
    if isinstance(method, Likelihood):
        return {**options, "inference": None}
    needs_draws = not method.reverts and not isinstance(method, Naive | ForwardCorrection)
    if needs_draws and isinstance(chosen, Sandwich):
        return {**options, "inference": Resampling()}
    return dict(options)


@confidential
def _oracle(what: Any, truth: Any, data: Any, mechanism: Any, options: Mapping[str, Any]) -> Result:
    """The naive estimator on the true file, so that levels and names match."""
    found = resolve_mechanism(mechanism, data)
    result = fit(what, truth, found, method=Naive(), **options)
    return replace(result, method="oracle")


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

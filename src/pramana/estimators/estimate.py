"""From a bound equation to a Result: solve, infer, and say what the analyst should know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from pramana.arrays import Float
from pramana.errors import DataError, PramanaError, SolveError
from pramana.estimating import Equation
from pramana.frames import FrameKind
from pramana.inference import Jackknife, Resampling, Root, Sample, Sandwich, solve
from pramana.inference import jackknife as deleted
from pramana.inference import resampling as resampled
from pramana.inference import sandwich as linearised
from pramana.inference.identification import WEAK, weakest
from pramana.inference.resampling import Draws, resample
from pramana.inference.sample import Totals
from pramana.inference.sandwich import Linear
from pramana.inference.score_intervals import score_intervals
from pramana.inference.survey import refuse_correction, refuse_step_target
from pramana.result import Diagnostic, Result


def multiplied(result: Result, size: float) -> Result:
    """The result for `size` times its parameters, the size taken as known."""
    squared = size**2
    return replace(
        result,
        estimate=result.estimate * size,
        covariance=result.covariance * squared,
        privacy=None if result.privacy is None else result.privacy * squared,
        sampling=None if result.sampling is None else result.sampling * squared,
        draws=None if result.draws is None else replace(result.draws, values=result.draws.values * size),
        bounds=None if result.bounds is None else result.bounds * size,
        facts={**result.facts, "Population size": f"{size:g}"},
    )


FEW_CLUSTERS = 40
"""Below this the sandwich of cluster sums is too small: with 8 clusters its 95 % intervals cover about 77 to 87 %."""

ROUNDING = 1e-10


def few_clusters(groups: int | None, remedy: str) -> list[Diagnostic]:
    """For a sandwich with large-sample intervals."""
    if groups is None or groups >= FEW_CLUSTERS:
        return []
    message = f"a sandwich of {groups} clusters (fewer than {FEW_CLUSTERS}) is too small and its intervals cover too little: {remedy}"
    return [Diagnostic("few-clusters", "warning", message)]


def nothing_random(totals: Totals) -> bool:
    """Around the file, where the estimate uses nothing that was perturbed: rounding is all that is left."""
    if totals.design is None or totals.design.target != "file":
        return False
    whole = np.diag(totals.outer)
    return bool(np.all(np.abs(whole - np.diag(totals.clean_outer)) <= ROUNDING * whole))


NOTHING_RANDOM = Diagnostic(
    "no-randomisation",
    "warning",
    "around the file only the randomisation is uncertain, and no perturbed column is used here: the standard errors are zero "
    "and tests mean nothing; use target='superpopulation' or 'finite'",
)


ROOTLESS_LIMIT = 0.01


def diagnostics_of(sample: Sample, root: Root, linear: Linear | None, draws: Draws | None) -> list[Diagnostic]:
    """Everything about a root that a table does not show."""
    found: list[Diagnostic] = []
    if root.path == "continuation":
        found.append(Diagnostic("continuation", "info", "Newton needed a continuation in the noise to find this root"))
    if linear is not None:
        if sample.equation.smooth:
            found += _identified(sample, root, linear)
        found += _privacy_sign(linear)
    found += _outside(sample, root)
    if hasattr(sample.equation, "notes"):
        found += [Diagnostic(*note) for note in sample.equation.notes(root.beta, sample.row_weights)]
    if draws is not None and draws.rootless:
        total = draws.rootless + len(draws.values)
        share = draws.rootless / total
        severity = "warning" if share > ROOTLESS_LIMIT else "info"
        message = f"{draws.rootless} of {total} resamples ({share:.1%}) have no root and were left out"
        found.append(Diagnostic("rootless", severity, message))  # type: ignore[arg-type]
    return found


def _identified(sample: Sample, root: Root, linear: Linear) -> list[Diagnostic]:
    judged = weakest(sample, root.beta, linear.totals.slope)
    if judged is None or judged.ratio >= WEAK:
        return []
    names = [repr(p) for p, v in zip(sample.equation.parameters, np.abs(judged.direction), strict=True) if v > 0.3]
    score = "" if getattr(sample.equation, "stacked", False) else "Sandwich(interval='score'), "
    remedy = f"use {score}more records or fewer terms"
    if judged.eigenvalue <= 0:
        message = f"the reverted variance along {', '.join(names)} is negative: estimate and standard errors mean nothing; {remedy}"
        return [Diagnostic("not-identified", "error", message)]
    message = (
        f"weak identification of {', '.join(names)} (smallest eigenvalue of the slope is {judged.ratio:.1f} of its standard "
        f"errors from zero; {WEAK:g} is the limit for Wald intervals): {remedy}"
    )
    return [Diagnostic("weakly-identified", "warning", message)]


def _privacy_sign(linear: Linear) -> list[Diagnostic]:
    values = np.linalg.eigvalsh((linear.privacy + linear.privacy.T) / 2)
    whole = linear.inverse @ linear.totals.outer @ linear.inverse.T
    if values[0] >= -1e-8 * max(float(np.diag(whole).max()), 1e-300):
        return []
    message = "the estimated privacy part of the variance is not positive semi-definite: read its shares with caution"
    return [Diagnostic("privacy-sign", "warning", message)]


def _outside(sample: Sample, root: Root) -> list[Diagnostic]:
    """A share outside [0, 1] is reported, not hidden: the estimator is unbiased, the sample is not the population."""
    limits = getattr(sample.equation, "plausible", None)
    if limits is None:
        return []
    low, high = limits
    out = [f"{p} = {b:.4g}" for p, b in zip(sample.equation.parameters, root.beta, strict=True) if not low <= b <= high]
    if not out:
        return []
    return [
        Diagnostic(
            "outside-range", "warning", f"{', '.join(out)} lies outside [{low:g}, {high:g}]: noise outweighs the data"
        )
    ]


Inference: TypeAlias = Sandwich | Resampling | Jackknife | deleted.Replicates


def estimate(
    sample: Sample,
    rebind: Callable[[Float], Equation] | None,
    options: Inference | None,
    *,
    start: Float | None,
    method: str,
    reverts: bool,
    facts: Mapping[str, str],
    notes: tuple[Diagnostic, ...],
    frame_kind: FrameKind,
) -> Result:
    """Solve the equation and attach its uncertainty."""
    if rebind is not None:
        rebind = _plugging(sample, rebind)
    sample = sample.plugged()
    counted = min(sample.n, float(np.count_nonzero(sample.row_weights)) if sample.frequencies is None else sample.n)
    if counted <= sample.d:
        raise DataError(f"{counted:g} records cannot carry {sample.d} parameters: use more data or fewer terms")
    chosen = _chosen(options, sample, rebind is not None)
    root = solve(sample.equation, sample.row_weights, start)
    finite = sample.design is not None and sample.design.target == "finite"
    linear = _linear(sample, root, required=finite or isinstance(chosen, Sandwich))
    draws = resample(sample, root, chosen, rebind) if isinstance(chosen, Resampling) else None
    covariance = _covariance(sample, root, linear, chosen, draws)
    known = linear is not None and nothing_random(linear.totals)
    covariance = np.zeros_like(covariance) if known else covariance
    bounds = None
    if isinstance(chosen, Sandwich) and chosen.interval == "score":
        bounds = score_intervals(sample, root.beta, np.sqrt(np.diag(covariance)), chosen.level)
    decomposed = linear is not None and reverts
    diagnostics = [*notes, *diagnostics_of(sample, root, linear if reverts else None, draws)]
    diagnostics += [NOTHING_RANDOM] if known else []
    if isinstance(chosen, Sandwich) and sample.design is None:
        diagnostics += few_clusters(sample.live_groups, "use inference=pr.Jackknife(), whose intervals are those of t")
    if hasattr(sample.equation, "cautions"):
        errors = np.sqrt(np.diag(covariance))
        diagnostics += [Diagnostic(*note) for note in sample.equation.cautions(root.beta, errors)]
    result = Result(
        parameters=sample.equation.parameters,
        estimate=_debiased(sample.equation, root.beta, covariance),
        covariance=covariance,
        n=sample.n,
        method=method,
        inference=_describe(chosen, sample),
        interval_kind=chosen.interval,
        diagnostics=tuple(diagnostics),
        privacy=linear.privacy if decomposed and linear else None,
        sampling=linear.covariance if decomposed and linear else None,
        draws=draws,
        bounds=bounds,
        bounds_level=chosen.level if isinstance(chosen, Sandwich) and bounds is not None else None,
        facts={**facts, **getattr(sample.equation, "facts", {}), **_expansion(sample)},
        frame_kind=frame_kind,
        df=_degrees_of_freedom(chosen, sample),
    )
    size = getattr(sample.equation, "size", None)
    result = result if size is None else multiplied(result, size)
    shown = getattr(sample.equation, "shown", None)
    return result if shown is None else restricted(result, shown)


def _plugging(sample: Sample, rebind: Callable[[Float], Equation]) -> Callable[[Float], Equation]:
    """Draws keep the kernels of the sample."""
    return lambda weights: sample.with_equation(rebind(weights)).plugged().equation


def _debiased(equation: Equation, beta: Float, covariance: Float) -> Float:
    """Some functions of moments, when asked, take out the bias that their curvature and the covariance imply."""
    return equation.debiased(beta, covariance) if hasattr(equation, "debiased") else beta


def restricted(result: Result, names: Sequence[str]) -> Result:
    """The result for some of its parameters; the others were estimated with them and are summed up in the covariance."""
    kept = [result.parameters.index(name) for name in names]
    square = np.ix_(kept, kept)
    return replace(
        result,
        parameters=tuple(names),
        estimate=result.estimate[kept],
        covariance=result.covariance[square],
        privacy=None if result.privacy is None else result.privacy[square],
        sampling=None if result.sampling is None else result.sampling[square],
        draws=None if result.draws is None else replace(result.draws, values=result.draws.values[:, kept]),
        bounds=None if result.bounds is None else result.bounds[kept],
    )


def _chosen(options: Inference | None, sample: Sample, nuisance: bool) -> Inference:
    if sample.design is not None and not sample.equation.smooth:
        refuse_step_target(sample.design)
    if isinstance(options, Jackknife) and nuisance:
        raise PramanaError("the jackknife does not refit the nuisance model: use inference=Resampling()")
    if isinstance(options, Jackknife) and sample.design is not None and sample.design.target == "file":
        raise PramanaError(
            "around the file only the randomisation is uncertain, which no deletion shows: use Sandwich()"
        )
    if isinstance(options, Sandwich) and sample.design is not None:
        refuse_correction(options)
    if sample.replicates is not None:
        if options is not None:
            raise PramanaError("the design's replicate weights give the variance: leave inference= out")
        return deleted.Replicates()
    if options is None:
        return Resampling() if nuisance or not sample.equation.smooth else Sandwich()
    if isinstance(options, Sandwich) and nuisance:
        raise PramanaError(
            "a sandwich would ignore the uncertainty of the fitted nuisance model: use inference=Resampling()"
        )
    if isinstance(options, Sandwich) and not sample.equation.smooth:
        raise PramanaError("a step function has no derivative for the sandwich: use inference=Resampling()")
    if isinstance(options, Sandwich) and options.interval == "score" and getattr(sample.equation, "stacked", False):
        raise PramanaError(
            "score intervals hold every other parameter at its best, which a system of equations does not define: use "
            "Sandwich() or Resampling()"
        )
    if isinstance(options, Sandwich) and options.interval == "score" and sample.sums:
        raise PramanaError(
            "the variance of a sum does not depend on the value tested, so its score interval is the Wald one: use Sandwich(), "
            "or give total() or counts() the size= of the population"
        )
    return options


def _linear(sample: Sample, root: Root, *, required: bool) -> Linear | None:
    totals = sample.totals(root.beta, root.slope)
    try:
        return Linear(totals, linearised.bread(totals, sample.equation.parameters))
    except SolveError:
        if required:
            raise
        return None


def sandwich_errors(sample: Sample, beta: Float) -> Float:
    """HC0 standard errors (d,) at a root."""
    totals = sample.totals(beta)
    return np.sqrt(
        np.diag(linearised.covariance(totals, linearised.bread(totals, sample.equation.parameters), sample, Sandwich()))
    )


def _covariance(sample: Sample, root: Root, linear: Linear | None, chosen: Inference, draws: Draws | None) -> Float:
    if isinstance(chosen, Jackknife):
        return deleted.jackknife_covariance(sample, root) + (0.0 if linear is None else linear.retained)
    if isinstance(chosen, deleted.Replicates):
        return deleted.replicate_covariance(sample, root)
    if isinstance(chosen, Resampling):
        assert draws is not None
        return resampled.covariance(draws.values, chosen.scale)
    assert linear is not None
    return linearised.covariance(linear.totals, linear.inverse, sample, chosen)


def _describe(chosen: Inference, sample: Sample) -> str:
    by = f", {sample.groups} clusters" if sample.groups is not None else ""
    strata = (
        f"{len(sample.design.fraction)} strata, {sample.groups} sampling units" if sample.design is not None else ""
    )
    if isinstance(chosen, Resampling) and strata:
        how = f"{chosen.draws} Rao–Wu draws of units within strata ({chosen.scale}, {strata})"
        return f"resampling, {how}, {chosen.interval} intervals"
    if isinstance(chosen, Resampling):
        return f"resampling, {chosen.draws} {chosen.weights} draws ({chosen.scale}{by}), {chosen.interval} intervals"
    if isinstance(chosen, Jackknife):
        return f"jackknife{by}, t intervals with {_degrees_of_freedom(chosen, sample):g} degrees of freedom"
    if isinstance(chosen, deleted.Replicates):
        return f"{0 if sample.replicates is None else len(sample.replicates)} replicate weights"
    if sample.design is not None:
        return f"linearised for the design ({strata}; around the {sample.design.target}), {chosen.interval} intervals"
    name = (chosen.correction or "HC0").replace("HC", "CR" if by else "HC")
    return f"sandwich ({name}{by}), {chosen.interval} intervals"


def _degrees_of_freedom(chosen: Inference, sample: Sample) -> float | None:
    """Sampling units less strata, for designs and the jackknife; None for large-sample inference."""
    if isinstance(chosen, Resampling):
        return None
    if isinstance(chosen, deleted.Replicates):
        assert sample.replicates is not None
        return deleted.replicate_degrees_of_freedom(sample.replicates)
    if sample.design is not None:
        assert sample.clusters is not None
        return sample.design.degrees_of_freedom(sample.clusters, sample.row_weights)
    if isinstance(chosen, Jackknife):
        return float((sample.units if sample.groups is None else sample.groups) - 1)
    return None


def _expansion(sample: Sample) -> dict[str, str]:
    """The sum of the weights, which a total is to be read with."""
    return {"Sum of weights": f"{sample.row_weights.sum():g}"} if sample.sums else {}

"""From a bound equation to a Result: solve, infer, and say what the analyst should know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from pramana.analysis.shared_draws import SHARED_DRAWS
from pramana.analysis.task import Settings, Task
from pramana.arrays import Float
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine, Totals
from pramana.errors import DataError, PramanaError, SolveError
from pramana.estimating.function import Question
from pramana.estimating.rounding import ROUNDING
from pramana.estimators.measured import Measured, prevalence_limits
from pramana.estimators.method import EquationMethod, Method, Rebind
from pramana.estimators.outcomes import Interval, Owned, own_limits
from pramana.inference import Jackknife, Resampling, Root, Sandwich, Woodruff, solve
from pramana.inference import jackknife as deleted
from pramana.inference import resampling as resampled
from pramana.inference import sandwich as linearised
from pramana.inference.averaged_slope import averaged_slope
from pramana.inference.few_units import SmallSample, small_sample
from pramana.inference.identification import SAFE, Identification, identification, perturbed
from pramana.inference.limits import Limits
from pramana.inference.resampling import Draws, resample
from pramana.inference.sandwich import Linear
from pramana.inference.score_intervals import Reference
from pramana.inference.survey import refuse_correction, refuse_step_target
from pramana.inference.weak_intervals import described, limits_of, weakness
from pramana.inference.woodruff import Inverted, degrees_of_freedom, inverted, open_ended
from pramana.models.prediction import Prediction
from pramana.parameters.quantiles import EXTREME
from pramana.result import Result, Shares

Inference: TypeAlias = Sandwich | Resampling | Jackknife | Woodruff | deleted.Replicates

ROOTLESS_LIMIT = 0.01
"""Share of resamples without a root from which they are a warning."""


def estimate(method: EquationMethod, task: Task) -> Result:
    """Bind, solve, and attach the uncertainty."""
    binding = method.bind(task.function, task.mechanism, task.table, task.sampling.row_weights)
    engine = task.engine(binding.equation).learned()
    _refuse_few(engine)
    unsplit = _unsplit(method, task, engine)
    chosen = _chosen(task.options.inference, engine, binding.rebind is not None)
    root = solve(engine, start=task.start)
    strata = task.sampling.strata
    finite = strata is not None and strata.target == "finite"
    measured = Measured.of(task, method, engine)
    required = finite or isinstance(chosen, Sandwich) or measured is not None
    linear = _linear(engine, root, chosen, required=required, split=not unsplit)
    draws = resample(engine, root, chosen, _rebound(engine, binding.rebind)) if isinstance(chosen, Resampling) else None
    added = None
    if measured is not None and linear is not None:
        added = linear.inverse @ measured.meat(root.beta) @ linear.inverse.T
        draws = draws and measured.redrawn(draws, root.beta, linear.inverse)
    known = linear is not None and nothing_random(linear.totals)
    large = _covariance(engine, root, linear, chosen, draws)
    large = np.zeros_like(large) if known else large
    small = None if known else _small_sample(chosen, engine, root, linear)
    if draws is not None and small is not None:
        draws = draws.widened(root.beta, small.factor_of_draws(draws.law))
    covariance = large
    if small is not None and not isinstance(chosen, Jackknife):
        covariance = _corrected(chosen, small, draws)
    if added is not None and draws is None and not known:
        large, covariance = large + added, covariance + added
    level, df = chosen.level if isinstance(chosen, Sandwich) else 0.95, _degrees_of_freedom(chosen, engine, small)
    worth = large if engine.sampling.clusters is None else covariance  # few records that are counted need no correction
    interval = Interval(method, task, engine, root.beta, worth, df, level)
    own = Owned.none(engine.d) if known or measured is not None else own_limits(interval, chosen)
    covariance = own.filled(covariance)
    split = linear if method.reverts else None
    judged = _judged(engine, root, split, large)
    limits = linear.limits if isinstance(linear, Inverted) else _limits(interval, own, chosen, judged, small, measured)
    about = engine.about
    result = Result(
        parameters=about.parameters,
        estimate=engine.debiased(root.beta, large),
        covariance=covariance if small is None else small.blanked(covariance),
        n=engine.n,
        method=method.label,
        inference=_describe(chosen, engine, limits, small),
        interval_kind=_kind(chosen, limits),
        diagnostics=(
            *(note for note in task.notes if not (method.takes_as_true and note.code == SHARED_DRAWS)),
            *binding.notes,
            *(
                d
                for d in diagnostics_of(engine, root, split, draws, large, split=not unsplit)
                if not _settled(d, linear)
            ),
            *([] if judged is None else weakness(engine, judged, limits)),
            *([NOTHING_RANDOM] if known else []),
            *own.remarks(about.parameters),
            *_few_units(chosen, engine),
            *(open_ended(about.parameters, linear.limits) if isinstance(linear, Inverted) else []),
            *_resting_on_one(engine, small),
        ),
        privacy=None if split is None or unsplit else split.privacy,
        unsplit=unsplit,
        sampling=None if split is None else split.covariance,
        draws=draws,
        limits=limits,
        facts={**task.plan.facts, **task.facts, **binding.facts, **about.facts, **_sum_of_weights(engine)},
        frame_kind=task.table.kind,
        df=df,
        shares=_shares(engine),
        exponentials=about.exponentials,
        log_scale=task.plan.log_scale,
        model=Prediction.of(task.function.prediction),
    )
    result = result if measured is None or added is None else measured.told(result, added)
    result = result if about.size is None else multiplied(result, about.size)
    result = result if about.shown is None else shown_only(result, about.shown)
    result = replace(result, diagnostics=(*result.diagnostics, *_wholly_outside(engine, result)))
    return replace(result, again=MarginsAgain.of(method, task, result.estimate))


def _refuse_few(engine: Engine) -> None:
    sampling = engine.sampling
    counted = min(engine.n, float(np.count_nonzero(sampling.row_weights)) if sampling.frequencies is None else engine.n)
    if counted <= engine.d:
        raise DataError(f"{counted:g} records cannot carry {engine.d} parameters: use more data or fewer terms")


SHARED_LIMIT = 5e8
"""Largest number of values of U (records × combinations of hidden values × parameters) computed to split a variance by unit."""


def _unsplit(method: Method, task: Task, engine: Engine) -> str:
    """Why the variance does not decompose into sampling and randomisation; empty where it does."""
    why = "" if method.reverts else "that takes method='reversion'"
    if not why and task.shares_draws:
        why = _not_by_unit(task, engine)
    target = "superpopulation" if task.sampling.strata is None else task.sampling.strata.target
    if why and task.shares_draws and target != "superpopulation" and not method.takes_as_true:
        raise PramanaError(
            f"target={target!r} needs the randomisation's part of the variance, and records share a draw: {why}, or use "
            "target='superpopulation'"
        )
    return why


def _not_by_unit(task: Task, engine: Engine) -> str:
    """Why the randomisation's part cannot be formed by unit; empty where it can."""
    if task.domain is not None:
        return "records share a draw, and the part of a subset by perturbed columns is not formed by unit: leave out subset="
    if task.sampling.sharing is None:
        return (
            "records share a draw, so it takes the column of the unit in the file, one true value for all records of a unit (no "
            "Unit(varies=True)) and perturbed columns with levels"
        )
    combinations = engine.equation.records.combinations
    size = engine.sampling.rows * combinations * engine.d
    if size <= SHARED_LIMIT:
        return ""
    return (
        f"records share a draw, and {combinations} combinations of levels for {engine.sampling.rows} records and {engine.d} parameters "
        f"take {size:.1e} values, above the limit of {SHARED_LIMIT:.0e}: use fewer perturbed columns in one formula, or merge levels"
    )


def _rebound(engine: Engine, rebind: Rebind | None) -> resampled.Rebind | None:
    """The nuisance fitted again under a draw's weights; what was learned from the sample is kept."""
    if rebind is None:
        return None

    return lambda weights: engine.refitted(rebind, weights)


@dataclass(frozen=True)
class MarginsAgain:
    """Average marginal effects of a fitted model, estimated again from a file with the settings of the fit."""

    method: Method
    settings: Settings
    plan: Question
    estimate: Float

    @classmethod
    def of(cls, method: Method, task: Task, estimate: Float) -> MarginsAgain | None:
        """None where the method or the question has none."""
        if not method.repeats or task.plan.margins((), estimate) is None:
            return None
        settings, chosen = task.settings, task.options.inference
        # A system of equations has no intervals but Wald's.
        if isinstance(chosen, Sandwich) and chosen.interval in ("score", "lang-reiczigel"):
            settings = replace(settings, options=replace(settings.options, inference=replace(chosen, interval="wald")))
        return cls(method, settings, task.plan, estimate)

    def __call__(self, variables: Sequence[str], data: Any, given: Mapping[str, Any]) -> Result:
        plan = self.plan.margins(variables, self.estimate)
        assert plan is not None
        return self.method.estimate(self.settings.task(plan, data, given))


def multiplied(result: Result, size: float) -> Result:
    """The result for `size` times its parameters, the size taken as known."""
    squared = size**2
    return replace(
        result,
        estimate=result.estimate * size,
        covariance=result.covariance * squared,
        privacy=None if result.privacy is None else result.privacy * squared,
        sampling=None if result.sampling is None else result.sampling * squared,
        measurement=None if result.measurement is None else result.measurement * squared,
        draws=None if result.draws is None else replace(result.draws, values=result.draws.values * size),
        limits=None if result.limits is None else result.limits.times(size),
        facts={**result.facts, "Population size": f"{size:g}"},
    )


def _shares(engine: Engine) -> Shares | None:
    """Which parameters are the cells of one table, and what they add up to."""
    about = engine.about
    if about.tables is None:
        return None
    whole = float(engine.sampling.row_weights.sum()) if about.sums else 1.0
    return Shares(about.tables, whole if about.size is None else about.size)


FEW_CLUSTERS = 40
"""Below this the sandwich of cluster sums is too small: with 8 clusters its 95 % intervals cover about 77 to 87 %."""
TOO_FEW_CLUSTERS = 5
"""Below this even t intervals lean on cluster totals that are about normal."""


def few_clusters(groups: int | None, remedy: str) -> list[Diagnostic]:
    """For a sandwich with large-sample intervals."""
    if groups is None or groups >= FEW_CLUSTERS:
        return []
    message = f"a sandwich of {groups} clusters (fewer than {FEW_CLUSTERS}) is too small and its intervals cover too little: {remedy}"
    return [Diagnostic("few-clusters", "warning", message)]


def nothing_random(totals: Totals) -> bool:
    """Around the file, where the estimate uses nothing that was perturbed: rounding is all that is left."""
    if totals.strata is None or totals.strata.target != "file":
        return False
    return bool(np.all(np.abs(np.diag(totals.privacy)) <= ROUNDING * np.diag(totals.outer)))


NOTHING_RANDOM = Diagnostic(
    "no-randomisation",
    "warning",
    "around the file only the randomisation is uncertain, and no perturbed column is used here: the standard errors are zero "
    "and tests mean nothing; use target='superpopulation' or 'finite'",
)


def _settled(found: Diagnostic, linear: Linear | None) -> bool:
    """Errors that are too small beyond the last records are those of draws and deletions; an inverted interval is wide there."""
    return isinstance(linear, Inverted) and found.code == EXTREME


def too_few_clusters(groups: int | None) -> list[Diagnostic]:
    """For intervals that know how few clusters there are."""
    if groups is None or groups >= TOO_FEW_CLUSTERS:
        return []
    message = (
        f"{groups} clusters (fewer than {TOO_FEW_CLUSTERS}) say little about how clusters differ: intervals are wide, and hold only if totals "
        "of clusters are about normal; name smaller units as clusters if these are independent"
    )
    return [Diagnostic("few-clusters", "warning", message)]


def _few_units(chosen: Inference, engine: Engine) -> list[Diagnostic]:
    if engine.sampling.strata is not None:
        return []
    if isinstance(chosen, Sandwich) and not chosen.small_sample:
        return few_clusters(engine.sampling.live_groups, "use inference=pr.Sandwich(), whose intervals are those of t")
    return too_few_clusters(engine.sampling.live_groups)


def _resting_on_one(engine: Engine, small: SmallSample | None) -> list[Diagnostic]:
    """Coefficients that a single unit determines, as a dummy does that is 1 in one cluster only."""
    if small is None or not small.alone.any():
        return []
    found = [repr(p) for p, alone in zip(engine.about.parameters, small.alone, strict=True) if alone]
    names = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    unit = "record" if engine.sampling.clusters is None else "cluster"
    message = (
        f"one {unit} alone determines {names}, and its residuals say nothing about the error: no standard error is given; the "
        "other rows are not affected"
    )
    return [Diagnostic("one-unit", "warning", message)]


def _small_sample(chosen: Inference, engine: Engine, root: Root, linear: Linear | None) -> SmallSample | None:
    """What few units change; None where they are many, or where the inference asked for knows nothing of it."""
    plain = isinstance(chosen, deleted.Replicates | Woodruff) or (
        isinstance(chosen, Sandwich) and not chosen.small_sample
    )
    plain = plain or (isinstance(chosen, Resampling) and not chosen.widened)
    if plain or linear is None:
        return None
    always = isinstance(chosen, Sandwich) and chosen.correction == "HC2"
    return small_sample(engine, root.beta, linear, always=always)


def diagnostics_of(
    engine: Engine, root: Root, linear: Linear | None, draws: Draws | None, covariance: Float, *, split: bool = True
) -> list[Diagnostic]:
    """Everything about a root that a table does not show: its identification, its place, and the draws around it."""
    found: list[Diagnostic] = []
    if root.path == "continuation":
        found.append(Diagnostic("continuation", "info", "Newton needed a continuation in the noise to find this root"))
    if linear is not None and split:
        found += _privacy_sign(linear)
    found += _outside(engine, root)
    found += [Diagnostic(*note) for note in engine.remarks(root.beta, covariance)]  # type: ignore[arg-type]
    if draws is not None and draws.rootless:
        total = draws.rootless + len(draws.values)
        share = draws.rootless / total
        severity = "warning" if share > ROOTLESS_LIMIT else "info"
        message = f"{draws.rootless} of {total} resamples ({share:.1%}) have no root and were left out"
        found.append(Diagnostic("rootless", severity, message))  # type: ignore[arg-type]
    return found


def _privacy_sign(linear: Linear) -> list[Diagnostic]:
    values = np.linalg.eigvalsh((linear.privacy + linear.privacy.T) / 2)
    whole = linear.inverse @ linear.totals.outer @ linear.inverse.T
    if values[0] >= -1e-8 * max(float(np.diag(whole).max()), 1e-300):
        return []
    message = "the estimated privacy part of the variance is not positive semi-definite: read its shares with caution"
    return [Diagnostic("privacy-sign", "warning", message)]


def _outside(engine: Engine, root: Root) -> list[Diagnostic]:
    """A share outside [0, 1] is reported, not hidden: the estimator is unbiased, the sample is not the population."""
    limits = engine.about.plausible
    if limits is None:
        return []
    low, high = limits
    reach = ROUNDING * max(abs(low), abs(high))
    beyond = (root.beta < low - reach) | (root.beta > high + reach)
    out = [f"{p} = {b:.4g}" for p, b, o in zip(engine.about.parameters, root.beta, beyond, strict=True) if o]
    if not out:
        return []
    return [
        Diagnostic(
            "outside-range", "warning", f"{', '.join(out)} lies outside [{low:g}, {high:g}]: noise outweighs the data"
        )
    ]


def _wholly_outside(engine: Engine, result: Result) -> list[Diagnostic]:
    """An interval without a possible value is no accident of the noise, or hardly ever."""
    limits, shares = engine.about.plausible, result.shares
    if limits is None and shares is not None:
        limits = (0.0, shares.total)
    if limits is None or limits[0] <= result.estimate.min() <= result.estimate.max() <= limits[1]:
        return []
    (low, high), size = limits, 1.0 if engine.about.size is None or shares is not None else engine.about.size
    ends = result.interval()
    beyond = (ends[:, 1] < low * size) | (ends[:, 0] > high * size)
    names = [f"{p} ({a:.4g} to {b:.4g})" for p, (a, b), o in zip(result.parameters, ends, beyond, strict=True) if o]
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    message = (
        f"the whole interval of {', '.join(names[:5])}{more} lies outside [{low * size:g}, {high * size:g}], which chance seldom does: is this the "
        "mechanism by which the records were perturbed, and are they all there?"
    )
    return [Diagnostic("interval-outside", "warning", message)]


def shown_only(result: Result, names: Sequence[str]) -> Result:
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
        measurement=None if result.measurement is None else result.measurement[square],
        draws=None if result.draws is None else replace(result.draws, values=result.draws.values[:, kept]),
        limits=None if result.limits is None else result.limits.of(kept),
        df=result.df[kept] if isinstance(result.df, np.ndarray) else result.df,
    )


def _chosen(options: Inference | None, engine: Engine, nuisance: bool) -> Inference:
    by_inversion = engine.about.inverted and not nuisance and isinstance(options, Woodruff | None)
    if engine.sampling.strata is not None and not engine.about.smooth and not by_inversion:
        refuse_step_target(engine.sampling.strata)
    if isinstance(options, Jackknife) and nuisance:
        raise PramanaError("the jackknife does not refit the nuisance model: use inference=Resampling()")
    if (
        isinstance(options, Jackknife)
        and engine.sampling.strata is not None
        and engine.sampling.strata.target == "file"
    ):
        raise PramanaError(
            "around the file only the randomisation is uncertain, which no deletion shows: use Sandwich()"
        )
    if isinstance(options, Sandwich) and engine.sampling.strata is not None:
        refuse_correction(options)
    if engine.sampling.replicates is not None:
        if options is not None:
            raise PramanaError("the design's replicate weights give the variance: leave inference= out")
        return deleted.Replicates()
    if options is None and engine.about.inverted and not nuisance:
        return Woodruff()
    if options is None:
        return Resampling() if nuisance or not engine.about.smooth else Sandwich()
    if isinstance(options, Woodruff) and (nuisance or not engine.about.inverted):
        raise PramanaError(
            "Woodruff's intervals are those of quantiles of a column, without a fitted nuisance model: use inference=Resampling()"
        )
    if isinstance(options, Sandwich) and nuisance:
        raise PramanaError(
            "a sandwich would ignore the uncertainty of the fitted nuisance model: use inference=Resampling()"
        )
    if isinstance(options, Sandwich) and not engine.about.smooth:
        quick = "Woodruff() or " if engine.about.inverted else ""
        raise PramanaError(f"a step function has no derivative for the sandwich: use inference={quick}Resampling()")
    if isinstance(options, Sandwich) and options.interval == "score" and not engine.about.profiled:
        raise PramanaError(
            "score intervals hold every other parameter at its best, which a system of equations does not define: use "
            "Sandwich() or Resampling()"
        )
    if isinstance(options, Sandwich) and options.interval == "score" and engine.sampling.strata is not None:
        _refuse_sums(engine)
    return options


def _linear(engine: Engine, root: Root, chosen: Inference, *, required: bool, split: bool) -> Linear | None:
    sharp = engine.sharp()
    totals = sharp.totals(root.beta, averaged_slope(engine, root))
    if split and engine.sampling.sharing is not None and totals.shared is None:
        totals = replace(totals, shared=sharp.privacy_by_unit(root.beta))
    if isinstance(chosen, Woodruff):
        return inverted(engine, totals, chosen)
    try:
        return Linear(totals, linearised.bread(totals, engine.about.parameters))
    except SolveError:
        if required:
            raise
        return None


def sandwich_errors(engine: Engine, beta: Float) -> Float:
    """HC0 standard errors (d,) at a root."""
    totals = engine.totals(beta)
    inverse = linearised.bread(totals, engine.about.parameters)
    return np.sqrt(np.diag(linearised.sandwich_covariance(totals, inverse, engine, Sandwich("HC0"))))


def _corrected(chosen: Inference, small: SmallSample, draws: Draws | None) -> Float:
    """Of few units: by the sandwich, or of draws that were widened."""
    if isinstance(chosen, Resampling) and draws is not None:
        return resampled.draws_covariance(draws.values, chosen.scale)
    return small.covariance


def _covariance(engine: Engine, root: Root, linear: Linear | None, chosen: Inference, draws: Draws | None) -> Float:
    if isinstance(chosen, Jackknife):
        return deleted.jackknife_covariance(engine, root) + (0.0 if linear is None else linear.retained)
    if isinstance(chosen, deleted.Replicates):
        return deleted.replicate_covariance(engine, root)
    if isinstance(chosen, Resampling):
        assert draws is not None
        return resampled.draws_covariance(draws.values, chosen.scale)
    assert linear is not None
    if isinstance(chosen, Woodruff):
        return linear.covariance
    return linearised.sandwich_covariance(linear.totals, linear.inverse, engine, chosen)


def _judged(engine: Engine, root: Root, linear: Linear | None, covariance: Float) -> Identification | None:
    """What the noise has left to estimate; None where no noise is undone, or the equation is a step function."""
    if linear is None or not engine.about.smooth or not perturbed(linear.totals):
        return None
    return identification(engine, root.beta, linear.totals, covariance)


def _limits(
    interval: Interval,
    own: Owned,
    chosen: Inference,
    judged: Identification | None,
    small: SmallSample | None,
    measured: Measured | None,
) -> Limits | None:
    """Intervals of their own kind, where there are any: those of counts, else those of the score test, walking out from the estimate;
    None for Wald's and those of the draws."""
    if own.limits is not None or not isinstance(chosen, Sandwich):
        return own.limits
    if chosen.interval == "lang-reiczigel":
        return prevalence_limits(measured, interval.beta, chosen.level)
    engine = interval.engine
    if chosen.interval == "score":
        _refuse_sums(engine)
    if chosen.interval == "auto" and judged is not None and judged.divisor and judged.signals.min() < SAFE:
        return interval.score() if measured is None else None
    errors = np.sqrt(np.diag(interval.covariance))
    extra = None if measured is None else measured.meat
    return limits_of(engine, interval.beta, errors, chosen, judged, _reference(interval, chosen, small), extra)


def _refuse_sums(engine: Engine) -> None:
    """Score intervals of sums, except of counted records, whose share has one."""
    if engine.about.sums:
        raise PramanaError(
            "the variance of a sum does not depend on the value tested, so its score interval is the Wald one: use Sandwich(), "
            "or give total() or counts() the size= of the population"
        )


def _reference(interval: Interval, chosen: Sandwich, small: SmallSample | None) -> Reference:
    d, df = interval.engine.d, interval.df if chosen.small_sample else None
    return Reference(
        np.broadcast_to(np.inf if df is None else df, d),
        np.ones(d) if small is None else small.factor,
        centred=interval.sampling.strata is not None,
    )


def _kind(chosen: Inference, limits: Limits | None) -> str:
    if limits is not None:
        return limits.kind
    return "wald" if chosen.interval == "auto" else chosen.interval


def _describe(chosen: Inference, engine: Engine, limits: Limits | None, small: SmallSample | None) -> str:
    by = f", {engine.sampling.groups} clusters" if engine.sampling.groups is not None else ""
    strata = (
        f"{len(engine.sampling.strata.fraction)} strata, {engine.sampling.groups} sampling units"
        if engine.sampling.strata is not None
        else ""
    )
    if isinstance(chosen, Resampling) and strata:
        how = f"{chosen.draws} Rao–Wu draws of units within strata ({chosen.scale}, {strata})"
        return f"resampling, {how}, {chosen.interval} intervals"
    if isinstance(chosen, Resampling):
        return f"resampling, {chosen.draws} {chosen.weights} draws ({chosen.scale}{by}), {chosen.interval} intervals"
    if isinstance(chosen, Jackknife):
        df = _degrees_of_freedom(chosen, engine, small)
        return f"jackknife{by}, t intervals with {freedom(df)}"
    if isinstance(chosen, Woodruff):
        df = _degrees_of_freedom(chosen, engine, small)
        reference = "" if df is None else f", t with {freedom(df)}"
        return f"Woodruff's intervals{f' ({strata})' if strata else by}{reference}"
    if isinstance(chosen, deleted.Replicates):
        return f"{0 if engine.sampling.replicates is None else len(engine.sampling.replicates)} replicate weights"
    shown = described(limits, engine.about, chosen.interval)
    if engine.sampling.strata is not None:
        return f"linearised for the design ({strata}; around the {engine.sampling.strata.target}), {shown}"
    name = (chosen.correction or ("HC0" if small is None else "HC2")).replace("HC", "CR" if by else "HC")
    t = "" if small is None else f", t with {freedom(small.df)}"
    return f"sandwich ({name}{by}{t}), {shown}"


def freedom(df: float | Float | None) -> str:
    """Degrees of freedom in words."""
    low, high = float(np.min(df)), float(np.max(df))  # type: ignore[arg-type]
    span = f"{low:.4g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
    return f"{span} degrees of freedom"


def _degrees_of_freedom(chosen: Inference, engine: Engine, small: SmallSample | None) -> float | Float | None:
    """Those of each variance where units are few; else units less strata, for designs and the jackknife, and None for
    large-sample inference."""
    if isinstance(chosen, Woodruff):
        return degrees_of_freedom(engine.sampling)
    if isinstance(chosen, deleted.Replicates):
        assert engine.sampling.replicates is not None
        return deleted.replicate_degrees_of_freedom(engine.sampling.replicates)
    units = (
        None if isinstance(chosen, Resampling) else engine.sampling.degrees_of_freedom
    )  # refuses a design without any
    if small is not None:
        return small.df
    if isinstance(chosen, Resampling):
        return None
    if engine.sampling.strata is not None:
        return units
    if isinstance(chosen, Jackknife):
        groups = engine.sampling.groups
        return float((engine.units if groups is None else groups) - 1)
    return None


def _sum_of_weights(engine: Engine) -> dict[str, str]:
    """What a total is to be read with."""
    return {"Sum of weights": f"{engine.sampling.row_weights.sum():g}"} if engine.about.sums else {}

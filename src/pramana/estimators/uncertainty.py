"""How uncertain a root is: which inference is used, what it finds, and the intervals that follow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pramana.analysis.task import Inference, Task
from pramana.arrays import Bool, Float
from pramana.engines import Engine, Totals
from pramana.errors import PramanaError, SolveError
from pramana.estimating.rounding import ROUNDING
from pramana.estimators.measured import Measured, prevalence_limits
from pramana.estimators.method import EquationMethod, Method, Rebind
from pramana.estimators.one_step import unsearched
from pramana.estimators.outcomes import Interval, OwnIntervals, own_limits
from pramana.inference import Jackknife, Resampling, Root, Sandwich, Woodruff
from pramana.inference import jackknife as deleted
from pramana.inference import resampling as resampled
from pramana.inference import sandwich as linearised
from pramana.inference.few_units import SmallSample, small_sample
from pramana.inference.identification import NOISY, SAFE, Identification, any_perturbed, identification
from pramana.inference.limits import Limits
from pramana.inference.resampling import Draws, resample
from pramana.inference.sandwich import Linear, averaged_slope
from pramana.inference.score_intervals import Reference
from pramana.inference.survey import refuse_correction, refuse_step_target
from pramana.inference.weak_intervals import interval_kinds, limits_of
from pramana.inference.woodruff import Inverted, degrees_of_freedom, inverted
from pramana.mechanism import Assignment
from pramana.mechanism.channels.additive_noise import AdditiveNoise
from pramana.numbers import count

ChosenInference: TypeAlias = Inference | deleted.Replicates
"""What was asked for, or follows from replicate weights."""


@dataclass(frozen=True)
class RootUncertainty:
    """What is known of the error of a root.

    Attributes
    ----------
    chosen : the inference that was used.
    linear : the linearised estimator, or None where it was not needed and does not exist.
    large : (d, d), the covariance as if units were many.
    covariance : (d, d), with what few units change.
    df : degrees of freedom of that covariance, None for large-sample inference.
    small : what few units change, or None.
    draws : of the resampling.
    own : intervals that follow from counts, parameter by parameter.
    judged : what the noise has left to estimate, or None where none is undone.
    limits : intervals of their own kind, or None for Wald's and those of the draws.
    measured : how P was measured, or None where it is known.
    added : (d, d), what measuring P adds to the covariance.
    known : nothing is random.
    mute : parameters of which every record says the same although it was perturbed, so that none shows a variance (d,).
    """

    chosen: ChosenInference
    linear: Linear | None
    large: Float
    covariance: Float
    df: float | Float | None
    small: SmallSample | None
    draws: Draws | None
    own: OwnIntervals
    judged: Identification | None
    limits: Limits | None
    measured: Measured | None
    added: Float | None
    known: bool
    mute: Bool

    @property
    def kind(self) -> str:
        """Of the intervals."""
        if self.limits is not None:
            return self.limits.kind
        return "wald" if self.chosen.interval == "auto" else self.chosen.interval


def uncertainty(
    method: EquationMethod,
    task: Task,
    engine: Engine,
    root: Root,
    chosen: ChosenInference,
    rebind: Rebind | None,
    *,
    split: bool,
) -> RootUncertainty:
    """Of a root, whose variance is split into the sample's and the randomisation's part where that can be."""
    strata = task.sampling.strata
    finite = strata is not None and strata.target == "finite"
    measured = Measured.of(task, method, engine)
    required = finite or isinstance(chosen, Sandwich) or measured is not None
    linear = _linear(engine, root, chosen, required=required, split=split)
    draws = resample(engine, root, chosen, _rebound(engine, rebind)) if isinstance(chosen, Resampling) else None
    added = None
    if measured is not None and linear is not None:
        added = linear.inverse @ measured.meat(root.beta) @ linear.inverse.T
        draws = draws and measured.redrawn(draws, root.beta, linear.inverse)
    known = linear is not None and _nothing_random(engine, linear.totals)
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
    worth = large if not engine.sampling.clustered else covariance  # few records that are counted need no correction
    interval = Interval(method, task, engine, root.beta, worth, df, level)
    own = OwnIntervals.none(engine.d) if known or measured is not None else own_limits(interval, chosen)
    covariance = own.filled(covariance)
    judged = _judged(task, engine, root, linear if method.reverts else None, large)
    limits = linear.limits if isinstance(linear, Inverted) else _limits(interval, own, chosen, judged, small, measured)
    covariance = covariance if small is None else small.blanked(covariance)
    mute = np.zeros(engine.d, dtype=bool)
    if linear is not None and method.reverts and not known and task.perturbed:
        mute = _mute(linear, root.beta) & ~own.still
    covariance = np.where(mute[:, None] | mute, np.nan, covariance)
    return RootUncertainty(
        chosen, linear, large, covariance, df, small, draws, own, judged, limits, measured, added, known, mute
    )


SHARED_LIMIT = 5e8
"""Largest number of values of U (records × combinations of hidden values × parameters) computed to split a variance by unit."""


def unsplit(method: Method, task: Task, engine: Engine) -> str:
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


def _rebound(engine: Engine, rebind: Rebind | None) -> resampled.EngineUnder | None:
    """The nuisance fitted again under a draw's weights; what was learned from the sample is kept."""
    if rebind is None:
        return None

    return lambda weights: engine.refitted(rebind, weights)


EXACT = 1e-27
"""Squares of what is left of the records next to squares of what was fitted, below which a fit is exact: a hundred times what rounding leaves."""


def _without_rounding(totals: Totals, beta: Float) -> Totals:
    """The totals, with zeros for the squares where every record lies on the fit and rounding is all that is left.

    By Cauchy and Schwarz (Σ x_j xᵀβ)² ≤ Σ x_j² Σ (xᵀβ)², which the slope of a linear model tells.
    """
    size = np.abs(np.diag(totals.slope)) * float(np.abs(beta) @ np.abs(totals.slope) @ np.abs(beta)) / totals.n
    return totals.still if np.all(np.diag(totals.outer) <= EXACT * size) else totals


def _regresses(engine: Engine) -> bool:
    """Means of records that are all alike have intervals of their own."""
    return not (engine.about.of_means or engine.about.sums)


def _nothing_random(engine: Engine, totals: Totals) -> bool:
    """Every record lies on the fit; or around the file, where the estimate uses nothing that was perturbed, rounding is all that is left."""
    if _regresses(engine) and not np.any(totals.outer):
        return True
    if totals.strata is None or totals.strata.target != "file":
        return False
    return bool(np.all(np.abs(np.diag(totals.privacy)) <= ROUNDING * np.diag(totals.outer)))


def chosen_inference(options: ChosenInference | None, engine: Engine, nuisance: bool) -> ChosenInference:
    """The inference that was asked for, if the equation has it; where none was, what suits the equation."""
    strata, smooth = engine.sampling.strata, engine.about.smooth
    invertible = engine.about.inverted and not nuisance
    if strata is not None and not smooth and not (invertible and isinstance(options, Woodruff | None)):
        refuse_step_target(strata)
    if isinstance(options, Jackknife):
        _refuse_jackknife(engine, nuisance)
    if isinstance(options, Sandwich) and strata is not None:
        refuse_correction(options)
    if engine.sampling.replications:
        if options is not None:
            raise PramanaError("the design's replicate weights give the variance: leave inference= out")
        return deleted.Replicates()
    if options is None:
        return Woodruff() if invertible else Resampling() if nuisance or not smooth else Sandwich()
    if isinstance(options, Woodruff) and not invertible:
        raise PramanaError(
            "Woodruff's intervals are those of quantiles of a column, without a fitted nuisance model: use inference=Resampling()"
        )
    if isinstance(options, Sandwich):
        _refuse_sandwich(options, engine, nuisance)
    return options


def _refuse_jackknife(engine: Engine, nuisance: bool) -> None:
    if nuisance:
        raise PramanaError("the jackknife does not refit the nuisance model: use inference=Resampling()")
    if engine.sampling.strata is not None and engine.sampling.strata.target == "file":
        raise PramanaError(
            "around the file only the randomisation is uncertain, which no deletion shows: use Sandwich()"
        )


def _refuse_sandwich(options: Sandwich, engine: Engine, nuisance: bool) -> None:
    if nuisance:
        raise PramanaError(
            "a sandwich would ignore the uncertainty of the fitted nuisance model: use inference=Resampling()"
        )
    if not engine.about.smooth:
        quick = "Woodruff() or " if engine.about.inverted else ""
        raise PramanaError(f"a step function has no derivative for the sandwich: use inference={quick}Resampling()")
    if options.interval == "score" and not engine.about.profiled:
        raise PramanaError(
            "score intervals hold every other parameter at its best, which a system of equations does not define: use "
            "Sandwich() or Resampling()"
        )
    if options.interval == "score" and engine.sampling.strata is not None:
        _refuse_sums(engine)


def _linear(engine: Engine, root: Root, chosen: ChosenInference, *, required: bool, split: bool) -> Linear | None:
    sharp = engine.sharp()
    totals = sharp.totals(root.beta, averaged_slope(engine, root))
    if split and engine.sampling.sharing is not None and totals.shared is None:
        totals = replace(totals, shared=sharp.privacy_by_unit(root.beta))
    if _regresses(engine):
        totals = _without_rounding(totals, root.beta)
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


def _covariance(
    engine: Engine, root: Root, linear: Linear | None, chosen: ChosenInference, draws: Draws | None
) -> Float:
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


def _corrected(chosen: ChosenInference, small: SmallSample, draws: Draws | None) -> Float:
    """Of few units: by the sandwich, or of draws that were widened."""
    if isinstance(chosen, Resampling) and draws is not None:
        return resampled.draws_covariance(draws.values, chosen.scale)
    return small.covariance


def _small_sample(chosen: ChosenInference, engine: Engine, root: Root, linear: Linear | None) -> SmallSample | None:
    """What few units change; None where they are many, or where the inference asked for knows nothing of it."""
    plain = isinstance(chosen, deleted.Replicates | Woodruff) or (
        isinstance(chosen, Sandwich) and not chosen.small_sample
    )
    plain = plain or (isinstance(chosen, Resampling) and not chosen.widened)
    if plain or linear is None:
        return None
    always = isinstance(chosen, Sandwich) and chosen.correction == "HC2"
    return small_sample(engine, root.beta, linear, always=always)


def _degrees_of_freedom(chosen: ChosenInference, engine: Engine, small: SmallSample | None) -> float | Float | None:
    """Those of each variance where units are few; else units less strata, for designs and the jackknife, and None for
    large-sample inference."""
    if isinstance(chosen, Woodruff):
        return degrees_of_freedom(engine.sampling)
    if isinstance(chosen, deleted.Replicates):
        return deleted.replicate_degrees_of_freedom(engine.replicate_products())
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


def _mute(linear: Linear, beta: Float) -> Bool:
    """Scores (d,) that are 0 for every record, up to rounding, where the truth behind them cannot be the same for all: the randomisation's
    part is then more than the rounding of squares as large as a parameter's. The square of a number that is 1 or −1 is 1 whatever it was."""
    totals = linear.totals
    outer, privacy = np.diag(totals.outer), np.abs(np.diag(totals.privacy))
    size = (np.diag(totals.slope) * beta) ** 2 / totals.n
    return np.asarray((outer <= ROUNDING**2 * privacy) & (privacy > ROUNDING * size))


def _counts(noisy: Assignment, task: Task) -> bool:
    """Whether noise makes up more than a small part of the variance of released numbers; clamped noise, which depends on them, always does."""
    parts = [part for part in noisy.channel.parts.values() if isinstance(part, AdditiveNoise)]
    spread = max((float(np.max(part.operator.spread)) for part in parts), default=np.inf)
    return spread**2 > NOISY**2 * float(np.var(noisy.encoded(task.table)))


def _judged(task: Task, engine: Engine, root: Root, linear: Linear | None, covariance: Float) -> Identification | None:
    """What the noise has left to estimate; None where no noise is undone, or the equation is a step function."""
    if linear is None or not engine.about.smooth or not any_perturbed(linear.totals):
        return None
    additive = any(_counts(margin, task) for a in task.perturbed if a.channel.levels is None for margin in a.margins)
    return identification(engine, root.beta, linear.totals, covariance, additive=additive)


def _limits(
    interval: Interval,
    own: OwnIntervals,
    chosen: ChosenInference,
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
    if interval.task.options.passes is not None and not engine.resident:
        chosen = unsearched(chosen)
    errors = np.sqrt(np.maximum(np.diag(interval.covariance), 0.0))  # rounding, of what is certain
    extra = None if measured is None else measured.meats
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


def errors_in_words(found: RootUncertainty, engine: Engine) -> str:
    """The inference in words."""
    chosen, limits, small = found.chosen, found.limits, found.small
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
        return f"jackknife{by}, t intervals with {freedom(found.df)}"
    if isinstance(chosen, Woodruff):
        reference = "" if found.df is None else f", t with {freedom(found.df)}"
        return f"Woodruff's intervals{f' ({strata})' if strata else by}{reference}"
    if isinstance(chosen, deleted.Replicates):
        return f"{engine.sampling.replications} replicate weights"
    shown = interval_kinds(limits, engine.about, chosen.interval)
    if engine.sampling.strata is not None:
        return f"linearised for the design ({strata}; around the {engine.sampling.strata.target}), {shown}"
    name = (chosen.correction or ("HC0" if small is None else "HC2")).replace("HC", "CR" if by else "HC")
    t = "" if small is None else f", t with {freedom(small.df)}"
    return f"sandwich ({name}{by}{t}), {shown}"


MANY = 1000
"""Degrees of freedom from which they are shown without decimals."""


def freedom(df: float | Float | None) -> str:
    """Degrees of freedom in words.

    >>> freedom(np.array([888.2, 1893.7])), freedom(12.34), freedom(31_000.0)
    ('888 to 1894 degrees of freedom', '12.34 degrees of freedom', '31,000 degrees of freedom')
    """
    low, high = float(np.min(df)), float(np.max(df))  # type: ignore[arg-type]
    if f"{low:.3g}" == f"{high:.3g}":
        return f"{f'{low:.4g}' if low < MANY else count(round(low))} degrees of freedom"
    ends = (f"{end:.3g}" if end < MANY else count(round(end)) for end in (low, high))
    return f"{' to '.join(ends)} degrees of freedom"

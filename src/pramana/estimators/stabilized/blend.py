"""The method: what it refuses, its estimate between plug-in and reversion, and what the result says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pramana.analysis.task import Inference, Task
from pramana.arrays import Float
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine
from pramana.errors import MechanismError, PramanaError, listing, quoted_terms, too_few
from pramana.estimators.estimate import multiplied, shown_only
from pramana.estimators.free_parameters import FreeChannel
from pramana.estimators.method import Method
from pramana.estimators.remarks import few_clusters, too_few_clusters, wholly_outside
from pramana.estimators.reversion import reverted_records
from pramana.estimators.stabilized.interval import ErrorAt, Hull, error_near, growth_around
from pramana.estimators.stabilized.plug_in import PlugIn
from pramana.estimators.stabilized.released import Regressors, ReleasedLevels, moved_along, released_regression
from pramana.inference import Sandwich, solve
from pramana.mechanism import Assignment
from pramana.models.prediction import Prediction
from pramana.numbers import count
from pramana.result import Result

FADED = 0.05
"""Share of a slope that is left after the step, below which a Newton step is no way to a root."""
LARGE = 0.6
"""Weight of the step from which the data are said to object to the plug-in; by chance T is about d, and w about 1/3."""


@dataclass(frozen=True)
class StabilizedResult(Result):
    """A `Result` with what it was made of.

    Attributes
    ----------
    plug_in, one_step : m and o = m + D (d,).
    evidence : T, the squared size of the step D; about the number of parameters by chance.
    weight : w, the share of the step that was taken.
    projected : share of the records whose probabilities left the simplex.
    """

    plug_in: Float = field(default_factory=lambda: np.empty(0))
    one_step: Float = field(default_factory=lambda: np.empty(0))
    evidence: float = float("nan")
    weight: float = float("nan")
    projected: float = float("nan")

    def to_dict(self, *, exponentiate: bool = False, level: float | None = None) -> dict[str, Any]:
        parts = {
            "plug_in": self.plug_in.tolist(),
            "one_step": self.one_step.tolist(),
            "evidence": self.evidence,
            "weight": self.weight,
            "projected": self.projected,
        }
        return super().to_dict(exponentiate=exponentiate, level=level) | {"stabilized": parts}


@dataclass(frozen=True)
class Stabilized(Method):
    """Reversion for few records or strong noise: never without a root, and at or below its mean squared error.

    For one perturbed variable with levels, or several with few combinations of them; numbers with noise have no levels. The interval is the hull of
    those around the estimate and around the one-step estimate, each with reversion's sandwich error, which around the estimate may grow
    outwards. As the records grow in number nothing is projected any more, and the estimate has reversion's limit.

    Parameters
    ----------
    splines, products : whether the regression of the released levels has natural splines of the numbers, and products of pairs; both are shrunk by a
        ridge whose strength AIC chooses. Without them it has main effects alone.
    ridge : a strength of your own, 0 for none.

    >>> import numpy as np, pramana as pr
    >>> P = pr.TransitionMatrix.binary(sensitivity=0.7, specificity=0.7)
    >>> k = np.arange(400)
    >>> x = -2 + 0.01 * k
    >>> y = (k * 0.618 % 1 < 1 / (1 + np.exp(1 - 2 * x))).astype(int)
    >>> data = {"x": x, "y": np.where(k * 0.377 % 1 < 0.3, 1 - y, y)}
    >>> result = pr.fit("y ~ x", data, pr.Mechanism({"y": P}), family="binomial", method="stabilized")
    >>> bool(0 < result.weight < 1), bool(0 < result.projected < 1)
    (True, True)
    """

    splines: bool = True
    products: bool = True
    ridge: float | None = None
    label: str = "stabilized"

    def __post_init__(self) -> None:
        given = self.ridge
        if given is not None and not (isinstance(given, int | float) and 0 <= given < np.inf):
            raise PramanaError(
                f"ridge={given!r} of Stabilized must be a number from 0 on, or None for the one that AIC chooses"
            )

    @property
    def one_by_one(self) -> bool:
        return True

    def suited(self, inference: Inference | None) -> Inference | None:
        """It has an interval of its own."""
        return inference if isinstance(inference, Sandwich) and inference.interval in ("auto", "wald") else None

    def estimate(self, task: Task) -> StabilizedResult:
        """Regress, project, solve, and step back."""
        task = task.weighing()
        options = _sandwich(task)
        channels = _channels(self, task)
        records = reverted_records(task.function, task.mechanism, task.table, collapse=False)
        reverted = task.engine(task.function.equation(records)).learned()
        _refuse_unsuited(reverted)
        released = ReleasedLevels.of(channels, task)
        plan = Regressors.of(
            records.columns,
            released,
            task.sampling,
            splines=self.splines,
            products=self.products,
            moves=moved_along(reverted.equation, _start(reverted, task), released.reversion.shape[2]),
        )
        regression = released_regression(plan, released, task.sampling, self.ridge)
        plugged = PlugIn.of(reverted, records, released, regression, task)
        return _result(self, task, plugged, options)


# The question and its channels.


def _start(engine: Engine, task: Task) -> Float:
    """Where a search for the root would start: a value at which U can be asked."""
    if task.start is not None:
        return np.asarray(task.start, dtype=float)
    return engine.start(engine.own, lambda easier, under: solve(easier, under).beta)


def _sandwich(task: Task) -> Sandwich:
    """The options of the standard errors; the interval is the method's own."""
    options = Sandwich() if task.options.inference is None else task.options.inference
    if task.sampling.replicates is not None:
        raise PramanaError(
            "the stabilized estimator knows no replicate weights: use a SurveyDesign with strata and clusters, or method='reversion'"
        )
    if not isinstance(options, Sandwich) or options.interval not in ("auto", "wald"):
        kind = options.interval if isinstance(options, Sandwich) else type(options).__name__
        raise PramanaError(
            f"the stabilized estimator has an interval of its own, the hull around two estimates, and no {kind!r}: leave inference= out, or "
            "use method='reversion'"
        )
    return options


def _channels(method: Stabilized, task: Task) -> list[Assignment]:
    """The perturbed columns in use, all of them with levels."""
    function, mechanism = task.function, task.mechanism
    used = [] if mechanism is None else mechanism.used_by(function.variables)
    if not used:
        raise MechanismError(
            f"the {method.label} estimator regresses a perturbed column on the others, and none of {listing(function.variables)} is perturbed: use "
            "method='reversion'"
        )
    if FreeChannel.of(mechanism, function.variables, ()) is not None:
        raise MechanismError(
            f"the {method.label} estimator needs a transition matrix without free parameters: use method='reversion'"
        )
    for assignment in used:
        assignment.refuse_reports(f"the {method.label} estimator has a model of the released levels")
        if assignment.channel.levels is None:
            raise MechanismError(
                f"the {method.label} estimator needs levels, and {listing(assignment.columns)} is a number with noise "
                f"({assignment.channel.title}): use method='reversion'"
            )
    return used


def _refuse_unsuited(engine: Engine) -> None:
    about, held = engine.about, min(engine.n, engine.sampling.present)
    if not about.smooth or about.whole:
        raise PramanaError(
            f"the stabilized estimator takes a step along the slope of the equation, and that of {quoted_terms(about.parameters[:1])} is a step function or rests on "
            "ranks: use method='reversion'"
        )
    if held <= engine.d:
        raise too_few(held, engine.d)


# The result.


def _result(method: Stabilized, task: Task, plugged: PlugIn, options: Sandwich) -> StabilizedResult:
    engine, about = plugged.reverted, plugged.reverted.about
    (t, size), w = plugged.evidence, plugged.weight
    b, o = plugged.m + w * plugged.step, plugged.m + plugged.step
    own, other = error_near(plugged, b, options), error_near(plugged, o, options)
    growth = growth_around(plugged, b, own.errors)
    limits = Hull(
        np.stack([b, o]),
        np.stack([own.errors, other.errors]),
        np.stack([own.df, other.df]),
        np.stack([growth, np.zeros_like(growth)]),
        options.level,
    )
    result = StabilizedResult(
        parameters=about.parameters,
        estimate=b,
        covariance=own.covariance,
        n=engine.n,
        method=method.label,
        inference=_in_words(engine, own, options),
        interval_kind=limits.kind,
        diagnostics=(*task.notes, *_remarks(plugged, own, options, b)),
        unsplit="that takes method='reversion'",
        limits=limits,
        facts={
            **task.plan.facts,
            **task.facts,
            **about.facts,
            "Released levels on": plugged.regression.words,
            "Records projected": f"{plugged.moved:.1%}",
            "Weight of the step": f"w = {w:.3f} (T = {t:.3g}, {size} directions)",
        },
        frame_kind=task.table.kind,
        df=None if np.isinf(own.df).all() else own.df,
        exponentials=about.exponentials,
        log_scale=task.plan.log_scale,
        model=Prediction.of(task.function.prediction),
        plug_in=plugged.m,
        one_step=o,
        evidence=t,
        weight=w,
        projected=plugged.moved,
    )
    return _shown(result, engine)


def _shown(result: StabilizedResult, engine: Engine) -> StabilizedResult:
    """In the unit and for the parameters that a result lists, with m and o among its facts."""
    about = engine.about
    size = 1.0 if about.size is None else about.size
    found: Any = result if about.size is None else multiplied(result, size)
    found = found if about.shown is None else shown_only(found, about.shown)
    kept = [result.parameters.index(name) for name in found.parameters]
    m, o = result.plug_in[kept] * size, result.one_step[kept] * size
    facts = {**found.facts, "Plug-in m": _listed(found.parameters, m), "One step o": _listed(found.parameters, o)}
    found = replace(found, plug_in=m, one_step=o, facts=facts)
    return replace(found, diagnostics=(*found.diagnostics, *wholly_outside(engine, found)))


def _listed(names: Sequence[str], values: Float, most: int = 6) -> str:
    shown = ", ".join(f"{name} {value:.4g}" for name, value in zip(names[:most], values, strict=False))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _in_words(engine: Engine, error: ErrorAt, options: Sandwich) -> str:
    sampling = engine.sampling
    by = "" if sampling.groups is None else f", {sampling.groups} clusters"
    if sampling.strata is not None:
        kind = f"linearised for the design ({len(sampling.strata.fraction)} strata, {sampling.groups} sampling units)"
    else:
        name = options.correction or ("HC2" if error.corrected else "HC0")
        kind = f"reversion's sandwich ({name.replace('HC', 'CR') if by else name}{by})"
    return f"{kind}, hull of the intervals around estimate and one step"


def _remarks(plugged: PlugIn, own: ErrorAt, options: Sandwich, b: Float) -> list[Diagnostic]:
    """What the analyst should know."""
    engine, plan, w = plugged.reverted, plugged.regression.plan, plugged.weight
    out = [Diagnostic(*note) for note in engine.remarks(b, own.covariance)]  # type: ignore[arg-type]
    if plan.left:
        message = f"the regression of the released levels was made smaller, for {count(engine.n)} records: without {plan.left}"
        out.append(Diagnostic("smaller-regression", "info", message))
    if plugged.regression.shrunk_all:
        message = (
            "the clean variables separate the released levels, so that their main effects were shrunk too (ridge "
            f"{plugged.regression.strength:g}): some levels are rare, or a variable tells them apart"
        )
        out.append(Diagnostic("separation", "warning", message))
    lost = [name for name, share in zip(engine.about.parameters, plugged.left, strict=True) if not share > FADED]
    if lost:
        message = (
            f"too noisy to trust: at the end of the step back to reversion the data say next to nothing of {quoted_terms(lost)} (less than {FADED:.0%} of what they "
            "say at the plug-in), so that the step leads anywhere; read the interval, or use more records, merged levels or fewer terms"
        )
        out.append(Diagnostic("weakly-identified", "warning", message))
    if w > LARGE:
        message = (
            f"the released data object to the plug-in (T = {plugged.evidence[0]:.3g} in {plugged.evidence[1]} directions, w = {w:.2f}): the estimate is "
            "close to reversion's one step, and little is gained over method='reversion'"
        )
        out.append(Diagnostic("plug-in-rejected", "info", message))
    if engine.sampling.strata is not None:
        return out
    groups = engine.sampling.live_groups
    return out + (
        too_few_clusters(groups) if options.small_sample else few_clusters(groups, "use inference=pr.Sandwich()")
    )

"""From a bound equation to a Result: solve, infer, and say what the analyst should know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pramana.analysis.shared_draws import SHARED_DRAWS
from pramana.analysis.task import Settings, Task
from pramana.arrays import Float
from pramana.blas import sparing
from pramana.engines import Engine, LocalEngine
from pramana.engines.sampling import Sampling
from pramana.engines.streaming import StreamEngine
from pramana.errors import SolveError, too_few
from pramana.estimating.function import Question
from pramana.estimators.method import Binding, EquationMethod, Method
from pramana.estimators.one_step import DIRECT, one_pass, one_step
from pramana.estimators.remarks import STEADIER, remarks, wholly_outside
from pramana.estimators.uncertainty import ChosenInference, chosen_inference, errors_in_words, uncertainty, unsplit
from pramana.inference import Sandwich, solve
from pramana.inference.solve import Root
from pramana.models.prediction import Prediction
from pramana.result import Result, Shares


@dataclass(frozen=True)
class Solved:
    """The equation of a task at its root.

    Attributes
    ----------
    whole : why its variance does not decompose; empty where it does. chosen : the kind of inference.
    """

    binding: Binding
    engine: Engine
    whole: str
    chosen: ChosenInference
    root: Root


def solved(method: EquationMethod, task: Task) -> Solved:
    """Bind and solve."""
    function, mechanism = task.function, task.mechanism  # the task itself, with its records, does not travel to workers
    binding, engine = task.bound(lambda table, weights: method.bind(function, mechanism, table, weights))
    binding = replace(binding, notes=(*binding.notes, *method.checked(engine)))
    asked = task.options.inference
    once = task.options.passes is not None and not engine.resident
    asked = one_pass(asked, engine) if once else asked
    engine = engine.learned()
    _refuse_few(engine)
    whole = unsplit(method, task, engine)
    chosen = chosen_inference(asked, engine, binding.rebind is not None)
    if once and engine.equation.direct is not None:
        binding = replace(binding, facts={**binding.facts, "Passes": DIRECT})
    elif once and isinstance(engine, StreamEngine):
        root, facts = one_step(engine, binding.begun(task.start))
        return Solved(replace(binding, facts={**binding.facts, **facts}), engine, whole, chosen, root)
    try:
        root = solve(engine, start=binding.begun(task.start))
    except SolveError as error:
        if not _steadier(method, task, engine):
            raise
        raise SolveError(f"{error.marked}; or use {STEADIER}") from None
    return Solved(binding, engine, whole, chosen, root)


def _steadier(method: Method, task: Task, engine: Engine) -> bool:
    """Whether method 'stabilized' answers the same question: perturbed columns with levels, and a smooth equation that adds up over records."""
    if not method.reverts or task.domain is not None or not engine.resident:
        return False
    used = task.perturbed
    leveled = all(a.channel.levels is not None and not a.reports for a in used)
    known = not engine.about.free and not engine.sampling.replications
    return bool(used) and leveled and known and engine.about.smooth and not engine.about.whole


def estimate(method: EquationMethod, task: Task) -> Result:
    """Bind, solve, and attach the uncertainty."""
    with sparing(len(task.function.parameters)):
        return answer(method, task, solved(method, task))


def answer(method: EquationMethod, task: Task, at: Solved) -> Result:
    """The result of an equation that is solved."""
    binding, engine, whole, chosen, root = at.binding, at.engine, at.whole, at.chosen, at.root
    found = uncertainty(method, task, engine, root, chosen, binding.rebind, split=not whole)
    parts, about = found.linear if method.reverts else None, engine.about
    result = Result(
        parameters=about.parameters,
        estimate=engine.debiased(root.beta, found.large),
        covariance=found.covariance,
        n=engine.n,
        method=method.label,
        inference=errors_in_words(found, engine),
        interval_kind=found.kind,
        diagnostics=(
            *(note for note in task.notes if not (method.takes_as_true and note.code == SHARED_DRAWS)),
            *binding.notes,
            *remarks(
                engine, root, found, split=parts is not None and not whole, steadier=_steadier(method, task, engine)
            ),
        ),
        privacy=None if parts is None or whole else parts.privacy,
        unsplit=whole,
        sampling=None if parts is None else parts.covariance,
        draws=found.draws,
        limits=found.limits,
        facts={**task.plan.facts, **task.facts, **binding.facts, **engine.facts, **_sum_of_weights(engine)},
        frame_kind=task.table.kind,
        df=found.df,
        shares=_shares(engine),
        exponentials=about.exponentials,
        free=about.free,
        log_scale=task.plan.log_scale,
        model=Prediction.of(task.function.prediction),
        grid=task.function.grid,
        explained=_explained(method, task, engine, root.beta),
    )
    result = result if found.measured is None or found.added is None else found.measured.told(result, found.added)
    result = result if about.size is None else multiplied(result, about.size)
    result = result if about.shown is None else shown_only(result, about.shown)
    own = result.estimate[: len(result.estimate) - len(about.free)]
    return replace(
        result,
        diagnostics=(*result.diagnostics, *wholly_outside(engine, result)),
        again=MarginsAgain.of(method, task, own),
    )


def _explained(method: EquationMethod, task: Task, engine: Engine, beta: Float) -> float | None:
    """R² = 1 − Σ w {(y − xᵀβ)²}* / Σ w {(y − ȳ)²}* of a linear model with an intercept; None elsewhere, and where it is not between 0 and 1.

    At the root Σ w {(y − xᵀβ)²}* is Σ w (y²)* less βᵀ Σ w (xy)*, and with β = 0 in U these are the square of the intercept and the score.
    """
    known = (method.reverts or method.takes_as_true) and task.learned is None
    if not known or not engine.about.linear:
        return None
    weights, place = engine.sampling.row_weights, engine.about.parameters.index("Intercept")
    counts = None if engine.sampling.plain else weights  # where a variance takes w² of weights, w of counts is wanted
    at_zero = LocalEngine(engine.equation, Sampling(engine.equation.n, frequencies=counts)).totals(np.zeros(beta.size))
    second, first = float(at_zero.clean_outer[place, place]), float(at_zero.score[place])
    spread, left = second - first**2 / float(weights.sum()), second - float(beta @ at_zero.score)
    return 1 - left / spread if 0 <= left <= spread and spread > 0 else None


def _refuse_few(engine: Engine) -> None:
    held = min(engine.n, engine.sampling.present)
    if held <= engine.d:
        raise too_few(held, engine.d)


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

    def __call__(
        self, variables: Sequence[str], data: Any, at: Mapping[str, Any] | None, given: Mapping[str, Any]
    ) -> Result:
        plan = self.plan.margins(variables, self.estimate, at)
        assert plan is not None
        from pramana.estimators.two_way import estimated

        return estimated(self.method, self.settings.task(plan, data, given))


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
    whole = engine.sampling.total if about.sums else 1.0
    return Shares(about.tables, whole if about.size is None else about.size)


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


def _sum_of_weights(engine: Engine) -> dict[str, str]:
    """What a total is to be read with."""
    return {"Sum of weights": f"{engine.sampling.total:g}"} if engine.about.sums else {}

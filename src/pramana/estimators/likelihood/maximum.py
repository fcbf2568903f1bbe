"""Maximum likelihood for generalised linear models with perturbed response, covariates or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from pramana.analysis.reading import Stream
from pramana.analysis.streaming import TEXTS, WHOLE
from pramana.analysis.task import Inference, Task
from pramana.arrays import Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines import Sampling
from pramana.errors import PramanaError, SolveError
from pramana.estimating import Equation, EstimatingFunction
from pramana.estimators.corrections import ForwardCorrection
from pramana.estimators.likelihood.climbing import BlockLikelihood, Climber, Top
from pramana.estimators.likelihood.covariate_model import (
    ABSENT,
    CovariateCounts,
    CovariatePlan,
    covariate_plan,
    parsed_terms,
)
from pramana.estimators.likelihood.hidden_data import HiddenData, checked_model, entries_of_record, hidden_data
from pramana.estimators.likelihood.maximization import Maximum
from pramana.estimators.likelihood.observed import ObservedLikelihood
from pramana.estimators.likelihood.outcome import LikelihoodResult
from pramana.estimators.likelihood.starts import LARGE, SCATTERED, Search, explored, maximize, other_maxima, scattered
from pramana.estimators.likelihood.variance import (
    FaceValue,
    Robust,
    cluster_remarks,
    faint_channels,
    inverse_information,
    kind_of_errors,
    refuse_few,
    robust_covariance,
    robust_of,
    score_sums,
    weak_directions,
)
from pramana.estimators.method import Method
from pramana.estimators.reversion import Reversion
from pramana.estimators.tables.likelihood import as_table, table_result
from pramana.formulas.design import Offset
from pramana.formulas.parsed import ParsedFormula
from pramana.frames import Table
from pramana.inference import Jackknife, Sandwich, solve
from pramana.inference.hypotheses import SpecificationTest
from pramana.mechanism import Mechanism
from pramana.models.prediction import Prediction
from pramana.parameters.tables import CrossTableFunction


@dataclass(frozen=True)
class Likelihood(Method):
    """Maximise Σ_i log Σ_c Pr(z*_i | c) f(y_c | x_c; β) g(c | w_i; γ) over the values c behind the released ones.

    More precise than reversion where the whole model is right, inconsistent where it is not: `specification_test`
    compares the two. Standard errors come from the observed information; `inference=Sandwich()` gives robust ones, and
    they are the default with weights or clusters, where the likelihood is a pseudo-likelihood; with a survey design they
    are linearised for it, around the superpopulation. The distribution g of
    perturbed covariates is estimated along; a perturbed response alone needs none. Under strong noise the likelihood can
    have several maxima: then up to 54 starts are tried (`starts.py`), the best maximum is kept, and another within reach is
    named in a diagnostic. With `start=` in `fit` the climb begins there alone. Of records that are read in blocks, starts are tried on a
    sample, and the best of its maxima are climbed to over all records; where these leave a doubt, all starts are (`climbing.py`). After Woo and Slavković (2012, 2015),
    and for linear models van den Hout and Kooiman (2006).

    Parameters
    ----------
    covariate_model : how perturbed covariates depend on the clean ones: "saturated" (a table for each cell of the clean
        covariates), or the terms of a multinomial logit such as "age + sex". By default saturated when the clean
        covariates form few, well filled cells, else a multinomial logit in their main effects.
    covariates : perturbed columns outside the formula to be part of the likelihood all the same, so that `lr_test`
        can compare the fit with a larger one that uses them.

    >>> import numpy as np, pramana as pr
    >>> P = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)
    >>> data = {"y": np.repeat([0, 1, 0, 1], [300, 200, 150, 350]), "x": np.repeat([0, 1], 500)}
    >>> result = pr.fit("y ~ x", data, pr.Mechanism({"y": P}), family="binomial", method=pr.Likelihood())
    >>> result.estimate.round(4)
    array([-0.9163,  1.8326])
    >>> round(result.log_likelihood, 2), result.parameter_count
    (-641.94, 2)
    """

    covariate_model: str | None = None
    covariates: tuple[str, ...] = ()
    label: str = "likelihood"

    def __post_init__(self) -> None:
        if self.covariate_model is not None and not isinstance(self.covariate_model, str):
            raise PramanaError(
                f"covariate_model={self.covariate_model!r} must be 'saturated' or terms such as 'age + sex'"
            )
        _ = self.formulas  # its terms are read at the door
        names = (self.covariates,) if isinstance(self.covariates, str) else tuple(self.covariates)
        object.__setattr__(self, "covariates", names)

    def suited(self, inference: Inference | None) -> Inference | None:  # noqa: ARG002
        """A likelihood has its own errors."""
        return None

    @property
    def has_model(self) -> bool:
        return True

    @property
    def streams(self) -> bool:
        return True

    @property
    def formulas(self) -> tuple[ParsedFormula, ...]:
        return () if self.covariate_model in (None, "saturated") else (parsed_terms(self.covariate_model),)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.covariates

    def with_covariate_model(self, text: str) -> Likelihood:
        return replace(self, covariate_model=text)

    def bind_each(
        self, function: EstimatingFunction, mechanism: Mechanism | None, table: Table, groups: int, device: str = "cpu"
    ) -> Equation:
        """The likelihood equation of a perturbed binary response, which is that of the forward correction."""
        return ForwardCorrection().bind_each(function, mechanism, table, groups, device)

    def specification(self, task: Task) -> SpecificationTest:
        from pramana.estimators.likelihood.specification import specification

        return specification(self, task)

    def estimate(self, task: Task) -> LikelihoodResult:
        """Fit, with standard errors and diagnostics."""
        task = replace(task.weighing(), plan=task.plan.likelihood)
        function, sampling, options = task.function, task.sampling, task.options.inference
        if isinstance(options, Jackknife) or sampling.replications:
            raise PramanaError("the likelihood knows no jackknife and no replicate weights: use method='reversion'")
        table = as_table(function)
        if table is not None:
            return _tabulated(table, task)
        if task.options.passes is not None and task.learned is not None:
            raise PramanaError(
                "passes=1 takes a Newton step of an estimating equation, and a likelihood climbs from several maxima of a sample to the highest of all "
                "records, in four to six passes where the noise leaves no doubt: leave passes= out, or use method='reversion'"
            )
        robust = robust_of(options, sampling)
        refuse_few(sampling, len(function.parameters))
        fitted = fitted_in_memory(self, task, robust) if task.learned is None else fitted_in_blocks(self, task, robust)
        model, search, spread = fitted.model, fitted.search, fitted.spread
        function, theta = model.data.function, search.best.theta
        d = len(function.parameters)
        value, count = search.best.value, model.size(theta)
        return LikelihoodResult(
            parameters=function.parameters,
            estimate=theta.beta,
            covariance=spread.covariance[:d, :d],
            n=sampling.n,
            method=self.label,
            inference=kind_of_errors(robust, sampling, spread.small, d),
            df=spread.degrees_of_freedom(sampling, d),
            diagnostics=(*task.notes, *_diagnostics(self, fitted, task, robust)),
            facts={**task.plan.facts, **fitted.read.facts, **_figures(fitted, sampling), **search.facts},
            frame_kind=task.table.kind,
            log_likelihood=value,
            parameter_count=count,
            dispersion=theta.dispersion if model.data.density.dispersed else None,
            pseudo=sampling.pseudo,
            content=_content(model.data, model.covariates.description),
            model=Prediction.of(function.prediction),
            log_scale=task.plan.log_scale,
        )


@dataclass(frozen=True)
class FittedMaximum:
    """A maximum and its variance.

    Attributes
    ----------
    read, model : of the records in memory, all of them or a sample.
    search : the maxima of all records.
    inverse : of the observed information.
    face : the information of the released values at face value (d, d).
    """

    read: Task
    model: ObservedLikelihood
    search: Search
    inverse: Float
    spread: Robust
    face: Float


def fitted_in_memory(method: Likelihood, task: Task, robust: Sandwich | None) -> FittedMaximum:
    model = observed_likelihood(method, task)
    search = searched(model, task)
    found = search.best
    inverse = inverse_information(found.information)
    spread, state = Robust(inverse, None), model.evaluate(found.theta)
    if robust is not None:
        sums = score_sums(model, state, task.sampling, task.sampling.groups or 0)
        spread = robust_covariance(sums, inverse, task.sampling, robust, len(found.theta.beta))
    return FittedMaximum(task, model, search, inverse, spread, FaceValue.of(model, state).information)


def fitted_in_blocks(method: Likelihood, task: Task, robust: Sandwich | None) -> FittedMaximum:
    few = sampled(method, task)
    climber, search, top = climbed(method, task, few, robust is not None)
    inverse = inverse_information(top.sums.information)
    spread = Robust(inverse, None)
    if robust is not None:
        spread = robust_covariance(climber.score_sums(top), inverse, task.sampling, robust, len(top.theta.beta))
    return FittedMaximum(few, climber.sample, search, inverse, spread, top.sums.face.information)


def climbed(method: Likelihood, task: Task, few: Task, robust: bool) -> tuple[Climber, Search, Top]:
    """The maximum of records that are read in blocks, whether scores are summed there or not: all starts are tried on a sample of the
    records, the task `few`, and the best of its maxima are climbed to over all of them, together. Where all records leave a doubt, all
    starts are tried on them."""
    climber = streamed(method, task, few, robust)
    model = climber.sample
    tried = explored(model, few.start, root=lambda: _reverted(few), scale=worth(few.sampling))
    clear = not tried.doubtful or few.table.n == task.sampling.rows or climber.is_clear()
    starts = tried.finalists(worth(few.sampling), clear)
    if clear:
        tops, ends = climber.climbed(starts)
    else:
        starts += [state.theta for state in islice(scattered(model, model.evaluate(starts[-1])), SCATTERED)]
        tops, ends = climber.searched(starts)
    if not tops:
        raise climber.refusal(max(ends, key=lambda reached: reached.value))
    found = Search.of([top.maximum for top in tops], ends, tried.tried, climber.followers)
    top = climber.finished(next(top for top in tops if top.theta is found.best.theta))
    passes = f"{len(starts)} over all records in {climber.passes} passes"
    where = f", on a random sample of {few.table.n} records, then {passes}"
    return climber, replace(found, climbed=len(tried.maxima) + len(tried.failures), where=where), top


def sampled(method: Likelihood, task: Task) -> Task:
    """The sample of records that are read in blocks as a task of its own, of no more records than all starts can be tried on, and those that show
    a level."""
    learned = task.learned
    assert learned is not None
    n, shown = learned.table.n, learned.shown
    most = max(1, int(LARGE // entries_of_record(task.function, task.mechanism, method.covariates)))
    rows = np.concatenate([np.arange(0, n - shown, max(1, -(-n // most))), np.arange(n - shown, n)])
    read = {*task.function.variables, *(name for formula in method.formulas for name in formula.covariates)}
    rows = _with_every_level(rows, learned.table, sorted(read.difference(_perturbed(task))))
    weights, counts = (None if v is None else v[rows] for v in (learned.few.weights, learned.few.frequencies))
    sampling = Sampling(rows.size, weights, counts)
    few = replace(task, table=task.table.take(rows), sampling=sampling, learned=None).weighing()
    return replace(few, table=replace(few.table, learned=task.table.learned))


def _with_every_level(rows: Int, table: Table, names: Sequence[str]) -> Int:
    """Places of some records, and of the first record of every level that these lack."""
    import pandas as pd

    out = rows
    for name in names if len(rows) < table.n else ():
        values = table.column(name)
        if values.dtype.kind == "f":
            continue
        codes = pd.factorize(values)[0]
        found, first = np.unique(codes, return_index=True)
        if len(found) <= (TEXTS if values.dtype.kind == "O" else WHOLE):
            out = np.union1d(out, first[~np.isin(found, codes[rows])])
    return out


def streamed(method: Likelihood, task: Task, few: Task, robust: bool) -> Climber:
    """The likelihood of all records, and that of a sample of them."""
    learned = task.learned
    assert learned is not None
    data = _hidden_data(method, few, task.sampling.n)
    seen = _seen_in_blocks(method, data, learned.stream, task.sampling.n)
    plan = _plan(method, data, seen, few, task.table)
    own, places = plan.among(few.table)
    block = BlockLikelihood(data.function, task.mechanism, plan, method.covariates, task.sampling.n)
    sample = ObservedLikelihood(data, own.of(few.table), few.sampling.row_weights)
    return Climber(sample, places, block, learned.stream, learned.sampling, robust)


def _seen_in_blocks(method: Likelihood, data: HiddenData, stream: Stream, records: float) -> CovariateCounts:
    """What all records tell of the clean covariates: a pass, unless a formula says how they matter, or they are numbers of many values."""
    seen, names = CovariateCounts.of(data.clean, data.n), tuple(data.clean)
    saturated = method.covariate_model == "saturated"
    if not data.hides_covariates or method.formulas or (seen.many_valued and not seen.levels and not saturated):
        return replace(seen, records=records)
    cells = saturated or not seen.many_valued

    def told(table: Table, sampling: Sampling) -> CovariateCounts | None:
        live = sampling.row_weights > 0
        if not live.any():
            return None
        clean = {name: table.column(name)[live] for name in names}
        counts = None if sampling.frequencies is None else sampling.frequencies[live]
        return CovariateCounts.of(clean, int(live.sum()), counts, cells=cells)

    return stream.summed(told)


def _tabulated(function: CrossTableFunction, task: Task) -> LikelihoodResult:
    """A table has no regression: its likelihood is maximised over the simplex."""
    if task.learned is not None:
        raise PramanaError(
            "a maximum-likelihood table is counted in memory, and the records do not fit there: raise memory=, or use method='reversion'"
        )
    if task.sampling.pseudo or task.options.inference is not None:
        raise PramanaError(
            "a maximum-likelihood table takes frequencies, but no weights, clusters or inference=: use method='reversion'"
        )
    return table_result(function, task)


def searched(model: ObservedLikelihood, task: Task) -> Search:
    """The maximum of a task's likelihood, and what else was seen on the way."""
    return maximize(model, task.start, root=lambda: _reverted(task), scale=worth(task.sampling))


def worth(sampling: Sampling) -> float:
    """Records that a unit of weight stands for."""
    return sampling.effective_n / sampling.total


def _reverted(task: Task) -> Float | None:
    """Reversion's root, which knows nothing of the likelihood's model; None where there is none."""
    binding = Reversion().bind(task.function, task.mechanism, task.table, task.sampling.row_weights)
    try:
        return solve(task.engine(binding.equation).learned()).beta
    except SolveError:
        return None


def observed_likelihood(method: Likelihood, task: Task) -> ObservedLikelihood:
    """The likelihood of a table under a formula's model."""
    counts = task.sampling.frequencies
    data = _hidden_data(method, task, task.table.n if counts is None else float(counts.sum()))
    plan = _plan(method, data, CovariateCounts.of(data.clean, data.n, counts), task)
    return ObservedLikelihood(data, plan.of(task.table), task.sampling.row_weights)


def _hidden_data(method: Likelihood, task: Task, records: float) -> HiddenData:
    strange = [c for c in method.covariates if c not in _perturbed(task)]
    if strange:
        raise PramanaError(f"covariates={method.covariates!r}: {strange[0]!r} is not a perturbed column")
    return hidden_data(task.function, task.mechanism, task.table, method.covariates, records)


def _plan(
    method: Likelihood, data: HiddenData, seen: CovariateCounts, task: Task, levels: Table | None = None
) -> CovariatePlan:
    """For a task's records; `levels` are the records of which terms learn their levels, where these are more."""
    forbidden = (*checked_model(data.function)[1], *_perturbed(task))
    return covariate_plan(method.covariate_model, seen, len(data.combinations), task.table, forbidden, levels)


def _perturbed(task: Task) -> tuple[str, ...]:
    return () if task.mechanism is None else tuple(task.mechanism.columns)


def _figures(fitted: FittedMaximum, sampling: Sampling) -> dict[str, str]:
    """What the head of the result says of the fit."""
    model, best = fitted.model, fitted.search.best
    out = {"Covariate model": model.covariates.description} if model.data.hides_covariates else {}
    if model.data.density.dispersed:
        out["Dispersion"] = f"{best.theta.dispersion:.6g}"
    count = model.size(best.theta)
    out["Pseudo-log-likelihood" if sampling.pseudo else "Log-likelihood"] = f"{best.value:.4f} ({count} parameters)"
    return out if sampling.pseudo else {**out, "AIC": f"{2 * (count - best.value):.4f}"}


def _diagnostics(method: Likelihood, fitted: FittedMaximum, task: Task, robust: Sandwich | None) -> list[Diagnostic]:
    """What the analyst should know of the model, the search and the signal."""
    model, sampling, assignments = fitted.model, task.sampling, task.mechanism.assignments if task.mechanism else ()
    parameters = model.data.function.parameters
    d = len(parameters)
    faint = weak_directions(parameters, fitted.face, fitted.inverse[:d, :d], sampling.n)
    return [
        *_of_the_model(method, model, fitted.search.best, task),
        *other_maxima(model, fitted.search, worth(sampling)),
        *cluster_remarks(sampling, robust),
        *(faint or faint_channels(model, assignments, sampling.n)),
    ]


def _of_the_model(method: Likelihood, model: ObservedLikelihood, found: Maximum, task: Task) -> list[Diagnostic]:
    out = []
    absent = int(np.sum(found.theta.gamma <= ABSENT)) if model.data.hides_covariates else 0
    if absent:
        message = (
            f"{absent} probabilit{'ies' if absent > 1 else 'y'} of the covariate model lie at zero, the edge of what is possible; "
            "the standard errors hold them fixed"
        )
        out.append(Diagnostic("boundary", "warning", message))
    strata = [c for a in (task.mechanism.assignments if task.mechanism else ()) for c in a.channel.context]
    left_out = [c for c in strata if model.data.hides_covariates and not _regards(method.covariate_model, c)]
    if left_out:
        message = f"the randomisation depends on {left_out[0]!r}, which covariate_model leaves out: the fit assumes that it says nothing about the perturbed covariates"
        out.append(Diagnostic("stratum-ignored", "warning", message))
    return out


def _regards(covariate_model: str | None, column: str) -> bool:
    """Whether perturbed covariates may depend on a clean column: all but a list of terms without it let them."""
    if covariate_model is None or covariate_model == "saturated":
        return True
    return column in parsed_terms(covariate_model).covariates


def _content(data: HiddenData, description: str) -> tuple[str, ...]:
    """What the likelihood is a likelihood of: fits are comparable only when this is equal."""
    covariates = sorted(data.combinations[0])
    family, offset = data.function.family, data.function.offset_of
    return (
        data.function.label,
        f"{family.name}, {family.link} link",
        *(offset.expressions if isinstance(offset, Offset) else ()),
        *covariates,
        *([description] if covariates else []),
    )

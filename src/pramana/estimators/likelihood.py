"""Maximum likelihood for generalised linear models with perturbed response, covariates or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pramana.arrays import Float, Int
from pramana.errors import DataError, PramanaError, SolveError
from pramana.estimating import EstimatingFunction
from pramana.estimating.tables import CrossTableFunction
from pramana.estimators.binding import Binding
from pramana.estimators.corrections import ForwardCorrection
from pramana.estimators.covariate_model import ABSENT, covariate_model
from pramana.estimators.hidden_data import HiddenData, checked_model, hidden_data
from pramana.estimators.information_left import weak_directions
from pramana.estimators.likelihood_result import LikelihoodResult
from pramana.estimators.maximization import Maximum, maximize
from pramana.estimators.observed_likelihood import ObservedLikelihood
from pramana.estimators.remarks import few_clusters
from pramana.estimators.table_result import as_table, table_result
from pramana.frames import Table
from pramana.inference import Resampling, Sandwich
from pramana.inference.survey import Stratification, refuse_correction
from pramana.mechanism import Mechanism
from pramana.result import Diagnostic


class Task(Protocol):
    """The checked data of a fit."""

    @property
    def table(self) -> Table: ...
    @property
    def mechanism(self) -> Mechanism | None: ...
    @property
    def weights(self) -> Float | None: ...
    @property
    def frequencies(self) -> Float | None: ...
    @property
    def clusters(self) -> Int | None: ...
    @property
    def strata(self) -> Stratification | None: ...
    @property
    def notes(self) -> tuple[Diagnostic, ...]: ...


@dataclass(frozen=True)
class Likelihood:
    """Maximise Σ_i log Σ_c Pr(z*_i | c) f(y_c | x_c; β) g(c | w_i; γ) over the values c behind the released ones.

    More precise than reversion where the whole model is right, inconsistent where it is not: `specification_test`
    compares the two. Standard errors come from the observed information; `inference=Sandwich()` gives robust ones, and
    they are the default with weights or clusters, where the likelihood is a pseudo-likelihood; with a survey design they
    are linearised for it, around the superpopulation. The distribution g of
    perturbed covariates is estimated along; a perturbed response alone needs none. Under strong noise the likelihood can
    have several maxima: `start=` in `fit` tries another. After Woo and Slavković (2012, 2015),
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
    reverts: bool = False

    def __post_init__(self) -> None:
        if self.covariate_model is not None and not isinstance(self.covariate_model, str):
            raise PramanaError(
                f"covariate_model={self.covariate_model!r} must be 'saturated' or terms such as 'age + sex'"
            )
        names = (self.covariates,) if isinstance(self.covariates, str) else tuple(self.covariates)
        object.__setattr__(self, "covariates", names)

    def bind(self, function: EstimatingFunction, mechanism: Mechanism | None, table: Table, weights: Float) -> Binding:
        """The likelihood equation of a perturbed binary response, which is that of the forward correction."""
        return ForwardCorrection().bind(function, mechanism, table, weights)

    def maximize(
        self,
        function: EstimatingFunction,
        task: Task,
        options: object,
        start: Float | None,
        facts: Mapping[str, str],
    ) -> LikelihoodResult:
        """Fit, with standard errors and diagnostics."""
        table = as_table(function)
        if table is not None:
            return _tabulated(table, task, options, facts)
        robust = _robust(options, task)
        model = observed_likelihood(self, function, task.mechanism, task.table, _row_weights(task), task.frequencies)
        _refuse_few(task, len(function.parameters))
        found = maximize(model, start)
        inverse = _inverse(found.information)
        covariance = inverse if robust is None else _robust_covariance(model, found, inverse, task, robust)
        d, theta = len(function.parameters), found.theta
        dispersion = {"Dispersion": f"{theta.dispersion:.6g}"} if model.data.density.dispersed else {}
        model_of = {"Covariate model": model.covariates.description} if model.data.hides_covariates else {}
        value, count = found.state.value, model.size(theta)
        pseudo = task.weights is not None or task.clusters is not None
        named = "Pseudo-log-likelihood" if pseudo else "Log-likelihood"
        figures = {named: f"{value:.4f} ({count} parameters)"} | (
            {} if pseudo else {"AIC": f"{2 * (count - value):.4f}"}
        )
        return LikelihoodResult(
            parameters=function.parameters,
            estimate=theta.beta,
            covariance=covariance[:d, :d],
            n=_records(task),
            method=self.label,
            inference=_describe(robust, task),
            df=_degrees_of_freedom(task),
            diagnostics=(
                *task.notes,
                *_diagnostics(self, model, found, task),
                *_few_clusters(task),
                *weak_directions(model, found, inverse[:d, :d], _records(task)),
            ),
            facts={**facts, **model_of, **dispersion, **figures},
            frame_kind=task.table.kind,
            log_likelihood=value,
            parameter_count=count,
            dispersion=theta.dispersion if model.data.density.dispersed else None,
            pseudo=pseudo,
            content=_content(model.data, model.covariates.description),
        )


def _tabulated(function: CrossTableFunction, task: Task, options: object, facts: Mapping[str, str]) -> LikelihoodResult:
    """A table has no regression: its likelihood is maximised over the simplex."""
    if task.weights is not None or task.clusters is not None or options is not None:
        raise PramanaError(
            "a maximum-likelihood table takes frequencies, but no weights, clusters or inference=: use method='reversion'"
        )
    counts = np.ones(task.table.n) if task.frequencies is None else task.frequencies
    return table_result(
        function,
        task.mechanism,
        task.table,
        counts,
        facts=facts,
        notes=task.notes,
        frame_kind=task.table.kind,
    )


def observed_likelihood(
    method: Likelihood,
    function: EstimatingFunction,
    mechanism: Mechanism | None,
    table: Table,
    weights: Float,
    counts: Float | None = None,
) -> ObservedLikelihood:
    """The likelihood of a table under a formula's model."""
    _, answers = checked_model(function)
    known = tuple(mechanism.columns) if mechanism is not None else ()
    strange = [c for c in method.covariates if c not in known]
    if strange:
        raise PramanaError(f"covariates={method.covariates!r}: {strange[0]!r} is not a perturbed column")
    data = hidden_data(function, mechanism, table, method.covariates, None if counts is None else float(counts.sum()))
    size, forbidden = len(data.combinations), (*answers, *known)
    covariates = covariate_model(method.covariate_model, data.clean, size, table, forbidden, counts)
    return ObservedLikelihood(data, covariates, weights)


def _robust(options: object, task: Task) -> Sandwich | None:
    if isinstance(options, Resampling):
        raise PramanaError("maximum likelihood takes no resampling: leave inference out, or use inference=Sandwich()")
    if task.strata is not None:
        _refuse_target(task.strata)
    if options is None:
        return Sandwich() if task.weights is not None or task.clusters is not None else None
    if isinstance(options, Sandwich) and options.interval == "score":
        raise PramanaError(
            "maximum likelihood has Wald intervals: use Sandwich(interval='wald'), or method='reversion'"
        )
    if not isinstance(options, Sandwich):
        raise PramanaError(f"inference of type {type(options).__name__} does not suit maximum likelihood")
    if task.strata is not None:
        refuse_correction(options)
    return options


def _refuse_target(design: Stratification) -> None:
    """Sampling and randomisation cannot be told apart in the score of released data."""
    if design.target != "superpopulation":
        raise PramanaError(
            f"target={design.target!r} needs the randomisation's own part of the variance, which a likelihood of the released "
            "data does not separate from sampling: use target='superpopulation', or method='reversion'"
        )


def _degrees_of_freedom(task: Task) -> float | None:
    if task.strata is None or task.clusters is None:
        return None
    return task.strata.degrees_of_freedom(task.clusters, _row_weights(task))


def _row_weights(task: Task) -> Float:
    weights = np.ones(task.table.n)
    for part in (task.weights, task.frequencies):
        weights = weights if part is None else weights * part
    return weights


def _records(task: Task) -> float:
    return float(task.table.n if task.frequencies is None else task.frequencies.sum())


def _refuse_few(task: Task, d: int) -> None:
    counted = _records(task) if task.frequencies is not None else float(np.count_nonzero(_row_weights(task)))
    if counted <= d:
        raise DataError(f"{counted:g} records cannot carry {d} parameters: use more data or fewer terms")


def _inverse(information: Float) -> Float:
    scale = np.sqrt(np.diag(information))
    scaled = information / np.outer(scale, scale)
    condition = float(np.linalg.cond(scaled))
    if not condition < 1e12:
        raise SolveError(
            f"the observed information cannot be inverted (condition number {condition:.1e}, limit 1e+12): merge levels, "
            "drop terms, or give a smaller covariate_model"
        )
    return np.asarray(np.linalg.inv(scaled) / np.outer(scale, scale))


def _robust_covariance(
    model: ObservedLikelihood, found: Maximum, inverse: Float, task: Task, robust: Sandwich
) -> Float:
    """I⁻¹ (Σ w² s sᵀ) I⁻¹ with sums over clusters where there are any, centred within strata under a design."""
    scores = model.scores(found.state)
    n, d = _records(task), len(found.theta.beta)
    factor = n / (n - d)
    if task.clusters is None:
        square = model.weights if task.weights is None else model.weights * task.weights
        meat = (scores * square[:, None]).T @ scores
    else:
        groups = _groups(task)
        sums = np.zeros((groups, scores.shape[1]))
        np.add.at(sums, task.clusters, scores * model.weights[:, None])
        meat = sums.T @ sums if task.strata is None else task.strata.between(sums)
        factor = groups / (groups - 1) * (n - 1) / (n - d)
    return np.asarray(inverse @ meat @ inverse * (factor if robust.correction == "HC1" else 1.0))


def _groups(task: Task) -> int:
    """Clusters; under a design its units, also those of which no record is left. None are zero."""
    if task.strata is not None:
        return len(task.strata.stratum)
    return 0 if task.clusters is None else int(task.clusters.max()) + 1


def _few_clusters(task: Task) -> list[Diagnostic]:
    if task.clusters is None or task.strata is not None:
        return []
    return few_clusters(
        _groups(task), "use method='reversion' with inference=pr.Jackknife(), whose intervals are those of t"
    )


def _describe(robust: Sandwich | None, task: Task) -> str:
    if robust is None:
        return "observed information, wald intervals"
    if task.strata is not None:
        units = f"{len(task.strata.fraction)} strata, {_groups(task)} sampling units"
        return f"pseudo-likelihood, linearised for the design ({units}; around the superpopulation), wald intervals"
    by = f", {_groups(task)} clusters" if task.clusters is not None else ""
    name = (robust.correction or "HC0").replace("HC", "CR" if by else "HC")
    return f"robust sandwich of the likelihood ({name}{by}), wald intervals"


def _diagnostics(method: Likelihood, model: ObservedLikelihood, found: Maximum, task: Task) -> list[Diagnostic]:
    out = []
    absent = int(np.sum(found.theta.gamma <= ABSENT)) if model.data.hides_covariates else 0
    if absent:
        message = (
            f"{absent} probabilit{'ies' if absent > 1 else 'y'} of the covariate model lie at zero, the edge of what is possible; "
            "the standard errors hold them fixed"
        )
        out.append(Diagnostic("boundary", "warning", message))
    strata = [c for a in (task.mechanism.assignments if task.mechanism else ()) for c in a.channel.context]
    left_out = [c for c in strata if model.data.hides_covariates and c not in (method.covariate_model or c)]
    if left_out:
        message = f"the randomisation depends on {left_out[0]!r}, which covariate_model leaves out: the fit assumes that it says nothing about the perturbed covariates"
        out.append(Diagnostic("stratum-ignored", "warning", message))
    return out


def _content(data: HiddenData, description: str) -> tuple[str, ...]:
    """What the likelihood is a likelihood of: fits are comparable only when this is equal."""
    covariates = sorted(data.combinations[0])
    family = data.function.family
    return (
        data.function.label,
        f"{family.name}, {family.link} link",
        *covariates,
        *([description] if covariates else []),
    )

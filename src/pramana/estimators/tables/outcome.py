"""Maximum-likelihood tables as results: shares, errors, log-likelihood and the test of independence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.analysis.task import Task
from pramana.diagnostic import Diagnostic
from pramana.errors import PramanaError
from pramana.estimating import EstimatingFunction
from pramana.estimating.cells import cell_labels
from pramana.estimators.likelihood.outcome import LikelihoodRatioTest, LikelihoodResult
from pramana.estimators.tables import likelihood
from pramana.parameters.means import ProportionsFunction
from pramana.parameters.tables import CrossTableFunction
from pramana.result import Shares


@dataclass(frozen=True)
class TableResult(LikelihoodResult):
    """A maximum-likelihood table; `independence` tests that its columns are independent (None for one column)."""

    independence: LikelihoodRatioTest | None = None


def as_table(function: EstimatingFunction) -> CrossTableFunction | None:
    """The table that a function asks for, or None."""
    if isinstance(function, CrossTableFunction):
        return function
    if isinstance(function, ProportionsFunction):
        return CrossTableFunction((function.column,))
    return None


def table_result(function: CrossTableFunction, task: Task) -> TableResult:
    """Maximise, and attach what follows from the likelihood; rows count as many records as their frequencies say."""
    if function.counts:
        raise PramanaError("maximum likelihood gives shares: use crosstab() without counts=True, and multiply by n")
    counts = task.sampling.row_weights
    released = likelihood.released_table(function, task.mechanism, task.table, counts)
    found = likelihood.saturated(released)
    labels = cell_labels(function.factors)
    empty = [label for label, v in zip(labels, found.shares, strict=True) if v <= likelihood.EMPTY]
    free = len(labels) - 1
    return TableResult(
        parameters=function.parameters,
        estimate=found.shares,
        covariance=likelihood.table_covariance(released, found.shares),
        n=float(counts.sum()),
        method="likelihood",
        inference="observed information, wald intervals",
        diagnostics=(*task.notes, *_boundary(empty)),
        facts={**task.plan.facts, **task.facts, "Log-likelihood": f"{found.log_likelihood:.4f} ({free} parameters)"},
        frame_kind=task.table.kind,
        log_scale=task.plan.log_scale,
        shares=Shares(len(labels), 1.0),
        log_likelihood=found.log_likelihood,
        parameter_count=free,
        content=function.variables,
        independence=_independence(released, found.log_likelihood),
    )


def _boundary(empty: list[str]) -> tuple[Diagnostic, ...]:
    if not empty:
        return ()
    more = f" and {len(empty) - 5} more" if len(empty) > 5 else ""
    message = (
        f"the share of {', '.join(empty[:5])}{more} is zero, the boundary of the simplex: its standard error is not one, and "
        "those of the other cells take it for known; the test of independence rejects too rarely"
    )
    return (Diagnostic("boundary", "warning", message),)


def _independence(released: likelihood.ReleasedTable, best: float) -> LikelihoodRatioTest | None:
    """Degrees of freedom: free cells less free margins."""
    if len(released.shape) < 2:
        return None
    from scipy.stats import chi2

    statistic = max(0.0, 2 * (best - likelihood.independent(released).log_likelihood))
    df = int(np.prod(released.shape)) - 1 - sum(k - 1 for k in released.shape)
    return LikelihoodRatioTest(statistic, df, float(chi2.sf(statistic, df)))

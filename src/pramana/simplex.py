"""Tables that stay in the simplex: by maximum likelihood, or by projecting an estimate, and only when asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError
from pramana.estimating.cells import cell_labels
from pramana.estimating.tables import crosstab
from pramana.estimators import table_likelihood as likelihood
from pramana.frames import Schema
from pramana.mechanism import Mechanism
from pramana.pipeline import ColumnLike, Job
from pramana.result import Diagnostic, Result


@dataclass(frozen=True)
class LikelihoodRatioTest:
    """Twice the log-likelihood lost by the hypothesis, against a chi-square law."""

    hypothesis: str
    statistic: float
    df: int
    p_value: float

    def __str__(self) -> str:
        return f"likelihood-ratio test of {self.hypothesis}: chi2({self.df}) = {self.statistic:.4g}, p = {self.p_value:.4g}"


@dataclass(frozen=True)
class TableResult(Result):
    """A maximum-likelihood table, its log-likelihood, and the test that its columns are independent (None for one column)."""

    log_likelihood: float = field(default=float("nan"))
    independence: LikelihoodRatioTest | None = None


def table_em(
    columns: str | Sequence[str],
    data: Any,
    mechanism: Mechanism | str | Path | None,
    *,
    frequencies: ColumnLike = None,
    missing: Literal["error", "drop"] = "error",
) -> TableResult:
    """The maximum-likelihood table of one or several columns by EM, after van den Hout and van der Heijden (2002).

    Where the reverted table (`crosstab`) has no negative cell the two agree; elsewhere some cells of this one are zero
    and the others share what is left, at the price of a bias. Standard errors come from the observed information, with
    empty cells held at zero. Records count alike: there are frequencies, but no sampling weights.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"smokes": pr.TransitionMatrix.binary(0.9, 0.8, levels=("no", "yes"))})
    >>> cells = {"smokes": ["no", "no", "yes", "yes"], "ill": ["no", "yes", "no", "yes"], "n": [520, 60, 300, 120]}
    >>> result = table_em(["smokes", "ill"], cells, mechanism, frequencies="n")
    >>> result.estimate.round(4)
    array([0.6257, 0.06  , 0.1943, 0.12  ])
    >>> print(result.independence)
    likelihood-ratio test of independence of smokes, ill: chi2(1) = 54.43, p = 1.61e-13
    """
    plan = crosstab(columns)
    job = Job.read(plan, data, mechanism, None, None, None, frequencies, None, missing)
    counts = np.ones(job.table.n) if job.frequencies is None else job.frequencies
    function = plan.prepare(job.table, job.mechanism.schema if job.mechanism is not None else Schema())
    table = likelihood.released_table(function, job.mechanism, job.table, counts)
    fit = likelihood.saturated(table)
    empty = [label for label, v in zip(cell_labels(function.factors), fit.shares, strict=True) if v <= likelihood.EMPTY]
    return TableResult(
        parameters=function.parameters,
        estimate=fit.shares,
        covariance=likelihood.covariance(table, fit.shares),
        n=float(counts.sum()),
        method="maximum likelihood (EM)",
        inference="observed information, wald intervals",
        diagnostics=(*job.notes, *_boundary(empty)),
        facts={"Parameter": ", ".join(plan.columns), "Log-likelihood": f"{fit.log_likelihood:.4f}"},
        frame_kind=job.table.kind,
        log_likelihood=fit.log_likelihood,
        independence=_independence(table, fit.log_likelihood, plan.columns),
    )


def _boundary(empty: list[str]) -> tuple[Diagnostic, ...]:
    if not empty:
        return ()
    more = f" and {len(empty) - 5} more" if len(empty) > 5 else ""
    message = (
        f"the share of {', '.join(empty[:5])}{more} is zero, the boundary of the simplex: its standard error is not one, and "
        "those of the other cells take it for known"
    )
    return (Diagnostic("boundary", "warning", message),)


def _independence(table: likelihood.ReleasedTable, best: float, columns: tuple[str, ...]) -> LikelihoodRatioTest | None:
    """df: free cells less free margins."""
    if len(columns) < 2:
        return None
    from scipy.stats import chi2

    statistic = max(0.0, 2 * (best - likelihood.independent(table).log_likelihood))
    df = int(np.prod(table.shape)) - 1 - sum(k - 1 for k in table.shape)
    p_value = float(chi2.sf(statistic, df))
    return LikelihoodRatioTest(f"independence of {', '.join(columns)}", statistic, df, p_value)


def to_simplex(result: Result) -> Result:
    """Shares projected to the nearest distribution (Euclidean); nothing is ever projected without asking.

    The covariance stays that of the unprojected estimate, which is the larger one. `table_em` weighs the cells by how
    well they are known, and is to be preferred.

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.5, specificity=0.95)})
    >>> result = pr.fit(pr.proportions("y"), {"y": [1] * 5 + [0] * 120}, mechanism)
    >>> result.estimate.round(4), to_simplex(result).estimate
    (array([ 1.0222, -0.0222]), array([1., 0.]))
    """
    if abs(float(result.estimate.sum()) - 1) > 1e-6 or result.estimate.size < 2:
        raise PramanaError(
            f"the estimates sum to {float(result.estimate.sum()):.6g}, so they are no distribution: to_simplex() takes a result of "
            "proportions() or crosstab() that holds every cell"
        )
    shares = _projected(result.estimate)
    moved = float(np.abs(shares - result.estimate).max())
    note = f"shares projected to the simplex, by at most {moved:.3g}; standard errors are those before the projection"
    diagnostics = (*result.diagnostics, Diagnostic("projected", "info", note))
    return replace(result, estimate=shares, diagnostics=diagnostics)


def _projected(values: Float) -> Float:
    """Shift by a constant and cut at zero so that the sum is 1."""
    ordered = np.sort(values)[::-1]
    shifts = (np.cumsum(ordered) - 1) / np.arange(1, values.size + 1)
    last = np.flatnonzero(ordered > shifts)[-1]
    return np.asarray(np.clip(values - shifts[last], 0.0, None))

"""Maximum-likelihood tables by EM (van den Hout and van der Heijden, 2002), which stay in the simplex, and the results that they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.analysis.task import Task
from pramana.arrays import Float
from pramana.diagnostic import Diagnostic
from pramana.errors import MechanismError, PramanaError, SolveError
from pramana.estimating import EstimatingFunction
from pramana.estimating.cells import cell_labels, reverted_cells
from pramana.estimators.likelihood.outcome import LikelihoodRatioTest, LikelihoodResult
from pramana.estimators.reversion import reverted_records
from pramana.frames import Table
from pramana.mechanism import Assignment, Mechanism
from pramana.parameters.means import ProportionsFunction
from pramana.parameters.tables import CrossTableFunction
from pramana.result import Shares

EMPTY = 1e-8
"""A share below which a cell counts as empty."""
GAP = 1e-7
"""Log-likelihood that EM may leave on the table, by the bound of `_gap`."""
LIMIT = 20_000


@dataclass(frozen=True)
class ReleasedTable:
    """Distinct released records with their counts.

    Attributes
    ----------
    chances : (R, K), Pr(released record r | true cell k).
    counts : (R,).
    shape : numbers of levels; K is their product.
    """

    chances: Float
    counts: Float
    shape: tuple[int, ...]

    def log_likelihood(self, shares: Float) -> float:
        return float(self.counts @ np.log(self.chances @ shares))

    def expected(self, shares: Float) -> Float:
        """Expected true shares of the cells given what was released (K,): the E step."""
        pull = self.chances / (self.chances @ shares)[:, None]
        return np.asarray(shares * (self.counts @ pull) / self.counts.sum())


def released_table(
    function: CrossTableFunction, mechanism: Mechanism | None, table: Table, counts: Float
) -> ReleasedTable:
    """Chances of every released record, columns that were not perturbed being what they seem."""
    records = reverted_records(function, mechanism, table)
    used = mechanism.used_by(function.variables) if mechanism is not None else []
    likelihood = np.ones((table.n, 1))
    for assignment in used:
        part = _chances(assignment, function.variables, table)
        likelihood = (likelihood[:, :, None] * part[:, None, :]).reshape(table.n, -1)
    cells = reverted_cells(records.reweighted(likelihood), function.factors)
    rows, place = np.unique(cells, axis=0, return_inverse=True)
    shape = tuple(len(f.levels) for f in function.factors)
    return ReleasedTable(rows, np.asarray(np.bincount(place.ravel(), weights=counts), dtype=float), shape)


def _chances(assignment: Assignment, variables: tuple[str, ...], table: Table) -> Float:
    unused = [c for c in assignment.columns if c not in variables]
    if unused:
        raise MechanismError(
            f"maximum likelihood needs every column of a joint channel in the table; {unused[0]!r} is not in it: add it"
        )
    return assignment.channel.likelihood(assignment.encoded(table), assignment.context(table))


@dataclass(frozen=True)
class TableFit:
    """Shares (K,) that maximise the likelihood."""

    shares: Float
    log_likelihood: float
    steps: int


def saturated(data: ReleasedTable) -> TableFit:
    """Any distribution over the cells. The likelihood is concave, so the bound on what is left is a certificate."""

    def left(shares: Float) -> float:
        return _gap(data, shares)

    return _climb(data, _uniform(data), data.expected, left)


def independent(data: ReleasedTable) -> TableFit:
    """Columns independent of each other: the M step multiplies the margins of the expected table."""
    last: list[float] = [-np.inf]

    def step(shares: Float) -> Float:
        return _product_of_margins(data.expected(shares), data.shape)

    def left(shares: Float) -> float:
        here = data.log_likelihood(shares)
        rise, last[0] = here - last[0], here
        return 1e3 * abs(rise)  # EM closes in geometrically: a small step bounds what is left

    return _climb(data, _uniform(data), step, left)


def _uniform(data: ReleasedTable) -> Float:
    """Equal shares for the cells that the mechanism and the released records allow."""
    possible = data.chances.sum(axis=0) > 0
    return np.asarray(possible / possible.sum())


def _product_of_margins(shares: Float, shape: tuple[int, ...]) -> Float:
    joint, out = shares.reshape(shape), np.ones(())
    for axis in range(len(shape)):
        out = np.multiply.outer(out, joint.sum(axis=tuple(a for a in range(len(shape)) if a != axis)))
    return np.asarray(out.ravel())


def _climb(data: ReleasedTable, shares: Float, step: object, left: object) -> TableFit:
    """EM with squared extrapolation (Varadhan and Roland, 2008), which falls back on the plain step when it does not rise."""
    assert callable(step)
    assert callable(left)
    for number in range(LIMIT):
        once = step(shares)
        twice = step(once)
        if left(twice) < GAP:
            return TableFit(twice, data.log_likelihood(twice), number)
        shares = _extrapolated(data, shares, once, twice, step)
    raise SolveError(
        f"EM stalled: after {LIMIT} rounds the likelihood still rises by {left(shares):.1e} (limit {GAP:.0e}); the noise leaves "
        "almost nothing of the table: merge levels or use more records"
    )


def _extrapolated(data: ReleasedTable, shares: Float, once: Float, twice: Float, step: object) -> Float:
    assert callable(step)
    move, bend = once - shares, twice - 2 * once + shares
    size = float(np.sqrt(np.sum(bend**2)))
    if size < 1e-300:
        return twice
    length = max(1.0, float(np.sqrt(np.sum(move**2))) / size)
    ahead: Float = np.clip(shares + 2 * length * move + length**2 * bend, 0.0, None)
    ahead = np.where(twice > 0, np.maximum(ahead, 1e-3 * twice), 0.0)
    ahead = step(ahead / ahead.sum())
    return ahead if data.log_likelihood(ahead) >= data.log_likelihood(twice) else twice


def _gap(data: ReleasedTable, shares: Float) -> float:
    """No table's log-likelihood is higher by more than n (max_k gradient_k / n − 1) (Lindsay, 1983)."""
    pull = data.counts @ (data.chances / (data.chances @ shares)[:, None])
    return float(pull.max() - data.counts.sum())


def table_covariance(data: ReleasedTable, shares: Float) -> Float:
    """Inverse of the observed information (K, K) under Σ shares = 1; cells at zero are held there."""
    inside = np.flatnonzero(shares > EMPTY)
    scaled = data.chances[:, inside] / (data.chances @ shares)[:, None]
    information = (scaled * data.counts[:, None]).T @ scaled
    basis = np.linalg.qr(np.column_stack([np.ones(inside.size), np.eye(inside.size)[:, 1:]]))[0][:, 1:]
    reduced = basis.T @ information @ basis
    out = np.zeros((shares.size, shares.size))
    if not inside.size > 1:
        return out
    if not np.linalg.cond(reduced) < 1e12:
        raise SolveError(
            "the information about the table cannot be inverted: two of its cells are released alike; merge them"
        )
    out[np.ix_(inside, inside)] = basis @ np.linalg.inv(reduced) @ basis.T
    return out


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
    released = released_table(function, task.mechanism, task.table, counts)
    found = saturated(released)
    labels = cell_labels(function.factors)
    empty = [label for label, v in zip(labels, found.shares, strict=True) if v <= EMPTY]
    free = len(labels) - 1
    return TableResult(
        parameters=function.parameters,
        estimate=found.shares,
        covariance=table_covariance(released, found.shares),
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


def _independence(released: ReleasedTable, best: float) -> LikelihoodRatioTest | None:
    """Degrees of freedom: free cells less free margins."""
    if len(released.shape) < 2:
        return None
    from scipy.stats import chi2

    statistic = max(0.0, 2 * (best - independent(released).log_likelihood))
    df = int(np.prod(released.shape)) - 1 - sum(k - 1 for k in released.shape)
    return LikelihoodRatioTest(statistic, df, float(chi2.sf(statistic, df)))

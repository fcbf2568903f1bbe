"""An analysis on the custodian's true records, and its exact expected variance under any mechanism (Remark 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.disclosure.true_records import codes_of, strata_of
from pramana.errors import DataError, PramanaError
from pramana.estimating import EstimatingFunction, Records
from pramana.frames import Table
from pramana.inference import Sample, solve
from pramana.inference.sandwich import bread
from pramana.mechanism import Assignment, Mechanism, Stratified, TransitionMatrix
from pramana.models.generalized_linear import glm

PILOT_LIMIT = 5e7
"""Largest number of values of U (records × combinations of levels × parameters) held in memory: 0.4 GB."""


@dataclass(frozen=True)
class ExpectedVariance:
    """Variance of an estimator from released data, split as in Remark 1 of the paper.

    Attributes
    ----------
    clean : covariance of the oracle (d, d), which sees the true records.
    privacy : what the randomisation adds to it (d, d), in expectation over the draws given the true records.
    """

    parameters: tuple[str, ...]
    n: int
    clean: Float
    privacy: Float

    @property
    def total(self) -> Float:
        return self.clean + self.privacy

    @property
    def standard_errors(self) -> Float:
        return np.sqrt(np.diag(self.total))

    @property
    def clean_errors(self) -> Float:
        return np.sqrt(np.diag(self.clean))

    @property
    def inflation(self) -> Float:
        """Variance over the oracle's variance (d,); infinite where the oracle has none but the release has."""
        clean, total = np.diag(self.clean), np.diag(self.total)
        unsure = np.where(total > 0, np.inf, 1.0)
        return np.divide(total, clean, out=unsure, where=clean > 0)

    @property
    def effective_n(self) -> Float:
        """Number of unperturbed records that would give the same variance (d,)."""
        return self.n / self.inflation


@dataclass(frozen=True)
class Pilot:
    """Everything that the variance of one analysis needs, whatever the transition matrices.

    Attributes
    ----------
    parameters : those that an analyst is shown, p of the d that are solved for.
    estimate : the oracle's root (d,).
    inverse : rows of the inverse slope at the root, one a shown parameter, (p, d); the expected slope does not depend on
        the randomisation.
    u : U, times the sampling weight, at every combination of levels of the perturbed columns, (n, K₁, …, K_m, d);
        less its mean over the records where the parameters are sums.
    true : codes of the true levels (n, m).
    sums : the parameters are sums over the records, which grow with the file.
    """

    label: str
    parameters: tuple[str, ...]
    estimate: Float
    inverse: Float = field(repr=False)
    u: Float = field(repr=False)
    true: Int = field(repr=False)
    columns: tuple[tuple[str, ...], ...]
    table: Table = field(repr=False)
    sums: bool = False

    @property
    def n(self) -> int:
        return len(self.u)

    @property
    def at_truth(self) -> Float:
        """U at the true values (n, d)."""
        return self.u[(np.arange(self.n), *self.true.T)]

    def clean(self) -> Float:
        """Covariance of the oracle (p, p)."""
        u = self.at_truth
        return self.inverse @ (u.T @ u) @ self.inverse.T

    def privacy_meat(self, mechanism: Mechanism) -> Float:
        """Σ_i Var{φ(Z*, x_i) | z_i} (d, d), by adding up over every released combination."""
        assignments = [self._assignment(columns, mechanism) for columns in self.columns]
        truth, out = self.at_truth, np.zeros((self.u.shape[-1],) * 2)
        for rows, matrices in _by_stratum(assignments, self.table):
            phi, chance = self.u[rows], np.ones((len(rows), 1))
            for axis, matrix in enumerate(matrices):
                phi = np.moveaxis(np.tensordot(phi, matrix.inverse, axes=(axis + 1, 0)), -1, axis + 1)
                step = matrix.matrix.T[self.true[rows, axis]]
                chance = (chance[:, :, None] * step[:, None, :]).reshape(len(rows), -1)
            away = phi.reshape(len(rows), -1, self.u.shape[-1]) - truth[rows][:, None, :]
            out += np.einsum("nc,nci,ncj->ij", chance, away, away, optimize=True)
        return out

    def _assignment(self, columns: tuple[str, ...], mechanism: Mechanism) -> Assignment:
        found = [a for a in mechanism.assignments if a.columns == columns]
        if not found:
            raise PramanaError(f"the pilot's columns {columns} are not perturbed together by this mechanism")
        return found[0]

    def expected(self, mechanism: Mechanism) -> ExpectedVariance:
        """The variance to expect of the reversion estimator once the mechanism has been applied."""
        privacy = self.inverse @ self.privacy_meat(mechanism) @ self.inverse.T
        return ExpectedVariance(self.parameters, self.n, self.clean(), privacy)


def _by_stratum(assignments: Sequence[Assignment], table: Table) -> list[tuple[Int, list[TransitionMatrix]]]:
    """Rows that share their transition matrices, with those matrices."""
    codes = np.column_stack([np.zeros(table.n, dtype=np.int64), *(strata_of(a, table) for a in assignments)])
    distinct, place = np.unique(codes, axis=0, return_inverse=True)
    return [
        (
            np.flatnonzero(place.ravel() == k),
            [stratum(a, int(s)) for a, s in zip(assignments, row[1:], strict=True)],
        )
        for k, row in enumerate(distinct)
    ]


def stratum(assignment: Assignment, position: int) -> TransitionMatrix:
    """The transition matrix of a stratum; the only one of a channel without strata."""
    channel = assignment.channel
    if isinstance(channel, Stratified):
        return list(channel.strata.values())[position]
    if not isinstance(channel, TransitionMatrix):
        raise PramanaError(
            f"the channel of {assignment.columns} is a {type(channel).__name__}: risk and utility need transition matrices"
        )
    return channel


def plan_of(what: Any, family: Any = None, link: str | None = None) -> Any:
    """An analysis from a formula or an estimating function."""
    if isinstance(what, str):
        return glm(what, "gaussian" if family is None else family, link)
    if not hasattr(what, "prepare"):
        raise PramanaError(
            f"an analysis of type {type(what).__name__}: give a formula such as 'y ~ x', or an estimating function such as mean('y')"
        )
    return what


def label_of(plan: Any) -> str:
    return str(getattr(plan, "formula", None) or ", ".join(plan.variables))


def pilot_of(plan: Any, table: Table, mechanism: Mechanism, weights: str | None = None) -> Pilot:
    """Fit the analysis to the true records, and tabulate U over the levels of the perturbed columns it uses.

    With `weights`, the column of sampling weights, the records' U are multiplied by them once and for all: the clean and
    the privacy part then hold their squares (a rule of any sampling design, as the draws are independent).
    """
    given = np.ones(table.n) if weights is None else _weights(table, weights, mechanism)
    return _pilot(plan, table, mechanism, given)


def _weights(table: Table, name: str, mechanism: Mechanism) -> Float:
    values = table.column(name)
    if name in mechanism.columns:
        raise DataError(f"weights={name!r} is a perturbed column: weights must be unperturbed")
    wrong = np.ones(table.n, dtype=bool) if values.dtype.kind not in "iuf" else ~((values >= 0) & (values < np.inf))
    if wrong.any() or not np.any(values > 0):
        first = f", first in row {int(np.argmax(wrong))}" if wrong.any() else ""
        raise DataError(
            f"the weights {name!r} have {int(wrong.sum())} value(s) that are not numbers of at least 0{first}; one must be positive"
        )
    return values.astype(float)


def _pilot(plan: Any, table: Table, mechanism: Mechanism, weights: Float) -> Pilot:
    function = plan.prepare(table, mechanism.schema)
    if not function.smooth:
        raise PramanaError(f"the analysis {label_of(plan)!r} is a step function: its variance has no closed form")
    used = mechanism.used_by(function.variables)
    true = np.array([codes_of(a, table) for a in used], dtype=np.int64).reshape(len(used), table.n).T
    sizes = [len(stratum(a, 0)) for a in used]
    _refuse_large(table.n, sizes, len(function.parameters), label_of(plan))
    columns = {v: table.column(v) for v in function.variables}
    oracle = Sample(function.equation(Records.clean(table.n, columns)), weights).plugged()
    root = solve(oracle.equation, oracle.row_weights)
    inverse = bread(oracle.totals(root.beta), oracle.equation.parameters)
    records = _candidates(function, used, true, sizes, table)
    equation = Sample(function.equation(records), weights).plugged().equation
    u = np.stack([equation.under(_at(records, k)).influence(root.beta) for k in range(len(records.nodes))], axis=1)
    u = u * weights[:, None, None]
    sums = bool(getattr(equation, "sums", False))
    if sums:
        u = u - u[np.arange(table.n), records.released].mean(axis=0)
    shape = (table.n, *sizes, len(equation.parameters))
    together = tuple(a.columns for a in used)
    names = tuple(getattr(equation, "shown", equation.parameters))
    size = getattr(equation, "size", None)
    rows = (1.0 if size is None else size) * inverse[[equation.parameters.index(name) for name in names]]
    return Pilot(label_of(plan), names, root.beta, rows, u.reshape(shape), true, together, table, sums)


def _refuse_large(n: int, sizes: Sequence[int], d: int, label: str) -> None:
    entries = n * float(np.prod([*sizes, d]))
    if entries > PILOT_LIMIT:
        raise DataError(
            f"the analysis {label!r} of {n} records has {np.prod(sizes):.3g} combinations of perturbed levels and {d} parameters, "
            f"{entries:.1e} values in all; the limit is {PILOT_LIMIT:.0e}: take a random part of the file as the pilot"
        )


def _candidates(
    function: EstimatingFunction, used: Sequence[Assignment], true: Int, sizes: Sequence[int], table: Table
) -> Records:
    """Records spread over every combination of levels, with all weight on the true one."""
    hidden = {c for a in used for c in a.columns}
    columns = {v: table.column(v) for v in function.variables if v not in hidden}
    choices = [[_named(a, level) for level in stratum(a, 0).levels] for a in used]
    nodes = tuple({k: v for part in parts for k, v in part.items()} for parts in product(*choices))
    place = np.ravel_multi_index(tuple(true.T), tuple(sizes)) if used else np.zeros(table.n, dtype=np.int64)
    weights = np.zeros((table.n, len(nodes)))
    weights[np.arange(table.n), place] = 1.0
    return Records(table.n, columns, nodes, weights, place)


def _named(assignment: Assignment, level: Any) -> dict[str, Any]:
    values = (level,) if len(assignment.columns) == 1 else level
    return dict(zip(assignment.columns, values, strict=True))


def _at(records: Records, node: int) -> Records:
    weights = np.zeros_like(records.weights)
    weights[:, node] = 1.0
    return records.reweighted(weights)

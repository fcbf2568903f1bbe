"""An analysis on the custodian's true records, and its exact expected variance under any mechanism (Remark 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.disclosure.true_records import codes_of, groups_of
from pramana.engines import LocalEngine
from pramana.errors import DataError, PramanaError, listing
from pramana.estimating import EstimatingFunction, Records
from pramana.estimating.function import Question
from pramana.frames import Table
from pramana.inference import solve
from pramana.inference.sandwich import bread
from pramana.kernels.blocks import by_group
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix

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
    truth : the shown parameters on the true records (p,).
    function : the analysis with its levels learned; with `weights`, the sampling weights (n,) or None, it can be asked again of other records.
    """

    label: str
    parameters: tuple[str, ...]
    estimate: Float
    inverse: Float = field(repr=False)
    u: Float = field(repr=False)
    true: Int = field(repr=False)
    columns: tuple[tuple[str, ...], ...]
    table: Table = field(repr=False)
    sums: bool
    truth: Float = field(repr=False)
    function: EstimatingFunction = field(repr=False)
    weights: Float | None = field(repr=False)

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
    codes = np.column_stack([np.zeros(table.n, dtype=np.int64), *(a.strata(table) for a in assignments)])
    distinct, place = np.unique(codes, axis=0, return_inverse=True)
    return [
        (
            np.flatnonzero(place.ravel() == k),
            [_matrix(a, int(s)) for a, s in zip(assignments, row[1:], strict=True)],
        )
        for k, row in enumerate(distinct)
    ]


def _matrix(assignment: Assignment, position: int) -> TransitionMatrix:
    return list(assignment.matrices.values())[position]


def pilot_of(plan: Question, table: Table, mechanism: Mechanism, weights: str | None = None) -> Pilot:
    """Fit the analysis to the true records, and tabulate U over the levels of the perturbed columns it uses.

    With `weights`, the column of sampling weights, the records' U are multiplied by them once and for all: the clean and
    the privacy part then hold their squares (a rule of any sampling design, as the draws are independent). Records with a
    missing value are left out, as an analyst leaves them out.
    """
    noisy = [c for a in mechanism.used_by(plan.variables) if a.numeric for c in a.columns]
    if noisy:
        raise PramanaError(
            f"the analysis {plan.label!r} uses {listing(noisy)}, which gets noise, and its variance is known beforehand for transition "
            "matrices alone: leave the analysis out, or perturb the file with a seed, fit and read price_of_privacy()"
        )
    touched = [c for a in mechanism.used_by(plan.variables) for c in (*a.columns, *a.channel.context)]
    gaps = table.missing({*plan.variables, *touched, *([] if weights is None else [weights])})
    if gaps.all():
        raise DataError(f"none of the {table.n} records has a value in every column of the analysis {plan.label!r}")
    complete = table.where(~gaps) if gaps.any() else table
    return _pilot(plan, complete, mechanism, None if weights is None else _weights(complete, weights, mechanism))


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


def _pilot(plan: Question, table: Table, mechanism: Mechanism, given: Float | None) -> Pilot:
    weights = np.ones(table.n) if given is None else given
    function = plan.prepare(table, mechanism.schema)
    if not function.smooth:
        raise PramanaError(f"the analysis {plan.label!r} is a step function: its variance has no closed form")
    used = mechanism.used_by(function.variables)
    true = np.array([codes_of(a, table) for a in used], dtype=np.int64).reshape(len(used), table.n).T
    sizes = [len(_matrix(a, 0)) for a in used]
    _refuse_large(table.n, sizes, len(function.parameters), plan.label)
    columns = {v: table.column(v) for v in function.variables}
    oracle = LocalEngine.of(function.equation(Records.clean(table.n, columns)), weights=weights).learned()
    root = solve(oracle)
    inverse = bread(oracle.totals(root.beta), oracle.about.parameters)
    records = _candidates(function, used, true, sizes, table)
    equation = LocalEngine.of(function.equation(records), weights=weights).learned().equation
    about = equation.about
    u = np.stack([equation.under(_at(records, k)).influence(root.beta) for k in range(len(records.nodes))], axis=1)
    u = u * weights[:, None, None]
    if about.sums:
        u = u - u[np.arange(table.n), records.released[records.row]].mean(axis=0)
    shape = (table.n, *sizes, len(about.parameters))
    together = tuple(a.columns for a in used)
    names = about.parameters if about.shown is None else about.shown
    kept, size = [about.parameters.index(name) for name in names], about.size or 1.0
    asked_again = (size * root.beta[kept], function, given)
    rows = size * inverse[kept]
    return Pilot(plan.label, names, root.beta, rows, u.reshape(shape), true, together, table, about.sums, *asked_again)


def by_unit(pilot: Pilot, mechanism: Mechanism) -> Pilot:
    """The pilot of units whose records share their draws: what a unit adds is the sum over its records.

    With `Unit(varies=True)`, where draws go by level, the records are left as they are.
    """
    unit = mechanism.unit
    if unit is None or unit.varies or not pilot.columns:
        return pilot
    codes = groups_of(pilot.table.column(unit.column))
    first = np.unique(codes, return_index=True)[1]
    used = [pilot._assignment(columns, mechanism) for columns in pilot.columns]
    alike = np.column_stack([pilot.true, *(a.strata(pilot.table) for a in used)])
    astray = int(np.any(alike != alike[first[codes]], axis=1).sum())
    if astray:
        raise DataError(
            f"{astray} of {pilot.n} records have another true value or stratum than the first record of their unit {unit.column!r}, so "
            f"they cannot share one draw: use Unit({unit.column!r}, varies=True)"
        )
    sums = by_group(pilot.u.reshape(pilot.n, -1), codes, len(first)).reshape(len(first), *pilot.u.shape[1:])
    return replace(pilot, u=sums, true=pilot.true[first], table=pilot.table.take(first))


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
    choices = [[_named(a, level) for level in _matrix(a, 0).levels] for a in used]
    nodes = tuple({k: v for part in parts for k, v in part.items()} for parts in product(*choices))
    place = np.ravel_multi_index(tuple(true.T), tuple(sizes)) if used else np.zeros(table.n, dtype=np.int64)
    point = np.arange(len(nodes))
    return Records(table.n, columns, nodes, np.eye(len(nodes)), place, point)


def _named(assignment: Assignment, level: Any) -> dict[str, Any]:
    values = (level,) if len(assignment.columns) == 1 else level
    return dict(zip(assignment.columns, values, strict=True))


def _at(records: Records, node: int) -> Records:
    weight = np.zeros((1, len(records.nodes)))
    weight[0, node] = 1.0
    return replace(records, table=weight, row=np.zeros(records.n, dtype=np.int64), released=np.array([node]))

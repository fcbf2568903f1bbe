"""An analysis on the custodian's true records, and its expected variance under any mechanism (Remark 1): exact where columns have
levels, an average over draws where numbers get noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.disclosure.true_records import codes_of, groups_of, touched
from pramana.engines import Engine, LocalEngine
from pramana.errors import DataError, PramanaError
from pramana.estimating import Equation, EstimatingFunction, Records
from pramana.estimating.function import Question
from pramana.estimators import Reversion
from pramana.frames import Table, read
from pramana.inference import solve
from pramana.inference.sandwich import bread
from pramana.kernels.blocks import by_group
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix
from pramana.mechanism.draws.keyed import secrets_of
from pramana.mechanism.draws.keystream import SeededKeystream

DRAWN, FEWEST = 100_000, 8
"""Records that are drawn with noise in all, and the least times that each is: variances are right to about 1 %."""
SEED = 0x51A3
"""Of these draws: every strength of a noise meets the same words."""
PILOT_LIMIT = 5e7
"""Largest number of values of U (records × combinations of levels × parameters) held in memory: 0.4 GB."""


@dataclass(frozen=True)
class ExpectedVariance:
    """Variance of an estimator from released data, split as in Remark 1 of the paper.

    Attributes
    ----------
    clean : covariance of the oracle (d, d), which sees the true records.
    privacy : what the randomisation adds to it (d, d), in expectation over the draws given the true records.
    draws : how many records were drawn for that; None where it is an exact sum.
    """

    parameters: tuple[str, ...]
    n: int
    clean: Float
    privacy: Float
    draws: int | None = None

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
    counts : how many equal records a row stands for (n,); None for one each.
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
    counts: Int | None = field(default=None, repr=False)

    @property
    def n(self) -> int:
        """Records in all."""
        return len(self.u) if self.counts is None else int(self.counts.sum())

    @property
    def times(self) -> Float:
        """How many records each row stands for (m,)."""
        return np.ones(len(self.u)) if self.counts is None else self.counts.astype(float)

    @property
    def at_truth(self) -> Float:
        """U at the true values (n, d)."""
        return self.u[(np.arange(len(self.u)), *self.true.T)]

    def clean(self) -> Float:
        """Covariance of the oracle (p, p)."""
        return self.inverse @ self.clean_meat() @ self.inverse.T

    def clean_meat(self) -> Float:
        """Σ_i U_i U_iᵀ (d, d)."""
        u = self.at_truth
        return np.asarray((u if self.counts is None else u * self.counts[:, None]).T @ u)

    def privacy_meat(self, mechanism: Mechanism) -> Float:
        """Σ_i Var{φ(Z*, x_i) | z_i} (d, d), by adding up over every released combination."""
        assignments = [self._assignment(columns, mechanism) for columns in self.columns]
        truth, out = self.at_truth, np.zeros((self.u.shape[-1],) * 2)
        for rows, matrices in _by_stratum(assignments, self.table):
            phi, chance = self.u[rows], self.times[rows][:, None]
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


@dataclass(frozen=True)
class DrawnPilot(Pilot):
    """An analysis that uses numbers with noise: `u` at the true values alone (n, d), and the variance of φ as an average over draws.

    True values are clamped and rounded as before the noise, for that is what is estimated.

    Attributes
    ----------
    offset : taken from U where the parameters are sums (d,). groups : whose records share their draws (n,).
    """

    offset: Float = field(default_factory=lambda: np.zeros(1), repr=False)
    groups: Int | None = field(default=None, repr=False)

    @property
    def draws(self) -> int:
        """How often each record is drawn."""
        return max(FEWEST, DRAWN // self.n)

    def expected(self, mechanism: Mechanism) -> ExpectedVariance:
        return replace(super().expected(mechanism), draws=self.draws * self.n)

    @property
    def at_truth(self) -> Float:
        return self.u if self.groups is None else by_group(self.u, self.groups, int(self.groups.max()) + 1)

    def privacy_meat(self, mechanism: Mechanism) -> Float:
        """Σ_i E{φ(z_i + V, x_i) − U(z_i, x_i)}², each record drawn many times."""
        times = self.draws
        rows = np.tile(np.arange(self.n), times)
        again = np.repeat(np.arange(times), self.n)
        owner = None if self.groups is None else self.groups[rows] + again * (int(self.groups.max()) + 1)
        released = drawn_table(self, mechanism, rows, owner, [SEED])
        bound = Reversion().bind(self.function, mechanism, released, np.ones(rows.size)).equation
        weights = np.ones(rows.size) if self.weights is None else self.weights[rows]
        equation = LocalEngine.of(bound, weights=weights).learned().equation
        away = equation.influence(self.estimate) * weights[:, None] - self.offset - self.u[rows]
        away = away if owner is None else by_group(away, owner, int(owner.max()) + 1)
        return np.asarray(away.T @ away / times)


def drawn_table(pilot: Pilot, mechanism: Mechanism, rows: Int, owner: Int | None, seeds: Sequence[int]) -> Table:
    """Some of the pilot's records as they may be released; those of one owner with one true value share their draw."""
    used = mechanism.used_by(pilot.function.variables)
    hidden = {c for a in used for c in a.columns}
    columns = {v: pilot.table.column(v)[rows] for v in pilot.function.variables if v not in hidden}
    for place, assignment in enumerate(used):
        stream = SeededKeystream(*seeds, place)
        codes = codes_of(assignment, pilot.table)[rows]
        context = {k: v[rows] for k, v in assignment.context(pilot.table).items()}
        first, again = np.arange(rows.size), np.arange(rows.size)
        if owner is not None:
            strata = assignment.strata(pilot.table)[rows] if assignment.channel.context else None
            secrets = secrets_of(assignment.channel, codes, strata)
            pairs = np.column_stack([owner, secrets])
            _, first, again = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        within = {k: v[first] for k, v in context.items()}
        drawn = assignment.channel.perturb(codes[first], within, stream)[again.ravel()]
        columns |= {**context, **{name: assignment.values(k, drawn) for k, name in enumerate(assignment.columns)}}
    return read(columns)


def _clamped(table: Table, used: Sequence[Assignment]) -> Table:
    """Numbers as they are before their noise."""
    for margin in (m for a in used for m in a.margins if m.numeric):
        name, strata = margin.columns[0], margin.strata(table)
        values = codes_of(margin, table)
        for position, noise in enumerate(margin.noises.values()):
            rows = strata == position
            values[rows] = noise.true_steps(values[rows]) * noise.grid
        table = table.replaced(name, values.tolist())
    return table


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


def analysis_columns(plan: Question, mechanism: Mechanism, weights: str | None) -> tuple[str, ...]:
    """The columns that an analysis looks at, in none of which a value may be missing."""
    own = [c for a in mechanism.used_by(plan.variables) for c in touched(a)]
    return tuple(dict.fromkeys([*plan.variables, *own, *([] if weights is None else [weights])]))


def pilot_of(
    plan: Question, table: Table, mechanism: Mechanism, weights: str | None = None, counts: Int | None = None
) -> Pilot:
    """Fit the analysis to the true records, and tabulate U over the levels of the perturbed columns it uses.

    With `weights`, the column of sampling weights, the records' U are multiplied by them once and for all: the clean and
    the privacy part then hold their squares (a rule of any sampling design, as the draws are independent). Records with a
    missing value are left out, as an analyst leaves them out. Where the analysis uses numbers with noise, U is not tabulated.
    A row may stand for so many equal records (n,).
    """
    gaps = table.missing(analysis_columns(plan, mechanism, weights))
    if gaps.all():
        raise no_complete_record(plan, table.n if counts is None else int(counts.sum()))
    complete = table.where(~gaps) if gaps.any() else table
    given = None if weights is None else _weights(complete, weights, mechanism)
    return _pilot(plan, complete, mechanism, given, None if counts is None else counts[~gaps])


def no_complete_record(plan: Question, n: int) -> DataError:
    return DataError(f"none of the {n} records has a value in every column of the analysis {plan.label!r}")


def refuse_perturbed_weights(name: str, mechanism: Mechanism) -> None:
    if name in mechanism.columns:
        raise DataError(f"weights={name!r} is a perturbed column: weights must be unperturbed")


def _weights(table: Table, name: str, mechanism: Mechanism) -> Float:
    values = table.column(name)
    refuse_perturbed_weights(name, mechanism)
    wrong = np.ones(table.n, dtype=bool) if values.dtype.kind not in "iuf" else ~((values >= 0) & (values < np.inf))
    if wrong.any() or not np.any(values > 0):
        first = f", first in row {int(np.argmax(wrong))}" if wrong.any() else ""
        raise DataError(
            f"the weights {name!r} have {int(wrong.sum())} value(s) that are not numbers of at least 0{first}; one must be positive"
        )
    return values.astype(float)


def smooth_function(plan: Question, table: Table, mechanism: Mechanism) -> EstimatingFunction:
    """The analysis with its levels learned; step functions are refused."""
    function = plan.prepare(table, mechanism.schema)
    if not function.smooth:
        raise PramanaError(
            f"the analysis {plan.label!r} is a step function, whose variance has no closed form: weigh a mean, or the share below a limit, "
            "as in share('income', high=1000)"
        )
    return function


def _pilot(plan: Question, table: Table, mechanism: Mechanism, given: Float | None, counts: Int | None) -> Pilot:
    weights = np.ones(table.n) if given is None else given
    function = smooth_function(plan, table, mechanism)
    used = mechanism.used_by(function.variables)
    if any(a.numeric for a in used):
        return _drawn_pilot(plan, function, _clamped(table, used), tuple(a.columns for a in used), given)
    refuse_large(table.n, combinations(used), len(function.parameters), plan.label)
    sampled = {"weights": weights, "frequencies": None if counts is None else counts.astype(float)}
    columns = {v: table.column(v) for v in function.variables}
    oracle = Oracle.of(LocalEngine.of(function.equation(Records.clean(table.n, columns)), **sampled).learned())
    records = candidates(function, used, table)
    equation = LocalEngine.of(function.equation(records), **sampled).learned().equation
    pilot = tabulated(oracle, equation, records, Asking(plan, function, mechanism, table, given, counts))
    if not oracle.sums:
        return pilot
    return replace(pilot, u=pilot.u - np.average(pilot.at_truth, axis=0, weights=counts))


@dataclass(frozen=True)
class Asking:
    """An analysis and the records that it is asked of: its function, their table, sampling weights (n,) or None, and counts (n,) or None."""

    plan: Question
    function: EstimatingFunction
    mechanism: Mechanism
    table: Table
    weights: Float | None
    counts: Int | None = None


@dataclass(frozen=True)
class Oracle:
    """The answer from the true data: the root (d,), and of the p parameters that are shown names, rows of the inverse slope (p, d) and values (p,)."""

    root: Float
    parameters: tuple[str, ...]
    inverse: Float
    truth: Float
    sums: bool

    @classmethod
    def of(cls, engine: Engine) -> Oracle:
        about, root = engine.about, solve(engine).beta
        names = about.parameters if about.shown is None else about.shown
        kept, size = [about.parameters.index(name) for name in names], about.size or 1.0
        inverse = bread(engine.totals(root), about.parameters)
        return cls(root, names, size * inverse[kept], size * root[kept], about.sums)


def tabulated(oracle: Oracle, equation: Equation, records: Records, asking: Asking) -> Pilot:
    """U of some records at the root of the oracle, at every combination of levels: `equation` is bound to the candidates."""
    used = asking.mechanism.used_by(asking.function.variables)
    u = np.stack([equation.at_node(oracle.root, k) for k in range(len(records.nodes))], axis=1)
    u = u if asking.weights is None else u * asking.weights[:, None, None]
    return Pilot(
        asking.plan.label,
        oracle.parameters,
        oracle.root,
        oracle.inverse,
        u.reshape(asking.table.n, *(len(_matrix(a, 0)) for a in used), oracle.root.size),
        _true_codes(used, asking.table),
        tuple(a.columns for a in used),
        asking.table,
        oracle.sums,
        oracle.truth,
        asking.function,
        asking.weights,
        asking.counts,
    )


def _true_codes(used: Sequence[Assignment], table: Table) -> Int:
    """Codes of the true levels (n, m)."""
    return np.array([codes_of(a, table) for a in used], dtype=np.int64).reshape(len(used), table.n).T


def combinations(used: Sequence[Assignment]) -> float:
    """Of levels of the perturbed columns."""
    return float(np.prod([len(_matrix(a, 0)) for a in used]))


def _drawn_pilot(
    plan: Question,
    function: EstimatingFunction,
    table: Table,
    together: tuple[tuple[str, ...], ...],
    given: Float | None,
) -> DrawnPilot:
    weights = np.ones(table.n) if given is None else given
    columns = {v: table.column(v) for v in function.variables}
    engine = LocalEngine.of(function.equation(Records.clean(table.n, columns)), weights=weights).learned()
    oracle = Oracle.of(engine)
    u = engine.equation.influence(oracle.root) * weights[:, None]
    offset = u.mean(axis=0) if oracle.sums else np.zeros(u.shape[1])
    none = np.zeros((table.n, 0), dtype=np.int64)
    return DrawnPilot(
        plan.label,
        oracle.parameters,
        oracle.root,
        oracle.inverse,
        u - offset,
        none,
        together,
        table,
        oracle.sums,
        oracle.truth,
        function,
        given,
        offset=offset,
    )


def by_unit(pilot: Pilot, mechanism: Mechanism) -> Pilot:
    """The pilot of units whose records share their draws: what a unit adds is the sum over its records.

    With `Unit(varies=True)`, where draws go by level, the records are left as they are.
    """
    unit = mechanism.unit
    if unit is None or unit.varies or not pilot.columns:
        return pilot
    codes = groups_of(pilot.table.column(unit.column))
    if isinstance(pilot, DrawnPilot):
        return replace(pilot, groups=codes)
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


def refuse_large(n: int, sizes: float, d: int, label: str) -> None:
    entries = n * sizes * d
    if entries > PILOT_LIMIT:
        raise DataError(
            f"the analysis {label!r} of {n} records has {sizes:.3g} combinations of perturbed levels and {d} parameters, "
            f"{entries:.1e} values in all; the limit is {PILOT_LIMIT:.0e}: take a random part of the file as the pilot"
        )


def candidates(function: EstimatingFunction, used: Sequence[Assignment], table: Table) -> Records:
    """Records spread over every combination of levels, with all weight on the true one."""
    hidden = {c for a in used for c in a.columns}
    columns = {v: table.column(v) for v in function.variables if v not in hidden}
    choices = [[_named(a, level) for level in _matrix(a, 0).levels] for a in used]
    nodes = tuple({k: v for part in parts for k, v in part.items()} for parts in product(*choices))
    true, sizes = _true_codes(used, table), [len(_matrix(a, 0)) for a in used]
    place = np.ravel_multi_index(tuple(true.T), tuple(sizes)) if used else np.zeros(table.n, dtype=np.int64)
    point = np.arange(len(nodes))
    return Records(table.n, columns, nodes, np.eye(len(nodes)), place, point)


def _named(assignment: Assignment, level: Any) -> dict[str, Any]:
    values = (level,) if len(assignment.columns) == 1 else level
    return dict(zip(assignment.columns, values, strict=True))

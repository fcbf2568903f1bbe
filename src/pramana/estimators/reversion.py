"""The paper's estimator: replace U by its reversion, channel by channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Column, Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine
from pramana.errors import DataError, listing
from pramana.estimating import Equation, EstimatingFunction, Records, ResponseMoments
from pramana.estimating.factored import FactoredRecords
from pramana.estimating.records import ResponseNodes
from pramana.estimators.factoring import factored_equation
from pramana.estimators.free_parameters import FreeChannel
from pramana.estimators.made import MadeRecords
from pramana.estimators.method import Binding, EquationMethod
from pramana.estimators.noise import Closed, closed_form, equation_of, undone, with_noise
from pramana.formulas.subset import Subset
from pramana.frames import Table, decode
from pramana.kernels.additive import HIGHEST
from pramana.mechanism import Assignment, Mechanism, Nodes

FAINT = 4.0
"""Standard errors of a subset's reverted share below which estimates within it are hardly normal."""
ROUNDING = 1e-12
LOST = 1e-4
"""Largest share of a function that may be lost in the rounding of its signed weights."""
NODE_LIMIT = 4e8
"""Largest number of node weights (records × combinations of levels) held in memory."""


@dataclass(frozen=True)
class Reversion(EquationMethod):
    """Efficient and free of a model of the hidden data: E{φ(Z*, X) | Z, X} = U(Z, X)."""

    label: str = "reversion"
    subset: Subset | None = None

    def within(self, subset: Subset) -> Reversion:
        return replace(self, subset=subset)

    @property
    def by_blocks(self) -> bool:
        return True

    @property
    def reverts(self) -> bool:
        return True

    @property
    def adds_measurement(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return True

    def bind_made(self, made: MadeRecords) -> Any | None:
        return None if self.subset is not None else made.reverted(made.inverse)

    def bind(
        self,
        function: EstimatingFunction,
        mechanism: Mechanism | None,
        table: Table,
        weights: Float,
    ) -> Binding:
        free = FreeChannel.of(mechanism, function.variables, () if self.subset is None else self.subset.variables)
        if free is not None:
            return free.stacked(table, weights, lambda known: self._bound(function, known, table))
        return self._bound(function, mechanism, table)

    def checked(self, engine: Engine) -> tuple[Diagnostic, ...]:
        return () if self.subset is None or engine.about.sums else _present(self.subset, engine)

    def _bound(self, function: EstimatingFunction, mechanism: Mechanism | None, table: Table) -> Binding:
        closed = closed_form(function, mechanism, table)
        if self.subset is not None or closed:
            records = reverted_records(function, mechanism, table, subset=self.subset, closed=closed)
            return Binding(equation_of(function, records))
        factored = factored_equation(function, mechanism, table)
        equation = factored or function.equation(reverted_records(function, mechanism, table))
        return Binding(equation, facts=_cost(function, mechanism, equation))


def _cost(function: EstimatingFunction, mechanism: Mechanism | None, equation: Equation) -> dict[str, str]:
    """How many terms stand for a record, where several perturbed columns multiply."""
    used = mechanism.used_by(function.variables) if mechanism is not None else []
    spread = [a for a in used if a.columns != (function.response,)]
    if len(spread) < 2:
        return {}
    records = equation.records
    if isinstance(records, FactoredRecords):
        levels = sum(c.weights.shape[1] for c in records.components)
        return {"Hidden levels summed": f"{levels} a record, in {len(records.components)} factors"}
    return {"Hidden combinations summed": f"{len(records.nodes)} a record"}


def _present(subset: Subset, engine: Engine) -> tuple[Diagnostic, ...]:
    """A subset must have a reverted share above zero, and is remarked on where that is hardly so."""
    share, error = engine.membership()
    if share <= ROUNDING:
        raise DataError(
            f"the reverted share of the subset {subset.text} is {share:.4g} ± {error:.2g}, not positive, so nothing can be said about "
            "it: choose a larger one, use more records, or merge levels before the release"
        )
    if share >= FAINT * error:
        return ()
    message = (
        f"the reverted share of the subset {subset.text} ({share:.3g} ± {error:.2g}) is within {FAINT:g} standard errors of zero: "
        "read its rows with caution"
    )
    return (Diagnostic("faint-domain", "warning", message),)


def reverted_records(
    function: EstimatingFunction,
    mechanism: Mechanism | None,
    table: Table,
    *,
    collapse: bool = True,
    subset: Subset | None = None,
    closed: Closed | None = None,
) -> Records:
    """Records spread over the candidate true values of every perturbed variable that the function, or a subset, uses.

    A perturbed response in which the function is linear is summed out instead, unless `collapse` is off or the subset reads it.
    Noisy columns that are undone in closed form stay as they were released.
    """
    conditions = () if subset is None else subset.variables
    variables = tuple(dict.fromkeys((*function.variables, *conditions)))
    used = mechanism.used_by(variables) if mechanism is not None else []
    alone = [a for a in used if collapse and a.columns == (function.response,) and function.response not in conditions]
    left = {name for columns in closed or () for name in columns}
    spread = [a for a in used if a not in alone and not left.intersection(a.columns)]
    _refuse_too_many(spread, table.n)
    perturbed = {c for a in used for c in a.columns} - left
    columns = {v: table.column(v) for v in variables if v not in perturbed}
    records = Records.clean(table.n, columns)
    for assignment in spread:
        records = spread_over(records, assignment, undone(function, assignment, table), variables)
    _refuse_lost_in_rounding(records, [a for a in spread if a.channel.levels is None])
    if subset is not None:
        records = records.within(subset.inside, function.variables)
    if alone:
        shared = mechanism is not None and mechanism.unit is not None
        records = replace(records, response=response_moments(function, alone[0], table, shared=shared))
    return with_noise(records, closed or {})


def _refuse_too_many(assignments: list[Assignment], n: int) -> None:
    sizes = [len(a.channel.levels) for a in assignments if a.channel.levels is not None]
    nodes = float(np.prod(sizes)) if sizes else 1.0
    if n * nodes > NODE_LIMIT:
        named = ", ".join(f"{' × '.join(a.columns)} ({s})" for a, s in zip(assignments, sizes, strict=False))
        raise DataError(
            f"the perturbed columns {named} have {nodes:.3g} combinations of levels, {n * nodes:.1e} weights for {n} records, "
            f"above the limit of {NODE_LIMIT:.0e}: use fewer of them in one formula or merge levels. Formulas with family 'gaussian', or "
            "'poisson', 'gamma' or 'inverse-gaussian' with link 'log', need no combinations of columns that do not interact"
        )


def _refuse_lost_in_rounding(records: Records, noisy: list[Assignment]) -> None:
    """Signed weights of several columns with noise multiply, and what is left of a sum of large ones is rounding."""
    lost = float(np.abs(records.table).sum(axis=1).max(initial=0.0)) * 2.0**-53
    if noisy and lost > LOST:
        raise DataError(
            f"the noise of {listing([c for a in noisy for c in a.columns])} would be undone by weights so large that {lost:.1g} of a function's size is "
            f"rounding, above {LOST:g}: use fewer of these columns at once, in terms that are linear in them, or a column with noise on a grid"
        )


def response_moments(
    function: EstimatingFunction, assignment: Assignment, table: Table, *, shared: bool
) -> ResponseMoments:
    """First and second reverted moments of a perturbed response, straight from its table of levels; where records share a draw,
    the levels as well."""
    encoded, context = assignment.encoded(table), assignment.context(table)

    noisy = assignment.channel.levels is None
    numbers = function.noisy_response_values if noisy else function.response_values

    def powers(values: Column) -> Float:
        y = numbers(values)
        return np.column_stack([y, y**2])

    if noisy:
        released = numbers(table.column(assignment.columns[0]))
        moments = assignment.channel.revert_polynomial(encoded, context, HIGHEST).reverted(powers)
        return ResponseMoments(moments[:, 0], moments[:, 1], released)
    levels = assignment.channel.levels or ()
    listed = len(assignment.columns) == 1 and not assignment.reports
    by_level = numbers(decode(np.arange(len(levels)), levels)) if listed else np.empty(0)
    released = np.take(by_level, encoded) if listed else numbers(table.column(assignment.columns[0]))
    moments = assignment.channel.revert_function(powers, encoded, context)
    nodes = response_nodes(function, assignment.channel.revert(encoded, context)) if shared else None
    return ResponseMoments(moments[:, 0], moments[:, 1], released, nodes)


def response_nodes(function: EstimatingFunction, nodes: Nodes) -> ResponseNodes:
    """The measure of a perturbed response, as numbers that the function sees."""
    return ResponseNodes(
        function.response_values(decode(np.arange(len(nodes.values)), nodes.values)), nodes.table, nodes.row
    )


def spread_over(records: Records, assignment: Assignment, nodes: Nodes, variables: tuple[str, ...]) -> Records:
    """Compose one more channel: the product of the measures, without any Kronecker product of matrices.

    Rows of the combined table are the pairs of rows that occur.
    """
    values, table, released = _marginal(assignment, nodes, variables)
    row = nodes.row
    if records.table.size > 1:
        pairs, row = np.unique(records.row * len(table) + nodes.row, return_inverse=True)
        old, new = np.divmod(pairs, len(table))
        table = (records.table[old][:, :, None] * table[new][:, None, :]).reshape(len(pairs), -1)
        released = records.released[old] * len(values) + released[new]
    combined = tuple({**before, **after} for before, after in product(records.nodes, values))
    return replace(records, nodes=combined, table=table, row=row, released=released)


def _marginal(
    assignment: Assignment, nodes: Nodes, variables: tuple[str, ...]
) -> tuple[list[Mapping[str, object]], Float, Int]:
    """Values by column, table and released nodes, with joint columns that the function does not use summed out."""
    if len(assignment.columns) == 1:
        return [{assignment.columns[0]: v} for v in nodes.values], nodes.table, nodes.released
    if assignment.channel.levels is None:  # noise in all of these columns, which the function uses
        moved: list[Any] = [dict(zip(assignment.columns, v, strict=True)) for v in nodes.values]  # type: ignore[call-overload]
        return moved, nodes.table, nodes.released
    kept = [i for i, name in enumerate(assignment.columns) if name in variables]
    keys = [tuple(value[i] for i in kept) for value in nodes.values]  # type: ignore[index]
    distinct = list(dict.fromkeys(keys))
    place: Int = np.array([distinct.index(key) for key in keys])
    table = np.zeros((len(nodes.table), len(distinct)))
    for j, k in enumerate(place):
        table[:, k] += nodes.table[:, j]
    values: list[Mapping[str, object]] = [
        {assignment.columns[i]: key[j] for j, i in enumerate(kept)} for key in distinct
    ]
    return values, table, place[nodes.released]

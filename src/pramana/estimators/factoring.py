"""When does a reverted generalised linear score factor over its perturbed variables, and into what?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from pramana.arrays import Float, Int
from pramana.estimating import Equation, EstimatingFunction, GeneralizedLinear, Records, ResponseMoments
from pramana.estimating.collinearity import refuse_collinear
from pramana.estimating.factored import Component, FactoredLinear, FactoredLog, FactoredRecords
from pramana.estimators.noise import undone
from pramana.frames import Table
from pramana.kernels.blocks import runs
from pramana.kernels.predictor import POWER
from pramana.mechanism import Assignment, Mechanism


def factored_equation(function: EstimatingFunction, mechanism: Mechanism | None, table: Table) -> Equation | None:
    """The equation whose cost is the sum of the level counts; None where the mathematics does not give one.

    Decided by formula and mechanism alone: gaussian/identity, or a log link with V(μ) = μ^p, at least two components of
    perturbed covariates, a response that shares no channel with them, and an offset without perturbed columns.
    """
    if not isinstance(function, GeneralizedLinear) or mechanism is None or function.parts is None:
        return None
    curve, linear = function.family.curve, (function.family.name, function.family.link) == ("gaussian", "identity")
    used = mechanism.used_by(function.variables)
    response = [a for a in used if a.columns == (function.response,)]
    groups = _components(function, [a for a in used if a not in response])
    if groups is None or len(groups) < 2 or not (linear or curve.code == POWER):
        return None
    records = _records(function, groups, response, table, shared=mechanism.unit is not None)
    refuse_collinear(_designs(records), function.parameters)
    return FactoredLinear(function, records) if linear else FactoredLog(function, records, curve.shape)


def _components(function: GeneralizedLinear, assignments: list[Assignment]) -> list[list[Assignment]] | None:
    """Channels grouped by the design columns that read several of them; None where the response or an offset does."""
    reads = function.reads
    hidden = {name for a in assignments for name in a.columns}
    if function.response is None or function.response in hidden or hidden.intersection(function.offset_reads):
        return None
    groups = [[a] for a in assignments]
    for names in reads:
        touched = [g for g in groups if any(names.intersection(a.columns) for a in g)]
        if len(touched) > 1:
            groups = [g for g in groups if g not in touched] + [[a for g in touched for a in g]]
    return groups


def _records(
    function: GeneralizedLinear,
    groups: list[list[Assignment]],
    response: list[Assignment],
    table: Table,
    *,
    shared: bool,
) -> FactoredRecords:
    from pramana.estimators.reversion import response_moments

    reads = function.reads
    hidden = {name for g in groups for a in g for name in a.columns}
    released = _first_levels(groups) | {v: table.column(v) for v in function.variables if v not in hidden}
    whole = function.design_of(released, table.n)
    clean: Int = np.flatnonzero([not names & hidden for names in reads])
    offset = np.zeros(table.n) if function.offset_of is None else function.offset_of(released, table.n)
    if response:
        moments = response_moments(function, response[0], table, shared=shared)
    else:
        y = function.response_of(released, table.n)
        function.family.check_response(y, function.label)
        moments = ResponseMoments(y, y**2, y)
    components = _built(function, groups, table, released)
    return FactoredRecords(table.n, whole[:, clean], clean, components, moments, offset)


def _built(
    function: GeneralizedLinear, groups: list[list[Assignment]], table: Table, released: Mapping[str, object]
) -> tuple[Component, ...]:
    """Measures and designs of all components; those that read no clean column share one small evaluation of the formula."""
    made = []
    for group in groups:
        names = {name for a in group for name in a.columns}
        columns: Int = np.flatnonzero([bool(own & names) for own in function.reads])
        records = _measures(function, group, table)
        made.append((records, columns, all(function.reads[j] <= names for j in columns) and _by_level(records)))
    out = []
    for records, columns, alone in made:
        rows = 1 if alone else table.n
        at = [_at(function, released, node, rows)[:, columns] for node in records.nodes]
        out.append(Component(records.table, records.row, records.released, np.stack(at, axis=1), columns))
    return tuple(out)


def _at(function: GeneralizedLinear, released: Mapping[str, object], node: Mapping[str, object], rows: int) -> Float:
    """The design of the first records with the values of a node filled in."""
    columns = {name: value[:rows] if isinstance(value, np.ndarray) else value for name, value in released.items()}
    return function.design_of({**columns, **node}, rows)


def _by_level(records: Records) -> bool:
    return not any(isinstance(v, np.ndarray) for node in records.nodes for v in node.values())


def _measures(function: GeneralizedLinear, group: list[Assignment], table: Table) -> Records:
    """The signed measures of channels that occur together."""
    from pramana.estimators.reversion import spread_over

    records = Records.clean(table.n, {})
    for assignment in group:
        records = spread_over(records, assignment, undone(function, assignment, table), function.variables)
    return records


def _first_levels(groups: list[list[Assignment]]) -> dict[str, object]:
    """A value for every perturbed covariate, for columns that do not read it."""
    out: dict[str, object] = {}
    for assignment in (a for g in groups for a in g):
        for k, name in enumerate(assignment.columns):
            levels = assignment.component(k)
            out[name] = 0.0 if levels is None else levels[0]
    return out


def _designs(records: FactoredRecords) -> Iterator[Float]:
    """Designs that together have the rank of all combinations of levels: each component at each of its levels."""
    for rows in runs(records.n):
        yield _with_levels(records, rows, {})
    some = slice(0, min(records.n, 2000))
    for k, component in enumerate(records.components):
        for level in range(1, component.design.shape[1]):
            yield _with_levels(records, some, {k: level})


def _with_levels(records: FactoredRecords, rows: slice, levels: Mapping[int, int]) -> Float:
    """Designs of some records with every component at its first level, or at another where one is given."""
    clean = records.clean[rows]
    out = np.empty((len(clean), records.d))
    out[:, records.clean_columns] = clean
    for k, component in enumerate(records.components):
        own = component.design[:, levels.get(k, 0)]
        out[:, component.place] = own if component.alone else own[rows]
    return out

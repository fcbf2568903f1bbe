"""Perturbing a frame in memory: encode, draw, decode; gaps stay gaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from pramana.arrays import Bool, Column, Words
from pramana.errors import DataError
from pramana.frames import Table
from pramana.mechanism.draws.keyed import Repeats
from pramana.mechanism.draws.sources import Keyed, Source
from pramana.mechanism.mechanism import Assignment, Mechanism, component_values


def perturbed(mechanism: Mechanism, table: Table, source: Source, identifiers: Any) -> dict[str, Column]:
    """New values of every perturbed column."""
    digests = _digests(mechanism, table, source, identifiers) if isinstance(source, Keyed) else None
    out: dict[str, Column] = {}
    for position, assignment in enumerate(mechanism.assignments):
        out.update(_drawn(position, assignment, table, source, digests))
    return out


def _digests(mechanism: Mechanism, table: Table, source: Keyed, identifiers: Any) -> Words:
    name = identifiers if isinstance(identifiers, str) else "id"
    if name in mechanism.columns and isinstance(identifiers, str):
        raise DataError(f"the identifier {name!r} is perturbed itself: use an unperturbed column")
    values = table.column(name) if isinstance(identifiers, str) else np.asarray(identifiers)
    if values.shape != (table.n,):
        raise DataError(f"id has shape {values.shape} but the data have {table.n} records: give one value a record")
    digests = source.digests(values, name)
    repeats = Repeats(name)
    repeats.add(digests)
    repeats.check()
    return digests


def _drawn(
    position: int, assignment: Assignment, table: Table, source: Source, digests: Words | None
) -> dict[str, Column]:
    """New values of an assignment's columns; rows with a missing value keep what they had."""
    channel, present = assignment.channel, ~table.missing(assignment.columns)
    if not present.any():
        return {name: table.column(name) for name in assignment.columns}
    for name in channel.context:
        _refuse_unknown_stratum(table, name, present)
    context = {name: _filled(values, present) for name, values in assignment.context(table).items()}
    columns = [
        _filled(table.column(name), present, _stand_in(assignment, place))
        for place, name in enumerate(assignment.columns)
    ]
    true = channel.encode(columns, assignment.columns)
    codes = channel.perturb(true, context, source.stream(position, true, digests))
    out = {}
    for place, name in enumerate(assignment.columns):
        values = component_values(assignment, place, codes)
        out[name] = _with_gaps(table.column(name), present, values)
    return out


def _refuse_unknown_stratum(table: Table, name: str, present: Bool) -> None:
    """Without its stratum a record cannot be perturbed, and it must not be released as it is."""
    rows = np.flatnonzero(table.missing([name]) & present)
    if rows.size:
        raise DataError(
            f"column {name!r} has {rows.size} missing value(s), first in row {rows[0]}, and decides which transition matrix "
            "applies: fill them in, or give them a stratum of their own"
        )


def _stand_in(assignment: Assignment, position: int) -> object:
    """A value that the channel knows, or None for a continuous one."""
    levels = assignment.channel.levels
    if levels is None or len(assignment.columns) == 1:
        return None if levels is None else levels[0]
    return levels[0][position]  # type: ignore[index]


def _filled(values: Column, present: Bool, stand_in: object = None) -> Column:
    """Gaps filled, so that row numbers stay true; what is drawn for them is not used."""
    if present.all():
        return values
    out = values.copy()
    out[~present] = values[np.argmax(present)] if stand_in is None else stand_in
    return out


def _with_gaps(original: Column, present: Bool, values: Column) -> Column:
    if present.all():
        return values
    out = original.astype(object)
    out[present] = values[present]
    return out

"""The custodian's own file: its complete records, their codes under a mechanism, and the levels of a column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np

from pramana.arrays import Bool, Column, Int
from pramana.errors import DataError, PramanaError, suggestion
from pramana.frames import Level, Table, read
from pramana.frames.table import is_missing, require_columns
from pramana.mechanism import Assignment, Mechanism

Missing = Literal["error", "drop"]


def read_confidential(
    data: Any, mechanism: Mechanism | None, columns: Collection[str], missing: Missing = "error"
) -> tuple[Table, Bool]:
    """The true records that are complete in every column that is used, and which of all records they are."""
    if missing not in ("error", "drop"):
        raise PramanaError(f"missing={missing!r} is unknown: {suggestion(str(missing), ['error', 'drop'])}")
    table = read(data, text=text_levels(mechanism))
    if mechanism is not None:
        require_columns(table, mechanism.columns, "the mechanism")
    used = list(dict.fromkeys([*columns, *_touched(mechanism)]))
    require_columns(table, used, "the assessment")
    if table.n == 0:
        raise DataError(f"{table.source} has no records")
    return _complete(table, used, missing)


def text_levels(mechanism: Mechanism | None) -> dict[str, tuple[Level, ...]]:
    """Columns whose levels are text, so that a CSV reader leaves "01" alone."""
    return {} if mechanism is None else mechanism.texts


def _touched(mechanism: Mechanism | None) -> list[str]:
    if mechanism is None:
        return []
    return [c for a in mechanism.assignments for c in (*a.columns, *a.channel.context)]


def read_released(released: Any, kept: Bool, table: Table, mechanism: Mechanism, clear: Collection[str]) -> Table:
    """The released counterparts of the true records, row by row; columns that are not perturbed must agree."""
    other = read(released, text=text_levels(mechanism))
    if other.n != kept.size:
        raise DataError(
            f"the released file has {other.n} records and the true one {kept.size}: they must be the same records"
        )
    require_columns(other, [*mechanism.columns, *clear], "the released file")
    other = other if kept.all() else other.where(kept)
    for name in clear:
        codes = groups_of(np.concatenate([table.column(name), other.column(name)]))
        apart = codes[: table.n] != codes[table.n :]
        if apart.any():
            raise DataError(
                f"column {name!r} is not perturbed, yet {int(apart.sum())} of its values differ between the true and the released "
                f"file, first in row {int(np.argmax(apart))}: the records must be in the same order"
            )
    return other


def _complete(table: Table, columns: Sequence[str], missing: Missing) -> tuple[Table, Bool]:
    gaps = {name: is_missing(table.column(name)) for name in columns}
    rows = np.logical_or.reduce([*gaps.values(), np.zeros(table.n, dtype=bool)])
    if not rows.any():
        return table, ~rows
    where = ", ".join(f"{k!r} ({int(v.sum())}, first in row {int(np.argmax(v))})" for k, v in gaps.items() if v.any())
    if missing == "error":
        raise DataError(
            f"{int(rows.sum())} of {table.n} records have missing values, in {where}: use missing='drop' to leave them out, "
            "or recode them as a level of their own"
        )
    if rows.all():
        raise DataError(f"every one of the {table.n} records has a missing value, in {where}: nothing is left")
    return table.where(~rows), ~rows


def codes_of(assignment: Assignment, table: Table) -> Int:
    """Codes of the true values; an unknown one is named by row and count alone."""
    return np.asarray(assignment.encoded(table), dtype=np.int64)


def groups_of(values: Column) -> Int:
    """Codes 0, 1, … of equal values, a missing value being equal to itself."""
    import pandas as pd

    return np.asarray(pd.factorize(pd.Series(values), use_na_sentinel=False)[0], dtype=np.int64)


def levels_of(table: Table, column: str) -> tuple[Level, ...]:
    """Distinct values of a column in their natural order, or in that of its categories."""
    chosen = table.categories(column)
    values = (
        chosen if chosen is not None else sorted(set(table.column(column).tolist()), key=lambda v: (str(type(v)), v))
    )
    if len(values) < 2:
        raise DataError(f"column {column!r} has {len(values)} distinct value(s): there is nothing to randomise")
    return tuple(values)

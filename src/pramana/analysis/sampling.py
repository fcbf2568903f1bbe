"""Arrays given beside the data, one value a record: weights, counts, clusters, and which records are complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pramana.arrays import Column, Float, Int
from pramana.errors import DataError, PramanaError, quoted, suggestion
from pramana.frames import Table
from pramana.frames.table import is_missing
from pramana.mechanism import Mechanism
from pramana.result import Diagnostic

ColumnLike = str | Sequence[Any] | Column | None


def array_of(name: str, given: ColumnLike, table: Table, mechanism: Mechanism | None) -> Column:
    if isinstance(given, str):
        if mechanism is not None and given in mechanism.columns:
            raise DataError(f"{name}={given!r} is a perturbed column: {name} must be unperturbed")
        return table.column(given)
    values = np.asarray(given)
    if values.shape != (table.n,):
        raise DataError(
            f"{name} have shape {values.shape} but the data have {table.n} records: give one value a record"
        )
    return values


def complete(
    table: Table, columns: Sequence[str], arrays: Mapping[str, Column], missing: str
) -> tuple[Any, tuple[Diagnostic, ...]]:
    """Rows without gaps in anything that is used."""
    if missing not in ("error", "drop"):
        raise PramanaError(f"missing={missing!r} is unknown: {suggestion(missing, ['error', 'drop'])}")
    gaps = {name: is_missing(table.column(name)) for name in columns} | {k: is_missing(v) for k, v in arrays.items()}
    rows = np.logical_or.reduce([*gaps.values(), np.zeros(table.n, dtype=bool)])
    count = int(rows.sum())
    if not count:
        return ~rows, ()
    where = ", ".join(f"{name!r} ({int(v.sum())})" for name, v in gaps.items() if v.any())
    if missing == "error":
        raise DataError(
            f"{count} of {table.n} records have missing values, in {where}: use missing='drop' to leave them out, "
            "or recode them as a level of their own"
        )
    if count == table.n:
        raise DataError(f"every one of the {table.n} records has a missing value, in {where}: nothing is left to fit")
    note = f"{count} of {table.n} records left out for missing values, in {where}"
    return ~rows, (Diagnostic("missing-dropped", "info", note),)


def checked_weights(values: Column | None, name: str) -> Float | None:
    if values is None:
        return None
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(
            f"{name} must be numbers, not {quoted(repr(values.tolist()[0]))}: give a numeric column or array"
        ) from None
    if not np.all(np.isfinite(numbers)):
        count = int(np.sum(~np.isfinite(numbers)))
        raise DataError(f"{name} hold {count} infinite or missing value(s): every one must be a finite number")
    if np.any(numbers < 0):
        raise DataError(
            f"{name} hold {int(np.sum(numbers < 0))} negative value(s), the smallest {quoted(f'{numbers.min():g}')}: the limit is 0"
        )
    if not np.any(numbers > 0):
        raise DataError(f"{name} are zero throughout: at least one must be positive")
    if not 1e-100 < numbers.max() < 1e100:
        raise DataError(
            f"the largest of the {name} is {quoted(f'{numbers.max():g}')}: rescale them to lie between 1e-100 and 1e+100"
        )
    broken = np.flatnonzero(numbers != np.round(numbers))
    if name == "frequencies" and broken.size:
        raise DataError(
            f"frequencies hold {broken.size} value(s) such as {quoted(f'{numbers[broken[0]]:g}')}; they are counts of equal records and must be whole numbers: use weights= for sampling weights"
        )
    return numbers


def cluster_codes(values: Column | None) -> Int | None:
    if values is None:
        return None
    import pandas as pd

    codes, labels = pd.factorize(pd.Series(values))
    if len(labels) < 2:
        raise DataError(f"clusters have {len(labels)} distinct value(s): a cluster-robust variance needs at least 2")
    return np.asarray(codes, dtype=np.int64)


def checked_start(start: Sequence[float] | None, d: int) -> Float | None:
    if start is None:
        return None
    try:
        values = np.asarray(start, dtype=float)
    except (TypeError, ValueError):
        raise PramanaError(f"start must hold {d} finite numbers, one a parameter, not {start!r}") from None
    if values.shape != (d,) or not np.all(np.isfinite(values)):
        raise PramanaError(f"start must hold {d} finite numbers, one a parameter; it has shape {values.shape}")
    return values

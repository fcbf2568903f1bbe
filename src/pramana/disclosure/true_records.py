"""The custodian's own file: its records, whole or complete ones, their codes under a mechanism, and the levels of a column."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from pramana.arrays import Bool, Column, Float, Int
from pramana.disclosure.release.handling import Asked, Handling, asked
from pramana.disclosure.release.link import read_link
from pramana.disclosure.release.streaming import Coding
from pramana.errors import DataError, MechanismError, PramanaError, listing, suggestion
from pramana.frames import Level, Table, encode, read
from pramana.frames.files import format_of
from pramana.frames.folders import files_of, read_files
from pramana.frames.marks import refuse_undeclared, with_gaps
from pramana.frames.sources import SPREAD
from pramana.frames.table import is_missing, require_columns
from pramana.mechanism import Assignment, Mechanism
from pramana.mechanism.description.reading import find_description
from pramana.mechanism.designs.design_file import Design
from pramana.mechanism.draws.perturbation import Cells

Missing = Literal["keep", "error", "drop"]
Gaps = Literal["error", "drop"]
"""What an analysis can do with missing values; it has no use for them."""

RECORD, VALUE = 300, 60
"""Bytes that a record and each of its values take while risk is weighed in memory, codes and chances included; as measured."""
HELD = 4e9
"""Bytes that the records of a plan may take, which needs them all at once."""


@dataclass(frozen=True)
class Counted:
    """True records, of which equal ones may stand together, and what was released of them.

    Attributes
    ----------
    table : true values, one row for some equal records.
    counts : how many records a row stands for (m,).
    rows : where the first of them is in the file (m,).
    released : their released values, or None.
    """

    table: Table
    counts: Int
    rows: Int
    released: Table | None = None

    @classmethod
    def of(cls, table: Table, rows: Int | None = None, released: Table | None = None) -> Counted:
        """Every record by itself."""
        return cls(table, np.ones(table.n, dtype=np.int64), np.arange(table.n) if rows is None else rows, released)

    @property
    def n(self) -> int:
        """Records in all."""
        return int(self.counts.sum())

    def where(self, chosen: Bool) -> Counted:
        released = None if self.released is None else self.released.where(chosen)
        return Counted(self.table.where(chosen), self.counts[chosen], self.rows[chosen], released)

    def first_of_most(self, values: Float) -> int:
        """The place of the largest value (m,), that of the record which comes first in the file where several have it."""
        most = np.flatnonzero(values == values.max())
        return int(most[np.argmin(self.rows[most])])


CountedBy: TypeAlias = Callable[[Sequence[str]], Counted | None]
"""From some columns to the records with these, equal ones together; None where there are too many to be put into a table."""


def touched(assignment: Assignment) -> tuple[str, ...]:
    """The columns of an assignment, and those that decide its matrix."""
    return (*assignment.columns, *assignment.channel.context)


def read_confidential(
    data: Any,
    known: Asked | None,
    columns: Collection[str],
    missing: Missing,
    choices: Any = Missing,
    memory: float = HELD,
) -> tuple[Table, Bool]:
    """The true records that are assessed, and which of all records they are: those complete in every column, or all of them. Files that would
    take more memory are refused."""
    mechanism = None if known is None else known.mechanism
    check_missing(missing, choices)
    used = used_columns(columns, mechanism)
    files, text = files_of(data), text_levels(mechanism)
    needed = file_bytes([Path(file) for file in files], len(used))
    if needed > memory:
        raise DataError(
            f"the {len(used)} column(s) in use of the {len(files)} files take about {needed / 1e9:.2g} GB in memory, where this needs all records "
            f"at once; the limit is {memory / 1e9:g} GB: take a random part of the records as the pilot, or some of the files"
        )
    table = read_files(files, text, used) if files else read(data, text=text)
    if known is not None:
        require_columns(table, known.mechanism.columns, "the mechanism")
        levels = {v.name: v.levels or () for v in known.mechanism.schema.variables.values()}
        refuse_undeclared(data, levels, known.missing)
        table = recoded(table, known)
    require_columns(table, used, "the assessment")
    if table.n == 0:
        raise DataError(f"{table.source} has no records")
    return (table, np.ones(table.n, dtype=bool)) if missing == "keep" else _complete(table, used, missing)


def held_bytes(rows: int, columns: int) -> float:
    """What records with so many columns take in memory."""
    return float(rows) * (RECORD + columns * VALUE)


def file_bytes(paths: Sequence[Path], columns: int) -> float:
    """What the records take in memory, as far as files tell; whoever reads a file that cannot be opened says so."""
    total = 0.0
    for path in paths:
        if format_of(path) == "csv":
            total += SPREAD * path.stat().st_size
            continue
        try:
            total += held_bytes(parquet.read_metadata(path).num_rows, columns)
        except (pa.ArrowException, OSError):
            return 0.0
    return total


def given_mechanism(mechanism: Any, data: Any, released: Mapping[str, Any] | None = None) -> Asked:
    """A mechanism, from its description, or from a design (TOML) as a release would build it on these data.

    Parameters
    ----------
    released : the description of the released file, where there is one: it says which level stands for a missing value.
    """
    if not isinstance(mechanism, Mechanism | Design | str | Path):
        raise MechanismError(
            f"mechanism of type {type(mechanism).__name__}: give a Mechanism, or the path of its description or design"
        )
    marks = (released or {}).get("missing_marks")
    wanted = asked(mechanism, data, None, Handling(missing=tuple(marks) if isinstance(marks, list) else ()))
    stated = (released or {}).get("missing_level")
    codings = wanted.codings
    for name, level in stated.items() if isinstance(stated, dict) else ():
        codings[name] = replace(codings.get(name, Coding()), missing=level)
    return replace(wanted, codings=codings)


def recoded(table: Table, known: Asked) -> Table:
    """The true values as the release takes them: declared marks missing, rare values merged, missing ones as the level that stands for them."""
    table = with_gaps(table, [c for c in known.mechanism.columns if c in table.names], known.missing)
    for name, coding in known.codings.items():
        if (coding.merged or coding.missing is not None) and name in table.names:
            values = table.column(name)
            gaps = is_missing(values)
            levels = [coding.merged.get(v, v) for v in values.tolist()]
            table = table.replaced(name, [coding.missing if gap else v for v, gap in zip(levels, gaps, strict=True)])
    return table


def told_of_release(released: Any) -> dict[str, Any]:
    """What the description of a released file, or of the first of several, says of it; nothing for a frame."""
    alone = [released] if isinstance(released, str | os.PathLike) else []
    found = next((find_description(Path(file)) for file in files_of(released) or alone), None)
    body = (found or {}).get("pram")
    return body if isinstance(body, dict) else {}


def text_levels(mechanism: Mechanism | None) -> dict[str, tuple[Level, ...]]:
    """Columns whose levels are text, so that a CSV reader leaves "01" alone."""
    return {} if mechanism is None else mechanism.of_truth.texts


def check_missing(missing: str, choices: Any = Missing) -> None:
    if missing not in get_args(choices):
        raise PramanaError(f"missing={missing!r} is unknown: {suggestion(str(missing), get_args(choices))}")


def used_columns(columns: Collection[str], mechanism: Mechanism | None) -> list[str]:
    """Columns that are asked for, and those of the mechanism."""
    own = [] if mechanism is None else [c for a in mechanism.assignments for c in touched(a)]
    return list(dict.fromkeys([*columns, *own]))


def aligned(
    other: Table, linked: Path | None, kept: Bool, table: Table, mechanism: Mechanism, clear: Collection[str]
) -> Table:
    """The released counterparts of the true records, row by row; columns that are not perturbed must agree.

    Parameters
    ----------
    other : the released file.
    linked : the custodian's link file, where the release was shuffled or got new identifiers.
    """
    refuse_other_number(other.n, kept.size)
    require_columns(other, [*mechanism.columns, *clear], "the released file")
    if linked is not None:
        other = other.take(np.argsort(read_link(linked, other.n)))
    other = other if kept.all() else other.where(kept)
    refuse_other_records(
        {what: tallied(rows) for what, rows in apart(table, other, mechanism, clear).items()}, linked is not None
    )
    return other


CountAndFirst: TypeAlias = tuple[int, int]
"""How many records something is true of, and where the first of them is."""
Differing: TypeAlias = tuple[bool, tuple[str, ...]]
"""Whether columns are perturbed, and their names."""


def tallied(rows: Bool) -> CountAndFirst:
    """Of records (n,)."""
    return int(rows.sum()), int(np.argmax(rows))


def apart(
    table: Table,
    other: Table,
    mechanism: Mechanism,
    clear: Collection[str],
    differ: Callable[[Table, Table, str], Bool] | None = None,
) -> dict[Differing, Bool]:
    """Records (n,) that cannot be each other's counterparts, by what shows it: columns that are not perturbed differ, or values are
    missing in one of the two alone. `differ` says where a column does."""
    found: dict[Differing, Bool] = {(False, (name,)): (differ or _differ)(table, other, name) for name in clear}
    for assignment in mechanism.assignments:
        # Where one of the columns of a draw is missing, none of them is released.
        found[True, assignment.columns] = _gaps(table, assignment.columns) != _gaps(other, assignment.columns)
    return found


def _differ(table: Table, other: Table, name: str) -> Bool:
    codes = groups_of(np.concatenate([table.column(name), other.column(name)]))
    return np.asarray(codes[: table.n] != codes[table.n :])


def _gaps(table: Table, columns: Collection[str]) -> Bool:
    """Records in which one of the columns is missing (n,); columns without gaps are not looked at."""
    found = [rows for name in columns if (rows := table.gaps(name)) is not None]
    return np.logical_or.reduce([*found, np.zeros(table.n, dtype=bool)])


def refuse_other_number(released: int, true: int) -> None:
    if released != true:
        raise DataError(
            f"the released file has {released} records and the true one {true}: they must be the same records"
        )


def refuse_other_records(found: Mapping[Differing, CountAndFirst], linked: bool) -> None:
    """A released file whose records are others than the true ones, or in another order."""
    remedy = "the link file belongs to another release" if linked else "the records must be in the same order"
    for (perturbed, names), (records, first) in found.items():
        if not records:
            continue
        if not perturbed:
            raise DataError(
                f"column {names[0]!r} is not perturbed, yet {records} of its values differ between the true and the released "
                f"file, first in row {first}: {remedy}; a shuffled release needs its link file"
            )
        raise DataError(
            f"column {listing(names)} is missing in only one of the true and the released file in {records} record(s), first in row "
            f"{first}: {remedy}; a shuffled release needs its link file"
        )


def unreleased(names: Sequence[str], released: Sequence[str], body: Mapping[str, Any]) -> list[str]:
    """Columns that the released file, whose names are given, does not have, or has with identifiers of its own: nobody can be matched by them."""
    return [name for name in names if name not in released or name == body.get("new_id")]


def _complete(table: Table, columns: Sequence[str], missing: Missing) -> tuple[Table, Bool]:
    gaps = {name: is_missing(table.column(name)) for name in columns}
    rows = np.logical_or.reduce([*gaps.values(), np.zeros(table.n, dtype=bool)])
    if not rows.any():
        return table, ~rows
    refuse_gaps({name: tallied(own) for name, own in gaps.items()}, int(rows.sum()), table.n, missing)
    return table.where(~rows), ~rows


def refuse_gaps(gaps: Mapping[str, CountAndFirst], incomplete: int, n: int, missing: Missing) -> None:
    """Records with missing values, by column, where they are not asked to be left out, or nothing would be left."""
    where = ", ".join(f"{name!r} ({count}, first in row {first})" for name, (count, first) in gaps.items() if count)
    if incomplete and missing == "error":
        raise DataError(
            f"{incomplete} of {n} records have missing values, in {where}: use missing='drop' to leave them out, "
            "or recode them as a level of their own"
        )
    if incomplete == n and missing == "drop":
        raise DataError(f"every one of the {n} records has a missing value, in {where}: nothing is left")


def strata_of(assignment: Assignment, cells: Cells) -> Int:
    """Position of each record's stratum (n,); zeros for a channel without strata. What is missing has that of any other."""
    if not cells.context:
        return np.zeros(cells.codes.size, dtype=np.int64)
    by = assignment.channel.context[0]
    return encode(cells.context[by], list(assignment.channel.parts), column=by)


def codes_of(assignment: Assignment, table: Table) -> Column:
    """Codes of the true values, or numbers that get noise; an unknown one is named by row and count alone."""
    columns = [table.column(name) for name in assignment.columns]
    codes = assignment.channel.encode(columns, assignment.columns)
    return codes if assignment.numeric else np.asarray(codes, dtype=np.int64)


def groups_of(values: Column) -> Int:
    """Codes 0, 1, … of equal values, a missing value being equal to itself."""
    import pandas as pd

    return np.asarray(pd.factorize(pd.Series(values), use_na_sentinel=False)[0], dtype=np.int64)


def levels_of(table: Table, column: str) -> tuple[Level, ...]:
    """Distinct values of a column in their natural order, or in that of its categories."""
    values = table.levels(column)
    if len(values) < 2:
        raise DataError(f"column {column!r} has {len(values)} distinct value(s): there is nothing to randomise")
    return tuple(values)

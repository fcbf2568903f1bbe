"""Records that share a draw of the noise: as the mechanism says, or as the file shows although nobody said so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pramana.analysis.distinct import RECORDS
from pramana.analysis.sampling import SamplingArguments
from pramana.arrays import Column, Int
from pramana.diagnostic import Diagnostic
from pramana.engines import Sampling
from pramana.errors import DataError, listing
from pramana.frames import Table
from pramana.frames.table import is_missing
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix

SHARED_DRAWS = "shared-draws"
CHANCE = 1e-6
"""Probability, under draws of their own, below which equal released values within every group are no accident."""
TRIED = 1000
"""Records whose groups are looked at before those of all records are."""
IDENTIFIER = re.compile(
    r"(?i)(^|.*[_ .-])(id|ids|identifier|uid|pid|person|subject|patient|participant|respondent|individual|member|case|household)"
    r"([_ .-]?(id|no|nr|num|number|code|key))?$|^(person|subject|patient|participant|respondent|hh|household|case)(id|nr|no)$"
)
"""Names of columns that tell whose a record is."""


def sharing(table: Table, mechanism: Mechanism, used: Sequence[str], sampling: Sampling) -> Int | None:
    """Codes (n,) of the units whose records share one draw of every perturbed column in use.

    None where that cannot be said: the value varies in a unit, so that draws go by level, the file does not have the unit's
    column, or a column has no levels. Clusters that cut a unit in two are refused, and so are units whose released values differ.
    """
    unit = mechanism.unit
    if unit is None or unit.column not in table.names:
        return None
    codes = _codes(table.column(unit.column))
    first = _first(codes)
    if sampling.clusters is not None and not _around_the_file(sampling):
        _refuse_cut(
            len(np.unique(codes[sampling.clusters != sampling.clusters[first[codes]]])), len(first), unit.column
        )
    if unit.varies:
        return None
    for name in _drawn_together(mechanism, used):
        values = table.column(name)
        _refuse_astray(int(np.count_nonzero(values != values[first[codes]])), table.n, name, unit.column)
    return codes if all(a.channel.levels is not None for a in mechanism.used_by(used)) else None


def _drawn_together(mechanism: Mechanism, used: Sequence[str]) -> list[str]:
    """Columns that hold one value in all records of a unit."""
    return [c for a in mechanism.used_by(used) for c in (*(a.reports or a.columns), *a.channel.context)]


def _refuse_astray(astray: int, n: int, name: str, unit: str) -> None:
    if astray:
        raise DataError(
            f"{astray} of {n} records hold another value of {name!r} than the first record of their unit {unit!r}, "
            "although the mechanism says that they share one draw: use the file's own description, "
            f"mechanism.with_unit(None) if every record has a draw of its own, or Unit({unit!r}, varies=True)"
        )


def _first(codes: Int) -> Int:
    """Where each code (G,) occurs first."""
    first = np.empty(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def _codes(values: Column) -> Int:
    import pandas as pd

    return np.asarray(pd.factorize(values)[0], dtype=np.int64)


def _around_the_file(sampling: Sampling) -> bool:
    return sampling.strata is not None and sampling.strata.target == "file"


def _refuse_cut(cut: int, units: int, name: str) -> None:
    """A variance between clusters misses what records in two of them have in common."""
    if cut:
        raise DataError(
            f"the records of one {name!r} share a draw, and {cut} of {units} of them lie in several clusters or strata: the "
            f"standard errors would miss what they have in common. Use clusters that hold every {name!r} whole, or clusters={name!r}"
        )


def noticed(
    table: Table, mechanism: Mechanism, used: Sequence[str], clusters: str | Column | None
) -> tuple[Diagnostic, ...]:
    """A warning where all records of a cluster or person hold one released value, which draws of their own would hardly give.

    m draws agree with probability Σ_z Π_i P[z, k_i] ≤ pᵐ⁻¹ whatever the truth, p the largest entry of P. Looked at are the
    clusters given, and clean columns with the name of an identifier.
    """
    chances = [(a, chance) for a in mechanism.used_by(used) if (chance := _agreement(a)) is not None]
    if mechanism.unit is not None or not chances:
        return ()
    given = [] if clusters is None else [clusters if isinstance(clusters, str) else "clusters"]
    table = (
        table
        if clusters is None or isinstance(clusters, str)
        else table.replaced("clusters", _codes(clusters).tolist())
    )
    named = [name for name in table.names if name not in mechanism.columns and IDENTIFIER.match(str(name))]
    for name in dict.fromkeys([*given, *named]):
        # A large file without shared draws costs one pass over the column.
        few = table if table.n <= 10 * TRIED else table.like_first(name, TRIED)
        found = {a.columns: e for a, p in chances if (e := _evidence(few, a, name, p))}
        if few is not table:
            found = {a.columns: e for a, p in chances if a.columns in found and (e := _evidence(table, a, name, p))}
        if found:
            return (_warning(name, found),)
    return ()


def pairs(
    mechanism: Mechanism | None, used: Sequence[str], columns: Sequence[str], beside: SamplingArguments
) -> dict[tuple[str, ...], bool]:
    """What is to be known of records that are read in blocks: a column of labels and those that records of one label may agree in, and
    whether it matters how they differ."""
    if mechanism is None or not mechanism.used_by(used):
        return {}
    unit = mechanism.unit
    if unit is None:
        named = [name for name in columns if name not in mechanism.columns and IDENTIFIER.match(str(name))]
        labels = dict.fromkeys([*([] if beside.clusters_name is None else [beside.clusters_name]), *named])
        chances = [a for a in mechanism.used_by(used) if _agreement(a) is not None]
        return {(label, c): False for label in labels for a in chances for c in a.columns}
    if unit.column not in columns:
        return {}
    sampled = [beside.clusters_name, None if beside.design is None else beside.design.strata]
    units = tuple(dict.fromkeys(c for c in sampled if isinstance(c, str) and c != unit.column))
    cut: dict[tuple[str, ...], bool] = {(unit.column, *units): True} if beside.clusters_name and units else {}
    return cut | ({} if unit.varies else {(unit.column, c): True for c in _drawn_together(mechanism, used)})


def agreed(
    found: Mapping[tuple[str, ...], Any], mechanism: Mechanism, used: Sequence[str], sampling: Sampling
) -> tuple[Diagnostic, ...]:
    """What `sharing` refuses and `noticed` warns of, by the combinations of `pairs` that occur; None where records of one label differ."""
    if mechanism.unit is not None:
        for names, frame in found.items():
            again = frame[names[0]].duplicated()
            if len(names) == 2 and names[1] in _drawn_together(mechanism, used):
                _refuse_astray(int(frame[RECORDS][again].sum()), int(frame[RECORDS].sum()), names[1], names[0])
            elif not _around_the_file(sampling):
                _refuse_cut(int(frame[names[0]][again].nunique()), int((~again).sum()), names[0])
        return ()
    chances = {a.columns: _agreement(a) for a in mechanism.used_by(used)}
    for label in dict.fromkeys(names[0] for names in found):
        alike = {c: p for c, p in chances.items() if p is not None and all(found[label, n] is not None for n in c)}
        shared = {c: _unlikely(found[label, c[0]], p) for c, p in alike.items()}
        if any(shared.values()):
            return (_warning(label, {c: e for c, e in shared.items() if e}),)
    return ()


def _unlikely(frame: Any, chance: float) -> float:
    """As `_evidence`, of labels that hold one value each."""
    logarithm = float(frame[RECORDS].sum() - len(frame)) * float(np.log10(chance))
    return logarithm if logarithm < np.log10(CHANCE) else 0.0


def _agreement(assignment: Assignment) -> float | None:
    """The largest probability with which one more draw agrees with another; None where a channel gives none, or it is sure."""
    parts = assignment.channel.parts.values()
    if not all(isinstance(part, TransitionMatrix) for part in parts):
        return None
    largest = max(float(part.form.largest.max()) for part in parts if isinstance(part, TransitionMatrix))
    return largest if largest < 1 else None


def _evidence(table: Table, assignment: Assignment, name: str, chance: float) -> float:
    """Logarithm (base 10) of the probability that all groups agree by accident; 0 where they do not, or it is above the limit."""
    values = table.column(name)
    rows = np.flatnonzero(~is_missing(values))
    codes = _codes(values[rows])
    first = rows[_first(codes)]
    logarithm = (len(rows) - len(first)) * float(np.log10(chance))
    if logarithm >= np.log10(CHANCE):
        return 0.0
    columns = [table.column(column) for column in assignment.columns]
    return logarithm if all(np.array_equal(v[rows], v[first[codes]]) for v in columns) else 0.0


def _warning(name: str, found: Mapping[tuple[str, ...], float]) -> Diagnostic:
    columns = listing([column for columns in found for column in columns])
    return Diagnostic(
        SHARED_DRAWS,
        "warning",
        f"all records of one {name!r} hold the same released value of {columns}: under draws of their own that has a probability "
        f"below 1e{max(found.values()):.0f}, so they seem to share one draw, which the mechanism does not say. Standard errors by "
        f"record, price_of_privacy() and target='file' are then too small: use mechanism.with_unit({name!r})",
    )

"""Cells of one or several columns with levels, and their reverted indicators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pramana.arrays import Column, Columns, Float, Int
from pramana.errors import DataError, FormulaError, listing, quoted, refuse_crowd
from pramana.estimating.records import Records
from pramana.frames import Kind, Level, Schema, Table, encode
from pramana.frames.levels import infer_kind

CELL_LIMIT = 5000
"""Largest number of cells: their covariance has that many rows."""


@dataclass(frozen=True)
class Factor:
    """A column with its levels; `kind` says whether their order means something."""

    name: str
    levels: tuple[Level, ...]
    kind: Kind | None = None

    @property
    def ordered(self) -> bool:
        """The levels are stated to be in order, or are rising numbers; two levels have one order but for its sign."""
        if self.kind == "ordinal" or len(self.levels) <= 2:
            return True
        return self.kind != "nominal" and list(self.levels) == sorted(self.levels)  # type: ignore[type-var]

    @property
    def labels(self) -> list[str]:
        """As in "edu=low"."""
        return [f"{self.name}={level}" for level in self.levels]


def factor_of(name: str, table: Table, schema: Schema) -> Factor:
    """Levels from the mechanism where it has them, from the data otherwise."""
    if name not in schema:
        return _observed(name, table)
    variable = schema[name]
    if variable.levels is None:
        raise DataError(
            f"column {name!r} has no levels: it is a number with noise, whose quantiles, shares and domains cannot be estimated at the "
            f"usual rate; use mean({name!r}), a correlation or a regression, or have it released on a clamped grid, whose transition "
            "matrix is GeometricNoise(..., bounds=...).clamped(), or for quantiles and share() with KeepOrNoise(keep, ...)"
        )
    return Factor(name, tuple(variable.levels), variable.kind)


def _observed(name: str, table: Table) -> Factor:
    values, chosen = table.column(name), table.categories(name)
    if chosen is not None:
        return Factor(name, tuple(chosen), "ordinal" if table.ordered(name) else infer_kind(chosen))
    plain = values + 0.0 if values.dtype.kind == "f" else values  # -0.0 is 0.0, whichever comes first
    levels = tuple(sorted(set(plain.tolist()), key=lambda v: (str(type(v)), v)))
    return Factor(name, levels, infer_kind(levels))


def factors_of(names: Sequence[str], table: Table, schema: Schema) -> tuple[Factor, ...]:
    """The factors of a table, refused above the limit of its cells."""
    factors = tuple(factor_of(name, table, schema) for name in names)
    size = count_cells(factors)
    parts = " × ".join(f"{f.name!r} ({len(f.levels)})" for f in factors)
    if size > CELL_LIMIT:
        raise DataError(
            f"{parts} have {size} cells, above the limit of {CELL_LIMIT} (their covariance has that many rows): merge levels"
        )
    if any(f.name not in schema for f in factors):
        refuse_crowd(parts, size, table.records, "group by a coarser column, or merge levels")
    return factors


def names_of(given: str | Sequence[str] | None, argument: str) -> tuple[str, ...]:
    """One column name or several, each once."""
    names = () if given is None else (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise FormulaError(f"{argument} must be a column name or a list of names, not {given!r}")
    return tuple(names)


def distinct(*names: str) -> tuple[str, ...]:
    """The names, refused where one appears twice."""
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise FormulaError(f"column {twice[0]!r} is named twice: a table needs different columns")
    return names


def count_cells(factors: Sequence[Factor]) -> int:
    return int(np.prod([len(f.levels) for f in factors], dtype=float)) if factors else 1


def cell_labels(factors: Sequence[Factor]) -> list[str]:
    """One label a cell, the last factor running fastest: "sex=f, edu=low"."""
    return [", ".join(parts) for parts in product(*(f.labels for f in factors))]


def node_codes(records: Records, factors: Sequence[Factor]) -> list[Int | int]:
    """For each node, the cell of every record (n,), or the one cell that all records share."""
    sizes = [len(f.levels) for f in factors]
    strides = [int(np.prod(sizes[j + 1 :])) for j in range(len(sizes))]
    steady = _steady(records.columns, factors, strides)
    out: list[Int | int] = []
    for node in records.nodes:
        moving = [
            s * _position(f, node[f.name], records.n) for f, s in zip(factors, strides, strict=True) if f.name in node
        ]
        out.append(steady + sum(moving))
    return out


def _steady(columns: Columns, factors: Sequence[Factor], strides: Sequence[int]) -> Int | int:
    """The part of the code that does not depend on the node."""
    parts = [
        stride * encode(columns[f.name], f.levels, column=f.name)
        for f, stride in zip(factors, strides, strict=True)
        if f.name in columns
    ]
    return sum(parts) if parts else 0


def _position(factor: Factor, value: object, n: int) -> Any:
    if isinstance(value, np.ndarray) and value.shape == (n,):
        return encode(value, factor.levels, column=factor.name)
    return factor.levels.index(value)


def reverted_cells(records: Records, factors: Sequence[Factor], values: Sequence[Column] | None = None) -> Float:
    """(1{cell = k} · v)* for every cell (n, K); v is 1, or values (n,) by node."""
    out, rows = np.zeros((records.n, count_cells(factors))), np.arange(records.n)
    for node, codes in enumerate(node_codes(records, factors)):
        weight = records.table[records.row, node]  # not all nodes' for each of them
        out[rows, codes] += weight if values is None else weight * values[node]
    return out


def refuse_unordered(factor: Factor, purpose: str, instead: str) -> None:
    """The alphabet is no order of text."""
    if factor.ordered:
        return
    raise FormulaError(
        f"{purpose} needs ordered levels, and the order of those of {factor.name!r} ({quoted(listing(factor.levels))}) was not stated: "
        "list them in order in its transition matrix and give that kind='ordinal', make an unperturbed column an ordered "
        f"category (pandas.Categorical(..., categories=[...], ordered=True) or a polars Enum), or use {instead}"
    )


def two_levels(factor: Factor, purpose: str) -> Factor:
    """A factor with exactly two levels, the second of which is the exposed or the success."""
    if len(factor.levels) != 2:
        raise FormulaError(
            f"{purpose} needs two levels, and column {factor.name!r} has {len(factor.levels)}: {quoted(listing(factor.levels))}. "
            "Merge levels before the release, or use crosstab() and result.test()"
        )
    return factor

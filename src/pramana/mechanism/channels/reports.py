"""Channels that release reports: values that are no levels, such as bits, subsets, hashes, or labels of another alphabet."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from pramana.arrays import Column, Float, Int
from pramana.errors import DataError, MechanismError, listing, quoted
from pramana.frames import Level, encode
from pramana.mechanism.channel import Channel, Nodes


class ReportChannel(Channel):
    """A randomisation of one column with levels whose released values are reports.

    A report tells which levels are likelier, and is none itself: what is taken for released where a level is needed (to begin an
    iteration from, or to place knots) is the level of largest weight. Nothing of it enters an estimate.

    Attributes
    ----------
    reported : the columns of a released file in which the reports lie; empty where they stand in place of the true values.
    """

    levels: tuple[Level, ...]
    reported: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """Some reports (all that could be taken for a gap, such as "NA") where they are text; nothing where they are numbers."""
        return ()

    @property
    @abstractmethod
    def reach(self) -> Float:
        """Largest difference of two weights of each level (K,), over all reports; how far noise can carry a share depends on it."""

    @abstractmethod
    def read(self, columns: Sequence[Column], names: Sequence[str]) -> Column:
        """Reports as `revert` takes them, from the columns of a released file; what is no report is an error."""

    def check_together(self, columns: Sequence[Column], names: Sequence[str], people: int) -> None:
        """Refuse reports of so many people that are each in order, but not all of them together."""

    @abstractmethod
    def written(self, drawn: Column) -> list[Column]:
        """The columns of a released file, from what `perturb` drew."""

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Int:
        """Codes of the true values."""
        return encode(columns[0], self.levels, column=names[0])

    def likeliest(self, nodes: Nodes) -> Int:
        """The code (n,) that stands for each report where a level is needed."""
        return nodes.released[nodes.row]


def measure(levels: tuple[Level, ...], table: Float, row: Int) -> Nodes:
    """Weights by row, with the level of largest weight for the released one."""
    return Nodes(levels, table, row, np.argmax(table, axis=1))


def checked_columns(columns: Sequence[str] | None, allowed: Sequence[int], what: str) -> tuple[str, ...]:
    """Names of the columns of a report: as many as its parts, or none where it lies in one column of the variable's own name."""
    given = () if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
    if any(not isinstance(name, str) for name in given) or len(set(given)) < len(given):
        raise MechanismError(f"columns={listing(given)} must be different names of columns, as text")
    if given and len(given) not in allowed:
        raise MechanismError(
            f"columns names {len(given)} column(s), and {what}: name {' or '.join(map(str, allowed))}, or leave columns out where the reports "
            "lie in one column that has the variable's name"
        )
    return given


def refuse_report(values: Column, bad: Int, column: str, expected: str, remedy: str) -> None:
    """An error for the first of the rows with what is no report."""
    if bad.size:
        raise DataError(
            f"column {column!r} has {bad.size} value(s) that are no reports of its channel, first in row {bad[0]}: "
            f"{quoted(repr(_plain(values[bad[0]])))}. A report is {expected}: {remedy}"
        )


def whole_numbers(values: Column, column: str, limit: int, expected: str, remedy: str) -> Int:
    """A column of whole numbers from 0 to below the limit; text and truth values are none."""
    if values.dtype.kind in "iu":
        bad = np.flatnonzero((values < 0) | (values > limit - 1))
    else:
        import pandas as pd

        numbers = pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(dtype=float)
        other = np.array([isinstance(v, str | bool | np.bool_) for v in values], dtype=bool)
        bad = np.flatnonzero(other | ~((numbers >= 0) & (numbers < limit) & (numbers == np.floor(numbers))))
    refuse_report(values, bad, column, expected, remedy)
    return np.asarray([int(v) for v in values] if values.dtype == object else values, dtype=np.int64)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value

"""Hadamard response: a report is a column number of a Hadamard matrix, whose sign at a level's row is likelier +1 for the true one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Bool, Column, Columns, Int
from pramana.frames import Kind, Level
from pramana.mechanism.channel import Document
from pramana.mechanism.channels.checks import checked_epsilon
from pramana.mechanism.channels.encodings.encoding import EncodingOfLoss, coin, heads
from pramana.mechanism.channels.reports import whole_numbers
from pramana.mechanism.draws.keystream import Keystream


@dataclass(frozen=True, init=False, repr=False)
class HadamardResponse(EncodingOfLoss):
    """A number from 0 to S − 1, S the smallest power of two above the number of levels, in a column with the variable's name.

    Of Acharya, Sun and Zhang (2019), in its form for high privacy. Level k (from 0) has row k + 1 of Sylvester's matrix,
    H[r, c] = (−1)^popcount(r AND c); with probability e^ε / (e^ε + 1) a report is drawn evenly from the columns with +1 there, else from
    those with −1.

    Parameters
    ----------
    columns : the column of a released file with the reports, where it has another name than the variable.

    >>> HadamardResponse(["bus", "car", "train", "walk"], epsilon=1.0)
    HadamardResponse(4 levels: 'bus', 'car', 'train', 'walk'; nominal; epsilon 1, p 0.7311, q 0.5)
    """

    loss: float
    levels: tuple[Level, ...] = ()
    kind: Kind | None = None
    reported: tuple[str, ...] = ()

    def __init__(
        self,
        levels: Sequence[Level],
        epsilon: float,
        *,
        columns: Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> None:
        self._fill(levels, kind, columns, [1], loss=checked_epsilon(epsilon))

    @property
    def order(self) -> int:
        """S, the number of reports."""
        return 1 << len(self.levels).bit_length()

    @property
    def hit(self) -> float:
        return 1 / (1 + math.exp(-self.loss))

    @property
    def false_hit(self) -> float:
        """Rows of H are orthogonal: half of the columns with +1, and half of those with −1, have +1 in any other row."""
        return 0.5

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Int:  # noqa: ARG002
        """Bits of the report are drawn evenly but for one, at the lowest 1 of the row's number, which gives the sign that was drawn."""
        n, row = len(encoded), encoded + 1
        plus = heads(coin(self.hit), stream.words(n))
        free = (stream.words(n) >> np.uint64(64 - (self.order.bit_length() - 1))).astype(np.int64)
        lowest = row & -row
        report = free & ~lowest
        odd = _odd(report & row)
        return np.where(odd == plus, report | lowest, report)

    def read(self, columns: Sequence[Column], names: Sequence[str]) -> Bool:
        remedy = "get the reports whole, or the levels of their mechanism"
        reports = whole_numbers(columns[0], names[0], self.order, f"a whole number from 0 to {self.order - 1}", remedy)
        out = np.empty((len(reports), len(self.levels)), dtype=bool)
        for k in range(len(self.levels)):
            out[:, k] = ~_odd(reports & (k + 1))
        return out

    def written(self, drawn: Column) -> list[Column]:
        return [drawn]

    def document(self) -> Document:
        return self._document("hadamard_response", epsilon=self.loss)


def _odd(numbers: Int) -> Bool:
    """Whether each number has an odd count of ones."""
    for half in (32, 16, 8, 4, 2, 1):
        numbers = numbers ^ (numbers >> half)
    return (numbers & 1).astype(bool)

"""Subset selection: a report is a set of levels, which holds the true one oftener than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Bool, Column, Columns
from pramana.errors import MechanismError, listing, quoted
from pramana.frames import Kind, Level, checked_levels
from pramana.mechanism.channel import Document
from pramana.mechanism.channels.checks import checked_epsilon
from pramana.mechanism.channels.encodings.encoding import EncodingOfLoss, bits_in_columns, coin, heads, refuse_no_text
from pramana.mechanism.channels.reports import refuse_report
from pramana.mechanism.draws.keystream import Keystream

SEPARATOR = "|"


@dataclass(frozen=True, init=False, repr=False)
class SubsetSelection(EncodingOfLoss):
    """A set of `size` levels, with the true one among them with probability size·e^ε / (size·e^ε + K − size), else drawn evenly.

    Of Ye and Barg (2018) and Wang and others (2016). A report is text, the levels of the set with | between them, or lies in a 0/1
    column for each level.

    Parameters
    ----------
    size : levels in a report; K / (e^ε + 1) rounded, and at least 1, by default.
    columns : the columns of a released file with a 0 or 1 for each level; left out where reports are text in one column.

    >>> SubsetSelection(["bus", "car", "train", "walk"], epsilon=0.5)
    SubsetSelection(4 levels: 'bus', 'car', 'train', 'walk'; nominal; epsilon 0.5, p 0.6225, q 0.4592)
    """

    loss: float
    size: int
    levels: tuple[Level, ...] = ()
    kind: Kind | None = None
    reported: tuple[str, ...] = ()

    def __init__(
        self,
        levels: Sequence[Level],
        epsilon: float,
        size: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> None:
        levels, loss = checked_levels(levels), checked_epsilon(epsilon)
        chosen = max(1, round(len(levels) / (math.exp(loss) + 1))) if size is None else size
        if not (isinstance(chosen, int) and not isinstance(chosen, bool) and 1 <= chosen < len(levels)):
            raise MechanismError(
                f"size={size!r} must be a whole number from 1 to {len(levels) - 1}, one less than there are levels"
            )
        torn = [level for level in levels if SEPARATOR in str(level)]
        if torn and columns is None:
            raise MechanismError(
                f"level {quoted(repr(torn[0]))} holds {SEPARATOR!r}, which parts the levels of a report: rename it, or let reports lie in 0/1 "
                "columns (columns=[...])"
            )
        self._fill(levels, kind, columns, [0], loss=loss, size=chosen)

    @property
    def hit(self) -> float:
        inside = self.size * math.exp(self.loss)
        return inside / (inside + len(self.levels) - self.size)

    @property
    def false_hit(self) -> float:
        return (self.size - self.hit) / (len(self.levels) - 1)

    @property
    def texts(self) -> tuple[str, ...]:
        return () if self.reported else (SEPARATOR, *map(str, self.levels))

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Bool:  # noqa: ARG002
        """The other levels of the set are those with the smallest words; two words are equal with probability 2⁻⁶⁴."""
        n, rows = len(encoded), np.arange(len(encoded))
        inside = heads(coin(self.hit), stream.words(n))
        words = np.stack([stream.words(n) for _ in self.levels], axis=1)
        words[rows, encoded] = np.iinfo(np.uint64).max  # so that it comes last
        order = np.argsort(words, axis=1, kind="stable")
        # Between equal words the true level must still be last.
        order[:, :-1] = np.where(order[:, :-1] == encoded[:, None], order[:, -1:], order[:, :-1])
        out = np.zeros((n, len(self.levels)), dtype=bool)
        for place in range(self.size):
            chosen = order[:, place] if place < self.size - 1 else np.where(inside, encoded, order[:, place])
            out[rows, chosen] = True
        return out

    def read(self, columns: Sequence[Column], names: Sequence[str]) -> Bool:
        if len(names) > 1:
            return self._sized(columns[0], bits_in_columns(columns, names), names[0])
        import pandas as pd

        labels = {str(level): k for k, level in enumerate(self.levels)}
        expected = f"{self.size} different levels with {SEPARATOR} between them, out of {listing(self.levels, 10)}"
        values = columns[0] if self.size > 1 or columns[0].dtype == object else columns[0].astype(str).astype(object)
        refuse_no_text(values, names[0], expected)
        row, distinct = pd.factorize(values)
        support = np.zeros((len(distinct), len(labels)), dtype=bool)
        strange = np.zeros(len(distinct), dtype=bool)
        for k, text in enumerate(distinct):
            parts = text.split(SEPARATOR)
            places = [labels[part] for part in parts if part in labels]
            strange[k] = len(places) < len(parts) or len(set(places)) < len(places)
            support[k, places] = True
        refuse_report(
            values, np.flatnonzero(strange[row]), names[0], expected, "recode the column to the mechanism's levels"
        )
        return self._sized(values, support[row], names[0])

    def _sized(self, values: Column, support: Bool, name: str) -> Bool:
        sizes = support.sum(axis=1)
        wrong = np.flatnonzero(sizes != self.size)
        told = (
            f"this one has {sizes[wrong[0]]}; state the size of the reports (size=...), and the epsilon that goes with it"
            if wrong.size
            else ""
        )
        refuse_report(values, wrong, name, f"a set of {self.size} levels", told)
        return support

    def written(self, drawn: Column) -> list[Column]:
        if self.reported:
            return list(drawn.T.astype(np.int64))
        labels = [str(level) for level in self.levels]
        out = np.empty(len(drawn), dtype=object)
        places = np.nonzero(drawn)[1].reshape(-1, self.size).tolist()
        out[:] = [SEPARATOR.join([labels[k] for k in chosen]) for chosen in places]
        return [out]

    def document(self) -> Document:
        return self._document("subset_selection", epsilon=self.loss, size=self.size)

"""What locally private encodings have in common: a report supports some of the levels, the true one oftener than others.

With B_k = 1 where the report supports level k, p = Pr(B_k = 1 | true k) and q = Pr(B_k = 1 | another is true),

    E{(B_k − q) / (p − q) | true j} = 1{k = j},

and what these weights have in excess of 1 in sum, which is 0 on average, is spread evenly over the levels.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from pramana.arrays import Bool, Column, Columns, Float, Int, Words
from pramana.errors import listing
from pramana.frames import Kind, Level, checked_levels
from pramana.frames.levels import is_number
from pramana.mechanism.channel import Document, Nodes
from pramana.mechanism.channels.reports import ReportChannel, checked_columns, measure, refuse_report
from pramana.mechanism.channels.transition import checked_kind
from pramana.mechanism.draws.drawing import pick, thresholds


class Encoding(ReportChannel):
    """A channel whose reports each support some of the levels."""

    levels: tuple[Level, ...]
    kind: Kind | None
    reported: tuple[str, ...]

    def _fill(
        self,
        levels: Sequence[Level],
        kind: Kind | None,
        columns: Sequence[str] | None,
        widths: Sequence[int],
        **others: Any,
    ) -> None:
        """Set the checked values; `widths` are the numbers of columns that a report can lie in, with 0 for as many as levels."""
        checked = checked_levels(levels)
        allowed = [width or len(checked) for width in widths]
        parts = f"a report of a {type(self).__name__} has {' or '.join(map(str, allowed))} here"
        found = {
            "levels": checked,
            "kind": checked_kind(kind, checked),
            "reported": checked_columns(columns, allowed, parts),
            **others,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    @abstractmethod
    def hit(self) -> float:
        """p, the chance that a report supports the true level."""

    @property
    @abstractmethod
    def false_hit(self) -> float:
        """q, the chance that a report supports a given other level."""

    @property
    @abstractmethod
    def odds(self) -> tuple[float, float]:
        """Chances of one report under a level that it supports and under one that it does not, up to a common factor."""

    @property
    def epsilon(self) -> float:
        likelier, other = self.odds
        return math.log(likelier / other) if other > 0 else math.inf

    @property
    def reach(self) -> Float:
        """From a report that supports all levels but this one to one that supports this one alone."""
        size = len(self.levels)
        return np.full(size, 2 * (size - 1) / size / (self.hit - self.false_hit))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.levels)} levels: {listing(self.levels, 4)}; {self.kind or 'kind not stated'}; "
            f"epsilon {self.epsilon:.3g}, p {self.hit:.4g}, q {self.false_hit:.4g})"
        )

    def weights(self, support: Bool) -> Float:
        """Signed weights of the levels (R, K) for supports (R, K); rows sum to 1."""
        raw = (support - self.false_hit) / (self.hit - self.false_hit)
        return np.asarray(raw - (raw.sum(axis=1, keepdims=True) - 1) / len(self.levels))

    def revert(self, encoded: Column, context: Columns) -> Nodes:  # noqa: ARG002
        row, first = _distinct(encoded)
        if 2 * first.size > row.size:  # hardly any two alike
            row, first = np.arange(len(encoded)), np.arange(len(encoded))
        return measure(self.levels, self.weights(encoded[first]), row)

    def likelihood(self, encoded: Column, context: Columns) -> Float:  # noqa: ARG002
        """Pr(report | level) as rows (n, K), up to a factor of the report's own, which no comparison of levels or models needs."""
        chances = np.where(encoded, *self.odds)
        largest = chances.max(axis=1, keepdims=True)
        # Where all are zero the report supports nothing and is as likely under every level.
        return np.asarray(np.divide(chances, largest, out=np.ones_like(chances), where=largest > 0))

    def _document(self, channel: str, **parameters: object) -> Document:
        own = {"columns": list(self.reported)} if self.reported else {}
        return {"channel": channel, "kind": self.kind, "levels": list(self.levels), **parameters, **own}


class EncodingOfLoss(Encoding):
    """An encoding whose reports are likelier by e^ε under the levels that they support."""

    loss: float

    @property
    def odds(self) -> tuple[float, float]:
        return 1.0, math.exp(-self.loss)

    @property
    def epsilon(self) -> float:
        return self.loss


def _distinct(support: Bool) -> tuple[Int, Int]:
    """The number of each row's pattern (n,), and where each pattern occurs first."""
    import pandas as pd

    packed = np.packbits(support, axis=1)
    words = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    row = np.zeros(len(packed), dtype=np.int64)
    for column in words.view(np.uint64).T:
        own = pd.factorize(column)[0]
        row = pd.factorize(row * (own.max(initial=0) + 1) + own)[0]
    return row, np.flatnonzero(~pd.Series(row).duplicated())


def coin(chance: float) -> Words:
    """The cut point of an event: `heads` of a word that lies below it."""
    return thresholds(np.array([[chance], [1 - chance]]))[0]


def heads(cut: Words, words: Words) -> Bool:
    """Whether the event happens, word by word."""
    return pick(cut, words) == 0


def bits_in_columns(columns: Sequence[Column], names: Sequence[str]) -> Bool:
    """Bits (n, K) that lie in a column for each level."""
    out = np.zeros((len(columns[0]), len(columns)), dtype=bool)
    for k, (values, name) in enumerate(zip(columns, names, strict=True)):
        ones, zeros = (np.asarray(values == v, dtype=bool) for v in (1, 0))
        remedy = "give one 0/1 column for each level, in the order of the levels"
        refuse_report(values, np.flatnonzero(~(ones | zeros)), name, "0 or 1 in each of its columns", remedy)
        out[:, k] = ones
    return out


def refuse_no_text(values: Column, column: str, expected: str) -> list[str]:
    """A column of text, as a list."""
    texts = values.tolist()
    bad = np.array([i for i, v in enumerate(texts) if not isinstance(v, str)], dtype=np.int64)
    remedy = "read the column as text" if bad.size and is_number(texts[bad[0]]) else "give text"
    refuse_report(values, bad, column, expected, remedy)
    return texts

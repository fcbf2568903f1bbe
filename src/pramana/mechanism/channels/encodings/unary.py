"""Unary encodings: one bit for each level, each flipped on its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Bool, Column, Columns
from pramana.errors import MechanismError
from pramana.frames import Kind, Level
from pramana.frames.levels import is_number
from pramana.mechanism.channel import Document
from pramana.mechanism.channels.checks import check_probabilities, checked_epsilon
from pramana.mechanism.channels.encodings.encoding import Encoding, bits_in_columns, coin, heads, refuse_no_text
from pramana.mechanism.channels.reports import refuse_report
from pramana.mechanism.draws.keystream import Keystream


@dataclass(frozen=True, init=False, repr=False)
class UnaryEncoding(Encoding):
    """A bit for each level: 1 with probability p for the true one, and with probability q for each of the others.

    A report is text of as many characters 0 and 1 as there are levels, in a column with the variable's name; or it lies in that many
    columns with 0 and 1, which `columns` names in the order of the levels.

    Parameters
    ----------
    levels : the true values, in order.
    p, q : as above; p must be the larger.
    columns : the columns of a released file with the bits, one a level; left out where they are text in one column.
    kind : of the levels, as in `TransitionMatrix`.

    >>> bits = UnaryEncoding.optimized(["bus", "car", "train"], epsilon=1.5)
    >>> bits
    UnaryEncoding(3 levels: 'bus', 'car', 'train'; nominal; epsilon 1.5, p 0.5, q 0.1824)
    >>> UnaryEncoding.rappor(["bus", "car", "train"], f=0.5)
    UnaryEncoding(3 levels: 'bus', 'car', 'train'; nominal; epsilon 2.2, p 0.75, q 0.25)
    """

    p: float
    q: float
    levels: tuple[Level, ...] = ()
    kind: Kind | None = None
    reported: tuple[str, ...] = ()

    def __init__(
        self,
        levels: Sequence[Level],
        p: float,
        q: float,
        *,
        columns: Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> None:
        check_probabilities(p=p, q=q)
        if not p > q:
            raise MechanismError(
                f"p={p!r} must be larger than q={q!r}: p is the chance of a 1 for the true level, q for any other"
            )
        self._fill(levels, kind, columns, [0], p=float(p), q=float(q))

    @classmethod
    def optimized(
        cls,
        levels: Sequence[Level],
        epsilon: float,
        *,
        columns: Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> UnaryEncoding:
        """OUE of Wang and others (2017): p = 1/2, q = 1/(e^ε + 1), the smallest variance of rare levels for this epsilon."""
        return cls(levels, 0.5, 1 / (math.exp(checked_epsilon(epsilon)) + 1), columns=columns, kind=kind)

    @classmethod
    def symmetric(
        cls,
        levels: Sequence[Level],
        epsilon: float,
        *,
        columns: Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> UnaryEncoding:
        """SUE, basic one-time RAPPOR: p = 1 − q = e^(ε/2) / (e^(ε/2) + 1)."""
        q = 1 / (math.exp(checked_epsilon(epsilon) / 2) + 1)
        return cls(levels, 1 - q, q, columns=columns, kind=kind)

    @classmethod
    def rappor(
        cls,
        levels: Sequence[Level],
        f: float,
        p: float = 0.0,
        q: float = 1.0,
        *,
        columns: Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> UnaryEncoding:
        """Basic RAPPOR (Erlingsson and others, 2014): permanent bits with f, then a report that has a 1 with probability q where the
        permanent bit is 1 and p where it is 0. The permanent bits themselves by default.

        Its epsilon is that of this one report; a person who reports often approaches that of the permanent bits.
        """
        check_probabilities(f=f, p=p, q=q)
        if not (is_number(f) and f < 1):
            raise MechanismError(f"f={f!r} must be below 1: with f = 1 the permanent bits say nothing")
        one, zero = (kept * (1 - f) + 0.5 * f * (p + q) for kept in (q, p))
        return cls(levels, one, zero, columns=columns, kind=kind)

    @property
    def hit(self) -> float:
        return self.p

    @property
    def false_hit(self) -> float:
        return self.q

    @property
    def odds(self) -> tuple[float, float]:
        return self.p * (1 - self.q), (1 - self.p) * self.q

    @property
    def texts(self) -> tuple[str, ...]:
        return () if self.reported else ("0" * len(self.levels),)

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Bool:  # noqa: ARG002
        out = np.empty((len(encoded), len(self.levels)), dtype=bool)
        own, other = coin(self.p), coin(self.q)
        for k in range(len(self.levels)):
            words = stream.words(len(encoded))
            out[:, k] = np.where(encoded == k, heads(own, words), heads(other, words))
        return out

    def read(self, columns: Sequence[Column], names: Sequence[str]) -> Bool:
        if len(names) > 1:
            return bits_in_columns(columns, names)
        size = len(self.levels)
        expected = f"text of {size} characters 0 and 1, one for each level in their order"
        texts = refuse_no_text(columns[0], names[0], expected)
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        wrong = np.flatnonzero(lengths != size)
        told = (
            f"this one has {lengths[wrong[0]]}; get the reports whole, or the levels of their mechanism"
            if wrong.size
            else ""
        )
        refuse_report(columns[0], wrong, names[0], expected, told)
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype="<u4").reshape(-1, size)
        odd = np.flatnonzero(((codes != ord("0")) & (codes != ord("1"))).any(axis=1))
        refuse_report(columns[0], odd, names[0], expected, "no other character can stand in a report")
        return np.asarray(codes == ord("1"))

    def written(self, drawn: Column) -> list[Column]:
        if self.reported:
            return list(drawn.T.astype(np.int64))
        characters = np.ascontiguousarray(drawn + np.uint8(ord("0")), dtype=np.uint8)
        return [characters.view(f"S{len(self.levels)}")[:, 0].astype(str).astype(object)]

    def document(self) -> Document:
        return self._document("unary_encoding", p=self.p, q=self.q)

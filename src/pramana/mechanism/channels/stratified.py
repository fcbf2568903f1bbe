"""A channel whose transition matrix depends on an observed, unperturbed column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Column, Columns, Float, Int
from pramana.errors import DataError, MechanismError, listing
from pramana.frames import Kind, Level, encode
from pramana.mechanism.channel import Channel, Document, Nodes
from pramana.mechanism.channels.transition import TransitionMatrix
from pramana.mechanism.draws.keystream import Keystream


@dataclass(frozen=True)
class Stratified(Channel):
    """One transition matrix for each value of column `by`; all over the same levels.

    >>> keep = lambda p: TransitionMatrix.randomized_response(["a", "b"], p)
    >>> Stratified("region", {"north": keep(0.9), "south": keep(0.7)}).context
    ('region',)
    """

    by: str
    strata: Mapping[Level, TransitionMatrix]

    def __post_init__(self) -> None:
        if not self.strata:
            raise MechanismError(f"Stratified({self.by!r}, ...) needs at least one stratum")
        wrong = [v for v in self.strata.values() if not isinstance(v, TransitionMatrix)]
        if wrong:
            raise MechanismError(
                f"a stratum of {self.by!r} is a {type(wrong[0]).__name__}: give a TransitionMatrix for each value of the column"
            )
        plain = {k.item() if isinstance(k, np.generic) else k: v for k, v in self.strata.items()}
        object.__setattr__(self, "strata", plain)
        first, *others = self.strata.values()
        for value, other in zip(list(self.strata)[1:], others, strict=True):
            if (other.levels, other.kind) != (first.levels, first.kind):
                raise MechanismError(
                    f"stratum {value!r} of {self.by!r} has levels {listing(other.levels)} ({other.kind}), the first "
                    f"stratum {listing(first.levels)} ({first.kind}): every stratum needs the same levels in the same order"
                )

    @property
    def _first(self) -> TransitionMatrix:
        return next(iter(self.strata.values()))

    @property
    def levels(self) -> tuple[Level, ...]:
        return self._first.levels

    @property
    def kind(self) -> Kind | None:
        return self._first.kind

    @property
    def context(self) -> tuple[str, ...]:
        return (self.by,)

    @property
    def parts(self) -> Mapping[Level | None, Channel]:
        return {**self.strata}

    @property
    def epsilon(self) -> float:
        return max(channel.epsilon for channel in self.strata.values())

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(what for channel in self.strata.values() for what in channel.given))

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Int:
        return self._first.encode(columns, names)

    def _rows(self, context: Columns) -> Iterator[tuple[Int, TransitionMatrix]]:
        try:
            codes = encode(context[self.by], list(self.strata), column=self.by)
        except DataError as error:
            raise DataError(
                f"{error.marked} (every value of the stratifying column needs its transition matrix)"
            ) from None
        for position, channel in enumerate(self.strata.values()):
            yield np.flatnonzero(codes == position), channel

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Int:
        released = np.empty_like(encoded)
        for rows, channel in self._rows(context):
            released[rows] = channel.perturb(encoded[rows], context, stream.at(rows))
        return released

    def revert(self, encoded: Column, context: Columns) -> Nodes:
        row, height, parts = np.empty(encoded.size, dtype=np.int64), 0, []
        for rows, channel in self._rows(context):
            parts.append(channel.revert(encoded[rows], context))
            row[rows] = height + parts[-1].row
            height += len(parts[-1].table)
        tables, released = [p.table for p in parts], [p.released for p in parts]
        return Nodes(self.levels, np.concatenate(tables), row, np.concatenate(released))

    def likelihood(self, encoded: Column, context: Columns) -> Float:
        out = np.empty((encoded.size, len(self.levels)))
        for rows, channel in self._rows(context):
            out[rows] = channel.likelihood(encoded[rows], context)
        return out

    def revert_function(self, function: Callable[[Column], Float], encoded: Column, context: Columns) -> Float:
        out: Float | None = None
        for rows, channel in self._rows(context):
            part = channel.revert_function(function, encoded[rows], context)
            out = np.empty((encoded.size, part.shape[1])) if out is None else out
            out[rows] = part
        assert out is not None
        return out

    def document(self) -> Document:
        strata = [{"value": value, **channel.document()} for value, channel in self.strata.items()]
        return {"channel": "stratified", "by": self.by, "strata": strata}

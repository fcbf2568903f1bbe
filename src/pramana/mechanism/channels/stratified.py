"""A channel whose transition matrix, or noise, depends on an observed, unperturbed column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Column, Columns, Float, Int
from pramana.errors import DataError, MechanismError, listing
from pramana.frames import Kind, Level, encode
from pramana.kernels.additive import ByRecord, Displacement
from pramana.mechanism.channel import Channel, Document, Nodes
from pramana.mechanism.channels.additive_noise import AdditiveNoise
from pramana.mechanism.channels.transition import TransitionMatrix
from pramana.mechanism.draws.keystream import Keystream


@dataclass(frozen=True)
class Stratified(Channel):
    """One channel for each value of column `by`: transition matrices over the same levels, or noise of one kind.

    >>> from pramana import TransitionMatrix
    >>> keep = lambda p: TransitionMatrix.randomized_response(["a", "b"], p)
    >>> Stratified("region", {"north": keep(0.9), "south": keep(0.7)}).context
    ('region',)
    """

    by: str
    strata: Mapping[Level, Channel]

    def __post_init__(self) -> None:
        if not self.strata:
            raise MechanismError(f"Stratified({self.by!r}, ...) needs at least one stratum")
        wrong = [v for v in self.strata.values() if not isinstance(v, TransitionMatrix | AdditiveNoise)]
        if wrong:
            raise MechanismError(
                f"a stratum of {self.by!r} is a {type(wrong[0]).__name__}: give a TransitionMatrix, or noise, for each value of the column"
            )
        plain = {k.item() if isinstance(k, np.generic) else k: v for k, v in self.strata.items()}
        object.__setattr__(self, "strata", plain)
        first, *others = self.strata.values()
        for value, other in zip(list(self.strata)[1:], others, strict=True):
            if type(other) is not type(first):
                raise MechanismError(
                    f"stratum {value!r} of {self.by!r} is a {type(other).__name__}, the first stratum a {type(first).__name__}: every "
                    "stratum needs a channel of one kind"
                )
            if (other.levels, other.kind) != (first.levels, first.kind):
                raise MechanismError(
                    f"stratum {value!r} of {self.by!r} has levels {listing(other.levels or ())} ({other.kind}), the first "
                    f"stratum {listing(first.levels or ())} ({first.kind}): every stratum needs the same levels in the same order"
                )

    @property
    def _first(self) -> Channel:
        return next(iter(self.strata.values()))

    @property
    def levels(self) -> tuple[Level, ...] | None:
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
    def rho(self) -> float:
        return max(channel.rho for channel in self.strata.values())

    @property
    def delta(self) -> float:
        return max(channel.delta for channel in self.strata.values())

    @property
    def smooth_only(self) -> bool:
        return any(channel.smooth_only for channel in self.strata.values())

    @property
    def keeps(self) -> bool:
        return all(channel.keeps for channel in self.strata.values())

    @property
    def lattice(self) -> tuple[float, float] | None:
        """Where all strata have one grid."""
        found = [own for channel in self.strata.values() if (own := channel.lattice) is not None]
        alike = len(found) == len(self.strata) and len({step for step, _ in found}) == 1
        return (found[0][0], max(reach for _, reach in found)) if alike else None

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(what for channel in self.strata.values() for what in channel.given))

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Column:
        return self._first.encode(columns, names)

    def _codes(self, context: Columns) -> Int:
        try:
            return encode(context[self.by], list(self.strata), column=self.by)
        except DataError as error:
            raise DataError(
                f"{error.marked} (every value of the stratifying column needs its transition matrix)"
            ) from None

    def _rows(self, context: Columns) -> Iterator[tuple[Int, Channel]]:
        codes = self._codes(context)
        for position, channel in enumerate(self.strata.values()):
            yield np.flatnonzero(codes == position), channel

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Column:
        parts = [(rows, c.perturb(encoded[rows], context, stream.at(rows))) for rows, c in self._rows(context)]
        released = np.empty(encoded.size, dtype=np.result_type(*(part for _, part in parts)))
        for rows, part in parts:
            released[rows] = part
        return released

    def revert(self, encoded: Column, context: Columns) -> Nodes:
        return self._stacked(encoded, context, lambda channel, values: channel.revert(values, context))

    def revert_polynomial(self, encoded: Column, context: Columns, degree: int) -> Nodes:
        return self._stacked(
            encoded, context, lambda channel, values: channel.revert_polynomial(values, context, degree)
        )

    def revert_bounded(self, encoded: Column, context: Columns) -> Nodes:
        return self._stacked(encoded, context, lambda channel, values: channel.revert_bounded(values, context))

    def revert_lattice(self, encoded: Column, context: Columns) -> Nodes:
        return self._stacked(encoded, context, lambda channel, values: channel.revert_lattice(values, context))

    def _stacked(self, encoded: Column, context: Columns, reverted: Callable[[Channel, Column], Nodes]) -> Nodes:
        """The tables of the strata one below the other; nodes are the levels, or the released number plus the stratum's offsets."""
        row, height, parts, places = np.empty(encoded.size, dtype=np.int64), 0, [], []
        for rows, channel in self._rows(context):
            places.append(rows)
            parts.append(reverted(channel, encoded[rows]))
            row[rows] = height + parts[-1].row
            height += len(parts[-1].table)
        most = max(len(p.values) for p in parts)  # a stratum with fewer nodes repeats its last with a weight of 0
        tables = [np.pad(p.table, ((0, 0), (0, most - p.table.shape[1]))) for p in parts]
        released = [p.released for p in parts]
        values: tuple[object, ...] = self.levels or _spliced(parts, places, encoded.size)
        return Nodes(values, np.concatenate(tables), row, np.concatenate(released))

    def check_released(self, encoded: Column, context: Columns) -> None:
        for rows, channel in self._rows(context):
            channel.check_released(encoded[rows], context)

    def noise(self, context: Columns) -> Displacement | None:
        found = [channel.noise(context) for channel in self.strata.values()]
        operators = [operator for part in found if part is not None for operator in part.operators]
        if len(operators) < len(found):
            return None
        return Displacement.alone(ByRecord(tuple(operators), self._codes(context)))

    def likelihood(self, encoded: Column, context: Columns) -> Float:
        out = np.empty((encoded.size, len(self.levels or ())))
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

    def arranged(self, order: Sequence[int], levels: Sequence[Level], kind: Kind | None) -> Stratified:
        return Stratified(self.by, {value: part.arranged(order, levels, kind) for value, part in self.parts.items()})

    def document(self) -> Document:
        strata = [{"value": value, **channel.document()} for value, channel in self.strata.items()]
        return {"channel": "stratified", "by": self.by, "strata": strata}


def _spliced(parts: Sequence[Nodes], places: Sequence[Int], n: int) -> tuple[object, ...]:
    """Numbers of each node (n,), from those of the strata's records."""
    values = [np.empty(n) for _ in range(max(len(part.values) for part in parts))]
    for part, rows in zip(parts, places, strict=True):
        padded = [*part.values, *[part.values[-1]] * (len(values) - len(part.values))]
        for whole, own in zip(values, padded, strict=True):
            whole[rows] = np.asarray(own, dtype=float)
    return tuple(values)

"""A transition matrix with free parameters: an unknown share of people answers by one design, the others by another.

In group g of a clean column the answers follow `P_g(t) = P_g0 + Σ_r t_r (P_gr − P_g0)`: the matrices are known, the shares t are not.
Groups with other matrices, to which people were assigned at random, tell them: t is estimated together with whatever is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pramana.arrays import Column, Columns, Float, Int
from pramana.errors import MechanismError, listing
from pramana.frames import Kind, Level, checked_levels, encode
from pramana.frames.levels import is_number
from pramana.mechanism.channel import Channel, Document, Nodes
from pramana.mechanism.channels.checks import checked_array, refuse_sums
from pramana.mechanism.channels.matrix_forms import Dense
from pramana.mechanism.channels.stratified import Stratified
from pramana.mechanism.channels.transition import TransitionMatrix, checked_kind
from pramana.mechanism.draws.keystream import Keystream

SINGULAR = 1e-6
"""Smallest singular value of the groups' chances by shares and parameters, over the largest, below which they tell nothing."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FreeMatrix(Channel):
    """Answers of an unknown share t of people follow the second of two transition matrices, those of the others the first.

    Parameters
    ----------
    by : clean column with the group to which each person was assigned at random.
    groups : for each value of it, the matrices (K, K) at t = 0 and at t = 1; with several parameters, one more for each of them. Entry
        [i, j] is the chance of answer i at true level j.
    parameters : a name for each t.
    levels, kind : as in `TransitionMatrix`.

    >>> lie = lambda p: ([[p, 1], [1 - p, 0]], [[p, 0], [1 - p, 1]])     # those with the trait say no; say yes
    >>> channel = FreeMatrix("group", {"a": lie(0.2), "b": lie(0.7)}, ["honest"])
    >>> channel.at(honest=0.9).strata["b"].matrix.round(2)
    array([[0.7, 0.1],
           [0.3, 0.9]])
    """

    by: str
    values: tuple[Level, ...]
    matrices: Float
    """(groups, 1 + parameters, K, K)."""
    parameters: tuple[str, ...]
    # Never used defaults: they hide the properties that Channel declares, so that instances can hold the values.
    levels: tuple[Level, ...] = ()
    kind: Kind | None = None
    held: Float | None = None
    """Signed weights (cells, K) by which `revert` spreads a record of each cell, where t has a value."""

    def __init__(
        self,
        by: str,
        groups: Mapping[Any, Sequence[npt.ArrayLike]],
        parameters: Sequence[str],
        *,
        levels: Sequence[Level] = (0, 1),
        kind: Kind | None = None,
    ) -> None:
        known, names = checked_levels(levels), _checked_names(parameters)
        if not isinstance(by, str):
            raise MechanismError(f"by={by!r} must be the name of the column with the groups")
        if not isinstance(groups, Mapping) or not groups:
            raise MechanismError(
                f"groups must be a dictionary from the values of {by!r} to matrices at t = 0 and t = 1"
            )
        plain = {v.item() if isinstance(v, np.generic) else v: _checked(v, m, known, names) for v, m in groups.items()}
        self._fill(by, tuple(plain), np.stack(list(plain.values())), names, known, checked_kind(kind, known), None)
        self._refuse_unidentified()

    def _fill(self, *values: object) -> None:
        for name, value in zip(
            ("by", "values", "matrices", "parameters", "levels", "kind", "held"), values, strict=True
        ):
            object.__setattr__(self, name, value)

    def holding(self, weights: Float) -> FreeMatrix:
        """The channel with a reversion (cells, K) in hand."""
        made = FreeMatrix.__new__(FreeMatrix)
        made._fill(self.by, self.values, self.matrices, self.parameters, self.levels, self.kind, weights)
        return made

    def at(self, **shares: float) -> Stratified:
        """The channel with known parameters, which perturbs, and which any method reverts."""
        if sorted(shares) != sorted(self.parameters):
            raise MechanismError(f"at() needs {listing(self.parameters)}, and not {listing(list(shares)) or 'nothing'}")
        t = np.array([shares[name] if is_number(shares[name]) else np.nan for name in self.parameters], dtype=float)
        if not (np.all(t >= 0) and t.sum() <= 1 + 1e-12):
            raise MechanismError(f"{shares} must be shares: from 0 to 1, and 1 at most together")
        strata = zip(self.values, self.chances(t), strict=True)
        return Stratified(
            self.by, {v: TransitionMatrix.from_columns(self.levels, m, kind=self.kind) for v, m in strata}
        )

    def chances(self, t: Float) -> Float:
        """P_g(t) of every group (G, K, K)."""
        return np.asarray(self.matrices[:, 0] + np.einsum("r,grij->gij", t, self.moves))

    @property
    def moves(self) -> Float:
        """∂P_g/∂t (G, parameters, K, K)."""
        return np.asarray(self.matrices[:, 1:] - self.matrices[:, :1])

    def cells(self, encoded: Column, context: Columns) -> Int:
        """Group and answer of each record as one code (n,)."""
        group = encode(context[self.by], list(self.values), column=self.by)
        return np.asarray(group * len(self.levels) + encoded)

    def gradient(self, shares: Float, t: Float) -> Float:
        """Derivatives (G, K, K − 1 + parameters) of the chances P_g(t) π of an answer, by the shares of all levels but the first, and by t."""
        chances = self.chances(t)
        return np.concatenate(
            [chances[:, :, 1:] - chances[:, :, :1], np.einsum("grij,j->gir", self.moves, shares)], axis=2
        )

    def _refuse_unidentified(self) -> None:
        """Groups that leave shares of levels and t unknown whatever they are."""
        size, free = len(self.levels), len(self.parameters)
        told, unknown = len(self.values) * (size - 1), size - 1 + free
        counted = f"{len(self.values)} group(s) of {self.by!r}"
        if told < unknown:
            raise MechanismError(
                f"{counted} can tell {told} number(s), and {unknown} are unknown (the shares of {size} levels, and "
                f"{listing(self.parameters)}): assign people at random to more groups with other chances"
            )
        shares, t = np.arange(1.0, size + 1), np.full(free, 0.6 / free)
        values = np.linalg.svd(self.gradient(shares / shares.sum(), t).reshape(-1, unknown), compute_uv=False)
        if values[-1] <= SINGULAR * values[0]:
            equal = (
                "their matrices are the same"
                if np.ptp(self.matrices, axis=0).max() <= SINGULAR
                else "their matrices tell too little"
            )
            raise MechanismError(
                f"{counted} cannot tell {listing(self.parameters)} from the shares of the levels: {equal} (smallest singular value "
                f"{values[-1]:.1e} of the chances of answers, the limit is {SINGULAR * values[0]:.1e}): use chances that differ"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeMatrix) and self.document() == other.document()

    def __hash__(self) -> int:
        return hash((self.by, self.levels, self.parameters))

    def __repr__(self) -> str:
        return (
            f"FreeMatrix({len(self.levels)} levels: {listing(self.levels, 4)}; {self.kind or 'kind not stated'}; {listing(self.parameters)} "
            f"unknown, {len(self.values)} groups of {self.by!r})"
        )

    @property
    def epsilon(self) -> float:
        """The largest over all values of t: those are at the corners, where a ratio of linear functions is largest."""
        return max(Dense(matrix).epsilon for group in self.matrices for matrix in group)

    @property
    def context(self) -> tuple[str, ...]:
        return (self.by,)

    @property
    def parts(self) -> Mapping[Level | None, Channel]:
        return dict.fromkeys(self.values, self)

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Column:
        return encode(columns[0], self.levels, column=names[0])

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Column:  # noqa: ARG002
        raise self._unknown("nothing can be drawn without their values")

    def revert(self, encoded: Column, context: Columns) -> Nodes:
        if self.held is None:
            raise self._unknown("method='reversion' of fit estimates them, and this does not")
        released = np.tile(np.arange(len(self.levels)), len(self.values))
        return Nodes(self.levels, self.held, self.cells(encoded, context), released)

    def likelihood(self, encoded: Column, context: Columns) -> Float:  # noqa: ARG002
        raise self._unknown("this method needs the chances of answers: use method='reversion'")

    def _unknown(self, why: str) -> MechanismError:
        example = ", ".join(f"{name}=0.8" for name in self.parameters)
        return MechanismError(
            f"the matrix has free parameters ({listing(self.parameters)}), and {why}; give them a value with matrix.at({example})"
        )

    def document(self) -> Document:
        groups = [
            {"value": value, "matrices": matrices.tolist()}
            for value, matrices in zip(self.values, self.matrices, strict=True)
        ]
        return {
            "channel": "free_matrix",
            "kind": self.kind,
            "levels": list(self.levels),
            "orientation": "columns",
            "parameters": list(self.parameters),
            "by": self.by,
            "groups": groups,
        }


def _checked_names(parameters: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(parameters, Sequence) or isinstance(parameters, str):
        example = [parameters] if isinstance(parameters, str) else ["honest"]
        raise MechanismError(f"parameters={parameters!r} must be a list of names: give {example!r}")
    names = tuple(parameters)
    if not names or len(set(names)) < len(names) or not all(isinstance(v, str) and v.isidentifier() for v in names):
        raise MechanismError(f"parameters {listing(names)} must be one or more different names, such as 'honest'")
    return names


def _checked(value: Level, matrices: object, levels: tuple[Level, ...], names: tuple[str, ...]) -> Float:
    wanted = 1 + len(names)
    if not isinstance(matrices, Sequence | np.ndarray) or len(matrices) != wanted:
        raise MechanismError(
            f"group {value!r} needs {wanted} matrices: one for those who are left, and one for {listing(names)}"
        )
    dense = [checked_array(matrix, len(levels)) for matrix in matrices]
    for matrix in dense:
        refuse_sums(matrix.sum(axis=0), "column", None)
    return np.stack(dense)

"""Checks of an array that should be a transition matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pramana.arrays import Column, Columns, Float, Int
from pramana.errors import DataError, MechanismError, listing, quoted, suggestion
from pramana.frames import Kind, Level, checked_levels, decode, encode, infer_kind
from pramana.frames.levels import is_number
from pramana.mechanism.channel import Document, Nodes
from pramana.mechanism.channels.forms import Dense, Form, Mixture
from pramana.mechanism.draws.keystream import Keystream

TOLERANCE = 1e-8


def checked_array(matrix: npt.ArrayLike, size: int) -> Float:
    """A square array of probabilities."""
    try:
        dense = np.array(matrix, dtype=float)
    except (TypeError, ValueError):
        raise MechanismError("the transition matrix must be a rectangular array of numbers") from None
    if dense.shape != (size, size):
        raise MechanismError(
            f"the transition matrix has shape {dense.shape} but there are {size} levels: give {size} × {size}"
        )
    if not np.all(np.isfinite(dense)):
        i, j = np.argwhere(~np.isfinite(dense))[0]
        raise MechanismError(
            f"entry [{i}, {j}] of the transition matrix is {dense[i, j]}: every entry must be a probability"
        )
    if dense.min() < 0 or dense.max() > 1 + TOLERANCE:
        i, j = np.argwhere((dense < 0) | (dense > 1 + TOLERANCE))[0]
        raise MechanismError(
            f"entry [{i}, {j}] of the transition matrix is {dense[i, j]:.6g}: probabilities lie between 0 and 1"
        )
    return dense


def stochastic(dense: Float, axis: int) -> bool:
    """Whether the sums along an axis are 1."""
    return bool(np.all(np.abs(dense.sum(axis=axis) - 1) < TOLERANCE))


def refuse_wrong_orientation(dense: Float) -> None:
    """Columns must sum to 1, and rows must not leave a doubt about which is which."""
    columns, rows = stochastic(dense, 0), stochastic(dense, 1)
    if columns and rows and not np.allclose(dense, dense.T, rtol=0, atol=TOLERANCE):
        raise MechanismError(
            "both rows and columns of the transition matrix sum to 1 and it is not symmetric, so its orientation is "
            "ambiguous: use TransitionMatrix.from_columns (entry [i, j] = Pr(released i | true j)) or "
            "TransitionMatrix.from_rows (entry [i, j] = Pr(released j | true i))"
        )
    if not columns:
        refuse_sums(dense.sum(axis=0), "column", "from_rows" if rows else None)


def refuse_sums(sums: Float, what: str, instead: str | None) -> None:
    """An error for the first sum that is not 1, naming the constructor that fits instead."""
    bad = np.flatnonzero(np.abs(sums - 1) >= TOLERANCE)
    if not bad.size:
        return
    said = f"{what} {bad[0]} of the transition matrix sums to {sums[bad[0]]:.10g}, not 1 (tolerance {TOLERANCE:.0e})"
    if instead:
        other = "rows" if instead == "from_rows" else "columns"
        raise MechanismError(f"{said}, but its {other} do: use TransitionMatrix.{instead}")
    raise MechanismError(f"{said}: {what}s are conditional distributions; give them with full precision")


Frequencies: TypeAlias = "npt.ArrayLike | Mapping[Any, float]"
CONDITION_LIMIT = 1e8
DENSE_LIMIT = 20_000


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TransitionMatrix:
    """`P[i, j] = Pr(released = levels[i] | true = levels[j])`; columns sum to 1.

    Parameters
    ----------
    levels : ordered level values; tuples when one matrix covers several columns.
    matrix : (K, K), in the paper's orientation. See `from_rows` for the other one.
    kind : "nominal", "ordinal" or "numeric". Text is nominal and two numbers are numeric unless stated.

    >>> P = TransitionMatrix(["no", "yes"], [[0.8, 0.1], [0.2, 0.9]])
    >>> round(P.epsilon, 4)
    2.0794
    >>> P.inverse.round(4)
    array([[ 1.2857, -0.1429],
           [-0.2857,  1.1429]])
    """

    levels: tuple[Level, ...]
    kind: Kind | None
    form: Form

    def __init__(self, levels: Sequence[Level], matrix: npt.ArrayLike, *, kind: Kind | None = None) -> None:
        levels = checked_levels(levels)
        dense = checked_array(matrix, len(levels))
        refuse_wrong_orientation(dense)
        self._fill(levels, Dense(dense), kind)

    def _fill(self, levels: tuple[Level, ...], form: Form, kind: Kind | None) -> None:
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "kind", _checked_kind(kind, self.levels))
        object.__setattr__(self, "form", form)
        condition = form.condition_number
        if not condition < CONDITION_LIMIT:
            state = "singular" if condition > 1e15 else f"nearly singular (condition number {condition:.1e})"
            raise MechanismError(
                f"the transition matrix of levels {quoted(listing(self.levels))} is {state}; the limit is {CONDITION_LIMIT:.0e}: "
                "raise the keep probability or merge levels"
            )

    @classmethod
    def _from_form(cls, levels: tuple[Level, ...], form: Form, kind: Kind | None) -> TransitionMatrix:
        made = cls.__new__(cls)
        made._fill(levels, form, kind)
        return made

    @classmethod
    def from_columns(
        cls, levels: Sequence[Level], matrix: npt.ArrayLike, *, kind: Kind | None = None
    ) -> TransitionMatrix:
        """From the paper's orientation, `matrix[i, j] = Pr(i | j)`, stated outright."""
        levels = checked_levels(levels)
        dense = checked_array(matrix, len(levels))
        refuse_sums(dense.sum(axis=0), "column", "from_rows" if stochastic(dense, 1) else None)
        return cls._from_form(levels, Dense(dense), kind)

    @classmethod
    def from_rows(cls, levels: Sequence[Level], matrix: npt.ArrayLike, *, kind: Kind | None = None) -> TransitionMatrix:
        """From sdcMicro's orientation, `matrix[j, i] = Pr(i | j)`: rows sum to 1."""
        levels = checked_levels(levels)
        dense = checked_array(matrix, len(levels))
        refuse_sums(dense.sum(axis=1), "row", "from_columns" if stochastic(dense, 0) else None)
        return cls._from_form(levels, Dense(np.ascontiguousarray(dense.T)), kind)

    @classmethod
    def randomized_response(cls, levels: Sequence[Level], keep: float, *, kind: Kind | None = None) -> TransitionMatrix:
        """Keep the truth with probability `keep`, else any other level with equal probability. O(K), any K.

        >>> round(TransitionMatrix.randomized_response(range(1_000_000), keep=0.9, kind="numeric").epsilon, 2)
        16.01
        """
        levels = checked_levels(levels)
        size = len(levels)
        if not (is_number(keep) and 1 / size < keep <= 1):
            raise MechanismError(
                f"keep={keep!r} must lie above 1/K = {1 / size:.4g} (where the released value says nothing) and at most 1"
            )
        refill = (1 - keep) * size / (size - 1)
        return cls._from_form(levels, Mixture(refill, np.full(size, 1 / size)), kind)

    @classmethod
    def from_epsilon(cls, levels: Sequence[Level], epsilon: float, *, kind: Kind | None = None) -> TransitionMatrix:
        """The K-ary randomised response whose privacy loss is `epsilon`."""
        if not (is_number(epsilon) and 0 < epsilon < 700):
            raise MechanismError(f"epsilon={epsilon!r} must be positive and below 700")
        levels = checked_levels(levels)
        keep = 1 / (1 + (len(levels) - 1) * float(np.exp(-epsilon)))
        return cls.randomized_response(levels, keep, kind=kind)

    @classmethod
    def invariant(
        cls, levels: Sequence[Level], frequencies: Frequencies, keep: float, *, kind: Kind | None = None
    ) -> TransitionMatrix:
        """`(1 − λ) I + λ π 1ᵀ`, which leaves the frequencies π as they are; `keep` is its smallest diagonal entry.

        See `pramana.designs.invariant` for other constructions.

        >>> TransitionMatrix.invariant(["a", "b"], [0.25, 0.75], keep=0.7).matrix.round(2)
        array([[0.7, 0.1],
               [0.3, 0.9]])
        """
        from pramana.mechanism.designs import invariant

        return invariant(levels, frequencies, keep, kind=kind)

    @classmethod
    def binary(cls, sensitivity: float, specificity: float, *, levels: Sequence[Level] = (0, 1)) -> TransitionMatrix:
        """Two levels: `sensitivity = Pr(1 | 1)` and `specificity = Pr(0 | 0)`, of the second and first level."""
        for name, value in (("sensitivity", sensitivity), ("specificity", specificity)):
            if not (is_number(value) and 0 <= value <= 1):
                raise MechanismError(f"{name}={value!r} must be a probability: probabilities lie between 0 and 1")
        return cls.from_columns(levels, [[specificity, 1 - sensitivity], [1 - specificity, sensitivity]])

    def __len__(self) -> int:
        return len(self.levels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TransitionMatrix) and self.document() == other.document()

    def __hash__(self) -> int:
        return hash((self.levels, self.kind))

    def __repr__(self) -> str:
        return (
            f"TransitionMatrix({len(self)} levels: {listing(self.levels, 4)}; {self.kind or 'kind not stated'}; "
            f"epsilon {self.epsilon:.3g}, condition number {self.condition_number:.3g})"
        )

    @property
    def matrix(self) -> Float:
        """P as an array (K, K)."""
        self._refuse_huge()
        return self.form.matrix

    @property
    def inverse(self) -> Float:
        """Q = P⁻¹ as an array (K, K)."""
        self._refuse_huge()
        return self.form.inverse

    @property
    def diagonal(self) -> Float:
        """Probability that each level is released as it is (K,)."""
        if isinstance(self.form, Mixture):
            return 1 - self.form.refill * (1 - self.form.frequencies)
        return self.form.matrix.diagonal().copy()

    def to_rows(self) -> Float:
        """P in sdcMicro's orientation, rows summing to 1; `from_rows` reads it back."""
        return np.ascontiguousarray(self.matrix.T)

    def _refuse_huge(self) -> None:
        if len(self) > DENSE_LIMIT:
            raise MechanismError(
                f"a {len(self)} × {len(self)} array is above the limit of {DENSE_LIMIT} levels: "
                "use the closed form (`revert_table`), which never builds it"
            )

    @property
    def epsilon(self) -> float:
        """Largest log ratio of two entries in one row of P; infinite with a zero beside a non-zero."""
        return self.form.epsilon

    @property
    def condition_number(self) -> float:
        """Ratio of the extreme singular values of P."""
        return self.form.condition_number

    @property
    def context(self) -> tuple[str, ...]:
        return ()

    def revert_table(self, table: Float) -> Float:
        """Reversion by released level (K, m) of a function tabulated by true level (K, m)."""
        return self.form.revert_table(table)

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Int:
        if len(names) == 1:
            return encode(columns[0], self.levels, column=names[0])
        parts: list[Int] = []
        sizes: list[int] = []
        for position, (column, name) in enumerate(zip(columns, names, strict=True)):
            levels = list(dict.fromkeys(level[position] for level in self.levels))  # type: ignore[index]
            parts.append(encode(column, levels, column=name))
            sizes.append(len(levels))
        flat = np.ravel_multi_index(parts, sizes) if parts[0].size else parts[0]
        try:
            return encode(flat, self._flat_levels(sizes), column=" × ".join(names))
        except DataError:  # once more, to name the combinations themselves
            both = np.empty(flat.size, dtype=object)
            both[:] = list(zip(*(column.tolist() for column in columns), strict=True))
            return encode(both, self.levels, column=" × ".join(names))

    def _flat_levels(self, sizes: Sequence[int]) -> list[int]:
        """Joint levels as single integers, so that impossible combinations are found quickly."""
        parts = [list(dict.fromkeys(level[p] for level in self.levels)) for p in range(len(sizes))]  # type: ignore[index]
        index = [[parts[p].index(level[p]) for level in self.levels] for p in range(len(sizes))]  # type: ignore[index]
        return [int(v) for v in np.ravel_multi_index(index, sizes)]

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Int:  # noqa: ARG002
        return self.form.draw(encoded, stream)

    def revert(self, encoded: Column, context: Columns) -> Nodes:  # noqa: ARG002
        return Nodes(self.levels, self.form.revert_rows(encoded), encoded)

    def likelihood(self, encoded: Column, context: Columns) -> Float:  # noqa: ARG002
        """Pr(released | true) for every true level, as rows (n, K)."""
        return self.matrix[encoded]

    def revert_function(self, function: Callable[[Column], Float], encoded: Column, context: Columns) -> Float:  # noqa: ARG002
        return self.revert_table(function(decode(np.arange(len(self)), self.levels)))[encoded]

    def document(self) -> Document:
        document: dict[str, Any] = {"kind": self.kind, "levels": list(self.levels)}
        if isinstance(self.form, Mixture):
            return {"channel": "mixture", **document, "refill": self.form.refill, **_frequencies(self.form)}
        return {"channel": "transition_matrix", **document, "orientation": "columns", "matrix": self.matrix.tolist()}

    @classmethod
    def from_document(cls, document: Document) -> TransitionMatrix:
        """Rebuild from `document()`; joint levels come back as tuples."""
        levels = checked_levels([tuple(v) if isinstance(v, list) else v for v in document["levels"]])
        if document["channel"] == "mixture":
            uniform = np.full(len(levels), 1 / len(levels))
            frequencies = np.asarray(document.get("frequencies") or uniform, dtype=float)
            if frequencies.shape != uniform.shape or abs(frequencies.sum() - 1) > TOLERANCE:
                raise MechanismError(
                    f"{frequencies.size} frequencies that sum to {frequencies.sum():.10g} for {len(levels)} levels: give one a "
                    "level, summing to 1"
                )
            return cls._from_form(levels, Mixture(float(document["refill"]), frequencies), document.get("kind"))
        build = cls.from_rows if document["orientation"] == "rows" else cls.from_columns
        return build(levels, document["matrix"], kind=document.get("kind"))


def _frequencies(form: Mixture) -> Document:
    return {} if np.all(form.frequencies == 1 / form.size) else {"frequencies": form.frequencies.tolist()}


def _checked_kind(kind: Kind | None, levels: tuple[Level, ...]) -> Kind | None:
    if kind is None:
        return infer_kind(levels)
    if kind not in ("nominal", "ordinal", "numeric"):
        raise MechanismError(f"kind {kind!r} is unknown: {suggestion(kind, ['nominal', 'ordinal', 'numeric'])}")
    if kind == "numeric" and not all(is_number(v) for v in levels):
        raise MechanismError(
            f"kind 'numeric' needs numeric levels, not {quoted(listing(levels))}: use 'nominal' or 'ordinal'"
        )
    return kind

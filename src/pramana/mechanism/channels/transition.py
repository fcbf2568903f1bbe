"""Transition matrices: `P[i, j] = Pr(released = i | true = j)` over the levels of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pramana.arrays import Column, Columns, Float, Int
from pramana.errors import DataError, MechanismError, listing, quoted, suggestion
from pramana.frames import Kind, Level, checked_levels, decode, encode, infer_kind
from pramana.frames.levels import all_numbers, is_number
from pramana.mechanism.channel import CONDITIONS, Channel, Conditional, Document, Nodes
from pramana.mechanism.channels.checks import (
    TOLERANCE,
    Frequencies,
    check_probabilities,
    checked_array,
    checked_diagonals,
    checked_epsilon,
    refuse_sums,
    refuse_wrong_orientation,
    stochastic,
)
from pramana.mechanism.channels.matrix_forms import Banded, Dense, Form, Mixture
from pramana.mechanism.channels.uncertainty import (
    Accuracy,
    Uncertainty,
    published_accuracy,
    refuse_chosen_by,
    refuse_singular,
    two_by_two,
    validated,
    validation_table,
)
from pramana.mechanism.draws.keystream import Keystream

CONDITION_LIMIT = 1e8
DENSE_LIMIT = 20_000
SHARED_LEVELS = 256
"""Up to so many levels a reversion has a row for each of them; beyond, for those that occur."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TransitionMatrix(Channel):
    """`P[i, j] = Pr(released = levels[i] | true = levels[j])`; columns sum to 1.

    Parameters
    ----------
    levels : ordered level values; tuples when one matrix covers several columns.
    matrix : (K, K), in the paper's orientation. See `from_rows` for the other one.
    kind : "nominal", "ordinal" or "numeric". Text is nominal and two numbers are numeric unless stated.
    conditional : the matrix was built from frequencies of the confidential data, so that epsilon holds only given them;
        ("levels",) where its list of levels comes from there, ("frequencies", "levels") for both.

    >>> P = TransitionMatrix(["no", "yes"], [[0.8, 0.1], [0.2, 0.9]])
    >>> round(P.epsilon, 4)
    2.0794
    >>> P.inverse.round(4)
    array([[ 1.2857, -0.1429],
           [-0.2857,  1.1429]])
    """

    form: Form
    # Never used defaults: they hide the properties that Channel declares, so that instances can hold the values.
    levels: tuple[Level, ...] = ()
    kind: Kind | None = None
    given: tuple[str, ...] = ()
    uncertainty: Uncertainty | None = None

    def __init__(
        self,
        levels: Sequence[Level],
        matrix: npt.ArrayLike,
        *,
        kind: Kind | None = None,
        conditional: Conditional = False,
    ) -> None:
        levels = checked_levels(levels)
        dense = checked_array(matrix, len(levels))
        refuse_wrong_orientation(dense)
        self._fill(levels, Dense(dense), kind, conditional)

    def _fill(self, levels: tuple[Level, ...], form: Form, kind: Kind | None, conditional: Conditional) -> None:
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "kind", checked_kind(kind, self.levels))
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "given", _checked_given(conditional))
        condition = form.condition_number
        if not condition < CONDITION_LIMIT:
            state = "singular" if condition > 1e15 else f"nearly singular (condition number {condition:.1e})"
            raise MechanismError(
                f"the transition matrix of levels {quoted(listing(self.levels))} is {state}; the limit is {CONDITION_LIMIT:.0e}: "
                "raise the keep probability or merge levels"
            )

    @classmethod
    def from_form(
        cls, levels: tuple[Level, ...], form: Form, kind: Kind | None, *, conditional: Conditional = False
    ) -> TransitionMatrix:
        """From arithmetic that is already checked."""
        made = cls.__new__(cls)
        made._fill(levels, form, kind, conditional)
        return made

    @classmethod
    def from_columns(
        cls,
        levels: Sequence[Level],
        matrix: npt.ArrayLike,
        *,
        kind: Kind | None = None,
        conditional: Conditional = False,
    ) -> TransitionMatrix:
        """From the paper's orientation, `matrix[i, j] = Pr(i | j)`, stated outright."""
        levels = checked_levels(levels)
        dense = checked_array(matrix, len(levels))
        refuse_sums(dense.sum(axis=0), "column", "from_rows" if stochastic(dense, 1) else None)
        return cls.from_form(levels, Dense(dense), kind, conditional=conditional)

    @classmethod
    def from_rows(
        cls,
        levels: Sequence[Level],
        matrix: npt.ArrayLike,
        *,
        kind: Kind | None = None,
        conditional: Conditional = False,
    ) -> TransitionMatrix:
        """From sdcMicro's orientation, `matrix[j, i] = Pr(i | j)`: rows sum to 1."""
        levels = checked_levels(levels)
        dense = checked_array(matrix, len(levels))
        refuse_sums(dense.sum(axis=1), "row", "from_columns" if stochastic(dense, 0) else None)
        return cls.from_form(levels, Dense(np.ascontiguousarray(dense.T)), kind, conditional=conditional)

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
        return cls.from_form(levels, Mixture(refill, np.full(size, 1 / size)), kind)

    @classmethod
    def from_epsilon(cls, levels: Sequence[Level], epsilon: float, *, kind: Kind | None = None) -> TransitionMatrix:
        """The K-ary randomised response whose privacy loss is `epsilon`."""
        loss, levels = checked_epsilon(epsilon), checked_levels(levels)
        keep = 1 / (1 + (len(levels) - 1) * float(np.exp(-loss)))
        return cls.randomized_response(levels, keep, kind=kind)

    @classmethod
    def invariant(
        cls,
        levels: Sequence[Level],
        frequencies: Frequencies,
        keep: float,
        *,
        kind: Kind | None = None,
        conditional: Conditional = False,
    ) -> TransitionMatrix:
        """`(1 − λ) I + λ π 1ᵀ`, which leaves the frequencies π as they are; `keep` is its smallest diagonal entry.

        See `pramana.designs.invariant` for other constructions; frequencies of the confidential data make epsilon
        conditional on them.

        >>> TransitionMatrix.invariant(["a", "b"], [0.25, 0.75], keep=0.7).matrix.round(2)
        array([[0.7, 0.1],
               [0.3, 0.9]])
        """
        from pramana.mechanism.designs import invariant

        return invariant(levels, frequencies, keep, kind=kind, conditional=conditional)

    @classmethod
    def binary(cls, sensitivity: float, specificity: float, *, levels: Sequence[Level] = (0, 1)) -> TransitionMatrix:
        """Two levels: `sensitivity = Pr(1 | 1)` and `specificity = Pr(0 | 0)`, of the second and first level."""
        check_probabilities(sensitivity=sensitivity, specificity=specificity)
        return cls.from_columns(levels, [[specificity, 1 - sensitivity], [1 - specificity, sensitivity]])

    @classmethod
    def from_validation(
        cls,
        counts: object = None,
        *,
        levels: Sequence[Level] | None = None,
        sensitivity: tuple[int, int] | None = None,
        specificity: tuple[int, int] | None = None,
        prior: float | npt.ArrayLike | None = None,
        chosen_by: str = "true",
        internal: bool = False,
        kind: Kind | None = None,
    ) -> TransitionMatrix:
        """Measured by a validation study in which people's true levels are known; `fit` adds its uncertainty to standard errors.

        Parameters
        ----------
        counts : (K, K), people released as level i (row) whose true level is j (column); or a pandas cross table with the
            levels for its index and columns, or a dictionary `{true: {released: count}}`.
        levels : of an array of counts, in its order; 0 and 1 where there are two.
        sensitivity, specificity : for two levels, in place of counts: how many were released right, of how many.
        prior : added to every count (a Dirichlet prior): one number, or one for each cell. By default nothing, except that a
            column with an empty cell gets ½ in each of its cells (Jeffreys' prior).
        chosen_by : what decided who was validated: "true" levels, or "neither" (everybody alike). "released" is refused.

        internal : the people are records of the file that is analysed, chosen by nothing else; standard errors then know
            that P̂ and the noise of these records err together.

        >>> P = TransitionMatrix.from_validation(sensitivity=(204, 242), specificity=(71, 89))
        >>> P.matrix.round(4)
        array([[0.7978, 0.157 ],
               [0.2022, 0.843 ]])
        """
        if chosen_by != "true":
            refuse_chosen_by(chosen_by)
        if (counts is None) == (sensitivity is None and specificity is None):
            raise MechanismError(
                "from_validation takes a table of counts, or sensitivity=(204, 242) and specificity=(71, 89)"
            )
        table = two_by_two(sensitivity, specificity) if counts is None else counts
        known, array = validation_table(table, levels)
        matrix, uncertainty = validated(known, array, prior)
        return cls.from_columns(known, matrix, kind=kind).measured(replace(uncertainty, internal=internal))

    @classmethod
    def from_published(
        cls,
        sensitivity: Accuracy,
        specificity: Accuracy,
        *,
        levels: Sequence[Level] = (0, 1),
        level: float = 0.95,
    ) -> TransitionMatrix:
        """Two levels, from the accuracy that a paper states of a test; `fit` adds its uncertainty to standard errors.

        Parameters
        ----------
        sensitivity, specificity : of the second and the first level. An estimate with its interval, `(0.94, (0.90, 0.97))`, which
            becomes the Beta distribution of that mean whose interval is as wide on the logit scale; an estimate with the
            number of people that it comes from, `(0.94, 242)`; or a number that is taken as known.
        level : of the intervals.

        >>> P = TransitionMatrix.from_published(sensitivity=(0.94, (0.90, 0.97)), specificity=0.97)
        >>> P.uncertainty.sizes.round(1)
        array([  inf, 175.3])
        """
        if not (is_number(level) and 0 < level < 1):
            raise MechanismError(f"level={level!r} must lie between 0 and 1: for 95 % intervals give 0.95")
        (right, found), (low, high) = zip(
            published_accuracy("specificity", specificity, level),
            published_accuracy("sensitivity", sensitivity, level),
            strict=True,
        )
        return cls.binary(found, right, levels=levels).measured(Uncertainty(np.array([low, high])))

    def measured(self, uncertainty: Uncertainty | None) -> TransitionMatrix:
        """The same matrix as an estimate that is so uncertain; None takes it as known."""
        if uncertainty is not None:
            refuse_singular(self.matrix, uncertainty)
        form = self.form if uncertainty is None else Dense(self.matrix)
        made = TransitionMatrix.from_form(self.levels, form, self.kind, conditional=self.given)
        object.__setattr__(made, "uncertainty", uncertainty)
        return made

    def arranged(self, order: Sequence[int], levels: Sequence[Level], kind: Kind | None) -> TransitionMatrix:
        """The same randomisation with its levels in another order (places of the present ones) and under other names."""
        places, form = list(order), self.form
        if isinstance(form, Mixture):
            form = Mixture(form.refill, form.frequencies[places])
        elif places != list(range(len(self))):
            form = Dense(np.ascontiguousarray(self.matrix[np.ix_(places, places)]))
        made = TransitionMatrix.from_form(checked_levels(levels), form, kind, conditional=self.given)
        known = self.uncertainty
        if known is not None:
            told = None if known.validated is None else tuple(known.validated[k] for k in places)
            object.__setattr__(made, "uncertainty", replace(known, sizes=known.sizes[places], validated=told))
        return made

    def __len__(self) -> int:
        return len(self.levels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TransitionMatrix) and self.document() == other.document()

    def __hash__(self) -> int:
        return hash((self.levels, self.kind))

    def __repr__(self) -> str:
        return (
            f"TransitionMatrix({len(self)} levels: {listing(self.levels, 4)}; {self.kind or 'kind not stated'}; "
            f"epsilon {self.epsilon:.3g}{told_given(self)}, condition number {self.condition_number:.3g}"
            f"{'' if self.uncertainty is None else f'; {self.uncertainty.told}'})"
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
        return self.form.diagonal

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

    def revert_table(self, table: Float) -> Float:
        """Reversion by released level (K, m) of a function tabulated by true level (K, m)."""
        return self.form.revert_table(table)

    def encode(self, columns: Sequence[Column], names: Sequence[str]) -> Int:
        if len(names) == 1:
            return encode(columns[0], self.levels, column=names[0])
        own = [self.component(place) for place in range(len(names))]
        pairs = zip(columns, own, names, strict=True)
        parts = [encode(column, levels, column=name) for column, levels, name in pairs]
        sizes = [len(levels) for levels in own]
        flat = np.ravel_multi_index(parts, sizes) if parts[0].size else parts[0]
        places = [{level: place for place, level in enumerate(levels)} for levels in own]
        listed = [[place[level[p]] for level in self.levels] for p, place in enumerate(places)]  # type: ignore[index]
        # Joint levels as single integers, so that impossible combinations are found quickly.
        joint = np.ravel_multi_index(listed, sizes).tolist()
        try:
            return encode(flat, joint, column=" × ".join(names))
        except DataError:  # once more, to name the combinations themselves
            both = np.empty(flat.size, dtype=object)
            both[:] = list(zip(*(column.tolist() for column in columns), strict=True))
            return encode(both, self.levels, column=" × ".join(names))

    def component(self, place: int) -> tuple[Level, ...]:
        """Levels of one of the columns that a joint matrix covers."""
        return tuple(dict.fromkeys(level[place] for level in self.levels))  # type: ignore[index]

    def perturb(self, encoded: Column, context: Columns, stream: Keystream) -> Int:  # noqa: ARG002
        return self.form.draw(encoded, stream)

    def revert(self, encoded: Column, context: Columns) -> Nodes:  # noqa: ARG002
        few = len(self) <= min(SHARED_LEVELS, encoded.size)
        released, row = (np.arange(len(self)), encoded) if few else np.unique(encoded, return_inverse=True)
        return Nodes(self.levels, self.form.revert_rows(released), row, released)

    def likelihood(self, encoded: Column, context: Columns) -> Float:  # noqa: ARG002
        return self.form.rows(encoded)

    def revert_function(self, function: Callable[[Column], Float], encoded: Column, context: Columns) -> Float:  # noqa: ARG002
        by_level = self.revert_table(function(decode(np.arange(len(self)), self.levels)))
        return np.take(np.ascontiguousarray(by_level.T), encoded, axis=1).T  # whose columns are contiguous

    def document(self) -> Document:
        document: dict[str, Any] = {"kind": self.kind, "levels": list(self.levels)}
        document |= {"conditional": True} if self.conditional else {}
        # Readers of older versions know of frequencies alone.
        document |= {} if self.given in ((), ("frequencies",)) else {"given": list(self.given)}
        if isinstance(self.form, Mixture):
            return {"channel": "mixture", **document, "refill": self.form.refill, **_frequencies(self.form)}
        if isinstance(self.form, Banded):
            diagonals = self.form.diagonals.tolist()
            return {"channel": "band", **document, "width": self.form.width, "diagonals": diagonals}
        document |= {"orientation": "columns", "matrix": self.matrix.tolist()}
        if self.uncertainty is None:
            return {"channel": "transition_matrix", **document}
        return {"channel": "measured_matrix", **document, **self.uncertainty.document()}

    @classmethod
    def from_document(cls, document: Document) -> TransitionMatrix:
        """Rebuild from `document()`; joint levels come back as tuples."""
        levels = checked_levels([tuple(v) if isinstance(v, list) else v for v in document["levels"]])
        kind, conditional = document.get("kind"), document.get("given") or bool(document.get("conditional"))
        if document["channel"] == "mixture":
            uniform = np.full(len(levels), 1 / len(levels))
            frequencies = np.asarray(document.get("frequencies") or uniform, dtype=float)
            if frequencies.shape != uniform.shape or abs(frequencies.sum() - 1) > TOLERANCE:
                raise MechanismError(
                    f"{frequencies.size} frequencies that sum to {frequencies.sum():.10g} for {len(levels)} levels: give one a "
                    "level, summing to 1"
                )
            mixture = Mixture(float(document["refill"]), frequencies)
            return cls.from_form(levels, mixture, kind, conditional=conditional)
        if document["channel"] == "band":
            form = Banded(checked_diagonals(document["diagonals"], document["width"], len(levels)))
            return cls.from_form(levels, form, kind, conditional=conditional)
        build = cls.from_rows if document["orientation"] == "rows" else cls.from_columns
        made = build(levels, document["matrix"], kind=kind, conditional=conditional)
        known = document["channel"] == "transition_matrix"
        return made if known else made.measured(Uncertainty.from_document(document, len(levels)))


def told_given(channel: Channel) -> str:
    """What must be said after an epsilon: nothing, or what it is conditional on."""
    return f" given {' and '.join(CONDITIONS[what] for what in channel.given)}" if channel.given else ""


def _checked_given(conditional: Conditional) -> tuple[str, ...]:
    if isinstance(conditional, bool):
        return ("frequencies",) if conditional else ()
    unknown = [what for what in conditional if what not in CONDITIONS]
    if unknown or isinstance(conditional, str):
        raise MechanismError(
            f"conditional={conditional!r}: give true, or a list of what comes from the confidential data ({', '.join(CONDITIONS)})"
        )
    return tuple(what for what in CONDITIONS if what in conditional)


def _frequencies(form: Mixture) -> Document:
    return {} if np.all(form.frequencies == 1 / form.size) else {"frequencies": form.frequencies.tolist()}


def checked_kind(kind: Kind | None, levels: tuple[Level, ...]) -> Kind | None:
    """The kind stated, or the one that the levels tell."""
    if kind is None:
        return infer_kind(levels)
    if kind not in ("nominal", "ordinal", "numeric"):
        raise MechanismError(f"kind {kind!r} is unknown: {suggestion(kind, ['nominal', 'ordinal', 'numeric'])}")
    if kind == "numeric" and not all_numbers(levels):
        raise MechanismError(
            f"kind 'numeric' needs numeric levels, not {quoted(listing(levels))}: use 'nominal' or 'ordinal'"
        )
    return kind

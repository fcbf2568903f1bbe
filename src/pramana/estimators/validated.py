"""A validation study within the file, used twice: its people tell P, by which all records are reverted, and their true values are an answer of
their own. The two answers are combined with the smallest variance.

Reverted β_R and validated β_V are estimated in one stack with P, so that their joint covariance Ω is known, whatever the sampling design. With
D = Var(β_V − β_R), the combination β_R + W (β_V − β_R), W = Cov(β_R, β_R − β_V) D⁻¹, has the covariance Ω_RR − W D Wᵀ: no
linear combination has a smaller one, and neither answer alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pramana.analysis.task import Task
from pramana.arrays import Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine
from pramana.errors import DataError, PramanaError, listing, quoted
from pramana.estimating import EstimatingFunction
from pramana.estimators.estimate import answer, solved
from pramana.estimators.measured import Pinned
from pramana.estimators.method import Binding, EquationMethod
from pramana.estimators.reversion import Reversion
from pramana.estimators.stack import Stack, StackCells, refuse_unsuited
from pramana.frames import Table, encode
from pramana.frames.table import is_missing
from pramana.inference import Sandwich
from pramana.inference.sandwich import bread, sandwich_covariance
from pramana.kernels.blocks import by_group
from pramana.mechanism import Assignment, Mechanism
from pramana.mechanism.channels.transition import TransitionMatrix
from pramana.result import Result

REVERTED, TRUE = " (reverted)", " (validated)"
NOTE = Diagnostic(
    "validated-records",
    "info",
    "P comes from the validated records, whose true values are used as well; who was validated is taken to depend on nothing, and errors to be the same "
    "whatever the values of other columns (non-differential error)",
)
UNLIKE = 1e-3
"""p-value below which validated records are said to differ from the others."""
AGREED = 1e-10
"""Variance of a difference of the two answers, over the sum of their variances, below which they are one."""


@dataclass(frozen=True)
class ValidationStudy(StackCells):
    """P, from people whose released and true levels are known.

    A cell is a released level with what is known of the truth, nothing or a level: K (K + 1) of them.

    Attributes
    ----------
    matrix : (K, K), P as the study has it.
    """

    matrix: Float

    @property
    def copies(self) -> tuple[str, ...]:
        return REVERTED, TRUE

    @property
    def hidden(self) -> tuple[str, ...]:
        size = len(self.matrix)
        return tuple(f"P[{i}, {j}]" for i in range(1, size) for j in range(size))

    @property
    def start(self) -> Float:
        return self.matrix[1:].ravel()

    @cached_property
    def _known(self) -> Float:
        """1 where the truth of a cell is known to be a level (cells, K)."""
        size = len(self.matrix)
        return np.tile(np.vstack([np.zeros(size), np.eye(size)]), (size, 1))

    @property
    def naive(self) -> Float:
        size = len(self.matrix)
        return np.stack([np.repeat(np.eye(size), size + 1, axis=0), self._known])

    def tables(self, nuisance: Float) -> tuple[Float, Float]:
        """Q by released level, with ∂Q = −Q ∂P Q; and the truth where it is known."""
        size = len(self.matrix)
        inverse = np.linalg.inv(self._whole(nuisance))
        moved = -np.einsum("kl,ji->ljik", inverse[:, 1:] - inverse[:, :1], inverse).reshape(-1, size, size)
        change = np.zeros((nuisance.size, 2, size * (size + 1), size))
        change[:, 0] = np.repeat(moved, size + 1, axis=1)
        return np.stack([np.repeat(inverse.T, size + 1, axis=0), self._known]), change

    def equations(self, nuisance: Float) -> tuple[Float, Float]:
        """1{released = i} − P[i, j] for those whose truth is j."""
        size, held = len(self.matrix), np.tile(self._known, (1, len(self.matrix) - 1))  # (cells, (K − 1) K)
        released = np.repeat(np.repeat(np.eye(size)[:, 1:], size + 1, axis=0), size, axis=1)
        return held * (released - nuisance), -held[:, :, None] * np.eye(nuisance.size)

    @staticmethod
    def _whole(nuisance: Float) -> Float:
        size = round((1 + np.sqrt(1 + 4 * nuisance.size)) / 2)
        others = nuisance.reshape(size - 1, size)
        return np.vstack([1 - others.sum(axis=0), others])


@dataclass(frozen=True)
class Validated(EquationMethod):
    """Reversion with P from validated records of the file, combined with the answer of these records' true values.

    Parameters
    ----------
    truth : the column with the true values of a measured one, missing where nobody looked: {"ill": "ill_true"}. Who was validated must not
        depend on anything. The mechanism's matrix is `from_validation(..., internal=True)` of the same people.

    >>> import pramana as pr
    >>> data = {"ill": [1, 1, 0, 0] * 50, "sure": [1, 1, 0, 0] * 17 + [0, 1, 0, 1] * 3 + [None] * 120}
    >>> P = pr.TransitionMatrix.from_validation([[37, 3], [3, 37]], internal=True)
    >>> found = pr.fit(pr.mean("ill"), data, pr.Mechanism({"ill": P}), method=pr.Validated({"ill": "sure"}))
    >>> round(float(found.estimate[0]), 3), round(float(found.standard_errors[0]), 3)
    (0.5, 0.045)
    """

    truth: Mapping[str, str]
    label: str = field(default="validated", kw_only=True)

    @property
    def adds_measurement(self) -> bool:
        return True

    def estimate(self, task: Task) -> Result:
        at = solved(self, task)
        return _combined(answer(self, task, at), _together(at.engine, at.root.beta))

    def bind(self, function: EstimatingFunction, mechanism: Mechanism | None, table: Table, weights: Float) -> Binding:
        assignment, others = self._measured(mechanism, function)
        channel = assignment.channel
        assert isinstance(channel, TransitionMatrix)
        assert mechanism is not None
        name = self.truth[assignment.columns[0]]
        truth, released, size = _true_codes(name, channel, table), assignment.encoded(table), len(channel)
        cell = released * (size + 1) + truth + 1
        counts = by_group(weights[:, None], cell, size * (size + 1)).reshape(size, size + 1)
        study = ValidationStudy(_matrix(counts[:, 1:], channel, name))
        known = TransitionMatrix.from_columns(channel.levels, study.matrix, kind=channel.kind)
        channels = [known, *(Pinned(channel, k) for k in range(size))]
        first, *pinned = (
            Reversion().bind(function, mechanism.with_channel(assignment, c), table, weights) for c in channels
        )
        stack = Stack.of(first.equation, [part.equation for part in pinned], cell, study, alone=not others)
        refuse_unsuited(stack, weights, "combined with that of validated records: use method='reversion'")
        seen = ", ".join(str(int((truth == j).sum())) for j in range(size))
        told = f"{assignment.columns[0]} validated on {int((truth >= 0).sum())} of these records ({seen} by true level)"
        notes = [NOTE, *_unlike(np.bincount(cell, minlength=size * (size + 1)).reshape(size, -1), name)]
        return Binding(stack, None, {**first.facts, "Transition matrix": told}, tuple(notes), stack.started)

    def _measured(
        self, mechanism: Mechanism | None, function: EstimatingFunction
    ) -> tuple[Assignment, list[Assignment]]:
        """The column whose truth is known of some, and the other perturbed ones of the question."""
        if not isinstance(self.truth, Mapping) or len(self.truth) != 1:
            raise PramanaError(
                "Validated() takes one measured column and the column with its true values: {'ill': 'ill_true'}"
            )
        name = next(iter(self.truth))
        if self.truth[name] == name:
            raise PramanaError(f"{name!r} cannot be its own truth: name the column with the true values")
        used = [] if mechanism is None else mechanism.used_by(function.variables)
        found = [a for a in used if a.columns == (name,)]
        if not found:
            raise PramanaError(
                f"the question reads no perturbed column {name!r}, whose truth Validated() was given: use method='reversion'"
            )
        channel, others = found[0].channel, [a for a in used if a is not found[0]]
        if not isinstance(channel, TransitionMatrix) or channel.uncertainty is None or not channel.uncertainty.internal:
            raise PramanaError(
                f"the matrix of {name!r} was not measured on records of this file: make it with TransitionMatrix.from_validation(..., internal=True), "
                "or use method='reversion'"
            )
        more = [c for a in others if a.measured for c in a.columns]
        if more or (mechanism is not None and mechanism.unit is not None):
            raise PramanaError(
                f"the validated records of {name!r} are not combined with {f'the measured matrix of {listing(more)}' if more else 'draws that units share'}: "
                "use method='reversion'"
            )
        return found[0], others


def _true_codes(name: str, channel: TransitionMatrix, table: Table) -> Int:
    """The place of each record's true level (n,), −1 where it is not known."""
    values = table.column(name)
    known = ~is_missing(values)
    codes = np.full(table.n, -1)
    codes[known] = encode(values[known], channel.levels, column=name)
    return codes


def _unlike(counts: Int, name: str) -> list[Diagnostic]:
    """A warning where the released values of validated records are not those of the others, as where these decided who was validated."""
    from scipy.stats import chi2_contingency

    table = np.stack([counts[:, 1:].sum(axis=1), counts[:, 0]])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or not table.sum(axis=1).all() or (p := float(chi2_contingency(table).pvalue)) > UNLIKE:
        return []
    message = (
        f"records with a value in {name} were released as other levels than those without (p = {p:.1e}): who was validated depended on the "
        "released value, or on something that goes with it, and this answer is then biased"
    )
    return [Diagnostic("validated-unlike", "warning", message)]


def _matrix(counts: Float, channel: TransitionMatrix, name: str) -> Float:
    """P from counts (released, true)."""
    empty = [level for level, count in zip(channel.levels, counts.sum(axis=0), strict=True) if not count > 0]
    if empty:
        raise DataError(
            f"no record has the true level {quoted(listing(empty))} in {name!r}: validate some, or merge it with another level"
        )
    return counts / counts.sum(axis=0)


@dataclass(frozen=True)
class _Combination:
    """How two answers become one.

    Attributes
    ----------
    weights : W (d, d), of the second one.
    sampling : the linearised covariance of the combination (d, d), and of it `privacy`, what errors cost where P is known, next to the
        true values of everybody, and `measurement`, what it costs to tell P from the validated records.
    """

    weights: Float
    sampling: Float
    privacy: Float
    measurement: Float


def _together(engine: Engine, beta: Float) -> _Combination:
    """The combination of smallest variance, and its price.

    The joint covariance is taken at one β for both answers: directions in which they are one, as the mean of everybody is where all were
    validated, are then exactly that, and leave nothing to be combined. With P known, its equations and their slopes fall away.
    """
    stack = engine.equation
    assert isinstance(stack, Stack)
    own, nuisance = stack.split(beta)
    totals, about = engine.totals(np.concatenate([np.tile(own.mean(axis=0), 2), nuisance])), engine.about
    inverse = bread(totals, about.parameters)
    shown = [about.parameters.index(name) for name in about.shown or ()]
    one = shown[: len(shown) // 2]
    omega = sandwich_covariance(totals, inverse, engine, Sandwich("HC0"))[np.ix_(shown, shown)]
    weights = optimal(omega)
    mix = mixing(weights)
    known = np.zeros_like(inverse)
    known[: own.size, : own.size] = np.linalg.inv(totals.slope[: own.size, : own.size])
    # Draws are independent between records, whatever the sampling design (Remark 1).
    drawn, fixed = (mix @ (b @ totals.outer @ b.T)[np.ix_(shown, shown)] @ mix.T for b in (inverse, known))
    oracle = (known @ totals.clean_outer @ known.T)[np.ix_(one, one)]
    return _Combination(weights, mix @ omega @ mix.T, fixed - oracle, drawn - fixed)


def mixing(weights: Float) -> Float:
    """From two answers (2d,) to the combined one (d,), the second with weights (d, d)."""
    return np.hstack([np.eye(len(weights)) - weights, weights])


def optimal(omega: Float) -> Float:
    """Weights W (d, d) of the second of two answers with the joint covariance Ω (2d, 2d)."""
    d = len(omega) // 2
    apart = np.hstack([-np.eye(d), np.eye(d)])
    scale = np.sqrt(np.diag(omega)[:d] + np.diag(omega)[d:])
    difference = (apart @ omega @ apart.T) / np.outer(scale, scale)
    values, axes = np.linalg.eigh(difference)
    apart_in = axes[:, values > AGREED]
    inverse = (apart_in / values[values > AGREED]) @ apart_in.T / np.outer(scale, scale)
    return np.asarray(-(omega[:d] @ apart.T) @ inverse)


def _combined(result: Result, made: _Combination) -> Result:
    """The two answers in a result as one."""
    weights, d = made.weights, len(made.weights)
    mix = mixing(weights)
    names = tuple(name.removesuffix(REVERTED) for name in result.parameters[:d])
    shares = ", ".join(f"{weights[k, k]:.2f}" for k in range(min(d, 8)))
    return replace(
        result,
        parameters=names,
        estimate=mix @ result.estimate,
        covariance=mix @ result.covariance @ mix.T,
        limits=None,
        sampling=made.sampling,
        privacy=made.privacy,
        measurement=made.measurement,
        unsplit="",
        draws=None if result.draws is None else replace(result.draws, values=result.draws.values @ mix.T),
        df=result.df.reshape(2, d).min(axis=0) if isinstance(result.df, np.ndarray) else result.df,
        exponentials=None if result.exponentials is None else result.exponentials[:d],
        facts={**result.facts, "Weight of true values": shares},
    )

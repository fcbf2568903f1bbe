"""Matrices that keep frequencies in expectation (P π = π), and matrices with a keep probability for each level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np

from pramana.arrays import Float
from pramana.errors import MechanismError, quoted, suggestion
from pramana.frames import Kind, Level, checked_levels
from pramana.mechanism.channel import Conditional
from pramana.mechanism.channels.checks import (
    Frequencies,
    Keep,
    checked_epsilon,
    checked_floor,
    checked_frequencies,
    checked_keep,
)
from pramana.mechanism.channels.matrix_forms import Mixture
from pramana.mechanism.channels.transition import TransitionMatrix

Construction: TypeAlias = Literal["mixture", "two-stage", "equal-diagonal"]
CONSTRUCTIONS: tuple[str, ...] = get_args(Construction)


def per_level(
    levels: Sequence[Level], keep: Keep, *, frequencies: Frequencies | None = None, kind: Kind | None = None
) -> TransitionMatrix:
    """A keep probability for each level; what moves goes to the other levels alike, or in proportion to frequencies.

    Parameters
    ----------
    keep : one number, one a level in their order, or a dictionary by level.

    >>> per_level(["a", "b", "c"], {"a": 1.0, "b": 0.8, "c": 0.6}).matrix
    array([[1. , 0.1, 0.2],
           [0. , 0.8, 0.2],
           [0. , 0.1, 0.6]])
    """
    levels = checked_levels(levels)
    kept = checked_keep(keep, levels)
    weights = np.ones(len(levels)) if frequencies is None else checked_frequencies(frequencies, levels)
    return TransitionMatrix.from_columns(levels, moved_in_proportion(kept, weights), kind=kind)


def moved_in_proportion(keep: Float, weights: Float) -> Float:
    """The matrix (K, K) that keeps level j with `keep[j]`, else moves to another level in proportion to its weight."""
    moves = np.tile(weights[:, None], (1, weights.size))
    np.fill_diagonal(moves, 0.0)
    matrix = moves * ((1 - keep) / moves.sum(axis=0))
    np.fill_diagonal(matrix, keep)
    return matrix


def invariant(
    levels: Sequence[Level],
    frequencies: Frequencies,
    keep: Keep | None = None,
    *,
    epsilon: float | None = None,
    construction: Construction = "mixture",
    kind: Kind | None = None,
    conditional: Conditional = False,
) -> TransitionMatrix:
    """A matrix with P π = π: released frequencies equal the true ones in expectation.

    P reveals π, so take the frequencies from a public or noised table, or say that epsilon is conditional on them.

    Parameters
    ----------
    frequencies : π, positive and summing to 1, in the order of the levels or a dictionary by level.
    keep : for "mixture" the smallest diagonal entry, which is that of the rarest level; for "two-stage" the diagonal of
        the first stage (`P.diagonal` says what results); for "equal-diagonal" every diagonal entry, or one a level.
    epsilon : instead of `keep`, for "mixture" only.
    construction : "mixture", `(1 − λ) I + λ π 1ᵀ` with an O(K) inverse; "two-stage", randomised response followed by its
        reverse by Bayes' rule; "equal-diagonal", which exists if and only if no level has more than half of the moved mass
        `Σ_j (1 − keep_j) π_j`, that is, with one keep probability, if and only if no frequency exceeds 1/2.
    conditional : the frequencies come from the confidential data; the description of the mechanism then says so.

    >>> invariant(["a", "b", "c"], [0.5, 0.3, 0.2], 0.8).diagonal.round(4)
    array([0.875, 0.825, 0.8  ])
    >>> invariant(["a", "b", "c"], [0.5, 0.3, 0.2], 0.8, construction="equal-diagonal").diagonal
    array([0.8, 0.8, 0.8])
    """
    levels = checked_levels(levels)
    shares = checked_frequencies(frequencies, levels)
    if construction not in CONSTRUCTIONS:
        raise MechanismError(
            f"construction {construction!r} is unknown: {suggestion(str(construction), CONSTRUCTIONS)}"
        )
    if (keep is None) == (epsilon is None):
        raise MechanismError("an invariant design needs a keep probability or an epsilon, one of the two")
    if epsilon is not None and construction != "mixture":
        raise MechanismError(
            f"construction {construction!r} takes keep, not epsilon: use 'mixture' to reach an epsilon"
        )
    if construction == "equal-diagonal":
        assert keep is not None
        matrix = _given_diagonal(checked_keep(keep, levels), shares, levels)
        return TransitionMatrix.from_columns(levels, matrix, kind=kind, conditional=conditional)
    if construction == "two-stage":
        first = TransitionMatrix.randomized_response(levels, checked_floor(keep))
        matrix = _there_and_back(first.matrix, shares)
        return TransitionMatrix.from_columns(levels, matrix, kind=kind, conditional=conditional)
    refill = _refill_of_epsilon(shares, epsilon) if epsilon is not None else _refill_of_keep(shares, keep, levels)
    return TransitionMatrix.from_form(levels, Mixture(refill, shares), kind, conditional=conditional)


def _refill_of_keep(shares: Float, keep: object, levels: Sequence[Level]) -> float:
    """λ from the smallest diagonal entry 1 − λ (1 − min π)."""
    floor, rarest = checked_floor(keep), int(np.argmin(shares))
    if floor <= shares[rarest]:
        raise MechanismError(
            f"keep={floor:.6g} must lie above {shares[rarest]:.6g}, the smallest frequency (level {quoted(repr(levels[rarest]))}): there an "
            "invariant mixture says nothing any more. Raise keep"
        )
    return (1 - floor) / (1 - float(shares[rarest]))


def _refill_of_epsilon(shares: Float, epsilon: object) -> float:
    """λ from `e^ε = 1 + (1 − λ) / (λ min π)`."""
    return 1 / (1 + float(shares.min() * np.expm1(checked_epsilon(epsilon))))


def _there_and_back(first: Float, shares: Float) -> Float:
    """`R⁻ R`, where `R⁻[j, i] = R[i, j] π_j / (R π)_i` is Bayes' rule: R takes π to R π, and R⁻ takes it back."""
    back = (first * shares / (first @ shares)[:, None]).T
    matrix = back @ first
    return matrix / matrix.sum(axis=0)


def _given_diagonal(keep: Float, shares: Float, levels: Sequence[Level]) -> Float:
    """Move from each level the mass `(1 − keep) π` that it is to receive.

    The flow from j to i is d_i d_j, the only symmetric one of this form and the most even one. Its margins
    `d_j (S − d_j) = (1 − keep_j) π_j` with S = Σ d leave one unknown, S.
    """
    leaving = (1 - keep) * shares
    total, most = leaving.sum(), int(np.argmax(leaving))
    if total == 0:
        return np.eye(shares.size)
    if leaving[most] > total / 2 * (1 + 1e-12):
        raise MechanismError(
            f"no invariant matrix has this diagonal: level {quoted(repr(levels[most]))} is to move {leaving[most]:.6g} of the records, more than "
            f"half of the {total:.6g} that move in all, so the others cannot fill its place. Use construction='mixture', or raise "
            f"the keep probability of {quoted(repr(levels[most]))}"
        )
    if leaving[most] >= total / 2 * (1 - 1e-13):
        return _star(keep, shares, most)
    return moved_in_proportion(keep, _margin_roots(leaving / total, most))


def _star(keep: Float, shares: Float, centre: int) -> Float:
    """The largest margin is half of the moved mass: every move starts or ends there."""
    matrix = np.diag(keep)
    others = np.arange(keep.size) != centre
    leaving = ((1 - keep) * shares)[others]
    matrix[centre, others] = 1 - keep[others]
    matrix[others, centre] = (1 - keep[centre]) * leaving / leaving.sum()
    return matrix


def _margin_roots(margins: Float, most: int) -> Float:
    """d with `d_j (Σ d − d_j)` equal to the margins, which sum to one and are below 1/2."""
    from scipy.optimize import brentq

    others = np.arange(margins.size) != most

    def small(total: float) -> Float:
        """The smaller root of d² − S d + m = 0, without cancellation."""
        return 2 * margins / (total + np.sqrt(np.maximum(total * total - 4 * margins, 0.0)))

    def gap(total: float) -> float:
        """Σ d − S with the smaller root everywhere."""
        return float(small(total).sum() - total)

    def tilt(total: float) -> float:
        """Σ d − S with the larger root at the largest margin, times S to keep it of order one."""
        roots = small(total)
        return float((roots[others].sum() - roots[most]) * total)

    least = 2 * float(np.sqrt(margins[most]))
    if gap(least) >= 0:
        return small(brentq(gap, least, 2.0, xtol=1e-15, rtol=1e-15))
    total = brentq(tilt, least, 1e8, xtol=1e-15, rtol=1e-15)
    roots = small(total)
    roots[most] = total - roots[most]
    return roots

"""Matrices with structural zeros: moves along an ordinal scale, within blocks, or along a list of allowed moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pramana.arrays import Bool, Float
from pramana.errors import MechanismError, listing, quoted
from pramana.frames import Kind, Level, checked_levels
from pramana.mechanism.channels.checks import (
    Frequencies,
    Keep,
    checked_epsilon,
    checked_floor,
    checked_frequencies,
    checked_keep,
)
from pramana.mechanism.channels.matrix_forms import Banded
from pramana.mechanism.channels.transition import DENSE_LIMIT, TransitionMatrix

WIDE = 256
"""Levels above which a band is held, and described, by its diagonals instead of a square array."""


def restricted(
    levels: Sequence[Level],
    keep: Keep,
    *,
    allowed: npt.ArrayLike | None = None,
    fixed: Sequence[Level] = (),
    frequencies: Frequencies | None = None,
    invariant: bool = False,
    kind: Kind | None = None,
) -> TransitionMatrix:
    """Moves only where they are allowed; every other move has probability exactly 0.

    Parameters
    ----------
    keep : one number, one a level, or a dictionary by level; a level with nowhere to go is always kept.
    allowed : (K, K), true where level j may be released as level i; the diagonal is always allowed.
    fixed : levels such as "not applicable" that never move and to which nothing moves.
    frequencies : moves go to the allowed levels in proportion to these; alike without them.
    invariant : keep the frequencies as well (P π = π). Only moves that are allowed in both directions are then used, and
        `keep` is one number, the smallest diagonal entry among levels that are linked by moves.

    >>> restricted(["a", "b", "n/a"], 0.8, fixed=["n/a"]).matrix
    array([[0.8, 0.2, 0. ],
           [0.2, 0.8, 0. ],
           [0. , 0. , 1. ]])
    """
    levels = checked_levels(levels)
    if len(levels) > DENSE_LIMIT:
        raise MechanismError(
            f"a matrix over {len(levels)} levels is above the limit of {DENSE_LIMIT}: use randomised response, a mixture or a narrow band, "
            "or merge levels"
        )
    mask = _mask(levels, allowed, fixed)
    weights = _weights(levels, frequencies, invariant)
    if invariant:
        matrix = _balanced_flow(checked_floor(keep), weights, mask, levels)
    else:
        matrix = _moved_where_allowed(checked_keep(keep, levels), weights, mask)
    return TransitionMatrix.from_columns(levels, matrix, kind=kind)


def band(
    levels: Sequence[Level],
    keep: Keep,
    *,
    width: int = 1,
    frequencies: Frequencies | None = None,
    invariant: bool = False,
    kind: Kind | None = "ordinal",
) -> TransitionMatrix:
    """Levels of an ordinal scale move at most `width` steps; at the ends, what would leave the scale goes to those inside.

    >>> band(["low", "mid", "high"], 0.8).matrix
    array([[0.8, 0.1, 0. ],
           [0.2, 0.8, 0.2],
           [0. , 0.1, 0.8]])
    """
    levels = checked_levels(levels)
    if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width < len(levels):
        raise MechanismError(
            f"width={width!r} must be a whole number of steps from 1 to {len(levels) - 1}, one less than the {len(levels)} levels"
        )
    if len(levels) > WIDE and width < len(levels) // 4:
        return _long_band(levels, keep, width, frequencies, invariant, kind)
    position = np.arange(len(levels))
    near = np.abs(position[:, None] - position) <= width
    return restricted(levels, keep, allowed=near, frequencies=frequencies, invariant=invariant, kind=kind)


def _long_band(
    levels: tuple[Level, ...],
    keep: Keep,
    width: int,
    frequencies: Frequencies | None,
    invariant: bool,
    kind: Kind | None,
) -> TransitionMatrix:
    """The same by its diagonals: `moves[width + i − j, j]` is the weight of a move from j to i."""
    weights = _weights(levels, frequencies, invariant)
    padded = np.pad(weights, width)
    moves = np.stack([padded[r : r + len(levels)] for r in range(2 * width + 1)])
    moves[width] = 0.0
    leaving = moves.sum(axis=0)
    if invariant:
        out = moves * ((1 - checked_floor(keep)) / leaving.max())
        out[width] = 1 - out.sum(axis=0)
    else:
        kept = checked_keep(keep, levels)
        out = moves * ((1 - kept) / leaving)
        out[width] = kept
    return TransitionMatrix.from_form(levels, Banded(out), kind)


def _weights(levels: Sequence[Level], frequencies: Frequencies | None, invariant: bool) -> Float:
    if invariant and frequencies is None:
        raise MechanismError("an invariant design needs the frequencies that it is to keep: give frequencies")
    return np.ones(len(levels)) if frequencies is None else checked_frequencies(frequencies, levels)


def blocks(
    levels: Sequence[Level],
    groups: Sequence[Sequence[Level]],
    keep: Keep | None = None,
    *,
    epsilon: float | None = None,
    frequencies: Frequencies | None = None,
    invariant: bool = False,
    kind: Kind | None = None,
) -> TransitionMatrix:
    """Levels move only within their block; a level alone in its block never moves.

    Which block a record belongs to is public, so epsilon over all levels is infinite; `epsilon` is the privacy loss within
    each block (see `epsilon_within`).

    >>> P = blocks(["a", "b", "x", "y", "z"], [["a", "b"], ["x", "y", "z"]], epsilon=1.0)
    >>> P.diagonal.round(4)
    array([0.7311, 0.7311, 0.5761, 0.5761, 0.5761])
    """
    levels = checked_levels(levels)
    members = _members(levels, groups)
    if (keep is None) == (epsilon is None):
        raise MechanismError("a block design needs a keep probability or an epsilon, one of the two")
    if epsilon is not None:
        if frequencies is not None or invariant:
            raise MechanismError("a block design with frequencies takes keep, not epsilon: give keep")
        size = np.bincount(members)[members]
        keep = 1 / (1 + (size - 1) * np.exp(-checked_epsilon(epsilon)))
    assert keep is not None
    same = members[:, None] == members
    return restricted(levels, keep, allowed=same, frequencies=frequencies, invariant=invariant, kind=kind)


def _mask(levels: Sequence[Level], allowed: npt.ArrayLike | None, fixed: Sequence[Level]) -> Bool:
    size = len(levels)
    mask = np.ones((size, size), dtype=bool) if allowed is None else np.array(allowed)
    if mask.shape != (size, size) or mask.dtype != bool:
        raise MechanismError(
            f"allowed is an array of {mask.dtype} of shape {mask.shape}: give true and false, {size} × {size}"
        )
    known = set(levels)
    unknown = [level for level in fixed if level not in known]
    if isinstance(fixed, str) or unknown:
        raise MechanismError(f"fixed={fixed!r} must be a list of levels, out of {quoted(listing(levels, 10))}")
    still = np.isin(np.arange(size), [levels.index(level) for level in fixed])
    mask = mask & ~still & ~still[:, None]
    np.fill_diagonal(mask, False)
    return mask


def _moved_where_allowed(keep: Float, weights: Float, mask: Bool) -> Float:
    moves = weights[:, None] * mask
    total = moves.sum(axis=0)
    stuck = total == 0
    keep = np.where(stuck, 1.0, keep)
    matrix = moves * ((1 - keep) / np.where(stuck, 1.0, total))
    np.fill_diagonal(matrix, keep)
    return matrix


def _balanced_flow(keep: float, shares: Float, mask: Bool, levels: Sequence[Level]) -> Float:
    """A flow `t π_i π_j` between any two levels that may move to each other: what leaves a level comes back to it.

    With every move allowed this is the mixture `(1 − λ) I + λ π 1ᵀ`. The factor t is set within each linked group of
    levels, so that the smallest diagonal entry of the group is `keep`.
    """
    both = mask & mask.T
    oneway = np.flatnonzero(mask.any(axis=0) & ~both.any(axis=0))
    if oneway.size:
        raise MechanismError(
            f"level {quoted(repr(levels[oneway[0]]))} may move but nothing that it moves to may move back, so its frequency cannot be kept: "
            "allow the move in both directions, or give up invariance"
        )
    leaving = shares @ both
    matrix = np.eye(shares.size)
    for group in _linked_groups(both):
        if group.size > 1:
            t = (1 - keep) / leaving[group].max()
            matrix[:, group] = t * shares[:, None] * both[:, group]
            matrix[group, group] = 1 - t * leaving[group]
    return matrix


def _linked_groups(mask: Bool) -> list[npt.NDArray[np.intp]]:
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(mask, directed=False)
    return [np.flatnonzero(label == g) for g in range(count)]


def _members(levels: Sequence[Level], groups: Sequence[Sequence[Level]]) -> npt.NDArray[np.int64]:
    """The block of every level."""
    if isinstance(groups, str) or any(isinstance(group, str) for group in groups):
        raise MechanismError(f"blocks {groups!r} must be a list of lists of levels")
    counts = Counter(level for group in groups for level in group)
    known = set(levels)
    unknown = [level for level in counts if level not in known]
    absent = [level for level in levels if level not in counts]
    twice = [level for level, times in counts.items() if times > 1]
    for wrong, what in ((unknown, "are no levels"), (absent, "are in no block"), (twice, "are in several blocks")):
        if wrong:
            raise MechanismError(
                f"{quoted(listing(wrong))} {what}: put each of {quoted(listing(levels, 10))} into one block"
            )
    block = {level: number for number, group in enumerate(groups) for level in group}
    return np.array([block[level] for level in levels])

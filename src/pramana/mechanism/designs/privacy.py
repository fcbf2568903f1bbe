"""Designs for a given epsilon: block designs from cyclic difference sets, and the better of several by total variance.

A cyclic difference set is k residues modulo v whose differences hit every other residue equally often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from pramana.arrays import Float
from pramana.errors import MechanismError, listing
from pramana.frames import Kind, Level, checked_levels
from pramana.mechanism.channels.checks import Frequencies, checked_epsilon, checked_frequencies
from pramana.mechanism.channels.matrix_forms import Mixture
from pramana.mechanism.channels.transition import TransitionMatrix

DIFFERENCE_SET_LIMIT = 256

# Planes and spaces over finite fields (Singer) and fourth powers modulo 37; the tests count the differences of each.
_LISTED: tuple[tuple[int, tuple[int, ...]], ...] = (
    (13, (0, 1, 3, 9)),
    (21, (3, 6, 7, 12, 14)),
    (31, (1, 5, 11, 24, 25, 27)),
    (37, (1, 7, 9, 10, 12, 16, 26, 33, 34)),
    (40, (1, 2, 3, 5, 6, 9, 14, 15, 18, 20, 25, 27, 35)),
    (57, (0, 1, 3, 13, 32, 36, 43, 52)),
    (73, (1, 2, 4, 8, 16, 32, 37, 55, 64)),
    (91, (0, 1, 3, 9, 27, 49, 56, 61, 77, 81)),
)


def difference_sets(modulus: int) -> list[tuple[int, ...]]:
    """The known sets modulo v with 1 < k < v/2, each shifted so that it holds 0; none where none is known here.

    >>> difference_sets(7), difference_sets(8)
    ([(0, 1, 3)], [])
    """
    return list(_known().get(modulus, ()))


def difference_set_sizes() -> tuple[int, ...]:
    """The numbers of levels v for which a set is known here."""
    return tuple(_known())


@cache
def _known() -> dict[int, tuple[tuple[int, ...], ...]]:
    found: dict[int, list[tuple[int, ...]]] = {}
    candidates = [*_LISTED, *_quadratic_residues(), *_twin_primes()]
    for modulus, residues in candidates:
        if 1 < len(residues) < modulus / 2:
            first = min(residues)
            found.setdefault(modulus, []).append(tuple(sorted((r - first) % modulus for r in residues)))
    return {modulus: tuple(sets) for modulus, sets in sorted(found.items())}


def _quadratic_residues() -> list[tuple[int, tuple[int, ...]]]:
    """Non-zero squares modulo a prime v ≡ 3 (mod 4): Paley's (v, (v − 1)/2, (v − 3)/4)."""
    primes = [v for v in range(7, DIFFERENCE_SET_LIMIT) if v % 4 == 3 and _is_prime(v)]
    return [(v, tuple(sorted({x * x % v for x in range(1, v)}))) for v in primes]


def _twin_primes() -> list[tuple[int, tuple[int, ...]]]:
    """Modulo p (p + 2): zero modulo p + 2, or both residues square, or both not."""
    sets = []
    for p in (3, 5, 11):
        q = p + 2
        squares = [{x * x % m for x in range(1, m)} for m in (p, q)]
        members = [
            x
            for x in range(p * q)
            if x % q == 0 or (x % p and x % q and (x % p in squares[0]) == (x % q in squares[1]))
        ]
        sets.append((p * q, tuple(members)))
    return sets


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


@dataclass(frozen=True)
class Choice:
    """The better of several designs, and the total variance of each (None: no such design of this size is known)."""

    transition: TransitionMatrix
    design: str
    variances: Mapping[str, float | None]
    message: str


def total_variance(transition: TransitionMatrix, frequencies: Frequencies | None = None) -> float:
    """Trace of the covariance of the estimated frequencies, for one record (divide by n for n of them).

    The estimator of π is the mean of `Q e(z*)`, e being the indicator of the released level: with r = P π the trace is
    `Σ_i r_i |Q[:, i]|² − |π|²`. It holds the sampling of records as well as the randomisation.

    Parameters
    ----------
    frequencies : π; uniform without them.

    >>> levels = list(range(7))
    >>> round(total_variance(TransitionMatrix.from_epsilon(levels, 0.1))), round(total_variance(block_design(levels, 0.1)))
    (3912, 2074)
    """
    size = len(transition)
    shares = np.full(size, 1 / size) if frequencies is None else checked_frequencies(frequencies, transition.levels)
    squares, released = _squared_columns(transition), transition.form.moved(shares)
    return float(released @ squares - shares @ shares)


def _squared_columns(transition: TransitionMatrix) -> Float:
    """Squared lengths of the columns of Q, in O(K) for a mixture."""
    form = transition.form
    if not isinstance(form, Mixture):
        return np.square(transition.inverse).sum(axis=0)
    moved = form.refill * form.frequencies
    return (1 - 2 * moved + moved @ moved) / (1 - form.refill) ** 2


def block_design(
    levels: Sequence[Level], epsilon: float, *, size: int | None = None, kind: Kind | None = None
) -> TransitionMatrix:
    """Each level is released as one of k levels with e^ε times the probability of the others, the k levels of any two
    levels having equally many in common. Better than randomised response (k = 1) where ε is small.

    Parameters
    ----------
    size : k, where several are known; the one with the smallest total variance without it.

    >>> (7 * block_design(list("abcdefg"), np.log(2)).matrix[:, 0]).round(2)
    array([1.4, 1.4, 0.7, 1.4, 0.7, 0.7, 0.7])
    """
    levels = checked_levels(levels)
    loss = checked_epsilon(epsilon)
    known = [s for s in difference_sets(len(levels)) if size is None or len(s) == size]
    if not known:
        raise MechanismError(_no_design(len(levels), size))
    best = min(known, key=lambda s: _design_variance(len(levels), len(s), loss))
    return TransitionMatrix.from_columns(levels, _incidence_matrix(len(levels), best, loss), kind=kind)


def _no_design(count: int, size: int | None) -> str:
    sizes = sorted({len(s) for s in difference_sets(count)})
    if sizes:
        return f"no block design of {count} levels with blocks of {size} is known here: the sizes of blocks are {listing(sizes)}"
    return (
        f"no block design of {count} levels is known here: the numbers of levels are {listing(difference_set_sizes(), 50)}. Use "
        "TransitionMatrix.from_epsilon, merge or split levels, or let best_for_epsilon choose"
    )


def _incidence_matrix(count: int, residues: tuple[int, ...], epsilon: float) -> Float:
    """`P[i, j]` is high where i − j is in the difference set; columns sum to 1."""
    position = np.arange(count)
    likely = np.isin((position[:, None] - position) % count, residues)
    low = 1 / (len(residues) * np.exp(epsilon) + count - len(residues))
    return np.where(likely, low * np.exp(epsilon), low)


def _design_variance(count: int, size: int, epsilon: float) -> float:
    """Total variance at uniform frequencies: `(v − 1) / (v b² (k − λ))`, b being the gap between the two entries of P."""
    gap = np.expm1(epsilon) / (size * np.exp(epsilon) + count - size)
    return float((count - 1) ** 2 / (count * gap**2 * size * (count - size)))


def best_for_epsilon(levels: Sequence[Level], epsilon: float, *, kind: Kind | None = None) -> Choice:
    """Randomised response or a block design, whichever has the smaller total variance at uniform frequencies.

    >>> choice = best_for_epsilon(list("abcdefg"), 0.1)
    >>> choice.design, {name: round(v) for name, v in choice.variances.items()}
    ('block design', {'randomized response': 3912, 'block design': 2074})
    """
    levels = checked_levels(levels)
    response = TransitionMatrix.from_epsilon(levels, checked_epsilon(epsilon), kind=kind)
    plain = total_variance(response)
    if not difference_sets(len(levels)):
        variances = {"randomized response": plain, "block design": None}
        return Choice(response, "randomized response", variances, _no_design(len(levels), None))
    block = block_design(levels, epsilon, kind=kind)
    balanced = total_variance(block)
    variances = {"randomized response": plain, "block design": balanced}
    name, chosen = ("block design", block) if balanced < plain else ("randomized response", response)
    ratio = max(plain, balanced) / min(plain, balanced)
    message = f"{name}: the other design has {ratio:.2f} times its total variance at epsilon {epsilon:.4g}"
    return Choice(chosen, name, variances, message)


def epsilon_within(transition: TransitionMatrix) -> float:
    """Privacy loss among the true levels that a released level leaves possible.

    Equal to `transition.epsilon` without structural zeros, where that is finite; with them the loss of what remains
    secret, for instance the level within a block.

    >>> from pramana.mechanism.designs import blocks
    >>> P = blocks(["a", "b", "n/a"], [["a", "b"], ["n/a"]], epsilon=1.0)
    >>> P.epsilon, round(epsilon_within(P), 6)
    (inf, 1.0)
    """
    return transition.form.epsilon_within

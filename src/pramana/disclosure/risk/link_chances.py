"""Re-identification through key variables: who can be linked to a released record, before and after.

An attacker knows a person's true keys. In the released file the clear keys must match exactly; among the records that
remain, the attacker takes the one whose released keys are likeliest given the true ones, `Π P[z*, z]`, and guesses among
equals. The chance of a correct link is exact in expectation over the draws: with `h` and `e` the chances that another
record scores higher and equal, it is `E{1 / (1 + equals); none higher} = ∫₀¹ Π (1 − h − e + e t) dt`.

An attacker who also knows how often each value is released divides the likelihood by that share. This is Bayes' rule for
someone who knows nothing else about the others, and links more where rare values are seldom kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float, Int
from pramana.progress import Tell, silent

TINY = 1e-300
NEGLIGIBLE = -37.0
"""Logarithm of a chance below rounding, 1e-16."""
ENTRIES = 2_000_000
"""Counts of single records that are looked at in one go."""


@dataclass(frozen=True)
class QuadratureRule:
    """Nodes and weights by which a function is integrated over [0, 1]."""

    nodes: Float
    weights: Float


def rule_for(size: int) -> QuadratureRule:
    """Exact for products of up to 31 factors; beyond, panels that narrow towards 1, where a long product lives."""
    points, weights = np.polynomial.legendre.leggauss(16)
    points, weights = (points + 1) / 2, weights / 2
    if size <= 32:
        return QuadratureRule(points, weights)
    edges = np.append(1 - 0.5 ** np.arange(np.ceil(np.log2(size)) + 4), 1.0)
    width = np.diff(edges)
    return QuadratureRule((edges[:-1, None] + width[:, None] * points).ravel(), (width[:, None] * weights).ravel())


def score_groups(likelihood: Float) -> Int:
    """Released combinations with equal likelihood share a group (R,); group 0 scores highest.

    Products of the same factors in another order differ in their last digit, so equality is up to rounding.
    """
    with np.errstate(divide="ignore"):
        scores = np.round(np.log(likelihood), 9)
    return np.unique(-scores, return_inverse=True)[1].ravel()


def _banded(counts: Float) -> Iterator[tuple[Int, QuadratureRule]]:
    """Small classes need few nodes, and there are many of them."""
    sizes = counts.sum(axis=1)
    small = sizes <= 32
    for chosen in (small, ~small):
        rows = np.flatnonzero(chosen)
        if rows.size:
            yield rows, rule_for(int(sizes[rows].max()))


def expected_links(matrix: Float, counts: Float, scores: Float | None = None, tell: Tell = silent) -> Float:
    """Chance (C, R) that a person with true keys z in clear class c is linked correctly.

    Parameters
    ----------
    matrix : P over combinations of the perturbed keys (R, R).
    counts : records of each true combination in each clear class (C, R); cells without records stay 0.
    scores : what the attacker ranks released combinations by, for each true one (R, R); the likelihood, P, without it.
    """
    out, ranked = np.zeros_like(counts), matrix if scores is None else scores
    work = [(rows, rule, z) for rows, rule in _banded(counts) for z in np.flatnonzero(counts[rows].any(axis=0))]
    for done, (rows, rule, z) in enumerate(work):
        tell(done, len(work))
        here = rows[counts[rows, z] > 0]
        out[here, z] = _links_of(matrix, ranked[:, z], counts[here], int(z), rule)
    return out


def likelihood_ratios(matrix: Float, counts: Float) -> Float:
    """`P[r, z]` over the expected share of r, from the records of each true combination (R,): a rare value that fits says more than a common
    one (R, R)."""
    released = matrix @ (counts / counts.sum())
    return np.divide(matrix, released[:, None], out=np.zeros_like(matrix), where=released[:, None] > 0)


def _links_of(matrix: Float, scores: Float, counts: Float, z: int, rule: QuadratureRule) -> Float:
    groups = score_groups(scores)
    present = np.flatnonzero(counts.any(axis=0))
    equal = np.zeros((groups.max() + 1, present.size))
    np.add.at(equal, groups, matrix[:, present])
    higher = np.cumsum(equal, axis=0) - equal
    own = np.zeros(groups.max() + 1)
    np.add.at(own, groups, matrix[:, z])
    total, place = np.zeros(len(counts)), int(np.searchsorted(present, z))
    for s in np.flatnonzero(own > 0):
        none_higher = np.log(np.maximum(1 - higher[s], TINY))
        if np.max(counts[:, present] @ none_higher - none_higher[place]) < NEGLIGIBLE:
            break  # from here on, somebody else scores higher for certain
        lower = np.clip(1 - higher[s] - equal[s], 0.0, 1.0)
        total += own[s] * _integral(lower, equal[s], counts[:, present], place, rule)
    return total


def _integral(lower: Float, equal: Float, counts: Float, own: int, rule: QuadratureRule) -> Float:
    """∫ Π_g (lower_g + equal_g t)^{n_g}, with the person's own record left out of the product (C,)."""
    logs = np.log(np.maximum(lower[:, None] + equal[:, None] * rule.nodes, TINY))
    return np.exp(np.minimum(counts @ logs - logs[own], 0.0)) @ rule.weights


def expected_exact_links(matrix: Float, counts: Float) -> Float:
    """The same chance (C, R) for an attacker who ignores P and looks for the true keys as they are."""
    out = np.zeros_like(counts)
    for rows, rule in _banded(counts):
        for z in np.flatnonzero(counts[rows].any(axis=0)):
            here = rows[counts[rows, z] > 0]
            out[here, z] = matrix[z, z] * _integral(1 - matrix[z], matrix[z], counts[here], int(z), rule)
    return out


def survival(matrix: Float, counts: Float) -> Float:
    """Chance (C, R) that a record unique on its true keys keeps them and nobody else gets them; 0 elsewhere."""
    stay = np.log(np.maximum(1 - matrix, TINY))
    alone = counts @ stay.T - np.diag(stay)
    return np.where(counts == 1, np.diag(matrix) * np.exp(np.minimum(alone, 0.0)), 0.0)


def expected_uniques(matrix: Float, counts: Float) -> float:
    """Expected number of records that are alone with their released keys."""
    stay = np.maximum(1 - matrix, TINY)
    nobody = np.exp(counts @ np.log(stay).T)
    return float(np.sum((counts @ (matrix / stay).T) * nobody))


def realised_links(matrix: Float, counts: Float, clear: Int, true: Int, seen: Int) -> Float:
    """Chance (n,) of a correct link in the file that was released; `counts` are of released combinations (C, R), `clear` the rows of it."""
    out = np.zeros(clear.size)
    size = max(1, ENTRIES // counts.shape[1])
    for z in np.unique(true):
        groups = score_groups(matrix[:, z])
        whole = np.flatnonzero(true == z)
        for rows in np.split(whole, range(size, whole.size, size)):
            held = counts[clear[rows]]
            best = np.where(held > 0, groups, groups.max() + 1).min(axis=1)
            ties = np.sum(np.where(groups == best[:, None], held, 0.0), axis=1)
            out[rows] = np.where(groups[seen[rows]] == best, 1 / ties, 0.0)
    return out

"""Privacy constraints on a transition matrix, as a designer states them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError

HALVINGS = 60
"""Of an interval in which a member of a family is sought."""


class Limit(Protocol):
    """A bound on what P may reveal."""

    @property
    def label(self) -> str: ...
    @property
    def bound(self) -> float: ...

    def value(self, matrix: Float) -> float:
        """What P reveals; allowed up to `bound`."""

    def linear(self, size: int) -> Float | None:
        """Rows A with A · (P flattened, smallest entries of its rows) ≥ 0, or None where there is no such form."""


def allowed(limit: Limit, matrix: Float) -> bool:
    return limit.value(matrix) <= limit.bound


@dataclass(frozen=True)
class EpsilonLimit:
    """Largest log ratio of two entries in a row."""

    bound: float
    label: str = "epsilon"

    def value(self, matrix: Float) -> float:
        smallest = matrix.min(axis=1)
        if np.any(smallest <= 0):
            return float("inf")
        return float(np.log(matrix.max(axis=1) / smallest).max())

    def linear(self, size: int) -> Float:
        """`m_i ≤ P[i, j] ≤ e^ε m_i`: 2 K² rows instead of the K³ that compare every pair."""
        entries, smallest = np.eye(size * size), np.repeat(np.eye(size), size, axis=0)
        above = np.hstack([entries, -smallest])
        below = np.hstack([-entries, np.exp(self.bound) * smallest])
        return np.vstack([above, below])


@dataclass(frozen=True)
class OddsLimit:
    """Largest posterior odds of any true level against the others, given any released level."""

    bound: float
    prior: Float
    label: str = "posterior odds"

    def __post_init__(self) -> None:
        highest = float(self.prior.max() / (1 - self.prior.max())) if self.prior.max() < 1 else np.inf
        if self.bound <= highest:
            raise PramanaError(
                f"odds={self.bound:g} is below the odds {highest:.4g} of the most frequent level before any release: no design can reach "
                f"it; ask for more than {highest:.4g}"
            )

    def value(self, matrix: Float) -> float:
        joint = matrix * self.prior
        others = joint.sum(axis=1, keepdims=True) - joint
        possible = joint > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.max(np.where(possible, joint / np.maximum(others, 0.0), 0.0)))

    def linear(self, size: int) -> Float:
        """`B Σ_{k ≠ j} P[i, k] π_k ≥ P[i, j] π_j` for every i and j."""
        block = (self.bound * (1 - np.eye(size)) - np.eye(size)) * self.prior
        return np.hstack([np.kron(np.eye(size), block), np.zeros((size * size, size))])


@dataclass(frozen=True)
class LinkLimit:
    """Expected re-identification rate through the keys; it has jumps where likelihoods tie, so no solver follows it."""

    bound: float
    rate: Callable[[Float], float]
    label: str = "re-identification"

    def value(self, matrix: Float) -> float:
        return self.rate(matrix)

    def linear(self, size: int) -> None:  # noqa: ARG002
        return None


def closest(limit: Limit, member: Callable[[float], Float]) -> Float | None:
    """The least perturbed member of a family that the limit allows; `member(0)` tells nothing, `member(1)` the most."""
    if allowed(limit, member(1.0)):
        return member(1.0)
    low, high = 1e-6, 1.0
    if not allowed(limit, member(low)):
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(limit, member(middle)) else (low, middle)
    return member(low)


def pulled_inside(limit: Limit, matrix: Float) -> Float | None:
    """The matrix mixed with as little uniform noise as the limit needs; None when only noise would do."""
    matrix = np.clip(matrix, 0.0, None)
    matrix = matrix / matrix.sum(axis=0)
    noise = np.full_like(matrix, 1 / len(matrix))
    return closest(limit, lambda t: t * matrix + (1 - t) * noise)

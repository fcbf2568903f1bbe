"""Candidate designs: the K-ary family, block designs, and local optima of a constrained solver."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.disclosure.limits import Limit, LinkLimit, allowed, closest, pulled_inside
from pramana.disclosure.variance_of_design import DesignVariance
from pramana.errors import PramanaError
from pramana.mechanism.designs.difference_sets import difference_sets

SOLVER_LIMIT = 10
"""Most levels for which a general matrix is searched: K² + K unknowns."""
CONDITION_LIMIT = 1e7
"""Well below the limit of a transition matrix, so that rounding cannot carry a found matrix across it."""
TIE = 1e-6
"""A general matrix must beat the named designs by this share of their variance, or the simpler one is taken."""
NEGLIGIBLE = 1e-9
"""Entries below this are the solver's rounding of a bound."""
STRONGEST = 30.0
"""Epsilon of the least perturbed block design considered."""


@dataclass(frozen=True)
class Candidate:
    """A design that the limit allows."""

    design: str
    matrix: Float = field(repr=False)
    variance: float
    value: float


@dataclass(frozen=True)
class Search:
    """All candidates, simplest first, and how the solver fared."""

    baseline: Candidate
    candidates: tuple[Candidate, ...]
    starts: int
    spread: tuple[float, float] | None
    note: str

    @property
    def best(self) -> Candidate:
        """The simplest one within rounding of the smallest variance."""
        smallest = min(c.variance for c in self.candidates)
        return next(c for c in self.candidates if c.variance <= smallest * (1 + TIE))


def search(objective: DesignVariance, limit: Limit, *, starts: int, floor: float, seed: int) -> Search:
    """Every candidate of the size asked for."""
    size = objective.size
    most = 1 - size * floor
    response = closest(limit, lambda t: response_matrix(size, t * most))
    if response is None:
        least = limit.value(response_matrix(size, 1e-6))
        raise PramanaError(
            f"no randomised response of {size} levels has {limit.label} at most {limit.bound:.4g}: the least possible is {least:.4g}"
        )
    baseline = _candidate("randomized response", response, objective, limit)
    blocks = [
        _candidate("block design", matrix, objective, limit)
        for matrix in _block_matrices(size, limit)
        if matrix.min() >= floor
    ]
    named = [baseline, *sorted(blocks, key=lambda c: c.variance)[:1]]
    note = _note(limit, size, starts)
    if note is not None:
        return Search(baseline, tuple(named), 0, None, note)
    ends = [
        _candidate("local optimum", matrix, objective, limit)
        for matrix in _local_optima(objective, limit, [c.matrix for c in named], starts, floor, seed)
    ]
    if not ends:
        return Search(
            baseline, tuple(named), starts, None, f"none of the solver's {starts} starts gave a usable matrix"
        )
    values = [c.variance for c in ends]
    note = (
        f"the problem is not convex: a local optimum, the best of {starts} starts, which ended between {min(values):.6g} and "
        f"{max(values):.6g}"
    )
    best = min(ends, key=lambda c: c.variance)
    return Search(baseline, (*named, best), starts, (min(values), max(values)), note)


def _note(limit: Limit, size: int, starts: int) -> str | None:
    """Why no general matrix is searched, or None."""
    if isinstance(limit, LinkLimit):
        return "the re-identification rate has jumps, so only the named families were searched"
    if size > SOLVER_LIMIT:
        return f"{size} levels are above the limit of {SOLVER_LIMIT} for a general matrix: only the named families were searched"
    return "no solver was run: only the named families were searched" if starts == 0 else None


def response_matrix(size: int, t: float) -> Float:
    """Randomised response between pure noise (t = 0) and the truth (t = 1)."""
    return t * np.eye(size) + (1 - t) / size


def pattern_matrix(size: int, residues: tuple[int, ...], epsilon: float) -> Float:
    """Released levels at certain distances from the true one are e^ε times as likely as the others."""
    position = np.arange(size)
    likely = np.isin((position[:, None] - position) % size, residues)
    low = 1 / (len(residues) * np.exp(epsilon) + size - len(residues))
    return np.where(likely, low * np.exp(epsilon), low)


def _block_matrices(size: int, limit: Limit) -> Iterator[Float]:
    """The least perturbed member of every known block design."""
    for residues in difference_sets(size):
        if 1 < len(residues) < size:
            made = closest(limit, lambda t, r=residues: pattern_matrix(size, r, t * STRONGEST))  # type: ignore[misc]
            if made is not None:
                yield made


def _candidate(name: str, matrix: Float, objective: DesignVariance, limit: Limit) -> Candidate:
    return Candidate(name, matrix, objective.value(matrix), limit.value(matrix))


def _local_optima(
    objective: DesignVariance, limit: Limit, named: list[Float], starts: int, floor: float, seed: int
) -> Iterator[Float]:
    for start in _starting_points(objective.size, limit, named, starts, seed):
        end = _solve(objective, limit, start, floor)
        inside = None if end is None else pulled_inside(limit, np.where(end < NEGLIGIBLE, floor, end))
        if inside is not None and _usable(inside, objective, limit, floor):
            yield _aligned(inside)


def _usable(matrix: Float, objective: DesignVariance, limit: Limit, floor: float) -> bool:
    inside = matrix.min() >= floor * (1 - 1e-9) and allowed(limit, matrix)
    return bool(inside and np.isfinite(objective.value(matrix)) and np.linalg.cond(matrix) < CONDITION_LIMIT)


def _starting_points(size: int, limit: Limit, named: list[Float], starts: int, seed: int) -> Iterator[Float]:
    """The named designs, then random patterns with a little noise, all inside the limit."""
    rng = np.random.default_rng(seed)
    yield from named[:starts]
    for _ in range(max(starts - len(named), 0)):
        count = int(rng.integers(1, max(size // 2, 1) + 1))
        residues = tuple(rng.choice(size, count, replace=False).tolist())
        noisy = 0.8 * pattern_matrix(size, residues, 2.0) + 0.2 * rng.dirichlet(np.ones(size), size).T
        inside = pulled_inside(limit, noisy)
        if inside is not None:
            yield inside


def _solve(objective: DesignVariance, limit: Limit, start: Float, floor: float) -> Float | None:
    """SLSQP on the logarithm of the variance; unknowns are P and the smallest entry of each of its rows."""
    from scipy.optimize import minimize

    size = objective.size
    rows = limit.linear(size)
    sums = np.hstack([np.tile(np.eye(size), (1, size)), np.zeros((size, size))])
    constraints: Any = [
        {"type": "eq", "fun": lambda x: sums @ x - 1, "jac": lambda _x: sums},
        {"type": "ineq", "fun": lambda x: rows @ x, "jac": lambda _x: rows},
    ]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = minimize(
            _log_variance,
            np.concatenate([start.ravel(), start.min(axis=1)]),
            args=(objective,),
            jac=_log_variance_slope,
            method="SLSQP",
            bounds=[(floor, 1.0)] * (size * size + size),
            constraints=constraints,
            options={"maxiter": 200, "ftol": 1e-10},
        )
    matrix = np.asarray(found.x[: size * size], dtype=float).reshape(size, size)
    return matrix if np.all(np.isfinite(matrix)) and np.all(matrix.sum(axis=0) > 0) else None


def _log_variance(x: Float, objective: DesignVariance) -> float:
    found = objective.value(x[: objective.size**2].reshape(objective.size, -1))
    return float(np.log(found)) if 0 < found < np.inf else 1e3


def _log_variance_slope(x: Float, objective: DesignVariance) -> Float:
    matrix = x[: objective.size**2].reshape(objective.size, -1)
    found = objective.value(matrix)
    scaled = objective.gradient(matrix) / found if 0 < found < np.inf else np.zeros_like(matrix)
    return np.concatenate([scaled.ravel(), np.zeros(objective.size)])


def _aligned(matrix: Float) -> Float:
    """Released levels may be renamed at no cost: name them so that as many records as possible keep their level."""
    from scipy.optimize import linear_sum_assignment

    released, true = linear_sum_assignment(matrix, maximize=True)
    out = np.empty_like(matrix)
    out[true] = matrix[released]
    return out

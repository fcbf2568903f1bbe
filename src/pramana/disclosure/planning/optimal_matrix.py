"""`optimal_design`: the transition matrix that costs the analysts least under a privacy constraint."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pramana.analysis.question import questions, several
from pramana.arrays import Float
from pramana.disclosure.planning.keep_probability import CHOSEN
from pramana.disclosure.planning.limits import (
    EpsilonLimit,
    Limit,
    LinkLimit,
    OddsLimit,
    allowed,
    closest,
    pulled_inside,
)
from pramana.disclosure.planning.variance import DesignVariance, design_variance
from pramana.disclosure.risk.reidentification import link
from pramana.disclosure.true_records import Counted, Gaps, levels_of, read_confidential
from pramana.disclosure.utility.expected_variance import PILOT_LIMIT, Pilot, pilot_of
from pramana.errors import PramanaError, confidential
from pramana.estimating import Family
from pramana.frames import Kind, Level, Table, encode
from pramana.frames.levels import is_number
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.mechanism.channel import CONDITIONS
from pramana.mechanism.designs.privacy import difference_sets
from pramana.render import Report, Sheet

STARTS, STARTS_OF_MANY = 24, 8
"""Runs of the solver unless a number is given: with up to `FEW` levels (under a second for three), and with more."""
FEW = 6
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
class MatrixSearch:
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


def _search(objective: DesignVariance, limit: Limit, *, starts: int, floor: float, seed: int) -> MatrixSearch:
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
        return MatrixSearch(baseline, tuple(named), 0, None, note)
    ends = [
        _candidate("local optimum", matrix, objective, limit)
        for matrix in _local_optima(objective, limit, [c.matrix for c in named], starts, floor, seed)
    ]
    if not ends:
        return MatrixSearch(
            baseline, tuple(named), starts, None, f"none of the solver's {starts} starts gave a usable matrix"
        )
    values = [c.variance for c in ends]
    note = (
        f"the problem is not convex: a local optimum, the best of {starts} starts, which ended between {min(values):.6g} and "
        f"{max(values):.6g}"
    )
    best = min(ends, key=lambda c: c.variance)
    return MatrixSearch(baseline, (*named, best), starts, (min(values), max(values)), note)


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
    """The named designs, then random matrices of several kinds, all inside the limit.

    No kind leads to the best optimum always: it was reached from 4 to 56 % of the first kind, and 28 to 56 % of the others.
    """
    rng = np.random.default_rng(seed)
    yield from named[:starts]
    for k in range(max(starts - len(named), 0)):
        inside = pulled_inside(limit, (_pattern, _sparse, _kept)[k % 3](size, rng))
        if inside is not None:
            yield inside


def _pattern(size: int, rng: np.random.Generator) -> Float:
    """A block design, or one like it, with a little noise."""
    count = int(rng.integers(1, max(size // 2, 1) + 1))
    residues = tuple(rng.choice(size, count, replace=False).tolist())
    return np.asarray(0.8 * pattern_matrix(size, residues, 2.0) + 0.2 * rng.dirichlet(np.ones(size), size).T)


def _sparse(size: int, rng: np.random.Generator) -> Float:
    """Columns in which few entries stand out."""
    return rng.dirichlet(np.full(size, 0.5), size).T


def _kept(size: int, rng: np.random.Generator) -> Float:
    """Levels that are kept with chances of their own, and sent elsewhere at random."""
    keep = rng.uniform(0, 0.9, size)
    return np.diag(keep) + (1 - keep) * _sparse(size, rng)


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


@dataclass(frozen=True, repr=False)
class OptimalDesign(Report):
    """The best design found, among the K-ary family, block designs and local optima of a solver.

    Attributes
    ----------
    variance : weighted mean over the terms of variance over that from the true data.
    gain : variance of randomised response over that of the design (at least 1).
    starts : solver runs; `spread` is the range of the variances at which they ended, None without any.
    value : what the design reveals, in the terms of the constraint.
    """

    column: str
    analyses: tuple[str, ...]
    transition: TransitionMatrix
    design: str
    variance: float
    baseline: float
    limit: str
    bound: float
    value: float
    candidates: tuple[Candidate, ...]
    starts: int
    spread: tuple[float, float] | None
    note: str

    @property
    def gain(self) -> float:
        return self.baseline / self.variance

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism({self.column: self.transition})

    def to_dict(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "analyses": self.analyses,
            "design": self.design,
            "matrix": self.transition.matrix.tolist(),
            "levels": list(self.transition.levels),
            "epsilon": self.transition.epsilon,
            "conditional": True,
            "variance": self.variance,
            "randomized_response": self.baseline,
            "gain": self.gain,
            "constraint": {"kind": self.limit, "bound": self.bound, "value": self.value},
            "candidates": [{"design": c.design, "variance": c.variance, "value": c.value} for c in self.candidates],
            "starts": self.starts,
            "spread": self.spread,
            "note": self.note,
        }

    def sheets(self) -> tuple[Sheet, ...]:
        facts = (
            ("Column", f"{self.column} ({len(self.transition)} levels)"),
            ("Analyses", "; ".join(self.analyses)),
            ("Constraint", f"{self.limit} at most {self.bound:.4g}; reached {self.value:.6g}"),
            ("Epsilon", f"{self.transition.epsilon:.4g}, {CHOSEN}"),
            ("Best", f"{self.design}; randomised response has {self.gain:.3f} times its variance"),
        )
        rows = [(c.design, c.variance, self.baseline / c.variance, c.value) for c in self.candidates]
        columns = ("design", "variance over clean", "gain", self.limit)
        head = ("released \\ true", *(str(v) for v in self.transition.levels))
        body = [
            (str(v), *map(float, row)) for v, row in zip(self.transition.levels, self.transition.matrix, strict=True)
        ]
        return (
            Sheet(columns, tuple(rows), "Optimal design", facts, (self.note,)),
            Sheet(head, tuple(body), "Transition matrix (columns sum to 1)"),
        )


@confidential
def optimal_design(
    analyses: Any,
    data: Any,
    column: str,
    *,
    family: str | Family | None = None,
    epsilon: float | None = None,
    odds: float | None = None,
    reidentification: float | None = None,
    keys: Sequence[str] | None = None,
    importance: Mapping[str, float] | None = None,
    weights: str | None = None,
    levels: Sequence[Level] | None = None,
    kind: Kind | None = None,
    starts: int | None = None,
    floor: float = 0.0,
    seed: int = 1,
    missing: Gaps = "error",
) -> OptimalDesign:
    """The transition matrix of a column that minimises the analysts' variance (Remark 1) under one privacy constraint.

    The problem is not convex: what comes back is the best of randomised response, block designs and the local optima that a
    solver reached from several starts. It satisfies the constraint and is never worse than randomised response. The matrix is
    chosen by the confidential records, so its epsilon is marked as conditional on them.

    Parameters
    ----------
    analyses : a formula or an estimating function, or several. family : of the formulas; gaussian without it.
    data : a pilot on the custodian's side: true records.
    epsilon : largest privacy loss. Or
    odds : largest posterior odds of any level against the others. Or
    reidentification : largest expected rate of correct links through `keys` (families only: the rate has jumps).
    importance : of the terms; all alike without it. Each term counts by its variance over that from the true data.
    weights : column of sampling weights of the analyses.
    floor : smallest entry of P, below 1/K; above 0 it keeps epsilon finite.
    starts : runs of the solver, with `seed` for their starting points; 24 without it, and 8 where there are more than 6 levels.

    >>> import pramana as pr
    >>> best = pr.optimal_design(pr.proportions("z"), {"z": list("abcdefg") * 10}, "z", epsilon=0.1, starts=2)
    >>> best.design, best.gain > 1.8
    ('block design', True)
    """
    plans = questions(analyses, family)
    if not plans:
        raise PramanaError("an optimal design needs at least one analysis: give a formula or an estimating function")
    names = several(keys)
    used = [column, *names, *(v for p in plans for v in p.variables), *several(weights)]
    table, _ = read_confidential(data, None, used, missing, Gaps)
    listed = tuple(levels) if levels is not None else levels_of(table, column)
    if len(listed) ** 3 > PILOT_LIMIT:
        most = int(PILOT_LIMIT ** (1 / 3))
        raise PramanaError(
            f"{column!r} has {len(listed)} levels; an optimal design weighs at most {most}: merge levels"
        )
    base = Mechanism({column: TransitionMatrix.randomized_response(listed, 1.0, kind=kind)})
    pilots = [pilot_of(p, table, base, weights) for p in plans]
    _refuse_unused(pilots, column)
    limit = _limit(epsilon, odds, reidentification, _Column(column, listed, kind, table, names))
    if not (is_number(floor) and 0 <= floor < 1 / len(listed)):
        raise PramanaError(f"floor={floor!r} must be at least 0 and below 1/K = {1 / len(listed):.4g}")
    starts = (STARTS if len(listed) <= FEW else STARTS_OF_MANY) if starts is None else starts
    if not (isinstance(starts, int) and starts >= 0):
        raise PramanaError(f"starts={starts!r} must be a whole number of at least 0")
    found = _search(design_variance(pilots, importance), limit, starts=starts, floor=float(floor), seed=seed)
    return _design(found, limit, column, tuple(p.label for p in pilots), listed, kind)


def _refuse_unused(pilots: Sequence[Pilot], column: str) -> None:
    unused = [p.label for p in pilots if not p.columns]
    if unused:
        raise PramanaError(
            f"the analysis {unused[0]!r} does not use column {column!r}: no design of it changes its variance"
        )


@dataclass(frozen=True)
class _Column:
    name: str
    levels: tuple[Level, ...]
    kind: Kind | None
    table: Table
    keys: Sequence[str]

    def rate(self, matrix: Float) -> float:
        made = TransitionMatrix.from_columns(self.levels, matrix, kind=self.kind)
        return link(Counted.of(self.table), Mechanism({self.name: made}), self.keys).worst_mean

    def prior(self) -> Float:
        codes = encode(self.table.column(self.name), self.levels, column=self.name)
        return np.bincount(codes, minlength=len(self.levels)) / codes.size


def _limit(epsilon: Any, odds: Any, reidentification: Any, column: _Column) -> Limit:
    given = {"epsilon": epsilon, "odds": odds, "reidentification": reidentification}
    stated = {k: v for k, v in given.items() if v is not None}
    if len(stated) != 1:
        raise PramanaError(f"give one privacy constraint out of epsilon, odds and reidentification, not {len(stated)}")
    name, bound = next(iter(stated.items()))
    if not (is_number(bound) and 0 < bound < 700):
        raise PramanaError(f"{name}={bound!r} must be a positive number below 700")
    if name == "epsilon":
        return EpsilonLimit(float(bound))
    if name == "odds":
        return OddsLimit(float(bound), column.prior())
    if column.name not in column.keys:
        raise PramanaError(
            f"reidentification needs keys among which is {column.name!r}: otherwise its design does not change the rate"
        )
    return LinkLimit(float(bound), column.rate)


def _design(
    found: MatrixSearch,
    limit: Limit,
    column: str,
    labels: tuple[str, ...],
    levels: tuple[Level, ...],
    kind: Kind | None,
) -> OptimalDesign:
    best = found.best
    return OptimalDesign(
        column,
        labels,
        # Chosen by the confidential records, so that the matrix itself tells of them.
        TransitionMatrix.from_columns(levels, best.matrix, kind=kind, conditional=tuple(CONDITIONS)),
        best.design,
        best.variance,
        found.baseline.variance,
        limit.label,
        limit.bound,
        best.value,
        found.candidates,
        found.starts,
        found.spread,
        found.note,
    )

"""`optimal_design`: the transition matrix that costs the analysts least under a privacy constraint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.disclosure.assessment import several
from pramana.disclosure.confidential import Missing, levels_of, read_confidential
from pramana.disclosure.keys import link
from pramana.disclosure.limits import EpsilonLimit, Limit, LinkLimit, OddsLimit
from pramana.disclosure.pilot import Pilot, pilot_of, plan_of
from pramana.disclosure.reporting import Report
from pramana.disclosure.searching import Candidate, Search, search
from pramana.disclosure.variance_of_design import design_variance
from pramana.errors import PramanaError
from pramana.frames import Kind, Level, Table
from pramana.frames.levels import is_number
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.render import Sheet


@dataclass(frozen=True)
class OptimalDesign(Report):
    """The best design found, among the K-ary family, block designs and local optima of a solver.

    Attributes
    ----------
    variance : weighted mean over the terms of variance over the oracle's variance.
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


def optimal_design(
    analyses: Any,
    data: Any,
    column: str,
    *,
    epsilon: float | None = None,
    odds: float | None = None,
    reidentification: float | None = None,
    keys: Sequence[str] | None = None,
    importance: Mapping[str, float] | None = None,
    weights: str | None = None,
    levels: Sequence[Level] | None = None,
    kind: Kind | None = None,
    starts: int = 8,
    floor: float = 0.0,
    seed: int = 1,
    missing: Missing = "error",
) -> OptimalDesign:
    """The transition matrix of a column that minimises the analysts' variance (Remark 1) under one privacy constraint.

    The problem is not convex: what comes back is the best of randomised response, block designs and the local optima that a
    solver reached from several starts. It satisfies the constraint and is never worse than randomised response.

    Parameters
    ----------
    analyses : a formula or an estimating function, or several.
    data : a pilot on the custodian's side: true records.
    epsilon : largest privacy loss. Or
    odds : largest posterior odds of any level against the others. Or
    reidentification : largest expected rate of correct links through `keys` (families only: the rate has jumps).
    importance : of the terms; all alike without it. Each term counts by its variance over the oracle's.
    weights : column of sampling weights of the analyses.
    floor : smallest entry of P.
    starts : runs of the solver, with `seed` for their starting points.

    >>> import pramana as pr
    >>> best = pr.optimal_design(pr.proportions("z"), {"z": list("abcdefg") * 10}, "z", epsilon=0.1, starts=2)
    >>> best.design, best.gain > 1.8
    ('block design', True)
    """
    plans = [plan_of(a) for a in several(analyses)]
    if not plans:
        raise PramanaError("an optimal design needs at least one analysis: give a formula or an estimating function")
    names = several(keys)
    used = [column, *names, *(v for p in plans for v in p.variables), *several(weights)]
    table, _ = read_confidential(data, None, used, missing)
    listed = tuple(levels) if levels is not None else levels_of(table, column)
    base = Mechanism({column: TransitionMatrix.randomized_response(listed, 1.0, kind=kind)})
    pilots = [pilot_of(p, table, base, weights) for p in plans]
    _refuse_unused(pilots, column)
    limit = _limit(epsilon, odds, reidentification, _Column(column, listed, kind, table, names))
    if not (is_number(floor) and 0 <= floor < 1 / len(listed)):
        raise PramanaError(f"floor={floor!r} must be at least 0 and below 1/K = {1 / len(listed):.4g}")
    if not (isinstance(starts, int) and starts >= 0):
        raise PramanaError(f"starts={starts!r} must be a whole number of at least 0")
    found = search(design_variance(pilots, importance), limit, starts=starts, floor=float(floor), seed=seed)
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
        return link(self.table, Mechanism({self.name: made}), self.keys).worst_mean

    def prior(self) -> Float:
        values = self.table.column(self.name).tolist()
        return np.array([values.count(level) for level in self.levels]) / len(values)


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
    found: Search, limit: Limit, column: str, labels: tuple[str, ...], levels: tuple[Level, ...], kind: Kind | None
) -> OptimalDesign:
    best = found.best
    return OptimalDesign(
        column,
        labels,
        TransitionMatrix.from_columns(levels, best.matrix, kind=kind),
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

"""A sensitivity analysis: what an estimate would be for every P within bounds, where no study says more than those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pramana.analysis.task import bytes_of
from pramana.arrays import Float
from pramana.errors import PramanaError, SolveError, released, suggestion
from pramana.frames import FrameKind, build
from pramana.frames.levels import is_number
from pramana.frames.sources import kept
from pramana.mechanism import Mechanism
from pramana.pipeline import fit
from pramana.render import Sheet, Shown, plain, render
from pramana.result import Result

FITS = 2000
"""Largest number of fits in one analysis."""

Make = Callable[..., Mechanism]
"""Values by name ↦ mechanism."""


@dataclass(frozen=True, repr=False)
class Band(Shown):
    """Estimates and intervals over a grid of transition matrices.

    Attributes
    ----------
    names : what was varied (r). grid : its values (G, r).
    parameters : terms (d). estimate : (G, d). limits : (G, d, 2), of intervals at `level`. All NaN where a matrix leaves no root.
    """

    names: tuple[str, ...]
    grid: Float
    parameters: tuple[str, ...]
    estimate: Float
    limits: Float
    level: float
    frame_kind: FrameKind = "pandas"

    @property
    def rootless(self) -> int:
        """Points of the grid without a root."""
        return int(np.isnan(self.estimate).any(axis=1).sum())

    def to_dicts(self) -> list[dict[str, Any]]:
        """For each term the smallest and largest estimate, and the smallest and largest limit of an interval."""
        parts = (self.estimate.T, self.estimate.T, self.limits[:, :, 0].T, self.limits[:, :, 1].T)
        ends = (np.nanmin, np.nanmax, np.nanmin, np.nanmax)
        found = [end(part, axis=1) for end, part in zip(ends, parts, strict=True)]
        columns = ("term", "estimate_low", "estimate_high", "conf_low", "conf_high")
        return [
            dict(zip(columns, (t, *map(float, v)), strict=True)) for t, *v in zip(self.parameters, *found, strict=True)
        ]

    def to_frame(self) -> Any:
        """`to_dicts` as a frame."""
        rows = self.to_dicts()
        return build({c: [r[c] for r in rows] for c in rows[0]}, self.frame_kind)

    def points(self) -> Any:
        """Every fit of the grid as a frame: what was varied, term, estimate and limits."""
        d, count = len(self.parameters), len(self.grid)
        columns: dict[str, Any] = {name: np.repeat(self.grid[:, k], d) for k, name in enumerate(self.names)}
        columns |= {"term": np.tile(np.array(self.parameters, dtype=object), count), "estimate": self.estimate.ravel()}
        columns |= {"conf_low": self.limits[:, :, 0].ravel(), "conf_high": self.limits[:, :, 1].ravel()}
        return build(columns, self.frame_kind)

    def sheet(self) -> Sheet:
        rows = self.to_dicts()
        ranges = "; ".join(f"{n} {v.min():g} to {v.max():g}" for n, v in zip(self.names, self.grid.T, strict=True))
        notes = (
            [f"warning: {self.rootless} of {len(self.grid)} matrices leave no root and were left out"]
            if self.rootless
            else []
        )
        return Sheet(
            columns=("term", "lowest", "highest", "lowest limit", "highest limit"),
            rows=tuple(tuple(r.values()) for r in rows),
            facts=(("Transition matrix", f"{ranges} ({len(self.grid)} points)"),),
            notes=tuple(notes),
            data=dict(plain({"band": rows, "points": len(self.grid), "rootless": self.rootless})),
        )

    def summary(self, style: str = "text") -> str:
        """The band in one of the formats."""
        return render(self.sheet(), style)

    def plot(
        self, *terms: str, along: str | None = None, title: str = "", intercept: bool = False, ax: Any = None
    ) -> Any:
        """The band over one of the things varied, the first by default, as a matplotlib Figure, a panel a term: estimates
        whatever the others are, and the intervals around them. `intercept` shows it among the terms, and `ax` gives axes to draw into, one a term."""
        from pramana.render.figures import Ribbon, effects, percent, ribbons

        axis = self._place(along or self.names[0], self.names)
        kept = [self._place(term, self.parameters) for term in terms or effects(self.parameters, intercept=intercept)]
        x = np.unique(self.grid[:, axis])
        here = [self.grid[:, axis] == value for value in x]

        def over(values: Float, end: Callable[..., Any]) -> Float:
            return np.array([end(values[rows]) for rows in here])

        panels = {
            self.parameters[j]: Ribbon(
                over(self.estimate[:, j], np.nanmin),
                over(self.estimate[:, j], np.nanmax),
                over(self.limits[:, j, 0], np.nanmin),
                over(self.limits[:, j, 1], np.nanmax),
            )
            for j in kept
        }
        intervals = f"{percent(self.level)} intervals"
        return ribbons(x, panels, x_label=self.names[axis], intervals=intervals, title=title, ax=ax)

    @staticmethod
    def _place(name: str, known: tuple[str, ...]) -> int:
        if name not in known:
            raise PramanaError(f"there is no {name!r} in this band: {suggestion(name, known)}")
        return known.index(name)


@released
def band(
    what: Any,
    data: Any,
    make: Make,
    ranges: Mapping[str, tuple[float, float]],
    *,
    points: int = 5,
    **options: Any,
) -> Band:
    """Fit the same question under every P of a grid. Options as in `fit`.

    Parameters
    ----------
    make : from values by name to a mechanism.
    ranges : the smallest and largest value of each name.
    points : values of each, ends included. An estimate that rises or falls with each of them is extreme at the ends.

    >>> import pramana as pr
    >>> make = lambda sensitivity: pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity, 0.95)})
    >>> found = pr.band(pr.mean("y"), {"y": [1] * 30 + [0] * 70}, make, {"sensitivity": (0.7, 0.9)},
    ...     inference=pr.Sandwich(interval="wald"))
    >>> print(found)
    Transition matrix: sensitivity 0.7 to 0.9 (5 points)
    -----------------------------------------------------
    term     lowest  highest  lowest limit  highest limit
    -----------------------------------------------------
    mean(y)  0.2941   0.3846        0.1866         0.5252
    -----------------------------------------------------
    """
    data = kept(data, bytes_of(options.get("memory")))
    values = _values(ranges, points)
    grid = np.array(list(product(*values.values())))
    results = [
        _fitted(what, data, make(**dict(zip(values, map(float, point), strict=True))), options) for point in grid
    ]
    first = next((result for result in results if result is not None), None)
    if first is None:
        raise SolveError(f"none of the {len(grid)} matrices leaves a root: narrow the ranges, or use more records")
    empty = np.full(len(first.parameters), np.nan)
    estimate = np.stack([empty if r is None else r.estimate for r in results])
    limits = np.stack([np.column_stack([empty, empty]) if r is None else r.interval() for r in results])
    return Band(tuple(values), grid, first.parameters, estimate, limits, first.shown_level(), first.frame_kind)


def _fitted(what: Any, data: Any, mechanism: object, options: Mapping[str, Any]) -> Result | None:
    """None where the equation has no root under this mechanism."""
    if not isinstance(mechanism, Mechanism):
        raise PramanaError(f"make() gave a {type(mechanism).__name__}: it must give a Mechanism for each point")
    try:
        return fit(what, data, mechanism, **options)
    except SolveError:
        return None


def _values(ranges: Mapping[str, tuple[float, float]], points: int) -> dict[str, Float]:
    if not isinstance(ranges, Mapping) or not ranges:
        raise PramanaError(
            "ranges must name what is varied, with its smallest and largest value: {'sensitivity': (0.8, 0.95)}"
        )
    if not (isinstance(points, int) and points >= 2):
        raise PramanaError(f"points={points!r} must be a whole number of at least 2, the ends of each range")
    for name, ends in ranges.items():
        if not (
            isinstance(ends, tuple | list) and len(ends) == 2 and all(is_number(v) for v in ends) and ends[0] < ends[1]
        ):
            raise PramanaError(
                f"the range of {name!r} is {ends!r}: give its smallest and largest value, such as (0.8, 0.95)"
            )
    if points ** len(ranges) > FITS:
        raise PramanaError(
            f"{points} values of {len(ranges)} things are {points ** len(ranges)} fits, above the limit of {FITS}: use fewer points"
        )
    return {name: np.linspace(low, high, points) for name, (low, high) in ranges.items()}

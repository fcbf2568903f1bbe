"""Many data sets of one size that lie one after the other, solved together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pramana.arrays import Float
from pramana.engines import LocalEngine
from pramana.errors import PramanaError, SolveError
from pramana.estimating.equation import Equation
from pramana.inference.solve import Root, solve
from pramana.kernels.newton import fading, newton
from pramana.kernels.predictor import Grouped


@dataclass(frozen=True)
class DataSets:
    """An equation over `groups` data sets of equal size."""

    equation: Equation
    groups: int
    grouped: Grouped = field(init=False, repr=False)

    def __post_init__(self) -> None:
        grouped = self.equation.grouped(self.groups)
        if grouped is None:
            raise PramanaError(
                "simulate needs a formula or a mean: other estimating functions go through fit, one data set at a time"
            )
        object.__setattr__(self, "grouped", grouped)

    @property
    def size(self) -> int:
        return self.equation.n // self.groups

    def part(self, group: int) -> LocalEngine:
        """One data set alone."""
        return LocalEngine.of(self.equation.rows(slice(group * self.size, (group + 1) * self.size)))

    def solve(self, start: Float) -> Float:
        """Roots (G, d) from a common start; NaN where a data set has none.

        A root does not depend on which other data sets are solved with it, to the last bit.
        """
        roots = newton(self.grouped.score_and_slope, np.tile(start, (self.groups, 1)), self.scales(start))
        beta = roots.beta
        for g in np.flatnonzero(~roots.converged | fading(self.grouped.score_and_slope, roots)):
            beta[g] = self._carefully(int(g))
        return beta

    def scales(self, beta: Float) -> Float:
        """Inverse standard deviations of the scores (G, d) at one value (d,), or at one a data set (G, d)."""
        beta = np.broadcast_to(beta, (self.groups, beta.shape[-1]))
        parts = [self.part(g) for g in range(self.groups)]
        return np.asarray(1 / np.stack([p.spread(b, p.own) for p, b in zip(parts, beta, strict=True)]))

    def _carefully(self, group: int) -> Float:
        engine = self.part(group)
        try:
            return solve(engine).beta
        except SolveError:
            return np.full(engine.d, np.nan)

    def root(self, group: int, beta: Float) -> Root:
        return Root(beta[group], 0.0, 0, "newton")

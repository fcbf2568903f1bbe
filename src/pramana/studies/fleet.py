"""Many data sets of one size, solved together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pramana.arrays import Float, Int
from pramana.errors import SolveError
from pramana.estimating.generalized_linear import PredictorEquation
from pramana.inference import Root, solve
from pramana.kernels import predictor
from pramana.kernels.newton import fading, newton
from pramana.kernels.predictor import Packed


@dataclass(frozen=True)
class Fleet:
    """An equation over `groups` data sets that lie one after the other."""

    equation: PredictorEquation
    groups: int
    _packed: Packed = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_packed", self.equation.data.packed_in(self.groups))

    @property
    def size(self) -> int:
        return self.equation.n // self.groups

    @property
    def packed(self) -> Packed:
        return self._packed

    def part(self, group: int) -> PredictorEquation:
        """One data set's equation."""
        return self.equation.rows(slice(group * self.size, (group + 1) * self.size))

    def solve(self, start: Float) -> Float:
        """Roots (G, d) from a common start; NaN where a data set has none.

        A root does not depend on which other data sets are solved with it, to the last bit.
        """
        data = self.equation.data
        betas = np.tile(start, (self.groups, 1))

        def evaluate(b: Float, rows: Int) -> tuple[Float, Float]:
            return predictor.grouped_score_and_slope(data, self._packed, self.groups, b, rows)

        roots = newton(evaluate, betas, self.scales(start))
        beta = roots.beta
        for g in np.flatnonzero(~roots.converged | fading(evaluate, roots)):
            beta[g] = self._carefully(int(g))
        return beta

    def scales(self, beta: Float) -> Float:
        """Inverse standard deviations of the scores (G, d) at one value (d,), or at one a data set (G, d)."""
        beta = np.broadcast_to(beta, (self.groups, beta.shape[-1]))
        squares = [np.sum(self.part(g).influence(beta[g]) ** 2, axis=0) for g in range(self.groups)]
        return np.asarray(1 / np.sqrt(np.stack(squares)))

    def _carefully(self, group: int) -> Float:
        equation = self.part(group)
        try:
            return solve(equation, np.ones(equation.n)).beta
        except SolveError:
            return np.full(len(equation.parameters), np.nan)

    def root(self, group: int, beta: Float) -> Root:
        return Root(beta[group], 0.0, 0, "newton")

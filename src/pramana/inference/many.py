"""Many data sets of one size, solved together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pramana.arrays import Bool, Float
from pramana.engines import LocalEngine
from pramana.errors import PramanaError, SolveError
from pramana.estimating.equation import Equation
from pramana.inference.solve import Root, solve
from pramana.kernels import backend
from pramana.kernels.newton import fading, newton
from pramana.kernels.predictor import Grouped


class ManySets(ABC):
    """Data sets of equal size under one estimator; single ones that have no root where all are solved are left to the CPU's
    careful solver.

    Attributes
    ----------
    groups : how many there are. parameters : names of the d parameters.
    held : the data sets on a device, as `DeviceSets`; None where they stay with the CPU.
    """

    if TYPE_CHECKING:  # to be read; a subclass has fields or properties

        @property
        def groups(self) -> int: ...

        @property
        def parameters(self) -> tuple[str, ...]: ...

        @property
        def held(self) -> Any | None: ...

    @abstractmethod
    def part(self, group: int) -> LocalEngine:
        """One data set alone, on the CPU."""

    @abstractmethod
    def _roots(self, start: Float) -> tuple[Float, Bool]:
        """Roots (G, d) from a common start (d,), and which of them were found (G,)."""

    @property
    def together(self) -> bool:
        """Whether there are kernels that solve all of them at once."""
        return True

    def solve(self, start: Float) -> Float:
        """Roots (G, d) from a common start; NaN where a data set has none.

        On the CPU a root does not depend on which other data sets are solved with it, to the last bit.
        """
        beta, found = self._roots(start)
        for g in np.flatnonzero(~found):
            beta[g] = self._carefully(int(g))
        return beta

    def _carefully(self, group: int) -> Float:
        engine = self.part(group)
        try:
            return solve(engine).beta
        except SolveError:
            return np.full(engine.d, np.nan)

    def root(self, group: int, beta: Float) -> Root:
        return Root(beta[group], 0.0, 0, "newton")


@dataclass(frozen=True)
class DataSets(ManySets):
    """An equation over `groups` data sets, which lie one after the other.

    Attributes
    ----------
    device : "cpu", or where JAX solves all of them at once, if it knows the equation.
    """

    equation: Equation
    groups: int
    device: str = "cpu"

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.equation.about.parameters

    @cached_property
    def _grouped(self) -> Grouped | None:
        return self.equation.grouped(self.groups)

    @property
    def together(self) -> bool:
        return self._grouped is not None

    @property
    def grouped(self) -> Grouped:
        if self._grouped is None:
            raise PramanaError(
                "only the data sets of a formula or of a mean are solved together: leave out by=, and each goes to fit alone"
            )
        return self._grouped

    @cached_property
    def held(self) -> Any | None:
        products = None if self.device == "cpu" or self._grouped is None else self._grouped.products
        return None if products is None else backend.accelerated(self.device).DeviceSets.of(products, self.groups)

    @property
    def size(self) -> int:
        return self.equation.n // self.groups

    def part(self, group: int) -> LocalEngine:
        return LocalEngine.of(self.equation.rows(slice(group * self.size, (group + 1) * self.size)))

    def _roots(self, start: Float) -> tuple[Float, Bool]:
        return self._newton(start) if self.held is None else self.held.roots(start)

    def _newton(self, start: Float) -> tuple[Float, Bool]:
        evaluate, begin = self.grouped.score_and_slope, np.tile(start, (self.groups, 1))
        with np.errstate(all="ignore"):
            roots = newton(evaluate, begin, 1 / self.grouped.spread(begin))
        return roots.beta, roots.converged & ~fading(evaluate, roots)

    def means(self, betas: Float) -> Float:
        """Fitted means (n, C) of all records at one value a data set (G, d)."""
        return (self.grouped if self.held is None else self.held).means(betas)


@dataclass(frozen=True)
class MadeDataSets(ManySets):
    """Data sets that were made on a device and have never been elsewhere.

    Attributes
    ----------
    held : as `DeviceSets`.
    alone : from the place of a data set to its equation, over records that are made once more, on the CPU.
    """

    parameters: tuple[str, ...]
    groups: int
    held: Any
    alone: Callable[[int], Equation]

    def part(self, group: int) -> LocalEngine:
        return LocalEngine.of(self.alone(group))

    def _roots(self, start: Float) -> tuple[Float, Bool]:
        found: tuple[Float, Bool] = self.held.roots(start)
        return found

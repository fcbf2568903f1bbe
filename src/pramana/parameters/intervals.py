"""The share of a number's distribution within an interval, of everyone or within domains that may be perturbed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError
from pramana.estimating.cells import distinct, factors_of, names_of
from pramana.estimating.distribution import Distribution, DistributionFunction, Functional, support_of
from pramana.estimating.function import ColumnQuestion
from pramana.frames import Schema, Table
from pramana.frames.levels import is_number


@dataclass(frozen=True)
class Share(ColumnQuestion):
    """Question of `share(column, low, high, by)`."""

    column: str
    low: float | None
    high: float | None
    by: tuple[str, ...] = ()

    def prepare(self, table: Table, schema: Schema) -> DistributionFunction:
        levels, by = support_of(self.column, table, schema), factors_of(self.by, table, schema)
        low, high = (-np.inf if self.low is None else self.low, np.inf if self.high is None else self.high)
        above, below = (
            f"{self.low:g} < " if self.low is not None else "",
            f" <= {self.high:g}" if self.high is not None else "",
        )
        functional = ShareFunctional(f"share({above}{self.column}{below})", low, high)
        return DistributionFunction(functional, self.column, by, levels, smooth=True)


def share(
    column: str, low: float | None = None, high: float | None = None, by: str | Sequence[str] | None = None
) -> Share:
    """The share of those with low < column ≤ high: the distribution function, or a difference of two of its values.

    The column is clean, has perturbed numeric levels, or got noise now and then (`KeepOrNoise`).

    Parameters
    ----------
    low, high : one of them may be left out, for everything below or above.
    by : one or several columns, perturbed or not, whose levels are the domains.

    >>> import pramana as pr
    >>> result = pr.fit(pr.share("income", high=50), {"income": range(1, 201)}, None)
    >>> result.parameters, result.estimate
    (('share(income <= 50)',), array([0.25]))
    """
    names = names_of(by, "by")
    distinct(column, *names)
    for name, value in (("low", low), ("high", high)):
        if value is not None and not (is_number(value) and np.isfinite(value)):
            raise FormulaError(f"{name}={value!r} must be a number, an end of an interval of {column!r}")
    if low is None and high is None:
        raise FormulaError(
            f"share({column!r}) needs low=, high= or both: the share of those with low < {column} <= high"
        )
    if low is not None and high is not None and not low < high:
        raise FormulaError(f"low={low!r} must be below high={high!r}")
    return Share(column, None if low is None else float(low), None if high is None else float(high), names)


@dataclass(frozen=True)
class ShareFunctional(Functional):
    """ψ = 1{low < y ≤ high} − β, one share a domain."""

    name: str
    low: float
    high: float
    plausible: tuple[float, float] | None = (0.0, 1.0)
    reason: str = "the reverted distribution is empty"

    def _inside(self, measure: Distribution) -> Float:
        return measure.below(self.high, 0.0) - measure.below(self.low, 0.0)

    def gathered(self, measure: Distribution) -> Distribution:
        """What lies inside, at one value, and what lies outside, at another."""
        inside = self._inside(measure)
        both = np.stack([inside, 1.0 - inside], axis=-1)
        cells = measure.cells @ both if measure.discrete else measure.cells[:, :, None] * both[:, None, :]
        return Distribution(self._apart, cells, measure.domains, measure.size, 0.0)

    @property
    def _apart(self) -> Float:
        """A number inside, and one outside."""
        beyond = 1.0 + abs(self.high if np.isinf(self.low) else self.low)
        within = self.high if np.isfinite(self.high) else self.low + beyond
        return np.array([within, self.low if np.isfinite(self.low) else self.high + beyond])

    def solve(self, measure: Distribution, weights: Float) -> Float:
        inside, masses = self._inside(measure), [measure.masses(weights, g) for g in range(measure.count)]
        totals = [np.where(m.sum(axis=1) > 0, m.sum(axis=1), np.nan) for m in masses]
        return np.stack([m @ inside / total for m, total in zip(masses, totals, strict=True)], axis=1)

    def pieces(self, measure: Distribution, beta: Float, reference: Float) -> list[tuple[int | None, Float]]:  # noqa: ARG002
        inside = self._inside(measure)
        return [(g, inside - b) for g, b in enumerate(beta)]

    def outer(self, measure: Distribution, beta: Float, reference: Float, weights: Float) -> Float:  # noqa: ARG002
        """An indicator is its own square; domains do not overlap."""
        inside = self._inside(measure)
        squares = [(1 - 2 * b) * inside + b**2 for b in beta]
        return np.diag([float(weights @ measure.per_record(square, g)) for g, square in enumerate(squares)])

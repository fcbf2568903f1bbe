"""What inference needs of the records at one parameter value: sums that add up over blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pramana.arrays import Float
from pramana.engines.sampling import Stratification

LOST = 1e4
"""Times by which sums may shrink where they are carried on by differences: of their 16 digits, 4 are lost."""


@dataclass(frozen=True)
class Totals:
    """Sums over records; the totals of two parts add up to the totals of the whole.

    Attributes
    ----------
    n : records that the rows stand for.
    score : Σ w φ, (d,).
    slope : Σ w ∂φ/∂β, (d, d).
    outer : Σ w² φφᵀ, (d, d).
    clean_outer : Σ w² (UUᵀ)*, (d, d): what `outer` would be without the randomisation.
    clusters : score sums by cluster (G, d), or None.
    strata : the design of the clusters, or None.
    retained : Σ f w² (φφᵀ − (UUᵀ)*), f the sampling fraction: the randomisation's part, which no finite population shrinks.
    shared : the randomisation's part where records share a draw, `Engine.privacy_by_unit` of the whole; None where each has its own.
    fourth : Σ (w² φ²)², (d,): next to the squares of `outer` it tells how few records a variance may rest on.
    sums : the parameters are the sums Σ w φ themselves, whose variance is around the mean of the units.
    """

    n: float
    score: Float
    slope: Float
    outer: Float
    clean_outer: Float
    clusters: Float | None = None
    strata: Stratification | None = None
    retained: Float | None = None
    sums: bool = False
    shared: Float | None = None
    fourth: Float | None = None

    def __add__(self, other: Totals) -> Totals:
        assert self.shared is other.shared is None  # a unit may lie in both parts
        return Totals(
            self.n + other.n,
            self.score + other.score,
            self.slope + other.slope,
            self.outer + other.outer,
            self.clean_outer + other.clean_outer,
            None if self.clusters is None or other.clusters is None else self.clusters + other.clusters,
            self.strata,
            None if self.retained is None or other.retained is None else self.retained + other.retained,
            self.sums,
            fourth=None if self.fourth is None or other.fourth is None else self.fourth + other.fourth,
        )

    def moved(self, here: Totals, there: Totals, step: Float, each: float) -> Totals:
        """The same sums a small step (d,) away, by those of some of the records, each of which stands for so many, at both ends of it."""
        assert self.clusters is self.retained is self.shared is None
        slope, outer, clean = (
            own + each * (after - before)
            for own, before, after in (
                (self.slope, here.slope, there.slope),
                (self.outer, here.outer, there.outer),
                (self.clean_outer, here.clean_outer, there.clean_outer),
            )
        )
        bend = each * (there.score - here.score - here.slope @ step)
        return replace(self, score=self.score + self.slope @ step + bend, slope=slope, outer=outer, clean_outer=clean)

    def stands_out(self, origin: Totals) -> bool:
        """Whether these sums, moved from others, are more than the rounding of those: 1 + (2 - 1) is 2, and 10⁴² + (2 - 10⁴²) is not."""
        pairs = ((self.outer, origin.outer), (self.clean_outer, origin.clean_outer), (self.slope, origin.slope))
        return all((np.abs(np.diag(was)) <= LOST * np.abs(np.diag(now))).all() for now, was in pairs)

    @property
    def still(self) -> Totals:
        """The same of records that do not vary around the fit: all squares are zero."""

        def none_of(part: Float | None) -> Float | None:
            return None if part is None else np.zeros_like(part)

        return replace(
            self,
            outer=np.zeros_like(self.outer),
            clean_outer=np.zeros_like(self.outer),
            clusters=none_of(self.clusters),
            retained=none_of(self.retained),
            shared=none_of(self.shared),
            fourth=none_of(self.fourth),
        )

    @property
    def privacy(self) -> Float:
        """The randomisation's part of the score's variance (d, d)."""
        return self.outer - self.clean_outer if self.shared is None else self.shared

    @property
    def covariance(self) -> Float:
        """Of the root (d, d); LinAlgError where the slope has no inverse."""
        inverse = np.linalg.inv(self.slope)
        return np.asarray(inverse @ self.meat @ inverse.T)

    @cached_property
    def meat(self) -> Float:
        """Variance of the score: between clusters where there are any, within strata where there are any."""
        if self.strata is not None:
            return self._designed(self.strata)
        if self.clusters is None:
            return self._centred(self.outer, self.n)
        return self._centred(np.asarray(self.clusters.T @ self.clusters), len(self.clusters))

    def _centred(self, squares: Float, units: float) -> Float:
        """Σ zzᵀ around the mean of the units where the parameters are sums; elsewhere the score vanishes at the root."""
        return squares - np.outer(self.score, self.score) / units if self.sums else squares

    def _designed(self, strata: Stratification) -> Float:
        if strata.target == "file":
            return self.privacy
        assert self.clusters is not None
        between = strata.between(self.clusters)
        return between + self.retained if strata.target == "finite" and self.retained is not None else between

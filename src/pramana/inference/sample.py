"""An equation with the weights and clusters of its records, and its totals at a parameter value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pramana.arrays import Float, Int
from pramana.estimating import Equation
from pramana.inference.survey import Stratification
from pramana.kernels.blocks import gram


@dataclass(frozen=True)
class Totals:
    """Sums over records; the totals of two parts add up to the totals of the whole.

    Attributes
    ----------
    score : Σ w φ, (d,).
    slope : Σ w ∂φ/∂β, (d, d).
    outer : Σ w² φφᵀ, (d, d).
    clean_outer : Σ w² (UUᵀ)*, (d, d): what `outer` would be without the randomisation.
    cluster_scores : score sums by cluster id, or None.
    design : strata of the clusters, or None.
    retained : Σ f w² (φφᵀ − (UUᵀ)*), f the sampling fraction: the randomisation's part, which no finite population shrinks.
    sums : the parameters are the sums Σ w φ themselves, whose variance is around the mean of the units.
    """

    n: float
    score: Float
    slope: Float
    outer: Float
    clean_outer: Float
    cluster_scores: dict[int, Float] | None = None
    design: Stratification | None = None
    retained: Float | None = None
    sums: bool = False

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.n + other.n,
            self.score + other.score,
            self.slope + other.slope,
            self.outer + other.outer,
            self.clean_outer + other.clean_outer,
            _merged(self.cluster_scores, other.cluster_scores),
            self.design,
            None if self.retained is None or other.retained is None else self.retained + other.retained,
            self.sums,
        )

    @cached_property
    def meat(self) -> Float:
        """Variance of the score: between clusters where there are any, within strata where there are any."""
        if self.design is not None:
            return self._designed(self.design)
        if self.cluster_scores is None:
            return self._centred(self.outer, self.n)
        sums = np.stack(list(self.cluster_scores.values()))
        return self._centred(np.asarray(sums.T @ sums), len(sums))

    def _centred(self, squares: Float, units: float) -> Float:
        """Σ zzᵀ around the mean of the units where the parameters are sums; elsewhere the score vanishes at the root."""
        return squares - np.outer(self.score, self.score) / units if self.sums else squares

    def _designed(self, design: Stratification) -> Float:
        if design.target == "file":
            return self.outer - self.clean_outer
        assert self.cluster_scores is not None
        between = design.between(np.stack([self.cluster_scores[k] for k in range(len(design.stratum))]))
        return between + self.retained if design.target == "finite" and self.retained is not None else between


def _merged(a: dict[int, Float] | None, b: dict[int, Float] | None) -> dict[int, Float] | None:
    if a is None or b is None:
        return None
    return {key: a.get(key, 0.0) + b.get(key, 0.0) for key in {**a, **b}}  # type: ignore[misc]


def multiplied(rows: int, *factors: Float | None) -> Float:
    """The product (n,) of those weights and counts that are given."""
    out = np.ones(rows)
    for factor in factors:
        out = out if factor is None else out * factor
    return out


@dataclass(frozen=True)
class Sample:
    """Records ready for estimation.

    Attributes
    ----------
    weights : sampling weights (n,), squared in the variance; or None.
    frequencies : counts (n,), each standing for so many equal records; or None.
    clusters : codes 0 … G − 1 (n,), or None.
    design : the strata of the clusters and what the standard error is around, or None.
    replicates : weights (R, n) published to replace `weights` one at a time, with the scale of their variance; or None.
    """

    equation: Equation
    weights: Float | None = None
    frequencies: Float | None = None
    clusters: Int | None = None
    design: Stratification | None = None
    replicates: Float | None = None
    replicate_scale: float | Sequence[float] | None = None

    @property
    def rows(self) -> int:
        return self.equation.n

    @property
    def n(self) -> float:
        """Number of records that the rows stand for."""
        return float(self.rows if self.frequencies is None else self.frequencies.sum())

    @property
    def units(self) -> float:
        """Records that a variance counts: those of weight zero are absent, but for sums, to which they add a zero."""
        if self.sums:
            return self.n
        counts = np.ones(self.rows) if self.frequencies is None else self.frequencies
        return float(counts[self.row_weights > 0].sum())

    @property
    def effective_n(self) -> float:
        """Records of equal weight that are worth as much, (Σw)² / Σw²: the counts themselves where there are only counts."""
        return float(self.row_weights.sum() ** 2 / self.square_weights.sum())

    @property
    def d(self) -> int:
        return len(self.equation.parameters)

    @property
    def sums(self) -> bool:
        """The parameters are sums over the records, not solutions that a factor of all weights leaves alone."""
        return bool(getattr(self.equation, "sums", False))

    @property
    def groups(self) -> int | None:
        """Clusters; under a design its units, also those of which no record is left."""
        if self.design is not None:
            return len(self.design.stratum)
        return None if self.clusters is None else int(self.clusters.max()) + 1

    @property
    def live_groups(self) -> int | None:
        """Clusters with a record of positive weight."""
        return None if self.clusters is None else len(np.unique(self.clusters[self.row_weights > 0]))

    @property
    def row_weights(self) -> Float:
        """Weights of the rows in the score."""
        return multiplied(self.rows, self.weights, self.frequencies)

    @property
    def square_weights(self) -> Float:
        """Weights of the rows in a variance: w² for sampling weights, counts as they are."""
        return multiplied(self.rows, self.weights, self.weights, self.frequencies)

    def with_equation(self, equation: Equation) -> Sample:
        return replace(self, equation=equation)

    def plugged(self) -> Sample:
        """With whatever the equation learns from its records learned at their weights."""
        if not hasattr(self.equation, "plugged"):
            return self
        return self.with_equation(self.equation.plugged(self.row_weights, self.effective_n))

    def totals(self, beta: Float, slope: Float | None = None) -> Totals:
        """Everything that inference adds up, at one parameter value."""
        phi, w, w2 = self.equation.influence(beta), self.row_weights, self.square_weights
        if slope is None:
            slope = self.equation.score_and_slope(beta[None], w[None])[1][0]
        return Totals(
            n=self.n,
            score=w @ phi,
            slope=slope,
            outer=gram(phi, w2),
            clean_outer=self.equation.clean_outer(beta, w2),
            cluster_scores=self._cluster_scores(phi * w[:, None]),
            design=self.design,
            retained=self._retained(beta, phi, w2),
            sums=self.sums,
        )

    def _retained(self, beta: Float, phi: Float, w2: Float) -> Float | None:
        if self.design is None or self.design.target != "finite" or self.clusters is None:
            return None
        kept = w2 * self.design.fraction[self.design.stratum[self.clusters]]
        return gram(phi, kept) - self.equation.clean_outer(beta, kept)

    def _cluster_scores(self, weighted: Float) -> dict[int, Float] | None:
        if self.clusters is None or self.groups is None:
            return None
        sums = np.zeros((self.groups, weighted.shape[1]))
        np.add.at(sums, self.clusters, weighted)
        return dict(enumerate(sums))

"""Variances from solving again without parts of the data, or under replicate weights published with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pramana.arrays import Float, Int
from pramana.errors import DataError, SolveError
from pramana.inference.resampling import BLOCK_ENTRIES, solve_weighted
from pramana.inference.sample import Sample
from pramana.inference.solve import Root

RANK_TOLERANCE = 1e-5
"""Published weights are rounded: a direction shorter than this, next to the weights, is none."""


@dataclass(frozen=True)
class Jackknife:
    """Delete one record (or one cluster, or one sampling unit within its stratum) at a time.

    More careful than the linearised variance when clusters are few (CR3; HC3 by deletion without clusters); intervals and
    tests use t with as many degrees of freedom as there are units less strata.
    """

    interval: Literal["wald"] = "wald"


@dataclass(frozen=True)
class Replicates:
    """Replicate weights that came with the file."""

    interval: Literal["wald"] = "wald"


@dataclass(frozen=True)
class _Deletions:
    """Which units can be left out.

    Attributes
    ----------
    unit : (n,), of each row.
    stratum : (G,), of each unit.
    copies : (G,), equal units that it stands for: the frequency of a row, else 1.
    fraction : (H,), share of each stratum's population that was sampled, where the variance is around that population.
    """

    unit: Int
    stratum: Int
    copies: Float
    fraction: Float

    @property
    def sizes(self) -> Float:
        """Units in each stratum (H,)."""
        return np.asarray(np.bincount(self.stratum, weights=self.copies, minlength=len(self.fraction)), dtype=float)

    @property
    def shares(self) -> Float:
        """Factor of each unit's squared difference (G,)."""
        share = (1 - self.fraction) * (self.sizes - 1) / self.sizes
        return np.asarray(share[self.stratum] * self.copies)

    def multipliers(self, deleted: Int) -> Float:
        """(m, n): the deleted unit's rows lose one copy, its stratum is weighted up to the size that it had."""
        up = (self.sizes / (self.sizes - 1))[self.stratum[deleted]][:, None]
        left = np.maximum(self.copies - 1, 0) / np.maximum(self.copies, 1)
        same = self.stratum[self.unit][None, :] == self.stratum[deleted][:, None]
        own = self.unit[None, :] == deleted[:, None]
        return np.asarray(np.where(same, up, 1.0) * np.where(own, left[deleted][:, None], 1.0))


def _deletions(sample: Sample) -> _Deletions:
    if sample.design is not None:
        assert sample.clusters is not None
        stratum, finite = sample.design.stratum, sample.design.target == "finite"
        fraction = sample.design.fraction if finite else np.zeros(len(sample.design.fraction))
        return _Deletions(sample.clusters, stratum, np.ones(len(stratum)), fraction)
    rows = sample.clusters is None
    unit = np.arange(sample.rows) if sample.clusters is None else sample.clusters
    count = int(unit.max()) + 1
    copies = np.ones(count) if sample.frequencies is None or not rows else sample.frequencies
    if rows and not sample.sums:
        copies = np.where(sample.row_weights > 0, copies, 0.0)
    return _Deletions(unit, np.zeros(count, dtype=np.int64), copies, np.zeros(1))


def jackknife_covariance(sample: Sample, root: Root) -> Float:
    """Σ_h (1 − f_h) (n_h − 1)/n_h Σ_c (β₍hc₎ − β̂)(β₍hc₎ − β̂)ᵀ, the deleted unit's stratum weighted up by n_h/(n_h − 1)."""
    units = _deletions(sample)
    out = np.zeros((sample.d, sample.d))
    block = max(1, BLOCK_ENTRIES // sample.rows)
    for first in range(0, len(units.stratum), block):
        deleted = np.arange(first, min(first + block, len(units.stratum)))
        gap = _solved(sample, root, units.multipliers(deleted) * sample.row_weights) - root.beta
        out += (gap * units.shares[deleted][:, None]).T @ gap
    return out


def replicate_covariance(sample: Sample, root: Root) -> Float:
    """Σ_r scale_r (β_r − β̂)(β_r − β̂)ᵀ over the replicate weights (R, n)."""
    assert sample.replicates is not None
    gap = _solved(sample, root, sample.replicates) - root.beta
    scale = 1 / len(gap) if sample.replicate_scale is None else sample.replicate_scale
    return np.asarray((gap * np.broadcast_to(scale, len(gap))[:, None]).T @ gap)


def replicate_degrees_of_freedom(replicates: Float) -> float:
    """Independent directions among the replicate weights (R, n), less one."""
    unit = replicates / np.maximum(np.sqrt(np.sum(replicates**2, axis=1, keepdims=True)), 1e-300)
    found = int(np.linalg.matrix_rank(unit @ unit.T, tol=RANK_TOLERANCE**2 * len(unit), hermitian=True)) - 1
    if found < 1:
        raise DataError(
            "the replicate weights are multiples of one another, which shows no variance: are they the right columns?"
        )
    return float(found)


def _solved(sample: Sample, root: Root, weights: Float) -> Float:
    values = solve_weighted(sample, root, weights)
    missing = int(np.sum(~np.isfinite(values).all(axis=1)))
    if missing:
        raise SolveError(f"{missing} of {len(values)} replicates have no root: use Sandwich(), or merge small units")
    return values

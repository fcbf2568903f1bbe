"""Variances from solving again without parts of the data, or under replicate weights published with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pramana.arrays import Float
from pramana.errors import SolveError
from pramana.inference.resampling import BLOCK_ENTRIES, solve_weighted
from pramana.inference.sample import Sample
from pramana.inference.solve import Root


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


def jackknife_covariance(sample: Sample, root: Root) -> Float:
    """Σ_h (n_h − 1)/n_h Σ_c (β₍hc₎ − β̂)(β₍hc₎ − β̂)ᵀ, the deleted unit's stratum weighted up by n_h/(n_h − 1)."""
    units = np.arange(sample.rows) if sample.clusters is None else sample.clusters
    count = int(units.max()) + 1
    stratum = np.zeros(count, dtype=np.int64) if sample.design is None else sample.design.stratum
    sizes = np.bincount(stratum)
    scale = np.ones(len(sizes)) if sample.design is None else sizes / (sizes - 1)
    out = np.zeros((sample.d, sample.d))
    block = max(1, BLOCK_ENTRIES // sample.rows)
    for first in range(0, count, block):
        deleted = np.arange(first, min(first + block, count))
        same = stratum[units][None, :] == stratum[deleted][:, None]
        weights = np.where(same, scale[stratum[deleted]][:, None], 1.0) * (units[None, :] != deleted[:, None])
        gap = _solved(sample, root, weights * sample.row_weights) - root.beta
        share = (sizes - 1) / sizes
        if sample.design is not None and sample.design.target == "finite":
            share = share * (1 - sample.design.fraction)
        out += (gap * share[stratum[deleted]][:, None]).T @ gap
    return out


def replicate_covariance(sample: Sample, root: Root) -> Float:
    """scale · Σ_r (β_r − β̂)(β_r − β̂)ᵀ over the replicate weights (R, n)."""
    assert sample.replicates is not None
    gap = _solved(sample, root, sample.replicates) - root.beta
    scale = 1 / len(gap) if sample.replicate_scale is None else sample.replicate_scale
    return np.asarray(scale * gap.T @ gap)


def _solved(sample: Sample, root: Root, weights: Float) -> Float:
    values = solve_weighted(sample, root, weights)
    missing = int(np.sum(~np.isfinite(values).all(axis=1)))
    if missing:
        raise SolveError(f"{missing} of {len(values)} replicates have no root: use Sandwich(), or merge small units")
    return values

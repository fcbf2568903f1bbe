"""Variances from solving again without parts of the data, or under replicate weights published with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pramana.arrays import Float
from pramana.engines import Engine, Weights
from pramana.errors import DataError, SolveError
from pramana.inference.resampling import solve_draws
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


def jackknife_covariance(engine: Engine, root: Root) -> Float:
    """Σ_h (1 − f_h) (n_h − 1)/n_h Σ_c (β₍hc₎ − β̂)(β₍hc₎ − β̂)ᵀ, the deleted unit's stratum weighted up by n_h/(n_h − 1)."""
    shares = engine.sampling.deletions(sums=engine.about.sums).shares
    out = np.zeros((engine.d, engine.d))
    block = engine.draws_at_once
    for first in range(0, len(shares), block):
        deleted = np.arange(first, min(first + block, len(shares)))
        gap = _solved(engine, root, engine.without(deleted)) - root.beta
        out += (gap * shares[deleted][:, None]).T @ gap
    return out


def replicate_covariance(engine: Engine, root: Root) -> Float:
    """Σ_r scale_r (β_r − β̂)(β_r − β̂)ᵀ over the replicate weights."""
    gap, given = _solved(engine, root, engine.replicated()) - root.beta, engine.sampling.replicate_scale
    scale = 1 / len(gap) if given is None else given
    return np.asarray((gap * np.broadcast_to(scale, len(gap))[:, None]).T @ gap)


def replicate_degrees_of_freedom(products: Float) -> float:
    """Independent directions among the replicate weights, less one, from their products with each other (R, R)."""
    size = np.maximum(np.sqrt(np.diag(products)), 1e-300)
    unit = products / np.outer(size, size)
    found = int(np.linalg.matrix_rank(unit, tol=RANK_TOLERANCE**2 * len(unit), hermitian=True)) - 1
    if found < 1:
        raise DataError(
            "the replicate weights are multiples of one another, which shows no variance: are they the right columns?"
        )
    return float(found)


def _solved(engine: Engine, root: Root, weights: Weights) -> Float:
    values = solve_draws(engine, root, weights)
    missing = int(np.sum(~np.isfinite(values).all(axis=1)))
    if missing:
        raise SolveError(f"{missing} of {len(values)} replicates have no root: use Sandwich(), or merge small units")
    return values

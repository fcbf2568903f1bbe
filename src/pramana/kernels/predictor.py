"""Totals of `U = x a(η) (y − μ(η))`, η = xᵀβ, over records spread on nodes with signed weights.

A record i with nodes c contributes `φ_i = Σ_c x_ic a(η_ic) (S_ic − W_ic μ(η_ic))`, where W are the reversion weights
and S the reverted first moment of the response. Leading axes batch resamples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from pramana.arrays import Float

Curve: TypeAlias = Callable[[Float], tuple[Float, Float, Float | float, Float | float]]
"""η ↦ (μ, μ′, a, a′) with a = μ′ / V(μ)."""


@dataclass(frozen=True)
class Predictor:
    """Arrays of n records with C nodes each and d coefficients.

    Attributes
    ----------
    design : (n·C, d), node within record running fastest.
    weight, first, second : (n, C), the signed measure and its products with y and y².
    offset : (n, C) or None.
    """

    design: Float
    weight: Float
    first: Float
    second: Float
    offset: Float | None
    curve: Curve

    @property
    def n(self) -> int:
        return self.weight.shape[0]

    @property
    def d(self) -> int:
        return self.design.shape[1]

    @cached_property
    def pairs(self) -> Float:
        """Products of design columns (n·C, d(d+1)/2), so that batched slopes are one matrix product."""
        rows, cols = np.triu_indices(self.d)
        return self.design[:, rows] * self.design[:, cols]

    def eta(self, betas: Float) -> Float:
        """(B, n, C)."""
        eta = (betas @ self.design.T).reshape(len(betas), *self.weight.shape)
        return eta if self.offset is None else eta + self.offset


def score(p: Predictor, betas: Float, weights: Float) -> Float:
    """(B, d) for coefficients (B, d) and row weights (B, n)."""
    with np.errstate(all="ignore"):
        mu, _, a, _ = p.curve(p.eta(betas))
        residual = a * (p.first - p.weight * mu) * weights[:, :, None]
        out: Float = residual.reshape(len(betas), -1) @ p.design
    return out


def score_and_slope(p: Predictor, betas: Float, weights: Float) -> tuple[Float, Float]:
    """Score (B, d) and its derivative (B, d, d)."""
    with np.errstate(all="ignore"):
        mu, dmu, a, da = p.curve(p.eta(betas))
        residual = p.first - p.weight * mu
        bend = (da * residual - a * dmu * p.weight) * weights[:, :, None]
        force = a * residual * weights[:, :, None]
        flat = (len(betas), -1)
        return force.reshape(flat) @ p.design, _slopes(p, bend.reshape(flat))


def _slopes(p: Predictor, bend: Float) -> Float:
    if len(bend) == 1:
        return ((p.design * bend[0][:, None]).T @ p.design)[None]
    rows, cols = np.triu_indices(p.d)
    slope = np.empty((len(bend), p.d, p.d))
    slope[:, rows, cols] = slope[:, cols, rows] = bend @ p.pairs
    return slope


def influence(p: Predictor, beta: Float) -> Float:
    """φ (n, d): the sum over a record's nodes, taken before any outer product."""
    with np.errstate(all="ignore"):
        mu, _, a, _ = p.curve(p.eta(beta[None])[0])
        residual = a * (p.first - p.weight * mu)
        return np.einsum("nc,ncd->nd", residual, p.design.reshape(*p.weight.shape, p.d))


def clean_outer(p: Predictor, beta: Float, weights: Float) -> Float:
    """Reverted `Σ w U Uᵀ` (d, d)."""
    with np.errstate(all="ignore"):
        mu, _, a, _ = p.curve(p.eta(beta[None])[0])
        square = a**2 * (p.second - 2 * mu * p.first + mu**2 * p.weight) * weights[:, None]
        return (p.design * square.reshape(-1, 1)).T @ p.design


def record_slope(p: Predictor, beta: Float, left: Float, right: Float) -> Float:
    """`leftᵀ (∂φ_i/∂β) right` (n,)."""
    with np.errstate(all="ignore"):
        mu, dmu, a, da = p.curve(p.eta(beta[None])[0])
        bend = da * (p.first - p.weight * mu) - a * dmu * p.weight
        return np.sum(bend * ((p.design @ left) * (p.design @ right)).reshape(bend.shape), axis=1)

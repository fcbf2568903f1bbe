"""Smooth functions of moments: θ = g(μ), where μ are reverted moments solved for along with θ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pramana.arrays import Float
from pramana.estimating.equation import OfFunction, Records
from pramana.estimating.moments import Remark


@dataclass(frozen=True)
class Moments:
    """Features t of the records.

    Attributes
    ----------
    values : t*, (n, m).
    products : weights (n,) ↦ reverted Σ w t tᵀ (m, m).
    """

    values: Float
    products: Callable[[Float], Float]


class Target(Protocol):
    """θ = g(μ). g is written with functions that also take complex numbers, which gives its exact gradient."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of θ."""

    @property
    def moments(self) -> tuple[str, ...]:
        """Names of μ."""

    @property
    def variables(self) -> tuple[str, ...]: ...

    def collect(self, records: Records) -> Moments: ...

    def value(self, mu: Any) -> Any:
        """(m,) ↦ (k,)."""

    def refusal(self, mu: Float) -> str | None:
        """Why g has no value at μ, or None."""

    def remarks(self, theta: Float, mu: Float, errors: Float) -> list[Remark]:
        """What the analyst should know; errors (k,) are the standard errors of θ."""


@dataclass(frozen=True)
class SmoothFunction:
    """A target waiting for records."""

    target: Target
    smooth: bool = True
    response: str | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.target.parameters, *self.target.moments)

    @property
    def variables(self) -> tuple[str, ...]:
        return self.target.variables

    def response_values(self, values: Any) -> Float:
        raise NotImplementedError("moments keep the nodes of their columns")

    def equation(self, records: Records) -> SmoothEquation:
        return SmoothEquation(self, records, self.target.collect(records))


@dataclass(frozen=True)
class SmoothEquation(OfFunction):
    """β = (θ, μ) with U = (g(μ) − θ + g′(μ)(t − μ), t − μ).

    The term g′(μ)(t − μ) adds up to zero at the root and makes the first component θ's influence function, whose mean
    does not move with μ: the slope at the root is −Σw times the identity, and cutting μ off the result loses nothing.
    """

    function: SmoothFunction
    records: Records
    moments: Moments
    smooth: bool = True

    @property
    def target(self) -> Target:
        return self.function.target

    @property
    def shown(self) -> tuple[str, ...]:
        """Results list θ alone."""
        return self.target.parameters

    @property
    def start(self) -> Float:
        return np.zeros(len(self.parameters))

    def roots(self, weights: Float) -> Float:
        """The roots (B, d) under row weights (B, n): g at the weighted means; NaN where it has no value."""
        means = weights @ self.moments.values / weights.sum(axis=1, keepdims=True)
        return np.stack([np.concatenate([self._value(mu), mu]) for mu in means])

    def _value(self, mu: Float) -> Float:
        if self.target.refusal(mu) is not None:
            return np.full(len(self.target.parameters), np.nan)
        return np.asarray(self.target.value(mu))

    def refusal(self, weights: Float) -> str:
        """Why there is no root under row weights (n,)."""
        return self.target.refusal(weights @ self.moments.values / weights.sum()) or "the moments are not finite"

    def cautions(self, beta: Float, errors: Float) -> list[Remark]:
        """What the analyst should know at the root, whose standard errors are (d,)."""
        theta, mu = self._split(beta)
        return self.target.remarks(theta, mu, errors[: theta.size])

    def debiased(self, beta: Float, covariance: Float) -> Float:
        """β with θ corrected for the curvature of g, where the target asks for it; covariance (d, d) is that of β."""
        if not hasattr(self.target, "debiased"):
            return beta
        theta, mu = self._split(beta)
        moments = slice(theta.size, None)
        return np.concatenate([self.target.debiased(theta, mu, covariance[moments, moments]), mu])

    def _split(self, beta: Float) -> tuple[Float, Float]:
        size = len(self.target.parameters)
        return beta[:size], beta[size:]

    def _parts(self, beta: Float) -> tuple[Float, Float, Float]:
        """c, L and μ of U = c + L (t − μ)."""
        theta, mu = self._split(beta)
        with np.errstate(all="ignore"):
            gap = self.target.value(mu) - theta
            rows = np.vstack([gradient(self.target.value, mu), np.eye(mu.size)])
        return np.concatenate([gap, np.zeros(mu.size)]), rows, mu

    def influence(self, beta: Float) -> Float:
        gap, rows, mu = self._parts(beta)
        return np.asarray(gap + (self.moments.values - mu) @ rows.T)

    def score(self, betas: Float, weights: Float) -> Float:
        return np.stack([self._score(b, w) for b, w in zip(betas, weights, strict=True)])

    def _score(self, beta: Float, w: Float) -> Float:
        gap, rows, mu = self._parts(beta)
        return np.asarray(w.sum() * gap + rows @ (w @ self.moments.values - w.sum() * mu))

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        slope = -weights.sum(axis=1)[:, None, None] * np.eye(len(self.parameters))
        return self.score(betas, weights), slope

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        gap, rows, mu = self._parts(beta)
        total, sums = weights.sum(), weights @ self.moments.values
        centred = self.moments.products(weights) - np.outer(sums, mu) - np.outer(mu, sums) + total * np.outer(mu, mu)
        cross = np.outer(gap, rows @ (sums - total * mu))
        return np.asarray(total * np.outer(gap, gap) + cross + cross.T + rows @ centred @ rows.T)

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:  # noqa: ARG002
        return np.full(self.n, -float(left @ right))

    def under(self, records: Records) -> SmoothEquation:
        return self.function.equation(records)


def gradient(function: Callable[[Any], Any], mu: Float) -> Float:
    """g′(μ) (k, m) by complex steps, exact to rounding.

    >>> gradient(lambda m: np.stack([np.log(m[0]) - np.log(m[1])]), np.array([2.0, 4.0]))
    array([[ 0.5 , -0.25]])
    """
    step = 1e-30
    columns = [np.imag(function(mu + 1j * step * unit)) / step for unit in np.eye(mu.size)]
    return np.stack(columns, axis=-1)


def curvature(function: Callable[[Any], Any], mu: Float, covariance: Float) -> Float:
    """tr(g″(μ) Σ) (k,): twice the bias of g at an estimate of μ with covariance Σ, to first order.

    Second derivatives along the axes of Σ are differences of complex steps, so that no (m, m) Hessian is formed.

    >>> curvature(lambda m: np.stack([m[0] ** 2 + m[0] * m[1]]), np.array([1.0, 2.0]), np.array([[0.2, 0.1], [0.1, 0.5]]))
    array([0.6])
    """
    sizes, axes = np.linalg.eigh((covariance + covariance.T) / 2)
    reach = 1e-3 * np.sqrt(np.abs(sizes).max())
    tiny = 1e-30

    def slope(axis: Float, at: float) -> Float:
        return np.asarray(np.imag(function(mu + (at + 1j * tiny) * axis)) / tiny)

    parts = [size * (slope(a, reach) - slope(a, -reach)) for size, a in zip(sizes, axes.T, strict=True) if size != 0]
    return np.asarray(np.sum(parts, axis=0) / (2 * reach))

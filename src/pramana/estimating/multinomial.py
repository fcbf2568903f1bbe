"""Multinomial logit: U = (indicator(y) − p(x)) ⊗ x, linear in the indicators of the response."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pramana.arrays import Float
from pramana.estimating.equation import Records


@dataclass(frozen=True)
class MultinomialEquation:
    """The first level is the reference; coefficients run class by class.

    Attributes
    ----------
    design : (n, q).
    indicators : (n, K), reverted indicators of the response; rows sum to 1, entries may be negative.
    """

    names: tuple[str, ...]
    design: Float
    indicators: Float
    records: Records
    smooth: bool = True
    concave: bool = True

    @property
    def n(self) -> int:
        return len(self.design)

    @property
    def classes(self) -> int:
        return self.indicators.shape[1] - 1

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(f"{k + 1}:{name}" for k in range(self.classes) for name in self.names)

    @property
    def start(self) -> Float:
        return np.zeros(self.classes * self.design.shape[1])

    def eta(self, beta: Float) -> Float:
        """Linear predictors (n, K), the reference's being zero."""
        eta = self.design @ beta.reshape(self.classes, -1).T
        return np.column_stack([np.zeros(self.n), eta])

    def probabilities(self, beta: Float) -> Float:
        """(n, K)."""
        eta = self.eta(beta)
        grown = np.exp(eta - eta.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))

    def influence(self, beta: Float) -> Float:
        residual = (self.indicators - self.probabilities(beta))[:, 1:]
        return np.asarray((residual[:, :, None] * self.design[:, None, :]).reshape(self.n, -1))

    def score(self, betas: Float, weights: Float) -> Float:
        rows = []
        for beta, w in zip(betas, weights, strict=True):
            residual = (self.indicators - self.probabilities(beta))[:, 1:] * w[:, None]
            rows.append((residual.T @ self.design).ravel())
        return np.stack(rows)

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        slopes = np.stack([self._slope(b, w) for b, w in zip(betas, weights, strict=True)])
        return self.score(betas, weights), slopes

    def _slope(self, beta: Float, w: Float) -> Float:
        p, q = self.probabilities(beta)[:, 1:], self.design.shape[1]
        slope = np.empty((self.classes, q, self.classes, q))
        for j in range(self.classes):
            for k in range(j, self.classes):
                bend = w * (p[:, j] * p[:, k] - (p[:, j] if j == k else 0.0))
                slope[j, :, k] = (self.design * bend[:, None]).T @ self.design
                slope[k, :, j] = slope[j, :, k].T
        return slope.reshape(self.classes * q, -1)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        """An indicator is its own square, so (UUᵀ)* needs the indicators alone."""
        p, q = self.probabilities(beta)[:, 1:], self.design.shape[1]
        e = self.indicators[:, 1:]
        out = np.empty((self.classes, q, self.classes, q))
        for j in range(self.classes):
            for k in range(self.classes):
                square = (e[:, j] if j == k else 0.0) - e[:, j] * p[:, k] - e[:, k] * p[:, j] + p[:, j] * p[:, k]
                out[j, :, k] = (self.design * (weights * square)[:, None]).T @ self.design
        return out.reshape(self.classes * q, -1)

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:
        p = self.probabilities(beta)[:, 1:]
        a = self.design @ left.reshape(self.classes, -1).T
        b = self.design @ right.reshape(self.classes, -1).T
        return np.sum(a * p, axis=1) * np.sum(b * p, axis=1) - np.sum(a * b * p, axis=1)

    def objective(self, betas: Float, weights: Float) -> Float:
        """Σ w (Σ_k e_k η_k − log Σ_k e^η_k), (B,)."""
        from scipy.special import logsumexp

        values = []
        for beta, w in zip(betas, weights, strict=True):
            eta = self.eta(beta)
            values.append(float(w @ (np.sum(self.indicators * eta, axis=1) - logsumexp(eta, axis=1))))
        return np.array(values)

    def recedes(self, direction: Float, weights: Float) -> bool:
        """Far out, log Σ e^η grows like the largest η."""
        eta = self.eta(direction)
        eta = np.where(np.abs(eta) < 1e-7 * np.abs(eta).max(), 0.0, eta)
        gain = float(weights @ (np.sum(self.indicators * eta, axis=1) - eta.max(axis=1)))
        size = float(weights @ np.abs(eta).max(axis=1))
        return gain >= -1e-9 * size and size > 0

    def under(self, records: Records) -> MultinomialEquation:
        return replace(self, records=records)

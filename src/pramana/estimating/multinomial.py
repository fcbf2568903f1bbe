"""Multinomial logit: U = (indicator(y) − p(x)) ⊗ x, linear in the indicators of the response."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pramana.arrays import Float
from pramana.estimating.equation import Records

Spread: TypeAlias = Callable[[Records], tuple[Float, Float]]
"""Records ↦ reverted indicators (m, K) and masses (m,) of the design's rows."""


@dataclass(frozen=True)
class MultinomialEquation:
    """The first level is the reference; coefficients run class by class.

    Attributes
    ----------
    design : (m, q), m = n·C: the C nodes of a record (candidate values of perturbed covariates) lie next to each other.
    indicators : (m, K), reverted indicators of the response; entries may be negative.
    labels : names of the classes after the first; numbers by default.
    mass : (m,), the sums of the indicators' rows: the nodes' signed weights; 1 by default.
    spread : recomputes indicators and masses for records under another measure.
    """

    names: tuple[str, ...]
    design: Float
    indicators: Float
    records: Records
    labels: tuple[str, ...] | None = None
    mass: Float | None = None
    spread: Spread | None = None
    smooth: bool = True

    @property
    def n(self) -> int:
        return self.records.n

    @property
    def classes(self) -> int:
        return self.indicators.shape[1] - 1

    @property
    def concave(self) -> bool:
        """Signed indicators leave the objective concave; signed masses do not."""
        return self.mass is None or bool(np.all(self.mass >= 0))

    @property
    def parameters(self) -> tuple[str, ...]:
        labels = self.labels or tuple(str(k + 1) for k in range(self.classes))
        return tuple(f"{label}:{name}" for label in labels for name in self.names)

    @property
    def start(self) -> Float:
        return np.zeros(self.classes * self.design.shape[1])

    def eta(self, beta: Float) -> Float:
        """Linear predictors (K, m), the reference's being zero."""
        return np.vstack([np.zeros(len(self.design)), beta.reshape(self.classes, -1) @ self.design.T])

    def probabilities(self, beta: Float) -> Float:
        """(m, K)."""
        return self._shares(beta).T

    def _shares(self, beta: Float) -> Float:
        """Probabilities class by class (K, m): sums over classes then run through memory in order."""
        return _softmax(self.eta(beta))[0]

    def influence(self, beta: Float) -> Float:
        phi = _outer(self._residual(self._shares(beta)), self.design).reshape(self.n, -1, beta.size)
        return phi[:, 0] if phi.shape[1] == 1 else phi.sum(axis=1)

    def score(self, betas: Float, weights: Float) -> Float:
        pairs = zip(betas, weights, strict=True)
        return np.stack([self._score(self._shares(b), self._rows(w)) for b, w in pairs])

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        scores, slopes = [], []
        for beta, weight in zip(betas, weights, strict=True):
            p, w = self._shares(beta), self._rows(weight)
            scores.append(self._score(p, w))
            slopes.append(-self._bend(p[1:], w if self.mass is None else w * self.mass))
        return np.stack(scores), np.stack(slopes)

    def _residual(self, p: Float) -> Float:
        """Indicators less probabilities (K − 1, m)."""
        return np.asarray(self.indicators.T[1:] - (p[1:] if self.mass is None else p[1:] * self.mass))

    def _score(self, p: Float, w: Float) -> Float:
        return np.asarray(((self._residual(p) * w) @ self.design).ravel())

    def _bend(self, p: Float, w: Float) -> Float:
        """Σ w (diag(p) − ppᵀ) ⊗ xxᵀ, block by block of classes."""
        q = self.design.shape[1]
        out = np.empty((self.classes, q, self.classes, q))
        for j in range(self.classes):
            share = w * p[j]
            for k in range(j, self.classes):
                bend = share * ((1 - p[j]) if j == k else -p[k])
                out[j, :, k] = (self.design.T * bend) @ self.design
                out[k, :, j] = out[j, :, k].T
        return out.reshape(self.classes * q, -1)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        """An indicator is its own square, so (UUᵀ)* needs the indicators alone."""
        p, w, q = self._shares(beta)[1:], self._rows(weights), self.design.shape[1]
        e = self.indicators.T[1:]
        mass = 1.0 if self.mass is None else self.mass
        out = np.empty((self.classes, q, self.classes, q))
        for j in range(self.classes):
            for k in range(j, self.classes):
                square = mass * p[j] * p[k] - e[j] * p[k] - e[k] * p[j] + (e[j] if j == k else 0.0)
                out[j, :, k] = (self.design.T * (w * square)) @ self.design
                out[k, :, j] = out[j, :, k].T
        return out.reshape(self.classes * q, -1)

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:
        p = self._shares(beta)[1:]
        a = left.reshape(self.classes, -1) @ self.design.T
        b = right.reshape(self.classes, -1) @ self.design.T
        rows = np.sum(a * p, axis=0) * np.sum(b * p, axis=0) - np.sum(a * b * p, axis=0)
        rows = rows if self.mass is None else rows * self.mass
        return np.asarray(rows.reshape(self.n, -1).sum(axis=1))

    def absolute_slopes(self, beta: Float, weights: Float) -> Float:
        """Σ w |∂φ_j/∂β_j| (d,)."""
        p, w = self._shares(beta)[1:], self._rows(weights)
        bend = p * (1 - p) if self.mass is None else p * (1 - p) * self.mass
        if len(self.design) == self.n:
            return np.asarray(((np.abs(bend) * w) @ self.design**2).ravel())
        squares = _outer(bend, self.design**2).reshape(self.n, -1, beta.size).sum(axis=1)
        return np.asarray(weights @ np.abs(squares))

    def objective(self, betas: Float, weights: Float) -> Float:
        """Σ w (Σ_k e_k η_k − log Σ_k e^η_k), (B,)."""
        values = []
        for beta, weight in zip(betas, weights, strict=True):
            eta = self.eta(beta)
            values.append(self._gain(eta, _softmax(eta)[1], self._rows(weight)))
        return np.array(values)

    def recedes(self, direction: Float, weights: Float) -> bool:
        """Far out, log Σ e^η grows like the largest η."""
        eta = self.eta(direction)
        size = np.abs(eta)
        eta = np.where(size < 1e-7 * size.max(), 0.0, eta)
        w = self._rows(weights)
        total = float(w @ size.max(axis=0))
        return self._gain(eta, eta.max(axis=0), w) >= -1e-9 * total and total > 0

    def _gain(self, eta: Float, top: Float, w: Float) -> float:
        seen = np.einsum("mk,km->m", self.indicators, eta)
        return float(w @ (seen - (top if self.mass is None else top * self.mass)))

    def under(self, records: Records) -> MultinomialEquation:
        if self.spread is None:
            return replace(self, records=records)
        indicators, mass = self.spread(records)
        return replace(self, records=records, indicators=indicators, mass=None if self.mass is None else mass)

    def _rows(self, weights: Float) -> Float:
        """Row weights, one a node."""
        copies = len(self.design) // self.n
        return weights if copies == 1 else np.repeat(weights, copies)


def _softmax(eta: Float) -> tuple[Float, Float]:
    """Probabilities (K, m) and log Σ e^η (m,), without overflow."""
    top = eta.max(axis=0)
    grown = np.exp(eta - top)
    total = grown.sum(axis=0)
    return grown / total, top + np.log(total)


def _outer(left: Float, design: Float) -> Float:
    """Rows left_j ⊗ design, (m, (K − 1) q)."""
    return np.asarray((left.T[:, :, None] * design[:, None, :]).reshape(len(design), -1))

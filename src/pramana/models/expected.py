"""What a model expects of a record, as a function of its linear predictors: the mean, or the chances of classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.estimating.families import Family


class Expected(ABC):
    """μ(η) (m, K) of L linear predictors η = D(x)β, which are linear in the row x of the design.

    With A = ∂μ/∂η, the derivative of μ along a change of x is A D(ẋ)β, and its gradient by β is A D(ẋ) + (dA/dt) D(x).
    """

    @property
    @abstractmethod
    def outcomes(self) -> tuple[str, ...]:
        """Names of what is expected (K)."""

    @abstractmethod
    def predictors(self, x: Float, beta: Float) -> Float:
        """η (m, L)."""

    @abstractmethod
    def gradients(self, parts: Float, x: Float) -> Float:
        """Σ_l parts[:, k, l] ∂η_l/∂β, (m, K, q), for parts (m, K, L)."""

    @abstractmethod
    def means(self, eta: Float) -> Float:
        """μ (m, K)."""

    @abstractmethod
    def rise(self, eta: Float) -> Float:
        """A = ∂μ/∂η (m, K, L)."""

    @abstractmethod
    def bend(self, eta: Float, along: Float) -> Float:
        """dA/dt (m, K, L) where η moves along a direction (m, L)."""


@dataclass(frozen=True)
class ExpectedMean(Expected):
    """One mean, μ(xᵀβ)."""

    family: Family

    @property
    def outcomes(self) -> tuple[str, ...]:
        return ("",)

    def predictors(self, x: Float, beta: Float) -> Float:
        return np.asarray((x @ beta)[:, None])

    def gradients(self, parts: Float, x: Float) -> Float:
        return np.asarray(parts * x[:, None, :])

    def means(self, eta: Float) -> Float:
        return np.asarray(self.family.curve(eta)[0])

    def rise(self, eta: Float) -> Float:
        return np.asarray(self.family.curve(eta)[1])[:, :, None]

    def bend(self, eta: Float, along: Float, step: float = 1e-5) -> Float:
        """μ″ by central differences."""
        return (self.rise(eta + step) - self.rise(eta - step)) / (2 * step) * along[:, :, None]


@dataclass(frozen=True)
class ClassChances(Expected):
    """Multinomial logit: chances in proportion to exp(η_k), with η = 0 for the first class and xᵀβ_k for the others."""

    levels: tuple[str, ...]

    @property
    def outcomes(self) -> tuple[str, ...]:
        return self.levels

    def predictors(self, x: Float, beta: Float) -> Float:
        others = len(self.levels) - 1
        return np.asarray(x @ beta.reshape(others, -1).T)

    def gradients(self, parts: Float, x: Float) -> Float:
        m, size, _ = parts.shape
        return np.asarray(np.einsum("mkl,mq->mklq", parts, x).reshape(m, size, -1))

    def means(self, eta: Float) -> Float:
        whole = np.column_stack([np.zeros(len(eta)), eta])
        grown = np.exp(whole - whole.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))

    def rise(self, eta: Float) -> Float:
        p = self.means(eta)
        return _own(p) - p[:, :, None] * p[:, None, 1:]

    def bend(self, eta: Float, along: Float) -> Float:
        p = self.means(eta)
        moved = np.einsum("mkl,ml->mk", self.rise(eta), along)
        return _own(moved) - moved[:, :, None] * p[:, None, 1:] - p[:, :, None] * moved[:, None, 1:]


def _own(values: Float) -> Float:
    """values[:, k] where the predictor is that of class k, else 0: (m, K, K − 1)."""
    size = values.shape[1]
    return np.asarray(values[:, :, None] * np.eye(size)[None, :, 1:])


@dataclass(frozen=True)
class OrderedChances(Expected):
    """Proportional odds: Pr(y ≤ k) = expit(η_k), η_k = θ_k − xᵀβ without the intercept, whose column multiplies θ."""

    levels: tuple[str, ...]
    intercept: int
    """Its place in the design."""

    @property
    def outcomes(self) -> tuple[str, ...]:
        return self.levels

    @property
    def cuts(self) -> int:
        return len(self.levels) - 1

    def predictors(self, x: Float, beta: Float) -> Float:
        rest = np.delete(x, self.intercept, axis=1) @ beta[self.cuts :]
        return np.asarray(x[:, [self.intercept]] * beta[: self.cuts] - rest[:, None])

    def gradients(self, parts: Float, x: Float) -> Float:
        rest = np.delete(x, self.intercept, axis=1)
        by_cut = parts * x[:, self.intercept, None, None]
        return np.concatenate([by_cut, -parts.sum(axis=2)[:, :, None] * rest[:, None, :]], axis=2)

    def means(self, eta: Float) -> Float:
        from scipy.special import expit

        ends = np.zeros((len(eta), 1))
        return np.diff(np.hstack([ends, expit(eta), ends + 1]), axis=1)

    def rise(self, eta: Float) -> Float:
        return _between(_density(eta))

    def bend(self, eta: Float, along: Float) -> Float:
        from scipy.special import expit

        return _between(_density(eta) * (expit(-eta) - expit(eta)) * along)


def _density(eta: Float) -> Float:
    from scipy.special import expit

    return np.asarray(expit(eta) * expit(-eta))


def _between(values: Float) -> Float:
    """A class gains at its upper threshold what the next one loses: (m, L) ↦ (m, L + 1, L)."""
    size = values.shape[1]
    signs = np.vstack([np.eye(size), np.zeros(size)]) - np.vstack([np.zeros(size), np.eye(size)])
    return np.asarray(values[:, None, :] * signs)

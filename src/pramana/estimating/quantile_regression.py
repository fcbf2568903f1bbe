"""Quantile regression with a smoothed score: the check loss has a kink, and reverted weights make it non-convex."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from pramana.arrays import Float, Int
from pramana.estimating.generalized_linear import FromColumns
from pramana.estimating.stacked import System
from pramana.kernels.newton import newton


@dataclass(frozen=True)
class QuantileSystem(System):
    """U = x {q − Φ((xᵀβ − y)/h)}, the score of the check loss convolved with a Gaussian kernel.

    Attributes
    ----------
    h : standard deviation of the kernel, in units of the response.
    spread : of the residuals; kernels this wide start the search.
    """

    terms: tuple[str, ...]
    q: float
    h: float
    spread: float
    design_of: FromColumns
    response_of: FromColumns

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.terms

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        return {"x": self.design_of(columns, n), "y": self.response_of(columns, n)}

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Least squares, then the roots under kernels that narrow down to the one asked for."""
        x, y = arrays["x"], arrays["y"]
        beta: Float = np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], dtype=float)
        scale = 1 / np.sqrt(np.maximum(np.sum((x * weights[:, None]) ** 2, axis=0), 1e-300))
        for width in np.geomspace(max(self.spread, self.h), self.h, 5):

            def evaluate(betas: Float, _rows: Int, width: float = float(width)) -> tuple[Float, Float]:
                score = weights @ _score(betas[0], x, y, self.q, width)
                return score[None], _slope(betas[0], x, y, weights, width)[None]

            found = newton(evaluate, beta[None], scale)
            beta = found.beta[0] if np.all(np.isfinite(found.beta)) else beta
        return beta

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        return _score(beta, arrays["x"], arrays["y"], self.q, self.h)

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        return _slope(beta, arrays["x"], arrays["y"], weights, self.h)

    def facts(self) -> dict[str, str]:
        return {"Quantile": f"{self.q:g}", "Bandwidth": f"{self.h:.4g}, standard deviation of a Gaussian kernel"}


def _score(beta: Float, x: Float, y: Float, q: float, h: float) -> Float:
    return np.asarray(x * (q - ndtr((x @ beta - y) / h))[:, None])


def _slope(beta: Float, x: Float, y: Float, weights: Float, h: float) -> Float:
    t = (x @ beta - y) / h
    bend = weights * np.exp(-0.5 * t**2) / (h * np.sqrt(2 * np.pi))
    return np.asarray(-(x * bend[:, None]).T @ x)

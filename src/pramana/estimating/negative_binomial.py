"""Negative binomial regression with its dispersion: the two likelihood scores as one system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import SolveError
from pramana.estimating.generalized_linear import GeneralizedLinear
from pramana.estimating.stacked import System

DISPERSION = "log(dispersion)"


@dataclass(frozen=True)
class NegativeBinomialSystem(System):
    """U = (x (y − μ)/(1 + αμ), {ψ(1/α) − ψ(y + 1/α) + log(1 + αμ)}/α + (y − μ)/(1 + αμ)), V(y) = μ + αμ².

    Attributes
    ----------
    mean_model : the log-linear model of the mean.
    """

    mean_model: GeneralizedLinear

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.mean_model.parameters, DISPERSION)

    def facts(self) -> dict[str, str]:
        return {"Family": "negative-binomial, log link, dispersion estimated"}

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        model = self.mean_model
        out = {"x": model.design_of(columns, n), "y": model.response_of(columns, n)}
        model.family.check_response(out["y"], model.label)
        out["offset"] = np.zeros(n) if model.offset_of is None else model.offset_of(columns, n)
        return out

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """A constant mean, and the dispersion by moments."""
        y, total = arrays["y"], weights.sum()
        mean = float(weights @ y / total)
        excess = float(weights @ (y - mean) ** 2 / total) - mean
        if mean <= 0 or excess <= 0:
            raise SolveError(
                f"the variance of {self.mean_model.label!r} exceeds its mean {mean:.4g} by {excess:.4g}, and a negative "
                "binomial needs an excess above 0: use family='poisson'"
            )
        flat = np.linalg.lstsq(arrays["x"], np.log(mean) - arrays["offset"], rcond=None)[0]
        return np.append(flat, np.log(excess / mean**2))

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        from scipy.special import psi

        y, mu, alpha = self._at(beta, arrays)
        shape, force = 1 / alpha, (y - mu) / (1 + alpha * mu)
        own = shape * (psi(shape) - psi(y + shape) + np.log1p(alpha * mu)) + force
        return np.column_stack([arrays["x"] * force[:, None], own])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        from scipy.special import polygamma, psi

        y, mu, alpha = self._at(beta, arrays)
        x, shape, grown = arrays["x"], 1 / alpha, 1 + alpha * mu
        out = np.empty((beta.size, beta.size))
        out[:-1, :-1] = -(x * (weights * mu * (1 + alpha * y) / grown**2)[:, None]).T @ x
        tilt = alpha * mu * (y - mu) / grown**2
        out[:-1, -1] = out[-1, :-1] = -(weights * tilt) @ x
        bend = shape * (polygamma(1, y + shape) - polygamma(1, shape)) + alpha * mu / grown
        own = shape * (bend - psi(shape) + psi(y + shape) - np.log(grown)) - tilt
        out[-1, -1] = weights @ own
        return out

    def _at(self, beta: Float, arrays: Mapping[str, Float]) -> tuple[Float, Float, float]:
        """Response, mean and dispersion."""
        return arrays["y"], np.exp(arrays["x"] @ beta[:-1] + arrays["offset"]), float(np.exp(beta[-1]))

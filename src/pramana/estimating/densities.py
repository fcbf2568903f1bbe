"""Log densities of the exponential families: what a likelihood needs beyond the score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError
from pramana.estimating.families import Family

LogDensity: TypeAlias = Callable[[Float, Float, float], Float]
Derivatives: TypeAlias = Callable[[Float, Float, float], tuple[Float, Float]]
DispersionOf: TypeAlias = Callable[[Float, Float, Float], float]


@dataclass(frozen=True)
class Density:
    """log f(y; μ, φ) with dispersion φ.

    Attributes
    ----------
    log : (y, μ, φ) ↦ log f.
    discrete : a probability, not a density, so that the response may be perturbed.
    derivatives : (y, μ, φ) ↦ first and second derivative of log f in log φ; None where φ = 1 is known.
    dispersion : (y, μ, weights) ↦ the φ that maximises Σ w log f.
    """

    log: LogDensity
    discrete: bool = False
    derivatives: Derivatives | None = None
    dispersion: DispersionOf | None = None

    @property
    def dispersed(self) -> bool:
        return self.derivatives is not None


def density_of(family: Family) -> Density:
    """The density of a family.

    >>> from pramana.estimating import family_of
    >>> float(density_of(family_of("poisson")).log(np.array(2.0), np.array(1.0), 1.0).round(4))
    -1.6931
    """
    known = {
        "binomial": Density(_bernoulli, discrete=True),
        "poisson": Density(_poisson, discrete=True),
        "gaussian": Density(_gaussian, derivatives=_by_deviance(_square), dispersion=_mean_of(_square)),
        "gamma": Density(_gamma, derivatives=_gamma_derivatives, dispersion=_gamma_dispersion),
        "inverse-gaussian": Density(
            _inverse_gaussian, derivatives=_by_deviance(_wald_square), dispersion=_mean_of(_wald_square)
        ),
    }
    if family.name == "negative-binomial":
        return Density(_negative_binomial(family.curve.shape), discrete=True)
    if family.name not in known:
        raise FormulaError(f"family {family.name!r} has no likelihood here: use method='reversion'")
    return known[family.name]


def _bernoulli(y: Float, mu: Float, _phi: float) -> Float:
    from scipy.special import xlog1py, xlogy

    return np.asarray(xlogy(y, mu) + xlog1py(1 - y, -mu))


def _poisson(y: Float, mu: Float, _phi: float) -> Float:
    from scipy.special import gammaln, xlogy

    return np.asarray(xlogy(y, mu) - mu - gammaln(y + 1))


def _negative_binomial(dispersion: float) -> LogDensity:
    def log(y: Float, mu: Float, _phi: float) -> Float:
        from scipy.special import gammaln, xlogy

        size = 1 / dispersion
        known = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
        return np.asarray(known + xlogy(y, dispersion * mu) - (y + size) * np.log1p(dispersion * mu))

    return log


def _gaussian(y: Float, mu: Float, phi: float) -> Float:
    return np.asarray(-0.5 * np.log(2 * np.pi * phi) - _square(y, mu) / (2 * phi))


def _inverse_gaussian(y: Float, mu: Float, phi: float) -> Float:
    return np.asarray(-0.5 * np.log(2 * np.pi * phi * y**3) - _wald_square(y, mu) / (2 * phi))


def _square(y: Float, mu: Float) -> Float:
    return np.asarray((y - mu) ** 2)


def _wald_square(y: Float, mu: Float) -> Float:
    return np.asarray((y - mu) ** 2 / (mu**2 * y))


def _by_deviance(square: Callable[[Float, Float], Float]) -> Derivatives:
    """For log f = −(log φ)/2 − square/(2φ) + constant."""

    def derivatives(y: Float, mu: Float, phi: float) -> tuple[Float, Float]:
        half = square(y, mu) / (2 * phi)
        return half - 0.5, -half

    return derivatives


def _mean_of(square: Callable[[Float, Float], Float]) -> DispersionOf:
    def fitted(y: Float, mu: Float, weights: Float) -> float:
        return float(np.sum(weights * square(y, mu)) / np.sum(weights))

    return fitted


def _gamma(y: Float, mu: Float, phi: float) -> Float:
    from scipy.special import gammaln

    shape = 1 / phi
    return np.asarray(shape * np.log(shape * y / mu) - np.log(y) - shape * y / mu - gammaln(shape))


def _gamma_derivatives(y: Float, mu: Float, phi: float) -> tuple[Float, Float]:
    """Through the shape 1/φ, whose derivative in log φ is −1/φ."""
    from scipy.special import polygamma, psi

    shape = 1 / phi
    first = np.log(shape) + 1 + np.log(y / mu) - y / mu - psi(shape)
    return -shape * first, shape * first + shape**2 * (1 / shape - polygamma(1, shape))


def _gamma_dispersion(y: Float, mu: Float, weights: Float) -> float:
    """log α − ψ(α) = the mean of y/μ − log(y/μ) − 1, by Newton on log α."""
    from scipy.special import polygamma, psi

    ratio = y / mu
    target = float(np.sum(weights * (ratio - np.log(ratio) - 1)) / np.sum(weights))
    shape = (3 - target + np.sqrt((target - 3) ** 2 + 24 * target)) / (12 * target)
    for _ in range(50):
        gap = np.log(shape) - psi(shape) - target
        step = gap / (1 - shape * polygamma(1, shape))
        shape *= np.exp(-step)
        if abs(step) < 1e-14:
            break
    return float(1 / shape)

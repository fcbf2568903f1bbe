"""Exponential families and links: everything a generalised linear score needs to know of its distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pramana.arrays import Column, Float
from pramana.errors import DataError, FormulaError, counted, listing, quoted, suggestion
from pramana.kernels.predictor import IDENTITY, LOGIT, NEGATIVE_BINOMIAL, POWER, Curve

_Value = Float | float
LEAST = -700.0
"""Log odds below which a probability is next to none, and its inverse no longer a number."""


@dataclass(frozen=True)
class Family:
    """A variance function with a link.

    Attributes
    ----------
    curve : η ↦ (μ, μ′, a, a′), a = μ′/V(μ), in closed form.
    link_of : μ ↦ η, for starting values.
    lower, upper, strict : the interval of admissible responses, and whether its ends are excluded.
    potential : b(η) with b′ = μ when the link is canonical, else None.
    """

    name: str
    link: str
    curve: Curve
    link_of: Callable[[float], float]
    lower: float = -np.inf
    upper: float = np.inf
    strict: bool = False
    potential: Callable[[Float], Float] | None = None
    recession: Callable[[Float], Float] | None = None

    def check_response(self, values: Column, name: str) -> None:
        """Refuse responses that the family cannot have, naming the first."""
        if self.strict:
            bad = ~((values > self.lower) & (values < self.upper))
        else:
            bad = ~((values >= self.lower) & (values <= self.upper))
        if np.any(bad):
            open_, close = ("(", ")") if self.strict else ("[", "]")
            # Different values are counted: a record has several, where its response was perturbed.
            outside = dict.fromkeys(values[bad].tolist())
            raise DataError(
                f"response {name!r} has {counted(len(outside), 'different value')} outside {open_}{self.lower:g}, {self.upper:g}{close}, such "
                f"as {quoted(listing(outside, 3))}: family {self.name!r} cannot have them; choose another family or transform the response"
            )

    def start(self, mean: float) -> float:
        """A linear predictor that gives about this mean, kept inside the admissible interval."""
        low = self.lower + 0.05 if np.isfinite(self.lower) else mean
        high = self.upper - 0.05 if np.isfinite(self.upper) else mean
        return self.link_of(min(max(mean, low), high) if np.isfinite(mean) else low)


def _identity(eta: Float) -> tuple[Float, Float, _Value, _Value]:
    return eta, np.ones_like(eta), 1.0, 0.0


def _logit(eta: Float) -> tuple[Float, Float, _Value, _Value]:
    mu = 1 / (1 + np.exp(-np.maximum(eta, LEAST)))  # half the time of SciPy's expit
    return mu, mu * (1 - mu), 1.0, 0.0


def _probit(eta: Float) -> tuple[Float, Float, _Value, _Value]:
    from scipy.special import log_ndtr, ndtr

    mu = ndtr(eta)
    density = np.exp(-0.5 * eta**2) / np.sqrt(2 * np.pi)
    a = np.exp(-0.5 * eta**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(eta) - log_ndtr(-eta))
    return mu, density, a, -a * eta - a**2 * (1 - 2 * mu)


def _cloglog(eta: Float) -> tuple[Float, Float, _Value, _Value]:
    rate = np.exp(eta)
    mu = -np.expm1(-rate)
    dmu = rate * np.exp(-rate)
    a = rate / mu
    return mu, dmu, a, a * (1 - dmu / mu)


def _binomial_log(eta: Float) -> tuple[Float, Float, _Value, _Value]:
    """Defined for η < 0 only: outside, NaN makes the solver shorten its step."""
    mu = np.where(eta < 0, np.exp(eta), np.nan)
    return mu, mu, 1 / (1 - mu), mu / (1 - mu) ** 2


def _log(power: int, eta: Float) -> tuple[Float, Float, _Value, _Value]:
    """Log link with V(μ) = μ^power, so a = μ^(1 − power)."""
    mu = np.exp(eta)
    if power == 1:
        return mu, mu, 1.0, 0.0
    a = mu ** (1 - power)
    return mu, mu, a, (1 - power) * a


def _power_curve(power: int) -> Curve:
    return Curve(partial(_log, power), POWER, float(power))


def _negative_binomial(dispersion: float, eta: Float) -> tuple[Float, Float, _Value, _Value]:
    mu = np.exp(eta)
    a = 1 / (1 + dispersion * mu)
    return mu, mu, a, -dispersion * mu * a**2


def _log_of(mean: float) -> float:
    return float(np.log(max(mean, 1e-8)))


def _normal_quantile(p: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(p))


def _positive(eta: Float) -> Float:
    return np.maximum(eta, 0.0)


def _barrier(eta: Float) -> Float:
    """Recession of e^η: infinite where η grows."""
    return np.where(eta > 0, np.inf, 0.0)


def _logit_of(mean: float) -> float:
    return float(np.log(mean / (1 - mean)))


def _cloglog_of(mean: float) -> float:
    return float(np.log(-np.log1p(-mean)))


def _half_square(eta: Float) -> Float:
    return np.asarray(0.5 * eta**2)


def _softplus(eta: Float) -> Float:
    return np.logaddexp(0, eta)


_UNIT: dict[str, Any] = {"lower": 0.0, "upper": 1.0}
_POSITIVE: dict[str, Any] = {"lower": 0.0, "strict": True}

FAMILIES: dict[tuple[str, str], Family] = {
    (f.name, f.link): f
    for f in (
        Family("gaussian", "identity", Curve(_identity, IDENTITY), float, potential=_half_square),
        Family(
            "binomial",
            "logit",
            Curve(_logit, LOGIT),
            _logit_of,
            **_UNIT,
            potential=_softplus,
            recession=_positive,
        ),
        Family("binomial", "probit", Curve(_probit), _normal_quantile, **_UNIT),
        Family("binomial", "cloglog", Curve(_cloglog), _cloglog_of, **_UNIT),
        Family("binomial", "log", Curve(_binomial_log), _log_of, **_UNIT),
        Family("poisson", "log", _power_curve(1), _log_of, lower=0.0, potential=np.exp, recession=_barrier),
        Family("gamma", "log", _power_curve(2), _log_of, **_POSITIVE),
        Family("inverse-gaussian", "log", _power_curve(3), _log_of, **_POSITIVE),
    )
}
MEANT = {
    **dict.fromkeys(("logit", "logistic", "bernoulli", "quasibinomial"), 'family="binomial"'),
    **{link: f'family="binomial", link="{link}"' for link in ("probit", "cloglog")},
    **dict.fromkeys(("normal", "linear", "ols", "identity"), 'family="gaussian"'),
    **dict.fromkeys(("log", "count", "quasipoisson"), 'family="poisson"'),
    **dict.fromkeys(("nb", "negbin", "negativebinomial"), 'family="negative-binomial"'),
    **dict.fromkeys(("multinomial", "ordinal"), "a plan of its own, as in fit(pramana.multinomial('y ~ x'), ...)"),
}
"""What other programs call a family, or a link, and what it is called here."""
NAMES = ("gaussian", "binomial", "poisson", "gamma", "inverse-gaussian", "negative-binomial")


def negative_binomial(dispersion: float) -> Family:
    """Negative binomial with log link and known dispersion: V(μ) = μ + dispersion · μ².

    >>> import pramana as pr
    >>> mechanism = pr.Mechanism({"g": pr.TransitionMatrix.randomized_response(["a", "b"], keep=0.9)})
    >>> visits = {"y": [0, 1, 2, 3, 1, 4, 5, 6], "g": ["a", "a", "a", "a", "b", "b", "b", "b"]}
    >>> pr.fit("y ~ g", visits, mechanism, family=pr.negative_binomial(0.5)).estimate.round(3)
    array([0.172, 1.29 ])
    """
    if not (isinstance(dispersion, int | float) and np.isfinite(dispersion) and dispersion > 0):
        raise FormulaError(f"the dispersion of a negative binomial must be a positive number, not {dispersion!r}")
    curve = Curve(partial(_negative_binomial, float(dispersion)), NEGATIVE_BINOMIAL, float(dispersion))
    return Family("negative-binomial", "log", curve, _log_of, lower=0.0)


def plain_name(family: str) -> str:
    """A family's name as it is looked up.

    >>> plain_name("Negative_Binomial")
    'negative-binomial'
    """
    return str(family).lower().replace("_", "-").replace(" ", "-")


def family_of(family: str | Family, link: str | None = None) -> Family:
    """Look a family up by name, with its usual link unless another is given.

    >>> family_of("binomial", "probit").link
    'probit'
    """
    if isinstance(family, Family):
        if link not in (None, family.link):
            raise FormulaError(
                f"family {family.name!r} was given with link {family.link!r}, and link={link!r} contradicts it"
            )
        return family
    name = plain_name(family)
    if name == "negative-binomial":
        raise FormulaError(
            "the negative binomial needs its dispersion: use family=pramana.negative_binomial(dispersion)"
        )
    links = [k[1] for k in FAMILIES if k[0] == name]
    if name in MEANT:
        raise FormulaError(f"family {family!r} is unknown here: write {MEANT[name]}")
    if not links:
        raise FormulaError(f"family {family!r} is unknown: {suggestion(name, NAMES)}")
    if link is not None and link not in links:
        raise FormulaError(f"family {name!r} has no link {link!r}: {suggestion(link, links)}")
    return FAMILIES[name, link or links[0]]

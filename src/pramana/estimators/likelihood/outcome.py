"""The result of a maximum likelihood fit, and the comparison of nested ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.errors import PramanaError
from pramana.numbers import count, told_p
from pramana.result import Result


@dataclass(frozen=True)
class LikelihoodResult(Result):
    """A `Result` with its likelihood.

    Attributes
    ----------
    log_likelihood : at the maximum; of the released response and perturbed covariates given the rest.
    parameter_count : coefficients, dispersion and free parameters of the covariate model.
    dispersion : its maximum likelihood estimate, None where the family has none.
    pseudo : weights or clusters were used, so that likelihoods cannot be compared.
    content : what the likelihood is a likelihood of.
    """

    log_likelihood: float = float("nan")
    parameter_count: int = 0
    dispersion: float | None = None
    pseudo: bool = False
    content: tuple[str, ...] = ()

    @property
    def aic(self) -> float:
        """Akaike's information criterion, −2 log L + 2 parameters."""
        if self.pseudo:
            raise PramanaError("a pseudo-likelihood (weights or clusters) has no AIC: use Wald tests, result.test(...)")
        return 2 * (self.parameter_count - self.log_likelihood)

    @property
    def bic(self) -> float:
        """The Bayesian information criterion, −2 log L + log(records) · parameters."""
        return self.aic + (float(np.log(self.n)) - 2) * self.parameter_count

    @property
    def llf(self) -> float:
        return self.log_likelihood

    def to_dict(self, *, exponentiate: bool = False, level: float | None = None) -> dict[str, Any]:
        likelihood = {
            "log_likelihood": self.log_likelihood,
            "parameters": self.parameter_count,
            "aic": None if self.pseudo else self.aic,
            "dispersion": self.dispersion,
            "pseudo": self.pseudo,
        }
        return super().to_dict(exponentiate=exponentiate, level=level) | {"likelihood": likelihood}


@dataclass(frozen=True)
class LikelihoodRatioTest:
    """Twice the gain in log-likelihood, a chi-square with as many degrees of freedom as parameters were added."""

    statistic: float
    df: int
    p_value: float

    def __str__(self) -> str:
        return f"Likelihood-ratio test: chi2({self.df}) = {self.statistic:.4g}, {told_p(self.p_value)}"


def lr_test(small: Result, large: Result) -> LikelihoodRatioTest:
    """Likelihood-ratio test of a model against a larger one that contains it.

    Both fits must describe the same released columns with the same family and link, and the terms of the smaller model must
    be among those of the larger one, coded alike. A perturbed covariate that only the larger model uses is kept
    in the smaller one with `Likelihood(covariates=("edu",))`, and clean covariates that only one of them uses need the
    same `covariate_model` in both.

    >>> import numpy as np, pramana as pr
    >>> P = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)
    >>> data = {"y": np.repeat([0, 1, 0, 1], [300, 200, 150, 350]), "x": np.repeat([0, 1], 500)}
    >>> fits = [pr.fit(f, data, pr.Mechanism({"y": P}), family="binomial", method="likelihood") for f in ("y ~ 1", "y ~ x")]
    >>> print(pr.lr_test(*fits))
    Likelihood-ratio test: chi2(1) = 92.4, p < 0.0001
    """
    from scipy.stats import chi2

    a, b = _checked(small), _checked(large)
    if a.n != b.n:
        raise PramanaError(
            f"the fits use {count(a.n)} and {count(b.n)} records: a likelihood-ratio test needs the same ones"
        )
    if a.content != b.content:
        raise PramanaError(
            f"the likelihoods are of different things ({', '.join(a.content)} against {', '.join(b.content)}): give both "
            "fits the same response, family, link and Likelihood(covariates=..., covariate_model=...)"
        )
    df, gain = b.parameter_count - a.parameter_count, 2 * (b.log_likelihood - a.log_likelihood)
    if df <= 0:
        raise PramanaError(
            f"the second fit has {b.parameter_count} parameters and the first {a.parameter_count}: give the smaller model first"
        )
    extra = [name for name in a.parameters if name not in b.parameters]
    if extra:
        raise PramanaError(
            f"the smaller model ({', '.join(a.parameters)}) cannot be recognised as part of the larger one ({', '.join(b.parameters)}), "
            f"which has no term {extra[0]!r}: write the larger formula as the smaller one with terms added"
        )
    if gain < -1e-6 * max(1.0, abs(a.log_likelihood)):
        raise PramanaError(
            f"the larger model fits worse (by {-gain:.3g}): the models are not nested, or a fit found a local maximum"
        )
    statistic = float(np.maximum(gain, 0.0))
    return LikelihoodRatioTest(statistic, df, float(chi2.sf(statistic, df)))


def _checked(result: Result) -> LikelihoodResult:
    if not isinstance(result, LikelihoodResult):
        raise PramanaError("a likelihood-ratio test needs two fits with method='likelihood'")
    if result.pseudo:
        raise PramanaError("fits with weights or clusters have a pseudo-likelihood: use a Wald test, result.test(...)")
    return result

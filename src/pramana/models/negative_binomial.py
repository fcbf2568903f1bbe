"""Negative binomial regression with its dispersion: the two likelihood scores as one system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pramana.arrays import Bool, Float
from pramana.errors import FormulaError, SolveError
from pramana.estimating.equation import Note
from pramana.estimating.families import FAMILIES, negative_binomial
from pramana.estimating.function import Question
from pramana.estimating.generalized_linear import GeneralizedLinear
from pramana.estimating.system import Later, StackedFunction, System
from pramana.formulas.functions import Own
from pramana.formulas.parsed import FormulaQuestion
from pramana.frames import Schema, Table
from pramana.models.generalized_linear import Glm

DISPERSION = "log(dispersion)"
LEAST = -300.0
"""Logarithm of a dispersion below which a step may not lead: its inverse must be a number."""
SMALL = 1e-6
"""Dispersion below which the score for it is computed from its series."""
HARDLY_KNOWN = 1.0
"""Standard error of the log dispersion above which it is reported."""


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

    @property
    def curvatures(self) -> tuple[slice, ...]:
        return (slice(len(self.mean_model.parameters)),)

    @property
    def exponentials(self) -> tuple[str, ...]:
        return (*self.mean_model.parameters, "dispersion")

    @property
    def prediction(self) -> GeneralizedLinear:
        return self.mean_model

    def facts(self) -> dict[str, str]:
        return {"Family": "negative-binomial, log link, dispersion estimated"}

    def arrays(self, columns: Mapping[str, object], n: int) -> dict[str, Float]:
        model = self.mean_model
        out = {"x": model.design_of(columns, n), "y": model.response_of(columns, n)}
        model.family.check_response(out["y"], model.label)
        out["offset"] = np.zeros(n) if model.offset_of is None else model.offset_of(columns, n)
        return out

    @property
    def first(self) -> GeneralizedLinear:
        """Poisson, whose mean is the same."""
        return replace(self.mean_model, family=FAMILIES["poisson", "log"])

    def first_sums(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        """Σ w {(y − μ)² − y}, Σ w μ² and Σ w."""
        y, mu = arrays["y"], np.exp(arrays["x"] @ beta + arrays["offset"])
        return np.array([weights @ ((y - mu) ** 2 - y), weights @ mu**2, weights.sum()])

    def completed(self, beta: Float, sums: Float) -> Float:
        """The dispersion by moments; its likelihood rises from 0 exactly where the residuals vary more than Poisson's."""
        excess, square, weight = sums
        if excess <= 0:
            raise SolveError(
                f"{self.mean_model.label!r} does not vary more around its mean than Poisson counts do (by {excess / weight:.3g}, "
                "and a negative binomial needs more than 0): use family='poisson'"
            )
        return np.append(beta, np.log(excess / square))

    def start(self, arrays: Mapping[str, Float], weights: Float) -> Float:
        """A constant mean, and the dispersion one."""
        mean = max(float(weights @ arrays["y"] / weights.sum()), 1e-8)
        flat = np.linalg.lstsq(arrays["x"], np.log(mean) - arrays["offset"], rcond=None)[0]
        return np.append(flat, 0.0)

    def remarks(self, beta: Float, arrays: Mapping[str, Float], weights: Float, covariance: Later) -> list[Note]:  # noqa: ARG002
        error = float(np.sqrt(covariance()[-1, -1]))
        if not error > HARDLY_KNOWN:
            return []
        message = (
            f"the dispersion {np.exp(beta[-1]):.2g} is hardly told from 0 (standard error of its logarithm {error:.2g}, limit "
            f"{HARDLY_KNOWN:g}): family='poisson' may do"
        )
        return [("weak-dispersion", "warning", message)]

    def u(self, beta: Float, arrays: Mapping[str, Float]) -> Float:
        y, mu, alpha = self._at(beta, arrays)
        shape, force = 1 / alpha, (y - mu) / (1 + alpha * mu)
        own = shape * (np.log1p(alpha * mu) - _risen(y, shape)) + force
        own = np.where(_tiny(y, mu, alpha), _series(y, mu, alpha, (1, 1)), own)
        return np.column_stack([arrays["x"] * force[:, None], own])

    def slope(self, beta: Float, arrays: Mapping[str, Float], weights: Float) -> Float:
        from scipy.special import polygamma

        y, mu, alpha = self._at(beta, arrays)
        x, shape, grown = arrays["x"], 1 / alpha, 1 + alpha * mu
        out = np.empty((beta.size, beta.size))
        out[:-1, :-1] = -(x * (weights * mu * (1 + alpha * y) / grown**2)[:, None]).T @ x
        tilt = alpha * mu * (y - mu) / grown**2
        out[:-1, -1] = out[-1, :-1] = -(weights * tilt) @ x
        bend = shape * (polygamma(1, y + shape) - polygamma(1, shape)) + alpha * mu / grown
        own = shape * (bend + _risen(y, shape) - np.log(grown)) - tilt
        own = np.where(_tiny(y, mu, alpha), _series(y, mu, alpha, (1, 2)), own)
        out[-1, -1] = weights @ own
        return out

    def _at(self, beta: Float, arrays: Mapping[str, Float]) -> tuple[Float, Float, float]:
        """Response, mean and dispersion."""
        dispersion = float(np.exp(max(beta[-1], LEAST)))
        return arrays["y"], np.exp(arrays["x"] @ beta[:-1] + arrays["offset"]), dispersion


def _tiny(y: Float, mu: Float, alpha: float) -> Bool:
    """Records whose score for the dispersion is next to nothing beside its terms, which cancel: of their rounding errors a root could be made."""
    return np.asarray((alpha < SMALL) & (alpha * np.maximum(y, mu) < 1e-4))


def _series(y: Float, mu: Float, alpha: float, times: tuple[int, int]) -> Float:
    """The first two terms of that score in α, so many times each."""
    second = mu**2 * (y - 2 * mu / 3) - y * (y - 1) * (2 * y - 1) / 6
    return np.asarray(times[0] * alpha * ((y - mu) ** 2 - y) / 2 + times[1] * alpha**2 * second)


def _risen(y: Float, shape: float) -> Float:
    """ψ(y + shape) − ψ(shape); for large shapes by their asymptotic series, where the difference would lose its digits."""
    from scipy.special import psi

    if shape < 1e4:
        return np.asarray(psi(y + shape) - psi(shape))
    far = y + shape
    return np.asarray(np.log1p(y / shape) + (1 / shape - 1 / far) / 2 + (1 / shape**2 - 1 / far**2) / 12)


@dataclass(frozen=True)
class NegativeBinomial(FormulaQuestion):
    """Question of `glm(formula, "negative-binomial")`."""

    formula: str
    functions: Own = ()

    @property
    def log_scale(self) -> bool:
        return True

    @property
    def likelihood(self) -> Question:
        raise FormulaError(
            "the likelihood of a negative binomial needs its dispersion: estimate it with method='reversion', then give "
            "family=pramana.negative_binomial(dispersion)"
        )

    def margins(
        self, variables: Sequence[str], estimate: Float, at: Mapping[str, Any] | None = None
    ) -> Question | None:
        """With the dispersion that was estimated."""
        return self.at(float(np.exp(estimate[-1]))).margins(variables, estimate, at)

    def at(self, dispersion: float) -> Glm:
        """The same regression with a known dispersion, which estimates the same coefficients."""
        return Glm(self.formula, negative_binomial(dispersion), self.functions)

    def prepare(self, table: Table, schema: Schema) -> StackedFunction:
        return StackedFunction(NegativeBinomialSystem(self.at(1.0).prepare(table, schema)), self.variables)


def negative_binomial_plan(formula: str, link: str | None, functions: Own = ()) -> NegativeBinomial:
    """The link is the logarithm."""
    if link not in (None, "log"):
        raise FormulaError(f"the negative binomial has link 'log', not {link!r}: leave link= out")
    return NegativeBinomial(formula, functions)

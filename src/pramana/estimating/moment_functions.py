"""Smooth functions of moments: θ = g(μ), where μ are reverted moments solved for along with θ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pramana.arrays import Float
from pramana.estimating.cells import Factor, cell_labels, reverted_cells
from pramana.estimating.equation import About, Direct, Equation, Note, OfMeans
from pramana.estimating.function import EstimatingFunction
from pramana.estimating.records import Records
from pramana.estimating.rounding import gradient, settled


@dataclass(frozen=True)
class Features:
    """Features t of the records.

    Attributes
    ----------
    values : t*, (n, m).
    products : the upper triangle of (t tᵀ)*, (n, m(m + 1)/2); None where the features are indicators that never overlap, so
        that t tᵀ is diagonal and made of t itself.
    """

    values: Float
    products: Float | None = None

    def rows(self, rows: slice) -> Features:
        return Features(self.values[rows], None if self.products is None else self.products[rows])

    def second(self, weights: Float) -> Float:
        """Reverted Σ w t tᵀ (m, m)."""
        if self.products is None:
            return np.diag(weights @ self.values)
        size = self.values.shape[1]
        out = np.empty((size, size))
        upper = np.triu_indices(size)
        out[upper] = out.T[upper] = weights @ self.products
        return out


class Smooth(ABC):
    """θ = g(μ). g is written with functions that also take complex numbers, which gives its exact gradient.

    Attributes
    ----------
    parameters, moments : names of θ (k) and of μ (m).
    variables : the columns that the features use.
    """

    if TYPE_CHECKING:  # to be read; a subclass has a field or a property

        @property
        def parameters(self) -> tuple[str, ...]: ...
        @property
        def moments(self) -> tuple[str, ...]: ...
        @property
        def variables(self) -> tuple[str, ...]: ...

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns that are used as numbers, and not by their levels."""
        return self.variables

    @property
    def exponentials(self) -> tuple[str, ...]:
        """What the exponentials of θ are called."""
        return self.parameters

    def degree(self, name: str) -> int | None:  # noqa: ARG002
        """Degree of the features as polynomials in a column; None where they are none."""
        return None

    @abstractmethod
    def collect(self, records: Records) -> Features:
        """The reverted features of some records."""

    @abstractmethod
    def value(self, mu: Any) -> Any:
        """g: (m,) ↦ (k,)."""

    def gap(self, mu: Any, value: float, place: int) -> Any:
        """0 where the parameter at a place of θ has the value; a subclass may have a form that needs no division."""
        return self.value(mu)[place] - value

    @abstractmethod
    def refusal(self, mu: Float, sizes: Float) -> str | None:
        """Why g has no value at μ, or None; sizes (m,) are the means of the absolute values that μ was made of, for what is 0 up to
        rounding."""

    @abstractmethod
    def remarks(self, theta: Float, mu: Float, errors: Float) -> list[Note]:
        """What the analyst should know; errors (k,) are the standard errors of θ."""

    def divisors(self, mu: Any) -> dict[str, Any]:  # noqa: ARG002
        """What g divides by, or takes a root or a logarithm of, by name: near zero its standard errors mean nothing."""
        return {}

    def debiased(self, theta: Float, mu: Float, covariance: Float) -> Float:  # noqa: ARG002
        """θ corrected for the curvature of g, where the plan asks for it; covariance (m, m) is that of μ."""
        return theta


class OfShares(Smooth):
    """θ = g(μ), where μ are the shares of the cells of a table.

    Attributes
    ----------
    factors : the columns of the table.
    """

    if TYPE_CHECKING:  # to be read; a subclass has a field

        @property
        def factors(self) -> tuple[Factor, ...]: ...

    @property
    def moments(self) -> tuple[str, ...]:
        return tuple(cell_labels(self.factors))

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.factors)

    @property
    def numbers(self) -> tuple[str, ...]:
        return ()

    def collect(self, records: Records) -> Features:
        return Features(reverted_cells(records, self.factors))


@dataclass(frozen=True)
class SmoothFunction(EstimatingFunction):
    """A smooth function of moments waiting for records."""

    target: Smooth

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.target.parameters, *self.target.moments)

    @property
    def variables(self) -> tuple[str, ...]:
        return self.target.variables

    @property
    def numbers(self) -> tuple[str, ...]:
        return self.target.numbers

    def degree(self, name: str) -> int | None:
        return self.target.degree(name)

    def equation(self, records: Records) -> SmoothEquation:
        return SmoothEquation(self, records, self.target.collect(records))


@dataclass(frozen=True)
class SmoothEquation(Equation, Direct):
    """β = (θ, μ) with U = (g(μ) − θ + g′(μ)(t − μ), t − μ).

    The term g′(μ)(t − μ) adds up to zero at the root and makes the first component θ's influence function, whose mean
    does not move with μ: the slope at the root is −Σw times the identity, and cutting μ off the result loses nothing.
    """

    function: SmoothFunction
    records: Records
    features: Features

    @property
    def target(self) -> Smooth:
        return self.function.target

    @property
    def about(self) -> About:
        """Results list θ alone."""
        names = self.target.parameters
        return About(self.function.parameters, names, of_means=self._terms, exponentials=self.target.exponentials)

    @property
    def direct(self) -> Direct:
        return self

    def _terms(self) -> OfMeans:
        gaps = tuple(partial(self.target.gap, place=j) for j in range(len(self.target.parameters)))
        return OfMeans(self.features.values, gaps, self.records.membership)

    def rows(self, rows: slice) -> SmoothEquation:
        return SmoothEquation(self.function, self.records.rows(rows), self.features.rows(rows))

    def under(self, records: Records) -> SmoothEquation:
        return self.function.equation(records)

    def _counted(self, weights: Float) -> Float:
        """Σ w (B,), or within a domain its reverted size."""
        member = self.records.membership
        return np.asarray(weights.sum(axis=1) if member is None else weights @ member)

    def moments(self, weights: Float) -> Float:
        values = self.features.values
        return np.hstack([weights @ values, weights @ np.abs(values), self._counted(weights)[:, None]])

    def solution(self, moments: Float) -> Float:
        """g at the weighted means; NaN where it has no value."""
        return np.stack([np.concatenate([self._value(*means), means[0]]) for means in map(_means, moments)])

    def _value(self, mu: Float, sizes: Float) -> Float:
        if self.target.refusal(mu, sizes) is not None:
            return np.full(len(self.target.parameters), np.nan)
        return np.asarray(self.target.value(mu))

    def refusal(self, moments: Float) -> str:
        return self.target.refusal(*_means(moments)) or "the moments are not finite"

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:  # noqa: ARG002
        theta, mu = self._split(beta)
        return self.target.remarks(theta, mu, np.sqrt(np.diag(covariance))[: theta.size])

    def divisors(self, beta: Float, covariance: Float) -> dict[str, float]:
        theta, mu = self._split(beta)
        found = self.target.divisors(mu)
        if not found:
            return {}
        slopes = gradient(lambda m: np.stack(list(self.target.divisors(m).values())), mu)
        spread = np.einsum("ki,ij,kj->k", slopes, covariance[theta.size :, theta.size :], slopes)
        with np.errstate(all="ignore"):
            signals = np.stack(list(found.values())) / np.sqrt(np.clip(spread, 0.0, None))
        return dict(zip(found, map(float, signals), strict=True))

    def debiased(self, beta: Float, covariance: Float) -> Float:
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
        """Where the terms of a record cancel, as in a perfect correlation, nothing is left of them, not their rounding."""
        gap, rows, mu = self._parts(beta)
        member = np.ones(self.n) if self.records.membership is None else self.records.membership
        away = self.features.values - np.outer(member, mu)
        return np.outer(member, gap) + settled(away @ rows.T, np.abs(away) @ np.abs(rows.T))

    def slope(self, beta: Float, weights: Float) -> Float:
        return np.asarray(-self._counted(weights[None])[0] * np.eye(beta.size))

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        gap, rows, mu = self._parts(beta)
        total, sums = self._counted(weights[None])[0], weights @ self.features.values
        centred = self.features.second(weights) - np.outer(sums, mu) - np.outer(mu, sums) + total * np.outer(mu, mu)
        cross = np.outer(gap, rows @ (sums - total * mu))
        return np.asarray(total * np.outer(gap, gap) + cross + cross.T + rows @ centred @ rows.T)

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:  # noqa: ARG002
        member = self.records.membership
        return -np.outer(np.sum(lefts * rights, axis=1), np.ones(self.n) if member is None else member)


def _means(moments: Float) -> tuple[Float, Float]:
    """μ (m,), with 0 for what is 0 up to rounding, and the means of the absolute values (m,)."""
    means, sizes = np.split(moments[:-1] / moments[-1], 2)
    return settled(means, sizes), sizes


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

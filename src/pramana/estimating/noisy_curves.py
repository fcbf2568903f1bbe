"""Functions of a noisy linear predictor, reverted in closed form: g, t_j g and t_j t_l g for the g that a score, its slope and its square
are made of. The module `noisy` says what for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add, mul
from typing import Any, NamedTuple

import numpy as np

from pramana.arrays import Float
from pramana.errors import SolveError
from pramana.kernels.additive import Number, Operator, Polynomial
from pramana.kernels.logistic import EIGHT, MIXTURE_REACH, logistic_derivatives, smoothed_derivatives, steepest
from pramana.kernels.noisy_products import powers_of

COARSE = 0.4
"""Largest step of a grid on the scale of η where normal noise on it is undone as if it were continuous: an H as steep as the
steepest term of the mixture has frequencies beyond the grid's of exp(−π²/(2 · 1.37² · 0.4²)) = 7e-8, with a share of 0.003."""


class Reverted(NamedTuple):
    """Reversions of g (N,), of t_j g (q, N) and of t_j t_l g (q, q, N)."""

    plain: Float
    first: Float
    second: Float

    def __mul__(self, factor: Any) -> Reverted:
        return Reverted(*(part * factor for part in self))

    def __add__(self, other: Any) -> Reverted:
        return Reverted(*(a + b for a, b in zip(self, other, strict=True)))

    def softened(self, naive: Float | float, t: float) -> Reverted:
        if t == 1:
            return self
        if t == 0:  # what the noise leaves without an average is of no matter to the naive equation
            return Reverted(naive * np.ones_like(self.plain), np.zeros_like(self.first), np.zeros_like(self.second))
        return Reverted((1 - t) * naive + t * self.plain, t * self.first, t * self.second)


@dataclass(frozen=True)
class RevertedCurve(ABC):
    """The functions of η that a family's score is made of, reverted.

    Attributes
    ----------
    eta : at the released values (N,).
    slopes : derivatives of η by the noisy columns (q, N), or (q, 1) where all records share them.
    share : of the noise that is undone.
    """

    eta: Float
    slopes: Float
    operators: tuple[Operator, ...]
    share: float

    @abstractmethod
    def a(self, order: int) -> Reverted | None:
        """a = μ′/V(μ), or its derivative by η; None where that is zero."""

    @abstractmethod
    def mean(self, order: int) -> Reverted:
        """aμ, or its derivative."""

    @abstractmethod
    def squares(self) -> tuple[Reverted, Reverted, Reverted]:
        """a², a²μ and a²μ²."""

    def refuse_far(self, names: tuple[str, ...]) -> None:
        """Coefficients so large for the noise that the squares have no average over it are an error; there are none by default."""
        del names

    def _moment(self, power: int) -> Float:
        """(t_j^power)*, (q, N), or (q, 1) where all records share them."""
        return np.stack(np.broadcast_arrays(*(np.atleast_1d(o.moments(power)[power]) for o in self.operators)))

    @cached_property
    def _second(self) -> Float:
        return self._moment(2)

    @cached_property
    def _one(self) -> Reverted:
        none = np.zeros((len(self.operators), 1))
        return Reverted(np.ones(1), none, _diagonal(self._second)).softened(1.0, self.share)


def _diagonal(values: Float) -> Float:
    """(q, q, N) from its diagonal (q, N)."""
    q, n = values.shape
    out = np.zeros((q, q, n))
    out[np.arange(q), np.arange(q)] = values
    return out


@dataclass(frozen=True)
class IdentityCurve(RevertedCurve):
    """a = 1 and aμ = η: moments of t up to the fourth."""

    def a(self, order: int) -> Reverted | None:
        return self._one if order == 0 else None

    def mean(self, order: int) -> Reverted:
        if order > 0:
            return self._one
        own = self.slopes * self._second
        return Reverted(self.eta, own, self.eta * _diagonal(self._second)).softened(self.eta, self.share)

    def squares(self) -> tuple[Reverted, Reverted, Reverted]:
        c, second = self.slopes, self._second
        fourth = self._moment(4)
        spread = np.sum(c**2 * second, axis=0)
        own = self.eta**2 * second + c**2 * fourth + second * (spread - c**2 * second)
        cross = np.zeros((len(c), *own.shape)) + 2 * (c * second)[:, None] * (c * second)[None]
        cross[np.arange(len(c)), np.arange(len(c))] = own
        square = Reverted(self.eta**2 + spread, 2 * self.eta * c * second, cross).softened(self.eta**2, self.share)
        return self._one, self.mean(0), square


@dataclass(frozen=True)
class PowerCurve(RevertedCurve):
    """Log link with V(μ) = μ^p: a = e^{(1−p)η} and aμ = e^{(2−p)η}."""

    power: float

    @cached_property
    def _known(self) -> dict[float, Reverted]:
        return {}

    def _exponential(self, k: float) -> Reverted:
        if k == 0:
            return self._one
        if k not in self._known:
            self._known[k] = self._reverted(k)
        return self._known[k]

    def _reverted(self, k: float) -> Reverted:
        """(e^{kη})*, with t_j and t_j t_l."""
        value = np.exp(k * self.eta)
        parts = [o.inverse(k * c) for o, c in zip(self.operators, self.slopes, strict=True)]
        whole = value * reduce(mul, (v for v, _, _ in parts))
        ratio = np.stack(np.broadcast_arrays(*(first / v for v, first, _ in parts)))  # numbers, or by record
        second = ratio[:, None] * ratio[None]
        for j, (v, _, own) in enumerate(parts):
            second[j, j] = own / v
        return Reverted(whole, whole * ratio, whole * second).softened(value, self.share)

    def a(self, order: int) -> Reverted | None:
        k = 1 - self.power
        return None if k == 0 and order > 0 else self._exponential(k) * k**order

    def mean(self, order: int) -> Reverted:
        k = 2 - self.power
        return self._exponential(k) * k**order

    def squares(self) -> tuple[Reverted, Reverted, Reverted]:
        k = 2 - 2 * self.power
        return self._exponential(k), self._exponential(k + 1), self._exponential(k + 2)

    def refuse_far(self, names: tuple[str, ...]) -> None:
        """Variances need the average of a squared exponential."""
        largest = largest_power(self.power)
        for name, c, operator in zip(names, self.slopes, self.operators, strict=True):
            reach, slope, limit = np.broadcast_arrays(np.abs(c) / operator.reach, c, operator.reach)
            worst = int(np.nanargmax(reach))
            if largest * reach[worst] >= 1:
                scale = 1 / limit[worst]
                raise SolveError(
                    f"the coefficient of {name!r} is {slope[worst]:.4g} and its noise has a scale of {scale:.4g}: with a log link "
                    f"{largest:g} times their product must stay below 1 for a variance to exist, and it is {largest * reach[worst]:.4g}. "
                    "Use less noise, family 'gaussian' or 'binomial', or a transformed covariate"
                )


def largest_power(power: float) -> float:
    """k of the steepest e^{kη} in the square of a score with V(μ) = μ^power."""
    return max(abs(2 - 2 * power), abs(4 - 2 * power))


@dataclass(frozen=True)
class LogisticCurve(RevertedCurve):
    """Logit: a = 1, aμ = H(η), and H² = H − H′.

    Attributes
    ----------
    rising : derivatives of H alone are asked for.
    """

    rising: bool = False

    @cached_property
    def _ladders(self) -> Sequence[Sequence[Float]]:
        """H with its derivatives, normal noise undone in them; where a noise is undone by shifts, as it reverts g, t·g and t²·g."""
        highest = 1 + 2 * sum(not o.shifts for o in self.operators)
        for operator, c in zip(self.operators, self.slopes, strict=True):
            if operator.shifts:
                slope = steepest(float(np.nanmax(self._normal, initial=0.0)))
                steepness = max(1.0, slope / EIGHT.steepest) if slope > 0 else 1.0
                alike = c[:1] if np.ptp(c) == 0 and self._normal.size == 1 else c  # one table for all records
                return tuple(map(tuple, operator.shifted(self._ladder, self.eta, alike, highest, steepness)))
        return [self._ladder(self.eta, highest)]

    def _ladder(self, eta: Float, highest: int) -> list[Float]:
        if not np.any(self._normal):
            return logistic_derivatives(eta, highest)
        lowest = int(self.rising and not any(o.shifts for o in self.operators))  # shifts mix the orders
        variance = self._normal if self._normal.size == 1 else np.broadcast_to(self._normal, eta.shape).ravel()
        with np.errstate(invalid="ignore"):
            return [part.reshape(eta.shape) for part in smoothed_derivatives(eta.ravel(), variance, highest, lowest)]

    @cached_property
    def _normal(self) -> Float:
        """bᵀΣb of the columns with normal noise (N,)."""
        parts = [o.variance * c**2 for o, c in zip(self.operators, self.slopes, strict=True) if np.any(o.variance)]
        return np.asarray(np.sum(np.broadcast_arrays(*parts), axis=0)) if parts else np.zeros(1)

    @property
    def strongest(self) -> float:
        """Largest standard deviation of the normal noise on the scale of η."""
        return float(np.sqrt(np.nanmax(self._normal, initial=0.0)))

    @cached_property
    def _known(self) -> dict[tuple[int, bool], Reverted]:
        return {}

    def _applied(self, order: int, *, pairs: bool = True) -> Reverted:
        """Of the derivative of H of some order, under the product of the columns' operators; the products t_j t_l where asked for."""
        if (order, pairs) not in self._known:
            self._known[order, pairs] = self._reverted(order, pairs=pairs)
        return self._known[order, pairs]

    def _reverted(self, order: int, *, pairs: bool) -> Reverted:
        q = len(self.operators)
        powers = powers_of(q)
        first = _stacked([self._under(order, own) for own in powers[1 : q + 1]])
        second = np.zeros((q, q, 1))
        if pairs:
            found = [self._under(order, own) for own in powers[q + 1 :]]
            second = _stacked([_stacked(found[j * q : (j + 1) * q]) for j in range(q)])
        reverted = Reverted(self._under(order, powers[0]), first, second)
        if self.share == 1:
            return reverted
        # The ladder of normal noise is reverted already: softening goes from the function itself.
        return reverted.softened(logistic_derivatives(self.eta, order)[order], self.share)

    @cached_property
    def _sets(self) -> list[tuple[Polynomial, Polynomial, Polynomial] | None]:
        return [o.in_derivatives(c) for o, c in zip(self.operators, self.slopes, strict=True)]

    def _under(self, order: int, powers: tuple[int, ...]) -> Float:
        """(N,): of t_1, …, t_q to these powers, times the derivative of H."""
        series: Polynomial | None = None
        ladder = self._ladders[0]
        for own, power in zip(self._sets, powers, strict=True):
            if own is None:  # by shifts
                ladder = self._ladders[power]
            else:
                series = own[power] if series is None else _product(series, own[power])
        if series is None:
            return ladder[order]
        terms = [
            ladder[order + k] if _is(c, 1.0) else c * ladder[order + k] for k, c in enumerate(series) if not _is(c, 0.0)
        ]
        return reduce(add, terms)

    def a(self, order: int) -> Reverted | None:
        return self._one if order == 0 else None

    def mean(self, order: int) -> Reverted:
        return self._applied(order, pairs=order > 0)  # a score has no products of distances, its slope has

    def squares(self) -> tuple[Reverted, Reverted, Reverted]:
        mean = self._applied(0)
        return self._one, mean, mean + self._applied(1) * -1.0

    def refuse_far(self, names: tuple[str, ...]) -> None:
        worst = self.strongest
        if worst >= MIXTURE_REACH:
            raise SolveError(
                f"the noise of {', '.join(map(repr, names))} has a standard deviation of {worst:.3g} on the scale of the linear predictor, "
                f"and the logit can be reverted below {MIXTURE_REACH:.3g}: use less noise, LaplaceNoise in its place, method='conditional-score' if the "
                "logit is true, or family 'gaussian'"
            )
        for name, c, operator in zip(names, self.slopes, self.operators, strict=True):
            coarse = float(np.nanmax(np.abs(c) * operator.coarseness, initial=0.0))
            if coarse > COARSE:
                raise SolveError(
                    f"the linear predictor moves by {coarse:.3g} within one step of {name!r}, whose normal noise lies on a grid: in a logit it "
                    f"can be undone up to {COARSE:g}; use a finer step, GeometricNoise, or family 'gaussian'"
                )


def _is(value: Number, number: float) -> bool:
    """Whether a coefficient is this number for all records."""
    return isinstance(value, float) and value == number


def _stacked(parts: list[Float]) -> Float:
    """(q, …) from q parts; one is not copied."""
    return parts[0][None] if len(parts) == 1 else np.stack(parts)


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    """Of two polynomials."""
    out: Polynomial = [0.0] * (len(a) + len(b) - 1)
    for i, u in enumerate(a):
        for k, v in enumerate(b):
            if not _is(v, 0.0):
                out[i + k] = out[i + k] + u * v
    return out

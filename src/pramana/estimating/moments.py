"""Equations solved without iteration: sums Σ w a*, and quotients Σ a* / Σ b*."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError, quoted
from pramana.estimating.equation import About, Direct, Equation, Note, Quotients
from pramana.estimating.function import EstimatingFunction
from pramana.estimating.records import Records
from pramana.estimating.rounding import settled


class MomentSums(NamedTuple):
    """Weighted sums over records of a* (d,), b* (d,), squares (s,), and of the weights themselves."""

    numerator: Float
    denominator: Float
    squares: Float
    total: float


Second = Callable[[MomentSums], tuple[Float, Float, Float]]
"""Sums ↦ reverted Σ w a aᵀ, Σ w a bᵀ and Σ w b bᵀ, each (d, d)."""


@dataclass(frozen=True)
class QuotientEquation(Equation, Direct):
    """φ_i = a*_i − β b*_i, component by component.

    Attributes
    ----------
    numerator : a* (n, d).
    denominator : b* (n, d), or None where it is the constant 1.
    squares : what the second moments need besides (n, s), or None.
    second : sums ↦ reverted products of a and b.
    domains : what each denominator counts, for the error when it vanishes; empty where it is the constant 1.
    size : what the result is multiplied by, the known size of a population, or None.
    tables : so many consecutive parameters are the shares of one table; None elsewhere.
    judged : β ↦ diagnostics, or None.
    """

    function: EstimatingFunction
    records: Records
    numerator: Float
    denominator: Float | None
    squares: Float | None
    second: Second
    domains: tuple[str, ...] = ()
    plausible: tuple[float, float] | None = None
    size: float | None = None
    tables: int | None = None
    judged: Callable[[Float], list[Note]] | None = None

    @cached_property
    def about(self) -> About:
        names = self.function.parameters
        return About(names, of_means=self._terms, size=self.size, plausible=self.plausible, tables=self.tables)

    @property
    def direct(self) -> Direct:
        return self

    def _terms(self) -> Quotients:
        return Quotients(self.numerator, np.ones_like(self.numerator) if self.denominator is None else self.denominator)

    def rows(self, rows: slice) -> QuotientEquation:
        below, squares = (None if v is None else v[rows] for v in (self.denominator, self.squares))
        own = self.numerator[rows]
        return replace(self, records=self.records.rows(rows), numerator=own, denominator=below, squares=squares)

    def under(self, records: Records) -> QuotientEquation:
        equation = self.function.equation(records)
        assert isinstance(equation, QuotientEquation)
        return equation

    def _below(self, weights: Float) -> Float:
        """Σ w b* (B, d)."""
        if self.denominator is None:
            return np.repeat(weights.sum(axis=1, keepdims=True), self.numerator.shape[1], axis=1)
        return np.asarray(weights @ self.denominator)

    def moments(self, weights: Float) -> Float:
        below = self._below(weights)
        sizes = below if self.denominator is None else weights @ np.abs(self.denominator)
        return np.hstack([weights @ self.numerator, below, sizes, weights.sum(axis=1, keepdims=True)])

    def solution(self, moments: Float) -> Float:
        above, below, sizes, _ = np.split(moments, [self.d, 2 * self.d, 3 * self.d], axis=1)
        return np.divide(above, below, out=np.full_like(above, np.nan), where=settled(below, sizes) > 0)

    def refusal(self, moments: Float) -> str:
        _, below, sizes, total = np.split(moments, [self.d, 2 * self.d, 3 * self.d])
        shares = settled(below, sizes) / total
        gone = [
            f"{quoted(name)} ({share:.4g})" for name, share in zip(self.domains, shares, strict=False) if share <= 0
        ]
        return (
            f"the reverted share of the domain(s) {', '.join(list(dict.fromkeys(gone))[:5])} is not positive, so nothing can be "
            "said about them: merge them with others before the release, use more records, or ask for total() or counts(), "
            "which need no division"
        )

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:  # noqa: ARG002
        return [] if self.judged is None else self.judged(beta)

    def slope(self, beta: Float, weights: Float) -> Float:  # noqa: ARG002
        return -np.diag(self._below(weights[None])[0])

    def influence(self, beta: Float) -> Float:
        return self.numerator - (beta if self.denominator is None else beta * self.denominator)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        squares = np.empty(0) if self.squares is None else weights @ self.squares
        sums = MomentSums(weights @ self.numerator, self._below(weights[None])[0], squares, float(weights.sum()))
        aa, ab, bb = self.second(sums)
        cross = ab * beta
        return np.asarray(aa - cross - cross.T + np.outer(beta, beta) * bb)

    def slope_parts(self, beta: Float) -> tuple[Float, Float] | None:  # noqa: ARG002
        """Each parameter has a slope of its own, so that a record has as many parts as there are domains that it may be in."""
        if self.denominator is None:
            return None
        held = self.denominator != 0
        most = int(held.sum(axis=1).max(initial=0))
        if not 0 < most < self.d:
            return None
        places = np.argsort(~held, axis=1, kind="stable")[:, :most]
        return np.eye(self.d)[places], -np.take_along_axis(self.denominator, places, axis=1)

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:  # noqa: ARG002
        if self.denominator is None:
            return np.tile(-np.sum(lefts * rights, axis=1)[:, None], self.n)
        return np.asarray(-((lefts * rights) @ self.denominator.T))


@dataclass(frozen=True)
class SumEquation(Equation, Direct):
    """β = Σ w φ with φ = a*, whose variance is taken around the mean of the units.

    Neither φ nor its sums hold β, so that those of two blocks add; the slope −I of Σ w φ − β belongs to the whole, and whoever
    adds the blocks up knows it.

    Attributes
    ----------
    terms : a* (n, d).
    squares : (a²)* (n, d); components never overlap, so a aᵀ is diagonal.
    tables : so many consecutive parameters are the counts of one table; None elsewhere.
    judged : shares ↦ diagnostics, or None.
    """

    function: EstimatingFunction
    records: Records
    terms: Float
    squares: Float
    tables: int | None = None
    judged: Callable[[Float], list[Note]] | None = None

    @property
    def about(self) -> About:
        return About(self.function.parameters, sums=True, of_means=self._terms, tables=self.tables)

    @property
    def direct(self) -> Direct:
        return self

    def _terms(self) -> Quotients:
        return Quotients(self.terms, np.ones_like(self.terms))

    def rows(self, rows: slice) -> SumEquation:
        return replace(self, records=self.records.rows(rows), terms=self.terms[rows], squares=self.squares[rows])

    def under(self, records: Records) -> SumEquation:
        equation = self.function.equation(records)
        assert isinstance(equation, SumEquation)
        return equation

    def moments(self, weights: Float) -> Float:
        return np.asarray(weights @ self.terms)

    def solution(self, moments: Float) -> Float:
        return moments

    def refusal(self, moments: Float) -> str:  # noqa: ARG002
        return "the terms of the sum are not finite"

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:  # noqa: ARG002
        return [] if self.judged is None else self.judged(beta / weights.sum())

    def slope(self, beta: Float, weights: Float) -> Float:  # noqa: ARG002
        return np.zeros((self.d, self.d))

    def influence(self, beta: Float) -> Float:  # noqa: ARG002
        return self.terms

    def clean_outer(self, beta: Float, weights: Float) -> Float:  # noqa: ARG002
        return np.diag(weights @ self.squares)

    def record_slopes_along(self, beta: Float, lefts: Float, rights: Float) -> Float:  # noqa: ARG002
        return np.zeros((len(lefts), self.n))


def checked_size(size: float | None) -> float | None:
    """The known size of a population, or None."""
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int | float | np.number) or not 0 < float(size) < np.inf:
        raise PramanaError(f"size={size!r} is no size of a population: give a positive number, or leave it out")
    return float(size)

"""Equations solved without iteration: sums Σ w a*, and quotients Σ a* / Σ b*."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError
from pramana.estimating.equation import OfFunction, Records

Second = Callable[[Float], tuple[Float, Float, Float]]
"""Weights (n,) ↦ reverted Σ w a aᵀ, Σ w a bᵀ and Σ w b bᵀ, each (d, d)."""

Remark = tuple[str, str, str]
"""Code, severity and message of a diagnostic."""


@dataclass(frozen=True)
class QuotientEquation(OfFunction):
    """φ_i = a*_i − β b*_i, component by component.

    Attributes
    ----------
    numerator, denominator : a* (n, d) and b* (n, d).
    second : their reverted products.
    domains : what each denominator counts, for the error when it vanishes; empty where it is the constant 1.
    size : what the result is multiplied by, the known size of a population, or None.
    remarks : β ↦ diagnostics, or None.
    """

    function: Any
    records: Records
    numerator: Float
    denominator: Float
    second: Second
    domains: tuple[str, ...] = ()
    plausible: tuple[float, float] | None = None
    size: float | None = None
    remarks: Callable[[Float], list[Remark]] | None = None
    smooth: bool = True

    @property
    def start(self) -> Float:
        return np.zeros(len(self.parameters))

    def roots(self, weights: Float) -> Float:
        """The roots (B, d) under row weights (B, n); NaN where a domain vanishes."""
        below = weights @ self.denominator
        above: Float = weights @ self.numerator
        return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)

    def refusal(self, weights: Float) -> str:
        """Why there is no root under row weights (n,)."""
        shares = weights @ self.denominator / weights.sum()
        gone = [f"{name} ({share:.4g})" for name, share in zip(self.domains, shares, strict=False) if share <= 0]
        return (
            f"the reverted share of the domain(s) {', '.join(list(dict.fromkeys(gone))[:5])} is not positive, so nothing can be "
            "said about them: merge them with others before the release, use more records, or ask for total() or counts(), "
            "which need no division"
        )

    def notes(self, beta: Float, weights: Float) -> list[Remark]:  # noqa: ARG002
        """What the analyst should know at the root."""
        return [] if self.remarks is None else self.remarks(beta)

    def score(self, betas: Float, weights: Float) -> Float:
        return np.asarray(weights @ self.numerator - betas * (weights @ self.denominator))

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        slope = -(weights @ self.denominator)[:, :, None] * np.eye(len(self.parameters))
        return self.score(betas, weights), slope

    def influence(self, beta: Float) -> Float:
        return self.numerator - beta * self.denominator

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        aa, ab, bb = self.second(weights)
        cross = ab * beta
        return np.asarray(aa - cross - cross.T + np.outer(beta, beta) * bb)

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:  # noqa: ARG002
        return np.asarray(-(self.denominator @ (left * right)))

    def under(self, records: Records) -> QuotientEquation:
        equation: QuotientEquation = self.function.equation(records)
        return equation


@dataclass(frozen=True)
class SumEquation(OfFunction):
    """β = Σ w a*: the score is Σ w φ − β with φ = a*, whose variance is taken around the mean of the units.

    Attributes
    ----------
    terms : a* (n, d).
    squares : (a²)* (n, d); components never overlap, so a aᵀ is diagonal.
    remarks : β ↦ diagnostics, or None.
    sums : tells the inference that the terms do not sum to zero at the root.
    """

    function: Any
    records: Records
    terms: Float
    squares: Float
    remarks: Callable[[Float], list[Remark]] | None = None
    smooth: bool = True
    sums: bool = True

    @property
    def start(self) -> Float:
        return np.zeros(len(self.parameters))

    def roots(self, weights: Float) -> Float:
        """The sums (B, d) under row weights (B, n)."""
        return np.asarray(weights @ self.terms)

    def notes(self, beta: Float, weights: Float) -> list[Remark]:
        """What the analyst should know, judged on the shares."""
        return [] if self.remarks is None else self.remarks(beta / weights.sum())

    def score(self, betas: Float, weights: Float) -> Float:
        return np.asarray(weights @ self.terms - betas)

    def score_and_slope(self, betas: Float, weights: Float) -> tuple[Float, Float]:
        slope = np.tile(-np.eye(len(self.parameters)), (len(betas), 1, 1))
        return self.score(betas, weights), slope

    def influence(self, beta: Float) -> Float:  # noqa: ARG002
        return self.terms

    def clean_outer(self, beta: Float, weights: Float) -> Float:  # noqa: ARG002
        return np.diag(weights @ self.squares)

    def record_slope(self, beta: Float, left: Float, right: Float) -> Float:  # noqa: ARG002
        return np.zeros(self.n)

    def under(self, records: Records) -> SumEquation:
        equation: SumEquation = self.function.equation(records)
        return equation


def checked_size(size: float | None) -> float | None:
    """The known size of a population, or None."""
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int | float | np.number) or not 0 < float(size) < np.inf:
        raise PramanaError(f"size={size!r} is no size of a population: give a positive number, or leave it out")
    return float(size)

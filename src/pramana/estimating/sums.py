"""Sums over records: the parameter is Σ w a* itself, and its variance is that of the terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError
from pramana.estimating.equation import OfFunction, Records
from pramana.estimating.quotients import Remark


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

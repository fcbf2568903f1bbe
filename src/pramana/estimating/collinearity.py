"""Designs of deficient rank: judged over all records, whatever blocks they come in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import DataError, FormulaError, quoted, quoted_terms
from pramana.kernels.blocks import runs


def refuse_collinear(designs: Iterable[Float], parameters: tuple[str, ...]) -> None:
    """Refuse designs (·, d) that together have a deficient rank."""
    d = len(parameters)
    low, high, gram = np.full(d, np.inf), np.full(d, -np.inf), np.zeros((d, d))
    with np.errstate(all="ignore"):
        for part in (design[rows] for design in designs for rows in runs(len(design))):
            low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
            gram += part.T @ part
    judge_collinear(low, high, lambda: gram, parameters)


def judge_collinear(low: Float, high: Float, gram: Callable[[], Float], parameters: tuple[str, ...]) -> None:
    """Refuse a deficient rank; where blocks of a file are bound, give out how to judge all of them together."""
    refuse_sizes(low, high, parameters)
    waiting = _WAITING.get()
    if waiting is None:
        Rank(low, high, gram(), parameters).judge()
    else:
        waiting.append(lambda: Rank(low, high, gram(), parameters))


_WAITING: ContextVar[list[Callable[[], Rank]] | None] = ContextVar("ranks of blocks", default=None)


@contextmanager
def unjudged() -> Iterator[list[Callable[[], Rank]]]:
    """Designs that are bound inside are not judged alone: each is a part of a larger one, and how to find their ranks is given out."""
    found: list[Callable[[], Rank]] = []
    token = _WAITING.set(found)
    try:
        yield found
    finally:
        _WAITING.reset(token)


@dataclass(frozen=True)
class Rank:
    """Smallest and largest values of design columns (d,), and Σ xxᵀ (d, d); those of two blocks add up."""

    low: Float
    high: Float
    gram: Float
    parameters: tuple[str, ...]

    def __add__(self, other: Rank) -> Rank:
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Rank(low, high, self.gram + other.gram, self.parameters)

    def judge(self) -> None:
        """Name the columns behind a deficient rank; no silent pseudo-inverse."""
        parameters, low, high = self.parameters, self.low, self.high
        scale = np.sqrt(np.diag(self.gram))
        if np.any(scale == 0):
            zero = [p for p, s in zip(parameters, scale, strict=True) if s == 0]
            raise FormulaError(f"the design column(s) {quoted_terms(zero)} are zero throughout: drop the term(s)")
        values, vectors = np.linalg.eigh(self.gram / np.outer(scale, scale))
        if values[0] > 1e-11 * values[-1]:
            return
        involved = np.flatnonzero(np.abs(vectors[:, 0]) > 1e-3 * np.abs(vectors[:, 0]).max())
        constant = [parameters[j] for j in involved if low[j] == high[j] and parameters[j] != "Intercept"]
        hint = f"{quoted_terms(constant[:1])} is constant; " if constant else ""
        names = quoted_terms(parameters[j] for j in involved)
        raise FormulaError(
            f"the design is collinear in {names} ({hint}smallest eigenvalue {max(values[0], 0):.1e}): drop one of them, or center a number "
            "that varies little around a large value"
        )


def refuse_sizes(low: Float, high: Float, parameters: tuple[str, ...]) -> None:
    """Refuse columns whose numbers leave the range of floating point."""
    largest = np.maximum(-low, high)
    if not np.all(np.isfinite(largest)):
        bad = [p for p, value in zip(parameters, largest, strict=True) if not np.isfinite(value)]
        raise DataError(f"the design column(s) {quoted_terms(bad)} hold infinite or missing values: clean the data")
    for name, value in zip(parameters, largest, strict=True):
        _refuse_size(float(value), name)


def refuse_extreme(values: Float, name: str) -> None:
    """Squares of such numbers leave the range of floating point."""
    _refuse_size(float(np.abs(values).max(initial=0.0)), name)


def _refuse_size(largest: float, name: str) -> None:
    if largest > 1e100 or 0 < largest < 1e-100:
        raise DataError(
            f"{quoted_terms([name])} has values up to {quoted(f'{largest:.2g}')} in size: change its unit, to lie between 1e-100 and 1e+100"
        )

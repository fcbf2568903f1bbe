"""The spread of the residuals of least squares, of records that are not held: three passes of sums over blocks of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError
from pramana.estimating.binned import Binned, Bins, BinSums, Points
from pramana.estimating.distribution import Distribution
from pramana.estimating.equation import Regression

ROUNDING = 1e-9
"""Of the largest response, residuals that are rounding."""
EXACT = "the formula fits the response exactly: every quantile is the same, use least squares"


@dataclass(frozen=True)
class Triangle:
    """The triangle of a QR decomposition of √w (x, y), the largest |y| and Σ w; those of two blocks add without a loss of digits."""

    r: Float
    largest: float
    weight: float

    @classmethod
    def of(cls, part: Regression) -> Triangle:
        rows = np.column_stack([part.x, part.y]) * np.sqrt(part.weights)[:, None]
        largest = float(np.abs(part.y[part.weights > 0]).max(initial=0.0))
        return cls(np.asarray(np.linalg.qr(rows, mode="r")), largest, float(part.weights.sum()))

    def __add__(self, other: Triangle) -> Triangle:
        r = np.asarray(np.linalg.qr(np.vstack([self.r, other.r]), mode="r"))
        return Triangle(r, max(self.largest, other.largest), self.weight + other.weight)

    @property
    def coefficients(self) -> Float:
        return np.asarray(np.linalg.lstsq(self.r[:, :-1], self.r[:, -1], rcond=None)[0], dtype=float)


def spread_of_residuals(
    summed: Callable[[Callable[[Regression], object]], object], sample: Regression
) -> tuple[float, float]:
    """Of all records, and Σ w.

    Parameters
    ----------
    summed : part ↦ the sum of what it gives of every block, a pass over the records.
    sample : some of them, which tell what bins will do.
    """
    whole = summed(Triangle.of)
    assert isinstance(whole, Triangle)
    beta = whole.coefficients
    bins = Bins(np.concatenate([[-np.inf], Bins.around(sample.y - sample.x @ beta).edges, [np.inf]]))

    def distributed(part: Regression) -> tuple[Distribution, Float]:
        residuals = part.y - part.x @ beta
        return Distribution(residuals, np.ones((len(residuals), 1)), (), 1.0), part.weights

    def in_bins(part: Regression) -> BinSums:
        measure, w = distributed(part)
        return BinSums.of(bins, 0.0, measure, w, w, w**2)

    sums = summed(in_bins)
    assert isinstance(sums, BinSums)
    known = Binned.of(bins, 0.0, sums)
    wanted = known.quartered()
    if wanted.any():

        def single(part: Regression) -> Points:
            measure, w = distributed(part)
            return Points.of(bins, wanted, 0.0, measure, w, w)

        points = summed(single)
        assert isinstance(points, Points)
        known = known.refined(wanted, points)
    spread = known.spread(floor=ROUNDING * max(whole.largest, 1e-300))
    if spread is None:
        raise FormulaError(EXACT)
    return spread, whole.weight

"""Is the parameter identified? The smallest eigenvalue of the slope, over its own standard error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.inference.sample import Sample, Totals

WEAK = 4.0


@dataclass(frozen=True)
class Identification:
    """The weakest direction of the scaled slope.

    Attributes
    ----------
    ratio : eigenvalue over standard error; below about 4, Wald intervals lose their coverage, and below zero a
        reverted variance is negative.
    direction : loadings of the parameters (d,).
    """

    ratio: float
    eigenvalue: float
    direction: Float


def identification(sample: Sample, beta: Float, totals: Totals) -> Identification | None:
    """None where there is nothing to judge: no noise in the slope at all."""
    scale = _scale(sample, beta)
    slope = -(totals.slope + totals.slope.T) / 2 / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(slope)
    if values.sum() < 0:
        values, vectors = -values[::-1], vectors[:, ::-1]
    weakest = vectors[:, 0] / scale
    error = _error(sample, sample.equation.record_slope(beta, weakest, weakest))
    if error <= 1e-9 * abs(values[0]):
        return None
    return Identification(float(values[0]) / error, float(values[0]), vectors[:, 0])


def _error(sample: Sample, slopes: Float) -> float:
    """Standard error of the total of the records' slopes (n,); a row with a count stands for so many equal records."""
    if sample.clusters is not None:
        sums = np.bincount(sample.clusters, weights=slopes * sample.row_weights, minlength=sample.groups or 0)
        return float(np.sqrt(np.sum((sums - sums.mean()) ** 2)))
    counts = np.ones(sample.rows) if sample.frequencies is None else sample.frequencies
    parts = slopes if sample.weights is None else slopes * sample.weights
    return float(np.sqrt(counts @ (parts - counts @ parts / counts.sum()) ** 2))


def _scale(sample: Sample, beta: Float) -> Float:
    """Root of Σ |∂φ_j/∂β_j|: positive whatever the sign of a reverted variance."""
    quick = getattr(sample.equation, "absolute_slopes", None)
    if quick is not None:
        sums = quick(beta, sample.row_weights)
    else:
        parts = [sample.equation.record_slope(beta, unit, unit) for unit in np.eye(sample.d)]
        sums = np.abs(np.array(parts)) @ sample.row_weights
    scale = np.sqrt(sums)
    return np.where(scale > 0, scale, 1.0)

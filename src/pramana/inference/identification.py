"""Is the parameter identified? The smallest eigenvalue of the slope, over its own standard error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.inference.sample import Sample

WEAK = 4.0
ASYMMETRY = 1e-3
"""Of a scaled slope: numerical derivatives leave less, and systems of different equations more."""


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


def weakest(sample: Sample, beta: Float, slope: Float) -> Identification | None:
    """The weakest direction of all that can be judged; None where there is nothing to judge.

    An equation names the blocks of its slope (d, d) that are minus a curvature (`curvatures`), and a system may be judged by
    another one that has the same regressors (`judged_by`). The slope of any other equation is taken for a curvature of
    either sign where it is symmetric; elsewhere its symmetric part says nothing about identification.
    """
    judge = getattr(sample.equation, "judged_by", sample.equation)
    if judge is not sample.equation:
        sample = sample.with_equation(judge)
        slope = judge.score_and_slope(beta[None], sample.row_weights[None])[1][0]
    blocks = getattr(judge, "curvatures", () if getattr(judge, "stacked", False) else (None,))
    judged = [identification(sample, beta, slope, block) for block in blocks]
    return min((one for one in judged if one is not None), key=lambda one: one.ratio, default=None)


def identification(sample: Sample, beta: Float, slope: Float, block: slice | None = None) -> Identification | None:
    """Of one block of the slope, or of all of it; None where there is no noise in it, or no symmetry."""
    units = np.eye(sample.d)[slice(None) if block is None else block]
    scale = _scale(sample, beta, units)
    scaled = -units @ slope @ units.T / np.outer(scale, scale)
    if np.abs(scaled - scaled.T).max() > ASYMMETRY:
        return None
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    if block is None and values.sum() < 0:
        values, vectors = -values[::-1], vectors[:, ::-1]
    loading = vectors[:, 0] / scale @ units
    error = _error(sample, sample.equation.record_slope(beta, loading, loading))
    if error <= 1e-9 * abs(values[0]):
        return None
    return Identification(float(values[0]) / error, float(values[0]), vectors[:, 0] @ units)


def _error(sample: Sample, slopes: Float) -> float:
    """Standard error of the total of the records' slopes (n,); a row with a count stands for so many equal records."""
    if sample.clusters is not None:
        sums = np.bincount(sample.clusters, weights=slopes * sample.row_weights, minlength=sample.groups or 0)
        return float(np.sqrt(np.sum((sums - sums.mean()) ** 2)))
    counts = np.ones(sample.rows) if sample.frequencies is None else sample.frequencies
    parts = slopes if sample.weights is None else slopes * sample.weights
    return float(np.sqrt(counts @ (parts - counts @ parts / counts.sum()) ** 2))


def _scale(sample: Sample, beta: Float, units: Float) -> Float:
    """Root of Σ |∂φ_j/∂β_j|: positive whatever the sign of a reverted variance."""
    quick = getattr(sample.equation, "absolute_slopes", None)
    if quick is not None:
        sums = units @ quick(beta, sample.row_weights)
    else:
        parts = [sample.equation.record_slope(beta, unit, unit) for unit in units]
        sums = np.abs(np.array(parts)) @ sample.row_weights
    scale = np.sqrt(sums)
    return np.where(scale > 0, scale, 1.0)

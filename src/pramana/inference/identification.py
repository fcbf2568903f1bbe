"""Is the parameter identified? The smallest eigenvalue of the slope, over its own standard error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.engines import Engine

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


def weakest(engine: Engine, beta: Float, slope: Float) -> Identification | None:
    """The weakest direction of all that can be judged; None where there is nothing to judge.

    An equation names the blocks of its slope (d, d) that are minus a curvature, and may be judged by another one that has the
    same regressors. A slope without such blocks is taken for a curvature of either sign where it is symmetric; elsewhere its
    symmetric part says nothing about identification.
    """
    judge = engine.judge()
    if judge is not engine:
        engine, slope = judge, judge.score_and_slope(beta[None], judge.own)[1][0]
    judged = [identification(engine, beta, slope, block) for block in engine.about.curvatures]
    return min((one for one in judged if one is not None), key=lambda one: one.ratio, default=None)


def identification(engine: Engine, beta: Float, slope: Float, block: slice | None = None) -> Identification | None:
    """Of one block of the slope, or of all of it; None where there is no noise in it, or no symmetry."""
    units = np.eye(engine.d)[slice(None) if block is None else block]
    scale = np.sqrt(units @ engine.absolute_slopes(beta))  # positive whatever the sign of a reverted variance
    scale = np.where(scale > 0, scale, 1.0)
    scaled = -units @ slope @ units.T / np.outer(scale, scale)
    if np.abs(scaled - scaled.T).max() > ASYMMETRY:
        return None
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    if block is None and values.sum() < 0:
        values, vectors = -values[::-1], vectors[:, ::-1]
    loading = vectors[:, 0] / scale @ units
    error = engine.slope_error(beta, loading, loading, float(loading @ slope @ loading))
    if error <= 1e-9 * abs(values[0]):
        return None
    return Identification(float(values[0]) / error, float(values[0]), vectors[:, 0] @ units)

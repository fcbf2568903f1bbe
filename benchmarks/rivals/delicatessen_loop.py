"""delicatessen: one MEstimator a draw, the estimating function given to it by hand."""

from __future__ import annotations

import numpy as np
from delicatessen import MEstimator

from benchmarks.cases import Case, Float

NAME = "delicatessen, one MEstimator a draw"


def solve(case: Case, start: Float, draws: int, seed: int) -> Float:
    weights = np.random.default_rng(seed).exponential(size=(draws, case.n))
    return np.stack([_estimate(case, w, start) for w in weights])


def _estimate(case: Case, weights: Float, start: Float) -> Float:
    def equations(theta: Float) -> Float:
        return (case.phi(np.asarray(theta)) * weights[:, None]).T

    estimator = MEstimator(equations, init=start.tolist())
    estimator.estimate(solver="lm", tolerance=1e-10)
    return np.asarray(estimator.theta)

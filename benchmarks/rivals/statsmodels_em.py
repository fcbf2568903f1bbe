"""EM for a perturbed binary response, written by hand around statsmodels GLM: every M step is a weighted logistic fit."""

from __future__ import annotations

import warnings

import numpy as np
import statsmodels.api as sm

from benchmarks.cases import Float

NAME = "EM by hand around statsmodels GLM"


def solve(design: Float, released: Float, matrix: Float, *, tolerance: float, limit: int = 2000) -> tuple[Float, int]:
    """Coefficients and EM steps; stops when no coefficient moves by more than the tolerance.

    Parameters
    ----------
    design : (n, d); released : (n,), zeros and ones; matrix : (2, 2), columns sum to 1.
    """
    n = len(design)
    both, truth = np.vstack([design, design]), np.repeat([0.0, 1.0], n)
    channel = matrix[released.astype(int)]
    beta = np.zeros(design.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(1, limit + 1):
            p = 1 / (1 + np.exp(-design @ beta))
            joint = channel * np.column_stack([1 - p, p])
            posterior = joint / joint.sum(axis=1, keepdims=True)
            model = sm.GLM(truth, both, family=sm.families.Binomial(), freq_weights=posterior.T.ravel())
            moved = np.asarray(model.fit(start_params=beta).params)
            gap, beta = float(np.max(np.abs(moved - beta))), moved
            if gap < tolerance:
                return beta, step
    return beta, limit

"""scipy.optimize.root with the analytic derivative, once a draw."""

from __future__ import annotations

import numpy as np
from scipy.optimize import root

from benchmarks.cases import Case, Float

NAME = "scipy.optimize.root, once a draw"


def solve(case: Case, start: Float, draws: int, seed: int) -> Float:
    weights = np.random.default_rng(seed).exponential(size=(draws, case.n))
    nodes = case.weight.shape[1]
    flat, response = case.design.reshape(-1, case.design.shape[2]), np.repeat(case.response, nodes)
    return np.stack([_root(flat, response, case.weight.ravel() * np.repeat(w, nodes), start) for w in weights])


def _root(design: Float, response: Float, weights: Float, start: Float) -> Float:
    def score(beta: Float) -> Float:
        return design.T @ (weights * (response - 1 / (1 + np.exp(-(design @ beta)))))

    def slope(beta: Float) -> Float:
        mu = 1 / (1 + np.exp(-(design @ beta)))
        return -(design * (weights * mu * (1 - mu))[:, None]).T @ design

    return np.asarray(root(score, start, jac=slope, tol=1e-10).x)

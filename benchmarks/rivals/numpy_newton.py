"""One Newton iteration loop a draw, written with NumPy by hand."""

from __future__ import annotations

import numpy as np

from benchmarks.cases import Case, Float

NAME = "NumPy, one Newton a draw"


def solve(case: Case, start: Float, draws: int, seed: int) -> Float:
    weights = np.random.default_rng(seed).exponential(size=(draws, case.n))
    flat = case.design.reshape(-1, case.design.shape[2])
    node_weight, response = case.weight.ravel(), np.repeat(case.response, case.weight.shape[1])
    return np.stack([_newton(flat, node_weight, response, np.repeat(w, case.weight.shape[1]), start) for w in weights])


def _newton(design: Float, node_weight: Float, response: Float, weights: Float, beta: Float) -> Float:
    w = node_weight * weights
    for _ in range(50):
        mu = 1 / (1 + np.exp(-(design @ beta)))
        score = design.T @ (w * (response - mu))
        slope = (design * (w * mu * (1 - mu))[:, None]).T @ design
        step = np.linalg.solve(slope, score)
        beta = beta + step
        if np.max(np.abs(step)) < 1e-10:
            break
    return beta

"""statsmodels GLM with frequency weights, once a draw.

A GLM library takes neither signed weights nor responses outside [0, 1], so it solves the naive problem (released values
taken as true): the same size of work, not the same answer.
"""

from __future__ import annotations

import warnings

import numpy as np
import statsmodels.api as sm

from benchmarks.cases import Case, Float

NAME = "statsmodels GLM, once a draw (naive problem)"


def solve(case: Case, start: Float, draws: int, seed: int) -> Float:
    weights = np.random.default_rng(seed).exponential(size=(draws, case.n))
    design = case.design[:, 0]
    if case.weight.shape[1] > 1:
        design = np.einsum(
            "nc,ncd->nd", (case.weight == case.weight.max(axis=1, keepdims=True)).astype(float), case.design
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            sm.GLM(case.released, design, family=sm.families.Binomial(), freq_weights=w).fit(
                start_params=start, tol=1e-10
            )
            for w in weights
        ]
    return np.stack([f.params for f in fits])

"""Curves of families."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from pramana.estimating.families import FAMILIES


def test_the_logistic_curve_is_scipys_and_stays_a_number_far_out() -> None:
    eta = np.concatenate([np.linspace(-40, 40, 401), [-699.0, -750.0, 750.0, -np.inf, np.inf, np.nan]])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        mean, slope, a, bend = FAMILIES["binomial", "logit"].curve(eta)
    np.testing.assert_allclose(mean[:402], expit(eta[:402]), rtol=1e-14)
    np.testing.assert_allclose(mean[402:], [0, 1, 0, 1, np.nan], atol=1e-300)
    np.testing.assert_array_equal(slope, mean * (1 - mean))
    assert (a, bend) == (1.0, 0.0)

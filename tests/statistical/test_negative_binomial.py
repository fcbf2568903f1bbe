"""Negative binomial regression with its dispersion: centred at the truth, covered as stated, and off when P is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from montecarlo import Data, Setting, check

import pramana as pr

Log = Callable[[str, object], None]
lengths = pytest.mark.parametrize("replicates", [40, pytest.param(1000, marks=pytest.mark.verify)])


def counts_and_a_perturbed_group(n: int = 4000) -> Setting:
    def generate(rng: np.random.Generator) -> Data:
        x, g = rng.normal(size=n), (rng.random(n) < 0.4).astype(int)
        mean = np.exp(0.3 + 0.3 * x + 1.0 * g)
        return {"x": x, "g": g, "y": rng.poisson(mean * rng.gamma(2.0, 0.5, n))}

    channels = [pr.Mechanism({"g": pr.TransitionMatrix.binary(keep, keep)}) for keep in (0.85, 0.9)]
    truth = (0.3, 0.3, 1.0, float(np.log(0.5)))
    return Setting(generate, *channels, "y ~ x + g", truth, {"family": "negative-binomial"})


@lengths
def test_negative_binomial_regression_with_a_perturbed_covariate(replicates: int, record_property: Log) -> None:
    check(counts_and_a_perturbed_group(), replicates, 901, record_property)

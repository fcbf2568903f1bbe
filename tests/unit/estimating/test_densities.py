"""Log densities against scipy's, their derivatives against differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import pramana as pr
from pramana.estimating.densities import density_of
from pramana.estimating.families import FAMILIES, family_of

MU = np.array([0.3, 0.8, 1.7, 2.5])
POSITIVE = np.array([0.2, 1.1, 3.0, 0.9])
COUNTS = np.array([0.0, 1.0, 4.0, 2.0])
PHI = 0.6
EXPECTED = {
    "gaussian": (POSITIVE, stats.norm(MU, np.sqrt(PHI)).logpdf(POSITIVE)),
    "gamma": (POSITIVE, stats.gamma(1 / PHI, scale=MU * PHI).logpdf(POSITIVE)),
    "inverse-gaussian": (POSITIVE, stats.invgauss(MU * PHI, scale=1 / PHI).logpdf(POSITIVE)),
    "poisson": (COUNTS, stats.poisson(MU).logpmf(COUNTS)),
    "negative-binomial": (COUNTS, stats.nbinom(1 / PHI, 1 / (1 + PHI * MU)).logpmf(COUNTS)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_log_densities_are_those_of_scipy(name: str) -> None:
    family = pr.negative_binomial(PHI) if name == "negative-binomial" else family_of(name)
    y, expected = EXPECTED[name]
    np.testing.assert_allclose(density_of(family).log(y, MU, PHI), expected, rtol=1e-12)


def test_a_bernoulli_at_the_ends() -> None:
    log = density_of(family_of("binomial")).log
    np.testing.assert_allclose(log(np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.25]), 1.0), [0, 0, np.log(0.25)])


@pytest.mark.parametrize("name", ["gaussian", "gamma", "inverse-gaussian"])
def test_derivatives_in_the_log_dispersion(name: str) -> None:
    density, step = density_of(family_of(name)), 1e-4
    assert density.derivatives is not None
    first, second = density.derivatives(POSITIVE, MU, PHI)
    low, middle, high = (density.log(POSITIVE, MU, PHI * np.exp(k * step)) for k in (-1, 0, 1))
    np.testing.assert_allclose(first, (high - low) / (2 * step), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(second, (high - 2 * middle + low) / step**2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "gamma", "inverse-gaussian"])
def test_the_dispersion_is_where_the_derivative_vanishes(name: str) -> None:
    density, weights = density_of(family_of(name)), np.array([1.0, 0.5, 2.0, 0.25])
    assert density.dispersion is not None
    assert density.derivatives is not None
    phi = density.dispersion(POSITIVE, MU, weights)
    assert weights @ density.derivatives(POSITIVE, MU, phi)[0] == pytest.approx(0, abs=1e-10)


def test_every_family_has_a_density() -> None:
    assert all(callable(density_of(family).log) for family in FAMILIES.values())

"""Derivatives of the logistic function, and their tables where normal noise is undone for all records alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from pramana.kernels import logistic
from pramana.kernels.logistic import (
    EIGHT,
    FOUR,
    MIXTURE_REACH,
    MIXTURES,
    THREE,
    logistic_derivatives,
    mixture_derivatives,
    smoothed_derivatives,
    steepest,
    weights_of,
)


def test_derivatives_are_those_of_the_function() -> None:
    """By a contour integral: exact to rounding, and without a step."""
    eta = np.linspace(-6, 6, 41)
    turn = np.exp(2j * np.pi * (np.arange(64) + 0.5) / 64)
    around = 1 / (1 + np.exp(-(eta[:, None] + turn)))
    found = logistic_derivatives(eta, 7)
    assert len(found) == 8
    for k, derivative in enumerate(found):
        factor = float(np.prod(np.arange(1, k + 1)))
        expected = factor * np.mean(around * turn**-k, axis=1).real
        np.testing.assert_allclose(derivative, expected, rtol=1e-9, atol=1e-12 * factor)


@pytest.mark.parametrize("sd", [0.05, 0.4, 0.72, 0.7295, 0.9, 0.99, 1.1, 1.249])
@pytest.mark.parametrize("highest", [3, 5])
def test_a_table_gives_what_the_mixture_gives(
    sd: float, highest: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    eta = np.concatenate([rng.normal(size=8000) * 3, [-40.0, 0.0, 35.0]])
    found = smoothed_derivatives(eta, np.array([sd**2]), highest)
    alike = smoothed_derivatives(eta, np.full(eta.size, sd**2), highest)
    monkeypatch.setattr(logistic, "TABULATED", 10**9)
    slow = smoothed_derivatives(eta, np.array([sd**2]), highest)
    for one, other, expected in zip(found, alike, slow, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, expected, rtol=0, atol=1e-13 * max(1.0, np.abs(expected).max()))


def test_what_no_table_can_hold_is_computed_directly(rng: np.random.Generator) -> None:
    eta = np.append(rng.normal(size=6000), 1e9)
    assert np.isfinite(smoothed_derivatives(eta, np.array([0.1]), 3)[0]).all()
    gap = smoothed_derivatives(np.append(eta[:-1], np.nan), np.array([0.1]), 3)[0]
    assert np.isnan(gap[-1])
    assert np.isfinite(gap[:-1]).all()
    assert np.isnan(smoothed_derivatives(eta[:-1], np.array([MIXTURE_REACH**2 * 1.01]), 3)[0]).all()


@pytest.mark.parametrize(
    ("mixture", "errors"),
    [
        (EIGHT, (2.2e-9, 4e-8, 1.31e-8, 5e-7)),
        (FOUR, (8e-6, 3.9e-5, 3e-5, 3.9e-4)),
        (THREE, (3e-4, 1.6e-3, 8.1e-4, 1e-2)),
    ],
    ids=["eight", "four", "three"],
)
def test_the_stated_errors_are_the_largest(mixture: logistic.NormalMixture, errors: tuple[float, ...]) -> None:
    """Of H, tH, H′ and t²H′; and they are stated with no more than a third to spare."""
    t = np.linspace(0, 60, 30_001)
    h, slope = logistic_derivatives(t, 1)
    x = np.outer(t, mixture.steepness)
    own = norm.cdf(x) @ mixture.shares
    bell = norm.pdf(x) @ (mixture.shares * mixture.steepness)
    found = [np.abs(e).max() for e in (own - h, t * (own - h), bell - slope, t**2 * (bell - slope))]
    assert mixture.error == errors[0]
    assert mixture.shares.sum() == pytest.approx(1, abs=1e-9)
    for largest, stated in zip(found, errors, strict=True):
        assert stated / 1.5 < largest <= stated


def test_mixtures_take_over_from_each_other_without_a_jump() -> None:
    sd = np.linspace(0, MIXTURE_REACH * 0.999, 4001)
    weights = np.stack(weights_of(sd**2))
    np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=0, atol=1e-15)
    assert np.all((weights > 0).sum(axis=0) <= 2)
    assert np.abs(np.diff(weights, axis=1)).max() < 0.03
    for mixture, own in zip(MIXTURES, weights, strict=True):
        assert np.all(own[sd >= mixture.reach] == 0)
    values = mixture_derivatives(np.full(sd.size, 1.3), sd**2, 0)[0]
    assert np.isfinite(values).all()
    assert np.abs(np.diff(values)).max() < 0.01
    assert np.isnan(steepest(MIXTURE_REACH**2))


@pytest.mark.parametrize(("sd", "error"), [(0.5, 2.2e-9), (0.723, 8e-6), (0.9, 8e-6), (0.99, 3e-4), (1.2, 3e-4)])
def test_averaged_over_normal_noise_the_logit_is_right_to_what_is_stated(sd: float, error: float) -> None:
    """By the trapezoidal rule; the naive logit is not."""
    v = np.arange(-9, 9, 0.002)
    mass = 0.002 * norm.pdf(v)
    for eta in (-3.0, 0.4, 1.7):
        noisy = eta + sd * v
        found = mass @ mixture_derivatives(noisy, np.array([sd**2]), 0)[0]
        true = logistic_derivatives(np.array([eta]), 0)[0][0]
        assert abs(found - true) < error
        assert abs(mass @ logistic_derivatives(noisy, 0)[0] - true) > 2 * error

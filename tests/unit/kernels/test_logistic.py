"""Derivatives of the logistic function, and their tables where normal noise is undone for all records alike."""

from __future__ import annotations

import numpy as np
import pytest

from pramana.kernels import logistic
from pramana.kernels.logistic import MIXTURE_REACH, logistic_derivatives, smoothed_derivatives


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


@pytest.mark.parametrize("sd", [0.05, 0.4, 0.72, 0.7322])
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

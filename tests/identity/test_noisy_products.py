"""The compiled sums of equations with noise in covariates equal those in NumPy, whichever way noise enters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.analysis.task import Task
from pramana.estimating.noisy import NoisyLinear
from pramana.estimators import Reversion
from pramana.kernels import backend, shifted

N = 701  # more than a block, and no multiple of one
BINARY = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.85)
MECHANISMS: dict[str, dict[Any, Any]] = {
    "laplace": {"z": pr.LaplaceNoise(0.5)},
    "normal": {"z": pr.GaussianNoise(0.6)},
    "normal on a grid, perturbed covariate": {"z": pr.DiscreteGaussianNoise(0.6, step=0.25), "g": BINARY},
    "laplace, perturbed response": {"z": pr.LaplaceNoise(0.5), "y": BINARY},
    "normal and laplace": {"z": pr.GaussianNoise(0.4), "v": pr.LaplaceNoise(0.3), "g": BINARY},
    "shared": {("z", "v"): pr.JointGaussianNoise([[0.3, 0.1], [0.1, 0.3]])},
}


@pytest.fixture(scope="module")
def true() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    columns = {name: rng.normal(size=N) for name in "zvx"}
    return pd.DataFrame({**columns, "g": rng.integers(0, 2, N), "y": rng.integers(0, 2, N)})


def bound(formula: str, family: str, channels: dict[Any, Any], true: pd.DataFrame) -> NoisyLinear:
    mechanism = pr.Mechanism(channels)
    with pytest.warns(pr.PramanaWarning):
        released = mechanism.perturb(true, seed=1)
    task = Task.read(question(formula, family=family), released, mechanism)
    equation = Reversion().bind(task.function, mechanism, task.table, np.ones(N)).equation
    assert isinstance(equation, NoisyLinear)
    return equation


@pytest.mark.parametrize("family", ["binomial", "gaussian", "poisson"])
@pytest.mark.parametrize("formula", ["y ~ z + x + g + v", "y ~ z * x + g", "y ~ z * g + x"])
@pytest.mark.parametrize("noise", MECHANISMS)
def test_compiled_sums_equal_those_in_numpy(
    noise: str, formula: str, family: str, true: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    channels = MECHANISMS[noise]
    if backend.compiled_noise() is None or (noise == "shared" and "v" not in formula):
        pytest.skip("nothing to compare")
    whole, rng = bound(formula, family, channels, true), np.random.default_rng(5)
    weights = rng.random(N)
    beta = np.linspace(-0.08, 0.1, whole.d) if family == "poisson" else np.linspace(-0.2, 0.25, whole.d)
    for equation, w in ((whole, weights), (whole.rows(slice(100, 690)), weights[100:690])):
        found = []
        for size in (0, 10**9):
            monkeypatch.setattr(backend, "WORTHWHILE", size)
            both = equation.score_and_slope(beta[None], w[None])
            found.append([*equation.sums(beta, w, w**2), *both, equation.outer(beta, w)])
        for fast, slow in zip(*found, strict=True):
            np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-13 * np.abs(slow).max())


@pytest.mark.parametrize("formula", ["y ~ z + x", "y ~ z * x"])
@pytest.mark.parametrize("slope", [1.21, 1.5, 1.9])
def test_strong_noise_is_undone_alike_whatever_the_kernel(
    formula: str, slope: float, true: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coarser mixtures, from a table and for every record: compiled, in NumPy, and in blocks."""
    equation = bound(formula, "binomial", MECHANISMS["normal"], true)
    beta, ones = np.array([0.1, slope, *[0.02] * (equation.d - 2)]), np.ones(N)
    found = []
    for size in (0, 10**9):
        monkeypatch.setattr(backend, "WORTHWHILE", size)
        found.append(equation.sums(beta, ones, ones))
    parts = [
        equation.rows(s).sums(beta, np.ones(s.stop - s.start), np.ones(s.stop - s.start))
        for s in (slice(0, 300), slice(300, N))
    ]
    for fast, slow, one, other in zip(*found, *parts, strict=True):
        np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-12 * np.abs(slow).max())
        np.testing.assert_allclose(one + other, slow, rtol=0, atol=1e-12 * np.abs(slow).max())
    assert [code for code, _, _ in equation.remarks(beta, ones, np.eye(equation.d), ones)] == ["coarser-logit"]


@pytest.mark.parametrize("formula", ["y ~ z + x", "y ~ z * x"])
def test_too_much_noise_is_no_number_and_refused_alike(
    formula: str, true: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a search strays: beyond the reach of the mixture, and far out."""
    equation = bound(formula, "binomial", MECHANISMS["normal"], true)
    monkeypatch.setattr(backend, "WORTHWHILE", 0)
    beta = np.zeros(equation.d)
    beta[1] = 3.0
    assert np.isnan(equation.score_and_slope(beta[None], np.ones((1, N)))[0]).all()
    with pytest.raises(pr.SolveError, match=r"standard deviation of .* on the scale of the linear predictor"):
        equation.sums(beta, np.ones(N), np.ones(N))
    assert np.isnan(equation.score_and_slope(np.full((1, equation.d), np.nan), np.ones((1, N)))[0]).all()


def test_points_of_a_noise_are_counted_before_they_are_made() -> None:
    """A score interval walks out by 2²⁴ standard errors: that once made a hundred million panels."""
    points, weights = shifted.laplace_points(0.6, 1e9)
    assert np.isnan(points).all()
    assert np.isnan(weights).all()
    assert shifted.laplace_points(0.6, 10.0)[1].sum() == pytest.approx(1, abs=1e-12)

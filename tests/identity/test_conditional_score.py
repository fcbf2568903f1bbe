"""Without Monte Carlo: over the outcome of a true logit and over normal noise, by quadrature, the conditional score has mean zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.estimating.equation import Equation, central_slopes
from pramana.estimators import ConditionalScore, Naive
from pramana.frames import read

BINARY = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)
TRUE = pd.DataFrame(
    {"z": [0.0, 1.0, 2.0, -1.0, 0.5], "x": [0.3, -1.2, 0.8, 1.5, -0.4], "g": [0, 1, 1, 0, 1], "h": [0, 1, 1, 0, 0]}
)
SHARE = np.array([1.0, 0.7, 0.4, 1.3, 0.6])


def expit(eta: Any) -> Any:
    return 1 / (1 + np.exp(-eta))


def bound(frame: pd.DataFrame, mechanism: pr.Mechanism, formula: str, method: Any = None) -> Any:
    table = read(frame)
    function = question(formula, family="binomial").prepare(table, mechanism.schema)
    return (method or ConditionalScore()).bind(function, mechanism, table, np.ones(table.n)).equation


def spread(frame: pd.DataFrame, weight: np.ndarray, columns: dict[str, np.ndarray], mass: np.ndarray) -> Any:
    """Every record with every value that is added to some columns."""
    out = frame.iloc[np.repeat(np.arange(len(frame)), mass.size)].reset_index(drop=True)
    moved = {name: out[name] + np.tile(values, len(frame)) for name, values in columns.items()}
    return out.assign(**moved), np.repeat(weight, mass.size) * np.tile(mass, len(frame))


def outcomes(eta: np.ndarray) -> Any:
    frame = pd.concat([TRUE.assign(y=0), TRUE.assign(y=1)])
    return frame, np.concatenate([SHARE * (1 - expit(eta)), SHARE * expit(eta)])


def normal(step: float) -> Any:
    """The trapezoidal rule: its error is e^(−2πd/step) where the nearest pole of the logit lies d off the line."""
    t = np.arange(-round(8.5 / step), round(8.5 / step) + 1) * step
    return t, step * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)


@pytest.mark.parametrize(
    ("formula", "beta", "design"),
    [
        ("y ~ z + x", [0.2, 1.1, -0.5], lambda f: [1, f.z, f.x]),
        ("y ~ z * x", [0.2, 0.8, -0.5, 0.6], lambda f: [1, f.z, f.x, f.z * f.x]),
    ],
)
def test_the_score_has_mean_zero_beyond_the_reach_of_reversion(formula: str, beta: list[float], design: Any) -> None:
    eta = sum(b * part for b, part in zip(beta, design(TRUE), strict=True))
    t, mass = normal(0.1)
    frame, weight = spread(*outcomes(np.asarray(eta)), {"z": 2.0 * t}, mass)
    for sd, zero in ((2.0, True), (2.2, False)):
        equation = bound(frame, pr.Mechanism({"z": pr.GaussianNoise(sd)}), formula)
        found = weight @ equation.influence(np.array(beta))
        assert bool(np.abs(found).max() < 1e-8) is zero


def test_noise_that_columns_share_and_other_channels() -> None:
    """A perturbed response, a perturbed covariate, and noise with a covariance; strata with the same noise change nothing."""
    beta = np.array([0.2, 1.1, -0.5, 0.7])
    eta = beta @ np.stack([np.ones(len(TRUE)), TRUE.z, TRUE.x, TRUE.g])
    covariance = np.array([[2.0, 1.0], [1.0, 1.5]])
    t, mass = normal(0.25)
    moves = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2) @ np.linalg.cholesky(covariance).T
    both = np.outer(mass, mass).ravel()
    frame, weight = outcomes(eta)
    for name in ("y", "g"):
        parts = [(frame.assign(**{name: i}), weight * BINARY.matrix[i, frame[name]]) for i in (0, 1)]
        frame, weight = pd.concat([p for p, _ in parts]), np.concatenate([w for _, w in parts])
    frame, weight = spread(frame, weight, {"z": moves[:, 0], "x": moves[:, 1]}, both)
    mechanism = pr.Mechanism({"y": BINARY, "g": BINARY, ("z", "x"): pr.JointGaussianNoise(covariance)})
    equation = bound(frame, mechanism, "y ~ z + x + g")
    assert np.abs(weight @ equation.influence(beta)).max() < 1e-8
    alone = pr.Mechanism({"y": BINARY, "z": pr.GaussianNoise(0.5)})
    strata = pr.Mechanism({"y": BINARY, "z": pr.Stratified("h", {0: pr.GaussianNoise(0.5), 1: pr.GaussianNoise(0.5)})})
    one, other = (bound(frame[::4001], m, "y ~ z * g").influence(beta) for m in (alone, strata))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_slopes_are_derivatives_and_blocks_add() -> None:
    frame, weight = outcomes(0.3 * TRUE.z.to_numpy())
    mechanism = pr.Mechanism({"g": BINARY, ("z", "x"): pr.JointGaussianNoise([[2.0, 1.0], [1.0, 1.5]])})
    equation, beta = bound(frame, mechanism, "y ~ z * g + x"), np.array([0.2, 0.8, -0.5, 0.3, 0.4])
    expected = central_slopes(lambda b: weight @ equation.influence(b), beta)
    np.testing.assert_allclose(equation.slope(beta, weight), expected, rtol=1e-7, atol=1e-8)
    cut = [equation.rows(slice(0, 4)), equation.rows(slice(4, 10))]
    np.testing.assert_allclose(np.concatenate([e.influence(beta) for e in cut]), equation.influence(beta), rtol=1e-13)
    np.testing.assert_allclose(
        equation.slope(beta, weight), Equation.slope(equation, beta, weight), rtol=1e-7, atol=1e-8
    )


def test_without_noise_it_is_the_naive_score() -> None:
    frame, _ = outcomes(0.3 * TRUE.z.to_numpy())
    mechanism, beta = pr.Mechanism({"z": pr.GaussianNoise(1.0)}), np.array([0.2, 0.8, -0.5])
    softened = bound(frame, mechanism, "y ~ z + x").softened(0.0).influence(beta)
    np.testing.assert_allclose(softened, bound(frame, mechanism, "y ~ z + x", Naive()).influence(beta), atol=1e-14)


@pytest.mark.parametrize(
    ("formula", "channels", "options"),
    [
        ("y ~ z", {"z": pr.GaussianNoise(1.0)}, {}),
        ("y ~ z", {"z": pr.GaussianNoise(1.0)}, {"family": "binomial", "link": "probit"}),
        ("y ~ z", {"z": pr.LaplaceNoise(1.0)}, {"family": "binomial"}),
        ("y ~ z", {"z": pr.DiscreteGaussianNoise(1.0)}, {"family": "binomial"}),
        ("y ~ z + x", {"z": pr.GaussianNoise(1.0), "x": pr.UniformNoise(1.0)}, {"family": "binomial"}),
        ("y ~ z + I(z ** 2)", {"z": pr.GaussianNoise(1.0)}, {"family": "binomial"}),
        ("y ~ g", {"g": BINARY}, {"family": "binomial"}),
        ("s ~ z", {"z": pr.GaussianNoise(1.0)}, {"family": "binomial"}),
    ],
)
def test_what_it_is_not_for(formula: str, channels: Any, options: Any) -> None:
    frame = TRUE.assign(y=[0, 1, 1, 0, 1], s=[0.1, 0.9, 0.4, 0.3, 1.0]).assign(z=[0.0, 1.0, 2.0, -1.0, 0.0])
    with pytest.raises(pr.PramanaError, match=r"conditional score (is for|needs).*use method='reversion'"):
        pr.fit(formula, frame, pr.Mechanism(channels), method="conditional-score", **options)


def test_its_label_and_assumption_are_shown() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=800)
    frame = {"x": x, "y": (rng.random(800) < expit(x)).astype(int)}
    mechanism = pr.Mechanism({"x": pr.GaussianNoise(1.0)})
    with pytest.warns(UserWarning, match="not secure"):
        released = mechanism.perturb(frame, seed=1)
    shown = str(pr.fit("y ~ x", released, mechanism, family="binomial", method="conditional-score"))
    assert "conditional score" in shown
    assert "that the logit is true" in shown

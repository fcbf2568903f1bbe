"""Without Monte Carlo: what clamped Laplace noise reverts, summed over everything that it can release, is the true score, slope and square."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_additive_noise import BINARY, equation_of, slope

import pramana as pr

NOISE = pr.LaplaceNoise(0.8, bounds=(-0.5, 2.0)).clamped()
TRUE = pd.DataFrame({"z": [-0.5, 0.75, 2.0], "x": [0.3, -1.2, 0.8], "g": [0, 1, 1], "y": [1.0, 0.0, 1.0]})
SHARE = np.array([1.0, 0.7, 0.4])


def law(z: float, noise: Any = NOISE) -> tuple[np.ndarray, np.ndarray]:
    """All that z can be released as, and the probabilities: those of a point inside, those of a tail at the ends."""
    grid = noise.inner.grid
    low, high = (round(end / grid) for end in noise.ends)
    k, alpha = np.arange(low, high + 1), np.exp(-grid / noise.scale)
    apart = np.abs(k - round(z / grid))
    mass = (1 - alpha) / (1 + alpha) * alpha**apart
    mass[[0, -1]] = alpha ** apart[[0, -1]] / (1 + alpha)
    return k * grid, mass


def released(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    parts = [law(z) for z in TRUE[name]]
    frame = TRUE.iloc[np.repeat(np.arange(len(TRUE)), [v.size for v, _ in parts])].reset_index(drop=True)
    frame[name] = np.concatenate([v for v, _ in parts])
    return frame, np.concatenate([share * mass for share, (_, mass) in zip(SHARE, parts, strict=True)])


def test_probabilities_sum_to_one() -> None:
    for z in TRUE["z"]:
        assert law(z)[1].sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("what", "beta", "options"),
    [
        (pr.mean("z"), [0.4], {}),
        (pr.from_callable(lambda b, z, y: np.stack([np.exp(-z) * y - b[0], np.sin(3 * z) - b[1]], axis=1), ["a", "b"]), [0.2, 0.1], {}),
        ("y ~ z + x", [0.2, 0.5, -0.3], {}),
        ("y ~ z + I(z ** 2)", [0.2, 0.5, -0.3], {}),
        ("z ~ x", [0.2, 0.5], {}),
        ("y ~ z + z:x", [0.2, 0.5, -0.3], {"family": "binomial"}),
        ("y ~ z + x", [0.2, 0.5, -0.3], {"family": "binomial", "link": "probit"}),
        ("y ~ z + x", [0.2, 0.5, -0.3], {"family": "poisson"}),
    ],
)  # fmt: skip
def test_sums_are_true(what: Any, beta: list[float], options: dict[str, Any]) -> None:
    frame, weight = released("z")
    true, found = (
        equation_of(what, TRUE, None, **options),
        equation_of(what, frame, pr.Mechanism({"z": NOISE}), **options),
    )
    b = np.array(beta)
    pairs = [
        (weight @ found.influence(b), SHARE @ true.influence(b)),
        (slope(found, b, weight), slope(true, b, SHARE)),
        (found.clean_outer(b, weight), true.clean_outer(b, SHARE)),
    ]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=2e-8 * np.abs(other).max())


def test_beside_a_perturbed_column() -> None:
    frame, weight = released("z")
    both = pd.concat([frame.assign(g=i) for i in (0, 1)], ignore_index=True)
    weight = np.concatenate([weight * BINARY.matrix[i, frame["g"]] for i in (0, 1)])
    mechanism, b = pr.Mechanism({"z": NOISE, "g": BINARY}), np.array([0.2, 0.5, -0.3])
    true, found = equation_of("y ~ z + g", TRUE, None), equation_of("y ~ z + g", both, mechanism)
    np.testing.assert_allclose(weight @ found.influence(b), SHARE @ true.influence(b), rtol=1e-8, atol=2e-8)


def test_in_the_limit_these_are_the_derivatives() -> None:
    """u − b² u″ inside, u(L) − b u′(L) and u(U) + b u′(U) at the ends, to order grid."""
    b = NOISE.scale
    w = np.array([-0.5, 0.3, 2.0])
    found = NOISE.revert_function(lambda z: np.sin(z)[:, None], w, {})[:, 0]
    expected = [np.sin(-0.5) - b * np.cos(-0.5), np.sin(0.3) * (1 + b**2), np.sin(2.0) + b * np.cos(2.0)]
    np.testing.assert_allclose(found, expected, atol=NOISE.inner.grid)

"""Without Monte Carlo: a user's own function of noisy columns, its slope and its square, reverted and averaged over the noise, are the true ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_additive_noise import BINARY, equation_of, joint_law, law, slope

import pramana as pr
from pramana.estimating.noisy_functions import NoisyFunction

TRUE = pd.DataFrame(
    {"z": [0.0, 1.0, -1.0, 2.0], "x": [0.3, -0.6, 0.8, 0.1], "g": [0, 1, 1, 0], "y": [1.0, 0.2, -0.5, 2.0]}
)
SHARE = np.array([1.0, 0.7, 0.4, 1.3])
SOME = 2
"""Records whose noise is averaged over."""
BETA = np.array([0.3, 0.5])
EXACT = 1e-8
NAMES = ["a", "b"]


def bent(beta: Any, z: Any, x: Any, y: Any, g: Any) -> Any:
    """Varies within z, x and both together."""
    inner = beta[0] * z + beta[1] * z * x + 0.2 * g
    r = y - np.sin(inner) - 0.3 * z**2
    return np.stack([r, r * (x + z)], axis=1)


def bent_second(beta: Any, z: Any, x: Any, y: Any, g: Any) -> Any:
    """By z."""
    inner, c = beta[0] * z + beta[1] * z * x + 0.2 * g, beta[0] + beta[1] * x
    first, second = -c * np.cos(inner) - 0.6 * z, c**2 * np.sin(inner) - 0.6
    return np.stack([second, second * (x + z) + 2 * first], axis=1)


def bent_jax(beta: Any, z: Any, x: Any, y: Any, g: Any) -> Any:
    import jax.numpy as jnp

    r = y - jnp.sin(beta[0] * z + beta[1] * z * x + 0.2 * g) - 0.3 * z**2
    return jnp.stack([r, r * (x + z)], axis=1)


def apart(beta: Any, z: Any, x: Any, y: Any) -> Any:
    return np.stack([np.sin(beta[0] * z) * np.cos(x) - y, np.exp(0.2 * x) * z**2 - beta[1]], axis=1)


def apart_jax(beta: Any, z: Any, x: Any, y: Any) -> Any:
    import jax.numpy as jnp

    return jnp.stack([jnp.sin(beta[0] * z) * jnp.cos(x) - y, jnp.exp(0.2 * x) * z**2 - beta[1]], axis=1)


def apart_by_z(beta: Any, z: Any, x: Any, y: Any) -> Any:
    return np.stack([-(beta[0] ** 2) * np.sin(beta[0] * z) * np.cos(x), 2 * np.exp(0.2 * x)], axis=1)


def apart_by_x(beta: Any, z: Any, x: Any, y: Any) -> Any:
    return np.stack([-np.sin(beta[0] * z) * np.cos(x), 0.04 * np.exp(0.2 * x) * z**2], axis=1)


def apart_by_both(beta: Any, z: Any, x: Any, y: Any) -> Any:
    return np.stack([beta[0] ** 2 * np.sin(beta[0] * z) * np.cos(x), 0.08 * np.exp(0.2 * x)], axis=1)


def own_law(channel: Any) -> tuple[np.ndarray, np.ndarray]:
    """As elsewhere, with fewer points of Laplace noise: two columns have their product."""
    if not isinstance(channel, pr.LaplaceNoise):
        return law(channel, curved=True)
    places, weights = np.polynomial.legendre.leggauss(11)
    v = (np.arange(0, 40, 5)[:, None] + 2.5 * (places + 1)).ravel()
    mass = np.tile(2.5 * weights, 8) * np.exp(-v) / 2
    return channel.scale * np.concatenate([-v, v]), np.concatenate([mass, mass])


def released(channels: dict[Any, Any]) -> tuple[pd.DataFrame, np.ndarray]:
    frame, weight = TRUE[:SOME], SHARE[:SOME]
    for name, channel in channels.items():
        if channel is BINARY:
            parts = [(frame.assign(**{name: i}), weight * BINARY.matrix[i, frame[name]]) for i in (0, 1)]
            frame, weight = pd.concat([p for p, _ in parts]), np.concatenate([w for _, w in parts])
            continue
        v, p = joint_law(channel) if isinstance(name, tuple) else own_law(channel)
        names, moves = (name, v.T) if isinstance(name, tuple) else ((name,), v[None])
        repeated = frame.iloc[np.repeat(np.arange(len(frame)), p.size)]
        moved = {c: repeated[c].to_numpy() + np.tile(m, len(frame)) for c, m in zip(names, moves, strict=True)}
        frame = repeated.assign(**moved)
        weight = np.repeat(weight, p.size) * np.tile(p, weight.size)
    return frame.reset_index(drop=True), weight


def averages_are_true(what: Any, channels: dict[Any, Any], *, tolerance: float = EXACT, square: float = EXACT) -> Any:
    frame, weight = released(channels)
    true, found = equation_of(what, TRUE[:SOME], None), equation_of(what, frame, pr.Mechanism(channels))
    share = SHARE[:SOME]
    pairs = [
        (weight @ found.influence(BETA), share @ true.influence(BETA), tolerance),
        (slope(found, BETA, weight), slope(true, BETA, share), 10 * tolerance),  # central differences
        (found.clean_outer(BETA, weight), true.clean_outer(BETA, share), square),
        (
            weight @ found.record_slopes_along(BETA, np.ones((1, 2)), np.eye(2)[[1]])[0],
            slope(true, BETA, share)[:, 1].sum(),
            10 * tolerance,
        ),
    ]
    for one, other, bound in pairs:
        np.testing.assert_allclose(one, other, rtol=bound, atol=bound * np.abs(other).max())
    return found


LAPLACE = pr.LaplaceNoise(0.6)


def test_laplace_noise_by_a_supplied_second_derivative() -> None:
    what = pr.from_callable(bent, NAMES, second={"z": bent_second})
    assert isinstance(averages_are_true(what, {"z": LAPLACE}), NoisyFunction)
    averages_are_true(what, {"z": LAPLACE, "g": BINARY})


@pytest.mark.engines
def test_laplace_noise_by_jax() -> None:
    pytest.importorskip("jax")
    what = pr.from_callable(bent_jax, NAMES, derivative="jax")
    found = averages_are_true(what, {"z": LAPLACE, "g": BINARY})
    assert isinstance(found, NoisyFunction)
    averages_are_true(pr.from_callable(apart_jax, NAMES, derivative="jax"), {"z": LAPLACE, "x": pr.LaplaceNoise(0.9)})
    frame, _ = released({"z": LAPLACE, "g": BINARY})
    supplied = equation_of(
        pr.from_callable(bent, NAMES, second={"z": bent_second}), frame, pr.Mechanism({"z": LAPLACE, "g": BINARY})
    )
    np.testing.assert_allclose(found.influence(BETA), supplied.influence(BETA), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.record_slopes(BETA), supplied.record_slopes(BETA), rtol=1e-8, atol=1e-9)


def test_two_laplace_noises_are_a_product_of_operators() -> None:
    known: Any = {"z": apart_by_z, "x": apart_by_x, ("x", "z"): apart_by_both}
    averages_are_true(
        pr.from_callable(apart, NAMES, second=known), {"z": LAPLACE, "x": pr.LaplaceNoise(0.9)}, square=1e-5
    )


def test_laplace_noise_by_stratum() -> None:
    """Each record has the b² of its stratum."""
    noise = pr.Stratified("g", {0: pr.LaplaceNoise(0.6), 1: pr.LaplaceNoise(1.4)})
    what, b = pr.from_callable(bent, NAMES, second={"z": bent_second}), np.where(TRUE["g"] == 0, 0.6, 1.4)
    found = equation_of(what, TRUE, pr.Mechanism({"z": noise})).influence(BETA)
    columns = {name: TRUE[name].to_numpy() for name in what.variables}
    expected = bent(BETA, **columns) - b[:, None] ** 2 * bent_second(BETA, **columns)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("noise", [pr.GaussianNoise(0.8), pr.DiscreteGaussianNoise(1.1, step=0.5)])
def test_normal_noise_in_entire_functions(noise: Any) -> None:
    what = pr.from_callable(bent, NAMES, entire="z")
    assert isinstance(averages_are_true(what, {"z": noise, "g": BINARY}, square=1e-7), NoisyFunction)


def test_normal_noise_beside_laplace_noise() -> None:
    known: Any = {"x": apart_by_x}
    averages_are_true(
        pr.from_callable(apart, NAMES, second=known, entire="z"), {"z": pr.GaussianNoise(0.7), "x": LAPLACE}
    )


@pytest.mark.engines
def test_normal_noise_beside_laplace_noise_by_jax() -> None:
    pytest.importorskip("jax")
    what = pr.from_callable(apart_jax, NAMES, derivative="jax", entire=["z"])
    averages_are_true(what, {"z": pr.GaussianNoise(0.7), "x": LAPLACE})


def test_joint_normal_noise() -> None:
    noise = pr.JointGaussianNoise([[0.4, 0.1], [0.1, 0.2]])
    averages_are_true(pr.from_callable(apart, NAMES, entire=["z", "x"]), {("z", "x"): noise})


def square(beta: Any, z: Any, y: Any) -> Any:
    return np.stack([y * z - beta[0] * z**2, z - beta[1]], axis=1)


@pytest.mark.parametrize(
    "noise",
    [
        pr.GaussianNoise(0.8),
        pr.UniformNoise(2.0),
        LAPLACE,
        pr.DiscreteGaussianNoise(1.0),
        pr.KeepOrNoise(0.4, pr.LaplaceNoise(0.7)),
    ],
)
def test_every_noise_in_polynomials(noise: Any) -> None:
    averages_are_true(pr.from_callable(square, NAMES, degree={"z": 2}), {"z": noise})


@pytest.mark.parametrize(
    "noise",
    [pr.GeometricNoise(0.6), pr.KeepOrNoise(0.3, pr.GeometricNoise(0.7)), pr.KeepOrNoise(0.4, pr.LaplaceNoise(0.7))],
)
def test_noise_by_shifted_values(noise: Any) -> None:
    """Nothing needs to be said of the function."""
    averages_are_true(pr.from_callable(bent, NAMES), {"z": noise})

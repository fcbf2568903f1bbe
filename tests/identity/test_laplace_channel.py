"""A second kind of channel through the same doors: Laplace noise, whose reversion is u − b² u″."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from laplace import LaplaceChannel
from pramana.mechanism import Channel
from pramana.mechanism.draws.keystream import SeededKeystream

B = 0.6
CHANNEL: Any = LaplaceChannel(B)
MECHANISM = pr.Mechanism({"z": CHANNEL})
BINARY = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)
# The stencil is exact to about 1e-10 for the functions below; see tests/laplace.py.
TOLERANCE = 1e-8


@pytest.fixture
def data(rng: np.random.Generator) -> pd.DataFrame:
    n = 300
    z, g = rng.normal(size=n), rng.integers(0, 2, n)
    noisy = z + rng.laplace(scale=B, size=n)
    return pd.DataFrame({"z": noisy, "g": g, "y": 1 + z - 0.5 * g + rng.normal(size=n)})


def test_the_channel_follows_the_protocol() -> None:
    assert isinstance(CHANNEL, Channel)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda z: z, lambda z: z),
        (lambda z: z**2, lambda z: z**2 - 2 * B**2),
        (lambda z: np.exp(0.3 * z), lambda z: np.exp(0.3 * z) * (1 - 0.09 * B**2)),
    ],
    ids=["z", "z squared", "exp"],
)
def test_reversions_that_can_be_written_down(function: Any, expected: Any) -> None:
    z = np.linspace(-3, 3, 25)
    star = CHANNEL.revert_function(lambda v: function(v)[:, None], z, {})[:, 0]
    np.testing.assert_allclose(star, expected(z), rtol=0, atol=TOLERANCE)


def test_a_mean_keeps_its_value_and_pays_for_the_noise(data: pd.DataFrame) -> None:
    result = pr.fit(pr.mean("z"), data, MECHANISM)
    assert result.estimate[0] == pytest.approx(data["z"].mean(), abs=TOLERANCE)
    share = result.to_dict()["price_of_privacy"][0]["privacy_share"]
    assert share == pytest.approx(2 * B**2 / data["z"].var(ddof=0), abs=TOLERANCE)


def test_a_noisy_covariate_solves_the_corrected_normal_equations(data: pd.DataFrame) -> None:
    z, y = data["z"].to_numpy(), data["y"].to_numpy()
    gram = np.array([[len(z), z.sum()], [z.sum(), np.sum(z**2 - 2 * B**2)]])
    expected = np.linalg.solve(gram, [y.sum(), z @ y])
    np.testing.assert_allclose(pr.fit("y ~ z", data, MECHANISM).estimate, expected, rtol=0, atol=TOLERANCE)


def test_noise_on_the_response_leaves_a_linear_model_alone(data: pd.DataFrame) -> None:
    reverted, clean = pr.fit("z ~ y", data, MECHANISM), pr.fit("z ~ y", data, None)
    np.testing.assert_allclose(reverted.estimate, clean.estimate, rtol=0, atol=TOLERANCE)


def test_laplace_noise_and_a_transition_matrix_compose(data: pd.DataFrame) -> None:
    """Products of the two reversions enter the normal equations: z·g becomes z·q, g² becomes q."""
    mechanism = pr.Mechanism({"z": CHANNEL, "g": BINARY})
    z, y = data["z"].to_numpy(), data["y"].to_numpy()
    q = (data["g"].to_numpy() - 0.2) / 0.7
    moments = [[len(z), z.sum(), q.sum()], [z.sum(), np.sum(z**2 - 2 * B**2), z @ q], [q.sum(), z @ q, q.sum()]]
    expected = np.linalg.solve(np.array(moments), [y.sum(), z @ y, q @ y])
    result = pr.fit("y ~ z + g", data, mechanism)
    np.testing.assert_allclose(result.estimate, expected, rtol=0, atol=TOLERANCE)


def test_channels_compose_in_any_order(data: pd.DataFrame) -> None:
    orders = [pr.Mechanism({"z": CHANNEL, "g": BINARY}), pr.Mechanism({"g": BINARY, "z": CHANNEL})]
    first, second = (pr.fit("y ~ z * g", data, m) for m in orders)
    np.testing.assert_allclose(second.estimate, first.estimate, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(second.covariance, first.covariance, rtol=1e-7, atol=1e-10)


def test_a_poisson_model_with_a_noisy_covariate_has_a_root(data: pd.DataFrame) -> None:
    """exp(βz) reverts to exp(βz)(1 − b²β²), and z exp(βz) to (z(1 − b²β²) − 2b²β) exp(βz)."""
    frame = data.assign(count=np.round(np.exp(0.3 * data["y"])))
    a, b = pr.fit("count ~ z", frame, MECHANISM, family="poisson").estimate
    z, y, grown = frame["z"], frame["count"], np.exp(a + b * frame["z"])
    factor = 1 - B**2 * b**2
    assert np.sum(y - grown * factor) == pytest.approx(0, abs=1e-5)
    assert np.sum(z * y - (z * factor - 2 * B**2 * b) * grown) == pytest.approx(0, abs=1e-5)


def test_perturbing_with_the_channel_keeps_frame_and_other_columns(data: pd.DataFrame) -> None:
    with pytest.warns(UserWarning, match="not secure"):
        released = MECHANISM.perturb(data, seed=1)
    assert list(released.columns) == list(data.columns)
    pd.testing.assert_frame_equal(released[["g", "y"]], data[["g", "y"]])
    noise = CHANNEL.perturb(np.zeros(len(data)), {}, SeededKeystream(1))
    np.testing.assert_allclose(released["z"] - data["z"], noise, rtol=0, atol=1e-14)

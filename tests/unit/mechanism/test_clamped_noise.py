"""Laplace noise of which what is released was clamped: draws, privacy, descriptions, fits and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from golden_texts import worded

GOLDEN = Path(__file__).parents[2] / "golden" / "mechanism-clamped-noise-1.3.json"
NOISE = pr.LaplaceNoise(2.0, bounds=(0.1, 9.7)).clamped()
MECHANISM = pr.Mechanism({"z": NOISE})
pytestmark = pytest.mark.filterwarnings("ignore:.*not secure")


def frame(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    z = rng.uniform(0, 10, n)
    p = 1 / (1 + np.exp(2 - 0.5 * np.clip(z, 0.1, 9.7)))
    y = 1 + 0.5 * np.clip(z, 0.1, 9.7) + rng.normal(size=n)
    return pd.DataFrame({"z": z, "y": y, "b": (rng.random(n) < p).astype(int), "id": np.arange(n)})


def test_draws_are_those_of_laplace_noise_clamped() -> None:
    true = frame()
    released, plain = MECHANISM.perturb(true, seed=3), pr.Mechanism({"z": NOISE.inner}).perturb(true, seed=3)
    np.testing.assert_array_equal(released["z"], plain["z"].clip(*NOISE.ends))
    steps = released["z"] / NOISE.inner.grid
    np.testing.assert_array_equal(steps, np.rint(steps))
    low, high = NOISE.ends
    assert (0.1 <= low < 0.1 + NOISE.inner.grid, 9.7 - NOISE.inner.grid < high <= 9.7) == (True, True)
    assert 0.05 < np.mean(released["z"] == low) < 0.3


def test_keyed_draws_are_repeated() -> None:
    one, other = (MECHANISM.perturb(frame(50), key=bytes(range(40)), id="id") for _ in range(2))
    pd.testing.assert_frame_equal(one, other)


def test_privacy_is_that_of_the_noise() -> None:
    assert NOISE.epsilon == NOISE.inner.epsilon == pytest.approx(4.8)
    assert MECHANISM.rho == pytest.approx(4.8 * np.tanh(2.4))


def test_fits_are_centred_at_the_truth_and_naive_ones_are_not() -> None:
    released = MECHANISM.perturb(frame(), seed=5)
    for formula, family, truth in (("y ~ z", "gaussian", (1.0, 0.5)), ("b ~ z", "binomial", (-2.0, 0.5))):
        found, naive = (pr.fit(formula, released, MECHANISM, family=family, method=m) for m in ("reversion", "naive"))
        assert np.all(np.abs(found.estimate - truth) < 4 * found.standard_errors)
        assert np.all(np.abs(naive.estimate - truth) > 6 * naive.standard_errors)
        assert np.all(found.price_of_privacy()["privacy_share"] > 0.1)
    mean = pr.fit(pr.mean("z"), released, MECHANISM)
    assert abs(mean.estimate[0] - np.clip(frame()["z"], 0.1, 9.7).mean()) < 4 * mean.standard_errors[0]


def test_a_description_is_read_back(tmp_path: Path) -> None:
    MECHANISM.save(tmp_path / "m.json")
    assert pr.Mechanism.load(tmp_path / "m.json").assignments[0].channel == NOISE
    assert pr.Mechanism.load(GOLDEN).assignments[0].channel == NOISE
    assert worded((tmp_path / "m.json").read_text()) == worded(GOLDEN.read_text())


def test_values_beyond_the_bounds_were_not_clamped() -> None:
    with pytest.raises(
        pr.DataError, match=r"1 of 3 released values lie beyond the bounds 0.1 and 9.7, first in row 2 \(11\)"
    ):
        pr.fit(pr.mean("z"), {"z": [1.0, 2.0, 11.0]}, MECHANISM)


def test_bounds_are_needed() -> None:
    with pytest.raises(pr.MechanismError, match=r"no bounds to clamp to: give bounds="):
        pr.LaplaceNoise(2.0).clamped()


@pytest.mark.parametrize("what", [pr.median("z"), pr.proportions("z"), pr.mean("y", by="z")])
def test_steps_are_refused(what: Any) -> None:
    with pytest.raises(pr.DataError, match=r"'z' has no levels"):
        pr.fit(what, MECHANISM.perturb(frame(50), seed=1), MECHANISM)

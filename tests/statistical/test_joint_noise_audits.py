"""The audit's test of noise that columns share holds its size, and finds a correlation that is off."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pramana as pr
from pramana.disclosure.audit.noise import _JointLaw
from pramana.mechanism.draws.keystream import SeededKeystream

Log = Callable[[str, object], None]
COVARIANCE = np.array([[4.0, 1.5, -0.5], [1.5, 1.0, 0.2], [-0.5, 0.2, 2.0]])


def p_value(seed: int, stated: np.ndarray, n: int = 1500) -> float:
    """Of noise with the covariance above, tested as that of the stated one."""
    rng = np.random.default_rng(seed)
    true = rng.normal(10, 3, (n, 3)).round(1)
    released = pr.JointGaussianNoise(COVARIANCE).perturb(true, {}, SeededKeystream(seed))
    noise = pr.JointGaussianNoise(stated)
    law = _JointLaw(noise)
    law.add(noise.released_steps(released) - noise.true_steps(true), noise.true_steps(true))
    return float(law.judged("x").message.rpartition("p = ")[2].rstrip(")"))


@pytest.mark.parametrize("replicates", [40, pytest.param(2000, marks=pytest.mark.verify)])
def test_the_joint_test_holds_its_size(replicates: int, record_property: Log) -> None:
    """Rejections at 5 % are at most that often, up to three Monte Carlo errors; with one correlation 0.15 off they are the rule."""
    wrong = COVARIANCE.copy()
    wrong[1, 2] = wrong[2, 1] = 0.2 + 0.15 * np.sqrt(2)
    right, off = (np.array([p_value(k, stated) for k in range(replicates)]) for stated in (COVARIANCE, wrong))
    size, power = float(np.mean(right < 0.05)), float(np.mean(off < 0.05))
    assert size <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / replicates)
    assert power > 0.9
    record_property("rows", [{"replicates": replicates, "rejected at 5 %": size, "with a wrong correlation": power}])

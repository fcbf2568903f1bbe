"""Scenarios with additive noise run in studies, and give what `fit` gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.frames.table import Table


def generate(rng: np.random.Generator, n: int) -> dict[str, Any]:
    z = np.round(2 * rng.normal(size=n)) / 2
    return {"z": z, "y": (rng.random(n) < 1 / (1 + np.exp(-0.8 * z))).astype(int)}


@pytest.mark.parametrize("noise", [pr.LaplaceNoise(0.4), pr.GaussianNoise(0.4), pr.GeometricNoise(0.5, step=0.5)])
def test_replicates_are_what_fit_gives(noise: Any) -> None:
    mechanism = pr.Mechanism({"z": noise})
    scenario = pr.Scenario(generate, mechanism, "y ~ z", (0.0, 0.8), 400, "binomial")
    study = pr.simulate(scenario, ["reversion", "naive"], replicates=3, seed=1, inference=pr.Sandwich())
    found = study.replicates.values["reversion"]
    released = scenario.data(1, [2])[1]
    assert isinstance(released, Table)
    columns = {name: released.column(name) for name in ("z", "y")}
    alone = pr.fit("y ~ z", columns, mechanism, family="binomial")
    np.testing.assert_allclose(found["estimate"][2], alone.estimate, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found["se_sandwich"][2], alone.standard_errors, rtol=1e-6)

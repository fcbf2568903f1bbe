"""A fit with its sums on a device gives what it gives on the CPU; JAX on the CPU stands for the device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.engines import LocalEngine, engine_on

N = 3000
EDU = pr.TransitionMatrix.randomized_response([0, 1, 2], 0.8, kind="nominal")
COVARIATE, RESPONSE = pr.Mechanism({"edu": EDU}), pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.9)})


@pytest.fixture(autouse=True)
def _chunks(as_if_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks, the last of which overlaps the one before."""
    from pramana.kernels import device_records

    assert as_if_gpu is not None
    monkeypatch.setattr(device_records, "LARGEST_CHUNK", 1024)


def people(mechanism: pr.Mechanism, family: str = "binomial") -> dict[str, Any]:
    rng = np.random.default_rng(7)
    x, z, edu = rng.normal(size=N), rng.normal(size=N), rng.integers(0, 3, N)
    eta = -0.3 + 0.6 * x - 0.4 * z + 0.5 * (edu == 1)
    y = {
        "binomial": lambda: (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
        "gaussian": lambda: eta + rng.normal(size=N),
        "gamma": lambda: rng.gamma(2, np.exp(eta) / 2),
        "negative-binomial": lambda: rng.poisson(np.exp(eta) * rng.gamma(2, 0.5, N)),
    }[family]()
    clean = {"x": x, "z": z, "edu": edu, "y": y, "w": rng.uniform(0.5, 2, N), "g": rng.integers(0, 200, N)}
    released: dict[str, Any] = mechanism.perturb(clean, seed=1)
    return released


def same(what: Any, data: Any, mechanism: Any, **options: Any) -> None:
    host, device = (pr.fit(what, data, mechanism, device=where, **options) for where in ("cpu", "gpu"))
    np.testing.assert_allclose(device.estimate, host.estimate, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(device.covariance, host.covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(device.interval(), host.interval(), rtol=1e-8, atol=1e-8)
    assert [d.code for d in device.diagnostics] == [d.code for d in host.diagnostics]


@pytest.mark.parametrize("family", ["binomial", "gaussian", "gamma", "negative-binomial"])
def test_every_curve_with_a_perturbed_covariate(family: str) -> None:
    same("y ~ z + x * edu", people(COVARIATE, family), COVARIATE, family=family)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": "w"},
        {"clusters": "g"},
        {"method": "naive"},
        {"link": "probit"},
        {"inference": pr.Resampling(40, seed=5)},
        {"inference": pr.Resampling(40, seed=5, weights="poisson"), "weights": "w"},
        {"inference": pr.Sandwich(interval="score")},
        {"design": pr.SurveyDesign(clusters="g", weights="w")},
        {"subset": "x > 0"},
    ],
    ids=str,
)
def test_a_perturbed_response_in_every_setting(options: dict[str, Any]) -> None:
    same("y ~ x + offset(0.1 * z)", people(RESPONSE), RESPONSE, family="binomial", **options)


def test_other_parameters_are_added_up_on_the_cpu() -> None:
    data = people(RESPONSE)
    same(pr.mean("x", by="y"), data, RESPONSE)
    same(pr.median("x"), data, RESPONSE)


def test_resamples_alone() -> None:
    data = people(RESPONSE)
    host, device = (
        pr.fit("y ~ x", data, RESPONSE, family="binomial", inference=pr.Resampling(60, seed=2, device=where))
        for where in ("cpu", "gpu")
    )
    np.testing.assert_allclose(device.covariance, host.covariance, rtol=1e-8)


def test_sums_of_many_draws_at_many_values_equal_those_one_by_one() -> None:
    from pramana.estimators.reversion import Reversion
    from pramana.frames import read

    table = read(people(COVARIATE))
    function = pr.glm("y ~ x + edu", "binomial").prepare(table, COVARIATE.schema)
    equation = Reversion().bind(function, COVARIATE, table, np.ones(N)).equation
    host, device = (engine_on(where)(equation, LocalEngine.of(equation).sampling) for where in ("cpu", "gpu"))
    betas, draws = 0.1 * np.random.default_rng(1).normal(size=(5, 4)), np.array([2, 0, 1, 1, 2])
    cases = [("exponential", betas, draws), ("exponential", betas[:1], None), ("poisson", betas[:3], None)]
    for law, at, which in cases:
        own, other = (engine.drawn(law, 3, np.arange(3)) for engine in (host, device))
        expected = host.score_and_slope(at, own, which)
        for a, b in zip(device.score_and_slope(at, other, which), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(device.slopes_at(betas, 0.5), host.slopes_at(betas, 0.5), rtol=1e-10, atol=1e-9)
    a, b = (engine.outer(betas[0], engine.without(np.array([4]))) for engine in (host, device))
    np.testing.assert_allclose(b, a, rtol=1e-10)


def test_devices_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = people(RESPONSE)
    with pytest.raises(pr.PramanaError, match=r"device 'tpu' is unknown: .*cpu"):
        pr.fit("y ~ x", data, RESPONSE, device="tpu")
    with pytest.raises(pr.PramanaError, match="device='tpu' is unknown"):
        pr.Resampling(device="tpu")  # type: ignore[arg-type]
    with pytest.raises(pr.PramanaError, match="leave out engine="):
        pr.fit("y ~ x", data, RESPONSE, device="gpu", engine="local")
    monkeypatch.setitem(sys.modules, "pramana.kernels.accelerator", None)
    monkeypatch.delattr("pramana.kernels.accelerator")
    with pytest.raises(pr.PramanaError, match="device 'gpu' needs JAX: install the extra 'jax'"):
        pr.fit("y ~ x", data, RESPONSE, device="gpu")


def test_more_records_than_the_device_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from pramana.kernels import device_records

    monkeypatch.setattr(device_records, "memory", lambda: 50_000)
    with pytest.raises(pr.PramanaError, match=r"take 0\.\d GB, and the device has 0\.0 GB: .*leave out the device"):
        pr.fit("y ~ x", people(RESPONSE), RESPONSE, family="binomial", device="gpu")


def test_a_plugin_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from pramana.kernels import accelerator

    def broken() -> Any:
        raise RuntimeError("Unable to initialize backend 'cuda'\nand more")

    monkeypatch.undo()
    monkeypatch.setattr(accelerator.jax, "devices", broken)
    with pytest.raises(pr.PramanaError, match="JAX, which says: Unable to initialize backend 'cuda'; use device='cpu'"):
        accelerator.devices("gpu")


@pytest.mark.parametrize("options", [{"device": "gpu"}, {"inference": pr.Resampling(40, device="gpu")}], ids=str)
def test_records_that_are_read_in_blocks_stay_with_the_cpu(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "people.csv"
    pd.DataFrame(people(RESPONSE)).to_csv(path, index=False)
    with pytest.raises(pr.PramanaError, match=r"blocks.*added up .*raise memory="):
        pr.fit("y ~ x", path, RESPONSE, family="binomial", memory="50 kB", **options)

"""Runs on disk: the same bytes whatever the workers, interruptions and resumptions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pramana.cli.studies import run_studies
from pramana.errors import PramanaError
from pramana.studies.runner import RunSettings, prepared, run

SCENARIO = """
import numpy as np
import pramana as pr

title = "Poisson counts with a perturbed covariate"

def generate(rng, n):
    group = rng.choice(["a", "b"], n)
    return {"group": group.astype(object), "count": rng.poisson(np.exp(0.3 + 0.5 * (group == "b")))}

P = pr.TransitionMatrix.randomized_response(["a", "b"], keep=0.8)
scenarios = [
    pr.Scenario(generate, pr.Mechanism({"group": P}), "count ~ group", (0.3, 0.5), n, "poisson") for n in (200, 400)
]
methods = ["reversion", "true data", "naive", "model1"]
reference = "model-dependent (logit)"
"""
OPTIONS = {"replicates": 120, "resamples": 30, "device": "cpu", "seed": 3, "data": None}


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "my_scenario.py"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


@pytest.mark.engines
def test_one_worker_two_workers_and_a_resumed_run_write_the_same_bytes(scenario: Path, tmp_path: Path) -> None:
    texts = []
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        files = list(run_studies(str(scenario), out, workers=workers, resume=False, **OPTIONS))
        texts.append((out / "my_scenario.csv").read_bytes())
        assert {f.name for f in files} == {"my_scenario.csv", "my_scenario.md", "my_scenario.html"}
    for kept in sorted((tmp_path / "out1" / ".work" / "my_scenario").glob("*.npz"))[::2]:
        kept.unlink()
    list(run_studies(str(scenario), tmp_path / "out1", workers=2, resume=True, **OPTIONS))
    texts.append((tmp_path / "out1" / "my_scenario.csv").read_bytes())
    assert texts[0] == texts[1] == texts[2]
    assert texts[0].startswith(b"n,method,parameter,truth,replicates,failures,bias,bias_mcse")


@pytest.mark.engines
def test_an_interrupt_keeps_finished_units_and_names_the_way_on(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", "from pramana.cli import main; main()", "study", str(scenario), "--out", str(out)]
    options = ["--replicates", "4000", "--resamples", "200", "--workers", "1"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, start_new_session=True)
    work, deadline = out / ".work" / "my_scenario", time.monotonic() + 60
    while len(list(work.glob("*.npz"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert len(list(work.glob("*.npz"))) >= 2
    assert not list(work.glob("*.part"))


def test_other_settings_cannot_be_resumed(tmp_path: Path) -> None:
    prepared(tmp_path / "w", RunSettings("a1", 10, 50, 1), resume=False)
    with pytest.raises(PramanaError, match="seed was 1 and is now 2"):
        prepared(tmp_path / "w", RunSettings("a1", 10, 50, 2), resume=True)


def test_progress_counts_every_unit(scenario: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    run(RunSettings(str(scenario), 120, 20, 1), tmp_path, workers=1, resume=False, tell=lambda *n: told.append(n))
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1\n", "must define `scenario"), ("scenario = 3\n", "must define `scenario"), (None, "does not exist")],
)
def test_a_file_without_a_scenario_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(PramanaError, match=message):
        list(run_studies(str(path), tmp_path, workers=1, resume=False, **OPTIONS))


def test_an_unknown_study_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(PramanaError, match="did you mean 'a1'"):
        list(run_studies("a11", tmp_path, workers=1, resume=False, **OPTIONS))


GENERATED = SCENARIO.replace("(200, 400)", "(200,)") + 'methods = ["reversion"]\nreference = None\n'
MADE = """
from dataclasses import replace
from pramana.studies.study import FIVE as methods, MODEL_1, study_of
scenarios, reference = [replace(study_of("a1").scenarios[0], n=300)], MODEL_1.label
"""


@pytest.mark.usefixtures("as_if_gpu")  # which also sets right what the scenario leaves behind in this process
@pytest.mark.parametrize("few", [GENERATED, MADE], ids=["data sent to the device", "data made on the device"])
def test_workers_with_a_device_write_what_those_without_write(
    few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers run JAX on the CPU as if it were a GPU, since the scenario says so."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "scenario.py"
    as_if = "from pramana.kernels import accelerator\naccelerator.devices = lambda kind: [kind]\n"
    path.write_text(as_if + few, encoding="utf-8")
    results = []
    for device in ("cpu", "gpu"):
        settings = RunSettings(str(path), 6, 20, 3, device)
        results.append(run(settings, tmp_path / device, workers=1, resume=False, tell=lambda _done, _all: None))
    host, device_rows = (result.rows for result in results)
    for a, b in zip(host, device_rows, strict=True):
        for name, value in a.items():
            assert b[name] == (pytest.approx(value, abs=1e-8, nan_ok=True) if isinstance(value, float) else value), name
    assert any((tmp_path / "cache" / "pramana" / "jax").iterdir())


def test_a_device_that_is_not_there_is_refused(scenario: Path, tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    if any(device.platform != "cpu" for device in jax.devices()):
        pytest.skip("there is a GPU here")
    with pytest.raises(PramanaError, match=r"device 'gpu' is not available to JAX, .*use device='cpu'"):
        list(run_studies(str(scenario), tmp_path / "out", workers=1, resume=False, **{**OPTIONS, "device": "gpu"}))

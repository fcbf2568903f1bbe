"""Folders and patterns of files on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app


@pytest.fixture
def folder(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism) -> Path:
    released = mechanism.perturb(survey)
    (tmp_path / "parts").mkdir()
    half = len(survey) // 2
    released.iloc[:half].to_csv(tmp_path / "parts" / "a.csv", index=False)
    released.iloc[half:].to_csv(tmp_path / "parts" / "b.csv", index=False)
    released.to_csv(tmp_path / "whole.csv", index=False)
    mechanism.save(tmp_path / "m.json")
    return tmp_path


@pytest.mark.parametrize("given", ["parts", "parts/*.csv"])
@pytest.mark.parametrize(
    "memory", [(), ("--memory", "1 kB", "--engine", "local"), ("--memory", "1 kB", "--engine", "duckdb")]
)
def test_several_files_are_one(folder: Path, given: str, memory: tuple[str, ...]) -> None:
    def fitted(data: str, *options: str) -> list[dict[str, float]]:
        command = [
            "fit",
            "income ~ age + edu",
            str(folder / data),
            "-m",
            str(folder / "m.json"),
            "-f",
            "json",
            *options,
        ]
        found = CliRunner().invoke(app, command)
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)["coefficients"]

    whole, parts = fitted("whole.csv"), fitted(given, *memory)
    for a, b in zip(whole, parts, strict=True):
        assert a["estimate"] == pytest.approx(b["estimate"], rel=1e-8)
        assert a["std_error"] == pytest.approx(b["std_error"], rel=1e-8)


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_an_engine_that_nobody_knows_is_refused(folder: Path, command: str) -> None:
    given = [command, "income ~ age", str(folder / "parts"), "-m", str(folder / "m.json"), "--engine", "sparks"]
    found = CliRunner().invoke(app, given)
    assert found.exit_code == 1
    assert "engine 'sparks' is unknown: did you mean 'spark'" in str(found.exception)


def test_a_memory_that_is_none_is_refused(folder: Path) -> None:
    command = ["fit", "income ~ age", str(folder / "parts"), "-m", str(folder / "m.json"), "--memory", "plenty"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 1
    assert "is no amount of memory" in str(found.exception)


def test_a_pattern_of_replicate_weights_is_that_of_the_files(folder: Path) -> None:
    for path in (folder / "parts").iterdir():
        frame = pd.read_csv(path)
        frame.assign(w=1.0, r1=1.0, r2=range(1, len(frame) + 1)).to_csv(path, index=False)
    command = ["fit", "income ~ age", str(folder / "parts"), "-m", str(folder / "m.json"), "--replicate-weights", "r?"]
    command += ["--weights", "w"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.exception
    assert "2 replicate weights" in found.output

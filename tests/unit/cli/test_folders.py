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


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def confidential(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for k in range(3):
        survey.iloc[k::3].to_csv(tmp_path / "in" / f"p{k}.csv", index=False, sep=";")
    mechanism.save(tmp_path / "m.json")
    return tmp_path


@pytest.mark.parametrize(
    "given",
    [
        ("in", "--to", "out"),
        ("in", "out"),
        ("in/*.csv", "--to", "out"),
        ("in/p0.csv", "in/p1.csv", "in/p2.csv", "out"),
        ("in/p0.csv", "in/p1.csv", "in/p2.csv", "--to", "out", "--delimiter", ";", "--jobs", "1"),
        ("in", "out", "--delimiter", ";"),
    ],
)
def test_a_folder_is_perturbed_audited_and_weighed(
    confidential: Path, survey: pd.DataFrame, given: tuple[str, ...]
) -> None:
    told = run("perturb", *given, "-m", "m.json", "--ledger", "ledger", "--card")
    assert f"{len(survey)} records in 3 files, fresh draws" in told
    assert "wrote out\n" in told
    assert sorted(p.name for p in Path("out").glob("p*")) == ["p0.csv", "p1.csv", "p2.csv"]
    assert "Audit of out: " in run("audit", "out", "--original", "in", "--ledger", "ledger")
    assert f"Records: {len(survey)}" in " ".join(run("risk", "in", "-m", "m.json", "--released", "out").split())
    assert len(Path("ledger").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("in",), "say what to write"),
        (("in/*.parquet", "out"), "no file matches"),
        (("in", "out", "--shuffle"), "join the files"),
        (("in", "out", "--jobs", "0"), "jobs=0 must be"),
    ],
)
def test_what_cannot_be_perturbed_together_is_said(confidential: Path, given: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(app, ["perturb", *given, "-m", "m.json"])
    assert isinstance(done.exception, pr.PramanaError)
    assert message in str(done.exception)
    assert not Path("out").exists()


def test_one_file_is_released_into_a_folder_with_to(confidential: Path) -> None:
    run("perturb", "in/p0.csv", "--to", "out", "-m", "m.json")
    assert sorted(p.name for p in Path("out").iterdir()) == ["datapackage.json", "p0.csv"]
    run("perturb", "in/p0.csv", "--to", "pub.csv", "-m", "m.json")
    assert Path("pub.csv").is_file()


def test_a_stated_dialect_is_of_one_file(confidential: Path) -> None:
    done = CliRunner().invoke(app, ["risk", "in", "-m", "m.json", "--delimiter", ";"])
    assert "is for one CSV file" in str(done.exception)

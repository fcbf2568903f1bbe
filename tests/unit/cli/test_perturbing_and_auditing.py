"""`pramana perturb`, `audit` and `key`, run as a user runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana import progress
from pramana.cli import main
from pramana.cli.application import app
from pramana.frames.blocks import csv_files as csv_blocks


@pytest.fixture
def folder(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch) -> Path:
    survey.insert(0, "person", range(len(survey)))
    survey.to_csv(tmp_path / "raw.csv", index=False)
    survey.to_parquet(tmp_path / "raw.parquet", index=False)
    mechanism.save(tmp_path / "m.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def main_with(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command as the shell calls it."""
    monkeypatch.setattr(sys, "argv", ["pramana", *arguments])
    try:
        main()
    except SystemExit as left:
        return int(left.code or 0)
    return 0


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_perturb_audit_fit(ending: str, folder: Path) -> None:
    out = run("perturb", f"raw.{ending}", f"public.{ending}", "--mechanism", "m.json", "--card", "--ledger", "l.jsonl")
    assert out.splitlines()[0] == "400 records, fresh draws, epsilon 2.428 a record"
    named = [line.removeprefix("wrote ") for line in out.splitlines()[1:]]
    assert named == [f"public.{ending}", "datapackage.json", f"public.{ending}.card.md", f"public.{ending}.card.html"]
    assert all((folder / name).stat().st_size > 0 for name in named)
    shown = run("audit", f"public.{ending}", "--original", f"raw.{ending}", "--ledger", "l.jsonl")
    assert shown.startswith(f"Audit of public.{ending}: {14 if ending == 'parquet' else 13} ok")
    assert "edu[T.mid]" in run("fit", "income ~ age + edu", f"public.{ending}")


def test_a_design_can_take_the_place_of_the_mechanism(folder: Path) -> None:
    run("design", "edu", "--from", "raw.csv", "--keep", "0.7", "-o", "d.toml")
    run("perturb", "raw.csv", "public.csv", "--design", "d.toml")
    assert pr.Mechanism.load(folder / "public.csv").columns == ["edu"]


def test_keyed_releases_repeat_and_fresh_ones_do_not(folder: Path) -> None:
    assert "keep it secret" in run("key", "k")
    for name in ("a.csv", "b.csv"):
        run("perturb", "raw.csv", name, "-m", "m.json", "--key-file", "k", "--id-column", "person")
        run("perturb", "raw.csv", f"fresh-{name}", "-m", "m.json")
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    assert (folder / "fresh-a.csv").read_bytes() != (folder / "fresh-b.csv").read_bytes()


def test_an_audit_with_errors_ends_with_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run("perturb", "raw.csv", "public.csv", "-m", "m.json")
    with (folder / "public.csv").open("a") as file:
        file.write("\n")
    found = json.loads(run("audit", "public.csv", "--format", "json", code=1))
    assert not found["clean"]
    assert [f["check"] for f in found["findings"] if f["severity"] == "error"] == ["hash"]
    capfd.readouterr()
    assert (main_with(monkeypatch, "audit", "public.csv"), capfd.readouterr().err) == (1, "")


def test_an_audit_against_the_original_ends_with_one_where_it_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted by the secret: the order of the rows gives it away, until they are shuffled and a link file leads back."""
    frame = pd.read_csv(folder / "raw.csv").sort_values("edu")
    frame.to_csv(folder / "sorted.csv", index=False)
    (folder / "out").mkdir()
    run("perturb", "sorted.csv", "out/plain.csv", "-m", "m.json")
    shown = run("audit", "out/plain.csv", "--original", "sorted.csv", code=1)
    assert "the order of the rows" in shown
    run(
        "perturb",
        "sorted.csv",
        "out/moved.csv",
        "-m",
        "m.json",
        "--shuffle",
        "--new-id",
        "person",
        "--link",
        "link.csv",
    )
    shown = run("audit", "out/moved.csv", "--original", "sorted.csv", "--link", "link.csv")
    assert "epsilon bounds what the released values of edu add" in shown
    assert "were shuffled" in run("audit", "out/moved.csv", "--original", "sorted.csv", code=1)
    frame.drop(columns="edu").to_csv(folder / "other.csv", index=False)
    assert main_with(monkeypatch, "audit", "out/plain.csv", "--original", "other.csv") != 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("perturb", "raw.csv", "o.csv"), "give either --mechanism (JSON) or --design (TOML)"),
        (("perturb", "raw.csv", "o.csv", "-m", "m.json", "-d", "d.toml"), "give either"),
        (("perturb", "raw.csv", "o.csv", "-m", "absent.json"), "'absent.json' does not exist"),
        (("perturb", "absent.csv", "o.csv", "-m", "m.json"), "'absent.csv' does not exist"),
        (("perturb", "raw.csv", "raw.csv", "-m", "m.json", "--force"), "an input is never overwritten"),
        (
            ("perturb", "raw.csv", "o.csv", "-m", "m.json", "--key-file", "absent", "--id-column", "person"),
            "make one with",
        ),
        (("perturb", "raw.csv", "o.csv", "-m", "m.json", "--id-column", "person"), "id is for keyed draws"),
        (("audit", "absent.csv"), "'absent.csv' does not exist"),
        (("audit", "raw.csv", "--format", "txt"), "format 'txt' is unknown"),
        (("audit", "raw.txt"), "does not exist"),
        (("key", "m.json"), "a key is never overwritten"),
    ],
)
def test_mistakes_are_refused_and_leave_nothing(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    before = sorted(p.name for p in folder.iterdir())
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, pr.PramanaError)
    assert message in str(result.exception)
    assert result.stdout == ""
    assert sorted(p.name for p in folder.iterdir()) == before


def test_a_mistake_is_one_line_and_exit_code_two(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, said = main_with(monkeypatch, "perturb", "raw.csv", "raw.csv", "-m", "m.json", "--force"), capfd.readouterr()
    assert (code, said.out, len(said.err.splitlines())) == (2, "", 1)
    assert said.err.startswith("error: 'raw.csv' is read here as the data: an input is never overwritten")


def test_warnings_are_one_line_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run("key", "k")
    (folder / "k").chmod(0o644)
    capfd.readouterr()
    given = ("perturb", "raw.csv", "o.csv", "-m", "m.json", "--key-file", "k", "--id-column", "person")
    assert main_with(monkeypatch, *given) == 0
    said = capfd.readouterr().err
    assert said.startswith("warning: key file 'k' can be read by others")
    assert len(said.splitlines()) == 1


def test_long_work_shows_a_bar(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(csv_blocks, "SIZE", 1000)
    assert run("perturb", "raw.csv", "public.csv", "-m", "m.json").startswith("400 records")


def test_noise_from_a_mechanism_file(folder: Path) -> None:
    pr.Mechanism({"age": pr.LaplaceNoise(0.3), "income": pr.GaussianNoise(0.5)}).save("noise.json")
    run("perturb", "raw.csv", "public.csv", "--mechanism", "noise.json", "--card")
    shown = run("audit", "public.csv", "--original", "raw.csv", "--format", "json")
    laws = [f["message"] for f in json.loads(shown)["findings"] if f["check"] == "transitions"]
    assert len(laws) == 2
    assert all("follows its law" in message for message in laws)
    assert "Best guess at a true value" in run("risk", "raw.csv", "--mechanism", "noise.json", "--keys", "edu")
    assert "age" in run("fit", "income ~ age + edu", "public.csv")

"""`pramana risk` and `pramana plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app


@pytest.fixture
def files(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism) -> tuple[str, str]:
    survey.to_csv(tmp_path / "true.csv", index=False)
    mechanism.save(tmp_path / "mechanism.json")
    return str(tmp_path / "true.csv"), str(tmp_path / "mechanism.json")


def run(*arguments: str) -> str:
    outcome = CliRunner().invoke(app, list(arguments))
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def test_risk_prints_a_report_and_draws_it(files: tuple[str, str], tmp_path: Path) -> None:
    data, mechanism = files
    picture = tmp_path / "risk.png"
    options = [
        "--keys",
        "female,region,edu",
        "--analysis",
        "income ~ age + edu",
        "--simulate",
        "0",
        "--figure",
        str(picture),
    ]
    shown = run("risk", data, "--mechanism", mechanism, *options)
    assert "Re-identification" in shown
    assert "edu[T.high]" in shown
    assert picture.stat().st_size > 10_000


def test_risk_in_json(files: tuple[str, str]) -> None:
    data, mechanism = files
    report = json.loads(run("risk", data, "-m", mechanism, "--format", "json", "--released", data))
    assert report["columns"][0]["columns"] == ["edu"]
    assert report["tables"][0]["realised_moved"] == 0


def test_plan_writes_a_mechanism(files: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "planned.json"
    shown = run(
        "plan",
        files[0],
        "edu",
        "--analysis",
        "income ~ age + edu",
        "--se",
        "edu=0.3",
        "-o",
        str(out),
        "--simulate",
        "40",
    )
    assert "Keep probability" in shown
    assert "40 releases a keep probability" in shown
    assert pr.Mechanism.load(out).columns == ["edu"]


def test_plan_of_shares_and_of_an_effect(files: tuple[str, str]) -> None:
    assert (
        json.loads(run("plan", files[0], "edu", "--se", "0.05", "-f", "json", "--simulate", "0"))["analysis"] == "edu"
    )
    found = json.loads(
        run(
            "plan",
            files[0],
            "edu",
            "--analysis",
            "income ~ edu",
            "--effect",
            "edu=0.9",
            "--n",
            "900",
            "-f",
            "json",
            "--simulate",
            "40",
        )
    )
    assert found["n"] == 900
    assert found["targets"][0]["power"] > 0.78
    assert found["simulation"]["replicates"] == 40
    assert 0 < found["targets"][0]["coverage"] <= 1


def test_plan_looks_for_the_best_matrix(files: tuple[str, str]) -> None:
    options = ["--optimal", "--odds", "3", "--starts", "2", "--importance", "edu=1", "-f", "json"]
    found = json.loads(run("plan", files[0], "edu", "--analysis", "income ~ age + edu", *options))
    assert found["gain"] >= 1
    assert found["constraint"]["value"] <= 3 + 1e-8


def test_analyses_can_be_parameters_by_name(files: tuple[str, str]) -> None:
    data, mechanism = files
    report = json.loads(run("risk", data, "-m", mechanism, "--analysis", "mean(income, by=edu)", "--format", "json"))
    assert report["analyses"][0]["term"] == "mean(income)[edu=low]"
    planned = json.loads(
        run("plan", data, "edu", "--analysis", "mean(income, by=edu)", "--se", "0.5", "-f", "json", "--simulate", "0")
    )
    assert len(planned["targets"]) == 3


def test_a_family_needs_a_formula(files: tuple[str, str]) -> None:
    options = ["-m", files[1], "--analysis", "mean(income)", "--family", "binomial"]
    outcome = CliRunner().invoke(app, ["risk", files[0], *options])
    assert "family 'binomial' belongs to a formula" in str(outcome.exception)

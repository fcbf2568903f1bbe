"""`pramana table`: results written as JSON, side by side."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app


@pytest.fixture
def folder(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    fits = {
        "short": pr.fit("income ~ edu", survey, mechanism),
        "long": pr.fit("income ~ age + edu", survey, mechanism),
        "work": pr.fit("employed ~ age", survey, None, family="binomial"),
        "both": pr.compare("income ~ edu", survey, mechanism),
        "means": pr.fit(pr.mean("income", by="edu"), survey, mechanism),
    }
    for name, result in fits.items():
        (tmp_path / f"{name}.json").write_text(result.summary("json"), encoding="utf-8")
    return tmp_path


def run(*given: str) -> str:
    result = CliRunner().invoke(app, ["table", *given], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*given: str) -> str:
    result = CliRunner().invoke(app, ["table", *given])
    assert isinstance(result.exception, pr.PramanaError), result.output
    assert result.stdout == ""
    return str(result.exception)


@pytest.mark.usefixtures("folder")
def test_the_table_is_that_of_python(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    shown = run(
        "short.json", "long.json", "--names", "A,B", "--label", "edu[T.high]=High = best", "--stars", "0.05,0.01",
        "--digits", "2", "--group", "Income=A,B", "--note", "Made up.", "--title", "Two", "--below", "interval",
    )  # fmt: skip
    models = {"A": pr.fit("income ~ edu", survey, mechanism), "B": pr.fit("income ~ age + edu", survey, mechanism)}
    made = pr.table(
        models,
        labels={"edu[T.high]": "High = best"},
        stars=(0.05, 0.01),
        digits=2,
        groups={"Income": ["A", "B"]},
        notes="Made up.",
        title="Two",
        below="interval",
    )
    assert shown == f"{made}\n"


@pytest.mark.usefixtures("folder")
def test_a_comparison_brings_all_its_estimators() -> None:
    assert run("long.json", "both.json").splitlines()[1].split() == ["long", "reversion", "naive"]


@pytest.mark.usefixtures("folder")
def test_a_term_may_hold_the_mark_of_a_label() -> None:
    """The name of the term is the longest one that is known, whatever signs it holds."""
    shown = run("means.json", "--label", "mean(income)[edu=low]=Lowest")
    assert shown.splitlines()[3].startswith("Lowest")
    assert "mean(income)[edu=low]" not in shown


@pytest.mark.usefixtures("folder")
def test_every_format_and_the_file_by_its_ending(folder: Path) -> None:
    assert run("long.json", "-f", "markdown").startswith("|")
    assert r"\toprule" in run("long.json", "-f", "latex")
    assert run("long.json", "-f", "html").startswith("<table>")
    rows = list(csv.DictReader(io.StringIO(run("long.json", "-f", "csv"))))
    assert [row["term"] for row in rows] == ["Intercept", "age", "edu[T.mid]", "edu[T.high]"]
    assert run("long.json", "--out", "t.tex") == ""
    assert (folder / "t.tex").read_text() == run("long.json", "-f", "latex")
    assert "exists" in refused("long.json", "--out", "t.tex")
    run("short.json", "--out", "t.tex", "--force")
    assert "\nage" not in (folder / "t.tex").read_text()


@pytest.mark.usefixtures("folder")
def test_ratios_are_made_of_logarithms_alone() -> None:
    assert "Estimates are ratios" in run("work.json", "--exponentiate")
    assert "'long.json' holds no logarithms" in refused("long.json", "--exponentiate")


def test_what_is_wrong_is_said(folder: Path) -> None:
    (folder / "odd.json").write_text(json.dumps({"coefficients": [{"term": "x"}]}))
    (folder / "text.json").write_text(json.dumps({"a": 1}))
    assert "'odd.json' is no result" in refused("odd.json")
    assert "'text.json' is no result" in refused("text.json")
    whole = json.loads((folder / "work.json").read_text())
    for key in ("free", "exponentials"):
        (folder / "odd.json").write_text(json.dumps({**whole, key: 5}))
        assert "'odd.json' is no result" in refused("odd.json", "--exponentiate")
    assert "does not exist" in refused("none.json")
    assert "--names has 1 names, and there are 2 models" in refused("short.json", "long.json", "--names", "A")
    assert "tell them apart with --names" in refused("short.json", "short.json")
    assert "did you mean 'age'" in refused("long.json", "--label", "ag=Age")
    assert "--group 'x' names no models" in refused("long.json", "--group", "x")
    assert "--stars 'many' are no levels" in refused("long.json", "--stars", "many")
    assert "did you mean 'latex'" in refused("long.json", "-f", "latx")
    assert "does not go with --out t.md" in refused("long.json", "-f", "latex", "--out", "t.md")
    assert "an input is never overwritten" in refused("long.json", "--out", "long.json", "--force")

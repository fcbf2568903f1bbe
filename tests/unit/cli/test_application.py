"""The commands, run inside this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app

FORMULA = "income ~ age + edu"


@pytest.fixture
def folder(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the true file, the released one and the mechanism, entered."""
    survey.to_csv(tmp_path / "truth.csv", index=False)
    with pytest.warns(UserWarning, match="not secure"):
        mechanism.perturb(survey, seed=1).to_csv(tmp_path / "public.csv", index=False)
    mechanism.save(tmp_path / "m.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def fitted(*more: str) -> str:
    return run("fit", FORMULA, "public.csv", "--mechanism", "m.json", *more)


def test_fit_prints_the_table_of_the_library(folder: Path, mechanism: pr.Mechanism) -> None:
    assert fitted().strip() == str(pr.fit(FORMULA, folder / "public.csv", mechanism)).strip()


@pytest.mark.parametrize(
    ("style", "sign"),
    [
        ("text", "std. error"),
        ("markdown", "| --- |"),
        ("latex", r"\begin{tabular}"),
        ("html", "<table>"),
        ("json", "{"),
    ],
)
def test_every_format_is_available_to_every_command(style: str, sign: str, folder: Path) -> None:
    assert sign in fitted("--format", style)
    assert sign.split("std")[0] in run(
        "compare", FORMULA, "public.csv", "-m", "m.json", "--method", "naive", "-f", style
    )
    assert run("info", "--format", style)


def test_json_can_be_read_back(folder: Path) -> None:
    fit = json.loads(fitted("--format", "json", "--privacy"))
    assert [row["term"] for row in fit["coefficients"]] == ["Intercept", "age", "edu[T.mid]", "edu[T.high]"]
    assert len(fit["price_of_privacy"]) == 4
    compared = json.loads(run("compare", FORMULA, "public.csv", "-m", "m.json", "--method", "naive", "-f", "json"))
    assert list(compared) == ["naive"]
    assert json.loads(run("info", "--format", "json"))["pramana"] == pr.__version__


def test_exponentiate_shows_ratios(folder: Path) -> None:
    options = ("fit", "employed ~ age", "public.csv", "-m", "m.json", "--family", "binomial", "-f", "json")
    plain, ratio = (json.loads(run(*options, *more))["coefficients"][1] for more in ((), ("--exponentiate",)))
    assert ratio["estimate"] == pytest.approx(2.718281828459045 ** plain["estimate"])


def test_privacy_adds_its_table(folder: Path) -> None:
    assert "Price of privacy" in fitted("--privacy")
    assert "Price of privacy" not in fitted()


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_figures_are_written(ending: str, folder: Path) -> None:
    fitted("--figure", f"f.{ending}")
    assert (folder / f"f.{ending}").stat().st_size > 1000


def test_compare_adds_the_true_data_when_the_truth_is_given(folder: Path) -> None:
    methods = ("--method", "reversion", "--method", "naive", "--method", "model1")
    more = ("--truth", "truth.csv", "--draws", "30", "--seed", "1", *methods)
    out = run("compare", FORMULA, "public.csv", "-m", "m.json", *more)
    head = next(line for line in out.splitlines() if line.startswith("term"))
    assert [head.index(name) for name in ("true data", "reversion", "naive", "model-dependent")] == sorted(
        head.index(name) for name in ("true data", "reversion", "naive", "model-dependent")
    )


@pytest.mark.parametrize(
    ("more", "inference"),
    [
        (("--correction", "HC0"), "sandwich (HC0), wald"),
        (("--correction", "HC1"), "sandwich (HC1), wald"),
        (("--correction", "HC0", "--interval", "score"), "sandwich (HC0), score"),
        (("--clusters", "region"), "sandwich (CR2, 2 clusters"),
        (("--draws", "40"), "resampling, 40 exponential draws"),
        (("--inference", "resampling", "--draws", "40", "--seed", "3"), "resampling, 40 exponential draws"),
        (("--weights", "female"), "sandwich"),
        (("--frequencies", "female"), "sandwich"),
    ],
)
def test_options_reach_the_inference(more: tuple[str, ...], inference: str, folder: Path) -> None:
    assert inference in fitted(*more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--format", "jsn"), "format 'jsn' is unknown: did you mean 'json'"),
        (("--figure", "a.bmp"), "'a.bmp' has an unknown ending: use .png, .svg or .pdf"),
        (("--figure", "absent/a.png"), "folder 'absent' does not exist: create it first"),
        (("--inference", "sandwch"), "inference 'sandwch' is unknown: did you mean 'sandwich'"),
        (("--method", "naive", "--privacy"), "does not decompose"),
        (("--dispersion", "1"), "--dispersion belongs to --family negative-binomial, not 'gaussian'"),
        (("--correction", "HC1", "--interval", "percentile"), "--correction HC1 belongs to --inference sandwich"),
        (("--draws", "5"), "draws=5 must be a whole number of at least 20"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_printed(
    more: tuple[str, ...], message: str, folder: Path
) -> None:
    result: Any = CliRunner().invoke(app, ["fit", FORMULA, "public.csv", "-m", "m.json", *more])
    assert isinstance(result.exception, pr.PramanaError)
    assert message in str(result.exception)
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["fit", "compare", "info", "demo"])
def test_every_command_has_help(command: str) -> None:
    assert "--format" in run(command, "--help")


def test_the_negative_binomial_takes_its_dispersion(folder: Path) -> None:
    out = run(
        "fit",
        "female ~ age + edu",
        "public.csv",
        "-m",
        "m.json",
        "--family",
        "negative-binomial",
        "--dispersion",
        "0.5",
    )
    assert "negative-binomial, log link" in out


def test_clean_data_need_an_explicit_none(folder: Path) -> None:
    assert "Records" in run("fit", "income ~ age", "truth.csv", "--mechanism", "none")

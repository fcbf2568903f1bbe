"""What people expect of a command: levels, pipes, CSV, help that fits, the tab key, and every option of fit."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer.main
from typer.testing import CliRunner

import pramana as pr
from pramana.cli import completion
from pramana.cli.application import app

FORMULA = "income ~ age + edu"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survey: pd.DataFrame, mechanism: pr.Mechanism) -> Path:
    monkeypatch.chdir(tmp_path)
    survey.assign(firm=[k % 40 for k in range(len(survey))]).to_csv("public.csv", index=False)
    mechanism.save("m.json")
    return tmp_path


def run(*arguments: str, given: bytes | None = None) -> str:
    result = CliRunner().invoke(app, list(arguments), input=given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def fitted(*more: str, what: str = FORMULA) -> Any:
    return json.loads(run("fit", what, "public.csv", "-m", "m.json", "-f", "json", *more))


def test_a_level_is_that_of_the_intervals(folder: Path, mechanism: pr.Mechanism) -> None:
    expected = pr.fit(FORMULA, "public.csv", mechanism, inference=pr.Sandwich(level=0.8)).interval(0.8)
    rows = fitted("--level", "0.8")["coefficients"]
    assert [[r["conf_low"], r["conf_high"]] for r in rows] == pytest.approx(expected, rel=1e-9)
    assert "[0.1" in run("fit", FORMULA, "public.csv", "-m", "m.json", "--level", "0.8")


def test_a_level_that_needs_the_data_is_fitted_for(folder: Path, mechanism: pr.Mechanism) -> None:
    for what, inference in (
        ("median(income)", pr.Woodruff(0.77)),
        (FORMULA, pr.Sandwich(interval="score", level=0.77)),
    ):
        more = ("--interval", "score") if what == FORMULA else ()
        rows = fitted("--level", "0.77", *more, what=what)["coefficients"]
        expected = pr.fit(what, "public.csv", mechanism, inference=inference).interval(0.77)
        assert [[r["conf_low"], r["conf_high"]] for r in rows] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_piped_in_is_read(ending: str, folder: Path) -> None:
    if ending == "parquet":
        pd.read_csv("public.csv").to_parquet("public.parquet")
    given = Path(f"public.{ending}").read_bytes()
    piped = run("fit", FORMULA, "-", "-m", "m.json", "-f", "json", given=given)
    assert json.loads(piped)["coefficients"] == fitted()["coefficients"]


def test_a_pipe_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder / "t"))
    (folder / "t").mkdir()
    run("fit", FORMULA, "-", "-m", "m.json", given=Path("public.csv").read_bytes())
    assert not list((folder / "t").iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit", FORMULA, "-", "-m", "m.json"), "nothing was piped in"),
        (("risk", "-", "-m", "m.json", "--keys", "age"), "takes no data from a pipe"),
    ],
)
def test_what_cannot_be_piped_is_refused(arguments: tuple[str, ...], said: str, folder: Path) -> None:
    result = CliRunner().invoke(app, list(arguments), input=b"")
    assert said in str(result.exception) or said in result.output


def test_csv_holds_the_numbers_in_full(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("fit", FORMULA, "public.csv", "-m", "m.json", "-f", "csv"))))
    for row, other in zip(rows, fitted()["coefficients"], strict=True):
        assert row["term"] == other["term"]
        assert float(row["estimate"]) == other["estimate"]
    assert run("info", "-f", "csv").startswith("what,value\n")


def test_csv_of_a_comparison_holds_the_numbers_in_full(folder: Path, mechanism: pr.Mechanism) -> None:
    text = run("compare", FORMULA, "public.csv", "-m", "m.json", "-f", "csv", "--level", "0.77", "--interval", "score")
    rows = list(csv.DictReader(io.StringIO(text)))
    inference = pr.Sandwich(interval="score", level=0.77)
    expected = pr.compare(FORMULA, "public.csv", mechanism, inference=inference).to_dicts(level=0.77)
    assert [row["method"] for row in rows] == [row["method"] for row in expected]
    for name in ("estimate", "std_error", "conf_low", "conf_high"):
        assert [float(row[name]) for row in rows] == pytest.approx([row[name] for row in expected], rel=1e-9)


@pytest.mark.parametrize("data", [b"a,b\n", b"age,edu,income\n1,low,2\n"])
def test_a_refusal_of_what_was_piped_in_names_no_private_file(data: bytes, folder: Path) -> None:
    result = CliRunner().invoke(app, ["fit", FORMULA, "-"], input=data)
    assert "what was piped in" in str(result.exception)
    assert "stdin" not in str(result.exception)


def test_a_cross_table_is_shown_in_two_dimensions(folder: Path) -> None:
    lines = run("fit", "crosstab(edu, female)", "public.csv", "-m", "m.json", "--cross").splitlines()
    assert any(line.split() == ["edu", "0", "1", "total"] for line in lines)
    assert [line.split()[0] for line in lines[-5:-1]] == ["low", "mid", "high", "total"]
    refused = CliRunner().invoke(app, ["fit", FORMULA, "public.csv", "-m", "m.json", "--cross"])
    assert isinstance(refused.exception, pr.PramanaError)


def test_the_advice_of_a_comparison_names_options(folder: Path) -> None:
    methods = ("--methods", "reversion,likelihood")
    text = run("compare", "employed ~ age + edu", "public.csv", "-m", "m.json", "--family", "binomial", *methods)
    assert "--method reversion" in text
    assert "method=" not in text


@pytest.mark.parametrize("level", ["0", "95", "-1", "1"])
def test_a_level_that_is_none_is_refused_with_one_that_is(level: str, folder: Path) -> None:
    result = CliRunner().invoke(app, ["fit", FORMULA, "public.csv", "-m", "m.json", f"--level={level}"])
    assert "for a 95 % interval give 0.95" in str(result.exception)


COMMANDS = [command.name for command in typer.main.get_group(app).commands.values()]


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_into_sixty_columns(command: str | None) -> None:
    arguments = ["--help"] if command is None else [command, "--help"]
    text = CliRunner(env={"COLUMNS": "60", "TERMINAL_WIDTH": "60"}).invoke(app, arguments, terminal_width=60).stdout
    assert "<bool>" not in text
    assert "list[str]" not in text
    whole = set(re.sub(r"-\n *", "-", text).split())
    named = [] if command is None else typer.main.get_group(app).commands[command].params
    assert [word for parameter in named for word in (parameter.help or "").split() if word not in whole] == []
    assert not any(line.rstrip().endswith(("…", "...")) for line in text.splitlines() if "[OPTIONS]" not in line), text
    assert max(map(len, text.splitlines())) <= 60


def options_of(command: str) -> set[str]:
    return {p.name for p in typer.main.get_group(app).commands[command].params}


COMPARED = {"method", "exponentiate", "privacy", "cross"}
"""Options of fit that a comparison has otherwise, or in the table that `pramana table` makes of it."""


def test_a_comparison_has_the_options_of_a_fit() -> None:
    assert options_of("fit") - options_of("compare") <= COMPARED


ELSEWHERE = {
    "design": {"strata", "fpc", "target", "replicate_weights", "replicate_scale"},
    "functions": set(),
}
"""Arguments of fit that several options make up; functions are programs, and the message of a formula that calls one says how."""


def test_every_argument_of_fit_has_an_option() -> None:
    have = options_of("fit")
    for name in inspect.signature(pr.fit).parameters:
        assert name in have or ELSEWHERE.get(name, {name}) <= have, name
    with pytest.raises(pr.PramanaError, match=r"in Python pass functions="):
        pr.fit("y ~ hinge(x)", {"y": [1.0, 2, 3], "x": [1.0, 2, 4]}, None)


def test_every_argument_of_an_inference_has_an_option() -> None:
    from pramana.cli.choices import resampling_options

    have = options_of("fit")
    for kind in (pr.Sandwich, pr.Resampling, pr.Jackknife, pr.Woodruff):
        for field in dataclasses.fields(kind):
            if kind is pr.Resampling and field.name not in have - {"weights", "id"}:
                value = {"widened": "no", "threads": "2"}.get(field.name, "x")
                assert resampling_options(f"{field.name}={value}")
            else:
                assert field.name in have, field.name


@pytest.mark.parametrize(
    ("more", "check"),
    [
        (("--absorb", "firm"), "40 effects of firm"),
        (("--clusters", "firm,region"), "two-way clusters: 40 of firm and 2 of region"),
        (("--start", "0,0,0,0"), "sandwich"),
        (("--draws", "40", "--resampling", "scale=sd,weights=poisson,widened=no"), "40 poisson draws (sd)"),
    ],
)
def test_options_reach_the_fit(more: tuple[str, ...], check: str, folder: Path) -> None:
    assert check in run("fit", FORMULA, "public.csv", "-m", "m.json", *more)


@pytest.mark.parametrize(
    "more",
    [
        ("--start", "a"),
        ("--resampling", "size=3"),
        ("--resampling", "threads=x"),
        ("--correction", "HC1", "--resampling", "scale=sd"),
    ],
)
def test_options_that_say_nothing_are_refused(more: tuple[str, ...], folder: Path) -> None:
    result = CliRunner().invoke(app, ["fit", FORMULA, "public.csv", "-m", "m.json", *more])
    assert isinstance(result.exception, pr.PramanaError)


class Typed:
    """What a completion is given."""

    def __init__(self, **params: Any) -> None:
        self.params = params
        self.args: list[str] = []
        self.parent = None


def test_the_tab_key_knows_columns_and_levels(folder: Path) -> None:
    context: Any = Typed(data="public.csv", mechanism="m.json")
    assert completion.columns(context, "e") == ["edu", "employed"]
    assert completion.columns(context, "firm,re") == ["firm,region"]
    assert completion.condition(context, "age > 3 and fem") == ["age > 3 and female"]
    assert completion.condition(context, "edu == ") == ["edu == 'low'", "edu == 'mid'", "edu == 'high'"]
    assert completion.condition(context, "edu != 'h") == ["edu != 'high'"]
    assert completion.parameters("med") == ["median("]
    for nothing in (Typed(), Typed(data="absent.csv"), Typed(data="m.json", mechanism="absent")):
        assert completion.columns(nothing, "e") == []  # type: ignore[arg-type]
        assert completion.condition(nothing, "edu == ") == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        ("fit y~x public.csv --family neg", "negative-binomial"),
        ("fit y~x public.csv --method cond", "conditional-score"),
        ("compare y~x public.csv --methods naive,like", "naive,likelihood"),
        ("fit y~x public.csv --inference wood", "woodruff"),
        ("fit y~x public.csv --interval mid", "mid-p"),
        ("study appl", "application"),
        ("study d", "d1"),
        ("table a.json --below inter", "interval"),
        ("table a.json -f mark", "markdown"),
        ("risk public.csv --keys edu,reg", "edu,region"),
        ("plan public.csv ed", "edu"),
        ("perturb public.csv out.csv --drop reg", "region"),
        ("perturb public.csv out.csv --allow rare", "rare-levels"),
        ("design --from public.csv ed", "edu"),
        ("design edu --noise lap", "laplace"),
    ],
)
def test_the_tab_key_knows_choices(words: str, offers: str, folder: Path) -> None:
    words = f"pramana {words}"
    environment = os.environ | {"_PRAMANA_COMPLETE": "complete_bash", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(len(words.split()) - 1)
    assert offers in CliRunner().invoke(app, [], env=environment, prog_name="pramana").stdout.split()


def test_choices_that_are_offered_are_those_of_the_library() -> None:
    from pramana.cli import choices, fitting, output
    from pramana.estimating.families import FAMILIES
    from pramana.estimators import KNOWN, method_of
    from pramana.render import tables

    assert set(choices.FAMILIES("")) == {name for name, _ in FAMILIES} | {"negative-binomial"}
    assert set(choices.LINKS("")) == {link for _, link in FAMILIES}
    assert {method_of(name).label for name in fitting.METHODS("")} == {method_of(name).label for name in KNOWN}
    assert set(output.FORMATS("")) == set(tables.FORMATS)
    assert choices.INFERENCES == ("sandwich", "resampling", "jackknife", "woodruff")


def test_the_shell_is_offered_commands_and_columns(folder: Path) -> None:
    def offered(words: str) -> str:
        environment = os.environ | {
            "_PRAMANA_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        made = CliRunner().invoke(app, [], env=environment, prog_name="pramana")
        return made.stdout

    assert "compare" in offered("pramana com")
    assert "region" in offered("pramana fit y~x public.csv --clusters reg")
    assert "edu=='high'" in offered("pramana fit y~x public.csv -m m.json --subset edu==")

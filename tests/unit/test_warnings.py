"""A diagnostic of severity "error" is heard: as a Python warning, as an exit code, and in frames that ask for flags."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app

MECHANISM = pr.Mechanism({"g": pr.TransitionMatrix.binary(0.6, 0.6), "h": pr.TransitionMatrix.binary(0.52, 0.52)})
DATA = pd.DataFrame({"g": [0, 1, 1, 1, 1, 1, 1, 1, 1, 1] * 3, "h": [0, 1] * 15, "y": range(30), "x": [0, 1, 2] * 10})
DATA["z"] = (DATA["y"] % 4 < 2).astype(int)


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("y ~ g", {}),
        ("y ~ x + g", {"inference": "resampling"}),
        ("z ~ h", {"family": "binomial", "method": "likelihood"}),
    ],
)
def test_a_result_that_means_nothing_warns_at_the_line_that_asked(what: str, options: dict[str, Any]) -> None:
    with pytest.warns(pr.PramanaWarning, match="not-identified .*mean nothing") as heard:
        result = pr.fit(what, DATA, MECHANISM, **options)
    assert heard[0].filename == __file__
    assert "not-identified" in result.flags.split(", ")


def test_compare_and_margins_warn_too() -> None:
    with pytest.warns(pr.PramanaWarning, match=r"not-identified \(reversion\)") as heard:
        comparison = pr.compare("y ~ x + g", DATA, MECHANISM)
    assert [w.filename for w in heard] == [__file__]
    with pytest.warns(pr.PramanaWarning, match="not-identified"):
        comparison["reversion"].margins(DATA, "x")


def test_a_warning_can_be_made_an_exception() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", pr.PramanaWarning)
        pr.fit("y ~ x", DATA, MECHANISM)
        with pytest.raises(pr.PramanaWarning, match="mean nothing"):
            pr.fit("y ~ g", DATA, MECHANISM)


@pytest.mark.filterwarnings("ignore::pramana.errors.PramanaWarning")
def test_frames_carry_flags_where_asked() -> None:
    comparison = pr.compare("y ~ g", DATA, MECHANISM)
    frame = comparison.to_frame(flags=True)
    assert frame[["method", "flags"]].to_numpy().tolist() == [["reversion", "not-identified"]] * 2 + [["naive", ""]] * 2
    assert "flags" not in comparison.to_frame().columns
    assert list(comparison["naive"].to_frame(flags=True)["flags"]) == ["", ""]
    assert [row["flags"] for row in comparison["reversion"].to_dicts(flags=True)] == ["not-identified"] * 2


def test_flags_list_errors_first_and_no_remarks() -> None:
    found = (
        pr.Diagnostic("rearranged", "info", "r"),
        pr.Diagnostic("outside-range", "warning", "o"),
        pr.Diagnostic("not-identified", "error", "n"),
    )
    result = pr.fit(pr.mean("x"), DATA, None)
    assert pr.Result(result.parameters, result.estimate, result.covariance, 30, "m", "i", diagnostics=found).flags == (
        "not-identified, outside-range"
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    DATA.to_csv(tmp_path / "public.csv", index=False)
    MECHANISM.save(tmp_path / "m.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.usefixtures("folder")
def test_the_shell_hears_of_it_after_everything_was_shown(command: str) -> None:
    asked = [command, "y ~ g", "public.csv", "-m", "m.json", "-f", "json", "--figure", "f.svg"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1
    assert json.loads(done.stdout)
    assert Path("f.svg").exists()
    assert done.stderr.startswith("warning: not-identified")
    assert "error: not-identified (reversion): not to be used as it is; --allow-errors" in done.stderr
    allowed = CliRunner().invoke(app, [*asked, "--force", "--allow-errors"])
    assert (allowed.exit_code, allowed.stdout) == (0, done.stdout)
    sound = CliRunner().invoke(app, [command, "y ~ x", "public.csv", "-m", "m.json"])
    assert (sound.exit_code, sound.stderr) == (0, "")

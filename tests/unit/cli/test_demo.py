"""The demo: machine-readable output is that alone, and its errors are those of the command that a user types next."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import pramana as pr
from pramana.cli import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["pramana", *arguments])
    with suppress(SystemExit):
        main()


def test_json_of_the_demo_is_nothing_but_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(monkeypatch, "demo", "-f", "json")
    shown = capfd.readouterr()
    methods = json.loads(shown.out)
    assert "wrote" in shown.err
    run(
        monkeypatch,
        "fit",
        "income ~ age + edu + female",
        "demo-output/released.csv",
        "-m",
        "demo-output/mechanism.json",
        "-f",
        "json",
    )
    fitted = json.loads(capfd.readouterr().out)
    for one, other in zip(methods["reversion"]["coefficients"], fitted["coefficients"], strict=True):
        assert one["std_error"] == pytest.approx(other["std_error"], rel=1e-9)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_printed(flag: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, flag)
    assert capfd.readouterr().out == f"pramana {pr.__version__}\n"

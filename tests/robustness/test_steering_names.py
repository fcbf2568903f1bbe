"""Names and levels that would steer a terminal, in everything that the commands print; `test_escaping.py` has the tables."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.cli import main

STEERS = "\x1b[31m\x9b2J\u202e"
"""Colours, clears the screen (with the one-byte form, which JSON leaves as it is), turns the direction around."""
COLUMN, NUMBER, PERSON = f"ill{STEERS}", f"income{STEERS}", f"person{STEERS}"
LEVELS = [f"yes{STEERS}", "no"]


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    n = 300
    ill = rng.choice(LEVELS, n).astype(object)
    ill[:20] = None
    frame = pd.DataFrame({COLUMN: ill, NUMBER: rng.integers(0, 50, n), PERSON: range(n)})
    frame.to_csv(tmp_path / "raw.csv", index=False)
    rule = pr.TransitionMatrix.randomized_response(LEVELS, 0.8)
    pr.Mechanism({COLUMN: rule, NUMBER: pr.LaplaceNoise(3, bounds=(0, 50))}).save(tmp_path / "m.json")
    pr.Mechanism({COLUMN: rule}).save(tmp_path / "ill.json")
    (tmp_path / "public").mkdir()
    pr.release(tmp_path / "raw.csv", tmp_path / "public" / "o.csv", pr.Mechanism.load(tmp_path / "m.json"))
    return tmp_path


COMMANDS = [
    ["perturb", "raw.csv", f"public/n{STEERS}.csv", "-m", "m.json", "--card"],
    ["perturb", "raw.csv", "public/n.csv", "-m", "ill.json", "--unit", PERSON],
    ["perturb", "raw.csv", "public/n.csv", "-m", "m.json", "--drop", f"none{STEERS}"],
    ["perturb", "raw.csv", "public/n.csv", "-m", "m.json", f"--{STEERS}"],
    ["audit", "public/o.csv", "--original", "raw.csv"],
    ["audit", "public/o.csv", "--original", "raw.csv", "-f", "json"],
    ["risk", "raw.csv", "-m", "m.json", "-f", "json"],
    ["design", COLUMN, "--from", "raw.csv", "--keep", "0.8", "-f", "json"],
    ["fit", f"proportions(`{COLUMN}`)", "public/o.csv", "--missing", "drop", "-f", "json"],
    ["fit", f"proportions(`{COLUMN}`)", "public/o.csv", "--missing", "drop"],
    ["key", f"k{STEERS}"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=[f"{k} {c[0]}" for k, c in enumerate(COMMANDS)])
def test_no_command_prints_what_steers_a_terminal(
    command: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["pramana", *command])
    with suppress(SystemExit):
        main()
    said = "".join(capfd.readouterr())
    assert said
    assert "Traceback" not in said
    assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", said) == []


def test_there_is_one_way_to_print() -> None:
    commands = Path(pr.__file__).parent / "cli"
    assert [p.name for p in commands.glob("*.py") if "typer.echo(" in p.read_text()] == ["output.py"]

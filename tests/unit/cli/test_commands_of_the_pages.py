"""Commands that the README and the pages show, as they stand there."""

from __future__ import annotations

import re
import shlex
import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer.main
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.S | re.M)
COMMAND = re.compile(r"^ *(pramana [a-z]+ [^\[\n]*)$", re.M)
"""As it is shown, not as "pramana fit [OPTIONS]"."""
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{k}")
    for page in PAGES
    for k, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
]
GROUP = typer.main.get_group(app)
LONG = ("demo", "info", "plan", "study")
"""These take seconds and are run by tests of their own: here their options are read."""
EDU = pr.TransitionMatrix.randomized_response(["low", "mid", "high"], keep=0.85)
ILL = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.9)


def people(n: int = 600) -> pd.DataFrame:
    """Every column that a page names."""
    rng = np.random.default_rng(8)
    edu = rng.choice(["low", "mid", "high"], n)
    age, x, z = rng.integers(20, 60, n), rng.normal(size=n), rng.normal(size=n)
    income = 1000.0 + 10 * age + 100 * (edu == "high") + 50 * rng.normal(size=n)
    columns = {
        "age": age, "job": rng.choice(["nurse", "clerk", "cook"], n), "edu": edu, "sex": rng.choice(["f", "m"], n), "female": rng.integers(0, 2, n), "income": income, "wage": income,
        "household income": income, "employed": rng.choice(["no", "yes"], n), "exposed": rng.integers(0, 2, n), "case": rng.integers(0, 2, n),
        "site": rng.choice(["a", "b"], n), "ill": rng.integers(0, 2, n), "cost": rng.normal(size=n), "w": rng.uniform(1, 2, n), "z": z, "x": x + z,
        "y": rng.integers(0, 2, n), "t": rng.integers(0, 2, n), "g": rng.choice(["u", "v"], n), "region": np.arange(n) % 4, "village": np.arange(n) % 40,
    }  # fmt: skip
    return pd.DataFrame(columns | {f"rep{k}": rng.uniform(1, 2, n) for k in range(8)})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A confidential file, one that was released with its description, and what `pramana demo` leaves."""
    folder = tmp_path_factory.mktemp("files")
    people().to_parquet(folder / "survey.parquet")
    pr.release(folder / "survey.parquet", folder / "public.parquet", pr.Mechanism({"edu": EDU, "ill": ILL}))
    pd.DataFrame({"level": EDU.levels, "share": [0.5, 0.3, 0.2]}).to_csv(folder / "public.csv", index=False)
    alone = pr.Mechanism({"edu": EDU})
    for name in (folder / "demo-output", folder):
        name.mkdir(exist_ok=True)
        alone.save(name / "mechanism.json")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone.perturb(people()[["age", "edu", "female", "income"]], seed=1).to_csv(
                name / "released.csv", index=False
            )
    return folder


def read(words: list[str]) -> None:
    """The options of a command, which it must have."""
    GROUP.commands[words[1]].make_context(words[1], words[2:])


def run(line: str) -> None:
    words = shlex.split(line, comments=True)
    if words[:1] == ["mkdir"]:
        for name in words[1:]:
            Path(name).mkdir()
        return
    assert words[0] == "pramana"
    words, target = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)
    if words[1] in LONG:
        read(words)
        return
    done = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    if target is not None:
        Path(target).write_text(done.stdout, encoding="utf-8")


@pytest.mark.parametrize("block", BLOCKS)
def test_commands_run_as_they_are_shown(
    block: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip():
            run(line)


def test_commands_anywhere_in_the_pages_have_options_that_exist() -> None:
    texts = [page.read_text(encoding="utf-8").replace("\\\n", " ") for page in PAGES]
    lines = [line for text in texts for line in COMMAND.findall(text)]
    assert len(lines) > 40
    for line in lines:
        words = shlex.split(line, comments=True)
        read(words[: words.index(">")] if ">" in words else words)


def test_every_page_with_commands_is_found() -> None:
    assert len(BLOCKS) >= 7

"""The options by which commands are told how the text of a CSV file is written, and the line that says how it was read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app
from pramana.cli.reading import OPTIONS

COMMAND = get_command(app)
LEVELS = ["tief", "höher"]
GERMAN = "reading raw.csv as cp1252 text separated by ';' with decimal commas"


def run(*words: object, code: int = 0) -> tuple[str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if code == 0 and done.exception is not None:
        raise done.exception
    assert done.exit_code == code
    return done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    draws = np.random.default_rng(3).integers(0, 10, (200, 3))
    rows = [f"{i};{LEVELS[z % 2]};{a},{b}\r\n" for i, (z, a, b) in enumerate(draws)]
    (tmp_path / "raw.csv").write_bytes(("id;edu;y\r\n" + "".join(rows)).encode("cp1252"))
    pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, 0.8)}).save(tmp_path / "m.json")
    (tmp_path / "public").mkdir()
    return tmp_path


def test_a_file_goes_from_design_to_fit_without_a_flag(folder: Path) -> None:
    raw, out = folder / "raw.csv", folder / "public" / "out.csv"
    for words in (
        ("design", "edu", "--from", raw, "--keep", 0.8, "-o", folder / "d.toml"),
        ("perturb", raw, out, "-d", folder / "d.toml"),
        ("audit", out, "--original", raw),
        ("risk", raw, "-m", folder / "m.json", "--keys", "id"),
        ("plan", raw, "edu", "--analysis", "y ~ edu", "--se", "0.5", "--simulate", "0"),
    ):
        assert GERMAN in run(*words)[1]
    said = run("fit", "y ~ edu", out)
    assert "edu[T.tief]" in said[0] or "edu[T.höher]" in said[0]
    assert "reading out.csv as utf-8 text separated by ';' with decimal commas" in said[1]
    assert GERMAN in run("compare", "y ~ edu", out, "--truth", raw)[1]
    run("perturb", raw, folder / "public" / "out.parquet", "-m", folder / "m.json")
    assert run("fit", "y ~ edu", folder / "public" / "out.parquet")[1] == ""


def test_a_plain_file_is_not_talked_about(folder: Path) -> None:
    (folder / "plain.csv").write_text("id,edu\n" + "".join(f"{i},{LEVELS[i % 2]}\n" for i in range(20)), "utf-8")
    assert (
        "reading" not in run("perturb", folder / "plain.csv", folder / "public" / "o.csv", "-m", folder / "m.json")[1]
    )


def test_flags_override_what_is_found_and_what_is_described(folder: Path) -> None:
    raw = folder / "raw.csv"
    _, said = run("design", "y", "--from", raw, "--keep", 0.8, "--decimal", ".", "--encoding", "latin-1")
    assert "reading raw.csv as iso8859-1 text separated by ';'\n" in said  # so that 1,5 is text
    run("perturb", raw, folder / "public" / "out.csv", "-m", folder / "m.json")
    _, said = run("fit", "mean(y)", folder / "public" / "out.csv", "--decimal", ".", code=1)
    assert "reading out.csv as utf-8 text separated by ';'\n" in said


def test_flags_are_for_the_file_that_no_description_speaks_for(folder: Path) -> None:
    """The original is Latin-1, its release UTF-8: the flag means the original."""
    raw, out = folder / "raw.csv", folder / "public" / "out.csv"
    run("perturb", raw, out, "-m", folder / "m.json")
    _, said = run("compare", "y ~ edu", out, "--truth", raw, "--encoding", "latin-1")
    assert "reading out.csv as utf-8 text" in said
    assert "reading raw.csv as iso8859-1 text" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--delimiter", "::"), "delimiter '::' cannot be read"),
        (("--encoding", "nonsense"), "encoding 'nonsense' is unknown"),
        (("--encoding", "utf-8"), r"row 5, column 2 .* is not UTF-8 text: say the file's encoding"),
        (("--delimiter", ","), "needs column"),
    ],
)
def test_flags_that_cannot_be(flags: tuple[str, str], message: str, folder: Path) -> None:
    words = ("perturb", folder / "raw.csv", folder / "public" / "o.csv", "-m", folder / "m.json", *flags)
    with pytest.raises(pr.PramanaError, match=message) as caught:
        run(*words)
    assert "höher" not in str(caught.value)
    assert list((folder / "public").iterdir()) == []


def test_flags_are_not_for_parquet(folder: Path) -> None:
    run("perturb", folder / "raw.csv", folder / "public" / "out.parquet", "-m", folder / "m.json")
    with pytest.raises(pr.PramanaError, match=r"--decimal is for CSV files, and 'out.parquet' is none"):
        run("fit", "mean(y)", folder / "public" / "out.parquet", "--decimal", ",")


@pytest.mark.parametrize("command", ["design", "perturb", "audit", "risk", "plan", "fit", "compare", "specification"])
def test_every_command_that_reads_a_file_has_the_options(command: str) -> None:
    known = {option for parameter in COMMAND.commands[command].params for option in parameter.opts}  # type: ignore[attr-defined]
    assert {f"--{name}" for name in OPTIONS} <= known

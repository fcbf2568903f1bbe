"""Messages say what is there, in plain words, and speak the language of whoever reads them."""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app
from pramana.cli.speech import in_the_shell, speak_for
from pramana.frames.inputs import absence

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pramana"


@cache
def texts(path: Path) -> list[str]:
    """The texts in a file of code that are not docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    statements = {node.value for node in nodes if isinstance(node, ast.Expr)}
    found = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [str(node.value) for node in found if node not in statements]


def test_no_text_speaks_of_an_oracle_or_of_what_only_the_code_knows() -> None:
    banned = re.compile(r"\boracle\b|^Expansion$|levels a record|eigenvalue of the slope", re.IGNORECASE)
    said = [(path.name, text) for path in SOURCE.rglob("*.py") for text in texts(path) if banned.search(text)]
    assert said == []
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [
        p.name for p in pages if p.name != "glossary.md" and "oracle" in p.read_text(encoding="utf-8").lower()
    ] == []


def named_types(path: Path) -> list[str]:
    """Classes, and names for types, that other files of the package can ask for."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    classes = [node.name for node in body if isinstance(node, ast.ClassDef)]
    targets = [
        target
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    names = [*classes, *(target.id for target in targets if isinstance(target, ast.Name))]
    return [name for name in names if name[0] != "_" and not name.isupper() and name[0].isupper()]


def test_a_type_has_a_name_of_its_own() -> None:
    """One name, one thing; the options of the commands are named within their files."""
    library = [path for path in SOURCE.rglob("*.py") if "cli" not in path.relative_to(SOURCE).parts]
    places: dict[str, list[str]] = {}
    for path in library:
        for name in named_types(path):
            places.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_library_names_no_option_of_the_shell() -> None:
    """Its messages name arguments, which the shell translates; the one option that is called otherwise is named beside its argument."""
    option = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    library = [path for path in SOURCE.rglob("*.py") if "cli" not in path.relative_to(SOURCE).parts]
    said = {found for path in library for text in texts(path) for found in option.findall(text)}
    assert said <= {"--unit-varies"}


@pytest.mark.parametrize(("message", "shown"), [
    ("use missing='drop' to leave them out", "use --missing drop to leave them out"),
    ("or force=True to replace it", "or --force to replace it"),
    ("declare the mark (missing=), or", "declare the mark (--missing), or"),
    ("say pr.Dialect(quote='none') where", "say --quote none where"),
    ("say mechanism='a folder/m.json'", "say mechanism='a folder/m.json'"),
    ("say mechanism='folder/m.json'", "say --mechanism folder/m.json"),
    ("use clusters='c' or weights=", "use clusters='c' or weights="),
    ("SurveyDesign(missing='drop') stays", "SurveyDesign(missing='drop') stays"),
    ("'y[missing=drop]' and \"missing=drop\" stay", "'y[missing=drop]' and \"missing=drop\" stay"),
    ("force=False stays", "force=False stays"),
    ("use inference=Woodruff() or Resampling()", "use --inference woodruff or --inference resampling"),
    ("use inference=pr.Sandwich(), whose", "use --inference sandwich, whose"),
    ("use Sandwich(interval='score'), or", "use --interval score, or"),
    ("fit again with inference=Sandwich(level=0.9)", "fit again with inference=Sandwich(level=0.9)"),
    ("Sandwich(...) stays", "Sandwich(...) stays"),
    ("missing=('a', 'b') or missing=['c']", "--missing a,b or --missing c"),
    ("but mechanism=None says", "but --mechanism none says"),
    ("missing=None stays", "missing=None stays"),
])  # fmt: skip
def test_arguments_are_options_in_the_shell(message: str, shown: str) -> None:
    speak_for(["--missing", "--force", "--mechanism", "--quote", "--inference", "--interval"])
    assert in_the_shell(message) == shown


def test_a_remark_of_a_fit_names_options_in_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    trait = (rng.random(1000) < 0.1).astype(int)
    pd.DataFrame({"trait": trait, "y": 1.0 + trait + rng.normal(size=1000)}).to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.chdir(tmp_path)
    pr.Mechanism({"trait": pr.TransitionMatrix.binary(sensitivity=0.6, specificity=0.6)}).save("m.json")
    shown = CliRunner().invoke(app, ["fit", "y ~ trait", "a.csv", "-m", "m.json"]).stdout
    assert "or --method stabilized, which is steadier" in shown


@pytest.fixture
def folder(tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch) -> Path:
    survey.to_csv(tmp_path / "truth.csv", index=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    pr.release("truth.csv", "out/public.csv", mechanism)
    return tmp_path


def refusal(call: Any) -> str:
    with pytest.raises(pr.PramanaError) as caught:
        call()
    return str(caught.value)


def test_a_folder_in_place_of_a_file_is_called_one(folder: Path, mechanism: pr.Mechanism) -> None:
    assert "'out' is a folder" in refusal(lambda: pr.fit("income ~ edu", "out/public.csv", "out"))
    assert "'out' is a folder" in refusal(lambda: pr.Mechanism.load("out"))
    assert "'out' is a folder" in refusal(lambda: pr.read_design("out"))
    (folder / "odd.json").mkdir()
    assert "'odd.json' is a folder" in refusal(lambda: pr.Mechanism.load("odd.json"))
    assert absence(folder / "none") == "does not exist"
    os.mkfifo(folder / "pipe")
    assert absence(folder / "pipe") == "is no ordinary file"


def test_a_renamed_file_is_told_what_describes_it(folder: Path, mechanism: pr.Mechanism) -> None:
    (folder / "out" / "public.csv").rename(folder / "out" / "renamed.csv")
    said = refusal(lambda: pr.fit("income ~ edu", "out/renamed.csv", "auto"))
    assert "'out/datapackage.json' beside it describes 'public.csv'" in said
    assert "mechanism='out/datapackage.json'" in said
    fitted = pr.fit("income ~ edu", "out/renamed.csv", "out/datapackage.json")  # the remedy that was named
    assert fitted.parameters == ("Intercept", "edu[T.mid]", "edu[T.high]")
    (folder / "out" / "renamed.csv").rename(folder / "alone.csv")
    assert "none lies beside it" in refusal(lambda: pr.fit("income ~ edu", "alone.csv", "auto"))
    mechanism.save("m.json")
    (folder / "broken.json").write_text("{")
    said = refusal(lambda: pr.fit("income ~ edu", "alone.csv", "auto"))
    assert "'m.json' beside it describes a mechanism" in said
    assert "mechanism='m.json'" in said


@pytest.mark.usefixtures("folder")
def test_what_exists_is_replaced_by_what_the_message_names(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    made = pr.table([pr.fit("income ~ edu", survey, mechanism)])
    made.save("t.md")
    assert "force=True to replace it" in refusal(lambda: made.save("t.md"))
    made.save("t.md", force=True)


def test_values_outside_are_counted_once(survey: pd.DataFrame) -> None:
    """However many records hold one, and however many candidates a perturbed record has."""
    levels = [0, 1, 7, 9]
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response(levels, keep=0.7, kind="numeric")})
    data = survey.assign(y=np.resize(levels, len(survey)))
    for given in (None, mechanism):
        said = refusal(lambda given=given: pr.fit("y ~ age", data, given, family="binomial"))
        assert "has 2 different values outside [0, 1], such as 7" in said

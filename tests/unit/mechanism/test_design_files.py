"""Design files and the command that writes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana import designs
from pramana.cli.application import app
from pramana.mechanism.designs.request import Request

ABC = ("a", "b", "c")
SHARES = (0.5, 0.3, 0.2)
BOTH = ("frequencies", "levels")
HEAD = '[columns.z]\nlevels = ["a", "b", "c"]\n'
INVARIANT = "keep = 0.8\ninvariant = true\nfrequencies = [0.5, 0.3, 0.2]\n"


def design(text: str, folder: Path, data: object = None) -> pr.Design:
    path = folder / "design.toml"
    path.write_text(text, encoding="utf-8")
    return pr.Design.read(path, data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keep = 0.8", pr.TransitionMatrix.randomized_response(ABC, 0.8)),
        ("epsilon = 1", pr.TransitionMatrix.from_epsilon(ABC, 1)),
        ("keep = 0.5\nepsilon = 1.0", pr.TransitionMatrix.randomized_response(ABC, 0.5)),
        ("keep = [0.9, 0.8, 0.7]", designs.per_level(ABC, [0.9, 0.8, 0.7])),
        ("keep = { c = 0.7, a = 0.9, b = 0.8 }", designs.per_level(ABC, [0.9, 0.8, 0.7])),
        ("keep = 0.8\nfrequencies = [0.5, 0.3, 0.2]", designs.per_level(ABC, 0.8, frequencies=SHARES)),
        (INVARIANT, designs.invariant(ABC, SHARES, 0.8)),
        (INVARIANT.replace("keep = 0.8", "epsilon = 1.5"), designs.invariant(ABC, SHARES, epsilon=1.5)),
        (INVARIANT + 'construction = "two-stage"', designs.invariant(ABC, SHARES, 0.8, construction="two-stage")),
        (
            INVARIANT + 'construction = "equal-diagonal"',
            designs.invariant(ABC, SHARES, 0.8, construction="equal-diagonal"),
        ),
        ("keep = 0.8\nband = 1", designs.band(ABC, 0.8)),
        (INVARIANT + "band = 1", designs.band(ABC, 0.8, frequencies=SHARES, invariant=True)),
        ('epsilon = 1.0\nblocks = [["a", "b"], ["c"]]', designs.blocks(ABC, [["a", "b"], ["c"]], epsilon=1.0)),
        ('keep = 0.8\nfixed = ["c"]', designs.restricted(ABC, 0.8, fixed=["c"])),
        ('keep = 0.8\nkind = "ordinal"', pr.TransitionMatrix.randomized_response(ABC, 0.8, kind="ordinal")),
        (
            'by = "r"\n[[columns.z.strata]]\nvalue = 1\nkeep = 0.9\n[[columns.z.strata]]\nvalue = 2\nepsilon = 1.0',
            pr.Stratified(
                "r",
                {1: pr.TransitionMatrix.randomized_response(ABC, 0.9), 2: pr.TransitionMatrix.from_epsilon(ABC, 1.0)},
            ),
        ),
    ],
)
def test_a_design_file_builds_what_the_functions_build(
    text: str, expected: pr.TransitionMatrix | pr.Stratified, tmp_path: Path
) -> None:
    made = design(HEAD + text, tmp_path)
    assert made.mechanism == pr.Mechanism({"z": expected})
    assert made.conditional == ()
    again = tmp_path / "again.toml"
    made.write(again)
    assert pr.read_design(again) == made.mechanism


def test_designs_from_epsilon_may_be_block_designs(tmp_path: Path) -> None:
    seven = '[columns.z]\nlevels = ["a", "b", "c", "d", "e", "f", "g"]\nepsilon = 0.1\nconstruction = '
    for construction in ("block-design", "best"):
        made = design(f'{seven}"{construction}"', tmp_path).mechanism
        assert made == pr.Mechanism({"z": designs.block_design(list("abcdefg"), 0.1)})


def test_linked_columns(tmp_path: Path) -> None:
    text = '[[linked]]\ncolumns = ["u", "v"]\nkeep = 0.8\n'
    frame = pd.DataFrame({"u": [1, 2, 2], "v": ["x", "x", "y"]})
    made = design(text, tmp_path, frame)
    expected = designs.linked([(1, "x"), (2, "x"), (2, "y")], 0.8)
    given = pr.TransitionMatrix.from_form(expected.levels, expected.form, expected.kind, conditional=("levels",))
    assert made.mechanism == pr.Mechanism({("u", "v"): given})
    made.write(tmp_path / "again.toml")
    assert pr.read_design(tmp_path / "again.toml") == made.mechanism


def test_levels_and_frequencies_from_the_data_are_marked_as_conditional(tmp_path: Path) -> None:
    frame = pd.DataFrame({"z": ["b", "a", "a", None, "c"]})
    made = design('[columns.z]\nkeep = 0.8\ninvariant = true\nfrequencies = "data"', tmp_path, frame)
    assert made.mechanism == pr.Mechanism({"z": designs.invariant(ABC, [0.5, 0.25, 0.25], 0.8, conditional=BOTH)})
    assert made.conditional == ("z",)
    assert "conditional on the frequencies and the list of levels" in made.notes[0]
    made.write(tmp_path / "again.toml")
    assert 'conditional = ["frequencies", "levels"]' in (tmp_path / "again.toml").read_text()
    assert pr.Design.read(tmp_path / "again.toml") == made


def test_frequencies_from_the_data_are_counted_within_strata(tmp_path: Path) -> None:
    frame = pd.DataFrame({"z": list("aabbabbb"), "r": list("nnnnssss")})
    text = (
        '[columns.z]\ninvariant = true\nkeep = 0.8\nfrequencies = "data"\nby = "r"\n'
        '[[columns.z.strata]]\nvalue = "n"\n[[columns.z.strata]]\nvalue = "s"\nkeep = 0.9'
    )
    made = design(text, tmp_path, frame)
    expected = {
        "n": designs.invariant(["a", "b"], [0.5, 0.5], 0.8, conditional=BOTH),
        "s": designs.invariant(["a", "b"], [0.25, 0.75], 0.9, conditional=BOTH),
    }
    assert made.mechanism == pr.Mechanism({"z": pr.Stratified("r", expected)})
    assert made.conditional == ("z",)
    made.write(tmp_path / "again.toml")
    assert pr.Design.read(tmp_path / "again.toml") == made


LISTED = '[columns.z]\nlevels = ["a", "b", "c"]\nkeep = 0.8\ninvariant = true\nfrequencies = "data"\n'


@pytest.mark.parametrize(
    "text",
    [
        LISTED,
        LISTED + "band = 1",
        LISTED + 'construction = "two-stage"',
        LISTED + 'by = "r"\n[[columns.z.strata]]\nvalue = 1',
        HEAD + INVARIANT + "conditional = true",
    ],
    ids=["mixture", "band", "two-stage", "strata", "written out"],
)
def test_a_mechanism_remembers_that_its_epsilon_is_conditional(text: str, tmp_path: Path) -> None:
    """It reaches the mechanism, its representation and its file, where it was lost before."""
    frame = pd.DataFrame({"z": list("abcaab"), "r": [1] * 6})
    made = design(text, tmp_path, frame).mechanism
    assert made.conditional == ["z"]
    assert "given the frequencies" in repr(made)
    assert made.epsilon_condition == ", given the frequencies of 'z'"
    made.save(tmp_path / "mechanism.json")
    again = pr.Mechanism.load(tmp_path / "mechanism.json")
    assert again.conditional == ["z"]
    assert again == made


@pytest.mark.parametrize("more", ["", "band = 1", 'by = "r"\n[[columns.z.strata]]\nvalue = 1'])
def test_a_list_of_levels_from_the_data_makes_epsilon_conditional(more: str, tmp_path: Path) -> None:
    """Whoever sees the list learns that somebody has each of its levels; the files between design and release keep it."""
    frame = pd.DataFrame({"z": list("abcaab"), "r": [1] * 6})
    read = design(f"[columns.z]\nkeep = 0.8\n{more}", tmp_path, frame)
    assert read.mechanism.epsilon_condition == ", given the list of levels of 'z'"
    assert "conditional on the list of levels" in read.notes[0]
    read.write(tmp_path / "again.toml")
    made = pr.read_design(tmp_path / "again.toml")
    made.save(tmp_path / "mechanism.json")
    for again in (made, pr.Mechanism.load(tmp_path / "mechanism.json")):
        assert again == read.mechanism
        assert (again.conditional, again.assignments[0].channel.given) == (["z"], ("levels",))
        assert "given the list of levels" in repr(again)


def test_a_public_table_lists_the_levels_itself(tmp_path: Path) -> None:
    frame = pd.DataFrame({"z": list("abcaab")})
    public = "[columns.z]\nkeep = 0.8\ninvariant = true\nfrequencies = { a = 0.5, b = 0.25, c = 0.25 }"
    assert design(public, tmp_path, frame).conditional == ()


@pytest.mark.parametrize("said", ['"levels"', '["level"]', "[1]", "[[]]", "1"])
def test_what_an_epsilon_is_conditional_on_is_checked(said: str, tmp_path: Path) -> None:
    with pytest.raises(pr.MechanismError, match=r"columns.z.conditional is .* a list of frequencies and levels"):
        design(f"{HEAD}keep = 0.8\nconditional = {said}", tmp_path)
    with pytest.raises(pr.MechanismError, match="comes from the confidential data"):
        pr.TransitionMatrix(["a", "b"], [[0.8, 0.1], [0.2, 0.9]], conditional=("level",))


def test_without_frequencies_of_the_data_nothing_is_conditional(tmp_path: Path) -> None:
    made = design(HEAD + INVARIANT, tmp_path).mechanism
    assert made.conditional == []
    assert "given" not in repr(made) + made.epsilon_condition
    assert '"conditional"' not in json.dumps(made.document())


def test_a_conditional_matrix_says_so() -> None:
    made = pr.TransitionMatrix.invariant(ABC, SHARES, 0.8, conditional=True)
    assert made.conditional
    assert "given the frequencies" in repr(made)
    assert made != pr.TransitionMatrix.invariant(ABC, SHARES, 0.8)
    assert pr.TransitionMatrix.from_document(made.document()) == made


def test_a_stratum_that_the_data_lack(tmp_path: Path) -> None:
    frame = pd.DataFrame({"z": list("ab"), "r": list("nn")})
    text = (
        '[columns.z]\ninvariant = true\nkeep = 0.8\nfrequencies = "data"\nby = "r"\n[[columns.z.strata]]\nvalue = "s"'
    )
    with pytest.raises(pr.DataError, match="column 'r' has no row of stratum 's'"):
        design(text, tmp_path, frame)


def test_names_and_levels_of_any_text_survive_a_file(tmp_path: Path) -> None:
    odd = ('say "no"', "back\\slash", "new\nline", "tab\t", "ümlaut ☃", "\x7f", "")
    pr.Design((Request(('a "column". é',), levels=odd, keep=0.8),)).write(tmp_path / "odd.toml")
    back = pr.Design.read(tmp_path / "odd.toml")
    assert back.requests[0].levels == odd
    assert back.mechanism.columns == ['a "column". é']


def test_numbers_and_booleans_keep_their_type(tmp_path: Path) -> None:
    frame = pd.DataFrame({"i": [2, 1], "b": [True, False], "f": [0.5, 1.5], "g": [1.0, np.nan]})
    text = "".join(f"[columns.{name}]\nkeep = 0.9\n" for name in "ibf")
    made = design(text, tmp_path, frame)
    made.write(tmp_path / "again.toml")
    levels = [a.channel.levels for a in pr.read_design(tmp_path / "again.toml").assignments]
    assert levels == [(1, 2), (False, True), (0.5, 1.5)]
    assert [type(v[0]) for v in levels if v] == [int, bool, float]


@pytest.fixture
def folder(tmp_path: Path, survey: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    survey.assign(code=np.where(survey["female"] == 1, "01", "02")).to_csv(tmp_path / "survey.csv", index=False)
    pd.DataFrame({"edu": ["low", "mid", "high"], "count": [50, 30, 20]}).to_csv(tmp_path / "public.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["design", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_of_the_design_page(folder: Path) -> None:
    shown = run("edu", "--from", "survey.csv", "--keep", "0.85", "--invariant", "-o", "design.toml")
    assert "conditional on the frequencies" in shown
    assert "condition number" in shown
    made = pr.Design.read("design.toml")
    assert made.conditional == ("edu",)
    channel = made.mechanism.assignments[0].channel
    assert isinstance(channel, pr.TransitionMatrix)
    assert channel.levels == ("high", "low", "mid")
    assert channel.diagonal.min() == pytest.approx(0.85)


def test_public_frequencies_are_not_conditional(folder: Path) -> None:
    options = ("--levels", "low,mid,high", "--kind", "ordinal", "--keep", "0.85", "--invariant")
    shown = run("edu", "--from", "survey.csv", *options, "--frequencies-file", "public.csv", "-o", "design.toml")
    assert "conditional" not in shown
    expected = designs.invariant(["low", "mid", "high"], SHARES, 0.85, kind="ordinal")
    assert pr.read_design("design.toml") == pr.Mechanism({"edu": expected})


def test_public_frequencies_of_codes_with_leading_zeros(folder: Path) -> None:
    Path("codes.csv").write_text("level,frequency\n02,0.25\n01,0.75\n", encoding="utf-8")
    options = ("--keep", "0.8", "--invariant", "--frequencies-file", "codes.csv", "-o", "design.toml")
    run("code", "--from", "survey.csv", *options)
    assert pr.read_design("design.toml") == pr.Mechanism({"code": designs.invariant(["01", "02"], [0.75, 0.25], 0.8)})


def test_columns_are_added_to_a_design(folder: Path) -> None:
    run("edu", "--from", "survey.csv", "--keep", "0.85", "-o", "design.toml")
    run("code", "--from", "survey.csv", "--epsilon", "1", "-o", "design.toml", "--append")
    mechanism = pr.read_design("design.toml")
    assert mechanism.columns == ["edu", "code"]
    assert mechanism.assignments[1].channel.levels == ("01", "02")
    with pytest.raises(pr.PramanaError, match=r"exists: --append adds .*--force replaces"):
        run("edu", "--from", "survey.csv", "--keep", "0.85", "-o", "design.toml")
    run("edu", "--from", "survey.csv", "--keep", "0.9", "-o", "design.toml", "--force")
    assert pr.read_design("design.toml").columns == ["edu"]


def test_levels_without_data(folder: Path) -> None:
    shown = json.loads(run("z", "--levels", "1,2,3", "--keep", "0.8", "--band", "1", "--format", "json"))
    assert shown["levels"] == [1, 2, 3]
    assert shown["epsilon"] is None
    assert shown["diagonal"] == [0.8, 0.8, 0.8]


def test_the_better_design_is_explained(folder: Path) -> None:
    shown = run("z", "--levels", "a,b,c,d,e,f,g", "--epsilon", "0.1", "--construction", "best")
    assert "block design: the other design has 1.89 times its total variance" in shown


def test_many_levels_show_their_diagonal(folder: Path) -> None:
    shown = run("z", "--levels", ",".join(f"l{i}" for i in range(30)), "--keep", "0.8")
    assert "and 10 more levels" in shown
    assert "0.8000" in shown


@pytest.mark.parametrize("style", ["markdown", "latex", "html"])
def test_every_format(style: str, folder: Path) -> None:
    assert "edu" in run("edu", "--from", "survey.csv", "--keep", "0.85", "--format", style)


def test_missing_values_are_left_out(folder: Path) -> None:
    Path("gaps.csv").write_text("z\n1\n2\nNA\n2\n", encoding="utf-8")
    with pytest.raises(pr.DataError, match=r"at least 1 field.*nobody declared them"):
        run("z", "--from", "gaps.csv", "--keep", "0.9")
    run("z", "--from", "gaps.csv", "--keep", "0.9", "--invariant", "--missing", "NA", "-o", "design.toml")
    assert pr.Design.read("design.toml").requests[0].frequencies == pytest.approx((1 / 3, 2 / 3))
    assert pr.Design.read("design.toml").missing == ("NA",)
    assert pr.read_design("design.toml").assignments[0].channel.levels == (1, 2)

"""Designs that cannot be: every message names the value, the limit and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana import designs
from pramana.cli.application import app

ABC = ["a", "b", "c"]
SHARES = [0.5, 0.3, 0.2]


def says(*parts: str) -> str:
    """A pattern that needs every part, in order."""
    return ".*".join(re.escape(part) for part in parts)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        # frequencies
        (
            lambda: designs.invariant(ABC, [0.5, 0.3, 0.1], 0.8),
            says("sum to 0.9, not 1", "1e-09", "counts by their total"),
        ),
        (lambda: designs.invariant(ABC, [0.5, 0.5, 0.0], 0.8), says("level 'c' is 0", "must be positive", "leave out")),
        (lambda: designs.invariant(ABC, [0.6, 0.6, -0.2], 0.8), says("level 'c' is -0.2", "positive")),
        (lambda: designs.invariant(ABC, [0.5, 0.5], 0.8), says("2 frequencies for 3 levels", "one a level")),
        (lambda: designs.invariant(ABC, [0.5, np.nan, 0.5], 0.8), says("not a finite number")),
        (lambda: designs.invariant(ABC, ["x", "y", "z"], 0.8), says("must be numbers")),
        (lambda: designs.invariant(ABC, {"a": 0.5, "b": 0.5}, 0.8), says("lack level(s) 'c'")),
        (
            lambda: designs.invariant(ABC, {**dict(zip(ABC, SHARES, strict=True)), "d": 0}, 0.8),
            says("'d'", "no levels"),
        ),
        # floor and invariance
        (
            lambda: designs.invariant(ABC, SHARES, 0.2),
            says("keep=0.2", "above 0.2", "smallest frequency (level 'c')", "Raise"),
        ),
        (lambda: designs.invariant(ABC, SHARES, 0.0), says("keep=0.0", "above 0 and at most 1")),
        (lambda: designs.invariant(ABC, SHARES, 1.1), says("keep=1.1", "at most 1")),
        (lambda: designs.invariant(ABC, SHARES, [0.9, 0.8, 0.7]), says("one probability")),
        (lambda: designs.invariant(ABC, SHARES), says("keep probability or an epsilon")),
        (lambda: designs.invariant(ABC, SHARES, 0.8, epsilon=1.0), says("one of the two")),
        (lambda: designs.invariant(ABC, SHARES, epsilon=-1.0), says("epsilon=-1.0", "positive")),
        (lambda: designs.invariant(ABC, SHARES, 0.8, construction="equal"), says("did you mean 'equal-diagonal'?")),  # type: ignore[arg-type]
        (
            lambda: designs.invariant(ABC, SHARES, epsilon=1.0, construction="two-stage"),
            says("'two-stage' takes keep", "'mixture'"),
        ),
        (
            lambda: designs.invariant(ABC, [0.6, 0.3, 0.1], 0.8, construction="equal-diagonal"),
            says("level 'a'", "0.12", "more than half of the 0.2", "construction='mixture'"),
        ),
        (
            lambda: designs.invariant(["a", "b"], [0.5, 0.5], 0.5, construction="equal-diagonal"),
            says("singular", "raise the keep probability"),
        ),
        (lambda: designs.invariant(ABC, SHARES, 1 / 3, construction="two-stage"), says("must lie above 1/K")),
        # structure
        (
            lambda: designs.restricted(ABC, 0.8, allowed=np.tri(3, dtype=bool), frequencies=SHARES, invariant=True),
            says("level 'a' may move", "move back", "both directions"),
        ),
        (lambda: designs.restricted(ABC, 0.8, invariant=True), says("needs the frequencies")),
        (lambda: designs.restricted(ABC, 0.8, allowed=np.ones((2, 2), dtype=bool)), says("shape (2, 2)", "3 × 3")),
        (lambda: designs.restricted(ABC, 0.8, allowed=np.ones((3, 3))), says("float64", "true and false")),
        (lambda: designs.restricted(ABC, 0.8, fixed=["n/a"]), says("['n/a']", "out of 'a', 'b', 'c'")),
        (lambda: designs.restricted(ABC, 0.8, fixed="a"), says("must be a list of levels")),
        (lambda: designs.band(ABC, 0.5), says("singular", "raise the keep probability")),
        (lambda: designs.band(ABC, 0.8, width=3), says("width=3", "from 1 to 2")),
        (lambda: designs.band(ABC, 0.8, width=0), says("width=0", "from 1 to 2")),
        (lambda: designs.blocks(ABC, [["a", "b"]], 0.8), says("'c' are in no block")),
        (lambda: designs.blocks(ABC, [["a", "b"], ["b", "c"]], 0.8), says("'b' are in several blocks")),
        (lambda: designs.blocks(ABC, [["a", "b"], ["c", "d"]], 0.8), says("'d' are no levels")),
        (lambda: designs.blocks(ABC, "abc", 0.8), says("list of lists")),
        (lambda: designs.blocks(ABC, [["a", "b"], ["c"]]), says("keep probability or an epsilon")),
        (lambda: designs.per_level(ABC, [0.9, 1.2, 0.8]), says("keep=1.2 of level 'b'", "between 0 and 1")),
        (lambda: designs.per_level(ABC, [0.9, 0.8]), says("2 keep probabilities for 3 levels")),
        (lambda: designs.per_level(ABC, 1 / 3), says("singular", "raise the keep probability")),
        # linked columns
        (lambda: designs.linked(["a", "b"], 0.8), says("tuples of equal length")),  # type: ignore[list-item]
        (lambda: designs.linked([("a", 1), ("b",)], 0.8), says("tuples of equal length")),
        (lambda: designs.linked([("a", 1), ("b", 2)]), says("one of keep, epsilon and channels, not 0")),
        (lambda: designs.linked([("a", 1), ("b", 2)], channels=[designs.warner(0.7)]), says("1 channels", "2 columns")),
        (
            lambda: designs.linked([(0, 1), (1, 2)], channels=[designs.warner(0.7), designs.warner(0.7)]),
            says("2 in column 2", "no levels"),
        ),
        (lambda: designs.observed_combinations({"u": [1, 2]}, ["u", "v"]), says("'v'", "lack")),
        # epsilon
        (
            lambda: designs.block_design(list("abcdefgh"), 0.1),
            says("of 8 levels is known", "7, 11, 13", "from_epsilon"),
        ),
        (lambda: designs.block_design(list("abcdefg"), 0.1, size=4), says("7 levels with blocks of 4", "are 3")),
        (lambda: designs.best_for_epsilon(ABC, 0.0), says("epsilon=0.0", "positive")),
        (lambda: designs.total_variance(designs.warner(0.7), [0.5, 0.6]), says("sum to 1.1")),
        # strata
        (lambda: designs.by_stratum("r", ABC, {"n": {"keep": 0.2}}), says("stratum 'n' of 'r'", "keep=0.2", "1/K")),
        (lambda: designs.by_stratum("r", ABC, {"n": {"kep": 0.9}}), says("stratum 'n' of 'r'", "kep")),
        # surveys
        (lambda: designs.warner(0.5), says("say nothing about the trait", "p=0.5", "differ from 1/2")),
        (lambda: designs.crosswise(0.5), says("say nothing", "prevalence=0.5")),
        (lambda: designs.kuk(0.4, 0.4), says("say nothing", "0.4")),
        (lambda: designs.forced_response(0.0, 0.5), says("say nothing", "truth=0")),
        (lambda: designs.forced_response(0.8, 0.4), says("sum to 1.2", "at most 1")),
        (lambda: designs.unrelated_question(0.0, 0.4), says("say nothing", "p=0")),
        (lambda: designs.mangat(0.0), says("say nothing", "p=0")),
        (lambda: designs.warner(1.5), says("p=1.5", "between 0 and 1")),
        (lambda: designs.warner(0.7, levels=ABC), says("two levels", "not 3")),
    ],
)
def test_an_impossible_design_says_why(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        make()


TOML = [
    ("version = 2\n[columns.z]\nkeep = 0.9", says("version 2", "update pramana")),
    ("version = 1", says("asks for nothing")),
    ("[column.z]\nkeep = 0.9", says("unknown key 'column'", "did you mean 'columns'?")),
    ('[columns.z]\nlevels = ["a", "b"]\nkep = 0.9', says("columns.z", "unknown key 'kep'", "did you mean 'keep'?")),
    ('[columns.z]\nlevels = ["a", "b"]\nkeep = "most"', says("columns.z.keep is 'most'", "a number, one a level")),
    ('[columns.z]\nlevels = ["a", "b"]\ninvariant = 1\nkeep = 0.9', says("invariant is 1", "true or false")),
    ('[columns.z]\nlevels = ["a", "b"]\nband = true\nkeep = 0.9', says("band is True", "whole number")),
    ('[columns.z]\nlevels = "a"\nkeep = 0.9', says("levels is 'a'", "a list")),
    ('[columns.z]\nlevels = ["a", "b"]\nblocks = ["a", "b"]\nkeep = 0.9', says("blocks", "list of lists")),
    ('[columns.z]\nlevels = ["a", "b"]', says("design of 'z'", "neither keep nor epsilon")),
    ('[columns.z]\nlevels = ["a", "b"]\nkeep = 0.9\ninvariant = true', says("needs the frequencies")),
    ("[columns.z]\nkeep = 0.9", says("levels from the data", "give the data")),
    (
        '[columns.z]\nlevels = ["a", "b"]\nkeep = 0.9\ninvariant = true\nfrequencies = "data"',
        says("frequencies from the data", "give the data"),
    ),
    (
        '[columns.z]\nlevels = ["a", "b"]\nkeep = 0.9\ninvariant = true\nfrequencies = "data"\nconditional = false',
        says("conditional cannot be false", "public table"),
    ),
    (
        '[columns.z]\nlevels = ["a", "b"]\nkeep = 0.9\nepsilon = 0.5',
        says("epsilon is 2.197, above the 0.5", "keep=0.6225"),
    ),
    ('[columns.z]\nlevels = ["a", "b"]\nepsilon = 0.5\nband = 1', says("no finite epsilon", "give keep")),
    (
        '[columns.z]\nlevels = ["a", "b", "c"]\nkeep = 0.9\nband = 1\nfixed = ["a"]',
        says("band and fixed", "choose one structure"),
    ),
    (
        '[columns.z]\nlevels = ["a", "b", "c"]\nkeep = 0.9\nband = 1\nconstruction = "two-stage"\ninvariant = true\n'
        "frequencies = [0.5, 0.3, 0.2]",
        says("'two-stage' and band cannot hold together"),
    ),
    ('[columns.z]\nlevels = ["a", "b"]\nepsilon = 1\nconstruction = "bset"', says("did you mean 'best'?")),
    ('[columns.z]\nlevels = ["a", "b"]\nkeep = 0.9\nby = "r"', says("strata need both")),
    ('[columns.z]\nlevels = ["a", "b"]\nby = "r"\n[[columns.z.strata]]\nkeep = 0.9', says("lacks 'value'")),
    (
        '[columns.z]\nlevels = ["a", "b"]\nby = "r"\n[[columns.z.strata]]\nvalue = "n"\nkeep = 0.3',
        says("stratum 'n' of 'r'", "keep=0.3"),
    ),
    ('[[linked]]\ncolumns = ["u"]\nkeep = 0.9', says("linked.0.columns", "at least 2 columns")),
    ("[columns.z\nkeep = 0.9", says("not valid TOML", "line 1")),
]


@pytest.mark.parametrize(("text", "message"), TOML)
def test_a_wrong_design_file_says_where(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "design.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(pr.MechanismError, match=message):
        pr.read_design(path)


def test_a_design_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(pr.MechanismError, match="does not exist"):
        pr.read_design(tmp_path / "none.toml")


SECRET = "secretvalue"


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({"z": ["a", "b", SECRET]}, ("--levels", "a,b", "--keep", "0.9"), says("'z' has 1 value(s)", "first in row 2")),
        (
            {"z": ["a", "b", SECRET]},
            ("--levels", "a,b", "--keep", "0.9", "--invariant"),
            says("'z' has 1 value(s)", "first in row 2"),
        ),
        (
            {"z": [f"{SECRET}{i}" for i in range(1200)]},
            ("--keep", "0.9"),
            says("1200 distinct values", "limit of 1000"),
        ),
        ({"z": [1, 2, SECRET]}, ("--levels", "1,2", "--keep", "0.9"), says("'z' has 1 value(s)", "row 2")),
        ({"z": ["a", "a"]}, ("--keep", "0.9"), says("at least 2 levels")),
        (
            {"z": [None, None], "k": [1, 2]},
            ("--levels", "a,b", "--keep", "0.9", "--invariant"),
            says("no value to count"),
        ),
    ],
)
def test_errors_on_a_confidential_file_show_no_value(
    frame: dict[str, list[object]], options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "raw.csv"
    pd.DataFrame(frame).to_csv(path, index=False)
    out = tmp_path / "design.toml"
    result = CliRunner().invoke(app, ["design", "z", "--from", str(path), *options, "-o", str(out)])
    assert isinstance(result.exception, pr.PramanaError)
    assert re.search(message, str(result.exception))
    assert SECRET not in str(result.exception) + result.output
    assert not out.exists()

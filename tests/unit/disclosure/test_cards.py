"""The card shows every matrix, what was done to the file and what is not promised; names and levels in it are text, never markup."""

from __future__ import annotations

import ast
import html.parser
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.disclosure.release.card import card_page
from pramana.mechanism.channels.matrix_forms import Banded

HOSTILE = [
    "a|b",
    "*bold* **c** _d_ ~~e~~",
    "<script>alert(1)</script>",
    "two\nlines\r\n# heading",
    "`tick` ```fence```",
    "[link](javascript:alert(1)) ![i](x)",
    "quote \" and ' and \\",
    "&lt;b&gt; \x1b[31mred \u202egnp",
]
BODY: dict[str, Any] = {"rows": 1000, "randomness": "fresh", "sha256": "0" * 64}


def card(mechanism: pr.Mechanism, name: str = "public.csv", **facts: Any) -> tuple[str, str]:
    """Markdown and HTML."""
    counts = [{s: np.full(len(m), 10) for s, m in a.matrices.items()} for a in mechanism.assignments]
    page = card_page(name, mechanism, {**BODY, **facts}, counts)
    return page.markdown(), page.html()


class Reader(html.parser.HTMLParser):
    """Tags and text of a page, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") or name == "href" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_and_levels_stay_text(hostile: str) -> None:
    levels = [hostile, "plain"]
    mechanism = pr.Mechanism({hostile: pr.TransitionMatrix.randomized_response(levels, 0.8), "z": pr.Stratified(
        "by", {hostile: pr.TransitionMatrix.randomized_response(["x", "y"], 0.7)})})  # fmt: skip
    facts = {
        "missing": {hostile: 3}, "missing_level": {hostile: hostile}, "dropped": [hostile], "new_id": hostile,
        "merged": {hostile: {"into": hostile, "below": 5, "levels": 2}}, "unit": {"column": hostile, "varies": True},
        "allowed": [hostile],
    }  # fmt: skip
    markdown, page = card(mechanism, name=f"{hostile}.csv", **facts)
    _refuse_markup(markdown)
    seen = Reader(page)
    known = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "pre", "table", "caption", "strong", "br",
             "thead", "tbody", "tr", "th", "td", "div", "figure", "img", "figcaption"}  # fmt: skip
    assert seen.tags <= known
    assert "\x1b" not in page + markdown
    assert "\u202e" not in page + markdown


def _refuse_markup(markdown: str) -> None:
    """No tag, link or open code span; every row of a table has as many cells as its head; headings are our own."""
    fence = re.search(r"^(`{3,})\n.*?^\1$", markdown, flags=re.S | re.M)
    assert fence is not None
    text = markdown.replace(fence.group(), "")
    assert "<" not in text
    assert not re.search(r"(?<!\\)\]\(", text)
    assert not re.search(r"(?<!\\)(\\\\)*`", text)
    assert not re.search(r"(?<![\\*])\*(?!\*)", text)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert [h for h in headings if h.startswith("## ")] == headings[1:]
    assert len(headings) == 7
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in table.splitlines()}) == 1


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_recipe_is_python_that_holds_the_names_as_they_are(hostile: str) -> None:
    markdown, _ = card(
        pr.Mechanism({hostile: pr.TransitionMatrix.randomized_response(["x", "y"], 0.8)}), f"{hostile}.csv"
    )
    fence = re.search(r"^(`{3,})\n(.*?)^\1$", markdown, flags=re.S | re.M)
    assert fence is not None
    texts = [node.value for node in ast.walk(ast.parse(fence.group(2))) if isinstance(node, ast.Constant)]
    assert {hostile, f"{hostile}.csv", "auto"} == set(texts)


def test_every_matrix_is_shown_with_its_rule() -> None:
    """A table while small, a picture where wide, and the rule of a mixture or band in words."""
    rng = np.random.default_rng(1)
    mechanism = pr.Mechanism({
        "small": pr.TransitionMatrix.randomized_response(["a", "b", "c"], 0.7),
        "refilled": pr.TransitionMatrix.invariant(["a", "b", "c"], [0.2, 0.3, 0.5], 0.7),
        "moved": pr.designs.band(["1", "2", "3", "4"], 0.8),
        "wide": pr.designs.restricted([f"v{k}" for k in range(30)], 0.6, frequencies=rng.dirichlet(np.full(30, 3.0))),
        "long": pr.designs.band(range(1000), 0.7, width=7),
        "many": pr.TransitionMatrix.randomized_response(range(100_000), 0.9, kind="numeric"),
    })  # fmt: skip
    markdown, page = card(mechanism)
    assert page.count("data:image/png;base64,") == 3
    assert "data:image" not in markdown
    for said in (
        "small: a value is kept with probability 0.7, and becomes any one of the others with probability 0.15.",
        "refilled: a value stays with probability 0.625; with probability 0.375 one is drawn in its place",
        "moved: a value moves at most 1 step along the order of its levels, from 1 to 4.",
        "wide: probability of each released value (rows) by true value (columns). The matrix has 30 levels.",
        "long: a value moves at most 7 steps along the order of its levels, from 0 to 999.",
        "a cell stands for 10 neighbouring levels. The matrix has 1000 levels.",
        "many: a value is kept with probability 0.9, and becomes any one of the others with probability 1e-06.",
        "Epsilon is infinite for long: some released values rule out some true ones.",
        "many: not listed for its 100000 levels.",
    ):
        assert said in markdown, said
        assert said.split(". ")[0].rstrip(".") in Reader(page).text, said


def test_a_drawn_matrix_is_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of neighbouring levels hold the chance to be released among them; columns sum to 1."""
    from pramana.disclosure.release import card as module

    drawn: list[Any] = []
    monkeypatch.setattr(module, "drawn", lambda _figure, _ending: b"")
    monkeypatch.setattr(module, "heat_map", lambda chances, levels: drawn.append((chances, levels)))
    made = pr.designs.band(range(300), 0.7, width=3)
    assert isinstance(made.form, Banded)
    card(pr.Mechanism({"long": made, "wide": pr.TransitionMatrix.randomized_response(range(40), 0.5, kind="nominal")}))
    (long, ends), (wide, levels) = drawn
    np.testing.assert_allclose(long.sum(axis=0), 1.0)
    np.testing.assert_allclose(long[4, 5], made.matrix[12:15, 15:18].sum() / 3)
    assert ends == ["0", "299"]
    np.testing.assert_allclose(wide, pr.TransitionMatrix.randomized_response(range(40), 0.5, kind="nominal").matrix)
    assert len(levels) == 40


def test_facts_about_the_file_are_shown_where_they_are_stated() -> None:
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b"], 0.7)})
    facts: dict[str, tuple[Any, str]] = {
        "missing": ({"z": 42}, "| z | 42 | 0.0420 |"),
        "missing_level": ({"z": "b"}, "The level b of z stands for a missing value"),
        "dropped": (["name", "phone"], "not in this file: 2 (name, phone)."),
        "shuffled": (True, "The records are in a random order"),
        "new_id": ("id", "The identifiers in column id were drawn anew"),
        "merged": ({"z": {"into": "other", "below": 5, "levels": 3}},
                   "3 level(s) of z that fewer than 5 people hold were merged into other"),
        "unit": ({"column": "person", "varies": False}, "Records with the same person belong together"),
        "allowed": (["seed"], "allowed what the software refuses by default: seed."),
    }  # fmt: skip
    plain, _ = card(mechanism)
    assert "No value of the perturbed columns is published as missing" in plain
    assert "What else was done" not in plain
    whole, _ = card(mechanism, **{name: value for name, (value, _) in facts.items()})
    assert "Missingness is unprotected" in whole
    for name, (value, said) in facts.items():
        assert said in whole, name
        assert said in card(mechanism, **{name: value})[0], name
        assert said not in plain, name
    assert "not in this file: 4." in card(mechanism, dropped=4)[0]
    assert "unequal released values then prove a change" in card(mechanism, unit={"column": "p", "varies": True})[0]
    assert "unequal released values" not in whole
    assert "No value of the perturbed columns is published as missing." in card(mechanism, missing={"z": 0})[0]


def test_a_conditional_epsilon_says_on_what() -> None:
    given = pr.TransitionMatrix.invariant(["a", "b"], [0.4, 0.6], 0.7, conditional=True)
    markdown, _ = card(pr.Mechanism({"z": given}))
    assert "given the frequencies of 'z'" in markdown
    assert "Of z something was taken from the confidential file itself (the frequencies)" in markdown


def test_a_release_with_a_hostile_column_has_a_recipe_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = 'my "own" |*column*'
    pd.DataFrame({name: ["x", "y"] * 200}).to_parquet(tmp_path / "raw.parquet")
    mechanism = pr.Mechanism({name: pr.TransitionMatrix.randomized_response(["x", "y"], 0.8)})
    pr.release(tmp_path / "raw.parquet", tmp_path / "out.parquet", mechanism, card=True)
    code = (tmp_path / "out.parquet.card.md").read_text().split("```")[1]
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(code, scope)
    assert scope["result"].n == 400

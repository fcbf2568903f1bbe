"""Text is data in every rendering: a name or level cannot become markup or move the cursor."""

from __future__ import annotations

import csv
import io
import json

import pytest

import pramana as pr
from pramana.render import Sheet, render
from pramana.render.pages import Code, Heading, Page
from pramana.render.tables import markdown_text, visible


@pytest.mark.parametrize(("text", "shown"), [
    ("plain my_name y ~ x", "plain my_name y ~ x"),
    ("edu[T.high]", "edu[T.high]"),
    ("a|b", "a\\|b"),
    ("*a* _b_ ~~c~~", "\\*a\\* \\_b\\_ \\~\\~c\\~\\~"),
    ("<b>", "&lt;b&gt;"),
    ("R&D &lt;", "R&D &amp;lt;"),
    ("[x](y) [x][y]", "[x\\](y) [x\\][y]"),
    ("back\\slash `tick`", "back\\\\slash \\`tick\\`"),
    ("two\nlines", "two\\\\nlines"),
])  # fmt: skip
def test_markdown_shows_the_letters(text: str, shown: str) -> None:
    assert markdown_text(text) == shown


@pytest.mark.parametrize("style", ["text", "markdown", "latex", "html"])
def test_a_line_end_or_a_control_character_stays_in_its_cell(style: str) -> None:
    bad = "a\nb\x1b[2J\u202ec"
    sheet = Sheet((bad, "n"), ((bad, 1), ("x", 2)), bad, ((bad, bad),), (bad,))
    text = render(sheet, style)
    assert not {"\x1b", "\u202e"} & set(text)
    assert text.count("\n") == render(Sheet(("c", "n"), (("c", 1), ("x", 2)), "c", (("c", "c"),), ("c",)), style).count(
        "\n"
    )


def test_json_says_the_same_without_steering() -> None:
    """Also by the control characters above 127, which JSON itself leaves as they are."""
    bad = "a\nb\x1b[2J\x9b2J\x7f\u202ec"
    text = render(Sheet((bad, "n"), ((bad, 1),)), "json")
    assert not {"\x1b", "\x9b", "\x7f", "\u202e"} & set(text)
    assert json.loads(text) == [{bad: bad, "n": 1}]


def test_a_visible_text_is_left_alone() -> None:
    assert visible("Größe – 東京 می‌خواهم\u00a01") == "Größe – 東京 می‌خواهم\u00a01"


@pytest.mark.parametrize("start", ["# a", "- a", "+ a", "1. a", "2) a", "== a", "> a"])
def test_a_paragraph_is_a_paragraph(start: str) -> None:
    page = Page("t")
    page.add(start)
    body = page.markdown().splitlines()[2]
    assert not body.startswith(("#", "-", "+", "=", ">"))
    assert body[:2] not in ("1.", "2)")


def test_a_fence_is_longer_than_what_it_holds() -> None:
    page = Page("t")
    page.add(Code("x = '```'"), Heading("a # b"))
    assert "````\nx = '```'\n````" in page.markdown()


def test_csv_and_a_prompt_steer_no_terminal() -> None:
    data = {"y": [1.0, 2.0, 2.5, 4.0, 5.5, 5.0], "a\x1b[31m": [0, 1, 2, 3, 4, 4]}
    result = pr.fit("y ~ `a\x1b[31m`", data, None)
    for said in (repr(result), result.summary("csv"), pr.table({"m\x1b[2J": result}).to_csv()):
        assert "\x1b" not in said
        assert "a\\x1b[31m" in said


def test_a_spreadsheet_computes_nothing_of_a_csv() -> None:
    """Names of columns and levels are whatever the releasing side wrote; numbers stay numbers."""
    names = ("=cmd|' /C calc'!A0", "@SUM(1)", "+1+cmd", "-2-cmd", "-1", "+.5e-3", "a=b")
    sheet = Sheet(("level", "=n"), tuple((name, -1.5) for name in names))
    rows = list(csv.reader(io.StringIO(render(sheet, "csv"))))
    assert rows[0] == ["level", "'=n"]
    shown = ["'=cmd|' /C calc'!A0", "'@SUM(1)", "'+1+cmd", "'-2-cmd", "-1", "+.5e-3", "a=b"]
    assert rows[1:] == [[name, "-1.5"] for name in shown]

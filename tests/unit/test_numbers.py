"""Numbers as tables show them: one format a column, whatever their size, and whole in a narrow terminal."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.errors import counted
from pramana.numbers import PValue, column, count, p_value
from pramana.render import Sheet, render


def test_counts_are_whole_and_grouped() -> None:
    assert count(5e6) == "5,000,000"
    assert counted(5_000_000, "record") == "5,000,000 records"
    found = pr.fit(pr.mean("y"), {"y": [0.0, 1.0, 1.0], "k": [2e6, 2e6, 1e6]}, None, frequencies="k")
    assert "Records:         5,000,000\n" in str(found)
    assert "5,000,000 records" in repr(found)


@pytest.mark.parametrize("values", [
    [640178.1125, 1.172e6], [0.5, 2.5e-7], [1e-9, 3e-9], [1e20, 1.0], [np.nan, np.inf, 3.0], [0.0, 0.0], [1e-17, 1.0], [-0.00001, 12.0],
])  # fmt: skip
def test_a_column_has_one_format(values: list[float]) -> None:
    shown = [text for text, value in zip(column(values), values, strict=True) if np.isfinite(value)]
    assert len({("e" in text, len(text.partition(".")[2].partition("e")[0])) for text in shown}) == 1
    for text, value in zip(shown, [v for v in values if np.isfinite(v)], strict=True):
        assert value == 0 or abs(value) < 1e-12 * max(np.abs(values)) or float(text.replace(",", "")) != 0
        assert not text.startswith("-0.0000") or float(text) != 0


def test_no_p_value_is_zero() -> None:
    assert p_value(0.0) == p_value(1e-300) == "<0.0001"
    assert column([PValue(0.5), PValue(0.0)]) == ["0.5000", "<0.0001"]
    rng = np.random.default_rng(1)
    x = rng.normal(size=3000)
    found = pr.fit("y ~ x", {"y": 5 * x + rng.normal(size=3000), "x": x}, None)
    assert found.to_dicts()[1]["p_value"] == 0
    assert all(
        "<0.0001" in re.sub("&lt;|\\$<\\$", "<", found.summary(style))
        for style in ("text", "markdown", "latex", "html")
    )
    assert "p < 0.0001" in str(found.test("x = 0"))


def test_terms_are_set_to_the_left_and_numbers_to_the_right(survey: pd.DataFrame) -> None:
    text = pr.fit("income ~ age", survey, None)._repr_html_()
    assert '<td style="text-align:left">age</td><td style="text-align:right">' in text
    assert '<th style="text-align:left">term</th><th style="text-align:right">estimate</th>' in text
    assert '<caption style="text-align:left;caption-side:top">Method: ' in text  # not an empty line for a title


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 60, 79])
def test_a_narrow_terminal_breaks_no_number(
    width: int, survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = pr.fit("money ~ age * edu", survey.assign(money=1e6 * survey["income"]), mechanism)
    whole = str(fitted)
    monkeypatch.setenv("COLUMNS", str(width))
    assert str(fitted) == whole  # a file or a pipe has no width
    monkeypatch.setattr("sys.stdout", Terminal())
    shown = str(fitted)
    assert max(map(len, shown.splitlines())) <= width < max(map(len, whole.splitlines()))
    numbers = {c for row in fitted.sheet().cells() for c in row[1:]}
    assert numbers <= set(shown.split())
    monkeypatch.setenv("COLUMNS", "500")
    assert str(fitted) == whole


def test_long_words_are_broken_and_every_part_has_its_terms() -> None:
    sheet = Sheet(
        ("term", "n", "finding"), (("a" * 50, 1, "one two three " * 10), ("b", 22222, "short")), "T", notes=("x " * 60,)
    )
    lines = render(sheet, width=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.startswith("term") for line in lines) == 2
    assert sum(line.split()[0].count("a") for line in lines if line.startswith("a")) == 2 * 50
    assert render(sheet, width=0) == render(sheet)


def test_headers_above_columns_stay_above_them() -> None:
    sheet = Sheet(("", "one", "two", "three"), (("x", 1.0, 2.0, 3.0),), spans=(("", 1), ("Left", 2), ("Right", 1)))
    wide, narrow = render(sheet, width=0).splitlines(), render(sheet, width=20).splitlines()
    assert wide[1].split() == ["Left", "Right"]
    assert [line.split() for line in narrow if "Left" in line or "Right" in line] == [["Left"], ["Right"]]


def test_sentences_are_broken_before_columns_are_torn_apart() -> None:
    finding = "epsilon bounds what the released values add to what is known of a record anyway"
    sheet = Sheet(("severity", "check", "finding"), (("ok", "promise", finding), ("ok", "rows", "as described")))
    lines = render(sheet, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert [line.split() for line in lines if "severity" in line] == [["severity", "check", "finding"]]
    assert any(line.split()[:3] == ["ok", "promise", "epsilon"] for line in lines)


def test_a_long_name_of_a_fact_leaves_room_for_what_it_says() -> None:
    sheet = Sheet(
        ("a",), (("b",),), facts=(("Epsilon of all sensitive columns given the rest", "3.8"), ("Worst", "x " * 40))
    )
    lines = render(sheet, width=60).splitlines()
    assert lines[:2] == ["Epsilon of all sensitive columns given the rest: 3.8", "Worst: " + "x " * 26 + "x"]

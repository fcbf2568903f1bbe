"""A result as text, Markdown, LaTeX, HTML, JSON and numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t

import pramana as pr

STYLES = ["text", "markdown", "latex", "html", "json"]


@pytest.fixture
def result(survey: pd.DataFrame, mechanism: pr.Mechanism) -> pr.Result:
    return pr.fit("income ~ age + edu", survey, mechanism)


@pytest.mark.parametrize("style", STYLES)
def test_every_rendering_holds_every_term_and_estimate(style: str, result: pr.Result) -> None:
    text = result.summary(style)
    for row in result.to_dicts():
        assert row["term"] in text
        assert (repr(row["estimate"]) if style == "json" else f"{row['estimate']:.4f}") in text


def test_text_lines_up_its_columns(result: pr.Result) -> None:
    lines = str(result).splitlines()
    rules = [i for i, line in enumerate(lines) if set(line) == {"-"}]
    table = lines[rules[0] : rules[2]]
    assert len(rules) == 3
    assert len({len(line) for line in table}) == 1


def test_markdown_has_as_many_cells_in_every_row(result: pr.Result) -> None:
    rows = [line for line in result.to_markdown().splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(result.parameters)
    assert {row.count("|") for row in rows} == {8}


def test_markdown_escapes_a_bar_in_a_term() -> None:
    sheet = pr.fit(pr.proportions("z"), {"z": ["a|b", "c", "c", "a|b"]}, None)
    assert "a\\|b" in sheet.to_markdown()


def test_latex_escapes_what_it_must(survey: pd.DataFrame) -> None:
    text = pr.fit("income ~ my_age", survey.rename(columns={"age": "my_age"}), None).to_latex()
    assert "my\\_age" in text
    assert r"\textasciitilde{}" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1


def test_html_escapes_and_closes_its_tags(survey: pd.DataFrame) -> None:
    text = pr.fit(pr.proportions("z"), {"z": ["<b>", "c", "c", "<b>"]}, None)._repr_html_()
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    depth: list[str] = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
            if tag != "br":
                depth.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert depth.pop() == tag

    Checker().feed(text)
    assert depth == []


def test_json_is_the_dictionary(result: pr.Result) -> None:
    parsed = json.loads(result.summary("json"))
    assert [r["term"] for r in parsed["coefficients"]] == list(result.parameters)
    np.testing.assert_array_equal(parsed["covariance"], result.covariance)
    assert len(parsed["price_of_privacy"]) == len(result.parameters)


def test_an_unknown_format_is_refused_with_the_nearest(result: pr.Result) -> None:
    with pytest.raises(pr.PramanaError, match="did you mean 'markdown'"):
        result.summary("markdwn")


def test_the_numbers_of_a_row_belong_together(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit("income ~ age + edu", survey, mechanism, inference=pr.Sandwich(interval="wald"))
    for row in result.to_dicts(level=0.9):
        z = row["estimate"] / row["std_error"]
        assert row["statistic"] == pytest.approx(z, rel=1e-12)
        df = result.degrees_of_freedom[result.parameters.index(row["term"])]
        assert row["p_value"] == pytest.approx(2 * t.sf(abs(z), df), rel=1e-9)
        assert row["conf_high"] == pytest.approx(row["estimate"] + t.ppf(0.95, df) * row["std_error"], rel=1e-12)


def test_exponentiating_keeps_z_and_p_and_transforms_the_rest(result: pr.Result) -> None:
    logarithms = replace(result, log_scale=True)
    for plain, ratio in zip(result.to_dicts(), logarithms.to_dicts(exponentiate=True), strict=True):
        assert ratio["estimate"] == pytest.approx(np.exp(plain["estimate"]), rel=1e-12)
        assert ratio["std_error"] == pytest.approx(np.exp(plain["estimate"]) * plain["std_error"], rel=1e-12)
        assert (ratio["statistic"], ratio["p_value"]) == (plain["statistic"], plain["p_value"])
        assert ratio["conf_low"] == pytest.approx(np.exp(plain["conf_low"]), rel=1e-12)


def test_a_term_is_found_by_its_name(result: pr.Result) -> None:
    assert result["edu[T.high]"].estimate == result.estimate[3]
    with pytest.raises(pr.PramanaError, match=r"edu\[T\.high\]"):
        _ = result["edu[high]"]


def test_percentile_intervals_are_quantiles_of_the_draws(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    fitted = pr.fit("income ~ edu", survey, mechanism, inference=pr.Resampling(draws=80, seed=2, widened=False))
    np.testing.assert_allclose(fitted.interval(0.8), np.quantile(fitted.draws.values, [0.1, 0.9], axis=0).T)


def test_robust_standard_errors_are_the_quartiles_of_the_draws(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    fitted = pr.fit("income ~ edu", survey, mechanism, inference=pr.Resampling(draws=80, seed=2, widened=False))
    low, high = np.quantile(fitted.draws.values, [0.25, 0.75], axis=0)
    np.testing.assert_allclose(fitted.standard_errors, (high - low) / (2 * norm.ppf(0.75)), rtol=1e-12)


def test_a_comparison_shows_every_estimator_side_by_side(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    comparison = pr.compare("income ~ edu", survey, mechanism, truth=survey)
    assert list(comparison.results) == ["true data", "reversion", "naive"]
    np.testing.assert_array_equal(comparison["true data"].estimate, comparison["naive"].estimate)
    for style in STYLES:
        assert all(label in comparison.summary(style) for label in comparison.results)
    assert len(comparison.to_frame()) == 3 * len(comparison.parameters)


def test_a_plot_has_one_series_an_estimator(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    figure = pr.compare("income ~ edu", survey, mechanism).plot(title="income")
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["reversion", "naive"]
    labels = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert labels == ["edu[T.mid]", "edu[T.high]"]


def test_a_prompt_shows_what_print_shows(
    result: pr.Result, survey: pd.DataFrame, mechanism: pr.Mechanism, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables as a frame of pandas, and texts line by line: `result.summary()` at the end of a cell is read, not deciphered."""
    shown = [
        result.summary(),
        result.to_latex(),
        pr.compare("income ~ edu", survey, mechanism),
        pr.fit(pr.crosstab("edu", "female"), survey, mechanism).cross(),
        pr.risk(survey, mechanism, keys=["female"]),
        pr.risk(survey, mechanism).summary(),
    ]
    for one in shown:
        print(one)
        assert repr(one) + "\n" == capsys.readouterr().out
    assert repr(result).startswith("<Result by reversion")  # which says less, since a list of results is looked at too

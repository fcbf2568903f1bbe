"""Questions that a result cannot answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

FORMULA = "income ~ age + edu"


def test_a_naive_result_has_no_price_of_privacy(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    naive = pr.fit(FORMULA, survey, mechanism, method="naive")
    with pytest.raises(pr.PramanaError, match=r"variance of this naive fit does not decompose.*method='reversion'"):
        naive.price_of_privacy()


@pytest.mark.parametrize("ask", ["interval", "to_frame", "summary"])
def test_a_score_interval_at_another_level_needs_the_data(
    ask: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    result = pr.fit(FORMULA, survey, mechanism, inference=pr.Sandwich(interval="score", level=0.9))
    with pytest.raises(
        pr.PramanaError,
        match=r"at level 0.9 .* for 0.8: fit again with inference=Sandwich\(level=0.8, interval='score'\)",
    ):
        getattr(result, ask)(level=0.8)
    np.testing.assert_array_equal(result.interval(), result.interval(0.9))
    assert "0.05" in result.summary()


@pytest.mark.parametrize("level", [95, 0, 1, "a", None])
def test_a_level_is_a_share(level: Any, survey: pd.DataFrame) -> None:
    result = pr.fit("income ~ age", survey, None)
    if level is None:
        np.testing.assert_array_equal(result.interval(None), result.interval(0.95))
        return
    with pytest.raises(
        pr.PramanaError, match=rf"level={level!r} must lie between 0 and 1: for a 95 % interval give 0.95"
    ):
        result.interval(level)


@pytest.mark.parametrize(
    ("hypothesis", "message"),
    [
        ("agee = 0", "'agee = 0' could not be read.*did you mean 'age'"),
        ("", "could not be read.*known are Intercept, age"),
        ("age = 0 = 1", "too many '='"),
        ("age * age = 0", "not linear"),
        ("1 = 1", "not linear"),
        ("age > 0", "could not be read"),
        ("age / 0 = 1", "could not be read"),
        ("age = 0, 2 * age = 0", "not independent of each other: drop"),
        (3, "hypothesis 3 must be text, such as"),
        (["x", "g"], r"hypothesis \['x', 'g'\] must be text, such as"),
    ],
)
def test_a_wrong_hypothesis_says_what_is_wrong(hypothesis: Any, message: str, survey: pd.DataFrame) -> None:
    with pytest.raises(pr.FormulaError, match=message):
        pr.fit("income ~ age", survey, None).test(hypothesis)


def test_an_unknown_term_format_or_estimator_is_suggested(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    comparison = pr.compare(FORMULA, survey, mechanism)
    with pytest.raises(pr.PramanaError, match="no term 'agee': did you mean 'age'"):
        comparison["naive"]["agee"]
    with pytest.raises(pr.PramanaError, match="format 'jsno' is unknown: did you mean 'json'"):
        comparison.summary("jsno")
    with pytest.raises(pr.PramanaError, match="no estimator 'nave': did you mean 'naive'"):
        comparison["nave"]


def test_a_comparison_needs_a_method_and_takes_one_by_name(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    with pytest.raises(pr.PramanaError, match="methods is empty: name at least one"):
        pr.compare(FORMULA, survey, mechanism, [])
    assert list(pr.compare(FORMULA, survey, mechanism, "naive").results) == ["naive"]


def test_the_truth_must_hold_the_same_columns(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    with pytest.raises(pr.DataError, match="column 'age' is not in the data"):
        pr.compare(FORMULA, survey, mechanism, truth=survey.drop(columns="age"))


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
@pytest.mark.parametrize("clusters", [None, "region"])
def test_an_exact_fit_has_no_variance_and_no_price(
    clusters: str | None, family: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    """Rounding is all that is left of the records, and of rounding there are neither tests nor shares."""
    exact = {"gaussian": 1 + 2 * survey["age"], "poisson": np.full(400, 3.0)}[family]
    for income in (exact, np.full(400, 0.1 if family == "gaussian" else 7.0)):
        data = survey.assign(income=income)
        result = pr.fit("income ~ age", data, mechanism, family=family, clusters=clusters)
        assert [row["privacy_share"] for row in result.to_dict()["price_of_privacy"]] == [0.0, 0.0]
        assert not result.covariance.any()
        assert [row["p_value"] for row in json.loads(result.summary("json"))["coefficients"]] == [None, None]
        assert "exact-fit" in [note.code for note in result.diagnostics]


@pytest.mark.parametrize("seed", range(4))
def test_a_perfect_correlation_has_no_error(seed: int) -> None:
    """What rounding leaves of it is no variance, and depends on the processor."""
    x = np.random.default_rng(seed).normal(size=300)
    result = pr.fit(pr.correlation("x", "y"), {"x": x, "y": 2 * x + 1}, None)
    assert result.estimate[0] == pytest.approx(1, abs=1e-14)
    assert result.standard_errors[0] == 0
    assert "no-variation" not in [note.code for note in result.diagnostics]


def test_json_follows_the_options_of_the_table(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit("employed ~ age", survey, mechanism, family="binomial")
    shown = json.loads(result.summary("json", exponentiate=True))["coefficients"][1]["estimate"]
    assert shown == pytest.approx(float(np.exp(result["age"].estimate)))


def test_what_is_no_log_ratio_is_not_exponentiated(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit("income ~ age", survey.assign(income=survey["income"] * 1e4), mechanism)
    with pytest.raises(pr.PramanaError, match=r"makes ratios of logarithms, and 'Intercept' is none"):
        result.summary(exponentiate=True)
    with pytest.raises(pr.PramanaError, match=r"'Intercept' = .* is too large to exponentiate: is it a log ratio"):
        replace(result, log_scale=True).summary(exponentiate=True)


def test_results_of_the_same_method_are_plotted_side_by_side(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    one, other = (pr.fit(FORMULA, part, mechanism) for part in (survey.iloc[:200], survey.iloc[200:]))
    legend = one.plot(other).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["reversion", "reversion (2)"]

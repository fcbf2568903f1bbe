"""What a standard error is, and is not, stands in the result."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

MECHANISM = pr.Mechanism({"b": pr.TransitionMatrix.binary(0.9, 0.9)})


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    n = 400
    unit = np.arange(n) % 100
    return {"b": rng.integers(0, 2, n), "y": rng.normal(size=n), "x": rng.normal(size=n), "unit": unit, "h": unit % 5}


def codes(result: pr.Result) -> list[str]:
    return [d.code for d in result.diagnostics]


@pytest.mark.parametrize("interval", ["wald", "score"])
def test_a_sandwich_of_few_clusters_is_reported(interval: Any, data: dict[str, Any]) -> None:
    options = {"inference": pr.Sandwich("HC0", interval=interval)}
    few = pr.fit("y ~ b", data, MECHANISM, clusters=np.arange(400) % 39, **options)
    assert codes(few) == ["few-clusters"]
    assert "39 clusters" in few.diagnostics[0].message
    assert "pr.Sandwich()" in few.diagnostics[0].message
    assert codes(pr.fit("y ~ b", data, MECHANISM, clusters=np.arange(400) % 40, **options)) == []


@pytest.mark.parametrize("inference", [None, pr.Resampling(draws=40, seed=1), pr.Jackknife()])
def test_intervals_that_know_how_few_clusters_there_are_say_so_below_five(inference: Any, data: dict[str, Any]) -> None:
    few, enough = (pr.fit("y ~ x", data, None, clusters=np.arange(400) % g, inference=inference) for g in (4, 5))
    assert codes(few) == ["few-clusters"]
    assert codes(enough) == []


@pytest.mark.parametrize("inference", [None, pr.Resampling(draws=40, seed=1)])
def test_a_coefficient_that_one_unit_determines_has_no_standard_error(inference: Any, data: dict[str, Any]) -> None:
    """A fixed effect of clusters, or a dummy of one record; the other coefficients are as good as ever."""
    clusters = np.arange(400) % 8
    frame = data | {"c": clusters, "one": 1.0 * (np.arange(400) == 7)}
    result = pr.fit("y ~ x + C(c)", frame, None, clusters="c", inference=inference)
    told = next(d.message for d in result.diagnostics if d.code == "one-unit")
    assert told.startswith("one cluster alone determines 'Intercept', 'C(c)[T.1]'")
    assert np.isnan(np.delete(result.standard_errors, 1)).all()
    assert np.isfinite(result.interval()[1]).all()
    assert result.test("x = 0").p_value < 1
    with pytest.raises(pr.PramanaError, match="no standard error"):
        result.test("x = C(c)[T.3]")
    single = pr.fit("y ~ x + one", frame, None, inference=inference)
    assert "one-unit" in codes(single)
    assert np.isnan(single.standard_errors).tolist() == [False, False, True]
    json.dumps(single.to_dict(), allow_nan=False)


def test_large_samples_are_left_as_they_are_unless_few_records_matter(rng: np.random.Generator) -> None:
    n = 3000
    frame = {"y": rng.normal(size=n), "x": rng.normal(size=n), "rare": 1.0 * (np.arange(n) < 6)}
    plain, by_name = (pr.fit("y ~ x", frame, None, inference=i) for i in (None, pr.Sandwich("HC0")))
    assert plain.df is None
    np.testing.assert_array_equal(plain.covariance, by_name.covariance)
    rare = pr.fit("y ~ x + rare", frame, None)
    assert rare.degrees_of_freedom[2] == pytest.approx(5.0, rel=0.05)
    assert rare.degrees_of_freedom[1] > 900
    assert "HC2, t with" in rare.inference


def test_the_jackknife_and_designs_know_how_many_units_they_have(data: dict[str, Any]) -> None:
    clusters = np.arange(400) % 8
    assert codes(pr.fit("y ~ b", data, MECHANISM, clusters=clusters, inference=pr.Jackknife())) == []
    assert codes(pr.fit("y ~ b", data | {"c": clusters}, MECHANISM, design=pr.SurveyDesign(clusters="c"))) == []


def test_the_statistic_is_called_what_it_is(data: dict[str, Any]) -> None:
    plain = pr.fit("y ~ b", data, MECHANISM, inference=pr.Sandwich("HC0"))
    deleted = pr.fit("y ~ b", data, MECHANISM, clusters="unit", inference=pr.Jackknife())
    assert plain.sheet().columns[3] == "z"
    assert deleted.sheet().columns[3] == "t"


def test_resampling_under_a_design_is_described_as_such(data: dict[str, Any]) -> None:
    design = pr.SurveyDesign(strata="h", clusters="unit")
    result = pr.fit("y ~ b", data, MECHANISM, design=design, inference=pr.Resampling(draws=40, seed=1))
    expected = "40 Rao–Wu draws of units within strata (iqr, 5 strata, 100 sampling units)"
    assert result.inference == f"resampling, {expected}, percentile intervals"
    assert result.to_dict()["resampling"]["weights"] == "rao-wu"


def test_nothing_is_uncertain_around_the_file_without_noise(data: dict[str, Any]) -> None:
    design = pr.SurveyDesign(target="file")
    result = pr.fit("y ~ x", data, MECHANISM, design=design)
    assert codes(result) == ["no-randomisation"]
    assert result.to_dict()["coefficients"][0]["statistic"] is None
    json.dumps(result.to_dict(), allow_nan=False)
    assert codes(pr.fit("y ~ b", data, MECHANISM, design=design)) == []


def test_weak_instruments_are_judged_whatever_the_errors_are_around(rng: np.random.Generator) -> None:
    """Around the file nothing clean is uncertain, and yet an instrument is weak."""
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=["y", "x", "z"])
    plan = pr.two_stage_least_squares("y ~ x | z")
    plain = pr.fit(plan, frame, None)
    around = pr.fit(plan, frame, None, design=pr.SurveyDesign(target="file"))
    weak = [d.message for d in plain.diagnostics if d.code == "weak-instruments"]
    assert weak
    assert [d.message for d in around.diagnostics if d.code == "weak-instruments"] == weak


def test_specification_names_the_values_that_a_family_cannot_have(rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"y": rng.normal(size=200), "e": rng.choice(["a", "b"], 200)})
    mechanism = pr.Mechanism({"e": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)})
    with pytest.raises(pr.DataError, match=r"outside \[0, 1\]"):
        pr.specification_test("y ~ e", frame, mechanism, family="binomial")

"""The names of statsmodels, tests of whole variables, combinations, and a short repr."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pramana as pr


@pytest.fixture
def fitted(survey: pd.DataFrame, mechanism: pr.Mechanism) -> pr.Result:
    return pr.fit("income ~ age * edu + female", survey, mechanism)


def test_the_names_of_statsmodels_hold_its_numbers(survey: pd.DataFrame) -> None:
    import statsmodels.formula.api as smf

    theirs = smf.ols("income ~ age + female", survey).fit(cov_type="HC0")
    ours = pr.fit("income ~ age + female", survey, None)
    for name in ("params", "bse", "tvalues", "pvalues"):
        pd.testing.assert_series_equal(getattr(ours, name), getattr(theirs, name), check_names=False, rtol=1e-7)
    pd.testing.assert_frame_equal(ours.cov_params(), theirs.cov_params(), rtol=1e-7)
    pd.testing.assert_frame_equal(ours.conf_int(0.1), theirs.conf_int(0.1), rtol=1e-7)
    assert ours.nobs == theirs.nobs


def test_what_other_results_have_and_nobody_can_here_says_why(fitted: pr.Result) -> None:
    with pytest.raises(pr.PramanaError, match="true values"):
        _ = fitted.resid
    with pytest.raises(pr.PramanaError, match=r"predict\(data\)"):
        _ = fitted.fittedvalues


def test_a_variable_is_tested_by_all_its_terms(fitted: pr.Result) -> None:
    whole = fitted.test("edu")
    written = fitted.test("edu[T.mid] = 0, edu[T.high] = 0, age:edu[T.mid] = 0, age:edu[T.high] = 0")
    assert (whole.df, whole.statistic, whole.p_value) == (4, written.statistic, written.p_value)
    assert "all terms of edu" in str(whole)
    assert fitted.test("age").df == 1  # the term of that name, as before
    with pytest.raises(pr.PramanaError, match="income"):
        fitted.test("income")


@pytest.mark.usefixtures("large_sample")
@pytest.mark.parametrize("inference", [None, pr.Resampling(draws=60, seed=1), pr.Sandwich(interval="score")])
def test_a_combination_has_the_error_of_the_delta_method(
    inference: object, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    found = pr.fit("income ~ age + edu", survey, mechanism, inference=inference)
    row = np.array([0.0, 0.0, -1.0, 2.0])
    made = found.combine("2 * edu[T.high] - edu[T.mid] + 1")
    assert made.parameters == ("2 * edu[T.high] - edu[T.mid] + 1",)
    assert made.estimate[0] == pytest.approx(row @ found.estimate + 1)
    assert made.standard_errors[0] == pytest.approx(np.sqrt(row @ found.covariance @ row))
    low, high = made.interval()[0]
    assert low < made.estimate[0] < high
    if found.draws is None:
        assert high - low == pytest.approx(2 * 1.959964 * made.standard_errors[0], rel=1e-5)
    else:
        np.testing.assert_allclose([low, high], np.quantile(found.draws.values @ row + 1, [0.025, 0.975]))
    share = made.price_of_privacy()["privacy_share"][0]
    assert share == pytest.approx(row @ found.privacy @ row / (row @ found.sampling @ row))


def test_a_combination_of_unequal_degrees_of_freedom_takes_the_smallest(survey: pd.DataFrame) -> None:
    few = survey.iloc[:25].assign(firm=np.arange(25) // 4)
    found = pr.fit("income ~ age + female", few, None, clusters="firm")
    assert found.combine("age + female").degrees_of_freedom == found.degrees_of_freedom[1:].min()


@pytest.mark.parametrize("text", ["age = 1", "age, edu[T.mid]", "age * age", "nothing", "3"])
def test_what_is_no_combination_is_refused(text: str, fitted: pr.Result) -> None:
    with pytest.raises(pr.PramanaError):
        fitted.combine(text)


def test_a_repr_is_a_line(fitted: pr.Result) -> None:
    assert "\n" not in repr(fitted)
    assert len(repr(fitted)) < 200
    assert "by reversion, 400 records: Intercept = " in repr(fitted)
    assert "and 3 more>" in repr(fitted)


def test_a_spline_beyond_what_it_saw_names_its_range(survey: pd.DataFrame) -> None:
    found = pr.fit("income ~ bs(age, df=4)", survey, None)
    with pytest.raises(pr.PramanaError, match=r"1 record\(s\) lie beyond the range .* extrapolation='clip'"):
        found.predict({"age": [0.0, 50.0]})
    clipped = pr.fit("income ~ bs(age, df=4, extrapolation='clip')", survey, None)
    assert clipped.predict({"age": [50.0]})["prediction"][0] == pytest.approx(
        clipped.predict({"age": [survey["age"].max()]})["prediction"][0]
    )


def test_a_batch_of_arrow_is_a_table(survey: pd.DataFrame) -> None:
    import pyarrow as pa

    batch = pa.RecordBatch.from_pandas(survey)
    assert pr.fit(pr.mean("income"), batch, None).estimate == pytest.approx(survey["income"].mean())


@pytest.mark.parametrize("formula", ["income ~ age", "income ~ age + female + edu", "log(income + 9) ~ age"])
def test_effects_that_all_records_have_alike_are_the_coefficients(
    formula: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    """Their part of the score is the same in every record, and has no spread to be measured by."""
    for scale in (1.0, 1e-3, 1e3):
        found = pr.fit(formula, survey.assign(age=survey["age"] * scale), mechanism)
        effects = found.margins(survey.assign(age=survey["age"] * scale), "age")
        assert effects.estimate[0] == pytest.approx(found["age"].estimate, rel=1e-9)
        assert effects.standard_errors[0] == pytest.approx(found["age"].std_error, rel=0.02)

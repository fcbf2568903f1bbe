"""Formulas that cannot be used, and odd ones that can."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

NUMBERS = pr.TransitionMatrix.randomized_response([1, 2, 3], 0.85, kind="numeric")


@pytest.fixture
def coded(survey: pd.DataFrame) -> pd.DataFrame:
    codes = survey["edu"].map({"low": 1, "mid": 2, "high": 3})
    return survey.assign(k=codes, count=codes + survey["female"], wage=np.exp(survey["income"]))


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("income", "'income' has no '~' and is no call: give a formula such as"),
        ("", "'' has no '~'"),
        ("~ age", "'~ age' has no response: write it as"),
        ("income ~ 0", "has no terms and no intercept.*add a term"),
        ("income ~ .", r"uses '\.' for all columns: name the columns"),
        ("income ~ age | edu", r"several parts divided by '\|'"),
        ("income + age ~ edu", "exactly one response"),
        ("1 ~ age", "response '1' .* names no column"),
        ("income ~ age +", "'income ~ age \\+' could not be read: "),
        ("income ~ (age", "could not be read: "),
        ("income ~ C(edu", "could not be read: "),
        ("income ~ age:", "could not be read: "),
        (
            "income ~ foo(age)",
            r"'foo\(age\)' at character 10 .*foo\(\) is no function of formulas.*functions={'foo': f}",
        ),
        ("income ~ Q('age')", "odd column names are written in backticks"),
        ("income ~ age:offset(female)", r"offset\(\) cannot be part of an interaction.*write it as a term of its own"),
        ("income ~ age + offset(region)", "offset 'region' must be one number a record"),
        ("income ~ age + I(2 * age)", r"collinear in 'age', 'I\(2 \* age\)'.*drop one of them"),
        ("income ~ Intercept + edu", "two terms of the formula are called 'Intercept': rename"),
    ],
)
def test_a_wrong_formula_says_what_is_wrong(
    formula: str, message: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    with pytest.raises(pr.FormulaError, match=message):
        pr.fit(formula, survey.assign(Intercept=survey["age"]), mechanism)


@pytest.mark.parametrize("formula", ["incme ~ age", "np.log(incme) ~ age", "age ~ I(incme**2)", "age ~ offset(incme)"])
def test_an_unknown_column_is_named_with_a_suggestion(
    formula: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    with pytest.raises(pr.DataError, match="column 'incme' is not in the data: did you mean 'income'"):
        pr.fit(formula, survey, mechanism)


@pytest.mark.parametrize("call", ["scale(k)", "center(k)", "bs(k, df=4)", "poly(k, 2)", "cr(k, df=3)"])
@pytest.mark.parametrize("formula", ["income ~ {}", "income ~ age * {}", "income ~ age + offset({})", "{} ~ age"])
def test_nothing_can_be_learnt_from_a_perturbed_column(call: str, formula: str, coded: pd.DataFrame) -> None:
    name = call.split("(")[0]
    with pytest.raises(
        pr.FormulaError, match=rf"{name}\(\) to the perturbed column 'k'.*constants instead, as in I\(k - 40\)"
    ):
        pr.fit(formula.format(call), coded, pr.Mechanism({"k": NUMBERS}))


@pytest.mark.parametrize(
    "formula", ["income ~ I((k - average(k))**2 + k)", "income ~ I(k > middle(k)) + k", "I(k - average(k)) ~ age"]
)
def test_nor_can_a_mean_of_it_hide_in_an_expression(formula: str, coded: pd.DataFrame) -> None:
    with pytest.raises(
        pr.FormulaError, match=r"mixes the values of different records of a perturbed column.*constants"
    ):
        pr.fit(formula, coded, pr.Mechanism({"k": NUMBERS}), functions={"average": np.mean, "middle": np.median})


def test_three_numbers_of_unstated_kind_are_refused(coded: pd.DataFrame) -> None:
    mechanism = pr.Mechanism({"k": pr.TransitionMatrix.randomized_response([1, 2, 3], 0.85)})
    with pytest.raises(
        pr.FormulaError, match=r"'k' are the numbers 1, 2, 3, .* kind='numeric' or kind='nominal', or write C\(k\)"
    ):
        pr.fit("income ~ k", coded, mechanism)
    assert pr.fit("income ~ C(k)", coded, mechanism).parameters[1:] == ("C(k)[T.2]", "C(k)[T.3]")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("age", 3.0, "collinear in 'Intercept', 'age' \\('age' is constant"),
        ("region", "north", "'region' is constant, 'north' in all 400 records: drop it"),
        ("edu", "low", "'edu' is constant, 'low' in all 400 records: drop it"),
    ],
)
def test_a_constant_column_is_refused(
    column: str, value: object, message: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    with pytest.raises(pr.FormulaError, match=message):
        pr.fit("income ~ age + region + edu", survey.assign(**{column: value}), mechanism)


SYSTEMS: dict[str, Any] = {
    "aipw": lambda terms: pr.average_treatment_effect("income", "female", terms),
    "ipw": lambda terms: pr.average_treatment_effect("income", "female", terms, "ipw"),
    "two stages, instruments": lambda terms: pr.two_stage_least_squares(f"income ~ female | {terms}"),
    "two stages, regressors": lambda terms: pr.two_stage_least_squares(f"income ~ {terms} + female | {terms} + region"),
    "ordinal": lambda terms: pr.ordinal(f"region3 ~ {terms}"),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ("edu + log(none)", r"column\(s\) 'log\(none\)' hold infinite or missing values"),
        ("edu + age + twice", "collinear in 'age', 'twice'"),
        ("edu + none", r"column\(s\) 'none' are zero throughout"),
    ],
)
def test_a_design_of_several_equations_is_judged_as_well(
    name: str, terms: str, message: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    """They said that a score fades away, or passed on an error of NumPy's."""
    data = survey.assign(none=0.0, twice=2 * survey["age"], region3=np.arange(len(survey)) % 3)
    with pytest.raises(pr.PramanaError, match=message):
        pr.fit(SYSTEMS[name](terms), data, mechanism)


@pytest.mark.parametrize("formula", ["np.log(income) ~ edu", "age ~ edu + offset(log(income))"])
def test_a_logarithm_of_negative_numbers_is_counted(
    formula: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    with pytest.raises(pr.DataError, match=r"is missing or infinite for \d+ record\(s\): clean the data"):
        pr.fit(formula, survey, mechanism)


@pytest.mark.parametrize(
    ("formula", "parameters"),
    [
        ("income ~ 0 + edu", ("edu[low]", "edu[mid]", "edu[high]")),
        ("income ~ C(edu)", ("Intercept", "C(edu)[T.mid]", "C(edu)[T.high]")),
        ("income ~ edu:age", ("Intercept", "edu[low]:age", "edu[mid]:age", "edu[high]:age")),
        ("np.log(wage) ~ age", ("Intercept", "age")),
        ("income ~ age + I(age**2)", ("Intercept", "age", "I(age ** 2)")),
        ("income ~ offset(age)", ("Intercept",)),
        ("income ~ I(edu == 'high')", ("Intercept", "I(edu == 'high')")),
        ("income ~ scale(age) + edu", ("Intercept", "scale(age)", "edu[T.mid]", "edu[T.high]")),
    ],
)
def test_odd_formulas_that_mean_something_are_fitted(
    formula: str, parameters: tuple[str, ...], coded: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    assert pr.fit(formula, coded, mechanism).parameters == parameters


def test_a_cell_means_interaction_has_one_parameter_a_cell(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    assert len(pr.fit("income ~ C(region):edu", survey, mechanism).parameters) == 6


@pytest.mark.parametrize("name", ["the age", "the.age", "größe", "年齢", "class", "id", "sum", "C", "np", "offset"])
def test_any_column_name_can_be_used(name: str, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    expected = pr.fit("income ~ age + edu", survey, mechanism)
    result = pr.fit(f"income ~ `{name}` + edu", survey.rename(columns={"age": name}), mechanism)
    assert result.parameters[1] == name
    np.testing.assert_allclose(result.estimate, expected.estimate)


@pytest.mark.parametrize("name", ["ed u", "e.du", "schön"])
def test_any_perturbed_column_name_can_be_used(name: str, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    renamed = pr.Mechanism({name: mechanism.assignments[0].channel})
    result = pr.fit(f"income ~ age + `{name}`", survey.rename(columns={"edu": name}), renamed)
    assert result.parameters[2:] == (f"{name}[T.mid]", f"{name}[T.high]")


@pytest.mark.parametrize("name", ["id", "sum", "max"])
def test_columns_named_like_builtins_work_inside_expressions(name: str, coded: pd.DataFrame) -> None:
    result = pr.fit(f"income ~ I({name}**2)", coded.rename(columns={"k": name}), pr.Mechanism({name: NUMBERS}))
    assert result.parameters == ("Intercept", f"I({name} ** 2)")


def test_the_same_perturbed_column_on_both_sides_is_explained_by_itself(coded: pd.DataFrame) -> None:
    result = pr.fit("k ~ age + k", coded, pr.Mechanism({"k": NUMBERS}))
    np.testing.assert_allclose(result.estimate, [0, 0, 1], atol=1e-10)


def test_true_and_false_can_be_levels(survey: pd.DataFrame) -> None:
    frame = survey.assign(b=survey["employed"] == "yes")
    mechanism = pr.Mechanism({"b": pr.TransitionMatrix.binary(0.9, 0.8, levels=(False, True))})
    assert pr.fit("income ~ b", frame, mechanism).parameters == ("Intercept", "b[T.True]")
    success = pr.fit("b ~ age", frame, mechanism, family="binomial")
    numbers = pr.Mechanism({"b": pr.TransitionMatrix.binary(0.9, 0.8)})
    same = pr.fit("b ~ age", frame.assign(b=frame["b"].astype(int)), numbers, family="binomial")
    np.testing.assert_allclose(success.estimate, same.estimate)


def test_a_boolean_response_or_covariate_counts_as_zero_and_one(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    frame = survey.assign(b=survey["employed"] == "yes", z=(survey["employed"] == "yes").astype(float))
    for formula in ("{} ~ age + edu", "income ~ {} + edu"):
        one, other = (pr.fit(formula.format(name), frame, mechanism).estimate for name in "bz")
        np.testing.assert_allclose(one, other)


def test_an_unused_mechanism_changes_nothing(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    with_it, without = pr.fit("income ~ age", survey, mechanism), pr.fit("income ~ age", survey, None)
    np.testing.assert_array_equal(with_it.covariance, without.covariance)


def test_a_formula_is_text_or_an_estimating_function(survey: pd.DataFrame) -> None:
    with pytest.raises(pr.FormulaError, match=re.escape("cannot estimate a int: give a formula such as 'y ~ x'")):
        pr.fit(3, survey, None)

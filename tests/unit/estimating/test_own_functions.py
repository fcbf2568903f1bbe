"""A user's own estimating function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

NAMES = ["a", "b"]


def design(age: Any, edu: Any) -> Any:
    return np.column_stack([np.ones(len(age)), age + 0.5 * (edu == "high")])


def u(beta: Any, income: Any, age: Any, edu: Any) -> Any:
    x = design(age, edu)
    return x * (income - np.exp(0.3 * (x @ beta)))[:, None]


def slope(beta: Any, income: Any, age: Any, edu: Any) -> Any:
    x = design(age, edu)
    return -0.3 * np.exp(0.3 * (x @ beta))[:, None, None] * x[:, :, None] * x[:, None, :]


def u_jax(beta: Any, income: Any, age: Any, high: Any) -> Any:
    import jax.numpy as jnp

    x = jnp.column_stack([jnp.ones(len(age)), age + 0.5 * high])
    return x * (income - jnp.exp(0.3 * (x @ beta)))[:, None]


@pytest.fixture
def expected(survey: pd.DataFrame, mechanism: pr.Mechanism) -> pr.Result:
    return pr.fit(pr.from_callable(u, NAMES, slope=slope), survey, mechanism)


def test_central_differences_agree_with_the_slope_supplied(
    survey: pd.DataFrame, mechanism: pr.Mechanism, expected: pr.Result
) -> None:
    result = pr.fit(pr.from_callable(u, NAMES), survey, mechanism)
    np.testing.assert_allclose(result.estimate, expected.estimate, rtol=1e-8)
    np.testing.assert_allclose(result.covariance, expected.covariance, rtol=1e-7)


def test_jax_agrees_with_the_slope_supplied(survey: pd.DataFrame) -> None:
    jax = pytest.importorskip("jax")
    data = survey.assign(high=(survey["edu"] == "high").astype(float))
    mechanism = pr.Mechanism({"high": pr.TransitionMatrix.binary(0.9, 0.9)})
    named = pr.from_callable(lambda beta, income, age, high: u(beta, income, age, np.where(high, "high", "")), NAMES)
    result = pr.fit(pr.from_callable(u_jax, NAMES, derivative="jax"), data, mechanism)
    other = pr.fit(named, data, mechanism)
    np.testing.assert_allclose(result.estimate, other.estimate, rtol=1e-8)
    np.testing.assert_allclose(result.covariance, other.covariance, rtol=1e-7)
    assert not jax.config.jax_enable_x64  # the 64-bit mode was for the fit alone


def test_columns_arrive_as_level_values_of_the_length_of_the_data(
    survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    seen: set[Any] = set()

    def spy(beta: Any, edu: Any, age: Any) -> Any:
        assert isinstance(edu, np.ndarray)
        assert len(edu) == len(age)
        seen.update(edu.tolist())
        return (age - beta[0])[:, None]

    pr.fit(pr.from_callable(spy, ["mean"]), survey, mechanism)
    assert seen == {"low", "mid", "high"}


def test_numeric_levels_arrive_as_numbers() -> None:
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response([10, 20, 40], 0.8)})
    result = pr.fit(
        pr.from_callable(lambda beta, y: (y / 10 - beta[0])[:, None], ["m"]), {"y": [10, 20, 40, 40]}, mechanism
    )
    assert result.estimate[0] == pytest.approx(
        pr.fit(pr.mean("y"), {"y": [10, 20, 40, 40]}, mechanism).estimate[0] / 10
    )


@pytest.mark.parametrize(
    "coupled",
    [
        lambda beta, age: (age - age.mean() - beta[0])[:, None],
        lambda beta, age: (np.argsort(np.argsort(age)) - beta[0])[:, None],
        lambda beta, age: (np.cumsum(age) - beta[0])[:, None],
    ],
    ids=["mean", "rank", "running sum"],
)
def test_rows_that_depend_on_each_other_are_refused(coupled: Any, survey: pd.DataFrame) -> None:
    with pytest.raises(pr.FormulaError, match="depend on each other"):
        pr.fit(pr.from_callable(coupled, ["b"]), survey, None)


def test_a_wrong_shape_is_named(survey: pd.DataFrame) -> None:
    with pytest.raises(pr.FormulaError, match=r"\(400,\).*\(400, 1\)"):
        pr.fit(pr.from_callable(lambda beta, age: age - beta[0], ["b"]), survey, None)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: pr.from_callable(lambda beta: beta, ["b"]), "at least one column"),
        (lambda: pr.from_callable(u, NAMES, derivative="forward"), "forward"),
        (lambda: pr.from_callable(u, NAMES, start=[1.0]), "1 values for 2"),
    ],
)
def test_what_cannot_be_a_function_is_refused(make: Any, said: str) -> None:
    with pytest.raises(pr.FormulaError, match=said):
        make()


def test_a_family_does_not_belong_to_an_own_function(survey: pd.DataFrame) -> None:
    with pytest.raises(pr.FormulaError, match="family"):
        pr.fit(pr.mean("age"), survey, None, family="binomial")

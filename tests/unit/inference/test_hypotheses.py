"""Hypotheses as text."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm

import pramana as pr
from pramana.inference.hypotheses import restrictions, wald_test

NAMES = ("Intercept", "age", "edu[T.mid]", "edu[T.high]", "age:edu[T.high]", "np.log(age)")


@pytest.mark.parametrize(
    ("text", "row", "value"),
    [
        ("age = 0", [0, 1, 0, 0, 0, 0], 0),
        ("age", [0, 1, 0, 0, 0, 0], 0),
        ("age = 1.5", [0, 1, 0, 0, 0, 0], 1.5),
        ("edu[T.high] = 2 * edu[T.mid]", [0, 0, -2, 1, 0, 0], 0),
        ("age:edu[T.high] = age", [0, -1, 0, 0, 1, 0], 0),
        ("(age + edu[T.mid]) / 2 - 3 = -Intercept", [1, 0.5, 0.5, 0, 0, 0], 3),
        ("np.log(age) = 1", [0, 0, 0, 0, 0, 1], 1),
    ],
)
def test_an_equation_becomes_a_row_and_a_value(text: str, row: list[float], value: float) -> None:
    rows, values = restrictions(text, NAMES)
    np.testing.assert_allclose(rows, [row], atol=1e-15)
    np.testing.assert_allclose(values, [value], atol=1e-15)


def test_commas_separate_equations() -> None:
    rows, values = restrictions("age = 1, edu[T.mid] = edu[T.high]", NAMES)
    np.testing.assert_array_equal(rows, [[0, 1, 0, 0, 0, 0], [0, 0, 1, -1, 0, 0]])
    np.testing.assert_array_equal(values, [1, 0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agee = 0", "agee"),
        ("age * edu[T.mid] = 0", "not linear"),
        ("1 = 1", "not linear"),
        ("age = 0 = 1", "too many"),
        ("age = 1 / 0", "could not be read"),
        ("age ** 2 = 0", "could not be read"),
        ("abs(age) = 0", "could not be read"),
        ("age = 0, 2 * age = 0", "not independent"),
    ],
)
def test_what_cannot_be_tested_is_refused(text: str, said: str) -> None:
    with pytest.raises(pr.FormulaError, match=said):
        wald_test(text, NAMES, np.ones(6), np.eye(6), np.full(6, np.inf))


def test_one_restriction_is_the_square_of_its_z() -> None:
    estimate, covariance = np.array([1.0, 0.4]), np.array([[0.2, 0.05], [0.05, 0.1]])
    test = wald_test("a = b", ["a", "b"], estimate, covariance, np.full(2, np.inf))
    z = 0.6 / np.sqrt(0.2 + 0.1 - 2 * 0.05)
    assert test.statistic == pytest.approx(z**2, rel=1e-12)
    assert (test.df, test.p_value) == (1, pytest.approx(chi2.sf(z**2, 1), rel=1e-12))


def test_a_joint_restriction_of_everything_is_the_quadratic_form() -> None:
    estimate, covariance = np.array([1.0, 0.4]), np.array([[0.2, 0.05], [0.05, 0.1]])
    test = wald_test("a = 0, b = 0", ["a", "b"], estimate, covariance, np.full(2, np.inf))
    assert test.statistic == pytest.approx(estimate @ np.linalg.solve(covariance, estimate), rel=1e-12)
    assert test.df == 2
    assert "chi2(2)" in str(test)


def test_a_name_inside_a_longer_name_is_not_mistaken_for_it() -> None:
    rows, _ = restrictions("age = age2", ["age", "age2", "sage"])
    np.testing.assert_array_equal(rows, [[1, -1, 0]])


def test_one_parameter_against_zero_has_the_test_of_the_table() -> None:
    """Where the interval is not Wald's; whatever the way the equation is written. Everything else says that it is Wald's."""
    binary = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.8, 0.99)})
    result = pr.fit(pr.mean("y"), {"y": [1] * 3 + [0] * 57}, binary)
    name = result.parameters[0]
    row = result.to_dicts()[0]
    for hypothesis in (f"{name} = 0", f"2 * {name} = 0", f"0 = -{name}", name):
        found = result.test(hypothesis)
        assert (found.p_value, found.statistic) == (row["p_value"], row["statistic"] ** 2)
        assert found.kind != "Wald"
        assert f"behind the {found.kind} interval" in str(found)
    assert found.p_value != pytest.approx(2 * norm.sf(abs(row["estimate"] / row["std_error"])), rel=1e-3)
    for hypothesis in (f"{name} = 0.01", f"{name} - 0.01 = 0"):
        assert str(result.test(hypothesis)).startswith("Wald test of")
    clean = pr.fit("y ~ x", {"y": [1.0, 2.5, 3.0, 4.5, 4.0], "x": [1.0, 2.0, 3.0, 4.0, 5.0]}, None)
    assert clean.test("x = 0").kind == "Wald"
    assert clean.test("x = 0").p_value == pytest.approx(clean["x"].p_value)


def test_one_record_and_one_parameter_are_singular() -> None:
    with pytest.raises(pr.DataError, match=r"^1 record cannot carry 1 parameter: use more data"):
        pr.fit(pr.mean("y"), {"y": [1.0]}, None)
    with pytest.raises(pr.DataError, match=r"^2 records cannot carry 2 parameters"):
        pr.fit("y ~ x", {"y": [1.0, 2.0], "x": [0.0, 1.0]}, None)

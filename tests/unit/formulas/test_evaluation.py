"""Arithmetic in formulas is that of numbers, whatever the type of a column, and a user's function gives one value a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

N = 90
RNG = np.random.default_rng(4)
AGE = RNG.integers(18, 90, N)
DATA = pd.DataFrame({"y": RNG.normal(size=N), "real": AGE.astype(float), "g": np.resize(["a", "b", "c"], N)})
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "int64")
TERMS = (
    "I(x ** 2)",
    "I(x * x)",
    "I(x * 1000)",
    "I(3 - x)",
    "I(x ** 12)",
    "I(x ** -1)",
    "square(x)",
    "log(x)",
    "log(x * 3)",
)


def estimates(formula: str, data: pd.DataFrame, **options: Any) -> Any:
    return pr.fit(formula, data, None, **options).estimate


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("kind", TYPES)
def test_integers_do_not_wrap_around(kind: str, term: str) -> None:
    data = DATA.assign(x=AGE.astype(kind))
    wanted = estimates(f"y ~ {term.replace('x', 'real')}", DATA)
    np.testing.assert_allclose(estimates(f"y ~ {term}", data), wanted, rtol=1e-9)
    np.testing.assert_allclose(
        estimates(f"{term} ~ real", data), estimates(f"{term.replace('x', 'real')} ~ real", DATA), rtol=1e-6
    )


def test_levels_of_whole_numbers_keep_their_names() -> None:
    data = DATA.assign(x=AGE.astype("int8"))
    assert pr.fit("y ~ C(x % 2)", data, None).parameters == ("Intercept", "C(x % 2)[T.1]")


def test_true_values_are_counted() -> None:
    both = (DATA["real"] > 30).astype(float) + (DATA["real"] > 60)
    wanted = estimates("y ~ both", DATA.assign(both=both))
    np.testing.assert_allclose(estimates("y ~ I((real > 30) + (real > 60))", DATA), wanted)


@pytest.mark.parametrize("name", ["not", "and", "True"])
def test_an_own_function_is_no_word_of_the_language(name: str) -> None:
    with pytest.raises(pr.FormulaError, match="no plain name"):
        estimates(f"y ~ {name}(real)", DATA, functions={name: np.log})


@pytest.mark.parametrize(
    "function",
    [
        lambda _: None,
        lambda _: {1, 2},
        lambda x: (v for v in x),
        lambda _: pd.Series([1.0, 2.0]),
        lambda x: np.ones((len(x), 2, 2)),
        lambda x: x * (1 + 1j),
        lambda x: pd.to_datetime(x),
        lambda _: {"a": np.ones(3)},
    ],
)
def test_an_own_function_gives_one_value_a_record(function: Callable[[Any], Any]) -> None:
    with pytest.raises(pr.FormulaError, match=r"it must give one( number or one text)? a record"):
        estimates("y ~ f(real)", DATA, functions={"f": function})


def test_what_cannot_be_computed_is_counted() -> None:
    with pytest.raises(pr.DataError, match=r"'log\(0 - real\)' of .* is missing for 90 of 90 records"):
        estimates("y ~ log(0 - real)", DATA)


MECHANISM = pr.Mechanism({"g": pr.TransitionMatrix.randomized_response(["a", "b", "c"], keep=0.9)})


@pytest.mark.parametrize("mechanism", [None, MECHANISM])
def test_levels_that_are_left_out_do_not_become_the_reference(mechanism: pr.Mechanism | None) -> None:
    with pytest.raises(pr.FormulaError, match="leaves out 'c', which would count as the reference level"):
        pr.fit("y ~ C(g, levels=['a', 'b'])", DATA, mechanism)
    with pytest.raises(pr.FormulaError, match="has the reference 'z', which is no level: the levels are 'a', 'b', 'c'"):
        pr.fit("y ~ C(g, contr.treatment(base='z'))", DATA, mechanism)
    assert len(pr.fit("y ~ C(g, contr.treatment(base='b'), levels=['c', 'b', 'a'])", DATA, mechanism).parameters) == 3


def test_negative_levels_can_be_listed() -> None:
    data = DATA.assign(x=np.resize([-1, 0, 1], N))
    found = pr.fit("y ~ C(x, contr.treatment(base=-1), levels=[1, 0, -1])", data, None).parameters
    assert [name[-5:] for name in found[1:]] == ["[T.1]", "[T.0]"]


def test_contrasts_of_text_are_refused() -> None:
    with pytest.raises(pr.FormulaError, match="could not be evaluated"):
        estimates("y ~ real:C(g, contr.custom([[1, 0], [0, 1], ['a', 'b']]))", DATA)


@pytest.mark.parametrize(
    ("formula", "mechanism"),
    [
        *((formula, None) for formula in ("y ~ bs(g, df=4)", "y ~ scale(g)", "y ~ poly(g, 2)")),
        *((formula, given) for formula in ("y ~ log(g)", "log(g) ~ real") for given in (None, MECHANISM)),
    ],
)
def test_text_where_numbers_belong_is_named(formula: str, mechanism: pr.Mechanism | None) -> None:
    with pytest.raises(pr.FormulaError, match=r"is of numbers, and 'g' holds none: use its levels, C\(g\)"):
        pr.fit(formula, DATA, mechanism)


@pytest.mark.parametrize("bounds", ["lower_bound=0.4", "upper_bound=0.6", "lower_bound=0.4, upper_bound=0.6"])
def test_a_spline_that_leaves_out_records_says_how_many(bounds: str) -> None:
    data = DATA.assign(u=np.linspace(0, 1, N))
    low, high = "lower" in bounds, "upper" in bounds
    beyond = int(np.sum((low & (data["u"] < 0.4)) | (high & (data["u"] > 0.6))))
    with pytest.raises(pr.FormulaError, match=rf"^{beyond} record\(s\) lie beyond the range .* extrapolation='clip'"):
        estimates(f"y ~ bs(u, df=4, {bounds})", data)
    assert len(estimates(f"y ~ bs(u, df=4, {bounds}, extrapolation='clip')", data)) == 5

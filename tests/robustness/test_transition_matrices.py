"""Wrong transition matrices and mechanisms: every message names the value, the limit and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

AB = ["a", "b"]
GOOD = [[0.8, 0.1], [0.2, 0.9]]
CIRCULANT = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]
P = pr.TransitionMatrix


def says(*parts: str) -> str:
    """A pattern that needs every part, in order."""
    return ".*".join(re.escape(part) for part in parts)


@pytest.mark.parametrize(
    ("levels", "matrix", "message"),
    [
        (
            AB,
            [[0.8, 0.2], [0.1, 0.9]],
            says("column 0", "sums to 0.9, not 1", "rows do: use TransitionMatrix.from_rows"),
        ),
        (list("abc"), CIRCULANT, says("not symmetric", "ambiguous", "from_columns", "from_rows")),
        (AB, [[0.8, 0.1], [0.1, 0.9]], says("column 0", "0.9, not 1", "tolerance 1e-08", "full precision")),
        (AB, [[1.1, 0.1], [-0.1, 0.9]], says("entry [0, 0]", "1.1", "between 0 and 1")),
        (AB, [[0.8, -0.1], [0.2, 1.1]], says("entry [0, 1]", "-0.1", "between 0 and 1")),
        (AB, [[np.nan, 0.1], [0.2, 0.9]], says("entry [0, 0]", "nan", "must be a probability")),
        (AB, [[0.5, 0.5], [0.5, 0.5]], says("'a', 'b' is singular", "limit is 1e+08", "raise the keep probability")),
        (
            AB,
            [[0.5 + 1e-9, 0.5], [0.5 - 1e-9, 0.5]],
            says("nearly singular (condition number 1.0e+09)", "1e+08", "merge"),
        ),
        (["a", "a"], GOOD, says("'a' appear more than once", "listed once")),
        (["a", None], GOOD, says("missing value cannot be a level", "recode")),
        (["a", pd.NA], GOOD, says("missing value cannot be a level", "recode")),
        ([1.0, np.inf], GOOD, says("missing value cannot be a level")),
        ([1, "a"], GOOD, says("1, 'a' mix number and text", "one type")),
        ([["a", "x"], ["b", "x"]], GOOD, says("['a', 'x'] is a list", "tuple")),
        (["a"], [[1.0]], says("at least 2 levels, not 1")),
        ({"a", "b"}, GOOD, says("levels of type set", "ordered list")),
        (None, GOOD, says("levels of type NoneType", "list")),
        (np.array(2.0), GOOD, says("levels of type ndarray", "list")),
        (list("abc"), GOOD, says("shape (2, 2)", "3 levels", "give 3 × 3")),
        (AB, [[0.8, 0.1], [0.2]], says("rectangular array of numbers")),
        (AB, [["x", "y"], ["z", "w"]], says("rectangular array of numbers")),
    ],
)
def test_a_wrong_matrix_says_what_is_wrong(levels: Any, matrix: Any, message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        P(levels, matrix)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: P.from_rows(AB, GOOD), says("row 0", "0.9, not 1", "from_columns")),
        (lambda: P.from_columns(AB, np.transpose(GOOD)), says("column 0", "from_rows")),
        (lambda: P(AB, GOOD, kind="nominl"), says("'nominl' is unknown", "did you mean 'nominal'?")),
        (lambda: P(AB, GOOD, kind="numeric"), says("'numeric' needs numeric levels", "'a', 'b'", "use 'nominal'")),
        (lambda: P.randomized_response(AB, keep=0.5), says("keep=0.5", "above 1/K = 0.5")),
        (lambda: P.randomized_response(AB, keep=1.2), says("keep=1.2", "at most 1")),
        (lambda: P.randomized_response(AB, keep="0.8"), says("keep='0.8'", "above 1/K")),
        (lambda: P.from_epsilon(AB, 0), says("epsilon=0", "positive and below 700")),
        (lambda: P.from_epsilon(AB, "x"), says("epsilon='x'", "positive")),
        (lambda: P.binary(1.2, 0.9), says("sensitivity=1.2", "between 0 and 1")),
        (lambda: P.binary(0.9, "x"), says("specificity='x'", "between 0 and 1")),
        (lambda: P.binary(0.4, 0.6), says("singular", "raise the keep probability")),
        (lambda: P.randomized_response(range(30_000), keep=0.9).matrix, says("30000", "limit of 20000", "closed form")),
    ],
)
def test_a_wrong_design_says_what_is_wrong(make: Callable[[], object], message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.Mechanism({}), says("dictionary from column names to channels")),
        (lambda: pr.Mechanism({"edu": GOOD}), says("channel of 'edu' is a list", "TransitionMatrix.from_rows")),
        (lambda: pr.Mechanism({3: P(AB, GOOD)}), says("3 is not a column name", "tuple")),
        (lambda: pr.Mechanism({("x", "y"): P(AB, GOOD)}), says("'x', 'y'", "level 'a'", "tuple of 2 values")),
        (
            lambda: pr.Mechanism({"x": P(AB, GOOD), ("x", "y"): P([(0, 0), (1, 1)], GOOD)}),
            says("'x' appear more than once", "one channel"),
        ),
        (lambda: pr.Stratified("region", {}), says("Stratified('region', ...)", "at least one stratum")),
        (lambda: pr.Stratified("region", {"n": GOOD}), says("stratum of 'region' is a list", "TransitionMatrix")),
        (
            lambda: pr.Stratified("region", {"n": P(AB, GOOD), "s": P(["b", "a"], GOOD)}),
            says("stratum 's' of 'region'", "'b', 'a'", "same levels in the same order"),
        ),
        (
            lambda: pr.Mechanism({"x": pr.Stratified("r", {"n": P(AB, GOOD)}), "r": P(["n", "s"], GOOD)}),
            says("'r' stratifies 'x' but is perturbed itself", "joint matrix"),
        ),
    ],
)
def test_a_wrong_mechanism_says_what_is_wrong(make: Callable[[], object], message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        make()


def test_levels_may_come_from_a_generator_or_an_array() -> None:
    assert P((x for x in AB), GOOD).levels == P(np.array(AB), GOOD).levels == ("a", "b")

"""Results carry which parameters are cells of a table and what their exponentials are called; nobody reads names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr

DATA = {"a": ["x", "y"] * 30, "b": ["u"] * 20 + ["v"] * 40, "w": np.linspace(0.5, 2, 60), "v": np.arange(60.0)}


@pytest.mark.parametrize(
    ("what", "size", "total"),
    [
        (pr.proportions("a"), 2, 1.0),
        (pr.proportions("a", by="b"), 2, 1.0),
        (pr.crosstab("a", "b"), 4, 1.0),
        (pr.counts("a"), 2, 75.0),
        (pr.counts("a", by="b"), 4, 75.0),
        (pr.counts("a", size=1234567.25), 2, 1234567.25),
        (pr.crosstab("a", "b", counts=True), 4, 75.0),
    ],
)
def test_tables_say_their_size_and_sum(what: Any, size: int, total: float) -> None:
    result = pr.fit(what, DATA, None, weights="w")
    assert result.shares is not None
    assert (result.shares.size, result.shares.total) == (size, pytest.approx(total))
    tables = result.estimate.reshape(-1, size)
    np.testing.assert_allclose(tables.sum(axis=1), total)
    np.testing.assert_allclose(pr.to_simplex(result).estimate, result.estimate)


@pytest.mark.parametrize("what", [pr.mean("v"), pr.mean("v", by="a"), pr.total("v"), "v ~ a"])
def test_other_parameters_are_no_tables(what: Any) -> None:
    result = pr.fit(what, DATA, None)
    assert result.shares is None
    with pytest.raises(pr.PramanaError, match="no cell of a table"):
        pr.to_simplex(result)


def test_a_table_whose_levels_look_like_names_of_counts() -> None:
    """Levels such as "count(x)" and " | " once decided how a table was read."""
    data = {"a": ["count(x", "x | y=1"] * 30}
    result = pr.fit(pr.proportions("a"), data, None)
    assert pr.to_simplex(result).estimate == pytest.approx([0.5, 0.5])


def test_exponentials_have_their_own_names() -> None:
    ratio = pr.fit(pr.odds_ratio("a", "b"), {**DATA, "b": ["u", "u", "v"] * 20}, None)
    assert ratio.to_dicts(exponentiate=True)[0]["term"] == "odds ratio(a, b)"
    column = {"log odds ratio(x": np.arange(60) % 3 + 1.0, "y": np.arange(60) % 2}
    logit = pr.fit("y ~ `log odds ratio(x`", column, None, family="binomial")
    assert logit.to_dicts(exponentiate=True)[1]["term"] == "log odds ratio(x"

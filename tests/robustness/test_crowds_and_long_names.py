"""A column of identifiers is refused before thousands of parameters are made of it, and names of any length are shown in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.engines import LocalEngine
from pramana.errors import DataError, quoted
from pramana.estimating import Equation
from pramana.estimating.moments import QuotientEquation
from pramana.frames import cells
from pramana.inference import few_units

N = 5000
MECHANISM = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"id": np.arange(N), "x": rng.normal(size=N), "y": rng.integers(0, 2, N)})
    return frame.assign(house=[f"h{k % 1500}" for k in range(N)], street=[f"s{k % 500}" for k in range(N)])


QUESTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "proportions": (pr.proportions("house"), {}),
    "numbers": (pr.proportions("id"), {}),
    "mean": (pr.mean("x", by="house"), {}),
    "perturbed": (pr.mean("y", by="house"), {}),
    "total": (pr.total("x", by="id"), {}),
    "counts": (pr.counts("house"), {}),
    "median": (pr.median("x", by="house"), {}),
    "gini": (pr.gini("id", by="house"), {}),
    "poverty": (pr.poverty_rate("id", by="house"), {}),
    "share": (pr.share("x", 0, 1, by="house"), {}),
    "table": (pr.crosstab("house", "y"), {}),
    "several": (pr.mean("x", by=["street", "y"]), {}),
    "formula": ("y ~ house", {"family": "binomial"}),
    "interaction": ("y ~ x:house", {"family": "binomial"}),
    "C": ("y ~ C(id)", {"family": "binomial"}),
    "quantile regression": (pr.quantile_regression("x ~ house"), {}),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_identifiers_are_no_groups(question: str, people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def solved(*_: object) -> None:
        raise AssertionError("it is refused before anything is added up")

    for name in ("totals", "score_and_slope", "direct"):
        monkeypatch.setattr(LocalEngine, name, solved)
    what, options = QUESTIONS[question]
    message = (
        r"would make [\d,]+ parameters of 5,?000 records, and more than 500 need at least 10 records each: .*merge"
    )
    with pytest.raises(pr.DataError, match=message):
        pr.fit(what, people, MECHANISM, **options)


@pytest.mark.parametrize("factor", ["C(id > 2500)", "C(np.where(x > 0, 1, 0))", "I(house == 'h7')"])
def test_what_is_computed_of_a_column_has_values_of_its_own(factor: str, people: pd.DataFrame) -> None:
    """Two groups made of a column of many values are two groups."""
    found = pr.fit(f"x ~ {factor}", people, None)
    told = {"C(id": people["id"] > 2500, "C(np": people["x"] > 0, "I(ho": people["house"] == "h7"}[factor[:4]]
    groups = people.groupby(told)["x"].mean()
    np.testing.assert_allclose(found.estimate, [groups[False], groups[True] - groups[False]], rtol=1e-9)


def test_in_blocks_and_in_cells_all_records_count(
    people: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells stand for records: 510 levels of 12 records each are 510 rows once they are counted."""
    many = pd.DataFrame({"level": np.tile([f"v{k}" for k in range(510)], 12)})
    many.to_parquet(tmp_path / "many.parquet")
    monkeypatch.setattr(cells, "ROWS", 1000)
    assert len(pr.fit(pr.counts("level"), tmp_path / "many.parquet", None).parameters) == 510
    people.to_parquet(tmp_path / "people.parquet")
    with pytest.raises(pr.DataError, match=r"would make 1,?500 parameters"):
        pr.fit(pr.mean("x", by="house"), tmp_path / "people.parquet", MECHANISM, memory=1)


def test_groups_of_enough_records_are_estimated(people: pd.DataFrame) -> None:
    few = people.assign(street=people["id"] % 50).iloc[:500]
    found = pr.fit(pr.mean("x", by="street"), few, None)
    each = few.groupby("street")["x"]
    np.testing.assert_allclose(found.estimate, each.mean(), rtol=1e-12)
    np.testing.assert_allclose(found.standard_errors, each.std(ddof=1) / np.sqrt(10), rtol=1e-9)
    np.testing.assert_allclose(found.df, 9.0, rtol=1e-9)


def test_a_domain_s_records_are_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The correction for few records by the parts of their slopes is that by their slopes."""
    rng = np.random.default_rng(1)
    data = {
        "x": rng.normal(size=60),
        "g": list("abc") * 20,
        "h": rng.choice(list("de"), 60),
        "w": rng.uniform(1, 2, 60),
    }
    mechanism = pr.Mechanism({"h": pr.TransitionMatrix.randomized_response(list("de"), 0.8)})
    for by in ("g", ["g", "h"]):
        quick = pr.fit(pr.mean("x", by=by), data, mechanism, weights="w")
        with monkeypatch.context() as patched:
            patched.setattr(QuotientEquation, "slope_parts", Equation.slope_parts)
            slow = pr.fit(pr.mean("x", by=by), data, mechanism, weights="w")
        np.testing.assert_allclose(quick.covariance, slow.covariance, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(quick.df, slow.df, rtol=1e-9)


def test_very_many_shares_are_corrected_by_the_formula_of_a_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"g": list("abcde") * 20}
    general = pr.fit(pr.proportions("g"), data, None)
    monkeypatch.setattr(few_units, "LONG", 0.0)
    formula = pr.fit(pr.proportions("g"), data, None)
    np.testing.assert_allclose(formula.standard_errors, general.standard_errors, rtol=1e-6)
    np.testing.assert_allclose(formula.df, general.df, rtol=1e-9)
    np.testing.assert_allclose(formula.standard_errors, np.sqrt(0.2 * 0.8 / 99), rtol=1e-12)


LONG = "x" * 10_000


@pytest.mark.parametrize(
    ("what", "column"),
    [(pr.mean(LONG), "age"), (pr.mean("age"), LONG), (f"age ~ {LONG[:9000]}", "age"), (pr.mean("text"), "age")],
    ids=["asked for", "in the data", "in a formula", "a value"],
)
def test_a_name_of_any_length_takes_a_line(what: Any, column: str) -> None:
    with pytest.raises(pr.PramanaError) as raised:
        pr.fit(what, {column: [1.0, 2.0, 3.0], "text": [LONG, "b", "c"]}, None)
    assert "…" in str(raised.value)
    assert len(str(raised.value)) < 500


def test_what_is_withheld_stays_so_however_long() -> None:
    error = DataError(f"column 'pay' holds {quoted(repr(LONG))} and {quoted('y' * 150)}, not a number of the user's")
    assert str(error) == "column 'pay' holds (withheld) and (withheld), not a number of the user's"
    error.show()
    assert "…" in str(error)
    assert "y" * 150 in str(error)
    error.forget()
    assert "x" not in str(error)
    assert "y" * 9 not in str(error)

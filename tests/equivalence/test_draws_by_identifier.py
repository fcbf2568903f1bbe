"""Draws that go by an identifier are the same in whatever order and from whatever source records come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis import streaming
from pramana.frames import sources

N = 1500
MECHANISM = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(9)
    frame = pd.DataFrame({"x": rng.normal(size=N), "w": rng.uniform(0.5, 2, N), "number": np.arange(N)})
    return frame.assign(y=rng.integers(0, 2, N), name=[f"p{k}" for k in rng.permutation(N)])


def errors(data: Any, what: Any = "y ~ x", **options: Any) -> Any:
    given = {"family": "binomial"} if isinstance(what, str) else {}
    return pr.fit(what, data, MECHANISM, **given, **options).standard_errors


@pytest.mark.parametrize("what", ["y ~ x", pr.total("y"), pr.median("x")], ids=str)
@pytest.mark.parametrize("column", ["number", "name"])
def test_order_does_not_matter(column: str, what: Any, data: pd.DataFrame) -> None:
    keyed, plain = pr.Resampling(draws=20, seed=1, id=column), pr.Resampling(draws=20, seed=1)
    mixed = data.sample(frac=1, random_state=3)
    found = errors(data, what, inference=keyed)
    np.testing.assert_allclose(errors(mixed, what, inference=keyed), found, rtol=1e-9)
    assert not np.allclose(errors(mixed, what, inference=plain), errors(data, what, inference=plain), rtol=1e-6)
    if column == "number":  # the places themselves
        np.testing.assert_allclose(found, errors(data, what, inference=plain), rtol=1e-12)


def test_blocks_and_queries_draw_the_same(data: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH", 200)
    monkeypatch.setattr(streaming, "PILOT", 300)
    data.to_parquet(tmp_path / "all.parquet", index=False)
    turned = duckdb.connect().sql(f"select * from '{tmp_path / 'all.parquet'}' order by x")
    for options in ({}, {"weights": "w"}):
        keyed = {"inference": pr.Resampling(draws=20, seed=1, id="name"), **options}
        whole = errors(data, **keyed)
        for source in (tmp_path / "all.parquet", turned):
            np.testing.assert_allclose(errors(source, memory=1, **keyed), whole, rtol=1e-8)


@pytest.mark.parametrize("held", [1000, 100])
@pytest.mark.parametrize("column", ["number", "name"])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_an_identifier_that_comes_back_in_another_block_is_refused(
    ending: str, column: str, held: int, data: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where not all identifiers can be held: equal ones are held together, or not at all."""
    monkeypatch.setattr(sources, "BATCH", 200)
    monkeypatch.setattr(streaming, "KEYS", held)
    again = pd.concat([data.iloc[:800], data.iloc[:700]])
    again.to_parquet(tmp_path / "again.parquet", index=False, row_group_size=200)
    again.to_csv(tmp_path / "again.csv", index=False)
    keyed = pr.Resampling(draws=20, seed=1, id=column)
    with pytest.raises(pr.DataError, match=rf"id='{column}' holds at least \d+ value\(s\) a second time"):
        errors([tmp_path / f"again.{ending}"], inference=keyed, memory=1)


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ("w", {}, "must hold whole numbers or text"),
        ("y", {}, "is a perturbed column"),
        ("nobody", {}, "column 'nobody' is not in"),
        ("double", {}, "a second time"),
        (
            "number",
            {"clusters": "double"},
            r"Resampling\(id='number'\) draws for every record by itself, and clusters= draws",
        ),
    ],
)
def test_what_tells_nobody_apart_is_refused(
    column: str, options: dict[str, Any], message: str, data: pd.DataFrame
) -> None:
    frame = data.assign(double=data["number"] // 2)
    with pytest.raises(pr.PramanaError, match=message):
        errors(frame, inference=pr.Resampling(draws=20, id=column), **options)

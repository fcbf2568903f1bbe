"""Cells of records in batches, against a count of tuples. Whether records are collapsed to cells depends on all of their values, and not on
which of them come first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset

from pramana.frames import cells, sources
from pramana.frames.cells import CellPart, Coded, Combinations, Values, coded_columns, grouped
from pramana.frames.sources import DatasetSource

COLUMNS = {
    "text": ["b", "a", None, "b", "b", None, "a", "c"],
    "number": [0.0, -0.0, math.nan, None, 0.0, math.nan, -0.0, 2.5],
    "whole": [3, 3, 3, None, 3, 3, 3, 7],
}


def plain(value: Any) -> Any:
    return None if value is None or value != value else value + 0 if isinstance(value, float) else value


def slowly(columns: dict[str, list[Any]]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Count and first place of every combination."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for place, row in enumerate(zip(*columns.values(), strict=True)):
        key = tuple(map(plain, row))
        count, first = found.get(key, (0, place))
        found[key] = (count + 1, first)
    return found


def collapsed(table: pa.Table, size: int) -> Combinations:
    found = Combinations(tuple(table.column_names), Values())
    done = 0
    for batch in table.to_batches(max_chunksize=size):
        coded = coded_columns(batch.columns, 100)
        assert coded is not None
        found.add(CellPart.of(coded), done)
        done += batch.num_rows
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("repeats", [1, 5])
def test_counts_and_first_places_are_those_of_the_rows(size: int, repeats: int) -> None:
    columns = {name: values * repeats for name, values in COLUMNS.items()}
    table = pa.table(columns)
    found = collapsed(table, size)
    order = found.by_value()
    rows = found.table(table.schema, order).to_pylist()
    own = {
        tuple(map(plain, row.values())): pair
        for row, *pair in zip(rows, found.counts[order].tolist(), found.first[order].tolist(), strict=True)
    }
    assert {k: tuple(v) for k, v in own.items()} == slowly(columns)
    assert len(own) == found.size


def test_cells_of_some_columns_are_those_of_the_cells() -> None:
    table = pa.table(COLUMNS)
    coded = coded_columns(table.combine_chunks().to_batches()[0].columns, 100)
    assert coded is not None
    whole = CellPart.of(coded)
    for which in ([0], [2, 0], [1]):
        alone = CellPart.of([coded[k] for k in which])
        some = whole.of_columns(which)
        assert some.counts.tolist() == alone.counts.tolist()
        assert some.first.tolist() == alone.first.tolist()


@pytest.mark.parametrize("sizes", [(5, 7), (1 << 40, 1 << 40, 9), (3_000_000, 2)])
def test_grouping_does_not_depend_on_how_many_combinations_there_could_be(sizes: Sequence[int]) -> None:
    rng = np.random.default_rng(5)
    codes = [rng.integers(0, min(size, 4), 200) for size in sizes]
    counts = rng.integers(1, 9, 200)
    place, sums = grouped(codes, sizes, counts)
    rows = list(zip(*(c.tolist() for c in codes), strict=True))
    assert sorted(place.tolist()) == sorted(rows.index(row) for row in set(rows))
    for at, found in zip(place.tolist(), sums.tolist(), strict=True):
        assert found == sum(c for row, c in zip(rows, counts.tolist(), strict=True) if row == rows[at])


def test_columns_with_many_values_are_given_up() -> None:
    assert coded_columns([pa.array(range(11))], 10) is None
    assert coded_columns([pa.array([str(k) for k in range(11)])], 10) is None
    assert coded_columns([pa.array([str(k % 10) for k in range(11)])], 10) is not None


@pytest.mark.parametrize("varied", ["first", "last", "nowhere"])
@pytest.mark.parametrize("batch", [300, 5000])
def test_many_values_are_seen_wherever_they_stand(varied: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "LEVELS", 50)
    monkeypatch.setattr(cells, "ROWS", 100)
    monkeypatch.setattr(sources, "BATCH", batch)
    n = 2000
    values = np.arange(n) % 4
    if varied == "first":
        values[:200] = np.arange(200)
    if varied == "last":
        values[-200:] = np.arange(200)
    table = pa.table({"x": values.astype(float), "g": pd.Categorical(np.array(["a", "b"])[values % 2])})
    found = cells.cells(DatasetSource(dataset.dataset(table)), ["x", "g"])
    if varied != "nowhere":
        assert found is None
    else:
        assert found is not None
        assert found[1].tolist() == [500] * 4


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("values", [[0], [1, 0], [3, 100, 3, 5], [0, 127, 64], [-7, 5, -7], [], [2, None, 2]])
def test_whole_numbers_are_told_apart_with_and_without_a_look_up(kind: str, values: list[Any]) -> None:
    if kind.startswith("u") and any(v is not None and v < 0 for v in values):
        pytest.skip("no sign")
    coded = Coded.of(pa.array(values, kind))
    assert [coded.values[k] for k in coded.places.tolist()] == values
    assert coded.values[-1] is None
    assert {v for v in coded.values if v is not None} == {v for v in values if v is not None}

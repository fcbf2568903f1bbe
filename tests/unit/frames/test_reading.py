"""The one door for data: kinds of frame, kinds of file, and what is refused there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import pramana as pr
from pramana.frames import build, read
from pramana.frames.sources import source_of

COLUMNS = {"a": ["x", "y", "x"], "b": [1.5, 2.0, -1.0], "c": [1, 2, 3]}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_every_kind_of_frame_gives_the_same_columns_and_comes_back(make: Any) -> None:
    table = read(make(COLUMNS))
    assert (table.n, table.names) == (3, ["a", "b", "c"])
    assert table.column("a").tolist() == COLUMNS["a"]
    np.testing.assert_array_equal(table.column("b"), COLUMNS["b"])
    assert type(build({"z": [1, 2]}, table.kind)) is type(make({"z": [1, 2]}))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_files_are_read_by_their_ending(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"d{suffix}"
    frame = pd.DataFrame(COLUMNS)
    frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
    table = read(path)
    assert table.column("a").tolist() == COLUMNS["a"]
    assert table.column("c").tolist() == COLUMNS["c"]


def test_rows_are_kept_by_a_mask_and_gaps_are_seen() -> None:
    table = read({"a": ["x", None, "z"], "b": [1.0, 2.0, np.nan]})
    assert table.missing(["a", "b"]).tolist() == [False, True, True]
    assert table.where(~table.missing(["a"])).column("a").tolist() == ["x", "z"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "data of type int cannot be read"),
        ({"a": [1, 2], "b": [1]}, "of equal length"),
        ("nowhere.csv", "does not exist"),
        (str(Path(__file__).parent), "holds no data files"),
    ],
)
def test_what_is_no_table_is_refused(data: Any, message: str) -> None:
    with pytest.raises(pr.DataError, match=message):
        read(data)


def test_a_missing_column_names_the_nearest() -> None:
    with pytest.raises(pr.DataError) as caught:
        pr.fit("income ~ agge", {"income": [1.0, 2.0], "age": [1.0, 3.0]}, None)
    assert "did you mean 'age'" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "Empty CSV file"), (b"edu,income\nlow,10\nh\x81,zqxsecret\n", "is not UTF-8 text and not plainly")],
)
def test_what_is_wrong_with_a_confidential_file_is_said_without_a_value(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(content)
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "high"], 0.8)})
    with pytest.raises(pr.DataError, match=message) as caught:
        pr.risk(path, mechanism)
    assert "zqxsecret" not in str(caught.value)


def test_an_empty_row_group_is_a_piece_without_records(tmp_path: Path) -> None:
    for k, rows in enumerate((0, 2, 0)):
        pd.DataFrame({"x": np.arange(rows)}).to_parquet(tmp_path / f"{k}.parquet", row_group_size=100)
    assert parquet.read_metadata(tmp_path / "0.parquet").num_row_groups == 1
    source = source_of(tmp_path, {}, 1e9)
    assert source is not None
    assert [piece.counted() for piece in source.pieces() or ()] == [0, 2, 0]

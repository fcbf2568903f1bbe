"""Categories that are numbers stay categories, whatever holds the records: Parquet keeps their numbers, and says of the file alone what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset as ds

import pramana as pr

MECHANISM = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response([0, 1], keep=0.85)})


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame({"y": rng.integers(0, 2, 900), "g": pd.Categorical(rng.choice([2, 9, 10], 900))})


@pytest.fixture(scope="module")
def folder(records: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("categories")
    for k in range(3):
        part = records.iloc[300 * k : 300 * (k + 1)]
        part.to_parquet(out / f"part-{k}.parquet", index=False, row_group_size=100)
    return out


def fitted(data: Any, **options: Any) -> pr.Result:
    return pr.fit("y ~ g", data, MECHANISM, family="binomial", **options)


@pytest.mark.parametrize(
    ("of", "options"),
    [
        (lambda frame, _: pa.Table.from_pandas(frame), {}),
        (lambda _, folder: folder, {}),
        (lambda _, folder: folder, {"memory": 1}),
        (lambda _, folder: folder, {"memory": 1, "engine": "duckdb"}),
        (lambda _, folder: ds.dataset(folder), {"memory": 1}),
        (lambda frame, _: pa.Table.from_pandas(frame).to_reader(max_chunksize=50), {}),
    ],
    ids=["Arrow", "Parquet", "in blocks", "DuckDB", "dataset", "reader"],
)
def test_numbers_that_are_labels_are_no_amounts(of: Any, options: Any, records: pd.DataFrame, folder: Path) -> None:
    if "engine" in options:
        pytest.importorskip("duckdb")
    whole, found = fitted(records), fitted(of(records, folder), **options)
    assert found.parameters == whole.parameters == ("Intercept", "g[T.9]", "g[T.10]")
    np.testing.assert_allclose(found.estimate, whole.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-9)


def test_one_file_that_is_read_whole(records: pd.DataFrame, tmp_path: Path) -> None:
    records.to_parquet(tmp_path / "one.parquet", index=False)
    assert fitted(tmp_path / "one.parquet").parameters == fitted(records).parameters


@pytest.mark.parametrize(
    "note", [b"no JSON", b"[]", b'{"columns": [3]}', b'{"columns": [{"pandas_type": "categorical"}]}']
)
def test_a_note_that_pandas_did_not_write_changes_nothing(note: bytes, records: pd.DataFrame, tmp_path: Path) -> None:
    table = pa.table({"y": records["y"].to_numpy(), "g": records["g"].astype(int).to_numpy()})
    from pyarrow import parquet

    parquet.write_table(table.replace_schema_metadata({b"pandas": note}), tmp_path / "odd.parquet")
    assert fitted(tmp_path / "odd.parquet").parameters == ("Intercept", "g")


def test_a_perturbed_category_of_numbers(records: pd.DataFrame, tmp_path: Path) -> None:
    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.randomized_response([2, 9, 10], keep=0.8, kind="nominal")})
    records.to_parquet(tmp_path / "g.parquet", index=False)
    there, here = (pr.fit("y ~ g", data, mechanism) for data in (tmp_path / "g.parquet", records))
    np.testing.assert_allclose(there.estimate, here.estimate, rtol=1e-12)

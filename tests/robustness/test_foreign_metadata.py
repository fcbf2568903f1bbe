"""Of confidential data only names, types and values that are meant to be published reach a release: nobody's notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pramana as pr
from pramana.frames.blocks import parquet_files

SECRET = "SECRET"
NOTE = {b"note": SECRET.encode()}
M = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)})
N = 40


class Remark(pa.ExtensionType):
    """An extension type whose parameter says too much."""

    def __init__(self, storage: pa.DataType = pa.int64(), remark: str = SECRET) -> None:  # noqa: B008
        self.remark = remark
        super().__init__(storage, "test.remark")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.remark.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Remark:
        return cls(storage, serialized.decode())


def noted(kind: pa.DataType, name: str = "inner") -> pa.Field:
    return pa.field(name, kind, metadata=NOTE)


def category(*, ordered: bool = False) -> pa.DictionaryArray:
    values = pa.array(["low", SECRET, "high", "mid"])
    return pa.DictionaryArray.from_arrays(pa.array([0, 2, 3, None] * (N // 4), pa.int8()), values, ordered=ordered)


INNER = pa.array([1, 2] * (N // 2))
OFFSETS = pa.array(range(N + 1), pa.int32())
COLUMNS: dict[str, pa.Array] = {
    "struct": pa.StructArray.from_arrays([INNER], fields=[noted(pa.int64())]),
    "list": pa.ListArray.from_arrays(OFFSETS, INNER).cast(pa.list_(noted(pa.int64()))),
    "large list": pa.array([[1]] * N, pa.large_list(noted(pa.int64()))),
    "fixed list": pa.array([[1, 2]] * N, pa.list_(noted(pa.int64()), 2)),
    "map": pa.array([[("k", 1)]] * N, pa.map_(pa.string(), noted(pa.int64(), "value"))),
    "struct in list": pa.array([[{"inner": 1}]] * N, pa.list_(pa.struct([noted(pa.int64())]))),
    "extension": pa.ExtensionArray.from_storage(Remark(), INNER),
    "extension in struct": pa.StructArray.from_arrays(
        [pa.ExtensionArray.from_storage(Remark(), INNER)], names=["inner"]
    ),
    "categories": category(),
    "ordered categories": category(ordered=True),
    "categories in struct": pa.StructArray.from_arrays([category()], names=["inner"]),
    "categories in list": pa.ListArray.from_arrays(OFFSETS, category()),
}


@pytest.fixture(autouse=True)
def registered() -> Any:
    pa.register_extension_type(Remark())
    yield
    pa.unregister_extension_type("test.remark")


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_published_by_name_type_and_values_alone(
    name: str, shuffle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = N if name.startswith("categories in") else 8  # Arrow reads categories within others from one row group only
    monkeypatch.setattr(parquet_files, "LONGEST", rows)
    column = COLUMNS[name]
    schema = pa.schema([pa.field("z", pa.string(), metadata=NOTE), pa.field(name, column.type, metadata=NOTE)], NOTE)
    table = pa.Table.from_arrays([pa.array(["a", "b"] * (N // 2)), column], schema=schema)
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=rows)
    assert SECRET.encode() in (tmp_path / "in.parquet").read_bytes()
    pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", M, shuffle=shuffle)
    content = (tmp_path / "out.parquet").read_bytes()
    assert SECRET.encode() not in content
    released = pq.read_table(tmp_path / "out.parquet")
    assert SECRET not in str(released.schema.to_string(show_schema_metadata=True))
    key = json.dumps if name == "map" else str
    assert sorted(map(key, released.column(name).to_pylist())) == sorted(map(key, column.to_pylist()))


def test_ordered_categories_keep_their_order_without_those_of_deleted_records(tmp_path: Path) -> None:
    """The first block holds two of the categories, the second another one that lies between them."""
    kind = pd.CategoricalDtype(["low", "mid", SECRET, "high"], ordered=True)
    frame = pd.DataFrame({"z": ["a", "b"] * 10, "c": pd.Categorical(["low", "high"] * 5 + ["mid"] * 10, dtype=kind)})
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=10)
    pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", M)
    released = pd.read_parquet(tmp_path / "out.parquet")
    assert released["c"].dtype == pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    assert released["c"].astype(str).tolist() == frame["c"].astype(str).tolist()


def frame() -> pd.DataFrame:
    made = pd.DataFrame(
        {
            "z": ["a", "b"] * (N // 2),
            "count": pd.array([1, None] * (N // 2), dtype="Int16"),
            "share": pd.array([0.5, None] * (N // 2), dtype="Float64"),
            "flag": pd.array([True, None] * (N // 2), dtype="boolean"),
            "text": pd.array(["x", None] * (N // 2), dtype="string"),
            "when": pd.date_range("2024-01-01", periods=N, tz="Europe/Vienna"),
            "category": pd.Categorical(["u", "v"] * (N // 2)),
        },
        index=pd.Index([3 * k for k in range(N)], name="person"),
    )
    made.attrs = {"source": SECRET, "nested": {"deep": [SECRET]}}
    made.columns.name = SECRET
    return made


def test_a_pandas_frame_comes_back_without_its_attributes(tmp_path: Path) -> None:
    before = frame()
    before.to_parquet(tmp_path / "in.parquet")
    assert SECRET.encode() in (tmp_path / "in.parquet").read_bytes()
    pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", M)
    assert SECRET.encode() not in (tmp_path / "out.parquet").read_bytes()
    after = pd.read_parquet(tmp_path / "out.parquet")
    assert after.attrs == {}
    pd.testing.assert_frame_equal(after.drop(columns="z"), before.drop(columns="z"), check_names=False)
    assert after.index.name == "person"
    assert after["z"].dtype == before["z"].dtype


def test_an_index_without_a_name_and_one_of_several_levels(tmp_path: Path) -> None:
    for index in (
        pd.Index([k * k for k in range(N)]),
        pd.MultiIndex.from_product([range(N // 2), ["x", "y"]], names=["h", None]),
    ):
        before = pd.DataFrame({"z": ["a", "b"] * (N // 2), "x": 1.5}, index=index)
        before.to_parquet(tmp_path / "in.parquet", index=True)
        pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", M, force=True)
        after = pd.read_parquet(tmp_path / "out.parquet")
        pd.testing.assert_frame_equal(after[["x"]], before[["x"]])


def test_a_dropped_index_is_no_index(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "in.parquet")
    pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", M, drop=["person"])
    assert pd.read_parquet(tmp_path / "out.parquet").index.equals(pd.RangeIndex(N))


def test_a_new_identifier_in_place_of_a_number_is_text(tmp_path: Path) -> None:
    made = pd.DataFrame({"id": pd.array(range(N), dtype="Int64"), "z": ["a", "b"] * (N // 2)})
    made.to_parquet(tmp_path / "in.parquet")
    pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", M, new_id="id")
    assert all(isinstance(v, str) for v in pd.read_parquet(tmp_path / "out.parquet")["id"])


@pytest.mark.parametrize(
    "block",
    [
        b"SECRET",
        b'"SECRET"',
        b'["SECRET"]',
        b'{"SECRET": 1}',
        b'{"columns": "SECRET", "index_columns": []}',
        b'{"columns": ["SECRET", {"name": "SECRET", "field_name": "z", "numpy_type": "SECRET"}], "index_columns": ["SECRET"]}',
        b'{"columns": [{"name": "z", "field_name": "z", "numpy_type": "Int64"}], "index_columns": [{"name": "SECRET"}]}',
        b"[" * 100_000,
        b'{"columns": [' + b"9" * 5000 + b"]}",
    ],
)
def test_a_block_for_pandas_that_says_something_else(block: bytes, tmp_path: Path) -> None:
    table = pa.table({"z": ["a", "b"] * (N // 2)}).replace_schema_metadata({b"pandas": block})
    pq.write_table(table, tmp_path / "in.parquet")
    pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", M)
    assert SECRET.encode() not in (tmp_path / "out.parquet").read_bytes()
    assert list(pd.read_parquet(tmp_path / "out.parquet").columns) == ["z"]


def test_frames_in_memory_lose_their_notes_too(tmp_path: Path) -> None:
    before = frame()
    after = M.perturb(before)
    assert (after.attrs, before.attrs["source"]) == ({}, SECRET)
    columns = {"z": pa.array(["a", "b"] * (N // 2)), "s": COLUMNS["struct"]}
    schema = pa.schema([noted(c.type, n) for n, c in columns.items()], NOTE)
    released = M.perturb(pa.Table.from_arrays(list(columns.values()), schema=schema))
    assert released.column("s").to_pylist() == columns["s"].to_pylist()
    pq.write_table(released, tmp_path / "own.parquet")
    assert SECRET.encode() not in (tmp_path / "own.parquet").read_bytes()
    arrow = M.perturb(pa.Table.from_pandas(before))
    assert SECRET not in str(arrow.schema.metadata)
    pd.testing.assert_frame_equal(arrow.to_pandas()[["count", "text"]], before[["count", "text"]], check_names=False)

"""Text categories in an order that somebody chose keep it whatever holds the records, as far as that knows it; elsewhere they are sorted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset as ds
from pyarrow import feather

import pramana as pr
from pramana.frames import cells

LEVELS, ANSWERS = ["low", "mid", "high"], ["no", "maybe"]
CHOSEN, SORTED = ("g[T.mid]", "g[T.high]"), ("g[T.low]", "g[T.mid]")
N = 900


@pytest.fixture(scope="module", params=[False, True], ids=["unordered", "ordered"])
def records(request: pytest.FixtureRequest) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"z": rng.normal(size=N)})
    frame["g"] = pd.Categorical(rng.choice(LEVELS, N, p=[0.2, 0.3, 0.5]), LEVELS, ordered=request.param)
    frame["y"] = pd.Categorical(rng.choice(ANSWERS, N, p=[0.3, 0.7]), ANSWERS, ordered=request.param)
    return frame


@pytest.fixture(scope="module")
def folder(records: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("chosen")
    parts = sorted((records.iloc[k::3] for k in range(3)), key=len)
    for k, part in enumerate(parts):
        part.to_parquet(out / f"part-{k}.parquet", index=False, row_group_size=100)
    return out


def relation(frame: pd.DataFrame) -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("records", frame)
    return connection.sql("select * from records")


def of_dask(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)


def saved(frame: pd.DataFrame, folder: Path) -> Path:
    feather.write_feather(frame, str(folder.parent / "whole.feather"))
    return folder.parent / "whole.feather"


KNOWN: dict[str, tuple[Any, dict[str, Any]]] = {
    "pandas": (lambda frame, _: frame, {}),
    "dict": (lambda frame, _: {name: frame[name] for name in frame}, {}),
    "Arrow": (lambda frame, _: pa.Table.from_pandas(frame), {}),
    "Parquet": (lambda _, folder: folder, {}),
    "one file": (lambda _, folder: folder / "part-1.parquet", {}),
    "in blocks": (lambda _, folder: folder, {"memory": 1}),
    "a file in blocks": (lambda _, folder: folder / "part-1.parquet", {"memory": 1}),
    "engine duckdb": (lambda _, folder: folder, {"memory": 1, "engine": "duckdb"}),
    "dataset": (lambda _, folder: ds.dataset(folder), {"memory": 1}),
    "reader": (lambda frame, _: pa.Table.from_pandas(frame).to_reader(max_chunksize=50), {}),
    "Feather": (saved, {"memory": 1}),
    "DuckDB": (lambda frame, _: relation(frame), {"memory": 1}),
    "Dask": (lambda frame, _: of_dask(frame), {"memory": 1}),
}


@pytest.mark.parametrize("holds", KNOWN)
def test_who_knows_the_order_keeps_it(holds: str, records: pd.DataFrame, folder: Path) -> None:
    """The reference level, and what counts as a success."""
    of, options = KNOWN[holds]
    if options.get("engine") == "duckdb":
        pytest.importorskip("duckdb")
    whole = records if "file" not in holds else pd.read_parquet(folder / "part-1.parquet")
    for formula, family in (("z ~ g", "gaussian"), ("y ~ z", "binomial")):
        here = pr.fit(formula, whole, None, family=family)
        found = pr.fit(formula, of(records, folder), None, family=family, **options)
        assert found.parameters == here.parameters
        np.testing.assert_allclose(found.estimate, here.estimate, rtol=1e-9)
        np.testing.assert_allclose(found.standard_errors, here.standard_errors, rtol=1e-9)
    assert pr.fit("z ~ g", records, None).parameters[1:] == CHOSEN


@pytest.mark.parametrize("holds", ["Arrow", "Parquet", "in blocks", "engine duckdb", "Feather", "DuckDB"])
def test_a_collapse_to_cells_keeps_it(
    holds: str, records: pd.DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, options = KNOWN[holds]
    if "duckdb" in holds.lower():
        pytest.importorskip("duckdb")
    monkeypatch.setattr(cells, "ROWS", N)
    here = pr.fit("y ~ g", records, None, family="binomial")
    found = pr.fit("y ~ g", of(records, folder), None, family="binomial", **options)
    assert found.parameters[1:] == here.parameters[1:] == CHOSEN
    np.testing.assert_allclose(found.estimate, here.estimate, rtol=1e-9)
    shares = pr.fit(pr.proportions("g"), of(records, folder), None, **options)
    assert shares.parameters == ("g[low]", "g[mid]", "g[high]")


def test_who_does_not_know_it_sorts(records: pd.DataFrame, folder: Path, tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    records.to_csv(tmp_path / "records.csv", index=False)
    plain = pa.table({name: pa.array(records[name].astype(object)) for name in records}).set_column(
        1, "g", pa.array(records["g"].astype(str)).dictionary_encode()
    )
    unknown = [tmp_path / "records.csv", pl.from_pandas(records), pl.scan_parquet(folder / "*.parquet"), plain]
    assert [pr.fit("z ~ g", data, None).parameters[1:] for data in unknown] == [SORTED] * 4
    written = pr.fit(f"z ~ C(g, levels={LEVELS})", tmp_path / "records.csv", None)
    np.testing.assert_allclose(written.estimate, pr.fit("z ~ g", records, None).estimate, rtol=1e-9)


def test_a_note_on_other_categories_than_there_are_is_not_believed(records: pd.DataFrame) -> None:
    """A dictionary that was made anew, in the order of first appearance, of a column that pandas once had as categories."""
    table = pa.Table.from_pandas(records.assign(g=records["g"].astype(object).astype("category")))
    some = table.filter(pa.compute.not_equal(table["g"].cast(pa.string()), "mid"))
    made = some["g"].cast(pa.string()).combine_chunks().dictionary_encode()
    stale = some.set_column(some.schema.get_field_index("g"), "g", made)
    assert pr.fit("z ~ g", stale, None).parameters == ("Intercept", "g[T.low]")


def test_polars_enum_and_categories_of_many_files(records: pd.DataFrame) -> None:
    pl = pytest.importorskip("polars")
    enums = pl.DataFrame({"g": pl.Series(records["g"].tolist(), dtype=pl.Enum(LEVELS)), "z": records["z"].to_numpy()})
    for data, options in ((enums, {}), (enums.lazy(), {"memory": 1})):
        assert pr.fit("z ~ g", data, None, **options).parameters[1:] == CHOSEN

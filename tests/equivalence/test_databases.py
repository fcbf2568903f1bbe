"""Tables of a DuckDB file, and Parquet files that DuckDB reads, give the answer of the frame."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset
from test_sources import MECHANISM, QUESTIONS, SAMPLINGS, N, data  # noqa: F401

import pramana as pr
from pramana.analysis import streaming
from pramana.frames import sources
from pramana.frames.sources import FileSource


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH", 300)
    monkeypatch.setattr(streaming, "PILOT", 700)


@pytest.fixture(scope="module")
def folder(data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    out = tmp_path_factory.mktemp("databases")
    (out / "parts").mkdir()
    for k, rows in enumerate(np.array_split(np.arange(N), 3)):
        data.iloc[rows].to_parquet(out / "parts" / f"part-{k}.parquet", index=False, row_group_size=300)
    with duckdb.connect(str(out / "register.duckdb")) as connection:
        people = data.assign(id=np.arange(N))  # noqa: F841 - which the query names
        connection.sql("create table people as select * from people")
    return out


CASES = [("covariate", "resampling"), ("mean", "both"), ("total", "resampled clusters"), ("noisy column", "design")]


@pytest.mark.parametrize(("question", "sampling"), CASES)
@pytest.mark.parametrize("query", ["people", "select * from people order by id"])
def test_a_duckdb_file_gives_the_answer_of_the_frame(
    question: str,
    sampling: str,
    query: str,
    data: pd.DataFrame,  # noqa: F811
    folder: Path,
) -> None:
    _same(question, sampling, data, pr.DuckDB(folder / "register.duckdb", query))


@pytest.mark.parametrize(("question", "sampling"), CASES)
def test_files_that_duckdb_reads_give_the_answer_of_the_frame(
    question: str,
    sampling: str,
    data: pd.DataFrame,  # noqa: F811
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pramana.analysis.task.taken", lambda *_, **__: None)
    monkeypatch.setattr(FileSource, "batches", None)
    _same(question, sampling, data, folder / "parts", engine="duckdb")


def _same(question: str, sampling: str, data: pd.DataFrame, source: Any, **more: Any) -> None:  # noqa: F811
    what, options = QUESTIONS[question]
    options = {**options, **SAMPLINGS[sampling]}
    found, whole = (
        pr.fit(what, source, MECHANISM, memory=1, **options, **more),
        pr.fit(what, data, MECHANISM, **options),
    )
    np.testing.assert_allclose(found.estimate, whole.estimate, rtol=1e-8)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-8)
    assert found.n == whole.n


def test_what_is_wrong_with_a_database_is_named(folder: Path, tmp_path: Path) -> None:
    where = folder / "register.duckdb"
    for path, query, message in (
        (where, "nowhere", "nowhere"),
        (where, "select * frm people", "could not be read"),
        (where, "create table other (x int)", r"is no single question \(CREATE\)"),
        (where, "select 1; select 2", r"is no single question \(SELECT, SELECT\)"),
        (where, ";", r"is no single question \(empty\)"),
        (tmp_path / "none.duckdb", "people", "there is no file"),
        (folder / "parts" / "part-0.parquet", "people", "could not be read"),
    ):
        with pytest.raises(pr.DataError, match=message):
            pr.fit(pr.mean("inc"), pr.DuckDB(path, query), MECHANISM)
    with pytest.raises(pr.DataError, match=r"'z' is not in the query of .*register\.duckdb"):
        pr.fit(pr.mean("z"), pr.DuckDB(where, "people"), MECHANISM)


def test_a_query_of_a_database_writes_nothing(folder: Path, tmp_path: Path) -> None:
    """DuckDB opens the database for reading only, and would write other files all the same."""
    own = tmp_path / "own.csv"
    for query in (f"copy people to '{own}'", f"copy people to '{own}'; select * from people", f"attach '{own}'"):
        with pytest.raises(pr.DataError, match="is no single question"):
            pr.fit(pr.mean("inc"), pr.DuckDB(folder / "register.duckdb", query), MECHANISM)
    assert not list(tmp_path.iterdir())
    pivot = pr.DuckDB(folder / "register.duckdb", "pivot people on edu using count(*) group by inc")
    assert "inc" in pivot.names


@pytest.mark.parametrize(("path", "query"), [(None, "people"), (5, "people"), ("register.duckdb", None)])
def test_a_database_is_named_by_text(path: Any, query: Any) -> None:
    with pytest.raises(pr.DataError, match=r"must be (the path of a DuckDB database|text)"):
        pr.DuckDB(path, query)


@pytest.mark.parametrize(
    ("uri", "order_by", "message"),
    [
        (None, "id", "uri must be text"),
        ("host=h password=zqx1", "id", "uri must be text"),
        ("http://u:zqx1@h/d", "id", "uri must be text"),
        ("postgresql://h/d", None, "order_by=None must name"),
        ("postgresql://h/d", [], r"order_by=\[\] must name"),
        ("postgresql://h/d", ["id", 5], "must name one or more columns"),
    ],
)
def test_a_server_is_named_by_a_uri_and_an_order(uri: Any, order_by: Any, message: str) -> None:
    with pytest.raises(pr.DataError, match=message) as refusal:
        pr.PostgreSQL(uri, "people", order_by)
    assert "zqx1" not in str(refusal.value)


@pytest.mark.parametrize(("password", "quoted"), [("zqx1/2", "zqx1"), ("zqx1@2", "2@h"), ("zqx1%zz", "zqx1%zz")])
def test_a_uri_that_cannot_be_read_does_not_show_its_password(
    password: str, quoted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As libpq does, which quotes the part that it stumbles over."""

    def connect(_: str) -> None:
        raise ValueError(f'invalid port number: "{quoted}"')

    module = SimpleNamespace(dbapi=SimpleNamespace(connect=connect))
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", module)
    with pytest.raises(pr.DataError, match="its text is withheld, for it may quote the password") as refusal:
        pr.fit(pr.mean("inc"), pr.PostgreSQL(f"postgresql://u:{password}@h/d", "people", "id"), MECHANISM)
    assert refusal.value.__context__ is None
    with pytest.raises(pr.DataError, match="no PostgreSQL server answered: invalid port"):
        pr.fit(pr.mean("inc"), pr.PostgreSQL("postgresql://u:other@h/d", "people", "id"), MECHANISM)


def test_two_columns_of_one_name_in_a_dataset_are_named(data: pd.DataFrame) -> None:  # noqa: F811
    table = pa.Table.from_pandas(data, preserve_index=False)
    twice = dataset.dataset(pa.table([*table.columns, table["x"]], names=[*table.column_names, "x"]))
    with pytest.raises(pr.DataError, match="two columns of the dataset have the same name, 'x'"):
        pr.fit("inc ~ x", twice, MECHANISM, memory=1)


def test_a_file_that_changes_under_duckdb_is_named(
    data: pd.DataFrame,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data.to_parquet(tmp_path / "one.parquet", index=False)
    true = streaming.learn

    def learned(*given: Any) -> Any:
        found = true(*given)
        time.sleep(0.01)
        data.iloc[::-1].to_parquet(tmp_path / "one.parquet", index=False)
        return found

    monkeypatch.setattr("pramana.analysis.task.learn", learned)
    with pytest.raises(pr.DataError, match=r"one\.parquet.* changed while it was read"):
        pr.fit("inc ~ x", tmp_path, MECHANISM, memory=1, engine="duckdb")

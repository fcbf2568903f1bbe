"""Spark and PostgreSQL give the answer of this process (`make engines-test`)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from test_sources import BY_REGION, MECHANISM, QUESTIONS, SAMPLINGS, N, data  # noqa: F401

import pramana as pr
from pramana.analysis import streaming
from pramana.frames import sources

pytestmark = pytest.mark.engines

CASES = [
    ("response", "sandwich", MECHANISM),
    ("covariate", "resampling", MECHANISM),
    ("correlation", "both", BY_REGION),
    ("noisy column", "design", MECHANISM),
    ("mean", "resampled clusters", BY_REGION),
    ("total", "resampling", MECHANISM),
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH", 300)
    monkeypatch.setattr(sources, "PIECE", 400)
    monkeypatch.setattr(streaming, "PILOT", 700)


@pytest.fixture(scope="module")
def parts(data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    folder = tmp_path_factory.mktemp("parts")
    for k, rows in enumerate(np.array_split(np.arange(N), 3)):
        data.iloc[rows].to_parquet(folder / f"part-{k}.parquet", index=False, row_group_size=300)
    return folder


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java runtime is installed")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def postgres(data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: F811
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="adbc-driver-postgresql is not installed")
    pgserver = pytest.importorskip("pgserver", reason="pgserver is not installed")
    folder = tmp_path_factory.mktemp("postgres")
    for place in (folder, *folder.parents[:3]):
        place.chmod(0o755)  # the server runs as a user of its own where this one is root
    server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        with dbapi.connect(server.get_uri()) as connection, connection.cursor() as cursor:
            numbered = data.assign(id=np.arange(N)).sample(frac=1, random_state=1)
            cursor.adbc_ingest("people", pa.Table.from_pandas(numbered, preserve_index=False))
            connection.commit()
        yield server.get_uri()
    finally:
        server.cleanup()


def same(found: pr.Result, local: pr.Result) -> None:
    np.testing.assert_allclose(found.estimate, local.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, local.standard_errors, rtol=1e-9)
    assert (found.n, found.parameters, found.inference) == (local.n, local.parameters, local.inference)


@pytest.mark.parametrize(("question", "sampling", "mechanism"), CASES, ids=lambda v: str(v)[:20])
def test_spark_gives_the_answer_of_this_process(
    question: str, sampling: str, mechanism: pr.Mechanism, parts: Path, spark: Any
) -> None:
    what, options = QUESTIONS[question]
    options = {**options, **SAMPLINGS[sampling], "memory": 1}
    found = pr.fit(what, parts, mechanism, engine=pr.SparkEngine(spark), **options)
    same(found, pr.fit(what, parts, mechanism, **options))


def test_spark_by_its_name_is_the_active_session(parts: Path, spark: Any) -> None:
    assert pr.fit(pr.mean("y"), parts, MECHANISM, memory=1, engine="spark").n == N


def test_a_spark_frame_gives_the_answer_of_its_records(data: pd.DataFrame, spark: Any) -> None:  # noqa: F811
    """Whatever order its partitions come in: draws go by an identifier."""
    numbered = data.assign(person=np.arange(N))
    frame = spark.createDataFrame(numbered).repartition(3, "firm")
    for what, options in (
        ("inc ~ x + edu", {"inference": pr.Resampling(draws=20, seed=2, id="person")}),
        (pr.median("inc"), {"clusters": "firm"}),
    ):
        same(pr.fit(what, frame, MECHANISM, memory=1, **options), pr.fit(what, numbered, MECHANISM, **options))
    with pytest.raises(pr.PramanaError, match=r"promises no order.*Resampling\(id='person'\)"):
        pr.fit("inc ~ x", frame, MECHANISM, memory=1, inference=pr.Resampling(draws=20))


def test_an_error_of_a_spark_worker_is_the_error_of_the_file(parts: Path, tmp_path: Path, spark: Any) -> None:
    for path in parts.iterdir():
        shutil.copy(path, tmp_path)
    bad = pd.read_parquet(tmp_path / "part-2.parquet")
    bad.loc[5, "y"] = 7
    bad.to_parquet(tmp_path / "part-2.parquet", index=False)
    with pytest.raises(pr.DataError, match="not levels of the mechanism"):
        pr.fit(pr.mean("y"), tmp_path, MECHANISM, memory=1, engine=pr.SparkEngine(spark))


@pytest.mark.parametrize(("question", "sampling", "mechanism"), CASES, ids=lambda v: str(v)[:20])
def test_postgresql_gives_the_answer_of_this_process(
    question: str, sampling: str, mechanism: pr.Mechanism, parts: Path, postgres: str
) -> None:
    what, options = QUESTIONS[question]
    options = {**options, **SAMPLINGS[sampling], "memory": 1}
    query = "people" if question != "total" else "select * from people where id >= 0;"
    found = pr.fit(what, pr.PostgreSQL(postgres, query, order_by="id"), mechanism, **options)
    same(found, pr.fit(what, parts, mechanism, **options))


def test_postgresql_names_what_is_wrong(postgres: str) -> None:
    with pytest.raises(pr.DataError, match="nowhere"):
        pr.fit(pr.mean("y"), pr.PostgreSQL(postgres, "nowhere", order_by="id"), MECHANISM)
    with pytest.raises(pr.DataError, match="'z' is not in the PostgreSQL query"):
        pr.fit(pr.mean("z"), pr.PostgreSQL(postgres, "people", order_by="id"), MECHANISM)
    for what, message in (
        ("y, id, y as y", "two columns of the PostgreSQL query have the same name, 'y'"),
        ("y::numeric as y, id", r"column 'y' .* is of type numeric, with which Arrow does not compute: cast it"),
    ):
        with pytest.raises(pr.DataError, match=message):
            pr.fit(pr.mean("y"), pr.PostgreSQL(postgres, f"select {what} from people", order_by="id"), MECHANISM)
    away = pr.PostgreSQL("postgresql://someone:secret@127.0.0.1:9/base", "people", order_by="id", timeout=2)
    with pytest.raises(pr.DataError, match="no PostgreSQL server answered") as found:
        pr.fit(pr.mean("y"), away, MECHANISM)
    assert "secret" not in str(found.value) + repr(away)


def test_spark_makes_the_draws_of_a_release(spark: Any, parts: Path, tmp_path: Path) -> None:
    """As the page on releasing from a cluster has it: partition by partition, with the key from its file."""
    (tmp_path / "in").mkdir()
    for k, path in enumerate(sorted(parts.glob("*.parquet"))):
        frame = pd.read_parquet(path)
        frame.assign(person=10_000 * k + np.arange(len(frame))).to_parquet(tmp_path / "in" / path.name, index=False)
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    name = str(key)

    def perturbed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from MECHANISM.perturb(pa.Table.from_batches([batch]), key=name, id="person").to_batches()

    register = spark.read.parquet(str(tmp_path / "in")).repartition(5)
    drawn = register.mapInArrow(perturbed, register.schema).toPandas()
    pr.release(tmp_path / "in", tmp_path / "out", MECHANISM, key=key, id="person")
    public = pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / "out").glob("*.parquet"))])
    for column in MECHANISM.columns:
        found, expected = (frame.set_index("person")[column].sort_index().tolist() for frame in (drawn, public))
        assert found == expected

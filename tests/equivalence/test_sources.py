"""The same answer from every source of records, in memory and block by block."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, feather, parquet

import pramana as pr
from pramana.analysis import distinct, streaming
from pramana.engines.streaming import StreamEngine
from pramana.frames import cells, sources

N = 2100
LEVELS = ["low", "mid", "high"]
P = np.full((3, 3), 0.1) + 0.7 * np.eye(3)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x, g = rng.normal(size=N), rng.choice(["a", "b", "c"], N)
    edu = rng.integers(0, 3, N)
    y = (rng.random(N) < 1 / (1 + np.exp(0.3 - 0.8 * x - 0.5 * (g == "b")))).astype(int)
    released = np.array([rng.choice(3, p=P[:, k]) for k in edu])
    return pd.DataFrame(
        {
            "x": x,
            "g": g,
            "w": rng.uniform(0.5, 2, N),
            **{f"r{k}": rng.uniform(0.5, 2, N) for k in range(1, 5)},
            "firm": rng.integers(0, 60, N),
            "y": np.where(rng.random(N) < 0.15, 1 - y, y),
            "edu": np.array(LEVELS)[released],
            "inc": 2 + x + (edu == 2) + rng.normal(size=N),
            "age": rng.normal(size=N) + rng.laplace(scale=0.3, size=N),
        }
    )


MECHANISM = pr.Mechanism(
    {
        "y": pr.TransitionMatrix.binary(0.85, 0.85),
        "edu": pr.TransitionMatrix(LEVELS, P),
        "age": pr.LaplaceNoise(0.3),
    }
)
BY_REGION = pr.Mechanism(
    {
        "y": pr.Stratified(
            "g", {k: pr.TransitionMatrix.binary(s, s) for k, s in (("a", 0.8), ("b", 0.9), ("c", 0.85))}
        ),
        "edu": pr.TransitionMatrix(LEVELS, P),
        "age": pr.LaplaceNoise(0.3),
    }
)


@pytest.fixture(scope="module")
def folder(data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records in every format, those of a folder in seven files."""
    out = tmp_path_factory.mktemp("sources")
    for kind in ("parts", "texts"):
        (out / kind).mkdir()
    for k, rows in enumerate(np.array_split(np.arange(N), 7)):
        data.iloc[rows].to_parquet(out / "parts" / f"part-{k}.parquet", index=False)
        data.iloc[rows].to_csv(out / "texts" / f"part-{k}.csv", index=False)
    parquet.write_table(pa.Table.from_pandas(data, preserve_index=False), out / "one.parquet", row_group_size=300)
    feather.write_feather(pa.Table.from_pandas(data, preserve_index=False), str(out / "one.arrow"))
    return out


def _relation(folder: Path) -> Any:
    return duckdb.connect().sql(f"select * from '{folder / 'one.parquet'}'")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "folder": lambda f: f / "parts",
    "pattern": lambda f: str(f / "parts" / "part-*.parquet"),
    "list": lambda f: sorted((f / "parts").iterdir()),
    "one file": lambda f: f / "one.parquet",
    "CSV folder": lambda f: f / "texts",
    "Arrow file": lambda f: f / "one.arrow",
    "dataset": lambda f: dataset.dataset(f / "parts"),
    "reader": lambda f: parquet.read_table(f / "one.parquet").to_reader(),
    "LazyFrame": lambda f: pl.scan_parquet(f / "one.parquet"),
    "DuckDB": _relation,
}
QUESTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "response": ("y ~ x + g", {"family": "binomial"}),
    "covariate": ("inc ~ x + edu", {}),
    "two columns": ("y ~ x + edu", {"family": "binomial", "inference": pr.Sandwich(interval="wald")}),
    "noisy column": ("inc ~ age + x", {}),
    "noise in a logit": ("y ~ age", {"family": "binomial"}),
    "mean": (pr.mean("inc", by="edu"), {}),
    "share": (pr.mean("y"), {}),
    "total": (pr.total("inc"), {}),
    "classes": (pr.multinomial("edu ~ x"), {}),
    "visits": ("firm ~ x + edu", {"family": "poisson"}),
    "correlation": (pr.correlation("inc", "x"), {}),
    "subset": ("inc ~ x", {"inference": pr.Sandwich(interval="wald"), "subset": "edu == 'high' and x > -1"}),
}
SAMPLINGS: dict[str, dict[str, Any]] = {
    "sandwich": {},
    "weights": {"weights": "w"},
    "clusters": {"clusters": "firm"},
    "both": {"weights": "w", "clusters": "firm"},
    "design": {"design": pr.SurveyDesign(weights="w", strata="g", clusters="firm")},
    "replicates": {"design": pr.SurveyDesign(weights="w", replicate_weights=("r1", "r2", "r3", "r4"))},
    "resampling": {"inference": pr.Resampling(draws=30, seed=4)},
    "resampled clusters": {"clusters": "firm", "inference": pr.Resampling(draws=30, seed=4)},
}
SIZES = {"one block": 10_000, "seven blocks": 300, "many blocks": 150}


def _covered() -> list[Any]:
    """Every pair of a source, a question, a sampling and a size of blocks occurs somewhere; a linear cover of the three longer lists."""
    names = [list(SOURCES), list(QUESTIONS), list(SAMPLINGS), list(SIZES)]
    out = {(names[0][k % 10], names[1][k % 12], names[2][k % 8], names[3][k % 3]) for k in range(96)}
    return [pytest.param(*case, id=" · ".join(case)) for case in sorted(out)]


@pytest.fixture(scope="module")
def in_memory() -> dict[Any, pr.Result]:
    """Answers of the frame, by question: one does for every source."""
    return {}


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Blocks of so many records, of which some are the sample that everything is learned on."""

    def cut(size: int, pilot: int = 400) -> None:
        monkeypatch.setattr(sources, "BATCH", size)
        monkeypatch.setattr(streaming, "PILOT", pilot)

    return cut


@pytest.mark.parametrize(("source", "question", "sampling", "size"), _covered())
def test_a_source_gives_the_answer_of_the_frame(
    source: str,
    question: str,
    sampling: str,
    size: str,
    data: pd.DataFrame,
    folder: Path,
    in_blocks: Callable[..., None],
    in_memory: dict[Any, pr.Result],
) -> None:
    what, options = QUESTIONS[question]
    options = {**options, **SAMPLINGS[sampling]}
    mechanism = BY_REGION if size == "seven blocks" else MECHANISM
    asked = (question, sampling, size == "seven blocks")
    whole = in_memory[asked] if asked in in_memory else pr.fit(what, data, mechanism, **options)
    in_memory[asked] = whole
    sampled = size == "many blocks"
    in_blocks(SIZES[size], 800 if sampled else N)
    memory = 1e9 if source == "reader" else 1.0  # what can be read once is held
    found = pr.fit(what, SOURCES[source](folder), mechanism, memory=memory, **options)
    scale = np.sqrt(np.diag(whole.covariance))
    assert found.parameters == whole.parameters
    np.testing.assert_allclose(found.estimate / scale, whole.estimate / scale, atol=1e-8, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-8)
    assert found.n == whole.n
    if not sampled:  # a sample may take a faint signal for another
        np.testing.assert_allclose(found.interval(), whole.interval(), rtol=1e-7, atol=1e-9)
        assert found.inference == whole.inference


@pytest.mark.parametrize("source", ["folder", "LazyFrame", "DuckDB", "CSV folder", "dataset"])
def test_what_fits_is_read_into_memory(source: str, data: pd.DataFrame, folder: Path) -> None:
    """Then everything works that works on a frame."""
    found = pr.fit(pr.median("inc", by="edu"), SOURCES[source](folder), MECHANISM)
    whole = pr.fit(pr.median("inc", by="edu"), data, MECHANISM)
    np.testing.assert_allclose(found.estimate, whole.estimate, rtol=1e-12)
    np.testing.assert_allclose(found.interval(), whole.interval(), rtol=1e-9)


def test_only_the_columns_in_use_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    true = sources.FileSource.batches

    def seen(self: Any, columns: Any) -> Any:
        asked.append(list(columns))
        return true(self, columns)

    monkeypatch.setattr(sources.FileSource, "batches", seen)
    pr.fit(
        "y ~ x",
        folder / "parts",
        pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)}),
        family="binomial",
        memory=1,
    )
    assert {name for columns in asked for name in columns} == {"x", "y"}


@pytest.mark.parametrize("sampling", ["sandwich", "weights", "clusters"])
@pytest.mark.parametrize("source", ["folder", "CSV folder", "DuckDB", "LazyFrame"])
def test_few_combinations_become_cells(
    source: str, sampling: str, data: pd.DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted once, in whatever batches; the same answer as from the rows."""
    monkeypatch.setattr(cells, "ROWS", 1000)
    monkeypatch.setattr(cells, "SAVING", 1)
    monkeypatch.setattr(distinct, "ROWS", 1000)
    monkeypatch.setattr(sources, "BATCH", 100)
    monkeypatch.setattr(StreamEngine, "__init__", None)  # no stream: memory would not suffice for the rows
    options = {**SAMPLINGS[sampling], "family": "binomial"}
    mechanism = pr.Mechanism({n: MECHANISM.assignments[k].channel for k, n in enumerate(("y", "edu"))})
    whole = pr.fit("y ~ edu", data, mechanism, **options)
    found = pr.fit("y ~ edu", SOURCES[source](folder), mechanism, memory=1, **options)
    np.testing.assert_allclose(found.estimate, whole.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-9)
    assert found.n == whole.n


def test_cells_do_not_depend_on_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "ROWS", 1000)
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})
    options: dict[str, Any] = {"family": "binomial", "inference": pr.Resampling(draws=20, seed=1)}
    found = []
    for size, source in ((50, "folder"), (700, "DuckDB"), (5000, "CSV folder")):
        monkeypatch.setattr(sources, "BATCH", size)
        found.append(pr.fit("y ~ g", SOURCES[source](folder), mechanism, **options))
    for other in found[1:]:
        np.testing.assert_allclose(other.standard_errors, found[0].standard_errors, rtol=1e-10)


def test_missing_values_are_counted_over_all_blocks(
    data: pd.DataFrame, tmp_path: Path, in_blocks: Callable[..., None]
) -> None:
    gaps = data.astype({"x": float}).copy()
    gaps.loc[gaps.index[[3, 500, 1999]], "x"] = np.nan
    gaps.to_parquet(tmp_path / "gaps.parquet", index=False)
    in_blocks(200)
    with pytest.raises(pr.DataError, match=r"3 of 2100 records have missing values, in 'x' \(3\)"):
        pr.fit("inc ~ x", tmp_path / "gaps.parquet", MECHANISM, memory=1)
    whole = pr.fit("inc ~ x", gaps, MECHANISM, missing="drop", inference=pr.Resampling(draws=20, seed=2))
    found = pr.fit(
        "inc ~ x",
        tmp_path / "gaps.parquet",
        MECHANISM,
        missing="drop",
        memory=1,
        inference=pr.Resampling(draws=20, seed=2),
    )
    np.testing.assert_allclose(
        found.standard_errors, whole.standard_errors, rtol=1e-9
    )  # weights go by place among those in use
    assert [d.message for d in found.diagnostics] == [d.message for d in whole.diagnostics]


def test_frames_are_collapsed_as_files_are(data: pd.DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same cells in the same order, so that draws agree too; and the answer of the rows."""
    options: dict[str, Any] = {"family": "binomial"}
    rows = pr.fit("y ~ g + edu", data, MECHANISM, **options)
    ordered = data.assign(g=pd.Categorical(data["g"], ["c", "a", "b"]))
    by_rows = pr.fit("y ~ g", ordered, MECHANISM, **options)
    monkeypatch.setattr(cells, "ROWS", 1000)
    monkeypatch.setattr(distinct, "ROWS", 1000)
    collapsed = pr.fit("y ~ g + edu", data, MECHANISM, **options)
    np.testing.assert_allclose(collapsed.estimate, rows.estimate, rtol=1e-9)
    np.testing.assert_allclose(collapsed.interval(), rows.interval(), rtol=1e-9)
    assert (collapsed.n, collapsed.inference) == (rows.n, rows.inference)
    assert (
        pr.fit("y ~ g", ordered, MECHANISM, **options).parameters == by_rows.parameters
    )  # the user's order of levels stays
    drawn = {"inference": pr.Resampling(draws=20, seed=1), **options}
    found = [
        pr.fit("y ~ g + edu", source, MECHANISM, **drawn) for source in (data, pl.from_pandas(data), folder / "parts")
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other.standard_errors, found[0].standard_errors, rtol=1e-10)


def test_estimators_of_a_folder_are_compared_and_tested(data: pd.DataFrame, folder: Path) -> None:
    methods = ("reversion", "likelihood")
    found = pr.compare("y ~ x", folder / "parts", MECHANISM, methods, family="binomial", memory="1 GB")
    whole = pr.compare("y ~ x", data, MECHANISM, methods, family="binomial")
    assert found.specification is not None
    assert whole.specification is not None
    assert found.specification.statistic == pytest.approx(whole.specification.statistic, rel=1e-9)


@pytest.mark.parametrize("source", ["frame", "folder"])
def test_methods_that_read_more_columns_than_the_question_see_every_record(
    source: str, data: pd.DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The truth of validated records, or the covariates of a model of the hidden ones, would be lost in cells of the question's columns."""
    rng = np.random.default_rng(3)
    known = data.assign(sure=np.where(rng.random(N) < 0.3, data["y"], np.nan))
    counts = [[int(((known["sure"] == a) & (known["y"] == b)).sum()) for a in (0, 1)] for b in (0, 1)]
    measured = pr.Mechanism({"y": pr.TransitionMatrix.from_validation(counts, internal=True)})
    place = folder / "known"
    place.mkdir(exist_ok=True)
    known.to_parquet(place / "all.parquet", index=False)
    cases: list[tuple[Any, pr.Mechanism, Any, dict[str, Any]]] = [
        (pr.mean("y"), measured, pr.Validated({"y": "sure"}), {}),
        ("y ~ edu", MECHANISM, pr.Likelihood(covariate_model="x"), {"family": "binomial"}),
    ]
    rows = [pr.fit(what, known, m, method=method, **options) for what, m, method, options in cases]
    monkeypatch.setattr(cells, "ROWS", 1000)
    monkeypatch.setattr(distinct, "ROWS", 1000)
    given = known if source == "frame" else place
    for whole, (what, m, method, options) in zip(rows, cases, strict=True):
        found = pr.fit(what, given, m, method=method, **options)
        np.testing.assert_allclose(found.estimate, whole.estimate, rtol=1e-8)
        np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-6)


def test_units_whose_records_have_gaps_were_sampled_too(
    data: pd.DataFrame, tmp_path: Path, in_blocks: Callable[..., None]
) -> None:
    """They count among the units of their stratum, although none of their records is left."""
    gaps = data.astype({"x": float}).copy()
    gaps.loc[gaps["firm"].isin([3, 7, 11]), "x"] = np.nan
    gaps.to_parquet(tmp_path / "gaps.parquet", index=False)
    design = pr.SurveyDesign(weights="w", strata="g", clusters="firm")
    whole = pr.fit("inc ~ x", gaps, MECHANISM, missing="drop", design=design)
    in_blocks(200, N)
    found = pr.fit("inc ~ x", tmp_path / "gaps.parquet", MECHANISM, missing="drop", design=design, memory=1)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-9)
    assert found.inference == whole.inference

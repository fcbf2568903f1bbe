"""Every kind of frame and file gives the same answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import pramana as pr

FORMULA = "income ~ age * edu + region"
EDU = ["low", "mid", "high"]


def arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def chunked(frame: pd.DataFrame) -> pa.Table:
    """Blocks in which some levels do not occur."""
    by_level = frame.sort_values("edu", kind="stable")
    table = pa.concat_tables([arrow(by_level.iloc[:37]), arrow(by_level.iloc[37:210]), arrow(by_level.iloc[210:])])
    assert table.column("edu").num_chunks == 3
    return table


def dictionary(frame: pd.DataFrame) -> pa.Table:
    table = arrow(frame)
    for name in ("edu", "region"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(name).cast(pa.string()).dictionary_encode())
    return table


def dictionary_chunks(frame: pd.DataFrame) -> pa.Table:
    return pa.concat_tables([dictionary(frame.iloc[:5]), dictionary(frame.iloc[5:])])


def text_as(dtype: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.astype({"edu": dtype, "region": dtype})


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas with another index": lambda f: f.set_axis(range(1000, 1000 + len(f))),
    "pandas object": text_as(object),
    "pandas category": text_as("category"),
    "pandas string": text_as("string"),
    "pandas pyarrow string": text_as(pd.ArrowDtype(pa.string())),
    "pandas pyarrow numbers": lambda f: f.astype({"income": "double[pyarrow]", "age": "double[pyarrow]"}),
    "pandas nullable numbers": lambda f: f.astype({"income": "Float64", "female": "Int64"}),
    "polars": pl.from_pandas,
    "polars Categorical": lambda f: pl.from_pandas(f).with_columns(pl.col("edu", "region").cast(pl.Categorical)),
    "polars Enum": lambda f: pl.from_pandas(f).with_columns(
        pl.col("edu").cast(pl.Enum(["high", "low", "mid", "unused"])),
        pl.col("region").cast(pl.Enum(["north", "south"])),
    ),
    "pyarrow": arrow,
    "pyarrow chunked": chunked,
    "pyarrow dictionary": dictionary,
    "pyarrow dictionary chunks": dictionary_chunks,
    "dict of arrays": lambda f: {name: f[name].to_numpy() for name in f},
    "dict of lists": lambda f: f.to_dict("list"),
    "other column order": lambda f: f[sorted(f.columns, reverse=True)],
    "extra columns": lambda f: f.assign(extra=pd.Timestamp("2020-01-01"), nothing=np.nan, text="x"),
}
FAMILY_KIND = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table, "dict": dict}


@pytest.fixture
def expected(survey: pd.DataFrame, mechanism: pr.Mechanism) -> pr.Result:
    return pr.fit(FORMULA, survey, mechanism)


def assert_same(result: pr.Result, expected: pr.Result) -> None:
    """Files and frames hold the same doubles, so only the order of additions may differ."""
    assert result.parameters == expected.parameters
    np.testing.assert_allclose(result.estimate, expected.estimate, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.covariance, expected.covariance, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_every_frame_gives_the_same_answer(
    kind: str, survey: pd.DataFrame, mechanism: pr.Mechanism, expected: pr.Result
) -> None:
    assert_same(pr.fit(FORMULA, KINDS[kind](survey), mechanism), expected)


def write_csv(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_csv(folder / "survey.csv", index=False)
    return folder / "survey.csv"


def write_gzip(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_csv(folder / "survey.csv.gz", index=False)
    return folder / "survey.csv.gz"


def write_arrow_csv(frame: pd.DataFrame, folder: Path) -> Path:
    csv.write_csv(arrow(frame), folder / "quoted.csv")
    return folder / "quoted.csv"


def write_parquet(frame: pd.DataFrame, folder: Path) -> Path:
    parquet.write_table(arrow(frame), folder / "survey.parquet", row_group_size=64)
    return folder / "survey.parquet"


@pytest.mark.parametrize("write", [write_csv, write_gzip, write_arrow_csv, write_parquet])
@pytest.mark.parametrize("as_text", [False, True])
def test_every_file_gives_the_same_answer(
    write: Any, as_text: bool, survey: pd.DataFrame, mechanism: pr.Mechanism, expected: pr.Result, tmp_path: Path
) -> None:
    path = write(survey, tmp_path)
    assert_same(pr.fit(FORMULA, str(path) if as_text else path, mechanism), expected)


@pytest.mark.parametrize("kind", ["pandas category", "polars Enum", "pyarrow dictionary", "dict of arrays"])
def test_a_perturbed_response_is_the_same_in_every_frame(kind: str, survey: pd.DataFrame) -> None:
    mechanism = pr.Mechanism({"employed": pr.TransitionMatrix.binary(0.9, 0.95, levels=["no", "yes"])})
    expected = pr.fit("employed ~ age", survey, mechanism, family="binomial")
    assert_same(pr.fit("employed ~ age", KINDS[kind](survey), mechanism, family="binomial"), expected)


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "dict of arrays"])
def test_weights_and_clusters_are_found_in_every_frame(
    kind: str, survey: pd.DataFrame, mechanism: pr.Mechanism, rng: np.random.Generator
) -> None:
    frame = survey.assign(w=rng.uniform(1, 2, len(survey)), village=rng.choice(list("abcdefgh"), len(survey)))
    options = {"weights": "w", "clusters": "village"}
    assert_same(
        pr.fit("income ~ edu", KINDS[kind](frame), mechanism, **options),
        pr.fit("income ~ edu", frame, mechanism, **options),
    )


@pytest.mark.parametrize(
    ("kind", "family"),
    [("pandas object", "pandas"), ("polars", "polars"), ("pyarrow", "pyarrow"), ("dict of lists", "dict")],
)
def test_tables_come_back_in_the_kind_given(
    kind: str, family: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    result = pr.fit("income ~ edu", KINDS[kind](survey), mechanism)
    for table in (
        result.to_frame(),
        replace(result, log_scale=True).to_frame(exponentiate=True),
        result.price_of_privacy(),
    ):
        assert isinstance(table, FAMILY_KIND[family])
        assert list(table["term"] if family != "pyarrow" else table["term"].to_pylist()) == list(result.parameters)


def test_the_same_columns_in_every_kind_of_table(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    columns = ["term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high"]
    assert list(pr.fit("income ~ edu", survey, mechanism).to_frame().columns) == columns
    assert pr.fit("income ~ edu", pl.from_pandas(survey), mechanism).to_frame().columns == columns


def test_unperturbed_categories_keep_the_order_the_user_chose(survey: pd.DataFrame) -> None:
    order = ["mid", "low", "high"]
    enum = pl.from_pandas(survey).with_columns(pl.col("edu").cast(pl.Enum(order)))
    for frame in (survey.assign(edu=pd.Categorical(survey["edu"], order)), enum):
        assert pr.fit("income ~ edu", frame, None).parameters == ("Intercept", "edu[T.low]", "edu[T.high]")


@pytest.mark.parametrize("kind", ["pandas object", "polars", "polars Categorical", "pyarrow dictionary"])
def test_unperturbed_text_is_sorted_in_every_frame(kind: str, survey: pd.DataFrame) -> None:
    assert pr.fit("income ~ edu", KINDS[kind](survey), None).parameters == ("Intercept", "edu[T.low]", "edu[T.mid]")


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_dates_are_levels_in_whatever_unit_they_are_kept(unit: str) -> None:
    days = pd.date_range("2020-01-01", periods=2).astype(f"datetime64[{unit}]")
    frame = pd.DataFrame({"day": np.tile(days, 20), "y": np.arange(40.0)})
    for data in (frame, arrow(frame), pl.from_pandas(frame)):
        result = pr.fit(pr.mean("y", by="day"), data, None)
        assert result.parameters == ("mean(y)[day=2020-01-01 00:00:00]", "mean(y)[day=2020-01-02 00:00:00]")
        np.testing.assert_allclose(result.estimate, [19, 20])

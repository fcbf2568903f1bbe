"""Columns that frames and Parquet files hold in unusual types: they work, or one clear error says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app
from pramana.frames import read
from pramana.mechanism.designs.design_file import read_design

EDU = ["low", "mid", "high", "top"]
N = 200
BIG = [7, 2**63, 2**63 + 5]


def values(levels: list[Any]) -> list[Any]:
    return [levels[k] for k in np.random.default_rng(2).integers(0, len(levels), N)]


def ordered(path: Path, maker: str) -> Path:
    """A file whose categories have an order that is not the alphabet's."""
    edu = values(EDU)
    if maker == "pandas":
        pd.DataFrame({"edu": pd.Categorical(edu, EDU, ordered=True)}).to_parquet(path)
    elif maker == "polars":
        pl.DataFrame({"edu": pl.Series(edu, dtype=pl.Enum(EDU))}).write_parquet(path)
    else:  # blocks, each with the dictionary of its own values
        codes = pa.array([EDU.index(v) for v in edu], pa.int8())
        arrays = [pa.DictionaryArray.from_arrays(codes[k : k + 50], EDU, ordered=True) for k in range(0, N, 50)]
        parquet.write_table(pa.table({"edu": pa.chunked_array(arrays)}), path, row_group_size=50)
    return path


@pytest.mark.parametrize("maker", ["pandas", "polars", "arrow"])
def test_ordered_categories_of_a_file_are_banded_in_their_order(maker: str, tmp_path: Path) -> None:
    path = ordered(tmp_path / "true.parquet", maker)
    out = CliRunner().invoke(
        app, ["design", "edu", "--from", str(path), "--keep", "0.8", "--band", "1", "-o", str(tmp_path / "d.toml")]
    )
    assert out.exit_code == 0, out.output
    channel = read_design(tmp_path / "d.toml", path).assignments[0].channel
    assert channel.levels == tuple(EDU)
    assert read(path).ordered("edu")
    assert pr.plan(path, "edu", se=0.2, simulate=0).transition.levels == tuple(EDU)
    assert [t.term for t in pr.plan(path, "edu", se=0.2, simulate=0).targets] == [f"edu[{v}]" for v in EDU]
    assert pr.optimal_design(pr.proportions("edu"), path, "edu", epsilon=1, starts=0).transition.levels == tuple(EDU)
    assert pr.designs.observed_combinations(path, ["edu", "edu"])[0] == ("low", "low")


def test_a_dictionary_without_an_order_is_sorted(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"edu": pa.array(values(EDU)).dictionary_encode()}), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").levels("edu") == sorted(EDU)


NESTED = {
    "map": pa.array([[("k", 1)]] * N, pa.map_(pa.string(), pa.int64())),
    "list": pa.array([[1, 2]] * N),
    "struct": pa.array([{"a": 1}] * N),
    "fixed": pa.array([[1, 2]] * N, pa.list_(pa.int64(), 2)),
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize(
    "command", [["design", "x", "--from", "{}", "--keep", "0.8"], ["plan", "{}", "x", "--se", "0.1"]]
)
def test_a_nested_column_is_refused_by_name(kind: str, command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "true.parquet"
    parquet.write_table(pa.table({"x": NESTED[kind], "z": values(EDU)}), path)
    out = CliRunner().invoke(app, [part.format(path) for part in command])
    assert isinstance(out.exception, pr.DataError)
    assert "column 'x' of type" in str(out.exception)
    assert "cannot be used" in str(out.exception)


def test_nested_columns_beside_the_perturbed_one_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "true.parquet"
    parquet.write_table(pa.table({**NESTED, "z": values(EDU)}), path)
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(EDU, 0.8)})
    assert pr.risk(path, mechanism, keys=["z"]).n == N
    with pytest.raises(pr.DataError, match="column 'map' of type list cannot be used"):
        pr.risk(path, mechanism, keys=["map"])


def test_python_objects_are_refused_as_well() -> None:
    with pytest.raises(pr.DataError, match="column 'x' of type dict cannot be used"):
        pr.plan(pd.DataFrame({"x": [{"a": 1}, {"a": 2}] * 20}), "x", se=0.1)


def test_text_in_views_is_text(tmp_path: Path) -> None:
    path = tmp_path / "true.parquet"
    parquet.write_table(pa.table({"z": pa.array(values(EDU), pa.string_view())}), path)
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(EDU, 0.8)})
    assert pr.risk(path, mechanism, keys=["z"]).n == N
    assert pr.plan(path, "z", se=0.2, simulate=0).transition.levels == tuple(sorted(EDU))


@pytest.mark.parametrize("gaps", [False, True])
def test_whole_numbers_beyond_two_to_the_63_stay_what_they_are(gaps: bool, tmp_path: Path) -> None:
    """As floats, the two large ones would be one: the release then held a value that was no level."""
    z = [None if gaps and k % 7 == 0 else v for k, v in enumerate(values(BIG))]
    table = pa.table({"z": pa.array(z, pa.uint64())})
    parquet.write_table(table, tmp_path / "true.parquet")
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(BIG, 0.8, kind="nominal")})
    assert read(table).levels("z") == BIG
    assert set(mechanism.perturb(table)["z"].to_pylist()) - {None} == set(BIG)
    report = pr.risk(tmp_path / "true.parquet", mechanism, keys=["z"])
    assert [v.released for v in report["z"].levels] == BIG
    assert sum(v.share for v in report["z"].levels) == pytest.approx(1 - z.count(None) / N)
    if not gaps:
        frame = pd.DataFrame({"z": np.array(z, dtype=np.uint64)})
        assert set(mechanism.perturb(frame)["z"].tolist()) == set(BIG)
        assert pr.plan(tmp_path / "true.parquet", "z", se=0.2, simulate=0).transition.levels == tuple(BIG)


def test_large_whole_numbers_with_gaps_are_not_merged() -> None:
    """2⁵³ and its neighbour are one float."""
    table = pa.table({"z": pa.array([2**53, 2**53 + 1, None] * 20, pa.int64())})
    assert read(table).levels("z") == [2**53, 2**53 + 1]

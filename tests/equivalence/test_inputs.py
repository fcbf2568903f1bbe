"""Every public function that takes data takes every kind of it, with one answer, or refuses it with a remedy; nothing foreign is said."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset

import pramana as pr

MECHANISM = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "high"], keep=0.8)})
FORMULA = "y ~ age + edu"


@cache
def frame() -> pd.DataFrame:
    rng, n = np.random.default_rng(0), 200
    found = pd.DataFrame(
        {"edu": rng.choice(["low", "high"], n), "age": rng.integers(20, 60, n), "sex": rng.choice(["f", "m"], n)}
    )
    return found.assign(y=0.1 * found["age"] + (found["edu"] == "high") + rng.normal(size=n))


@cache
def fitted() -> pr.Result:
    return pr.fit(FORMULA, frame(), MECHANISM)


def relation(_: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("people", arrow())
    return connection.sql("select * from people")


def arrow() -> pa.Table:
    return pa.Table.from_pandas(frame(), preserve_index=False)


def on_disk(folder: Path) -> Path:
    frame().to_parquet(folder / "in.parquet", index=False)
    return folder / "in.parquet"


INPUTS: dict[str, Callable[[Path], Any]] = {
    "polars": lambda _: pl.from_pandas(frame()),
    "lazy": lambda _: pl.from_pandas(frame()).lazy(),
    "lazy file": lambda folder: pl.scan_parquet(on_disk(folder)),
    "arrow": lambda _: arrow(),
    "batch": lambda _: arrow().to_batches()[0],
    "reader": lambda _: arrow().to_reader(),
    "dataset": lambda folder: dataset.dataset(on_disk(folder)),
    "relation": relation,
    "dictionary": lambda _: {c: frame()[c].to_numpy() for c in frame()},
    "file": on_disk,
    "none": lambda _: None,
    "number": lambda _: 3,
    "list": lambda _: [1, 2],
}
NO_DATA = ("none", "number", "list")


def numbers(found: Any) -> Any:
    """What can be compared of an answer."""
    if isinstance(found, pr.Comparison):
        return np.concatenate([r.estimate for r in found.results.values()])
    if isinstance(found, pr.Risk | pr.Plan | pr.Frontier | pr.OptimalDesign | pr.Band):
        return str(found).partition("\n")[2]
    return found.estimate if hasattr(found, "estimate") else np.asarray(found["prediction"])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "fit": lambda data: numbers(pr.fit(FORMULA, data, MECHANISM)),
    "fit, likelihood": lambda data: numbers(pr.fit(FORMULA, data, MECHANISM, method="likelihood")),
    "compare": lambda data: numbers(pr.compare(FORMULA, data, MECHANISM)),
    "compare, truth": lambda data: numbers(
        pr.compare(FORMULA, frame(), MECHANISM, truth=data if data is not None else 3)
    ),
    "specification_test": lambda data: (
        pr.specification_test("y ~ age * edu", data, MECHANISM, family="gaussian").statistic
    ),
    "predict": lambda data: numbers(fitted().predict(data)),
    "margins": lambda data: numbers(fitted().margins(data, "age")),
    "table_em": lambda data: pr.table_em(["edu"], data, MECHANISM).estimate,
    "band": lambda data: numbers(
        pr.band(
            "y ~ edu",
            data,
            lambda keep: pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "high"], keep)}),
            {"keep": (0.8, 0.9)},
            points=2,
        )
    ),
    "risk": lambda data: numbers(pr.risk(data, MECHANISM, keys=["sex"])),
    "frontier": lambda data: numbers(pr.frontier(data, "edu", [0.8, 0.9])),
    "optimal_design": lambda data: numbers(
        pr.optimal_design(pr.proportions("edu"), data, "edu", epsilon=1.0, starts=1)
    ),
    "perturb": lambda data: (
        (len(as_pandas(MECHANISM.perturb(data))), *as_pandas(MECHANISM.perturb(data)).columns)
        if not isinstance(data, pa.RecordBatchReader)
        else (len(as_pandas(MECHANISM.perturb(data))), *frame().columns)
    ),
}
OF_FILES = {
    "release": lambda data, folder: pr.release(data, folder / "out.parquet", MECHANISM).rows,
    "audit": lambda data, _: len(pr.audit(data).findings),
}
"""Functions that take files alone."""


def as_pandas(found: Any) -> pd.DataFrame:
    return (
        found
        if isinstance(found, pd.DataFrame)
        else pd.DataFrame(found)
        if isinstance(found, dict)
        else found.to_pandas()
    )


def told(call: Callable[[], Any]) -> Any:
    """The answer, or the refusal; any warning of another library is an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", pr.PramanaWarning)
        try:
            return call()
        except pr.PramanaError as refusal:
            return refusal


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_kind_of_data_has_one_answer(function: str, kind: str, tmp_path: Path) -> None:
    if (function, kind) == ("perturb", "file"):
        pytest.skip("a file is released, not perturbed in place")
    found = told(lambda: FUNCTIONS[function](INPUTS[kind](tmp_path)))
    if kind in NO_DATA:
        assert "give a pandas, polars or Arrow table" in str(found)
        return
    expected = FUNCTIONS[function](frame())
    if isinstance(expected, str | tuple):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("function", OF_FILES)
def test_what_takes_files_says_so(function: str, kind: str, tmp_path: Path) -> None:
    found = told(lambda: OF_FILES[function](INPUTS[kind](tmp_path), tmp_path))
    if kind == "file":
        assert not isinstance(found, pr.PramanaError)
    else:
        assert "files are needed here" in str(found)


def test_no_public_function_of_data_was_forgotten() -> None:
    taken = {"data", "truth", "frame", "source"}
    public = {name: getattr(pr, name) for name in pr.__all__}
    functions = {n: f for n, f in public.items() if inspect.isfunction(f)}
    found = {n for n, f in functions.items() if taken & set(inspect.signature(f).parameters)}
    methods = {
        m for m, f in inspect.getmembers(pr.Result, inspect.isfunction) if taken & set(inspect.signature(f).parameters)
    }
    methods |= {
        m
        for m, f in inspect.getmembers(pr.Mechanism, inspect.isfunction)
        if taken & set(inspect.signature(f).parameters)
    }
    known = {name.partition(",")[0] for name in (*FUNCTIONS, *OF_FILES)} | {
        "read_design",
        "replaced",
        "plan",
    }  # designs and plans read as the others do, and a plan takes long
    assert found | methods <= known

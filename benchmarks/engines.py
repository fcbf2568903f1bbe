"""The engines against each other: one fit of a Parquet file that is read block by block; `make bench` writes ENGINES.md.

Every engine is a process of its own, whose start-up, with a small fit that warms it, is stated apart; the better of two fits counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np

import pramana as pr
from benchmarks.machine import described
from benchmarks.streaming import CASES, WARM, make
from pramana.engines import DaskEngine, DuckDBEngine, SparkEngine
from pramana.frames.workers import Threads

HERE = Path(__file__).parent
CASE = CASES[0]
FITS = 2


@contextmanager
def _one_thread() -> Iterator[Any]:
    import pyarrow as pa

    pa.set_cpu_count(1)
    yield Threads(1)


@contextmanager
def _threads() -> Iterator[Any]:
    yield Threads()


@contextmanager
def _duckdb() -> Iterator[Any]:
    yield DuckDBEngine()


@contextmanager
def _dask() -> Iterator[Any]:
    import distributed

    options: Any = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield DaskEngine(client)


@contextmanager
def _spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield SparkEngine(session)
    finally:
        session.stop()


@dataclass(frozen=True)
class Contender:
    """An engine, how many times as long as one thread it may take, and what it needs (nothing where it is there)."""

    name: str
    opened: Callable[[], Any]
    limit: float | None = None
    lacks: Callable[[], str] = lambda: ""


def _no_spark() -> str:
    if find_spec("pyspark") is None:
        return "the package pyspark is not installed"
    return "" if which("java") or os.environ.get("JAVA_HOME") else "no Java runtime was found"


CONTENDERS = (
    Contender("local, one thread", _one_thread),
    Contender("local, all cores", _threads),
    Contender("DuckDB", _duckdb, 1.5, lambda: "" if find_spec("duckdb") else "the package duckdb is not installed"),
    Contender(
        "Dask, two workers",
        _dask,
        3,
        lambda: "" if find_spec("distributed") else "the package distributed is not installed",
    ),
    Contender("Spark, local[2]", _spark, 4, _no_spark),
)


def measure(name: str, path: Path, small: Path) -> dict[str, Any]:
    """In a process of its own: seconds until the first small fit is done, and those of the fit."""
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})
    options: dict[str, Any] = {"family": "binomial"}
    contender = next(c for c in CONTENDERS if c.name == name)
    begun = time.perf_counter()
    with contender.opened() as engine:
        pr.fit(CASE.formula, small, mechanism, engine=engine, memory=1, **options)
        ready, times = time.perf_counter() - begun, []
        for _ in range(FITS):
            begun = time.perf_counter()
            found = pr.fit(CASE.formula, path, mechanism, engine=engine, memory="300 MB", **options)
            times.append(time.perf_counter() - begun)
    return {
        "ready": ready,
        "fit": min(times),
        "estimate": found.estimate.tolist(),
        "errors": found.standard_errors.tolist(),
    }


def _apart(found: dict[str, Any], first: dict[str, Any]) -> float:
    """Largest difference of estimates in standard errors, and of standard errors relative to them."""
    errors = np.array(first["errors"])
    gaps = [np.array(found[name]) - np.array(first[name]) for name in ("estimate", "errors")]
    return float(np.abs(gaps / errors).max())


def _row(contender: Contender, found: dict[str, Any] | str, first: dict[str, Any]) -> str:
    if isinstance(found, str):
        return f"| {contender.name} | | | | | | not measured: {found} |"
    ratio = found["fit"] / first["fit"]
    word = "" if contender.limit is None else "reached" if ratio <= contender.limit else "**missed**"
    limit = "" if contender.limit is None else f"{contender.limit:g}"
    return f"| {contender.name} | {found['ready']:.1f} | {found['fit']:.2f} | {ratio:.2f} | {_apart(found, first):.0e} | {limit} | {word} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=float, default=1e7)
    parser.add_argument("--measure", nargs=3)
    given = parser.parse_args()
    if given.measure:
        name, path, small = given.measure
        print(json.dumps(measure(name, Path(path), Path(small))))
        return
    results: dict[str, dict[str, Any] | str] = {}
    machine = described("pyarrow", "duckdb", "distributed")
    with tempfile.TemporaryDirectory() as folder:
        small, path = Path(folder) / "small.parquet", Path(folder) / "records.parquet"
        make(CASE, WARM, small)
        make(CASE, int(given.records), path)
        for contender in CONTENDERS:
            lacking = contender.lacks()
            command = [sys.executable, "-m", "benchmarks.engines", "--measure", contender.name, str(path), str(small)]
            if not lacking:
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                results[contender.name] = json.loads(done.stdout.splitlines()[-1])
            else:
                results[contender.name] = lacking
    first = results[CONTENDERS[0].name]
    assert isinstance(first, dict)
    lines = [
        "# Engines against each other",
        "",
        machine,
        "",
        f"`{CASE.formula}`, logit, response kept with probability 0.85, {given.records:,.0f} records of Parquet, read block by block.",
        "Start-up is a process's own until its first small fit is done; times are the better of two fits. Answers are apart from those of one",
        "thread by so many standard errors at most.",
        "",
        "| engine | start-up, s | fit, s | times one thread | apart | limit | |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        *(_row(contender, results[contender.name], first) for contender in CONTENDERS),
        "",
    ]
    text = "\n".join(lines)
    (HERE / "ENGINES.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

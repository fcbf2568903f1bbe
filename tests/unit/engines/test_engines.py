"""Engines by name, an engine of one's own, and the registry."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.engines import Engine, LocalEngine, engine_of


class CountingEngine(LocalEngine):
    """The local engine, with its passes over the records counted."""

    passes = 0

    def _added(self, part: Any, draws: int = 1) -> Any:
        CountingEngine.passes += 1
        return super()._added(part, draws)


def test_an_engine_of_ones_own_answers_a_fit(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    CountingEngine.passes = 0
    own = pr.fit("income ~ age + edu", survey, mechanism, engine=CountingEngine)
    local = pr.fit("income ~ age + edu", survey, mechanism, engine="local")
    np.testing.assert_array_equal(own.estimate, local.estimate)
    np.testing.assert_array_equal(own.covariance, local.covariance)
    assert CountingEngine.passes > 3


def test_a_smooth_fit_needs_few_passes(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    """Sums for the start, the steps of Newton, the variance and the diagnostics: nothing is asked for twice without need."""
    for interval, most in (
        ("wald", 16),
        ("auto", 360),
    ):  # of three parameters at three levels, a dozen an end, and the way far out
        CountingEngine.passes = 0
        inference = pr.Sandwich(interval=interval)
        fitted = pr.fit(
            "employed ~ age + edu", survey, mechanism, family="binomial", engine=CountingEngine, inference=inference
        )
        assert fitted.interval_kind == interval
        assert CountingEngine.passes <= most


@pytest.mark.parametrize("engine", ["spark?", 3])
def test_an_unknown_engine_is_refused(engine: Any, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    with pytest.raises(pr.PramanaError, match="engine"):
        pr.fit("income ~ age", survey, mechanism, engine=engine)


@pytest.mark.parametrize(
    ("package", "engine"),
    [("distributed", "dask"), ("pyspark.sql", "spark"), ("duckdb", "duckdb"), ("cloudpickle", pr.DaskEngine)],
)
def test_an_extra_that_is_missing_is_named(
    package: str, engine: Any, survey: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey.to_parquet(tmp_path / "one.parquet", index=False)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(
        pr.DaskEngine, "_connected", _connected if package == "cloudpickle" else pr.DaskEngine._connected
    )
    with pytest.raises(pr.PramanaError, match=r"pip install 'pramana\["):
        pr.fit("income ~ age", tmp_path, None, engine=engine, memory=1)


def _connected(self: Any) -> None:
    """A cluster that is never asked."""


def test_a_java_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sessions:
        """What pyspark does where there is none."""

        @staticmethod
        def getActiveSession() -> None:
            raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited")

    monkeypatch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    found = ModuleType("pyspark.sql")
    found.SparkSession = Sessions  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.sql", found)
    with pytest.raises(pr.PramanaError, match="needs a Java runtime, version 17"):
        list(pr.SparkEngine().answers(str, [1]))


def test_packages_of_databases_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for source in (pr.PostgreSQL("postgresql://host/base", "people", "id"), pr.DuckDB("register.duckdb", "people")):
        with pytest.raises(pr.PramanaError, match=r"pip install 'pramana\["):
            pr.fit("income ~ age", source, None)


def test_every_hook_of_the_contract_is_documented() -> None:
    assert engine_of(None) is LocalEngine
    hooks = [getattr(Engine, name) for name in Engine.__abstractmethods__ - {"own", "drawn", "without", "replicated"}]
    assert all(hook.__doc__ for hook in hooks)


class Blocks:
    """Every kind of equation, whole and in blocks of 50 records."""

    WHAT: tuple[Any, ...] = (
        ("employed ~ age + edu", "binomial"),
        ("income ~ age + edu", None),
        ("mean(income, by=edu)", None),
        ("total(income)", None),
        ("correlation(age, income)", None),
        ("odds_ratio(employed, region)", None),
        (pr.multinomial("edu ~ age"), None),
        (pr.quantile_regression("income ~ edu", 0.5), None),
        (pr.from_callable(lambda beta, income: (income - beta[0])[:, None], ["m"]), None),
    )


@pytest.mark.parametrize(("what", "family"), Blocks.WHAT, ids=lambda v: str(v)[:30])
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_and_threads_change_no_answer(
    what: Any,
    family: str | None,
    threads: int,
    survey: pd.DataFrame,
    mechanism: pr.Mechanism,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    survey = survey.assign(region=np.where(np.arange(len(survey)) % 3 == 0, "n", "s"), c=np.arange(len(survey)) % 41)
    options: dict[str, Any] = {"clusters": "c"} | ({} if family is None else {"family": family})
    whole = pr.fit(what, survey, mechanism, **options)
    monkeypatch.setattr("pramana.engines.local.SMALLEST", 50)
    monkeypatch.setattr("pramana.engines.local.BLOCK_ENTRIES", 50)
    cut = pr.fit(what, survey, mechanism, engine=lambda e, s: LocalEngine(e, s, threads), **options)
    errors = whole.standard_errors
    np.testing.assert_array_less(np.abs(cut.estimate - whole.estimate), 1e-9 * errors + 1e-14)
    np.testing.assert_allclose(cut.covariance, whole.covariance, rtol=1e-8, atol=1e-10 * float(np.max(errors)) ** 2)
    assert [d.code for d in cut.diagnostics] == [d.code for d in whole.diagnostics]

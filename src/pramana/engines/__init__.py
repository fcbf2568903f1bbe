"""Whoever adds up sums over records: at given parameter values, under given weight draws. Only values and sums travel."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeAlias, cast

from pramana.engines.dask import DaskEngine
from pramana.engines.device import device_engine
from pramana.engines.duckdb import DuckDBEngine
from pramana.engines.engine import Engine, Weights
from pramana.engines.executor import ExecutorEngine
from pramana.engines.local import LocalEngine
from pramana.engines.sampling import Sampling, Stratification
from pramana.engines.spark import SparkEngine
from pramana.engines.totals import Totals
from pramana.errors import PramanaError, suggestion
from pramana.estimating.equation import Equation
from pramana.frames.workers import Workers

__all__ = [
    "ENGINES",
    "DaskEngine",
    "DuckDBEngine",
    "Engine",
    "ExecutorEngine",
    "LocalEngine",
    "MakeEngine",
    "Sampling",
    "SparkEngine",
    "Stratification",
    "Totals",
    "Weights",
    "engine_of",
    "engine_on",
]

MakeEngine: TypeAlias = Callable[[Equation, Sampling], Engine]

ENGINES: dict[str, MakeEngine | Callable[[], Workers]] = {
    "local": LocalEngine,
    "gpu": device_engine,
    "dask": DaskEngine,
    "duckdb": DuckDBEngine,
    "spark": SparkEngine,
}
"""Engines by name, those in memory and workers that read files: a new one is registered here."""


def engine_on(device: str, engine: str | MakeEngine | Workers | Executor | None = None) -> MakeEngine | Workers:
    """The engine of a device, "cpu" or "gpu"; on the CPU the one that was asked for."""
    if device not in ("cpu", "gpu"):
        raise PramanaError(f"device {device!r} is unknown: {suggestion(device, ['cpu', 'gpu'])}")
    if device == "gpu" and engine not in (None, "gpu"):
        raise PramanaError("device='gpu' is an engine of its own: leave out engine=, or the device")
    return engine_of(engine if device == "cpu" else "gpu")


def engine_of(engine: str | MakeEngine | Workers | Executor | None) -> MakeEngine | Workers:
    """An engine by its name, or as it is: something that takes an equation and its sampling, or workers. The local one by default."""
    if isinstance(engine, str):
        if engine.lower() not in ENGINES:
            raise PramanaError(f"engine {engine!r} is unknown: {suggestion(engine, ENGINES)}")
        return engine_of(ENGINES[engine.lower()])  # type: ignore[arg-type]
    if isinstance(engine, type) and issubclass(engine, Workers):
        return engine()
    if isinstance(engine, Executor):
        return ExecutorEngine(engine)
    if engine is None:
        return LocalEngine
    if isinstance(engine, Workers):
        return engine
    if callable(engine):
        return cast(MakeEngine, engine)
    raise PramanaError(
        f"engine of type {type(engine).__name__}: give a name such as 'local', an engine's class, or an executor of concurrent.futures"
    )

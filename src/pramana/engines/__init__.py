"""Whoever adds up sums over records: at given parameter values, under given weight draws. Only values and sums travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pramana.engines.device import device_engine
from pramana.engines.engine import Engine, Weights
from pramana.engines.local import LocalEngine
from pramana.engines.sampling import Sampling, Stratification
from pramana.engines.totals import Totals
from pramana.errors import PramanaError, suggestion
from pramana.estimating.equation import Equation

__all__ = [
    "ENGINES",
    "Engine",
    "LocalEngine",
    "MakeEngine",
    "Sampling",
    "Stratification",
    "Totals",
    "Weights",
    "engine_of",
    "engine_on",
]

MakeEngine: TypeAlias = Callable[[Equation, Sampling], Engine]

ENGINES: dict[str, MakeEngine] = {"local": LocalEngine, "gpu": device_engine}
"""Engines by name: a new one is registered here."""


def engine_on(device: str, engine: str | MakeEngine | None = None) -> MakeEngine:
    """The engine of a device, "cpu" or "gpu"; on the CPU the one that was asked for."""
    if device not in ("cpu", "gpu"):
        raise PramanaError(f"device {device!r} is unknown: {suggestion(device, ['cpu', 'gpu'])}")
    if device == "gpu" and engine not in (None, "gpu"):
        raise PramanaError("device='gpu' is an engine of its own: leave out engine=, or the device")
    return engine_of(engine if device == "cpu" else "gpu")


def engine_of(engine: str | MakeEngine | None) -> MakeEngine:
    """An engine by its name, or as it is: something that takes an equation and its sampling. The local one by default."""
    if engine is None:
        return LocalEngine
    if not isinstance(engine, str):
        if not callable(engine):
            raise PramanaError(
                f"engine of type {type(engine).__name__}: give a name such as 'local', or an engine's class"
            )
        return engine
    if engine.lower() not in ENGINES:
        raise PramanaError(f"engine {engine!r} is unknown: {suggestion(engine, ENGINES)}")
    return ENGINES[engine.lower()]

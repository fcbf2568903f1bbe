"""Studies by name: the paper's four simulations, those of published noise, or a user's file."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pramana.errors import PramanaError, suggestion
from pramana.estimators import Method, ModelDependent, Naive, Reversion
from pramana.frames.inputs import absence
from pramana.kernels.variates import Variates
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.studies import noise, race
from pramana.studies.scenario import Analyst, Generate, Population, Scenario
from pramana.studies.simulation import Study, Way

SIZES = (1000, 1200, 1400, 1600, 1800, 2000)
KEEPS = (0.75, 0.85, 0.95)
GRID = tuple(round(0.75 + 0.01 * k, 2) for k in range(21))

MODEL_1 = ModelDependent()
MODEL_2 = ModelDependent(intercept=False)
CLIPPED = ModelDependent(clip=True)
FIVE: tuple[str | Method, ...] = (Reversion(), "true data", Naive(), MODEL_1, MODEL_2, CLIPPED)


NAMES = {
    "reversion": "proposed",
    "true data": "true data",
    "naive": "naive",
    MODEL_1.label: "Model 1",
    MODEL_2.label: "Model 2",
    CLIPPED.label: "Model 1 clipped",
}
GREEK = {"Intercept": "β₁", "x": "β₂"}


def logistic(draw: Variates) -> Mapping[str, Any]:
    """Simulation A: X ~ N(0.5, 1), Pr(Y = 1 | x) = expit(−1 + 1.5 x)."""
    x = 0.5 + draw.normal()
    return {"x": x, "y": draw.coin(draw.expit(-1 + 1.5 * x))}


def linear(draw: Variates) -> Mapping[str, Any]:
    """Simulation B: Pr(X = 1) = 0.5, Y | x ~ N(−1 + x, 1)."""
    x = draw.coin(0.5)
    return {"x": x, "y": (-1.0 + x) + draw.normal()}


A, B = Population(logistic), Population(linear)


def _keeping(p00: float, p11: float) -> TransitionMatrix:
    return TransitionMatrix.binary(sensitivity=p11, specificity=p00)


def _a(p00: float, p11: float, n: int, label: Mapping[str, object], generate: Generate | Population = A) -> Scenario:
    return Scenario(generate, Mechanism({"y": _keeping(p00, p11)}), "y ~ x", (-1.0, 1.5), n, "binomial", label=label)


def _b(p00: float, p11: float, n: int, label: Mapping[str, object]) -> Scenario:
    return Scenario(B, Mechanism({"x": _keeping(p00, p11)}), "y ~ x", (-1.0, 1.0), n, label=label)


def _table(letter: str, make: Any) -> Study:
    cells = tuple(make(p, p, n, {"p": p}) for p in KEEPS for n in SIZES)
    title = f"Simulation {letter}1: five estimators, three noise levels, six sample sizes"
    return Study(f"{letter.lower()}1", title, cells, FIVE, ("reversion",), MODEL_1.label, page="table")


def _map(letter: str, make: Any) -> Study:
    cells = tuple(make(p00, p11, 1000, {"p00": p00, "p11": p11}) for p00 in GRID for p11 in GRID)
    title = f"Simulation {letter}2: relative efficiency over a grid of transition probabilities"
    methods = (Reversion(), MODEL_1, CLIPPED)
    return Study(f"{letter.lower()}2", title, cells, methods, reference=MODEL_1.label, block=500, page="map")


def _table_again() -> Study:
    cells = tuple(_a(p, p, n, {"p": p}, A.running) for p in KEEPS for n in SIZES)
    ways = (Analyst("reversion"), Analyst("stabilized", method="stabilized"))
    return Study("d2", "D2: Table 1 once more, with the stabilized estimator", cells, ways, page="table 1")


STUDIES: Mapping[str, Callable[[], Study]] = {
    "a1": lambda: _table("A", _a),
    "a2": lambda: _map("A", _a),
    "b1": lambda: _table("B", _b),
    "b2": lambda: _map("B", _b),
    **noise.STUDIES,
    **race.STUDIES,
    "d2": _table_again,
}
"""Studies by name: a new one is registered here."""

ALL = (*(name for name in STUDIES if name != race.EXPLORING), "application")


@cache
def study_of(source: str) -> Study:
    """A study by its name, or from a user's Python file that defines `scenarios` (or `scenario`)."""
    if source in STUDIES:
        return STUDIES[source]()
    path = Path(source)
    if path.suffix != ".py":
        raise PramanaError(f"study {source!r} is unknown: {suggestion(source, [*ALL, 'all'])}, or a Python file")
    if not path.is_file():
        raise PramanaError(f"scenario file {source!r} {absence(path)}")
    return _from_file(path)


def _from_file(path: Path) -> Study:
    names = runpy.run_path(str(path))
    found = names.get("scenarios", names.get("scenario"))
    scenarios = tuple(found) if isinstance(found, list | tuple) else (found,)
    if not scenarios or not all(isinstance(s, Scenario) for s in scenarios):
        raise PramanaError(
            f"{str(path)!r} must define `scenario = Scenario(...)` or `scenarios = [Scenario(...), ...]`"
        )
    methods: Sequence[Way] = names.get("methods", ("reversion", "true data", "naive"))
    title = str(names.get("title", path.stem))
    return Study(path.stem, title, scenarios, tuple(methods), ("reversion",), names.get("reference"))

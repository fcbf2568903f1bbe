"""The same answers, before and after: `python tests/answers.py store` keeps the numbers of every analysis in
`tests/analyses.py`, `check` computes them again and says which differ.

A number may move by 1e-9 of its size, or of its standard error where it has one: an estimate of zero is as exact as its
error allows. Texts, names, counts and codes of diagnostics must be equal.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pramana as pr

sys.path.insert(0, str(Path(__file__).resolve().parent))

from analyses import ANALYSES

STORE = Path(__file__).resolve().parent / "golden" / "answers.json"
TOLERANCE = 1e-9
SMALLEST = 1e-6


# --- Written down -----------------------------------------------------------------------------------------------------


def answer(name: str) -> Any:
    """The answer of one analysis as it would be read back from the file."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(not secure|released before)")
        found = ANALYSES[name]()
    return json.loads(json.dumps(plain(found)))


def plain(value: Any) -> Any:
    """Whatever an analysis returns, as JSON; floats keep all their digits."""
    if isinstance(value, pr.Result):
        return _result(value)
    if isinstance(value, pr.Comparison):
        return plain({"results": dict(value.results), "test": value.specification, "untested": value.untested})
    if isinstance(value, pr.TransitionMatrix):
        names = ("levels", "kind", "matrix", "inverse", "diagonal", "epsilon", "condition_number")
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, pd.DataFrame):
        return {str(k): plain(v) for k, v in value.to_dict(orient="list").items()}
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _result(result: pr.Result) -> dict[str, Any]:
    """Everything that a result knows."""
    found = {
        "parameters": result.parameters,
        "estimate": result.estimate,
        "standard_errors": result.standard_errors,
        "covariance": result.covariance,
        "interval": result.interval(),
        "n": result.n,
        "df": result.df,
        "method": result.method,
        "inference": result.inference,
        "facts": dict(result.facts),
        "diagnostics": [f"{d.severity}: {d.code}" for d in result.diagnostics],
    }
    if result.privacy is not None:
        found["privacy"] = result.privacy
    if result.draws is not None:
        values = result.draws.values
        found["draws"] = {
            **result.to_dict()["resampling"],
            "mean": values.mean(axis=0),
            "quantiles": np.quantile(values, [0, 0.25, 0.5, 0.75, 1], axis=0).T,
        }
    if isinstance(result, pr.LikelihoodResult):
        found["likelihood"] = result.to_dict()["likelihood"]
    return {name: plain(value) for name, value in found.items()}


# --- Compared ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Where two answers part, by how much of their size (infinite for texts and shapes), and what they are."""

    where: str
    size: float
    before: Any
    now: Any

    def __str__(self) -> str:
        size = "other" if math.isinf(self.size) else f"{self.size:.2e}"
        return f"{size} at {self.where}: {_short(self.before)} is now {_short(self.now)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 90 else text[:87] + "..."


def differences(before: Any, now: Any, where: str = "", scale: Any = None) -> Iterator[Difference]:
    """All places where the answers differ by more than they may."""
    if isinstance(before, dict) and isinstance(now, dict):
        yield from _of_dicts(before, now, where, scale)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        inner = scale if isinstance(scale, list) and len(scale) == len(before) else [scale] * len(before)
        for k, (a, b, s) in enumerate(zip(before, now, inner, strict=True)):
            yield from differences(a, b, f"{where}[{k}]", s)
    elif _number(before) and _number(now):
        size = _gap(float(before), float(now), scale if _number(scale) else 0.0)
        if size > TOLERANCE:
            yield Difference(where, size, before, now)
    elif before != now:
        yield Difference(where, math.inf, before, now)


def _of_dicts(before: dict[str, Any], now: dict[str, Any], where: str, scale: Any) -> Iterator[Difference]:
    if before.get("with") != now.get("with"):  # bytes that another library wrote
        return
    errors = before.get("standard_errors")
    scales = _scales(errors) if errors is not None else {}
    for name in [*before, *(k for k in now if k not in before)]:
        inner = f"{where}.{name}" if where else name
        if (name in before) != (name in now):
            yield Difference(inner, math.inf, before.get(name, "absent"), now.get(name, "absent"))
        elif name == "draws" and errors is not None and before[name] and now[name]:
            yield from _of_draws(before[name], now[name], inner, errors)
        else:
            yield from differences(before[name], now[name], inner, _scale(name, scales, scale))


def _of_draws(before: dict[str, Any], now: dict[str, Any], where: str, errors: list[float]) -> Iterator[Difference]:
    for name in before:
        scale = errors if name in ("mean", "quantiles") else None
        yield from differences(before[name], now.get(name), f"{where}.{name}", scale)


def _scale(name: str, scales: Mapping[str, Any], outer: Any) -> Any:
    """What a number is measured by besides itself: its standard error; a p-value by 1, since it magnifies errors."""
    return 1.0 if name in ("p_value", "p") else scales.get(name, outer)


def _scales(errors: list[float]) -> dict[str, Any]:
    """Scales of the parts of a result from its standard errors (d,)."""
    products = [[a * b for b in errors] for a in errors]
    return {"estimate": errors, "interval": errors, "covariance": products, "privacy": products}


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _gap(a: float, b: float, scale: float) -> float:
    """|a − b| over the largest of both, the scale and a smallest number."""
    return 0.0 if a == b else abs(a - b) / max(abs(a), abs(b), scale, SMALLEST)


# --- The commands -----------------------------------------------------------------------------------------------------


def read_store() -> dict[str, Any]:
    return json.loads(STORE.read_text(encoding="utf-8"))


def write_store(answers: Mapping[str, Any]) -> None:
    """One line an analysis, so that a changed answer is a changed line."""
    text = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    lines = [f"{text(name)}: {text(found)}" for name, found in answers.items()]
    STORE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def store() -> int:
    """Compute and keep every answer."""
    started = time.perf_counter()
    found = {}
    for name in ANALYSES:
        found[name] = answer(name)
    write_store(found)
    print(f"{len(found)} analyses in {time.perf_counter() - started:.0f} s, kept in {STORE.name}")
    return 0


def compare(name: str, before: Any) -> list[Difference]:
    """How the answer of now differs from the kept one, largest first."""
    try:
        now = answer(name)
    except Exception as error:  # a broken analysis is a difference, and the others go on
        return [Difference("the analysis", math.inf, "an answer", f"{type(error).__name__}: {error}")]
    return sorted(differences(before, now), key=lambda d: -d.size)


def check(only: str | None, timed: bool) -> int:
    """Compute the answers again, and print those that differ; 1 if there are any."""
    started, kept = time.perf_counter(), read_store()
    if only is not None and only not in ANALYSES:
        print(f"there is no analysis {only!r}; known: {', '.join(ANALYSES)}")
        return 2
    names = [only] if only is not None else list(dict.fromkeys([*ANALYSES, *kept]))
    bad = 0
    for name in names:
        begun = time.perf_counter()
        if name not in ANALYSES or name not in kept:
            bad += 1
            print(f"{name}: {'not kept, run store' if name not in kept else 'kept, but no longer computed'}")
            continue
        found = compare(name, kept[name])
        if timed:
            print(f"{time.perf_counter() - begun:7.2f} s  {name}")
        if found:
            bad += 1
            numbers = [d for d in found if math.isfinite(d.size)]
            shown = [d for d in found if not math.isfinite(d.size)][:3] + numbers[:1]
            print(f"{name}: {len(found)} differ" + "".join(f"\n    {d}" for d in shown))
    print(f"{len(names)} analyses, {bad} differ, {time.perf_counter() - started:.0f} s")
    return int(bad > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("store", help="keep the answers of now")
    checking = commands.add_parser("check", help="compare the answers of now with the kept ones")
    checking.add_argument("--only", metavar="NAME", help="one analysis")
    checking.add_argument("--time", action="store_true", help="say how long each takes")
    given = parser.parse_args()
    return store() if given.command == "store" else check(given.only, given.time)


if __name__ == "__main__":
    sys.exit(main())

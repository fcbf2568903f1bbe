"""Score intervals of records that are read in passes: the ends of the fit in memory, with all parameters, sides and levels asked for together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_one_step import counted_passes

import pramana as pr
from pramana.engines import streaming
from pramana.errors import SolveError
from pramana.inference import together
from pramana.inference.together import Together

N = 20_000
SCORE = pr.Sandwich(interval="score")


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x, g = rng.normal(size=N), rng.random(N) < 0.3
    eta = -0.5 + 0.5 * x + 0.6 * g
    return pd.DataFrame(
        {
            "x": x,
            "y": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
            "v": eta + rng.normal(size=N),
            "firm": rng.integers(0, 60, N),
            "faint": np.where(rng.random(N) < 0.535, g, ~g).astype(int),
            "mild": np.where(rng.random(N) < 0.7, g, ~g).astype(int),
        }
    )


@pytest.fixture(scope="module")
def file(records: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("score") / "all.parquet"
    records.to_parquet(path, index=False)
    return path


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return counted_passes(monkeypatch, 6000, 4000)


CASES: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "faint": ("faint", "y ~ x + faint", {"family": "binomial"}, 40),
    "linear": ("faint", "v ~ x + faint", {}, 20),
    "asked for": ("mild", "y ~ x + mild", {"family": "binomial", "inference": SCORE}, 40),
    "clusters": ("mild", "v ~ x + mild", {"clusters": "firm", "inference": SCORE}, 20),
}


@pytest.mark.parametrize("case", CASES)
def test_they_are_those_in_memory_in_few_passes(
    case: str, records: pd.DataFrame, file: Path, passes: list[int]
) -> None:
    column, formula, options, most = CASES[case]
    mechanism = pr.Mechanism({column: pr.TransitionMatrix.binary(*[0.535 if column == "faint" else 0.7] * 2)})
    whole = pr.fit(formula, records, mechanism, **options)
    found = pr.fit(formula, file, mechanism, memory=1, **options)
    assert "score intervals" in found.inference
    for level in (0.9, 0.95, 0.99) if case in ("faint", "linear") else (0.95,):
        here, there = whole.interval(level), found.interval(level)
        assert np.array_equal(np.isinf(here), np.isinf(there))
        finite = np.isfinite(here)
        np.testing.assert_allclose(there[finite], here[finite], rtol=1e-9)
    np.testing.assert_allclose(found["x"].p_value, whole["x"].p_value, rtol=1e-9, atol=1e-15)
    assert len(passes) <= most


def test_what_measuring_a_matrix_adds_is_asked_for_together_too(
    records: pd.DataFrame, file: Path, passes: list[int]
) -> None:
    measured = pr.Mechanism({"mild": pr.TransitionMatrix.from_validation([[70, 30], [30, 70]])})
    whole, found = (
        pr.fit("v ~ x + mild", data, measured, inference=SCORE, memory=memory)
        for data, memory in ((records, 1e9), (file, 1))
    )
    np.testing.assert_allclose(found.interval(), whole.interval(), rtol=1e-9)
    assert len(passes) <= 30


def test_as_many_values_in_a_pass_as_are_held(
    records: pd.DataFrame, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    column, formula, options, _ = CASES["clusters"]
    mechanism = pr.Mechanism({column: pr.TransitionMatrix.binary(0.7, 0.7)})
    wide = pr.fit(formula, file, mechanism, memory=1, **options).interval()
    monkeypatch.setattr(streaming, "TOTALS", 400)
    np.testing.assert_allclose(pr.fit(formula, file, mechanism, memory=1, **options).interval(), wide, rtol=1e-12)


class Sums:
    """An engine of one parameter whose score at b is that number; what it is asked, pass by pass."""

    d = 1

    def __init__(self) -> None:
        self.asked: list[list[float]] = []

    def totals_at(self, betas: list[np.ndarray]) -> list[Any]:
        self.asked.append(sorted(float(b[0]) for b in betas))
        return [SolveError("out of reach") if b[0] < 0 else Told(b) for b in betas]


class Told:
    def __init__(self, beta: np.ndarray) -> None:
        self.score, self.slope, self.meat = beta.copy(), np.eye(1), np.eye(1)


def following(asked: Together[float], *values: float) -> Any:
    def search() -> float:
        return sum(float(asked.sums(np.array([value])).score[0]) for value in values)

    return search


def test_a_pass_answers_whoever_asks() -> None:
    engine = Sums()
    asked: Together[float] = Together(engine)  # type: ignore[arg-type]
    found = asked.searched([following(asked, 1, 2, 3), following(asked, 1, 5), following(asked, 2, 3, 4, 6)])
    assert found == [6, 6, 15]
    assert engine.asked == [[1, 2], [3, 5], [4], [6]]  # what is known is not asked again


def test_a_value_without_sums_is_its_own_affair() -> None:
    asked: Together[float] = Together(Sums())  # type: ignore[arg-type]

    def lost() -> float:
        with pytest.raises(SolveError, match="out of reach"):
            asked.sums(np.array([-1.0]))
        return following(asked, 7)()

    assert asked.searched([lost, following(asked, 1, 2)]) == [7, 3]


def test_a_broken_pass_ends_all_searches() -> None:
    engine = Sums()

    def vanished(betas: list[np.ndarray]) -> list[Any]:
        raise pr.DataError(f"the file vanished before {len(betas)} values")

    engine.totals_at = vanished  # type: ignore[method-assign]
    asked: Together[float] = Together(engine)  # type: ignore[arg-type]
    with pytest.raises(pr.DataError, match="the file vanished"):
        asked.searched([following(asked, 1, 2), following(asked, 3)])


def test_a_broken_search_is_an_error_and_no_hang() -> None:
    asked: Together[float] = Together(Sums())  # type: ignore[arg-type]

    def broken() -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asked.searched([following(asked, 1, 2), broken])


def test_searches_that_wait_for_each_other_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Lock

    monkeypatch.setattr(together, "PATIENCE", 0.01)
    asked: Together[float] = Together(Sums())  # type: ignore[arg-type]
    lock = Lock()

    def held() -> float:
        with lock:
            return following(asked, 1, 2)()

    assert asked.searched([held, held, following(asked, 3)]) == [3, 3, 3]

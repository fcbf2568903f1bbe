"""One Newton step over all records from the root of a sample: next to the root, in one pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis import streaming
from pramana.analysis.reading import Stream
from pramana.frames import sources

N, M = 20_000, 2000
MECHANISM = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(2)
    x = rng.normal(size=N)
    y = rng.random(N) < 1 / (1 + np.exp(0.4 - 0.7 * x))
    frame = pd.DataFrame(
        {"x": x, "y": np.where(rng.random(N) < 0.15, ~y, y).astype(int), "firm": rng.integers(0, 400, N)}
    )
    frame.to_parquet(tmp_path_factory.mktemp("step") / "all.parquet", index=False)
    return tmp_path_factory.getbasetemp() / "step0" / "all.parquet"


def counted_passes(monkeypatch: pytest.MonkeyPatch, batch: int, pilot: int) -> list[int]:
    """Blocks of so many records and a sample of so many; filled with the passes that are made after the one that learns."""
    seen: list[int] = []
    jobs = Stream.jobs

    def counted(self: Stream) -> Any:
        seen.append(1)
        return jobs(self)

    monkeypatch.setattr(Stream, "jobs", counted)
    monkeypatch.setattr(sources, "BATCH", batch)
    monkeypatch.setattr(streaming, "PILOT", pilot)
    return seen


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return counted_passes(monkeypatch, 6000, M)


@pytest.mark.parametrize("options", [{}, {"clusters": "firm"}, {"inference": pr.Sandwich("HC1")}], ids=str)
def test_it_is_near_the_root(options: dict[str, Any], folder: Path, passes: list[int]) -> None:
    asked: dict[str, Any] = {"family": "binomial", "memory": 1, **options}
    whole = pr.fit("y ~ x", folder, MECHANISM, **asked)
    passes.clear()
    found = pr.fit("y ~ x", folder, MECHANISM, passes=1, **asked)
    assert len(passes) == 1
    few = pr.fit("y ~ x", pd.read_parquet(folder).iloc[:M], MECHANISM, family="binomial")
    gap = np.abs(found.estimate - whole.estimate) / whole.standard_errors
    assert np.all(gap < 3 * N / M / np.sqrt(N))  # the order of what a second step would add
    assert np.any(np.abs(few.estimate - whole.estimate) / whole.standard_errors > 1)  # what a sample alone is off by
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=0.05)
    assert "a Newton step from the root of 2" in found.facts["Passes"]
    assert found.facts["Step"].endswith("standard errors")
    assert ("too few" in found.facts["Passes"]) == (10 * np.sqrt(N) > M)
    assert "Passes" in str(found)


def test_what_one_pass_cannot_do_is_refused(folder: Path, passes: list[int]) -> None:
    for what, options, message in (
        ("y ~ x", {"family": "binomial", "inference": pr.Resampling()}, "passes=1 has the sandwich"),
        (pr.quantile_regression("x ~ y"), {}, "solve no smooth equation"),
        ("y ~ x", {"passes": 2}, "passes=2 is neither 1"),
    ):
        with pytest.raises(pr.PramanaError, match=message):
            pr.fit(what, folder, MECHANISM, memory=1, **{"passes": 1, **options})
    exact = [pr.fit(pr.mean("x"), folder, MECHANISM, memory=1, passes=p).estimate for p in (1, None)]
    np.testing.assert_allclose(*exact, rtol=1e-14)  # a mean needs no step
    assert passes

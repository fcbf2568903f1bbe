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
from pramana.frames import cells, sources

N, M = 20_000, 2000
MECHANISM = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(2)
    x = rng.normal(size=N)
    y = rng.random(N) < 1 / (1 + np.exp(0.4 - 0.7 * x))
    frame = pd.DataFrame(
        {
            "x": x,
            "y": np.where(rng.random(N) < 0.15, ~y, y).astype(int),
            "firm": rng.integers(0, 400, N),
            "half": rng.integers(0, 2, N),
            "rare": rng.integers(0, 2, N),
            "w": rng.uniform(0.5, 2, N),
            "w2": rng.uniform(0.5, 2, N),
        }
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
    logit = {"family": "binomial"}
    replicates = pr.SurveyDesign(weights="w", replicate_weights=["w", "w2"])
    crossed = pr.from_callable(lambda beta, x: np.sign(x - beta[0])[:, None], ["m"], smooth=False)
    for what, options, message in (
        ("y ~ x", {**logit, "inference": pr.Resampling()}, "passes=1 has the sandwich"),
        (pr.mean("x"), {"inference": pr.Resampling()}, "passes=1 has the sandwich"),
        ("y ~ x", {**logit, "inference": pr.Sandwich(interval="score")}, "score intervals are searched in many passes"),
        (pr.mean("x"), {"inference": pr.Sandwich(interval="score")}, "searched in many passes"),
        ("y ~ x", {**logit, "inference": pr.Sandwich(interval="mid-p")}, "mid-p intervals are for shares"),
        ("y ~ x", {**logit, "design": replicates}, "replicate weights have a root each"),
        ("y ~ x", {**logit, "method": "likelihood"}, "a likelihood climbs from several maxima"),
        (pr.quantile_regression("x ~ y"), {}, "solve no smooth equation"),
        (crossed, {}, "solve no smooth equation"),
        (pr.median("x", by="y"), {}, r"quantiles such as 'median\(x\)\[y=0\]' take none.*Leave passes= out"),
        ("y ~ x", {"passes": 2}, "passes=2 is neither 1"),
    ):
        passes.clear()
        with pytest.raises(pr.PramanaError, match=message):
            pr.fit(what, folder, MECHANISM, memory=1, **{"passes": 1, **options})
        assert len(passes) <= 2, "it is refused before it is searched for"


@pytest.mark.parametrize("what", [pr.mean("x", by="y"), pr.proportions("y"), pr.total("x"), pr.odds_ratio("y", "half")])
def test_what_needs_no_step_is_exact_and_says_so(what: Any, folder: Path, passes: list[int]) -> None:
    plain, once = (pr.fit(what, folder, MECHANISM, memory=1, passes=asked) for asked in (None, 1))
    np.testing.assert_allclose(once.estimate, plain.estimate, rtol=1e-14)
    np.testing.assert_allclose(once.interval(), plain.interval(), rtol=1e-14)
    assert "sums of all records give the root itself" in once.facts["Passes"]
    assert "Passes" not in plain.facts
    assert passes


def test_a_faint_mean_is_not_searched_for_ends(folder: Path, passes: list[int]) -> None:
    """A score interval by itself would be: many passes, where one was asked for."""
    faint = pr.Mechanism({"rare": pr.TransitionMatrix.binary(0.52, 0.52)})
    plain = pr.fit(pr.mean("x", by="rare"), folder, faint, memory=1)
    searched, kinds = len(passes), plain.inference
    passes.clear()
    once = pr.fit(pr.mean("x", by="rare"), folder, faint, memory=1, passes=1)
    assert "score intervals" in kinds
    assert "wald intervals" in once.inference
    assert "score" not in once.inference
    assert len(passes) <= 4 < searched
    np.testing.assert_allclose(once.estimate, plain.estimate, rtol=1e-14)


@pytest.mark.parametrize(
    ("method", "memory"),
    [("reversion", 1e9), ("reversion", 1), ("likelihood", 1e9), ("likelihood", 1), ("stabilized", 1e9)],
)
def test_records_in_memory_have_the_answer_in_full(
    method: str, memory: float, folder: Path, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that fit, and those whose few combinations are counted."""
    monkeypatch.setattr(cells, "ROWS", N)
    what = "y ~ x" if memory > 1 else "y ~ half"
    asked: dict[str, Any] = {"family": "binomial", "method": method, "memory": memory}
    plain, once = (pr.fit(what, folder, MECHANISM, passes=p, **asked) for p in (None, 1))
    np.testing.assert_array_equal(once.estimate, plain.estimate)
    assert once.facts["Passes"].startswith("the answer in full: the records are in memory")
    assert not passes


def test_a_start_is_where_the_search_in_the_sample_begins(folder: Path, passes: list[int]) -> None:
    asked: dict[str, Any] = {"family": "binomial", "memory": 1, "passes": 1}
    found = pr.fit("y ~ x", folder, MECHANISM, start=[-0.4, 0.6], **asked)
    np.testing.assert_allclose(found.estimate, pr.fit("y ~ x", folder, MECHANISM, **asked).estimate, rtol=1e-8)
    with pytest.raises(pr.SolveError, match=r"root of 2\d+ random records, which was not found.*leave passes= out"):
        pr.fit("y ~ x", folder, MECHANISM, start=[1e6, 1e9], **asked)
    assert passes

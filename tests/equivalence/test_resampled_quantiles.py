"""Quantiles and shares under many weights, of records read block by block: the draws of the fit in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis import streaming
from pramana.engines import ranked
from pramana.frames import sources

LEVELS = ("low", "mid", "high")
DRAWS = pr.Resampling(draws=40, seed=3)
REPLICATES = tuple(f"r{k}" for k in range(12))


def released(n: int, seed: int, keep: float) -> tuple[pd.DataFrame, pr.Mechanism]:
    rng = np.random.default_rng(seed)
    edu = rng.choice(LEVELS, n, p=[0.5, 0.3, 0.2])
    x = np.exp(rng.normal(size=n) + 0.3 * (edu == "high"))
    firm = rng.integers(0, n // 20, n)
    frame = pd.DataFrame({"x": x, "coarse": x.round(1), "edu": edu, "w": rng.uniform(0.5, 2, n), "firm": firm})
    frame = frame.assign(stratum=firm % 5, person=rng.permutation(n), level=x.clip(0, 4).round().astype(int))
    frame = frame.assign(**{name: frame["w"] * rng.exponential(size=n) for name in REPLICATES})
    five = pr.TransitionMatrix.randomized_response(range(5), keep=0.8, kind="numeric")
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=keep), "level": five})
    return mechanism.perturb(frame, seed=1), mechanism


def in_parts(frame: pd.DataFrame, folder: Path) -> Path:
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[rows].to_parquet(folder / f"part-{k}.parquet", index=False, row_group_size=100)
    return folder


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH", 150)
    monkeypatch.setattr(streaming, "PILOT", 300)


def same(what: str, frame: pd.DataFrame, folder: Path, mechanism: pr.Mechanism, **options: Any) -> None:
    local, blocks = (pr.fit(what, data, mechanism, memory=m, **options) for data, m in ((frame, None), (folder, 1)))
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(blocks.estimate, local.estimate, **close)
    np.testing.assert_allclose(blocks.standard_errors, local.standard_errors, **close)
    np.testing.assert_allclose(blocks.interval(), local.interval(), **close)
    if local.draws is not None:
        assert blocks.draws is not None
        assert blocks.draws.rootless == local.draws.rootless
        np.testing.assert_allclose(blocks.draws.values, local.draws.values, **close)


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("median(x)", {"inference": DRAWS}),
        ("median(x, by=edu)", {"inference": DRAWS}),
        ("median(coarse, by=edu)", {"inference": DRAWS}),
        ("quantile(x, [0.1, 0.5, 0.9], by=edu)", {"inference": DRAWS, "weights": "w"}),
        ("median(x, by=edu)", {"inference": DRAWS, "clusters": "firm"}),
        ("median(x)", {"inference": pr.Resampling(draws=40, seed=3, id="person")}),
        ("quantile(x, 0.05)", {"inference": pr.Resampling(draws=40, seed=3, scale="sd")}),
        ("median(x)", {"inference": DRAWS, "subset": "edu == 'high'"}),
        (
            "median(x, by=edu)",
            {"inference": DRAWS, "design": pr.SurveyDesign(weights="w", clusters="firm", strata="stratum")},
        ),
        ("median(x, by=edu)", {"design": pr.SurveyDesign(weights="w", replicate_weights=REPLICATES)}),
        ("share(x, 0.5, 2, by=edu)", {"inference": DRAWS}),
        ("share(x, 0.5, 2, by=edu)", {"weights": "w", "clusters": "firm"}),
        ("share(x, high=1.5)", {"design": pr.SurveyDesign(weights="w", replicate_weights=REPLICATES)}),
        ("share(x, low=1, by=edu)", {"subset": "level == 2"}),
        ("share(level, 1, 3, by=edu)", {"inference": DRAWS}),
    ],
)
def test_draws_of_blocks_are_those_of_memory(what: str, options: dict[str, Any], tmp_path: Path) -> None:
    frame, mechanism = released(1200, 2, 0.75)
    same(what, frame, in_parts(frame, tmp_path), mechanism, **options)


@pytest.mark.parametrize("seed", range(6))
def test_distributions_that_fall_in_places_are_rearranged(seed: int, tmp_path: Path) -> None:
    """Under strong noise a draw's share below t is no increasing function, and crosses a level far from the quantile as well."""
    frame, mechanism = released(1200, seed, 0.42 + 0.03 * seed)
    if seed % 2:  # much at one number
        frame["x"] = np.where(np.arange(len(frame)) % 3 == 0, 1.0, frame["x"])
    what = ("median(x, by=edu)", "quantile(x, 0.8, by=edu)")[seed % 2]
    same(what, frame, in_parts(frame, tmp_path), mechanism, inference=pr.Resampling(draws=30, seed=seed))


def test_batches_of_draws_and_of_bins_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked, "DRAWN_BINS", 16)
    monkeypatch.setattr(ranked, "DRAWN_ENTRIES", 400)
    monkeypatch.setattr(ranked, "DRAWN_POINTS", 2000)
    frame, mechanism = released(1200, 4, 0.7)
    same("median(x, by=edu)", frame, in_parts(frame, tmp_path), mechanism, inference=pr.Resampling(draws=20, seed=1))


def test_too_many_records_near_the_quantiles_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked, "DRAWN_BINS", 4)
    frame, mechanism = released(1200, 4, 0.7)
    folder = in_parts(frame, tmp_path)
    known = pr.fit("median(x)", folder, mechanism, memory=1)
    assert np.isfinite(known.estimate).all()
    monkeypatch.setattr(ranked, "MOST", 500)
    with pytest.raises(pr.PramanaError, match=r"lie so near to 'median.* above the limit of 500"):
        pr.fit("median(x)", folder, mechanism, memory=1, inference=DRAWS)

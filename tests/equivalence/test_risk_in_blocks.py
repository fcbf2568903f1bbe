"""Risk of records that are read block by block and collapsed is that of the whole table in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset as ds
from pyarrow import parquet

import pramana as pr
from covering import pairs_first
from pramana.disclosure import collapsed_records, true_records
from pramana.disclosure.risk import assessment
from pramana.errors import DataError
from pramana.frames import sources

EDU, SEX, REGION = ("low", "mid", "high"), ("f", "m"), ("n", "s")
N = 600
SMALL = "4 MB"
"""4000 combinations of values fit."""
P = pr.TransitionMatrix.randomized_response(EDU, 0.7)
OTHER = pr.TransitionMatrix.from_columns(EDU, [[0.8, 0.1, 0.2], [0.15, 0.7, 0.1], [0.05, 0.2, 0.7]])
PAIRS = [(s, r) for s in SEX for r in REGION]

MECHANISMS: dict[str, pr.Mechanism] = {
    "one column": pr.Mechanism({"edu": P}),
    "two columns": pr.Mechanism({"edu": OTHER, "sex": pr.TransitionMatrix.randomized_response(SEX, 0.8)}),
    "by stratum": pr.Mechanism({"edu": pr.Stratified("region", {"n": P, "s": OTHER})}),
    "joint": pr.Mechanism({("sex", "region"): pr.TransitionMatrix.randomized_response(PAIRS, 0.7), "edu": P}),
    "unit": pr.Mechanism({"edu": P}, unit="person"),
    "noise": pr.Mechanism({"age": pr.LaplaceNoise(2.0), "edu": P}),
    "noise on a grid": pr.Mechanism({"age": pr.GeometricNoise(0.8, step=1)}),
    "noise by stratum": pr.Mechanism(
        {"age": pr.Stratified("region", {"n": pr.LaplaceNoise(2.0), "s": pr.LaplaceNoise(5.0)})}
    ),
    "joint noise": pr.Mechanism({("age", "days"): pr.JointGaussianNoise([[4.0, 1.0], [1.0, 9.0]])}),
}


def people(*, gaps: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(
        {
            "person": np.arange(N) // 2,
            "edu": np.repeat(rng.choice(EDU, N // 2, p=[0.5, 0.3, 0.2]), 2),
            "sex": rng.choice(SEX, N),
            "region": np.repeat(rng.choice(REGION, N // 2, p=[0.7, 0.3]), 2),
            "age": rng.integers(20, 50, N).astype(float),
            "days": rng.integers(0, 9, N).astype(float),
            "decade": rng.integers(2, 8, N),
            "income": np.round(rng.gamma(3.0, 700.0, N), 2),
            "w": rng.choice([0.5, 1.0, 2.0], N),
        }
    )
    if gaps:
        for name in ("edu", "decade", "days"):
            frame[name] = frame[name].mask(rng.random(N) < 0.05)
    return frame


def written(frame: pd.DataFrame, folder: Path, sizes: list[int], ending: str = "parquet", rows: int = 70) -> Path:
    """Files of so many records each."""
    folder.mkdir()
    ends = np.cumsum(sizes)
    for k, (low, high) in enumerate(zip([0, *ends], [*ends, len(frame)], strict=True)):
        part, path = frame.iloc[low:high], folder / f"part-{k:02}.{ending}"
        if ending == "csv":
            part.to_csv(path, index=False)
        else:
            part.to_parquet(path, index=False, row_group_size=rows)
    return folder


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if files were large."""
    for module in (collapsed_records, true_records):
        monkeypatch.setattr(module, "held_bytes", lambda *_: np.inf)
    monkeypatch.setattr(true_records, "SPREAD", np.inf)


SIZES = (7, 100, 1 << 18)


@pytest.fixture
def batch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sources, "BATCH", request.param)
    monkeypatch.setattr(sources, "PIECE", min(request.param, 150))
    return int(request.param)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Passes that collapsed the records: a test that goes on in memory shows nothing."""
    calls: list[Any] = []
    whole = collapsed_records._collapsed

    def counted(*given: Any) -> Any:
        calls.append(given)
        return whole(*given)

    monkeypatch.setattr(collapsed_records, "_collapsed", counted)
    return calls


def flat(found: Any, path: str = "") -> dict[str, Any]:
    if isinstance(found, dict):
        return {k: v for key, value in found.items() for k, v in flat(value, f"{path}/{key}").items()}
    if isinstance(found, list | tuple):
        return {k: v for key, value in enumerate(found) for k, v in flat(value, f"{path}/{key}").items()}
    return {path: found}


def same(one: pr.Risk, other: pr.Risk, rtol: float = 1e-12) -> None:
    mine, others = flat(one.to_dict()), flat(other.to_dict())
    assert mine.keys() == others.keys()
    numbers = [key for key, value in mine.items() if isinstance(value, float)]
    found, whole = (np.array([told[key] for key in numbers], dtype=float) for told in (mine, others))
    with np.errstate(invalid="ignore"):
        near = (found == whole) | (np.abs(found - whole) <= np.maximum(rtol * np.abs(whole), 1e-15))
    assert near.all(), [(key, mine[key], others[key]) for key, well in zip(numbers, near, strict=True) if not well]
    for key in mine.keys() - set(numbers):
        assert mine[key] == others[key], key


def keys_of(name: str) -> list[str]:
    return ["decade"] if "noise" in name else ["sex", "decade", "edu"]


@pytest.fixture(scope="module")
def in_memory() -> dict[Any, pr.Risk]:
    """Risks of the whole table, by mechanism: one does for blocks of every size."""
    return {}


@pytest.mark.parametrize(
    ("name", "missing", "batch"), pairs_first(list(MECHANISMS), ["keep", "drop"], SIZES), indirect=["batch"]
)
def test_a_folder_is_its_table(
    name: str, missing: Any, tmp_path: Path, batch: int, seen: list[Any], in_memory: dict[Any, pr.Risk]
) -> None:
    frame = people(gaps=True)
    folder = written(frame, tmp_path / "true", [200, 1, 250])
    options = {"keys": keys_of(name), "missing": missing}
    if (name, missing) not in in_memory:
        in_memory[name, missing] = pr.risk(parquet.read_table(folder), MECHANISMS[name], **options)
    same(pr.risk(folder, MECHANISMS[name], memory=SMALL, **options), in_memory[name, missing])
    assert len(seen) == 1


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "unit"])
@pytest.mark.parametrize("missing", ["keep", "drop"])
def test_released_files_lie_beside_the_true_ones(name: str, missing: Any, tmp_path: Path, seen: list[Any]) -> None:
    """Row groups and files of the two begin and end in different places."""
    mechanism, frame = MECHANISMS[name], people(gaps=True)
    public = mechanism.perturb(frame, seed=3)
    true, released = written(frame, tmp_path / "true", [123, 300]), written(public, tmp_path / "out", [400], rows=33)
    options = {"keys": keys_of(name), "missing": missing}
    same(
        pr.risk(true, mechanism, released=released, memory=SMALL, **options),
        pr.risk(frame, mechanism, released=public, **options),
    )
    assert len(seen) == 1


@pytest.mark.parametrize("name", ["one column", "by stratum"])
def test_a_shuffled_release_is_put_in_order_by_its_link(name: str, tmp_path: Path, seen: list[Any]) -> None:
    mechanism, frame = MECHANISMS[name], people()
    folder = written(frame, tmp_path / "true", [200, 250])
    (tmp_path / "raw").mkdir()
    frame.to_parquet(tmp_path / "raw" / "whole.parquet", index=False)
    (tmp_path / "out").mkdir()
    how: dict[str, Any] = {"shuffle": True, "link": tmp_path / "raw" / "link.parquet", "drop": ["person", "income"]}
    pr.release(tmp_path / "raw" / "whole.parquet", tmp_path / "out" / "public.parquet", mechanism, **how)
    given = {"released": tmp_path / "out" / "public.parquet", "link": tmp_path / "raw" / "link.parquet"}
    options = {"keys": ["sex", "decade", "edu"]}
    in_blocks = pr.risk(folder, mechanism, memory=SMALL, **given, **options)
    assert in_blocks.linkage is not None
    assert in_blocks.linkage.realised is not None
    same(in_blocks, pr.risk(frame, mechanism, **given, **options))
    assert len(seen) == 1


SOURCES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "folder of CSV files": lambda frame, place: written(frame, place / "csv", [200, 250], "csv"),
    "one CSV file": lambda frame, place: written(frame, place / "csv", [], "csv") / "part-00.csv",
    "one Parquet file": lambda frame, place: written(frame, place / "pq", []) / "part-00.parquet",
    "pattern": lambda frame, place: f"{written(frame, place / 'pq', [200])}/*.parquet",
    "list": lambda frame, place: sorted(written(frame, place / "pq", [200, 300]).iterdir()),
    "dataset": lambda frame, place: ds.dataset(written(frame, place / "pq", [200, 300])),
    "lazy frame": lambda frame, place: pl.scan_parquet(written(frame, place / "pq", [200, 300]) / "*.parquet"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_whatever_has_blocks_is_read_in_blocks(kind: str, tmp_path: Path, seen: list[Any]) -> None:
    frame, mechanism = people(), MECHANISMS["two columns"]
    found = pr.risk(SOURCES[kind](frame, tmp_path), mechanism, keys=["decade", "edu"], memory=SMALL)
    same(found, pr.risk(frame, mechanism, keys=["decade", "edu"]))
    assert len(seen) == 1


ANALYSES = {
    "levels": "w ~ sex + edu",
    "a share": "proportions(edu)",
    "a total": "total(income)",
    "numbers": "income ~ edu + age",
    "numbers and transformations": "income ~ edu * scale(age) + sex",
}


@pytest.mark.parametrize(
    ("what", "name", "weights"),
    pairs_first(list(ANALYSES), ["one column", "two columns", "by stratum"], [None, "w"]),
)
def test_the_variance_of_analyses_adds_up(
    what: str, name: str, weights: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed: list[Any] = []
    whole = assessment.summed_variance
    monkeypatch.setattr(assessment, "summed_variance", lambda *given: summed.append(given) or whole(*given))
    monkeypatch.setattr(assessment, "CELLS", 50)  # above which sums over blocks are taken
    frame = people(gaps=True)
    folder = written(frame, tmp_path / "true", [200, 250])
    options = {"analyses": ANALYSES[what], "weights": weights}
    found = pr.risk(folder, MECHANISMS[name], memory=SMALL, **options)
    same(found, pr.risk(frame, MECHANISMS[name], **options), 1e-9)
    assert found.utility.analyses[0].left_out > 0 or "edu" not in ANALYSES[what]
    assert bool(summed) == (what not in ("levels", "a share"))


def test_an_analysis_of_noisy_numbers_is_drawn_as_in_memory(tmp_path: Path) -> None:
    options = {"analyses": "income ~ age"}
    mechanism = pr.Mechanism({"age": pr.LaplaceNoise(2.0)})
    large = pd.concat([people()] * 3, ignore_index=True)
    folder = written(large, tmp_path / "large", [200, 250])
    with pytest.raises(DataError, match=r"each of 1800 records is drawn 8 times in memory"):
        pr.risk(folder, mechanism, memory=SMALL, **options)
    same(pr.risk(folder, mechanism, memory="8 MB", **options), pr.risk(large, mechanism, **options))


def test_values_are_recoded_as_a_release_takes_them(tmp_path: Path, seen: list[Any]) -> None:
    """Rare values are merged, marks declared missing, and missing ones a level."""
    frame = people(gaps=True)
    frame.loc[frame.index[:4], "edu"] = "rare"
    frame["edu"] = frame["edu"].where(frame.index % 50 != 7, "-8")
    design = tmp_path / "design.toml"
    design.write_text(
        'version = 1\nmissing = ["-8"]\n[columns.edu]\nkeep = 0.8\nmerge_below = 10\nother = "low"\nmissing_level = "unknown"\n'
    )
    folder = written(frame, tmp_path / "true", [200, 250])
    same(
        pr.risk(folder, design, keys=["decade", "edu"], memory=SMALL),
        pr.risk(frame, design, keys=["decade", "edu"]),
    )
    assert len(seen) == 1


def test_the_prior_of_an_attacker_is_kept(tmp_path: Path, seen: list[Any]) -> None:
    frame = people()
    folder = written(frame, tmp_path / "true", [200, 250])
    prior = {"edu": [0.2, 0.3, 0.5], "age": {10.0: 0.25, 35.0: 0.5, 90.0: 0.25}}
    options = {"prior": prior, "keys": ["decade"]}
    same(pr.risk(folder, MECHANISMS["noise"], memory=SMALL, **options), pr.risk(frame, MECHANISMS["noise"], **options))
    assert len(seen) == 1


def test_numbers_are_taken_in_steps(tmp_path: Path, seen: list[Any]) -> None:
    """Incomes are all different; what counts as one under the noise is not."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"income": rng.gamma(2.0, 500.0, 5000)})
    for noise in (pr.LaplaceNoise(800.0), pr.GaussianNoise(900.0), pr.LaplaceNoise(800.0, bounds=(0.0, 2500.0))):
        folder = written(frame, tmp_path / f"{type(noise).__name__}{noise.bounds}", [1000, 2000])
        mechanism = pr.Mechanism({"income": noise})
        same(pr.risk(folder, mechanism, memory=SMALL), pr.risk(frame, mechanism))
    assert len(seen) == 3


def test_a_table_fits_or_is_refused_but_never_left_out(tmp_path: Path) -> None:
    folder = written(people(), tmp_path / "true", [200])
    with pytest.raises(DataError, match=r"'person' alone \d+ values: memory=0.0001 GB holds 100 comb"):
        pr.risk(folder, MECHANISMS["one column"], keys=["person"], memory="100 kB")
    found = pr.risk(folder, MECHANISMS["one column"], keys=["person"], memory=SMALL)
    assert found.linkage is not None
    assert found.linkage.uniques == 0


def test_arrow_is_what_is_read(tmp_path: Path) -> None:
    """A dictionary with gaps, and a column of whole numbers with gaps."""
    frame = people(gaps=True).astype({"edu": "category", "decade": "Int64"})
    folder = written(frame, tmp_path / "true", [200, 250])
    assert pa.types.is_dictionary(parquet.read_schema(folder / "part-00.parquet").field("edu").type)
    same(
        pr.risk(folder, MECHANISMS["one column"], keys=["decade"], memory=SMALL),
        pr.risk(frame, MECHANISMS["one column"], keys=["decade"]),
    )


def test_missing_values_are_refused_as_in_memory(tmp_path: Path) -> None:
    frame = people(gaps=True)
    folder = written(frame, tmp_path / "true", [200, 250])
    said = []
    for data, memory in ((folder, SMALL), (frame, None)):
        with pytest.raises(DataError, match=r"records have missing values, in ") as caught:
            pr.risk(data, MECHANISMS["one column"], keys=["decade"], missing="error", memory=memory)
        said.append(str(caught.value))
    assert said[0] == said[1]

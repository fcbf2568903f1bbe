"""What is noticed, refused and remarked on in memory is noticed, refused and remarked on in blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset

import pramana as pr
from pramana.analysis import distinct, streaming
from pramana.frames import sources

N = 1200
P = pr.TransitionMatrix.binary(0.85, 0.85)
MECHANISM = pr.Mechanism({"y": P})


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH", 90)
    monkeypatch.setattr(streaming, "PILOT", 300)
    monkeypatch.setattr(distinct, "FEW", 30)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    """Records of one person share a value, wherever they lie in the file."""
    rng = np.random.default_rng(3)
    person = rng.integers(0, 200, N)
    value = rng.integers(0, 2, 200)
    return pd.DataFrame(
        {"person": person, "x": rng.normal(size=N), "y": value[person], "z": rng.integers(0, 2, N), "site": person % 7}
    )


def answers(what: Any, frame: pd.DataFrame, mechanism: Any, **options: Any) -> list[Any]:
    """In memory and in blocks: what is said, or refused."""
    out: list[Any] = []
    batches = dataset.dataset(pa.Table.from_pandas(frame, preserve_index=False))
    for source, memory in ((frame, {}), (batches, {"memory": 1})):
        try:
            found = pr.fit(what, source, mechanism, **memory, **options)
            out.append([(d.code, d.message) for d in found.diagnostics])
        except pr.PramanaError as error:
            out.append(str(error))
    return out


def test_shared_draws_are_noticed(data: pd.DataFrame) -> None:
    whole, found = answers(pr.mean("y"), data, MECHANISM, clusters="person")
    assert found == whole
    assert "shared-draws" in [code for code, _ in found]
    few = data.assign(
        y=np.where(np.arange(N) == N - 1, 1 - data["y"], data["y"])
    )  # one record of the last block differs
    for frame, mechanism in ((few, MECHANISM), (data.assign(y=data["z"]), MECHANISM)):
        whole, found = answers(pr.mean("y"), frame, mechanism, clusters="person")
        assert found == whole
        assert "shared-draws" not in [code for code, _ in found]


def test_units_must_agree(data: pd.DataFrame) -> None:
    by_person = MECHANISM.with_unit("person")
    whole, found = answers("y ~ x", data, by_person, family="binomial")
    assert not isinstance(whole, str)
    assert [code for code, _ in found] == [code for code, _ in whole]
    astray = data.assign(y=np.where(np.isin(np.arange(N), [500, 900]), 1 - data["y"], data["y"]))
    whole, found = answers("y ~ x", astray, by_person, family="binomial")
    assert found == whole
    assert "than the first record of their unit 'person'" in found


def test_clusters_must_not_cut_a_unit(data: pd.DataFrame) -> None:
    cut = data.assign(site=np.where(np.arange(N) == 1000, 9, data["site"]))
    design = pr.SurveyDesign(clusters="site")
    for options in ({"clusters": "site"}, {"design": design}):
        whole, found = answers("y ~ x", cut, MECHANISM.with_unit("person"), family="binomial", **options)
        assert found == whole
        assert "1 of 200 of them lie in several clusters" in found
        assert not isinstance(
            answers("y ~ x", data, MECHANISM.with_unit("person"), family="binomial", **options)[1], str
        )


def test_other_records_than_were_described(data: pd.DataFrame, tmp_path: Path) -> None:
    data.to_parquet(tmp_path / "raw.parquet", index=False)
    pr.release(tmp_path / "raw.parquet", tmp_path / "out.parquet", MECHANISM)
    released = pd.read_parquet(tmp_path / "out.parquet")
    place = tmp_path / "datapackage.json"
    for some in (released[released["y"] == 1], released[released["x"] > 0], released):
        whole, found = answers(pr.mean("x"), some, place)
        assert [said for said in found if said[0] == "other-records"] == [s for s in whole if s[0] == "other-records"]
    assert "other-records" in [code for code, _ in answers(pr.mean("x"), released.iloc[:900], place)[1]]


def test_a_subset_need_not_be_seen_in_every_block(data: pd.DataFrame) -> None:
    """Of a rare level the reverted share of some block is negative, and that of all records is not."""
    rng = np.random.default_rng(6)
    rare = data.assign(y=np.where(rng.random(N) < 0.15, rng.random(N) < 0.9, rng.random(N) < 0.15).astype(int))
    whole, found = answers("x ~ z", rare, MECHANISM, subset="y == 1")
    assert found == whole
    assert not isinstance(found, str)
    none = data.assign(y=(rng.random(N) < 0.05).astype(int))
    whole, found = answers("x ~ z", none, MECHANISM, subset="y == 1")
    assert found == whole
    assert "is not positive" in found.replace(", not", " is not")


def test_cells_of_a_table_of_counts_are_judged_by_all_records(data: pd.DataFrame) -> None:
    """A negative cell is as many standard errors below zero as it is in memory."""
    none = data.assign(y=(np.arange(N) % 25 == 0).astype(int))
    whole, found = answers(pr.counts("y", "z"), none, MECHANISM)
    assert [code for code, _ in found] == [code for code, _ in whole]
    assert any("negative" in code for code, _ in found)


@pytest.mark.parametrize(("keep", "seed"), [(0.55, 2), (0.55, 5), (0.6, 5), (0.6, 2)])
def test_which_interval_is_shown_does_not_depend_on_the_sample(
    keep: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal of 'z[T.c]' is near the one from which Wald's is shown, and a sample tells it to some per cent."""
    monkeypatch.setattr(sources, "BATCH", 3000)
    monkeypatch.setattr(streaming, "PILOT", 1500)
    rng = np.random.default_rng(seed)
    z, x = rng.choice(["a", "b", "c"], 6000, p=[0.6, 0.3, 0.1]), rng.normal(size=6000)
    odds = np.exp(-0.5 + 0.4 * (z == "b") + 0.8 * (z == "c") + 0.5 * x)
    y = (rng.random(6000) < odds / (1 + odds)).astype(int)
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(("a", "b", "c"), keep)})
    frame = mechanism.perturb(pd.DataFrame({"y": y, "z": z, "x": x}), seed=seed)
    batches = dataset.dataset(pa.Table.from_pandas(frame, preserve_index=False))
    whole = pr.fit("y ~ z + x", frame, mechanism, family="binomial")
    found = pr.fit("y ~ z + x", batches, mechanism, family="binomial", memory=1)
    assert found.inference == whole.inference
    apart = np.abs(np.asarray(found.conf_int() - whole.conf_int())) / whole.standard_errors[:, None]
    assert apart.max() < 1e-9

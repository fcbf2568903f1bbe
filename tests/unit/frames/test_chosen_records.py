"""Some records and columns of several files, of which one is held at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pramana as pr
from pramana.disclosure.audit.giveaways import released_file, search
from pramana.frames.folders import files_of, read_files


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {"ill": rng.choice(["no", "yes"], 900), "x": rng.normal(size=900).round(3), "n": np.arange(900)}
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_chosen_records_are_those_of_the_whole(frame: pd.DataFrame, tmp_path: Path, kind: str, share: float) -> None:
    for k, rows in enumerate(np.array_split(np.arange(900), 4)):
        part = frame.iloc[rows]
        part.to_csv(tmp_path / f"{k}.csv", index=False) if kind == "csv" else part.to_parquet(tmp_path / f"{k}.parquet")
    chosen = np.random.default_rng(1).random(900) < share
    files = files_of(tmp_path)
    found = read_files(files, {}, ["x", "ill"], chosen)
    whole = read_files(files, {}).native.select(found.names)
    assert set(found.names) == {"x", "ill"}
    assert found.native.to_pydict() == whole.filter(pa.array(chosen)).to_pydict()


def test_an_audit_of_stretches_holds_no_more_than_these(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for k, rows in enumerate(np.array_split(np.arange(900), 3)):
        frame.iloc[rows].to_parquet(tmp_path / "in" / f"{k}.parquet", index=False)
    matrix = pr.TransitionMatrix.randomized_response(["no", "yes"], keep=0.8)
    pr.release(tmp_path / "in", tmp_path / "out", pr.Mechanism({"ill": matrix}))
    held: list[int] = []
    true = released_file.search

    def watched(clear: pa.Table, *given: object) -> object:
        held.append(clear.num_rows)
        return true(clear, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(released_file, "search", watched)
    monkeypatch.setattr(search, "MOST_RECORDS", 400)
    monkeypatch.setattr(search, "STRETCH", 100)
    found = pr.audit(tmp_path / "out", original=tmp_path / "in").findings
    assert not [f for f in found if f.severity == "error"]
    assert held == [400]

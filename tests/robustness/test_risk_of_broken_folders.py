"""Files that are broken, change or disagree while risk reads them block by block: named, and no value of them shown."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.disclosure import collapsed_records, true_records
from pramana.disclosure.collapsed_records import Look
from pramana.frames.sources import FileSource

SECRET = "zqx" + "secret"
LEVELS = ("low", "high")
P = pr.TransitionMatrix.randomized_response(LEVELS, 0.8)
MECHANISM = pr.Mechanism({"edu": P})
N = 400


def people(files: int = 3) -> list[pd.DataFrame]:
    rng = np.random.default_rng(1)
    return [
        pd.DataFrame(
            {
                "edu": rng.choice(LEVELS, N),
                "town": rng.choice([f"{SECRET}{k}" for k in range(5)], N),
                "income": 7318281.25 + rng.integers(0, 9, N),
                "region": rng.choice(["n", "s"], N),
            }
        )
        for _ in range(files)
    ]


def written(parts: list[pd.DataFrame], folder: Path, ending: str = "parquet") -> Path:
    folder.mkdir()
    for k, part in enumerate(parts):
        path = folder / f"part-{k}.{ending}"
        if ending == "csv":
            part.to_csv(path, index=False)
        else:
            part.to_parquet(path, index=False, row_group_size=100, compression="none", use_dictionary=False)
    return folder


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if files were large."""
    for module in (collapsed_records, true_records):
        monkeypatch.setattr(module, "held_bytes", lambda *_: np.inf)
    monkeypatch.setattr(true_records, "SPREAD", np.inf)


def refused(data: Any, mechanism: pr.Mechanism = MECHANISM, **options: Any) -> str:
    options = {"keys": ["town", "region"], "memory": "4 MB"} | options
    with pytest.raises(pr.PramanaError) as caught:
        pr.risk(data, mechanism, **options)
    said = str(caught.value)
    assert SECRET not in said
    assert "73182" not in said
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return said


def linked(found: pr.Risk) -> tuple[Any, ...]:
    assert found.linkage is not None
    one = found.linkage
    return one.n, one.classes, one.row, one.uniques, round(one.after_mean, 12)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_level_that_only_the_last_file_has_is_named_by_file_row_and_count(ending: str, tmp_path: Path) -> None:
    parts = people()
    parts[2].loc[[250, 251, 310], "edu"] = f"{SECRET}new"
    said = refused(written(parts, tmp_path / "in", ending))
    assert said.startswith("file 'part-2."), said
    assert "column 'edu' has " in said
    assert re.search(r"not levels of the mechanism, first in row \d+", said)
    if ending == "csv":
        assert "has 3 value(s)" in said
        assert "first in row 250" in said


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("region", f"{SECRET}east", "column 'region' has 1 value"),
        ("region", None, "column 'region' has 1 missing value"),
    ],
)
def test_an_unknown_stratum_is_named(column: str, value: Any, words: str, tmp_path: Path) -> None:
    parts = people()
    parts[1].loc[30, column] = value
    said = refused(written(parts, tmp_path / "in"), pr.Mechanism({"edu": pr.Stratified("region", {"n": P, "s": P})}))
    assert said.startswith("file 'part-1.parquet'")
    assert words in said


def test_text_among_noisy_numbers_is_named(tmp_path: Path) -> None:
    parts = people()
    parts[1]["income"] = np.where(np.arange(N) == 7, np.inf, parts[1]["income"])
    said = refused(written(parts, tmp_path / "in"), pr.Mechanism({"income": pr.LaplaceNoise(3.0)}))
    assert said.startswith("file 'part-1.parquet'")
    assert "column 'income' has 1 missing or infinite value(s), first in row 7" in said


def test_a_corrupt_row_group_is_named(tmp_path: Path) -> None:
    folder = written(people(), tmp_path / "in")
    path = folder / "part-1.parquet"
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle - 3000 : middle + 3000] = os.urandom(6000)
    path.write_bytes(content)
    said = refused(folder)
    assert "part-1.parquet" in said
    assert "could not be read as Parquet" in said


def test_a_file_that_changes_while_it_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(people(), tmp_path / "in")
    look = Look.__call__

    def changing(self: Look, job: Any) -> Any:
        found = look(self, job)
        people(1)[0].head(50).to_parquet(folder / "part-2.parquet", index=False)
        return found

    monkeypatch.setattr(Look, "__call__", changing)
    said = refused(folder)
    assert "part-2.parquet" in said
    assert "changed while it was read" in said


@pytest.mark.parametrize("asked", ["rows of a piece", "batches", "rest of the batches"])
def test_whatever_is_asked_of_a_changed_file_its_change_is_named(asked: str, tmp_path: Path) -> None:
    """Arrow stumbles over the old end of a new file in many ways, or not at all where bytes happen to mean something."""
    folder = written(people(), tmp_path / "in")
    source = FileSource.open(sorted(folder.iterdir()), str(folder), {})
    piece = source.pieces()[-1]
    batches = source.batches(["town"])
    if asked == "rest of the batches":
        next(batches)
    people(1)[0].head(50).to_parquet(folder / "part-2.parquet", index=False)
    with pytest.raises(pr.DataError, match=r"part-2\.parquet' changed while it was read"):
        _ = piece.rows if asked == "rows of a piece" else list(batches)


def test_a_column_of_another_type_in_one_file_is_named(tmp_path: Path) -> None:
    parts = people()
    parts[2]["town"] = np.arange(N)
    said = refused(written(parts, tmp_path / "in"))
    assert "column 'town' is of type int64 in" in said
    assert "part-2.parquet" in said


def test_a_column_of_text_files_that_turns_to_text_is_read_again(tmp_path: Path) -> None:
    """As in memory, where all of a file is seen at once."""
    parts = people()
    for part in parts:
        part["town"] = np.arange(N) % 7
    parts[2] = parts[2].astype({"town": object})
    parts[2].loc[390, "town"] = "x"
    frame = pd.concat([part.astype({"town": str}) for part in parts], ignore_index=True)
    folder = written(parts, tmp_path / "in", "csv")
    found = pr.risk(folder, MECHANISM, keys=["town", "region"], memory="4 MB")
    assert linked(found) == linked(pr.risk(frame, MECHANISM, keys=["town", "region"]))


def test_released_text_files_that_turn_to_text_are_read_again(tmp_path: Path) -> None:
    parts = people()
    for part in parts:
        part["town"] = np.arange(N) % 7
    parts[2] = parts[2].astype({"town": object})
    parts[2].loc[390, "town"] = "x"
    frame = pd.concat([part.astype({"town": str}) for part in parts], ignore_index=True)
    true = tmp_path / "true.parquet"
    frame.to_parquet(true, index=False)
    found = pr.risk(true, MECHANISM, keys=["town"], released=written(parts, tmp_path / "out", "csv"), memory="4 MB")
    assert found["edu"].realised is not None


def test_an_empty_file_adds_nothing_and_empty_folders_are_refused(tmp_path: Path) -> None:
    parts = people()
    parts[1] = parts[1].iloc[:0]
    for part in parts:  # an empty column of pandas has no type of its own
        part["town"] = part["town"].astype("string")
        part["edu"] = part["edu"].astype("string")
        part["region"] = part["region"].astype("string")
    folder = written(parts, tmp_path / "in")
    whole = pd.concat(parts, ignore_index=True)
    found = pr.risk(folder, MECHANISM, keys=["town", "region"], memory="4 MB")
    assert linked(found) == linked(pr.risk(whole, MECHANISM, keys=["town", "region"]))
    (tmp_path / "none").mkdir()
    assert "holds no data files" in refused(tmp_path / "none")
    nobody = written([part.iloc[:0] for part in parts], tmp_path / "nobody")
    assert "has no records" in refused(nobody)


@pytest.mark.parametrize("size", [N - 1, N + 1])
def test_released_files_of_another_length_are_refused(size: int, tmp_path: Path) -> None:
    parts = people()
    folder = written(parts, tmp_path / "in")
    whole = pd.concat([*parts, parts[0]], ignore_index=True).iloc[: 2 * N + size]
    said = refused(folder, released=written([whole], tmp_path / "out"))
    assert f"the released file has {2 * N + size} records and the true one {3 * N}" in said


def test_released_files_in_another_order_are_refused(tmp_path: Path) -> None:
    parts = people()
    folder = written(parts, tmp_path / "in")
    said = refused(folder, released=written([parts[0], parts[2], parts[1]], tmp_path / "out"))
    assert "column 'town' is not perturbed, yet" in said
    assert re.search(r"first in row 40\d", said)


def test_a_released_value_that_is_no_level_is_refused(tmp_path: Path) -> None:
    parts = people()
    folder = written(parts, tmp_path / "in")
    parts[2].loc[10, "edu"] = f"{SECRET}new"
    assert "column 'edu' has 1 value(s) that are not levels" in refused(
        folder, released=written(parts, tmp_path / "out")
    )


def test_keys_with_many_values_are_refused_in_words(tmp_path: Path) -> None:
    parts = people()
    for k, part in enumerate(parts):
        part["person"] = 918273 + np.arange(N) + N * k
    said = refused(written(parts, tmp_path / "in"), keys=["person", "town"], memory="400 kB")
    assert "the keys 'person', 'town' have too many different combinations" in said
    assert "'person' alone" in said
    assert "memory=0.0004 GB holds 400 combinations" in said
    assert "91827" not in said
    said = refused(written(parts, tmp_path / "again"), keys=["town", "person"], memory="100 kB")
    assert "'person' alone more than 100 values" in said  # the column that has them, not the first one counted
    assert "91827" not in said


def test_a_link_file_beyond_the_budget_is_refused_in_words(tmp_path: Path) -> None:
    parts = people()
    folder = written(parts, tmp_path / "in")
    link = tmp_path / "link.parquet"
    pd.DataFrame({"original_row": np.arange(3 * N)[::-1]}).to_parquet(link)
    public = written([pd.concat(parts[::-1], ignore_index=True)], tmp_path / "out")
    said = refused(folder, released=public, link=link, memory="20 kB")
    assert "by the link file 1200 released records" in said
    assert "raise memory=" in said


def test_an_interrupt_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Look, job: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Look, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pr.risk(written(people(), tmp_path / "in"), MECHANISM, keys=["town"], memory="4 MB")


def test_plans_of_folders_beyond_memory_are_refused_in_words(tmp_path: Path) -> None:
    folder = written(people(), tmp_path / "in")
    for call in (
        lambda: pr.plan(folder, "edu", "income ~ edu", se=0.1),
        lambda: pr.frontier(folder, "edu", keys=["town"]),
        lambda: pr.optimal_design("income ~ edu", folder, "edu", epsilon=1.0),
    ):
        with pytest.raises(
            pr.PramanaError, match=r"of the 3 files take about inf GB .* the limit is 4 GB: take a random part"
        ):
            call()

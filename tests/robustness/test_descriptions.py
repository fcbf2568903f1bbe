"""Descriptions of mechanisms: broken, newer, forgotten, and never half-written."""

from __future__ import annotations

import copy
import datetime
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pramana as pr

MIXTURE = {"channel": "mixture", "levels": ["low", "mid", "high"], "refill": 0.2}
GOOD: dict[str, Any] = {"pram": {"version": "1.0", "channels": [{"columns": ["edu"], "randomization": MIXTURE}]}}
CHANNEL = ("pram", "channels", 0)
HOW = (*CHANNEL, "randomization")


def changed(path: tuple[Any, ...], value: object) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    inner: Any = document
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return document


def matrix(orientation: str, entries: object) -> dict[str, Any]:
    return changed(
        HOW, {"channel": "transition_matrix", "levels": ["a", "b"], "orientation": orientation, "matrix": entries}
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([1], "holds no 'pram' object"),
        ({"pram": [1]}, "pram.version is None, not a version"),
        (
            changed(("pram", "version"), "3.0"),
            "version 3.0, newer than the 2.0 that this release reads: update pramana",
        ),
        (changed(("pram", "version"), "abc"), "pram.version is 'abc', not a version such as '1.2'"),
        (changed(("pram", "version"), 1.0), "pram.version is 1.0, not a version such as '1.2'"),
        (changed(("pram", "channels"), []), "pram.channels: .*at least 1"),
        (changed((*CHANNEL, "columns"), "edu"), "pram.channels.0.columns: .*list"),
        (changed((*CHANNEL, "columns"), []), "pram.channels.0.columns: .*at least 1"),
        (changed((*HOW, "channel"), "shuffle"), "pram.channels.0.randomization: .*'shuffle'.*'mixture'"),
        (changed((*HOW, "kind"), "nominl"), "randomization.mixture.kind: .*'nominal'"),
        (changed((*HOW, "refill"), "x"), "randomization.mixture.refill: .*number"),
        (changed((*HOW, "refill"), 2.0), "randomization.mixture.refill: .*less than 1"),
        (changed((*HOW, "refill"), -1.0), "randomization.mixture.refill: .*greater than or equal to 0"),
        (changed((*HOW, "frequencies"), [0.5, 0.5]), "pram.channels.0: 2 frequencies .* for 3 levels"),
        (changed((*HOW, "frequencies"), [0.5, 0.5, 0.5]), "pram.channels.0: .*sum to 1.5.*summing to 1"),
        (changed((*HOW, "frequencies"), [-1.0, 1.0, 1.0]), "mixture.frequencies.0: .*greater than or equal to 0"),
        (changed((*HOW, "levels"), []), "mixture.levels: .*at least 2"),
        (changed((*HOW, "levels"), ["a", "a", "b"]), "pram.channels.0: levels 'a' appear more than once"),
        (matrix("columns", [[0.8, 0.2], [0.1, 0.9]]), "pram.channels.0: column 0 .*from_rows"),
        (matrix("columns", [[0.8, 0.2], [0.1]]), "pram.channels.0: .*rectangular"),
        (matrix("diagonal", [[1, 0], [0, 1]]), "transition_matrix.orientation: .*'columns' or 'rows'"),
        (
            changed(("pram", "channels"), GOOD["pram"]["channels"] * 2),
            "pram.channels.1: column 'edu' appears more than once",
        ),
        ({"resources": 5}, "describes 0 perturbed resources.*by its data file"),
    ],
)
def test_a_wrong_document_is_refused_with_the_path_inside(document: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document))
    with pytest.raises(pr.MechanismError, match=message):
        pr.Mechanism.load(path)


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe{"])
def test_a_file_that_is_no_json_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(pr.MechanismError, match=r"m\.json' is not valid JSON"):
        pr.Mechanism.load(path)


def test_a_missing_description_is_named(tmp_path: Path, survey: pd.DataFrame) -> None:
    with pytest.raises(pr.MechanismError, match=r"nope\.json' does not exist"):
        pr.fit("income ~ age", survey, tmp_path / "nope.json")
    survey.to_csv(tmp_path / "s.csv", index=False)
    with pytest.raises(pr.MechanismError, match="carries no description, and none lies beside it"):
        pr.fit("income ~ age", tmp_path / "s.csv", "auto")
    with pytest.raises(
        pr.MechanismError, match=r"'auto' reads the description of a data file, which .*: give the file's path"
    ):
        pr.fit("income ~ age", survey, "auto")


@pytest.mark.parametrize("spelling", ["public.csv", "./public.csv"])
def test_a_described_file_cannot_be_fitted_as_clean(spelling: str, tmp_path: Path, survey: pd.DataFrame) -> None:
    survey.to_csv(tmp_path / "public.csv", index=False)
    package = {"resources": [{"path": spelling, **GOOD}]}
    (tmp_path / "datapackage.json").write_text(json.dumps(package))
    with pytest.raises(
        pr.MechanismError, match=r"public\.csv' carries a description.*mechanism=None.*use mechanism='auto'"
    ):
        pr.fit("income ~ age", tmp_path / "public.csv", None)
    assert pr.fit("income ~ age + edu", tmp_path / "public.csv", "auto").privacy is not None


def described_parquet(folder: Path, survey: pd.DataFrame, content: bytes) -> Path:
    path = folder / "public.parquet"
    pq.write_table(pa.Table.from_pandas(survey).replace_schema_metadata({b"pram": content}), path)
    return path


def test_a_description_inside_parquet_cannot_be_forgotten(tmp_path: Path, survey: pd.DataFrame) -> None:
    path = described_parquet(tmp_path, survey, json.dumps(GOOD).encode())
    with pytest.raises(pr.MechanismError, match=r"public\.parquet' carries a description.*use mechanism='auto'"):
        pr.fit("income ~ age", path, None)
    with pytest.raises(pr.MechanismError, match="the table carries a description"):
        pr.fit("income ~ age", pq.read_table(path), None)


def test_an_instrument_that_the_description_names_cannot_be_left_undeclared(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    """The mechanism given knows of education alone, though the file says that its instrument was perturbed too."""
    both = pr.Mechanism({"edu": mechanism.assignments[0].channel, "female": pr.TransitionMatrix.binary(0.8, 0.8)})
    both.save(tmp_path / "both.json")
    path = described_parquet(tmp_path, survey, (tmp_path / "both.json").read_bytes())
    plan = pr.two_stage_least_squares("income ~ age | female")
    for data in (path, pq.read_table(path)):
        with pytest.raises(
            pr.MechanismError, match=r"leaves out 'female', which would be taken for clean: use mechanism='auto'"
        ):
            pr.fit(plan, data, mechanism)
    mechanism.save(tmp_path / "edu.json")
    with pytest.raises(pr.MechanismError, match="leaves out 'female'"):
        pr.fit(plan, path, tmp_path / "edu.json")
    assert pr.fit(plan, path, both).privacy is not None


@pytest.mark.parametrize("mechanism", [None, "auto"])
def test_a_garbled_description_inside_parquet_is_refused(mechanism: Any, tmp_path: Path, survey: pd.DataFrame) -> None:
    path = described_parquet(tmp_path, survey, b"\xff{")
    with pytest.raises(
        pr.MechanismError, match=r"public\.parquet: the 'pram' metadata is not valid JSON: byte 0 is not UTF-8 text"
    ):
        pr.fit("income ~ age", path, mechanism)


def test_saving_to_an_absent_folder_or_onto_a_folder_is_refused(tmp_path: Path, mechanism: pr.Mechanism) -> None:
    with pytest.raises(pr.PramanaError, match="absent' does not exist: create it first"):
        mechanism.save(tmp_path / "absent" / "m.json")
    with pytest.raises(pr.PramanaError, match="is a folder: give the name of a file"):
        mechanism.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file_and_no_half_written_one(
    tmp_path: Path, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.json"
    path.write_text("old")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(pr.PramanaError, match="No space left on device; nothing was changed"):
        mechanism.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_levels_that_json_cannot_hold_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    mechanism = pr.Mechanism({"day": pr.TransitionMatrix(days, [[0.8, 0.1], [0.2, 0.9]])})
    with pytest.raises(pr.MechanismError, match=re.escape("levels must be text, numbers or true and false")):
        mechanism.save(tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_numpy_strata_survive_saving(tmp_path: Path) -> None:
    channel = pr.Stratified("year", {np.int64(2020): pr.TransitionMatrix.binary(0.8, 0.9)})
    mechanism = pr.Mechanism({"x": channel})
    mechanism.save(tmp_path / "m.json")
    assert pr.Mechanism.load(tmp_path / "m.json") == mechanism

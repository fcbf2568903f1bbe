"""A saved mechanism comes back as it was."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import pramana as pr
from golden_texts import worded
from pramana.mechanism.channels.matrix_forms import Banded, Dense, Mixture
from pramana.mechanism.channels.transition import TransitionMatrix
from randomizations import random_channel, random_matrix

GOLDEN = Path(__file__).parents[1] / "golden" / "mechanism-1.2.json"
EDU = ["low", "mid", "high"]


def channels(rng: np.random.Generator) -> dict[str, tuple[Any, Any]]:
    """Key and channel of every kind of mechanism that can be written down."""
    joint = list(product(EDU, [0, 1]))
    strata = {"north": random_channel(rng, EDU), "south": TransitionMatrix.randomized_response(EDU, 0.8)}
    refilled = {"channel": "mixture", "kind": "nominal", "levels": EDU, "refill": 0.3, "frequencies": [0.2, 0.3, 0.5]}
    return {
        "dense text": ("edu", random_channel(rng, EDU)),
        "dense numbers": ("children", random_channel(rng, [0, 1, 2, 3], kind="numeric")),
        "dense undecided numbers": ("code", random_channel(rng, [1, 2, 3])),
        "dense ordinal": ("edu", random_channel(rng, EDU, kind="ordinal")),
        "floats": ("dose", random_channel(rng, [0.5, 1.0, 2.5], kind="numeric")),
        "booleans": ("smoker", random_channel(rng, [False, True])),
        "structural zero": ("edu", TransitionMatrix.from_columns(EDU, [[0.9, 0.1, 0], [0.1, 0.8, 0.2], [0, 0.1, 0.8]])),
        "band": ("year", pr.designs.band(range(1700, 2000), 0.7, width=2, kind="ordinal")),
        "closed form": ("edu", TransitionMatrix.randomized_response(EDU, keep=0.85)),
        "mixture with frequencies": ("edu", TransitionMatrix.from_document(refilled)),
        "joint": (("edu", "female"), pr.TransitionMatrix.from_columns(joint, random_matrix(rng, 6))),
        "joint closed form": (("edu", "female"), TransitionMatrix.randomized_response(joint, keep=0.6)),
        "stratified": ("edu", pr.Stratified("region", strata)),
        "stratified by numbers": ("edu", pr.Stratified("year", {2020: strata["north"], 2021: strata["south"]})),
    }


NAMES = list(channels(np.random.default_rng(0)))


@pytest.fixture
def saved(name: str, rng: np.random.Generator, tmp_path: Path) -> tuple[pr.Mechanism, pr.Mechanism]:
    key, channel = channels(rng)[name]
    mechanism = pr.Mechanism({key: channel})
    mechanism.save(tmp_path / "mechanism.json")
    return mechanism, pr.Mechanism.load(tmp_path / "mechanism.json")


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_mechanism_comes_back_as_it_was(saved: tuple[pr.Mechanism, pr.Mechanism]) -> None:
    given, loaded = saved
    assert loaded == given
    assert repr(loaded) == repr(given)
    assert loaded.columns == given.columns
    assert loaded.schema == given.schema


@pytest.mark.parametrize("name", NAMES)
def test_levels_keep_their_types_and_matrices_their_bits(saved: tuple[pr.Mechanism, pr.Mechanism]) -> None:
    for before, after in zip(*(m.assignments for m in saved), strict=True):
        assert before.channel.levels == after.channel.levels
        assert [type(v) for v in before.channel.levels] == [type(v) for v in after.channel.levels]
        for old, new in zip(matrices(before.channel), matrices(after.channel), strict=True):
            assert type(old.form) is type(new.form)
            np.testing.assert_array_equal(old.matrix, new.matrix)


def matrices(channel: Any) -> list[TransitionMatrix]:
    return list(channel.strata.values()) if isinstance(channel, pr.Stratified) else [channel]


def test_several_columns_are_saved_together(rng: np.random.Generator, tmp_path: Path) -> None:
    found = channels(rng)
    mechanism = pr.Mechanism(dict([found["dense numbers"], found["joint"], found["booleans"]]))
    mechanism.save(tmp_path / "all.json")
    assert pr.Mechanism.load(tmp_path / "all.json") == mechanism


def test_an_infinite_epsilon_is_written_as_null(tmp_path: Path, rng: np.random.Generator) -> None:
    key, channel = channels(rng)["structural zero"]
    pr.Mechanism({key: channel}).save(tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text())["pram"]["channels"][0]["epsilon"] is None
    assert pr.Mechanism.load(tmp_path / "m.json").epsilon == np.inf


def test_different_matrices_are_different_mechanisms(rng: np.random.Generator) -> None:
    first, second = (pr.Mechanism({"edu": random_channel(rng, EDU)}) for _ in range(2))
    assert first != second


def changed(tmp_path: Path, **fields: Any) -> Path:
    document = json.loads(GOLDEN.read_text(encoding="utf-8"))
    document["pram"] |= fields
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("version", ["3.0", "11.3"])
def test_a_newer_major_version_is_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(pr.MechanismError, match=f"version {version}.*update pramana"):
        pr.Mechanism.load(changed(tmp_path, version=version))


def test_a_newer_minor_version_with_more_fields_is_read(tmp_path: Path) -> None:
    assert pr.Mechanism.load(changed(tmp_path, version="1.9", remark="new")) == pr.Mechanism.load(GOLDEN)


@pytest.mark.parametrize(("version", "conditional"), [("1.0", []), ("1.1", ["job", "code"]), ("1.2", ["job", "code"])])
def test_the_golden_files_are_read_as_they_were_written(version: str, conditional: list[str]) -> None:
    mechanism = pr.Mechanism.load(GOLDEN.with_name(f"mechanism-{version}.json"))
    assert mechanism.conditional == conditional
    first, band = mechanism.assignments[:5], mechanism.assignments[5:]
    assert [a.columns for a in first] == [("edu",), ("answer",), ("sex", "region"), ("job",), ("code",)]
    edu, answer, joint, job, code = (a.channel for a in first)
    np.testing.assert_array_equal(edu.matrix, [[0.8, 0.1, 0.05], [0.15, 0.8, 0.15], [0.05, 0.1, 0.8]])
    assert edu.kind == "ordinal"
    assert isinstance(answer.form, Mixture)
    assert (answer.levels, answer.kind) == ((0, 1), "numeric")
    np.testing.assert_allclose(answer.matrix, [[0.85, 0.15], [0.15, 0.85]], rtol=1e-15)
    assert joint.levels == (("f", 1), ("f", 2), ("m", 1))
    assert isinstance(joint.form, Dense)
    assert list(job.strata) == ["city", "country"]
    assert (code.levels, code.kind) == (("01", "02"), "nominal")
    np.testing.assert_allclose(code.form.frequencies, [0.25, 0.75], rtol=0)
    assert len(band) == (version == "1.2")
    for assignment in band:
        assert isinstance(assignment.channel.form, Banded)
        np.testing.assert_array_equal(assignment.channel.matrix[:, 0], [0.5, 0.5, 0, 0, 0])
        np.testing.assert_array_equal(assignment.channel.matrix[:, 4], [0, 0, 0, 0.25, 0.75])


def test_the_golden_file_is_written_again_word_for_word(tmp_path: Path) -> None:
    pr.Mechanism.load(GOLDEN).save(tmp_path / "again.json")
    assert worded((tmp_path / "again.json").read_text(encoding="utf-8")) == worded(GOLDEN.read_text(encoding="utf-8"))


def test_rows_orientation_in_a_file_is_transposed(tmp_path: Path) -> None:
    rows = [[0.9, 0.1], [0.3, 0.7]]
    entry = {"channel": "transition_matrix", "levels": ["a", "b"], "orientation": "rows", "matrix": rows}
    path = changed(tmp_path, channels=[{"columns": ["z"], "randomization": entry}])
    np.testing.assert_array_equal(pr.Mechanism.load(path).assignments[0].channel.matrix, np.transpose(rows))


def test_auto_finds_the_description_beside_a_file(
    survey: pd.DataFrame, mechanism: pr.Mechanism, tmp_path: Path
) -> None:
    survey.to_csv(tmp_path / "public.csv", index=False)
    package = {"resources": [{"path": "other.csv"}, {"path": "public.csv", **mechanism.document()}]}
    (tmp_path / "datapackage.json").write_text(json.dumps(package), encoding="utf-8")
    found, given = (pr.fit("income ~ edu", tmp_path / "public.csv", m) for m in ("auto", mechanism))
    np.testing.assert_array_equal(found.estimate, given.estimate)
    assert pr.Mechanism.load(tmp_path / "datapackage.json") == mechanism


def test_auto_finds_the_description_inside_a_parquet_file(
    survey: pd.DataFrame, mechanism: pr.Mechanism, tmp_path: Path
) -> None:
    table = pa.Table.from_pandas(survey, preserve_index=False)
    noted = table.replace_schema_metadata({b"pram": json.dumps(mechanism.document()).encode()})
    parquet.write_table(noted, tmp_path / "public.parquet")
    result = pr.fit("income ~ edu", tmp_path / "public.parquet", "auto")
    np.testing.assert_array_equal(result.estimate, pr.fit("income ~ edu", noted, mechanism).estimate)


def test_a_path_stands_for_the_mechanism_in_it(survey: pd.DataFrame, mechanism: pr.Mechanism, tmp_path: Path) -> None:
    mechanism.save(tmp_path / "m.json")
    found = pr.fit("income ~ edu", survey, tmp_path / "m.json")
    np.testing.assert_array_equal(found.estimate, pr.fit("income ~ edu", survey, mechanism).estimate)

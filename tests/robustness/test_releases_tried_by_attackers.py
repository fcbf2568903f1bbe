"""What somebody who meant harm, or had bad luck, got past a release; each of these once worked."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.mechanism.designs.merging import merged
from soon import soon

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
LEVELS = ["none", "mild", "severe"]
P = pr.TransitionMatrix.randomized_response(LEVELS, 0.6)
M = pr.Mechanism({"ill": P})
KEY = bytes(range(32))


def released(source: Path, mechanism: Any = M, **options: Any) -> Path:
    public = source.parent / "public"
    public.mkdir(exist_ok=True)
    return pr.release(source, public / options.pop("name", source.name), mechanism, force=True, **options).path


def test_dictionaries_do_not_undo_a_shuffle(rng: np.random.Generator, tmp_path: Path) -> None:
    """Categories in order of appearance are the order of the original."""
    ill = np.sort(rng.choice(LEVELS, 600))
    place = pa.array([f"p{k}" for k in rng.permutation(600)]).dictionary_encode()
    pq.write_table(pa.table({"ill": ill, "place": place}), tmp_path / "raw.parquet")
    path = released(tmp_path / "raw.parquet", shuffle=True)
    listed = pq.ParquetFile(path).read_row_group(0).column("place").chunk(0).dictionary.to_pylist()
    assert listed == sorted(listed)
    assert listed != place.dictionary.to_pylist()


@pytest.mark.parametrize("kind", ["dict", "object", "category", "polars", "arrow"])
def test_a_gap_hides_what_was_drawn_with_it_in_every_kind_of_frame(kind: str) -> None:
    pairs = [(a, b) for a in "pq" for b in "uv"]
    joint = pr.Mechanism({("a", "b"): pr.TransitionMatrix.randomized_response(pairs, 0.7)})
    plain = {"a": ["p", "q"] * 5, "b": [None, *"uvuvuvuvu"]}
    made: Any = {k: np.array(v, object) for k, v in plain.items()}
    if kind != "dict":
        made = pd.DataFrame(plain, dtype="category" if kind == "category" else object)
    if kind == "polars":
        made = pytest.importorskip("polars").DataFrame(plain)
    elif kind == "arrow":
        made = pa.table(plain)
    found = joint.perturb(made)["a"]
    first = found[0].as_py() if kind == "arrow" else found[0]
    assert first is None or first != first


def test_a_record_that_moves_to_another_stratum_is_drawn_anew(tmp_path: Path) -> None:
    """One word under two matrices tells the truth: the released pair (a, b) could come from a alone."""
    n = 20_000
    strong, weak = (pr.TransitionMatrix.randomized_response(["a", "b"], keep) for keep in (0.9, 0.6))
    m = pr.Mechanism({"z": pr.Stratified("by", {"n": strong, "s": weak})})
    waves = {}
    for truth in "ab":
        frame = pd.DataFrame({"id": np.arange(n), "z": truth, "by": "n"})
        waves[truth] = [m.perturb(frame.assign(by=by), key=KEY, id="id")["z"].to_numpy() for by in "ns"]
    told = {truth: np.mean((first == "a") & (second == "b")) for truth, (first, second) in waves.items()}
    assert told["a"] == pytest.approx(0.9 * 0.4, abs=4.5 * np.sqrt(0.23 / n))
    assert told["b"] == pytest.approx(0.1 * 0.6, abs=4.5 * np.sqrt(0.06 / n))


def test_line_ends_and_blank_lines_are_the_same_for_everybody(tmp_path: Path) -> None:
    rows = [f"{k},{LEVELS[k % 3]}" + ("\r\n" if k % 3 else "\n\n") for k in range(90)]
    (tmp_path / "raw.csv").write_bytes(("id,ill\n" + "".join(rows)).encode())
    data = released(tmp_path / "raw.csv").read_bytes()
    assert b"\r" not in data
    assert b"\n\n" not in data
    assert data.count(b"\n") == 91


def test_a_unit_is_one_however_its_number_is_spelt(tmp_path: Path) -> None:
    rows = [f"{k}{'.0' * (j % 2)},{LEVELS[k % 3]}" for k in range(200) for j in range(4)]
    (tmp_path / "raw.csv").write_text("\n".join(["who,ill", *rows]) + "\n")
    found = pd.read_csv(released(tmp_path / "raw.csv", unit="who"))
    assert (found.groupby("who")["ill"].nunique() == 1).all()


def test_a_link_file_that_is_not_written_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"ill": LEVELS * 5}).to_csv(tmp_path / "raw.csv", index=False)
    with pytest.raises(pr.PramanaError, match=r"'l.csv.gz' has an ending that is not written"):
        released(tmp_path / "raw.csv", shuffle=True, link=tmp_path / "l.csv.gz")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_declared_marks_hold_in_designs_and_risk_too(ending: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": [1, 2, 2, 1, -8] * 20, "x": range(100)})
    raw = tmp_path / f"raw.{ending}"
    frame.to_csv(raw, index=False) if ending == "csv" else frame.to_parquet(raw)
    (tmp_path / "d.toml").write_text('version = 1\nmissing = ["-8"]\n[columns.k]\nkeep = 0.8\n')
    path = released(raw, tmp_path / "d.toml")
    assert pr.Mechanism.load(path).schema.variables["k"].levels == (1, 2)
    body = json.loads((path.parent / "datapackage.json").read_text())["resources"][0]["pram"]
    assert (body["missing"], body["missing_marks"]) == ({"k": 20}, ["-8"])
    assert pr.risk(raw, tmp_path / "d.toml")["k"].missing == 20
    assert pr.risk(raw, path, released=path)["k"].missing == 20
    both = pr.Mechanism({"k": pr.TransitionMatrix.randomized_response([1, 2, -8], 0.8)})
    with pytest.raises(pr.MechanismError, match="-8 is a level of 'k' and declared a mark"):
        released(raw, both, missing=["-8"])


def test_a_country_called_na_is_the_same_in_every_command(tmp_path: Path) -> None:
    pd.DataFrame({"c": ["NA", "FR", "DE"] * 20}).to_csv(tmp_path / "raw.csv", index=False)
    (tmp_path / "d.toml").write_text("version = 1\n[columns.c]\nkeep = 0.8\n")
    m = pr.Mechanism({"c": pr.TransitionMatrix.randomized_response(["FR", "DE"], 0.8)})
    for work in (
        lambda: pr.read_design(tmp_path / "d.toml", tmp_path / "raw.csv"),
        lambda: pr.risk(tmp_path / "raw.csv", m),
    ):
        with pytest.raises(pr.DataError, match=r"20 field.*nobody declared them"):
            work()
    (tmp_path / "d.toml").write_text('version = 1\n[columns.c]\nkeep = 0.8\nlevels = ["NA", "FR", "DE"]\n')
    assert pr.risk(tmp_path / "raw.csv", tmp_path / "d.toml")["c"].missing == 0


def test_broken_files_are_refused_in_words(tmp_path: Path) -> None:
    good = gzip.compress(b"ill\n" + b"none\nmild\nsevere\n" * 5000)
    (tmp_path / "raw.csv.gz").write_bytes(good[:40] + bytes(20) + good[60:])
    (tmp_path / "utf8.csv").write_text("ill\n" + "none\n" * 9)
    (tmp_path / "long.csv").write_text("a" * 140_000 + ",ill\n1,none\n")
    for name in ("raw.csv.gz", "long.csv"):
        with pytest.raises(pr.PramanaError):
            released(tmp_path / name)
        with pytest.raises(pr.PramanaError):
            pr.fit(pr.proportions("ill"), tmp_path / name, M)
    wrong = pr.CsvFile(tmp_path / "utf8.csv", pr.Dialect(encoding="utf-16"))
    with pytest.raises(pr.PramanaError, match="UTF-16"):
        pr.release(wrong, tmp_path / "o.csv", M)
    pq.write_table(pa.table({"ill": ["none"] * 9, "t": pa.array([1] * 9, pa.time64("ns"))}), tmp_path / "t.parquet")
    with pytest.raises(pr.PramanaError, match=r"'t'.*cannot be used"):
        pr.fit(pr.mean("t"), tmp_path / "t.parquet", None)


def test_nobody_is_merged_with_a_level_that_nobody_holds() -> None:
    kept, where = merged("k", (1, 2, 3, 9), {1: 50, 9: 40, 3: 1}, 3, ordered=True, other="other")
    assert kept == (1, 2, 9)
    assert where == {3: 1}


def test_many_levels_are_merged_quickly() -> None:
    held = {k: 1 + 9 * (k % 3 == 0) for k in range(50_000)}
    kept, where = soon(lambda: merged("k", tuple(range(50_000)), held, 5, ordered=True, other="other"))
    assert all(abs(k - v) == 1 for k, v in list(where.items())[:-2])  # type: ignore[operator]
    assert len(kept) + len(where) == 50_000


@pytest.mark.parametrize(("version", "unit"), [("2.0", None), ("1.9", {"column": "who"})])
def test_a_unit_belongs_to_version_2_and_version_2_to_a_unit(
    version: str, unit: dict[str, str] | None, tmp_path: Path
) -> None:
    document = M.document()
    document["pram"] |= {"version": version} | ({"unit": unit} if unit else {})
    (tmp_path / "m.json").write_text(json.dumps(document))
    with pytest.raises(pr.MechanismError, match="descriptions of version 2 name the unit"):
        pr.Mechanism.load(tmp_path / "m.json")

"""A folder of files is released, audited and weighed as the one file that they make together."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pramana as pr

SECRET = bytes(range(32))
EDU = ["low", "mid, or so", "high"]
N = 420
JOINT = [(s, w) for s in ("f", "m") for w in (1, 2)]
P = pr.TransitionMatrix.randomized_response(EDU, 0.6)
STRATA = pr.Stratified("region", {"n": pr.TransitionMatrix.binary(0.6, 0.7), "s": pr.TransitionMatrix.binary(0.8, 0.6)})
MECHANISMS: dict[str, pr.Mechanism] = {
    "levels and strata": pr.Mechanism(
        {"edu": P, "k": STRATA, ("sex", "wave"): pr.TransitionMatrix.randomized_response(JOINT, 0.5)}
    ),
    "noise": pr.Mechanism({"edu": P, "age": pr.GeometricNoise(2.0, bounds=(0, 99))}),
    "unit": pr.Mechanism({"edu": P}, pr.Unit("person")),
}


def people() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    edu = rng.choice(np.array(EDU, dtype=object), N // 2)
    frame = pd.DataFrame(
        {
            "id": rng.permutation(N),
            "person": np.tile(np.arange(N // 2), 2),
            "edu": np.tile(edu, 2),
            "age": rng.integers(18, 80, N),
            "k": rng.integers(0, 2, N),
            "region": rng.choice(["n", "s"], N),
            "sex": rng.choice(["f", "m"], N),
            "wave": rng.choice([1, 2], N),
            "note": [f'a "note", {i}\nof two lines' if i % 50 == 0 else "" for i in range(N)],
        }
    )
    frame.loc[::60, "edu"] = None
    return frame


def write(frame: pd.DataFrame, path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".parquet":  # with the types of the whole, which a part without records would not tell
        pq.write_table(pa.Table.from_pandas(frame, pa.Schema.from_pandas(people()), preserve_index=False), path)
    else:
        frame.to_csv(path, index=False)
    return path


def folder(frame: pd.DataFrame, where: Path, ending: str, count: int) -> Path:
    """Unequal parts, whose order by name is that of the records; one of seven is empty."""
    cuts = [0, *sorted(np.random.default_rng(count).integers(0, len(frame), count - 1).tolist()), len(frame)]
    cuts[3:4] = [cuts[2]] if count > 3 else cuts[3:4]
    for k, (low, high) in enumerate(pairwise(cuts)):
        write(frame.iloc[low:high], where / f"part-{k}.{ending}")
    return where


def options(name: str) -> dict[str, Any]:
    return {"key": SECRET} if name == "unit" else {"key": SECRET, "id": "id"}


def table(path: Path) -> Any:
    """The records as they lie in a file or a folder."""
    files = sorted(p for p in path.iterdir() if "part-" in p.name) if path.is_dir() else [path]
    if files[0].suffix == ".parquet":
        return pa.concat_tables([pq.read_table(f).replace_schema_metadata() for f in files])
    head, *_ = files[0].read_bytes().split(b"\n", 1)
    return head + b"\n" + b"".join(f.read_bytes().split(b"\n", 1)[1] for f in files)


@pytest.mark.parametrize("count", [1, 3, 7])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_keyed_draws_are_those_of_the_whole_file(name: str, ending: str, count: int, tmp_path: Path) -> None:
    frame, mechanism = people(), MECHANISMS[name]
    source = folder(frame, tmp_path / "in", ending, count)
    made = pr.release(source, tmp_path / "out", mechanism, **options(name))
    alone = pr.release(write(frame, tmp_path / f"all.{ending}"), tmp_path / f"pub.{ending}", mechanism, **options(name))
    assert table(made.path) == table(alone.path)
    assert (made.rows, made.missing, made.epsilon) == (alone.rows, alone.missing, alone.epsilon)
    assert sorted(p.name for p in made.path.iterdir()) == [
        "datapackage.json",
        *(f"part-{k}.{ending}" for k in range(count)),
    ]
    auto, given = (pr.fit(pr.proportions("edu"), data, "auto", missing="drop") for data in (made.path, alone.path))
    np.testing.assert_allclose(auto.estimate, given.estimate, rtol=1e-9)


def test_processes_change_nothing(tmp_path: Path) -> None:
    """The key reaches them, and so do dialects, dropped columns and new identifiers."""
    source = folder(people(), tmp_path / "in", "csv", 3)
    how: dict[str, Any] = {"key": SECRET, "id": "id", "new_id": "id", "drop": ["note"], "ledger": tmp_path / "ledger"}
    mechanism = MECHANISMS["levels and strata"]
    here = pr.release(source, tmp_path / "here", mechanism, **how)
    there = pr.release(source, tmp_path / "there", mechanism, jobs=2, **how)
    assert here.sha256 == there.sha256
    assert table(here.path) == table(there.path)


def test_one_entry_of_the_ledger_knows_the_folder_and_its_files(tmp_path: Path) -> None:
    source, ledger = folder(people(), tmp_path / "in", "csv", 3), tmp_path / "ledger"
    made = pr.release(source, tmp_path / "out", MECHANISMS["noise"], ledger=ledger, card=True)
    (entry,) = map(json.loads, ledger.read_text().splitlines())
    assert (entry["released"], entry["rows"], entry["target"], len(entry["parts"])) == (made.sha256, N, "out", 3)
    assert all(made.sha256 in card.read_text() for card in made.cards)
    for again in (source, source / "part-1.csv", [source / "part-2.csv", source / "part-0.csv"]):
        with pytest.raises(pr.PramanaError, match=r"released before with other draws of .*, in 'out'"):
            pr.release(
                again,
                tmp_path / "more" if again != source / "part-1.csv" else tmp_path / "b.csv",
                MECHANISMS["noise"],
                ledger=ledger,
            )
    assert pr.audit(made.path, ledger=ledger).clean
    assert pr.risk(source, MECHANISMS["noise"], ledger=ledger).composition.releases == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_audit_and_risk_are_those_of_the_whole_file(ending: str, tmp_path: Path) -> None:
    frame, mechanism = people(), MECHANISMS["levels and strata"]
    source, whole = folder(frame, tmp_path / "in", ending, 3), write(frame, tmp_path / f"all.{ending}")
    made = pr.release(source, tmp_path / "out", mechanism, **options("id"))
    alone = pr.release(whole, tmp_path / f"pub.{ending}", mechanism, **options("id"))
    found, expected = pr.audit(made.path, original=source), pr.audit(alone.path, original=whole)
    each = {"description", "secrets", "metadata", "hash", "schema", "files"}
    assert [f for f in found.findings if f.check not in each] == [f for f in expected.findings if f.check not in each]
    assert found.clean == expected.clean
    weighed = [
        pr.risk(data, mechanism, keys=["sex", "age"], analyses="age ~ sex", released=released).to_dict()
        for data, released in ((source, made.path), (whole, alone.path))
    ]
    assert weighed[0] == weighed[1]


def test_a_design_is_made_of_all_files(tmp_path: Path) -> None:
    """Levels, frequencies and rare values are those of the whole: a value that two files hold once each is held twice."""
    frame = people()
    frame.loc[[3, N - 3], "edu"] = "rare"
    (tmp_path / "d.toml").write_text('version = 1\n[columns.edu]\nkeep = 0.7\nmerge_below = 3\nother = "low"\n')
    source, whole = folder(frame, tmp_path / "in", "csv", 3), write(frame, tmp_path / "all.csv")
    made = pr.release(source, tmp_path / "out", tmp_path / "d.toml", **options("id"))
    alone = pr.release(whole, tmp_path / "pub.csv", tmp_path / "d.toml", **options("id"))
    assert table(made.path) == table(alone.path)
    assert pr.Mechanism.load(made.path / "part-2.csv") == pr.Mechanism.load(alone.path)


@pytest.mark.parametrize("seed", [None, 3])
def test_no_two_files_share_their_words(seed: int | None, tmp_path: Path) -> None:
    frame = people().assign(edu="low")
    for k in range(3):
        write(frame, tmp_path / "in" / f"part-{k}.csv")
    pr.release(tmp_path / "in", tmp_path / "out", pr.Mechanism({"edu": P}), seed=seed, allow="seed")
    drawn = [pd.read_csv(tmp_path / "out" / f"part-{k}.csv")["edu"].to_numpy() for k in range(3)]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        same = np.mean(drawn[one] == drawn[other])
        assert abs(same - (0.6**2 + 2 * 0.2**2)) < 5 * np.sqrt(0.25 / N)


def test_a_person_in_several_files_has_one_draw_and_one_new_identifier(tmp_path: Path) -> None:
    """The key of a unit's draws, which nobody keeps, is one for all files; so is that of new identifiers."""
    frame = people().fillna({"edu": "low"}).sort_values("id")
    frame["edu"] = frame.groupby("person")["edu"].transform("first")
    source = folder(frame, tmp_path / "in", "csv", 3)
    made = pr.release(source, tmp_path / "out", MECHANISMS["unit"], new_id="person")
    whole = pd.concat([pd.read_csv(f) for f in sorted(made.path.glob("*.csv"))])
    assert (whole.groupby("person")["edu"].nunique() == 1).all()
    assert whole["person"].nunique() == frame["person"].nunique()
    wrong = {f.check for f in pr.audit(made.path, original=source).of("error")}
    assert not wrong & {"units", "transitions", "hash", "rows"}

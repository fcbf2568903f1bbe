"""What a release does to a file beside the perturbation: columns, order, identifiers, missing values, rare levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.disclosure.release.link import read_link
from pramana.disclosure.release.shuffling import Shuffle
from pramana.frames.blocks.csv_files import CsvBlock
from pramana.frames.blocks.stream import CopyLayout, Replacement
from pramana.frames.dialects import Dialect
from pramana.mechanism.draws.keystream import SeededKeystream

pa = pytest.importorskip("pyarrow")
EDU = ["low", "mid", "high"]
M = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, 0.7)})
ENDINGS = ["csv", "csv.gz", "parquet"]


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    n = 2000
    return pd.DataFrame(
        {
            "id": [f"north-{k}" for k in range(n)],
            "person": np.arange(n) // 4,
            "age": rng.integers(18, 90, n),
            "edu": np.repeat(rng.choice(EDU, n // 4), 4),
            "note": rng.choice(['a "b", c', "plain", "", "två"], n),
        }
    )


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, keep_default_na=False, dtype={"edu": str, "note": str})


def released(source: Path, mechanism: Any = M, **options: Any) -> Path:
    public = source.parent / "public"
    public.mkdir(exist_ok=True)
    pr.release(source, public / source.name, mechanism, force=True, **options)
    return public / source.name


def pram(path: Path) -> dict[str, Any]:
    resources = json.loads((path.parent / "datapackage.json").read_text())["resources"]
    body: dict[str, Any] = next(r["pram"] for r in resources if r["path"] == path.name)
    return body


@pytest.mark.parametrize("ending", ENDINGS)
def test_dropped_columns_are_gone_and_the_others_are_as_they_were(
    frame: pd.DataFrame, tmp_path: Path, ending: str
) -> None:
    path = released(write(frame, tmp_path / f"raw.{ending}"), drop=["id", "age"])
    found = read(path)
    assert list(found) == ["person", "edu", "note"]
    pd.testing.assert_frame_equal(found[["person", "note"]], frame[["person", "note"]], check_dtype=False)
    assert pram(path)["dropped"] == ["id", "age"]
    assert pr.audit(path).clean


@pytest.mark.parametrize(
    ("drop", "message"),
    [("edu", "'edu' cannot be dropped, since it is perturbed"), ("region", "drop needs column.*'region'")],
)
def test_columns_that_cannot_be_dropped(frame: pd.DataFrame, tmp_path: Path, drop: str, message: str) -> None:
    raw = write(frame, tmp_path / "raw.csv")
    with pytest.raises(pr.PramanaError, match=message):
        released(raw, drop=[drop])
    assert not (tmp_path / "public" / "raw.csv").exists()


def test_strata_and_units_cannot_be_dropped(frame: pd.DataFrame, tmp_path: Path) -> None:
    matrix = M.assignments[0].channel
    assert isinstance(matrix, pr.TransitionMatrix)
    raw = write(frame.assign(region="n"), tmp_path / "raw.csv")
    with pytest.raises(pr.PramanaError, match=r"'region' cannot be dropped.*decides the transition matrix"):
        released(raw, pr.Mechanism({"edu": pr.Stratified("region", {"n": matrix})}), drop=["region"])
    with pytest.raises(pr.PramanaError, match=r"'person' cannot be dropped.*analysts must cluster.*new_id"):
        released(raw, unit="person", drop=["person"])


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_shuffled_release_holds_the_same_records(frame: pd.DataFrame, tmp_path: Path, ending: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    path = released(write(frame, tmp_path / f"raw.{ending}"), shuffle=True, link=own / "link.parquet")
    found, rows = read(path), read_link(own / "link.parquet", len(frame))
    assert not np.array_equal(rows, np.arange(len(frame)))
    columns = ["id", "person", "age", "note"]
    expected = frame.iloc[rows][columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(found[columns], expected, check_dtype=False)
    assert np.mean(found["edu"].to_numpy() == frame["edu"].to_numpy()[rows]) > 0.65
    assert pram(path)["shuffled"] is True
    assert (own / "link.parquet").stat().st_mode & 0o777 == 0o600


def test_a_link_file_beside_the_release_is_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    raw = write(frame, tmp_path / "raw.csv")
    with pytest.raises(pr.PramanaError, match=r"link file 'l.csv' would lie beside the release"):
        released(raw, shuffle=True, link=tmp_path / "public" / "l.csv")


@pytest.mark.parametrize(
    ("rows", "message"), [([0, 1], "2 records, the release 3"), ([0, 1, 1], "every row of the original once")]
)
def test_a_foreign_link_file_is_refused(tmp_path: Path, rows: list[int], message: str) -> None:
    pd.DataFrame({"original_row": rows}).to_csv(tmp_path / "l.csv", index=False)
    with pytest.raises(pr.DataError, match=message):
        read_link(tmp_path / "l.csv", 3)


def test_the_order_is_uniform_over_heaps(tmp_path: Path) -> None:
    """Each of 24 orders of four records comes up once in 24 times: Pearson's test at 1e-6, over several heaps."""
    from scipy.stats import chisquare

    stream, counts = SeededKeystream(3), dict.fromkeys(range(256), 0)
    batch = pa.record_batch({"x": [0, 1, 2, 3]})
    for _ in range(2400):
        shuffle = Shuffle(tmp_path, stream, 4 << 25)
        shuffle.add(batch.slice(0, 2))
        shuffle.add(batch.slice(2))
        order = np.concatenate([rows for _, rows in shuffle.shuffled()])
        counts[int(order @ [64, 16, 4, 1])] += 1
        shuffle.close()
    seen = [count for count in counts.values() if count]
    assert len(seen) == 24
    assert chisquare(seen).pvalue > 1e-6


@pytest.mark.parametrize("ending", ENDINGS)
def test_new_identifiers_replace_old_ones_and_keep_persons_together(
    frame: pd.DataFrame, tmp_path: Path, ending: str
) -> None:
    found = read(released(write(frame, tmp_path / f"raw.{ending}"), new_id="person", drop=["id"]))
    assert list(found) == ["person", "age", "edu", "note"]
    pairs = pd.DataFrame({"new": found["person"], "old": frame["person"]}).drop_duplicates()
    assert len(pairs) == pairs["new"].nunique() == pairs["old"].nunique() == 500
    assert found["person"].str.fullmatch("[a-z2-7]{16}").all()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_column_of_new_identifiers_comes_first(frame: pd.DataFrame, tmp_path: Path, ending: str) -> None:
    found = read(released(write(frame, tmp_path / f"raw.{ending}"), new_id="key", drop=["id", "person"]))
    assert list(found) == ["key", "age", "edu", "note"]
    assert found["key"].nunique() == len(frame)
    assert found["note"].tolist() == frame["note"].tolist()


def test_under_a_key_a_person_keeps_the_new_identifier(frame: pd.DataFrame, tmp_path: Path) -> None:
    raw = write(frame, tmp_path / "raw.csv")
    same = [read(released(raw, key=bytes(range(32)), id="id", new_id="person"))["person"] for _ in range(2)]
    assert same[0].equals(same[1])
    fresh = read(released(raw, new_id="person"))["person"]
    assert not fresh.isin(same[0]).any()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_undeclared_marks_are_no_missing_values(frame: pd.DataFrame, tmp_path: Path, ending: str) -> None:
    """A country coded NA went out unperturbed; now the mark must be declared, or be a level."""
    frame.loc[:9, "edu"] = "NA"
    raw = write(frame, tmp_path / f"raw.{ending}")
    with pytest.raises(pr.DataError, match=r"'edu' has at least 10 value.*not levels.*declare the mark"):
        released(raw)
    path = released(raw, missing=["NA"])
    assert pram(path)["missing"] == {"edu": 10}
    assert read(path)["edu"][:10].isin([None, ""]).all()
    level = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response([*EDU, "NA"], 0.7)})
    path = released(raw, level)
    assert "missing" not in pram(path)
    assert set(read(path)["edu"]) == {*EDU, "NA"}


def test_marks_of_numbers(rng: np.random.Generator, tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": [*rng.integers(1, 4, 300).tolist(), -8, -8], "f": np.arange(302) / 2})
    m = pr.Mechanism({"k": pr.TransitionMatrix.randomized_response([1, 2, 3], 0.8)})
    for name, given in (("i.parquet", frame), ("f.parquet", frame.astype({"k": float})), ("i.csv", frame)):
        path = released(write(given, tmp_path / name), m, missing=["-8"])
        assert pram(path)["missing"] == {"k": 2}
        found = pd.read_parquet(path) if name.endswith("parquet") else pd.read_csv(path)
        assert found["k"].isna().tolist() == [False] * 300 + [True] * 2


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_missing_values_can_be_a_level(frame: pd.DataFrame, tmp_path: Path, ending: str) -> None:
    frame.loc[:199, "edu"] = None
    m = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response([*EDU, "unknown"], 0.7)})
    found = read(released(write(frame, tmp_path / f"raw.{ending}"), m, missing_level="unknown"))
    assert set(found["edu"]) == {*EDU, "unknown"}
    assert 0.5 < np.mean(found["edu"][:200] == "unknown") < 0.85
    with pytest.raises(pr.MechanismError, match="missing_level 'none' is no level"):
        released(tmp_path / f"raw.{ending}", m, missing_level="none")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_gap_in_one_of_linked_columns_does_not_show_the_other(
    rng: np.random.Generator, tmp_path: Path, ending: str
) -> None:
    """Both are drawn together: where one is missing, the true value of the other must not go out."""
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], 400), "b": rng.choice(["u", "v"], 400)}).astype(object)
    frame.loc[:99, "b"] = None
    pairs = [(a, b) for a in "xy" for b in "uv"]
    m = pr.Mechanism({("a", "b"): pr.TransitionMatrix.randomized_response(pairs, 0.7)})
    path = released(write(frame, tmp_path / f"raw.{ending}"), m)
    found = read(path)
    assert found["a"][:100].isin([None, ""]).all()
    assert pram(path)["missing"] == {"a": 100, "b": 100}
    assert m.perturb(frame)["a"][:100].isna().all()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_levels_that_one_person_holds_are_refused_unless_merged(
    rng: np.random.Generator, tmp_path: Path, ending: str
) -> None:
    rare = ["king", "queen", "jester"]
    frame = pd.DataFrame({"job": [*rng.choice(["clerk", "nurse"], 500), *rare, rare[0]]})
    raw = write(frame, tmp_path / f"raw.{ending}")
    m = pr.Mechanism({"job": pr.TransitionMatrix.randomized_response(["clerk", "nurse", *rare], 0.8)})
    with pytest.raises(pr.PramanaError, match=r"3 level\(s\) of job are held by fewer than 3 record") as refused:
        released(raw, m)
    assert not any(word in str(refused.value) for word in rare)
    assert pram(released(raw, m, allow=["rare-levels"]))["allowed"] == ["rare-levels"]
    (tmp_path / "d.toml").write_text("version = 1\n[columns.job]\nkeep = 0.8\n")
    path = released(raw, tmp_path / "d.toml", merge_below=4)
    body = pram(path)
    assert body["channels"][0]["randomization"]["levels"] == ["clerk", "nurse", "other"]
    assert body["channels"][0]["randomization"]["conditional"] is True
    assert body["merged"] == {"job": {"into": "other", "below": 4}}
    assert not any(word in json.dumps(body) for word in rare)
    assert set(read(path)["job"]) == {"clerk", "nurse", "other"}


def test_numbers_are_merged_with_the_nearest_level(tmp_path: Path) -> None:
    frame = pd.DataFrame({"income": [*[10, 20, 30] * 50, 21, 29, 1000]})
    raw = write(frame, tmp_path / "raw.csv")
    design = pr.Design.read(_design(tmp_path, "[columns.income]\nkeep = 0.9\nmerge_below = 3\n"), raw)
    assert design.requests[0].levels == (10, 20, 30)
    assert design.requests[0].merged == {21: 20, 29: 30, 1000: 30}
    path = released(raw, tmp_path / "d.toml")
    assert set(pd.read_csv(path)["income"]) == {10, 20, 30}
    assert pram(path)["merged"] == {"income": {"below": 3, "into": None}}


def test_where_the_rest_would_be_too_few_they_count_with_the_smallest_level(tmp_path: Path) -> None:
    frame = pd.DataFrame({"job": [*["a"] * 50, *["b"] * 40, *["c"] * 6, "d"]})
    raw = write(frame, tmp_path / "raw.csv")
    design = pr.Design.read(_design(tmp_path, "[columns.job]\nkeep = 0.9\nmerge_below = 5\n"), raw)
    assert design.requests[0].levels == ("a", "b", "c")
    assert design.requests[0].merged == {"d": "c"}
    assert pram(released(raw, tmp_path / "d.toml"))["merged"] == {"job": {"into": "c", "below": 5}}


def test_people_are_units_where_there_are_units(tmp_path: Path) -> None:
    """Ten records of one person are one person."""
    frame = pd.DataFrame({"who": np.repeat(np.arange(40), 10), "job": np.repeat(["a"] * 20 + ["b"] * 19 + ["c"], 10)})
    raw = write(frame, tmp_path / "raw.csv")
    m = pr.Mechanism({"job": pr.TransitionMatrix.randomized_response(["a", "b", "c"], 0.8)})
    released(raw, m)
    with pytest.raises(pr.PramanaError, match=r"1 level\(s\) of job are held by fewer than 3 who"):
        released(raw, m, unit="who")
    path = released(raw, _design(tmp_path, 'unit = "who"\n[columns.job]\nkeep = 0.8\nmerge_below = 3\n'))
    assert pram(path)["channels"][0]["randomization"]["levels"] == ["a", "b"]


def _design(folder: Path, text: str) -> Path:
    (folder / "d.toml").write_text("version = 1\n" + text)
    return folder / "d.toml"


def test_merging_needs_a_design(frame: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(pr.MechanismError, match="merge_below needs a design"):
        released(write(frame, tmp_path / "raw.csv"), merge_below=5)


def test_bytes_of_csv_records_are_kept_but_for_the_changes() -> None:
    """Quotes, carriage returns and text of several bytes; the slow obvious version beside it."""
    rows = [["1", '"x,""y"', "é", "low"], ["22", "", '"z\n"', "mid"], ["", "q", "", "high"]]
    data = "".join(",".join(row) + "\r\n" for row in rows).encode()
    block = CsvBlock.cut(data, ["a", "b", "c", "d"], 0, b"\r\n", Dialect())
    new = Replacement(np.array([2, 0, -1]), EDU)
    for dropped in ([], ["a"], ["b"], ["a", "b"], ["c"], ["a", "c"], ["b", "c"], ["a", "b", "c"]):
        for identifier in (None, "c", "new"):
            if identifier in dropped:
                continue
            layout = CopyLayout.of("abcd", dropped, identifier)
            ids = pa.array(["i0", "i1", "i2"])
            found = block.released({"d": new}, layout, ids).column(0).to_pylist()
            for row, record in enumerate(rows):
                fields = dict(zip("abcd", record, strict=True)) | {"d": ["high", "low", ""][row]}
                fields |= {identifier: f"i{row}"} if identifier else {}
                expected = ",".join(fields[name] for name in layout.names) + "\r\n"
                assert found[row] == expected.encode()

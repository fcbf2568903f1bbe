"""A released file is the same whatever its format, its blocks and the order of its records, and touches nothing else."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pramana as pr
from pramana.frames.blocks import csv_files as csv_blocks
from pramana.frames.blocks import parquet_files as parquet_blocks

pytestmark = pytest.mark.filterwarnings("ignore:release")
SECRET = bytes(range(32))
EDU = ["low", "mid, or so", 'the "high"']
N = 700


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": rng.permutation(N),
            "edu": rng.choice(np.array(EDU, dtype=object), N),
            "weight": rng.normal(size=N),
            "k": rng.integers(0, 2, N).astype(np.int8),
            "region": rng.choice(["north", "south"], N),
            "sex": rng.choice(["f", "m"], N),
            "wave": rng.choice([1.0, 2.5], N),
            "note": [f'line {i}\nwith "quotes", commas' if i % 7 == 0 else "" for i in range(N)],
        }
    )


def mechanism() -> pr.Mechanism:
    joint = [(s, w) for s in ("f", "m") for w in (1.0, 2.5)]
    strata = {"north": pr.TransitionMatrix.binary(0.6, 0.7), "south": pr.TransitionMatrix.binary(0.7, 0.6)}
    return pr.Mechanism(
        {
            "edu": pr.TransitionMatrix.randomized_response(EDU, 0.5),
            "k": pr.Stratified("region", strata),
            ("sex", "wave"): pr.TransitionMatrix.randomized_response(joint, 0.5),
        }
    )


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def load(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, keep_default_na=False)


def by_id(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values("id").reset_index(drop=True).astype({"k": int})


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("size", [1, 90, 10_000])
def test_keyed_releases_equal_the_frame_perturbed_in_memory(
    ending: str, size: int, frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_blocks, "SIZE", 40 * size)
    monkeypatch.setattr(parquet_blocks, "LONGEST", size)
    monkeypatch.setattr(parquet_blocks, "CELLS", 8 * size)
    source = write(frame, tmp_path / f"in.{ending}")
    pr.release(source, tmp_path / f"out.{ending}", mechanism(), key=SECRET, id="id")
    expected = mechanism().perturb(frame, key=SECRET, id="id")
    pd.testing.assert_frame_equal(by_id(load(tmp_path / f"out.{ending}")), by_id(expected), check_dtype=False)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_keyed_releases_do_not_depend_on_the_order_or_the_company(
    ending: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    pieces = {"all": frame, "shuffled": frame.sample(frac=1, random_state=2), "some": frame.iloc[100:300]}
    found = {}
    for name, piece in pieces.items():
        source = write(piece, tmp_path / f"{name}.{ending}")
        pr.release(source, tmp_path / f"public-{name}.{ending}", mechanism(), key=SECRET, id="id")
        found[name] = by_id(load(tmp_path / f"public-{name}.{ending}"))
    pd.testing.assert_frame_equal(found["all"], found["shuffled"])
    inside = found["all"][found["all"]["id"].isin(pieces["some"]["id"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(inside, found["some"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_seeded_releases_do_not_depend_on_the_blocks(
    ending: str, frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(frame, tmp_path / f"in.{ending}")
    found = []
    for size in (1, 77, 10_000):
        monkeypatch.setattr(csv_blocks, "SIZE", 40 * size)
        monkeypatch.setattr(parquet_blocks, "LONGEST", size)
        monkeypatch.setattr(parquet_blocks, "CELLS", 8 * size)
        pr.release(source, tmp_path / f"out.{ending}", mechanism(), seed=5, allow="seed", force=True)
        found.append(load(tmp_path / f"out.{ending}"))
    pd.testing.assert_frame_equal(found[0], found[1])
    pd.testing.assert_frame_equal(found[0], found[2])
    assert not found[0]["edu"].equals(frame["edu"])


AWKWARD = (
    b'\xef\xbb\xbfid,edu,"a ""name""",k\r\n'
    b'1, low ,"kept ""as"" is, even\r\nover lines",1.0\r\n'
    b"\r\n"
    b"2,low,007,01\r\n"
    b'003,"low",NA,"1"\r\n'
    b"4,NA,1e5,\r\n"
    b"5,,  ,+1"
)


@pytest.mark.parametrize("compressed", [False, True])
def test_every_byte_outside_the_perturbed_fields_is_kept(compressed: bool, tmp_path: Path) -> None:
    """Here P exchanges two levels, so that what is released is certain."""
    flip = pr.Mechanism(
        {
            "edu": pr.TransitionMatrix(["low", "a,b"], [[0, 1], [1, 0]]),
            "k": pr.TransitionMatrix([0, 1], [[0, 1], [1, 0]]),
        }
    )
    text = AWKWARD.replace(b" low ", b"low")
    ending = "csv.gz" if compressed else "csv"
    source = tmp_path / f"in.{ending}"
    source.write_bytes(gzip.compress(text) if compressed else text)
    pr.release(source, tmp_path / f"out.{ending}", flip, allow=("identity", "rare-levels"), missing=["NA"])
    found = (tmp_path / f"out.{ending}").read_bytes()
    expected = (
        b'id,edu,"a ""name""",k\r\n'  # without the mark, which a reader of UTF-8 takes for a part of the name
        b'1,"a,b","kept ""as"" is, even\r\nover lines",0\r\n'
        b'2,"a,b",007,0\r\n'
        b'003,"a,b",NA,0\r\n'
        b"4,,1e5,\r\n"
        b"5,,  ,0\r\n"
    )
    assert (gzip.decompress(found) if compressed else found) == expected


def test_how_the_truth_was_spelt_does_not_survive(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('k\n1\n1.0\n"1"\n 1\n1e0\n+1\n01\n')
    stay = pr.Mechanism({"k": pr.TransitionMatrix([0, 1], [[1, 0], [0, 1]])})
    pr.release(tmp_path / "in.csv", tmp_path / "out.csv", stay, allow="identity")
    assert (tmp_path / "out.csv").read_text() == "k\n" + "1\n" * 7


def test_levels_that_look_like_gaps_are_levels_and_others_are_gaps(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('z,x\nNA,1\n"NA",2\n,3\nyes,4\n')
    flip = pr.Mechanism({"z": pr.TransitionMatrix(["NA", "yes"], [[0, 1], [1, 0]])})
    made = pr.release(tmp_path / "in.csv", tmp_path / "out.csv", flip, allow=("identity", "rare-levels"))
    assert (tmp_path / "out.csv").read_text() == 'z,x\nyes,1\nyes,2\n,3\n"NA",4\n'
    assert made.rows == 4


def typed_table(n: int = 60) -> pa.Table:
    levels = pa.array(["b", "a", None] * (n // 3))
    return pa.table(
        {
            "plain": levels,
            "large": levels.cast(pa.large_string()),
            "category": levels.dictionary_encode(),
            "ordered": pa.DictionaryArray.from_arrays(
                pa.array([0, 1, None] * (n // 3), pa.int8()), pa.array(["b", "a"]), ordered=True
            ),
            "small": pa.array([1, 2, None] * (n // 3), pa.uint8()),
            "float": pa.array([1.0, 2.0, np.nan] * (n // 3)),
            "single": pa.array([1.0, 2.0, None] * (n // 3), pa.float32()),
            "decimal": pa.array([Decimal(1), Decimal(2), None] * (n // 3), pa.decimal128(5, 2)),
            "flag": pa.array([True, False, None] * (n // 3)),
            "nested": pa.array([[1, 2], [], None] * (n // 3)),
            "when": pa.array([0, 1, 2] * (n // 3), pa.timestamp("us", "UTC")),
        }
    )


SWAPS: dict[str, Any] = {
    **dict.fromkeys(("plain", "large", "category", "ordered"), pr.TransitionMatrix(["a", "b"], [[0, 1], [1, 0]])),
    **dict.fromkeys(("small", "float", "single", "decimal"), pr.TransitionMatrix([1, 2], [[0, 1], [1, 0]])),
    "flag": pr.TransitionMatrix([False, True], [[0, 1], [1, 0]]),
}


def test_every_type_of_a_parquet_column_is_kept(tmp_path: Path) -> None:
    table = typed_table()
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=7, compression="zstd")
    pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", pr.Mechanism(SWAPS), allow="identity")
    released = pq.read_table(tmp_path / "out.parquet")
    assert released.schema.remove_metadata() == table.schema
    assert released.select(["nested", "when"]) == table.select(["nested", "when"])
    swap = {"a": "b", "b": "a", 1: 2, 2: 1}
    for name in ("plain", "large", "category", "ordered", "small", "single", "decimal"):
        before = table.column(name).to_pylist()
        assert released.column(name).to_pylist() == [None if v is None else swap[v] for v in before], name
    assert released.column("flag").to_pylist() == [False, True, None] * 20
    np.testing.assert_array_equal(released.column("float").to_numpy(), [2, 1, np.nan] * 20)
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_dictionary_is_the_mechanisms_and_tells_nothing_of_the_truth(tmp_path: Path) -> None:
    """The first entry of a dictionary made from data is the first record's true value."""
    pq.write_table(typed_table(), tmp_path / "in.parquet")
    pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", pr.Mechanism(SWAPS), allow="identity")
    released = pq.read_table(tmp_path / "out.parquet")
    assert released.column("category").chunk(0).dictionary.to_pylist() == ["a", "b"]
    assert released.column("ordered").chunk(0).dictionary.to_pylist() == ["b", "a"]


def test_pandas_frames_come_back_with_their_categories_and_index(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame = frame.astype({"region": "category", "edu": pd.CategoricalDtype(EDU, ordered=True)}).set_index("id")
    frame.to_parquet(tmp_path / "in.parquet")
    pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", mechanism())
    released = pd.read_parquet(tmp_path / "out.parquet")
    assert released.dtypes.to_dict() == frame.dtypes.to_dict()
    assert released.index.equals(frame.index)
    others = ["weight", "region", "note"]
    pd.testing.assert_frame_equal(released[others], frame[others])


def test_other_metadata_of_the_source_are_not_copied(tmp_path: Path) -> None:
    table = pa.table({"k": [0, 1] * 3}).replace_schema_metadata({b"owner": b"SECRET"})
    pq.write_table(table, tmp_path / "in.parquet")
    pr.release(
        tmp_path / "in.parquet", tmp_path / "out.parquet", pr.Mechanism({"k": pr.TransitionMatrix.binary(0.9, 0.9)})
    )
    assert b"SECRET" not in (tmp_path / "out.parquet").read_bytes()
    inside = json.loads(pq.read_schema(tmp_path / "out.parquet").metadata[b"pram"])["pram"]
    assert (inside["rows"], inside["randomness"], "sha256" in inside) == (6, "fresh", False)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_release_is_fitted_as_the_frame_with_its_mechanism(
    ending: str, survey: pd.DataFrame, mechanism: pr.Mechanism, tmp_path: Path
) -> None:
    source = write(survey, tmp_path / f"in.{ending}")
    pr.release(source, tmp_path / f"out.{ending}", mechanism)
    assert pr.Mechanism.load(tmp_path / f"out.{ending}") == mechanism
    auto = pr.fit("income ~ age + edu", tmp_path / f"out.{ending}", "auto")
    given = pr.fit("income ~ age + edu", load(tmp_path / f"out.{ending}"), mechanism)
    np.testing.assert_allclose(auto.estimate, given.estimate, rtol=1e-12)
    with pytest.raises(pr.MechanismError, match="carries a description"):
        pr.fit("income ~ age", tmp_path / f"out.{ending}", None)

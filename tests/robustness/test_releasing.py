"""Bad input to a release: one clear error that names no value, no partial file, nothing left behind."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pramana as pr
from pramana.disclosure.release import releasing as release
from pramana.frames.blocks import csv_files as csv_blocks
from pramana.frames.blocks import parquet_files as parquet_blocks
from soon import soon

pytestmark = pytest.mark.filterwarnings("ignore:release")
SECRET = bytes(range(32))
LEVELS = ["a", "b"]
M = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(LEVELS, 0.8)})


@pytest.fixture(params=["csv", "parquet"])
def ending(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small blocks, so that a thousand rows are many of them."""
    monkeypatch.setattr(csv_blocks, "SIZE", 500)
    monkeypatch.setattr(parquet_blocks, "LONGEST", 100)
    return str(request.param)


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=50)
    else:
        frame.to_csv(path, index=False)
    return path


def data(n: int = 1000, **change: Any) -> pd.DataFrame:
    frame = pd.DataFrame({"id": range(n), "z": LEVELS * (n // 2), "x": 1.5})
    for name, values in change.items():
        for row, value in values.items():
            frame[name] = frame[name].astype(object)
            frame.loc[row, name] = value
    return frame


def refused(source: Path, target: Path, message: str, error: type[Exception] = pr.PramanaError, **options: Any) -> None:
    """An error, nothing new in the folder, and the source as it was."""
    before = {p.name: p.read_bytes() for p in target.parent.iterdir() if p.is_file()}
    mechanism = options.pop("mechanism", M)
    with pytest.raises(error, match=message) as caught:
        pr.release(source, target, mechanism, **options)
    assert "SECRET" not in str(caught.value)
    assert {p.name: p.read_bytes() for p in target.parent.iterdir() if p.is_file()} == before


@pytest.mark.parametrize("row", [0, 640, 999])
def test_an_unseen_level_anywhere_in_the_stream(row: int, ending: str, tmp_path: Path) -> None:
    source = write(data(z={row: "SECRET"}), tmp_path / f"in.{ending}")
    said = rf"'z' has at least 1 value\(s\) that are not levels of the mechanism, first in row {row}: add"
    refused(source, tmp_path / f"out.{ending}", said)
    refused(source, tmp_path / f"out.{ending}", said, card=True, key=SECRET, id="id")


def test_identifiers_that_repeat_far_apart(ending: str, tmp_path: Path) -> None:
    source = write(data(id={17: 424242, 903: 424242}), tmp_path / f"in.{ending}")
    refused(
        source,
        tmp_path / f"out.{ending}",
        r"'id' repeats itself in 1 record\(s\), first in row 903",
        key=SECRET,
        id="id",
    )


def test_missing_identifiers(ending: str, tmp_path: Path) -> None:
    source = write(data(id={617: None}), tmp_path / f"in.{ending}")
    refused(source, tmp_path / f"out.{ending}", r"'id' has 1 missing value\(s\), first in row 617", key=SECRET, id="id")


def test_an_unknown_or_missing_stratum(ending: str, tmp_path: Path) -> None:
    frame = data()
    frame["region"] = "north"
    mechanism = pr.Mechanism({"z": pr.Stratified("region", {"north": M.assignments[0].channel})})  # type: ignore[dict-item]
    for value, said in (("SECRET", "that are not strata of the mechanism"), (None, "that are missing")):
        changed = frame.assign(region=frame["region"].where(frame.index != 777, value))
        source = write(changed, tmp_path / f"in.{ending}")
        refused(
            source,
            tmp_path / f"out.{ending}",
            rf"'region' has at least 1 value\(s\) {said}, first in row 777",
            mechanism=mechanism,
        )


def test_a_combination_that_the_joint_matrix_lacks(ending: str, tmp_path: Path) -> None:
    frame = data().assign(s=["f", "m"] * 500)
    mechanism = pr.Mechanism({("z", "s"): pr.TransitionMatrix.randomized_response([("a", "f"), ("b", "m")], 0.8)})
    frame.loc[555, "s"] = "f"
    source = write(frame, tmp_path / f"in.{ending}")
    refused(source, tmp_path / f"out.{ending}", "'z × s' has at least 1 .* first in row 555", mechanism=mechanism)


def test_columns_that_are_not_there(ending: str, tmp_path: Path) -> None:
    source = write(data().rename(columns={"z": "zz"}), tmp_path / f"in.{ending}")
    refused(source, tmp_path / f"out.{ending}", "the mechanism needs column.* 'z', which .* lacks: .*zz")
    source = write(data(), tmp_path / f"in.{ending}")
    refused(source, tmp_path / f"out.{ending}", "keyed release needs column.* 'nobody'", key=SECRET, id="nobody")
    refused(source, tmp_path / f"out.{ending}", "'z' is perturbed itself", key=SECRET, id="z")


def test_columns_of_the_wrong_type(ending: str, tmp_path: Path) -> None:
    numbers = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.9, 0.9)})
    source = write(data(), tmp_path / f"in.{ending}")
    refused(source, tmp_path / f"out.{ending}", "'z' (holds text|has at least)", mechanism=numbers)


def test_a_parquet_type_too_narrow_for_a_level(tmp_path: Path) -> None:
    pq.write_table(pa.table({"z": pa.array([1, 2], pa.int8())}), tmp_path / "in.parquet")
    wide = pr.Mechanism({"z": pr.TransitionMatrix([1, 1000], [[0.9, 0.1], [0.1, 0.9]])})
    refused(tmp_path / "in.parquet", tmp_path / "out.parquet", "'z' of type int8 cannot hold", mechanism=wide)
    half = pr.Mechanism({"z": pr.TransitionMatrix([1, 1.5], [[0.9, 0.1], [0.1, 0.9]])})
    refused(tmp_path / "in.parquet", tmp_path / "out.parquet", "'z' of type int8 cannot hold", mechanism=half)


def test_the_input_is_never_overwritten_under_any_name(ending: str, tmp_path: Path) -> None:
    source = write(data(), tmp_path / f"in.{ending}")
    (tmp_path / f"soft.{ending}").symlink_to(source)
    os.link(source, tmp_path / f"hard.{ending}")
    (tmp_path / "sub").mkdir()
    for target in (
        source,
        tmp_path / f"soft.{ending}",
        tmp_path / f"hard.{ending}",
        tmp_path / "sub" / ".." / f"in.{ending}",
    ):
        refused(source, target, "an input is never overwritten", force=True)
    refused(tmp_path / f"soft.{ending}", source, "an input is never overwritten", force=True)


def test_an_existing_target_needs_force(ending: str, tmp_path: Path) -> None:
    source = write(data(), tmp_path / f"in.{ending}")
    target = tmp_path / f"out.{ending}"
    target.write_text("precious")
    refused(source, target, "exists: use another name, or force")
    pr.release(source, target, M, force=True)
    assert pr.audit(target).clean
    (tmp_path / f"dangling.{ending}").symlink_to(tmp_path / "nowhere")
    refused(source, tmp_path / f"dangling.{ending}", "exists: use another name")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent/out.{}", "folder .*absent.* does not exist"),
        ("folder.{}", "is a folder"),
        ("out.xlsx", "unknown ending '.xlsx'"),
    ],
)
def test_targets_that_cannot_be(name: str, message: str, ending: str, tmp_path: Path) -> None:
    source = write(data(), tmp_path / f"in.{ending}")
    (tmp_path / f"folder.{ending}").mkdir()
    with pytest.raises(pr.PramanaError, match=message):
        pr.release(source, tmp_path / name.format(ending), M, force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([f"folder.{ending}", f"in.{ending}"])


@pytest.mark.parametrize("name", ["out.csv", "out.tsv.gz"])
def test_parquet_is_not_released_as_text(name: str, tmp_path: Path) -> None:
    source = write(data(), tmp_path / "in.parquet")
    refused(source, tmp_path / name, "is Parquet and .* would be text, which has no types: release it as Parquet")


def test_sources_that_cannot_be(ending: str, tmp_path: Path) -> None:
    refused(tmp_path / f"absent.{ending}", tmp_path / f"out.{ending}", "does not exist")
    (tmp_path / f"in.{ending}").write_bytes(b"\x00\xff\xfe")
    refused(tmp_path / f"in.{ending}", tmp_path / f"out.{ending}", "(could not be read as Parquet|is not UTF-8)")
    (tmp_path / f"in.{ending}").write_bytes(b"")
    refused(tmp_path / f"in.{ending}", tmp_path / f"out.{ending}", "(could not be read as Parquet|has no header)")


def test_a_release_is_not_perturbed_again(ending: str, tmp_path: Path) -> None:
    source = write(data(), tmp_path / f"in.{ending}")
    pr.release(source, tmp_path / f"out.{ending}", M)
    refused(tmp_path / f"out.{ending}", tmp_path / f"again.{ending}", "was perturbed already")


@pytest.mark.parametrize("content", ["{", "[]", '{"resources": 3}'])
def test_a_broken_description_in_the_folder_stops_before_any_work(content: str, ending: str, tmp_path: Path) -> None:
    source = write(data(), tmp_path / f"in.{ending}")
    (tmp_path / "datapackage.json").write_text(content)
    with pytest.raises(pr.MechanismError, match="repair or remove it first"):
        pr.release(source, tmp_path / f"out.{ending}", M)
    assert (tmp_path / "datapackage.json").read_text() == content


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('1,a,SECRET"x",2\n', "row 1 has a quotation mark inside a field"),
        ("1,a\n", r"row 1 has 2 field\(s\) where the header names 3"),
        ("1,a,x,SECRET\n", r"row 1 has 4 field\(s\)"),
        ('1,a,"SECRET\n', "row 1 has a quotation mark that is not closed"),
        ('1,a,"SECRET\n2,b,x\n3,a,y\n', "row 1 has a quotation mark that is not closed"),
        ("1,a,SECRET\r2,b,x\n", "row 1 has a carriage return without a line feed"),
        ("1,a,SECRET\r", "row 1 has a carriage return without a line feed"),
    ],
)
def test_csv_files_that_cannot_be_cut_into_fields(rows: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,z,x\n0,b,x\n" + rows)
    refused(tmp_path / "in.csv", tmp_path / "out.csv", message)


def test_a_file_with_old_line_ends_is_not_taken_for_a_header(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"id,z,x\r0,a,SECRET\r1,b,SECRET\r")
    refused(tmp_path / "in.csv", tmp_path / "out.csv", "do not end with a line feed")


def test_duplicate_names(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("z,z\na,b\n")
    refused(tmp_path / "in.csv", tmp_path / "out.csv", "two columns .* the same name")


class Full:
    """A writer whose disk is full after a few blocks."""

    def __init__(self, writer: Any) -> None:
        self._writer, self._left = writer, 3

    def write(self, block: Any) -> None:
        self._left -= 1
        if self._left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "SECRET")
        self._writer.write(block)

    def close(self) -> None:
        self._writer.close()


def test_a_disk_that_fills_up(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(data(), tmp_path / f"in.{ending}")
    original = release._writer
    monkeypatch.setattr(release, "_writer", lambda *args: Full(original(*args)))
    refused(source, tmp_path / f"out.{ending}", "could not be written: No space left on device; nothing was published")


def test_a_rename_that_fails_takes_the_description_back(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(data(), tmp_path / f"in.{ending}")

    def failing(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(release, "publish", failing)
    refused(source, tmp_path / f"out.{ending}", "could not be written: .*nothing was published")
    (tmp_path / "datapackage.json").write_text('{"name": "kept"}')
    refused(source, tmp_path / f"out.{ending}", "could not be written")


def test_an_interruption_leaves_nothing(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(data(), tmp_path / f"in.{ending}")

    def interrupt(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    refused(source, tmp_path / f"out.{ending}", "^$", KeyboardInterrupt, tell=interrupt)


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
import pramana as pr
mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)})
try:
    pr.release(sys.argv[1], sys.argv[2], mechanism)
except pr.PramanaError as error:
    print(error)
"""


def test_a_real_limit_on_the_size_of_files(ending: str, tmp_path: Path) -> None:
    frame = data(20_000).assign(x=range(20_000))
    source = write(frame, tmp_path / f"in.{ending}")
    command = [sys.executable, "-c", LIMITED, source, tmp_path / f"out.{ending}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "could not be written" in done.stdout, done.stderr
    assert [p.name for p in tmp_path.iterdir()] == [source.name]


def test_no_seed_and_no_key_in_anything_published(ending: str, tmp_path: Path) -> None:
    source = write(data(), tmp_path / f"in.{ending}")
    (tmp_path / "key").write_bytes(SECRET)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "public").mkdir()
    pr.release(source, tmp_path / "public" / f"k.{ending}", M, key=tmp_path / "key", id="id", card=True)
    pr.release(source, tmp_path / "public" / f"s.{ending}", M, seed=987654321, allow="seed", card=True)
    for path in (tmp_path / "public").iterdir():
        content = path.read_bytes()
        assert SECRET not in content
        assert SECRET.hex().encode() not in content
        assert b"987654321" not in content
    package = json.loads((tmp_path / "public" / "datapackage.json").read_text())
    assert [r["pram"]["randomness"] for r in package["resources"]] == ["keyed", "seeded (insecure)"]
    assert len(package["resources"][0]["pram"]["limits"]) == 5


def test_a_text_file_of_very_many_columns_is_released_soon(tmp_path: Path) -> None:
    """Whether a column is kept was looked up in the list of all names, for each of them in every block."""
    names = [f"c{k}" for k in range(40_000)]
    (tmp_path / "in.csv").write_text(",".join(names) + "\n" + (",".join("1" for _ in names) + "\n") * 3)
    known = pr.Mechanism({"c1": pr.TransitionMatrix.randomized_response([1, 2], 0.8)})
    made = soon(lambda: pr.release(tmp_path / "in.csv", tmp_path / "out.csv", known, force=True))
    assert made.rows == 3

"""Folders that cannot be released, and releases that are killed: a clear error, which names the file, and nothing left behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pramana as pr
from pramana.disclosure.release.policy import AuditRule, Policy
from pramana.errors import PramanaWarning
from pramana.frames import documents, processes, writing
from pramana.frames.blocks import csv_files, parquet_files

LEVELS = ["low", "mid", "high"]
M = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, 0.7)})
KEY = bytes(range(32))
SECRET = "zq" + "x"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three files of 30 records."""
    (tmp_path / "in").mkdir()
    frame = pd.DataFrame({"id": np.arange(90), "edu": np.resize(LEVELS, 90), "x": 1.5 * np.arange(90)})
    for k in range(3):
        frame[30 * k : 30 * k + 30].to_csv(tmp_path / "in" / f"p{k}.csv", index=False)
        frame[30 * k : 30 * k + 30].to_parquet(tmp_path / f"p{k}.parquet", index=False)
    return tmp_path


def listed(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() if p.is_file() else b"" for p in place.rglob("*")}


def replaced(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new, 1))


FAULTS: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "an unseen level in the last file": (
        lambda p: replaced(p / "in/p2.csv", "low", f"{SECRET}level"),
        {},
        r"file 'p2.csv': column 'edu' has at least 1 value\(s\) that are not levels of the mechanism, first in row 0",
    ),
    "an identifier in two files": (
        lambda p: replaced(p / "in/p2.csv", "\n61,", "\n3,"),
        {"key": KEY, "id": "id"},
        r"identifier 'id' repeats itself in 1 record\(s\), first in row 1 of 'p2.csv'",
    ),
    "a unit that differs between files": (
        lambda p: replaced(p / "in/p1.csv", "\n30,low", "\n2,low"),
        {"unit": "id"},
        r"edu .* differs between the records of 1 or fewer values of the unit 'id'",
    ),
    "a missing identifier": (
        lambda p: replaced(p / "in/p1.csv", "\n35,", "\n,"),
        {"key": KEY, "id": "id"},
        r"file 'p1.csv': the identifier 'id' has 1 missing value\(s\), first in row 5",
    ),
    "another column": (
        lambda p: replaced(p / "in/p1.csv", "id,edu,x", f"id,edu,{SECRET}"),
        {},
        r"'p1.csv' has 3 column\(s\) and 'p0.csv' 3, and they differ from column 3 on",
    ),
    "a column too many": (
        lambda p: (p / "in/p1.csv").write_text("id,edu,x,y\n1,low,2,3\n"),
        {},
        r"'p1.csv' has 4 column\(s\) and 'p0.csv' 3, and they differ from column 4 on",
    ),
    "a column that is needed": (
        lambda p: (p / "in/p1.csv").write_text("id,x\n1,2\n"),
        {},
        r"file 'p1.csv': the mechanism needs column\(s\) 'edu'",
    ),
    "another type": (
        lambda p: [
            *(f.unlink() for f in (p / "in").iterdir()),
            shutil.copy(p / "p0.parquet", p / "in"),
            pq.write_table(pa.table({"id": ["1"], "edu": ["low"], "x": [1.0]}), p / "in/p1.parquet"),
        ],
        {},
        r"column 'id' is of type .* in 'p1.parquet' and of type .* in 'p0.parquet': convert it to one type",
    ),
    "a ragged record": (
        lambda p: replaced(p / "in/p2.csv", "\n65,", "\n65,6,"),
        {},
        r"file 'p2.csv': row 5 has 4 field",
    ),
    "an empty file": (lambda p: (p / "in/p1.csv").write_text(""), {}, r"p1.csv.* has no header"),
    "a corrupt file": (
        lambda p: [
            shutil.rmtree(p / "in"),
            (p / "in").mkdir(),
            (p / "in/p0.parquet").write_bytes(b"PAR1" + b"x" * 99 + b"PAR1"),
        ],
        {},
        r"p0.parquet' could not be read as Parquet",
    ),
    "an empty folder": (lambda p: [f.unlink() for f in (p / "in").iterdir()], {}, "holds no data files"),
    "two formats": (lambda p: shutil.copy(p / "p0.parquet", p / "in"), {}, r"of several formats \(csv, parquet\)"),
    "a folder within": (
        lambda p: shutil.copytree(p / "in", p / "in/more"),
        {},
        "holds data files in folders of its own",
    ),
    "one file twice": (lambda p: (p / "in/p3.csv").symlink_to("p0.csv"), {}, "are one file, or have one name"),
    "names that differ in case": (lambda p: shutil.copy(p / "in/p0.csv", p / "in/P0.csv"), {}, "have one name"),
    "a name with a line end": (
        lambda p: (p / "in/p2.csv").rename(p / "in/p\n2.csv"),
        {},
        r"the name of .* is not plain",
    ),
    "half a character": (
        lambda p: (p / "in/p2.csv").rename(p / "in/p\udcff.csv"),
        {},
        r"is not plain|half a character",
    ),
    "a released file": (
        lambda p: [
            pr.release(p / "in/p0.csv", p / "pub.csv", M),
            *(f.unlink() for f in (p / "in").iterdir()),
            *((p / f).rename(p / "in" / f) for f in ("pub.csv", "datapackage.json")),
        ],
        {},
        r"file 'pub.csv': 'pub.csv' was perturbed already",
    ),
    "shuffled": (lambda _: None, {"shuffle": True}, "join the files, and release one shuffled file"),
    "linked": (lambda _: None, {"link": "own.csv"}, "leave out link"),
    "no jobs": (lambda _: None, {"jobs": 0}, "jobs=0 must be a whole number of at least 1"),
    "a dropped column": (lambda _: None, {"drop": ["edu"]}, "cannot be dropped"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_leaves_nothing(name: str, place: Path) -> None:
    broken, options, message = FAULTS[name]
    broken(place)
    before = listed(place)
    with pytest.raises(pr.PramanaError, match=message) as caught:
        pr.release(place / "in", place / "out", M, card=True, ledger=place / "ledger", **options)
    assert SECRET not in str(caught.value)
    assert listed(place) == before


TARGETS: dict[str, tuple[Callable[[Path], Any], str, bool, str]] = {
    "the source": (lambda _: None, "in", True, "the folder of the confidential files"),
    "within the source": (lambda _: None, "in/out", False, "the folder of the confidential files"),
    "around the source": (lambda _: None, ".", True, "holds one of them"),
    "by a link": (lambda p: (p / "out").symlink_to("in"), "out", True, "the folder of the confidential files"),
    "a link": (lambda p: [(p / "else").mkdir(), (p / "out").symlink_to("else")], "out", True, "is a link"),
    "a file": (lambda p: (p / "out").write_text("mine"), "out", True, "is a file"),
    "in a folder that is not": (lambda _: None, "no/out", False, "does not exist: create it first"),
    "one that is full": (lambda p: [(p / "out").mkdir(), (p / "out/a").write_text("mine")], "out", False, "exists: use another name"),
    "one with other files": (
        lambda p: [pr.release(p / "in", p / "out", M), (p / "out/a").write_text("mine")],
        "out",
        True,
        "holds 'a', which no release put there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_that_must_not_be_is_refused(name: str, place: Path) -> None:
    made, target, force, message = TARGETS[name]
    made(place)
    before = listed(place)
    with pytest.raises(pr.PramanaError, match=message):
        pr.release(place / "in", place / target, M, force=force)
    assert listed(place) == before


@pytest.mark.parametrize("what", ["key", "ledger"])
def test_nothing_of_the_custodians_lies_in_the_folder(what: str, place: Path) -> None:
    (place / "out").mkdir()
    own = place / "out" / what
    own.write_bytes(KEY if what == "key" else b"")
    options: dict[str, Any] = {"key": own, "id": "id"} if what == "key" else {"ledger": own}
    with pytest.raises(pr.PramanaError, match=rf"{what} '{what}' would lie beside|exists|is read here as"):
        pr.release(place / "in", place / "out", M, **options)
    assert own.exists()


def test_types_of_columns_are_asked_for_once_a_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not once a column: a file of 10,000 columns would take minutes."""
    asked: list[int] = []
    types = parquet_files.ParquetReader.types
    monkeypatch.setattr(
        parquet_files.ParquetReader,
        "types",
        property(lambda reader: [asked.append(1), types.fget(reader)][1]),  # type: ignore[attr-defined]
    )
    (place / "wide").mkdir()
    for k in range(2):
        wide = pd.DataFrame({"edu": LEVELS * 10, **{f"c{j}": 0.0 for j in range(50)}})
        wide.to_parquet(place / "wide" / f"{k}.parquet", index=False)
    pr.release(place / "wide", place / "out", M)
    assert 0 < len(asked) < 30


def test_an_empty_folder_is_taken_and_a_release_replaced_with_force(place: Path) -> None:
    (place / "out").mkdir()
    first = pr.release(place / "in", place / "out", M, card=True)
    with pytest.raises(pr.PramanaError, match="exists: use another name, or force"):
        pr.release(place / "in", place / "out", M)
    (place / "in" / "p2.csv").unlink()
    second = pr.release(place / "in", place / "out", M, force=True)
    assert (first.rows, second.rows) == (90, 60)
    assert sorted(p.name for p in (place / "out").iterdir()) == ["datapackage.json", "p0.csv", "p1.csv"]
    assert pr.audit(place / "out").clean
    assert not list(place.glob(".*"))


def test_a_folder_that_cannot_be_exchanged_at_once_is_in_two_steps(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_EXCHANGE", 1 << 20)
    for force in (False, True):
        pr.release(place / "in", place / "out", M, force=force)
    assert pr.audit(place / "out").clean
    assert not list(place.glob(".*"))


def test_lost_and_foreign_files_of_a_released_folder_fail_the_audit(place: Path) -> None:
    pr.release(place / "in", place / "out", M)
    shutil.copy(place / "in" / "p0.csv", place / "out" / "p7.csv")
    assert any(f.message.startswith("p7.csv: none beside") for f in pr.audit(place / "out").of("error"))
    (place / "out" / "p7.csv").unlink()
    (place / "out" / "p1.csv").unlink()
    assert [f.message for f in pr.audit(place / "out").of("error")] == ["p1.csv: described, but not in the folder"]
    with pytest.warns(PramanaWarning, match=r"'p1.csv' described, but not in .*out': the other files are fitted alone"):
        assert pr.fit(pr.mean("x"), place / "out", "auto").n == 60
    found = pr.audit(place / "out", original=place / "in").of("error")
    assert any("has 2 file(s) and the original 3" in f.message for f in found)


@pytest.mark.parametrize("count", [2, 3])
def test_a_level_is_rare_over_all_files(count: int, place: Path) -> None:
    """One person in each of three files are three people; in two of them, two."""
    known = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response([*LEVELS, "top"], 0.7)})
    for k in range(count):
        replaced(place / "in" / f"p{k}.csv", "low", "top")
    if count == 3:
        assert pr.release(place / "in", place / "out", known).rows == 90
        return
    with pytest.raises(pr.PramanaError, match=r"1 level\(s\) of edu are held by fewer than 3 record"):
        pr.release(place / "in", place / "out", known)
    assert not (place / "out").exists()


def test_a_policy_can_ask_for_the_audit_of_a_folder(place: Path) -> None:
    policy = Policy(audit=AuditRule(original=False))
    assert pr.release(place / "in", place / "out", M, policy=policy, ledger=place / "ledger").rows == 90
    for k, level in enumerate(LEVELS):  # which file a record is in tells its level
        frame = pd.DataFrame({"id": np.arange(400 * k, 400 * k + 400), "edu": level, "x": 1.0})
        frame.to_csv(place / "in" / f"p{k}.csv", index=False)
    policy = Policy(audit=AuditRule(original=True))
    with pytest.raises(pr.PramanaError, match=r"asks for a clean audit of 'other'.*give-aways"):
        pr.release(place / "in", place / "other", M, policy=policy, ledger=place / "ledger")


def test_the_description_of_a_folder_is_parsed_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It describes all files, and each of them asks for it: hundreds of files would take minutes."""
    pr.release(place / "in", place / "out", M)
    parsed, read = [], documents.parse_json
    monkeypatch.setattr(documents, "parse_json", lambda *given: parsed.append(1) or read(*given))
    pr.fit(pr.mean("x"), place / "out", "auto")
    assert len(parsed) == 1
    description = place / "out" / "datapackage.json"
    replaced(description, '"bytes": ', '"bytes": 9')
    with pytest.raises(pr.MechanismError, match=r"'p0.csv' has \d+ bytes, but its description says 9"):
        pr.fit(pr.mean("x"), place / "out", "auto")


def test_a_changed_file_of_a_folder_is_named(place: Path) -> None:
    pr.release(place / "in", place / "out", M)
    replaced(place / "out" / "p1.csv", "45.0", "46.0")
    assert any(f.message.startswith("p1.csv: the file has SHA-256") for f in pr.audit(place / "out").of("error"))
    with pytest.raises(pr.MechanismError, match=r"'p1.csv' has SHA-256"):
        pr.fit(pr.mean("x"), place / "out", "auto")


@pytest.mark.parametrize("moment", ["write", "describe", "publish"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_nothing(
    moment: str, error: BaseException, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    if moment == "write":
        monkeypatch.setattr(csv_files.CsvWriter, "write", fails)
    else:
        name = "write_text" if moment == "describe" else "publish_folder"
        monkeypatch.setattr(f"pramana.disclosure.release.folders.{name}", fails)
    before = listed(place)
    with pytest.raises((pr.PramanaError, KeyboardInterrupt), match=r"could not be written: No space left|^$"):
        pr.release(place / "in", place / "out", M, card=True, ledger=place / "ledger")
    if (
        isinstance(error, KeyboardInterrupt) and moment != "write"
    ):  # an entry too many does no harm, and one too few does
        (place / "ledger").unlink(missing_ok=True)
    assert listed(place) == before


def test_a_process_that_dies_is_an_error_and_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process is killed as soon as it is there, as a system without memory would do."""
    begun = subprocess.Popen

    def killed(*args: Any, **options: Any) -> Any:
        process = begun(*args, **options)
        threading.Timer(0.2, process.kill).start()
        return process

    monkeypatch.setattr(processes.subprocess, "Popen", killed)
    before = listed(place)
    with pytest.raises(pr.PramanaError, match=r"ended in the middle \(signal 9\).*jobs"):
        pr.release(place / "in", place / "out", M, jobs=2)
    assert listed(place) == before


SCRIPT = """
import sys, time
from pathlib import Path
import pramana as pr
from pramana.frames.blocks import csv_files
place = Path(sys.argv[1])
M = pr.Mechanism({"edu": pr.TransitionMatrix(["TRUTH", "noise"], [[0, 1], [1, 0]])})
slow = csv_files.CsvWriter.write
def write(self, batch):
    slow(self, batch)
    self._raw.flush()
    print("written", flush=True)
    time.sleep(0.2)
csv_files.CsvWriter.write = write
csv_files.SIZE = 500
pr.release(place / "in", place / "out", M, allow="identity", force=True)
"""


@pytest.mark.parametrize(("stop", "older"), [(signal.SIGKILL, True), (signal.SIGINT, False)])
def test_a_killed_release_leaves_a_whole_folder_or_none(stop: signal.Signals, older: bool, tmp_path: Path) -> None:
    """What a kill leaves holds no true value, and the next release takes it away; an older release stays until the new one is whole."""
    (tmp_path / "in").mkdir()
    for k in range(3):
        (tmp_path / "in" / f"p{k}.csv").write_text("x,edu\n" + "".join(f"{i},TRUTH\n" for i in range(300)))
    flip = pr.Mechanism({"edu": pr.TransitionMatrix(["TRUTH", "noise"], [[0, 1], [1, 0]])})
    if older:
        pr.release(tmp_path / "in", tmp_path / "out", flip, allow="identity", card=True)
    before = listed(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(9):
        process.stdout.readline()
    process.send_signal(stop)
    process.communicate(timeout=20)
    left = {name: content for name, content in listed(tmp_path).items() if name not in before}
    assert bool(left) == (stop == signal.SIGKILL)
    assert not any(b"TRUTH" in content for content in left.values())
    assert all(".pramana.part" in name for name in left)
    assert {name: content for name, content in listed(tmp_path).items() if name in before} == before
    pr.release(tmp_path / "in", tmp_path / "out", flip, allow="identity", card=True, force=True)
    assert not list(tmp_path.glob(".*"))
    assert {f.check for f in pr.audit(tmp_path / "out").of("error")} == {"identity"}


def test_processes_end_with_whoever_started_them(tmp_path: Path) -> None:
    """Killed without a word, so that nobody tells them; nothing of the caller's program runs in them either."""
    script = tmp_path / "own.py"
    script.write_text(
        "import sys, time\nfrom pramana.frames import processes\n"
        "with processes._started() as one:\n    print(one.pid, flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    for _ in range(200):
        if not _lives(pid):
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the process outlived the one that had started it")


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_two_releases_into_one_folder(place: Path) -> None:
    """Both are written, one appears, and its description is its own."""
    codes: list[str] = []

    def released() -> None:
        try:
            pr.release(place / "in", place / "out", M, ledger=place / "ledger", allow="second-draw")
            codes.append("made")
        except pr.PramanaError as error:
            codes.append(str(error))

    threads = [threading.Thread(target=released) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes.count("made") == 1, codes
    assert len((place / "ledger").read_text().splitlines()) == 1
    assert json.loads((place / "ledger").read_text())["rows"] == 90
    assert pr.audit(place / "out", ledger=place / "ledger").clean
    assert not list(place.glob(".*"))

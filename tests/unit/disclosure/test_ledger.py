"""What the entries of a ledger add up to, how they are read, and how one is added."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.disclosure.release import ledger
from pramana.disclosure.release.ledger import (
    ColumnRecord,
    Entry,
    families,
    independent_draws,
    second_draws,
    spent,
    total_loss,
)
from pramana.mechanism.draws.keyed import SKETCH, Key, KeyedRecords, Least
from soon import soon

INF = float("inf")


def entry(dataset: str | None = "survey", *, source: str = "s", loss: float | None = 1.0, **change: Any) -> Entry:
    columns = {"edu": ColumnRecord("P", loss)}
    made = Entry(dataset, source, "r", "out.csv", 10, "fresh", None, loss, columns, version=ledger.VERSION)
    return replace(made, **change)


def keyed(**change: Any) -> Entry:
    return entry(**{"randomness": "keyed", "key": "k", "identifier": "id", **change})


def test_columns_and_independent_draws_add() -> None:
    both = {"edu": ColumnRecord("P", 1.0), "job": ColumnRecord("Q", 0.5)}
    assert total_loss([entry(columns=both)]) == 1.5
    assert total_loss([entry(), entry(), entry(columns=both)]) == 3.5
    assert total_loss([entry(), entry(loss=None)]) == INF
    assert total_loss([]) == 0


@pytest.mark.parametrize(
    ("change", "independent"),
    [
        ({}, False),
        ({"released": "another file", "rows": 5, "source": "wave 2"}, False),
        ({"key": "another"}, True),
        ({"identifier": "household"}, True),
        ({"identifier": None, "version": 1}, False),
        ({"unit": "id"}, False),
        ({"columns": {"edu": ColumnRecord("another P", 1.0)}}, True),
        ({"columns": {'["edu", "job"]': ColumnRecord("P", 1.0)}}, True),
        ({"randomness": "fresh", "key": None}, True),
        ({"columns": {"job": ColumnRecord("P", 1.0)}}, None),
    ],
    ids=str,
)
def test_a_keyed_release_repeats_its_draws_and_nothing_else_does(
    change: dict[str, Any], independent: bool | None
) -> None:
    """None: another column, which is no second draw of the first, and whose epsilon adds."""
    old, new = keyed(), keyed(**change)
    assert bool(independent_draws([old], new)) == bool(independent)
    assert total_loss([old, new]) == (1.0 if independent is False else 2.0)
    assert total_loss([new, old]) == total_loss([old, new])


def test_a_column_counts_in_whatever_company_it_was_drawn() -> None:
    joint = entry(columns={ledger.joint(["edu", "sex"]): ColumnRecord("J", 2.0)})
    repeated = [keyed(), keyed()]
    assert spent([joint, *repeated], entry(), "edu") == 1.0 + 2.0 + 1.0
    assert set(independent_draws([joint], entry())) == {"edu"}


def sketch(identifiers: Any) -> str:
    found = Least()
    for part in np.array_split(np.asarray(identifiers), 3):
        found.add(KeyedRecords(Key(bytes(range(32)))).digests(part, "id"))
    return found.text()


PEOPLE = np.arange(20_000)


@pytest.mark.parametrize(
    ("later", "same"),
    [
        (PEOPLE, True),
        (PEOPLE[::-1], True),
        (np.repeat(PEOPLE, 3), True),
        (PEOPLE.astype(float), True),
        (PEOPLE[::2], True),
        (PEOPLE[:1000], True),
        (np.arange(400_000), True),
        (np.arange(6_000, 26_000), True),
        (PEOPLE[:1], False),
        (PEOPLE + 10**6, False),
        (PEOPLE[:100] + 10**6, False),
        (np.arange(400_000) + 10**6, False),
        (np.arange(18_000, 38_000), False),
        (PEOPLE.astype(str), False),
        (PEOPLE[:0], False),
    ],
    ids=["same", "reversed", "units", "floats", "half", "a twentieth", "grown", "moved on", "one person", "renumbered",
         "a renumbered part", "renumbered and grown", "mostly others", "texts", "nobody"],
)  # fmt: skip
def test_a_repeat_is_believed_of_the_same_identifiers_only(later: Any, same: bool) -> None:
    """Drawn anew under the same key, the records of renumbered people would not be charged."""
    old, new = keyed(sketch=sketch(PEOPLE)), keyed(sketch=sketch(later))
    for pair in ([old, new], [new, old]):
        assert total_loss(pair) == (1.0 if same else 2.0)
        assert bool(independent_draws(pair[:1], pair[1])) == (not same)
    assert total_loss([keyed(), new]) == total_loss([old, keyed()]) == 1.0, "old entries have no sketch"


def test_small_files_are_compared_whole() -> None:
    few = PEOPLE[:40]
    assert ledger.overlapping(sketch(few), sketch(few[:1]))
    assert ledger.overlapping(sketch(few), sketch(few[10:50]))
    assert not ledger.overlapping(sketch(few), sketch(few + 40))


def test_a_sketch_is_short_and_names_nobody() -> None:
    found = sketch(PEOPLE)
    assert len(found) == 16 * SKETCH
    other = Least()
    other.add(KeyedRecords(Key(bytes(range(1, 33)))).digests(PEOPLE, "id"))
    assert not ledger.overlapping(found, other.text()), "without the key it tells nothing"


NAMES = [["a"], ["a", "b"], ["a × b"], ["[a"], ['["a", "b"]'], ["a", "b × c"], ["a × b", "c"], ["a", "b", "c"], ["é"]]


def test_no_two_lists_of_columns_have_one_name() -> None:
    assert len({ledger.joint(columns) for columns in NAMES}) == len(NAMES)
    assert [ledger.members(ledger.joint(columns)) for columns in NAMES] == NAMES


def test_a_column_is_not_taken_for_two(tmp_path: Path) -> None:
    """The release has an epsilon of its own for either; the ledger had one of them."""
    pairs = [(a, b) for a in "xy" for b in "xy"]
    channels = {
        ("a", "b"): pr.TransitionMatrix.randomized_response(pairs, 0.5),
        "a × b": pr.TransitionMatrix.randomized_response(["x", "y"], 0.9),
    }
    mechanism = pr.Mechanism(channels)
    frame = pd.DataFrame({"a": list("xxyy") * 20, "b": list("xyxy") * 20, "a × b": list("xy") * 40})
    frame.to_csv(tmp_path / "raw.csv", index=False)
    made = pr.release(
        tmp_path / "raw.csv", tmp_path / "out.csv", mechanism, ledger=tmp_path / "l", dataset="s", allow="unperturbed"
    )
    records = pr.account(tmp_path / "l")["s"]
    assert records.epsilon == pytest.approx(made.epsilon)
    assert [c.column for c in records.columns] == ["a × b", "a × b"]
    single = pr.Mechanism({"a": pr.TransitionMatrix.randomized_response(["x", "y"], 0.9)})
    with pytest.raises(pr.PramanaError, match=r"released before with other draws of a .epsilon 3.296 in all"):
        pr.release(tmp_path / "raw.csv", tmp_path / "b.csv", single, ledger=tmp_path / "l", drop=["b", "a × b"])


def test_joint_names_of_the_second_version_are_read(tmp_path: Path) -> None:
    columns = {"edu × job": ColumnRecord("P", 1.0), "[x": ColumnRecord("Q", 0.5)}
    line = {k: v for k, v in asdict(keyed(columns=columns, version=2)).items() if k != "sketch"}
    (tmp_path / "ledger").write_text(json.dumps(line) + "\n")
    (old,) = ledger.read_ledger(tmp_path / "ledger")
    now = keyed(columns={ledger.joint(["edu", "job"]): ColumnRecord("P", 1.0)})
    assert [ledger.members(name) for name in old.columns] == [["edu", "job"], ["[x"]]
    assert total_loss([old, now]) == 1.5


@pytest.mark.parametrize(
    "change",
    [
        {"sketch": "0" * 15},
        {"sketch": "g" * 16},
        {"sketch": "0" * 16 * (SKETCH + 1)},
        {"sketch": 5},
        *({"columns": {name: {"channel": "P", "epsilon": 1.0}}} for name in ("[", "[]", '["a"', "[1]", "[" * 5000)),
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_broken_sketch_or_name_is_an_error(change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(good(**change))
    with pytest.raises(pr.PramanaError, match=r"line 1 .* is not an entry"):
        ledger.read_ledger(tmp_path / "ledger")


def test_a_draw_that_gave_the_same_file_is_a_draw_all_the_same() -> None:
    """A file of one record is drawn alike every other time."""
    first, second = entry(), entry()
    assert independent_draws([first], second) == {"edu": [first]}
    assert independent_draws([first, second], second) == {"edu": [first]}
    assert total_loss([first, second]) == 2.0


def test_records_are_known_by_their_file_or_their_name_or_through_others() -> None:
    unnamed, named, later, other = (
        entry(None, source="a"),
        entry("x", source="a"),
        entry("x", source="b"),
        entry("y", source="c"),
    )
    assert [len(f) for f in families([unnamed, named, later, other])] == [3, 1]
    assert ledger.same_records([unnamed, named, other], later) == [unnamed, named]
    assert ledger.same_records([unnamed, other], later) == []
    renamed = entry("z", source="a")
    assert ledger.same_records([named], renamed) == [named]


def append(path: Path, made: Callable[[list[Entry]], Entry]) -> None:
    with ledger.recorded(path, made):
        pass


def test_a_long_ledger_is_added_up_quickly() -> None:
    entries = [entry(f"d{k % 7}", source=f"s{k}") for k in range(5000)]
    assert len(families(entries)) == 7
    assert total_loss(entries) == 5000
    columns = {f"c{k}": ColumnRecord("P", 0.1) for k in range(20)}
    alike = [entry(source=f"s{k}", columns=columns) for k in range(2000)]
    assert len(soon(second_draws, alike, entry(columns=columns))["c7"]) == 2000


OLD = (
    '{"dataset": "panel", "source": "00", "released": "11", "target": "a.csv", "rows": 3, "randomness": "keyed", '
    '"key": "ab", "epsilon": null, "columns": {"edu": {"channel": "h", "epsilon": 1}}}\n'
)


def test_a_ledger_of_the_first_version_is_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text(OLD.rstrip("\n"))
    (old,) = ledger.read_ledger(path)
    assert (old.version, old.unit, old.clear, old.epsilon, old.columns["edu"].epsilon) == (1, None, (), None, 1)
    append(path, lambda entries: entry(rows=len(entries)))
    assert ledger.read_ledger(path) == [old, entry(rows=1)]
    assert path.stat().st_mode & 0o777 == 0o644


def test_an_entry_is_added_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger"
    append(path, lambda _: entry())
    before = path.read_bytes()
    write = os.write

    def full(handle: int, data: bytes) -> int:
        write(handle, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(pr.PramanaError, match="No space left"):
        append(path, lambda _: entry())
    assert path.read_bytes() == before
    monkeypatch.undo()

    def refuse(_: list[Entry]) -> Entry:
        raise pr.PramanaError("no")

    for name in ("ledger", "new"):
        with pytest.raises(pr.PramanaError, match="no"):
            append(tmp_path / name, refuse)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["ledger"]


def test_many_entries_at_once_are_all_there(tmp_path: Path) -> None:
    """Each sees all that were added before it, under whatever name the ledger goes."""
    path = tmp_path / "ledger"
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: append((path, link)[k % 2], lambda seen: entry(rows=len(seen))), range(40)))
    assert [e.rows for e in ledger.read_ledger(path)] == list(range(40))


def good(**change: Any) -> bytes:
    return json.dumps({**json.loads(json.dumps(asdict(entry()))), **change}).encode()


MANGLED = {
    "not JSON": b"{",
    "not an object": b"[]",
    "not UTF-8": good().replace(b"survey", b"surv\xe9y"),
    "UTF-16": good().decode().encode("utf-16"),
    "null bytes": b"\0" * 100,
    "empty line": b"",
    "two on a line": good() + good(),
    "half": good()[:80],
    "unknown key": good(seed=1),
    "NaN": good().replace(b"1.0", b"NaN"),
    "infinity": good().replace(b"1.0", b"1e999"),
    "negative epsilon": good(epsilon=-1),
    "text for a number": good(rows="10"),
    "negative rows": good(rows=-1),
    "huge number": good(rows=0).replace(b'"rows": 0', b'"rows": 1' + b"0" * 6000),
    "columns a list": good(columns=[]),
    "a column without epsilon": good(columns={"edu": {"channel": "P"}}),
    "a column with more": good(columns={"edu": {"channel": "P", "epsilon": 1, "x": 1}}),
    "nested deeply": b"[" * 100_000,
    "nested deeply inside": good(columns=0).replace(b'"columns": 0', b'"columns": ' + b'{"a":' * 5000),
    "version 0": good(version=0),
    "a version that is no number": good(version="²"),
}


@pytest.mark.parametrize("line", MANGLED.values(), ids=MANGLED)
def test_a_mangled_ledger_is_an_error_that_names_the_line(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(good() + b"\n" + line + b"\n")
    with pytest.raises(pr.PramanaError, match=r"line 2 of ledger ") as caught:
        ledger.read_ledger(path)
    assert len(str(caught.value)) < 500


def test_mutated_ledgers_are_read_or_refused(tmp_path: Path) -> None:
    """400 ledgers, a few bytes of each changed: entries or a clear error, never a traceback, never slow."""
    draw, path, refused = random.Random(7), tmp_path / "ledger", 0
    bits = [
        b"",
        b"{",
        b"}",
        b"[",
        b'"',
        b":",
        b",",
        b"9" * 400,
        b"\xff",
        b"\n",
        b"-",
        b"null",
        b"1e999",
        b"NaN",
        b"\\u0000",
    ]
    for _ in range(400):
        body = bytearray((good() + b"\n") * 3 + OLD.encode())
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(body))
            body[place : place + draw.randint(0, 5)] = draw.choice(bits)
        path.write_bytes(bytes(body))
        try:
            soon(lambda: pr.account(path).summary("json"))
        except pr.PramanaError:
            refused += 1
    assert 200 < refused < 400


@pytest.mark.parametrize("more", [{}, {"purpose": "unknown here"}])
def test_a_newer_entry_asks_for_an_update(more: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(good(version=ledger.VERSION + 1, **more))
    with pytest.raises(pr.PramanaError, match=r"line 1 .* has version 5.*update pramana"):
        ledger.read_ledger(tmp_path / "ledger")


def test_a_ledger_that_is_no_file(tmp_path: Path) -> None:
    assert ledger.read_ledger(tmp_path / "absent", missing=True) == []
    with pytest.raises(pr.PramanaError, match="does not exist"):
        ledger.read_ledger(tmp_path / "absent")
    for missing in (True, False):
        with pytest.raises(pr.PramanaError, match="is a folder"):
            ledger.read_ledger(tmp_path, missing=missing)
    with pytest.raises(pr.PramanaError, match="of the ledger does not exist: create it first"):
        ledger.read_ledger(tmp_path / "no folder" / "absent", missing=True)
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    with pytest.raises(pr.PramanaError, match="does not exist"):
        ledger.read_ledger(tmp_path / "broken", missing=True)


def test_a_released_file_that_the_ledger_knows_counts_once(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    source, book = tmp_path / "true.csv", tmp_path / "ledger"
    survey.to_csv(source, index=False)
    made = pr.release(source, tmp_path / "a.csv", mechanism, ledger=book)
    again = pr.risk(source, mechanism, released=made.path, ledger=book).composition
    assert again is not None
    assert again.total == pytest.approx(mechanism.epsilon)
    other = pr.release(source, tmp_path / "b.csv", mechanism)
    unknown = pr.risk(source, mechanism, released=other.path, ledger=book).composition
    assert unknown is not None
    assert unknown.total == pytest.approx(2 * mechanism.epsilon)


def test_an_account_by_data_set_and_column(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    given = {"edu": ColumnRecord("P", 1.0, ("levels",)), "job": ColumnRecord("Q", None)}
    for one in (entry(columns=given), entry(), keyed(dataset=None, source="t"), entry("y", source="u", override="why")):
        append(path, lambda _, one=one: one)
    found = pr.account(path)
    assert [r.name for r in found.records] == ["survey", "file t", "y"]
    edu, job = found["survey"].columns
    assert (edu.releases, edu.draws, edu.epsilon, edu.given) == (2, 2, 2.0, ("levels",))
    assert (job.epsilon, found["survey"].epsilon, found["survey"].left) == (INF, INF, None)
    assert found["y"].epsilon == 1.0
    for style in ("text", "markdown", "html", "latex"):
        shown = found.summary(style)
        assert all(word in shown for word in ("survey", "edu", "levels", "why"))
    plain = json.loads(found.summary("json"))
    assert plain["records"][0]["epsilon"] is None
    assert [e["override"] for e in plain["exceptions"]] == ["why"]

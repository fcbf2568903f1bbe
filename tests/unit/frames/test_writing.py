"""The one door for writing: what it refuses, what it leaves, and that there is no other."""

from __future__ import annotations

import ast
import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pramana as pr
from pramana.errors import PramanaError
from pramana.frames import writing
from pramana.frames.inputs import guarded, note_input
from pramana.frames.writing import growing, pending, publish, refuse_same, write_bytes, write_text
from pramana.mechanism.draws.keyed import Key

SOURCE = Path(pr.__file__).parent
WRITERS = {
    "write_text", "write_bytes", "savefig", "to_csv", "to_parquet", "to_json", "tofile", "save", "savez", "savetxt", "memmap",
    "mkdir", "makedirs", "unlink", "rename", "rmdir", "touch", "symlink_to", "hardlink_to", "chmod", "truncate", "write_table",
    "write_csv", "ParquetWriter", "CSVWriter", "OSFile",
}  # fmt: skip
"""Names of functions and methods that change what is on the disk."""
MODULES = {"shutil": None, "tempfile": None, "os": {"remove", "replace", "link", "symlink", "mkfifo"}}
"""Modules that do, with those of their functions whose names also mean something else; None: all of them."""
HARMLESS = {
    "frames/writing.py": None,  # the door
    "cli/__init__.py": {"open"},  # the null device, so that nothing is said after a broken pipe
    "render/canvas.py": {"savefig"},  # into memory
    "studies/runner.py": {"savez"},  # into memory
    "studies/report.py": {"to_csv"},  # text
    "frames/blocks/parquet_files.py": {"ParquetWriter", "write_table"},  # into a file that the door opened
    "cli/demonstration.py": {"to_csv"},  # text
    "cli/tabling.py": {"save"},  # a table, through the door
}


def calls(tree: ast.AST) -> Iterator[str]:
    """Calls by which a file can be changed: those above unless they are our own, and `open` with a mode to write."""
    nodes = list(ast.walk(tree))
    imports = [n for n in nodes if isinstance(n, ast.ImportFrom) and str(n.module).startswith("pramana")]
    ours = {a.name for n in imports for a in n.names} | {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        module = owner.id if isinstance(owner, ast.Name) and owner.id in MODULES else None
        known = None if module is None else MODULES[module]
        if (module is not None and (known is None or name in known)) or (
            name in WRITERS and (owner or name not in ours)
        ):
            yield name
        if name == "open" and any(_writes(value) for value in [*node.args, *(k.value for k in node.keywords)]):
            yield name


def _writes(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return (
            isinstance(value.value, str) and set(value.value) <= set("rwaxbt+") and bool(set(value.value) & set("wax+"))
        )
    return any(isinstance(n, ast.Attribute) and n.attr in ("O_WRONLY", "O_RDWR", "O_CREAT") for n in ast.walk(value))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_nobody_else_writes(path: Path) -> None:
    allowed = HARMLESS.get(str(path.relative_to(SOURCE)), set())
    if allowed is not None:
        assert set(calls(ast.parse(path.read_text(encoding="utf-8")))) <= allowed


@pytest.mark.parametrize(
    "text",
    [
        "open(p, 'w')", "p.open('ab')", "p.open(mode='x')", "os.open(p, os.O_WRONLY | os.O_CREAT)", "np.save(p, a)",
        "figure.savefig(p)", "frame.to_csv(p)", "p.write_text(t)", "Path(p).unlink()", "os.rename(a, b)", "shutil.copy(a, b)", "os.replace(a, b)", "tempfile.mkstemp()",
        "(folder / 'x').mkdir()", "parquet.write_table(t, p)", "ParquetWriter(p, schema)", "from os import unlink; unlink(p)",
    ],
)  # fmt: skip
def test_the_search_for_writers_finds_them(text: str) -> None:
    assert list(calls(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    ["strategy.move(a, b)", "p.open('rb')", "open(p)", "a.copy()", "os.open(p, os.O_RDONLY)", "text.replace(a, b)"],
)
def test_the_search_leaves_readers_alone(text: str) -> None:
    assert not list(calls(ast.parse(text)))


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o027, 0o640), (0, 0o666)])
def test_the_umask_decides_who_may_read(umask: int, mode: int, tmp_path: Path, mechanism: pr.Mechanism) -> None:
    before = os.umask(umask)
    try:
        (tmp_path / "raw.csv").write_text("edu\n" + "low\nmid\nhigh\n" * 10)
        mechanism.save(tmp_path / "m.json")
        Key.create(tmp_path / "key")
        own = {"ledger": tmp_path / "ledger", "link": tmp_path / "link.csv"}
        (tmp_path / "public").mkdir()
        pr.release(tmp_path / "raw.csv", tmp_path / "public" / "out.csv", mechanism, card=True, shuffle=True, **own)
    finally:
        os.umask(before)
    found = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*") if p.is_file()}
    public = ("m.json", "out.csv", "datapackage.json", "out.csv.card.md", "out.csv.card.html", "raw.csv")
    assert found == dict.fromkeys(public, mode) | dict.fromkeys(("key", "ledger", "link.csv"), 0o600)


def test_an_input_is_kept_under_every_name_and_only_while_the_call_lasts(tmp_path: Path) -> None:
    read = tmp_path / "read.txt"
    read.write_text("precious")
    (tmp_path / "soft").symlink_to(read)
    os.link(read, tmp_path / "hard")
    (tmp_path / "sub").mkdir()
    names = [read, tmp_path / "soft", tmp_path / "hard", tmp_path / "sub" / ".." / "read.txt"]
    with guarded():
        note_input(read, "data")
        for name in names:
            with guarded(), pytest.raises(PramanaError, match="read here as the data: an input is never overwritten"):
                write_text(name, "other", force=True)
            with pytest.raises(PramanaError, match="never overwritten"):
                write_text(name, "other", updating="design")
            with pytest.raises(PramanaError, match="never overwritten"), growing(name, updating="ledger") as add:
                add("line")
        write_text(tmp_path / "new.txt", "new")
    assert [name.read_text() for name in names] == ["precious"] * 4
    write_text(read, "other", force=True)
    assert (read.read_text(), (tmp_path / "hard").read_text()) == ("other", "precious")


def test_what_is_read_in_order_to_be_written_anew_can_be(tmp_path: Path) -> None:
    path = tmp_path / "design.toml"
    path.write_text("old")
    with guarded():
        note_input(path, "design")
        write_text(path, "new", updating="design")
        assert path.read_text() == "new"
        note_input(path, "design")
        note_input(path, "data")
        with pytest.raises(PramanaError, match="as the data: "):
            write_text(path, "newer", updating="design")


def test_a_mechanism_can_be_saved_where_it_was_loaded_from(tmp_path: Path, mechanism: pr.Mechanism) -> None:
    mechanism.save(tmp_path / "m.json")
    pr.Mechanism.load(tmp_path / "m.json").save(tmp_path / "m.json")
    assert pr.Mechanism.load(tmp_path / "m.json").document() == mechanism.document()


def test_existing_files_devices_and_folders(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    for name, message in {
        "there": "exists: use another name, or force",
        "dangling": "exists: use another name, or force",
        "pipe": "is a device or a pipe",
        "": "is a folder",
        "absent/x": "does not exist: create it first",
    }.items():
        with pytest.raises(PramanaError, match=message):
            write_text(tmp_path / name, "new")
    with pytest.raises(PramanaError, match="is a device or a pipe"):
        write_text(Path(os.devnull), "new", force=True)
    assert (tmp_path / "there").read_text() == "old"
    assert not list(tmp_path.glob("*.part"))


def test_of_two_that_began_at_once_one_makes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    for links in (True, False):
        if not links:
            monkeypatch.setattr(Path, "hardlink_to", failing(errno.EPERM))
        with pending(path) as first, pending(path) as second:
            first.fill(b"first")
            second.fill(b"second")
            publish(first)
            with pytest.raises(PramanaError, match="exists"):
                publish(second)
        assert path.read_text() == "first"
        path.unlink()


def failing(number: int) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_several_files_appear_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o640)
    with (
        pending(tmp_path / "a", force=True) as a,
        pending(tmp_path / "b") as b,
        pending(tmp_path / "c") as c,
    ):
        for part in (a, b, c):
            part.fill(b"new")
        appear = writing._appear
        monkeypatch.setattr(writing, "_appear", lambda part: failing(errno.EIO)() if part is c else appear(part))
        with pytest.raises(OSError, match="Input/output"):
            publish(a, b, c)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


HOLDING = """
import sys, time
from pathlib import Path
from pramana.frames.writing import pending
with pending(Path(sys.argv[1])) as part:
    part.fill(b"half")
    print(part.path.name, flush=True)
    time.sleep(60)
"""


def test_only_the_dead_are_removed(tmp_path: Path) -> None:
    """Parts of two processes, one of them killed; the files of other programs stay too."""
    others = [".x.12345678.part", "x.pramana.part", ".pramana.parts"]
    for name in others:
        (tmp_path / name).write_text("")
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLDING, tmp_path / "x"], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    dead, living = [(tmp_path / str(h.stdout and h.stdout.readline()).strip()) for h in holders]
    try:
        holders[0].kill()
        holders[0].wait()
        assert dead.exists()
        write_text(tmp_path / "y", "another file of the folder")
        assert not dead.exists()
        assert living.exists()
    finally:
        holders[1].kill()
        holders[1].communicate()
        holders[0].communicate()
    write_text(tmp_path / "x", "the same file")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*others, "x", "y"])


def test_a_name_that_fills_the_file_systems_limit(tmp_path: Path) -> None:
    write_text(tmp_path / ("ä" * 125), "long")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").write_text("old")
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    for path, content in ((tmp_path / "new", b"new"), (tmp_path / "old", b"new")):
        with pytest.raises(PramanaError, match="could not be written: No space left on device; nothing was changed"):
            write_bytes(path, content, force=True)
    with pytest.raises(PramanaError, match="No space left on device"):
        Key.create(tmp_path / "key")
    with (
        pytest.raises(PramanaError, match="No space left on device"),
        growing(tmp_path / "l", updating="ledger") as add,
    ):
        add("line")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"old": "old"}


def test_a_line_that_was_written_in_part_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "ledger", os.write
    path.write_text("one\n")
    left = [2]

    def short(handle: int, text: bytes) -> int:
        left[0] -= 1
        return write(handle, text[:3]) if left[0] >= 0 else failing(errno.ENOSPC)()

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(PramanaError, match="No space left on device"), growing(path, updating="ledger") as add:
        add("a long line")
    assert path.read_text() == "one\n"


def failing_later(add: Callable[[str], None]) -> None:
    add("two")
    raise ValueError("too late")


def interrupted(add: Callable[[str], None]) -> None:
    add("two")
    raise KeyboardInterrupt


def test_lines_are_taken_back_when_what_follows_fails(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for before in (None, "one\n", "one"):
        if before is not None:
            path.write_text(before)
        with pytest.raises(ValueError, match="too late"), growing(path, updating="ledger") as add:
            failing_later(add)
        assert (path.read_text() if path.exists() else None) == before
    with growing(path, updating="ledger") as add:
        add("two")
    assert path.read_text() == "one\ntwo\n"


def test_whoever_interrupts_leaves_an_entry_too_many_rather_than_one_too_few(tmp_path: Path) -> None:
    """The release may be there already when Ctrl-C arrives."""
    path = tmp_path / "ledger"
    with pytest.raises(KeyboardInterrupt), growing(path, updating="ledger") as add:
        interrupted(add)
    assert path.read_text() == "two\n"


def test_lines_of_several_writers_do_not_mix_and_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "ledger"

    def work(name: int) -> None:
        for k in range(20):
            try:
                with growing(path, updating="ledger") as add:
                    add(f"{name} {k} " + "x" * 500)
                    if k % 4 == 0:
                        raise ValueError
            except ValueError:
                pass

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = path.read_text().splitlines()
    assert sorted(lines) == sorted(f"{n} {k} " + "x" * 500 for n in range(4) for k in range(20) if k % 4)


def test_a_file_that_another_takes_away_meanwhile_is_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger whose first entry is taken back vanishes while others look at it."""
    path, asked = tmp_path / "ledger", Path.is_file

    def vanishing(self: Path) -> bool:
        self.unlink(missing_ok=True)
        return asked(self)

    monkeypatch.setattr(Path, "is_file", vanishing)
    path.touch()
    with growing(path, updating="ledger") as add:
        add("one")
    assert path.read_text() == "one\n"


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").symlink_to(tmp_path / "new")
    refuse_same([tmp_path / "a", tmp_path / "new", tmp_path / "other"])
    for one, two in (("a", "b"), ("c", "new"), ("x", "../" + tmp_path.name + "/x")):
        with pytest.raises(PramanaError, match="are one file, and two are to be written"):
            refuse_same([tmp_path / one, tmp_path / two])

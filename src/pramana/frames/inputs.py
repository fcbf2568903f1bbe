"""The files that one command reads, so that nothing it writes can replace them.

Whoever opens a file for reading says so here; the door for writing (`writing.py`) asks. Files are told apart by device and
inode, so that a link, hard or symbolic, is the file itself; and by the time of their last change, because the inode of a file that
another command replaced meanwhile is given to the next file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pramana.errors import PramanaError

FileRole = Literal["data", "description", "design", "key", "ledger", "policy", "result", "scenario"]

_READ: ContextVar[list[_Read] | None] = ContextVar("files read by this command", default=None)


@dataclass(frozen=True)
class _Read:
    """A file that was read, where and as what, as it was then."""

    path: Path
    what: FileRole
    then: os.stat_result

    def is_now(self, found: os.stat_result) -> bool:
        """Whether a file is this one: the same as then, or what lies in its place now."""
        if os.path.samestat(self.then, found) and self.then.st_mtime_ns == found.st_mtime_ns:
            return True
        with suppress(OSError):
            return os.path.samestat(self.path.stat(), found)
        return False


@contextmanager
def guarded() -> Iterator[None]:
    """A command, or a call that reads and writes: what is read meanwhile is not replaced. A call within it shares its list."""
    if _READ.get() is not None:
        yield
        return
    token = _READ.set([])
    try:
        yield
    finally:
        _READ.reset(token)


def note_input(path: str | os.PathLike[str], what: FileRole) -> None:
    """Remember a file that is about to be read, and as what; outside of a guarded call nothing is remembered."""
    read = _READ.get()
    if read is not None:
        with suppress(OSError):  # whoever reads the file says what is wrong with it
            place = Path(path).absolute()
            read.append(_Read(place, what, place.stat()))


def state(path: Path) -> os.stat_result | None:
    """What is there under a name, asked once, for somebody else may take it away meanwhile; None where there is nothing."""
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def absence(path: Path) -> str:
    """What is there in place of a file, in words that follow its name."""
    if path.is_dir():
        return "is a folder: give the name of a file"
    return "is no ordinary file" if path.exists() else "does not exist"


def refuse_input(path: Path, updating: FileRole | None = None) -> None:
    """Refuse to write what was read, unless it was read in order to be written anew as the same thing, such as a ledger."""
    read, found = _READ.get(), state(path)
    if not read or found is None:
        return
    others = {known.what for known in read if known.is_now(found)} - {updating}
    if others:
        raise PramanaError(
            f"{str(path)!r} is read here as the {' and the '.join(sorted(map(str, others)))}: an input is never overwritten, "
            "under whatever name; write to another file"
        )

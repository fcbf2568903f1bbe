"""The one door for writing: a file appears complete or not at all, replaces no input, and others only when that was asked for.

A file in the making has a name of its own, `.NAME.xxxxxxxx.pramana.part`, in the folder where it is to appear, and is locked by
whoever writes it. A process that is killed leaves such a file without its lock; the next write to the folder removes it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from pramana.errors import DataError, PramanaError
from pramana.frames.files import existing, format_of
from pramana.frames.inputs import FileRole, refuse_input, state

_ENDING = ".pramana.part"


def write_text(path: Path, text: str, *, force: bool = False, updating: FileRole | None = None) -> None:
    """A text as UTF-8; see `write_bytes`."""
    write_bytes(path, encoded(text), force=force, updating=updating)


def write_bytes(
    path: Path, content: bytes, *, force: bool = False, private: bool = False, updating: FileRole | None = None
) -> None:
    """A file that appears complete or not at all, even when the disk fills up or the process dies; options as in `pending`."""
    try:
        with pending(path, force=force, private=private, updating=updating) as part:
            part.fill(content)
            publish(part)
    except OSError as error:
        raise _unwritten(path, error) from None


def encoded(text: str) -> bytes:
    """Text as UTF-8. Half a character, as a name in another encoding leaves it, cannot be written."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise PramanaError(
            "a name, mark or value holds half a character (a lone surrogate), which no file can hold: write it in UTF-8"
        ) from None


def check_target(path: Path, *, force: bool, updating: FileRole | None = None) -> None:
    """Refuse what cannot or must not be written; to be called before any work is done, and again by the door itself."""
    if not path.parent.is_dir():
        raise PramanaError(f"folder {str(path.parent)!r} does not exist: create it first")
    found = state(path)
    if "\0" in str(path) or not _can_be_spelled(path):
        raise PramanaError(f"{str(path)!r} is no name of a file: it holds a null, or half a character")
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise PramanaError(f"{str(path)!r} is a folder: give the name of a file in it")
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise PramanaError(f"{str(path)!r} is a device or a pipe, which would be replaced: give the name of a file")
    refuse_input(path, updating)
    if os.path.lexists(path) and not force and updating is None:  # a broken link counts as a file too
        raise _exists(path)


def _can_be_spelled(path: Path) -> bool:
    try:
        return bool(os.fsencode(path))
    except UnicodeEncodeError:
        return False


def check_paths(source: Path, target: Path, *, force: bool) -> None:
    """What a release asks of its two files."""
    if (existing(source), format_of(target)) == ("parquet", "csv"):
        raise DataError(
            f"{source.name!r} is Parquet and {target.name!r} would be text, which has no types: release it as Parquet, or convert "
            "the source to CSV first"
        )
    check_target(target, force=force)


def refuse_same(paths: Sequence[Path]) -> None:
    """What one command writes are different files, under whatever names, whether they exist already or not."""
    known: dict[object, Path] = {}
    for path in paths:
        found = state(path)
        one = path.resolve() if found is None else (found.st_dev, found.st_ino)
        if one in known:
            raise PramanaError(
                f"{str(known[one])!r} and {str(path)!r} are one file, and two are to be written: rename one"
            )
        known[one] = path


@dataclass(frozen=True)
class PendingFile:
    """A file in the making, locked; `force` and `updating` say what it may replace when it is published."""

    path: Path
    target: Path
    handle: int
    force: bool
    updating: FileRole | None

    def open(self) -> BinaryIO:
        """A file to write into, from the beginning; it must be closed before the part is settled."""
        os.ftruncate(self.handle, 0)
        os.lseek(self.handle, 0, os.SEEK_SET)
        return os.fdopen(os.dup(self.handle), "wb")

    def fill(self, content: bytes) -> None:
        """The whole content, on the disk."""
        with self.open() as file:
            file.write(content)
        self.settle()

    def settle(self) -> None:
        """What was written is on the disk, not only in memory."""
        os.fsync(self.handle)


@contextmanager
def pending(
    target: Path, *, force: bool = False, private: bool = False, updating: FileRole | None = None
) -> Iterator[PendingFile]:
    """A file in the making, gone at the end unless it was published.

    Parameters
    ----------
    force : replace a file of that name, unless it is an input of the command.
    private : for its owner alone (0600); else the umask decides who may read it.
    updating : the file is an input of this kind, read in order to be written anew.
    """
    check_target(target, force=force, updating=updating)
    _remove_leftovers(target.parent)
    path, handle = _claimed(target, 0o600 if private else 0o666)
    try:
        yield PendingFile(path, target, handle, force, updating)
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)  # and with it the lock, last: until now nobody takes the file for a leftover


def publish(*parts: PendingFile) -> None:
    """The parts appear under their names, in this order, all or none: what they replaced comes back when one of them fails.

    Whatever needs room on the disk is there before the first name changes.
    """
    for part in parts:
        check_target(part.target, force=part.force, updating=part.updating)
    with ExitStack() as stack:
        earlier = [stack.enter_context(_kept(part.target)) for part in parts[:-1]]
        done: list[PendingFile] = []
        try:
            for part in parts:
                _appear(part)
                done.append(part)
        except BaseException:
            for part, old in reversed(list(zip(done, earlier, strict=False))):
                if old is None:
                    part.target.unlink()
                else:
                    old.replace(part.target)
            raise
    for folder in {part.target.parent for part in parts}:
        _synchronize(folder)


def _appear(part: PendingFile) -> None:
    """Rename, or link where nothing may be replaced: of several processes that came this far, one makes the name."""
    if part.force or part.updating is not None:
        part.path.replace(part.target)
        return
    try:
        part.target.hardlink_to(part.path)
    except FileExistsError:
        raise _exists(part.target) from None
    except OSError:  # a file system without links
        check_target(part.target, force=False)
        part.path.rename(part.target)


@dataclass(frozen=True)
class PendingFolder:
    """A folder in the making, locked, whose files are put into `path`; with `force` it may replace another."""

    path: Path
    target: Path
    force: bool


@contextmanager
def pending_folder(target: Path, *, force: bool = False) -> Iterator[PendingFolder]:
    """A folder in the making beside its place, gone at the end unless it was published. Only those who hold its lock fill it."""
    check_folder(target, force=force)
    _remove_leftovers(target.parent)
    path, handle = _claimed_folder(target)
    try:
        yield PendingFolder(path, target, force)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def check_folder(target: Path, *, force: bool) -> None:
    """Refuse a folder that cannot or must not be written as a whole: an empty one may be there, a full one with `force`."""
    if target.name in ("", ".."):
        raise PramanaError(f"{str(target)!r} has no name of its own: give the folder to be written by its name")
    if not target.parent.is_dir():
        raise PramanaError(f"folder {str(target.parent)!r} does not exist: create it first")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        what = "a link" if target.is_symlink() else "a file"
        raise PramanaError(f"{str(target)!r} is {what}, and a folder is to be written: give the name of a folder")
    held = sorted(target.rglob("*")) if target.is_dir() else []
    for path in held:
        refuse_input(path, "description")  # that of an earlier release is read in order to be replaced
    if held and not force:
        raise _exists(target)


def publish_folder(part: PendingFolder) -> None:
    """The folder appears under its name with all that is in it; one that it replaces is there until that moment."""
    check_folder(part.target, force=part.force)
    _synchronize(part.path)
    try:
        part.path.rename(part.target)  # in place of nothing, or of an empty folder
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not part.force:
            raise _exists(part.target) from None
        _exchange(part.path, part.target)
    _synchronize(part.target.parent)


def _exchange(one: Path, other: Path) -> None:
    """Two folders change their names, at once where the system can do that."""
    import ctypes

    with suppress(AttributeError):  # not everywhere
        if ctypes.CDLL(None).renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
            return
    aside = _part_name(other)
    other.rename(aside)
    one.rename(other)
    aside.rename(one)


_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""


@contextmanager
def _kept(path: Path) -> Iterator[Path | None]:
    """A second name of a file as it is now, by which it can be put back; None where there is no file."""
    if not path.is_file():
        yield None
        return
    second, handle = _part_name(path), os.open(path, os.O_RDONLY)
    try:
        _lock(handle, wait=False)  # or the second name would pass for a leftover
        try:
            second.hardlink_to(path)
        except OSError:  # a file system without links
            shutil.copy2(path, second)
        yield second
    finally:
        second.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def growing(path: Path, *, updating: FileRole) -> Iterator[Callable[[str], None]]:
    """A private file that only grows, locked meanwhile: yields a function that adds a line, on the disk when it returns.

    The lines are taken back when the disk is full, and when whatever else is done meanwhile fails. Whoever interrupts it may do so
    when all is done already: then a whole line stays, for an entry too many does no harm and one too few does.
    """
    check_target(path, force=True, updating=updating)
    path = path.resolve()
    new = not path.exists()
    handle = _locked_file(path)
    whole = before = os.fstat(handle).st_size

    def add(line: str) -> None:
        nonlocal whole
        _add_line(handle, path, line)
        whole = os.fstat(handle).st_size

    try:
        yield add
    except BaseException as error:
        os.ftruncate(handle, before if isinstance(error, Exception) else whole)
        if new and not os.fstat(handle).st_size:
            path.unlink()
        raise
    finally:
        os.close(handle)


def _locked_file(path: Path) -> int:
    """The file opened for appending, and locked; one that somebody took away while we waited is opened anew."""
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            _lock(handle)
        except OSError as error:
            raise _unwritten(path, error) from None
        if _is_named(handle, path):
            return handle
        os.close(handle)


def _add_line(handle: int, path: Path, line: str) -> None:
    size = os.fstat(handle).st_size
    unfinished = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    text = encoded("\n" * unfinished + line + "\n")
    try:
        while text:
            text = text[os.write(handle, text) :]
        os.fsync(handle)
    except OSError as error:
        raise _unwritten(path, error) from None


def scratch(folder: Path) -> BinaryIO:
    """A file without a name, for its owner alone, which vanishes when it is closed or the process dies."""
    return cast(BinaryIO, tempfile.TemporaryFile(dir=folder))


def remove(path: Path) -> None:
    """Take away a file of our own, if it is there."""
    refuse_input(path)
    path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Folder:
    """A folder for the files of one command, made where it is not there; existing files are replaced only with `force`."""

    path: Path
    force: bool = False

    def check(self, *names: str) -> None:
        """Make the folder, and refuse what could not be written into it."""
        make_folder(self.path)
        for name in names:
            check_target(self.path / name, force=self.force)

    def text(self, name: str, text: str) -> Path:
        return self.bytes(name, encoded(text))

    def bytes(self, name: str, content: bytes) -> Path:
        self.check(name)
        write_bytes(self.path / name, content, force=self.force)
        return self.path / name


def make_folder(path: Path) -> None:
    """A folder, with those around it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PramanaError(f"folder {str(path)!r} cannot be created: {error.strerror}") from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time changes the description of a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(digests: Iterable[str]) -> str:
    """One digest for several files, whatever their names and their order: that of the file itself where there is one."""
    listed = sorted(digests)
    return listed[0] if len(listed) == 1 else hashlib.sha256("\n".join(listed).encode()).hexdigest()


def _exists(path: Path) -> PramanaError:
    return PramanaError(f"{str(path)!r} exists: use another name, or force=True to replace it")


def _unwritten(path: Path, error: OSError) -> PramanaError:
    return PramanaError(
        f"{str(path)!r} could not be written: {error.strerror or type(error).__name__}; nothing was changed"
    )


def _part_name(target: Path) -> Path:
    return target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}{_ENDING}")


def _claimed(target: Path, mode: int) -> tuple[Path, int]:
    """A new file in the target's folder, locked; one that was taken for a leftover before it was locked is made anew."""
    while True:
        path = _part_name(target)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            raise PramanaError(f"{str(target)!r} cannot be written ({error.strerror}): give another folder") from None
        with suppress(OSError):  # a file system without locks: nobody can take the file for a leftover there
            _lock(handle)
        if _is_named(handle, path):
            return path, handle
        os.close(handle)


def _claimed_folder(target: Path) -> tuple[Path, int]:
    """A new folder beside the target, locked; one that was taken for a leftover before it was locked is made anew."""
    while True:
        path = _part_name(target)
        try:
            path.mkdir()
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise PramanaError(f"{str(target)!r} cannot be written ({error.strerror}): give another folder") from None
        with suppress(OSError):  # a file system without locks: nobody can take the folder for a leftover there
            _lock(handle)
        if _is_named(handle, path):
            return path, handle
        os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    """Parts of killed processes: nobody holds their lock."""
    for path in folder.glob(f".*{_ENDING}"):
        with suppress(OSError):  # not ours to remove, or gone by now
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _lock(handle, wait=False):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(handle)


def _lock(handle: int, *, wait: bool = True) -> bool:
    """Whether the lock is ours now."""
    try:
        import fcntl
    except ImportError:  # not on Windows, where this package is untested
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _synchronize(folder: Path) -> None:
    """The names in a folder are on the disk too, where the file system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

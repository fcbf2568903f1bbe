"""Files that appear complete or not at all, beside others that stay as they are."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pramana.errors import DataError, PramanaError
from pramana.frames.files import existing, format_of


def write_text(path: Path, text: str) -> None:
    """A file that appears complete or not at all, even when the disk fills up or the process dies."""
    if not path.parent.is_dir():
        raise PramanaError(f"folder {str(path.parent)!r} does not exist: create it first")
    if path.is_dir():
        raise PramanaError(f"{str(path)!r} is a folder: give the name of a file in it")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise PramanaError(f"{str(path)!r} cannot be written ({error.strerror}): give another folder") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_paths(source: Path, target: Path, *, force: bool) -> None:
    """Refuse to touch the input, under whatever name, and to replace a file without being asked."""
    if (existing(source), format_of(target)) == ("parquet", "csv"):
        raise DataError(
            f"{source.name!r} is Parquet and {target.name!r} would be text, which has no types: release it as Parquet, or convert "
            "the source to CSV first"
        )
    if not target.parent.is_dir():
        raise PramanaError(f"folder {str(target.parent)!r} does not exist: create it first")
    if target.is_dir():
        raise PramanaError(f"{str(target)!r} is a folder: give the name of a file in it")
    if target.resolve() == source.resolve() or (target.exists() and target.samefile(source)):
        raise PramanaError(f"{str(target)!r} is the confidential file itself: the input is never overwritten")
    refuse_existing([target], force=force)


def refuse_existing(paths: list[Path], *, force: bool) -> None:
    """A broken link counts as a file too."""
    for path in paths:
        if os.path.lexists(path) and not force:
            raise PramanaError(f"{str(path)!r} exists: use another name, or force to replace it")


@contextmanager
def pending(target: Path) -> Iterator[Path]:
    """A temporary name in the target's folder, gone at the end unless it was published."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def publish(temporary: Path, target: Path, *, private: bool = False) -> None:
    """Rename; the name changes on the disk before this returns."""
    temporary.chmod(0o600 if private else 0o644)
    temporary.replace(target)
    _synchronize(target.parent)


def settle(path: Path) -> None:
    """A file's content on the disk, not only in memory."""
    _synchronize(path)


def _synchronize(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time changes the description of a folder."""
    try:
        import fcntl
    except ImportError:  # not on Windows, where this package is untested
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

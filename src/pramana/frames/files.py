"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pramana.errors import PramanaError


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

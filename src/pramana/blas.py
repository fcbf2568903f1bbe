"""How many threads: one for each core, with one of BLAS each.

Matrix products that each wake further threads wait for one another, and those of a long matrix with few columns cannot be shared out, while
the further threads keep their cores busy with waiting: for few columns BLAS has one thread in any case.

NumPy's and SciPy's wheels bring an OpenBLAS each, whose number of threads is a setting of the whole process; it is changed while our
threads run and put back afterwards. Where another BLAS is installed, nothing is changed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

SUFFIXES = ("64_", "")
"""Of the functions of a library with long and with short integers."""
FEW = 128
"""Columns up to which one thread is taken: on two cores as on sixteen, further ones make few regressions of 20 to 100 columns faster, by a sixth
at most, and take up to twelve times the processor time. A product of all columns of a block of two million numbers takes it less than 16 ms."""


def cores() -> int:
    """The processors that this process may use, which a cluster's scheduler may have made fewer than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass
class _Cap:
    """The callers that want one thread now, and the settings to put back when the last of them is done."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    callers: int = 0
    before: list[tuple[Callable[[int], None], int]] = field(default_factory=list)

    def enter(self) -> None:
        with self.lock:
            self.callers += 1
            if self.callers > 1:
                return
            for read, write in _libraries():
                self.before.append((write, read()))
                write(1)

    def leave(self) -> None:
        with self.lock:
            self.callers -= 1
            while not self.callers and self.before:
                write, threads = self.before.pop()
                write(threads)


_CAP = _Cap()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products inside use the thread that asks for them, in all threads of the process."""
    _CAP.enter()
    try:
        yield
    finally:
        _CAP.leave()


def sparing(columns: int) -> AbstractContextManager[None]:
    """One thread for work on matrices of so many columns where they are few; elsewhere as many as the caller has set."""
    return one_blas_thread() if columns <= FEW else nullcontext()


_KNOWN: dict[Path, tuple[Callable[[], int], Callable[[int], None]]] = {}
"""Libraries that were found in use: they stay so, and need not be looked for again."""


def _libraries() -> Iterator[tuple[Callable[[], int], Callable[[int], None]]]:
    """How to read and to set the number of threads of each library that is in use."""
    for file in _files():
        found = _KNOWN.get(file) or _loaded(file)
        if found is not None:
            _KNOWN[file] = found
            yield found


@cache
def _files() -> tuple[Path, ...]:
    """Where the wheels of NumPy and SciPy keep their OpenBLAS; nothing where they were built otherwise."""
    found: list[Path] = []
    for name in ("numpy", "scipy"):
        spec = importlib.util.find_spec(name)
        for home in map(Path, (spec and spec.submodule_search_locations) or ()):
            folders = (home.parent / f"{name}.libs", home / ".dylibs")
            found += [file for folder in folders for file in sorted(folder.glob("*openblas*"))]
    return tuple(found)


def _loaded(file: Path) -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """How to read and to set the number of threads of a library; None where it is not in use, or does not tell."""
    try:  # what is not loaded stays so
        library: Any = ctypes.CDLL(str(file), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except (OSError, AttributeError):  # Windows knows no such mode
        return None
    for suffix in SUFFIXES:
        try:
            read = library[f"scipy_openblas_get_num_threads{suffix}"]
            write = library[f"scipy_openblas_set_num_threads{suffix}"]
        except AttributeError:
            continue
        write.restype = None
        return read, write
    return None

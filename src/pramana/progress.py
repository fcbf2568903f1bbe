"""How far long work is, for whoever watches it: bars on stderr, for work that takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Timer, current_thread, main_thread
from typing import Any

Tell = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

PATIENCE = 2.0
"""Seconds after which a bar shows how far the work is."""


def silent(done: int, total: int) -> None:
    """Nobody watches."""


def part_of(tell: Tell, index: int, parts: int) -> Tell:
    """The progress of one of several equal parts, as progress of the whole.

    >>> seen = []
    >>> part_of(lambda done, total: seen.append(done / total), 1, 4)(5, 10)
    >>> seen
    [0.375]
    """
    return lambda done, total: tell(index * total + done, parts * total)


@dataclass(frozen=True)
class _Bar:
    """A bar that is shown, or waits to be."""

    shown: Any
    task: Any
    title: str

    def tell(self, done: int, total: int) -> None:
        self.shown.update(self.task, completed=done, total=total or None)

    def titled(self, title: str) -> None:
        """Another piece of the same work, which begins anew."""
        self.shown.reset(self.task, description=title, total=None)


_OUTER: ContextVar[_Bar | None] = ContextVar("the bar of the work that this is a part of", default=None)


@contextmanager
def bar(title: str, *, counted: bool = False, unit: str = "", unless_within: bool = False) -> Iterator[Tell]:
    """A bar from the moment that the work has taken `PATIENCE`; none where stderr is not a terminal.

    Yields `tell(done, total)`; the bar pulses until it is first called. A part of work that has a bar borrows it.

    Parameters
    ----------
    counted : show the numbers in place of per cent.
    unit : of what is told, so that its rate is shown, such as "rows".
    unless_within : a part of work that has a bar leaves it as it is.
    """
    outer = _OUTER.get()
    if outer is not None and unless_within:
        yield outer.tell
        return
    if outer is not None:
        outer.titled(title)
        try:
            yield outer.tell
        finally:
            outer.titled(outer.title)
        return
    if sys.stderr is None or not sys.stderr.isatty() or current_thread() is not main_thread():
        yield silent
        return
    shown, task = _progress(title, counted, unit)
    begin = Timer(PATIENCE, shown.start)
    begin.daemon = True
    begin.start()
    found = _Bar(shown, task, title)
    token = _OUTER.set(found)
    try:
        yield found.tell
    finally:
        _OUTER.reset(token)
        begin.cancel()
        begin.join()
        shown.stop()


def _progress(title: str, counted: bool, unit: str) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Left(TimeRemainingColumn):
        """The time left, once it can be told."""

        def render(self, task: Task) -> Text:
            return Text.assemble(super().render(task), " left") if task.total else Text()

    class Rate(ProgressColumn):
        """How much is done in a second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed else "")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if counted else TaskProgressColumn(),
        TimeElapsedColumn(),
        Left(),
        *((Rate(),) if unit else ()),
    )
    shown = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    return shown, shown.add_task(title, total=None)

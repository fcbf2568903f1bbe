"""Progress bars on stderr, for work that takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

PATIENCE = 2.0
"""Seconds after which a bar shows how far the work is."""


@contextmanager
def bar(title: str, *, counted: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar from the moment that the work has taken `PATIENCE`; none where stderr is not a terminal.

    Yields `tell(done, total)`; the bar pulses until it is first called. `counted` shows these numbers in place of per cent.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
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

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if counted else TaskProgressColumn(),
        TimeElapsedColumn(),
        Left(),
    )
    shown = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    task = shown.add_task(title, total=None)
    begin = Timer(PATIENCE, shown.start)
    begin.daemon = True
    begin.start()
    try:
        yield lambda done, total: shown.update(task, completed=done, total=total)
    finally:
        begin.cancel()
        begin.join()
        shown.stop()

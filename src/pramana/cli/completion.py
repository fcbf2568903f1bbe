"""What the shell offers on the tab key: columns of the data file, levels of its mechanism, and choices of options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer

QUOTE = "'"


def among(*choices: str) -> Callable[[str], list[str]]:
    """A completion by a list of names; of several divided by commas, the last one."""

    def offered(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{choice}" for choice in choices if choice.startswith(last)]

    return offered


def columns(context: typer.Context, incomplete: str) -> list[str]:
    """Columns of the data file; of a list divided by commas, the last one."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _columns(context) if name.startswith(last)]


def condition(context: typer.Context, incomplete: str) -> list[str]:
    """A condition as far as it is written: a column, or after a comparison a level of it."""
    compared = re.search(rf"(\w+)\s*(?:==|!=)\s*{QUOTE}?([^{QUOTE}]*)$", incomplete)
    if compared is not None:
        begun = incomplete[: len(incomplete) - len(compared[2])].removesuffix(QUOTE)
        return [
            f"{begun}{QUOTE}{level}{QUOTE}" for level in _levels(context, compared[1]) if level.startswith(compared[2])
        ]
    word = re.search(r"\w*$", incomplete)
    assert word is not None
    start = incomplete[: word.start()]
    return [f"{start}{name}" for name in _columns(context) if name.startswith(word[0])]


def parameters(incomplete: str) -> list[str]:
    """Parameters by name, in place of a formula."""
    from pramana.formulas.text import PARAMETERS

    return [f"{name}(" for name in PARAMETERS if name.startswith(incomplete)]


def _data(context: typer.Context) -> Path | None:
    """The data file; words before an option that has no value yet are left unread, the file among them."""
    given = context.params.get("data") or context.params.get("source")
    named = given if isinstance(given, list | tuple) else [given]
    words = [*(name for name in named if name is not None), *context.args]
    return next((Path(word) for word in words if Path(word).exists()), None)


def _mechanism(context: typer.Context) -> str:
    words = list(context.parent.args) if context.parent is not None else []
    named = [after for word, after in pairwise(words) if word in ("-m", "--mechanism")]
    return named[-1] if named else context.params.get("mechanism") or "auto"


def _columns(context: typer.Context) -> list[str]:
    """Names in the head of the file; nothing where there is none that can be read, since nobody asked for an error."""
    path = _data(context)
    return [] if path is None else list(_quietly(lambda: _head(path)))


def _head(path: Path) -> list[str]:
    from pramana.frames.sources import source_of

    source = source_of(path, {}, 0.0)  # its head, not all of it
    return [] if source is None else list(source.names)


def _levels(context: typer.Context, column: str) -> list[str]:
    path, named = _data(context), _mechanism(context)
    if path is None or named == "none":
        return []
    return [str(level) for level in _quietly(lambda: _known(path, named, column))]


def _known(path: Any, named: str, column: str) -> Iterable[object]:
    from pramana.mechanism import Mechanism

    return Mechanism.load(path if named == "auto" else named).schema[column].levels or ()


def _quietly(found: Callable[[], Iterable[Any]]) -> Iterable[Any]:
    try:
        return found()
    except Exception:
        return ()

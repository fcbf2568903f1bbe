"""What the commands print and write."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from pramana.errors import PramanaError, printable, suggestion

Force = Annotated[
    bool, typer.Option("--force", help="Replace existing files; one that is read here is never replaced.")
]


def say(text: str, *, err: bool = False) -> None:
    """Print, with what would steer the terminal spelled out: names of columns and files are a stranger's text."""
    typer.echo(printable(text), err=err)


def check_output(
    style: str,
    figure: Path | None = None,
    out: Path | None = None,
    *,
    force: bool = False,
    inputs: Iterable[Path | None] = (),
) -> None:
    """Refuse a wrong format, an impossible figure or a file that must not be written before any work is done."""
    from pramana.frames.inputs import note_input
    from pramana.frames.writing import check_target
    from pramana.render.tables import FORMATS

    if style not in FORMATS:
        raise PramanaError(f"format {style!r} is unknown: {suggestion(style, FORMATS)}")
    if figure is not None and figure.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise PramanaError(f"figure {str(figure)!r} has an unknown ending: use .png, .svg or .pdf")
    for path in inputs:
        if path is not None:
            note_input(path, "data")
    for path in (figure, out):
        if path is not None:
            check_target(path, force=force)


def save_figure(plot: Callable[[], Any], path: Path | None, *, force: bool) -> None:
    """Draw and write a figure where one was asked for, and say so."""
    if path is not None:
        from pramana.frames.writing import write_bytes
        from pramana.render.figures import drawn

        write_bytes(path, drawn(plot(), path.suffix), force=force)
        say(f"wrote {path}", err=True)


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """A warning as one line on stderr, without the line of code that it came from."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for message in (w.message for w in caught if issubclass(w.category, UserWarning)):
                say(f"warning: {message}", err=True)


AllowErrors = Annotated[
    bool, typer.Option("--allow-errors", help="Exit with 0 also where a diagnostic says that the numbers mean nothing.")
]


def leave_on_errors(results: Mapping[str, Any], *, allowed: bool) -> None:
    """Exit code 1, after everything was shown, where a diagnostic of severity "error" says that a result is not to be used."""
    found = [f"{d.code} ({label})" for label, r in results.items() for d in r.diagnostics if d.severity == "error"]
    if found and not allowed:
        say(f"error: {', '.join(found)}: not to be used as it is; --allow-errors exits with 0 all the same", err=True)
        raise typer.Exit(1)

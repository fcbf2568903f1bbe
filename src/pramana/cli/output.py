"""What the commands print and write."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from pramana.cli.completion import among
from pramana.cli.speech import in_the_shell
from pramana.errors import PramanaError, printable, suggestion

Force = Annotated[
    bool, typer.Option("--force", help="Replace existing files; one that is read here is never replaced.")
]


FORMATS = among("text", "json", "csv", "markdown", "latex", "html")
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="text, json, csv, markdown, latex or html.",
        autocompletion=FORMATS,
    ),
]


def say(text: str, *, err: bool = False) -> None:
    """Print, with what would steer the terminal spelled out: names of columns and files are a stranger's text."""
    typer.echo(printable(text), err=err)


def check_output(
    style: str,
    figure: Path | None = None,
    out: Path | None = None,
    *,
    report: Path | None = None,
    force: bool = False,
    inputs: Iterable[Path | None] = (),
) -> None:
    """Refuse a wrong format, an impossible figure or a file that must not be written before any work is done."""
    from pramana.frames.inputs import note_input
    from pramana.frames.writing import check_target, refuse_same
    from pramana.render import tables

    if style not in tables.FORMATS:
        raise PramanaError(f"format {style!r} is unknown: {suggestion(style, tables.FORMATS)}")
    if figure is not None and figure.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise PramanaError(f"figure {str(figure)!r} has an unknown ending: use .png, .svg or .pdf")
    for path in inputs:
        if path is not None:
            note_input(path, "data")
    written = [path for path in (figure, out, report) if path is not None]
    for path in written:
        check_target(path, force=force)
    refuse_same(written)
    if report is not None:
        from pramana.reporting import check_report

        check_report(report, force=force)


def save_figure(plot: Callable[[], Any], path: Path | None, *, force: bool) -> None:
    """Draw and write a figure where one was asked for, and say so."""
    if path is not None:
        from pramana.frames.writing import write_bytes
        from pramana.render.figures import drawn

        write_bytes(path, drawn(plot(), path.suffix), force=force)
        say(f"wrote {path}", err=True)


def save_report(write: Callable[..., Path], path: Path | None, *, force: bool, **options: Any) -> None:
    """Write a report where one was asked for, and say so."""
    if path is not None:
        write(path, command=command_line(), force=force, **options)
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
                say(f"warning: {in_the_shell(str(message))}", err=True)


ReportOption = Annotated[
    Path | None,
    typer.Option("--report", help="Also write one HTML file with tables, figure, methods and this command."),
]


def command_line() -> str:
    """The command as it was typed, to be put into a report. Files are named without their folders, which are nobody's business."""
    return shlex.join(["pramana", *(_without_folder(text) for text in sys.argv[1:])])


def _without_folder(text: str) -> str:
    option, equals, value = text.partition("=") if text.startswith("--") else ("", "", text)
    path = Path(value)
    return f"{option}{equals}{path.name}" if path.name and (path.is_absolute() or path.exists()) else text


AllowErrors = Annotated[
    bool, typer.Option("--allow-errors", help="Exit with 0 also where a diagnostic says that the numbers mean nothing.")
]


def leave_on_errors(results: Mapping[str, Any], *, allowed: bool) -> None:
    """Exit code 1, after everything was shown, where a diagnostic of severity "error" says that a result is not to be used."""
    found = [f"{d.code} ({label})" for label, r in results.items() for d in r.diagnostics if d.severity == "error"]
    if found and not allowed:
        say(f"error: {', '.join(found)}: not to be used as it is; --allow-errors exits with 0 all the same", err=True)
        raise typer.Exit(1)

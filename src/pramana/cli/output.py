"""What the commands print and write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from pramana.errors import PramanaError, suggestion

Force = Annotated[
    bool, typer.Option("--force", help="Replace existing files; one that is read here is never replaced.")
]


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
        typer.echo(f"wrote {path}", err=True)

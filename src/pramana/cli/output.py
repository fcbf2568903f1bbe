"""What the commands print and write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from pramana.errors import PramanaError, suggestion


def check_output(style: str, figure: Path | None = None, out: Path | None = None) -> None:
    """Refuse a wrong format, an impossible figure or a file without a folder before any work is done."""
    from pramana.render.tables import FORMATS

    if style not in FORMATS:
        raise PramanaError(f"format {style!r} is unknown: {suggestion(style, FORMATS)}")
    if figure is not None and figure.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise PramanaError(f"figure {str(figure)!r} has an unknown ending: use .png, .svg or .pdf")
    for path, what in ((figure, "the figure"), (out, f"{str(out)!r}")):
        if path is not None and not path.parent.is_dir():
            raise PramanaError(f"folder {str(path.parent)!r} of {what} does not exist: create it first")


def save_figure(plot: Callable[[], Any], path: Path | None) -> None:
    """Draw and write a figure where one was asked for, and say so."""
    if path is not None:
        plot().savefig(path, dpi=150)
        typer.echo(f"wrote {path}", err=True)

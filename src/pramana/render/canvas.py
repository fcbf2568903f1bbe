"""The figure that pictures are drawn on. This module alone imports matplotlib when it is imported."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


class Canvas(Figure):
    """A matplotlib Figure that a notebook shows as the picture, whether or not pyplot was imported before."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Twice as fine as it is wide on the page, for screens with small pixels; its height follows, also where a page is narrower."""
        return figure_bytes(self, "png", 192), {"width": round(96 * self.get_size_inches()[0])}


def figure_bytes(figure: Any, kind: str, dpi: int) -> bytes:
    """A figure as the content of a file: nothing in it says when or by whom it was drawn, so that equal figures are equal files."""
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    out = BytesIO()
    with mpl.rc_context({"svg.hashsalt": "pramana"}):
        figure.savefig(out, format=kind, dpi=dpi, metadata=undated.get(kind))
    return out.getvalue()

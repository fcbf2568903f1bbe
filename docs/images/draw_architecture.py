"""Draws architecture.svg and architecture.png: the rooms in the order of the import contract, and the flow through them.

Names and order come from `pyproject.toml`, the statements from the docstrings, so that the picture cannot disagree with the
code. Run it in the root of the repository: `python docs/images/draw_architecture.py`.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent

FLOW = {
    "read": ("analysis", "frames"),
    "learn": ("models", "formulas", "parameters"),
    "revert": ("estimators", "mechanism"),
    "sum": ("engines", "estimating", "kernels"),
    "solve": ("inference",),
    "infer": ("inference",),
    "result": ("result",),
    "render": ("render",),
}
"""The steps of a fit, and the rooms that do them."""
FILLS = ("#dbe9f6", "#d5efe3", "#fbe5d6", "#fdf3cf", "#ece1f3", "#ece1f3", "#e3e8ee", "#f6dfe6")
PLAIN = "#f7f7f7"
GREY, INK = "#8a8f98", "#1d2430"
WIDTH, GAP, LINE = 15.0, 0.12, 0.21


def rooms() -> list[list[str]]:
    """The layers of the contract from the top, each a list of rooms."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ][0]
    layers = [layer.replace("|", ":").split(":") for layer in contract["layers"]]
    return [[name.strip().removeprefix("pramana.") for name in layer] for layer in layers]


def statement(room: str) -> str:
    """The first line of the room's docstring."""
    place = ROOT / "src" / "pramana" / room
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    assert docstring, f"{source} says nothing of what belongs in it"
    return docstring.splitlines()[0].replace("`", "")


def fill(room: str) -> str:
    return next((colour for colour, homes in zip(FILLS, FLOW.values(), strict=True) if room in homes), PLAIN)


def box(axes: Any, x: float, y: float, width: float, height: float, colour: str) -> None:
    shape = "round,pad=0,rounding_size=0.07"
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=shape, facecolor=colour, edgecolor=GREY, linewidth=0.8)
    )


def arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=13, color=INK, linewidth=1.1))


def draw_flow(axes: Any, top: float) -> float:
    """The steps in a row; returns where the next thing may begin."""
    axes.text(0, top - 0.1, "What happens in a fit", fontsize=13, weight="bold", color=INK, va="top")
    axes.text(
        WIDTH, top - 0.1, "the rooms that do it stand below each step", fontsize=9.5, color=INK, va="top", ha="right"
    )
    space, height, y = 0.32, 1.3, top - 1.8
    width = (WIDTH - (len(FLOW) - 1) * space) / len(FLOW)
    for k, ((step, homes), colour) in enumerate(zip(FLOW.items(), FILLS, strict=True)):
        x = k * (width + space)
        box(axes, x, y, width, height, colour)
        axes.text(x + width / 2, y + height - 0.1, step, fontsize=12.5, weight="bold", color=INK, ha="center", va="top")
        axes.text(x + width / 2, y + 0.9 - 0.08, "\n".join(homes), fontsize=9.5, color=INK, ha="center", va="top")
        if k:
            arrow(axes, (x - space, y + height / 2), (x, y + height / 2))
    return y - 0.45


def draw_rooms(axes: Any, top: float) -> float:
    """One row a layer, the top one importing from those below."""
    axes.text(0, top, "The rooms of src/pramana", fontsize=13, weight="bold", color=INK, va="top")
    note = "a room may import from the rooms below it, never from those above it"
    axes.text(WIDTH, top, note, fontsize=9.5, color=INK, va="top", ha="right")
    y = top - 0.42
    for layer in rooms():
        width = (WIDTH - (len(layer) - 1) * GAP) / len(layer)
        stacked = len(layer) > 1
        lines = [textwrap.wrap(statement(r), int(width * 12.6) if stacked else 160) for r in layer]
        height = 0.2 + LINE * (max(map(len, lines)) + stacked)
        y -= height
        for k, (room, words) in enumerate(zip(layer, lines, strict=True)):
            x = k * (width + GAP)
            box(axes, x, y, width, height, fill(room))
            axes.text(x + 0.12, y + height - 0.1, room, fontsize=10.5, weight="bold", color=INK, va="top")
            below = y + height - 0.1 - LINE * stacked
            axes.text(
                x + (0.12 if stacked else 1.55),
                below,
                "\n".join(words),
                fontsize=9,
                color=INK,
                va="top",
                linespacing=1.25,
            )
        y -= GAP
    return y


def main() -> None:
    mpl.rcParams.update({"svg.hashsalt": "architecture", "font.family": "DejaVu Sans"})
    figure = Figure()
    axes = figure.add_axes((0.015, 0.01, 0.97, 0.98))
    bottom = draw_rooms(axes, draw_flow(axes, 0.0))
    figure.set_size_inches(WIDTH, -0.9 * bottom)  # a line takes the same room however many there are
    axes.set_xlim(-0.05, WIDTH + 0.05)
    axes.set_ylim(bottom - 0.05, 0.0)
    axes.set_axis_off()
    figure.savefig(HERE / "architecture.svg", metadata={"Date": None})
    figure.savefig(HERE / "architecture.png", dpi=110)


if __name__ == "__main__":
    main()

"""Pictures of simulation studies: lines over sample sizes, heat maps over transition probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.render.figures import MARKERS, PALETTE

Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Label ↦ (x, y)."""


def line_grid(
    panels: Sequence[Sequence[Lines]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    x_label: str,
    zero: Sequence[bool],
) -> Any:
    """Panels of lines: `panels[row][column]`; rows share a y-axis label, all share the legend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.35 * len(columns) + 1, 2.6 * len(rows) + 0.7), layout="constrained")
    axes = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey="row")
    for i, row in enumerate(panels):
        for j, lines in enumerate(row):
            _draw_lines(axes[i][j], lines)
            if zero[i]:
                axes[i][j].axhline(0.0, color="black", linewidth=0.6, linestyle=":")
            if i == 0:
                axes[i][j].set_title(columns[j], fontsize=9)
            if i == len(rows) - 1:
                axes[i][j].set_xlabel(x_label, fontsize=9)
        axes[i][0].set_ylabel(rows[i])
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure


def _draw_lines(axes: Any, lines: Lines) -> None:
    for k, (label, (x, y)) in enumerate(lines.items()):
        axes.plot(x, y, marker=MARKERS[k % 6], color=PALETTE[k % 6], markersize=3.5, linewidth=1.1, label=label)
    axes.tick_params(labelsize=8)
    axes.grid(color="#e8e8e8", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def heat_maps(maps: Mapping[str, Float], ticks: Sequence[float], *, x_label: str, y_label: str, title: str) -> Any:
    """One map a parameter, values by (x, y), with a common colour scale that is white at 1."""
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(maps) + 0.8, 4.4), layout="constrained")
    axes = figure.subplots(1, len(maps), squeeze=False)[0]
    low = min(float(np.min(m)) for m in maps.values())
    high = max(float(np.max(m)) for m in maps.values())
    norm = TwoSlopeNorm(1.0, vmin=min(low, 0.95), vmax=max(high, 1.05))
    extent = (ticks[0] - 0.005, ticks[-1] + 0.005, ticks[0] - 0.005, ticks[-1] + 0.005)
    for one, (name, values) in zip(axes, maps.items(), strict=True):
        image = one.imshow(values.T, origin="lower", cmap="RdBu", norm=norm, extent=extent, aspect="equal")
        one.set_title(name, fontsize=10)
        one.set_xlabel(x_label)
        one.set_ylabel(y_label)
    figure.colorbar(image, ax=list(axes), shrink=0.85, label="relative efficiency")
    figure.suptitle(title, fontsize=11)
    return figure

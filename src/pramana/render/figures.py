"""Pictures of estimates with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pramana.arrays import Float

PALETTE = ("#1b6ca8", "#d1495b", "#7a7a7a", "#2e8b57", "#8e5ea2", "#c77f1a")
MARKERS = ("o", "s", "D", "^", "v", "P")


@dataclass(frozen=True)
class Series:
    """One estimator's points and intervals, (d,) each."""

    label: str
    estimate: Float
    low: Float
    high: Float


def coefficients(
    terms: Sequence[str], series: Sequence[Series], *, title: str = "", reference: float | None = 0.0
) -> Any:
    """Dots with intervals, one row a term, several series side by side. Returns a matplotlib Figure."""
    from matplotlib.figure import Figure

    height = 1.3 + max(len(terms) * (0.28 + 0.17 * len(series)), 0.8)
    figure = Figure(figsize=(7.2, min(height, 40)), layout="constrained")
    axes = figure.add_subplot()
    places = np.arange(len(terms))[::-1].astype(float)
    shifts = (np.arange(len(series)) - (len(series) - 1) / 2) * min(0.7 / len(series), 0.22)
    for k, one in enumerate(series):
        y = places - shifts[k]
        colour, marker = PALETTE[k % len(PALETTE)], MARKERS[k % len(MARKERS)]
        bounded = np.isfinite(one.low) & np.isfinite(one.high)
        axes.hlines(y[bounded], one.low[bounded], one.high[bounded], color=colour, linewidth=1.6)
        axes.plot(one.estimate, y, marker, color=colour, markersize=5, label=one.label)
    if reference is not None:
        axes.axvline(reference, color="black", linewidth=0.7, linestyle=":")
    axes.set_yticks(places, list(terms))
    axes.set_ylim(-0.6, len(terms) - 0.4)
    axes.set_xlabel("estimate with interval")
    axes.set_title(title, fontsize=11, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    if len(series) > 1:
        figure.legend(loc="outside lower center", ncols=min(len(series), 3), frameon=False, fontsize=9)
    return figure

"""Pictures: estimates with their intervals, risk against utility, and simulation studies. Each returns a matplotlib Figure."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from pramana.arrays import Float

PALETTE = ("#1b6ca8", "#d1495b", "#7a7a7a", "#2e8b57", "#8e5ea2", "#c77f1a")
MARKERS = ("o", "s", "D", "^", "v", "P")
Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Label ↦ (x, y)."""


def drawn(figure: Any, ending: str) -> bytes:
    """A figure as the content of a file whose name has this ending (.png, .svg or .pdf), without a date inside."""
    kind, content = ending.lower().removeprefix("."), io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(content, format=kind, dpi=150, metadata=undated.get(kind))
    return content.getvalue()


@dataclass(frozen=True)
class Series:
    """One estimator's points and intervals, (d,) each."""

    label: str
    estimate: Float
    low: Float
    high: Float


@dataclass(frozen=True)
class DotPanel:
    """Dots with intervals, one row a term, several series side by side.

    Attributes
    ----------
    reference : a dotted line there. band : a shaded range of what is wanted.
    """

    series: Sequence[Series]
    x_label: str
    reference: float | None = None
    band: tuple[float, float] | None = None


def coefficients(
    terms: Sequence[str], series: Sequence[Series], *, title: str = "", reference: float | None = 0.0
) -> Any:
    """Dots with intervals, one row a term, several series side by side."""
    return dot_panels(terms, [DotPanel(series, "estimate with interval", reference)], title=title)


def dot_panels(terms: Sequence[str], panels: Sequence[DotPanel], *, title: str = "") -> Any:
    """Panels that share their terms, and the names of their series."""
    from matplotlib.figure import Figure

    most = max((panel.series for panel in panels), key=len)
    height = 1.3 + max(len(terms) * (0.28 + 0.17 * len(most)), 0.8)
    figure = Figure(figsize=(7.2 + 3.4 * (len(panels) - 1), min(height, 40)), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for one, panel in zip(axes, panels, strict=True):
        _draw_dots(one, panel, len(terms))
    axes[0].set_yticks(np.arange(len(terms))[::-1], list(terms))
    axes[0].set_ylim(-0.6, len(terms) - 0.4)
    axes[0].set_title(title, fontsize=11, loc="left")
    if len(most) > 1:
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(most), 3), frameon=False, fontsize=9)
    return figure


def _draw_dots(axes: Any, panel: DotPanel, count: int) -> None:
    series = panel.series
    places = np.arange(count)[::-1].astype(float)
    shifts = (np.arange(len(series)) - (len(series) - 1) / 2) * min(0.7 / len(series), 0.22)
    for k, one in enumerate(series):
        y = places - shifts[k]
        colour, marker = PALETTE[k % len(PALETTE)], MARKERS[k % len(MARKERS)]
        bounded = np.isfinite(one.low) & np.isfinite(one.high)
        axes.hlines(y[bounded], one.low[bounded], one.high[bounded], color=colour, linewidth=1.6)
        axes.plot(one.estimate, y, marker, color=colour, markersize=5, label=one.label)
    if panel.reference is not None:
        axes.axvline(panel.reference, color="black", linewidth=0.7, linestyle=":")
    if panel.band is not None:
        axes.axvspan(*panel.band, color="#e9eef3", zorder=0)
    axes.set_xlabel(panel.x_label)
    _bare(axes)
    axes.grid(axis="x", color="#e4e4e4", linewidth=0.6)


def heat_map(chances: Float, levels: Sequence[str], *, title: str = "") -> Any:
    """A transition matrix (released, true): the darker, the likelier; a white cell is impossible. `levels` are named where they fit."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, PowerNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.8), layout="constrained")
    axes = figure.add_subplot()
    shown = np.ma.masked_equal(chances, 0.0)
    shades = ListedColormap(colormaps["Blues"](np.linspace(0.12, 1.0, 256)))  # the palest differs from white
    image = axes.imshow(shown, cmap=shades, norm=PowerNorm(0.4, 0.0, max(float(chances.max()), 1e-12)))
    size = len(chances)
    named = len(levels) == size <= 40
    places = np.arange(size) if named else np.array([0, size - 1])
    names = [_short(v) for v in (levels if named else (levels[0], levels[-1]))]
    axes.set_xticks(places, names, rotation=90 if named else 0, fontsize=6 if named else 8, parse_math=False)
    axes.set_yticks(places, names, fontsize=6 if named else 8, parse_math=False)
    axes.set_xlabel("true level")
    axes.set_ylabel("released level")
    axes.set_title(_short(title, 60), fontsize=10, loc="left", parse_math=False)
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="probability", shrink=0.8)
    return figure


def picture(figure: Any) -> bytes:
    """A figure as PNG, without a word about who drew it."""
    out = BytesIO()
    figure.savefig(out, format="png", dpi=130, metadata={"Software": None})
    return out.getvalue()


def _short(text: str, most: int = 14) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _bare(axes: Any) -> None:
    """No box around the panel, and the grid behind what is drawn."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)


@dataclass(frozen=True)
class DrawnLine:
    """One measure of risk along a grid of designs: a point a keep probability, and the chosen one."""

    label: str
    risk: Sequence[float]
    chosen: float | None
    reference: tuple[float, str] | None = None


def risk_utility(
    curves: Sequence[DrawnLine],
    utility: Sequence[float],
    keeps: Sequence[float],
    *,
    chosen: float | None,
    chosen_label: str,
    y_label: str,
    title: str,
) -> Any:
    """Utility over risk, a panel a measure of risk."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(curves) + 0.8, 4.3), layout="constrained")
    panels = figure.subplots(1, len(curves), squeeze=False, sharey=True)[0]
    for axes, curve in zip(panels, curves, strict=True):
        _draw_curve(axes, curve, utility, keeps, chosen, chosen_label)
    panels[0].set_ylabel(y_label)
    figure.suptitle(title, fontsize=11, x=0.02, ha="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure


def _draw_curve(
    axes: Any, curve: DrawnLine, utility: Sequence[float], keeps: Sequence[float], chosen: float | None, label: str
) -> None:
    axes.plot(
        curve.risk, utility, "-o", color=PALETTE[0], markersize=4, linewidth=1.2, label="keep probability on the grid"
    )
    for k, (x, y, keep) in enumerate(zip(curve.risk, utility, keeps, strict=True)):
        if k % max(len(keeps) // 6, 1) == 0 or k == len(keeps) - 1:
            axes.annotate(
                f"{keep:.2g}",
                (x, y),
                textcoords="offset points",
                xytext=(-6, 4),
                ha="right",
                fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
            )
    if chosen is not None and curve.chosen is not None:
        axes.plot([curve.chosen], [chosen], "D", color=PALETTE[1], markersize=8, label=label, zorder=3)
    if curve.reference is not None:
        _mark_limit(axes, *curve.reference, left=curve.reference[0] <= min(curve.risk))
    axes.set_xlabel(curve.label)
    axes.set_ylim(0, 1.05)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _place: f"{100 * value:.3g} %")
    axes.margins(x=0.12)
    axes.grid(color="#e8e8e8", linewidth=0.5)
    _bare(axes)


def _mark_limit(axes: Any, place: float, text: str, *, left: bool) -> None:
    """A dashed line at a limit of the risk, named where the curve is not."""
    axes.axvline(place, color="#7a7a7a", linewidth=0.8, linestyle="--")
    axes.annotate(
        text,
        (place, 0.97 if left else 0.03),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        xytext=(5, 0),
        ha="left",
        va="top" if left else "bottom",
        rotation=90,
        fontsize=8,
        color="#555555",
    )


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
    _bare(axes)


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


@dataclass(frozen=True)
class Ribbon:
    """A range of estimates along x, and the range of their limits around it."""

    lowest: Float
    highest: Float
    low: Float
    high: Float


def ribbons(x: Float, panels: Mapping[str, Ribbon], *, x_label: str, title: str = "") -> Any:
    """Bands along x, a panel a term."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(panels) + 0.8, 3.8), layout="constrained")
    for axes, (name, ribbon) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        axes.fill_between(x, ribbon.low, ribbon.high, color=PALETTE[0], alpha=0.15, linewidth=0, label="intervals")
        axes.fill_between(x, ribbon.lowest, ribbon.highest, color=PALETTE[0], alpha=0.45, label="estimates")
        axes.set_title(_short(name, 40), fontsize=10, loc="left", parse_math=False)
        axes.set_xlabel(x_label)
        axes.grid(color="#e8e8e8", linewidth=0.5)
        _bare(axes)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11, x=0.02, ha="left")
    return figure

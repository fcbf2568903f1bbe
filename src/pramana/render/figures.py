"""Pictures: estimates with their intervals, risk against utility, and simulation studies.

Each returns a matplotlib Figure; those with `ax` draw into the axes that they are given instead, and return these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import PramanaError
from pramana.render.tables import visible

LOOKS = {
    "true data": ("#000000", "o"),
    "reversion": ("#0072B2", "s"),
    "naive": ("#D55E00", "D"),
    "model-dependent (logit)": ("#009E73", "^"),
    "model-dependent (probit)": ("#CC79A7", "v"),
    "model-dependent (logit, clipped)": ("#44AA99", "P"),
    "model-dependent (logit, no intercept)": ("#CC79A7", "v"),
    "likelihood": ("#E69F00", "X"),
    "stabilized": ("#56B4E9", "p"),
    "one step": ("#999999", "<"),
    "forward correction": ("#882255", ">"),
    "backward correction": ("#332288", "h"),
    "conditional score": ("#999933", "*"),
    "validated": ("#117733", "d"),
}
"""Colour and marker of each method, in every picture. They can be told apart by people who do not see all colours, and in print without any."""
ALIASES = {
    "proposed": "reversion",
    "Model 1": "model-dependent (logit)",
    "Model 2": "model-dependent (logit, no intercept)",
    "Model 1 clipped": "model-dependent (logit, clipped)",
}
"""What the paper calls them."""
OTHERS = (("#0072B2", "s"), ("#E69F00", "o"), ("#009E73", "^"), ("#CC79A7", "D"), ("#56B4E9", "v"), ("#D55E00", "P"), ("#666666", "X"), ("#882255", "*"))  # fmt: skip
"""What is no method takes the first of these that is not in the picture."""
ORDERED = (("#440154", "o", "-"), ("#21918c", "s", "--"), ("#b8a10f", "^", ":"))
"""Of lines that have an order, such as levels of noise: dark to light."""
GRID = "#e6e6e6"


def look_of(name: str) -> tuple[str, str] | None:
    """Of a method; None where the name is no method's."""
    return LOOKS.get(ALIASES.get(name, name))


def looks(names: Sequence[str]) -> list[tuple[str, str]]:
    """Colour and marker of each name: a method's own, or one that is free.

    >>> looks(["naive", "my model"])
    [('#D55E00', 'D'), ('#0072B2', 's')]
    """
    known = [look_of(name) for name in names]
    taken = {look[0] for look in known if look}
    free = [look for look in OTHERS if look[0] not in taken] or list(OTHERS)
    places = iter(range(len(names)))
    return [look or free[next(places) % len(free)] for look in known]


def effects(terms: Sequence[str], *, intercept: bool) -> list[str]:
    """The terms of a picture: without intercepts, whose scale is seldom that of the others, unless they are asked for or all there is.

    >>> effects(["bus:Intercept", "bus:far"], intercept=False), effects(["Intercept"], intercept=False)
    (['bus:far'], ['Intercept'])
    """
    return [t for t in terms if intercept or t.rpartition(":")[2] != "Intercept"] or list(terms)


def percent(level: float) -> str:
    return f"{100 * level:.4g} %"


def drawn(figure: Any, ending: str) -> bytes:
    """A figure as the content of a file whose name has this ending (.png, .svg or .pdf)."""
    from pramana.render.canvas import figure_bytes

    return figure_bytes(figure, ending.lower().removeprefix("."), 150)


def _panels(ax: Any, count: int, size: tuple[float, float], **shared: Any) -> tuple[Any, list[Any]]:
    """A figure with so many axes beside each other; None with those that were given."""
    if ax is None:
        from pramana.render.canvas import Canvas

        figure = Canvas(figsize=size, layout="constrained")
        return figure, list(figure.subplots(1, count, squeeze=False, **shared)[0])
    given = list(np.ravel(ax))
    if len(given) != count:
        raise PramanaError(
            f"ax holds {len(given)} axes for a picture of {count}: give as many as panels, as in plt.subplots(1, {count})"
        )
    return None, given


def _finished(
    figure: Any, axes: Sequence[Any], ax: Any, *, title: str = "", columns: int = 3, legend: bool = True
) -> Any:
    """With title and legend: around the whole figure where it is ours, else in the first of the axes."""
    handles, labels = axes[0].get_legend_handles_labels()
    shown = None
    if legend and figure is not None:
        place = {"loc": "outside lower center", "ncols": min(len(labels), columns), "frameon": False, "fontsize": 9}
        shown = figure.legend(handles, labels, **place)
    elif legend:
        shown = axes[0].legend(handles, labels, frameon=False, fontsize=9)
    for text in () if shown is None else shown.get_texts():
        text.set_parse_math(False)  # a label is text, whatever dollars are in it
        text.set_text(visible(text.get_text()))
    if title and len(axes) > 1 and figure is not None:
        figure.suptitle(visible(title), fontsize=11, x=0.02, ha="left", parse_math=False)
    elif title:
        axes[0].set_title(visible(title), fontsize=11, loc="left", parse_math=False)
    return ax if figure is None else figure


@dataclass(frozen=True)
class Series:
    """One estimator's points and intervals, (d,) each; `method` gives its colour where the label is another one."""

    label: str
    estimate: Float
    low: Float
    high: Float
    method: str = ""


@dataclass(frozen=True)
class DotPanel:
    """Dots with intervals, one row a term, several series side by side.

    Attributes
    ----------
    reference : a dotted line there.
    band : a shaded range of what is wanted.
    log : whether the axis is one of ratios.
    """

    series: Sequence[Series]
    x_label: str
    reference: float | None = None
    band: tuple[float, float] | None = None
    log: bool = False


def coefficients(
    terms: Sequence[str],
    series: Sequence[Series],
    *,
    x_label: str,
    title: str = "",
    reference: float | None = 0.0,
    log: bool = False,
    ax: Any = None,
) -> Any:
    """Dots with intervals, one row a term, several series side by side."""
    return dot_panels(terms, [DotPanel(series, x_label, reference, log=log)], title=title, ax=ax)


def dot_panels(
    terms: Sequence[str], panels: Sequence[DotPanel], *, title: str = "", row: float | None = None, ax: Any = None
) -> Any:
    """Panels that share their terms, and the names of their series; a term is `row` inches high, by default as its series need."""
    most = max((panel.series for panel in panels), key=len)
    height = 1.3 + max(len(terms) * (row or 0.28 + 0.17 * len(most)), 0.8)
    size = (7.2 + 3.4 * (len(panels) - 1), min(height, 40))
    figure, axes = _panels(ax, len(panels), size, sharey=True)
    for one, panel in zip(axes, panels, strict=True):
        _draw_dots(one, panel, len(terms))
    axes[0].set_yticks(np.arange(len(terms))[::-1], [_short(term, 60) for term in terms], parse_math=False)
    axes[0].set_ylim(-0.6, len(terms) - 0.4)
    return _finished(figure, axes, ax, title=title, legend=len(most) > 1)


def _draw_dots(axes: Any, panel: DotPanel, count: int) -> None:
    series = panel.series
    places = np.arange(count)[::-1].astype(float)
    shifts = (np.arange(len(series)) - (len(series) - 1) / 2) * min(0.7 / len(series), 0.22)
    if panel.log:
        axes.set_xscale("log")
    for k, (one, (colour, marker)) in enumerate(zip(series, looks([s.method or s.label for s in series]), strict=True)):
        y = places - shifts[k]
        bounded = np.isfinite(one.low) & np.isfinite(one.high)
        axes.hlines(y[bounded], one.low[bounded], one.high[bounded], color=colour, linewidth=1.6)
        axes.plot(one.estimate, y, marker, color=colour, markersize=5, label=one.label)
    if panel.log:
        _plain_ratios(axes)
    if panel.reference is not None:
        axes.axvline(panel.reference, color="black", linewidth=0.7, linestyle=":")
    if panel.band is not None:
        axes.axvspan(*panel.band, color="#e9eef3", zorder=0)
    axes.set_xlabel(visible(panel.x_label), parse_math=False)
    _bare(axes)
    axes.grid(axis="x", color=GRID, linewidth=0.6)


_STEPS = (
    (2.5, (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
    (10.0, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)),
    (1000.0, (1.0, 2.0, 5.0)),
    (np.inf, (1.0,)),
)
"""Ticks within a power of ten, by what is between the ends of the axis."""


def _plain_ratios(axes: Any) -> None:
    """Ticks of a log axis written as ratios, 0.5 and 2, not as powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.get_xlim()
    steps = next(steps for most, steps in _STEPS if high / low < most)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def heat_map(chances: Float, levels: Sequence[str]) -> Any:
    """A transition matrix (released, true): the darker, the likelier; a white cell is impossible. `levels` are named where they fit."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, PowerNorm

    figure, (axes,) = _panels(None, 1, (5.6, 4.8))
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
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="probability", shrink=0.8)
    return figure


def _short(text: str, most: int = 14) -> str:
    """Of names and levels, also without what no picture can show: an SVG that holds a control character is none."""
    text = visible(text)
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
    ax: Any = None,
) -> Any:
    """Utility over risk, a panel a measure of risk."""
    figure, panels = _panels(ax, len(curves), (4.5 * len(curves) + 0.8, 4.3), sharey=True)
    for axes, curve in zip(panels, curves, strict=True):
        _draw_curve(axes, curve, utility, keeps, chosen, chosen_label)
    panels[0].set_ylabel(visible(y_label), parse_math=False)
    return _finished(figure, panels, ax, title=title)


def _draw_curve(
    axes: Any, curve: DrawnLine, utility: Sequence[float], keeps: Sequence[float], chosen: float | None, label: str
) -> None:
    axes.plot(
        curve.risk, utility, "-o", color=OTHERS[0][0], markersize=4, linewidth=1.2, label="keep probability on the grid"
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
        axes.plot([curve.chosen], [chosen], "D", color=OTHERS[1][0], markersize=8, label=label, zorder=3)
    if curve.reference is not None:
        _mark_limit(axes, *curve.reference, left=curve.reference[0] <= min(curve.risk))
    axes.set_xlabel(curve.label)
    axes.set_ylim(0, 1.05)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _place: f"{100 * value:.3g} %")
    axes.margins(x=0.12)
    axes.grid(color=GRID, linewidth=0.5)
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


@dataclass(frozen=True)
class Line:
    """Points along x; where the y are simulated, `error` is their Monte Carlo error, and bars reach two of them to either side."""

    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None


def line_grid(
    panels: Sequence[Sequence[Mapping[str, Line]]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    x_label: str,
    reference: float | None = None,
    ordered: bool = False,
) -> Any:
    """Panels of lines by their labels: `panels[row][column]`; rows share a y-axis and its label, all share the legend.

    Parameters
    ----------
    reference : a dotted line there.
    ordered : the lines are degrees of one thing, no methods.
    """
    from pramana.render.canvas import Canvas

    figure = Canvas(figsize=(max(3.3 * len(columns) + 0.6, 7.2), 3.0 * len(rows) + 0.7), layout="constrained")
    axes = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey="row")
    for i, row in enumerate(panels):
        for j, lines in enumerate(row):
            _draw_lines(axes[i][j], lines, ordered=ordered)
            if reference is not None:
                axes[i][j].axhline(reference, color="black", linewidth=0.7, linestyle=":")
            if i == 0:
                axes[i][j].set_title(columns[j], fontsize=11)
            if i == len(rows) - 1:
                axes[i][j].set_xlabel(x_label)
        axes[i][0].set_ylabel(rows[i])
    return _finished(figure, list(axes.flat), None, columns=5)


def _draw_lines(axes: Any, lines: Mapping[str, Line], *, ordered: bool) -> None:
    styles = ORDERED if ordered else [(*look, "-") for look in looks(list(lines))]
    for (label, line), (colour, marker, dash) in zip(lines.items(), styles, strict=False):
        bars = None if line.error is None else 2 * np.asarray(line.error)
        axes.errorbar(
            line.x,
            line.y,
            bars,
            marker=marker,
            color=colour,
            linestyle=dash,
            markersize=4.5,
            linewidth=1.3,
            elinewidth=1.0,
            capsize=2.5,
            label=label,
        )
    axes.grid(color=GRID, linewidth=0.5)
    _bare(axes)


def heat_maps(
    maps: Mapping[str, Float], ticks: Sequence[float], *, x_label: str, y_label: str, title: str, names: tuple[str, str]
) -> Any:
    """One map a parameter, of a ratio by (x, y), with a common colour scale that is white at 1; the colour bar says that below 1 the first of
    the `names` is the better one, and above 1 the second."""
    from matplotlib.colors import TwoSlopeNorm

    figure, axes = _panels(None, len(maps), (4.6 * len(maps) + 1.2, 4.4), sharey=True)
    low = min(float(np.min(m)) for m in maps.values())
    high = max(float(np.max(m)) for m in maps.values())
    norm = TwoSlopeNorm(1.0, vmin=min(low, 0.95), vmax=max(high, 1.05))
    extent = (ticks[0] - 0.005, ticks[-1] + 0.005, ticks[0] - 0.005, ticks[-1] + 0.005)
    for one, (name, values) in zip(axes, maps.items(), strict=True):
        image = one.imshow(values.T, origin="lower", cmap="RdBu_r", norm=norm, extent=extent, aspect="equal")
        one.set_title(name, fontsize=11)
        one.set_xlabel(x_label)
    axes[0].set_ylabel(y_label)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, label="ratio of mean squared errors")
    first, second = (
        "\n".join(wrap(f"{name} is better", 9)) for name in names
    )  # no wider than what the bar has around it
    bar.ax.set_title(f"red:\n{second}", fontsize=9)
    bar.ax.set_xlabel(f"blue:\n{first}", fontsize=9)
    figure.suptitle(visible(title), fontsize=11)
    return figure


@dataclass(frozen=True)
class Ribbon:
    """A range of estimates along x, and the range of their limits around it."""

    lowest: Float
    highest: Float
    low: Float
    high: Float


def ribbons(
    x: Float, panels: Mapping[str, Ribbon], *, x_label: str, intervals: str, title: str = "", ax: Any = None
) -> Any:
    """Bands along x, a panel a term; `intervals` says what the outer band is made of."""
    figure, every = _panels(ax, len(panels), (3.6 * len(panels) + 0.8, 3.8))
    colour = LOOKS["reversion"][0]
    for axes, (name, ribbon) in zip(every, panels.items(), strict=True):
        axes.fill_between(x, ribbon.low, ribbon.high, color=colour, alpha=0.15, linewidth=0, label=intervals)
        axes.fill_between(x, ribbon.lowest, ribbon.highest, color=colour, alpha=0.45, label="estimates")
        axes.set_title(_short(name, 40), fontsize=10, loc="left", parse_math=False)
        axes.set_xlabel(visible(x_label), parse_math=False)
        axes.grid(color=GRID, linewidth=0.5)
        _bare(axes)
    return _finished(figure, every, ax, title=title)

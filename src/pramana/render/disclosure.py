"""Pictures of risk against utility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pramana.render.figures import PALETTE


@dataclass(frozen=True)
class Curve:
    """One measure of risk along a grid of designs: a point a keep probability, and the chosen one."""

    label: str
    risk: Sequence[float]
    chosen: float | None
    reference: tuple[float, str] | None = None


def risk_utility(
    curves: Sequence[Curve],
    utility: Sequence[float],
    keeps: Sequence[float],
    *,
    chosen: float | None,
    chosen_label: str,
    y_label: str,
    title: str,
) -> Any:
    """Utility over risk, a panel a measure of risk. Returns a matplotlib Figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(curves) + 0.8, 4.3), layout="constrained")
    panels = figure.subplots(1, len(curves), squeeze=False, sharey=True)[0]
    for axes, curve in zip(panels, curves, strict=True):
        _draw(axes, curve, utility, keeps, chosen, chosen_label)
    panels[0].set_ylabel(y_label)
    figure.suptitle(title, fontsize=11, x=0.02, ha="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure


def _draw(
    axes: Any, curve: Curve, utility: Sequence[float], keeps: Sequence[float], chosen: float | None, label: str
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
        _mark(axes, *curve.reference, left=curve.reference[0] <= min(curve.risk))
    axes.set_xlabel(curve.label)
    axes.set_ylim(0, 1.05)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _place: f"{100 * value:.3g} %")
    axes.margins(x=0.12)
    axes.grid(color="#e8e8e8", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _mark(axes: Any, place: float, text: str, *, left: bool) -> None:
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

"""Figures of a study's page: five estimators over sample sizes, relative efficiency as lines and as maps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pramana.render import Sheet
from pramana.render.pages import Heading, Page, Picture
from pramana.render.studies import heat_maps, line_grid
from pramana.studies.study import CLIPPED, GREEK, GRID, KEEPS, MODEL_1, MODEL_2, NAMES, Study
from pramana.studies.summary import StudyResult


def save_figure(figure: Any, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    figure.savefig(paths[0], dpi=150)
    figure.savefig(paths[1], metadata={"Date": None})
    return paths


_FIVE = ("oracle", "reversion", MODEL_1.label, MODEL_2.label, "naive")


def five_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:
    """Bias above, mean squared error below, of the five estimators."""
    panels, titles = [], [f"{GREEK[x]}, p = {p}" for x in GREEK for p in KEEPS]
    for measure in ("bias", "mse"):
        panels.append([{NAMES[m]: _line(result, measure, m, p, x) for m in _FIVE} for x in GREEK for p in KEEPS])
    figure = line_grid(panels, rows=("bias", "MSE"), columns=titles, x_label="n", zero=(True, False))
    files = save_figure(figure, out / f"{study.name}-estimators")
    caption = (
        f"Simulation {study.name.upper()}: empirical bias (upper) and mean squared error (lower) of five estimators."
    )
    page.add(Heading("Five estimators"), Picture(files[0], caption), _five_table(result))
    return files


def _line(result: StudyResult, measure: str, method: str, p: float, x: str) -> tuple[Sequence[float], Sequence[float]]:
    rows = result.where(p=p, method=method, parameter=x)
    return [r["n"] for r in rows], [r[measure] for r in rows]


def _five_table(result: StudyResult) -> Sheet:
    rows = []
    for method in (*_FIVE, CLIPPED.label):
        for p in KEEPS:
            for x in GREEK:
                row = result.where(p=p, n=1000, method=method, parameter=x)[0]
                rows.append(
                    (NAMES[method], p, GREEK[x], row["bias"], row["bias_mcse"], row["sd"], row["mse"], row["failures"])
                )
    columns = ("estimator", "p", "parameter", "bias", "MC error", "SD", "MSE", "failures")
    return Sheet(columns, tuple(rows), title="At n = 1000", digits=4, fixed=True)


def efficiency_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:
    """MSE(proposed) / MSE(Model 1) over sample sizes, with and without clipping."""
    panels = [
        [{f"p = {p}": _line(result, "re", "reversion", p, x) for p in KEEPS} for x in GREEK],
        [{f"p = {p}": _clipped_line(result, p, x) for p in KEEPS} for x in GREEK],
    ]
    figure = line_grid(
        panels,
        rows=("RE to Model 1", "RE to Model 1 clipped"),
        columns=list(GREEK.values()),
        x_label="n",
        zero=(False, False),
    )
    files = save_figure(figure, out / f"{study.name}-efficiency")
    plain = [r["re"] for r in result.rows if "re" in r]
    clipped = [v for p in KEEPS for x in GREEK for v in _clipped_line(result, p, x)[1]]
    page.add(
        Heading("Relative efficiency"),
        f"Below 1 the proposed estimator is the better one. Against Model 1 as the paper defines it (p(y|x) not clipped) the ratio "
        f"runs from {min(plain):.2f} to {max(plain):.2f}. With p(y|x) clipped to [0, 1] before Bayes' rule it runs from "
        f"{min(clipped):.2f} to {max(clipped):.2f}: where it is above 1, clipping has bought a smaller variance. {_clipped_bias(result)} The paper's ranking depends on not clipping.",
        Picture(files[0], "MSE(proposed) / MSE(Model 1): without clipping (upper) and with clipping (lower)."),
    )
    return files


def _clipped_bias(result: StudyResult) -> str:
    """The largest bias that clipping leaves at the largest sample size."""
    n = max(row["n"] for row in result.rows)
    worst = max(result.where(method=CLIPPED.label, n=n), key=lambda row: abs(row["bias"]))
    return (
        f"Its largest bias at n = {n} is {worst['bias']:.4f} ± {worst['bias_mcse']:.4f} "
        f"({GREEK[worst['parameter']]}, p = {worst['p']:g})."
    )


def _clipped_line(result: StudyResult, p: float, x: str) -> tuple[Sequence[float], Sequence[float]]:
    n, ours = _line(result, "mse", "reversion", p, x)
    theirs = _line(result, "mse", CLIPPED.label, p, x)[1]
    return n, [a / b for a, b in zip(ours, theirs, strict=True)]


def map_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:
    """Heat maps of the relative efficiency over (p00, p11), with and without clipping."""
    files = []
    page.add(Heading("Relative efficiency over the grid"), _failures(result))
    for other, stem in ((MODEL_1.label, "efficiency"), (CLIPPED.label, "efficiency-clipped")):
        maps = {GREEK[x]: _ratio_map(result, other, x) for x in GREEK}
        title = f"MSE(proposed) / MSE({NAMES[other]})"
        figure = heat_maps(maps, GRID, x_label="p₀₀", y_label="p₁₁", title=title)
        files += save_figure(figure, out / f"{study.name}-{stem}")
        extremes = "; ".join(
            f"{name}: {m.min():.2f} to {m.max():.2f}, median {np.median(m):.2f}, below 1 in {np.mean(m < 1):.0%} of the cells"
            for name, m in maps.items()
        )
        page.add(
            Picture(
                files[-2], f"Simulation {study.name.upper()}: {title}; below 1 (red) the proposed estimator is better."
            ),
            f"{extremes}.",
        )
    return files


def _failures(result: StudyResult) -> str:
    """Data sets in which an estimator has no root and which its mean squared error therefore leaves out."""
    first = result.rows[0]["parameter"]
    counts = []
    for method in dict.fromkeys(row["method"] for row in result.rows):
        rows = result.where(method=method, parameter=first)
        counts.append(f"{NAMES[method]} {sum(r['failures'] for r in rows)} of {sum(r['replicates'] for r in rows)}")
    return f"Data sets without a root, left out of that estimator's mean squared error: {', '.join(counts)}."


def _ratio_map(result: StudyResult, other: str, x: str) -> Any:
    place = {p: k for k, p in enumerate(GRID)}
    out = np.full((len(GRID), len(GRID)), np.nan)
    mse = {(r["method"], r["p00"], r["p11"]): r["mse"] for r in result.rows if r["parameter"] == x}
    for p00 in GRID:
        for p11 in GRID:
            out[place[p00], place[p11]] = mse["reversion", p00, p11] / mse[other, p00, p11]
    return out

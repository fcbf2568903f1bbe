"""From a study's numbers to CSV, figures and a page with published and reproduced values side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pramana.frames.files import write_text
from pramana.render import Sheet
from pramana.render.pages import Code, Heading, Page, Picture
from pramana.render.studies import heat_maps, line_grid
from pramana.studies.published import REPLICATES, TABLE_1
from pramana.studies.study import CLIPPED, GRID, KEEPS, MODEL_1, MODEL_2, SIZES, Study
from pramana.studies.summary import Row, StudyResult

NAMES = {
    "reversion": "proposed",
    "oracle": "oracle",
    "naive": "naive",
    MODEL_1.label: "Model 1",
    MODEL_2.label: "Model 2",
    CLIPPED.label: "Model 1 clipped",
}
GREEK = {"Intercept": "β₁", "x": "β₂"}
ROUNDING = 0.0005


def write(study: Study, result: StudyResult, out: Path, command: str) -> list[Path]:
    """Every file of one study; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    table = out / f"{study.name}.csv"
    write_text(table, result.to_csv())
    page = Page(study.title)
    page.add("Made by this command:", Code(command))
    files = [table]
    for add in _SECTIONS.get(study.name, (_plain_section,)):
        files += add(study, result, out, page)
    return files + save_page(page, out / study.name)


def save_page(page: Page, stem: Path) -> list[Path]:
    markdown, html = stem.with_suffix(".md"), stem.with_suffix(".html")
    write_text(markdown, page.markdown())
    write_text(html, page.html())
    return [markdown, html]


def save_figure(figure: Any, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    figure.savefig(paths[0], dpi=150)
    figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _plain_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:  # noqa: ARG001
    page.add(
        Heading("Results"), Sheet(result.columns, tuple(tuple(r.get(c) for c in result.columns) for r in result.rows))
    )
    return []


# --- the table ---------------------------------------------------------------------------------------------------


def _table_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:  # noqa: ARG001
    """The proposed estimator in the layout of Table 1."""
    columns = ("p", "n", *(f"{what} {GREEK[x]}" for what in ("Bias", "SD", "SE", "CP") for x in GREEK))
    rows = []
    for p in KEEPS:
        for n in SIZES:
            pair = [_proposed(result, p, n, x) for x in GREEK]
            cells = [r[k] for k in ("bias", "sd", "se_iqr", "cp_wald_iqr") for r in pair]
            rows.append((f"{p:g}", n, *cells))
    page.add(
        Heading("The proposed estimator"),
        f"{result.rows[0]['replicates']} replicates. SE is the interquartile range of the resamples over 1.349, averaged; CP is the "
        "coverage of the Wald interval with that standard error.",
        Sheet(columns, tuple(rows), digits=3, fixed=True),
    )
    return []


def _proposed(result: StudyResult, p: float, n: int, parameter: str) -> Row:
    return result.where(p=p, n=n, method="reversion", parameter=parameter)[0]


_SCALES = {
    "se_iqr": "interquartile range / 1.349, mean",
    "se_iqr_median": "interquartile range / 1.349, median",
    "se_sd": "standard deviation, mean",
    "se_sd_median": "standard deviation, median",
    "se_one_step": "one-step standard deviation, mean",
    "se_sandwich": "sandwich, mean",
}


def _errors_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:  # noqa: ARG001
    """Every way to average a resampled standard error, beside the spread they should match."""
    columns = ("p", "n", "parameter", "SD", *_SCALES.values())
    rows = [
        (f"{p:g}", n, GREEK[x], *(_proposed(result, p, n, x).get(k) for k in ("sd", *_SCALES)))
        for p in KEEPS
        for n in SIZES
        for x in GREEK
    ]
    coverage = (
        "p",
        "n",
        "parameter",
        "Wald, IQR",
        "Wald, sandwich",
        "Wald, SD",
        "percentile",
        "rootless draws",
        "data sets with one",
    )
    keys = ("cp_wald_iqr", "cp_wald_sandwich", "cp_wald_sd", "cp_percentile", "rootless", "rootless_sets")
    covered = [
        (f"{p:g}", n, GREEK[x], *(_proposed(result, p, n, x).get(k) for k in keys))
        for p in KEEPS
        for n in SIZES
        for x in GREEK
    ]
    page.add(
        Heading("Standard errors and coverage, by every definition"),
        "The resampled distributions have heavy tails at strong noise, so the mean of their standard deviations can be far above "
        "the estimator's own spread, while the interquartile range is not moved by a few wild draws.",
        Sheet(columns, tuple(rows), digits=3, fixed=True),
        Sheet(coverage, tuple(covered), digits=3, fixed=True),
    )
    return []


def _published_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:  # noqa: ARG001
    """Table 1 as printed and as reproduced, with the z-score of each difference."""
    rows = list(_comparisons(result))
    judged = [r for r in rows if r[3] != "SE"]
    agree = sum(1 for r in judged if r[-1])
    far = [r for r in judged if not r[-1]]
    spread = [r for r in rows if r[3] == "SE"]
    page.add(
        Heading("Published and reproduced"),
        f"{agree} of {len(judged)} values of bias, SD and CP ({agree / len(judged):.1%}) agree within 3 √(mcse² + mcse²) + {ROUNDING}; "
        "Monte Carlo errors by jackknife, the paper's taken equal to those of a run of its size. "
        f"Of the {len(spread)} standard errors (interquartile form), {sum(1 for r in spread if r[-1])} agree in the same sense.",
    )
    if far:
        named = "; ".join(f"{what} {x} at p = {p}, n = {n} (z = {z:.1f})" for p, n, x, what, _, _, z, _ in far)
        page.add(f"Those that do not: {named}.")
    columns = ("p", "n", "parameter", "what", "published", "reproduced", "z", "agrees")
    page.add(Sheet(columns, tuple((*r[:-1], "yes" if r[-1] else "no") for r in rows), digits=3, fixed=True))
    return []


def _comparisons(result: StudyResult) -> Any:
    measures = {
        "Bias": ("bias", "bias_mcse"),
        "SD": ("sd", "sd_mcse"),
        "SE": ("se_iqr", "se_iqr_mcse"),
        "CP": ("cp_wald_iqr", "cp_wald_iqr_mcse"),
    }
    for p in KEEPS:
        for n in SIZES:
            for k, (what, (value, error)) in enumerate(measures.items()):
                for j, x in enumerate(GREEK):
                    row = _proposed(result, p, n, x)
                    printed = TABLE_1[p][n][2 * k + j]
                    theirs = row[error] * np.sqrt(row["replicates"] / REPLICATES)
                    total = float(np.hypot(row[error], theirs))
                    z = (row[value] - printed) / total
                    yield (
                        p,
                        n,
                        GREEK[x],
                        what,
                        printed,
                        row[value],
                        float(z),
                        abs(row[value] - printed) <= 3 * total + ROUNDING,
                    )


# --- the figures -------------------------------------------------------------------------------------------------

_FIVE = ("oracle", "reversion", MODEL_1.label, MODEL_2.label, "naive")


def _five_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:
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


def _efficiency_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:
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
        f"{min(clipped):.2f} to {max(clipped):.2f}: where it is above 1, clipping has bought a smaller variance at the price of a bias "
        "that does not vanish with n (see the table above). The paper's ranking depends on not clipping.",
        Picture(files[0], "MSE(proposed) / MSE(Model 1): without clipping (upper) and with clipping (lower)."),
    )
    return files


def _clipped_line(result: StudyResult, p: float, x: str) -> tuple[Sequence[float], Sequence[float]]:
    n, ours = _line(result, "mse", "reversion", p, x)
    theirs = _line(result, "mse", CLIPPED.label, p, x)[1]
    return n, [a / b for a, b in zip(ours, theirs, strict=True)]


def _map_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:
    """Heat maps of the relative efficiency over (p00, p11), with and without clipping."""
    files = []
    page.add(Heading("Relative efficiency over the grid"))
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


def _ratio_map(result: StudyResult, other: str, x: str) -> Any:
    place = {p: k for k, p in enumerate(GRID)}
    out = np.full((len(GRID), len(GRID)), np.nan)
    mse = {(r["method"], r["p00"], r["p11"]): r["mse"] for r in result.rows if r["parameter"] == x}
    for p00 in GRID:
        for p11 in GRID:
            out[place[p00], place[p11]] = mse["reversion", p00, p11] / mse[other, p00, p11]
    return out


Section = Callable[[Study, StudyResult, Path, Page], list[Path]]
_SECTIONS: Mapping[str, Sequence[Section]] = {
    "a1": (_table_section, _published_section, _errors_section, _five_section, _efficiency_section),
    "b1": (_table_section, _errors_section, _five_section, _efficiency_section),
    "a2": (_map_section,),
    "b2": (_map_section,),
}

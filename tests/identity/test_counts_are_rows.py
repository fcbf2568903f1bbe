"""A count stands for so many equal rows, and a weight of zero for none, also where a kernel is learned from the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

LEVELS = ["low", "mid", "high"]
MECHANISM = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.8, kind="ordinal")})
DRAWS = pr.Resampling(draws=600, seed=1)
FEW = pr.Resampling(draws=40, seed=1)
"""Where the draws are those of the same records, and not compared up to chance."""
SMOOTH = {
    "quantile regression": pr.quantile_regression("v ~ x + edu", 0.9),
    "intercept": pr.quantile_regression("v ~ 1", 0.9),
    "gini": pr.gini("income", by="edu"),
    "ordinal": pr.ordinal("edu ~ v"),
    "mean": pr.mean("v", by="edu"),
    "share": pr.share("v", -0.5, 0.5, by="edu"),
}
SMOOTHED = {
    "median": pr.median("v"),
    "quantile": pr.quantile("v", 0.8, by="edu"),
    "poverty": pr.poverty_rate("income", by="edu"),
}
PLANS = SMOOTH | SMOOTHED


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    n = 2000
    v = np.round(rng.normal(size=n), 1)
    edu = rng.choice(LEVELS, n)
    return pd.DataFrame({"v": v, "income": np.round(np.exp(v), 1), "x": rng.integers(0, 2, n), "edu": edu})


def fitted(plan: Any, data: Any, **options: Any) -> pr.Result:
    return pr.fit(plan, data, MECHANISM, **options)


def check_equal(one: pr.Result, other: pr.Result, errors: float = 1e-8) -> None:
    assert one.facts.get("Bandwidth") == other.facts.get("Bandwidth")
    np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=errors)


def errors_within(name: str) -> float:
    """Resampled standard errors of different rows differ by chance: 1/√(2B) each, wider for interquartile ranges."""
    return 0.15 if name in SMOOTHED else 1e-7


@pytest.mark.parametrize("name", PLANS)
def test_counts_give_what_their_rows_give(rows: pd.DataFrame, name: str) -> None:
    cells = rows.value_counts(sort=False).reset_index(name="count")
    options: dict[str, Any] = {"inference": DRAWS} if name in SMOOTHED else {}
    counted = fitted(PLANS[name], cells, frequencies="count", **options)
    check_equal(counted, fitted(PLANS[name], rows, **options), errors_within(name))


@pytest.mark.parametrize("argument", ["weights", "frequencies"])
@pytest.mark.parametrize("name", PLANS)
def test_records_of_weight_zero_are_absent(rows: pd.DataFrame, name: str, argument: str) -> None:
    odd = rows.head(500).assign(v=1e3, income=1e3, x=1, edu="low")
    padded = pd.concat([rows, odd], ignore_index=True)
    weights = np.repeat([1.0, 0.0], [len(rows), len(odd)])
    options: dict[str, Any] = {"inference": FEW} if name in SMOOTHED else {}
    check_equal(
        fitted(PLANS[name], padded, **{argument: weights}, **options), fitted(PLANS[name], rows, **options), 1e-7
    )


@pytest.mark.parametrize("inference", [pr.Sandwich(correction="HC1"), pr.Jackknife()])
def test_finite_sample_factors_count_no_record_of_weight_zero(rows: pd.DataFrame, inference: Any) -> None:
    few = rows.head(40)
    padded = pd.concat([few, few.assign(v=9.0)], ignore_index=True)
    weights = np.repeat([1.0, 0.0], len(few))
    one = pr.fit("v ~ x", few, None, inference=inference)
    other = pr.fit("v ~ x", padded, None, weights=weights, inference=inference)
    check_equal(one, other, 1e-9)
    np.testing.assert_allclose(one.interval(), other.interval(), rtol=1e-9)


@pytest.mark.parametrize("name", PLANS)
def test_a_factor_of_all_sampling_weights_changes_nothing(rows: pd.DataFrame, name: str) -> None:
    weights = 0.1 * (1 + np.arange(len(rows)) % 3)
    options: dict[str, Any] = {"inference": FEW} if name in SMOOTHED else {}
    one = fitted(PLANS[name], rows, weights=weights, **options)
    check_equal(one, fitted(PLANS[name], rows, weights=7.7 * weights, **options))


def test_sampling_weights_leave_fewer_effective_records(rows: pd.DataFrame) -> None:
    """Half the records with triple weight: (Σw)² / Σw² is 4/5 of n, and the rounded spread stays."""
    weights = np.where(np.arange(len(rows)) % 2, 3.0, 1.0)
    plain, weighted = (
        float(
            fitted(pr.median("x", bandwidth=None), rows, inference=pr.Resampling(20, seed=1), **w)
            .facts["Bandwidth"]
            .split(",")[0]
        )
        for w in ({}, {"weights": weights})
    )
    assert weighted / plain == pytest.approx((4 / 5) ** (-1 / 3), rel=0.01)


JUDGED: dict[str, tuple[Any, dict[str, Any]]] = {
    "domain": (pr.median("x", by="edu"), {}),
    "subset": ("x ~ 1", {"subset": "edu == 'high'"}),
    "instruments": (pr.two_stage_least_squares("x ~ part | edu"), {}),
    "propensities": (pr.average_treatment_effect("x", "rare", ["part"]), {}),
}


@pytest.mark.parametrize("name", JUDGED)
def test_counts_are_judged_as_their_rows_are(rows: pd.DataFrame, name: str) -> None:
    """A cell of a hundred records is no record of weight a hundred: signals are as strong, and shares the same."""
    part = np.arange(len(rows)) % 50 == 0
    part = (rows["edu"] == "high") & (np.arange(len(rows)) % 5 < 2) | part
    rare = np.where(part, np.arange(len(rows)) % 2, np.arange(len(rows)) % 200 == 1).astype(int)
    few = rows.assign(part=part.astype(int), rare=rare)[["x", "edu", "part", "rare"]]
    what, options = JUDGED[name]
    cells = few.value_counts(sort=False).reset_index(name="count")
    counted = fitted(what, cells, frequencies="count", **options)
    assert counted.diagnostics == fitted(what, few, **options).diagnostics


def test_zeros_of_either_sign_are_one_level() -> None:
    y = np.arange(6.0)
    for zero in (0.0, -0.0):
        found = pr.fit(pr.mean("y", by="m"), {"y": y, "m": [zero, -zero, 2.5] * 2}, None)
        assert found.parameters == ("mean(y)[m=0.0]", "mean(y)[m=2.5]")

"""`subset=`: on clean columns a selection of records, on perturbed ones a reverted domain. Equalities without Monte Carlo."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.formulas.subset import Subset
from pramana.frames import read

EDU = ["low", "mid", "high"]
MECHANISM = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.randomized_response(EDU, 0.8),
        "smokes": pr.TransitionMatrix.binary(0.9, 0.85),
        "ill": pr.Stratified("region", {"n": pr.TransitionMatrix.binary(0.9, 0.8), "s": pr.TransitionMatrix.binary(0.8, 0.9)}),
        "score": pr.TransitionMatrix.randomized_response([1, 2, 3, 4], 0.85, kind="ordinal"),
    }
)  # fmt: skip
CLEAN = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix(EDU, np.eye(3)),
        "smokes": pr.TransitionMatrix([0, 1], np.eye(2)),
        "ill": pr.TransitionMatrix([0, 1], np.eye(2)),
        "score": pr.TransitionMatrix([1, 2, 3, 4], np.eye(4), kind="ordinal"),
    }
)
QUESTIONS: dict[str, Any] = {
    "mean": "mean(y)",
    "mean of a perturbed column": "mean(smokes)",
    "means": "mean(y, by=smokes)",
    "proportions": "proportions(score)",
    "proportions by": "proportions(score, by=sex)",
    "crosstab": "crosstab(smokes, sex)",
    "odds ratio": "odds_ratio(smokes, ill)",
    "risk difference": "risk_difference(smokes, ill)",
    "risk ratio": "risk_ratio(sex, ill, strata=smokes)",
    "correlation": "correlation(y, age)",
    "correlation of perturbed columns": "correlation(score, y)",
    "median": "median(y)",
    "quantiles by": "quantile(y, 0.3, by=smokes)",
    "gini": "gini(wage)",
    "share": "share(wage, 1, 2)",
    "poverty": "poverty_rate(wage)",
    "linear": "y ~ age + smokes",
    "linear in the column itself": "y ~ age + edu",
    "factors": "y ~ age + smokes + score",
    "logistic": pr.glm("ill ~ age + smokes", "binomial"),
    "poisson": pr.glm("visits ~ age + smokes", "poisson"),
    "negative binomial": ("visits ~ age + smokes", "negative-binomial"),
    "multinomial": pr.multinomial("edu ~ age"),
    "multinomial with a covariate": pr.multinomial("score ~ age + smokes"),
    "ordinal": pr.ordinal("score ~ age + smokes"),
    "quantile regression": pr.quantile_regression("y ~ age + smokes", 0.5, bandwidth=0.5),
    "instruments": pr.two_stage_least_squares("y ~ age + smokes | age + sex"),
    "treatment": pr.average_treatment_effect("y", "smokes", "age"),
    "margins": pr.margins("ill ~ age + smokes", "age", "binomial"),
    "total": "total(y)",
    "counts": "counts(score)",
    "cells": "crosstab(smokes, sex, counts=True)",
}


STEPS = ("median", "quantiles by", "gini", "poverty")
DRAWN: dict[str, Any] = {name: {"inference": pr.Resampling(draws=30, seed=1)} for name in STEPS}
SUMS = ("total", "counts", "cells")


def data(n: int = 1500, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    edu, age, sex = rng.integers(0, 3, n), rng.normal(size=n), rng.choice(["f", "m"], n)
    smokes = (rng.random(n) < 0.3 + 0.15 * edu).astype(int)
    y = 1 + edu + 0.5 * age + smokes + (sex == "m") + rng.normal(size=n)
    return pd.DataFrame(
        {
            "edu": np.array(EDU, dtype=object)[edu],
            "smokes": smokes,
            "ill": (rng.random(n) < 0.3 + 0.3 * smokes).astype(int),
            "region": rng.choice(["n", "s"], n),
            "score": np.clip(np.round(2.5 + age / 2 + rng.normal(size=n)), 1, 4).astype(int),
            "age": age,
            "sex": sex,
            "y": y,
            "wage": np.exp(0.3 * y),
            "visits": rng.poisson(np.exp(0.3 * age + 0.5 * smokes) * rng.gamma(2, 0.5, n)),
            "w": rng.uniform(1, 3, n),
            "unit": rng.integers(0, 60, n),
            "stratum": 0,
            "group": rng.choice(["a", "b"], n),
        }
    )


def released(**options: Any) -> Any:
    return MECHANISM.perturb(data(**options), seed=1)


pytestmark = [pytest.mark.filterwarnings("ignore:perturb"), pytest.mark.usefixtures("large_sample")]


def asked(what: Any, *arguments: Any, **options: Any) -> Any:
    if isinstance(what, tuple):
        return pr.fit(what[0], *arguments, family=what[1], **options)
    return pr.fit(what, *arguments, **options)


def same(left: Any, right: Any, tolerance: float = 1e-7) -> None:
    assert left.parameters == right.parameters
    np.testing.assert_allclose(left.estimate, right.estimate, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(left.standard_errors, right.standard_errors, rtol=max(tolerance, 1e-5), atol=tolerance)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_subset_of_clean_columns_is_the_filtered_file(name: str) -> None:
    frame = released()
    left = asked(QUESTIONS[name], frame, MECHANISM, subset="group == 'a' and age > -1", **DRAWN.get(name, {}))
    right = asked(QUESTIONS[name], frame[(frame.group == "a") & (frame.age > -1)], MECHANISM, **DRAWN.get(name, {}))
    if name in SUMS:
        kept = [p in right.parameters for p in left.parameters]
        np.testing.assert_allclose(left.estimate[kept], right.estimate, rtol=1e-9)
    else:
        same(left, right)


@pytest.mark.parametrize("name", QUESTIONS)
def test_without_noise_a_subset_of_perturbed_columns_is_the_filtered_file(name: str) -> None:
    level = "region == 's' or edu != 'low'"  # of edu all levels are left
    frame = data()
    rows = ((frame.region == "s") | (frame.edu != "low")) & ((frame.age > -1) | (frame.smokes == 1))
    left = asked(QUESTIONS[name], frame, CLEAN, subset=f"({level}) and (age > -1 or smokes == 1)")
    right = asked(QUESTIONS[name], frame[rows], CLEAN)
    np.testing.assert_allclose(left.estimate, right.estimate, rtol=1e-6, atol=1e-7)
    if name not in (*SUMS, *STEPS):  # whose errors are of a domain, or drawn by record
        same(left, right, 1e-6)


@pytest.mark.parametrize(
    ("plain", "by", "place"),
    [
        ("mean(y)", "mean(y, by=edu)", [2]),
        ("mean(smokes)", "mean(smokes, by=edu)", [2]),
        ("proportions(score)", "proportions(score, by=edu)", [8, 9, 10, 11]),
        ("total(y)", "total(y, by=edu)", [2]),
        ("counts(score)", "counts(score, by=edu)", [8, 9, 10, 11]),
    ],
)
@pytest.mark.parametrize("inference", ["sandwich", "resampling", "jackknife"])
@pytest.mark.parametrize("sampling", ["plain", "weights", "clusters", "design"])
def test_a_subset_by_a_perturbed_column_is_a_domain(
    plain: str, by: str, place: list[int], inference: str, sampling: str
) -> None:
    """With the variance of a domain: records outside count as zeros, and all sampling units are there."""
    beside: dict[str, Any] = {
        "plain": {},
        "weights": {"weights": "w"},
        "clusters": {"clusters": "unit"},
        "design": {"design": pr.SurveyDesign(weights="w", clusters="unit", strata="stratum")},
    }[sampling]
    kinds = {"sandwich": pr.Sandwich(), "resampling": pr.Resampling(draws=30, seed=3), "jackknife": pr.Jackknife()}
    options: dict[str, Any] = {"inference": kinds[inference], **beside}
    left = pr.fit(plain, released(n=400), MECHANISM, subset="edu == 'high'", **options)
    right = pr.fit(by, released(n=400), MECHANISM, **options)
    np.testing.assert_allclose(left.estimate, right.estimate[place], rtol=1e-9)
    np.testing.assert_allclose(left.standard_errors, right.standard_errors[place], rtol=1e-7)
    if inference == "sandwich" and sampling == "plain":
        assert left.privacy is not None
        assert right.privacy is not None
        np.testing.assert_allclose(left.privacy, right.privacy[np.ix_(place, place)], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("text", ["quantile(y, 0.8{}, bandwidth=0.2)", "gini(wage{})", "quantile(score, 0.3{})"])
def test_functionals_of_a_distribution_are_those_of_the_domain(text: str) -> None:
    options: dict[str, Any] = {"inference": pr.Resampling(draws=30, seed=3)}
    left = pr.fit(text.format(""), released(), MECHANISM, subset="edu == 'high'", **options)
    right = pr.fit(text.format(", by=edu"), released(), MECHANISM, **options)
    np.testing.assert_allclose(left.estimate, right.estimate[2:], rtol=1e-9)
    np.testing.assert_allclose(left.standard_errors, right.standard_errors[2:], rtol=1e-7)


def _score(x: Any, residual: Any, inside: Any) -> Any:
    return x * (residual * inside)[:, None]


def linear(beta: Any, y: Any, age: Any, smokes: Any, edu: Any) -> Any:
    x = np.column_stack([np.ones(len(age)), age, smokes]).astype(float)
    return _score(x, y - x @ beta, (edu == "high") & (age > 0))


def logistic(beta: Any, ill: Any, age: Any, smokes: Any) -> Any:
    x = np.column_stack([np.ones(len(age)), age]).astype(float)
    return _score(x, ill - 1 / (1 + np.exp(-x @ beta)), (smokes == 1) | (age > 1))


def own_response(beta: Any, smokes: Any, age: Any, edu: Any) -> Any:
    x = np.column_stack([np.ones(len(age)), age]).astype(float)
    return _score(x, smokes - 1 / (1 + np.exp(-x @ beta)), (edu == "low") | (smokes == 0) & (edu != "mid"))


def multinomial(beta: Any, edu: Any, age: Any, smokes: Any) -> Any:
    x = np.column_stack([np.ones(len(age)), age]).astype(float)
    e = np.exp(np.column_stack([np.zeros(len(age)), x @ beta[:2], x @ beta[2:]]))
    p = e / e.sum(axis=1, keepdims=True)
    parts = [x * (((edu == level) - p[:, k]) * (smokes == 1))[:, None] for k, level in ((1, "mid"), (2, "high"))]
    return np.hstack(parts)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize(
    ("fast", "slow", "terms", "subset"),
    [
        ("y ~ age + smokes", linear, 3, "edu == 'high' and age > 0"),
        (pr.glm("ill ~ age", "binomial"), logistic, 2, "smokes == 1 or age > 1"),
        (pr.glm("smokes ~ age", "binomial"), own_response, 2, "edu == 'low' or smokes == 0 and not (edu == 'mid')"),
        (pr.multinomial("edu ~ age"), multinomial, 4, "smokes == 1"),
    ],
)
def test_a_model_within_a_subset_is_the_slow_equation_with_its_indicator(
    fast: Any, slow: Any, terms: int, subset: str, weights: str | None
) -> None:
    """Σ_i Σ_c w_ic 1{node in the subset} U(node), evaluated at every node."""
    frame = released()
    left = pr.fit(fast, frame, MECHANISM, subset=subset, weights=weights)
    own, wald = pr.from_callable(slow, [f"b{k}" for k in range(terms)]), pr.Sandwich(interval="wald")
    right = pr.fit(own, frame, MECHANISM, weights=weights, inference=wald)  # intervals are not compared
    np.testing.assert_allclose(left.estimate, right.estimate, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(left.standard_errors, right.standard_errors, rtol=1e-6)
    assert left.privacy is not None
    assert right.privacy is not None
    np.testing.assert_allclose(left.privacy, right.privacy, rtol=1e-5, atol=1e-9)


def test_a_clean_subset_of_a_design_keeps_its_units() -> None:
    """Strata and units without a record in the subset count: the domain mean by a clean column has the same error."""
    frame = released().assign(stratum=lambda d: d.unit % 4)
    design = pr.SurveyDesign(weights="w", clusters="unit", strata="stratum")
    left = pr.fit("mean(y)", frame, MECHANISM, subset="sex == 'm'", design=design)
    right = pr.fit("mean(y, by=sex)", frame, MECHANISM, design=design)
    np.testing.assert_allclose(left.estimate[0], right.estimate[1], rtol=1e-12)
    np.testing.assert_allclose(left.standard_errors[0], right.standard_errors[1], rtol=1e-9)


def test_a_total_of_a_clean_subset_has_the_error_of_a_domain() -> None:
    frame = released()
    left = pr.fit("total(y)", frame, MECHANISM, subset="sex == 'm'")
    right = pr.fit("total(y, by=sex)", frame, MECHANISM)
    np.testing.assert_allclose(left.estimate[0], right.estimate[1], rtol=1e-12)
    np.testing.assert_allclose(left.standard_errors[0], right.standard_errors[1], rtol=1e-9)


def test_the_naive_estimator_chooses_by_released_values() -> None:
    frame = released()
    left = pr.fit("y ~ age", frame, MECHANISM, method="naive", subset="edu == 'high'")
    right = pr.fit("y ~ age", frame[frame.edu == "high"], MECHANISM, method="naive")
    same(left, right)


def test_margins_are_averaged_over_the_subset() -> None:
    frame = data()
    options: dict[str, Any] = {"family": "binomial"}
    left = pr.fit("ill ~ age + smokes", frame, CLEAN, subset="edu == 'high'", **options).margins(frame, "age")
    some = frame[frame.edu == "high"]
    right = pr.fit("ill ~ age + smokes", some, CLEAN, **options).margins(some, "age")
    same(left, right, 1e-6)


@pytest.mark.parametrize("subset", ["edu == 'high'", "edu != 'mid' and age < 0.5 or smokes == 0 and edu == 'mid'"])
@pytest.mark.parametrize("name", [name for name in QUESTIONS if name not in STEPS])
def test_averaging_over_the_channel_returns_the_equation_within_the_true_subset(name: str, subset: str) -> None:
    """E{φ(Z*) | Z} = 1{Z in the subset} U(Z), record by record, for every model and parameter."""
    channel = MECHANISM.assignments[0].channel
    assert isinstance(channel, pr.TransitionMatrix)
    mechanism = pr.Mechanism({"edu": channel})
    true = data(n=300)
    if name == "ordinal":
        true["score"] = pd.Categorical(true.score, [1, 2, 3, 4], ordered=True)
    what = QUESTIONS[name]
    plan = question(*what) if isinstance(what, tuple) else question(what)
    function = plan.prepare(read(true), mechanism.schema)
    condition = Subset.read(subset)
    beta = np.linspace(0.3, 0.6, len(function.parameters))
    ones = np.ones(len(true))

    def phi(method: Any, frame: pd.DataFrame) -> Any:
        return method.within(condition).bind(function, mechanism, read(frame), ones).equation.influence(beta)

    place = true.edu.map({level: k for k, level in enumerate(EDU)}).to_numpy()
    average = 0.0
    for turn in range(3):  # every record has every released value once
        drawn = (place + turn) % 3
        frame = true.assign(edu=np.array(EDU, dtype=object)[drawn])
        average = average + channel.matrix[drawn, place][:, None] * phi(pr.Reversion(), frame)
    np.testing.assert_allclose(average, phi(pr.Naive(), true), rtol=1e-8, atol=1e-8)

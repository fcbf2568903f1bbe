"""Many perturbed covariates: the factored equation is the expanded one, at the cost of a sum instead of a product."""

from __future__ import annotations

import numpy as np
import pytest

import pramana as pr
from pramana.estimating.factored import FactoredLinear, FactoredLog
from pramana.estimators.factoring import factored_equation
from pramana.estimators.reversion import reverted_records
from pramana.frames import read

FORMULAS = (
    "y ~ a + b + c + x",
    "y ~ a * x + b + c:x + offset(0.1 * x)",
    "y ~ a:b + c + x",
    "y ~ 0 + a + C(b) + I(b * x) + c",
)
FAMILIES = ("gaussian", "poisson", "gamma", "inverse-gaussian")


def response_and_three_covariates(n: int = 200) -> tuple[dict[str, np.ndarray], pr.Mechanism]:
    rng = np.random.default_rng(8)
    frame = {
        "a": rng.choice(list("pqr"), n).astype(object),
        "b": rng.integers(0, 2, n),
        "c": rng.choice(list("uv"), n).astype(object),
        "g": rng.choice(["n", "s"], n).astype(object),
        "x": rng.normal(size=n),
        "y": rng.integers(1, 4, n),
    }
    keep = pr.TransitionMatrix.randomized_response
    strata = pr.Stratified("g", {"n": keep(list("uv"), 0.85), "s": keep(list("uv"), 0.7)})
    y = keep([1, 2, 3], 0.9, kind="numeric")
    return frame, pr.Mechanism(
        {"a": keep(list("pqr"), 0.8), "b": pr.TransitionMatrix.binary(0.9, 0.8), "c": strata, "y": y}
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_the_factored_equation_equals_the_expanded_one(formula: str, family: str) -> None:
    frame, mechanism = response_and_three_covariates()
    table = read(frame)
    function = pr.glm(formula, family).prepare(table, mechanism.schema)
    factored = factored_equation(function, mechanism, table)
    expanded = function.equation(reverted_records(function, mechanism, table))
    assert isinstance(factored, FactoredLinear if family == "gaussian" else FactoredLog)
    rng, d = np.random.default_rng(1), len(function.parameters)
    betas, weights, w = 0.2 * rng.normal(size=(3, d)), rng.exponential(size=(3, table.n)), rng.random(table.n)
    ways = rng.normal(size=(2, 3, d))
    pairs = [
        *zip(factored.score_and_slope(betas, weights), expanded.score_and_slope(betas, weights), strict=True),
        (factored.influence(betas[0]), expanded.influence(betas[0])),
        (factored.clean_outer(betas[0], w), expanded.clean_outer(betas[0], w)),
        (factored.record_slopes_along(betas[0], *ways), expanded.record_slopes_along(betas[0], *ways)),
        (factored.score(betas, weights), expanded.score(betas, weights)),
    ]
    for ours, reference in pairs:
        np.testing.assert_allclose(ours, reference, rtol=1e-9, atol=1e-9 * np.abs(reference).max())


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_softened_records_factor_too(share: float) -> None:
    frame, mechanism = response_and_three_covariates()
    table = read(frame)
    function = pr.glm(FORMULAS[0], "poisson").prepare(table, mechanism.schema)
    factored = factored_equation(function, mechanism, table)
    assert factored is not None
    expanded = function.equation(reverted_records(function, mechanism, table))
    beta = np.linspace(-0.3, 0.3, len(function.parameters))
    soft, reference = (e.under(e.records.softened(share)).influence(beta) for e in (factored, expanded))
    np.testing.assert_allclose(soft, reference, atol=1e-10)


@pytest.mark.parametrize(
    ("formula", "family"), [("y ~ a + x", "gaussian"), ("y ~ a:b:c", "gaussian"), ("y2 ~ a + b", "binomial")]
)
def test_one_component_or_another_family_is_expanded(formula: str, family: str) -> None:
    frame, mechanism = response_and_three_covariates()
    table = read({**frame, "y2": (frame["y"] > 1).astype(int)})
    function = pr.glm(formula, family).prepare(table, mechanism.schema)
    assert factored_equation(function, mechanism, table) is None


def test_eight_columns_of_five_levels_are_no_obstacle() -> None:
    """390 625 combinations of levels: impossible to expand, a moment to factor."""
    rng, n, levels = np.random.default_rng(3), 4000, list("abcde")
    names = [f"v{k}" for k in range(8)]
    truth = {k: rng.choice(levels, n).astype(object) for k in names}
    effect = sum(0.5 * (truth[k] == "c") for k in names)
    frame = {**truth, "y": effect + rng.normal(size=n)}
    mechanism = pr.Mechanism({k: pr.TransitionMatrix.randomized_response(levels, 0.9) for k in names})
    with pytest.warns(UserWarning, match="not secure"):
        released = mechanism.perturb(frame, seed=1)
    result = pr.fit("y ~ " + " + ".join(names), released, mechanism)
    ours = np.array([result[f"{k}[T.c]"].estimate for k in names])
    errors = np.array([result[f"{k}[T.c]"].std_error for k in names])
    assert np.all(np.abs(ours - 0.5) < 4.5 * errors)
    assert np.all(result.price_of_privacy()["privacy_share"][1:] > 0.05)


def test_collinear_columns_across_components_are_named() -> None:
    frame, mechanism = response_and_three_covariates()
    with pytest.raises(pr.FormulaError, match="collinear"):
        pr.fit("y ~ a + b + x + I(2 * x)", frame, mechanism)


def test_the_summary_tells_what_was_summed() -> None:
    frame, mechanism = response_and_three_covariates()
    for formula, family, told in (
        ("y ~ a + b + c + x", "gaussian", ("Hidden levels summed", "7 a record, in 3 factors")),
        ("y ~ a * b + c + x", "poisson", ("Hidden levels summed", "8 a record, in 2 factors")),
        ("x ~ a * b * c", "gaussian", ("Hidden combinations summed", "12 a record")),
        ("y ~ a + x", "gaussian", None),
    ):
        facts = pr.fit(formula, frame, mechanism, family=family).facts
        assert next((fact for fact in facts.items() if "summed" in fact[0]), None) == told

"""The fast generalised linear equation equals the slow one that evaluates U at every node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.estimating.families import FAMILIES, Family
from pramana.estimators.reversion import reverted_records
from pramana.frames import read
from randomizations import bound, random_channel

EDU = ["low", "mid", "high"]
BETA = np.array([-0.6, 0.2, 0.3, -0.4])
FORMULA = "y ~ age + edu"
# Sums over 100 records of terms of order 1; the slow slope is a fourth-order difference good to about 1e-11 a record.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
EVERY = pytest.mark.parametrize(
    "family", [*FAMILIES.values(), pr.negative_binomial(0.4)], ids=lambda f: f"{f.name}-{f.link}"
)
PERTURBED = pytest.mark.parametrize("perturbed", [("y",), ("edu",), ("y", "edu")], ids="+".join)


@pytest.fixture
def columns(rng: np.random.Generator) -> dict[str, Any]:
    """Responses 1 and 2 suit every family but the binomial, which gets 0 and 1."""
    n = 100
    edu = np.array(rng.choice(EDU, n), dtype=object)
    return {"age": rng.uniform(-1, 1, n), "edu": edu, "y": rng.integers(0, 2, n)}


def levels_of(family: Family) -> list[int]:
    return [0, 1] if family.name == "binomial" else [1, 2]


def slow(family: Family) -> Any:
    def u(beta: Any, y: Any, age: Any, edu: Any) -> Any:
        x = np.column_stack([np.ones(len(age)), age, edu == "mid", edu == "high"]).astype(float)
        mu, _, a, _ = family.curve(x @ beta)
        return x * (a * (y - mu))[:, None]

    return pr.from_callable(u, ["Intercept", "age", "edu[T.mid]", "edu[T.high]"], start=[-1.0, 0.0, 0.0, 0.0])


@pytest.fixture
def pair(
    family: Family, perturbed: tuple[str, ...], columns: dict[str, Any], rng: np.random.Generator
) -> tuple[Any, Any]:
    levels = levels_of(family)
    shifted = {**columns, "y": columns["y"] + levels[0]}
    channels = {"y": random_channel(rng, levels), "edu": random_channel(rng, EDU)}
    mechanism = pr.Mechanism({name: channels[name] for name in perturbed})
    fast_data = shifted
    if "edu" not in perturbed:
        fast_data = pd.DataFrame(shifted).assign(edu=pd.Categorical(shifted["edu"], categories=EDU))
    table = read(fast_data)
    plan = pr.glm(FORMULA, family).prepare(table, mechanism.schema)
    fast = pr.Reversion().bind(plan, mechanism, table, np.ones(table.n)).equation
    return fast, bound(slow(family), shifted, mechanism)


@EVERY
@PERTURBED
def test_score_slope_and_influence_agree(pair: tuple[Any, Any], rng: np.random.Generator) -> None:
    fast, exact = pair
    betas = np.stack([BETA, BETA + 0.05])
    weights = rng.uniform(0, 2, (2, fast.n))
    score, slope = fast.score_and_slope(betas, weights)
    slow_score, slow_slope = exact.score_and_slope(betas, weights)
    np.testing.assert_allclose(score, slow_score, **CLOSE)
    np.testing.assert_allclose(slope, slow_slope, **CLOSE)
    np.testing.assert_allclose(fast.score(betas, weights), score, **CLOSE)
    np.testing.assert_allclose(fast.influence(BETA), exact.influence(BETA), **CLOSE)


@EVERY
@PERTURBED
def test_clean_squares_and_record_slopes_agree(pair: tuple[Any, Any], rng: np.random.Generator) -> None:
    fast, exact = pair
    lefts, rights, weights = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.uniform(0, 2, fast.n)
    np.testing.assert_allclose(fast.clean_outer(BETA, weights), exact.clean_outer(BETA, weights), **CLOSE)
    np.testing.assert_allclose(
        fast.record_slopes_along(BETA, lefts, rights), exact.record_slopes_along(BETA, lefts, rights), **CLOSE
    )


@EVERY
@PERTURBED
def test_a_pseudo_response_equals_full_nodes(
    family: Family, perturbed: tuple[str, ...], columns: dict[str, Any], rng: np.random.Generator
) -> None:
    levels = levels_of(family)
    shifted = {**columns, "y": columns["y"] + levels[0]}
    channels = {"y": random_channel(rng, levels), "edu": random_channel(rng, EDU)}
    mechanism = pr.Mechanism({name: channels[name] for name in perturbed})
    table = read(shifted)
    plan = pr.glm(FORMULA, family).prepare(table, mechanism.schema)
    collapsed, full = (plan.equation(reverted_records(plan, mechanism, table, collapse=c)) for c in (True, False))
    assert len(full.records.nodes) == len(collapsed.records.nodes) * (2 if "y" in perturbed else 1)
    np.testing.assert_allclose(collapsed.influence(BETA), full.influence(BETA), **CLOSE)
    ones = np.ones(table.n)
    np.testing.assert_allclose(collapsed.clean_outer(BETA, ones), full.clean_outer(BETA, ones), **CLOSE)


def test_a_softened_equation_is_naive_at_zero_and_reverted_at_one(
    columns: dict[str, Any], rng: np.random.Generator
) -> None:
    mechanism = pr.Mechanism({"y": random_channel(rng, [0, 1]), "edu": random_channel(rng, EDU)})
    table = read(columns)
    plan = pr.glm(FORMULA, "binomial").prepare(table, mechanism.schema)
    reverted = pr.Reversion().bind(plan, mechanism, table, np.ones(table.n)).equation
    naive = pr.Naive().bind(plan, mechanism, table, np.ones(table.n)).equation
    softened = [reverted.under(reverted.records.softened(t)).influence(BETA) for t in (0.0, 1.0)]
    np.testing.assert_allclose(softened[0], naive.influence(BETA), **CLOSE)
    np.testing.assert_allclose(softened[1], reverted.influence(BETA), **CLOSE)


def test_proportions_equal_their_definition(columns: dict[str, Any], rng: np.random.Generator) -> None:
    mechanism = pr.Mechanism({"edu": random_channel(rng, EDU)})

    def u(beta: Any, edu: Any) -> Any:
        return np.column_stack([edu == level for level in EDU]) - beta

    beta, weights = np.array([0.2, 0.5, 0.3]), rng.uniform(0, 2, 100)
    fast, exact = (bound(w, columns, mechanism) for w in (pr.proportions("edu"), pr.from_callable(u, EDU)))
    np.testing.assert_allclose(fast.influence(beta), exact.influence(beta), **CLOSE)
    np.testing.assert_allclose(fast.clean_outer(beta, weights), exact.clean_outer(beta, weights), **CLOSE)
    np.testing.assert_allclose(
        fast.score_and_slope(beta[None], weights[None])[1], exact.score_and_slope(beta[None], weights[None])[1], **CLOSE
    )

"""The hooks of an equation: few, declared, and sums that add over blocks of records, whatever the kind of equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.estimating.equation import Equation, central_slopes
from randomizations import bound

KINDS: dict[str, Any] = {
    "logit": pr.glm("employed ~ age + edu", "binomial"),
    "linear": pr.glm("income ~ age + edu"),
    "means": pr.mean("income", by="edu"),
    "total": pr.total("income"),
    "counts": pr.counts("edu"),
    "correlation": pr.correlation("age", "income"),
    "multinomial": pr.multinomial("edu ~ age"),
    "quantile regression": pr.quantile_regression("income ~ edu", 0.5),
    "median": pr.quantile("income", 0.5, by="edu"),
    "own": pr.from_callable(lambda beta, income: (income - beta[0])[:, None], ["m"]),
}


def test_there_are_few_hooks_and_each_says_what_it_is() -> None:
    members = {name: member for name, member in vars(Equation).items() if not name.startswith("_")}
    functions = {name: m.fget if isinstance(m, property) else m for name, m in members.items()}
    hooks = {name: f for name, f in functions.items() if not vars(f).get("__final__")}
    assert set(functions) - set(hooks) == {"n", "d", "score", "softened", "at_node", "means", "record_slopes"}
    assert len(hooks) <= 20
    assert [name for name, f in hooks.items() if not f.__doc__] == ["about"]


@pytest.fixture(params=KINDS)
def equation(request: pytest.FixtureRequest, survey: pd.DataFrame, mechanism: pr.Mechanism) -> Equation:
    return bound(KINDS[request.param], survey, mechanism)


def value_of(equation: Equation, rng: np.random.Generator) -> np.ndarray:
    direct = equation.direct
    if direct is not None:
        return direct.solution(direct.moments(np.ones((1, equation.n))))[0]
    return 0.1 * rng.normal(size=equation.d)


def test_sums_of_two_blocks_add(equation: Equation, rng: np.random.Generator) -> None:
    """Also those of a total, of which a parameter that each block took away would be taken away twice."""
    if equation.about.whole:
        pytest.skip("needs all records at once")
    beta, (w, w2) = value_of(equation, rng), rng.uniform(0.5, 2, (2, equation.n))
    blocks = [(equation.rows(rows), rows) for rows in (slice(0, 120), slice(120, None))]

    def sums(e: Equation, rows: slice = slice(None)) -> list[Any]:
        return [
            *e.score_and_slope(beta[None], w[None, rows]),
            *e.sums(beta, w[rows], w2[rows]),
            e.outer(beta, w2[rows]),
        ]

    for whole, first, second in zip(sums(equation), *(sums(*block) for block in blocks), strict=True):
        np.testing.assert_allclose(first + second, whole, rtol=1e-8, atol=1e-8 * (1 + np.abs(whole).max()))


def test_slopes_of_records_add_up_to_the_slope(equation: Equation, rng: np.random.Generator) -> None:
    if not equation.about.smooth or equation.about.sums or equation.about.shown:
        pytest.skip("no slope of records' own: a step function, a sum, or a function of means in its linear form")
    beta, w = value_of(equation, rng), rng.uniform(0.5, 2, equation.n)
    slopes = equation.record_slopes(beta)
    size = np.abs(slopes).max()
    np.testing.assert_allclose(slopes, central_slopes(equation.influence, beta), rtol=1e-6, atol=1e-6 * size)
    parts = equation.slope_parts(beta)
    if parts is not None:
        np.testing.assert_allclose(
            np.einsum("nq,nqi,nqj->nij", parts[1], parts[0], parts[0]), slopes, atol=1e-10 * size
        )
    lefts, rights = rng.normal(size=(2, 3, equation.d))
    plain = Equation.record_slopes_along(
        equation, beta, lefts, rights
    )  # by differences, unless nothing better is known
    along = np.einsum("ki,nij,kj->kn", lefts, slopes, rights)
    np.testing.assert_allclose(plain, along, rtol=1e-5, atol=1e-6 * np.abs(along).max())
    np.testing.assert_allclose(
        np.tensordot(w, slopes, 1), equation.slope(beta, w), rtol=1e-6, atol=1e-6 * size * equation.n
    )


def test_a_score_is_the_sum_of_those_at_each_truth(equation: Equation, rng: np.random.Generator) -> None:
    """Under signed weights; whatever was linearised at the reverted records stays so."""
    beta, records = value_of(equation, rng), equation.records
    equation = equation.learned(np.ones(equation.n), equation.n)
    every = np.arange(equation.n)
    parts = [records.mass(k, every)[:, None] * equation.at_node(beta, k) for k in range(records.combinations)]
    np.testing.assert_allclose(sum(parts), equation.influence(beta), atol=1e-9 * (1 + np.abs(parts).max()))


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_noise_is_undone_at_each_truth_of_another_column(
    family: str, survey: pd.DataFrame, rng: np.random.Generator
) -> None:
    edu = pr.TransitionMatrix.randomized_response(["low", "mid", "high"], keep=0.85)
    both = pr.Mechanism({"edu": edu, "age": pr.GaussianNoise(0.3)})
    equation = bound(pr.glm("female ~ age + edu", family), survey, both)
    beta, every = 0.1 * rng.normal(size=equation.d), np.arange(equation.n)
    parts = [equation.records.mass(k, every)[:, None] * equation.at_node(beta, k) for k in range(3)]
    np.testing.assert_allclose(sum(parts), equation.influence(beta), atol=1e-9)


def test_one_value_serves_all_draws(equation: Equation, rng: np.random.Generator) -> None:
    beta, weights = value_of(equation, rng), rng.uniform(0.5, 2, (3, equation.n))
    for one, each in zip(
        equation.score_and_slope(beta[None], weights),
        equation.score_and_slope(np.tile(beta, (3, 1)), weights),
        strict=True,
    ):
        np.testing.assert_allclose(one, each, rtol=1e-9, atol=1e-9 * (1 + np.abs(each).max()))

"""Systems of equations: reversion undoes the channel in each of them, and their slopes are derivatives."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.estimating.equation import central_slopes
from pramana.models.negative_binomial import NegativeBinomial
from randomizations import bound, random_channel

LEVELS = ["low", "mid", "high"]
PLANS = {
    "multinomial": (pr.multinomial("edu ~ x + t"), "edu"),
    "multinomial, covariate": (pr.multinomial("edu ~ x + t"), "t"),
    "ordinal": (pr.ordinal("edu ~ x + t"), "edu"),
    "ordinal, covariate": (pr.ordinal("rank ~ x + t"), "t"),
    "instruments": (pr.two_stage_least_squares("y ~ t + w | x + edu + w"), "edu"),
    "instruments, endogenous": (pr.two_stage_least_squares("y ~ t + w | x + edu + w"), "t"),
    "ipw": (pr.average_treatment_effect("y", "t", ["x", "edu"], "ipw"), "t"),
    "aipw": (pr.average_treatment_effect("y", "t", ["x", "edu"], "aipw"), "edu"),
    "aipw, binomial": (pr.average_treatment_effect("b", "t", ["x"], "aipw", family="binomial"), "b"),
    "quantile regression": (pr.quantile_regression("y ~ x + edu", 0.3, bandwidth=0.7), "edu"),
    "margins of levels": (pr.margins("b ~ x + edu", "edu", "binomial"), "edu"),
    "margins of a number": (pr.margins("b ~ x + I(x**2) + x:t", "x", "binomial", "probit"), "t"),
    "margins of classes": (pr.margins("edu ~ x + I(x**2) + t", None, "multinomial"), "edu"),
    "margins of ordered classes": (pr.margins("rank ~ x * t", None, "ordinal"), "t"),
    "margins at values": (
        pr.margins("b ~ x * edu + w", ["x", "w"], "binomial", at={"edu": LEVELS[:2], "x": 0.3}),
        "edu",
    ),
    "margins of classes at values": (pr.margins("edu ~ x * t", "x", "ordinal", at={"t": 1}), "edu"),
    "negative binomial": (NegativeBinomial("count ~ x + edu + offset(w)"), "edu"),
    "negative binomial, response": (NegativeBinomial("b ~ x + t"), "b"),
    "median": (pr.median("y", by="edu", bandwidth=0.5), "edu"),
    "several quantiles": (pr.quantile("y", [0.3, 0.5, 0.8], by="edu", bandwidth=0.5), "edu"),
    "share": (pr.share("y", 0.1, 0.9, by="edu"), "edu"),
    "poverty": (pr.poverty_rate("income", by="edu", bandwidth=0.5), "edu"),
}
every = pytest.mark.parametrize("name", PLANS)
# A uniform kernel has kinks: its slope is a density over a stated width, no derivative.
smooth = pytest.mark.parametrize(
    "name", [name for name in PLANS if name not in ("median", "several quantiles", "poverty")]
)


def data_of(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {
        "x": rng.normal(size=n),
        "w": rng.normal(size=n),
        "y": rng.normal(size=n),
        "income": rng.exponential(size=n),
        "edu": np.array([LEVELS[k % 3] for k in range(n)], dtype=object),
        "rank": np.arange(n) % 3,
        "t": np.arange(n) // 2 % 2,
        "b": np.arange(n) // 3 % 2,
        "count": np.arange(n) % 7,
    }


def channel_of(column: str, rng: np.random.Generator) -> pr.TransitionMatrix:
    return random_channel(rng, LEVELS, "ordinal") if column == "edu" else random_channel(rng, [0, 1])


def beta_of(equation: Any, rng: np.random.Generator) -> np.ndarray:
    d = len(equation.about.parameters)
    beta = 0.3 * rng.normal(size=d)
    if "|" in equation.about.parameters[0]:
        beta[:2] = np.sort(beta[:2]) + np.array([-0.5, 0.5])
    return beta


@every
def test_averaging_over_the_channel_returns_the_clean_score(name: str, rng: np.random.Generator) -> None:
    plan, column = PLANS[name]
    n = 24
    data, channel = data_of(rng, n), channel_of(column, rng)
    mechanism = pr.Mechanism({column: channel})
    size = len(channel.levels)
    released = {k: np.repeat(v, size) for k, v in data.items()}
    released[column] = np.resize(np.array(channel.levels, dtype=data[column].dtype), n * size)
    noisy = bound(plan, released, mechanism)
    identity = pr.TransitionMatrix(channel.levels, np.eye(size), kind=channel.kind)
    clean = bound(plan, data, pr.Mechanism({column: identity}))
    beta = beta_of(clean, rng)
    codes = [list(channel.levels).index(v) for v in data[column].tolist()]
    chance = channel.matrix[:, codes].T
    averaged = np.einsum("nk,nkd->nd", chance, noisy.influence(beta).reshape(n, size, -1))
    np.testing.assert_allclose(averaged, clean.influence(beta), atol=1e-10)
    outer = noisy.clean_outer(beta, chance.ravel())
    np.testing.assert_allclose(outer, clean.influence(beta).T @ clean.influence(beta), atol=1e-9)


@smooth
def test_slopes_are_derivatives(name: str, rng: np.random.Generator) -> None:
    plan, column = PLANS[name]
    mechanism = pr.Mechanism({column: channel_of(column, rng)})
    equation = bound(plan, data_of(rng, 60), mechanism)
    beta, w = beta_of(equation, rng), rng.exponential(size=60)
    numeric = central_slopes(lambda b: equation.score(b[None], w[None])[0], beta)
    score, slope = equation.score_and_slope(beta[None], w[None])
    np.testing.assert_allclose(slope[0], numeric, atol=1e-6 * np.abs(numeric).max())
    np.testing.assert_allclose(score[0], w @ equation.influence(beta), atol=1e-10)
    lefts, rights = rng.normal(size=(2, 3, beta.size))
    expected = np.einsum("ki,ij,kj->k", lefts, slope[0], rights)
    assert equation.record_slopes_along(beta, lefts, rights) @ w == pytest.approx(expected, rel=1e-5)


def test_multinomial_objective_has_the_score_as_gradient(rng: np.random.Generator) -> None:
    equation = bound(PLANS["multinomial"][0], data_of(rng, 60), pr.Mechanism({"edu": channel_of("edu", rng)}))
    beta, w = beta_of(equation, rng), np.ones((1, 60))
    numeric = central_slopes(lambda b: equation.objective(b[None], w), beta)[0]
    np.testing.assert_allclose(equation.score(beta[None], w)[0], numeric, atol=1e-7)
    assert equation.ascent is not None


def test_the_gini_of_released_groups_averages_to_the_clean_one(rng: np.random.Generator) -> None:
    """Σ_ij q_i q_j |y_i − y_j| is exactly unbiased for pairs; checked by enumerating every release of four records."""
    from itertools import product

    y, g, channel = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0, 1, 1, 0]), channel_of("t", rng)
    mechanism = pr.Mechanism({"t": channel})
    total = 0.0
    for released in product((0, 1), repeat=4):
        chance = np.prod(channel.matrix[np.array(released), g])
        measure = bound(pr.gini("income", by="t"), {"income": y, "t": np.array(released)}, mechanism).measure
        q = measure.cells[:, 1]
        total += chance * float(q @ np.abs(y[:, None] - y) @ q)
    assert total == pytest.approx(2 * abs(2.0 - 4.0))


def test_a_distribution_function_that_falls_is_rearranged(rng: np.random.Generator) -> None:
    """The rearranged quantile inverts the sorted values of F̂ on a fine grid."""
    from pramana.parameters.quantiles import Knots, crossings, rearranged_quantile

    y, masses = np.sort(rng.normal(size=30)), rng.normal(0.5, 1.0, size=(1, 30))
    for q in (0.2, 0.5, 0.8):
        knots = Knots.of(y, 0.3)
        grid = np.linspace(knots.points[0], knots.points[-1], 200_001)
        f = np.sort(np.interp(grid, knots.points, knots.function(masses)[0]))
        expected = grid[np.searchsorted(f, q)]
        assert rearranged_quantile(Knots.of(y, 0.3), masses, q)[0] == pytest.approx(expected, abs=1e-4)
    assert crossings(Knots.of(y, 0.3), masses, 0.5) >= 1


@pytest.mark.parametrize("dispersion", ["9e-7", "1e-8", "1e-10", "1e-16"])
def test_the_score_of_a_tiny_dispersion_is_no_rounding_error(dispersion: str) -> None:
    """Its terms cancel: against U = {Σ_{j<y} −α/(1 + αj) + log(1 + αμ)}/α + (y − μ)/(1 + αμ) in eighty digits."""
    counts, means, alpha = [0, 1, 3, 12], [Decimal("0.5"), Decimal("2.5"), Decimal(1), Decimal(9)], Decimal(dispersion)
    data = {"y": np.array(counts), "log_mu": np.log(np.array(means, dtype=float))}
    equation = bound(NegativeBinomial("y ~ offset(log_mu)"), data, None)
    beta = np.array([0.0, float(alpha.ln())])

    def score(y: int, mu: Decimal, a: Decimal) -> Decimal:
        risen = sum((a / (1 + a * j) for j in range(y)), Decimal(0))
        return ((1 + a * mu).ln() - risen) / a + (y - mu) / (1 + a * mu)

    with localcontext() as context:
        context.prec = 80
        exact = [score(y, mu, alpha) for y, mu in zip(counts, means, strict=True)]
        step = Decimal("1e-20")
        slope = sum((score(y, mu, alpha * (1 + step)) for y, mu in zip(counts, means, strict=True)), -sum(exact)) / step
    np.testing.assert_allclose(equation.influence(beta)[:, 1], [float(v) for v in exact], rtol=1e-6)
    np.testing.assert_allclose(equation.slope(beta, np.ones(4))[1, 1], float(slope), rtol=1e-4)

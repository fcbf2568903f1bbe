"""The slope of a quantile regression against the draws of Zeng and Lin (2008): U(β̂ + Z) regressed on Z by least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.engines import LocalEngine
from pramana.estimating.equation import Equation
from pramana.estimators.reversion import reverted_records
from pramana.frames.table import read
from pramana.inference import solve
from pramana.inference.sandwich import averaged_slope

KEEP = 0.8
MECHANISM = pr.Mechanism({"g": pr.TransitionMatrix.binary(KEEP, KEEP)})


def people(n: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    g, x = (rng.random(n) < 0.3).astype(int), rng.normal(size=n)
    y = 1 + x / 2 + 0.7 * g + rng.normal(size=n)
    return {"y": y, "x": x, "g": np.where(rng.random(n) < KEEP, g, 1 - g), "w": rng.uniform(0.5, 2.0, n)}


def engine_of(data: dict[str, Any], weights: Any = None) -> LocalEngine:
    table = read(data)
    function = pr.quantile_regression("y ~ x + g", 0.7).prepare(table, MECHANISM.schema)
    equation: Equation = function.equation(reverted_records(function, MECHANISM, table))
    return LocalEngine.of(equation, weights=weights).learned()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_closed_form_is_the_regression_of_many_draws(weighted: bool) -> None:
    data = people(400)
    engine = engine_of(data, data["w"] if weighted else None)
    root = solve(engine)
    slope, sharp = averaged_slope(engine, root), engine.sharp()
    assert slope is not None
    # At the fixed point the draws have twice the standard errors that the slope itself implies.
    bread = np.linalg.inv(slope)
    covariance = 4 * bread @ sharp.totals(root.beta).outer @ bread.T
    z = np.random.default_rng(1).multivariate_normal(np.zeros(3), covariance, 4000)
    z = np.concatenate([z, -z])
    u = engine.score(root.beta + z, engine.own)
    drawn = np.linalg.lstsq(z, u, rcond=None)[0].T
    scale = np.sqrt(np.outer(np.abs(np.diag(slope)), np.abs(np.diag(slope))))
    # 8000 draws leave about 1 %, and so do three rounds towards the fixed point; the kernel's own slope is off by more.
    np.testing.assert_allclose(drawn / scale, slope / scale, atol=0.02)
    kernel = engine.score_and_slope(root.beta[None], engine.own)[1][0]
    assert np.abs(kernel / scale - slope / scale).max() > 0.06


def test_the_variance_is_summed_without_the_kernel() -> None:
    data = people(300)
    engine = engine_of(data)
    root = solve(engine)
    sharp = engine.sharp()
    x = np.stack([np.column_stack([np.ones(300), data["x"], np.full(300, k)]) for k in (0, 1)])
    q = np.array([[KEEP, KEEP - 1], [KEEP - 1, KEEP]])[:, data["g"]] / (2 * KEEP - 1)
    phi = np.einsum("kn,knd->nd", q, x * (0.7 - (data["y"] <= x @ root.beta))[:, :, None])
    np.testing.assert_allclose(sharp.totals(root.beta).outer, phi.T @ phi, rtol=1e-6)


def test_a_bandwidth_that_was_asked_for_stays_in_the_variance() -> None:
    """Without noise and with a kernel as wide as the data, the estimate is nearly a mean and its error nearly that of one."""
    data = people(2000)
    wide = pr.fit(pr.quantile_regression("y ~ 1", 0.5, bandwidth=30.0), data, None)
    assert wide.standard_errors[0] == pytest.approx(np.std(data["y"]) / np.sqrt(2000), rel=0.01)


def test_the_same_answer_comes_every_time() -> None:
    data = people(500)
    first, second = (pr.fit(pr.quantile_regression("y ~ x + g"), data, MECHANISM) for _ in range(2))
    np.testing.assert_array_equal(first.covariance, second.covariance)

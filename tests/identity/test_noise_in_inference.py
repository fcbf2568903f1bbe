"""What inference asks of a noisy equation: the closed form says what the nodes say, and less and less noise the answer without any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.analysis.question import question
from pramana.estimating.noisy import NoisyLinear
from pramana.estimators import Reversion, reversion
from pramana.frames import read

CHANNELS: dict[str, Any] = {
    "laplace": pr.LaplaceNoise(0.4),
    "geometric": pr.GeometricNoise(0.5, step=0.5),
    "gaussian": pr.GaussianNoise(0.5),
    "uniform": pr.UniformNoise(1.5),
    "keep or noise": pr.KeepOrNoise(0.3, pr.GeometricNoise(0.6, step=0.5)),
}
BINARY = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)
INFERENCES: list[Any] = [None, pr.Sandwich("HC2"), pr.Sandwich(interval="score"), pr.Sandwich("HC1", interval="auto")]


def people(n: int = 80, *, spread: float = 2.0, seed: int = 4) -> dict[str, Any]:
    """Records whose numbers lie on a grid of a half, as every channel above can have released them."""
    rng = np.random.default_rng(seed)
    z, v, g = np.round(rng.normal(size=n) * 2 * spread) / 2, rng.normal(size=n), rng.integers(0, 2, n)
    y = 1 + z - v + 0.5 * g + rng.normal(size=n)
    c, w = np.sort(rng.integers(0, 12, n)), rng.uniform(0.5, 2, n)
    b = (rng.random(n) < 1 / (1 + np.exp(-0.4 * z - 0.3 * v))).astype(int)
    return {"z": z, "v": v, "g": g, "y": y, "c": c, "w": w, "b": b, "k": rng.poisson(np.exp(0.2 * z))}


def by_nodes(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **options: Any) -> Any:
    """The same fit with the noise spread over nodes that are exact in polynomials."""
    with monkeypatch.context() as patch:
        patch.setattr(reversion, "closed_form", lambda *_: {})
        return pr.fit(*arguments, **options)


def same(one: Any, other: Any, tolerance: float = 1e-7) -> None:
    np.testing.assert_allclose(one.estimate, other.estimate, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        one.covariance, other.covariance, rtol=tolerance, atol=tolerance * np.diag(one.covariance).max()
    )
    np.testing.assert_allclose(one.interval(), other.interval(), rtol=1e2 * tolerance, atol=1e2 * tolerance)
    codes = [[d.code for d in r.diagnostics if d.code != "filtered-on-perturbed"] for r in (one, other)]
    assert codes[0] == codes[1]  # but that numbers without noise are told from those with some
    if one.degrees_of_freedom is not None:
        np.testing.assert_allclose(one.degrees_of_freedom, other.degrees_of_freedom, rtol=1e2 * tolerance)


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("inference", INFERENCES, ids=str)
def test_the_closed_form_infers_what_nodes_do(name: str, inference: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = pr.Mechanism({"z": CHANNELS[name], "g": BINARY})
    for options in ({}, {"clusters": "c"}, {"weights": "w"}):
        if isinstance(inference, pr.Sandwich) and inference.correction == "HC2" and options:
            continue
        found = pr.fit("y ~ z + v + g", people(), mechanism, inference=inference, **options)
        slow = by_nodes(monkeypatch, "y ~ z + v + g", people(), mechanism, inference=inference, **options)
        same(found, slow)
        price, other = (f.price_of_privacy()["privacy_share"] for f in (found, slow))
        np.testing.assert_allclose(price, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("response", "family"), [("y", "gaussian"), ("b", "binomial"), ("k", "poisson")])
def test_few_records_have_hc2_by_its_formula(response: str, family: str) -> None:
    """Each record's share of the slope S_i, in the frame where they add up to 1, draws its score out by (1 − S_i)^(−1/2)."""
    data, mechanism = people(), pr.Mechanism({"z": pr.LaplaceNoise(0.3), "g": BINARY})
    result = pr.fit(f"{response} ~ z + g", data, mechanism, family=family, inference=pr.Sandwich("HC2"))
    table, plan = read(data), question(f"{response} ~ z + g", family=family)
    equation = Reversion().bind(plan.prepare(table, mechanism.schema), mechanism, table, np.ones(table.n)).equation
    assert isinstance(equation, NoisyLinear)
    beta, step = result.estimate, 1e-5
    slopes = np.stack(
        [(equation.influence(beta + step * e) - equation.influence(beta - step * e)) / (2 * step) for e in np.eye(3)],
        axis=2,
    )
    values, vectors = np.linalg.eigh(-slopes.sum(axis=0))
    half = (vectors * values**-0.5) @ vectors.T
    meat = np.zeros((3, 3))
    for phi, slope in zip(equation.influence(beta), slopes, strict=True):
        own, frame = np.linalg.eigh(np.eye(3) - half @ -slope @ half)
        drawn_out = (frame * own**-0.5) @ frame.T @ half @ phi
        meat += np.outer(drawn_out, drawn_out)
    np.testing.assert_allclose(result.covariance, half @ meat @ half, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("inference", INFERENCES, ids=str)
@pytest.mark.parametrize(("response", "family"), [("y", "gaussian"), ("b", "binomial"), ("k", "poisson")])
@pytest.mark.parametrize("noise", [pr.LaplaceNoise, pr.GaussianNoise], ids=["laplace", "gaussian"])
def test_noise_of_next_to_nothing_changes_nothing(noise: Any, response: str, family: str, inference: Any) -> None:
    # the eight-component mixture stands for the logistic function whatever the noise is: H to 2e-9, its derivatives to 2e-7
    tolerance = 2e-6 if noise is pr.GaussianNoise and family == "binomial" else 1e-7
    data = people(200)
    clean, noisy = (
        pr.fit(f"{response} ~ z * v + g", data, pr.Mechanism(channels), family=family, inference=inference)
        for channels in ({"g": BINARY}, {"g": BINARY, "z": noise(1e-5)})
    )
    same(clean, noisy, tolerance)


def test_weakness_is_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where noise leaves little to estimate the flags, and the score intervals in place of Wald's, are the same."""
    codes = set()
    for spread in (2.0, 0.55, 0.45, 0.3):
        data, mechanism = people(spread=spread), pr.Mechanism({"z": pr.LaplaceNoise(0.4)})
        inference = pr.Sandwich(interval="auto")
        found = pr.fit("y ~ z + v", data, mechanism, inference=inference)
        slow = by_nodes(monkeypatch, "y ~ z + v", data, mechanism, inference=inference)
        codes.update(d.code for d in found.diagnostics)
        assert {d.code for d in slow.diagnostics} == {d.code for d in found.diagnostics} - {"noise-outweighs-signal"}
        np.testing.assert_allclose(found.interval(), slow.interval(), rtol=1e-4, atol=1e-6)
    assert {"weakly-identified", "not-identified"} & codes


def test_the_naive_equation_needs_no_average_over_the_noise() -> None:
    """Judging identification compares with released values taken as true, also where coefficients are too large for the noise."""
    data, mechanism = people(), pr.Mechanism({"z": pr.LaplaceNoise(2.0)})
    table, plan = read(data), question("k ~ z", family="poisson")
    equation = Reversion().bind(plan.prepare(table, mechanism.schema), mechanism, table, np.ones(table.n)).equation
    naive, beta = plan.prepare(table, mechanism.schema).equation(equation.records), np.array([0.1, 0.8])
    assert not np.isfinite(equation.influence(beta)).all()
    np.testing.assert_allclose(equation.softened(0.0).influence(beta), naive.influence(beta), rtol=1e-12)

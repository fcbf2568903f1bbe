"""Without Monte Carlo: shares, their squares and densities of numbers that were kept or got noise, averaged over that, are the true ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_additive_noise import BINARY

import pramana as pr
from pramana.estimating.distribution import Distribution, kernel
from pramana.estimating.kept import KeptDistribution
from pramana.estimators import Reversion
from pramana.frames import read

NOISE = pr.KeepOrNoise(0.45, pr.LaplaceNoise(1.3))
STRATA = pr.Stratified("g", {0: NOISE, 1: pr.KeepOrNoise(0.7, pr.LaplaceNoise(0.4))})
NORMAL = pr.KeepOrNoise(0.6, pr.GaussianNoise(1.1))
UNIFORM = pr.KeepOrNoise(0.51, pr.UniformNoise(2.4))
NOISES = {"laplace": NOISE, "normal": NORMAL, "uniform": UNIFORM}


def equation(frame: pd.DataFrame, mechanism: pr.Mechanism, what: Any) -> Any:
    table = read(frame)
    return Reversion().bind(what.prepare(table, mechanism.schema), mechanism, table, np.ones(table.n)).equation


def measure(values: np.ndarray, noise: Any = NOISE, **others: Any) -> KeptDistribution:
    found = equation(pd.DataFrame({"z": values, **others}), pr.Mechanism({"z": noise}), pr.median("z")).measure
    assert isinstance(found, KeptDistribution)
    return found


def released(noise: Any, z: float, breaks: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """What z can be released as, by Gauss and Legendre between the places where something breaks or bends."""
    places, weights = np.polynomial.legendre.leggauss(20)
    inner = noise.inner
    if isinstance(inner, pr.UniformNoise):
        a = inner.width / 2
        bends = [b + k * a for b in (*breaks, z) for k in range(-25, 26)]
        edges = np.unique(np.concatenate([np.linspace(z - a, z + a, 9), [b for b in bends if abs(b - z) <= a]]))
    else:
        far = 40 * inner.scale if isinstance(inner, pr.LaplaceNoise) else 9 * inner.sd
        edges = np.unique(np.concatenate([np.linspace(z - far, z + far, 41), [z], breaks]))
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    w, mass = (middle[:, None] + half[:, None] * places).ravel(), (half[:, None] * weights).ravel()
    if isinstance(inner, pr.LaplaceNoise):
        density = np.exp(-np.abs(w - z) / inner.scale) / (2 * inner.scale)
    elif isinstance(inner, pr.GaussianNoise):
        density = np.exp(-(((w - z) / inner.sd) ** 2) / 2) / inner.sd / np.sqrt(2 * np.pi)
    else:
        density = np.full(w.size, 1 / inner.width)
    return np.append(w, z), np.append((1 - noise.keep) * mass * density, noise.keep)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("z", [-0.8, 0.5, 0.71, 2.3])
@pytest.mark.parametrize("h", [0.0, 1e-9, 0.2, 1.7])
def test_averages_are_true(name: str, z: float, h: float) -> None:
    t, noise = 0.7, NOISES[name]
    w, mass = released(noise, z, [t - h, t, t + h, t + 0.6 - h, t + 0.6 + h])
    found = measure(w, noise)
    true = kernel(np.array([t - z]), h)[0]
    assert mass @ found.below(t, h) == pytest.approx(true, abs=1e-8)
    for other in (t, t + 0.6):
        both = true * kernel(np.array([other - z]), h)[0]
        assert mass @ found.both_below(t, other, h) == pytest.approx(both, abs=1e-8)
        assert mass @ found.both_below(other, t, h) == pytest.approx(both, abs=1e-8)
    if h > 0:
        assert mass @ found.near(t, h) == pytest.approx(float(abs(t - z) <= h), abs=1e-8)


@pytest.mark.parametrize("noise", [NORMAL, UNIFORM, pr.Stratified("g", {0: NORMAL, 1: UNIFORM, 2: NOISE})])
@pytest.mark.parametrize("h", [0.0, 0.3])
def test_sums_by_a_table_are_those_of_the_records(noise: Any, h: float) -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(size=60), 90 + rng.normal(size=20)])
    found = measure(values, noise, g=rng.integers(0, 3, values.size) if isinstance(noise, pr.Stratified) else 0)
    masses, knots = rng.normal(size=(2, values.size)) + 1.5, found.knots(h)
    direct = [masses @ found.below(float(t), h) / masses.sum(axis=1) for t in knots.points]
    np.testing.assert_allclose(knots.function(masses), np.transpose(direct), rtol=0, atol=5e-5)


@pytest.mark.parametrize("h", [0.0, 1e-7, 0.3])
@pytest.mark.parametrize("strata", [False, True])
def test_the_distribution_function_at_its_knots_is_the_sum_of_the_records(h: float, strata: bool) -> None:
    """Also for values so far apart that exponentials overflow, for signed masses and for part of the noise undone."""
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(size=60), 800 + rng.normal(size=20), [-5000.0, 1e5]])
    found = measure(values, STRATA if strata else NOISE, g=rng.integers(0, 2, values.size))
    masses = rng.normal(size=(2, values.size)) + 1.5
    knots = found.knots(h)
    direct = [masses @ found.below(float(t), h) / masses.sum(axis=1) for t in knots.points]
    np.testing.assert_allclose(knots.function(masses), np.transpose(direct), rtol=0, atol=1e-8 if h != 1e-7 else 1e-6)


def test_nothing_undone_is_the_naive_distribution() -> None:
    values = np.random.default_rng(1).normal(size=50)
    kept = equation(pd.DataFrame({"z": values}), pr.Mechanism({"z": NOISE}), pr.median("z"))
    naive = kept.softened(0.0).measure
    plain = Distribution(values, np.ones((50, 1)), (), 50)
    np.testing.assert_allclose(naive.below(0.2, 0.3), plain.below(0.2, 0.3))
    np.testing.assert_allclose(naive.knots(0.3).function(np.ones((1, 50))), plain.knots(0.3).function(np.ones((1, 50))))


def test_the_score_vanishes_at_the_quantile_and_domains_commute() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"z": rng.gamma(2.0, size=3000), "d": rng.integers(0, 2, 3000)})
    mechanism = pr.Mechanism({"z": NOISE, "d": BINARY})
    with pytest.warns(UserWarning, match="not secure"):
        public = mechanism.perturb(frame, seed=4)
    for what in (pr.quantile("z", 0.3), pr.median("z", by="d")):
        found = equation(public, mechanism, what)
        weights = rng.random(3000) + 0.5
        beta = found.direct.solution(weights[None])[0]
        np.testing.assert_allclose(weights @ found.influence(beta) / 3000, 0, atol=1e-4)
        other = equation(public, pr.Mechanism({"d": BINARY, "z": NOISE}), what)
        np.testing.assert_allclose(other.influence(beta), found.influence(beta), rtol=1e-12)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("z", [-0.8, 0.5, 2.3])
def test_shares_of_intervals(name: str, z: float) -> None:
    """Score and square, averaged over what is released."""
    noise = NOISES[name]
    w, mass = released(noise, z, [0.1, 1.4])
    found = equation(pd.DataFrame({"z": w}), pr.Mechanism({"z": noise}), pr.share("z", 0.1, 1.4))
    true, beta = float(0.1 < z <= 1.4), np.array([0.3])
    assert mass @ found.influence(beta)[:, 0] == pytest.approx(true - 0.3, abs=1e-8)
    assert found.clean_outer(beta, mass)[0, 0] == pytest.approx((true - 0.3) ** 2, abs=1e-8)
    assert found.slope(beta, mass)[0, 0] == pytest.approx(-1, abs=1e-8)


def test_shares_of_clean_numbers_and_of_levels_are_proportions() -> None:
    values = np.arange(300) % 4
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response([0, 1, 2, 3], 0.8, kind="numeric")})
    for known in (None, mechanism):
        found = pr.fit(pr.share("z", 0, 2), {"z": values}, known)
        levels = pr.fit(pr.proportions("z"), {"z": values}, known)
        assert found.estimate[0] == pytest.approx(levels.estimate[1:3].sum())
        error = np.sqrt(levels.covariance[1:3, 1:3].sum())
        assert found.standard_errors[0] == pytest.approx(error, rel=0.005)  # n in place of n − 1
    with pytest.raises(pr.FormulaError, match="needs low=, high= or both"):
        pr.share("z")
    with pytest.raises(pr.FormulaError, match="low=2 must be below high=1"):
        pr.share("z", 2, 1)
    with pytest.raises(pr.FormulaError, match="high='a' must be a number"):
        pr.share("z", high="a")


GRID = pr.KeepOrNoise(0.45, pr.GeometricNoise(1.3, step=0.5))


NORMAL_GRID = pr.KeepOrNoise(0.55, pr.DiscreteGaussianNoise(0.8, step=0.5))


@pytest.mark.parametrize(
    "noise",
    [
        GRID,
        pr.Stratified("g", {0: GRID, 1: pr.KeepOrNoise(0.3, pr.GeometricNoise(0.7, step=0.5))}),
        NORMAL_GRID,
        pr.Stratified("g", {0: NORMAL_GRID, 1: GRID}),
    ],
)
def test_masses_of_a_grid_average_to_the_true_one(noise: Any) -> None:
    """Every place of the grid, averaged over all that a true value can be released as; not so with another scale."""
    z, steps = 1.5, np.arange(-90, 91)
    for stratum, own in noise.parts.items():
        chances = (1 - own.keep) * np.append(own.inner.masses, np.zeros(91))[np.abs(steps)] + own.keep * (steps == 0)
        frame = pd.DataFrame({"z": z + 0.5 * steps, "g": stratum or 0})
        found = equation(frame, pr.Mechanism({"z": noise}), pr.median("z")).measure
        masses = np.stack([chances @ found.per_record((found.values == v).astype(float), 0) for v in found.values])
        np.testing.assert_allclose(masses, found.values == z, atol=1e-10)
    frame = frame.assign(g=0)
    other = pr.KeepOrNoise(GRID.keep, pr.GeometricNoise(1.4, step=0.5))
    found = equation(frame, pr.Mechanism({"z": other}), pr.median("z")).measure
    chances = (1 - GRID.keep) * (1 - (a := GRID.inner.alpha)) / (1 + a) * a ** np.abs(steps) + GRID.keep * (steps == 0)
    assert abs(chances @ found.per_record((found.values == z).astype(float), 0) - 1) > 1e-3


def test_quantiles_and_shares_of_a_grid_have_intervals() -> None:
    """Sixty files: shares are covered, naive ones are not, and the true quantile is found."""
    z = np.rint(np.random.default_rng(4).gamma(4, 3, 60_000))
    mechanism, inside = pr.Mechanism({"z": pr.KeepOrNoise(0.6, pr.GeometricNoise(8.0))}), {"reversion": 0, "naive": 0}
    true = np.mean((z > 5) & (z <= 9))
    with pytest.warns(pr.PramanaWarning):
        released = mechanism.perturb({"z": z}, seed=1)["z"].reshape(60, 1000)
    for k, file in enumerate(released):
        for method in inside if k < 20 else ("reversion",):
            low, high = pr.fit(pr.share("z", 5, 9), {"z": file}, mechanism, method=method).interval()[0]
            inside[method] += int(low <= true <= high)
    assert inside["reversion"] >= 52  # 57 less three Monte Carlo errors
    assert inside["naive"] < 16  # of the first twenty
    found = pr.fit(pr.quantile("z", 0.9), {"z": released[:20].ravel()}, mechanism)
    assert abs(found.estimate[0] - np.quantile(z, 0.9)) <= 1


def test_a_grid_that_takes_too_many_places_is_refused() -> None:
    mechanism = pr.Mechanism({"z": pr.KeepOrNoise(0.6, pr.GeometricNoise(2.0))})
    with pytest.raises(
        pr.DataError,
        match=r"'z' and what stands for its numbers take 9\d+ steps of 1, and a distribution on a grid has at most 4000",
    ):
        pr.fit(pr.median("z"), {"z": [0.0, 3.0, 9_000.0]}, mechanism)

"""Survey designs with perturbed data: standard errors against the spread over samples and over releases."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, ndtr

import pramana as pr

KEEP = 0.8


def perturbed(z: np.ndarray, seed: int, keep: float = KEEP) -> np.ndarray:
    flip = np.random.default_rng([seed, 77]).random(len(z)) >= keep
    return np.where(flip, 1 - z, z)


def mechanism(keep: float = KEEP) -> pr.Mechanism:
    return pr.Mechanism({"z": pr.TransitionMatrix.binary(keep, keep)})


def population(size: int = 600) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    z = (rng.random(size) < 0.4).astype(np.int64)
    return {"z": z, "y": 1 + 2 * z + rng.normal(size=size), "h": np.repeat([0, 1], size // 2)}


def ratio(errors: list[np.ndarray], spread: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(np.square(errors), axis=0)) / spread


def test_around_a_finite_population_the_correction_spares_the_noise() -> None:
    """Half of every stratum is sampled: the design's part halves, the randomisation's part stays."""
    people, errors, estimates = population(), [], []
    design = pr.SurveyDesign(strata="h", fpc=np.full(300, 0.5), target="finite")
    for r in range(250):
        rng = np.random.default_rng([r, 1])
        rows = np.concatenate([rng.choice(300, 150, replace=False), 300 + rng.choice(300, 150, replace=False)])
        frame = {k: v[rows] for k, v in people.items()}
        result = pr.fit("y ~ z", {**frame, "z": perturbed(frame["z"], r)}, mechanism(), design=design)
        estimates.append(result.estimate)
        errors.append(result.standard_errors)
    spread = np.std(estimates, axis=0, ddof=1)
    np.testing.assert_allclose(ratio(errors, spread), 1.0, atol=4.5 / np.sqrt(2 * 400) + 0.02)
    shrunk = np.sqrt(0.5) * np.array([1.0, 1.0])
    assert np.all(np.abs(ratio(errors, spread) - shrunk) > 0.1)  # a correction that shrank everything would be seen


def test_around_the_file_the_error_is_the_spread_over_releases() -> None:
    people, errors, estimates = population(), [], []
    design = pr.SurveyDesign(strata="h", target="file")
    for r in range(200):
        result = pr.fit("y ~ z", {**people, "z": perturbed(people["z"], r)}, mechanism(), design=design)
        estimates.append(result.estimate)
        errors.append(result.standard_errors)
    spread = np.std(estimates, axis=0, ddof=1)
    np.testing.assert_allclose(ratio(errors, spread), 1.0, atol=4.5 / np.sqrt(2 * 300) + 0.02)
    oracle = pr.fit("y ~ z", people, None).estimate
    z = (np.mean(estimates, axis=0) - oracle) / (spread / np.sqrt(300))
    assert np.all(np.abs(z) < 4.5)


def clustered(r: int, strata: int = 40) -> dict[str, np.ndarray]:
    """Two villages a stratum, eight people a village."""
    rng = np.random.default_rng([r, 3])
    village = np.repeat(np.arange(2 * strata), 8)
    z = (rng.random(len(village)) < 0.4).astype(np.int64)
    effect = rng.normal(scale=0.5, size=2 * strata)[village] + np.repeat(rng.normal(size=strata), 16)
    return {"h": village // 2, "c": village, "z": z, "y": z + effect + rng.normal(size=len(village))}


def fitted(r: int, keep: float = KEEP, inference: object = None) -> pr.Result:
    frame = clustered(r)
    released = {**frame, "z": perturbed(frame["z"], r)}
    design = pr.SurveyDesign(strata="h", clusters="c")
    return pr.fit("y ~ z", released, mechanism(keep), design=design, inference=inference)  # type: ignore[arg-type]


@pytest.mark.verify
@pytest.mark.parametrize("inference", ["sandwich", "jackknife", "rao-wu"])
def test_two_clusters_a_stratum_are_enough(inference: str) -> None:
    """Multipliers that were not centred within strata would overstate the standard error by √1.7 here."""
    options = {"sandwich": None, "jackknife": pr.Jackknife(), "rao-wu": pr.Resampling(draws=120, scale="sd", seed=1)}
    replicates = 150
    results = [fitted(r, inference=options[inference]) for r in range(replicates)]
    estimates = np.array([r.estimate[1] for r in results])
    covered = np.mean([r.interval()[1, 0] <= 1 <= r.interval()[1, 1] for r in results])
    assert abs(covered - 0.95) < 4.5 * np.sqrt(0.05 * 0.95 / replicates) + 0.01
    errors = np.sqrt(np.mean([r.standard_errors[1] ** 2 for r in results]))
    assert abs(errors / estimates.std(ddof=1) - 1) < 4.5 / np.sqrt(2 * replicates) + 0.02
    assert abs(estimates.mean() - 1) < 4.5 * estimates.std() / np.sqrt(replicates)


def test_a_wrong_matrix_is_seen_under_a_design_too() -> None:
    estimates = np.array([fitted(r, keep=KEEP + 0.05).estimate[1] for r in range(160)])
    assert abs(estimates.mean() - 1) > 8 * estimates.std() / np.sqrt(250)


VILLAGES, SAMPLED, STRATA = 24, 8, 5


@cache
def country() -> dict[str, np.ndarray]:
    """A finite population: five strata of 24 villages whose sizes differ, so that the sum of weights varies."""
    rng = np.random.default_rng(21)
    size = rng.integers(5, 30, STRATA * VILLAGES)
    village = np.repeat(np.arange(STRATA * VILLAGES), size)
    z = (rng.random(len(village)) < np.repeat(rng.uniform(0.2, 0.6, STRATA * VILLAGES), size)).astype(np.int64)
    y = 3 + 2 * z + rng.normal(size=STRATA * VILLAGES)[village] + rng.normal(size=len(village))
    return {"h": village // VILLAGES, "c": village, "z": z, "y": y}


def drawn(r: int) -> dict[str, np.ndarray]:
    """Eight villages of every stratum, with everybody in them; what is released of z."""
    rng = np.random.default_rng([r, 8])
    chosen = np.concatenate([h * VILLAGES + rng.choice(VILLAGES, SAMPLED, replace=False) for h in range(STRATA)])
    rows = np.isin(country()["c"], chosen)
    sample = {k: v[rows] for k, v in country().items()}
    return {**sample, "z": perturbed(sample["z"], r), "w": np.full(rows.sum(), VILLAGES / SAMPLED)}


def population_total(name: str) -> np.ndarray:
    people = country()
    ones, y = people["z"] == 1, people["y"]
    sums = {"counts": [np.sum(~ones), np.sum(ones)], "by": [y[~ones].sum(), y[ones].sum()], "number": [ones.sum()]}
    return np.asarray(sums[name.split()[0]], dtype=float)


TOTALS = {
    "counts": pr.counts("z"),
    "by a perturbed domain": pr.total("y", by="z"),
    "number": pr.total("z"),
}


def estimated(name: str, r: int, believed: float = KEEP) -> pr.Result:
    design = pr.SurveyDesign(
        weights="w", strata="h", clusters="c", fpc=np.full(len(drawn(r)["z"]), VILLAGES), target="finite"
    )
    return pr.fit(TOTALS[name], drawn(r), mechanism(believed), design=design)


@pytest.mark.parametrize("replicates", [80, pytest.param(200, marks=pytest.mark.verify)])
@pytest.mark.parametrize("name", TOTALS)
def test_totals_of_a_finite_population_from_perturbed_cluster_samples(name: str, replicates: int) -> None:
    truth = population_total(name)
    results = [estimated(name, r) for r in range(replicates)]
    estimates = np.array([r.estimate for r in results])
    spread = estimates.std(axis=0, ddof=1)
    assert np.all(np.abs(estimates.mean(axis=0) - truth) < 4.5 * spread / np.sqrt(replicates))
    np.testing.assert_allclose(
        ratio([r.standard_errors for r in results], spread), 1.0, atol=4.5 / np.sqrt(2 * replicates) + 0.02
    )
    ends = np.array([r.interval() for r in results])
    covered = np.mean((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1]), axis=0)
    assert np.all(np.abs(covered - 0.95) < 4.5 * np.sqrt(0.05 * 0.95 / replicates) + 0.01)


def test_a_wrong_matrix_is_seen_in_totals() -> None:
    estimates = np.array([estimated("counts", r, KEEP + 0.05).estimate[1] for r in range(200)])
    gap = abs(estimates.mean() - population_total("counts")[1])
    assert gap > 8 * estimates.std() / np.sqrt(300)


@pytest.mark.verify
def test_a_known_size_makes_totals_more_precise_and_their_errors_know_it() -> None:
    """Sizes of villages carry most of the variance of a sum; size times the mean leaves it out."""
    size, replicates = len(country()["z"]), 200
    design = pr.SurveyDesign(weights="w", strata="h", clusters="c")
    known = [pr.fit(pr.total("y", size=size), drawn(r), mechanism(), design=design) for r in range(replicates)]
    plain = [pr.fit(pr.total("y"), drawn(r), mechanism(), design=design) for r in range(replicates)]
    shrunk = np.sqrt(1 - SAMPLED / VILLAGES)  # these errors are around the superpopulation, the spread is not
    spreads = [np.std([r.estimate[0] for r in results], ddof=1) for results in (known, plain)]
    errors = [shrunk * np.sqrt(np.mean([r.covariance[0, 0] for r in results])) for results in (known, plain)]
    allowed = 4.5 / np.sqrt(2 * replicates) + 0.02
    np.testing.assert_allclose(np.divide(errors, spreads), 1.0, atol=allowed)
    assert errors[0] / spreads[1] < 1 - allowed  # the error of the one would be wrong for the other


def logistic_villages(r: int) -> dict[str, np.ndarray]:
    """Answers that depend on each other within villages, though every one of them has the logistic law given x."""
    rng = np.random.default_rng([r, 13])
    village = np.repeat(np.arange(60), 20)
    x = 0.8 * rng.normal(size=60)[village] + 0.6 * rng.normal(size=len(village))
    latent = np.sqrt(0.7) * rng.normal(size=60)[village] + np.sqrt(0.3) * rng.normal(size=len(village))
    z = (ndtr(latent) < expit(-0.5 + x)).astype(np.int64)
    weights = 1 + (village // 12) + (x > 0)
    return {"h": village // 12, "c": village, "x": x, "z": perturbed(z, r), "w": weights.astype(float)}


def likely(r: int, keep: float = KEEP, **options: Any) -> pr.Result:
    designed = {"design": pr.SurveyDesign(weights="w", strata="h", clusters="c"), **options}
    return pr.fit("z ~ x", logistic_villages(r), mechanism(keep), family="binomial", method="likelihood", **designed)


@pytest.mark.verify
def test_the_pseudo_likelihood_has_the_designs_errors() -> None:
    replicates, truth = 250, np.array([-0.5, 1.0])
    results = [likely(r) for r in range(replicates)]
    estimates = np.array([r.estimate for r in results])
    spread = estimates.std(axis=0, ddof=1)
    assert np.all(np.abs(estimates.mean(axis=0) - truth) < 4.5 * spread / np.sqrt(replicates) + 0.01)
    found, allowed = ratio([r.standard_errors for r in results], spread), 4.5 / np.sqrt(2 * replicates) + 0.02
    np.testing.assert_allclose(found, 1.0, atol=allowed)
    ends = np.array([r.interval() for r in results])
    covered = np.mean((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1]), axis=0)
    assert np.all(np.abs(covered - 0.95) < 4.5 * np.sqrt(0.05 * 0.95 / replicates) + 0.01)
    alone = ratio([likely(r, design=None, weights="w").standard_errors for r in range(40)], spread)
    assert alone[0] < 1 - allowed  # errors that take records for independent would be seen


def test_a_wrong_matrix_is_seen_by_the_pseudo_likelihood() -> None:
    slopes = np.array([likely(r, KEEP + 0.05).estimate[1] for r in range(150)])
    assert abs(slopes.mean() - 1) > 8 * slopes.std() / np.sqrt(150)

"""Survey designs with perturbed data: standard errors against the spread over samples and over releases."""

from __future__ import annotations

import numpy as np
import pytest

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
    for r in range(400):
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
    for r in range(300):
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
    estimates = np.array([fitted(r, keep=KEEP + 0.05).estimate[1] for r in range(250)])
    assert abs(estimates.mean() - 1) > 8 * estimates.std() / np.sqrt(250)

"""Sandwich and resampling are two ways to the same standard error, whatever the law of the weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import settings
from montecarlo import Data, Setting, samples

import pramana as pr
from pramana.inference.resampling import spread

Log = Callable[[str, object], None]
ALLOWANCE = 0.02
"""Relative, beside three Monte Carlo errors: what a linearisation may be off by at n = 5000."""
LAWS = ("exponential", "poisson", "two-point")
lengths = pytest.mark.parametrize("draws", [280, pytest.param(3000, marks=pytest.mark.verify)])


def relative_error(scale: str, draws: int) -> float:
    """Of a standard error from normal draws; the interquartile range has 37 % of the efficiency of the deviation."""
    return float(1 / np.sqrt(2 * draws * (0.3675 if scale == "iqr" else 1.0)))


def agree(setting: Setting, data: Data, draws: int, law: str, log: Log) -> None:
    sandwich = setting.fit(data)
    resampled = setting.fit(data, inference=pr.Resampling(draws=draws, weights=law, seed=301))
    rows = []
    for scale in ("sd", "iqr"):
        ratio = spread(resampled.draws.values, scale) / sandwich.standard_errors
        error = relative_error(scale, draws)
        for name, value, r in zip(sandwich.parameters, sandwich.standard_errors, ratio, strict=True):
            row = {"scale": scale, "parameter": name, "draws": draws, "sandwich SE": value}
            rows.append({**row, "resampling / sandwich": r, "MC error": error, "z": (r - 1) / error})
        assert np.all(np.abs(ratio - 1) < 3 * error + ALLOWANCE)
    log("rows", rows)


def one(setting: Setting, seed: int) -> Data:
    return next(samples(setting, 1, seed))[1]


@lengths
@pytest.mark.parametrize("law", LAWS)
def test_resampling_agrees_with_the_sandwich_for_a_perturbed_response(
    law: str, draws: int, record_property: Log
) -> None:
    setting = settings.simulation_a1(0.85, 5000)
    agree(setting, one(setting, 302), draws, law, record_property)


@lengths
@pytest.mark.parametrize("law", LAWS)
def test_resampling_agrees_with_the_sandwich_for_a_perturbed_covariate(
    law: str, draws: int, record_property: Log
) -> None:
    setting = settings.two_level_covariate(5000)
    agree(setting, one(setting, 303), draws, law, record_property)


@lengths
@pytest.mark.parametrize("law", LAWS)
def test_resampling_agrees_with_the_sandwich_for_clusters(law: str, draws: int, record_property: Log) -> None:
    setting = settings.clustered(clusters=1500)
    agree(setting, one(setting, 304), draws, law, record_property)


@lengths
@pytest.mark.parametrize("law", LAWS)
def test_resampling_agrees_with_the_sandwich_for_sampling_weights(law: str, draws: int, record_property: Log) -> None:
    setting = settings.weighted(n=10_000)
    agree(setting, one(setting, 305), draws, law, record_property)


@lengths
@pytest.mark.parametrize("law", LAWS)
def test_resampling_agrees_with_the_sandwich_for_counted_cells(law: str, draws: int, record_property: Log) -> None:
    setting = settings.counted_cells(5000)
    agree(setting, setting.generate(np.random.default_rng(0)), draws, law, record_property)

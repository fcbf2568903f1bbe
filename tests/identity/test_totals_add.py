"""Totals of two halves add up to the totals of the whole."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.engines import LocalEngine, Totals
from randomizations import bound

BETA = np.array([0.3, -0.2, 0.5, 0.1])


def sample_of(frame: pd.DataFrame, mechanism: pr.Mechanism, clusters: Any, **options: Any) -> LocalEngine:
    equation = bound(pr.glm("employed ~ age + edu", "binomial"), frame, mechanism)
    return LocalEngine.of(equation, clusters=clusters, **options)


@pytest.fixture
def villages(survey: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 15, len(survey))


@pytest.fixture
def options(survey: pd.DataFrame, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "weights": rng.uniform(0.5, 2, len(survey)),
        "frequencies": rng.integers(1, 4, len(survey)).astype(float),
    }


def halves(survey: pd.DataFrame, mechanism: pr.Mechanism, clusters: Any, options: dict[str, Any]) -> list[Totals]:
    parts = (slice(0, 150), slice(150, None))
    return [
        sample_of(
            survey.iloc[s],
            mechanism,
            None if clusters is None else clusters[s],
            **{k: v[s] for k, v in options.items()},
        ).totals(BETA)
        for s in parts
    ]


@pytest.mark.parametrize("clustered", [False, True])
def test_two_halves_add_up_to_the_whole(
    clustered: bool,
    survey: pd.DataFrame,
    mechanism: pr.Mechanism,
    villages: np.ndarray,
    options: dict[str, np.ndarray],
) -> None:
    clusters = villages if clustered else None
    whole = sample_of(survey, mechanism, clusters, **options).totals(BETA)
    first, second = halves(survey, mechanism, clusters, options)
    added = first + second
    for name in [f.name for f in fields(Totals) if f.name not in ("clusters", "strata", "retained", "shared")]:
        np.testing.assert_allclose(getattr(added, name), getattr(whole, name), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(added.meat, whole.meat, rtol=1e-12, atol=1e-11)


def test_the_totals_of_a_design_add_up(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    """Strata and sampling units cross the halves; the randomisation's part that no finite population shrinks adds too."""
    from pramana.inference.survey import stratified

    n = len(survey)
    strata, clusters = np.arange(n) % 3, np.arange(n) % 21
    units, design = stratified(strata, clusters, np.full(n, 0.4), "finite", n)
    whole = sample_of(survey, mechanism, units, strata=design).totals(BETA)
    parts = [
        sample_of(survey.iloc[s], mechanism, units[s], strata=design).totals(BETA)
        for s in (slice(0, 150), slice(150, n))
    ]
    np.testing.assert_allclose(sum_of(parts).meat, whole.meat, rtol=1e-12, atol=1e-11)


def test_a_cluster_that_crosses_the_halves_is_merged_before_its_square(
    survey: pd.DataFrame, mechanism: pr.Mechanism, villages: np.ndarray
) -> None:
    first, second = halves(survey, mechanism, villages, {})
    squares_first = first.meat + second.meat
    assert not np.allclose((first + second).meat, squares_first, rtol=0.01)


def test_a_cluster_seen_by_one_block_alone_is_kept(
    survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = np.repeat([0, 1], [150, len(survey) - 150])
    whole = sample_of(survey, mechanism, clusters).totals(BETA)
    monkeypatch.setattr("pramana.engines.local.SMALLEST", 50)
    monkeypatch.setattr("pramana.engines.local.BLOCK_ENTRIES", 50)
    added = sample_of(survey, mechanism, clusters).totals(BETA)
    assert added.clusters is not None
    assert added.clusters.shape == (2, 4)
    np.testing.assert_allclose(added.clusters.sum(axis=0), added.score, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(added.meat, whole.meat, rtol=1e-12, atol=1e-11)


def sum_of(parts: list[Totals]) -> Totals:
    first, second = parts
    return first + second


def test_addition_does_not_depend_on_the_order(
    survey: pd.DataFrame, mechanism: pr.Mechanism, villages: np.ndarray
) -> None:
    first, second = halves(survey, mechanism, villages, {})
    np.testing.assert_array_equal((first + second).score, (second + first).score)
    np.testing.assert_allclose((first + second).meat, (second + first).meat, rtol=1e-12, atol=1e-11)

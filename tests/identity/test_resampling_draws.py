"""Draws belong to rows: a pure function of seed, draw and row, whatever the blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.engines import LocalEngine, engine
from pramana.kernels.streams import LAWS, multipliers, uniforms
from randomizations import bound

pytestmark = pytest.mark.usefixtures("large_sample")

DRAWS, ROWS = np.arange(12), np.arange(40)
RESAMPLING = pr.Resampling(draws=60, seed=7)


def test_a_subset_of_draws_and_rows_agrees_with_the_whole() -> None:
    whole = uniforms(5, DRAWS, ROWS)
    some_draws, some_rows = np.array([7, 2]), np.array([30, 0, 11])
    np.testing.assert_array_equal(uniforms(5, some_draws, some_rows), whole[np.ix_(some_draws, some_rows)])


def test_a_permutation_of_rows_permutes_the_draws(rng: np.random.Generator) -> None:
    order = rng.permutation(ROWS.size)
    np.testing.assert_array_equal(uniforms(5, DRAWS, ROWS[order]), uniforms(5, DRAWS, ROWS)[:, order])


@pytest.mark.parametrize("law", sorted(LAWS))
def test_multipliers_are_a_function_of_the_row_too(law: str) -> None:
    whole = multipliers(law, 5, DRAWS, ROWS)
    np.testing.assert_array_equal(multipliers(law, 5, DRAWS, ROWS[10:]), whole[:, 10:])


def test_another_seed_gives_other_numbers() -> None:
    assert not np.any(uniforms(5, DRAWS, ROWS) == uniforms(6, DRAWS, ROWS))


def test_the_same_seed_gives_the_same_result(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    first, second = (pr.fit("income ~ edu", survey, mechanism, inference=RESAMPLING) for _ in range(2))
    np.testing.assert_array_equal(first.draws.values, second.draws.values)
    assert first.to_dict()["resampling"]["seed"] == 7


def test_the_recorded_fresh_seed_repeats_the_result(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    first = pr.fit("income ~ edu", survey, mechanism, inference=pr.Resampling(draws=40))
    again = pr.fit("income ~ edu", survey, mechanism, inference=pr.Resampling(draws=40, seed=first.draws.seed))
    np.testing.assert_array_equal(first.draws.values, again.draws.values)


def test_more_draws_begin_with_the_fewer(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    few, many = (pr.fit("income ~ edu", survey, mechanism, inference=pr.Resampling(draws=n, seed=3)) for n in (30, 50))
    np.testing.assert_allclose(many.draws.values[:30], few.draws.values, rtol=1e-8, atol=1e-10)


def test_the_size_of_the_blocks_changes_nothing(
    survey: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pr.fit("income ~ edu", survey, mechanism, inference=RESAMPLING)
    monkeypatch.setattr(engine, "WEIGHT_ENTRIES", 7 * len(survey))
    blocks = pr.fit("income ~ edu", survey, mechanism, inference=RESAMPLING)
    np.testing.assert_allclose(blocks.draws.values, whole.draws.values, rtol=1e-8, atol=1e-10)


def test_a_draw_is_the_fit_under_its_weights(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    """Every resampled value solves the weighted equation, as a fit with those sampling weights does."""
    result = pr.fit("income ~ age + edu", survey, mechanism, inference=RESAMPLING)
    weights = multipliers("exponential", 7, np.arange(3), np.arange(len(survey)))
    for draw, w in zip(result.draws.values, weights, strict=False):
        expected = pr.fit("income ~ age + edu", survey, mechanism, weights=w).estimate
        np.testing.assert_allclose(draw, expected, rtol=1e-7, atol=1e-9)


def test_the_records_of_a_cluster_share_their_multiplier(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    clusters = np.arange(len(survey)) % 9
    engine = LocalEngine.of(bound(pr.mean("income"), survey, mechanism), clusters=clusters)
    weights = engine.drawn("exponential", 7, np.arange(4)).values
    for g in range(9):
        assert np.all(np.ptp(weights[:, clusters == g], axis=1) == 0)
    assert len(np.unique(weights[0])) == 9


@pytest.mark.parametrize("law", ["exponential", "poisson", "two-point"])
def test_sampling_weights_scale_their_multipliers(law: Any, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    equation = bound(pr.mean("income"), survey, mechanism)
    plain = LocalEngine.of(equation).drawn(law, 1, DRAWS).values
    scaled = LocalEngine.of(equation, weights=np.full(400, 2.5)).drawn(law, 1, DRAWS).values
    np.testing.assert_allclose(scaled, 2.5 * plain, rtol=1e-15)

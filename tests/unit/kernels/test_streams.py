"""Weight draws: their bits and their laws."""

from __future__ import annotations

import numpy as np
import pytest

from pramana.kernels.streams import LAWS, STREAM_VERSION, keys, mix, multipliers, uniforms

# Monte Carlo bounds of 4.5 standard errors; the draws are fixed by the seed, so a pass cannot turn into a failure.
DRAWS, ROWS = np.arange(200), np.arange(500)
SIZE = DRAWS.size * ROWS.size
FOURTH_MOMENT = {"exponential": 9.0, "poisson": 4.0, "two-point": 1.0}
"""E (w − 1)⁴: the variance of the squared deviation is this less 1."""


def test_the_stream_of_version_one_is_fixed() -> None:
    """A change of these numbers changes every resampled standard error: raise STREAM_VERSION with it."""
    assert STREAM_VERSION == 1
    expected = [[0.6415841386704303, 0.06031720002298668], [0.8950615743171259, 0.8868371836049321]]
    np.testing.assert_array_equal(uniforms(2024, np.array([0, 1]), np.array([0, 1])), expected)


def test_mix_is_the_finalizer_of_splitmix64() -> None:
    """First outputs of SplitMix64 seeded with 0 (Steele, Lea and Flood 2014; Vigna's splitmix64.c)."""
    weyl = np.array([1, 2, 3], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert [hex(v) for v in mix(weyl)] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]


def test_uniforms_lie_strictly_inside_the_unit_interval() -> None:
    u = uniforms(1, DRAWS, ROWS)
    assert 0 < u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1


def test_uniforms_fill_their_interval_evenly() -> None:
    counts = np.histogram(uniforms(1, DRAWS, ROWS), bins=20, range=(0, 1))[0]
    expected = SIZE / 20
    assert np.abs(counts - expected).max() < 4.5 * np.sqrt(expected)


def test_neighbouring_rows_and_draws_are_uncorrelated() -> None:
    u = uniforms(1, DRAWS, ROWS) - 0.5
    limit = 4.5 / 12 / np.sqrt(SIZE)
    assert abs(np.mean(u[:, 1:] * u[:, :-1])) < limit
    assert abs(np.mean(u[1:] * u[:-1])) < limit


def test_every_draw_and_every_seed_has_a_key_of_its_own() -> None:
    found = np.concatenate([keys(seed, np.arange(2000)) for seed in range(20)])
    assert len(np.unique(found)) == found.size


def test_a_negative_or_a_large_seed_is_taken_modulo_64_bits() -> None:
    np.testing.assert_array_equal(uniforms(-1, DRAWS[:2], ROWS[:3]), uniforms(2**64 - 1, DRAWS[:2], ROWS[:3]))


@pytest.mark.parametrize("law", sorted(LAWS))
def test_every_law_is_non_negative_with_mean_one_and_variance_one(law: str) -> None:
    w = multipliers(law, 3, DRAWS, ROWS)
    assert w.min() >= 0
    assert w.mean() == pytest.approx(1, abs=4.5 / np.sqrt(SIZE))
    spread = np.sqrt((FOURTH_MOMENT[law] - 1) / SIZE)
    assert np.mean((w - 1) ** 2) == pytest.approx(1, abs=4.5 * spread + 1e-12)


@pytest.mark.parametrize("law", sorted(LAWS))
@pytest.mark.parametrize("count", [1.0, 3.0, 40.0])
def test_a_count_draws_the_law_of_a_sum(law: str, count: float) -> None:
    """Mean c and variance c; the fourth moment of a sum is c (m₄ − 3) + 3c²."""
    w = multipliers(law, 3, DRAWS, ROWS, np.full(ROWS.size, count))
    fourth = count * (FOURTH_MOMENT[law] - 3) + 3 * count**2
    assert w.mean() == pytest.approx(count, abs=4.5 * np.sqrt(count / SIZE))
    assert np.mean((w - count) ** 2) == pytest.approx(count, abs=4.5 * np.sqrt((fourth - count**2) / SIZE) + 1e-12)


def test_a_count_of_one_is_an_exponential() -> None:
    plain, counted = (multipliers("exponential", 3, DRAWS[:5], ROWS, c) for c in (None, np.ones(ROWS.size)))
    np.testing.assert_allclose(counted, plain, rtol=1e-10)


def test_gamma_counts_have_the_skewness_of_a_gamma() -> None:
    """Skewness 2/√c sets a sum of exponentials apart from a normal approximation."""
    w = multipliers("exponential", 3, DRAWS, ROWS, np.full(ROWS.size, 4.0))
    assert np.mean(((w - 4) / 2) ** 3) == pytest.approx(1.0, abs=0.1)

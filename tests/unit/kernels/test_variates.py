"""Random variables of simulated records: their bits, their laws, and that a device has the same."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from pramana.kernels.streams import starts_of, uniforms
from pramana.kernels.variates import CountedVariates, perturbing

WORD = 2**64
STARTS, N = starts_of(range(1, 201)), 500
SIZE = len(STARTS) * N
# Bounds of 4.5 standard errors; the numbers are fixed by their seeds, so a pass cannot turn into a failure.


def mixed(word: int) -> int:
    """SplitMix64's finaliser in whole numbers of Python."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % WORD
    return word ^ (word >> 31)


def word_of(seed: int, stream: int, record: int) -> int:
    """The slow and obvious one."""
    weyl = 0x9E3779B97F4A7C15
    key = mixed(mixed((seed + weyl) % WORD) ^ mixed((stream * weyl + 0xBF58476D1CE4E5B9) % WORD))
    return mixed((key + (record + 1) * weyl) % WORD)


def fraction(word: int) -> float:
    return (2 * (word >> 12) + 1) / 2**53


def test_every_number_is_a_function_of_seed_stream_and_record() -> None:
    draw = CountedVariates.of(starts_of([7, 2**63 + 5]), 4)
    first, normal = draw.uniform(), draw.normal()
    for g, seed in enumerate((7, 2**63 + 5)):
        for i in range(4):
            assert first[g, i] == fraction(word_of(seed, 0, i))
            expected = NormalDist().inv_cdf(fraction(word_of(seed, 1, i)))
            assert normal[g, i] == pytest.approx(expected, rel=1e-14)
            assert int(draw.words(perturbing(1, 1))[g, i]) == word_of(seed, 2 * 2**32 + 1, i)


def test_neither_other_data_sets_nor_more_records_change_a_number() -> None:
    whole, one = CountedVariates.of(starts_of([3, 4, 5]), 100), CountedVariates.of(starts_of([4]), 30)
    for _ in range(3):
        np.testing.assert_array_equal(whole.normal()[1, :30], one.normal()[0])


def test_records_share_no_bits_with_resampling_weights_of_another_seed() -> None:
    """One seed has one set of streams: the studies give data and weights seeds of their own."""
    data = CountedVariates.of(starts_of([11]), 50).uniform()[0]
    np.testing.assert_array_equal(data, uniforms(11, np.array([0]), np.arange(50))[0])
    assert not np.isin(data, uniforms(12, np.arange(20), np.arange(50))).any()


def test_the_laws() -> None:
    draw = CountedVariates.of(STARTS, N)
    u, z, y = draw.uniform(), draw.normal(), draw.coin(0.3)
    bound = 4.5 / np.sqrt(SIZE)
    assert abs(u.mean() - 0.5) < bound / np.sqrt(12)
    assert abs(z.mean()) < bound
    assert abs((z**2).mean() - 1) < bound * np.sqrt(2)
    assert abs((z**4).mean() - 3) < bound * np.sqrt(96)
    assert abs(y.mean() - 0.3) < bound * np.sqrt(0.21)
    assert abs((z**2).mean() - 1.1) > bound * np.sqrt(2)  # the bound is one that a wrong scale misses
    for a, b in ((u - 0.5, z), (z, y - 0.3), (z[:, 1:], z[:, :-1]), (z[1:], z[:-1])):
        assert abs((a * b).mean()) < bound * a.std() * b.std() * 1.05


def test_normals_have_the_right_distribution_in_the_tails() -> None:
    z = CountedVariates.of(STARTS, N).normal()
    for q in (-3.0, -2.0, -1.0, 0.5, 2.5, 3.2):
        p = NormalDist().cdf(q)
        assert abs((z < q).mean() - p) < 4.5 * np.sqrt(p * (1 - p) / SIZE)


def test_coins_follow_chances_that_differ() -> None:
    draw = CountedVariates.of(STARTS, N)
    eta = draw.normal()
    chance = draw.expit(eta)
    np.testing.assert_allclose(chance, 1 / (1 + np.exp(-eta)), rtol=1e-14)
    y = draw.coin(chance)
    assert y.dtype == np.int64
    assert abs((y - chance).mean()) < 4.5 * 0.5 / np.sqrt(SIZE)
    assert abs(((y - chance) * eta).mean()) < 4.5 * 0.5 / np.sqrt(SIZE)


def test_a_device_has_the_same_bits(as_if_gpu: Any) -> None:
    """Words and uniforms are equal; an inverse normal may differ in its last three bits."""
    import jax.numpy as jnp
    import jax.scipy.special

    host = CountedVariates.of(STARTS, N)
    with as_if_gpu.wide():
        rows = jnp.arange(N, dtype=jnp.uint64)
        device = CountedVariates(jnp.asarray(STARTS), rows, jax.scipy.special)
        np.testing.assert_array_equal(device.words(3), host.words(3))
        np.testing.assert_array_equal(device.uniform(), host.uniform())
        z = host.normal()
        np.testing.assert_allclose(device.normal(), z, rtol=2e-15, atol=0)
        np.testing.assert_allclose(device.expit(z), host.expit(z), rtol=2e-15, atol=0)


@pytest.mark.parametrize(("name", "cell"), [("a1", 0), ("a2", 17), ("b1", 5), ("b2", 400)])
def test_a_device_makes_the_data_sets_of_the_papers_studies(name: str, cell: int, as_if_gpu: Any) -> None:
    """True and released codes are equal, numbers to their last bits."""
    from pramana.kernels.device_data import make
    from pramana.studies.study import study_of

    assert as_if_gpu is not None
    scenario, replicates = study_of(name).scenarios[cell], range(3, 103)
    truth, released = scenario.data(5, replicates)
    (assignment,) = scenario.mechanism.assignments
    (column,), form = assignment.columns, assignment.channel.form
    starts = scenario.starts(5, replicates)
    found = make(scenario.generate.columns, starts, scenario.n, column, assignment.channel.levels, form.cuts)
    for made, table in zip(found, (truth, released), strict=True):
        codes = np.asarray(made.codes)[:, : scenario.n].ravel()
        np.testing.assert_array_equal(codes, table.column(column))
    for other, values in found[0].columns.items():
        here = np.asarray(values)[:, : scenario.n].ravel()
        np.testing.assert_allclose(here, truth.column(other), rtol=2e-15, atol=1e-15)
    assert (truth.column(column) != released.column(column)).mean() > 0.01

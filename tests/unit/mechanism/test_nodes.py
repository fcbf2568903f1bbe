"""A reversion is a small table and a row index, and says the same as weights by record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.mechanism.channels.transition import SHARED_LEVELS

P = pr.TransitionMatrix(["a", "b", "c"], [[0.8, 0.1, 0.2], [0.1, 0.7, 0.1], [0.1, 0.2, 0.7]])
K_ARY = pr.TransitionMatrix.randomized_response(["a", "b", "c"], 0.6)
CODES = np.array([2, 0, 0, 1, 2, 2])
REGION = np.array(["n", "s", "s", "n", "s", "n"], dtype=object)


@pytest.mark.parametrize("channel", [P, K_ARY])
def test_a_transition_matrix_has_one_row_a_released_level(channel: pr.TransitionMatrix) -> None:
    nodes = channel.revert(CODES, {})
    np.testing.assert_array_equal(nodes.row, CODES)
    np.testing.assert_allclose(nodes.table, channel.inverse.T, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(nodes.released, [0, 1, 2])
    np.testing.assert_array_equal(nodes.weights, nodes.table[CODES])


def test_many_levels_have_rows_only_where_they_occur() -> None:
    size = SHARED_LEVELS + 44
    channel = pr.TransitionMatrix.randomized_response(range(size), 0.5, kind="numeric")
    codes = np.tile([7, 250, 7, 299], 100)
    nodes = channel.revert(codes, {})
    assert nodes.table.shape == (3, size)
    np.testing.assert_array_equal(nodes.released, [7, 250, 299])
    np.testing.assert_array_equal(nodes.released[nodes.row], codes)
    np.testing.assert_allclose(nodes.weights, channel.inverse.T[codes], rtol=0, atol=1e-15)


def test_a_table_is_never_longer_than_the_records() -> None:
    assert P.revert(np.array([2]), {}).table.shape == (1, 3)
    assert P.revert(np.array([], dtype=int), {}).weights.shape == (0, 3)


def test_strata_stack_their_rows() -> None:
    nodes = pr.Stratified("region", {"n": P, "s": K_ARY, "elsewhere": P}).revert(CODES, {"region": REGION})
    assert nodes.table.shape == (6, 3)
    expected = [(P if r == "n" else K_ARY).inverse.T[c] for r, c in zip(REGION, CODES, strict=True)]
    np.testing.assert_allclose(nodes.weights, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(nodes.released[nodes.row], CODES)


def _examples() -> list[pr.Nodes]:
    by_record = pr.Nodes.by_record((0, 1), np.array([[1.5, -0.5], [-0.5, 1.5], [0.25, 0.75]]), np.array([0, 1, 1]))
    return [P.revert(CODES, {}), pr.LaplaceNoise(0.3).revert(np.array([1.0, 4.0, 2.0]), {}), by_record]


@pytest.mark.parametrize("nodes", _examples())
def test_a_block_of_records_is_the_same_as_their_part_of_the_whole(nodes: pr.Nodes) -> None:
    rows = slice(1, 3)
    part = nodes.block(rows)
    np.testing.assert_array_equal(part.weights, nodes.weights[rows])
    np.testing.assert_array_equal(part.released[part.row], nodes.released[nodes.row][rows])
    for value, whole in zip(part.values, nodes.values, strict=True):
        np.testing.assert_array_equal(value, whole[rows] if isinstance(whole, np.ndarray) else whole)
    assert len(part.table) <= max(len(nodes.table), part.n)


@pytest.mark.parametrize("nodes", _examples())
def test_softening_runs_from_the_released_value_to_the_reversion(nodes: pr.Nodes) -> None:
    naive = np.zeros_like(nodes.weights)
    naive[np.arange(nodes.n), nodes.released[nodes.row]] = 1
    for t in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(nodes.softened(t).weights, (1 - t) * naive + t * nodes.weights, rtol=0, atol=1e-15)


def test_additive_noise_needs_one_row_for_everybody() -> None:
    nodes = pr.LaplaceNoise(0.3).revert(np.linspace(0, 1, 50), {})
    assert nodes.table.shape == (1, 5)
    np.testing.assert_allclose(
        nodes.reverted(lambda v: v[:, None] ** 2)[:, 0], np.linspace(0, 1, 50) ** 2 - 0.18, atol=1e-9
    )


def test_hooks_without_a_default_must_be_written() -> None:
    class Half(pr.Channel):
        def encode(self, columns: Any, names: Any) -> Any: ...

    with pytest.raises(TypeError, match=r"document.*epsilon.*kind.*levels.*perturb.*revert"):
        Half()  # type: ignore[abstract]


def test_a_channel_without_levels_says_that_it_has_no_likelihood() -> None:
    with pytest.raises(pr.MechanismError, match=r"LaplaceNoise gives no probability.*method='reversion'"):
        pr.LaplaceNoise(1.0).likelihood(np.array([1.0]), {})
    with pytest.raises(pr.MechanismError, match=r"'y'.*is a LaplaceLike: give a TransitionMatrix"):
        pr.Mechanism({"y": type("LaplaceLike", (), {})()})

"""Σ_i P[i, j] u*(i, x) = u(j, x): averaging the reversion over the channel returns the function."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import pramana as pr
from randomizations import bound, random_channel, random_matrix

# Entries of Q are below about 10, so sums of a few dozen products keep 13 digits of numbers of order 1.
TOLERANCE = 1e-10
LEVELS = "abcdef"
SIZES = [2, 3, 4, 5, 6]
BETA = np.array([0.4, -0.7])


def random_u(rng: np.random.Generator) -> Any:
    """Rows of a random table, bent by x and β differently at every level."""
    table = rng.normal(size=(len(LEVELS), 2))
    rate = rng.normal(size=len(LEVELS))

    def u(beta: Any, z: Any, x: Any) -> Any:
        code = np.array([LEVELS.index(v) for v in z])
        return table[code] * np.exp(rate[code] * x * beta[0])[:, None] + np.sin(x * beta[1])[:, None]

    return u


def reverted(u: Any, mechanism: pr.Mechanism, **columns: Any) -> np.ndarray:
    return bound(pr.from_callable(u, ["first", "second"]), columns, mechanism).influence(BETA)


def column(values: Any) -> np.ndarray:
    return np.array(list(values), dtype=object)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_averaging_the_reversion_over_a_transition_matrix_returns_u(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    channel, u, x = random_channel(rng, LEVELS[:size]), random_u(rng), rng.normal(size=5)
    released, others = column(LEVELS[:size] * x.size), np.repeat(x, size)
    star = reverted(u, pr.Mechanism({"z": channel}), z=released, x=others).reshape(x.size, size, 2)
    truth = u(BETA, released, others).reshape(x.size, size, 2)
    np.testing.assert_allclose(np.einsum("ij,xid->xjd", channel.matrix, star), truth, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("size", SIZES)
def test_averaging_a_reverted_table_over_the_channel_returns_the_table(size: int, rng: np.random.Generator) -> None:
    table = rng.normal(size=(size, 4))
    for channel in (
        random_channel(rng, LEVELS[:size]),
        pr.TransitionMatrix.randomized_response(LEVELS[:size], keep=0.7),
    ):
        np.testing.assert_allclose(channel.matrix.T @ channel.revert_table(table), table, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("size", SIZES)
def test_the_closed_form_of_randomized_response_undoes_itself(size: int, rng: np.random.Generator) -> None:
    channel, u = pr.TransitionMatrix.randomized_response(LEVELS[:size], keep=0.6), random_u(rng)
    released, x = column(LEVELS[:size]), np.full(size, 0.8)
    star = reverted(u, pr.Mechanism({"z": channel}), z=released, x=x)
    np.testing.assert_allclose(channel.matrix.T @ star, u(BETA, released, x), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("size", SIZES)
def test_a_function_of_the_column_alone_reverts_alike_by_table_and_by_nodes(
    size: int, rng: np.random.Generator
) -> None:
    channel = random_channel(rng, range(size), kind="numeric")
    codes = rng.integers(0, size, 20)
    nodes = channel.revert(codes, {})

    def power(values: Any) -> Any:
        return np.column_stack([values, np.asarray(values, dtype=float) ** 3])

    by_nodes = nodes.weights @ power(np.array(nodes.values))
    np.testing.assert_allclose(channel.revert_function(power, codes, {}), by_nodes, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("size", SIZES)
def test_every_stratum_is_undone_by_its_own_matrix(size: int, rng: np.random.Generator) -> None:
    strata = {region: random_channel(rng, LEVELS[:size]) for region in ("north", "south")}
    mechanism, u = pr.Mechanism({"z": pr.Stratified("region", strata)}), random_u(rng)
    released, region = column(LEVELS[:size] * 2), column(np.repeat(["south", "north"], size))
    x = np.full(2 * size, -0.3)
    star = reverted(u, mechanism, z=released, x=x, region=region)
    truth = u(BETA, released, x)
    for name, channel in strata.items():
        rows = region == name
        np.testing.assert_allclose(channel.matrix.T @ star[rows], truth[rows], rtol=0, atol=TOLERANCE)


def joint_u(table: np.ndarray) -> Any:
    def u(beta: Any, a: Any, b: Any, x: Any) -> Any:
        first = np.array([LEVELS.index(v) for v in a])
        second = np.array([LEVELS.index(v) for v in b])
        return table[first, second] * np.cos(beta[0] + x)[:, None]

    return u


def test_a_joint_matrix_over_possible_combinations_is_undone(rng: np.random.Generator) -> None:
    combinations = [("a", "a"), ("b", "a"), ("b", "b"), ("a", "c"), ("b", "c")]  # ("a", "b") is a structural zero
    channel, u = random_channel(rng, combinations), joint_u(rng.normal(size=(6, 6, 2)))
    a, b = (column(v) for v in zip(*combinations, strict=True))
    x = np.full(len(combinations), 0.2)
    star = reverted(u, pr.Mechanism({("a", "b"): channel}), a=a, b=b, x=x)
    np.testing.assert_allclose(channel.matrix.T @ star, u(BETA, a, b, x), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("first", "second"), [(2, 2), (2, 5), (4, 3)])
def test_two_composed_channels_are_undone_together(first: int, second: int, rng: np.random.Generator) -> None:
    left, right = random_channel(rng, LEVELS[:first]), random_channel(rng, LEVELS[:second])
    pairs = list(product(LEVELS[:first], LEVELS[:second]))
    a, b = (column(v) for v in zip(*pairs, strict=True))
    x, u = np.full(len(pairs), 1.1), joint_u(rng.normal(size=(6, 6, 2)))
    star = reverted(u, pr.Mechanism({"a": left, "b": right}), a=a, b=b, x=x).reshape(first, second, 2)
    average = np.einsum("ik,jl,ijd->kld", left.matrix, right.matrix, star)
    np.testing.assert_allclose(average.reshape(-1, 2), u(BETA, a, b, x), rtol=0, atol=TOLERANCE)


def test_a_wrong_matrix_does_not_undo_the_channel(rng: np.random.Generator) -> None:
    u, levels = random_u(rng), column(LEVELS[:3])
    used, true = random_channel(rng, LEVELS[:3]), random_matrix(rng, 3)
    star = reverted(u, pr.Mechanism({"z": used}), z=levels, x=np.ones(3))
    assert np.abs(true.T @ star - u(BETA, levels, np.ones(3))).max() > 0.01


def test_a_column_that_u_does_not_use_needs_no_reversion(rng: np.random.Generator) -> None:
    mechanism = pr.Mechanism({"z": random_channel(rng, "abc"), "other": random_channel(rng, "ab")})
    u, z, x = random_u(rng), column("abc"), np.arange(3.0)
    star = reverted(u, mechanism, z=z, x=x, other=column("aba"))
    alone = reverted(u, pr.Mechanism({"z": mechanism.assignments[0].channel}), z=z, x=x)
    np.testing.assert_array_equal(star, alone)

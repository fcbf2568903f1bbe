"""Reports that are no levels: averaged over every report that can be made, the reversion is a point mass at the truth.

The chances of the reports are written down here from the definitions, so that the channels' own arithmetic is not its own judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.mechanism.channels.encodings.encoding import Encoding

LEVELS = ["a", "b", "c", "d", "e"]
K = len(LEVELS)
EPSILON = 1.3
EXACT = {"rtol": 0, "atol": 1e-12}


def unary(p: float, q: float) -> Iterator[tuple[object, list[float]]]:
    """Every string of bits, with its chance under every level."""
    for bits in product([0, 1], repeat=K):
        chances = [
            math.prod((p if k == j else q) if b else 1 - (p if k == j else q) for k, b in enumerate(bits))
            for j in range(K)
        ]
        yield "".join(map(str, bits)), chances


def subsets(size: int) -> Iterator[tuple[object, list[float]]]:
    with_truth = size * math.exp(EPSILON) / (size * math.exp(EPSILON) + K - size)
    for chosen in combinations(range(K), size):
        inside, outside = with_truth / math.comb(K - 1, size - 1), (1 - with_truth) / math.comb(K - 1, size)
        yield "|".join(LEVELS[k] for k in chosen), [inside if j in chosen else outside for j in range(K)]


def hadamard() -> Iterator[tuple[object, list[float]]]:
    from scipy.linalg import hadamard as sylvester

    signs = sylvester(8)
    for c in range(8):
        total = 8 / 2 * (math.exp(EPSILON) + 1)
        yield c, [(math.exp(EPSILON) if signs[j + 1, c] > 0 else 1.0) / total for j in range(K)]


def rectangular() -> Iterator[tuple[object, list[float]]]:
    for i, row in enumerate(RECTANGLE):
        yield f"r{i}", row


_RAW = np.random.default_rng(3).uniform(0.05, 1, size=(8, K)) + 3 * np.eye(8, K)
RECTANGLE = (_RAW / _RAW.sum(axis=0)).tolist()
LABELS = [f"r{i}" for i in range(8)]
PI = np.array([0.4, 0.3, 0.15, 0.1, 0.05])

Reports = Callable[[], Iterator[tuple[object, list[float]]]]
CASES: dict[str, tuple[Any, Reports]] = {
    "unary": (pr.UnaryEncoding(LEVELS, 0.7, 0.2), lambda: unary(0.7, 0.2)),
    "optimized": (
        pr.UnaryEncoding.optimized(LEVELS, EPSILON),
        lambda: unary(0.5, 1 / (math.exp(EPSILON) + 1)),
    ),
    "symmetric": (
        pr.UnaryEncoding.symmetric(LEVELS, EPSILON),
        lambda: unary(1 / (1 + math.exp(-EPSILON / 2)), 1 / (1 + math.exp(EPSILON / 2))),
    ),
    "rappor": (
        pr.UnaryEncoding.rappor(LEVELS, f=0.4, p=0.3, q=0.8),
        lambda: unary(0.2 * 0.3 + 0.8 * 0.8, 0.2 * 0.8 + 0.8 * 0.3),
    ),
    "subset of 1": (pr.SubsetSelection(LEVELS, EPSILON, 1), lambda: subsets(1)),
    "subset of 2": (pr.SubsetSelection(LEVELS, EPSILON, 2), lambda: subsets(2)),
    "subset of 4": (pr.SubsetSelection(LEVELS, EPSILON, 4), lambda: subsets(4)),
    "hadamard": (pr.HadamardResponse(LEVELS, EPSILON), hadamard),
    "rectangular": (pr.RectangularMatrix(LEVELS, RECTANGLE, released=LABELS), rectangular),
    "rectangular, optimal": (
        pr.RectangularMatrix(LEVELS, RECTANGLE, released=LABELS).optimal_for(PI),
        rectangular,
    ),
}


def enumerated(name: str) -> tuple[Any, Any, np.ndarray]:
    """The channel, all its reports as it reads them, and their chances (reports, levels)."""
    channel, reports = CASES[name]
    values, chances = zip(*reports(), strict=True)
    column = np.array(values, dtype=object if isinstance(values[0], str) else None)
    return channel, channel.read([column], ["x"]), np.array(chances)


@pytest.mark.parametrize("name", CASES)
def test_the_weights_average_to_the_truth(name: str) -> None:
    channel, encoded, chances = enumerated(name)
    np.testing.assert_allclose(chances.sum(axis=0), 1, **EXACT)
    weights = channel.revert(encoded, {}).weights
    np.testing.assert_allclose(chances.T @ weights, np.eye(K), **EXACT)
    np.testing.assert_allclose(weights.sum(axis=1), 1, **EXACT)


@pytest.mark.parametrize("name", CASES)
def test_epsilon_is_the_largest_log_ratio_of_all_reports(name: str) -> None:
    channel, _, chances = enumerated(name)
    assert channel.epsilon == pytest.approx(np.log(chances.max(axis=1) / chances.min(axis=1)).max(), abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_likelihood_is_the_chance_of_the_report_up_to_a_factor(name: str) -> None:
    channel, encoded, chances = enumerated(name)
    found = channel.likelihood(encoded, {})
    np.testing.assert_allclose(
        found / found.sum(axis=1, keepdims=True), chances / chances.sum(axis=1, keepdims=True), **EXACT
    )


@pytest.mark.parametrize("name", CASES)
def test_rows_that_reports_share_change_nothing(name: str) -> None:
    """A table by distinct report, and the same weights by record."""
    channel, encoded, _ = enumerated(name)
    many = np.concatenate([encoded] * 3)
    nodes = channel.revert(many, {})
    assert len(nodes.table) <= len(encoded)
    np.testing.assert_array_equal(nodes.weights, np.concatenate([channel.revert(encoded, {}).weights] * 3))


def test_many_levels_share_rows_too() -> None:
    """More bits than fit into one word."""
    channel = pr.HadamardResponse(range(150), 1.0, kind="nominal")
    reports = np.arange(1024) % channel.order
    encoded = channel.read([reports], ["x"])
    nodes = channel.revert(encoded, {})
    assert len(nodes.table) == channel.order == 256
    np.testing.assert_array_equal(nodes.weights, channel.weights(encoded))


def test_local_hashing_averages_to_the_truth_over_all_hash_functions() -> None:
    """Every function from the levels to the buckets is equally likely, and so is every wrong value of the response."""
    channel = pr.LocalHashing(LEVELS, EPSILON, buckets=3)
    keep = math.exp(EPSILON) / (math.exp(EPSILON) + 2)
    total = np.zeros((K, K))
    for function in product(range(3), repeat=K):
        for value in range(3):
            weights = channel.weights(np.array([[h == value for h in function]]))[0]
            chance = [keep if function[j] == value else (1 - keep) / 2 for j in range(K)]
            total += np.outer(chance, weights) / 3**K
    np.testing.assert_allclose(total, np.eye(K), **EXACT)
    assert channel.epsilon == pytest.approx(math.log(keep / ((1 - keep) / 2)), abs=1e-12)


def test_local_hashing_with_its_own_hash_is_unbiased_over_seeds() -> None:
    """2¹⁷ seeds, all values enumerated: what is left is the spread of the hash over seeds, a few times 1/√2¹⁷."""
    channel = pr.LocalHashing(LEVELS, EPSILON, buckets=4)
    n = 1 << 17
    seeds = (np.arange(n) * 2654435761) % 2**32  # scattered over all 32 bits
    total = np.zeros((K, K))
    keep = channel.hit
    for value in range(4):
        support = channel.read([seeds, np.full(n, value)], ["seed", "value"])
        weights = channel.weights(support)
        total += np.where(support, keep, (1 - keep) / 3).T @ weights / n
    np.testing.assert_allclose(total, np.eye(K), rtol=0, atol=5 / math.sqrt(n))


@pytest.mark.parametrize("number", [0, 7, 12, 123, 12345, 1234567])
def test_the_hash_is_xxh32(number: int) -> None:
    """Numbers of the reference implementation, python-xxhash 4.1.0."""
    from pramana.mechanism.channels.encodings.hashing import xxh32

    known = {
        0: [1212501170, 2104232556, 1388534737, 2323326042],
        7: [548432130, 786299508, 1481194558, 2467682842],
        12: [3560278447, 3742249769, 3190708253, 2523529213],
        123: [3062191159, 2569538424, 2498142903, 1031676376],
        12345: [3003995828, 2544060598, 2362280730, 2230232683],
        1234567: [3717027150, 2571046565, 3697479057, 4129850175],
    }
    seeds = np.array([0, 1, 2**31 + 5, 2**32 - 1], dtype=np.uint32)
    assert xxh32(number, seeds).tolist() == known[number]


def test_seeds_beyond_32_bits_are_cut_as_the_reference_cuts_them() -> None:
    channel = pr.LocalHashing(LEVELS, EPSILON, buckets=4)
    values = np.zeros(3, dtype=int)
    small, large = np.array([1, 2, 3]), np.array([1, 2, 3]) + 2**40
    np.testing.assert_array_equal(channel.read([small, values], ["s", "v"]), channel.read([large, values], ["s", "v"]))


def test_the_optimal_inverse_has_the_smallest_variance() -> None:
    """Among left inverses whose columns sum to 1; any other is Q + M(I − PQ), and its variance at π is larger."""
    channel = pr.RectangularMatrix(LEVELS, RECTANGLE, released=LABELS).optimal_for(PI)
    P, Q = channel.matrix, channel.inverse
    pinv = np.linalg.pinv(P)
    even = pinv - (np.ones((K, K)) @ pinv - 1) / K
    equal = pr.RectangularMatrix(LEVELS, RECTANGLE, released=LABELS).inverse
    for other in (even, equal):
        np.testing.assert_allclose(other @ P, np.eye(K), **EXACT)
        np.testing.assert_allclose(other.sum(axis=0), 1, **EXACT)
        assert np.all((other**2) @ (P @ PI) + 1e-12 >= (Q**2) @ (P @ PI))
    assert np.any((even**2) @ (P @ PI) - 1e-6 > (Q**2) @ (P @ PI))


def test_a_square_rectangle_is_the_transition_matrix() -> None:
    square = pr.TransitionMatrix.randomized_response(LEVELS, 0.6)
    same = pr.RectangularMatrix(LEVELS, square.matrix, released=LEVELS)
    np.testing.assert_allclose(same.inverse, square.inverse, **EXACT)
    assert same.epsilon == pytest.approx(square.epsilon, abs=1e-12)


@pytest.mark.parametrize("name", [n for n in CASES if isinstance(CASES[n][0], Encoding)])
def test_the_chances_that_a_report_supports_a_level(name: str) -> None:
    channel, encoded, chances = enumerated(name)
    supported = chances.T @ encoded
    expected = np.where(np.eye(K) == 1, channel.hit, channel.false_hit)
    np.testing.assert_allclose(supported, expected, **EXACT)

"""Channels of other programs: the matrices are those of their own definitions, followed step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana import imports

LEVELS = ["a", "b", "c"]
ROWS = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]])


def test_the_rows_of_sdcmicro_are_original_levels() -> None:
    found = imports.sdcmicro(ROWS, LEVELS, version="5.7.8")
    np.testing.assert_array_equal(found.matrix, ROWS.T)
    assert found.conditional
    frame = pd.DataFrame(ROWS, index=LEVELS, columns=LEVELS)
    assert imports.sdcmicro(frame, version="5.5.2") == found
    assert not imports.sdcmicro(frame, version="5.7.8", conditional=False).conditional


def test_old_versions_of_sdcmicro_changed_changed_values_again() -> None:
    """Followed record by record, as the loop of do.pram did: `which(xpramed == levs[i])`, drawn from row i."""
    found = imports.sdcmicro(ROWS, LEVELS, version="5.5.1").matrix
    slow = np.zeros((3, 3))
    for true in range(3):
        chances = np.eye(3)[true]
        for i in range(3):
            moved = chances[i]
            chances[i] = 0.0
            chances = chances + moved * ROWS[i]
        slow[:, true] = chances
    np.testing.assert_allclose(found, slow, rtol=0, atol=1e-15)
    assert np.abs(found - ROWS.T).max() > 0.05


def test_the_example_of_the_old_versions_is_possible_under_the_matrix_at_work() -> None:
    """sdcMicro's issue 303: from 3 to 5 (3 of 200) and from 2 to 5 (2 of 200) although the matrix has zeros there."""
    band = np.zeros((5, 5))
    for i, row in enumerate([[0.9, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.1, 0.9]]):
        band[i, max(i - 1, 0) : max(i - 1, 0) + len(row)] = row
    old = imports.sdcmicro(band, [1, 2, 3, 4, 5], version="5.5.1", conditional=False).matrix
    counts = np.array([
        [181, 17, 2, 0, 0], [15, 166, 17, 0, 2], [0, 12, 156, 29, 3], [0, 0, 18, 166, 16], [0, 0, 0, 19, 181],
    ])  # fmt: skip
    assert np.all(old.T[counts > 0] > 0)
    new = imports.sdcmicro(band, [1, 2, 3, 4, 5], version="5.5.2", conditional=False).matrix
    assert np.any(new.T[counts > 0] == 0)


def test_protocols_of_multi_freq_ldpy() -> None:
    """Parameters as its version 0.2.5 computes them."""
    epsilon, k, levels = 1.2, 10, list(range(10))
    e = math.exp(epsilon)
    sub = max(1, round(k / (e + 1)))
    p_subset = sub * e / (sub * e + k - sub)
    q_subset = ((sub - 1) * sub * e + (k - sub) * sub) / ((k - 1) * (sub * e + k - sub))
    buckets = round(e) + 1
    expected = {
        "SUE": (math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1), 1 / (math.exp(epsilon / 2) + 1)),
        "OUE": (0.5, 1 / (e + 1)),
        "SS": (p_subset, q_subset),
        "BLH": (e / (e + 1), 1 / 2),
        "OLH": (e / (e + buckets - 1), 1 / buckets),
    }
    for name, (p, q) in expected.items():
        channel: Any = imports.multi_freq_ldpy(name, levels, epsilon)
        assert (channel.hit, channel.false_hit) == pytest.approx((p, q), abs=1e-14)
        assert channel.epsilon == pytest.approx(epsilon)
    assert imports.multi_freq_ldpy("grr", levels, epsilon) == pr.TransitionMatrix.from_epsilon(levels, epsilon)


def test_measurements_of_opendp() -> None:
    plain: Any = imports.opendp("make_randomized_response", ["a", "b", "c"], prob=0.8)
    assert plain == pr.TransitionMatrix.randomized_response(["a", "b", "c"], 0.8)
    truth: Any = imports.opendp("make_randomized_response_bool", prob=0.75)
    assert truth.levels == (False, True)
    assert truth.epsilon == pytest.approx(math.log(3))
    bits: Any = imports.opendp("then_randomized_response_bitvec", ["a", "b", "c"], f=0.5)
    assert (bits.p, bits.q) == (0.75, 0.25)


def test_noise_of_opendp_and_diffprivlib() -> None:
    assert imports.opendp("make_laplace", scale=2.0, version="0.16.0") == pr.LaplaceNoise(2.0)
    assert imports.opendp("then_laplace", scale=2.0, integers=True, bounds=(0, 9)) == pr.GeometricNoise(
        2.0, bounds=(0, 9)
    )
    assert imports.opendp("make_geometric", scale=2.0) == pr.GeometricNoise(2.0)
    assert imports.opendp("make_gaussian", scale=3.0) == pr.GaussianNoise(3.0)
    assert imports.opendp("make_base_discrete_gaussian", scale=3.0) == pr.DiscreteGaussianNoise(3.0)
    assert imports.diffprivlib("Laplace", epsilon=0.5, sensitivity=4, version="0.6.6") == pr.LaplaceNoise(8.0)
    assert imports.diffprivlib("Laplace", epsilon=1, delta=0.5, sensitivity=4) == pr.LaplaceNoise(4 / (1 + math.log(2)))
    clamped = imports.diffprivlib("LaplaceTruncated", epsilon=0.5, sensitivity=4, lower=0, upper=10)
    assert clamped == pr.LaplaceNoise(8.0, (0, 10)).clamped()
    assert imports.diffprivlib("Geometric", epsilon=0.5) == pr.GeometricNoise(2.0)
    normal = imports.diffprivlib("Gaussian", epsilon=0.5, delta=1e-5, sensitivity=2)
    assert normal == pr.GaussianNoise(4 * math.sqrt(2 * math.log(125_000)))
    assert imports.diffprivlib("Uniform", delta=0.1, sensitivity=2) == pr.UniformNoise(20.0)


def noise(epsilon: float, sensitivity: float) -> tuple[np.ndarray, np.ndarray]:
    steps = np.arange(-250, 251)
    ratio = math.exp(-epsilon / sensitivity)
    return steps, (1 - ratio) / (1 + ratio) * ratio ** np.abs(steps)


def folded(value: float, lower: float, upper: float) -> float:
    """diffprivlib's own way, mirror by mirror."""
    while not lower <= value <= upper:
        value = 2 * lower - value if value < lower else 2 * upper - value
    return value


@pytest.mark.parametrize(("lower", "upper"), [(0, 4), (-3, 2), (1, 2), (-0.5, 3.5), (0, 2.5), (-1.5, 2)])
@pytest.mark.parametrize("sensitivity", [1, 3.5])
def test_folded_geometric_noise_of_diffprivlib(lower: float, upper: float, sensitivity: float) -> None:
    found = imports.diffprivlib("GeometricFolded", epsilon=0.9, lower=lower, upper=upper, sensitivity=sensitivity)
    levels = list(range(math.ceil(lower), math.floor(upper) + 1))
    slow = np.zeros((len(levels), len(levels)))
    for j, level in enumerate(levels):
        for step, chance in zip(*noise(0.9, sensitivity), strict=True):
            slow[levels.index(int(folded(level + step, lower, upper))), j] += chance
    assert found.levels == tuple(levels)
    np.testing.assert_allclose(found.matrix, slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sensitivity", [1, 3.5])
def test_truncated_geometric_noise_of_diffprivlib(sensitivity: float) -> None:
    found = imports.diffprivlib("GeometricTruncated", epsilon=0.9, lower=-2, upper=3, sensitivity=sensitivity)
    slow = np.zeros((6, 6))
    for j, level in enumerate(range(-2, 4)):
        for step, chance in zip(*noise(0.9, sensitivity), strict=True):
            slow[min(max(level + step, -2), 3) + 2, j] += chance
    np.testing.assert_allclose(found.matrix, slow, rtol=0, atol=1e-12)
    assert found.kind == "numeric"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: imports.sdcmicro(ROWS, version="5.7.8"), "levels are needed"),
        (lambda: imports.sdcmicro(ROWS, LEVELS, version="new"), "version='new' must be a version of sdcMicro"),
        (
            lambda: imports.sdcmicro(ROWS.T, LEVELS, version="5.7.8"),
            "row 0 of the transition matrix sums to 1.2.*from_columns",
        ),
        (lambda: imports.sdcmicro(pd.DataFrame(ROWS), LEVELS, version="5.7.8"), "the rows of the matrix are 0, 1, 2"),
        (
            lambda: imports.sdcmicro(pd.DataFrame(ROWS, index=LEVELS, columns=["b", "a", "c"]), version="5.7.8"),
            "in one order",
        ),
        (lambda: imports.multi_freq_ldpy("ADP", LEVELS, 1.0), "'ADP'.*GRR or OUE.*name the one"),
        (lambda: imports.multi_freq_ldpy("THE", LEVELS, 1.0), "UnaryEncoding"),
        (lambda: imports.multi_freq_ldpy("OLHH", LEVELS, 1.0), "OLH"),
        (lambda: imports.multi_freq_ldpy("OUE", LEVELS, -1.0), "epsilon"),
        (lambda: imports.opendp("make_vector_integer", LEVELS), "make_vector_integer.*has no channel"),
        (
            lambda: imports.sdcmicro(
                pd.DataFrame([["x", "y"], ["z", "w"]], index=["a", "b"], columns=["a", "b"]), version="5.7.8"
            ),
            "rectangular array of numbers",
        ),
        (lambda: imports.opendp("make_randomized_response", ["a", "b"], prob="0.7"), "prob='0.7' .*must be a number"),  # type: ignore[arg-type]
        (lambda: imports.opendp("make_randomized_response_bitvec", ["a", "b"], f="x"), "f='x' .*must be a number"),  # type: ignore[arg-type]
        (lambda: imports.opendp("make_laplace", scale=1, bounds=3), "bounds=3 must be two numbers"),  # type: ignore[arg-type]
        (
            lambda: imports.diffprivlib("GeometricFolded", epsilon=1, lower="a", upper=1),
            "bounds 'a' and 1 must be whole or half",
        ),
        (
            lambda: imports.diffprivlib("GeometricFolded", epsilon=1, lower=math.nan, upper=1),
            "bounds nan and 1 must be",
        ),
        (lambda: imports.opendp("make_laplace", scale=0), "scale=0 must be a positive number"),
        (lambda: imports.opendp("make_laplace", prob=0.7), "make_laplace needs scale="),
        (lambda: imports.opendp("make_gaussian", scale=0.4, integers=True), "sd=0.4 is below the step"),
        (lambda: imports.opendp("make_randomized_response", LEVELS, prob=0.7, scale=1), "needs prob= and nothing else"),
        (lambda: imports.opendp("make_randomized_response", LEVELS, prob=0.7, f=0.1), "needs prob= and nothing else"),
        (lambda: imports.opendp("make_laplace", scale=1.0, version="0.99.1"), "0.99.1 of OpenDP is newer than 0.16"),
        (lambda: imports.diffprivlib("Laplace", epsilon=1, sensitivity=1, version="new"), "must be a version"),
        (
            lambda: imports.diffprivlib("LaplaceFolded", epsilon=1.0),
            "mirrored at bounds on a continuum cannot be undone",
        ),
        (lambda: imports.diffprivlib("LaplaceBoundedDomain", epsilon=1.0), "depends on the true value"),
        (lambda: imports.diffprivlib("Gaussian", epsilon=2.0, delta=1e-5, sensitivity=1), "above 1, which Gaussian"),
        (lambda: imports.diffprivlib("Gaussian", epsilon=0.5, delta=0.0, sensitivity=1), "delta=0.0 must lie between"),
        (lambda: imports.diffprivlib("Uniform", delta=0.7, sensitivity=1), "delta=0.7 must be above 0 and at most 0.5"),
        (lambda: imports.diffprivlib("Laplace", epsilon=1.0, sensitivity=-1), "sensitivity=-1 must be positive"),
        (lambda: imports.opendp("make_randomized_response", LEVELS), "needs prob="),
        (lambda: imports.opendp("make_randomized_response", LEVELS, prob=0.2), "keep=0.2 must lie above"),
        (lambda: imports.opendp("make_randomized_response_bool", LEVELS, prob=0.8), "true and false"),
        (lambda: imports.opendp("make_randomized_response_bitvec", LEVELS, prob=0.8), "needs f="),
        (lambda: imports.diffprivlib("Laplace", epsilon=1.0), "parameters of Laplace: missing 1 required.*sensitivity"),
        (lambda: imports.diffprivlib("Binary", epsilon=1.0), "parameters of Binary: missing"),
        (lambda: imports.diffprivlib("GeometricTruncated", epsilon=1.0, lower=3, upper=2), "the lower one first"),
        (lambda: imports.diffprivlib("GeometricTruncated", epsilon=1.0, lower=0, upper=10**6), "limit of 20000"),
        (lambda: imports.diffprivlib("GeometricFolded", epsilon=1.0, lower=0.3, upper=2), "whole or half numbers"),
        (lambda: imports.diffprivlib("GeometricFolded", epsilon=1.0, lower=0, upper=2, sensitivity=0), "sensitivity=0"),
    ],
)
def test_what_cannot_be_read_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        call()

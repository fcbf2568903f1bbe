"""Draws follow the published matrix: a chi-square test accepts P and rejects a P that is off by 0.01."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import settings
from montecarlo import perturb
from scipy.stats import chi2

import pramana as pr

Log = Callable[[str, object], None]
SIZE = 0.000_001
ABC = ("a", "b", "c")

MATRICES = {
    "randomised response, 2 levels": pr.TransitionMatrix.randomized_response(("no", "yes"), keep=0.75),
    "randomised response, 5 levels": pr.TransitionMatrix.randomized_response(range(5), keep=0.6, kind="numeric"),
    "sensitivity and specificity": pr.TransitionMatrix.binary(0.9, 0.7),
    "asymmetric": pr.TransitionMatrix(ABC, [[0.8, 0.15, 0.1], [0.15, 0.75, 0.2], [0.05, 0.1, 0.7]]),
    "a level never released": pr.TransitionMatrix(ABC, [[0.7, 0.2, 0.3], [0.3, 0.8, 0.02], [0.0, 0.0, 0.68]]),
}


def p_value(counts: np.ndarray, matrix: np.ndarray) -> float:
    """Pearson's test of the counts by released (row) and true level against the columns of the matrix."""
    expected = matrix * counts.sum(axis=0)
    possible = expected > 0
    if np.any(counts[~possible] > 0):
        return 0.0
    statistic = np.sum((counts - expected)[possible] ** 2 / expected[possible])
    return float(chi2.sf(statistic, possible.sum() - matrix.shape[1]))


def tabulated(true: np.ndarray, released: np.ndarray, levels: tuple[object, ...]) -> np.ndarray:
    return np.array([[np.sum((released == i) & (true == j)) for j in levels] for i in levels])


def accepts_and_rejects(counts: np.ndarray, matrix: pr.TransitionMatrix) -> tuple[float, float]:
    right, wrong = p_value(counts, matrix.matrix), p_value(counts, _shifted(matrix))
    assert right > SIZE, f"the draws do not follow P: p = {right:.1e}"
    assert wrong < SIZE, f"P off by 0.01 goes unseen: p = {wrong:.1e}"
    return right, wrong


def _shifted(matrix: pr.TransitionMatrix) -> np.ndarray:
    """Every keep probability lower by 0.01, the rest scaled up, so that zeros stay zeros."""
    keep = np.diag(matrix.matrix)
    return matrix.matrix * (1 - keep + 0.01) / (1 - keep) * (1 - np.eye(len(matrix))) + np.diag(keep - 0.01)


@pytest.mark.parametrize(
    ("seed", "records"), [(501, 200_000), pytest.param(502, 4_000_000, marks=pytest.mark.verify), (None, 1_000_000)]
)
@pytest.mark.parametrize("name", MATRICES)
def test_draws_follow_the_matrix(name: str, seed: int | None, records: int, record_property: Log) -> None:
    """With a seed, and with the fresh keystream of a release (where chance fails one run in a million)."""
    matrix = MATRICES[name]
    codes = np.random.default_rng(500).integers(0, len(matrix), records)
    true = np.array(matrix.levels)[codes]
    mechanism = pr.Mechanism({"z": matrix})
    data = {"z": true}
    released = mechanism.perturb(data) if seed is None else perturb(mechanism, data, seed)
    right, wrong = accepts_and_rejects(tabulated(true, released["z"], matrix.levels), matrix)
    row = {"matrix": name, "records": records, "p at P": right, "p at P off by 0.01": f"{wrong:.1e}"}
    record_property("rows", [row])


def test_draws_of_a_joint_matrix_follow_it() -> None:
    setting = settings.joint_channel()
    matrix = setting.mechanism.assignments[0].channel
    assert isinstance(matrix, pr.TransitionMatrix)
    codes = np.random.default_rng(503).integers(0, 6, 300_000)
    true = {name: np.array([level[k] for level in matrix.levels])[codes] for k, name in enumerate(("sex", "region"))}
    released = perturb(setting.mechanism, true, 504)
    labels = tuple("".join(level) for level in matrix.levels)
    joined = [np.char.add(d["sex"].astype(str), d["region"].astype(str)) for d in (true, released)]
    accepts_and_rejects(tabulated(joined[0], joined[1], labels), matrix)


def test_draws_follow_the_matrix_of_their_stratum() -> None:
    channels = {r: pr.TransitionMatrix.randomized_response(ABC, keep=k) for r, k in (("n", 0.9), ("s", 0.6))}
    rng = np.random.default_rng(505)
    data = {"z": rng.choice(ABC, 300_000), "region": rng.choice(("n", "s"), 300_000)}
    released = perturb(pr.Mechanism({"z": pr.Stratified("region", channels)}), data, 506)
    for region, matrix in channels.items():
        rows = data["region"] == region
        accepts_and_rejects(tabulated(data["z"][rows], released["z"][rows], ABC), matrix)


def test_columns_are_perturbed_independently_of_each_other_and_of_their_neighbours() -> None:
    matrix = pr.TransitionMatrix.randomized_response((0, 1), keep=0.7)
    zeros = np.zeros(400_000, dtype=int)
    released = perturb(pr.Mechanism({"a": matrix, "b": matrix}), {"a": zeros, "b": zeros}, 507)
    a, b = released["a"], released["b"]
    bound = 4.9 / np.sqrt(zeros.size)  # two-sided size 1e-6
    for first, second in ((a, b), (a[1:], a[:-1]), (a[2:], a[:-2]), (a[1:], b[:-1])):
        assert abs(np.corrcoef(first, second)[0, 1]) < bound

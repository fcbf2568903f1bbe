"""The K-ary randomised response keeps its closed form: the answers of the dense matrix without the array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.mechanism.channels.matrix_forms import Dense, Mixture

HUGE = 1_000_000
LEVELS = list("abcdefg")


@pytest.fixture
def closed() -> pr.TransitionMatrix:
    return pr.TransitionMatrix.randomized_response(LEVELS, keep=0.55)


@pytest.fixture
def dense() -> pr.TransitionMatrix:
    others = (1 - 0.55) / 6
    return pr.TransitionMatrix(LEVELS, np.full((7, 7), others) + (0.55 - others) * np.eye(7))


def test_matrix_and_inverse_agree(closed: pr.TransitionMatrix, dense: pr.TransitionMatrix) -> None:
    assert isinstance(closed.form, Mixture)
    assert isinstance(dense.form, Dense)
    np.testing.assert_allclose(closed.matrix, dense.matrix, rtol=0, atol=1e-15)
    np.testing.assert_allclose(closed.inverse, dense.inverse, rtol=0, atol=1e-13)


def test_entries_and_rows_by_group_agree(closed: pr.TransitionMatrix, dense: pr.TransitionMatrix) -> None:
    released, true = np.divmod(np.arange(49), 7)
    group = np.array([0, 0, 1, 2, 2, 1, 0])
    rows = np.stack([dense.matrix[group == g].sum(axis=0) for g in range(3)])
    for form in (closed.form, dense.form):
        np.testing.assert_allclose(form.entries(released, true), dense.matrix.ravel(), rtol=0, atol=1e-15)
        np.testing.assert_allclose(form.gathered(group, 3), rows, rtol=0, atol=1e-15)


def test_epsilon_and_condition_number_agree(closed: pr.TransitionMatrix, dense: pr.TransitionMatrix) -> None:
    assert closed.epsilon == pytest.approx(dense.epsilon, rel=1e-12)
    assert closed.condition_number == pytest.approx(dense.condition_number, rel=1e-12)


def test_reversions_agree(closed: pr.TransitionMatrix, dense: pr.TransitionMatrix, rng: np.random.Generator) -> None:
    table, codes = rng.normal(size=(7, 3)), rng.integers(0, 7, 50)
    np.testing.assert_allclose(closed.revert_table(table), dense.revert_table(table), rtol=0, atol=1e-13)
    np.testing.assert_allclose(closed.revert(codes, {}).weights, dense.revert(codes, {}).weights, rtol=0, atol=1e-13)


def test_fits_agree(closed: pr.TransitionMatrix, dense: pr.TransitionMatrix, rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"z": rng.choice(LEVELS, 300), "y": rng.normal(size=300)})
    given, other = (pr.fit("y ~ z", frame, pr.Mechanism({"z": c})) for c in (closed, dense))
    np.testing.assert_allclose(given.estimate, other.estimate, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(given.covariance, other.covariance, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("frequencies", [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]])
@pytest.mark.parametrize("refill", [0.1, 0.8])
def test_the_condition_number_of_a_mixture_is_that_of_its_array(frequencies: Any, refill: float) -> None:
    form = Mixture(refill, np.array(frequencies))
    assert form.condition_number == pytest.approx(np.linalg.cond(form.matrix), rel=1e-10)
    assert form.epsilon == pytest.approx(Dense(form.matrix).epsilon, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_matrix_made_for_an_epsilon_has_that_epsilon(epsilon: float) -> None:
    assert pr.TransitionMatrix.from_epsilon(LEVELS, epsilon).epsilon == pytest.approx(epsilon, rel=1e-12)


def forbidden(*_arguments: Any) -> Any:
    raise AssertionError("an array with K columns was built")


def test_a_million_levels_give_a_mean_and_a_release_without_an_array(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matrix", "inverse"):
        monkeypatch.setattr(Mixture, name, property(forbidden))
    monkeypatch.setattr(Mixture, "revert_rows", forbidden)
    channel = pr.TransitionMatrix.randomized_response(range(HUGE), keep=0.8, kind="numeric")
    mechanism, y = pr.Mechanism({"y": channel}), rng.integers(0, HUGE, 2000)
    released = mechanism.perturb({"y": y})
    result = pr.fit(pr.mean("y"), released, mechanism)
    refill = 0.2 * HUGE / (HUGE - 1)
    expected = (released["y"].mean() - refill * (HUGE - 1) / 2) / (1 - refill)
    assert result.estimate[0] == pytest.approx(expected, rel=1e-12)


def test_the_array_of_a_million_levels_is_refused() -> None:
    channel = pr.TransitionMatrix.randomized_response(range(HUGE), keep=0.8, kind="numeric")
    with pytest.raises(pr.MechanismError, match="20000"):
        _ = channel.matrix

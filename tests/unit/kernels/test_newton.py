"""Newton for a batch of equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pramana.arrays import Float
from pramana.kernels.newton import inverse_one, newton, newton_alone, solve_each, solve_one


def scalar(function: Any, derivative: Any) -> Any:
    def evaluate(beta: Any, _positions: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(beta), derivative(beta)[:, :, None]

    return evaluate


def test_a_linear_system_takes_one_step(rng: np.random.Generator) -> None:
    slope, target = rng.normal(size=(3, 3)) + 4 * np.eye(3), rng.normal(size=3)
    roots = newton(lambda b, _p: (b @ slope.T - target, np.tile(slope, (len(b), 1, 1))), np.zeros((1, 3)), np.ones(3))
    np.testing.assert_allclose(roots.beta[0], np.linalg.solve(slope, target), rtol=1e-12)
    assert (roots.steps[0], roots.converged[0]) == (1, True)


def test_each_equation_of_a_batch_is_solved_with_its_own_data() -> None:
    targets = np.array([[0.1], [2.0], [30.0]])

    def evaluate(beta: Any, positions: Any) -> Any:
        return np.exp(beta) - targets[positions], np.exp(beta)[:, :, None]

    roots = newton(evaluate, np.zeros((3, 1)), np.ones(1))
    assert roots.converged.all()
    np.testing.assert_allclose(roots.beta, np.log(targets), rtol=1e-9)


def test_damping_rescues_a_start_from_which_plain_newton_diverges() -> None:
    roots = newton(scalar(np.arctan, lambda b: 1 / (1 + b**2)), np.array([[3.0]]), np.ones(1))
    assert roots.converged[0]
    assert roots.beta[0, 0] == pytest.approx(0, abs=1e-9)


def test_an_equation_without_a_root_is_said_not_to_converge() -> None:
    roots = newton(scalar(lambda b: 1 + b**2, lambda b: 2 * b), np.array([[1.3]]), np.ones(1))
    assert not roots.converged[0]
    assert roots.norm[0] >= 1


def test_a_rootless_equation_does_not_disturb_its_neighbours() -> None:
    shift = np.array([[1.0], [-4.0]])

    def evaluate(beta: Any, positions: Any) -> Any:
        return beta**2 + shift[positions], 2 * beta[:, :, None]

    roots = newton(evaluate, np.array([[1.3], [1.3]]), np.ones(1))
    assert roots.converged.tolist() == [False, True]
    assert roots.beta[1, 0] == pytest.approx(2, abs=1e-9)


def test_a_singular_slope_stops_its_equation_only() -> None:
    slopes = np.array([[[1.0, 1.0], [1.0, 1.0]], [[2.0, 0.0], [0.0, 3.0]]])

    def evaluate(beta: Any, positions: Any) -> Any:
        return np.einsum("bij,bj->bi", slopes[positions], beta) - 1, slopes[positions]

    roots = newton(evaluate, np.zeros((2, 2)), np.ones(2))
    assert roots.converged.tolist() == [False, True]
    assert roots.steps[0] <= 1
    np.testing.assert_allclose(roots.beta[1], [1 / 2, 1 / 3], rtol=1e-12)


def test_a_singular_slope_gives_nan_where_it_is() -> None:
    slopes = np.array([[[1.0, 1.0], [1.0, 1.0]], [[2.0, 0.0], [0.0, 4.0]]])
    steps = solve_each(slopes, np.ones((2, 2)))
    assert np.isnan(steps[0]).all()
    np.testing.assert_allclose(steps[1], [0.5, 0.25])


def test_a_point_outside_the_domain_shortens_the_step() -> None:
    """log β − 1 from 10: the full step lands on a negative number, where the logarithm is not defined."""
    roots = newton(scalar(lambda b: np.log(b) - 1, lambda b: 1 / b), np.array([[10.0]]), np.ones(1))
    assert roots.converged[0]
    assert roots.beta[0, 0] == pytest.approx(np.e, rel=1e-9)


def test_the_start_is_left_alone() -> None:
    start = np.array([[3.0]])
    newton(scalar(np.arctan, lambda b: 1 / (1 + b**2)), start, np.ones(1))
    assert start[0, 0] == 3.0


def test_a_start_near_the_root_is_no_excuse_for_stopping_early() -> None:
    """A score of 5e-4 says nothing of the step from it before a step was taken: convergence is quadratic, its constant unknown."""
    start = 1 + np.array([[3e-4], [1e-5], [1e-7]])
    roots = newton(scalar(lambda b: b**3 - 1, lambda b: 3 * b**2), start, np.ones(1))
    np.testing.assert_allclose(roots.beta, 1.0, atol=1e-10)


def test_one_equation_alone_takes_the_same_steps() -> None:
    """To the last bit, where steps are halved, where they run off, and where a slope is singular."""
    rng = np.random.default_rng(3)
    solved = 0
    for _ in range(200):
        d = int(rng.integers(1, 5))
        x, y = rng.normal(size=(20, d)), rng.normal(size=20) * rng.choice([0.3, 3.0])
        scale, start = np.exp(rng.normal(size=d)), rng.normal(size=d) * rng.choice([0.1, 4.0])

        def one(beta: Float, x: Float = x, y: Float = y) -> tuple[Float, Float]:
            mean = np.tanh(x @ beta)
            bend = -(1 - mean**2) * (x[:, 0] < 1.5)  # not the derivative everywhere
            return ((y - mean) @ x)[None], ((x * bend[:, None]).T @ x)[None]

        together = newton(lambda b, _p: one(b[0]), start[None], scale, max_steps=12, max_halvings=6)
        alone = newton_alone(one, start, scale, max_steps=12, max_halvings=6)
        assert np.array_equal(alone.beta, together.beta, equal_nan=True)
        assert np.array_equal(alone.norm, together.norm)
        assert np.array_equal(alone.steps, together.steps)
        solved += int(alone.converged[0])
    assert 20 < solved < 190


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_one_system_is_solved_and_inverted_as_by_a_factorisation(d: int) -> None:
    rng = np.random.default_rng(d)
    slope, score = rng.normal(size=(d, d)), rng.normal(size=d)
    np.testing.assert_allclose(solve_one(slope, score), np.linalg.solve(slope, score), rtol=1e-10)
    np.testing.assert_array_equal(solve_one(slope, score), solve_each(slope[None], score[None])[0])
    np.testing.assert_allclose(inverse_one(slope), np.linalg.inv(slope), rtol=1e-10)  # type: ignore[arg-type]
    assert np.isnan(solve_one(np.zeros((d, d)), score)).all()
    assert inverse_one(np.zeros((d, d))) is None

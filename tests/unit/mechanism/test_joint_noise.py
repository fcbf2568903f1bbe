"""Normal noise that several columns share, on the custodian's side: draws, bounds, privacy, descriptions and bad input."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from golden_texts import worded

GOLDEN = Path(__file__).parents[2] / "golden" / "mechanism-joint-noise-1.3.json"
KEY = bytes(range(40))
COVARIANCE = [[4.0, 1.5, -0.5], [1.5, 1.0, 0.2], [-0.5, 0.2, 2.0]]
BOUNDS = [(0.0, 50.0), (0.0, 30.0), (-10.0, 10.0)]
NAMES = ("a", "b", "c")
NOISE = pr.JointGaussianNoise(COVARIANCE, bounds=BOUNDS)
MECHANISM = pr.Mechanism({NAMES: NOISE})
pytestmark = pytest.mark.filterwarnings("ignore:.*not secure")


def frame(n: int = 200) -> pd.DataFrame:
    k = np.arange(n)
    return pd.DataFrame({"a": 20.0 + k % 7, "b": 10.0 + k % 5, "c": -2.0 + k % 3, "id": k})


def differences(released: pd.DataFrame, true: pd.DataFrame) -> np.ndarray:
    return np.asarray((released[list(NAMES)] - true[list(NAMES)]).to_numpy(dtype=float))


def test_draws_have_the_covariance_that_was_stated() -> None:
    """All second moments of 100 000 draws within 5 standard errors; with a correlation 0.05 off the same check fails."""
    true = frame(100_000)
    drawn = differences(MECHANISM.perturb(true, seed=3), true)
    stated = np.array(COVARIANCE)

    def farthest(sigma: np.ndarray) -> float:
        errors = np.sqrt((np.outer(np.diag(sigma), np.diag(sigma)) + sigma**2) / len(drawn))
        return float(np.max(np.abs(drawn.T @ drawn / len(drawn) - sigma) / errors))

    wrong = stated.copy()
    wrong[0, 1] = wrong[1, 0] = 1.5 + 0.05 * 2
    assert farthest(stated) < 5
    assert farthest(wrong) > 5
    white = drawn @ np.linalg.inv(np.linalg.cholesky(stated)).T
    assert np.mean(np.abs(white) < 1) == pytest.approx(0.6827, abs=0.004)


def test_values_lie_on_a_grid_within_reach_of_their_bounds() -> None:
    true = frame().assign(a=[-900.0, 900.0] * 100)
    released = MECHANISM.perturb(true, seed=1)
    for name, grid in zip(NAMES, NOISE.grids, strict=True):
        steps = released[name] / grid
        np.testing.assert_array_equal(steps, np.rint(steps))
        assert np.log2(grid).is_integer()
    assert released["a"].between(-20, 70).all()


def test_keyed_draws_belong_to_the_record_and_its_values() -> None:
    true = frame()
    first, again = (MECHANISM.perturb(true, key=KEY, id="id") for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    other = MECHANISM.perturb(true.assign(c=true["c"] + 1), key=KEY, id="id")
    assert not np.any(np.isclose(differences(first, true)[:, :2], differences(other, true)[:, :2]).all(axis=1))


def test_a_unit_has_one_draw_and_gaps_hide_the_rest() -> None:
    true = (
        frame()
        .assign(unit=lambda f: f["id"] // 2)
        .assign(**{n: frame()[n].to_numpy()[np.arange(200) // 2] for n in NAMES})
    )
    released = MECHANISM.with_unit("unit").perturb(true, seed=2)
    pd.testing.assert_frame_equal(
        released[::2].reset_index(drop=True)[[*NAMES]], released[1::2].reset_index(drop=True)[[*NAMES]]
    )
    gappy = MECHANISM.perturb(frame().assign(b=[np.nan, *[10.0] * 199]), seed=2)
    assert gappy.loc[0, ["a", "b", "c"]].isna().all()
    assert gappy.loc[1:, ["a", "b", "c"]].notna().all(axis=None)


def test_the_loss_is_the_largest_over_the_corners() -> None:
    """Up to the step that rounding may add, by which it is larger; exactly so without correlations."""
    corners = [np.array(c) * [50.0, 30.0, 20.0] for c in itertools.product([-1, 1], repeat=3)]
    exact = max(0.5 * c @ np.linalg.solve(COVARIANCE, c) for c in corners)
    assert exact < NOISE.rho < exact * 1.0005
    small = pr.JointGaussianNoise(COVARIANCE, bounds=[(0, 1), (0, 1), (0, 1)]).rho
    corners = [np.array(c) for c in itertools.product([-1, 1], repeat=3)]
    assert 1 < small / max(0.5 * c @ np.linalg.solve(COVARIANCE, c) for c in corners) < 1.001
    apart = pr.JointGaussianNoise(np.diag([4.0, 1.0]), bounds=[(0, 2), (0, 3)])
    assert apart.rho == pytest.approx(pr.GaussianNoise(2, (0, 2)).rho + pr.GaussianNoise(1, (0, 3)).rho, rel=1e-12)
    assert pr.JointGaussianNoise(COVARIANCE).rho == np.inf
    assert MECHANISM.epsilon == np.inf
    assert pr.Mechanism({("a", "b"): apart}).epsilon_at(1e-6) == pytest.approx(5 + 2 * np.sqrt(5 * np.log(1e6)))


def test_the_loss_bounds_that_of_the_draws() -> None:
    """Σ p log(p/q) ≤ ρ for the chances of the draws themselves, two columns on a coarse copy of the grids, by summation."""
    noise = pr.JointGaussianNoise([[4.0, 1.5], [1.5, 1.0]], bounds=[(0, 3), (0, 2)])
    lower, own = noise.factors
    steps = own / 8
    k = np.arange(-60, 61)
    masses = [np.exp(-((k * h) ** 2) / (2 * s**2)) for h, s in zip(steps, own, strict=True)]
    first, second = (m / m.sum() for m in masses)

    def log_chance(v1: np.ndarray, v2: np.ndarray) -> np.ndarray:
        e2 = v2 - np.rint(lower[1, 0] * v1 * steps[0] / steps[1])
        logs = -((v1 * steps[0]) ** 2) / (2 * own[0] ** 2) - (e2 * steps[1]) ** 2 / (2 * own[1] ** 2)
        return np.asarray(logs)

    v1, e2 = np.meshgrid(k, k, indexing="ij")
    v2 = e2 + np.rint(lower[1, 0] * v1 * steps[0] / steps[1])
    p = np.outer(first, second)
    for move in itertools.product([3.0, -3.0], [2.0, -2.0]):
        d1, d2 = np.rint(np.array(move) / steps)
        lost = np.sum(p * (log_chance(v1, v2) - log_chance(v1 + d1, v2 + d2)))
        moved = np.linalg.solve(lower, [d1 * steps[0], d2 * steps[1]])
        assert lost <= ((np.abs(moved) + np.array([0, steps[1]])) ** 2 / (2 * own**2)).sum() + 1e-9


def test_a_description_is_read_as_it_was_written(tmp_path: Path) -> None:
    MECHANISM.save(tmp_path / "again.json")
    assert worded((tmp_path / "again.json").read_text(encoding="utf-8")) == worded(GOLDEN.read_text(encoding="utf-8"))
    assert pr.Mechanism.load(GOLDEN) == MECHANISM


def test_what_is_not_asked_for_is_left_out() -> None:
    used = MECHANISM.used_by(["c", "a"])[0]
    assert used.columns == ("a", "c")
    assert used.channel == pr.JointGaussianNoise([[4.0, -0.5], [-0.5, 2.0]], bounds=[BOUNDS[0], BOUNDS[2]])
    alone = MECHANISM.used_by(["b"])[0].channel
    assert isinstance(alone, pr.GaussianNoise)
    assert (alone.sd, alone.bounds) == (1.0, BOUNDS[1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: pr.JointGaussianNoise([[1.0]]),
            r"shape \(1, 1\): give a square matrix of 2 to 16 columns, or GaussianNoise",
        ),
        (lambda: pr.JointGaussianNoise([1.0, 2.0]), r"shape \(2,\)"),
        (lambda: pr.JointGaussianNoise([[1.0, "x"], [0, 1]]), r"must be a square table of numbers"),
        (lambda: pr.JointGaussianNoise([[1.0, 0.5], [0.4, 1.0]]), r"the same above its diagonal as below"),
        (lambda: pr.JointGaussianNoise([[1.0, np.nan], [np.nan, 1.0]]), r"must be finite"),
        (lambda: pr.JointGaussianNoise([[0.0, 0.0], [0.0, 1.0]]), r"variance=0.0 must be a positive number"),
        (
            lambda: pr.JointGaussianNoise([[1.0, 2.0], [2.0, 1.0]]),
            r"smallest eigenvalue of its correlations is -1.*weaken",
        ),
        (lambda: pr.JointGaussianNoise([[1.0, 1.0], [1.0, 1.0]]), r"nearly singular"),
        (
            lambda: pr.JointGaussianNoise(np.eye(2), bounds=(0, 1)),
            r"two numbers for each of the 2 columns|must be two numbers",
        ),
        (lambda: pr.JointGaussianNoise(np.eye(2), bounds=[(0, 1)]), r"two numbers for each of the 2 columns"),
        (lambda: pr.JointGaussianNoise(np.eye(2), bounds=[(0, 1), (2, 1)]), r"the lower one first"),
        (lambda: pr.Mechanism({"a": NOISE}), r"covariance of 3 columns: name as many"),
        (lambda: pr.Mechanism({("a", "b"): pr.GaussianNoise(1.0)}), r"one column, not to 'a', 'b'.*JointGaussianNoise"),
        (lambda: pr.Stratified("h", {0: NOISE, 1: NOISE}), r"a stratum of 'h' is a JointGaussianNoise"),
    ],
)
def test_parameters_that_make_no_noise(make: Any, message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        make()


def test_what_joint_noise_is_not_undone_in_says_so() -> None:
    true = frame()
    released = MECHANISM.perturb(true, seed=1)
    for formula, family, message in (
        ("a ~ b", "poisson", "no average over the noise"),
        ("id ~ log(a) + b", "gaussian", "transforms the column 'a'"),
        (
            "id ~ a + I(a ** 3) + b",
            "gaussian",
            "the terms in 'a', 'b' .* are of degree 4, and noise is undone up to degree 3",
        ),
        ("id ~ a * b * c + I(a ** 2)", "gaussian", "noise is undone up to"),
    ):
        with pytest.raises(pr.PramanaError, match=message):
            pr.fit(formula, released, MECHANISM, family=family)
    with pytest.raises(pr.DataError, match=r"'b' holds no numbers"):
        MECHANISM.perturb(true.assign(b="x"), seed=1)


def test_bounds_may_be_an_array() -> None:
    covariance = [[4.0, 1.0], [1.0, 1.0]]
    given = pr.JointGaussianNoise(covariance, bounds=np.array([[0, 2], [0, 1]]))
    assert given == pr.JointGaussianNoise(covariance, bounds=[(0, 2), (0, 1)])

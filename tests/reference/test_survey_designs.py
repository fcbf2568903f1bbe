"""Named survey designs and block designs against published numbers and textbook formulas."""

from __future__ import annotations

import numpy as np
import pytest

import pramana as pr
from pramana import designs


def share(ones: int, n: int, channel: pr.TransitionMatrix) -> float:
    data = {"y": list(channel.levels)[::-1]}
    shares = pr.fit(pr.proportions("y"), data, pr.Mechanism({"y": channel}), frequencies=[ones, n - ones])
    return float(shares.estimate[-1])


# R package RRTCS, vignette, unrelated-question model (Horvitz) on n = 710 students, printed with seven digits.
@pytest.mark.parametrize(
    ("yes", "prevalence", "printed"),
    [
        (328, 1 / 12, 0.8406103),
        (180, 1 / 10, 0.4070423),
        (280, 2 / 3, 0.1220657),
        (81, 1 / 10, 0.128169),
        (164, 1 / 3, 0.1286385),
        (53, 1 / 12, 0.06596244),
    ],
)
@pytest.mark.parametrize("levels", [(0, 1), ("no", "yes")])
def test_unrelated_question_of_rrtcs(yes: int, prevalence: float, printed: float, levels: tuple[object, ...]) -> None:
    channel = designs.unrelated_question(0.5, prevalence, levels=levels)  # type: ignore[arg-type]
    assert share(yes, 710, channel) == pytest.approx(printed, abs=6e-8)


# The estimators as their authors wrote them, in the observed share of "yes".
@pytest.mark.parametrize(
    ("channel", "textbook"),
    [
        (designs.warner(0.7), lambda s: (s + 0.7 - 1) / (2 * 0.7 - 1)),  # Warner (1965)
        (designs.forced_response(0.75, 1 / 6), lambda s: (s - 1 / 6) / 0.75),  # Boruch (1971)
        (designs.unrelated_question(0.6, 0.3), lambda s: (s - 0.4 * 0.3) / 0.6),  # Greenberg et al. (1969)
        (designs.kuk(0.8, 0.3), lambda s: (s - 0.3) / (0.8 - 0.3)),  # Kuk (1990)
        (designs.crosswise(0.2), lambda s: (s + 0.2 - 1) / (2 * 0.2 - 1)),  # Yu, Tian and Tang (2008)
        (designs.mangat(0.7), lambda s: (s - 1 + 0.7) / 0.7),  # Mangat (1994)
        (
            designs.mangat_singh(0.3, 0.7),
            lambda s: (s - 0.7 * 0.3) / (2 * 0.7 - 1 + 2 * 0.3 * 0.3),  # Mangat and Singh (1990)
        ),
    ],
    ids=["warner", "forced", "unrelated", "kuk", "crosswise", "mangat", "mangat-singh"],
)
def test_estimators_are_those_of_their_authors(channel: pr.TransitionMatrix, textbook: object) -> None:
    assert callable(textbook)
    assert share(410, 1000, channel) == pytest.approx(textbook(0.41), abs=1e-12)


def test_the_variance_of_warners_estimator() -> None:
    """Warner (1965): π (1 − π) + p (1 − p) / (2 p − 1)² a record; the two shares vary alike."""
    p, prevalence = 0.7, 0.3
    printed = prevalence * (1 - prevalence) + p * (1 - p) / (2 * p - 1) ** 2
    found = designs.total_variance(designs.warner(p), [1 - prevalence, prevalence])
    assert found == pytest.approx(2 * printed, rel=1e-12)


def test_the_fano_plane_beats_randomised_response_at_small_epsilon() -> None:
    """Total variance: trace of the covariance of the estimated frequencies a record, at uniform frequencies."""
    choice = designs.best_for_epsilon(range(7), 0.1, kind="nominal")
    assert choice.design == "block design"
    variances = {name: round(v) for name, v in choice.variances.items() if v is not None}
    assert variances == {"randomized response": 3912, "block design": 2074}
    likely = choice.transition.matrix > choice.transition.matrix.min()
    common = likely.T.astype(int) @ likely.astype(int)
    assert np.array_equal(common, 2 * np.eye(7) + 1)  # three points a line, one common point


def test_randomised_response_is_better_at_large_epsilon() -> None:
    assert designs.best_for_epsilon(range(7), 3.0, kind="nominal").design == "randomized response"
    two = designs.best_for_epsilon(["no", "yes"], 0.1)
    assert two.design == "randomized response"
    assert two.variances["block design"] is None
    assert "no block design of 2 levels" in two.message


def test_the_larger_block_is_taken_at_small_epsilon_and_the_smaller_one_later() -> None:
    """31 levels have a plane of order 5 (blocks of 6) and the quadratic residues (blocks of 15)."""
    sizes = []
    for epsilon in (0.1, 1.5):
        matrix = designs.block_design(range(31), epsilon, kind="nominal").matrix
        sizes.append(int(np.count_nonzero(matrix[0] > matrix.min() * 1.01)))
    assert sizes == [15, 6]

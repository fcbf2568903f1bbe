"""Released frequencies of an invariant design: the true ones within Monte Carlo error, and not so for another design."""

from __future__ import annotations

import numpy as np
import pytest

import pramana as pr
from pramana import designs
from pramana.arrays import Float
from pramana.mechanism.draws.keystream import SeededKeystream

LEVELS, SHARES = list("abcd"), np.array([0.4, 0.3, 0.2, 0.1])
N = 10_000_000


def largest_deviation(made: pr.TransitionMatrix) -> float:
    """Of the released counts from the true ones, in standard errors of the draws."""
    counts: Float = SHARES * N
    codes = np.repeat(np.arange(4), counts.astype(int))
    released = np.bincount(made.perturb(codes, {}, SeededKeystream(7)), minlength=4)
    spread = np.sqrt((made.matrix * (1 - made.matrix)) @ counts)
    return float(np.max(np.abs(released - counts) / spread))


@pytest.mark.parametrize("construction", ["mixture", "two-stage", "equal-diagonal"])
def test_ten_million_draws_keep_the_frequencies(construction: str) -> None:
    made = designs.invariant(LEVELS, SHARES, 0.8, construction=construction)  # type: ignore[arg-type]
    assert largest_deviation(made) < 4.5


def test_randomised_response_does_not_keep_them() -> None:
    assert largest_deviation(pr.TransitionMatrix.randomized_response(LEVELS, 0.8)) > 100


def test_frequencies_that_are_off_by_two_thousandths_are_seen() -> None:
    other = SHARES + np.array([0.002, -0.002, 0.0, 0.0])  # about nine standard errors
    assert largest_deviation(designs.invariant(LEVELS, other, 0.5)) > 4.5

"""Study c6: a P that was measured. Its uncertainty belongs in the intervals; left out, they cover far too little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from montecarlo import BOUND, CLEAR, COVERAGE_ALLOWANCE, SPREAD_ALLOWANCE, Replicates, replicates_of, rows_of

import pramana as pr

Log = Callable[[str, object], None]
TRUE = {"y": np.array([[0.88, 0.14], [0.12, 0.86]]), "edu": np.array([[0.8, 0.1, 0.05], [0.15, 0.8, 0.15], [0.05, 0.1, 0.8]])}
EDU = ["low", "mid", "high"]
BETA = (-0.5, 0.8, 0.6, 1.2)
"""Of y on x, edu = mid and edu = high."""


def study(rng: np.random.Generator, column: str, people: int) -> pr.TransitionMatrix:
    """A validation study of its own: so many people of every true level."""
    matrix = TRUE[column]
    counts = np.stack([rng.multinomial(people, matrix[:, j]) for j in range(len(matrix))], axis=1)
    return pr.TransitionMatrix.from_validation(counts, levels=(0, 1) if column == "y" else EDU)


def released(rng: np.random.Generator, column: str, codes: np.ndarray) -> np.ndarray:
    cuts = TRUE[column].cumsum(axis=0)[:-1, codes]
    return (rng.random(codes.size) > cuts).sum(axis=0)

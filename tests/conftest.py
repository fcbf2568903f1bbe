"""Fixtures shared by all kinds of tests."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pramana as pr

EDU = ("low", "mid", "high")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240607)


@pytest.fixture
def survey(rng: np.random.Generator) -> pd.DataFrame:
    """A small file with numbers, a three-level and a two-level text column."""
    n = 400
    edu = rng.choice(EDU, n, p=[0.5, 0.3, 0.2])
    age, female = rng.normal(size=n), rng.integers(0, 2, n)
    eta = 0.5 * age + np.array([EDU.index(e) for e in edu]) - 1
    return pd.DataFrame(
        {
            "age": age,
            "edu": edu,
            "female": female,
            "region": rng.choice(["north", "south"], n),
            "income": 1 + eta + 0.3 * female + rng.normal(size=n),
            "employed": np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no"),
        }
    )


@pytest.fixture
def mechanism() -> pr.Mechanism:
    return pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, keep=0.85)})

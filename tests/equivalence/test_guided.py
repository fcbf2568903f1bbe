"""Records that are very many: a sample guides Newton to the root of all of them in few passes, and does not change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_one_step import counted_passes

import pramana as pr
from pramana.analysis import streaming
from pramana.engines import LocalEngine, local
from pramana.engines import streaming as engine
from pramana.inference import solve
from randomizations import bound

N, M = 40_000, 4_000
BOTH = pr.Mechanism(
    {
        "y": pr.TransitionMatrix.binary(0.85, 0.85),
        "edu": pr.TransitionMatrix.randomized_response(["low", "mid", "high"], keep=0.8),
    }
)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "response": ("y ~ x", {"family": "binomial"}),
    "covariate": ("visits ~ x + edu", {"family": "poisson"}),
    "covariate, weights": ("visits ~ x + edu", {"family": "poisson", "weights": "w"}),
    "both": ("y ~ x * edu", {"family": "binomial"}),
    "clusters": ("y ~ x", {"family": "binomial", "clusters": "firm"}),
    "probit": ("y ~ x", {"family": "binomial", "link": "probit"}),
}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    x, edu = rng.normal(size=N), rng.integers(0, 3, N)
    frame = pd.DataFrame(
        {
            "x": x,
            "edu": np.array(["low", "mid", "high"])[edu],
            "y": (rng.random(N) < 1 / (1 + np.exp(0.4 - 0.7 * x - 0.3 * edu))).astype(int),
            "visits": rng.poisson(np.exp(0.2 + 0.2 * x + 0.2 * edu)),
            "w": rng.uniform(0.5, 2.0, N),
            "firm": rng.integers(0, 400, N),
        }
    )
    with pytest.warns(pr.PramanaWarning):
        return BOTH.perturb(frame, seed=2)


@pytest.fixture(scope="module")
def file(data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guided") / "all.parquet"
    data.to_parquet(path, index=False)
    return path


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return counted_passes(monkeypatch, 9000, M)


@pytest.mark.parametrize("case", CASES)
def test_a_file_in_few_passes(case: str, data: pd.DataFrame, file: Path, passes: list[int]) -> None:
    formula, options = CASES[case]
    found = pr.fit(formula, file, BOTH, memory=1, **options)
    whole = pr.fit(formula, data, BOTH, **options)
    np.testing.assert_allclose((found.estimate - whole.estimate) / whole.standard_errors, 0.0, atol=1e-9)
    np.testing.assert_allclose(
        found.covariance, whole.covariance, rtol=1e-8, atol=1e-9 * np.abs(whole.covariance).max()
    )
    assert len(passes) <= 4 + (case == "both"), "one more where the sample leaves doubt which interval to show"


def test_a_second_pass_is_the_last(data: pd.DataFrame, file: Path, passes: list[int], monkeypatch: Any) -> None:
    """The variance is that of the second pass, moved to the root by what a sample tells, as near as its halves agree."""
    monkeypatch.setattr(streaming, "PILOT", N // 5)
    whole = pr.fit("y ~ x", data, BOTH, family="binomial")
    monkeypatch.setattr(engine, "CARRIED", 1e-6)
    found = pr.fit("y ~ x", file, BOTH, memory=1, family="binomial")
    assert len(passes) == 2
    np.testing.assert_allclose((found.estimate - whole.estimate) / whole.standard_errors, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-6)
    np.testing.assert_allclose(found.privacy, whole.privacy, rtol=1e-5)
    assert np.any(found.standard_errors != whole.standard_errors)


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("clusters", "covariate, weights")])
def test_records_in_memory(case: str, data: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    formula, options = CASES[case]
    records = LocalEngine.of(bound(pr.glm(formula, **options), {name: data[name].to_numpy() for name in data}, BOTH))
    slow = solve(records)
    monkeypatch.setattr(local, "PILOT", M)
    fast = solve(records)
    assert records.pilot() is not None
    assert fast.path == slow.path
    np.testing.assert_allclose(fast.beta, slow.beta, rtol=1e-11, atol=1e-12)


def test_a_sample_that_misleads(data: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tenth record tells the opposite of all others: the root is still that of all of them."""
    odd = np.arange(N) % (N // M) == 0
    columns = {"x": np.where(odd, -3, 1) * data["x"].to_numpy(), "y": data["y"].to_numpy()}
    records = LocalEngine.of(bound(pr.glm("y ~ x", family="binomial"), columns, BOTH))
    slow = solve(records)
    monkeypatch.setattr(local, "PILOT", M)
    few = records.pilot()
    assert few is not None
    assert solve(few).beta[1] * slow.beta[1] < 0
    np.testing.assert_allclose(solve(records).beta, slow.beta, rtol=1e-11)

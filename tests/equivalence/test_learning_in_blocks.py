"""Functions of a formula that learn from all records learn the same in blocks; what is left to the sample is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis import distinct, streaming, transforms
from pramana.frames import cells, sources

N = 1400
MECHANISM = pr.Mechanism({"ill": pr.TransitionMatrix.binary(0.85, 0.85)})


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    x = rng.normal(40, 10, N)
    return pd.DataFrame(
        {
            "x": x,
            "z": np.round(rng.gamma(2, 3, N), 1),
            "k": rng.integers(0, 6, N),
            "ill": rng.integers(0, 2, N),
            "income": 5 + 0.1 * x + rng.normal(size=N),
        }
    )


@pytest.fixture(scope="module")
def folder(data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("learning")
    for k, rows in enumerate(np.array_split(np.arange(N), 5)):
        data.iloc[rows].to_parquet(out / f"part-{k}.parquet", index=False)
    return out


@pytest.fixture(params=[10_000, 400, 70], ids=["one block", "five blocks", "many blocks"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sources, "BATCH", request.param)
    monkeypatch.setattr(streaming, "PILOT", 300)
    monkeypatch.setattr(transforms, "BINS", 50)
    return int(request.param)


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize(
    "formula",
    [
        "income ~ center(x) + standardize(z, ddof=1)",
        "income ~ scale(log(z + 1)) + ill + scale(x, center=False)",
        "income ~ poly(x, degree=3) + ill",
        "income ~ bs(x, df=6) + bs(z, df=5, degree=2, include_intercept=False)",
        "income ~ poly(center(x), 2) + bs(scale(z), df=4)",
    ],
)
def test_a_formula_learns_from_all_records(formula: str, data: pd.DataFrame, folder: Path) -> None:
    options: dict[str, Any] = {"inference": pr.Sandwich(interval="wald"), "subset": "k < 5"}
    whole, found = (pr.fit(formula, source, MECHANISM, memory=1, **options) for source in (data, folder))
    scale = whole.standard_errors
    np.testing.assert_allclose(found.estimate / scale, whole.estimate / scale, atol=1e-8)
    np.testing.assert_allclose(found.standard_errors, scale, rtol=1e-8)
    assert found.facts == whole.facts


@pytest.mark.parametrize(
    "term", ["cr(x, df=4, constraints='center')", "bs(x, df=5, lower_bound=0.0, upper_bound=90.0)"]
)
def test_what_is_left_to_the_sample_is_said(
    term: str, folder: Path, data: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BATCH", 300)
    monkeypatch.setattr(streaming, "PILOT", 500)
    found = pr.fit(f"income ~ {term} + center(z)", folder, MECHANISM, memory=1)
    assert found.facts["Learned"].startswith(f"{term} from a random sample of 5")
    assert "Learned" not in pr.fit(f"income ~ {term}", data, MECHANISM).facts


def test_cells_do_not_learn(data: pd.DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of a column is that of its records, not of its distinct values."""
    rare = data.assign(k=np.where(data["k"] < 3, 0, data["k"]))
    whole = pr.fit("ill ~ center(k)", rare, MECHANISM, family="binomial")
    monkeypatch.setattr(cells, "ROWS", 1000)
    monkeypatch.setattr(distinct, "ROWS", 1000)
    found = pr.fit("ill ~ center(k)", rare, MECHANISM, family="binomial")
    np.testing.assert_allclose(found.estimate, whole.estimate, rtol=1e-9)

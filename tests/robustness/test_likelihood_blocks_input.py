"""Likelihoods of records in blocks that cannot be had are refused in words; what may be wrong with the records is the same as in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis import streaming
from pramana.estimators.likelihood import climbing, covariate_model
from pramana.frames import sources

N = 600
EDU = ["low", "mid", "high"]
MECHANISM = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.randomized_response(EDU, keep=0.8),
        "ill": pr.TransitionMatrix.binary(0.9, 0.85),
        "pay": pr.LaplaceNoise(1.0),
    }
)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    edu, x = rng.integers(0, 3, N), rng.normal(size=N)
    frame = pd.DataFrame(
        {
            "x": x,
            "twice": 2 * x,
            "edu": np.array(EDU)[edu],
            "ill": rng.integers(0, 2, N),
            "pay": 5 + edu + rng.normal(size=N),
            "wage": 7 + 0.8 * edu + rng.normal(size=N),
            "share": rng.random(N),
            "cell": rng.integers(0, 200, N),
            "firm": rng.integers(0, 20, N),
            "year": rng.integers(0, 4, N),
        }
    )
    return MECHANISM.perturb(frame, seed=5)


@pytest.fixture
def folder(data: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sources, "BATCH", 120)
    monkeypatch.setattr(streaming, "PILOT", 200)
    for k, rows in enumerate(np.array_split(np.arange(N), 4)):
        data.iloc[rows].to_parquet(tmp_path / f"part-{k}.parquet", index=False)
    return tmp_path


def fitted(what: Any, folder: Path, **options: Any) -> pr.Result:
    return pr.fit(what, folder, MECHANISM, **{"method": "likelihood", "memory": 1, **options})


def changed(folder: Path, edit: Callable[[pd.DataFrame], None], name: str = "part-3.parquet") -> None:
    frame = pd.read_parquet(folder / name)
    edit(frame)
    frame.to_parquet(folder / name, index=False)


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("wage ~ edu + cell", {"method": pr.Likelihood(covariate_model="saturated")}, "form .* cells, too many"),
        ("wage ~ edu", {"method": pr.Likelihood(covariate_model="edu")}, "covariate_model='edu' uses 'edu'"),
        ("wage ~ edu", {"method": pr.Likelihood(covariate_model="nobody")}, "column 'nobody' is not in"),
        ("wage ~ edu", {"method": pr.Likelihood(covariates=("x",))}, "'x' is not a perturbed column"),
        ("wage ~ x", {"method": pr.Likelihood(covariates=("z",))}, "column 'z' is not in"),
        ("wage ~ edu", {"method": pr.Likelihood(covariate_model="x + twice")}, "collinear in 'x', 'twice'"),
        ("wage ~ edu + x + twice", {}, "collinear in 'x', 'twice'"),
        ("wage ~ pay", {}, "'pay' has a continuous channel: use 'reversion'"),
        ("share ~ edu", {"family": "binomial"}, "values besides 0 and 1"),
        ("wage ~ edu", {"inference": "resampling"}, "takes no resampling"),
        ("wage ~ edu", {"inference": "jackknife"}, "no jackknife"),
        ("wage ~ edu", {"clusters": ("firm", "year")}, "two-way clusters take the records .* in memory"),
        ("wage ~ edu", {"start": [1.0]}, "start"),
        (pr.crosstab("edu", "ill"), {}, "a maximum-likelihood table is counted in memory"),
    ],
)
def test_what_cannot_be_had_is_refused_in_words(folder: Path, what: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        fitted(what, folder, **options)


def test_too_large_a_model_of_the_covariates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariate_model, "EFFORT_LIMIT", 100)
    with pytest.raises(pr.DataError, match="multiplications a step exceed the limit"):
        fitted("wage ~ edu + x", folder)
    monkeypatch.undo()
    with pytest.raises(pr.DataError, match=r"too many for 600 records \(the limit is 5 records a coefficient\)"):
        fitted("wage ~ edu", folder, method=pr.Likelihood(covariate_model="C(cell)"))


def test_missing_values_of_the_covariates_model(folder: Path) -> None:
    changed(folder, lambda frame: frame.__setitem__("x", frame["x"].where(frame.index != 7)))
    method = pr.Likelihood(covariate_model="x")
    with pytest.raises(pr.DataError, match=r"1 of 600 records have missing values, in 'x' \(1\): use missing='drop'"):
        fitted("wage ~ edu", folder, method=method)
    assert fitted("wage ~ edu", folder, method=method, missing="drop").n == N - 1


def test_a_level_that_the_mechanism_lacks_in_the_last_file(folder: Path) -> None:
    changed(folder, lambda frame: frame.__setitem__("edu", frame["edu"].astype(object).where(frame.index != 9, "none")))
    with pytest.raises(pr.PramanaError, match="none"):
        fitted("wage ~ edu", folder)


def test_a_file_that_changes_between_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell appears that was not there when cells were counted."""
    for file in sorted(folder.glob("*.parquet")):
        changed(folder, lambda frame: frame.__setitem__("cell", frame.index % 2), file.name)
    look, done = climbing.Climber._sums, []

    def sums(self: Any, thetas: Any) -> Any:
        if not done:
            done.append(True)
            changed(folder, lambda frame: frame.__setitem__("cell", 5), "part-1.parquet")
        return look(self, thetas)

    monkeypatch.setattr(climbing.Climber, "_sums", sums)
    with pytest.raises(pr.PramanaError, match=r"part-1\.parquet' changed while it was read: wait until it is complete"):
        fitted("wage ~ edu + cell", folder)


def test_a_likelihood_that_rises_for_ever(folder: Path) -> None:
    """Nobody ill has x above 0: with the noise of edu alone, the response is separated."""
    for file in sorted(folder.glob("*.parquet")):
        changed(folder, lambda frame: frame.__setitem__("apart", (frame["x"] > 0).astype(int)), file.name)
    with pytest.raises(
        pr.SolveError, match=r"no maximum that could be found after \d+ passes over all records: it rises as"
    ):
        fitted("apart ~ x + edu", folder, family="binomial")


def test_a_climb_that_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(climbing, "STEPS", 1)
    with pytest.raises(pr.SolveError, match=r"after 2 passes over all records: some combination .* Merge levels"):
        fitted("wage ~ edu", folder)


def test_weights_that_are_zero_in_whole_files(folder: Path, data: pd.DataFrame) -> None:
    weights = np.where(np.arange(N) < 200, 0.0, 1.5)
    for k, rows in enumerate(np.array_split(np.arange(N), 4)):
        changed(folder, lambda frame, rows=rows: frame.__setitem__("w", weights[rows]), f"part-{k}.parquet")  # type: ignore[misc]
    found = fitted("wage ~ edu + x", folder, weights="w")
    whole = pr.fit("wage ~ edu + x", data.assign(w=weights), MECHANISM, method="likelihood", weights="w")
    np.testing.assert_allclose(found.estimate, whole.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-9)
    assert found.n == whole.n == 400

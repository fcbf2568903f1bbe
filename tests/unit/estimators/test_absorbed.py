"""Absorbed effects against the dummies that they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

LEVELS = ["low", "mid", "high"]
CHANNELS: dict[str, dict[str, Any]] = {
    "clean": {},
    "covariate": {"edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.8)},
    "response": {"y": pr.TransitionMatrix.randomized_response([0, 1, 2, 3], keep=0.85, kind="numeric")},
    "both": {
        "edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.8),
        "y": pr.TransitionMatrix.randomized_response([0, 1, 2, 3], keep=0.85, kind="numeric"),
    },
    "noise": {"x": pr.LaplaceNoise(0.3)},
    "noise and levels": {"x": pr.GaussianNoise(0.3), "edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.8)},
    "strata": {
        "edu": pr.Stratified(
            "w", {k: pr.TransitionMatrix.randomized_response(LEVELS, keep=0.7 + k / 10) for k in (1, 2)}
        )
    },
}


def panel(n: int = 500, firms: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    firm = rng.integers(0, firms, n)
    edu = rng.integers(0, 3, n)
    x = rng.normal(size=n) + rng.normal(size=firms)[firm]
    y = np.clip(
        np.round(1.5 + 0.4 * x + 0.5 * edu - 0.5 + 0.5 * rng.normal(size=firms)[firm] + rng.normal(size=n)), 0, 3
    )
    return pd.DataFrame(
        {
            "firm": [f"f{k}" for k in firm],
            "edu": np.array(LEVELS, dtype=object)[edu],
            "x": x,
            "y": y.astype(int),
            "z": rng.integers(0, 8, n),
            "w": rng.integers(1, 3, n),
        }
    )


def compared(formula: str, data: pd.DataFrame, mechanism: pr.Mechanism | None, **options: Any) -> None:
    short = pr.fit(formula, data, mechanism, absorb="firm", **options)
    full = pr.fit(f"{formula} + C(firm)", data, mechanism, **options)
    places = [full.parameters.index(name) for name in short.parameters]
    square = np.ix_(places, places)
    np.testing.assert_allclose(short.estimate, full.estimate[places], rtol=1e-9)
    np.testing.assert_allclose(short.standard_errors, full.standard_errors[places], rtol=1e-9)
    scale = np.abs(full.covariance[square]).max()
    np.testing.assert_allclose(short.covariance, full.covariance[square], atol=1e-9 * scale)
    if short.privacy is not None:
        np.testing.assert_allclose(short.privacy, full.privacy[square], atol=1e-9 * scale)


@pytest.mark.parametrize("correction", ["HC0", "HC1"])
@pytest.mark.parametrize("name", CHANNELS)
def test_absorbed_effects_are_dummies(name: str, correction: str) -> None:
    mechanism = pr.Mechanism(CHANNELS[name]) if CHANNELS[name] else None
    compared("y ~ x * edu", panel(), mechanism, inference=pr.Sandwich(correction, interval="wald"))


@pytest.mark.parametrize(
    "options",
    [
        {"weights": "w"},
        {"frequencies": "w"},
        {"clusters": "firm"},
        {"subset": "x > -1"},
        {"method": "naive"},
    ],
    ids=str,
)
def test_absorbed_effects_are_dummies_however_records_were_sampled(options: dict[str, Any]) -> None:
    for correction in ("HC0", "HC1"):
        inference = pr.Sandwich(correction, interval="wald")
        compared("y ~ x + edu", panel(), pr.Mechanism(CHANNELS["covariate"]), inference=inference, **options)


def test_a_subset_by_a_perturbed_column_has_groups_of_its_own() -> None:
    mechanism, inference = pr.Mechanism(CHANNELS["covariate"]), pr.Sandwich("HC0", interval="wald")
    compared("y ~ x", panel(firms=8), mechanism, subset="edu != 'high'", inference=inference)


def test_two_way_clusters_go_with_absorbed_effects() -> None:
    data, mechanism = panel().assign(both=lambda d: d["firm"] + d["z"].astype(str)), pr.Mechanism(CHANNELS["covariate"])

    def variance(clusters: Any) -> np.ndarray:
        return pr.fit("y ~ x", data, mechanism, absorb="firm", clusters=clusters).covariance

    np.testing.assert_allclose(variance(("firm", "z")), variance("firm") + variance("z") - variance("both"), rtol=1e-9)


def test_offsets_stay() -> None:
    compared("y ~ edu + offset(x)", panel(), None, inference=pr.Sandwich("HC0"))


def test_many_groups_are_no_parameters() -> None:
    rng = np.random.default_rng(1)
    firm = np.repeat(np.arange(5000), 4)
    x = rng.normal(size=firm.size) + rng.normal(size=5000)[firm]
    data = pd.DataFrame({"firm": firm, "x": x, "y": 2 * x + rng.normal(size=5000)[firm] + rng.normal(size=firm.size)})
    found = pr.fit("y ~ x", data, None, absorb="firm")
    assert found.parameters == ("x",)
    assert found.facts["Absorbed"] == "5000 effects of firm"
    assert found.estimate[0] == pytest.approx(2, abs=5 * found.standard_errors[0])
    assert found.df == 20000 - 5001
    low, high = found.interval()[0]
    assert low < 2 < high


@pytest.mark.parametrize(
    ("formula", "options", "said"),
    [
        ("y ~ x", {"family": "binomial"}, "takes a linear model"),
        ("mean(y)", {}, "takes a linear model"),
        ("y ~ x - 1", {}, "drops the intercept"),
        ("y ~ x + firm", {}, "in the formula too"),
        ("y ~ x", {"absorb": "edu"}, "perturbed column"),
        ("y ~ x", {"absorb": ["firm", "z"]}, "one clean column"),
        ("y ~ x", {"absorb": "nowhere"}, "nowhere"),
        ("y ~ x + size", {}, "do not vary within"),
        ("y ~ x", {"inference": pr.Resampling(draws=20)}, "Resampling would need"),
        ("y ~ x", {"inference": pr.Jackknife()}, "Jackknife would need"),
        ("y ~ x", {"inference": pr.Sandwich("HC2")}, "HC2"),
        ("y ~ x + edu", {"method": "likelihood"}, "linear scores"),
        ("y ~ x + edu", {"method": "stabilized"}, "linear scores"),
        ("y ~ x", {"absorb": "own"}, "leave nothing to estimate|do not vary"),
    ],
)
def test_what_is_not_exact_is_refused(formula: str, options: dict[str, Any], said: str) -> None:
    data = panel().assign(size=lambda d: d["firm"].map(len).astype(float), own=range(500))
    data["size"] = data["firm"].str[1:].astype(float)
    with pytest.raises(pr.PramanaError, match=said):
        pr.fit(formula, data, pr.Mechanism(CHANNELS["covariate"]), **({"absorb": "firm"} | options))


def test_records_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    panel().to_parquet(tmp_path / "panel.parquet")
    with pytest.raises(pr.PramanaError, match="in memory"):
        pr.fit("y ~ x", tmp_path / "panel.parquet", None, absorb="firm", memory=1)

"""The randomisation's part of a variance where records share a draw: Σ_u [φ_u φ_uᵀ − (U_u U_uᵀ)*]."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

pytestmark = pytest.mark.usefixtures("large_sample")

EDU, JOB = ["low", "mid", "high"], ["a", "b"]
P = pr.TransitionMatrix.from_columns(EDU, [[0.7, 0.2, 0.1], [0.2, 0.6, 0.1], [0.1, 0.2, 0.8]], kind="ordinal")
R = pr.TransitionMatrix.randomized_response(JOB, 0.8)
Y = pr.TransitionMatrix.binary(0.9, 0.75)
SCORE = pr.TransitionMatrix.randomized_response([1.0, 2.0, 4.0], 0.75, kind="numeric")
M = pr.Mechanism({"edu": P, "job": R, "y": Y, "score": SCORE}, unit="person")


def people(rng: np.random.Generator, persons: int, waves: int) -> pd.DataFrame:
    """Records in no order; the hidden values are one person's."""
    hidden = {
        "edu": rng.choice(EDU, persons),
        "job": rng.choice(JOB, persons),
        "y": rng.integers(0, 2, persons),
        "score": rng.choice([1.0, 2.0, 4.0], persons),
    }
    frame = pd.DataFrame({"person": np.arange(persons), "region": np.arange(persons) % 3, **hidden})
    frame = frame.loc[frame.index.repeat(waves)].reset_index(drop=True)
    n = len(frame)
    frame["x"], frame["w"] = rng.normal(size=n), rng.uniform(0.5, 2, n)
    frame["income"] = np.exp(0.3 * frame["x"] + 0.4 * (frame["edu"] == "high") + rng.normal(size=n) / 2)
    return frame.sample(frac=1, random_state=3, ignore_index=True)


def drawn(mechanism: pr.Mechanism, frame: pd.DataFrame) -> pd.DataFrame:
    """With a seed, so that a file which happens to have no root is not met on another day."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mechanism.perturb(frame, seed=41)


@pytest.fixture
def panel(rng: np.random.Generator) -> pd.DataFrame:
    return drawn(M, people(rng, 250, 3))


def u_logit(beta: Any, y: Any, x: Any, edu: Any) -> Any:
    design = np.column_stack([np.ones(len(x)), x, edu == "mid", edu == "high"])
    return design * (y - 1 / (1 + np.exp(-design @ beta)))[:, None]


KINDS: list[tuple[Any, dict[str, Any]]] = [
    ("income ~ x + edu", {}),
    ("income ~ x * edu + job", {"weights": "w"}),
    ("income ~ x + edu + job", {}),
    ("y ~ x + edu + job", {}),
    ("income ~ x + edu + job", {"family": "poisson"}),
    ("score ~ x + edu + job", {"family": "gamma", "link": "log"}),
    ("y ~ x + edu", {"family": "binomial"}),
    ("y ~ x", {"family": "binomial"}),
    ("income ~ x + log(score) + offset(score)", {"family": "poisson"}),
    (pr.from_callable(u_logit, ["a", "b", "c", "d"]), {}),
    (pr.mean("score"), {}),
    (pr.mean("income", by="edu"), {"weights": "w"}),
    (pr.mean("score", by=["edu", "region"]), {}),
    (pr.total("score"), {"weights": "w"}),
    (pr.counts("edu"), {}),
    (pr.proportions("edu", by="job"), {}),
    (pr.crosstab("edu", "job"), {}),
    (pr.odds_ratio("y", "job"), {}),
    (pr.correlation("score", "income"), {}),
    (pr.gini("income", by="edu"), {}),
    (pr.average_treatment_effect("income", "y", ["x", "edu"]), {}),
    (pr.quantile_regression("income ~ x + edu", 0.5), {}),
    (pr.median("income", by="edu"), {"inference": pr.Resampling(draws=20, seed=1)}),
    (pr.poverty_rate("income", by="job"), {"inference": pr.Resampling(draws=20, seed=1)}),
    (pr.multinomial("edu ~ x + job"), {}),
    (pr.ordinal("edu ~ x + job"), {}),
    (pr.two_stage_least_squares("income ~ x + score | x + edu"), {}),
]


@pytest.mark.parametrize(("what", "options"), KINDS, ids=[f"{k}-{str(what)[:40]}" for k, (what, _) in enumerate(KINDS)])
def test_persons_of_one_record_give_the_numbers_of_records(what: Any, options: Any, rng: np.random.Generator) -> None:
    """Every kind of equation says what U is at each value that the truth can have: the sums over these are φφᵀ − (UUᵀ)*."""
    released = drawn(M, people(rng, 700, 1))
    options = {"inference": pr.Sandwich(interval="wald"), **options}  # intervals are not compared
    alone = pr.fit(what, released, M.with_unit(None), **options)
    by_unit = pr.fit(what, released, M, **options)
    scale = np.sqrt(np.outer(np.diag(alone.covariance), np.diag(alone.covariance)))
    np.testing.assert_allclose(by_unit.privacy / scale, alone.privacy / scale, atol=1e-9)
    assert np.max(np.diag(alone.privacy / scale)) > 0.02


def slow(frame: pd.DataFrame, beta: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Loops over persons, and over the true values that all perturbed variables of a person can have together."""
    q_edu, q_y = np.linalg.inv(P.matrix), np.linalg.inv(Y.matrix)
    total = np.zeros((4, 4))
    for rows in frame.groupby("person").indices.values():
        part = frame.iloc[rows]
        edu, y = EDU.index(part["edu"].iloc[0]), int(part["y"].iloc[0])
        phi, clean = np.zeros(4), np.zeros((4, 4))
        for k, truth in product(range(3), range(2)):
            sums = np.zeros(4)
            for x, w in zip(part["x"], weights[rows], strict=True):
                design = np.array([1.0, x, k == 1, k == 2])
                sums += w * design * (truth - 1 / (1 + np.exp(-design @ beta)))
            mass = q_edu[k, edu] * q_y[truth, y]
            phi += mass * sums
            clean += mass * np.outer(sums, sums)
        total += np.outer(phi, phi) - clean
    return total


@pytest.mark.parametrize("weights", [None, "w"])
def test_the_split_is_that_of_loops_over_persons(
    weights: str | None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units lie across blocks of records."""
    panel, wald = drawn(M, people(rng, 150, 3)), pr.Sandwich(interval="wald")  # intervals are not compared
    order = {"family": "binomial", "weights": weights, "inference": wald}
    whole = pr.fit("y ~ x + edu", panel, M, **order)  # type: ignore[arg-type]
    monkeypatch.setattr("pramana.engines.local.SMALLEST", 50)
    monkeypatch.setattr("pramana.engines.local.BLOCK_ENTRIES", 1)
    result = pr.fit("y ~ x + edu", panel, M, **order)  # type: ignore[arg-type]
    np.testing.assert_allclose(result.privacy, whole.privacy, rtol=1e-8)
    w = np.ones(len(panel)) if weights is None else panel["w"].to_numpy()
    around = pr.SurveyDesign(weights=weights, target="file")
    design = pr.fit("y ~ x + edu", panel, M, family="binomial", design=around, inference=wald)
    np.testing.assert_allclose(design.covariance, result.privacy, rtol=1e-7)
    expected = slow(panel, result.estimate, w)
    slope = _slope(panel, result.estimate, w)
    np.testing.assert_allclose(
        slope @ result.privacy @ slope.T, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max()
    )
    by_record = pr.fit("y ~ x + edu", panel, M.with_unit(None), clusters="person", **order)  # type: ignore[arg-type]
    assert np.all(np.diag(by_record.privacy)[[0, 2, 3]] < 0.6 * np.diag(result.privacy)[[0, 2, 3]])


def _slope(frame: pd.DataFrame, beta: np.ndarray, w: np.ndarray) -> np.ndarray:
    """−Σ w (x xᵀ μ(1 − μ))*, which the response does not enter."""
    q = np.linalg.inv(P.matrix)[:, [EDU.index(e) for e in frame["edu"]]]
    out = np.zeros((4, 4))
    for k in range(3):
        x = np.column_stack([np.ones(len(frame)), frame["x"], np.full(len(frame), k == 1), np.full(len(frame), k == 2)])
        mu = 1 / (1 + np.exp(-x @ beta))
        out -= (x * (w * q[k] * mu * (1 - mu))[:, None]).T @ x
    return out


@pytest.mark.parametrize("what", ["income ~ x + edu + job", "proportions(edu, by=job)", "total(score)"])
def test_the_identity_matrix_costs_nothing(what: str, rng: np.random.Generator) -> None:
    kept = {"edu": pr.TransitionMatrix(EDU, np.eye(3)), "job": pr.TransitionMatrix(JOB, np.eye(2))}
    kept["score"] = pr.TransitionMatrix([1.0, 2.0, 4.0], np.eye(3), kind="numeric")
    result = pr.fit(what, people(rng, 200, 4), pr.Mechanism(kept, unit="person"))
    np.testing.assert_allclose(np.diag(result.privacy) / np.diag(result.sampling), 0, atol=1e-10)


def test_strata_of_the_channel_and_joint_levels(rng: np.random.Generator) -> None:
    """Persons of one record again, with other kinds of channels; and the split does not depend on the order of records."""
    joint = pr.TransitionMatrix.randomized_response(list(product(EDU, JOB)), 0.7)
    for channels in (
        {("edu", "job"): joint},
        {
            "edu": pr.Stratified(
                "region", {0: P, 1: P, 2: pr.TransitionMatrix.randomized_response(EDU, 0.9, kind="ordinal")}
            )
        },
    ):
        m = pr.Mechanism(channels, unit="person")  # type: ignore[arg-type]
        single, several = drawn(m, people(rng, 400, 1)), drawn(m, people(rng, 200, 4))
        for what in ("income ~ x + edu", "mean(income, by=edu)"):
            alone = pr.fit(what, single, m.with_unit(None)).privacy
            np.testing.assert_allclose(
                pr.fit(what, single, m).privacy, alone, rtol=1e-8, atol=1e-10 * np.abs(alone).max()
            )
            there, back = pr.fit(what, several, m).privacy, pr.fit(what, several.iloc[::-1], m).privacy
            np.testing.assert_allclose(there, back, rtol=1e-8, atol=1e-12)


def test_the_privacy_part_is_by_person_whatever_the_clusters(panel: pd.DataFrame) -> None:
    own = pr.fit("income ~ x + edu", panel, M)
    by_region = panel.assign(house=panel["person"] // 2)
    wider = pr.fit("income ~ x + edu", by_region, M, clusters="house")
    np.testing.assert_allclose(wider.privacy, own.privacy, rtol=1e-10)
    assert not np.allclose(wider.covariance, own.covariance, rtol=1e-3)


@pytest.mark.parametrize("what", ["income ~ x + edu", "total(score)"])
def test_a_finite_population_does_not_shrink_the_noise(what: str, panel: pd.DataFrame) -> None:
    """With one sampling fraction f: (1 − f) of the variance between units, and f times the randomisation's part."""
    frame, f = panel.assign(house=panel["person"] // 4, f=0.4), 0.4
    options: dict[str, Any] = {"strata": "region", "weights": "w", "clusters": "person"}
    around = {
        target: pr.fit(what, frame, M, design=pr.SurveyDesign(fpc="f", target=target, **options))  # type: ignore[arg-type]
        for target in ("superpopulation", "finite", "file")
    }
    expected = (1 - f) * around["superpopulation"].covariance + f * around["file"].covariance
    np.testing.assert_allclose(around["finite"].covariance, expected, rtol=1e-8)
    assert np.all(np.diag(around["file"].covariance) < np.diag(around["finite"].covariance))
    np.testing.assert_allclose(around["file"].covariance, around["superpopulation"].privacy, rtol=1e-10)


def test_score_intervals_around_the_file(panel: pd.DataFrame) -> None:
    """Where the problem is well posed they agree with Wald's: both take the persons' part."""
    design = pr.SurveyDesign(target="file")
    wald = pr.fit("income ~ x + job", panel, M, design=design)
    score = pr.fit("income ~ x + job", panel, M, design=design, inference=pr.Sandwich(interval="score"))
    widths = [np.diff(r.interval(), axis=1) for r in (wald, score)]
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.15)

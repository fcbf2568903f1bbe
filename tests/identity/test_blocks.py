"""Answers do not depend on how records are cut into blocks, nor on the few of them that are fitted first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.engines import LocalEngine, local
from pramana.estimating import products
from randomizations import bound

N = 1200
LEVELS = ["low", "mid", "high"]
CHANNELS = {
    "edu": pr.TransitionMatrix.randomized_response(LEVELS, 0.8, kind="ordinal"),
    "ill": pr.TransitionMatrix.binary(0.9, 0.85),
}
EDU, ILL, BOTH = (pr.Mechanism({c: CHANNELS[c] for c in names}) for names in (["edu"], ["ill"], ["edu", "ill"]))
DRAWS = pr.Resampling(draws=20, seed=3)
LOGIT = {"family": "binomial"}
QUESTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "logit": ("ill ~ age * edu", LOGIT | {"weights": "w"}),
    "factored": ("age ~ edu + ill", {"clusters": "village"}),
    "a column that does not factor": ("ill ~ I((age + 2) ** 2) + edu", LOGIT),
    "score intervals": ("ill ~ edu", LOGIT | {"inference": pr.Sandwich(interval="score")}),
    "drawn weights": ("ill ~ age + edu", LOGIT | {"inference": DRAWS}),
    "a nuisance model": ("ill ~ age", LOGIT | {"method": "model1", "inference": DRAWS}),
    "classes": (pr.multinomial("edu ~ age"), {"weights": "w"}),
    "a system": (pr.two_stage_least_squares("cost ~ age | edu"), {}),
    "moments": (pr.mean("age", by="edu"), {"weights": "w", "clusters": "village"}),
    "sums": (pr.total("age", by="edu"), {"weights": "w"}),
    "ranks": (pr.gini("cost", by="edu"), {}),
    "callable": (pr.from_callable(lambda beta, edu, age: ((edu == "low") * (age - beta[0]))[:, None], ["low"]), {}),
}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=N),
            "edu": rng.choice(LEVELS, N),
            "ill": rng.integers(0, 2, N),
            "cost": rng.gamma(2.0, 1.0, N),
            "w": rng.uniform(0.5, 2, N),
            "village": rng.integers(0, 50, N),
        }
    )
    frame["cost"] += 0.5 * frame["age"] + 3
    with pytest.warns(UserWarning, match="not secure"):
        return EDU.perturb(frame, seed=1)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "BLOCK_ENTRIES", 1)
    monkeypatch.setattr(local, "SMALLEST", 170)
    monkeypatch.setattr(products, "ROWS", 130)


@pytest.mark.parametrize("question", QUESTIONS)
def test_blocks_do_not_change_answers(
    question: str, data: pd.DataFrame, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, options = QUESTIONS[question]
    mechanism = {"a nuisance model": ILL, "factored": BOTH}.get(question, EDU)
    cut = pr.fit(what, data, mechanism, **options)
    monkeypatch.undo()
    whole = pr.fit(what, data, mechanism, **options)
    np.testing.assert_allclose(cut.estimate, whole.estimate, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(cut.covariance, whole.covariance, rtol=1e-9, atol=1e-12)
    assert [d.code for d in cut.diagnostics] == [d.code for d in whole.diagnostics]


@pytest.mark.parametrize("what", [pr.glm("ill ~ age + rare", "binomial"), pr.multinomial("site ~ age + rare")])
def test_separation_of_one_record_is_seen_across_blocks(what: Any, data: pd.DataFrame, small_blocks: None) -> None:
    """Rounding in blocks without that record is no movement."""
    here = np.arange(N) == 5
    sites = np.random.default_rng(2).choice(["a", "b", "c"], N)
    frame = data.assign(rare=here.astype(float), ill=np.where(here, 0, data["ill"]), site=np.where(here, "a", sites))
    engine = LocalEngine.of(bound(what, frame, EDU))
    assert len(engine._blocks) > 5
    direction = np.full(engine.d, 1e-17)
    direction[-1] = -1.0
    assert engine.recedes(direction, engine.own)
    assert not engine.recedes(-direction, engine.own)


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("age ~ edu + rare", {}),
        ("ill ~ edu + some", LOGIT),
        ("turn ~ age + edu", {"family": "gamma"}),
        ("I(2 * age + 1) ~ age", {}),
    ],
    ids=["a level that the first fit lacks", "a column of zeros there", "values in turns", "an exact fit"],
)
def test_first_fits_of_some_records_do_not_mislead(
    formula: str, options: dict[str, Any], data: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = np.arange(N)
    frame = data.assign(
        rare=np.where(place == 7, "r", "s"),
        some=(place % 20 == 7).astype(float),
        turn=np.where(place % 5 == 0, 1e-9, data["cost"]),
    )
    usual = pr.fit(formula, frame, EDU, **options)
    monkeypatch.setattr(local, "PILOT", N // 5)
    found = pr.fit(formula, frame, EDU, **options)
    np.testing.assert_allclose(found.estimate, usual.estimate, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.covariance, usual.covariance, rtol=1e-9, atol=1e-12)

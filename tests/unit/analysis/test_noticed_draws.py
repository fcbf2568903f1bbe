"""A file whose rows of one person carry one released value, although nobody said so, is noticed; a healthy one is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pramana as pr

LEVELS = ["low", "mid", "high"]
P = pr.TransitionMatrix.randomized_response(LEVELS, 0.8)
M = pr.Mechanism({"edu": P})


def panel(seed: int, persons: int = 120, waves: int = 4) -> pd.DataFrame:
    """Persons in no order; edu is one person's, job is a record's."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"person": np.repeat(np.arange(persons), waves)})
    frame["edu"] = rng.choice(LEVELS, persons)[frame["person"]]
    frame["x"] = rng.normal(size=len(frame))
    frame["y"] = frame["x"] + (frame["edu"] == "high") + rng.normal(size=len(frame))
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


def noticed(data: Any, mechanism: pr.Mechanism = M, what: Any = "y ~ x + edu", **options: Any) -> list[str]:
    options = {"inference": pr.Sandwich(interval="wald"), **options}  # intervals are not looked at
    return [d.message for d in pr.fit(what, data, mechanism, **options).diagnostics if d.code == "shared-draws"]


@pytest.fixture
def shared() -> pd.DataFrame:
    return M.with_unit("person").perturb(panel(1), key=bytes(range(32)))


def test_one_draw_a_person_is_noticed(shared: pd.DataFrame) -> None:
    """By the name of a column, by the clusters given as name, array or design, whatever the frame and the type of the column."""
    [message] = noticed(shared)
    assert "all records of one 'person' hold the same released value of 'edu'" in message
    assert "probability below 1e-35" in message
    assert "mechanism.with_unit('person')" in message
    other = shared.rename(columns={"person": "who"})
    assert noticed(other) == []
    assert "one 'who'" in noticed(other, clusters="who")[0]
    assert "one 'clusters'" in noticed(other, clusters=other["who"].to_numpy())[0]
    assert "one 'who'" in noticed(other, design=pr.SurveyDesign(clusters="who"))[0]
    assert noticed(pl.from_pandas(shared)) == [message]
    assert noticed(shared.assign(person="p" + shared["person"].astype(str))) == [message]
    assert noticed(shared, what="proportions(edu)") == [message]


def test_gaps_and_large_files(shared: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = shared.astype({"person": float})
    gaps.loc[::9, "person"] = np.nan
    assert len(noticed(gaps)) == 1
    monkeypatch.setattr("pramana.analysis.shared_draws.TRIED", 30)
    assert len(noticed(shared)) == 1
    assert len(noticed(gaps)) == 1
    shared.loc[shared.index[-1], "edu"] = {"low": "mid"}.get(shared["edu"].iloc[-1], "low")
    assert noticed(shared) == []  # the groups of the first records agree, the others do not


@pytest.mark.parametrize(
    "name", ["id", "ID", "person_id", "personid", "PatientID", "hh_id", "subject", "case_no", "uid"]
)
def test_names_of_identifiers(name: str, shared: pd.DataFrame) -> None:
    assert len(noticed(shared.rename(columns={"person": name}))) == 1


def test_stratified_and_joint_channels() -> None:
    frame = panel(2).assign(sex=lambda d: d["person"] % 2)
    weak = pr.TransitionMatrix.randomized_response(LEVELS, 0.9)
    joint = pr.TransitionMatrix.randomized_response([(e, s) for e in LEVELS for s in (0, 1)], 0.7)
    for m in (pr.Mechanism({"edu": pr.Stratified("sex", {0: P, 1: weak})}), pr.Mechanism({("edu", "sex"): joint})):
        assert len(noticed(m.with_unit("person").perturb(frame, key=bytes(range(32))), m)) == 1
        assert noticed(m.perturb(frame), m) == []


def test_healthy_files_are_silent(shared: pd.DataFrame) -> None:
    """Draws of their own, whatever the groups; equal values that P makes likely; one record a person; nothing perturbed in use."""
    for seed in range(60):
        frame = M.perturb(panel(seed, persons=40, waves=2 + seed % 2))
        assert noticed(frame, clusters="person") == []
    few = shared[shared["person"] < 6]
    assert noticed(few, what="mean(y, by=edu)") == []  # 18 more draws agree: 0.8 ** 18 = 0.02
    sure = pr.Mechanism({"edu": pr.TransitionMatrix(LEVELS, np.eye(3))})
    assert noticed(panel(1), sure) == []
    assert noticed(shared.drop_duplicates("person")) == []
    assert noticed(shared, what="mean(y)") == []
    assert noticed(shared, M.with_unit("person")) == []
    oracle = pr.compare("y ~ x + edu", shared, M, ["reversion", "naive"], truth=panel(1), clusters="person").results[
        "true data"
    ]
    assert [d for d in oracle.diagnostics if d.code == "shared-draws"] == []  # true values are one person's

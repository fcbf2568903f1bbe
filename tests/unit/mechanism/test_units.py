"""Persons with several records: one draw for all of them, and errors that know it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pramana as pr

EDU = ["low", "mid", "high"]
P = pr.TransitionMatrix.randomized_response(EDU, 0.6)
M = pr.Mechanism({"edu": P}, unit="person")
WAVES = 6


@pytest.fixture
def panel(rng: np.random.Generator) -> pd.DataFrame:
    """Six records each of 300 persons, in no order."""
    n = 300
    edu, own = rng.choice(EDU, n), rng.normal(size=n)
    frame = pd.DataFrame({"person": np.repeat(np.arange(n), WAVES), "edu": np.repeat(edu, WAVES)})
    frame["y"] = (frame["edu"] == "high") + np.repeat(own, WAVES) + rng.normal(size=len(frame))
    return frame.sample(frac=1, random_state=1, ignore_index=True)


@pytest.mark.parametrize("options", [{}, {"key": bytes(range(32))}, {"seed": 3}])
@pytest.mark.filterwarnings("ignore:perturb")
def test_records_of_a_person_share_their_draw(panel: pd.DataFrame, options: dict[str, object]) -> None:
    released = M.perturb(panel, **options)  # type: ignore[arg-type]
    assert (released.groupby("person")["edu"].nunique() == 1).all()
    kept = (released["edu"] == panel["edu"]).groupby(panel["person"]).first()
    assert abs(kept.mean() - 0.6) < 4.5 * np.sqrt(0.24 / 300)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_with_units(panel: pd.DataFrame, tmp_path: Path, ending: str) -> None:
    raw, public = tmp_path / f"raw.{ending}", tmp_path / "public"
    public.mkdir()
    panel.to_csv(raw, index=False) if ending == "csv" else panel.to_parquet(raw)
    made = pr.release(raw, public / raw.name, pr.Mechanism({"edu": P}), unit="person", new_id="person")
    assert made.randomness == "fresh"
    assert made.epsilon == pytest.approx(P.epsilon)
    found = pd.read_csv(made.path) if ending == "csv" else pd.read_parquet(made.path)
    assert (found.groupby("person")["edu"].nunique() == 1).all()
    body = json.loads(made.description.read_text())["resources"][0]["pram"]
    assert body["version"] == "2.0"
    assert body["unit"] == {"column": "person", "varies": False}
    assert "analysts must cluster on it" in body["limits"][-1]
    assert pr.Mechanism.load(made.path).unit == pr.Unit("person")
    assert "300 clusters" in pr.fit("y ~ edu", made.path, "auto").summary()


def test_values_that_vary_are_refused_unless_asked_for(panel: pd.DataFrame) -> None:
    panel.loc[panel.index[panel["person"] == 7][0], "edu"] = "mid"
    panel.loc[panel.index[panel["person"] == 7][1], "edu"] = "low"
    with pytest.raises(pr.DataError, match=r"edu .*differs between the records of .*unit 'person'.*varies"):
        M.perturb(panel)
    varying = pr.Mechanism({"edu": P}, unit=pr.Unit("person", varies=True))
    released = varying.perturb(panel)
    assert varying.epsilon == np.inf
    assert (released.groupby(["person", panel["edu"]])["edu"].nunique() == 1).all()


def test_a_stratum_that_varies_within_a_person_is_refused(panel: pd.DataFrame) -> None:
    """One word under two matrices is not one draw."""
    m = pr.Mechanism({"edu": pr.Stratified("wave", {0: P, 1: P})}, unit="person")
    panel["wave"] = np.arange(len(panel)) % 2
    with pytest.raises(pr.DataError, match="column that decides its matrix"):
        m.perturb(panel)


def test_gaps_do_not_make_a_person_vary(panel: pd.DataFrame) -> None:
    panel.loc[::5, "edu"] = None
    released = M.perturb(panel)
    assert released["edu"].isna().equals(panel["edu"].isna())


def test_fits_cluster_by_the_unit_unless_told_otherwise(panel: pd.DataFrame) -> None:
    released = M.perturb(panel)
    given = pr.fit("y ~ edu", released, M.with_unit(None), clusters="person")
    assert np.array_equal(pr.fit("y ~ edu", released, M).covariance, given.covariance)
    assert "clusters" not in pr.fit(pr.mean("y"), released, M).summary()
    released["house"] = released["person"] // 2
    assert "150 clusters" in pr.fit("y ~ edu", released, M, clusters="house").summary()
    designed = pr.fit("y ~ edu", released, M, design=pr.SurveyDesign())
    assert "300 clusters" in designed.summary() or np.all(designed.degrees_of_freedom <= 299)


def test_what_is_not_known_under_shared_draws_is_refused(panel: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws by level, a person's column that is gone, another method, more values than the limit."""
    released, around = M.perturb(panel), pr.SurveyDesign(target="file")
    nameless = released.assign(house=released["person"] // 2).drop(columns="person")
    varying = M.with_unit(pr.Unit("person", varies=True))
    for data, mechanism, clusters in ((released, varying, None), (nameless, M, "house")):
        with pytest.raises(pr.PramanaError, match=r"does not decompose.*share a draw.*one true value"):
            pr.fit("y ~ edu", data, mechanism, clusters=clusters).price_of_privacy()
        with pytest.raises(pr.PramanaError, match=r"target='file' needs the randomisation's part.*share a draw"):
            pr.fit("y ~ edu", data, mechanism, design=replace(around, clusters=clusters))
    with pytest.raises(pr.PramanaError, match=r"target='file' needs.*method='reversion'"):
        pr.fit("y ~ edu", released, M, design=around, method="model-dependent")
    naive = pr.fit("y ~ edu", released, M, design=around, method="naive")
    assert "no-randomisation" in [d.code for d in naive.diagnostics]
    monkeypatch.setattr("pramana.estimators.uncertainty.SHARED_LIMIT", 1e4)
    with pytest.raises(
        pr.PramanaError, match=r"3 combinations of levels for 1800 .* 1.6e\+04 values, above the limit of 1e\+04"
    ):
        pr.fit("y ~ edu", released, M).price_of_privacy()
    with pytest.raises(pr.PramanaError, match=r"target='file' needs.*limit"):
        pr.fit("y ~ edu", released, M, design=around)


def test_clusters_that_cut_a_person_are_refused(panel: pd.DataFrame) -> None:
    released = M.perturb(panel).assign(wave=np.arange(len(panel)) % WAVES)
    for options in ({"clusters": "wave"}, {"design": pr.SurveyDesign(strata="wave")}):
        with pytest.raises(
            pr.DataError, match=r"one 'person' share a draw, and 300 of 300 .*hold every 'person' whole"
        ):
            pr.fit("y ~ edu", released, M, **options)  # type: ignore[arg-type]
    varying = M.with_unit(pr.Unit("person", varies=True))
    with pytest.raises(pr.DataError, match="hold every 'person' whole"):
        pr.fit("y ~ edu", released, varying, clusters="wave")


def test_persons_whose_released_values_differ_are_refused(panel: pd.DataFrame) -> None:
    """The description is of another file, or the rows have been mixed."""
    released = M.with_unit(None).perturb(panel)
    with pytest.raises(
        pr.DataError, match=r"records hold another value of 'edu' than the first record of their unit 'person'"
    ):
        pr.fit("y ~ edu", released, M)
    assert pr.fit("y ~ edu", released, M.with_unit(pr.Unit("person", varies=True))).n == len(panel)


def test_gaps_leave_the_split_to_the_other_records(panel: pd.DataFrame) -> None:
    """In the perturbed column, in a clean one, and in the unit."""
    released = M.perturb(panel.assign(edu=panel["edu"].where(np.arange(len(panel)) % 5 > 0)))
    released.loc[::7, "y"] = np.nan
    whole = released.dropna()
    found = pr.fit("y ~ edu", released, M, missing="drop").privacy
    np.testing.assert_allclose(found, pr.fit("y ~ edu", whole, M).privacy, rtol=1e-12)
    released = whole.assign(house=whole["person"] // 2, person=whole["person"].where(whole["person"] != 5))
    with pytest.raises(pr.DataError, match="'person'"):
        pr.fit("y ~ edu", released, M, clusters="house")
    kept = pr.fit("y ~ edu", released, M, clusters="house", missing="drop")
    assert kept.n == released["person"].notna().sum()


def test_standard_errors_are_those_of_persons(rng: np.random.Generator) -> None:
    """Spread over draws of sample and noise; without the unit the errors are less than half of it, and that is seen."""
    n, estimates, errors, naive, wald = 300, [], [], [], pr.Sandwich(interval="wald")
    for _ in range(60):
        edu = rng.choice(EDU, n)
        frame = pd.DataFrame({"person": np.repeat(np.arange(n), WAVES), "edu": np.repeat(edu, WAVES)})
        released = M.perturb(frame)
        fitted, apart = (pr.fit(pr.proportions("edu"), released, m, inference=wald) for m in (M, M.with_unit(None)))
        estimates.append(fitted.estimate[0])
        errors.append(fitted.standard_errors[0])
        naive.append(apart.standard_errors[0])
    spread = np.std(estimates)
    tolerance = 4.5 / np.sqrt(2 * 60)
    assert abs(np.mean(errors) / spread - 1) < tolerance
    assert np.mean(naive) / spread < 1 - tolerance


def test_the_unit_must_be_clean_and_there(panel: pd.DataFrame) -> None:
    with pytest.raises(pr.MechanismError, match="unit 'edu' is perturbed itself"):
        pr.Mechanism({"edu": P}, unit="edu")
    with pytest.raises(pr.DataError, match=r"unit needs column.*'person'"):
        M.perturb(panel.drop(columns="person"))
    with pytest.raises(pr.MechanismError, match="draws go by the unit 'person': leave out id"):
        M.perturb(panel, key=bytes(range(32)), id="person")
    panel.loc[3, "person"] = np.nan
    with pytest.raises(pr.DataError, match="'person' has 1 missing value"):
        M.perturb(panel)

"""Channels that release reports: into frames and files of every kind, and back through the same doors as levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pramana as pr
from golden_texts import worded
from pramana.frames import read
from pramana.mechanism import Mechanism

GOLDEN = Path(__file__).parents[2] / "golden" / "mechanism-reports-1.3.json"
LEVELS = ["bus", "car", "train"]
N = 4000


def channels() -> dict[str, Any]:
    """Every channel of reports, in every way in which its reports can lie."""
    rectangle = [[0.6, 0.1, 0.1], [0.1, 0.6, 0.1], [0.1, 0.1, 0.6], [0.2, 0.2, 0.2]]
    bits = ["bit_bus", "bit_car", "bit_train"]
    return {
        "rectangular": pr.RectangularMatrix(LEVELS, rectangle, released=[*LEVELS, "NA"]),
        "rectangular numbers": pr.RectangularMatrix(
            LEVELS, rectangle, released=[1, 2, 3, 9], frequencies=[0.5, 0.3, 0.2]
        ),
        "unary": pr.UnaryEncoding.optimized(LEVELS, 2.0),
        "unary columns": pr.UnaryEncoding.optimized(LEVELS, 2.0, columns=bits),
        "subset": pr.SubsetSelection(LEVELS, 1.0, 2),
        "subset columns": pr.SubsetSelection(LEVELS, 1.0, 2, columns=bits),
        "hashing": pr.LocalHashing(LEVELS, 2.0),
        "hashing columns": pr.LocalHashing(LEVELS, 2.0, columns=["seed", "value"]),
        "hadamard": pr.HadamardResponse(LEVELS, 2.0),
        "hadamard column": pr.HadamardResponse(LEVELS, 2.0, columns=["h"], kind="ordinal"),
    }


NAMES = list(channels())


@pytest.fixture
def mechanism(name: str) -> Mechanism:
    return Mechanism({"travel": channels()[name]})


@pytest.fixture
def true() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    code, x = rng.choice(3, N, p=[0.5, 0.3, 0.2]), rng.normal(size=N)
    y = 1 + x + np.array([0.0, 1.0, -1.0])[code] + rng.normal(size=N)
    return pd.DataFrame({"travel": np.array(LEVELS, dtype=object)[code], "x": x, "y": y})


def drawn(mechanism: Mechanism, frame: Any, seed: int = 1) -> Any:
    with pytest.warns(pr.PramanaWarning, match="not secure"):
        return mechanism.perturb(frame, seed=seed)


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_frame_gives_one_answer(mechanism: Mechanism, true: pd.DataFrame) -> None:
    frames: list[Any] = [
        true,
        pl.from_pandas(true),
        pa.Table.from_pandas(true),
        {k: v.to_numpy() for k, v in true.items()},
    ]
    results = [pr.fit("y ~ x + travel", drawn(mechanism, frame), mechanism) for frame in frames]
    assert results[0].parameters == ("Intercept", "x", "travel[T.car]", "travel[T.train]")
    for other in results[1:]:
        np.testing.assert_array_equal(other.estimate, results[0].estimate)
        np.testing.assert_array_equal(other.covariance, results[0].covariance)
    truth = np.array([1.0, 1.0, 1.0, -1.0])
    assert np.all(np.abs(results[0].estimate - truth) < 4.5 * results[0].standard_errors)


@pytest.mark.parametrize("name", NAMES)
def test_files_give_the_answer_of_the_frame(mechanism: Mechanism, true: pd.DataFrame, tmp_path: Path) -> None:
    """Bits with leading zeros, "NA" as a label, and "12:30", which is no time of day."""
    released = drawn(mechanism, true)
    released.to_csv(tmp_path / "released.csv", index=False)
    released.to_parquet(tmp_path / "released.parquet")
    mechanism.save(tmp_path / "mechanism.json")
    expected = pr.fit(pr.proportions("travel"), released, mechanism)
    for file in ("released.csv", "released.parquet"):
        found = pr.fit(pr.proportions("travel"), tmp_path / file, tmp_path / "mechanism.json")
        np.testing.assert_allclose(found.estimate, expected.estimate, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_described_parquet_file_is_read_by_auto(mechanism: Mechanism, true: pd.DataFrame, tmp_path: Path) -> None:
    from pyarrow import parquet

    released = drawn(mechanism, true)
    table = pa.Table.from_pandas(released)
    parquet.write_table(
        table.replace_schema_metadata({"pram": json.dumps(mechanism.document())}), tmp_path / "a.parquet"
    )
    found = pr.fit(pr.proportions("travel"), tmp_path / "a.parquet", "auto")
    np.testing.assert_array_equal(found.estimate, pr.fit(pr.proportions("travel"), released, mechanism).estimate)
    with pytest.raises(pr.MechanismError, match="carries a description"):
        pr.fit("y ~ x", tmp_path / "a.parquet", None)


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_leaves_the_frame(mechanism: Mechanism, true: pd.DataFrame) -> None:
    released = drawn(mechanism, true)
    own = mechanism.assignments[0].reported_in
    assert set(released.columns) == {"x", "y", *own}
    for column in own:
        assert not np.array_equal(released[column].astype(str), true["travel"])


@pytest.mark.parametrize("name", NAMES)
def test_gaps_stay_gaps(mechanism: Mechanism, true: pd.DataFrame) -> None:
    true.loc[[3, 5], "travel"] = None
    released = drawn(mechanism, true)
    own = list(mechanism.assignments[0].reported_in)
    assert released[own].isna().all(axis=1).to_numpy().nonzero()[0].tolist() == [3, 5]
    with pytest.raises(pr.DataError, match=r"2 of 4000 records have missing values, in 'travel' \(2\)"):
        pr.fit("y ~ travel", released, mechanism)
    assert pr.fit("y ~ travel", released, mechanism, missing="drop").n == N - 2


@pytest.mark.parametrize("name", NAMES)
def test_descriptions_come_back_as_they_were(mechanism: Mechanism, tmp_path: Path) -> None:
    mechanism.save(tmp_path / "m.json")
    loaded = Mechanism.load(tmp_path / "m.json")
    assert loaded == mechanism
    assert repr(loaded.assignments[0].channel) == repr(mechanism.assignments[0].channel)
    assert loaded.epsilon == mechanism.epsilon


def test_the_golden_file_is_read_and_written_word_for_word(tmp_path: Path) -> None:
    golden = Mechanism(
        {f"v{k}": channel for k, (name, channel) in enumerate(channels().items()) if "columns" not in name}
    )
    golden.save(tmp_path / "m.json")
    assert worded((tmp_path / "m.json").read_text(encoding="utf-8")) == worded(GOLDEN.read_text(encoding="utf-8"))
    assert Mechanism.load(GOLDEN) == golden


@pytest.mark.parametrize(
    ("text", "columns"), [("unary", "unary columns"), ("subset", "subset columns"), ("hashing", "hashing columns")]
)
def test_text_and_columns_are_two_spellings_of_one_report(text: str, columns: str, true: pd.DataFrame) -> None:
    first, second = (Mechanism({"travel": channels()[name]}) for name in (text, columns))
    one, two = (pr.fit("y ~ x + travel", drawn(m, true), m) for m in (first, second))
    np.testing.assert_array_equal(one.estimate, two.estimate)
    np.testing.assert_array_equal(one.covariance, two.covariance)


@pytest.mark.parametrize("name", NAMES)
def test_keyed_draws_repeat_themselves(mechanism: Mechanism, true: pd.DataFrame) -> None:
    frame, key = true.assign(id=np.arange(N)), bytes(range(32))
    once, again = (
        mechanism.perturb(frame.iloc[rows], key=key, id="id") for rows in (slice(None), slice(None, None, -1))
    )
    pd.testing.assert_frame_equal(once, again.iloc[::-1])
    found = pr.fit(pr.proportions("travel"), once, mechanism)
    assert np.all(
        np.abs(found.estimate - true["travel"].value_counts(normalize=True)[LEVELS]) < 4.5 * found.standard_errors
    )


@pytest.mark.parametrize("name", NAMES)
def test_records_of_a_unit_share_their_report(mechanism: Mechanism, true: pd.DataFrame) -> None:
    frame = true.iloc[:1000].loc[lambda d: d.index.repeat(2)].reset_index(drop=True).assign(person=np.arange(2000) // 2)
    shared = mechanism.with_unit("person")
    released = shared.perturb(frame)
    own = list(mechanism.assignments[0].reported_in)
    assert released.groupby("person")[own].nunique().eq(1).all(axis=None)
    doubled = pr.fit(pr.proportions("travel"), released, shared)
    single = pr.fit(pr.proportions("travel"), released.iloc[::2], mechanism)
    np.testing.assert_allclose(doubled.standard_errors, single.standard_errors, rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_price_of_privacy_and_oracle(name: str, true: pd.DataFrame) -> None:
    """As for levels."""
    mechanism = Mechanism({"travel": channels()[name]})
    share = pr.fit("y ~ x + travel", drawn(mechanism, true), mechanism).price_of_privacy()["privacy_share"]
    assert share.between(0, 1).all()
    compared = pr.compare("y ~ x + travel", drawn(mechanism, true), mechanism, ["reversion"], truth=true)
    np.testing.assert_allclose(compared["true data"].estimate, pr.fit("y ~ x + travel", true, None).estimate, atol=1e-9)


def test_bits_without_noise_are_the_truth(true: pd.DataFrame) -> None:
    mechanism = Mechanism({"travel": pr.UnaryEncoding(LEVELS, 1.0, 0.0)})
    released = drawn(mechanism, true)
    clean = pr.fit("y ~ x + travel", true, None)
    for method in ("reversion", "likelihood"):
        found = pr.fit("y ~ x + travel", released, mechanism, method=method)
        np.testing.assert_allclose(found.estimate, clean.estimate, rtol=0, atol=1e-7)
    assert mechanism.epsilon == float("inf")


@pytest.mark.parametrize("name", NAMES)
def test_likelihood_and_reversion_tell_the_same(mechanism: Mechanism, true: pd.DataFrame) -> None:
    frame = true.assign(late=(true["y"] > 1).astype(int))
    released = drawn(mechanism, frame)
    first, second = (
        pr.fit("late ~ x + travel", released, mechanism, family="binomial", method=m)
        for m in ("reversion", "likelihood")
    )
    assert np.all(np.abs(first.estimate - second.estimate) < 4 * first.standard_errors)
    assert np.all(second.standard_errors < 1.2 * first.standard_errors)


@pytest.mark.parametrize("name", NAMES)
def test_reports_as_response_as_domain_and_in_two_columns(mechanism: Mechanism, true: pd.DataFrame) -> None:
    both = Mechanism({**{"travel": mechanism.assignments[0].channel}, "late": pr.TransitionMatrix.binary(0.9, 0.9)})
    released = drawn(both, true.assign(late=(true["y"] > 1).astype(int)))
    by = pr.fit(pr.mean("y", by="travel"), released, both)
    expected = true.groupby("travel")["y"].mean()[LEVELS]
    assert np.all(np.abs(by.estimate - expected) < 4.5 * by.standard_errors)
    classes = pr.fit(pr.multinomial("travel ~ x"), released, both)
    assert np.all(np.abs(classes.estimate[[1, 3]]) < 4.5 * classes.standard_errors[[1, 3]])
    cells = pr.fit(pr.crosstab("travel", "late"), released, both)
    assert cells.estimate.sum() == pytest.approx(1)
    domain = pr.fit(pr.mean("y"), released, both, subset="travel == 'car'")
    assert domain.estimate[0] == pytest.approx(by.estimate[1])


def test_a_study_takes_reports() -> None:
    def generate(rng: np.random.Generator, n: int) -> dict[str, Any]:
        code = rng.choice(3, n)
        return {"travel": np.array(LEVELS, dtype=object)[code], "y": code + rng.normal(size=n)}

    mechanism = Mechanism({"travel": pr.UnaryEncoding.optimized(LEVELS, 3.0, columns=["a", "b", "c"])})
    scenario = pr.Scenario(generate, mechanism, "y ~ travel", (0, 1, 2), n=500)
    found = pr.simulate(scenario, ["true data", "reversion"], replicates=8, seed=1).replicates
    assert found is not None
    for method in ("true data", "reversion"):
        assert np.all(np.abs(found.values[method]["estimate"].mean(axis=0) - [0, 1, 2]) < 0.25)


@pytest.mark.parametrize("name", NAMES)
def test_reports_that_were_chosen_by_their_value_are_noticed(mechanism: Mechanism, true: pd.DataFrame) -> None:
    released = drawn(mechanism, true)
    table = mechanism.received(read(released))
    assert not [d for d in pr.fit("mean(y)", released, mechanism).diagnostics if d.code == "filtered-on-perturbed"]
    chosen = released[table.column("travel") == "car"]
    found = [d for d in pr.fit("mean(y)", chosen, mechanism).diagnostics if d.code == "filtered-on-perturbed"]
    assert len(found) == 1
    assert "'travel'" in found[0].message


@pytest.mark.parametrize("name", [name for name in NAMES if "rect" not in name])
def test_the_reach_of_the_weights(mechanism: Mechanism) -> None:
    """Over all supports, two weights of a level differ by at most this, and by this."""
    channel: Any = mechanism.assignments[0].channel
    every = np.array([[b >> k & 1 for k in range(3)] for b in range(8)], dtype=bool)
    np.testing.assert_allclose(np.ptp(channel.weights(every), axis=0), channel.reach)


def test_repeated_records_of_a_person_may_share_a_seed() -> None:
    mechanism = Mechanism({"travel": pr.LocalHashing(LEVELS, 2.0)}, unit="person")
    panel = pd.DataFrame({"person": np.arange(600) // 12, "travel": np.repeat(LEVELS * 17, 12)[:600]})
    released = mechanism.perturb(panel)
    assert pr.fit(pr.proportions("travel"), released, mechanism).n == 600
    with pytest.raises(pr.DataError, match=r"50 seed\(s\) for 600 reports.*name the unit"):
        pr.fit(pr.proportions("travel"), released, mechanism.with_unit(None))

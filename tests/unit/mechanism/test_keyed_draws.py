"""Keyed draws: a function of key, column, P, record and true level, and of nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, kstest

import pramana as pr
from pramana.mechanism.draws.keyed import Key, KeyedColumn, KeyedRecords, canonical, channel_hash

SECRET = bytes(range(32))
EDU = ["low", "mid", "high"]
P = pr.TransitionMatrix.randomized_response(EDU, 0.5)
N = 200_000


def words(column: str = "edu", channel: pr.TransitionMatrix = P, code: int = 0, secret: bytes = SECRET) -> Any:
    key = Key(secret)
    digests = KeyedRecords(key).digests(np.arange(N), "id")
    stream = KeyedColumn(key, (column,), channel).words(digests, np.full(N, code))
    return stream.words(N), stream.words(N)


def uniform(values: Any) -> float:
    """p-value over 256 equal cells, of the high and of the low byte."""
    parts = [np.bincount((values >> np.uint64(shift)).astype(np.uint8), minlength=256) for shift in (0, 56)]
    return min(float(chi2.sf(np.sum((c - N / 256) ** 2 / (N / 256)), 255)) for c in parts)


def test_without_the_key_the_words_pass_for_uniform() -> None:
    for lane in words():
        assert uniform(lane) > 1e-6
        assert kstest(lane / 2.0**64, "uniform").pvalue > 1e-6
        assert np.unique(lane).size == N


@pytest.mark.parametrize(
    "other",
    [
        {"column": "income"},
        {"channel": pr.TransitionMatrix.randomized_response(EDU, 0.6)},
        {"code": 1},
        {"secret": bytes(range(1, 33))},
    ],
)
def test_another_column_matrix_level_or_key_gives_independent_words(other: dict[str, Any]) -> None:
    a, b = words()[0] / 2.0**64, words(**other)[0] / 2.0**64
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(N)
    table = np.histogram2d(a, b, bins=8, range=[[0, 1], [0, 1]])[0]
    assert chi2.sf(np.sum((table - N / 64) ** 2 / (N / 64)), 63) > 1e-6


def test_the_two_words_of_a_record_are_independent() -> None:
    a, b = (w / 2.0**64 for w in words())
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(N)


def test_identifiers_keep_their_type_but_not_their_width() -> None:
    records = KeyedRecords(Key(SECRET))
    for same in (np.array([7]), np.array([7.0]), np.array([7], dtype=np.uint8), np.array([7], dtype=object)):
        np.testing.assert_array_equal(records.digests(same, "id"), records.digests(np.array([7]), "id"))
    different = [
        np.array([7]),
        np.array(["7"], dtype=object),
        np.array([7.5]),
        np.array([-7]),
        np.array([2**64 - 7], np.uint64),
    ]
    assert len({records.digests(v, "id").tobytes() for v in different}) == len(different)


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, "1"), (1, True), (1.5, "1.5"), (("a", "bc"), ("ab", "c")), ((1, 2), (12,)), ("", ("",)), (b"a", "a")],
)
def test_canonical_bytes_tell_values_apart(a: Any, b: Any) -> None:
    assert canonical(a) != canonical(b)


def test_the_hash_of_a_matrix_ignores_its_kind_alone() -> None:
    same = pr.TransitionMatrix.randomized_response(EDU, 0.5, kind="ordinal")
    assert channel_hash(same) == channel_hash(P)
    given = pr.TransitionMatrix.from_document({**P.document(), "conditional": True})
    assert channel_hash(given) == channel_hash(P)
    assert channel_hash(pr.TransitionMatrix.randomized_response(EDU[::-1], 0.5)) != channel_hash(P)


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    n = 3000
    return pd.DataFrame({"id": rng.permutation(n), "edu": rng.choice(EDU, n), "job": rng.choice(EDU, n)})


MECHANISM = pr.Mechanism({"edu": P, "job": P})


def by_id(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values("id").reset_index(drop=True)


def test_a_record_keeps_its_draw_whatever_surrounds_it(frame: pd.DataFrame) -> None:
    once = MECHANISM.perturb(frame, key=SECRET, id="id")
    shuffled = MECHANISM.perturb(frame.sample(frac=1, random_state=1), key=SECRET, id="id")
    pd.testing.assert_frame_equal(by_id(once), by_id(shuffled))
    some = MECHANISM.perturb(frame.iloc[500:900], key=SECRET, id=frame["id"].to_numpy()[500:900])
    pd.testing.assert_frame_equal(some, once.iloc[500:900])
    alone = pr.Mechanism({"job": P}).perturb(frame, key=SECRET, id="id")
    pd.testing.assert_series_equal(alone["job"], once["job"])


def test_columns_of_the_same_matrix_are_independent(frame: pd.DataFrame) -> None:
    big = pd.DataFrame({"id": np.arange(100_000), "edu": "low", "job": "low"})
    released = MECHANISM.perturb(big, key=SECRET, id="id")
    counts = pd.crosstab(released["edu"], released["job"]).to_numpy()
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    assert chi2.sf(np.sum((counts - expected) ** 2 / expected), 4) > 1e-6
    assert np.mean(released["edu"] == "low") == pytest.approx(0.5, abs=0.01)


def test_strata_do_not_move_the_draws_of_a_record(frame: pd.DataFrame) -> None:
    frame["region"] = np.where(frame["id"] % 3 == 0, "n", "s")
    channel = pr.Stratified("region", {"n": P, "s": pr.TransitionMatrix.randomized_response(EDU, 0.7)})
    mechanism = pr.Mechanism({"edu": channel})
    once = mechanism.perturb(frame, key=SECRET, id="id")
    part = mechanism.perturb(frame[frame["region"] == "s"], key=SECRET, id="id")
    pd.testing.assert_frame_equal(part, once[once["region"] == "s"])


def test_a_missing_value_stays_missing(frame: pd.DataFrame) -> None:
    frame.loc[3, "edu"] = None
    released = MECHANISM.perturb(frame, key=SECRET, id="id")
    assert released["edu"].isna().sum() == 1


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"key": SECRET}, "key draws need id"),
        ({}, {"id": "id"}, "id is for keyed draws: give a key"),
        ({}, {"key": SECRET, "id": "id", "seed": 1}, "key and seed exclude each other"),
        ({}, {"key": b"short", "id": "id"}, "at least 32 bytes"),
        ({}, {"key": bytes(64), "id": "id"}, "a few bytes repeated"),
        ({}, {"key": SECRET, "id": "edu"}, "'edu' is perturbed itself"),
        ({}, {"key": SECRET, "id": [1, 2]}, r"id has shape \(2,\) but the data have 3000"),
        ({}, {"key": SECRET, "id": "nobody"}, "'nobody' is not in the data"),
        (
            {7: 424242, 9: 424242, 20: 424242},
            {"key": SECRET, "id": "id"},
            r"repeats itself in 2 record\(s\), first in row 9",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:perturb")
def test_wrong_use_is_one_error_without_a_value(
    change: dict[int, int], options: dict[str, Any], message: str, frame: pd.DataFrame
) -> None:
    for row, value in change.items():
        frame.loc[row, "id"] = value
    with pytest.raises(pr.PramanaError, match=message) as caught:
        MECHANISM.perturb(frame, **options)
    assert "424242" not in str(caught.value)


def test_a_missing_identifier_is_named_by_its_row(frame: pd.DataFrame) -> None:
    frame["id"] = frame["id"].astype("Int64")
    frame.loc[[5, 8], "id"] = pd.NA
    with pytest.raises(pr.DataError, match=r"'id' has 2 missing value\(s\), first in row 5"):
        MECHANISM.perturb(frame, key=SECRET, id="id")


def test_key_files_are_made_once_and_for_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "k"
    made = Key.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Key.load(path) == made
    with pytest.raises(pr.MechanismError, match="never overwritten"):
        Key.create(path)
    path.chmod(0o644)
    with pytest.warns(UserWarning, match="can be read by others"):
        Key.load(path)
    with pytest.raises(pr.MechanismError, match="does not exist"):
        Key.load(tmp_path / "absent")


def test_a_key_shows_nothing_of_itself() -> None:
    key = Key(SECRET)
    assert repr(key) == "Key()"
    assert SECRET.hex()[:8] not in key.fingerprint
    assert key.fingerprint != Key(bytes(range(1, 33))).fingerprint

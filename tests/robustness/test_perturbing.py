"""Perturbing confidential data: no value in a message, no value changed in kind, no record released as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pramana as pr

EDU = ["low", "mid", "high"]
EVEN = pr.TransitionMatrix.randomized_response(EDU, 0.5)
pytestmark = pytest.mark.filterwarnings("ignore:perturb")


@pytest.mark.parametrize(
    ("mechanism", "data", "message"),
    [
        (
            pr.Mechanism({"edu": EVEN}),
            {"edu": ["low", "SECRET"]},
            r"'edu' has 1 value\(s\) .* first in row 1: .*add the level",
        ),
        (
            pr.Mechanism({"edu": EVEN}),
            {"edu": [None, "SECRET"]},
            r"'edu' has 1 value\(s\) .* first in row 1: .*add the level",
        ),
        (
            pr.Mechanism({"k": pr.TransitionMatrix.binary(0.9, 0.9)}),
            {"k": ["SECRET", "SECRET"]},
            r"'k' holds text .* numbers, such as .withheld. .*Convert the column",
        ),
        (
            pr.Mechanism({("a", "b"): pr.TransitionMatrix([(1, 1), (2, 2)], [[0.9, 0.1], [0.1, 0.9]])}),
            {"a": [1, 2], "b": [1, 1]},
            r"'a × b' has 1 value\(s\) .* first in row 1: .*add the level",
        ),
        (
            pr.Mechanism({"edu": pr.Stratified("region", {"north": EVEN})}),
            {"edu": ["low", "mid"], "region": ["north", "SECRET"]},
            r"'region' has 1 value\(s\) .* first in row 1: .*needs its transition matrix",
        ),
        (
            pr.Mechanism({"edu": pr.Stratified("region", {"north": EVEN})}),
            {"edu": ["low", "mid"], "region": ["north", None]},
            r"'region' has 1 missing value\(s\), first in row 1, .*fill them in",
        ),
        (pr.Mechanism({"edu": EVEN}), {"edx": ["SECRET"]}, "'edu', which the data lack: did you mean 'edx'"),
        (
            pr.Mechanism({"edu": pr.Stratified("region", {"north": EVEN})}),
            {"edu": ["low"], "regoin": ["SECRET"]},
            "'region', which the data lack: did you mean 'regoin'",
        ),
    ],
)
def test_an_error_names_column_row_and_count_but_no_value(mechanism: pr.Mechanism, data: Any, message: str) -> None:
    with pytest.raises(pr.DataError, match=message) as caught:
        mechanism.perturb(pd.DataFrame(data), seed=1)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("seed", [-1, "x", 1.5])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(pr.MechanismError, match=rf"seed={seed!r} must be a whole number of at least 0"):
        pr.Mechanism({"edu": EVEN}).perturb({"edu": EDU}, seed=seed)


@pytest.mark.parametrize(
    "frame",
    [
        {"k": np.ones(60, np.int8)},
        pd.DataFrame({"k": np.ones(60, np.int8)}),
        pl.DataFrame({"k": pl.Series([1] * 60, dtype=pl.Int8)}),
        pa.table({"k": pa.array([1] * 60, pa.int8())}),
    ],
    ids=["dict", "pandas", "polars", "arrow"],
)
@pytest.mark.parametrize("level", [1000, 1.5])
def test_a_column_too_narrow_for_a_level_is_refused_not_wrapped(frame: Any, level: float) -> None:
    mechanism = pr.Mechanism({"k": pr.TransitionMatrix.binary(0.6, 0.6, levels=(1, level))})
    with pytest.raises(pr.DataError, match=r"'k' of type [Ii]nt8 cannot hold every level of the mechanism: cast it"):
        mechanism.perturb(frame, seed=1)


def test_missing_values_stay_missing_in_a_dictionary() -> None:
    released = pr.Mechanism({"edu": EVEN}).perturb({"edu": np.array(["low", None, "high"], object)}, seed=1)
    assert released["edu"][1] is None
    assert set(released["edu"][[0, 2]]) <= set(EDU)


def test_a_wholly_missing_column_and_an_empty_frame_pass_through() -> None:
    mechanism = pr.Mechanism({"edu": EVEN})
    assert mechanism.perturb(pd.DataFrame({"edu": [None, None]}, dtype=object), seed=1)["edu"].isna().all()
    assert len(mechanism.perturb(pd.DataFrame({"edu": pd.Series([], dtype=object)}), seed=1)) == 0


def test_the_index_is_kept_even_with_repeated_labels() -> None:
    frame = pd.DataFrame({"edu": EDU * 5}, index=[7] * 15)
    assert pr.Mechanism({"edu": EVEN}).perturb(frame, seed=1).index.tolist() == [7] * 15

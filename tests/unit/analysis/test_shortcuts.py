"""What is done in a shorter way where that will do gives the same as the long one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis import streaming
from pramana.engines.sampling import SampledSums, Sampling
from pramana.estimating import Equation
from pramana.estimators.reversion import reverted_records
from pramana.frames import read
from pramana.frames.levels import level_positions
from pramana.frames.table import is_missing
from pramana.kernels.streams import uniforms
from randomizations import bound


@pytest.mark.parametrize("n", [1, 7, 3000])
@pytest.mark.parametrize("levels", [[0, 1], [0, 1, 2], [1, 0], [0, 5], [2, 1, 0]], ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.float64])
def test_places_among_levels_are_those_of_a_dictionary(n: int, levels: list[int], dtype: Any) -> None:
    rng = np.random.default_rng(1)
    place = {level: k for k, level in enumerate(levels)}
    for low, high in ((0, 2), (0, 7), (-2 if np.dtype(dtype).kind != "u" else 0, 4)):
        values = rng.integers(low, high, n).astype(dtype)
        assert level_positions(values, levels).tolist() == [place.get(int(v), -1) for v in values]


@pytest.mark.parametrize(
    "values",
    [[1, 2], [True, False], [1.5, np.nan], [None, "a"], np.array(["2020-01-01", "NaT"], dtype="datetime64[s]")],
    ids=str,
)
def test_missing_is_what_pandas_calls_missing(values: Any) -> None:
    given = np.asarray(values)
    np.testing.assert_array_equal(is_missing(given), pd.isna(given))


def test_columns_of_numbers_are_those_of_the_frame() -> None:
    frame = pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "real": [1.5, np.nan, 2.0],
            "truth": [True, False, True],
            "coded": pd.Categorical([3, 1, 3], categories=[3, 1, 2]),
            "masked": pd.array([1, None, 3], dtype="Int64"),
            "text": ["a", "b", "a"],
        }
    )
    table = read(frame)
    np.testing.assert_array_equal(table.column("real"), frame["real"])
    assert table.column("whole").tolist() == [1, 2, 3]
    assert table.column("truth").dtype == bool
    assert table.categories("coded") == [3, 1]
    assert [table.categories(name) for name in ("whole", "real", "truth", "masked", "text")] == [None] * 5
    assert np.isnan(table.column("masked")[1])


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_a_released_response_is_read_by_its_level(text: bool) -> None:
    rng = np.random.default_rng(2)
    numbers = rng.integers(0, 2, 50)
    levels: list[Any] = ["no", "yes"] if text else [0, 1]
    data = {"y": np.array(levels, dtype=object if text else None)[numbers], "x": rng.normal(size=50)}
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response(levels, keep=0.8)})
    table = read(data)
    function = pr.glm("y ~ x", family="binomial").prepare(table, mechanism.schema)
    response = reverted_records(function, mechanism, table).response
    assert response is not None
    np.testing.assert_array_equal(response.released, numbers)
    np.testing.assert_allclose(response.first, (numbers - 0.2) / 0.6)
    assert response.first.flags.c_contiguous


def test_luck_goes_by_the_place_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = np.random.default_rng(3).random(1000) < 0.7
    luck = uniforms(streaming._SALT, np.zeros(1, dtype=np.int64), np.arange(400, 1400))[0]
    wanted = np.flatnonzero(keep & (luck < 0.3))
    for run in (64, 1000, 5000):
        monkeypatch.setattr(streaming, "RUN", run)
        places, found = streaming._lucky(400, keep, 0.3)
        np.testing.assert_array_equal(places, wanted)
        np.testing.assert_array_equal(found, luck[wanted])


def test_plain_records_weigh_as_ones_do() -> None:
    assert SampledSums.of(Sampling(9)) == SampledSums.of(Sampling(9, np.ones(9)))


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_sums_at_one_value_are_those_asked_for_one_by_one(family: str) -> None:
    rng = np.random.default_rng(4)
    data = {"y": rng.integers(0, 2, 60), "x": rng.normal(size=60), "e": rng.choice(["a", "b"], 60).astype(object)}
    mechanism = pr.Mechanism(
        {
            "y": pr.TransitionMatrix.binary(0.85, 0.85),
            "e": pr.TransitionMatrix.randomized_response(["a", "b"], keep=0.8),
        }
    )
    for formula in ("y ~ x", "y ~ x * e"):
        equation = bound(pr.glm(formula, family=family), data, mechanism)
        beta, weights, squares = 0.1 * rng.normal(size=equation.d), *rng.random((2, 60))
        slow = Equation.sums(equation, beta, weights, squares)
        for one, other in zip(equation.sums(beta, weights, squares), slow, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)

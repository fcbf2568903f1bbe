"""Whole numbers that a float cannot hold, and those that only an unsigned column can: exact, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pramana as pr
from pramana.frames.levels import decode, is_unsigned

BEYOND = 1 << 63
CASES = ([BEYOND, BEYOND + 1], [1, BEYOND + 1], [BEYOND - 1, BEYOND, 2 * BEYOND - 1], [(1 << 53) + 1, (1 << 53) + 2])


def drawn(levels: list[int]) -> tuple[list[int], np.ndarray]:
    """Values of a column, and the shares of the levels."""
    places = np.random.default_rng(1).choice(len(levels), 200)
    return [levels[k] for k in places], np.bincount(places, minlength=len(levels)) / 200


def frames(values: list[int]) -> dict[str, Any]:
    whole = np.array(values, dtype=np.uint64)
    return {
        "dict": {"x": whole},
        "pandas": pd.DataFrame({"x": whole}),
        "polars": pl.DataFrame({"x": pl.Series(values, dtype=pl.UInt64)}),
        "Arrow": pa.table({"x": pa.array(values, pa.uint64())}),
    }


@pytest.mark.parametrize("levels", CASES)
def test_they_are_told_apart_in_frames_and_text_files(levels: list[int], tmp_path: Path) -> None:
    values, shares = drawn(levels)
    keep, size = 0.8, len(levels)
    mechanism = pr.Mechanism({"x": pr.TransitionMatrix.randomized_response(levels, keep, kind="nominal")})
    expected = (shares - (1 - keep) / (size - 1)) / (keep - (1 - keep) / (size - 1))
    mechanism.save(tmp_path / "m.json")
    assert pr.Mechanism.load(tmp_path / "m.json") == mechanism
    (tmp_path / "x.csv").write_text("x,y\n" + "".join(f"{v},1\n" for v in values))
    for data in (*frames(values).values(), tmp_path / "x.csv"):
        np.testing.assert_allclose(pr.fit(pr.proportions("x"), data, mechanism).estimate, expected, atol=1e-12)


@pytest.mark.parametrize("levels", CASES)
def test_codes_become_the_levels_themselves(levels: list[int]) -> None:
    assert decode(np.arange(len(levels)), levels).tolist() == levels


def test_decimals_that_take_them_for_each_other_are_refused() -> None:
    levels = [BEYOND, BEYOND + 1]
    mechanism = pr.Mechanism({"x": pr.TransitionMatrix.randomized_response(levels, 0.8)})
    with pytest.raises(
        pr.DataError, match=r"'x' holds decimal numbers .* beyond 2⁵³.*: read the column as whole numbers"
    ):
        pr.fit(pr.proportions("x"), {"x": np.array(levels, dtype=float)}, mechanism)


def test_which_levels_need_an_unsigned_column() -> None:
    assert is_unsigned([0, BEYOND])
    assert not any(map(is_unsigned, ([], [1, 2], [-1, BEYOND], ["a"], [1.0, float(BEYOND)])))

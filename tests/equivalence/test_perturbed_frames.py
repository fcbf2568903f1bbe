"""perturb gives back the kind of frame that it got, and touches nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pramana as pr

pytestmark = pytest.mark.filterwarnings("ignore:perturb\\(seed")
LEVELS = ["low", "mid", "high"]


@pytest.fixture
def strong() -> pr.Mechanism:
    """Noise enough that every column surely changes."""
    return pr.Mechanism(
        {
            "edu": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.4),
            "female": pr.TransitionMatrix.binary(0.6, 0.6),
        }
    )


def plain(frame: Any) -> pd.DataFrame:
    if isinstance(frame, dict):
        return pd.DataFrame({k: np.asarray(v) for k, v in frame.items()})
    if isinstance(frame, pd.DataFrame):
        return frame.reset_index(drop=True)
    return pd.DataFrame(frame.to_pydict() if isinstance(frame, pa.Table) else frame.to_dict(as_series=False))


FRAMES: dict[str, Any] = {
    "pandas": lambda f: f,
    "pandas category": lambda f: f.astype({"edu": pd.CategoricalDtype(["high", "mid", "low"], ordered=True)}),
    "pandas string": lambda f: f.astype({"edu": "string"}),
    "pandas object": lambda f: f.astype({"edu": object}),
    "pandas nullable": lambda f: f.astype({"female": "Int8"}),
    "pandas index": lambda f: f.set_axis([f"r{i}" for i in range(len(f))]),
    "polars": pl.from_pandas,
    "polars categorical": lambda f: pl.from_pandas(f).with_columns(pl.col("edu").cast(pl.Categorical)),
    "polars enum": lambda f: pl.from_pandas(f).with_columns(pl.col("edu").cast(pl.Enum(LEVELS))),
    "polars small": lambda f: pl.from_pandas(f).with_columns(pl.col("female").cast(pl.Int8)),
    "pyarrow": lambda f: pa.Table.from_pandas(f, preserve_index=False),
    "pyarrow dictionary": lambda f: (t := pa.Table.from_pandas(f, preserve_index=False)).set_column(
        t.schema.get_field_index("edu"), "edu", t.column("edu").cast(pa.string()).dictionary_encode()
    ),
    "dict": lambda f: {name: f[name].to_numpy() for name in f},
}


def types(frame: Any) -> Any:
    if isinstance(frame, dict):
        return {k: np.asarray(v).dtype.kind for k, v in frame.items() if np.asarray(v).dtype.kind in "if"}
    if isinstance(frame, pa.Table):
        return dict(zip(frame.column_names, frame.schema.types, strict=True))
    return dict(frame.schema) if isinstance(frame, pl.DataFrame) else frame.dtypes.to_dict()


@pytest.mark.parametrize("kind", FRAMES)
def test_the_kind_and_the_types_of_the_frame_are_kept(kind: str, survey: pd.DataFrame, strong: pr.Mechanism) -> None:
    frame = FRAMES[kind](survey)
    released = strong.perturb(frame, seed=1)
    assert type(released) is type(frame)
    assert types(released) == types(frame)


@pytest.mark.parametrize("kind", FRAMES)
def test_other_columns_and_the_original_are_left_alone(kind: str, survey: pd.DataFrame, strong: pr.Mechanism) -> None:
    frame, before = FRAMES[kind](survey), FRAMES[kind](survey.copy())
    released = strong.perturb(frame, seed=1)
    others = [c for c in survey if c not in strong.columns]
    pd.testing.assert_frame_equal(plain(released)[others], plain(before)[others])
    pd.testing.assert_frame_equal(plain(frame), plain(before))
    assert list(plain(released).columns) == list(survey.columns)


@pytest.mark.parametrize("kind", FRAMES)
def test_the_same_seed_releases_the_same_values_from_every_frame(
    kind: str, survey: pd.DataFrame, strong: pr.Mechanism
) -> None:
    expected, released = strong.perturb(survey, seed=4), plain(strong.perturb(FRAMES[kind](survey), seed=4))
    for name in strong.columns:
        assert released[name].tolist() == expected[name].tolist()
        assert released[name].tolist() != survey[name].tolist()


def test_the_index_of_a_pandas_frame_is_kept(survey: pd.DataFrame, strong: pr.Mechanism) -> None:
    frame = FRAMES["pandas index"](survey)
    pd.testing.assert_index_equal(strong.perturb(frame, seed=1).index, frame.index)


@pytest.mark.parametrize(
    "kind", ["pandas", "pandas category", "pandas string", "pandas object", "polars", "polars enum", "pyarrow"]
)
def test_missing_values_stay_missing_and_nothing_else_becomes_so(
    kind: str, survey: pd.DataFrame, strong: pr.Mechanism
) -> None:
    gaps = np.arange(len(survey)) % 7 == 0
    frame = FRAMES[kind](survey.assign(edu=survey["edu"].where(~gaps)))
    released = strong.perturb(frame, seed=1)
    assert types(released) == types(frame)
    np.testing.assert_array_equal(plain(released)["edu"].isna().to_numpy(), gaps)


@pytest.mark.parametrize("kind", ["pandas nullable", "polars small", "pyarrow"])
def test_missing_numbers_stay_missing_in_integer_columns(kind: str, survey: pd.DataFrame, strong: pr.Mechanism) -> None:
    frame = FRAMES[kind](survey.assign(female=survey["female"].astype("Int64").where(survey.index % 5 > 0)))
    released = strong.perturb(frame, seed=1)
    assert types(released) == types(frame)
    np.testing.assert_array_equal(plain(released)["female"].isna().to_numpy(), survey.index % 5 == 0)


def test_a_joint_channel_moves_its_columns_together(survey: pd.DataFrame) -> None:
    """A structural zero: no released record has both a low education and female = 1."""
    levels = [("low", 0), ("mid", 0), ("high", 0), ("mid", 1), ("high", 1)]
    mechanism = pr.Mechanism({("edu", "female"): pr.TransitionMatrix.randomized_response(levels, keep=0.3)})
    possible = survey[~((survey["edu"] == "low") & (survey["female"] == 1))]
    for frame in (possible, pl.from_pandas(possible), pa.Table.from_pandas(possible, preserve_index=False)):
        released = plain(mechanism.perturb(frame, seed=2))
        found = set(zip(released["edu"], released["female"], strict=True))
        assert found == set(levels)


def test_every_stratum_is_perturbed_by_its_own_matrix(survey: pd.DataFrame) -> None:
    strata = {
        "north": pr.TransitionMatrix(LEVELS, np.eye(3)),
        "south": pr.TransitionMatrix.from_columns(LEVELS, np.eye(3)[[1, 2, 0]]),
    }
    released = pr.Mechanism({"edu": pr.Stratified("region", strata)}).perturb(survey, seed=1)
    moved = {level: LEVELS[(k + 2) % 3] for k, level in enumerate(LEVELS)}
    expected = survey["edu"].where(survey["region"] == "north", survey["edu"].map(moved))
    assert released["edu"].tolist() == expected.tolist()


def test_text_that_looks_like_a_number_stays_text_in_a_csv_file(tmp_path: Path) -> None:
    codes, path = ["01", "1", "10"], tmp_path / "codes.csv"
    path.write_text("code,y\n" + "".join(f"{c},{i}\n" for i, c in enumerate(codes * 5)), encoding="utf-8")
    mechanism = pr.Mechanism({"code": pr.TransitionMatrix(codes, np.eye(3))})
    result = pr.fit(pr.proportions("code"), path, mechanism)
    assert result.parameters == ("code[01]", "code[1]", "code[10]")
    np.testing.assert_allclose(result.estimate, 1 / 3, rtol=1e-12)


def test_a_level_called_na_is_not_missing_in_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "codes.csv"
    path.write_text("code\nNA\nNA\nb\nb\n", encoding="utf-8")
    mechanism = pr.Mechanism({"code": pr.TransitionMatrix(["NA", "b"], np.eye(2))})
    np.testing.assert_allclose(pr.fit(pr.proportions("code"), path, mechanism).estimate, 0.5, rtol=1e-12)

"""Data that cannot be used as they are, and odd frames that can."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pramana as pr

FORMULA = "income ~ age + edu"


def first(column: pd.Series, value: object) -> list[Any]:
    return [value, *column.tolist()[1:]]


@pytest.mark.parametrize("column", ["income", "age", "edu"])
def test_missing_values_are_counted_and_a_remedy_is_named(
    column: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    gap = survey.assign(**{column: first(survey[column], None)})
    with pytest.raises(
        pr.DataError, match=rf"1 of 400 records have missing values, in '{column}' \(1\): use missing='drop'"
    ):
        pr.fit(FORMULA, gap, mechanism)
    result = pr.fit(FORMULA, gap, mechanism, missing="drop")
    assert result.n == 399
    assert "1 of 400 records left out" in result.diagnostics[0].message


@pytest.mark.parametrize("column", ["income", "age"])
def test_infinite_values_are_refused(column: str, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    broken = survey.assign(**{column: first(survey[column], np.inf)})
    for missing in ("error", "drop"):
        with pytest.raises(pr.DataError, match=f"column '{column}' has 1 infinite value.*not missing"):
            pr.fit(FORMULA, broken, mechanism, missing=missing)


def test_infinite_values_are_not_missing_ones() -> None:
    for missing in ("error", "drop"):
        with pytest.raises(pr.DataError, match=r"2 infinite value\(s\), which are not missing"):
            pr.fit(pr.mean("y"), {"y": [1, 2, 3, np.inf] * 2}, None, missing=missing)


@pytest.mark.parametrize("plan", [pr.mean("y"), pr.mean("y", by="g"), pr.total("y"), pr.median("y"), pr.gini("y")])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", "2", "3", "4"], "holds text, such as '1'"),
        (np.array(["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"], dtype="datetime64[D]"), "holds dates"),
        (np.array([1, 2, 3, 4], dtype="timedelta64[s]"), "holds dates or times"),
    ],
)
def test_text_and_dates_are_no_numbers(plan: Any, values: Any, message: str) -> None:
    with pytest.raises(pr.DataError, match=message):
        pr.fit(plan, {"y": values, "g": [0, 1, 0, 1]}, None)


def test_levels_that_are_text_have_no_mean() -> None:
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.randomized_response(["1", "2", "3"], keep=0.9)})
    with pytest.raises(pr.DataError, match="holds text, such as '1'"):
        pr.fit(pr.mean("y"), {"y": ["1", "2", "3"] * 20}, mechanism)


def test_nothing_left_after_dropping_is_said(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    with pytest.raises(pr.DataError, match="every one of the 400 records has a missing value, in 'age'"):
        pr.fit(FORMULA, survey.assign(age=np.nan), mechanism, missing="drop")


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_records_are_refused(rows: int, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    with pytest.raises(pr.PramanaError, match=r"no records|1 records"):
        pr.fit(FORMULA, survey.iloc[:rows], mechanism)


def test_fewer_records_than_parameters_are_refused(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    small = survey.groupby("edu").head(1)
    with pytest.raises(pr.DataError, match="3 records cannot carry 3 parameters: use more data or fewer terms"):
        pr.fit("income ~ edu", small, mechanism)


def test_a_level_outside_the_mechanism_is_named(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    message = r"'edu' has 1 value\(s\) .* first in row 0: 'phd'\. The levels are 'low', 'mid', 'high': recode"
    with pytest.raises(pr.DataError, match=message):
        pr.fit(FORMULA, survey.assign(edu=first(survey["edu"], "phd")), mechanism)


@pytest.mark.parametrize(
    ("values", "levels", "message"),
    [
        (["1", "2"], (1, 2), r"'k' holds text \(str\) .* numbers, such as 1 \(int\): 1 and '1' differ"),
        ([1, 2], ("1", "2"), r"'k' holds numbers .* text, such as '1' \(str\): '1' and 1 as a number differ"),
    ],
)
def test_numbers_and_text_are_told_apart(values: list[Any], levels: Any, message: str) -> None:
    mechanism = pr.Mechanism({"k": pr.TransitionMatrix.binary(0.9, 0.9, levels=levels)})
    with pytest.raises(pr.DataError, match=message + ".*Convert the column, or build the mechanism"):
        pr.fit("y ~ k", {"y": [1.0, 2, 4, 3], "k": values * 2}, mechanism)


def test_a_mechanism_for_an_absent_column_is_refused_with_a_suggestion(survey: pd.DataFrame) -> None:
    mechanism = pr.Mechanism({"edux": pr.TransitionMatrix.binary(0.9, 0.9)})
    with pytest.raises(pr.DataError, match="'edux', which the data lack: did you mean 'edu'"):
        pr.fit("income ~ age", survey, mechanism)


def test_an_unknown_stratum_is_named(survey: pd.DataFrame) -> None:
    low = pr.TransitionMatrix.randomized_response(["low", "mid", "high"], 0.8)
    mechanism = pr.Mechanism({"edu": pr.Stratified("region", {"north": low})})
    with pytest.raises(pr.DataError, match=r"'region' has .*'south'.*every value of the stratifying column needs its"):
        pr.fit(FORMULA, survey, mechanism)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "could not be read as CSV: Empty CSV file"),
        ("a,b\n", "has no records"),
        ("a,b\n1,2\n3\n", r"row 1 has 1 field\(s\) where the header names 2"),
        (
            "a;b,c\n1;2,3\n",
            r"can be separated by ',' or ';': say its delimiter with pr\.CsvFile\(path, pr\.Dialect\(delimiter=\)\)",
        ),
        ("a,b,b\n1,2,3\n", "two columns of .* have the same name, 'b': rename"),
        ("a,b\n1,2\n2,inf\n3,4\n", "'b' has 1 infinite"),
    ],
)
def test_a_bad_csv_file_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text(content)
    with pytest.raises(pr.DataError, match=message):
        pr.fit("a ~ b", path, None)


def test_a_csv_file_in_an_unknown_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes("a,b\n1,Ελλάδα\n2,ü\n".encode("iso8859-7", "ignore"))
    with pytest.raises(pr.DataError, match=r"is not UTF-8 text and not plainly Western European: say its encoding"):
        pr.fit("a ~ b", tmp_path / "d.csv", None)


@pytest.mark.parametrize("name", ["absent.csv", "a.xlsx", "a.parquet", "a.csv.gz", ""])
@pytest.mark.parametrize("mechanism", [None, "auto"])
def test_an_unreadable_file_is_named(name: str, mechanism: Any, tmp_path: Path) -> None:
    for existing in ("a.xlsx", "a.parquet", "a.csv.gz"):
        (tmp_path / existing).write_text("x")
    with pytest.raises(pr.PramanaError, match=re.escape(str(tmp_path / name))):
        pr.fit("a ~ b", str(tmp_path / name), mechanism)


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda s: (row for row in s.itertuples()), "type generator cannot be read: give a pandas, polars or Arrow"),
        (lambda s: s.to_numpy(), "type ndarray cannot be read"),
        (lambda _: None, "type NoneType cannot be read"),
        (lambda s: pd.concat({"a": s}, axis=1), r"several header rows, as in \('a', 'age'\): flatten"),
        (lambda s: pd.concat([s, s[["age"]]], axis=1), "two columns have the same name .*'age'"),
        (lambda _: {"income": [1, 2], "age": [1], "edu": ["low"]}, r"equal length; their shapes are .*'age': \(1,\)"),
        (lambda _: {"income": [[1], [2, 3]], "age": [1, 2], "edu": ["low"] * 2}, "one-dimensional and of equal length"),
        (lambda _: {}, "no records"),
        (lambda s: s.assign(age=s["age"] + 1j), "column 'age' .* cannot be used: give numbers"),
        (lambda s: pl.from_pandas(s).with_columns(age=pl.concat_list("age")), "column 'age' .*List.* cannot be used"),
        (lambda s: s.assign(age=pd.date_range("2020", periods=len(s))), "'age' holds dates: turn them into numbers"),
        (lambda s: s.assign(income=pd.date_range("2020", periods=len(s))), "'income' holds dates: turn them"),
        (
            lambda s: s.assign(age=s["age"].astype(str)),
            "'age' holds text with 400 distinct values in 400 records: convert",
        ),
        (lambda s: s.assign(age=s["age"] * 1e200), r"'age' has values up to .*e\+200 in size: change its unit"),
        (lambda s: s.assign(income=s["income"] * 1e-200), "'income' has values up to .*e-200 in size: change its unit"),
        (lambda s: s.assign(income=[1, "a"] * 200), "'income' mixes values of type int and str: use one type"),
    ],
)
def test_unusable_data_are_refused(give: Any, message: str, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    with pytest.raises(pr.DataError, match=message):
        pr.fit(FORMULA, give(survey), mechanism)


@pytest.mark.parametrize(
    "give",
    [
        lambda s: s.convert_dtypes(),
        lambda s: s.convert_dtypes(dtype_backend="pyarrow"),
        lambda s: s.astype({"age": object, "income": object}),
        lambda s: s.astype({"edu": pd.CategoricalDtype(["phd", "high", "mid", "low"])}),
        lambda s: s.set_index([s["region"], s["female"].rename("other")]),
        lambda s: s.rename(columns={"region": 7}),
        lambda s: {c: s[c].tolist() for c in s},
        lambda s: pl.from_pandas(s).with_columns(pl.col("edu").cast(pl.Categorical)),
        lambda s: pa.Table.from_pandas(s.astype({"edu": "category"})),
    ],
)
def test_odd_but_honest_frames_give_the_same_answer(give: Any, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    expected = pr.fit(FORMULA, survey, mechanism)
    result = pr.fit(FORMULA, give(survey), mechanism)
    assert result.parameters == expected.parameters
    np.testing.assert_allclose(result.estimate, expected.estimate, rtol=1e-10)


def test_decimals_are_numbers(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    rounded = pl.from_pandas(survey).with_columns(pl.col("age").round(6))
    exact = rounded.with_columns(pl.col("age").cast(pl.Decimal(20, 6)))
    np.testing.assert_allclose(
        pr.fit(FORMULA, exact, mechanism).estimate, pr.fit(FORMULA, rounded, mechanism).estimate, rtol=1e-8
    )


def test_integer_levels_read_as_floats_because_of_a_gap_are_the_same_levels() -> None:
    mechanism = pr.Mechanism({"k": pr.TransitionMatrix.randomized_response([1, 2, 3], 0.85, kind="nominal")})
    k, y = [1, 2, 3, 3, 2, 1, 1, 2], [1.0, 2, 3, 4, 2, 1, 0, 3]
    gap = pr.fit("y ~ k", pd.DataFrame({"y": [*y, 5.0], "k": [*k, np.nan]}), mechanism, missing="drop")
    np.testing.assert_allclose(gap.estimate, pr.fit("y ~ k", {"y": y, "k": k}, mechanism).estimate)
    assert gap.parameters == ("Intercept", "k[T.2]", "k[T.3]")


def test_a_damaged_page_of_a_released_file_is_named(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    """Arrow calls it an OSError, and only while it reads the block."""
    survey.to_parquet(tmp_path / "in.parquet", index=False)
    path = pr.release(tmp_path / "in.parquet", tmp_path / "out.parquet", mechanism).path
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 30 + content[34:])
    said = [finding.message for finding in pr.audit(path).findings if finding.check == "levels"]
    assert "could not be read as Parquet after row 0" in said[0]
    with pytest.raises(pr.DataError, match="could not be read as Parquet"):
        pr.fit(FORMULA, path, "auto", verify=False)


def test_names_of_columns_that_are_not_text_are_refused(
    tmp_path: Path, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    path = tmp_path / "s.parquet"
    survey.to_parquet(path, index=False)
    path.write_bytes(path.read_bytes().replace(b"income", b"incom\xe9"))
    for known in (mechanism, None, "auto"):
        with pytest.raises(pr.DataError, match="could not be read as Parquet"):
            pr.fit("age ~ edu", path, known)
    with pytest.raises(pr.DataError, match="could not be read as Parquet"):
        mechanism.load(path)

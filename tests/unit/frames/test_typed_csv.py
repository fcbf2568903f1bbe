"""CSV released as Parquet: which type a column gets, and that nothing is lost on the way."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import pramana as pr
from pramana.frames.blocks import csv_files
from pramana.frames.blocks.stream import open_typed

DAY = datetime.date
COLUMNS: dict[str, tuple[list[str], Any, list[Any]]] = {
    "whole": (["1", "-20", "0"], pa.int64(), [1, -20, 0]),
    "whole with a gap": (["1", "", "3"], pa.int64(), [1, None, 3]),
    "whole in quotes": (['"1"', '"2"', "3"], pa.int64(), [1, 2, 3]),
    "beyond 2^53": (["9007199254740993", "1", "2"], pa.int64(), [9007199254740993, 1, 2]),
    "largest": (["9223372036854775807", "-9223372036854775808", "0"], pa.int64(), [2**63 - 1, -(2**63), 0]),
    "beyond 64 bits": (["9223372036854775808", "1", "2"], pa.string(), None),
    "beyond 2^53 beside a fraction": (["9007199254740993", "0.5", "2"], pa.string(), None),
    "leading zeros": (["007", "8", "9"], pa.string(), None),
    "leading zeros of a fraction": (["00.5", "0.5", "1"], pa.string(), None),
    "signs": (["+1", "2", "3"], pa.string(), None),
    "blanks": ([" 1", "2", "3"], pa.string(), None),
    "numbers": (["1.5", "-.25", "3"], pa.float64(), [1.5, -0.25, 3.0]),
    "trailing zeros": (["1.50", "2.00", "3."], pa.float64(), [1.5, 2.0, 3.0]),
    "exponents": (["1e-05", "1.5E+10", "2"], pa.float64(), [1e-05, 1.5e10, 2.0]),
    "codes like exponents": (["1E5", "2E7", "3E1"], pa.string(), None),
    "too large": (["1e+999", "1", "2"], pa.string(), None),
    "too small": (["1e-999", "1", "2"], pa.string(), None),
    "all digits of doubles": (
        ["0.1234567890123456", "0.30000000000000004", "1"],
        pa.float64(),
        [0.1234567890123456, 0.1 + 0.2, 1.0],
    ),
    "more digits than a double": (["0.12345678901234567890", "1", "2"], pa.string(), None),
    "not a number": (["NaN", "1.5", "2"], pa.string(), None),
    "infinite": (["inf", "1.5", "2"], pa.string(), None),
    "marks of others": (["NA", "1", "2"], pa.string(), None),
    "decimal comma in quotes": (['"1,5"', '"2,5"', '"3,5"'], pa.string(), ["1,5", "2,5", "3,5"]),
    "booleans": (["true", "FALSE", ""], pa.bool_(), [True, False, None]),
    "yes and no": (["yes", "no", "yes"], pa.string(), None),
    "zeros and ones": (["0", "1", "1"], pa.int64(), [0, 1, 1]),
    "days": (["2020-02-29", "", "1999-12-31"], pa.date32(), [DAY(2020, 2, 29), None, DAY(1999, 12, 31)]),
    "no such day": (["2021-02-29", "2020-01-01", "2020-01-02"], pa.string(), None),
    "other days": (["29.02.2020", "01.01.2020", "02.01.2020"], pa.string(), None),
    "times": (["2020-01-01 10:00", "2020-01-01 11:00", "2020-01-01 12:00"], pa.string(), None),
    "text": (['"a ""b"", c"', "'é'", ""], pa.string(), ['a "b", c', "'é'", None]),
    "empty in quotes": (['""', "1", "2"], pa.string(), ["", "1", "2"]),
    "nothing": (["", "", ""], pa.string(), [None, None, None]),
    "over lines": (['"a\nb"', "c", "d"], pa.string(), ["a\nb", "c", "d"]),
    "late text": (["1", "2", "x"], pa.string(), ["1", "2", "x"]),
    "late fraction": (["1", "2", "0.5"], pa.float64(), [1.0, 2.0, 0.5]),
}
Z = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)})


@pytest.mark.parametrize("size", [csv_files.SIZE, 12])
@pytest.mark.parametrize("name", COLUMNS)
def test_types_and_values(name: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block, and in blocks of a record, where a type must hold for those that come later."""
    monkeypatch.setattr(csv_files, "SIZE", size)
    fields, kind, values = COLUMNS[name]
    lines = [f"{z},{field}\n" for z, field in zip("aaabbb", [*fields, *fields], strict=True)]
    (tmp_path / "in.csv").write_text("z,x\n" + "".join(lines))
    made = pr.release(tmp_path / "in.csv", tmp_path / "out.parquet", Z)
    table = parquet.read_table(made.path)
    assert table.schema.field("x").type == kind
    assert table.column("x").to_pylist() == 2 * (fields if values is None else values)
    assert made.rows == 6
    assert pr.audit(made.path).clean


def test_decimal_commas_and_thousands(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("z;x;y;w\n" + "a;1,5;1.000;1.000,5\nb;2;2.000;2.000,5\n" * 3)
    table = parquet.read_table(pr.release(tmp_path / "in.csv", tmp_path / "out.parquet", Z).path)
    assert table.column("x").to_pylist() == [1.5, 2.0] * 3
    assert table.column("y").to_pylist() == ["1.000", "2.000"] * 3
    assert table.column("w").to_pylist() == ["1.000,5", "2.000,5"] * 3


LEVELS: dict[str, tuple[list[Any], list[str], Any]] = {
    "text": (["01", "2"], ["01", "2"], pa.string()),
    "whole": ([1, 2], ["1", "02"], pa.int64()),
    "numbers": ([0.5, 2], ["0.5", "2.0"], pa.float64()),
    "booleans": ([True, False], ["True", "false"], pa.bool_()),
}


@pytest.mark.parametrize("name", LEVELS)
def test_perturbed_columns_have_the_type_of_their_levels_and_gaps_stay(name: str, tmp_path: Path) -> None:
    levels, spelt, kind = LEVELS[name]
    (tmp_path / "in.csv").write_text("z,x\n" + "".join(f"{field},1\n" for field in [*spelt, ""] * 4))
    swap = pr.Mechanism({"z": pr.TransitionMatrix(levels, [[0.0, 1.0], [1.0, 0.0]])})
    made = pr.release(tmp_path / "in.csv", tmp_path / "out.parquet", swap, allow=["identity"])
    table = parquet.read_table(made.path)
    assert table.schema.field("z").type == kind
    assert table.column("z").to_pylist() == [levels[1], levels[0], None] * 4
    found = pr.audit(made.path, original=tmp_path / "in.csv").of("error")
    assert {f.check for f in found}.isdisjoint({"hash", "schema", "rows", "levels", "transitions"})


def test_strata_declared_marks_and_dropped_columns(tmp_path: Path) -> None:
    """Strata are read as text where they are listed as text, or analysts could not use them."""
    part = pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)
    mechanism = pr.Mechanism({"z": pr.Stratified("s", {"1": part, "2": part})})
    (tmp_path / "in.csv").write_text("z,s,x,secret\n" + "a,1,7,q\nb,2,-8,q\n-8,1,9,q\n" * 5)
    made = pr.release(tmp_path / "in.csv", tmp_path / "out.parquet", mechanism, missing=["-8"], drop=["secret"])
    table = parquet.read_table(made.path)
    assert table.column("s").to_pylist() == ["1", "2", "1"] * 5
    assert table.column("x").to_pylist() == [7, None, 9] * 5
    assert table.column("z").null_count == 5
    assert table.column_names == ["z", "s", "x"]
    assert pr.fit(pr.proportions("z"), made.path, "auto", missing="drop").n == 10
    made = pr.release(tmp_path / "in.csv", tmp_path / "out.csv", mechanism, missing=["-8"], drop=["secret"])
    assert pr.fit(pr.proportions("z"), made.path, "auto", missing="drop").n == 10


@pytest.mark.parametrize("text", ["z,x\n", "z,x"])
def test_a_header_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(text)
    made = pr.release(tmp_path / "in.csv", tmp_path / "out.parquet", Z)
    assert parquet.read_table(made.path).schema.types == [pa.string(), pa.string()]
    assert made.rows == 0


def test_keyed_draws_do_not_depend_on_the_format_of_the_copy(tmp_path: Path) -> None:
    """Identifiers are those of the text: "7" is the number 7 and "007" is text, in either copy."""
    (tmp_path / "in.csv").write_text("id,z\n" + "".join(f"{i:0{2 + i % 2}d},{'ab'[i % 2]}\n" for i in range(400)))
    same = {"key": bytes(range(32)), "id": "id"}
    text = pr.release(tmp_path / "in.csv", tmp_path / "out.csv", Z, **same)
    typed = pr.release(tmp_path / "in.csv", tmp_path / "out.parquet", Z, **same)
    lines = text.path.read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in lines] == parquet.read_table(typed.path).column("z").to_pylist()


def test_a_file_that_changes_between_the_passes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("z,x\na,1\n")
    reader = open_typed(path, {})
    assert reader.rows == 1
    assert reader.types == {"z": "string", "x": "int64"}
    path.write_text("z,x\na,?\n")
    later = open_typed(path, {})
    vars(later)["_learned"] = vars(reader)["_learned"]
    with pytest.raises(pr.DataError, match=r"column 'x' .* changed while it was read"):
        list(later.blocks())

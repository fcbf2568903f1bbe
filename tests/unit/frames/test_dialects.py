"""The dialect of a CSV file: what is found, what is refused, what is stated."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pramana as pr
from pramana.errors import PramanaWarning
from pramana.frames import read
from pramana.frames.dialects import SAMPLE

Dialect = pr.Dialect


def write(folder: Path, text: str, encoding: str = "utf-8", name: str = "d.csv") -> Path:
    path = folder / name
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    ("delimiter", "decimal", "quote", "encoding"),
    [*itertools.product((",", ";", "\t", "|"), (".", ","), ('"', "'"), ("utf-8", "utf-8-sig", "cp1252", "utf-16"))],
)
def test_every_dialect_is_found(delimiter: str, decimal: str, quote: str, encoding: str, tmp_path: Path) -> None:
    number = f"{quote}3,5{quote}" if delimiter == decimal else f"3{decimal}5"
    text = f"a{delimiter}b{delimiter}c\n1{delimiter}{number}{delimiter}{quote}é, ; | \t!{quote}\n"
    stated = {"decimal": decimal} if delimiter == decimal else {}  # beside commas, 3,5 is text unless it is said
    path = write(tmp_path, text, encoding)
    assert Dialect.detect(path, **stated) == Dialect(delimiter, decimal, quote, encoding)
    if not stated and encoding != "cp1252":
        assert read(path).column("b").tolist() == [3.5]
        assert read(path).column("c").tolist() == ["é, ; | \t!"]


FOUND: dict[str, tuple[str, Dialect]] = {
    "one column": ("x\n1\n2\n", Dialect()),
    "one column of text with marks": ("x\na; b\nc\n", Dialect()),
    "header only": ("a;b;c\n", Dialect(";")),
    "header without a line end": ("a\tb", Dialect("\t")),
    "empty": ("", Dialect()),
    "marks inside quotes": ('a,b\n"x;y",1\n"z;w",2\n', Dialect()),
    "decimal commas": ("a;b\n1;3,5\n2;-0,25\n", Dialect(";", ",")),
    "decimal commas and points of thousands": ("a;b\n1.234;3,5\n", Dialect(";", ",")),
    "decimal points and commas of thousands": ("a;b\n1,234;3.5\n", Dialect(";")),
    "leading zero": ("a;b\n1;0,125\n", Dialect(";", ",")),
    "several commas": ("a;b\n1,234,567;x\n", Dialect(";")),
    "dates with points": ("a;b\n12.03.2020;x\n", Dialect(";")),
    "apostrophes in words": ("a,b\nit's,1\n'tis,2\n", Dialect()),
    "one word in apostrophes": ("a,b\n'so called',1\nplain,2\n", Dialect()),
    "column in apostrophes": ("a,b\n'x',1\n,2\n'z',3\n", Dialect(quote="'")),
    "header in apostrophes": ("'a','b'\n1,2\n", Dialect(quote="'")),
    "apostrophes inside double quotes": ("a,b\n\"'x'\",1\n", Dialect()),
    "delimiter in apostrophes": ("a,b\nx,1\n'y, z',2\n", Dialect(quote="'")),
    "windows line ends": ("a;b\r\n1;2\r\n", Dialect(";")),
    "blank lines": ("\na;b\n\n1;2\n", Dialect(";")),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(name: str, tmp_path: Path) -> None:
    text, dialect = FOUND[name]
    assert Dialect.detect(write(tmp_path, text)) == dialect
    assert Dialect.detect(write(tmp_path, text, name="d.csv.gz")) == dialect


AMBIGUOUS: dict[str, tuple[str, str, str]] = {
    "two delimiters": (
        "a,b;c\n1,2;3\n",
        "utf-8",
        r"separated by ',' or ';': say its delimiter with pr.CsvFile.path, pr.Dialect",
    ),
    "two delimiters, header only": ("a|b\tc", "utf-8", "separated by '.t' or '|'"),
    "decimal commas at every place": ("a;b, c\n1;3,5\n", "utf-8", "separated by ',' or ';'"),
    "thousands or decimals": (
        "a;b\n1;1,234\n",
        "utf-8",
        "decimal mark .* point or a comma: say its decimal with pr.CsvFile.path, pr.Dialect",
    ),
    "thousands or decimals in points": ("a;b\n1;1.234\n", "utf-8", "decimal mark"),
    "both marks": ("a;b\n1,5;1.5\n", "utf-8", "decimal mark"),
    "Greek": (
        "a,b\nΕλλάδα,1\n",
        "iso8859-7",
        "not plainly Western European: say its encoding with pr.CsvFile.path, pr.Dialect",
    ),
    "Russian": ("a,b\nМосква,1\n", "cp1251", "not plainly Western"),
    "Polish": ("a,b\nsłowo,1\n", "cp1250", "not plainly Western"),
    "Japanese": ("a,b\n日本語,1\n", "shift-jis", "not plainly Western"),
    "binary": ("a,b\n\x01\x02\xe9,1\n", "latin-1", "not plainly Western"),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused_with_the_flag_that_decides(name: str, tmp_path: Path) -> None:
    text, encoding, message = AMBIGUOUS[name]
    path = write(tmp_path, text, encoding)
    for call in (lambda: Dialect.detect(path), lambda: read(path)):
        with pytest.raises(pr.DataError, match=message):
            call()


@pytest.mark.parametrize(
    ("text", "encoding", "stated", "column", "values"),
    [
        ("a,b;c\n1,2;3\n", "utf-8", {"delimiter": "semicolon"}, "c", [3]),
        ("a;b\n1;1,234\n", "utf-8", {"decimal": ","}, "b", [1.234]),
        ("a;b\n1;1,234\n", "utf-8", {"decimal": "."}, "b", ["1,234"]),
        ("a\tb\n1\tsłowo\n", "cp1250", {"encoding": "windows-1250"}, "b", ["słowo"]),
        ("a,b\n1,Москва\n", "cp1251", {"encoding": "cp1251"}, "b", ["Москва"]),
        ("a,b\n1,日本\n", "shift-jis", {"encoding": "shift-jis"}, "b", ["日本"]),
        ("a,b\n1,é\n", "utf-16-le", {"encoding": "utf-16-le"}, "b", ["é"]),
        ("a,b\n'x',1\n", "utf-8", {"quote": '"'}, "a", ["'x'"]),
        ('a,b\n1,5" pipe\n', "utf-8", {"quote": "none"}, "b", ['5" pipe']),
    ],
)
def test_what_is_stated_holds(
    text: str, encoding: str, stated: dict[str, str], column: str, values: list[Any], tmp_path: Path
) -> None:
    path = write(tmp_path, text, encoding)
    assert read(pr.CsvFile(path, Dialect.detect(path, **stated))).column(column).tolist() == values


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delimiter": "::"}, "delimiter '::' cannot be read: use one of ',', ';'"),
        ({"decimal": ";"}, "decimal ';' cannot be read"),
        ({"quote": "«"}, "quote '«' cannot be read: use one of .* none"),
        ({"encoding": "utf-99"}, "encoding 'utf-99' is unknown"),
        ({"encoding": "base64"}, "encoding 'base64' is unknown"),
        ({"encoding": "idna"}, "encoding 'idna' is unknown"),
        ({"encoding": "punycode"}, "encoding 'punycode' is unknown"),
        ({"encoding": 5}, "encoding 5 is unknown"),
    ],
)
def test_a_dialect_that_cannot_be_is_refused(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    for call in (lambda: Dialect(**given), lambda: Dialect.detect(write(tmp_path, "a\n1\n"), **given)):
        with pytest.raises(pr.PramanaError, match=message):
            call()


def test_parquet_has_no_dialect(tmp_path: Path) -> None:
    (tmp_path / "d.parquet").write_bytes(b"")
    with pytest.raises(pr.DataError, match="is no CSV file"):
        Dialect.detect(tmp_path / "d.parquet")
    with pytest.raises(pr.DataError, match="is no CSV file"):
        pr.CsvFile(tmp_path / "d.parquet", Dialect())


def test_a_data_package_speaks_for_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b;c\n1,2;é\n", "cp1252")
    entry: dict[str, Any] = {"path": "d.csv", "encoding": "windows-1252", "dialect": {"delimiter": ";"}}
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": [7, {"path": "other.csv"}, entry]}))
    assert Dialect.detect(path) == Dialect(";", ",", encoding="cp1252")  # the rest is found: 1,2 is a number
    assert Dialect.detect(path, delimiter=",") == Dialect(",", encoding="cp1252")
    entry["dialect"]["delimiter"] = "::"
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": [entry]}))
    with pytest.raises(pr.PramanaError, match="delimiter '::' cannot be read"):
        Dialect.detect(path)


@pytest.mark.parametrize(
    "content", ["{", "[" * 100_000, '{"resources": 3}', '{"resources": [{"path": "d.csv", "dialect": 3}]}']
)
def test_a_broken_data_package_says_nothing(content: str, tmp_path: Path) -> None:
    (tmp_path / "datapackage.json").write_text(content)
    assert Dialect.detect(write(tmp_path, "a;b\n1;2\n")) == Dialect(";")


def test_utf16_without_its_mark_is_not_taken_for_something_else(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n1,2\n", "utf-16-le")
    mechanism = pr.Mechanism({"a": pr.TransitionMatrix.randomized_response([1, 2], 0.8)})
    with pytest.raises(
        pr.DataError, match=r"zero bytes: is it UTF-16 without its mark \(pr.Dialect\(encoding='utf-16-le'\)\)"
    ):
        pr.release(path, tmp_path / "out.csv", mechanism)


def test_a_guessed_encoding_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\nété,1\nl’œuvre,2\nþýðing,3\n", "cp1252")
    with pytest.warns(PramanaWarning, match=r"'d.csv' is not UTF-8 and was read as cp1252"):
        assert read(path).column("a").tolist() == ["été", "l’œuvre", "þýðing"]


def test_long_files_are_judged_by_their_beginning(tmp_path: Path) -> None:
    rows = "".join(f"{i};x{i}\n" for i in range(SAMPLE // 8))
    assert len(rows) > SAMPLE
    assert Dialect.detect(write(tmp_path, "a;b\n" + rows)) == Dialect(";")
    quoted = "".join(f'{i},"x\n;{i}"\n' for i in range(SAMPLE // 8))
    path = write(tmp_path, "a,b\n" + quoted * 2)
    assert Dialect.detect(path) == Dialect()
    assert read(path).n == 2 * (SAMPLE // 8)  # fields over several lines, some of them at the edges of Arrow's blocks


@pytest.mark.parametrize("stated", [None, "utf-8", "cp1252", "utf-16"])
def test_bytes_that_are_no_text_are_refused_with_row_and_column(stated: str | None, tmp_path: Path) -> None:
    """Wherever they are: after a long beginning without any, and in a column that nobody perturbs."""
    codec = stated or "utf-8"
    wrong = {"utf-8": b"\xe9t\xe9", "cp1252": b"\x81", "utf-16": b"\x00\xd8"}[codec]
    plain = "".join(f"{'ab'[i % 2]},topsecret{i}\n" for i in range(80_000))
    data = f"z,name\n{plain}a,SECRET".encode(codec) + wrong + "\nb,last\n".encode(codec).removeprefix(b"\xff\xfe")
    (tmp_path / "d.csv").write_bytes(data)
    file = tmp_path / "d.csv" if stated is None else pr.CsvFile(tmp_path / "d.csv", Dialect(encoding=stated))
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)})
    for call in (
        lambda: pr.release(file, tmp_path / "out.csv", mechanism),
        lambda: pr.release(file, tmp_path / "out.parquet", mechanism),
        lambda: pr.risk(file, mechanism),
    ):
        with pytest.raises(pr.DataError, match=rf"row 80000, column 2 .*is not {codec.upper()} text: say") as caught:
            call()
        assert "SECRET" not in str(caught.value)
        assert "name" not in str(caught.value)  # the name may be a value where the header is missing
    assert [p.name for p in tmp_path.iterdir()] == ["d.csv"]


def test_numbers_with_decimal_commas_are_numbers_and_thousands_are_text(tmp_path: Path) -> None:
    path = write(tmp_path, "a;b;c\n3,5;1.234,5;1 000\n-0,25;2.000,0;2 000\n")
    table = read(path)
    np.testing.assert_array_equal(table.column("a"), [3.5, -0.25])
    assert table.column("b").tolist() == ["1.234,5", "2.000,0"]
    assert table.column("c").tolist() == ["1 000", "2 000"]

"""One file in many dialects: the release holds the same values, is described as it is written, and is read back as such."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from covering import pairs_first
from pramana.errors import PramanaWarning
from pramana.frames import read
from pramana.frames.blocks import csv_files

KEY = bytes(range(32))
EDU = ["tief", "höher", "größer; als, | alle\t'"]
RATE = [0.5, 1.5, 2.25]
M = pr.Mechanism(
    {
        "edu": pr.TransitionMatrix.randomized_response(EDU, 0.7),
        "rate": pr.TransitionMatrix.randomized_response(RATE, 0.7, kind="numeric"),
    }
)
N = 240


def rows(decimal: str = ".") -> list[list[str]]:
    """A header and records with every mark of every dialect inside of fields."""
    names = ["x, y", "a;b", "tab\there", 'say "hi"', "it's", "zwei\nZeilen", "|", "é ü ñ €"]
    noise = np.random.default_rng(4).normal(size=N).round(3)
    out = [["id", "edu", "rate", "y", "name"]]
    for i in range(N):
        numbers = [repr(v).replace(".", decimal) for v in (RATE[i % 3], float(noise[i]) + 0.0005)]
        out.append([f"{i:03d}", EDU[i % 7 % 3], *numbers, names[i % len(names)]])
    return out


def text_of(dialect: pr.Dialect, end: str = "\n") -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=dialect.delimiter, quotechar=dialect.quote, lineterminator=end).writerows(
        rows(dialect.decimal)
    )
    return out.getvalue()


def released(folder: Path, name: str, dialect: pr.Dialect, target: str = "", end: str = "\n") -> Path:
    """The file in a dialect, stated, released under a key; the draws are those of every other dialect."""
    source = folder / name
    data = text_of(dialect, end).encode(dialect.encoding)
    source.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (folder / "public").mkdir(exist_ok=True)
    made = pr.release(
        pr.CsvFile(source, dialect), folder / "public" / (target or f"out{name}"), M, key=KEY, id="id", force=True
    )
    return made.path


def found(path: Path) -> dict[str, list[object]]:
    table = read(path, text={"edu": EDU, "id": ()})
    return {name: table.column(name).tolist() for name in table.names}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    return found(released(tmp_path_factory.mktemp("plain"), "plain.csv", pr.Dialect()))


MARKS = ((",", ";", "\t", "|"), (".", ","), ('"', "'"), ("utf-8", "utf-8-sig", "cp1252", "utf-16"))
DIALECTS = [pr.Dialect(*marks) for marks in itertools.product(*MARKS)]


@pytest.mark.parametrize(
    ("delimiter", "decimal", "quote", "encoding"), pairs_first(*MARKS, name=lambda marks: str(pr.Dialect(*marks)))
)
def test_every_dialect_is_released_audited_and_read_back(
    delimiter: str, decimal: str, quote: str, encoding: str, plain: dict[str, list[object]], tmp_path: Path
) -> None:
    dialect = pr.Dialect(delimiter, decimal, quote, encoding)
    target = released(tmp_path, "survey.csv", dialect)
    assert found(target) == plain
    entry = json.loads((target.parent / "datapackage.json").read_text(encoding="utf-8"))["resources"][0]
    assert entry["encoding"] == "utf-8"
    assert entry.get("dialect", {}).get("delimiter", ",") == dialect.delimiter
    assert entry.get("dialect", {}).get("quoteChar", '"') == dialect.quote
    assert entry.get("dialect", {}).get("decimalChar", ".") == dialect.decimal
    assert entry["schema"]["fields"][2].get("decimalChar", ".") == dialect.decimal
    assert not target.read_bytes().startswith(b"\xef\xbb\xbf")
    records = list(
        csv.reader(
            io.StringIO(target.read_bytes().decode("utf-8"), newline=""),
            delimiter=dialect.delimiter,
            quotechar=dialect.quote,
        )
    )
    clear = [[r[0], *r[3:]] for r in records]
    assert clear == [[r[0], *r[3:]] for r in rows(dialect.decimal)]  # é is é, and every mark is where it was
    audit = pr.audit(target, original=pr.CsvFile(tmp_path / "survey.csv", dialect))
    assert not [f for f in audit.of("error") if f.check != "give-aways"], str(audit)


@pytest.mark.parametrize("dialect", DIALECTS[::7], ids=str)
def test_an_analysis_of_the_release_is_the_same_in_every_dialect(dialect: pr.Dialect, tmp_path: Path) -> None:
    other = pr.fit("y ~ edu + rate", released(tmp_path, "survey.csv", dialect), "auto")
    same = pr.fit("y ~ edu + rate", released(tmp_path, "plain.csv", pr.Dialect()), "auto")
    np.testing.assert_array_equal(other.estimate, same.estimate)
    np.testing.assert_array_equal(other.covariance, same.covariance)


@pytest.mark.parametrize("name", ["s.tsv", "s.tab", "s.txt", "s.csv.gz", "s.tsv.gz"])
def test_every_ending_is_read(name: str, plain: dict[str, list[object]], tmp_path: Path) -> None:
    assert found(released(tmp_path, name, pr.Dialect("\t", ",", encoding="utf-16"))) == plain


@pytest.mark.parametrize(
    "dialect", [pr.Dialect(), pr.Dialect(";", ",", "'", "cp1252"), pr.Dialect("|", encoding="utf-16")]
)
def test_blocks_and_line_ends_change_nothing(
    dialect: pr.Dialect, plain: dict[str, list[object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size, end in ((1, "\n"), (97, "\r\n"), (1000, "\r\n")):
        monkeypatch.setattr(csv_files, "SIZE", size)
        assert found(released(tmp_path, "survey.csv", dialect, end=end)) == plain


@pytest.mark.parametrize(
    "dialect", [pr.Dialect(), pr.Dialect(";", ",", "'", "cp1252"), pr.Dialect("\t", ",", encoding="utf-16")], ids=str
)
def test_csv_is_released_as_parquet(dialect: pr.Dialect, plain: dict[str, list[object]], tmp_path: Path) -> None:
    target = released(tmp_path, "survey.csv", dialect, "out.parquet")
    frame = pd.read_parquet(target)
    assert [str(frame[name].dtype) for name in ("rate", "y")] == ["float64", "float64"]
    assert {name: frame[name].tolist() for name in frame} == plain
    audit = pr.audit(target, original=pr.CsvFile(tmp_path / "survey.csv", dialect))
    assert not [f for f in audit.of("error") if f.check != "give-aways"], str(audit)
    same = pr.fit("y ~ edu + rate", released(tmp_path, "survey.csv", dialect), "auto")
    np.testing.assert_array_equal(pr.fit("y ~ edu + rate", target, "auto").estimate, same.estimate)


def test_what_was_published_as_utf8_though_it_was_latin1_is_transcoded(tmp_path: Path) -> None:
    """A clear column of a Latin-1 file went out byte by byte, described as UTF-8."""
    (tmp_path / "in.csv").write_bytes(
        b"z,name\n" + "".join(f"{'ab'[i % 2]},José\n" for i in range(20)).encode("latin-1")
    )
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)})
    with pytest.warns(PramanaWarning, match=r"'in.csv' is not UTF-8 and was read as cp1252"):
        pr.release(tmp_path / "in.csv", tmp_path / "out.csv", mechanism)
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").count("José") == 20


def test_quotation_marks_that_are_text_are_published_in_quotation_marks(tmp_path: Path) -> None:
    names = ['5" pipe', '"quoted"', "it's", "plain", '""']
    lines = [f"{'ab'[i % 2]}\t{names[i % 5]}\t{i}" for i in range(40)]
    (tmp_path / "in.tsv").write_bytes(("z\tname\ti\r\n" + "\r\n".join(lines)).encode())
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)})
    file = pr.CsvFile(tmp_path / "in.tsv", pr.Dialect("tab", quote="none"))
    assert read(file).column("name").tolist() == [names[i % 5] for i in range(40)]
    made = pr.release(file, tmp_path / "out.tsv", mechanism)
    with made.path.open(newline="") as out:
        assert [r[1] for r in csv.reader(out, delimiter="\t")][1:] == [names[i % 5] for i in range(40)]
    assert read(made.path).column("name").tolist() == [names[i % 5] for i in range(40)]


BINARY = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b;c"], 0.8)})


def test_mixed_line_ends_and_a_file_of_one_column(tmp_path: Path) -> None:
    (tmp_path / "mixed.csv").write_bytes(b"z|x\r\n" + b"a|1\nb;c|2\r\n" * 9 + b"a|3")
    made = pr.release(tmp_path / "mixed.csv", tmp_path / "out.csv", BINARY)
    assert read(made.path).column("x").tolist() == [1, 2] * 9 + [3]
    (tmp_path / "one.csv").write_text("z\n" + "a\nb;c\n" * 9)
    made = pr.release(tmp_path / "one.csv", tmp_path / "only.csv", BINARY)
    assert set(read(made.path).column("z")) == {"a", "b;c"}
    assert pr.fit(pr.proportions("z"), made.path, "auto").n == 18


@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
def test_records_are_dropped_from_named_anew_and_shuffled_in_every_dialect(target: str, tmp_path: Path) -> None:
    dialect = pr.Dialect(";", ",", "'", "utf-16")
    (tmp_path / "in.csv").write_bytes(text_of(dialect).encode(dialect.encoding))
    made = pr.release(
        pr.CsvFile(tmp_path / "in.csv", dialect), tmp_path / target, M, drop=["name"], new_id="id", shuffle=True
    )
    table = read(made.path, text={"edu": EDU})
    assert table.names == ["id", "edu", "rate", "y"]
    assert len(set(table.column("id"))) == N
    assert sorted(table.column("y")) == sorted(float(r[3]) for r in rows()[1:])


def test_an_analysis_takes_a_file_with_its_dialect_and_a_mechanism_beside(tmp_path: Path) -> None:
    """Nothing is found out where the dialect is stated, though this file could be read in two ways."""
    (tmp_path / "d.csv").write_text("z;x,y\n" + "a;1,5\n'b;c';2,5\n'b;c';4,5\n" * 5)
    file = pr.CsvFile(tmp_path / "d.csv", pr.Dialect(";", ",", "'"))
    BINARY.save(tmp_path / "m.json")
    for mechanism in (BINARY, tmp_path / "m.json"):
        result = pr.fit("`x,y` ~ z", file, mechanism)
        assert result.n == 15
    assert pr.compare("`x,y` ~ z", file, BINARY, truth=file).results["true data"].n == 15
    assert pr.risk(file, tmp_path / "m.json").to_dict()

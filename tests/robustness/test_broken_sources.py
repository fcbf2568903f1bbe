"""Sources that are incomplete, change, or do not fit: a clear error that names the file, or the right answer."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

import pramana as pr
from pramana.analysis import streaming
from pramana.frames import sources
from soon import soon

M = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    n = 900
    x = rng.normal(size=n)
    g = np.repeat(["a", "b", "c"], 300)  # in order, so that blocks hold one level each
    y = (rng.random(n) < 1 / (1 + np.exp(-x - (g == "c")))).astype(int)
    return pd.DataFrame({"x": x, "g": g, "y": np.where(rng.random(n) < 0.15, 1 - y, y)})


@pytest.fixture
def parts(frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sources, "BATCH", 100)
    monkeypatch.setattr(streaming, "PILOT", 200)
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        frame.iloc[300 * k : 300 * (k + 1)].to_parquet(folder / f"part-{k}.parquet", index=False, row_group_size=50)
    return folder


def fitted(data: Any, what: Any = "y ~ x + g", **options: Any) -> pr.Result:
    family = {"family": "binomial"} if isinstance(what, str) else {}
    given = {"memory": 1, "inference": pr.Sandwich(interval="wald"), **family, **options}
    return pr.fit(what, data, M, **given)


def test_blocks_that_hold_one_level_each_are_no_collinear_design(parts: Path, frame: pd.DataFrame) -> None:
    np.testing.assert_allclose(fitted(parts).estimate, fitted(frame, memory=None).estimate, rtol=1e-9)


def test_a_level_of_one_record_in_the_last_block_is_learned(parts: Path, frame: pd.DataFrame) -> None:
    last = pd.read_parquet(parts / "part-2.parquet")
    last.loc[last.index[-12:], "g"] = "rare"
    last.to_parquet(parts / "part-2.parquet", index=False)
    whole = pd.concat([frame.iloc[:600], last], ignore_index=True)
    np.testing.assert_allclose(fitted(parts).estimate, fitted(whole, memory=None).estimate, rtol=1e-8)


def test_collinear_in_all_blocks_is_refused(parts: Path) -> None:
    with pytest.raises(pr.PramanaError, match="collinear"):
        fitted(parts, "y ~ x + I(2 * x)")


def test_a_released_value_that_is_no_level_is_named(parts: Path) -> None:
    last = pd.read_parquet(parts / "part-2.parquet")
    last.loc[last.index[-1], "y"] = 7
    last.to_parquet(parts / "part-2.parquet", index=False)
    with pytest.raises(
        pr.DataError, match=r"has 1 .* not levels of the mechanism, first in row 299 of '.*part-2.parquet'"
    ):
        fitted(parts)
    with pytest.raises(pr.DataError, match=r"has 1 .* first in row 899 of the dataset"):
        fitted(dataset.dataset(parts))


@pytest.mark.parametrize("engine", ["local", "duckdb"])
def test_a_corrupt_file_is_named_with_the_row_group(parts: Path, engine: str) -> None:
    path = parts / "part-1.parquet"
    bytes_ = bytearray(path.read_bytes())
    middle = len(bytes_) // 3
    bytes_[middle : middle + 400] = b"\xff" * 400
    path.write_bytes(bytes(bytes_))
    with pytest.raises(pr.DataError, match=r"part-1\.parquet.*could not be read.*row group \d"):
        fitted(parts, engine=engine)


@pytest.mark.parametrize("given", ["blocks", "workers", "whole"])
def test_a_page_that_differs_from_its_checksum_is_refused(given: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    """A number that flipped is a number like any other; only the checksum, which Spark writes by default, tells."""
    path = tmp_path / "part-0.parquet"
    table = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.write_table(
        table, path, row_group_size=300, compression="none", use_dictionary=False, write_page_checksum=True
    )
    whole = path.read_bytes()
    at = whole.index(np.float64(frame["x"][450]).tobytes())
    path.write_bytes(whole[: at + 6] + bytes([whole[at + 6] ^ 8]) + whole[at + 7 :])
    options = {"blocks": {}, "workers": {"engine": ThreadPoolExecutor(1)}, "whole": {"memory": None}}
    place = "" if given == "whole" else ", in row group 1"
    with pytest.raises(pr.DataError, match=rf"part-0\.parquet' could not be read as Parquet{place}: .*[Cc][Rr][Cc]"):
        fitted(path, "y ~ x", **options[given])


@pytest.mark.parametrize("memory", [None, 1])
def test_places_of_text_that_point_outside_an_arrow_file_are_refused(
    memory: float | None, frame: pd.DataFrame, tmp_path: Path
) -> None:
    """Arrow follows them wherever they point, which ended the process."""
    path = tmp_path / "part-0.arrow"
    table = pa.Table.from_pandas(frame, preserve_index=False).cast(
        pa.schema([("x", pa.float64()), ("g", pa.string()), ("y", pa.int64())])
    )
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    whole, places = path.read_bytes(), np.arange(901, dtype=np.int32).tobytes()
    assert whole.count(places) == 1
    far = np.arange(901, dtype=np.int32)
    far[-1] = 2_000_000_000
    path.write_bytes(whole.replace(places, far.tobytes()))
    with pytest.raises(pr.DataError, match=r"part-0\.arrow' could not be read.*ArrowInvalid"):
        fitted(path, memory=memory)


def test_a_file_cut_off_is_named(parts: Path) -> None:
    path = parts / "part-2.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(pr.DataError, match="part"):
        fitted(parts)


@pytest.mark.parametrize("engine", ["local", "duckdb"])
@pytest.mark.parametrize("fault", ["vanishes", "changes"])
def test_a_file_that_does_not_stay_is_named(
    parts: Path, fault: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = streaming.learn

    def learned(*given: Any) -> Any:
        found = true(*given)
        path = parts / "part-1.parquet"
        if fault == "vanishes":
            path.unlink()
        else:
            time.sleep(0.01)
            pd.read_parquet(path).iloc[:100].to_parquet(path, index=False)
        return found

    monkeypatch.setattr("pramana.analysis.task.learn", learned)
    with pytest.raises(pr.DataError, match=r"part-1\.parquet.*(vanished|changed) while it was read"):
        fitted(parts, engine=engine)


@pytest.mark.parametrize("name", ["a*.parquet", "a?.parquet", "a[b].parquet"])
def test_names_of_files_that_read_as_patterns_are_names(name: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    """DuckDB would read 'ab.parquet' for each of them, and once more as itself."""
    frame.iloc[:450].to_parquet(tmp_path / name, index=False)
    frame.iloc[450:].to_parquet(tmp_path / "ab.parquet", index=False)
    found = fitted(tmp_path, engine="duckdb")
    np.testing.assert_allclose(found.estimate, fitted(frame, memory=None).estimate, rtol=1e-9)


def test_names_of_columns_differ_by_their_large_letters(frame: pd.DataFrame, tmp_path: Path) -> None:
    """For DuckDB they do not, which takes the first of them."""
    more = frame.assign(X=frame["x"].to_numpy()[::-1])
    more.iloc[:450].to_parquet(tmp_path / "a.parquet", index=False)
    more.iloc[450:][["X", "y", "x", "g"]].to_parquet(tmp_path / "b.parquet", index=False)
    for formula in ("y ~ x + g", "y ~ X + g"):
        found, known = fitted(tmp_path, formula, engine="duckdb"), fitted(more, formula, memory=None)
        np.testing.assert_allclose(found.estimate, known.estimate, rtol=1e-9)


@pytest.mark.parametrize("engine", ["local", "duckdb"])
@pytest.mark.parametrize("memory", [None, 1])
def test_what_files_hold_outweighs_the_names_of_their_folders(
    memory: float | None, engine: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    """As it does where a file is read alone."""
    whole = frame.assign(size=np.arange(900, dtype=np.int32) % 5, part=np.repeat([3, 4, 3], 300))
    for k, folder in enumerate(("size=7/g=q/part=3", "size=1/g=q/part=4", "size=7/g=q/part=3/more")):
        (tmp_path / folder).mkdir(parents=True)
        own = whole.iloc[300 * k : 300 * (k + 1)].drop(columns="part")
        own.to_parquet(tmp_path / folder / f"{k}.parquet", index=False)
    files = sorted(tmp_path.rglob("*.parquet"), key=lambda path: path.name)
    found = fitted(files, "y ~ x + size + part", engine=engine, memory=memory)
    np.testing.assert_allclose(found.estimate, fitted(whole, "y ~ x + size + part", memory=None).estimate, rtol=1e-9)


def test_files_of_many_columns_are_compared_column_by_column(frame: pd.DataFrame, tmp_path: Path) -> None:
    """And not every column with all names; a message lists some of them."""
    wide = pa.Table.from_pandas(frame, preserve_index=False)
    wide = pa.table([*wide.columns, *[wide["x"]] * 6000], names=[*wide.column_names, *(f"c{k}" for k in range(6000))])
    for k in range(2):
        parquet.write_table(wide, tmp_path / f"{k}.parquet")
    with pytest.raises(pr.DataError, match=r"column 'z' is not in .* and 5953 more$"):
        soon(fitted, tmp_path, "y ~ z", seconds=3.0)


def test_a_column_of_two_types_is_named_with_both(parts: Path) -> None:
    pd.read_parquet(parts / "part-1.parquet").astype({"x": str}).to_parquet(parts / "part-1.parquet", index=False)
    with pytest.raises(pr.DataError, match=r"column 'x' is of type .* in .*part-1\.parquet.* and of type double"):
        fitted(parts)


@pytest.mark.parametrize("categories", [0, 2])
@pytest.mark.parametrize("memory", [None, 1])
def test_numbers_that_are_categories_in_one_file_are_named(memory: float | None, categories: int, parts: Path) -> None:
    """They would be categories in all files or in none, as the first file says."""
    path = parts / f"part-{categories}.parquet"
    for one in parts.iterdir():
        frame = pd.read_parquet(one).assign(size=np.arange(300) % 3)
        frame.astype({"size": "category" if one == path else int}).to_parquet(one, index=False)
    with pytest.raises(pr.DataError, match=r"column 'size' holds categories in one of .*part-0\.parquet' and .*part-"):
        fitted(parts, "y ~ x + size", memory=memory)


@pytest.mark.parametrize("memory", [None, 1])
def test_notes_of_pandas_that_are_nested_too_deep_are_no_notes(
    memory: float | None, frame: pd.DataFrame, tmp_path: Path
) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    deep = b'{"columns": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    parquet.write_table(table.replace_schema_metadata({b"pandas": deep}), tmp_path / "a.parquet")
    found = fitted(tmp_path / "a.parquet", memory=memory)
    np.testing.assert_allclose(found.estimate, fitted(frame, memory=None).estimate, rtol=1e-9)


@pytest.mark.parametrize(("first", "then"), [("int8", "int64"), ("uint8", "int16"), ("int32", "uint32")])
@pytest.mark.parametrize("memory", [None, 1])
def test_whole_numbers_have_the_widest_type_of_all_files(
    memory: float | None, first: str, then: str, parts: Path, frame: pd.DataFrame
) -> None:
    """Programs store small numbers in few bits, and the first file need not hold the large ones."""
    low, high = np.iinfo(then).min // 2, np.iinfo(then).max // 2
    size = np.r_[np.arange(300) % 7, np.linspace(low, high, 600).astype(np.int64)]
    whole = frame.assign(size=size)
    for k, kind in enumerate((first, then, then)):
        whole.iloc[300 * k : 300 * (k + 1)].astype({"size": kind}).to_parquet(parts / f"part-{k}.parquet", index=False)
    formula = f"y ~ x + I(size / {high:.3e})"
    found, known = fitted(parts, formula, memory=memory), fitted(whole, formula)
    np.testing.assert_allclose(found.estimate, known.estimate, rtol=1e-8)
    for engine in (ThreadPoolExecutor(1), "duckdb"):
        np.testing.assert_allclose(fitted(parts, formula, engine=engine).estimate, known.estimate, rtol=1e-8)


def test_a_column_that_one_file_lacks_is_named(parts: Path) -> None:
    pd.read_parquet(parts / "part-1.parquet").drop(columns="g").to_parquet(parts / "part-1.parquet", index=False)
    with pytest.raises(pr.DataError, match=r"part-1\.parquet.* lacks column 'g'"):
        fitted(parts)


def test_an_empty_part_is_no_fault(parts: Path, frame: pd.DataFrame) -> None:
    frame.iloc[:0].to_parquet(parts / "part-1b.parquet", index=False)
    np.testing.assert_allclose(fitted(parts).estimate, fitted(frame, memory=None).estimate, rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nothing", "holds no data files"),
        ("nothing/*.parquet", "no file matches"),
        ("mixed", "files of several formats"),
        ("hollow", "has no records"),
    ],
)
def test_folders_without_records(parts: Path, frame: pd.DataFrame, tmp_path: Path, given: str, message: str) -> None:
    for name in ("nothing", "mixed", "hollow"):
        (tmp_path / name).mkdir()
    (tmp_path / "nothing" / "_SUCCESS").touch()
    frame.to_csv(tmp_path / "mixed" / "a.csv", index=False)
    frame.to_parquet(tmp_path / "mixed" / "b.parquet", index=False)
    frame.iloc[:0].to_parquet(tmp_path / "hollow" / "a.parquet", index=False)
    with pytest.raises(pr.DataError, match=message):
        fitted(str(tmp_path / given))


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        (pr.median("x"), {"inference": "jackknife"}, "jackknife leaves out one unit"),
        (pr.gini("x"), {}, "cannot be added up over blocks|needs"),
        ("y ~ x", {"method": "model-dependent"}, "needs them all at once"),
        ("y ~ x", {"inference": "jackknife"}, "jackknife"),
        ("y ~ x", {"weights": np.ones(900)}, "name a column"),
        ("y ~ x", {"memory": "much"}, "is no amount of memory"),
        ("y ~ x", {"memory": 0}, "is no amount of memory"),
        ("y ~ x", {"memory": []}, "is no amount of memory"),
        ("y ~ z", {}, "column 'z' is not in"),
        ("y ~ x", {"clusters": "z"}, "column 'z' is not in"),
        ("y ~ x", {"design": pr.SurveyDesign(strata="g")}, "every record a sampling unit"),
    ],
)
def test_what_blocks_cannot_do_is_refused_in_words(
    parts: Path, what: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        fitted(parts, what, **options)


def test_a_lazy_frame_that_fails_is_the_users_to_mend(frame: pd.DataFrame) -> None:
    lazy = pl.from_pandas(frame).lazy().with_columns(pl.col("nowhere"))
    with pytest.raises(pr.DataError, match="lazy frame could not be read"):
        fitted(lazy)


def test_a_reader_beyond_the_budget_says_what_to_do(frame: pd.DataFrame) -> None:
    with pytest.raises(pr.DataError, match="gives its records once"):
        fitted(pa.Table.from_pandas(frame).to_reader(), memory=100)


def test_a_reader_that_fails_is_an_error_in_words(frame: pd.DataFrame) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)

    def batches() -> Any:
        yield from table.to_batches(max_chunksize=400)
        raise RuntimeError("the line is dead")

    with pytest.raises(pr.DataError, match=r"the reader could not be read: the line is dead \(RuntimeError\)"):
        fitted(pa.RecordBatchReader.from_batches(table.schema, batches()), memory=1e9)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as file:
        file.write_table(table)
    with pytest.raises(pr.DataError, match=r"the reader could not be read: Expected .*OSError"):
        fitted(pa.ipc.open_stream(stream.getvalue()[:-2000]), memory=1e9)


def test_files_under_two_names_are_refused(parts: Path) -> None:
    """A pattern that follows a link to its own folder finds every file forty times."""
    (parts / "again").symlink_to(parts)
    for given in (str(parts / "**" / "*.parquet"), [parts / "part-0.parquet", parts / "again" / "part-0.parquet"]):
        with pytest.raises(pr.DataError, match=r"are one file: its records would count twice"):
            fitted(given)
    assert fitted(parts).n == 900


@pytest.mark.parametrize("target", ["gone.parquet", "lost.parquet"])
def test_a_link_to_a_lost_file_is_named(target: str, parts: Path) -> None:
    """Its records would be missing without a word."""
    (parts / "lost.parquet").symlink_to(parts / target)
    for given in (parts, str(parts / "*.parquet")):
        with pytest.raises(pr.DataError, match=r"lost\.parquet' is a link to a file that is not there"):
            fitted(given)


def test_an_empty_name_is_no_folder(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the folder that one happens to be in, as where a variable of the shell is not set."""
    monkeypatch.chdir(parts)
    assert fitted(".").n == 900
    with pytest.raises(pr.DataError, match="the name of the file is empty"):
        fitted("")


def test_descriptions_of_several_files_must_agree(parts: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    for k, keep in enumerate((0.85, 0.85, 0.7)):
        source, out = tmp_path / f"raw-{k}.parquet", tmp_path / "released" / f"part-{k}.parquet"
        out.parent.mkdir(exist_ok=True)
        frame.to_parquet(source, index=False)
        pr.release(source, out, pr.Mechanism({"y": pr.TransitionMatrix.binary(keep, keep)}))
    released = tmp_path / "released"
    with pytest.raises(pr.MechanismError, match=r"part-0\.parquet.*part-2\.parquet.* differ"):
        pr.fit("y ~ x", released, "auto", family="binomial")
    (released / "part-2.parquet").unlink()
    assert pr.fit("y ~ x", released, "auto", family="binomial").n == 1800
    with pytest.raises(pr.MechanismError, match="mechanism=None says that it is clean"):
        pr.fit("y ~ x", released, None, family="binomial")


def _csv(path: Path, x: list[str]) -> None:
    rows = [f"{value},{k * 7 % 5 % 2}" for k, value in enumerate(x)]
    path.write_text("\n".join(["x,y", *rows]) + "\n", encoding="utf-8")


@pytest.mark.parametrize("memory", [None, 1])
@pytest.mark.parametrize(
    "files",
    {
        "an empty file first": ([], ["0.5", "1", "2"] * 40),
        "gaps in the first file": ([""] * 30, ["0.5", "1", "2.5"] * 40),
        "decimals far down": (["1", "2", "3", "5"] * 400_000 + ["0.5"] * 9,),
        "decimals in a later file": (["1", "2", "3", "4"] * 30, ["0.25", "7"] * 20),
        "text far down": (["1", "2"] * 600_000 + ["odd"] * 9,),
    }.values(),
    ids=["empty", "gaps", "decimals", "later file", "text"],
)
def test_a_column_has_the_type_in_which_all_its_fields_can_be_written(
    files: tuple[list[str], ...], memory: Any, tmp_path: Path
) -> None:
    for k, values in enumerate(files):
        _csv(tmp_path / f"{k}.csv", values)
    read = [pd.read_csv(path, low_memory=False) for path in sorted(tmp_path.glob("*.csv"))]
    whole = pd.concat([frame for frame in read if len(frame)], ignore_index=True)
    if whole["x"].dtype.kind != "f":
        whole["x"] = whole["x"].astype(str)
    options = {"missing": "drop", "memory": memory, "inference": pr.Sandwich(interval="wald")}
    found, local = (pr.fit("y ~ x", data, M, **options) for data in (tmp_path, whole))
    np.testing.assert_allclose(found.estimate, local.estimate, rtol=1e-8)
    np.testing.assert_allclose(found.standard_errors, local.standard_errors, rtol=1e-8)


@pytest.mark.parametrize("memory", [1, 1e9])
@pytest.mark.parametrize("missing", ["error", "drop"])
def test_a_csv_file_of_a_folder_with_another_header_is_named(
    frame: pd.DataFrame, tmp_path: Path, memory: float, missing: str
) -> None:
    """Arrow would read it as records with nothing in them, which missing='drop' leaves out."""
    odd = {
        "lacks": frame.drop(columns="x").to_csv(index=False),
        "renamed": frame.rename(columns={"x": "X"}).to_csv(index=False),
        "headless": frame.to_csv(index=False, header=False),
        "separated": frame.to_csv(index=False, sep=";"),
    }
    for name, text in odd.items():
        folder = tmp_path / name
        folder.mkdir()
        frame.to_csv(folder / "part-0.csv", index=False)
        (folder / "part-1.csv").write_text(text, encoding="utf-8")
        with pytest.raises(
            pr.DataError, match=r"part-1\.csv.* lacks column 'x'.* or separates its fields in another way"
        ):
            fitted(folder, "y ~ x", memory=memory, missing=missing)


def test_csv_files_with_columns_in_another_order_are_one_table(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.iloc[:500].to_csv(tmp_path / "a.csv", index=False)
    frame.iloc[500:][["y", "g", "x"]].assign(more=1).to_csv(tmp_path / "b.csv", index=False)
    np.testing.assert_allclose(fitted(tmp_path).estimate, fitted(frame, memory=None).estimate, rtol=1e-9)


@pytest.mark.parametrize("kind", ["list", "map", "struct"])
def test_a_column_of_lists_is_refused_where_it_is_used(frame: pd.DataFrame, tmp_path: Path, kind: str) -> None:
    made = {
        "list": pa.array([[v] for v in frame["x"]]),
        "map": pa.array([[("a", v)] for v in frame["x"]], pa.map_(pa.string(), pa.float64())),
        "struct": pa.array([{"a": v} for v in frame["x"]]),
    }
    table = pa.Table.from_pandas(frame, preserve_index=False).append_column("z", made[kind])
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    with pytest.raises(pr.DataError, match=rf"column 'z' of .* is of type {kind}.* cannot be used"):
        fitted(tmp_path, "y ~ x + z")
    np.testing.assert_allclose(fitted(tmp_path).estimate, fitted(frame, memory=None).estimate, rtol=1e-9)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_column_of_identifiers_in_bytes_is_refused_where_it_is_used(
    ending: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    """As databases write them; Arrow does not list the values of such types."""
    bytes_ = pa.array([bytes([k % 7] * 16) for k in range(900)], pa.binary(16))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.append_column("person", pa.ExtensionArray.from_storage(pa.uuid(), bytes_))
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    with pytest.raises(pr.DataError, match=r"column 'person' of .* is of type arrow\.uuid, with which .*: cast it"):
        fitted(path, "y ~ x + person")
    np.testing.assert_allclose(fitted(path).estimate, fitted(frame, memory=None).estimate, rtol=1e-9)


def test_a_dataset_whose_file_is_gone_is_refused_in_words(parts: Path) -> None:
    given = dataset.dataset(str(parts))
    (parts / "part-1.parquet").unlink()
    with pytest.raises(pr.DataError, match=r"the dataset could not be read.*part-1\.parquet"):
        fitted(given)


def test_the_file_with_two_columns_of_one_name_is_named(parts: Path) -> None:
    table = parquet.read_table(parts / "part-2.parquet")
    twice = pa.Table.from_arrays([*table.columns, table["x"]], names=[*table.column_names, "x"])
    parquet.write_table(twice, parts / "part-2.parquet")
    with pytest.raises(pr.DataError, match=r"part-2\.parquet"):
        fitted(parts)


@pytest.mark.parametrize("which", [0, 1])
def test_the_text_file_with_two_columns_of_one_name_is_named(which: int, frame: pd.DataFrame, tmp_path: Path) -> None:
    for k in range(2):
        text = frame.iloc[450 * k : 450 * (k + 1)].to_csv(index=False)
        (tmp_path / f"part-{k}.csv").write_text(text.replace("x,g,y", "x,x,y", 1) if k == which else text)
    with pytest.raises(pr.DataError, match=rf"two columns of 'part-{which}\.csv' have the same name, 'x': rename"):
        fitted(tmp_path, "y ~ x")


def test_the_file_of_another_format_is_named(parts: Path) -> None:
    (parts / "README.txt").write_text("Made in May.\n", encoding="utf-8")
    with pytest.raises(pr.DataError, match=r"several formats \(csv: 'README\.txt'; parquet: 'part-0\.parquet'\)"):
        fitted(parts)


@pytest.mark.parametrize("batch", [10_000, 40])
def test_text_that_is_a_view_is_read_in_blocks(
    batch: int, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow cannot take rows of it, of which a sample is made."""
    monkeypatch.setattr(sources, "BATCH", batch)
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    texts = [
        field.name for field in whole.schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    viewed = whole.cast(pa.schema([f.with_type(pa.string_view()) if f.name in texts else f for f in whole.schema]))
    assert texts
    found, known = (fitted(given) for given in (dataset.dataset(viewed), frame))
    np.testing.assert_allclose(found.estimate, known.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, known.standard_errors, rtol=1e-9)


@pytest.mark.parametrize("where", ["clusters", "strata"])
@pytest.mark.parametrize("memory", ["1 GB", 1])
def test_labels_that_were_rounded_tell_no_units_apart(
    where: str, memory: str | float, frame: pd.DataFrame, tmp_path: Path
) -> None:
    """Twenty-five digits, in a text file, are read as numbers of which several are equal."""
    long = frame.assign(person=[str(10**25 + k) for k in range(len(frame))], house=np.arange(len(frame)) % 20)
    long.to_csv(tmp_path / "long.csv", index=False)
    design = {"clusters": "house", where: "person"}
    options: dict[str, Any] = {"clusters": "person"} if where == "clusters" else {"design": pr.SurveyDesign(**design)}
    with pytest.raises(
        pr.DataError, match=rf"{where} hold \d+ number\(s\) of 16 digits or more.*store the column as text"
    ):
        fitted(tmp_path / "long.csv", memory=memory, **options)


@pytest.mark.parametrize("memory", [1, None])
def test_a_file_cut_short_behind_a_lazy_frame_is_no_end_of_the_records(
    parts: Path, memory: float | None, capfd: pytest.CaptureFixture[str]
) -> None:
    """A reader of polars panics over it, after which `collect_batches` gives what it had until then, and no error."""
    lazy = pl.scan_parquet(parts / "*.parquet")
    lazy.head(1).collect()  # which looks at the footers, once
    cut = parts / "part-1.parquet"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    with pytest.raises(pr.DataError, match="lazy frame could not be read"):
        fitted(lazy, memory=memory)
    capfd.readouterr()  # polars prints its panic

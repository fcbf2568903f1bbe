"""No value of a confidential file shows, whatever goes wrong: every door on the custodian's side × every fault.

Every cell is a marker but for the levels of `z`, which the mechanism lists and the release publishes. What is said to the user (the
error with its chain, warnings, logs, what is printed) must hold none.
"""

from __future__ import annotations

import contextlib
import datetime
import gzip
import io
import logging
import re
import shutil
import traceback
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet
from typer.main import get_command

import pramana as pr
from pramana.cli.application import app
from pramana.errors import PramanaWarning, confidential, quoted, released
from pramana.mechanism.designs.design_file import Design, read_design
from pramana.mechanism.designs.request import Request
from pramana.names import HOME

WORD = "zq" + "x"  # in two parts, so that a traceback's lines of code are no leak
NUMBER = 7318281.25
LEVELS = ("alpha", "beta", "gamma")
P = pr.TransitionMatrix.randomized_response(LEVELS, 0.8)
MECHANISM = pr.Mechanism({"z": P})
BY_STRATUM = pr.Mechanism({"z": pr.Stratified("s", {"north": P, "south": P})})
N = 36
Frame = pd.DataFrame


def words(name: str, count: int) -> list[str]:
    return [f"{WORD}{name}{i % count}" for i in range(N)]


@cache
def frame() -> Frame:
    """Public: z and s. Everything else is secret: words, numbers, counts, dates, bytes, identifiers."""
    rng = np.random.default_rng(3)
    return Frame(
        {
            "z": rng.permutation(np.resize(LEVELS, N)),
            "s": np.resize(["north", "south"], N),
            "w": rng.permutation(words("w", 3)),
            "b": rng.permutation(words("b", 2)),
            "x": NUMBER * (1 + rng.permutation(N) / 7),
            "v": NUMBER * (2 + rng.permutation(N) / 13),
            "k": 918273 + 11 * rng.permutation(N),
            "d": pd.date_range("1987-03-17 05:00", periods=N, freq="31h"),
            "id": words("id", N),
        }
    )


def secrets(data: Frame) -> set[str]:
    """How a cell may show: as it is, and numbers to a few digits however they are formatted."""
    out = {WORD, "1987-", "1987,"}
    for value in (v for c in data.columns for v in data[c].tolist() if isinstance(v, int | float) and abs(v) > 1e5):
        out |= {f"{value:.4g}", f"{value:g}", f"{value:.2g}" if abs(value) > 1e50 else f"{value:.5g}", str(value)[:6]}
    return out - {"inf", "nan", "-inf"}


def changed(column: str, value: object, row: int = 5) -> Callable[[Frame], Frame]:
    def change(data: Frame) -> Frame:
        data = data.astype({column: object})
        data.at[row, column] = value
        return data

    return change


def every(column: str, value: object) -> Callable[[Frame], Frame]:
    return lambda data: data.assign(**{column: [value] * len(data)})


def scaled(column: str, factor: float) -> Callable[[Frame], Frame]:
    return lambda data: data.assign(**{column: data[column] * factor})


VALUES: dict[str, Callable[[Frame], Any]] = {
    "none": lambda data: data,
    "missing number": changed("x", None),
    "missing word": changed("w", None),
    "text in numbers": changed("x", f"{WORD}text"),
    "number in words": changed("w", 918273645),
    "infinite": changed("x", float("inf")),
    "huge": scaled("x", 1e300),
    "overflow": scaled("x", 1e305),
    "tiny": scaled("x", 1e-320),
    "negative": scaled("x", -1.0),
    "constant number": every("x", NUMBER),
    "constant word": every("w", f"{WORD}only"),
    "all missing": every("x", None),
    "too many words": lambda data: data.assign(w=words("many", N)),
    "dates for numbers": lambda data: data.assign(x=data["d"], w=data["d"]),
    "bytes": lambda data: data.assign(w=[v.encode() for v in data["w"]], b=[b"\xff" + v.encode() for v in data["b"]]),
    "lists": lambda data: data.assign(x=[[v, v] for v in data["x"]], w=[[v] for v in data["w"]]),
    "dictionaries": lambda data: data.assign(x=[{"a": v} for v in data["w"]], w=[{v: 1} for v in data["w"]]),
    "decimals": lambda data: data.assign(x=[Decimal(repr(v)) for v in data["x"]], w=[Decimal(v) for v in data["k"]]),
    "complex": lambda data: data.assign(x=data["x"] * 1j),
    "intervals": lambda data: data.assign(w=pd.cut(data["x"], 3), x=pd.to_timedelta(data["k"], unit="s")),
    "categories": lambda data: data.assign(w=pd.Categorical(data["w"], ordered=True), x=pd.Categorical(data["x"])),
    "objects": lambda data: data.assign(x=[(v, datetime.date(1987, 3, 17)) for v in data["x"]]),
    "twins": lambda data: data.assign(v=data["x"], w=data["z"].map(dict(zip(LEVELS, set(data["w"]), strict=True)))),
    "nothing but zeros": every("x", 0.0),
    "combinations that nobody has": lambda data: data.assign(
        b=np.where(data["w"] == f"{WORD}w0", f"{WORD}b0", data["b"]),
        x=np.where(data["w"] == f"{WORD}w1", 0.0, data["x"]),
    ),
    "separated": lambda data: data.assign(b=np.where(data["z"] == "alpha", *sorted(set(data["b"])))),
}
FAULTS = VALUES | {
    "unknown level": changed("z", f"{WORD}unknown"),
    "unknown stratum": changed("s", f"{WORD}east"),
    "missing level": changed("z", None),
    "missing stratum": changed("s", None),
    "number in levels": changed("z", 918273645, row=0),
    "constant level": every("z", "alpha"),
    "same identifiers": lambda data: data.assign(id=f"{WORD}same"),
    "no records": lambda data: data.iloc[:0],
    "one record": lambda data: data.iloc[:1],
    "column twice": lambda data: pd.concat([data, data[["x"]]], axis=1),
    "headers of two rows": lambda data: data.set_axis(pd.MultiIndex.from_product([["a"], data.columns]), axis=1),
    "column lost": lambda data: data.drop(columns="z"),
    "polars": lambda data: pl.from_pandas(changed("z", f"{WORD}unknown")(data)),
    "arrow": lambda data: pa.Table.from_pandas(changed("z", f"{WORD}unknown")(data), preserve_index=False),
    "dictionary of columns": lambda data: {c: data[c].tolist() for c in data} | {"x": data["x"].tolist()[:-1]},
}


@cache
def faulty(name: str) -> tuple[Any, set[str]]:
    """The data with a fault, and what must not be seen of them."""
    data = FAULTS[name](frame())
    plain = isinstance(data, Frame) and data.columns.is_unique
    return data, secrets(frame()) | (secrets(data) if plain else set())


ANALYSES: dict[str, Any] = {
    "gaussian": "x ~ z + v",
    "words": "x ~ z + w",
    "division by zero": "v ~ z + I(1 / (k - 918273))",
    "unlike types": "v ~ z + I(x + w)",
    "spline": "v ~ z + bs(x, df=4)",
    "response of levels": "z ~ x",
    "response of words": "w ~ z",
    "binomial": pr.glm("b ~ z", "binomial"),
    "binomial of numbers": pr.glm("x ~ z", "binomial"),
    "poisson": pr.glm("x ~ z", "poisson"),
    "unknown column": "x ~ z + nope",
    "multinomial": pr.multinomial("w ~ z"),
    "multinomial of numbers": pr.multinomial("x ~ z"),
    "ordinal": pr.ordinal("w ~ z"),
    "mean": pr.mean("x"),
    "mean of words": pr.mean("w"),
    "mean by": pr.mean("x", by="w"),
    "proportions": pr.proportions("w"),
    "crosstab": pr.crosstab("z", "w"),
    "odds ratio": pr.odds_ratio("z", "b"),
    "odds ratio of words": pr.odds_ratio("w", "b"),
    "correlation": pr.correlation("z", "x"),
    "kendall": pr.correlation("z", "w", kind="kendall"),
    "gini": pr.gini("x"),
    "share": pr.share("w", high=1),
    "poverty": pr.poverty_rate("x", by="w"),
    "quantile regression": pr.quantile_regression("x ~ z", 0.5),
    "gini by two": pr.gini("x", by=["w", "b"]),
    "mean by two": pr.mean("x", by=["w", "b"]),
    "odds ratio by strata": pr.odds_ratio("b", "s", strata="w"),
    "odds ratio within cells": pr.odds_ratio("b", "s", strata=["w", "z"]),
    "median by": pr.median("x", by="w"),
    "quantile regression of words": pr.quantile_regression("x ~ w + z"),
    "multinomial margins": pr.margins("w ~ z", "z", "multinomial"),
    "too few instruments": pr.two_stage_least_squares("x ~ w | b"),
    "two stages": pr.two_stage_least_squares("x ~ v | z"),
    "treatment": pr.average_treatment_effect("x", "w", "z"),
    "margins": pr.margins("x ~ z + w", "w"),
}


COMPARED = ("words", "division by zero", "binomial of numbers", "ordinal", "mean of words")


def release_of(data: Any, folder: Path, **options: Any) -> Any:
    """A release of the frame as a Parquet file, or as CSV where Parquet cannot hold it."""
    source = written(data, folder)
    return pr.release(
        source, folder / f"out{source.suffix}", options.pop("mechanism", MECHANISM), force=True, **options
    )


def written(data: Any, folder: Path) -> Path:
    if not isinstance(data, Frame):
        data = frame() if isinstance(data, dict) else data.to_pandas()
    try:
        data.to_parquet(folder / "in.parquet")
        return folder / "in.parquet"
    except (ValueError, TypeError, pa.ArrowException):
        data.to_csv(folder / "in.csv", index=False)
        return folder / "in.csv"


def parts_of(data: Any, folder: Path) -> Path:
    """A folder of two files, of which the second is at fault; an earlier release of it is gone."""
    source = written(data, folder)
    for name in ("parts", "out"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "parts").mkdir()
    first = frame().assign(id=[f"{WORD}first{i}" for i in range(N)])
    if source.suffix == ".csv":
        first.to_csv(folder / "parts" / "a.csv", index=False)
    else:
        first.to_parquet(folder / "parts" / "a.parquet")
    source.rename(folder / "parts" / f"b{source.suffix}")
    return folder / "parts"


PUBLIC = {"z": np.resize(LEVELS, N), "s": np.resize(["north", "south"], N), "x": np.arange(N, dtype=float)}


def compare(what: Any, data: Any, **options: Any) -> Any:
    """The released data are harmless; the truth is at fault."""
    rng = np.random.default_rng(1)
    public = PUBLIC | {c: rng.normal(size=N) for c in "vk"} | {c: rng.choice(["p", "q", "r"], N) for c in ("w", "b")}
    return pr.compare(what, public, MECHANISM, ["naive"], truth=data, **options)


def audit(data: Any, folder: Path) -> Any:
    """A clean release, audited against an original at fault."""
    target = folder / "public" / "out.parquet"
    if not target.exists():
        target.parent.mkdir()
        frame().to_parquet(folder / "clean.parquet")
        pr.release(folder / "clean.parquet", target, MECHANISM)
    return pr.audit(target, original=written(data, folder))


def design(data: Any, folder: Path, body: str) -> Any:
    (folder / "design.toml").write_text(body)
    return read_design(folder / "design.toml", data)


INVARIANT = '[columns.{}]\nkeep = 0.4\ninvariant = true\nfrequencies = "data"\nconstruction = "{}"\n'
NESTED = {"strata": "s", "weights": "x", "fpc": "k"}
DOORS: dict[str, Callable[[Any, Path], Any]] = {
    **{
        f"risk: {k}": lambda data, _, what=what: pr.risk(data, MECHANISM, analyses=what) for k, what in ANALYSES.items()
    },
    "risk": lambda data, _: pr.risk(data, MECHANISM, keys=["w", "z"]),
    "risk by stratum": lambda data, _: pr.risk(data, BY_STRATUM, keys=["x", "d"], missing="drop"),
    "risk with weights": lambda data, _: pr.risk(data, MECHANISM, analyses="v ~ z", weights="x"),
    "risk of a release": lambda data, _: pr.risk(frame(), BY_STRATUM, keys=["w"], released=data),
    "risk with a prior": lambda data, _: pr.risk(data, MECHANISM, prior={"z": {"alpha": 0.5}}),
    "plan": lambda data, _: pr.plan(data, "z", "x ~ z + w", se=1e-9),
    "plan of words": lambda data, _: pr.plan(data, "w", se={"w": 1e-9}),
    "plan without a term": lambda data, _: pr.plan(data, "w", "x ~ w", se={"nope": 1.0}),
    "plan of numbers": lambda data, _: pr.plan(data, "x", effect={"x": 1e-9}, kind="ordinal"),
    "plan with other levels": lambda data, _: pr.plan(data, "w", se=0.1, levels=["p", "q"]),
    "frontier": lambda data, _: pr.frontier(data, ["w", "b"], [0.9], keys=["x"], analysis="x ~ w", term="nope"),
    "frontier of numbers": lambda data, _: pr.frontier(data, "k", [0.9], chosen=0.001),
    "frontier and mechanism": lambda data, _: pr.frontier(
        data, "z", [0.9], chosen=MECHANISM, analysis="x ~ z", simulate=0
    ),
    "optimal": lambda data, _: pr.optimal_design("x ~ w", data, "w", epsilon=0.001, starts=0),
    "optimal of words": lambda data, _: pr.optimal_design(
        "x ~ v", data, "w", odds=1.5, starts=1, importance={"w": 2.0}
    ),
    "optimal within cells": lambda data, _: pr.optimal_design(
        pr.mean("x", by=["z", "w"]), data, "z", epsilon=1.0, starts=1
    ),
    "perturb": lambda data, _: MECHANISM.perturb(data),
    "perturb by stratum": lambda data, _: BY_STRATUM.perturb(data),
    "perturb with a key": lambda data, _: MECHANISM.perturb(data, key=b"k" * 32, id="id"),
    "perturb words": lambda data, _: pr.Mechanism(
        {("w", "x"): pr.designs.linked([("a", 1), ("b", 2)], keep=0.9)}
    ).perturb(data),
    "release": lambda data, folder: release_of(data, folder, card=True),
    "release by stratum": lambda data, folder: release_of(data, folder, mechanism=BY_STRATUM),
    "release with a key": lambda data, folder: release_of(data, folder, key=b"k" * 32, id="id"),
    "release of words": lambda data, folder: release_of(data, folder, mechanism=pr.Mechanism({"w": P, "x": P})),
    "release of a folder": lambda data, folder: pr.release(
        parts_of(data, folder), folder / "out", BY_STRATUM, card=True
    ),
    "release of a folder with a key": lambda data, folder: pr.release(
        parts_of(data, folder), folder / "out", MECHANISM, key=b"k" * 32, id="id"
    ),
    "risk of a folder": lambda data, folder: pr.risk(parts_of(data, folder), MECHANISM, keys=["w"]),
    "risk in blocks": lambda data, folder: pr.risk(
        parts_of(data, folder), BY_STRATUM, keys=["w", "b"], analyses="x ~ z + v", memory=3e4
    ),
    "risk in blocks of what needs them all": lambda data, folder: pr.risk(
        parts_of(data, folder), MECHANISM, analyses=pr.gini("x", by="w"), memory=2e4
    ),
    "risk in blocks of many values": lambda data, folder: pr.risk(
        parts_of(data, folder), MECHANISM, keys=["x", "id", "d"], missing="drop", memory=2e4
    ),
    "read_design": lambda data, folder: design(data, folder, INVARIANT.format("w", "mixture")),
    "read_design equal": lambda data, folder: design(data, folder, INVARIANT.format("w", "equal-diagonal")),
    "read_design of numbers": lambda data, folder: design(data, folder, "[columns.x]\nkeep = 0.0001\n"),
    "read_design linked": lambda data, folder: design(data, folder, '[[linked]]\ncolumns = ["w", "b"]\nkeep = 0.01\n'),
    "read_design structured": lambda data, folder: design(
        data, folder, '[columns.w]\nkeep = 0.9\nblocks = [["a"], ["b"]]\n'
    ),
    "read_design fixed": lambda data, folder: design(data, folder, "[columns.w]\nkeep = {a = 0.9}\n"),
    "Design.resolved": lambda data, _: Design((Request(("w",), keep=0.9),)).resolved(data).mechanism,
    "observed_combinations": lambda data, _: pr.designs.observed_combinations(data, ["w", "x"]),
    "audit": audit,
    **{f"compare: {k}": lambda data, _, what=ANALYSES[k]: compare(what, data) for k in COMPARED},
    "compare with weights": lambda data, _: compare("v ~ z", data, weights="x"),
    "compare with frequencies": lambda data, _: compare("v ~ z", data, frequencies="x"),
    "compare with a design": lambda data, _: compare("v ~ z", data, design=pr.SurveyDesign(**NESTED)),
    "compare with lonely strata": lambda data, _: compare(
        "v ~ z", data, design=pr.SurveyDesign(strata="w", clusters="z")
    ),
}


REPORTS = ("risk", "risk by stratum", "risk: gaussian", "risk: mean", "frontier and mechanism", "release", "audit")
"""Doors whose answer names no level but those of the mechanism, so that it must hold no marker either."""


class Heard:
    """All that a call says to the user, and whether it failed."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        printed, log = io.StringIO(), io.StringIO()
        handler, root = logging.StreamHandler(log), logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            with (
                warnings.catch_warnings(record=True) as caught,
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
            ):
                warnings.simplefilter("always")
                self.result = call()
        except Exception as error:
            self.error = error
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        said = [printed.getvalue(), log.getvalue(), *(str(w.message) for w in caught)]
        self.text = "\n".join([*said, *self._chain()])

    def _chain(self) -> Iterator[str]:
        """Suppressed or not, whatever hangs on the error."""
        waiting, seen = [self.error], set()
        while waiting:
            error = waiting.pop()
            if error is None or id(error) in seen:
                continue
            seen.add(id(error))
            yield from (str(error), repr(error), repr(vars(error)), *traceback.format_exception(error))
            waiting += [error.__cause__, error.__context__]

    def leaks(self, markers: set[str]) -> list[str]:
        """Digests of released files are left out: six of their digits may be anything."""
        text = re.sub(r"\b[0-9a-f]{64}\b", "", self.text)
        return sorted(marker for marker in markers if marker in text)


@pytest.mark.parametrize(
    ("door", "half"),
    [
        *((door, 0) for door in DOORS),
        *(pytest.param(door, 1, marks=pytest.mark.engines) for door in DOORS if ": " not in door),
    ],
)
def test_no_fault_makes_a_door_show_a_value(door: str, half: int, tmp_path: Path) -> None:
    """Every other fault at a door, and the others at the next; the second half in `make engines-test`. A model meets all values at once."""
    shown, failed = [], 0
    some = list(FAULTS)[(list(DOORS).index(door) + half) % 2 :: 2]
    for name in VALUES if ": " in door else some:
        data, markers = faulty(name)
        heard = Heard(lambda data=data: DOORS[door](data, tmp_path))
        failed += heard.error is not None
        if door in REPORTS and heard.error is None:
            heard.text += str(heard.result)
        if isinstance(heard.error, Exception) and not isinstance(heard.error, pr.PramanaError | PramanaWarning):
            shown.append((name, f"{type(heard.error).__name__} came through"))
        shown += [(name, leak, heard.text[:600]) for leak in heard.leaks(markers)]
    assert not shown, shown[0]
    assert failed  # faults that nobody notices would prove nothing


def csv(change: Callable[[list[str]], list[str]] = lambda lines: lines) -> bytes:
    return "\n".join(change(frame().to_csv(index=False).splitlines())).encode() + b"\n"


def parquet_of(**columns: Any) -> bytes:
    """The frame with some columns of other types."""
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    out = pa.BufferOutputStream()
    parquet.write_table(table, out)
    return bytes(out.getvalue().to_pybytes())


def damaged(data: bytes) -> bytes:
    """Pages broken, the footer whole."""
    return data[:200] + bytes(b ^ 0x5A for b in data[200:1500]) + data[1500:]


WORDS = [f"{WORD}t{i}" for i in range(N)]
FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "long row": ("csv", lambda: csv(lambda lines: [*lines[:4], lines[4] + f",{WORD}more", *lines[5:]])),
    "short row": ("csv", lambda: csv(lambda lines: [*lines[:4], f"{WORD}alone", *lines[5:]])),
    "open quote": ("csv", lambda: csv(lambda lines: [*lines[:4], f'alpha,north,"{WORD}open', *lines[5:]])),
    "stray quote": ("csv", lambda: csv(lambda lines: [*lines[:4], lines[4].replace(WORD, f'{WORD}"'), *lines[5:]])),
    "latin-1": ("csv", lambda: csv().replace(WORD.encode(), WORD.encode() + b"\xe9", 3)),
    "latin-1 in the levels": ("csv", lambda: csv().replace(b"beta", b"b\xe9ta" + WORD.encode(), 3)),
    "utf-16": ("csv", lambda: csv().decode().encode("utf-16")),
    "zero bytes": ("csv", lambda: csv().replace(b"alpha", b"al\0pha")),
    "semicolons": ("csv", lambda: csv().replace(b",", b";")),
    "carriage returns": ("csv", lambda: csv().replace(b"\n", b"\r")),
    "no header": ("csv", lambda: csv(lambda lines: [line for line in lines[1:] if "alpha" not in line])),
    "header twice": ("csv", lambda: csv().replace(b"z,s,w", b"z,z,w", 1)),
    "empty": ("csv", lambda: b""),
    "unknown level": ("csv", lambda: csv().replace(b"beta", WORD.encode(), 1)),
    "text in numbers": ("csv", lambda: csv().replace(b".25,", f".25{WORD},".encode())),
    "long numbers": (
        "csv",
        lambda: csv().replace(b".25,", b".25" + b"9" * 400 + b","),
    ),
    "no gzip": ("csv.gz", csv),
    "half a gzip": ("csv.gz", lambda: gzip.compress(csv())[:-200]),
    "no parquet": ("parquet", csv),
    "half a parquet": ("parquet", lambda: parquet_of()[:3000]),
    "damaged": ("parquet", lambda: damaged(parquet_of())),
    "levels as numbers": ("parquet", lambda: parquet_of(z=pa.array(range(918273, 918273 + N)))),
    "levels as bytes": ("parquet", lambda: parquet_of(z=pa.array([w.encode() for w in WORDS]))),
    "levels as lists": (
        "parquet",
        lambda: parquet_of(z=pa.array([[w] for w in WORDS]), w=pa.array([[w] for w in WORDS])),
    ),
    "levels as records": ("parquet", lambda: parquet_of(z=pa.array([{w: 1} for w in WORDS[:3]] * (N // 3)))),
    "levels as categories": ("parquet", lambda: parquet_of(z=pa.array(WORDS).dictionary_encode())),
    "times": (
        "parquet",
        lambda: parquet_of(x=pa.array([datetime.time(5, 7)] * N), w=pa.array([10**17] * N, pa.duration("ns"))),
    ),
    "decimals": ("parquet", lambda: parquet_of(x=pa.array([Decimal("7318281.25")] * N), k=pa.array([None] * N))),
}


@cache
def content(name: str) -> bytes:
    return FILES[name][1]()


def broken(name: str, folder: Path) -> Path:
    path = folder / f"in.{FILES[name][0]}"
    path.write_bytes(content(name))
    return path


def released_beside(folder: Path) -> Path:
    """A clean release of the frame, with its mechanism and its design."""
    target = folder / "public" / "out.parquet"
    if not target.exists():
        target.parent.mkdir()
        frame().to_parquet(folder / "clean.parquet")
        pr.release(folder / "clean.parquet", target, MECHANISM)
        MECHANISM.save(folder / "m.json")
        (folder / "d.toml").write_text(INVARIANT.format("w", "mixture"))
    return target


COMMANDS = get_command(app)


def command(*words: str) -> Callable[[Path, Path], Any]:
    """A command, in which FILE stands for the file at fault and @ for the folder."""

    def run(path: Path, folder: Path) -> Any:
        done = CliRunner().invoke(COMMANDS, [str(path) if w == "FILE" else w.replace("@", f"{folder}/") for w in words])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        print(done.stderr)
        return done.stdout

    return run


FILE_DOORS: dict[str, Callable[[Path, Path], Any]] = {
    "risk": lambda path, _: pr.risk(path, MECHANISM, keys=["w"], analyses="x ~ z + v"),
    "plan": lambda path, _: pr.plan(str(path), "z", "x ~ z", se=1e-9),
    "frontier": lambda path, _: pr.frontier(path, "w", [0.9]),
    "optimal_design": lambda path, _: pr.optimal_design("x ~ z", path, "z", epsilon=1.0, starts=0),
    "release": lambda path, folder: pr.release(path, folder / f"new{''.join(path.suffixes)}", MECHANISM, force=True),
    "release with a key": lambda path, folder: pr.release(
        path, folder / f"new{''.join(path.suffixes)}", MECHANISM, key=b"k" * 32, id="w", force=True
    ),
    "account, of data taken for a ledger": lambda path, _: pr.account(path),
    "release, of data taken for a policy": lambda path, folder: pr.release(
        folder / "clean.parquet", folder / "new.parquet", MECHANISM, policy=path
    ),
    "read_design": lambda path, folder: read_design(folder / "d.toml", path),
    "audit": lambda path, folder: pr.audit(released_beside(folder), original=path),
    "compare": lambda path, _: compare("x ~ z + v", path),
    "$ design": command("design", "z", "--from", "FILE", "--keep", "0.9"),
    "$ design invariant": command("design", "w", "--from", "FILE", "--keep", "0.1", "--invariant"),
    "$ design levels": command("design", "w", "--from", "FILE", "--keep", "0.9", "--levels", "p,q", "-o", "@o.toml"),
    "$ perturb": command("perturb", "FILE", "@new.csv", "-m", "@m.json", "--force", "--card"),
    "$ perturb parquet": command("perturb", "FILE", "@new.parquet", "-m", "@m.json", "--force", "--ledger", "@ledger"),
    "$ perturb design": command("perturb", "FILE", "@new.csv", "--design", "@d.toml", "--force"),
    "$ risk": command("risk", "FILE", "-m", "@m.json", "--keys", "w", "--analysis", "x ~ z + v"),
    "$ risk of a release": command("risk", "@clean.parquet", "-m", "@m.json", "--released", "FILE", "--keys", "w"),
    "$ plan": command("plan", "FILE", "w", "--analysis", "x ~ w", "--se", "nope=1"),
    "$ plan optimal": command(
        "plan", "FILE", "z", "--analysis", "x ~ z", "--optimal", "--epsilon", "1", "--starts", "0"
    ),
    "$ audit": command("audit", "@public/out.parquet", "--original", "FILE"),
    "$ compare": command("compare", "x ~ z", "@public/out.parquet", "--truth", "FILE", "--method", "naive"),
    "$ compare weights": command("compare", "x ~ z", "@public/out.parquet", "--truth", "FILE", "--frequencies", "x"),
}


@pytest.mark.parametrize("door", FILE_DOORS)
def test_no_broken_file_makes_a_door_show_a_value(door: str, tmp_path: Path) -> None:
    released_beside(tmp_path)
    shown, failed = [], 0
    for name in FILES:
        path = broken(name, tmp_path)
        heard = Heard(lambda path=path: FILE_DOORS[door](path, tmp_path))
        failed += heard.error is not None
        if isinstance(heard.error, Exception) and not isinstance(heard.error, pr.PramanaError | PramanaWarning):
            shown.append((name, f"{type(heard.error).__name__} came through"))
        if "audit" in door and heard.error is None:
            heard.text += str(heard.result)
        shown += [(name, leak, heard.text[:600]) for leak in heard.leaks(faulty("none")[1])]
    assert not shown, shown[0]
    assert failed


def test_five_incomes_are_not_printed() -> None:
    incomes = Frame({"edu": np.resize(LEVELS, 150), "income": NUMBER + 1000 * np.arange(150)})
    with pytest.raises(pr.DataError, match=r"'income' has 150 levels \(.withheld.\): 3 to 100 are needed") as caught:
        pr.risk(incomes, pr.Mechanism({"edu": P}), analyses=pr.multinomial("income ~ edu"))
    assert not caught.value.quoted
    with pytest.raises(pr.DataError, match=r"150 levels \(7318281.25, .* and 145 more\)"):
        pr.fit(pr.multinomial("income ~ edu"), incomes, pr.Mechanism({"edu": P}))


def test_every_function_of_the_custodian_is_a_door_here() -> None:
    """A new one must be added to the table above."""
    functions = [
        n for n, home in HOME.items() if home.startswith("disclosure") and not isinstance(getattr(pr, n), type)
    ]
    assert functions
    assert all(any(door.startswith(name) for door in {**DOORS, **FILE_DOORS}) for name in functions)


def test_a_leak_would_be_heard() -> None:
    """The same faults through functions that do not keep the secret."""

    def chained() -> None:
        try:
            int(f"{WORD}1")
        except ValueError:
            raise pr.DataError("nothing here") from None

    def warned() -> None:
        warnings.warn(f"{WORD}2", RuntimeWarning, stacklevel=1)

    def logged() -> None:
        logging.getLogger("pramana").debug("%s", WORD)

    def logged_underneath() -> None:
        try:
            int(f"{WORD}3")
        except ValueError as error:
            logging.getLogger("distributed.worker").exception("compute failed: %s", error, stack_info=True)

    def shown() -> None:
        raise pr.DataError(f"holds {quoted(WORD)}")

    for call in (chained, warned, logged, logged_underneath, shown, released(shown), lambda: print(WORD)):
        assert Heard(call).leaks({WORD})
    for call in (chained, warned, logged_underneath, shown, released(shown)):
        assert not Heard(confidential(call)).leaks({WORD})


def test_a_call_that_does_not_fit_names_the_argument_and_no_value() -> None:
    with pytest.raises(TypeError) as caught:
        pr.risk(frame(), MECHANISM, analysis=WORD)  # type: ignore[call-arg]
    assert str(caught.value) == "risk() got an unexpected keyword argument 'analysis'"
    with pytest.raises(TypeError, match=r"^frontier\(\) missing a required argument: 'columns'$"):
        pr.frontier(frame())  # type: ignore[call-arg]


def test_logs_are_as_they_were_after_a_confidential_call() -> None:
    made = logging.getLogRecordFactory()
    with pytest.raises(pr.PramanaError):
        pr.risk(frame(), MECHANISM, keys=["nope"])
    assert logging.getLogRecordFactory() is made


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_call_hangs_no_value_on_its_error(kind: type[BaseException]) -> None:
    @confidential
    def interrupted() -> None:
        try:
            int(f"{WORD}1")
        except ValueError:
            raise kind  # noqa: B904  as when the key is pressed while an error is handled

    with pytest.raises(kind) as caught:
        interrupted()
    assert WORD not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_a_panic_of_a_compiled_library_keeps_the_secret() -> None:
    """Those of polars are no Exception."""

    @confidential
    def panics() -> None:
        raise pl.exceptions.PanicException(f"cannot hold {WORD}")

    heard = Heard(panics)
    assert isinstance(heard.error, pr.PramanaError)
    assert "PanicException" in str(heard.error)
    assert not heard.leaks({WORD})


def test_an_error_on_released_data_names_the_value() -> None:
    data = frame().assign(z=[f"{WORD}new", *frame()["z"][1:]])
    with pytest.raises(pr.DataError, match=f"first in row 0: '{WORD}new'") as caught:
        pr.fit("x ~ z", data, MECHANISM)
    assert caught.value.quoted == (f"'{WORD}new'",)


def test_other_warnings_keep_their_category_and_ours_their_text() -> None:
    @confidential
    def call() -> int:
        warnings.warn(f"{WORD} overflows", RuntimeWarning, stacklevel=1)
        warnings.warn("mind the seed", PramanaWarning, stacklevel=1)
        return 1

    with pytest.warns(RuntimeWarning, match="its text withheld"), pytest.warns(PramanaWarning, match="mind the seed"):
        assert call() == 1


def test_an_error_of_another_library_says_where_it_came_from() -> None:
    @confidential
    def call() -> None:
        np.array([1.0]).reshape(2)

    with pytest.raises(pr.PramanaError, match=r"ValueError of .*: its text is withheld"):
        call()

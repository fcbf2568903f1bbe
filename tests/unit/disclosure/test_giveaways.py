"""What tells the truth beside the released value fails the audit; what only correlates with it does not."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pramana as pr
from pramana.disclosure.audit.auditing import Finding
from pramana.disclosure.audit.giveaways.columns import ClearColumn
from pramana.disclosure.audit.giveaways.search import Perturbed, search
from pramana.disclosure.audit.giveaways.spelling import aspects_of, whole

pytestmark = pytest.mark.filterwarnings("ignore:perturb", "ignore:release")
EDU = ["low", "mid", "high"]
N = 3000
Frame = pd.DataFrame


def mechanism_of(keep: float = 0.7, column: str = "edu") -> pr.Mechanism:
    return pr.Mechanism({column: pr.TransitionMatrix.randomized_response(EDU, keep)})


def searched(frame: Frame, mechanism: pr.Mechanism, seed: int = 1) -> list[Finding]:
    """The search after a release in memory."""
    released = mechanism.perturb(frame, seed=seed)
    perturbed = [codes(assignment, frame, released) for assignment in mechanism.assignments]
    clear = pa.Table.from_pandas(frame.drop(columns=mechanism.columns), preserve_index=False)
    unit = None if mechanism.unit is None else mechanism.unit.column
    return search(clear, perturbed, np.arange(len(frame)), len(frame), mechanism.context, unit)


def codes(assignment: Any, frame: Frame, released: Frame) -> Perturbed:
    levels = {level: code for code, level in enumerate(assignment.channel.levels)}
    columns = list(assignment.columns)
    both = []
    for data in (frame, released):
        held = data[columns[0]] if len(columns) == 1 else pd.Series(zip(*(data[c] for c in columns), strict=True))
        both.append(held.map(levels).fillna(-1).to_numpy(dtype=np.int64))
    strata = list(assignment.channel.parts)
    stratum = np.zeros(len(frame), dtype=np.int64)
    if assignment.channel.context:
        stratum = frame[assignment.channel.context[0]].map(strata.index).to_numpy()
    return Perturbed.of(assignment, both[0], both[1], stratum)


def errors(found: list[Finding]) -> str:
    return " ".join(f.message for f in found if f.severity == "error")


def people(rng: np.random.Generator, n: int = N) -> Frame:
    """Content that correlates with education, and nothing that gives it away."""
    edu = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return pd.DataFrame(
        {
            "edu": np.array(EDU)[edu],
            "age": rng.integers(18, 80, n) - 3 * (edu == 0),
            "region": rng.choice(["north", "south", "east"], n),
            "income": rng.lognormal(9 + 0.4 * edu, 0.6, n).round(2),
        }
    )


def by_level(frame: Frame, values: list[Any]) -> pd.Series:
    return frame["edu"].map(dict(zip(EDU, values, strict=True)))


def text(values: Any, form: str = "{}") -> list[str]:
    return [form.format(v) for v in values]


# --- the four give-aways of the issue ---


def test_rows_sorted_by_the_perturbed_column_are_found(rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"edu": np.sort(rng.choice(list("abcdef"), N)), "age": rng.integers(18, 80, N)})
    keep = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(list("abcdef"), 0.3)})
    said = errors(searched(frame, keep))
    assert "the order of the rows" in said
    assert "shuffle the rows" in said
    assert float(said.split("tells 'edu': ")[1].split("%")[0]) > 98


def test_an_identifier_with_the_level_in_its_prefix_is_found(rng: np.random.Generator) -> None:
    frame = people(rng)
    frame["person"] = [f"{a}{i:06d}" for a, i in zip(by_level(frame, ["N", "S", "E"]), rng.permutation(N), strict=True)]
    said = errors(searched(frame, mechanism_of()))
    assert "the first 1 character(s) of 'person' tells 'edu': 100.0% of the true levels" in said


def test_gaps_of_two_columns_that_spell_the_level_are_found(rng: np.random.Generator) -> None:
    frame = people(rng)
    # Each column alone is missing as often at every level but one; both together say which it is.
    frame["u"] = np.where(by_level(frame, [0, 1, 1]) == 1, np.nan, rng.normal(size=N))
    frame["v"] = np.where(by_level(frame, [0, 0, 1]) == 1, np.nan, rng.normal(size=N))
    said = errors(searched(frame, mechanism_of()))
    assert "which of 2 columns are missing tells 'edu': 100.0%" in said


def test_eight_rows_a_person_are_found(rng: np.random.Generator) -> None:
    person = np.repeat(rng.permutation(400), 8)
    frame = pd.DataFrame({"edu": np.array(EDU)[rng.integers(0, 3, 400)][person], "person": person})
    frame = frame.assign(wage=rng.normal(size=3200)).sample(frac=1, random_state=1, ignore_index=True)
    said = errors(searched(frame, mechanism_of(0.6)))
    assert "rows with equal 'person' (8.0 on average) share their true 'edu'" in said
    assert float(said.split("together: ")[1].split("%")[0]) > 80


# --- relatives ---


def sorted_within(frame: Frame) -> Frame:
    return frame.sort_values(["region", "edu"], ascending=[True, False], ignore_index=True)


def in_descending_blocks(frame: Frame) -> Frame:
    """Nine batches, each sorted: no trend over the file."""
    return (
        frame.assign(batch=frame.index % 9)
        .sort_values(["batch", "edu"], ascending=False, ignore_index=True)
        .drop(columns="batch")
    )


def every_third(frame: Frame) -> Frame:
    """One record of each level in turn."""
    return (
        frame.assign(turn=frame.groupby("edu").cumcount())
        .sort_values(["turn", "edu"], ignore_index=True)
        .drop(columns="turn")[:1500]
    )


def batches(frame: Frame) -> Frame:
    """Each level was entered on a day of its own, to the second."""
    seconds = frame.index.to_series().sample(frac=1, random_state=2).to_numpy() * 20 % 36_000
    return frame.assign(
        entered=pd.Timestamp("2024-03-04")
        + pd.to_timedelta(by_level(frame, [0, 1, 2]), "D")
        + pd.to_timedelta(seconds, "s")
    )


def households(frame: Frame) -> Frame:
    home = np.sort(np.arange(N) % 1000)
    edu = frame["edu"].to_numpy()[home]
    return frame.assign(household=text(home * 7919 % 100_003, "h{}"), edu=edu).sample(
        frac=1, random_state=3, ignore_index=True
    )


def exclusive_or(frame: Frame) -> Frame:
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 3, (2, N))
    c = (by_level(frame, [0, 1, 2]) - a - b) % 3
    return frame.assign(a=text(a), b=text(b), c=text(c))


def gap_given_another(frame: Frame) -> Frame:
    """Whether the note is missing says nothing, and neither does the sex; both together name one level."""
    sex = np.random.default_rng(5).integers(0, 2, N)
    gap = (frame["edu"] == "low").to_numpy() ^ (sex == 1)
    return frame.assign(sex=sex, note=np.where(gap, None, "x"))


def date_of_birth_and_place(frame: Frame) -> Frame:
    """No identifier, but two columns that together identify a person with six rows."""
    who = np.repeat(np.arange(N // 6), 6)
    rng = np.random.default_rng(6)
    born, place = rng.integers(0, 400, (2, N // 6))
    made = {"edu": frame["edu"].to_numpy()[who], "born": born[who], "place": place[who], "x": rng.normal(size=who.size)}
    return pd.DataFrame(made).sample(frac=1, random_state=7, ignore_index=True)


def rare_flag(frame: Frame) -> Frame:
    """A code that only one of the levels has, and all its records."""
    return frame.assign(code=np.where(frame["edu"] == "high", 7, np.arange(N) % 7))


RELATIVES: dict[str, tuple[Callable[[Frame], Frame], str]] = {
    "sorted within region": (sorted_within, "the order of the rows"),
    "descending blocks": (in_descending_blocks, "the order of the rows"),
    "every third row": (every_third, "the order of the rows"),
    "a range of numbers": (
        lambda f: f.assign(nr=1000 + 4000 * by_level(f, [0, 1, 2]) + f.index.to_numpy()),
        "'nr'",
    ),
    "the last digit": (lambda f: f.assign(nr=f.index * 10_000_019 % 10**9 // 10 * 10 + by_level(f, [1, 5, 8])), "'nr'"),
    "a decimal in the middle": (
        lambda f: f.assign(nr=noise(9000) * 1000 + 100 * by_level(f, [3, 4, 7]) + noise(100)),
        "decimal 3 from the right of 'nr'",
    ),
    "the first digit": (lambda f: f.assign(nr=10**8 * by_level(f, [3, 1, 8]) + noise(10**8)), "'nr'"),
    "the cents of an amount": (
        lambda f: f.assign(paid=noise(10**5) + noise(10) / 10 + by_level(f, [1, 5, 8]) / 100),
        "decimal 1 from the right of 'paid'",
    ),
    "a remainder by 7": (
        lambda f: f.assign(nr=f.sample(frac=1, random_state=1).index * 70 + by_level(f, [0, 1, 2])),
        "'nr'",
    ),
    "the length": (
        lambda f: f.assign(
            nr=[f"{i * 7919 % 10007:0{w}d}" for i, w in zip(f.index, by_level(f, [6, 8, 9]), strict=True)]
        ),
        "'nr'",
    ),
    "a letter in the middle": (
        lambda f: f.assign(
            nr=[
                f"{i * 7919 % 10007:05d}{c}{i % 1000:03d}"
                for i, c in zip(f.index, by_level(f, list("xyz")), strict=True)
            ]
        ),
        "character 6 of 'nr'",
    ),
    "a check sum": (
        lambda f: f.assign(nr=[checked(i, level) for i, level in zip(f.index, by_level(f, [0, 1, 2]), strict=True)]),
        "a check sum (CRC-32) of 'nr'",
    ),
    "a batch by level": (batches, "'entered'"),
    "households": (households, "'household'"),
    "three columns together": (exclusive_or, "the combination of 'a', 'b', 'c' tells"),
    "a gap given another column": (gap_given_another, "whether 'note' is missing, with 'sex'"),
    "two columns name a person": (date_of_birth_and_place, "'born'"),
    "a code of one level": (rare_flag, "'code' tells 'edu' for sure"),
    "a list": (lambda f: f.assign(tags=[[v, "x"] for v in f["edu"]]), "'tags'"),
    "a struct": (lambda f: f.assign(more=[{"e": v} for v in f["edu"]]), "'more'"),
}


def noise(below: int) -> np.ndarray:
    return np.random.default_rng(below).integers(0, below, N)


def checked(row: int, level: int) -> str:
    return next(t for t in (f"{row:05d}{k:04d}" for k in range(10_000)) if zlib.crc32(t.encode()) % 12 == level)


@pytest.mark.parametrize("what", RELATIVES)
def test_relatives_are_found(what: str, rng: np.random.Generator) -> None:
    make, named = RELATIVES[what]
    assert named in errors(searched(make(people(rng)), mechanism_of(0.6)))


# --- nested columns ---


def structs(frame: Frame, hidden: Any, name: str = "code") -> pa.Array:
    """The hidden values in a field, beside another that is different in every record."""
    return pa.array([{"x": float(x), name: v} for x, v in zip(np.random.default_rng(8).random(N), hidden, strict=True)])


def lists(frame: Frame, hidden: Any) -> pa.Array:
    return pa.array([[int(x), int(v)] for x, v in zip(noise(10**9), hidden, strict=True)])


def maps(frame: Frame, hidden: Any) -> pa.Array:
    held = [[("x", int(x)), ("code", int(v))] for x, v in zip(noise(10**9), hidden, strict=True)]
    return pa.array(held, pa.map_(pa.string(), pa.int64()))


def lengths(frame: Frame, hidden: Any) -> pa.Array:
    return pa.array([np.random.default_rng(k).random(v + 1).tolist() for k, v in enumerate(hidden)])


NESTED: dict[str, tuple[Callable[[Frame, Any], pa.Array], str]] = {
    "a struct": (structs, "'p.code'"),
    "a list": (lists, "'p[1]'"),
    "a map": (maps, "\"p['code']\""),
    "the length of a list": (lengths, "'the length of p'"),
    "a struct in a list": (
        lambda f, v: pa.ListArray.from_arrays(np.arange(N + 1), structs(f, v)),
        "'p[0].code'",
    ),
    "a gap in a struct": (
        lambda f, v: structs(f, np.where(v == 2, None, noise(10**6))),
        "whether 'p.code' is missing",
    ),
    "an identifier in a struct": (
        lambda f, v: structs(f, [f"{'NSE'[k]}{i:05d}" for k, i in zip(v, range(N), strict=True)], "id"),
        "the first 1 character(s) of 'p.id'",
    ),
}


def searched_beside(frame: Frame, column: pa.Array, keep: float = 0.6) -> list[Finding]:
    """The search in a file with one more clear column, of any type."""
    mechanism = mechanism_of(keep)
    perturbed = [codes(a, frame, mechanism.perturb(frame, seed=1)) for a in mechanism.assignments]
    clear = pa.table({"age": pa.array(frame["age"]), "p": column})
    return search(clear, perturbed, np.arange(N), N)


@pytest.mark.parametrize("what", NESTED)
def test_nested_columns_are_searched_part_by_part(what: str, rng: np.random.Generator) -> None:
    frame = people(rng)
    make, named = NESTED[what]
    assert named in errors(searched_beside(frame, make(frame, by_level(frame, [0, 1, 2]).to_numpy())))
    assert not errors(searched_beside(frame, make(frame, rng.integers(0, 3, N))))


def test_what_is_too_deep_or_too_wide_to_search_is_warned_of(rng: np.random.Generator) -> None:
    frame = people(rng)
    wide = pa.array([{f"f{k}": k for k in range(40)}] * N)
    deep = pa.array([{"a": {"b": {"c": {"d": {"e": 1}}}}}] * N)
    long = pa.array([list(range(9))] * N)
    for column in (wide, deep, long):
        said = [f.message for f in searched_beside(frame, column) if f.severity == "warning"]
        assert any("'p' holds more than is searched" in message for message in said)


# --- far places ---


def random_text(length: int, alphabet: str = "abcdefgh") -> list[str]:
    drawn = np.random.default_rng(length).choice(list(alphabet), (N, length))
    return ["".join(row) for row in drawn]


def with_letter(place: int, length: int, hidden: Any) -> list[str]:
    return [t[:place] + "abc"[v] + t[place + 1 :] for t, v in zip(random_text(length), hidden, strict=True)]


FAR: dict[str, tuple[Callable[[Any], Any], str]] = {
    "character 21": (lambda v: with_letter(20, 30, v), "character 21 of 'p'"),
    "character 60": (lambda v: with_letter(59, 90, v), "character 60 of 'p'"),
    "character 60 from the end": (lambda v: with_letter(140, 200, v), "character 60 from the end of 'p'"),
    "a varying length": (
        lambda v: [t[: 5 + k % 9] + "xyz"[h] + t[:4] for k, (t, h) in enumerate(zip(random_text(20), v, strict=True))],
        "character 5 from the end of 'p'",
    ),
    "part 5": (
        lambda v: [
            "-".join((*(t[3 * k : 3 * k + 3 + i % 3] for k in range(4)), "abc"[h], t[: 5 + i % 4]))
            for i, (t, h) in enumerate(zip(random_text(20), v, strict=True))
        ],
        "part 5 of 'p'",
    ),
    "the sixth decimal": (
        lambda v: pa.array([Decimal(f"{x / 1e5:.5f}{h}") for x, h in zip(noise(10**8), v, strict=True)]),
        "decimal 1 from the right of 'p'",
    ),
    "the thirteenth decimal": (
        lambda v: [float(f"{x:.12f}{137 // 10 ** (2 - h) % 10}") for x, h in zip(noise(10**6) / 1e6, v, strict=True)],
        "decimal 1 from the right of 'p'",
    ),
    "the last bits": (
        lambda v: ((np.random.default_rng(9).random(N) + 1).view(np.int64) // 4 * 4 + v).view(float),
        "the last bits of 'p'",
    ),
    "nanoseconds": (
        lambda v: pa.array(16 * 10**17 + noise(10**12) * 10 + v, pa.timestamp("ns")),
        "decimal 9 of the seconds of 'p'",
    ),
    "nanoseconds of a day": (
        lambda v: pa.array(noise(8 * 10**12) * 10 + v, pa.time64("ns")),
        "decimal 9 of the seconds of 'p'",
    ),
    "milliseconds": (
        lambda v: pa.array(16 * 10**11 + noise(10**9) * 10 + v, pa.timestamp("ms", "UTC")),
        "decimal 3 of the seconds of 'p'",
    ),
    "the last digit of repeated numbers": (lambda v: noise(200) * 10 + v, "'p'"),
}


@pytest.mark.parametrize("what", FAR)
def test_every_place_is_searched(what: str, rng: np.random.Generator) -> None:
    frame = people(rng)
    make, named = FAR[what]
    hidden = by_level(frame, [0, 1, 2]).to_numpy()
    assert named in errors(searched_beside(frame, pa.array(make(hidden))))
    assert not errors(searched_beside(frame, pa.array(make(rng.integers(0, 3, N)))))


# --- spelling ---


def spelled_by(first: str, second: str) -> Callable[[Frame, Any], list[str]]:
    return lambda frame, hidden: [
        second.format(a) if h else first.format(a) for a, h in zip(frame["age"], hidden, strict=True)
    ]


SPELLED: dict[str, tuple[Callable[[Frame, Any], list[str]], str]] = {
    "quotation marks": (spelled_by("t{}", '"t{}"'), "the quotation marks of 'p'"),
    "quoted numbers": (spelled_by("{}", '"{}"'), "the quotation marks of 'p'"),
    "34.0": (spelled_by("{}", "{}.0"), "the decimals of 'p'"),
    "34.5 and 34.50": (spelled_by("{}.5", "{}.50"), "the decimals of 'p'"),
    "leading zeros": (spelled_by("{}", "0{}"), "leading zeros of 'p'"),
    "a plus sign": (spelled_by("{}", "+{}"), "the plus sign of 'p'"),
    "a blank after": (spelled_by("t{}", "t{} "), "odd blanks of 'p'"),
    "a blank that does not break": (spelled_by("a {}", "a\u00a0{}"), "'p'"),
    "composed letters": (spelled_by("\u00e9{}", "e\u0301{}"), "'p'"),
    "the form of a date": (spelled_by("20{}-01-05", "20{}-01-05T00:00:00"), "the form of the date of 'p'"),
    "an exponent": (spelled_by("{}e3", "{}E3"), "the exponent of 'p'"),
    "marks of missing values": (spelled_by("", "NA"), "the mark of missing values of 'p'"),
}


@pytest.mark.parametrize("what", SPELLED)
def test_how_a_csv_file_writes_its_values_is_searched(what: str, tmp_path: Path, rng: np.random.Generator) -> None:
    make, named = SPELLED[what]
    frame = people(rng)
    assert named in errors(audited_csv(frame, make(frame, frame["edu"] == "high"), tmp_path))
    assert not errors(audited_csv(frame, make(frame, rng.random(N) < 0.2), tmp_path / "clean"))


def audited_csv(frame: Frame, fields: list[str], folder: Path) -> list[Finding]:
    """Findings about a release of a CSV file with one more column, written as given."""
    (folder / "public").mkdir(parents=True)
    rows = zip(frame["edu"], frame["region"], fields, strict=True)
    (folder / "raw.csv").write_text("edu,region,p\n" + "".join(",".join(row) + "\n" for row in rows), encoding="utf-8")
    made = pr.release(folder / "raw.csv", folder / "public" / "file.csv", mechanism_of(0.6))
    return list(pr.audit(made.path, original=folder / "raw.csv").findings)


def test_one_format_throughout_is_no_spelling() -> None:
    """Two decimals everywhere, no more than needed, as Python writes them, five digits, marks where they are needed."""
    for fields in (
        ["1.50", "2.00", "3.25"],
        ["1.5", "2", "3.25"],
        ["1.5", "2.0", "3.25"],
        ["007", "123", "040"],
        ['"a,b"', "c", '"d ""e"""'],
        ["2024-01-05", "2024-11-30"],
    ):
        assert whole([aspects_of(pa.array(fields), ",", '"')]) == {}


def test_null_and_nan_and_the_sign_of_zero_are_told_apart(rng: np.random.Generator) -> None:
    frame = people(rng)
    one = (frame["edu"] == "high").to_numpy()
    gaps = pa.array([None if high else np.nan for high in one])
    assert "null or NaN of 'p'" in errors(searched_beside(frame, gaps))
    assert "the sign of zero of 'p'" in errors(searched_beside(frame, pa.array(np.where(one, -0.0, 0.0))))
    inside = pa.array([{"a": -0.0 if high else 0.0} for high in one])
    assert "the sign of zero of 'p.a'" in errors(searched_beside(frame, inside))


@pytest.mark.parametrize("n", [200, 500])
def test_small_files_are_searched_too(n: int, rng: np.random.Generator) -> None:
    frame = people(rng, n)
    assert "the order of the rows" in errors(searched(frame.sort_values("edu", ignore_index=True), mechanism_of(0.5)))
    assert "'copy' tells 'edu'" in errors(searched(frame.assign(copy=frame["edu"]), mechanism_of(0.5)))


# --- clean releases ---


def varied(seed: int) -> tuple[Frame, pr.Mechanism]:
    """A file of its own kind for every seed, with nothing but correlation in it."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([200, 400, 900, 2000, 5000]))
    latent = rng.normal(size=n)
    levels = [str(k) for k in range(int(rng.choice([2, 3, 5, 8])))]
    cuts = np.quantile(latent + rng.normal(size=n), np.linspace(0, 1, len(levels) + 1)[1:-1] ** rng.uniform(0.6, 1.6))
    truth = np.searchsorted(cuts, latent)
    frame = pd.DataFrame({"z": np.array(levels)[truth]})
    frame["age"] = (45 + 9 * latent + 12 * rng.normal(size=n)).round().astype(int)
    frame["income"] = np.exp(10 + 0.4 * latent + 0.4 * rng.normal(size=n)).round(2)
    frame["wage"] = np.exp(10 + 0.4 * latent + 0.4 * rng.normal(size=n)).round().astype(int)
    frame["sex"] = rng.choice(["f", "m"], n)
    frame["job"] = [
        f"{g:02d}{k}"
        for g, k in zip((latent * 4 + rng.normal(size=n) * 4 + 30).astype(int), rng.integers(0, 4, n), strict=True)
    ]
    born = pd.Timestamp("1990-01-01") - pd.to_timedelta((frame["age"] - 30) * 365 + rng.integers(0, 365, n), "D")
    frame["born"] = born.dt.date if seed % 2 else born
    frame["seen"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**7, n), "s")
    numbers = rng.permutation(n)
    frame["id"] = [
        numbers,
        text(numbers, "P-{:06d}"),
        rng.choice(10**7, n, replace=False),
        text(rng.integers(0, 2**60, n), "{:x}"),
    ][seed % 4]
    for name in ("income", "job") if seed % 3 else ("wage",):
        gaps = rng.random(n) < 1 / (1 + np.exp(2 - 0.5 * (frame["age"] - 45) / 15))
        frame[name] = frame[name].where(~gaps)
    if seed % 5 == 0:
        frame = frame.sort_values(["age", "income"] if seed % 2 else ["income"], ignore_index=True)
    if seed % 5 == 1 and seed % 7 < 5:
        frame = frame.sort_values(["sex", "born"], ignore_index=True)
    if seed % 5 == 2:
        frame = frame.sort_values("id", ignore_index=True)
    keep = float(rng.choice([0.25, 0.5, 0.8])) + 1 / len(levels) * 0.75 * (1 - 0.25)
    matrix = pr.TransitionMatrix.randomized_response(levels, min(keep, 0.95))
    if seed % 7 == 3:
        other = pr.TransitionMatrix.randomized_response(levels, 0.9)
        return frame, pr.Mechanism({"z": pr.Stratified("sex", {"f": matrix, "m": other})})
    if seed % 7 == 5:
        joint = pr.TransitionMatrix.randomized_response([(s, v) for s in "fm" for v in levels], 0.6)
        return frame, pr.Mechanism({("sex", "z"): joint})
    if seed % 7 == 6:
        frame.loc[rng.random(n) < 0.1, "z"] = None
        return frame, pr.Mechanism({"z": matrix, "sex": pr.TransitionMatrix.randomized_response(["f", "m"], 0.8)})
    return frame, pr.Mechanism({"z": matrix})


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.verify) for k in (10, 20, 30, 40))])
def test_clean_releases_pass(first: int) -> None:
    for seed in range(first, first + 10):
        frame, mechanism = varied(seed)
        found = searched(frame, mechanism, seed)
        assert not errors(found), (seed, errors(found))


def test_correlation_is_warned_of_and_does_not_fail(rng: np.random.Generator) -> None:
    """Education at keep 0.7, and six answers that each agree with it in part."""
    frame = people(rng)
    for k in range(6):
        frame[f"answer{k}"] = np.where(rng.random(N) < 0.5, frame["edu"], rng.choice(EDU, N))
    found = searched(frame, mechanism_of())
    assert not errors(found)
    said = next(f for f in found if f.check == "recovery")
    assert said.severity == "warning"
    alone, more = (float(share) for share in re.findall(r"(\d+\.\d)%", said.message))
    assert alone == pytest.approx(70, abs=2)
    assert 85 < more < 95
    assert "epsilon does not bound it" in said.message


def test_rows_of_a_unit_that_share_one_draw_tell_nothing_more(rng: np.random.Generator) -> None:
    person = np.repeat(rng.permutation(400), 8)
    frame = pd.DataFrame({"edu": np.array(EDU)[rng.integers(0, 3, 400)][person], "person": person})
    mechanism = mechanism_of(0.6).with_unit("person")
    assert not errors(searched(frame, mechanism))


def test_two_draws_of_one_secret_are_warned_of(rng: np.random.Generator) -> None:
    """They recover hardly more than one, yet epsilons add."""
    person = np.repeat(rng.permutation(1500), 2)
    frame = pd.DataFrame({"edu": np.array(EDU)[rng.integers(0, 3, 1500)][person], "person": person})
    found = searched(frame.sample(frac=1, random_state=1, ignore_index=True), mechanism_of(0.6))
    said = [f for f in found if f.severity == "warning"]
    assert len(said) == 1
    assert "rows with equal 'person' (2.0 on average)" in said[0].message
    assert not errors(found)


def test_what_is_an_identifier(rng: np.random.Generator) -> None:
    def of(values: Any) -> ClearColumn:
        return ClearColumn.of("x", pa.chunked_array([pa.array(values)]))

    serial, amount, cents = (
        of(rng.permutation(N)),
        of(rng.choice(10**7, N, replace=False)),
        of(rng.lognormal(9, 1, N).round(2)),
    )
    assert serial.identifier
    assert not serial.measured
    assert amount.identifier
    assert amount.measured
    assert not cents.identifier
    assert cents.measured
    assert of(text(range(N), "p{}")).identifier
    assert not of(rng.choice(["a", "b"], N)).identifier
    assert not of(np.datetime64("2024-01-01") + np.arange(N)).identifier


def test_more_levels_than_groups_are_searched(rng: np.random.Generator) -> None:
    levels = list(range(3000))
    frame = pd.DataFrame({"place": rng.integers(0, 3000, 6000), "x": rng.normal(size=6000)})
    mechanism = pr.Mechanism({"place": pr.TransitionMatrix.randomized_response(levels, 0.5, kind="nominal")})
    assert not errors(searched(frame, mechanism))
    assert "the order of the rows" in errors(searched(frame.sort_values("place", ignore_index=True), mechanism))
    assert "'twin'" in errors(searched(frame.assign(twin=frame["place"] + 7), mechanism))


def ages(rng: np.random.Generator, n: int = 8000) -> tuple[Frame, pr.Mechanism]:
    """Months of age, which only move to their neighbours, and content that follows them loosely."""
    age = rng.integers(0, 400, n)
    frame = pd.DataFrame(
        {"age": age, "income": (12 * age + rng.normal(0, 900, n)).round(2), "x": rng.integers(0, 5, n)}
    )
    return frame, pr.Mechanism({"age": pr.designs.band(list(range(400)), 0.7)})


def numbered(frame: Frame, name: str, step: int, rng: np.random.Generator) -> list[str]:
    """Identifiers that begin with the last digit of the true number, in its steps."""
    digits = (frame[name] // step).astype(int) % 10
    return [f"{digit}{k:05d}" for digit, k in zip(digits, rng.permutation(len(frame)), strict=True)]


@pytest.mark.parametrize("what", ["id", "gap"])
def test_what_tells_a_level_from_the_next_is_found_among_many(what: str, rng: np.random.Generator) -> None:
    """The last digit of an age says nothing of groups of ages, and with the released age nearly everything."""
    frame, mechanism = ages(rng)
    telling = {"id": numbered(frame, "age", 1, rng), "gap": np.where(frame["age"] % 2, np.nan, 1.5)}
    said = errors(searched(frame.assign(**{what: telling[what]}), mechanism))
    assert "tells 'age' (in a stretch of 32 levels, which" in said
    assert f"'{what}'" in said


@pytest.mark.parametrize("seed", range(6))
def test_many_levels_with_nothing_telling_pass(seed: int) -> None:
    frame, mechanism = ages(np.random.default_rng(seed))
    found = searched(frame, mechanism, seed)
    assert not errors(found)
    assert "of the true 'age' (its levels in 32 groups) are recovered" in " ".join(f.message for f in found)


def test_what_tells_a_noisy_number_from_the_next_is_found(rng: np.random.Generator, tmp_path: Path) -> None:
    pay = pd.DataFrame({"pay": rng.integers(0, 400, 8000) * 100, "x": rng.normal(size=8000)})
    mechanism = pr.Mechanism({"pay": pr.LaplaceNoise(60, bounds=(0, 40_000))})
    (tmp_path / "public").mkdir()
    for name, frame in (("clean", pay), ("telling", pay.assign(id=numbered(pay, "pay", 100, rng)))):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        made = pr.release(tmp_path / f"{name}.csv", tmp_path / "public" / f"{name}.csv", mechanism)
        assert pr.audit(made.path, original=tmp_path / f"{name}.csv").clean == (name == "clean")

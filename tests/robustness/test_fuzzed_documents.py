"""Documents changed at random: every mutated file gets a clear error or a right answer, soon, and never another exception.

A new kind of document is a line in `KINDS`: how to write an unharmed one, how a file is changed, and which public calls read it.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import pramana as pr
from pramana.disclosure.release.ledger import read_ledger
from soon import soon

EDU = ("low", "mid", "high")
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 0.5, -0.5, 1.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), 2**31, 2**63, 2**64 - 1,
    2**64, -(2**63) - 1, 10**30, 10**400, "", " ", "edu", "low", "auto", "1", "9.0", "1.1", "²", "1.²", "١", "\ud800", "a\ud800b",
    "\x00", "\x1b[2J", "\u202e", "\ue000", "é", "NaN", "x" * 5000, [], {}, [[]], [{}], {"a": {}}, ["low"], ["a", "a"],
    [1, "a", None], [0.5] * 9, list(range(300)), "../o.csv", "mixture", "rows", "stratified", "data",
)  # fmt: skip


def deep(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = [made]
    return made


# ---- How a file is changed. Each returns the new bytes, and whether it must still mean the same. ----


def spots(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to every value of a JSON document."""
    if path:
        yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, inner in items:
        yield from spots(inner, (*path, key))


def structural(document: Any, chance: random.Random) -> bytes:
    """One to three changes of a JSON document's structure, written as text that may not be JSON any more."""
    document = copy.deepcopy(document)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        found = list(spots(document))
        if not found:
            break
        path = chance.choice(found)
        holder = document
        for part in path[:-1]:
            holder = holder[part]
        _change(holder, path[-1], chance)
    text = json.dumps(document, indent=chance.choice((None, 2)))
    if chance.random() < 0.05:  # a key twice
        key = chance.choice(re.findall(r'"[a-z0-9]+": ', text) or ['"a": '])
        text = text.replace(key, f"{key}1, {key}", 1)
    if chance.random() < 0.04:
        text = text.replace(chance.choice(re.findall(r"\d+", text) or ["0"]), "7" * 5000, 1)
    if chance.random() < 0.03:
        text = text.replace(": ", ": " + "[" * 3000 + "]" * 3000 + ", ", 1)
    return text.encode("utf-8", "surrogatepass")


def _change(holder: Any, key: Any, chance: random.Random) -> None:
    what = chance.choice(("odd", "odd", "odd", "delete", "rename", "wrap", "twice", "near", "swap", "deep"))
    value = holder[key]
    if what == "odd":
        holder[key] = copy.deepcopy(chance.choice(ODD))
    elif what == "delete":
        del holder[key]
    elif what == "rename" and isinstance(holder, dict):
        holder[chance.choice(("x", "pram", "levels", "", f"{key}s"))] = holder.pop(key)
    elif what == "wrap":
        holder[key] = [value] if chance.random() < 0.5 else {str(key): value}
    elif what == "twice" and isinstance(holder, list):
        holder.insert(0, copy.deepcopy(value))
    elif what == "near" and isinstance(value, int | float) and abs(value) < 2**64:
        holder[key] = value + chance.choice((-1, 1, 1e-3, -1e-12))
    elif what == "near" and isinstance(value, str):
        holder[key] = value[:-1] + chance.choice("aZ0é\x1b")
    elif what == "swap" and isinstance(holder, list):
        chance.shuffle(holder)
    elif what == "deep":
        holder[key] = deep(chance.choice((30, 60, 300)))


def raw(content: bytes, chance: random.Random) -> bytes:
    """One change of the bytes."""
    at = chance.randrange(len(content) + 1)
    end = min(len(content), at + chance.choice((1, 1, 2, 8, 100)))
    some = bytes(chance.randrange(256) for _ in range(chance.choice((1, 1, 4))))
    return chance.choice(
        (
            lambda: content[:at] + some + content[at:],
            lambda: content[:at] + some + content[end:],
            lambda: content[:at] + content[end:],
            lambda: content[:at],
            lambda: content[at:],
            lambda: content[:at] + content[at:end] * 3 + content[end:],
            lambda: content[:at] + b"\0" * 3 + content[at:],
            lambda: content.decode("utf-8", "replace").encode("utf-16"),
            lambda: b"\xff\xfe" + content,
            lambda: content[:at] + "é".encode("latin-1") + content[at:],
            lambda: bytes(chance.randrange(256) for _ in range(200)),
            lambda: b"",
        )
    )()


def harmless(document: Any, chance: random.Random) -> bytes:
    """The same document written otherwise: order of keys, blanks, a mark of UTF-8, fields that nobody knows, a newer minor version."""

    def reordered(value: Any) -> Any:
        if isinstance(value, dict):
            keys = chance.sample(list(value), len(value))
            return {k: reordered(value[k]) for k in keys}
        return [reordered(v) for v in value] if isinstance(value, list) else value

    document = reordered(copy.deepcopy(document))
    (document if isinstance(document, dict) else {})["not-known"] = chance.choice((None, 1, "é", {"a": [1]}))
    text = json.dumps(document, indent=chance.choice((None, 1, 4)), ensure_ascii=chance.random() < 0.5)
    return chance.choice((b"", b"\xef\xbb\xbf", b"\n ")) + text.encode() + chance.choice((b"", b"\n\n", b" \r\n"))


LINES = (
    "a", "=", "[", "]]", "[columns.edu]", "[[linked]]", "[columns.edu.keep]", "version = 2", "version = true", "version = '²'", "keep = nan",
    "keep = inf", "keep = 1e400", "keep = -0.5", "keep = 9223372036854775808", "keep = 0x" + "f" * 5000, "keep = " + "9" * 5000,
    "epsilon = 0", "epsilon = 1e-300", "epsilon = 1e300", "levels = 5", "levels = []", "levels = ['a']", "levels = [1, 'a']", "levels = [[1], [2]]",
    "levels = [1979-05-27, 1979-05-28]", "levels = [" + "'x'," * 2000 + "]", "kind = 'x'", "kind = 1", "band = 10000000000", "band = -1",
    "blocks = [[]]", "blocks = [1]", "blocks = [['low'], ['low']]", "fixed = ['none']", "fixed = [[1]]", "by = 'region'", "by = 3", "frequencies = 'data'",
    "frequencies = [0.5]", "frequencies = {low = 1}", "keep = {low = 0.9}", "keep = [0.9, 0.9, 'a']", "keep = [0.9, 0.9, 0.9]", "invariant = 1",
    "invariant = true", "construction = 'best'", "construction = 'nothing'", "conditional = 'x'", 'x = "\\ud800"', "x = '\x1b'", "a" + ".a" * 3000 + " = 1",
    "a = " + "[" * 5000, "strata = [1]", "strata = [{}]", "strata = [{value = 'north'}]", "strata = [{value = 'north', keep = 0.9}]", "columns = 1",
    "linked = 1", "linked = [1]", "x = 07:32:00", "x = {a = 1, a = 2}", "columns = ['edu', 3]", "keep = true", "epsilon = 'a'", "\0", "é = 1",
)  # fmt: skip


def by_line(content: bytes, chance: random.Random, odd: Sequence[str] = LINES) -> bytes:
    """One to three changes of whole lines of a TOML file."""
    lines = content.decode().split("\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines))
        what = chance.choice(("insert", "insert", "replace", "delete", "twice", "shuffle", "value", "value"))
        if what == "insert":
            lines.insert(at, chance.choice(odd))
        elif what == "replace":
            lines[at] = chance.choice(odd)
        elif what == "delete" and len(lines) > 1:
            del lines[at]
        elif what == "twice":
            lines.insert(at, lines[at])
        elif what == "shuffle":
            chance.shuffle(lines)
        elif what == "value" and "=" in lines[at]:
            value = json.dumps(chance.choice(ODD), ensure_ascii=chance.random() < 0.5)
            lines[at] = f"{lines[at].split('=')[0]}= {value}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


# ---- What is read. Each kind writes one changed file after another, and says how to read it and what is right. ----

Right = Callable[[Any], bool]


@dataclass(frozen=True)
class Case:
    """A changed file: the call that reads it, which answers are right, and whether an error would be wrong."""

    read: Callable[[], Any]
    right: Right
    harmless: bool = False


def changed(base: Any, chance: random.Random) -> tuple[bytes, bool]:
    """A JSON document, changed; True where it still means the same."""
    draw = chance.random()
    if draw < 0.1:
        return harmless(base, chance), True
    if draw < 0.3:
        return raw(json.dumps(base, ensure_ascii=False, indent=1).encode(), chance), False
    return structural(base, chance), False


def keep(value: float, levels: Any = EDU, **options: Any) -> pr.TransitionMatrix:
    return pr.TransitionMatrix.randomized_response(levels, value, **options)


def survey(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"edu": rng.choice(EDU, rows), "age": rng.integers(20, 60, rows), "sex": rng.integers(0, 2, rows)}
    )
    return frame.assign(income=rng.normal(size=rows).round(3), id=range(rows))


MECHANISMS = (
    pr.Mechanism({"edu": keep(0.8)}),
    pr.Mechanism({"edu": keep(0.8), "sex": pr.TransitionMatrix.binary(0.9, 0.7)}),
    pr.Mechanism({"edu": pr.Stratified("region", {"north": keep(0.9), "south": keep(0.7)})}),
    pr.Mechanism({("edu", "sex"): keep(0.6, [("low", 0), ("low", 1), ("mid", 0), ("high", 1)])}),
    pr.Mechanism({"age": pr.designs.band(list(range(1, 8)), 0.8), "old": keep(0.9, [False, True])}),
    pr.Mechanism({"edu": pr.TransitionMatrix.invariant(EDU, [0.5, 0.3, 0.2], 0.7, conditional=True)}),
    pr.Mechanism({"age": pr.LaplaceNoise(3, bounds=(20, 60)), "income": pr.GaussianNoise(0.5)}),
    pr.Mechanism({"age": pr.Stratified("region", {"north": pr.GeometricNoise(2), "south": pr.GeometricNoise(3)})}),
    pr.Mechanism({"age": pr.KeepOrNoise(0.5, pr.GeometricNoise(3, bounds=(20, 60)))}, unit="id"),
    pr.Mechanism({("age", "income"): pr.JointGaussianNoise([[4.0, 0.5], [0.5, 1.0]])}),
    pr.Mechanism({"edu": pr.UnaryEncoding(EDU, 0.7, 0.2)}),
    pr.Mechanism({"edu": pr.SubsetSelection(EDU, 1.0)}),
    pr.Mechanism({"edu": pr.LocalHashing(EDU, 1.0)}),
    pr.Mechanism({"edu": pr.HadamardResponse(EDU, 1.0)}),
    pr.Mechanism(
        {
            "edu": pr.RectangularMatrix(
                EDU, [[0.7, 0.1, 0.1], [0.1, 0.7, 0.1], [0.1, 0.1, 0.7], [0.1] * 3], released=(*EDU, "?")
            )
        }
    ),
    pr.Mechanism(
        {"sex": pr.TransitionMatrix.from_published(sensitivity=(0.94, (0.90, 0.97)), specificity=(0.97, 350))}
    ),
    pr.Mechanism({"sex": pr.designs.cheating_detection("region", yes={"north": 0.25, "south": 0.75})}),
)


FRAME = survey().assign(region=np.resize(["north", "south"], 60), old=np.resize([True, False], 60))


def kept(answer: pr.Mechanism, folder: Path) -> bool:
    """A mechanism that can be shown, saved and read again."""
    answer.save(folder / "again.json")
    return pr.Mechanism.load(folder / "again.json") == answer and not re.search(
        "[\x00-\x1f\x7f-\x9f\u202e]", repr(answer)
    )


def loaded(path: Path) -> pr.Mechanism:
    """Read, and used as analysts and custodians use it; what does not fit the data is refused there."""
    mechanism = pr.Mechanism.load(path)
    data = FRAME.assign(**{name: FRAME["edu"] for name in mechanism.columns if name not in FRAME})
    shown = outcome(lambda: pr.fit(pr.proportions(mechanism.columns[0]), data, mechanism))
    drawn = outcome(lambda: mechanism.perturb(data, seed=1))
    assert is_clear(shown)
    assert is_clear(drawn)
    return mechanism


def outcome(call: Callable[[], Any]) -> Any:
    """The answer, or the error of ours in its place; any other exception is a fault."""
    try:
        return call()
    except pr.PramanaError as error:
        return error


def is_clear(answer: Any) -> bool:
    """No error, or words of our own: on confidential data another library's exception is hidden in an error of ours."""
    refused = isinstance(answer, pr.PramanaError)
    return not refused or (bool(str(answer).strip()) and "its text is withheld" not in str(answer))


def mechanism_files(folder: Path, chance: random.Random) -> Iterator[Case]:
    path = folder / "m.json"
    while True:
        base = chance.choice(MECHANISMS)
        content, same = changed(base.document(), chance)
        path.write_bytes(content)
        yield Case(
            lambda: loaded(path),
            (lambda answer, base=base: answer == base) if same else lambda answer: kept(answer, folder),
            same,
        )


def released(folder: Path, ending: str) -> Path:
    frame = survey()
    source, target = folder / f"in.{ending}", folder / f"o.{ending}"
    frame.to_csv(source, index=False) if ending == "csv" else frame.to_parquet(source, index=False)
    pr.release(
        source, target, MECHANISMS[1], key=bytes(range(32)), id="id", ledger=folder / "ledger.jsonl", dataset="s"
    )
    return target


def shares(path: Path, verify: bool = True) -> Any:
    return pr.fit(pr.proportions("edu"), path, "auto", verify=verify).estimate


def packages(folder: Path, chance: random.Random) -> Iterator[Case]:
    data, package = released(folder, "csv"), folder / "datapackage.json"
    base, truth = json.loads(package.read_text()), shares(data)
    while True:
        content, same = changed(base, chance)
        package.write_bytes(content)
        if same:
            yield Case(lambda: shares(data), lambda answer: np.array_equal(answer, truth), True)
        elif chance.random() < 0.3:
            yield Case(lambda: pr.audit(data), lambda answer: bool(answer.findings))
        else:
            yield Case(lambda: shares(data), lambda answer: abs(answer.sum() - 1) < 1e-9)


def parquet_files(folder: Path, chance: random.Random) -> Iterator[Case]:
    path = released(folder, "parquet")
    package = (folder / "datapackage.json").read_bytes()
    content, table, truth = path.read_bytes(), parquet.read_table(path), shares(path)
    inside = json.loads(table.schema.metadata[b"pram"])
    footer = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    while True:
        (folder / "datapackage.json").write_bytes(package)
        what = chance.choice(
            ("metadata", "metadata", "metadata", "alone", "footer", "footer", "anywhere", "name", "table")
        )
        if what == "footer":
            path.write_bytes(content[:footer] + raw(content[footer:], chance))
        elif what == "anywhere":
            path.write_bytes(raw(content, chance))
        elif what == "name":  # in Latin-1
            path.write_bytes(
                content[:footer] + content[footer:].replace(b"income", b"incom\xe9", chance.choice((1, 2, -1)))
            )
        elif what == "table":
            parquet.write_table(_altered(table, chance), path)
        else:
            metadata = _metadata(inside, chance)
            parquet.write_table(table.replace_schema_metadata(metadata), path)
            if what == "alone":
                (folder / "datapackage.json").unlink()
        verify = chance.random() < 0.5
        if chance.random() < 0.2:
            yield Case(lambda: pr.audit(path), lambda answer: bool(answer.findings))
        else:
            free = what == "alone" or (what == "anywhere" and not verify)
            yield Case(
                lambda verify=verify: shares(path, verify),
                lambda answer, free=free: free or np.array_equal(answer, truth),
            )


def _metadata(inside: Any, chance: random.Random) -> dict[bytes, bytes]:
    content, _ = changed(inside, chance)
    more = {b"\xff\xfe": b"\xff", b"pandas": b"{", b"ARROW:schema": b"x"} if chance.random() < 0.2 else {}
    return {b"pram": content, **more}


def _altered(table: pa.Table, chance: random.Random) -> pa.Table:
    """Another table under the same metadata."""
    names = chance.sample(table.column_names, 5)
    return chance.choice(
        (
            lambda: table.slice(1),
            lambda: pa.concat_tables([table, table.slice(0, 1)]),
            lambda: table.rename_columns(["edu", "age", "sex", "wage", "id"]),
            lambda: table.select([*names[1:], names[0]] if names == table.column_names else names),
            lambda: table.drop_columns(["age"]),
            lambda: table.append_column("more", table["age"]),
            lambda: table.set_column(1, "age", table["age"].cast(pa.string())),
            lambda: table.slice(0, 0),
        )
    )()


DESIGNS = (
    '[columns.edu]\nlevels = ["low", "mid", "high"]\nkeep = 0.8\n',
    'version = 1\n[columns.edu]\nlevels = ["low", "mid", "high"]\nepsilon = 2.0\ninvariant = true\nfrequencies = [0.5, 0.3, 0.2]\n'
    "[columns.sex]\nlevels = [0, 1]\nkeep = 0.9\n",
    '[columns.edu]\nlevels = ["low", "mid", "high"]\nkeep = 0.8\nkind = "ordinal"\nband = 1\n',
    '[columns.edu]\nkeep = 0.8\nlevels = ["low", "mid", "high"]\nby = "sex"\n[[columns.edu.strata]]\nvalue = 0\nkeep = 0.9\n'
    "[[columns.edu.strata]]\nvalue = 1\nkeep = 0.7\n",
    '[[linked]]\ncolumns = ["edu", "sex"]\nlevels = [["low", 0], ["mid", 1], ["high", 1]]\nkeep = 0.8\n',
    '[columns.edu]\nlevels = ["low", "mid", "high"]\nkeep = {low = 0.9, mid = 0.8, high = 0.7}\nfixed = ["low"]\n',
    '[columns.edu]\nkeep = 0.8\ninvariant = true\nfrequencies = "data"\n',
)


def design_files(folder: Path, chance: random.Random) -> Iterator[Case]:
    path, data = folder / "d.toml", survey()
    mechanisms = []
    for text in DESIGNS:
        path.write_text(text)
        mechanisms.append(pr.read_design(path, data))
    while True:
        place = chance.randrange(len(DESIGNS))
        text, base = DESIGNS[place].encode(), mechanisms[place]
        draw = chance.random()
        if draw < 0.1:
            path.write_bytes(
                b"\xef\xbb\xbf# a word\n\n" + text.replace(b"\n", b"  # more\n").replace(b" = ", b"  =   ")
            )
            yield Case(lambda: pr.read_design(path, data), lambda answer, base=base: answer == base, True)
            continue
        path.write_bytes(raw(text, chance) if draw < 0.3 else by_line(text, chance))
        given = data if chance.random() < 0.7 else None
        yield Case(lambda given=given: pr.read_design(path, given), lambda answer: kept_or_dated(answer, folder))


def kept_or_dated(answer: pr.Mechanism, folder: Path) -> bool:
    """Dates can be levels of a design, though not of a description."""
    try:
        return kept(answer, folder)
    except pr.MechanismError as error:
        return "levels must be text, numbers or true and false" in str(error)


POLICY = """version = 1
name = "Statistics Office"
forbid = ["identity", "seed", "second-draw", "infinite-epsilon"]
require = ["ledger", "dataset", "card"]
[budget]
dataset = 6.0
unit = 8.0
disjoint = [["survey 2025", "survey 2026"]]
[limits]
column = 3.0
keep = 0.9
merge_below = 5
[columns]
drop = ["name"]
perturb = ["income"]
[audit]
original = true
"""
RULES = (
    "name = 1", "forbid = 'seed'", "forbid = [['seed']]", "require = {}", "formats = ['xlsx']", "budget = 1", "dataset = -1", "unit = nan", "unit = true",
    "disjoint = [[]]", "disjoint = [['a'], ['a']]", "keep = 2", "merge_below = 1e3", "merge_below = 0", "column = 0x" + "f" * 5000, "[budget.datasets]",
    "datasets = {a = 1}", "publish = [1]", "drop = ['a', 'a']", "[rules]", "[[limits]]", *LINES[:17],
)  # fmt: skip


def policies(folder: Path, chance: random.Random) -> Iterator[Case]:
    path = folder / "policy.toml"
    path.write_text(POLICY)
    base = pr.Policy.load(path)
    while True:
        draw = chance.random()
        if draw < 0.1:
            path.write_bytes(b"\xef\xbb\xbf# a word\n" + POLICY.replace("\n", "  # more\n").encode())
            yield Case(lambda: pr.Policy.load(path), lambda answer: replace(answer, digest=base.digest) == base, True)
            continue
        content = POLICY.encode()
        path.write_bytes(raw(content, chance) if draw < 0.3 else by_line(content, chance, RULES))
        yield Case(lambda: pr.Policy.load(path), lambda answer: isinstance(answer, pr.Policy))


def ledgers(folder: Path, chance: random.Random) -> Iterator[Case]:
    data, path = released(folder, "csv"), folder / "ledger.jsonl"
    line = json.loads(path.read_text())
    lines = [
        {**line, "released": mark * 64, "randomness": kind}
        for mark, kind in zip("abc", ("fresh", "keyed", "fresh"), strict=True)
    ]
    while True:
        texts = [json.dumps(entry).encode() for entry in lines]
        at = chance.randrange(3)
        draw = chance.random()
        same = draw < 0.1
        texts[at] = (
            harmless_line(lines[at], chance)
            if same
            else raw(texts[at], chance)
            if draw < 0.3
            else structural(lines[at], chance).replace(b"\n", b" ")
        )
        path.write_bytes(b"\n".join(texts) + chance.choice((b"\n", b"\n", b"")))
        if same or chance.random() < 0.5:
            yield Case(lambda: read_ledger(path), lambda answer: len(answer) >= 1, same)
        else:
            yield Case(lambda: pr.audit(data, ledger=path), lambda answer: bool(answer.findings))


def harmless_line(entry: dict[str, Any], chance: random.Random) -> bytes:
    keys = chance.sample(list(entry), len(entry))
    return json.dumps({k: entry[k] for k in keys}, separators=chance.choice(((",", ":"), (" , ", " : ")))).encode()


KINDS: dict[str, tuple[Callable[[Path, random.Random], Iterator[Case]], int]] = {
    "mechanism files": (mechanism_files, 900),
    "data packages": (packages, 400),
    "Parquet metadata": (parquet_files, 400),
    "design files": (design_files, 500),
    "policies": (policies, 400),
    "ledgers": (ledgers, 400),
}
"""How cases are made, and how many."""


def warm(folder: Path) -> None:
    """Imports take time of their own."""
    (folder / "warm").mkdir()
    pr.audit(released(folder / "warm", "csv"), ledger=folder / "warm" / "ledger.jsonl")
    MECHANISMS[0].save(folder / "warm" / "m.json")
    loaded(folder / "warm" / "m.json")


@pytest.mark.filterwarnings("ignore::pramana.errors.PramanaWarning")
@pytest.mark.parametrize("share", [pytest.param(1, marks=pytest.mark.verify, id="all"), pytest.param(4, id="some")])
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_document_gets_a_clear_error_or_a_right_answer(kind: str, share: int, tmp_path: Path) -> None:
    """The first quarter of them in `make test`, all in `make verify`."""
    make, count = KINDS[kind]
    count //= share
    cases, answers = make(tmp_path, random.Random(20261116)), 0
    warm(tmp_path)
    for number, case in zip(range(count), cases, strict=False):
        answer = soon(outcome, case.read)
        assert is_clear(answer), f"{kind} {number}: {answer}"
        if isinstance(answer, pr.PramanaError):
            assert not case.harmless, f"{kind} {number}: {answer}"
        else:
            answers += 1
            assert case.right(answer), f"{kind} {number}: {answer!r} is not right"
    assert 0.05 * count < answers < 0.9 * count  # neither all refused nor all let pass


def test_there_are_enough_of_them() -> None:
    assert sum(count for _, count in KINDS.values()) >= 2000

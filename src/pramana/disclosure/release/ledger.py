"""The custodian's own record of releases, never published, and what several releases add up to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from pramana.arrays import Words
from pramana.errors import PramanaError
from pramana.frames.documents import read_json_lines
from pramana.frames.folders import files_of
from pramana.frames.writing import growing, sha256, sha256_of
from pramana.mechanism import Assignment, Mechanism
from pramana.mechanism.draws.keyed import SKETCH, channel_hash

VERSION = 4
MOSTLY = 0.5
"""The share of identifiers in common from which two files are of the same people."""

Loss = Annotated[float, Field(ge=0)]
Sketch = Annotated[str, Field(pattern="^([0-9a-f]{16})*$", max_length=16 * SKETCH)]
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class ColumnRecord:
    """One channel of a release: a hash of it, its epsilon (None: infinite), and what of the data that is conditional on."""

    __pydantic_config__ = _STRICT

    channel: str
    epsilon: Loss | None
    given: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One release.

    Attributes
    ----------
    dataset : the custodian's name for the records, the same for every wave of them; None where none was given.
    source : SHA-256 of the confidential file. released : SHA-256 of the public one. Of a folder, that of the sorted digests of its files.
    key : fingerprint of the key in keyed mode, else None.
    columns : from the name of what was drawn (see `joint`) to what its channel did.
    unit : the column that says which records are one person's; None where every record is a unit.
    identifier : the column from which keyed draws were derived.
    clear : columns that were published as they are.
    allowed : what is refused without being asked for, and was (`--allow`).
    policy : SHA-256 of the policy under which the release was made.
    override : why the policy was not followed, and what it had refused.
    date : the day of the release, in UTC.
    sketch : the smallest digests of the records' identifiers under the key of keyed draws, which tell whether another
        release was of the same people, and nobody without the key who they are.
    parts : SHA-256 of each file of a confidential folder: one of them, released by itself, holds the same records.

    What follows `columns` is not in ledgers of version 1, `sketch` not in those of version 2, which joined the names of
    columns perturbed together by " × ", and `parts` not in those of version 3.
    """

    __pydantic_config__ = _STRICT

    dataset: str | None
    source: str
    released: str
    target: str
    rows: Annotated[int, Field(ge=0)]
    randomness: str
    key: str | None
    epsilon: Loss | None
    columns: dict[str, ColumnRecord]
    version: int = 1
    unit: str | None = None
    identifier: str | None = None
    clear: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    policy: str | None = None
    override: str | None = None
    overridden: tuple[str, ...] = ()
    date: str | None = None
    sketch: Sketch | None = None
    parts: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Every digest by which the confidential records are known."""
        return (self.source, *self.parts)

    @property
    def name(self) -> str:
        """The records, for a table."""
        return self.dataset if self.dataset is not None else f"file {self.source[:12]}"


_ENTRY = TypeAdapter(Entry)
_JOINT = TypeAdapter(Annotated[list[Annotated[str, Field(strict=True)]], Field(min_length=1)])


def joint(columns: Sequence[str]) -> str:
    """The name of what is drawn at once, which no other columns have: that of the column, or a JSON list of them.

    >>> joint(["edu"]), joint(["edu", "sex"]), joint(["edu × sex"])
    ('edu', '["edu", "sex"]', 'edu × sex')
    """
    plain = len(columns) == 1 and not columns[0].startswith("[")
    return columns[0] if plain else json.dumps(list(columns), ensure_ascii=False)


def members(name: str) -> list[str]:
    """The columns that are drawn under a name."""
    return _JOINT.validate_json(name) if name.startswith("[") else [name]


def shown(name: str) -> str:
    """The columns that are drawn under a name, for people."""
    return " × ".join(members(name))


def column_records(mechanism: Mechanism) -> dict[str, ColumnRecord]:
    """Hash and epsilon of every channel, as an entry holds them."""
    return {
        joint(a.columns): ColumnRecord(channel_hash(a.channel), finite(epsilon_of(mechanism, a)), a.channel.given)
        for a in mechanism.assignments
    }


def epsilon_of(mechanism: Mechanism, assignment: Assignment) -> float:
    """Epsilon of one draw of a record, or of a unit: none is finite where true values vary within it."""
    varies = mechanism.unit is not None and mechanism.unit.varies
    return float("inf") if varies else assignment.channel.epsilon


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if value < float("inf") else None


def read_ledger(path: Path, *, missing: bool = False) -> list[Entry]:
    """Entries in order; with `missing`, a ledger that does not exist yet is empty."""
    if missing and not path.is_symlink() and not path.exists():
        if not path.resolve().parent.is_dir():
            raise PramanaError(f"folder {str(path.parent)!r} of the ledger does not exist: create it first")
        return []
    lines = enumerate(read_json_lines(path, "ledger"), 1)
    return [_parsed(line, f"line {number} of ledger {str(path)!r}") for number, line in lines]


def _parsed(line: Any, where: str) -> Entry:
    try:
        entry = _named(_ENTRY.validate_json(json.dumps(line)))
    except ValidationError as error:
        version = _version(line)
        if version > VERSION:
            raise PramanaError(f"{where} has version {version}, newer than {VERSION}: update pramana") from None
        first = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])[:80]
        detail = f" ({key}: {first['msg']})" if key else ""
        raise PramanaError(f"{where} is not an entry{detail}: restore the file") from None
    if not 1 <= entry.version <= VERSION:
        raise PramanaError(f"{where} has version {entry.version}, and {VERSION} is the newest known: update pramana")
    return entry


def _named(entry: Entry) -> Entry:
    """The entry with its columns named as they are now."""
    split = members if entry.version > 2 else lambda name: name.split(" × ")
    return replace(entry, columns={joint(split(name)): record for name, record in entry.columns.items()})


def _version(line: Any) -> int:
    """The version that a line claims, 0 where it claims none: a newer entry may have fields unknown here."""
    version = line.get("version") if isinstance(line, dict) else None
    return version if type(version) is int and version < 10**6 else 0


@contextmanager
def recorded(path: Path, made: Callable[[list[Entry]], Entry]) -> Iterator[Entry]:
    """The entry that `made` answers to those already there, on the disk before the release appears.

    One process at a time, from reading to the end of the release: of two releases that fit a budget singly and not together, the
    second is refused. Whatever fails meanwhile leaves the ledger as it was, and so does a full disk.
    """
    with growing(path, updating="ledger") as add:
        entry = made(read_ledger(path, missing=True))
        add(json.dumps(asdict(entry), ensure_ascii=False, allow_nan=False))
        yield entry


def families(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Entries of the same records together: they share a file or a name, or are tied by others that do."""
    tied: dict[tuple[str, str], tuple[str, str]] = {}

    def root(of: tuple[str, str]) -> tuple[str, str]:
        while tied.setdefault(of, of) != of:
            tied[of] = tied[tied[of]]
            of = tied[of]
        return of

    listed = list(entries)
    for entry in listed:
        if entry.dataset is not None:
            tied[root(("name", entry.dataset))] = root(("file", entry.source))
        for part in entry.parts:
            tied[root(("file", part))] = root(("file", entry.source))
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in listed:
        found.setdefault(root(("file", entry.source)), []).append(entry)
    return list(found.values())


def same_records(entries: Sequence[Entry], new: Entry) -> list[Entry]:
    """Earlier releases of the records of a release, in order."""
    family = next(f for f in families([*entries, new]) if any(e is new for e in f))
    return [e for e in family if e is not new]


def draws(family: Iterable[Entry]) -> list[tuple[Entry, str]]:
    """Independent draws of the same records: a release and the name of what was drawn in it.

    Keyed releases with the same key, identifiers, columns and matrix repeat one draw, as long as the true values stay.
    Every other release draws anew, though its file be the same.
    """
    found: list[tuple[Entry, str]] = []
    keyed: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in family:
        for column, record in entry.columns.items():
            if entry.randomness == "keyed":
                seen = keyed.setdefault((entry.key, column, record.channel), [])
                repeated = any(same_identifiers(old, entry) for old in seen)
                seen.append(entry)
                if repeated:
                    continue
            found.append((entry, column))
    return found


def same_identifiers(one: Entry, other: Entry) -> bool:
    """Whether two releases under one key name their records alike. What old entries do not say is taken to have been the same."""
    named = None in (one.identifier, other.identifier) or one.identifier == other.identifier
    return named and (one.sketch is None or other.sketch is None or overlapping(one.sketch, other.sketch))


@lru_cache(maxsize=4096)
def overlapping(one: str, other: str) -> bool:
    """Whether most identifiers of the smaller of two files are in the other: a part of a file, or a file that has grown.

    Up to the smaller of the two largest digests both sketches are complete, so that a part can be told from other people as
    long as it is not below about a hundredth of the whole. Where nothing can be told, they are taken for others.
    """
    digests = [_digests(one), _digests(other)]
    bound = min((d[-1] for d in digests if d.size == SKETCH), default=np.iinfo(np.uint64).max)
    left, right = (d[d <= bound] for d in digests)
    common = np.intersect1d(left, right).size
    return common > 0 and common >= MOSTLY * min(left.size, right.size)


def _digests(sketch: str) -> Words:
    return np.sort(np.frombuffer(bytes.fromhex(sketch), dtype=">u8").astype(np.uint64))


def loss(entry: Entry, column: str) -> float:
    """Epsilon of one draw."""
    epsilon = entry.columns[column].epsilon
    return float("inf") if epsilon is None else epsilon


def total_loss(family: Iterable[Entry]) -> float:
    """Epsilon of a whole record over releases of the same records: columns and draws add."""
    return float(sum(loss(*draw) for draw in draws(family)))


def overlap(one: str, other: str) -> bool:
    """Whether two names, of a column or of several perturbed together, share a column."""
    return bool(set(members(one)) & set(members(other)))


def independent_draws(earlier: Sequence[Entry], new: Entry) -> dict[str, list[Entry]]:
    """Other releases of the same records that hold another independent draw of a column, by column."""
    others = same_records([e for e in earlier if e is not new], new)
    found: dict[str, list[Entry]] = {}
    for old in others:
        both = draws([old, new])
        for mine in new.columns:
            again = any(e is old and overlap(mine, theirs) for e, theirs in both)
            if again and any(e is new and name == mine for e, name in both):
                found.setdefault(mine, []).append(old)
    return found


def second_draws(earlier: Sequence[Entry], new: Entry) -> dict[str, list[tuple[Entry, str]]]:
    """Earlier draws of the columns that a new release draws anew; what repeats one of them tells nothing more."""
    known = draws([*same_records(earlier, new), new])
    anew = {column: name for entry, name in known if entry is new for column in members(name)}
    found: dict[str, list[tuple[Entry, str]]] = {}
    for entry, name in known:
        for mine in {anew[column] for column in members(name) if column in anew} if entry is not new else ():
            found.setdefault(mine, []).append((entry, name))
    return found


def shared_key(entries: Sequence[Entry], new: Entry) -> list[tuple[Entry, str]]:
    """Releases of other records whose draws come from the same words, and what was drawn: key, columns and matrix are the same."""
    known = {id(entry) for entry in same_records(entries, new)} if new.key is not None else set()
    return [
        (entry, name)
        for entry in entries
        if new.key is not None and entry.key == new.key and id(entry) not in known
        for name, record in entry.columns.items()
        if name in new.columns and new.columns[name].channel == record.channel
    ]


def spent(entries: Sequence[Entry], new: Entry, column: str) -> float:
    """Epsilon of a column over the releases that drew it independently, this one included; infinite if any is."""
    others = same_records([e for e in entries if e is not new], new)
    return float(sum(loss(e, name) for e, name in draws([new, *others]) if overlap(name, column)))


@dataclass(frozen=True)
class Spent:
    """One column (or several perturbed together) over all releases.

    Attributes
    ----------
    releases : releases that hold the column.
    draws : how many of them drew it anew; keyed releases with the same key, identifiers and P are one draw.
    epsilon : privacy loss of those draws, which adds up.
    total : with one more independent draw under the mechanism at hand.
    given : what of the confidential data the epsilons are conditional on.
    """

    column: str
    releases: int
    draws: int
    epsilon: float
    total: float
    given: tuple[str, ...] = ()


@dataclass(frozen=True)
class Composition:
    """Earlier releases of the same records, and the privacy loss that they add to a new one."""

    releases: int
    columns: tuple[Spent, ...]

    @property
    def total(self) -> float:
        """Privacy loss of a whole record over everything released, the new release included."""
        return float(sum(c.total for c in self.columns))


def compose(
    ledger: str | Path, mechanism: Mechanism, data: Any, dataset: str | None = None, released: Any = None
) -> Composition:
    """Earlier releases of the same records: the same file, or the same name in the ledger.

    A `released` file that the ledger knows is among them, and does not count once more.
    """
    sources, published = set(_hashes(data)), sha256_of(_hashes(released))
    entries = read_ledger(Path(ledger))
    mine = [
        family
        for family in families(entries)
        if any((dataset is not None and e.dataset == dataset) or not sources.isdisjoint(e.files) for e in family)
    ]
    family = [entry for one in mine for entry in one]
    recorded = any(e.released == published for e in family)
    planned = {} if recorded else column_records(mechanism)
    return Composition(len(family), spent_by_column(family, planned))


def spent_by_column(family: Sequence[Entry], planned: dict[str, ColumnRecord] | None = None) -> tuple[Spent, ...]:
    """What was spent on the columns of the same records, and would be with a planned release."""
    more = planned or {}
    names = list(dict.fromkeys([*more, *(c for e in family for c in e.columns)]))
    losses: dict[str, list[float]] = {name: [] for name in names}
    for entry, column in draws(family):
        losses[column].append(loss(entry, column))
    return tuple(_spent(name, family, losses[name], more.get(name)) for name in names)


def _spent(column: str, family: Sequence[Entry], losses: Sequence[float], planned: ColumnRecord | None) -> Spent:
    held = [e.columns[column] for e in family if column in e.columns]
    epsilon = planned.epsilon if planned else 0.0
    added = float("inf") if epsilon is None else epsilon
    given = {what for record in [*held, *([planned] if planned else [])] for what in record.given}
    return Spent(
        shown(column), len(held), len(losses), float(sum(losses)), float(sum(losses)) + added, tuple(sorted(given))
    )


def _hashes(data: Any) -> list[str]:
    """Digests of a file, or of the files of a folder; none of a frame."""
    alone = [data] if isinstance(data, str | os.PathLike) and Path(data).is_file() else []
    return [sha256(Path(file)) for file in files_of(data) or alone]

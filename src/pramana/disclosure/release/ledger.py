"""The custodian's own record of releases, never published, and what several releases add up to."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pramana.errors import PramanaError
from pramana.frames.writing import sha256
from pramana.mechanism import Mechanism
from pramana.mechanism.draws.keyed import channel_hash


@dataclass(frozen=True)
class Entry:
    """One release.

    Attributes
    ----------
    dataset : the custodian's name for the records, the same for every wave of them; None where none was given.
    source : SHA-256 of the confidential file. released : SHA-256 of the public one.
    columns : from column (joint ones joined by " × ") to hash of its channel and epsilon (None: infinite).
    key : fingerprint of the key in keyed mode, else None.
    """

    dataset: str | None
    source: str
    released: str
    target: str
    rows: int
    randomness: str
    key: str | None
    epsilon: float | None
    columns: dict[str, dict[str, Any]]


def column_records(mechanism: Mechanism) -> dict[str, dict[str, Any]]:
    """Hash and epsilon of every channel, as an entry holds them."""
    return {
        " × ".join(a.columns): {"channel": channel_hash(a.channel), "epsilon": finite(a.channel.epsilon)}
        for a in mechanism.assignments
    }


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if value < float("inf") else None


def read_ledger(path: Path, *, missing: bool = False) -> list[Entry]:
    """Entries in order; with `missing`, a ledger that does not exist yet is empty."""
    if missing and not path.exists():
        return []
    if not path.is_file():
        raise PramanaError(f"ledger {str(path)!r} does not exist")
    entries = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entries.append(Entry(**json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            raise PramanaError(f"line {number} of ledger {str(path)!r} is not an entry: restore the file") from None
    return entries


def append(path: Path, entry: Entry) -> None:
    """One line in one write, on the disk before the release appears."""
    line = json.dumps(asdict(entry), ensure_ascii=False, allow_nan=False) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, line.encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def independent_draws(earlier: Sequence[Entry], new: Entry) -> dict[str, list[Entry]]:
    """Earlier releases of the same records that hold another independent draw of a column, by column."""
    found: dict[str, list[Entry]] = {}
    for old in earlier:
        if not _same_records(old, new) or old.released == new.released:
            continue
        for mine in new.columns:
            if any(
                set(mine.split(" × ")) & set(theirs.split(" × ")) and not _same_draw(old, theirs, new, mine)
                for theirs in old.columns
            ):
                found.setdefault(mine, []).append(old)
    return found


def _same_records(a: Entry, b: Entry) -> bool:
    return a.source == b.source or (a.dataset is not None and a.dataset == b.dataset)


def _same_draw(old: Entry, theirs: str, new: Entry, mine: str) -> bool:
    """Keyed with the same key, column and matrix: the same words."""
    keyed = old.randomness == new.randomness == "keyed" and old.key == new.key
    return keyed and theirs == mine and old.columns[theirs]["channel"] == new.columns[mine]["channel"]


def spent(entries: Sequence[Entry], new: Entry, column: str) -> float:
    """Epsilon of a column over the releases that drew it independently, this one included; infinite if any is."""
    parts = [new.columns[column]["epsilon"]]
    for old in independent_draws(entries, new).get(column, []):
        parts += [c["epsilon"] for name, c in old.columns.items() if set(name.split(" × ")) & set(column.split(" × "))]
    return float("inf") if None in parts else float(sum(parts))


@dataclass(frozen=True)
class Spent:
    """One column (or several perturbed together) over all releases.

    Attributes
    ----------
    releases : earlier releases that hold the column.
    draws : how many of them drew it anew; keyed releases with the same key and P are one draw.
    epsilon : privacy loss of those draws, which adds up.
    total : with one more independent draw under the mechanism at hand.
    """

    column: str
    releases: int
    draws: int
    epsilon: float
    total: float


@dataclass(frozen=True)
class Composition:
    """Earlier releases of the same records, and the privacy loss that they add to a new one."""

    releases: int
    columns: tuple[Spent, ...]

    @property
    def total(self) -> float:
        """Privacy loss of a whole record over everything released, the new release included."""
        return float(sum(c.total for c in self.columns))


def compose(ledger: str | Path, mechanism: Mechanism, data: Any, dataset: str | None = None) -> Composition:
    """Earlier releases of the same records: the same file, or the same name in the ledger."""
    source = sha256(Path(data)) if isinstance(data, str | os.PathLike) and Path(data).is_file() else None
    entries = [
        e
        for e in read_ledger(Path(ledger))
        if (source is not None and e.source == source) or (dataset is not None and e.dataset == dataset)
    ]
    planned = {name: _number(record["epsilon"]) for name, record in column_records(mechanism).items()}
    earlier = [c for e in entries for c in e.columns]
    names = list(dict.fromkeys([*planned, *earlier]))
    return Composition(len(entries), tuple(_spent(name, entries, planned.get(name, 0.0)) for name in names))


def _spent(column: str, entries: Sequence[Entry], planned: float) -> Spent:
    draws: dict[tuple[Any, ...], float] = {}
    for position, entry in enumerate(entries):
        if column in entry.columns:
            record = entry.columns[column]
            same = ("keyed", entry.key, record["channel"]) if entry.randomness == "keyed" else (position,)
            draws[same] = _number(record["epsilon"])
    loss = float(sum(draws.values()))
    held = sum(column in e.columns for e in entries)
    return Spent(column, held, len(draws), loss, loss + planned)


def _number(epsilon: float | None) -> float:
    return float("inf") if epsilon is None else epsilon

"""What several releases of the same records add up to, from the custodian's ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pramana.disclosure.ledger import Entry, column_records, read_ledger
from pramana.disclosure.publishing import sha256
from pramana.mechanism import Mechanism


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
    source = sha256(Path(data)) if isinstance(data, str | Path) and Path(data).is_file() else None
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

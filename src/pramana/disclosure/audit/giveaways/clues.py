"""Clues: what an attacker can know of a record beside its released value, as codes.

Artefacts are clues that say how the file was made, not what it is about: the place of a row, the text of an identifier, which
values are missing. Everything else is content.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd

from pramana.arrays import Bool, Int
from pramana.disclosure.audit.giveaways.columns import ClearColumn

Kind = Literal["order", "identifier", "missingness", "content"]
GROUPS = 50
"""Groups of a column of many numbers."""
FEWEST = 4
"""Records a value must have, on average, for a clue to be learned."""
MOST_GAPS = 12
"""Columns with gaps whose pairs are tried."""
ORDER = "the order of the rows"
_DAY = 86_400_000_000


@dataclass(frozen=True, eq=False)
class Clue:
    """Codes 0, 1, … of what is known of each record (n,), and -1 where nothing is.

    `sources` are the columns it is made of; `swapped` holds the codes for when the two halves of the records change places,
    where the codes depend on them.
    """

    kind: Kind
    sources: tuple[str, ...]
    what: str
    codes: Int
    swapped: Int | None = None

    def of(self, direction: int) -> Int:
        return self.codes if direction == 0 or self.swapped is None else self.swapped

    def at(self, rows: Int) -> Clue:
        swapped = None if self.swapped is None else self.swapped[rows]
        return replace(self, codes=self.codes[rows], swapped=swapped)


def factorized(codes: Int) -> Int:
    """The same groups with codes 0, 1, … without holes; -1 stays."""
    found = np.asarray(pd.factorize(np.where(codes < 0, -1, codes))[0], dtype=np.int64)
    if not (codes < 0).any():
        return found
    gap = found[np.argmax(codes < 0)]
    return np.where(codes < 0, -1, found - (found > gap))


def crossed(left: Int, right: Int) -> Int:
    """Codes of two clues together; -1 where either is."""
    both = left * (int(right.max(initial=0)) + 1) + right
    return factorized(np.where((left < 0) | (right < 0), -1, both))


def _useful(clues: Iterable[Clue]) -> Iterator[Clue]:
    """Clues with two groups at least, and few enough of them that something can be learned."""
    for clue in clues:
        known = int(np.sum(clue.codes >= 0))
        groups = int(clue.codes.max(initial=-1)) + 1
        if groups >= 2 and FEWEST * groups <= known:
            yield clue


def content(column: ClearColumn) -> list[Clue]:
    """What a column says by its values, or by groups of near ones where it has many."""
    return list(_useful(_content(column)))


def _content(column: ClearColumn) -> Iterator[Clue]:
    name = column.name
    if column.identifier and not column.measured:
        return
    yield Clue("content", (name,), repr(name), column.codes)
    if column.distinct > GROUPS and column.values is not None:
        for most in dict.fromkeys((GROUPS, min(500, column.n // 40))):
            if most >= 2:
                yield Clue("content", (name,), f"{name!r} in {most} groups", factorized(column.groups(most)))
    if column.stamp and column.values is not None and column.values.size:
        time = column.values.astype(np.int64)
        for what, part in (
            ("day", time // _DAY),
            ("weekday", time // _DAY % 7),
            ("hour", time % _DAY // 3_600_000_000),
        ):
            yield Clue("content", (name,), f"the {what} of {name!r}", factorized(column.spread(part - part.min())))


def identifiers(column: ClearColumn) -> list[Clue]:
    """What an identifier's text and number say; of times, their minutes, seconds and fractions."""
    return list(_useful(_distinct(_identifiers(column))))


def _identifiers(column: ClearColumn) -> Iterator[Clue]:
    if column.stamp and column.near_unique and column.values is not None:
        time = column.values.astype(np.int64)
        parts = {"minutes": time // 60_000_000 % 60, "seconds": time // 1_000_000 % 60, "last digit": time % 10}
        for what, part in parts.items():
            yield Clue("identifier", (column.name,), f"the {what} of {column.name!r}", factorized(column.spread(part)))
    features = _decimals(column) if column.near_unique and not column.stamp else {}
    if column.identifier:
        features |= {**_digits(column), **({} if column.measured else _text(column.text))}
    for what, feature in features.items():
        yield Clue("identifier", (column.name,), f"{what} of {column.name!r}", factorized(column.spread(feature)))
    if column.identifier and not column.measured:
        yield Clue("identifier", (column.name,), f"the range of {column.name!r}", factorized(column.groups(GROUPS)))


def _decimals(column: ClearColumn) -> dict[str, Int]:
    """Each decimal of a number but the first, which its size decides."""
    units = column.smallest_units
    if units is None or not units.size:
        return {}
    size = np.abs(units)
    most = len(str(int(size.max())))
    return {f"decimal {k + 1} from the right": (size // 10**k % 10).astype(np.int64) for k in range(min(most - 1, 12))}


def _distinct(clues: Iterator[Clue]) -> Iterator[Clue]:
    """Each grouping once: a prefix of six characters is often the prefix of five again."""
    seen: set[bytes] = set()
    for clue in clues:
        mark = clue.codes.tobytes()
        if mark not in seen:
            seen.add(mark)
            yield clue


def _digits(column: ClearColumn) -> dict[str, Int]:
    """What does not depend on a number's size: remainders, last digits, check sums."""
    texts = column.text
    out = {f"the last {k} characters": _coded(texts, lambda t, k=k: t[-k:]) for k in (1, 2, 3)}
    out["the sum of the digits"] = _coded(texts, lambda t: sum(int(c) for c in t if c in "0123456789") % 10)
    out["a check sum (CRC-32)"] = _coded(texts, lambda t: zlib.crc32(t.encode()) % 12)
    numbers = [int(d[-18:] or 0) for d in (re.sub(r"[^0-9]", "", t) for t in texts)]
    for m in (3, 4, 6, 7, 8, 9, 11, 12, 16):  # 2, 5 and 10 are in the last digit
        out[f"the remainder by {m}"] = np.array([v % m for v in numbers], dtype=np.int64)
    return out


def _text(texts: Sequence[str]) -> dict[str, Int]:
    """Prefixes, characters at fixed places, parts between separators, and the shape of a text."""
    out = {f"the first {k} character(s)": _coded(texts, lambda t, k=k: t[:k]) for k in range(1, 7)}
    for place in range(1, min(16, max(map(len, texts), default=0))):
        out[f"character {place + 1}"] = _coded(texts, lambda t, p=place: t[p : p + 1])
        out[f"characters {place + 1} and {place + 2}"] = _coded(texts, lambda t, p=place: t[p : p + 2])
    parts = [re.split(r"[^0-9A-Za-z]+", t) for t in texts]
    for place in range(min(4, max(map(len, parts), default=0))):
        out[f"part {place + 1}"] = _coded(parts, lambda p, k=place: p[k] if k < len(p) else "")
    out["the length"] = _coded(texts, len)
    out["the shape"] = _coded(texts, lambda t: re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "9", t))))
    return out


def _coded(values: Sequence[object], feature: Callable[..., object]) -> Int:
    found = np.empty(len(values), dtype=object)
    found[:] = [feature(v) for v in values]
    return np.asarray(pd.factorize(found)[0], dtype=np.int64)


def order(position: Int, rows: int) -> list[Clue]:
    """Where a record stands in the released file: blocks of rows, and places within a short cycle."""
    blocks = dict.fromkeys(min(b, rows // FEWEST) for b in (10, 50, rows // 100, rows // 40, rows // 12))
    places = [position * b // rows for b in blocks if b >= 2]
    places += [position % m for m in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 24, 60)]
    return list(_useful(Clue("order", (), ORDER, factorized(place)) for place in places))


def neighbours(true: Int, half: Bool) -> Clue:
    """The true levels of the nearest known records before and after; known are those of the half that is learned from."""
    pairs = [_beside(true, known) for known in (half, ~half)]
    return Clue("order", (), ORDER, *pairs)


def _beside(true: Int, known: Bool) -> Int:
    """Codes of the levels on both sides, of records in the order of the file; truth is -1 where missing."""
    size = int(true.max(initial=0)) + 2
    places = np.flatnonzero(known & (true >= 0))
    if places.size < 3:
        return np.full(true.size, -1, dtype=np.int64)
    before = np.searchsorted(places, np.arange(true.size), side="left") - 1
    after = np.searchsorted(places, np.arange(true.size), side="right")
    left = np.where(before >= 0, true[places[np.maximum(before, 0)]], size - 1)
    right = np.where(after < places.size, true[places[np.minimum(after, places.size - 1)]], size - 1)
    return left * size + right


def missingness(gaps: dict[str, Bool], contents: Sequence[Clue]) -> list[Clue]:
    """Which values are missing: column by column, in pairs, all together, and together with what another column says."""
    held = {name: gap.astype(np.int64) for name, gap in gaps.items() if gap.any() and not gap.all()}
    return list(_useful(_distinct(_missingness(held, contents))))


def _missingness(held: dict[str, Int], contents: Sequence[Clue]) -> Iterator[Clue]:
    for name, gap in held.items():
        yield Clue("missingness", (name,), f"whether {name!r} is missing", gap)
    if not held:
        return
    pattern = np.zeros(next(iter(held.values())).size, dtype=np.int64)
    for gap in held.values():
        pattern = factorized(pattern * 2 + gap)
    yield Clue("missingness", tuple(held), f"which of {len(held)} columns are missing", pattern)
    often = sorted(held, key=lambda name: -int(held[name].sum()))[:MOST_GAPS]
    for a, b in combinations(often, 2):
        yield Clue("missingness", (a, b), f"which of {a!r} and {b!r} are missing", held[a] * 2 + held[b])
    few = [clue for clue in contents if clue.codes.max(initial=-1) < 24][:MOST_GAPS]
    for name in often:
        for clue in few:
            if name not in clue.sources:
                what = f"whether {name!r} is missing, with {clue.what}"
                yield Clue("missingness", (name, *clue.sources), what, crossed(held[name], clue.codes))

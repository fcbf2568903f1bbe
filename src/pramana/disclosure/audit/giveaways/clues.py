"""Clues: what an attacker can know of a record beside its released value, as codes.

Artefacts are clues that say how the file was made, not what it is about: the place of a row, the text of an identifier, which
values are missing. Everything else is content.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Literal

import numpy as np
import pandas as pd

from pramana.arrays import Bool, Int
from pramana.disclosure.audit.giveaways.columns import FEWEST, ClearColumn
from pramana.disclosure.audit.giveaways.spelling import varies

ClueKind = Literal["order", "identifier", "missingness", "spelling", "content"]
GROUPS = 50
"""Groups of a column of many numbers."""
MOST_GAPS = 12
"""Columns with gaps whose pairs are tried."""
ORDER = "the order of the rows"
CHARACTERS, PARTS, DIGITS = 64, 12, 30
"""Places of a text that are searched from either end, parts between separators, and digits of a number."""


@dataclass(frozen=True, eq=False)
class Clue:
    """Codes 0, 1, … of what is known of each record (n,), and -1 where nothing is.

    `sources` are the columns it is made of; `swapped` holds the codes for when the two halves of the records change places,
    where the codes depend on them.
    """

    kind: ClueKind
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


def both_clues(left: Int, right: Int) -> Int:
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
        time = column.values.astype(np.int64) // column.ticks
        for what, part in (("day", time // 86_400), ("weekday", time // 86_400 % 7), ("hour", time // 3600 % 24)):
            yield Clue("content", (name,), f"the {what} of {name!r}", factorized(column.spread(part - part.min())))


def identifiers(column: ClearColumn) -> list[Clue]:
    """What an identifier's text and number say; of times, their minutes, seconds and fractions."""
    return list(_useful(_distinct(_identifiers(column))))


def _identifiers(column: ClearColumn) -> Iterator[Clue]:
    features = _clock(column) if column.stamp and column.sparse else {}
    if column.sparse and not column.stamp:
        features |= _decimals(column)
    if column.identifier:
        features |= {**_digits(column), **({} if column.measured else _text(column.text))}
    for what, feature in features.items():
        yield Clue("identifier", (column.name,), f"{what} of {column.name!r}", factorized(column.spread(feature)))
    if column.identifier and not column.measured:
        yield Clue("identifier", (column.name,), f"the range of {column.name!r}", factorized(column.groups(GROUPS)))


def _clock(column: ClearColumn) -> dict[str, Int]:
    """Minutes, seconds and every digit of their fractions."""
    if column.values is None:
        return {}
    time = column.values.astype(np.int64)
    seconds = time // column.ticks
    out = {"the minutes": seconds // 60 % 60, "the seconds": seconds % 60}
    places = len(str(column.ticks)) - 1
    return out | {f"decimal {k + 1} of the seconds": time // 10 ** (places - 1 - k) % 10 for k in range(places)}


def _decimals(column: ClearColumn) -> dict[str, Int]:
    """Each digit of a number but the first, which its size decides, how many decimals it has, and its last bits."""
    if not column.digits:
        return {}
    out = {
        f"decimal {k + 1} from the right": place
        for k, place in enumerate(_places([d[::-1] for d in column.digits], DIGITS)[:-1])
    }
    if column.whole is None:
        out["the number of decimals"] = _coded(column.digits, lambda d: len(d) - len(d.rstrip("0")))
    return out if column.last_bits is None else out | {"the last bits": column.last_bits}


def _places(texts: Sequence[str], most: int) -> list[Int]:
    """The characters at each place of the texts, as numbers."""
    width = min(most, max(map(len, texts), default=0))
    if not width:
        return []
    table = np.array([t[:width] for t in texts], dtype=f"U{width}").view(np.uint32).reshape(-1, width)
    return list(table.T.astype(np.int64))


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
    numbers = np.array([int(re.sub("[^0-9]", "", t)[-18:] or 0) for t in texts], dtype=np.int64)
    for m in (3, 4, 6, 7, 8, 9, 11, 12, 16):  # 2, 5 and 10 are in the last digit
        out[f"the remainder by {m}"] = numbers % m
    return out


SHAPE = str.maketrans(ascii_lowercase + ascii_uppercase + digits, "a" * 26 + "A" * 26 + "9" * 10)


def _text(texts: Sequence[str]) -> dict[str, Int]:
    """Prefixes, characters at fixed places, parts between separators, and the shape of a text."""
    out = {f"the first {k} character(s)": _coded(texts, lambda t, k=k: t[:k]) for k in range(1, 7)}
    for end, read in (("", texts), (" from the end", [t[::-1] for t in texts])):
        places = _places(read, CHARACTERS)
        out |= {f"character {k}{end}": place for k, place in enumerate(places, 1)}
        for k, (place, after) in enumerate(pairwise(places), 1):
            out[f"characters {k} and {k + 1}{end}"] = place << 21 | after  # a character has 21 bits
    parts = [re.split(r"[^0-9A-Za-z]+", t) for t in texts]
    for end, split in (("", parts), (" from the end", [p[::-1] for p in parts])):
        for k in range(min(PARTS, max(map(len, parts), default=0))):
            out[f"part {k + 1}{end}"] = _coded(split, lambda p, k=k: p[k] if k < len(p) else "")
    out["the length"] = _coded(texts, len)
    out["the shape"] = _coded(texts, lambda t: t.translate(SHAPE))
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
                yield Clue("missingness", (name, *clue.sources), what, both_clues(held[name], clue.codes))


def by_spelling(columns: Sequence[ClearColumn]) -> list[Clue]:
    """How values are written: aspect by aspect, in pairs, and all together."""
    return list(_useful(_distinct(_spelling(columns))))


def _spelling(columns: Sequence[ClearColumn]) -> Iterator[Clue]:
    single = [
        Clue("spelling", (column.name,), f"{aspect} of {column.name!r}", factorized(codes))
        for column in columns
        for aspect, codes in column.spelled.items()
        if varies(codes)
    ]
    yield from single
    for a, b in combinations(single[:MOST_GAPS], 2):
        yield Clue("spelling", a.sources + b.sources, f"{a.what} with {b.what}", both_clues(a.codes + 1, b.codes + 1))
    if len(single) > 2:
        pattern = single[0].codes + 1
        for clue in single[1:]:
            pattern = both_clues(pattern, clue.codes + 1)
        names = tuple(dict.fromkeys(name for clue in single for name in clue.sources))
        yield Clue("spelling", names, f"the spelling of {len(names)} column(s)", pattern)

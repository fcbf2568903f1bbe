"""Content columns that settle the truth together: all pairs, and all triples within a budget.

A column of many values enters in groups, and a missing value is a value of its own here. Every combination is screened on few
records, by the share of them whose true level the commonest one of their cell is; the best are then scored on all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from pramana.arrays import Int
from pramana.disclosure.audit.giveaways.clues import Clue, factorized
from pramana.disclosure.audit.giveaways.columns import ClearColumn
from pramana.disclosure.audit.giveaways.recovery import Secret
from pramana.errors import listing

SCREENED = 6000
"""Records on which combinations are screened."""
WIDTHS = {2: 24, 3: 8}
"""Groups a column at most, in pairs and in triples."""
MOST = {2: 2000, 3: 5000}
"""Combinations that are tried, of the columns that come first: all pairs of 63 columns, all triples of 32."""
KEPT = 12
"""Combinations of each size that are scored on all records."""


@dataclass(frozen=True)
class TellingCombinations:
    """The most telling combinations, and how many were tried."""

    clues: list[Clue]
    tried: int


def together(columns: Sequence[ClearColumn], secret: Secret) -> TellingCombinations:
    """Pairs and triples of columns that tell more of the truth than each of their parts."""
    clues: list[Clue] = []
    tried = 0
    for many, width in WIDTHS.items():
        coded = [(column.name, _few(column, width)) for column in columns]
        usable = [(name, codes) for name, codes in coded if codes.max(initial=0) > 0]
        sets = list(_within(usable, many))
        tried += len(sets)
        scores = [_score([codes for _, codes in some], secret) for some in sets]
        best = np.argsort(scores, kind="stable")[::-1][:KEPT]
        clues += [_clue(sets[k]) for k in best]
    return TellingCombinations(clues, tried)


def _within(coded: Sequence[tuple[str, Int]], many: int) -> Iterator[tuple[tuple[str, Int], ...]]:
    for count, some in enumerate(combinations(coded, many)):
        if count == MOST[many]:
            return
        yield some


def _few(column: ClearColumn, width: int) -> Int:
    """At most so many groups: neighbouring numbers together, of other columns the commonest values apart; missing is a group."""
    codes = column.codes
    if column.distinct >= width:
        codes = column.groups(width - 1) if column.numbers is not None else _commonest(codes, width - 1)
    return np.asarray(pd.factorize(codes)[0], dtype=np.int64)


def _commonest(codes: Int, width: int) -> Int:
    counts = np.bincount(codes[codes >= 0])
    rank = np.empty(counts.size, dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(counts.size)
    return np.where(codes < 0, -1, np.minimum(np.append(rank, 0)[codes], width - 1))


def _score(parts: Sequence[Int], secret: Secret) -> float:
    """Share of records of the second half whose level is the commonest in their cell of the first."""
    n = min(SCREENED, secret.true.size)
    half, true = secret.half[:n], secret.true[:n]
    cells = np.zeros(n, dtype=np.int64)
    for codes in parts:
        cells = cells * (int(codes.max()) + 1) + codes[:n]
    size = int(cells.max()) + 1
    table = np.bincount(cells[half] * secret.size + true[half], minlength=size * secret.size).reshape(size, secret.size)
    return float(np.mean(table.argmax(axis=1)[cells[~half]] == true[~half]))


def _clue(some: Sequence[tuple[str, Int]]) -> Clue:
    cells = np.zeros(some[0][1].size, dtype=np.int64)
    for _, codes in some:
        cells = factorized(cells * (int(codes.max()) + 1) + codes)
    names = [name for name, _ in some]
    return Clue("content", tuple(names), f"the combination of {listing(names)}", cells)

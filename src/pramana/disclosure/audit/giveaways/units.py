"""Repeated units: several rows of one person (household, …) whose true value is the same and whose released values differ.

A column, or up to three together, whose equal values mark rows that nearly always share their true level, is taken for the
identifier of a unit. The level is then guessed from the released values of all rows of the unit, and compared with what each
row's own value says. Where the rows of a unit share one draw there is nothing to gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pramana.arrays import Float, Int
from pramana.disclosure.audit.giveaways.columns import ClearColumn
from pramana.disclosure.audit.giveaways.recovery import Gain

CONSTANT = 0.8
"""How constant the truth must be in a unit: agreement of two rows, beyond that of two strangers."""
UNITS, ROWS = 20, 30
"""Fewest units with several rows, and most rows that they have on average: longer ones are no units but a code."""
PAIRED = 20_000
"""Records on which pairs of columns are tried as identifiers."""


@dataclass(frozen=True)
class SampledRecords:
    """Every sampled record: true level (n,), chances of its released value (n, K), and that value (n,)."""

    true: Int
    chances: Float
    released: Int


@dataclass(frozen=True)
class RepeatedUnit:
    """A unit's identifier, how many rows a unit has, and what the unit's released values add."""

    names: tuple[str, ...]
    rows: float
    gain: Gain


def repeats(columns: Sequence[ClearColumn], rows: SampledRecords, alpha: float) -> list[RepeatedUnit]:
    """Identifiers of units: single columns, and where they are none, pairs and triples."""
    found: dict[tuple[str, ...], Int] = {}
    for column in columns:
        if agreement(column.codes, rows.true) >= CONSTANT:
            found[(column.name,)] = column.codes
    if not found:
        parts = [c for c in columns if not c.near_unique and agreement(c.codes, rows.true, np.inf) < CONSTANT]
        found = dict(_joined(parts, rows.true))
    made = [_judged(names, codes, rows, alpha) for names, codes in found.items()]
    return [each for each in made if each is not None]


def agreement(codes: Int, true: Int, most: float = ROWS) -> float:
    """Chance that two rows of a unit agree in the truth beyond that of two strangers; 0 where the rows are no units."""
    use = (codes >= 0) & (true >= 0)
    unit, level = codes[use], true[use]
    sizes = np.bincount(unit)
    several = sizes[sizes >= 2]
    if not several.size or (most < np.inf and (several.size < UNITS or several.mean() > most)):
        return 0.0
    both = np.unique(unit * (int(level.max()) + 1) + level, return_counts=True)[1]
    pairs, same = float(np.sum(sizes * (sizes - 1.0))), float(np.sum(both * (both - 1.0)))
    strangers = float(np.sum((np.bincount(level) / level.size) ** 2))
    return (same / pairs - strangers) / (1 - strangers) if strangers < 1 else 0.0


def _joined(columns: Sequence[ClearColumn], true: Int) -> Iterator[tuple[tuple[str, ...], Int]]:
    """The best pair, and the best pair with a third, among columns of many values; tried on whole values of the first."""
    best, pair = 0.0, None
    many = [c for c in columns if c.distinct >= UNITS]
    for anchor in many:
        rows = _some_values(anchor.codes)
        for other in columns:
            if other is not anchor:
                score = agreement(_together(anchor.codes[rows], other.codes[rows]), true[rows])
                best, pair = max((best, pair), (score, (anchor, other)), key=lambda found: found[0])
    if pair is None:
        return
    if best >= CONSTANT:
        yield (pair[0].name, pair[1].name), _together(pair[0].codes, pair[1].codes)
        return
    rows = _some_values(pair[0].codes)
    first = _together(pair[0].codes[rows], pair[1].codes[rows])
    for third in columns:
        if third not in pair and agreement(_together(first, third.codes[rows]), true[rows]) >= CONSTANT:
            names = (pair[0].name, pair[1].name, third.name)
            yield names, _together(_together(pair[0].codes, pair[1].codes), third.codes)
            return


def _some_values(codes: Int) -> Int:
    """Records of some of the values, all of each: a unit is tried whole."""
    share = max(1, -(-codes.size // PAIRED))
    return np.flatnonzero((codes >= 0) & (codes % share == 0))


def _together(left: Int, right: Int) -> Int:
    both = left * (int(right.max(initial=0)) + 1) + right
    found = np.asarray(pd.factorize(np.where((left < 0) | (right < 0), -1, both))[0], dtype=np.int64)
    return np.where((left < 0) | (right < 0), -1, found)


def _judged(names: tuple[str, ...], codes: Int, rows: SampledRecords, alpha: float) -> RepeatedUnit | None:
    """Guesses of the records in units of several rows, from their own released value and from all of the unit."""
    use = np.flatnonzero((codes >= 0) & (rows.true >= 0))
    use = use[np.bincount(codes[use])[codes[use]] >= 2]
    unit = np.asarray(pd.factorize(codes[use])[0], dtype=np.int64)
    if not _vary(unit, rows.released[use]):
        return None
    shares = np.bincount(rows.true[rows.true >= 0], minlength=rows.chances.shape[1]) / np.sum(rows.true >= 0)
    own = np.log(np.maximum(rows.chances[use], 1e-12))
    same = 0.5 + 0.5 * agreement(codes, rows.true)
    mixed = np.log(same * rows.chances[use] + (1 - same) * (rows.chances[use] @ shares)[:, None])
    whole = np.stack([np.bincount(unit, column) for column in mixed.T], axis=1)[unit]
    prior = np.log(np.maximum(shares, 1e-12))
    true = rows.true[use]
    before, after = (prior + own).argmax(axis=1) == true, (prior + own - mixed + whole).argmax(axis=1) == true
    size = np.bincount(unit)
    lower = _lower_mean(np.bincount(unit, after.astype(float) - before) / size, alpha)
    return RepeatedUnit(names, unit.size / size.size, Gain(float(before.mean()), float(after.mean()), lower))


def _lower_mean(values: Float, alpha: float) -> float:
    """Student's lower limit: units, not their rows, are independent."""
    from scipy.special import stdtrit

    error = values.std(ddof=1) / np.sqrt(values.size)
    return float(values.mean() - stdtrit(values.size - 1, 1 - alpha) * error)


def _vary(unit: Int, released: Int) -> bool:
    """Some unit has two different released values."""
    width = int(released.max(initial=0)) + 1
    return np.unique(unit * width + released).size > np.unique(unit).size

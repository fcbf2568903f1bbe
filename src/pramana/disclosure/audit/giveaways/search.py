"""The search for give-aways: with the original at hand, everything in the released file that tells a perturbed column.

Records are split at random into two halves; whatever is learned on one is scored on the other, both ways, and always together
with the released value. What is known without any artefact is an additive model of the content columns (an answer, an amount, a
date): each value, or each of 50 groups of near values, has a factor for every true level. *Recovered* is the share of records
whose most probable level is the true one.

What fails
    - **Artefacts** (the order of the rows, the text or number of an identifier, which values are missing, how values are written,
      repeated rows of a unit) by which 2 % more of the records are recovered than from content and released value, as a lower confidence limit.
    - **Any clue**, content too, alone or two or three columns together, that settles the level (posterior of at least 0.99 in one
      half) of 20 % of the records, or of half of a level's, if in the other half it was right for 99 % of these, with a lower
      confidence limit of 0.9; or of 5 % of the records, with a lower limit of 0.99. (Less is what the tails of a strong correlation
      do, and is warned of from 1 % on.) A level that 60 % of all records have does not count: what is
      known of everybody says little, and the rarer levels show a dependence too.

What is shown
    What content alone says of the truth; a warning from a gain of 5 %. This is what the data say, and no fault of the release.

Which columns are identifiers
    Those of text or whole numbers of which at least 90 % of the values are distinct. Numbers that are not whole (an income to the
    cent) are content. So is the size of whole numbers (an income), of which only single decimals and remainders are searched as an
    identifier's, unless no two of them are equal though measurements so densely spread would have been: such numbers were given
    out one by one, and their range is an identifier's too. Dates and times are content, but for the
    minutes, seconds and fractions of those that hardly occur twice.

Many levels
    More than 32 are taken in groups, and where these show nothing once more one by one, in a stretch of 32 neighbours: what tells a
    level from the next (a last digit) cannot be seen in groups.

Error rates. All limits hold together with probability 0.999, whatever number of clues was tried. At most a million records are used
(stretches of consecutive rows, so that neighbours stay neighbours), and 40 000 of them for what is modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pramana.arrays import Bool, Float, Int
from pramana.disclosure.audit.auditing import Finding, Severity, verdict
from pramana.disclosure.audit.giveaways import clues as clue_kinds
from pramana.disclosure.audit.giveaways.clues import Clue
from pramana.disclosure.audit.giveaways.columns import ClearColumn
from pramana.disclosure.audit.giveaways.combinations import together
from pramana.disclosure.audit.giveaways.nesting import parts
from pramana.disclosure.audit.giveaways.recovery import (
    Gain,
    Known,
    Secret,
    Settled,
    compared,
    gain,
    settled_records,
    with_content,
    without_content,
)
from pramana.disclosure.audit.giveaways.spelling import Aspects
from pramana.disclosure.audit.giveaways.units import RepeatedUnit, SampledRecords, repeats
from pramana.mechanism import Assignment

ALPHA = 1e-3
ARTEFACT, CORRELATED = 0.02, 0.05
"""Gain in recovered records from which on an artefact fails, and content is warned of."""
SETTLED, OF_LEVEL, SHOWN = 0.2, 0.5, 0.01
"""Shares of all records, and of a level's, from which on a clue that settles them fails; and from which on it is warned of."""
RIGHT, LOWEST, WARNED = 0.99, 0.9, 0.7
"""How often a settled level must be right, and the lower limits of that from which on it fails and is warned of."""
PROVEN = 0.05
"""Share of all records from which on a clue fails whose lower limit is itself 0.99: no chance and no mere tail of a correlation."""
MOST_RECORDS, STRETCH = 1_000_000, 10_000
MODELLED, CELLS = 40_000, 400_000
SEED = 0x9A7D41C305E2B86F
"""Of the halves, so that an audit can be repeated; no seed that made-up data are drawn with."""
LEVELS = 32
"""Levels beyond which they are taken in groups."""
FEWEST = 30
REMEDY = {
    "order": "shuffle the rows",
    "identifier": "drop it, or give out new identifiers",
    "spelling": "write all its values in one format",
    "missingness": "fill the gaps, drop the columns or perturb with them",
    "content": "drop, coarsen or perturb it with the column",
}


@dataclass(frozen=True)
class Perturbed:
    """A perturbed column (or several that share a channel): true and released level of every sampled record, -1 where missing.

    Attributes
    ----------
    chances : Pr(released value | true level), one row for each kind of record (stratum and released value).
    row : which row of them holds for each record (n,).
    within : what of the levels is told apart, where there are too many for all.
    nearby : where levels are in groups, the same column in a stretch of single levels: groups hide what tells neighbours apart.
    """

    name: str
    true: Int
    released: Int
    chances: Float
    row: Int
    within: str = ""
    nearby: Perturbed | None = None

    def __str__(self) -> str:
        return repr(self.name) + self.within

    @staticmethod
    def of(assignment: Assignment, true: Int, released: Int, stratum: Int) -> Perturbed:
        """From codes; more than 32 levels become groups, whose chances are the shares found in the file."""
        name = " × ".join(assignment.columns)
        if assignment.numeric:
            return _grouped(name, *_ranked(true, released))
        matrices = list(assignment.matrices.values())
        size = len(matrices[0])
        if size <= LEVELS:
            chances = np.concatenate([m.matrix for m in matrices])
            return Perturbed(name, true, released, chances, np.maximum(stratum, 0) * size + np.maximum(released, 0))
        return _grouped(name, true, released, size)


def _ranked(true: Int, released: Int) -> tuple[Int, Int, int]:
    """Numbers with noise, in steps of a grid, as codes: the true ones that occur in their order, a released one as the nearest."""
    held = np.unique(true[true >= 0])
    if not held.size:
        return true, np.full_like(released, -1), 1
    between = held[:-1] + np.diff(held) // 2
    old, new = (np.where(codes < 0, -1, np.searchsorted(between, codes)) for codes in (true, released))
    return old, new, held.size


def _grouped(name: str, true: Int, released: Int, size: int) -> Perturbed:
    groups = _groups(true, size)
    grouped_true, grouped = (np.where(codes < 0, -1, groups[codes]) for codes in (true, released))
    here = grouped_true >= 0
    size = int(groups.max()) + 1
    table = np.bincount(grouped[here] * size + grouped_true[here], minlength=size * size).reshape(size, size) + 0.5
    chances = table / table.sum(axis=0)
    within = f" (its levels in {size} groups)" if groups.size > LEVELS else ""
    nearby = _nearby(name, true, released, groups.size) if within else None
    return Perturbed(name, grouped_true, grouped, chances, np.maximum(grouped, 0), within, nearby)


def _nearby(name: str, true: Int, released: Int, size: int) -> Perturbed | None:
    """Neighbouring levels one by one, in the stretch that most records hold; a released value beyond it counts as its end."""
    held = np.cumsum(np.bincount(true[true >= 0], minlength=size))
    first = int(np.argmax(held[LEVELS - 1 :] - np.concatenate([[0], held[:-LEVELS]])))
    inside = (true >= first) & (true < first + LEVELS)
    if inside.sum() < FEWEST:
        return None
    old = np.where(inside, true - first, -1)
    new = np.clip(released - first, 0, LEVELS - 1)
    table = np.bincount(new[inside] * LEVELS + old[inside], minlength=LEVELS**2).reshape(LEVELS, LEVELS) + 0.5
    within = f" (in a stretch of {LEVELS} levels, which {inside.sum()} records hold)"
    return Perturbed(name, old, new, table / table.sum(axis=0), new, within)


def _groups(true: Int, size: int) -> Int:
    """From level to group: the commonest levels alone, the others in their order, about as many records in each group."""
    if size <= LEVELS:
        return np.arange(size)
    counts = np.bincount(true[true >= 0], minlength=size)
    alone = np.argsort(-counts, kind="stable")[: LEVELS // 2]
    rest = counts.astype(float)
    rest[alone] = 0
    spread = (np.cumsum(rest) - rest / 2) / max(rest.sum(), 1) * (LEVELS // 2)
    groups = LEVELS // 2 + np.minimum(spread.astype(np.int64), LEVELS // 2 - 1)
    groups[alone] = np.arange(alone.size)
    return groups


def stretches(rows: int) -> Bool:
    """Which records are searched (rows,): all, or a million of them in stretches of consecutive rows."""
    chosen = np.ones(rows, dtype=bool)
    if rows > MOST_RECORDS:
        blocks = -(-rows // STRETCH)
        kept = np.random.default_rng(SEED).choice(blocks, MOST_RECORDS // STRETCH, replace=False)
        chosen = np.isin(np.arange(rows) // STRETCH, kept)
    return chosen


def search(
    clear: pa.Table,
    perturbed: Sequence[Perturbed],
    position: Int,
    rows: int,
    context: Sequence[str] = (),
    unit: str | None = None,
    spelled: Mapping[str, Aspects] | None = None,
) -> list[Finding]:
    """Findings about every perturbed column.

    Parameters
    ----------
    clear : the clear columns of the sampled records, which stand at `position` (n,) among all `rows` of the released file.
    context : the clear columns that decide which matrix applies.
    unit : the clear column whose equal values share their draws: one row of each is modelled.
    spelled : how the fields of a CSV file are written, by column; None for any other file.
    """
    columns, problems = _columns(clear, spelled)
    tested = [one for one in perturbed if np.sum(one.true >= 0) >= FEWEST]
    shown: list[Finding] = []
    for one in tested:
        others = [other for other in perturbed if other is not one]
        file = _File(columns, others, position, rows, tuple(context), unit)
        alpha = ALPHA / len(tested) / (1 if one.nearby is None else 2)
        found = _searched(one, file, alpha)
        if one.nearby is not None and all(f.severity != "error" for f in found):
            found += [f for f in _searched(one.nearby, file, alpha) if f.severity != "ok"]
        problems += [f for f in found if f.check == "give-aways"]
        shown += [f for f in found if f.check == "recovery"]
    what = f"{clear.num_columns} clear column(s), their gaps, the order of the rows, identifiers and repeated rows"
    return verdict("give-aways", problems, f"none found in {what}" if tested else "too few records to search") + shown


def _columns(clear: pa.Table, spelled: Mapping[str, Aspects] | None) -> tuple[list[ClearColumn], list[Finding]]:
    """All columns, then the parts of nested ones; and a warning of what is in these and too much to search."""
    names = clear.column_names
    columns = [ClearColumn.of(name, clear.column(name), None if spelled is None else spelled[name]) for name in names]
    nested = {name: parts(name, clear.column(name)) for name in names}
    columns += [ClearColumn.of(part, array) for inside in nested.values() for part, array in inside.arrays.items()]
    text = (
        "{!r} holds more than is searched (of a nested column 32 parts, four levels deep, 8 elements of a list and 16 keys of a map): "
        "drop it, or release its parts as columns"
    )
    return columns, [Finding("give-aways", "warning", text.format(n)) for n, inside in nested.items() if not inside.all]


@dataclass(frozen=True)
class _File:
    """What is beside a perturbed column in the released file."""

    columns: Sequence[ClearColumn]
    others: Sequence[Perturbed]
    position: Int
    rows: int
    context: tuple[str, ...]
    unit: str | None

    def units(self) -> Int:
        """A number for every record, the same for those of a unit."""
        codes = next((column.codes for column in self.columns if column.name == self.unit), None)
        own = np.arange(self.position.size)
        return own if codes is None else np.where(codes < 0, codes.max(initial=0) + 1 + own, codes)


def _searched(one: Perturbed, file: _File, alpha: float) -> list[Finding]:
    alpha /= 5  # units, artefacts, clues that settle alone and together, and content
    units = _units(one, file.columns, alpha)
    rng = np.random.default_rng(SEED)
    unit = file.units()
    half = (rng.random(int(unit.max(initial=0)) + 1) < 0.5)[unit]  # nobody's secret is learned from another of its rows
    here = np.flatnonzero(one.true >= 0)
    here = here[np.sort(np.unique(unit[here], return_index=True)[1])]
    most = min(MODELLED, CELLS // one.chances.shape[1])
    chosen = here if here.size <= most else np.sort(rng.choice(here, most, replace=False))
    secret = Secret(one.true[chosen], one.chances[one.row[chosen]], half[chosen])
    columns = [column.at(chosen) for column in file.columns]
    contents = [clue for column in columns for clue in clue_kinds.content(column)]
    contents += [_released(other, chosen) for other in file.others]
    artefacts = _artefacts(one, file, columns, contents, half, chosen)
    joint = together([column for column in columns if column.joinable], secret)
    before = without_content(secret)
    named = {name for unit in units for name in unit.names}
    told = [clue for clue in contents if named.isdisjoint(clue.sources)]
    known = with_content(secret, told + [_where_known(clue, columns) for clue in joint.clues])
    found: list[_Told | None] = [_repeated(one, unit) for unit in units]
    found += [_gaining(one, clue, gain(secret, known, clue, alpha / len(artefacts))) for clue in artefacts]
    single = [*artefacts, *contents]  # of two that settle as much, the one that can be mended
    found += [_settling(one, file, clue, settled_records(secret, clue, alpha / len(single))) for clue in single]
    found += [
        _settling(one, file, clue, settled_records(secret, clue, alpha / max(joint.tried, 1))) for clue in joint.clues
    ]
    return [*_once(found), _correlated(one, secret, before, known, told, alpha)]


@dataclass(frozen=True)
class _Told:
    """A clue that tells something. Errors rank before warnings, artefacts before clues that settle, then by share and simplicity."""

    rank: tuple[int, float]
    sources: tuple[str, ...]
    finding: Finding


def _once(found: Sequence[_Told | None]) -> list[Finding]:
    """Every column, and the order of the rows, is named once, in its most telling clue."""
    named: set[str] = set()
    out = []
    for told in sorted((t for t in found if t is not None), key=lambda t: t.rank, reverse=True):
        sources = set(told.sources or (clue_kinds.ORDER,))
        if named.isdisjoint(sources):
            named |= sources
            out.append(told.finding)
    return out


def _units(one: Perturbed, columns: Sequence[ClearColumn], alpha: float) -> list[RepeatedUnit]:
    rows = np.arange(min(one.true.size, 10 * CELLS // one.chances.shape[1]))
    every = SampledRecords(one.true[rows], one.chances[one.row[rows]], one.released[rows])
    whole = rows.size == one.true.size
    return repeats(columns if whole else [c.at(rows) for c in columns], every, alpha / max(1, len(columns) ** 2))


def _artefacts(
    one: Perturbed, file: _File, columns: Sequence[ClearColumn], contents: Sequence[Clue], half: Bool, chosen: Int
) -> list[Clue]:
    """Order, identifiers, gaps and spelling, as clues about the chosen records."""
    clues = [clue.at(chosen) for clue in clue_kinds.order(file.position, file.rows)]
    clues.append(clue_kinds.neighbours(one.true, half).at(chosen))
    clues += [clue for column in columns for clue in clue_kinds.identifiers(column)]
    gaps = {column.name: column.missing for column in columns}
    gaps |= {other.name: other.true[chosen] < 0 for other in file.others}
    return clues + clue_kinds.missingness(gaps, contents) + clue_kinds.by_spelling(columns)


def _released(other: Perturbed, chosen: Int) -> Clue:
    return Clue("content", (other.name,), f"the released value of {other.name!r}", other.released[chosen])


def _where_known(clue: Clue, columns: Sequence[ClearColumn]) -> Clue:
    """Columns together, where none of them is missing."""
    gaps = [column.missing for column in columns if column.name in clue.sources]
    return replace(clue, codes=np.where(np.logical_or.reduce(gaps), -1, clue.codes))


def _repeated(one: Perturbed, unit: RepeatedUnit) -> _Told:
    """Rows that share a secret: an error where their released values tell it together, and in any case several draws of it."""
    names = " with ".join(map(repr, unit.names))
    fails = unit.gain.lower >= ARTEFACT
    text = (
        f"rows with equal {names} ({unit.rows:.1f} on average) share their true {one}, which their released values tell together: "
        f"{_recovered(unit.gain)}; their epsilons add: release one row a unit, or one draw for all its rows"
    )
    return _Told((3 if fails else 0, unit.gain.after), unit.names, Finding("give-aways", _severity(fails), text))


def _severity(fails: bool) -> Severity:
    return "error" if fails else "warning"


def _recovered(made: Gain) -> str:
    return (
        f"{made.after:.1%} of the true levels are recovered instead of {made.before:.1%} "
        f"(lower limit of the gain {made.lower:.3f}, bound {ARTEFACT:g})"
    )


def _gaining(one: Perturbed, clue: Clue, made: Gain) -> _Told | None:
    """An artefact that fails."""
    if made.lower < ARTEFACT:
        return None
    text = f"{clue.what} tells {one}: {_recovered(made)}: {REMEDY[clue.kind]}"
    return _Told((2, _simply(made.after, clue)), clue.sources, Finding("give-aways", "error", text))


def _settling(one: Perturbed, file: _File, clue: Clue, made: Settled) -> _Told | None:
    """A clue that settles the level of some records, and fails or is warned of."""
    many = made.share >= SETTLED or made.of_level >= OF_LEVEL
    fails = (many and made.lower >= LOWEST) or (made.share >= PROVEN and made.lower >= RIGHT)
    if made.share < SHOWN or made.right < RIGHT or not (fails or made.lower >= WARNED):
        return None
    decides = set(clue.sources) & set(file.context)
    remedy = "it decides the matrix; merge strata or drop it" if decides else REMEDY[clue.kind]
    text = (
        f"{clue.what} tells {one} for sure in {made.share:.1%} of the records (right in {made.right:.1%} of those held out, "
        f"lower limit {made.lower:.3f}): {remedy}"
    )
    return _Told(
        (int(fails), _simply(made.share, clue)),
        clue.sources,
        Finding("give-aways", _severity(fails), text),
    )


def _simply(share: float, clue: Clue) -> float:
    """A second column must tell much more to be worth naming."""
    return share - 0.1 * len(clue.sources)


def _correlated(
    one: Perturbed, secret: Secret, before: Known, known: Known, contents: Sequence[Clue], alpha: float
) -> Finding:
    """What content says of the truth: shown, and warned of where it is much."""
    made = compared(np.concatenate(before.right), np.concatenate(known.right), alpha)
    text = f"{made.before:.1%} of the true {one} are recovered from the released values alone"
    if made.lower < CORRELATED:
        return Finding("recovery", "ok", f"{text}, {made.after:.1%} with the clear columns")
    gains = {clue.what: gain(secret, before, clue, alpha).after for clue in contents}
    most = sorted(gains, key=lambda what: -gains[what])[:3]
    return Finding(
        "recovery",
        "warning",
        f"{text}, {made.after:.1%} with what the clear columns say (most: {', '.join(most)}): so do the data, and epsilon does not bound it",
    )

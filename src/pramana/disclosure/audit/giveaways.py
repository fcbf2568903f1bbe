"""On the custodian's side: which clear columns tell the true value of a perturbed one?

Rule. Records are split at random into two halves. In each, the commonest true level of every value of the clear column is
learned, and the other half is predicted with it; a value seen fewer than 10 times is predicted by the commonest level of all,
so that an identifier, unique to its record, tells nothing. Numbers with many values are also tried in 50 equal groups. With
`a` the share predicted rightly and `b` the share of the commonest level, the gain is `(a − b) / (1 − b)`: 0 for a column that
tells nothing, 1 for one that tells all. A gain of 0.5 is a warning and of 0.9 an error. A warning too is given where 1 % of
the records or more have a value whose records (99 % of them) share one level that is not nearly everyone's.
"""

from __future__ import annotations

import numpy as np

from pramana.arrays import Column, Int
from pramana.disclosure.audit.auditing import Finding, verdict
from pramana.disclosure.true_records import groups_of, text_levels
from pramana.errors import DataError
from pramana.frames import Table, read
from pramana.frames.dialects import DataFile
from pramana.mechanism import Assignment, Mechanism

FEWEST = 10
GROUPS = 50
WARNED, REFUSED = 0.5, 0.9
PURE, SHARED, COMMON = 0.99, 0.01, 0.9
MOST_ROWS = 1_000_000


def check_giveaways(original: DataFile, mechanism: Mechanism) -> list[Finding]:
    """Every clear column against every perturbed one, on at most a million records."""
    table = _sampled(read(original, text=text_levels(mechanism)))
    clear = [name for name in table.names if name not in mechanism.columns]
    context = mechanism.context
    problems = []
    for assignment in mechanism.assignments:
        present = ~table.missing(assignment.columns)
        true = _factorized_rows(assignment, table)[present]
        for name in clear:
            problems += _judged(assignment, name, true, _coded(table, name, present), name in context)
    shown = f"none of {len(clear)} clear column(s) tells a perturbed one (rule: majority vote, two halves)"
    return verdict("give-aways", problems, shown)


def _sampled(table: Table) -> Table:
    if table.n <= MOST_ROWS:
        return table
    rows = np.zeros(table.n, dtype=bool)
    rows[np.random.default_rng(0).choice(table.n, MOST_ROWS, replace=False)] = True
    return table.where(rows)


def _factorized_rows(assignment: Assignment, table: Table) -> Int:
    """True levels as whole numbers; those of joint columns together."""
    codes = np.zeros(table.n, dtype=np.int64)
    for name in assignment.columns:
        part = groups_of(table.column(name))
        codes = codes * (part.max(initial=0) + 1) + part
    return groups_of(codes)


def _coded(table: Table, name: str, present: Column) -> list[Int]:
    """The clear column as it is, and its groups where it has many numbers."""
    try:
        values = table.column(name)[present]
    except DataError:
        return []  # nested types: not a code of anything
    out = [groups_of(values)]
    if values.dtype.kind in "iuf" and np.unique(values).size > GROUPS:
        edges = np.quantile(values[np.isfinite(values)], np.linspace(0, 1, GROUPS + 1)[1:-1])
        out.append(np.searchsorted(edges, values).astype(np.int64))
    return out


def _judged(assignment: Assignment, name: str, true: Int, codings: list[Int], stratifies: bool) -> list[Finding]:
    scores = [telling(codes, true) for codes in codings if true.size >= 2 * FEWEST]
    if not scores:
        return []
    gain, settled = max(s[0] for s in scores), max(s[1] for s in scores)
    what = f"{name!r} tells {' × '.join(assignment.columns)!r}"
    how = f"gain {gain:.2f} over guessing; {settled:.1%} of the records have a value that settles it"
    hint = (
        "it decides the matrix; merge strata or drop it"
        if stratifies
        else "drop, coarsen or perturb it with the column"
    )
    if gain >= REFUSED:
        return [Finding("give-aways", "error", f"{what} ({how}): {hint}")]
    if gain >= WARNED or settled >= SHARED:
        return [Finding("give-aways", "warning", f"{what} in part ({how}): {hint}")]
    return []


def telling(clear: Int, true: Int) -> tuple[float, float]:
    """Gain of the majority vote over the commonest level, and the share of records whose value settles the level."""
    half = np.random.default_rng(1).random(true.size) < 0.5
    sizes = (int(clear.max()) + 1, int(true.max()) + 1)
    right = settled = 0
    for learn, apply in ((half, ~half), (~half, half)):
        vote, count, agreeing = _votes(clear[learn], true[learn], sizes[0])
        shares = np.bincount(true[learn], minlength=sizes[1]) / max(int(learn.sum()), 1)
        use = count[clear[apply]] >= FEWEST
        right += int(np.sum(np.where(use, vote[clear[apply]], shares.argmax()) == true[apply]))
        pure = use & (agreeing[clear[apply]] >= PURE * count[clear[apply]]) & (shares[vote[clear[apply]]] < COMMON)
        settled += int(pure.sum())
    base = float(np.bincount(true).max() / true.size)
    gain = (right / true.size - base) / (1 - base) if base < 1 else 0.0
    return gain, settled / true.size


def _votes(clear: Int, true: Int, size: int) -> tuple[Int, Int, Int]:
    """For every value: the commonest true level, how many records have the value, and how many of them that level."""
    width = int(true.max(initial=0)) + 1
    pairs, counts = np.unique(clear * width + true, return_counts=True)
    order = np.argsort(counts, kind="stable")  # the commonest is written last
    value, level = np.divmod(pairs[order], width)
    vote, agreeing = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    vote[value] = level
    agreeing[value] = counts[order]
    return vote, np.bincount(clear, minlength=size), agreeing

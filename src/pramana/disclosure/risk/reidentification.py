"""How often a record is linked to its person through key variables, before and after the release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float, Int
from pramana.disclosure.risk import link_chances
from pramana.disclosure.true_records import Counted, groups_of, strata_of, touched
from pramana.errors import DataError, listing, quoted
from pramana.frames import Table
from pramana.mechanism import Assignment, Mechanism
from pramana.mechanism.draws.perturbation import Cells, cells_in
from pramana.progress import Tell, part_of, silent

COMBINATIONS_LIMIT = 2000
CELLS_LIMIT = 5e7
AS_IS = -1
CLASSES = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))


@dataclass(frozen=True)
class Realised:
    """Links in the file that was released."""

    mean: float
    largest: float
    correct: float
    classes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Linkage:
    """Chances of a correct link, a record at a time: `before` on the true file, `after` expected over the draws.

    Attributes
    ----------
    keys : clear keys, then perturbed ones (columns perturbed together come together, strata come along).
    classes : records by the number of records that share their true keys.
    exact_mean, exact_largest : for an attacker who looks for the true keys as they are and ignores P.
    ratio_mean, ratio_largest : for one who weighs the likelihood by how often each value is released.
    row : the record whose chance is largest after the release.
    uniques : records alone with their true keys; `survive_*` are the chances that such a record keeps them and stays alone.
    released_uniques : expected number of records alone with their released keys.
    """

    clear: tuple[str, ...]
    perturbed: tuple[str, ...]
    n: int
    classes: tuple[tuple[str, int], ...]
    before_mean: float
    before_largest: float
    after_mean: float
    after_largest: float
    exact_mean: float
    exact_largest: float
    ratio_mean: float
    ratio_largest: float
    row: int
    uniques: int
    survive_mean: float
    survive_largest: float
    released_uniques: float
    realised: Realised | None = None

    @property
    def worst_mean(self) -> float:
        """The expected rate of correct links of the better of the two attackers who know P."""
        return max(self.after_mean, self.ratio_mean)

    @property
    def keys(self) -> tuple[str, ...]:
        return (*self.clear, *self.perturbed)


@dataclass(frozen=True)
class KeyFile:
    """The keys of every row of a table as codes: clear class, stratum and combination of perturbed keys.

    A record in which a perturbed key is missing is published as it is: what it has of that key belongs to its clear class,
    and the key has no choice of matrix (`AS_IS`) and a code that stays.
    """

    clear_names: tuple[str, ...]
    assignments: tuple[Assignment, ...]
    clear: Int
    strata: Int
    hidden: Int
    sizes: tuple[int, ...]
    choices: Int

    @property
    def n(self) -> int:
        return self.clear.size

    @property
    def combinations(self) -> int:
        return int(np.prod(self.sizes)) if self.sizes else 1

    def matrix(self, position: int) -> Float:
        """P over combinations of the perturbed keys, in one stratum."""
        out: Float = np.ones((1, 1))
        for assignment, choice, size in zip(self.assignments, self.choices[position], self.sizes, strict=True):
            step = np.eye(size) if choice == AS_IS else list(assignment.matrices.values())[choice].matrix
            out = np.asarray(np.kron(out, step), dtype=float)
        return out


def keys_through(mechanism: Mechanism, keys: Sequence[str], names: Sequence[str]) -> tuple[Assignment, ...]:
    """What perturbs some of the keys, which are columns of the data; refused where links cannot be weighed through it."""
    absent = [k for k in keys if k not in names]
    if absent or not keys or len(set(keys)) < len(keys):
        raise DataError(
            f"keys {listing(keys)} must name columns of the data, each once: the columns are {quoted(listing(names, 20))}"
        )
    assignments = tuple(mechanism.used_by(keys))
    noisy = [c for a in assignments if a.numeric for c in a.columns]
    if noisy:
        raise DataError(
            f"the key {noisy[0]!r} gets noise, and links are weighed through transition matrices alone: leave it out of the keys, or "
            "release it on a clamped grid, as the matrix of GeometricNoise(..., bounds=...).clamped()"
        )
    sizes = [len(a.channel.levels or ()) for a in assignments]
    if np.prod(sizes, dtype=float) > COMBINATIONS_LIMIT:
        raise DataError(
            f"the perturbed keys have {np.prod(sizes, dtype=float):.3g} combinations of levels; the limit is {COMBINATIONS_LIMIT}: use fewer keys or "
            "merge levels"
        )
    return assignments


def linking_columns(mechanism: Mechanism, keys: Sequence[str]) -> tuple[str, ...]:
    """The columns by which records are linked: keys, columns that are perturbed together with one, and those that decide a matrix."""
    return tuple(dict.fromkeys([*keys, *(c for a in mechanism.used_by(keys) for c in touched(a))]))


def key_file(table: Table, mechanism: Mechanism, keys: Sequence[str]) -> KeyFile:
    """Codes of the keys of every row."""
    assignments = keys_through(mechanism, keys, table.names)
    hidden_names = {c for a in assignments for c in a.columns}
    context = [c for a in assignments for c in a.channel.context]
    clear_names = tuple(dict.fromkeys([*(k for k in keys if k not in hidden_names), *context]))
    sizes = tuple(len(a.channel.levels or ()) for a in assignments)
    cells = [cells_in(table, a) for a in assignments]
    codes = tuple(c.codes for c in cells)
    hidden = np.ravel_multi_index(codes, sizes) if sizes else np.zeros(table.n, dtype=np.int64)
    chosen = [np.where(c.present, strata_of(a, c), AS_IS) for a, c in zip(assignments, cells, strict=True)]
    rows = np.array(chosen, dtype=np.int64).reshape(len(assignments), table.n).T
    choices, strata = np.unique(rows, axis=0, return_inverse=True) if sizes else (np.zeros((1, 0)), np.zeros(table.n))
    bare = [g for a, c in zip(assignments, cells, strict=True) for g in _published_as_it_is(a, c, table)]
    clear = _combined([*(groups_of(table.column(c)) for c in clear_names), *bare], table.n)
    return KeyFile(clear_names, assignments, clear, _whole(strata), _whole(hidden), sizes, _whole(choices))


def _published_as_it_is(assignment: Assignment, cells: Cells, table: Table) -> Iterator[Int]:
    """Codes of what is published of a group of columns where one of them is missing; 0 where none is."""
    if not cells.present.all():
        for name in assignment.columns:
            yield np.where(cells.present, 0, 1 + groups_of(table.column(name)))


def _whole(values: object) -> Int:
    out = np.asarray(values, dtype=np.int64)
    return out if out.ndim == 2 else out.ravel()


def _combined(parts: Sequence[Int], n: int) -> Int:
    """Codes 0, 1, … of equal combinations."""
    code = np.zeros(n, dtype=np.int64)
    for part in parts:
        code = np.unique(code * (int(part.max(initial=0)) + 1) + part, return_inverse=True)[1].ravel().astype(np.int64)
    return code


def class_sizes(codes: Int, counts: Int) -> Int:
    """For each row, how many records have its code; a row stands for so many (m,)."""
    return np.bincount(codes, counts).astype(np.int64)[codes]


def size_table(sizes: Int, counts: Int) -> tuple[tuple[str, int], ...]:
    """Records by the size of their class."""
    out = []
    for low, high in CLASSES:
        inside = (sizes >= low) & (sizes <= (high if high is not None else sizes.max(initial=low)))
        label = str(low) if low == high else f"{low}–{high}" if high else f"{low} or more"
        out.append((label, int(counts[inside].sum())))
    return tuple(out)


@dataclass(frozen=True)
class ClassPatterns:
    """Clear classes, those with the same records of each combination of perturbed keys together.

    Attributes
    ----------
    counts : records of each combination in a class of each pattern (D, R).
    times : classes that have the pattern (D,).
    of : the pattern of each row's class (m,).
    total : records of each combination in all classes (R,).
    """

    counts: Float
    times: Int
    of: Int
    total: Float

    @classmethod
    def among(cls, clear: Int, hidden: Int, counts: Int, combinations: int) -> ClassPatterns:
        """Of rows with a clear class and a combination (m,), each of which stands for so many records (m,)."""
        held, place = np.unique(clear * combinations + hidden, return_inverse=True)
        sizes = np.bincount(place.ravel(), counts, held.size).astype(np.int64)
        classes, start, length = np.unique(held // combinations, return_index=True, return_counts=True)
        alike = _alike(np.column_stack([held % combinations, sizes]), start, length)
        first, times = np.unique(alike, return_index=True, return_counts=True)[1:]
        if first.size * combinations > CELLS_LIMIT:
            raise DataError(
                f"{first.size} different classes of clear keys × {combinations} combinations of perturbed keys are above the limit of "
                f"{CELLS_LIMIT:.0e}: use fewer keys or merge levels"
            )
        dense = np.zeros((first.size, combinations))
        for pattern, one in enumerate(first):
            own = slice(start[one], start[one] + length[one])
            dense[pattern, held[own] % combinations] = sizes[own]
        total = np.bincount(hidden, counts, combinations)
        return cls(dense, times, alike[np.searchsorted(classes, clear)], np.asarray(total, dtype=float))


def _alike(entries: Int, start: Int, length: Int) -> Int:
    """Codes 0, 1, … of classes (C,) whose runs of entries (E, 2) are the same; entry by entry, so that no class is written out in full."""
    entry = np.unique(entries, axis=0, return_inverse=True)[1].ravel()
    found, used = np.zeros(start.size, dtype=np.int64), 1
    for position in range(int(length.max(initial=0))):
        rows = np.flatnonzero(length > position)
        pairs = found[rows] * (entry.max() + 1) + entry[start[rows] + position]
        seen, again = np.unique(pairs, return_inverse=True)
        found[rows] = used + again.ravel()  # new codes: a class that ends here is not one that goes on
        used += seen.size
    return np.unique(found, return_inverse=True)[1].ravel()


def link(records: Counted, mechanism: Mechanism, keys: Sequence[str], tell: Tell = silent) -> Linkage:
    """Re-identification through the keys, before and after the mechanism."""
    file, counts = key_file(records.table, mechanism, keys), records.counts
    seen = None if records.released is None else key_file(records.released, mechanism, keys)
    after, exact, ratio, alone = (np.zeros(file.n) for _ in range(4))
    realised, released_uniques = np.zeros(file.n), 0.0
    strata = np.unique(file.strata)
    for k, position in enumerate(strata):
        tells = [part_of(tell, 2 * k + attacker, 2 * len(strata)) for attacker in (0, 1)]
        rows = np.flatnonzero(file.strata == position)
        matrix = file.matrix(int(position))
        found = ClassPatterns.among(file.clear[rows], file.hidden[rows], counts[rows], file.combinations)
        at = found.of, file.hidden[rows]
        after[rows] = link_chances.expected_links(matrix, found.counts, tell=tells[0])[at]
        ratios = link_chances.likelihood_ratios(matrix, found.total)
        ratio[rows] = link_chances.expected_links(matrix, found.counts, ratios, tells[1])[at]
        exact[rows] = link_chances.expected_exact_links(matrix, found.counts)[at]
        alone[rows] = link_chances.survival(matrix, found.counts)[at]
        released_uniques += sum(
            t * link_chances.expected_uniques(matrix, c[None])
            for c, t in zip(found.counts, found.times.tolist(), strict=True)
        )
        if seen is not None:
            shown = ClassPatterns.among(file.clear[rows], seen.hidden[rows], counts[rows], file.combinations)
            realised[rows] = link_chances.realised_links(
                matrix, shown.counts, shown.of, file.hidden[rows], seen.hidden[rows]
            )
    return _linkage(records, file, (after, exact, ratio), alone, released_uniques, _realised(records, seen, realised))


def _realised(records: Counted, seen: KeyFile | None, links: Float) -> Realised | None:
    if seen is None:
        return None
    sizes = class_sizes(_combined([seen.clear, seen.hidden], seen.n), records.counts)
    correct = float(links @ records.counts)
    return Realised(correct / records.n, float(links.max()), correct, size_table(sizes, records.counts))


def _linkage(
    records: Counted,
    file: KeyFile,
    chances: tuple[Float, Float, Float],
    alone: Float,
    released_uniques: float,
    realised: Realised | None,
) -> Linkage:
    counts, n = records.counts, records.n
    sizes = class_sizes(_combined([file.clear, file.hidden], file.n), counts)
    uniques = sizes == 1
    after, exact, ratio = chances
    return Linkage(
        file.clear_names,
        tuple(c for a in file.assignments for c in a.columns),
        n,
        size_table(sizes, counts),
        float((1 / sizes) @ counts / n),
        float((1 / sizes).max()),
        float(after @ counts / n),
        float(after.max()),
        float(exact @ counts / n),
        float(exact.max()),
        float(ratio @ counts / n),
        float(ratio.max()),
        int(records.rows[records.first_of_most(after)]),
        int(uniques.sum()),
        float(alone[uniques].mean()) if uniques.any() else 0.0,
        float(alone.max()),
        float(released_uniques),
        realised,
    )

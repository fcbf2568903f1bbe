"""The custodian's records where they are too many to be held: read block by block on all cores, and collapsed to cells while they are read.

What risk needs are counts of distinct combinations of some columns, so these are all that is kept. Nothing is written to disk. Where
combinations are many (an identifier among the keys, say), that is an error which names the limit and the remedy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pramana.arrays import Bool
from pramana.disclosure.release.handling import Asked
from pramana.disclosure.release.link import read_link
from pramana.disclosure.risk.noise import CoarserGrid
from pramana.disclosure.true_records import (
    CountAndFirst,
    Counted,
    Differing,
    Missing,
    apart,
    file_bytes,
    held_bytes,
    recoded,
    refuse_gaps,
    refuse_other_number,
    refuse_other_records,
    strata_of,
    tallied,
)
from pramana.errors import DataError, listing
from pramana.frames import Level, Table, read
from pramana.frames.cells import CellPart, Coded, Combinations, Values, varied
from pramana.frames.dialects import CsvFile
from pramana.frames.folders import files_of
from pramana.frames.metadata import is_text
from pramana.frames.sources import FileSource, HeldSource, NarrowTypeError, Source, source_of, table_of
from pramana.frames.table import FrameKind
from pramana.frames.workers import SourcePart, Threads, batches_of
from pramana.mechanism import Assignment, JointGaussianNoise, Mechanism
from pramana.mechanism.draws.perturbation import cells_in
from pramana.numbers import count
from pramana.progress import bar

CELL = 1000
"""Bytes that a combination of values takes of which one is text that no other has; most take less."""
LINKED = 24
"""Bytes that a record takes where a link file says which one it is, without its released values."""
TRUE, RELEASED, STEPS, SEEN = "true", "released", "steps", "released steps"
"""What is looked at of a column: its values, those that were released, and both in steps where they are numbers with noise."""
Item = tuple[str, str]

T = TypeVar("T")


# Where the records come from.


def source_in_blocks(data: Any, text: Mapping[str, Any], columns: int, memory: float) -> Source | None:
    """The records as a source of blocks; None for a frame, and where so many columns of them fit into memory."""
    if isinstance(data, pa.RecordBatchReader | CsvFile):
        return None  # which is read once, or in a dialect that is stated
    alone = (Path(data),) if isinstance(data, str | os.PathLike) and Path(data).is_file() else ()
    files = files_of(data) or alone
    if any(isinstance(file, CsvFile) for file in files):
        return None
    if files:
        paths = [Path(file) for file in files]
        label = str(data) if isinstance(data, str | os.PathLike) else f"the {len(paths)} files"
        return None if file_bytes(paths, columns) <= memory else FileSource.open(paths, label, text)
    source = source_of(data, text, np.inf)
    rows = None if source is None else source.rows
    return None if rows is not None and held_bytes(rows, columns) <= memory else source


@dataclass(frozen=True)
class TrueSource(Source):
    """True records as a release takes them, those alone that are complete in some columns."""

    source: Source
    given: Asked
    complete: tuple[str, ...] = ()

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.source.label

    @property
    def kind(self) -> FrameKind:  # type: ignore[override]
        return self.source.kind

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    @property
    def rows(self) -> int | None:
        return None if self.complete else self.source.rows

    @property
    def ordered(self) -> bool:
        return self.source.ordered

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self.source.batches(list(dict.fromkeys([*columns, *self.complete]))):
            found = recoded_batch(batch, self.given)
            gaps = self.table(found).missing(self.complete)
            found = found.filter(pa.array(~gaps)) if gaps.any() else found
            if found.num_rows:
                yield found.select(list(columns))


def recoded_batch(batch: pa.RecordBatch, asked: Asked) -> pa.RecordBatch:
    """The records of a batch as a release takes them; every distinct value is looked at once."""
    marked = asked.mechanism.columns if asked.missing else ()
    coded = [name for name, c in asked.codings.items() if c.merged or c.missing is not None]
    for name in dict.fromkeys([*marked, *coded]):
        if name in batch.schema.names:
            place, kind = batch.schema.get_field_index(name), batch.schema.field(name).type
            plain = _plain(kind)
            values = pc.dictionary_encode(batch.column(place).cast(plain), null_encoding="encode")
            new = recoded(table_of(pa.table({name: values.dictionary}), "pyarrow", name), asked).column(name)
            array = pa.array([None if v is None or v != v else v for v in new.tolist()], plain).take(values.indices)
            array = array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array
            batch = batch.set_column(place, batch.schema.field(name), array)
    return batch


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


# The released records, in the order of the true ones.


@dataclass(frozen=True)
class Published:
    """Released records.

    Attributes
    ----------
    clear : columns that are not perturbed, in which they must agree with the true ones.
    linked : a link file said which record is which.
    """

    source: Source
    columns: tuple[str, ...]
    clear: tuple[str, ...]
    linked: bool = False


def published_source(released: Any, text: Mapping[str, Any]) -> Source:
    """The released records as a source of blocks."""
    found = source_in_blocks(released, text, 1, 0.0)
    return HeldSource(read(released, text=text).frame.to_arrow(), "the released file") if found is None else found


def rearranged(source: Source, columns: Sequence[str], link: Path, memory: float) -> HeldSource:
    """Released records in the order of the true ones, by the link file: this much of them is held."""
    rows = source.counted()
    needed = rows * (LINKED + 8 * len(columns))
    if needed > memory:
        raise DataError(
            f"by the link file {count(rows)} released records are put into the order of the true ones, for which {needed / 1e9:.2g} GB are needed: "
            f"raise memory= (now {memory / 1e9:g} GB), or give the release of a folder, whose records keep their order"
        )
    order = read_link(link, rows)
    values, done = Values(), 0
    codes = {name: np.zeros(rows, dtype=np.int32) for name in columns}
    for batch in source.batches(columns):
        places = order[done : done + batch.num_rows]
        for name in columns:
            coded = Coded.of(batch.column(batch.schema.get_field_index(name)))
            codes[name][places] = values.codes(name, coded.values, coded.places)[coded.places]
        done += batch.num_rows
        if values.most(columns) > memory / CELL:
            name = max(columns, key=lambda c: values.most([c]))
            what = f"the released columns {listing(columns)}"
            raise too_many_values(what, name, values.most([name]), done, source.label, memory)
    arrays = {
        name: _listed(codes[name], [*values.known.get(name, ())], source.schema.field(name).type) for name in columns
    }
    return HeldSource(pa.table(arrays), source.label)


def _listed(codes: Any, values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values by their codes (n,): text as a dictionary, anything else written out."""
    plain = _plain(kind)
    gap = values.index(None) if None in values else None
    if not is_text(plain):
        return pa.array(values, plain).take(pa.array(codes))
    known = pa.array(["" if v is None else v for v in values], plain)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=None if gap is None else codes == gap), known)


class _NarrowReleasedError(Exception):
    """A column of the released text files needs a wider type."""

    def __init__(self, error: NarrowTypeError) -> None:
        super().__init__()
        self.error = error


class _Beside:
    """Released records, taken as many at a time as true ones are read."""

    def __init__(self, published: Published) -> None:
        self._batches = published.source.batches(published.columns)
        schema = published.source.schema
        self._empty = pa.schema([schema.field(name) for name in published.columns]).empty_table()
        self._held = self._empty
        self.taken = 0

    def take(self, rows: int) -> pa.Table:
        """The next ones, fewer where there are no more."""
        while self._held.num_rows < rows and (batch := self._next()) is not None:
            self._held = pa.concat_tables([self._held, pa.Table.from_batches([batch])], promote_options="permissive")
        found, self._held = self._held.slice(0, rows), self._held.slice(rows)
        self.taken += found.num_rows
        return found

    def rest(self) -> int:
        """How many there are in all."""
        while (batch := self._next()) is not None:
            self.taken += batch.num_rows
        return self.taken + self._held.num_rows

    def _next(self) -> pa.RecordBatch | None:
        try:
            return next(self._batches, None)
        except NarrowTypeError as error:
            raise _NarrowReleasedError(error) from None


# What is counted.


@dataclass(frozen=True)
class Margin:
    """Columns whose combinations are counted.

    Attributes
    ----------
    what : what messages call it.
    released : whether released values of the perturbed columns belong to a combination.
    of : the assignment whose own margin this is: its values are checked, and noise is taken in steps; None elsewhere.
    values : distinct values of some columns above which the margin is given up.
    cells : combinations above which it is; None: it is needed, and too many are an error.
    """

    columns: tuple[str, ...]
    what: str
    released: bool = False
    of: Assignment | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    cells: int | None = None

    @property
    def in_steps(self) -> bool:
        return self.of is not None and self.of.numeric and not isinstance(self.of.channel, JointGaussianNoise)

    def items(self, mechanism: Mechanism) -> list[Item]:
        """What is looked at of its columns."""
        steps = self.of.columns if self.of is not None and self.in_steps else ()
        true = [(STEPS if name in steps else TRUE, name) for name in self.columns]
        seen = [name for name in self.columns if self.released and name in mechanism.columns]
        return [*true, *((SEEN if name in steps else RELEASED, name) for name in seen)]


Steps = Mapping[str, Mapping[Level | None, CoarserGrid]]
"""How numbers with noise are taken in steps: by column and stratum."""


@dataclass(frozen=True)
class _Job:
    """Some true records with their released counterparts, the place of the first one (in words for messages, and as a row), and the margins to count."""

    part: SourcePart
    place: str
    first: int
    released: pa.Table | None
    live: tuple[int, ...]


@dataclass
class _Told:
    """What the records of a job tell.

    Attributes
    ----------
    cells : of every batch the row of its first record within the job, and by margin the cells of kept records, or the column
        that has too many values.
    gaps, apart : by column missing values, and what shows that released records are others, counted from the first row of the job.
    ends : by column and stratum the smallest and largest number that gets noise, in steps of its grid.
    """

    rows: int = 0
    incomplete: int = 0
    cells: list[tuple[int, dict[int, CellPart | str]]] = field(default_factory=list)
    gaps: dict[str, CountAndFirst] = field(default_factory=dict)
    apart: dict[Differing, CountAndFirst] = field(default_factory=dict)
    ends: dict[tuple[str, Level | None], tuple[int, int]] = field(default_factory=dict)

    def join(self, other: _Told) -> None:
        """Go on with the records that come after these; their cells are not kept here."""
        _join(self.gaps, other.gaps, self.rows)
        _join(self.apart, other.apart, self.rows)
        for key, (low, high) in other.ends.items():
            known = self.ends.get(key, (low, high))
            self.ends[key] = min(low, known[0]), max(high, known[1])
        self.rows, self.incomplete = self.rows + other.rows, self.incomplete + other.incomplete


def _join(tallies: dict[T, CountAndFirst], others: Mapping[T, CountAndFirst], first: int) -> None:
    for key, (records, place) in others.items():
        known = tallies.get(key)
        tallies[key] = (records, first + place) if known is None else (known[0] + records, known[1])


@dataclass(frozen=True)
class Look:
    """What is done with each batch of records: checked, put into codes, and counted.

    Attributes
    ----------
    used : the columns that are read, in none of which a value may be missing unless missing="keep".
    most : combinations of a margin, and values of a column, that are allowed.
    clear : columns in which released records must agree.
    steps : of numbers with noise; empty where only their range is asked for.
    """

    asked: Asked
    used: tuple[str, ...]
    missing: Missing
    most: int
    margins: tuple[Margin, ...] = ()
    clear: tuple[str, ...] = ()
    steps: Steps = field(default_factory=dict)

    def __call__(self, job: _Job) -> _Told:
        told = _Told()
        for batch in batches_of(job.part, self.used):
            try:
                own = self._told(recoded_batch(batch, self.asked), told.rows, job)
            except NarrowTypeError:
                raise
            except DataError as error:
                first = job.first + told.rows
                since = f", whose rows are counted from row {first} on" if first else ""
                raise type(error)(f"{job.place}{since}: {error.marked}") from None
            told.cells += [(told.rows, own.cells[0][1])] if own.cells else []
            told.join(own)
        return told

    def _told(self, batch: pa.RecordBatch, first: int, job: _Job) -> _Told:
        table = table_of(batch, "pyarrow", job.place)
        told = _Told(table.n)
        keep = np.ones(table.n, dtype=bool)
        if self.missing != "keep":
            gaps = {name: rows for name in self.used if (rows := table.gaps(name)) is not None}
            keep = ~np.logical_or.reduce([*gaps.values(), np.zeros(table.n, dtype=bool)])
            told.gaps, told.incomplete = {name: tallied(rows) for name, rows in gaps.items()}, int((~keep).sum())
        seen = None
        if job.released is not None:
            seen = table_of(job.released.slice(first, table.n), "pyarrow", "the released file")
            differing = {
                key: rows & keep for key, rows in apart(table, seen, self.asked.mechanism, self.clear, _differ).items()
            }
            told.apart = {key: tallied(rows) for key, rows in differing.items() if rows.any()}
        if not keep.any():
            return told
        if not keep.all():
            table, seen = table.where(keep), None if seen is None else seen.where(keep)
        if self.margins:
            found, places = self._cells(table, seen, job.live), np.flatnonzero(keep)
            told.cells = [
                (0, {k: p if isinstance(p, str) else replace(p, first=places[p.first]) for k, p in found.items()})
            ]
        else:
            told.ends = dict(self._ends(table))
        return told

    # Numbers with noise.

    def _ends(self, table: Table) -> Iterator[tuple[tuple[str, Level | None], tuple[int, int]]]:
        for assignment in self.asked.mechanism.assignments:
            if Margin((), "", of=assignment).in_steps:
                cells = cells_in(table, assignment)
                strata = strata_of(assignment, cells)
                for position, (stratum, noise) in enumerate(assignment.noises.items()):
                    rows = (strata == position) & cells.present
                    if rows.any():
                        steps = noise.true_steps(cells.codes[rows])
                        yield (assignment.columns[0], stratum), (int(steps.min()), int(steps.max()))

    def _in_steps(self, name: str, table: Table, seen: Table | None) -> Coded:
        """A column of numbers with noise, true or released ones, in steps."""
        assignment = next(a for a in self.asked.mechanism.assignments if name in a.columns)
        cells = cells_in(table, assignment)
        strata, numbers = strata_of(assignment, cells), np.full(table.n, np.nan)
        codes = cells.codes if seen is None else cells_in(seen, assignment).codes
        for position, stratum in enumerate(assignment.noises):
            rows = (strata == position) & cells.present
            if rows.any():
                coarse = self.steps[name][stratum]
                numbers[rows] = coarse.true(codes[rows]) if seen is None else coarse.released(codes[rows])
        return Coded.of(pa.array(numbers, from_pandas=True))

    # Cells.

    def _cells(self, table: Table, seen: Table | None, live: Sequence[int]) -> dict[int, CellPart | str]:
        """By margin, of those that still count; or the column that has too many values."""
        columns = self._columns(table, seen, live)
        known = [item for item, coded in columns.items() if coded is not None]
        whole = CellPart.of([coded for coded in columns.values() if coded is not None]) if known else None
        if whole is not None and 4 * len(whole.counts) > table.n:
            whole = None  # no shorter than the records
        found: dict[int, CellPart | str] = {}
        for number in live:
            margin = self.margins[number]
            items = margin.items(self.asked.mechanism)
            many = [
                name
                for kind, name in items
                if (c := columns[kind, name]) is None or len(c.values) > margin.values.get(name, self.most) + 1
            ]
            if many:
                found[number] = many[0]
                continue
            own = [coded for item in items if (coded := columns[item]) is not None]
            part = CellPart.of(own) if whole is None else whole.of_columns([known.index(item) for item in items])
            if margin.of is not None:
                self._check(margin.of, items, part, table, seen)
            found[number] = part
        return found

    def _columns(self, table: Table, seen: Table | None, live: Sequence[int]) -> dict[Item, Coded | None]:
        """Everything that margins look at; None where that has more values than any of them takes."""
        most: dict[Item, int] = {}
        for margin in (self.margins[number] for number in live):
            for item in margin.items(self.asked.mechanism):
                most[item] = max(most.get(item, 0), margin.values.get(item[1], self.most))
        found: dict[Item, Coded | None] = {}
        for (kind, name), limit in most.items():
            if kind in (STEPS, SEEN):
                found[kind, name] = self._in_steps(name, table, seen if kind == SEEN else None)
                continue
            side = table if kind == TRUE else seen
            assert side is not None
            array = side.native.column(name).combine_chunks()
            found[kind, name] = None if varied(array, limit) else Coded.of(array)
        return found

    def _check(
        self, assignment: Assignment, items: Sequence[Item], part: CellPart, table: Table, seen: Table | None
    ) -> None:
        """Refuse values that the mechanism does not know. Cells show whether there are any, records where."""
        for kind, side in ((TRUE, table), (RELEASED, seen)):
            if side is None or assignment.numeric:
                continue
            chosen = {name: k for k, (of, name) in enumerate(items) if of == kind or name not in assignment.columns}
            arrays = {
                name: pa.array(
                    part.values[k], _plain(table.native.schema.field(name).type) if kind == TRUE else None
                ).take(pa.array(part.codes[k]))
                for name, k in chosen.items()
            }
            try:
                _encoded(table_of(pa.table(arrays), "pyarrow", ""), assignment)
            except DataError:
                _encoded(side, assignment)
                raise


def _differ(table: Table, other: Table, name: str) -> Bool:
    """Where a column of two tables of Arrow differs (n,): its distinct values are compared, not those of every record."""
    own, others = (Coded.of(side.native.column(name).combine_chunks()) for side in (table, other))
    values = Values()
    codes = [values.codes(name, coded.values, coded.places)[coded.places] for coded in (own, others)]
    return np.asarray(codes[0] != codes[1])


def _encoded(table: Table, assignment: Assignment) -> None:
    strata_of(assignment, cells_in(table, assignment))


# The passes.


@dataclass(frozen=True)
class Collapsed:
    """All records that are assessed, by margin; `rows` are in the source, as it could be read, and `n` of them are assessed."""

    source: Source
    rows: int
    n: int
    found: Mapping[tuple[str, ...], Counted | None]

    def margins(self, columns: Sequence[str]) -> Counted | None:
        return self.found[tuple(columns)]


def counted_in_blocks(
    source: Source, look: Look, published: Published | None, prior: Mapping[str, Any], memory: float
) -> Collapsed:
    """Count the combinations of every margin; `prior` are frequencies that an attacker is taken to know, by column."""
    while True:
        try:
            steps = _steps(source, replace(look, margins=()), prior)
            return _collapsed(source, replace(look, steps=steps), published, memory)
        except NarrowTypeError as error:  # seen in the first pass, if at all
            source = source.widened(error)
        except _NarrowReleasedError as narrow:
            assert published is not None
            published = replace(published, source=published.source.widened(narrow.error))


def _steps(source: Source, look: Look, prior: Mapping[str, Any]) -> Steps:
    """How numbers with noise are taken in steps, which goes by their range."""
    noisy = {a.columns[0]: a for a in look.asked.mechanism.assignments if Margin((), "", of=a).in_steps}
    if not noisy:
        return {}
    told = _Told()
    for own in Threads().answers(look, _jobs(source, look, None, {})):
        told.join(own)
    out: dict[str, dict[Level | None, CoarserGrid]] = {name: {} for name in noisy}
    for (name, stratum), ends in told.ends.items():
        noise = noisy[name].noises[stratum]
        out[name][stratum] = CoarserGrid.of(noise, ends, prior.get(name), noisy[name].columns)
    return out


def _collapsed(source: Source, look: Look, published: Published | None, memory: float) -> Collapsed:
    mechanism, values = look.asked.mechanism, Values()
    counted = {k: Combinations(tuple(map(_key, m.items(mechanism))), values) for k, m in enumerate(look.margins)}
    told, beside = _Told(), None if published is None else _Beside(published)
    with bar(f"Counting combinations in {source.label}", unit="rows") as tell:
        for own in Threads().answers(look, _jobs(source, look, beside, counted)):
            for first, cells in own.cells:
                for number in [number for number in cells if number in counted]:
                    part, margin = cells[number], look.margins[number]
                    over = _over(part, counted[number], margin, told.rows + first, look.most)
                    if over == NEEDED and isinstance(part, str):
                        alone = f"more than {look.most}"
                        raise too_many_values(margin.what, part, alone, told.rows + own.rows, source.label, memory)
                    if over == NEEDED:
                        raise _too_many(margin, counted[number], told.rows + own.rows, source.label, memory)
                    if over == GIVEN_UP:
                        del counted[number]
            told.join(own)
            _refuse_all(look, counted, told.rows, source.label, memory)
            tell(told.rows, source.rows or 0)
    if not told.rows:
        raise DataError(f"{source.label} has no records")
    refuse_gaps(told.gaps, told.incomplete, told.rows, look.missing)
    if beside is not None and published is not None:
        refuse_other_number(beside.rest(), told.rows)
        refuse_other_records(told.apart, published.linked)
    found: dict[tuple[str, ...], Counted | None] = {margin.columns: None for margin in look.margins}
    for number, own_cells in counted.items():
        margin = look.margins[number]
        found[margin.columns] = _table(margin.items(mechanism), own_cells, source, published)
    return Collapsed(source, told.rows, told.rows - told.incomplete, found)


def _key(item: Item) -> str:
    """What distinct values are known by."""
    return "\x1f".join(item)


def _jobs(source: Source, look: Look, beside: _Beside | None, counted: Mapping[int, Combinations]) -> Iterator[_Job]:
    """All records: pieces of files, which whoever looks at them reads, or batches, with the released ones beside them."""
    for part, place, first in _parts(source):
        if beside is None and isinstance(source, FileSource):
            yield _Job(part, place, first, None, tuple(counted))
            continue
        for batch in part.batches(look.used):
            released = None if beside is None else beside.take(batch.num_rows)
            if beside is not None and released is not None and released.num_rows < batch.num_rows:
                refuse_other_number(beside.rest(), source.counted())
            yield _Job(batch, place, first, released, tuple(counted))
            first += batch.num_rows


def _parts(source: Source) -> Iterator[tuple[Source, str, int]]:
    """Pieces of files with the name of the file, and the row of it that they begin with; any other source as a whole."""
    if not isinstance(source, FileSource):
        yield source, source.label, 0
        return
    last, first = "", 0
    for piece in source.pieces():
        first = first if piece.label == last else 0
        yield piece, f"file {Path(piece.label).name!r}", first
        last, first = piece.label, first + (piece.rows or 0)


NEEDED, GIVEN_UP = "needed", "given up"


def _over(part: CellPart | str, counted: Combinations, margin: Margin, first: int, most: int) -> str | None:
    """Whether a margin with the cells of one more batch, or the column that has too many values there, is too large, and what that means."""
    if isinstance(part, str):
        return GIVEN_UP if part in margin.values or margin.cells is not None else NEEDED
    counted.add(part, first)
    if any(counted.values.most([_key((TRUE, name))]) > limit for name, limit in margin.values.items()):
        return GIVEN_UP
    limit = most if margin.cells is None else margin.cells
    if len(counted) <= limit or counted.size <= limit:
        return None
    return NEEDED if margin.cells is None else GIVEN_UP


def _refuse_all(look: Look, counted: dict[int, Combinations], rows: int, label: str, memory: float) -> None:
    """All margins together must fit, too; those that may be given up go first."""
    while sum(map(len, counted.values())) > look.most and sum(c.size for c in counted.values()) > look.most:
        number = max(counted, key=lambda k: (look.margins[k].cells is not None, counted[k].size))
        if look.margins[number].cells is None:
            raise _too_many(look.margins[number], counted[number], rows, label, memory)
        del counted[number]


def _too_many(margin: Margin, counted: Combinations, rows: int, label: str, memory: float) -> DataError:
    name = max(counted.columns, key=lambda key: counted.values.most([key]))
    return too_many_values(margin.what, name.partition("\x1f")[2], counted.values.most([name]), rows, label, memory)


def too_many_values(what: str, column: str, distinct: int | str, rows: int, label: str, memory: float) -> DataError:
    """The error of combinations that do not fit into memory."""
    return DataError(
        f"{what} have too many different combinations of values among the first {rows} records of {label}, {column!r} alone {distinct} values: "
        f"memory={memory / 1e9:g} GB holds {int(memory / CELL)} combinations in all. Leave {column!r} out, merge or round its values (dates to years, "
        "say), or raise memory="
    )


def _table(items: Sequence[Item], counted: Combinations, source: Source, published: Published | None) -> Counted:
    """Cells as records, in the order of the first of each."""
    kinds = {TRUE: source.schema, RELEASED: None if published is None else published.source.schema}
    schema = pa.schema(
        [(_key((k, c)), pa.float64() if k in (STEPS, SEEN) else kinds[k].field(c).type) for k, c in items]
    )
    order = np.argsort(counted.first)
    whole = counted.table(schema, order)
    arrays = {item: whole.column(_key(item)) for item in items}
    true = {name: array for (kind, name), array in arrays.items() if kind in (TRUE, STEPS)}
    seen = true | {name: array for (kind, name), array in arrays.items() if kind in (RELEASED, SEEN)}
    released = None if published is None else table_of(pa.table(seen), "pyarrow", "the released file")
    return Counted(
        table_of(pa.table(true), "pyarrow", source.label), counted.counts[order], counted.first[order], released
    )

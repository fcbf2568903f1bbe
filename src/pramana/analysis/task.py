"""One analysis, checked at the door: question, table, mechanism and sampling, the same object for every estimator."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from pramana.analysis.distinct import collapsed
from pramana.analysis.reading import Reading
from pramana.analysis.sampling import SamplingArguments, checked_start, complete
from pramana.analysis.shared_draws import agreed, noticed, pairs, sharing
from pramana.analysis.streaming import Checks, Learned, learn, taken
from pramana.analysis.tampering import level_counts, other_records, tampered
from pramana.analysis.transforms import learned_states
from pramana.arrays import Bool, Float, Int
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine, LocalEngine, MakeEngine, Sampling
from pramana.engines.ranked import RankedEngine
from pramana.engines.streaming import StreamEngine
from pramana.errors import DataError, FormulaError, PramanaError, suggestion
from pramana.estimating import Equation
from pramana.estimating.collinearity import unjudged
from pramana.estimating.function import EstimatingFunction, Question
from pramana.formulas.parsed import ParsedFormula, learning_calls
from pramana.formulas.subset import Subset
from pramana.frames import Schema, Table, read
from pramana.frames.levels import level_positions, unknown_levels
from pramana.frames.sources import NarrowTypeError, Source, source_of
from pramana.frames.table import is_missing, require_columns
from pramana.frames.workers import Threads, Workers
from pramana.inference import Jackknife, Resampling, Sandwich, SurveyDesign, Woodruff
from pramana.mechanism import Assignment, Mechanism
from pramana.mechanism.description.argument import Resolved, resolve_mechanism

Inference: TypeAlias = Sandwich | Resampling | Jackknife | Woodruff
MEMORY = 1e9
"""Bytes that the records of a fit may take by default."""


@dataclass(frozen=True)
class Options:
    """How the answer is wanted: inference (None: whatever suits), starting values, what to do with missing values, who adds up
    the sums, whether the hash of a described file is checked, and which records are meant."""

    inference: Inference | None = None
    start: Sequence[float] | None = None
    missing: str = "error"
    engine: MakeEngine | Workers = LocalEngine
    verify: bool = True
    subset: Subset | None = None
    memory: float = MEMORY
    """Bytes that records may take; beyond, they are read block by block."""
    by_blocks: bool = False
    """Whether the method's equation adds up over blocks of records that are bound one by one."""
    passes: int | None = None
    """1: one Newton step over records that are read block by block; None: as many as the root takes."""
    streams: bool = False
    """Whether the method answers where records do not fit into memory."""
    formulas: tuple[ParsedFormula, ...] = ()
    """Formulas of the method, beside those of the question."""
    columns: tuple[str, ...] = ()
    """Further columns that the method reads."""

    @property
    def workers(self) -> Workers:
        """Who adds up records that are not in memory."""
        return self.engine if isinstance(self.engine, Workers) else Threads()


class Bound(Protocol):
    """What a method binds: an equation, and more that only the method knows."""

    @property
    def equation(self) -> Equation: ...


BoundT = TypeVar("BoundT", bound=Bound)


@dataclass(frozen=True)
class Task:
    """What an estimator is given.

    Attributes
    ----------
    plan : the question.
    table : the records in use, those with gaps left out.
    mechanism : what was done to them, or None.
    sampling : weights, counts, clusters and design of the records in use.
    notes : what was found while reading.
    beside : the sampling as the user said it, for a fit that repeats this one.
    domain : the conditions of the subset that its method has to see to: those on perturbed columns, and all of them for
        sums; records that clean columns leave out are not in the table.
    """

    plan: Question
    table: Table
    mechanism: Mechanism | None
    sampling: Sampling
    options: Options = field(default_factory=Options)
    notes: tuple[Diagnostic, ...] = ()
    beside: SamplingArguments = field(default_factory=SamplingArguments)
    domain: Subset | None = None
    learned: Learned | None = None
    """What a pass over records told that are not in memory: the table is then a random sample of them."""
    sampled: tuple[str, ...] = ()
    """Calls of the formula that learnt from that sample."""

    @classmethod
    def read(
        cls,
        plan: Question,
        data: Any,
        mechanism: Mechanism | str | Path | None,
        beside: SamplingArguments | None = None,
        options: Options | None = None,
    ) -> Task:
        """Read and check everything that was given."""
        options = options or Options()
        beside = replace(beside or SamplingArguments(), id=_id_of(options.inference))
        resolved = resolve_mechanism(mechanism, data, verify=options.verify)
        texts = {} if resolved.mechanism is None else resolved.mechanism.texts
        source = source_of(data, texts, options.memory)
        while source is not None:
            try:
                return cls._of_source(plan, source, resolved, beside, options)
            except NarrowTypeError as error:  # seen in the first pass, if at all
                source = source.widened(error)
        return cls._of_table(plan, read(data, text=texts), resolved, beside, options)

    @classmethod
    def _of_source(
        cls, plan: Question, source: Source, resolved: Resolved, beside: SamplingArguments, options: Options
    ) -> Task:
        """Records that come in batches: in memory where they fit there, else learned in a pass and summed block by block."""
        known = resolved.mechanism
        used = _columns_used(plan, known, options)
        beside = _by_unit(beside, known, used)
        columns = _read_columns(source, known, used, beside) if options.streams else source.names
        # Draws of clusters go by the order in which these appear, which a collapse would change.
        ordered = beside.clusters is not None and isinstance(options.inference, Resampling)
        collapsible = _collapsible(plan, options) and beside.design is None and not ordered
        found = taken(source, columns, options.memory, options.workers, collapsed=collapsible)
        if found is not None:
            return cls._of_table(plan, found.table, resolved, beside, options, found.counts)
        _refuse_blocks(source, beside, options)
        columns = _read_columns(source, known, used, beside)
        _refuse_unordered(source, beside, options.inference)
        chosen, domain = _chosen(options.subset, plan, known)
        reading = Reading(source.label, source.kind, tuple(columns), known, tuple(used), beside, chosen)
        described = None if resolved.told is None or resolved.told.rows == source.rows else known
        asked = Checks(described, pairs(known, used, columns, beside))
        learned = learn(source, reading, options.missing, options.workers, asked)
        resolved.refuse_other_rows(source.label, learned.rows)
        notes = learned.notes
        if known is not None:
            clean = {name: learned.table.column(name) for name in used if name not in known.columns}
            notes += tampered(learned.table, known, clean, learned.few.frequencies)
            notes += other_records(learned.rows, learned.levels, known, resolved.told if described else None)
            notes += agreed(learned.agreements, known, used, learned.sampling)
        # Methods with sums of their own leave records without a weight out before anything is learned.
        state, left = learned_states(
            (*plan.formulas, *options.formulas), learned.stream, learned.table, weighing=not options.by_blocks
        )
        table = replace(learned.table, learned=state, stands_for=learned.sampling.n)
        return cls(plan, table, known, learned.sampling, options, notes, beside, domain, learned, tuple(left))

    @classmethod
    def _of_table(
        cls,
        plan: Question,
        table: Table,
        resolved: Resolved,
        beside: SamplingArguments,
        options: Options,
        counts: Int | None = None,
    ) -> Task:
        """Records in memory; with counts (n,), each stands for so many equal ones."""
        known = resolved.mechanism
        rows = table.n if counts is None else int(counts.sum())
        resolved.refuse_other_rows(table.source, rows)
        if table.n == 0:
            raise DataError(f"{table.source} has no records")
        if known is not None:
            table = known.received(table)
            require_columns(table, known.columns, "the mechanism")
        used = _columns_used(plan, known, options)
        beside = _by_unit(beside, known, used)
        arrays = beside.arrays(table, known)
        keep, notes = complete(table, [*used, *_unit_column(table, known, used)], arrays, options.missing, counts)
        if counts is not None:
            arrays["frequencies"] = counts * arrays.get("frequencies", 1)
        chosen, domain = _chosen(options.subset, plan, known)
        if chosen is not None:
            keep &= _inside(chosen, table, keep)
        sampling = beside.sampling(arrays, keep)
        if known is not None:
            beside_them = {name: values for name, values in arrays.items() if name != "frequencies"}
            clean = {name: table.column(name) for name in used if name not in known.columns} | beside_them
            notes += tampered(table, known, clean, arrays.get("frequencies"))
            held = () if resolved.told is None else level_counts(table, known, counts)
            notes += other_records(rows, held, known, resolved.told)
        table = table if keep.all() else table.where(keep)
        if known is not None and _shared(known, used):
            sampling = replace(sampling, sharing=_sharing(table, known, used, sampling))
        elif known is not None:
            named = beside.clusters_name
            clusters = arrays["clusters"][keep] if "clusters" in arrays and named is None else named
            notes += noticed(table, known, used, clusters)
        if _collapsible(plan, options):
            table, sampling = collapsed(table, used, sampling)
        if sampling.frequencies is not None:
            table = replace(table, stands_for=sampling.n)
        return cls(plan, table, known, sampling, options, notes, beside, domain)

    @property
    def schema(self) -> Schema:
        return Schema() if self.mechanism is None else self.mechanism.schema

    @cached_property
    def function(self) -> EstimatingFunction:
        """The question with its levels, knots and scales learned from the records."""
        return self.plan.prepare(self.table, self.schema)

    @property
    def perturbed(self) -> list[Assignment]:
        """What was done to the columns that the question uses."""
        return [] if self.mechanism is None else self.mechanism.used_by(self.function.variables)

    @property
    def shares_draws(self) -> bool:
        """Whether records of one unit were given one draw in the columns that the question uses."""
        return _shared(self.mechanism, _columns_used(self.plan, self.mechanism, self.options))

    @property
    def facts(self) -> dict[str, str]:
        """What the head of the result says of the records."""
        facts = {} if self.options.subset is None else {"Subset": self.options.subset.text}
        if self.sampled:
            facts["Learned"] = f"{', '.join(self.sampled)} from a random sample of {self.table.n} records"
        if self.options.passes is not None and self.learned is None:
            facts["Passes"] = "the answer in full: the records are in memory, and no pass over a file is saved"
        return facts

    @property
    def start(self) -> Float | None:
        """The starting values given (d,), or None."""
        return checked_start(self.options.start, len(self.function.parameters))

    def engine(self, equation: Equation) -> Engine:
        """Sums over the task's records, which are in memory."""
        make = self.options.engine
        return LocalEngine(equation, self.sampling) if isinstance(make, Workers) else make(equation, self.sampling)

    def bound(self, bind: Callable[[Table, Float], BoundT]) -> tuple[BoundT, Engine]:
        """What a method binds to the records, table and row weights, and the sums over all of them."""
        learned = self.learned
        if learned is None:
            bound = bind(self.table, self.sampling.row_weights)
            return bound, self.engine(bound.equation)
        with unjudged() as ranks:
            bound = bind(self.table, learned.few.row_weights)
        stream = learned.stream
        kind = RankedEngine if bound.equation.about.ranked else StreamEngine
        engine = kind(
            bound.equation,
            self.sampling,
            few=LocalEngine(bound.equation, learned.few),
            jobs=stream.jobs,
            blocks=stream.blocks(lambda table, weights: bind(table, weights).equation),
            workers=stream.workers,
        )
        try:
            for rank in ranks:
                rank().judge()
        except FormulaError:
            engine.refuse_collinear()  # some of the records may show less than all of them
        return bound, engine

    @contextmanager
    def placing(self) -> Iterator[None]:
        """A value that is no level has a row in some block, or in the sample: it is looked for among all records, which have files and rows."""
        try:
            yield
        except DataError as error:
            if self.learned is None or error.column not in self.learned.stream.reading.columns:
                raise
            raise _placed(error, self.learned.stream.source) from None

    def weighing(self) -> Task:
        """The records with a positive weight; all of them under a design, whose units count without records too."""
        sampling = self.sampling.weighing
        if sampling is self.sampling:
            return self
        if self.learned is not None:  # blocks see to it
            return replace(self, sampling=sampling)
        return replace(self, table=self.table.where(self.sampling.live), sampling=sampling)

    @property
    def settings(self) -> Settings:
        """What it takes to ask again, without the records. A result keeps no hold of pools and clusters, so that it can be saved."""
        engine = LocalEngine if isinstance(self.options.engine, Workers) else self.options.engine
        options = replace(self.options, start=None, engine=engine)
        return Settings(self.mechanism, options, self.beside.by_name, self.beside.as_arrays)


@dataclass(frozen=True)
class Settings:
    """How an analysis was set up, without any record of it.

    Attributes
    ----------
    beside : the sampling as far as it was given by names of columns.
    arrays : what was given as arrays, and must be given again.
    """

    mechanism: Mechanism | None
    options: Options
    beside: SamplingArguments
    arrays: tuple[str, ...]

    def task(self, plan: Question, data: Any, given: Mapping[str, Any]) -> Task:
        """Another question of a file, set up in the same way."""
        absent = [name for name in self.arrays if name not in given]
        if absent:
            raise PramanaError(f"{absent[0]} came as an array, and a result keeps no array: give {absent[0]}= again")
        strange = [name for name in given if name not in (*self.beside.names, *self.arrays)]
        if strange:
            raise PramanaError(f"{strange[0]}= was no part of this fit: leave it out, or fit again with it")
        return Task.read(plan, data, self.mechanism, replace(self.beside, **given), self.options)


def _placed(error: DataError, source: Source) -> DataError:
    """The same of all records of a source."""
    rows, count, first = 0, 0, 0
    unseen: dict[Any, None] = {}
    for batch in source.batches([error.column]):
        values = source.table(batch).column(error.column)
        unknown = np.flatnonzero((level_positions(values, error.levels) < 0) & ~is_missing(values))
        first = rows + int(unknown[0]) if unknown.size and not count else first
        rows, count = rows + len(values), count + unknown.size
        unseen |= dict.fromkeys(values[unknown].tolist())
    return unknown_levels(error.column, error.levels, list(unseen), count, source.place(first)) if count else error


def bytes_of(memory: float | str | None) -> float:
    """A budget of memory: bytes, or a text such as "500 MB" or "2 GB".

    >>> bytes_of("500 MB"), bytes_of(2e9)
    (500000000.0, 2000000000.0)
    """
    if memory is None:
        return MEMORY
    memory = memory if type(memory) in (int, float) else str(memory)
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?)i?B?\s*", str(memory), re.IGNORECASE)
    try:
        size = float(memory) if found is None else float(found[1]) * 1000.0 ** " kmgt".index(found[2].lower() or " ")
    except ValueError:
        size = -1.0
    if not 0 < size < math.inf:
        raise PramanaError(
            f"memory={memory!r} is no amount of memory: give bytes, or a text such as '500 MB' or '2 GB'"
        )
    return size


def checked_passes(passes: int | None) -> int | None:
    if passes not in (None, 1) or isinstance(passes, bool):
        raise PramanaError(
            f"passes={passes!r} is neither 1, one Newton step, nor None, as many passes as the root takes"
        )
    return passes


def inference_of(inference: Inference | str | None) -> Inference | None:
    """A kind of inference by its name, or as it is."""
    if inference is None or isinstance(inference, Inference):
        return inference
    known = {"sandwich": Sandwich, "resampling": Resampling, "jackknife": Jackknife, "woodruff": Woodruff}
    if str(inference).lower() not in known:
        raise PramanaError(f"inference {inference!r} is unknown: {suggestion(str(inference), known)}")
    return known[str(inference).lower()]()


def _collapsible(plan: Question, options: Options) -> bool:
    """Cells will do: methods that need all records may read other columns too, and functions that learn count every record once."""
    formulas = (*plan.formulas, *options.formulas)
    return options.streams and _id_of(options.inference) is None and not learning_calls(formulas)


def _refuse_blocks(source: Source, beside: SamplingArguments, options: Options) -> None:
    """Records that do not fit into memory are for those who add up over blocks of them."""
    if not options.streams:
        raise PramanaError(
            f"the records of {source.label} do not fit into {options.memory / 1e9:g} GB, and this method needs them all at once: raise "
            "memory=, fit a sample of the records, or use method='reversion', which adds up over blocks"
        )
    if options.engine is not LocalEngine and not isinstance(options.engine, Workers):
        raise PramanaError(
            f"the records of {source.label} do not fit into {options.memory / 1e9:g} GB, and blocks of them are added up by the local "
            "engine on the CPU: raise memory=, or leave out engine= and device="
        )
    if beside.crossed_names:
        raise PramanaError(
            f"two-way clusters take the records of {source.label} in memory, and they do not fit into {options.memory / 1e9:g} GB: raise memory=, "
            "or name one column of clusters"
        )
    if beside.as_arrays:
        raise PramanaError(
            f"{beside.as_arrays[0]} came as an array, and the records are read in blocks: name a column of the file"
        )


def _refuse_unordered(source: Source, beside: SamplingArguments, inference: Inference | None) -> None:
    """Draws of single records go by their places, which must be the same in every pass."""
    units = beside.clusters is not None or beside.design is not None
    if isinstance(inference, Resampling) and not (source.ordered or units or inference.id):
        raise PramanaError(
            f"{source.label} promises no order of its records, by which their draws would go: name a column that tells them apart, as in "
            "Resampling(id='person'), or use Sandwich()"
        )


def _id_of(inference: Inference | None) -> str | None:
    return inference.id if isinstance(inference, Resampling) else None


def _shared(mechanism: Mechanism | None, used: Sequence[str]) -> bool:
    return mechanism is not None and mechanism.unit is not None and bool(mechanism.used_by(used))


def _sharing(table: Table, known: Mechanism, used: Sequence[str], sampling: Sampling) -> Int | None:
    """Units lie whole in the clusters of one column, where there are two: their records are then counted as dependent."""
    if sampling.crossed is None:
        return sharing(table, known, used, sampling)
    first, second, _ = sampling.ways
    try:
        return sharing(table, known, used, first)
    except DataError:
        return sharing(table, known, used, second)


def _by_unit(beside: SamplingArguments, mechanism: Mechanism | None, used: Sequence[str]) -> SamplingArguments:
    """Records that share a draw depend on each other: they are clustered by their unit, unless the user says otherwise."""
    if mechanism is None or mechanism.unit is None or not _shared(mechanism, used):
        return beside
    design = beside.design
    if isinstance(design, SurveyDesign):
        plain = design.clusters is None and not len(design.replicate_weights)
        return replace(beside, design=replace(design, clusters=mechanism.unit.column)) if plain else beside
    return beside if beside.clusters is not None else replace(beside, clusters=mechanism.unit.column)


def _unit_column(table: Table, mechanism: Mechanism | None, used: Sequence[str]) -> list[str]:
    """The column by which records share a draw, where there is one and the file has it."""
    unit = mechanism.unit if mechanism is not None and _shared(mechanism, used) else None
    return [unit.column] if unit is not None and unit.column in table.names else []


def _chosen(subset: Subset | None, plan: Question, mechanism: Mechanism | None) -> tuple[Subset | None, Subset | None]:
    """Conditions that leave records out, and those that a method has to see to."""
    if subset is None:
        return None, None
    subset.check(Schema() if mechanism is None else mechanism.schema)
    if plan.sums:
        return None, subset
    return subset.split(() if mechanism is None else mechanism.columns)


def _inside(subset: Subset, table: Table, keep: Bool) -> Bool:
    """Records (n,) that clean columns choose; those with gaps are out already."""
    inside = np.zeros(table.n, dtype=bool)
    inside[keep] = subset.inside({name: table.column(name)[keep] for name in subset.variables}, int(keep.sum()))
    if not inside.any():
        raise DataError(f"no record is in the subset {subset.text}: nothing is left to fit")
    return inside


def _read_columns(source: Source, known: Mechanism | None, used: Sequence[str], beside: SamplingArguments) -> list[str]:
    """What is read of a source: the columns in use, those of the mechanism, and those that tell how records were sampled."""
    own = [] if known is None else known.file_columns
    unit = None if known is None or known.unit is None else known.unit.column
    named = [c for c in (*used, *beside.column_names) if known is None or c not in known.columns]
    source.require([*named, *own])
    return list(dict.fromkeys([*named, *own, *([unit] if unit in source.names else [])]))


def _columns_used(plan: Question, mechanism: Mechanism | None, options: Options) -> list[str]:
    used = [*plan.variables, *(() if options.subset is None else options.subset.variables), *options.columns]
    used += [name for formula in options.formulas for name in formula.covariates]
    if mechanism is not None:
        _refuse_reports(mechanism, used)
        for assignment in mechanism.used_by(used):
            used += [*assignment.columns, *assignment.channel.context]
    return list(dict.fromkeys(used))


def _refuse_reports(mechanism: Mechanism, used: Sequence[str]) -> None:
    """Columns of reports are perturbed, though their names are not those of the mechanism's variables."""
    for assignment in mechanism.assignments:
        named = [c for c in assignment.reports if c in used]
        if named:
            raise DataError(
                f"column {named[0]!r} holds reports of {assignment.columns[0]!r}, which are noise and no values: ask for "
                f"{assignment.columns[0]!r}, whose levels are known from the mechanism"
            )

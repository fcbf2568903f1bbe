"""Mechanism: which channel was applied to which columns."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pramana.arrays import Column, Columns, Int
from pramana.errors import MechanismError, PramanaWarning, confidential, listing, printable, quoted, suggestion
from pramana.frames import Kind, Level, Schema, Table, Variable, decode, encode, infer_kind, read
from pramana.frames.levels import is_number, is_unsigned, lacks_half, refuse_halved_names
from pramana.frames.replacement import replace_columns
from pramana.frames.table import require_columns
from pramana.mechanism.channel import CONDITIONS, Channel, Document
from pramana.mechanism.channels.additive_noise import GridNoise
from pramana.mechanism.channels.reports import ReportChannel
from pramana.mechanism.channels.transition import TransitionMatrix, told_given

if TYPE_CHECKING:
    from pramana.mechanism.draws.keyed import Key


@dataclass(frozen=True)
class Assignment:
    """A channel and the columns that went through it together."""

    columns: tuple[str, ...]
    channel: Channel

    def component(self, position: int) -> tuple[Level, ...] | None:
        """Levels of one of the columns."""
        levels = self.channel.levels
        if levels is None or len(self.columns) == 1:
            return levels
        return tuple(dict.fromkeys(level[position] for level in levels))  # type: ignore[index]

    def variables(self) -> Iterable[Variable]:
        """Kind and levels of every column."""
        for position, name in enumerate(self.columns):
            levels = self.component(position)
            joint = len(self.columns) > 1 and levels is not None
            kind = infer_kind(levels) if joint and levels else self.channel.kind
            channel = self.channel
            yield Variable(
                name, kind, levels, smooth_only=channel.smooth_only, keeps=channel.keeps, lattice=channel.lattice
            )

    def values(self, place: int, codes: Column) -> Column:
        """Values of one of the columns, from codes of the channel."""
        levels = self.channel.levels
        if levels is None:
            return codes if codes.ndim == 1 else codes[:, place]
        return decode(codes, levels if len(self.columns) == 1 else [level[place] for level in levels])  # type: ignore[index]

    def released(self, drawn: Column) -> dict[str, Column]:
        """The columns of a released file, from what the channel drew."""
        if isinstance(self.channel, ReportChannel):
            return dict(zip(self.reported_in, self.channel.written(drawn), strict=True))
        return {name: self.values(place, drawn) for place, name in enumerate(self.columns)}

    @property
    def reports(self) -> tuple[str, ...]:
        """Columns of a received table (see `Mechanism.received`) with reports that are no levels; none for most channels."""
        if not isinstance(self.channel, ReportChannel):
            return ()
        return self.channel.reported or (f"{self.columns[0]} (as released)",)

    @property
    def reported_in(self) -> tuple[str, ...]:
        """The columns of the file with the reports, as their owner calls them."""
        return self.channel.reported or self.columns if isinstance(self.channel, ReportChannel) else ()

    def refuse_reports(self, why: str) -> None:
        """An error where released values are no levels."""
        if self.reports:
            raise MechanismError(
                f"{self.columns[0]!r} was released as reports of a {type(self.channel).__name__}, which are no levels, and {why}: use "
                "method='reversion' or 'likelihood', in compare methods=['reversion', 'likelihood']"
            )

    def margin(self, wanted: Collection[str]) -> Assignment:
        """The part that concerns some of the columns: joint noise in others need not be known, while joint levels stay together."""
        places = [k for k, name in enumerate(self.columns) if name in wanted]
        if self.channel.levels is not None or len(places) == len(self.columns):
            return self
        return Assignment(tuple(self.columns[k] for k in places), self.channel.margin(places))

    @property
    def margins(self) -> list[Assignment]:
        """Joint noise column by column; every other assignment as it is."""
        return [self] if self.channel.levels is not None else [self.margin([name]) for name in self.columns]

    @property
    def numeric(self) -> bool:
        """Whether the columns are numbers with noise, which have no levels."""
        return self.channel.levels is None

    @property
    def matrices(self) -> dict[Level | None, TransitionMatrix]:
        """The transition matrix of every stratum, under None where there are no strata; what risk and release work with."""
        parts = {stratum: part for stratum, part in self.channel.parts.items() if isinstance(part, TransitionMatrix)}
        if len(parts) < len(self.channel.parts):
            remedy = "on a clamped grid noise has one, GeometricNoise(..., bounds=...).clamped(), and a FreeMatrix where its parameters have values, matrix.at(...)"
            if isinstance(self.channel, ReportChannel):
                remedy = "make the reports with Mechanism.perturb, where the true values are, and save the mechanism beside them, mechanism.save(...)"
            raise MechanismError(
                f"the channel of {listing(self.columns)} is a {type(self.channel).__name__}: this needs transition matrices, while "
                f"Mechanism.perturb and fit work with any channel; {remedy}"
            )
        return parts

    @property
    def noises(self) -> dict[Level | None, GridNoise]:
        """The noise of every stratum, under None where there are no strata; nothing for a channel with levels."""
        return {stratum: part for stratum, part in self.channel.parts.items() if isinstance(part, GridNoise)}

    @property
    def measured(self) -> bool:
        """Whether a matrix of the channel is an estimate."""
        return any(part.uncertainty is not None for part in self.channel.parts.values())

    def strata(self, table: Table) -> Int:
        """Position of each record's stratum (n,); zeros for a channel without strata."""
        if not self.channel.context:
            return np.zeros(table.n, dtype=np.int64)
        by = self.channel.context[0]
        return encode(table.column(by), list(self.channel.parts), column=by)

    def encoded(self, table: Table) -> Column:
        """Released values as the channel reverts them."""
        if isinstance(self.channel, ReportChannel):
            return self.channel.read([table.column(c) for c in self.reports], self.reported_in)
        if len(self.columns) == 1 and self.channel.levels is not None:
            codes = table.codes(self.columns[0], self.channel.levels)
            if codes is not None:
                return codes
        return self.channel.encode([table.column(c) for c in self.columns], self.columns)

    def context(self, table: Table) -> Columns:
        return {name: table.column(name) for name in self.channel.context}


@dataclass(frozen=True)
class Unit:
    """Whose secret a value is where one person has several records: records with the same value of `column` share their draws.

    Attributes
    ----------
    varies : the true value may differ between a unit's records. Their draws then belong to unit and level, so that unequal
        released values prove a change: no finite epsilon holds, and k times epsilon for k distinct values only given the
        pattern of changes.
    """

    column: str
    varies: bool = False


class Mechanism:
    """The randomisation of a file: columns (or tuples of columns) and their channels.

    Parameters
    ----------
    channels : from column name, or tuple of names, to channel.
    unit : the column that identifies persons with several records, whose rows share one draw; a name, or a `Unit`.

    >>> from pramana import TransitionMatrix
    >>> P = TransitionMatrix.randomized_response(["low", "mid", "high"], keep=0.85)
    >>> Mechanism({"edu": P})
    Mechanism(edu: 3 levels, epsilon 2.43)
    """

    def __init__(self, channels: Mapping[str | tuple[str, ...], Channel], unit: Unit | str | None = None) -> None:
        if not isinstance(channels, Mapping) or not channels:
            raise MechanismError(
                "a Mechanism needs a dictionary from column names to channels, with at least one entry"
            )
        self.assignments = tuple(Assignment(_columns_of(key), channel) for key, channel in channels.items())
        for assignment in self.assignments:
            _check_assignment(assignment)
        self.unit = Unit(unit) if isinstance(unit, str) else unit
        self.labels: Mapping[str, Mapping[Level, Level]] = {}
        """Labels that data may hold in place of the levels of a column, of a mechanism that was relabelled."""
        self._refuse_halves()
        self._refuse_overlap()

    def _refuse_halves(self) -> None:
        unit = [] if self.unit is None else [self.unit.column]
        refuse_halved_names([*self.columns, *self.context, *unit], MechanismError)
        for assignment in self.assignments:
            if any(map(lacks_half, assignment.channel.parts)):
                raise MechanismError(
                    f"a value of {listing(assignment.channel.context)}, by which {listing(assignment.columns)} is drawn, holds half a "
                    "character (a lone surrogate), which no file can hold: decode the text again, with its right encoding"
                )

    def _refuse_overlap(self) -> None:
        own = [c for a in self.assignments for c in a.reported_in if c not in a.columns]
        columns = Counter([*self.columns, *own])
        twice = [c for c, count in columns.items() if count > 1]
        if twice:
            raise MechanismError(f"column(s) {listing(twice)} appear more than once: a column passes one channel")
        if self.unit is not None and self.unit.column in columns:
            raise MechanismError(
                f"the unit {self.unit.column!r} is perturbed itself: units are told apart by a clean column"
            )
        for assignment in self.assignments:
            perturbed = [c for c in assignment.channel.context if c in columns]
            if perturbed:
                raise MechanismError(
                    f"column {perturbed[0]!r} stratifies {listing(assignment.columns)} but is perturbed itself: "
                    "stratify by an unperturbed column, or give one joint matrix for both"
                )

    @property
    def columns(self) -> list[str]:
        """Every perturbed column."""
        return [c for a in self.assignments for c in a.columns]

    @property
    def file_columns(self) -> list[str]:
        """The columns of a released file that hold what was perturbed, and those that decide which matrix applies."""
        own = [c for a in self.assignments for c in (a.reported_in if a.reports else a.columns)]
        return list(dict.fromkeys([*own, *self.context]))

    @property
    def noisy(self) -> list[str]:
        """The columns that are numbers with noise."""
        return [c for a in self.assignments if a.numeric for c in a.columns]

    @property
    def context(self) -> list[str]:
        """The unperturbed columns that decide which matrix applies."""
        return list(dict.fromkeys(c for a in self.assignments for c in a.channel.context))

    @property
    def schema(self) -> Schema:
        """Kind and levels of the perturbed columns, and the levels of the stratifying ones."""
        return Schema({v.name: v for a in self.assignments for v in a.variables()})

    @property
    def texts(self) -> dict[str, tuple[Level, ...]]:
        """Levels of the columns, perturbed or stratifying, that a CSV reader must not guess at: "01" is text, and whole numbers may
        be larger than it expects."""
        levels = {name: variable.levels for name, variable in self.schema.variables.items() if variable.levels}
        levels |= {by: tuple(a.channel.parts) for a in self.assignments for by in a.channel.context}
        levels |= {name: tuple(old) for name, old in self.labels.items() if old}
        levels = {name: found for name, found in levels.items() if isinstance(found[0], str) or is_unsigned(found)}
        reports = {
            c: a.channel.texts for a in self.assignments if isinstance(a.channel, ReportChannel) for c in a.reported_in
        }
        known = {name: found for name, found in levels.items() if name not in reports}
        return known | {name: found for name, found in reports.items() if found}

    @property
    def epsilon(self) -> float:
        """Privacy loss of a whole record, or of a unit with all its records: the columns' losses add."""
        if self.unit is not None and self.unit.varies:
            return float("inf")
        return float(sum(a.channel.epsilon for a in self.assignments))

    @property
    def rho(self) -> float:
        """Privacy loss of a whole record, or unit, as concentrated differential privacy: finite with Gaussian noise."""
        if self.unit is not None and self.unit.varies:
            return float("inf")
        return float(sum(a.channel.rho for a in self.assignments))

    def epsilon_at(self, delta: float) -> float:
        """Epsilon of (ε, δ) differential privacy of a whole record, or unit: infinite where δ is too small for uniform noise.

        Columns with an epsilon of their own add it; those with Gaussian noise add ρ + 2√(ρ ln(1/δ)), or all columns do together where
        that is less. Uniform noise spends its part of δ first.
        """
        if not (is_number(delta) and 0 < delta < 1):
            raise MechanismError(f"delta={delta!r} must lie between 0 and 1")
        left = delta - sum(a.channel.delta for a in self.assignments)
        if left <= 0 or (self.unit is not None and self.unit.varies):
            return float("inf")
        counted = [a.channel for a in self.assignments if a.channel.delta == 0]
        pure = sum(c.epsilon for c in counted if math.isfinite(c.epsilon))
        losses = [(0.0, sum(c.rho for c in counted)), (pure, sum(c.rho for c in counted if math.isinf(c.epsilon)))]
        return float(min(known + rho + 2 * math.sqrt(rho * math.log(1 / left)) for known, rho in losses))

    @property
    def conditional(self) -> list[str]:
        """Columns whose epsilon holds only given something that comes from the confidential data."""
        return [c for a in self.assignments if a.channel.conditional for c in a.columns]

    @property
    def epsilon_condition(self) -> str:
        """What must be said after epsilon: nothing, or what of which columns it is conditional on."""
        by = {
            phrase: [c for a in self.assignments if what in a.channel.given for c in a.columns]
            for what, phrase in CONDITIONS.items()
        }
        told = " and ".join(f"{phrase} of {listing(columns)}" for phrase, columns in by.items() if columns)
        return f", given {told}" if told else ""

    def with_unit(self, unit: Unit | str | None) -> Mechanism:
        """The same channels, drawn once for all records of a unit."""
        return self._with({_key(a): a.channel for a in self.assignments}, unit)

    def _with(
        self,
        channels: Mapping[str | tuple[str, ...], Channel],
        unit: Unit | str | None,
        labels: Mapping[str, Mapping[Level, Level]] | None = None,
    ) -> Mechanism:
        made = Mechanism(channels, unit)
        made.labels = self.labels if labels is None else labels
        return made

    def relabelled(self, labels: Mapping[str, Mapping[Level, Level]]) -> Mechanism:
        """The same randomisation with other names of levels, which terms and tables then show. Data may hold the old ones or the new; a
        description that is saved has the new ones alone.

        Parameters
        ----------
        labels : for each column the new name of every level that gets one.

        >>> from pramana import TransitionMatrix
        >>> received = Mechanism({"edu": TransitionMatrix.randomized_response(["1", "2", "3"], keep=0.85)})
        >>> received.relabelled({"edu": {"1": "low", "2": "mid", "3": "high"}}).schema["edu"].levels
        ('low', 'mid', 'high')
        """
        made = self
        for column, names in _by_column(labels, "labels", {"edu": {"1": "low"}}).items():
            made = made._relabelled(column, names)
        return made

    def _relabelled(self, column: str, names: Any) -> Mechanism:
        assignment, levels = self._leveled(column)
        if not isinstance(names, Mapping):
            raise MechanismError(f"the labels of {column!r} must map old ones to new ones, as in {{'1': 'low'}}")
        unknown = [old for old in names if old not in levels]
        if unknown:
            raise MechanismError(
                f"{column!r} has no level {unknown[0]!r}: {suggestion(str(unknown[0]), map(str, levels))}"
            )
        changed = {old: new for old, new in names.items() if old != new}
        fresh = [changed.get(level, level) for level in levels]
        if len(set(fresh)) < len(fresh):
            raise MechanismError(
                f"two levels of {column!r} would have one name: levels are merged by the custodian, before the release, and not by labels"
            )
        mixed = [new for new in changed.values() if new in levels or new in self.labels.get(column, {})]
        if mixed:
            raise MechanismError(
                f"{mixed[0]!r} was the name of another level of {column!r}, so that data could mean either: choose new names"
            )
        kind = assignment.channel.kind
        kind = None if kind == "numeric" and not all(map(is_number, fresh)) else kind
        channel = assignment.channel.arranged(range(len(levels)), fresh, kind)
        before = {old: changed.get(new, new) for old, new in self.labels.get(column, {}).items()}
        return self._changed(assignment, channel, {**self.labels, column: {**before, **changed}})

    def reordered(self, order: Mapping[str, Sequence[Level]], *, kind: Kind | None = None) -> Mechanism:
        """The same randomisation with levels in another order, in which the first is the reference; rows and columns of P go along.

        Parameters
        ----------
        order : for each column all of its levels.
        kind : what the levels are then, such as "ordinal"; as before by default.

        >>> from pramana import TransitionMatrix
        >>> received = Mechanism({"edu": TransitionMatrix(["high", "low"], [[0.9, 0.3], [0.1, 0.7]])})
        >>> received.reordered({"edu": ["low", "high"]}).assignments[0].channel.matrix
        array([[0.7, 0.1],
               [0.3, 0.9]])
        """
        made = self
        for column, wanted in _by_column(order, "order", {"edu": ["low", "high"]}).items():
            assignment, levels = made._leveled(column)
            if sorted(map(repr, wanted)) != sorted(map(repr, levels)):
                raise MechanismError(
                    f"the order of {column!r} must hold each of its {len(levels)} levels once: {quoted(listing(levels))}"
                )
            places = [levels.index(level) for level in wanted]
            channel = assignment.channel.arranged(places, list(wanted), kind or assignment.channel.kind)
            made = made._changed(assignment, channel, made.labels)
        return made

    def _changed(
        self, assignment: Assignment, channel: Channel, labels: Mapping[str, Mapping[Level, Level]]
    ) -> Mechanism:
        channels = {_key(a): channel if a is assignment else a.channel for a in self.assignments}
        return self._with(channels, self.unit, labels)

    def _leveled(self, column: str) -> tuple[Assignment, tuple[Level, ...]]:
        """The assignment and the levels of a column that a channel of its own perturbs."""
        found = [a for a in self.assignments if column in a.columns]
        if not found:
            raise MechanismError(f"the mechanism has no column {column!r}: {suggestion(column, self.columns)}")
        levels = found[0].channel.levels
        if levels is None or len(found[0].columns) > 1:
            why = "is numbers with noise, without levels" if levels is None else "shares one matrix with others"
            raise MechanismError(f"column {column!r} {why}: its levels keep their names and their order")
        return found[0], levels

    @property
    def by_column(self) -> Mechanism:
        """Joint noise column by column, as if each had been drawn by itself: what is published or tested of one column at a time."""
        return self._with({_key(m): m.channel for a in self.assignments for m in a.margins}, self.unit)

    def with_channel(self, assignment: Assignment, channel: Channel) -> Mechanism:
        """The same with another channel for one of the assignments."""
        return self._changed(assignment, channel, self.labels)

    def used_by(self, variables: Iterable[str]) -> list[Assignment]:
        """The assignments that touch any of the variables, joint noise as far as it does."""
        wanted = set(variables)
        return [a.margin(wanted) for a in self.assignments if wanted.intersection(a.columns)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mechanism) and self.document() == other.document()

    def __hash__(self) -> int:
        return hash((self.unit, *self.columns))

    def __repr__(self) -> str:
        parts = [f"{' × '.join(a.columns)}: {_brief(a.channel)}" for a in self.assignments]
        shared = [] if self.unit is None else [f"one draw a {self.unit.column}"]
        return printable(f"Mechanism({'; '.join([*parts, *shared])})")

    @confidential
    def perturb(
        self,
        frame: Any,
        *,
        key: Key | bytes | str | Path | None = None,
        id: str | Column | None = None,
        seed: int | None = None,
    ) -> Any:
        """A copy of the frame, of the same kind, with the perturbed columns drawn anew.

        Randomness is a fresh cryptographic keystream that is never stored. Missing values are left alone. Where the mechanism
        has a unit, all records of a unit get one draw.

        Parameters
        ----------
        key : a secret of at least 32 bytes, or the file that holds it. The draws then depend on the key, the column, P,
            the record's identifier and its true level alone, so that perturbing a record again gives the same value.
        id : with a key, the column (or an array) that identifies the records; no two may be equal. A unit takes its place.
        seed : for tests and examples: it makes the draws repeatable, so anyone who knows it can undo them.
        """
        from pramana.mechanism.draws.perturbation import perturbed, randomness_of

        if seed is not None:
            warnings.warn(
                "perturb(seed=...) is reproducible and therefore not secure: leave the seed out for a release",
                PramanaWarning,
                stacklevel=3,
            )
        source = randomness_of(self, key=key, named=id is not None, seed=seed)
        table = read(frame)
        require_columns(table, self.columns, "the mechanism")
        require_columns(table, self.context, "the mechanism's strata")
        require_columns(table, [] if self.unit is None else [self.unit.column], "the mechanism's unit")
        identifiers = id if self.unit is None else self.unit.column
        return self.replaced(frame, table, perturbed(self, table, source, identifiers))

    def replaced(self, frame: Any, table: Table, released: Mapping[str, Column]) -> Any:
        """The frame with the released columns; where reports lie in columns of their own, the true values are taken out."""
        fresh = {c for a in self.assignments for c in a.reported_in}
        gone = [c for a in self.assignments if a.reports for c in a.columns if c not in a.reported_in]
        return replace_columns(frame, table, released, fresh=fresh, dropped=gone, noisy=self.noisy)

    def received(self, table: Table) -> Table:
        """The table with reports set aside, under names of their own, and the level of largest weight in their place; and with the levels
        of this mechanism where it holds labels of before."""
        for name in self.labels:
            table = _renamed(table, name, self.labels[name])
        for assignment in self.assignments:
            if isinstance(assignment.channel, ReportChannel):
                table = _received(table, assignment, assignment.channel, self.unit)
        return table

    @property
    def of_truth(self) -> Mechanism:
        """For the true file: its columns hold levels, where the released one has reports."""
        return self._with({_key(a): _of_truth(a.channel) for a in self.assignments}, self.unit)

    def document(self) -> Document:
        """The versioned description, in JSON types."""
        from pramana.mechanism.description.document import to_document

        return to_document(self)

    def save(self, path: str | Path) -> None:
        """Write the description as JSON; the file appears complete or not at all."""
        from pramana.mechanism.description.document import save

        save(self, Path(path))

    @staticmethod
    def load(path: str | Path, *, verify: bool = False) -> Mechanism:
        """Read a mechanism file, a datapackage.json, or the description of a released data file.

        The description of a data file must agree with the file's rows, size and columns; with `verify` also with its hash,
        for which the whole file is read.
        """
        from pramana.mechanism.description.reading import load

        return load(Path(path), verify=verify)


def _by_column(given: Any, name: str, example: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise MechanismError(f"{name}={given!r} must be by column, as in {example!r}")
    return given


def _renamed(table: Table, name: str, labels: Mapping[Level, Level]) -> Table:
    """The table with old labels of a column replaced by the levels that they stand for."""
    if name not in table.names:
        return table
    values = table.column(name).tolist()
    if not any(value in labels for value in values):
        return table
    return table.replaced(name, [None if value is None else labels.get(value, value) for value in values])


def _received(table: Table, assignment: Assignment, channel: ReportChannel, unit: Unit | None) -> Table:
    name, own = assignment.columns[0], channel.reported
    if not own and assignment.reports[0] in table.names:
        return table  # it was received before
    require_columns(table, assignment.reported_in, f"the channel of {name!r}")
    if own and name in table.names:
        raise MechanismError(
            f"the data hold {listing(own, 4)}, which are the reports of {name!r}, and a column {name!r} as well: drop or rename it, "
            "it can only be the truth or something else"
        )
    columns = {c: table.column(c) for c in assignment.reported_in}
    present = ~table.missing(assignment.reported_in)
    reports = [c[present] for c in columns.values()]
    people = table.column(unit.column)[present] if unit is not None and unit.column in table.names else None
    channel.check_together(reports, list(columns), int(present.sum()) if people is None else len(set(people.tolist())))
    nodes = channel.revert(channel.read(reports, list(columns)), {})
    level = np.full(table.n, None, dtype=object)
    level[present] = decode(channel.likeliest(nodes), channel.levels)
    if not own:
        table = table.replaced(assignment.reports[0], columns[name].tolist())
    return table.replaced(name, level.tolist())


def _of_truth(channel: Channel) -> Channel:
    if not isinstance(channel, ReportChannel):
        return channel
    return TransitionMatrix.randomized_response(channel.levels, 1.0, kind=channel.kind)


def refuse_measured(mechanism: Mechanism | None, purpose: str) -> None:
    """Where P has to be known."""
    found = [] if mechanism is None else [a for a in mechanism.assignments if a.measured]
    if found:
        raise MechanismError(
            f"the transition matrix of {listing(found[0].columns)} was measured, and {purpose}: take it as known with matrix.measured(None)"
        )


def _key(assignment: Assignment) -> str | tuple[str, ...]:
    """Under which a dictionary of channels has it."""
    return assignment.columns if len(assignment.columns) > 1 else assignment.columns[0]


def _columns_of(key: object) -> tuple[str, ...]:
    columns = (key,) if isinstance(key, str) else key if isinstance(key, tuple) else ()
    if not columns or not all(isinstance(c, str) for c in columns):
        raise MechanismError(f"{key!r} is not a column name: give text, or a tuple of names for a joint channel")
    return columns


def _check_assignment(assignment: Assignment) -> None:
    columns, channel = assignment.columns, assignment.channel
    if not isinstance(channel, Channel):
        raise MechanismError(
            f"the channel of {listing(columns)} is a {type(channel).__name__}: give a TransitionMatrix, for instance "
            "TransitionMatrix.from_rows(levels, matrix)"
        )
    if len(columns) > 1 and isinstance(channel, ReportChannel):
        raise MechanismError(
            f"the {type(channel).__name__} of {listing(columns)} reports one variable: give it the variable's name, and the columns of the "
            f"reports as {type(channel).__name__}(..., columns=[...])"
        )
    if channel.levels is None and len(columns) != channel.dimension:
        if channel.dimension == 1:
            raise MechanismError(
                f"noise is added to one column, not to {listing(columns)}: give each a channel of its own, or JointGaussianNoise(covariance) to "
                "all of them"
            )
        raise MechanismError(
            f"the {type(channel).__name__} of {listing(columns)} has a covariance of {channel.dimension} columns: name as many, in its order"
        )
    if len(columns) > 1 and channel.levels is not None:
        wrong = [v for v in channel.levels if not (isinstance(v, tuple) and len(v) == len(columns))]
        if wrong:
            raise MechanismError(
                f"the joint channel of {listing(columns)} has the level {wrong[0]!r}: every level must be a tuple of "
                f"{len(columns)} values"
            )


def _brief(channel: Channel) -> str:
    size = f"{len(channel.levels)} levels, " if channel.levels is not None else f"{channel}, "
    by = f" by {', '.join(channel.context)}" if channel.context else ""
    return f"{size}epsilon {channel.epsilon:.3g}{by}{told_given(channel)}"

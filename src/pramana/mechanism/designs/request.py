"""A person's request for the randomisation of one column, or of linked ones, and the channel that answers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from pramana.arrays import Bool, Column
from pramana.errors import DataError, MechanismError, suggestion
from pramana.frames import Kind, Level, Table
from pramana.frames.table import require_columns
from pramana.mechanism import designs
from pramana.mechanism.channel import CONDITIONS, Channel
from pramana.mechanism.channels.checks import Keep, checked_epsilon
from pramana.mechanism.channels.stratified import Stratified
from pramana.mechanism.channels.transition import TransitionMatrix
from pramana.mechanism.designs.invariance import CONSTRUCTIONS
from pramana.mechanism.designs.merging import OTHER, merged, people

FROM_EPSILON = ("randomized-response", "block-design", "best")
LEVEL_LIMIT = 1000
GivenShares: TypeAlias = "tuple[float, ...] | Mapping[Any, float] | Literal['data'] | None"


class ColumnRequest(ABC):
    """What a person asks for one column, or for linked ones.

    Attributes
    ----------
    merged : from value to level. missing_level : the level that stands for a missing value.
    by : the unperturbed column that decides which matrix or noise applies, or None.
    """

    columns: tuple[str, ...]
    merged: Mapping[Any, Level] = MappingProxyType({})
    merge_below: int | None = None
    missing_level: Level | None = None
    by: str | None = None

    @property
    def name(self) -> str:
        return " × ".join(self.columns)

    @property
    def conditional(self) -> bool:
        """Whether epsilon holds only given something that comes from the confidential file."""
        return False

    @property
    def reads_data(self) -> bool:
        """Whether `resolved` takes something from the data."""
        return False

    @abstractmethod
    def channel(self) -> Channel: ...

    @abstractmethod
    def resolved(self, table: Table | None, unit: str | None = None) -> ColumnRequest:
        """With what comes from the data written out."""

    def merging(self, below: int) -> ColumnRequest:  # noqa: ARG002
        """With rare levels merged, where there are levels."""
        return self

    def note(self) -> str | None:
        """What must be said beside epsilon."""
        return None


@dataclass(frozen=True)
class Request(ColumnRequest):
    """What a person asks for; `resolved` fills in what the data say, `channel` builds it.

    Parameters
    ----------
    columns : one column, or several that are perturbed together (then levels are tuples).
    levels : in their order; None takes those of the data, in the order of its categories or sorted.
    keep, epsilon : one of the two, or both: then epsilon is a ceiling that the design must not exceed.
    invariant : keep the frequencies, which `frequencies` gives; "data" counts them in the confidential file itself.
    construction : of an invariant design, or of a design from epsilon ("best" takes the smaller total variance).
    given : what comes from the confidential file, "frequencies" or "levels", so that epsilon holds given it only.
    band, blocks, fixed : structure, one of them: steps on an ordinal scale, groups of levels, levels that never move.
    by, strata : an unperturbed column, and for its values what differs there.
    merge_below, other : values held by fewer people are merged, on a scale with the nearest level, else into `other`.
    missing_level : the level that stands for a missing value, which is then perturbed like another; None leaves gaps alone.
    merged : from value to level, filled in by the data; it is never written down, for it lists the rare values.
    """

    columns: tuple[str, ...]
    levels: tuple[Level, ...] | None = None
    kind: Kind | None = None
    keep: Keep | None = None
    epsilon: float | None = None
    invariant: bool = False
    construction: str | None = None
    frequencies: GivenShares = None
    given: tuple[str, ...] = ()
    band: int | None = None
    blocks: tuple[tuple[Level, ...], ...] | None = None
    fixed: tuple[Level, ...] = ()
    by: str | None = None
    strata: tuple[tuple[Level, Mapping[str, Any]], ...] = ()
    merge_below: int | None = None
    other: Level = OTHER
    missing_level: Level | None = None
    merged: Mapping[Any, Level] = field(default_factory=dict, repr=False)

    @property
    def conditional(self) -> bool:
        return bool(self.given)

    @property
    def reads_data(self) -> bool:
        return bool(self.levels is None or self.missing_level or self.merge_below or self.counts)

    @property
    def counts(self) -> bool:
        """Whether frequencies are counted in the confidential file."""
        return "data" in (self.frequencies, *(changes.get("frequencies") for _, changes in self.strata))

    def merging(self, below: int) -> Request:
        return replace(self, merge_below=self.merge_below or below)

    def with_given(self, *what: str) -> Request:
        """Marked as conditional on this too."""
        return replace(self, given=tuple(w for w in CONDITIONS if w in (*self.given, *what)))

    def channel(self) -> Channel:
        """The transition matrix, or one for each stratum."""
        self._refuse_half_strata()
        if self.by is None:
            return transition(self)
        matrices: dict[Any, TransitionMatrix] = {}
        for value, request in self._by_value():
            if value in matrices:
                raise MechanismError(f"stratum {value!r} of {self.by!r} appears more than once: describe it once")
            try:
                matrices[value] = transition(request)
            except MechanismError as error:
                raise MechanismError(f"stratum {value!r} of {self.by!r}: {error.marked}") from None
        return Stratified(self.by, matrices)

    def _refuse_half_strata(self) -> None:
        if (self.by is None) != (not self.strata):
            raise MechanismError("strata need both `by`, the unperturbed column, and `strata`, what differs in each")

    def _by_value(self) -> list[tuple[Level, Request]]:
        plain = replace(self, by=None, strata=())
        return [(value, replace(plain, **changes)) for value, changes in self.strata]

    def resolved(self, table: Table | None, unit: str | None = None) -> Request:
        """The request with levels and frequencies written out; what comes from the data is marked as conditional. Rare levels are
        those of few records, or of few units."""
        ready = self
        if self.levels is None:
            ready = replace(self, levels=_levels(self, _needed(table, self, "levels")))
            # A table of frequencies by level lists the levels too, and need not match: then it is refused.
            ready = ready if isinstance(self.frequencies, Mapping) else ready.with_given("levels")
        if self.merge_below is not None:
            ready = _without_rare(ready, _needed(table, self, "rare levels"), unit)
        if self.missing_level is not None and self.missing_level not in (ready.levels or ()):
            ready = replace(ready, levels=(*(ready.levels or ()), self.missing_level))
        if table is not None:
            require_columns(table, [*self.columns, *([self.by] if self.by else [])], "the design")
        if ready.strata:
            return ready._with_resolved_strata(table)
        if ready.frequencies != "data":
            return ready
        source = _needed(table, self, "frequencies")
        counted = _counted(ready, source, np.ones(source.n, dtype=bool))
        return replace(ready, frequencies=counted).with_given("frequencies")

    def _with_resolved_strata(self, table: Table | None) -> Request:
        self._refuse_half_strata()
        strata = []
        for (value, changes), (_, request) in zip(self.strata, self._by_value(), strict=True):
            if request.frequencies == "data":
                source = _needed(table, self, "frequencies")
                assert self.by is not None
                rows = np.asarray(source.column(self.by) == value, dtype=bool)
                if not rows.any():
                    raise DataError(
                        f"column {self.by!r} has no row of stratum {value!r}: leave it out, or give its frequencies"
                    )
                changes = {**changes, "frequencies": _counted(request, source, rows)}
            strata.append((value, changes))
        drawn = any(request.frequencies == "data" for _, request in self._by_value())
        shared = None if self.frequencies == "data" else self.frequencies
        ready = replace(self, strata=tuple(strata), frequencies=shared)
        return ready.with_given("frequencies") if drawn else ready

    def note(self) -> str | None:
        """What must be said beside epsilon."""
        if not self.conditional:
            return None
        return (
            f"epsilon of {self.name!r} is conditional on {' and '.join(CONDITIONS[w] for w in self.given)}, taken from the "
            "confidential file: whoever sees the matrix learns it. Use a public or noised table, or a public list, to avoid this"
        )


def transition(request: Request) -> TransitionMatrix:
    """The matrix of a request without strata, checked against its ceiling."""
    asked = {"band": request.band, "blocks": request.blocks, "fixed": request.fixed}
    structure = [name for name, value in asked.items() if value]
    if len(structure) > 1:
        raise MechanismError(f"{' and '.join(structure)} cannot be asked for together: choose one structure")
    if request.keep is None and request.epsilon is None:
        raise MechanismError("neither keep nor epsilon is given: give a keep probability or a privacy loss")
    if request.invariant and request.frequencies is None:
        raise MechanismError("an invariant design needs the frequencies that it is to keep: give frequencies")
    built = _structured(request, structure[0]) if structure else _plain(request)
    if request.keep is not None and request.epsilon is not None:
        _refuse_above(built, checked_epsilon(request.epsilon), request)
    if not request.given:
        return built
    return TransitionMatrix.from_form(built.levels, built.form, built.kind, conditional=request.given)


def _structured(request: Request, structure: str) -> TransitionMatrix:
    assert request.levels is not None
    if request.construction not in (None, "mixture"):
        raise MechanismError(
            f"construction {request.construction!r} and {structure} cannot hold together: leave out one of them"
        )
    options: dict[str, Any] = {"frequencies": request.frequencies, "invariant": request.invariant}
    if structure == "blocks":
        assert request.blocks is not None
        loss = request.epsilon if request.keep is None else None
        return designs.blocks(request.levels, request.blocks, request.keep, epsilon=loss, kind=request.kind, **options)
    if request.keep is None:
        raise MechanismError(f"{structure} makes some moves impossible, so no finite epsilon exists: give keep instead")
    if structure == "band":
        assert request.band is not None
        return designs.band(request.levels, request.keep, width=request.band, kind=request.kind or "ordinal", **options)
    return designs.restricted(request.levels, request.keep, fixed=request.fixed, kind=request.kind, **options)


def _plain(request: Request) -> TransitionMatrix:
    levels, keep, kind = request.levels, request.keep, request.kind
    assert levels is not None
    known = CONSTRUCTIONS if request.invariant else FROM_EPSILON
    if request.construction is not None and request.construction not in known:
        raise MechanismError(
            f"construction {request.construction!r} is unknown: {suggestion(request.construction, known)}"
        )
    if request.invariant:
        loss = request.epsilon if keep is None else None
        construction: Any = request.construction or "mixture"
        shares: Any = request.frequencies
        return designs.invariant(levels, shares, keep, epsilon=loss, construction=construction, kind=kind)
    if keep is None:
        return _from_epsilon(request)
    if request.construction is not None:
        raise MechanismError(
            f"construction {request.construction!r} belongs to an epsilon without keep: leave out keep"
        )
    if request.frequencies is None and isinstance(keep, int | float):
        return TransitionMatrix.randomized_response(levels, keep, kind=kind)
    given: Any = request.frequencies
    return designs.per_level(levels, keep, frequencies=given, kind=kind)


def _from_epsilon(request: Request) -> TransitionMatrix:
    assert request.levels is not None
    loss = checked_epsilon(request.epsilon)
    if request.frequencies is not None:
        raise MechanismError("frequencies with epsilon need invariant = true: set it, or leave out the frequencies")
    if request.construction == "block-design":
        return designs.block_design(request.levels, loss, kind=request.kind)
    if request.construction == "best":
        return designs.best_for_epsilon(request.levels, loss, kind=request.kind).transition
    return TransitionMatrix.from_epsilon(request.levels, loss, kind=request.kind)


def _refuse_above(built: TransitionMatrix, ceiling: float, request: Request) -> None:
    reached = designs.epsilon_within(built) if request.blocks else built.epsilon
    if reached > ceiling * (1 + 1e-9):
        size = len(built)
        reference = 1 / (1 + (size - 1) * float(np.exp(-ceiling)))
        raise MechanismError(
            f"epsilon is {reached:.4g}, above the {ceiling:.4g} asked for: lower keep (randomised response "
            f"of {size} levels reaches it at keep={reference:.4g}) or raise epsilon"
        )


def _needed(table: Table | None, request: Request, what: str) -> Table:
    if table is None:
        raise MechanismError(
            f"the design of {request.name!r} takes its {what} from the data: give the data, or write them out"
        )
    return table


def _levels(request: Request, table: Table) -> tuple[Level, ...]:
    """Levels of the data: the user's order of categories, or sorted."""
    if len(request.columns) > 1:
        return tuple(designs.observed_combinations(table, request.columns))
    name = request.columns[0]
    require_columns(table, [name], "the design")
    found = table.levels(name)
    if len(found) > LEVEL_LIMIT and table.categories(name) is None:
        raise DataError(
            f"column {name!r} has {len(found)} distinct values in {table.n} rows, above the limit of {LEVEL_LIMIT}: it looks "
            "continuous or an identifier; coarsen it, or list its levels"
        )
    return tuple(found)


def _without_rare(request: Request, table: Table, unit: str | None) -> Request:
    assert request.levels is not None
    assert request.merge_below is not None
    if len(request.columns) > 1:
        raise MechanismError("merge_below is for single columns: merge the levels of linked columns beforehand")
    name = request.columns[0]
    require_columns(table, [name, *([] if unit is None else [unit])], "the design")
    present = ~table.missing([name])
    values = [_whole(v) for v in table.column(name)[present].tolist()]
    held = people(values, None if unit is None else table.column(unit)[present])
    ordered = request.kind in ("ordinal", "numeric") or request.band is not None or table.ordered(name)
    levels, where = merged(name, request.levels, held, request.merge_below, ordered=ordered, other=request.other)
    return replace(request, levels=levels, merged=where).with_given("levels")


def _whole(value: Any) -> Any:
    """1.0 is the level 1: a missing value turns a column of whole numbers into floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def merged_values(request: Request, values: Column) -> Column:
    if not request.merged:
        return values
    return np.array([request.merged.get(_whole(v), v) for v in values.tolist()], dtype=object)


def _counted(request: Request, table: Table, rows: Bool) -> tuple[float, ...]:
    assert request.levels is not None
    rows = rows & ~table.missing(request.columns)
    if not rows.any():
        raise DataError(f"column {request.name!r} has no value to count frequencies from: give frequencies")
    probe = TransitionMatrix.randomized_response(request.levels, 1.0)
    columns = [merged_values(request, table.column(name)[rows]) for name in request.columns]
    codes = probe.encode(columns, request.columns)
    counts = np.bincount(codes, minlength=len(request.levels))
    return tuple((counts / counts.sum()).tolist())

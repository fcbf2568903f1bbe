"""What a custodian asks for beside the perturbation: columns to drop, order, identifiers, missing values, rare levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pramana.disclosure.release.streaming import Coding
from pramana.errors import MechanismError
from pramana.frames import Level
from pramana.mechanism import Mechanism, Unit
from pramana.mechanism.designs.design_file import Design
from pramana.mechanism.mechanism import refuse_measured


@dataclass(frozen=True)
class Handling:
    """What happens to the file beside the perturbation of its columns.

    Attributes
    ----------
    drop : columns that are left out. shuffle : records in a random order.
    new_id : a column of new identifiers; in place of the old ones where the file has the column.
    link : the custodian's file that says which original record each released one is.
    missing : marks of missing values beside the empty field and the null. missing_level : the level that stands for them.
    merge_below : values that fewer people hold are merged, in a design.
    """

    drop: tuple[str, ...] = ()
    shuffle: bool = False
    new_id: str | None = None
    link: Path | None = None
    missing: tuple[str, ...] = ()
    missing_level: Level | None = None
    merge_below: int | None = None


@dataclass(frozen=True)
class Asked:
    """What is to be done to the perturbed columns.

    Attributes
    ----------
    codings : how values become levels. merges : what is published of that. missing : all declared marks of missing values.
    """

    mechanism: Mechanism
    codings: dict[str, Coding]
    merges: dict[str, Any]
    missing: tuple[str, ...]


def asked(
    given: Mechanism | Design | str | Path,
    source: Any,
    unit: Unit | str | None = None,
    handling: Handling | None = None,
) -> Asked:
    """From what the custodian gives; `source` is the confidential file or frame."""
    handling = handling or Handling()
    if isinstance(given, str | Path):
        design = Path(given).suffix.lower() == ".toml"
        given = Design.asked(Path(given)) if design else Mechanism.load(given)
    codings: dict[str, Coding] = {}
    merges: dict[str, Any] = {}
    marks = tuple(dict.fromkeys([*handling.missing, *(given.missing if isinstance(given, Design) else ())]))
    if isinstance(given, Design):
        known, codings, merges = _designed(replace(given, missing=marks), source, unit, handling)
    elif handling.merge_below is not None:
        raise MechanismError(
            "merge_below needs a design (TOML): the levels of a mechanism (JSON) are fixed already, merge them there"
        )
    else:
        known = given if unit is None else given.with_unit(unit)
    refuse_measured(known, "a release draws with probabilities that are known")
    if handling.missing_level is not None:
        codings |= _with_missing(known, codings, handling.missing_level)
    _refuse_marks_that_are_levels(known, marks)
    return Asked(known, codings, merges, marks)


def _refuse_marks_that_are_levels(known: Mechanism, marks: Sequence[str]) -> None:
    for variable in known.schema.variables.values():
        both = [level for level in variable.levels or () if str(level) in marks]
        if both:
            raise MechanismError(
                f"{both[0]!r} is a level of {variable.name!r} and declared a mark of missing values: drop one of the two, or name it "
                "as the level that stands for them (missing_level)"
            )


def _with_missing(known: Mechanism, codings: dict[str, Coding], given: Level) -> dict[str, Coding]:
    """Columns that have the level, which may be given as text, take it for missing values."""
    levels = {v.name: v.levels or () for a in known.assignments for v in a.variables()}
    found = {name: [v for v in values if v == given or str(v) == given] for name, values in levels.items()}
    if not any(found.values()):
        raise MechanismError(f"missing_level {given!r} is no level of any perturbed column: add it to the levels")
    return {name: replace(codings.get(name, Coding()), missing=v[0]) for name, v in found.items() if v}


def _designed(
    given: Design, source: Any, unit: Unit | str | None, handling: Handling
) -> tuple[Mechanism, dict[str, Coding], dict[str, Any]]:
    if unit is not None:
        given = replace(given, unit=Unit(unit) if isinstance(unit, str) else unit)
    if handling.merge_below is not None:
        given = replace(given, requests=tuple(r.merging(handling.merge_below) for r in given.requests))
    design = given.resolved(source)
    codings = {r.columns[0]: Coding(r.merged, r.missing_level) for r in design.requests if len(r.columns) == 1}
    merges = {
        r.columns[0]: {"into": _only(r.merged.values()), "below": r.merge_below} for r in design.requests if r.merged
    }
    return design.mechanism, codings, merges


def _only(levels: Iterable[Level]) -> Level | None:
    """The one level that everything was merged into; None where values went to the nearest on a scale."""
    found = set(levels)
    return found.pop() if len(found) == 1 else None

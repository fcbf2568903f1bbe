"""The `mechanism` argument of an analysis: an object, a file, the description beside the data, or none at all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narwhals.dependencies import is_pyarrow_table

from pramana.errors import DataError, MechanismError, PramanaWarning, listing
from pramana.frames.dialects import DataFile, data_file
from pramana.frames.inputs import absence
from pramana.frames.sources import paths_of
from pramana.mechanism.mechanism import Mechanism

if TYPE_CHECKING:
    from pramana.mechanism.description.document import PramModel
    from pramana.mechanism.description.reading import Described, Given


@dataclass(frozen=True)
class Resolved:
    """The mechanism that was meant, and the description of the data that it came from, if it did.

    Attributes
    ----------
    told : what the description says of the released file, of which a frame may hold some of the records.
    """

    mechanism: Mechanism | None
    description: Described | None = None
    told: PramModel | None = None

    def refuse_other_rows(self, name: str, rows: int) -> None:
        """The records that were read must be as many as were described."""
        if self.description is not None:
            self.description.refuse_other_rows(name, rows)


def resolve_mechanism(mechanism: Mechanism | str | Path | None, data: Any, *, verify: bool = True) -> Resolved:
    """The mechanism that was meant.

    A Mechanism is believed. A path, or "auto", is a description: a data file must be the one that it describes, which `verify`
    also checks by its hash. A frame in memory is whatever its user made of it, so that only "auto" asks for its rows. Where the
    data carry a description, none of their perturbed columns may be forgotten.
    """
    files = paths_of(data)
    path = Path(data) if isinstance(data, str | os.PathLike) and not files else None
    if mechanism is None or isinstance(mechanism, Mechanism):
        known = Resolved(mechanism)
    elif not isinstance(mechanism, str | Path):
        raise MechanismError(
            f"mechanism of type {type(mechanism).__name__}: give a Mechanism, its path, 'auto', or None for unperturbed data"
        )
    elif str(mechanism) == "auto":
        if files:
            _warn_of_lost(data)
        return _of_files(files, verify) if files else _automatic(path, data, verify)
    else:
        known = _named(Path(mechanism), None if path is None else data_file(data), verify)
    for each in files or (path,):
        _refuse_forgotten(known.mechanism, each, data)
    return known


def _warn_of_lost(data: Any) -> None:
    """Files that the description of a folder lists may have been taken away on purpose, or lost on the way."""
    from pramana.mechanism.description.reading import listed_files

    if not isinstance(data, str | os.PathLike) or not Path(data).is_dir():
        return
    lost = [name for name in listed_files(Path(data)) if not (Path(data) / name).is_file()]
    if lost:
        warnings.warn(
            f"{listing(lost, 3)} described, but not in {str(data)!r}: the other files are fitted alone; get the whole release, or name the "
            "files that are meant",
            PramanaWarning,
            stacklevel=2,
        )


def _of_files(files: Sequence[Path], verify: bool) -> Resolved:
    """Each file is the one that its description is of, and all were perturbed in the same way."""
    from pramana.mechanism.description.reading import described

    first = described(files[0], verify=verify).mechanism
    for path in files[1:]:
        if described(path, verify=verify).mechanism.document() != first.document():
            raise MechanismError(
                f"the descriptions of {str(files[0])!r} and {str(path)!r} differ: fit files that were perturbed in different ways one "
                "after the other"
            )
    return Resolved(first)


def _automatic(path: Path | None, data: Any, verify: bool) -> Resolved:
    from pramana.mechanism.description.document import parsed
    from pramana.mechanism.description.reading import Described, described, inside_table

    if path is not None:
        if not path.is_file():
            raise DataError(f"file {str(path)!r} {absence(path)}")
        found: Described | None = described(path, verify=verify)
    else:
        document = inside_table(data).document if is_pyarrow_table(data) else None
        found = None if document is None else Described(parsed(document, "the table"), {}, "the table")
    if found is None:
        raise MechanismError(
            "mechanism='auto' reads the description of a data file, which this table does not carry: give the file's path, or a "
            "Mechanism"
        )
    return Resolved(found.mechanism, found)


def _named(description: Path, file: DataFile | None, verify: bool) -> Resolved:
    """A description by its path; what it says of a file holds for the data file at hand, though not for a frame."""
    from pramana.mechanism.description.reading import described

    found = described(description)
    if file is None or not Path(file).is_file():
        return Resolved(found.mechanism, told=found.model)
    found.refuse_other_file(file, verify=verify)
    return Resolved(found.mechanism, found)


def _refuse_forgotten(mechanism: Mechanism | None, path: Path | None, data: Any) -> None:
    given = _given(path, data)
    if given is None or given.document is None:
        return
    told = f"{repr(str(path)) if path else 'the table'} carries a description of how it was perturbed"
    if mechanism is None:
        raise MechanismError(
            f"{told}, but mechanism=None says that it is clean: use mechanism='auto' (or method='naive' to ignore the noise on "
            "purpose)"
        )
    lacking = [c for c in given.columns if c not in mechanism.columns]
    if lacking:
        raise MechanismError(
            f"{told}, and the mechanism given leaves out {listing(lacking)}, which would be taken for clean: use "
            "mechanism='auto', or add the channels of these columns"
        )
    if given.unit is not None and mechanism.unit is None:
        raise MechanismError(
            f"{told}, in which the records of one {given.unit!r} share a draw; the mechanism given does not say so, and errors would "
            f"be understated: use mechanism='auto', or mechanism.with_unit({given.unit!r})"
        )


def _given(path: Path | None, data: Any) -> Given | None:
    """What is said inside or beside the data."""
    if path is None and not is_pyarrow_table(data):
        return None
    from pramana.mechanism.description.reading import descriptions, inside_table

    return inside_table(data) if path is None else descriptions(path)

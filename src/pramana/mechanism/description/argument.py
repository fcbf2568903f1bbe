"""The `mechanism` argument of an analysis: an object, a file, the description beside the data, or none at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pramana.errors import DataError, MechanismError, listing
from pramana.mechanism.mechanism import Mechanism


def resolve_mechanism(mechanism: Mechanism | str | Path | None, data: Any) -> Mechanism | None:
    """The mechanism that was meant; where the data carry a description, no perturbed column of theirs may be forgotten."""
    path = Path(data) if isinstance(data, str | os.PathLike) else None
    found = _meant(mechanism, path)
    if mechanism != "auto":
        _refuse_forgotten(found, path, data)
    return found


def _meant(mechanism: Mechanism | str | Path | None, path: Path | None) -> Mechanism | None:
    if mechanism is None or isinstance(mechanism, Mechanism):
        return mechanism
    if isinstance(mechanism, str | Path):
        if str(mechanism) != "auto":
            return Mechanism.load(mechanism)
        if path is None:
            raise MechanismError(
                "mechanism='auto' reads the description of a data file: give the file's path, or a Mechanism"
            )
        if not path.is_file():
            raise DataError(f"file {str(path)!r} does not exist")
        return Mechanism.load(path)
    raise MechanismError(
        f"mechanism of type {type(mechanism).__name__}: give a Mechanism, its path, 'auto', or None for unperturbed data"
    )


def _refuse_forgotten(mechanism: Mechanism | None, path: Path | None, data: Any) -> None:
    columns = _described(path, data)
    if columns is None:
        return
    told = f"{repr(str(path)) if path else 'the table'} carries a description of how it was perturbed"
    if mechanism is None:
        raise MechanismError(
            f"{told}, but mechanism=None says that it is clean: use mechanism='auto' (or method='naive' to ignore the noise on "
            "purpose)"
        )
    lacking = [c for c in columns if c not in mechanism.columns]
    if lacking:
        raise MechanismError(
            f"{told}, and the mechanism given leaves out {listing(lacking)}, which would be taken for clean: use "
            "mechanism='auto', or add the channels of these columns"
        )


def _described(path: Path | None, data: Any) -> list[str] | None:
    """The perturbed columns that a description inside or beside the data names; None where there is no description."""
    metadata = getattr(getattr(data, "schema", None), "metadata", None)
    if not isinstance(metadata, dict) and path is None:
        return None
    from pramana.mechanism.description.document import described_columns, find_description, inside_metadata

    document = inside_metadata(metadata, "the table") if isinstance(metadata, dict) else None
    if document is None and path is not None and path.is_file():
        document = find_description(path)
    return None if document is None else described_columns(document)

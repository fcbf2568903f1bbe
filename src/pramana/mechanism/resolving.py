"""Which mechanism was meant: an object, a file, the description beside the data, or none at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pramana.errors import DataError, MechanismError
from pramana.mechanism.mechanism import Mechanism


def resolve_mechanism(mechanism: Mechanism | str | Path | None, data: Any) -> Mechanism | None:
    """The mechanism that was meant; a file that carries a description cannot be fitted as if it were clean."""
    if isinstance(mechanism, Mechanism):
        return mechanism
    path = Path(data) if isinstance(data, str | Path) else None
    if mechanism is None:
        _refuse_forgotten(path, data)
        return None
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


def _refuse_forgotten(path: Path | None, data: Any) -> None:
    from pramana.mechanism.document import find_description, inside_metadata

    metadata = getattr(getattr(data, "schema", None), "metadata", None)
    inside = inside_metadata(metadata, "the table") if isinstance(metadata, dict) else None
    if inside is not None or (path is not None and path.is_file() and find_description(path) is not None):
        raise MechanismError(
            f"{repr(str(path)) if path else 'the table'} carries a description of how it was perturbed, but mechanism=None says that it is clean: "
            "use mechanism='auto' (or method='naive' to ignore the noise on purpose)"
        )

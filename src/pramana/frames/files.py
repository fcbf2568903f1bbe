"""What holds for every file, whether it is read whole or in blocks: its format, its marks for missing values, its refusals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pramana.errors import DataError, listing, quoted, suggestion
from pramana.frames.inputs import absence, note_input

NULLS = ("", "NA", "NaN", "nan", "null", "NULL")
CHECKED = {"page_checksum_verification": True}
"""How Parquet is read: Arrow would believe a page that differs from the checksum that Spark, say, wrote with it."""
_TEXTS = (".csv", ".tsv", ".tab", ".txt")
_ENDINGS = {e + z: "csv" for e in _TEXTS for z in ("", ".gz")} | {".parquet": "parquet", ".pq": "parquet"}


def format_of(path: Path) -> str:
    """ "csv" or "parquet", from the file's name."""
    for ending, kind in _ENDINGS.items():
        if path.name.lower().endswith(ending):
            return kind
    raise DataError(
        f"file {str(path)!r} has an unknown ending {path.suffix!r}: use .csv, .tsv, .tab or .txt (with or without .gz), or .parquet"
    )


def existing(path: Path) -> str:
    """The format of a file that must exist, for it is about to be read."""
    if not path.is_file():
        raise DataError(f"file {str(path)!r} {absence(path)}")
    note_input(path, "data")
    return format_of(path)


def check_header(names: Sequence[str], path: Path) -> None:
    """Columns with names of their own."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise DataError(
            f"two columns of {path.name!r} have the same name, {quoted(repr(twice))}: rename or drop one of them"
        )


def require_names(wanted: Iterable[str], names: Sequence[str], why: str, lacking: str) -> None:
    """Refuse early when columns are absent, naming all of them at once."""
    absent = [name for name in dict.fromkeys(wanted) if name not in names]
    if absent:
        # The names are quoted, for those of a file without a header are its first record.
        known = suggestion(absent[0], names, quoted)
        raise DataError(f"{why} needs column(s) {listing(absent)}, which {lacking}: {known}")


def ragged(row: int, fields: int, expected: int) -> DataError:
    return DataError(
        f"row {row} has {fields} field(s) where the header names {expected}: every record needs one field a column"
    )


def undecodable(what: str, encoding: str) -> DataError:
    return DataError(
        f"{what} is not {encoding.upper()} text: say the file's encoding, as in pr.Dialect(encoding='cp1252'), or save it as UTF-8"
    )


def unreadable(path: Path, error: Exception, after: str = "") -> DataError:
    """What another library says of a file may quote its content."""
    kind = {"csv": "CSV", "parquet": "Parquet"}[format_of(path)]
    said = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    reason = said if said.startswith("Empty CSV file") else quoted(said)
    return DataError(
        f"file {str(path)!r} could not be read as {kind}{after}: {reason} ({type(error).__name__}); is it complete?"
    )

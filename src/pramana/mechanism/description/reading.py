"""Reading a description, alone or of a data file, which then must be the file that it describes.

A data file can be described beside it (its entry in datapackage.json) and, if it is Parquet, inside it. All that is said must agree:
the descriptions with each other, and with the size, rows and columns of the file; with its hash where the whole file is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pramana.errors import MechanismError, PramanaError, listing
from pramana.frames.dialects import DataFile
from pramana.frames.documents import package_entries, parse_json, read_json
from pramana.frames.files import format_of, unreadable
from pramana.frames.inputs import absence, note_input
from pramana.frames.writing import sha256
from pramana.mechanism.channel import Document
from pramana.mechanism.description.document import (
    PARQUET_KEY,
    PramModel,
    built,
    comparable,
    false_epsilons,
    field_of,
    parsed,
)
from pramana.mechanism.mechanism import Mechanism

PACKAGE = "datapackage.json"
_REMEDY = (
    "take file and description from the same release, or, if you changed the file on purpose, give the mechanism alone, "
    "as Mechanism.save writes it"
)


@dataclass(frozen=True)
class Given:
    """What is said of a data file: its entry in the datapackage.json beside it, and the object inside a Parquet file."""

    path: Path
    beside: Document | None
    inside: Document | None

    @property
    def document(self) -> Document | None:
        """The description to go by: the one beside the file."""
        beside = {"pram": self.beside["pram"]} if self.beside is not None and "pram" in self.beside else None
        return beside or self.inside

    @property
    def columns(self) -> list[str]:
        """The columns that either says were perturbed, also where the rest of it cannot be read."""
        both = [given for given in (self.beside, self.inside) if given is not None]
        return list(dict.fromkeys(name for given in both for name in described_columns(given)))

    @property
    def unit(self) -> str | None:
        """The column whose records share a draw, as either says."""
        bodies = [given.get("pram") for given in (self.beside, self.inside) if given is not None]
        units = [body.get("unit") for body in bodies if isinstance(body, dict)]
        return next((str(unit.get("column")) for unit in units if isinstance(unit, dict)), None)

    def refuse_disagreement(self) -> None:
        """Two descriptions of a file must say the same; only what is known late cannot stand inside."""
        if self.inside is None or self.beside is None or "pram" not in self.beside:
            return
        beside, inside = comparable(self.beside["pram"], self.inside.get("pram"))
        for where, outer, inner in _differences(beside, inside, "pram"):
            raise MechanismError(
                f"two descriptions of {self.path.name!r} differ: {where} is {outer} in {PACKAGE} and {inner} inside the file; "
                f"{_REMEDY}"
            )


@dataclass(frozen=True)
class Described:
    """A description that was read: what it says, and the entry of a Data Package that it stood in ({} elsewhere)."""

    model: PramModel
    entry: Document
    source: str

    @cached_property
    def mechanism(self) -> Mechanism:
        """What was done, if the epsilons stated are those of its matrices."""
        made = built(self.model, self.source)
        for fault in false_epsilons(self.model, made):
            raise MechanismError(
                f"{self.source}: {fault}: the description was changed or is wrong; get it anew from its publisher"
            )
        return made

    @property
    def hashes(self) -> list[str]:
        """Every SHA-256 that is stated."""
        other = str(self.entry.get("hash", "")).lower()
        listed = [self.model.sha256, other.removeprefix("sha256:") if other.startswith("sha256:") else None]
        return list(dict.fromkeys(found for found in listed if found is not None))

    def refuse_other_file(self, file: DataFile, *, verify: bool) -> None:
        """Size, columns, rows and, with `verify`, the hash of the file at hand."""
        path = Path(file)
        size = path.stat().st_size
        if self.entry.get("bytes", size) != size:
            raise _other(path.name, f"{size} bytes", f"{_short(self.entry['bytes'])}")
        names, types, rows = _facts(file)
        self._refuse_other_columns(path.name, names, types)
        if rows is not None:
            self.refuse_other_rows(path.name, rows)
        for other in self.hashes[1:]:
            raise MechanismError(
                f"the description of {path.name!r} states two hashes, {self.hashes[0][:16]}… and {other[:16]}…; {_REMEDY}"
            )
        if verify and self.hashes:
            found = sha256(path)
            if found != self.hashes[0]:
                raise _other(path.name, f"SHA-256 {found[:16]}…", f"{self.hashes[0][:16]}…")

    def refuse_other_rows(self, name: str, rows: int) -> None:
        """Rows of a text file are known when it was read."""
        if self.model.rows is not None and self.model.rows != rows:
            raise _other(name, f"{rows} rows", f"{self.model.rows}")

    def _refuse_other_columns(self, name: str, names: Sequence[str], types: Mapping[str, str]) -> None:
        schema = self.entry.get("schema")
        fields = schema.get("fields") if isinstance(schema, dict) else None
        if not isinstance(fields, list):
            return
        stated = [field if isinstance(field, dict) else {} for field in fields]
        listed = [field.get("name") for field in stated]
        if listed != list(names):
            at = next((k for k, pair in enumerate(zip(listed, names, strict=False)) if pair[0] != pair[1]), None)
            if at is None:
                raise _other(name, f"{len(names)} columns", f"{len(listed)}")
            raise _other(name, f"column {at + 1} {names[at]!r}", _short(listed[at]))
        reports = {c for a in self.mechanism.assignments if a.reports for c in a.columns}
        variables = {name: v for name, v in self.mechanism.schema.variables.items() if name not in reports}
        for field in stated:
            own = field_of(field["name"], variables.get(field["name"]), types.get(field["name"], ""))["type"]
            if own != "any" and field.get("type", "any") not in ("any", own):
                raise _other(name, f"the type {own} in column {field['name']!r}", _short(field["type"]))


def load(path: Path, *, verify: bool = False) -> Mechanism:
    """From a mechanism file, or from the description that a data file carries or lies beside."""
    return described(path, verify=verify).mechanism


def described(path: Path, *, verify: bool = False) -> Described:
    """The description in a JSON file, or of a data file, which is then checked against it."""
    if path.suffix.lower() == ".json":
        return _alone(read_json(path, "mechanism file", MechanismError), path)
    if not path.is_file():
        raise MechanismError(f"mechanism file {str(path)!r} {absence(path)}")
    given = descriptions(path)
    document = given.document
    if document is None:
        raise MechanismError(f"{str(path)!r} carries no description, {_lying_beside(path)}")
    given.refuse_disagreement()
    beside = given.beside if given.beside is not None and "pram" in given.beside else {}
    found = Described(parsed(document, str(path)), beside, str(path))
    found.refuse_other_file(path, verify=verify)
    return found


def _lying_beside(path: Path) -> str:
    """What there is in the folder of a file that nothing describes: the description of a file that had another name, or a mechanism."""
    package = path.parent / PACKAGE
    others = listed_files(path.parent)
    if others:
        return (
            f"and {str(package)!r} beside it describes {listing(others, 3)}: is it one of these under another name? Give it that name again, "
            f"or say mechanism='{package}'"
        )
    found = [beside for beside in sorted(path.parent.glob("*.json"))[:_LOOKED_AT] if _is_mechanism(beside)]
    if found:
        return f"and {str(found[0])!r} beside it describes a mechanism: if it is that of this file, say mechanism='{found[0]}'"
    return "and none lies beside it: name the mechanism file, as in mechanism='mechanism.json'"


_LOOKED_AT, _LONGEST = 50, 1 << 20
"""Files of a folder that are asked whether they are mechanisms, and the bytes of those that are read for it."""


def _is_mechanism(path: Path) -> bool:
    try:
        if path.name == PACKAGE or not path.is_file() or path.stat().st_size > _LONGEST:
            return False
        document = parse_json(path.read_bytes(), str(path))
    except (OSError, PramanaError):
        return False
    return isinstance(document, dict) and "pram" in document


def _alone(document: Any, path: Path) -> Described:
    """A datapackage.json with one described resource stands for that resource."""
    if isinstance(document, dict) and "pram" not in document and "resources" in document:
        entries = [r for r in _resources(document) if "pram" in r]
        if len(entries) != 1:
            raise MechanismError(
                f"{str(path)!r} describes {len(entries)} perturbed resources: load the one you want by its data file"
            )
        document = entries[0]
    model = parsed(document, str(path))
    return Described(model, document if "path" in document else {}, str(path))


def inside_table(table: Any) -> Given:
    """The description that an Arrow table carries."""
    return Given(Path("the table"), None, inside_metadata(table.schema.metadata, "the table"))


def descriptions(path: Path) -> Given:
    """Both places where a data file can be described; a link is described where it stands or where its file does."""
    inside = inside_parquet(path) if path.suffix.lower() in (".parquet", ".pq") and path.is_file() else None
    for place in dict.fromkeys((path, path.resolve() if path.exists() else path)):
        entries = _entries(place)
        if entries:
            return Given(path, entries[0], inside)
    return Given(path, None, inside)


def find_description(data: Path) -> Document | None:
    """The `pram` object of a data file, beside it or inside it; None where there is none."""
    return descriptions(data).document


def _entries(path: Path) -> list[Document]:
    package = path.parent / PACKAGE
    if not package.is_file():
        return []
    entries = package_entries(package).get(path.name, [])
    if len(entries) > 1 and any("pram" in entry for entry in entries):
        raise MechanismError(
            f"{str(package)!r} has {len(entries)} entries for {path.name!r}: remove those that are not of this file"
        )
    return entries


def listed_files(folder: Path) -> list[str]:
    """The perturbed files that the description of a folder lists, by name; none where it has no description."""
    package = folder / PACKAGE
    listed = package_entries(package) if package.is_file() else {}
    return [name for name, entries in listed.items() if any("pram" in entry for entry in entries)]


def _resources(document: Any) -> list[Document]:
    listed = document.get("resources") if isinstance(document, dict) else None
    return [r for r in listed if isinstance(r, dict)] if isinstance(listed, list) else []


def described_columns(document: Document) -> list[str]:
    """The columns that a description says were perturbed, also where the rest of it cannot be read."""
    body = document.get("pram")
    channels = body.get("channels") if isinstance(body, dict) else None
    listed = [c.get("columns") for c in channels if isinstance(c, dict)] if isinstance(channels, list) else []
    return [name for columns in listed if isinstance(columns, list) for name in columns if isinstance(name, str)]


def inside_parquet(path: Path) -> Document | None:
    """The `pram` object among the metadata of a Parquet file, which Arrow keeps twice: of the file, and of its own schema."""
    metadata = _footer(path)
    places = (metadata.metadata, metadata.schema.to_arrow_schema().metadata)
    holding = [place for place in places if place and PARQUET_KEY in place]
    if len({place[PARQUET_KEY] for place in holding}) > 1:
        raise MechanismError(f"two descriptions inside {str(path)!r} differ, of the file and of its schema; {_REMEDY}")
    return inside_metadata(holding[0], str(path)) if holding else None


def inside_metadata(metadata: Mapping[bytes, bytes] | None, source: str) -> Document | None:
    """The description among the key-value metadata of a Parquet file or an Arrow table."""
    if not metadata or PARQUET_KEY not in metadata:
        return None
    found = parse_json(metadata[PARQUET_KEY], f"{source}: the 'pram' metadata", MechanismError)
    return found if isinstance(found, dict) else {"pram": found}


def _footer(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    note_input(path, "data")
    try:
        metadata = parquet.read_metadata(path)
        metadata.schema.to_arrow_schema()
        return metadata
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None


def _facts(file: DataFile) -> tuple[list[str], dict[str, str], int | None]:
    """Names of the columns, Arrow's names of their types, and rows, as far as the file says so at its ends."""
    path = Path(file)
    if format_of(path) == "csv":
        from pramana.frames.blocks.stream import open_reader

        return open_reader(file).names, {}, None
    metadata = _footer(path)
    schema = metadata.schema.to_arrow_schema()
    return list(schema.names), {field.name: str(field.type) for field in schema}, int(metadata.num_rows)


def _differences(a: Any, b: Any, where: str) -> Iterator[tuple[str, str, str]]:
    """Where two documents differ, with both values; true is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            yield from _differences(a.get(key, _ABSENT), b.get(key, _ABSENT), f"{where}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        kinds = set(map(type, a))
        if a == b and kinds == set(map(type, b)) and not kinds & {dict, list}:
            return  # a row of a large matrix
        for position, pair in enumerate(zip(a, b, strict=True)):
            yield from _differences(*pair, f"{where}.{position}")
    elif a != b or isinstance(a, bool) != isinstance(b, bool):
        yield where, _short(a), _short(b)


class _Absent:
    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _other(name: str, found: str, stated: str) -> MechanismError:
    return MechanismError(
        f"{name!r} has {found}, but its description says {stated}: it is not the file described; {_REMEDY}"
    )

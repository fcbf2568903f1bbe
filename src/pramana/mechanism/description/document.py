"""The published description of a mechanism: versioned JSON, alone, in a Data Package or inside Parquet."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pramana.errors import MechanismError
from pramana.frames.files import unreadable
from pramana.frames.writing import write_text
from pramana.mechanism.channel import Channel, Document
from pramana.mechanism.channels.stratified import Stratified
from pramana.mechanism.channels.transition import TransitionMatrix
from pramana.mechanism.draws.keystream import RandomnessKind
from pramana.mechanism.mechanism import Mechanism, Unit

VERSION = "1.2"
UNIT_VERSION = "2.0"
"""Of a description with a unit: readers that do not know units must refuse it, for they would understate errors."""
PARQUET_KEY = b"pram"
SCHEMA = Path(__file__).with_name("pram-1.schema.json")
"""The JSON Schema of the `pram` object, shipped with the package; `make schema` writes it anew from the models."""

LevelValue = bool | int | float | str
KindName = Literal["nominal", "ordinal", "numeric"]
Levels = Annotated[list[LevelValue | list[LevelValue]], Field(min_length=2)]


class _Model(BaseModel):
    """Newer minor versions may add fields: they are ignored, not refused."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class ChannelModel(_Model):
    """What a description says of one channel. A new kind of channel has a subclass here, named in `Randomization`."""

    def built(self) -> Channel:
        """The channel that is described."""
        return TransitionMatrix.from_document(self.model_dump())


class MatrixModel(ChannelModel):
    channel: Literal["transition_matrix"]
    kind: KindName | None = None
    levels: Levels
    conditional: bool = False
    given: list[Literal["frequencies", "levels"]] | None = None
    orientation: Literal["columns", "rows"]
    matrix: list[list[float]]


class MixtureModel(ChannelModel):
    channel: Literal["mixture"]
    kind: KindName | None = None
    levels: Levels
    conditional: bool = False
    given: list[Literal["frequencies", "levels"]] | None = None
    refill: Annotated[float, Field(ge=0, lt=1)]
    frequencies: list[Annotated[float, Field(ge=0)]] | None = None


class BandModel(ChannelModel):
    """Moves of at most `width` steps: `diagonals[width + i − j][j]` is the chance that level j is released as level i."""

    channel: Literal["band"]
    kind: KindName | None = None
    levels: Levels
    conditional: bool = False
    given: list[Literal["frequencies", "levels"]] | None = None
    width: Annotated[int, Field(ge=1)]
    diagonals: list[list[float]]


class MatrixStratum(MatrixModel):
    value: LevelValue


class MixtureStratum(MixtureModel):
    value: LevelValue


class BandStratum(BandModel):
    value: LevelValue


class StratifiedModel(ChannelModel):
    channel: Literal["stratified"]
    by: str
    strata: list[Annotated[MatrixStratum | MixtureStratum | BandStratum, Field(discriminator="channel")]]

    def built(self) -> Channel:
        return Stratified(self.by, {s.value: TransitionMatrix.from_document(s.model_dump()) for s in self.strata})


Randomization = Annotated[MatrixModel | MixtureModel | BandModel | StratifiedModel, Field(discriminator="channel")]


class AssignmentModel(_Model):
    columns: Annotated[list[str], Field(min_length=1)]
    randomization: Randomization
    epsilon: float | None = None


class UnitModel(_Model):
    column: str
    varies: bool = False


class MergedModel(_Model):
    """Values that fewer than `below` people held were merged; on a scale with the nearest level (`into` is null)."""

    into: LevelValue | None = None
    below: int


class PramModel(_Model):
    """The `pram` object. What follows `channels` is of a released file; a mechanism alone has none of it."""

    version: str
    channels: Annotated[list[AssignmentModel], Field(min_length=1)]
    unit: UnitModel | None = None
    rows: Annotated[int, Field(ge=0)] | None = None
    missing: dict[str, Annotated[int, Field(ge=0)]] | None = None
    missing_level: LevelValue | None = None
    merged: dict[str, MergedModel] | None = None
    dropped: list[str] | None = None
    shuffled: bool = False
    new_id: str | None = None
    allowed: list[str] | None = None
    epsilon: Annotated[float, Field(ge=0)] | None = None
    randomness: RandomnessKind | None = None
    limits: list[str] | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None


def schema_text() -> str:
    """The JSON Schema that the models stand for."""
    body = PramModel.model_json_schema()
    definitions = body.pop("$defs")
    definitions["Pram"] = body
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Description of a perturbed file, version 1",
        "description": "An object with a `pram` property: a mechanism alone, or a resource of a Data Package.",
        "type": "object",
        "required": ["pram"],
        "properties": {"pram": {"$ref": "#/$defs/Pram"}},
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def to_document(mechanism: Mechanism) -> Document:
    """The `pram` object. Epsilon is null where a structural zero makes it infinite."""
    channels = [
        {
            "columns": list(a.columns),
            "randomization": a.channel.document(),
            "epsilon": a.channel.epsilon if math.isfinite(a.channel.epsilon) else None,
        }
        for a in mechanism.assignments
    ]
    if mechanism.unit is None:
        return {"pram": {"version": VERSION, "channels": channels}}
    return {"pram": {"version": UNIT_VERSION, "unit": asdict(mechanism.unit), "channels": channels}}


def from_document(document: Any, source: str) -> Mechanism:
    """A mechanism from a parsed `pram` object; errors name the path inside the document."""
    return _built(parsed(document, source), source)


def parsed(document: Any, source: str) -> PramModel:
    """A `pram` object, checked, with what it says of the released file."""
    body = document.get("pram") if isinstance(document, dict) else None
    if body is None:
        raise MechanismError(f"{source} holds no 'pram' object: it is not the description of a mechanism")
    _refuse_newer(body, source)
    try:
        return PramModel.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise MechanismError(f"{source}: pram.{where}: {first['msg']}") from None


def _built(model: PramModel, source: str) -> Mechanism:
    channels: dict[str | tuple[str, ...], Channel] = {}
    for position, assignment in enumerate(model.channels):
        key = _key(assignment.columns)
        try:
            if key in channels:
                raise MechanismError(f"column {key!r} appears more than once: a column passes one channel")
            channels[key] = assignment.randomization.built()
        except MechanismError as error:
            raise MechanismError(f"{source}: pram.channels.{position}: {error}") from None
    return Mechanism(channels, None if model.unit is None else Unit(model.unit.column, model.unit.varies))


def _refuse_newer(body: Any, source: str) -> None:
    version = str(body.get("version", "")) if isinstance(body, dict) else ""
    major = version.split(".")[0]
    if not re.fullmatch("[0-9]{1,9}", major):
        raise MechanismError(f"{source}: pram.version is {version[:20]!r}, not a version such as {VERSION!r}")
    if int(major) > int(UNIT_VERSION.split(".")[0]):
        raise MechanismError(
            f"{source} has version {version}, newer than the {UNIT_VERSION} that this release reads: update pramana"
        )


def _key(columns: list[str]) -> str | tuple[str, ...]:
    return columns[0] if len(columns) == 1 else tuple(columns)


def save(mechanism: Mechanism, path: Path) -> None:
    """Write to a temporary name in the same folder, then rename."""
    try:
        text = json.dumps(to_document(mechanism), indent=2, ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        raise MechanismError(f"levels must be text, numbers or true and false to be written as JSON: {error}") from None
    write_text(path, text + "\n")


def load(path: Path) -> Mechanism:
    """From a mechanism file, or from the description that a data file carries or lies beside."""
    if not path.is_file():
        raise MechanismError(f"mechanism file {str(path)!r} does not exist")
    if path.suffix.lower() != ".json":
        description = find_description(path)
        if description is None:
            raise MechanismError(
                f"{str(path)!r} carries no description and none lies beside it: name the mechanism file, as in --mechanism mechanism.json"
            )
        return from_document(description, str(path))
    return from_document(_single(_parse(path), path), str(path))


def _parse(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (
        ValueError,
        RecursionError,
    ) as error:  # no JSON, no UTF-8, a number of thousands of digits; nested too deeply
        raise MechanismError(f"{str(path)!r} is not valid JSON: {error}") from None


def _single(document: Any, path: Path) -> Any:
    """A datapackage.json with one described resource stands for that resource."""
    if not isinstance(document, dict) or "pram" in document or "resources" not in document:
        return document
    described = [r for r in _resources(document) if "pram" in r]
    if len(described) != 1:
        raise MechanismError(
            f"{str(path)!r} describes {len(described)} perturbed resources: load the one you want by its data file"
        )
    return described[0]


def _resources(document: Any) -> list[Document]:
    listed = document.get("resources") if isinstance(document, dict) else None
    return [r for r in listed if isinstance(r, dict)] if isinstance(listed, list) else []


def find_description(data: Path) -> Document | None:
    """The `pram` object inside a Parquet file, or in the datapackage.json beside any file; None where there is none."""
    package = data.parent / "datapackage.json"
    if package.is_file():
        for resource in _resources(_parse(package)):
            if "pram" in resource and Path(str(resource.get("path"))) == Path(data.name):
                return {"pram": resource["pram"]}
    if data.suffix.lower() in (".parquet", ".pq") and data.is_file():
        return inside_parquet(data)
    return None


def described_columns(document: Document) -> list[str]:
    """The columns that a description says were perturbed, also where the rest of it cannot be read."""
    body = document.get("pram")
    channels = body.get("channels") if isinstance(body, dict) else None
    listed = [c.get("columns") for c in channels if isinstance(c, dict)] if isinstance(channels, list) else []
    return [name for columns in listed if isinstance(columns, list) for name in columns]


def inside_parquet(path: Path) -> Document | None:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        metadata = parquet.read_schema(path).metadata or {}
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(path, error) from None
    return inside_metadata(metadata, str(path))


def inside_metadata(metadata: Mapping[bytes, bytes] | None, source: str) -> Document | None:
    """The description among the key-value metadata of a Parquet file or an Arrow table."""
    if not metadata or PARQUET_KEY not in metadata:
        return None
    try:
        parsed = json.loads(metadata[PARQUET_KEY])
    except (ValueError, RecursionError) as error:
        raise MechanismError(
            f"{source}: the metadata under {PARQUET_KEY.decode()!r} are not valid JSON: {error}"
        ) from None
    return parsed if isinstance(parsed, dict) else {"pram": parsed}

"""The published description of a mechanism: versioned JSON, the same alone, in a Data Package or inside Parquet."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import asdict
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, create_model

from pramana.errors import MechanismError, listing
from pramana.frames import Variable
from pramana.frames.levels import is_number
from pramana.frames.writing import write_text
from pramana.mechanism.channel import Channel, Document
from pramana.mechanism.channels.encodings.hadamard import HadamardResponse
from pramana.mechanism.channels.encodings.hashing import LocalHashing
from pramana.mechanism.channels.encodings.subsets import SubsetSelection
from pramana.mechanism.channels.encodings.unary import UnaryEncoding
from pramana.mechanism.channels.free import FreeMatrix
from pramana.mechanism.channels.joint_noise import JointGaussianNoise
from pramana.mechanism.channels.noise import (
    DiscreteGaussianNoise,
    GaussianNoise,
    GeometricNoise,
    KeepOrNoise,
    LaplaceNoise,
    UniformNoise,
)
from pramana.mechanism.channels.rectangular import RectangularMatrix
from pramana.mechanism.channels.stratified import Stratified
from pramana.mechanism.channels.transition import TransitionMatrix
from pramana.mechanism.draws.keystream import RandomnessKind
from pramana.mechanism.mechanism import Mechanism, Unit

VERSION = "1.2"
LATER_VERSION = "1.3"
"""Of a description with additive noise, with a channel whose released values are no levels, or with free parameters."""
UNIT_VERSION = "2.0"
"""Of a description with a unit: readers that do not know units must refuse it, for they would understate errors."""
LATE = ("sha256", "missing", "released")
"""What is known only when the file is written: it stands in the description beside the file, not in the one inside."""
GROWING = ("limits", "allowed")
"""Lists to which the rows may add, so that the description beside the file can say more than the one inside."""
PARQUET_KEY = b"pram"
SCHEMA = Path(__file__).with_name("pram-1.schema.json")
"""The JSON Schema of the `pram` object, shipped with the package; `make schema` writes it anew from the models."""

EPSILON_TOLERANCE = 1e-6
"""Relative; another machine's logarithm differs in the last digits."""

LevelValue = bool | int | float | str
KindName = Literal["nominal", "ordinal", "numeric"]
Levels = Annotated[list[LevelValue | list[LevelValue]], Field(min_length=2), FailFast()]
"""One fault is enough: a list of a million wrong levels would have five million."""
PlainLevels = Annotated[list[LevelValue], Field(min_length=2), FailFast()]


class _Model(BaseModel):
    """Newer minor versions may add fields: they are ignored, not refused."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class ChannelModel(_Model):
    """What a description says of one channel. A new kind of channel has a subclass here, with the word for it as `channel`."""

    def built(self) -> Channel:
        """The channel that is described."""
        return TransitionMatrix.from_document(self.model_dump())


class VaryingModel(ChannelModel):
    """Of a channel that may be another one in each stratum."""


class MatrixModel(VaryingModel):
    channel: Literal["transition_matrix"]
    kind: KindName | None = None
    levels: Levels
    conditional: bool = False
    given: list[Literal["frequencies", "levels"]] | None = None
    orientation: Literal["columns", "rows"]
    matrix: Annotated[list[Annotated[list[float], FailFast()]], FailFast()]


class MixtureModel(VaryingModel):
    channel: Literal["mixture"]
    kind: KindName | None = None
    levels: Levels
    conditional: bool = False
    given: list[Literal["frequencies", "levels"]] | None = None
    refill: Annotated[float, Field(ge=0, lt=1)]
    frequencies: list[Annotated[float, Field(ge=0)]] | None = None


class MeasuredModel(MatrixModel):
    """A matrix that was estimated: each column is as well known as so many people of that true level tell; null is known exactly.

    A channel of its own, so that readers who take every P as known refuse it: they would understate errors.
    """

    channel: Literal["measured_matrix"]  # type: ignore[assignment]
    sizes: list[Annotated[float, Field(gt=0)] | None]
    validated: list[Annotated[int, Field(ge=0)]] | None = None
    internal: bool = False


class BandModel(VaryingModel):
    """Moves of at most `width` steps: `diagonals[width + i − j][j]` is the chance that level j is released as level i."""

    channel: Literal["band"]
    kind: KindName | None = None
    levels: Levels
    conditional: bool = False
    given: list[Literal["frequencies", "levels"]] | None = None
    width: Annotated[int, Field(ge=1)]
    diagonals: list[list[float]]


class RectangularModel(ChannelModel):
    """More released labels than levels; `frequencies` are those at which the reversion has the smallest variance."""

    channel: Literal["rectangular_matrix"]
    kind: KindName | None = None
    levels: PlainLevels
    released: PlainLevels
    orientation: Literal["columns", "rows"]
    matrix: Annotated[list[Annotated[list[float], FailFast()]], FailFast()]
    frequencies: list[Annotated[float, Field(ge=0)]] | None = None

    def built(self) -> Channel:
        build = RectangularMatrix if self.orientation == "columns" else RectangularMatrix.from_rows
        return build(self.levels, self.matrix, released=self.released, frequencies=self.frequencies, kind=self.kind)


class FreeGroup(_Model):
    """The matrices of one group: that of those who are left, then one for each parameter."""

    value: LevelValue
    matrices: Annotated[list[list[Annotated[list[float], FailFast()]]], FailFast()]


class FreeModel(ChannelModel):
    """A share of people, unknown, answers by each of the matrices, the rest by the first; people were assigned to groups at random."""

    channel: Literal["free_matrix"]
    kind: KindName | None = None
    levels: PlainLevels
    orientation: Literal["columns"]
    parameters: Annotated[list[str], Field(min_length=1), FailFast()]
    by: str
    groups: Annotated[list[FreeGroup], Field(min_length=1), FailFast()]

    def built(self) -> Channel:
        _refuse_twice([g.value for g in self.groups], f"groups of {self.by!r}")
        groups = {g.value: g.matrices for g in self.groups}
        return FreeMatrix(self.by, groups, self.parameters, levels=self.levels, kind=self.kind)


def _refuse_twice(values: list[LevelValue], what: str) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise MechanismError(f"{what} {listing(twice)} appear more than once: describe each once")


class EncodingModel(ChannelModel):
    """Reports that are no levels; `columns` are those in which they lie where it is not the one with the variable's name."""

    kind: KindName | None = None
    levels: PlainLevels
    columns: list[str] | None = None


class UnaryModel(EncodingModel):
    """A bit for each level: 1 with chance `p` for the true one, with chance `q` for each other."""

    channel: Literal["unary_encoding"]
    p: float
    q: float

    def built(self) -> Channel:
        return UnaryEncoding(self.levels, self.p, self.q, columns=self.columns, kind=self.kind)


class SubsetModel(EncodingModel):
    channel: Literal["subset_selection"]
    epsilon: float
    size: int

    def built(self) -> Channel:
        return SubsetSelection(self.levels, self.epsilon, self.size, columns=self.columns, kind=self.kind)


class HashingModel(EncodingModel):
    channel: Literal["local_hashing"]
    epsilon: float
    buckets: int
    hash: Literal["xxh32"]

    def built(self) -> Channel:
        return LocalHashing(self.levels, self.epsilon, self.buckets, columns=self.columns, kind=self.kind)


class HadamardModel(EncodingModel):
    channel: Literal["hadamard_response"]
    epsilon: float

    def built(self) -> Channel:
        return HadamardResponse(self.levels, self.epsilon, columns=self.columns, kind=self.kind)


Scale = Annotated[float, Field(gt=0)]
Bounds = Annotated[list[float], Field(min_length=2, max_length=2)] | None


class LaplaceModel(VaryingModel):
    """Noise of scale b, added to values that were clamped to the bounds; likewise those that follow."""

    channel: Literal["laplace_noise"]
    scale: Scale
    bounds: Bounds = None

    def built(self) -> Channel:
        return LaplaceNoise(self.scale, _pair(self.bounds))


class ClampedLaplaceModel(ChannelModel):
    """The same, of which what is released was clamped to the bounds as well."""

    channel: Literal["clamped_laplace_noise"]
    scale: Scale
    bounds: Annotated[list[float], Field(min_length=2, max_length=2)]

    def built(self) -> Channel:
        return LaplaceNoise(self.scale, _pair(self.bounds)).clamped()


class GeometricModel(VaryingModel):
    channel: Literal["geometric_noise"]
    scale: Scale
    step: Scale
    bounds: Bounds = None

    def built(self) -> Channel:
        return GeometricNoise(self.scale, step=self.step, bounds=self.bounds)


class GaussianModel(VaryingModel):
    channel: Literal["gaussian_noise"]
    sd: Scale
    bounds: Bounds = None

    def built(self) -> Channel:
        return GaussianNoise(self.sd, _pair(self.bounds))


class JointGaussianModel(ChannelModel):
    """Normal noise with a covariance, for as many columns as it has rows; bounds for each of them."""

    channel: Literal["joint_gaussian_noise"]
    covariance: Annotated[list[Annotated[list[float], FailFast()]], Field(min_length=2), FailFast()]
    bounds: list[Annotated[list[float], Field(min_length=2, max_length=2)]] | None = None

    def built(self) -> Channel:
        return JointGaussianNoise(self.covariance, self.bounds)


class DiscreteGaussianModel(VaryingModel):
    channel: Literal["discrete_gaussian_noise"]
    sd: Scale
    step: Scale
    bounds: Bounds = None

    def built(self) -> Channel:
        return DiscreteGaussianNoise(self.sd, self.step, _pair(self.bounds))


class UniformModel(VaryingModel):
    channel: Literal["uniform_noise"]
    width: Scale
    bounds: Bounds = None

    def built(self) -> Channel:
        return UniformNoise(self.width, _pair(self.bounds))


class KeepOrNoiseModel(VaryingModel):
    """The value stays with probability `keep`, else noise is added: Laplace by its scale, normal by its sd, uniform by its width, and in whole steps geometric
    or discrete normal."""

    channel: Literal["keep_or_noise"]
    keep: Annotated[float, Field(gt=0, lt=1)]
    scale: Scale | None = None
    sd: Scale | None = None
    width: Scale | None = None
    step: Scale | None = None
    bounds: Bounds = None

    def built(self) -> Channel:
        bounds, step = _pair(self.bounds), self.step
        strengths = {"scale": self.scale, "sd": self.sd, "width": self.width}
        match [(name, value) for name, value in strengths.items() if value is not None]:
            case [("scale", b)]:
                return KeepOrNoise(
                    self.keep, LaplaceNoise(b, bounds) if step is None else GeometricNoise(b, step=step, bounds=bounds)
                )
            case [("sd", sd)]:
                return KeepOrNoise(
                    self.keep, GaussianNoise(sd, bounds) if step is None else DiscreteGaussianNoise(sd, step, bounds)
                )
            case [("width", width)] if step is None:
                return KeepOrNoise(self.keep, UniformNoise(width, bounds))
        raise MechanismError(
            "keep_or_noise needs one of scale, sd and width, and no step with a width: write those of the noise that was added"
        )


def _pair(bounds: list[float] | None) -> tuple[float, float] | None:
    return None if bounds is None else (bounds[0], bounds[1])


def _kinds(of: type[ChannelModel]) -> list[type[ChannelModel]]:
    """The subclasses, near and far, that are the model of some channel."""
    found = [kind for child in of.__subclasses__() for kind in (child, *_kinds(child))]
    return [kind for kind in found if "channel" in kind.__annotations__]


def _one_of(models: list[type[ChannelModel]]) -> Any:
    """Whichever of the models `channel` names."""
    return Annotated[reduce(or_, models), Field(discriminator="channel")]


def _in_a_stratum(model: type[ChannelModel]) -> type[ChannelModel]:
    """The model with the value of the stratum."""
    name = model.__name__.replace("Model", "Stratum")
    return create_model(name, __base__=model, __module__=__name__, value=(LevelValue, ...))


if TYPE_CHECKING:

    class Stratum(ChannelModel):
        value: LevelValue
else:
    Stratum = _one_of([_in_a_stratum(kind) for kind in _kinds(VaryingModel)])


class StratifiedModel(ChannelModel):
    channel: Literal["stratified"]
    by: str
    strata: Annotated[list[Stratum], FailFast()]

    def built(self) -> Channel:
        _refuse_twice([s.value for s in self.strata], f"strata of {self.by!r}")
        return Stratified(self.by, {s.value: s.built() for s in self.strata})


if TYPE_CHECKING:
    Randomization = ChannelModel
else:
    Randomization = _one_of(_kinds(ChannelModel))


class AssignmentModel(_Model):
    columns: Annotated[list[str], Field(min_length=1), FailFast()]
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
    """The `pram` object. What follows `channels` is of a released file; a mechanism alone has none of it.

    `released` counts the records of each released level, channel by channel in the order of `channels` and of their levels.
    """

    version: str
    channels: Annotated[list[AssignmentModel], Field(min_length=1), FailFast()]
    unit: UnitModel | None = None
    rows: Annotated[int, Field(ge=0)] | None = None
    missing: dict[str, Annotated[int, Field(ge=0)]] | None = None
    released: list[list[Annotated[int, Field(ge=0)]]] | None = None
    missing_level: dict[str, LevelValue] | None = None
    missing_marks: list[str] | None = None
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
        later = bool(mechanism.noisy) or any(
            a.reports or isinstance(a.channel, FreeMatrix) for a in mechanism.assignments
        )
        return {"pram": {"version": LATER_VERSION if later else VERSION, "channels": channels}}
    return {"pram": {"version": UNIT_VERSION, "unit": asdict(mechanism.unit), "channels": channels}}


def from_document(document: Any, source: str) -> Mechanism:
    """A mechanism from a parsed `pram` object; errors name the path inside the document."""
    return built(parsed(document, source), source)


def parsed(document: Any, source: str) -> PramModel:
    """A `pram` object, checked, with what it says of the released file."""
    body = document.get("pram") if isinstance(document, dict) else None
    if body is None:
        raise MechanismError(f"{source} holds no 'pram' object: it is not the description of a mechanism")
    refuse_newer(body.get("version") if isinstance(body, dict) else None, source)
    try:
        model = PramModel.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise MechanismError(f"{source}: pram.{where}: {first['msg'][:300]}") from None
    if (model.unit is not None) != (int(model.version.split(".")[0]) >= 2):
        raise MechanismError(
            f"{source}: version {model.version} {'without' if model.unit is None else 'with'} a unit: descriptions of version 2 name the "
            "unit whose records share their draws, and older ones have none; get the description again"
        )
    return model


def comparable(beside: Any, inside: Any) -> tuple[Any, Any]:
    """The `pram` objects beside a file and inside it, without what cannot be said inside: they must be equal."""
    if not isinstance(beside, dict) or not isinstance(inside, dict):
        return beside, inside
    outer, inner = ({k: v for k, v in body.items() if k not in LATE} for body in (beside, inside))
    for key in GROWING:
        said = inner.get(key, [])
        if isinstance(said, list) and isinstance(outer.get(key), list):
            outer[key] = outer[key][: len(said)]
            inner.setdefault(key, said)
    return outer, inner


def refuse_newer(version: object, source: str) -> None:
    """The one place where a version is read: two numbers with a point between them, the first no newer than ours."""
    if not isinstance(version, str) or not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*", version):
        shown = repr(version[:20] if isinstance(version, str) else version)
        raise MechanismError(f"{source}: pram.version is {shown[:60]}, not a version such as {VERSION!r}")
    if int(version.split(".")[0]) > int(UNIT_VERSION.split(".")[0]):
        raise MechanismError(
            f"{source} has version {version}, newer than the {UNIT_VERSION} that this release reads: update pramana"
        )


def built(model: PramModel, source: str) -> Mechanism:
    """The mechanism that a checked description stands for."""
    channels: dict[str | tuple[str, ...], Channel] = {}
    for position, assignment in enumerate(model.channels):
        key = _key(assignment.columns)
        try:
            if key in channels:
                raise MechanismError(f"column {key!r} appears more than once: a column passes one channel")
            channels[key] = assignment.randomization.built()
        except MechanismError as error:
            raise MechanismError(f"{source}: pram.channels.{position}: {error}") from None
    unit = None if model.unit is None else Unit(model.unit.column, model.unit.varies)
    try:
        return Mechanism(channels, unit)
    except MechanismError as error:
        raise MechanismError(f"{source}: pram.channels: {error}") from None


def false_epsilons(model: PramModel, mechanism: Mechanism) -> list[str]:
    """Privacy losses that are stated and that the matrices do not have. A null promises nothing."""
    pairs = zip(model.channels, mechanism.assignments, strict=True)
    found = [
        (f"pram.channels.{k}.epsilon", stated.epsilon, own.channel.epsilon, listing(own.columns))
        for k, (stated, own) in enumerate(pairs)
    ]
    found.append(("pram.epsilon", model.epsilon, mechanism.epsilon, "all columns together"))
    return [
        f"{where} is {stated:.10g}, but the matrices of {columns} have {own:.10g}"
        for where, stated, own, columns in found
        if stated is not None and not math.isclose(stated, own, rel_tol=EPSILON_TOLERANCE, abs_tol=EPSILON_TOLERANCE)
    ]


def _key(columns: list[str]) -> str | tuple[str, ...]:
    return columns[0] if len(columns) == 1 else tuple(columns)


def save(mechanism: Mechanism, path: Path, *, force: bool = True) -> None:
    """As a mechanism file, which appears complete or not at all."""
    try:
        text = json.dumps(to_document(mechanism), indent=2, ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        raise MechanismError(f"levels must be text, numbers or true and false to be written as JSON: {error}") from None
    write_text(path, text + "\n", force=force)


def field_of(name: str, variable: Variable | None, arrow: str) -> Document:
    """A column as the schema of a Data Package has it; `arrow` is its type in a Parquet file, "" in others."""
    if variable is None or variable.levels is None:
        return {"name": name, "type": _type_name(arrow)}
    values = variable.levels
    own = "boolean" if isinstance(values[0], bool) else "number" if is_number(values[0]) else "string"
    own = "integer" if own == "number" and all(isinstance(v, int) for v in values) else own
    return {"name": name, "type": own, "constraints": {"enum": list(values)}}


def _type_name(arrow: str) -> str:
    patterns = {
        r"u?int\d+$": "integer",
        r"(float|double|halffloat|decimal)": "number",
        r"bool": "boolean",
        r"(large_)?string|dictionary<values=(large_)?string": "string",
        r"date": "date",
        r"timestamp": "datetime",
        r"time": "time",
        r"(large_)?list|fixed_size_list": "list",
    }
    return next((name for pattern, name in patterns.items() if re.match(pattern, arrow)), "any")

"""The published description: a Data Package beside the file, and the `pram` object inside a Parquet file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pramana.disclosure.release.ledger import finite
from pramana.errors import MechanismError, PramanaError
from pramana.frames.dialects import Dialect, description
from pramana.frames.documents import LARGEST, read_json
from pramana.frames.files import format_of
from pramana.frames.writing import encoded
from pramana.mechanism import Mechanism
from pramana.mechanism.description.document import PARQUET_KEY, field_of, parsed
from pramana.mechanism.description.reading import PACKAGE
from pramana.mechanism.draws.keyed import LIMITS, UNIT, VARYING
from pramana.mechanism.draws.keystream import RandomnessKind

_PROFILES = "https://datapackage.org/profiles/2.0"


def pram_object(
    mechanism: Mechanism,
    *,
    rows: int,
    randomness: RandomnessKind,
    facts: Mapping[str, Any],
    limits: Sequence[str] = (),
) -> dict[str, Any]:
    """What was done to a file. Never a seed or a key; `facts` are what else is to be said of the release."""
    body = mechanism.document()["pram"] | {"rows": rows, "epsilon": finite(mechanism.epsilon), "randomness": randomness}
    stated = [*(LIMITS if randomness == "keyed" else ()), *unit_limits(mechanism), *noise_limits(mechanism), *limits]
    body |= {"limits": stated} if stated else {}
    body |= {name: value for name, value in facts.items() if value not in (None, False, [], {})}
    try:
        plain: dict[str, Any] = json.loads(json.dumps(body, allow_nan=False))
    except TypeError:
        raise MechanismError("levels must be text, numbers or true and false to be written as JSON") from None
    parsed({"pram": plain}, "the description")
    return plain


def unit_limits(mechanism: Mechanism) -> list[str]:
    """What must be said where records share their draws."""
    unit = mechanism.unit
    return [] if unit is None else [(VARYING if unit.varies else UNIT).format(column=unit.column)]


def noise_limits(mechanism: Mechanism) -> list[str]:
    """What must be said of noise: estimates are of what it was added to, and no epsilon may hold."""
    if not mechanism.noisy:
        return []
    told = [
        f"Noise was added to {', '.join(mechanism.noisy)} after clamping and rounding: what is estimated is of the clamped, rounded values."
    ]
    unbounded = [c for a in mechanism.assignments for c in a.columns if a.numeric and math.isinf(a.channel.epsilon)]
    if unbounded:
        rho = f"all columns together have rho = {mechanism.rho:.4g} of concentrated differential privacy"
        rho = rho if math.isfinite(mechanism.rho) else "nor do all columns together have a finite rho"
        told.append(f"The noise of {', '.join(unbounded)} has no finite epsilon; {rho}.")
    return told


def inside(body: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Key-value metadata of a Parquet file."""
    return {PARQUET_KEY: encoded(json.dumps({"pram": body}, ensure_ascii=False, allow_nan=False))}


def resource(
    target: Path,
    columns: Mapping[str, str],
    mechanism: Mechanism,
    body: Mapping[str, Any],
    size: int,
    dialect: Dialect | None = None,
) -> dict[str, Any]:
    """One released file as a Data Package v2 describes it; `columns` has Arrow's names of their types, or ""."""
    kind = format_of(target)
    variables = mechanism.schema.variables
    stated = {} if dialect is None else description(dialect)
    mark = {k: v for k, v in stated.items() if k == "decimalChar"}
    numbers = {
        a.columns[0]: "int64" if all(noise.whole for noise in a.noises.values()) else "double"
        for a in mechanism.by_column.assignments
        if a.numeric
    }
    plain = [field_of(name, variables.get(name), arrow or numbers.get(name, "")) for name, arrow in columns.items()]
    fields = [f | mark if f["type"] == "number" else f for f in plain]
    schema: dict[str, Any] = {"$schema": f"{_PROFILES}/tableschema.json", "fields": fields}
    if kind == "csv":
        schema["missingValues"] = [""]
    made: dict[str, Any] = {
        "$schema": f"{_PROFILES}/dataresource.json",
        "name": _slug(target.name),
        "path": target.name,
        "type": "table",
        "format": kind,
        "mediatype": "text/csv" if kind == "csv" else "application/vnd.apache.parquet",
    }
    if kind == "csv":
        # Not for Parquet: frictionless, which does not hash its bytes, would call every file wrong. `pram` has the hash.
        made |= {"encoding": "utf-8", "bytes": size, "hash": f"sha256:{body['sha256']}"}
    if stated:
        made["dialect"] = {"$schema": f"{_PROFILES}/tabledialect.json", **stated}
    return {**made, "schema": schema, "pram": dict(body)}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-") or "data"


def read_package(folder: Path) -> dict[str, Any] | None:
    """The description of a folder, or None; one that cannot be added to is an error before any work is done."""
    path = folder / PACKAGE
    if not path.exists():
        return None
    try:
        package = read_json(path, "the description", MechanismError)
    except MechanismError as error:
        raise MechanismError(f"{error}; repair or remove it first") from None
    if not isinstance(package, dict) or not isinstance(package.get("resources", []), list):
        raise MechanismError(f"{str(path)!r} is not a Data Package: repair or remove it first")
    return package


def merged_package(package: Mapping[str, Any] | None, *new: Mapping[str, Any]) -> str:
    """The folder's description with the entries of some files added or replaced; everything else is kept."""
    base: dict[str, Any] = dict(package) if package is not None else {"$schema": f"{_PROFILES}/datapackage.json"}
    paths = {Path(str(entry["path"])) for entry in new}
    listed = [r for r in base.get("resources", []) if not _describes(r, paths)]
    names = {str(r.get("name")) for r in listed if isinstance(r, dict)}
    for entry in new:
        name = _free(str(entry["name"]), names)
        names.add(name)
        listed.append({**entry, "name": name})
    text = json.dumps({**base, "resources": listed}, indent=2, ensure_ascii=False) + "\n"
    if len(text) > LARGEST["JSON"]:
        raise PramanaError(
            f"the description of {len(new)} file(s) would have {len(text)} characters, more than the {LARGEST['JSON']} that are read: "
            "release fewer and larger files"
        )
    return text


def _describes(entry: Any, paths: Collection[Path]) -> bool:
    return isinstance(entry, dict) and entry.get("path") is not None and Path(str(entry["path"])) in paths


def _free(name: str, taken: Collection[str]) -> str:
    """Names of resources must differ."""
    if name not in taken:
        return name
    return next(f"{name}-{k}" for k in range(2, len(taken) + 3) if f"{name}-{k}" not in taken)

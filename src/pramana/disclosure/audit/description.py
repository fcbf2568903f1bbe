"""What a description says, against the file it describes, the limits and the ledger."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pramana.disclosure.audit.auditing import Finding, verdict
from pramana.disclosure.release.clearance import NEARLY
from pramana.disclosure.release.description import resource
from pramana.disclosure.release.ledger import independent_draws, read_ledger, shown, spent
from pramana.frames.blocks.stream import CopyLayout, Reader
from pramana.frames.files import format_of
from pramana.frames.writing import sha256
from pramana.mechanism import Mechanism
from pramana.mechanism.description.document import PramModel, comparable
from pramana.mechanism.description.reading import Given

_SECRET = {"seed", "seeds", "secret", "key", "keys", "keystream", "password", "passphrase", "nonce", "salt"}
_HARMLESS = {"primarykey", "foreignkeys", "uniquekeys"}
_FREE = {"levels", "enum", "value", "columns", "name", "path", "by", "sha256", "hash", "strata_by"}
_LOOKS_LIKE_KEY = re.compile(r"[0-9a-fA-F]{32,}|[A-Za-z0-9+/_-]{43,}={0,2}")


def check_presence(given: Given) -> list[Finding]:
    """A description beside the file, and inside a Parquet file the same."""
    if given.document is None:
        return [Finding("description", "error", "none beside the file or in it: nobody can analyse it correctly")]
    if given.beside is None:
        return [Finding("description", "warning", "only inside the file: its hash is nowhere, and other tools lose it")]
    both = (None, None) if given.inside is None else comparable(given.beside.get("pram"), given.inside.get("pram"))
    if both[0] != both[1]:
        return [Finding("description", "error", "the one beside the file and the one inside it differ")]
    return [Finding("description", "ok", "found" + (" beside the file and in it" if given.inside else ""))]


def check_secrets(given: Given) -> list[Finding]:
    """Nothing in a description may look like a seed or a key; its value is not repeated here."""
    found = [*_secrets(given.beside, "datapackage.json"), *_secrets(given.inside, "Parquet metadata")]
    problems = [
        Finding("secrets", "error", f"{where} looks like a seed or a key: withdraw the file, its draws can be undone")
        for where in dict.fromkeys(found)
    ]
    return verdict("secrets", problems, "no seed or key in the description")


def _secrets(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if _secret_name(str(name)) and inner not in (None, "", [], {}):
                yield f"{where}.{name}"
            elif str(name) not in _FREE:
                yield from _secrets(inner, f"{where}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, where)
    elif isinstance(value, str) and _LOOKS_LIKE_KEY.fullmatch(value):
        yield where


def _secret_name(name: str) -> bool:
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    return name.lower() not in _HARMLESS and not _SECRET.isdisjoint(words)


_PANDAS = {"index_columns", "column_indexes", "columns", "creator", "pandas_version", "partition_columns"}
_PANDAS_COLUMN = {"name", "field_name", "pandas_type", "numpy_type", "metadata"}
_PANDAS_TYPE = {"timezone", "num_categories", "ordered", "encoding", "precision", "scale"}


def check_metadata(path: Path, perturbed: Sequence[str]) -> list[Finding]:
    """Nothing in a Parquet file but columns, our description and what pandas needs of their types; values are not repeated here.

    Nor a value in the dictionary of a clear column that no record has: it may be of a record that was taken out.
    """
    if format_of(path) != "parquet":
        return []
    from pyarrow import parquet

    schema = parquet.read_schema(path)
    found = [f"key {_shown(key)} of the file" for key in schema.metadata or {} if key not in (b"pram", b"pandas")]
    found += [where for field in schema for where in _field_metadata(field, field.name)]
    found += _pandas_extras((schema.metadata or {}).get(b"pandas"), set(schema.names))
    found += [where for field in schema if field.name not in perturbed for where in _listed_only(path, field)]
    problems = [
        Finding(
            "metadata",
            "error",
            f"{where} was not put there by a release, and may tell of the original: release the file anew, or remove it",
        )
        for where in found
    ]
    return verdict("metadata", problems, "no foreign metadata in the file")


def _shown(key: bytes) -> str:
    return repr(key.decode("utf-8", "replace")[:40])


def _field_metadata(field: Any, name: str) -> Iterator[str]:
    """Field numbers are the format's own."""
    extra = [key for key in field.metadata or {} if key != b"PARQUET:field_id"]
    yield from (f"key {_shown(key)} of column {name!r}" for key in extra)
    for k in range(field.type.num_fields):
        inner = field.type.field(k)
        yield from _field_metadata(inner, f"{name}.{inner.name}")


def _listed_only(path: Path, field: Any) -> Iterator[str]:
    """Values that the dictionary of a column lists and no record has."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    if not pa.types.is_dictionary(field.type):
        return
    listed, held = set(), set()
    for batch in parquet.ParquetFile(path).iter_batches(columns=[field.name]):
        column = batch.column(0)
        listed.update(column.dictionary.to_pylist())
        held.update(column.dictionary.take(pc.drop_null(pc.unique(column.indices))).to_pylist())
    if listed - held:
        yield f"the dictionary of column {field.name!r} lists {len(listed - held)} value(s) that no record has, which"


def _pandas_extras(block: bytes | None, names: set[str]) -> list[str]:
    """What pandas writes beside types: attributes of the frame, and names of columns that the file does not have."""
    if block is None:
        return []
    try:
        body = json.loads(block)
        columns = list(body.get("columns", []))
        extra = [f"{key!r} in the pandas metadata" for key, held in body.items() if key not in _PANDAS and held]
        for each in columns:
            extra += _pandas_column(each, names)
        index = [i for i in body.get("index_columns", []) if not isinstance(i, dict) and i not in names]
        return extra + [f"the index {i!r} in the pandas metadata, a column that the file lacks," for i in index]
    except (ValueError, RecursionError, AttributeError, TypeError):
        return ["what stands under 'pandas' and is not pandas' own"]


def _pandas_column(each: dict[str, Any], names: set[str]) -> list[str]:
    name = each.get("field_name")
    if name not in names and not str(name).startswith("__index_level_"):
        return [f"column {name!r} in the pandas metadata, which the file lacks,"]
    extra = [key for key, held in each.items() if key not in _PANDAS_COLUMN and held]
    extra += [key for key in each.get("metadata") or {} if key not in _PANDAS_TYPE]
    return [f"{key!r} of column {name!r} in the pandas metadata" for key in extra]


def check_file(path: Path, body: PramModel, given: Given) -> list[Finding]:
    """The file's bytes against the hashes stated."""
    found = sha256(path)
    stated = [h for h in (body.sha256, str((given.beside or {}).get("hash", "")).removeprefix("sha256:")) if h]
    if not stated:
        return [Finding("hash", "warning", "the description states none: a changed file would go unseen")]
    wrong = [
        Finding(
            "hash",
            "error",
            f"the file has SHA-256 {found[:12]}…, the description says {h[:12]}…: the file is not the one described",
        )
        for h in dict.fromkeys(stated)
        if h != found
    ]
    return verdict("hash", wrong, f"SHA-256 {found[:12]}… as described")


def check_schema(reader: Reader, given: Given, mechanism: Mechanism) -> list[Finding]:
    """Names, order and (in Parquet) types of the columns."""
    schema = (given.beside or {}).get("schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        return [Finding("schema", "warning", "the description lists no columns")]
    stated = [f for f in schema["fields"] if isinstance(f, dict)]
    names = [f.get("name") for f in stated]
    if names != reader.names:
        return [Finding("schema", "error", f"the file has columns {reader.names}, the description {names}")]
    facts = {"sha256": "0" * 64}
    columns = CopyLayout.of(reader.names).types(reader)
    made = {f["name"]: f for f in resource(reader.path, columns, mechanism, facts, 0)["schema"]["fields"]}
    wrong = [
        Finding(
            "schema", "error", f"column {f['name']!r} is described as {f.get('type')}, but is {made[f['name']]['type']}"
        )
        for f in stated
        if f.get("type", "any") not in ("any", made[f["name"]]["type"]) and made[f["name"]]["type"] != "any"
    ]
    return verdict("schema", wrong, f"{len(names)} columns as described")


def check_strength(
    mechanism: Mechanism, body: PramModel, epsilon_limit: float, condition_limit: float
) -> list[Finding]:
    """Matrices that undo badly, that hide little or nothing, and draws that can be repeated."""
    found = []
    for assignment in (a for a in mechanism.assignments if not a.numeric):
        worst = max(m.condition_number for m in assignment.matrices.values())
        if worst > condition_limit:
            why = f"the matrix of {' × '.join(assignment.columns)} has condition number {worst:.3g}, above {condition_limit:g}: estimates will be very noisy"
            found.append(Finding("conditioning", "warning", why))
    epsilon, unit = mechanism.epsilon, mechanism.unit
    whose = "record" if unit is None else "unit"
    if not epsilon <= epsilon_limit:
        why = "values vary within a unit" if unit is not None and unit.varies else _unbounded(mechanism)
        said = f"infinite ({why})" if math.isinf(epsilon) else f"{epsilon:.3g}"
        told = f"a {whose}'s epsilon is {said}{mechanism.epsilon_condition}, above {epsilon_limit:g}"
        found.append(Finding("epsilon", "warning", told))
    found += [
        Finding(
            "identity",
            "error",
            f"the matrix of {name} changes nothing: it publishes the true values (or other names for them)",
        )
        for name in _certain(mechanism)
    ]
    if body.randomness == "seeded (insecure)":
        found.append(Finding("randomness", "error", "drawn from a seed: whoever knows or guesses it undoes the file"))
    if body.randomness is None:
        found.append(Finding("randomness", "warning", "the description does not say how the draws were made"))
    return verdict(
        "strength", found, f"epsilon {epsilon:.3g} a {whose}{mechanism.epsilon_condition}, {body.randomness} draws"
    )


def _unbounded(mechanism: Mechanism) -> str:
    """Why epsilon is infinite."""
    noisy = [c for a in mechanism.assignments for c in a.columns if a.numeric and math.isinf(a.channel.epsilon)]
    if not noisy:
        return "some transitions are impossible"
    rho = f"; rho is {mechanism.rho:.3g}" if math.isfinite(mechanism.rho) else ""
    return f"the noise of {', '.join(noisy)} is without bounds or not Laplace's{rho}"


def _certain(mechanism: Mechanism) -> Iterator[str]:
    """Channels, or strata of them, in which every true value is (almost) always released as one value."""
    for assignment in mechanism.by_column.assignments:
        certain = {s: noise.stays >= 1 - NEARLY for s, noise in assignment.noises.items()}
        certain = certain or {s: bool(np.all(m.form.largest == 1)) for s, m in assignment.matrices.items()}
        for stratum, always in certain.items():
            if always:
                yield " × ".join(assignment.columns) + (f" (stratum {stratum!r})" if stratum is not None else "")


def check_epsilon(mechanism: Mechanism, body: PramModel) -> list[Finding]:
    """What the description states of epsilon is what its matrices have; nothing stated is infinite."""
    pairs = [
        (" × ".join(a.columns), stated.epsilon, a.channel.epsilon)
        for a, stated in zip(mechanism.assignments, body.channels, strict=True)
    ]
    pairs.append(
        ("a record" if mechanism.unit is None else f"a {mechanism.unit.column}", body.epsilon, mechanism.epsilon)
    )
    return [
        Finding(
            "epsilon",
            "error",
            f"the description states epsilon {stated:.6g} for {what}, but its matrices have {held:.6g}: it is false, write {held:.6g}",
        )
        for what, stated, held in pairs
        if stated is not None and not math.isclose(stated, held, rel_tol=1e-6, abs_tol=1e-9)
    ]


def check_ledger(ledger: Path, digest: str, mechanism: Mechanism) -> list[Finding]:
    """Independent draws of the same records in other releases, whose epsilons add."""
    entries = read_ledger(ledger)
    mine = next((e for e in entries if e.released == digest), None)
    if mine is None:
        return [Finding("ledger", "warning", "this file is not in the ledger")]
    others = independent_draws(entries, mine)
    problems = [
        Finding(
            "ledger",
            "warning",
            f"{shown(column)} was drawn independently in {len(releases)} other release(s) of the same records ({', '.join(dict.fromkeys(e.target for e in releases))}): "
            f"together they have epsilon {spent(entries, mine, column):.3g}; use a key to repeat draws",
        )
        for column, releases in others.items()
    ]
    return verdict(
        "ledger", problems, f"no other draw of {', '.join(mechanism.columns)} among {len(entries)} release(s)"
    )

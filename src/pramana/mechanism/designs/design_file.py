"""Design files: a person's request in TOML, read into a mechanism, or written for another person to read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pramana.errors import MechanismError, confidential, suggestion
from pramana.frames import Table, read
from pramana.frames.documents import read_toml
from pramana.frames.folders import files_of, read_files
from pramana.frames.marks import refuse_undeclared, with_gaps
from pramana.frames.writing import write_text
from pramana.mechanism.channel import CONDITIONS
from pramana.mechanism.designs.noise_request import NoiseRequest
from pramana.mechanism.designs.request import ColumnRequest, Request
from pramana.mechanism.mechanism import Mechanism, Unit

VERSION = 1
_HEADER = "# A design: what is asked for. The mechanism built from it is written when the data are perturbed.\n"
_NUMBER, _NUMBERS = "a number", "a number, one a level, or a table by level"
_CONDITIONAL = f"true or false, or a list of {' and '.join(CONDITIONS)}"
_STRATUM = {"keep": _NUMBERS, "epsilon": _NUMBER, "frequencies": 'a list, a table by level, or "data"'}
_SHARED = {
    "levels": "a list",
    **_STRATUM,
    "invariant": "true or false",
    "construction": "text",
    "conditional": _CONDITIONAL,
}
_COLUMN = {
    **_SHARED,
    "kind": "text",
    "band": "a whole number",
    "blocks": "a list of lists of levels",
    "fixed": "a list of levels",
    "by": "text",
    "merge_below": "a whole number",
    "other": "a level",
    "missing_level": "a level",
    "strata": "a list of tables",
}
_LINKED = {"columns": "a list of names", **_SHARED}
_NOISE_STRATUM = {
    **dict.fromkeys(("scale", "sd", "width", "epsilon", "rho", "step", "keep"), _NUMBER),
    "bounds": "a list of two numbers",
}
_NOISE = {"noise": "text", **_NOISE_STRATUM, "by": "text", "strata": "a list of tables"}
_SHARED_NOISE = {
    "columns": "a list of names",
    "noise": "text",
    "covariance": "a list of lists of numbers",
    "bounds": "a list of pairs of numbers",
    "rho": _NUMBER,
}


@dataclass(frozen=True)
class Design:
    """The requests for a file, in order."""

    requests: tuple[ColumnRequest, ...]
    unit: Unit | None = None
    missing: tuple[str, ...] = ()
    """Marks of missing values beside the empty field and the null."""

    @property
    @confidential
    def mechanism(self) -> Mechanism:
        """The channels that answer the requests."""
        channels = {}
        for request in self.requests:
            key = request.columns[0] if len(request.columns) == 1 else request.columns
            try:
                channels[key] = request.channel()
            except MechanismError as error:
                raise MechanismError(f"design of {request.name!r}: {error.marked}") from None
        return Mechanism(channels, self.unit)

    @property
    def conditional(self) -> tuple[str, ...]:
        """Columns whose epsilon holds only given something that comes from the confidential file."""
        return tuple(request.name for request in self.requests if request.conditional)

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said beside the epsilons."""
        return tuple(note for request in self.requests if (note := request.note()) is not None)

    @confidential
    def resolved(self, data: Any) -> Design:
        """Levels and frequencies written out; `data` is the confidential frame or file, or None."""
        if not any(r.reads_data for r in self.requests):
            return self
        listed = [r for r in self.requests if isinstance(r, Request)]
        text = {name: values for r in listed for name, values in _text_levels(r)}
        table: Table | None = None
        if data is not None:
            columns = {name: text.get(name, ()) for r in listed for name in r.columns}
            refuse_undeclared(data, columns, self.missing)
            files, wanted = files_of(data), self._columns()
            table = read_files(files, text, wanted) if files else read(data, text=text)
            table = with_gaps(table, [name for name in columns if name in table.names], self.missing)
        unit = None if self.unit is None else self.unit.column
        return replace(self, requests=tuple(r.resolved(table, unit) for r in self.requests))

    def _columns(self) -> set[str]:
        """The columns that the requests read."""
        strata = {r.by for r in self.requests if r.by}
        return {c for r in self.requests for c in r.columns} | strata | ({self.unit.column} if self.unit else set())

    @staticmethod
    def read(path: str | Path, data: Any = None) -> Design:
        """From a TOML file, with what it leaves to the data resolved."""
        return Design.asked(Path(path)).resolved(data)

    @staticmethod
    def asked(path: Path) -> Design:
        """From a TOML file, as it stands there."""
        document = read_toml(path, "design file", MechanismError)
        return Design(_requests(document, str(path)), _unit(document, str(path)), _marks(document, str(path)))

    def write(self, path: str | Path, *, force: bool = True) -> None:
        """As TOML; the file appears complete or not at all. One that this command read as a design is written anew."""
        text = _HEADER + self._head() + "".join(_section(r) for r in self.requests)
        write_text(Path(path), text, force=force, updating="design" if force else None)

    def _head(self) -> str:
        unit = "" if self.unit is None else f"unit = {_toml(self.unit.column)}\n"
        varies = "unit_varies = true\n" * (self.unit is not None and self.unit.varies)
        return f"version = {VERSION}\n" + unit + varies + (f"missing = {_toml(self.missing)}\n" if self.missing else "")


@confidential
def read_design(path: str | Path, data: Any = None) -> Mechanism:
    """The mechanism that a design file asks for.

    Parameters
    ----------
    data : the confidential frame or file, where the design leaves levels or frequencies to it.
    """
    return Design.read(path, data).mechanism


def _text_levels(request: Request) -> Iterator[tuple[str, list[Any]]]:
    """Columns that a CSV reader must leave as text, with their levels."""
    for position, name in enumerate(request.columns):
        levels: list[Any] = list(request.levels or ())
        values = levels if len(request.columns) == 1 else [level[position] for level in levels]
        if values and isinstance(values[0], str):
            yield name, values


def _requests(document: dict[str, Any], source: str) -> tuple[ColumnRequest, ...]:
    _refuse_unknown(document, ("version", "unit", "unit_varies", "missing", "columns", "linked"), source)
    version = document.get("version", VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise MechanismError(f"{source} has version {version!r}: give a whole number such as {VERSION}")
    if version > VERSION:
        raise MechanismError(
            f"{source} has version {version}, newer than the {VERSION} that this release reads: update pramana"
        )
    columns, linked = document.get("columns", {}), document.get("linked", [])
    if not isinstance(columns, dict) or not isinstance(linked, list):
        raise MechanismError(
            f"{source}: write [columns.NAME] for one column and [[linked]] for columns perturbed together"
        )
    found: list[ColumnRequest] = [_column(name, body, f"{source}: columns.{name}") for name, body in columns.items()]
    found += [_linked(body, f"{source}: linked.{number}") for number, body in enumerate(linked)]
    if not found:
        raise MechanismError(f"{source} asks for nothing: write a [columns.NAME] section with keep, epsilon or noise")
    return tuple(found)


def _unit(document: Mapping[str, Any], source: str) -> Unit | None:
    column, varies = document.get("unit"), document.get("unit_varies", False)
    if column is None and not varies:
        return None
    if not isinstance(column, str) or not isinstance(varies, bool):
        raise MechanismError(f"{source}: unit must be the name of a column, and unit_varies true or false")
    return Unit(column, varies)


def _marks(document: Mapping[str, Any], source: str) -> tuple[str, ...]:
    marks = document.get("missing", [])
    if not isinstance(marks, list) or not all(isinstance(mark, str) for mark in marks):
        raise MechanismError(f'{source}: missing must be a list of marks as text, such as ["NA", "-8"]')
    return tuple(marks)


def _column(name: str, body: Any, where: str) -> ColumnRequest:
    noisy = isinstance(body, dict) and "noise" in body
    options = _checked(body, _NOISE if noisy else _COLUMN, where)
    strata, known = [], _NOISE_STRATUM if noisy else _STRATUM
    for number, stratum in enumerate(options.pop("strata", ())):
        inner = _checked(stratum, {"value": "a value of the column", **known}, f"{where}.strata.{number}")
        if "value" not in inner:
            raise MechanismError(f"{where}.strata.{number} lacks 'value', the value of the stratifying column")
        strata.append((inner.pop("value"), inner))
    options["strata"] = tuple(strata)
    return NoiseRequest((name,), **options) if noisy else _honest((name,), options, where)


def _linked(body: Any, where: str) -> ColumnRequest:
    noisy = isinstance(body, dict) and "noise" in body
    options = _checked(body, _SHARED_NOISE if noisy else _LINKED, where)
    columns = options.pop("columns", ())
    if len(columns) < 2 or not all(isinstance(name, str) for name in columns):
        raise MechanismError(f"{where}.columns must name at least 2 columns that are perturbed together")
    return NoiseRequest(columns, **options) if noisy else _honest(columns, options, where)


def _honest(columns: tuple[str, ...], options: dict[str, Any], where: str) -> Request:
    """Frequencies of the confidential file make epsilon conditional, whatever the file says."""
    said = options.pop("conditional", None)
    request = Request(columns, **options).with_given(*(("frequencies",) if said is True else said or ()))
    if not request.counts:
        return request
    if said is False:
        raise MechanismError(
            f'{where}: frequencies = "data" come from the confidential file, so conditional cannot be false: leave it out, or '
            "write out the frequencies of a public table"
        )
    return request.with_given("frequencies")


def _checked(body: Any, known: Mapping[str, str], where: str) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise MechanismError(f"{where} must be a table of options, not {body!r}")
    _refuse_unknown(body, tuple(known), where)
    for key, value in body.items():
        if not _fits(value, known[key]):
            raise MechanismError(f"{where}.{key} is {value!r}: give {known[key]}")
    return {key: _frozen(value) for key, value in body.items()}


def _refuse_unknown(body: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in body:
        if key not in known:
            raise MechanismError(f"{where} has the unknown key {key!r}: {suggestion(key, known)}")


def _fits(value: Any, wanted: str) -> bool:
    if wanted == _CONDITIONAL:
        return isinstance(value, bool) or (
            isinstance(value, list) and all(isinstance(what, str) and what in CONDITIONS for what in value)
        )
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted.startswith("a list") or wanted == _NUMBERS:
        nested = wanted.startswith(("a list of lists", "a list of pairs")) and not all(
            isinstance(v, list) for v in value
        )
        other = (number and wanted == _NUMBERS) or (value == "data" and "data" in wanted)
        return (
            other
            or (isinstance(value, dict) and "table by level" in wanted)
            or (isinstance(value, list) and not nested)
        )
    kinds = {"true or false": bool, "text": str, "a whole number": int}
    if wanted in kinds:
        return isinstance(value, kinds[wanted]) and not (wanted == "a whole number" and isinstance(value, bool))
    return number if wanted == _NUMBER else isinstance(value, str | int | float)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def _section(request: ColumnRequest) -> str:
    name = _key(request.columns[0])
    single = len(request.columns) == 1
    head = f"[columns.{name}]" if single else f"[[linked]]\ncolumns = {_toml(request.columns)}"
    lines, strata = _written(request)
    for value, changes in strata:
        lines += [f"\n[[columns.{name}.strata]]", f"value = {_toml(value)}", *_lines(changes, request)]
    return "\n" + "\n".join([head, *lines]) + "\n"


def _written(request: ColumnRequest) -> tuple[list[str], tuple[tuple[Any, Mapping[str, Any]], ...]]:
    """The lines of a request, and its strata."""
    if isinstance(request, NoiseRequest):
        return _lines(request.options(), request), request.strata
    assert isinstance(request, Request)
    plain = {**vars(request), "conditional": request.given == ("frequencies",) or request.given}
    return _lines({key: plain[key] for key in _COLUMN if key != "strata"}, request), request.strata


def _lines(options: Mapping[str, Any], request: ColumnRequest) -> list[str]:
    """What is asked for; a dictionary by level becomes a list, since TOML's keys are text."""
    lines = []
    for key, value in options.items():
        if isinstance(value, Mapping) and isinstance(request, Request) and request.levels is not None:
            value = [value[level] for level in request.levels]
        if not (value is None or value is False or value == () or (key == "other" and request.merge_below is None)):
            lines.append(f"{key} = {_toml(value)}")
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    """A TOML value. JSON's text is TOML's, but for the delete character."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(k))} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Iterable):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    raise MechanismError(
        f"a level of type {type(value).__name__} cannot be written to a design file: use text or numbers"
    )

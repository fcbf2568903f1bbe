"""The one door for documents: JSON and TOML that anybody may have written, read within bounds and with one meaning, or refused.

No document may exhaust memory, stack or patience, and none may mean different things to two readers. So size, depth and numbers are
bounded, a key stands once in its object, and text is whole characters; a UTF-8 mark at the beginning is let pass.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pramana.errors import MechanismError, PramanaError
from pramana.frames.inputs import FileRole, absence, note_input

LARGEST = {"JSON": 1 << 28, "TOML": 1 << 24}
"""Bytes of a document: a dense matrix of about 3500 levels is a JSON text of that length, and 16 MB of TOML take five seconds."""
DEEPEST = 40
WHOLE = (-(1 << 63), (1 << 64) - 1)
"""Whole numbers that a column can hold."""
_DIGITS = 20
_BOM = b"\xef\xbb\xbf"
_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
_LONG_KEY = re.compile(rf"(?:^|[{{,])[ \t]*\[{{0,2}}[ \t]*(?:{_PART}){{{DEEPEST}}}", re.MULTILINE)
"""Keys of so many parts; tomllib takes time that grows with the square of their number."""

_ROLES: dict[str, FileRole] = {"design file": "design", "ledger": "ledger", "policy": "policy", "result file": "result"}
"""As what a document is read, by what errors call it; the others are descriptions."""

Fault = type[PramanaError]


class _DocumentError(ValueError):
    """What is wrong with a document, in words that follow its name."""


def read_json(path: Path, what: str, error: Fault = PramanaError) -> Any:
    """The content of a JSON file; `what` names it where it is absent, as in "mechanism file"."""
    return parse_json(_content(path, what, "JSON", error), repr(str(path)), error)


def read_toml(path: Path, what: str, error: Fault = PramanaError) -> dict[str, Any]:
    """The content of a TOML file."""
    raw, name = _content(path, what, "TOML", error), repr(str(path))
    found: dict[str, Any] = _parsed(raw, name, "TOML", _toml, error)
    return found


def read_json_lines(path: Path, what: str) -> list[Any]:
    """The lines of a file, each a JSON document; errors name the line."""
    lines = _content(path, what, "JSON", PramanaError).removeprefix(_BOM).removesuffix(b"\n").split(b"\n")
    if lines == [b""]:
        return []
    return [
        parse_json(line, f"line {number} of {what} {str(path)!r}", PramanaError) for number, line in enumerate(lines, 1)
    ]


def package_entries(package: Path) -> Mapping[str, list[dict[str, Any]]]:
    """The entries of a Data Package by the names of the files that they describe, of which one may have several."""
    return _by_file(_content(package, "the description", "JSON", MechanismError), repr(str(package)))


@lru_cache(maxsize=1)
def _by_file(raw: bytes, name: str) -> Mapping[str, list[dict[str, Any]]]:
    """Of the last one that was read: each of a folder's files asks for it, which describes all of them."""
    document = parse_json(raw, name, MechanismError)
    listed = document.get("resources") if isinstance(document, dict) else None
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("path"), str):
            found.setdefault(str(Path(entry["path"])), []).append(entry)
    return MappingProxyType(found)


def parse_json(raw: bytes, name: str, error: Fault = PramanaError) -> Any:
    """A JSON text; `name` is what errors call it."""
    return _parsed(raw, name, "JSON", _json, error)


def _content(path: Path, what: str, kind: str, error: Fault) -> bytes:
    note_input(path, _ROLES.get(what, "description"))
    try:
        if not path.is_file():
            raise error(f"{what} {str(path)!r} {absence(path)}")
        with path.open("rb") as file:
            return file.read(LARGEST[kind] + 1)
    except OSError as reason:
        raise error(f"{what} {str(path)!r} cannot be read: {reason.strerror or type(reason).__name__}") from None


def _parsed(raw: bytes, name: str, kind: str, parse: Callable[[str], Any], error: Fault) -> Any:
    if len(raw) > LARGEST[kind]:
        raise error(f"{name} is longer than the {LARGEST[kind]} bytes that are read of {kind}: is it the right file?")
    try:
        document = parse(raw.removeprefix(_BOM).decode("utf-8"))
        _refuse_odd_values(document)
        return document
    except UnicodeDecodeError as reason:
        raise error(f"{name} is not valid {kind}: byte {reason.start} is not UTF-8 text; save it as UTF-8") from None
    except _DocumentError as reason:
        raise error(f"{name} {reason}") from None
    except ValueError as reason:
        raise error(f"{name} is not valid {kind}: {reason}") from None
    except RecursionError:
        raise error(f"{name} {_too_deep()}") from None


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_int=_whole, parse_constant=_no_number)


def _toml(text: str) -> Any:
    if _LONG_KEY.search(text):
        raise _too_deep()
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # of the conversion of numbers, and of dates that no calendar has
        raise _DocumentError("holds a number or date that cannot be: whole numbers must fit into 64 bits") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _DocumentError(
            f"holds the key {twice[:60]!r} twice in one object, so that readers may differ on it: keep one of them"
        )
    return found


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise _DocumentError(
            f"holds a whole number of {len(text.lstrip('-'))} digits: whole numbers must fit into 64 bits"
        )
    return int(text)


def _no_number(text: str) -> None:
    raise _DocumentError(f"holds {text}, which is no number of JSON: every number must be finite")


def _too_deep() -> _DocumentError:
    return _DocumentError(
        f"nests more than {DEEPEST} levels deep, which no document of ours does: is it the right file?"
    )


def _refuse_odd_values(document: Any) -> None:
    """Depth, numbers and text, without recursion."""
    waiting = [(document, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > DEEPEST:
            raise _too_deep()
        inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else [value]
        for part in inner:
            if isinstance(part, float) and math.isfinite(part):
                continue  # a large matrix is made of them
            if isinstance(part, dict | list):
                waiting.append((part, depth + 1))
            else:
                _refuse_odd_scalar(part)


def _refuse_odd_scalar(value: Any) -> None:
    """Anything but finite decimals and containers."""
    if isinstance(value, float):
        raise _DocumentError(f"holds a number that is {value}: every number must be finite")
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= mark <= "\udfff" for mark in value):
            raise _DocumentError(f"holds {value[:60]!r}, in which a character is cut in half: write whole characters")
    elif isinstance(value, int) and not WHOLE[0] <= value <= WHOLE[1]:
        raise _DocumentError(f"holds a whole number of {value.bit_length()} bits: whole numbers must fit into 64")

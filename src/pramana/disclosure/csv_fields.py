"""The text of a CSV field and the level that it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pramana.disclosure.blocks import MISSING, UNKNOWN
from pramana.frames import Level
from pramana.frames.levels import is_number
from pramana.frames.table import NULLS

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def unquoted(text: str) -> str:
    """A field without its quotation marks.

    >>> unquoted('"a ""b"" c"'), unquoted("plain")
    ('a "b" c', 'plain')
    """
    return text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text


def field_code(raw: bytes, known: Mapping[Level, int], example: Level) -> int:
    """The level that a field's text stands for, in the type of the levels; unquoted null marks are gaps unless levels."""
    try:
        field = raw.decode("utf-8")
    except UnicodeDecodeError:
        return UNKNOWN
    text = unquoted(field)
    if field in NULLS and text not in known:
        return MISSING
    if isinstance(example, bool):
        return known.get({"true": True, "false": False}.get(text.strip().lower()), UNKNOWN)
    if is_number(example):
        return known.get(_number(text), UNKNOWN) if _NUMBER.fullmatch(text) else UNKNOWN
    return known.get(text, UNKNOWN)


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def level_text(level: Level) -> str:
    """A level as a field that reads back as that level."""
    if isinstance(level, bool):
        return "true" if level else "false"
    if is_number(level):
        return repr(level)
    text = str(level)
    marked = text in NULLS or text != text.strip() or any(mark in text for mark in ',"\n\r')
    return '"' + text.replace('"', '""') + '"' if marked else text

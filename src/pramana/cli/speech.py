"""Messages of the library speak Python; in the shell they name the options of the command that runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pramana.result import Result

_OPTIONS: ContextVar[frozenset[str]] = ContextVar("options of the command that runs", default=frozenset())
_ARGUMENT = re.compile(
    r"(?<![\w.\['\"])(?<![\w.\])]\()(?P<name>[a-z_]+)="
    r"(?:(?P<value>(['\"])(?P<text>[^'\"\s]+)\3|[\w.]+\b(?![('\[]))|(?=[\s,;:)]|$))"
)
_INFERENCE = re.compile(
    r"(?:\binference=)?(?<![\w.])(?:pr\.)?(?P<name>Sandwich|Resampling|Jackknife|Woodruff)\((?P<options>[^()]*)\)"
)
"""How standard errors are made is an object in Python, and a name with options of its own in the shell."""
_NAMES = re.compile(r"(?<==)[(\[](['\"][^'\"\s,]+['\"](?:, ['\"][^'\"\s,]+['\"])*),?[)\]]")
"""Several columns are a tuple or a list in Python, and names with commas between them in the shell."""
_DIALECT = re.compile(r"\bpr\.(?:CsvFile\(path, pr\.Dialect\((\w+=[^()]*)\)\)|Dialect\((\w+=[^()]*)\))")
"""How the text of a file is written is an option in the shell, and part of a `CsvFile` in Python."""
AnyResult = TypeVar("AnyResult", bound="Result")


def speak_for(options: Iterable[str]) -> None:
    """The command that runs from now on has these options."""
    _OPTIONS.set(frozenset(options))


def in_the_shell(message: str) -> str:
    """A message with the arguments of Python that the command has as options written as such: missing='drop' is --missing drop there."""
    plain = _DIALECT.sub(lambda found: found[1] or found[2], _INFERENCE.sub(_by_name, message))
    return _ARGUMENT.sub(_written, _NAMES.sub(lambda found: repr(re.sub("['\" ]", "", found[1])), plain))


def _by_name(found: re.Match[str]) -> str:
    """The arguments of an inference, which are options of the command; its name where there are none, and nothing where the command cannot say it."""
    given = re.findall(r"(\w+)=", found["options"])
    if any(f"--{name}" not in _OPTIONS.get() for name in ["inference", *given]) or "..." in found["options"]:
        return found[0]
    return " ".join(found["options"].split(", ")) if given else f"inference={found['name'].lower()!r}"


def _written(found: re.Match[str]) -> str:
    option = f"--{found['name'].replace('_', '-')}"
    if option not in _OPTIONS.get() or found["value"] == "False":
        return found[0]
    if found["value"] == "None":
        return f"{option} none" if option == "--mechanism" else found[0]
    return option if found["value"] in (None, "True") else f"{option} {found['text'] or found['value']}"


def said_in_the_shell(result: AnyResult) -> AnyResult:
    """A result whose diagnostics name options."""
    told = tuple(replace(found, message=in_the_shell(found.message)) for found in result.diagnostics)
    return replace(result, diagnostics=told)

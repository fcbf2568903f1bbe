"""Parameters by name, as text: "median(income, by=edu)" becomes the plan that `median("income", by="edu")` returns."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from pramana.errors import FormulaError, suggestion
from pramana.formulas.functions import Functions
from pramana.formulas.language import TextReader, Token, refuse_long, tokens
from pramana.names import HOME

PARAMETERS = {name: home for name, home in sorted(HOME.items()) if home.startswith(("parameters.", "models."))}
"""Every parameter that can be asked for by name, and the module that has its function: those that the package exports."""

ARGUMENTS = {"negative_binomial": "estimating.families"}
"""Functions whose value can be an argument."""

_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")
_ADVICE = "put column names that are not plain words in quotes, as in 'mean(\"household size\")'"


@lru_cache(maxsize=256)
def is_call(text: str) -> bool:
    """True for "median(income)"; false for a formula, whose "~" stands outside of parentheses and quotes.

    >>> is_call("multinomial(edu ~ age)"), is_call("log(y) ~ x"), is_call("income")
    (True, False, False)
    """
    refuse_long(text, "question")
    words = tokens(text)
    outside = any(word.text == "~" and depth == 0 for word, depth in _depths(words))
    return not outside and words[0].kind == "name" and words[min(1, len(words) - 1)].text == "("


def _depths(words: Sequence[Token]) -> Iterator[tuple[Token, int]]:
    """Every word, and how many brackets it stands in."""
    depth = 0
    for word in words:
        depth -= word.kind == "mark" and word.text in _CLOSE
        yield word, depth
        depth += word.kind == "mark" and word.text in _OPEN


def parameter(text: str, functions: Functions | None = None) -> Any:
    """The plan of a parameter written as a call: what `fit` and `compare` take in place of a formula.

    Columns can be written without quotes where their names are plain words, and so can formulas. The text is read, never
    run as a program.

    >>> parameter("quantile(income, 0.9, by=[edu, sex])")
    Quantile(column='income', q=0.9, by=('edu', 'sex'), bandwidth=None)
    >>> parameter('mean("household size")')
    Mean(column='household size')
    >>> parameter("multinomial(edu ~ age)").formula
    'edu ~ age'
    """
    if not isinstance(text, str) or not is_call(text):
        raise FormulaError(f"{text!r} is no call of a parameter: write it as 'median(income, by=edu)'")
    reader = ParameterReader(text, "parameter")
    function, values, named = reader.asked(PARAMETERS)
    if reader.next.kind != "end":
        raise FormulaError(f"{text!r} is more than one call: ask for one parameter, such as 'median(income, by=edu)'")
    if functions and "functions" in inspect.signature(function).parameters:
        named["functions"] = functions
    return _called(function, values, named)


class ParameterReader(TextReader):
    """Reads a parameter by the grammar: function "(" [name "="] value {"," [name "="] value} ")".

    A value is a name, a number, a text, a list of these, a formula, a call of `ARGUMENTS`, or names with values in braces, as in
    "at={age: 40, edu: [low, high]}".
    """

    def asked(self, known: Mapping[str, str]) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
        """The function that is called, and its arguments."""
        word, opened = self.take(), self.expect("(")
        if word.text not in known:
            raise FormulaError(_unknown(word.text, known))
        function = getattr(import_module(f"pramana.{known[word.text]}"), word.text)
        self.deeper()
        values: list[Any] = []
        named: dict[str, Any] = {}
        while not self.at(")"):
            keyword = self._keyword()
            value = self._argument(opened)
            if keyword is None:
                values.append(value)
            else:
                _refuse_strange(function, keyword, named)
                named[keyword] = value
            if self.at(","):
                self.take()
        self.take()
        self.depth -= 1
        return function, values, named

    def _argument(self, opened: Token) -> Any:
        """The value between here and the next comma."""
        start, rest = self.place, self.tokens[self.place :]
        ends = (
            k
            for k, (w, depth) in enumerate(_depths(rest))
            if depth < 0 or (depth == 0 and w.text == "," and w.kind == "mark")
        )
        stop = start + next(ends, -1)
        if stop < start:
            self.stop(opened.start, f"{opened.text!r} was never closed; {_ADVICE}")
        piece = self.source[self.tokens[start].start : self.tokens[stop - 1].end]
        if any(word.text == "~" and word.kind == "mark" for word in self.tokens[start:stop]):
            self.place = stop
            return piece
        strange = [word for word in self.tokens[start:stop] if word.kind == "strange"]
        if strange:
            self.place = self.tokens.index(strange[0])
            raise self.unexpected()
        value = self._value(piece)
        if self.place != stop:
            raise FormulaError(f"the argument {piece!r} is no name, number, text or list of these: {_ADVICE}")
        return value

    def _value(self, piece: str) -> Any:
        word, after = self.next, self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        if word.kind == "name" and word.text in ("True", "False", "None"):
            self.take()
            return {"True": True, "False": False, "None": None}[word.text]
        if word.kind == "name" and after.text == "(":
            return _called(*self.asked(ARGUMENTS))
        if word.kind == "name" and not word.text.startswith("__"):
            return self.take().text
        if word.kind == "quoted":
            return self.take().text[1:-1]
        if word.kind == "text":
            return self._text().value
        if word.kind == "number":
            return self._number().value
        if self.at("-") and after.kind == "number":
            self.take()
            return -self._number().value  # type: ignore[operator]
        if self.at("[", "("):
            return self._values(piece)
        if self.at("{"):
            return self._mapping(piece)
        raise FormulaError(f"the argument {piece!r} is no name, number, text or list of these: {_ADVICE}")

    def _mapping(self, piece: str) -> dict[str, Any]:
        opened, out = self.take(), {}
        self.deeper()
        while not self.at("}"):
            name = self._value(piece)
            if not isinstance(name, str):
                raise FormulaError(f"in the argument {piece!r}, {name!r} is no name: {_ADVICE}")
            self.expect(":")
            out[name] = self._value(piece)
            if not self.at(","):
                break
            self.take()
        self.expect("}", opened)
        self.depth -= 1
        return out

    def _values(self, piece: str) -> list[Any]:
        opened, out = self.take(), []
        closing = {"[": "]", "(": ")"}[opened.text]
        self.deeper()
        while not self.at(closing):
            out.append(self._value(piece))
            if not self.at(","):
                break
            self.take()
        self.expect(closing, opened)
        self.depth -= 1
        return out


def _called(function: Callable[..., Any], values: Sequence[Any], named: Mapping[str, Any]) -> Any:
    name, signature = function.__name__, inspect.signature(function)
    try:
        given = signature.bind(*values, **named)
    except TypeError as error:
        raise FormulaError(f"{name}: {error}; its arguments are {_shown(name, signature)}") from None
    _check_kinds(name, function, given)
    return function(*given.args, **given.kwargs)


def _unknown(name: str, known: Mapping[str, str]) -> str:
    if known is ARGUMENTS:
        return f"{name}(...) cannot be an argument: of functions, only {', '.join(known)} can; {_ADVICE}"
    return f"there is no parameter {name!r}: {suggestion(name, known)}; a formula has a '~' outside of parentheses"


def _refuse_strange(function: Callable[..., Any], given: str, named: Mapping[str, Any]) -> None:
    name, signature = function.__name__, inspect.signature(function)
    known = [p.name for p in signature.parameters.values() if p.kind != p.VAR_POSITIONAL and p.name != "functions"]
    if given not in known or given in named:
        trouble = "twice" if given in named else f"which is none of its arguments: {suggestion(given, known)}"
        raise FormulaError(f"{name} is given {given!r} {trouble}; write {_shown(name, signature)}")


def _shown(name: str, signature: inspect.Signature) -> str:
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "functions"]
    return f"{name}{inspect.Signature(plain)}"


def _check_kinds(name: str, function: Callable[..., Any], given: inspect.BoundArguments) -> None:
    """Text where the function wants a number would otherwise fail far from here."""
    hints = _hints(function)
    for argument, value in given.arguments.items():
        if argument == "functions":
            continue
        several = given.signature.parameters[argument].kind == inspect.Parameter.VAR_POSITIONAL
        for each in value if several else (value,):
            if not _suits(each, hints[argument]):
                wanted = " or ".join(_kind(hint) for hint in _choices(hints[argument]) if hint is not types.NoneType)
                write = _shown(name, given.signature)
                raise FormulaError(f"{name}: {argument}={each!r} must be {wanted}; its arguments are {write}")


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(function)


def _choices(hint: Any) -> Sequence[Any]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _suits(value: Any, hint: Any) -> bool:
    if isinstance(value, list):
        return any(all(_suits(each, own) for each in value) for own in map(_element, _choices(hint)) if own is not None)
    return hint is Any or any(isinstance(value, _CLASSES.get(_kind(one), one)) for one in _choices(hint))


def _element(hint: Any) -> Any:
    """What a list of that type holds; None for a type of no lists."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) in (Sequence, tuple, list) else None


def _kind(hint: Any) -> str:
    """What to call values of a type."""
    if hint is str or typing.get_origin(hint) is typing.Literal:
        return "text"
    if hint in (bool, float):
        return "a number" if hint is float else "True or False"
    if typing.get_origin(hint) is Mapping:
        return "names with values"
    if _element(hint) is float:
        return "a list of numbers"
    return "a list of names" if typing.get_origin(hint) is not None else f"a {hint.__name__.lower()}"


_CLASSES: dict[str, Any] = {
    "a number": int | float,
    "text": str,
    "a list of names": list,
    "a list of numbers": list,
    "names with values": dict,
}

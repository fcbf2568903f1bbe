"""Parameters by name, as text: "median(income, by=edu)" becomes the plan that `median("income", by="edu")` returns."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate
from typing import Any

from pramana.errors import FormulaError, suggestion

PARAMETERS = {
    "average_treatment_effect": "models.effects",
    "correlation": "parameters.correlation",
    "counts": "parameters.means",
    "crosstab": "parameters.tables",
    "gini": "parameters.inequality",
    "glm": "models.generalized_linear",
    "margins": "models.marginal",
    "mean": "parameters.means",
    "median": "parameters.quantiles",
    "multinomial": "models.multinomial",
    "odds_ratio": "parameters.ratios",
    "ordinal": "models.ordinal",
    "poverty_rate": "parameters.inequality",
    "proportions": "parameters.means",
    "quantile": "parameters.quantiles",
    "quantile_regression": "models.quantile_regression",
    "risk_difference": "parameters.ratios",
    "risk_ratio": "parameters.ratios",
    "total": "parameters.means",
    "two_stage_least_squares": "models.two_stage",
}
"""Every parameter that can be asked for by name, and the module that has its function."""

ARGUMENTS = {"negative_binomial": "estimating.families"}
"""Functions whose value can be an argument."""

_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`")
_KEYWORD = re.compile(r"\s*(?:[^\W\d]\w*\s*=(?!=))?\s*")
_DEPTH = dict.fromkeys("([{", 1) | dict.fromkeys(")]}", -1)


def is_call(text: str) -> bool:
    """True for "median(income)"; false for a formula, whose "~" stands outside of parentheses and quotes.

    >>> is_call("multinomial(edu ~ age)"), is_call("log(y) ~ x"), is_call("income")
    (True, False, False)
    """
    bare = _without_quotes(text)
    outside = any(c == "~" and depth == 0 for c, depth in zip(bare, _depths(bare), strict=True))
    return not outside and re.match(r"\s*[^\W\d]\w*\s*\(", bare) is not None


def parameter(text: str) -> Any:
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
    source = _with_formulas_quoted(text.strip())
    try:
        call = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or "it is not a call"
        raise FormulaError(f"{text!r} could not be read ({reason}): {_ADVICE}") from None
    if not isinstance(call, ast.Call):
        raise FormulaError(f"{text!r} is more than one call: ask for one parameter, such as 'median(income, by=edu)'")
    return _called(call, source, PARAMETERS)


_ADVICE = "put column names that are not plain words in quotes, as in 'mean(\"household size\")'"


def _without_quotes(text: str) -> str:
    """The same text with blanks in place of everything in quotes."""
    return _QUOTED.sub(lambda found: " " * len(found[0]), text)


def _depths(text: str) -> list[int]:
    """How many parentheses each character stands in."""
    return list(accumulate(_DEPTH.get(c, 0) for c in text))


def _with_formulas_quoted(text: str) -> str:
    """ "~" between two terms is no Python: an argument that has one becomes a string."""
    return "".join(_quoted(part) if "~" in _without_quotes(part) else part for part in _arguments(text))


def _arguments(text: str) -> Iterator[str]:
    """The text in pieces: the function's name, its arguments, and the marks between them."""
    bare = _without_quotes(text)
    marks = [k for k, (c, depth) in enumerate(zip(bare, _depths(bare), strict=True)) if _divides(c, depth)]
    start = 0
    for mark in (*marks, len(text)):
        yield text[start:mark]
        yield text[mark : mark + 1]
        start = mark + 1


def _divides(mark: str, depth: int) -> bool:
    return (mark in "(," and depth == 1) or (mark == ")" and depth == 0)


def _quoted(argument: str) -> str:
    keyword = _KEYWORD.match(argument)
    start = keyword.end() if keyword else 0
    return argument[:start] + repr(argument[start:].strip())


def _called(call: ast.Call, source: str, known: dict[str, str]) -> Any:
    name = _text(call.func, source)
    if name not in known:
        raise FormulaError(_unknown(name, known))
    function = getattr(import_module(f"pramana.{known[name]}"), name)
    signature = inspect.signature(function)
    values = [_value(node, source) for node in call.args]
    named = _keywords(call, source, name, signature)
    try:
        given = signature.bind(*values, **named)
    except TypeError as error:
        raise FormulaError(f"{name}: {error}; its arguments are {_shown(name, signature)}") from None
    _check_kinds(name, function, given)
    return function(*given.args, **given.kwargs)


def _unknown(name: str, known: dict[str, str]) -> str:
    if known is ARGUMENTS:
        return f"{name}(...) cannot be an argument: of functions, only {', '.join(known)} can; {_ADVICE}"
    return f"there is no parameter {name!r}: {suggestion(name, known)}; a formula has a '~' outside of parentheses"


def _keywords(call: ast.Call, source: str, name: str, signature: inspect.Signature) -> dict[str, Any]:
    known = [p.name for p in signature.parameters.values() if p.kind != p.VAR_POSITIONAL]
    named: dict[str, Any] = {}
    for keyword in call.keywords:
        given = keyword.arg or "**"
        if given not in known or given in named:
            trouble = "twice" if given in named else f"which is none of its arguments: {suggestion(given, known)}"
            raise FormulaError(f"{name} is given {given!r} {trouble}; write {_shown(name, signature)}")
        named[given] = _value(keyword.value, source)
    return named


def _value(node: ast.expr, source: str) -> Any:
    """A literal; a bare name stands for the text that it is."""
    match node:
        case ast.Constant(value=str() | int() | float() | None):
            return node.value
        case ast.Name() | ast.Attribute(value=ast.Name()):
            return _text(node, source)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List() | ast.Tuple():
            return [_value(each, source) for each in node.elts]
        case ast.Call():
            return _called(node, source, ARGUMENTS)
    raise FormulaError(f"the argument {_text(node, source)!r} is no name, number, text or list of these: {_ADVICE}")


def _text(node: ast.expr, source: str) -> str:
    """As it was written: Python itself would change some letters of a name."""
    return ast.get_source_segment(source, node) or ""


def _shown(name: str, signature: inspect.Signature) -> str:
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"{name}{inspect.Signature(plain)}"


def _check_kinds(name: str, function: Callable[..., Any], given: inspect.BoundArguments) -> None:
    """Text where the function wants a number would otherwise fail far from here."""
    hints = typing.get_type_hints(function)
    for argument, value in given.arguments.items():
        several = given.signature.parameters[argument].kind == inspect.Parameter.VAR_POSITIONAL
        for each in value if several else (value,):
            if not _suits(each, hints[argument]):
                wanted = " or ".join(_kind(hint) for hint in _choices(hints[argument]) if hint is not types.NoneType)
                write = _shown(name, given.signature)
                raise FormulaError(f"{name}: {argument}={each!r} must be {wanted}; its arguments are {write}")


def _choices(hint: Any) -> Sequence[Any]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _suits(value: Any, hint: Any) -> bool:
    if isinstance(value, list) and not all(isinstance(each, str) for each in value):
        return False
    return hint is Any or any(isinstance(value, _CLASSES.get(_kind(one), one)) for one in _choices(hint))


def _kind(hint: Any) -> str:
    """What to call values of a type."""
    if hint is str or typing.get_origin(hint) is typing.Literal:
        return "text"
    if hint in (bool, float):
        return "a number" if hint is float else "True or False"
    return "a list of names" if typing.get_origin(hint) is not None else f"a {hint.__name__.lower()}"


_CLASSES: dict[str, Any] = {"a number": int | float, "text": str, "a list of names": list}

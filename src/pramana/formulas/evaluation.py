"""Values of a formula's expressions: the tree is followed piece by piece, by the functions of the list and the user's own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import DataError, FormulaError, listing, quoted
from pramana.formulas.functions import FUNCTIONS, OF_NUMBERS, VALUES, Own, implementation
from pramana.formulas.tree import Call, Items, Listed, Literal, Name, Node, Operation, names, written

LearnedStates = dict[str, dict[str, Any]]
"""What functions learnt from all records, by the call as it is written."""

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
_EXACT = 2**53
"""Integers below are exact as real numbers too."""
_LOGICAL: dict[str, Callable[[Any, Any], Any]] = {
    "&": np.logical_and,
    "and": np.logical_and,
    "|": np.logical_or,
    "or": np.logical_or,
}


def value_of(node: Node, columns: Mapping[str, Any], state: LearnedStates, own: Own = ()) -> Any:
    """The value of an expression: usually one number a record.

    Parameters
    ----------
    columns : pandas columns by name.
    state : filled where a function learns, and used where it has learnt.
    """

    def inner(part: Node) -> Any:
        return value_of(part, columns, state, own)

    match node:
        case Literal(value=value):
            return value
        case Name(name=name):
            return _widened(columns[name])
        case Listed(name=name):
            return VALUES[name] if name in VALUES else implementation(name)
        case Items(bracket="{", items=items, keys=keys):
            return dict(zip(keys, map(inner, items), strict=True))
        case Items(items=items):
            return [inner(item) for item in items]
        case Call():
            return _called(node, inner, state, own)
        case Operation():
            return _operated(node, [inner(operand) for operand in node.operands])
    raise TypeError(type(node).__name__)


def _called(node: Call, inner: Callable[[Node], Any], state: LearnedStates, own: Own) -> Any:
    arguments = [inner(argument) for argument in node.arguments]
    keywords = {name: inner(value) for name, value in node.keywords}
    mine = dict(own)
    if node.function in mine:
        return mine[node.function](*arguments, **keywords)
    learns = FUNCTIONS[node.function].kind == "learns"
    if learns or node.function.removeprefix("np.") in OF_NUMBERS:
        _refuse_text(node, arguments)
        arguments = [_widened(value, "iub") for value in arguments]
    if node.function.removeprefix("np.") == "square":
        return _computed("*", *arguments, *arguments)
    if learns:
        learned = state.setdefault(written(node), {})
        if "extrapolation" not in keywords:
            stated = keywords if node.function == "bs" else {}  # the others go on beyond bounds while they learn
            _refuse_beyond(node, arguments[0], learned or stated)
        keywords["_state"] = learned
    return implementation(node.function)(*arguments, **keywords)


def _refuse_text(node: Call, arguments: list[Any]) -> None:
    """Functions of numbers, given text, categories or dates."""
    for argument, value in zip(node.arguments, arguments, strict=True):
        if np.asarray(value).dtype.kind not in "iufcb":
            raise FormulaError(
                f"{written(node)!r} is of numbers, and {written(argument)!r} holds none: use its levels, C({written(argument)}), or compute a number first"
            )


def _refuse_beyond(node: Call, values: Any, known: Mapping[str, Any]) -> None:
    """A spline is known between the bounds that it was given or learned with; values there are whatever it is told to be beyond them."""
    low, high = (known.get(f"{side}_bound") for side in ("lower", "upper"))
    numbers = np.asarray(values, dtype=float)
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    beyond = int(np.sum((numbers < low) | (numbers > high)))
    if beyond:
        raise FormulaError(
            f"{beyond} record(s) lie beyond the range {quoted(f'{low:g} to {high:g}')} of {written(node)!r}, where the spline is not known: leave "
            "them out, or write it with extrapolation='clip', 'extend', 'zero' or 'na', or with wider lower_bound and upper_bound"
        )


def _operated(node: Operation, values: list[Any]) -> Any:
    mark = node.mark
    if mark in _COMPARED:
        parts = [_COMPARED[m](a, b) for m, a, b in zip(node.marks, values, values[1:], strict=False)]
        return parts[0] if len(parts) == 1 else np.logical_and.reduce(parts)
    if mark in ("not", "~") or mark in _LOGICAL:
        for value in values:
            _require(node, value, "b", "true and false values: put comparisons in parentheses, as in (x > 1) & (y < 2)")
        return np.logical_not(values[0]) if len(values) == 1 else _LOGICAL[mark](*values)
    for value in values:
        _require(node, value, "iufb", "numbers: text would be repeated or joined; compare it, or write C(x)")
    values = [_widened(value, "iub") for value in values]
    if len(values) == 1:
        return operator.neg(values[0]) if mark == "-" else operator.pos(values[0])
    return _computed(mark, *values)


def _widened(value: Any, kinds: str = "iu") -> Any:
    """Integers of 64 bits, and True as 1: narrow ones wrap around (an 8-bit age squared), and True + True would be True."""
    import pandas as pd

    if isinstance(value, pd.Series | np.ndarray) and isinstance(value.dtype, np.dtype):
        return value.astype(np.int64) if value.dtype.kind in kinds and value.dtype != np.uint64 else value
    return value


def _computed(mark: str, left: Any, right: Any) -> Any:
    """Arithmetic; integers whose result could not be held exactly become real numbers, where they would wrap around."""
    compute = _ARITHMETIC[mark]
    if mark == "/" or any(np.asarray(value).dtype.kind not in "iu" for value in (left, right)):
        return compute(left, right)
    real = compute(left * 1.0, right * 1.0)
    broken = mark == "**" and right < 0
    return real if broken or not np.all(np.abs(real) < _EXACT) else compute(left, right)


def _require(node: Operation, value: Any, kinds: str, wanted: str) -> None:
    """The kind of value that a mark works on."""
    if np.asarray(value).dtype.kind not in kinds:
        raise FormulaError(f"{written(node)!r}: {node.mark!r} needs {wanted}")


def one_number(node: Node, frame: Any, n: int, what: str, state: LearnedStates, own: Own = ()) -> Float:
    """One finite number a record (n,); `state` as in `value_of`."""
    text = written(node)
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(value_of(node, frame, state, own))
            values = found.astype(float) if found.dtype.kind in "iufb" else np.empty((n, 0))
    except FormulaError:
        raise
    except Exception as error:
        raise FormulaError(f"{what} {text!r} could not be evaluated: {quoted(reason(error))}") from None
    if values.shape not in ((n,), (n, 1)):
        raise FormulaError(
            f"{what} {text!r} must be one number a record; {listing(names(node))} gave shape {values.shape}"
        )
    if not np.all(np.isfinite(values)):
        count = int(np.sum(~np.isfinite(values)))
        raise DataError(f"{what} {text!r} is missing or infinite for {count} record(s): clean the data")
    return values.reshape(n)


def reason(error: Exception) -> str:
    """What went wrong underneath, in one line."""
    cause = error.__cause__ or error
    if isinstance(cause, KeyError):
        return f"{cause} is not known"
    return str(cause).splitlines()[0][:200] if str(cause) else type(cause).__name__

"""A formula as data: the pieces of a tree, what they read and call, and their spelling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pramana.formulas.functions import FUNCTIONS


@dataclass(frozen=True)
class Node:
    """A piece of a text, and where it stands in it. Two pieces are equal where they say the same."""

    span: tuple[int, int] = field(compare=False, repr=False)

    @property
    def parts(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Literal(Node):
    """A number, a text, True, False or None."""

    value: float | int | str | bool | None


@dataclass(frozen=True)
class Name(Node):
    """A column; `quoted` where it was written in backticks."""

    name: str
    quoted: bool = False


@dataclass(frozen=True)
class Listed(Node):
    """A name of the published list that stands for itself: `contr.sum`, `np.pi`."""

    name: str


@dataclass(frozen=True)
class Items(Node):
    """A list, written in "[" or "(", or a table of lists by name, in "{"."""

    bracket: str
    items: tuple[Node, ...]
    keys: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.items


@dataclass(frozen=True)
class Call(Node):
    """A function of the list, or the user's own, with its arguments."""

    function: str
    arguments: tuple[Node, ...]
    keywords: tuple[tuple[str, Node], ...] = ()

    @property
    def parts(self) -> tuple[Node, ...]:
        return (*self.arguments, *(value for _, value in self.keywords))


@dataclass(frozen=True)
class Operation(Node):
    """Arithmetic: one mark with one or two operands, or several comparisons in a row."""

    marks: tuple[str, ...]
    operands: tuple[Node, ...]

    @property
    def mark(self) -> str:
        return self.marks[0]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.operands


@dataclass(frozen=True)
class Combination(Node):
    """Terms put together: one mark between two of them, or a sum with a sign before each."""

    marks: tuple[str, ...]
    operands: tuple[Node, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.operands


def walk(node: Node) -> Iterator[Node]:
    """The node and everything in it, in the order of the text."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(current.parts)


def names(node: Node) -> tuple[str, ...]:
    """Columns that a piece of a formula reads, once each.

    >>> from pramana.formulas.language import expression
    >>> names(expression("np.log(income) + C(edu)"))
    ('income', 'edu')
    """
    return tuple(dict.fromkeys(n.name for n in walk(node) if isinstance(n, Name)))


def calls(node: Node) -> set[str]:
    """Functions that a piece of a formula calls, without their "np."."""
    return {n.function.removeprefix("np.") for n in walk(node) if isinstance(n, Call)}


def learning(node: Node) -> list[str]:
    """Functions in it that learn from all records."""
    return sorted(name for name in calls(node) if name in FUNCTIONS and FUNCTIONS[name].kind == "learns")


# Binding powers as Python has them, so that names of terms are those of Python's own spelling.
OR, AND, NOT, COMPARE, BAR, AMPERSAND, ADD, MULTIPLY, UNARY, RAISE = range(1, 11)
BINARY = {"or": OR, "and": AND, "|": BAR, "&": AMPERSAND, "+": ADD, "-": ADD} | dict.fromkeys(
    ("*", "/", "//", "%"), MULTIPLY
)
COMPARISONS = ("<", "<=", "==", "!=", ">=", ">")
PREFIXES = {"not": NOT, "-": UNARY, "+": UNARY, "~": UNARY}


def written(node: Node) -> str:
    """The piece as Python spells it, which is what terms are called by.

    >>> from pramana.formulas.language import expression
    >>> written(expression("I( age**2 )")), written(expression("x*( y+.5 )"))
    ('I(age ** 2)', 'x * (y + 0.5)')
    """
    return _spelled(node, 0)


def _spelled(node: Node, least: int) -> str:
    match node:
        case Literal(value=value):
            return repr(value)
        case Name(name=name, quoted=quoted):
            return f"`{name}`" if quoted else name
        case Listed(name=name):
            return name
        case Items():
            return _bracketed(node)
        case Call(function=function, arguments=arguments, keywords=keywords):
            inside = [_spelled(a, 0) for a in arguments] + [f"{k}={_spelled(v, 0)}" for k, v in keywords]
            return f"{function}({', '.join(inside)})"
        case Operation():
            text, power = _operated(node)
            return f"({text})" if power < least else text
    raise TypeError(type(node).__name__)


def _bracketed(node: Items) -> str:
    inside = [_spelled(item, 0) for item in node.items]
    if node.bracket == "{":
        return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(node.keys, inside, strict=True)) + "}"
    if node.bracket == "[":
        return f"[{', '.join(inside)}]"
    return f"({inside[0]},)" if len(inside) == 1 else f"({', '.join(inside)})"


def _operated(node: Operation) -> tuple[str, int]:
    """The spelling of an operation, and how tightly it binds."""
    if len(node.operands) == 1:
        power = PREFIXES[node.mark]
        space = " " if node.mark == "not" else ""
        return f"{node.mark}{space}{_spelled(node.operands[0], power)}", power
    if node.mark in COMPARISONS:
        first, *rest = (_spelled(operand, COMPARE + 1) for operand in node.operands)
        return " ".join([first, *(f"{m} {r}" for m, r in zip(node.marks, rest, strict=True))]), COMPARE
    left, right = node.operands
    if node.mark == "**":
        return f"{_spelled(left, RAISE + 1)} ** {_spelled(right, RAISE)}", RAISE
    power = BINARY[node.mark]
    return f"{_spelled(left, power)} {node.mark} {_spelled(right, power + 1)}", power

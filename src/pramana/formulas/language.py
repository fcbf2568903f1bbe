"""The formula language: the one door for every text that anyone can hand us. Text becomes a tree, and nothing is ever run.

The grammar, in which `expression` is arithmetic and `sum` is the algebra of terms::

    formula     = sum "~" sum { "|" sum }
    sum         = ["+" | "-"] product { ("+" | "-") product }
    product     = interaction { ("*" | "/" | "%in%") interaction }
    interaction = power { ":" power }
    power       = factor [ ("**" | "^") whole number from 1 to 10 ]
    factor      = name | number | call | "{" expression "}" | "(" sum ")"
    call        = function "(" [ argument { "," argument } ] ")"
    argument    = [ name "=" ] ( expression | list | table )
    expression  = expression operator expression | ("-" | "+" | "~" | "not") expression
                | name | number | text | True | False | None | call | "(" expression ")"
    operator    = "or" | "and" | "<" | "<=" | "==" | "!=" | ">=" | ">" | "|" | "&"
                | "+" | "-" | "*" | "/" | "//" | "%" | "**"
    list        = "[" [ literal { "," literal } ] "]" | "(" literal "," [ literal { "," literal } ] ")"
    table       = "{" text ":" list { "," text ":" list } "}"
    name        = letters, digits, "_" and "."; anything in backticks
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn, cast

from pramana.errors import FormulaError
from pramana.formulas.functions import FUNCTIONS, HINTS, KNOTS, LARGEST, VALUES, Function, Own
from pramana.formulas.tree import (
    BINARY,
    COMPARE,
    COMPARISONS,
    PREFIXES,
    RAISE,
    UNARY,
    Call,
    Combination,
    Items,
    Listed,
    Literal,
    Name,
    Node,
    Operation,
    names,
)

LENGTH, DEPTH, OPERATIONS, DIGITS, ITEMS, EXPONENT, POWER = 10_000, 50, 150, 15, 1_000, 20, 10
"""Most characters of a text, nested parts, operations of a term, digits of a whole number, items of a list; largest exponents
of a column and of a sum of terms."""


@dataclass(frozen=True)
class Token:
    """A word of the text. `kind` is "number", "name", "quoted", "text", "mark", "end", or "strange" for what is none."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])"
_MARKS = r"%in%|\*\*|//|==|!=|<=|>=|[-+*/%:^~|&<>=(){}\[\],]"
_TEXT = r"'(?:\\.|[^'\\\n])*+'" + r'|"(?:\\.|[^"\\\n])*+"'
_TOKEN = (
    rf"(?P<number>{_NUMBER})|(?P<name>[\w.]+)|(?P<quoted>`[^`]*`)|(?P<text>{_TEXT})|(?P<mark>{_MARKS})|(?P<strange>\S)"
)
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t"}


def tokens(text: str, known: Sequence[str] = ()) -> list[Token]:
    """The words of a text; those in `known` are one word whatever they hold.

    >>> [t.text for t in tokens("y ~ log(x)")]
    ['y', '~', 'log', '(', 'x', ')', '']
    """
    first = "|".join(rf"(?<![\w.]){re.escape(k)}(?![\w\[])" for k in sorted(known, key=len, reverse=True))
    pattern = re.compile(rf"(?P<known>{first})|{_TOKEN}" if first else _TOKEN)
    found = [Token(str(m.lastgroup), m.group(), m.start()) for m in pattern.finditer(text)]
    return [*found, Token("end", "", len(text))]


def refuse_long(text: object, what: str) -> None:
    """A text is text, and of a length that a person writes."""
    if not isinstance(text, str):
        raise FormulaError(f"the {what} must be text, not a {type(text).__name__}")
    if len(text) > LENGTH:
        raise FormulaError(
            f"the {what} {_shown(text)} has {len(text)} characters (the limit is {LENGTH}): shorten it, or compute columns first"
        )


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 300 else repr(text[:60])[:-1] + "…'"


class TextReader:
    """Reads a text by the grammar above, word by word."""

    def __init__(self, text: str, what: str = "formula", own: Own = (), known: Sequence[str] = ()) -> None:
        refuse_long(text, what)
        self.source, self.what, self.own = text, what, dict(own)
        self.tokens = tokens(text, known)
        self.place = 0
        self.depth = 0
        self.operations = 0

    # Words

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def at(self, *marks: str) -> bool:
        """Whether one of these marks (or of the words "and", "or", "not") comes next."""
        return self.next.kind in ("mark", "name") and self.next.text in marks

    def expect(self, mark: str, opened: Token | None = None) -> Token:
        if self.at(mark):
            return self.take()
        if self.next.kind == "end" and opened is not None:
            self.stop(opened.start, f"{opened.text!r} was never closed")
        raise self.unexpected()

    def unexpected(self) -> FormulaError:
        word, before = self.next, self.tokens[self.place - 1] if self.place else None
        if word.kind == "end":
            return self.failure(word.start, "it ends too early")
        if word.text in ("'", '"', "`"):
            return self.failure(word.start, f"the quote {word.text} was never closed (an unterminated string)")
        if word.kind == "strange":
            return self.failure(word.start, f"{word.text!r} is no mark of formulas")
        doubled = before is not None and word.text == before.text and word.text in ("&", "|")
        hint = "conditions are joined by one & or |, as in I((x > 1) & (y < 2))" if doubled else self._hint(word)
        if hint:
            return self.failure(word.start, f"{word.text!r} cannot stand here: {hint}")
        if before is not None and word.kind != "mark":
            return self.failure(word.start, f"a mark such as '+' is missing between {before.text!r} and {word.text!r}")
        return self.failure(word.start, f"{word.text!r} cannot stand here")

    def _hint(self, word: Token) -> str:
        if word.text in COMPARISONS:
            return "comparisons are written inside of I(), as in I(x > 3)"
        if word.text == "|":
            return "random effects such as (1|g) are not fitted; give clusters='g', or C(g) as a term"
        if word.text == "=":
            return "equality is written ==, as in x == 'a'"
        if word.text == "~":
            return "a formula has one '~', after its response"
        if word.text == "^":
            return "inside of I() a power is written **, as in I(age ** 2)"
        if word.text == "%in%":
            return "membership is written isin(x, ['a', 'b'])"
        if word.text in ("in", "is", "if", "else", "for", "lambda"):
            return "there is no such word in formulas; write isin(x, [..]), np.where(..), or compute the column first"
        return ""

    def failure(self, start: int, problem: str) -> FormulaError:
        return FormulaError(f"{self.what} {_shown(self.source)} could not be read: {problem}, at character {start + 1}")

    def stop(self, start: int, problem: str) -> NoReturn:
        raise self.failure(start, problem)

    def refuse(self, node: Node, problem: str) -> NoReturn:
        """The piece is grammatical and still not allowed."""
        piece = self.source[node.span[0] : node.span[1]]
        where = f"{_shown(piece)} at character {node.span[0] + 1} of {self.what} {_shown(self.source)}"
        raise FormulaError(f"{where}: {problem}")

    def finish(self) -> None:
        if self.next.kind != "end":
            raise self.unexpected()

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            self.stop(self.next.start, f"it is nested deeper than {DEPTH} levels")

    # Terms

    def formula(self) -> tuple[Node, tuple[Node, ...]]:
        """Response, and the parts of the right-hand side that "|" divides."""
        if self.at("~"):
            raise FormulaError(
                f"{self.what} {_shown(self.source)} has no response: write it as 'response ~ term + term'"
            )
        response = self.sum() if self.next.kind != "end" else None
        if response is None or self.next.kind == "end":
            raise FormulaError(f"{self.what} {_shown(self.source)} has no '~': write it as 'response ~ term + term'")
        self.expect("~")
        parts = [self.sum()]
        while self.at("|"):
            self.take()
            parts.append(self.sum())
        self.finish()
        return response, tuple(parts)

    def sum(self) -> Node:
        start = self.next.start
        self.deeper()
        marks, operands = [self._sign()], [self._product()]
        while self.at("+", "-"):
            marks.append(self._sign())
            operands.append(self._product())
        self.depth -= 1
        if len(operands) == 1 and marks == ["+"] and not _is_zero(operands[0]):
            return operands[0]
        return Combination((start, self._end), tuple(marks), tuple(operands))

    @property
    def _end(self) -> int:
        return self.tokens[self.place - 1].end

    def _sign(self) -> str:
        """Several signs in a row are one."""
        minus = False
        while self.at("+", "-"):
            minus ^= self.take().text == "-"
        return "-" if minus else "+"

    def _product(self) -> Node:
        return self._chain(("*", "/", "%in%"), self._interaction)

    def _interaction(self) -> Node:
        return self._chain((":",), self._power)

    def _chain(self, marks: tuple[str, ...], part: Any) -> Node:
        start, left, count = self.next.start, part(), 0
        while self.at(*marks):
            count += 1
            if count > DEPTH:
                self.stop(self.next.start, f"more than {DEPTH} {self.next.text!r} stand in a row")
            mark = self.take().text
            left = Combination((start, self._end), (mark,), (left, part()))
        return cast(Node, left)

    def _power(self) -> Node:
        start, base = self.next.start, self._factor()
        if not self.at("**", "^"):
            return base
        self.take()
        exponent = self._number() if self.next.kind == "number" else None
        node = Combination((start, self._end), ("**",), (base, exponent or base))
        if exponent is None or not isinstance(exponent.value, int) or not 1 <= exponent.value <= POWER:
            self.refuse(
                node,
                f"a sum of terms is raised to whole numbers from 1 to {POWER}; powers of a column are written I(x ** 2)",
            )
        if self.at("**", "^"):
            raise self.unexpected()
        return node

    def _factor(self) -> Node:
        word = self.next
        if word.kind == "mark" and word.text == "(":
            self.take()
            inside = self.sum()
            self.expect(")", word)
            span = (word.start, self._end)  # a sum of its own: "- 1" in it does not touch the intercept outside
            return Combination(span, ("+",), (inside,)) if isinstance(inside, Combination) else inside
        if word.kind == "mark" and word.text == "{":
            return self._braces()
        if word.kind == "number":
            return self._number()
        if word.kind == "text":
            self.stop(word.start, f"the text {word.text} is no term; odd column names are written in backticks")
        if word.text == "." and word.kind == "name":
            raise FormulaError(f"{self.what} {_shown(self.source)} uses '.' for all columns: name the columns instead")
        return self._named(spaced=False, terms=True)

    def _braces(self) -> Node:
        """`{expression}` is the expression itself, as a term."""
        opened = self.take()
        self.operations = 0
        inside = self.expression()
        self.expect("}", opened)
        return self._reading(inside)

    def _reading(self, node: Node) -> Node:
        """A term has to read a column."""
        if not names(node):
            self.refuse(node, "it names no column, so that it says nothing of the records: leave it out")
        return node

    def _named(self, *, spaced: bool, terms: bool = False) -> Node:
        """A column, a call or a name of the list."""
        word = self.next
        if word.kind == "known":
            self.take()
            return Name((word.start, word.end), word.text)
        if word.kind == "quoted":
            self.take()
            if len(word.text) < 3:
                self.stop(word.start, "the backticks hold no name")
            return Name((word.start, word.end), word.text[1:-1], not terms)
        if word.kind != "name" or not re.search(r"[^\W\d]|_", word.text):
            raise self.unexpected()
        self.take()
        if self.at("(") and (spaced or self.next.start == word.end):
            return self._call(word, terms)
        self._refuse_dunder(word)
        if not terms and (word.text in VALUES or (word.text in FUNCTIONS and word.text.startswith("contr."))):
            return Listed((word.start, word.end), word.text)
        return Name((word.start, word.end), word.text)

    def _refuse_dunder(self, word: Token) -> None:
        if any(part.startswith("__") for part in word.text.split(".")):
            self.stop(word.start, f"{word.text!r} starts with '__': write a column of that name in backticks")

    # Expressions

    def expression(self, least: int = 0) -> Node:
        """Arithmetic, comparisons and calls, by the binding powers of Python."""
        start = self.next.start
        self.deeper()
        left = self._operand()
        while True:
            if self.at(*COMPARISONS) and least <= COMPARE:
                left = self._comparison(start, left)
            elif self.at("**") and least <= RAISE:
                left = self._raised(start, left)
            elif self.next.kind in ("mark", "name") and least <= BINARY.get(self.next.text, -1):
                left = self._combined(start, left)
            else:
                self.depth -= 1
                return left

    def _mark(self) -> str:
        """The next mark of an expression; too many of them would be too deep to follow."""
        self.operations += 1
        if self.operations > OPERATIONS:
            self.stop(self.next.start, f"one term has more than {OPERATIONS} operations: compute the column first")
        return self.take().text

    def _combined(self, start: int, left: Node) -> Node:
        mark = self._mark()
        right = self.expression(BINARY[mark] + 1)
        return self._plain(Operation((start, self._end), (mark,), (left, right)))

    def _comparison(self, start: int, left: Node) -> Node:
        marks, operands = [], [left]
        while self.at(*COMPARISONS):
            marks.append(self._mark())
            operands.append(self.expression(COMPARE + 1))
        node = Operation((start, self._end), tuple(marks), tuple(operands))
        if any(isinstance(operand, Items) for operand in operands):
            self.refuse(node, "membership in a list is written isin(x, ['a', 'b'])")
        return node

    def _raised(self, start: int, base: Node) -> Node:
        self._mark()
        exponent = self.expression(UNARY)
        node = Operation((start, self._end), ("**",), (base, exponent))
        value = _number_of(exponent)
        if not names(base) or value is None or abs(value) > EXPONENT:
            self.refuse(
                node,
                f"a power is that of a column, to a number of at most {EXPONENT}, as in I(x ** 2); otherwise compute the column first",
            )
        return node

    def _plain(self, node: Operation) -> Node:
        """Arithmetic is for numbers."""
        for operand in node.operands:
            if isinstance(operand, Items) or (isinstance(operand, Literal) and isinstance(operand.value, str)):
                self.refuse(
                    node,
                    f"{node.mark!r} is for numbers; text is compared, as in I(x == 'a'), or listed, as in isin(x, ['a', 'b'])",
                )
        return node

    def _operand(self) -> Node:
        word = self.next
        if self.at(*PREFIXES):
            mark = self._mark()
            inside = self.expression(PREFIXES[mark])
            return self._plain(Operation((word.start, self._end), (mark,), (inside,)))
        if word.kind == "number":
            return self._number()
        if word.kind == "text":
            return self._text()
        if word.kind == "mark" and word.text in "([{":
            return self._brackets()
        if word.kind == "known":
            return self._named(spaced=True)
        if word.kind == "name" and word.text in _CONSTANTS:
            self.take()
            return Literal((word.start, word.end), _CONSTANTS[word.text])
        if word.text in _FOREIGN:
            self.stop(word.start, f"{word.text} is written {_FOREIGN[word.text]}")
        if self._hint(word):
            raise self.unexpected()
        return self._named(spaced=True)

    def _number(self) -> Literal:
        word = self.take()
        value: float | int
        if not word.text.isdigit():
            value = float(word.text)
            if abs(value) > 1e300 or len(word.text) > 40:
                self.stop(word.start, f"the number {_shown(word.text)} is too large or too long")
        elif len(word.text) > DIGITS:
            self.stop(
                word.start,
                f"the number {_shown(word.text)} has more than {DIGITS} digits: write it as 1e{len(word.text) - 1}",
            )
        else:
            value = int(word.text)
        return Literal((word.start, word.end), value)

    def _text(self) -> Literal:
        word = self.take()
        parts = re.split(r"\\(.)", word.text[1:-1], flags=re.DOTALL)
        strange = [c for c in parts[1::2] if c not in _ESCAPES]
        if strange:
            self.stop(
                word.start, f"the text {_shown(word.text)} holds '\\{strange[0]}': of backslashes, write '\\\\' alone"
            )
        value = "".join(_ESCAPES[c] if k % 2 else c for k, c in enumerate(parts))
        return Literal((word.start, word.end), value)

    def _brackets(self) -> Node:
        """A list, a table, or an expression in parentheses."""
        opened = self.take()
        closing = {"(": ")", "[": "]", "{": "}"}[opened.text]
        items: list[Node] = []
        keys: list[str] = []
        comma = False
        while not self.at(closing):
            if len(items) >= ITEMS:
                self.stop(opened.start, f"a list has more than {ITEMS} items")
            if opened.text == "{":
                keys.append(str(self._text().value) if self.next.kind == "text" else self._stop_at_key())
                self.expect(":")
            items.append(self.expression())
            comma = self.at(",")
            if not comma:
                break
            self.take()
        self.expect(closing, opened)
        if opened.text == "(" and len(items) == 1 and not comma:
            return items[0]
        node = Items((opened.start, self._end), opened.text, tuple(items), tuple(keys))
        if not all(_is_literal(item) for item in node.items):
            self.refuse(node, "a list holds numbers and text alone")
        return node

    def _stop_at_key(self) -> NoReturn:
        raise self.failure(self.next.start, "braces hold lists by name, as in {'a': [1, 0]}")

    # Calls

    def _call(self, word: Token, terms: bool) -> Node:
        opened = self.take()
        if terms:
            self.operations = 0
        self.deeper()
        arguments: list[Node] = []
        keywords: list[tuple[str, Node]] = []
        while not self.at(")"):
            keyword = self._keyword()
            value = self.expression()
            if keyword is None and keywords:
                self.refuse(value, "arguments by name come after the others")
            if keyword is None:
                arguments.append(value)
            else:
                keywords.append((keyword, value))
            if not self.at(","):
                break
            self.take()
        self.expect(")", opened)
        self.depth -= 1
        node = Call((word.start, self._end), word.text, tuple(arguments), tuple(keywords))
        if terms and node.function == "offset":
            return self._offset(node)
        self._check(node)
        return self._reading(node) if terms else node

    def _keyword(self) -> str | None:
        follower = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        if self.next.kind != "name" or follower.text != "=" or follower.kind != "mark":
            return None
        name = self.take().text
        self.take()
        return name

    def _offset(self, node: Call) -> Node:
        if len(node.arguments) != 1 or node.keywords:
            self.refuse(node, "an offset is one expression, as in offset(log(time))")
        return self._reading(node)

    def _check(self, node: Call) -> None:
        """The function is on the list, and its arguments are of the kinds and sizes that it takes."""
        if node.function in self.own:
            return
        function = FUNCTIONS.get(node.function)
        if function is None:
            self.refuse(node, self._unknown(node.function))
        given = dict(zip(function.parameters, node.arguments, strict=False))
        if node.function.endswith("log") and len(node.arguments) == 2:
            self.refuse(node, "logarithms with another base are written log2(x), log10(x) or I(log(x) / log(3))")
        if len(node.arguments) > len(function.parameters) or len(given) < min(function.columns, function.required):
            self.refuse(node, f"write {function.call}")
        for name, value in node.keywords:
            if name not in function.parameters[function.columns :] or name in given:
                self.refuse(node, f"{name!r} cannot be given by name here; write {function.call}")
            given[name] = value
        if any(name not in given for name in function.parameters[: function.required]):
            self.refuse(node, f"write {function.call}")
        self._check_sizes(function, given)

    def _check_sizes(self, function: Function, given: Mapping[str, Node]) -> None:
        for name, value in given.items():
            if name in function.parameters[: function.columns]:
                if isinstance(value, Items | Listed) and _number_of(value) is None:
                    self.refuse(value, f"{function.name}() computes from columns and numbers, not from this")
            elif name == "contrasts" and function.kind == "levels":
                if not (isinstance(value, Items) or self._is_contrast(value)):
                    self.refuse(value, f"contrasts are one of {_CONTRASTS}, or a list")
            elif not _is_literal(value):
                self.refuse(value, f"{name} of {function.name}() is a number, a text or a list, and nothing computed")
            elif name in LARGEST and (_number_of(value) or 0) > LARGEST[name]:
                self.refuse(value, f"{name} of {function.name}() is at most {LARGEST[name]}")
            elif name == "knots" and isinstance(value, Items) and len(value.items) > KNOTS:
                self.refuse(value, f"{len(value.items)} knots are too many: at most {KNOTS}")

    def _is_contrast(self, value: Node) -> bool:
        named = value.function if isinstance(value, Call) else value.name if isinstance(value, Listed) else ""
        return named in FUNCTIONS and FUNCTIONS[named].kind == "contrast"

    def _unknown(self, name: str) -> str:
        last = name.rpartition(".")[2]
        if name in HINTS or last in HINTS:
            return f"{name}() is no function of formulas: {HINTS.get(name) or HINTS[last]}"
        close = get_close_matches(name, [*self.own, *FUNCTIONS], n=1, cutoff=0.75)
        return (
            f"{name}() is no function of formulas{f' (did you mean {close[0]!r}?)' if close else ''}; the guide to formulas lists "
            f"them. Compute the column first, or in Python pass functions={{{last!r}: f}}"
        )


_CONTRASTS = ", ".join(f.call for f in FUNCTIONS.values() if f.kind == "contrast" and f.name.startswith("contr."))
_CONSTANTS = {"True": True, "False": False, "None": None}
_FOREIGN = {"TRUE": "True", "FALSE": "False", "NULL": "None"}


def _is_zero(node: Node) -> bool:
    return isinstance(node, Literal) and node.value == 0


def _number_of(node: Node) -> float | None:
    """The value of a number, which may have a sign."""
    if isinstance(node, Literal) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, Operation) and node.marks in (("-",), ("+",)) and len(node.operands) == 1:
        inside = _number_of(node.operands[0])
        return None if inside is None else inside if node.mark == "+" else -inside
    return VALUES.get(node.name) if isinstance(node, Listed) else None


def _is_literal(node: Node) -> bool:
    return isinstance(node, Literal | Items) or _number_of(node) is not None


def expression(text: str) -> Node:
    """One expression."""
    reader = TextReader(text, "expression", ())
    found = reader.expression()
    reader.finish()
    return found

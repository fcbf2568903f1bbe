"""An R-style formula taken apart: response, terms, offsets, and the columns each of them reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from pramana.errors import FormulaError
from pramana.estimating.function import Question
from pramana.formulas.functions import FUNCTIONS, Own
from pramana.formulas.language import TextReader, refuse_long
from pramana.formulas.tree import Call, Combination, Literal, Name, Node, names, walk, written

TERMS, ORDER, PRODUCTS = 1_000, 7, 100_000
"""Most terms of a formula, most factors of a term, and most products of terms on the way."""

Term = tuple[str, ...]
"""The factors of a term, as they are written; `INTERCEPT` alone is the intercept."""
INTERCEPT: Term = ("1",)


@dataclass(frozen=True)
class ParsedFormula:
    """`response ~ terms` with offsets set apart.

    Attributes
    ----------
    response : the left-hand side.
    terms : the right-hand side without offsets, multiplied out.
    factors : the factors of the terms, by their spelling; numbers among them scale a term.
    offsets : the expressions inside `offset(...)`.
    own : the user's functions that it may call.
    """

    text: str
    response: Node
    terms: tuple[Term, ...]
    spelled: tuple[tuple[str, Node], ...]
    offsets: tuple[Node, ...]
    own: Own = ()

    @cached_property
    def label(self) -> str:
        """The response as it is written; a column without its backticks."""
        return _spelling(self.response)

    @cached_property
    def factors(self) -> dict[str, Node]:
        return dict(self.spelled)

    @cached_property
    def response_variables(self) -> tuple[str, ...]:
        return names(self.response)

    @cached_property
    def covariates(self) -> tuple[str, ...]:
        """Columns of the right-hand side, offsets included, in order of appearance."""
        used = dict.fromkeys(text for term in self.terms for text in term)
        return _once(name for node in (*(self.factors[t] for t in used), *self.offsets) for name in names(node))

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Every column of the formula, once."""
        return _once((*self.response_variables, *self.covariates))

    @cached_property
    def offset_variables(self) -> tuple[str, ...]:
        return _once(name for node in self.offsets for name in names(node))


class FormulaQuestion(Question):
    """A question asked by a formula, which may call a user's own functions."""

    if TYPE_CHECKING:  # to be read; a subclass has fields

        @property
        def formula(self) -> str: ...
        @property
        def functions(self) -> Own: ...

    @property
    def parsed(self) -> ParsedFormula:
        return parse(self.formula, self.functions)

    @property
    def variables(self) -> tuple[str, ...]:
        return self.parsed.variables

    @property
    def formulas(self) -> tuple[ParsedFormula, ...]:
        return parse_parts(self.formula, self.functions)

    @property
    def label(self) -> str:
        return self.formula

    @property
    def facts(self) -> dict[str, str]:
        return {"Formula": self.formula}


def learning_calls(parts: Iterable[ParsedFormula]) -> tuple[Call, ...]:
    """The calls of formulas that learn from all records, once each."""
    pieces = (node for part in parts for factor in (*part.factors.values(), *part.offsets) for node in walk(factor))
    return tuple({written(c): c for c in pieces if isinstance(c, Call) and _learns(c)}.values())


def _learns(call: Call) -> bool:
    return call.function in FUNCTIONS and FUNCTIONS[call.function].kind == "learns"


def _once(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(given))


def _spelling(factor: Node) -> str:
    """What a factor is called in the names of terms: a column by its bare name."""
    return factor.name if isinstance(factor, Name) else written(factor)


def parse(text: str, own: Own = ()) -> ParsedFormula:
    """Take a formula apart, or say what is wrong with it."""
    found = parse_parts(text, own)
    if len(found) > 1:
        raise FormulaError(
            f"formula {text!r} has several parts divided by '|': write one part only (instruments belong to two_stage_least_squares(); "
            "random effects such as (1|g) are not fitted: give clusters='g', or C(g) as a term)"
        )
    return found[0]


def parse_plain(text: str, own: Own = ()) -> ParsedFormula:
    """A formula without offsets."""
    parsed = parse(text, own)
    if parsed.offsets:
        raise FormulaError(f"formula {text!r} has an offset, which only generalised linear models take: leave it out")
    return parsed


def parse_parts(text: str, own: Own = ()) -> tuple[ParsedFormula, ...]:
    """One formula for each of the parts that "|" divides, all with the same response."""
    if not isinstance(text, str):
        raise FormulaError(f"formula {text!r} has no '~': write it as 'response ~ term + term'")
    return _parsed.__wrapped__(text, own) if own else _parsed(text, ())  # own functions need not be hashable


@lru_cache(maxsize=64)
def _parsed(text: str, own: Own) -> tuple[ParsedFormula, ...]:
    response, parts = TextReader(text, own=own).formula()
    if isinstance(response, Combination):
        raise FormulaError(f"formula {text!r} needs exactly one response to the left of '~'")
    if not names(response) or (isinstance(response, Call) and response.function == "offset"):
        raise FormulaError(f"the response {_spelling(response)!r} of formula {text!r} names no column: give one")
    return tuple(_part(text, response, part, own) for part in parts)


def _part(text: str, response: Node, side: Node, own: Own) -> ParsedFormula:
    expansion = Expansion(text)
    found = expansion.of(side)
    held = [term for term in found if any(_is_offset(expansion.factors[f]) for f in term)]
    for term in held:
        if len(term) > 1:
            raise FormulaError(
                f"offset() cannot be part of an interaction, as it is in {':'.join(term)!r}: write it as a term of its own"
            )
    terms = tuple(term for term in found if term not in held)
    if not terms:
        raise FormulaError(
            f"formula {text!r} has no terms and no intercept: nothing is left to estimate; add a term or 1"
        )
    offsets = tuple(expansion.factors[term[0]].parts[0] for term in held)
    used = dict.fromkeys(factor for term in terms for factor in term)
    return ParsedFormula(text, response, terms, tuple((f, expansion.factors[f]) for f in used), offsets, own)


def _is_offset(node: Node) -> bool:
    return isinstance(node, Call) and node.function == "offset"


Terms = dict[Term, Term]
"""Terms by their factors in order of spelling, since a:b is b:a; each as it was written first."""


class Expansion:
    """The algebra of terms: a * b is a + b + a:b, a / b is a + a:b, (a + b) ** 2 has the interactions of two."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.factors: dict[str, Node] = {}
        self.products = 0

    def of(self, side: Node) -> list[Term]:
        """The terms of a right-hand side, which starts with an intercept."""
        start = self._factor(Literal(side.span, 1))
        found = list(self._added(start, side if _is_sum(side) else Combination(side.span, ("+",), (side,))).values())
        numbers = {text for text, node in self.factors.items() if isinstance(node, Literal)}
        bare = [tuple(f for f in term if f not in numbers) for term in found]
        for k, term in enumerate(found):
            if (not bare[k] and term != INTERCEPT) or bare[k] in bare[:k]:
                raise FormulaError(
                    f"formula {self.text!r} has the number or the scaled term {':'.join(term)!r} beside others: scale a column "
                    "inside of I(), as in I(2 * x)"
                )
        return found

    def _added(self, found: Terms, total: Node) -> Terms:
        found = dict(found)
        for mark, operand in zip(total.marks, total.operands, strict=True):  # type: ignore[attr-defined]
            minus = (mark == "-") ^ (isinstance(operand, Literal) and operand.value == 0)
            for key, term in self._terms(operand).items():
                if minus:
                    found.pop(key, None)
                else:
                    found.setdefault(key, term)
        return self._bounded(found)

    def _terms(self, node: Node) -> Terms:
        match node:
            case Literal(value=0):
                return self._factor(Literal(node.span, 1))
            case Combination() if _is_sum(node):
                return self._added({}, node)
            case Combination(operands=operands) if any(isinstance(o, Literal) and o.value == 0 for o in operands):
                raise FormulaError(f"formula {self.text!r} multiplies by 0: write '+ 0' to leave out the intercept")
            case Combination(marks=("**",), operands=(base, Literal(value=int(power)))):
                return self._raised(self._terms(base), power)
            case Combination(marks=(mark,), operands=(left, right)):
                return self._combined(mark, self._terms(left), self._terms(right))
        return self._factor(node)

    def _factor(self, node: Node) -> Terms:
        text = _spelling(node)
        if type(self.factors.setdefault(text, node)) is not type(node):
            raise FormulaError(
                f"formula {self.text!r} has a column and an expression that are both {text!r}: rename the column"
            )
        return {(text,): (text,)}

    def _combined(self, mark: str, left: Terms, right: Terms) -> Terms:
        if not left or not right:
            raise FormulaError(f"formula {self.text!r} multiplies by terms that were all taken away: leave them out")
        if mark == ":":
            return self._products(left, right)
        if mark == "*":
            return self._bounded(left | {k: t for k, t in right.items() if k not in left}, self._products(left, right))
        parents, nested = (left, right) if mark == "/" else (right, left)
        common = tuple(dict.fromkeys(factor for term in parents.values() for factor in term))
        return self._bounded(parents, self._products({common: common}, nested))

    def _raised(self, base: Terms, power: int) -> Terms:
        found = base
        for _ in range(power - 1):
            before, found = found, self._products(found, base)
            if before.keys() == found.keys():  # every interaction is there
                break
        return found

    def _products(self, left: Terms, right: Terms) -> Terms:
        """Every term of one side times every term of the other."""
        found: Terms = {}
        self.products += len(left) * len(right)
        for one in left.values():
            for other in right.values():
                term = tuple(dict.fromkeys((*one, *other)))
                found.setdefault(tuple(sorted(term)), term)
            self._bounded(found)
        return found

    def _bounded(self, found: Terms, more: Terms | None = None) -> Terms:
        found = found | {key: term for key, term in (more or {}).items() if key not in found}
        if len(found) > TERMS or self.products > PRODUCTS or any(len(key) > ORDER for key in found):
            raise FormulaError(
                f"formula {self.text[:80]!r} has more than {TERMS} terms, or a term of more than {ORDER} factors, or takes more than "
                f"{PRODUCTS} products, when multiplied out: name the interactions that matter"
            )
        return found


def _is_sum(node: Node) -> bool:
    return isinstance(node, Combination) and len(node.marks) == len(node.operands)


def as_term(name: str) -> str:
    """A column as a formula writes it: in backticks where it could not be read otherwise.

    >>> as_term("household size"), as_term("y (count)"), as_term("age"), as_term("C(region)")
    ('`household size`', '`y (count)`', 'age', 'C(region)')
    """
    refuse_long(name, "column")
    reader = TextReader(name)
    try:
        reader.sum()
        reader.finish()
    except FormulaError:
        return name if "`" in name else f"`{name}`"
    return name

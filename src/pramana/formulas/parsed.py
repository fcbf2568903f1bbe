"""An R-style formula taken apart: response, terms, offsets, and the columns each of them reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from formulaic import Formula
from formulaic.parser.types import Factor, Term
from formulaic.transforms import TRANSFORMS

from pramana.errors import FormulaError

KNOWN_NAMES = set(TRANSFORMS) | {"np", "float", "int", "bool", "str"}


@dataclass(frozen=True)
class ParsedFormula:
    """`response ~ terms` with offsets set apart.

    Attributes
    ----------
    response : the left-hand side as written.
    terms : formulaic's right-hand side without offsets.
    offsets : the expressions inside `offset(...)`.
    """

    text: str
    response: Factor
    terms: Any
    offsets: tuple[str, ...]

    @property
    def factors(self) -> list[Factor]:
        return list(dict.fromkeys(factor for term in self.terms for factor in term.factors))

    @property
    def response_variables(self) -> tuple[str, ...]:
        return variables_of(self.response)

    @property
    def covariates(self) -> tuple[str, ...]:
        """Columns of the right-hand side, offsets included, in order of appearance."""
        names = [v for factor in self.factors for v in variables_of(factor)]
        names += [v for expression in self.offsets for v in names_in(expression)]
        return tuple(dict.fromkeys(names))


@lru_cache(maxsize=64)
def parse(text: str) -> ParsedFormula:
    """Take a formula apart, or say what is wrong with it."""
    if not isinstance(text, str) or "~" not in text:
        raise FormulaError(f"formula {text!r} has no '~': write it as 'response ~ term + term'")
    if not text.split("~")[0].strip():
        raise FormulaError(f"formula {text!r} has no response: write it as 'response ~ term + term'")
    if "." in text.split("~")[1].split():
        raise FormulaError(f"formula {text!r} uses '.' for all columns: name the columns instead")
    try:
        formula = Formula(text)
        left, right = list(formula.lhs), list(formula.rhs)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormulaError(f"formula {text!r} could not be read: {reason}") from None
    if not all(isinstance(term, Term) for term in (*left, *right)):
        raise FormulaError(f"formula {text!r} has several parts divided by '|': write one part only")
    if len(left) != 1 or len(left[0].factors) != 1:
        raise FormulaError(f"formula {text!r} needs exactly one response to the left of '~'")
    response = next(iter(left[0].factors))
    if not variables_of(response):
        raise FormulaError(f"the response {response.expr!r} of formula {text!r} names no column: give one")
    offsets, terms = _split_offsets(right)
    if not terms:
        raise FormulaError(
            f"formula {text!r} has no terms and no intercept: nothing is left to estimate; add a term or 1"
        )
    return ParsedFormula(text, response, Formula(terms), offsets)


def _split_offsets(terms: list[Term]) -> tuple[tuple[str, ...], list[Term]]:
    offsets, rest = [], []
    for term in terms:
        held = [f for f in term.factors if f.expr.startswith("offset(")]
        if held and len(term.factors) > 1:
            raise FormulaError(
                f"offset() cannot be part of an interaction, as it is in {str(term)!r}: write it as a term of its own"
            )
        if held:
            offsets.append(held[0].expr[len("offset(") : -1])
        else:
            rest.append(term)
    return tuple(offsets), rest


def as_term(name: str) -> str:
    """A column as a formula writes it: in backticks where it could not be read otherwise.

    >>> as_term("household size"), as_term("y (count)"), as_term("age"), as_term("C(region)")
    ('`household size`', '`y (count)`', 'age', 'C(region)')
    """
    try:
        call = ast.parse(name, mode="eval").body
    except SyntaxError:
        return name if "`" in name else f"`{name}`"
    return f"`{name}`" if isinstance(call, ast.Call) and " (" in name.partition("(")[0] + "(" else name


def variables_of(factor: Factor) -> tuple[str, ...]:
    """Columns that a factor reads, also those inside stateful transforms."""
    method = factor.eval_method.value
    if method == "literal":
        return ()
    return (factor.expr,) if method == "lookup" else names_in(factor.expr)


def names_in(expression: str) -> tuple[str, ...]:
    """Names in a Python expression that are not functions or modules known to formulas.

    >>> names_in("np.log(income) + C(edu)")
    ('income', 'edu')
    """
    try:
        tree = ast.parse(expression.strip("{}"), mode="eval")
    except SyntaxError:
        raise FormulaError(f"expression {expression!r} is not valid Python") from None
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    names = [n.id for n in _in_order(tree) if n.id not in called]
    return tuple(dict.fromkeys(n for n in names if n not in KNOWN_NAMES or n == "lag"))


def _in_order(tree: ast.AST) -> Iterable[ast.Name]:
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def calls_in(factor: Factor) -> set[str]:
    """Names of the functions a factor calls directly."""
    return calls_of(factor.expr) if factor.eval_method.value == "python" else set()


def calls_of(expression: str) -> set[str]:
    """Names of the functions an expression calls directly."""
    tree = ast.parse(expression.strip("{}"), mode="eval")
    return {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}


def stateful(name: str) -> bool:
    """True for transforms that learn from the data (centre, scale, splines), which a hidden column cannot give."""
    transform = TRANSFORMS.get(name)
    return bool(getattr(transform, "__is_stateful_transform__", False)) and name != "C"


def parse_plain(text: str) -> ParsedFormula:
    """A formula without offsets."""
    parsed = parse(text)
    if parsed.offsets:
        raise FormulaError(f"formula {text!r} has an offset, which only generalised linear models take: leave it out")
    return parsed


def variables_in(parsed: ParsedFormula) -> tuple[str, ...]:
    """Every column of the formula, once."""
    return tuple(dict.fromkeys((*parsed.response_variables, *parsed.covariates)))

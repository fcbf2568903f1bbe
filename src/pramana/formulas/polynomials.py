"""How a formula uses a column with noise: as a polynomial, by comparisons, or in a way that no noise allows."""

from __future__ import annotations

from collections.abc import Iterable

from pramana.errors import FormulaError
from pramana.formulas.parsed import ParsedFormula
from pramana.formulas.tree import COMPARISONS, Call, Literal, Name, Node, Operation, names, walk, written
from pramana.frames import Schema
from pramana.kernels.additive import HIGHEST


def degree(node: Node, name: str) -> int | None:
    """Degree of a piece of a formula as a polynomial in a column; None where it is none.

    >>> from pramana.formulas.language import expression
    >>> [degree(expression(text), "x") for text in ("I((x - 40) ** 2)", "x * y / 10", "log(x)", "I(x > 3)", "y")]
    [2, 1, None, None, 0]
    """
    if name not in names(node):
        return 0
    if isinstance(node, Name):
        return 1
    if isinstance(node, Call) and node.function == "I":
        return degree(node.arguments[0], name)
    if not isinstance(node, Operation) or node.mark not in ("+", "-", "*", "/", "**"):
        return None
    parts = [degree(part, name) for part in node.operands]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if node.mark in ("+", "-"):
        return max(known)
    if node.mark == "*":
        return sum(known)
    right = node.operands[1]
    if node.mark == "/":
        return known[0] if known[1] == 0 else None
    whole = isinstance(right, Literal) and isinstance(right.value, int) and right.value >= 0
    return known[0] * int(right.value) if whole else None  # type: ignore[attr-defined]


def _compares(node: Node, name: str) -> bool:
    """Whether a column is read by comparisons alone, which are defined wherever it is."""
    if isinstance(node, Operation) and node.mark in COMPARISONS:
        return all(degree(part, name) is not None for part in node.operands)
    if isinstance(node, Name):
        return node.name != name
    return name not in names(node) or (
        isinstance(node, Call | Operation) and all(_compares(p, name) for p in node.parts)
    )


def refuse_transformed(parsed: ParsedFormula, schema: Schema) -> None:
    """Noise is undone in polynomials of a column, and on a grid in comparisons too: the noise reaches where a logarithm has no value."""
    for factor in (*parsed.factors.values(), parsed.response, *parsed.offsets):
        for name in (v for v in names(factor) if schema.perturbed(v) and schema[v].levels is None):
            power = degree(factor, name)
            if power is not None and factor is parsed.response and power > HIGHEST // 2:
                raise FormulaError(
                    f"response {written(factor)!r} is of degree {power} in {name!r}, above {HIGHEST // 2}"
                )
            if power is not None or (not schema[name].smooth_only and _compares(factor, name)):
                continue
            remedy = f"write polynomials and interactions of it, as in {name} + I({name} ** 2)"
            if any(
                isinstance(part, Call) and part.function.endswith(("log", "sqrt", "log1p", "log2", "log10"))
                for part in walk(factor)
            ):
                remedy += "; a logarithm can be used where the noise was added to the logarithm itself"
            raise FormulaError(
                f"term {written(factor)!r} transforms the column {name!r}, which holds noise: its average over the noise cannot be undone; "
                f"{remedy}"
            )


def degrees(parsed: ParsedFormula, schema: Schema) -> dict[str, int]:
    """Degree of the terms, or of the response, in each column with noise, where they are polynomials."""
    own = [*parsed.covariates, *parsed.response_variables]
    noisy = [v for v in own if schema.perturbed(v) and schema[v].levels is None]
    found = {
        name: [
            *(_summed(degree(parsed.factors[f], name) for f in term) for term in parsed.terms),
            degree(parsed.response, name),
        ]
        for name in noisy
    }
    return {name: max(d for d in own if d is not None) for name, own in found.items() if None not in own}


def _summed(parts: Iterable[int | None]) -> int | None:
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)

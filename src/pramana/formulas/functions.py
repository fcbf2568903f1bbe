"""The published list of what a formula may call: one table for the reader of formulas, their evaluation and the reference page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from keyword import iskeyword
from typing import Any, Literal

import numpy as np

from pramana.errors import FormulaError

FunctionKind = Literal["rows", "learns", "levels", "contrast"]
Functions = Mapping[str, Callable[..., Any]]
"""A user's row-wise functions by name, as they are given."""
Own = tuple[tuple[str, Callable[..., Any]], ...]
"""The same as sorted pairs, so that plans that hold them can be compared and hashed."""

DEGREES, SPLINES, KNOTS, DECIMALS = 20, 200, 200, 15
LARGEST = {"df": SPLINES, "degree": DEGREES, "decimals": DECIMALS, "ddof": SPLINES}
"""Largest number that an argument of this name takes."""


@dataclass(frozen=True)
class Function:
    """A function of the list.

    Attributes
    ----------
    call : as the reference page shows it; optional arguments come after the bar, in brackets.
    meaning : for the reference page.
    kind : "rows" looks at one record at a time, "learns" takes something (a mean, knots) from all records and keeps it,
        "levels" makes categories, "contrast" is an argument of C.
    columns : how many of its first arguments are computed from columns; the others are numbers, text and lists.
    """

    call: str
    meaning: str
    kind: FunctionKind
    columns: int = 1

    @property
    def name(self) -> str:
        return self.call.partition("(")[0]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(re.findall(r"\w+", self.call.partition("(")[2]))

    @property
    def required(self) -> int:
        return len(re.findall(r"\w+", self.call.partition("(")[2].partition("[")[0]))


_ROWS = {
    "log": "natural logarithm",
    "log1p": "log(1 + x)",
    "log2": "logarithm with base 2",
    "log10": "logarithm with base 10",
    "exp": "exponential",
    "expm1": "exp(x) - 1",
    "exp2": "2 to the power of x",
    "sqrt": "square root",
    "cbrt": "cube root",
    "square": "square",
    "abs": "absolute value",
    "sign": "-1, 0 or 1",
    "floor": "next smaller integer",
    "ceil": "next larger integer",
    "trunc": "integer part",
    "rint": "nearest integer",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tangent",
    "arcsin": "inverse of the sine",
    "arccos": "inverse of the cosine",
    "arctan": "inverse of the tangent",
    "sinh": "hyperbolic sine",
    "cosh": "hyperbolic cosine",
    "tanh": "hyperbolic tangent",
    "arcsinh": "inverse hyperbolic sine, a logarithm for amounts of either sign",
}

OF_NUMBERS = frozenset(_ROWS)
"""Functions of one number."""

_LISTED = (
    Function("I(x)", "an expression as it is: arithmetic and comparisons mean what they do in Python", "rows"),
    Function("C(x[, contrasts, levels, spans_intercept])", "categories, with contrasts", "levels"),
    Function("isin(x, values)", "true where x is one of a list of values", "rows"),
    Function("round(x[, decimals])", "rounded", "rows"),
    Function("minimum(x, y)", "the smaller of two", "rows", 2),
    Function("maximum(x, y)", "the larger of two", "rows", 2),
    Function("clip(x, low, high)", "kept between two bounds", "rows", 3),
    Function("where(condition, x, y)", "x where the condition holds, y elsewhere", "rows", 3),
    Function("digitize(x, bins[, right])", "the number of the interval that x lies in", "rows"),
    Function("heaviside(x, y)", "0 below zero, 1 above, y at zero", "rows", 2),
    *(Function(f"{name}(x)", meaning, "rows") for name, meaning in _ROWS.items()),
    Function("center(x)", "less its mean", "learns"),
    Function("scale(x[, center, scale, ddof])", "less its mean, over its standard deviation", "learns"),
    Function(
        "standardize(x[, center, rescale, ddof])", "the same with the standard deviation of a population", "learns"
    ),
    Function("poly(x[, degree, raw])", "orthogonal polynomials", "learns"),
    Function(
        "bs(x[, df, knots, degree, include_intercept, lower_bound, upper_bound, extrapolation])", "B-splines", "learns"
    ),
    Function(
        "cr(x[, df, knots, lower_bound, upper_bound, constraints, extrapolation])", "natural cubic splines", "learns"
    ),
    Function("cs(x[, df, knots, lower_bound, upper_bound, constraints, extrapolation])", "the same as cr", "learns"),
    Function(
        "cc(x[, df, knots, lower_bound, upper_bound, constraints, extrapolation])", "cyclic cubic splines", "learns"
    ),
    Function("contr.treatment([base])", "differences from a level, the first unless given", "contrast", 0),
    Function("contr.SAS([base])", "differences from a level, the last unless given", "contrast", 0),
    Function("contr.sum()", "differences from the mean of the levels", "contrast", 0),
    Function("contr.helmert([reverse, scale])", "differences from the mean of the levels before", "contrast", 0),
    Function("contr.diff([backward])", "differences from the level before", "contrast", 0),
    Function("contr.poly([scores])", "orthogonal polynomials of ordered levels", "contrast", 0),
    Function("contr.custom(contrasts[, names])", "a matrix of contrasts, one row a level", "contrast", 0),
    Function("Treatment([reference])", "the same as contr.treatment", "contrast", 0),
    Function("Sum()", "the same as contr.sum", "contrast", 0),
    Function("Helmert()", "the same as contr.helmert", "contrast", 0),
    Function("Diff()", "the same as contr.diff", "contrast", 0),
    Function("Poly()", "the same as contr.poly", "contrast", 0),
)

_BY_NUMPY = ("isin", "round", "minimum", "maximum", "clip", "where", "digitize", "heaviside", *_ROWS)

FUNCTIONS = {f.name: f for f in _LISTED} | {f"np.{f.name}": f for f in _LISTED if f.name in _BY_NUMPY}
"""Everything that can be called in a formula, by the name that it is called by; `np.log(x)` is `log(x)`."""

VALUES = {"np.pi": float(np.pi), "np.e": float(np.e)}
"""Names with a dot that stand for numbers."""

JUMPS = ("floor", "ceil", "round", "rint", "trunc", "sign", "where", "digitize", "heaviside", "isin")
"""Functions without a derivative."""

_SMOOTH = "smooth terms have no fixed number of coefficients: write bs(x, df=5), or cr(x, df=5, constraints='center')"
_ORDER = "it depends on the order of the records, which a formula does not see: compute the column first"
_MIXES = "it mixes the values of different records: write center(x) or scale(x), or a constant such as I(x - 40)"
HINTS = {
    "factor": "categories are written C(x)",
    "as.factor": "categories are written C(x)",
    "as_factor": "categories are written C(x)",
    "ordered": "ordered categories are written C(x, contr.poly)",
    "relevel": "a reference level is written C(x, contr.treatment(base='level'))",
    "ns": "natural splines are written cr(x, df=4, constraints='center')",
    **dict.fromkeys(("s", "te", "ti", "t2", "lo", "loess"), _SMOOTH),
    **dict.fromkeys(("lag", "lead", "diff", "cumsum", "shift", "np.cumsum", "np.diff"), _ORDER),
    **dict.fromkeys(("mean", "median", "sd", "std", "var", "rank", "max", "min", "sum"), _MIXES),
    **dict.fromkeys(("np.mean", "np.median", "np.std", "np.var", "np.max", "np.min", "np.sum", "np.quantile"), _MIXES),
    "c": "lists are written [1, 2, 3], and membership isin(x, ['a', 'b'])",
    "ifelse": "write np.where(condition, x, y)",
    "pmin": "write np.minimum(x, y)",
    "pmax": "write np.maximum(x, y)",
    "cut": "write C(np.digitize(x, [20, 40, 60])), or compute the column first",
    **dict.fromkeys(("pow", "power"), "powers are written I(x ** 2)"),
    "exp10": "write exp(x * log(10))",
    "Q": "odd column names are written in backticks, `like this`",
    "offset": "offset(x) is a term of its own and can be no part of another",
}
"""What to write in place of a function that users of R, or of other formula languages, expect."""


def own_functions(given: Functions | None) -> Own:
    """A user's row-wise functions, checked.

    >>> own_functions({"inverse": lambda x: 1 / x})[0][0]
    'inverse'
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise FormulaError(f"functions={given!r} must be a dictionary of functions by name, such as {{'f': f}}")
    for name, function in given.items():
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name) or name.startswith("__"):
            raise FormulaError(f"functions: {name!r} is no plain name: call it by letters and digits")
        if name in FUNCTIONS or name == "offset":
            raise FormulaError(f"functions: {name!r} is a function of formulas already: choose another name")
        if not callable(function):
            raise FormulaError(f"functions: {name!r} is a {type(function).__name__}, which cannot be called")
    return tuple(sorted(given.items()))


@cache
def implementation(name: str) -> Callable[..., Any]:
    """The function behind a name of the list."""
    from formulaic.transforms import TRANSFORMS, ContrastsRegistry

    if name.startswith("contr."):
        return vars(ContrastsRegistry)[name.removeprefix("contr.")]
    plain = name.removeprefix("np.")
    return vars(np)[plain] if plain in _BY_NUMPY else TRANSFORMS[plain]

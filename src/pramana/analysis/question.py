"""The one reading of a question: what is asked of the data, as text, as a formula with a family, or as a plan."""

from __future__ import annotations

from typing import Any

from pramana.errors import FormulaError
from pramana.estimating import Family
from pramana.estimating.function import Question
from pramana.formulas.functions import Functions
from pramana.formulas.text import is_call, parameter
from pramana.models.generalized_linear import glm


def question(
    what: Any,
    family: str | Family | None = None,
    link: str | None = None,
    functions: Functions | None = None,
) -> Question:
    """The plan behind `what`: a formula, a parameter as text, or a plan. It can be pickled and holds no records.

    Every function and command that takes an analysis reads it here.

    >>> question("mean(income, by=edu)").label
    'income, edu'
    >>> question("visits ~ age", family="negative-binomial").label
    'visits ~ age'
    """
    if functions is not None and not isinstance(what, str):
        raise FormulaError(
            "functions= belongs to a formula: give it to the plan, as in glm('y ~ f(x)', functions={'f': f})"
        )
    if isinstance(what, str) and is_call(what):
        what = parameter(what, functions)
    if isinstance(what, str):
        return _formula(what, family, link, functions)
    if not isinstance(what, Question):
        raise FormulaError(
            f"cannot estimate a {type(what).__name__}: give a formula such as 'y ~ x', or an estimating function such as mean('y')"
        )
    if family is not None or link is not None:
        raise FormulaError("family and link belong to a formula: leave them out when giving an estimating function")
    return what


def questions(given: Any, family: str | Family | None = None) -> list[Question]:
    """The plans behind one analysis or several; the family is that of the formulas among them.

    >>> [plan.label for plan in questions(["ill ~ age", "mean(age)"], "binomial")]
    ['ill ~ age', 'age']
    """
    asked = several(given)
    formulas = [isinstance(what, str) and not is_call(what) for what in asked]
    if family is not None and not any(formulas):
        name = family if isinstance(family, str) else family.name
        raise FormulaError(f"family {name!r} belongs to a formula: leave it out, or give one, as in 'y ~ x'")
    return [question(what, family if own else None) for what, own in zip(asked, formulas, strict=True)]


def several(given: Any) -> list[Any]:
    """One thing or several, as a list."""
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _formula(text: str, family: str | Family | None, link: str | None, functions: Functions | None) -> Question:
    if "~" not in text:
        raise FormulaError(
            f"{text!r} has no '~' and is no call: give a formula such as 'income ~ age', or a parameter such as "
            "'median(income, by=edu)'"
        )
    return glm(text, "gaussian" if family is None else family, link, functions=functions)

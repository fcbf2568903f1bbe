"""The errors a user can meet. Each message names the value, the limit and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PramanaError(Exception):
    """Root of every error that Pramana raises on purpose."""


class MechanismError(PramanaError):
    """The description of the randomisation is wrong or does not fit the data."""


class DataError(PramanaError):
    """The data cannot be used as they are."""


class FormulaError(PramanaError):
    """The formula, family or estimating function cannot be used."""


class SolveError(PramanaError):
    """The estimating equation has no root that could be found."""


def listing(values: Iterable[object], limit: int = 5) -> str:
    """The first few values, quoted, with a count of the rest.

    >>> listing(["a", 1, "b"], limit=2)
    "'a', 1 and 1 more"
    """
    items = [repr(v.item() if hasattr(v, "item") else v) for v in values]
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def suggestion(value: str, options: Iterable[str]) -> str:
    """A closing phrase that names the nearest option and all of them.

    >>> suggestion("binomal", ["binomial", "poisson"])
    "did you mean 'binomial'? Known: binomial, poisson"
    """
    known = [str(option) for option in options]
    folded = {option.lower(): option for option in known}
    close = difflib.get_close_matches(str(value).lower(), folded, n=1, cutoff=0.5)
    hint = f"did you mean {folded[close[0]]!r}? " if close else ""
    return f"{hint}Known: {', '.join(known)}"

"""Two-way clusters: records that share a firm or a year depend on each other.

V = V₁ + V₂ − V₁₂ (Cameron, Gelbach & Miller 2011), with V₁ and V₂ the variances by either column and V₁₂ that by their combinations, whose
pairs of records both others count. Each of the three has its own correction for few clusters; intervals have the degrees of freedom of the column
that has fewer. A difference of variances need not be one: negative eigenvalues are then raised to 0, and the result says so.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from pramana.analysis.task import Task
from pramana.arrays import Float
from pramana.diagnostic import Diagnostic
from pramana.errors import PramanaError
from pramana.estimators.absorbed import answered
from pramana.estimators.method import Method
from pramana.inference import Sandwich
from pramana.result import Result

NEGATIVE = 1e-10
"""Eigenvalues of a correlation matrix above minus this are rounding."""


def estimated(method: Method, task: Task) -> Result:
    """The method's answer; by both columns where clusters are crossed."""
    if task.sampling.crossed is None:
        return answered(method, task)
    asked = _linearised(task.options.inference)
    options = replace(task.options, inference=replace(asked, interval="wald"))
    first, second, both = (
        answered(method, replace(task, sampling=sampling, options=options)) for sampling in task.sampling.ways
    )
    if both.draws is not None:
        raise PramanaError(
            f"method {both.method!r} has standard errors from draws, and two-way clusters have none: name one column of clusters"
        )
    covariance, raised = made_positive(first.covariance + second.covariance - both.covariance)
    names = task.beside.crossed_names
    groups = [len(np.unique(codes)) for codes in task.sampling.crossed]
    small = first.df is not None or second.df is not None
    kinds = " and ".join(dict.fromkeys(re.findall(r"\bCR\d", f"{first.inference} {second.inference}")))
    shown = " and ".join(f"{count} of {name}" for count, name in zip(groups, names, strict=True))
    few = np.minimum(first.degrees_of_freedom, second.degrees_of_freedom)
    notes = [*first.diagnostics, *second.diagnostics, *both.diagnostics, *([_raised(raised)] if raised else [])]
    return replace(
        both,
        covariance=covariance,
        sampling=_combined(first.sampling, second.sampling, both.sampling),
        inference=f"sandwich ({kinds}, two-way clusters: {shown}), wald intervals",
        df=few if small else None,
        limits=None,
        diagnostics=tuple(dict.fromkeys(notes)),
    )


def _linearised(asked: object) -> Sandwich:
    if asked is None:
        return Sandwich()
    if not isinstance(asked, Sandwich) or asked.interval not in ("auto", "wald"):
        named = asked.interval if isinstance(asked, Sandwich) else type(asked).__name__
        raise PramanaError(
            f"two-way clusters have the variance V1 + V2 - V12 of linearised estimates and Wald intervals, not {named!r}: use "
            "inference=Sandwich(), or name one column of clusters"
        )
    return asked


def _combined(first: Float | None, second: Float | None, both: Float | None) -> Float | None:
    return None if first is None or second is None or both is None else made_positive(first + second - both)[0]


def made_positive(covariance: Float) -> tuple[Float, int]:
    """The covariance (d, d) with negative eigenvalues raised to 0, and how many there were.

    Parameters are scaled to variances of the same size first, so that their units do not matter.

    >>> made_positive(np.array([[1.0, 2.0], [2.0, 1.0]]))
    (array([[1.5, 1.5],
           [1.5, 1.5]]), 1)
    """
    known = np.isfinite(np.diag(covariance))
    part = covariance[np.ix_(known, known)]
    size = np.sqrt(np.abs(np.diag(part)))
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(part / np.outer(size, size))
    low = values < -NEGATIVE
    if not low.any():
        return covariance, 0
    mended = (vectors * np.where(low, 0.0, values)) @ vectors.T * np.outer(size, size)
    out = covariance.copy()
    out[np.ix_(known, known)] = mended
    return out, int(low.sum())


def _raised(count: int) -> Diagnostic:
    text = (
        f"the variance by two-way clusters had {count} negative eigenvalue(s), raised to 0: a column of clusters has too few of them, or little "
        "depends on one of the columns; compare with the standard errors by either column alone"
    )
    return Diagnostic("two-way-not-positive", "warning", text)

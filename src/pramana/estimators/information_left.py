"""How much the released data say about a likelihood's coefficients, in records without noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pramana.arrays import Float
from pramana.estimators.maximization import Maximum
from pramana.estimators.observed_likelihood import ObservedLikelihood
from pramana.inference.identification import WEAK
from pramana.mechanism import Assignment
from pramana.result import Diagnostic

LARGEST = 500
"""Levels beyond which no singular values are computed."""


def weak_directions(model: ObservedLikelihood, found: Maximum, variance: Float, records: float) -> list[Diagnostic]:
    """A diagnostic where the information along some coefficients is worth too few records.

    The weakest direction is the one whose variance, the inverse of the observed information (d, d), exceeds that of the
    released values at face value most. Reversion asks for a share of √m standard errors from zero, m the records that
    carry it: the same limit here asks for m = 16.
    """
    half = np.linalg.cholesky(_at_face_value(model, found))
    values, vectors = np.linalg.eigh(half.T @ variance @ half)
    worth = records / float(values[-1])
    if worth >= WEAK**2:
        return []
    loading = np.abs(np.linalg.solve(half.T, vectors[:, -1])) * np.linalg.norm(half, axis=1)
    named = ", ".join(
        repr(p)
        for p, v in zip(model.data.function.parameters, loading / np.linalg.norm(loading), strict=True)
        if v > 0.3
    )
    remedy = "merge levels, use more records or fewer terms"
    if worth < 1:
        message = (
            f"the released data say next to nothing about {named} (as much as {worth:.1g} records without noise): estimate and "
            f"standard errors mean nothing; {remedy}"
        )
        return [Diagnostic("not-identified", "error", message)]
    message = (
        f"weak identification of {named} (the released data say as much as {worth:.1f} records without noise; "
        f"{WEAK**2:g} is the limit for Wald intervals): {remedy}"
    )
    return [Diagnostic("weakly-identified", "warning", message)]


def faint_channels(model: ObservedLikelihood, assignments: Sequence[Assignment], records: float) -> list[Diagnostic]:
    """A diagnostic where a covariate's channel lets through too little: the likelihood is then a mixture with several
    maxima, each as sharply curved as if it were the right one.

    Shares of the levels have standard errors of about 1/(σ √n), σ the smallest singular value of P.
    """
    hidden = set(model.data.combinations[0])
    found = []
    for assignment in assignments:
        levels = assignment.channel.levels
        if (
            levels is None
            or assignment.channel.context
            or len(levels) > LARGEST
            or not hidden.intersection(assignment.columns)
        ):
            continue
        matrix = assignment.channel.likelihood(np.arange(len(levels)), {})  # type: ignore[attr-defined]
        signal = float(np.linalg.svd(matrix, compute_uv=False)[-1] * np.sqrt(records))
        if signal < WEAK:
            message = (
                f"hardly anything of {' × '.join(assignment.columns)!r} is left after the noise (smallest singular value of P times √n is "
                f"{signal:.1f}, limit {WEAK:g}): the likelihood may have several maxima, of which this is one; use more records, or "
                "merge levels"
            )
            found.append(Diagnostic("weakly-identified", "warning", message))
    return found


def _at_face_value(model: ObservedLikelihood, found: Maximum) -> Float:
    """Σ w x xᵀ (d, d) over the nodes as the channel alone weighs them, times the average precision of a response."""
    data, state = model.data, found.state
    share = state.posterior * model.weights[:, None]
    precision = -float(np.sum(share * model.expected_bend(state)) / model.weights.sum())
    alone = data.channel / data.channel.sum(axis=1, keepdims=True) * model.weights[:, None]
    return np.asarray(precision * model.curvature(alone))

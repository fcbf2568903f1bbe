"""How much the released data say about a likelihood's coefficients, in records without noise."""

from __future__ import annotations

import numpy as np

from pramana.arrays import Float
from pramana.estimators.maximization import Maximum
from pramana.estimators.observed_likelihood import ObservedLikelihood
from pramana.inference.identification import WEAK
from pramana.result import Diagnostic


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


def _at_face_value(model: ObservedLikelihood, found: Maximum) -> Float:
    """Σ w x xᵀ (d, d) over the nodes as the channel alone weighs them, times the average precision of a response."""
    data, state = model.data, found.state
    share = state.posterior * model.weights[:, None]
    precision = -float(np.sum(share * model.expected_bend(state)) / model.weights.sum())
    alone = data.channel / data.channel.sum(axis=1, keepdims=True) * model.weights[:, None]
    return np.asarray(precision * model.curvature(alone))

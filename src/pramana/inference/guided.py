"""Newton's method over very many records, guided by some of them: few steps, because what bends the score is known beforehand.

At β the score S and slope J of all records are asked for. With s and j those of a sample, each of whose records stands for r, the score
elsewhere is about

    S + J (b − β) + r {s(b) − s(β) − j(β) (b − β)},

exact to first order, and beyond it as good as the sample tells how the score bends. Its root is the next value, and the term in braces
is what Newton's step would leave of the score. (For maximum likelihood over many machines: Jordan, Lee and Yang, 2019, Journal of the
American Statistical Association 114, 668-681.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.engines import Engine
from pramana.kernels.newton import TOLERANCE, newton, solve_each

STEPS = 5
"""Passes after which a sample that leads nowhere is left."""
DOUBT = 10.0
"""How much less of the bend the sample may tell in the next step than it told in the last one."""
TRUST = 0.01
"""Share of the bend that is taken to be wrong, whatever the last step showed: were it all wrong, a root would still be right to
`TOLERANCE` / (10 `TRUST`) standard deviations of the score."""

ScoreAndSlope = Callable[[Float], tuple[Float, Float]]
"""β (d,) ↦ score (1, d), slope (1, d, d)."""


@dataclass(frozen=True)
class GuidedRoot:
    """A root, the norm of the score that is left there, passes over all records, and their last slope (d, d), next to the root."""

    beta: Float
    norm: float
    steps: int
    slope: Float


def guided(sums: ScoreAndSlope, few: Engine, each: float, start: Float, scale: Float) -> GuidedRoot | None:
    """The root of the sums over all records, or None where some of them do not lead to it.

    Parameters
    ----------
    few, each : some of the records, and how many each of them stands for.
    scale : (d,), inverse standard deviations of the score's components.
    """
    beta, before, bend = start, np.inf, 0.0
    for steps in range(STEPS):
        score, slope = sums(beta)
        norm = float(np.max(np.abs(score * scale)))
        if norm <= TOLERANCE:
            return GuidedRoot(beta, norm, steps, slope[0])
        if not norm <= 0.1 * before:
            return None
        wrong = max(TRUST, DOUBT * norm / bend) if DOUBT * norm < bend else 1.0
        moved = _moved(few, each, beta, score, slope, scale)
        if moved is None:
            return None
        beta, bend = moved
        if wrong * bend <= 0.1 * TOLERANCE:
            return GuidedRoot(beta, wrong * bend, steps + 1, slope[0])
        before = norm
    return None


def _moved(
    few: Engine, each: float, beta: Float, score: Float, slope: Float, scale: Float
) -> tuple[Float, float] | None:
    """Where the score vanishes as far as some of the records tell, and the size of the bend on the way there."""
    at: ScoreAndSlope = lambda b: few.score_and_slope(b[None], few.own)  # noqa: E731
    here, tilt = at(beta)

    def bend(b: Float) -> tuple[Float, Float]:
        there, turned = at(b)
        return each * (there - here - (tilt[0] @ (b - beta))), each * (turned - tilt)

    def about(betas: Float, _: object) -> tuple[Float, Float]:
        more, turned = bend(betas[0])
        return score + slope[0] @ (betas[0] - beta) + more, slope + turned

    first = beta - solve_each(slope, score)[0]
    if not np.all(np.isfinite(first)):
        return None
    found = newton(about, first[None], scale, max_halvings=5)
    if not found.converged[0]:
        return None
    return found.beta[0], float(np.max(np.abs(bend(found.beta[0])[0] * scale)))

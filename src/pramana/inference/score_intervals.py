"""Confidence intervals that invert the score test: they need no invertible slope at the estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.engines import Engine
from pramana.errors import SolveError
from pramana.kernels.newton import newton

_FAR = 2.0**24


def score_intervals(
    engine: Engine, beta: Float, errors: Float, level: float, extra: Callable[[Float], Float] | None = None
) -> Float:
    """(d, 2): the values of each parameter that the score test does not reject, walking out from the estimate; `extra` is
    variance of the score, by parameter value, that the records do not show.

    An end is infinite where the test does not reject values far out. The accepted values can then leave a gap, when a
    reverted variance may have either sign: the interval covers it, since the values beyond it are accepted.
    """
    from scipy.stats import chi2

    critical = float(chi2.ppf(level, 1))
    out = np.empty((engine.d, 2))
    for j in range(engine.d):
        for side, sign in enumerate((-1.0, 1.0)):
            out[j, side] = _end(_Profile(engine, beta, j, extra), sign * max(errors[j], 1e-12), critical)
    return out


def _end(profile: _Profile, step: float, critical: float) -> float:
    """Double the distance until the test rejects, then halve the bracket."""
    centre, inside, distance = float(profile.beta[profile.index]), 0.0, 1.0
    if profile.statistic(centre + step * _FAR) <= critical:
        return float(np.sign(step) * np.inf)
    profile.reset()
    while profile.statistic(centre + step * distance) <= critical:
        inside, distance = distance, 2 * distance
        if distance > _FAR:
            return float(np.sign(step) * np.inf)
    outside = distance
    while outside - inside > 1e-7 * outside:
        middle = 0.5 * (inside + outside)
        if profile.statistic(centre + step * middle) <= critical:
            inside = middle
        else:
            outside = middle
    return centre + step * outside


@dataclass
class _Profile:
    """The score statistic of one parameter, the others solved for at every value of it."""

    engine: Engine
    beta: Float
    index: int
    extra: Callable[[Float], Float] | None = None

    def __post_init__(self) -> None:
        self._others = np.delete(np.arange(self.engine.d), self.index)
        self.reset()

    def reset(self) -> None:
        """Look for the other parameters near the estimate again."""
        self._nuisance = self.beta[self._others]

    def statistic(self, value: float) -> float:
        """Squared score over its variance; infinite where the other parameters have no root."""
        full = self._solved(value)
        if full is None:
            return float("inf")
        totals = self.engine.totals(full)
        j, others = self.index, self._others
        contrast = np.zeros(self.engine.d)
        contrast[j] = 1.0
        if others.size:
            try:
                contrast[others] = -np.linalg.solve(totals.slope[np.ix_(others, others)].T, totals.slope[j, others])
            except np.linalg.LinAlgError:
                return float("inf")
        meat = totals.meat if self.extra is None else totals.meat + self.extra(full)
        variance = float(contrast @ meat @ contrast)
        return float((contrast @ totals.score) ** 2 / variance) if variance > 0 else 0.0

    def _solved(self, value: float) -> Float | None:
        full = self.beta.copy()
        full[self.index] = value
        if not self._others.size:
            return full
        found = self._solve_others(full, self._nuisance)
        if found is not None:
            self._nuisance = found
            full[self._others] = found
            return full
        return None

    def _solve_others(self, full: Float, start: Float) -> Float | None:
        others, weights = self._others, self.engine.own

        def evaluate(nuisance: Float, _rows: object) -> tuple[Float, Float]:
            point = full.copy()
            point[others] = nuisance[0]
            score, slope = self.engine.score_and_slope(point[None], weights)
            return score[:, others], slope[:, others][:, :, others]

        scale = 1 / np.maximum(self.engine.spread(full, weights)[others], 1e-300)
        try:
            roots = newton(evaluate, start[None], scale)
        except SolveError:
            return None
        return roots.beta[0] if roots.converged[0] else None

"""Confidence intervals that invert the score test: they need no invertible slope at the estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.engines import Engine
from pramana.errors import SolveError
from pramana.kernels.newton import newton

FAR = 2.0**24
CLOSE = 1e-4
"""Relative change of an end that leaves its square, as curves through three points converge."""
ROOTLESS = 1e-3
"""The same of an end beyond which the other parameters have no root, by halving."""
STEPS = 60


def score_intervals(
    engine: Engine,
    beta: Float,
    errors: Float,
    critical: Float,
    rows: Sequence[int] | None = None,
    extra: Callable[[Float], Float] | None = None,
) -> Float:
    """(L, d, 2): the values of each parameter that the score test does not reject, walking out from the estimate; NaN but for the
    parameters asked for.

    The test of each of L levels rejects where the squared score exceeds `critical` (L, d) of its variances, which `extra` adds to:
    variance of the score, by parameter value, that the records do not show.

    An end is infinite where the test does not reject values far out. The accepted values can then leave a gap, when a
    reverted variance may have either sign: the interval covers it, since the values beyond it are accepted.
    """
    out = np.full((len(critical), engine.d, 2), np.nan)
    for j in range(engine.d) if rows is None else rows:
        for side, sign in enumerate((-1.0, 1.0)):
            walk = _Walk(_Profile(engine, beta, j, extra), sign * max(errors[j], 1e-12))
            out[:, j, side] = [walk.end(float(limit)) for limit in np.sqrt(critical[:, j])]
    return out


def score_statistic(
    engine: Engine, beta: Float, index: int, value: float, extra: Callable[[Float], Float] | None = None
) -> float:
    """Of the hypothesis that one parameter has this value."""
    return _Profile(engine, beta, index, extra).statistic(value)


@dataclass(frozen=True)
class Reference:
    """What a squared score over its variance is compared with.

    Attributes
    ----------
    df : degrees of freedom of the variance of each parameter (d,); infinite for the chi-square.
    factor : by which the root of the variance is too small (d,).
    centred : whether that variance is around the mean of the scores.
    """

    df: Float
    factor: Float
    centred: bool

    def critical(self, level: float) -> Float:
        """(d,): that of t². Around the value tested the scores have a mean; a variance that is not around it grows with it, by the
        squared score over the units, of which there are one more than degrees of freedom: t² is the limit of many."""
        from scipy.special import stdtrit

        square = (stdtrit(self.df, (1 + level) / 2) * self.factor) ** 2
        return np.asarray(square if self.centred else square / (1 + square / (self.df + 1)))

    def t(self, statistic: float, index: int) -> float:
        """The size of t that a statistic of one parameter stands for."""
        df, factor = float(self.df[index]), float(self.factor[index])
        room = 1.0 if self.centred else 1 - statistic / (df + 1)
        return float(np.sqrt(statistic / room) / factor) if room > 0 else float("inf")


class _Walk:
    """Out from the estimate on one side, in steps of a standard error; what was computed on the way serves every level."""

    def __init__(self, profile: _Profile, step: float) -> None:
        self.centre, self.step = float(profile.beta[profile.index]), step
        self.far = np.sqrt(profile.statistic(self.centre + step * FAR))
        self.known: dict[float, float] = {}
        profile.reset()
        self.profile = profile

    def end(self, limit: float) -> float:
        """Double the distance until the root of the statistic is beyond the limit, then close in on where it gets there."""
        nowhere = float(np.sign(self.step) * np.inf)
        if self.far <= limit:
            return nowhere
        high = 1.0
        while self.root(high) <= limit:
            high *= 2
            if high > FAR:
                return nowhere
        high = min(d for d, root in self.known.items() if root > limit)
        low = max((d for d in self.known if d < high), default=0.0)
        guess = self._between(low, high, limit)
        for _ in range(STEPS):
            low, high = (guess, high) if self.root(guess) <= limit else (low, guess)
            last, guess = guess, self._between(low, high, limit)
            close = CLOSE if np.isfinite(self.root(high)) else ROOTLESS
            if abs(guess - last) <= close * guess:
                break
        return float(self.centre + self.step * guess)

    def _between(self, low: float, high: float, limit: float) -> float:
        """Where a curve through the nearest of what is known meets the limit; halfway where it does so outside."""
        known = [(0.0, 0.0), *((root, d) for d, root in self.known.items() if np.isfinite(root))]
        roots, distances = np.array(sorted(known, key=lambda pair: abs(pair[0] - limit))[:3]).T
        itself = np.eye(len(roots), dtype=bool)
        with np.errstate(all="ignore"):  # equal roots make no curve
            parts = np.where(itself, 1.0, limit - roots) / np.where(itself, 1.0, roots[:, None] - roots)
            found = float(np.prod(parts, axis=1) @ distances)
        return found if low < found < high and np.isfinite(self.known[high]) else (low + high) / 2

    def root(self, distance: float) -> float:
        if distance not in self.known:
            self.known[distance] = float(np.sqrt(self.profile.statistic(self.centre + self.step * distance)))
        return self.known[distance]


@dataclass
class _Profile:
    """The score statistic of one parameter, the others solved for at every value of it."""

    engine: Engine
    beta: Float
    index: int
    extra: Callable[[Float], Float] | None = None

    def __post_init__(self) -> None:
        self._others = np.delete(np.arange(self.engine.d), self.index)
        self._scale = 1 / np.maximum(self.engine.spread(self.beta, self.engine.own)[self._others], 1e-300)
        self.reset()

    def reset(self) -> None:
        """Look for the other parameters near the estimate again."""
        self._last, self._tangent = self.beta, np.zeros(self.engine.d - 1)

    def statistic(self, value: float) -> float:
        """Squared score over its variance; infinite where the other parameters have no root."""
        with np.errstate(all="ignore"):  # far out anything may overflow
            return self._statistic(value)

    def _statistic(self, value: float) -> float:
        full = self._solved(value)
        if full is None:
            return float("inf")
        totals = self.engine.totals(full)
        j, others = self.index, self._others
        contrast = np.zeros(self.engine.d)
        contrast[j] = 1.0
        if others.size:
            among = totals.slope[np.ix_(others, others)]
            try:
                contrast[others] = -np.linalg.solve(among.T, totals.slope[j, others])
                self._last, self._tangent = full, -np.linalg.solve(among, totals.slope[others, j])
            except np.linalg.LinAlgError:
                return float("inf")
        meat = totals.meat if self.extra is None else totals.meat + self.extra(full)
        variance = float(contrast @ meat @ contrast)
        return float((contrast @ totals.score) ** 2 / variance) if variance > 0 else 0.0

    def _solved(self, value: float) -> Float | None:
        """All parameters, the others from where they were last or from where their tangent leads."""
        full = self._last.copy()
        full[self.index] = value
        if not self._others.size:
            return full
        found = self._solve_others(full, self._last[self._others] + self._tangent * (value - self._last[self.index]))
        if found is None and self._tangent.any():
            found = self._solve_others(full, self._last[self._others])
        if found is None:
            return None
        full[self._others] = found
        return full

    def _solve_others(self, full: Float, start: Float) -> Float | None:
        others, weights = self._others, self.engine.own

        def evaluate(nuisance: Float, _rows: object) -> tuple[Float, Float]:
            point = full.copy()
            point[others] = nuisance[0]
            score, slope = self.engine.score_and_slope(point[None], weights)
            return score[:, others], slope[:, others][:, :, others]

        try:
            roots = newton(evaluate, start[None], self._scale, max_steps=20, max_halvings=10)
        except SolveError:
            return None
        return roots.beta[0] if roots.converged[0] else None

"""Confidence intervals that invert the score test: they need no invertible slope at the estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pramana.arrays import Float
from pramana.engines import Engine
from pramana.errors import SolveError
from pramana.kernels.newton import newton

_FAR = 2.0**24


def score_intervals(
    engine: Engine,
    beta: Float,
    errors: Float,
    critical: Float,
    rows: Sequence[int] | None = None,
    extra: Callable[[Float], Float] | None = None,
) -> Float:
    """(d, 2): the values of each parameter that the score test does not reject, walking out from the estimate; NaN but for the
    parameters asked for.

    The test rejects where the squared score exceeds `critical` (d,) of its variances, which `extra` adds to: variance of the
    score, by parameter value, that the records do not show.

    An end is infinite where the test does not reject values far out. The accepted values can then leave a gap, when a
    reverted variance may have either sign: the interval covers it, since the values beyond it are accepted.
    """
    out = np.full((engine.d, 2), np.nan)
    for j in range(engine.d) if rows is None else rows:
        for side, sign in enumerate((-1.0, 1.0)):
            out[j, side] = _end(_Profile(engine, beta, j, extra), sign * max(errors[j], 1e-12), float(critical[j]))
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


def _end(profile: _Profile, step: float, critical: float) -> float:
    """Double the distance until the test rejects, then close in on where it begins to, by false position (Illinois)."""
    centre, limit = float(profile.beta[profile.index]), np.sqrt(critical)

    def beyond(distance: float) -> float:
        """From -1 to 1, and 0 at the end: finite where the test statistic is not."""
        return float(1 - 2 * limit / (np.sqrt(profile.statistic(centre + step * distance)) + limit))

    if beyond(_FAR) <= 0:
        return float(np.sign(step) * np.inf)
    profile.reset()
    low, high, below, above = 0.0, 1.0, -1.0, beyond(1.0)
    while above <= 0:
        low, high, below, above = high, 2 * high, above, beyond(2 * high)
        if high > _FAR:
            return float(np.sign(step) * np.inf)
    for k in range(100):
        if high - low <= 1e-7 * high:
            break
        inner = (low * above - high * below) / (above - below)
        middle = inner if k % 4 else (low + high) / 2  # halving where false position would creep
        found = beyond(middle)
        if abs(found) < 1e-10:
            return centre + step * middle
        if found > 0:
            low, high, below, above = low, middle, below / 2, found
        else:
            low, high, below, above = middle, high, found, above / 2
    return centre + step * high


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

"""Confidence intervals that invert the score test: they need no invertible slope at the estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.engines import Engine, Totals
from pramana.errors import SolveError
from pramana.inference.together import Extra, ScoreAndVariance, Together
from pramana.kernels.newton import ROUNDING, inverse_one, newton_alone

FAR = 2.0**24
"""Standard errors from the estimate beyond which an end is infinite."""
FIRST = 2.0
"""Standard errors of the first step out."""
NEARBY = 10
"""Steps of Newton to a point nearby."""
LEAP = 4
"""Steps of Newton that a linear equation needs to follow any way at once."""
STRAIGHT = 1e-6
"""Share of the way of the other parameters over a step by which they are off their tangents where they move along a line."""
STRIDE = 8.0
"""Factor between the distances at which the way far out is looked at."""
OUT = 32.0
"""Standard errors from which a statistic that does not change from one distance to the next is the same farther out."""
SAME = 1e-4
"""Relative change of the statistic's root that counts as none."""
SURE = 3.0
"""Last changes of the statistic's root far out that a limit must be away from it: every change is less than a tenth of the one before."""
JUMP = 0.3
"""Share of the way of the other parameters over a step by which they may be off their tangents: less than 0.2 on smooth ways, more
than 0.45 where they were seen to jump to another of several roots."""
CURVE = 7
"""Points that a curve goes through at most."""
AGREED = 3e-11
"""Relative difference between the curves through all points and through all but one, from which the former leads to the end."""
ROUGHLY = 1e-8
"""The same of all but two, since two curves alone may meet by chance."""
CLOSE = 1e-6
"""Relative width within which an end is known where the statistic jumps."""
ROOTLESS = 1e-3
"""The same where beyond it the other parameters have no root."""
WAY = 30
"""Smaller steps in place of one, after which the other parameters are lost: near a place where their slope is singular no step is small enough."""
STEPS = 60
CLIMB = 12


def score_intervals(
    engine: Engine,
    beta: Float,
    errors: Float,
    critical: Float,
    rows: Sequence[int] | None = None,
    extra: Extra | None = None,
) -> tuple[Float, Float]:
    """(L, d, 2): the values of each parameter around its estimate that the score test does not reject; and (d,): the largest statistic
    whose interval leaves out 0. NaN but for the parameters asked for.

    The test of each of L levels rejects where the squared score exceeds `critical` (L, d) of its variances, which `extra` adds to:
    variance of the score, by parameter value, that the records do not show.

    An end is the first value, walking out from the estimate, that is rejected: a reverted equation can have several roots, and other
    values may be accepted around those. It is infinite where the test does not reject values far out; the interval then covers
    what is rejected on the way, since the values beyond it are accepted. The intervals of a higher level contain those of a lower one.
    """
    out, zeros = np.full((len(critical), engine.d, 2), np.nan), np.full(engine.d, np.nan)
    rows = range(engine.d) if rows is None else rows
    if not engine.resident:
        _search_together(engine, beta, errors, np.sqrt(critical), rows, extra, out, zeros)
        return out, zeros
    for j in rows:
        profile = _Profile(engine, beta, errors, j, extra)
        walks = [_Walk(profile, sign) for sign in (-1.0, 1.0)]
        for side, walk in enumerate(walks):
            out[:, j, side] = [walk.end(float(limit)) for limit in np.sqrt(critical[:, j])]
        zeros[j] = walks[int(beta[j] < 0)].least_limit(0.0) ** 2
    return out, zeros


def _search_together(
    engine: Engine,
    beta: Float,
    errors: Float,
    limits: Float,
    rows: Sequence[int],
    extra: Extra | None,
    out: Float,
    zeros: Float,
) -> None:
    """The same where a step takes a pass over the records: parameters, sides and levels are searched side by side, and ask together."""
    asked: Together[float] = Together(engine, extra)
    asked.known[beta.tobytes()] = ScoreAndVariance.of(engine.totals(beta), None if extra is None else extra([beta])[0])

    def walk(j: int, sign: float) -> _Walk:
        return _Walk(_Profile(asked, beta, errors, j), sign)

    ends = [(level, j, side) for j in rows for side in (0, 1) for level in range(len(limits))]
    searches: list[Callable[[], float]] = []
    for level, j, side in ends:  # what is far out is looked at in the meantime
        sign, limit = 2.0 * side - 1, float(limits[level, j])
        searches.append(partial(lambda j, sign, limit: walk(j, sign).first_beyond(limit), j, sign, limit))
        searches.append(partial(lambda j, sign, limit: walk(j, sign).ends_above(limit), j, sign, limit))
    searches += [partial(lambda j: walk(j, 1.0 if beta[j] < 0 else -1.0).least_limit(0.0) ** 2, j) for j in rows]
    found = asked.searched(searches)
    for at, end, above in zip(ends, found[::2], found[1::2], strict=False):
        out[at] = end if above else np.copysign(np.inf, at[2] - 0.5)
    zeros[list(rows)] = found[2 * len(ends) :]


def score_statistic(engine: Engine, beta: Float, errors: Float, index: int, value: float) -> float:
    """The largest statistic whose interval leaves out this value of one parameter."""
    sign = 1.0 if value > beta[index] else -1.0
    return _Walk(_Profile(engine, beta, errors, index), sign).least_limit(value) ** 2


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
        if np.isinf(statistic):
            return float("inf")
        df, factor = float(self.df[index]), float(self.factor[index])
        room = 1.0 if self.centred else 1 - statistic / (df + 1)
        return float(np.sqrt(statistic / room) / factor) if room > 0 else float("inf")


@dataclass(frozen=True)
class _Point:
    """A value of the parameter: the root of its statistic, infinite where the other parameters have no root; all parameters there, and
    how the others move with the value."""

    root: float
    beta: Float
    tangent: Float


@dataclass(frozen=True)
class _Far:
    """A value of the parameter far from the estimate, how much the root of the score statistic changed since the last such value, and whether it has come to rest."""

    distance: float
    point: _Point
    change: float = np.inf
    still: bool = False


class _Walk:
    """Out from the estimate on one side, by distances in standard errors that double; what was seen on the way serves every level."""

    def __init__(self, profile: _Profile, sign: float) -> None:
        self.profile, self.step = profile, float(sign * profile.errors[profile.index])
        self.points, self.path = {0.0: profile.start}, [0.0]
        self._seen: _Far | None = None

    def end(self, limit: float) -> float:
        """The first value beyond the limit; infinite where values far out are not beyond it."""
        if self._passes(limit) and self.ends_above(limit):
            return self._value(self._crossing(limit))
        return self._endless

    def first_beyond(self, limit: float) -> float:
        """The same without a look at values far out."""
        return self._value(self._crossing(limit)) if self._passes(limit) else self._endless

    @property
    def _endless(self) -> float:
        return float(np.sign(self.step) * np.inf)

    def _passes(self, limit: float) -> bool:
        """Walk out until the limit is behind, or nothing changes any more: whether it is behind."""
        while self._highest(self.path[-1]) <= limit and not self._levelled:
            self._on(max(2 * self.path[-1], FIRST))
        return self._highest(self.path[-1]) > limit

    @property
    def _levelled(self) -> bool:
        """Whether the statistic changes no more."""
        before, last = (self.points[d].root for d in self.path[-2:]) if len(self.path) > 1 else (0.0, np.inf)
        return self.path[-1] >= FAR or (self.path[-1] > OUT and abs(last - before) <= SAME * last)

    def least_limit(self, value: float) -> float:
        """The least limit whose interval holds a value on this side: the largest root on the way there, or the one far out."""
        away = (value - self._value(0.0)) / self.step
        while self.path[-1] < away and np.isfinite(self.points[self.path[-1]].root):
            self._on(min(max(2 * self.path[-1], FIRST), away))
        if away < self.path[-1]:
            self._root(away)
        highest = self._highest(away)
        return highest if self.ends_above(highest) else self._far_root()

    def ends_above(self, limit: float) -> bool:
        """Whether the root of the statistic far out is above a limit: looked for farther out until what it still changes cannot matter."""
        while not self._far.still and abs(self._far.point.root - limit) <= SURE * self._far.change:
            self._seen = self._stride(self._far)
        return self._far.point.root > limit

    def _far_root(self) -> float:
        """The root of the statistic far out, where it stays."""
        while not self._far.still:
            self._seen = self._stride(self._far)
        return self._far.point.root

    @property
    def _far(self) -> _Far:
        """The last look far out. No `cached_property`, whose lock all walks share in Python 3.11, and which a walk that waits would hold."""
        self._seen = self._seen or self._first_look()
        return self._seen

    def _first_look(self) -> _Far:
        """By one leap where the other parameters move along a line; elsewhere from the first step."""
        if np.isinf(self._root(FIRST)):
            return _Far(FIRST, replace(self.points[0.0], root=np.inf), still=True)
        point = self.points[FIRST]
        if self.profile.follows(self.points[0.0], point, STRAIGHT):
            leap = self.profile.at(self._value(FAR), self.points[0.0], LEAP)
            if np.isfinite(leap.root):
                return _Far(FAR, leap, still=True)
        return _Far(FIRST, point)

    def _stride(self, far: _Far) -> _Far:
        """Farther out, until the statistic stays or the other parameters are lost."""
        distance = far.distance * STRIDE
        point = self.profile.at(self._value(distance), far.point)
        if distance <= OUT or np.isinf(point.root):
            return _Far(distance, point, still=np.isinf(point.root))
        change = abs(point.root - far.point.root)
        return _Far(distance, point, change, still=distance >= FAR or change <= SAME * far.point.root)

    def _value(self, distance: float) -> float:
        return float(self.profile.beta[self.profile.index] + self.step * distance)

    def _highest(self, distance: float) -> float:
        """Infinite where a standard error that is no number gives no distances."""
        return max((point.root for d, point in self.points.items() if d <= distance), default=np.inf)

    def _root(self, distance: float) -> float:
        """Of the statistic; infinite beyond where the other parameters end."""
        if distance not in self.points:
            inside = max(d for d, point in self.points.items() if d < distance and np.isfinite(point.root))
            if self._followed(inside, distance) < distance:
                return np.inf
        return self.points[distance].root

    def _followed(self, low: float, distance: float) -> float:
        """How far the other parameters could be followed from a point inside: in one step, or by smaller ones where they get lost."""
        step, easy = distance - low, False
        for _ in range(WAY):
            high = min(low + step, distance)
            point = self.profile.at(self._value(high), self.points[low], NEARBY, self._beyond(high))
            lost = np.isinf(point.root) or not self.profile.follows(self.points[low], point)
            if lost and step <= ROOTLESS * high:
                break
            if not lost:
                self.points[high], low = point, high
            if low == distance:
                return distance
            step, easy = (step / 2 if lost else step * 2 if easy else step), not lost
        self.points[high if lost else distance] = replace(point, root=np.inf)
        return high if lost else distance

    def _beyond(self, distance: float) -> _Point | None:
        """The next known point farther out, towards which the other parameters can be followed; None where there is none."""
        known = [d for d, point in self.points.items() if d > distance and np.isfinite(point.root)]
        return self.points[min(known)] if known else None

    def _on(self, distance: float) -> None:
        """One step farther, or to where the other parameters end; and up to the peak where the statistic has fallen since the step before."""
        self.path.append(self._followed(self.path[-1], distance))
        before, root = (self.points[d].root for d in self.path[-2:])
        if len(self.path) > 2 and root < before * (1 - SAME) and before >= self._highest(self.path[-1]):
            self._climb(*self.path[-3:])

    def _climb(self, low: float, top: float, high: float) -> None:
        """To the largest root between low and high, of which top is nearer, by parabolas."""
        for _ in range(CLIMB):
            guess = self._vertex(low, top, high)
            if abs(guess - top) <= 1e-3 * top:
                break
            inner, outer = sorted((guess, top))
            rises = self._root(inner) < self._root(outer)
            low, top, high = (inner, outer, high) if rises else (low, inner, outer)

    def _vertex(self, low: float, top: float, high: float) -> float:
        """Where the parabola through three points is highest; inside the longer part where it has no such place."""
        a, b, c = (self.points[d].root for d in (low, top, high))
        left, right = (top - low) * (b - c), (high - top) * (b - a)
        if left + right > 0:
            return top - 0.5 * ((top - low) * left - (high - top) * right) / (left + right)
        return (low + top) / 2 if top - low > high - top else (top + high) / 2

    def _crossing(self, limit: float) -> float:
        """The first distance known to be beyond the limit, moved in to where the limit is met."""
        missed, halve = np.inf, False
        for _ in range(STEPS):
            low, high = self._around(limit)
            if np.isinf(self.points[high].root):  # the other parameters end here
                break
            guess, agreed = self._curve(limit, low, high)
            if agreed:
                return guess
            guess = (low + high) / 2 if halve else guess
            before, missed = missed, abs(self._root(guess) - limit)
            if high - low <= CLOSE * high:
                return guess
            halve = missed > before / 2  # the curve does not lead there
        return high

    def _around(self, limit: float) -> tuple[float, float]:
        """The first distance known to be beyond the limit, and the one before it."""
        high = min(d for d, point in self.points.items() if point.root > limit)
        return max(d for d in self.points if d < high), high

    def _curve(self, limit: float, low: float, high: float) -> tuple[float, bool]:
        """Where distance, as a curve of the root through the points around the limit, meets it; and whether that is the end, since curves
        through one and through two points fewer meet it there too."""
        nearest = sorted(self._rising(high), key=lambda point: abs(point[0] - limit))[:CURVE]
        found = _met(limit, nearest)
        if not low < found < high:
            return (low + high) / 2, False
        fewer, fewest = (abs(_met(limit, nearest[:-k]) - found) / found for k in (1, 2))
        return found, len(nearest) > 3 and fewer <= AGREED and fewest <= ROUGHLY

    def _rising(self, high: float) -> list[tuple[float, float]]:
        """(root, distance) of the points on both sides of high as far as the root rises with the distance, which makes it a measure of it."""
        seen = [(self.points[d].root, d) for d in sorted(self.points)]
        first = last = next(k for k, (_, d) in enumerate(seen) if d == high)
        while first > 0 and seen[first - 1][0] < seen[first][0]:
            first -= 1
        while last + 1 < len(seen) and seen[last][0] < seen[last + 1][0] < np.inf:
            last += 1
        return seen[first : last + 1]


def _met(limit: float, points: Sequence[tuple[float, float]]) -> float:
    """The polynomial of distance by root through points (root, distance), no two of which have the same root, at the limit."""
    total = 0.0
    for root, distance in points:
        share = 1.0
        for other, _ in points:
            if other != root:
                share *= (limit - other) / (root - other)
        total += share * distance
    return total


def _without(index: int, d: int) -> tuple[Any, Any]:
    """The places of all of d parameters but one, and of their slope's matrix: slices where they lie together, which take no copy."""
    if index in (0, d - 1):
        others = slice(1, d) if index == 0 else slice(0, d - 1)
        return others, (others, others)
    places = np.delete(np.arange(d), index)
    return places, np.ix_(places, places)


class _Profile:
    """The score statistic of one parameter, the others solved for at every value of it."""

    def __init__(
        self,
        engine: Engine | Together[float],
        beta: Float,
        errors: Float,
        index: int,
        extra: Extra | None = None,
    ) -> None:
        self.d, self.beta, self.index = engine.d, beta, index
        self._engine, self._extra = engine, extra
        self.errors = np.maximum(errors, 1e-12)
        self._others, self._among = _without(index, engine.d)
        self._units = 1 / self.errors[self._others]
        self._scale = 1 / np.maximum(engine.spread(beta, engine.own)[self._others], 1e-300)
        with np.errstate(all="ignore"):
            self.start = replace(self._point(beta), root=0.0)

    def at(self, value: float, near: _Point, steps: int = 20, beyond: _Point | None = None) -> _Point:
        """The point of this value, the other parameters looked for from where a point nearby leads, in so many steps of Newton; from
        between that point and one beyond the value, where there is one."""
        with np.errstate(all="ignore"), suppress(SolveError):  # far out anything may overflow, or noise be out of reach
            full = self._solved(value, near, steps, beyond)
            if full is not None:
                return self._point(full)
        return _Point(np.inf, near.beta, near.tangent)

    def follows(self, near: _Point, point: _Point, share: float = JUMP) -> bool:
        """Whether the other parameters moved from one point to the next as their tangents say, or jumped to another of several roots."""
        moved = point.beta - near.beta
        step = moved[self.index] * self._units
        ahead, back = step * near.tangent, step * point.tangent
        off, size = moved[self._others] * self._units - (ahead + back) / 2, (np.abs(ahead) + np.abs(back)) / 2
        return bool(np.sqrt(off @ off) <= share * np.sqrt(size @ size) + SAME)

    def _sums(self, full: Float) -> Totals | ScoreAndVariance:
        engine, extra = self._engine, self._extra
        if isinstance(engine, Together):
            return engine.sums(full)
        totals = engine.totals(full)
        found = totals if extra is None else ScoreAndVariance.of(totals, extra([full])[0])
        if isinstance(found, SolveError):
            raise found
        return found

    def _score(self, full: Float) -> tuple[Float, Float]:
        engine = self._engine
        return (
            engine.score_and_slope(full)
            if isinstance(engine, Together)
            else engine.score_and_slope(full[None], engine.own)
        )

    def _point(self, full: Float) -> _Point:
        totals = self._sums(full)
        j, others = self.index, self._others
        contrast, tangent = np.zeros(self.d), np.zeros(self.d - 1)
        contrast[j] = 1.0
        if tangent.size:
            inverse = inverse_one(totals.slope[self._among])
            if inverse is None:
                return _Point(np.inf, full, tangent)
            contrast[others], tangent = -(totals.slope[j, others] @ inverse), -(inverse @ totals.slope[others, j])
        variance = float(contrast @ totals.meat @ contrast)
        root = abs(float(contrast @ totals.score)) / np.sqrt(variance) if variance > 0 else 0.0
        return _Point(float(root), full, tangent)

    def _solved(self, value: float, near: _Point, steps: int, beyond: _Point | None) -> Float | None:
        """All parameters, the others from where they should be or from where they were."""
        full = near.beta.copy()
        full[self.index] = value
        if self.d == 1:
            return full
        found = self._solve_others(full, self._expected(value, near, beyond), steps)
        if found is None and near.tangent.any() and steps > NEARBY:
            found = self._solve_others(full, near.beta[self._others], steps)
        if found is None:
            return None
        full[self._others] = found
        return full

    def _expected(self, value: float, near: _Point, beyond: _Point | None) -> Float:
        """Where the other parameters are at a value, by their tangent, or by the cubic curve through two points with their tangents."""
        there, way = near.beta[self._others], value - near.beta[self.index]
        if beyond is None:
            return np.asarray(there + way * near.tangent)
        step = beyond.beta[self.index] - near.beta[self.index]
        t, moved = way / step, beyond.beta[self._others] - there
        bend = (t - 1) * (near.tangent * step - moved) + t * (beyond.tangent * step - moved)
        return np.asarray(there + t * moved + t * (t - 1) * bend)

    def _solve_others(self, full: Float, start: Float, steps: int) -> Float | None:
        others, among, point = self._others, self._among, full.copy()

        def evaluate(nuisance: Float) -> tuple[Float, Float]:
            point[others] = nuisance
            score, slope = self._score(point)
            return score[:, others], slope[0][among][None]

        def evaluate_all(trials: list[Float]) -> None:
            assert isinstance(self._engine, Together)
            points = np.repeat(point[None], len(trials), axis=0)
            points[:, others] = trials
            self._engine.ask(points)

        try:
            halvings, ahead = steps // 2, evaluate_all if isinstance(self._engine, Together) else None
            roots = newton_alone(evaluate, start, self._scale, max_steps=steps, max_halvings=halvings, ahead=ahead)
        except SolveError:
            return None
        return roots.beta[0] if roots.norm[0] <= ROUNDING else None

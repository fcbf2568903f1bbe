"""Is there enough signal for Wald's interval? How far it is from the interval that the score test would give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pramana.arrays import Bool, Float, Int
from pramana.engines import Engine, Totals
from pramana.errors import SolveError
from pramana.estimating.rounding import ROUNDING

WANTED = 4.0
"""Signal below which a parameter is reported. On the grid of tests/statistical/test_weak_identification.py, Wald's interval then
misses without a word in at most 7 % of samples, at most 5 % on one side, and healthy fits are reported in under 5 %."""
SAFE = 10.0
"""Signal from which Wald's interval is shown. On the same grid that costs at most 0.005 of coverage."""
REACH = 2.575829
"""Standard errors at which the two intervals are compared: the ends of Wald's at 99 %."""
LARGEST = 20.0
"""Logarithm of a ratio of test statistics beyond which no more is told."""
ASYMMETRY = 1e-3
"""Of a scaled slope: numerical derivatives leave less, and systems of different equations more."""
NOISY = 0.1
"""Relative change of the slope's variance, when released values are taken for true, from which it is counted: a slope that varies
between records because a clean covariate does is known, and its few large values are a matter of small samples."""
DOUBT = 2.0
"""Times `SAFE`, up to which a signal among some of the records is looked at again among all: they tell it to a few per cent, and which interval is shown must not
depend on which records they are."""
STEP = 1e-2
"""Standard errors over which the change of the slope is measured."""


@dataclass(frozen=True)
class Identification:
    """What the data say about each parameter.

    Attributes
    ----------
    signals : for each parameter (d,), one over the relative difference between the arms of Wald's interval and those of the
        score test: 10 means a tenth. Infinite where nothing is uncertain but the score; 0 where a reverted variance is negative.
    lost : a reverted variance is not positive, and the estimate means nothing.
    divisor : of a function of moments, the faintest of what it divides by, whose distance from zero in standard errors is the
        signal; empty elsewhere.
    """

    signals: Float
    lost: bool = False
    divisor: str = ""


def identification(
    engine: Engine, beta: Float, totals: Totals, covariance: Float, *, additive: bool = False
) -> Identification:
    """Of every parameter at the root, whose covariance is (d, d); `additive` where noise that counts was added
    to a number that is used.

    An equation names the blocks of its slope (d, d) that are minus a curvature, and may be judged by another one that has the
    same regressors. A slope without such blocks is taken for a curvature of either sign where it is symmetric.
    """
    if engine.about.sums:
        return Identification(np.full(engine.d, np.inf))
    divisors = engine.divisors(beta, covariance)
    if divisors:
        faintest = min(divisors, key=lambda name: divisors[name])
        return Identification(np.full(engine.d, divisors[faintest]), divisor=faintest)
    judge = engine.judge()
    totals = totals if judge is engine else judge.totals(beta)
    signals, lost = np.full(engine.d, np.inf), False
    for block in judge.about.curvatures:
        places = np.arange(engine.d)[slice(None) if block is None else block]
        try:
            found = _signals(judge, beta, totals, places, additive=additive)
            if judge is engine and np.any(found == 0):
                _refuse_rounding(engine, beta, totals.slope, places)
            negative = _negative(totals.slope[np.ix_(places, places)], either=block is None) | (found == 0)
            found = np.where(negative, 0.0, found)
        except np.linalg.LinAlgError:
            negative, found = np.ones(len(places), dtype=bool), np.zeros(len(places))
        signals[places] = np.minimum(signals[places], found)
        lost = lost or bool(negative.any())
    return Identification(signals, lost)


def _refuse_rounding(engine: Engine, beta: Float, slope: Float, places: Int) -> None:
    """A slope that is zero beside its own terms determines no root, and no standard error of any parameter."""
    effective, units = 1 / np.diag(np.linalg.inv(slope[np.ix_(places, places)])), np.eye(engine.d)[places]
    size = np.sqrt(engine.n * engine.slope_moments(beta, units, units)[0])
    terms = [engine.about.parameters[j] for j in places[np.abs(effective) <= ROUNDING * size]]
    if terms:
        raise SolveError(
            f"the reverted variance along {', '.join(map(repr, terms[:5]))} is zero up to rounding, so nothing can be said about it: use "
            "more records, merged levels or fewer terms"
        )


def any_perturbed(totals: Totals) -> bool:
    """Whether any noise is undone in the score: without it there is nothing to judge but the size of the sample."""
    return bool(np.any(np.abs(np.diag(totals.privacy)) > ROUNDING * np.diag(totals.outer)))


def _negative(slope: Float, *, either: bool) -> Bool:
    """Which parameters (d,) bear it that minus the slope is not positive definite; none where it is, or has no symmetry."""
    size = np.sqrt(np.abs(np.diag(slope)))
    scaled = -slope / np.outer(size, size) if size.all() else -slope
    scaled = -scaled if either and np.trace(scaled) < 0 else scaled
    if np.abs(scaled - scaled.T).max() > ASYMMETRY:
        return np.zeros(len(slope), dtype=bool)
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    if values[0] > 0:
        return np.zeros(len(slope), dtype=bool)
    wrong = np.diag(np.linalg.inv(scaled)) <= 0  # a negative variance, the others solved for
    return wrong if wrong.any() else np.abs(vectors[:, 0]) > 0.3


def _signals(engine: Engine, beta: Float, totals: Totals, places: Int, *, additive: bool) -> Float:
    """Of the parameters at these places (k,), by some of the records where they leave no doubt."""
    few, each = engine.sketch()
    fewer, of_few = few.sketch()  # the sample of a stream is larger than this takes
    sketches = {each * of_few: fewer, each: few, 1.0: engine}
    for times, some in sketches.items():
        found = _signals_among(some, times, engine.n, beta, totals, places, additive=additive)
        if np.all(found >= DOUBT * SAFE):
            break
    return found


def _signals_among(
    few: Engine, times: float, n: float, beta: Float, totals: Totals, places: Int, *, additive: bool
) -> Float:
    """Of the parameters at these places (k,), the others of their block solved for, by records each of which stands for so many of n.

    With the score of parameter j along its profile, c ᵀ Σ φ at β + δD, where D = J⁻¹e_j / (J⁻¹)_jj and c likewise by rows, the
    score test's statistic at δ = ±z standard errors is z² (1 ± zκ/2)² / (1 ± zν + z²q) to second order:
    κ, the change of the slope over one standard error (a noisy response: its estimate runs off where the slope fades);
    ν, that of the score's variance (its covariance with the slope); q, the variance of the slope itself (a noisy covariate).
    """
    own = np.ix_(places, places)
    slope, meat, outer, units = totals.slope[own], totals.meat[own], totals.outer[own], np.eye(few.d)[places]
    inverse = np.linalg.inv(slope)
    effective = 1 / np.diag(inverse)
    left, right = inverse * effective[:, None], (inverse * effective).T
    variance, alone = (np.einsum("ji,ik,jk->j", left, m, left) for m in (meat, outer))
    error = np.sqrt(np.clip(variance, 0.0, None)) / np.abs(effective)
    steps, ways = STEP * error[:, None] * right @ units, left @ units
    here = totals.slope if times == 1 else few.score_and_slope(beta[None], few.own)[1][0]
    moved, moments = few.slope_turns(beta, beta + steps, ways, right @ units)
    bends, moments = times * (moved - ways @ here)[:, places] / STEP, times * moments  # cᵀ ∂J, over one standard error
    turned = -bends @ inverse + np.einsum("jk,kj->j", bends, inverse)[:, None] * left  # of c, over one standard error

    def signals(squares: Float, products: Float) -> Float:
        with np.errstate(all="ignore"):
            kappa = np.einsum("jk,jk->j", bends, right) / effective
            nu = 2 * error * products / alone + 2 * np.einsum("ji,ik,jk->j", turned, meat, left) / variance
            q = error**2 * squares / alone
            apart = _apart(np.array([[-REACH], [REACH]]), kappa, nu, q).max(axis=0)
            return np.where(variance > 0, np.where(nothing, 0.0, 2 / apart), np.inf)

    nothing = np.abs(effective) <= ROUNDING * np.sqrt(n * moments[0])  # of the sizes of the slope's terms
    found = signals(*moments)
    if additive or np.all(found >= SAFE):  # numbers taken for true would have a slope that varies with their noise
        return found
    plain = times * few.softened(0.0).slope_moments(beta, left @ units, right @ units)
    return signals(*np.where(np.abs(moments[0] - plain[0]) > NOISY * moments[0], moments, 0.0))


def _apart(z: Float, kappa: Float, nu: Float, q: Float) -> Float:
    """Logarithm of the score statistic over z², without its sign."""
    score, variance = 1 + z * kappa / 2, 1 + z * nu + z**2 * q
    found = 2 * np.log(np.abs(score)) - np.log(np.maximum(variance, 0.0))
    return np.minimum(np.abs(np.nan_to_num(found, nan=LARGEST, posinf=LARGEST, neginf=LARGEST)), LARGEST)

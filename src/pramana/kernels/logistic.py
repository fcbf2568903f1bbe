"""The logistic function H with its derivatives, and what becomes of them when normal noise in η is undone.

Monahan and Stefanski (1992, in Handbook of the Logistic Distribution, pages 529-540) give H(t) ≈ Σ p_k Φ(s_k t). With eight terms the
error is below 2.2e-9 for H and 1.31e-8 for H′, everywhere. Normal noise of variance τ² turns Φ(st) into Φ(st/√(1 + s²τ²)), so
that undoing it turns Φ(st) into Φ(st/√(1 − s²τ²)), for sτ < 1. Where τ is too large for the steepest of the eight, coarser mixtures of less steep
terms stand for H.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial

import numpy as np

from pramana.arrays import Float, Int


@dataclass(frozen=True)
class NormalMixture:
    """H(t) ≈ Σ p_k Φ(s_k t).

    Attributes
    ----------
    shares, steepness : p_k and s_k (K,).
    alone : standard deviation of the noise in η up to which this mixture stands alone; from there to `reach` the next one takes over gradually.
    error : of H, everywhere.
    """

    shares: Float
    steepness: Float
    alone: float
    error: float

    @property
    def steepest(self) -> float:
        return float(self.steepness.max())

    @property
    def reach(self) -> float:
        """Standard deviation of the noise in η from which the steepest term has no reversion."""
        return 1 / self.steepest

    @property
    def gone(self) -> float:
        """Where the next mixture has taken over, short of the reach."""
        return self.reach - (self.reach - self.alone) / 8


EIGHT = NormalMixture(
    np.array(
        [
            0.003246343272134,
            0.051517477033972,
            0.195077912673858,
            0.315569823632818,
            0.274149576158423,
            0.131076880695470,
            0.027912418727972,
            0.001449567805354,
        ]
    ),
    np.array(
        [
            1.365340806296348,
            1.059523971016916,
            0.830791313765644,
            0.650732166639391,
            0.508135425366489,
            0.396313345166341,
            0.308904252267995,
            0.238212616409306,
        ]
    ),
    0.715,
    2.2e-9,
)
FOUR = NormalMixture(
    np.array([0.1279692108872254, 0.4864239629401673, 0.3399876983154189, 0.0456191278571883]),
    np.array([1.0, 0.6762073956438823, 0.4574469510454443, 0.3105098084490402]),
    0.98,
    8e-6,
)
"""Below 1: right to 8e-6 for H, 3.9e-5 for tH, 3e-5 for H′ and 3.9e-4 for t²H′. `tests/mixtures.py` has found it and the next."""
THREE = NormalMixture(
    np.array([0.4830821810377793, 0.5082321587358012, 0.0086856602264195]),
    np.array([0.8, 0.4651202424351377, 0.2069031717644817]),
    1.25,
    3e-4,
)
"""Below 1.25: right to 3e-4, 1.6e-3, 8.1e-4 and 1e-2."""
MIXTURES = (EIGHT, FOUR, THREE)
MIXTURE_REACH = MIXTURES[-1].reach
"""Standard deviation of the noise in η that no mixture reaches."""


def weights_of(variance: Float) -> list[Float]:
    """How much of each mixture is taken (N,) at a variance of the noise in η: one of them, or of two that sum to 1, continuously."""
    sd, left, out = np.sqrt(variance), np.ones_like(variance), []
    for mixture in MIXTURES[:-1]:
        own = left * np.clip((mixture.gone - sd) / (mixture.gone - mixture.alone), 0.0, 1.0)
        out.append(own)
        left = left - own
    return [*out, left]


def steepest(variance: float) -> float:
    """Slope of the steepest term of H once noise of a variance is undone in it; not a number where it cannot be."""
    slopes = [
        mixture.steepest / np.sqrt(left) if (left := 1 - mixture.steepest**2 * variance) > 0 else np.nan
        for mixture, weight in zip(MIXTURES, weights_of(np.array([variance])), strict=True)
        if weight[0] > 0
    ]
    return float(np.max(slopes)) if slopes else np.nan


def logistic_derivatives(eta: Float, highest: int) -> list[Float]:
    """H and its derivatives up to an order: with u = H′ = H − H², all of them are polynomials in u, times 1 − 2H where the order is even."""
    from scipy.special import expit

    h = expit(eta)
    if highest == 0:
        return [h]
    u = h * (1 - h)
    odd, out = 1 - 2 * h, [h]
    polynomial = np.array([0.0, 1.0])  # of H′
    for order in range(1, highest + 1):
        value = np.polynomial.polynomial.polyval(u, polynomial) if len(polynomial) > 2 else u
        out.append(value if order % 2 else value * odd)
        slope = polynomial[1:] * np.arange(1, len(polynomial))
        if order % 2:  # d/dη p(u) = (1 − 2H) u p′(u)
            polynomial = np.concatenate([[0.0], slope])
        else:  # d/dη (1 − 2H) p(u) = (1 − 4u) u p′(u) − 2u p(u)
            polynomial = np.convolve(np.concatenate([[0.0], slope]), [1.0, -4.0]) - np.convolve(polynomial, [0.0, 2.0])
    return out


KNOTS = 32
"""Places within a unit of η at which reverted functions are tabulated, more where they are steep; Taylor's series of `TERMS` terms between
them is right to 1e-14."""
TERMS = 7
TOGETHER = 8_192
"""Records whose series are summed at once, within a cache."""
TABULATED = 5_000
"""Records from which a table pays."""
_DENSITY = 1 / float(np.sqrt(2 * np.pi))


def smoothed_derivatives(eta: Float, variance: Float, highest: int, lowest: int = 0) -> list[Float]:
    """The same with normal noise undone, of a variance (N,), or (1,) for all, on the scale of η; not a number where there is too much
    of it. Orders below `lowest`, which is 0 or 1, are left at zero."""
    if variance.size > 1 and np.ptp(variance) == 0:
        variance = variance[:1]
    steep = steepest(float(variance[0]))
    if variance.size > 1 or eta.size < TABULATED or not steep > 0 or not np.all(np.isfinite(eta)):
        return mixture_derivatives(eta, variance, highest, lowest)
    finer = KNOTS * max(1.0, steep / 2)

    def table(t: Float, order: int) -> Float:
        return np.stack(mixture_derivatives(t, variance, order))

    return list(expanded(table, eta, highest, finer, lowest))


def expanded(
    function: Callable[[Float, int], Float], eta: Float, highest: int, finer: float = KNOTS, lowest: int = 0
) -> Float:
    """Derivatives (…, highest + 1, N) of functions of η, by Taylor's series around knots where these are fewer than the records.

    Parameters
    ----------
    function : from arguments (K,) and an order to the derivatives (…, order + 1, K).
    """
    if not (eta.size and np.all(np.isfinite(eta))):
        return function(eta, highest)
    low, high = (round(finer * float(edge)) for edge in (eta.min(), eta.max()))
    if high - low > eta.size:
        return function(eta, highest)
    knots = np.arange(low, high + 1) / finer
    table = function(knots, highest + TERMS)
    place = np.rint(finer * eta).astype(np.int64) - low
    out = np.empty((*table.shape[:-2], highest + 1, eta.size))
    for first in range(0, eta.size, TOGETHER):
        rows = slice(first, first + TOGETHER)
        out[..., rows] = taylor(table, place[rows], eta[rows] - knots[place[rows]], highest, lowest)
    return out


def taylor(table: Float, place: Int, apart: Float, highest: int, lowest: int = 0) -> Float:
    """Taylor's series (…, highest + 1, N) from derivatives (…, highest + TERMS + 1, knots), which are taken from each record's knot once."""
    near = np.take(table.reshape(-1, table.shape[-1]), place, axis=1).reshape(*table.shape[:-1], -1)
    out = np.zeros((*table.shape[:-2], highest + 1, place.size))
    for order in range(lowest, highest + 1):
        value = near[..., order + TERMS, :] / factorial(TERMS)
        for k in range(TERMS - 1, -1, -1):
            value *= apart
            value += near[..., order + k, :] / factorial(k)
        out[..., order, :] = value
    return out


def mixture_derivatives(eta: Float, variance: Float, highest: int, lowest: int = 0) -> list[Float]:
    """The same, term by term."""
    from scipy.special import ndtr

    out = [np.zeros_like(eta) for _ in range(highest + 1)]
    terms = [
        (weight * share if weight.size > 1 and not np.all(weight == 1) else float(weight[0]) * share, s)
        for mixture, weight in zip(MIXTURES, weights_of(variance), strict=True)
        if np.any(weight != 0)
        for share, s in zip(mixture.shares.tolist(), mixture.steepness.tolist(), strict=True)
    ]
    largest = np.max(variance, initial=0.0)  # not a number where one of them is none
    for share, s in terms:
        left = 1 - s**2 * variance
        if not s**2 * largest < 1:
            left = np.where(left > 0, left, np.where(np.equal(share, 0), 1.0, np.nan))
        v = s / np.sqrt(left)
        t = v * eta
        if lowest == 0:
            out[0] += share * ndtr(t)
        if highest == 0:
            continue
        # The recursion of Hermite's polynomials.
        before, now = None, share * _DENSITY * v * np.exp(-0.5 * t * t)
        t *= -v
        square = v * v
        for k in range(1, highest + 1):
            out[k] += now
            if k < highest:
                after = t * now if before is None else t * now - (k - 1) * square * before
                before, now = now, after
    return out

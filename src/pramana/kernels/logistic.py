"""The logistic function H with its derivatives, and what becomes of them when normal noise in η is undone.

Monahan and Stefanski (1992, in Handbook of the Logistic Distribution, pages 529-540) give H(t) ≈ Σ p_k Φ(s_k t). With eight terms the
error is below 2e-9 for H and 1.3e-8 for H′, everywhere. Normal noise of variance τ² turns Φ(st) into Φ(st/√(1 + s²τ²)), so
that undoing it turns Φ(st) into Φ(st/√(1 − s²τ²)), for sτ < 1.
"""

from __future__ import annotations

import numpy as np

from pramana.arrays import Float

SHARES = np.array(
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
)
STEEPNESS = np.array(
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
)
MIXTURE_REACH = float(1 / STEEPNESS.max())
"""Standard deviation of the noise in η from which the steepest term has no reversion."""


def logistic_derivatives(eta: Float, highest: int) -> list[Float]:
    """H and its derivatives up to an order: polynomials in H, since H′ = H − H²."""
    from scipy.special import expit

    h = expit(eta)
    out, polynomial = [h], np.array([0.0, 1.0])
    for _ in range(highest):
        slope = polynomial[1:] * np.arange(1, len(polynomial))
        polynomial = np.convolve(slope, [0.0, 1.0, -1.0])
        out.append(np.polynomial.polynomial.polyval(h, polynomial))
    return out


def smoothed_derivatives(eta: Float, variance: Float, highest: int) -> list[Float]:
    """The same with normal noise undone, of a variance (N,) on the scale of η; not a number where there is too much of it."""
    from scipy.special import ndtr

    out = [np.zeros_like(eta) for _ in range(highest + 1)]
    for share, s in zip(SHARES, STEEPNESS, strict=True):
        left = 1 - s**2 * variance
        v = s / np.sqrt(np.where(left > 0, left, np.nan))
        t = v * eta
        out[0] += share * ndtr(t)
        before, now = np.zeros_like(t), share * v * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
        for k in range(1, highest + 1):
            out[k] += now
            before, now = now, -v * t * now - (k - 1) * v**2 * before  # the recursion of Hermite's polynomials
    return out

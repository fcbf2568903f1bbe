"""Whole-number noise from 64-bit words, by cut points of its distribution function: what is drawn lies on a grid to the last bit.

A word w stands for the uniform number w / 2⁶⁴. The cut points are floor(2⁶⁴ · Pr(V ≤ k)), computed in whole numbers from the published
parameters, so that the same parameters give the same draws on every machine. Probabilities are therefore right to
2⁻⁶⁴, and values with less than that in their tail are never drawn.
"""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache
from itertools import accumulate

import numpy as np

from pramana.arrays import Int, Words
from pramana.mechanism.draws.drawing import pick
from pramana.mechanism.draws.keystream import Keystream

LONGEST = 1 << 20
"""Most values on one side of zero that a table of cut points may hold: those of a geometric noise of 23 600 steps."""
_DIGITS = Context(prec=60)
_BITS = 160
"""Fractions are kept as whole numbers over 2¹⁶⁰: a million products of them are right to more than 2⁻¹³⁰."""
_WORDS = 2**64
_UNSURE = np.uint64(2**36)
_SLOWLY = 0.02
"""Decay from which on a table of cut points is so short (below 2200) that it is made one by one."""


def _fraction(log: Decimal) -> int:
    """exp(log) over 2¹⁶⁰."""
    return int(log.exp(_DIGITS) * 2**_BITS)


@lru_cache(maxsize=32)
def geometric_cuts(log_alpha: float) -> Words:
    """Cut points of Pr(V = k) = (1 − α)/(1 + α) · α^|k|, α = exp(log_alpha)."""
    alpha = _fraction(Decimal(log_alpha))
    first = (alpha << _BITS) // ((1 << _BITS) + alpha)  # Pr(V ≤ −k) for k = 1, 2, …
    below = _products(first, alpha) if -log_alpha < _SLOWLY else None
    return _symmetric(_one_by_one(first, alpha) if below is None else below)


def _one_by_one(first: int, alpha: int) -> list[int]:
    """floor(2⁶⁴ first · α^k) for k = 0, 1, … while it is not 0."""
    tail, below = first, []
    while cut := tail >> (_BITS - 64):
        below.append(cut)
        tail = tail * alpha >> _BITS
    return below


def _products(first: int, alpha: int) -> Words | None:
    """What `_one_by_one` gives, as products of every 512th tail with the powers of α between them; None where one is too near to a
    whole number to tell.

    Tails and powers are cut to 128 bits, a 2⁶⁴ + b. Of (a 2⁶⁴ + b)(c 2⁶⁴ + d) the words a c are exact and a d + b c are found from
    their upper halves: less than 2³⁵ is missing from the word after the one that counts.
    """
    powers = [alpha]
    for _ in range(510):
        powers.append(powers[-1] * alpha >> _BITS)
    leap, tails = powers[-1] * alpha >> _BITS, [first]
    while tails[-1] >> (_BITS - 64):
        tails.append(tails[-1] * leap >> _BITS)
    a, b = (word[:, None] for word in _two_words(tails))
    c, d = (word[None] for word in _two_words(powers))
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    high, middle = (a >> half) * (c >> half), (a & low) * (c >> half)
    other = (a >> half) * (c & low) + (middle & low)  # below 2⁶⁴: (2³² − 1)² + 2³² − 1
    high += (middle >> half) + (other >> half)
    after = (a & low) * (c & low)
    for part in ((other & low) << half, (a >> half) * (d >> half), (b >> half) * (c >> half)):
        after = after + part
        high += after < part  # it ran over
    cuts, following = np.hstack([a, high]), np.hstack([b, after])
    if np.any((following < _UNSURE) | (following > ~_UNSURE)):
        return None
    return cuts.ravel()[: np.count_nonzero(cuts)]


def _two_words(fractions: list[int]) -> tuple[Words, Words]:
    """The first and the second 64 bits after the point."""
    parts = [(f >> (_BITS - 64), f >> (_BITS - 128) & (_WORDS - 1)) for f in fractions]
    first, second = np.array(parts, dtype=np.uint64).T
    return first, second


@lru_cache(maxsize=32)
def gaussian_cuts(sd: float) -> Words:
    """Cut points of Pr(V = k) ∝ exp(−k²/(2 sd²))."""
    q = _fraction(-1 / (2 * Decimal(sd) ** 2))
    squared, ratio, mass, masses = q * q >> _BITS, q, 1 << _BITS, []
    while mass >> (_BITS - 96):  # relative to that of 0: q^(k²), by its ratios q^(2k + 1)
        masses.append(mass)
        mass, ratio = mass * ratio >> _BITS, ratio * squared >> _BITS
    tails = list(accumulate(reversed(masses[1:])))[::-1]
    total = masses[0] + 2 * tails[0]
    return _symmetric([cut for tail in tails if (cut := tail * _WORDS // total)])


@lru_cache(maxsize=32)
def uniform_cuts(half: int) -> Words:
    """Cut points of equal chances for −half, …, half."""
    size = 2 * half + 1
    return np.array([(j + 1) * _WORDS // size for j in range(size - 1)], dtype=np.uint64)


def _symmetric(below: list[int] | Words) -> Words:
    """Cut points of −K, …, K from 2⁶⁴ Pr(V ≤ −k), k = 1, …, K: the last value needs none."""
    lower = np.array(below[::-1], dtype=np.uint64)
    return np.concatenate([lower, (np.uint64(0) - lower)[::-1]])


def draw_integers(cuts: Words, count: int, stream: Keystream) -> Int:
    """Values (count,) around zero, one word each."""
    return pick(cuts, stream.words(count)) - len(cuts) // 2

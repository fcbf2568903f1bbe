"""Counter-based bits, and the weight draws for resampling made of them: a draw belongs to its row, never to a chunk.

The uniform of draw m and row i is a hash of (seed, m, i), so rows can be visited in any order, in any blocks and by
any number of threads. The hash is the finaliser of SplitMix64 applied to a Weyl sequence. `mix`, `words_of` and `fractions`
take arrays of JAX as well, with its 64-bit mode on: a device has the same bits from the same lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from pramana.arrays import Float, Int, Words
from pramana.kernels import backend

STREAM_VERSION: Final = 1

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(0x3FF0000000000000)


def mix(words: Words) -> Words:
    """The SplitMix64 finaliser, a bijection of 64-bit words."""
    words = (words ^ (words >> np.uint64(30))) * _MIX1
    words = (words ^ (words >> np.uint64(27))) * _MIX2
    return words ^ (words >> np.uint64(31))


def keys(seed: int, draws: Int) -> Words:
    """The starting word of each draw's sequence."""
    return keys_of([seed], draws)[0]


def keys_of(seeds: Sequence[int], draws: Int) -> Words:
    """Starting words (seeds, draws)."""
    return keys_from(starts_of(seeds)[:, None], draws)


def starts_of(seeds: Sequence[int]) -> Words:
    """Seeds, mixed, as words (seeds,)."""
    return mix(np.array([s % 2**64 for s in seeds], dtype=np.uint64) + _WEYL)


def keys_from(starts: Words, draws: Int) -> Words:
    """Starting words of draws from mixed seeds, their shapes broadcast."""
    return mix(starts ^ mix(draws.astype(np.uint64) * _WEYL + _MIX1))


def words_of(starts: Words, rows: Words) -> Words:
    """64 bits for every starting word and row (…, rows)."""
    return mix(starts[..., None] + (rows + np.uint64(1)) * _WEYL)


def fractions(words: Words) -> Float:
    """Uniforms in (0, 1), odd multiples of 2⁻⁵³: the first 52 bits of each word as the fraction of a number in [1, 2), and half a
    step, which keeps them off 0 and 1."""
    return ((words >> np.uint64(12)) | _ONE).view(np.float64) - (1.0 - 2.0**-53)


def uniforms(seed: int, draws: Int, rows: Int) -> Float:
    """Uniforms in (0, 1), shape (draws, rows): a pure function of seed, draw index and row index."""
    return uniforms_of(keys(seed, draws), rows)


def uniforms_of(starts: Words, rows: Int) -> Float:
    """The same from the starting words of the draws."""
    return fractions(words_of(starts, rows.astype(np.uint64)))


def _exponential(u: Float, counts: Float | None) -> Float:
    """A sum of c unit exponentials is Gamma(c)."""
    if counts is None:
        return -np.log(u)
    from scipy.special import gammainccinv

    return np.asarray(gammainccinv(np.broadcast_to(counts, u.shape), u))


_POISSON = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(25)])
"""Distribution function of a unit Poisson at 0, 1, 2, …"""


def _poisson(u: Float, counts: Float | None) -> Float:
    if counts is None:
        return np.searchsorted(_POISSON, 1 - u, side="left").astype(float)
    from scipy.stats import poisson

    return np.asarray(poisson.ppf(1 - u, counts), dtype=float)


def _two_point(u: Float, counts: Float | None) -> Float:
    """0 or 2 with equal chance; c of them add up to twice a binomial."""
    if counts is None:
        return np.where(u < 0.5, 2.0, 0.0)
    from scipy.stats import binom

    return 2 * np.asarray(binom.ppf(1 - u, np.broadcast_to(counts, u.shape), 0.5), dtype=float)


LAWS: Final[dict[str, Callable[[Float, Float | None], Float]]] = {
    "exponential": _exponential,
    "poisson": _poisson,
    "two-point": _two_point,
}
"""Non-negative laws with mean 1 and variance 1; with counts c, the law of a sum of c copies."""


def multipliers(law: str, seed: int, draws: Int, rows: Int, counts: Float | None = None) -> Float:
    """Resampling weights (draws, rows)."""
    if law == "exponential" and counts is None and backend.worthwhile(draws.size, rows.size):
        fast = backend.compiled()
        if fast is not None:
            out = np.empty((draws.size, rows.size))
            fast.exponentials(keys(seed, draws), rows.astype(np.uint64), out)
            return out
    return LAWS[law](uniforms(seed, draws, rows), counts)

"""What a released number with noise says about the true one: Bayes' rule over the true values of the file, on a grid.

Let π be the shares of the true values and p the law of the noise. A number w is released with probability f(w) = Σ_z π(z) p(w − z), and
the posterior of z is π(z) p(w − z) / f(w). Noise that stands for a continuous one is taken in steps that are small next to it, and
values within such a step as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.errors import DataError, listing
from pramana.frames import Level
from pramana.frames.levels import is_number
from pramana.mechanism.channels.additive_noise import GridNoise

FINE = 32
"""Steps within one standard deviation of a noise that stands for a continuous one: posteriors of intervals are right to 1e-3 of
themselves."""
EXACT = 512
"""The same of a noise on a grid up to which every step counts."""
WIDEST = 20_000
"""Most steps between the smallest and the largest true value."""
RARE = 1e-13
"""Probability of noise so far out that no draw is expected there; which true value is likeliest then is not asked."""
EXPECTED = 0.01
"""Records of this file expected with a released value, from which on it is listed."""


@dataclass(frozen=True)
class Guess:
    """How well true numbers can be told from released ones.

    Attributes
    ----------
    law : the noise in words. step : values that are closer together count as one.
    before, after : root mean square error of the best guess at a true value, without the release and with it.
    seen : the columns whose released values the guess and the posteriors of records take into account, where several share a noise.
    """

    law: str
    step: float
    before: float
    after: float
    seen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Numbers:
    """True numbers of some records under one noise, on a grid of a step: place 0 is the smallest of them.

    Attributes
    ----------
    noise : what was added. step : a multiple of the noise's grid.
    lowest : the smallest true value in steps.
    prior : share of each true value from the smallest to the largest (R,).
    """

    noise: GridNoise
    step: float
    lowest: int
    prior: Float

    @classmethod
    def of(
        cls, noise: GridNoise, values: Float, prior: Any, columns: tuple[str, ...], counts: Int | None = None
    ) -> Numbers:
        """With the shares of the values themselves (m,), each of so many records (m,), or those that an attacker is taken to know, by value."""
        kind = ClampedNumbers if noise.clamps else cls
        steps = noise.true_steps(values)
        known = None if prior is None else _given(noise, prior, columns)
        held = steps if known is None else np.concatenate([steps, known[0]])
        merged = _merging(noise, int(held.min()), int(held.max()))
        places = np.floor_divide(held + merged // 2, merged)
        lowest = int(places.min())
        if known is None:
            held_by = np.bincount(places - lowest, counts)
            shares = np.asarray(held_by / held_by.sum(), dtype=float)
        else:
            shares = np.bincount(places[steps.size :] - lowest, known[1], int(np.ptp(places)) + 1)
        return kind(noise, merged * noise.grid, lowest, shares)

    @property
    def _merged(self) -> int:
        return round(self.step / self.noise.grid)

    @cached_property
    def law(self) -> Float:
        """Probabilities (2K + 1,) of −K, …, K steps."""
        chances = self.noise.chances
        half = chances.size // 2
        places = np.floor_divide(np.arange(-half, half + 1) + self._merged // 2, self._merged)
        reach = int(max(-places.min(), places.max()))
        return np.asarray(np.bincount(places + reach, chances, 2 * reach + 1), dtype=float)

    @cached_property
    def _near(self) -> slice:
        """The part of the law within which draws are expected."""
        kept = np.flatnonzero(self.law > RARE)
        return slice(int(kept[0]), int(kept[-1]) + 1)

    @property
    def half(self) -> int:
        return self.law.size // 2

    @cached_property
    def released(self) -> Float:
        """Expected share of every released value (R + 2K,), from K steps below the smallest true one."""
        return self._clamped(np.convolve(self.prior, self.law))

    def _clamped(self, sums: Float) -> Float:
        """Sums over what is added to each true value, by what is released."""
        return sums

    @property
    def _inside(self) -> Float:
        """The same shares where a released value is what was added up."""
        return self.released

    def _chances(self, released: Int, places: Int) -> Float:
        """Of released values, counted from K steps below the smallest true one, for true values (n,)."""
        return np.append(self.law, [0.0, 0.0])[np.clip(released - places, -1, self.law.size)]

    def places(self, values: Float) -> Int:
        """Of true values (n,) among the prior's."""
        steps = self.noise.true_steps(values)
        return np.asarray(np.floor_divide(steps + self._merged // 2, self._merged) - self.lowest)

    def value(self, place: int) -> float:
        """The number that stands for a step, with no more digits than that takes."""
        found = (place + self.lowest) * self.step
        found = found if self.noise.on_grid else round(found, max(2 - int(np.floor(np.log10(self.step))), 0))
        return int(found) if float(found).is_integer() else float(found)

    def own(self, places: Int) -> tuple[Float, Float]:
        """Posterior of true values (m,) given what they are released as: expected over the draws, and the largest."""
        expected, largest = np.zeros(places.size), np.zeros(places.size)
        law = self.law[self._near]
        size = max(1, 2_000_000 // law.size)
        window = np.lib.stride_tricks.sliding_window_view(self._inside[self._near.start :], law.size)
        for low in range(0, places.size, size):
            rows = places[low : low + size]
            posterior = _ratio(self.prior[rows, None] * law, window[rows])
            expected[low : low + size] = posterior @ law
            largest[low : low + size] = posterior.max(axis=1)
        return expected, largest

    def realised(self, places: Int, seen: Float) -> Float:
        """Posterior of the true values (n,) given the released ones."""
        steps = np.floor_divide(self.noise.released_steps(seen) + self._merged // 2, self._merged) - self.lowest
        law = self._chances(steps + self.half, places)  # 0 beyond its reach, or for what is left out of it
        shares = self.released[np.clip(steps + self.half, 0, self.released.size - 1)]
        return np.where(law > 0, _ratio(self.prior[places] * law, shares), 0.0)

    def telling(self, n: int) -> Iterator[tuple[Level, float, Level, float, float, float, int]]:
        """For released values that some of n records may have: value, share, the likeliest true one, its prior and posterior, the factor
        on its odds, and how many true values are ruled out."""
        held = np.flatnonzero(self.prior > 0)
        for w in np.flatnonzero(self.released * n >= EXPECTED):
            law = self._chances(np.asarray(w), held)
            joint = self.prior[held] * law
            best = int(np.argmax(joint))
            share, prior = float(self.released[w]), float(self.prior[held[best]])
            posterior = float(joint[best] / share)
            odds = posterior * (1 - prior) / (prior * (1 - posterior)) if 0 < posterior < 1 and prior < 1 else np.inf
            factor = 1.0 if prior == 1 else float(odds)
            place = int(w) - self.half
            yield self.value(place), share, self.value(int(held[best])), prior, posterior, factor, int(np.sum(law == 0))

    def guess(self) -> tuple[float, float]:
        """Mean square error of the best guess, without the release and with it."""
        values = (np.arange(self.prior.size) + self.lowest) * self.step
        values = values - values @ self.prior
        mean = self._clamped(np.convolve(self.prior * values, self.law))
        before = float(self.prior @ values**2)
        return before, max(before - float(np.sum(_ratio(mean**2, self.released))), 0.0)


@dataclass(frozen=True)
class CoarserGrid:
    """A grid for the true numbers of many records, on which neighbouring steps count as one: `Numbers` of the rounded values are the same as
    of the values themselves.

    Attributes
    ----------
    merged : steps of the noise's grid that count as one. low, high : the smallest and the largest true value, in steps of the grid.
    """

    noise: GridNoise
    merged: int
    low: int
    high: int

    @classmethod
    def of(cls, noise: GridNoise, ends: tuple[int, int], prior: Any, columns: tuple[str, ...]) -> CoarserGrid:
        """From the ends of the true values, and the frequencies that an attacker is taken to know."""
        known = [] if prior is None else _given(noise, prior, columns)[0].tolist()
        return cls(noise, _merging(noise, min([ends[0], *known]), max([ends[1], *known])), *ends)

    def true(self, values: Float) -> Float:
        """The middle of each value's step, but for the ends, which decide how many there are."""
        steps = self.noise.true_steps(values)
        middle = np.clip(self._middle(steps), self.low, self.high)
        return np.asarray(np.where((steps == self.low) | (steps == self.high), steps, middle) * self.noise.grid)

    def released(self, values: Float) -> Float:
        return np.asarray(self._middle(self.noise.released_steps(values)) * self.noise.grid)

    def _middle(self, steps: Int) -> Int:
        return np.floor_divide(steps + self.merged // 2, self.merged) * self.merged


@dataclass(frozen=True)
class ClampedNumbers(Numbers):
    """The same where what is released is clamped to the bounds: either end stands for all draws beyond it."""

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """Where the ends are among released values, or the last ones before them."""
        steps = self.noise.true_steps(np.array(self.noise.bounds))
        places = np.floor_divide(steps + self._merged // 2, self._merged) - self.lowest + self.half
        low, high = np.clip(places, 0, self.prior.size + 2 * self.half - 1).tolist()
        return low, high

    def _clamped(self, sums: Float) -> Float:
        low, high = self._ends
        out = np.zeros_like(sums)
        out[low + 1 : high] = sums[low + 1 : high]
        out[low] += sums[: low + 1].sum()
        out[high] += sums[high:].sum()
        return out

    @property
    def _inside(self) -> Float:
        low, high = self._ends
        place = np.arange(self.released.size)
        return np.where((place > low) & (place < high), self.released, 0.0)

    def _chances(self, released: Int, places: Int) -> Float:
        low, high = self._ends
        below = np.concatenate([[0.0], np.cumsum(self.law)])
        at_low = below[np.clip(low - places + 1, 0, self.law.size)]
        at_high = 1 - below[np.clip(high - places, 0, self.law.size)]
        inside = super()._chances(released, places)
        return np.where(released <= low, at_low, np.where(released >= high, at_high, inside))

    def own(self, places: Int) -> tuple[Float, Float]:
        expected, largest = super().own(places)
        for end in self._ends:
            chance = self._chances(np.full(places.size, end), places)
            posterior = _ratio(self.prior[places] * chance, self.released[end])
            expected, largest = expected + posterior * chance, np.maximum(largest, posterior)
        return expected, largest


def _merging(noise: GridNoise, low: int, high: int) -> int:
    """Steps of the noise's grid that count as one, where true values lie between two, in steps."""
    spread = int(noise.spread / noise.grid)
    fine = 1 if noise.on_grid and spread <= EXACT else max(spread // FINE, 1)
    return max(fine, -(-(high - low) // WIDEST))


def _ratio(above: Float, below: Float) -> Float:
    return np.divide(above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below > 0)


def _given(noise: GridNoise, prior: Any, columns: tuple[str, ...]) -> tuple[Int, Float]:
    """An attacker's frequencies: from a value to its share."""
    valid = isinstance(prior, Mapping) and bool(prior) and all(is_number(v) for v in (*prior, *prior.values()))
    shares = np.array(list(prior.values()), dtype=float) if valid else np.empty(0)
    if not valid or np.any(~(shares >= 0)) or abs(shares.sum() - 1) > 1e-8:
        raise DataError(
            f"the prior frequencies of {listing(columns)}, which holds numbers, must be a mapping from values to shares, none negative, that "
            f"sum to 1: they sum to {shares.sum():.6g}"
        )
    return noise.true_steps(np.array(list(prior), dtype=float)), shares

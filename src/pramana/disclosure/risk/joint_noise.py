"""What released numbers of columns that share a noise say about the true ones: Bayes' rule over the true vectors of the file.

A record with the true vector z is released at w = z + V, and the posterior of a vector z' is in proportion to π(z') φ(w − z'), φ being
the density of the noise. Averages over V are taken at Sobol' points, the same for every vector. Vectors within a step of each other count
as one; where there are so many that steps are not small, those within one are taken as normal around their mean, with one covariance C
for all: φ then has the covariance Σ + C, and the mean of z given w and a cell with mean m is m + C(Σ + C)⁻¹(w − m).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pramana.arrays import Float, Int
from pramana.errors import DataError, listing
from pramana.frames.levels import is_number
from pramana.mechanism import JointGaussianNoise

FINE = 8
"""Steps within a standard deviation of a column's noise given the others', where the file has few enough vectors."""
MOST = 1_000
"""Vectors up to which no coarser steps are taken."""
ENTRIES = 30_000_000
"""Posterior probabilities worked out in all, at least; they decide how many points stand for the noise."""
BLOCK = 2_000_000
FAR = 7.4
"""Standard deviations that noise passes with a probability of 1e-13."""


@dataclass(frozen=True)
class VectorPosteriors:
    """What the released columns say about each true vector: the posterior of its value in every column, given all released ones.

    Attributes
    ----------
    expected, largest : over the draws, and for the worst one (m, q).
    left : expected variance of the true value given the release (m, q).
    """

    expected: Float
    largest: Float
    left: Float


@dataclass(frozen=True)
class Vectors:
    """Distinct true vectors of some records, on a grid.

    Attributes
    ----------
    steps : of the grid, by column (q,). places : of the vectors on it (m, q).
    centre : from which values are counted (q,), so that their squares do not cancel.
    values : means (m, q) of those that count as one.
    within : C (q, q). spread : variances (q,) of all vectors.
    prior : shares (m,).
    """

    noise: JointGaussianNoise
    steps: Float
    places: Int
    centre: Float
    values: Float
    within: Float
    spread: Float
    prior: Float

    @classmethod
    def of(
        cls,
        noise: JointGaussianNoise,
        values: Float,
        prior: Any,
        columns: tuple[str, ...],
        counts: Int | None = None,
    ) -> tuple[Vectors, Int]:
        """With the shares of the values (n, q), each of so many records (n,), or those that an attacker is taken to know; and the vector of
        each (n,)."""
        true = noise.true_steps(values) * noise.grids
        known = None if prior is None else _given(noise, prior, columns)
        held = true if known is None else np.concatenate([true, known[0]])
        steps = np.array([noise.given_others(k).sd / FINE for k in range(noise.dimension)])
        places, again = _merged(held, steps)
        while len(places) > MOST:
            steps = steps * np.sqrt(2)
            places, again = _merged(held, steps)
        times = np.ones(len(true)) if counts is None else counts.astype(float)
        weights = times / times.sum()
        if known is not None:
            times = np.concatenate([times, np.ones(len(known[1]))])
            weights = np.concatenate([np.zeros(len(true)), known[1]])
        centre = weights @ held
        held = held - centre
        means = _averaged(again, held, times)
        apart = held - means[again]
        within = (apart * weights[:, None]).T @ apart
        shares = np.asarray(np.bincount(again, weights), dtype=float)
        return cls(noise, steps, places, centre, means, within, weights @ held**2, shares), again[: len(true)]

    @cached_property
    def _kernel(self) -> Float:
        """Σ + C, whose normal density stands for that of the noise."""
        return np.array(self.noise.covariance) + self.within

    def _in_its_units(self, values: Float) -> Float:
        """Vectors (k, q) in coordinates in which the kernel is standard normal."""
        return np.asarray(np.linalg.solve(np.linalg.cholesky(self._kernel), values.T).T)

    @cached_property
    def _white(self) -> Float:
        return self._in_its_units(self.values)

    def _posterior(self, released: Float) -> Float:
        """Of every vector (k, m) given released ones (k, q), in coordinates of the kernel."""
        apart = -0.5 * np.sum(self._white**2, axis=1) + released @ self._white.T
        apart -= apart.max(axis=1, keepdims=True, where=self.prior > 0, initial=-np.inf)
        chance = self.prior * np.exp(np.minimum(apart, 0.0))
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    def _points(self) -> tuple[Float, Float]:
        """Standard normal draws (s, q) with their weights (s,), and far ones without any weight, for the worst case."""
        from scipy.special import ndtri
        from scipy.stats.qmc import Sobol

        power = int(np.clip(np.log2(ENTRIES / len(self.places) ** 2), 5, 12))
        q = self.noise.dimension
        uniform = Sobol(q, scramble=False).random_base2(power) + 0.5 ** (power + 1)
        drawn = ndtri(uniform)
        far = np.concatenate([np.eye(q), -np.eye(q)]) * FAR
        return np.concatenate([drawn, far]), np.append(np.full(len(drawn), 1 / len(drawn)), np.zeros(2 * q))

    @cached_property
    def told(self) -> VectorPosteriors:
        draws, weights = self._points()
        shape = self.places.shape
        expected, largest, left = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        kept = np.eye(self.noise.dimension) - self.within @ np.linalg.inv(self._kernel)
        values, rest = self.values @ kept.T, np.diag(kept @ self.within)
        size = max(1, BLOCK // (len(draws) * len(self.places)))
        for low in range(0, len(self.places), size):
            rows = slice(low, low + size)
            released = (self._white[rows, None] + draws).reshape(-1, self.noise.dimension)
            after = self._posterior(released).reshape(-1, len(draws), len(self.places))
            for k, own in enumerate(self._own(after, rows)):
                expected[rows, k], largest[rows, k] = own @ weights, own.max(axis=1)
            left[rows] = np.einsum("bsk,s->bk", after @ values**2 - (after @ values) ** 2, weights)
        return VectorPosteriors(expected, largest, np.maximum(left, 0.0) + rest)

    def _own(self, after: Float, rows: slice) -> Iterator[Float]:
        """By column the posterior (b, s) of the true value of vectors b."""
        for places in self.places.T:
            same = (places[rows, None] == places).astype(float)
            yield (after @ same[:, :, None])[:, :, 0]

    def realised(self, again: Int, seen: Float) -> Float:
        """By column the posterior (n, q) of the true values of records, whose vectors are `again`, given their released ones (n, q)."""
        out = np.empty(seen.shape)
        white = self._in_its_units(seen - self.centre)
        size = max(1, BLOCK // len(self.places))
        for low in range(0, len(seen), size):
            rows = slice(low, low + size)
            after = self._posterior(white[rows])
            for k, places in enumerate(self.places.T):
                out[rows, k] = np.sum(after * (places[again[rows], None] == places), axis=1)
        return out

    def guesses(self) -> tuple[Float, Float]:
        """Mean square errors (q,) of the best guess at each column, without the release and with all released columns."""
        return self.spread, self.prior @ self.told.left

    def margin(self, place: int) -> dict[float, float]:
        """Shares of the values of one column."""
        held: dict[float, float] = {}
        for value, share in zip(self.places[:, place] * self.steps[place], self.prior, strict=True):
            held[float(value)] = held.get(float(value), 0.0) + float(share)
        return held


def _averaged(group: Int, values: Float, times: Float) -> Float:
    """Means (m, q) of vectors (n, q) by group, each of which occurs so many times (n,)."""
    sums = np.stack([np.bincount(group, times * column) for column in values.T], axis=1)
    return np.asarray(sums / np.bincount(group, times)[:, None])


def _merged(values: Float, steps: Float) -> tuple[Int, Int]:
    """Distinct places (m, q) on a grid, and which of them each vector (n,) has."""
    places, again = np.unique(np.rint(values / steps).astype(np.int64), axis=0, return_inverse=True)
    return places, again.ravel()


def _given(noise: JointGaussianNoise, prior: Any, columns: tuple[str, ...]) -> tuple[Float, Float]:
    """An attacker's frequencies: from a vector of values to its share."""
    valid = isinstance(prior, Mapping) and bool(prior) and all(is_number(v) for v in prior.values())
    valid = valid and all(isinstance(v, tuple) and len(v) == noise.dimension and all(map(is_number, v)) for v in prior)
    shares = np.array(list(prior.values()), dtype=float) if valid else np.empty(0)
    if not valid or np.any(~(shares >= 0)) or abs(shares.sum() - 1) > 1e-8:
        raise DataError(
            f"the prior frequencies of {listing(columns)}, which share a noise, must be a mapping from tuples of {noise.dimension} numbers to "
            f"shares, none negative, that sum to 1: they sum to {shares.sum():.6g}"
        )
    return noise.true_steps(np.array(list(prior), dtype=float)) * noise.grids, shares

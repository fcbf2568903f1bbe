"""How well the truth is recovered: learned on one half of the records, scored on the other, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pramana.arrays import Bool, Float, Int
from pramana.disclosure.audit.giveaways.clues import Clue

PASSES = 2
"""Times that every clue of an additive model is fitted."""
SHRINK = 1.0
"""Records by which every count is drawn towards what is expected anyway."""
SURE, COMMON = 0.99, 0.6
PRIOR = 0.2
"""Weight, in records, of the overall shares in the posterior of a value."""


@dataclass(frozen=True)
class Secret:
    """True levels of the records at hand, and what their released values say of them.

    Attributes
    ----------
    true : level of each record (n,), none missing.
    chances : Pr(the record's released value | true level), (n, K).
    half : which records are learned from first.
    """

    true: Int
    chances: Float
    half: Bool

    @property
    def size(self) -> int:
        return self.chances.shape[1]

    @cached_property
    def shares(self) -> Float:
        return np.bincount(self.true, minlength=self.size) / max(self.true.size, 1)

    @cached_property
    def _halves(self) -> tuple[Int, Int]:
        return np.flatnonzero(self.half), np.flatnonzero(~self.half)

    @cached_property
    def _shown(self) -> tuple[Float, Float]:
        """Chances of the records that are scored, in either direction."""
        return self.chances[self._halves[1]], self.chances[self._halves[0]]

    def sides(self, direction: int) -> tuple[Int, Int]:
        """Records to learn from, and to score."""
        first, second = self._halves
        return (first, second) if direction == 0 else (second, first)

    def guessed(self, prior: Float, direction: int) -> Bool:
        """Which of the records to score are guessed rightly, from what is known before (their rows of a prior) and the released value."""
        _, score = self.sides(direction)
        return np.asarray((prior * self._shown[direction]).argmax(axis=1) == self.true[score])


@dataclass(frozen=True)
class Known:
    """What content says of each record: probabilities of the true levels, learned on either half.

    Attributes
    ----------
    learned, scored : those of the records to learn from and of those to score (n/2, K), in either direction.
    right : of the records that are scored, guessed rightly from content and the released value.
    """

    learned: tuple[Float, Float]
    scored: tuple[Float, Float]
    right: tuple[Bool, Bool]


def without_content(secret: Secret) -> Known:
    """Only the overall shares of the levels are known."""
    return _known(secret, [_overall(secret, direction) for direction in (0, 1)])


def _overall(secret: Secret, direction: int) -> Float:
    learn, _ = secret.sides(direction)
    shares = (np.bincount(secret.true[learn], minlength=secret.size) + 0.5) / (learn.size + 0.5 * secret.size)
    return np.tile(shares, (secret.true.size, 1))


def with_content(secret: Secret, clues: Sequence[Clue]) -> Known:
    """An additive model: one factor a value of every clue, each fitted in turn and kept where it helps the other half."""
    return _known(secret, [_fitted(secret, clues, direction) for direction in (0, 1)])


def _known(secret: Secret, priors: Sequence[Float]) -> Known:
    first, second = ([prior[rows] for rows in secret.sides(d)] for d, prior in enumerate(priors))
    right = (secret.guessed(first[1], 0), secret.guessed(second[1], 1))
    return Known((first[0], second[0]), (first[1], second[1]), right)


def _fitted(secret: Secret, clues: Sequence[Clue], direction: int) -> Float:
    prior = _overall(secret, direction)
    learn, score = secret.sides(direction)
    loss = _loss(prior[score], secret.true[score])
    for _ in range(PASSES):
        for clue in clues:
            factors, place = _factors(secret, prior[learn], clue.of(direction), direction)
            tried = prior * factors[place]
            tried /= tried.sum(axis=1, keepdims=True)
            less = _loss(tried[score], secret.true[score])
            if less < loss:
                prior, loss = tried, less
    return prior


def _loss(prior: Float, true: Int) -> float:
    return -float(np.mean(np.log(np.maximum(prior[np.arange(true.size), true], 1e-12))))


def _factors(secret: Secret, learned: Float, codes: Int, direction: int) -> tuple[Float, Int]:
    """Found over expected count of every level among the records of a clue's value, and the row of it that holds for each record.

    `learned` is what is known before of the records to learn from. Where no value is known the factor is 1: that something is known
    tells nothing here, whether a value is missing is a clue of its own.
    """
    learn, _ = secret.sides(direction)
    size = int(codes.max(initial=-1)) + 2  # the last is for what is unknown
    place = np.where(codes < 0, size - 1, codes)
    found = _table(place[learn], secret.true[learn], (size, secret.size))
    expected = _sums(place[learn], learned, size)
    factors = (found + SHRINK) / (expected + SHRINK)
    factors /= (found[:-1].sum(axis=0) + SHRINK) / (expected[:-1].sum(axis=0) + SHRINK)
    factors[size - 1] = 1.0
    return factors, place


def _sums(place: Int, rows: Float, size: int) -> Float:
    """The rows (n, K) of every place added up, in their order (size, K)."""
    from scipy.sparse import csr_matrix

    held = csr_matrix((np.ones(place.size), place, np.arange(place.size + 1)), shape=(place.size, size))
    return np.asarray(held.T @ rows)


def _table(codes: Int, true: Int, shape: tuple[int, int]) -> Int:
    return np.bincount(codes * shape[1] + true, minlength=shape[0] * shape[1]).reshape(shape)


@dataclass(frozen=True)
class Gain:
    """Recovered shares without and with a clue, and the lower limit of their difference."""

    before: float
    after: float
    lower: float


def gain(secret: Secret, known: Known, clue: Clue, alpha: float) -> Gain:
    """What the clue adds to content and released value."""
    after = []
    for direction in (0, 1):
        _, score = secret.sides(direction)
        factors, place = _factors(secret, known.learned[direction], clue.of(direction), direction)
        after.append(secret.guessed(known.scored[direction] * factors[place[score]], direction))
    return compared(np.concatenate(known.right), np.concatenate(after), alpha)


def compared(before: Bool, after: Bool, alpha: float) -> Gain:
    """Each record is guessed without and with the clue: gains less losses, with exact limits of both (Clopper and Pearson)."""
    n, won, lost = before.size, int(np.sum(after & ~before)), int(np.sum(before & ~after))
    lower = lower_share(won, n, alpha / 2) - (1 - lower_share(n - lost, n, alpha / 2))
    return Gain(float(before.mean()), float(after.mean()), lower)


@dataclass(frozen=True)
class Settled:
    """Records whose value of a clue settled the level in the other half.

    Attributes
    ----------
    share : of all records.
    of_level : of the records of a level, at most.
    right, lower : how often the level was right, and its lower confidence limit.
    """

    share: float
    of_level: float
    right: float
    lower: float


def settled_records(secret: Secret, clue: Clue, alpha: float) -> Settled:
    """A value settles a level when its records in one half leave it a posterior of 0.99, unless it is most people's anyway."""
    claims, hits = np.zeros(secret.size), np.zeros(secret.size)
    for direction in (0, 1):
        learn, score = secret.sides(direction)
        codes = clue.of(direction)
        size = int(codes.max(initial=-1)) + 2
        place = np.where(codes < 0, size - 1, codes)
        found = _table(place[learn], secret.true[learn], (size, secret.size))
        level, total = found.argmax(axis=1), found.sum(axis=1)
        sure = found.max(axis=1) + PRIOR * secret.shares[level] >= SURE * (total + PRIOR)
        sure &= secret.shares[level] < COMMON
        sure[size - 1] = False
        said = level[place[score]][sure[place[score]]]
        claims += np.bincount(said, minlength=secret.size)
        hits += np.bincount(said[said == secret.true[score][sure[place[score]]]], minlength=secret.size)
    total_claims, right = claims.sum(), hits.sum()
    if not total_claims:
        return Settled(0.0, 0.0, 0.0, 0.0)
    counts = np.maximum(secret.shares * secret.true.size, 1)
    return Settled(
        float(total_claims / secret.true.size),
        float(np.max(hits / counts)),
        float(right / total_claims),
        lower_share(int(right), int(total_claims), alpha),
    )


def lower_share(hits: int, n: int, alpha: float) -> float:
    """Clopper and Pearson's lower limit of a share."""
    from scipy.special import betaincinv

    return float(betaincinv(hits, n - hits + 1, alpha)) if hits else 0.0

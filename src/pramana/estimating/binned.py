"""The distribution of records that are not held: sums in bins, and the records of a few bins where they matter.

What lies below t is known at the edges of bins. Within a bin it is at least what lies below the bin less the bin's negative mass, and at most
that plus its positive mass; smoothed over t ± h, it lies between the bounds of all bins that this stretch touches. Where the bounds leave a
level q on one side of F̂, the mass of a bin may lie anywhere in it: {t : F̂(t) < q}, whose length is the quantile, is the same. Elsewhere,
near every crossing, the records themselves are asked for, and the quantile is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pramana.arrays import Bool, Float, Int
from pramana.errors import DataError
from pramana.estimating.distribution import (
    FLAT,
    QUARTILE_WIDTH,
    Distribution,
    between_quartiles,
    narrower,
)
from pramana.estimating.rounding import settled

BINS = 1 << 14
"""Sampled values that bins are made of."""
MARGIN = 3 * FLAT
"""Of all mass: bounds this close to a level leave it open."""


@dataclass(frozen=True)
class Bins:
    """Intervals [edge_k, edge_{k+1}) of numbers: one for each sampled value alone, and one for what lies between two of them."""

    edges: Float

    @classmethod
    def around(cls, values: Float) -> Bins:
        """Of a sample (m,) that has the smallest and the largest value."""
        ordered = np.sort(values)
        chosen = np.unique(ordered[np.linspace(0, ordered.size - 1, min(BINS, ordered.size)).astype(np.int64)])
        return cls(np.unique(np.concatenate([chosen, np.nextafter(chosen, np.inf)])))

    def __len__(self) -> int:
        return len(self.edges) - 1

    def coarser(self, fine: Bool, most: int) -> Bins:
        """About so many bins of these, half of them spread over all and the others over those that are to stay fine (m,)."""
        everywhere, inside = np.arange(len(self.edges)), np.flatnonzero(np.append(fine, False) | np.append(False, fine))
        chosen = [_thinned(places, most // 2) for places in (everywhere, inside)]
        return Bins(self.edges[np.unique(np.concatenate(chosen))])

    def of(self, values: Float) -> Int:
        """The bin of every value (n,)."""
        found = np.searchsorted(self.edges, values, side="right") - 1
        if found.size and not 0 <= found.min() <= found.max() < len(self):
            raise DataError(
                "numbers lie outside of the range that the first pass found: did the source change? Fit again"
            )
        return found

    @property
    def single(self) -> Bool:
        """Bins (m,) of one value."""
        return np.asarray(np.nextafter(self.edges[:-1], np.inf) == self.edges[1:])

    def touched(self, h: float) -> tuple[Int, Int]:
        """The bins from (m,) and up to (m,) which a stretch of h around each bin touches."""
        first = np.searchsorted(self.edges, self.edges[:-1] - h, side="right") - 1
        last = np.searchsorted(self.edges, self.edges[1:] + h, side="left")
        return np.maximum(first, 0), np.minimum(last, len(self))


@dataclass(frozen=True)
class Masses:
    """Sums over the records of bins, or of single values (S,); those of two parts add.

    Attributes
    ----------
    count, weight, amount : records, Σ w and Σ w (y − centre) for what is learned from released records.
    up, down : sums of positive and of negative reverted mass w q by domain (S, G), both above zero.
    square : Σ w q² (S, G).
    """

    count: Float
    weight: Float
    amount: Float
    up: Float
    down: Float
    square: Float

    @classmethod
    def of(cls, place: Int, size: int, values: Float, members: Float, weights: Float, learning: Float) -> Masses:
        """Of records at these places among `size`, with values (n,) around the centre and reverted memberships (n, G)."""

        def summed(part: Float) -> Float:
            return np.asarray(np.bincount(place, part, size), dtype=float)

        mass = members * weights[:, None]
        by_domain = (np.maximum(mass, 0.0), np.maximum(-mass, 0.0), mass * members)
        plain = (np.ones(len(values)), learning, learning * values)
        return cls(*map(summed, plain), *(np.stack([summed(m) for m in part.T], axis=1) for part in by_domain))

    def __add__(self, other: Masses) -> Masses:
        return Masses(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def at(self, rows: Bool | Int) -> Masses:
        return Masses(*(part[rows] for part in vars(self).values()))

    def beside(self, other: Masses) -> Masses:
        """Those of other places next to these."""
        return Masses(*map(np.concatenate, zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Overall:
    """Sums over all records: Σ w, Σ w², Σ w² q and Σ w² q² by domain (G,), and Σ w (y − centre)² of what is learned from."""

    total: float
    squares: float
    first: Float
    second: Float
    spread: float

    def __add__(self, other: Overall) -> Overall:
        return Overall(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class BinSums:
    """What a pass over all records tells; parts add."""

    masses: Masses
    overall: Overall

    @classmethod
    def of(
        cls, bins: Bins, centre: float, measure: Distribution, weights: Float, learning: Float, squares: Float
    ) -> BinSums:
        values, members = measure.values - centre, measure.cells
        masses = Masses.of(bins.of(measure.values), len(bins), values, members, weights, learning)
        overall = Overall(
            float(weights.sum()),
            float(squares.sum()),
            squares @ members,
            squares @ members**2,
            float(learning @ values**2),
        )
        return cls(masses, overall)

    def __add__(self, other: BinSums) -> BinSums:
        return BinSums(self.masses + other.masses, self.overall + other.overall)


@dataclass(frozen=True)
class Points:
    """Single values (S,) with their masses; parts add, and equal values of two parts stay apart."""

    values: Float
    masses: Masses

    @classmethod
    def of(
        cls, bins: Bins, wanted: Bool, centre: float, measure: Distribution, weights: Float, learning: Float
    ) -> Points:
        """The records in the bins that are wanted (m,)."""
        near = np.flatnonzero(wanted[bins.of(measure.values)])
        values, place = np.unique(measure.values[near], return_inverse=True)
        own = measure.values[near] - centre
        return cls(values, Masses.of(place, values.size, own, measure.cells[near], weights[near], learning[near]))

    def __add__(self, other: Points) -> Points:
        return Points(np.concatenate([self.values, other.values]), self.masses.beside(other.masses))


@dataclass(frozen=True)
class DrawnSums:
    """Sums over the records of bins under weight draws: records (m,), positive and negative mass (B, m, G); parts add."""

    count: Float
    up: Float
    down: Float

    @classmethod
    def of(cls, bins: Bins, measure: Distribution, weights: Float) -> DrawnSums:
        """Under row weights (B, n)."""
        from scipy.sparse import csr_matrix

        place, size, n = bins.of(measure.values), len(bins), len(measure.values)
        against = np.maximum(-weights, 0.0) if weights.min(initial=0.0) < 0 else None
        along = weights if against is None else np.maximum(weights, 0.0)
        up, down = np.zeros((2, len(weights), size, measure.count))
        for g, member in enumerate(measure.cells.T):
            for part, same, other in ((member, up, down), (-member, down, up)):
                spread = csr_matrix((np.maximum(part, 0.0), (place, np.arange(n))), shape=(size, n))
                same[:, :, g] += (spread @ along.T).T
                if against is not None:
                    other[:, :, g] += (spread @ against.T).T
        return cls(np.bincount(place, minlength=size).astype(float), up, down)

    def __add__(self, other: DrawnSums) -> DrawnSums:
        return DrawnSums(self.count + other.count, self.up + other.up, self.down + other.down)

    def binned(self, bins: Bins, draw: int) -> Binned:
        """The distribution under one of the draws; of what it learns from, which draws do not change, nothing."""
        nothing = np.zeros(len(bins))
        up, down = self.up[draw], self.down[draw]
        masses = Masses(self.count, nothing, nothing, up, down, np.zeros_like(up))
        return Binned.of(bins, 0.0, BinSums(masses, _UNTOLD))


@dataclass(frozen=True)
class DrawnPoints:
    """Single values (S,) with their memberships (S, G) and their weights under draws (B, S); parts add."""

    values: Float
    members: Float
    weights: Float

    @classmethod
    def of(cls, bins: Bins, wanted: Bool, measure: Distribution, weights: Float) -> DrawnPoints:
        near = np.flatnonzero(wanted[bins.of(measure.values)])
        return cls(measure.values[near], measure.cells[near], weights[:, near])

    def __add__(self, other: DrawnPoints) -> DrawnPoints:
        return DrawnPoints(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.members, other.members]),
            np.concatenate([self.weights, other.weights], axis=1),
        )

    def under(self, draw: int) -> Points:
        """The points under one of the draws."""
        mass, nothing = self.members * self.weights[draw][:, None], np.zeros(len(self.values))
        parts = (np.maximum(mass, 0.0), np.maximum(-mass, 0.0), np.zeros_like(mass))
        return Points(self.values, Masses(np.ones(len(self.values)), nothing, nothing, *parts))


@dataclass(frozen=True)
class Standing(Distribution):
    """Values that stand for all records: those of single records where they matter, and one for every other bin.

    Attributes
    ----------
    masses_of : their sums. overall : those of all records.
    """

    masses_of: Masses | None = None
    overall: Overall | None = None

    def masses(self, weights: Float, domain: int | None) -> Float:
        assert self.masses_of is not None
        found = weights * self.member(domain)
        sizes = (self.masses_of.up + self.masses_of.down)[:, domain if domain is not None else slice(None)].sum()
        found[settled(found.sum(axis=1), np.full(len(found), sizes)) == 0] = np.nan
        return np.asarray(found)

    def counted(self, weights: Float, domain: int | None, chosen: Float) -> float:  # noqa: ARG002 - the sums hold the weights
        m, overall = self.masses_of, self.overall
        assert m is not None
        assert overall is not None
        first = float(chosen @ (m.up + m.down)[:, domain or 0])
        second = max(float(chosen @ m.square[:, domain or 0]), 1e-300)
        return self.size * first**2 / second / overall.total

    def shares(self, weights: Float, squares: Float) -> tuple[Float, Float]:  # noqa: ARG002
        m, o = self.masses_of, self.overall
        assert m is not None
        assert o is not None
        shares = settled(self.cells.sum(axis=0), (m.up + m.down).sum(axis=0)) / o.total
        squares = o.second - 2 * shares * o.first + shares**2 * o.squares
        return shares, np.sqrt(np.maximum(squares, 0.0)) / o.total


@dataclass(frozen=True)
class Binned:
    """The distribution of all records as far as it is known.

    Attributes
    ----------
    exact : bins (m,) whose records are known one by one.
    points : those records.
    """

    bins: Bins
    centre: float
    sums: BinSums
    exact: Bool
    points: Points | None = field(default=None, repr=False)

    @classmethod
    def of(cls, bins: Bins, centre: float, sums: BinSums) -> Binned:
        return cls(bins, centre, sums, bins.single | (sums.masses.count == 0))

    def refined(self, wanted: Bool, points: Points) -> Binned:
        return replace(self, exact=self.exact | wanted, points=points if self.points is None else self.points + points)

    @property
    def totals(self) -> Float:
        """The mass of each domain (G,)."""
        m = self.sums.masses
        return np.asarray((m.up - m.down).sum(axis=0))

    def doubtful(self, domain: int, low: float, high: float, h: float) -> Bool:
        """Bins (m,) whose records decide where F̂ of a domain, smoothed over ± h, crosses the levels from low to high."""
        m, total = self.sums.masses, self.totals[domain]
        if not total > 0:
            return np.zeros(len(self.bins), dtype=bool)
        up, down = m.up[:, domain] / total, m.down[:, domain] / total
        below = np.cumsum(up - down) - (up - down)
        first, last = self.bins.touched(h)
        over, under = (_all(side, first, last) for side in (below - down > high + MARGIN, below + up < low - MARGIN))
        doubt = ~(over | under)
        wanted = _marked(first[doubt], last[doubt], len(self.bins))
        edges = self.bins.edges
        ends = (0, int(np.searchsorted(edges, edges[0] + h, side="left"))), (int(first[-1]), len(self.bins))
        for (a, b), sure in zip(ends, (under[0], over[-1]), strict=True):
            if not sure:  # before the first value nothing lies below, and behind the last one everything
                wanted[a:b] = True
        return wanted & ~self.exact

    def quartered(self) -> Bool:
        """Bins (m,) whose records decide the quartiles of released values that a bandwidth is made of."""
        weight = self.sums.masses.weight
        after = np.cumsum(weight) / weight.sum()
        before = after - weight / weight.sum()
        levels = [q + side * QUARTILE_WIDTH for q in (0.25, 0.75) for side in (-1, 1)]
        cut = [(before <= level + MARGIN) & (after >= level - MARGIN) for level in levels]
        return np.logical_or.reduce(cut) & ~self.exact

    def spread(self, floor: float = 0.0) -> float | None:
        """As `robust_spread` of all released values, once the bins that are `quartered` are known."""
        values, masses = self._support()
        m, overall = self.sums.masses, self.sums.overall
        weight = float(m.weight.sum())
        deviation = np.sqrt(max(overall.spread / weight - (float(m.amount.sum()) / weight) ** 2, 0.0))
        counted = masses.weight > 0
        shares = masses.weight[counted] / weight
        return narrower(float(deviation), between_quartiles(values[counted], shares), floor)

    def standing(self, domains: tuple[str, ...], size: float, window: float) -> Standing:
        """The distribution that the known values and one value for every other bin make."""
        values, masses = self._support()
        return Standing(values, masses.up - masses.down, domains, size, window, None, masses, self.sums.overall)

    def _support(self) -> tuple[Float, Masses]:
        """Values (S,) in their order; that of a bin is its mean."""
        left = ~self.exact | (self.bins.single & (self.sums.masses.count > 0))
        masses, edges = self.sums.masses.at(left), self.bins.edges
        low, high = edges[:-1][left], np.nextafter(edges[1:], -np.inf)[left]
        mean = np.divide(masses.amount, masses.weight, out=np.zeros(len(low)), where=masses.weight > 0) + self.centre
        values = np.clip(np.where(masses.weight > 0, mean, low), low, high)
        if self.points is not None:
            values, masses = np.concatenate([values, self.points.values]), masses.beside(self.points.masses)
        order = np.argsort(values, kind="stable")
        return values[order], masses.at(order)


_UNTOLD = Overall(0.0, 0.0, np.zeros(0), np.zeros(0), 0.0)


def _thinned(places: Int, most: int) -> Int:
    """The first, the last and about so many of these places."""
    return places if len(places) <= most else places[np.linspace(0, len(places) - 1, most).astype(np.int64)]


def _all(true: Bool, first: Int, last: Int) -> Bool:
    """Whether everything from first up to last is true."""
    counted = np.concatenate([[0], np.cumsum(true)])
    return np.asarray(counted[last] - counted[first] == last - first)


def _marked(first: Int, last: Int, size: int) -> Bool:
    """What lies between any first and its last."""
    steps = np.bincount(first, minlength=size + 1) - np.bincount(last, minlength=size + 1)
    return np.asarray(np.cumsum(steps)[:size] > 0)

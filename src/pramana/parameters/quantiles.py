"""Quantiles through a smoothed, rearranged reverted distribution function.

The reverted distribution function F̂(t) = Σ w q K((t − y)/h) / Σ w q has signed weights q, so that it need not rise and may
cross a level several times. Its increasing rearrangement has one quantile at every level, which is the length of
{t : F̂(t) < q} measured from the left end of the data; where F̂ does rise, that is the ordinary quantile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from pramana.arrays import Float
from pramana.errors import FormulaError
from pramana.estimating.cells import distinct, factors_of, names_of
from pramana.estimating.distribution import (
    FLAT,
    SHARP,
    Distribution,
    DistributionFunction,
    Functional,
    Knots,
    kernel,
    support_of,
)
from pramana.estimating.equation import Note
from pramana.estimating.function import ColumnQuestion
from pramana.frames import Schema, Table

EXTREME = "extreme-quantile"
"""Code of the warning that too few records carry the tail."""

TAIL = 15
"""Records that carry the tail beyond a quantile, below which its standard error by draws or deletions cannot be relied on: with ten of them it
is 10 to 20 % too small in simulations, with or without noise."""

CACHE = 60_000
"""Numbers of one array that are worked on at once."""


@dataclass(frozen=True)
class Quantile(ColumnQuestion):
    """Question of `quantile(column, q, by)`."""

    column: str
    q: float | tuple[float, ...]
    by: tuple[str, ...] = ()
    bandwidth: float | None = None

    def prepare(self, table: Table, schema: Schema) -> DistributionFunction:
        levels, by = support_of(self.column, table, schema), factors_of(self.by, table, schema)
        if isinstance(self.q, float):
            return DistributionFunction(self._functional(self.q), self.column, by, levels)
        several = SeveralQuantiles(tuple(map(self._functional, self.q)))
        return DistributionFunction(several, self.column, by, levels)

    def _functional(self, q: float) -> QuantileFunctional:
        name = f"median({self.column})" if q == 0.5 else f"quantile({self.column}, {q:g})"
        return QuantileFunctional(name, q, self.bandwidth)


def quantile(
    column: str, q: float | Sequence[float], by: str | Sequence[str] | None = None, *, bandwidth: float | None = None
) -> Quantile:
    """The q-quantile of a column, or several with their joint covariance, of everyone or within domains that may be perturbed.

    The reverted distribution function is smoothed and rearranged before it is inverted. A column with perturbed numeric
    levels is not smoothed: its quantile is one of the levels. Of columns with noise those under `KeepOrNoise` have quantiles. Intervals are Woodruff's: that of the share below, read back through the
    distribution function.

    Parameters
    ----------
    q : between 0 and 1; a list for several.
    by : one or several columns, perturbed or not, whose levels are the domains.
    bandwidth : half-width of the uniform kernel, in units of the column. By default n^(−1/3) times the smaller of standard
        deviation and interquartile range over 1.349 of the released column; the result's facts state the number used.
        Frequencies count as so many records; sampling weights enter both spreads, and n is then the effective number of
        records (Σw)² / Σw².

    >>> import pramana as pr
    >>> data = {"income": range(1, 201), "edu": ["low", "high"] * 100}
    >>> mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "high"], keep=0.9)})
    >>> result = pr.fit(pr.quantile("income", 0.9, by="edu"), data, mechanism)
    >>> result.parameters
    ('quantile(income, 0.9)[edu=low]', 'quantile(income, 0.9)[edu=high]')
    >>> result.facts["Bandwidth"]
    '9.872, half-width of a uniform kernel'
    >>> pr.fit(pr.quantile("income", [0.1, 0.9]), data, mechanism).combine("quantile(income, 0.9) - quantile(income, 0.1)").estimate
    array([160.])
    """
    names = names_of(by, "by")
    distinct(column, *names)
    shares: tuple[Any, ...] = (q,) if np.ndim(q) == 0 else tuple(q)  # type: ignore[arg-type]
    for share in shares:
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < 1:
            raise FormulaError(f"q={share!r} must be a number between 0 and 1, both excluded")
    if not shares or len(set(shares)) < len(shares):
        raise FormulaError(f"q={q!r} holds no quantile, or one twice: give each once, as in [0.1, 0.5, 0.9]")
    if bandwidth is not None and not 0 < bandwidth < np.inf:
        raise FormulaError(f"bandwidth={bandwidth!r} must be positive: it is a half-width in units of {column!r}")
    return Quantile(column, float(shares[0]) if np.ndim(q) == 0 else tuple(map(float, shares)), names, bandwidth)


def median(column: str, by: str | Sequence[str] | None = None, *, bandwidth: float | None = None) -> Quantile:
    """The median of a column: `quantile(column, 0.5, by)`.

    >>> import pramana as pr
    >>> result = pr.fit(pr.median("age"), {"age": range(101)}, None)
    >>> round(float(result.estimate[0]), 6)
    50.0
    """
    return quantile(column, 0.5, by, bandwidth=bandwidth)


@dataclass(frozen=True)
class QuantileFunctional(Functional):
    """ψ = q − K((β − y)/h), one quantile a domain."""

    name: str
    q: float
    bandwidth: float | None = None
    plausible: tuple[float, float] | None = None
    reason: str = "the reverted distribution is empty"

    def solve(self, measure: Distribution, weights: Float) -> Float:
        knots = measure.knots(width(measure, self.bandwidth))
        parts = [rearranged_quantile(knots, measure.masses(weights, g), self.q) for g in range(measure.count)]
        return np.stack(parts, axis=1)

    def sharp(self, measure: Distribution) -> QuantileFunctional:
        """With the plain share below, whose variance is a little larger than with the default kernel, and right in small samples. A bandwidth that
        was asked for is part of the question."""
        smoothed = self.bandwidth is None and not measure.discrete
        return replace(self, bandwidth=SHARP * measure.window) if smoothed else self

    @property
    def invertible(self) -> bool:
        return True

    def inverted(self, measure: Distribution, scores: Float, weights: Float) -> Float:
        """Σ w ψ = M (q − F̂), with M the mass of the domain: the quantiles of other shares."""
        knots, out = measure.knots(width(measure, self.bandwidth)), np.empty_like(scores)
        for g in range(measure.count):
            masses = measure.masses(weights[None], g)
            shares, f = self.levels(scores[:, g], masses.sum()), knots.function(masses)
            out[:, g] = [knots.quantile(f, share) for share in shares]
        return out

    def levels(self, scores: Float, mass: float | Float) -> Float:
        return np.asarray(self.q - scores / mass)

    def width(self, measure: Distribution) -> float:
        return width(measure, self.bandwidth)

    def pieces(self, measure: Distribution, beta: Float, reference: Float) -> list[tuple[int | None, Float]]:  # noqa: ARG002
        h = width(measure, self.bandwidth)
        return [(g, self.q - measure.below(b, h)) for g, b in enumerate(beta)]

    def outer(self, measure: Distribution, beta: Float, reference: Float, weights: Float) -> Float:  # noqa: ARG002
        """(q − K)² = q² − 2qK + K²; domains do not overlap."""
        h, q = width(measure, self.bandwidth), self.q
        squares = [q**2 - 2 * q * measure.below(b, h) + measure.both_below(b, b, h) for b in beta]
        return np.diag([float(weights @ measure.per_record(square, g)) for g, square in enumerate(squares)])

    def slope(self, measure: Distribution, beta: Float, weights: Float) -> Float:
        """Minus the density, averaged over at least the default bandwidth (over the gaps of levels, where there is none)."""
        h = max(width(measure, self.bandwidth), measure.window) or float(np.ptp(measure.values))
        return np.diag([-density(measure, g, b, h, weights) for g, b in enumerate(beta)])

    def facts(self, measure: Distribution) -> dict[str, str]:
        return {"Bandwidth": described_width(measure, self.bandwidth)}

    def notes(self, measure: Distribution, beta: Float, weights: Float) -> list[Note]:
        knots = measure.knots(width(measure, self.bandwidth))
        counts = [crossings(knots, measure.masses(weights[None], g), self.q) for g in range(measure.count)]
        notes = self._beyond(measure, beta, weights)
        if measure.discrete:
            text = (
                "a quantile of levels is itself a level: an interval that holds no other one has a standard error of 0"
            )
            return [*notes, ("level-quantile", "info", text)]
        several = [f"{p} ({c})" for p, c in zip(self.names(measure.domains), counts, strict=True) if c > 1]
        if several:
            text = f"the reverted distribution function crosses its level more than once for {', '.join(several)}: it was rearranged"
            notes.append(("rearranged", "info", text))
        return notes

    def _beyond(self, measure: Distribution, beta: Float, weights: Float) -> list[Note]:
        """Resampling cannot show what lies beyond the last records: too few of them make errors too small.

        The records are counted that carry the tail. How well the noise lets the tail be told from zero is another matter, which
        the resamples do show.
        """
        h, low = width(measure, self.bandwidth), self.q < 0.5
        below = [kernel(b - measure.values, h) for b in beta]
        beyond = [measure.counted(weights, g, part if low else 1 - part) for g, part in enumerate(below)]
        few = [f"{p} ({b:.2g})" for p, b in zip(self.names(measure.domains), beyond, strict=True) if b < TAIL]
        if not few:
            return []
        text = (
            f"fewer than {TAIL} records lie beyond {', '.join(few)}: the estimate hangs on the most extreme of them and "
            "its resampled standard error tends to be too small; use Woodruff(), a quantile nearer to the middle, or larger domains"
        )
        return [(EXTREME, "warning", text)]


@dataclass(frozen=True)
class SeveralQuantiles(Functional):
    """Quantiles of the same numbers, one after the other, each in all domains; records below several of them make them vary together."""

    parts: tuple[QuantileFunctional, ...]
    plausible: tuple[float, float] | None = None
    reason: str = "the reverted distribution is empty"

    def names(self, domains: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names(domains))

    def _each(self, values: Float) -> list[tuple[QuantileFunctional, Float]]:
        """The parts, and their columns of values (..., d)."""
        return list(zip(self.parts, np.split(values, len(self.parts), axis=-1), strict=True))

    def solve(self, measure: Distribution, weights: Float) -> Float:
        return np.concatenate([part.solve(measure, weights) for part in self.parts], axis=1)

    def sharp(self, measure: Distribution) -> SeveralQuantiles:
        found = tuple(part.sharp(measure) for part in self.parts)
        return self if found == self.parts else replace(self, parts=found)

    @property
    def invertible(self) -> bool:
        return True

    def inverted(self, measure: Distribution, scores: Float, weights: Float) -> Float:
        return np.concatenate([part.inverted(measure, own, weights) for part, own in self._each(scores)], axis=1)

    def levels(self, scores: Float, mass: float | Float) -> Float:
        return np.concatenate([part.levels(own, mass) for part, own in self._each(scores)], axis=1)

    def width(self, measure: Distribution) -> float:
        return self.parts[0].width(measure)

    def pieces(self, measure: Distribution, beta: Float, reference: Float) -> list[tuple[int | None, Float]]:
        return [piece for part, own in self._each(beta) for piece in part.pieces(measure, own, reference)]

    def outer(self, measure: Distribution, beta: Float, reference: Float, weights: Float) -> Float:  # noqa: ARG002
        """(p − K)(q − L) = pq − pL − qK + KL within a domain; domains do not overlap."""
        h, count = self.width(measure), measure.count
        out = np.zeros((beta.size, beta.size))
        for j, (left, a) in enumerate(self._each(beta)):
            for k, (right, b) in enumerate(self._each(beta)):
                for g in range(count):
                    first, second = measure.below(a[g], h), measure.below(b[g], h)
                    both = left.q * right.q - left.q * second - right.q * first + measure.both_below(a[g], b[g], h)
                    out[j * count + g, k * count + g] = weights @ measure.per_record(both, g)
        return out

    def slope(self, measure: Distribution, beta: Float, weights: Float) -> Float:
        return np.diag(np.concatenate([np.diag(part.slope(measure, own, weights)) for part, own in self._each(beta)]))

    def facts(self, measure: Distribution) -> dict[str, str]:
        return self.parts[0].facts(measure)

    def notes(self, measure: Distribution, beta: Float, weights: Float) -> list[Note]:
        found = [note for part, own in self._each(beta) for note in part.notes(measure, own, weights)]
        return list(dict.fromkeys(found))


def width(measure: Distribution, bandwidth: float | None) -> float:
    """The half-width of the kernel; 0 for levels."""
    if measure.discrete:
        return 0.0
    return bandwidth if bandwidth is not None else measure.window


def described_width(measure: Distribution, bandwidth: float | None) -> str:
    h = width(measure, bandwidth)
    return f"{h:.4g}, half-width of a uniform kernel" if h else "none: the column has levels"


def density(measure: Distribution, domain: int | None, at: float, h: float, weights: Float) -> float:
    """Σ w q 1{|at − y| ≤ h} / 2h."""
    return float(weights @ measure.per_record(measure.near(at, h), domain)) / (2 * h)


def distribution_at(values: Float, masses: Float, t: Float, h: float) -> Float:
    """F̂ (B,) at t (B,); NaN for a measure without mass."""
    steps, total = kernel(t[:, None] - values, h), masses.sum(axis=1)
    return np.asarray(np.einsum("bs,bs->b", masses, steps) / np.where(total > 0, total, np.nan))


def rearranged_quantile(knots: Knots, masses: Float, q: float) -> Float:
    """The quantile (B,) of the increasing rearrangement, for measures (B, S); NaN for a measure without mass.

    >>> falling_back = np.array([[0.4, 0.3, -0.2, 0.5]])
    >>> rearranged_quantile(Knots.of(np.array([1.0, 2.0, 3.0, 4.0]), 0.0), falling_back, 0.5)
    array([2.])
    """
    size = max(1, CACHE // len(knots.points))
    return np.concatenate([_inverted(knots, masses[k : k + size], q) for k in range(0, len(masses), size)])


def _inverted(knots: Knots, masses: Float, q: float) -> Float:
    f = knots.function(masses)
    return np.where(np.isfinite(f[:, -1]), knots.inverted(f, q), np.nan)


def crossings(knots: Knots, masses: Float, q: float) -> int:
    """How often F̂ of one measure (1, S) crosses q."""
    below = knots.function(masses)[0] < q - FLAT
    return int(np.sum(below[1:] != below[:-1])) + int(not below[0])

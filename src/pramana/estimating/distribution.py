"""The reverted distribution of a column within domains, and how wide a kernel over it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pramana.arrays import Float, Int
from pramana.errors import DataError, quoted, quoted_terms
from pramana.estimating.cells import Factor, cell_labels, count_cells, factor_of, reverted_cells
from pramana.estimating.equation import About, Direct, Equation, Note
from pramana.estimating.function import EstimatingFunction
from pramana.estimating.generalized_linear import as_numbers
from pramana.estimating.records import Records
from pramana.estimating.rounding import settled
from pramana.frames import Schema, Table
from pramana.frames.levels import all_numbers

QUARTILE_WIDTH = 0.02
"""Quartiles are averaged over levels this far to either side, so that rounding in the weights cannot make them jump."""


FLAT = 1e-11
"""A distribution function this close to a level has reached it: where it is flat there, rounding would decide where it does."""

SHARP = 1e-6
"""Times its width, a kernel is a step."""


def default_bandwidth(spread: float, size: float) -> float:
    """n^(−1/3) robust standard deviations: its square is small next to a standard error."""
    return spread * size ** (-1 / 3)


def robust_spread(values: Float, weights: Float, floor: float = 0.0) -> float | None:
    """The smaller of standard deviation and interquartile range over 1.349 under the weights; None where both are ≤ floor.

    A row with weight 3 counts like three rows, one with weight 0 like none, and a factor of all weights changes nothing.

    >>> values = np.array([1.0, 2.0, 4.0, 900.0])
    >>> robust_spread(values, np.array([3.0, 2.0, 2.0, 0.0])) == robust_spread(np.repeat(values, [3, 2, 2, 0]), np.ones(7))
    True
    """
    counted = weights > 0
    values, shares = values[counted], weights[counted] / weights[counted].sum()
    deviation = float(np.sqrt(shares @ (values - shares @ values) ** 2))
    return narrower(deviation, between_quartiles(values, shares), floor)


def narrower(deviation: float, between: float, floor: float = 0.0) -> float | None:
    """The smaller of standard deviation and interquartile range over 1.349; None where both are ≤ floor."""
    return min((s for s in (deviation, between / 1.349) if s > floor), default=None)


def between_quartiles(values: Float, shares: Float) -> float:
    """The distance of the quartiles, each the mean of the quantiles at levels around it."""
    order = np.argsort(values, kind="stable")
    ordered, edges = values[order], np.concatenate([[0.0], np.cumsum(shares[order])])
    low, high = (_averaged_quantile(ordered, edges, q) for q in (0.25, 0.75))
    return high - low


def _averaged_quantile(ordered: Float, edges: Float, q: float) -> float:
    inside = np.diff(np.clip(edges, q - QUARTILE_WIDTH, q + QUARTILE_WIDTH))
    return float(inside @ ordered / inside.sum())


PLACES = 4_000
"""Most places of a grid on which a distribution is estimated."""
WEAK = 4.0
"""Standard errors of a domain's reverted share below which its own estimates are hardly normal."""


def kernel(t: Float, h: float) -> Float:
    """The smoothed step K(t/h): 0 up to −h, 1 from h on; a plain step for h = 0."""
    if h == 0:
        return (t >= 0).astype(float)
    return np.clip((t / h + 1) / 2, 0.0, 1.0)


@dataclass(frozen=True)
class Knots:
    """Where F̂ bends: linear in between, or a step that starts at a knot for h = 0."""

    points: Float
    order: Int
    h: float

    @classmethod
    def of(cls, values: Float, h: float) -> Knots:
        points = values if h == 0 else np.concatenate([values - h, values + h])
        order = np.argsort(points, kind="stable")
        return cls(points[order], order, h)

    def function(self, masses: Float) -> Float:
        """F̂ at the knots (B, T); not a number without mass."""
        total = masses.sum(axis=1, keepdims=True)
        return self.summed(masses, np.where(total > 0, total, np.nan))

    def summed(self, masses: Float, total: Float) -> Float:
        """What lies below the knots (B, T), as shares of a total (B, 1)."""
        if self.h == 0:
            return np.asarray(np.cumsum(masses[:, self.order] / total, axis=1))
        scaled = masses / (2 * self.h * total)
        slopes = np.cumsum(np.concatenate([scaled, -scaled], axis=1)[:, self.order], axis=1)
        slopes[:, 1:] = slopes[:, :-1] * np.diff(self.points)
        slopes[:, 0] = 0.0 * total[:, 0]
        return np.asarray(np.cumsum(slopes, axis=1))

    def lengths(self, f: Float, q: float) -> Float:
        """Length of {t : F̂(t) < q} (B,), from the first knot on."""
        gaps = np.diff(self.points)
        below = f < q - FLAT
        out = (below[:, :-1] & below[:, 1:]) @ gaps
        row, j = np.nonzero(below[:, :-1] != below[:, 1:])
        left, right = f[row, j], f[row, j + 1]
        share = np.minimum((q - np.minimum(left, right)) / np.abs(right - left), 1.0)
        return np.asarray(out + np.bincount(row, share * gaps[j], minlength=len(f)))

    def quantile(self, f: Float, share: float) -> float:
        """The quantile of the rearrangement of one F̂ (1, T): infinite for shares beyond 0 and 1, but for levels, which end."""
        if self.h and not 0 < share < 1:
            return np.inf if share > 0 else -np.inf
        return float(self.inverted(f, share)[0])

    def inverted(self, f: Float, q: float) -> Float:
        """The quantile (B,) of the increasing rearrangement of each F̂ (B, T)."""
        if self.h == 0:
            return np.asarray(self.points[np.minimum(np.sum(f < q - FLAT, axis=1), len(self.points) - 1)])
        return np.asarray(self.points[0] + self.lengths(f, q))


@dataclass(frozen=True)
class Distribution:
    """A signed measure on numbers for every domain.

    Attributes
    ----------
    values : the support (S,): the records' own numbers, or the levels of a perturbed column.
    cells : reverted domain indicators (n, G) where the support is the records, (n, G, S) where it is the levels.
    domains : labels (G), empty for the whole population.
    size : effective number of records.
    given : the default half-width of a kernel where it is known; else it follows from the values under `learning`, row weights (n,).
    """

    values: Float
    cells: Float
    domains: tuple[str, ...]
    size: float
    given: float | None = None
    learning: Float | None = field(default=None, repr=False)

    @classmethod
    def of(cls, records: Records, column: str, by: Sequence[Factor], levels: Factor | None) -> Distribution:
        labels = tuple(cell_labels(by)) if by else ()
        if levels is None:
            values = as_numbers(records.columns[column], column)
            return cls(values, reverted_cells(records, by), labels, records.n).tuned(np.ones(records.n), records.n)
        cells = reverted_cells(records, (*by, levels))
        shape = (records.n, count_cells(by), len(levels.levels))
        return cls(np.asarray(levels.levels, dtype=float), cells.reshape(shape), labels, records.n)

    def tuned(self, weights: Float, size: float) -> Distribution:
        """With the window of weighted records (n,) that are worth `size` records of equal weight."""
        return replace(self, size=size, learning=weights)

    @cached_property
    def window(self) -> float:
        """Default half-width of a kernel, found when it is asked for; 0 where the support is the levels."""
        if self.given is not None:
            return self.given
        if self.discrete or self.learning is None:
            return 0.0
        spread = robust_spread(self.values, self.learning)
        return default_bandwidth(1.0 if spread is None else spread, self.size)

    def rows(self, rows: slice) -> Distribution:
        """Of some of the records."""
        learning = None if self.learning is None else self.learning[rows]
        return replace(
            self, values=self.values if self.discrete else self.values[rows], cells=self.cells[rows], learning=learning
        )

    @property
    def discrete(self) -> bool:
        return self.cells.ndim == 3

    def below(self, t: float, h: float) -> Float:
        """Reverted share below t of a point of the support (S,), smoothed over t ± h."""
        return kernel(t - self.values, h)

    def both_below(self, s: float, t: float, h: float) -> Float:
        """The reverted product (S,) of the shares below s and t."""
        return kernel(s - self.values, h) * kernel(t - self.values, h)

    def near(self, t: float, h: float) -> Float:
        """Whether a point of the support lies within t ± h (S,), reverted."""
        return (np.abs(t - self.values) <= h).astype(float)

    def knots(self, h: float) -> Knots:
        return Knots.of(self.values, h)

    @property
    def count(self) -> int:
        return self.cells.shape[1]

    def member(self, domain: int | None) -> Float:
        """Reverted membership (n,) or (n, S) of a domain; None is everyone."""
        return np.asarray(self.cells.sum(axis=1) if domain is None else self.cells[:, domain])

    def masses(self, weights: Float, domain: int | None) -> Float:
        """The measure (B, S) under row weights (B, n); not a number where its mass is 0 up to rounding."""
        member = self.member(domain)
        found = weights @ member if self.discrete else weights * member
        whole, sizes = (m.sum(axis=1) if self.discrete else m for m in (member, np.abs(member)))
        found[settled(weights @ whole, weights @ sizes) == 0] = np.nan
        return np.asarray(found)

    def per_record(self, psi: Float, domain: int | None) -> Float:
        """Each record's part (n,) in the sum of ψ (S,) over the measure."""
        member = self.member(domain)
        return np.asarray(member @ psi if self.discrete else member * psi)

    def counted(self, weights: Float, domain: int | None, chosen: Float) -> float:
        """Records of a domain on the part of the support that is chosen, by shares (S,) between 0 and 1.

        (Σ w c |q|)² / Σ w c q² with reverted memberships q: the number of records where all q are 1, and where they have both signs
        as many records of equal size as carry the sum.
        """
        member = self.member(domain)
        first, second = (m @ chosen if self.discrete else m * chosen for m in (np.abs(member), member**2))
        squares = max(float(weights @ second), 1e-300)
        return self.size * float(weights @ first) ** 2 / squares / float(weights.sum())

    def shares(self, weights: Float, squares: Float) -> tuple[Float, Float]:
        """Reverted shares (G,) of the domains and their standard errors, of records with these weights in a variance (n,)."""
        members = np.stack([self.per_record(np.ones_like(self.values), g) for g in range(self.count)], axis=1)
        shares = settled(weights @ members, weights @ np.abs(members)) / weights.sum()
        errors = np.sqrt(squares @ (members - shares) ** 2) / weights.sum()
        return shares, errors


def support_of(column: str, table: Table, schema: Schema) -> Factor | None:
    """The levels of a perturbed column, which must be numbers; None for a clean one, and for one with noise that left some numbers as they were. On a
    grid the levels are all places that stand for released numbers."""
    if column not in schema or schema[column].keeps:
        as_numbers(table.column(column), column)
        return None
    lattice = schema[column].lattice
    if lattice is not None:
        return _places(column, as_numbers(table.column(column), column), *lattice)
    factor = factor_of(column, table, schema)
    if not all_numbers(factor.levels):
        raise DataError(f"column {column!r} has levels that are not numbers: use proportions({column!r})")
    return factor


def _places(column: str, values: Float, step: float, reach: float) -> Factor:
    beyond = np.rint(reach / step)
    low, high = np.rint(values.min() / step) - beyond, np.rint(values.max() / step) + beyond
    if high - low > PLACES:
        raise DataError(
            f"column {column!r} and what stands for its numbers take {high - low:.0f} steps of {step:g}, and a distribution on a grid has at most {PLACES}: "
            "have it released with a coarser step or less noise, or set far values aside"
        )
    return Factor(column, tuple((np.arange(low, high + 1) * step).tolist()), "numeric")


class Functional(ABC):
    """A parameter of the distribution within domains, such as a quantile or a Gini coefficient.

    Attributes
    ----------
    name : of the parameter, without its domain.
    plausible : smallest and largest value that makes sense, or None.
    reason : why the parameter may not exist, for the error.
    """

    if TYPE_CHECKING:  # to be read; a subclass has a field or a property

        @property
        def name(self) -> str: ...
        @property
        def plausible(self) -> tuple[float, float] | None: ...
        @property
        def reason(self) -> str: ...

    def names(self, domains: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the parameters (d): one for each domain by default."""
        return tuple(f"{self.name}[{d}]" for d in domains) or (self.name,)

    @abstractmethod
    def solve(self, measure: Distribution, weights: Float) -> Float:
        """The parameters (B, d) under row weights (B, n); NaN where a domain vanishes."""

    @abstractmethod
    def pieces(self, measure: Distribution, beta: Float, reference: Float) -> list[tuple[int | None, Float]]:
        """For each parameter its domain (None is everyone) and ψ on the support (S,), linearised at the reference weights."""

    def slope(self, measure: Distribution, beta: Float, weights: Float) -> Float:  # noqa: ARG002
        """Σ w ∂ψ (d, d); by default of a ψ that is something less β in each domain."""
        return -np.diag([float(measure.masses(weights[None], g).sum()) for g in range(measure.count)])

    def outer(self, measure: Distribution, beta: Float, reference: Float, weights: Float) -> Float:
        """Reverted Σ w ψψᵀ (d, d). Different domains do not overlap; everyone overlaps with each of them."""
        pieces = self.pieces(measure, beta, reference)
        out = np.zeros((len(pieces), len(pieces)))
        for j, (g, left) in enumerate(pieces):
            for k, (h, right) in enumerate(pieces):
                if g == h or g is None or h is None:
                    out[j, k] = weights @ measure.per_record(left * right, h if g is None else g)
        return out

    def gathered(self, measure: Distribution) -> Distribution | None:
        """The distribution on the few values whose masses are all that the parameters need; None where they need every number."""
        return measure if self.invertible and measure.discrete else None

    def sharp(self, measure: Distribution) -> Functional:  # noqa: ARG002
        """Without a kernel that serves to find the parameters."""
        return self

    @property
    def invertible(self) -> bool:
        """`inverted` is known."""
        return False

    def inverted(self, measure: Distribution, scores: Float, weights: Float) -> Float:
        """The parameters (k, d) at which Σ w ψ takes given values (k, d)."""
        raise NotImplementedError("the score of this functional is not inverted")

    def levels(self, scores: Float, mass: float | Float) -> Float:
        """The shares below that scores stand for, where the score of a mass is inverted."""
        raise NotImplementedError("the score of this functional is not inverted")

    def width(self, measure: Distribution) -> float:
        """Half-width of the kernel that smooths the share below, where the score is inverted."""
        raise NotImplementedError("the score of this functional is not inverted")

    def facts(self, measure: Distribution) -> dict[str, str]:  # noqa: ARG002
        """What was chosen and how."""
        return {}

    def notes(self, measure: Distribution, beta: Float, weights: Float) -> list[Note]:  # noqa: ARG002
        """What the analyst should know at the root."""
        return []


@dataclass(frozen=True)
class DistributionFunction(EstimatingFunction):
    """A functional of the distribution of a column within domains, waiting for records."""

    functional: Functional
    column: str
    by: tuple[Factor, ...]
    levels: Factor | None
    smooth: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.functional.names(tuple(cell_labels(self.by)) if self.by else ())

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.column, *(f.name for f in self.by))

    def equation(self, records: Records) -> DistributionEquation:
        return DistributionEquation(self, records, self.measured(records), np.ones(records.n))

    def measured(self, records: Records) -> Distribution:
        """The distribution of records."""
        return Distribution.of(records, self.column, self.by, self.levels)


@dataclass(frozen=True)
class DistributionEquation(Equation, Direct):
    """U_j = 1{domain j} ψ_j(y; β), solved by plugging the reverted distribution into the functional.

    `reference` holds the row weights at which the functional is linearised, and `linearised` the measure, where that is another one.
    """

    function: DistributionFunction
    records: Records
    measure: Distribution
    reference: Float
    linearised: Distribution | None = None

    @property
    def adds(self) -> bool:
        """Whether the masses of a few values are all that the parameters need of the records."""
        return self._gathered is not None

    @cached_property
    def _gathered(self) -> Distribution | None:
        return self.function.functional.gathered(self.measure)

    @property
    def about(self) -> About:
        functional = self.function.functional
        sharp = functional.sharp(self.measure)
        return About(
            self.function.parameters,
            smooth=self.function.smooth,
            profiled=False,
            curvatures=(),
            whole=not self.adds,
            ranked=functional.invertible and type(self.measure) is Distribution and not self.measure.discrete,
            sharp=None if sharp is functional else replace(self, function=replace(self.function, functional=sharp)),
            inverted=functional.invertible,
            plausible=functional.plausible,
            facts=functional.facts(self.measure),
        )

    @property
    def direct(self) -> Direct:
        return self

    def rows(self, rows: slice) -> DistributionEquation:
        """Of some of the records, for sums at given parameters; the solution of continuous numbers needs all."""
        linearised = None if self.linearised is None else self.linearised.rows(rows)
        return replace(
            self,
            records=self.records.rows(rows),
            measure=self.measure.rows(rows),
            reference=self.reference[rows],
            linearised=linearised,
        )

    def under(self, records: Records) -> DistributionEquation:
        """ψ stays linearised at this measure."""
        other = self.function.equation(records).learned(self.reference, self.measure.size)
        return replace(other, linearised=self.linearised or self.measure)

    def learned(self, weights: Float, size: float) -> DistributionEquation:
        """Linearised, and with the kernels chosen, at row weights that are worth `size` equal records."""
        measure = self.measure.tuned(*self.records.learning(weights, size))
        return replace(self, measure=measure, reference=weights, linearised=None)

    def taught(self, by: DistributionEquation) -> DistributionEquation:
        return replace(self, measure=replace(self.measure, size=by.measure.size, given=by.measure.window))

    def moments(self, weights: Float) -> Float:
        """Masses of levels and their absolute sums by domain, next to each other; of continuous numbers all records are needed: the
        weights themselves."""
        if self._gathered is None:
            return weights
        cells = self._gathered.cells
        sizes = np.abs(cells).sum(axis=2)
        return np.concatenate(
            [weights @ cells.reshape(self.n, -1), weights @ sizes, weights.sum(axis=1)[:, None]], axis=1
        )

    def solution(self, moments: Float) -> Float:
        measure, weights = self._standing(moments)
        with np.errstate(all="ignore"):
            return np.asarray(self.function.functional.solve(measure, weights))

    def inverted(self, scores: Float, moments: Float) -> Float:
        measure, weights = self._standing(moments[None])
        return self.function.functional.inverted(measure, scores, weights[0])

    def _standing(self, moments: Float) -> tuple[Distribution, Float]:
        """A distribution and row weights (B, n) with these moments: that of the records, or one row for the mass of every level."""
        if self._gathered is None:
            return self.measure, moments
        _, domains, levels = self._gathered.cells.shape
        size = domains * levels
        masses, sizes = moments[:, :size].reshape(-1, domains, levels), moments[:, size:-1]
        masses = np.where(settled(masses.sum(axis=2), sizes)[..., None] == 0, 0.0, masses)
        alone = replace(self._gathered, cells=np.eye(size).reshape(size, domains, levels))
        return alone, masses.reshape(-1, size)

    def refusal(self, moments: Float) -> str:
        if self.adds:
            shares = self._standing(moments[None])[1].reshape(self.measure.count, -1).sum(axis=1) / moments[-1]
        else:
            shares = self.measure.shares(moments, moments)[0]
        gone = [f"{quoted(d)} ({s:.4g})" for d, s in zip(self.measure.domains, shares, strict=False) if s <= 0]
        if not gone:
            return f"{quoted_terms(self.function.parameters)} cannot be computed: {self.function.functional.reason}"
        return (
            f"the reverted share of the domain(s) {', '.join(gone[:5])} is not positive, so nothing can be said about them: "
            "merge them with others before the release, or use more records"
        )

    def remarks(self, beta: Float, weights: Float, covariance: Float, squares: Float) -> list[Note]:  # noqa: ARG002
        shares, errors = self.measure.shares(weights, squares)
        faint = [
            f"{d} ({s:.3g} ± {e:.2g})"
            for d, s, e in zip(self.measure.domains, shares, errors, strict=False)
            if s < WEAK * e
        ]
        out = self.function.functional.notes(self.measure, beta, weights)
        if faint:
            text = f"the reverted share of {', '.join(faint)} is within {WEAK:g} standard errors of zero: read its rows with caution"
            out = [*out, ("faint-domain", "warning", text)]
        return out

    def influence(self, beta: Float) -> Float:
        return np.stack([self.measure.per_record(psi, g) for g, psi in self._pieces(beta)], axis=1)

    def slope(self, beta: Float, weights: Float) -> Float:
        return self.function.functional.slope(self.measure, beta, weights)

    def clean_outer(self, beta: Float, weights: Float) -> Float:
        return self.function.functional.outer(self.measure, beta, self.reference, weights)

    def _pieces(self, beta: Float) -> list[tuple[int | None, Float]]:
        return self.function.functional.pieces(self.linearised or self.measure, beta, self.reference)

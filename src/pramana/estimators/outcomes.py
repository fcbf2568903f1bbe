"""All the ways in which a record can be released, where they are few, and the intervals that follow from their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from pramana.analysis.task import Task
from pramana.arrays import Bool, Column, Float
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine, Sampling
from pramana.errors import PramanaError
from pramana.estimating.equation import Constraint, OfMeans, Quotients
from pramana.estimators.method import EquationMethod
from pramana.frames import Level, Table, decode, read
from pramana.inference import Sandwich
from pramana.inference.limits import JoinedLimits, Limits, SomeLimits
from pramana.inference.restricted import Estimated, FunctionLimits, QuotientLimits, Released, standard_error
from pramana.inference.shares import SMALL, BinomialLimits
from pramana.mechanism.channels.reports import ReportChannel

FEW_VALUES = 50
"""Distinct values of a clean column above which its records are not counted by value."""
HEAD = 2000
"""Records among which a column with many values shows that."""
WAYS = 2000
"""Largest number of ways of release that are written out."""
SIZE = 2_000_000
"""Largest number of terms (ways of release × parameters)."""
NORMAL = 1.959963984540054
NOTHING = 1e-11
"""Variance of a mean over that of one record of its own size, below which the records may all be alike."""
EQUAL = 1e-9
"""Relative distance within which two reverted values are one."""


@dataclass(frozen=True)
class Outcomes:
    """Every way in which a record can be released, whether it occurs or not.

    Attributes
    ----------
    table : one record for each way.
    """

    table: Table

    @classmethod
    def of(cls, method: EquationMethod, task: Task) -> Outcomes | None:
        """None where they are too many to be written out."""
        groups = _groups(method, task)
        if groups is None or np.prod([float(len(values)) for _, values in groups]) > WAYS:
            return None
        places = np.indices([len(values) for _, values in groups]).reshape(len(groups), -1)
        columns: dict[str, Column] = {}
        for (names, values), place in zip(groups, places, strict=True):
            parts = [values] if len(names) == 1 else list(zip(*values, strict=True))
            columns |= {name: decode(place, part) for name, part in zip(names, parts, strict=True)}
        return cls(read(columns))


def _groups(method: EquationMethod, task: Task) -> tuple[tuple[tuple[str, ...], tuple[Level, ...]], ...] | None:
    """Columns that belong together, and their values: one column that is clean or perturbed alone, several that were perturbed
    together."""
    function, mechanism = task.function, task.mechanism
    wanted = [*function.variables, *(() if task.domain is None else task.domain.variables)]
    used = [] if mechanism is None else mechanism.used_by(wanted)
    out: list[tuple[tuple[str, ...], tuple[Level, ...]]] = []
    for assignment in used:
        if assignment.channel.levels is None or isinstance(assignment.channel, ReportChannel):  # reports are no levels
            return None
        out.append((assignment.columns, assignment.channel.levels))
    known = {name for names, _ in out for name in names}
    context = [name for a in used for name in a.channel.context] if method.reverts else []
    for name in dict.fromkeys([*wanted, *context]):
        if name in known:
            continue
        values = _few_values(task.table.column(name), number=name in function.numbers)
        if values is None:
            return None
        out.append(((name,), values))
    return tuple(out)


def _few_values(values: Column, *, number: bool) -> tuple[Level, ...] | None:
    """The levels that a clean column has, as far as its records show; None where they are many.

    Of the values that a number can have, records do not tell, except where it is 0 or 1.
    """
    import pandas as pd

    found: list[Level] = []
    for part in (values[:HEAD], values):
        found = pd.unique(pd.Series(part)).tolist()
        if len(found) > FEW_VALUES or (number and not set(found) <= {0, 1}):
            return None
    return (0, 1) if number else tuple(found)


def _keys(means: Quotients | OfMeans) -> Float:
    """One number for the terms of each record (n,), which tells different terms apart."""
    if isinstance(means, Quotients):
        parts = [means.above, means.below]
    else:
        parts = [means.terms] if means.member is None else [means.terms, means.member[:, None]]
    random = np.random.default_rng(0)
    return np.asarray(sum(part @ random.uniform(1, 2, part.shape[1]) for part in parts))


@dataclass(frozen=True)
class Interval:
    """The fit as far as it has gone, from which intervals are made.

    Attributes
    ----------
    covariance : (d, d) of β̂.
    df : degrees of freedom of that covariance, or None.
    """

    method: EquationMethod
    task: Task
    engine: Engine
    beta: Float
    covariance: Float
    df: float | Float | None
    level: float

    @cached_property
    def outcomes(self) -> Outcomes | None:
        if not self.engine.about.of_means or not (self.method.reverts or self.method.takes_as_true):
            return None
        found = Outcomes.of(self.method, self.task)
        return None if found is None or found.table.n * self.engine.d > SIZE else found

    @cached_property
    def means(self) -> Quotients | OfMeans | None:
        """The terms of every way of release."""
        if self.outcomes is None:
            return None
        small = self.outcomes.table
        return self.method.bind(self.task.function, self.task.mechanism, small, np.ones(small.n)).equation.means()

    @cached_property
    def counts(self) -> Float:
        """Σ w by way of release (R,), found by the terms of the records; ways with equal terms count as the first of them."""
        assert self.means is not None
        ways = _keys(self.means)
        order = np.argsort(ways, kind="stable")
        apart = np.flatnonzero(np.diff(ways[order], prepend=-np.inf) > EQUAL * np.abs(ways).max())
        levels = ways[order][apart]
        between = (levels[1:] + levels[:-1]) / 2
        out = np.zeros(ways.size)
        out[order[apart]] = self.engine.counted_by(lambda e: np.searchsorted(between, _keys(e.means())), levels.size)
        return out

    @cached_property
    def unvaried(self) -> Bool:
        """Which parameters have an estimated variance of 0, or next to it as rounding leaves it (d,)."""
        return np.asarray(np.diag(self.covariance) <= NOTHING * self.beta**2 / self.sampling.n)

    @cached_property
    def still(self) -> Bool:
        """Which parameters showed no variance although their records could have differed (d,)."""
        if not self.unvaried.any() or not isinstance(self.means, Quotients):
            return np.zeros(self.engine.d, dtype=bool)
        above, below = self.means.above, self.means.below
        differs = np.abs(above - self.beta / self.scale * below) > EQUAL * np.abs(above).max(axis=0)
        seen = np.any(differs & (self.counts > 0)[:, None], axis=0)
        return self.unvaried & differs.any(axis=0) & (~seen | (np.diag(self.covariance) <= 0))

    @property
    def sampling(self) -> Sampling:
        return self.engine.sampling

    @property
    def counted(self) -> bool:
        """Whether the records are so many independent draws, of which each counts once."""
        return self.sampling.simple

    @property
    def countable(self) -> bool:
        """Whether what the sample is worth tells an interval: not around a finite population or the file, and not for weighted
        sums, which vary with the weights as well."""
        strata = self.sampling.strata
        if strata is not None and strata.target != "superpopulation":
            return False
        return self.counted or not self.engine.about.sums

    @property
    def degrees(self) -> Float:
        """Of the variance that says what the sample is worth (d,); infinite where records are independent, and where nothing
        varied, so that clusters were counted."""
        known = np.inf if self.df is None or not self.sampling.clustered else self.df
        return np.where(self.still, np.inf, known)

    @property
    def total(self) -> float:
        return self.sampling.total

    @property
    def scale(self) -> float:
        """What a mean is multiplied by to make the parameter."""
        return self.total if self.engine.about.sums else 1.0

    def worth(self, unit: Float, share: Float) -> Float:
        """How many records the sample is worth to each parameter (d,).

        Counted where records are alike; elsewhere the variance of one record over the estimated variance (Korn and Graubard, 1998), never
        more than there are records; where nothing varied, the effective size, and no more than there are clusters.

        Parameters
        ----------
        unit : variance that one record would have (d,).
        share : part of the weights that each parameter is about (d,).
        """
        s = self.sampling
        records = s.counted * share
        if self.counted:
            return records
        variance = np.diag(self.covariance) / self.scale**2
        groups = np.inf if s.live_groups is None else float(s.live_groups)
        fallback = np.minimum(s.effective_n * share, groups)
        still = unit <= EQUAL**2
        with np.errstate(all="ignore"):
            found = np.where(still | (variance <= 0), fallback, unit / variance)
        return np.minimum(found, records)

    # Shares that are binomial.

    def binomial(self, kind: Literal["mid-p", "exact"], exact_below: float) -> BinomialLimits | None:
        """Where a record says one of two things of a parameter, or is outside of its domain; None where that is so for none."""
        if not isinstance(self.means, Quotients):
            return None
        above, below = self.means.above, self.means.below
        inside = np.abs(below - 1) <= EQUAL
        outside = (np.abs(below) <= EQUAL) & (np.abs(above) <= EQUAL * np.abs(above).max(axis=0))
        low, high = np.where(inside, above, np.inf).min(axis=0), np.where(inside, above, -np.inf).max(axis=0)
        span = high - low
        near = EQUAL * span
        two = (np.abs(above - low) <= near) | (np.abs(above - high) <= near) | ~inside
        held = np.all((inside | outside) & two, axis=0) & (span > 0)
        if not held.any():
            return None
        share = np.ones(self.engine.d) if inside.all() else self.counts @ inside / self.total
        with np.errstate(all="ignore"):
            chance = np.clip((self.beta / self.scale - low) / span, 0.0, 1.0)
            trials = self.worth(chance * (1 - chance) * span**2, share)
        count = chance * trials
        whole = np.round(count)
        count = np.where(np.abs(count - whole) <= 1e-6, whole, count)
        trials, low, span = np.where(held, trials, np.nan), low * self.scale, span * self.scale
        return BinomialLimits(kind, self.level, count, trials, low, span, self.degrees, exact_below)

    # Everything else that is a function of means.

    def score(self) -> Limits | None:
        """Score limits from the counts, or from the covariance of the means; None where there are none of these kinds."""
        if not self.countable or not self.engine.about.of_means:
            return None
        if isinstance(self.means, Quotients):
            return self.quotients(self.means)
        return None if self.engine.about.shown is None else self._functions()

    def quotients(self, means: Quotients) -> QuotientLimits:
        above, below, beta = means.above, means.below, self.beta / self.scale
        counts = np.repeat(self.counts[:, None], self.engine.d, axis=1)
        chances = counts / self.total
        contrasts = above - beta * below
        contrasts = np.where(np.abs(contrasts) <= EQUAL * np.abs(above).max(axis=0), 0.0, contrasts)
        unit = (chances * contrasts**2).sum(axis=0) / (chances * below).sum(axis=0) ** 2
        worth = self.worth(unit, np.ones(self.engine.d))
        return QuotientLimits(self.level, beta, chances * worth, above, below, self.degrees, self.scale)

    def _functions(self) -> FunctionLimits:
        d, shown = self.engine.d, len(self.engine.about.shown or ())
        means, beta = self.means, self.beta
        tested: list[Any] = [None] * d
        if isinstance(means, OfMeans):
            terms, gaps = means.terms, means.constraints
            if means.member is not None:
                terms, gaps = np.column_stack([terms, means.member]), tuple(partial(_within, gap) for gap in gaps)
            for j, gap in enumerate(gaps):
                tested[j] = (Released(self.counts * self._function_worth(terms, gap, j), terms), gap)
        else:
            own = self.engine.equation.means()
            assert isinstance(own, OfMeans)
            normal = Estimated(beta[shown:], self.covariance[shown:, shown:])
            tested[:shown] = [(normal, gap) for gap in own.constraints]
        return FunctionLimits(self.level, beta, tuple(tested), self.degrees)

    def _function_worth(self, terms: Float, gap: Constraint, place: int) -> float:
        """What the weights are multiplied by, so that they add up to what the sample is worth."""
        if self.counted:
            return 1.0
        chances = Released(self.counts / self.total, terms)
        error = standard_error(chances, gap, float(self.beta[place]))
        unit, variance = error**2, float(self.covariance[place, place])
        worth = min(unit / variance, self.sampling.counted) if variance > 0 else self.sampling.effective_n
        return worth / self.total


def _within(gap: Constraint, mu: Any, value: float) -> Any:
    """A constraint on the means within a domain, whose size is the last one."""
    return gap(mu[:-1] / mu[-1], value)


@dataclass(frozen=True)
class OwnIntervals:
    """Intervals that are not an estimate plus and minus multiples of its standard error, or None for Wald's and those of the draws; and which parameters showed no variation although
    their records could have differed (d,)."""

    limits: Limits | None
    still: Bool

    @classmethod
    def none(cls, d: int) -> OwnIntervals:
        return cls(None, np.zeros(d, dtype=bool))

    def filled(self, covariance: Float) -> Float:
        """The covariance (d, d), with a standard error for what showed no variation: half the 95 % interval over 1.96."""
        if self.limits is None or not self.still.any():
            return covariance
        low, high = self.limits.at(0.95)[self.still].T
        out = covariance.copy()
        out[self.still, :] = out[:, self.still] = 0.0
        out[self.still, self.still] = ((high - low) / (2 * NORMAL)) ** 2
        return out

    def remarks(self, names: Sequence[str]) -> list[Diagnostic]:
        if not self.still.any():
            return []
        found = [repr(name) for name, still in zip(names, self.still, strict=True) if still]
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        message = (
            f"every record says the same of {', '.join(found[:5])}{more}, which shows no variance. The interval is that of a count, and the "
            "standard error half the width of the 95 % interval over 1.96"
        )
        return [Diagnostic("no-variation", "warning", message)]


def own_limits(interval: Interval, chosen: Any) -> OwnIntervals:
    """The intervals that were asked for, and whatever was asked for those of parameters that showed no variation."""
    kind = chosen.interval if isinstance(chosen, Sandwich) else "wald"
    if kind in ("mid-p", "exact"):
        return OwnIntervals(_demanded(interval, kind), interval.still)
    if kind == "score":
        return OwnIntervals(interval.score(), interval.still)
    everything = kind == "auto" and interval.countable
    if not interval.engine.about.of_means or not (everything or interval.unvaried.any()):
        return OwnIntervals.none(interval.engine.d)
    binomial = interval.binomial("mid-p", SMALL)
    others = np.ones(interval.engine.d, dtype=bool) if binomial is None else np.isnan(binomial.trials)
    wanted = others & (interval.still | (everything and interval.engine.about.tables is not None))
    parts: list[Limits] = [] if binomial is None else [binomial]
    if wanted.any() and isinstance(interval.means, Quotients):
        parts.append(SomeLimits(interval.quotients(interval.means), wanted))
    if not everything:
        parts = [SomeLimits(part, interval.still) for part in parts] if interval.still.any() else []
    return OwnIntervals(parts[0] if len(parts) == 1 else JoinedLimits(tuple(parts)) if parts else None, interval.still)


def _demanded(interval: Interval, kind: Literal["mid-p", "exact"]) -> Limits:
    found = interval.binomial(kind, np.inf if kind == "exact" else 0.0) if interval.countable else None
    lacking = np.ones(interval.engine.d, dtype=bool) if found is None else np.isnan(found.trials)
    if found is None or lacking.any():
        name = interval.engine.about.parameters[int(np.argmax(lacking))]
        raise PramanaError(
            f"{kind} intervals are for shares and counts whose records can be released in one of two ways, such as the mean of a binary "
            f"column or the proportions of a randomised response, and {name!r} is none: use Sandwich(interval='score'), or 'wald'"
        )
    if kind == "exact" and not interval.counted:
        raise PramanaError(
            "exact intervals count records of equal weight, without clusters or a design: use Sandwich(interval='mid-p'), which "
            "takes an effective sample size"
        )
    return found

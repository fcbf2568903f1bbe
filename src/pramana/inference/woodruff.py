"""Woodruff's intervals of quantiles: the standard error is that of the share below, and the share's interval is read back through the
distribution function. No density is estimated.

With q̂ where F̂ reaches p, the interval is from F̂⁻¹(p − t·se) to F̂⁻¹(p + t·se), with se the standard error of F̂ at q̂ as of any share:
between clusters or within strata where there are any. A reverted F̂ need not rise; its increasing rearrangement, which gave q̂, is inverted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from pramana.arrays import Bool, Float
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine, Totals
from pramana.engines.sampling import Sampling
from pramana.errors import DataError, PramanaError
from pramana.inference.limits import Limits
from pramana.inference.options import check_level
from pramana.inference.sandwich import Linear

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
"""Levels of which a result knows the limits without the data."""

NUDGE = 1e-9
"""Of all weights: less than that is not a record."""

WIDEST, HALVINGS = 40.0, 26
"""The largest |t| that is looked for, and how the one at which an interval just holds 0 is closed in on, to 1e-6."""

NEAR = 1e-6
"""Of |t|: intervals so little narrower and wider than one that is to hold 0."""

SHRINKINGS = 12
"""Halvings of an interval that is open, until it gives a standard error."""


@dataclass(frozen=True)
class Woodruff:
    """Intervals of quantiles from that of the share below, read back through the distribution function (Woodruff 1952).

    The default for `median` and `quantile`. The standard error shown is half the interval's width over the quantile of t, or of the
    normal (of a narrower interval where it is open); a limit is infinite where so few records lie beyond that the data set none.
    The degrees of freedom are clusters less one, or a design's sampling units less its strata.

    Parameters
    ----------
    level : the level shown; a result also knows those of 50, 80, 90, 95, 98, 99 and 99.9 %.

    >>> import pramana as pr
    >>> result = pr.fit(pr.median("age"), {"age": range(101)}, None, inference=pr.Woodruff(level=0.9))
    >>> [round(float(limit), 1) for limit in result.interval()[0]]
    [41.8, 58.2]
    """

    level: float = 0.95
    interval: Literal["woodruff"] = "woodruff"

    def __post_init__(self) -> None:
        check_level(self.level)


@dataclass(frozen=True)
class WoodruffLimits(Limits):
    """Limits (d, 2) at several levels; infinite where the data set none.

    Attributes
    ----------
    reach : |t| (d,) of the interval that just holds 0; infinite where none does, NaN where nothing varies.
    """

    level: float
    values: Mapping[float, Float]
    reach: Float
    kind: str = "woodruff"

    def zero(self, df: Float) -> Float:  # noqa: ARG002
        return self.reach

    def at(self, level: float) -> Float:
        if level not in self.values:
            raise PramanaError(
                f"Woodruff's intervals were computed at the levels {', '.join(f'{known:g}' for known in sorted(self.values))} and need the "
                f"data for {level:g}: fit again with inference=Woodruff(level={level:g})"
            )
        return self.values[level]

    def of(self, kept: Sequence[int]) -> Self:
        values = {level: limits[list(kept)] for level, limits in self.values.items()}
        return replace(self, values=values, reach=self.reach[list(kept)])

    def times(self, size: float) -> Self:
        return replace(self, values={level: limits * size for level, limits in self.values.items()})


@dataclass(frozen=True)
class Inverted(Linear):
    """A variance whose slope is the one that the interval's width implies, so that its parts and correlations are known as well."""

    limits: WoodruffLimits


def inverted(engine: Engine, totals: Totals, options: Woodruff) -> Inverted:
    """The limits around quantiles, and what they say of the variance."""
    from scipy.special import stdtrit

    df = degrees_of_freedom(engine.sampling)
    levels = sorted({*LEVELS, options.level})
    reach = np.asarray(stdtrit(np.inf if df is None else df, (1 + np.array(levels)) / 2))
    deviation = np.sqrt(np.clip(np.diag(totals.meat), 0.0, None))
    spread = deviation * np.sqrt(_between(engine.sampling))
    low, high = _limits(engine, np.outer(reach, spread))
    first, last = _outermost(engine, totals)
    low, high = np.where(first, -np.inf, low), np.where(last, np.inf, high)
    values = {level: np.column_stack(pair) for level, *pair in zip(levels, low, high, strict=True)}
    errors = _standard_errors(engine, spread, reach[levels.index(options.level)])
    scale = np.divide(errors, deviation, out=np.zeros_like(errors), where=deviation > 0)
    zero = np.where(spread > 0, _holding_zero(engine, spread, first, last), np.nan)
    return Inverted(totals, -np.diag(scale), WoodruffLimits(options.level, values, zero))


def degrees_of_freedom(sampling: Sampling) -> float | None:
    """Clusters less one, or the design's; None for records that were drawn one by one, of which there are many."""
    if sampling.strata is not None:
        return sampling.degrees_of_freedom
    groups = sampling.live_groups
    if groups == 1:
        raise DataError("all records are in a single cluster, which shows no variance: name smaller units as clusters")
    return None if groups is None else groups - 1.0


def open_ended(parameters: Sequence[str], limits: WoodruffLimits) -> list[Diagnostic]:
    """A warning for limits that the data do not set."""
    shown = limits.at(limits.level)
    names = [name for name, row in zip(parameters, shown, strict=True) if not np.isfinite(row).all()]
    if not names:
        return []
    text = (
        f"too few records lie beyond {', '.join(names)} to set every limit at level {limits.level:g}, so one is infinite: ask for a quantile "
        "nearer to the middle, larger domains or a lower level"
    )
    return [Diagnostic("open-interval", "warning", text)]


def _between(sampling: Sampling) -> float:
    """G/(G − 1): cluster sums are around their mean, which the strata of a design see to by themselves."""
    groups = sampling.live_groups if sampling.strata is None else None
    return 1.0 if groups is None else groups / (groups - 1)


def _limits(engine: Engine, moves: Float) -> tuple[Float, Float]:
    """Lower and upper limits (k, d) where the score is so far (k, d) from zero; it falls as β rises."""
    low, high = np.split(engine.inverted(np.concatenate([moves, -moves])), 2)
    return low, high


def _outermost(engine: Engine, totals: Totals) -> tuple[Bool, Bool]:
    """Whether a quantile (d,) is the smallest or the largest value there is: then no record lies beyond to set a limit."""
    nudge = NUDGE * engine.sampling.total
    first, last = engine.inverted(np.stack([totals.score + nudge, totals.score - nudge]))
    return ~np.isfinite(first), ~np.isfinite(last)


def _holding_zero(engine: Engine, spread: Float, first: Bool, last: Bool) -> Float:
    """|t| (d,) of the narrowest interval that holds 0: the score test of a quantile of 0, with the standard error at its estimate.

    Where F̂ rises that is its score at 0 over the standard error. Whether it does is seen from two intervals next to it; elsewhere
    its rearrangement decides, and is searched.
    """
    score = engine.score(np.zeros((1, len(spread))), engine.own)[0]
    positive = score > 0  # the score falls as β rises, so that the estimate lies above 0

    def holds(reach: Float) -> Bool:
        limits = engine.inverted(np.where(positive, reach, -reach) * spread)
        return np.where(positive, (limits <= 0) | first, (limits >= 0) | last)

    guess = np.divide(np.abs(score), spread, out=np.zeros_like(spread), where=spread > 0)
    before, after = holds(np.stack([guess * (1 - NEAR) - NEAR, guess * (1 + NEAR) + NEAR]))
    known = after & ~before
    if known.all():
        return guess
    low, high = np.zeros_like(guess), np.full_like(guess, WIDEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        held = holds(middle[None])[0]
        low, high = np.where(held, low, middle), np.where(held, middle, high)
    return np.where(known, guess, np.where(high < WIDEST, high, np.inf))


def _standard_errors(engine: Engine, spread: Float, reach: float) -> Float:
    """Half widths over t (d,); where a limit is infinite, those of the widest of ever smaller intervals that has none."""
    errors = np.full(len(spread), np.inf)
    for _ in range(SHRINKINGS):
        if np.isfinite(errors).all():
            break
        low, high = _limits(engine, reach * spread[None])
        errors = np.where(np.isfinite(errors), errors, (high - low)[0] / (2 * reach))
        reach /= 2
    return errors

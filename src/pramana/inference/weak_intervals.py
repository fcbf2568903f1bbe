"""Which interval a parameter gets: Wald's where the signal allows, that of the score test elsewhere, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pramana.arrays import Bool, Float
from pramana.diagnostic import Diagnostic
from pramana.engines import Engine
from pramana.errors import PramanaError
from pramana.estimating.equation import About
from pramana.inference.identification import SAFE, WANTED, Identification
from pramana.inference.limits import Limits
from pramana.inference.options import Sandwich
from pramana.inference.score_intervals import Reference, score_intervals
from pramana.inference.together import Extra

USUAL = 0.95


@dataclass(frozen=True)
class ScoreLimits(Limits):
    """Score intervals of some parameters, computed with the fit because they need the data.

    Attributes
    ----------
    level : the level shown unless another is asked for, also of Wald's.
    values : for each level (d, 2), NaN for the parameters that keep Wald's.
    roots : of the score test's statistic (d,) for the hypothesis that a parameter is 0; NaN likewise.
    """

    kind: str
    level: float
    values: dict[float, Float]
    roots: Float

    @property
    def rows(self) -> Bool:
        """Which parameters have a score interval (d,)."""
        return ~np.isnan(self.roots)

    def zero(self, df: Float) -> Float:  # noqa: ARG002
        return self.roots

    def at(self, level: float) -> Float:
        if not self.rows.any():
            return np.full((len(self.roots), 2), np.nan)
        if level not in self.values:
            known = ", ".join(f"{known:g}" for known in sorted(self.values))
            interval = "" if len(self.values) > 1 else ", interval='score'"
            raise PramanaError(
                f"score intervals were computed at level {known} and need the data for {level:g}: fit again with "
                f"inference=Sandwich(level={level:g}{interval}), or with interval='wald'"
            )
        return self.values[level]

    def of(self, kept: Sequence[int]) -> Self:
        rows = list(kept)
        return replace(self, values={k: v[rows] for k, v in self.values.items()}, roots=self.roots[rows])

    def times(self, size: float) -> Self:
        return replace(self, values={level: values * size for level, values in self.values.items()})


def limits_of(
    engine: Engine,
    beta: Float,
    errors: Float,
    chosen: Sandwich,
    judged: Identification | None,
    reference: Reference,
    extra: Extra | None = None,
) -> ScoreLimits | None:
    """Score intervals, of all parameters or of those with too faint a signal; None where all are Wald's at the usual level."""
    held, levels = np.full(engine.d, chosen.interval != "wald"), {chosen.level}
    if chosen.interval == "auto":
        faint = judged.signals < SAFE if judged is not None and not judged.divisor else ~held
        held, levels = faint & engine.about.profiled, {*chosen.tabled, chosen.level}
    if not held.any() and chosen.level == USUAL:
        return None
    rows = [int(j) for j in np.flatnonzero(held)]
    asked = sorted(levels)
    critical = {level: reference.critical(level) for level in asked}
    limits, zeros = score_intervals(engine, beta, errors, np.stack(list(critical.values())), rows, extra)
    roots = np.array([reference.t(zero, j) if held[j] else np.nan for j, zero in enumerate(zeros)])
    kind = "score" if held.all() else "auto" if held.any() else "wald"
    return ScoreLimits(kind, chosen.level, dict(zip(asked, limits, strict=True)), roots)


def interval_kinds(limits: Limits | None, about: About, interval: str) -> str:
    """Which intervals a result has."""
    held = None if limits is None else limits.limited
    if limits is None or held is None or not held.any():
        return f"{'wald' if interval == 'auto' else interval} intervals"
    if held[_shown(about)].all():
        return f"{limits.kind} intervals"
    kind = "score" if isinstance(limits, ScoreLimits) else limits.kind
    return f"wald intervals, {kind} intervals for {_listed(about.parameters, held)}"


def weakness(engine: Engine, judged: Identification, limits: Limits | None) -> list[Diagnostic]:
    """What to say of parameters with too faint a signal."""
    low = judged.signals < WANTED
    if not low.any():
        return []
    shown = limits is not None and bool(limits.limited[low & _shown(engine.about)].all())
    score = "Sandwich(interval='score'), " if engine.about.profiled and not shown else ""
    remedy = f"use {score}more records, merged levels or fewer terms"
    trust = "Wald's interval" if shown else "this interval"
    instead = "that of the score test is shown; " if shown else ""
    if judged.divisor:
        message = (
            f"too noisy to trust {trust} ({judged.divisor}: signal {judged.signals[0]:.1f}, want {WANTED:g}): {instead}use more "
            "records, or merge levels"
        )
        return [Diagnostic("weakly-identified", "warning", message)]
    if judged.lost:
        interval = "only the interval, which is that of the score test, holds; " if shown else ""
        message = (
            f"the reverted variance along {_listed(engine.about.parameters, judged.signals <= 0)} is not positive: estimate and standard "
            f"error mean nothing; {interval}{remedy}"
        )
        return [Diagnostic("not-identified", "error", message)]
    message = (
        f"too noisy to trust {trust} of {_listed(engine.about.parameters, low)} (signal {judged.signals.min():.1f}, want {WANTED:g}): "
        f"{instead}{remedy}"
    )
    return [Diagnostic("weakly-identified", "warning", message)]


def _shown(about: About) -> Bool:
    """Which parameters a result lists (d,)."""
    return np.array([about.shown is None or name in about.shown for name in about.parameters])


def _listed(names: Iterable[str], which: Bool) -> str:
    found = [repr(name) for name, one in zip(names, which, strict=True) if one]
    return ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")

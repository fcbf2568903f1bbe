"""What a released column with noise holds: numbers that the noise can have made, and, beside the original, noise that follows its law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pramana.arrays import Bool, Column, Float, Int
from pramana.disclosure.audit.auditing import Finding, Severity
from pramana.disclosure.release.streaming import Moments
from pramana.mechanism import Assignment
from pramana.mechanism.channels.additive_noise import AdditiveNoise
from pramana.mechanism.draws.perturbation import Cells

ALPHA = 1e-6
FAR = 4.75
"""Standard errors that are passed with that probability, to one side."""
FEWEST = 30
"""Records below which no variance is judged."""
BINS, GROUPS = 40, 4
"""Cells of about equal chance that noise is counted in, and groups of true values among which it must not differ."""
MIDDLE = 1 << 61
"""Added to steps of a grid, which may be negative, to make codes, which are not."""


def step_codes(assignment: Assignment, cells: Cells, *, true: bool) -> Int:
    """Numbers as codes, by the grid of each record's stratum: true ones are clamped and rounded, as before the noise."""
    out = np.zeros(cells.codes.size, dtype=np.int64)
    for stratum, noise in assignment.noises.items():
        rows = np.flatnonzero(in_stratum(assignment, cells, stratum))
        values = cells.codes[rows]
        out[rows] = noise.true_steps(values) if true else noise.released_steps(values)
    return np.where(cells.present, out + MIDDLE, -1)


def in_stratum(assignment: Assignment, cells: Cells, stratum: object) -> Bool:
    context = assignment.channel.context
    return np.ones(cells.codes.size, dtype=bool) if not context else np.asarray(cells.context[context[0]] == stratum)


def _named(assignment: Assignment, stratum: object) -> str:
    return assignment.columns[0] + (f" (stratum {stratum!r})" if stratum is not None else "")


@dataclass
class _Held:
    """Of the released numbers under one noise: moments, and how many lie where, or off the grid."""

    moments: Moments = field(default_factory=Moments)
    off_grid: int = 0
    impossible: int = 0
    at_bounds: Int = field(default_factory=lambda: np.zeros((2, 3), dtype=np.int64))

    def add(self, values: Float, noise: AdditiveNoise) -> None:
        self.moments += Moments.of(values)
        self.off_grid += int(noise.off_grid(values).sum())
        if noise.bounds is None:
            return
        low, high = noise.bounds
        reach = (noise.chances.size // 2 + 0.5) * noise.grid
        self.impossible += int(np.sum((values < low - reach) | (values > high + reach)))
        self.at_bounds += noise.at_bounds(values)


class ReleasedNumbers:
    """The released numbers of one column, block by block."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._held = {stratum: _Held() for stratum in assignment.noises}

    def add(self, values: Column, cells: Cells) -> None:
        for stratum, noise in self._assignment.noises.items():
            rows = cells.present & in_stratum(self._assignment, cells, stratum)
            self._held[stratum].add(np.asarray(values, dtype=float)[rows], noise)

    def problems(self) -> Iterator[Finding]:
        for stratum, noise in self._assignment.noises.items():
            name, held = _named(self._assignment, stratum), self._held[stratum]
            for severity, told in (*_misplaced(held, noise), *_unlikely(held, noise)):
                yield Finding("noise", severity, f"{name}: {told}")


def _misplaced(held: _Held, noise: AdditiveNoise) -> Iterator[tuple[Severity, str]]:
    """Numbers that the noise cannot have made, whatever the true ones are."""
    if held.off_grid and noise.on_grid:
        yield (
            "error",
            f"{held.off_grid} value(s) are no multiples of the step {noise.grid:g}: they were changed after the noise was added, or not made "
            "with it",
        )
    elif held.off_grid:
        yield (
            "warning",
            f"{held.off_grid} value(s) lie off the grid of {noise.grid:.3g} on which this library draws: the low bits of other programs' "
            "noise can tell the true value",
        )
    if held.impossible:
        yield (
            "error",
            f"{held.impossible} value(s) lie farther from the bounds than the noise reaches: these values were not made with it",
        )
    clipped = noise.clipped(held.at_bounds)
    if clipped is not None:
        bound, near, within = clipped
        where = f"within {within:.4g} of" if within else "at"
        yield (
            "error",
            f"{near} value(s) lie {where} the bound {bound:g} and none beyond it: they were clipped, or records left out by them, after the "
            "noise was added, which the description does not say",
        )


def _unlikely(held: _Held, noise: AdditiveNoise) -> Iterator[tuple[Severity, str]]:
    """A spread below that of the noise, or a mean that no true values within the bounds have."""
    found, spread = held.moments, float(noise.operator.spread)
    if found.count < FEWEST:
        return
    own = max(found.fourths / found.count - found.variance**2, _fourth(noise) - spread**4, 0.0)
    slack = FAR * np.sqrt(own / found.count)
    if found.variance < spread**2 - slack:
        yield (
            "error",
            f"the released values have a variance of {found.variance:.4g}, and their noise alone has {spread**2:.4g} (at least "
            f"{spread**2 - slack:.4g} in so many records, size {ALPHA:g}): these values were not made with this noise",
        )
    slack = FAR * np.sqrt(found.variance / found.count)
    if noise.bounds is not None and not noise.bounds[0] - slack <= found.mean <= noise.bounds[1] + slack:
        yield (
            "error",
            f"the true values would have a mean of {found.mean:.4g} ± {slack:.2g}, outside of their bounds {noise.bounds[0]:g} to "
            f"{noise.bounds[1]:g}: these values were not made with this noise",
        )


def _fourth(noise: AdditiveNoise) -> float:
    """E V⁴."""
    return float(noise.chances @ noise.values**4)


class DrawnNoise:
    """Released minus true numbers in steps, by stratum, counted in cells of the noise's law and in groups of true values."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._laws = [_Law(noise) for noise in assignment.noises.values()]

    def add(self, new: Int, old: Int, present: Bool) -> None:
        """Codes and strata (2 or 3, n) of released and true records."""
        for position, law in enumerate(self._laws):
            rows = present & (new[1] == position)
            law.add(new[0, rows] - old[0, rows], old[0, rows] - MIDDLE)

    def judged(self) -> list[Finding]:
        return [
            law.judged(_named(self._assignment, stratum))
            for stratum, law in zip(self._assignment.noises, self._laws, strict=True)
        ]


class _Law:
    """One noise, and what was drawn from it."""

    def __init__(self, noise: AdditiveNoise) -> None:
        self._noise = noise
        self._chances = noise.chances
        self._half = self._chances.size // 2
        self._moments = Moments()
        self._impossible = 0
        self._edges: Int | None = None
        self._counts = np.zeros((self._cells.max() + 1, GROUPS))

    @cached_property
    def _cells(self) -> Int:
        """The cell of every number of steps (2K + 1,): neighbours that have about 1/40 together."""
        before = np.cumsum(self._chances) - self._chances / 2
        return np.unique((before * BINS).astype(np.int64), return_inverse=True)[1]

    def add(self, moved: Int, true: Int) -> None:
        if not moved.size:
            return
        if self._edges is None:  # groups by the true values of the first block, which say nothing of the noise
            self._edges = np.unique(np.quantile(true, np.linspace(0, 1, GROUPS + 1)[1:-1]))
        inside = np.abs(moved) <= self._half
        self._impossible += int(np.sum(~inside))
        cell, group = self._cells[moved[inside] + self._half], np.searchsorted(self._edges, true[inside], side="right")
        size = self._counts.size
        self._counts += np.bincount(cell * GROUPS + group, minlength=size).reshape(self._counts.shape)
        self._moments += Moments.of(moved[inside].astype(float) * self._noise.grid)

    def judged(self, name: str) -> Finding:
        from pramana.disclosure.audit.contents import chi_square

        if self._impossible:
            return Finding(
                "transitions", "error", f"{name}: {self._impossible} value(s) moved farther than the noise reaches"
            )
        if self._moments.count < FEWEST:
            return Finding("transitions", "ok", f"{name}: too few records to test")
        chances = np.bincount(self._cells, self._chances)
        # Neighbouring cells together, where records are few, so that each has ten of them in a group.
        together = np.arange(chances.size) * min(1.0, self._moments.count / (10 * GROUPS * chances.size))
        first = np.unique(together.astype(np.int64), return_index=True)[1]
        counts, chances = np.add.reduceat(self._counts, first), np.add.reduceat(chances, first)
        p, freedom = chi_square(counts, chances[:, None] * counts.sum(axis=0))
        p = min(1.0, 3 * min(p, *self._by_moments()))
        said = "does not follow its law" if p < ALPHA else "follows its law"
        spread = np.sqrt(self._moments.squares / self._moments.count)
        return Finding(
            "transitions",
            "error" if p < ALPHA else "ok",
            f"{name}: the noise {said} (standard deviation {spread:.4g}, stated {float(self._noise.operator.spread):.4g}; chi-square test, "
            f"{freedom} df, mean and variance, p = {p:.3g})",
        )

    def _by_moments(self) -> tuple[float, float]:
        """p-values of the mean and of the mean square, by their normal approximation."""
        from scipy.special import ndtr

        found, spread = self._moments, float(self._noise.operator.spread)
        square = found.squares / found.count + found.mean**2
        shift = found.mean / (spread / np.sqrt(found.count))
        excess = (square - spread**2) / np.sqrt((_fourth(self._noise) - spread**4) / found.count)
        return float(2 * ndtr(-abs(shift))), float(2 * ndtr(-abs(excess)))

"""What a released column with noise holds: numbers that the noise can have made, and, beside the original, noise that follows its law."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pramana.arrays import Bool, Column, Float, Int
from pramana.disclosure.audit.auditing import Finding, Severity
from pramana.disclosure.release.streaming import Moments
from pramana.frames import Level
from pramana.mechanism import Assignment
from pramana.mechanism.channels.additive_noise import GridNoise
from pramana.mechanism.channels.joint_noise import JointGaussianNoise
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
    """Numbers of the columns as codes (q, n), by the grid of each record's stratum: true ones are clamped and rounded, as before the noise."""
    out = np.zeros((len(assignment.columns), cells.present.size), dtype=np.int64)
    for stratum, noise in _noises(assignment).items():
        rows = np.flatnonzero(in_stratum(assignment, cells, stratum))
        values = cells.codes[rows]
        out[:, rows] = (noise.true_steps(values) if true else noise.released_steps(values)).T
    return np.where(cells.present, out + MIDDLE, -1)


def code_rows(rows: Int) -> list[int]:
    """Which rows of one assignment's part of a `Pair` hold the codes of its columns."""
    return [0, *range(3, len(rows))]


def _noises(assignment: Assignment) -> Mapping[Level | None, GridNoise | JointGaussianNoise]:
    """By stratum."""
    channel = assignment.channel
    return {None: channel} if isinstance(channel, JointGaussianNoise) else assignment.noises


def in_stratum(assignment: Assignment, cells: Cells, stratum: object) -> Bool:
    context = assignment.channel.context
    return np.ones(cells.present.size, dtype=bool) if not context else np.asarray(cells.context[context[0]] == stratum)


def _named(assignment: Assignment, stratum: object) -> str:
    return " × ".join(assignment.columns) + (f" (stratum {stratum!r})" if stratum is not None else "")


@dataclass
class _Held:
    """Sums over the released numbers under one noise.

    Attributes
    ----------
    moments : of the numbers; `squares` those of what stands for the squared distance of the true ones from the middle of clamped noise.
    off_grid, impossible : how many are no multiples of the grid's step, and how many the noise cannot have made.
    at_bounds : how many are beyond, at and near the lower and the upper bound (2, 3).
    """

    moments: Moments = field(default_factory=Moments)
    squares: Moments = field(default_factory=Moments)
    off_grid: int = 0
    impossible: int = 0
    at_bounds: Int = field(default_factory=lambda: np.zeros((2, 3), dtype=np.int64))

    def add(self, values: Float, noise: GridNoise) -> None:
        self.moments += Moments.of(values)
        self.off_grid += int(noise.off_grid(values).sum())
        if noise.bounds is None:
            return
        low, high = noise.bounds
        reach = (0.5 if noise.clamps else noise.chances.size // 2 + 0.5) * noise.grid
        self.impossible += int(np.sum((values < low - reach) | (values > high + reach)))
        self.at_bounds += noise.at_bounds(values)
        if noise.clamps:
            standing, added = noise.unbiased(values)
            self.squares += Moments.of((standing - (low + high) / 2) ** 2 - added)


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


def _misplaced(held: _Held, noise: GridNoise) -> Iterator[tuple[Severity, str]]:
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


def _unlikely(held: _Held, noise: GridNoise) -> Iterator[tuple[Severity, str]]:
    """A spread below that of the noise, or a mean that no true values within the bounds have."""
    found, spread = held.moments, noise.spread
    if found.count < FEWEST:
        return
    if noise.clamps:
        yield from _narrow(held.squares, noise)
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


def _narrow(squares: Moments, noise: GridNoise) -> Iterator[tuple[Severity, str]]:
    """A mean squared distance from the middle of the bounds that no true values have: it is not negative, nor above that of the bounds. Where the bounds
    are close hardly any record is inside, with −2b² each: their variance is known, also where a file has none of them."""
    most = (noise.span / 2) ** 2
    own = max(squares.squares / squares.count, noise.spread**4 * min(1.0, noise.span / (np.sqrt(2) * noise.spread)))
    slack = FAR * np.sqrt(own / squares.count)
    if not -slack <= squares.mean <= most + slack:
        yield (
            "error",
            f"the true values would have a mean squared distance of {squares.mean:.4g} ± {slack:.2g} from the middle of their bounds, which is 0 to "
            f"{most:.4g} for all within: these values were not made with this noise",
        )


def _fourth(noise: GridNoise) -> float:
    """E V⁴."""
    return float(noise.chances @ noise.values**4)


class ReleasedTogether:
    """The released numbers of columns that share a noise, block by block: no combination of them varies less than that of the noise."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        q = len(assignment.columns)
        self._count, self._sum, self._outer = 0, np.zeros(q), np.zeros((q, q))

    @property
    def _noise(self) -> JointGaussianNoise:
        channel = self.assignment.channel
        assert isinstance(channel, JointGaussianNoise)
        return channel

    def add(self, cells: Cells) -> None:
        values = self._noise.whitened(cells.codes[cells.present])
        self._count += len(values)
        self._sum += values.sum(axis=0)
        self._outer += values.T @ values

    def problems(self) -> Iterator[Finding]:
        """In units of the noise every combination has a variance of 1 or more; the smallest sample one of n normal vectors is below
        (1 − √(q/n) − t/√n)² with a probability of at most e^{−t²/2} (Davidson and Szarek)."""
        n = self._count
        slack = (np.sqrt(self._sum.size) + np.sqrt(-2 * np.log(ALPHA))) / np.sqrt(max(n, 1))
        if n < FEWEST or slack >= 1:
            return
        mean = self._sum / n
        least = float(np.linalg.eigvalsh(self._outer / n - np.outer(mean, mean))[0])
        if least < (1 - slack) ** 2:
            yield Finding(
                "noise",
                "error",
                f"{_named(self.assignment, None)}: some combination of the released values has {least:.4g} times the variance that its noise alone "
                f"has (at least {(1 - slack) ** 2:.4g} in so many records, size {ALPHA:g}): these values were not made with this noise",
            )


class DrawnNoise:
    """Released minus true numbers in steps, by stratum, counted in cells of the noise's law and in groups of true values."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._laws = [_law(noise) for noise in _noises(assignment).values()]

    def add(self, new: Int, old: Int, present: Bool) -> None:
        """Codes and strata of released and true records, as in `Pair`."""
        own = code_rows(new)
        for position, law in enumerate(self._laws):
            rows = np.flatnonzero(present & (new[1] == position))
            moved, true = (new[own] - old[own])[:, rows].T, (old[own] - MIDDLE)[:, rows].T
            law.add(moved if len(own) > 1 else moved[:, 0], true if len(own) > 1 else true[:, 0])

    def judged(self) -> list[Finding]:
        return [
            law.judged(_named(self._assignment, stratum))
            for stratum, law in zip(_noises(self._assignment), self._laws, strict=True)
        ]


def _law(noise: GridNoise | JointGaussianNoise) -> _Law | _JointLaw | _ClampedLaw:
    if isinstance(noise, JointGaussianNoise):
        return _JointLaw(noise)
    return _ClampedLaw(noise) if noise.clamps else _Law(noise)


class _ClampedLaw:
    """A noise of which what came out was clamped: how many records are at either end, and, for the others, where the noise lies among what would
    have stayed inside, which is as likely in every part of it."""

    def __init__(self, noise: GridNoise) -> None:
        self._half = noise.chances.size // 2
        self._below = np.concatenate([[0.0], np.cumsum(noise.chances)])
        self._ends = noise.true_steps(np.array(noise.bounds))
        self._counts = np.zeros((BINS, GROUPS))
        self._edges: Int | None = None
        self._held, self._expected, self._variance = np.zeros(2), np.zeros(2), np.zeros(2)
        self.count, self.impossible = 0, 0

    def _up_to(self, steps: Int) -> Float:
        """Pr(V ≤ steps)."""
        return self._below[np.clip(steps + self._half + 1, 0, self._below.size - 1)]

    def add(self, moved: Int, true: Int) -> None:
        if not moved.size:
            return
        if self._edges is None:
            self._edges = np.unique(np.quantile(true, np.linspace(0, 1, GROUPS + 1)[1:-1]))
        low, high = self._ends[0] - true, self._ends[1] - true
        self.impossible += int(np.sum((moved < low) | (moved > high)))
        self.count += moved.size
        chances = np.stack([self._up_to(low), 1 - self._up_to(high - 1)])
        self._held += [np.sum(moved == low), np.sum(moved == high)]
        self._expected += chances.sum(axis=1)
        self._variance += (chances * (1 - chances)).sum(axis=1)
        inside = (moved > low) & (moved < high)
        room = (1 - chances.sum(axis=0))[inside]
        place = ((self._up_to(moved) + self._up_to(moved - 1)) / 2 - chances[0])[inside] / room
        cell = np.clip((place * BINS).astype(np.int64), 0, BINS - 1)
        group = np.searchsorted(self._edges, true[inside], side="right")
        self._counts += np.bincount(cell * GROUPS + group, minlength=self._counts.size).reshape(self._counts.shape)

    def judged(self, name: str) -> Finding:
        from scipy.special import ndtr

        from pramana.disclosure.audit.contents import chi_square

        if self.impossible:
            return Finding(
                "transitions", "error", f"{name}: {self.impossible} value(s) lie beyond the bounds of the noise"
            )
        if self.count < FEWEST:
            return Finding("transitions", "ok", f"{name}: too few records to test")
        apart = np.abs(self._held - self._expected) / np.sqrt(np.maximum(self._variance, 1.0))
        size = max(1, min(BINS, int(self._counts.sum() / (10 * GROUPS))))
        first = np.unique(np.arange(BINS) * size // BINS, return_index=True)[1]
        counts, widths = np.add.reduceat(self._counts, first), np.diff(np.append(first, BINS)) / BINS
        p, freedom = chi_square(counts, widths[:, None] * counts.sum(axis=0))
        p = min(1.0, 3 * min(p, *(2 * ndtr(-apart)).tolist()))
        said = "does not follow its law" if p < ALPHA else "follows its law"
        low, high = (
            f"{held:.0f} at the {end} bound, expected {known:.4g}"
            for held, end, known in zip(self._held, ("lower", "upper"), self._expected, strict=True)
        )
        return Finding(
            "transitions",
            "error" if p < ALPHA else "ok",
            f"{name}: the clamped noise {said} ({low}; {high}; chi-square test of the others, {freedom} df, p = {p:.3g})",
        )


class _JointLaw:
    """A noise that columns share: its independent parts, as they were drawn, each with its law, and no two of them correlated."""

    def __init__(self, noise: JointGaussianNoise) -> None:
        self._noise = noise
        self._laws = [_Law(part) for part in noise.parts_drawn]
        self._products = np.zeros((noise.dimension, noise.dimension))

    def add(self, moved: Int, true: Int) -> None:
        drawn = self._noise.drawn_steps(moved)
        for law, own, value in zip(self._laws, drawn.T, true.T, strict=True):
            law.add(own, value)
        unit = drawn * self._noise.grids / self._noise.factors[1]
        self._products += unit.T @ unit

    def judged(self, name: str) -> Finding:
        """The smallest p-value of all parts and of their correlations, times how many there are."""
        from scipy.special import chdtrc

        count = self._laws[0].count
        if any(law.impossible for law in self._laws):
            return Finding("transitions", "error", f"{name}: value(s) moved farther than the noise reaches")
        if count < FEWEST:
            return Finding("transitions", "ok", f"{name}: too few records to test")
        above = self._products[np.triu_indices(self._noise.dimension, 1)] / np.sqrt(count)
        p = min(1.0, 2 * float(chdtrc(above.size, above @ above)))
        p = min(p, 2 * len(self._laws) * min(law.tested()[0] for law in self._laws), 1.0)
        said = "does not follow its law" if p < ALPHA else "follows its law"
        lower, own = self._noise.factors
        spreads = np.sqrt(np.diag((lower * own) @ self._products @ (lower * own).T) / count)
        return Finding(
            "transitions",
            "error" if p < ALPHA else "ok",
            f"{name}: the joint noise {said} (standard deviations {_numbers(spreads)}, stated {_numbers(self._noise.sds)}; chi-square tests "
            f"of its {len(self._laws)} independent parts, their means, variances and correlations, p = {p:.3g})",
        )


def _numbers(values: Float) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


class _Law:
    """One noise, and what was drawn from it."""

    def __init__(self, noise: GridNoise) -> None:
        self._noise = noise
        self._chances = noise.chances
        self._half = self._chances.size // 2
        self._moments = Moments()
        self.impossible = 0
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
        self.impossible += int(np.sum(~inside))
        cell, group = self._cells[moved[inside] + self._half], np.searchsorted(self._edges, true[inside], side="right")
        size = self._counts.size
        self._counts += np.bincount(cell * GROUPS + group, minlength=size).reshape(self._counts.shape)
        self._moments += Moments.of(moved[inside].astype(float) * self._noise.grid)

    @property
    def count(self) -> int:
        return self._moments.count

    @property
    def mean_square(self) -> float:
        return self._moments.squares / self.count + self._moments.mean**2

    def judged(self, name: str) -> Finding:
        if self.impossible:
            return Finding(
                "transitions", "error", f"{name}: {self.impossible} value(s) moved farther than the noise reaches"
            )
        if self.count < FEWEST:
            return Finding("transitions", "ok", f"{name}: too few records to test")
        p, freedom = self.tested()
        said = "does not follow its law" if p < ALPHA else "follows its law"
        spread = np.sqrt(self._moments.squares / self.count)
        return Finding(
            "transitions",
            "error" if p < ALPHA else "ok",
            f"{name}: the noise {said} (standard deviation {spread:.4g}, stated {float(self._noise.spread):.4g}; chi-square test, "
            f"{freedom} df, mean and variance, p = {p:.3g})",
        )

    def tested(self) -> tuple[float, int]:
        """p-value of all tests together, and the degrees of freedom of the chi-square test among them."""
        from pramana.disclosure.audit.contents import chi_square

        chances = np.bincount(self._cells, self._chances)
        # Neighbouring cells together, where records are few, so that each has ten of them in a group.
        together = np.arange(chances.size) * min(1.0, self.count / (10 * GROUPS * chances.size))
        first = np.unique(together.astype(np.int64), return_index=True)[1]
        counts, chances = np.add.reduceat(self._counts, first), np.add.reduceat(chances, first)
        p, freedom = chi_square(counts, chances[:, None] * counts.sum(axis=0))
        return min(1.0, 3 * min(p, *self._by_moments())), freedom

    def _by_moments(self) -> tuple[float, float]:
        """p-values of the mean and of the mean square, by their normal approximation."""
        from scipy.special import ndtr

        found, spread = self._moments, float(self._noise.spread)
        shift = found.mean / (spread / np.sqrt(found.count))
        excess = (self.mean_square - spread**2) / np.sqrt((_fourth(self._noise) - spread**4) / found.count)
        return float(2 * ndtr(-abs(shift))), float(2 * ndtr(-abs(excess)))

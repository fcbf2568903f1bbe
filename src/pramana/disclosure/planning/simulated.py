"""A release tried many times before it is made: what an analysis of it would really give.

Asymptotic standard errors are those of infinitely many records. Near the limits of what noise leaves, estimates spread wider, and
some files have no root at all. So the records of the pilot are drawn anew with replacement (its empirical distribution, without a
model of anything), perturbed, and analysed as `fit` would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from pramana.analysis.task import Options, Task
from pramana.arrays import Float, Int
from pramana.disclosure.true_records import groups_of
from pramana.disclosure.utility.expected_variance import Pilot, by_unit, drawn_table
from pramana.engines import LocalEngine, Sampling
from pramana.errors import DataError, PramanaError, SolveError
from pramana.estimating import Equation, EstimatingFunction
from pramana.estimating.function import Question
from pramana.estimators import Reversion
from pramana.estimators.estimate import estimate
from pramana.estimators.method import Binding
from pramana.frames import Schema, Table
from pramana.inference import Sandwich
from pramana.inference.resampling import NORMAL_IQR
from pramana.mechanism import Mechanism
from pramana.progress import Tell, silent

REPLICATES = 400
"""Files that are drawn for one mechanism, unless a number is given."""
BUDGET = 10_000_000
"""Records of all these files together, unless a number is given: a file of a million is drawn 40 times."""
FEWEST = 40
BLOCK = 200_000
"""Records that are drawn and perturbed together."""
ROOTLESS = 0.01
"""Share of files without an answer above which a design cannot be recommended."""
MANY = 0.1
"""The same, of those that were to be drawn, at which enough has been seen: a file without an answer takes longest."""
LEVEL = 0.95


@dataclass(frozen=True)
class Simulated:
    """What `replicates` files showed of one mechanism, fewer where many failed; arrays (p,) are by parameter.

    Attributes
    ----------
    failed : files without a root, or with an answer that the library calls meaningless. The others are counted in what follows.
    sd : standard deviation of the estimates, and `error` its Monte Carlo error.
    robust : their interquartile range over that of a standard normal: what the middle of them has for a standard deviation.
    coverage : share of intervals at 95 % that hold the pilot's own value; NaN where no intervals were asked for.
    """

    replicates: int
    failed: int
    sd: Float
    error: Float
    robust: Float
    coverage: Float

    @property
    def usable(self) -> bool:
        return self.failed <= ROOTLESS * self.replicates


def replicates_of(simulate: int | None, n: int, most: int = REPLICATES) -> int:
    """How many files to draw: as many as asked for, or as the budget of records allows."""
    if simulate is None:
        return int(np.clip(BUDGET // n, FEWEST, most))
    whole = isinstance(simulate, int | np.integer) and not isinstance(simulate, bool)
    if not whole or not (simulate == 0 or simulate >= FEWEST):
        raise PramanaError(f"simulate={simulate!r} must be 0, for none, or a whole number of at least {FEWEST} files")
    return int(simulate)


def affordable(n: int) -> bool:
    """Whether the fewest files of n records are within the budget."""
    return n * FEWEST <= BUDGET


@dataclass(frozen=True)
class Trial:
    """Files of n records from a pilot's own distribution; every mechanism meets the same people and the same words."""

    pilot: Pilot = field(repr=False)
    n: int
    replicates: int
    seed: int

    def __post_init__(self) -> None:
        if not (isinstance(self.seed, int) and not isinstance(self.seed, bool) and self.seed >= 0):
            raise PramanaError(f"seed={self.seed!r} must be a whole number of at least 0")

    def of(self, mechanism: Mechanism, tell: Tell = silent, *, intervals: bool = True) -> Simulated:
        """Perturb every file and analyse it.

        Parameters
        ----------
        intervals : answer as `fit` does, with its intervals; without them it is quicker, and starts from the pilot's own values.
        """
        people = _People.of(self.pilot.table, mechanism)
        most = (MANY if intervals else ROOTLESS) * self.replicates
        found, held, linear, failed = [], [], [], 0
        for equation, sampling in self._files(mechanism, people):
            answer, inside = _answered(self.pilot, mechanism, equation, sampling, intervals=intervals)
            found.append(answer)
            held.append(inside)
            linear.append(self._linear(equation, sampling))
            tell(len(found), self.replicates)
            failed += not np.isfinite(answer).all()
            if failed > most and (len(found) >= FEWEST or not intervals):  # no answer is asked of such a design
                break
        share = people.each(self.n) / people.units
        known = not self.pilot.sums and (mechanism.unit is None or not mechanism.unit.varies)
        variance = np.diag(by_unit(self.pilot, mechanism).expected(mechanism).total) / share
        parts = np.array(linear) / share if known else None
        return _summary(np.array(found), np.array(held), parts, variance)

    def _linear(self, equation: Equation, sampling: Sampling) -> Float:
        """The linear part of the estimate (p,), for a file as large as the pilot: its variance is the asymptotic one."""
        engine = LocalEngine(equation, sampling).learned()
        return -self.pilot.inverse @ engine.score(self.pilot.estimate[None], engine.own)[0]

    def _files(self, mechanism: Mechanism, people: _People) -> Iterator[tuple[Equation, Sampling]]:
        """The equation of every file, and how its records were sampled; many files are bound at a time."""
        together = max(1, BLOCK // self.n)
        for first in range(0, self.replicates, together):
            count = min(together, self.replicates - first)
            drawn = people.drawn(np.random.default_rng([self.seed, first]), count, self.n)
            table = drawn_table(self.pilot, mechanism, drawn.rows, drawn.owner, [self.seed, first])
            whole = Reversion().bind(self.pilot.function, mechanism, table, np.ones(table.n)).equation
            for part in drawn.files:
                yield whole.rows(part), self._sampling(drawn, part)

    def _sampling(self, drawn: _Drawn, part: slice) -> Sampling:
        weights = None if self.pilot.weights is None else self.pilot.weights[drawn.rows[part]]
        clusters = None if drawn.owner is None else groups_of(drawn.owner[part])
        return Sampling(part.stop - part.start, weights, clusters=clusters)


@dataclass(frozen=True)
class _Drawn:
    """Rows of the pilot from which several files are made: which row belongs to which file, and to which person (None: each to its own)."""

    rows: Int
    files: list[slice]
    owner: Int | None


@dataclass(frozen=True)
class _People:
    """Who is drawn: records, or units with all their records. Records in the order of their units, which begin at `start`."""

    order: Int
    start: Int
    shared: bool

    @classmethod
    def of(cls, table: Table, mechanism: Mechanism) -> _People:
        unit = mechanism.unit
        if unit is None:
            return cls(np.arange(table.n), np.arange(table.n + 1), shared=False)
        codes = groups_of(table.column(unit.column))
        return cls(np.argsort(codes, kind="stable"), np.append(0, np.cumsum(np.bincount(codes))), shared=True)

    @property
    def units(self) -> int:
        return len(self.start) - 1

    def each(self, n: int) -> int:
        """How many make a file of n records; with units, on average."""
        return max(1, round(n * self.units / len(self.order)))

    def drawn(self, rng: np.random.Generator, files: int, n: int) -> _Drawn:
        """Rows of so many files of n records."""
        each = self.each(n)
        picked = rng.integers(0, self.units, files * each)
        if not self.shared:
            return _Drawn(picked, [slice(k * each, (k + 1) * each) for k in range(files)], None)
        sizes = np.diff(self.start)[picked]
        ends = np.cumsum(sizes)
        within = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
        cuts = np.append(0, ends[each - 1 :: each])
        rows = self.order[np.repeat(self.start[picked], sizes) + within]
        return _Drawn(rows, [slice(*c) for c in pairwise(cuts)], np.repeat(np.arange(len(picked)), sizes))


@dataclass(frozen=True)
class _Learned(Question):
    """An analysis whose levels are known already, so that every file has the same parameters."""

    function: EstimatingFunction

    @property
    def variables(self) -> tuple[str, ...]:
        return self.function.variables

    def prepare(self, table: Table, schema: Schema) -> EstimatingFunction:  # noqa: ARG002
        return self.function


@dataclass(frozen=True)
class _Bound(Reversion):
    """Reversion of a file that is bound already."""

    equation: Equation | None = None

    @property
    def repeats(self) -> bool:
        return False

    def bind(self, function: EstimatingFunction, mechanism: Mechanism | None, table: Table, weights: Float) -> Binding:  # noqa: ARG002
        assert self.equation is not None
        return Binding(self.equation)


class _Counted(Sandwich):
    """The answers of `fit` with intervals at one level only, whose coverage is counted."""

    @property
    def tabled(self) -> tuple[float, ...]:
        return ()


def _answered(
    pilot: Pilot, mechanism: Mechanism, equation: Equation, sampling: Sampling, *, intervals: bool
) -> tuple[Float, Float]:
    """Estimates (p,) less the pilot's own, and whether their intervals hold it; NaN for a file without an answer."""
    nothing = np.full(len(pilot.parameters), np.nan)
    plain = equation.about.smooth and not equation.about.inverted  # where `fit` chooses a sandwich
    options = Options(_Counted(level=LEVEL) if plain else None)
    if not intervals:
        options = Options(Sandwich(interval="wald"), start=pilot.estimate.tolist())
    try:
        task = Task(_Learned(pilot.function), pilot.table, mechanism, sampling, options)
        result = estimate(_Bound(equation=equation), task)
    except (SolveError, DataError):
        return nothing, nothing
    if any(d.severity == "error" for d in result.diagnostics) or not np.all(np.isfinite(result.estimate)):
        return nothing, nothing
    away = result.estimate - pilot.truth
    if not intervals:
        return away, nothing
    low, high = result.interval(LEVEL).T
    return away, ((low <= pilot.truth) & (pilot.truth <= high)).astype(float)


def _summary(away: Float, held: Float, linear: Float | None, variance: Float) -> Simulated:
    """Spread of the estimates (R, p) around their mean.

    The linear part of an estimate has a known variance. What its sample variance misses of that, the estimates' own misses as
    well, as far as the two go together: a regression on it takes that out, and most of the Monte Carlo error where asymptotics
    hold. Files without an answer would bend the linear part, so it is only used where there are none.
    """
    answered = np.isfinite(away).all(axis=1)
    kept, count = away[answered], int(answered.sum())
    if count < FEWEST / 2:
        unknown = np.full(away.shape[1], np.nan)
        return Simulated(len(away), len(away) - count, unknown, unknown, unknown, unknown)
    spread, excess = _squares(kept)
    error = excess
    if linear is not None and count == len(away):
        around, known = _squares(linear)
        slope = np.sum(excess * known, axis=0) / np.maximum(np.sum(known**2, axis=0), 1e-300)
        sure = (around > 0) & (variance > 0)
        spread = spread * np.where(sure, around / np.where(sure, variance, 1.0), 1.0) ** -slope
        error = excess - slope * known
    sd = np.sqrt(spread)
    low, high = np.quantile(kept, [0.25, 0.75], axis=0)
    return Simulated(
        len(away),
        len(away) - count,
        sd,
        sd * error.std(axis=0) / (2 * np.sqrt(count)),
        (high - low) / NORMAL_IQR,
        held[answered].mean(axis=0),
    )


def _squares(values: Float) -> tuple[Float, Float]:
    """The variance (p,) of values (R, p), and each one's share in it, less 1."""
    square = (values - values.mean(axis=0)) ** 2 * len(values) / (len(values) - 1)
    spread = square.mean(axis=0)
    return spread, square / np.where(spread > 0, spread, 1.0) - 1

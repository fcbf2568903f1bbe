"""`plan`: the keep probability, or the strength of a noise, that an analyst's precision needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pramana.analysis.question import question
from pramana.arrays import Float
from pramana.disclosure.planning.simulated import Simulated, Trial, affordable, replicates_of
from pramana.disclosure.true_records import Gaps, given_mechanism, levels_of, read_confidential
from pramana.disclosure.utility.expected_variance import Pilot, by_unit, pilot_of
from pramana.errors import PramanaError, SolveError, confidential, listing, quoted_terms
from pramana.frames import Kind, Level, Table
from pramana.frames.levels import is_number
from pramana.mechanism import Assignment, Mechanism, Stratified, TransitionMatrix
from pramana.mechanism.channel import CONDITIONS, Channel
from pramana.mechanism.channels.additive_noise import AdditiveNoise
from pramana.mechanism.mechanism import Unit
from pramana.numbers import count
from pramana.parameters.means import mean, proportions
from pramana.progress import Tell, part_of, silent
from pramana.render import Report, Sheet

PRECISION = 1e-10
TRIALS = 6
"""Most keep probabilities that are simulated on the way to the smallest one."""
ABOVE, BELOW = 0.01, 0.02
"""Shares of the standard error asked for by which the simulated one may exceed it, or fall short of it, in the end."""
CLOSE = 0.002
"""Distance of two keep probabilities below which nothing between them is tried."""
CHOSEN = "given the confidential records by which it was chosen"


@dataclass(frozen=True)
class TermTarget:
    """One term: the standard error asked for, the one to expect, and the one that clean data would give.

    Attributes
    ----------
    expected, clean : asymptotic standard errors.
    simulated, error : standard deviation of the estimates in simulated releases, and its Monte Carlo error.
    robust : the same by their interquartile range, which estimates far out do not move.
    coverage : of the 95 % intervals that `fit` gives.
    power : from the simulated standard deviation where there is one.
    """

    term: str
    target: float
    expected: float
    clean: float
    effect: float | None = None
    power: float | None = None
    simulated: float | None = None
    error: float | None = None
    robust: float | None = None
    coverage: float | None = None


@dataclass(frozen=True)
class Tried:
    """How an answer was simulated.

    Attributes
    ----------
    replicates : releases drawn for every keep probability that was tried.
    failed : those without an answer at the keep probability recommended.
    trials : keep probabilities tried.
    asymptotic_keep : what the asymptotic standard errors alone would have recommended; None for noise.
    """

    replicates: int
    failed: int
    seed: int
    trials: int
    asymptotic_keep: float | None


@dataclass(frozen=True, repr=False)
class Plan(Report):
    """The smallest keep probability of randomised response that reaches every target.

    Attributes
    ----------
    simulation : how the answer was tried out; None where it is the asymptotic one.
    """

    column: str
    analysis: str
    keep: float
    transition: TransitionMatrix
    n: int
    pilot_n: int
    targets: tuple[TermTarget, ...]
    note: str | None = None
    others: Mapping[Any, Channel] = field(default_factory=dict)
    """The channels of the other columns of the design."""
    unit: Unit | None = None
    """Whose records share their draws in the design."""
    simulation: Tried | None = None

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism({**self.others, self.column: self.transition}, self.unit)

    def to_dict(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "analysis": self.analysis,
            "keep": self.keep,
            "epsilon": self.transition.epsilon,
            "conditional": True,
            "n": self.n,
            "pilot_n": self.pilot_n,
            "targets": [dict(vars(t)) for t in self.targets],
            "simulation": None if self.simulation is None else asdict(self.simulation),
            "note": self.note,
        }

    def sheets(self) -> tuple[Sheet, ...]:
        facts: tuple[tuple[str, str], ...] = (
            ("Column", f"{self.column} ({len(self.transition)} levels)"),
            ("Analysis", self.analysis),
            ("Keep probability", f"{self.keep:.4f}{self._without_simulation()}"),
            ("Epsilon", f"{self.transition.epsilon:.4g}, {CHOSEN}"),
            ("Records", f"{count(self.n)} (pilot of {count(self.pilot_n)})"),
        )
        return (_sheet(self, facts, "keep probability"),)

    def _without_simulation(self) -> str:
        if self.simulation is None:
            return " (asymptotic, not simulated)"
        return f" (asymptotically {self.simulation.asymptotic_keep:.4f})"


@dataclass(frozen=True, repr=False)
class NoisePlan(Report):
    """The strongest noise, of the kind that the design has for a column, that reaches every target.

    Attributes
    ----------
    noise : the channel of the column. asymptotic : its standard deviation by the asymptotic standard errors alone.
    simulation : how the answer was tried out; None where it is the asymptotic one.
    """

    column: str
    analysis: str
    noise: Channel
    asymptotic: float
    n: int
    pilot_n: int
    targets: tuple[TermTarget, ...]
    note: str | None = None
    others: Mapping[Any, Channel] = field(default_factory=dict)
    unit: Unit | None = None
    simulation: Tried | None = None

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism({**self.others, self.column: self.noise}, self.unit)

    @property
    def sd(self) -> float:
        """Standard deviation of the noise; the largest of the strata."""
        return spread_of(self.noise)

    def to_dict(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "analysis": self.analysis,
            "noise": self.noise.document(),
            "sd": self.sd,
            "asymptotic": self.asymptotic,
            "epsilon": self.noise.epsilon,
            "rho": self.noise.rho,
            "conditional": True,
            "n": self.n,
            "pilot_n": self.pilot_n,
            "targets": [dict(vars(t)) for t in self.targets],
            "simulation": None if self.simulation is None else asdict(self.simulation),
            "note": self.note,
        }

    def sheets(self) -> tuple[Sheet, ...]:
        laws = [f"{'' if s is None else f'{s}: '}{noise.law}" for s, noise in _noises(self.noise).items()]
        how = "asymptotic, not simulated" if self.simulation is None else f"asymptotically {self.asymptotic:.4g}"
        facts = (
            ("Column", self.column),
            ("Analysis", self.analysis),
            ("Noise", "; ".join(laws)),
            ("Standard deviation of the noise", f"{self.sd:.4g} ({how})"),
            ("Epsilon", f"{self.noise.epsilon:.4g}, {CHOSEN}; rho {self.noise.rho:.4g}"),
            ("Records", f"{count(self.n)} (pilot of {count(self.pilot_n)})"),
        )
        return (_sheet(self, facts, "strength"),)


def _sheet(made: Plan | NoisePlan, facts: tuple[tuple[str, str], ...], what: str) -> Sheet:
    if made.others:
        facts += (("Perturbed as designed", ", ".join(Mechanism(made.others).columns)),)
    tried = made.simulation
    if tried is not None:
        facts += (
            ("Simulated", f"{tried.replicates} releases a {what}, {tried.trials} tried, seed {tried.seed}"),
            ("Without an answer", f"{tried.failed} of {tried.replicates} releases"),
        )
    columns = {"term": "term", "target": "s.e. asked for", "simulated": "simulated s.d.", "error": "±"}
    columns |= {} if tried is None or not tried.failed else {"robust": "robust s.d."}
    columns |= {"coverage": "coverage", "expected": "asymptotic s.e.", "clean": "clean s.e."}
    columns |= {"effect": "effect", "power": "power"}
    shown = {name: [vars(t)[name] for t in made.targets] for name in columns}
    kept = [name for name, values in shown.items() if any(v is not None for v in values)]
    rows = tuple(zip(*(shown[name] for name in kept), strict=True))
    return Sheet(tuple(columns[c] for c in kept), rows, "Plan", facts, (made.note,) if made.note else ())


@confidential
def plan(
    data: Any,
    column: str,
    analysis: Any = None,
    *,
    se: float | Mapping[str, float] | None = None,
    effect: Mapping[str, float] | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    n: int | None = None,
    family: Any = None,
    weights: str | None = None,
    levels: Sequence[Level] | None = None,
    kind: Kind | None = None,
    mechanism: Mechanism | str | Path | None = None,
    missing: Gaps = "error",
    simulate: int | None = None,
    seed: int = 1,
    tell: Tell = silent,
) -> Plan | NoisePlan:
    """The smallest keep probability, or the strongest noise, with which an analysis of released data is precise enough.

    The asymptotic answer is tried out: releases of n records are drawn from the pilot with replacement, perturbed and analysed, and
    the keep probability is changed until the simulated standard deviation is what was asked for (to 1 %, and up to its Monte
    Carlo error), with an answer in at least 99 % of the releases. An asymptotic standard error alone is too small where noise
    leaves little.

    It is a function of the confidential records, so the epsilon of the design is marked as conditional on them.

    Where the mechanism has noise for the column, its kind, bounds and step are kept and its strength is chosen: the expected variance is
    then an average over draws, right to about 1 %, in place of an exact sum.

    Parameters
    ----------
    data : a pilot on the custodian's side: true records.
    analysis : a formula or an estimating function; the shares of the column's levels, or the mean of a number, without it.
    se : largest standard error, one number for every term or one a term ("edu" stands for all terms of edu).
    effect : instead of `se`, effects by term to be found with probability `power` in a two-sided test at level `alpha`.
    n : records of the release; as many as the pilot without it.
    weights : column of sampling weights of the analysis.
    mechanism : what the release does to the other columns: a Mechanism, its description or a design file (TOML). What it says of
        the column itself gives its levels and kind, or its noise. Where it names a unit, whole units are drawn and share their draws.
    simulate : releases to draw for each keep probability that is tried; 0 for the asymptotic answer alone. Without it 400,
        or as many as have ten million records together, and at least 40.
    seed : of the simulated releases.
    tell : called with how much is done, and of how much.

    >>> import pramana as pr
    >>> made = pr.plan({"ill": ["no"] * 90 + ["yes"] * 10}, "ill", se=0.02, n=1000, simulate=40)
    >>> round(made.keep, 4), [round(t.expected, 6) for t in made.targets]
    (0.8341, [0.02, 0.02])
    """
    known = None if mechanism is None else given_mechanism(mechanism, data)
    noisy = known is not None and column in known.mechanism.noisy
    shares = mean(column) if noisy else proportions(column)
    wanted = question(shares if analysis is None else analysis, family)
    used = [column, *wanted.variables, *([weights] if weights else [])]
    table, _ = read_confidential(data, known, used, missing, Gaps)
    size = table.n if n is None else n
    if not (isinstance(size, int | np.integer) and size > 0):
        raise PramanaError(f"n={n!r} must be a whole number of records")
    replicates = replicates_of(simulate, int(size))
    response = _response(column, table, levels, kind, None if known is None else known.mechanism)
    pilot = pilot_of(wanted, table, response(1.0), weights)
    if pilot.sums:
        raise PramanaError("the standard error of a total grows with the file: plan for the mean or the shares instead")
    asked = _targets(pilot.parameters, se, effect, power, alpha)
    trial = Trial(pilot, int(size), replicates, seed)
    goal = _Goal(asked, pilot, by_unit(pilot, response(1.0)), trial, response)
    goal.refuse_impossible()
    first, note = goal.asymptotic()
    keep, found, trials = first, None, 0
    if replicates and pilot.columns:
        keep, trials = goal.simulated(first, tell)
        found = trial.of(response(keep), part_of(tell, TRIALS, TRIALS + 1))
        note = note if keep == first else None
    rows = tuple(_row(goal, j, s, keep, found, effect, alpha) for j, s in asked.items())
    tried = None if found is None else Tried(replicates, found.failed, seed, trials, first)
    if isinstance(response, _NoiseResponse):
        answer = (response.noise(keep), spread_of(response.noise(first)), int(size), pilot.n, rows, note)
        tried = None if tried is None else replace(tried, asymptotic_keep=None)
        return NoisePlan(column, pilot.label, *answer, response.others, response.unit, tried)
    made = response.matrix(keep)
    # Chosen by the confidential records, so that the keep probability itself tells of them.
    matrix = TransitionMatrix.from_form(made.levels, made.form, made.kind, conditional=tuple(CONDITIONS))
    others, unit = response.others, response.unit
    return Plan(column, pilot.label, keep, matrix, int(size), pilot.n, rows, note, others, unit, tried)


@dataclass(frozen=True)
class _Response:
    """Randomised response of one column, by its keep probability, beside the channels of others."""

    column: str
    levels: tuple[Level, ...]
    kind: Kind | None
    others: Mapping[Any, Channel]
    unit: Unit | None = None

    @property
    def least(self) -> float:
        """Where nothing is left of the true value."""
        return 1 / len(self.levels)

    precision = PRECISION
    chosen = "keep probability"

    def matrix(self, keep: float) -> TransitionMatrix:
        return TransitionMatrix.randomized_response(self.levels, keep, kind=self.kind)

    def __call__(self, keep: float) -> Mechanism:
        return Mechanism({**self.others, self.column: self.matrix(keep)}, self.unit)


@dataclass(frozen=True)
class _NoiseResponse:
    """A column's noise on a scale s from 0 (drowned in noise) to 1 (none): its standard deviation is (1/s − 1) times that of the true values.

    Attributes
    ----------
    times : of the strength that the design has: the least and the most that the kind of noise allows, and that at s = ½.
    """

    column: str
    design: Channel
    times: tuple[float, float, float]
    others: Mapping[Any, Channel]
    unit: Unit | None = None

    least = 0.02
    precision = 1e-4
    chosen = "strength"

    def noise(self, keep: float) -> Channel:
        low, high, middle = self.times
        return stronger(self.design, float(np.clip(middle * (1 / keep - 1), low, high)))

    def __call__(self, keep: float) -> Mechanism:
        return Mechanism({**self.others, self.column: self.noise(keep)}, self.unit)


WEAKEST = 1e-4
"""Of the standard deviation of the true values: noise so weak that it counts as none."""


def _noises(channel: Channel) -> Mapping[Any, AdditiveNoise]:
    """By stratum."""
    return {stratum: part for stratum, part in channel.parts.items() if isinstance(part, AdditiveNoise)}


def spread_of(channel: Channel) -> float:
    """Standard deviation of a noise; the largest of the strata."""
    return max(float(noise.operator.spread) for noise in _noises(channel).values())


def stronger(channel: Channel, times: float) -> Channel:
    """The same noise, so many times as strong."""
    if isinstance(channel, Stratified):
        return Stratified(channel.by, {stratum: stronger(part, times) for stratum, part in channel.strata.items()})
    assert isinstance(channel, AdditiveNoise)
    return channel.stronger(times)


def _noise_response(
    column: str, table: Table, own: Assignment, known: Mechanism, others: Mapping[Any, Channel]
) -> _NoiseResponse:
    values = np.asarray(table.column(column), dtype=float)
    spread = float(values.std())
    if not spread > 0:
        raise PramanaError(
            f"column {column!r} has one value in all records: there is nothing to hide, and no strength to choose"
        )
    if not _noises(own.channel):
        raise PramanaError(
            f"{column!r} has a {own.channel.title}, whose strength is not planned: plan for the noise before it is clamped, and see with risk(analyses=...) what "
            "clamping leaves"
        )
    held = spread / spread_of(own.channel)
    limits = [noise.strengths for noise in _noises(own.channel).values()]
    low = max(WEAKEST * held, *(least for least, _ in limits))
    high = min(most for _, most in limits)
    return _NoiseResponse(column, own.channel, (low, high, held), others, known.unit)


def _response(
    column: str, table: Table, levels: Sequence[Level] | None, kind: Kind | None, known: Mechanism | None
) -> _Response | _NoiseResponse:
    own = [] if known is None else [a for a in known.assignments if column in a.columns]
    if own and len(own[0].columns) > 1:
        raise PramanaError(
            f"{column!r} is perturbed together with {listing(own[0].columns)}: a plan is for a column alone"
        )
    designed = known.schema.variables[column] if known is not None and own else None
    rest = [] if known is None else [a for a in known.assignments if column not in a.columns]
    others = {a.columns[0] if len(a.columns) == 1 else a.columns: a.channel for a in rest}
    if known is not None and own and own[0].numeric:
        return _noise_response(column, table, own[0], known, others)
    listed = tuple(levels or (designed.levels if designed else None) or levels_of(table, column))
    unit = None if known is None else known.unit
    return _Response(column, listed, kind or (designed.kind if designed else None), others, unit)


def _targets(
    parameters: tuple[str, ...], se: Any, effect: Mapping[str, float] | None, power: float, alpha: float
) -> dict[int, float]:
    """Largest standard error by position of the parameter."""
    if (se is None) == (effect is None):
        raise PramanaError("give se, the largest standard error, or effect with power: one of the two")
    if effect is not None:
        reach = _reach(power, alpha)
        se = {name: abs(size) / reach if is_number(size) else size for name, size in effect.items()}
    if not (is_number(se) or isinstance(se, Mapping)):
        raise PramanaError(f"se={se!r} must be a number, or numbers by term such as {{'edu': 0.05}}")
    given = dict.fromkeys(parameters, se) if is_number(se) else dict(se)
    wrong = [v for v in given.values() if not (is_number(v) and 0 < v < np.inf)]
    if wrong or not given:
        raise PramanaError(
            f"{'se' if effect is None else 'effect'} must be positive numbers, by term, not {(wrong or [given])[0]}"
        )
    out: dict[int, float] = {}
    for name, value in given.items():
        for j in positions(name, parameters):
            out[j] = min(float(value), out.get(j, np.inf))
    return out


def positions(name: str, parameters: tuple[str, ...]) -> list[int]:
    """Parameters of a term: its own name, or every level of it."""
    found = [j for j, p in enumerate(parameters) if p == name or p.startswith((f"{name}[", f"C({name})["))]
    if not found:
        raise PramanaError(f"the analysis has no term {name!r}: its terms are {quoted_terms(parameters)}")
    return found


def _reach(power: float, alpha: float) -> float:
    """Standard errors that an effect must measure to be found."""
    from scipy.special import ndtri

    for name, value in (("power", power), ("alpha", alpha)):
        if not (is_number(value) and 0 < value < 1):
            raise PramanaError(f"{name}={value!r} must lie between 0 and 1")
    if power <= alpha:
        raise PramanaError(f"power={power!r} must be above alpha={alpha!r}, which pure chance gives")
    return float(ndtri(power) + ndtri(1 - alpha / 2))


@dataclass(frozen=True)
class _Goal:
    """Largest standard errors by position of the parameter, and everything that says whether a keep probability reaches them.

    Attributes
    ----------
    pilot : the analysis of the records; `whole` of the units that share a draw.
    """

    asked: Mapping[int, float]
    pilot: Pilot
    whole: Pilot
    trial: Trial
    response: _Response | _NoiseResponse

    @property
    def places(self) -> list[int]:
        return list(self.asked)

    @property
    def limits(self) -> Float:
        return np.array(list(self.asked.values()))

    @property
    def scale(self) -> float:
        return float(np.sqrt(self.pilot.n / self.trial.n))

    @property
    def clean(self) -> Float:
        """Asymptotic standard errors (p,) without any perturbation."""
        return np.sqrt(np.diag(self.whole.clean())) * self.scale

    def expected(self, keep: float) -> Float:
        """Asymptotic standard errors (p,); infinite where noise is too strong to be undone."""
        try:
            return self.whole.expected(self.response(keep)).standard_errors * self.scale
        except SolveError:
            return np.full(len(self.pilot.parameters), np.inf)

    def refuse_impossible(self) -> None:
        for j, limit in self.asked.items():
            if self.clean[j] > limit:
                needed = self._needed(int(np.ceil(self.trial.n * (self.clean[j] / limit) ** 2)), j, limit)
                raise PramanaError(
                    f"{self._target(j, limit)} cannot be reached with {self.trial.n} records: without any perturbation it is "
                    f"{self.clean[j]:.4g}; use at least {needed} records, or ask for more than {self.clean[j]:.4g}"
                )

    def _target(self, j: int, limit: float) -> str:
        term = f"{quoted_terms([self.pilot.parameters[j]])} (term {j + 1} of {len(self.pilot.parameters)})"
        return f"a standard error of {limit:.4g} for {term}"

    def _needed(self, n: int, j: int, limit: float) -> int:
        """Records without which the target is out of reach, tried out where that is not too much."""
        if not self.trial.replicates or self.response.others or not affordable(n):
            return n
        files = min(self.trial.replicates, replicates_of(None, n))
        found = replace(self.trial, n=n, replicates=files).of(self.response(1.0), intervals=False).sd[j]
        return int(np.ceil(n * (found / limit) ** 2)) if found > (1 + ABOVE) * limit else n

    def asymptotic(self) -> tuple[float, str | None]:
        """The smallest keep probability by asymptotic standard errors, and what is to be said of it."""
        low = self.response.least + 1e-4
        if self.response.others and not self._fits(1.0, self.expected):
            raise PramanaError(
                f"the standard errors asked for cannot be reached even with {self.response.column!r} unperturbed, because of what the "
                f"design does to {listing(Mechanism(self.response.others).columns)}: ask for more, or perturb these less"
            )
        if not self.pilot.columns or self._fits(low, self.expected):
            return (
                low,
                f"the targets hold whatever happens to {self.response.column!r}: any {self.response.chosen} will do",
            )
        return self._smallest(low, 1.0, self.expected), None

    def _fits(self, keep: float, errors: Callable[[float], Float]) -> bool:
        return bool(np.all(errors(keep)[self.places] <= self.limits))

    def _smallest(self, low: float, high: float, errors: Callable[[float], Float]) -> float:
        """Bisection: the variance falls as the keep probability rises."""
        while high - low > self.response.precision:
            middle = (low + high) / 2
            low, high = (low, middle) if self._fits(middle, errors) else (middle, high)
        return high

    def simulated(self, first: float, tell: Tell) -> tuple[float, int]:
        """The smallest keep probability that a simulation finds good enough, and how many were tried.

        How many times the asymptotic standard error the simulated one is changes slowly with the keep probability, so it is
        interpolated between those that were tried. Where that comes from one side twice, the step goes halfway to the other.
        """
        tried: dict[float, Simulated] = {}
        bad, good, keep, met = self.response.least, 1.0, first, None
        while len(tried) < TRIALS:
            step = part_of(tell, len(tried), TRIALS + 1)
            found = tried[keep] = self.trial.of(self.response(keep), step, intervals=False)
            excess = self._excess(found)
            before, met = met, excess <= ABOVE
            bad, good = (bad, keep) if met else (keep, good)
            if -max(BELOW, self._error(found)) <= excess <= ABOVE or good - bad < CLOSE:
                break
            keep = self._next(tried, bad, good)
            if len(tried) > 2 and met == before:
                keep = (keep + (bad if met else good)) / 2
        if good not in tried:
            tried[1.0] = self.trial.of(self.response(1.0), intervals=False)
            self._refuse_out_of_reach(tried[1.0])
        return good, len(tried)

    def _excess(self, found: Simulated) -> float:
        """By which share the worst simulated standard error exceeds what was asked for; infinite without enough answers."""
        worst = float(np.max(found.sd[self.places] / self.limits)) - 1
        return worst if found.usable else np.inf

    def _error(self, found: Simulated) -> float:
        """The Monte Carlo error of that share."""
        return float(np.max(found.error[self.places] / self.limits))

    def _next(self, tried: Mapping[float, Simulated], bad: float, good: float) -> float:
        known = sorted((keep, found) for keep, found in tried.items() if np.all(np.isfinite(found.sd)))
        middle = (bad + good) / 2
        if not known:
            return middle
        keeps = [keep for keep, _ in known]
        times = np.log([found.sd / self.expected(keep) for keep, found in known])

        def predicted(keep: float) -> Float:
            return self.expected(keep) * np.exp([np.interp(keep, keeps, t) for t in times.T])

        keep = self._smallest(bad, good, predicted)
        return keep if bad + CLOSE / 2 < keep < good - CLOSE / 2 else middle

    def _refuse_out_of_reach(self, found: Simulated) -> None:
        """Say so where not even the unperturbed column is good enough."""
        if not found.usable:
            raise PramanaError(
                f"with {self.trial.n} records, {found.failed} of {found.replicates} simulated releases have no answer even with "
                f"{self.response.column!r} unperturbed: use more records or fewer terms"
            )
        for j, limit in self.asked.items():
            if found.sd[j] > (1 + ABOVE) * limit:
                raise PramanaError(
                    f"{self._target(j, limit)} cannot be reached with {self.trial.n} records: even with {self.response.column!r} unperturbed, "
                    f"{found.replicates} simulated releases have a standard deviation of {found.sd[j]:.4g} ± {found.error[j]:.2g}; use about "
                    f"{int(np.ceil(self.trial.n * (found.sd[j] / limit) ** 2))} records, or ask for more than {found.sd[j]:.4g}"
                )


def _row(
    goal: _Goal,
    j: int,
    limit: float,
    keep: float,
    found: Simulated | None,
    effect: Mapping[str, float] | None,
    alpha: float,
) -> TermTarget:
    names, expected = goal.pilot.parameters, float(goal.expected(keep)[j])
    size = None if effect is None else min(abs(v) for k, v in effect.items() if j in positions(k, names))
    spread = expected if found is None else float(found.sd[j])
    power = None if size is None else _power(size / spread, alpha)
    numbers = () if found is None else (found.sd, found.error, found.robust, found.coverage)
    return TermTarget(
        names[j], limit, expected, float(goal.clean[j]), size, power, *(float(values[j]) for values in numbers)
    )


def _power(ratio: float, alpha: float) -> float:
    from scipy.special import ndtr, ndtri

    reach = ndtri(1 - alpha / 2)
    return float(ndtr(ratio - reach) + ndtr(-ratio - reach))


def keep_for_proportion(share: float, n: int, se: float, levels: int = 2) -> float:
    """The smallest keep probability for a standard error of a level's share, in closed form.

    With δ = keep − (1 − keep)/(K − 1), a = 1/K and b = share − a, the released share is a + δb and the reverted one has
    variance (a + δb)(1 − a − δb) / (n δ²): a quadratic equation in δ.

    >>> round(keep_for_proportion(0.1, 1000, 0.02), 4)
    0.8341
    """
    if not (0 <= share <= 1 and n > 0 and se > 0 and levels >= 2):
        raise PramanaError(
            f"share={share!r}, n={n!r}, se={se!r}, levels={levels!r}: give a share, and positive numbers"
        )
    a, b = 1 / levels, share - 1 / levels
    square, linear = n * se**2 + b**2, b * (1 - 2 * a)
    delta = (linear + np.sqrt(linear**2 + 4 * square * a * (1 - a))) / (2 * square)
    if delta > 1:
        best = np.sqrt(share * (1 - share) / n)
        raise PramanaError(
            f"a standard error of {se:.4g} cannot be reached with {n} records: without any perturbation it is {best:.4g}"
        )
    return float(delta + (1 - delta) / levels)

"""`frontier`: risk against utility over a grid of keep probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pramana.analysis.question import questions, several
from pramana.disclosure.planning.simulated import Trial, replicates_of
from pramana.disclosure.release.handling import Asked
from pramana.disclosure.risk.posterior import column_risk
from pramana.disclosure.risk.reidentification import link
from pramana.disclosure.true_records import (
    Counted,
    Missing,
    given_mechanism,
    groups_of,
    levels_of,
    read_confidential,
)
from pramana.disclosure.utility.costs import table_changes
from pramana.disclosure.utility.expected_variance import Pilot, by_unit, pilot_of
from pramana.errors import PramanaError, confidential, quoted_terms
from pramana.estimating import Family
from pramana.frames import Kind, Level, Table, build
from pramana.frames.levels import is_number
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.mechanism.channels.matrix_forms import Banded, Mixture
from pramana.numbers import count
from pramana.progress import Tell, part_of, silent
from pramana.render import Report, Sheet

REPLICATES = 200
"""Files that are drawn for every design, unless a number is given: half of a plan's, since there are many designs."""
SIMULATED = ("simulated", "error", "robust", "failed", "coverage")
GRID = (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Point:
    """One design.

    Attributes
    ----------
    keep : its keep probability, None for a mechanism that is not a randomised response.
    posterior : mean posterior of the true values given their release, the largest over the columns.
    worst_posterior : the largest posterior of any true level given any released one.
    reidentified, worst_reidentified : mean and largest chance of a correct link, None without keys.
    inflation : variance over that from the true data, of the term that loses most, asymptotically.
    effective : its effective sample size as a share; from the simulated variances where there are any.
    simulated, error : the ratio of the variances in simulated releases, and its Monte Carlo error; infinite where hardly any
        release has an answer.
    robust : the same ratio by the interquartile range of the estimates, which those far out do not move.
    failed : share of the simulated releases without an answer.
    coverage : of the 95 % intervals that `fit` gives.
    moved : expected share of a one-way table that changes, the largest over the columns.
    """

    keep: float | None
    epsilon: float
    posterior: float
    worst_posterior: float
    reidentified: float | None
    worst_reidentified: float | None
    inflation: float | None
    effective: float | None
    moved: float
    simulated: float | None = None
    error: float | None = None
    robust: float | None = None
    failed: float | None = None
    coverage: float | None = None


@dataclass(frozen=True, repr=False)
class Frontier(Report):
    """Points in order of the keep probability, and the chosen one among them or beside them."""

    columns: tuple[str, ...]
    points: tuple[Point, ...]
    chosen: Point | None
    term: str | None
    before: float | None
    prior: float
    n: int
    frame_kind: Any
    replicates: int = 0

    @property
    def table(self) -> Any:
        """One row a design, in the kind of frame that the data came in; `chosen` marks the chosen one."""
        rows = self._rows()
        return build({c: [r[c] for r in rows] for c in rows[0]}, self.frame_kind)

    def _rows(self) -> list[dict[str, Any]]:
        rest = [self.chosen] if self.chosen is not None and self.chosen not in self.points else []
        return [{**asdict(p), "chosen": p == self.chosen} for p in (*self.points, *rest)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": self.columns,
            "records": self.n,
            "term": self.term,
            "before": self.before,
            "replicates": self.replicates,
            "points": self._rows(),
        }

    def sheets(self) -> tuple[Sheet, ...]:
        names = {"posterior": "mean posterior", "worst_posterior": "worst posterior", "reidentified": "re-identified"}
        names |= {
            "worst_reidentified": "worst",
            "inflation": "variance times",
            "simulated": "simulated",
            "error": "±",
            "robust": "robust",
            "failed": "no answer",
            "effective": "effective n / n",
            "moved": "table moved",
        }
        rows = self._rows()
        hidden = {"chosen", *(() if any(r["failed"] for r in rows) else ("robust", "failed"))}
        order = [c for c in rows[0] if c not in SIMULATED]
        order[order.index("effective") : order.index("effective")] = SIMULATED
        kept = [c for c in order if c not in hidden and any(r[c] is not None for r in rows)]
        body = [
            (*("mechanism" if c == "keep" and r[c] is None else r[c] for c in kept), "←" if r["chosen"] else "")
            for r in rows
        ]
        facts = [("Columns", ", ".join(self.columns)), ("Records", count(self.n))]
        if self.term is not None:
            facts.append(("Term that loses most", self.term))
        if self.replicates:
            facts.append(("Simulated", f"{self.replicates} releases a design; the effective n is theirs"))
        if self.before is not None:
            facts.append(("Re-identified before", f"{self.before:.4f}"))
        return (Sheet((*(names.get(c, c) for c in kept), ""), tuple(body), "Risk against utility", tuple(facts)),)

    def plot(self, *, title: str = "", ax: Any = None) -> Any:
        """Utility over risk, as a matplotlib Figure; `ax` gives axes to draw into, two where there are keys."""
        from pramana.render.figures import risk_utility

        if self.chosen is None and not self.points:
            raise PramanaError("there is nothing to plot")
        utility = [self._utility(p) for p in self.points]
        chosen = self.chosen
        return risk_utility(
            self._curves(),
            utility,
            [p.keep or 0.0 for p in self.points],
            chosen=None if chosen is None else self._utility(chosen),
            chosen_label="chosen mechanism"
            if chosen is None or chosen.keep is None
            else f"chosen: keep {chosen.keep:g}",
            y_label=f"effective sample size for {self.term}, share of n"
            if self.term
            else "share of one-way table unchanged",
            title=title or f"Risk against utility: {', '.join(self.columns)} under randomised response, n = {self.n}",
            ax=ax,
        )

    def _utility(self, point: Point) -> float:
        return 1 - point.moved if point.effective is None else point.effective

    def _curves(self) -> list[Any]:
        from pramana.render.figures import DrawnLine

        chosen = self.chosen
        attribute = DrawnLine(
            "posterior of the true value, mean over records",
            [p.posterior for p in self.points],
            None if chosen is None else chosen.posterior,
            (self.prior, "without a release"),
        )
        if self.before is None:
            return [attribute]
        linked = DrawnLine(
            "chance of a correct link, mean over records",
            [p.reidentified or 0.0 for p in self.points],
            None if chosen is None else chosen.reidentified,
            (self.before, "keys unperturbed"),
        )
        return [attribute, linked]


@confidential
def frontier(
    data: Any,
    columns: str | Sequence[str],
    keeps: Sequence[float] | None = None,
    *,
    analysis: Any = None,
    family: str | Family | None = None,
    weights: str | None = None,
    keys: Sequence[str] | None = None,
    chosen: float | Mechanism | str | Path | None = None,
    levels: Mapping[str, Sequence[Level]] | None = None,
    kind: Kind | None = None,
    term: str | None = None,
    missing: Missing = "keep",
    simulate: int | None = None,
    seed: int = 1,
    tell: Tell = silent,
) -> Frontier:
    """Risk and utility of randomised response over a grid of keep probabilities, on the custodian's file.

    With an analysis, releases are drawn from the file with replacement, perturbed by every design and analysed: near the limits
    of what noise leaves, an asymptotic variance is too small, and some releases have no answer at all.

    Parameters
    ----------
    columns : the column to perturb, or several with the same keep probability.
    keeps : the grid; a usual one without it.
    analysis : a formula or an estimating function (or several) whose variance is the measure of utility.
    family : of the formulas; gaussian without it.
    weights : column of sampling weights of the analyses.
    keys : columns by which an attacker knows a person.
    chosen : the keep probability to mark, or a mechanism for the same columns: itself, its description or a design file.
    levels : levels by column; the distinct values of the file without them.
    term : the term to look at; without it the one that loses most.
    missing : as in `risk`.
    simulate : releases to draw for each design; 0 for asymptotic variances alone. Without it 200, or as many as have ten
        million records together, and at least 40.
    seed : of the simulated releases.
    tell : called with how much is done, and of how much.

    >>> import pramana as pr
    >>> data = {"ill": ["no"] * 90 + ["yes"] * 10}
    >>> front = pr.frontier(data, "ill", [0.7, 0.8, 0.9], analysis=pr.proportions("ill"), chosen=0.8, simulate=40)
    >>> [round(p.inflation, 2) for p in front.points]
    [15.58, 5.94, 2.56]
    >>> [round(p.simulated, 2) for p in front.points]
    [15.58, 5.94, 2.56]
    """
    names, plans, known = several(columns), questions(analysis, family), several(keys)
    used = [v for p in plans for v in p.variables] + several(weights)
    designed = None if chosen is None or is_number(chosen) else _without_noise(given_mechanism(chosen, data))
    base = None if designed is None else designed.mechanism
    table, _ = read_confidential(data, designed, [*names, *known, *used], missing)
    if base is not None and set(base.columns) != set(names):
        raise PramanaError(
            f"the chosen mechanism perturbs {', '.join(base.columns)} but the frontier is of {', '.join(names)}"
        )
    variables = _variables(names, table, base, levels or {}, kind)
    grid = _grid(keeps, chosen, max(1 / len(own) for own, _ in variables.values()))
    respond = TransitionMatrix.randomized_response
    unit = None if base is None else base.unit

    def response(keep: float) -> Mechanism:
        return Mechanism({c: respond(own, keep, kind=of) for c, (own, of) in variables.items()}, unit)

    made = {k: response(k) for k in grid}
    pilots = [pilot_of(p, table, made[grid[-1]], weights) for p in plans]
    at = _losing_most(pilots, made[grid[0]], term)
    tells = [part_of(tell, k, len(made) + 2) for k in range(len(made) + 2)]
    spread = None if at is None else _Spread.of(pilots[at[0]], at[1], response(1.0), simulate, seed, tells[0])
    points = {k: _point(k, m, table, known, spread, t) for (k, m), t in zip(made.items(), tells[1:], strict=False)}
    marked = points[float(chosen)] if is_number(chosen) else None  # type: ignore[arg-type]
    if base is not None:
        again = None if at is None or spread is None else spread.under(pilot_of(plans[at[0]], table, base, weights))
        marked = _point(common_keep(base), base, table, known, again, tells[-1])
    return Frontier(
        tuple(names),
        tuple(points.values()),
        marked,
        None if at is None else pilots[at[0]].parameters[at[1]],
        link(Counted.of(table), made[grid[0]], known).before_mean if known else None,
        _prior(table, names),
        table.n,
        table.kind,
        0 if spread is None else spread.trial.replicates,
    )


def _without_noise(found: Asked) -> Asked:
    """The chosen mechanism, if it is of transition matrices."""
    if found.mechanism.noisy:
        raise PramanaError(
            f"the chosen mechanism adds noise to {', '.join(found.mechanism.noisy)}, and a frontier is of keep probabilities, which noise has not: ask "
            "plan for the strength that a precision needs, and risk for what it leaves to tell, one strength at a time"
        )
    return found


def _variables(
    names: Sequence[str],
    table: Table,
    base: Mechanism | None,
    levels: Mapping[str, Sequence[Level]],
    kind: Kind | None,
) -> dict[str, tuple[Sequence[Level], Kind | None]]:
    """Levels and kind of each column: as given, as the chosen mechanism has them, or as the file shows them."""
    known = base.schema.variables if base is not None else {}
    out: dict[str, tuple[Sequence[Level], Kind | None]] = {}
    for name in names:
        own, of = (known[name].levels, known[name].kind) if name in known else (None, kind)
        out[name] = (levels.get(name) or own or levels_of(table, name), of)
    return out


def _grid(keeps: Sequence[float] | None, chosen: Any, lowest: float) -> list[float]:
    given = [float(k) for k in (GRID if keeps is None else keeps)]
    if keeps is None:
        given = [k for k in given if k > lowest + 0.02]
    if is_number(chosen):
        given.append(float(chosen))
    wrong = [k for k in given if not lowest < k <= 1]
    if wrong or not given:
        raise PramanaError(f"keep probabilities {wrong or given} must lie above {lowest:.4g} (1/K) and at most 1")
    return sorted(set(given))


def common_keep(mechanism: Mechanism) -> float | None:
    """The keep probability of a mechanism that is the same randomised response in every column; None for any other."""
    channels = [a.channel for a in mechanism.assignments]
    first = channels[0]
    if not isinstance(first, TransitionMatrix):
        return None
    keep = round(float(first.diagonal[0]), 12)
    return keep if all(isinstance(c, TransitionMatrix) and _is_response(c, keep) for c in channels) else None


def _is_response(matrix: TransitionMatrix, keep: float) -> bool:
    """Whether a matrix is randomised response with this keep probability."""
    if isinstance(matrix.form, Banded) or not keep > 1 / len(matrix):
        return False
    form = matrix.form
    moves = form.refill * form.frequencies if isinstance(form, Mixture) else form.matrix[~np.eye(form.size, dtype=bool)]
    even = np.allclose(moves, (1 - keep) / (len(matrix) - 1), rtol=0, atol=1e-9)
    return bool(even and np.allclose(matrix.diagonal, keep, rtol=0, atol=1e-9))


def _prior(table: Table, names: Sequence[str]) -> float:
    """What a guess from the frequencies alone gives the true value on average: Σ π²."""
    counts = [np.bincount(groups_of(table.column(c)[~table.missing([c])])) for c in names]
    return max(float(np.sum((c / c.sum()) ** 2)) for c in counts)


def _losing_most(pilots: Sequence[Pilot], mechanism: Mechanism, term: str | None) -> tuple[int, int] | None:
    """The analysis and parameter to look at."""
    if not pilots:
        if term is not None:
            raise PramanaError(f"term={term!r} needs an analysis: give analysis='y ~ x'")
        return None
    places = [(i, j) for i, p in enumerate(pilots) for j, name in enumerate(p.parameters) if term in (None, name)]
    if not places:
        raise PramanaError(
            f"the analysis has no term {term!r}: its terms are {quoted_terms(n for p in pilots for n in p.parameters)}"
        )
    inflation = [by_unit(p, mechanism).expected(mechanism).inflation for p in pilots]
    return max(places, key=lambda at: inflation[at[0]][at[1]])


@dataclass(frozen=True)
class _Spread:
    """How many times the variance from the true data one term has under a mechanism: by the asymptotic formula, and simulated.

    Attributes
    ----------
    oracle : its simulated standard deviation without any noise, and the Monte Carlo error of that.
    """

    trial: Trial
    place: int
    oracle: tuple[float, float]

    @classmethod
    def of(cls, pilot: Pilot, place: int, clean: Mechanism, simulate: int | None, seed: int, tell: Tell) -> _Spread:
        files = replicates_of(simulate, pilot.n, REPLICATES) if pilot.columns else 0  # no noise, nothing to try
        trial = Trial(pilot, pilot.n, files, seed)
        if not files:
            return cls(trial, place, (0.0, 0.0))
        found = trial.of(clean, tell, intervals=False)
        return cls(trial, place, (float(found.sd[place]), float(found.error[place])))

    def under(self, pilot: Pilot) -> _Spread:
        """The same analysis with levels that another mechanism has."""
        return replace(self, trial=replace(self.trial, pilot=pilot))

    def ratios(self, mechanism: Mechanism, tell: Tell) -> dict[str, float]:
        inflation = by_unit(self.trial.pilot, mechanism).expected(mechanism).inflation[self.place]
        out = {"inflation": float(inflation), "effective": 1 / float(inflation)}
        if not self.trial.replicates:
            return out
        found, (clean, doubt) = self.trial.of(mechanism, tell), self.oracle
        sd, error = float(found.sd[self.place]), float(found.error[self.place])
        ratio = (sd / clean) ** 2 if np.isfinite(sd) else np.inf
        # As if the two errors had nothing in common; the files are the same, so that they partly cancel.
        unsure = 2 * ratio * np.hypot(error / sd, doubt / clean) if np.isfinite(sd) else np.inf
        out |= {"simulated": ratio, "error": float(unsure), "effective": 1 / ratio}
        out["robust"] = float(found.robust[self.place] / clean) ** 2
        return out | {"failed": found.failed / found.replicates, "coverage": float(found.coverage[self.place])}


def _point(
    keep: float | None, mechanism: Mechanism, table: Table, keys: Sequence[str], spread: _Spread | None, tell: Tell
) -> Point:
    records = Counted.of(table)
    risks = [column_risk(a, records, None) for a in mechanism.assignments]
    tell(0, 1)
    linked = link(records, mechanism, keys, tell=part_of(tell, 0, 2)) if keys else None
    ratios = {} if spread is None else spread.ratios(mechanism, part_of(tell, 1, 2))
    return Point(
        keep,
        mechanism.epsilon,
        max(r.exposure.mean for r in risks),
        max(r.posterior for r in risks),
        None if linked is None else linked.worst_mean,
        None if linked is None else max(linked.after_largest, linked.ratio_largest),
        moved=max(
            t.moved
            for t in table_changes(lambda _: records, mechanism, ())
            if len(t.columns) == 1 or len(mechanism.assignments) == 1
        ),
        **{"inflation": None, "effective": None, **ratios},
    )

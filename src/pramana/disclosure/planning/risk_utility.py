"""`frontier`: risk against utility over a grid of keep probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pramana.analysis.question import question
from pramana.disclosure.reports import Report
from pramana.disclosure.risk.assessment import several
from pramana.disclosure.risk.posterior import column_risk
from pramana.disclosure.risk.reidentification import link
from pramana.disclosure.true_records import Missing, given_mechanism, groups_of, levels_of, read_confidential
from pramana.disclosure.utility.costs import table_changes
from pramana.disclosure.utility.expected_variance import Pilot, pilot_of
from pramana.errors import PramanaError, confidential, quoted_terms
from pramana.frames import Kind, Level, Table, build
from pramana.frames.levels import is_number
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.mechanism.channels.matrix_forms import Banded, Mixture
from pramana.progress import Tell, part_of, silent
from pramana.render import Sheet

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
    inflation, effective : variance over the oracle's, and effective sample size as a share, of the term that loses most.
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


@dataclass(frozen=True)
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
            "points": self._rows(),
        }

    def sheets(self) -> tuple[Sheet, ...]:
        names = {"posterior": "mean posterior", "worst_posterior": "worst posterior", "reidentified": "re-identified"}
        names |= {
            "worst_reidentified": "worst",
            "inflation": "variance times",
            "effective": "effective n / n",
            "moved": "table moved",
        }
        rows = self._rows()
        kept = [c for c in rows[0] if c != "chosen" and any(r[c] is not None for r in rows)]
        body = [
            (*("mechanism" if c == "keep" and r[c] is None else r[c] for c in kept), "←" if r["chosen"] else "")
            for r in rows
        ]
        facts = [("Columns", ", ".join(self.columns)), ("Records", str(self.n))]
        if self.term is not None:
            facts.append(("Term that loses most", self.term))
        if self.before is not None:
            facts.append(("Re-identified before", f"{self.before:.4f}"))
        return (Sheet((*(names.get(c, c) for c in kept), ""), tuple(body), "Risk against utility", tuple(facts)),)

    def plot(self, *, title: str = "") -> Any:
        """Utility over risk, as a matplotlib Figure."""
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
    weights: str | None = None,
    keys: Sequence[str] | None = None,
    chosen: float | Mechanism | str | Path | None = None,
    levels: Mapping[str, Sequence[Level]] | None = None,
    kind: Kind | None = None,
    term: str | None = None,
    missing: Missing = "keep",
    tell: Tell = silent,
) -> Frontier:
    """Risk and utility of randomised response over a grid of keep probabilities, on the custodian's file.

    Parameters
    ----------
    columns : the column to perturb, or several with the same keep probability.
    keeps : the grid; a usual one without it.
    analysis : a formula or an estimating function (or several) whose variance is the measure of utility.
    weights : column of sampling weights of the analyses.
    keys : columns by which an attacker knows a person.
    chosen : the keep probability to mark, or a mechanism for the same columns: itself, its description or a design file.
    levels : levels by column; the distinct values of the file without them.
    term : the term to look at; without it the one that loses most.
    missing : as in `risk`.
    tell : called with how much is done, and of how much.

    >>> import pramana as pr
    >>> data = {"ill": ["no"] * 90 + ["yes"] * 10}
    >>> front = pr.frontier(data, "ill", [0.7, 0.8, 0.9], analysis=pr.proportions("ill"), chosen=0.8)
    >>> [round(p.inflation, 2) for p in front.points]
    [15.58, 5.94, 2.56]
    """
    names, plans, known = several(columns), [question(a) for a in several(analysis)], several(keys)
    used = [v for p in plans for v in p.variables] + several(weights)
    designed = None if chosen is None or is_number(chosen) else given_mechanism(chosen, data)
    base = None if designed is None else designed.mechanism
    table, _ = read_confidential(data, designed, [*names, *known, *used], missing)
    if base is not None and set(base.columns) != set(names):
        raise PramanaError(
            f"the chosen mechanism perturbs {', '.join(base.columns)} but the frontier is of {', '.join(names)}"
        )
    variables = _variables(names, table, base, levels or {}, kind)
    grid = _grid(keeps, chosen, max(1 / len(own) for own, _ in variables.values()))
    respond = TransitionMatrix.randomized_response
    made = {k: Mechanism({c: respond(own, k, kind=of) for c, (own, of) in variables.items()}) for k in grid}
    pilots = [pilot_of(p, table, made[grid[-1]], weights) for p in plans]
    at = _losing_most(pilots, made[grid[0]], term)
    tells = [part_of(tell, k, len(made) + 1) for k in range(len(made) + 1)]
    points = {k: _point(k, m, table, known, pilots, at, t) for (k, m), t in zip(made.items(), tells, strict=False)}
    marked = points[float(chosen)] if is_number(chosen) else None  # type: ignore[arg-type]
    if base is not None:
        again = [pilot_of(p, table, base, weights) for p in plans]
        marked = _point(common_keep(base), base, table, known, again, at, tells[-1])
    return Frontier(
        tuple(names),
        tuple(points.values()),
        marked,
        None if at is None else pilots[at[0]].parameters[at[1]],
        link(table, made[grid[0]], known).before_mean if known else None,
        _prior(table, names),
        table.n,
        table.kind,
    )


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
    inflation = [p.expected(mechanism).inflation for p in pilots]
    return max(places, key=lambda at: inflation[at[0]][at[1]])


def _point(
    keep: float | None,
    mechanism: Mechanism,
    table: Table,
    keys: Sequence[str],
    pilots: Sequence[Pilot],
    at: tuple[int, int] | None,
    tell: Tell,
) -> Point:
    risks = [column_risk(a, table, None, None) for a in mechanism.assignments]
    tell(0, 1)
    linked = link(table, mechanism, keys, tell=tell) if keys else None
    inflation = None if at is None else float(pilots[at[0]].expected(mechanism).inflation[at[1]])
    return Point(
        keep,
        mechanism.epsilon,
        max(r.exposure.mean for r in risks),
        max(r.posterior for r in risks),
        None if linked is None else linked.worst_mean,
        None if linked is None else max(linked.after_largest, linked.ratio_largest),
        inflation,
        None if inflation is None else 1 / inflation,
        max(
            t.moved
            for t in table_changes(table, mechanism, (), None)
            if len(t.columns) == 1 or len(mechanism.assignments) == 1
        ),
    )

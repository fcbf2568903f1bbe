"""`plan`: the keep probability that an analyst's precision needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pramana.analysis.question import question
from pramana.arrays import Float
from pramana.disclosure.reports import Report
from pramana.disclosure.true_records import Gaps, given_mechanism, levels_of, read_confidential
from pramana.disclosure.utility.expected_variance import Pilot, pilot_of
from pramana.errors import PramanaError, confidential, listing, quoted_terms
from pramana.frames import Kind, Level, Table
from pramana.frames.levels import is_number
from pramana.mechanism import Mechanism, TransitionMatrix
from pramana.mechanism.channel import CONDITIONS, Channel
from pramana.parameters.means import proportions
from pramana.render import Sheet

PRECISION = 1e-10
CHOSEN = "given the confidential records by which it was chosen"


@dataclass(frozen=True)
class TermTarget:
    """One term: the standard error asked for, the one to expect, and the one that clean data would give."""

    term: str
    target: float
    expected: float
    clean: float
    effect: float | None = None
    power: float | None = None


@dataclass(frozen=True)
class Plan(Report):
    """The smallest keep probability of randomised response that reaches every target."""

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

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism({**self.others, self.column: self.transition})

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
            "note": self.note,
        }

    def sheets(self) -> tuple[Sheet, ...]:
        facts: tuple[tuple[str, str], ...] = (
            ("Column", f"{self.column} ({len(self.transition)} levels)"),
            ("Analysis", self.analysis),
            ("Keep probability", f"{self.keep:.4f}"),
            ("Epsilon", f"{self.transition.epsilon:.4g}, {CHOSEN}"),
            ("Records", f"{self.n} (pilot of {self.pilot_n})"),
        )
        if self.others:
            facts += (("Perturbed as designed", ", ".join(Mechanism(self.others).columns)),)
        powers = any(t.power is not None for t in self.targets)
        columns = ("term", "s.e. asked for", "expected s.e.", "clean s.e.", *(("effect", "power") if powers else ()))
        rows = [(t.term, t.target, t.expected, t.clean, *((t.effect, t.power) if powers else ())) for t in self.targets]
        return (Sheet(columns, tuple(rows), "Plan", facts, (self.note,) if self.note else ()),)


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
) -> Plan:
    """The smallest keep probability with which an analysis of released data is precise enough.

    It is a function of the confidential records, so the epsilon of the design is marked as conditional on them.

    Parameters
    ----------
    data : a pilot on the custodian's side: true records.
    analysis : a formula or an estimating function; the shares of the column's levels without it.
    se : largest standard error, one number for every term or one a term ("edu" stands for all terms of edu).
    effect : instead of `se`, effects by term to be found with probability `power` in a two-sided test at level `alpha`.
    n : records of the release; as many as the pilot without it.
    weights : column of sampling weights of the analysis.
    mechanism : what the release does to the other columns: a Mechanism, its description or a design file (TOML). What it says of
        the column itself gives its levels and kind.

    >>> import pramana as pr
    >>> made = pr.plan({"ill": ["no"] * 90 + ["yes"] * 10}, "ill", se=0.02, n=1000)
    >>> round(made.keep, 4), [round(t.expected, 6) for t in made.targets]
    (0.8341, [0.02, 0.02])
    """
    wanted = proportions(column) if analysis is None else question(analysis, family)
    known = None if mechanism is None else given_mechanism(mechanism, data)
    used = [column, *wanted.variables, *([weights] if weights else [])]
    table, _ = read_confidential(data, known, used, missing, Gaps)
    size = table.n if n is None else n
    if not (isinstance(size, int | np.integer) and size > 0):
        raise PramanaError(f"n={n!r} must be a whole number of records")
    response = _response(column, table, levels, kind, None if known is None else known.mechanism)
    pilot = pilot_of(wanted, table, response(1.0), weights)
    if pilot.sums:
        raise PramanaError("the standard error of a total grows with the file: plan for the mean or the shares instead")
    asked = _targets(pilot.parameters, se, effect, power, alpha)
    scale = np.sqrt(pilot.n / size)
    clean = np.sqrt(np.diag(pilot.clean())) * scale
    _refuse_impossible(asked, pilot, clean, int(size))
    keep, note = _smallest_keep(asked, pilot, response, scale)
    expected = pilot.expected(response(keep)).standard_errors * scale
    rows = tuple(_row(pilot, j, s, expected, clean, effect, alpha) for j, s in asked.items())
    found = response.matrix(keep)
    # Chosen by the confidential records, so that the keep probability itself tells of them.
    matrix = TransitionMatrix.from_form(found.levels, found.form, found.kind, conditional=tuple(CONDITIONS))
    return Plan(column, pilot.label, keep, matrix, int(size), pilot.n, rows, note, response.others)


@dataclass(frozen=True)
class _Response:
    """Randomised response of one column, by its keep probability, beside the channels of others."""

    column: str
    levels: tuple[Level, ...]
    kind: Kind | None
    others: Mapping[Any, Channel]

    def matrix(self, keep: float) -> TransitionMatrix:
        return TransitionMatrix.randomized_response(self.levels, keep, kind=self.kind)

    def __call__(self, keep: float) -> Mechanism:
        return Mechanism({**self.others, self.column: self.matrix(keep)})


def _response(
    column: str, table: Table, levels: Sequence[Level] | None, kind: Kind | None, known: Mechanism | None
) -> _Response:
    own = [] if known is None else known.used_by([column])
    if own and len(own[0].columns) > 1:
        raise PramanaError(
            f"{column!r} is perturbed together with {listing(own[0].columns)}: a plan is for a column alone"
        )
    designed = known.schema.variables[column] if known is not None and own else None
    listed = tuple(levels or (designed.levels if designed else None) or levels_of(table, column))
    rest = [] if known is None else [a for a in known.assignments if a not in own]
    others = {a.columns[0] if len(a.columns) == 1 else a.columns: a.channel for a in rest}
    return _Response(column, listed, kind or (designed.kind if designed else None), others)


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


def _refuse_impossible(asked: Mapping[int, float], pilot: Pilot, clean: Float, n: int) -> None:
    for j, limit in asked.items():
        if clean[j] > limit:
            needed = int(np.ceil(n * (clean[j] / limit) ** 2))
            raise PramanaError(
                f"a standard error of {limit:.4g} for {quoted_terms([pilot.parameters[j]])} (term {j + 1} of {len(pilot.parameters)}) cannot be reached with {n} records: without any "
                f"perturbation it is {clean[j]:.4g}; use at least {needed} records, or ask for more than {clean[j]:.4g}"
            )


def _smallest_keep(
    asked: Mapping[int, float], pilot: Pilot, response: _Response, scale: float
) -> tuple[float, str | None]:
    """Bisection: the variance falls as the keep probability rises."""
    places, limits = list(asked), np.array(list(asked.values()))

    def fits(keep: float) -> bool:
        return bool(np.all(pilot.expected(response(keep)).standard_errors[places] * scale <= limits))

    low, high = 1 / len(response.levels) + 1e-4, 1.0
    if response.others and not fits(high):
        raise PramanaError(
            f"the standard errors asked for cannot be reached even with {response.column!r} unperturbed, because of what the design "
            f"does to {listing(Mechanism(response.others).columns)}: ask for more, or perturb these less"
        )
    if not pilot.columns or fits(low):
        return low, f"the targets hold whatever happens to {response.column!r}: any keep probability will do"
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high, None


def _row(
    pilot: Pilot, j: int, limit: float, expected: Float, clean: Float, effect: Mapping[str, float] | None, alpha: float
) -> TermTarget:
    name = pilot.parameters[j]
    size = None if effect is None else min(abs(v) for k, v in effect.items() if j in positions(k, pilot.parameters))
    return TermTarget(
        name,
        limit,
        float(expected[j]),
        float(clean[j]),
        size,
        None if size is None else _power(size / expected[j], alpha),
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

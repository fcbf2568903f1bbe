"""`risk`: what an attacker gains from a release and what an analyst loses, on the custodian's side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pramana.disclosure.composition import Composition, compose
from pramana.disclosure.confidential import Missing, read_confidential, read_released
from pramana.disclosure.keys import Linkage, link
from pramana.disclosure.pilot import pilot_of, plan_of
from pramana.disclosure.posterior import ColumnRisk, column_risk
from pramana.disclosure.reporting import Report
from pramana.disclosure.tabulation import analysis_sheet, column_sheet, composition_sheet, linkage_sheet, tables_sheet
from pramana.disclosure.telling import Tell, silent
from pramana.disclosure.utility import Utility, rows_of_analysis, utility_of
from pramana.errors import MechanismError, PramanaError
from pramana.mechanism import Mechanism
from pramana.render import Sheet


@dataclass(frozen=True)
class Risk(Report):
    """The report of `risk`. It names levels, and records by their row number; never a record's values."""

    n: int
    epsilon: float
    columns: tuple[ColumnRisk, ...]
    linkage: Linkage | None
    utility: Utility
    composition: Composition | None

    def __getitem__(self, column: str) -> ColumnRisk:
        for one in self.columns:
            if column in (*one.columns, one.name):
                return one
        raise PramanaError(
            f"column {column!r} is not perturbed: the columns are {', '.join(c.name for c in self.columns)}"
        )

    def sheets(self) -> tuple[Sheet, ...]:
        found = [column_sheet(c) for c in self.columns]
        found[0] = _with_whole(found[0], self)
        if self.linkage is not None:
            found.append(linkage_sheet(self.linkage))
        found.append(tables_sheet(self.utility.tables))
        if self.utility.analyses:
            found.append(analysis_sheet(self.utility.analyses))
        if self.composition is not None:
            found.append(composition_sheet(self.composition))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        return {
            "records": self.n,
            "epsilon": self.epsilon,
            "columns": [{**asdict(c), "zeros": c.zeros} for c in self.columns],
            "linkage": None if self.linkage is None else asdict(self.linkage),
            "tables": [asdict(t) for t in self.utility.tables],
            "analyses": [row for a in self.utility.analyses for row in rows_of_analysis(a)],
            "composition": None
            if self.composition is None
            else {**asdict(self.composition), "total": self.composition.total},
        }


def _with_whole(sheet: Sheet, risk: Risk) -> Sheet:
    whole = (("Records", f"{risk.n}"), ("Epsilon of all sensitive columns given the rest", f"{risk.epsilon:.4g}"))
    return replace(sheet, facts=(*whole, *sheet.facts))


def risk(
    data: Any,
    mechanism: Mechanism | str | Path,
    *,
    keys: Sequence[str] | None = None,
    prior: Mapping[str, Any] | None = None,
    analyses: Sequence[Any] | Any = (),
    weights: str | None = None,
    released: Any = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    missing: Missing = "error",
    tell: Tell = silent,
) -> Risk:
    """Disclosure risk and utility of a mechanism on the custodian's true file.

    Parameters
    ----------
    data : the confidential file or frame.
    mechanism : a Mechanism, or the path of its description.
    keys : columns by which an attacker knows a person; perturbed ones are matched through P.
    prior : frequencies that an attacker is taken to know, by column; those of the file without them.
    analyses : formulas or estimating functions whose variance is to be weighed (`glm(formula, family)` for other families).
    weights : column of sampling weights of the analyses.
    released : the released file, its rows in the order of the true one: adds what the draws made of it.
    ledger : the custodian's ledger of earlier releases; `dataset` is the records' name in it.
    missing : "error", or "drop" to leave out records with missing values.
    tell : called with how many of the links through the keys were weighed, and of how many: most of the work, done last.

    >>> import pramana as pr
    >>> P = pr.TransitionMatrix.randomized_response(["no", "yes"], keep=0.8)
    >>> report = pr.risk({"ill": ["no"] * 90 + ["yes"] * 10}, pr.Mechanism({"ill": P}))
    >>> [(level.released, level.exposed, round(level.posterior, 3)) for level in report["ill"].levels]
    [('no', 'no', 0.973), ('yes', 'no', 0.692)]
    """
    known = given_mechanism(mechanism)
    plans = [plan_of(a) for a in several(analyses)]
    names = several(keys)
    used = [v for p in plans for v in p.variables] + several(weights)
    table, kept = read_confidential(data, known, [*names, *used], missing)
    clear = [
        c
        for c in dict.fromkeys([*names, *(c for a in known.assignments for c in a.channel.context)])
        if c not in known.columns
    ]
    shown = None if released is None else read_released(released, kept, table, known, clear)
    _check_prior(prior, known)
    columns = tuple(column_risk(a, table, _given(prior, a.columns), shown) for a in known.assignments)
    pilots = [pilot_of(p, table, known, weights) for p in plans]
    cost = utility_of(table, known, pilots, clear, shown)
    linked = link(table, known, names, shown, tell) if names else None
    rows = np.flatnonzero(kept)
    return Risk(
        table.n,
        known.epsilon,
        tuple(replace(c, exposure=replace(c.exposure, row=int(rows[c.exposure.row]))) for c in columns),
        None if linked is None else replace(linked, row=int(rows[linked.row])),
        cost,
        None if ledger is None else compose(ledger, known, data, dataset),
    )


def given_mechanism(mechanism: Any) -> Mechanism:
    if isinstance(mechanism, Mechanism):
        return mechanism
    if isinstance(mechanism, str | Path):
        return Mechanism.load(mechanism)
    raise MechanismError(
        f"mechanism of type {type(mechanism).__name__}: give a Mechanism, or the path of its description"
    )


def several(given: Any) -> list[Any]:
    """One thing or several."""
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _given(prior: Mapping[str, Any] | None, columns: tuple[str, ...]) -> Any:
    if prior is None:
        return None
    return prior.get(columns[0] if len(columns) == 1 else " × ".join(columns))


def _check_prior(prior: Mapping[str, Any] | None, mechanism: Mechanism) -> None:
    known = [" × ".join(a.columns) for a in mechanism.assignments]
    wrong = [name for name in prior or {} if name not in known]
    if wrong:
        raise PramanaError(
            f"prior names {wrong[0]!r}, which is not perturbed: the perturbed columns are {', '.join(known)}"
        )

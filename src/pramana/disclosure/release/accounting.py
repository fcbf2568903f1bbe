"""`account`: what the ledger's releases add up to, and what is left of the policy's budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pramana.disclosure.release.ledger import Entry, Spent, families, finite, read_ledger, spent_by_column, total_loss
from pramana.disclosure.release.policy import Balance, Policy, checked_policy, told_unit
from pramana.errors import PramanaError, confidential, suggestion
from pramana.render import Report, Sheet

WHOLE = "a whole record"


@dataclass(frozen=True)
class DataSet:
    """The releases of the same records: of one data set, or of one file where it was not named."""

    name: str
    releases: int
    columns: tuple[Spent, ...]
    epsilon: float
    budget: float | None

    @property
    def left(self) -> float | None:
        return None if self.budget is None else max(self.budget - self.epsilon, 0.0)


@dataclass(frozen=True, repr=False)
class Account(Report):
    """Everything released so far, by data set and column; `exceptions` are the releases that needed leave."""

    records: tuple[DataSet, ...]
    units: tuple[Balance, ...]
    exceptions: tuple[Entry, ...]

    def __getitem__(self, dataset: str) -> DataSet:
        found = {r.name: r for r in self.records}
        if dataset not in found:
            raise PramanaError(f"data set {dataset!r} is not in the ledger: {suggestion(dataset, found)}")
        return found[dataset]

    def sheets(self) -> tuple[Sheet, ...]:
        rows = [row for records in self.records for row in _rows(records)]
        head = ("data set", "column", "releases", "draws", "epsilon spent", "given", "budget", "left")
        note = (
            "columns and independent draws add; keyed releases with the same key, identifiers and matrix repeat one draw, as long as the true "
            "values stay. Only releases that were entered here are counted, and records are known by their name or their file"
        )
        found = [Sheet(head, tuple(rows), "Account of releases", notes=(note,))]
        if self.units:
            units = tuple((b.of, b.spent, b.limit, b.left) for b in self.units)
            told = "over all data sets that may hold it; of disjoint ones the largest counts"
            found.append(Sheet(("unit", "epsilon spent", "budget", "left"), units, "Units", notes=(told,)))
        if self.exceptions:
            excepted = tuple((e.date or "", e.target, ", ".join(e.allowed), e.override or "") for e in self.exceptions)
            found.append(Sheet(("date", "release", "allowed", "override"), excepted, "Allowed and overridden"))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        return {
            "records": [_plain(records) for records in self.records],
            "units": [
                {**asdict(b), "spent": finite(b.spent), "before": finite(b.before), "left": b.left} for b in self.units
            ],
            "exceptions": [
                {
                    k: v
                    for k, v in asdict(e).items()
                    if k in ("date", "target", "dataset", "allowed", "override", "overridden")
                }
                for e in self.exceptions
            ],
        }


def _rows(records: DataSet) -> list[tuple[object, ...]]:
    columns = [
        (records.name, c.column, c.releases, c.draws, c.epsilon, ", ".join(c.given), "", "") for c in records.columns
    ]
    budget = "" if records.budget is None else records.budget
    left = "" if records.left is None else records.left
    draws = sum(c.draws for c in records.columns)
    return [*columns, (records.name, WHOLE, records.releases, draws, records.epsilon, "", budget, left)]


def _plain(records: DataSet) -> dict[str, Any]:
    columns = [{**asdict(c), "epsilon": finite(c.epsilon), "total": finite(c.total)} for c in records.columns]
    return {**asdict(records), "columns": columns, "epsilon": finite(records.epsilon), "left": records.left}


@confidential
def account(ledger: str | Path, policy: Policy | str | Path | None = None) -> Account:
    """What was released so far, by data set and column, with the epsilon that it adds up to.

    Parameters
    ----------
    ledger : the custodian's file of releases.
    policy : an agency's rules, or the TOML file that holds them: adds what is left of every budget.
    """
    entries, rules = read_ledger(Path(ledger)), checked_policy(policy)
    records = tuple(_records(family, rules) for family in families(entries))
    excepted = tuple(e for e in entries if e.allowed or e.override)
    return Account(records, _units(entries, rules), excepted)


def _records(family: Sequence[Entry], policy: Policy | None) -> DataSet:
    named = [e.dataset for e in family if e.dataset is not None]
    name = ", ".join(dict.fromkeys(named)) or family[0].name
    limit = None if policy is None else policy.dataset_limit(family)
    return DataSet(name, len(family), spent_by_column(family), total_loss(family), limit)


def _units(entries: Sequence[Entry], policy: Policy | None) -> tuple[Balance, ...]:
    if policy is None or policy.budget.unit is None:
        return ()
    found = [(unit, policy.unit_loss(entries, unit)) for unit in policy.units(entries)]
    return tuple(Balance(told_unit(unit), policy.budget.unit, loss, loss) for unit, loss in found)

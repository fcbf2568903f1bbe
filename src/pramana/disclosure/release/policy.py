"""An agency's rules for releases: a TOML file with budgets, limits, what is forbidden and what is required."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from pramana.disclosure.release.ledger import Entry, draws, families, same_records, total_loss
from pramana.errors import PramanaError, suggestion
from pramana.frames.documents import read_toml
from pramana.frames.writing import sha256

VERSION = 1
RARE = "rare-levels"
ALLOWANCES = {
    "identity": "Values of at least one column were published as they are, or nearly so: see the probabilities.",
    "seed": "",  # the description's `randomness` says it
    "second-draw": "These records were released before with other draws of the same columns: the epsilons of the releases add.",
    "unperturbed": "A column is perturbed in one release of these records and published as it is in another.",
    "shared-key": "The key of these draws served other records too: where two of them have one identifier, released values that "
    "differ prove that the true ones do.",
    RARE: "",
}
"""What is refused, policy or not, unless it is allowed by name; and the limit that the description then states in words."""

FORBIDDEN = (*ALLOWANCES, "fixed-levels", "infinite-epsilon", "conditional-epsilon")
REQUIRED = ("ledger", "dataset", "unit", "key", "card", "shuffle")
FORMATS = ("csv", "parquet")


@dataclass(frozen=True)
class Budget:
    """Epsilon over all releases that the ledger knows.

    Attributes
    ----------
    dataset : of a record of one data set: its columns and independent draws add.
    unit : of one unit, such as a person, over all data sets: they add too, but of disjoint ones the largest counts.
    datasets : for data sets of these names, instead of `dataset`; of records that went by several names the smallest counts.
    disjoint : groups of data sets that have no unit in common.
    """

    dataset: float | None = None
    unit: float | None = None
    datasets: Mapping[str, float] = field(default_factory=dict)
    disjoint: tuple[tuple[str, ...], ...] = ()

    @property
    def stated(self) -> bool:
        return self.dataset is not None or self.unit is not None or bool(self.datasets)


@dataclass(frozen=True)
class ReleaseLimits:
    """Of one release.

    Attributes
    ----------
    column : largest epsilon of a column, or of columns perturbed together.
    release : largest epsilon of a whole record.
    keep : largest probability with which any level may go out as one and the same value.
    merge_below : a level held by fewer people must be merged with others; without a policy it is 3 (`releasing.FEWEST`).
    """

    column: float | None = None
    release: float | None = None
    keep: float | None = None
    merge_below: int | None = None


@dataclass(frozen=True)
class ColumnRules:
    """By name.

    Attributes
    ----------
    publish : the only ones that may be in a release; None leaves it open.
    drop : must not be in a release.
    perturb : must be perturbed, or not be in a release.
    """

    publish: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    perturb: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditRule:
    """Every release is audited before `release` returns, and must be clean.

    Attributes
    ----------
    original : against the confidential file too: the transitions, and columns that give a secret away.
    warnings : whether warnings are let pass; errors never are.
    """

    original: bool = True
    warnings: bool = True


@dataclass(frozen=True)
class Balance:
    """One budget after a release: what it is of, what was spent before and now, and whether the release drew anything anew."""

    of: str
    limit: float
    before: float
    spent: float
    adds: bool = False

    @property
    def left(self) -> float:
        return max(self.limit - self.spent, 0.0)

    @property
    def exceeded(self) -> bool:
        """More than rounding above the limit, and by this release: what repeats an earlier draw costs nothing."""
        more = self.spent > self.before or self.spent == float("inf")
        return self.adds and more and self.spent > self.limit * (1 + 1e-9)

    def __str__(self) -> str:
        return f"{self.left:.4g} of {self.limit:.4g} for {self.of}"


@dataclass(frozen=True)
class Policy:
    """What an agency lets out. Read from a file by `Policy.load`; see the how-to for every key.

    Attributes
    ----------
    forbid : some of `FORBIDDEN`; what is refused anyway then needs an override instead of an allowance.
    require : some of `REQUIRED`.
    formats : of the released file.
    digest : SHA-256 of the file, as the ledger keeps it.

    >>> Policy(limits=ReleaseLimits(column=2.0), forbid=("seed",)).limits.column
    2.0
    """

    name: str = ""
    forbid: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    formats: tuple[str, ...] = FORMATS
    budget: Budget = Budget()
    limits: ReleaseLimits = ReleaseLimits()
    columns: ColumnRules = ColumnRules()
    audit: AuditRule | None = None
    digest: str | None = None

    @staticmethod
    def load(path: str | Path) -> Policy:
        """From a TOML file; an error names the key."""
        source, file = f"policy {str(path)!r}", Path(path)
        document = read_toml(file, "policy")
        return _policy(document, sha256(file), source)

    def balances(self, entries: Sequence[Entry], new: Entry) -> tuple[Balance, ...]:
        """Every budget that a release touches, with it."""
        family = same_records(entries, new)
        adds = any(entry is new for entry, _ in draws([*family, new]))
        found = [*self._of_dataset(family, new), *self._of_units(entries, new)]
        return tuple(replace(balance, adds=adds) for balance in found)

    def dataset_limit(self, family: Sequence[Entry]) -> float | None:
        """The budget of the records of these entries; where they go by several names, or by none, the smallest that these have."""
        own: dict[str | None, float] = dict(self.budget.datasets.items())
        limits = [own.get(e.dataset, self.budget.dataset) for e in family]
        return min((limit for limit in limits if limit is not None), default=None)

    def unit_loss(self, entries: Sequence[Entry], unit: str | None) -> float:
        """Epsilon of one unit over all data sets that may hold it: those of records without a named unit may too."""
        groups: dict[int, float] = {}
        for position, family in enumerate(families(e for e in entries if e.unit in (None, unit))):
            loss, group = total_loss(family), self._group(family)
            place = -1 - position if group is None else group
            groups[place] = max(loss, groups.get(place, 0.0))
        return float(sum(groups.values()))

    def units(self, entries: Sequence[Entry], new: Entry | None = None) -> Sequence[str | None]:
        """The kinds of unit that a release (or all of them) can touch."""
        if new is not None and new.unit is not None:
            return [new.unit]
        return sorted({e.unit for e in entries if e.unit is not None}) or [None]

    def _of_dataset(self, family: Sequence[Entry], new: Entry) -> Iterator[Balance]:
        limit = self.dataset_limit([*family, new])
        if limit is not None:
            yield Balance(f"data set {new.name!r}", limit, total_loss(family), total_loss([*family, new]))

    def _of_units(self, entries: Sequence[Entry], new: Entry) -> Iterator[Balance]:
        if self.budget.unit is None:
            return
        for unit in self.units(entries, new):
            before, spent = self.unit_loss(entries, unit), self.unit_loss([*entries, new], unit)
            yield Balance(told_unit(unit), self.budget.unit, before, spent)

    def _group(self, family: Sequence[Entry]) -> int | None:
        names = {e.dataset for e in family}
        return next((k for k, group in enumerate(self.budget.disjoint) if names & set(group)), None)


def told_unit(unit: str | None) -> str:
    return "a unit" if unit is None else f"unit {unit!r}"


def checked_policy(policy: Policy | str | Path | None) -> Policy | None:
    """A policy, or the file that holds it."""
    return policy if policy is None or isinstance(policy, Policy) else Policy.load(policy)


Check: TypeAlias = "tuple[str, Callable[[Any], bool]]"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _some_of(known: Sequence[str]) -> Check:
    return (f"a list of {', '.join(known)}", lambda v: _texts(v) and all(name in known for name in v))


_EPSILON: Check = ("a number of at least 0", lambda v: _number(v) and 0 <= v < float("inf"))
_NAMES: Check = ("a list of names", _texts)
_SWITCH: Check = ("true or false", lambda v: isinstance(v, bool))
_TABLE: Check = ("a table", lambda v: isinstance(v, dict))
_KEYS: dict[str, dict[str, Check]] = {
    "": {
        "version": ("a whole number", lambda v: type(v) is int and v > 0),
        "name": ("text", lambda v: isinstance(v, str)),
        "forbid": _some_of(FORBIDDEN),
        "require": _some_of(REQUIRED),
        "formats": _some_of(FORMATS),
        **dict.fromkeys(("budget", "limits", "columns", "audit"), _TABLE),
    },
    "budget": {
        "dataset": _EPSILON,
        "unit": _EPSILON,
        "datasets": (
            "a table from data set to a number of at least 0",
            lambda v: isinstance(v, dict) and all(_EPSILON[1](w) for w in v.values()),
        ),
        "disjoint": (
            "a list of lists of data sets, each in one of them",
            lambda v: isinstance(v, list) and all(_texts(g) for g in v) and _differ([name for g in v for name in g]),
        ),
    },
    "limits": {
        "column": _EPSILON,
        "release": _EPSILON,
        "keep": ("a probability", lambda v: _number(v) and 0 < v <= 1),
        "merge_below": ("a whole number of at least 1", lambda v: type(v) is int and 1 <= v < 2**63),
    },
    "columns": {"publish": _NAMES, "drop": _NAMES, "perturb": _NAMES},
    "audit": {"original": _SWITCH, "warnings": _SWITCH},
}


def _differ(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _policy(document: dict[str, Any], digest: str, source: str) -> Policy:
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise PramanaError(
            f"{source} has version {_shown(version)}, newer than the {VERSION} that this release reads: update pramana"
        )
    top = _checked(document, "", source)
    if "version" not in top:
        raise PramanaError(f"{source} lacks 'version': write version = {VERSION}")
    parts = {name: _checked(document.get(name, {}), name, source) for name in ("budget", "limits", "columns", "audit")}
    return Policy(
        **{key: top[key] for key in ("name", "forbid", "require", "formats") if key in top},
        budget=Budget(**parts["budget"]),
        limits=ReleaseLimits(**parts["limits"]),
        columns=ColumnRules(**parts["columns"]),
        audit=AuditRule(**parts["audit"]) if "audit" in document else None,
        digest=digest,
    )


def _checked(body: Mapping[str, Any], section: str, source: str) -> dict[str, Any]:
    known = _KEYS[section]
    for key, value in body.items():
        name = f"{section}.{key}" if section else key
        if key not in known:
            raise PramanaError(f"{source} has the unknown key {_shown(name)}: {suggestion(key[:40], known)}")
        wanted, fits = known[key]
        if not fits(value):
            raise PramanaError(f"{source}: {name} is {_shown(value)}: give {wanted}")
    return {key: _frozen(value) for key, value in body.items()}


def _shown(value: Any) -> str:
    """A value in a message: short, and never followed into its depth."""
    if isinstance(value, dict | list):
        inner = [v for v in value if isinstance(v, str)] if isinstance(value, list) else []
        return f"a {'table' if isinstance(value, dict) else 'list'} of {len(value)}{f' ({inner[0][:30]!r}, …)' if inner else ''}"
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**15 else "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}…"


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value

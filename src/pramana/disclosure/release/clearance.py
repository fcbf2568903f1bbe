"""What a release is refused for, by a policy or without one, and what lets it pass: an allowance or an override."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pramana.arrays import Bool, Float, Int
from pramana.disclosure.release import ledger as ledgers
from pramana.disclosure.release.ledger import Entry
from pramana.disclosure.release.policy import ALLOWANCES, RARE, Balance, Policy
from pramana.errors import PramanaError, PramanaWarning, listing, suggestion
from pramana.mechanism import Assignment, Mechanism, TransitionMatrix
from pramana.mechanism.channels.additive_noise import GridNoise
from pramana.mechanism.channels.matrix_forms import Banded, Mixture

NEARLY = 1e-3
"""A chance below which something is taken never to happen: one in a thousand hides nobody."""

LONGEST_REASON = 500
OVERRIDE_LIMIT = "The publisher's own policy was set aside for this release."
FIXED_LIMIT = "Some levels are always published as they are, and no other value becomes them: see the probabilities."


@dataclass(frozen=True)
class Intent:
    """What a release is about to do, as far as it is known before any row is read.

    Attributes
    ----------
    clear : columns that will be published as they are.
    source : SHA-256 of the confidential file, where there is a ledger to look it up in. parts : of the files of a folder.
    identifier : the column from which keyed draws are derived.
    key : fingerprint of the key.
    linked : a link file will say which original record each released one is.
    rare : what is to be said of levels that few people hold; known when all rows were read.
    legible : what is to be said of numbers whose noise can be rounded away; likewise.
    sketch : the smallest digests of the identifiers of keyed draws; likewise.
    """

    mechanism: Mechanism
    target: str
    format: str
    randomness: str
    clear: tuple[str, ...] = ()
    source: str | None = None
    dataset: str | None = None
    identifier: str | None = None
    key: str | None = None
    card: bool = False
    shuffled: bool = False
    linked: bool = False
    rare: str | None = None
    legible: str | None = None
    sketch: str | None = None
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name = self.dataset
        if name is not None and (not name.strip() or name != name.strip() or not name.isprintable()):
            raise PramanaError(
                f"dataset={name[:80]!r} is no name for records: give one that can be read, without blanks around it, or leave it out"
            )

    def entry(self) -> Entry:
        """The release in the ledger, but for what only its end can tell."""
        return Entry(
            dataset=self.dataset,
            source=self.source or "",
            released="",
            target=self.target,
            rows=0,
            randomness=self.randomness,
            key=self.key,
            epsilon=ledgers.finite(self.mechanism.epsilon),
            columns=ledgers.column_records(self.mechanism),
            version=ledgers.VERSION,
            unit=None if self.mechanism.unit is None else self.mechanism.unit.column,
            identifier=self.identifier,
            clear=self.clear,
            sketch=self.sketch,
            parts=self.parts,
        )


@dataclass(frozen=True)
class Objection:
    """One thing that stands against a release; `rule` names it, `policy` says whether the policy raised it."""

    rule: str
    sentence: str
    policy: bool = True


@dataclass(frozen=True)
class Clearance:
    """A release that may go ahead.

    Attributes
    ----------
    allowed : what had to be allowed by name. overridden : what the policy had refused. override : and why it went ahead.
    limits : what the description must say of it.
    balances : every budget that it touches, with it.
    """

    allowed: tuple[str, ...] = ()
    override: str | None = None
    overridden: tuple[Objection, ...] = ()
    limits: tuple[str, ...] = ()
    balances: tuple[Balance, ...] = ()

    @property
    def waived(self) -> tuple[str, ...]:
        """The rules that did not hold it up."""
        return (*self.allowed, *(o.rule for o in self.overridden))


@dataclass(frozen=True)
class Gate:
    """Ledger, policy, and what the custodian asks for all the same; every release passes it twice.

    Parameters
    ----------
    allow : some of `ALLOWANCES`.
    override : the reason for which objections of the policy are passed over; it is written into the ledger.
    """

    ledger: Path | None = None
    policy: Policy | None = None
    allow: tuple[str, ...] = ()
    override: str | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.allow if name not in ALLOWANCES]
        if unknown:
            raise PramanaError(f"allow {unknown[0]!r} is unknown: {suggestion(str(unknown[0]), ALLOWANCES)}")
        if self.override is None:
            return
        if self.policy is None or self.ledger is None:
            lacking = "policy to override" if self.policy is None else "ledger to write the override into"
            raise PramanaError(f"override needs a {lacking}: give one")
        if not 0 < len(self.override.strip()) <= LONGEST_REASON or not self.override.isprintable():
            raise PramanaError(f"override must say why, in one line of at most {LONGEST_REASON} characters")

    def clear(self, intent: Intent) -> Clearance:
        """Refuse, before any row is read, what policy and ledger forbid together; a warning says what they do not."""
        cleared = self._judged(intent, [] if self.ledger is None else ledgers.read_ledger(self.ledger, missing=True))
        _warn_of(cleared.overridden)
        for sentence in _fixed_levels(intent.mechanism):
            warnings.warn(sentence, PramanaWarning, stacklevel=4)
        return cleared

    @contextmanager
    def recorded(
        self, intent: Intent, cleared: Clearance, read: Intent, *, released: str, rows: int
    ) -> Iterator[Clearance]:
        """Enter the release into the ledger, unless its rows, or another one that was entered meanwhile, stand against it; the
        entry is taken back where the release fails.

        Parameters
        ----------
        intent, cleared : before any row was read. read : the same with what the rows told.
        """
        if self.ledger is None:
            yield self._settled(intent, cleared, read, [])
            return
        final: list[Clearance] = []

        def made(entries: list[Entry]) -> Entry:
            final.append(self._settled(intent, cleared, read, entries))
            return self._entry(read, final[0], released, rows)

        with ledgers.recorded(self.ledger, made):
            yield final[0]

    def _settled(self, intent: Intent, cleared: Clearance, read: Intent, entries: Sequence[Entry]) -> Clearance:
        """What the rows add to a clearance comes after what it said before, so that nothing that was written is taken back."""
        if self._judged(intent, entries).waived != cleared.waived:
            raise PramanaError("another release of these records was entered into the ledger meanwhile: start again")
        found = self._judged(read, entries)
        _warn_of([o for o in found.overridden if o not in cleared.overridden])
        allowed, limits = (*cleared.allowed, *found.allowed), (*cleared.limits, *found.limits)
        return replace(found, allowed=tuple(dict.fromkeys(allowed)), limits=tuple(dict.fromkeys(limits)))

    def _entry(self, intent: Intent, cleared: Clearance, released: str, rows: int) -> Entry:
        return replace(
            intent.entry(),
            released=released,
            rows=rows,
            allowed=cleared.allowed,
            policy=None if self.policy is None else self.policy.digest,
            override=cleared.override,
            overridden=tuple(o.sentence for o in cleared.overridden),
            date=datetime.now(UTC).date().isoformat(),
        )

    def _judged(self, intent: Intent, entries: Sequence[Entry]) -> Clearance:
        found = objections(intent, entries, self.policy, ledger=self.ledger is not None)
        allowed = [o for o in found if not o.policy and o.rule in self.allow]
        overridden = [o for o in found if o.policy and self.override is not None]
        standing = [o for o in found if o not in allowed and o not in overridden]
        if standing:
            raise PramanaError(_refusal(standing))
        rules = dict.fromkeys(o.rule for o in found)
        limits = [ALLOWANCES[rule] for rule in rules if ALLOWANCES.get(rule)]
        limits += [OVERRIDE_LIMIT] if overridden else []
        limits += [FIXED_LIMIT] if any(_fixed_levels(intent.mechanism)) else []
        return Clearance(
            tuple(dict.fromkeys(o.rule for o in allowed)),
            self.override if overridden else None,
            tuple(overridden),
            tuple(limits),
            () if self.policy is None else self.policy.balances(entries, intent.entry()),
        )


def _warn_of(overridden: Sequence[Objection]) -> None:
    for objection in overridden:
        warnings.warn(f"the policy is overridden: {objection.sentence}", PramanaWarning, stacklevel=5)


def _refusal(standing: Sequence[Objection]) -> str:
    told = "; ".join(o.sentence for o in standing)
    names = dict.fromkeys(o.rule for o in standing if not o.policy)
    remedies = [f"allow {', '.join(map(repr, names))}"] if names else []
    remedies += ["override the policy with a reason"] if any(o.policy for o in standing) else []
    return f"refused: {told}. To release all the same, {' and '.join(remedies)}"


def objections(
    intent: Intent, entries: Sequence[Entry], policy: Policy | None = None, *, ledger: bool = True
) -> list[Objection]:
    """Everything that stands against a release, given the releases in the ledger; with `ledger=False` there is none."""
    new = intent.entry()
    found = [*_sane(intent, entries, new)]
    if policy is None:
        return found
    firm = (*policy.forbid, *([RARE] if policy.limits.merge_below is not None else []))
    found = [replace(o, policy=o.rule in firm) for o in found]
    return [
        *found,
        *_forbidden(intent, policy),
        *_strength(intent, policy),
        *_required(intent, policy, ledger),
        *_columns(intent, policy),
        *_budgets(policy.balances(entries, new)),
    ]


def _sane(intent: Intent, entries: Sequence[Entry], new: Entry) -> Iterator[Objection]:
    """What undoes a release, whoever makes it."""
    if found := [where for assignment in intent.mechanism.assignments for where in unchanged(assignment)]:
        told = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
        yield Objection("identity", f"values of {told} go out as they are, or merely renamed: lower keep", False)
    if intent.legible is not None:
        yield Objection("identity", intent.legible, False)
    if intent.randomness.startswith("seeded"):
        yield Objection("seed", "draws from a seed can be repeated by whoever knows or guesses it: leave it out", False)
    if intent.rare is not None:
        yield Objection(RARE, intent.rare, False)
    if again := ledgers.second_draws(entries, new):
        sums = {c: sum(ledgers.loss(*draw) for draw in [(new, c), *found]) for c, found in again.items()}
        losses = ", ".join(
            f"{ledgers.shown(column)} (epsilon {_told(epsilon)} in all)" for column, epsilon in sums.items()
        )
        earlier = [entry for found in again.values() for entry, _ in found]
        yield Objection(
            "second-draw",
            f"these records were released before with other draws of {losses}, in {_targets(earlier)}: an attacker can combine them; "
            f"{_remedy(earlier, new)} (only releases in the ledger can be seen)",
            False,
        )
    if shared := ledgers.shared_key(entries, new):
        names = listing([ledgers.shown(name) for name in dict.fromkeys(name for _, name in shared)])
        known = listing(dict.fromkeys(entry.name for entry, _ in shared), 3)
        yield Objection(
            "shared-key",
            f"the key has drawn {names} with the same matrix for other records ({known}): where two of them have one identifier, "
            "released values that differ prove that the true ones do; one key a data set, make another with `pramana key` (or name "
            "the data set as before, if these are the same people)",
            False,
        )
    for name, others in _both_ways(ledgers.same_records(entries, new), new):
        yield Objection(
            "unperturbed",
            f"column {name!r} is perturbed in one release of these records and published as it is in another ({_targets(others)}): "
            "drop it here",
            False,
        )


def _remedy(earlier: Sequence[Entry], new: Entry) -> str:
    """How the earlier draws would have been repeated."""
    if new.key is None or all(entry.key != new.key for entry in earlier):
        return "use the key of the earlier release to repeat its draws"
    return "to repeat the draws of the same key, keep matrix, identifiers and their type as they were"


def _both_ways(family: Sequence[Entry], new: Entry) -> Iterator[tuple[str, list[Entry]]]:
    """Columns that are perturbed in one release and clear in another."""
    clear, perturbed = set(new.clear), _perturbed(new)
    found: dict[str, list[Entry]] = {}
    for entry in family:
        for name in [*(_perturbed(entry) & clear), *(perturbed & set(entry.clear))]:
            found.setdefault(name, []).append(entry)
    yield from sorted(found.items())


def _perturbed(entry: Entry) -> set[str]:
    return {name for joint in entry.columns for name in ledgers.members(joint)}


def _targets(entries: Sequence[Entry]) -> str:
    return listing(dict.fromkeys(e.target for e in entries), 3)


def _told(epsilon: float) -> str:
    return f"{epsilon:.4g}" if np.isfinite(epsilon) else "infinity"


def _forbidden(intent: Intent, policy: Policy) -> Iterator[Objection]:
    if "fixed-levels" in policy.forbid:
        for sentence in _fixed_levels(intent.mechanism):
            yield Objection("fixed-levels", sentence)
    for assignment in intent.mechanism.assignments:
        name, channel = listing(assignment.columns), assignment.channel
        if "infinite-epsilon" in policy.forbid and not np.isfinite(ledgers.epsilon_of(intent.mechanism, assignment)):
            told = f"epsilon of {name} is infinite: {_bounding(assignment)}, and values not vary within a unit"
            yield Objection("infinite-epsilon", told)
        if "conditional-epsilon" in policy.forbid and channel.conditional:
            yield Objection(
                "conditional-epsilon",
                f"epsilon of {name} is conditional on {' and '.join(channel.given)} taken from the confidential data: take them "
                "from a public table",
            )
    if intent.format not in policy.formats:
        yield Objection("formats", f"the policy has no {intent.format} files: write {' or '.join(policy.formats)}")


def _strength(intent: Intent, policy: Policy) -> Iterator[Objection]:
    limits, known = policy.limits, intent.mechanism
    for assignment in known.assignments:
        name, epsilon = listing(assignment.columns), ledgers.epsilon_of(known, assignment)
        if limits.column is not None and _above(epsilon, limits.column):
            yield Objection(
                "column", f"epsilon of {name} is {_told(epsilon)}, above {limits.column:.4g}: {_weaker(assignment)}"
            )
        largest = max(surest(part) for a in assignment.margins for part in (a.noises or a.matrices).values())
        if limits.keep is not None and _above(largest, limits.keep):
            yield Objection(
                "keep", f"a level of {name} is kept with {largest:.6g}, above {limits.keep:.6g}: {_weaker(assignment)}"
            )
    if limits.release is not None and _above(known.epsilon, limits.release):
        said = f"epsilon of a record is {_told(known.epsilon)}, above {limits.release:.4g}: perturb fewer columns, or more strongly"
        yield Objection("release", said)


def _weaker(assignment: Assignment) -> str:
    return "use more noise, or narrower bounds" if assignment.numeric else "lower keep"


def _bounding(assignment: Assignment) -> str:
    """What makes epsilon finite."""
    if assignment.numeric:
        return "give bounds, to which true values are clamped, and use LaplaceNoise, GeometricNoise or KeepOrNoise of either"
    return "let every level become every other"


def _above(value: float, limit: float) -> bool:
    return value > limit * (1 + 1e-9)


def _required(intent: Intent, policy: Policy, ledger: bool) -> Iterator[Objection]:
    given = {
        "ledger": ledger,
        "dataset": intent.dataset is not None,
        "unit": intent.mechanism.unit is not None,
        "key": intent.key is not None,
        "card": intent.card,
        "shuffle": intent.shuffled,
    }
    for what in policy.require:
        if not given[what]:
            yield Objection(what, f"the policy requires {what!r}, which this release lacks: add it")
    if policy.audit is not None and policy.audit.original and intent.shuffled and not intent.linked:
        said = "the policy audits releases against the original, for which shuffled records need a link file: give one"
        yield Objection("link", said)
    if policy.budget.stated and not ledger and "ledger" not in policy.require:
        yield Objection("ledger", "the policy has a budget, of which only a ledger can keep account: give a ledger")


def _columns(intent: Intent, policy: Policy) -> Iterator[Objection]:
    rule, published = policy.columns, [*intent.clear, *intent.mechanism.columns]
    unlisted = [name for name in published if rule.publish is not None and name not in rule.publish]
    if unlisted:
        yield Objection("publish", f"the policy does not list {listing(unlisted)} among what is published: drop it")
    if kept := [name for name in published if name in rule.drop]:
        yield Objection("drop", f"the policy lets {listing(kept)} into no release: drop it")
    if clear := [name for name in intent.clear if name in rule.perturb]:
        yield Objection("perturb", f"the policy publishes {listing(clear)} only perturbed: perturb it, or drop it")


def _budgets(balances: Sequence[Balance]) -> Iterator[Objection]:
    for balance in balances:
        if balance.exceeded:
            left = max(balance.limit - balance.before, 0.0)
            yield Objection(
                "budget",
                f"epsilon of {balance.of} would reach {_told(balance.spent)}, above the budget of {balance.limit:.4g}: "
                f"{_told(balance.before)} is spent and {left:.4g} left",
            )


def unchanged(assignment: Assignment) -> Iterator[str]:
    """Strata, and columns perturbed together with others, whose values (almost) never change or can be read off.

    A matrix that only renames levels hides as little as one that keeps them.
    """
    if assignment.numeric:
        for margin in assignment.margins:
            yield from (_where(margin, s) for s, noise in margin.noises.items() if noise.stays >= 1 - NEARLY)
        return
    for stratum, matrix in assignment.matrices.items():
        if published(matrix).all():
            yield _where(assignment, stratum)
            continue
        for place, name in enumerate(assignment.columns if len(assignment.columns) > 1 else ()):
            values = assignment.component(place) or ()
            codes = {value: code for code, value in enumerate(values)}
            own = np.array([codes[level[place]] for level in matrix.levels])  # type: ignore[index]
            if (_stays(matrix, own) >= 1 - NEARLY).all():
                yield _where(assignment, stratum, repr(name))


def _where(assignment: Assignment, stratum: object, name: str | None = None) -> str:
    within = f" in a stratum of {assignment.channel.context[0]!r}" if stratum is not None else ""
    return (name or listing(assignment.columns)) + within


def published(matrix: TransitionMatrix) -> Bool:
    """Levels (K,) that (almost) always become one value, which (almost) nothing else becomes: it proves them."""
    form = matrix.form
    if isinstance(form, Mixture):
        return np.asarray((form.diagonal >= 1 - NEARLY) & (form.refill * form.frequencies <= NEARLY))
    if isinstance(form, Banded):
        return _published_in_band(form)
    found = form.matrix.max(axis=0) >= 1 - NEARLY
    for level in np.flatnonzero(found):
        chances = form.matrix[form.matrix[:, level].argmax()]
        found[level] = np.delete(chances, level).max(initial=0.0) <= NEARLY
    return np.asarray(found)


def _published_in_band(form: Banded) -> Bool:
    """The same without writing out P: only levels within the band can become one value."""
    true = np.tile(np.arange(form.size), len(form.diagonals))
    value = true + np.repeat(np.arange(len(form.diagonals)) - form.width, form.size)
    likely = np.flatnonzero(form.diagonals.ravel() > NEARLY)
    rivals = np.bincount(value[likely], minlength=form.size)
    found = np.zeros(form.size, dtype=bool)
    sure = likely[form.diagonals.ravel()[likely] >= 1 - NEARLY]
    found[true[sure]] = rivals[value[sure]] == 1
    return found


def _stays(matrix: TransitionMatrix, codes: Int) -> Float:
    """The chance (K,) that one of the columns of a joint matrix keeps its value; `codes` are the values by joint level."""
    form = matrix.form
    if isinstance(form, Mixture):
        share = np.bincount(codes, weights=form.frequencies)
        return np.asarray(1 - form.refill + form.refill * share[codes])
    return np.asarray((form.matrix * (codes[:, None] == codes[None, :])).sum(axis=0))


def surest(part: TransitionMatrix | GridNoise) -> float:
    """The largest probability with which a true value becomes one and the same released value."""
    return float(part.surest if isinstance(part, GridNoise) else part.form.largest.max())


def _fixed_levels(mechanism: Mechanism) -> Iterator[str]:
    """A design may ask for levels that never move, such as "not applicable": they are not refused, and not protected."""
    for assignment in mechanism.assignments:
        for matrix in () if assignment.numeric else assignment.matrices.values():
            count = int(published(matrix).sum())
            if 0 < count < len(matrix):
                yield (
                    f"{count} of the {len(matrix)} levels of {listing(assignment.columns)} always go out as they are, and no "
                    "other becomes them: whoever has one is not protected"
                )

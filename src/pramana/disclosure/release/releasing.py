"""Perturb a file and publish it with its description."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pramana.disclosure.release.clearance import Clearance, Gate, Intent
from pramana.disclosure.release.description import PACKAGE, inside, merged, pram_object, read_package, resource
from pramana.disclosure.release.policy import AuditRule, Balance, Policy, checked_policy
from pramana.disclosure.release.streaming import FilePerturbation, Tally, component
from pramana.errors import DataError, MechanismError, PramanaError, confidential
from pramana.frames.blocks.stream import Reader, Writer, open_reader, require
from pramana.frames.files import format_of
from pramana.frames.writing import check_paths, locked, pending, publish, refuse_existing, settle, sha256, write_text
from pramana.mechanism import Mechanism
from pramana.mechanism.description.document import find_description
from pramana.mechanism.draws.keyed import Key
from pramana.mechanism.draws.keystream import RandomnessKind
from pramana.mechanism.draws.perturbation import Keyed, Source, source_of
from pramana.progress import Tell


@dataclass(frozen=True)
class Release:
    """What was published, and where."""

    path: Path
    description: Path
    cards: tuple[Path, ...]
    rows: int
    sha256: str
    epsilon: float
    randomness: RandomnessKind
    conditional: tuple[str, ...] = ()
    """Columns whose epsilon holds only given something that comes from the confidential file."""
    condition: str = ""
    """What must be said after epsilon: nothing, or what it is conditional on."""
    allowed: tuple[str, ...] = ()
    """What had to be allowed by name."""
    budget: tuple[Balance, ...] = ()
    """Every budget of the policy that the release touches, and what is left of it."""


@dataclass(frozen=True)
class _Order:
    """A release that passed every check that needs no row."""

    source: Path
    target: Path
    mechanism: Mechanism
    randomness: Source
    identifier: str | None
    gate: Gate
    dataset: str | None
    force: bool
    card: bool
    tell: Tell | None

    @property
    def cards(self) -> tuple[Path, ...]:
        stem = self.target.name
        return (self.target.with_name(f"{stem}.card.md"), self.target.with_name(f"{stem}.card.html"))


@confidential
def release(
    source: str | Path,
    target: str | Path,
    mechanism: Mechanism | str | Path,
    *,
    key: Key | bytes | str | Path | None = None,
    id: str | None = None,
    seed: int | None = None,
    force: bool = False,
    card: bool = False,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    policy: Policy | str | Path | None = None,
    allow: str | Sequence[str] = (),
    override: str | None = None,
    tell: Tell | None = None,
) -> Release:
    """Write `target`, a perturbed copy of the file `source`, and its description in the datapackage.json beside it.

    The target appears complete or not at all, after its description; the source is never overwritten. Files are read in
    blocks, so their size does not matter. Columns that the mechanism does not name, their order and all types are kept;
    missing values stay missing unless they are a level.

    Parameters
    ----------
    source, target : CSV (.csv, .csv.gz) or Parquet files of the same format.
    mechanism : a Mechanism, or the path of its description.
    key, id : keyed draws, as in `Mechanism.perturb`; `id` names a column.
    seed : repeatable draws for tests, recorded as insecure; refused unless allowed.
    force : replace an existing target.
    card : also write a page for people, `<target>.card.md` and `.html`.
    ledger : the custodian's own file of releases, to which this one is added before it appears.
    dataset : a name for the records in the ledger, the same for every version of their file.
    policy : an agency's rules, or the TOML file that holds them: what they and the ledger forbid together is refused.
    allow : what is refused without it: "identity" (a matrix that leaves values as they are), "seed", "second-draw" (other
        draws of records that the ledger knows) and "unperturbed" (a column clear in one release, perturbed in another).
        Only a ledger can show the last two.
    override : why the policy is not followed; written into the ledger.
    tell : called with how much was read, and of how much.
    """
    known = mechanism if isinstance(mechanism, Mechanism) else Mechanism.load(mechanism)
    rules = checked_policy(policy)
    names = (allow,) if isinstance(allow, str) else tuple(allow)
    gate = Gate(Path(ledger) if ledger else None, rules, names, override)
    randomness = source_of(known, key=key, named=id is not None, seed=seed, blocks=True)
    paths = (Path(source), Path(target))
    order = _Order(*paths, known, randomness, id, gate, dataset, force, card, tell)
    reader = _opened(order)
    intent = _intent(order, reader)
    cleared = gate.clear(intent)
    try:
        made = _released(order, reader, intent, cleared)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PramanaError(f"{order.target.name!r} could not be written: {why}; nothing was published") from None
    if rules is not None and rules.audit is not None:
        _audited(made, order, rules.audit)
    return made


def _intent(order: _Order, reader: Reader) -> Intent:
    return Intent(
        order.mechanism,
        order.target.name,
        format_of(order.target),
        order.randomness.kind,
        clear=tuple(name for name in reader.names if name not in order.mechanism.columns),
        source=None if order.gate.ledger is None else sha256(order.source),
        dataset=order.dataset,
        identifier=order.identifier,
        key=order.randomness.key.fingerprint if isinstance(order.randomness, Keyed) else None,
        card=order.card,
    )


def _audited(made: Release, order: _Order, rule: AuditRule) -> None:
    """What the policy asks of the audit; the release stands in the ledger by now, and is not to be passed on."""
    from pramana.disclosure.audit.auditing import audit

    report = audit(made.path, original=order.source if rule.original else None, ledger=order.gate.ledger)
    wrong = [f for f in report.findings if f.severity == "error" or (f.severity == "warning" and not rule.warnings)]
    if wrong:
        said = "; ".join(f"{f.check}: {f.message}" for f in wrong[:5])
        raise PramanaError(
            f"the policy asks for a clean audit of {made.path.name!r}, which found {len(wrong)} fault(s) ({said}): the file was "
            "written and entered into the ledger; do not publish it"
        )


def _opened(order: _Order) -> Reader:
    """Everything that can be wrong without looking at a row."""
    check_paths(order.source, order.target, force=order.force)
    if order.card:
        refuse_existing(list(order.cards), force=order.force)
    read_package(order.target.parent)
    if find_description(order.source) is not None:
        raise MechanismError(
            f"{order.source.name!r} was perturbed already, as its description says: release from the original file"
        )
    for assignment in order.mechanism.assignments:
        for place in range(len(assignment.columns)):
            component(assignment, place)
    strata = order.mechanism.context
    reader = open_reader(order.source, order.mechanism.columns)
    require(reader, order.mechanism.columns, "the mechanism")
    require(reader, strata, "the mechanism's strata")
    if order.identifier is not None:
        require(reader, [order.identifier], "the keyed release")
        if order.identifier in order.mechanism.columns:
            raise DataError(f"the identifier {order.identifier!r} is perturbed itself: use an unperturbed column")
    return reader


def _released(order: _Order, reader: Reader, intent: Intent, cleared: Clearance) -> Release:
    with pending(order.target) as temporary:
        rows, counts = _written(order, reader, temporary, cleared.limits)
        settle(temporary)
        digest = sha256(temporary)
        body = pram_object(
            order.mechanism, rows=rows, randomness=order.randomness.kind, limits=cleared.limits, sha256=digest
        )
        entry = resource(order.target, reader, order.mechanism, body, temporary.stat().st_size)
        # The ledger first: a release that it does not know must not exist.
        final = order.gate.record(intent, cleared, released=digest, rows=rows)
        _publish(order, temporary, entry, counts)
    cards = order.cards if order.card else ()
    description = order.target.with_name(PACKAGE)
    kind, known = order.randomness.kind, order.mechanism
    return Release(
        order.target,
        description,
        cards,
        rows,
        digest,
        known.epsilon,
        kind,
        tuple(known.conditional),
        known.epsilon_condition,
        final.allowed,
        final.balances,
    )


def _written(order: _Order, reader: Reader, temporary: Path, limits: Sequence[str]) -> tuple[int, list[Tally]]:
    """The perturbed copy under its temporary name; nothing but released values ever reaches it."""
    perturbation = FilePerturbation(order.mechanism, order.randomness, order.identifier)
    rows = 0
    with closing(_writer(order, reader, temporary, limits)) as writer:
        for block in reader.blocks():
            writer.write(block.replaced(perturbation.released(block)))
            rows += block.rows
            if order.tell is not None:
                order.tell(*reader.progress)
        perturbation.finish()
    return rows, perturbation.counts


def _writer(order: _Order, reader: Any, temporary: Path, limits: Sequence[str]) -> Writer:
    if format_of(order.target) == "csv":
        from pramana.frames.blocks.csv_files import CsvWriter

        return CsvWriter(temporary, reader, compressed=order.target.suffix.lower() == ".gz")
    from pramana.frames.blocks.parquet_files import ParquetWriter

    body = pram_object(order.mechanism, rows=reader.rows, randomness=order.randomness.kind, limits=limits)
    return ParquetWriter(temporary, reader, inside(body))


def _publish(order: _Order, temporary: Path, entry: dict[str, Any], counts: list[Tally]) -> None:
    """First the description, then the data; where the data cannot follow, the description goes back."""
    package = order.target.with_name(PACKAGE)
    with locked(order.target.parent):
        before = package.read_text(encoding="utf-8") if package.exists() else None
        write_text(package, merged(read_package(order.target.parent), entry))
        try:
            if order.card:
                _write_cards(order, entry, counts)
            publish(temporary, order.target)
        except BaseException:
            if before is None:
                package.unlink(missing_ok=True)
            else:
                write_text(package, before)
            raise


def _write_cards(order: _Order, entry: dict[str, Any], counts: list[Tally]) -> None:
    from pramana.disclosure.release.card import card_page

    page = card_page(order.target.name, order.mechanism, entry["pram"], counts)
    for path, text in zip(order.cards, (page.markdown(), page.html()), strict=True):
        write_text(path, text)

"""Perturb a file and publish it with its description."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pramana.disclosure.release import ledger as ledgers
from pramana.disclosure.release.description import PACKAGE, inside, merged, pram_object, read_package, resource
from pramana.disclosure.release.streaming import Perturbation, Tally, component
from pramana.errors import DataError, MechanismError, PramanaError, PramanaWarning, confidential
from pramana.frames.blocks.stream import Reader, Writer, open_reader, require
from pramana.frames.files import format_of
from pramana.frames.writing import check_paths, locked, pending, publish, refuse_existing, settle, sha256, write_text
from pramana.mechanism import Mechanism
from pramana.mechanism.description.document import find_description
from pramana.mechanism.draws.keyed import Key
from pramana.mechanism.draws.keystream import RandomnessKind
from pramana.mechanism.draws.sources import Keyed, Source, source_of
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


@dataclass(frozen=True)
class _Plan:
    """A release that passed every check that needs no row."""

    source: Path
    target: Path
    mechanism: Mechanism
    randomness: Source
    identifier: str | None
    ledger: Path | None
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
    seed : repeatable draws for tests, recorded as insecure.
    force : replace an existing target.
    card : also write a page for people, `<target>.card.md` and `.html`.
    ledger : the custodian's own file of releases, to which this one is added before it appears.
    dataset : a name for the records in the ledger, the same for every version of their file.
    tell : called with how much was read, and of how much.
    """
    known = mechanism if isinstance(mechanism, Mechanism) else Mechanism.load(mechanism)
    if seed is not None:
        warnings.warn(
            "release(seed=...) is reproducible and therefore not secure: leave the seed out for a release",
            PramanaWarning,
            stacklevel=3,
        )
    randomness = source_of(known, key=key, named=id is not None, seed=seed, blocks=True)
    paths = (Path(source), Path(target))
    plan = _Plan(*paths, known, randomness, id, Path(ledger) if ledger else None, dataset, force, card, tell)
    reader = _opened(plan)
    try:
        return _released(plan, reader)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PramanaError(f"{plan.target.name!r} could not be written: {why}; nothing was published") from None


def _opened(plan: _Plan) -> Reader:
    """Everything that can be wrong without looking at a row."""
    check_paths(plan.source, plan.target, force=plan.force)
    if plan.card:
        refuse_existing(list(plan.cards), force=plan.force)
    read_package(plan.target.parent)
    if plan.ledger is not None:
        ledgers.read_ledger(plan.ledger, missing=True)
    if find_description(plan.source) is not None:
        raise MechanismError(
            f"{plan.source.name!r} was perturbed already, as its description says: release from the original file"
        )
    for assignment in plan.mechanism.assignments:
        for place in range(len(assignment.columns)):
            component(assignment, place)
    strata = plan.mechanism.context
    reader = open_reader(plan.source, plan.mechanism.columns)
    require(reader, plan.mechanism.columns, "the mechanism")
    require(reader, strata, "the mechanism's strata")
    if plan.identifier is not None:
        require(reader, [plan.identifier], "the keyed release")
        if plan.identifier in plan.mechanism.columns:
            raise DataError(f"the identifier {plan.identifier!r} is perturbed itself: use an unperturbed column")
    return reader


def _released(plan: _Plan, reader: Reader) -> Release:
    with pending(plan.target) as temporary:
        rows, counts = _written(plan, reader, temporary)
        settle(temporary)
        digest = sha256(temporary)
        body = pram_object(plan.mechanism, rows=rows, randomness=plan.randomness.kind, sha256=digest)
        entry = resource(plan.target, reader, plan.mechanism, body, temporary.stat().st_size)
        _record(plan, rows, digest)
        _publish(plan, temporary, entry, counts)
    cards = plan.cards if plan.card else ()
    description = plan.target.with_name(PACKAGE)
    kind = plan.randomness.kind
    return Release(plan.target, description, cards, rows, digest, plan.mechanism.epsilon, kind)


def _written(plan: _Plan, reader: Reader, temporary: Path) -> tuple[int, list[Tally]]:
    """The perturbed copy under its temporary name; nothing but released values ever reaches it."""
    perturbation = Perturbation(plan.mechanism, plan.randomness, plan.identifier)
    rows = 0
    with closing(_writer(plan, reader, temporary)) as writer:
        for block in reader.blocks():
            writer.write(block.replaced(perturbation.released(block)))
            rows += block.rows
            if plan.tell is not None:
                plan.tell(*reader.progress)
        perturbation.finish()
    return rows, perturbation.counts


def _writer(plan: _Plan, reader: Any, temporary: Path) -> Writer:
    if format_of(plan.target) == "csv":
        from pramana.frames.blocks.csv_files import CsvWriter

        return CsvWriter(temporary, reader, compressed=plan.target.suffix.lower() == ".gz")
    from pramana.frames.blocks.parquet_files import ParquetWriter

    body = pram_object(plan.mechanism, rows=reader.rows, randomness=plan.randomness.kind)
    return ParquetWriter(temporary, reader, inside(body))


def _record(plan: _Plan, rows: int, digest: str) -> None:
    """The ledger first: a release that it does not know must not exist."""
    if plan.ledger is None:
        return
    entry = ledgers.Entry(
        dataset=plan.dataset,
        source=sha256(plan.source),
        released=digest,
        target=plan.target.name,
        rows=rows,
        randomness=plan.randomness.kind,
        key=plan.randomness.key.fingerprint if isinstance(plan.randomness, Keyed) else None,
        epsilon=ledgers.finite(plan.mechanism.epsilon),
        columns=ledgers.column_records(plan.mechanism),
    )
    again = ledgers.independent(ledgers.read_ledger(plan.ledger, missing=True), entry)
    if again:
        warnings.warn(
            f"these records were released before with other draws of {', '.join(again)}: an attacker can combine the two, and "
            "their epsilons add; use a key to repeat the same draws",
            PramanaWarning,
            stacklevel=5,
        )
    ledgers.append(plan.ledger, entry)


def _publish(plan: _Plan, temporary: Path, entry: dict[str, Any], counts: list[Tally]) -> None:
    """First the description, then the data; where the data cannot follow, the description goes back."""
    package = plan.target.with_name(PACKAGE)
    with locked(plan.target.parent):
        before = package.read_text(encoding="utf-8") if package.exists() else None
        write_text(package, merged(read_package(plan.target.parent), entry))
        try:
            if plan.card:
                _write_cards(plan, entry, counts)
            publish(temporary, plan.target)
        except BaseException:
            if before is None:
                package.unlink(missing_ok=True)
            else:
                write_text(package, before)
            raise


def _write_cards(plan: _Plan, entry: dict[str, Any], counts: list[Tally]) -> None:
    from pramana.disclosure.release.card import card_page

    page = card_page(plan.target.name, plan.mechanism, entry["pram"], counts)
    for path, text in zip(plan.cards, (page.markdown(), page.html()), strict=True):
        write_text(path, text)

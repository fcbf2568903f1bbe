"""Perturb a file and publish it with its description."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pramana.disclosure.release import ledger as ledgers
from pramana.disclosure.release.description import PACKAGE, inside, merged, pram_object, read_package, resource
from pramana.disclosure.release.streaming import FilePerturbation, Tally, component
from pramana.errors import DataError, MechanismError, PramanaError, PramanaWarning, confidential
from pramana.frames.blocks.stream import Reader, Writer, open_reader, require
from pramana.frames.files import format_of
from pramana.frames.writing import check_paths, locked, pending, publish, refuse_existing, settle, sha256, write_text
from pramana.mechanism import Mechanism
from pramana.mechanism.description.reading import find_description
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
    """Columns whose epsilon holds only given frequencies that come from the confidential file."""


@dataclass(frozen=True)
class _Order:
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
    order = _Order(*paths, known, randomness, id, Path(ledger) if ledger else None, dataset, force, card, tell)
    reader = _opened(order)
    try:
        return _released(order, reader)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PramanaError(f"{order.target.name!r} could not be written: {why}; nothing was published") from None


def _opened(order: _Order) -> Reader:
    """Everything that can be wrong without looking at a row."""
    check_paths(order.source, order.target, force=order.force)
    if order.card:
        refuse_existing(list(order.cards), force=order.force)
    read_package(order.target.parent)
    if order.ledger is not None:
        ledgers.read_ledger(order.ledger, missing=True)
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


def _released(order: _Order, reader: Reader) -> Release:
    with pending(order.target) as temporary:
        rows, counts = _written(order, reader, temporary)
        settle(temporary)
        digest = sha256(temporary)
        body = pram_object(order.mechanism, rows=rows, randomness=order.randomness.kind, sha256=digest)
        entry = resource(order.target, reader, order.mechanism, body, temporary.stat().st_size)
        _record(order, rows, digest)
        _publish(order, temporary, entry, counts)
    cards = order.cards if order.card else ()
    description = order.target.with_name(PACKAGE)
    kind, known = order.randomness.kind, order.mechanism
    return Release(order.target, description, cards, rows, digest, known.epsilon, kind, tuple(known.conditional))


def _written(order: _Order, reader: Reader, temporary: Path) -> tuple[int, list[Tally]]:
    """The perturbed copy under its temporary name; nothing but released values ever reaches it."""
    perturbation = FilePerturbation(order.mechanism, order.randomness, order.identifier)
    rows = 0
    with closing(_writer(order, reader, temporary)) as writer:
        for block in reader.blocks():
            writer.write(block.replaced(perturbation.released(block)))
            rows += block.rows
            if order.tell is not None:
                order.tell(*reader.progress)
        perturbation.finish()
    return rows, perturbation.counts


def _writer(order: _Order, reader: Any, temporary: Path) -> Writer:
    if format_of(order.target) == "csv":
        from pramana.frames.blocks.csv_files import CsvWriter

        return CsvWriter(temporary, reader, compressed=order.target.suffix.lower() == ".gz")
    from pramana.frames.blocks.parquet_files import ParquetWriter

    body = pram_object(order.mechanism, rows=reader.rows, randomness=order.randomness.kind)
    return ParquetWriter(temporary, reader, inside(body))


def _record(order: _Order, rows: int, digest: str) -> None:
    """The ledger first: a release that it does not know must not exist."""
    if order.ledger is None:
        return
    entry = ledgers.Entry(
        dataset=order.dataset,
        source=sha256(order.source),
        released=digest,
        target=order.target.name,
        rows=rows,
        randomness=order.randomness.kind,
        key=order.randomness.key.fingerprint if isinstance(order.randomness, Keyed) else None,
        epsilon=ledgers.finite(order.mechanism.epsilon),
        columns=ledgers.column_records(order.mechanism),
    )
    again = ledgers.independent_draws(ledgers.read_ledger(order.ledger, missing=True), entry)
    if again:
        warnings.warn(
            f"these records were released before with other draws of {', '.join(again)}: an attacker can combine the two, and "
            "their epsilons add; use a key to repeat the same draws",
            PramanaWarning,
            stacklevel=5,
        )
    ledgers.append(order.ledger, entry)


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

"""Perturb a file and publish it with its description."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pramana.arrays import Int
from pramana.disclosure.release import ledger as ledgers
from pramana.disclosure.release.description import PACKAGE, inside, merged, pram_object, read_package, resource
from pramana.disclosure.release.handling import Handling, asked
from pramana.disclosure.release.link import LinkWriter, refuse_link
from pramana.disclosure.release.streaming import Coding, FilePerturbation, Tally, component
from pramana.errors import DataError, MechanismError, PramanaError, PramanaWarning, confidential, suggestion
from pramana.frames import Level
from pramana.frames.blocks.stream import Layout, Reader, Writer, open_reader, open_typed, require
from pramana.frames.dialects import CsvFile, DataFile, data_file
from pramana.frames.files import existing, format_of
from pramana.frames.writing import check_paths, locked, pending, publish, refuse_existing, settle, sha256, write_text
from pramana.mechanism import Mechanism, Unit
from pramana.mechanism.description.document import find_description
from pramana.mechanism.designs.design_file import Design
from pramana.mechanism.draws.keyed import Key
from pramana.mechanism.draws.keystream import FreshKeystream, RandomnessKind, SeededKeystream
from pramana.mechanism.draws.perturbation import Keyed, Source, source_of
from pramana.progress import Tell

if TYPE_CHECKING:
    from pramana.disclosure.release.identifiers import NewIdentifiers


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
    """Columns whose epsilon holds only given what comes from the confidential file."""
    missing: Mapping[str, int] = field(default_factory=dict)
    """Records without a value, by perturbed column: that a value is missing is published as it is."""
    link: Path | None = None


@dataclass(frozen=True)
class _Order:
    """A release that passed every check that needs no row."""

    file: DataFile
    target: Path
    mechanism: Mechanism
    codings: Mapping[str, Coding]
    merges: Mapping[str, Any]
    randomness: Source
    identifier: str | None
    handling: Handling
    ledger: Path | None
    dataset: str | None
    force: bool
    card: bool
    tell: Tell | None

    @property
    def source(self) -> Path:
        return Path(self.file)

    @property
    def cards(self) -> tuple[Path, ...]:
        stem = self.target.name
        return (self.target.with_name(f"{stem}.card.md"), self.target.with_name(f"{stem}.card.html"))

    @property
    def kept_key(self) -> Key | None:
        """The custodian's own key, or None where draws come from one that nobody keeps."""
        source = self.randomness
        return source.key if isinstance(source, Keyed) and source.kind == "keyed" else None

    def facts(self) -> dict[str, Any]:
        """What is published of how the file was handled."""
        h = self.handling
        return {
            "missing_level": h.missing_level,
            "merged": dict(self.merges),
            "dropped": list(h.drop),
            "shuffled": h.shuffle,
            "new_id": h.new_id,
            "allowed": sorted(h.allow),
        }


@confidential
def release(
    source: str | Path | CsvFile,
    target: str | Path,
    mechanism: Mechanism | Design | str | Path,
    *,
    key: Key | bytes | str | Path | None = None,
    id: str | None = None,
    unit: Unit | str | None = None,
    seed: int | None = None,
    drop: Sequence[str] = (),
    shuffle: bool = False,
    new_id: str | None = None,
    link: str | Path | None = None,
    missing: Sequence[str] = (),
    missing_level: Level | None = None,
    merge_below: int | None = None,
    allow: Sequence[str] = (),
    force: bool = False,
    card: bool = False,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    tell: Tell | None = None,
) -> Release:
    """Write `target`, a perturbed copy of the file `source`, and its description in the datapackage.json beside it.

    The target appears complete or not at all, after its description; the source is never overwritten. Files are read in
    blocks, so their size does not matter. Columns that the mechanism does not name, their order and all types are kept;
    missing values stay missing unless they are a level, are counted, and are not protected.

    Parameters
    ----------
    source, target : CSV (.csv, .tsv, .tab, .txt, or these with .gz) or Parquet files. A CSV source can be released as Parquet,
        its columns then having the types that all their fields read as; otherwise the format is kept. CSV is written as UTF-8,
        with the delimiter and decimal mark of its source, which are found from the file or stated by a `CsvFile`.
    mechanism : a Mechanism or a Design, or the path of its description (JSON) or design (TOML).
    key, id : keyed draws, as in `Mechanism.perturb`; `id` names a column.
    unit : the column that identifies persons with several records: all records of a person get one draw, and epsilon is of
        the person. Their true value must not vary, unless `Unit(column, varies=True)` says that it may.
    seed : repeatable draws for tests, recorded as insecure.
    drop : columns to leave out.
    shuffle : put the records into a random order.
    new_id : the name of a column of new random identifiers. Where the file has it, records that shared the old identifier
        share the new one; under a key a person keeps it from release to release.
    link : a file (.parquet or .csv, not beside the target) that says which original record each released one is, readable
        by its owner alone; `audit` and `risk` take it.
    missing : marks that stand for a missing value, such as "NA" or "-8", beside the empty field and the null; they are
        published as empty.
    missing_level : a level of the mechanism that stands for a missing value, so that missingness is perturbed too.
    merge_below : with a design, merge values held by fewer than so many people (records, or units).
    allow : "rare-levels" publishes a list of levels of which some are held by one or two people.
    force : replace an existing target.
    card : also write a page for people, `<target>.card.md` and `.html`.
    ledger : the custodian's own file of releases, to which this one is added before it appears.
    dataset : a name for the records in the ledger, the same for every version of their file.
    tell : called with how much was read, and of how much.
    """
    handling = Handling(
        tuple(drop),
        shuffle,
        new_id,
        Path(link) if link else None,
        tuple(missing),
        missing_level,
        merge_below,
        frozenset(allow),
    )
    file = data_file(source)
    existing(Path(file))
    known, codings, merges = asked(mechanism, file, unit, handling)
    if seed is not None:
        warnings.warn(
            "release(seed=...) is reproducible and therefore not secure: leave the seed out for a release",
            PramanaWarning,
            stacklevel=3,
        )
    randomness = source_of(known, key=key, named=id is not None, seed=seed, blocks=True)
    identifier = id if known.unit is None else known.unit.column
    book = Path(ledger) if ledger else None
    paths = (file, Path(target))
    order = _Order(*paths, known, codings, merges, randomness, identifier, handling, book, dataset, force, card, tell)
    reader = _opened(order)
    try:
        return _released(order, reader, seed)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PramanaError(f"{order.target.name!r} could not be written: {why}; nothing was published") from None


def _opened(order: _Order) -> Reader:
    """Everything that can be wrong without looking at a row."""
    check_paths(order.source, order.target, force=order.force)
    if order.card:
        refuse_existing(list(order.cards), force=order.force)
    if order.handling.link is not None:
        refuse_link(order.handling.link, order.target)
        refuse_existing([order.handling.link], force=order.force)
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
    reader = _reader(order)
    require(reader, order.mechanism.columns, "the mechanism")
    require(reader, order.mechanism.context, "the mechanism's strata")
    require(reader, order.handling.drop, "drop")
    if order.identifier is not None:
        require(reader, [order.identifier], "the unit" if order.mechanism.unit else "the keyed release")
        if order.identifier in order.mechanism.columns:
            raise DataError(f"the identifier {order.identifier!r} is perturbed itself: use an unperturbed column")
    _refuse_handling(order)
    return reader


def _reader(order: _Order) -> Reader:
    known, missing = order.mechanism, order.handling.missing
    if (format_of(order.source), format_of(order.target)) != ("csv", "parquet"):
        return open_reader(order.file, known.columns, missing)
    levels = {name: component(a, place) for a in known.assignments for place, name in enumerate(a.columns)}
    strata = [by for a in known.assignments for by in a.channel.context if isinstance(next(iter(a.channel.parts)), str)]
    return open_typed(order.file, levels, strata, missing)


def _refuse_handling(order: _Order) -> None:
    """Columns that analysts need cannot be dropped, and only clean ones can be identifiers."""
    unit = [] if order.mechanism.unit is None else [order.mechanism.unit.column]
    needed = {
        **dict.fromkeys(order.mechanism.columns, "is perturbed: leave it out of the mechanism"),
        **dict.fromkeys(order.mechanism.context, "decides the transition matrix, and analysts need it: keep it"),
        **dict.fromkeys(unit, "is the unit, by which analysts must cluster: keep it, or replace it with new_id"),
    }
    for name in order.handling.drop:
        if name in needed:
            raise PramanaError(f"column {name!r} cannot be dropped, since it {needed[name]}")
    new = order.handling.new_id
    if new is not None and new in [*order.handling.drop, *order.mechanism.columns, *order.mechanism.context]:
        raise PramanaError(f"new_id={new!r} is a column that is dropped, perturbed or a stratum: give another name")
    unknown = order.handling.allow - {RARE}
    if unknown:
        raise PramanaError(f"allow={min(unknown)!r} is unknown: {suggestion(min(unknown), [RARE])}")


def _released(order: _Order, reader: Reader, seed: int | None) -> Release:
    layout = Layout.of(reader.names, order.handling.drop, order.handling.new_id)
    with ExitStack() as stack:
        temporary = stack.enter_context(pending(order.target))
        link = None if order.handling.link is None else stack.enter_context(pending(order.handling.link))
        rows, perturbation = _written(order, reader, layout, _Copies(temporary, link), seed)
        _refuse_rare(order, perturbation.held)
        settle(temporary)
        digest = sha256(temporary)
        gaps = {name: count for name, count in perturbation.missing.items() if count}
        facts = order.facts() | {"missing": gaps, "sha256": digest}
        body = pram_object(order.mechanism, rows=rows, randomness=order.randomness.kind, facts=facts)
        types, size = layout.types(reader), temporary.stat().st_size
        entry = resource(order.target, types, order.mechanism, body, size, reader.dialect)
        _record(order, rows, digest)
        if link is not None and order.handling.link is not None:
            settle(link)
            publish(link, order.handling.link)
        _publish(order, temporary, entry, perturbation.counts)
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
        gaps,
        order.handling.link,
    )


RARE = "rare-levels"
FEWEST = 3
"""People who must hold a level that is published, unless nobody does: two can tell what the other one has."""


def _refuse_rare(order: _Order, held: Sequence[Int]) -> None:
    """Levels held by one or two people say that such people are in the file."""
    fewest = max(order.handling.merge_below or 0, FEWEST)
    for assignment, counts in zip(order.mechanism.assignments, held, strict=True):
        rare = int(np.sum((counts > 0) & (counts < fewest)))
        if rare and RARE not in order.handling.allow:
            who = "record(s)" if order.mechanism.unit is None else f"{order.mechanism.unit.column}(s)"
            raise PramanaError(
                f"{rare} level(s) of {' × '.join(assignment.columns)} are held by fewer than {fewest} {who}, and the published list of "
                f"levels would tell that they are there: merge them (a design with merge_below, --merge-below {fewest}), or say "
                f"that the list was public before the data (allow {RARE!r})"
            )


@dataclass(frozen=True)
class _Copies:
    """The files being written under temporary names."""

    data: Path
    link: Path | None


def _written(
    order: _Order, reader: Reader, layout: Layout, copies: _Copies, seed: int | None
) -> tuple[int, FilePerturbation]:
    """The perturbed copy under its temporary name; nothing but released values ever reaches it."""
    perturbation = FilePerturbation(order.mechanism, order.randomness, order.identifier, order.codings)
    with ExitStack() as stack:
        writer = stack.enter_context(closing(_writer(order, reader, layout, copies.data)))
        link = None
        if copies.link is not None and order.handling.link is not None:
            link = stack.enter_context(closing(LinkWriter(copies.link, order.handling.link)))
        rows = 0
        for batch, original in _moved(order, _batches(order, reader, layout, perturbation, seed), reader, seed):
            writer.write(batch)
            if link is not None:
                link.write(original)
            rows += batch.num_rows
    return rows, perturbation


def _batches(
    order: _Order, reader: Reader, layout: Layout, perturbation: FilePerturbation, seed: int | None
) -> Iterator[Any]:
    """Released records, block by block."""
    identifiers = None if order.handling.new_id is None else _identifiers(order, reader, seed)
    for block in reader.blocks():
        texts = None if identifiers is None else identifiers.texts(block)
        yield block.released(perturbation.drawn(block), layout, texts)
        if order.tell is not None:
            order.tell(*reader.progress)
    perturbation.finish()


def _moved(order: _Order, batches: Iterator[Any], reader: Reader, seed: int | None) -> Iterator[tuple[Any, Int]]:
    """The records in the order of the release, with the rows that they had."""
    if not order.handling.shuffle:
        row = 0
        for batch in batches:
            yield batch, np.arange(row, row + batch.num_rows)
            row += batch.num_rows
        return
    from pramana.disclosure.release.shuffling import Shuffle

    stream = FreshKeystream() if seed is None else SeededKeystream(seed, _ORDER)
    with closing(Shuffle(order.target.parent, stream, reader.size)) as shuffle:
        for batch in batches:
            shuffle.add(batch)
        yield from shuffle.shuffled()


_ORDER, _NAMES = 1_000_001, 1_000_002
"""Lanes of a seed that no column uses."""


def _identifiers(order: _Order, reader: Reader, seed: int | None) -> NewIdentifiers:
    from pramana.disclosure.release.identifiers import NewIdentifiers

    stream = FreshKeystream() if seed is None else SeededKeystream(seed, _NAMES)
    key = order.kept_key or Key(stream.words(4).tobytes())
    old = order.handling.new_id if order.handling.new_id in reader.names else None
    return NewIdentifiers(old, key, stream)


def _writer(order: _Order, reader: Any, layout: Layout, temporary: Path) -> Writer:
    if format_of(order.target) == "csv":
        from pramana.frames.blocks.csv_files import CsvWriter

        return CsvWriter(temporary, reader, layout, compressed=order.target.suffix.lower() == ".gz")
    from pramana.frames.blocks.parquet_files import ParquetWriter

    body = pram_object(order.mechanism, rows=reader.rows, randomness=order.randomness.kind, facts=order.facts())
    return ParquetWriter(temporary, reader, layout, inside(body))


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
        key=None if order.kept_key is None else order.kept_key.fingerprint,
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

"""Perturb a file and publish it with its description."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pramana.arrays import Int
from pramana.disclosure.release.clearance import NEARLY, Clearance, Gate, Intent
from pramana.disclosure.release.description import inside, merged_package, pram_object, read_package, resource
from pramana.disclosure.release.handling import Handling, asked
from pramana.disclosure.release.link import LinkWriter, lies_below, refuse_beside, refuse_ending
from pramana.disclosure.release.policy import AuditRule, Balance, Policy, checked_policy
from pramana.disclosure.release.streaming import Coding, Distances, FilePerturbation, ReleaseTotals, released_type
from pramana.errors import DataError, MechanismError, PramanaError, PramanaWarning, confidential
from pramana.frames import Level
from pramana.frames.blocks.stream import CopyLayout, Reader, Writer, open_reader, open_typed, require
from pramana.frames.dialects import CsvFile, DataFile, Dialect, data_file
from pramana.frames.files import existing, format_of
from pramana.frames.folders import files_of
from pramana.frames.inputs import guarded
from pramana.frames.writing import (
    PendingFile,
    check_paths,
    check_target,
    encoded,
    locked,
    pending,
    publish,
    refuse_same,
    sha256,
)
from pramana.mechanism import Assignment, JointGaussianNoise, Mechanism, Unit
from pramana.mechanism.channels.additive_noise import GridNoise
from pramana.mechanism.description.reading import PACKAGE, find_description
from pramana.mechanism.designs.design_file import Design
from pramana.mechanism.draws.keyed import Key
from pramana.mechanism.draws.keystream import FreshKeystream, Keystream, RandomnessKind, SeededKeystream
from pramana.mechanism.draws.perturbation import Keyed, OneStream, Randomness, SeededBlocks, randomness_of
from pramana.progress import Tell

if TYPE_CHECKING:
    from pramana.disclosure.release.link import NewIdentifiers


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
    condition: str = ""
    """What must be said after epsilon: nothing, or what it is conditional on."""
    allowed: tuple[str, ...] = ()
    """What had to be allowed by name."""
    budget: tuple[Balance, ...] = ()
    """Every budget of the policy that the release touches, and what is left of it."""
    files: tuple[str, ...] = ()
    """The names of the files, where `path` is a folder of them."""


@dataclass(frozen=True)
class ReleaseDraws:
    """Where the random words of a release come from; it travels to whoever perturbs one of its files.

    Attributes
    ----------
    key : of keyed draws: the custodian's own, or one that nobody keeps.
    names : the key under which old identifiers become new ones.
    file : the place of a file among several; files with keyed draws share their words, others never do.
    """

    kind: RandomnessKind
    key: Key | None
    seed: int | None
    names: Key
    file: tuple[int, ...] = ()

    @staticmethod
    def of(source: Randomness, seed: int | None) -> ReleaseDraws:
        key = source.key if isinstance(source, Keyed) else None
        stream = FreshKeystream() if seed is None else SeededKeystream(seed, _KEYS)
        made = ReleaseDraws(source.kind, key, seed, Key(stream.words(4).tobytes()))
        return made if made.kept is None else replace(made, names=made.kept)

    @property
    def kept(self) -> Key | None:
        """The custodian's own key, or None where draws come from one that nobody keeps."""
        return self.key if self.kind == "keyed" else None

    def source(self, mechanism: Mechanism) -> Randomness:
        """The words of one file."""
        if self.key is not None:
            return Keyed(self.key, mechanism, self.kind)
        if self.seed is None:
            return OneStream("fresh", FreshKeystream())
        return SeededBlocks(self.seed, len(mechanism.assignments), *self.file)

    def stream(self, lane: int) -> Keystream:
        """Words for something else than a column."""
        return FreshKeystream() if self.seed is None else SeededKeystream(self.seed, lane, *self.file)


_ORDER, _NAMES, _KEYS = 1_000_001, 1_000_002, 1_000_003
"""Lanes of a seed that no column uses."""


@dataclass(frozen=True)
class CheckedRelease:
    """A release that has passed the checks which can be made before any record is read."""

    file: DataFile
    target: Path
    mechanism: Mechanism
    codings: Mapping[str, Coding]
    merges: Mapping[str, Any]
    draws: ReleaseDraws
    identifier: str | None
    handling: Handling
    gate: Gate
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

    def facts(self, cleared: Clearance) -> dict[str, Any]:
        """What is published of how the file was handled."""
        h = self.handling
        return {
            "missing_level": {n: coding.missing for n, coding in self.codings.items() if coding.missing is not None},
            "missing_marks": list(h.missing),
            "merged": dict(self.merges),
            "dropped": list(h.drop),
            "shuffled": h.shuffle,
            "new_id": h.new_id,
            "allowed": list(cleared.allowed),
        }


@confidential
@guarded()
def release(
    source: str | Path | CsvFile | Sequence[str | Path | CsvFile],
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
    force: bool = False,
    card: bool = False,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    policy: Policy | str | Path | None = None,
    allow: str | Sequence[str] = (),
    override: str | None = None,
    jobs: int | None = None,
    tell: Tell | None = None,
) -> Release:
    """Write `target`, a perturbed copy of the file `source`, and its description in the datapackage.json beside it.

    The target appears complete or not at all, after its description; the source is never overwritten. Files are read in
    blocks, so their size does not matter. Columns that the mechanism does not name, their order and all types are kept;
    missing values stay missing unless they are a level, are counted, and are not protected. A number that gets noise has a type that
    holds it: whole numbers of 64 bits, or fractions where the noise has some.

    Parameters
    ----------
    source, target : two files, or two folders: each file of the folder `source` (or of a pattern such as "in/*.parquet", or of a list) is
        perturbed to a file of the same name in the folder `target`, which appears with all of them or not at all, under one
        description and one entry of the ledger. CSV (.csv, .tsv, .tab, .txt, or these with .gz) or Parquet files. A CSV source can be released as Parquet,
        its columns then having the types that all their fields read as; otherwise the format is kept. CSV is written as UTF-8,
        with the delimiter and decimal mark of its source, which are found from the file or stated by a `CsvFile`.
    mechanism : a Mechanism or a Design, or the path of its description (JSON) or design (TOML).
    key, id : keyed draws, as in `Mechanism.perturb`; `id` names a column.
    unit : the column that identifies persons with several records: all records of a person get one draw, and epsilon is of
        the person. Their true value must not vary, unless `Unit(column, varies=True)` says that it may.
    seed : repeatable draws for tests, recorded as insecure; refused unless allowed.
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
    force : replace an existing target.
    card : also write a page for people, `<target>.card.md` and `.html`.
    ledger : the custodian's own file of releases, to which this one is added before it appears.
    dataset : a name for the records in the ledger, the same for every version of their file.
    policy : an agency's rules, or the TOML file that holds them: what they and the ledger forbid together is refused.
    allow : what is refused without it: "identity" (a matrix that leaves values as they are, noise that rounding undoes), "seed", "second-draw" (other
        draws of records that the ledger knows), "unperturbed" (a column clear in one release, perturbed in another),
        "shared-key" (a key that has served other records) and "rare-levels" (a list of levels of which some are held by one or
        two people). Only a ledger can show the third to the fifth.
    override : why the policy is not followed; written into the ledger.
    jobs : processes that work on the files of a folder: by default as many as there are cores, where the files are large.
    tell : called with how much was read, and of how much.
    """
    from pramana.disclosure.release.folders import refuse_folder, released_folder

    names = (allow,) if isinstance(allow, str) else tuple(allow)
    gate = Gate(Path(ledger) if ledger else None, checked_policy(policy), names, override)
    handling = Handling(
        tuple(drop),
        shuffle,
        new_id,
        Path(link) if link else None,
        tuple(missing),
        missing_level,
        merge_below,
    )
    files = files_of(source)
    for file in files or (data_file(source),):  # type: ignore[arg-type]
        existing(Path(file))
    if files:
        refuse_folder(source, files, Path(target), handling)
    wanted = asked(mechanism, source, unit, handling)
    known, handling = wanted.mechanism, replace(handling, missing=wanted.missing)
    draws = ReleaseDraws.of(randomness_of(known, key=key, named=id is not None, seed=seed, blocks=True), seed)
    identifier = id if known.unit is None else known.unit.column
    paths = (files[0], Path(target) / files[0].name) if files else (data_file(source), Path(target))  # type: ignore[arg-type]
    order = CheckedRelease(
        *paths, known, wanted.codings, wanted.merges, draws, identifier, handling, gate, dataset, force, card, tell
    )
    if isinstance(key, str | Path):
        _refuse_in_public(Path(key), order, "key", "undoes the randomisation")
    try:
        made = released_folder(order, files, jobs) if files else _released_file(order)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PramanaError(f"{Path(target).name!r} could not be written: {why}; nothing was published") from None
    if gate.policy is not None and gate.policy.audit is not None:
        _audited(made, order, source if files else order.file, gate.policy.audit)
    return made


def _released_file(order: CheckedRelease) -> Release:
    reader = _opened(order)
    layout = CopyLayout.of(reader.names, order.handling.drop, order.handling.new_id)
    intent = intended(order, layout, "" if order.gate.ledger is None else sha256(order.source))
    return _released(order, reader, layout, intent, order.gate.clear(intent))


def intended(order: CheckedRelease, layout: CopyLayout, source: str) -> Intent:
    """What is about to be done; `source` is the digest of the confidential records."""
    return Intent(
        order.mechanism,
        order.target.name,
        format_of(order.target),
        order.draws.kind,
        clear=tuple(n for n in layout.names if n not in (*order.mechanism.columns, order.handling.new_id)),
        source=None if order.gate.ledger is None else source,
        dataset=order.dataset,
        identifier=order.identifier,
        key=None if order.draws.kept is None else order.draws.kept.fingerprint,
        card=order.card,
        shuffled=order.handling.shuffle,
        linked=order.handling.link is not None,
    )


def _audited(made: Release, order: CheckedRelease, source: Any, rule: AuditRule) -> None:
    """What the policy asks of the audit; the release stands in the ledger by now, and is not to be passed on."""
    from pramana.disclosure.audit.auditing import audit

    original = source if rule.original else None
    report = audit(
        made.path, original=original, link=order.handling.link if original else None, ledger=order.gate.ledger
    )
    wrong = [f for f in report.findings if f.severity == "error" or (f.severity == "warning" and not rule.warnings)]
    if wrong:
        said = "; ".join(f"{f.check}: {f.message}" for f in wrong[:5])
        raise PramanaError(
            f"the policy asks for a clean audit of {made.path.name!r}, which found {len(wrong)} fault(s) ({said}): the file was "
            "written and entered into the ledger; do not publish it"
        )


def _opened(order: CheckedRelease) -> Reader:
    """Everything that can be wrong without looking at a row."""
    encoded("".join((order.target.name, order.handling.new_id or "", *order.handling.missing)))
    check_paths(order.source, order.target, force=order.force)
    outputs = [order.target, order.target.with_name(PACKAGE)]
    check_target(outputs[1], force=True, updating="description")
    if order.card:
        for card in order.cards:
            check_target(card, force=order.force)
        outputs += order.cards
    if order.handling.link is not None:
        refuse_ending(order.handling.link)
        refuse_beside(order.handling.link, order.target, "link file", "undoes shuffling and new identifiers")
        check_target(order.handling.link, force=order.force)
        outputs.append(order.handling.link)
    if order.gate.ledger is not None:
        check_place_of_ledger(order)
        outputs.append(order.gate.ledger)
    refuse_same(outputs)
    read_package(order.target.parent)
    return checked_reader(order)


def check_place_of_ledger(order: CheckedRelease) -> None:
    """The ledger can be written, and does not lie among what is published."""
    if order.gate.ledger is not None:
        check_target(order.gate.ledger, force=True, updating="ledger")
        _refuse_in_public(order.gate.ledger, order, "ledger", "tells of every release, published or not")


def checked_reader(order: CheckedRelease) -> Reader:
    """The source, opened, if it was not perturbed before and has every column that is needed."""
    if find_description(order.source) is not None:
        raise MechanismError(
            f"{order.source.name!r} was perturbed already, as its description says: release from the original file"
        )
    reader = opened_as(order)
    require(reader, order.mechanism.columns, "the mechanism")
    require(reader, order.mechanism.context, "the mechanism's strata")
    require(reader, order.handling.drop, "drop")
    if order.identifier is not None:
        require(reader, [order.identifier], "the unit" if order.mechanism.unit else "the keyed release")
        if order.identifier in order.mechanism.columns:
            raise DataError(f"the identifier {order.identifier!r} is perturbed itself: use an unperturbed column")
    _refuse_handling(order)
    return reader


def _refuse_in_public(own: Path, order: CheckedRelease, what: str, why: str) -> None:
    """Nothing of the custodian's in a folder to publish; one that holds the confidential file itself is not one."""
    if not lies_below(order.source, order.target.parent):
        refuse_beside(own, order.target, what, why)


def opened_as(order: CheckedRelease) -> Reader:
    """The source as a stream of blocks that the target's writer takes."""
    known, missing = order.mechanism, order.handling.missing
    levels = {name: released_type(a, place) for a in known.assignments for place, name in enumerate(a.columns)}
    if (format_of(order.source), format_of(order.target)) != ("csv", "parquet"):
        return open_reader(order.file, known.columns, missing, {name: levels[name] for name in known.noisy})
    return open_typed(order.file, levels, known.texts, missing)


def _refuse_handling(order: CheckedRelease) -> None:
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


def _released(order: CheckedRelease, reader: Reader, layout: CopyLayout, intent: Intent, cleared: Clearance) -> Release:
    with ExitStack() as stack:
        data = stack.enter_context(pending(order.target, force=order.force))
        place = order.handling.link
        link = None if place is None else stack.enter_context(pending(place, force=order.force, private=True))
        totals = written_copy(order, reader, layout, Copies(data, link), cleared)
        totals.finish()
        data.settle()
        copy = Copy(
            order.target, totals, sha256(data.path), data.path.stat().st_size, layout.types(reader), reader.dialect
        )
        if link is not None:
            link.settle()
        # The ledger first: a release that it does not know must not exist. One that fails after all is taken back.
        read = told_by_rows(order, intent, totals)
        with order.gate.recorded(intent, cleared, read, released=copy.sha256, rows=totals.rows) as final:
            _publish(order, Copies(data, link), copy, final)
    return made_known(order, order.target, copy, order.cards, final)


@dataclass(frozen=True)
class Copy:
    """A perturbed file, or a folder of them, that is written but not published, and what is to be said of it.

    Attributes
    ----------
    types : Arrow's names of the columns' types. dialect : of a text file.
    """

    path: Path
    totals: ReleaseTotals
    sha256: str
    size: int
    types: Mapping[str, str]
    dialect: Dialect | None

    def body(self, order: CheckedRelease, final: Clearance) -> dict[str, Any]:
        """The `pram` object of its description."""
        facts = order.facts(final)
        facts |= {"missing": self.totals.gaps, "released": self.totals.released, "sha256": self.sha256}
        return pram_object(
            order.mechanism, rows=self.totals.rows, randomness=order.draws.kind, facts=facts, limits=final.limits
        )

    def entry(self, order: CheckedRelease, final: Clearance) -> dict[str, Any]:
        """Its entry in the Data Package."""
        return resource(self.path, self.types, order.mechanism, self.body(order, final), self.size, self.dialect)


def told_by_rows(order: CheckedRelease, intent: Intent, totals: ReleaseTotals) -> Intent:
    """The intent with what is known when all rows were read."""
    sketch = None if order.draws.kept is None else totals.sketch
    return replace(intent, rare=_rare(order, totals.held), legible=_legible(order, totals.distances), sketch=sketch)


def made_known(order: CheckedRelease, path: Path, copy: Copy, cards: Sequence[Path], final: Clearance) -> Release:
    """What the custodian is told of a release that was published."""
    _warn_of_bounds(copy.totals.distances)
    known = order.mechanism
    return Release(
        path,
        order.target.with_name(PACKAGE),
        tuple(cards) if order.card else (),
        copy.totals.rows,
        copy.sha256,
        known.epsilon,
        order.draws.kind,
        tuple(known.conditional),
        copy.totals.gaps,
        order.handling.link,
        known.epsilon_condition,
        final.allowed,
        final.balances,
    )


FEWEST = 3
"""People who must hold a level that is published, unless nobody does: two can tell what the other one has."""


def _rare(order: CheckedRelease, held: Sequence[Int]) -> str | None:
    """Levels held by one or two people, or by fewer than the policy says, tell that such people are in the file."""
    rules = order.gate.policy
    fewest = max(order.handling.merge_below or 0, FEWEST, (rules.limits.merge_below or 0) if rules else 0)
    for assignment, counts in zip(order.mechanism.assignments, held, strict=True):
        rare = int(np.sum((counts > 0) & (counts < fewest)))
        if rare:
            who = "record(s)" if order.mechanism.unit is None else f"{order.mechanism.unit.column}(s)"
            return (
                f"{rare} level(s) of {' × '.join(assignment.columns)} are held by fewer than {fewest} {who}, and the published list of "
                f"levels would tell that they are there: merge them (merge_below={fewest} in a design), unless the "
                "list was public before the data"
            )
    return None


def _warn_of_bounds(distances: Mapping[str, Distances]) -> None:
    for name, found in distances.items():
        if found.beyond:
            warnings.warn(
                f"{found.beyond} of {found.count} numbers of {name!r} lie outside the bounds of its noise, and the nearest bound stood for "
                "them: declare a mark of missing values (missing=), or widen the bounds",
                PramanaWarning,
                stacklevel=5,
            )


def _legible(order: CheckedRelease, distances: Mapping[str, Distances]) -> str | None:
    """Numbers that keep a distance from each other are read off where the noise hardly ever takes one as far as half of it."""
    for assignment in order.mechanism.assignments:
        for place, name in enumerate(assignment.columns if assignment.numeric else ()):
            for noise in _least(assignment, place):
                half = int(np.ceil(distances[name].apart / 2 / noise.grid)) - 1
                if half < 0:
                    continue
                middle = noise.chances.size // 2
                if float(noise.chances[max(middle - half, 0) : middle + half + 1].sum()) >= 1 - NEARLY:
                    told = ", to those who know the noise of the other columns," if len(assignment.columns) > 1 else ""
                    return (
                        f"nearly all values of {name!r} are round numbers, and its noise takes{told} fewer than 1 in {1 / NEARLY:g} of them "
                        "half as far as the next one: rounding undoes it; add more noise"
                    )
    return None


def _least(assignment: Assignment, place: int) -> Iterable[GridNoise]:
    """What hides a column's numbers from those who know all other columns."""
    channel = assignment.channel
    return [channel.given_others(place)] if isinstance(channel, JointGaussianNoise) else assignment.noises.values()


@dataclass(frozen=True)
class Copies:
    """The files being written under temporary names."""

    data: PendingFile
    link: PendingFile | None


def written_copy(
    order: CheckedRelease, reader: Reader, layout: CopyLayout, copies: Copies, cleared: Clearance
) -> ReleaseTotals:
    """The perturbed copy under its temporary name; nothing but released values ever reaches it."""
    draws = order.draws.source(order.mechanism)
    perturbation = FilePerturbation(order.mechanism, draws, order.identifier, order.codings)
    with ExitStack() as stack:
        writer = stack.enter_context(closing(_writer(order, reader, layout, copies.data, cleared)))
        link = None
        if copies.link is not None:
            link = stack.enter_context(closing(LinkWriter(copies.link.open(), copies.link.target)))
        for batch, original in _moved(order, _batches(order, reader, layout, perturbation), reader):
            writer.write(batch)
            if link is not None:
                link.write(original)
    return perturbation.totals


def _batches(
    order: CheckedRelease, reader: Reader, layout: CopyLayout, perturbation: FilePerturbation
) -> Iterator[Any]:
    """Released records, block by block."""
    identifiers = None if order.handling.new_id is None else _identifiers(order, reader)
    for block in reader.blocks():
        texts = None if identifiers is None else identifiers.texts(block)
        yield block.released(perturbation.drawn(block), layout, texts)
        if order.tell is not None:
            order.tell(*reader.progress)


def _moved(order: CheckedRelease, batches: Iterator[Any], reader: Reader) -> Iterator[tuple[Any, Int]]:
    """The records in the order of the release, with the rows that they had."""
    if not order.handling.shuffle:
        row = 0
        for batch in batches:
            yield batch, np.arange(row, row + batch.num_rows)
            row += batch.num_rows
        return
    from pramana.disclosure.release.shuffling import Shuffle

    with closing(Shuffle(order.target.parent, order.draws.stream(_ORDER), reader.size)) as shuffle:
        for batch in batches:
            shuffle.add(batch)
        yield from shuffle.shuffled()


def _identifiers(order: CheckedRelease, reader: Reader) -> NewIdentifiers:
    from pramana.disclosure.release.link import NewIdentifiers

    old = order.handling.new_id if order.handling.new_id in reader.names else None
    return NewIdentifiers(old, order.draws.names, order.draws.stream(_NAMES))


def _writer(order: CheckedRelease, reader: Any, layout: CopyLayout, part: PendingFile, cleared: Clearance) -> Writer:
    if format_of(order.target) == "csv":
        from pramana.frames.blocks.csv_files import CsvWriter

        return CsvWriter(part.open(), reader, layout, compressed=order.target.suffix.lower() == ".gz")
    from pramana.frames.blocks.parquet_files import ParquetWriter

    facts, kind = order.facts(cleared), order.draws.kind
    body = pram_object(order.mechanism, rows=reader.rows, randomness=kind, facts=facts, limits=cleared.limits)
    return ParquetWriter(part.open(), reader, layout, inside(body))


def _publish(order: CheckedRelease, copies: Copies, copy: Copy, final: Clearance) -> None:
    """First the description, then the data; where the data cannot follow, the description goes back."""
    package = order.target.with_name(PACKAGE)
    with locked(order.target.parent), ExitStack() as stack:
        described = stack.enter_context(pending(package, updating="description"))
        described.fill(encoded(merged_package(read_package(order.target.parent), copy.entry(order, final))))
        cards = []
        for path, text in zip(order.cards, card_texts(order, copy, final) if order.card else (), strict=False):
            cards.append(stack.enter_context(pending(path, force=order.force)))
            cards[-1].fill(encoded(text))
        own = [] if copies.link is None else [copies.link]
        publish(*own, described, *cards, copies.data)


def card_texts(order: CheckedRelease, copy: Copy, final: Clearance) -> tuple[str, str]:
    """The page about a file or a folder of them, as Markdown and as HTML."""
    from pramana.disclosure.release.card import card_page

    body, folder = copy.body(order, final), copy.path != order.target
    page = card_page(copy.path.name, order.mechanism, body, copy.totals.counts, folder=folder)
    return page.markdown(), page.html()

"""Perturb the files of a folder, each to a file of the same name in another folder, which appears whole or not at all.

Processes perturb the files in a folder without a name of its own, beside the target; what they found of each (counts, digests of identifiers)
adds up here, where repeated identifiers and units are seen over all files. Nothing but released values is ever written.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from pramana.blas import cores
from pramana.disclosure.release.clearance import Clearance, Gate
from pramana.disclosure.release.description import merged_package, read_package
from pramana.disclosure.release.handling import Handling
from pramana.disclosure.release.link import lies_below
from pramana.disclosure.release.releasing import (
    CheckedRelease,
    Copies,
    Copy,
    Release,
    card_texts,
    check_place_of_ledger,
    checked_reader,
    intended,
    made_known,
    opened_as,
    told_by_rows,
    written_copy,
)
from pramana.disclosure.release.streaming import ReleaseTotals
from pramana.errors import DataError, PramanaError, quoted
from pramana.frames.blocks.stream import CopyLayout, Reader
from pramana.frames.dialects import DataFile
from pramana.frames.folders import refuse_other_columns
from pramana.frames.processes import Processes
from pramana.frames.writing import (
    PendingFolder,
    check_folder,
    encoded,
    pending,
    pending_folder,
    publish,
    publish_folder,
    sha256,
    sha256_of,
    write_text,
)
from pramana.mechanism.description.reading import PACKAGE
from pramana.mechanism.draws.perturbation import Seen

SMALL = 1 << 26
"""Bytes of all files together that one process perturbs before another would have begun."""


def refuse_folder(source: Any, files: Sequence[DataFile], target: Path, handling: Handling) -> None:
    """What a folder is not released with, and where it is not."""
    if handling.shuffle:
        raise PramanaError(
            "shuffle would move records within their files, and which file a record is in, and so where it came from, would still be published: "
            "join the files, and release one shuffled file"
        )
    if handling.link is not None:
        raise PramanaError(
            "records of a folder keep their files and rows, so that no link file is needed: leave out link"
        )
    own = [Path(source)] if isinstance(source, str | os.PathLike) and Path(source).is_dir() else []
    if any(lies_below(target / "any", folder) for folder in own) or any(lies_below(Path(f), target) for f in files):
        raise PramanaError(
            f"{str(target)!r} is the folder of the confidential files, lies in it, or holds one of them: release into a folder of its own"
        )
    for file in files:
        if not file.name.isprintable() or file.name.startswith((".", "_")) or file.name != file.name.strip():
            raise PramanaError(
                f"the name of {str(file)!r} is not plain (it begins with a dot or a dash below, or holds what cannot be seen), and the released "
                "file would have it too: rename it"
            )


def released_folder(order: CheckedRelease, files: Sequence[DataFile], jobs: int | None) -> Release:
    """Every file perturbed, and all of them published at once. `order` is that of the first."""
    target = order.target.parent
    encoded(
        "".join((target.name, *(file.name for file in files), order.handling.new_id or "", *order.handling.missing))
    )
    check_folder(target, force=order.force)
    _refuse_foreign(target)
    check_place_of_ledger(order)
    orders = [replace(order, file=file, target=target / file.name) for file in files]
    layout = _checked(orders)
    sizes = [Path(file).stat().st_size for file in files]
    processes = Processes(_count(jobs, sizes))
    parts = () if order.gate.ledger is None else tuple(sha256(Path(file)) for file in files)
    intent = replace(
        intended(order, layout, sha256_of(parts)), target=target.name, parts=parts if len(parts) > 1 else ()
    )
    cleared = order.gate.clear(intent)
    with pending_folder(target, force=order.force) as folder:
        copies = _perturbed(orders, folder, cleared, processes, sizes)
        whole = _together(order, target, copies)
        read = told_by_rows(order, intent, whole.totals)
        with order.gate.recorded(intent, cleared, read, released=whole.sha256, rows=whole.totals.rows) as final:
            cards = _describe(order, folder, copies, whole, final)
            publish_folder(folder)
    made = made_known(order, target, whole, [target / card for card in cards], final)
    return replace(made, files=tuple(file.name for file in files))


def _count(jobs: int | None, sizes: Sequence[int]) -> int:
    """Processes: as many as asked for, or as there are cores, but no more than files; one where another would not pay."""
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise PramanaError(f"jobs={jobs!r} must be a whole number of at least 1")
    return min(jobs or (1 if sum(sizes) < SMALL else cores()), len(sizes))


def _refuse_foreign(target: Path) -> None:
    """A folder that is replaced holds an earlier release and nothing else, for all of it goes."""
    package = read_package(target) if target.is_dir() else None
    listed = [r.get("path") for r in (package or {}).get("resources", []) if isinstance(r, dict)]
    known = {PACKAGE, *_card_names(target), *(path for path in listed if isinstance(path, str))}
    foreign = [path for path in sorted(target.iterdir()) if path.name not in known] if target.is_dir() else []
    if foreign:
        raise PramanaError(
            f"{str(target)!r} holds {foreign[0].name!r}, which no release put there, and all of the folder would be replaced: take it away, or "
            "release into another folder"
        )


def _card_names(target: Path) -> tuple[str, str]:
    return f"{target.name}.card.md", f"{target.name}.card.html"


def _checked(orders: Sequence[CheckedRelease]) -> CopyLayout:
    """Every file has the columns that are needed, and all have the same, of the same types; one is open at a time."""
    first = _named(orders[0], checked_reader)
    for order in orders[1:]:
        reader = _named(order, checked_reader)
        refuse_other_columns([(first.path.name, first.names), (reader.path.name, reader.names)])
        types = reader.types
        for name, kind in first.types.items():
            if types[name] != kind:
                raise DataError(
                    f"column {name!r} is of type {quoted(types[name])} in {reader.path.name!r} and of type {quoted(kind)} in "
                    f"{first.path.name!r}: convert it to one type"
                )
    return _layout(orders[0], first)


def _layout(order: CheckedRelease, reader: Reader) -> CopyLayout:
    return CopyLayout.of(reader.names, order.handling.drop, order.handling.new_id)


def _named(order: CheckedRelease, work: Callable[[CheckedRelease], Any]) -> Any:
    """An error that says of which file it is."""
    try:
        return work(order)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PramanaError(f"{order.target.name!r} could not be written: {why}; nothing was published") from None
    except PramanaError as error:
        raise type(error)(f"file {order.source.name!r}: {error.marked}") from None


@dataclass(frozen=True)
class _Job:
    """One file: its order, whose target is in the folder in the making, and what is known of the release before any row."""

    order: CheckedRelease
    cleared: Clearance


def _perturbed(
    orders: Sequence[CheckedRelease],
    folder: PendingFolder,
    cleared: Clearance,
    processes: Processes,
    sizes: Sequence[int],
) -> list[Copy]:
    """A copy of every file in the folder in the making."""
    told = Clearance(cleared.allowed, limits=cleared.limits)
    jobs = [
        _Job(
            replace(
                order,
                target=folder.path / order.target.name,
                draws=replace(order.draws, file=(place,)),
                gate=Gate(),
                tell=None,
            ),
            told,
        )
        for place, order in enumerate(orders)
    ]
    copies = []
    for done, copy in zip(accumulate(sizes), processes.answers(perturb_file, jobs), strict=True):
        copies.append(copy)
        if orders[0].tell is not None:
            orders[0].tell(done, sum(sizes))
    return copies


def perturb_file(job: _Job) -> Copy:
    """Perturb one of the files; whoever asked adds up what is found of all."""
    return _named(job.order, lambda order: _copied(order, job.cleared))


def _copied(order: CheckedRelease, cleared: Clearance) -> Copy:
    reader = opened_as(order)
    layout = _layout(order, reader)
    with pending(order.target) as data:
        totals = written_copy(order, reader, layout, Copies(data, None), cleared)
        totals.seen.check()
        data.settle()
        made = Copy(
            order.target, totals, sha256(data.path), data.path.stat().st_size, layout.types(reader), reader.dialect
        )
        publish(data)
    return made


def _together(order: CheckedRelease, target: Path, copies: Sequence[Copy]) -> Copy:
    """All files as one; identifiers that occur in two of them are refused, and units that differ between them."""
    known = order.mechanism
    totals = ReleaseTotals(known, Seen(known, order.identifier or "id"))
    for copy in copies:
        totals.join(copy.totals)
    totals.finish(_place_in(copies))
    size = sum(copy.size for copy in copies)
    return Copy(target, totals, sha256_of(copy.sha256 for copy in copies), size, copies[0].types, copies[0].dialect)


def _place_in(copies: Sequence[Copy]) -> Callable[[int], str]:
    """From the number of a record among all to its file and row."""
    ends = list(accumulate(copy.totals.rows for copy in copies))

    def place(record: int) -> str:
        at = bisect_right(ends, record)
        return f"row {record - (ends[at - 1] if at else 0)} of {copies[at].path.name!r}"

    return place


def _describe(
    order: CheckedRelease, folder: PendingFolder, copies: Sequence[Copy], whole: Copy, final: Clearance
) -> tuple[str, ...]:
    """The description of every file, and cards of them all; the names of the cards."""
    entries = [copy.entry(order, final) for copy in copies]
    write_text(folder.path / PACKAGE, merged_package(None, *entries))
    if not order.card:
        return ()
    names = _card_names(folder.target)
    for name, text in zip(names, card_texts(order, whole, final), strict=True):
        write_text(folder.path / name, text)
    return names

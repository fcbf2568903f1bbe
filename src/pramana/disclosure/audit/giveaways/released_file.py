"""The search in a released file, with its true records beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pramana.arrays import Bool, Int
from pramana.disclosure.audit.auditing import Finding
from pramana.disclosure.audit.contents import Pair
from pramana.disclosure.audit.giveaways.search import Perturbed, search, stretches
from pramana.disclosure.audit.giveaways.spelling import Aspects, aspects_of, whole
from pramana.disclosure.audit.noise import code_rows
from pramana.disclosure.true_records import text_levels
from pramana.frames.blocks.csv_files import CsvReader
from pramana.frames.blocks.stream import open_reader
from pramana.frames.dialects import DataFile
from pramana.frames.folders import open_files, read_files
from pramana.frames.levels import Level
from pramana.mechanism import Mechanism


def check_giveaways(files: Sequence[DataFile], pairs: Iterator[Pair], mechanism: Mechanism) -> list[Finding]:
    """Everything in the released file that tells a perturbed column. Its clear columns are read as text where the file is CSV."""
    names = open_files(files).names
    rows = sum(block.rows for block in open_files(files).blocks())
    chosen = stretches(rows)
    position = np.flatnonzero(chosen)
    clear = [name for name in names if name not in mechanism.columns]
    known: dict[str, tuple[Level, ...]] = dict.fromkeys(names, ())
    columns = read_files(files, known | text_levels(mechanism), clear, chosen).native
    codes = _collected(pairs, chosen)
    perturbed = [
        Perturbed.of(margin, true[row], new[row], new[1])
        for assignment, (new, true) in zip(mechanism.assignments, codes, strict=bool(codes))  # none in an empty file
        for margin, row in zip(assignment.margins, code_rows(new), strict=True)
    ]
    unit = None if mechanism.unit is None else mechanism.unit.column
    return search(columns, perturbed, position, rows, mechanism.context, unit, _spelled(files, clear, chosen))


def _spelled(files: Sequence[DataFile], names: Sequence[str], chosen: Bool) -> dict[str, Aspects] | None:
    """How the fields of CSV files are written, in the chosen records; None for any other file."""
    parts: dict[str, list[Aspects]] = {name: [] for name in names}
    row = 0
    for file in files:
        reader = open_reader(file)
        if not isinstance(reader, CsvReader):
            return None
        marks = (reader.dialect.delimiter, reader.dialect.quote, reader.dialect.decimal)
        for block in reader.blocks():
            here = pa.array(chosen[row : row + block.rows])
            row += block.rows
            for name, found in parts.items():
                found.append(aspects_of(block.fields(name).filter(here), *marks))
    return {name: whole(found) for name, found in parts.items()}


def _collected(pairs: Iterator[Pair], chosen: Bool) -> list[tuple[Int, Int]]:
    """Released and true codes of the chosen records, for every assignment."""
    parts: list[Pair] = []
    row = 0
    for released, true in pairs:
        here = chosen[row : row + released[0].shape[1]]
        row += here.size
        parts.append(([r[:, here] for r in released], [t[:, here] for t in true]))
    new = [np.concatenate(p, axis=1) for p in zip(*(released for released, _ in parts), strict=True)]
    old = [np.concatenate(p, axis=1) for p in zip(*(true for _, true in parts), strict=True)]
    return list(zip(new, old, strict=True))

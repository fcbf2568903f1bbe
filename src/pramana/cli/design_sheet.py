"""From the options of `pramana design` to a design file and a table that shows what it does."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pramana.errors import DataError, PramanaError, confidential, suggestion
from pramana.frames import Kind, Level, Table, read
from pramana.frames.files import format_of
from pramana.frames.folders import files_of
from pramana.frames.marks import refuse_undeclared, with_gaps
from pramana.frames.table import require_columns
from pramana.mechanism import Assignment, TransitionMatrix
from pramana.mechanism.channels.additive_noise import AdditiveNoise
from pramana.mechanism.channels.transition import told_given
from pramana.mechanism.designs import best_for_epsilon
from pramana.mechanism.designs.design_file import Design
from pramana.mechanism.designs.noise_request import NoiseRequest
from pramana.mechanism.designs.request import Request, merged_values
from pramana.mechanism.draws.perturbation import cells_in
from pramana.render import Sheet, render

MATRIX_LIMIT = 10
LISTED_LIMIT = 20
_SHARES = ("frequency", "share", "count")


@confidential
def run_design(
    column: str,
    *,
    source: Path | None,
    levels: str | None,
    missing: tuple[str, ...],
    kind: Kind | None,
    frequencies_file: Path | None,
    out: Path | None,
    append: bool,
    force: bool,
    style: str,
    missing_level: str | None,
    **options: Any,
) -> str:
    """Build the design, write it where asked, and return the table to print."""
    existing = _existing(out, column, append, force)
    marks = tuple(dict.fromkeys([*existing.missing, *missing]))
    table = None if source is None else _confidential(source, column, levels, marks)
    listed = None if levels is None else _typed(levels, table, column)
    if listed is None and table is None:
        raise PramanaError(
            "the levels are unknown: give --from FILE to take them from a file, or list them with --levels"
        )
    if frequencies_file and not options["invariant"]:
        raise PramanaError("--frequencies-file belongs to --invariant: add it, or leave out the file")
    text = isinstance(listed[0], str) if listed else table is not None and table.column(column).dtype == object
    shares = _shares(frequencies_file, column, text) if frequencies_file else "data" if options["invariant"] else None
    stands = None if missing_level is None else _typed(missing_level, table if listed is None else None, column)[0]
    asked = Request((column,), levels=listed, kind=kind, frequencies=shares, missing_level=stands, **options)  # type: ignore[arg-type]
    request = asked.resolved(table, None if existing.unit is None else existing.unit.column)
    _refuse_other_values(request, table)
    design = Design((*existing.requests, request), existing.unit, marks)
    transition: Any = design.mechanism.used_by([column])[0].channel
    shown = render(_sheet(transition, request), style)
    if out is not None:
        design.write(out, force=force or append)
    return shown


@confidential
def run_noise_design(
    column: str,
    noise: str,
    *,
    source: Path | None,
    missing: tuple[str, ...],
    out: Path | None,
    append: bool,
    force: bool,
    style: str,
    bounds: str | None,
    **options: Any,
) -> str:
    """The same for a column of numbers that gets noise; the file is looked at for numbers alone."""
    existing = _existing(out, column, append, force)
    request = NoiseRequest((column,), noise, bounds=None if bounds is None else _typed(bounds, None, column), **options)
    marks = tuple(dict.fromkeys([*existing.missing, *missing]))
    design = Design((*existing.requests, request), existing.unit, marks)
    channel: Any = design.mechanism.used_by([column])[0].channel
    if source is not None:
        table = with_gaps(read(source), [column], marks)
        require_columns(table, [column], "the design")
        cells_in(table, Assignment((column,), channel))
    if out is not None:
        design.write(out, force=force or append)
    return render(_noise_sheet(column, channel), style)


def _noise_sheet(column: str, noise: AdditiveNoise) -> Sheet:
    clamped = "no bounds" if noise.bounds is None else f"{noise.bounds[0]:g} to {noise.bounds[1]:g}"
    rows: list[tuple[str, object]] = [
        ("noise", noise.law),
        ("true values clamped to", clamped),
        ("rounded to", noise.grid),
        ("standard deviation of the noise", float(noise.operator.spread)),
        ("epsilon", noise.epsilon),
        ("rho", noise.rho),
        ("delta", noise.delta),
    ]
    numbers = {name: value if not isinstance(value, float) or math.isfinite(value) else None for name, value in rows}
    return Sheet(("", "value"), tuple(rows), f"Design of {column}", data={"column": column, **numbers})


def _existing(out: Path | None, column: str, append: bool, force: bool) -> Design:
    """The design already in the file that is to be extended, without the column."""
    if append and force:
        raise PramanaError("--append and --force exclude each other: add to the file, or replace it")
    if out is None or not out.exists() or force:
        return Design(())
    if not append:
        raise PramanaError(f"{str(out)!r} exists: --append adds the column to it, --force replaces it")
    known = Design.asked(out)
    return replace(known, requests=tuple(request for request in known.requests if request.columns != (column,)))


def _confidential(path: Path, column: str, levels: str | None, missing: tuple[str, ...]) -> Table:
    """The file; codes such as 01 stay text, which a CSV reader would take for numbers, and declared marks are gaps."""
    wanted = _split(levels) if levels else []
    refuse_undeclared(path, {column: wanted}, missing)
    table = read(path, text={column: wanted})
    require_columns(table, [column], "the design")
    values = table.column(column)
    text = [v for v in values[~table.missing([column])].tolist() if isinstance(v, str)]
    padded = any(re.match(r"[+-]?0\d", v) for v in text)
    csv = any(format_of(Path(file)) == "csv" for file in files_of(path) or (path,))
    return with_gaps(read(path) if csv and not padded else table, [column], missing)


def _split(levels: str) -> list[str]:
    return [part.strip() for part in levels.split(",")]


def _typed(levels: str, table: Table | None, column: str) -> tuple[Level, ...]:
    """Levels given as text, in the type of the column; without data, numbers where all of them are."""
    parts = _split(levels)
    kind = None if table is None else table.column(column).dtype.kind
    if kind == "b":
        known = {"true": True, "false": False}
        if all(part.lower() in known for part in parts):
            return tuple(known[part.lower()] for part in parts)
    if kind in (None, "i", "u", "f") and all(re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", part) for part in parts):
        return tuple(float(part) if "." in part else int(part) for part in parts)
    return tuple(parts)


def _shares(path: Path, column: str, text: bool) -> dict[Any, float]:
    """A public table with the levels under the column's name (or `level`) and frequencies or counts beside them."""
    table = read(path, text={column: (), "level": ()} if text else {})
    name = column if column in table.names else "level"
    share = next((s for s in _SHARES if s in table.names), None)
    if name not in table.names or share is None:
        raise DataError(
            f"file {str(path)!r} must have a column {column!r} or 'level' and one of {', '.join(_SHARES)}: it has "
            f"{', '.join(table.names)}"
        )
    values = table.column(share)
    if values.dtype.kind not in "iuf" or table.missing([name, share]).any():
        raise DataError(f"column {share!r} of {str(path)!r} must hold a number for every level")
    total = float(values.sum()) if share == "count" else 1.0
    if not total > 0:
        raise DataError(f"the counts of {str(path)!r} sum to {total:g}: they must be positive")
    return {level: float(v) / total for level, v in zip(table.column(name).tolist(), values, strict=True)}


def _refuse_other_values(request: Request, table: Table | None) -> None:
    """Every value of the file must be a level; the error names row and count."""
    if table is None:
        return
    present = ~table.missing(request.columns)
    probe = TransitionMatrix.randomized_response(request.levels or (), 1.0)
    values = merged_values(request, table.column(request.columns[0]))
    rows = present.nonzero()[0]
    if rows.size and rows.size < values.size:  # missing values are no error here: keep the row numbers true
        values = values.copy()
        values[~present] = values[rows[0]]
    if rows.size:
        probe.encode([values], request.columns)


def _sheet(transition: TransitionMatrix, request: Request) -> Sheet:
    levels, diagonal = [str(level) for level in transition.levels], transition.diagonal
    small = len(levels) <= MATRIX_LIMIT
    columns: tuple[str, ...] = ("released", *levels) if small else ("level", "kept")
    rows: tuple[tuple[object, ...], ...]
    if small:
        rows = tuple((level, *map(float, row)) for level, row in zip(levels, transition.matrix, strict=True))
    else:
        rows = tuple((level, float(kept)) for level, kept in zip(levels[:LISTED_LIMIT], diagonal, strict=False))
    facts = {
        "levels": f"{len(levels)}, {transition.kind or 'kind not stated'}",
        "epsilon": f"{transition.epsilon:.4g}"
        + (f", conditional on{told_given(transition).removeprefix(' given')}" if request.conditional else ""),
        "condition number": f"{transition.condition_number:.4g}",
        "kept": f"{diagonal.min():.4g} to {diagonal.max():.4g}",
    }
    more = len(levels) - LISTED_LIMIT
    notes = [f"and {more} more levels"] if not small and more > 0 else []
    if request.construction == "best" and request.epsilon is not None and request.keep is None:
        notes.append(best_for_epsilon(transition.levels, request.epsilon).message)
    notes += [note for note in (request.note(),) if note]
    title = f"Design of {request.name}" + (": columns are true levels" if small else "")
    data = _data(transition, request, notes)
    return Sheet(columns, rows, title, tuple(facts.items()), tuple(notes), data=data)


def _data(transition: TransitionMatrix, request: Request, notes: list[str]) -> dict[str, Any]:
    return {
        "column": request.name,
        "levels": list(transition.levels),
        "kind": transition.kind,
        "matrix": transition.matrix.tolist() if len(transition) <= 100 else None,
        "diagonal": transition.diagonal.tolist(),
        "epsilon": transition.epsilon if math.isfinite(transition.epsilon) else None,
        "conditional": request.conditional,
        "given": list(request.given),
        "condition_number": transition.condition_number,
        "notes": notes,
    }


def kind_of_text(kind: str | None) -> Kind | None:
    """A kind given as text."""
    known: dict[str, Kind] = {"nominal": "nominal", "ordinal": "ordinal", "numeric": "numeric"}
    if kind is not None and kind not in known:
        raise PramanaError(f"kind {kind!r} is unknown: {suggestion(kind, known)}")
    return None if kind is None else known[kind]

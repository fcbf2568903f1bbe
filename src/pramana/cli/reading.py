"""The options of every command that reads data files: how the text of a CSV file is written."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, get_type_hints

import typer

from pramana.cli.output import say
from pramana.errors import PramanaError

OPTIONS: dict[str, Any] = {
    "delimiter": Annotated[str | None, typer.Option(help="CSV: what separates fields, one of , ; | tab.")],
    "decimal": Annotated[str | None, typer.Option(help="CSV: the decimal mark, . or a comma.")],
    "quote": Annotated[str | None, typer.Option(help="CSV: the mark around fields, \" or ' or none.")],
    "encoding": Annotated[str | None, typer.Option(help="CSV: utf-8, cp1252, utf-16 or another encoding.")],
}
"""What is not given is found from the file."""


def reading(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with `OPTIONS`, which hold for its data files of these names; the command sees nothing of them but a `CsvFile`. An argument
    that is a dataclass of options stands for these. The last of a list of paths is what is written, unless `--to` says that."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

        @wraps(command)
        def run(**given: Any) -> None:
            for name, group in groups.items():
                given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
            stated = {name: given.pop(name) for name in OPTIONS}
            files = {name: given[name] for name in names if given[name] is not None}
            with piped(files, command.__name__) as files:
                _run(files, stated, given)

        def _run(files: dict[str, Any], stated: dict[str, Any], given: dict[str, Any]) -> None:
            known = {name: value for name, value in stated.items() if value is not None}
            written = {
                name: paths.pop() for name, paths in files.items() if isinstance(paths, list) and not given["to"]
            }
            found = _stated(files, known)
            command(**given | found | {name: [*found[name], path] for name, path in written.items()})

        kind, parameters = inspect.Parameter.KEYWORD_ONLY, list[inspect.Parameter]()
        for own in inspect.signature(command).parameters.values():
            if own.name in groups:
                parameters += _options_of(groups[own.name])
            else:
                parameters.append(own.replace(kind=kind, annotation=hints[own.name]))
        parameters += [inspect.Parameter(name, kind, default=None, annotation=hint) for name, hint in OPTIONS.items()]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorated


def _options_of(group: Any) -> list[inspect.Parameter]:
    """The fields of a dataclass as options."""
    hints, kind = get_type_hints(group, include_extras=True), inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(f.name, kind, default=f.default, annotation=hints[f.name]) for f in fields(group)]


ANALYSES = ("fit", "compare", "specification")
"""Commands that read released data, which may be piped in."""
MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\x1f\x8b": ".csv.gz"}


@contextmanager
def piped(files: dict[str, Any], command: str) -> Iterator[dict[str, Any]]:
    """The files, with `-` as a private file that lives as long as the command and holds what was piped in."""
    asked = [
        name for name, path in files.items() if path == Path("-") or (isinstance(path, list) and Path("-") in path)
    ]
    if not asked:
        yield files
        return
    if command not in ANALYSES or asked != ["data"]:
        raise PramanaError(
            f"{command} takes no data from a pipe, which would leave a copy of them behind a release: name the file; "
            f"{', '.join(ANALYSES)} read released data with -"
        )
    from pramana.frames.writing import write_bytes

    with TemporaryDirectory(prefix="pramana-") as folder:
        content = sys.stdin.buffer.read()
        if not content:
            raise PramanaError(
                "nothing was piped in: name a file, or pipe one, as in `cat public.csv | pramana fit ... -`"
            )
        ending = next((ending for mark, ending in MAGIC.items() if content.startswith(mark)), ".csv")
        path = Path(folder) / f"stdin{ending}"
        write_bytes(path, content, force=False)
        try:
            yield files | {"data": path}
        except PramanaError as error:
            error.args = (re.sub(f"(?:file )?'?{re.escape(str(path))}'?", "what was piped in", str(error)),)
            raise


def _stated(given: dict[str, Any], stated: dict[str, str]) -> dict[str, Any]:
    """The files with their dialects. What is stated is not for a file that a description of ours speaks for, if there is another."""
    from pramana.frames.dialects import dialect_in_words
    from pramana.frames.files import format_of
    from pramana.frames.sources import paths_of

    lists = {name: _each_stated(paths, stated) for name, paths in given.items() if isinstance(paths, list)}
    files: dict[str, Path] = {name: path for name, path in given.items() if name not in lists}
    texts = {name: path for name, path in files.items() if path.is_file() and format_of(path) == "csv"}
    if stated and files and not texts and all(path.is_file() for path in files.values()):
        raise PramanaError(f"--{next(iter(stated))} is for CSV files, and {next(iter(files.values())).name!r} is none")
    if stated and any(map(paths_of, files.values())):
        raise PramanaError(
            f"--{next(iter(stated))} is for one CSV file: that of each file of a folder is found from it"
        )
    free = [name for name, path in texts.items() if "encoding" not in dialect_in_words(path)] or list(texts)
    return given | lists | {name: _told(path, stated if name in free else {}) for name, path in texts.items()}


def _each_stated(paths: list[Path], stated: dict[str, str]) -> list[Any]:
    """Each of several files with its dialect; a folder stands for its files where something is stated of them."""
    from pramana.frames.sources import paths_of

    listed = [file for path in paths for file in ((paths_of(path) if stated else ()) or (path,))]
    return [_stated({"file": path}, stated)["file"] for path in listed]


def _told(path: Path, stated: dict[str, str]) -> Any:
    """A file with its dialect, which is said unless it is the plain one."""
    from pramana.frames.dialects import CsvFile, Dialect

    dialect = Dialect.detect(path, **stated)
    if dialect == Dialect():
        return path if not stated else CsvFile(path, dialect)
    say(f"reading {path.name} as {dialect}", err=True)
    return CsvFile(path, dialect)

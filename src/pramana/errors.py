"""The errors a user can meet. Each message names the value, the limit and the remedy; a value of the data is marked as quoted.

The text of an error withholds what it quotes. Functions on released data ask for it (`released`); those on confidential data drop
it for good, together with whatever other libraries had to say (`confidential`).
"""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from pramana.numbers import count

_OPEN, _CLOSE = "\ue000", "\ue001"  # private characters, which `repr` escapes and `quoted` takes out
_QUOTED = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_MARKED = re.compile(f"({_OPEN}[^{_CLOSE}]*{_CLOSE})")
_NAMES = re.compile(r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\S{200,}""")
"""Quoted text, whose quote is no apostrophe, and words that are as long as no word is."""
LONG, HEAD, TAIL = 200, 60, 30
"""Characters of a name from which on a message shows its beginning and its end alone, and how much of these."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What moves a terminal's cursor, colours it or turns its text around, and halves of characters, which cannot be printed at all."""
WITHHELD = "(withheld)"
P = ParamSpec("P")
R = TypeVar("R")


class PramanaError(Exception):
    """Root of every error that Pramana raises on purpose.

    Attributes
    ----------
    marked : the message, with the values of the data that it quotes between marks; for a message that quotes this one.
    """

    def __init__(self, message: str = "") -> None:
        parts = _MARKED.split(printable(message))
        self.marked = "".join(part if _MARKED.fullmatch(part) else shortened(part) for part in parts)
        super().__init__(_QUOTED.sub(WITHHELD, self.marked))

    @property
    def quoted(self) -> tuple[str, ...]:
        """The values of the data that the message quotes."""
        return tuple(_QUOTED.findall(self.marked))

    def show(self) -> None:
        """Let the text hold the values that it quotes: the data are released."""
        self.args = (_QUOTED.sub(r"\1", self.marked),)

    def forget(self) -> None:
        """Drop the values that the message quotes: the data are confidential."""
        self.marked = _QUOTED.sub(WITHHELD, self.marked)
        self.args = (self.marked,)


class MechanismError(PramanaError):
    """The description of the randomisation is wrong or does not fit the data; it shows the levels that it was given."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.show()


class DataError(PramanaError):
    """The data cannot be used as they are.

    Attributes
    ----------
    column, levels : where a value is none of these levels, the column that has it; empty elsewhere.
    """

    column: str = ""
    levels: tuple[Any, ...] = ()


def too_few(records: float, parameters: int) -> DataError:
    """The error of records that are no more than what is to be estimated from them."""
    return DataError(
        f"{counted(records, 'record')} cannot carry {counted(parameters, 'parameter')}: use more data or fewer terms"
    )


CROWD, EACH = 500, 10
"""Parameters from which on there must be so many records for each of them on average: with fewer of either the answer is quick, or means something."""


def refuse_crowd(what: str, parameters: int, records: float, remedy: str) -> None:
    """Refuse what looks like a column of identifiers before thousands of parameters are made of it."""
    if parameters > CROWD and records < EACH * parameters:
        raise DataError(
            f"{what} would make {count(parameters)} parameters of {counted(records, 'record')}, and more than {CROWD} need at least {EACH} records each: "
            f"{remedy}. A column that tells records apart is no group"
        )


class FormulaError(PramanaError):
    """The formula, family or estimating function cannot be used."""


class SolveError(PramanaError):
    """The estimating equation has no root that could be found."""


class PramanaWarning(UserWarning):
    """A warning of Pramana's own, which quotes no value of confidential data."""


def printable(text: str) -> str:
    """Text of a stranger's file for a person's screen: what would steer the terminal is spelled out.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def shortened(text: str) -> str:
    """A message in which names that are very long are not shown whole: nobody reads ten thousand characters.

    >>> len(shortened(f"column {'a' * 10_000!r} is not in the data"))
    117
    >>> shortened("column 'age' is not in the user's data")
    "column 'age' is not in the user's data"
    """
    return _NAMES.sub(lambda found: _short(found[0]), text)


def _short(name: str) -> str:
    return name if len(name) < LONG else f"{name[:HEAD]}…{name[-TAIL:]}"


def quoted(text: str) -> str:
    """A value of the data, as text, for the message of an error.

    >>> error = DataError(f"column 'age' holds {quoted('199')}, above the limit of 120")
    >>> str(error), error.quoted
    ("column 'age' holds (withheld), above the limit of 120", ('199',))
    """
    return f"{_OPEN}{shortened(text.replace(_OPEN, '').replace(_CLOSE, ''))}{_CLOSE}"


def quoted_terms(names: Iterable[str]) -> str:
    """Names of terms for the message of an error: columns are no secret, the levels in such names are.

    >>> str(PramanaError(quoted_terms(["age", "job[T.nurse]", "low|high"])))
    "'age', 'job[(withheld)]', (withheld)"
    """
    return ", ".join(map(_quoted_term, names))


def _quoted_term(name: str) -> str:
    found = re.fullmatch(r"(['\"](?:[\w.]+|C\(\w+\)))(?:(\[)(.*)(\]))?(['\"])", repr(name))
    if found is None:
        return quoted(repr(name))
    column, opened, level, closed, end = found.groups(default="")
    return f"{column}{opened}{quoted(level) if level else ''}{closed}{end}"


def released(function: Callable[P, R]) -> Callable[P, R]:
    """A function on released data: its errors show the values that they quote, and what is wrong with a file is the user's to mend."""

    @wraps(function)
    def door(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PramanaError as error:
            error.show()
            raise
        except OSError as error:
            if error.errno is None or error.filename is None:
                raise
            raise _of_a_file(error) from error

    return door


def confidential(function: Callable[P, R]) -> Callable[P, R]:
    """A function on confidential data: no error or warning that leaves it quotes a value, whoever raised it."""
    arguments = signature(function)

    @wraps(function)
    def door(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            arguments.bind(*args, **kwargs)
        except TypeError as error:  # which names arguments, and no value of theirs
            raise TypeError(f"{function.__name__}() {error}") from None
        with _told_without_values(), _workers_without_values([*args, *kwargs.values()]):
            try:
                return function(*args, **kwargs)
            except (PramanaError, PramanaWarning, KeyboardInterrupt, SystemExit, GeneratorExit) as error:
                kept: BaseException = error
            except BaseException as error:  # also what compiled libraries raise where they panic, which is no Exception
                kept = _without_values(error)
        # Outside the handlers, or Python would chain what was caught.
        if isinstance(kept, PramanaError):
            kept.forget()
        kept.__cause__ = kept.__context__ = None
        kept.__dict__.pop("__notes__", None)
        try:
            raise kept
        finally:
            del kept

    return door


def _without_values(error: BaseException) -> PramanaError:
    """Another library's error, of which only what holds no value is kept: its type and where it came from."""
    if isinstance(error, OSError) and error.errno is not None:
        return _of_a_file(error)
    places = []
    step = error.__traceback__
    while step is not None:
        places.append((step.tb_frame.f_globals.get("__name__", "?"), step.tb_lineno))
        step = step.tb_next
    module, line = [place for place in places if place[0].startswith("pramana.")][-1]
    return PramanaError(
        f"{type(error).__name__} of {places[-1][0].split('.')[0]}, called in line {line} of {module}: its text is withheld, since it "
        "may quote confidential values; check the types of the columns, or repeat the call on invented data to read it"
    )


def _of_a_file(error: OSError) -> PramanaError:
    """What the system says of a file, such as a name that is too long for one or a folder that may not be looked into."""
    where = f": {os.fspath(error.filename)!r}" if isinstance(error.filename, str | os.PathLike) else ""
    return PramanaError(f"{os.strerror(error.errno or 0)}{where}")


_UNDERNEATH = frozenset(
    [
        "adbc_driver_manager",
        "asyncio",
        "dask",
        "distributed",
        "duckdb",
        "formulaic",
        "jax",
        "matplotlib",
        "narwhals",
        "numba",
        "pandas",
        "polars",
        "py4j",
        "pyarrow",
        "pyspark",
        "tornado",
    ]
)
"""Libraries that may hold the data while we work, by the names of their loggers."""

_running = 0
_counting = threading.Lock()
_show_warning: Callable[[warnings.WarningMessage], None] = warnings._showwarnmsg  # type: ignore[attr-defined]


@contextmanager
def _told_without_values() -> Iterator[None]:
    """Warnings and logs of other libraries keep their category and place, and lose their text, in every thread while such a call runs.

    `catch_warnings` and `showwarning` are shared by all threads and put back by whoever ends first, which would give the warnings
    of a call that still runs their text back. So calls are counted, and what is replaced is the function that every
    warning passes and that nobody else puts back.
    """
    _withhold()
    try:
        yield
    finally:
        _withhold_no_more()


def _withhold() -> None:
    global _running, _make_record
    with _counting:
        _running += 1
        warnings._showwarnmsg = _shown  # type: ignore[attr-defined]
        if logging.getLogRecordFactory() is not _recorded:
            _make_record = logging.getLogRecordFactory()
            logging.setLogRecordFactory(_recorded)


def _withhold_no_more() -> None:
    global _running
    with _counting:
        _running = max(_running - 1, 0)  # a worker may have come after the call began
        if not _running:
            warnings._showwarnmsg = _show_warning  # type: ignore[attr-defined]
            if logging.getLogRecordFactory() is _recorded:
                logging.setLogRecordFactory(_make_record)


@contextmanager
def _workers_without_values(given: Iterable[object]) -> Iterator[None]:
    """The same in the processes of a Dask cluster that computes a frame among the arguments: a worker writes the text of an error into a log of
    its own, before anybody here sees it."""
    distributed = sys.modules.get("distributed")
    client = None
    if distributed is not None and any(type(one).__module__.partition(".")[0].startswith("dask") for one in given):
        with suppress(ValueError):  # no cluster: the frame is computed in this process
            client = distributed.default_client()
    if client is None:
        yield
        return
    try:
        client.run(_withhold)
    except Exception:
        raise PramanaError(
            "the workers of the Dask cluster do not answer, or cannot import pramana, so that errors in their logs might quote confidential values: "
            "install it there, or write the frame to Parquet files and give these"
        ) from None
    try:
        yield
    finally:
        with suppress(Exception):  # a cluster that is gone writes no logs
            client.run(_withhold_no_more)


def _shown(found: warnings.WarningMessage) -> None:
    if not issubclass(found.category, PramanaWarning):
        text = f"{found.category.__name__}, its text withheld: it may quote confidential values"
        found = warnings.WarningMessage(text, found.category, found.filename, found.lineno, found.file, found.line)
    _show_warning(found)


_make_record: Callable[..., logging.LogRecord] = logging.LogRecord


def _recorded(
    name: str, level: int, path: str, line: int, text: Any, values: Any, error: Any, *more: Any, **kept: Any
) -> Any:
    """A record for a log, made as whoever set up logging has it made."""
    if name.split(".")[0] in _UNDERNEATH:
        text, values, error, more = "(text withheld: it may quote confidential values)", (), None, more[:1]
    return _make_record(name, level, path, line, text, values, error, *more, **kept)


def counted(number: float, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "record"), counted(3.0, "record")
    ('1 record', '3 records')
    """
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def listing(values: Iterable[object], limit: int = 5) -> str:
    """The first few values, quoted, with a count of the rest.

    >>> listing(["a", 1, "b"], limit=2)
    "'a', 1 and 1 more"
    """
    items = [repr(v.item() if hasattr(v, "item") else v) for v in values]
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


_MOST = 50
"""Options that a message lists."""


def suggestion(value: str, options: Iterable[str], show: Callable[[str], str] = str) -> str:
    """A closing phrase that names the nearest option and all of them, these as `show` has it.

    >>> suggestion("binomal", ["binomial", "poisson"])
    "did you mean 'binomial'? Known: binomial, poisson"
    >>> suggestion("x", ["binomial", "poisson"])
    'known are binomial, poisson'
    """
    known = [str(option) for option in options]
    folded = {option.lower(): option for option in known}
    close = difflib.get_close_matches(str(value).lower(), folded, n=1, cutoff=0.5)
    listed = show(", ".join(known[:_MOST])) + (f" and {len(known) - _MOST} more" if len(known) > _MOST else "")
    return f"did you mean {folded[close[0]]!r}? Known: {listed}" if close else f"known are {listed}"

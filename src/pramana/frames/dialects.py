"""How the text of a CSV file is written: what separates its fields, its decimal mark, its quotation mark and its encoding."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from pramana.errors import DataError, PramanaError, PramanaWarning
from pramana.frames.documents import package_entries
from pramana.frames.files import existing, format_of

HEAD = 1 << 20
SAMPLE = 1 << 17
"""Bytes that the encoding is found from, and characters that the rest is: below the longest field that `csv` reads."""
DELIMITERS = (",", ";", "\t", "|")
_NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "none": ""}
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"} | {
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


_OF_HOSTS = ("idna", "punycode")
"""Encodings of names of hosts, in which no file is written."""


@dataclass(frozen=True)
class Dialect:
    r"""How the text of a CSV file is written.

    Attributes
    ----------
    delimiter : what separates fields: "," ";" "|" or a tab ("\t", or the word "tab").
    decimal : the decimal mark, "." or ",". A separator of thousands makes a field text.
    quote : the mark around fields, '"' or "'", doubled inside of them; "" (or "none") where every mark is text.
    encoding : a text encoding that Python knows, such as "utf-8", "cp1252" or "utf-16".

    >>> print(Dialect(";", ",", encoding="windows-1252"))
    cp1252 text separated by ';' with decimal commas
    """

    delimiter: str = ","
    decimal: str = "."
    quote: str = '"'
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        for name, allowed in (("delimiter", DELIMITERS), ("decimal", (".", ",")), ("quote", ('"', "'", ""))):
            given = vars(self)[name]
            plain = _NAMES.get(given, given)
            if plain not in allowed:
                known = ", ".join(repr(mark) if mark else "none" for mark in allowed)
                raise PramanaError(f"{name} {given!r} cannot be read: use one of {known}")
            object.__setattr__(self, name, plain)
        object.__setattr__(self, "encoding", _codec(self.encoding))

    def __str__(self) -> str:
        between = "tabs" if self.delimiter == "\t" else repr(self.delimiter)
        decimal = " with decimal commas" if self.decimal == "," else ""
        quoted = {'"': "", "'": ", quoted by apostrophes", "": ", without quotation marks"}[self.quote]
        return f"{self.encoding} text separated by {between}{decimal}{quoted}"

    @property
    def published(self) -> Dialect:
        """The dialect of a copy: UTF-8, and double quotes where the source has no quotation marks."""
        return replace(self, quote=self.quote or '"', encoding="utf-8")

    @staticmethod
    def detect(
        path: str | os.PathLike[str],
        *,
        delimiter: str | None = None,
        decimal: str | None = None,
        quote: str | None = None,
        encoding: str | None = None,
    ) -> Dialect:
        """The dialect of a file: what is given here, else what the datapackage.json beside it says, else what its first megabyte shows.

        - encoding: that of a byte order mark, else UTF-8, else cp1252 where the bytes are plainly Western European;
        - delimiter: the one mark of , ; | and tab that is in the header and gives every record as many fields as the header;
          without any of them in the header, the file has one column. A name that ends with .tsv or .tab speaks for tabs;
        - quotation mark: ", or ' where only that makes the records even, or where ' is around all fields of a column and " nowhere;
        - decimal mark: a point, or a comma where fields such as 3,5 occur, are not separated by commas, and 3.5 does not occur.

        Where two answers are possible the file is refused, and the error names what must be said.
        """
        file = Path(path)
        if existing(file) != "csv":
            raise DataError(
                f"{file.name!r} is no CSV file: delimiter, decimal mark, quotes and encoding are those of CSV"
            )
        given = {"delimiter": delimiter, "decimal": decimal, "quote": quote, "encoding": encoding}
        known = dialect_in_words(file) | {name: value for name, value in given.items() if value is not None}
        stated = Dialect(**known)
        return stated if len(known) == len(given) else _found(file, {name: vars(stated)[name] for name in known})


@dataclass(frozen=True)
class CsvFile:
    """A CSV file whose dialect is stated: to be given wherever a function takes the path of a data file.

    A dialect belongs to a file and not to an analysis, so that a released file and its original can each have their own.

    >>> str(CsvFile("survey.csv", Dialect(delimiter=";")))
    'survey.csv'
    """

    path: Path
    dialect: Dialect

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if format_of(self.path) != "csv":
            raise DataError(f"{str(self.path)!r} is no CSV file: give its path alone")

    @property
    def name(self) -> str:
        return self.path.name

    def __fspath__(self) -> str:
        return str(self.path)

    __str__ = __fspath__


DataFile: TypeAlias = Path | CsvFile
"""A file of data as functions pass it on."""


def data_file(given: str | os.PathLike[str]) -> DataFile:
    """A path, or a file with its dialect as it is."""
    if not isinstance(given, str | os.PathLike | CsvFile):
        raise DataError(
            f"files are needed here, and a {type(given).__name__} is none: save it as CSV or Parquet, and give its path"
        )
    return given if isinstance(given, CsvFile) else Path(given)


def dialect_of(file: DataFile) -> Dialect:
    """The dialect that was stated, else the one found; an encoding that was guessed is said."""
    if isinstance(file, CsvFile):
        return file.dialect
    found = Dialect.detect(file)
    if found.encoding == "cp1252" and "encoding" not in dialect_in_words(file):
        warnings.warn(
            f"{file.name!r} is not UTF-8 and was read as {found.encoding}: say so with pr.CsvFile, or save it as UTF-8",
            PramanaWarning,
            stacklevel=2,
        )
    return found


def dialect_in_words(path: Path) -> dict[str, str]:
    """What the Data Package beside a file says of its text. What a description of ours leaves out is the default."""
    entry = next((e for place in dict.fromkeys((path, path.resolve())) for e in _entries(place)), {})
    stated = entry.get("dialect")
    stated = stated if isinstance(stated, dict) else {}
    said = {
        "delimiter": stated.get("delimiter"),
        "decimal": stated.get("decimalChar"),
        "quote": stated.get("quoteChar"),
    }
    known = {name: v for name, v in (said | {"encoding": entry.get("encoding")}).items() if isinstance(v, str)}
    return asdict(Dialect()) | known if "pram" in entry else known


def _entries(path: Path) -> list[dict[str, Any]]:
    """What a Data Package lists of a file; whoever needs the description will say what is wrong with it."""
    try:
        return package_entries(path.with_name("datapackage.json")).get(path.name, [])
    except PramanaError:
        return []


def description(dialect: Dialect) -> dict[str, str]:
    """A dialect as a Data Package says it, without what is the default there."""
    names = {"delimiter": "delimiter", "quote": "quoteChar", "decimal": "decimalChar"}
    plain = asdict(Dialect())
    return {names[k]: v for k, v in asdict(dialect).items() if k in names and v != plain[k]}


def _codec(name: str) -> str:
    try:
        "a".encode(name)
        known = codecs.lookup(name).name
    except (LookupError, UnicodeError, ValueError, TypeError):
        known = ""
    if not known or known in _OF_HOSTS:
        raise PramanaError(f"encoding {name!r} is unknown: use utf-8, cp1252, utf-16 or another of Python's")
    return known


def _found(path: Path, stated: Mapping[str, str]) -> Dialect:
    head = _head(path)
    encoding = stated["encoding"] if "encoding" in stated else _encoding(head, path)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head).removeprefix("\ufeff")
    delimiter, quote, records = _separation(text, path, stated.get("delimiter"), stated.get("quote"))
    decimal = stated["decimal"] if "decimal" in stated else _decimal(records, delimiter, path)
    return Dialect(delimiter, decimal, quote, encoding)


def _head(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            return bytes(file.read(HEAD))
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"file {str(path)!r} is not a complete gzip file") from None


# Letters of cp1252 beyond ASCII, and marks that stand inside words: apostrophes, dashes, the middle dot.
_LETTER = rb"A-Za-z\x8a\x8c\x8e\x9a\x9c\x9e\x9f\xc0-\xd6\xd8-\xf6\xf8-\xff"
_SYMBOL = rb"[^\x00-\x7f\x91\x92\x96\x97\xa0\xad\xb7" + _LETTER + rb"]"
_UNLIKELY = re.compile(
    b"|".join(
        (
            rb"[\x00-\x08\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]",  # no text at all, or not in cp1252
            rb"[\x80-\xff]{4}",  # words without ASCII letters: another alphabet
            rb"(?![%b]{3})[\x80-\xff]{3}" % _LETTER,
            rb"[%b]%b[%b]" % (_LETTER, _SYMBOL, _LETTER),  # superscripts and currencies inside words: Central European
        )
    )
)


def _encoding(head: bytes, path: Path) -> str:
    mark = next(
        (name for bom, name in sorted(_BOMS.items(), key=lambda item: -len(item[0])) if head.startswith(bom)), ""
    )
    if mark:
        return mark
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD)
        return "utf-8"
    except UnicodeDecodeError:
        if _UNLIKELY.search(head):
            raise DataError(
                f"file {str(path)!r} is not UTF-8 text and not plainly Western European: {must_say('encoding')}"
            ) from None
        return "cp1252"


def must_say(name: str) -> str:
    """The remedy where a dialect is unclear."""
    return f"say its {name} with pr.CsvFile(path, pr.Dialect({name}=))"


FieldRows = list[list[str]]


def _records(text: str, delimiter: str, quote: str) -> FieldRows:
    """The records of the sample; the last one may be cut off, and is left out then."""
    part = io.StringIO(text[:SAMPLE], newline="")
    if quote:
        found = [r for r in csv.reader(part, delimiter=delimiter, quotechar=quote) if r]
    else:
        found = [r for r in csv.reader(part, delimiter=delimiter, quoting=csv.QUOTE_NONE) if r]
    return found[:-1] if len(text) > SAMPLE and len(found) > 1 else found


def _separation(text: str, path: Path, delimiter: str | None, quote: str | None) -> tuple[str, str, FieldRows]:
    """Delimiter, quotation mark, and the records that they give."""
    asked = DELIMITERS if delimiter is None else (delimiter,)
    chosen, mark = _splitting(text, asked, '"' if quote is None else quote), quote
    if quote is None and not chosen.even and "'" in text and (other := _splitting(text, asked, "'")).even:
        chosen, mark = other, "'"
    fitting = chosen.even or chosen.split
    tabs = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    if tabs and "\t" in fitting:
        fitting = {"\t": fitting["\t"]}
    if len(fitting) > 1:
        marks = " or ".join(map(repr, fitting))
        raise DataError(f"the fields of {str(path)!r} can be separated by {marks}: {must_say('delimiter')}")
    plain = "\t" if tabs else ","
    between = delimiter or next(iter(fitting), plain)
    records = fitting[between] if fitting else _records(text, between, '"' if mark is None else mark)
    if mark is None:
        mark = "'" if "'" in text and '"' not in text and _wrapped(records) else '"'
    return between, mark, records


@dataclass(frozen=True)
class _Splitting:
    """The records under every delimiter that splits the header; `even` where all have as many fields as it."""

    split: dict[str, FieldRows]
    even: dict[str, FieldRows]


def _splitting(text: str, delimiters: Sequence[str], quote: str) -> _Splitting:
    header = text[:SAMPLE].lstrip("\r\n").partition("\n")[0]
    read = {mark: _records(text, mark, quote) for mark in delimiters if mark in header}
    split = {mark: records for mark, records in read.items() if records and len(records[0]) > 1}
    return _Splitting(split, {m: r for m, r in split.items() if all(len(record) == len(r[0]) for record in r)})


def _wrapped(records: FieldRows) -> bool:
    """Whether apostrophes stand around a name in the header, or around all that is in a column."""

    def quoted(field: str) -> bool:
        return len(field) > 1 and field[0] == field[-1] == "'"

    if not records:
        return False
    columns = zip(*(r for r in records[1:] if len(r) == len(records[0])), strict=True)
    return any(map(quoted, records[0])) or any(any(c) and all(quoted(f) for f in c if f) for c in columns)


_EXPONENT = r"([eE][+-]?\d+)?"
_COMMA = re.compile(rf"\s*[+-]?\d*,\d+{_EXPONENT}\s*", re.ASCII)
_POINT = re.compile(rf"\s*[+-]?\d*\.\d+{_EXPONENT}\s*", re.ASCII)
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}[.,]\d{3}\s*", re.ASCII)


def _decimal(records: FieldRows, delimiter: str, path: Path) -> str:
    """A comma only on evidence: 3,5 is one, 1,234 may be a thousand, and 3.5 beside 3,5 is a question."""
    if delimiter == ",":
        return "."
    fields = {field for record in records[1:] for field in record if "," in field or "." in field}
    numbers = {mark: {f for f in fields if kind.fullmatch(f)} for mark, kind in ((",", _COMMA), (".", _POINT))}
    sure = {mark for mark, found in numbers.items() if any(not _THOUSANDS.fullmatch(f) for f in found)}
    possible = {mark for mark, found in numbers.items() if found}
    if len(sure) == 1:
        return next(iter(sure))
    if possible:
        raise DataError(f"the decimal mark of {str(path)!r} can be a point or a comma: {must_say('decimal')}")
    return "."


UNDECODABLE = "pramana-undecodable"
codecs.register_error(UNDECODABLE, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]


class Transcoded:
    """The bytes of a file as UTF-8 text with quotation marks, whatever it was saved as.

    What cannot be decoded becomes the byte 0xFF, which no UTF-8 text has, so that one check finds it in every encoding.
    """

    def __init__(self, file: Any, dialect: Dialect) -> None:
        self._file, self._dialect = file, dialect
        self._decoder = codecs.getincrementaldecoder(dialect.encoding)(UNDECODABLE)
        self._line = b""

    def read(self, size: int) -> bytes:
        """About so many bytes; none only at the end."""
        while True:
            raw = self._file.read(size)
            data = self._decoder.decode(raw, final=not raw).encode("utf-8", "surrogateescape")
            data = data if self._dialect.quote else self._marked(data, last=not raw)
            if data or not raw:
                return data

    def _marked(self, data: bytes, *, last: bool) -> bytes:
        """Fields with a quotation mark, which is text here, in quotation marks; whole lines, the rest waits."""
        lines = (self._line + data).split(b"\n")
        self._line = b"" if last else lines.pop()
        between = self._dialect.delimiter.encode()
        marked = [line if b'"' not in line else _marked_line(line, between) for line in lines]
        return b"\n".join(marked) if last else b"".join(line + b"\n" for line in marked)


def _marked_line(line: bytes, delimiter: bytes) -> bytes:
    end = b"\r" if line.endswith(b"\r") else b""
    fields = line.removesuffix(end).split(delimiter)
    return delimiter.join(b'"' + f.replace(b'"', b'""') + b'"' if b'"' in f else f for f in fields) + end


def as_it_is(dialect: Dialect) -> bool:
    """Whether a file's bytes can be taken as they are."""
    return dialect.encoding in ("utf-8", "utf-8-sig") and bool(dialect.quote)

"""One table, six renderings; and reports of several tables."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from textwrap import wrap
from typing import Any

from pramana.errors import CONTROL, PramanaError, printable, suggestion
from pramana.numbers import column


@dataclass(frozen=True)
class Sheet:
    """A table with a title, facts above it and notes below it. Cells are text, numbers or None (left empty).

    Attributes
    ----------
    right : which columns are set to the right; by default those of numbers.
    spans : headers above the columns, each with the number of columns that it spans; together they span all.
    rules : rows with a rule above them.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    title: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    digits: int = 4
    fixed: bool = False
    right: tuple[bool, ...] | None = None
    spans: tuple[tuple[str, int], ...] = ()
    rules: tuple[int, ...] = ()
    data: Any = field(default=None, repr=False)
    records: Sequence[dict[str, Any]] | None = field(default=None, repr=False)
    """Rows with plain names of columns, for CSV; those of the table by default."""

    def cells(self) -> list[list[str]]:
        """Texts of the cells, the numbers of a column in one format; `fixed` keeps the number of decimals whatever the size."""
        columns = [self._column([row[j] for row in self.rows]) for j in range(len(self.columns))]
        return [list(row) for row in zip(*columns, strict=True)]

    def _column(self, values: Sequence[object]) -> list[str]:
        numbers = column(values, self.digits, fixed=self.fixed)
        return [_word(v) if number is None else number for v, number in zip(values, numbers, strict=True)]

    def right_aligned(self, j: int) -> bool:
        """Whether a column is one of numbers, or of texts that are set like numbers."""
        if self.right is not None:
            return self.right[j]
        return all(isinstance(row[j], int | float) or row[j] is None for row in self.rows)


class Text(str):
    """A text that a prompt or a notebook shows line by line, as `print` does."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Shown:
    """What everything that has a summary can do with it. At a prompt it is shown, as a frame of pandas is; a dataclass says repr=False for that."""

    def summary(self, style: str = "text") -> str:
        """The tables in one of the formats."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return self.summary("html")

    def to_markdown(self) -> str:
        return self.summary("markdown")

    def to_latex(self) -> str:
        return self.summary("latex")


def visible(text: str) -> str:
    """Line ends, control characters and changes of direction written out: a name must not move or recolour what follows it.

    >>> visible("a\\nb\\x1b[31m")
    'a\\\\nb\\\\x1b[31m'
    """
    return printable(text.replace("\n", "\\n").replace("\t", "\\t"))


_MARKUP = re.compile(r"[\\`*|]|\](?=[(\[])|(?<![^\W_])_|_(?![^\W_])|~(?=~)|(?<=~)~")


def markdown_text(text: str) -> str:
    """Text as Markdown shows it, letter by letter: nothing in it is markup, a link, a tag or the end of a cell.

    >>> markdown_text("a|b *c* <script> [x](y) my_name &lt;")
    'a\\\\|b \\\\*c\\\\* &lt;script&gt; [x\\\\](y) my_name &amp;lt;'
    """
    safe = re.sub(r"&(?=#?\w+;)", "&amp;", visible(text)).replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(lambda found: "\\" + found.group(), safe)


def _word(value: object) -> str:
    return "" if value is None else visible(str(value))


def places() -> int:
    """Places in a line of the terminal that is written to, which COLUMNS can state; 0 where there is none, as in a notebook or a file."""
    if sys.stdout is None or not sys.stdout.isatty():
        return 0
    stated = os.environ.get("COLUMNS", "")
    try:
        return int(stated) if stated.isdecimal() else os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return 0


GAP = 2
"""Blanks between two columns of a text."""
LEAST = 12
"""Places that a column of words has at least, however narrow the terminal is."""
SENTENCE = 24
"""Places in which a sentence can still be read."""


def _text(sheet: Sheet, width: int = 0) -> str:
    """Aligned columns. Where a terminal has too few places for them, sentences are broken between words; if that is not enough, columns go on
    below one another, each part with the first column, and long words are broken; never a number."""
    cells = sheet.cells()
    natural = [max([len(head), *(len(r[j]) for r in cells)]) for j, head in enumerate(sheet.columns)]
    right = [sheet.right_aligned(j) for j in range(len(natural))]
    if not width or sum(natural) + GAP * (len(natural) - 1) <= width:
        blocks = [list(range(len(natural)))]
    else:
        natural = _with_sentences_broken(natural, right, width) or _narrowed(natural, right, width)
        blocks = _blocks(natural, width)
    parts = [_block(sheet, cells, block, natural, right) for block in blocks]
    head = _told([sheet.title] if sheet.title else [], width) + _facts_in_columns(sheet.facts, width)
    return "\n".join([*head, *(line for part in parts for line in part), *_told(sheet.notes, width)])


def _with_sentences_broken(natural: Sequence[int], right: Sequence[bool], width: int) -> list[int] | None:
    """Places for each column where all of them fit into a line once the longest, which holds sentences, is broken; None where they do not."""
    longest = max(range(len(natural)), key=lambda j: -1 if right[j] else natural[j])
    room = width - sum(w + GAP for j, w in enumerate(natural) if j != longest)
    if right[longest] or natural[longest] <= width // 2 or room < SENTENCE:
        return None
    return [room if j == longest else w for j, w in enumerate(natural)]


def _narrowed(natural: Sequence[int], right: Sequence[bool], width: int) -> list[int]:
    """Places for each column such that one of them and the first fit into a line; numbers keep theirs."""
    others = max((w if r else min(w, LEAST) for w, r in zip(natural[1:], right[1:], strict=True)), default=0)
    first = natural[0] if right[0] else min(natural[0], max(width - others - GAP, LEAST))
    room = max(width - first - GAP, LEAST)
    return [first, *(w if r else min(w, room) for w, r in zip(natural[1:], right[1:], strict=True))]


def _blocks(widths: Sequence[int], width: int) -> list[list[int]]:
    """The columns of each part: the first, and as many of the others as fit."""
    blocks = [[0]]
    for j in range(1, len(widths)):
        used = sum(widths[k] + GAP for k in blocks[-1])
        if len(blocks[-1]) > 1 and used + widths[j] > width:
            blocks.append([0])
        blocks[-1].append(j)
    return blocks


def _block(
    sheet: Sheet, cells: Sequence[Sequence[str]], block: Sequence[int], widths: Sequence[int], right: Sequence[bool]
) -> list[str]:
    def lines(row: Sequence[str]) -> list[str]:
        pieces = [[row[j]] if right[j] or len(row[j]) <= widths[j] else wrap(row[j], widths[j]) for j in block]
        return [line([p[i] if i < len(p) else "" for p in pieces]) for i in range(max(map(len, pieces)))]

    def line(row: Sequence[str]) -> str:
        parts = (c.rjust(widths[j]) if right[j] else c.ljust(widths[j]) for c, j in zip(row, block, strict=True))
        return (" " * GAP).join(parts).rstrip()

    rule = "-" * (sum(widths[j] for j in block) + GAP * (len(block) - 1))
    body = [[rule, *lines(row)] if i in sheet.rules else lines(row) for i, row in enumerate(cells)]
    above = [_spanned(sheet.spans, block, widths)] if sheet.spans else []
    return [rule, *above, *lines(sheet.columns), rule, *(text for row in body for text in row), rule]


def _spanned(spans: Sequence[tuple[str, int]], block: Sequence[int], widths: Sequence[int]) -> str:
    """The headers above the columns of one part, each over those of its columns that are there."""
    out, start = [], 0
    for text, size in spans:
        held = [widths[j] for j in range(start, start + size) if j in block]
        start += size
        if held:
            place = sum(held) + GAP * (len(held) - 1)
            out.append(text[:place].center(place))
    return (" " * GAP).join(out).rstrip()


def _told(texts: Sequence[str], width: int, indent: str = "") -> list[str]:
    """Sentences in lines of so many places, broken between words."""
    if not width:
        return list(texts)
    return [
        line
        for text in texts
        for line in wrap(
            text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
        )
        or [""]
    ]


def _facts_in_columns(facts: Sequence[tuple[str, str]], width: int) -> list[str]:
    first = max((len(k) for k, _ in facts), default=0)
    if width and first > width // 2:
        return _told([f"{k}: {v}" for k, v in facts], width, " " * GAP)
    indent = " " * (first + 2)
    return [line for k, v in facts for line in _told([f"{k + ':':<{first + 1}} {v}"], width, indent)]


def _markdown(sheet: Sheet) -> str:
    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(row) + " |"

    align = ["---:" if sheet.right_aligned(j) else "---" for j in range(len(sheet.columns))]
    head = [f"**{markdown_text(sheet.title)}**", ""] if sheet.title else []
    facts = [*(f"- {markdown_text(k)}: {markdown_text(v)}" for k, v in sheet.facts), ""] if sheet.facts else []
    notes = ["", *(f"- {markdown_text(n)}" for n in sheet.notes)] if sheet.notes else []
    body = [line([markdown_text(c) for c in row]) for row in (_one_line_of_heads(sheet), *sheet.cells())]
    return "\n".join([*head, *facts, body[0], line(align), *body[1:], *notes])


def _one_line_of_heads(sheet: Sheet) -> list[str]:
    """Markdown has one line of headers: what spans a column is written before its name."""
    above = [text for text, size in sheet.spans for _ in range(size)] or [""] * len(sheet.columns)
    return [": ".join(t for t in pair if t) for pair in zip(above, sheet.columns, strict=True)]


def _greek(letter: str) -> str:
    """A Greek letter as mathematics, which plain fonts have alone.

    >>> _greek("λ"), _greek("Λ")
    ('$\\\\lambda$', '$\\\\Lambda$')
    """
    word = unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda")
    return f"$\\{word if letter.islower() else word.capitalize()}$"


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "`": r"\textasciigrave{}"}
    | {"<": "$<$", ">": "$>$", "|": r"\textbar{}", "−": "$-$", "≤": r"$\le$", "≥": r"$\ge$", "±": r"$\pm$"}
    | {"×": r"$\times$", "·": r"\textperiodcentered{}", "…": r"\dots{}", "→": r"$\to$", "∞": r"$\infty$"}
    | {letter: _greek(letter) for letter in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"}
    | {c: f"$_{k}$" for k, c in enumerate("₀₁₂₃₄₅₆₇₈₉")}
)
"""What LaTeX would take for a command, and what its plain fonts show as something else."""


def _latex_text(text: str) -> str:
    return text.translate(_LATEX)


def _latex_cell(text: str) -> str:
    """The minus of a number is one, not a hyphen."""
    return re.sub(r"(?<![\w.\]}])-(?=\.?\d)", "$-$", _latex_text(text))


def _latex(sheet: Sheet) -> str:
    align = "".join("r" if sheet.right_aligned(j) else "l" for j in range(len(sheet.columns)))

    def line(row: Sequence[str]) -> str:
        made = " & ".join(map(_latex_cell, row)) + r" \\"
        return "{}" + made if made[0] in "[*" else made  # the \\ of the line before would take them for its own

    facts = "; ".join(f"{k}: {v}" for k, v in sheet.facts)
    caption = ". ".join(t for t in (sheet.title, facts) if t)
    body = [[r"\midrule", line(row)] if i in sheet.rules else [line(row)] for i, row in enumerate(sheet.cells())]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            *([f"\\caption{{{_latex_text(caption)}}}"] if caption else []),
            f"\\begin{{tabular}}{{{align}}}",
            r"\toprule",
            *_latex_spans(sheet.spans),
            line(sheet.columns),
            r"\midrule",
            *(text for row in body for text in row),
            r"\bottomrule",
            r"\end{tabular}",
            *(f"\\par {_latex_text(note)}" for note in sheet.notes),
            r"\end{table}",
        ]
    )


def _latex_spans(spans: Sequence[tuple[str, int]]) -> list[str]:
    if not spans:
        return []
    last = list(accumulate(size for _, size in spans))
    heads = " & ".join(f"\\multicolumn{{{size}}}{{c}}{{{_latex_text(text)}}}" for text, size in spans)
    rules = (f"\\cmidrule(lr){{{end - size + 1}-{end}}}" for (text, size), end in zip(spans, last, strict=True) if text)
    return [heads + r" \\", " ".join(rules)]


def _html(sheet: Sheet) -> str:
    escape = html.escape
    align = ["right" if sheet.right_aligned(j) else "left" for j in range(len(sheet.columns))]

    def line(row: Sequence[str], tag: str, style: str = "") -> str:
        cells = (f'<{tag} style="text-align:{a}{style}">{escape(c)}</{tag}>' for c, a in zip(row, align, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    spans = "".join(f'<th colspan="{size}" style="text-align:center">{escape(text)}</th>' for text, size in sheet.spans)
    head = (f"<tr>{spans}</tr>" if spans else "") + line(sheet.columns, "th")
    title = [f"<strong>{escape(sheet.title)}</strong>"] if sheet.title else []
    told = "<br>".join([*title, *(f"{escape(k)}: {escape(v)}" for k, v in sheet.facts)])
    caption = f'<caption style="text-align:left;caption-side:top">{told}</caption>' if told else ""
    ruled = ";border-top:1px solid"
    body = "\n".join(line(row, "td", ruled if i in sheet.rules else "") for i, row in enumerate(sheet.cells()))
    notes = "".join(f"<p>{escape(n)}</p>\n" for n in sheet.notes)
    return f"<table>{caption}\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table>\n{notes}".rstrip()


def _json(sheet: Sheet) -> str:
    data = sheet.data if sheet.data is not None else [dict(zip(sheet.columns, r, strict=True)) for r in sheet.rows]
    made = json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False)
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", made)


def _csv(sheet: Sheet) -> str:
    """Names of columns and rows, numbers in full; facts and notes are in the other formats."""
    records = (
        sheet.records if sheet.records is not None else [dict(zip(sheet.columns, r, strict=True)) for r in sheet.rows]
    )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell_of_csv, records[0] if records else sheet.columns))
    writer.writerows(map(_cell_of_csv, record.values()) for record in records)
    return printable(out.getvalue().rstrip("\n"))


_FORMULA = re.compile(r"[=@\t\r]|[+-](?![.\d]*(?:e[+-]?\d+)?$)", re.IGNORECASE)


def _cell_of_csv(value: object) -> object:
    """A text that a spreadsheet would compute is set apart by an apostrophe: names of columns and levels are a stranger's.

    >>> [_cell_of_csv(v) for v in ("=cmd()", "-1", "-x", -1.5, None)]
    ["'=cmd()", '-1', "'-x", -1.5, '']
    """
    if isinstance(value, str) and _FORMULA.match(value):
        return f"'{value}"
    return "" if value is None else value


def plain(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


FORMATS: dict[str, Callable[[Sheet], str]] = {
    "text": _text,
    "json": _json,
    "csv": _csv,
    "markdown": _markdown,
    "latex": _latex,
    "html": _html,
}


def render(sheet: Sheet, style: str = "text", *, width: int | None = None) -> str:
    """The table in the format asked for; text in so many places a line, those of the terminal where there is one, and 0 for as many as it takes."""
    if style not in FORMATS:
        raise PramanaError(f"format {style!r} is unknown: {suggestion(style, FORMATS)}")
    shown = sheet if style in ("json", "csv") else _all_visible(sheet)
    made = _text(shown, places() if width is None else width) if style == "text" else FORMATS[style](shown)
    return Text(made.encode("utf-8", "backslashreplace").decode())  # half a character cannot be printed at all


def _all_visible(sheet: Sheet) -> Sheet:
    return replace(
        sheet,
        columns=tuple(map(visible, sheet.columns)),
        title=visible(sheet.title),
        facts=tuple((visible(k), visible(v)) for k, v in sheet.facts),
        notes=tuple(map(visible, sheet.notes)),
        spans=tuple((visible(text), size) for text, size in sheet.spans),
    )


class Report(Shown):
    """What every report of the custodian can do, given its tables and its data."""

    def sheets(self) -> tuple[Sheet, ...]:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Everything that can be written as JSON; no record's value."""
        raise NotImplementedError

    def summary(self, style: str = "text") -> str:
        """The tables one below the other; one object in JSON."""
        sheets = self.sheets()
        if style == "json":
            return render(replace(sheets[0], data=self.to_dict()), style)
        return Text("\n\n".join(render(sheet, style) for sheet in sheets))

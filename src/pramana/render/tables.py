"""One table, five renderings."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pramana.errors import CONTROL, PramanaError, printable, suggestion


@dataclass(frozen=True)
class Sheet:
    """A table with a title, facts above it and notes below it. Cells are text, numbers or None (left empty)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    title: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    digits: int = 4
    fixed: bool = False
    data: Any = field(default=None, repr=False)

    def cells(self) -> list[list[str]]:
        """Texts of the cells; `fixed` keeps the number of decimals whatever the size."""
        if self.fixed:
            return [[f"{v:.{self.digits}f}" if isinstance(v, float) else show(v) for v in row] for row in self.rows]
        return [[show(value, self.digits) for value in row] for row in self.rows]


class Shown:
    """What everything that has a summary can do with it."""

    def summary(self, style: str = "text") -> str:
        """The tables in one of the formats."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return self.summary("html")

    def to_markdown(self) -> str:
        return self.summary("markdown")

    def to_latex(self) -> str:
        return self.summary("latex")


def show(value: object, digits: int = 4) -> str:
    """A cell as text; p-values and the like keep significant digits.

    >>> show(0.12345), show(1234567.0), show(2.5e-7), show(None), show(float("nan"))
    ('0.1235', '1.235e+06', '2.5e-07', '', 'nan')
    """
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, float):
        return visible(str(value))
    if not math.isfinite(value):
        return str(value)
    if value != 0 and (abs(value) < 10**-digits or abs(value) >= 1e6):
        return f"{value:.{digits - 1}e}".replace("e+0", "e+0") if abs(value) >= 1e6 else f"{value:.{2}g}"
    return f"{value:.{digits}f}"


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


def _numeric(rows: Sequence[Sequence[object]], j: int) -> bool:
    return all(isinstance(r[j], int | float) or r[j] is None for r in rows)


def _text(sheet: Sheet) -> str:
    cells = sheet.cells()
    widths = [max(len(h), *(len(r[j]) for r in cells), 0) if cells else len(h) for j, h in enumerate(sheet.columns)]
    right = [_numeric(sheet.rows, j) for j in range(len(sheet.columns))]

    def line(row: Sequence[str]) -> str:
        parts = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        return "  ".join(parts).rstrip()

    rule = "-" * max(len(line(sheet.columns)), sum(widths) + 2 * (len(widths) - 1))
    facts = _facts_in_columns(sheet.facts)
    head = [sheet.title, *facts] if sheet.title else facts
    body = [rule, line(sheet.columns), rule, *(line(r) for r in cells), rule]
    return "\n".join([*head, *body, *sheet.notes])


def _facts_in_columns(facts: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(k) for k, _ in facts), default=0)
    return [f"{k + ':':<{width + 1}} {v}" for k, v in facts]


def _markdown(sheet: Sheet) -> str:
    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(row) + " |"

    align = ["---:" if _numeric(sheet.rows, j) else "---" for j in range(len(sheet.columns))]
    head = [f"**{markdown_text(sheet.title)}**", ""] if sheet.title else []
    facts = [*(f"- {markdown_text(k)}: {markdown_text(v)}" for k, v in sheet.facts), ""] if sheet.facts else []
    notes = ["", *(f"- {markdown_text(n)}" for n in sheet.notes)] if sheet.notes else []
    body = [line([markdown_text(c) for c in row]) for row in (sheet.columns, *sheet.cells())]
    return "\n".join([*head, *facts, body[0], line(align), *body[1:], *notes])


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)


def _latex(sheet: Sheet) -> str:
    align = "".join("r" if _numeric(sheet.rows, j) else "l" for j in range(len(sheet.columns)))

    def line(row: Sequence[str]) -> str:
        return " & ".join(c.translate(_LATEX) for c in row) + r" \\"

    facts = "; ".join(f"{k}: {v}" for k, v in sheet.facts)
    caption = f"\\caption{{{'. '.join(t for t in (sheet.title, facts) if t).translate(_LATEX)}}}"
    body = [r"\hline", line(sheet.columns), r"\hline", *(line(r) for r in sheet.cells()), r"\hline"]
    notes = [f"\\par {n.translate(_LATEX)}" for n in sheet.notes]
    opening = [r"\begin{table}", r"\centering", caption, f"\\begin{{tabular}}{{{align}}}"]
    return "\n".join([*opening, *body, r"\end{tabular}", *notes, r"\end{table}"])


def _html(sheet: Sheet) -> str:
    escape = html.escape

    def line(row: Sequence[str], tag: str) -> str:
        style = [' style="text-align:right"' if _numeric(sheet.rows, j) else "" for j in range(len(row))]
        return "<tr>" + "".join(f"<{tag}{s}>{escape(c)}</{tag}>" for c, s in zip(row, style, strict=True)) + "</tr>"

    facts = "".join(f"<br>{escape(k)}: {escape(v)}" for k, v in sheet.facts)
    caption = f"<caption><strong>{escape(sheet.title)}</strong>{facts}</caption>" if sheet.title or facts else ""
    body = "\n".join(line(r, "td") for r in sheet.cells())
    notes = "".join(f"<p>{escape(n)}</p>\n" for n in sheet.notes)
    return f"<table>{caption}\n<thead>{line(sheet.columns, 'th')}</thead>\n<tbody>\n{body}\n</tbody></table>\n{notes}".rstrip()


def _json(sheet: Sheet) -> str:
    data = sheet.data if sheet.data is not None else [dict(zip(sheet.columns, r, strict=True)) for r in sheet.rows]
    made = json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False)
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", made)


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
    "markdown": _markdown,
    "latex": _latex,
    "html": _html,
}


def render(sheet: Sheet, style: str = "text") -> str:
    """The table in the format asked for."""
    if style not in FORMATS:
        raise PramanaError(f"format {style!r} is unknown: {suggestion(style, FORMATS)}")
    made = FORMATS[style](sheet if style == "json" else _all_visible(sheet))
    return made.encode("utf-8", "backslashreplace").decode()  # half a character cannot be printed at all


def _all_visible(sheet: Sheet) -> Sheet:
    return replace(
        sheet,
        columns=tuple(map(visible, sheet.columns)),
        title=visible(sheet.title),
        facts=tuple((visible(k), visible(v)) for k, v in sheet.facts),
        notes=tuple(map(visible, sheet.notes)),
    )

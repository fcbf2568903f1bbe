"""A page of text, tables and figures, as Markdown and as one HTML file."""

from __future__ import annotations

import base64
import html
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from pramana.render.tables import Sheet, markdown_text, render, visible

_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0;font-size:14px}td,th{padding:.2rem .6rem;border-bottom:1px solid #ddd}
caption,th{text-align:left}caption{padding:.3rem 0}.wide{overflow-x:auto}figure{margin:1rem 0}img{max-width:min(100%,36rem)}pre{background:#f5f5f5;padding:.6rem;overflow:auto}"""


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class Picture:
    """A figure file beside the page."""

    path: Path
    caption: str


@dataclass(frozen=True)
class Drawing:
    """A figure inside the page; where a page cannot hold it, `words` say what it shows."""

    png: bytes
    caption: str
    words: str


PageBlock = str | Heading | Code | Picture | Drawing | Sheet


@dataclass
class Page:
    """Blocks in order: paragraphs are plain strings. All text is data: no name or level in it can be markup."""

    title: str
    blocks: list[PageBlock] = field(default_factory=list)

    def add(self, *blocks: PageBlock) -> None:
        self.blocks.extend(blocks)

    def markdown(self) -> str:
        return "\n\n".join([f"# {markdown_text(self.title)}", *(_markdown(block) for block in self.blocks)]) + "\n"

    def html(self) -> str:
        """Complete in itself: the pictures are inside."""
        body = "\n".join(_html(block) for block in self.blocks)
        title = html.escape(visible(self.title))
        head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
        return f"{head}<style>{_STYLE}</style></head><body><h1>{title}</h1>\n{body}\n</body></html>\n"


def _markdown(block: PageBlock) -> str:
    if isinstance(block, Sheet):
        return render(block, "markdown")
    if isinstance(block, Heading):
        return f"## {markdown_text(block.text)}"
    if isinstance(block, Code):
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", block.text)), 0)
        return f"{fence}\n{block.text}\n{fence}"
    if isinstance(block, Picture):
        caption = markdown_text(block.caption)
        return f"![{caption}]({quote(block.path.name)})\n\n*{caption}*"
    return _paragraph(f"{block.caption}. {block.words}" if isinstance(block, Drawing) else block)


def _paragraph(text: str) -> str:
    """Plain text; at its start, what would make it a heading, a list or a quotation is escaped too."""
    return re.sub(r"^(\d*)([#+=.)-])", r"\1\\\2", markdown_text(text))


def _html(block: PageBlock) -> str:
    if isinstance(block, Sheet):
        return f'<div class="wide">{render(block, "html")}</div>'
    if isinstance(block, Heading):
        return f"<h2>{html.escape(visible(block.text))}</h2>"
    if isinstance(block, Code):
        return f"<pre>{html.escape(block.text)}</pre>"
    if isinstance(block, str):
        return f"<p>{html.escape(visible(block))}</p>"
    data = base64.b64encode(block.png if isinstance(block, Drawing) else block.path.read_bytes()).decode()
    caption = html.escape(visible(block.caption))
    words = f"<p>{html.escape(visible(block.words))}</p>" if isinstance(block, Drawing) else ""
    return f'<figure><img alt="{caption}" src="data:image/png;base64,{data}"><figcaption>{caption}</figcaption></figure>{words}'

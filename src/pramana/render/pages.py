"""A page of text, tables and figures, as Markdown and as one HTML file."""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass, field
from pathlib import Path

from pramana.render.tables import Sheet, render

_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0;font-size:14px}td,th{padding:.2rem .6rem;border-bottom:1px solid #ddd}
caption{text-align:left;padding:.3rem 0}img{max-width:100%}pre{background:#f5f5f5;padding:.6rem;overflow:auto}"""


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


Block = str | Heading | Code | Picture | Sheet


@dataclass
class Page:
    """Blocks in order: paragraphs are plain strings."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    def add(self, *blocks: Block) -> None:
        self.blocks.extend(blocks)

    def markdown(self) -> str:
        return "\n\n".join([f"# {self.title}", *(_markdown(block) for block in self.blocks)]) + "\n"

    def html(self) -> str:
        """Complete in itself: the pictures are inside."""
        body = "\n".join(_html(block) for block in self.blocks)
        head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(self.title)}</title>'
        return f"{head}<style>{_STYLE}</style></head><body><h1>{html.escape(self.title)}</h1>\n{body}\n</body></html>\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"## {block.text}"
    if isinstance(block, Code):
        return f"```\n{block.text}\n```"
    if isinstance(block, Picture):
        return f"![{block.caption}]({block.path.name})\n\n*{block.caption}*"
    return render(block, "markdown") if isinstance(block, Sheet) else block


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h2>{html.escape(block.text)}</h2>"
    if isinstance(block, Code):
        return f"<pre>{html.escape(block.text)}</pre>"
    if isinstance(block, Picture):
        data = base64.b64encode(block.path.read_bytes()).decode()
        return (
            f'<figure><img alt="{html.escape(block.caption)}" src="data:image/png;base64,{data}">'
            f"<figcaption>{html.escape(block.caption)}</figcaption></figure>"
        )
    return render(block, "html") if isinstance(block, Sheet) else f"<p>{html.escape(block)}</p>"

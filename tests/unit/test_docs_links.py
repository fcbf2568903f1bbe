"""Links between the Markdown pages of the repository, and the pages that the documentation site shows."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from os.path import normpath
from pathlib import Path

import pytest

import pramana as pr

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2", re.M | re.S)
LINK = re.compile(r"\]\(([^()\s]+)\)")


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "`code`", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Places on a page that a link can name, as on the usual hosts of Markdown: words in lower case, joined by hyphens."""
    headings = re.findall(r"^#{1,6} +(.+?) *$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    links = [link for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]
    parts = [(link, *link.partition("#")[::2]) for link in links]
    targets = [(link, (page.parent / path) if path else page, place) for link, path, place in parts]
    return [
        link
        for link, target, place in targets
        if not target.exists() or (place and target.suffix == ".md" and place not in anchors(target))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One place\n[a](page.md#one-place) [b](#two) [c](gone.md) [d](https://example.org) `[e](code.md)`\n",
        encoding="utf-8",
    )
    assert broken(page) == ["#two", "gone.md"]


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    site = ROOT / "docs" / "site"
    trees = "".join(
        re.findall(r"```\{toctree\}\n(.*?)```", "".join(p.read_text(encoding="utf-8") for p in site.glob("*.md")), re.S)
    )
    entries = [re.sub(r".*<(.+)>", r"\1", line) for line in trees.splitlines() if line and not line.startswith(":")]
    named = [normpath(f"docs/site/{entry}.md") for entry in entries]
    shown = [str(page.relative_to(ROOT)) for page in PAGES if page != site / "index.md"]
    lost = [page for page in shown if not any(fnmatch(page, name) for name in named)]
    assert lost == [], "name these pages in a toctree of docs/site"


def test_the_site_has_every_public_name() -> None:
    listed = re.findall(r"^   (\w+)$", (ROOT / "docs/site/api.md").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted(name for name in pr.__all__ if name != "__version__")

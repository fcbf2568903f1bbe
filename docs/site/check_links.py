"""Every link inside a built site leads to a page, a file or a place on a page that is there: `python check_links.py build/site`."""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """Links of a page, and the places on it that links can name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 (the parser's signature)
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


read = cache(Page)


def broken(site: Path) -> list[str]:
    """`page: link` for each link inside the site that leads nowhere."""
    pages = sorted(page for page in site.resolve().rglob("*.html") if "_static" not in page.parts)
    return [
        f"{page.relative_to(site.resolve())}: {link}"
        for page in pages
        for link in sorted(read(page).links)
        if not leads(page, link)
    ]


def leads(page: Path, link: str) -> bool:
    if urlsplit(link).scheme or link.startswith("//"):
        return True  # elsewhere
    address, place = urldefrag(link)
    target = (page.parent / unquote(urlsplit(address).path)).resolve() if address else page
    return target.is_file() and (target.suffix != ".html" or unquote(place) in read(target).places)


if __name__ == "__main__":
    site = Path(sys.argv[1])
    found = broken(site)
    sys.stderr.write("".join(f"broken link: {line}\n" for line in found))
    sys.exit(bool(found))

"""Draw the pictures of the documentation anew: `python docs/images/draw_pages.py`, from the root of the repository.

A page whose text says `figure.savefig("docs/images/NAME.png", ...)` is run up to there, and its `figure` saved so.
"""

from __future__ import annotations

import doctest
import re
import sys
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from pramana.render.figures import drawn

ROOT = Path(__file__).resolve().parents[2]
SAVED = re.compile(r'`figure\.savefig\("(docs/images/[\w-]+\.png)"')


def draw(page: Path) -> list[str]:
    """Every picture of a page, by name; examples run once, in the order of the page."""
    text, names, made, done = page.read_text(encoding="utf-8"), {}, [], 0
    text = text.partition("\n## Appendix")[2] + text  # which makes what the page opens with
    for found in SAVED.finditer(text):
        for example in doctest.DocTestParser().get_examples(text[done : found.start()]):
            if example.exc_msg is None:  # one that shows an error makes nothing
                with redirect_stdout(StringIO()):
                    exec(compile(example.source, str(page), "single"), names)
        done = found.end()
        (ROOT / found[1]).write_bytes(drawn(names["figure"], ".png"))
        made.append(found[1])
    return made


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.displayhook = lambda _value: None
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for name in draw(page):
            sys.stdout.write(f"{name}\n")

"""The documentation site: Sphinx over the Markdown of the repository, read from its root, so that every relative link holds.

`make docs` builds it into build/site.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

project = "Pramana"
author = copyright = "the Pramana authors"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
root_doc = "docs/site/index"
include_patterns = ["docs/**", "benchmarks/*.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = ["docs/site/templates", ".*", "build", "dist", "src", "tests", "demo-output", "**/__pycache__"]

nb_execution_mode = "force"  # notebooks hold no output: it is that of the code as it is
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_show_tb = True

myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
suppress_warnings = ["myst.header"]  # tables of benchmarks go from H1 to H3
smartquotes_action = "D"  # dashes alone: "auto" is to be typed as it stands
default_role = "code"  # docstrings write `name` for code

templates_path = [str(ROOT / "docs/site/templates")]  # autosummary looks for them from the root
autosummary_generate = True
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": "BaseException,BaseModel,Mapping,dict,tuple"}
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = "Pramana"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sidebars = {"docs/site/index": []}
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "show_nav_level": 1,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)(?::\s+(.+?)(?=\s*(?:·|\[|\n\n|\n- |\n\d+\. |$)))?", re.S)
ARRAY = re.compile(r"~?numpy\.ndarray\[tuple\[[^\]]*\], ~?numpy\.dtype\[[^\]]*\]\]")
ARRAY_LIKE = re.compile(r"[~\w.]*_Buffer \|.*?_NestedSequence\[complex \| bytes \| str\]")
FIELD = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (\S.*)$")


def plain_words(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain words with `code`: made fit for Napoleon, which would read `name : what it is` as a type, and for RST."""
    example, made = False, [""]
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if made[-1] == "" and line[:1].strip():
            made.append("")  # a second blank line ends the list of parameters
        field = None if example else FIELD.match(line)
        made += [line] if example else [field[1], f"    {words(field[2])}"] if field else [words(line)]
    lines[:] = made


def short_types(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, signature: str | None, returns: str | None
) -> Any:
    """An array is an array, and a default that is made anew is `...`."""
    return tuple(
        text and ARRAY_LIKE.sub("ArrayLike", ARRAY.sub("~numpy.ndarray", text.replace("<factory>", "...")))
        for text in (signature, returns)
    )


def words(line: str) -> str:
    """A line in which nothing but `code` means anything."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(f"{part}\\ " if k % 2 else re.sub(r"([*|])", r"\\\1", part) for k, part in enumerate(parts))


def listing(index: str) -> str:
    """llms.txt: the pages of docs/index.md, a line each."""
    pages = [(title, path, " ".join((words or "").split())) for title, path, words in LINK.findall(index)]
    lines = (
        f"- [{title}]({Path('docs', path).with_suffix('.html').as_posix().replace('docs/../', '')})"
        + (f": {words}" if words else "")
        for title, path, words in pages
    )
    return (
        "# Pramana\n\n> Statistics on data whose sensitive columns were randomised before release.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def without_last_blank(_app: Any, _page: str, source: list[str]) -> None:
    """Doctest needs a blank line before the closing fence; a reader does not."""
    source[0] = re.sub(r"\n\n( *```)$", r"\n\1", source[0], flags=re.M)


def finish(app: Any, error: Exception | None) -> None:
    """What lies beside the pages: llms.txt, and a door at the top."""
    if error is None:
        (app.outdir / "llms.txt").write_text(
            listing((ROOT / "docs/index.md").read_text(encoding="utf-8")), encoding="utf-8"
        )
        (app.outdir / "index.html").write_text(
            f'<!doctype html><meta charset="utf-8"><title>Pramana</title>'
            f'<meta http-equiv="refresh" content="0; url={root_doc}.html"><a href="{root_doc}.html">Pramana</a>\n',
            encoding="utf-8",
        )


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", plain_words, priority=400)
    app.connect("autodoc-process-signature", short_types)
    app.connect("source-read", without_last_blank)
    app.connect("build-finished", finish)

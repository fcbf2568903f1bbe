"""From a study's numbers to CSV, figures and a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pramana.frames.files import write_text
from pramana.render.pages import Code, Page
from pramana.studies.report_figures import efficiency_section, five_section, map_section
from pramana.studies.report_tables import errors_section, plain_section, published_section, table_section
from pramana.studies.study import Study
from pramana.studies.summary import StudyResult


def write(study: Study, result: StudyResult, out: Path, command: str) -> list[Path]:
    """Every file of one study; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    table = out / f"{study.name}.csv"
    write_text(table, result.to_csv())
    page = Page(study.title)
    page.add("Made by this command:", Code(command))
    files = [table]
    for add in _SECTIONS.get(study.name, (plain_section,)):
        files += add(study, result, out, page)
    return files + save_page(page, out / study.name)


def save_page(page: Page, stem: Path) -> list[Path]:
    markdown, html = stem.with_suffix(".md"), stem.with_suffix(".html")
    write_text(markdown, page.markdown())
    write_text(html, page.html())
    return [markdown, html]


Section = Callable[[Study, StudyResult, Path, Page], list[Path]]
_SECTIONS: Mapping[str, Sequence[Section]] = {
    "a1": (table_section, published_section, errors_section, five_section, efficiency_section),
    "b1": (table_section, errors_section, five_section, efficiency_section),
    "a2": (map_section,),
    "b2": (map_section,),
}

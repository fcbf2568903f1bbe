"""What a study's page is made of: sections that add tables and pictures to it, and the files they leave beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pramana.frames.writing import Folder
from pramana.render.figures import drawn
from pramana.render.pages import Page
from pramana.studies.simulation import Study
from pramana.studies.summary import StudyResult

Section = Callable[[Study, StudyResult, Folder, Page], list[Path]]


def save_figure(figure: Any, out: Folder, stem: str) -> list[Path]:
    return [out.bytes(stem + ending, drawn(figure, ending)) for ending in (".png", ".svg")]


def save_page(page: Page, out: Folder, stem: str) -> list[Path]:
    return [out.text(f"{stem}.md", page.markdown()), out.text(f"{stem}.html", page.html())]

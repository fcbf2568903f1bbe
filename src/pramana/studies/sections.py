"""What a study's page is made of: sections that add tables and pictures to it, and the files they leave beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pramana.frames.writing import Folder
from pramana.render.figures import drawn
from pramana.render.pages import Heading, Page
from pramana.reporting import references, write_page
from pramana.studies.simulation import Study
from pramana.studies.summary import StudyResult

Section = Callable[[Study, StudyResult, Folder, Page], list[Path]]


def save_drawing(figure: Any, out: Folder, stem: str) -> list[Path]:
    return [out.bytes(stem + ending, drawn(figure, ending)) for ending in (".png", ".svg")]


def save_page(page: Page, out: Folder, stem: str, report: Path | None = None) -> list[Path]:
    """The page as Markdown and HTML; and as HTML once more, with what it rests on, where a `report` is asked for."""
    files = [out.text(f"{stem}.md", page.markdown()), out.text(f"{stem}.html", page.html())]
    if report is None:
        return files
    full = Page(page.title, [*page.blocks, Heading("Methods"), _METHODS, *references(_METHODS)])
    return [*files, write_page(full, report, force=out.force)]


_METHODS = (
    "Data sets were drawn anew for every replicate, their sensitive columns randomised with known probabilities (Gouweleeuw et al., 1998), and every estimator was given the "
    "same ones. Reversion, called proposed in the paper, and the model-dependent estimators are those of Tian and Zhao. Monte Carlo errors are those of means over the replicates; of standard "
    "deviations and of ratios they are by jackknife."
)

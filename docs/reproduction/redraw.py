"""Draw the pictures and write the pages of the paper's studies anew from the numbers beside this file: `python docs/reproduction/redraw.py`.

The numbers come from `pramana study`, which takes hours; what a page looks like does not depend on running it again.
"""

from __future__ import annotations

import re
from pathlib import Path

from pramana.frames.writing import Folder
from pramana.studies.report import write
from pramana.studies.study import STUDIES, study_of
from pramana.studies.summary import StudyResult

HERE = Path(__file__).parent


def command_of(page: str) -> str:
    """The command that a page says it was made by."""
    found = re.search(r"```\n(.+?)\n```", page)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    for name in STUDIES:
        table = HERE / f"{name}.csv"
        if table.is_file():
            result = StudyResult.from_csv(table.read_text(encoding="utf-8"))
            command = command_of((HERE / f"{name}.md").read_text(encoding="utf-8"))
            for path in write(study_of(name), result, Folder(HERE, force=True), command):
                if path.suffix == ".html":
                    path.unlink()  # the site has the Markdown

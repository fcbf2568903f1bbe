"""A notebook as a user would write it, run in a fresh kernel: tables and pictures are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="Jupyter is not installed: notebooks cannot be run")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: notebooks cannot be run")
pytest.importorskip("ipykernel", reason="there is no Python kernel for Jupyter: notebooks cannot be run")

CELLS = (
    """import numpy as np, pandas as pd, pramana as pr
rng = np.random.default_rng(0)
x = rng.normal(size=800)
data = pd.DataFrame({"x": x, "z": rng.integers(0, 2, 800)})
data["y"] = data["x"] + data["z"] + rng.normal(size=800)
mechanism = pr.Mechanism({"z": pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.9)})
result = pr.fit("y ~ x + z", data, mechanism)""",
    "result",
    "result.plot()",
    "pr.compare('y ~ x + z', data, mechanism).plot(title='both')",
    "import matplotlib.pyplot as plt\nresult.plot()",
    "_, axes = plt.subplots()\nresult.plot(ax=axes)",
)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each cell shows, by kind."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.execute(cwd=str(tmp_path_factory.mktemp("notebook")))
    return [[dict(o["data"]) for o in cell["outputs"] if "data" in o] for cell in notebook.cells]


@pytest.mark.engines
def test_a_result_is_shown_as_a_table(outputs: list[list[dict[str, Any]]]) -> None:
    (shown,) = outputs[1]
    assert "<table" in shown["text/html"]


@pytest.mark.engines
@pytest.mark.parametrize("cell", [2, 3, 4, 5])
def test_a_plot_is_shown_once_as_the_picture(cell: int, outputs: list[list[dict[str, Any]]]) -> None:
    """Whether or not pyplot was imported before, and into axes of one's own."""
    pictures = [shown for shown in outputs[cell] if "image/png" in shown]
    assert len(pictures) == 1
    assert len(pictures[0]["image/png"]) > 5000


def test_notebooks_of_the_documentation_hold_no_output() -> None:
    """They are run when the site is built: `make docs`."""
    folder = Path(__file__).parents[3] / "docs" / "notebooks"
    pages = sorted(folder.glob("*.md"))
    assert len(pages) >= 3
    assert not list(folder.glob("*.ipynb"))
    assert all("```{code-cell} ipython3" in page.read_text(encoding="utf-8") for page in pages)

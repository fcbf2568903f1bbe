"""Examples in the documentation."""

from __future__ import annotations

import doctest
import warnings
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def made_first(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """A page that makes its file in an appendix can open with the file: the appendix is run before the page, and again in its place."""
    if request.node.path.suffix == ".md":
        _, _, appendix = request.node.path.read_text(encoding="utf-8").partition("\n## Appendix")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for example in doctest.DocTestParser().get_examples(appendix):
                exec(compile(example.source, str(request.node.path), "single"), doctest_namespace)

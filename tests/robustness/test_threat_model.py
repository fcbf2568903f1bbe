"""Every promise of the threat model names tests, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "threat-model.md"
PROMISED = re.search(r"## What is promised.*?(?=\n## )", PAGE.read_text(encoding="utf-8"), re.DOTALL)
PROMISES = re.split(r"\n- ", PROMISED[0])[1:] if PROMISED else []


def test_there_are_promises() -> None:
    assert len(PROMISES) > 10


@pytest.mark.parametrize("promise", PROMISES, ids=[promise[:40] for promise in PROMISES])
def test_a_promise_is_held_by_tests_of_these_names(promise: str) -> None:
    named = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", promise)
    assert named
    for test, file in named:
        assert f"\ndef {test}(" in (PAGE.parent / file).read_text(encoding="utf-8"), test

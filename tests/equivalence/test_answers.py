"""Every kept number is still found: `tests/analyses.py` gives the answers in `tests/golden/answers.json`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from answers import ANALYSES, compare, differences, read_store

KEPT = read_store()


def test_every_analysis_is_kept() -> None:
    assert list(KEPT) == list(ANALYSES)


@pytest.mark.parametrize("name", ANALYSES)
def test_the_answer_is_the_kept_one(name: str) -> None:
    found = compare(name, KEPT[name])
    assert not found, "\n".join(map(str, found[:5]))


def test_a_number_may_move_by_rounding_and_no_further() -> None:
    before = {"estimate": [0.0, 2.0], "standard_errors": [1.0, 1.0], "facts": {"Method": "a"}}
    assert not list(differences(before, {**before, "estimate": [1e-10, 2.0]}))
    assert [d.where for d in differences(before, {**before, "estimate": [0.0, 2.0001]})] == ["estimate[1]"]
    assert [d.where for d in differences(before, {**before, "facts": {"Method": "b"}})] == ["facts.Method"]
    assert [d.where for d in differences(before, {**before, "estimate": [0.0]})] == ["estimate"]

"""What `make bench` runs is there, and goes with the library as it is."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = re.findall(r"-m (benchmarks\.\w+)", (ROOT / "Makefile").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [*NAMES, "benchmarks.gpu"])
def test_a_benchmark_can_be_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    assert callable(import_module(name).main)


def test_the_likelihoods_benchmark_compares_equal_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    likelihood = import_module("benchmarks.likelihood")
    monkeypatch.setattr(likelihood, "best", lambda work, _times: float(work() is not None))
    times, steps, apart = likelihood.measure()
    assert len(times) == 3
    assert steps > 1
    assert apart < 1e-7

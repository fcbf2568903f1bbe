"""Bars on stderr."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pramana as pr
from pramana import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, patience: float) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    with progress.bar("Weighing") as tell:
        tell(1, 4)
        time.sleep(0.2)
    return stream.getvalue()


def test_long_work_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = watched(monkeypatch, Terminal(), 0.0)
    assert "Weighing" in shown
    assert "25%" in shown


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, Terminal(), 60.0) == ""


def test_only_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, io.StringIO(), 0.0) == ""


def test_a_bar_goes_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(KeyboardInterrupt), progress.bar("Weighing"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("what", ["risk", "frontier"])
def test_risk_tells_how_far_it_is(what: str, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    shares: list[float] = []
    options = {"keys": ["female", "region", "edu"], "tell": lambda done, total: shares.append(done / total)}
    if what == "risk":
        pr.risk(survey, mechanism, **options)
    else:
        pr.frontier(survey, "edu", chosen=mechanism, **options)
    assert len(shares) > 5
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 0.5 < shares[-1] <= 1


def test_a_part_of_the_work_borrows_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with progress.bar("Fitting", unit="rows"):
        with progress.bar("Pass 1") as tell:
            tell(1, 4)
            time.sleep(0.2)
        time.sleep(0.2)
    shown = terminal.getvalue()
    assert shown.index("Pass 1") < shown.rindex("Fitting")


def test_a_stream_tells_its_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"x": range(3000), "y": [0, 1, 1] * 1000}).to_parquet(tmp_path / "a.parquet")
    seen: list[str] = []

    @contextmanager
    def bar(title: str, **_: Any) -> Iterator[progress.Tell]:
        seen.append(title)
        yield lambda done, total: seen.append(f"{done} of {total}")

    for room in ("streaming", "reading"):
        monkeypatch.setattr(f"pramana.analysis.{room}.bar", bar)
    monkeypatch.setattr("pramana.analysis.streaming.PILOT", 300)
    pr.fit("y ~ x", tmp_path / "a.parquet", None, family="binomial", memory=1)
    assert [title.partition(" over")[0] for title in seen if title.startswith("Pass")][:2] == ["Pass 1", "Pass 2"]
    assert seen[0].startswith("Learning from")
    assert "3000 of 3000" in seen

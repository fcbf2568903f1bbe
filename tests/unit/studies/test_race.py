"""Study d1 in small: its cells and halves, what its numbers are, and its page."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pramana as pr
from pramana.estimators.remarks import STEADIER
from pramana.frames.writing import Folder
from pramana.studies import race, report, run_replicates
from pramana.studies.race import FAR, NAMES, Cell, Errors, best_logit, race_cells, replicates, summary
from pramana.studies.race_page import STRONG, verdicts
from pramana.studies.study import study_of
from pramana.studies.summary import StudyResult, combine, summarize

PAGES = Path(__file__).parents[3] / "docs" / "reproduction"


def test_the_halves_are_pairs_of_one_kind_and_share_no_cell() -> None:
    first, second = study_of("d1-exploring").scenarios, study_of("d1").scenarios
    assert len(first) + len(second) >= 60
    assert [c.label["setting"] for c in first] == [c.label["setting"] for c in second]
    assert not {c.key for c in first} & {c.key for c in second}
    assert max(Counter(c.key for c in race_cells()).values()) == 1
    keeps, sizes = [float(str(c.label["keep"])) for c in second], [c.n for c in second]
    assert min(keeps) <= 0.6 < 0.95 <= max(keeps)
    assert min(sizes) == 300 < 16000 == max(sizes)


@pytest.mark.parametrize("cell", race_cells()[::2][::3], ids=lambda c: c.key)
def test_the_truth_is_what_many_true_records_give(cell: Cell) -> None:
    many = replace(cell, n=40_000)
    truth = many.data(3, [0])[0]
    options = {"family": cell.family, **cell.options}
    found = pr.fit(cell.what, truth, cell.mechanism.of_truth, method="naive", **options)
    assert np.abs((found.estimate - np.array(cell.truth)) / found.standard_errors).max() < 4.5


def test_the_best_logit_of_a_logit_is_itself() -> None:
    x = np.linspace(-2, 2, 101)
    design = np.column_stack([np.ones(101), x])
    assert best_logit(design, 1 / (1 + np.exp(1 - 2 * x))) == pytest.approx((-1.0, 2.0))


def test_replicates_are_what_fit_gives() -> None:
    cell = study_of("d1").scenarios[0]
    assert isinstance(cell, Cell)
    found = replicates(cell, [0, 2], seed=4)
    assert set(found.values) == set(NAMES)
    truth, released = cell.data(4, [2])
    alone = pr.fit(cell.what, released, cell.mechanism, family=cell.family, method="stabilized")
    assert isinstance(alone, pr.StabilizedResult)
    numbers = found.values["stabilized"]
    np.testing.assert_array_equal(numbers["estimate"][1], alone.estimate)
    np.testing.assert_array_equal(numbers["low"][1], alone.interval()[:, 0])
    np.testing.assert_array_equal(found.values["one step"]["estimate"][1], alone.one_step)
    np.testing.assert_array_equal(found.values["plug-in"]["estimate"][1], alone.plug_in)
    assert np.all(found.values["one step"]["low"] >= numbers["low"])
    clipped = pr.fit(
        cell.what,
        released,
        cell.mechanism,
        family=cell.family,
        method=pr.ModelDependent(clip=True),
        inference=pr.Resampling(20, seed=1),
    )
    np.testing.assert_allclose(found.values["Model 1 clipped"]["estimate"][1], clipped.estimate)
    oracle = pr.fit(cell.what, truth, None, family=cell.family)
    np.testing.assert_allclose(found.values["true data"]["estimate"][1], oracle.estimate)


def test_errors_are_cut_and_paired() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(400, 2))
    wild = np.where(np.arange(400)[:, None] < 4, 100.0, 2 * z)
    none = np.where(np.arange(400)[:, None] < 8, np.nan, z)
    small, large, absent = (Errors(v, v - 1.96, v + 1.96, np.ones_like(v), np.ones(400)) for v in (z, wild, none))
    assert large.squares[:4] == pytest.approx(FAR**2)
    assert absent.squares[:8] == pytest.approx(FAR**2)
    assert absent.row()["rootless"] == pytest.approx(0.02)
    beside = small.beside(large)
    assert beside["ratio"] == pytest.approx(np.sqrt(small.squares.mean() / large.squares.mean()))
    halves = [
        Errors(z[k::20], z[k::20], z[k::20], z[k::20], np.ones(20)).beside(
            Errors(wild[k::20], wild[k::20], wild[k::20], wild[k::20], np.ones(20))
        )["ratio"]
        for k in range(20)
    ]
    assert beside["ratio_mcse"] == pytest.approx(np.std(halves, ddof=1) / np.sqrt(20), rel=0.6)
    row = small.row()
    assert row["coverage"] + row["missed_below"] + row["missed_above"] == pytest.approx(1)
    assert row["length"] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("path", sorted(PAGES.glob("d1.csv")), ids=lambda path: path.stem)
def test_committed_results_are_of_the_study_as_it_is_and_never_worse_than_reversion(path: Path) -> None:
    """Nor with intervals that cover less, nor without an answer; one thing that was asked is not reached."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{k: _number(v) for k, v in row.items() if v} for row in csv.DictReader(file)]
    found = StudyResult(tuple(rows))
    kept = [(c.label["setting"], c.label["keep"], c.n) for c in study_of(path.stem).scenarios]
    own = found.where(method="stabilized")
    assert [(r["setting"], r["keep"], r["n"]) for r in own] == kept
    assert all(r["replicates"] >= 2000 for r in own)
    missed = [missed for _, missed in verdicts(found)]
    assert missed == [False, True, False, False, False]  # the median under strong noise, as the page says


def test_the_remark_of_a_weak_fit_has_the_numbers_of_the_page() -> None:
    rows = StudyResult.from_csv((PAGES / "d1.csv").read_text(encoding="utf-8")).where(method="stabilized")
    strong = [float(r["ratio"]) for r in rows if float(r["keep"]) <= STRONG]
    assert (
        f"({min(strong):.2f} to {max(strong):.2f} of reversion's error at keep up to {STRONG:g} in study d1)"
        in STEADIER
    )


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def test_the_others_run_on_the_first_data_sets_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each beside what reversion found in the same ones."""
    cell = race_cells()[0]
    whole = replicates(cell, range(3), seed=1)
    first = summary(cell, replicates(cell, range(2), seed=1)).where(method="naive")[0]
    monkeypatch.setattr(race, "RIVALS", 2)
    found = replicates(cell, range(3), seed=1)
    assert np.isnan(found.values["naive"]["estimate"][2]).all()
    np.testing.assert_array_equal(found.values["stabilized"]["estimate"], whole.values["stabilized"]["estimate"])
    rows = summary(cell, found)
    assert [r["replicates"] for r in rows.rows] == [3] * 4 + [2] * (len(rows.rows) - 4)
    assert {k: v for k, v in rows.where(method="naive")[0].items() if k != "seconds"} == {
        k: v for k, v in first.items() if k != "seconds"
    }


def test_simulate_takes_the_method() -> None:
    scenario = study_of("d2").scenarios[0]
    found = run_replicates(replace(scenario, n=200), ["reversion", "stabilized"], 2, seed=3)
    released = replace(scenario, n=200).data(3, [1])[1]
    alone = pr.fit(scenario.what, released, scenario.mechanism, family="binomial", method="stabilized")
    np.testing.assert_array_equal(found.values["stabilized"]["estimate"][1], alone.estimate)


def test_verdicts_see_a_loss_and_a_gain() -> None:
    cell = study_of("d1").scenarios[1]
    rows = summary(cell, replicates(cell, range(3), seed=1)).rows
    good = [
        row | {"ratio": 0.5, "ratio_mcse": 0.01, "coverage": 0.95, "coverage_mcse": 0.005, "gap": 0.0} for row in rows
    ]
    assert not any(missed for _, missed in verdicts(StudyResult(tuple(good))))
    bad = [
        row | ({"ratio": 1.2, "coverage": 0.8, "gap": -0.15} if row["method"] == "stabilized" else {}) for row in good
    ]
    told = verdicts(StudyResult(tuple(bad)))
    assert [missed for _, missed in told] == [True, True, True, True, False]
    assert "0.800" in told[2][0]


def test_the_page(tmp_path: Path) -> None:
    """Of two cells, with the work done in this process."""

    study = study_of("d1")
    some = replace(study, scenarios=(study.scenarios[0], study.scenarios[5]))
    found = combine([summary(c, replicates(c, range(3), seed=1)) for c in some.scenarios])
    written = report.write(some, found, Folder(tmp_path, False), "command")
    assert {path.name for path in written} == {"d1.csv", "d1.md", "d1.html", "d1.png", "d1.svg"}
    page = (tmp_path / "d1.md").read_text(encoding="utf-8")
    for words in ("When to use which", "logit (A1)", "linear (B1)", "Model 1 clipped", "worst coefficient"):
        assert words in page


def test_table_1_once_more(tmp_path: Path) -> None:
    """The page of d2 takes every cell of the paper's table; here with numbers of one of them."""
    study = study_of("d2")
    assert len(study.scenarios) == 18
    small = replace(study.scenarios[0], n=200)
    rows = summarize(small, run_replicates(small, study.methods, 3, seed=1)).rows
    result = StudyResult(tuple(row | dict(s.label) | {"n": s.n} for s in study.scenarios for row in rows))
    written = report.write(study, result, Folder(tmp_path, False), "command")
    assert {path.name for path in written} == {"d2.csv", "d2.md", "d2.html"}
    assert "SE, stabilized" in (tmp_path / "d2.md").read_text(encoding="utf-8")

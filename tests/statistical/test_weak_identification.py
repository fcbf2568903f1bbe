"""Faint signals: which interval is shown, what is said, and how often the truth is missed on either side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from weak_settings import GRID, MEASURES, TABLES, Faint, ratio

import pramana as pr
from pramana.analysis.question import question
from pramana.analysis.sampling import SamplingArguments
from pramana.analysis.task import Options, Task
from pramana.engines import Engine
from pramana.estimators.reversion import Reversion
from pramana.inference import Sandwich, solve
from pramana.inference.identification import SAFE, WANTED, identification
from pramana.inference.sandwich import bread, sandwich_covariance
from pramana.inference.score_intervals import score_statistic

Log = Callable[[str, object], None]
Z, CRITICAL = 1.959964, 3.841459


def engine_of(setting: Faint, released: dict[str, Any]) -> Engine:
    """The equation of one sample, without the rest of a fit: a score interval misses where the test rejects the truth, which
    takes one statistic in place of the whole interval."""
    plan = question(setting.what, setting.family, None, None)
    task = Task.read(plan, released, setting.mechanism, SamplingArguments(), Options())
    binding = Reversion().bind(task.function, task.mechanism, task.table, task.sampling.row_weights)
    return task.engine(binding.equation).learned()


def one(engine: Engine, truth: np.ndarray) -> np.ndarray:
    """(d, 4): the signal, whether the score interval is shown, and whether Wald's interval and the score interval lie above (1) or
    below (-1) the truth."""
    beta = solve(engine).beta
    totals = engine.totals(beta)
    covariance = sandwich_covariance(totals, bread(totals, engine.about.parameters), engine, Sandwich())
    errors = np.sqrt(np.diag(covariance))
    away = beta - truth
    wald = np.sign(away) * (np.abs(away) > Z * errors)
    score = np.array([_rejected(engine, beta, j, truth[j], errors) for j in range(engine.d)])
    judged = identification(engine, beta, totals, covariance)
    return np.column_stack([judged.signals, judged.signals < SAFE, wald, score])


def _rejected(engine: Engine, beta: np.ndarray, j: int, value: float, errors: np.ndarray) -> float:
    missed = score_statistic(engine, beta, errors, j, value) > CRITICAL
    return float(np.sign(beta[j] - value) * missed)


def simulated(setting: Faint, replicates: int, seed: int) -> tuple[np.ndarray, int]:
    """(R, d, 4) for the samples with a root, and the number of those without."""
    out, rootless = [], 0
    for child in np.random.SeedSequence(seed).spawn(replicates):
        try:
            out.append(
                one(engine_of(setting, setting.released(np.random.default_rng(child))), np.asarray(setting.truth))
            )
        except pr.PramanaError:
            rootless += 1
    return np.array(out), rootless


def tails(missed: np.ndarray) -> tuple[float, float]:
    """Shares of samples whose interval lies below and above the truth."""
    return float((missed < 0).mean()), float((missed > 0).mean())


def table(setting: Faint, found: np.ndarray, rootless: int) -> list[dict[str, object]]:
    """A row for each parameter: misses of either interval, and, without a name, of the one that is shown, below and above the truth."""
    rows: list[dict[str, object]] = []
    for j, truth in enumerate(setting.truth):
        signal, shown, wald, score = found[:, j].T
        silent = np.where(signal < WANTED, 0.0, wald)
        row: dict[str, object] = {"parameter": j + 1, "truth": truth, "samples": len(found), "no root": rootless}
        row["signal"] = float(np.median(signal))
        kinds = {"Wald": wald, "score": score, "Wald unflagged": silent}
        for name, missed in kinds.items():
            row[f"{name} below"], row[f"{name} above"] = tails(missed)
        below, above = tails(np.where(shown > 0, score, wald))
        row |= {"shows score": float(shown.mean()), "below": below, "above": above, "coverage": 1 - below - above}
        rows.append({**row, "flagged": float((signal < WANTED).mean())})
    return rows


def error(share: float, replicates: int) -> float:
    """Three Monte Carlo errors."""
    return 3 * float(np.sqrt(max(share, 0.01) / replicates))


def check_shown(row: dict[str, Any], replicates: int) -> None:
    auto, score = row["below"] + row["above"], row["score below"] + row["score above"]
    assert auto <= max(score, 0.05) + 0.005 + error(0.02, replicates), (
        "Wald's intervals above the threshold cost coverage"
    )
    side, most = max(row["below"], row["above"]), max(0.04, row["score below"], row["score above"])
    assert side <= most + error(0.04, replicates), "the misses are on one side"


def check_flags(row: dict[str, Any], replicates: int) -> None:
    silent = row["Wald unflagged below"], row["Wald unflagged above"]
    assert sum(silent) <= 0.07 + error(0.07, replicates), "misses without a word"
    assert max(silent) <= 0.05 + error(0.05, replicates), "misses on one side without a word"
    healthy = all(abs(row[f"Wald {side}"] - 0.025) <= 0.006 for side in ("below", "above"))
    assert not healthy or row["flagged"] <= 0.05 + error(0.05, replicates), "a healthy fit is flagged"


FAINTEST = {"response, keep 0.6, n 1200, slope 0.8": 0.7, "rare covariate, keep 0.8, n 300, effect 2.5": 0.9}
"""Settings in which at least this share of the fits must be flagged."""


@pytest.mark.parametrize(
    ("name", "replicates"),
    [*((name, 60) for name in FAINTEST), *(pytest.param(name, 2000, marks=pytest.mark.verify) for name in GRID)],
)
def test_the_interval_that_is_shown_holds(name: str, replicates: int, record_property: Log) -> None:
    found, rootless = simulated(GRID[name], replicates, 7000 + list(GRID).index(name))
    rows = table(GRID[name], found, rootless)
    record_property("rows", rows)
    assert (found[:, 1, 0] < WANTED).mean() >= FAINTEST.get(name, 0.0)
    for row in rows:
        check_shown(row, replicates)
        check_flags(row, replicates)


def silence(setting: Faint, replicates: int, seed: int) -> dict[str, Any]:
    """Misses of Wald's interval of one parameter, all of them and those without a flag."""
    missed, flagged, rootless = [], [], 0
    for child in np.random.SeedSequence(seed).spawn(replicates):
        try:
            result = setting.fit(setting.released(np.random.default_rng(child)), inference=Sandwich(interval="wald"))
        except pr.PramanaError:
            rootless += 1
            continue
        away = float(result.estimate[0] - setting.truth[0])
        missed.append(np.sign(away) * (abs(away) > Z * result.standard_errors[0]))
        flagged.append("weakly-identified" in result.flags)
    wald, flag = np.array(missed), np.array(flagged)
    (low, high), (under, over) = tails(wald), tails(np.where(flag, 0.0, wald))
    return {
        "truth": setting.truth[0],
        "samples": len(wald),
        "no root": rootless,
        "Wald below": low,
        "Wald above": high,
        "Wald unflagged below": under,
        "Wald unflagged above": over,
        "flagged": float(flag.mean()),
    }


@pytest.mark.parametrize("replicates", [40, pytest.param(2000, marks=pytest.mark.verify)])
@pytest.mark.parametrize("make", MEASURES, ids=lambda make: make.__name__.replace("_", " "))
def test_a_ratio_says_when_it_divides_by_next_to_nothing(make: Any, replicates: int, record_property: Log) -> None:
    tables = TABLES if replicates > 1000 else dict([*TABLES.items()][:1])
    found = {name: silence(ratio(make, *table), replicates, 7100) for name, table in tables.items()}
    record_property("rows", [{"setting": name, **row} for name, row in found.items()])
    assert found["keep 0.7, n 1000, 10 % exposed"]["flagged"] > 0.7
    for row in found.values():
        check_flags(row, replicates)

"""The stabilized estimator beside reversion on the same data sets: never without an answer, a smaller error under strong noise, intervals that hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import settings
from montecarlo import BOUND, CLEAR, samples

import pramana as pr
from pramana.studies.race import Errors
from pramana.studies.race_page import LEAST

Log = Callable[[str, object], None]
CELLS = {"strong": (0.65, 600, 0.9), "mild": (0.9, 1500, 1.03)}
"""Keep probability, records, and the largest ratio of root mean squares."""


def answers(setting: settings.Setting, released: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Estimate and limits of reversion (NaN without a root) and of the stabilized estimator, (3, d) each."""
    out = {}
    for method in ("reversion", "stabilized"):
        try:
            found = setting.fit(released, method=method)
            out[method] = np.vstack([found.estimate, found.interval().T])
        except pr.SolveError:
            out[method] = np.full((3, 2), np.nan)
    return out


@pytest.mark.parametrize("replicates", [35, pytest.param(2000, marks=pytest.mark.verify)])
@pytest.mark.parametrize("cell", CELLS)
def test_beside_reversion(cell: str, replicates: int, record_property: Log) -> None:
    keep, n, largest = CELLS[cell]
    setting = settings.simulation_a1(keep, n)
    truth, unit = np.array(setting.truth), asymptotic(keep, n)
    found = [answers(setting, released) for _, released in samples(setting, replicates, 701)]
    sets = {}
    for method in ("reversion", "stabilized"):
        z, low, high = ((np.array([f[method][k] for f in found]) - truth) / unit for k in range(3))
        sets[method] = Errors(z, low, high, np.ones_like(z), np.zeros(replicates))
    own, row = sets["stabilized"].beside(sets["reversion"]), sets["stabilized"].row()
    assert row["rootless"] == 0
    assert own["ratio"] <= largest + 3 * own["ratio_mcse"]
    assert row["coverage"] >= LEAST - BOUND * max(row["coverage_mcse"], np.sqrt(0.05 / replicates / 2))
    rows = [{"keep": keep, "n": n, "method": m, **e.row(), **e.beside(sets["reversion"])} for m, e in sets.items()]
    record_property("rows", [{k: v for k, v in r.items() if k not in ("seconds", "wald_coverage")} for r in rows])


def asymptotic(keep: float, n: int, many: int = 200_000) -> np.ndarray:
    """Reversion's standard deviations at n, from one large sample."""
    setting = settings.simulation_a1(keep, many)
    _, released = next(samples(setting, 1, 702))
    return setting.fit(released).standard_errors * np.sqrt(many / n)


@pytest.mark.parametrize("replicates", [60, pytest.param(2000, marks=pytest.mark.verify)])
def test_a_wrong_matrix_is_seen(replicates: int) -> None:
    """At many records, where the right one leaves no bias to speak of."""
    setting = settings.simulation_a1(0.8, 4000)
    z = []
    for mechanism in (setting.mechanism, setting.wrong):
        fits = [setting.fit(r, mechanism, method="stabilized").estimate for _, r in samples(setting, replicates, 703)]
        gap = np.array(fits) - setting.truth
        z.append(gap.mean(axis=0) / (gap.std(axis=0, ddof=1) / np.sqrt(replicates)))
    assert np.abs(z[0]).max() < BOUND + 0.1 * np.sqrt(
        replicates
    )  # a bias of order 1/n, a tenth of a standard deviation here
    assert np.abs(z[1]).max() > CLEAR

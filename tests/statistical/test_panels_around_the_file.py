"""Around the file, where records of a person share a draw: coverage of what the true file gives, over draws of the noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import settings
from montecarlo import BOUND, CLEAR, COVERAGE_ALLOWANCE, perturb

import pramana as pr

Log = Callable[[str, object], None]


@pytest.mark.parametrize("replicates", [100, pytest.param(2000, marks=pytest.mark.verify)])
@pytest.mark.parametrize("what", ["y ~ x + g", "mean(y, by=g)", "proportions(g)"])
def test_around_the_file_of_a_panel(what: str, replicates: int, record_property: Log) -> None:
    setting = settings.panel(persons=400)
    true = setting.generate(np.random.default_rng(31))
    oracle = pr.fit(what, true, None)
    design = pr.SurveyDesign(target="file")
    covered, alone = [], []
    for r in range(replicates):
        released = perturb(setting.mechanism, true, r)
        result = pr.fit(what, released, setting.mechanism, design=design)
        reach = np.abs(result.estimate - oracle.estimate)
        covered.append(reach <= 1.96 * result.standard_errors)
        if r < 100:
            each = pr.fit(what, released, setting.mechanism.with_unit(None), design=design)
            alone.append(reach <= 1.96 * each.standard_errors)
    coverage, error = np.mean(covered, axis=0), np.sqrt(0.95 * 0.05 / replicates)
    columns = (oracle.parameters, [replicates] * oracle.estimate.size, coverage, np.mean(alone, axis=0))
    titles = ("parameter", "replicates", "coverage", "coverage, record by record")
    record_property("rows", [dict(zip(titles, row, strict=True)) for row in zip(*columns, strict=True)])
    assert np.all(np.abs(coverage - 0.95) < BOUND * error + COVERAGE_ALLOWANCE)
    assert np.min(np.mean(alone, axis=0)) < 0.95 - CLEAR * np.sqrt(0.95 * 0.05 / 100)

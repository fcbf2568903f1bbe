"""Pages of the studies: the paper's numbers beside ours."""

from __future__ import annotations

import numpy as np
import pytest

from pramana.studies.published import REPLICATES, TABLE_1
from pramana.studies.report import _comparisons
from pramana.studies.study import GREEK, KEEPS, SIZES
from pramana.studies.summary import StudyResult


def test_a_coverage_of_one_is_not_infinitely_far_from_the_printed_one() -> None:
    """In few replicates every interval may hold the truth: the share has no Monte Carlo error then, and the comparison still has one."""
    cell = {"bias": 0.0, "sd": 0.2, "se_iqr": 0.2, "cp_wald_iqr": 1.0, "replicates": 30}
    errors = {"bias_mcse": 0.03, "sd_mcse": 0.03, "se_iqr_mcse": 0.01, "cp_wald_iqr_mcse": 1e-7}
    rows = [
        {"method": "reversion", "p": p, "n": n, "parameter": x, **cell, **errors}
        for p in KEEPS
        for n in SIZES
        for x in GREEK
    ]
    p, n = KEEPS[0], SIZES[0]
    found = [row for row in _comparisons(StudyResult(tuple(rows))) if row[:2] == (f"{p:g}", n) and row[3] == "CP"]
    printed = TABLE_1[p][n][6]
    expected = (1 - printed) / np.sqrt(printed * (1 - printed) * (1 / 30 + 1 / REPLICATES))
    assert found[0][6] == pytest.approx(expected)

"""Resamples that have no root are found, left out and counted."""

from __future__ import annotations

import numpy as np
import pytest

import pramana as pr
from pramana.kernels.streams import multipliers

GROUP = np.repeat([0, 1], [40, 6])
ANSWER = np.where(GROUP == 1, 1, np.arange(46) % 2)
ANSWER[-1] = 0  # the one record of group 1 that says no


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_draws_that_lose_the_only_overlap_are_counted_as_rootless(link: str) -> None:
    """Group 1 has a root only while its one no and one of its yeses keep a positive weight."""
    options = pr.Resampling(weights="poisson", draws=200, seed=1)
    result = pr.fit("y ~ g", {"g": GROUP, "y": ANSWER}, None, family="binomial", link=link, inference=options)
    weights = multipliers("poisson", 1, np.arange(200), np.arange(46))
    rootless = (weights[:, -1] == 0) | (weights[:, 40:45].sum(axis=1) == 0)
    assert result.draws.rootless == rootless.sum()
    assert ("rootless", "warning") in [(d.code, d.severity) for d in result.diagnostics]
    assert np.abs(result.draws.values).max() < 6


def test_positive_weights_keep_every_root() -> None:
    options = pr.Resampling(draws=200, seed=1)
    result = pr.fit("y ~ g", {"g": GROUP, "y": ANSWER}, None, family="binomial", inference=options)
    assert result.draws.rootless == 0

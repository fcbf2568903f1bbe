"""Tables, domains, ratios and correlations from perturbed columns: centred, covered, and a wrong P is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import table_settings as tables
from montecarlo import BOUND, CLEAR, check, check_bias, replicate, samples

import pramana as pr

Log = Callable[[str, object], None]
lengths = pytest.mark.parametrize("replicates", [70, pytest.param(2000, marks=pytest.mark.verify)])
ROWS = tables.JOINT.sum(axis=1)
LOG_RISK = float(np.log(tables.risks()[1] / tables.risks()[0]))
DIFFERENCE = float(tables.risks()[1] - tables.risks()[0])
DOMAINS: dict[str, tuple[Any, Any]] = {
    "mean": (pr.mean("score", by="edu"), tables.domain_means()),
    "total": (pr.total("score", by="edu"), 2000 * ROWS * tables.domain_means()),
    "proportions": (pr.proportions("score", by="edu"), tables.conditional()),
    "counts": (pr.counts("edu", by="score"), 2000 * tables.JOINT.T),
    "crosstab": (pr.crosstab("edu", "score"), tables.JOINT),
}
RATIOS: dict[str, tuple[Any, float]] = {
    "odds ratio": (pr.odds_ratio("exposed", "ill"), tables.log_odds_ratio(False)),
    "Mantel-Haenszel odds ratio": (pr.odds_ratio("exposed", "ill", strata="region"), tables.log_odds_ratio(True)),
    "risk ratio": (pr.risk_ratio("exposed", "ill"), LOG_RISK),
    "risk difference": (pr.risk_difference("exposed", "ill"), DIFFERENCE),
    "Mantel-Haenszel risk ratio": (pr.risk_ratio("exposed", "ill", strata="region"), tables.pooled_risks()[0]),
    "Mantel-Haenszel difference": (pr.risk_difference("exposed", "ill", strata="region"), tables.pooled_risks()[1]),
}


@lengths
@pytest.mark.parametrize("name", DOMAINS)
def test_domains_and_tables(name: str, replicates: int, record_property: Log) -> None:
    check(tables.graded(*DOMAINS[name]), replicates, 201, record_property)


@lengths
@pytest.mark.parametrize("perturbed", ["edu", "score"])
def test_means_of_domains_when_one_of_the_two_columns_is_clean(
    perturbed: str, replicates: int, record_property: Log
) -> None:
    # Levels stand in the mechanism's order, and without one in the order of the alphabet: high, low, mid.
    truth = tables.domain_means()[[0, 1, 2] if perturbed == "edu" else [2, 0, 1]]
    what = pr.mean("score", by="edu")
    check(tables.graded(what, truth, perturbed=(perturbed,)), replicates, 212, record_property)


@lengths
@pytest.mark.parametrize("name", RATIOS)
def test_ratios(name: str, replicates: int, record_property: Log) -> None:
    check(tables.exposure(*RATIOS[name]), replicates, 202, record_property)


@lengths
def test_pearsons_r_of_two_perturbed_columns(replicates: int, record_property: Log) -> None:
    check(tables.two_scores(), replicates, 203, record_property)


@lengths
def test_kendalls_tau(replicates: int, record_property: Log) -> None:
    what = pr.correlation("edu", "score", "kendall")
    check(tables.graded(what, tables.correlation("kendall")), replicates, 204, record_property)


@lengths
def test_cramers_v_is_off_by_its_bias_of_order_one_over_n(replicates: int, record_property: Log) -> None:
    """V is a norm, so noise adds to it: its mean is the truth plus half the trace of its curvature times the covariance of
    the shares, a tenth of a standard error here."""
    what = pr.correlation("edu", "score", "cramer")
    centre = tables.correlation("cramer") + tables.bias_of_v(2000)
    check(tables.graded(what, centre), replicates, 205, record_property)


@lengths
def test_cramers_v_corrected(replicates: int, record_property: Log) -> None:
    what = pr.correlation("edu", "score", "cramer", corrected=True)
    check(tables.graded(what, tables.correlation("cramer"), n=1000), replicates, 210, record_property)


@pytest.mark.verify
def test_the_plain_v_is_seen_to_be_biased_where_the_corrected_one_is_not() -> None:
    """A weak association in 25 cells: the more cells, the more chance and the randomisation add."""
    setting = tables.weak_association(pr.correlation("a", "b", "cramer"))
    corrected = replace(setting, what=pr.correlation("a", "b", "cramer", corrected=True))
    plain, found = (replicate(s, 80, 211) for s in (setting, corrected))
    assert plain.z[0] > CLEAR
    check_bias(found)


@lengths
def test_maximum_likelihood_tables(replicates: int, record_property: Log) -> None:
    check(tables.likelihood_table(), replicates, 206, record_property)


@pytest.mark.verify
def test_the_standard_error_around_the_file_is_the_privacy_part() -> None:
    """Given one confidential file, counts scatter around its own counts with the covariance `result.privacy`."""
    setting = tables.graded(pr.counts("edu"), 2000 * ROWS)
    true = setting.generate(np.random.default_rng(7))
    fixed = tables.Setting(lambda _rng: true, setting.mechanism, setting.wrong, setting.what, setting.truth)
    fits = [setting.fit(released) for _, released in samples(fixed, 300, 207)]
    own = np.array([np.sum(true["edu"] == level) for level in tables.EDU])
    off = np.array([fit.estimate for fit in fits]) - own
    promised = np.mean([fit.privacy for fit in fits], axis=0).diagonal()
    assert np.all(np.abs(off.mean(axis=0)) < BOUND * np.sqrt(promised / len(off)))
    # The variance of a variance estimate over 300 draws is 2 / 300 of its square.
    assert np.all(np.abs(off.var(axis=0) / promised - 1) < BOUND * np.sqrt(2 / len(off)))
    whole = np.mean([fit.covariance for fit in fits], axis=0).diagonal()
    assert np.all(whole > 1.5 * promised)


@lengths
def test_the_likelihood_ratio_test_of_independence_keeps_its_size(replicates: int) -> None:
    setting = tables.independent_table()
    tests = [setting.fit(released).independence for _, released in samples(setting, replicates, 208)]  # type: ignore[attr-defined]
    rejected = np.mean([test.p_value < 0.05 for test in tests])
    assert abs(rejected - 0.05) < BOUND * np.sqrt(0.05 * 0.95 / replicates) + 0.01


def test_the_likelihood_ratio_test_of_independence_has_power() -> None:
    setting = tables.likelihood_table(500)
    tests = [setting.fit(released).independence for _, released in samples(setting, 40, 209)]  # type: ignore[attr-defined]
    assert np.mean([test.p_value < 0.05 for test in tests]) > 0.9

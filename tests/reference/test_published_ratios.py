"""Corrected odds and risk ratios printed by others, with their intervals where those were printed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr

pytestmark = pytest.mark.usefixtures("large_sample")  # as the published errors are

# R package episensr, misclass(): rows are cases and controls, columns the exposed and the unexposed; sensitivity and
# specificity are the same in both rows (or columns). Values and limits as in the package's own tests, to four digits.
FINK_LASH = [215, 1449, 668, 4296]
AMI = [4558, 3428, 46305, 46085]
CHU = [126, 92, 71, 224]  # Chu et al., Annals of Epidemiology 16 (2006) 834-841
DIGITS = 1e-4


def ratio(what: Any, counts: list[int], column: str, accuracy: tuple[float, float]) -> dict[str, Any]:
    table = {"case": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "count": counts}
    mechanism = pr.Mechanism({column: pr.TransitionMatrix.binary(*accuracy)})
    result = pr.fit(what, table, mechanism, frequencies="count", inference=pr.Sandwich(interval="wald"))
    assert [d.code for d in result.diagnostics] == []
    frame = result.to_frame(exponentiate=True)
    return {name: float(values[0]) for name, values in frame.items() if name != "term"}


@pytest.mark.parametrize(
    ("counts", "column", "accuracy", "odds", "risk"),
    [
        pytest.param(FINK_LASH, "exposed", (0.78, 0.99), 0.9491, 0.9614, id="exposure"),
        pytest.param(AMI, "case", (0.53, 0.99), 1.4062, 1.3440, id="outcome"),
    ],
)
def test_ratios_by_name(
    counts: list[int], column: str, accuracy: tuple[float, float], odds: float, risk: float
) -> None:
    given = ratio(pr.odds_ratio("exposed", "case"), counts, column, accuracy)
    assert given["estimate"] == pytest.approx(odds, abs=DIGITS)
    assert given["conf_low"] < odds < given["conf_high"]
    given = ratio(pr.risk_ratio("exposed", "case"), counts, column, accuracy)
    assert given["estimate"] == pytest.approx(risk, abs=DIGITS)
    assert given["conf_low"] < risk < given["conf_high"]


# Limits of episensr, after Chu et al. (2006): the delta method on the logarithm, which is what the sandwich gives here.
@pytest.mark.parametrize(
    ("counts", "accuracy", "low", "high"),
    [(FINK_LASH, (0.78, 0.99), 0.7896, 1.1408), (CHU, (0.94, 0.97), 3.2825, 7.6909)],
)
def test_intervals_of_corrected_odds_ratios(
    counts: list[int], accuracy: tuple[float, float], low: float, high: float
) -> None:
    given = ratio(pr.odds_ratio("exposed", "case"), counts, "exposed", accuracy)
    assert (given["conf_low"], given["conf_high"]) == pytest.approx((low, high), abs=DIGITS)


def test_intervals_of_ratios_with_a_misclassified_outcome() -> None:
    """The risk of an arm is (r − 1 + sp) / (se + sp − 1), r its released risk with variance r(1 − r)/n: the delta method."""
    a, c, b, d = (float(count) for count in AMI)
    released, sizes = np.array([a / (a + b), c / (c + d)]), np.array([a + b, c + d])
    risks = (released - 0.01) / 0.52
    errors = np.sqrt(released * (1 - released) / sizes) / 0.52
    for make, printed, scale in ((pr.risk_ratio, 1.3440, risks), (pr.odds_ratio, 1.4062, risks * (1 - risks))):
        reach = 1.959964 * np.sqrt(np.sum((errors / scale) ** 2))
        given = ratio(make("exposed", "case"), AMI, "case", (0.53, 0.99))
        limits = printed * np.exp([-reach, reach])
        assert (given["conf_low"], given["conf_high"]) == pytest.approx(limits, abs=2 * DIGITS)


def test_the_interval_of_a_risk_ratio_with_a_misclassified_exposure() -> None:
    """The numbers of exposed cases and of exposed others are corrected apart; the delta method on the four counts, by
    differences."""

    def corrected(counts: np.ndarray) -> float:
        cases, others = counts[:2].sum(), counts[2:].sum()
        a, b = ((top - 0.01 * total) / 0.77 for top, total in ((counts[0], cases), (counts[2], others)))
        return float(np.log(a / (a + b)) - np.log((cases - a) / (cases - a + others - b)))

    counts = np.array(FINK_LASH, dtype=float)
    gradient = np.array([corrected(counts + step) - corrected(counts - step) for step in 1e-3 * np.eye(4)]) / 2e-3
    # A ratio does not change with the size of the table, so that the multinomial variance is that of independent counts.
    reach = 1.959964 * np.sqrt(gradient**2 @ counts)
    given = ratio(pr.risk_ratio("exposed", "case"), FINK_LASH, "exposed", (0.78, 0.99))
    limits = 0.9614 * np.exp([-reach, reach])
    assert (given["conf_low"], given["conf_high"]) == pytest.approx(limits, abs=2 * DIGITS)


# episensr, misclass.cov(): folic acid and twins (Berry et al. 2005), the confounder in vitro fertilisation being
# misclassified. Mantel-Haenszel odds and risk ratios over the misclassified strata, and with the noise taken out.
TWINS = {
    "folic": [1, 1, 0, 0] * 2,
    "twins": [1, 0, 1, 0] * 2,
    "ivf": [1] * 4 + [0] * 4,
    "count": [565, 3583, 781, 21958, 754, 34471, 4860, 383588],
}


@pytest.mark.parametrize(
    ("accuracy", "odds", "risk"),
    [((1.0, 1.0), 2.2905, 2.2288), ((0.6, 0.95), 1.0002, 1.0002), ((0.78, 0.96), 1.7903, 1.7259)],
)
def test_mantel_haenszel_over_misclassified_strata(accuracy: tuple[float, float], odds: float, risk: float) -> None:
    mechanism = pr.Mechanism({"ivf": pr.TransitionMatrix.binary(*accuracy)})
    for make, printed in ((pr.odds_ratio, odds), (pr.risk_ratio, risk)):
        result = pr.fit(make("folic", "twins", strata="ivf"), TWINS, mechanism, frequencies="count")
        assert np.exp(result.estimate[0]) == pytest.approx(printed, abs=DIGITS)
        low, high = np.exp(result.interval()[0])
        assert low < printed < high


# Rogan and Gladen (1978), as computed by R package epiR: prevalences, and counts by name with the variance of their
# paper, p (1 − p) / (n (se + sp − 1)²) at the apparent prevalence p.
@pytest.mark.parametrize(
    ("ones", "n", "sensitivity", "specificity", "printed"),
    [(26, 200, 0.30, 0.96, 0.3461538), (50, 125, 0.50, 0.95, 0.7777778), (5, 125, 0.50, 0.95, -0.0222222)],
)
def test_rogan_gladen_counts_with_their_interval(
    ones: int, n: int, sensitivity: float, specificity: float, printed: float
) -> None:
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity, specificity)})
    data = {"y": [1, 0], "f": [ones, n - ones]}
    result = pr.fit(pr.counts("y"), data, mechanism, frequencies="f")
    error = np.sqrt(ones * (n - ones) / n) / (sensitivity + specificity - 1)
    assert result["count(y[1])"].estimate == pytest.approx(n * printed, abs=n * 6e-8)
    assert result["count(y[1])"].std_error == pytest.approx(error, rel=1e-10)
    likely = pr.table_em("y", data, mechanism, frequencies="f")
    assert likely.estimate[1] == pytest.approx(max(printed, 0.0), abs=1e-6)
    assert ("boundary" in [d.code for d in likely.diagnostics]) == (printed < 0)

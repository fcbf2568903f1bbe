"""Corrected odds and risk ratios printed by others, with their intervals where those were printed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr

# R package episensr, misclass(): rows are cases and controls, columns the exposed and the unexposed; sensitivity and
# specificity are the same in both rows (or columns). Values and limits as in the package's own tests, to four digits.
FINK_LASH = [215, 1449, 668, 4296]
AMI = [4558, 3428, 46305, 46085]
CHU = [126, 92, 71, 224]  # Chu et al., Annals of Epidemiology 16 (2006) 834-841
DIGITS = 1e-4


def ratio(what: Any, counts: list[int], column: str, accuracy: tuple[float, float]) -> dict[str, Any]:
    table = {"case": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "count": counts}
    mechanism = pr.Mechanism({column: pr.TransitionMatrix.binary(*accuracy)})
    result = pr.fit(what, table, mechanism, frequencies="count")
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

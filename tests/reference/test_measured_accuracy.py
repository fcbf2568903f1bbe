"""Published analyses of misclassified data, with the transition matrix measured or known."""

from __future__ import annotations

import numpy as np
import pytest

import pramana as pr


# Cole et al. (2023) and Ross et al. (2024): 950 records, 680 of them test positive; of 242 true positives 204 test positive, of 89
# true negatives 71 test negative.
def test_prevalence_with_a_measured_sensitivity_and_specificity() -> None:
    channel = pr.TransitionMatrix.from_validation(sensitivity=(204, 242), specificity=(71, 89))
    data = {"y": [1] * 680 + [0] * 270}
    result = pr.fit(pr.mean("y"), data, pr.Mechanism({"y": channel}), inference=pr.Sandwich(interval="wald"))
    assert result.estimate[0] == pytest.approx(0.801498, abs=5e-7)
    assert result.standard_errors[0] == pytest.approx(0.039389, abs=5e-7)
    np.testing.assert_allclose(result.interval()[0], [0.7243, 0.8787], atol=5e-5)
    known = pr.fit(pr.mean("y"), data, pr.Mechanism({"y": channel.measured(None)}))
    assert known.standard_errors[0] == pytest.approx(0.022839, abs=5e-7)


# Chu et al. (2006): 126 exposed and 92 unexposed cases, 71 and 224 controls, exposure with sensitivity 0.94 and specificity 0.97.
def test_odds_ratio_with_a_misclassified_exposure() -> None:
    data = {"exposed": [1, 0, 1, 0], "case": [1, 1, 0, 0], "n": [126, 92, 71, 224]}
    channel = pr.TransitionMatrix.binary(sensitivity=0.94, specificity=0.97)
    what = pr.odds_ratio("exposed", "case")
    fit = pr.fit(what, data, pr.Mechanism({"exposed": channel}), frequencies="n", inference=pr.Sandwich("HC0", "wald"))
    found = fit.to_dicts(exponentiate=True)[0]
    assert found["estimate"] == pytest.approx(5.0245, abs=5e-5)
    np.testing.assert_allclose([found["conf_low"], found["conf_high"]], [3.2825, 7.6909], atol=5e-5)


# R package episensr, probabilistic bias analysis of 45, 94, 257, 945 with sensitivity ~ Beta(908, 16) and specificity ~ Beta(153, 6):
# the odds ratio is 1.8878, and with the accuracy alone uncertain lies in (1.8086, 2.0740); by the delta method 1.895 (1.777, 2.022).
def test_odds_ratio_with_the_accuracy_alone_uncertain() -> None:
    data = {"exposed": [1, 0, 1, 0], "case": [1, 1, 0, 0], "n": [45, 94, 257, 945]}
    channel = pr.TransitionMatrix.from_validation([[153, 16], [6, 908]], prior=0)
    result = pr.fit(pr.odds_ratio("exposed", "case"), data, pr.Mechanism({"exposed": channel}), frequencies="n")
    reach = 1.959964 * np.sqrt(result.measurement[0, 0])
    ends = np.exp(result.estimate[0] + np.array([-reach, 0, reach]))
    np.testing.assert_allclose(ends, [1.777, 1.895, 2.022], atol=2e-3)

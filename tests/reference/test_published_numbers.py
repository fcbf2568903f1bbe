"""Numbers printed by others, from the data that they printed."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import pramana as pr

pytestmark = pytest.mark.usefixtures("large_sample")  # as the published errors are


def share(ones: int, n: int, channel: pr.TransitionMatrix) -> pr.Result:
    wald = pr.Sandwich(interval="wald")
    return pr.fit(
        pr.mean("y"), {"y": [1, 0]}, pr.Mechanism({"y": channel}), frequencies=[ones, n - ones], inference=wald
    )


# R package RRTCS, vignette, unrelated-question model (Horvitz) on n = 710 students: the innocuous question has the
# known prevalence a, the sensitive one is asked with probability 1/2. Printed with seven digits.
@pytest.mark.parametrize(
    ("yes", "a", "printed"),
    [
        (328, 1 / 12, 0.8406103),
        (180, 1 / 10, 0.4070423),
        (280, 2 / 3, 0.1220657),
        (81, 1 / 10, 0.128169),
        (164, 1 / 3, 0.1286385),
        (53, 1 / 12, 0.06596244),
    ],
)
def test_unrelated_question_of_rrtcs(yes: int, a: float, printed: float) -> None:
    channel = pr.TransitionMatrix.binary(sensitivity=0.5 + 0.5 * a, specificity=1 - 0.5 * a)
    result = share(yes, 710, channel)
    assert result.estimate[0] == pytest.approx(printed, abs=6e-8)
    check_interval(result, printed, yes, 710, 0.5)


def check_interval(result: pr.Result, printed: float, ones: int, n: int, determinant: float) -> None:
    """Greenberg et al. (1969), Rogan and Gladen (1978): the variance λ(1 − λ)/n of the answers over the squared determinant."""
    reach = 1.959964 * np.sqrt(ones * (n - ones) / n**3) / determinant
    np.testing.assert_allclose(result.interval()[0], [printed - reach, printed + reach], atol=1e-6)


# Rogan and Gladen (1978) as computed by R package epiR, epi.prev(method = "rogan-gladen").
ROGAN_GLADEN = [
    (26, 200, 0.30, 0.96, 0.3461538),
    (50, 125, 0.50, 0.95, 0.7777778),
    (5, 125, 0.50, 0.95, -0.0222222),
]


@pytest.mark.parametrize(("ones", "n", "sensitivity", "specificity", "printed"), ROGAN_GLADEN)
def test_rogan_gladen_prevalence(ones: int, n: int, sensitivity: float, specificity: float, printed: float) -> None:
    result = share(ones, n, pr.TransitionMatrix.binary(sensitivity, specificity))
    assert result.estimate[0] == pytest.approx(printed, abs=6e-8)
    check_interval(result, printed, ones, n, sensitivity + specificity - 1)


def prevalence(ones: int, n: int, sensitivity: float, specificity: float, interval: str) -> pr.Result:
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity, specificity)})
    data = {"y": [1] * ones + [0] * (n - ones)}
    return pr.fit(pr.mean("y"), data, mechanism, inference=pr.Sandwich(interval=interval))  # type: ignore[arg-type]


def test_wilson_interval_of_a_prevalence() -> None:
    """R package epiR, manual of epi.prev, whose default is method = "wilson": true prevalence 0.346 (0.193 to 0.553)."""
    found = prevalence(26, 200, 0.30, 0.96, "score")
    np.testing.assert_allclose(found.interval()[0], [0.193, 0.553], atol=5e-4)


# R package RSurveillance, example of tp(20, 120, 0.9, 0.99, "all"). Its Blaker limits are found by steps of 1e-4 in the apparent
# prevalence, and are never inside of ours.
RSURVEILLANCE = [("wilson", "score", 0.1129887, 0.2623065, 1e-7), ("blaker", "exact", 0.1069421, 0.2629214, 1.2e-4)]


@pytest.mark.parametrize(("_theirs", "ours", "low", "high", "within"), RSURVEILLANCE)
def test_intervals_of_a_true_prevalence(_theirs: str, ours: str, low: float, high: float, within: float) -> None:
    found = prevalence(20, 120, 0.9, 0.99, ours)
    assert found.estimate[0] == pytest.approx(0.17603, abs=1e-5)
    np.testing.assert_allclose(found.interval()[0], [low, high], atol=within)


@pytest.mark.parametrize(("ones", "n", "sensitivity", "specificity", "printed"), ROGAN_GLADEN)
def test_a_prevalence_outside_its_range_is_reported_and_only_then(
    ones: int, n: int, sensitivity: float, specificity: float, printed: float
) -> None:
    result = share(ones, n, pr.TransitionMatrix.binary(sensitivity, specificity))
    assert ("outside-range" in [d.code for d in result.diagnostics]) == (not 0 <= printed <= 1)


# R package episensr, misclass(type = "exposure"): smoking and breast cancer (Fink and Lash 2003), sensitivity 0.78 and
# specificity 0.99 of smoking in cases and in controls alike.
EXPOSURE = {"case": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "count": [215, 1449, 668, 4296]}
# episensr, misclass(type = "outcome"): adjusted for sensitivity 0.53 and specificity 0.99 of the outcome.
OUTCOME = {"case": [1, 1, 0, 0], "exposed": [1, 0, 1, 0], "count": [4558, 3428, 46305, 46085]}
CELLS = list(product([0, 1], [0, 1]))
TABLES = [
    pytest.param(EXPOSURE, "exposed", (0.78, 0.99), 0.9491, 0.9614, id="exposure"),
    pytest.param(OUTCOME, "case", (0.53, 0.99), 1.4062, 1.3440, id="outcome"),
]


def cell_shares(beta: Any, case: Any, exposed: Any) -> Any:
    return np.column_stack([(case == c) & (exposed == e) for c, e in CELLS]) - beta


def ratios(shares: np.ndarray) -> tuple[float, float]:
    """Odds and risk ratio of the four cells (case, exposed) = 00, 01, 10, 11."""
    d, c, b, a = shares
    return a * d / (b * c), a / (a + c) / (b / (b + d))


@pytest.mark.parametrize(("table", "column", "accuracy", "odds_ratio", "risk_ratio"), TABLES)
def test_ratios_of_cells_with_one_misclassified_column(
    table: Any, column: str, accuracy: tuple[float, float], odds_ratio: float, risk_ratio: float
) -> None:
    mechanism = pr.Mechanism({column: pr.TransitionMatrix.binary(*accuracy)})
    what = pr.from_callable(cell_shares, ["00", "01", "10", "11"])
    odds, risk = ratios(pr.fit(what, table, mechanism, frequencies="count").estimate)
    assert odds == pytest.approx(odds_ratio, abs=5e-5)
    assert risk == pytest.approx(risk_ratio, abs=5e-5)


@pytest.mark.parametrize(("table", "column", "accuracy", "odds_ratio", "risk_ratio"), TABLES)
def test_ratios_of_cells_with_a_joint_matrix(
    table: Any, column: str, accuracy: tuple[float, float], odds_ratio: float, risk_ratio: float
) -> None:
    flawed, kept = pr.TransitionMatrix.binary(*accuracy).matrix, np.eye(2)
    matrix = np.kron(flawed, kept) if column == "case" else np.kron(kept, flawed)
    mechanism = pr.Mechanism({("case", "exposed"): pr.TransitionMatrix.from_columns(CELLS, matrix)})
    what = pr.from_callable(cell_shares, ["00", "01", "10", "11"])
    odds, risk = ratios(pr.fit(what, table, mechanism, frequencies="count").estimate)
    assert odds == pytest.approx(odds_ratio, abs=5e-5)
    assert risk == pytest.approx(risk_ratio, abs=5e-5)


@pytest.mark.parametrize(("table", "column", "accuracy", "odds_ratio", "risk_ratio"), TABLES)
@pytest.mark.parametrize("link", ["logit", "log"])
def test_ratios_as_coefficients_of_a_saturated_regression(
    table: Any, column: str, accuracy: tuple[float, float], odds_ratio: float, risk_ratio: float, link: str
) -> None:
    mechanism = pr.Mechanism({column: pr.TransitionMatrix.binary(*accuracy)})
    result = pr.fit("case ~ exposed", table, mechanism, family="binomial", link=link, frequencies="count")
    printed = odds_ratio if link == "logit" else risk_ratio
    assert np.exp(result["exposed"].estimate) == pytest.approx(printed, abs=5e-5)

"""The share of a variance that the randomisation costs, against formulas that can be written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

pytestmark = pytest.mark.usefixtures("large_sample")

SENSITIVITY, SPECIFICITY = 0.9, 0.7
BINARY = pr.Mechanism({"y": pr.TransitionMatrix.binary(SENSITIVITY, SPECIFICITY)})


def price(result: pr.Result) -> list[dict[str, Any]]:
    return result.to_dict()["price_of_privacy"]


@pytest.mark.parametrize("formula", ["income ~ age + edu", "income ~ age * edu"])
def test_the_identity_matrix_costs_nothing(formula: str, survey: pd.DataFrame) -> None:
    kept = pr.Mechanism({"edu": pr.TransitionMatrix(["low", "mid", "high"], np.eye(3))})
    for row in price(pr.fit(formula, survey, kept)):
        assert row["privacy_share"] == pytest.approx(0, abs=1e-12)
        assert row["equivalent_records"] == pytest.approx(len(survey), rel=1e-12)


def test_clean_data_cost_nothing(survey: pd.DataFrame) -> None:
    rows = price(pr.fit("employed ~ age", survey, None, family="binomial"))
    assert max(abs(row["privacy_share"]) for row in rows) < 1e-12


@pytest.mark.parametrize("ones", [200, 350, 600])
def test_a_binary_mean_has_the_textbook_share(ones: int) -> None:
    """Warner: var = λ(1 − λ)/(n d²) with d = se + sp − 1; p(1 − p)/n of it is the sampling's."""
    n = 1000
    result = pr.fit(pr.mean("y"), {"y": np.repeat([1, 0], [ones, n - ones])}, BINARY)
    share, gap = ones / n, SENSITIVITY + SPECIFICITY - 1
    p = (share - (1 - SPECIFICITY)) / gap
    total = share * (1 - share) / (n * gap**2)
    row = price(result)[0]
    assert result.estimate[0] == pytest.approx(p, rel=1e-12)
    assert row["variance"] == pytest.approx(total, rel=1e-10)
    assert row["privacy_share"] == pytest.approx(1 - p * (1 - p) / n / total, rel=1e-10)
    assert row["equivalent_records"] == pytest.approx(p * (1 - p) / total, rel=1e-10)


def test_a_binary_proportion_has_the_share_of_its_mean() -> None:
    data = {"y": np.repeat([1, 0], [400, 600])}
    mean, shares = pr.fit(pr.mean("y"), data, BINARY), pr.fit(pr.proportions("y"), data, BINARY)
    assert price(shares)[1]["privacy_share"] == pytest.approx(price(mean)[0]["privacy_share"], rel=1e-10)


def test_the_privacy_part_does_not_depend_on_the_clusters(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    """Draws are independent between records, whatever the sampling design (DESIGN §4.10)."""
    plain = pr.fit("income ~ age + edu", survey, mechanism)
    grouped = pr.fit("income ~ age + edu", survey, mechanism, clusters="region")
    np.testing.assert_allclose(grouped.privacy, plain.privacy, rtol=1e-10, atol=1e-14)
    assert not np.allclose(grouped.covariance, plain.covariance, rtol=0.01)


def test_a_perturbed_covariate_of_a_linear_model_has_the_share_of_its_definition(
    survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    """J⁻¹ Σ (φφᵀ − (uuᵀ)*) J⁻ᵀ written out over the nodes."""
    result = pr.fit("income ~ age + edu", survey, mechanism)
    channel = mechanism.assignments[0].channel
    y, age = survey["income"].to_numpy(), survey["age"].to_numpy()
    one = np.ones(len(survey))
    designs = [np.column_stack([one, age, (k == 1) * one, (k == 2) * one]) for k in range(3)]
    q = channel.inverse.T[[channel.levels.index(v) for v in survey["edu"]]]
    u = [x * (y - x @ result.estimate)[:, None] for x in designs]
    phi = sum(w[:, None] * part for w, part in zip(q.T, u, strict=True))
    clean = sum((w[:, None] * part).T @ part for w, part in zip(q.T, u, strict=True))
    bread = np.linalg.inv(sum((w[:, None] * x).T @ x for w, x in zip(q.T, designs, strict=True)))
    np.testing.assert_allclose(result.covariance, bread @ phi.T @ phi @ bread.T, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(result.privacy, bread @ (phi.T @ phi - clean) @ bread.T, rtol=1e-9, atol=1e-13)


def test_the_naive_estimator_has_no_price(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    naive = pr.fit("income ~ edu", survey, mechanism, method="naive")
    with pytest.raises(pr.PramanaError, match="reversion"):
        naive.price_of_privacy()

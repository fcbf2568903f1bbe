"""Step functions: medians and quantiles without a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

DRAWS = pr.Resampling(draws=60, seed=1)


def quantile(share: float, start: float = 0.0) -> Any:
    return pr.from_callable(
        lambda beta, y: (share - (y <= beta[0]))[:, None].astype(float), ["quantile"], smooth=False, start=[start]
    )


@pytest.mark.parametrize("n", [101, 200])
@pytest.mark.parametrize("start", [0.0, 3.0])
def test_the_median_of_clean_data_lies_within_a_jump_of_numpys(n: int, start: float, rng: np.random.Generator) -> None:
    y = np.sort(rng.normal(loc=2.0, size=n))
    estimate = pr.fit(quantile(0.5, start), {"y": y}, None, inference=DRAWS).estimate[0]
    middle = np.searchsorted(y, np.median(y))
    assert y[middle - 2] <= estimate <= y[middle + 1]


@pytest.mark.parametrize("share", [0.1, 0.25, 0.9])
def test_a_quantile_leaves_its_share_below(share: float, rng: np.random.Generator) -> None:
    y = rng.exponential(size=400)
    estimate = pr.fit(quantile(share, 1.0), {"y": y}, None, inference=DRAWS).estimate[0]
    assert np.mean(y <= estimate) == pytest.approx(share, abs=1.01 / 400)


def test_a_step_function_takes_resampling_by_default(rng: np.random.Generator) -> None:
    result = pr.fit(quantile(0.5), {"y": rng.normal(size=100)}, None)
    assert result.draws is not None
    assert result.interval_kind == "percentile"


def test_a_step_function_has_no_sandwich(rng: np.random.Generator) -> None:
    with pytest.raises(pr.PramanaError, match="Resampling"):
        pr.fit(quantile(0.5), {"y": rng.normal(size=100)}, None, inference=pr.Sandwich())


def test_the_standard_error_of_a_median_is_the_textbook_one(rng: np.random.Generator) -> None:
    """√(π/2n) for normal data; 300 draws give the spread to about 6 %, and the density at the median varies by as much."""
    n = 1000
    options = pr.Resampling(draws=300, seed=1, scale="sd")
    result = pr.fit(quantile(0.5), {"y": rng.normal(size=n)}, None, inference=options)
    assert result.standard_errors[0] == pytest.approx(np.sqrt(np.pi / (2 * n)), rel=0.3)


def test_medians_by_group_are_solved_together(rng: np.random.Generator) -> None:
    def u(beta: Any, y: Any, g: Any) -> Any:
        return np.column_stack([(g == k) * (0.5 - (y <= beta[k])) for k in (0, 1)])

    g = np.repeat([0, 1], 150)
    y = rng.normal(size=300) + 3 * g
    what = pr.from_callable(u, ["first", "second"], smooth=False, start=[0.5, 2.0])
    estimate = pr.fit(what, {"y": y, "g": g}, None, inference=DRAWS).estimate
    for k in (0, 1):
        # One record either way is one jump of the score; the search may stop a record or two beside the middle.
        assert np.mean(y[g == k] <= estimate[k]) == pytest.approx(0.5, abs=3 / 150)


def test_a_median_by_perturbed_group_reverts_the_group(rng: np.random.Generator) -> None:
    """Σ q (1/2 − 1{y ≤ b}) crosses zero at the estimate, with q the reverted membership of group 1."""
    g, keep = rng.integers(0, 2, 800), 0.85
    frame = pd.DataFrame({"g": np.where(rng.random(800) < keep, g, 1 - g), "y": rng.normal(size=800) + 2 * g})
    what = pr.from_callable(
        lambda beta, y, g: (g * (0.5 - (y <= beta[0])))[:, None], ["median"], smooth=False, start=[1.0]
    )
    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.binary(keep, keep)})
    estimate = pr.fit(what, frame, mechanism, inference=DRAWS).estimate[0]
    q = (frame["g"] - (1 - keep)) / (2 * keep - 1)
    score = [float(np.sum(q * (0.5 - (frame["y"] <= b)))) for b in (estimate - 1e-6, estimate + 1e-6)]
    jump = q.abs().max()
    assert min(score) <= jump
    assert max(score) >= -jump
    assert estimate == pytest.approx(2.0, abs=0.4)

"""Step functions: medians and quantiles without a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset

import pramana as pr
from pramana.engines.streaming import StreamEngine

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


def _agrees(result: pr.Result) -> None:
    """0 is outside of the interval at a level where p is below 1 less the level, at every level that the result knows."""
    for level in (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999):
        low, high = result.interval(level).T
        outside = ~((low <= 0) & (high >= 0))
        p = np.array([row["p_value"] for row in result.to_dicts()])
        np.testing.assert_array_equal(outside, p < 1 - level)


@pytest.mark.parametrize("shift", [-0.6, -0.2, -0.1, 0.0, 0.05, 0.15, 0.25, 0.4, 3.0])
@pytest.mark.parametrize("q", [0.2, 0.5])
def test_p_values_of_quantiles_are_those_of_their_intervals(shift: float, q: float) -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(shift + 0.84 * (q == 0.2), 1, 300)
    data = {"x": x, "g": rng.choice(["a", "b"], 300), "c": np.arange(300) // 6}
    _agrees(pr.fit(pr.quantile("x", q, by="g"), data, None))
    _agrees(pr.fit(pr.quantile("x", q), data, None, clusters="c"))


def test_the_p_value_of_a_median_is_that_of_the_signs() -> None:
    """Twelve values above 0 of sixteen: (12/16 − 1/2) over the standard error of the share below the median."""
    x = np.r_[np.linspace(-4.0, -1.0, 4), np.linspace(1.0, 9.0, 12)]
    result = pr.fit(pr.median("x", bandwidth=1e-3), {"x": x}, None)
    assert result["median(x)"].statistic == pytest.approx(0.25 / np.sqrt(0.25 / 16), rel=0.05)


def test_p_values_where_the_reverted_distribution_falls_back() -> None:
    """Levels released with much noise: F̂ is no increasing function, and its rearrangement decides both."""
    levels = [-3, -2, -1, 0, 1, 2, 3]
    mechanism = pr.Mechanism({"x": pr.TransitionMatrix.randomized_response(levels, 0.3, kind="numeric")})
    fell = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        true = {"x": rng.choice(levels, 200, p=[0.05, 0.1, 0.15, 0.1, 0.3, 0.2, 0.1])}
        with pytest.warns(UserWarning, match="not secure"):
            data = mechanism.perturb(true, seed=seed)
        counts = np.bincount(np.searchsorted(levels, data["x"]), minlength=7)
        fell += bool(np.any(mechanism.assignments[0].matrices[None].inverse @ counts < 0))
        _agrees(pr.fit(pr.median("x"), data, mechanism))
    assert fell > 2


def test_draws_are_solved_together(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Records that are read in blocks are read no more often for 60 draws than for 20, and the draws are those of the frame."""
    frame = pd.DataFrame({"y": rng.normal(size=301)})
    source, passes, true = dataset.dataset(pa.Table.from_pandas(frame)), [0], StreamEngine._added

    def counted(engine: Any, *given: Any) -> Any:
        passes[0] += 1
        return true(engine, *given)

    monkeypatch.setattr(StreamEngine, "_added", counted)
    asked = []
    for draws in (20, 60):
        options: dict[str, Any] = {"inference": pr.Resampling(draws=draws, seed=1)}
        found = pr.fit(quantile(0.5), source, None, memory=1, **options)
        asked.append(passes[0])
        passes[0] = 0
        whole = pr.fit(quantile(0.5), frame, None, **options)
        np.testing.assert_allclose(found.standard_errors, whole.standard_errors, rtol=1e-9)
    assert asked[1] < 1.5 * asked[0]

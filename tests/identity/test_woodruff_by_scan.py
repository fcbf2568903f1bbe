"""Woodruff's limits against a scan: F̂ on a fine grid, sorted, and read off where it reaches p ± t·se, se being that of the share below."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, t

import pramana as pr

KEEP, N = 0.8, 240
MECHANISM = pr.Mechanism({"z": pr.TransitionMatrix.binary(KEEP, KEEP)})
NARROW = 1e-6
"""A bandwidth so small that the smoothed share below a value is the plain one."""


@pytest.fixture
def people() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    true = (rng.random(N) < 0.4).astype(int)
    house = np.repeat(np.arange(12), N // 12)
    y = rng.normal(size=N) + true + rng.normal(size=12)[house]
    z = np.where(rng.random(N) < KEEP, true, 1 - true)
    region, fraction = house // 4, np.array([0.3, 0.5, 0.2])[house // 4]
    weight, count = rng.uniform(0.5, 3.0, N), rng.integers(0, 4, N)
    return {"y": y, "z": z, "house": house, "region": region, "f": fraction, "w": weight, "c": count}


def membership(z: Any, level: int) -> Any:
    """Reverted indicator of a level."""
    return ((z == level) - (1 - KEEP)) / (2 * KEEP - 1)


def scanned(y: Any, mass: Any, share: float, h: float) -> float:
    """The quantile of the increasing rearrangement, from F̂ on a grid."""
    grid = np.linspace(y.min() - h, y.max() + h, 20_001)
    steps = np.clip(((grid[:, None] - y) / h + 1) / 2, 0, 1)
    f = np.sort(steps @ mass / mass.sum())
    return float(grid[min(np.searchsorted(f, share), len(grid) - 1)]) if 0 < share < 1 else np.copysign(np.inf, share)


@pytest.mark.parametrize("q", [0.3, 0.5])
@pytest.mark.parametrize("kind", ["plain", "weights", "counts", "clusters", "weighted clusters"])
def test_limits_are_those_of_a_scan_with_sums_by_hand(people: dict[str, Any], kind: str, q: float) -> None:
    w = np.ones(N)
    w = people["w"] if "weight" in kind else people["c"].astype(float) if kind == "counts" else w
    options: dict[str, Any] = {"weights": "w"} if "weight" in kind else {"frequencies": "c"} if kind == "counts" else {}
    options |= {"clusters": "house"} if "clusters" in kind else {}
    h = 0.25
    result = pr.fit(pr.quantile("y", q, by="z", bandwidth=h), people, MECHANISM, **options)
    for g in (0, 1):
        mass, estimate = w * membership(people["z"], g), result.estimate[g]
        phi = mass * (q - np.clip(((estimate - people["y"]) / h + 1) / 2, 0, 1))
        reach = norm.ppf(0.975)
        variance = np.sum(phi**2 / np.where(kind == "counts", np.maximum(w, 1), 1.0))
        if "clusters" in kind:
            sums = [phi[people["house"] == k].sum() for k in range(12)]
            variance, reach = 12 / 11 * np.sum(np.square(sums)), t.ppf(0.975, 11)
        move = reach * np.sqrt(variance) / mass.sum()
        expected = [scanned(people["y"], mass, share, h) for share in (q - move, q + move)]
        np.testing.assert_allclose(result.interval()[g], expected, atol=1e-3)
        if np.isfinite(expected).all():
            assert result.standard_errors[g] == pytest.approx((expected[1] - expected[0]) / 2 / reach, abs=1e-3)


def test_with_the_default_kernel_the_error_is_that_of_the_plain_share_below(people: dict[str, Any]) -> None:
    result = pr.fit(pr.median("y"), people, None)
    h, move = float(result.facts["Bandwidth"].split(",")[0]), norm.ppf(0.975) * 0.5 / np.sqrt(N)
    expected = [scanned(people["y"], np.ones(N), share, h) for share in (0.5 - move, 0.5 + move)]
    np.testing.assert_allclose(result.interval()[0], expected, atol=1e-3)


DESIGNS = {
    "superpopulation": pr.SurveyDesign(weights="w", strata="region", clusters="house"),
    "finite": pr.SurveyDesign(weights="w", strata="region", clusters="house", fpc="f", target="finite"),
    "file": pr.SurveyDesign(weights="w", strata="region", clusters="house", target="file"),
}


@pytest.mark.parametrize("target", DESIGNS)
@pytest.mark.parametrize("by", [None, "z"])
def test_under_a_design_the_band_is_the_interval_of_the_share_below(
    people: dict[str, Any], target: str, by: str | None
) -> None:
    """Whatever a mean within domains has for a standard error around this target, the distribution function has at the quantile."""
    design, q = DESIGNS[target], 0.4
    result = pr.fit(pr.quantile("y", q, by=by, bandwidth=NARROW), people, MECHANISM, design=design)
    reach = norm.ppf(0.975) if result.df is None else t.ppf(0.975, result.df)
    for g, estimate in enumerate(result.estimate):
        mass = people["w"] * (1.0 if by is None else membership(people["z"], g))
        below = {**people, "below": np.clip(((estimate - people["y"]) / NARROW + 1) / 2, 0, 1)}
        share = pr.fit(pr.mean("below", by=by), below, MECHANISM, design=design)
        move = reach * share.standard_errors[g]
        expected = [_order_statistic(people["y"], mass, p) for p in (q - move, q + move)]
        # The share at a rearranged quantile is not quite q, which may move a limit by a record.
        np.testing.assert_allclose(result.interval()[g], expected, atol=0.03)


def _order_statistic(y: Any, mass: Any, share: float) -> float:
    """From F̂ at the values themselves: the length along the axis on which it is below the share."""
    order = np.argsort(y)
    f = np.cumsum(mass[order]) / mass.sum()
    return float(y[order][0] + np.sum(np.diff(y[order])[f[:-1] < share]))


def test_around_the_file_a_clean_median_is_known(people: dict[str, Any]) -> None:
    result = pr.fit(pr.median("y"), people, MECHANISM, design=DESIGNS["file"])
    assert result.standard_errors[0] == 0
    np.testing.assert_allclose(result.interval()[0], result.estimate[0])
    assert "no-randomisation" in result.flags


def test_correlations_are_those_of_the_shares_below(people: dict[str, Any]) -> None:
    result = pr.fit(pr.median("y", by="z", bandwidth=NARROW), people, MECHANISM)
    phi = np.stack([membership(people["z"], g) * (0.5 - (people["y"] <= result.estimate[g])) for g in (0, 1)])
    expected = np.corrcoef(phi)[0, 1]
    errors = result.standard_errors
    assert result.covariance[0, 1] == pytest.approx(expected * errors[0] * errors[1], abs=0.05 * errors.prod())


def test_the_limits_of_levels_are_levels_and_end_with_them() -> None:
    rng = np.random.default_rng(1)
    levels = [1.0, 2.0, 5.0]
    mechanism = pr.Mechanism({"k": pr.TransitionMatrix.randomized_response(levels, keep=0.7)})
    data = {"k": rng.choice(levels, 60)}
    result = pr.fit(pr.quantile("k", 0.9), data, mechanism)
    assert set(result.interval(0.999)[0]) <= set(levels)
    assert result.interval(0.999)[0, 1] == 5.0


def test_a_result_answers_the_usual_levels_and_says_how_to_get_others(people: dict[str, Any]) -> None:
    result = pr.fit(pr.median("y"), people, None)
    widths = [np.ptp(result.interval(level)) for level in (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)]
    assert np.all(np.diff(widths) > 0)
    with pytest.raises(pr.PramanaError, match=r"0\.93: fit again with inference=Woodruff\(level=0\.93\)"):
        result.interval(0.93)
    asked = pr.fit(pr.median("y"), people, None, inference=pr.Woodruff(level=0.93))
    assert widths[2] < np.ptp(asked.interval()) < widths[3]
    np.testing.assert_array_equal(asked.interval(0.9), result.interval(0.9))


def test_the_median_takes_woodruff_by_default_and_the_same_answer_comes_every_time(people: dict[str, Any]) -> None:
    first, second = (pr.fit(pr.median("y", by="z"), people, MECHANISM) for _ in range(2))
    assert first.draws is None
    assert first.interval_kind == "woodruff"
    np.testing.assert_array_equal(first.interval(), second.interval())
    assert pr.fit(pr.median("y"), people, None, clusters="house").df == 11


def test_an_interval_that_the_data_do_not_close_is_open(people: dict[str, Any]) -> None:
    result = pr.fit(pr.quantile("y", 0.99), people, None)
    assert result.interval()[0, 1] == np.inf
    assert np.isfinite(result.interval()[0, 0])
    # The error is that of a narrower interval which is closed: half of this one.
    narrow = pr.fit(
        pr.quantile("y", 0.99), people, None, inference=pr.Woodruff(level=2 * norm.cdf(norm.ppf(0.975) / 2) - 1)
    )
    assert result.standard_errors[0] == pytest.approx(np.ptp(narrow.interval()) / norm.ppf(0.975))
    assert result.flags == "open-interval"
    resampled = pr.fit(pr.quantile("y", 0.99), people, None, inference=pr.Resampling(30, seed=1))
    assert resampled.flags == "extreme-quantile"


def test_a_domain_of_which_next_to_nothing_is_known_has_no_limits_but_a_finite_error(people: dict[str, Any]) -> None:
    noise = pr.Mechanism({"z": pr.TransitionMatrix.binary(0.52, 0.52)})
    result = pr.fit(pr.median("y", by="z"), {**people, "z": np.arange(N) % 2}, noise)
    assert not np.isfinite(result.interval()).any()
    assert np.isfinite(result.covariance).all()
    assert "open-interval" in result.flags


def test_what_has_no_inverse_is_refused(people: dict[str, Any]) -> None:
    for what in ("y ~ z", pr.mean("y"), pr.poverty_rate("w")):
        with pytest.raises(pr.PramanaError, match=r"quantiles of a column.*Resampling"):
            pr.fit(what, people, MECHANISM, inference="woodruff")
    lone = {**people, "w": np.where(people["house"] == 3, 1.0, 0.0)}
    with pytest.raises(pr.DataError, match="single cluster"):
        pr.fit(pr.median("y"), lone, None, clusters="house", weights="w")

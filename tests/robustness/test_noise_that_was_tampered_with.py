"""Numbers that were clipped or filtered after their noise was added, signals that noise drowns, and records that all say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr

BOUNDS = (18, 65)
GEOMETRIC = pr.GeometricNoise(6, bounds=BOUNDS)
NOISES: dict[str, Any] = {
    "laplace": pr.LaplaceNoise(5, bounds=BOUNDS),
    "geometric": GEOMETRIC,
    "gaussian": pr.GaussianNoise(5, bounds=BOUNDS),
    "discrete gaussian": pr.DiscreteGaussianNoise(5, bounds=BOUNDS),
    "keep": pr.KeepOrNoise(0.4, GEOMETRIC),
    "uniform": pr.UniformNoise(20, bounds=BOUNDS),
}
STRATA = pr.Stratified("s", {"a": pr.GaussianNoise(5, bounds=BOUNDS), "b": pr.GaussianNoise(4, bounds=BOUNDS)})


def released(channel: Any, n: int = 5000, seed: int = 3) -> tuple[dict[str, Any], pr.Mechanism]:
    rng = np.random.default_rng(1)
    x = rng.integers(18, 66, n)
    true = {"x": x, "y": 0.1 * x + rng.normal(size=n), "s": rng.choice(["a", "b"], n)}
    mechanism = pr.Mechanism({"x": channel})
    return mechanism.perturb(true, seed=seed), mechanism


def told(data: dict[str, Any], mechanism: pr.Mechanism) -> bool:
    """Refused, or warned of."""
    try:
        return "filtered-on-perturbed" in pr.fit("y ~ x", data, mechanism).flags
    except pr.DataError as error:
        return "clipped, or records left out" in str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("channel", [*NOISES.values(), STRATA], ids=[*NOISES, "strata"])
def test_clipped_numbers_are_told(channel: Any) -> None:
    data, mechanism = released(channel)
    assert not told(data, mechanism)
    assert told({**data, "x": np.clip(data["x"], *BOUNDS)}, mechanism)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["laplace", "geometric", "keep"])
def test_records_left_out_beyond_the_bounds_are_told(name: str) -> None:
    data, mechanism = released(NOISES[name])
    inside = (data["x"] > BOUNDS[0]) & (data["x"] < BOUNDS[1])
    assert told({k: v[inside] for k, v in data.items()}, mechanism)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("truth", [18, 40, 65])
@pytest.mark.parametrize("channel", NOISES.values(), ids=NOISES)
def test_healthy_files_are_not(channel: Any, truth: int) -> None:
    """One true value, at a bound or far from it: the sharpest file that there is."""
    mechanism = pr.Mechanism({"x": channel})
    for seed in range(5):
        data = mechanism.perturb({"x": np.full(400, truth)}, seed=seed)
        assert pr.fit("mean(x)", data, mechanism).flags == ""


@pytest.mark.filterwarnings("ignore")
def test_a_signal_that_noise_drowns_is_reported_and_its_test_agrees_with_its_interval() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 5, 1000).astype(float)
    true, mechanism = {"x": x, "y": 0.5 * x + rng.normal(size=1000)}, pr.Mechanism({"x": pr.LaplaceNoise(3)})
    for seed in range(6):
        result = pr.fit("y ~ x", mechanism.perturb(true, seed=seed), mechanism)
        assert set(result.flags.split(", ")) & {"weakly-identified", "not-identified"}
        for row in result.to_dicts():
            assert (row["p_value"] < 0.05) == (not row["conf_low"] <= 0 <= row["conf_high"])


@pytest.mark.filterwarnings("ignore")
def test_a_large_signed_share_is_no_record_that_stands_alone() -> None:
    """A record whose share of the slope exceeds 1 is outweighed by others: its error can be known."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 5, 150).astype(float)
    true, mechanism = {"x": x, "y": 0.5 * x + rng.normal(size=150)}, pr.Mechanism({"x": pr.LaplaceNoise(2.5)})
    for seed in range(20):
        result = pr.fit("y ~ x", mechanism.perturb(true, seed=seed), mechanism)
        assert "one-unit" not in result.flags
        assert np.isfinite(result.standard_errors).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("what", "data", "channel"),
    [
        (pr.mean("x"), {"x": np.full(30, 5.0)}, pr.GaussianNoise(2)),
        (
            pr.proportions("x"),
            {"x": np.array(["no"] * 40, dtype=object)},
            pr.RectangularMatrix(["no", "yes"], [[0.7, 0.1], [0.1, 0.7], [0.2, 0.2]], released=["no", "yes", "?"]),
        ),
        (pr.proportions("x"), {"x": np.array(["0000"] * 40, dtype=object)}, pr.UnaryEncoding(list("abcd"), 0.7, 0.2)),
    ],
    ids=["numbers", "rectangular", "bits"],
)
def test_records_that_all_say_the_same_have_no_standard_error(what: Any, data: dict[str, Any], channel: Any) -> None:
    result = pr.fit(what, data, pr.Mechanism({"x": channel}))
    assert np.isnan(result.standard_errors).all()
    assert [d.severity for d in result.diagnostics if d.code == "no-variation"] == ["error"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.LaplaceNoise(1e19), "must lie between 1e-12 and 1e\\+12"),
        (lambda: pr.GaussianNoise(1e-200), "must lie between"),
        (lambda: pr.UniformNoise(1e308), "must lie between"),
        (lambda: pr.GeometricNoise(0.01), "no value would ever change: use 0.025 or more"),
        (lambda: pr.Mechanism({("x", "y"): pr.GeometricNoise(1)}), "added to one column, not to 'x', 'y'"),
        (lambda: pr.TransitionMatrix.from_published((0.94, float("nan")), 0.9), "nan people"),
    ],
)
def test_noise_that_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        make()


@pytest.mark.filterwarnings("ignore")
def test_noise_of_two_scales_by_stratum_goes_with_other_noise_and_with_subsets() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    s, x, v = rng.choice(["a", "b"], n), rng.normal(size=n), rng.normal(size=n)
    k, z = rng.poisson(np.exp(0.2 * x + 0.1 * v)), rng.integers(0, 10, n)
    strata = pr.Stratified("s", {"a": pr.LaplaceNoise(0.2), "b": pr.LaplaceNoise(0.4)})
    keep = pr.Stratified("s", {c: pr.KeepOrNoise(0.6, pr.GeometricNoise(b)) for c, b in (("a", 1), ("b", 2))})
    mechanism = pr.Mechanism({"x": pr.LaplaceNoise(0.3), "v": strata, "z": keep})
    data = mechanism.perturb({"x": x, "v": v, "s": s, "k": k, "z": z, "y": z + rng.normal(size=n)}, seed=1)
    fitted = pr.fit("k ~ x + v", data, mechanism, family="poisson")
    assert np.all(np.abs(fitted.estimate - [0, 0.2, 0.1]) < 4.5 * fitted.standard_errors)
    domain = pr.fit("mean(y)", data, mechanism, subset="z > 7")
    assert abs(domain.estimate[0] - 8.5) < 4.5 * domain.standard_errors[0]
    assert (
        abs(np.mean(data["y"][data["z"] > 7]) - 8.5) > 4.5 * domain.standard_errors[0]
    )  # as a filter it would be wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("n", "q"), [(40, 0.99), (200, 0.999), (25, 0.01)])
def test_a_quantile_beyond_the_last_record_has_an_open_end(n: int, q: float) -> None:
    result = pr.fit(pr.quantile("y", q), {"y": np.random.default_rng(n).normal(size=n)}, None)
    assert not np.isfinite(result.interval()[0, 1 if q > 0.5 else 0])
    assert "open-interval" in result.flags

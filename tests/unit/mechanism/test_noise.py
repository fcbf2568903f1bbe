"""Additive noise on the custodian's side: draws, grids, bounds, privacy, descriptions and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pramana as pr
from golden_texts import worded
from pramana.mechanism.draws import integer_noise
from pramana.mechanism.draws.integer_noise import draw_integers, gaussian_cuts, geometric_cuts, uniform_cuts
from pramana.mechanism.draws.keystream import SeededKeystream

GOLDEN = Path(__file__).parents[2] / "golden" / "mechanism-1.3.json"
KEY = bytes(range(40))
NOISES: dict[str, Any] = {
    "laplace": pr.LaplaceNoise(2.0, bounds=(0.0, 100.0)),
    "geometric": pr.GeometricNoise(2.0, bounds=(0, 100)),
    "geometric, fine": pr.GeometricNoise(2.0, step=0.5, bounds=(0, 100)),
    "gaussian": pr.GaussianNoise(3.0, bounds=(0.0, 100.0)),
    "discrete gaussian": pr.DiscreteGaussianNoise(3.0, bounds=(0, 100)),
    "uniform": pr.UniformNoise(8.0, bounds=(0.0, 100.0)),
    "keep or noise": pr.KeepOrNoise(0.6, pr.GeometricNoise(4.0, bounds=(0, 100))),
}


def chances(cuts: np.ndarray) -> np.ndarray:
    return np.diff(np.concatenate([[0.0], cuts.astype(float), [2.0**64]])) / 2.0**64


def test_cut_points_are_the_distribution_functions() -> None:
    for cuts, mass in (
        (geometric_cuts(np.log(0.5)), lambda k: 0.5 ** np.abs(k) / 3),
        (gaussian_cuts(3.0), lambda k: np.exp(-(k**2) / 18) / np.exp(-(np.arange(-60, 61) ** 2) / 18).sum()),
        (uniform_cuts(3), lambda k: np.full(k.size, 1 / 7)),
    ):
        k = np.arange(-(len(cuts) // 2), len(cuts) // 2 + 1)
        np.testing.assert_allclose(chances(cuts), mass(k), rtol=0, atol=2e-16)
        np.testing.assert_allclose(chances(cuts), chances(cuts)[::-1], rtol=0, atol=2e-16)


@pytest.mark.parametrize("steps", [51.0, 1000.0, 4096.0, 8191.9])
def test_long_tables_by_products_are_those_made_one_by_one(steps: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bit of them; where a product is too near to a whole number to tell, they are made one by one."""
    found = geometric_cuts.__wrapped__(-1 / steps)
    products = integer_noise._products
    monkeypatch.setattr(integer_noise, "_SLOWLY", 0.0)
    np.testing.assert_array_equal(found, geometric_cuts.__wrapped__(-1 / steps))
    monkeypatch.setattr(integer_noise, "_UNSURE", np.uint64(2**62))
    assert products(2**159, 2**160 - 2**148) is None


def test_the_tail_beyond_two_to_the_minus_64_is_not_drawn() -> None:
    cuts = geometric_cuts(np.log(0.5))
    assert len(cuts) // 2 == 63
    assert cuts[0] == 1

    class Ends:
        def words(self, count: int) -> np.ndarray:
            return np.array([0, 2**64 - 1], dtype=np.uint64)[:count]

    np.testing.assert_array_equal(draw_integers(cuts, 2, Ends()), [-63, 62])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NOISES)
def test_draws_have_the_noise_that_was_stated(name: str) -> None:
    """Mean, variance and distribution of 200 000 draws; at 1.05 times the scale the same check fails."""
    noise = NOISES[name]
    v = noise.perturb(np.full(200_000, 50.0), {}, SeededKeystream(3)).astype(float) - 50
    spread = float(noise.operator.spread)
    kurtosis = {
        "laplace": 6,
        "geometric": 6.1,
        "geometric, fine": 6.1,
        "gaussian": 3,
        "discrete gaussian": 3,
        "uniform": 1.8,
        "keep or noise": 15.2,
    }
    error = spread**2 * np.sqrt((kurtosis[name] - 1) / v.size)
    assert abs(v.mean()) < 4 * spread / np.sqrt(v.size)
    assert abs(v.var() - spread**2) < 4 * error
    assert abs(v.var() - (1.05 * spread) ** 2) > 4 * error
    np.testing.assert_allclose((v + 50) / noise.grid, np.rint((v + 50) / noise.grid), rtol=0, atol=1e-6)


def test_true_values_are_clamped_and_rounded_first() -> None:
    noise = pr.GeometricNoise(alpha=1e-12, step=5, bounds=(10, 30))  # almost none
    stream = SeededKeystream(1)
    np.testing.assert_array_equal(noise.perturb(np.array([-100.0, 11.9, 13.0, 99.0]), {}, stream), [10, 10, 15, 30])


@pytest.mark.parametrize("name", NOISES)
def test_frames_of_every_kind_and_gaps(name: str) -> None:
    mechanism = pr.Mechanism({"z": NOISES[name]})
    frame = pd.DataFrame({"z": [1, 50, 99], "x": ["a", "b", "c"]})
    with pytest.warns(UserWarning, match="not secure"):
        found = [mechanism.perturb(f, seed=1) for f in (frame, pl.from_pandas(frame), {"z": frame["z"].to_numpy()})]
    for other in found[1:]:
        np.testing.assert_array_equal(np.asarray(other["z"]), found[0]["z"].to_numpy())
    assert list(found[0]["x"]) == ["a", "b", "c"]
    gaps = mechanism.perturb(pd.DataFrame({"z": [1.0, np.nan, 99.0]}))
    np.testing.assert_array_equal(gaps["z"].isna(), [False, True, False])


@pytest.mark.parametrize("name", NOISES)
def test_keyed_draws_belong_to_the_record_and_its_value(name: str) -> None:
    mechanism = pr.Mechanism({"z": NOISES[name]})
    frame = pd.DataFrame({"id": np.arange(200), "z": np.arange(200) % 90})
    first = mechanism.perturb(frame, key=KEY, id="id")
    again = mechanism.perturb(frame.sample(frac=1, random_state=1), key=KEY, id="id").sort_values("id")
    np.testing.assert_array_equal(first["z"], again["z"])
    changed = mechanism.perturb(frame.assign(z=frame["z"] + 5), key=KEY, id="id")
    assert np.mean(changed["z"].to_numpy() - 5 == first["z"].to_numpy()) < 0.6
    clamped = [mechanism.perturb(frame.assign(z=top), key=KEY, id="id")["z"] for top in (100.0, 130.0)]
    np.testing.assert_array_equal(*clamped)


def test_a_unit_has_one_draw() -> None:
    mechanism = pr.Mechanism({"z": NOISES["laplace"]}, unit="person")
    frame = pd.DataFrame({"person": [1, 1, 2, 2], "z": [30.0, 30.0, 40.0, 40.0]})
    z = mechanism.perturb(frame)["z"].to_numpy()
    assert z[0] == z[1]
    assert z[2] == z[3]
    assert z[0] - 30 != z[2] - 40
    with pytest.raises(pr.DataError, match="differs between the records"):
        mechanism.perturb(frame.assign(z=[30.0, 31.0, 40.0, 40.0]))


def test_privacy_is_the_clamped_range_over_the_scale() -> None:
    assert NOISES["laplace"].epsilon == 50
    assert NOISES["geometric"].epsilon == 50
    assert pr.LaplaceNoise(2.0).epsilon == np.inf
    assert NOISES["gaussian"].epsilon == np.inf
    assert NOISES["gaussian"].rho == pytest.approx(100**2 / 18)
    assert NOISES["discrete gaussian"].rho == pytest.approx(100**2 / 18)
    assert (NOISES["uniform"].epsilon, NOISES["uniform"].delta) == (np.inf, 1.0)
    assert pr.UniformNoise(400.0, bounds=(0, 100)).delta == 0.25


def test_the_loss_of_a_geometric_noise_is_that_of_its_probabilities() -> None:
    noise = pr.GeometricNoise(0.8, bounds=(0, 4))
    p = noise.masses
    assert np.log(p[0] / p[4]) == pytest.approx(noise.epsilon)


def test_the_loss_of_keep_or_noise_is_that_of_its_probabilities() -> None:
    noise = pr.KeepOrNoise(0.6, pr.GeometricNoise(0.8, bounds=(0, 4)))
    p = 0.4 * noise.inner.masses
    assert np.log((0.6 + p[0]) / p[4]) == pytest.approx(noise.epsilon)


@pytest.mark.parametrize("keep", [0.55, 0.9])
def test_the_loss_of_keep_or_normal_noise_bounds_every_divergence(keep: float) -> None:
    """Rényi's, of the chances of the two ends of the bounds, at orders from almost 1 to 200: never above a·ρ, and above a·ρ/3 somewhere."""
    noise = pr.KeepOrNoise(keep, pr.DiscreteGaussianNoise(4.0, bounds=(0, 6)))
    p = (1 - keep) * noise.inner.masses[np.abs(np.arange(-30, 37))]
    ends = p.copy(), p[::-1].copy()
    ends[0][30] += keep
    ends[1][36] += keep
    orders = np.array([1.001, 1.1, 1.5, 2, 4, 16, 64, 200])
    one, other = map(np.log, ends)
    found = [np.logaddexp.reduce(a * one + (1 - a) * other) / (a - 1) / a for a in orders]
    assert noise.rho / 3 < max(found) < noise.rho
    assert noise.epsilon == np.inf
    assert pr.KeepOrNoise(keep, pr.GaussianNoise(4.0)).rho == np.inf
    wide = pr.KeepOrNoise(keep, pr.UniformNoise(40.0, bounds=(0, 10)))
    assert (wide.delta, wide.epsilon) == (pytest.approx(keep + (1 - keep) / 4), np.inf)


@pytest.mark.parametrize(
    "inner",
    [
        pr.GaussianNoise(3.0),
        pr.DiscreteGaussianNoise(3.0, step=0.5, bounds=(0, 9)),
        pr.UniformNoise(8.0, bounds=(0, 9)),
    ],
)
def test_a_value_stays_or_gets_normal_or_uniform_noise(inner: Any, tmp_path: Path) -> None:
    noise = pr.KeepOrNoise(0.7, inner)
    mechanism = pr.Mechanism({"z": noise})
    with pytest.warns(UserWarning, match="not secure"):
        v = mechanism.perturb({"z": np.full(100_000, 5.0)}, seed=2)["z"] - 5.0
    assert np.mean(np.abs(v) < noise.grid) == pytest.approx(0.7 + 0.3 * inner.stays, abs=0.006)
    assert v.var() == pytest.approx(float(noise.operator.spread) ** 2, rel=0.03)
    mechanism.save(tmp_path / "kept.json")
    assert pr.Mechanism.load(tmp_path / "kept.json") == mechanism
    stronger = noise.stronger(2.0)
    assert stronger.spread == pytest.approx(2 * noise.spread, rel=1e-6)


def test_one_account_for_all_columns() -> None:
    binary = pr.TransitionMatrix.binary(0.8, 0.8)
    own = np.log(4)
    both = pr.Mechanism({"z": pr.LaplaceNoise(50.0, bounds=(0, 100)), "g": binary})
    assert both.epsilon == pytest.approx(2 + own)
    assert both.rho == pytest.approx(2 * np.tanh(1) + own * np.tanh(own / 2))
    assert both.epsilon_at(1e-6) == pytest.approx(both.epsilon)
    normal = pr.Mechanism({"z": pr.GaussianNoise(100.0, bounds=(0, 100)), "g": binary})
    assert normal.epsilon == np.inf
    assert normal.epsilon_at(1e-6) == pytest.approx(own + 0.5 + 2 * np.sqrt(0.5 * np.log(1e6)))
    uniform = pr.Mechanism({"z": pr.UniformNoise(1000.0, bounds=(0, 1)), "g": binary})
    assert uniform.epsilon_at(1e-6) == np.inf
    assert uniform.epsilon_at(0.01) == pytest.approx(own)
    assert pr.Mechanism({"z": pr.LaplaceNoise(50.0)}).epsilon_at(1e-6) == np.inf
    assert pr.Mechanism({"z": NOISES["laplace"]}, unit=pr.Unit("id", varies=True)).rho == np.inf
    with pytest.raises(pr.MechanismError, match=r"delta=2 must lie between 0 and 1"):
        both.epsilon_at(2)


def test_strata_pay_the_largest_loss() -> None:
    strata = pr.Stratified("h", {"a": pr.LaplaceNoise(2.0, bounds=(0, 10)), "b": pr.LaplaceNoise(5.0, bounds=(0, 10))})
    assert strata.epsilon == 5
    frame = pd.DataFrame({"h": ["a", "b"] * 20_000, "z": 5.0})
    with pytest.warns(UserWarning, match="not secure"):
        v = pr.Mechanism({"z": strata}).perturb(frame, seed=4)["z"] - 5
    spreads = v.groupby(frame["h"]).std()
    np.testing.assert_allclose(spreads, np.sqrt(2) * np.array([2, 5]), rtol=0.05)


def golden() -> pr.Mechanism:
    strata = pr.Stratified("region", {"north": pr.LaplaceNoise(1.5), "south": pr.LaplaceNoise(2.0)})
    joined = {"edu": pr.TransitionMatrix.randomized_response(["low", "high"], keep=0.8), "pension": strata}
    return pr.Mechanism({**NOISES, **joined})


def test_a_description_is_read_as_it_was_written(tmp_path: Path) -> None:
    golden().save(tmp_path / "again.json")
    assert worded((tmp_path / "again.json").read_text(encoding="utf-8")) == worded(GOLDEN.read_text(encoding="utf-8"))
    read = pr.Mechanism.load(GOLDEN)
    assert read == golden()
    assert [a.channel for a in read.assignments][:7] == list(NOISES.values())


def test_a_false_epsilon_of_noise_is_seen(tmp_path: Path) -> None:
    text = GOLDEN.read_text(encoding="utf-8").replace('"epsilon": 50.0', '"epsilon": 5.0')
    (tmp_path / "false.json").write_text(text, encoding="utf-8")
    with pytest.raises(pr.MechanismError, match=r"epsilon is 5, but the matrices of 'laplace' have 50"):
        pr.Mechanism.load(tmp_path / "false.json")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.LaplaceNoise(0), r"scale=0 must be a positive number"),
        (lambda: pr.LaplaceNoise(-1.0), r"scale=-1.0 must be a positive number"),
        (lambda: pr.LaplaceNoise(np.nan), r"scale=nan must be a positive number"),
        (lambda: pr.LaplaceNoise("2"), r"scale='2' must be a positive number"),  # type: ignore[arg-type]
        (lambda: pr.GaussianNoise(np.inf), r"sd=inf must be a positive number"),
        (lambda: pr.UniformNoise(0.0), r"width=0.0 must be a positive number"),
        (lambda: pr.GeometricNoise(), r"either a scale or alpha"),
        (lambda: pr.GeometricNoise(1.0, alpha=0.5), r"either a scale or alpha"),
        (lambda: pr.GeometricNoise(alpha=1.0), r"alpha=1.0 must lie between 0 and 1"),
        (lambda: pr.GeometricNoise(1.0, step=0), r"step=0 must be a positive number"),
        (lambda: pr.GeometricNoise(1e6), r"step=1 is too fine for a scale of 1e\+06: use 42 or more"),
        (lambda: pr.GeometricNoise(1.0, bounds=(0, 2.5)), r"bounds=\(0, 2.5\) are no multiples of the step 1"),
        (lambda: pr.GeometricNoise(1.0, bounds=(3, 1)), r"bounds=\(3, 1\) must be two numbers, the lower one first"),
        (lambda: pr.LaplaceNoise(1.0, bounds=(1,)), r"must be two numbers"),  # type: ignore[arg-type]
        (lambda: pr.DiscreteGaussianNoise(0.5), r"sd=0.5 is below the step of 1: use a finer step"),
        (lambda: pr.DiscreteGaussianNoise(1e6), r"step=1 is too fine for an sd of 1e\+06"),
        (lambda: pr.KeepOrNoise(1.0, pr.GeometricNoise(1.0)), r"keep=1.0 must lie between 0 and 1"),
        (
            lambda: pr.KeepOrNoise(0.5, pr.UniformNoise(1.0)),
            r"keep=0.5 is not above 0.5: UniformNoise that is added .*keep more values, or use LaplaceNoise or GeometricNoise",
        ),
        (
            lambda: pr.KeepOrNoise(0.7, pr.KeepOrNoise(0.7, pr.LaplaceNoise(1.0))),  # type: ignore[arg-type]
            r"DiscreteGaussianNoise or UniformNoise, not a KeepOrNoise",
        ),
        (lambda: pr.GeometricNoise(1.0).clamped(), r"has no bounds to clamp to"),
        (
            lambda: pr.GeometricNoise(100, bounds=(0, 100_000)).clamped(),
            r"hold 100001 multiples of the step 1, and .* at most 5000 levels: use a step of 20 or more, or narrower bounds",
        ),
        (lambda: pr.DiscreteGaussianNoise(100, bounds=(0, 100_000)).clamped(), r"at most 5000 levels"),
        (
            lambda: pr.Stratified("h", {0: pr.LaplaceNoise(1.0), 1: pr.GaussianNoise(1.0)}),
            r"stratum 1 of 'h' is a GaussianNoise, the first stratum a LaplaceNoise",
        ),
    ],
)
def test_parameters_that_make_no_noise(make: Any, message: str) -> None:
    with pytest.raises(pr.MechanismError, match=message):
        make()


def test_what_noise_cannot_be_added_to() -> None:
    mechanism = pr.Mechanism({"z": pr.LaplaceNoise(1.0)})
    with pytest.raises(pr.DataError, match=r"'z' holds no numbers"):
        mechanism.perturb({"z": np.array(["a", "b"], dtype=object)})
    with pytest.raises(pr.DataError, match=r"'z' has 1 missing or infinite value.*row 1"):
        mechanism.perturb({"z": np.array([1.0, np.inf])})
    with pytest.raises(pr.DataError, match=r"steps of .* cannot be told apart"):
        mechanism.perturb({"z": np.array([1e15])})
    with pytest.raises(pr.MechanismError, match=r"noise is added to one column, not to 'a', 'b'"):
        pr.Mechanism({("a", "b"): pr.LaplaceNoise(1.0)}).perturb({"a": np.ones(2), "b": np.ones(2)})


@pytest.mark.parametrize("name", NOISES)
def test_chances_are_those_of_the_draws(name: str) -> None:
    """Of the lattice law itself, where there is a formula, and in any case a distribution with the noise's variance."""
    noise = NOISES[name]
    chances = noise.chances
    k = np.arange(chances.size) - chances.size // 2
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    assert chances @ (k * noise.grid) ** 2 == pytest.approx(noise.operator.spread**2, rel=1e-6)
    assert noise.stays == chances[chances.size // 2]
    if isinstance(noise, pr.GeometricNoise):
        np.testing.assert_allclose(chances[chances.size // 2 :][:20], noise.masses[:20], rtol=1e-12)


def test_a_value_stays_or_gets_laplace_noise(tmp_path: Path) -> None:
    """Shares and spread of 100 000 draws, the description, and a loss that the chances on the grid have."""
    noise = pr.KeepOrNoise(0.7, pr.LaplaceNoise(2.0, bounds=(0.0, 10.0)))
    mechanism = pr.Mechanism({"z": noise})
    with pytest.warns(UserWarning, match="not secure"):
        v = mechanism.perturb({"z": np.full(100_000, 5.0)}, seed=2)["z"] - 5.0
    assert np.mean(v == 0) == pytest.approx(0.7 + 0.3 / 8192, abs=0.006)
    assert np.mean(np.abs(v[v != 0])) == pytest.approx(2.0, rel=0.03)
    assert float(noise.operator.spread) == pytest.approx(np.sqrt(0.3 * 8))
    mechanism.save(tmp_path / "kept.json")
    assert pr.Mechanism.load(tmp_path / "kept.json") == mechanism
    p, far = noise.chances, round(10 / noise.grid)
    assert noise.epsilon == pytest.approx(np.log(p[p.size // 2] / p[p.size // 2 + far]), rel=1e-9)
    assert noise.smooth_only
    with pytest.raises(pr.DataError, match="has no levels"):
        pr.fit(pr.proportions("z"), {"z": 5.0 + v}, mechanism)
    assert pr.fit(pr.median("z"), {"z": 5.0 + v[:2000]}, mechanism).estimate[0] == pytest.approx(5.0, abs=0.1)

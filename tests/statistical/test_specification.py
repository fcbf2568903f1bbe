"""The specification test rejects a right model as often as it says, and a wrong one often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from montecarlo import BOUND, Data, Setting, samples
from scipy.special import expit

import pramana as pr

Log = Callable[[str, object], None]
lengths = pytest.mark.parametrize("replicates", [80, pytest.param(2000, marks=pytest.mark.verify)])
ALLOWANCE = 0.01
"""The law is exact only as n grows."""


def logistic(keep: float, n: int, curvature: float = 0.0) -> Setting:
    """logit p = −0.5 + x + curvature (x² − 1), of which the analyst knows the linear part."""

    def generate(rng: np.random.Generator) -> Data:
        x = rng.normal(size=n)
        return {"x": x, "y": (rng.random(n) < expit(-0.5 + x + curvature * (x**2 - 1))).astype(int)}

    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(keep, keep)})
    return Setting(generate, mechanism, mechanism, "y ~ x", (-0.5, 1.0))


def hidden_covariate(n: int, interaction: float = 0.0) -> Setting:
    """A perturbed covariate tied to a clean one; the analyst leaves out their interaction."""

    def generate(rng: np.random.Generator) -> Data:
        x = rng.normal(size=n)
        g = (rng.random(n) < expit(x)).astype(int)
        y = rng.random(n) < expit(-0.5 + x + 0.8 * g + interaction * x * g)
        return {"x": x, "g": g, "y": y.astype(int)}

    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.binary(0.8, 0.8)})
    return Setting(generate, mechanism, mechanism, "y ~ x + g", (-0.5, 1.0, 0.8))


def hidden_level(family: str, n: int, interaction: float = 0.0) -> Setting:
    """A response of another family and a perturbed covariate tied to a clean one."""

    def generate(rng: np.random.Generator) -> Data:
        x = rng.normal(size=n)
        g = (rng.random(n) < expit(x)).astype(int)
        mean = 0.2 + 0.3 * x + 0.6 * g + interaction * x * g
        drawn = {
            "gaussian": lambda: rng.normal(mean, 0.5),
            "poisson": lambda: rng.poisson(np.exp(mean)),
            "gamma": lambda: rng.gamma(2.0, np.exp(mean) / 2),
        }
        return {"x": x, "g": g, "y": drawn[family]()}

    mechanism = pr.Mechanism({"g": pr.TransitionMatrix.binary(0.8, 0.8)})
    return Setting(generate, mechanism, mechanism, "y ~ x + g", (0.2, 0.3, 0.6))


def rejections(setting: Setting, replicates: int, seed: int, family: str = "binomial", **options: Any) -> float:
    tests = (
        pr.specification_test(setting.what, released, setting.mechanism, family=family, **options)
        for _, released in samples(setting, replicates, seed)
    )
    return float(np.mean([test.p_value < 0.05 for test in tests]))


def check_size(found: float, replicates: int) -> None:
    limit = BOUND * np.sqrt(0.05 * 0.95 / replicates) + ALLOWANCE
    assert abs(found - 0.05) < limit, f"size {found:.4f}, more than {limit:.4f} from 0.05"


@lengths
@pytest.mark.parametrize(("keep", "n"), [(0.75, 2000), (0.85, 1000), (0.85, 2000), (0.95, 2000)])
def test_size_for_a_perturbed_response(keep: float, n: int, replicates: int, record_property: Log) -> None:
    found = rejections(logistic(keep, n), replicates, 801)
    record_property("rows", [{"keep": keep, "n": n, "replicates": replicates, "size at 0.05": found}])
    check_size(found, replicates)


@lengths
def test_power_against_an_omitted_quadratic_term(replicates: int, record_property: Log) -> None:
    """keep = 0.85, n = 2000, curvature 0.5; the same test of a model with the term does not reject."""
    setting, count = logistic(0.85, 2000, curvature=0.5), replicates // 3
    found = rejections(setting, count, 802)
    record_property("rows", [{"keep": 0.85, "n": 2000, "curvature": 0.5, "replicates": count, "power": found}])
    assert found > 0.8


@pytest.mark.parametrize("replicates", [40, pytest.param(2000, marks=pytest.mark.verify)])
def test_size_and_power_for_a_perturbed_covariate(replicates: int, record_property: Log) -> None:
    size = rejections(hidden_covariate(2000), replicates, 803)
    power = rejections(hidden_covariate(2000, -2.0), replicates // 3, 804)
    record_property(
        "rows",
        [{"keep": 0.8, "n": 2000, "interaction": -2.0, "replicates": replicates, "size at 0.05": size, "power": power}],
    )
    check_size(size, replicates)
    assert power > 0.8


@pytest.mark.parametrize("replicates", [40, pytest.param(2000, marks=pytest.mark.verify)])
@pytest.mark.parametrize(("family", "link"), [("gaussian", "identity"), ("poisson", "log"), ("gamma", "log")])
def test_size_and_power_in_other_families(family: str, link: str, replicates: int, record_property: Log) -> None:
    """The analyst leaves out an interaction of −0.4 between the perturbed and the clean covariate."""
    options = {"family": family, "link": link}
    size = rejections(hidden_level(family, 2000), replicates, 805, **options)
    power = rejections(hidden_level(family, 2000, -0.4), replicates // 3, 806, **options)
    record_property(
        "rows",
        [{"family": family, "keep": 0.8, "n": 2000, "replicates": replicates, "size at 0.05": size, "power": power}],
    )
    check_size(size, replicates)
    assert power > 0.8


@pytest.mark.parametrize("replicates", [40, pytest.param(2000, marks=pytest.mark.verify)])
def test_size_with_sampling_weights(replicates: int) -> None:
    """Weights that vary fourfold and say nothing about the records leave the size as it is."""
    weights = np.where(np.arange(2000) % 2, 1.0, 4.0)
    check_size(
        rejections(hidden_level("gaussian", 2000), replicates, 807, family="gaussian", weights=weights), replicates
    )


def test_weights_and_frequencies() -> None:
    """Equal weights change nothing, and counts stand for so many equal records."""
    setting = hidden_level("poisson", 400)
    _, released = next(iter(samples(setting, 1, 808)))
    options: dict[str, Any] = {"mechanism": setting.mechanism, "family": "poisson"}
    plain = pr.specification_test(setting.what, released, **options)
    equal = pr.specification_test(setting.what, released, weights=np.full(400, 3.0), **options)
    assert equal.statistic == pytest.approx(plain.statistic, rel=1e-6)
    counts = 1 + np.arange(400) % 3
    counted = pr.specification_test(setting.what, released, frequencies=counts, **options)
    repeated = {name: np.repeat(np.asarray(column), counts) for name, column in released.items()}
    written_out = pr.specification_test(setting.what, repeated, **options)
    assert (counted.statistic, counted.df) == (pytest.approx(written_out.statistic, rel=1e-6), written_out.df)


def test_compare_reports_the_test_when_it_holds_both_sides() -> None:
    setting = logistic(0.85, 500)
    _, released = next(iter(samples(setting, 1, 809)))
    alone = pr.specification_test(setting.what, released, setting.mechanism, family="binomial")
    both = pr.compare(setting.what, released, setting.mechanism, ["reversion", "likelihood"], family="binomial")
    assert both.specification == alone
    assert alone.advice in both.summary()
    saturated = pr.compare("y ~ 1", released, setting.mechanism, ["reversion", "likelihood"], family="binomial")
    assert saturated.specification is None
    assert "No specification test: nothing is left to test" in saturated.summary()
    single = pr.compare(setting.what, released, setting.mechanism, ["reversion", "naive"], family="binomial")
    assert single.specification is None

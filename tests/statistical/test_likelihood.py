"""Maximum likelihood is centred, its errors are honest, it beats reversion where its model holds, and sees a wrong P."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from montecarlo import BOUND, CLEAR, Data, Setting, check, replicate
from scipy.special import expit
from settings import GROUPS, keep, mechanisms

import pramana as pr

Log = Callable[[str, object], None]
lengths = pytest.mark.parametrize("replicates", [80, pytest.param(2000, marks=pytest.mark.verify)])
shorter = pytest.mark.parametrize("replicates", [50, pytest.param(1000, marks=pytest.mark.verify)])
LEVEL = np.array([0.0, 0.7, -0.7])


def perturbed_response(method: str, n: int = 2000) -> Setting:
    def generate(rng: np.random.Generator) -> Data:
        x = rng.normal(size=n)
        return {"x": x, "y": (rng.random(n) < expit(-0.5 + x)).astype(int)}

    both = mechanisms({"y": pr.TransitionMatrix.binary(0.85, 0.85)})
    return Setting(generate, *both, "y ~ x", (-0.5, 1.0), {"family": "binomial", "method": method})


def perturbed_covariate(n: int = 1500) -> Setting:
    """The normal linear model of van den Hout and Kooiman, with a clean covariate tied to the perturbed one."""

    def generate(rng: np.random.Generator) -> Data:
        group = (rng.random(n) < 0.4).astype(int)
        sex = (rng.random(n) < np.array([0.3, 0.6])[group]).astype(int)
        return {"y": 1 + 0.7 * group + 0.5 * sex + rng.normal(size=n), "sex": sex, "g": GROUPS[group]}

    both = mechanisms({"g": keep(GROUPS[:2], 0.75)})
    return Setting(generate, *both, "y ~ g + sex", (1, 0.7, 0.5), {"method": "likelihood"})


def both_perturbed(n: int = 2000) -> Setting:
    """Logistic regression with response and covariate perturbed; the covariate model is a multinomial logit."""

    def generate(rng: np.random.Generator) -> Data:
        x = rng.normal(size=n)
        weights = np.column_stack([np.zeros(n), -0.5 + 0.6 * x, -0.8 - 0.4 * x])
        group = np.argmax(weights + rng.gumbel(size=(n, 3)), axis=1)
        return {"x": x, "g": GROUPS[group], "y": (rng.random(n) < expit(-0.3 + 0.6 * x + LEVEL[group])).astype(int)}

    both = mechanisms({"y": pr.TransitionMatrix.binary(0.9, 0.9), "g": keep(GROUPS[:3], 0.85)})
    return Setting(
        generate, *both, "y ~ x + g", (-0.3, 0.6, *LEVEL[1:]), {"family": "binomial", "method": "likelihood"}
    )


def several_classes(n: int = 1500) -> Setting:
    """A multinomial logit whose response passed an asymmetric matrix."""
    beta = np.array([[0.3, 0.8], [-0.2, -0.5]])

    def generate(rng: np.random.Generator) -> Data:
        x = rng.normal(size=n)
        weights = np.column_stack([np.zeros(n), beta[:, :1].T + x[:, None] * beta[:, 1]])
        return {"x": x, "y": GROUPS[np.argmax(weights + rng.gumbel(size=(n, 3)), axis=1)]}

    matrix = pr.TransitionMatrix(list(GROUPS[:3]), [[0.8, 0.1, 0.1], [0.15, 0.8, 0.15], [0.05, 0.1, 0.75]])
    return Setting(
        generate, *mechanisms({"y": matrix}), pr.multinomial("y ~ x"), tuple(beta.ravel()), {"method": "forward"}
    )


@lengths
def test_several_classes_by_forward_correction(replicates: int, record_property: Log) -> None:
    check(several_classes(), replicates, 708, record_property)


def regression_on_a_perturbed_covariate(family: str, n: int = 2000) -> Setting:
    """A generalised linear model of Woo and Slavković (2015): the covariate model is saturated in a clean factor."""

    def generate(rng: np.random.Generator) -> Data:
        sex = rng.integers(0, 2, n)
        group = (rng.random(n) < np.array([0.3, 0.55])[sex]).astype(int)
        eta = -0.4 + 0.5 * sex + 0.9 * group
        draw = {
            "binomial": lambda: (rng.random(n) < expit(eta)).astype(int),
            "poisson": lambda: rng.poisson(np.exp(eta)),
            "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2),
        }
        return {"y": draw[family](), "sex": sex, "g": GROUPS[group]}

    both = mechanisms({"g": keep(GROUPS[:2], 0.85)})
    return Setting(generate, *both, "y ~ sex + g", (-0.4, 0.5, 0.9), {"family": family, "method": "likelihood"})


@pytest.mark.parametrize("replicates", [60, pytest.param(1000, marks=pytest.mark.verify)])
@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
def test_a_perturbed_covariate_by_likelihood(family: str, replicates: int, record_property: Log) -> None:
    check(regression_on_a_perturbed_covariate(family), replicates, 709, record_property)


def perturbed_counts(method: str, n: int = 2000) -> Setting:
    """A Poisson response with the levels 0 to 15 perturbed; a larger one has probability below 1e-6."""

    def generate(rng: np.random.Generator) -> Data:
        x = rng.uniform(-1, 1, n)
        return {"x": x, "y": np.minimum(rng.poisson(np.exp(0.3 + 0.7 * x)), 15)}

    channel = pr.TransitionMatrix.randomized_response(list(range(16)), keep=0.8, kind="numeric")
    options = {"family": "poisson", "method": method}
    return Setting(generate, *mechanisms({"y": channel}), "y ~ x", (0.3, 0.7), options)


@pytest.mark.parametrize("replicates", [60, pytest.param(1000, marks=pytest.mark.verify)])
@pytest.mark.parametrize("method", ["likelihood", "reversion"])
def test_perturbed_counts(method: str, replicates: int, record_property: Log) -> None:
    check(perturbed_counts(method), replicates, 710, record_property)


@lengths
@pytest.mark.parametrize("method", ["likelihood", "forward"])
def test_a_perturbed_response_by_likelihood(method: str, replicates: int, record_property: Log) -> None:
    check(perturbed_response(method), replicates, 701, record_property)


@lengths
def test_backward_correction_of_a_perturbed_response(replicates: int, record_property: Log) -> None:
    check(perturbed_response("backward"), replicates, 702, record_property)


@pytest.mark.parametrize("replicates", [90, pytest.param(2000, marks=pytest.mark.verify)])
def test_a_perturbed_covariate_of_a_normal_model_by_likelihood(replicates: int, record_property: Log) -> None:
    check(perturbed_covariate(), replicates, 703, record_property)


@shorter
def test_response_and_covariate_both_perturbed_by_likelihood(replicates: int, record_property: Log) -> None:
    check(both_perturbed(), replicates, 704, record_property)


@pytest.mark.verify
def test_likelihood_is_more_precise_than_reversion_where_its_model_holds() -> None:
    setting = perturbed_response("likelihood", 1000)
    likelihood, reversion = (replicate(setting, 150, 705, method=m) for m in ("likelihood", "reversion"))
    assert np.all(likelihood.spread < reversion.spread)


@pytest.mark.parametrize("replicates", [80, pytest.param(2000, marks=pytest.mark.verify)])
def test_likelihood_ratio_test_has_its_size(replicates: int, record_property: Log) -> None:
    """n = 600, sensitivity and specificity 0.85, a covariate without effect; a real effect of 0.5 is seen."""
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(0.85, 0.85)})
    small, large = (_ratio_tests(mechanism, replicates, effect) for effect in (0.0, 0.5))
    record_property("rows", [{"test": "likelihood ratio", "replicates": replicates, "size": small, "power": large}])
    assert abs(small - 0.05) < BOUND * np.sqrt(0.05 * 0.95 / replicates) + 0.01
    assert large > 0.5


def _ratio_tests(mechanism: pr.Mechanism, replicates: int, effect: float) -> float:
    def generate(rng: np.random.Generator) -> Data:
        x, w = rng.normal(size=(2, 600))
        return {"x": x, "w": w, "y": (rng.random(600) < expit(0.5 * x + effect * w)).astype(int)}

    from montecarlo import samples

    setting = Setting(generate, mechanism, mechanism, "y ~ x", (0.0, 0.5))
    rejected = []
    for _, released in samples(setting, replicates if effect == 0 else 40, 706):
        fits = (pr.fit(f, released, mechanism, family="binomial", method="likelihood") for f in ("y ~ x", "y ~ x + w"))
        rejected.append(pr.lr_test(*fits).p_value < 0.05)
    return float(np.mean(rejected))


def test_a_wrong_matrix_is_seen_by_the_corrections() -> None:
    setting = perturbed_response("forward")
    assert np.abs(replicate(setting, 60, 707, mechanism=setting.wrong).z).max() > CLEAR

"""Under strong noise a likelihood has several maxima: the best is kept, and another within reach is named."""

from __future__ import annotations

import warnings
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import pramana as pr

LEVELS = list("abcde")


def released(
    seed: int, n: int, shares: list[float], keep: float, family: str = "gaussian"
) -> tuple[dict[str, Any], pr.Mechanism]:
    """Levels three standard deviations apart, or as many on the scale of counts and odds as these allow."""
    rng = np.random.default_rng(seed)
    size = len(shares)
    code, x = rng.choice(size, n, p=shares), rng.normal(size=n)
    y: Any = 3.0 * code + rng.normal(size=n)
    if family in ("poisson", "negative-binomial"):
        y = rng.poisson(np.exp(code))
    true = {"z": np.array(LEVELS)[code], "y": y, "x": x, "sex": rng.integers(0, 2, n), "unit": np.arange(n) // 3}
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(LEVELS[:size], keep=keep)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mechanism.perturb(true, seed=seed), mechanism


def fitted(formula: str, data: Any, mechanism: pr.Mechanism, **options: Any) -> pr.LikelihoodResult:
    found = pr.fit(formula, data, mechanism, **{"method": "likelihood", **options})
    assert isinstance(found, pr.LikelihoodResult)
    return found


def slow_best(formula: str, data: Any, mechanism: pr.Mechanism, starts: list[list[float]], **options: Any) -> float:
    """The highest of the maxima to which the given starts lead, one climb each."""
    values = [-np.inf]
    for start in starts:
        try:
            values.append(fitted(formula, data, mechanism, start=start, **options).log_likelihood)
        except pr.SolveError:
            continue
    return max(values)


def contrasts(means: Any) -> list[float]:
    return [means[0], *(m - means[0] for m in means[1:])]


def orders(means: list[float], count: int) -> list[list[float]]:
    """All orders of the levels' means, or a random choice of them, and as many without order."""
    rng = np.random.default_rng(7)
    every = list(permutations(means))
    chosen = [every[i] for i in rng.permutation(len(every))[:count]]
    loose = rng.uniform(min(means) - 1, max(means) + 1, (count, len(means)))
    return [contrasts(m) for m in [*chosen, *loose.tolist()]]


def compared(files: range) -> tuple[int, int]:
    """Files in which some start leads higher than the fit, and those in which it leads higher than the face value."""
    missed = improved = 0
    for seed in files:
        data, mechanism = released(seed, 300, [0.6, 0.3, 0.1], 0.45)
        slow = slow_best("y ~ z", data, mechanism, orders([0.0, 3.0, 6.0], 6))
        face = fitted("y ~ z", data, mechanism, start=[float(np.mean(data["y"])), 0.0, 0.0]).log_likelihood
        missed += fitted("y ~ z", data, mechanism).log_likelihood < slow - 1e-3
        improved += face < slow - 1e-3
    return missed, improved


def test_levels_are_not_swapped_where_the_noise_hides_them() -> None:
    missed, improved = compared(range(4))
    assert missed == 0
    assert improved >= 1, "a single start finds them all: the test tests nothing"


@pytest.mark.verify
def test_the_best_maximum_is_found_in_fifty_files() -> None:
    missed, improved = compared(range(50))
    assert missed == 0
    assert improved >= 20


CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "two levels": ("y ~ z", (2, 300, [0.7, 0.3], 0.55), {}),
    "five levels": ("y ~ z", (1, 300, [0.5, 0.2, 0.1, 0.1, 0.1], 0.45), {}),
    "covariates": ("y ~ z + x", (6, 300, [0.6, 0.3, 0.1], 0.45), {"method": pr.Likelihood(covariate_model="x")}),
    "cells": ("y ~ z + sex", (6, 300, [0.6, 0.3, 0.1], 0.45), {}),
    "weights": ("y ~ z", (6, 300, [0.6, 0.3, 0.1], 0.45), {"weights": np.linspace(500, 1500, 300)}),
    "clusters": ("y ~ z", (6, 300, [0.6, 0.3, 0.1], 0.45), {"clusters": "unit"}),
    "counts": ("y ~ z", (3, 300, [0.6, 0.3, 0.1], 0.45, "poisson"), {"family": "poisson"}),
}


@pytest.mark.parametrize("name", CASES)
def test_no_other_start_leads_higher(name: str) -> None:
    formula, setting, options = CASES[name]
    data, mechanism = released(*setting)
    size = len(setting[2])
    means = [float(k) for k in range(size)] if name == "counts" else [3.0 * k for k in range(size)]
    extra = [0.0] if "+" in formula else []
    starts = [[*s, *extra] for s in orders(means, 6)]
    found = fitted(formula, data, mechanism, **options)
    assert int(found.facts["Starts"].split(",")[0]) > 10
    assert found.log_likelihood >= slow_best(formula, data, mechanism, starts, **options) - 1e-3


def test_counts_of_rows_and_the_unit_of_weights_change_nothing() -> None:
    data, mechanism = released(15, 300, [0.6, 0.3, 0.1], 0.45)
    plain = fitted("y ~ z", data, mechanism)
    counted = fitted("y ~ z", data, mechanism, frequencies=np.ones(300, dtype=int))
    heavy = fitted("y ~ z", data, mechanism, weights=np.full(300, 1000.0))
    for other in (counted, heavy):
        np.testing.assert_allclose(other.estimate, plain.estimate, atol=1e-5)
        assert other.facts["Starts"] == plain.facts["Starts"]
        assert "several-maxima" in {d.code for d in other.diagnostics}


def test_a_second_maximum_within_reach_is_named_and_can_be_looked_at() -> None:
    data, mechanism = released(15, 300, [0.6, 0.3, 0.1], 0.45)
    found = fitted("y ~ z", data, mechanism)
    (message,) = [d.message for d in found.diagnostics if d.code == "several-maxima"]
    assert "second maximum lies only" in message
    assert "'z[T.b]' is" in message
    start = [float(v) for v in message.split("start=[")[1].rstrip("]").split(",")]
    other = fitted("y ~ z", data, mechanism, start=start)
    assert 0 < found.log_likelihood - other.log_likelihood < 2
    assert np.abs(other.estimate - found.estimate).max() > 1
    assert other.facts["Starts"] == "1"
    again = fitted("y ~ z", data, mechanism)
    np.testing.assert_array_equal(found.estimate, again.estimate)
    assert found.diagnostics == again.diagnostics


def test_a_clear_fit_needs_one_start() -> None:
    data, mechanism = released(1, 1000, [0.4, 0.3, 0.3], 0.8)
    found = fitted("y ~ z", data, mechanism)
    assert found.facts["Starts"] == "1"
    assert not found.diagnostics


def test_exchanged_labels_are_the_same_distribution() -> None:
    """With columns of P that are equal, no relabeling changes the likelihood."""
    from pramana.analysis.task import Task
    from pramana.estimators.likelihood.maximum import Likelihood, observed_likelihood
    from pramana.estimators.likelihood.observed import Theta
    from pramana.estimators.likelihood.starts import relabeled

    data, _ = released(1, 200, [0.4, 0.3, 0.3], 0.8)
    blind = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(LEVELS[:3], keep=1 / 3 + 1e-7)})
    for formula, covariates in (("y ~ z * x", "x"), ("y ~ z + sex", "saturated")):
        model = observed_likelihood(Likelihood(covariate_model=covariates), Task.read(pr.glm(formula), data, blind))
        rng = np.random.default_rng(1)
        gamma = rng.normal(size=model.covariates.start().shape)
        beta = rng.normal(size=model.data.design.shape[2])
        state = model.evaluate(Theta(beta, 0.3, gamma))
        values = [s.value for s in relabeled(model, state.theta)]
        assert len(values) == 5
        np.testing.assert_allclose(values, state.value, rtol=1e-5)


def test_what_parts_of_the_records_say_of_their_levels_adds() -> None:
    """Of a covariate randomised by stratum and a response: as many rows as there are kinds of records, however many records."""
    from pramana.analysis.task import Task
    from pramana.estimators.likelihood import starts
    from pramana.estimators.likelihood.maximum import Likelihood, observed_likelihood

    data, _ = released(1, 900, [0.5, 0.3, 0.2], 0.8)
    strata = {k: pr.TransitionMatrix.randomized_response(LEVELS[:3], keep=0.6 + 0.2 * k) for k in range(2)}
    mechanism = pr.Mechanism({"z": pr.Stratified("sex", strata), "ill": pr.TransitionMatrix.binary(0.9, 0.7)})
    data = {**{k: np.asarray(v) for k, v in data.items()}, "ill": np.arange(900) % 2}

    def counts(rows: slice) -> tuple[starts.ChannelCounts, ...]:
        part = {k: v[rows] for k, v in data.items()}
        task = Task.read(pr.glm("ill ~ z + x", "binomial"), part, mechanism)
        return starts.channel_counts(observed_likelihood(Likelihood(covariate_model="x"), task))

    whole, parts = counts(slice(None)), [counts(slice(k, k + 300)) for k in range(0, 900, 300)]
    for column, kinds in enumerate((6, 2)):
        total = parts[0][column].merged() + parts[1][column] + parts[2][column]
        assert len(total.chances) == kinds
        assert total.signal == pytest.approx(whole[column].signal, rel=1e-9)


def test_a_best_maximum_that_one_climb_alone_found_says_so() -> None:
    """Four levels in two cells, one of which lacks a level: most of the maxima that were found were found once, and one climb in vain leads higher."""
    rng = np.random.default_rng(48_781_053)
    shares = 0.6 ** np.arange(4)
    cell, _, code = rng.integers(0, 2, 1500), rng.normal(size=1500), rng.choice(4, 1500, p=shares / shares.sum())
    code = np.where((cell == 0) & (code == 3), rng.integers(0, 3, 1500), code)
    rng.choice(2, 1500, p=[0.8, 0.2])
    y = rng.poisson(np.exp(np.minimum(1.25 * code + 0.15 * cell, 5)))
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(LEVELS[:4], keep=0.45)})
    data = mechanism.perturb({"z": np.array(LEVELS)[code], "cell": cell, "y": y}, seed=6160)
    found = fitted("y ~ z + cell", data, mechanism, family="poisson")
    (message,) = [d.message for d in found.diagnostics if d.code == "several-maxima"]
    assert "climbs ended at maxima that no other found, this one among them: another start may lead higher" in message
    higher = fitted("y ~ z + cell", data, mechanism, family="poisson", start=[0.0, 1.25, 2.5, 3.75, 0.15])
    assert higher.log_likelihood > found.log_likelihood + 50


def test_all_records_tell_what_the_noise_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A level that records in every third place show is rarer than they say."""
    monkeypatch.setattr("pramana.estimators.likelihood.starts.ENOUGH", 400)
    data, mechanism = released(1, 1200, [0.6, 0.395, 0.005], 0.8)
    order = np.argsort(np.asarray(data["z"]) != "c", kind="stable")
    turns = np.argsort(np.arange(1200) % 3, kind="stable")
    shown = {k: np.empty_like(np.asarray(v)) for k, v in data.items()}
    for name, values in data.items():
        shown[name][turns] = np.asarray(values)[order]
    whole, in_turns = (fitted("y ~ z", d, mechanism) for d in (data, shown))
    assert int(whole.facts["Starts"].split(",")[0]) > 10
    assert in_turns.facts["Starts"] == whole.facts["Starts"]
    np.testing.assert_allclose(in_turns.estimate, whole.estimate, rtol=1e-7)


@pytest.mark.parametrize("seed", [2, 3])
def test_climbs_that_no_longer_rise_are_given_up(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of 1 and 100 parted by x: some starts lead to where no step of EM rises, and thousands of them were tried there."""
    from pramana.estimators.likelihood.observed import ObservedLikelihood

    asked: list[Any] = []
    look = ObservedLikelihood.evaluate
    monkeypatch.setattr(ObservedLikelihood, "evaluate", lambda self, theta: asked.append(theta) or look(self, theta))
    rng = np.random.default_rng(seed)
    shares = 0.5 ** np.arange(5)
    code, x = rng.choice(5, 120, p=shares / shares.sum()), rng.normal(size=120)
    mechanism = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(LEVELS, keep=0.7)})
    data = mechanism.perturb({"z": np.array(LEVELS)[code], "x": x, "y": np.where(x > 0, 100, 1)}, seed=seed)
    assert fitted("y ~ z + x", data, mechanism, family="poisson").estimate[-1] > 1
    assert 500 < len(asked) < 5000


def noisy_response(seed: int, n: int, keep: float, intercept: float) -> tuple[dict[str, Any], pr.Mechanism]:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=n), rng.standard_t(2, size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-(intercept + x + 0.5 * w)))).astype(int)
    mechanism = pr.Mechanism({"y": pr.TransitionMatrix.binary(keep, keep)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mechanism.perturb({"y": y, "x": x, "w": w}, seed=seed), mechanism


def test_a_perturbed_response_has_several_maxima_too() -> None:
    data, mechanism = noisy_response(1, 200, 0.8, -3)
    starts = np.random.default_rng(3).normal(size=(12, 3)).tolist()
    found = fitted("y ~ x + w", data, mechanism, family="binomial")
    slow = slow_best("y ~ x + w", data, mechanism, starts, family="binomial")
    assert found.log_likelihood == pytest.approx(slow, abs=1e-4)
    assert any("second maximum" in d.message for d in found.diagnostics)


def test_a_likelihood_that_rises_higher_without_end_is_said() -> None:
    data, mechanism = noisy_response(10, 300, 0.6, 0)
    found = fitted("y ~ x + w", data, mechanism, family="binomial")
    (message,) = [d.message for d in found.diagnostics if d.code == "several-maxima"]
    assert "no maximum was found there as" in message

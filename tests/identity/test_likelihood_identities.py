"""Exact equalities of the likelihood: its score and information, its corrections for label noise, its closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.analysis.task import Task
from pramana.engines import LocalEngine, Sampling
from pramana.estimators.likelihood.maximization import em_step
from pramana.estimators.likelihood.maximum import Likelihood, observed_likelihood
from pramana.estimators.likelihood.observed import ObservedLikelihood, Theta
from pramana.estimators.likelihood.starts import maximize
from pramana.frames import read
from pramana.inference import solve

pytestmark = pytest.mark.usefixtures("large_sample")

EDU = ["low", "mid", "high"]
RESPONSE = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)})
COVARIATE = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, keep=0.8)})
BOTH = pr.Mechanism(
    {"y": pr.TransitionMatrix.binary(0.9, 0.8), "edu": pr.TransitionMatrix.randomized_response(EDU, keep=0.8)}
)


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    n = 400
    edu, x, sex = rng.integers(0, 3, n), rng.normal(size=n), rng.integers(0, 2, n)
    eta = -0.3 + 0.5 * x + 0.4 * edu
    amount = np.exp(0.3 * eta) * rng.gamma(3.0, 1 / 3, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    return {"x": x, "sex": sex, "edu": np.array(EDU)[edu], "y": y, "amount": amount}


def model_of(
    formula: str, data: dict[str, Any], mechanism: pr.Mechanism, family: str, **options: Any
) -> ObservedLikelihood:
    table = read(data)
    sampling = Sampling(table.n, np.linspace(0.5, 1.5, table.n))
    return observed_likelihood(Likelihood(**options), Task(pr.glm(formula, family), table, mechanism, sampling))


CASES: list[tuple[str, pr.Mechanism, str, dict[str, Any]]] = [
    ("y ~ x", RESPONSE, "binomial", {}),
    ("y ~ edu + sex", BOTH, "binomial", {}),
    ("y ~ x + edu", COVARIATE, "binomial", {}),
    ("amount ~ x + edu", COVARIATE, "gaussian", {"covariate_model": "x"}),
    ("amount ~ x + edu", COVARIATE, "gamma", {"covariate_model": "1"}),
    ("amount ~ x + edu", COVARIATE, "inverse-gaussian", {}),
    ("y ~ sex + edu", COVARIATE, "poisson", {"covariate_model": "saturated"}),
]
every = pytest.mark.parametrize(
    ("formula", "mechanism", "family", "options"),
    CASES,
    ids=[f"{c[2]}-{c[0]}" for c in CASES],
)


@every
def test_score_and_information_are_derivatives_of_the_log_likelihood(
    formula: str, mechanism: pr.Mechanism, family: str, options: dict[str, Any], data: dict[str, Any]
) -> None:
    model = model_of(formula, data, mechanism, family, **options)
    rng = np.random.default_rng(3)
    middle = maximize(model).best.theta
    dispersion = middle.log_dispersion + 0.1 * model.data.density.dispersed
    theta = Theta(middle.beta + 0.1 * rng.normal(size=middle.beta.size), dispersion, middle.gamma)
    state = model.evaluate(theta)
    score, information = model.score_and_information(state)
    np.testing.assert_allclose(model.weights @ model.scores(state), score, rtol=1e-10, atol=1e-9)
    step = 1e-4
    for j, unit in enumerate(np.eye(score.size)):
        up, down = (model.evaluate(model.moved(theta, sign * step * unit)) for sign in (1, -1))
        assert (up.value - down.value) / (2 * step) == pytest.approx(score[j], rel=1e-5, abs=1e-4)
        bend = (model.score_and_information(up)[0] - model.score_and_information(down)[0]) / (2 * step)
        np.testing.assert_allclose(-bend, information[:, j], rtol=1e-4, atol=1e-3)


@every
def test_the_complete_information_is_an_ascent_metric_and_what_is_left_when_nothing_is_hidden(
    formula: str, mechanism: pr.Mechanism, family: str, options: dict[str, Any], data: dict[str, Any]
) -> None:
    """The observed information is the complete one less what is missing, a variance given the released data. Where the posterior is certain
    nothing is missing: under a canonical link, where expected and observed bends agree, so do the two."""
    model = model_of(formula, data, mechanism, family, **options)
    top = maximize(model).best
    state = model.evaluate(top.theta)
    observed = model.score_and_information(state)[1]
    complete = model.complete_information(state)
    assert np.linalg.eigvalsh(complete)[0] > 0
    d = len(top.theta.beta)
    missing = np.linalg.eigvalsh(complete[d:, d:] - observed[d:, d:])
    assert missing.min(initial=0) > -1e-8 * np.abs(complete).max(), (
        "more is known of the covariates than if they were seen"
    )
    away = model.evaluate(replace(top.theta, beta=top.theta.beta + 0.01))
    score = model.score_and_information(away)[0]
    step = np.linalg.solve(model.complete_information(away), score)
    assert model.evaluate(model.moved(away.theta, step)).value > away.value
    certain = np.zeros_like(state.posterior)
    certain[np.arange(model.data.n), state.posterior.argmax(axis=1)] = 1.0
    sure = replace(state, posterior=certain)
    if (family, model.data.function.family.link) in (
        ("binomial", "logit"),
        ("gaussian", "identity"),
        ("poisson", "log"),
    ):
        np.testing.assert_allclose(
            model.complete_information(sure)[:d, :d], model.score_and_information(sure)[1][:d, :d], rtol=1e-9, atol=1e-9
        )


@every
def test_em_never_descends_and_its_limit_is_the_maximum(
    formula: str, mechanism: pr.Mechanism, family: str, options: dict[str, Any], data: dict[str, Any]
) -> None:
    model = model_of(formula, data, mechanism, family, **options)
    top = maximize(model).best
    theta = top.theta
    dispersion = 0.3 * model.data.density.dispersed
    state = model.evaluate(Theta(np.zeros_like(theta.beta) + 0.1, dispersion, model.covariates.start()))
    for _ in range(60):
        before, state = state.value, em_step(model, state)
        assert state.value >= before - 1e-9 * abs(before)
    assert state.value <= top.value + 1e-8
    again = em_step(model, model.evaluate(top.theta))
    np.testing.assert_allclose(again.theta.beta, theta.beta, atol=1e-6)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_forward_correction_is_the_likelihood_of_a_perturbed_response(link: str, data: dict[str, Any]) -> None:
    results = [
        pr.fit("y ~ x + sex", data, RESPONSE, family="binomial", link=link, method=m, inference="sandwich")
        for m in ("forward", "likelihood")
    ]
    np.testing.assert_allclose(results[0].estimate, results[1].estimate, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(results[0].covariance, results[1].covariance, rtol=1e-5, atol=1e-9)


def test_forward_correction_minimises_the_forward_loss(data: dict[str, Any]) -> None:
    from scipy.optimize import minimize

    design = np.column_stack([np.ones(400), data["x"]])
    matrix = RESPONSE.assignments[0].channel.matrix  # type: ignore[attr-defined]

    def loss(beta: np.ndarray) -> float:
        p = 1 / (1 + np.exp(-design @ beta))
        seen = np.column_stack([1 - p, p]) @ matrix.T
        return float(-np.sum(np.log(seen[np.arange(400), data["y"]])))

    expected = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).x
    found = pr.fit("y ~ x", data, RESPONSE, family="binomial", method=pr.ForwardCorrection())
    np.testing.assert_allclose(found.estimate, expected, atol=1e-5)


def test_backward_correction_is_reversion_and_minimises_the_backward_loss(data: dict[str, Any]) -> None:
    from scipy.optimize import minimize

    backward, reversion = (
        pr.fit("y ~ x", data, RESPONSE, family="binomial", method=m) for m in ("backward", "reversion")
    )
    np.testing.assert_array_equal(backward.estimate, reversion.estimate)
    np.testing.assert_array_equal(backward.covariance, reversion.covariance)
    design = np.column_stack([np.ones(400), data["x"]])
    inverse = RESPONSE.assignments[0].channel.inverse  # type: ignore[attr-defined]

    def loss(beta: np.ndarray) -> float:
        eta = design @ beta
        losses = np.column_stack([np.logaddexp(0, eta), np.logaddexp(0, -eta)])
        return float(np.sum(losses * inverse[:, data["y"]].T))

    expected = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(backward.estimate, expected, atol=1e-5)


def test_a_saturated_model_gives_the_reversion_estimate(data: dict[str, Any]) -> None:
    """Then every probability is free, and both methods solve P p = the released shares."""
    likelihood, reversion = (
        pr.fit("y ~ edu * sex", data, BOTH, family="binomial", method=m) for m in ("likelihood", "reversion")
    )
    np.testing.assert_allclose(likelihood.estimate, reversion.estimate, atol=1e-6)


def test_an_irrelevant_covariate_leaves_the_likelihood_of_the_rest(data: dict[str, Any]) -> None:
    """The likelihood of (y, edu*) is a product when y does not depend on edu."""
    plain, joint = (
        pr.fit("y ~ x", data, BOTH, family="binomial", method=pr.Likelihood(covariates=c, covariate_model="1"))
        for c in ((), ("edu",))
    )
    np.testing.assert_allclose(plain.estimate, joint.estimate, atol=1e-7)
    np.testing.assert_allclose(plain.covariance, joint.covariance, rtol=1e-5)
    shares = np.unique(data["edu"], return_counts=True)[1] / 400
    assert isinstance(plain, pr.LikelihoodResult)
    assert isinstance(joint, pr.LikelihoodResult)
    assert joint.log_likelihood - plain.log_likelihood == pytest.approx(400 * np.sum(shares * np.log(shares)))


def test_likelihood_ratio_is_that_of_statsmodels_without_noise(data: dict[str, Any]) -> None:
    import statsmodels.api as sm

    small, large = (pr.fit(f, data, None, family="binomial", method="likelihood") for f in ("y ~ x", "y ~ x + sex"))
    x = np.column_stack([np.ones(400), data["x"], data["sex"]])
    gain = 2 * (sm.Logit(data["y"], x).fit(disp=0).llf - sm.Logit(data["y"], x[:, :2]).fit(disp=0).llf)
    test = pr.lr_test(small, large)
    assert test.statistic == pytest.approx(gain, abs=1e-6)
    assert test.df == 1


def test_clusters_of_one_record_are_the_robust_sandwich(data: dict[str, Any]) -> None:
    options: dict[str, Any] = {"family": "binomial", "method": "likelihood"}
    robust = pr.fit("y ~ x + edu", data, BOTH, inference="sandwich", **options)
    clustered = pr.fit("y ~ x + edu", data, BOTH, clusters=np.arange(400), **options)
    np.testing.assert_allclose(robust.covariance, clustered.covariance, rtol=1e-10)


def test_frame_kind_and_order_of_levels_change_nothing(data: dict[str, Any]) -> None:
    turned = pr.Mechanism({"y": pr.TransitionMatrix([1, 0], [[0.9, 0.2], [0.1, 0.8]])})
    first = pr.fit("y ~ x", data, RESPONSE, family="binomial", method="likelihood")
    second = pr.fit("y ~ x", pd.DataFrame(data), turned, family="binomial", method="likelihood")
    np.testing.assert_allclose(first.estimate, second.estimate, atol=1e-8)
    third = pr.fit("y ~ x", pd.DataFrame(data), turned, family="binomial", method="forward")
    np.testing.assert_allclose(first.estimate, third.estimate, atol=1e-7)


def test_the_equation_that_simulate_solves_is_the_likelihood(data: dict[str, Any]) -> None:
    table = read(data)
    function = pr.glm("y ~ x", "binomial").prepare(table, RESPONSE.schema)
    equation = Likelihood().bind_each(function, RESPONSE, table, 1)
    result = pr.fit("y ~ x", data, RESPONSE, family="binomial", method="likelihood")
    np.testing.assert_allclose(solve(LocalEngine.of(equation)).beta, result.estimate, atol=1e-7)


def classes(rng: np.random.Generator) -> tuple[dict[str, Any], pr.Mechanism]:
    n = 600
    x = rng.normal(size=n)
    weights = np.column_stack([np.zeros(n), 0.3 + x, -0.2 - 0.5 * x])
    edu = np.argmax(weights + rng.gumbel(size=(n, 3)), axis=1)
    matrix = pr.TransitionMatrix(EDU, [[0.8, 0.15, 0.1], [0.15, 0.75, 0.2], [0.05, 0.1, 0.7]])
    codes = [rng.choice(3, p=matrix.matrix[:, k]) for k in edu]
    return {"edu": np.array(EDU)[codes], "x": x}, pr.Mechanism({"edu": matrix})


def test_forward_correction_of_several_classes_minimises_its_loss(rng: np.random.Generator) -> None:
    from scipy.optimize import minimize
    from scipy.special import softmax

    data, mechanism = classes(rng)
    design = np.column_stack([np.ones(600), data["x"]])
    rows = mechanism.assignments[0].channel.matrix[[EDU.index(e) for e in data["edu"]]]  # type: ignore[attr-defined]

    def loss(beta: np.ndarray) -> float:
        p = softmax(np.column_stack([np.zeros(600), design @ beta.reshape(2, 2).T]), axis=1)
        return float(-np.sum(np.log(np.sum(rows * p, axis=1))))

    found = pr.fit(pr.multinomial("edu ~ x"), data, mechanism, method="forward")
    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found.estimate, best.x, atol=1e-4)
    assert loss(found.estimate) <= best.fun + 1e-9


def test_forward_correction_of_several_classes_has_the_slope_of_its_score(rng: np.random.Generator) -> None:
    data, mechanism = classes(rng)
    table = read(data)
    function = pr.multinomial("edu ~ x").prepare(table, mechanism.schema)
    equation = pr.ForwardCorrection().bind(function, mechanism, table, np.ones(600)).equation
    beta, weights, step = rng.normal(size=4) / 3, rng.uniform(0.5, 1.5, 600), 1e-5
    slope = equation.score_and_slope(beta[None], weights[None])[1][0]
    for j, unit in enumerate(np.eye(4)):
        up, down = (equation.score((beta + s * step * unit)[None], weights[None])[0] for s in (1, -1))
        np.testing.assert_allclose((up - down) / (2 * step), slope[:, j], rtol=1e-6, atol=1e-5)
        single = equation.record_slopes_along(beta, np.eye(4)[:2], np.tile(unit, (2, 1)))
        assert single @ weights == pytest.approx(slope[:2, j])


def test_without_noise_every_correction_is_the_multinomial_logit(rng: np.random.Generator) -> None:
    data, _ = classes(rng)
    identity = pr.Mechanism({"edu": pr.TransitionMatrix(EDU, np.eye(3))})
    forward, backward, plain = (
        pr.fit(pr.multinomial("edu ~ x"), data, identity, method=m) for m in ("forward", "backward", "naive")
    )
    np.testing.assert_allclose(forward.estimate, plain.estimate, atol=1e-7)
    np.testing.assert_allclose(forward.covariance, plain.covariance, rtol=1e-5)
    np.testing.assert_allclose(backward.estimate, plain.estimate, atol=1e-7)

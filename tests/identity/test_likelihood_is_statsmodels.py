"""With P = I maximum likelihood is that of a generalised linear model: statsmodels must agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from test_identity_matrix_is_statsmodels import ALL, FORMULA, MECHANISM, REFERENCE, draw_response, reference

import pramana as pr
from pramana.estimating.densities import density_of
from pramana.estimating.families import FAMILIES, Family

pytestmark = pytest.mark.filterwarnings("ignore:The Log link function does not respect")
EVERY = pytest.mark.parametrize("family", ALL, ids=lambda f: f"{f.name}-{f.link}")
# Both sides stop at a relative score near 1e-8 or better.
CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-8}


@pytest.fixture
def data(family: Family, rng: np.random.Generator) -> pd.DataFrame:
    n = 300
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, n), "edu": rng.choice(["low", "mid", "high"], n)})
    frame["count"] = rng.integers(1, 4, n)
    return frame.assign(y=draw_response(family, -1.4 + 0.3 * frame["x"] + 0.2 * (frame["edu"] == "mid"), rng))


def covariate_log_likelihood(frame: pd.DataFrame, counts: np.ndarray | None = None) -> float:
    """With an intercept alone, the covariate model is the observed shares."""
    sizes = np.bincount(frame["edu"].astype("category").cat.codes, counts)
    return float(np.sum(sizes * np.log(sizes / sizes.sum())))


def response_log_likelihood(family: Family, frame: pd.DataFrame, expected: Any) -> tuple[float, float]:
    """At statsmodels' coefficients and, where the family has one, the maximum likelihood dispersion."""
    density, y, mu = density_of(family), frame["y"].to_numpy(), expected.fittedvalues
    phi = density.dispersion(y, mu, np.ones(len(y))) if density.dispersion is not None else 1.0
    if family.name not in ("gamma", "inverse-gaussian"):
        return float(expected.llf), phi
    return float(expected.family.loglike(y, mu, scale=phi)), phi


@EVERY
def test_estimates_errors_and_log_likelihood_agree(family: Family, data: pd.DataFrame) -> None:
    result = pr.fit(FORMULA, data, MECHANISM, family=family, method=pr.Likelihood(covariate_model="1"))
    expected = reference(family, data)
    value, phi = response_log_likelihood(family, data, expected)
    np.testing.assert_allclose(result.estimate, expected.params, **CLOSE)
    information = -expected.model.hessian(expected.params, scale=phi, observed=True)
    np.testing.assert_allclose(result.covariance, np.linalg.inv(information), **CLOSE)
    assert isinstance(result, pr.LikelihoodResult)
    np.testing.assert_allclose(result.log_likelihood, value + covariate_log_likelihood(data), rtol=1e-9)
    assert result.parameter_count == 4 + 2 + int(density_of(family).dispersed)
    assert result.aic == pytest.approx(2 * result.parameter_count - 2 * result.log_likelihood)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "log"])
def test_an_identity_matrix_on_the_response_gives_the_logit_of_statsmodels(link: str, rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, 300)
    frame = pd.DataFrame({"x": x, "y": (rng.random(300) < np.exp(-1 + 0.3 * x)).astype(int)})
    identity = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=1, specificity=1)})
    result = pr.fit("y ~ x", frame, identity, family="binomial", link=link, method="likelihood")
    model = sm.GLM(frame["y"], sm.add_constant(x), family=REFERENCE["binomial", link])
    expected = model.fit(start_params=model.fit().params, method="newton", tol=1e-14, maxiter=100, disp=0)
    np.testing.assert_allclose(result.estimate, expected.params, **CLOSE)
    information = -model.hessian(expected.params, observed=True)
    np.testing.assert_allclose(result.covariance, np.linalg.inv(information), **CLOSE)
    assert isinstance(result, pr.LikelihoodResult)
    assert result.log_likelihood == pytest.approx(expected.llf, rel=1e-10)
    assert result.aic == pytest.approx(expected.aic, rel=1e-10)


@pytest.mark.parametrize(
    "family", [FAMILIES["binomial", "logit"], FAMILIES["gaussian", "identity"]], ids=["logit", "gaussian"]
)
def test_a_clean_fit_is_the_glm_and_a_sandwich_is_hc0(family: Family, data: pd.DataFrame) -> None:
    ordered = data.assign(edu=pd.Categorical(data["edu"], categories=["low", "mid", "high"]))
    result = pr.fit(FORMULA, ordered, None, family=family, method="likelihood", inference=pr.Sandwich("HC0"))
    expected = reference(family, data, cov_type="HC0")
    np.testing.assert_allclose(result.estimate, expected.params, **CLOSE)
    np.testing.assert_allclose(result.covariance, expected.cov_params(), **CLOSE)
    assert isinstance(result, pr.LikelihoodResult)
    assert result.log_likelihood == pytest.approx(expected.llf)


@pytest.mark.parametrize(
    "family", [FAMILIES["binomial", "logit"], FAMILIES["gaussian", "identity"]], ids=["logit", "gaussian"]
)
def test_frequencies_are_repeated_rows_and_weights_scale_out(family: Family, data: pd.DataFrame) -> None:
    noisy = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "mid", "high"], keep=0.9)})
    repeated = data.loc[data.index.repeat(data["count"])].reset_index(drop=True)
    counted, long = (
        pr.fit("y ~ edu", frame, noisy, family=family, method="likelihood", frequencies=f)
        for frame, f in ((data, "count"), (repeated, None))
    )
    np.testing.assert_allclose(counted.estimate, long.estimate, **CLOSE)
    np.testing.assert_allclose(counted.covariance, long.covariance, **CLOSE)
    weighted = pr.fit("y ~ edu", data, noisy, family=family, method="likelihood", weights="count")
    np.testing.assert_allclose(weighted.estimate, counted.estimate, **CLOSE)
    assert weighted.inference.startswith("robust sandwich")

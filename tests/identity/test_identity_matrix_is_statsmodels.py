"""With P = I the estimator is an ordinary generalised linear model: statsmodels must agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.stats.sandwich_covariance import cov_white_simple

import pramana as pr
from pramana.estimating.families import FAMILIES, Family

pytestmark = pytest.mark.filterwarnings("ignore:The Log link function does not respect")
links = sm.families.links
DISPERSION = 0.7
REFERENCE: dict[tuple[str, str], Any] = {
    ("gaussian", "identity"): sm.families.Gaussian(),
    ("binomial", "logit"): sm.families.Binomial(),
    ("binomial", "probit"): sm.families.Binomial(links.Probit()),
    ("binomial", "cloglog"): sm.families.Binomial(links.CLogLog()),
    ("binomial", "log"): sm.families.Binomial(links.Log()),
    ("poisson", "log"): sm.families.Poisson(),
    ("gamma", "log"): sm.families.Gamma(links.Log()),
    ("inverse-gaussian", "log"): sm.families.InverseGaussian(links.Log()),
    ("negative-binomial", "log"): sm.families.NegativeBinomial(alpha=DISPERSION),
}
ALL: list[Family] = [*FAMILIES.values(), pr.negative_binomial(DISPERSION)]
EVERY = pytest.mark.parametrize("family", ALL, ids=lambda f: f"{f.name}-{f.link}")
# Both sides stop at a relative score near 1e-10; covariances are accurate to the same order.
CLOSE = {"rtol": 1e-8, "atol": 1e-10}
MECHANISM = pr.Mechanism({"edu": pr.TransitionMatrix(["low", "mid", "high"], np.eye(3))})
FORMULA = "y ~ x + edu"


def draw_response(family: Family, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mean = family.curve(eta)[0]
    if family.name == "binomial":
        return (rng.random(eta.size) < mean).astype(float)
    if family.name in ("poisson", "negative-binomial"):
        return rng.poisson(mean).astype(float)
    return eta + rng.normal(size=eta.size) if family.name == "gaussian" else rng.gamma(2.0, mean / 2)


@pytest.fixture
def data(family: Family, rng: np.random.Generator) -> pd.DataFrame:
    n = 150
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-1, 1, n),
            "edu": rng.choice(["low", "mid", "high"], n),
            "village": rng.integers(0, 25, n),
            "count": rng.integers(1, 4, n),
            "weight": rng.uniform(0.5, 2, n),
            "exposure": rng.uniform(-0.3, 0.0, n),
        }
    )
    # Low enough for the log-binomial, whose fitted means must stay below 1.
    return frame.assign(y=draw_response(family, -1.4 + 0.3 * frame["x"] + 0.2 * (frame["edu"] == "mid"), rng))


def design(frame: pd.DataFrame) -> np.ndarray:
    edu = frame["edu"]
    return np.column_stack([np.ones(len(frame)), frame["x"], edu == "mid", edu == "high"]).astype(float)


def reference(family: Family, frame: pd.DataFrame, offset: Any = None, **covariance: Any) -> Any:
    """Newton on the observed information, which is the slope of the score for every link."""
    model = sm.GLM(frame["y"].to_numpy(), design(frame), family=REFERENCE[family.name, family.link], offset=offset)
    first = model.fit(tol=1e-12, maxiter=500)
    options = {"method": "newton", "maxiter": 100, "tol": 1e-14, "disp": 0}
    return model.fit(start_params=first.params, **options, **covariance)


def assert_same(result: pr.Result, expected: Any) -> None:
    np.testing.assert_allclose(result.estimate, expected.params, **CLOSE)
    np.testing.assert_allclose(result.covariance, expected.cov_params(), **CLOSE)


def test_every_family_has_a_reference() -> None:
    assert {(f.name, f.link) for f in ALL} == set(REFERENCE)


@EVERY
def test_hc0_agrees(family: Family, data: pd.DataFrame) -> None:
    result = pr.fit(FORMULA, data, MECHANISM, family=family, inference=pr.Sandwich("HC0"))
    assert_same(result, reference(family, data, cov_type="HC0"))


@EVERY
def test_hc1_agrees(family: Family, data: pd.DataFrame) -> None:
    result = pr.fit(FORMULA, data, MECHANISM, family=family, inference=pr.Sandwich("HC1"))
    # GLM.fit(cov_type="HC1") leaves n/(n − d) out; this is the function that it calls, asked to put it in.
    expected = cov_white_simple(reference(family, data), use_correction=True)
    np.testing.assert_allclose(result.covariance, expected, **CLOSE)


@pytest.mark.parametrize("family", [FAMILIES["gaussian", "identity"]], ids=["gaussian"])
def test_hc1_of_a_linear_model_is_that_of_ordinary_least_squares(family: Family, data: pd.DataFrame) -> None:
    result = pr.fit(FORMULA, data, MECHANISM, inference=pr.Sandwich("HC1"))
    assert_same(result, sm.OLS(data["y"].to_numpy(), design(data)).fit(cov_type="HC1"))


@EVERY
@pytest.mark.parametrize("corrected", [False, True])
def test_clusters_agree(family: Family, data: pd.DataFrame, corrected: bool) -> None:
    inference = pr.Sandwich("HC1" if corrected else "HC0")
    result = pr.fit(FORMULA, data, MECHANISM, family=family, clusters="village", inference=inference)
    keywords = {"groups": data["village"].to_numpy(), "use_correction": corrected}
    assert_same(result, reference(family, data, cov_type="cluster", cov_kwds=keywords))


@EVERY
@pytest.mark.parametrize("corrected", [False, True])
def test_frequencies_are_repeated_rows(family: Family, data: pd.DataFrame, corrected: bool) -> None:
    inference = pr.Sandwich("HC1" if corrected else "HC0")
    result = pr.fit(FORMULA, data, MECHANISM, family=family, frequencies="count", inference=inference)
    repeated = data.loc[data.index.repeat(data["count"])].reset_index(drop=True)
    expected = reference(family, repeated)
    assert result.n == len(repeated)
    np.testing.assert_allclose(result.estimate, expected.params, **CLOSE)
    np.testing.assert_allclose(result.covariance, cov_white_simple(expected, use_correction=corrected), **CLOSE)


@EVERY
def test_offsets_agree(family: Family, data: pd.DataFrame) -> None:
    result = pr.fit(FORMULA + " + offset(exposure)", data, MECHANISM, family=family, inference=pr.Sandwich("HC0"))
    assert_same(result, reference(family, data, offset=data["exposure"].to_numpy(), cov_type="HC0"))


@EVERY
def test_a_clean_fit_is_the_fit_with_the_identity_matrix(family: Family, data: pd.DataFrame) -> None:
    ordered = data.assign(edu=pd.Categorical(data["edu"], categories=["low", "mid", "high"]))
    clean, kept = pr.fit(FORMULA, ordered, None, family=family), pr.fit(FORMULA, data, MECHANISM, family=family)
    assert clean.parameters == kept.parameters
    np.testing.assert_allclose(clean.estimate, kept.estimate, **CLOSE)
    np.testing.assert_allclose(clean.covariance, kept.covariance, **CLOSE)


def sandwich_by_hand(family: Family, frame: pd.DataFrame, beta: np.ndarray) -> np.ndarray:
    """J⁻¹ Σ w² uuᵀ J⁻ᵀ with J by differences of the weighted score; sampling weights are squared in the middle."""
    x, w = design(frame), frame["weight"].to_numpy()

    def scores(b: np.ndarray) -> np.ndarray:
        mu, _, a, _ = family.curve(x @ b)
        return x * (a * (frame["y"].to_numpy() - mu) * w)[:, None]

    h = 1e-5
    slope = np.column_stack([(scores(beta + h * e) - scores(beta - h * e)).sum(axis=0) / (2 * h) for e in np.eye(4)])
    bread = np.linalg.inv(slope)
    return bread @ scores(beta).T @ scores(beta) @ bread.T


@EVERY
def test_sampling_weights_agree_with_a_sandwich_by_hand(family: Family, data: pd.DataFrame) -> None:
    result = pr.fit(FORMULA, data, MECHANISM, family=family, weights="weight", inference=pr.Sandwich("HC0"))
    # Differences with step 1e-5 are good to about 1e-9, relative.
    np.testing.assert_allclose(result.covariance, sandwich_by_hand(family, data, result.estimate), rtol=1e-6, atol=1e-9)


@EVERY
def test_weighted_estimates_agree_with_weighted_statsmodels(family: Family, data: pd.DataFrame) -> None:
    result = pr.fit(FORMULA, data, MECHANISM, family=family, weights="weight", inference=pr.Sandwich("HC0"))
    model = sm.GLM(
        data["y"].to_numpy(),
        design(data),
        family=REFERENCE[family.name, family.link],
        freq_weights=data["weight"].to_numpy(),
    )
    np.testing.assert_allclose(result.estimate, model.fit(tol=1e-14, maxiter=1000).params, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "log"])
def test_an_identity_matrix_on_the_response_changes_nothing(link: str, rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, 200)
    columns = {"x": x, "y": (rng.random(200) < np.exp(-1 + 0.3 * x)).astype(int)}
    identity = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=1, specificity=1)})
    clean, kept = (pr.fit("y ~ x", columns, m, family="binomial", link=link) for m in (None, identity))
    np.testing.assert_allclose(kept.estimate, clean.estimate, **CLOSE)
    np.testing.assert_allclose(kept.covariance, clean.covariance, **CLOSE)

"""What the noise has left nothing of is reported, for every estimator that takes a regression apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pramana as pr

MECHANISM = pr.Mechanism({"b": pr.TransitionMatrix.binary(0.7, 0.7)})
SYSTEMS: dict[str, Any] = {
    "without an intercept": pr.glm("y ~ 0 + b"),
    "factored": pr.glm("y ~ b"),
    "quantile regression": pr.quantile_regression("y ~ b", 0.5),
    "negative binomial": "count ~ b",
    "margins": pr.margins("count ~ b", "b", family="poisson"),
    "ordinal": pr.ordinal("grade ~ b"),
    "instruments": pr.two_stage_least_squares("y ~ x + b | z + b"),
    "doubly robust": pr.average_treatment_effect("y", "t", "b"),
    "inverse probability": pr.average_treatment_effect("y", "t", "b", estimator="ipw"),
}


def released(ones: int, n: int = 100) -> dict[str, Any]:
    """A share of ones below 0.3 is less than the noise alone gives."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=n)
    b = np.repeat([0, 1], [n - ones, ones])
    return {
        "b": b,
        "y": rng.normal(size=n),
        "count": rng.poisson(5, n) + rng.integers(0, 9, n),
        "grade": rng.integers(0, 3, n),
        "t": rng.integers(0, 2, n),
        "z": z,
        "x": z + rng.normal(size=n),
    }


def fitted(what: Any, data: dict[str, Any]) -> pr.Result:
    return pr.fit(what, data, MECHANISM, **{"family": "negative-binomial"} if isinstance(what, str) else {})


def codes(result: pr.Result) -> dict[str, str]:
    return {d.code: d.message for d in result.diagnostics if "identified" in d.code}


@pytest.mark.parametrize("what", SYSTEMS.values(), ids=SYSTEMS)
def test_a_negative_reverted_share_is_reported(what: Any) -> None:
    found = codes(fitted(what, released(5)))
    assert list(found) == ["not-identified"]
    assert "b'" in found["not-identified"]


@pytest.mark.parametrize("what", SYSTEMS.values(), ids=SYSTEMS)
def test_a_share_well_inside_is_not(what: Any) -> None:
    assert codes(fitted(what, released(1000, 2000))) == {}


def test_a_quantile_of_few_clean_records_is_not_weak() -> None:
    data = {"wage": [w + (w % 7) for w in range(100)], "age": range(100)}
    assert codes(pr.fit(pr.quantile_regression("wage ~ age", 0.5), data, None)) == {}


def test_equations_of_different_kinds_have_no_curvature_to_judge() -> None:
    def groups(beta: Any, b: Any, y: Any) -> Any:
        ratio = np.full(len(y), beta[2] - np.exp(beta[1] - beta[0]))
        return np.column_stack([(b == 0) * (y - beta[0]), (b == 1) * (y - beta[1]), ratio])

    what = pr.from_callable(groups, ["low", "high", "ratio"])
    assert codes(pr.fit(what, released(1000, 2000), MECHANISM)) == {}


def test_a_likelihood_reports_a_level_that_is_not_there() -> None:
    found = codes(pr.fit("y ~ b", released(5), MECHANISM, method="likelihood"))
    assert list(found) == ["not-identified"]
    assert "'b'" in found["not-identified"]
    assert "'Intercept'" not in found["not-identified"]


def test_a_likelihood_reports_what_few_records_would_have_said_as_well() -> None:
    assert list(codes(pr.fit("y ~ b", released(35), MECHANISM, method="likelihood"))) == ["weakly-identified"]
    assert codes(pr.fit("y ~ b", released(1000, 2000), MECHANISM, method="likelihood")) == {}


def test_a_sandwich_of_the_likelihood_is_judged_by_its_information() -> None:
    result = pr.fit("y ~ b", released(5), MECHANISM, method="likelihood", inference="sandwich")
    assert list(codes(result)) == ["not-identified"]


def clustered(size: int) -> dict[str, Any]:
    """Sixty clusters with an effect of their own each."""
    rng = np.random.default_rng(3)
    n = 60 * size
    fe, b, x = np.repeat(np.arange(60), size), rng.integers(0, 2, n), rng.normal(size=n)
    y = x + b + rng.normal(size=60)[fe] + rng.normal(size=n)
    return {"y": y, "x": x, "b": np.where(rng.random(n) < 0.7, b, 1 - b), "fe": [f"g{k:02d}" for k in fe]}


@pytest.mark.parametrize("mechanism", [None, MECHANISM])
def test_fixed_effects_of_the_clusters_are_not_weak(mechanism: pr.Mechanism | None) -> None:
    """One cluster carries the intercept, or a level's own effect: it does not tell how well the covariates are identified."""
    data = clustered(60)
    for what in ("y ~ x + b + fe", "y ~ 0 + fe + x + b"):
        assert codes(pr.fit(what, data, mechanism, clusters="fe")) == {}


def test_a_covariate_that_noise_has_left_little_of_is_weak_beside_fixed_effects() -> None:
    data = clustered(20)
    rng = np.random.default_rng(1)
    data["b"] = (rng.random(1200) < 0.32).astype(int)
    found = codes(pr.fit("y ~ x + b + fe", data, MECHANISM, clusters="fe"))
    assert len(found) == 1
    assert "'b'" in next(iter(found.values()))

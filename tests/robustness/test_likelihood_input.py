"""Likelihoods that cannot be had are refused in words; edges of the parameter space are reported."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

import pramana as pr

EDU = ["low", "mid", "high"]
RESPONSE = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.8)})
COVARIATE = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(EDU, keep=0.8)})


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    n = 300
    edu, x = rng.integers(0, 3, n), rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)
    return {"x": x, "edu": np.array(EDU)[edu], "y": y, "amount": x + edu + rng.normal(size=n), "w": np.ones(n)}


def fitted(formula: str, data: dict[str, Any], mechanism: pr.Mechanism | None, **options: Any) -> pr.Result:
    return pr.fit(formula, data, mechanism, **{"family": "binomial", "method": "likelihood", **options})


def test_what_is_no_formula_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(pr.FormulaError, match="needs a formula and a family"):
        pr.fit(pr.mean("y"), data, RESPONSE, method="likelihood")


def test_a_perturbed_response_needs_a_discrete_family(data: dict[str, Any]) -> None:
    with pytest.raises(pr.FormulaError, match="has a density over all numbers"):
        fitted("y ~ x", data, RESPONSE, family="gaussian")


def test_resampling_and_score_intervals_are_refused(data: dict[str, Any]) -> None:
    with pytest.raises(pr.PramanaError, match="takes no resampling"):
        fitted("y ~ x", data, RESPONSE, inference="resampling")
    with pytest.raises(pr.PramanaError, match="has Wald intervals"):
        fitted("y ~ x", data, RESPONSE, inference=pr.Sandwich(interval="score"))


def test_separation_is_an_error_that_names_the_term(data: dict[str, Any]) -> None:
    data["sharp"] = data["y"].astype(float)
    with pytest.raises(pr.SolveError, match=r"'sharp'.*separation"):
        fitted("y ~ sharp", data, COVARIATE)
    with pytest.raises(pr.SolveError, match="no maximum"):
        fitted("y ~ sharp", data, RESPONSE)


@pytest.mark.parametrize(("mechanism", "advice"), [(RESPONSE, "try start="), (COVARIATE, "Merge levels")])
def test_em_that_stalls_says_how_far_it_came(
    mechanism: pr.Mechanism, advice: str, data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pramana.estimators.likelihood.maximization.ROUNDS", 1)
    monkeypatch.setattr("pramana.estimators.likelihood.maximization._newton", lambda _model, state: (state, None, 3))
    with pytest.raises(pr.SolveError, match=rf"no maximum .* after \d+ EM and 3 Newton steps: .*{advice}"):
        fitted("y ~ x + edu" if mechanism is COVARIATE else "y ~ x", data, mechanism)


def test_a_perfect_linear_fit_has_no_likelihood(data: dict[str, Any]) -> None:
    data["exact"] = 1 + 2 * data["x"]
    with pytest.raises(pr.SolveError, match=r"no residual|no maximum"):
        fitted("exact ~ x", data, None, family="gaussian")


def test_a_level_that_nobody_has_lies_at_the_edge(rng: np.random.Generator) -> None:
    n = 600
    sex, edu = rng.integers(0, 2, n), rng.integers(0, 2, n)
    true = {"sex": sex, "edu": np.array(EDU)[edu], "amount": edu + 0.5 * rng.normal(size=n)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [COVARIATE.perturb(true, seed=s) for s in range(8)]
    method = pr.Likelihood(covariates=("edu",))
    results = [fitted("amount ~ sex", d, COVARIATE, family="gaussian", method=method) for d in found]
    edges = [r for r in results if any(d.code == "boundary" for d in r.diagnostics)]
    assert edges, "with no true 'high', some samples must put its probability at zero"
    assert all(np.all(np.isfinite(r.standard_errors)) for r in results)


def test_covariate_models_that_cannot_be_had_are_refused(data: dict[str, Any]) -> None:
    for model, message in (
        ("edu", "uses 'edu'"),
        ("y", "uses 'y'"),
        ("offset(x)", "uses an offset|no terms"),
        (3, "must be"),
    ):
        with pytest.raises(pr.PramanaError, match=message):
            fitted("y ~ x + edu", data, COVARIATE, method=pr.Likelihood(covariate_model=model))  # type: ignore[arg-type]
    many = data | {"z": np.arange(300) * 1.0}
    with pytest.raises(pr.PramanaError, match="form 300 cells, too many"):
        fitted("y ~ z + edu", many, COVARIATE, method=pr.Likelihood(covariate_model="saturated"))
    with pytest.raises(pr.PramanaError, match="'x' is not a perturbed column"):
        fitted("y ~ edu", data, COVARIATE, method=pr.Likelihood(covariates=("x",)))


def test_a_joint_channel_needs_all_its_columns(data: dict[str, Any]) -> None:
    levels = [(y, e) for y in (0, 1) for e in EDU]
    joint = pr.Mechanism({("y", "edu"): pr.TransitionMatrix.randomized_response(levels, keep=0.8)})
    with pytest.raises(pr.MechanismError, match="'edu' is not in"):
        fitted("y ~ x", data, joint)
    assert fitted("y ~ x + edu", data, joint).parameters[-1] == "edu[T.high]"


def test_shares_have_no_likelihood(data: dict[str, Any]) -> None:
    data["share"] = np.full(300, 0.5)
    with pytest.raises(pr.DataError, match="shares"):
        fitted("share ~ x", data, None)


def test_too_few_records_and_missing_values_of_the_covariate_model(data: dict[str, Any]) -> None:
    few = {k: v[:2] for k, v in data.items()}
    with pytest.raises(pr.PramanaError):
        fitted("y ~ x", few, RESPONSE)
    data["age"] = np.where(np.arange(300) == 5, np.nan, 1.0 * np.arange(300))
    method = pr.Likelihood(covariate_model="age")
    with pytest.raises(pr.DataError, match=r"1 of 300 records have missing values, in 'age' \(1\): use missing='drop'"):
        fitted("y ~ x + edu", data, COVARIATE, method=method)
    found = fitted("y ~ x + edu", data, COVARIATE, method=method, missing="drop")
    assert (found.n, [d.code for d in found.diagnostics]) == (299, ["missing-dropped"])


def test_likelihood_ratio_tests_that_mean_nothing_are_refused(data: dict[str, Any]) -> None:
    small, large = fitted("y ~ x", data, COVARIATE), fitted("y ~ x + edu", data, COVARIATE)
    with pytest.raises(pr.PramanaError, match="different things"):
        pr.lr_test(small, large)
    with pytest.raises(pr.PramanaError, match="two fits with method='likelihood'"):
        pr.lr_test(pr.fit("y ~ x", data, RESPONSE, family="binomial"), large)
    inner, outer = fitted("y ~ 1", data, RESPONSE), fitted("y ~ x", data, RESPONSE)
    with pytest.raises(pr.PramanaError, match="smaller model first"):
        pr.lr_test(outer, inner)
    weighted = fitted("y ~ x", data, RESPONSE, weights="w")
    with pytest.raises(pr.PramanaError, match="pseudo-likelihood"):
        pr.lr_test(inner, weighted)
    assert json.loads(json.dumps(weighted.to_dict()))["likelihood"]["aic"] is None


def test_a_nested_model_keeps_the_perturbed_covariate(data: dict[str, Any]) -> None:
    method = pr.Likelihood(covariates=("edu",), covariate_model="x")
    small, large = (fitted(f, data, COVARIATE, method=method) for f in ("y ~ x", "y ~ x + edu"))
    assert pr.lr_test(small, large).df == 2


def test_corrections_for_label_noise_say_what_they_need(data: dict[str, Any]) -> None:
    for formula, mechanism, family, message in (
        ("y ~ x", RESPONSE, "gaussian", "family='binomial'"),
        ("y ~ edu", COVARIATE, "binomial", "in the response 'y' alone"),
    ):
        with pytest.raises(pr.PramanaError, match=message):
            pr.fit(formula, data, mechanism, family=family, method="forward")
    strata = {0: pr.TransitionMatrix.binary(0.9, 0.9), 1: pr.TransitionMatrix.binary(0.8, 0.8)}
    stratified = pr.Mechanism({"y": pr.Stratified("s", strata)})
    data["s"] = np.arange(300) % 2
    with pytest.raises(pr.MechanismError, match="one transition matrix"):
        pr.fit("y ~ x", data, stratified, family="binomial", method="forward")
    assert fitted("y ~ x", data, stratified).n == 300


def test_a_stratum_that_the_covariate_model_leaves_out_is_reported(data: dict[str, Any]) -> None:
    strata = {k: pr.TransitionMatrix.randomized_response(EDU, keep=p) for k, p in ((0, 0.8), (1, 0.9))}
    data["s"] = np.arange(300) % 2
    mechanism = pr.Mechanism({"edu": pr.Stratified("s", strata)})
    told = fitted("y ~ x + edu", data, mechanism, method=pr.Likelihood(covariate_model="x"))
    silent = fitted("y ~ x + edu", data, mechanism)
    assert [d.code for d in told.diagnostics] == ["stratum-ignored"]
    assert not silent.diagnostics


def test_specification_tests_that_cannot_be_had_are_refused(data: dict[str, Any]) -> None:
    for formula, mechanism, family, message in (
        ("y ~ 1", RESPONSE, "binomial", "coincide"),
        ("y ~ edu", COVARIATE, "binomial", "coincide"),
        ("y ~ x", COVARIATE, "binomial", "no column of the formula is perturbed"),
    ):
        with pytest.raises(pr.PramanaError, match=message):
            pr.specification_test(formula, data, mechanism, family=family)


def test_compare_adds_the_likelihood_whatever_the_others_use(data: dict[str, Any]) -> None:
    both = pr.compare(
        "y ~ x",
        data,
        RESPONSE,
        ("reversion", "likelihood", "forward"),
        family="binomial",
        inference=pr.Resampling(draws=50, seed=1),
    )
    assert list(both.results) == ["reversion", "likelihood", "forward correction"]
    assert "observed information" in both["likelihood"].inference


def test_a_table_of_counts_is_enough(data: dict[str, Any]) -> None:
    cells = [(y, e, s) for y in (0, 1) for e in EDU for s in (0, 1)]
    columns = dict(zip(("y", "edu", "s"), map(np.array, zip(*cells, strict=True)), strict=True))
    counts = np.arange(20, 20 + 5 * len(cells), 5)
    counted = fitted("y ~ edu + s", columns, COVARIATE, frequencies=counts)
    repeated = fitted("y ~ edu + s", {k: np.repeat(v, counts) for k, v in columns.items()}, COVARIATE)
    assert counted.facts["Covariate model"] == repeated.facts["Covariate model"] == "saturated given s"
    np.testing.assert_allclose(counted.estimate, repeated.estimate, atol=1e-7)
    np.testing.assert_allclose(counted.covariance, repeated.covariance, rtol=1e-6)


def many_columns(columns: int, n: int) -> tuple[dict[str, Any], pr.Mechanism]:
    levels, rng = list("abcde"), np.random.default_rng(3)
    data = {f"x{j}": np.array(levels)[rng.integers(0, 5, n)] for j in range(columns)}
    channel = pr.TransitionMatrix.randomized_response(levels, keep=0.8)
    return data | {"y": rng.normal(size=n), "w": rng.normal(size=n)}, pr.Mechanism(dict.fromkeys(data, channel))


@pytest.mark.parametrize(
    ("columns", "n", "clean", "message"),
    [
        (12, 2000, "", "244140625 combinations of levels: 2000 records .* exceed the limit"),
        (4, 2000, "", "625 combinations of levels, too many for 2000 records"),
        (3, 1000, " + w", "multinomial logit on w. has 248 coefficients .* too many for 1000 records"),
    ],
)
def test_too_many_combinations_are_refused_before_they_are_listed(
    columns: int, n: int, clean: str, message: str
) -> None:
    data, mechanism = many_columns(columns, n)
    formula = "y ~ " + " + ".join(mechanism.columns) + clean
    with pytest.raises(pr.DataError, match=message):
        fitted(formula, data, mechanism, family="gaussian")


def test_a_multinomial_logit_beyond_the_effort_limit_is_refused(
    data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pramana.estimators.likelihood.covariate_model.EFFORT_LIMIT", 100)
    with pytest.raises(pr.DataError, match=r"5e\+03 multiplications a step exceed the limit of 1e\+02"):
        fitted("amount ~ x + edu", data, COVARIATE, family="gaussian")


@pytest.mark.parametrize(
    ("small", "large", "message"),
    [
        (
            {"formula": "y ~ w"},
            {"formula": "y ~ x + amount"},
            r"\(Intercept, w\) cannot be recognised as part .* no term 'w'",
        ),
        (
            {"formula": "y ~ x", "link": "logit"},
            {"formula": "y ~ x + amount", "link": "probit"},
            "logit link against y, bin",
        ),
    ],
)
def test_only_nested_models_of_one_link_are_compared(
    small: dict[str, str], large: dict[str, str], message: str, data: dict[str, Any]
) -> None:
    data["w"] = np.arange(300) % 7
    fits = [fitted(one.pop("formula"), data, RESPONSE, **one) for one in (dict(small), dict(large))]
    with pytest.raises(pr.PramanaError, match=message):
        pr.lr_test(*fits)


def test_few_clusters_are_reported(data: dict[str, Any]) -> None:
    for inference, enough in ((pr.Sandwich("HC0"), 40), (None, 5)):
        few = fitted("y ~ x", data, RESPONSE, clusters=np.arange(300) % (enough - 1), inference=inference)
        many = fitted("y ~ x", data, RESPONSE, clusters=np.arange(300) % enough, inference=inference)
        assert [d.code for d in few.diagnostics] == ["few-clusters"]
        assert many.diagnostics == ()


def test_fits_with_different_offsets_are_not_compared(data: dict[str, Any]) -> None:
    formulas = ("y ~ 1 + offset(0.1 * x)", "y ~ x")
    small, large = (pr.fit(f, data, RESPONSE, family="binomial", method="likelihood") for f in formulas)
    with pytest.raises(pr.PramanaError, match=r"0\.1 \* x"):
        pr.lr_test(small, large)


@pytest.mark.parametrize("given", ["weights", "frequencies"])
def test_records_without_weight_are_as_good_as_absent(given: str, rng: np.random.Generator) -> None:
    """Also where they fill a cell of the clean covariates."""
    a, e, y = np.repeat([0, 1, 2], 300), rng.choice(["p", "q"], 900), rng.integers(0, 2, 900)
    mechanism = pr.Mechanism({"e": pr.TransitionMatrix.randomized_response(["p", "q"], 0.85)})
    whole = {"a": a, "e": e, "y": y, "w": (a < 2).astype(int)}
    part = {name: column[a < 2] for name, column in whole.items()}
    fits = [
        pr.fit("y ~ e + a", data, mechanism, family="binomial", method="likelihood", **{given: "w"})  # type: ignore[arg-type]
        for data in (whole, part)
    ]
    np.testing.assert_allclose(fits[0].estimate, fits[1].estimate, rtol=1e-10)
    np.testing.assert_allclose(fits[0].covariance, fits[1].covariance, rtol=1e-8)
    assert fits[0].facts == fits[1].facts


def test_a_channel_that_lets_little_through_is_reported(rng: np.random.Generator) -> None:
    """A mixture has sharp maxima in the wrong place."""
    levels, n = ["low", "mid", "high"], 600
    edu = rng.choice(levels, n)
    z = rng.normal(size=n) + 4 * np.array([levels.index(v) for v in edu])
    for keep, told in ((0.4, True), (0.8, False)):
        mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(levels, keep)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            released = mechanism.perturb({"edu": edu, "z": z}, seed=1)
        result = pr.fit("z ~ edu", released, mechanism, method="likelihood")
        assert any("smallest singular value" in d.message for d in result.diagnostics) == told


def test_a_stratum_in_the_covariate_model_is_not_ignored(data: dict[str, Any]) -> None:
    keep = pr.TransitionMatrix.randomized_response
    data["l"], data["level"] = np.arange(300) % 2, np.arange(300) % 3
    data["t"] = np.where(np.arange(300) % 5 == 0, "b", "a")
    mechanism = pr.Mechanism({"t": pr.Stratified("l", {0: keep(["a", "b"], 0.9), 1: keep(["a", "b"], 0.8)})})
    for model, told in (("saturated", False), ("l", False), ("~ l", False), ("level", True)):
        method = pr.Likelihood(covariate_model=model)
        result = pr.fit("y ~ t", data, mechanism, family="binomial", method=method)
        assert any(d.code == "stratum-ignored" for d in result.diagnostics) == told

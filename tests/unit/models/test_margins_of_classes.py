"""Average effects on chances of classes, and effects at values, against slow forms of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from pramana.estimating.equation import central_slopes

MODELS = {"multinomial": pr.multinomial, "ordinal": pr.ordinal}
every = pytest.mark.parametrize("family", MODELS)


def people(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x, sex = rng.normal(size=n), rng.choice(["f", "m"], n)
    rank = np.digitize(x + 0.7 * (sex == "m") + rng.logistic(size=n), [-0.5, 1.0])
    return pd.DataFrame({"x": x, "sex": sex, "rank": rank})


def averages(model: Any, data: pd.DataFrame, beta: np.ndarray, per_record: bool = False) -> np.ndarray:
    """The slow form: chances of records that were changed, their differences averaged."""

    def chances(changed: pd.DataFrame) -> np.ndarray:
        design = model.design({c: changed[c].to_numpy() for c in ("x", "sex")}, len(changed))
        return model.chances(design, beta)[0]

    h = 1e-5
    slopes = (chances(data.assign(x=data["x"] + h)) - chances(data.assign(x=data["x"] - h))) / (2 * h)
    found = np.column_stack([slopes, chances(data.assign(sex="m")) - chances(data.assign(sex="f"))])
    return found if per_record else found.mean(axis=0)


def log_chance(model: Any, data: pd.DataFrame) -> Callable[[np.ndarray], np.ndarray]:
    """Of the rank that each record has, as a function of β."""
    design = model.design({c: data[c].to_numpy() for c in ("x", "sex")}, len(data))
    return lambda beta: np.log(model.chances(design, beta)[0][np.arange(len(data)), data["rank"]])


@pytest.mark.usefixtures("large_sample")
@every
def test_effects_and_their_errors_are_those_of_numerical_derivatives(family: str) -> None:
    data = people(100)
    fitted = pr.fit(MODELS[family]("rank ~ x + sex"), data, None)
    found = fitted.margins(data)
    model, beta = fitted.model, fitted.estimate
    assert found.parameters[:4] == ("0:effect(x)", "1:effect(x)", "2:effect(x)", "0:effect(sex: m against f)")
    np.testing.assert_allclose(found.estimate, averages(model, data, beta), atol=1e-8)
    assert found.estimate[:3].sum() == pytest.approx(0, abs=1e-12)
    gradient = central_slopes(lambda b: averages(model, data, b), beta)
    own = log_chance(model, data)
    scores = central_slopes(own, beta)
    bread = np.linalg.inv(central_slopes(lambda b: central_slopes(own, b).sum(axis=0), beta))
    each = averages(model, data, beta, per_record=True)
    influence = (each - each.mean(axis=0)) / len(data) - scores @ bread.T @ gradient.T
    np.testing.assert_allclose(found.covariance, influence.T @ influence, atol=1e-3 * np.abs(found.covariance).max())


@every
def test_margins_may_be_asked_for_in_one_step(family: str) -> None:
    data = people()
    mechanism = pr.Mechanism({"sex": pr.TransitionMatrix.randomized_response(["f", "m"], keep=0.9)})
    fitted = pr.fit(MODELS[family]("rank ~ x * sex"), data, mechanism)
    again, once = fitted.margins(data, "x"), pr.fit(pr.margins("rank ~ x * sex", "x", family), data, mechanism)
    np.testing.assert_allclose(again.estimate, once.estimate, rtol=1e-8)
    np.testing.assert_allclose(again.covariance, once.covariance, rtol=1e-6, atol=1e-12)
    assert pr.fit(f"margins(rank ~ x * sex, x, {family})", data, mechanism).parameters == once.parameters


def test_effects_at_values_are_the_differences_of_predictions() -> None:
    data = people().assign(high=lambda d: (d["rank"] == 2).astype(int))
    fitted = pr.fit("high ~ x * sex", data, None, family="binomial")
    found = fitted.margins(data, "sex", at={"x": [-1.0, 1.0]})
    assert found.parameters == ("effect(sex: m against f), x = -1.0", "effect(sex: m against f), x = 1.0")
    means = fitted.predict(pd.DataFrame({"x": [-1.0, -1.0, 1.0, 1.0], "sex": ["f", "m"] * 2}))["prediction"].to_numpy()
    np.testing.assert_allclose(found.estimate, [means[1] - means[0], means[3] - means[2]], rtol=1e-9)
    slope = fitted.margins(data, "x", at={"x": 0.5, "sex": "m"})
    h = 1e-5
    moved = fitted.predict(pd.DataFrame({"x": [0.5 - h, 0.5 + h], "sex": ["m", "m"]}))["prediction"].to_numpy()
    assert slope.estimate[0] == pytest.approx((moved[1] - moved[0]) / (2 * h), rel=1e-8)


@pytest.mark.usefixtures("large_sample")
def test_an_effect_at_values_of_everything_has_the_error_of_the_delta_method() -> None:
    """Nothing is averaged then, so that the coefficients alone vary."""
    data = people().assign(high=lambda d: (d["rank"] == 2).astype(int))
    fitted = pr.fit("high ~ x * sex", data, None, family="binomial")
    found = fitted.margins(data, "sex", at={"x": 0.7})
    rows = np.array([[1.0, 0.7, 0, 0], [1.0, 0.7, 1, 0.7]])
    rows = rows[
        :,
        [("Intercept", "x", "sex[T.m]", "x:sex[T.m]").index(t) if t != "sex[T.m]:x" else 3 for t in fitted.parameters],
    ]
    p = 1 / (1 + np.exp(-rows @ fitted.estimate))
    gradient = np.diff(p * (1 - p) * rows.T, axis=1)[:, 0]
    assert found.standard_errors[0] == pytest.approx(np.sqrt(gradient @ fitted.covariance @ gradient), rel=1e-6)


def test_levels_that_are_held_have_no_effect_of_their_own() -> None:
    data = people().assign(y=lambda d: d["x"] ** 2)
    found = pr.fit("y ~ x + sex", data, None).margins(data, at={"sex": "f"})
    assert found.parameters == ("effect(x), sex = f",)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ({"sex": "x"}, "no level of 'sex'"),
        ({"age": 1}, "no covariate"),
        ({"x": "high"}, "holds numbers"),
        ({"x": []}, "no value"),
        ({"x": [1, 1]}, "one twice"),
        ("x", "map covariates to values"),
    ],
)
def test_values_that_nobody_can_have_are_refused(at: Any, said: str) -> None:
    data = people()
    fitted = pr.fit(pr.ordinal("rank ~ x + sex"), data, None)
    with pytest.raises(pr.PramanaError, match=said):
        fitted.margins(data, "x", at=at)


def test_text_holds_values_in_braces() -> None:
    asked = pr.parameter("margins(rank ~ x + sex, x, ordinal, at={sex: [f, m], x: 1.5})")
    assert asked == pr.margins("rank ~ x + sex", "x", "ordinal", at={"sex": ["f", "m"], "x": 1.5})
    with pytest.raises(pr.PramanaError):
        pr.parameter("margins(rank ~ x, x, ordinal, at={1: 2})")

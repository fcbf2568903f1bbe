"""Chances of classes under multinomial and ordinal models, beside other programs and numerical derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

LEVELS = ["low", "mid", "high"]
NEW = {"age": [-1.0, 0.0, 2.0], "female": [0, 1, 1]}


@pytest.fixture
def people(survey: pd.DataFrame) -> pd.DataFrame:
    return survey.assign(edu=pd.Categorical(survey["edu"], LEVELS, ordered=True))


def wide(found: pr.Result, column: str) -> Any:
    return found.predict(NEW)[column].to_numpy().reshape(-1, len(LEVELS))


def test_multinomial_chances_are_those_of_statsmodels(people: pd.DataFrame) -> None:
    import statsmodels.api as sm

    ours = pr.fit(pr.multinomial("edu ~ age + female"), people, None)
    design = sm.add_constant(people[["age", "female"]].astype(float))
    theirs = sm.MNLogit(people["edu"].cat.codes, design).fit(disp=0, tol=1e-12)
    expected = theirs.predict(np.column_stack([np.ones(3), NEW["age"], NEW["female"]]))
    np.testing.assert_allclose(wide(ours, "prediction"), expected, rtol=1e-6)


def test_ordinal_chances_are_those_of_statsmodels(people: pd.DataFrame) -> None:
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    ours = pr.fit(pr.ordinal("edu ~ age + female"), people, None)
    theirs = OrderedModel(people["edu"], people[["age", "female"]].astype(float), distr="logit").fit(
        method="bfgs", disp=0, gtol=1e-9
    )
    expected = theirs.model.predict(theirs.params, exog=np.column_stack([NEW["age"], NEW["female"]]))
    np.testing.assert_allclose(wide(ours, "prediction"), expected, rtol=1e-5)


@pytest.mark.parametrize("model", [pr.multinomial, pr.ordinal])
def test_errors_are_the_delta_method_with_numerical_derivatives(model: Any, people: pd.DataFrame) -> None:
    mechanism = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(LEVELS, 0.85, kind="ordinal")})
    found = pr.fit(model("edu ~ age + female"), people.astype({"edu": str}), mechanism)
    x = np.column_stack([np.ones(3), NEW["age"], NEW["female"]])
    slopes = np.empty((3, len(LEVELS), len(found.estimate)))
    for j in range(len(found.estimate)):
        step = 1e-6 * np.eye(len(found.estimate))[j]
        high, low = (found.model.chances(x, found.estimate + s)[0] for s in (step, -step))
        slopes[:, :, j] = (high - low) / 2e-6
    expected = np.sqrt(np.einsum("nkj,jl,nkl->nk", slopes, found.covariance, slopes))
    np.testing.assert_allclose(wide(found, "std_error"), expected, rtol=1e-6)
    np.testing.assert_allclose(wide(found, "prediction").sum(axis=1), 1.0)
    low, p, high = (wide(found, c) for c in ("conf_low", "prediction", "conf_high"))
    assert np.all((low >= 0) & (low < p) & (p < high) & (high <= 1))
    assert found.predict(NEW)["class"].tolist() == LEVELS * 3
    assert found.predict(NEW)["record"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_variable_is_tested_over_all_classes(people: pd.DataFrame) -> None:
    found = pr.fit(pr.multinomial("edu ~ age + female"), people, None)
    assert found.test("age").statistic == found.test("mid:age = 0, high:age = 0").statistic
    ordered = pr.fit(pr.ordinal("edu ~ bs(age, df=3) + female"), people, None)
    assert ordered.test("age").df == 3
    with pytest.raises(pr.PramanaError, match="1 missing value"):
        found.predict({"age": [None], "female": [1]})


def test_what_has_no_formula_says_so(people: pd.DataFrame) -> None:
    with pytest.raises(pr.PramanaError, match="only regressions fitted by a formula"):
        pr.fit(pr.mean("income"), people, None).predict(people)

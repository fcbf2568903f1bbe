"""Options of fit, weights, families, users' own functions, and roots that do not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr

FORMULA = "income ~ age + edu"
ONES = np.ones(400)


def by_column(_beta: object, y: np.ndarray) -> np.ndarray:
    return y


def one(value: float) -> np.ndarray:
    """One odd weight among 400."""
    return np.r_[value, np.ones(399)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "binomal"}, "family 'binomal' is unknown: did you mean 'binomial'"),
        ({"family": "binomial", "link": "logti"}, "'binomial' has no link 'logti': did you mean 'logit'"),
        ({"family": "negative-binomial"}, "family 'negative-binomial' cannot have them"),
        ({"family": "negative-binomial", "link": "logit"}, "has link 'log', not 'logit'"),
        ({"family": pr.negative_binomial(1.0), "link": "logit"}, "link 'log', and link='logit' contradicts it"),
        ({"method": "reverson"}, "method 'reverson' is unknown: did you mean 'reversion'"),
        ({"method": 3}, r"method of type int: give a name such as 'reversion', or Reversion\(\)"),
        ({"inference": "sandwch"}, "inference 'sandwch' is unknown: did you mean 'sandwich'"),
        ({"missing": "dorp"}, "missing='dorp' is unknown: did you mean 'drop'"),
        ({"start": [1, 2]}, r"start must hold 4 finite numbers, one a parameter; it has shape \(2,\)"),
        ({"start": "abc"}, "start must hold 4 finite numbers, one a parameter, not 'abc'"),
        ({"start": [np.nan] * 4}, "start must hold 4 finite numbers"),
        ({"weights": -ONES}, r"weights hold 400 negative value\(s\), the smallest -1: the limit is 0"),
        ({"weights": ONES[:3]}, r"weights have shape \(3,\) but the data have 400 records: give one value a record"),
        ({"weights": 0 * ONES}, "weights are zero throughout: at least one must be positive"),
        ({"weights": one(np.nan)}, r"1 of 400 records have missing values, in 'weights' \(1\): use missing='drop'"),
        ({"weights": one(np.inf)}, r"weights hold 1 infinite or missing value\(s\)"),
        ({"weights": 1e-200 * ONES}, "largest of the weights is 1e-200: rescale"),
        ({"weights": "region"}, "weights must be numbers, not '(north|south)': give a numeric column"),
        ({"weights": "edu"}, "weights='edu' is a perturbed column: weights must be unperturbed"),
        ({"weights": "ag"}, "column 'ag' is not in the data: did you mean 'age'"),
        ({"weights": np.r_[1, 1, 1, np.zeros(397)]}, "3 records cannot carry 4 parameters"),
        ({"frequencies": one(1.5)}, r"frequencies hold 1 value\(s\) such as 1.5; .*whole numbers: use weights="),
        ({"frequencies": one(-1)}, "frequencies hold 1 negative .* smallest -1: the limit is 0"),
        ({"clusters": 0 * ONES}, r"clusters have 1 distinct value\(s\): .* needs at least 2"),
        ({"clusters": "edu"}, "clusters='edu' is a perturbed column"),
        ({"clusters": [None, *["a", "b", "c"] * 133]}, r"missing values, in 'clusters' \(1\)"),
        ({"method": "model1", "inference": "sandwich"}, r"nuisance model: use inference=Resampling\(\)"),
    ],
)
def test_a_wrong_option_says_what_is_wrong(
    options: dict[str, Any], message: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        pr.fit(FORMULA, survey, mechanism, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.Sandwich(correction="HC3"), "correction 'HC3' is unknown.*HC1"),
        (lambda: pr.Sandwich(interval="wlad"), "interval='wlad' is unknown: did you mean 'wald'"),
        (lambda: pr.Sandwich(level=95), "level=95 must lie between 0 and 1: for a 95 % interval give 0.95"),
        (lambda: pr.Resampling(draws=1), "draws=1 must be a whole number of at least 20"),
        (lambda: pr.Resampling(weights="expnential"), "'expnential' is unknown: did you mean 'exponential'"),
        (lambda: pr.Resampling(seed="x"), "seed='x' must be a whole number"),
        (lambda: pr.ModelDependent(link="logitt"), "'logitt' of ModelDependent is unknown: did you mean 'logit'"),
        (
            lambda: pr.margins("y ~ x", "x", "negative-binomial"),
            r"needs its dispersion: use .*negative_binomial\(dispersion\)",
        ),
        (lambda: pr.negative_binomial(-1), "positive number, not -1"),
        (lambda: pr.negative_binomial("x"), "positive number, not 'x'"),
        (lambda: pr.from_callable(3, ["m"]), "u is a int: give a function of beta and columns"),
        (lambda: pr.from_callable(lambda b: b, ["m"]), "u must take beta and at least one column"),
        (lambda: pr.from_callable(lambda *b: b, ["m"]), r"without \* or \*\*"),
        (lambda: pr.from_callable(by_column, ["m", "m"]), "name each parameter once"),
        (lambda: pr.from_callable(by_column, ["m"], start=[1, 2]), "start has 2 values for 1 parameters"),
        (lambda: pr.from_callable(by_column, ["m"], derivative="x"), "derivative='x' is unknown: use 'central'"),
    ],
)
def test_a_wrong_object_is_refused_when_it_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        make()


@pytest.mark.parametrize(
    ("u", "message"),
    [
        (lambda b, income: income - b[0], r"returned shape \(400,\) for 400 records and 1 parameters.*\(400, 1\)"),
        (lambda _, income: income[:0].sum(), r"returned shape \(\)"),
        (lambda b, income: (income - income.mean() - b[0])[:, None], "rows depend on each other.*before the fit"),
        (lambda b, income: (income / b[0])[:, None], r"infinite or not a number for 400 of 400 .*\[0.0\].*give start="),
        (lambda b, incme: (incme - b[0])[:, None], "'incme' is not in the data: did you mean 'income'"),
        (lambda _, income: np.ones((len(income), 1)), r"no root was found for 'm'.*\(limit 1e-07\)\. Try start="),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_function_says_what_is_wrong(u: Any, message: str, survey: pd.DataFrame) -> None:
    with pytest.raises(pr.PramanaError, match=message):
        pr.fit(pr.from_callable(u, ["m"]), survey, None)


def test_a_slope_of_the_wrong_shape_is_refused(survey: pd.DataFrame) -> None:
    u = pr.from_callable(
        lambda b, income: (income - b[0])[:, None], ["m"], slope=lambda _, income: -np.ones_like(income)
    )
    with pytest.raises(pr.FormulaError, match=r"slope returned shape \(400,\).*\(n, d, d\) = \(400, 1, 1\)"):
        pr.fit(u, survey, None)


def test_infinite_data_are_found_for_a_users_function(survey: pd.DataFrame) -> None:
    u = pr.from_callable(lambda b, income: (income - b[0])[:, None], ["m"])
    with pytest.raises(pr.DataError, match=r"not a number for 1 of 400 records.*clean the data"):
        pr.fit(u, survey.assign(income=one(np.inf)), None)


def test_a_step_function_has_no_sandwich(survey: pd.DataFrame) -> None:
    median = pr.from_callable(lambda b, income: ((income < b[0]) - 0.5)[:, None], ["median"], smooth=False)
    with pytest.raises(pr.PramanaError, match=r"no derivative for the sandwich: use inference=Resampling\(\)"):
        pr.fit(median, survey, None, inference="sandwich")


@pytest.mark.parametrize(
    ("response", "family", "message"),
    [
        (
            "income",
            "binomial",
            r"'income' has \d+ different values outside \[0, 1\].*family 'binomial' cannot have them; choose",
        ),
        ("income", "poisson", r"outside \[0, inf\].*family 'poisson'"),
        ("female", "gamma", r"outside \(0, inf\), such as 0.0.*family 'gamma'"),
        ("edu", "poisson", "levels 'low', 'mid', 'high' but family 'poisson' needs numbers"),
        ("edu", "binomial", "family 'binomial' needs two levels: use proportions"),
        ("region", "gaussian", "levels 'north', 'south' but family 'gaussian' needs numbers"),
    ],
)
def test_a_response_must_fit_its_family(
    response: str, family: str, message: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    with pytest.raises(pr.DataError, match=message):
        pr.fit(f"{response} ~ age", survey, mechanism, family=family)


def test_the_mean_of_text_is_refused(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    with pytest.raises(pr.DataError, match=r"'edu' holds text, such as .*use proportions\('edu'\)"):
        pr.fit(pr.mean("edu"), survey, mechanism)


def test_family_and_link_belong_to_formulas(survey: pd.DataFrame) -> None:
    with pytest.raises(pr.FormulaError, match="family and link belong to a formula: leave them out"):
        pr.fit(pr.mean("income"), survey, None, family="binomial")


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("formula", ["side ~ age", "side ~ age + edu"])
def test_perfect_separation_is_named(link: str, formula: str, survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    split = survey.assign(side=(survey["age"] > 0).astype(int))
    with pytest.raises(
        pr.SolveError, match=r"no finite root exists.*'age'.*perfect separation.*Drop or merge|no root was found"
    ):
        pr.fit(formula, split, mechanism, family="binomial", link=link)


@pytest.mark.parametrize(("value", "family"), [(1, "binomial"), (0, "binomial"), (0, "poisson")])
def test_a_response_without_variation_has_no_root(
    value: int, family: str, survey: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    with pytest.raises(pr.SolveError, match=r"no finite root exists.*'Intercept'.*use more data"):
        pr.fit("z ~ age + edu", survey.assign(z=value), mechanism, family=family)


def test_too_much_noise_for_the_data_has_no_root(survey: pd.DataFrame) -> None:
    noisy = pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "mid", "high"], 0.4)})
    with pytest.raises(pr.SolveError, match=r"no (finite root exists|root was found).*more data"):
        pr.fit("employed ~ age + edu", survey.iloc[:12], noisy, family="binomial")


def test_weights_of_zero_leave_records_out(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    kept = pr.fit(FORMULA, survey[survey["female"] == 1], mechanism)
    for option in ("weights", "frequencies"):
        result = pr.fit(FORMULA, survey, mechanism, **{option: "female"})
        np.testing.assert_allclose(result.estimate, kept.estimate, rtol=1e-9)
        np.testing.assert_allclose(result.covariance, kept.covariance, rtol=1e-8)


def test_counts_of_zero_can_be_resampled(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    result = pr.fit(FORMULA, survey, mechanism, frequencies="female", inference=pr.Resampling(draws=40, seed=1))
    assert result.draws is not None
    assert result.draws.rootless == 0


def test_clusters_may_be_text(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    by_name = pr.fit(FORMULA, survey, mechanism, clusters="region")
    by_code = pr.fit(FORMULA, survey, mechanism, clusters=(survey["region"] == "south").astype(int))
    np.testing.assert_allclose(by_name.covariance, by_code.covariance)

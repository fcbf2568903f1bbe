"""The same data described in another way give the same answer."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pramana as pr
from randomizations import random_channel, random_matrix

# The descriptions differ in the order of additions alone; roots are found to 1e-10 standard errors.
CLOSE = {"rtol": 1e-9, "atol": 1e-10}
EDU = ["low", "mid", "high"]
ORDER = [2, 0, 1]


@pytest.fixture
def matrix(rng: np.random.Generator) -> np.ndarray:
    return random_matrix(rng, 3, stay=0.9)  # mild, so that a logistic fit of 400 records has a root


def mechanism_of(levels: Any, matrix: np.ndarray) -> pr.Mechanism:
    return pr.Mechanism({"edu": pr.TransitionMatrix.from_columns(levels, matrix)})


def by_term(result: pr.Result) -> dict[str, tuple[float, float, float]]:
    shares = result.to_dict()["price_of_privacy"]
    rows = zip(result.parameters, result.estimate, result.standard_errors, shares, strict=True)
    return {term: (b, s, share["privacy_share"]) for term, b, s, share in rows}


@pytest.mark.parametrize(("response", "family"), [("income", "gaussian"), ("employed", "binomial")])
def test_the_order_of_the_levels_changes_nothing(
    response: str, family: str, survey: pd.DataFrame, matrix: np.ndarray
) -> None:
    formula = f"{response} ~ 0 + edu + age"
    given = pr.fit(formula, survey, mechanism_of(EDU, matrix), family=family)
    permuted = mechanism_of([EDU[k] for k in ORDER], matrix[np.ix_(ORDER, ORDER)])
    other = by_term(pr.fit(formula, survey, permuted, family=family))
    assert list(other) != list(given.parameters)
    for term, values in by_term(given).items():
        np.testing.assert_allclose(other[term], values, **CLOSE)


def test_the_names_of_the_levels_change_nothing(survey: pd.DataFrame, matrix: np.ndarray) -> None:
    names = {"low": "z", "mid": "m", "high": "a"}
    renamed = survey.assign(edu=survey["edu"].map(names))
    given = pr.fit("income ~ edu * age", survey, mechanism_of(EDU, matrix))
    other = pr.fit("income ~ edu * age", renamed, mechanism_of([names[v] for v in EDU], matrix))
    np.testing.assert_allclose(other.estimate, given.estimate, **CLOSE)
    np.testing.assert_allclose(other.covariance, given.covariance, **CLOSE)


def test_the_reference_level_is_a_change_of_basis(survey: pd.DataFrame, matrix: np.ndarray) -> None:
    given = pr.fit("income ~ edu", survey, mechanism_of(EDU, matrix))
    other = pr.fit("income ~ edu", survey, mechanism_of([EDU[k] for k in ORDER], matrix[np.ix_(ORDER, ORDER)]))
    intercept, mid, high = given.estimate
    np.testing.assert_allclose(other.estimate, [intercept + high, -high, mid - high], **CLOSE)


def test_proportions_do_not_depend_on_the_order_of_the_levels(survey: pd.DataFrame, matrix: np.ndarray) -> None:
    given = pr.fit(pr.proportions("edu"), survey, mechanism_of(EDU, matrix))
    other = pr.fit(pr.proportions("edu"), survey, mechanism_of([EDU[k] for k in ORDER], matrix[np.ix_(ORDER, ORDER)]))
    np.testing.assert_allclose(other.estimate, given.estimate[ORDER], **CLOSE)
    np.testing.assert_allclose(other.covariance, given.covariance[np.ix_(ORDER, ORDER)], **CLOSE)


def test_rows_and_columns_orientation_agree(survey: pd.DataFrame, matrix: np.ndarray) -> None:
    by_rows = pr.Mechanism({"edu": pr.TransitionMatrix.from_rows(EDU, matrix.T)})
    given, other = (pr.fit("income ~ edu", survey, m) for m in (mechanism_of(EDU, matrix), by_rows))
    np.testing.assert_array_equal(other.estimate, given.estimate)


@pytest.fixture
def both(rng: np.random.Generator) -> tuple[pr.Mechanism, pr.Mechanism]:
    """The same randomisation of edu and female: two channels, and one joint channel."""
    edu, female = random_channel(rng, EDU, stay=0.9), random_channel(rng, [0, 1], stay=0.9)
    joint = pr.TransitionMatrix.from_columns(list(product(EDU, [0, 1])), np.kron(edu.matrix, female.matrix))
    return pr.Mechanism({"edu": edu, "female": female}), pr.Mechanism({("edu", "female"): joint})


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("income ~ age + edu * female", "gaussian"),
        ("employed ~ age + edu + female", "binomial"),
        ("female ~ age + edu", "binomial"),
        ("income ~ age + edu", "gaussian"),
    ],
)
def test_two_columns_equal_the_joint_column_with_the_kronecker_matrix(
    formula: str, family: str, survey: pd.DataFrame, both: tuple[pr.Mechanism, pr.Mechanism]
) -> None:
    apart, together = (pr.fit(formula, survey, m, family=family) for m in both)
    np.testing.assert_allclose(together.estimate, apart.estimate, **CLOSE)
    np.testing.assert_allclose(together.covariance, apart.covariance, **CLOSE)
    np.testing.assert_allclose(together.privacy, apart.privacy, **CLOSE)


@pytest.fixture
def households(rng: np.random.Generator) -> pd.DataFrame:
    """Categorical data with many equal rows, and villages."""
    n = 600
    frame = pd.DataFrame(
        {"edu": rng.choice(EDU, n), "female": rng.integers(0, 2, n), "village": rng.integers(0, 12, n)}
    )
    chance = 0.2 + 0.2 * (frame["edu"] == "high") + 0.15 * frame["female"]
    return frame.assign(y=(rng.random(n) < chance).astype(int))


@pytest.mark.parametrize("correction", ["HC0", "HC1"])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_collapsed_duplicates_equal_rows(
    correction: Any, family: str, households: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    cells = households.groupby(["edu", "female", "y"], as_index=False).size()
    options: dict[str, Any] = {"family": family, "inference": pr.Sandwich(correction)}
    rows = pr.fit("y ~ edu + female", households, mechanism, **options)
    counted = pr.fit("y ~ edu + female", cells, mechanism, frequencies="size", **options)
    assert counted.n == rows.n == len(households)
    np.testing.assert_allclose(counted.estimate, rows.estimate, **CLOSE)
    np.testing.assert_allclose(counted.covariance, rows.covariance, **CLOSE)
    np.testing.assert_allclose(counted.privacy, rows.privacy, **CLOSE)


@pytest.mark.parametrize("correction", ["HC0", "HC1"])
def test_collapsed_duplicates_equal_rows_within_clusters(
    correction: Any, households: pd.DataFrame, mechanism: pr.Mechanism
) -> None:
    cells = households.groupby(["village", "edu", "female", "y"], as_index=False).size()
    options: dict[str, Any] = {"clusters": "village", "inference": pr.Sandwich(correction)}
    rows = pr.fit("y ~ edu + female", households, mechanism, **options)
    counted = pr.fit("y ~ edu + female", cells, mechanism, frequencies="size", **options)
    np.testing.assert_allclose(counted.estimate, rows.estimate, **CLOSE)
    np.testing.assert_allclose(counted.covariance, rows.covariance, **CLOSE)


@pytest.mark.parametrize("what", [pr.mean("y"), pr.proportions("edu")])
def test_descriptive_duplicates_equal_rows(what: Any, households: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    cells = households.groupby(["edu", "y"], as_index=False).size()
    rows, counted = pr.fit(what, households, mechanism), pr.fit(what, cells, mechanism, frequencies="size")
    np.testing.assert_allclose(counted.estimate, rows.estimate, **CLOSE)
    np.testing.assert_allclose(counted.covariance, rows.covariance, **CLOSE)


def test_the_order_of_the_rows_changes_nothing(survey: pd.DataFrame, matrix: np.ndarray) -> None:
    shuffled = survey.sample(frac=1, random_state=1)
    mild = mechanism_of(EDU, matrix)
    given, other = (pr.fit("employed ~ age * edu", f, mild, family="binomial") for f in (survey, shuffled))
    np.testing.assert_allclose(other.estimate, given.estimate, **CLOSE)
    np.testing.assert_allclose(other.covariance, given.covariance, **CLOSE)


def test_equal_sampling_weights_change_nothing(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    given = pr.fit("income ~ edu", survey, mechanism)
    other = pr.fit("income ~ edu", survey, mechanism, weights=np.full(len(survey), 7.0))
    np.testing.assert_allclose(other.estimate, given.estimate, **CLOSE)
    np.testing.assert_allclose(other.covariance, given.covariance, **CLOSE)


def test_clusters_of_one_record_are_no_clusters(survey: pd.DataFrame, mechanism: pr.Mechanism) -> None:
    given = pr.fit("income ~ edu", survey, mechanism)
    other = pr.fit("income ~ edu", survey, mechanism, clusters=np.arange(len(survey)))
    np.testing.assert_allclose(other.covariance, given.covariance, **CLOSE)

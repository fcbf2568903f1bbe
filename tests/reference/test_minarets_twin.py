"""A twin of the survey on minarets that comes with RRreg (Radukic and Musch, 2014): its design and size, people who are invented.

The stochastic lie detector (Moshagen, Musch and Erdfelder, 2012) with randomisation probabilities 2/12 and 10/12, 1621 respondents, political
orientation from −5 to 5 and age. The documentation of RRreg fits the prevalence with the honest share (RRuni) and a logistic regression (RRlog),
by maximum likelihood, which is written out here.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import pramana as pr

N, HONEST = 1621, 0.8
BETA = np.array([-0.6, 0.35, 0.02])
DESIGN = pr.designs.stochastic_lie_detector("condition", {1: 2 / 12, 2: 10 / 12})
MECHANISM = pr.Mechanism({"rrt": DESIGN})


@pytest.fixture(scope="module")
def minarets() -> pd.DataFrame:
    rng = np.random.default_rng(2014)
    left_right, age = np.clip(np.rint(rng.normal(0, 2, N)), -5, 5), np.rint(rng.uniform(18, 80, N))
    data = pd.DataFrame({"leftRight": left_right, "age": age, "condition": rng.integers(1, 3, N)})
    eta = np.column_stack([np.ones(N), left_right, age - 45]) @ BETA
    true = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
    yes = DESIGN.chances(np.array([HONEST]))[data["condition"].to_numpy() - 1, 1, true]
    return data.assign(rrt=(rng.random(N) < yes).astype(int), age_c=data["age"] - 45)


def loss(theta: np.ndarray, x: np.ndarray, data: pd.DataFrame) -> float:
    """−log L of coefficients and the logit of the honest share."""
    share, honest = 1 / (1 + np.exp(-x @ theta[:-1])), 1 / (1 + np.exp(-theta[-1]))
    yes = DESIGN.chances(np.array([honest]))[data["condition"].to_numpy() - 1, 1]
    chance = yes[:, 1] * share + yes[:, 0] * (1 - share)
    return -float(np.sum(np.log(np.where(data["rrt"] == 1, chance, 1 - chance))))


def largest(x: np.ndarray, data: pd.DataFrame) -> np.ndarray:
    start = np.append(np.zeros(x.shape[1]), 1.0)
    return np.asarray(minimize(loss, start, (x, data), method="BFGS", options={"gtol": 1e-7}).x)


def test_the_share_and_the_honest_are_the_likeliest(minarets: pd.DataFrame) -> None:
    """Two groups tell two numbers: reversion and likelihood solve the same equations."""
    found = pr.fit(pr.mean("rrt"), minarets, MECHANISM)
    best = 1 / (1 + np.exp(-largest(np.ones((N, 1)), minarets)))
    np.testing.assert_allclose(found.estimate, best, atol=1e-5)
    yes = minarets.groupby("condition")["rrt"].agg(["mean", "size"])
    variance = (yes["mean"] * (1 - yes["mean"]) / yes["size"]).to_numpy()

    def solved(shares: np.ndarray) -> np.ndarray:
        """π and t from the shares of yes: λ_g = π t + (1 − π)(1 − p_g), so that the difference of λ gives π."""
        first, second = shares
        p = np.array([2 / 12, 10 / 12])
        share = 1 - (first - second) / (p[1] - p[0])
        return np.array([share, (first - (1 - share) * (1 - p[0])) / share])

    np.testing.assert_allclose(found.estimate, solved(yes["mean"].to_numpy()), atol=1e-9)
    step = 1e-6 * np.eye(2)
    slope = np.stack([(solved(yes["mean"] + s) - solved(yes["mean"] - s)) / 2e-6 for s in step], axis=1)
    np.testing.assert_allclose(found.standard_errors, np.sqrt(slope**2 @ variance), rtol=0.02)


def test_the_logistic_regression_is_that_of_the_likelihood(minarets: pd.DataFrame) -> None:
    """As far as the two may differ, by less variance than reversion has where the likelihood is the efficient one (Hausman), and as far from the truth
    as 1621 people tell; with an honest share taken as 1 it is not."""
    found = pr.fit("rrt ~ leftRight + age_c", minarets, MECHANISM, family="binomial")
    x = np.column_stack([np.ones(N), minarets["leftRight"], minarets["age_c"]])
    best = largest(x, minarets)
    best[-1] = 1 / (1 + np.exp(-best[-1]))
    assert np.all(np.abs(found.estimate - best) < 2.5 * found.standard_errors)
    assert np.all(np.abs(found.estimate - [*BETA, HONEST]) < 3.5 * found.standard_errors)
    wrong = pr.fit(
        "rrt ~ leftRight + age_c", minarets, pr.Mechanism({"rrt": DESIGN.at(honest=0.999)}), family="binomial"
    )
    assert abs(wrong.estimate[0] - BETA[0]) > 3 * wrong.standard_errors[0]
